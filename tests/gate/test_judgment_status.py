"""Checks without a judge: they can fail, they fetch nothing, and what cannot be decided is that test's error alone."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import ConfigError
from evalkit.gate import GateConfig, GateOptions, Trace, checks, measure, run_gate
from evalkit.gate.config import Expected, load_gate
from evalkit.gate.judgment import Judgment
from evalkit.gate.reports import as_json, as_junit, as_markdown, as_text


def checked(answer: str, **expected: Any) -> tuple[str, str]:
    """Status and message of one check; another test beside it, of the same answer, is not stopped by it."""
    tests = [{"id": "t", "expected": expected}, {"id": "o", "expected": {"type": "must_contain", "value": "30 days"}}]
    traces = [Trace(1, "t", "q", None, answer), Trace(2, "o", "q", None, "30 days")]
    result = run_gate(GateConfig(tests=tests), traces, environment={})
    assert result.tests[1].status == "pass", "no test stops another"
    status = result.tests[0].status
    assert result.exit_code == {"pass": 0, "fail": 1, "error": 2}[status]
    hidden = run_gate(GateConfig(tests=tests), traces, GateOptions(redact=True), environment={})
    assert [test.status for test in hidden.tests] == [test.status for test in result.tests]
    for document in (as_json, as_junit, as_markdown, as_text):
        document(result)
    return status, result.tests[0].message


def fits(schema: Any, answer: str) -> tuple[str, str]:
    return checked(answer, type="json_schema", schema=schema)


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "answer", "said"),
    [
        ({"type": "number"}, "NaN", "invalid JSON: NaN is not a number that JSON allows"),
        ({"type": "number"}, "Infinity", "invalid JSON"),
        ({"type": "number"}, "-Infinity", "invalid JSON"),
        ({"type": "number"}, "1e999", "invalid JSON: 1e999 is not a number that JSON allows"),
        ({"type": "object"}, '{"a": [NaN]}', "invalid JSON"),
        ({"type": "object", "required": ["a"]}, '{"a": "bad", "a": "good"}', "duplicate key 'a'"),
        ({"type": "object"}, '{"x": [{"a": 1, "\\u0061": 2}]}', "duplicate key 'a'"),
        ({"type": "object"}, "{} {}", "invalid JSON"),
        ({"type": "object"}, "", "invalid JSON"),
        ({"type": "string", "format": "date"}, '"2024-02-30"', "is not a 'date'"),
    ],
)
def test_json_that_is_none_does_not_fit_any_schema(schema: Any, answer: str, said: str) -> None:
    status, message = fits(schema, answer)
    assert status == "fail"
    assert said in message


@pytest.mark.long
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_every_json_text_is_read_as_it_is(value: Any) -> None:
    assert checks.read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("schema", "answer", "said"),
    [
        ({"$ref": "#"}, "1", "refers to itself endlessly"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "1", "endlessly"),
        ({"$dynamicRef": "#"}, "1", "endlessly"),
        ({"$ref": "#/$defs/nowhere"}, "1", "'/$defs/nowhere' does not exist"),
        ({"$ref": "other.json"}, "1", "Unresolvable: other.json"),
        ({"$ref": "#/x", "x": {"type": "nonsense"}}, "1", "the schema cannot be used (Unknown type 'nonsense'"),
        ({"$ref": "#/x", "x": 5}, "1", "the schema cannot be used"),
        ({"$ref": "#/x", "x": {"pattern": "("}}, '"a"', "the schema cannot be used"),
        ({"type": "number", "multipleOf": 0.1}, "9" * 400, "the schema cannot be used"),
        ({"type": "nonsense"}, "1", "invalid JSON Schema: 'nonsense' is not valid"),
        ({"pattern": "("}, "1", "invalid JSON Schema: '(' is not a 'regex'"),
        ({"minimum": float("nan")}, "1", "invalid JSON Schema: NaN is not a number"),
        ({"maximum": float("inf")}, "1", "invalid JSON Schema: Infinity is not a number"),
        ({"$schema": "http://127.0.0.1:9/own", "type": "string"}, "1", "unknown $schema 'http://127.0.0.1:9/own'"),
        ({"$schema": ["x"], "type": "string"}, "1", "invalid JSON Schema"),
        ({}, "1", "accepts null, {}, [], 0, a text and true"),
        ({"requird": ["a"], "title": "x"}, "{}", "accepts null, {}, [], 0, a text and true"),
        ({"required": [], "properties": {}}, "{}", "accepts null, {}, [], 0, a text and true"),
        ({"if": {"type": "array"}}, "{}", "accepts null, {}, [], 0, a text and true"),
        ({"type": "array"}, "[" * 100_000, "nested too deeply"),
        ({"type": "array"}, "[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ({"type": "array"}, '{"a":' * 100_000, "nested too deeply"),
    ],
)
@pytest.mark.long
def test_what_cannot_be_decided_is_that_tests_error(schema: Any, answer: str, said: str) -> None:
    status, message = fits(schema, answer)
    assert status == "error", message
    assert said in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"type": "string", "type": "number"}', "duplicate key 'type'"),
        ("true", "expected a mapping, got a bool"),
        ("[]", "expected a mapping, got a list"),
        ("{", "invalid JSON Schema"),
        ("[" * 100_000, "invalid JSON Schema"),
        (None, "cannot be read: no such file"),
    ],
)
def test_a_schema_file_that_cannot_be_used(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "s.json").write_text(text, encoding="utf-8")
    tests = [
        {"id": "t", "expected": {"type": "json_schema", "schema_file": "s.json"}},
        {"id": "o", "expected": {"type": "regex", "pattern": "1"}},
    ]
    (tmp_path / "e.json").write_text('{"tests": [\n' + ",\n".join(map(json.dumps, tests)) + "]}", encoding="utf-8")
    traces = [Trace(1, "t", "q", None, "1"), Trace(2, "o", "q", None, "1")]
    result = run_gate(load_gate(tmp_path / "e.json"), traces, environment={})
    assert [test.status for test in result.tests] == ["error", "pass"]
    assert said in result.tests[0].message
    assert "e.json, line 2: " in result.tests[0].message


@pytest.mark.parametrize("value", [1, 0, "x", ["a"]])
def test_one_demand_is_enough(value: Any) -> None:
    assert fits({"const": value}, json.dumps(value))[0] == "pass"
    assert fits({"type": "string", "minLength": 1}, '"a"')[0] == "pass"
    assert fits({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "{}")[0] == "pass"


@pytest.fixture
def asked() -> Iterator[tuple[int, list[str]]]:
    """A server on loopback that would serve a schema which accepts everything; the paths that it was asked for."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.long
