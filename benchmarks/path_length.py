"""Functions and files of evalkit that one call of `judge` runs: cold (nothing is stored) and warm (all is cached).

Run it alone: ``python benchmarks/path_length.py [--list] [--doors]``. It counts what runs between the call and its
table, in all threads: ``judge(items, rubric, jury, samples=3)`` with a list of dicts, a loaded rubric and two judges.
Imports do not count, nor do functions of other packages; a comprehension belongs to its function. ``--doors`` counts
`evaluate`, a gate's replay, a metric inside LightEval and a run of the tuner as well; these have no limits.
"""

from __future__ import annotations

import argparse
import inspect
import io
import json
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import evalkit as ek

HOUSE = Path(ek.__file__).parent
MOST = {"cold": (236, 38), "warm": (92, 21)}
ITEMS = [{"question": f"What is {n} + {n}?", "answer": str(2 * n), "reference": str(2 * n)} for n in range(12)]


def functions_of(call: Callable[[], Any]) -> set[tuple[str, str]]:
    """File (relative to evalkit) and qualified name of each function of evalkit that runs during a call."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and not _is_importing(frame):
            codes.add(frame.f_code)

    threading.setprofile(note)  # threads that start from now on: the store's and the event loop's
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return {
        (str(file.relative_to(HOUSE)), code.co_qualname)
        for code in codes.copy()  # a thread may still run
        if (file := Path(code.co_filename)).is_relative_to(HOUSE) and not _is_inline(code)
    }


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module of evalkit is being imported, and this function runs for its top level."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and Path(frame.f_code.co_filename).is_relative_to(HOUSE):
            return True
        frame = frame.f_back
    return False


def _is_inline(code: CodeType) -> bool:
    """Whether a code object is no function that somebody wrote: a module, a class body, a comprehension."""
    is_function = bool(code.co_flags & inspect.CO_NEWLOCALS)
    return not is_function or (code.co_name.startswith("<") and code.co_name != "<lambda>")


def room_of(file: str) -> str:
    """The room of a file: ``engine/calls``, ``core``, …"""
    parts = Path(file).parts
    return "/".join(parts[:-1][:2]) or parts[0]


def measured() -> dict[str, set[tuple[str, str]]]:
    """The functions of a cold and of a warm call, in this order, in an empty cache."""

    _ = ek.judge  # imports its module, whose decorators are not part of the path
    rubric, jury = ek.load_rubric("correctness"), [ek.Judge.of("fake:strict"), ek.Judge.of("fake:lenient")]

    def judge() -> None:
        ek.judge(ITEMS, rubric, jury, samples=3)

    with tempfile.TemporaryDirectory() as folder:
        os.environ["EVALKIT_CACHE"] = folder
        return {"cold": functions_of(judge), "warm": functions_of(judge)}


SUITE = """tests:
  - {id: sum, input: {prompt: 'What is 2 + 2?', context: ['2 + 2 is 4']}, expected: {type: faithfulness, min_score: 0}}
"""
TRACE = {
    "schema_version": 1, "type": "verdict.trace", "request_id": "sum",
    "prompt": "What is 2 + 2?", "context": ["2 + 2 is 4"], "response": "4",
}  # fmt: skip


def measured_doors() -> dict[str, set[tuple[str, str]]]:
    """The functions of other calls: `evaluate`, ``evalkit ci``, `judge_metric` in LightEval, a run of the tuner."""
    from lighteval.models.model_output import ModelResponse
    from lighteval.tasks.requests import Doc

    from evalkit.cli import main as command
    from evalkit.lighteval import judge_metric

    jury = ["fake:strict", "fake:lenient"]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        os.environ["EVALKIT_CACHE"] = folder
        suite, traces = Path(folder) / "eval.yaml", Path(folder) / "traces.jsonl"
        suite.write_text(SUITE)
        traces.write_text(json.dumps(TRACE) + "\n")
        files = ["--config", str(suite), "--trace-file", str(traces)]
        command(["judge", *files, "--judge", "fake:strict"])
        judged = {"judges": [{"judge_backend": "fake", "judge_model_name": "strict"}]}
        os.environ |= {"EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_SCORING_CONFIG": json.dumps(judged)}
        metric = judge_metric("correctness")
        docs = [
            Doc(query=row["question"], choices=[""], gold_index=0, task_name="sums|0",
                specific={"reference_answer": row["reference"]})
            for row in ITEMS
        ]  # fmt: skip
        answers = [ModelResponse(text=[row["answer"]]) for row in ITEMS]
        tuner = ek.RubricTuner(ITEMS, "correctness", jury, folder=folder)
        return {
            "evaluate, cold": functions_of(lambda: str(ek.evaluate(ITEMS, "correctness", jury, progress=False))),
            "evaluate, warm": functions_of(lambda: str(ek.evaluate(ITEMS, "correctness", jury, progress=False))),
            "evalkit ci": functions_of(lambda: command(["ci", *files])),
            "metric, cold": functions_of(lambda: metric.compute_sample(responses=answers, docs=docs)),
            "metric, warm": functions_of(lambda: metric.compute_sample(responses=answers, docs=docs)),
            "tuner's first run": functions_of(tuner.run),
            "tuner, warm": functions_of(tuner.run),
        }


def main() -> int:
    """Print the figures; 1 if a path is longer than `MOST` allows, else 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every function")
    parser.add_argument("--doors", action="store_true", help="count evaluate, ci, a metric and the tuner too")
    arguments = parser.parse_args()
    listed = arguments.list
    exit_code = 0
    for name, functions in measured().items():
        files = {file for file, _ in functions}
        most_functions, most_files = MOST[name]
        if len(functions) > most_functions or len(files) > most_files:
            exit_code = 1
        print(f"{name}: {len(functions)} functions (at most {most_functions}) in {len(files)} files ({most_files})")
        rooms = Counter(room_of(file) for file, _ in functions)
        for room, n in sorted(rooms.items()):
            n_files = len({file for file in files if room_of(file) == room})
            print(f"  {room:<24} {n:>4} in {n_files}")
        if listed:
            for file, function in sorted(functions):
                print(f"    {file:<44} {function}")
    for name, functions in measured_doors().items() if arguments.doors else []:
        print(f"{name}: {len(functions)} functions in {len({file for file, _ in functions})} files")
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
