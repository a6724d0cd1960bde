"""Claims: which samples this process is requesting, so that other processes wait instead of paying as well."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from evalkit.engine.cache.sqlite_schema import FILE_NAME as STORE_NAME

try:
    import fcntl
except ImportError:  # Windows: processes there do not see each other's claims
    fcntl = None  # type: ignore[assignment]

FILE_NAME = "claims.lock"
_log = logging.getLogger("evalkit.engine.cache")


class Claims:
    """Claims on reply keys, held by one process and seen by all on the machine.

    A claim is a lock on one byte of an empty file, at an offset made of the key: it takes a few microseconds, writes
    nothing, and the operating system drops it when the process ends, even by ``kill -9``. Two keys that share an
    offset (one chance in 2^62) would only wait for each other. If the file cannot be locked, every claim is granted.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._file: int | None = None
        self._held: set[bytes] = set()
        self._works = fcntl is not None

    def take(self, keys: Iterable[bytes]) -> bool:
        """Claim all of these keys, or none; False if another call, here or in another process, holds one of them."""
        taken: list[bytes] = []
        for key in keys:
            if key in self._held or not self._lock(key):
                self.release(taken)
                return False
            self._held.add(key)
            taken.append(key)
        return True

    def release(self, keys: Iterable[bytes]) -> None:
        """Release claimed keys."""
        for key in keys:
            if key in self._held:
                self._held.discard(key)
                if self._file is not None and self._works:
                    with contextlib.suppress(OSError):
                        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _offset(key))

    def _lock(self, key: bytes) -> bool:
        if not self._works:
            return True
        try:
            file = self._open()
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(key))
            except (BlockingIOError, PermissionError):  # held: POSIX leaves the choice between the two
                return False
        except OSError as problem:
            self._works = False
            _log.info("%s cannot be locked (%s): two processes may request the same sample", self._path, problem)
        return True

    def _open(self) -> int:
        """The file that is at the path now: a folder that was removed and created again has another one."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                ours, current = os.fstat(self._file), self._path.stat()
                if (ours.st_dev, ours.st_ino) == (current.st_dev, current.st_ino):
                    return self._file
            self.close()
        mode = 0o600  # that of the store beside it: whoever may read replies may see who requests them
        with contextlib.suppress(OSError):
            mode = self._path.with_name(STORE_NAME).stat().st_mode & 0o666
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
        return self._file

    def close(self) -> None:
        """Release every claim and close the file."""
        file, self._file = self._file, None
        self._held.clear()
        if file is not None:
            os.close(file)


def _offset(key: bytes) -> int:
    return int.from_bytes(key[:8]) >> 2
