"""A PostgreSQL server of the tests' own: a fresh cluster on a free loopback port, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WAIT_S = 300.0


def tools() -> Path | None:
    """The folder with initdb and postgres, or None."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return Path(found).parent if found else None


def _account() -> dict[str, int]:
    """PostgreSQL refuses to run as root: then it runs as its own user, or as nobody."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": entry.pw_uid, "group": entry.pw_gid}
    return {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PostgresServer:
    """A cluster in a folder; its server can be stopped and started again on the same port."""

    def __init__(self, folder: Path, scratch: str) -> None:
        account = _account()
        if account:
            os.chown(scratch, account["user"], account["group"])
        self._data, self._port = Path(scratch, "data"), _free_port()
        self._program = folder / "postgres"
        self._settings = {"cwd": scratch, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, **account}
        self._server: subprocess.Popen[bytes] | None = None
        words = ["-U", "evalkit", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
        subprocess.run(
            [folder / "initdb", "-D", self._data, *words],
            check=True, capture_output=True, timeout=_WAIT_S, **self._settings,
        )  # fmt: skip
        self.url = f"postgresql://evalkit@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        folder = self._settings["cwd"]
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
        self._server = subprocess.Popen(
            [self._program, "-D", self._data, "-p", str(self._port), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._settings,
        )  # fmt: skip
        _wait(self._port, self._server)

    def stop(self) -> None:
        """End the server now, and with it all connections; its data stay."""
        self._end(signal.SIGINT)  # PostgreSQL's fast shutdown: it does not wait for clients

    def end(self) -> None:
        """End the server whose data nobody needs: its immediate shutdown writes nothing."""
        self._end(signal.SIGQUIT)

    def _end(self, number: int) -> None:
        if self._server is None:
            return
        self._server.send_signal(number)
        try:
            self._server.wait(20)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._server = None


@contextmanager
def stoppable_server() -> Iterator[PostgresServer]:
    """A running server that the test may stop and start; ended by its id."""
    folder = tools()
    assert folder is not None
    with tempfile.TemporaryDirectory(prefix="evalkit-pg-") as scratch:
        server = PostgresServer(folder, scratch)
        try:
            server.start()
            yield server
        finally:
            server.end()


@contextmanager
def postgres_server() -> Iterator[str]:
    """URL of an empty database, ``postgresql://…``; the server is ended by its id."""
    with stoppable_server() as server:
        yield server.url


@contextmanager
def pooler(url: str, mode: str) -> Iterator[str]:
    """The address of a PgBouncer before the server; ended by its id."""
    port, server = _free_port(), url.split(":")[-1].split("/")[0]
    with tempfile.TemporaryDirectory(prefix="evalkit-pg-") as scratch:
        settings = Path(scratch, "pgbouncer.ini")
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server} user=evalkit\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
            f"listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
        )
        account = _account()
        if account:
            for path in (scratch, settings):
                os.chown(path, account["user"], account["group"])
        process = subprocess.Popen(
            [str(shutil.which("pgbouncer")), str(settings)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=scratch, **account,
        )  # fmt: skip
        try:
            _wait(port, process)
            yield f"postgresql://evalkit@127.0.0.1:{port}/postgres"
        finally:
            process.kill()
            process.wait()


def fresh_database(base: str, name: str) -> str:
    """A new database on a PostgreSQL server; its URL."""
    import psycopg

    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')  # type: ignore[arg-type]
    return f"{base.rsplit('/', 1)[0]}/{name}"


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    import psycopg

    deadline = time.monotonic() + _WAIT_S
    while True:
        assert server.poll() is None, "the server did not start"
        try:
            psycopg.connect(f"host=127.0.0.1 port={port} user=evalkit dbname=postgres", connect_timeout=5).close()
        except psycopg.OperationalError:
            assert time.monotonic() < deadline, "the server does not answer"
            time.sleep(0.1)
        else:
            return
