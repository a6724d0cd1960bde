"""What is known to ask no model: LightEval's own metrics, evalkit's checks, and what a plugin may put into them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lighteval")

from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import AvgAtN, ExactMatches, JudgeLLM, SampleLevelComputation
from lighteval.metrics.utils.llm_as_judge import JudgeLM
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.requests import SamplingMethod

from evalkit.lighteval import PolluxLLMJudgeMetric, check_metric, judge_metric, pollux_corpus
from evalkit.lighteval.plugin import TASKS_TABLE
from evalkit.lighteval.scorer_kinds import scorer_of


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
}


def test_a_variable_without_a_value_hides_no_function() -> None:
    def ask(text: str) -> str:
        return later(text)

    assert scorer_of(metric(ExactMatches(normalize_gold=ask))) == "unknown"
    if False:

        def later(text: str) -> str:
            return text


@pytest.mark.parametrize("case", KNOWN)
def test_what_is_made_of_known_code_is_deterministic(case: str) -> None:
    assert scorer_of(KNOWN[case]) == "deterministic"


@pytest.mark.parametrize("case", UNKNOWN)
def test_anything_else_is_unknown(case: str) -> None:
    assert scorer_of(UNKNOWN[case]) == "unknown"


def test_evalkits_own_tasks_are_judged_or_deterministic() -> None:
    found = {(task.name, str(one.metric_name)): scorer_of(one) for task in TASKS_TABLE for one in task.metrics}
    assert set(found.values()) == {"judge", "deterministic"}
    assert found["grounded_qa", "faithfulness"] == found["pollux:easy", "pollux"] == "judge"
    assert found["tool_use", "tools"] == found["grounded_qa", "f1"] == "deterministic"
    assert scorer_of(metric(pollux())) == "judge"


def test_lightevals_own_metrics_are_known_but_for_its_judges() -> None:
    found = {one.name: scorer_of(one.value) for one in Metrics}
    unknown = [name for name, by in found.items() if by != "deterministic"]
    assert unknown == ["simpleqa_judge"]
