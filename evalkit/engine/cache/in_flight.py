"""Calls in flight: `InFlight` for the callers of one process, `Claims` for other processes.

A second caller with the same key waits for the first one's call instead of paying as well.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from evalkit.engine.cache.sqlite_schema import FILE_NAME as STORE_NAME

try:
    import fcntl
except ImportError:  # Windows: processes there do not see each other's claims
    fcntl = None  # type: ignore[assignment]

FILE_NAME = "claims.lock"
_log = logging.getLogger("evalkit.engine.cache")


class _Future(Protocol):
    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


F = TypeVar("F", bound=_Future)


@dataclass(slots=True, eq=False)
class InFlight(Generic[F]):
    """The calls in flight of one event loop, or of all threads: key -> future of the outcome.

    `new_future` makes a future. Threads may join at once: only single operations on a dict are used.
    """

    new_future: Callable[[], F]
    _open: dict[Hashable, F] = field(default_factory=dict)

    def join(self, key: Hashable) -> tuple[F, bool]:
        """The future of a key, and whether the caller started the call and has to `resolve` it."""
        future = self._open.get(key)
        if future is not None:
            return future, False
        new = self.new_future()
        future = self._open.setdefault(key, new)
        return future, future is new

    def resolve(self, key: Hashable, outcome: object = None, *, error: BaseException | None = None) -> None:
        """End the call of a key: all waiting callers get its outcome, or the error."""
        future = self._open.pop(key, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)

    def clear(self) -> None:
        """Forget all calls: after a fork they belong to the parent."""
        self._open.clear()


class Asked(NamedTuple):
    """Keys to claim together.

    `answer` is resolved with those of their replies that are stored already and were received since `since` (Unix
    time), or with None if another call, here or in another process, holds one of the keys.
    """

    keys: Sequence[bytes]
    since: float | None
    answer: Any


def was_granted(answer: Any) -> bool:
    """Whether the answer came, and keys are claimed by it: a caller that was cancelled has to release them."""
    return answer.done() and not answer.cancelled() and answer.exception() is None and answer.result() is not None


@dataclass(slots=True, eq=False)
class Claims:
    """Claims on reply keys, held by one process and seen by all on the machine.

    A claim is a lock on one byte of an empty file, at an offset made of the key: it takes a few microseconds, writes
    nothing, and the operating system drops it when the process ends, even by ``kill -9``. Two keys that share an
    offset (one chance in 2^62) would only wait for each other. If the file cannot be locked, every claim is granted.
    """

    folder: Path
    _file: int | None = None
    _held: dict[bytes, int] = field(default_factory=dict)  # key -> offset of its lock
    _works: bool = fcntl is not None

    def take(self, keys: Iterable[bytes]) -> bool:
        """Claim all of these keys, or none; False if another call, here or in another process, holds one of them."""
        return bool(self.take_all([Asked(tuple(keys), None, None)]))

    def take_all(self, asked: Sequence[Asked]) -> list[Asked]:
        """As `take` for what several calls ask for: those that were granted."""
        self._open()
        granted = []
        for claim in asked:
            locked_keys: list[bytes] = []
            for key in claim.keys:
                offset = int.from_bytes(key[:8]) >> 2
                if key in self._held or not self._lock(offset):
                    self.release(locked_keys)
                    break
                self._held[key] = offset
                locked_keys.append(key)
            else:
                granted.append(claim)
        return granted

    def release(self, keys: Iterable[bytes]) -> None:
        """Release claimed keys."""
        for key in keys:
            offset = self._held.pop(key, None)
            if offset is not None and self._file is not None and self._works:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, offset)

    def _lock(self, offset: int) -> bool:
        if self._works and self._file is not None:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
            except (BlockingIOError, PermissionError):  # held: POSIX leaves the choice between the two
                return False
            except OSError as problem:
                self._give_up(problem)
        return True

    def _open(self) -> None:
        """Open the file, or another one: a folder that was removed and made again has another file."""
        if not self._works:
            return
        path = self.folder / FILE_NAME
        try:
            current = None
            with contextlib.suppress(OSError):
                current = path.stat()
            if self._file is not None and (current is None or not os.path.samestat(os.fstat(self._file), current)):
                self.close()
            if self._file is None:
                mode = 0o600  # that of the store beside it: whoever may read replies may see who requests them
                with contextlib.suppress(OSError):
                    mode = path.with_name(STORE_NAME).stat().st_mode & 0o666
                self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        except OSError as problem:
            self._give_up(problem)

    def _give_up(self, problem: OSError) -> None:
        self._works = False
        path = self.folder / FILE_NAME
        _log.info("%s cannot be locked (%s): two processes may request the same sample", path, problem)

    def close(self) -> None:
        """Release every claim and close the file."""
        file, self._file = self._file, None
        self._held.clear()
        if file is not None:
            os.close(file)
