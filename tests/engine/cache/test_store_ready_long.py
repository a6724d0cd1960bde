"""A store is ready before anything is paid, and says when its server is away: `writer`, `postgres`, `server_store`."""

from __future__ import annotations

import contextlib
import logging
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from cache_setup import parts, reply
from postgres import fresh_database
from servers import JudgeServer, Listener, judge_server

import evalkit as ek
from evalkit.engine.cache import ReplyStore, database_protocol, postgres
from evalkit.engine.cache.server_store import ServerStore
from evalkit.errors import CacheError

KEYS = [parts(at).key for at in range(3)]
ITEMS = [{"item_id": str(at), "question": f"q{at}", "answer": "4", "reference": "4"} for at in range(6)]


@pytest.fixture
def address(postgres_url: str, tmp_path: Path) -> Iterator[str]:
    made = fresh_database(postgres_url, tmp_path.name)
    ReplyStore.open(made).put(parts(0), reply()).result()
    yield made
    ReplyStore.open(made).close()


def role(address: str, name: str, *statements: str) -> str:
    """A user who may read; the address with it."""
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"DROP ROLE IF EXISTS {name}")
        admin.execute(f"CREATE ROLE {name} LOGIN")
        admin.execute(f"GRANT USAGE ON SCHEMA evalkit TO {name}")
        admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA evalkit TO {name}")
        for statement in statements:
            admin.execute(statement.format(name))
    return address.replace("evalkit@", f"{name}@")


WRITES = ("GRANT INSERT ON ALL TABLES IN SCHEMA evalkit TO {}", "GRANT UPDATE ON evalkit.facts TO {}")
ROLES: dict[str, tuple[tuple[str, ...], str]] = {
    "reads": ((), "permission denied.*SELECT and INSERT"),
    "inserts_only": (WRITES[:1], "permission denied for table facts"),
    "lacks_calls": ((*WRITES, "REVOKE INSERT ON evalkit.calls FROM {}"), "permission denied for table calls"),
    "lacks_replies": ((*WRITES, "REVOKE INSERT ON evalkit.replies FROM {}"), "permission denied for table replies"),
    "read_only": ((*WRITES, "ALTER ROLE {} SET default_transaction_read_only = on"), "read-only transaction"),
    "row_security": ((*WRITES, "ALTER TABLE evalkit.replies ENABLE ROW LEVEL SECURITY"), "row-level security"),
}


@pytest.mark.parametrize("name", ROLES)
def test_a_role_that_cannot_write_pays_nothing(address: str, name: str, server: JudgeServer) -> None:
    statements, said = ROLES[name]
    theirs = role(address, f"evalkit_{name}", *statements)
    store = ServerStore(theirs, read_only=False)
    for _ in range(2):
        with pytest.raises(CacheError, match=said):
            store.check_writable()
    with pytest.raises(CacheError, match=said):
        judged(server, theirs)
    assert len(server.seen) == 0
    store.close()
    ReplyStore.open(theirs).close()
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("ALTER TABLE evalkit.replies DISABLE ROW LEVEL SECURITY")
        admin.execute(f"DROP OWNED BY evalkit_{name}")
        admin.execute(f"DROP ROLE evalkit_{name}")


def test_a_role_that_can_write_leaves_no_trace_of_the_trial(address: str) -> None:
    theirs = role(address, "evalkit_writes", *WRITES)
    store = ServerStore(theirs, read_only=False)
    store.check_writable()
    with psycopg.connect(address) as admin:
        counts = [admin.execute(f"SELECT count(*) FROM evalkit.{name}").fetchone() for name in
                  ("calls", "replies", "facts", "evaluations")]  # fmt: skip
    assert counts == [(1,), (1,), (0,), (0,)]
    store.put(parts(1), reply()).result()
    store.close()
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute("DROP OWNED BY evalkit_writes")
        admin.execute("DROP ROLE evalkit_writes")


GOOD = {"content": '{"explanation": "x", "score": 1}'}


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with judge_server(always=GOOD) as running:
        yield running


def judged(server: JudgeServer, cache: Any, items: Any = ITEMS, **options: Any) -> Any:
    judge = ek.Judge("openai", "m", base_url=server.url, timeout_s=20)
    return ek.judge(items, "correctness", judge, samples=1, cache=cache, progress=False, **options)


