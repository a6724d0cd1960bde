"""Decision models as judges of LightEval's metrics: asked by each wire, and refused for POLLUX."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from decision_server import decider

import evalkit as ek
from evalkit.errors import ConfigError
from evalkit.runs.contract.receipts import read_receipts

pytest.importorskip("lighteval")

from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

from evalkit.lighteval import judge_metric, pollux_metric

DOCS = [
    Doc(query=f"What is {n}?", choices=[""], gold_index=0, id=str(n), task_name="sums|0",
        specific={"reference_answer": str(n), "criteria": ["complete"]})
    for n in range(2)
]  # fmt: skip
ANSWERS = [ModelResponse(text=["It is 0. MASS .1 .2 .7"]), ModelResponse(text=["I do not know."])]


@pytest.fixture(params=["decisions", "systemone"])
def backend(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EVALUATOR_RECEIPT_PATH", str(tmp_path / "receipts.json"))
    monkeypatch.setenv("EVALUATOR_SCORING_MODE", "judge")
    return str(request.param)


def configure(monkeypatch: pytest.MonkeyPatch, backend: str, url: str) -> None:
    judge = {"judge_model_name": "luna", "judge_backend": backend, "base_url": url}
    monkeypatch.setenv("EVALUATOR_SCORING_CONFIG", json.dumps({"judges": [judge]}))


def test_a_scoring_config_names_a_decision_model(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    metric = judge_metric("correctness")
    with decider() as (server, model):
        configure(monkeypatch, backend, server.url)
        rows = metric.compute_sample(responses=ANSWERS, docs=DOCS)[metric.metric_name]
        assert len(model.asked) == 2  # one sample of each
    assert rows[0]["correctness_raw"] == pytest.approx(0.2 + 1.4)
    assert [row["correctness_passed"] for row in rows] == [True, False]
    (receipt,) = read_receipts(tmp_path / "receipts.json")
    (judge,) = receipt.judges
    assert (receipt.samples, judge.provider, judge.template, judge.score) == (1, backend, "decision@v1", "expected")


def test_pollux_criteria_are_refused_before_anything_is_sent(backend: str, monkeypatch: pytest.MonkeyPatch):
    criteria = {"complete": ek.rubrics.Criterion(name="complete", scale={0: "No", 1: "In part", 2: "Yes"})}
    metric = pollux_metric(criteria)
    with decider() as (server, model):
        configure(monkeypatch, backend, server.url)
        message = f"{backend}:luna.*POLLUX asks for a text, and decision models write none"
        with pytest.raises(ConfigError, match=message):
            metric.sample_level_fn.check("sums|0", DOCS)
        with pytest.raises(ConfigError, match=message):
            metric.compute_sample(responses=ANSWERS, docs=DOCS)
        assert model.asked == []
