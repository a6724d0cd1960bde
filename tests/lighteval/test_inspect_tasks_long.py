"""`lighteval eval`: LightEval's own tasks, epochs and reducers, and what is refused; by real processes on loopback."""

from __future__ import annotations

import json
import math
import os
import random
import re
import statistics
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commandline import environment
from lighteval_parts import make_llama
from places import ROOT
from servers import judge_server
from warm_process import WarmProcess

pytest.importorskip("lighteval")
pytest.importorskip("inspect_ai")

import lighteval_rows
import numpy as np
from inspect_ai.log import read_eval_log
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc, SamplingMethod

from evalkit.evaluation.lighteval_rows import unjudged_row
from evalkit.inspect.scorers import score_of
from evalkit.lighteval import judge_metric
from evalkit.lighteval.inspect_tasks import Figure, _own_figures, _task_scorer
from evalkit.lighteval.metrics import RubricScore
from evalkit.runs.contract.receipts import read_facts, read_receipts

# --- reducers: figures of generated logs, by hand -------------------------------------------------------------------

REDUCERS: dict[str, Callable[[list[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "mode": lambda values: Counter(values).most_common(1)[0][0],
    "max": max,
    "at_least_2": lambda values: float(sum(value >= 1 for value in values) >= 2),
    # 1 minus the share of the pairs of answers that hold no right one; undefined below two answers
    "pass_at_2": lambda values: (
        1 - math.comb(sum(value < 1 for value in values), 2) / math.comb(len(values), 2)
        if len(values) > 1
        else math.nan
    ),
}


class _Number(SampleLevelComputation):
    def compute(self, doc: Any, model_response: Any, **_: Any) -> float:
        return float(model_response.final_text[0])


def _metric() -> SampleLevelMetric:
    return SampleLevelMetric("number", True, SamplingMethod.GENERATIVE, _Number(), np.mean)


def _judged_row(value: float) -> dict[str, Any]:
    from evalkit.rubrics import load_rubric

    row = unjudged_row("correctness", load_rubric("correctness"), "timeout", report_disagreement=False)
    if math.isnan(value):
        return row
    return row | {"correctness": value, "correctness_passed": value >= 1, "correctness_error": ""}


def test_items_not_answers_are_counted_and_reducers_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    receipts: list[tuple[int, int]] = []
    monkeypatch.setattr(
        RubricScore, "leave_receipt", lambda _s, _t, rows, items, **_: receipts.append((len(rows), len(items)))
    )
    rng = random.Random(38)
    kinds = [(_task_scorer(_metric()), "number", lambda value: {"number": value}),
             (_task_scorer(judge_metric("correctness")), "correctness", _judged_row)]  # fmt: skip
    for at in range(360):
        scorer, name, row = kinds[at % 2]
        reducer, n_epochs, n_items = rng.choice([*REDUCERS]), rng.randint(2, 5), rng.randint(1, 9)
        lost = rng.choice([0.0, 0.2, 0.7])
        table = [
            [math.nan if rng.random() < lost else rng.choice([0.0, 0.5, 1.0]) for _ in range(n_epochs)]
            for _ in range(n_items)
        ]
        samples = [
            SimpleNamespace(id=item, scores={name: score_of(row(value), "a", f"{name}_")})
            for epoch in range(n_epochs) for item in range(n_items) for value in [table[item][epoch]]
        ]  # fmt: skip
        log: Any = SimpleNamespace(
            samples=samples, eval=SimpleNamespace(config=SimpleNamespace(epochs_reducer=[reducer]))
        )
        figures = _own_figures(scorer, log, "t", partial(Figure, "m", "t"))  # type: ignore[arg-type]
        figure = figures[0]
        assert [one.name for one in figures[1:]] == ["correctness_pass_rate"] * (name == "correctness")
        known = [[value for value in values if not math.isnan(value)] for values in table]
        reduced = [REDUCERS[reducer](values) for values in known if values]
        items = [value for value in reduced if not math.isnan(value)]
        n = len(items)
        assert figure.n == n
        assert figure.coverage == pytest.approx(n / n_items)
        assert (figure.n_answers, figure.all_answers) == (sum(map(len, known)), n_items * n_epochs)
        assert figure.value == pytest.approx(statistics.fmean(items) if items else math.nan, nan_ok=True)
        error = statistics.stdev(items) / math.sqrt(n) if n > 1 else math.nan
        assert figure.stderr == pytest.approx(error, nan_ok=True)
        if name == "correctness":
            assert receipts.pop() == (n_items * n_epochs, n_items)


def _log_of(rows: list[dict[str, Any]], reducer: str = "mean", epochs: int = 1) -> Any:
    samples = [SimpleNamespace(id=at // epochs, scores={"correctness": score_of(row, "a", "correctness_")})
               for at, row in enumerate(rows)]  # fmt: skip
    return SimpleNamespace(samples=samples, eval=SimpleNamespace(config=SimpleNamespace(epochs_reducer=[reducer])))


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_jury_has_its_alpha_and_its_pass_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, epochs: int) -> None:
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "jury")
    judges = [{"judge_model_name": name, "judge_backend": "fake"} for name in ("strict", "lenient", "noisy")]
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps({"judges": judges}))
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(RubricScore, "leave_receipt", lambda *_, **__: None)
    scorer: Any = _task_scorer(judge_metric("correctness"))
    texts = ["0", "1 plus 1 is 2", "no idea", "3 plus 3 is 7"]
    docs = [Doc(query=f"{i} + {i}?", choices=[""], gold_index=0, id=str(i), task_name="t|0",
                specific={"reference_answer": f"{i} plus {i} is {2 * i}"}) for i in range(4)]  # fmt: skip
    rows = scorer.compute.compute([ModelResponse(text=[text]) for text in texts], docs)
    plain = judge_metric("correctness").sample_level_fn.corpus(rows)  # of LightEval's other commands
    log = _log_of(rows, epochs=epochs)
    made = _own_figures(scorer, log, "t", partial(Figure, "m", "t"))
    figures = {figure.name: figure for figure in made}
    assert [*figures] == ["correctness", "correctness_pass_rate", "correctness_alpha"]
    alpha, rate = figures["correctness_alpha"], figures["correctness_pass_rate"]
    assert alpha.value == pytest.approx(plain["correctness_alpha"])
    assert math.isfinite(alpha.value)
    assert alpha.n == figures["correctness"].n
    if epochs == 1:
        assert (rate.value, rate.n) == (plain["correctness_pass_rate"], plain["correctness_n_verdicts"])
        assert rate.coverage == rate.n / 4


# --- real processes -------------------------------------------------------------------------------------------------

TASKS = """
import numpy as np
from inspect_ai.dataset import Sample
from inspect_ai.scorer import includes, model_graded_fact
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.lighteval_task import LightevalTaskConfig
from lighteval.tasks.requests import Doc, SamplingMethod
from evalkit.lighteval import judge_metric

class Even(SampleLevelComputation):
    def compute(self, doc, model_response, **_):
        return int(model_response.final_text[0].split()[1]) % 2 == 0

def read(row, task_name):
    return Doc(task_name=task_name, query=row["q"], instruction="Be brief. ", choices=["x"], gold_index=[0])

def sample(row):
    return Sample(input=row["q"], target="Answer 1")

def config(name, metrics, **more):
    return LightevalTaskConfig(
        name=name, prompt_function=read, hf_repo={folder!r}, hf_subset="default", hf_avail_splits=["test"],
        evaluation_splits=["test"], metrics=metrics, generation_size=64, **more)

even = SampleLevelMetric("even", True, SamplingMethod.GENERATIVE, Even(), np.mean)
TASKS_TABLE = [
    config("mixed", [judge_metric("correctness"), even], hf_filter=lambda row: row["q"] != "ITEM-9?"),
    config("own:one", [], sample_fields=sample, scorer=includes()),
    config("own:two", [], sample_fields=sample, scorer=[includes()]),
    config("graded", [], sample_fields=sample, scorer=model_graded_fact()),
    config("blue", [judge_metric("correctness"), Metrics.bleu]),
    config("likely", [judge_metric("correctness"), Metrics.loglikelihood_acc]),
    config("several", [Metrics.pass_at_k_math]),
    config("broken", [judge_metric("correctness"), Metrics.exact_match], hf_filter=lambda row: row["nope"]),
]
"""


def settings(place: Path, url: str) -> dict[str, str]:
    judge = {"judge_model_name": "judge", "judge_backend": "openai", "base_url": url}
    return {
        "EVALKIT_CACHE": str(place / "cache"), "HF_HUB_OFFLINE": "1", "HF_HOME": str(place / "hf"), "HOME": str(place),
        "XDG_CACHE_HOME": str(place / "xdg"), "XDG_DATA_HOME": str(place / "data"),
        "INSPECT_CACHE_DIR": str(place / "a"), "OPENAI_API_KEY": "sk-planted",
        "LOCAL_API_KEY": "x", "LOCAL_BASE_URL": url,
        "EVALUATOR_RECEIPT_PATH": str(place / "receipts.json"),
        "EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_SCORING_CONFIG": json.dumps({"judges": [judge], "samples": 1}),
    }  # fmt: skip


def run(
    warm: WarmProcess, place: Path, url: str, *words: str, code: int = 0
) -> tuple[dict[tuple[str, ...], list[str]], str]:
    """The rows of the table by model, task and figure, and all that was written."""
    given = ["lighteval", "eval", *words, "--model-base-url", url, "--display", "none"]
    done = warm(*given, folder=place, environ=environment(**settings(place, url)), timeout_s=400)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("openai/", "mockllm/"))]
    return {tuple(row[:3]): row[3:] for row in rows if len(row) == 7}, done.stdout + done.stderr


