"""The gate: 2,000 tests replayed from a trace file in under 2 s after import, and memory at 1 and 10 times the file."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import RUNS, fresh, told

SECONDS, GROWTH = 2.0, 1.1
N = 2_000
_CODE = """
import json, resource, sys, tempfile, time
from pathlib import Path
folder = Path(tempfile.mkdtemp())
n, times, suffix = {n}, {times}, {suffix!r}
said = {{"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3, "agreement": 1.0}}
with (folder / "t.jsonl").open("w") as file:
    for at in range(n * times):
        row = {{"schema_version": 1, "type": "verdict.trace", "request_id": f"t{{at}}", "prompt": f"How long, {{at}}?",
               "context": ["The shop takes goods back for 30 days. " * 10], "response": "For 30 days. " * 20,
               "meta": {{"verdict": {{"judge": {{"faithfulness": said}}}}}}}}
        file.write(json.dumps(row) + "\\n")
tests = [{{"id": f"t{{at}}", "expected": {{"type": "faithfulness", "min_score": 0.85}}}} for at in range(n)]
(folder / ("e" + suffix)).write_text(json.dumps({{"tests": tests}}, indent=1))
from evalkit.gate import run_gate
from evalkit.gate.documents import as_json, as_junit, as_markdown
start = time.perf_counter()
result = run_gate(folder / ("e" + suffix), folder / "t.jsonl")
as_json(result), as_junit(result), as_markdown(result)
seconds = time.perf_counter() - start
assert result.counts["pass"] == n
print(json.dumps({{"s": seconds, "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}}))
"""


def figures(times: int, suffix: str = ".json") -> dict[str, float]:
    return fresh(_CODE.format(n=N, times=times, suffix=suffix))


def main() -> int:
    once, ten = [], []
    for _ in range(RUNS):
        once.append(figures(1))
        ten.append(figures(10))
    print(told("2,000 tests, reports included, JSON configuration", [run["s"] for run in once]))
    print(told("the same, YAML configuration (no bar)", [figures(1, ".yaml")["s"]]))
    print(told("peak memory, file of 2,000 traces", [run["mb"] for run in once], "MB"))
    print(told("peak memory, file of 20,000 traces", [run["mb"] for run in ten], "MB"))
    middle = sorted(run["s"] for run in once)[RUNS // 2]
    growth = sorted(run["mb"] for run in ten)[RUNS // 2] / sorted(run["mb"] for run in once)[RUNS // 2]
    print(f"bar: {middle:.3f} s < {SECONDS} s, memory x {growth:.3f} < {GROWTH}")
    return int(middle >= SECONDS or growth >= GROWTH)


if __name__ == "__main__":
    sys.exit(main())
