"""The reading half of `ReplyStore`: replies in bulk, by content, the nearest entry, facts; and counters of hits."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from evalkit.core.lists_of_choices import REPLY_SOURCES
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyMaker, KeyParts
from evalkit.engine.cache.database_protocol import Connection, Database
from evalkit.errors import CacheError, listed

_OTHER_SAMPLES = 32
_FEW, _PER_KEY = 1_000, 2  # more keys than this, in a store of at most so many replies per key: all are read

_ALL, _LATER = "SELECT key, value FROM replies WHERE generation {}", "> 0 ORDER BY generation"
_VALUES = "SELECT key, value FROM replies WHERE key IN ({}) ORDER BY key, generation"
_MARKED = (
    "SELECT key, created, source, promoted_from IS NOT NULL, value FROM replies WHERE key IN ({}) "
    "ORDER BY key, generation"
)
_EARLIER = (
    "SELECT coalesce(promoted_from, key), call_id, input_hash, value FROM replies WHERE call_id IN ({}) "
    "AND {} LIMIT 200"
)
_OF_VERSION = {"rubric_version", "rubric_hash", "input_hash", "order", "sample"}
_BY_CONTENT = (
    "SELECT key, created, source, promoted_from IS NOT NULL, value, content_key FROM replies "
    "WHERE content_key IN ({}) ORDER BY key, generation"
)


_CLOCKS_DIFFER_S = 300.0
_COUNTED, _US_DOLLARS = ("hits", "misses", "joins", "stored"), ("saved_usd", "paid_usd")


def is_as_new(created: float, since: float) -> bool:
    """Whether a reply was received since this Unix time; one from the future, by a clock that was wrong, was not."""
    return since <= created <= max(since, time.time()) + _CLOCKS_DIFFER_S


class Counters:
    """Thread-safe counters of one store in one process.

    The store itself counts only `stored` and `paid_usd`. Callers that use replies count `hits`, `misses`, `joins` (they
    waited for a call that was already in flight) and `saved_usd`: a look-up for a plan is not a hit.

    Examples
    --------
    >>> counters = Counters()
    >>> counters.add(hits=3, saved_usd=0.5)
    >>> counters.as_dict()
    {'hits': 3, 'misses': 0, 'joins': 0, 'stored': 0, 'saved_usd': 0.5, 'paid_usd': 0.0}
    """

    def __init__(self) -> None:
        self._lock, self._counts = threading.Lock(), dict.fromkeys(_COUNTED, 0) | dict.fromkeys(_US_DOLLARS, 0.0)

    def add(self, **amounts: float | None) -> None:
        """Add to the counts; None (the price of a reply, if it is unknown) adds nothing."""
        with self._lock:
            for name, amount in amounts.items():
                self._counts[name] += amount or 0

    def as_dict(self) -> dict[str, float]:
        """A copy of the counts of one moment."""
        with self._lock:
            return {**self._counts}


@dataclass(slots=True)
class PaidRubric:
    """What the replies to a version of a rubric cost: US$, replies of unknown price, the judges, the last reply."""

    usd: float = 0.0
    n_unpriced: int = 0
    judges: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """A selection of replies: those that meet every condition that is not None (see `ReplyStore.prune`)."""

    rubric: str | None = None
    model: str | None = None
    source: str | None = None
    older_than: float | None = None
    keep_generations: int | None = None

    def __post_init__(self) -> None:
        if self.source not in (None, *REPLY_SOURCES):
            raise CacheError(f"unknown source {self.source!r}; allowed: {listed(REPLY_SOURCES)}")
        if self.keep_generations is not None and self.keep_generations < 1:
            raise CacheError(
                f"keep_generations must be 1 or more, got {self.keep_generations!r}; to remove all replies, use clear()"
            )

    def where(self, connection: Connection) -> tuple[str, list[float]]:
        """The conditions as SQL with its parameters."""
        conditions, parameters = ["true"], list[float]()
        if self.rubric is not None or self.model is not None:
            ids = [str(number) for number, parts in call_parts(connection).items() if self._fits(parts)]
            conditions.append(f"call_id IN ({','.join(ids)})" if ids else "false")
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


class Lookups:
    """The methods of a store that add no reply."""

    folder: Path
    place: str
    read_only: bool
    database: Database
    _learnt: dict[tuple[str, str], dict[str, Any]]

    def check_writable(self) -> None:
        """Raise CacheError now, before anything is paid, if a reply could not be stored. Creates the file."""
        self.database.make()

    def get_many(
        self,
        keys: Collection[bytes],
        *,
        since: float | None = None,
        until: float | None = None,
        recorded: bool = True,
        promoted: bool = True,
    ) -> dict[bytes, bytes]:
        """The stored replies of many keys, as JSON bytes (`Reply.from_dict` of it is the reply).

        Only the newest generation of a key counts.

        Parameters
        ----------
        keys
            Reply keys, 32 bytes each, in any order.
        since
            Unix time: a reply received before it does not count as present.
        until
            Unix time: the newest generation received up to then counts, as at that time.
        recorded, promoted
            False: a reply that was recorded by hand, or taken over by `promote`, does not count.

        Returns
        -------
        dict
            Key -> JSON; keys that are not present are absent.
        """
        with self.database.reading() as connection:
            if connection is None or not keys:
                return {}
            is_any = since is None and until is None and recorded and promoted
            if is_any and len(keys) > _FEW and connection.most_replies() < _PER_KEY * len(keys):
                # a scan visits each page once, an index jumps from page to page
                keys_asked = frozenset(keys)
                rows = chain.from_iterable(connection.execute(_ALL.format(which)) for which in ("= 0", _LATER))
                return {key: value for key, value in rows if key in keys_asked}
            ordered = sorted(keys)  # so that pages of the index are visited once
            if is_any:
                return dict(connection.rows_in(_VALUES, ordered))  # the newest generation is read last, and stays
            newest = {
                key: row for key, *row in connection.rows_in(_MARKED, ordered) if until is None or row[0] <= until
            }
        return {
            key: value
            for key, (created, source, is_promoted, value) in newest.items()
            if (since is None or is_as_new(created, since))
            and (recorded or source != "recorded")
            and (promoted or not is_promoted)
        }

    def generations(self, keys: Collection[bytes]) -> dict[bytes, list[bytes]]:
        """All stored replies of these keys, as JSON bytes, the oldest first."""
        values: dict[bytes, list[bytes]] = {}
        with self.database.reading() as connection:
            if connection is not None and keys:
                for key, value in connection.rows_in(_VALUES, sorted(keys)):
                    values.setdefault(key, []).append(value)
        return values

    def get_by_content(
        self,
        content_keys: Collection[bytes],
        *,
        since: float | None = None,
        until: float | None = None,
        recorded: bool = True,
    ) -> dict[bytes, tuple[bytes, bytes]]:
        """Replies to an unchanged criterion of another rubric version: content key -> (origin's key, JSON).

        If several versions have one, the reply received last is returned. Ties: the origin before its promoted copy,
        then the smaller key, so that every process returns the same one.
        """
        with self.database.reading() as connection:
            if connection is None or not content_keys:
                return {}
            rows = connection.rows_in(_BY_CONTENT, sorted(content_keys))
            newest = {key: row for key, *row in rows if until is None or row[0] <= until}
        best: dict[bytes, tuple[tuple[float, bool], bytes, bytes]] = {}
        for key, (created, source, is_promoted, value, content_key) in sorted(newest.items()):
            rank = created, not is_promoted
            counts = (since is None or is_as_new(created, since)) and (recorded or source != "recorded")
            if counts and (content_key not in best or rank > best[content_key][0]):
                best[content_key] = rank, key, value
        return {content_key: (key, value) for content_key, (_, key, value) in best.items()}

    def nearest(self, parts: KeyParts) -> dict[str, tuple[object, object]] | None:
        """How a missing reply differs from the most similar stored one: ``{field: (stored, requested)}``.

        Only replies to the same input count; None if there is none. Among equally similar ones, the combination of
        shared parts that was used first most recently. Other samples count only if this sample is not stored under
        any combination.
        """
        requested = orjson.loads(parts.shared_json())
        other_samples = [sample for sample in range(max(_OTHER_SAMPLES, parts.sample)) if sample != parts.sample]
        with self.database.reading() as connection:
            calls = {} if connection is None else call_parts(connection)
        # no index is needed: the key of this input is computed for each known combination, the newest first
        combinations = [calls[number] for number in sorted(calls, reverse=True)]
        for samples in ([parts.sample], other_samples):
            candidates = {
                key: (shared, sample)
                for shared in combinations
                for sample, key in zip(samples, KeyMaker(shared)(parts.input_hash, parts.order, samples), strict=True)
            }
            stored = self.get_many(candidates)
            differences = []
            for shared, sample in (candidates[key] for key in candidates if key in stored):
                names = [name for name in KeyParts.__slots__ if shared[name] != requested[name]]
                fields: dict[str, tuple[object, object]] = {name: (shared[name], requested[name]) for name in names}
                if sample != parts.sample:
                    fields["sample"] = sample, parts.sample
                differences.append(fields)
            if differences:
                return min(differences, key=len)
        return None

    def texts_of(self, rubric: str, version: str, *, count: bool = False) -> dict[tuple[str, str], int]:
        """(template hash, rubric hash) -> replies of a version; 0 for each without `count`, which reads all of them."""
        counts: dict[tuple[str, str], int] = {}
        with self.database.reading() as connection:
            for number, parts in ({} if connection is None else call_parts(connection)).items():
                if (parts["rubric"], parts["rubric_version"]) == (rubric, version):
                    assert connection is not None
                    query = "SELECT count(*) FROM replies WHERE call_id = ?"
                    (n,) = connection.execute(query, (number,)).fetchone() if count else (0,)
                    pair = parts["template_hash"], parts["rubric_hash"]
                    counts[pair] = counts.get(pair, 0) + n
        return counts

    def earlier_replies(self, parts: KeyParts) -> list[tuple[tuple[int, str], Reply]]:
        """The newest 200 replies of a judge, as it is, on any version of the rubric, each with its call and input hash.

        A reply and its promoted copies count once.
        """
        shared = orjson.loads(parts.shared_json())
        names = [name for name in shared if name not in _OF_VERSION]
        with self.database.reading() as connection:
            stored = {} if connection is None else call_parts(connection)
            calls = [
                str(number) for number, call in stored.items() if all(call[name] == shared[name] for name in names)
            ]
            if connection is None or not calls:
                return []
            rows = connection.execute(_EARLIER.format(",".join(calls), connection.newest)).fetchall()
        replies = {origin: ((call, input_hash.hex()), value) for origin, call, input_hash, value in rows}
        return [(cell, Reply.from_dict(orjson.loads(value))) for cell, value in replies.values()]

    def facts(self, service: str, model: str) -> dict[str, Any]:
        """What was learnt about a service and model: name -> JSON value."""
        query = "SELECT name, value FROM facts WHERE service = ? AND model = ? ORDER BY name"
        with self.database.reading() as connection:
            rows = [] if connection is None else connection.execute(query, (service, model)).fetchall()
        return {name: orjson.loads(value) for name, value in rows} | self._learnt.get((service, model), {})


def call_parts(connection: Connection) -> dict[int, dict[str, Any]]:
    """The shared key parts by `call_id`."""
    return {number: orjson.loads(parts) for number, parts in connection.execute("SELECT call_id, parts FROM calls")}


def call_id(connection: Connection, parts: str) -> int:
    """The id of shared key parts, given as JSON; unknown ones get one."""
    connection.execute("INSERT INTO calls (parts) VALUES (?) ON CONFLICT DO NOTHING", (parts,))
    return int(connection.execute("SELECT call_id FROM calls WHERE parts = ?", (parts,)).fetchone()[0])
