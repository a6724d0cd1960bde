"""Which traces a test means: by request id, else by unique prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalkit.gate.config import GateTest
from evalkit.gate.traces import REDACTED, Trace, matched
from evalkit.tables.values import canonical_text

__all__ = ["Match", "match"]


@dataclass(frozen=True, slots=True)
class Match:
    """The traces of a test (several are repeats), or why there are none."""

    traces: tuple[Trace, ...] = ()
    error: str | None = None


def match(
    tests: Sequence[GateTest], traces: Iterable[Trace], name: str = "the trace file", *, redact: bool = False
) -> list[Match]:
    """For each test its traces, in the order of the file; of the file only these are kept.

    With `redact`, errors quote no prompt and no context.

    Examples
    --------
    >>> test = GateTest(id="t", expected={"type": "must_contain", "value": "30"})
    >>> match([test], [Trace(1, "t", "How long?", None, "30 days")])[0].traces[0].answer
    '30 days'
    """
    ids = {test.request_id or test.id for test in tests}
    prompts = {canonical_text(test.input.prompt) for test in tests if test.input.prompt is not None}
    found = matched(traces, ids, prompts)
    return [_match(test, found["id"], found["prompt"], name, redact=redact) for test in tests]


def _match(
    test: GateTest, by_id: dict[str, list[Trace]], by_prompt: dict[str, list[Trace]], name: str, *, redact: bool
) -> Match:
    prompt = None if test.input.prompt is None else canonical_text(test.input.prompt)
    mine = by_id.get(test.request_id or test.id, [])
    if not mine and test.request_id is None and prompt is not None:
        mine = by_prompt.get(prompt, [])
    if not mine:
        wanted = f"request_id {test.request_id or test.id!r}" + (
            "" if test.request_id or prompt is None else ", and none with its prompt"
        )
        return Match(error=f"{name} has no trace with {wanted}; add the trace, or name it by request_id")
    attempts = [trace.attempt for trace in mine]
    if len(mine) > 1 and (None in attempts or len(set(attempts)) < len(attempts)):
        twice = next(
            (one, other)
            for at, other in enumerate(mine)
            for one in mine[:at]
            if None in (one.attempt, other.attempt) or one.attempt == other.attempt
        )
        return Match(
            error=f"{name} has two traces for test {test.id!r}, lines {twice[0].line} and {twice[1].line}; "
            "repeats need different 'attempt' numbers, other traces a request_id of their own"
        )
    for trace in mine:
        if error := _differs(test, trace, prompt, name, redact=redact):
            return Match(error=error)
    return Match(tuple(mine))


def _differs(test: GateTest, trace: Trace, prompt: str | None, name: str, *, redact: bool) -> str | None:
    context = None if test.input.context is None else tuple(canonical_text(text) for text in test.input.context)
    pairs = (("prompt", prompt, trace.prompt), ("context", context, trace.context))
    for field, asked, had in pairs:
        if asked is not None and asked != had:
            shown = (REDACTED, REDACTED) if redact else (_start(asked), _start(had))
            return (
                f"test {test.id!r} has another {field} than its trace ({name}, line {trace.line}): test "
                f"{shown[0]}, trace {shown[1]}; record the trace again or correct the test"
            )
    return None


def _start(value: object) -> str:
    text = repr(list(value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