class Candidate:
    """Its k-th answer to an item is ``Answer <k> to ITEM-<n>.``; the judge gives that answer 0, 1 or 2, or no score."""

    def __init__(self) -> None:
        self.asked = Counter[str]()

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(body["messages"])
        number = int(re.findall(r"ITEM-(\d+)", text)[0])
        if "GRADE:" in text:
            return {"content": "GRADE: C" if body["model"] == "grader" else "I would not know."}
        if body["model"] != "judge":
            if "Be brief" not in text:  # a task with samples of its own
                return {"content": f"Answer {2 - number % 2}"}
            key = f"{body['model']} {number}"
            self.asked[key] += 1
            return {"content": f"Answer {self.asked[key]} to ITEM-{number}."}
        score = judged(number, int(re.findall(r"Answer (\d+) to", text)[-1]))
        return {"content": "Hmm." if score is None else json.dumps({"explanation": "e", "score": score})}


def judged(number: int, k: int) -> int | None:
    if number == 4 or (number, k) == (2, 3):
        return None
    return (number * k) % 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows").mkdir()
    rows = [json.dumps({"q": f"ITEM-{n}?"}) for n in range(1, 13)]
    (tmp_path / "rows" / "test.jsonl").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "tasks.py").write_text(TASKS.replace("{folder!r}", repr(str(tmp_path / "rows"))), encoding="utf-8")
    return tmp_path


