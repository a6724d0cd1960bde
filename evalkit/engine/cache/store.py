"""`ReplyStore`: raw replies by key, in one SQLite file that many threads and processes share.

Here it is written. `opened_stores` opens it; `lookups` has its reading half, `maintenance` what looks after all of its
replies, `batch_tickets` what concerns batches.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts, canonical_json
from evalkit.engine.cache.batch_tickets import Tickets
from evalkit.engine.cache.database_protocol import Database
from evalkit.engine.cache.in_flight import Asked, Claims, was_granted
from evalkit.engine.cache.lookups import Counters
from evalkit.engine.cache.maintenance import Maintenance
from evalkit.engine.cache.sqlite_connections import Connections, stores
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.cache.writer import Job, Row, Writer, row_of

if TYPE_CHECKING:
    import asyncio

_ROWS_PER_JOB = 1000
_JOBS_AHEAD = 4


class _Opens(Protocol):
    def __call__(self, cache: Path | str | None = None, *, read_only: bool = False) -> ReplyStore: ...


class ReplyStore(Maintenance, Tickets):
    """Raw replies of judges by reply key, kept permanently; `ReplyStore.open` returns one.

    A key has generations: a refresh appends one, the newest counts, and nothing is removed but by
    `prune` or `clear`. Writing goes through one thread that commits in groups, and a reply counts as
    stored once it is on disk. One object serves all threads; other processes may use the same
    file at the same time; a forked child and a pickled copy open it again.

    Attributes
    ----------
    cache, where, place
        The folder or address, as `open` takes it; and as messages show it: folder and file, or the address without a
        password.
    folder, path
        The cache folder and the file in it; for a store on a server, a local folder for what belongs beside it.
    read_only
        Whether nothing can be written: as requested, or because the folder does not allow it.
    database
        The database that it is in: `Database`.
    counters
        Hits, misses and stored replies of this process: `Counters`.
    claims
        Which samples are being requested, by this or another process: `Claims`.

    Examples
    --------
    >>> import tempfile
    >>> parts = KeyParts("fake", "local", "strict", "support", "v1", "r", "t", 1.0, 512, {}, input_hash="0" * 64)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = ReplyStore.open(Path(folder))
    ...     stored = store.put(parts, Reply("[RESULT] 2 [END]")).result()
    ...     print(store.get_many([parts.key]) == {parts.key: stored})
    ...     store.close()
    True
    """

    open: ClassVar[_Opens]  # `open_store`, which is above the stores of all kinds: it assigns itself
    database: Database
    claims: Any
    # so that a store that could not be opened can still be printed, as in a traceback with variables
    where: Path | str = ""
    read_only: bool = False

    def __init__(self, cache: Path, *, read_only: bool) -> None:
        self.cache: Path | str = cache
        self.folder, self.path = cache, cache / FILE_NAME
        self.where = cache
        self.place, self.read_only = str(self.path), read_only
        self.database = Connections(self.path, self.read_only)
        self.counters, self.claims = Counters(), Claims(self.folder)
        self._writer, self._learnt = Writer(self.database, self.counters), {}
        self._claiming: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Asked]] = WeakKeyDictionary()
        stores.add(self)

    def __repr__(self) -> str:
        return f"ReplyStore({str(self.where)!r}{', read-only' if self.read_only else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(self.open, read_only=self.read_only), (str(self.cache),)

    def check_writable(self) -> None:
        """See `Lookups.check_writable`; the thread and the connection that write are ready then."""
        super().check_writable()
        self._writer.get_ready()

    def put(
        self, parts: KeyParts, reply: Reply, *, overwrite: bool = False, newer_than: float | None = None
    ) -> Future[bytes]:
        """Store one reply; the future returns the stored JSON once it is on disk.

        If the key has a reply already, that one stays and the future returns it, so that all processes
        show the same reply. The new reply becomes the next generation if the arguments below require it,
        or if it is live and the stored one was only recorded or promoted. Cancelling the future changes
        nothing: the reply is stored.

        Parameters
        ----------
        parts, reply
            The reply and the parts of its key. A reply whose `created` is 0 gets the present time.
        overwrite
            Append in any case (unless an equal reply is stored already).
        newer_than
            Append if the stored reply was received before this Unix time: for a refresh.

        Raises
        ------
        CacheError
            At once if the store is read-only; from the future if it could not be stored.
        """
        waiter: Future[bytes] = Future()
        self._writer.submit(
            Job(waiter, [row_of(parts, reply)], overwrite=overwrite, newer_than=newer_than, single=True)
        )
        return waiter

    def aput(self, parts: KeyParts, reply: Reply, *, newer_than: float | None = None) -> asyncio.Future[bytes]:
        """As `put`, to be awaited in the running loop; a whole commit wakes the loop once."""
        import asyncio

        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._writer.submit(Job(waiter, [row_of(parts, reply)], newer_than=newer_than, single=True))
        return waiter

    def put_many(
        self,
        rows: Iterable[tuple[KeyParts, Reply] | tuple[KeyParts, Reply, bytes]],
        *,
        overwrite: bool = False,
        newer_than: float | None = None,
    ) -> list[bytes]:
        """As `put` for many replies; returns the stored JSON in their order once all is on disk.

        The third value of a row marks the reply as promoted from the reply with this key.
        """
        self.check_writable()
        new_rows = (row_of(*row) for row in rows)
        stored: list[bytes] = []
        waiters: deque[Future[list[bytes]]] = deque()
        while portion := list[Row](islice(new_rows, _ROWS_PER_JOB)):
            waiters.append(Future())
            self._writer.submit(Job(waiters[-1], portion, overwrite=overwrite, newer_than=newer_than))
            if len(waiters) > _JOBS_AHEAD:
                stored += waiters.popleft().result()
        for waiter in waiters:
            stored += waiter.result()
        return stored

    def learn(self, service: str, model: str, name: str, value: Any) -> Future[list[bytes]]:
        """Store a fact about a service and model. `facts` returns it at once; the future resolves when it is stored."""
        waiter: Future[list[bytes]] = Future()
        fact = service, model, name, canonical_json(value).decode(), time.time()
        self._writer.submit(Job(waiter, fact=fact))
        self._learnt.setdefault((service, model), {})[name] = value
        return waiter

    async def claim(self, keys: Sequence[bytes], *, since: float | None) -> dict[bytes, bytes] | None:
        """Claim samples, so that no other process requests them too; None if another holds one of them.

        All that are asked for in one turn of the event loop are looked up together.

        Returns
        -------
        dict
            Which of them are stored by now (received since this Unix time), or in a batch: as `stored_or_asked`.
        """
        import asyncio

        loop = asyncio.get_running_loop()
        waiting = self._claiming.setdefault(loop, [])
        if not waiting:
            loop.call_soon(self._claim_all, waiting)
        claim = Asked(keys, since, loop.create_future())
        waiting.append(claim)
        try:
            return await claim.answer  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            if was_granted(claim.answer):
                self.claims.release(keys)
            raise

    def _claim_all(self, waiting: list[Asked]) -> None:
        """Claim what was asked for, as much of it as is free, and look up its stored replies all at once."""
        pending = [claim for claim in waiting if not claim.answer.done()]
        waiting.clear()
        grants: list[Asked] = []
        try:
            grants = self.claims.take_all(pending)
            stored_since = {
                since: self.stored_or_asked(
                    {key for claim in grants if claim.since == since for key in claim.keys}, since=since, recorded=False
                )
                for since in {claim.since for claim in grants}
            }
        # every error goes to those who wait: nothing else reports it
        except Exception as problem:  # noqa: BLE001
            self.claims.release([key for claim in grants for key in claim.keys])
            for claim in pending:
                claim.answer.set_exception(problem)
            return
        granted_ids = {id(claim) for claim in grants}
        for claim in pending:
            stored = stored_since.get(claim.since, {})
            values = {key: stored[key] for key in claim.keys if key in stored}
            claim.answer.set_result(values if id(claim) in granted_ids else None)

    def log_evaluation(self, evaluation: str, created: float, summary: str, settings: str) -> Future[list[bytes]]:
        """Append an evaluation to the log: its id (64 hexadecimal digits), Unix time, figures and settings (JSON).

        One whose id is in the log stays as it is. The future resolves once it is on disk.
        """
        waiter: Future[list[bytes]] = Future()
        self._writer.submit(Job(waiter, evaluation=(evaluation, created, summary, settings)))
        return waiter

    def abandon_after_fork(self) -> list[Any]:
        """Reset the store in the child; returns the parent's connections, which must not be used or closed here."""
        connections = self.database.abandon_after_fork()
        type(self).__init__(self, self.cache, read_only=self.read_only)  # type: ignore[arg-type]  # a server's has a str
        return connections

    def flush(self) -> None:
        """Wait until everything that was put so far is stored, or failed."""
        self._writer.flush()

    def close(self) -> None:
        """Finish writing, move SQLite's log into the file, and close it. A later use opens it again."""
        self._writer.close()
        self.claims.close()
        self.database.close()
