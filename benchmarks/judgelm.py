"""500 answers, three judges, 100 ms a reply: evalkit's jury, stored, beside LightEval's own JudgeLM.

Same server, rows and number of calls; each run is a process of its own, the two take turns, medians count. Cold:
nothing is stored, and imports are not measured. Warm: the same once more in the same process; JudgeLM keeps nothing on
its openai back end, so it calls again. JudgeLM has ten calls in flight, some 15 s a run: three runs of it are enough.
Needs the stub server (see `stub.py`) and the extra lighteval.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, told
from stub import RUBRIC, control, needed_folder, rows, stub_server

import evalkit as ek

N = 500
MODELS = ("judge-a", "judge-b", "judge-c")
RUNS = {"evalkit": 5, "JudgeLM": 3}
Verdicts = Callable[[], list[list[bool | None]]]


def judged_by_evalkit(base: str, items: list[dict[str, Any]], cache: str) -> Verdicts:
    """Verdicts by judge, from a jury with its replies in a cache."""
    import evalkit.engine.providers.openai  # noqa: F401  # imports are not measured, for JudgeLM neither

    judges = [ek.Judge("openai", model, base_url=f"{base}/v1") for model in MODELS]
    ek.judge(items[:1], RUBRIC, "fake:strict", samples=1, item_id="id", cache=Path(cache, "warm"))

    def run() -> list[list[bool | None]]:
        table = ek.judge(items, RUBRIC, judges, samples=1, item_id="id", cache=cache, progress=False)
        return [table.loc[table["judge"] == judge.name, "passed"].tolist() for judge in judges]

    return run


def judged_by_judgelm(base: str, items: list[dict[str, Any]]) -> Verdicts:
    """Verdicts by judge, from one JudgeLM each, with the prompts that evalkit sends."""
    os.environ["OPENAI_API_KEY"] = "unset"  # JudgeLM has a client made that wants one
    import openai  # noqa: F401  # as above
    from lighteval.metrics.utils.llm_as_judge import JudgeLM

    by_id = {str(item["id"]): item for item in items}

    def template(question: str, answer: str, options: object, gold: object) -> list[dict[str, str]]:
        del answer, options, gold
        prompt = ek.build_prompt(RUBRIC, by_id[question])
        return [{"role": message.role, "content": message.content} for message in prompt.messages]

    form = ek.build_prompt(RUBRIC, items[0]).form
    scale = RUBRIC.criteria[0].scale

    def passed(reply: str) -> bool | None:
        return {0: False, 1: True}.get(ek.parse_reply(reply, form, scale).code)

    lms = [JudgeLM(model, template, passed, "openai", url=f"{base}/v1", max_tokens=512) for model in MODELS]
    nothing = [None] * len(items)

    def run() -> list[list[bool | None]]:
        return [lm.evaluate_answer_batch(list(by_id), nothing, nothing, nothing)[0] for lm in lms]

    return run


def run_once(name: str, base: str) -> None:
    """Both passes of one of the two; every verdict must be the row's truth. Prints the figures."""
    items = rows(needed_folder(), N)
    truth = [row["truth"] for row in items]
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as cache:
        run = judged_by_evalkit(base, items, cache) if name == "evalkit" else judged_by_judgelm(base, items)
        for turn in ("cold", "warm"):
            control(base, "/_reset", {})
            used, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
            verdicts = run()
            figures[f"{turn}_s"] = time.perf_counter() - started
            now = resource.getrusage(resource.RUSAGE_SELF)
            figures[f"{turn}_cpu_s"] = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
            assert [list(map(bool, judge)) for judge in verdicts] == [truth] * len(MODELS), f"{name}: wrong verdicts"
            seen = control(base, "/_stats")
            figures[f"{turn}_paid"], figures[f"{turn}_in_flight"] = seen["paid"], seen["max_in_flight"]
    print("RESULT " + json.dumps(figures), flush=True)


def run(name: str, base: str) -> dict[str, float]:
    """Figures of one process."""
    command = [sys.executable, __file__, "--once", name, base]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(done.stderr)
    return dict(json.loads(lines[0][7:]))


def main() -> int:
    """Run both in turn and print medians and ratios."""
    folder = needed_folder()
    if importlib.util.find_spec("lighteval") is None:
        print("skipped: the extra lighteval is not installed")
        return 0
    print(f"{N} answers, {len(MODELS)} judges, 100 ms (load before: {os.getloadavg()[0]:.1f})")
    seen: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    with stub_server(folder, latency_ms=100) as base:
        for turn in range(max(RUNS.values())):
            for name, runs in RUNS.items():
                if turn < runs:
                    seen[name].append(run(name, base))
    for name, runs in seen.items():
        for turn in ("cold", "warm"):
            print(told(f"  {name}, {turn}", [one[f"{turn}_s"] for one in runs]))
            print(told(f"  {name}, {turn}, CPU", [one[f"{turn}_cpu_s"] for one in runs]))
            print(f"    {runs[-1][f'{turn}_paid']:.0f} paid, {runs[-1][f'{turn}_in_flight']:.0f} in flight at most")
    ours, theirs = ({key: statistics.median(one[key] for one in runs) for key in runs[0]} for runs in seen.values())
    assert ours["cold_paid"] == theirs["cold_paid"] == N * len(MODELS)
    met = bar("cold, as a share of JudgeLM", ours["cold_s"] / theirs["cold_s"], 0.25)
    met &= bar("CPU, cold, as a share of JudgeLM", ours["cold_cpu_s"] / theirs["cold_cpu_s"], 0.5)
    met &= bar("warm, as a share of JudgeLM", ours["warm_s"] / theirs["warm_s"], 0.02)
    met &= bar("calls of the second pass", ours["warm_paid"], 0)
    return int(not met)


if __name__ == "__main__":
    if "--once" in sys.argv:
        run_once(sys.argv[2], sys.argv[3])
        sys.exit(0)
    sys.exit(main())
