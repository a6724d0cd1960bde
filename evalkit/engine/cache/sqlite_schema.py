"""The SQLite file: its tables, and how it is created, and checked before it is opened.

`docs/adr/0003-reply-store.md` says why it looks like this.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import sqlite3
import time
from pathlib import Path
from urllib.parse import quote

from evalkit.core.files import held
from evalkit.errors import CacheError

FILE_NAME = "replies.sqlite"
APPLICATION_ID = 0x45766B72
"""Marks the file as a reply store ("Evkr")."""
SCHEMA = 3
"""Number of the table form, kept in the file's `user_version`. (`KEY_SCHEMA` is that of the keys.)"""

_EVALUATIONS = """
CREATE TABLE evaluations (
    evaluation TEXT PRIMARY KEY CHECK (length(evaluation) = 64),
    created REAL NOT NULL,
    summary TEXT NOT NULL,
    settings TEXT NOT NULL
)"""
SHARED = (
    """
CREATE TABLE tickets (
    ticket TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('open', 'ended')),
    details TEXT NOT NULL,
    manifest TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
)""",
    """
CREATE TABLE ticket_keys (
    key BYTEA PRIMARY KEY CHECK (length(key) = 32),
    ticket TEXT NOT NULL REFERENCES tickets
)""",
)
"""Tables of both databases: `tickets` has the requests of batches, `ticket_keys` the reply keys that one
of them is asking for (see `batch_tickets`)."""

_PAGE_SIZE = 4096
_TABLES = f"""
CREATE TABLE calls (
    call_id INTEGER PRIMARY KEY,
    parts TEXT NOT NULL UNIQUE
);
CREATE TABLE replies (
    key BLOB NOT NULL CHECK (length(key) = 32),
    generation INTEGER NOT NULL CHECK (generation >= 0),
    call_id INTEGER NOT NULL REFERENCES calls,
    input_hash BLOB NOT NULL CHECK (length(input_hash) = 32),
    "order" TEXT,
    sample INTEGER NOT NULL CHECK (sample >= 0),
    content_key BLOB NOT NULL CHECK (length(content_key) = 32),
    created REAL NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('live', 'recorded', 'batch')),
    cost_usd REAL,
    promoted_from BLOB CHECK (length(promoted_from) = 32),
    value BLOB NOT NULL,
    PRIMARY KEY (key, generation)
);
CREATE INDEX replies_content ON replies (content_key);
CREATE TABLE facts (
    service TEXT NOT NULL,
    model TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    learned_at REAL NOT NULL,
    PRIMARY KEY (service, model, name)
) WITHOUT ROWID;
{_EVALUATIONS};
{";".join(SHARED).replace("BYTEA", "BLOB")};
"""
_HEADER_BYTES = 100
_NAMES = ("calls", "replies", "facts", "evaluations", "tickets", "ticket_keys")
_OBJECTS = {("index", "replies_content"), *(("table", name) for name in _NAMES)}
_UNUSED = {("table", "leases"), ("table", "rates")}
"""Empty tables that a store may have as well."""

_ELSEWHERE = "move it away or set EVALKIT_CACHE to another folder"
_WHAT_TO_DO = {
    sqlite3.SQLITE_FULL: "the disk is full and these replies were not stored; free some space and run again",
    sqlite3.SQLITE_IOERR: "the disk is full or faulty and these replies were not stored; check it and run again",
    sqlite3.SQLITE_BUSY: "another process kept it locked for a minute; end that process or wait, then run again",
    sqlite3.SQLITE_LOCKED: "another process kept it locked for a minute; end that process or wait, then run again",
    sqlite3.SQLITE_READONLY: "it cannot be written; set another EVALKIT_CACHE, or pass offline=True (--offline)",
    sqlite3.SQLITE_CANTOPEN: "check the folder's permissions; after a crash, SQLite must write there once",
    sqlite3.SQLITE_PERM: "check the folder's permissions, or set EVALKIT_CACHE to another folder",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away and import an export, or set EVALKIT_CACHE to another folder",
    sqlite3.SQLITE_NOTADB: "it is damaged; move it away and import an export, or set EVALKIT_CACHE to another folder",
}


def cache_error(path: Path, problem: sqlite3.Error | OSError) -> CacheError:
    """The error of the store at `path`, with advice."""
    if isinstance(problem, sqlite3.Error):
        code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
        advice = _WHAT_TO_DO.get(code, "the file was left as it is")
    else:
        advice = "check the disk and the folder's permissions, or set EVALKIT_CACHE to another folder"
    return CacheError(f"reply store {path}: {problem}; {advice}")