@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "URL/any.json"},
        {"$ref": "URL/any.json#/$defs/x"},
        {"$dynamicRef": "URL/any.json"},
        {"$id": "URL/base.json", "$ref": "any.json"},
        {"$id": "URL/base.json", "allOf": [{"$ref": "/any.json"}]},
        {"$schema": "URL/draft", "type": "integer"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "URL/any.json"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"$ref": "URL/any.json"}}},
    ],
)
def test_nothing_is_ever_fetched(asked: tuple[int, list[str]], schema: Any) -> None:
    port, seen = asked
    made = json.loads(json.dumps(schema).replace("URL", f"http://127.0.0.1:{port}"))
    status, message = fits(made, '{"a": 1}')
    assert seen == []
    assert status == "error", message


def test_no_file_is_read_for_a_ref(tmp_path: Path) -> None:
    (tmp_path / "any.json").write_text("{}", encoding="utf-8")
    for ref in (f"file://{tmp_path}/any.json", str(tmp_path / "any.json"), "any.json"):
        assert fits({"$ref": ref}, "1")[0] == "error"
        assert fits({"$id": f"file://{tmp_path}/base.json", "$ref": ref}, "1")[0] == "error"


def test_no_socket_is_opened_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was opened")

    for name in ("connect", "connect_ex", "bind"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    for ref in ("http://example.invalid/x", "https://example.invalid/x", "ftp://example.invalid/x", "urn:x:y"):
        status, message = fits({"$ref": ref}, "1")
        assert (status, "AssertionError" in message) == ("error", False)


# Each takes 2^n steps on n letters: without a limit it would not end while anybody waits.
SLOW = "(a+)+$"
TEXT = "a" * 60 + "!"


@pytest.mark.long
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer of computing time here")
@pytest.mark.parametrize(
    ("expected", "answer"),
    [
        ({"type": "regex", "pattern": SLOW}, TEXT),
        ({"type": "json_schema", "schema": {"pattern": SLOW}}, json.dumps(TEXT)),
        (
            {"type": "json_schema", "schema": {"type": "object", "patternProperties": {SLOW: {"type": "number"}}}},
            json.dumps({TEXT: 1}),
        ),
        (
            {
                "type": "json_schema",
                "schema": {
                    "$ref": "#/$defs/0",
                    "$defs": {str(at): {"allOf": [{"$ref": f"#/$defs/{at + 1}"}] * 2} for at in range(60)}
                    | {"60": {"type": "string"}},
                },
            },
            '"a"',
        ),
    ],
    ids=["regex", "pattern", "names", "schema"],
)
def test_what_takes_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch, expected: Any, answer: str) -> None:
    monkeypatch.setattr(checks, "_SECONDS", 0.05)
    before = signal.getsignal(signal.SIGVTALRM)
    status, message = checked(answer, **expected)
    assert (status, "stopped after 0.05 s of computing" in message) == ("error", True)
    assert signal.getsignal(signal.SIGVTALRM) == before
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)


