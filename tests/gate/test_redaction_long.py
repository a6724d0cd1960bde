"""`--redact`: what is planted in prompts, answers, contexts, expectations and meta comes out nowhere."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import write_lines
from servers import JudgeServer, judge_server

from evalkit.cli import main
from evalkit.gate import GateConfig, GateOptions, Trace, run_gate

Ran = Callable[..., str]
PLANTED = "planted"  # every planted text holds it, nothing else of a run does


def row(name: str, **changes: Any) -> dict[str, Any]:
    plain = {"schema_version": 1, "type": "verdict.trace", "request_id": name, "prompt": f"{PLANTED}-prompt {name}?"}
    meta = {"own": f"{PLANTED}-meta", "item": {"note": f"{PLANTED}-item"}, "verdict": {"mine": f"{PLANTED}-verdict"}}
    return plain | {"context": [f"{PLANTED}-context"], "response": f"{PLANTED}-answer {name}", "meta": meta} | changes


def judged(name: str) -> dict[str, Any]:
    return {"id": name, "expected": {"type": "faithfulness", "min_score": 0.9}}


SCHEMA = {"type": "object", "title": f"{PLANTED}-schema"}
CHECKS = [
    {"type": "must_contain", "value": [f"{PLANTED}-answer", f"{PLANTED}-value"]},
    {"type": "regex", "pattern": f"{PLANTED}-pattern"},
    {"type": "json_schema", "schema": SCHEMA},
]


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    def echo(body: dict[str, Any]) -> dict[str, Any]:
        text = body["messages"][-1]["content"]
        if "bad-request" in text:
            return {"status": 400, "body": {"error": {"message": f"no such {PLANTED}-thing: {text}"}}}
        if "refuses" in text and "temperature" in body:
            said = f"Unsupported parameter: 'temperature' is not supported for {PLANTED}"
            return {"status": 400, "body": {"error": {"message": said, "param": "temperature"}}}
        if "wrong-key" in text:
            return {"status": 401, "body": {"error": {"message": f"key does not fit {PLANTED}"}}}
        if "unreadable" in text:
            return {"content": f"I will not rate {text}"}
        return {"content": json.dumps({"explanation": f"it says {text}", "score": 1})}

    with judge_server(faults=echo) as running:
        yield running


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ran:
    monkeypatch.chdir(tmp_path)

    def run(tests: list[dict[str, Any]], rows: list[dict[str, Any]], *flags: str, code: int) -> str:
        """All that a redacted gate and a redacted recording leave behind, as one text."""
        Path("eval.json").write_text(json.dumps({"tests": tests}), encoding="utf-8")
        write_lines(Path("traces.jsonl"), rows)
        files = ("--config", "eval.json", "--trace-file", "traces.jsonl", "--redact", *flags)
        assert main(["ci", *files, "--out", "out"]) == code
        assert main(["judge", *files, "-o", "copy.jsonl"]) in (0, 2)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        written = [path for path in (*Path().glob("out/*"), Path("copy.jsonl")) if path.exists()]
        return "".join([*(path.read_text(encoding="utf-8") for path in written), said.out, said.err])

    return run


def live(server: JudgeServer) -> tuple[str, ...]:
    return ("--judge", "openai:m", "--judge-base-url", server.url)


def test_an_explanation_that_quotes_everything(tmp_path: Path, ran: Ran, server: JudgeServer) -> None:
    tests = [judged("a"), {"id": "b", "expected": CHECKS}]
    said = ran(tests, [row("a"), row("b")], *live(server), code=1)
    assert PLANTED not in said
    report = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [test["answer"] for test in report["tests"]] == ["[REDACTED]"] * 2
    assert report["tests"][0]["metrics"][0]["judgments"][0]["rationale"] == "[REDACTED]"
    assert report["tests"][0]["metrics"][0]["judgments"][0]["score"] == 0.5, "figures stay"
    assert report["tests"][1]["message"].count("the check fails for [REDACTED]") == 3
    enriched = json.loads((tmp_path / "out" / "traces.jsonl").read_text().splitlines()[0])
    assert enriched["meta"]["own"] == enriched["meta"]["item"] == enriched["meta"]["verdict"]["mine"] == "[REDACTED]"
    assert enriched["meta"]["verdict"]["judge"]["faithfulness"]["samples"] == [False] * 3
    assert enriched["request_id"] == "a"
    assert PLANTED in (tmp_path / "traces.jsonl").read_text(), "the source is as it was"


@pytest.mark.parametrize("name", ["bad-request", "wrong-key", "unreadable"])
def test_what_a_failing_server_says_of_the_prompt(ran: Ran, server: JudgeServer, name: str) -> None:
    said = ran([judged(name)], [row(name)], *live(server), code=2)
    assert PLANTED not in said
    assert "could not be judged" in said


@pytest.mark.parametrize(("name", "code"), [("bad-request", 2), ("refuses", 1)], ids=["bad-request", "refuses"])
def test_what_is_logged_of_a_server_beside_a_good_answer(ran: Ran, server: JudgeServer, name: str, code: int) -> None:
    said = ran([judged("a"), judged(name)], [row("a"), row(name)], *live(server), code=code)
    assert PLANTED not in said
    assert "evalkit: warning: " in said
    assert "[REDACTED]" in said.partition("evalkit: warning: ")[2].splitlines()[0]


def test_recorded_explanations_and_own_fields_of_a_recorded_judgment(ran: Ran) -> None:
    recorded = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3, "agreement": 1.0}
    recorded |= {"rationale": f"{PLANTED}-rationale", "own": f"{PLANTED}-field"}
    meta = {"verdict": {"judge": {"faithfulness": recorded, "elsewhere": {"rationale": f"{PLANTED}-other"}}}}
    said = ran([judged("a")], [row("a", meta=meta)], code=0)
    assert PLANTED not in said


def _of_meta(**changes: Any) -> dict[str, Any]:
    plain = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True] * 3}
    return {"verdict": {"judge": {"faithfulness": plain | changes}}}


@pytest.mark.parametrize(
    ("change", "tests"),
    [
        (lambda one: one | {"prompt": [f"{PLANTED}-list"]}, None),
        (lambda one: one | {"attempt": f"{PLANTED}-attempt"}, None),
        (lambda one: one | {"meta": _of_meta(rationale=[f"{PLANTED}-list"])}, None),
        (lambda one: one, [{"id": "a", "expected": {"type": "faithfulness", "samples": f"{PLANTED}-samples"}}]),
        (lambda one: one, [{"id": "a", "expected": {"type": "regex", "pattern": f"({PLANTED}-open"}}]),
        (lambda one: one, [{"id": "a", "expected": {"type": "json_schema", "schema": {"type": f"{PLANTED}-type"}}}]),
        (lambda one: one, [judged("a") | {"input": {"prompt": f"{PLANTED}-another"}}]),
        (lambda one: one, [judged("a") | {"input": {"context": f"{PLANTED}-another"}}]),
    ],
    ids=["prompt", "attempt", "recorded", "setting", "regex", "schema", "other-prompt", "other-context"],
)
def test_errors_quote_nothing(ran: Ran, change: Callable[[Any], Any], tests: Any) -> None:
    said = ran(tests or [judged("a")], [change(row("a"))], code=2)
    assert PLANTED not in said
    assert "error" in said


def test_without_the_flag_all_of_it_is_shown() -> None:
    tests: list[Any] = [{"id": "b", "expected": CHECKS}]
    trace = Trace(1, "b", f"{PLANTED}-prompt", None, f"{PLANTED}-answer")
    plain, hidden = (run_gate(GateConfig(tests=tests), [trace], GateOptions(redact=flag)) for flag in (False, True))
    assert f"{PLANTED}-value" in plain.tests[0].message
    assert PLANTED not in repr(hidden.tests)
    assert [test.status for test in plain.tests] == [test.status for test in hidden.tests]


def test_a_trace_file_is_not_redacted_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "traces.jsonl", [row("a")])
    (tmp_path / "eval.json").write_text(json.dumps({"tests": [judged("a")]}), encoding="utf-8")
    before = (tmp_path / "traces.jsonl").read_bytes()
    files = ("--config", "eval.json", "--trace-file", "traces.jsonl", "--redact", "--judge", "fake")
    for command in (("judge", *files), ("judge", *files, "-o", "./traces.jsonl"), ("ci", *files, "--out", ".")):
        assert main(list(command)) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "name another" in said.err
    assert (tmp_path / "traces.jsonl").read_bytes() == before
