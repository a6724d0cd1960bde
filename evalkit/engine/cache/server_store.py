"""`ServerStore`: a `ReplyStore` on a PostgreSQL server, and its claims on calls in flight."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import hashlib
import logging
import queue
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evalkit.core.files import network_file_system
from evalkit.core.settings import default_folder
from evalkit.engine.cache.database_protocol import FIRST_WAIT_S, LONGEST_WAIT_S, LostConnectionError, waiting_for_server
from evalkit.engine.cache.in_flight import was_granted
from evalkit.engine.cache.lookups import Counters
from evalkit.engine.cache.postgres import Connection, PostgresDatabase
from evalkit.engine.cache.sqlite_connections import gate, stores
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.cache.writer import Job, Row, Writer, started_thread
from evalkit.errors import CacheError

_GRACE_S = 3.0


@dataclass(slots=True, eq=False)
class _Asked:
    """Keys to claim together; their replies that were received since `since` are looked up once they are claimed."""

    keys: tuple[bytes, ...]
    since: float | None
    answer: Future[dict[bytes, bytes] | None]


@dataclass(slots=True, eq=False)
class PostgresClaims:
    """Claims on reply keys, held by one process and seen by all that share the store.

    A claim is an advisory lock of one connection: the server drops it when the connection ends. One thread takes and
    releases them, as many at a time as are waiting. After a lost connection each process first claims what it held
    again; new claims wait for `_GRACE_S`, so that every process can.
    """

    database: PostgresDatabase
    look_up: Callable[..., dict[bytes, bytes]]
    _jobs: queue.SimpleQueue[_Asked | tuple[bytes, ...] | None] = field(default_factory=queue.SimpleQueue)
    _held: dict[bytes, int] = field(default_factory=dict)  # key -> number of its lock
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _connection: Connection | None = None
    _closing: threading.Event = field(default_factory=threading.Event)

    def ask(self, keys: Iterable[bytes], since: float | None = None) -> Future[dict[bytes, bytes] | None]:
        """Claim all of these keys, or none.

        The future returns those of their replies that are stored already and were received since `since`; None if
        another call, here or in another process, holds one of the keys.
        """
        claim = _Asked(tuple(keys), since, Future())
        self._put(claim)
        return claim.answer

    def take(self, keys: Iterable[bytes]) -> bool:
        """As `ask`, and wait: whether the keys are claimed."""
        return self.ask(keys).result() is not None

    def release(self, keys: Iterable[bytes]) -> None:
        """Release claimed keys."""
        self._put(tuple(keys))

    def close(self) -> None:
        """Release every claim and close the connection."""
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._closing.set()
                self._jobs.put(None)
                thread.join()
                self._closing.clear()

    def abandon_after_fork(self) -> list[Any]:
        """In a forked child: see `PostgresDatabase.abandon_after_fork`."""
        return [self._connection] if self._connection else []

    def _put(self, job: _Asked | tuple[bytes, ...]) -> None:
        with self._guard:
            if self._thread is None:
                self._thread = started_thread(self._run, "evalkit-cache-claims")
            self._jobs.put(job)

    def _run(self) -> None:
        going = True
        while going:
            jobs = [self._jobs.get()]
            with contextlib.suppress(queue.Empty):
                while jobs[-1] is not None:
                    jobs.append(self._jobs.get_nowait())
            going = jobs[-1] is not None
            pending = [job for job in jobs if isinstance(job, _Asked) and job.answer.set_running_or_notify_cancel()]
            granted: list[_Asked] = []
            answers: dict[_Asked, dict[bytes, bytes]] = {}
            try:
                self._release([key for job in jobs if isinstance(job, tuple) for key in job])
                granted = self._take(pending)
                for since in {job.since for job in granted}:
                    some = [job for job in granted if job.since == since]
                    stored = self.look_up({key for job in some for key in job.keys}, since=since, recorded=False)
                    answers |= {job: {key: stored[key] for key in job.keys if key in stored} for job in some}
            # every error goes to those who wait: nothing else reports it
            except Exception as problem:  # noqa: BLE001
                self._release([key for job in granted for key in job.keys])
                for job in pending:
                    job.answer.set_exception(problem)
                continue
            for job in pending:
                job.answer.set_result(answers.get(job))
        if self._connection is not None:
            self._connection.raw.close()
        self._connection = None
        self._held.clear()

    def _release(self, keys: Sequence[bytes]) -> None:
        self._unlock([number for key in keys if (number := self._held.pop(key, None)) is not None])

    def _unlock(self, numbers: list[int]) -> None:
        if numbers and self._connection is not None:
            with contextlib.suppress(LostConnectionError), self.database.errors():  # then they are released
                self._connection.execute("SELECT pg_advisory_unlock(k) FROM unnest(?::int8[]) k", [numbers])

    def _take(self, asked: Sequence[_Asked]) -> list[_Asked]:
        """Those whose keys are all claimed now."""
        numbers: dict[bytes, int] = {}
        free: list[_Asked] = []
        for job in asked:
            if not any(key in self._held or key in numbers for key in job.keys):
                free.append(job)
                numbers |= {key: int.from_bytes(key[:8], signed=True) for key in job.keys}
        if not numbers:
            return []
        got = self._locked(numbers)
        granted = [job for job in free if all(key in got for key in job.keys)]
        self._held |= {key: numbers[key] for key in got}
        granted_keys = {key for job in granted for key in job.keys}
        self._release([key for key in got if key not in granted_keys])
        return granted

    def _locked(self, wanted: dict[bytes, int]) -> set[bytes]:
        """The keys among these that no other process holds, now locked; a lost connection is waited for."""
        wait = FIRST_WAIT_S
        while True:
            try:
                with self.database.errors():
                    if self._connection is None:
                        self._connection = self._connect()
                    rows = self._connection.execute(
                        "SELECT k FROM unnest(?::int8[]) k WHERE pg_try_advisory_lock(k)", [list(wanted.values())]
                    )
                    numbers = {number for (number,) in rows}
                    return {key for key, number in wanted.items() if number in numbers}
            except LostConnectionError as problem:
                self._connection = None
                if self._closing.wait(wait):
                    raise
                if wait >= LONGEST_WAIT_S:
                    self.database.say("%s; waiting for it", problem)
                wait = min(2 * wait, LONGEST_WAIT_S)
            except CacheError:
                self._unlock(list(wanted.values()))  # those that it got before the error outlive the statement
                raise

    def _check_pooler(self, connection: Connection) -> None:
        """CacheError if a pooler gives each transaction another session: a claim would be lost after the first."""
        (session,) = connection.execute("SELECT pg_backend_pid()").fetchone()
        if session == connection.raw.info.backend_pid:
            return
        second_connection = self.database.connect()
        with contextlib.closing(second_connection.raw), second_connection.raw.transaction():
            if second_connection.execute("SELECT pg_backend_pid()").fetchone() == (session,):
                connection.raw.close()
                raise CacheError(
                    f"reply store {self.database.place} is reached through a pooler in transaction mode, which breaks "
                    "the claims on calls in flight; use a pooler in session mode, or the server's own port"
                )

    def _connect(self) -> Connection:
        """A connection that holds what was held before, as far as no other process has claimed it."""
        connection = self.database.connect()
        self._check_pooler(connection)
        if self._held:
            lost = connection.execute(
                "SELECT k FROM unnest(?::int8[]) k WHERE NOT pg_try_advisory_lock(k)", [list(self._held.values())]
            ).fetchall()
            if lost:
                _log.warning("%d calls in flight may be made twice: the reply store was down for too long", len(lost))
        # others may not have theirs again yet: at the first connection, too, the server may have just started
        (up_s,) = connection.execute("SELECT extract(epoch FROM now() - pg_postmaster_start_time())::float8").fetchone()
        self._closing.wait(max(0.0, _GRACE_S - up_s))
        return connection


_KEPT = (
    'SELECT key, parts, input_hash, "order", sample, content_key, created, source, cost_usd, promoted_from, value '
    "FROM replies JOIN calls USING (call_id) ORDER BY key, generation"
)
_KEPT_EVALUATIONS = "SELECT evaluation, created, summary, settings FROM evaluations ORDER BY created"
_log = logging.getLogger("evalkit.engine.cache")
_open: dict[tuple[str, bool], ServerStore] = {}


class ServerStore(ReplyStore):
    """See `ReplyStore`. While the server is away, answers are kept on local disk; whoever reads or claims waits."""

    database: PostgresDatabase
    claims: PostgresClaims

    def __init__(self, address: str, *, read_only: bool) -> None:
        self.cache, self.folder, self.read_only = address, default_folder(), read_only
        self.path = self.folder / FILE_NAME
        self.database = PostgresDatabase(address, read_only)
        self.where = self.place = self.database.place
        self.counters, self._learnt = Counters(), {}
        self.claims = PostgresClaims(self.database, self.stored_or_asked)
        self._writer = Writer(self.database, self.counters, self._keep, self._forget)
        self._n_kept = 0
        stores.add(self)

    async def claim(self, keys: Sequence[bytes], *, since: float | None) -> dict[bytes, bytes] | None:
        """See `ReplyStore.claim`."""
        future = self.claims.ask(keys, since)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(lambda answer: self.claims.release(keys) if was_granted(answer) else None)
            raise

    @waiting_for_server
    def check_writable(self) -> None:
        """See `ReplyStore.check_writable`."""
        super().check_writable()

    get_many = waiting_for_server(ReplyStore.get_many)
    get_by_content = waiting_for_server(ReplyStore.get_by_content)
    nearest = waiting_for_server(ReplyStore.nearest)
    texts_of = waiting_for_server(ReplyStore.texts_of)
    facts = waiting_for_server(ReplyStore.facts)
    stats = waiting_for_server(ReplyStore.stats)
    evaluations = waiting_for_server(ReplyStore.evaluations)
    in_batches = waiting_for_server(ReplyStore.in_batches)
    tickets = waiting_for_server(ReplyStore.tickets)
    manifest = waiting_for_server(ReplyStore.manifest)
    export = waiting_for_server(ReplyStore.export)

    def abandon_after_fork(self) -> list[Any]:
        """See `ReplyStore.abandon_after_fork`."""
        return [*self.claims.abandon_after_fork(), *super().abandon_after_fork()]

    @cached_property
    def _local_store(self) -> ReplyStore:
        """The local store of replies that the server could not take."""
        folder = self.folder
        if network_file_system(folder) is not None:
            folder = Path(tempfile.gettempdir()) / f"evalkit-{getpass.getuser()}"
        return self.open(folder / "kept" / hashlib.sha256(self.place.encode()).hexdigest()[:16])

    def _keep(self, jobs: Sequence[Job]) -> None:
        """Store on local disk what the server cannot take now, so that it outlives this process."""
        if not any(job.rows or job.evaluation for job in jobs):
            return
        copies = [replace(job, waiter=Future()) for job in jobs]
        try:
            local_store = self._local_store
            for job in copies:
                local_store._writer.submit(job)
            for job in copies:
                job.waiter.result()
        except (CacheError, OSError) as problem:
            _log.warning("replies can be stored neither in %s nor on this machine: %s", self.place, problem)
        else:
            self._n_kept += sum(len(job.rows) + bool(job.evaluation) for job in jobs)
            self.database.say(
                "%s cannot store replies or evaluations now (%d so far); they wait in %s",
                self.place,
                self._n_kept,
                local_store.folder,
            )

    def _forget(self, jobs: Sequence[Job]) -> None:
        """Remove what the server has taken from the local disk."""
        keys = sorted({row.key for job in jobs for row in job.rows})
        logged = [job.evaluation[:1] for job in jobs if job.evaluation]
        with contextlib.suppress(CacheError, OSError):  # then the next process writes them once more
            local_database = self._local_store.database
            with local_database.writer() as connection, local_database.transaction(connection):
                list(connection.rows_in("DELETE FROM replies WHERE key IN ({})", keys))
                for evaluation in logged:
                    connection.execute("DELETE FROM evaluations WHERE evaluation = ?", evaluation)

    def write_kept(self) -> None:
        """Write what earlier processes of this machine kept."""
        local_store = self._local_store
        jobs: list[Job] = []
        with local_store.database.reading() as connection:
            if connection is not None:
                rows = [Row(*row) for row in connection.execute(_KEPT)]
                jobs = [Job(Future(), [row], newer_than=row.created) for row in rows]
                jobs += [Job(Future(), evaluation=tuple(row)) for row in connection.execute(_KEPT_EVALUATIONS)]
        for job in jobs:
            self._writer.submit(job)
        try:
            for job in jobs:
                job.waiter.result()
        except CacheError as problem:
            _log.warning(
                "%d replies and evaluations could not be written to the server yet and are kept in %s: %s",
                len(jobs),
                local_store.folder,
                problem,
            )
        else:
            if jobs:
                self._forget(jobs)


def open_server(address: str, read_only: bool) -> ServerStore:
    """The store at an address: one shared object in each process."""
    with gate.opening:
        store = _open.get((address, read_only))
        if store is None:
            store = ServerStore(address, read_only=read_only)
            try:
                with store.database.reading():  # checks what is there
                    _open[address, read_only] = store
            except CacheError:
                store.close()
                raise
            if not read_only:
                store.write_kept()
    return store
