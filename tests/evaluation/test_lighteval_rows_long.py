"""What a run saved, read back as tables: metrics that share a rubric, repeated documents, tasks without judges."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

import evalkit as ek

pytest.importorskip("lighteval")

from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

from evalkit.lighteval import judge_metric
from evalkit.lighteval.result_tables import details_table, judgments_table, results_cells, results_table
from evalkit.runs.contract.receipts import read_receipts

TASK = "sums|0"


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The details of a task with some metrics, as LightEval saves them, and the receipts."""
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(tmp_path / "receipts.json"))
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    config = {"judges": [{"judge_model_name": "noisy", "judge_backend": "fake"}]}
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps(config))

    def made(*metrics, ids=("0", "1", "2")):
        docs = [
            Doc(query=f"What is {i} plus {i}?", choices=[""], gold_index=0, id=one, task_name=TASK,
                specific={"reference_answer": f"{2 * i}"})
            for i, one in enumerate(ids)
        ]  # fmt: skip
        responses = [ModelResponse(text=[f"It is {2 * i}."]) for i in range(len(ids))]
        rows = [metric.compute_sample(responses=responses, docs=docs)[metric.metric_name] for metric in metrics]
        names = [metric.metric_name for metric in metrics]
        frame = pd.DataFrame(
            {
                "doc": [asdict(doc) for doc in docs],
                "metric": [dict(zip(names, row, strict=True)) for row in zip(*rows, strict=True)],
                "model_response": [{"text": response.text, "text_post_processed": None} for response in responses],
            }
        )
        return frame, read_receipts(tmp_path / "receipts.json")

    return made


def test_a_judgment_that_two_metrics_share_stands_there_once(saved):
    details, receipts = saved(judge_metric("correctness"), judge_metric("correctness", name="again"))
    judgments = judgments_table(TASK, details, receipts)
    assert len(judgments) == 3 * 3, "items x samples"
    assert set(judgments["judge"]) == {"fake:noisy"}
    assert set(judgments["item_id"]) == {"sums|0/0", "sums|0/1", "sums|0/2"}
    assert len(ek.vote(judgments)) == 3


def test_a_judge_that_two_metrics_ask_otherwise_is_two_judges(saved, tmp_path):
    template = tmp_path / "rubrics" / "templates" / "other" / "v1.jinja"
    template.parent.mkdir(parents=True)
    from evalkit.rubrics.prompt_builder import load_template

    template.write_text(load_template("default@v1").source + " ")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALKIT_RUBRICS", str(tmp_path / "rubrics"))
        two = judge_metric("correctness"), judge_metric("correctness", name="again", template="other@v1")
        details, receipts = saved(*two)
    judgments = judgments_table(TASK, details, receipts)
    assert judgments.groupby("judge", observed=True).size().to_dict() == {"fake:noisy": 9, "fake:noisy (again)": 9}
    assert ek.vote(judgments).groupby("judge", observed=True).size().to_dict() == {
        "fake:noisy": 3,
        "fake:noisy (again)": 3,
    }


def test_more_samples_of_one_judge_are_its_samples(saved):
    details, receipts = saved(
        judge_metric("correctness", samples=2), judge_metric("correctness", name="five", samples=5)
    )
    judgments = judgments_table(TASK, details, receipts)
    assert sorted(judgments.loc[judgments["item_id"] == "sums|0/1", "sample"]) == [0, 1, 2, 3, 4]


def test_columns_that_two_metrics_share_have_numbers(saved):
    details, receipts = saved(judge_metric("correctness"), judge_metric("correctness", name="again"))
    table = details_table(TASK, details, receipts)
    assert {"correctness", "correctness_2", "correctness_norm", "again_norm"} <= set(table.columns)
    assert table["correctness"].tolist() == table["correctness_2"].tolist()
    assert len(table) == 3


def test_each_unit_of_a_score_has_a_name_of_its_own(saved):
    details, receipts = saved(judge_metric("correctness"))
    table = details_table(TASK, details, receipts)
    kept = [row["correctness"] for row in details["metric"]]
    # as in Evaluation.wide(), the criterion's column has the rubric's units: 0 to 2
    assert (
        table["correctness"].tolist() == table["correctness_raw"].tolist() == [row["correctness_raw"] for row in kept]
    )
    assert table["correctness_norm"].tolist() == [row["correctness"] for row in kept]
    assert (table["correctness"] == 2 * table["correctness_norm"]).all()
    assert table["correctness"].max() > 1, "else the units could not be told apart"


