"""The one writer thread of a store: what many callers submit is committed together, durably."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from evalkit.engine.cache import sqlite_schema as schema
from evalkit.engine.cache.connections import Connections, Identity
from evalkit.engine.cache.lookups import Counters, call_id, rows_in
from evalkit.engine.cache.rows import Row

if TYPE_CHECKING:
    import asyncio

_ROWS_PER_COMMIT = 1000

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


@dataclass(slots=True)
class Job:
    """Rows or a fact to write, and the future of its caller.

    `waiter` gets the stored values in the order of `rows`, or with `single` the only one of them. A fact was learnt
    about a service and model: both, its name, its value as JSON, and the Unix time.
    """

    waiter: Future[Any] | asyncio.Future[Any]
    rows: Sequence[Row] = ()
    fact: tuple[str, str, str, str, float] | None = None
    overwrite: bool = False
    newer_than: float | None = None
    single: bool = False

    def supersedes(self, row: Row, stored: _Stored) -> bool:
        """Whether a row of the job becomes the next generation; else the stored reply of its key stays.

        It does if it is to overwrite; if the stored one is older than `newer_than`; and if it is live and the stored
        one was only recorded or promoted: what was just paid for under the very key is not thrown away for those.
        """
        if self.overwrite:
            return row.value != stored.value
        if self.newer_than is not None and stored.created < self.newer_than:
            return True
        is_own = row.source == "live" and row.promoted_from is None
        return is_own and (stored.source != "live" or bool(stored.promoted))


class _Stored(NamedTuple):
    generation: int
    created: float
    source: str
    promoted: int
    value: bytes


class Writer:
    """Takes jobs from any thread or event loop and commits them in groups from its own thread.

    Attributes
    ----------
    connection
        The connection of that thread, while it is open.
    """

    def __init__(self, connections: Connections, counters: Counters) -> None:
        self.connection: sqlite3.Connection | None = None
        self._connections, self._counters = connections, counters
        self._guard = threading.Lock()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._file: Identity | None = None
        self._calls: dict[str, int] = {}  # known ids of shared parts

    def submit(self, job: Job) -> None:
        """Queue a job; its waiter resolves once it is durable."""
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="evalkit-cache-writer", daemon=True)
                self._thread.start()
            self._jobs.put(job)

    def flush(self) -> None:
        """Wait until everything submitted so far is written, or failed."""
        with self._guard:
            if self._thread is None:
                return
            last = Job(Future())
            self._jobs.put(last)
        wait([last.waiter])  # type: ignore[list-item]

    def close(self) -> None:
        """Write what was submitted, move the log into the file, end the thread. A later job starts it again."""
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._jobs.put(None)
                thread.join()

    def _run(self) -> None:
        going = True
        while going:
            queued = [self._jobs.get()]
            n_rows = 0
            with contextlib.suppress(queue.Empty):
                while queued[-1] is not None and n_rows < _ROWS_PER_COMMIT:
                    n_rows += len(queued[-1].rows)
                    queued.append(self._jobs.get_nowait())
            going = queued[-1] is not None
            jobs = [job for job in queued if job is not None]
            if jobs:
                try:
                    values = self._commit(jobs)
                # every error goes to the waiters: nothing else reports it, and they would wait forever
                except Exception as problem:  # noqa: BLE001
                    _deliver(jobs, [None] * len(jobs), problem)
                else:
                    _deliver(jobs, values, None)
        if self.connection is not None:
            with self._connections.using():
                with contextlib.suppress(sqlite3.Error):  # the log stays and the next opening reads it
                    self._connections.checkpoint(self.connection)
                self._connections.let_go(self.connection)
                self.connection = None

    def _commit(self, jobs: Sequence[Job]) -> list[list[bytes]]:
        """Write the jobs in one transaction; the value that is stored now, per job and row."""
        with self._connections.using():
            if self.connection is not None and self._file != self._connections.identity():
                self._connections.let_go(self.connection)
                self.connection = None
            if self.connection is None:
                self._calls.clear()
                self.connection, self._file = self._connections.open_writer()
            try:
                with schema.transaction(self._connections.path, self.connection):
                    values, n_appended = self._append(self.connection, jobs)
            except sqlite3.Error:
                self._calls.clear()  # ids that were given in this transaction are gone with it
                raise
        self._counters.add(stored=n_appended)
        return values

    def _append(self, connection: sqlite3.Connection, jobs: Sequence[Job]) -> tuple[list[list[bytes]], int]:
        """The values that are stored now, and how many rows were appended."""
        keys = sorted({row.key for job in jobs for row in job.rows})
        newest = {key: _Stored(*stored) for key, *stored in rows_in(connection, _NEWEST, keys)}
        appended: list[tuple[Any, ...]] = []
        values: list[list[bytes]] = []
        for job in jobs:
            values.append([])
            for row in job.rows:
                stored = newest.get(row.key)
                if stored is None or job.supersedes(row, stored):
                    generation = 0 if stored is None else stored.generation + 1
                    stored = _Stored(generation, row.created, row.source, row.promoted_from is not None, row.value)
                    newest[row.key] = stored
                    if row.call not in self._calls:
                        self._calls[row.call] = call_id(connection, row.call)
                    appended.append((row.key, generation, self._calls[row.call], *row[2:]))
                values[-1].append(stored.value)
        connection.executemany(_INSERT, appended)
        connection.executemany(_LEARN, [job.fact for job in jobs if job.fact])
        return values, len(appended)


def _deliver(jobs: Sequence[Job], values: Sequence[Any], error: Exception | None) -> None:
    """Resolve all waiters; those of one event loop together, since each call into a loop costs a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Any, Any]]] = {}
    for job, rows in zip(jobs, values, strict=True):
        value = rows[0] if job.single and rows else rows
        if not isinstance(job.waiter, Future):
            by_loop.setdefault(job.waiter.get_loop(), []).append((job.waiter, value))
        elif job.waiter.set_running_or_notify_cancel():
            _resolve([(job.waiter, value)], error)
    for loop, waiters in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nothing waits any more
            loop.call_soon_threadsafe(_resolve, waiters, error)


def _resolve(waiters: Sequence[tuple[Any, Any]], error: Exception | None) -> None:
    for waiter, value in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(value)
        else:
            waiter.set_exception(error)
