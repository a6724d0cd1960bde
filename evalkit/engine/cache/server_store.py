"""`ServerStore`: a `ReplyStore` on a PostgreSQL server, which many machines share."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import hashlib
import logging
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evalkit.core.files import network_file_system
from evalkit.core.settings import default_folder
from evalkit.engine.cache.database_protocol import waiting_for_server
from evalkit.engine.cache.in_flight import was_granted
from evalkit.engine.cache.lookups import Counters
from evalkit.engine.cache.postgres import PostgresDatabase
from evalkit.engine.cache.postgres_claims import PostgresClaims
from evalkit.engine.cache.sqlite_connections import gate, stores
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.cache.writer import Job, Row, Writer
from evalkit.errors import CacheError

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
            text = "%s cannot store replies or evaluations now (%d so far); they wait in %s"
            self.database.say(text, self.place, self._n_kept, local_store.folder)

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