def test_checks_run_off_the_main_thread_too() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(checked("30", type="regex", pattern="^30$")))
    thread.start()
    thread.join(300)
    assert found[0][0] == "pass"


@pytest.mark.parametrize(
    "expected",
    [
        {"type": "must_contain", "value": ""},
        {"type": "must_contain", "value": ["30", ""]},
        {"type": "must_contain", "value": [" \n"]},
        {"type": "must_contain", "value": []},
        {"type": "must_contain"},
        {"type": "must_contain", "value": None},
        {"type": "regex", "pattern": ""},
        {"type": "regex", "pattern": "a*"},
        {"type": "regex", "pattern": "^"},
        {"type": "regex", "pattern": "$"},
        {"type": "regex", "pattern": "^.*"},
        {"type": "regex", "pattern": ".*$"},
        {"type": "regex", "pattern": "(?s).*"},
        {"type": "regex", "pattern": "(30 days)?"},
        {"type": "regex", "pattern": "30 days|"},
        *({"type": "regex", "pattern": text} for text in (r"\A", r"\Z", "(?=)", "(^|x)", "^|x", "(?m)^", "(?m)$")),
        *({"type": "regex", "pattern": text} for text in (r"(?s)\A.*\Z", "^(.|\n)*$", r"\A[\s\S]*")),
        {"type": "regex", "pattern": "("},
        {"type": "regex"},
        {"type": "json_schema"},
        {"type": "faithfulness", "min_score": False},
        {"type": "faithfulness", "min_score": True},
        {"type": "faithfulness", "min_score": "0.5"},
        {"type": "faithfulness", "min_score": float("nan")},
        {"type": "faithfulness", "min_score": [0.5]},
        {"type": "faithfulness", "samples": True},
        {"type": "faithfulness", "samples": 3.0},
        {"type": "faithfulness", "temperature": True},
        {"type": "faithfulness", "temperature": float("inf")},
        {"type": "faithfulness", "max_tokens": True},
        [],
        {},
        [{"type": "faithfulness"}, {"type": "faithfulness", "min_score": 0.5}],
    ],
    ids=str,
)
def test_a_check_that_cannot_fail_or_a_number_that_is_none_is_refused(tmp_path: Path, expected: Any) -> None:
    path = tmp_path / "e.json"
    path.write_text(json.dumps({"tests": [{"id": "t", "expected": expected}]}).replace("NaN", "1e999"), "utf-8")
    with pytest.raises(ConfigError, match=r"e\.json.* line "):
        load_gate(path)


@pytest.mark.parametrize(
    "pattern",
    [
        "^(?!.*sorry)",
        r"(?s)\A(?!.*sorry)",
        r"(?s)\A.{0,500}\Z",
        "^[^<>]*$",
        r"\A[\x00-\x7f]*\Z",
        "^$",
        r"\b",
        r"^(\w+\s?)*$",
    ],
)
def test_a_pattern_that_some_answer_does_not_match_is_taken(pattern: str) -> None:
    assert Expected(type="regex", pattern=pattern).of_check == {"pattern": pattern}


@pytest.mark.parametrize(
    "word", ["^30 days$", "^$", "^(?!.*never).*$", "\\b", "(?<=a)|(?=b)", "[^a]", "30|sixty", "a+"]
)
def test_patterns_that_can_fail_are_taken(word: str) -> None:
    GateConfig(tests=[{"id": "t", "expected": {"type": "regex", "pattern": word}}])