def test_epochs_two_models_a_limit_and_tasks_of_all_kinds(folder: Path, warm_lighteval: WarmProcess) -> None:
    words = ["mixed,own,graded", "--custom-tasks", "tasks.py", "--epochs", "3", "--max-samples", "10"]
    models = ["openai/gpt-4o-mini", "openai/gpt-4o"]
    roles = ["--model-roles", '{"grader": "openai-api/local/grader"}']
    with judge_server(faults=Candidate()) as server:
        rows, said = run(warm_lighteval, folder, server.url, *models, *words, *roles, "--log-dir", "logs")
        again, _ = run(
            warm_lighteval,
            folder,
            server.url,
            models[0],
            *words,
            "--epochs-reducer",
            "at_least_2",
            "--log-dir",
            "logs2",
        )
    items = [n for n in range(1, 12) if n != 9]  # ten of those that the filter keeps
    means = []
    for n in items:
        scores = [judged(n, k) for k in (1, 2, 3)]
        known = [score / 2 for score in scores if score is not None]
        means += [statistics.fmean(known)] if known else []
    expected = [f"{statistics.fmean(means):.2f}", f"{statistics.stdev(means) / math.sqrt(9):.2f}", "9", "0.90"]
    for model in models:
        assert rows[model, "mixed", "correctness"] == expected
        assert rows[model, "mixed", "even"] == ["0.33", "0.00", "10", "1.00"], "of answers 1, 2, 3 one is even"
        for task in ("own:one", "own:two"):
            assert rows[model, task, "accuracy"] == ["0.50", "0.17", "10", "1.00"], "sd √(¼ · 10/9) over √10"
        assert rows[model, "own:_average", "accuracy"] == ["0.50", "0.12", "20", "1.00"], "1/6 over √2"
        assert rows[model, "graded", "accuracy"] == ["1.00", "0.00", "10", "1.00"], "graded by the role"
        assert f"{model}, mixed, correctness: 26 of 30 answers have a value." in said
    assert "Epochs: the value of an item is the mean of 3 answers." in said
    assert "grades its own answers" not in said
    counts = {(one.n_items, one.n_scored, one.n_judgments) for one in read_receipts(folder / "receipts.json")}
    assert counts == {(10, 9, 30)}
    whole = [float(sum((judged(n, k) or 0) == 2 for k in (1, 2, 3)) >= 2) for n in items if n != 4]
    assert again[models[0], "mixed", "correctness"][0] == f"{statistics.fmean(whole):.2f}"
    assert again[models[0], "graded", "accuracy"] == ["NA", "NA", "0", "0.00"], "its own grade cannot be read"
    [log] = [read_eval_log(str(path)) for path in (folder / "logs2").glob("*mixed*.eval")]
    assert log.eval.config.epochs_reducer == ["at_least_2"]


