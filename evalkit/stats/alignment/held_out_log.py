"""The log of what was done with held-out labels: a file of JSON lines beside the reply store; lines are only added."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.settings import folder_of
from evalkit.errors import CacheError

_FILE = "held-out-looks.jsonl"


@dataclass(frozen=True, slots=True)
class ItemSet:
    """The labelled items of a criterion: a key, and a short hash of each `item_id`, in the order of the hashes."""

    key: str
    items: tuple[str, ...]

    @classmethod
    def of(cls, criterion: str, ids: Iterable[Any]) -> ItemSet:
        """The set of these items; an `item_id` may be there twice."""
        names = sorted(set(map(str, ids)))
        key = hashlib.sha256("\n".join([criterion, *names]).encode()).hexdigest()[:12]
        return cls(key, tuple(sorted(map(item_hash, names))))


def item_hash(item_id: str) -> str:
    """How the log names an item."""
    return hashlib.sha256(item_id.encode()).hexdigest()[:12]


def read_log(cache: str | Path | None) -> list[dict[str, Any]]:
    """All lines in order, without blank ones and ones that a crash cut short.

    Raises
    ------
    CacheError
        When the file cannot be read.
    """
    path = folder_of(cache) / _FILE
    try:
        lines = path.read_bytes().splitlines() if path.exists() else []
    except OSError as problem:
        raise CacheError(
            f"{path}, which lists the uses of held-out labels, cannot be read: {problem.strerror}"
        ) from problem
    return [line for text in lines if (line := _line(text)) is not None]


def _line(text: bytes) -> dict[str, Any] | None:
    try:
        line = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return line if isinstance(line, dict) else None


def append_log(cache: str | Path | None, lines: Iterable[dict[str, Any]], sets: Iterable[ItemSet] = ()) -> None:
    """Add lines with the time, and the items of `sets` that the log does not have; they are on disk when this returns.

    Raises
    ------
    CacheError
        When they cannot be written.
    """
    path, now = folder_of(cache) / _FILE, datetime.now(UTC).isoformat(timespec="seconds")
    logged = {line.get("items_of") for line in read_log(cache)}
    new = [{"items_of": item_set.key, "items": item_set.items} for item_set in sets if item_set.key not in logged]
    # One write to a file opened for appending is never mixed with another's; the line break in front sets the
    # lines apart from a line that a crash cut short.
    text = b"".join(b"\n" + orjson.dumps(line | {"at": now}) + b"\n" for line in [*new, *lines])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab", buffering=0) as file:
            if (file.write(text) or 0) < len(text):
                raise OSError(errno.ENOSPC, "the disk is full")
            os.fsync(file.fileno())
    except OSError as problem:
        raise CacheError(
            "the figures on held-out labels are not shown: evalkit counts how often they are viewed, and cannot "
            f"write the count to {path} ({problem.strerror}); name another folder with EVALKIT_CACHE or cache="
        ) from problem


def looks_at(lines: Iterable[dict[str, Any]], criterion: str, items: ItemSet) -> dict[tuple[Any, ...], int]:
    """All looks at labels of a criterion that share an item with these, by what was seen -> number, from 1.

    Whoever looked, and with whichever rubric: a figure on screen or of a function. The same figures of the same labels
    are one look, also under another name of the version (*Save version*).
    """
    item_keys, sets, numbers = set(items.items), dict[str, tuple[str, ...]](), dict[tuple[Any, ...], int]()
    for line in lines:
        if "items_of" in line:
            sets[line["items_of"]] = line["items"]
        elif line.get("criterion") != criterion or "labels" not in line or "kept" in line:
            continue
        elif not item_keys.isdisjoint(sets.get(line["labels"], item_keys)):
            numbers.setdefault(look_key(line), len(numbers) + 1)
    return numbers


def look_key(line: dict[str, Any]) -> tuple[Any, ...]:
    """What a line of the log looked at: labels, and figures, a candidate (in older logs), or a version."""
    for name in ("figures", "candidate"):
        if name in line:
            return line["labels"], name, line[name]
    return line["labels"], line.get("rubric"), line.get("rubric_version")
