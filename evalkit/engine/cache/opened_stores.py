"""`open_store`: the reply store in a folder, or on a server.

It is above the stores of both kinds, of which each is opened once in a process.
"""

from __future__ import annotations

import os
from pathlib import Path

from evalkit.core.files import network_file_system
from evalkit.core.settings import default_cache
from evalkit.engine.cache.sqlite_connections import gate
from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.engine.cache.store import ReplyStore
from evalkit.errors import CacheError

_open: dict[tuple[Path, bool], ReplyStore] = {}


def open_store(cache: Path | str | None = None, *, read_only: bool = False) -> ReplyStore:
    """The store of a folder or server: one shared object in each process, so that opening again is cheap.

    Nothing is created before the first write.

    Parameters
    ----------
    cache
        The cache folder, or the address of a PostgreSQL database (``postgresql://user@host:port/database``);
        `default_cache()` if None.
    read_only
        Never write. A folder that cannot be written gives a read-only store in any case.

    Raises
    ------
    CacheError
        If the file there is foreign, truncated, damaged or of a newer evalkit, or if the folder is on
        a network file system; or if the server cannot be reached. Nothing is changed.
    """
    cache = default_cache() if cache is None else cache
    if isinstance(cache, str) and "://" in cache:
        from evalkit.engine.cache.server_store import open_server  # only now: the driver is an extra

        return open_server(cache, read_only)
    folder = Path(cache).expanduser().resolve()
    path = folder / FILE_NAME
    with gate.opening:
        existing = (path, folder) if path.exists() else (next(parent for parent in path.parents if parent.exists()),)
        writable = not read_only and existing[-1].is_dir() and all(os.access(entry, os.W_OK) for entry in existing)
        store = _open.get((folder, read_only))
        # a folder whose permissions were corrected is to be writable without a new process
        if store is None or store.read_only == writable:
            if folder.exists() and not folder.is_dir():
                raise CacheError(f"cache folder {folder} is a file; set EVALKIT_CACHE to a folder")
            network = network_file_system(folder)
            if network is not None:
                raise CacheError(
                    f"cache folder {folder} is on a network file system ({network}), where SQLite's log does not "
                    "work and replies could be lost; set EVALKIT_CACHE to a local folder, or to the address of a "
                    "PostgreSQL database, which machines can share"
                )
            store = ReplyStore(folder, read_only=not writable)
            with store.database.reading():  # checks the file, if there is one
                _open[folder, read_only] = store
    return store


ReplyStore.open = staticmethod(open_store)
