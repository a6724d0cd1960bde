"""judge_metric and jury_metric, called as LightEval calls them: modes, rows, figures, receipts, precedence."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import pickle
import socket
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from servers import judge_server

import evalkit as ek
from evalkit.errors import ConfigError, InputError, JudgeError, RubricError
from evalkit.runs.contract.receipts import Progress, note_progress, read_progress, read_receipts
from evalkit.runs.contract.scoring_config import TaskBindings

pytest.importorskip("lighteval")

from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

from evalkit.evaluation.lighteval_rows import corpus_row, judgments_of
from evalkit.lighteval import judge_metric, jury_metric
from evalkit.rubrics.prompt_builder import load_template

GOOD = '{"explanation": "it agrees with the reference", "score": 2}'


def fake(persona: str, **more: object) -> dict:
    return {"judge_model_name": persona, "judge_backend": "fake", **more}


def docs_of(n: int = 4, task: str = "sums|0", **specific: object) -> list[Doc]:
    return [
        Doc(
            query=f"What is {i} plus {i}?", choices=[""], gold_index=0, id=str(i), task_name=task,
            specific={"reference_answer": f"{i} plus {i} is {2 * i}", **specific},
        )
        for i in range(n)
    ]  # fmt: skip


def answers(n: int = 4) -> list[ModelResponse]:
    return [ModelResponse(text=[f"{i} plus {i} is {2 * i}"]) for i in range(n)]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Score with a metric as LightEval does: copied, called with all samples, aggregated."""
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(tmp_path / "receipts.json"))

    def scored(metric, mode, config=None, docs=None, responses=None, bindings=None):
        monkeypatch.setenv("EVALUATOR_SCORING_MODE", mode)
        monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps(config) if config is not None else "")
        monkeypatch.setenv("EVALKIT_TASK_BINDINGS", TaskBindings.of(bindings).to_json() if bindings else "")
        taken = copy.deepcopy(metric)
        docs = docs_of() if docs is None else docs
        responses = answers(len(docs)) if responses is None else responses
        rows = taken.compute_sample(responses=responses, docs=docs)[taken.metric_name]
        return rows, taken.get_corpus_aggregations()[taken.metric_name](rows)

    return scored


def test_a_judged_row_holds_the_contract_and_agrees_with_evaluate(run, tmp_path):
    rows, figures = run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]})
    items = [{"question": d.query, "answer": r.final_text[0], "reference": d.specific["reference_answer"]}
             for d, r in zip(docs_of(), answers(), strict=True)]  # fmt: skip
    table = ek.evaluate(items, "correctness", "fake:strict", offline=True)
    assert table.cost.n_missing == 0, "the notebook finds every reply that LightEval paid for"
    expected = table.rubric_scores
    assert [row["correctness"] for row in rows] == pytest.approx(expected["score_norm"].tolist())
    assert [row["correctness_raw"] for row in rows] == pytest.approx(expected["score"].tolist())
    assert [row["correctness_passed"] for row in rows] == expected["passed"].tolist()
    assert all(row["correctness_error"] == "" and row["correctness_explanation"] for row in rows)
    assert all(row["correctness_coverage"] == 1.0 for row in rows)
    scores = expected["score_norm"].to_numpy()
    assert figures["correctness"] == pytest.approx(scores.mean())
    assert figures["correctness_stderr"] == pytest.approx(scores.std(ddof=1) / 2)  # √4 samples
    assert figures["correctness_coverage"] == 1.0
    assert figures["correctness_pass_rate"] == pytest.approx(expected["passed"].mean())
    assert all(type(value) is float for value in figures.values())
    ends = ("", "_stderr", "_n", "_pass_rate", "_n_verdicts", "_coverage", "_n_unscored", "_n_empty")
    assert set(figures) == {f"correctness{end}" for end in ends}
    assert (figures["correctness_n"], figures["correctness_n_verdicts"]) == (4.0, 4.0)


def test_a_pass_rate_says_how_many_verdicts_it_is_of():
    # five scores, of which four are ties between judges: scored, and neither passed nor failed
    rows = [
        {"tone": 0.5, "tone_passed": passed, "tone_error": "", "tone_judgments": "[]"}
        for passed in (True, None, None, None, None)
    ]
    figures = corpus_row("tone", rows)
    assert (figures["tone_pass_rate"], figures["tone_n_verdicts"]) == (1.0, 1.0)
    assert (figures["tone_coverage"], figures["tone_n"]) == (1.0, 5.0)
    assert corpus_row("tone", rows[1:])["tone_n_verdicts"] == 0.0
    assert corpus_row("tone", [])["tone_n_verdicts"] == 0.0