def test_what_cannot_run_is_told_in_one_message_before_a_model_is_asked(
    folder: Path, warm_lighteval: WarmProcess
) -> None:
    candidate = Candidate()
    with judge_server(faults=candidate) as server:
        words = [
            "openai/gpt-4o", "blue,likely,several@k=1@n=2,broken,mixed|2", "--custom-tasks", "tasks.py", "--log-dir",
            "l",
        ]  # fmt: skip
        _, said = run(warm_lighteval, folder, server.url, *words, code=2)
        assert "Traceback" not in said
        for part in (
            "'bleu', because its figure is not the mean",
            "'acc', because it needs log-probabilities",
            "because it needs several answers",
            "KeyError: 'nope'",
            "few-shot examples",
            "this run has 5 problems",
        ):
            assert part in said
        few = ["openai/gpt-4o", "mixed", "--custom-tasks", "tasks.py", "--epochs", "2", "--log-dir", "l2"]
        _, said = run(warm_lighteval, folder, server.url, *few, "--epochs-reducer", "at_least_5", code=2)
        assert "evalkit: error: Reducer 'at_least_5' requires 5 epochs" in said
        assert "Traceback" not in said
    assert not candidate.asked


def test_other_weights_in_the_same_folder_are_asked_and_the_facts_are_noted(
    folder: Path, warm_lighteval: WarmProcess
) -> None:
    pytest.importorskip("transformers")
    words = ["hf/llama", "own:two", "--custom-tasks", "tasks.py", "--max-samples", "3", "--max-tokens", "4"]

    def stored(logs: str, *more: str) -> tuple[int, int]:
        """The answers in Inspect's cache, and the finished tasks in the folder of logs, after a run."""
        given = ["lighteval", "eval", *words, *more, "--display=none", "--log-dir", logs]
        environ = environment(**settings(folder, "http://127.0.0.1:9/v1"))
        done = warm_lighteval(*given, folder=folder, environ=environ, timeout_s=400)
        assert done.returncode == 0, done.stderr[-3000:]
        return sum(path.is_file() for path in (folder / "a").rglob("*")), len(list((folder / logs).glob("*.eval")))

    make_llama(folder / "llama")
    assert stored("logs") == (3, 1)
    facts = read_facts(folder / "receipts.json")
    assert set(facts.model or {}) == {"hf/llama"}
    assert facts.tasks["own:two|0"].documents["n"] == 3
    assert {name: one.scorer for name, one in facts.tasks["own:two|0"].metrics.items()} == {
        "inspect_ai/includes": "unknown"
    }
    make_llama(folder / "llama", seed=8)
    answered = {path: path.read_bytes() for path in (folder / "a").rglob("*") if path.is_file()}
    assert stored("logs") == (3, 2), "neither the stored answers nor the finished task are this model's"
    assert all(path.read_bytes() != answer for path, answer in answered.items())
    other = read_facts(folder / "receipts.json")
    assert other.model != facts.model
    assert other.tasks == facts.tasks
    answered = {path: path.read_bytes() for path in answered}
    make_llama(folder / "llama")
    assert stored("more", "--reuse-answers") == (3, 1)
    assert answered == {path: path.read_bytes() for path in answered}, "the newest answers are taken, not asked for"


