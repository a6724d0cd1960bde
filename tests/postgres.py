"""A PostgreSQL server of the tests' own: a fresh cluster on a free loopback port, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WAIT_S = 60.0


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


@contextmanager
def postgres_server() -> Iterator[str]:
    """URL of an empty database, ``postgresql://…``; the server is ended by its id."""
    folder = tools()
    assert folder is not None
    account = _account()
    with tempfile.TemporaryDirectory(prefix="evalkit-pg-") as scratch:
        if account:
            os.chown(scratch, account["user"], account["group"])
        data, port = Path(scratch, "data"), _free_port()
        settings = {"cwd": scratch, "env": {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, **account}
        subprocess.run(
            [folder / "initdb", "-D", data, "-U", "evalkit", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            check=True, capture_output=True, timeout=_WAIT_S, **settings,
        )  # fmt: skip
        options = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={scratch}", "-c", "fsync=off"]
        server = subprocess.Popen(
            [folder / "postgres", "-D", data, "-p", str(port), *options],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **settings,
        )  # fmt: skip
        try:
            _wait(port, server)
            yield f"postgresql://evalkit@127.0.0.1:{port}/postgres"
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


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
