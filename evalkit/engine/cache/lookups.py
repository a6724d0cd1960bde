"""Questions to the store that are answered by reading: values in bulk, by content, counts, the nearest entry."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypedDict

import orjson

from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache.rows import key_function, shared_json
from evalkit.engine.cache.writer import chunks, marks

__all__ = ["KeyCounts", "by_content", "count", "known_facts", "nearest", "texts_of", "values"]

_VALUES = "SELECT key, value FROM replies WHERE key IN ({}) ORDER BY key, generation"
_MARKED = (
    "SELECT key, created, source, promoted_from IS NOT NULL, value FROM replies WHERE key IN ({}) "
    "ORDER BY key, generation"
)
_BY_CONTENT = (
    "SELECT key, created, source, promoted_from IS NOT NULL, value, content_key FROM replies "
    "WHERE content_key IN ({}) ORDER BY key, generation"
)
_COUNT = "SELECT count(*) FROM replies WHERE call_id = ?"
_OTHER_SAMPLES = 32

_Newest = tuple[float, str, int, bytes]
"""Time of receipt, source, whether promoted, value."""


class KeyCounts(TypedDict):
    """How many of some keys are stored, by what their newest reply is; a promoted one counts twice."""

    stored: int
    live: int
    recorded: int
    promoted: int


def values(
    connection: sqlite3.Connection, keys: Collection[bytes], *, since: float | None, recorded: bool, promoted: bool
) -> dict[bytes, bytes]:
    """The newest value of each key that counts as present."""
    wanted = sorted(keys)  # in order, pages of the index are visited once
    found: dict[bytes, bytes] = {}
    if since is None and recorded and promoted:
        for portion in chunks(wanted):
            # of several generations the last one read, the newest, stays
            found.update(connection.execute(_VALUES.format(marks(portion)), portion))
        return found
    counts = _filter(since, recorded, promoted)
    return {key: newest[3] for key, newest in _newest(connection, wanted).items() if counts(newest)}


def count(connection: sqlite3.Connection, keys: Collection[bytes], *, since: float | None) -> KeyCounts:
    """How many of the keys are stored, and as what."""
    counts = _filter(since, True, True)
    newest = [row for row in _newest(connection, sorted(keys)).values() if counts(row)]
    live = sum(row[1] == "live" for row in newest)
    promoted = sum(row[2] for row in newest)
    return KeyCounts(stored=len(newest), live=live, recorded=len(newest) - live, promoted=promoted)


def _newest(connection: sqlite3.Connection, wanted: list[bytes]) -> dict[bytes, _Newest]:
    return {
        key: row
        for portion in chunks(wanted)
        for key, *row in connection.execute(_MARKED.format(marks(portion)), portion)
    }


def _filter(since: float | None, recorded: bool, promoted: bool) -> Callable[[_Newest], bool]:
    def counts(row: _Newest) -> bool:
        return (since is None or row[0] >= since) and (recorded or row[1] != "recorded") and (promoted or not row[2])

    return counts


def by_content(
    connection: sqlite3.Connection, content_keys: Collection[bytes], *, since: float | None, recorded: bool
) -> dict[bytes, tuple[bytes, bytes]]:
    """Content key -> (key, value) of the reply of that content which was received last.

    Among equals the origin comes before its promoted copy, then the smaller key: the same answer for everybody.
    """
    newest: dict[bytes, tuple[bytes, _Newest]] = {}
    for portion in chunks(sorted(content_keys)):
        for key, *row, content_key in connection.execute(_BY_CONTENT.format(marks(portion)), portion):
            newest[key] = content_key, tuple(row)
    counts = _filter(since, recorded, True)
    best: dict[bytes, tuple[tuple[float, bool], bytes, bytes]] = {}
    for key in sorted(newest):
        content_key, row = newest[key]
        rank = row[0], not row[2]
        if counts(row) and (content_key not in best or rank > best[content_key][0]):
            best[content_key] = rank, key, row[3]
    return {content_key: (key, value) for content_key, (_, key, value) in best.items()}


def nearest(connection: sqlite3.Connection, parts: KeyParts) -> dict[str, tuple[object, object]] | None:
    """In which fields the most similar stored entry of this input differs: ``{field: (stored, asked)}``.

    No index is needed: the key of each known combination of shared parts is computed for this input
    and looked up. Other samples count only where this sample is stored under no combination.
    """
    asked = orjson.loads(shared_json(parts))
    calls = [call.encode() for (call,) in connection.execute("SELECT parts FROM calls ORDER BY call_id DESC")]
    others = [sample for sample in range(max(_OTHER_SAMPLES, parts.sample)) if sample != parts.sample]
    for samples in ([parts.sample], others):
        candidates = {
            key_function(call)(parts.input_hash, parts.order, n): (call, n) for call in calls for n in samples
        }
        there = values(connection, candidates, since=None, recorded=True, promoted=True)
        # candidates are in order of preference: newest combination first, then the smaller sample
        differences = [_difference(*candidates[key], asked, parts) for key in candidates if key in there]
        if differences:
            return min(differences, key=len)
    return None


def _difference(call: bytes, sample: int, asked: dict[str, Any], parts: KeyParts) -> dict[str, tuple[object, object]]:
    stored = orjson.loads(call)
    fields = {name: (stored[name], asked[name]) for name in KeyParts.__slots__ if stored[name] != asked[name]}
    if sample != parts.sample:
        fields["sample"] = sample, parts.sample
    return fields


def texts_of(connection: sqlite3.Connection, rubric: str, version: str, *, count: bool) -> dict[tuple[str, str], int]:
    """(template hash, rubric hash) -> replies of a rubric's version, all generations; not counted unless `count`."""
    found: dict[tuple[str, str], int] = {}
    for number, text in connection.execute("SELECT call_id, parts FROM calls").fetchall():
        parts = orjson.loads(text)
        if (parts["rubric"], parts["rubric_version"]) == (rubric, version):
            pair = parts["template_hash"], parts["rubric_hash"]
            (n,) = connection.execute(_COUNT, (number,)).fetchone() if count else (0,)
            found[pair] = found.get(pair, 0) + n
    return found


def known_facts(connection: sqlite3.Connection, service: str, model: str) -> dict[str, Any]:
    """What was learnt of a service and model."""
    rows: Iterator[tuple[str, str]] = connection.execute(
        "SELECT name, value FROM facts WHERE service = ? AND model = ? ORDER BY name", (service, model)
    )
    return {name: orjson.loads(value) for name, value in rows}