def test_a_finished_task_runs_again_and_with_the_flag_its_answers_are_taken(
    folder: Path, warm_lighteval: WarmProcess
) -> None:
    words = ["lighteval", "eval", "openai-api/local/tested", "mixed", "--custom-tasks", "tasks.py", "--log-dir", "logs"]
    reuse = "--reuse-answers"
    tasks = (folder / "tasks.py").read_text(encoding="utf-8")
    asked: list[str] = []

    def by_name(body: dict[str, Any]) -> dict[str, Any]:
        """The candidate answers ``Answer 1``; a judge gives every answer the score that its name ends with."""
        asked.append(body["model"])
        score = body["model"].rpartition("-")[2]
        return {"content": f'{{"explanation": "e", "score": {score}}}' if score.isdigit() else "Answer 1"}

    # judges, prompt, flag, figure, new calls of the candidate and of the judges for the 11 items
    steps = [("judge-0", "", "", "0.00", 11, 11), ("judge-2", "", reuse, "1.00", 0, 11),
             ("judge-2", "", reuse, "1.00", 0, 0), ("judge-2", "", "", "1.00", 11, 0),
             ("judge-0 judge-2", "Be rude. ", reuse, "0.50", 11, 22)]  # fmt: skip
    with judge_server(faults=by_name) as server:
        for names, prompt, flag, figure, n_asked, n_judged in steps:
            judges = [{"model": name, "provider": "openai", "base_url": server.url} for name in names.split()]
            (folder / "tasks.py").write_text(tasks.replace("Be brief. ", prompt), encoding="utf-8")
            asked.clear()
            more = ["--display", "none", *filter(None, [flag])]
            done = warm_lighteval(*words, *more, folder=folder, environ=environment(
                **settings(folder, server.url) | {
                    "EVALUATOR_SCORING_MODE": "jury" if len(judges) > 1 else "judge",
                    "EVALUATOR_SCORING_CONFIG": json.dumps({"judges": judges, "samples": 1}),
                }
            ))  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            assert (asked.count("tested"), len(asked) - asked.count("tested")) == (n_asked, n_judged), names
            assert re.findall(r"mixed +correctness +(\S+)", done.stdout) == [figure]
            [receipt] = read_receipts(folder / "receipts.json")
            assert [(one.model, one.n_scored) for one in receipt.judges] == [(name, 11) for name in names.split()]
            n = 11 * len(judges)
            assert (receipt.n_judgments, receipt.n_unscored, receipt.n_live, receipt.n_cached) == (
                n, 0, n_judged, n - n_judged
            ), "what an earlier run has paid for is not paid now"  # fmt: skip


LIST = """
import sys
from pathlib import Path
from lighteval_rows import stand_in
from evalkit.lighteval.patches import _own_tasks
found = {name: config for name, config in _own_tasks(["x"], False)[0].items() if config.sample_fields is not None}
stand_in(Path(sys.argv[1]), found.values())
print("TASKS", *found)
"""
_NEEDS = {"aa_omniscience": "a grader at Hugging Face", "ifeval": "langdetect", "ifbench_test": "langdetect, spacy",
          "ifbench_multiturn": "langdetect, spacy"}  # fmt: skip


def test_all_of_lightevals_own_tasks_run_with_their_own_rows(warm_lighteval: WarmProcess, tmp_path: Path) -> None:
    support = str(Path(lighteval_rows.__file__).parent)
    listed = warm_lighteval(
        "-c", LIST, str(tmp_path), folder=tmp_path,
        environ=environment(HF_HUB_OFFLINE="1", PYTHONPATH=os.pathsep.join([str(ROOT), support])),
    )  # fmt: skip
    names = next((line.split()[1:] for line in listed.stdout.splitlines() if line.startswith("TASKS")), [])
    assert len(names) == 122, listed.stderr[-3000:]
    run_names = [name for name in names if name not in _NEEDS]
    with judge_server(faults=lighteval_rows.answer) as server:
        words = ["openai/gpt-4o", ",".join(run_names), "--log-dir", "logs"]
        rows, said = run(warm_lighteval, tmp_path, server.url, *words)
    figures = {(task, figure): values for (_, task, figure), values in rows.items()}
    assert {task for task, _ in figures if not task.endswith(":_average")} == set(run_names)
    assert len(figures) == len(run_names) + len({task.partition(":")[0] for task, _ in figures if ":_" in task})
    for (task, name), values in figures.items():
        members = [one for one in run_names if one.startswith(task.removesuffix("_average"))]
        members = members if task.endswith(":_average") else [task]
        value = 0.0 if task.startswith(ALWAYS_WRONG) else 2 / 3
        error = math.sqrt(value / 2 / 3) / math.sqrt(len(members))  # sd √⅓ over √3, for the mean of k tasks over √k
        assert values == [f"{value:.2f}", f"{error:.2f}", str(3 * len(members)), "1.00"], (task, name, members)
    graded = re.findall(r"warning: (\S+): the evaluated model grades its own answers", said)
    assert sorted(graded) == [
        "covid_dialogue", "hle", "math_500", "mixeval_easy:freeform", "mixeval_hard:freeform", "simpleqa"
    ]  # fmt: skip


# `exact`, which these have, compares the whole answer ("ANSWER: 7") and drops punctuation, of which brackets are made
ALWAYS_WRONG = ("aime24_gpassk", "aime25_gpassk", "bold", "dyck_language")
