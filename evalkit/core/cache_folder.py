"""The default folder of the reply store, and a check for network file systems, which cannot contain it."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

# fmt: off
_NETWORK = {
    "9p", "acfs", "afpfs", "afs", "beegfs", "blobfuse", "blobfuse2", "ceph", "cifs", "coda", "curlftpfs", "davfs",
    "davfs2", "gcsfuse", "gfs", "gfs2", "glusterfs", "goofys", "gpfs", "hdfs", "juicefs", "lizardfs", "lustre", "mfs",
    "moosefs", "mount-s3", "ncp", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "rclone", "s3fs",
    "seaweedfs", "smb", "smb2", "smb3", "smbfs", "smbnetfs", "sshfs", "webdav",
}
# fmt: on


def default_folder(start: Path | None = None) -> Path:
    """The folder of the reply store if no other is given.

    `EVALKIT_CACHE` if it is set; else ``cache/`` beside the nearest ``pyproject.toml`` upwards from
    `start` (the working folder), so that all notebooks of a project share one; else the user's cache
    folder. Nothing is created.

    Parameters
    ----------
    start
        Where the search begins; the working folder if None.

    Returns
    -------
    Path
        An absolute path.

    Examples
    --------
    >>> import os, tempfile
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, EVALKIT_CACHE="~/replies"):
    ...     default_folder().name
    'replies'
    """
    named = os.environ.get("EVALKIT_CACHE", "").strip()
    if named:
        return Path(named).expanduser().absolute()
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file():
            return folder / "cache"
    return _user_folder()


def _user_folder() -> Path:
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "evalkit" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evalkit"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "evalkit"


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
