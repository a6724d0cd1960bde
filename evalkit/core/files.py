"""Atomic writes, and locks on files and folders."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from evalkit.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole(path: str | Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Write a temporary file and rename it at the end: after an error or crash the old file is unchanged.

    Parameters
    ----------
    path
        The file to write or replace; a link stays a link. A device or pipe (``/dev/stdout``) is written to directly.
    mode
        Permissions of a new file; a file that is replaced keeps its own.

    Raises
    ------
    OSError
        If the file cannot be written; it is then unchanged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with whole(f"{folder}/a") as out:
    ...         _ = out.write(b"30 days")
    ...     Path(folder, "a").read_text(), len(list(Path(folder).iterdir()))
    ('30 days', 1)
    """
    given, place = Path(path), Path(os.path.realpath(path))
    if given.exists() and not given.is_dir() and (not given.is_file() or given.parts[:2] == ("/", "dev")):
        with given.open("wb") as out:
            yield out
        return
    scratch = place.with_name(f".{place.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with scratch.open("xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if place.is_file() or mode is not None:
            scratch.chmod(place.stat().st_mode & 0o777 if place.is_file() else mode or 0)
        scratch.replace(place)
    finally:
        with suppress(OSError):  # what is raised is the fault; a scratch file that cannot be removed is none
            scratch.unlink(missing_ok=True)


def write_whole(path: str | Path, chunks: Iterable[bytes], *, mode: int | None = None) -> None:
    """Write chunks of bytes atomically, as `whole` does.

    Raises
    ------
    InputError
        When it cannot be written.
    """
    try:
        with whole(path, mode=mode) as out:
            out.writelines(chunks)
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {(problem.strerror or str(problem)).lower()}") from None


@contextmanager
def held(path: str | Path) -> Iterator[None]:
    """Lock a file or folder; other processes and threads that lock it wait.

    On systems without file locks (Windows, some network shares), nothing is locked and no process waits. The file may
    have been replaced during the wait: open it after locking.

    Raises
    ------
    OSError
        When it cannot be opened.
    """
    if fcntl is None:
        yield
        return
    there = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(there, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing would not: a process forked meanwhile has it open, too
            fcntl.flock(there, fcntl.LOCK_UN)
        os.close(there)
