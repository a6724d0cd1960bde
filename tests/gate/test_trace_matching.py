"""How the traces of a test are found, and what the errors quote."""

from __future__ import annotations

from evalkit.gate import Trace
from evalkit.gate.config import GateTest
from evalkit.gate.runner import match


def error_of(asked: str, recorded: str) -> str:
    test = GateTest(id="t", input={"prompt": asked}, expected={"type": "must_contain", "value": "30"})
    (found,) = match([test], [Trace(7, "t", recorded, None, "30 days")], "f")
    assert found.error is not None
    return found.error


def test_another_prompt_is_quoted_up_to_80_characters() -> None:
    # with its quotation marks, 78 characters are shown whole, and of 79 the first 78
    for asked, shown in (("a" * 78, repr("a" * 78)), ("a" * 79, "'" + "a" * 78 + "…")):
        assert error_of(asked, "b") == (
            f"test 't' and its trace (f, line 7) differ in prompt: test {shown}, trace 'b'; record the trace again or "
            "correct the test"
        )


def test_a_test_without_a_trace_says_where_it_was_looked_for() -> None:
    expected = {"type": "must_contain", "value": "30"}
    rest = "; add the trace, or set request_id in the test"
    for more, said in (
        ({}, "f has no trace with request_id 't'"),
        ({"input": {"prompt": "How long?"}}, "f has no trace with request_id 't', and no trace with its prompt"),
        ({"request_id": "r"}, "f has no trace with request_id 'r'"),
        # a test with a request_id is not looked for by its prompt
        ({"request_id": "r", "input": {"prompt": "b"}}, "f has no trace with request_id 'r'"),
    ):
        (found,) = match([GateTest(id="t", expected=expected, **more)], [Trace(7, "x", "b", None, "30 days")], "f")
        assert found.error == said + rest
    (found,) = match(
        [GateTest(id="t", input={"prompt": "b"}, expected=expected)], [Trace(7, "x", "b", None, "30 days")]
    )
    assert [trace.line for trace in found.traces] == [7]


def test_repeats_have_different_numbers() -> None:
    test = GateTest(id="t", expected={"type": "must_contain", "value": "30"})

    def lines(*attempts: int | None) -> list[int] | str:
        traces = [Trace(at + 1, "t", "b", None, "30 days", attempt) for at, attempt in enumerate(attempts)]
        (found,) = match([test], traces, "f")
        return [trace.line for trace in found.traces] if found.error is None else found.error.partition(";")[0]

    assert lines(None) == [1]
    assert lines(1, 2, 3) == [1, 2, 3]
    assert lines(1, 2, 1) == "f has two traces for test 't', lines 1 and 3"
    assert lines(1, 2, 3, 2) == "f has two traces for test 't', lines 2 and 4"
    assert lines(1, None) == "f has two traces for test 't', lines 1 and 2"
