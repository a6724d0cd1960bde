"""What is known to ask no model, whose word counts, and which documents are the same."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lighteval")

from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import BLEURT, AvgAtN, ExactMatches, JudgeLLM, SampleLevelComputation
from lighteval.metrics.utils.llm_as_judge import JudgeLM
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.requests import Doc, SamplingMethod

from evalkit.lighteval import PolluxLLMJudgeMetric, judge_metric, pollux_corpus
from evalkit.lighteval.plugin import TASKS_TABLE
from evalkit.lighteval.scorer_kinds import document_hashes, scorer_of, task_facts
from evalkit.lighteval.tasks.unjudged_metrics import check_metric


def ask_gpt(text: str) -> str:
    """A plugin's own function, which may ask anyone."""
    return text


class Asks(SampleLevelComputation):
    def compute(self, doc: Any, model_response: Any, **_: Any) -> float:
        return 1.0


class Exact(ExactMatches):
    """A subclass may do anything."""


class Judged(JudgeLLM):
    def __init__(self) -> None:  # LightEval's own would look for a model
        self.judge = JudgeLM.__new__(JudgeLM)


def metric(function: Any, corpus: Any = np.mean) -> SampleLevelMetric:
    return SampleLevelMetric("m", True, SamplingMethod.GENERATIVE, function, corpus)


def pollux() -> PolluxLLMJudgeMetric:
    return PolluxLLMJudgeMetric("c", {0: "a", 1: "b"}, "m")


KNOWN = {
    "exact matches": metric(ExactMatches()),
    "with known parts": metric(AvgAtN(n=2, sample_scoring_function=ExactMatches(strip_strings=True))),
    "evalkit's corpus": metric(ExactMatches(), functools.partial(pollux_corpus, name="x")),
}


@functools.wraps(ExactMatches.compute)
def disguised(text: str) -> str:
    """Has the module of LightEval's own function by its decorator."""
    return text


UNKNOWN = {
    "a plugin's function that a decorator names as LightEval's": metric(ExactMatches(normalize_gold=disguised)),
    "a plugin's class": metric(Asks()),
    "a subclass": metric(Exact()),
    "a plugin's function in LightEval's metric": metric(ExactMatches(normalize_gold=ask_gpt)),
    "a lambda in it": metric(ExactMatches(normalize_pred=lambda text: ask_gpt(text))),
    "a plugin's function, bound": metric(ExactMatches(normalize_gold=functools.partial(ask_gpt))),
    "a plugin's class inside": metric(AvgAtN(n=2, sample_scoring_function=Asks())),
    "a plugin's corpus": metric(ExactMatches(), lambda rows: sum(rows)),
    "LightEval's judge": metric(Judged()),
    "LightEval's judge inside": metric(AvgAtN(n=2, sample_scoring_function=Judged())),
    "a judged metric inside": metric(AvgAtN(n=2, sample_scoring_function=judge_metric("safety").sample_level_fn)),
    "a check of a plugin": check_metric("c", ask_gpt, ["x"]),  # type: ignore[arg-type]
    "nothing": None,
    "weights inside": metric(AvgAtN(n=2, sample_scoring_function=BLEURT())),
    "a plugin's function bound to LightEval's object": metric(
        ExactMatches(normalize_gold=types.MethodType(ask_gpt, ExactMatches()))
    ),
    "a corpus function bound to LightEval's object": metric(ExactMatches(), types.MethodType(ask_gpt, ExactMatches())),
}


def test_a_variable_without_a_value_hides_no_function() -> None:
    def ask(text: str) -> str:
        return later(text)

    assert scorer_of(metric(ExactMatches(normalize_gold=ask))) == "unknown"
    if False:

        def later(text: str) -> str:
            return text


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_made_of_known_code_is_own(case: str) -> None:
    assert scorer_of(KNOWN[case]) == "own"


@pytest.mark.parametrize("case", UNKNOWN)
def test_anything_else_is_unknown(case: str) -> None:
    assert scorer_of(UNKNOWN[case]) == "unknown"


def test_a_class_of_lighteval_with_another_method_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = metric(ExactMatches())
    monkeypatch.setattr(ExactMatches, "compute", lambda self, **_: ask_gpt("x"))
    assert scorer_of(plain) == "unknown"


def test_evalkits_own_tasks_are_judged_or_own() -> None:
    found = {(task.name, str(one.metric_name)): scorer_of(one) for task in TASKS_TABLE for one in task.metrics}
    assert set(found.values()) == {"judge", "own"}
    assert found["grounded_qa", "faithfulness"] == found["pollux:easy", "pollux"] == "judge"
    assert found["tool_use", "tools"] == found["grounded_qa", "f1"] == "own"
    assert scorer_of(metric(pollux())) == "judge"
    [safety] = [task for task in TASKS_TABLE if task.name == "safety_guardrail"]
    facts = task_facts(safety, []).metrics
    better = {name: one.higher_is_better for name, one in facts.items()}
    assert {"safety": True, "refused_unsafe": True, "refused_safe": False}.items() <= better.items()
    assert None not in better.values(), "the name of a check is that of no figure"