def check_file(path: Path) -> None:
    """Check the store at `path` by the file alone, without its log.

    SQLite may write to a file when it opens it, so it opens this one as immutable. Python must not open the file: as
    it closes it again, this process would lose all its locks on the file, also those of other connections.
    A newer number may be in the log alone: see `Connections`.

    Raises
    ------
    CacheError
        If the file is foreign, truncated or was written by a newer evalkit.
    """
    for attempt in range(3):
        try:
            size = path.stat().st_size
            application, schema, is_short = _header_of(path, size)
        except (OSError, sqlite3.Error) as problem:
            if getattr(problem, "sqlite_errorcode", None) != sqlite3.SQLITE_NOTADB:
                raise cache_error(path, problem) from problem
            problem_text = f"is not a SQLite file: {_ELSEWHERE}"
        else:
            if application != APPLICATION_ID:
                problem_text = f"is a SQLite file of another program (application id {application:#x}): {_ELSEWHERE}"
            elif schema > SCHEMA:
                problem_text = other_form(schema)
            # with a log beside it a shorter file is right: its end may still be in the log
            elif size < _HEADER_BYTES or (is_short and not log_size(path)):
                problem_text = f"is truncated to {size} bytes: restore it, or move it away and import an export"
            else:
                return
        # another process may be moving its log into the file at this moment
        if attempt < 2:
            time.sleep(0.05)
    raise CacheError(f"{path} {problem_text}; it was left untouched")


def _header_of(path: Path, size: int) -> tuple[int, int, bool]:
    """Application id, schema number, and whether the file of this size is shorter than it says itself."""
    uri = f"file:{quote(os.fsencode(path))}?mode=ro&immutable=1"
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        is_short = False
        try:
            connection.execute("PRAGMA user_version")
        except sqlite3.DatabaseError as problem:
            if problem.sqlite_errorcode != sqlite3.SQLITE_CORRUPT:
                raise
            is_short = True
            connection.execute("PRAGMA writable_schema = ON")  # it says its numbers nevertheless
        if size < _HEADER_BYTES:
            return APPLICATION_ID, 0, True
        names = ("application_id", "user_version", "page_count", "page_size")
        application, schema, pages, page_size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    return application, schema, is_short or size < pages * page_size


def log_of(path: Path) -> Path:
    """SQLite's write-ahead log beside a store."""
    return path.with_name(f"{path.name}-wal")


def log_size(path: Path) -> int:
    """Bytes in the log of a store; 0 if it has no log."""
    try:
        return log_of(path).stat().st_size
    except OSError:
        return 0


def other_form(schema: int) -> str:
    """What is wrong with a store of another schema, in words."""
    if schema > SCHEMA:
        newer = f"file format {schema}, this one reads up to {SCHEMA}"
        return f"was written by a newer evalkit ({newer}): upgrade evalkit, or {_ELSEWHERE}"
    return f"was written by an older evalkit (file format {schema}, now {SCHEMA}): use that evalkit, or {_ELSEWHERE}"


def check_objects(path: Path, connection: sqlite3.Connection) -> None:
    """Reject a file with more than evalkit's tables: a trigger in it would run at every write."""
    objects = {
        (kind, name)
        for kind, name in connection.execute("SELECT type, name FROM sqlite_master")
        if not name.startswith("sqlite_")
    }
    for kind, name in sorted((objects ^ _OBJECTS) - (objects & _UNUSED)):
        state = "holds" if (kind, name) in objects else "lacks"
        raise CacheError(
            f"{path} {state} the {kind} {name!r}, so it was not written by evalkit and was left unchanged; {_ELSEWHERE}"
        )


def create(path: Path) -> None:
    """Create an empty store at `path`; if another process was faster, its store stays.

    It is built under another name and then linked, so that no process ever sees half a file.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    folder, log = path.parent, log_of(path)
    try:
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # replies may be private: a folder that evalkit made is not committed by accident
            with contextlib.suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="utf-8") as file:
                file.write("# made by evalkit: share replies with `evalkit cache export`\n*\n")
        # in this order: another process makes its log only after the file
        if log.exists() and not path.exists():
            raise CacheError(
                f"{log} exists, but the file {path.name} that it belongs to is missing; restore that file, or remove "
                "the log"
            )
        fresh.touch(0o600, exist_ok=False)  # SQLite gives its log the permissions of the file
        with contextlib.closing(sqlite3.connect(fresh, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # it is on disk before it has its name: see below
            connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            connection.execute("PRAGMA journal_mode = WAL")
        with fresh.open("rb+") as file:
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            place(fresh, path)
    except (sqlite3.Error, OSError) as problem:
        raise cache_error(path, problem) from problem
    finally:
        for end in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                fresh.with_name(f"{fresh.name}{end}").unlink()


def place(fresh: Path, path: Path) -> None:
    """Give a complete file its final name; FileExistsError if another process was faster."""
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        raise
    except OSError:  # no hard links here (FAT, some shares)
        with held(path.parent):
            # a rename would replace a file that another process just made, and what was written into it since (not on
            # Windows)
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
            fresh.rename(path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
