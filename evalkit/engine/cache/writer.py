"""The one writer thread of a store: what many callers hand in is committed together, durably."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

from evalkit.engine.cache import sqlite_schema as schema
from evalkit.engine.cache.connections import Connections
from evalkit.engine.cache.counters import Counters
from evalkit.engine.cache.rows import Row

__all__ = ["Fact", "Job", "Writer", "append", "chunks", "marks"]

_ROWS_PER_COMMIT = 1000
_KEYS_PER_QUERY = 900  # old SQLite builds take no more than 999 parameters

_NEWEST = (
    "SELECT key, generation, created, source, promoted_from IS NOT NULL, value "
    "FROM replies WHERE key IN ({}) ORDER BY key, generation"
)
_INSERT = (
    'INSERT INTO replies (key, generation, call_id, input_hash, "order", sample, content_key, created, source, '
    "cost_usd, promoted_from, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_LEARN = (
    "INSERT INTO facts (service, model, name, value, learned_at) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET value = excluded.value, learned_at = excluded.learned_at"
)


class Fact(NamedTuple):
    """What was learnt of a service and model; `value` is JSON."""

    service: str
    model: str
    name: str
    value: str
    learned_at: float


@dataclass(slots=True)
class Job:
    """Rows or a fact to write, and who waits for it.

    `waiter` gets the stored values in the order of `rows`; the only one where `single`.
    """

    waiter: Future[Any] | asyncio.Future[Any]
    rows: Sequence[Row] = ()
    fact: Fact | None = None
    overwrite: bool = False
    newer_than: float | None = None
    single: bool = False


class _Stored(NamedTuple):
    generation: int
    created: float
    source: str
    promoted: int
    value: bytes


def append(connection: sqlite3.Connection, jobs: Iterable[Job], calls: dict[str, int]) -> tuple[list[list[bytes]], int]:
    """Append what is new in an open transaction.

    A row yields to a stored one of its key, and the stored value is handed back, unless it is to
    overwrite, or the stored one is older than `newer_than`, or it is live and the stored one was only
    recorded or promoted: what was just paid for under the very key is never thrown away for those.

    Parameters
    ----------
    calls
        Known ids of shared parts; filled.

    Returns
    -------
    values
        The value that is stored now, per job and row.
    n_appended
        How many rows were appended.
    """
    jobs = list(jobs)
    newest: dict[bytes, _Stored] = {}
    for keys in chunks(sorted({row.key for job in jobs for row in job.rows})):
        for key, *rest in connection.execute(_NEWEST.format(marks(keys)), keys):
            newest[key] = _Stored(*rest)
    fresh: list[tuple[Any, ...]] = []
    values: list[list[bytes]] = []
    for job in jobs:
        shown: list[bytes] = []
        for row in job.rows:
            stored = newest.get(row.key)
            if stored is None or _supersedes(row, stored, job):
                generation = 0 if stored is None else stored.generation + 1
                stored = _Stored(generation, row.created, row.source, row.promoted_from is not None, row.value)
                newest[row.key] = stored
                fresh.append((row.key, generation, _call_id(connection, row.call, calls), *row[2:]))
            shown.append(stored.value)
        values.append(shown)
    connection.executemany(_INSERT, fresh)
    connection.executemany(_LEARN, [job.fact for job in jobs if job.fact])
    return values, len(fresh)


def _supersedes(row: Row, stored: _Stored, job: Job) -> bool:
    if job.overwrite:
        return row.value != stored.value
    if job.newer_than is not None and stored.created < job.newer_than:
        return True
    own = row.source == "live" and row.promoted_from is None
    return own and (stored.source != "live" or bool(stored.promoted))


def _call_id(connection: sqlite3.Connection, parts: str, calls: dict[str, int]) -> int:
    found = calls.get(parts)
    if found is None:
        connection.execute("INSERT OR IGNORE INTO calls (parts) VALUES (?)", (parts,))
        found = calls[parts] = connection.execute("SELECT call_id FROM calls WHERE parts = ?", (parts,)).fetchone()[0]
    return found


def chunks(keys: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    """The keys in portions that one query can take."""
    for start in range(0, len(keys), _KEYS_PER_QUERY):
        yield keys[start : start + _KEYS_PER_QUERY]


def marks(keys: Sequence[bytes]) -> str:
    """Parameter marks for the keys."""
    return ("?," * len(keys))[:-1]


class Writer:
    """Takes jobs from any thread or event loop and commits them in groups from one thread of its own."""

    def __init__(self, connections: Connections, counters: Counters) -> None:
        self._connections = connections
        self._counters = counters
        self.start_afresh()

    def start_afresh(self) -> None:
        """As new; also in a forked child, which has no writer thread and must not use the parent's connection."""
        self._guard = threading.Lock()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._file: object = None
        self._calls: dict[str, int] = {}

    def submit(self, job: Job) -> None:
        """Hand a job in; its waiter resolves once it is durable."""
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="evalkit-cache-writer", daemon=True)
                self._thread.start()
            self._jobs.put(job)

    def flush(self) -> None:
        """Wait until what was handed in so far is written, or failed."""
        with self._guard:
            if self._thread is None:
                return
            last = Job(Future())
            self._jobs.put(last)
        wait([last.waiter])  # type: ignore[list-item]

    def close(self) -> None:
        """Write what was handed in, move the log into the file, end the thread. A later job starts it again."""
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._jobs.put(None)
                thread.join()

    def abandon_after_fork(self) -> list[sqlite3.Connection]:
        """In the child: forget the parent's thread and connection."""
        inherited = [self._connection] if self._connection else []
        self.start_afresh()
        return inherited

    def _run(self) -> None:
        going = True
        while going:
            jobs = [self._jobs.get()]
            n_rows = 0
            with contextlib.suppress(queue.Empty):
                while jobs[-1] is not None and n_rows < _ROWS_PER_COMMIT:
                    n_rows += len(jobs[-1].rows)
                    jobs.append(self._jobs.get_nowait())
            going = jobs[-1] is not None
            self._commit([job for job in jobs if job is not None])
        self._disconnect()

    def _commit(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        try:
            values = self._append(jobs)
        # every error goes to those who wait: nothing else reports it, and they would wait without end
        except Exception as problem:  # noqa: BLE001
            _deliver(jobs, error=problem)
        else:
            _deliver(jobs, values=values)

    def _append(self, jobs: list[Job]) -> list[list[bytes]]:
        with self._connections.using():
            connection = self._connected()
            try:
                with schema.transaction(self._connections.path, connection):
                    values, n_appended = append(connection, jobs, self._calls)
            except sqlite3.Error:
                self._calls.clear()  # ids that were given in this transaction are gone with it
                raise
        self._counters.add(stored=n_appended)
        return values

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._file != self._connections.identity():
            self._connections.let_go(self._connection)
            self._connection = None
        if self._connection is None:
            self._calls.clear()
            self._connection, self._file = self._connections.open_writer()
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is None:
            return
        with self._connections.using():
            with contextlib.suppress(sqlite3.Error):  # the log stays and the next opening reads it
                self._connections.checkpoint(self._connection)
            self._connections.let_go(self._connection)
            self._connection = None


def _deliver(jobs: Sequence[Job], values: Sequence[list[bytes]] | None = None, error: Exception | None = None) -> None:
    """Resolve all waiters; those of one event loop in one go, since each call into a loop costs a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
    for number, job in enumerate(jobs):
        outcome: Any = None
        if values is not None:
            outcome = values[number][0] if job.single else values[number]
        if isinstance(job.waiter, asyncio.Future):
            by_loop.setdefault(job.waiter.get_loop(), []).append((job.waiter, outcome))
        elif job.waiter.set_running_or_notify_cancel():
            _resolve(job.waiter, outcome, error)
    for loop, waiters in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nothing waits any more
            loop.call_soon_threadsafe(_resolve_all, waiters, error)


def _resolve_all(waiters: Sequence[tuple[asyncio.Future[Any], Any]], error: Exception | None) -> None:
    for waiter, outcome in waiters:
        if not waiter.done():
            _resolve(waiter, outcome, error)


def _resolve(waiter: Future[Any] | asyncio.Future[Any], outcome: Any, error: Exception | None) -> None:
    if error is None:
        waiter.set_result(outcome)
    else:
        waiter.set_exception(error)
