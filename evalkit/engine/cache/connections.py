"""SQLite connections of one store: checked, pooled, opened again after a fork or if the file was replaced."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from evalkit.engine.cache import sqlite_schema as schema
from evalkit.engine.cache.forks import at_work
from evalkit.errors import CacheError

__all__ = ["Connections"]

_BUSY_S = 60.0
_CHECKPOINT_WAIT_MS = 200
_MMAP_BYTES = 1 << 28  # reading a million rows is no slower than with more, and takes less memory


class _Seen(NamedTuple):
    """Which file was seen at the path; the later fields count where SQLite takes no locks."""

    device: int
    inode: int
    changed_ns: int = 0
    size: int = 0
    has_log: bool = False


class Connections:
    """The connections of one process to one store file.

    Readers come from a pool; nothing is opened, nor the file made, before it is needed. The file's
    identity is looked at for every use: a store that was removed or replaced is opened
    again, instead of writing into a file that has no name any more. So is its schema number: a store that a
    newer evalkit has written is neither written to nor is its log moved into it, which SQLite does when the
    last connection that can write is closed.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._start()

    def _start(self) -> None:
        self._guard = threading.RLock()
        self._seen: _Seen | None = None
        self._idle: list[sqlite3.Connection] = []
        self._used: dict[int, sqlite3.Connection] = {}

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection to read with; None while there is no file. SQLite's errors are raised as CacheError."""
        with self.using():
            taken = self._take()
            if taken is None:
                yield None
                return
            connection, seen = taken
            try:
                self._refuse_newer(connection)
                yield connection
            finally:
                self._give_back(connection, seen)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own inside one write transaction, for upkeep; the file is made if it is missing."""
        with self.writer() as connection, schema.transaction(self.path, connection):
            yield connection

    @contextlib.contextmanager
    def writer(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own to write with; the file is made if it is missing."""
        with self.using():
            connection, _ = self.open_writer()
            try:
                yield connection
            finally:
                self.let_go(connection)

    def compact(self) -> None:
        """Give the space of removed rows back, as far as the disk and other processes allow."""
        with self.writer() as connection, contextlib.suppress(sqlite3.OperationalError):
            schema.refuse_newer(self.path, connection)
            connection.execute("VACUUM")
            self.checkpoint(connection)

    @contextlib.contextmanager
    def using(self) -> Iterator[None]:
        """Around every use of SQLite: it prevents a fork, and turns errors into CacheError."""
        try:
            with at_work():
                yield
        except sqlite3.Error as problem:
            raise schema.cache_error(self.path, problem) from problem

    @staticmethod
    def checkpoint(connection: sqlite3.Connection) -> None:
        """Move the log into the file, unless others read it just now or a newer evalkit has written it."""
        if schema.schema_of(connection) > schema.SCHEMA:
            return
        connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def open_writer(self) -> tuple[sqlite3.Connection, object]:
        """A new connection to write with, and the identity of its file (compare with `identity()`)."""
        with self.using():
            self.make()
            connection = self._connect()
            connection.execute("PRAGMA mmap_size = 0")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            return connection, self.identity()

    def let_go(self, connection: sqlite3.Connection) -> None:
        """Close a connection; the log of a newer evalkit's store stays, as long as one that only reads is open."""
        newer = False
        with contextlib.suppress(sqlite3.Error):  # the file may be gone, or damaged
            newer = schema.schema_of(connection) > schema.SCHEMA
        if not newer:
            connection.close()
            return
        with contextlib.closing(self._connect("mode=ro")) as reader:
            schema.schema_of(reader)  # only now it holds its lock
            connection.close()

    def check(self) -> None:
        """Look whether the file, if there is one, is a store that can be used; an older one is migrated."""
        with self.reading():
            pass

    def make(self) -> None:
        """As `check`; a missing file is made."""
        self.check()
        if self.identity() is None:
            with self.using():
                schema.create(self.path)
            self.check()

    def identity(self) -> _Seen | None:
        """Which file lies at the path now; None if none."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise schema.cache_error(self.path, problem) from problem
        if self._locks():
            return _Seen(found.st_dev, found.st_ino)
        return _Seen(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, self._log_size() > 0)

    def close(self) -> None:
        """Close what is idle; connections in use are closed when they are given back."""
        with self.using(), self._guard:
            self._seen = None
            self._close_idle()

    def _take(self) -> tuple[sqlite3.Connection, _Seen] | None:
        with self._guard:
            seen = self._look()
            if seen is None:
                return None
            connection = self._idle.pop() if self._idle else self._connect()
            self._used[id(connection)] = connection
            return connection, seen

    def _give_back(self, connection: sqlite3.Connection, seen: _Seen) -> None:
        with self._guard:
            if self._used.pop(id(connection), None) is None:
                return  # taken before a fork: it is the parent's
            if seen == self._seen:
                self._idle.append(connection)
            else:
                self.let_go(connection)

    def _look(self) -> _Seen | None:
        seen = self.identity()
        if seen == self._seen:
            return seen
        self._seen = None
        self._close_idle()
        if seen is not None:
            self._check(schema.check_file(self.path))
            self._seen = seen = self.identity()
        return seen

    def _check(self, found: int) -> None:
        if self.read_only and found < schema.SCHEMA:
            raise CacheError(
                f"{self.path} is of schema {found} and this evalkit reads {schema.SCHEMA}: "
                "open it once where it can be written, so that it is migrated"
            )
        if self._log_size():  # the number may stand there alone, and who may write would move it into the file
            with contextlib.closing(self._connect("mode=ro")) as connection:
                schema.refuse_newer(self.path, connection)
        with contextlib.closing(self._connect()) as connection:
            if not self.read_only and schema.schema_of(connection) < schema.SCHEMA:
                schema.migrate(self.path, connection)
            schema.check_objects(self.path, connection)

    def _refuse_newer(self, connection: sqlite3.Connection) -> None:
        try:
            schema.refuse_newer(self.path, connection)
        except CacheError:
            with self._guard:  # so that nothing stays open, and the next use looks again
                self._seen = None
                self._close_idle()
            raise

    def _connect(self, mode: str | None = None) -> sqlite3.Connection:
        place = f"file:{quote(os.fsencode(self.path))}?{mode or self._mode()}"
        connection = sqlite3.connect(place, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
        return connection

    def _mode(self) -> str:
        if not self.read_only:
            return "mode=rw"
        return "mode=ro" if self._locks() or self._log_size() else "immutable=1"

    def _locks(self) -> bool:
        # without write access SQLite cannot make the memory it shares with writers, and must not look for it
        return not self.read_only or os.access(self.path.parent, os.W_OK)

    def _log_size(self) -> int:
        try:
            return schema.log_of(self.path).stat().st_size
        except OSError:
            return 0

    def _close_idle(self) -> None:
        while self._idle:
            self.let_go(self._idle.pop())

    def abandon_after_fork(self) -> list[sqlite3.Connection]:
        """In the child: forget the parent's connections; they must never be used nor closed here."""
        inherited = [*self._idle, *self._used.values()]
        self._start()
        return inherited
