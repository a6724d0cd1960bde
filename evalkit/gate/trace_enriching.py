"""Writing judgments into a trace file; every other byte stays the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from json.decoder import JSONDecodeError
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.files import BOM, held, write_whole
from evalkit.errors import InputError
from evalkit.gate.judgment import Judgment
from evalkit.gate.recorded_judgments import RECORDED
from evalkit.gate.traces import REDACTED

_HIDDEN = json.dumps(REDACTED)
_SHOWN = ("schema_version", "type", "request_id", "model", "provider", "attempt", "meta")
_NOTHING = ("null", "{}", "[]")


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

    Lines without a judgment are copied as they are; in the others every other byte stays the same.

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
            yield _rewritten(line, judgments.get(number), redact=redact)
    if stamp_of(source) != before or since not in (None, before):
        raise InputError(f"{source} changed after evalkit read it, so nothing was written; run the command again")


def _rewritten(line: bytes, judged: Mapping[str, Any] | None, *, redact: bool) -> bytes:
    if (not judged and not redact) or not line.strip():
        return line
    members = _members(line.removeprefix(BOM).decode("utf-8").strip())
    meta = _members(members.get("meta", "null"))
    verdict = _members(meta.get("verdict", "null"))
    judge = _members(verdict.get("judge", "null"))
    for name, value in (judged or {}).items():
        judge[name] = orjson.dumps(value.to_dict() if isinstance(value, Judgment) else dict(value)).decode()
    if redact:
        members = _hidden(members, _SHOWN)
        inputs = _hidden(_members(meta.get("inputs", "null")), ())
        meta, verdict = _hidden(meta, ("attempt",)), _hidden(verdict, ())
        meta |= {"inputs": _joined(inputs)} if inputs else {}
        judge = {name: _joined(_without_texts(_hidden(_members(text), RECORDED))) for name, text in judge.items()}
    if judge:
        verdict["judge"] = _joined(judge)
    if verdict:
        meta["verdict"] = _joined(verdict)
    if meta:
        members["meta"] = _joined(meta)
    return (_joined(members) + "\n").encode("utf-8")


def _hidden(members: Mapping[str, str], shown: Iterable[str]) -> dict[str, str]:
    """The members, all but the `shown` ones redacted; a context stays a list."""
    return {
        name: text if name in shown or text in _NOTHING else f"[{_HIDDEN}]" if name == "context" else _HIDDEN
        for name, text in members.items()
    }


def _without_texts(members: dict[str, str]) -> dict[str, str]:
    """The members of a recorded judgment, with what judges wrote about each criterion redacted."""
    if "criteria" not in members:
        return members
    try:
        criteria = orjson.loads(members["criteria"])
        for criterion in criteria.values():
            for rationale in criterion.get("rationales") or ():
                rationale["text"] = REDACTED
    except (AttributeError, TypeError):  # of another tool, in another form
        return {name: text for name, text in members.items() if name != "criteria"}
    return members | {"criteria": orjson.dumps(criteria).decode()}


def _members(text: str) -> dict[str, str]:
    """The members of a JSON object, each value as its original text, so that numbers keep their digits."""
    decoder, at, members = json.JSONDecoder(), _skip(text, 1), dict[str, str]()
    if text == "null":
        return members
    if text[:1] != "{":
        raise InputError("a trace, its meta and its verdict must be JSON objects")
    try:
        while text[at] != "}":
            name, at = decoder.raw_decode(text, at)
            start = _skip(text, _skip(text, at) + 1)
            _, end = decoder.raw_decode(text, start)
            members[name] = text[start:end]
            at = _skip(text, end)
            at = _skip(text, at + 1) if text[at] == "," else at
    except (JSONDecodeError, IndexError):
        raise InputError("the file changed while evalkit read it; run the command again") from None
    return members


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _joined(members: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in members.items()) + "}"
