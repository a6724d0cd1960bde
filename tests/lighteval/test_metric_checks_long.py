"""What is said of metrics before a model is loaded: true of LightEval 0.13, and silent about metrics that run."""

from __future__ import annotations

import statistics
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lighteval")

from lighteval.metrics import apply_metric
from lighteval.metrics.metrics import Metrics
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.llm_as_judge import JudgeLM
from lighteval.metrics.utils.metric_utils import SampleLevelMetric, SampleLevelMetricGrouping
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc, SamplingMethod

from evalkit.lighteval import PolluxLLMJudgeMetric, judge_metric
from evalkit.lighteval.metric_checks import cannot_run, nothing_judged, said_before
from evalkit.lighteval.pollux.scores import pollux_corpus


def test_of_lightevals_own_metrics_only_the_broken_judge_is_refused():
    refused = {one.name: said for one in Metrics if (said := cannot_run(one.value))}
    assert set(refused) == {"simpleqa_judge"}
    group = SampleLevelMetricGrouping(
        metric_name=["x"], higher_is_better={"x": True}, category=SamplingMethod.GENERATIVE, batched_compute=True,
        sample_level_fn=Batched(), corpus_level_fn={"x": np.mean},
    )  # fmt: skip
    with pytest.raises(TypeError, match="list"):  # what LightEval does after the model has answered
        apply_metric([ModelResponse(text=["a"])], [Doc(query="q", choices=["a"], gold_index=0)], [group])
    assert cannot_run(group).startswith("LightEval cannot compute a group of metrics")


class Batched(SampleLevelComputation):
    def compute(self, responses: list, docs: list, **_: Any) -> list[dict[str, float]]:
        return [{"x": 1.0} for _ in docs]


class Single(SampleLevelComputation):
    def compute(self, model_response: Any, doc: Any, **_: Any) -> dict:
        return {"x": 1.0}


class Plain(SampleLevelComputation):
    def compute(self, model_response: Any, doc: Any) -> float:
        return 1.0


class Odd(SampleLevelComputation):
    def compute(self, sample_ids: list, responses: list, formatted_docs: list) -> list:
        return []


def metric(function: Any, corpus: Any = np.mean, *, batched: bool = False) -> SampleLevelMetric:
    return SampleLevelMetric(
        metric_name="x", higher_is_better=True, category=SamplingMethod.GENERATIVE, sample_level_fn=function,
        corpus_level_fn=corpus, batched_compute=batched,
    )  # fmt: skip


OWN = PolluxLLMJudgeMetric("Ясность", {0: "нет", 1: "да"}, "strict", judge_backend="fake")
DICTS = [np.mean, np.nanmean, np.median, np.std, statistics.mean, sum, max, lambda rows: float(np.mean(rows))]
FINE = [len, lambda rows: float(np.mean([row["x"] for row in rows])), lambda rows: {"y": rows[0]["no such key"]}]


@pytest.mark.parametrize("function", [judge_metric("safety").sample_level_fn, OWN, Batched()])
def test_a_mean_of_dicts_is_refused_and_a_function_that_reads_them_is_not(function):
    for corpus in DICTS:
        assert cannot_run(metric(function, corpus, batched=True)).startswith("its samples are dicts"), corpus
    for corpus in [*FINE, pollux_corpus, partial(pollux_corpus, name="x")]:
        assert not cannot_run(metric(function, corpus, batched=True)), corpus
    assert "without batched_compute=True, but missing" in cannot_run(metric(function))


def test_functions_are_called_as_lighteval_calls_them():
    assert not cannot_run(metric(Plain()))
    assert cannot_run(metric(Single())).startswith("its samples are dicts")
    for function, batched in ((Plain(), True), (Odd(), False), (Odd(), True)):
        said = cannot_run(metric(function, batched=batched))
        assert said.startswith(f"LightEval calls {type(function).__name__}.compute("), said
        docs, responses = [Doc(query="q", choices=["a"], gold_index=0)], [ModelResponse(text=["a"])]
        with pytest.raises(TypeError):
            apply_metric(responses, docs, [metric(function, batched=batched)])
    assert cannot_run(metric(lambda: None)).startswith("LightEval takes no function as sample_level_fn")


def test_lightevals_judges_that_have_no_package_or_key_are_named(monkeypatch):
    def judged(backend: str, **given: Any) -> str:
        made = JudgeLM(
            model="m", templates=None, process_judge_response=None, judge_backend=backend, hf_provider="x", **given
        )
        function = Plain()
        function.judge = made  # type: ignore[attr-defined]
        return cannot_run(metric(function))

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert judged("openai").startswith("LightEval's judge m needs a key in OPENAI_API_KEY")
    assert judged("openai", url="http://127.0.0.1:9", api_key="k") == judged("openai"), "with url, the key is dropped"
    assert not judged("openai", api_key="k")
    assert judged("vllm").startswith("LightEval's judge m needs the package vllm")
    assert not judged("litellm")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert not judged("openai")


def test_one_line_if_nothing_is_judged_and_one_if_only_the_first_answer_is(monkeypatch):
    monkeypatch.delenv("EVALUATOR_SCORING_MODE", raising=False)
    own, pollux = judge_metric("safety", judges="fake:strict"), metric(OWN, batched=True)

    def task(name: str, *metrics: Any, n: int = 1, asked: list[int] | None = None) -> Any:
        return SimpleNamespace(
            full_name=name, metrics=metrics, num_samples=[1, n], config=SimpleNamespace(num_samples=asked)
        )

    tasks = [task("a|0", own, n=3), task("b|0", metric(Plain())), task("c|0", pollux, asked=[4]), task("d|0", own)]
    first, second = said_before(tasks)
    assert first.startswith(
        "nothing will be judged: the scoring mode is 'deterministic', the default (task 'a|0', metric"
    )
    assert "EVALUATOR_SCORING_MODE" in first
    assert "'c|0'" not in first, "POLLUX's own metric names its judge and needs no mode"
    assert second == "c|0: of the 4 answers to each document, only the first is judged"
    assert nothing_judged({"b|0": [metric(Plain())]}) == ""
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    assert [line.partition(":")[0] for line in said_before(tasks)] == ["a|0", "c|0"]
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "deterministic")
    assert [line.partition(":")[0] for line in said_before(tasks)] == ["nothing will be judged"]
