"""Atomic writes, locks on files and folders, and a check for network file systems."""

from __future__ import annotations

import os
import re
import secrets
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from evalkit.errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# fmt: off
_NETWORK = {
    "9p", "acfs", "afpfs", "afs", "beegfs", "blobfuse", "blobfuse2", "ceph", "cifs", "coda", "curlftpfs", "davfs",
    "davfs2", "gcsfuse", "gfs", "gfs2", "glusterfs", "goofys", "gpfs", "hdfs", "juicefs", "lizardfs", "lustre", "mfs",
    "moosefs", "mount-s3", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "rclone", "s3fs",
    "seaweedfs", "smb", "smb2", "smb3", "smbfs", "smbnetfs", "sshfs", "webdav",
}
# fmt: on


BOM = b"\xef\xbb\xbf"
"""The mark that some editors and programs put before UTF-8 text; it is no part of the text."""


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
    if _is_stream(given):
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


def _is_stream(path: Path) -> bool:
    """Whether this is a device or a pipe."""
    return path.exists() and not path.is_dir() and (not path.is_file() or path.parts[:2] == ("/", "dev"))


def check_writable(path: str | Path) -> None:
    """Check that `whole` can write a file, before anything is paid: the nearest folder that there is takes one.

    Permissions would not tell: root has all of them, also on a read-only disk or in ``/proc``.

    Raises
    ------
    InputError
        When it cannot be written.
    """
    try:
        if not _is_stream(Path(path)):
            folders = Path(os.path.realpath(path)).parents
            tempfile.TemporaryFile(dir=next(folder for folder in folders if folder.exists())).close()
    except OSError as problem:
        raise InputError(f"{path} cannot be written: {(problem.strerror or str(problem)).lower()}") from None


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
    try:
        there = os.open(path, os.O_RDWR)  # NFS locks only what may be written
    except OSError:  # a folder, or a file of others
        there = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(there, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing would not: a process forked meanwhile has it open, too
            fcntl.flock(there, fcntl.LOCK_UN)
        os.close(there)


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """The network file system that contains `path`, as ``"nfs4 at /home"``; None for a local one.

    SQLite's write-ahead log needs memory that all processes share. Network file systems do not offer it: two hosts
    would silently damage the store.

    Parameters
    ----------
    path
        A file or folder; it need not exist yet.
    mounts
        The mount table in the form of ``/proc/mounts``; read from there if None (and empty where
        the system has none).

    Examples
    --------
    >>> network_file_system(Path("/home/ann/cache"), "server:/x /home nfs4 rw 0 0")
    'nfs4 at /home'
    """
    if mounts is None:
        if str(path).startswith(("\\\\", "//")) and sys.platform == "win32":
            return f"a network share at {path.anchor}"
        table = Path("/proc/self/mounts")
        mounts = table.read_text(encoding="utf-8", errors="surrogateescape") if table.is_file() else ""
    where = path.resolve()
    best: tuple[int, str, Path] | None = None
    for line in mounts.splitlines():
        _, point, kind, *_ = [*line.split(), "", "", ""]
        folder = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), point))
        # ≥: of two mounts on one folder the later one hides the earlier
        if point and where.is_relative_to(folder) and (best is None or len(folder.parts) >= best[0]):
            best = len(folder.parts), kind, folder
    if best is None or best[1].lower().removeprefix("fuse.") not in _NETWORK:
        return None
    return f"{best[1]} at {best[2]}"
