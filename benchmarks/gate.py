"""The gate: 2,000 tests replayed from a trace file in under 2 s after import, and memory at 1 and 10 times the file.

The configuration is block YAML, as people write it; the judgments carry verdict keys, as `evalkit judge` writes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import RUNS, fresh, told

SECONDS, GROWTH = 2.0, 1.1
N = 2_000
_CODE = """
import json, os, resource, sys, tempfile, time
from pathlib import Path
folder = Path(tempfile.mkdtemp())
os.environ["EVALKIT_CACHE"] = str(folder / "cache")
n, times, suffix, keyed = {n}, {times}, {suffix!r}, {keyed}
from evalkit.gate import GateOptions, enrich, run_gate
from evalkit.gate.reports import as_json, as_junit, as_markdown
said = {{"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3, "agreement": 1.0}}
def rows(first, last, meta):
    for at in range(first, last):
        yield {{"schema_version": 1, "type": "verdict.trace", "request_id": f"t{{at}}", "prompt": f"How long, {{at}}?",
                "context": ["The shop takes goods back for 30 days. " * 10], "response": "For 30 days. " * 20}} | meta
with (folder / "t.jsonl").open("w") as file:
    for row in rows(0, n, {{}} if keyed else {{"meta": {{"verdict": {{"judge": {{"faithfulness": said}}}}}}}}):
        file.write(json.dumps(row) + "\\n")
block = "".join(f"  - id: t{{at}}\\n    input:\\n      prompt: How long, {{at}}?\\n    expected:\\n"
                "      type: faithfulness\\n      min_score: 0.1\\n      rubric_version: v1\\n"
                "      samples: 3\\n" for at in range(n))
tests = [{{"id": f"t{{at}}", "expected": {{"type": "faithfulness", "min_score": 0.1}}}} for at in range(n)]
text = json.dumps({{"tests": tests}}, indent=1) if suffix == ".json" else "tests:\\n" + block
(folder / ("e" + suffix)).write_text(text)
if keyed:
    found = run_gate(folder / ("e" + suffix), folder / "t.jsonl", GateOptions(judge="fake:lenient")).judgments
    enrich(folder / "t.jsonl", folder / "t.jsonl", {{line: {{name: one.to_dict() for name, one in by.items()}}
                                                   for line, by in found.items()}})
with (folder / "t.jsonl").open("a") as file:
    for row in rows(n, n * times, {{"meta": {{"verdict": {{"judge": {{"faithfulness": said}}}}}}}}):
        file.write(json.dumps(row) + "\\n")
start = time.perf_counter()
result = run_gate(folder / ("e" + suffix), folder / "t.jsonl")
as_json(result), as_junit(result), as_markdown(result)
seconds = time.perf_counter() - start
assert {{one.judgment.source for test in result.tests for m in test.metrics for one in m.measured}} == {{"trace"}}
print(json.dumps({{"s": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}))
"""


def figures(times: int, suffix: str = ".yaml", *, keyed: bool = False) -> dict[str, float]:
    return fresh(_CODE.format(n=N, times=times, suffix=suffix, keyed=keyed))


def main() -> int:
    once, ten = [], []
    for _ in range(RUNS):
        once.append(figures(1))
        ten.append(figures(10))
    print(told("2,000 tests, reports included, YAML configuration", [run["s"] for run in once]))
    print(told("the same, with verdict keys to be checked", [figures(1, keyed=True)["s"]]))
    print(told("the same, JSON configuration (no bar)", [figures(1, ".json")["s"]]))
    print(told("2,000 tests of a file of 20,000 traces (no bar)", [run["s"] for run in ten]))
    print(told("peak memory, file of 2,000 traces", [run["mb"] for run in once], "MB"))
    print(told("peak memory, file of 20,000 traces", [run["mb"] for run in ten], "MB"))
    middle = sorted(run["s"] for run in once)[RUNS // 2]
    growth = sorted(run["mb"] for run in ten)[RUNS // 2] / sorted(run["mb"] for run in once)[RUNS // 2]
    print(f"bar: {middle:.3f} s < {SECONDS} s, memory x {growth:.3f} < {GROWTH}")
    return int(middle >= SECONDS or growth >= GROWTH)


if __name__ == "__main__":
    sys.exit(main())
