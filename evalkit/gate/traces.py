"""Traces: one JSON object a line, read one at a time, checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from evalkit.errors import InputError
from evalkit.tables.values import canonical

__all__ = ["REDACTED", "Trace", "find_double", "matched", "read_json", "read_traces"]

REDACTED = "[REDACTED]"
"""What stands in place of texts that are not to be shown."""

_DEEPEST = 200  # levels of a trace's JSON


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1]
    type: Literal["verdict.trace"]
    request_id: str | None = None
    prompt: str
    context: list[str] | str | None = None
    response: str | None = None
    text: str | None = None
    model: str | None = None
    provider: str | None = None
    attempt: int | None = None
    meta: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Trace:
    """One line of a trace file.

    Attributes
    ----------
    line
        Its line number, from 1.
    request_id, prompt, context, answer
        What was asked and answered (`answer` is ``response`` or ``text``): NFC, LF, context as a list or None.
    attempt
        Number of a repeat (``attempt``, or ``meta.attempt``), or None.
    recorded
        What stands at ``meta.verdict.judge``: rubric id -> the judgment as it is in the file.
    extra
        What stands at ``meta.item``: further columns of the item.
    model, provider
        Who answered.
    own
        What else stands at ``meta``.
    """

    line: int
    request_id: str | None
    prompt: str
    context: tuple[str, ...] | None
    answer: str
    attempt: int | None = None
    recorded: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None
    model: str | None = None
    provider: str | None = None
    own: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The id of the trace as an item: the request id, else the line; repeats end with their attempt."""
        name = self.request_id or f"line {self.line}"
        return name if self.attempt is None else f"{name} #{self.attempt}"

    @property
    def item(self) -> dict[str, Any]:
        """The trace under the field names that rubrics use."""
        item: dict[str, Any] = {**(self.extra or {}), "question": self.prompt, "answer": self.answer}
        return item if self.context is None else item | {"context": list(self.context)}


def read_traces(path: str | Path, *, redact: bool = False) -> Iterator[Trace]:
    """The traces of a file, one at a time; the file is never held in memory.

    Parameters
    ----------
    path
        The file.
    redact
        Quote nothing of a line in errors.

    Raises
    ------
    InputError
        For the first line that is no trace, with its number and what is allowed; for a file without traces.
    """
    path, seen = Path(path), False
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    seen = True
                    yield _trace(path, number, line, redact=redact)
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    if not seen:
        raise InputError(
            f"{path} holds no traces; a trace is one line of JSON with schema_version 1, type verdict.trace, "
            "prompt and response"
        )


def _trace(path: Path, number: int, line: bytes, *, redact: bool) -> Trace:
    where = f"{path}, line {number}"
    try:
        value = orjson.loads(line)
        _check_depth(value)
        given = _Line.model_validate(value)
        double = find_double(line)
    except ValidationError as problem:
        raise InputError(f"{where}: {_fault(problem, redact=redact)}") from None
    except (RecursionError, orjson.JSONDecodeError) as problem:
        if isinstance(problem, orjson.JSONDecodeError) and "depth" not in problem.msg:
            raise InputError(f"{where}: this is no valid JSON ({problem.msg} at column {problem.colno})") from None
        raise InputError(
            f"{where}: the JSON is nested more than {_DEEPEST} levels deep; only meta may be nested"
        ) from None
    if double is not None:
        raise InputError(f"{where}: the key {double!r} stands twice in one object; keep one")
    if (given.response is None) == (given.text is None):
        said = "both response and text" if given.text is not None else "neither response nor text"
        raise InputError(f"{where}: the trace has {said}; give the answer once")
    attempt = given.meta.get("attempt", given.attempt)
    if (attempt is not None and type(attempt) is not int) or given.attempt not in (None, attempt):
        said = "of two kinds" if redact else f"{given.attempt!r}, meta.attempt {attempt!r}"
        raise InputError(f"{where}: attempt is {said}; give one whole number")
    verdict = given.meta.get("verdict")
    recorded = verdict.get("judge") if isinstance(verdict, dict) else verdict
    if recorded is not None and not isinstance(recorded, dict):
        raise InputError(f"{where}: meta.verdict.judge is {type(recorded).__name__}; it must be a mapping by rubric")
    context = [given.context] if isinstance(given.context, str) else given.context
    try:
        prompt, texts, answer = canonical([given.prompt, context, given.response or given.text or ""])
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None
    extra = given.meta.get("item")
    extra = extra if isinstance(extra, dict) else None
    texts = None if texts is None else tuple(texts)
    who = given.request_id, prompt, texts, answer, attempt
    return Trace(number, *who, recorded, extra, given.model, given.provider, _own(given.meta) or None)


