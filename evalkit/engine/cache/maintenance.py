"""Maintenance of a store: which replies are chosen, statistics, promotion."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from evalkit.core.reply_keys import canonical_json
from evalkit.engine.cache.counters import Counts
from evalkit.engine.cache.lookups import call_id, call_parts
from evalkit.engine.cache.rows import key_makers
from evalkit.engine.cache.sqlite_schema import log_of
from evalkit.errors import CacheError, counted

_TALLY = (
    "SELECT count(*), count(DISTINCT key), total(length(value)), "
    "total(CASE WHEN promoted_from IS NULL THEN cost_usd END) FROM replies WHERE {}"
)
_GROUPS = (
    "SELECT call_id, source, promoted_from IS NOT NULL, count(*), "
    "total(CASE WHEN promoted_from IS NULL THEN cost_usd END) FROM replies GROUP BY 1, 2, 3"
)
_ORIGINS = (
    'SELECT key, input_hash, "order", sample, content_key, created, source, cost_usd, '
    "coalesce(promoted_from, key), value FROM replies WHERE call_id = ? ORDER BY key, generation"
)
_PROMOTE = (
    'INSERT INTO replies (key, generation, call_id, input_hash, "order", sample, content_key, created, source, '
    "cost_usd, promoted_from, value) SELECT ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? "
    "WHERE NOT EXISTS (SELECT 1 FROM replies WHERE key = ?)"
)


_JUDGE, _RUBRIC = ("provider", "service", "model"), ("rubric", "rubric_version")


class Stats(TypedDict):
    """What is in a store: all generations count as replies; promoted ones cost nothing again.

    `judges` has one dict per `provider`, `service` and `model`, and `rubrics` one per `rubric` and `rubric_version`,
    each with `n_replies` and `cost_usd` (of the replies whose price is known).
    """

    path: str
    n_bytes: int
    n_replies: int
    n_keys: int
    n_live: int
    n_recorded: int
    n_promoted: int
    cost_usd: float
    judges: list[dict[str, Any]]
    rubrics: list[dict[str, Any]]
    session: Counts


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which replies are meant: those that meet every condition that is not None (see `ReplyStore.prune`)."""

    rubric: str | None = None
    model: str | None = None
    source: str | None = None
    keys: Collection[bytes] | None = None
    older_than: float | None = None
    keep_generations: int | None = None

    def __post_init__(self) -> None:
        if self.source not in (None, "live", "recorded"):
            raise CacheError(f"source {self.source!r} is unknown; allowed are 'live' and 'recorded'")
        if self.keep_generations is not None and self.keep_generations < 1:
            raise CacheError(f"keep_generations {self.keep_generations!r} must be 1 or more; clear() removes all")

    def where(self, connection: sqlite3.Connection) -> tuple[str, list[float]]:
        """The conditions as SQL with its parameters; `keys` is left to the caller."""
        conditions, parameters = ["1"], list[float]()
        if self.rubric is not None or self.model is not None:
            ids = [str(number) for number, parts in call_parts(connection).items() if self._fits(parts)]
            conditions.append(f"call_id IN ({','.join(ids)})")
        if self.source is not None:
            conditions.append(f"source = '{self.source}'")
        if self.older_than is not None:
            conditions.append("created < ?")
            parameters.append(self.older_than)
        if self.keep_generations is not None:
            conditions.append("generation <= (SELECT max(n.generation) FROM replies n WHERE n.key = replies.key) - ?")
            parameters.append(self.keep_generations)
        return " AND ".join(conditions), parameters

    def _fits(self, parts: dict[str, Any]) -> bool:
        rubrics = parts["rubric"], f"{parts['rubric']}@{parts['rubric_version']}"
        models = parts["model"], f"{parts['provider']}:{parts['model']}"
        return (self.rubric is None or self.rubric in rubrics) and (self.model is None or self.model in models)


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What was removed, or would be.

    Attributes
    ----------
    n_replies, n_keys
        Replies (all generations), and how many keys they belong to.
    n_bytes, cost_usd
        Their size, and what they cost (US$; unknown prices count nothing).
    applied
        False for a dry run.
    exported_to
        Where they were written before they were removed.
    """

    n_replies: int
    n_keys: int
    n_bytes: int
    cost_usd: float
    applied: bool = False
    exported_to: Path | None = None

    def __str__(self) -> str:
        size = f"{counted(self.n_replies, 'reply', 'replies')} of {counted(self.n_keys, 'key')}"
        what = f"{size} ({self.n_bytes / 1e6:.1f} MB, US$ {self.cost_usd:.2f})"
        if self.applied:
            return f"removed {what}; they are kept in {self.exported_to}"
        return f"would remove {what}; nothing was removed: apply does it"


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All reads inside see the store at one moment."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def tally(connection: sqlite3.Connection | None, chosen: Chosen) -> PruneReport:
    """How much the chosen replies are: a dry run."""
    if connection is None:
        return PruneReport(0, 0, 0, 0.0)
    with snapshot(connection):
        where, parameters = chosen.where(connection)
        n_replies, n_keys, n_bytes, cost = connection.execute(_TALLY.format(where), parameters).fetchone()
    return PruneReport(n_replies, n_keys, int(n_bytes), cost)


def stats(connection: sqlite3.Connection | None, path: Path, session: Counts) -> Stats:
    """Statistics of the whole store; zeros if there is no file."""
    groups: list[tuple[int, str, int, int, float]] = []
    calls: dict[int, dict[str, Any]] = {}
    n_keys = 0
    if connection is not None:
        with snapshot(connection):
            calls = call_parts(connection)
            groups = connection.execute(_GROUPS).fetchall()
            (n_keys,) = connection.execute("SELECT count(*) FROM (SELECT DISTINCT key FROM replies)").fetchone()
    sums: dict[tuple[str, ...], dict[tuple[str, ...], dict[str, Any]]] = {_JUDGE: {}, _RUBRIC: {}}
    for number, _, _, n, cost in groups:
        for names, entries in sums.items():
            named = {name: calls[number][name] for name in names}
            entry = entries.setdefault(tuple(named.values()), named | {"n_replies": 0, "cost_usd": 0.0})
            entry["n_replies"] += n
            entry["cost_usd"] += cost
    return Stats(
        path=str(path),
        n_bytes=sum(file.stat().st_size for file in (path, log_of(path)) if file.exists()),
        n_replies=sum(n for *_, n, _ in groups),
        n_keys=n_keys,
        n_live=sum(n for _, source, _, n, _ in groups if source == "live"),
        n_recorded=sum(n for _, source, _, n, _ in groups if source == "recorded"),
        n_promoted=sum(n for _, _, promoted, n, _ in groups if promoted),
        cost_usd=sum(cost for *_, cost in groups),
        judges=[entry for _, entry in sorted(sums[_JUDGE].items())],
        rubrics=[entry for _, entry in sorted(sums[_RUBRIC].items())],
        session=session,
    )


def promote(
    connection: sqlite3.Connection, rubric: str, from_version: str, to_version: str, rubric_hashes: Collection[str]
) -> int:
    """Copy the newest replies to unchanged criteria to another rubric version, in an open transaction."""
    n_written = 0
    for origin, parts in call_parts(connection).items():
        of_version = (parts["rubric"], parts["rubric_version"]) == (rubric, from_version)
        if not of_version or parts["rubric_hash"] not in rubric_hashes:
            continue
        call = canonical_json(parts | {"rubric_version": to_version})
        number, (keys_of, _) = call_id(connection, call.decode()), key_makers(call)
        newest = {key: row for key, *row in connection.execute(_ORIGINS, (origin,))}
        copies = []
        for input_hash, order, sample, *rest in newest.values():
            (key,) = keys_of(input_hash.hex(), order, (sample,))
            copies.append((key, number, input_hash, order, sample, *rest, key))
        n_written += connection.executemany(_PROMOTE, copies).rowcount
    return n_written