FEW_FILES = """
import resource, sys
sys.path.insert(0, sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[4]),) * 2)
import evalkit as ek
items = [{"item_id": str(at), "question": f"q{at}", "answer": "4", "reference": "4"} for at in range(150)]
judge = ek.Judge("openai", "m", base_url=sys.argv[2], timeout_s=20)
table = ek.judge(items, "correctness", judge, samples=1, cache=sys.argv[3], progress=False, concurrency=150)
print(table["score"].notna().sum())
"""


@pytest.mark.parametrize("limit", [80, 128])
def test_few_file_handles_lose_nothing(tmp_path: Path, limit: int) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > limit
    with judge_server(always=GOOD | {"delay": 0.2}) as server:
        words = [sys.executable, "-c", FEW_FILES, str(Path.cwd()), server.url, str(tmp_path), str(limit)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert (done.stdout.strip(), len(server.seen)) == ("150", 150), done.stderr[-500:]


@pytest.mark.parametrize("cached", [False, True])
def test_without_a_thread_for_the_writer_nothing_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool, server: JudgeServer
) -> None:
    if cached:
        judged(server, tmp_path, ITEMS[:1])
        ReplyStore.open(tmp_path).close()
    n_paid, start = len(server.seen), threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "evalkit-cache-writer":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(CacheError, match=r"cannot be started .*raise the limit of processes"):
                judged(server, tmp_path)
    assert len(server.seen) == n_paid
    assert judged(server, tmp_path)["score"].notna().all()


class Proxy(Listener):
    """Passes bytes between clients and a server until it is silent: then it takes all and answers nothing."""

    def __init__(self, port: int) -> None:
        self.silent, self._port = threading.Event(), port
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        server = socket.create_connection(("127.0.0.1", self._port))
        for one, other in ((connection, server), (server, connection)):
            threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while content := one.recv(1 << 16):
                if not self.silent.is_set():
                    other.sendall(content)
        except OSError:
            pass
        finally:
            one.close()
            with contextlib.suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)


def test_a_silent_partition_is_said_and_waited_for(
    address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(postgres, "_SILENT_S", 0.5)
    monkeypatch.setattr(postgres, "_CONNECT_S", 2)
    monkeypatch.setattr(database_protocol, "_PATIENCE_S", 5.0)
    host, _, port = address.rpartition("@")[2].partition("/")[0].partition(":")
    with Proxy(int(port)) as proxy:
        theirs = address.replace(f"{host}:{port}", f"{host}:{proxy.port}")
        store = ServerStore(theirs, read_only=False)
        assert len(store.get_many(KEYS)) == 1
        stored = store.put(parts(1), reply())
        stored.result()
        proxy.silent.set()
        with (
            caplog.at_level(logging.WARNING, "evalkit.engine.cache"),
            pytest.raises(CacheError, match="check that the server"),
        ):
            store.get_many(KEYS)
        assert "has not answered for 0.5 s" in caplog.text
        assert len([one for one in caplog.records if one.name == "evalkit.engine.cache"]) == 1, "one line a minute"
        proxy.silent.clear()
        assert len(store.get_many(KEYS)) == 2
        store.close()


def test_a_slow_answer_is_no_partition(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_SILENT_S", 0.2)
    store = ServerStore(address, read_only=False)
    with store.database.reading() as connection:
        assert connection.execute("SELECT 5 FROM pg_sleep(1)").fetchone() == (5,)
    store.close()


def test_a_store_that_is_away_says_so_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("evalkit.engine.cache.database_protocol.time", clock)
    say = database_protocol.SometimesSaid()
    with caplog.at_level(logging.WARNING, "evalkit.engine.cache"):
        for second in range(150):
            now[0] = 100.0 + second
            say("%s is away", "it")
    assert len(caplog.records) == 3, "at 0, 60 and 120 s"


def test_a_store_can_be_printed_before_it_is_open() -> None:
    for kind in (ReplyStore, ServerStore):
        assert repr(kind.__new__(kind)).startswith("ReplyStore(")
    assert "s3cret" not in repr(ServerStore("postgresql://ann:s3cret@127.0.0.1:1/x", read_only=True))