def test_results_have_numbers_of_samples_judged_ones_first_and_no_rows_without_a_value():
    figures = {
        "token_f1": 0.5, "token_f1_stderr": 0.1, "token_f1_n": 5.0, "overlap_n_empty": 8.0,
        "tone": 0.8, "tone_n": 5.0, "tone_coverage": 1.0, "tone_pass_rate": 1.0, "tone_n_verdicts": 1.0,
        "tone_wit": float("nan"), "tone_wit_n": 0.0, "tone_wit_coverage": float("nan"),
    }  # fmt: skip
    table = results_table({TASK: figures})
    assert table["metric"].tolist() == ["tone", "tone_wit", "token_f1", "overlap_n_empty"]
    assert table["n"].tolist()[:3] == [5, 0, 5]
    assert (table["n_verdicts"].iloc[0], str(table["n_verdicts"].dtype)) == (1, "Int64")
    cells, rest = results_cells(table)
    assert [(row["metric"], row["value"], row["n"]) for row in cells] == [
        ("tone", "0.800", "5"), ("token_f1", "0.500", "5"), ("overlap_n_empty", "8", ""),
    ]  # fmt: skip
    assert cells[0]["n_verdicts"] == "1"
    assert rest == "without a value, such as criteria that apply to no sample: sums|0: tone_wit"
    assert results_cells(results_table({})) == ([], "")


def test_the_score_of_polluxs_own_metric_has_its_coverage_beside_it():
    figures = {"pollux_score": 1.2, "pollux_score_stderr": 0.1, "pollux_coverage": 0.8, "pollux_n_unscored": 2.0}
    table = results_table({TASK: figures | {"tone_coverage": 0.0}})
    assert table["metric"].tolist() == ["pollux_score", "tone"]
    assert table.loc[0, ["value", "stderr", "coverage", "n_unscored"]].tolist() == [1.2, 0.1, 0.8, 2]
    assert math.isnan(table.loc[1, "value"])
    assert table.loc[1, "coverage"] == 0.0


def test_a_task_that_nobody_judged_has_no_judgments(saved):
    details, _ = saved(judge_metric("correctness"))
    assert judgments_table("other|0", details, []).empty
    assert list(judgments_table(TASK, details, []).columns) == list(judgments_table(TASK, details[:0], []).columns)
    assert results_table({}).empty


def test_receipts_of_an_earlier_run_in_a_folder_are_not_those_of_this_one(monkeypatch, tmp_path):
    from evalkit.lighteval import lighteval_run as runs

    code = "import json, os; json.dump(dict(os.environ), open(os.environ['SEEN'], 'w'))"
    monkeypatch.setattr(runs, "LIGHTEVAL", (sys.executable, "-c", code))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.json"))
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", "{}")
    (tmp_path / "receipts.json").write_text('{"schema_version": 1, "tasks": {}, "scorers": {}}')
    run = runs.run_lighteval("sums|0", "model_name=x", folder=tmp_path)
    assert run.scoring.mode == "deterministic"
    assert run.receipts == ()
    assert not (tmp_path / "receipts.json").exists()
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["EVALUATOR_RECEIPT_PATH"] == str(tmp_path / "receipts.json")
    assert "EVALUATOR_SCORING_CONFIG" not in seen, "an inherited one is taken out"


def test_a_run_tells_first_what_its_judges_left_without_a_score(tmp_path, saved):
    from evalkit.lighteval.lighteval_run import LightevalRun
    from evalkit.runs.contract.receipts import write_receipt
    from evalkit.runs.contract.scoring_config import Scoring

    _, [receipt] = saved(judge_metric("correctness"))
    judge = receipt.judges[0].model_copy(update={"n_scored": 0, "reasons": {"unreadable": receipt.n_judgments}})
    lost = receipt.model_copy(update={"task": "lost|0", "n_scored": 0, "judges": [judge]})
    for one in (receipt, lost):
        write_receipt(one, tmp_path / "receipts.json")
    place = tmp_path / "results" / "m"
    place.mkdir(parents=True)
    (place / "results_2026-01-31T12-00-00.json").write_text('{"results": {"lost:0": {"correctness_coverage": 0.0}}}')
    run = LightevalRun(tmp_path, Scoring("judge"))
    n = receipt.n_judgments
    assert run.notes == tuple(lost.warnings)
    assert run.notes[1].endswith(f"{judge.name}: 0 of {n} scored: unreadable {n}")
    assert str(run).splitlines()[1] == f"note: {run.notes[0]}"
    assert run.notes[1] in run._repr_html_()


