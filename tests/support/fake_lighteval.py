"""Stands in for LightEval's process: the same words, variables and files; what it does is written in the model's name.

``model_name=good,sleep=0.2`` waits, ``slow_unless=FILE`` until there is one; ``child=1`` starts a process that stays,
``child=new`` in a session of its own; ``stubborn=1`` ignores SIGTERM; ``fail=3`` ends so; ``details=1`` saves samples;
``cut=results|details|receipts`` leaves files cut short; ``empty=1`` answers nothing; ``lose=TASK`` leaves a task out;
``receipts=no`` none of them; ``metric=NAME`` adds a figure; ``unjudged=TASK`` notes a task that nobody judges,
``unknown=TASK`` one of which nobody knows what scores it, ``facts=no`` notes none; ``unread=1`` leaves all replies
unread; ``questions``, ``golds``, ``weights``, ``served``, ``fingerprint`` and ``template`` say what they are,
``better=low`` that low is good.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

STAMP = "2026-01-31T12-00-00.000001"
SAMPLES = 8


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="+")
    parser.add_argument("--custom-tasks")
    parser.add_argument("--output-dir", type=Path)
    parser.add_argument("--save-details", action="store_true")
    parser.add_argument("--max-samples", type=int)
    parser.add_argument("--num-fewshot-seeds")
    args = parser.parse_args()
    words = args.words[-2].split(",")
    model = dict(part.split("=", 1) for part in words) if "=" in words[0] else {"model_name": "m"}
    tasks = args.words[-1].split(",")
    seen = {name: value for name, value in os.environ.items() if name.startswith(("EVALUATOR_", "EVALKIT_TASK"))}
    (args.output_dir / "seen.json").write_text(json.dumps({"environment": seen, "words": sys.argv[1:]}))
    print("fake: begun", flush=True)
    if model.get("child"):
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=model["child"] == "new"
        )
    if model.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while "slow_unless" in model and not Path(model["slow_unless"]).exists():
        time.sleep(0.05)
    for step in range(int(float(model.get("sleep", 0)) / 0.05)):
        print(f"fake: step {step}", flush=True)
        time.sleep(0.05)
    if "fail" in model:
        print("RuntimeError: \x1b[31mthe model is not there\x1b[0m", flush=True)
        return int(model["fail"])
    write(args.output_dir, model, [task for task in tasks if task.split("|")[0] != model.get("lose")], args.max_samples)
    return 0


def write(output: Path, model: dict[str, str], tasks: list[str], max_samples: int | None) -> None:
    name, n_samples = model["model_name"], min(max_samples or SAMPLES, SAMPLES)
    shift = float(model.get("shift", 0))
    place = output / "results" / "org" / name
    place.mkdir(parents=True, exist_ok=True)
    results = {}
    for at, task in enumerate(tasks):
        scores = samples(at, n_samples, shift)
        known = [score for score in scores if score is not None]
        mean = sum(known) / len(known) if known else float("nan")
        results[task.replace("|", ":")] = {
            "quality": mean,
            "quality_stderr": 0.1,
            "quality_pass_rate": 0.5,
            "quality_coverage": len(known) / len(scores),
            "length": float(at),
        }
    if "metric" in model:
        results[tasks[0].replace("|", ":")][model["metric"].replace("NUL", "\0")] = 0.5
    if model.get("details"):
        save_details(output, model, tasks, n_samples, shift)
    save_receipts(tasks, model)
    text = json.dumps({"results": {**results, "all": {"quality": 0.5}}, "config_general": {"model_name": name}})
    text = text[: len(text) // 2] if model.get("cut") == "results" else text
    (place / f"results_{STAMP}.json").write_text(text, encoding="utf-8")


def samples(at: int, n_samples: int, shift: float) -> list[float | None]:
    """Of four samples the third is unscored; the rest are 0, 0.25 …, moved."""
    return [
        None if number % 4 == 2 else min(1.0, number / 8 + at / 16 + shift * (number % 2))
        for number in range(n_samples)
    ]


def save_details(output: Path, model: dict[str, str], tasks: list[str], n_samples: int, shift: float) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for at, task in enumerate(tasks):
        folder = output / "details" / "org" / model["model_name"] / STAMP
        folder.mkdir(parents=True, exist_ok=True)
        answer = "" if model.get("empty") else "an answer <b>"
        rows = [
            {
                "doc": {"id": str(number), "query": f"question {number}", "task_name": task},
                # a metric with several figures has them in a mapping, as LightEval saves it
                "metric": {"quality": {"quality": score, "quality_error": ""}, "length": float(at)},
                "model_response": {"text": [answer], "input": "x"},
            }
            for number, score in enumerate(samples(at, n_samples, shift))
        ]
        if model.get("shuffled"):
            rows.reverse()
        file = folder / f"details_{task}_{STAMP}.parquet"
        parquet.write_table(pa.Table.from_pylist(rows), file)
        if model.get("cut") == "details":
            file.write_bytes(file.read_bytes()[:-40])


def save_receipts(tasks: list[str], model: dict[str, str]) -> None:
    """As `evalkit.runs.contract.receipts.write_receipt` writes them, without the time it takes to import."""
    bound = os.environ.get("EVALKIT_TASK_BINDINGS", "{}")
    bindings = json.loads(Path(bound).read_text(encoding="utf-8") if bound.startswith("/") else bound)
    config = json.loads(os.environ.get("EVALUATOR_SCORING_CONFIG", "{}"))
    judges = [
        {
            "name": f"{judge['judge_backend']}:{judge['judge_model_name']}", "provider": judge["judge_backend"],
            "service": "local", "model": judge["judge_model_name"], "weight": judge.get("weight", 1),
            "temperature": 1.0,
            "max_tokens": 512, "template": "default@v1", "template_hash": model.get("template", "a") * 64,
        }
        for judge in config.get("judges", [])
    ]  # fmt: skip
    mode = os.environ.get("EVALUATOR_SCORING_MODE", "deterministic")
    is_left = mode != "deterministic" and model.get("receipts") != "no"
    none_of_them = (model.get("unjudged"), model.get("unknown"))
    counts = {"n_judgments": 24, "n_scored": 18, "reasons": {"timeout": 6}}
    if model.get("unread"):
        counts = {"n_judgments": 24, "n_scored": 0, "reasons": {"unreadable": 23, "timeout": 1}}
    told = {name: {value: 24} for name in ("served", "fingerprint") if (value := model.get(name))}
    told = {name.replace("print", "prints"): value for name, value in told.items()}
    judges = [{**judge, **counts, **told} for judge in judges]
    receipts = {
        task: [
            {
                "task": task, "metric": "quality", "scoring_mode": mode,
                "plugin": binding.get("plugin"), "plugin_version": binding.get("plugin_version"),
                "plugin_hash": binding.get("plugin_hash"), "rubric": "quality", "rubric_version": "v1",
                "rubric_hash": "b" * 64, "judges": judges, "samples": 3, "vote": "mean", "aggregation": "mean",
                "quorum": 0.5, "n_items": 8,
                "n_scored": 0 if model.get("unread") else 6, "n_empty": 0, "n_judgments": 24, "n_unscored": 6,
                "n_live": 24, "n_cached": 0, "cost_usd": 0.01, "evalkit_version": "0",
            }
        ]
        for task in tasks
        if is_left and (binding := bindings.get(task.split("|")[0])) and task.split("|")[0] not in none_of_them
    }  # fmt: skip
    facts = {
        task: {
            "documents": {
                "n": 8, "ids": "i", "questions": model.get("questions", "q"), "golds": model.get("golds", "g")
            },
            "metrics": {
                "quality": {
                    "scorer": "unknown" if name == model.get("unknown")
                    else "judge" if name in bindings and name != model.get("unjudged") else "own",
                    "higher_is_better": model.get("better") != "low",
                },
                "length": {"scorer": "own", "higher_is_better": True},
            },
        }
        for task in tasks
        if (name := task.split("|")[0])
    }  # fmt: skip
    if model.get("facts") != "no":
        place = Path(os.environ["EVALUATOR_RECEIPT_PATH"])
        identity = {"weights": "sha256:" + model.get("weights", "a") * 64}
        content = {"schema_version": 1, "model": identity, "tasks": facts}
        place.with_name("receipts.facts.json").write_text(json.dumps(content), encoding="utf-8")
    if not is_left:
        return
    text = json.dumps({"schema_version": 1, "tasks": receipts})
    text = text[:-30] if model.get("cut") == "receipts" else text
    Path(os.environ["EVALUATOR_RECEIPT_PATH"]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
