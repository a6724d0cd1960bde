"""Finding the traces of each test, by request id or else by unique prompt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalkit.gate.config import GateTest
from evalkit.gate.traces import REDACTED, Trace
from evalkit.tables.items import canonical, canonical_text


@dataclass(frozen=True, slots=True)
class Match:
    """The traces of a test (several are repeats), or why there are none."""

    traces: tuple[Trace, ...] = ()
    error: str | None = None


def match(
    tests: Sequence[GateTest], traces: Iterable[Trace], name: str = "the trace file", *, redact: bool = False
) -> list[Match]:
    """The traces of each test, in the order of the file.

    With `redact`, errors quote neither prompt nor context.

    Examples
    --------
    >>> test = GateTest(id="t", expected={"type": "must_contain", "value": "30"})
    >>> match([test], [Trace(1, "t", "How long?", None, "30 days")])[0].traces[0].answer
    '30 days'
    """
    ids = {test.request_id or test.id for test in tests}
    prompts = {canonical_text(test.input.prompt) for test in tests if test.input.prompt is not None}
    by_id: dict[str, list[Trace]] = {}
    by_prompt: dict[str, list[Trace]] = {}
    for trace in traces:
        if trace.request_id in ids:
            by_id.setdefault(str(trace.request_id), []).append(trace)
        if trace.prompt in prompts:
            by_prompt.setdefault(trace.prompt, []).append(trace)
    return [_match(test, by_id, by_prompt, name, redact=redact) for test in tests]


def _match(
    test: GateTest, by_id: dict[str, list[Trace]], by_prompt: dict[str, list[Trace]], name: str, *, redact: bool
) -> Match:
    prompt = None if test.input.prompt is None else canonical_text(test.input.prompt)
    mine = by_id.get(test.request_id or test.id, [])
    if not mine and test.request_id is None and prompt is not None:
        mine = by_prompt.get(prompt, [])
    if not mine:
        other = "" if test.request_id or prompt is None else ", and no trace with its prompt"
        fact = f"{name} has no trace with request_id {test.request_id or test.id!r}{other}"
        return Match(error=f"{fact}; add the trace, or set request_id in the test")
    attempts = [trace.attempt for trace in mine]
    if len(mine) > 1 and (None in attempts or len(set(attempts)) < len(attempts)):
        pair = next(
            (one, other)
            for at, other in enumerate(mine)
            for one in mine[:at]
            if None in (one.attempt, other.attempt) or one.attempt == other.attempt
        )
        fact = f"{name} has two traces for test {test.id!r}, lines {pair[0].line} and {pair[1].line}"
        advice = "give repeats different 'attempt' numbers, and other traces different request_ids"
        return Match(error=f"{fact}; {advice}")
    for trace in mine:
        if error := _differs(test, trace, prompt, name, redact=redact):
            return Match(error=error)
    return Match(tuple(mine))


def _differs(test: GateTest, trace: Trace, prompt: str | None, name: str, *, redact: bool) -> str | None:
    context = None if test.input.context is None else tuple(canonical_text(text) for text in test.input.context)
    pairs = [("prompt", prompt, trace.prompt), ("context", context, trace.context)]
    inputs = (test.input.inputs or {}).items()
    pairs += [(name, canonical(value), canonical(trace.item.get(name))) for name, value in inputs]
    for field, expected, actual in pairs:
        if expected is not None and expected != actual:
            shown = (REDACTED, REDACTED) if redact else (_start(expected), _start(actual))
            fact = f"test {test.id!r} and its trace ({name}, line {trace.line}) differ in {field}"
            return f"{fact}: test {shown[0]}, trace {shown[1]}; record the trace again or correct the test"
    return None


def _start(value: object) -> str:
    text = repr(list(value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"
