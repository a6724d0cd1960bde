"""SQLite connections of one store: checked, pooled, opened again after a fork or if the file was replaced."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from evalkit.engine.cache import sqlite_schema as schema
from evalkit.errors import CacheError

_BUSY_S = 60.0
_CHECKPOINT_WAIT_MS = 200
_MMAP_BYTES = 1 << 28  # reading a million rows is no slower than with more, and takes less memory
_FORK_WAIT_S = 5.0
_KEYS_PER_QUERY = 900  # old SQLite builds take no more than 999 parameters
_LEAST_FREE_BYTES = 1 << 20

Identity = tuple[int, ...]
"""Device and inode of a file; if SQLite takes no locks, also its time of change, its size, and whether it has a log."""


class Connection(sqlite3.Connection):
    """A connection with what every database of a store offers: see `database_protocol.Connection`."""

    stream = sqlite3.Connection.execute
    clock: ClassVar[str] = "((julianday('now') - 2440587.5) * 86400.0)"
    # without an index of calls, those of a large store are not all looked through
    newest: ClassVar[str] = "rowid > (SELECT max(rowid) - 20000 FROM replies) ORDER BY rowid DESC"

    def rows_in(self, sql: str, keys: Sequence[bytes]) -> Iterator[Any]:
        """See `database_protocol.Connection`."""
        for start in range(0, len(keys), _KEYS_PER_QUERY):
            some = keys[start : start + _KEYS_PER_QUERY]
            yield from self.execute(sql.format(",".join("?" * len(some))), some)

    def most_replies(self) -> float:
        """See `database_protocol.Connection`."""
        return int(self.execute("SELECT max(rowid) FROM replies").fetchone()[0] or 0)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """See `database_protocol.Connection`."""
        names = ", ".join(f'"{name}"' for name in columns)
        marks, remaining = f"({', '.join('?' * len(columns))})", iter(rows)
        # many at once: for each row, `executemany` would let go of Python's lock, and wait until the loop lets go of it
        while portion := list(islice(remaining, _KEYS_PER_QUERY // len(columns))):
            places = ", ".join([marks] * len(portion))
            values = [*chain.from_iterable(portion)]
            self.execute(f"INSERT INTO {table} ({names}) VALUES {places}", values)  # noqa: S608  # our own names

    def schema(self, path: Path | None = None) -> int:
        """See `database_protocol.Connection`. The log counts too (the file's first bytes may be older).

        With `path`, CacheError if another evalkit, with another schema, has written the store there.
        """
        number: int = self.execute("PRAGMA user_version").fetchone()[0]
        if path is not None and number != schema.SCHEMA:
            raise CacheError(f"{path} {schema.other_form(number)}; it was left untouched")
        return number

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """See `database_protocol.Connection`."""
        if self.in_transaction:
            yield
            return
        self.execute("BEGIN")
        try:
            yield
        finally:
            self.execute("COMMIT")


@dataclass(slots=True, eq=False)
class Connections:
    """The connections of one process to one store file: a `database_protocol.Database`.

    Readers come from a pool. Nothing is opened, and the file is not created, before it is needed.

    Each use checks the file's identity: if a store was removed or replaced, the new file is opened, instead of
    writing into one that no longer has a name. Each use also checks the schema number: evalkit does not write to a
    store that a newer evalkit has written, and does not move its log into the file. SQLite would do that when the
    last connection that can write is closed.
    """

    path: Path
    read_only: bool
    _guard: AbstractContextManager[Any] = field(default_factory=threading.RLock)
    _seen: Identity | None = None
    _idle: list[Connection] = field(default_factory=list)
    _used: dict[int, Connection] = field(default_factory=dict)
    _writing: Connection | None = None
    _written: Identity | None = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection | None]:
        """A connection for reading; None while there is no file. SQLite's errors are raised as CacheError.

        The file is checked first.
        """
        with gate.using(self.path):
            with self._guard:
                identity = self.identity()
                if identity != self._seen:
                    identity = self._check_other_file(identity)
                connection = None
                if identity is not None:
                    connection = self._idle.pop() if self._idle else self._connect()
                    self._used[id(connection)] = connection
            if connection is None:
                yield None
                return
            try:
                try:
                    connection.schema(self.path)
                except CacheError:
                    self.close()  # so that nothing stays open, and the next use checks again
                    raise
                yield connection
            finally:
                with self._guard:
                    if self._used.pop(id(connection), None) is None:
                        pass  # taken before a fork: it belongs to the parent
                    elif identity == self._seen:
                        self._idle.append(connection)
                    else:
                        self.let_go(connection)

    @contextlib.contextmanager
    def writer(self) -> Iterator[Connection]:
        """A separate connection for maintenance; a missing file is created."""
        with gate.using(self.path):
            connection = self._open_writer()
            try:
                yield connection
            finally:
                self.let_go(connection)

    def end_writing(self) -> None:
        """Move the log into the file and close the connection of the writer thread."""
        if self._writing is not None:
            with gate.using(self.path):
                with contextlib.suppress(sqlite3.Error):  # the log stays and the next opening reads it
                    self.checkpoint(self._writing)
                self.let_go(self._writing)
                self._writing = None

    @contextlib.contextmanager
    def transaction(self, connection: Connection | None = None) -> Iterator[Any]:
        """One write transaction: committed whole or not at all, and never into the store of a newer evalkit."""
        with gate.using(self.path):
            if connection is None:
                if self._writing is not None and self._written != self.identity():
                    self.let_go(self._writing)
                    self._writing = None
                if self._writing is None:
                    self._writing, self._written = self._open_writer(), self.identity()
                connection = self._writing
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.schema(self.path)
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                # a full disk makes SQLite roll back by itself
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def n_bytes(self) -> int:
        """The size of the file and its log."""
        return sum(file.stat().st_size for file in (self.path, schema.log_of(self.path)) if file.exists())

    def compact(self) -> None:
        """Free the space of removed rows, as far as the disk and other processes allow."""
        with self.writer() as connection, contextlib.suppress(sqlite3.OperationalError):
            connection.schema(self.path)
            connection.execute("VACUUM")
            self.checkpoint(connection)

    @staticmethod
    def checkpoint(connection: Connection) -> None:
        """Move the log into the file, unless others are reading it or a newer evalkit has written it."""
        if connection.schema() > schema.SCHEMA:
            return
        connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _open_writer(self) -> Connection:
        """A new connection for writing."""
        self.make()
        connection = self._connect()
        for setting in ("mmap_size = 0", "synchronous = FULL", "fullfsync = ON"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def let_go(self, connection: Connection) -> None:
        """Close a connection; the log of a newer evalkit's store stays, as long as one that only reads is open."""
        newer = False
        with contextlib.suppress(sqlite3.Error):  # the file may be gone, or damaged
            newer = connection.schema() > schema.SCHEMA
        if not newer:
            connection.close()
            return
        with contextlib.closing(self._connect("mode=ro")) as reader:
            reader.schema()  # only now it holds its lock
            connection.close()

    def make(self) -> None:
        """Check the file and the space on its disk, and create a missing one; CacheError if it cannot be written."""
        if self.read_only:
            raise CacheError(
                f"reply store {self.path} is read-only, so replies could not be stored; set EVALKIT_CACHE to a "
                "folder that can be written, or use only stored replies (offline=True, --offline)"
            )
        with self.reading() as connection:
            if connection is None:
                schema.create(self.path)
        if connection is None:
            with self.reading():
                pass
        free = shutil.disk_usage(self.path.parent).free
        if free < _LEAST_FREE_BYTES:
            raise CacheError(
                f"the disk of reply store {self.path} is full ({free} bytes left), so replies could not be stored; "
                "free some space or set EVALKIT_CACHE to a folder elsewhere"
            )

    def identity(self) -> Identity | None:
        """Which file is at the path now; None if there is none."""
        try:
            file = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise schema.cache_error(self.path, problem) from problem
        # without write access SQLite cannot create the memory it shares with writers, and must not look for it
        if not self.read_only or os.access(self.path.parent, os.W_OK):
            return file.st_dev, file.st_ino
        return file.st_dev, file.st_ino, file.st_mtime_ns, file.st_size, schema.log_size(self.path) > 0

    def close(self) -> None:
        """Close idle connections; those in use are closed when they are given back."""
        with gate.using(self.path), self._guard:
            self._seen = None
            while self._idle:
                self.let_go(self._idle.pop())

    def _check_other_file(self, seen: Identity | None) -> Identity | None:
        """Check another file than before; its identity after that."""
        if self._seen is not None:
            self.close()
        if seen is None:
            return None
        schema.check_file(self.path)
        if schema.log_size(self.path):  # the number may be there alone, and a writer would move it into the file
            with contextlib.closing(self._connect("mode=ro")) as connection:
                connection.schema(self.path)
        with contextlib.closing(self._connect()) as connection, connection.snapshot():
            connection.schema(self.path)
            schema.check_objects(self.path, connection)
        self._seen = self.identity()
        return self._seen

    def _connect(self, mode: str = "") -> Connection:
        if not mode:
            mode = "mode=rw"
            if self.read_only:
                mode = (
                    "mode=ro" if os.access(self.path.parent, os.W_OK) or schema.log_size(self.path) else "immutable=1"
                )
        uri = f"file:{quote(os.fsencode(self.path))}?{mode}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, factory=Connection
        )
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute(f"PRAGMA mmap_size = {_MMAP_BYTES}")
        return connection

    def close_for_fork(self) -> None:
        """Close all connections, none of which may be in use; the next use opens one again."""
        with contextlib.suppress(sqlite3.Error, CacheError):
            for connection in (*self._idle, *([self._writing] if self._writing else [])):
                self.let_go(connection)
        self._idle, self._writing, self._seen = [], None, None

    def abandon_after_fork(self) -> list[Connection]:
        """In the child: forget the parent's connections; they must not be used or closed here."""
        inherited = [*self._idle, *self._used.values(), *([self._writing] if self._writing else [])]
        self._guard, self._seen = threading.RLock(), None
        self._idle, self._used, self._writing = [], {}, None
        return inherited


