"""Writing judgments into a trace file; all else stays the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.files import BOM, held, write_whole
from evalkit.errors import InputError, error_at
from evalkit.gate.judgment import Judgment
from evalkit.gate.recorded_judgments import RECORDED
from evalkit.gate.traces import REDACTED

_SHOWN = ("schema_version", "type", "request_id", "model", "provider", "attempt", "meta")
_TOO_DEEP = "the JSON is nested too deeply to write a judgment into it; flatten it"
_NOTHING: tuple[Any, ...] = (None, {}, [])


def stamp_of(path: str | Path) -> tuple[int, int]:
    """Size and modification time of a file, to detect changes.

    Raises
    ------
    InputError
        When it does not exist.
    """
    try:
        status = Path(path).stat()
    except OSError as problem:
        raise InputError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    return status.st_size, status.st_mtime_ns


def enrich(
    source: str | Path,
    target: str | Path,
    judgments: Mapping[int, Mapping[str, Judgment | Mapping[str, Any]]],
    *,
    redact: bool = False,
    since: tuple[int, int] | None = None,
) -> None:
    """Copy a trace file with judgments at ``meta.verdict.judge.<rubric>``; the copy is written whole or not at all.

    Lines without a judgment are copied as they are; the others are written again, with all their fields and
    digits.

    Parameters
    ----------
    source, target
        May be the same file.
    judgments
        Line number -> rubric id -> judgment to record: a `Judgment`, or a mapping as it is in the file.
    redact
        Replace by ``[REDACTED]`` in every line: prompt, context, answer, explanations, and all keys of `meta` that are
        not evalkit's.
    since
        `stamp_of` the source when it was judged: an error if the file has changed since.

    Raises
    ------
    InputError
        When the file has changed meanwhile, or cannot be written; then nothing changes.
    """
    source = Path(source)
    try:
        with held(source):  # from the check for changes to the replacement
            write_whole(target, _lines(source, judgments, since, redact=redact), mode=source.stat().st_mode & 0o777)
    except OSError as problem:
        raise InputError(f"{source} cannot be read: {(problem.strerror or str(problem)).lower()}") from None


def _lines(
    source: Path, judgments: Mapping[int, Mapping[str, Any]], since: tuple[int, int] | None, *, redact: bool
) -> Iterator[bytes]:
    before = stamp_of(source)
    with source.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            with error_at(f"{source}, line {number}", InputError):
                written = _rewritten(line, judgments.get(number), redact=redact)
            yield written
    if stamp_of(source) != before or since not in (None, before):
        raise InputError(f"{source} changed after evalkit read it, so nothing was written; run the command again")


def _rewritten(line: bytes, judged: Mapping[str, Any] | None, *, redact: bool) -> bytes:
    if (not judged and not redact) or not line.strip():
        return line
    try:
        # numbers stay as they are written, however long
        trace = json.loads(line.removeprefix(BOM), parse_float=orjson.Fragment, parse_int=orjson.Fragment)
    except RecursionError:
        raise InputError(_TOO_DEEP) from None
    except ValueError:
        raise InputError("the file changed while evalkit read it; run the command again") from None
    trace = _object(trace)
    meta = _object(trace.get("meta"))
    verdict = _object(meta.get("verdict"))
    judge = _object(verdict.get("judge")) | {name: _recorded(judgment) for name, judgment in (judged or {}).items()}
    if redact:
        trace = _hidden(trace, _SHOWN)
        inputs = {"inputs": _hidden(_object(meta["inputs"]), ())} if meta.get("inputs") else {}
        meta, verdict = _hidden(meta, ()) | inputs, _hidden(verdict, ())
        judge = {name: _without_texts(_hidden(_object(judgment), RECORDED)) for name, judgment in judge.items()}
    for members, name, value in ((verdict, "judge", judge), (meta, "verdict", verdict), (trace, "meta", meta)):
        if value:
            members[name] = value
    try:
        return orjson.dumps(trace, option=orjson.OPT_APPEND_NEWLINE)
    except orjson.JSONEncodeError as problem:
        raise InputError(_TOO_DEEP if "Recursion" in str(problem) else str(problem)) from None


def _object(value: Any) -> dict[str, Any]:
    """A part of a trace that is a JSON object; null is an empty one."""
    if value is not None and not isinstance(value, dict):
        raise InputError("a trace, its meta and its verdict must be JSON objects")
    return value or {}


def _recorded(judgment: Judgment | Mapping[str, Any]) -> Any:
    """A judgment as it is in a file."""
    return orjson.loads(orjson.dumps(judgment.to_dict() if isinstance(judgment, Judgment) else dict(judgment)))


def _hidden(members: Mapping[str, Any], shown: Iterable[str]) -> dict[str, Any]:
    """The members, all but the `shown` ones redacted; a context stays a list."""
    return {
        name: value if name in shown or value in _NOTHING else [REDACTED] if name == "context" else REDACTED
        for name, value in members.items()
    }


def _without_texts(judgment: dict[str, Any]) -> dict[str, Any]:
    """A recorded judgment, with what judges wrote about each criterion redacted."""
    try:
        for criterion in judgment.get("criteria", {}).values():
            for rationale in criterion.get("rationales") or ():
                rationale["text"] = REDACTED
    except (AttributeError, TypeError):  # of another tool, in another form
        return {name: value for name, value in judgment.items() if name != "criteria"}
    return judgment
