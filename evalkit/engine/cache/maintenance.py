"""Looking after a store: which replies are chosen, statistics, promotion, removal."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

import orjson

from evalkit.core.reply_keys import canonical_json
from evalkit.engine.cache.counters import Counts
from evalkit.engine.cache.rows import key_function
from evalkit.engine.cache.sqlite_schema import log_of
from evalkit.errors import CacheError, counted

__all__ = ["Chosen", "JudgeStats", "PruneReport", "RubricStats", "Stats", "call_parts", "promote", "stats", "tally"]

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

_Group = tuple[int, str, int, int, float]
"""Id of the shared parts, source, whether promoted, number of replies, US$."""


class JudgeStats(TypedDict):
    """Replies of one judge; US$ of those whose price is known."""

    provider: str
    service: str
    model: str
    n_replies: int
    cost_usd: float


class RubricStats(TypedDict):
    """Replies to one rubric version."""

    rubric: str
    rubric_version: str
    n_replies: int


class Stats(TypedDict):
    """What a store holds: all generations count as replies; promoted ones cost nothing again."""

    path: str
    n_bytes: int
    n_replies: int
    n_keys: int
    n_live: int
    n_recorded: int
    n_promoted: int
    cost_usd: float
    judges: list[JudgeStats]
    rubrics: list[RubricStats]
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
    exported_to: Path | None = field(default=None)

    def __str__(self) -> str:
        size = f"{counted(self.n_replies, 'reply', 'replies')} of {counted(self.n_keys, 'key')}"
        what = f"{size} ({self.n_bytes / 1e6:.1f} MB, US$ {self.cost_usd:.2f})"
        if self.applied:
            return f"removed {what}; they are kept in {self.exported_to}"
        return f"would remove {what}; nothing was removed: apply does it"


def call_parts(connection: sqlite3.Connection) -> dict[int, dict[str, Any]]:
    """The shared key parts by `call_id`."""
    return {number: orjson.loads(parts) for number, parts in connection.execute("SELECT call_id, parts FROM calls")}


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
    """Statistics of the whole store; zeros where there is no file."""
    groups: list[_Group] = []
    calls: dict[int, dict[str, Any]] = {}
    n_keys = 0
    if connection is not None:
        with snapshot(connection):
            calls = call_parts(connection)
            groups = connection.execute(_GROUPS).fetchall()
            (n_keys,) = connection.execute("SELECT count(*) FROM (SELECT DISTINCT key FROM replies)").fetchone()
    judges, rubrics = _by_judge_and_rubric(groups, calls)
    return Stats(
        path=str(path),
        n_bytes=sum(place.stat().st_size for place in (path, log_of(path)) if place.exists()),
        n_replies=sum(n for *_, n, _ in groups),
        n_keys=n_keys,
        n_live=sum(n for _, source, _, n, _ in groups if source == "live"),
        n_recorded=sum(n for _, source, _, n, _ in groups if source == "recorded"),
        n_promoted=sum(n for _, _, promoted, n, _ in groups if promoted),
        cost_usd=sum(cost for *_, cost in groups),
        judges=judges,
        rubrics=rubrics,
        session=session,
    )


def _by_judge_and_rubric(
    groups: Iterable[_Group], calls: Mapping[int, dict[str, Any]]
) -> tuple[list[JudgeStats], list[RubricStats]]:
    judges: dict[tuple[str, ...], JudgeStats] = {}
    rubrics: dict[tuple[str, ...], RubricStats] = {}
    for call_id, _, _, n, cost in groups:
        parts = calls[call_id]
        judge = parts["provider"], parts["service"], parts["model"]
        by_judge = judges.setdefault(
            judge, JudgeStats(provider=judge[0], service=judge[1], model=judge[2], n_replies=0, cost_usd=0.0)
        )
        by_judge["n_replies"] += n
        by_judge["cost_usd"] += cost
        rubric = parts["rubric"], parts["rubric_version"]
        by_rubric = rubrics.setdefault(rubric, RubricStats(rubric=rubric[0], rubric_version=rubric[1], n_replies=0))
        by_rubric["n_replies"] += n
    return [judges[name] for name in sorted(judges)], [rubrics[name] for name in sorted(rubrics)]


def promote(
    connection: sqlite3.Connection, rubric: str, from_version: str, to_version: str, rubric_hashes: Collection[str]
) -> int:
    """Copy the newest replies to unchanged criteria to another rubric version, in an open transaction."""
    n_written = 0
    for call_id, parts in call_parts(connection).items():
        if (parts["rubric"], parts["rubric_version"]) != (rubric, from_version):
            continue
        if parts["rubric_hash"] in rubric_hashes:
            n_written += _promote_call(connection, call_id, {**parts, "rubric_version": to_version})
    return n_written


def _promote_call(connection: sqlite3.Connection, origin: int, parts: dict[str, Any]) -> int:
    call = canonical_json(parts)
    connection.execute("INSERT OR IGNORE INTO calls (parts) VALUES (?)", (call.decode(),))
    (call_id,) = connection.execute("SELECT call_id FROM calls WHERE parts = ?", (call.decode(),)).fetchone()
    key = key_function(call)
    newest = {row[0]: row[1:] for row in connection.execute(_ORIGINS, (origin,))}
    copies = (
        (new := key(input_hash.hex(), order, sample), call_id, input_hash, order, sample, *rest, new)
        for input_hash, order, sample, *rest in newest.values()
    )
    return connection.executemany(_PROMOTE, copies).rowcount
