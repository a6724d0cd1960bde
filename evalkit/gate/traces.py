"""Reading trace files: one JSON object per line, checked one at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from evalkit.core.files import BOM
from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.core.validation_errors import explain
from evalkit.errors import InputError, error_at
from evalkit.tables.items import canonical

REDACTED = "[REDACTED]"
"""Replaces texts that must not be shown."""

_MOST_LEVELS = 200  # of nesting in a trace's JSON


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    schema_version: Literal[1]
    type: Literal["verdict.trace"]
    request_id: str | None = None
    prompt: str | None = None
    context: list[str] | None = None
    response: str | None = None
    text: str | None = None
    model: str | None = None
    provider: str | None = None
    attempt: int | None = None
    criteria: Any = None
    meta: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Trace:
    """One line of a trace file.

    Attributes
    ----------
    line
        Its line number, from 1.
    request_id, prompt, context, answer
        The input and the answer (``response`` or ``text``): NFC with LF line ends, context as a tuple or None. Prompt
        and answer are None in a trace that has only inputs by name.
    attempt
        Number of a repeat, or None.
    recorded
        ``meta.verdict.judge``: rubric id -> the judgment as it is in the file.
    extra
        ``meta.item``: further columns of the item; and ``criteria``, those of the trace's own.
    model, provider
        The model that answered.
    own
        All other keys of ``meta``.
    inputs
        ``meta.inputs``: inputs of rubrics by their names, such as ``{"diff": …, "comment": …}``.
    """

    line: int
    request_id: str | None
    prompt: str | None
    context: tuple[str, ...] | None
    answer: str | None
    attempt: int | None = None
    recorded: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None
    model: str | None = None
    provider: str | None = None
    own: Mapping[str, Any] | None = None
    inputs: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """The id of the trace as an item: the request id, else the line; repeats end with their attempt."""
        name = self.request_id or f"line {self.line}"
        return name if self.attempt is None else f"{name} #{self.attempt}"

    @property
    def item(self) -> dict[str, Any]:
        """The trace under the field names that rubrics use."""
        context = None if self.context is None else list(self.context)
        fields: dict[str, Any] = {"question": self.prompt, "answer": self.answer, "context": context}
        fields = {name: value for name, value in fields.items() if value is not None}
        return {**(self.extra or {}), **fields, **(self.inputs or {})}


def read_traces(path: str | Path, *, redact: bool = False) -> Iterator[Trace]:
    """Read the traces of a file one at a time.

    Parameters
    ----------
    path
        The file.
    redact
        Quote nothing of a line in errors.

    Raises
    ------
    InputError
        For the first invalid line, with its number and what is allowed; for a file without traces.
    """
    path, empty = Path(path), True
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                content = line.removeprefix(BOM)
                if content.strip():
                    empty = False
                    yield _trace(path, number, content, redact=redact)
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    if empty:
        raise InputError(
            f"{path} has no traces; write one trace per line, as JSON with schema_version 1, type verdict.trace, "
            "prompt and response (or meta.inputs)"
        )


def _trace(path: Path, number: int, line: bytes, *, redact: bool) -> Trace:
    where = f"{path}, line {number}"
    try:
        value = orjson.loads(line)
        _check_depth(value)
        given = _Line.model_validate(value)
        json.loads(line, object_pairs_hook=without_duplicates)
    except ValidationError as problem:
        is_unknown = any(detail["type"] == "extra_forbidden" for detail in problem.errors())
        advice = "; put your own keys under meta" if is_unknown else ""
        raise InputError(f"{where}: {explain(problem, _Line, redact=redact)}{advice}") from None
    except (RecursionError, orjson.JSONDecodeError) as problem:
        if isinstance(problem, orjson.JSONDecodeError) and "depth" not in problem.msg:
            raise InputError(f"{where}: invalid JSON at column {problem.colno}: {problem.msg}") from None
        raise InputError(
            f"{where}: the JSON is nested more than {_MOST_LEVELS} levels deep; flatten it (only meta may be nested, "
            "and not that deep)"
        ) from None
    except DuplicateKeyError as problem:
        raise InputError(f"{where}: {problem}; keep one") from None
    inputs = _inputs(given.meta.get("inputs"), where)
    if given.response is not None and given.text is not None:
        raise InputError(f"{where}: the trace has both response and text; it needs exactly one of the two")
    answer = given.text if given.response is None else given.response
    if not inputs and (given.prompt is None or answer is None):
        lacking = "no prompt" if given.prompt is None else "neither response nor text"
        raise InputError(
            f"{where}: the trace has {lacking}; add it, or the inputs of its rubric by name under meta.inputs"
        )
    if given.meta.get("attempt") is not None:
        raise InputError(f"{where}: meta.attempt is not read; write it as attempt, a field of the trace")
    verdict = given.meta.get("verdict")
    recorded = verdict.get("judge") if isinstance(verdict, dict) else verdict
    if recorded is not None and not isinstance(recorded, dict):
        raise InputError(
            f"{where}: meta.verdict.judge: expected a mapping from rubric to judgment, got {type(recorded).__name__}"
        )
    with error_at(where, InputError):
        prompt, texts, answer, inputs, own = canonical([given.prompt, given.context, answer, inputs, given.criteria])
    fields = {"question": ("prompt", prompt), "answer": ("response", answer), "context": ("context", texts)}
    fields["criteria"] = ("criteria", own)
    for name, (field, value) in fields.items():
        by_name = (inputs or {}).get(name)
        if None not in (by_name, value) and value not in (by_name, [by_name]):
            raise InputError(
                f"{where}: meta.inputs.{name} differs from the trace's {field}, so what is judged is unclear; keep one "
                "of them"
            )
    item = given.meta.get("item")
    extra = (item if isinstance(item, dict) else {}) | ({} if own is None else {"criteria": own})
    return Trace(
        line=number, request_id=given.request_id, prompt=prompt, context=None if texts is None else tuple(texts),
        answer=answer, attempt=given.attempt, recorded=recorded, extra=extra or None, model=given.model,
        provider=given.provider, own=_own(given.meta) or None, inputs=inputs,
    )  # fmt: skip


def _inputs(value: Any, where: str) -> dict[str, Any] | None:
    """The inputs by name in a trace's `meta`, without those that are null; None if there are none."""
    if value is not None and not isinstance(value, dict):
        raise InputError(
            f"{where}: meta.inputs: expected a mapping from input to value, got {type(value).__name__}; name each "
            "input of the rubric"
        )
    return {name: content for name, content in (value or {}).items() if content is not None} or None


def _own(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a trace's `meta` that are not evalkit's."""
    own = {name: value for name, value in meta.items() if name not in ("inputs", "item", "verdict")}
    verdict = meta.get("verdict")
    others = {name: value for name, value in verdict.items() if name != "judge"} if isinstance(verdict, dict) else {}
    return own | ({"verdict": others} if others else {})


def _check_depth(value: Any) -> None:
    """Raise RecursionError at a fixed depth, independent of the Python version and the caller's stack."""
    layer, depth = [value], 0
    while layer:
        if depth > _MOST_LEVELS:
            raise RecursionError
        parents = [part for part in layer if isinstance(part, (dict, list))]
        layer = [child for part in parents for child in (part.values() if isinstance(part, dict) else part)]
        depth += 1
