"""`ReplyStore`: raw replies by key, in one SQLite file that many threads and processes share.

One class, the whole of what may be done with the file; how each of it is done lies in the modules beside.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.core.folders import default_folder, network_file_system
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts, canonical_json
from evalkit.engine.cache import maintenance as upkeep
from evalkit.engine.cache.connections import Connections, gate, stores
from evalkit.engine.cache.counters import Counters
from evalkit.engine.cache.lookups import Lookups
from evalkit.engine.cache.process_claims import Claims
from evalkit.engine.cache.rows import Row, row_of
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.cache.writer import Job, Writer
from evalkit.errors import CacheError, counted

if TYPE_CHECKING:
    from evalkit.engine.cache.jsonl import ImportReport

_ROWS_PER_JOB = 1000
_JOBS_AHEAD = 4
_LEAST_FREE_BYTES = 1 << 20

_open: dict[tuple[Path, bool], ReplyStore] = {}


class ReplyStore(Lookups):
    """Raw replies of judges by reply key, kept permanently; `ReplyStore.open` returns one.

    A key has generations: a refresh appends one, the newest counts, and nothing is removed but by
    `prune` or `clear`. Writing goes through one thread that commits in groups, and a reply counts as
    stored once it is on disk. One object serves all threads; other processes may use the same
    file at the same time; a forked child and a pickled copy open it again.

    Attributes
    ----------
    folder, path
        The cache folder and the file in it.
    read_only
        Whether nothing can be written: asked for, or the folder does not allow it.
    counters
        What happened in this process: `Counters`.
    claims
        Which samples are being asked for just now, by whichever process: `Claims`.

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

    def __init__(self, folder: Path, *, read_only: bool) -> None:
        self.folder = folder
        self.path = folder / FILE_NAME
        self.read_only = read_only or not _can_write(self.path)
        self.counters = Counters()
        self.claims = Claims(folder)
        self._connections = Connections(self.path, read_only=self.read_only)
        self._writer = Writer(self._connections, self.counters)
        self._learnt = {}
        stores.add(self)

    @classmethod
    def open(cls, cache: Path | str | None = None, *, read_only: bool = False) -> ReplyStore:
        """The store of a folder: one shared object in each process, so that opening again is cheap.

        Nothing is made on disk before the first write.

        Parameters
        ----------
        cache
            The cache folder; `default_folder()` if None.
        read_only
            Never write. A folder that cannot be written gives a read-only store in any case.

        Raises
        ------
        CacheError
            If the file there is foreign, truncated, damaged or of a newer evalkit, or would lie on a
            network file system. The file is left untouched.
        """
        folder = (default_folder() if cache is None else Path(cache).expanduser()).resolve()
        with gate.opening:
            store = _open.get((folder, read_only))
            # a folder whose permissions were corrected is to be writable without a new process
            if store is None or store.read_only != (read_only or not _can_write(store.path)):
                if folder.exists() and not folder.is_dir():
                    raise CacheError(f"cache folder {folder} is a file; set EVALKIT_CACHE to a folder")
                network = network_file_system(folder)
                if network is not None:
                    raise CacheError(
                        f"cache folder {folder} is on a network file system ({network}), where SQLite's log does not "
                        "work and replies could be lost; set EVALKIT_CACHE to a local folder, and transfer replies by "
                        "export and import"
                    )
                store = cls(folder, read_only=read_only)
                with store._connections.reading():  # checks the file, if there is one
                    _open[folder, read_only] = store
        return store

    def __repr__(self) -> str:
        return f"ReplyStore({str(self.folder)!r}{', read-only' if self.read_only else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self.folder), self.read_only)

    def put(
        self, parts: KeyParts, reply: Reply, *, overwrite: bool = False, newer_than: float | None = None
    ) -> Future[bytes]:
        """Store one reply; the future gives the JSON that is stored once it is on disk.

        Where the key has a reply already, that one stays and is what the future gives, so that all
        processes show one truth. The new reply becomes the next generation if it is asked for below,
        or if it is live and the stored one was only recorded or promoted. A cancelled future changes
        nothing: the reply is stored.

        Parameters
        ----------
        parts, reply
            The reply and what its key is made of. A reply whose `created` is 0 gets the present time.
        overwrite
            Append in any case (unless the very same is stored already).
        newer_than
            Append if the stored reply was received before this Unix time: for a refresh.

        Raises
        ------
        CacheError
            At once if the store is read-only; from the future if it could not be stored.
        """
        waiter: Future[bytes] = Future()
        self._submit(Job(waiter, [row_of(parts, reply)], overwrite=overwrite, newer_than=newer_than, single=True))
        return waiter

    def aput(
        self, parts: KeyParts, reply: Reply, *, overwrite: bool = False, newer_than: float | None = None
    ) -> asyncio.Future[bytes]:
        """As `put`, to be awaited in the running loop; a whole commit wakes the loop once."""
        waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._submit(Job(waiter, [row_of(parts, reply)], overwrite=overwrite, newer_than=newer_than, single=True))
        return waiter

    def put_many(
        self, rows: Iterable[tuple[KeyParts, Reply]], *, overwrite: bool = False, newer_than: float | None = None
    ) -> list[bytes]:
        """As `put` for many replies; returns the stored JSON in their order once all is on disk."""
        self.check_writable()
        made = (row_of(parts, reply) for parts, reply in rows)
        stored: list[bytes] = []
        waiters: deque[Future[list[bytes]]] = deque()
        while portion := list[Row](islice(made, _ROWS_PER_JOB)):
            waiters.append(Future())
            self._submit(Job(waiters[-1], portion, overwrite=overwrite, newer_than=newer_than))
            if len(waiters) > _JOBS_AHEAD:
                stored += waiters.popleft().result()
        for waiter in waiters:
            stored += waiter.result()
        return stored

    def _submit(self, job: Job) -> None:
        if self.read_only:
            self.check_writable()
        self._writer.submit(job)

    def check_writable(self) -> None:
        """Raise CacheError now, before anything is paid, if a reply could not be stored. Makes the file."""
        if self.read_only:
            raise CacheError(
                f"reply store {self.path} is read-only, so replies could not be kept: set EVALKIT_CACHE to a folder "
                "that can be written, or judge offline"
            )
        self._connections.make()
        free = shutil.disk_usage(self.folder).free
        if free < _LEAST_FREE_BYTES:
            raise CacheError(
                f"the disk of reply store {self.path} is full ({free} bytes left), so replies could not be kept: "
                "free some space or set EVALKIT_CACHE to a folder elsewhere"
            )

    def learn(self, service: str, model: str, name: str, value: Any) -> Future[list[bytes]]:
        """Remember something of a service and model; `facts` shows it at once, the future says when it is on disk."""
        waiter: Future[list[bytes]] = Future()
        self._submit(Job(waiter, fact=(service, model, name, canonical_json(value).decode(), time.time())))
        self._learnt.setdefault((service, model), {})[name] = value
        return waiter

    def stats(self) -> upkeep.Stats:
        """What is stored, and what this process did with it (`session`). Reads the whole store."""
        with self._connections.reading() as connection:
            return upkeep.stats(connection, self.path, self.counters.as_dict())

    def export(
        self,
        path: Path | str,
        *,
        rubric: str | None = None,
        model: str | None = None,
        source: str | None = None,
        keys: Collection[bytes] | None = None,
    ) -> int:
        """Write replies, all generations, to a JSONL file, sorted by key: the same replies, the same bytes.

        Parameters
        ----------
        path
            The file; replaced whole, at the end.
        rubric
            ``id`` or ``id@version``.
        model
            ``model`` or ``provider:model``.
        source
            ``live`` or ``recorded``.
        keys
            These alone.

        Returns
        -------
        int
            The number of lines.
        """
        from evalkit.engine.cache import (
            jsonl as transfer,  # only now: its checks take as long to build as half of the package
        )

        self._writer.flush()
        with self._connections.reading() as connection:
            chosen = upkeep.Chosen(rubric=rubric, model=model, source=source, keys=keys)
            return transfer.export(connection, Path(path), chosen)

    def import_(self, path: Path | str) -> ImportReport:
        """Read a file that `export` wrote; all of it or, after an error, nothing.

        Nothing in the file is trusted: each line is checked and its key is computed again. What is stored
        already is skipped, so that importing twice changes nothing; where the store holds another
        reply in a line's place, the store's stays and no generation of that key is taken over.

        Raises
        ------
        CacheError
            If a line is truncated, malformed or does not match its key; the message names it.
        """
        from evalkit.engine.cache import jsonl as transfer

        self.check_writable()
        return transfer.import_(self._connections, Path(path))

    def promote(self, rubric_id: str, from_version: str, to_version: str, rubric_hashes: Collection[str]) -> int:
        """Write the newest replies to unchanged criteria under another rubric version, marked `promoted_from`.

        Parameters
        ----------
        rubric_id, from_version, to_version
            Of which rubric, from where to where.
        rubric_hashes
            Hashes of the criteria that are the same in both versions; others are not promoted.

        Returns
        -------
        int
            The number of replies written; keys that are stored already are left alone.
        """
        self.check_writable()
        self._writer.flush()
        with self._connections.writing() as connection:
            return upkeep.promote(connection, rubric_id, from_version, to_version, rubric_hashes)

    def prune(
        self,
        *,
        older_than: float | None = None,
        rubric: str | None = None,
        model: str | None = None,
        keep_generations: int | None = None,
        apply: bool = False,
        export_to: Path | str | None = None,
    ) -> upkeep.PruneReport:
        """Remove replies that meet all conditions; a dry run unless `apply`, and exported before.

        Parameters
        ----------
        older_than
            Received before this Unix time.
        rubric, model
            As in `export`.
        keep_generations
            Not among the newest so many of their key (1 or more).
        apply
            Really remove.
        export_to
            Where what is removed is written first; must not exist. ``pruned-<time>.jsonl`` in the cache
            folder if None.

        Raises
        ------
        CacheError
            If no condition is given, or the export cannot be written: then nothing is removed.
        """
        chosen = upkeep.Chosen(rubric=rubric, model=model, older_than=older_than, keep_generations=keep_generations)
        if chosen == upkeep.Chosen():
            raise CacheError(
                "prune needs a condition (older_than, rubric, model or keep_generations); clear() removes everything"
            )
        return self._remove(chosen, apply=apply, export_to=export_to)

    def clear(self, *, confirm: str | None = None) -> upkeep.PruneReport:
        """Remove every reply, exported before; only if `confirm` says how many, as the error's text names it.

        Raises
        ------
        CacheError
            If `confirm` is not ``"delete N replies"`` with the present number.
        """
        found = self._remove(upkeep.Chosen(), apply=False, export_to=None)
        expected = f"delete {found.n_replies} replies"
        if confirm != expected:
            raise CacheError(
                f"this would remove all {counted(found.n_replies, 'reply', 'replies')} of {self.path}, which cost US$ "
                f"{found.cost_usd:.2f}; "
                f"nothing was removed. To do it: clear(confirm={expected!r}); to remove some: prune()"
            )
        return self._remove(upkeep.Chosen(), apply=True, export_to=None)

    def _remove(self, chosen: upkeep.Chosen, *, apply: bool, export_to: Path | str | None) -> upkeep.PruneReport:
        if not apply:
            self._writer.flush()
            with self._connections.reading() as connection:
                return upkeep.tally(connection, chosen)
        self.check_writable()
        self._writer.flush()
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        from evalkit.engine.cache import jsonl as transfer

        target = Path(export_to) if export_to else self.folder / f"pruned-{moment}.jsonl"
        return transfer.remove(self._connections, chosen, target)

    def abandon_after_fork(self) -> list[sqlite3.Connection]:
        """Reset the store in the child; returns the parent's connections, which must never be used nor closed here."""
        connections = self._connections.abandon_after_fork()
        if self._writer.connection is not None:
            connections.append(self._writer.connection)
        self.counters, self.claims = Counters(), Claims(self.folder)
        self._writer = Writer(self._connections, self.counters)
        return connections

    def close(self) -> None:
        """Finish writing, move SQLite's log into the file, let the file go. A later use opens it again."""
        self._connections.close()
        self._writer.close()
        self.claims.close()


def _can_write(path: Path) -> bool:
    if path.exists():
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    existing = next(folder for folder in path.parents if folder.exists())
    return existing.is_dir() and os.access(existing, os.W_OK)


def _reopened(folder: str, read_only: bool) -> ReplyStore:
    return ReplyStore.open(Path(folder), read_only=read_only)
