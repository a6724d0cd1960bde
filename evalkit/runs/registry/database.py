"""The registry's database: SQLite in the cache folder by default, or PostgreSQL, and its schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from evalkit.core.files import network_file_system
from evalkit.core.settings import Settings, default_folder
from evalkit.errors import ConfigError, MissingExtraError, RegistryError, advise_extra
from evalkit.errors.secrets import is_key
from evalkit.runs.registry.database_tables import Base

FILE_NAME = "registry.sqlite"
_BUSY_S = 30.0
# Two processes create the tables on PostgreSQL one after the other; the number is arbitrary
_ADVISORY_LOCK = 0x65_76_61_6C
SCHEMA = "0002"
"""The schema, that of `database_tables`."""


def registry_settings(address: str | Path | None = None) -> Settings:
    """`registry` (a URL or the path of a file) and `runs` (a folder), each with its source.

    Examples
    --------
    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, EVALKIT_REGISTRY="postgresql://somebody@db.example.org/evalkit"):
    ...     settings = registry_settings()
    >>> settings["registry"], settings.source("registry")
    ('postgresql://somebody@db.example.org/evalkit', 'EVALKIT_REGISTRY')
    """
    cache = default_folder()
    return Settings.of(
        ("argument", {"registry": None if address is None else str(address)}),
        ("EVALKIT_REGISTRY", {"registry": os.environ.get("EVALKIT_REGISTRY", "").strip() or None}),
        ("default", {"registry": str(cache / FILE_NAME), "runs": cache / "runs"}),
    )


class Database:
    """One database, which is opened at first use; a new one gets its tables then.

    Attributes
    ----------
    shown
        Its address without the password.
    """

    def __init__(self, url: str) -> None:
        self._url = _url_of(url)
        hidden = {name: "***" for name in self._url.query if is_key(name)}
        self.shown = self._url.update_query_dict(hidden).render_as_string(hide_password=True)
        self._engine: Engine | None = None

    @property
    def url(self) -> str:
        """Its address with the password, for another process that opens it; never show it."""
        return str(self._url.render_as_string(hide_password=False))

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file on this machine."""
        return str(self._url.get_backend_name()) == "sqlite"

    @property
    def is_read_only(self) -> bool:
        """Whether it is a file that is readable but not writable, or whose folder is not writable."""
        if not self.is_sqlite:
            return False
        path = Path(str(self._url.database))
        return path.is_file() and not all(os.access(place, os.W_OK) for place in (path, path.parent))

    @contextlib.contextmanager
    def session(self) -> Iterator[Session]:
        """One transaction: committed at the end, rolled back after an error. SQL errors are raised as RegistryError."""
        with self._errors():
            engine = self._opened()
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session

    def close(self) -> None:
        """Close the connections; a later use opens them again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def _opened(self) -> Engine:
        opened = self._engine
        if opened is None:
            engine = self._made()
            try:
                read_only = self.is_read_only
                _create_tables(engine, self.shown)
                if self.is_sqlite and not read_only:
                    _keep_readers_going(engine)
            except BaseException:
                engine.dispose()
                raise
            opened = self._engine = self._engine or engine
            if opened is not engine:  # another thread was faster
                engine.dispose()
        return opened

    def _made(self) -> Engine:
        if not self.is_sqlite:
            try:
                return create_engine(self._url, pool_pre_ping=True, connect_args={"connect_timeout": 10})
            except ModuleNotFoundError:
                raise MissingExtraError(
                    f"a registry on PostgreSQL needs an optional package; {advise_extra('registry,postgres')}"
                ) from None
        path = Path(str(self._url.database))
        if (network := network_file_system(path.parent)) is not None:
            raise ConfigError(
                f"registry {path} is on a network file system ({network}), where SQLite's locks do not work; set "
                "EVALKIT_REGISTRY to a local file or to a PostgreSQL URL"
            )
        if self.is_read_only:
            engine = create_engine(self._url, poolclass=NullPool, creator=lambda: _connect_read_only(path))
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            engine = create_engine(self._url, poolclass=NullPool, connect_args={"timeout": _BUSY_S})
            event.listen(engine, "begin", _begin_immediate)
        event.listen(engine, "connect", _set_up_sqlite)
        return engine

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as problem:
            message = " ".join(str(getattr(problem, "orig", None) or problem).split())[:300]
            if self.is_read_only and "readonly" in message:
                message = "it is read-only here; use another one, or run this where its file and folder are writable"
            raise RegistryError(f"registry {self.shown}: {message}") from problem
        except (OSError, UnicodeError) as problem:
            raise RegistryError(f"registry {self.shown}: {problem}") from problem


def _url_of(address: str) -> URL:
    if "://" not in address:
        return _sqlite(address)
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise ConfigError("the registry's address is not a URL: write postgresql://user@host/database") from None
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise ConfigError("a registry in memory would be lost; use the path of a file")
        return _sqlite(url.database)
    if url.drivername not in ("postgres", "postgresql", "postgresql+psycopg"):
        raise ConfigError(
            f"a registry cannot be on {url.drivername!r}; allowed: a file's path, sqlite:///… and postgresql://…"
        )
    return _password_in_place(url.set(drivername="postgresql+psycopg"))


def _sqlite(path: str) -> URL:
    return URL.create("sqlite+pysqlite", database=str(Path(path).expanduser().absolute()))


def _password_in_place(url: URL) -> URL:
    """Move a password out of the query (libpq takes ``?password=…`` as well), so that it is hidden when shown."""
    if (given := url.query.get("password")) is None:
        return url
    return url.set(password=given if isinstance(given, str) else given[-1]).difference_update_query(["password"])


def _set_up_sqlite(connection: Any, _: Any) -> None:
    # the driver's own BEGIN comes too late for reads and is not IMMEDIATE: the listener begins transactions
    connection.isolation_level = None
    for pragma in ("foreign_keys = ON", "synchronous = FULL"):
        connection.execute(f"PRAGMA {pragma}")


def _keep_readers_going(engine: Engine) -> None:
    """Switch to a write-ahead log. The file keeps this setting, so it must be known as evalkit's."""
    connection = engine.raw_connection()
    # locked: another process uses the file; the next one that opens it switches
    with contextlib.closing(connection), contextlib.suppress(sqlite3.OperationalError):
        connection.cursor().execute("PRAGMA journal_mode = WAL")


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Open the file read-only; without a write-ahead log next to it, its folder may be read-only as well."""
    log = path.with_name(f"{path.name}-wal")
    is_alone = not (log.is_file() and log.stat().st_size)
    alone = "&immutable=1" if is_alone and not os.access(path.parent, os.W_OK) else ""
    return sqlite3.connect(f"{path.as_uri()}?mode=ro{alone}", uri=True, timeout=_BUSY_S)


def _begin_immediate(connection: Connection) -> None:
    # a transaction that first reads and then writes would fail as "locked" instead of waiting
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _create_tables(engine: Engine, shown: str) -> None:
    """Create the tables of a new database, or check the schema, in one transaction; processes wait for each other."""
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _ADVISORY_LOCK})
        tables = inspect(connection).get_table_names()
        if "alembic_version" in tables:
            schema = connection.scalar(text("SELECT version_num FROM alembic_version"))
            if schema != SCHEMA:
                raise RegistryError(
                    f"registry {shown} has the schema {schema!r}, which this evalkit does not know (it knows "
                    f"{SCHEMA!r}); use the evalkit that wrote it"
                )
            return
        if tables:
            raise RegistryError(f"registry {shown} contains tables of another program; use another database or file")
        Base.metadata.create_all(connection)
        # the table's name is that of registries that exist
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
        connection.execute(text("INSERT INTO alembic_version VALUES (:schema)"), {"schema": SCHEMA})