def test_types_of_every_key_are_the_same_in_all_rows(run):
    config = {"judges": [fake("strict"), fake("broken"), fake("noisy")], "report_disagreement": True}
    responses = [ModelResponse(text=[""]), *answers(12)[1:]]
    rows, _ = run(judge_metric("correctness"), "jury", config, docs_of(12), responses)
    kinds = {name: {type(row[name]) for row in rows} - {type(None)} for name in rows[0]}
    assert all(list(row) == list(rows[0]) for row in rows)
    assert all(len(kind) <= 1 for kind in kinds.values()), kinds
    assert kinds["correctness"] == {float}
    assert kinds["correctness_error"] == {str}
    assert kinds["correctness_disagreement"] == {float}


def test_disagreement_is_absent_unless_a_jury_was_asked_for_it(run):
    jury = {"judges": [fake("strict"), fake("lenient")]}
    for mode, config in (("jury", jury), ("judge", {"judges": [fake("strict")], "report_disagreement": True})):
        rows, _ = run(judge_metric("correctness"), mode, config)
        assert not any("disagreement" in name for row in rows for name in row)


def test_alpha_of_a_jury_is_that_of_reliability(run):
    config = {"judges": [fake("strict"), fake("lenient"), fake("noisy")]}
    responses = [ModelResponse(text=[text]) for text in ("0", "1 plus 1 is 2", "no idea", "3 plus 3 is 7")]
    rows, figures = run(jury_metric("correctness"), "jury", config, responses=responses)
    judgments = judgments_of("correctness", rows)
    assert len(judgments) == 4 * 3 * 3
    assert figures["correctness_alpha"] == pytest.approx(ek.reliability(judgments)["alpha_single"].iloc[0])


def test_deterministic_mode_builds_no_judge(run, monkeypatch, tmp_path):
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened or a judge was built in deterministic mode")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr("evalkit.core.judges.Judge.__post_init__", forbidden)
    monkeypatch.setattr("evalkit.lighteval.metrics.resolve", forbidden)
    rows, figures = run(judge_metric("correctness"), "deterministic", {"judges": "not even read"})
    assert figures == {"correctness_coverage": 0.0}
    assert rows == [{"correctness_coverage": 0.0, "correctness_error": "deterministic"}] * 4
    assert not (tmp_path / "receipts.json").exists()


@pytest.mark.parametrize(
    ("mode", "config", "judges", "warned"),
    [
        (None, {"judges": [fake("strict")]}, None, True),
        ("  ", {"judges": [fake("strict")]}, None, True),
        (None, "not JSON", None, True),  # it is not read
        (None, None, "fake:strict", True),  # judges of the metric
        (None, None, None, False),  # nobody named a judge
        ("deterministic", {"judges": [fake("strict")]}, "fake:strict", False),  # by choice
        ("judge", {"judges": [fake("strict")]}, None, False),
    ],
)
def test_judges_that_wait_for_a_mode_are_named_before_a_model_answers(
    monkeypatch, caplog, mode, config, judges, warned
):
    # LightEval copies the metrics of a run before it loads anything
    monkeypatch.delenv("EVALUATOR_SCORING_MODE", raising=False)
    if mode is not None:
        monkeypatch.setenv("EVALUATOR_SCORING_MODE", mode)
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps(config) if config else "")
    copy.deepcopy(copy.deepcopy(judge_metric("safety", judges=judges)))
    fact = "safety: judges are named, but none will be called, because the scoring mode is not set"
    warning = f"{fact}; set EVALUATOR_SCORING_MODE to judge or jury"
    assert caplog.messages == [warning] * warned  # once, however often it is copied


def test_empty_answers_are_flagged_and_not_judged(run, tmp_path):
    responses = [ModelResponse(text=[text]) for text in ("", " \n", "2", "4")] + [ModelResponse(text=[])]
    rows, figures = run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, docs_of(5), responses)
    assert [row["correctness_error"] for row in rows] == ["empty_answer", "empty_answer", "", "", "empty_answer"]
    assert [math.isnan(row["correctness"]) for row in rows] == [True, True, False, False, True]
    assert (figures["correctness_n_empty"], figures["correctness_coverage"]) == (3.0, 0.4)
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert (receipt.n_items, receipt.n_scored, receipt.n_empty, receipt.n_judgments) == (5, 2, 3, 6)


def test_half_a_sign_in_one_answer_or_document_costs_nothing(run):
    docs = docs_of(3)
    docs[1].specific["reference_answer"] += " \ud83d"
    responses = [ModelResponse(text=[text]) for text in ("half \ud83d sign", "2", "4")]
    rows, figures = run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, docs, responses)
    assert [row["correctness_error"] for row in rows] == ["", "", ""]
    assert figures["correctness_coverage"] == 1.0
    json.dumps(rows, ensure_ascii=False).encode()


@pytest.mark.parametrize("n", [1, 4])
def test_nothing_but_empty_answers_ends_with_a_coverage_of_0(run, n):
    rows, figures = run(
        judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, docs_of(n), [ModelResponse(text=[""])] * n
    )
    assert len(rows) == n
    assert math.isnan(figures["correctness"])
    assert math.isnan(figures["correctness_stderr"])
    assert figures["correctness_coverage"] == 0.0


