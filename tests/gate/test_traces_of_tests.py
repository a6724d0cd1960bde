"""How the traces of a test are found, and what the errors quote."""

from __future__ import annotations

from evalkit.gate import Trace
from evalkit.gate.config import GateTest
from evalkit.gate.traces_of_tests import match


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