def test_a_tie_is_scored_in_lighteval_as_in_a_summary_whatever_some_judges_left_open(monkeypatch, tmp_path):
    """All 256 ways in which four judges give 0, 1, 2 or nothing; truth by counting."""
    from itertools import product

    said = list(product((0, 1, 2, None), repeat=4))
    reply = [
        {str(at): f'{{"explanation": "", "score": {row[judge]}}}' if row[judge] is not None else "?"
         for at, row in enumerate(said)}
        for judge in range(4)
    ]  # fmt: skip

    def answers(judge: int):
        return lambda prompt: reply[judge][str(prompt).partition("<<")[2].partition(">>")[0]]

    jury = [ek.Judge.function(answers(judge), name=f"j{judge}", version="1") for judge in range(4)]
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "jury")
    metric = judge_metric("correctness", judges=jury, samples=1, aggregate="majority")
    docs = [Doc(query=f"<<{at}>>", choices=[""], gold_index=0, id=str(at), task_name=TASK,
                specific={"reference_answer": "4"}) for at in range(len(said))]  # fmt: skip
    rows = metric.compute_sample(responses=[ModelResponse(text=["4"])] * len(said), docs=docs)["correctness"]
    n_scored = 0
    for given, row in zip(said, rows, strict=True):
        there = [score for score in given if score is not None]
        most = max((there.count(one) for one in there), default=0)
        modes = {one for one in there if there.count(one) == most}
        kind = "unreadable" if len(there) <= 2 else "tied" if len(modes) > 1 else ""
        n_scored += kind in ("tied", "")
        assert row["correctness_error"].partition(" ")[0] == kind, given
        if kind == "":
            assert row["correctness_raw"] == modes.pop(), given
    assert sum(row["correctness_error"].startswith("tied") for row in rows) > 36, "some with a judge that gave nothing"
    corpus = metric.corpus_level_fn(rows)
    items = [{"question": f"<<{at}>>", "answer": "4", "reference": "4"} for at in range(len(said))]
    summary = ek.evaluate(items, "correctness", jury, samples=1, aggregate="majority").summary.iloc[0]
    assert corpus["correctness_coverage"] == n_scored / len(said)
    assert summary["n_scored"] == n_scored


@pytest.mark.parametrize(
    ("parts", "status", "reason"),
    [
        ({"a": ("tied", "no_majority"), "b": ("ok", None)}, "tied", "no_majority"),
        ({"a": ("tied", "tied"), "b": ("ok", None)}, "tied", "tied"),
        ({"a": ("tied", "tied"), "b": ("tied", "no_majority")}, "tied", "tied"),
        ({"a": ("tied", "tied"), "b": ("unscored", "timeout")}, "unscored", "timeout"),
        ({"a": ("unscored", "timeout"), "b": ("tied", "no_majority")}, "unscored", "timeout"),
        ({"a": ("ok", None), "b": ("ok", None)}, "ok", None),
    ],
)
def test_an_item_is_tied_if_its_criteria_are_and_unscored_if_one_is(parts, status, reason):
    from evalkit.stats.aggregation.combining_criteria import combine
    from evalkit.tables import schemas

    scale = {0: "no", 1: "so", 2: "yes"}
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": name, "scale": scale} for name in parts])
    number = [1.0 if one == "ok" else math.nan for one, _ in parts.values()]
    n = len(parts)
    scores = schemas.table("scores", {
        "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": ["i"] * n, "criterion": list(parts),
        "score": number, "score_norm": [value / 2 for value in number], "status": [one for one, _ in parts.values()],
        "reason": [why for _, why in parts.values()], "n_judges": [4] * n, "n_scored": [3] * n,
        "tied": [one == "tied" for one, _ in parts.values()],
    })  # fmt: skip
    row = combine(scores, rubric).iloc[0]
    assert row["status"] == status
    assert (None if pd.isna(row["reason"]) else row["reason"]) == reason


def test_the_score_of_judges_stands_beside_that_of_a_critical_criterion_that_failed(tmp_path, monkeypatch):
    said = list(itertools.product((0, 1, 2), repeat=3))
    jury = [
        ek.Judge.function(lambda prompt, at=at: str(said[int(str(prompt).partition("<<")[2].partition(">>")[0])][at]),
                          name=f"j{at}", version="1")
        for at in range(3)
    ]  # fmt: skip
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "jury")
    metric = judge_metric("safety", judges=jury, samples=1)
    docs = [Doc(query=f"<<{at}>>", choices=[""], gold_index=0, id=str(at), task_name=TASK) for at in range(len(said))]
    rows = metric.compute_sample(responses=[ModelResponse(text=["4"])] * len(said), docs=docs)["safety"]
    for given, row in zip(said, rows, strict=True):
        passes = given.count(2) >= 2  # safety passes at 2
        assert row["safety_raw"] == pytest.approx(sum(given) / 3), given
        assert row["safety"] == pytest.approx(sum(given) / 6 if passes else 0.0), given
        assert row["safety_passed"] is passes