def test_several_criteria_have_columns_of_their_own(run):
    docs = docs_of(3, conversation="User: hello\nAssistant: hello")
    rows, _ = run(judge_metric("conversation_quality"), "judge", {"judges": [fake("strict")]}, docs)
    names = ek.load_rubric("conversation_quality").names
    assert all({f"conversation_quality_{name}" for name in names} <= set(row) for row in rows)
    assert "conversation_quality_raw" not in rows[0]
    assert all(name in rows[0]["conversation_quality_explanation"] for name in names)


def test_a_run_goes_on_where_a_fifth_of_the_calls_fail(run, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    lost = {f"What is {i} plus {i}?" for i in range(0, 30, 5)}

    def faults(body):
        text = body["messages"][-1]["content"]
        return {"status": 400} if any(question in text for question in lost) else None

    reply = '{"explanation": "agrees", "score": 2}'
    with judge_server(always={"content": reply}, faults=faults) as server:
        judge = {"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url}
        config = {"judges": [judge], "samples": 1}
        rows, figures = run(judge_metric("correctness"), "judge", config, docs_of(30), answers(30))
        first = len(server.seen)
        again, _ = run(judge_metric("correctness"), "judge", config, docs_of(30), answers(30))
        assert {body["messages"][-1]["content"] for body in (one.body for one in server.seen[first:])} <= {
            one.body["messages"][-1]["content"] for one in server.seen[:first]
        }
        assert len(server.seen) - first == 6, "only what failed is asked again"
    assert figures["correctness_coverage"] == pytest.approx(0.8)
    assert figures["correctness"] == 1.0
    unscored = [number for number, row in enumerate(rows) if row["correctness_error"]]
    assert unscored == [0, 5, 10, 15, 20, 25]
    assert all(math.isnan(rows[number]["correctness"]) for number in unscored)
    assert [row["correctness"] for row in again if not row["correctness_error"]] == [1.0] * 24


@pytest.mark.parametrize("way", ["config", "metric", "config over metric"])
def test_repairs_are_turned_off_by_the_scoring_config_or_the_metric(run, way):
    """A verdict that no form has, by a judge that would say what it meant if it were asked."""

    def faults(body):
        is_repair = "Which of these verdicts" in body["messages"][-1]["content"]
        return {"content": '{"verdict": "2"}' if is_repair else "Parts of it reach 1, and as I see it 2 fits."}

    options = {"config": {}, "metric": {"repair": False}, "config over metric": {"repair": False}}[way]
    said = {"config": {"repair": False}, "metric": {}, "config over metric": {"repair": True}}[way]
    with judge_server(faults=faults) as server:
        config = {
            "judges": [{"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url}],
            "samples": 1,
        }
        rows, _ = run(judge_metric("correctness", **options), "judge", config | said, docs_of(4), answers(4))
        n_seen = len(server.seen)
    scored = [not row["correctness_error"] for row in rows]
    assert scored == [way == "config over metric"] * 4
    assert n_seen == (5 if way == "config over metric" else 4)


def test_a_judge_that_is_down_leaves_the_run_alive(run, tmp_path, caplog):
    with judge_server(always={"status": 401}) as server:
        judge = {"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url}
        rows, figures = run(judge_metric("correctness"), "judge", {"judges": [judge]})
    assert {row["correctness_error"] for row in rows} == {"judge_down"}
    assert figures["correctness_coverage"] == 0.0
    assert "no judge could be called" in caplog.text
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert receipt.cost_usd is None


def test_the_second_run_asks_nobody(run, tmp_path):
    reply = '{"explanation": "agrees", "score": 1}'
    with judge_server(always={"content": reply, "tells": {"system_fingerprint": "fp_7"}}) as server:
        judge = {"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url}
        first, _ = run(judge_metric("correctness"), "judge", {"judges": [judge]})
        n_first = len(server.seen)
        second, _ = run(judge_metric("correctness"), "judge", {"judges": [judge]})
        assert len(server.seen) == n_first
    strip = [{k: v for k, v in row.items() if not k.endswith("_judgments")} for row in first]
    assert strip == [{k: v for k, v in row.items() if not k.endswith("_judgments")} for row in second]
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert (receipt.n_live, receipt.n_cached) == (0, 12)
    assert receipt.cost_usd is None, "the judge has no price, and US$ 0 would look like one"
    (judge_used,) = receipt.judges
    assert (judge_used.served, judge_used.fingerprints) == ({"m-2026": 12}, {"fp_7": 12}), "of the stored replies"


PRECEDENCE = {
    "default": ({}, {}, None, {"samples": 3, "aggregation": "mean", "template": "default@v1"}),
    "task": ({"samples": 2, "aggregate": "max", "template": "label@v1"}, {}, None,
             {"samples": 2, "aggregation": "max", "template": "label@v1"}),
    "profile over task": ({"samples": 2, "aggregate": "max"}, {"profile": "conservative"}, None,
                          {"samples": 5, "aggregation": "median"}),
    "config over profile": ({"samples": 2}, {"profile": "conservative", "samples": 1, "aggregation": "min"}, None,
                            {"samples": 1, "aggregation": "min"}),
    "default aggregation of a config is not said": ({}, {"profile": "strict"}, None, {"aggregation": "min"}),
    "binding over config's profile": ({}, {"profile": "conservative"}, {"sums": {"judge_profile": "strict"}},
                                      {"samples": 3, "aggregation": "min"}),
    "binding's template over task": ({"template": "label@v1"}, {}, {"sums": {"judge_template_id": "number"}},
                                     {"template": "number@v1"}),
    "binding of another task": ({}, {}, {"other": {"judge_profile": "strict"}}, {"aggregation": "mean"}),
}  # fmt: skip


@pytest.mark.parametrize("case", PRECEDENCE)
def test_each_field_comes_from_the_first_place_that_names_it(case, run, tmp_path):
    said, config, bindings, expected = PRECEDENCE[case]
    judges = [fake("strict"), fake("lenient")]
    run(judge_metric("correctness", **said), "jury", {"judges": judges, **config}, bindings=bindings)
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    found = receipt.model_dump() | {"template": receipt.judges[0].template}
    assert {name: found[name] for name in expected} == expected


def test_a_judges_own_template_comes_before_all(run, tmp_path):
    judges = [fake("strict", judge_template_id="tagged"), fake("lenient")]
    bindings = {"sums": {"judge_template_id": "number@v1"}}
    run(judge_metric("correctness"), "jury", {"judges": judges}, bindings=bindings)
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert [judge.template for judge in receipt.judges] == ["tagged@v1", "number@v1"]
    assert receipt.origins["template"] == "binding", "one judge takes it from there"
    judges[1]["judge_template_id"] = "label"
    run(judge_metric("correctness"), "jury", {"judges": judges}, bindings=bindings)
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert receipt.origins["template"] == "judge", "nobody takes the common one"


def test_a_template_of_the_registry_is_used_by_its_text(run, tmp_path):
    source = load_template("label").source.replace("label", "label", 1) + "\n{# ours #}"
    text = {"name": "ours", "version": "v7", "text": source, "hash": hashlib.sha256(source.encode()).hexdigest()}
    bindings = {"sums": {"judge_template_id": "ours", "templates": [text]}}
    run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, bindings=bindings)
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    assert (receipt.judges[0].template, receipt.judges[0].template_hash) == ("ours@v7", text["hash"])


def test_judges_of_a_profile_or_of_the_metric_need_no_config(run, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("profile: own\njudges: [{provider: fake, model: strict}]\nsamples: 1\n")
    rows, _ = run(judge_metric("correctness", profile=str(path)), "judge")
    assert rows[0]["correctness_error"] == ""
    rows, _ = run(judge_metric("correctness", judges="fake:lenient"), "judge")
    assert rows[0]["correctness_error"] == ""


MISUSE = {
    "nobody is named": (judge_metric("correctness"), "judge", None, ConfigError, "no judge is named"),
    "jury metric in judge mode": (jury_metric("correctness"), "judge", {"judges": [fake("strict")]}, ConfigError,
                                  "does not support the scoring mode 'judge'; allowed: deterministic, jury"),
    "unknown template": (judge_metric("correctness"), "judge", {"judges": [fake("strict", judge_template_id="nope")]},
                         RubricError, "judge template 'nope' not found in"),
    "unknown profile": (judge_metric("correctness"), "judge", {"judges": [fake("strict")], "profile": "nope"},
                        ConfigError, "profile 'nope' not found"),
    "no key": (judge_metric("correctness"), "judge", {"judges": [{"judge_model_name": "m", "judge_backend": "openai"}]},
               JudgeError,
               "OPENAI_API_KEY is not set; set this variable, or name another one as api_key_env where this judge is"),
    "a jury by the metric in judge mode": (judge_metric("correctness", judges=["fake:strict", "fake:lenient"]), "judge",
                                           None, ConfigError, "takes one judge, and the task has 2"),
    "an unknown persona": (judge_metric("correctness"), "judge", {"judges": [fake("nobody")]}, ConfigError, "nobody"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISUSE)
def test_misuse_is_told_when_lighteval_takes_the_task_up(case, run, monkeypatch):
    metric, mode, config, kind, said = MISUSE[case]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", mode)
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", "" if config is None else json.dumps(config))
    with pytest.raises(kind) as problem:
        copy.deepcopy(metric)
    assert said in str(problem.value)
    assert "--" not in str(problem.value), "a run has no flags for judges"


def test_a_profile_of_another_rubric_is_refused(run, tmp_path):
    (tmp_path / "p.yaml").write_text("profile: p\nrubric: safety@v1\njudges: [{provider: fake, model: strict}]\n")
    with pytest.raises(ConfigError, match="is for rubric safety@v1, but the metric uses rubric correctness"):
        run(judge_metric("correctness"), "judge", {"profile": str(tmp_path / "p.yaml")})


def test_documents_that_lack_an_input_are_named_before_a_model_is_loaded(monkeypatch):
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps({"judges": [fake("strict")]}))
    score = judge_metric("faithfulness").sample_level_fn
    with pytest.raises(InputError, match="document '0': rubric 'faithfulness' needs 'context'"):
        score.check("sums|0", docs_of())
    score.check("sums|0", docs_of(context="0 plus 0 is 0"))
    for missing in (None, float("nan"), pd.NA, np.float64("nan")):
        with pytest.raises(InputError, match="needs 'context'"):
            score.check("sums|0", docs_of(1, context=missing))


def test_fields_say_where_an_input_stands(run):
    docs = docs_of(passage=["a passage"])
    for fields in ({"context": "passage"}, {"context": lambda doc: doc.specific["passage"]}):
        rows, _ = run(judge_metric("faithfulness", fields=fields), "judge", {"judges": [fake("strict")]}, docs)
        assert all(row["faithfulness_error"] == "" for row in rows)


def test_a_gold_choice_is_the_reference_where_there_is_none(run):
    docs = [Doc(query="2 plus 2?", choices=["5", "4"], gold_index=1, id="0", task_name="t|0")]
    rows, _ = run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, docs, answers(1))
    assert rows[0]["correctness_error"] == ""


@pytest.mark.parametrize("make", [judge_metric, jury_metric])
def test_wrong_words_are_refused_where_the_metric_is_made(make):
    for given, said in (
        ({"rubric": "nope"}, "nope"),
        ({"rubric": "preference"}, "compares two answers"),
        ({"rubric": "safety", "samples": 0}, "samples"),
        ({"rubric": "safety", "aggregate": "avg"}, "avg"),
        ({"rubric": "safety", "budget": 1}, "unknown option budget"),
    ):
        with pytest.raises((ConfigError, RubricError)) as problem:
            make(given.pop("rubric"), **given)
        assert said in str(problem.value)
    with pytest.raises(ConfigError, match="two or more judges"):
        jury_metric("safety", judges="fake:strict")


def test_a_metric_can_be_copied_pickled_and_shown():
    metric = judge_metric("safety")
    assert copy.deepcopy(metric).metric_name == "safety"
    assert pickle.loads(pickle.dumps(metric)).metric_name == "safety"
    assert str(metric.sample_level_fn) == repr(metric.sample_level_fn) == "RubricScore(safety@v1, name='safety')"
    assert str(copy.deepcopy(metric).sample_level_fn) == str(metric.sample_level_fn), "part of LightEval's answer keys"


def test_judgments_come_back_from_the_saved_rows_as_they_were(run):
    config = {"judges": [fake("strict"), fake("broken")], "samples": 2}
    rows, _ = run(judge_metric("correctness"), "jury", config)
    judgments = judgments_of("correctness", json.loads(json.dumps(rows)))
    again = ek.aggregate(ek.vote(judgments))
    assert again["score_norm"].tolist() == pytest.approx([row["correctness"] for row in rows], nan_ok=True)
    assert set(judgments["error"].dropna()) <= {"unreadable", "off_scale", "ambiguous", "truncated", "empty", "refused"}
    assert judgments["error"].notna().any()
    assert isinstance(judgments, pd.DataFrame)
    assert np.isfinite(judgments["weight"]).all()


def test_one_item_through_notebook_gate_profile_and_lighteval_is_paid_once(run, tmp_path, monkeypatch):
    from evalkit.gate import GateConfig, GateOptions, Trace, run_gate

    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    context, question, answer = "The shop takes goods\r\nback for 30 days.", "How long?", "30 days, café."
    with judge_server(always={"content": '{"explanation": "supported", "score": 2}'}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url)
        items = [{"item_id": "t", "question": question, "answer": answer, "context": context}]
        evaluation = ek.evaluate(items, "faithfulness", judge, samples=3, progress=False)
        ek.freeze(evaluation, tmp_path / "support.yaml")
        paid = sum(one.body.get("n", 1) for one in server.seen)
        assert paid == 3
        doc = Doc(query=question, choices=[""], gold_index=0, id="7", task_name="qa|0", specific={"context": [context]})
        # the same text in its other Unicode form
        response = [ModelResponse(text=[answer.replace("é", "e\u0301")])]
        for metric, config in (
            (judge_metric(tmp_path / "support.yaml"), None),
            (judge_metric("faithfulness"), {"profile": str(tmp_path / "support.yaml")}),
            (judge_metric("faithfulness"),
             {"judges": [{"judge_model_name": "m", "judge_backend": "tgi", "base_url": server.url}]}),
        ):  # fmt: skip
            rows, _ = run(metric, "judge", config, [doc], response)
            assert rows[0]["faithfulness"] == 1.0
        bound = {"qa": {"judge_profile": str(tmp_path / "support.yaml")}}
        assert run(judge_metric("faithfulness"), "judge", None, [doc], response, bound)[0][0]["faithfulness"] == 1.0
        tests = GateConfig(tests=[{"id": "t", "expected": {"type": "faithfulness", "samples": 3}}])
        trace = [Trace(1, "t", question, (context,), answer)]
        assert run_gate(tests, trace, GateOptions(profile=str(tmp_path / "support.yaml"))).exit_code == 0
        assert sum(one.body.get("n", 1) for one in server.seen) == paid


RUBRIC = "id: {id}\nversion: v1\ndescription: d\ninputs: [question, answer]\ntemplate: default@v1\ncriteria:\n"


def rubric_file(folder: Path, name: str, *criteria: str) -> str:
    path = folder / name / "v1.yaml"
    path.parent.mkdir()
    path.write_text(RUBRIC.format(id=name) + "".join(f"  - {{{one}}}\n" for one in criteria))
    return str(path)


THREE = "scale: {0: bad, 1: fair, 2: good}"
UNFIT = {
    "named like a figure": (
        ["name: tone, " + THREE, "name: error, " + THREE],
        "criterion 'error' has the name of a figure of LightEval",
    ),
    "no scores": (
        ["name: topic, level: nominal, scale: {art: a, law: b}"],
        "its scales are nominal and have no pass rule",
    ),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_rubric_that_cannot_be_scored_here_is_refused(case, tmp_path):
    criteria, said = UNFIT[case]
    with pytest.raises(RubricError, match=said):
        judge_metric(rubric_file(tmp_path, "unfit", *criteria))


def test_a_nominal_rubric_with_a_pass_rule_scores_0_and_1(run, tmp_path, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-of-the-judge")
    path = rubric_file(tmp_path, "topic", "name: topic, level: nominal, scale: {art: a, law: b}, pass_if: [art]")
    with judge_server(always={"content": '{"explanation": "it is", "score": "art"}'}) as server:
        judge = {"judge_model_name": "m", "judge_backend": "openai", "base_url": server.url, "api_key_env": "JUDGE_KEY"}
        rows, figures = run(judge_metric(path), "judge", {"judges": [judge]})
    assert {row["topic"] for row in rows} == {1.0}
    assert all(row["topic_passed"] is True for row in rows)
    assert all(math.isnan(row["topic_raw"]) for row in rows), "labels have no numbers"
    assert (figures["topic"], figures["topic_coverage"]) == (1.0, 1.0)


def test_one_criterion_may_have_any_name(run, tmp_path):
    rows, _ = run(
        judge_metric(rubric_file(tmp_path, "only", "name: error, " + THREE)), "judge", {"judges": [fake("strict")]}
    )
    assert {row["only_error"] for row in rows} == {""}


IMPOSSIBLE = {
    "two judges": ([fake("strict"), fake("lenient")], "needs 3 judges or more, got 2"),
    "two with a weight": ([fake("strict"), fake("lenient"), fake("noisy", weight=0)], "3 judges or more, got 2"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_rule_that_the_jury_cannot_follow_is_refused_before_anything_is_paid(case, run, monkeypatch):
    judges, said = IMPOSSIBLE[case]
    monkeypatch.setattr("evalkit.lighteval.metrics.evaluate_spec", lambda *_, **__: pytest.fail("it was judged"))
    with pytest.raises(ConfigError, match=said):
        run(judge_metric("correctness"), "jury", {"judges": judges, "aggregation": "dawid_skene"})


def test_dawid_skene_scores_a_jury_of_three(run):
    judges = [fake("strict"), fake("lenient"), fake("noisy")]
    rows, figures = run(judge_metric("correctness"), "jury", {"judges": judges, "aggregation": "dawid_skene"})
    assert figures["correctness_coverage"] == 1.0
    assert all(0 <= row["correctness"] <= 1 for row in rows)


def test_where_the_only_judge_with_a_weight_fails_nothing_is_scored(run, monkeypatch):
    monkeypatch.setenv("JUDGE_KEY", "sk-of-the-judge")
    with judge_server(always={"status": 400}) as down:
        lost = {"judge_model_name": "m", "judge_backend": "openai", "base_url": down.url, "api_key_env": "JUDGE_KEY"}
        rows, figures = run(judge_metric("correctness"), "jury", {"judges": [lost, fake("strict", weight=0)]})
    assert {row["correctness_error"] for row in rows} == {"server_error"}
    assert all(row["correctness_explanation"] for row in rows), "the other judge has spoken all the same"
    assert figures["correctness_coverage"] == 0.0
    assert math.isnan(figures["correctness"])


@pytest.mark.parametrize("n", [3, 5])
def test_one_response_per_document(n, run):
    with pytest.raises(InputError, match=f"{n} responses for 4 documents"):
        run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, responses=answers(n))


@pytest.mark.parametrize("name", ["", " ", 5])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ConfigError, match="is not a valid name for a metric"):
        judge_metric("correctness", name=name)


def test_fields_name_inputs_and_their_functions_may_not_fail(run):
    with pytest.raises(ConfigError, match=r"fields= has 'contxt'.* its inputs are 'question', 'answer', 'context'"):
        judge_metric("faithfulness", fields={"contxt": "passage"})
    metric = judge_metric("faithfulness", fields={"context": lambda doc: doc.specific["passage"]})
    with pytest.raises(InputError, match=r"task 'sums\|0', document '0': the function .* raised KeyError: 'passage'"):
        run(metric, "judge", {"judges": [fake("strict")]})


def test_scores_are_not_given_up_for_a_receipt(run, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(tmp_path / "file" / "receipts.json"))
    _, figures = run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]})
    assert figures["correctness_coverage"] == 1.0
    assert "no receipt was written" in caplog.text


def test_a_registry_may_call_versions_as_it_likes(run, tmp_path):
    text = load_template("default@v1").source
    hashed = hashlib.sha256(text.encode()).hexdigest()
    for versions, newest in ((["v9", "v10"], "v10"), (["1", "2"], "2"), (["2026.1", "2025.12"], "2026.1")):
        bound = [{"name": "house", "version": version, "text": text, "hash": hashed} for version in versions]
        binding = {"sums": {"judge_template_id": "house", "templates": bound}}
        run(judge_metric("correctness"), "judge", {"judges": [fake("strict")]}, bindings=binding)
        [receipt] = read_receipts(tmp_path / "receipts.json")
        assert receipt.judges[0].template == f"house@{newest}"


def test_a_profile_of_the_config_may_be_the_plugins_own(run, tmp_path):
    plugin = tmp_path / "tone_plugin"
    (plugin / "profiles").mkdir(parents=True)
    (plugin / "__init__.py").write_text("TASKS_TABLE = []\n")
    (plugin / "profiles" / "house.yaml").write_text(
        "profile: house\njudges: [{provider: fake, model: strict}]\nsamples: 2\n"
    )
    run(judge_metric("correctness"), "judge", {"profile": "house"}, bindings={"sums": {"plugin_path": str(plugin)}})
    [receipt] = read_receipts(tmp_path / "receipts.json")
    assert (receipt.profile, receipt.samples) == ("house", 2)
    with pytest.raises(ConfigError, match=r"task 'sums\|0'.* profile 'nope' not found"):
        run(judge_metric("correctness"), "judge", None, bindings={"sums": {"judge_profile": "nope"}})


def test_the_log_and_a_file_say_how_far_judging_is(caplog, monkeypatch, tmp_path):
    from types import SimpleNamespace

    from evalkit.lighteval import metrics

    clock = iter([0.0, 1.0, 6.0, 7.0, 8.0])
    monkeypatch.setattr(metrics, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(place := tmp_path / "receipts.json"))
    told = metrics.ProgressLog("safety")
    seen = []
    with caplog.at_level("INFO"):
        for done, failed in ((1, 0), (2, 0), (3, 0), (3, 1)):
            told(SimpleNamespace(done=done, n_failed=failed, total=4))
            seen.append(read_progress(place))
    assert seen == [None, *[Progress(done=2, total=4)] * 2, Progress(done=4, total=4)]
    (tmp_path / "receipts.progress.json").write_text('{"done": 2')
    assert read_progress(place) is None
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(tmp_path / "receipts.progress.json" / "receipts.json"))
    note_progress(Progress(done=1, total=2))  # what cannot be written stops no run
    assert caplog.messages == ["safety: 2 of 4 calls judged", "safety: 4 of 4 calls judged, 1 of them without a reply"]


def test_replies_that_cannot_be_read_are_told_by_judge_with_their_reasons(run, tmp_path, caplog):
    replies = {"content": "I would rather not say."}
    with judge_server(always=replies) as server:
        judge = {"judge_model_name": "judge-1", "judge_backend": "openai", "base_url": server.url}
        rows, figures = run(judge_metric("correctness"), "judge", {"judges": [judge]}, bindings=None)
    assert figures["correctness_coverage"] == 0.0
    [receipt] = read_receipts(tmp_path / "receipts.json")
    [used] = receipt.judges
    assert (used.n_judgments, used.n_scored, used.base_url) == (12, 0, server.url)
    assert sum(used.reasons.values()) == 12  # four answers, three samples
    assert receipt.scored_nothing
    for line in receipt.warnings:
        assert line in caplog.text
    assert receipt.warnings[0] == "sums|0, correctness: none of 4 answers has a score"
    assert receipt.warnings[1].startswith("sums|0, correctness: openai:judge-1: 0 of 12 scored: ")
    assert all(row["correctness_error"] for row in rows)


def test_a_jury_with_a_dead_judge_names_it_and_a_jury_of_two_has_no_quorum_without_it(run, tmp_path, caplog):
    with judge_server(always={"content": GOOD}) as alive, judge_server(always={"status": 401}) as dead:
        a, b, down = (
            {"judge_model_name": name, "judge_backend": "openai", "base_url": server.url, "weight": weight}
            for name, server, weight in (("a", alive, 1), ("b", alive, 1), ("down", dead, 1))
        )
        _, three = run(jury_metric("correctness"), "jury", {"judges": [a, b, down]})
        assert three["correctness_coverage"] == 1.0
        assert "sums|0, correctness: openai:down: 0 of 12 scored: judge_down 12" in caplog.text
        [receipt] = read_receipts(tmp_path / "receipts.json")
        assert [(one.n_scored, one.reasons) for one in receipt.judges] == [(12, {}), (12, {}), (0, {"judge_down": 12})]
        assert not receipt.scored_nothing
        rows, two = run(jury_metric("correctness"), "jury", {"judges": [a, down]})
        assert two["correctness_coverage"] == 0.0, "half of the weight is not more than half"
        assert {row["correctness_error"] for row in rows} == {"judge_down"}
        _, heavy = run(jury_metric("correctness"), "jury", {"judges": [{**a, "weight": 2}, down]})
        assert heavy["correctness_coverage"] == 1.0, "two thirds of the weight decide"


def test_disagreement_in_judge_mode_is_said_when_a_run_starts(monkeypatch, tmp_path, caplog):
    from evalkit.lighteval.lighteval_main import settle_environment

    config = {"judges": [fake("strict")], "report_disagreement": True}
    settle_environment({"EVALUATOR_SCORING_MODE": "judge", "EVALUATOR_SCORING_CONFIG": json.dumps(config)})
    assert "report_disagreement has no effect in scoring mode 'judge'" in caplog.text


def test_a_refusal_names_task_metric_and_what_the_user_called_things(run, tmp_path):
    (tmp_path / "mine.yaml").write_text("profile: mine\nrubric: faithfulness@v1\njudges: ['fake:strict']\n")
    bindings = {"sums": {"judge_profile": str(tmp_path / "mine.yaml")}}
    with pytest.raises(ConfigError) as problem:
        run(judge_metric("correctness", name="sum_is_right"), "judge", bindings=bindings)
    assert str(problem.value).startswith(
        "task 'sums|0', metric 'sum_is_right': profile 'mine' is for rubric faithfulness@v1, but the metric uses"
    )
    with pytest.raises(ConfigError, match=r"^task 'sums\|0', metric 'sum_is_right': no judge is named; name one in"):
        run(judge_metric("correctness", name="sum_is_right"), "judge", bindings={"sums": {}})
    config = {"judges": [fake("strict"), fake("lenient")], "aggregation": "dawid_skene"}
    with pytest.raises(ConfigError, match="aggregation 'dawid_skene' needs 3 judges or more"):
        run(judge_metric("correctness"), "jury", config)


def test_a_template_that_the_rubric_cannot_fill_is_refused_by_the_check(run):
    with pytest.raises(RubricError, match=r"^metric 'correctness': template pairwise@v1 uses 'answer_a', 'answer_b'"):
        run(judge_metric("correctness"), "judge", {"judges": [fake("strict", judge_template_id="pairwise")]})


def test_a_tie_without_a_number_is_scored(run, tmp_path):
    def replies(score):
        return lambda body: {
            "content": json.dumps({"explanation": "x", "score": score(body["messages"][-1]["content"])})
        }

    with (
        judge_server(faults=replies(lambda text: 0 if "0 plus 0" in text else 2)) as one,
        judge_server(faults=replies(lambda _: 2)) as other,
    ):
        judges = [
            {"judge_model_name": name, "judge_backend": "openai", "base_url": server.url}
            for name, server in (("a", one), ("b", other))
        ]
        config = {"judges": judges, "aggregation": "majority", "samples": 1}
        rows, figures = run(jury_metric("correctness"), "jury", config)
    # of four answers the judges tie on the first: no number, no verdict, and scored
    assert [row["correctness_error"] for row in rows] == ["tied", "", "", ""]
    assert math.isnan(rows[0]["correctness"])
    assert (figures["correctness_n"], figures["correctness_n_verdicts"], figures["correctness"]) == (3.0, 3.0, 1.0)
    assert (figures["correctness_coverage"], figures["correctness_n_unscored"]) == (1.0, 0.0)
    [receipt] = read_receipts(tmp_path / "receipts.json")
    assert (receipt.n_scored, receipt.n_items, receipt.warnings) == (4, 4, [])
