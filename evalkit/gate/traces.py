"""Traces: one JSON object a line, read one at a time, checked, and written back without touching what is not ours."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from json.decoder import JSONDecodeError
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from evalkit.errors import InputError
from evalkit.tables.canonical import canonical

__all__ = ["Trace", "enrich", "read_traces"]


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
    """

    line: int
    request_id: str | None
    prompt: str
    context: tuple[str, ...] | None
    answer: str
    attempt: int | None = None
    recorded: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def item(self) -> dict[str, Any]:
        """The trace under the field names that rubrics use."""
        item: dict[str, Any] = {**(self.extra or {}), "question": self.prompt, "answer": self.answer}
        return item if self.context is None else item | {"context": list(self.context)}


def read_traces(path: str | Path) -> Iterator[Trace]:
    """The traces of a file, one at a time; the file is never held in memory.

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
                    yield _trace(path, number, line)
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    if not seen:
        raise InputError(
            f"{path} holds no traces; a trace is one line of JSON with schema_version 1, type verdict.trace, "
            "prompt and response"
        )


def _trace(path: Path, number: int, line: bytes) -> Trace:
    where = f"{path}, line {number}"
    try:
        given = _Line.model_validate(orjson.loads(line))
    except orjson.JSONDecodeError as problem:
        raise InputError(f"{where}: this is no valid JSON ({problem.msg} at column {problem.colno})") from None
    except ValidationError as problem:
        raise InputError(f"{where}: {_fault(problem)}") from None
    if (given.response is None) == (given.text is None):
        said = "both response and text" if given.text is not None else "neither response nor text"
        raise InputError(f"{where}: the trace has {said}; give the answer once")
    attempt = given.meta.get("attempt", given.attempt)
    if (attempt is not None and type(attempt) is not int) or given.attempt not in (None, attempt):
        raise InputError(f"{where}: attempt is {given.attempt!r}, meta.attempt {attempt!r}; give one whole number")
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
    return Trace(number, given.request_id, prompt, texts, answer, attempt, recorded, extra)


def _fault(problem: ValidationError) -> str:
    first = problem.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "the line"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}; allowed are {', '.join(_Line.model_fields)} (put your own under meta)"
    if first["type"] == "missing":
        return f"{key!r} is missing; a trace has schema_version, type, prompt and response (or text)"
    if not first["loc"]:
        return "a trace is a JSON object"
    return f"{key}: {first['msg'][0].lower()}{first['msg'][1:]}, not {str(first['input'])[:60]!r}"


def enrich(
    source: str | Path, target: str | Path, found: Mapping[int, Mapping[str, Any]], *, redact: bool = False
) -> None:
    """Copy a trace file, judgments written at ``meta.verdict.judge.<rubric>``; it appears whole or not at all.

    Lines without a judgment are copied as they are; of the others every other byte is kept.

    Parameters
    ----------
    source, target
        May be the same file.
    found
        Line number -> rubric id -> recorded judgment.
    redact
        Replace prompt, context, answer and explanations by ``[REDACTED]`` in every line.

    Raises
    ------
    InputError
        When the file changed in the meantime, or cannot be written: then it is as it was.
    """
    source, target = Path(source), Path(target)
    scratch = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        before = source.stat()
        with source.open("rb") as lines, scratch.open("xb") as out:
            for number, line in enumerate(lines, start=1):
                out.write(_written(line, found.get(number), redact))
            out.flush()
            os.fsync(out.fileno())
        after = source.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise InputError(f"{source} was written to while it was read; nothing was changed: run the same call again")
        scratch.chmod(before.st_mode & 0o777)
        scratch.replace(target)
    except OSError as problem:
        raise InputError(f"{target} cannot be written: {(problem.strerror or str(problem)).lower()}") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


_HIDDEN = json.dumps("[REDACTED]")


def _written(line: bytes, judged: Mapping[str, Any] | None, redact: bool) -> bytes:
    if (not judged and not redact) or not line.strip():
        return line
    members = _members(line.decode("utf-8").strip())
    if redact:
        hide = {name: _HIDDEN for name in ("prompt", "response", "text") if members.get(name, "null") != "null"}
        members |= hide | ({"context": f"[{_HIDDEN}]"} if members.get("context", "null") != "null" else {})
    meta = _members(members.get("meta", "{}"))
    verdict = _members(meta.get("verdict", "{}"))
    judge = _members(verdict.get("judge", "{}"))
    judge |= {name: orjson.dumps(dict(value)).decode() for name, value in (judged or {}).items()}
    if redact:
        judge = {name: _silent(text) for name, text in judge.items()}
    if judge:
        members["meta"] = _joined(meta | {"verdict": _joined(verdict | {"judge": _joined(judge)})})
    return (_joined(members) + "\n").encode("utf-8")


def _silent(text: str) -> str:
    fields = _members(text)
    return _joined(fields | {name: _HIDDEN for name in ("rationale",) if fields.get(name, "null") != "null"})


def _members(text: str) -> dict[str, str]:
    """The members of a JSON object, each value as the very text that stands there: numbers keep their digits."""
    decoder, at, members = json.JSONDecoder(), _skip(text, 1), dict[str, str]()
    if text[:1] != "{":
        raise InputError("a trace, its meta and verdict are JSON objects")
    try:
        while text[at] != "}":
            name, at = decoder.raw_decode(text, at)
            start = _skip(text, _skip(text, at) + 1)
            _, end = decoder.raw_decode(text, start)
            members[name] = text[start:end]
            at = _skip(text, end)
            at = _skip(text, at + 1) if text[at] == "," else at
    except (JSONDecodeError, IndexError):
        raise InputError("a line that was a trace is none any more; the file changed while it was read") from None
    return members


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _joined(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in members.items()) + "}"


def matched(traces: Iterable[Trace], ids: set[str], prompts: set[str]) -> dict[str, dict[str, list[Trace]]]:
    """Only the traces that tests ask for: ``{"id": request id -> traces, "prompt": prompt -> traces}``."""
    found: dict[str, dict[str, list[Trace]]] = {"id": {}, "prompt": {}}
    for trace in traces:
        if trace.request_id in ids:
            found["id"].setdefault(str(trace.request_id), []).append(trace)
        if trace.prompt in prompts:
            found["prompt"].setdefault(trace.prompt, []).append(trace)
    return found