def test_lightevals_own_metrics_are_known_but_for_its_judges_and_what_loads_weights() -> None:
    unknown = {one.name for one in Metrics if scorer_of(one.value) != "own"}
    languages = {f"extractiveness{language}" for language in ("", "_de", "_fr", "_it")}
    assert unknown == {"simpleqa_judge", "bert_score", "bleurt", "faithfulness", *languages}


def task_of(*metrics: Any) -> Any:
    return types.SimpleNamespace(metrics=metrics, config=types.SimpleNamespace(prompt_function=ask_gpt))


def test_the_word_of_the_author_is_taken_for_the_named_metrics_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of(metric(Asks()), dataclasses.replace(metric(Asks()), metric_name="other", higher_is_better=False))
    assert {name: one.scorer for name, one in task_facts(task, []).metrics.items()} == {
        "m": "unknown",
        "other": "unknown",
    }
    here = sys.modules[__name__]
    monkeypatch.setattr(here, "EVALKIT_PLUGIN", {"name": "mine", "deterministic": ["m"]}, raising=False)
    facts = task_facts(task, []).metrics
    assert (facts["m"].scorer, facts["m"].word, facts["m"].higher_is_better) == ("own", "mine", True)
    assert (facts["other"].scorer, facts["other"].word, facts["other"].higher_is_better) == ("unknown", None, False)
    for odd in ("m_and_more", 5, {"m": True}, None, [["m"]]):
        monkeypatch.setattr(here, "EVALKIT_PLUGIN", {"deterministic": odd}, raising=False)
        assert task_facts(task, []).metrics["m"].scorer == "unknown", odd
    monkeypatch.setattr(here, "EVALKIT_PLUGIN", {"deterministic": "m"}, raising=False)
    assert task_facts(task, []).metrics["m"].word == __name__
    judged = task_facts(task_of(dataclasses.replace(judge_metric("safety"), metric_name="m")), []).metrics["m"]
    assert (judged.scorer, judged.word) == ("judge", None), "no word takes the place of a receipt"


def test_directions_of_several_figures_are_each_their_own() -> None:
    distances = task_facts(task_of(Metrics.copyright.value), []).metrics
    assert {name: one.higher_is_better for name, one in distances.items()} == {
        "longest_common_prefix_length": True, "edit_distance": False, "edit_similarity": True,
    }  # fmt: skip
    assert task_facts(task_of(Metrics.ter.value), []).metrics["ter"].higher_is_better is False


class Image:
    def __init__(self, pixels: bytes) -> None:
        self.pixels = pixels

    def tobytes(self) -> bytes:
        return self.pixels


def doc(**changes: Any) -> Doc:
    shot = Doc(query="1+1", choices=["2"], gold_index=0)
    fields: dict[str, Any] = {
        "query": "2+2", "choices": ["4"], "gold_index": 0, "id": "0", "instruction": "add",
        "specific": {"reference_answer": "four", "context": "a table"}, "images": [Image(b"1")],
        "fewshot_samples": [shot],
    }  # fmt: skip
    return Doc(**(fields | changes))


CHANGES: dict[str, list[dict[str, Any]]] = {
    "questions": [{"query": "2+3"}, {"query": "2+2 "}, {"instruction": "sum"}, {"instruction": None}],
    "golds": [
        {"choices": ["5"]}, {"choices": ["4", "4"]}, {"gold_index": [0]},
        {"specific": {"reference_answer": "five", "context": "a table"}},
    ],
    "ids": [{"id": "1"}],
    "context": [
        {"specific": {"reference_answer": "four", "context": "another"}}, {"images": [Image(b"2")]}, {"images": None},
        {"specific": {"reference_answer": "four", "context": "a table", "label": "safe"}},
    ],
    "examples": [{"fewshot_samples": []}, {"fewshot_samples": [Doc(query="1+2", choices=["2"], gold_index=0)]}],
}  # fmt: skip


def test_a_change_of_the_documents_changes_the_hash_of_its_part_alone() -> None:
    before = document_hashes([doc(), doc(query="3+3")])
    assert document_hashes([doc(), doc(query="3+3")]) == before, "nothing depends on where an object is in memory"
    for part, changes in CHANGES.items():
        for change in changes:
            after = document_hashes([doc(**change), doc(query="3+3")])
            assert {name for name in before if before[name] != after[name]} == {part}, change
    swapped = document_hashes([doc(query="3+3"), doc()])
    assert swapped["questions"] != before["questions"]
    fewer = document_hashes([doc()])
    assert fewer["n"] == 1
    assert not {fewer[name] for name in fewer} & {before[name] for name in before}


def test_documents_of_any_content_have_a_hash() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    odd = [{("a", 1): 2}, loop, {"x": object(), "y": {1, 2}, "z": float("nan")}, {"half": "\ud83d"}, ["a list"], None]
    for specific in odd:
        assert document_hashes([doc(specific=specific)]) == document_hashes([doc(specific=specific)])