def _own(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What of a trace's `meta` is not evalkit's."""
    own = {name: value for name, value in meta.items() if name not in ("attempt", "item", "verdict")}
    verdict = meta.get("verdict")
    others = {name: value for name, value in verdict.items() if name != "judge"} if isinstance(verdict, dict) else {}
    return own | ({"verdict": others} if others else {})


def _check_depth(value: Any) -> None:
    """Raise RecursionError at a depth that does not depend on the Python version or on the caller's stack."""
    layer, depth = [value], 0
    while layer:
        if depth > _DEEPEST:
            raise RecursionError
        parents = [part for part in layer if isinstance(part, (dict, list))]
        layer = [child for part in parents for child in (part.values() if isinstance(part, dict) else part)]
        depth += 1


def find_double(text: bytes) -> str | None:
    """The first key that stands twice in one object of valid JSON, or None: parsers keep the last one silently.

    Examples
    --------
    >>> find_double(b'{"a": 1, "b": {"c": 1, "c": 2}}'), find_double(b'{"a": {"b": 1}, "b": 2}')
    ('c', None)
    """
    doubled: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        if (name := _double(pairs)) is not None:
            doubled.append(name)

    json.loads(text, object_pairs_hook=look)
    return doubled[0] if doubled else None


def _double(pairs: list[tuple[str, Any]]) -> str | None:
    names = [name for name, _ in pairs]
    if len(set(names)) == len(names):
        return None
    return next(name for at, name in enumerate(names) if name in names[:at])


def read_json(text: str) -> Any:
    """The value of a JSON text; ValueError for NaN, Infinity, numbers that overflow to it, and doubled keys.

    Examples
    --------
    >>> read_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if (name := _double(pairs)) is not None:
            raise ValueError(f"the key {name!r} stands twice in one object")
        return dict(pairs)

    def number(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text[:20]} is no number that JSON can hold")
        return value

    return json.loads(text, object_pairs_hook=keep, parse_float=number, parse_constant=number)


def _fault(problem: ValidationError, *, redact: bool) -> str:
    first = problem.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "the line"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}; allowed are {', '.join(_Line.model_fields)} (put your own under meta)"
    if first["type"] == "missing":
        return f"{key!r} is missing; a trace has schema_version, type, prompt and response (or text)"
    if not first["loc"]:
        return "a trace is a JSON object"
    given = REDACTED if redact else repr(str(first["input"])[:60])
    return f"{key}: {first['msg'][0].lower()}{first['msg'][1:]}, not {given}"


def matched(traces: Iterable[Trace], ids: set[str], prompts: set[str]) -> dict[str, dict[str, list[Trace]]]:
    """Only the traces that tests ask for: ``{"id": request id -> traces, "prompt": prompt -> traces}``."""
    found: dict[str, dict[str, list[Trace]]] = {"id": {}, "prompt": {}}
    for trace in traces:
        if trace.request_id in ids:
            found["id"].setdefault(str(trace.request_id), []).append(trace)
        if trace.prompt in prompts:
            found["prompt"].setdefault(trace.prompt, []).append(trace)
    return found