@pytest.mark.parametrize(
    "top",
    [
        {"tests": []},
        {"tests": None},
        {"suite": []},
        {"suite": {}},
        {"suite": None},
        {"suite": {"min_pass_rate": True}},
        {"suite": {"min_pass_rate": False}},
        {"suite": {"min_coverage": "0.9"}},
        {"suite": {"min_agreement": 1.5}},
        {"settings": {"timeout_seconds": True}},
        {"settings": {"timeout_seconds": "30"}},
        {"settings": {"samples": True}},
        {"settings": {"temperature": False}},
    ],
    ids=str,
)
def test_an_empty_part_or_a_number_that_is_none_is_refused_at_the_top(tmp_path: Path, top: Any) -> None:
    tests = [{"id": "t", "expected": {"type": "faithfulness"}}]
    (tmp_path / "e.json").write_text(json.dumps({"tests": tests} | top), "utf-8")
    with pytest.raises(ConfigError, match=r"e\.json.* line "):
        load_gate(tmp_path / "e.json")


@pytest.mark.parametrize(
    ("rules", "status"),
    [({"made": ["find"]}, "pass"), ({"made": ["refund"], "most": 3}, "fail"), ({"forbidden": ["find"]}, "fail")],
)
def test_calls_are_read_from_the_messages_of_a_trace(rules: Any, status: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "calls", "calls": rules}}])
    messages = [{"role": "assistant", "tool_calls": [call]}]
    for inputs, expected in (
        ({"messages": messages}, status),
        ({"messages": [{"from": "gpt", "value": "x"}]}, "error"),
        ({"messages": []}, "error"),
        (None, "error"),
    ):
        result = run_gate(config, [Trace(1, "t", "q", None, "a", inputs=inputs)], environment={})
        assert result.tests[0].status == expected


@pytest.mark.parametrize("rules", [{}, {"made": []}, {"made": "find"}, {"most": -1}, {"mode": 1}, {"in_order": True}])
def test_rules_that_allow_any_calls_or_cannot_be_read_are_refused(rules: Any) -> None:
    with pytest.raises(ValueError, match=r"calls"):
        GateConfig(tests=[{"id": "t", "expected": {"type": "calls", "calls": rules}}])


def test_texts_are_compared_in_one_normal_form() -> None:
    """é as one character or as e and an accent: the answer of a trace is NFC, so is what it must contain."""
    assert checked("caf\u00e9", type="must_contain", value="cafe\u0301")[0] == "pass"


@pytest.mark.parametrize(
    ("samples", "score", "passed", "bound", "more", "expected"),
    [
        ("TT-", 1.0, True, 0.9, {"reasons": {"empty": 1}},
         ("warn", "score 1 ≥ 0.9, 2 of 3 samples passed; 1 of 3 samples unscored (empty 1)")),
        ("TTF", 0.84, True, 0.85, {}, ("fail", "score 0.84 < 0.85, 2 of 3 samples passed")),
        ("TF-", 0.5, None, 0.8, {}, ("fail", "score 0.5 < 0.8, 1 of 3 samples passed; 1 of 3 samples unscored")),
        ("TTF", 0.8 - 1e-12, True, 0.8, {}, ("warn", "score 0.8 ≥ 0.8, 2 of 3 samples passed; the samples differ")),
        ("TF", 0.5, None, None, {},
         ("fail", "passed is open (a tie, or no majority), score 0.5, 1 of 2 samples passed")),
        ("FF-", 0.0, False, None, {},
         ("fail", "passed is False, score 0, 0 of 3 samples passed; 1 of 3 samples unscored")),
        ("T--", 1.0, True, None, {"reasons": {"refused": 1, "empty": 1}},
         ("error", "could not be judged: 2 of 3 samples unscored (empty 1, refused 1); more than half must be scored")),
        ("--", None, None, None, {"reasons": {"empty": 2}},
         ("error", "could not be judged: 2 of 2 samples unscored (empty 2)")),
        ("TF", None, None, None, {}, ("error", "could not be judged: the judges tie, or too few have a score")),
        ("T", 1.0, True, None, {}, ("pass", "score 1, 1 of 1 sample passed")),
        ("T", 1.0, True, None, {"error": "no reply"}, ("error", "no reply")),
    ],
)  # fmt: skip
def test_the_status_and_its_reason(
    samples: str, score: float | None, passed: bool | None, bound: float | None, more: Any, expected: tuple[str, str]
) -> None:
    verdicts = tuple({"T": True, "F": False, "-": None}[one] for one in samples)
    assert measure(Judgment("r", "v1", passed=passed, score=score, samples=verdicts, **more), bound) == expected
