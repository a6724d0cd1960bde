"""A jury of chat and decision models in the gate: samples, what is recorded, and what is asked again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commandline import write_lines
from decision_server import at, decider

import evalkit as ek
from evalkit.gate import GateConfig, GateOptions, run_gate
from evalkit.gate.judgment import judge_blocks

CONTEXT = ["The shop takes goods back for 30 days."]
TRACE = {
    "schema_version": 1, "type": "verdict.trace", "context": CONTEXT, "request_id": "t", "prompt": "How long?",
    "response": "30 days. MASS .1 .2 .7",
}  # fmt: skip
CONFIG = GateConfig(tests=[{"id": "t", "expected": [{"type": "faithfulness"}]}])


def test_samples_are_split_by_the_number_of_each_judge():
    parts: dict[str, Any] = {"samples": 3, "judges": [{"samples": 1}, {}]}
    assert judge_blocks([True, None, None, None], 2, parts) == [[True], [None, None, None]]
    assert judge_blocks([True, None, None, None], 2) == [[True, None], [None, None]]
    assert judge_blocks([True, None, None], 2, parts) == [[True, None, None]]  # the parts are those of other samples
    assert judge_blocks([True, None, None, None], 2, {"samples": 2, "judges": "?"}) == [[True, None], [None, None]]


def test_a_decision_model_is_asked_once_and_its_verdict_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_lines(Path("traces.jsonl"), [TRACE])
    with decider() as (server, model):
        jury = [at(server, template="decision@v1"), "fake:strict"]
        ev = ek.evaluate([{"question": "?", "answer": "x", "context": CONTEXT}], "faithfulness", jury, cache="0")
        with pytest.warns(ek.errors.EvalkitWarning, match="answered as 'luna-2026'"):
            ek.freeze(ev, "jury.yaml")
        model.asked.clear()
        options = GateOptions(judge="profile", profile="jury.yaml", cache="cache")
        result = run_gate(CONFIG, "traces.jsonl", options)
        assert len(model.asked) == 1
        judgment = result.tests[0].metrics[0].measured[0].judgment
        assert judgment is not None
        assert len(judgment.samples) == 1 + 3
        ek.gate.enrich("traces.jsonl", "traces.jsonl", result.judgments)
        recorded = json.loads(Path("traces.jsonl").read_text())["meta"]["verdict"]["judge"]["faithfulness"]
        assert [judge.get("samples") for judge in recorded["parts"]["judges"]] == [1, None]
        again = run_gate(CONFIG, "traces.jsonl", options)
        from_trace = again.tests[0].metrics[0].measured[0].judgment
        assert from_trace is not None
        assert (from_trace.source, from_trace.passed) == ("trace", judgment.passed)
        assert len(model.asked) == 1
        # all that a decision model is asked, if none is named, is one sample
        alone = GateOptions(judge="decisions", model="luna", base_url=server.url, cache="cache")
        write_lines(Path("traces.jsonl"), [TRACE])
        only = run_gate(CONFIG, "traces.jsonl", alone).tests[0].metrics[0].measured[0].judgment
        assert only is not None
        assert len(only.samples) == 1
        assert len(model.asked) == 1  # and the reply to it is that of the jury


@pytest.mark.parametrize("score", ["expected", "mode"])
def test_what_was_recorded_once_is_replayed_without_naming_the_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: str
):
    monkeypatch.chdir(tmp_path)
    write_lines(Path("traces.jsonl"), [TRACE])
    with decider() as (server, model):
        named = GateOptions(judge="decisions", model="luna", base_url=server.url, score=score, cache="cache")
        result = run_gate(CONFIG, "traces.jsonl", named)
        ek.gate.enrich("traces.jsonl", "traces.jsonl", result.judgments)
    replayed = run_gate(CONFIG, "traces.jsonl", GateOptions(cache="empty"))
    from_trace = replayed.tests[0].metrics[0].measured[0].judgment
    assert from_trace is not None
    assert (from_trace.source, from_trace.passed) == ("trace", True)
    assert len(model.asked) == 1
    again = run_gate(CONFIG, "traces.jsonl", GateOptions(cache="empty", samples=3))
    assert again.exit_code == 2  # three were asked for


def test_a_recorded_jury_of_decision_models_is_replayed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    write_lines(Path("traces.jsonl"), [TRACE])
    with decider() as (server, _):
        jury = [at(server), at(server, provider="systemone")]
        ev = ek.evaluate([{"question": "?", "answer": "x", "context": CONTEXT}], "faithfulness", jury, cache="0")
        with pytest.warns(ek.errors.EvalkitWarning, match="answered as 'luna-2026'"):
            ek.freeze(ev, "jury.yaml")
        result = run_gate(CONFIG, "traces.jsonl", GateOptions(judge="profile", profile="jury.yaml", cache="cache"))
        ek.gate.enrich("traces.jsonl", "traces.jsonl", result.judgments)
    replayed = run_gate(CONFIG, "traces.jsonl", GateOptions(cache="empty"))
    judgment = replayed.tests[0].metrics[0].measured[0].judgment
    assert judgment is not None
    assert (judgment.source, judgment.passed, len(judgment.samples)) == ("trace", True, 2)
