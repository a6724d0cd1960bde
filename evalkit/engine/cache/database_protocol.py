"""What a `ReplyStore` needs of its database. `sqlite_connections` has it for SQLite, `postgres` for PostgreSQL.

The statements are those that both understand, with ``?`` or ``:name`` for values.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, ClassVar, ParamSpec, Protocol, TypeVar

from evalkit.errors import CacheError

_log = logging.getLogger("evalkit.engine.cache")

REPLIES = (
    "key", "generation", "call_id", "input_hash", "order", "sample", "content_key", "created", "source", "cost_usd",
    "promoted_from", "value",
)  # fmt: skip
"""The columns of the table `replies`."""


P = ParamSpec("P")
T = TypeVar("T")
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 1.0
_PATIENCE_S = 300.0
_BETWEEN_LINES_S = 60.0


class SometimesSaid:
    """Warnings of one subject, such as a server that is away, which many threads meet: one line a minute."""

    def __init__(self) -> None:
        self._guard, self._next = threading.Lock(), float("-inf")

    def __call__(self, text: str, *values: object) -> None:
        """Log a line, unless one was logged within the last minute."""
        with self._guard:
            now = time.monotonic()
            if now < self._next:
                return
            self._next = now + _BETWEEN_LINES_S
        _log.warning(text, *values)


class LostConnectionError(CacheError):
    """The server cannot be reached, or ended the connection: what was asked may be tried again.

    `was_reached`: this process has used the store before.
    """

    was_reached = False


class ConflictError(CacheError):
    """Another process wrote the same rows at the same time: the transaction may be tried again."""


def waiting_for_server(read: Callable[P, T]) -> Callable[P, T]:
    """A function that reads: while a server that was reached before is away, it is tried again, for five minutes."""

    @wraps(read)
    def patient(*arguments: P.args, **options: P.kwargs) -> T:
        start, wait = time.monotonic(), FIRST_WAIT_S
        while True:
            try:
                return read(*arguments, **options)
            except LostConnectionError as problem:
                if not problem.was_reached or time.monotonic() - start > _PATIENCE_S:
                    raise
                if wait >= LONGEST_WAIT_S:
                    store: Any = arguments[0]
                    store.database.say("%s; waiting for it", problem)
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_S)

    return patient


class Connection(Protocol):
    """One connection, used by one thread at a time.

    Attributes
    ----------
    clock
        SQL for the present Unix time, by the clock that all processes on this database share.
    newest
        SQL for the end of a query of replies: the newest first, and perhaps not the oldest.
    """

    clock: ClassVar[str]
    newest: ClassVar[str]

    def execute(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = (), /) -> Any:
        """A cursor: rows to iterate over or to fetch, and `rowcount`."""

    def stream(self, sql: str, parameters: Sequence[Any] = (), /) -> Iterator[Any]:
        """The rows of a query that may be larger than memory."""

    def rows_in(self, sql: str, keys: Sequence[bytes], /) -> Iterator[Any]:
        """The rows of a query with ``IN ({})``, for any number of keys."""

    def most_replies(self) -> float:
        """About how many replies there are, or more."""

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], /) -> None:
        """Add many rows to a table."""

    def schema(self) -> int:
        """The number of the tables' form."""

    def snapshot(self) -> AbstractContextManager[None]:
        """A read transaction: all reads inside see the same state of the store."""


class Database(Protocol):
    """One database: connections to it that are checked, opened when they are needed, and opened again if lost.

    Attributes
    ----------
    read_only
        Whether nothing can be written.
    """

    read_only: bool

    def make(self) -> None:
        """Check the database, and create what is missing; CacheError if it is read-only."""

    def reading(self) -> AbstractContextManager[Connection | None]:
        """A connection for reading; None while there is no store."""

    def writer(self) -> AbstractContextManager[Connection]:
        """A separate connection for maintenance, closed at the end; a missing store is created."""

    def transaction(self, connection: Any = None, /) -> AbstractContextManager[Any]:
        """One write transaction of such a connection, or of the writer thread's own: whole or not at all."""

    def end_writing(self) -> None:
        """Close the connection of the writer thread."""

    def compact(self) -> None:
        """Free the space of removed rows, as far as possible."""

    def n_bytes(self) -> int:
        """The size of the store."""

    def close(self) -> None:
        """Close idle connections; a later use opens them again."""

    def abandon_after_fork(self) -> list[Any]:
        """In a forked child: forget the parent's connections, and return them, so that they stay open there."""