class _Gate:
    """Held around every use of SQLite, by any number of threads. A fork waits for them, and no other enters.

    A fork copies SQLite's mutexes as they are: one that another thread has locked at that moment stays
    locked in the child permanently (seen within seconds under load).
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}  # how often, by thread
        self._forking = False
        self.opening = threading.RLock()
        """The lock under which stores are opened."""

    @contextlib.contextmanager
    def using(self, path: Path) -> Iterator[None]:
        """Around every use of the store at `path`: a fork waits, and SQLite's errors become CacheError."""
        me = threading.get_ident()
        with self._changed:
            # a thread that is inside already must not wait for a fork that waits for it
            while self._forking and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1
        try:
            yield
        except sqlite3.Error as problem:
            raise schema.cache_error(path, problem) from problem
        finally:
            with self._changed:  # a forked child has a lock of its own, which no thread holds
                depth = self._inside.pop(me, 0) - 1
                if depth > 0:
                    self._inside[me] = depth
                elif self._forking:
                    self._changed.notify_all()

    def before_fork(self) -> bool:
        """Let no thread enter, and wait for those inside; whether none is inside now."""
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._forking)
            self._forking = True
            # with a limit: an export may take minutes, and the child may never need a reply
            self._changed.wait_for(lambda: not self._inside.keys() - {me}, timeout=_FORK_WAIT_S)
            return not self._inside

    def after_fork(self) -> None:
        with self._changed:
            self._forking = False
            self._changed.notify_all()


gate = _Gate()
stores: weakref.WeakSet[Any] = weakref.WeakSet()
"""The open stores: closed when the process ends, and reset in a forked child."""


@atexit.register
def _close_all() -> None:
    for store in list(stores):
        store.close()


def _close_before_fork() -> None:
    """Let the child inherit no connection: SQLite would take the parent's locks for the child's own, and take none."""
    if gate.before_fork():
        for store in list(stores):
            if isinstance(store.database, Connections):
                store.database.close_for_fork()


def _reset_in_child() -> None:
    gate.reset()
    inherited = [connection for store in list(stores) for connection in store.abandon_after_fork()]
    if not inherited:
        return
    import ctypes

    for connection in inherited:
        # SQLite forbids using or closing a connection across a fork: one reference too many keeps it open
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_close_before_fork, after_in_parent=gate.after_fork, after_in_child=_reset_in_child)
