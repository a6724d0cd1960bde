"""A store on PostgreSQL: what a lost server, a wrong address, other machines and too many claims do to it."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cache_setup import parts, python, ran, reply
from postgres import PostgresServer, fresh_database, pooler, stoppable_server, tools

import evalkit as ek
from evalkit.cli.main_command import main
from evalkit.engine.cache import ReplyStore, postgres
from evalkit.engine.cache import server_store as store_module
from evalkit.engine.cache.server_store import ServerStore
from evalkit.errors import CacheError

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(tools() is None, reason="no PostgreSQL on this machine")

KEYS = [parts(number).key for number in range(300)]


@pytest.fixture
def address(postgres_url: str, tmp_path: Path) -> str:
    return fresh_database(postgres_url, tmp_path.name)


@pytest.fixture
def store(address: str) -> Iterator[ReplyStore]:
    store = ReplyStore.open(address)
    yield store
    store.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server that may be stopped."""
    with stoppable_server() as server:
        yield server
        for (cache, _), store in list(store_module._open.items()):
            if cache == server.url:
                store.close()


def until(condition: object, what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


# --- a server that goes away and comes back


def test_what_was_answered_while_the_server_was_away_is_kept_here_and_written_later(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    store = ReplyStore.open(server.url)
    store.put(parts(0), reply()).result()
    server.stop()
    waiters = [store.put(parts(number), reply(str(number))) for number in range(1, 300)]
    kept = store._local_store
    until(lambda: len(kept.get_many(KEYS)) == 299, "kept on this machine")
    assert not any(waiter.done() for waiter in waiters), "stored means stored there"
    server.start()
    assert len([waiter.result(60) for waiter in waiters]) == 299
    assert len(store.get_many(KEYS)) == 300
    assert kept.get_many(KEYS) == {}
    assert f"postgresql://evalkit@127.0.0.1:{server.url.split(':')[-1]} cannot store" in caplog.text


def test_a_process_that_ends_before_the_server_is_back_leaves_its_replies_to_the_next(server: PostgresServer) -> None:
    store = ReplyStore.open(server.url)
    store.put(parts(0), reply("old", created=10.0)).result()
    server.stop()
    waiters = [store.put(parts(1), reply("late")), store.put(parts(0), reply("refreshed", 20.0), newer_than=15.0)]
    logged = store.log_evaluation("e" * 64, 30.0, "{}", "{}")
    local = store._local_store
    until(lambda: len(local.get_many(KEYS)) == 2 and local.evaluations(), "kept on this machine")
    store.close()
    for waiter in (*waiters, logged):
        with pytest.raises(CacheError, match="the replies are kept on this machine, and the next process"):
            waiter.result()
    server.start()
    store_module._open.clear()
    store = ReplyStore.open(server.url)
    found = store.get_many(KEYS)
    assert [b"late" in found[KEYS[1]], b"refreshed" in found[KEYS[0]], len(found)] == [True, True, 2]
    assert [row[:2] for row in store.evaluations()] == [("e" * 64, 30.0)]
    assert (store._local_store.get_many(KEYS), store._local_store.evaluations()) == ({}, [])


def test_a_reader_waits_for_the_server(server: PostgresServer) -> None:
    store = ReplyStore.open(server.url)
    store.put(parts(0), reply()).result()
    server.stop()
    back = threading.Timer(0.5, server.start)
    back.start()
    assert len(store.get_many(KEYS)) == 1
    back.join()


def test_a_claim_is_held_again_before_others_can_have_it(server: PostgresServer) -> None:
    ours, theirs = ServerStore(server.url, read_only=False), ServerStore(server.url, read_only=False)
    ours.put(parts(0), reply()).result()
    assert ours.claims.take(KEYS[:5])
    server.stop()
    server.start()
    mine, other = ours.claims.ask(KEYS[5:6]), theirs.claims.ask(KEYS[4:5])
    assert mine.result(60) == {}
    assert other.result(60) is None
    ours.claims.release(KEYS[:5])
    assert ours.claims.take(KEYS[6:7])  # what was released before is released by now
    assert theirs.claims.take(KEYS[4:5])
    ours.close()
    theirs.close()


# --- claims of several processes


HOLD = """
import sys
from cache_setup import parts
from evalkit.engine.cache import ReplyStore
store = ReplyStore.open(sys.argv[1])
print(store.claims.take([parts(int(number)).key for number in sys.argv[2:]]), flush=True)
sys.stdin.readline()
store.close()
"""


def test_another_process_sees_a_claim_until_it_is_killed(address: str, store: ReplyStore) -> None:
    child = python(HOLD, address, 0, 1)
    assert child.stdout.readline() == "True\n"
    assert not store.claims.take([KEYS[2], KEYS[1]])
    assert store.claims.take([KEYS[2]]), "what a refused claim held was let go"
    assert not store.claims.take([KEYS[2]])
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=300)
    until(lambda: store.claims.take([KEYS[1]]), "the server lets the claims of a dead process go")


def test_a_claim_looks_up_what_came_meanwhile(store: ReplyStore) -> None:
    value = store.put(parts(0), reply(created=10.0)).result()
    assert store.claims.ask(KEYS[:2]).result() == {KEYS[0]: value}
    store.claims.release(KEYS[:2])
    assert store.claims.ask(KEYS[:2], since=11.0).result() == {}


def test_the_number_of_replies_is_unknown_until_the_server_looked_and_grows_with_the_table(store: ReplyStore) -> None:
    """A wrong small number would read the whole table; see `most_replies`."""

    def put(first: int, last: int) -> None:
        store.put_many([(parts(number), reply("x" * 300)) for number in range(first, last)])

    def estimate(look: bool = False) -> float:
        with store.database.reading() as connection:
            if look:
                connection.execute("ANALYZE evalkit.replies")
            return float(connection.most_replies())

    put(0, 500)
    assert estimate() > 250  # infinite, or the server has looked by itself
    assert 400 < estimate(look=True) < 600
    put(500, 3000)  # nobody looks again
    assert estimate() > 2000


def test_too_many_claims_are_an_error_that_says_what_to_do(store: ReplyStore) -> None:
    keys = [bytes([number >> 8, number & 255]) * 16 for number in range(65_536)]
    with pytest.raises(CacheError, match=r"no room for more locks.*max_locks_per_transaction, or lower concurrency"):
        store.claims.take(keys)
    assert store.claims.take(keys[:1]), "afterwards it goes on"
    with psycopg.connect(store.cache) as connection:
        locks = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
        assert locks == (1,), "it holds none of those that it got before the error"


# --- several processes, forks, pickles


WRITE = """
import sys
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
store = ReplyStore.open(sys.argv[1])
for number in range(200):
    store.put(parts(number), reply(f"{sys.argv[2]} {number}")).result()
    print(number, flush=True)
store.close()
"""


def test_a_process_that_waits_while_another_makes_the_tables_finds_them(address: str) -> None:
    store, failed = ReplyStore.open(address), list[BaseException]()

    def make() -> None:
        try:
            store.check_writable()
        except CacheError as problem:
            failed.append(problem)

    with psycopg.connect(address) as other, psycopg.connect(address, autocommit=True) as look:
        other.execute("SELECT pg_advisory_xact_lock(%s)", [postgres.APPLICATION_ID])
        waiting = threading.Thread(target=make)
        waiting.start()
        until(lambda: look.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone(), "waits for the lock")
        other.execute(postgres._TABLES)
        other.execute("INSERT INTO evalkit.store VALUES (%s)", [postgres.SCHEMA])
        other.commit()
        waiting.join(60)
    assert not failed
    store.put(parts(0), reply()).result()
    store.close()


def test_processes_that_write_the_same_keys_agree(address: str) -> None:
    children = [python(WRITE, address, who) for who in "abc"]
    for child in children:
        _, errors = child.communicate(timeout=300)
        assert child.returncode == 0, errors
    store = ReplyStore.open(address)
    assert len(store.get_many(KEYS)) == 200
    assert store.stats()["n_replies"] == 200
    store.close()


def test_a_killed_writer_keeps_every_acknowledged_reply(address: str) -> None:
    child = python(WRITE, address, "a")
    said = [child.stdout.readline() for _ in range(50)]
    child.kill()
    said += child.communicate(timeout=300)[0].splitlines()
    store = ReplyStore.open(address)
    assert {KEYS[int(line)] for line in said if line.strip()} <= store.get_many(KEYS).keys()
    store.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_and_writes_by_itself(address: str) -> None:
    assert ran(
        """
import os, sys
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
store = ReplyStore.open(sys.argv[1])
store.put(parts(0), reply()).result()
assert store.claims.take([parts(9).key])
pid = os.fork()
if pid == 0:
    store.put(parts(1), reply()).result()
    print(store.claims.take([parts(9).key]), len(store.get_many([parts(0).key, parts(1).key])), flush=True)
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
store.put(parts(2), reply()).result()
print(len(store.get_many([parts(number).key for number in range(3)])), store.claims.take([parts(9).key]))
""",
        address,
    ).split() == ["False", "2", "3", "False"]


# --- what is wrong with a server


def test_no_server_a_wrong_password_and_a_missing_database_are_named_without_the_password(
    postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    host = postgres_url.rsplit("/", 1)[0]
    for wrong, message in (
        ("postgresql://ann:s3cret@127.0.0.1:1/x", "127.0.0.1:1/x.*check that the server runs and can be reached"),
        (f"{host}/none", 'database "none" does not exist; create the database'),
        (host.replace("evalkit@", "nobody:s3cret@") + "/postgres", 'role "nobody" does not exist; the server does not'),
        ("postgresql://ann:s3cret[@127.0.0.1/x", "the address of the reply store cannot be read; expected"),
        ("postgresql://ann:s3cret@127.0.0.1:port/x", "the address of the reply store cannot be read; expected"),
        (f"{host}/postgres?s3cret=1", "the address of the reply store cannot be read; expected"),
    ):
        with pytest.raises(CacheError, match=message) as raised:
            ReplyStore.open(wrong)
        assert "s3cret" not in f"{raised.value!r} {raised.value.__cause__!r} {caplog.text}"


def test_a_user_without_rights_is_told_which(postgres_url: str, address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS reader")
        connection.execute("CREATE ROLE reader LOGIN")
    theirs = address.replace("evalkit@", "reader@")
    store = ServerStore(theirs, read_only=False)
    with pytest.raises(CacheError, match=r"permission denied.*grant CREATE on the database"):
        store.check_writable()
    ReplyStore.open(address).put(parts(0), reply()).result()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("GRANT USAGE ON SCHEMA evalkit TO reader")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA evalkit TO reader")
    assert len(store.get_many(KEYS)) == 1
    with pytest.raises(CacheError, match=r"permission denied.*SELECT and INSERT"):
        store.put(parts(1), reply()).result()
    store.close()
    ReplyStore.open(address).close()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("DROP OWNED BY reader")
        connection.execute("DROP ROLE reader")


@pytest.mark.parametrize(
    ("number", "words"), [(4, "a newer evalkit .table form 4"), (2, "an older evalkit .table form 2")]
)
def test_the_store_of_another_evalkit_is_left_untouched(
    address: str, store: ReplyStore, number: int, words: str
) -> None:
    store.put(parts(0), reply()).result()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("UPDATE evalkit.store SET schema = %s", [number])
    with pytest.raises(CacheError, match=f"{words}, this one reads 3"):
        store.put(parts(1), reply()).result()
    with pytest.raises(CacheError, match=words):
        ReplyStore.open(address, read_only=True)
    with psycopg.connect(address) as connection:
        assert connection.execute("SELECT count(*) FROM evalkit.replies").fetchone() == (1,)


def test_what_a_server_refuses_is_kept_here_as_well(address: str, store: ReplyStore, tmp_path: Path) -> None:
    store.put(parts(0), reply()).result()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER TABLE evalkit.replies ADD CONSTRAINT full_disk CHECK (sample < 0) NOT VALID")
        with pytest.raises(CacheError, match="the replies are kept on this machine, and the next process"):
            store.put(parts(1), reply("paid")).result()
        store.close()
        store_module._open.clear()
        again = ReplyStore.open(address)  # it still refuses: they stay
        assert len(again._local_store.get_many(KEYS)) == 1
        assert len(again.get_many(KEYS)) == 1
        again.close()
        connection.execute("ALTER TABLE evalkit.replies DROP CONSTRAINT full_disk")
    store_module._open.clear()
    again = ReplyStore.open(address)
    assert b"paid" in again.get_many(KEYS)[KEYS[1]]
    assert again._local_store.get_many(KEYS) == {}
    again.close()


def test_a_call_that_is_cancelled_while_it_asks_does_not_release_the_claim_of_another(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, refused = threading.Event(), type(store.claims)._take

    def slow(claims: Any, jobs: Any) -> Any:
        granted = refused(claims, jobs)
        asked.set()
        time.sleep(0.2)
        return granted

    async def both() -> tuple[Any, Any]:
        first = await store.claim([KEYS[0]], since=None)
        monkeypatch.setattr(type(store.claims), "_take", slow)
        second = asyncio.ensure_future(store.claim([KEYS[0]], since=None))
        await asyncio.to_thread(asked.wait, 60)
        second.cancel()
        await asyncio.wait([second])
        return first, await store.claim([KEYS[0]], since=None)

    assert asyncio.run(both()) == ({}, None)


def test_a_read_only_store_says_so(address: str, store: ReplyStore) -> None:
    store.put(parts(0), reply()).result()
    reader = ReplyStore.open(address, read_only=True)
    assert len(reader.get_many(KEYS)) == 1
    with pytest.raises(CacheError, match="was opened read-only"):
        reader.put(parts(1), reply())
    reader.close()


# --- from store to store


def filled(folder: Path, first: int, last: int, *, text: str = "") -> ReplyStore:
    store = ReplyStore.open(folder)
    store.put_many([(parts(number), reply(text or str(number), 1000.0 + number)) for number in range(first, last)])
    return store


def test_a_file_carries_in_both_directions_what_the_other_store_lacks(tmp_path: Path, store: ReplyStore) -> None:
    here, file = filled(tmp_path / "here", 0, 200), tmp_path / "replies.jsonl"
    here.put(parts(0), reply("refreshed", 5000.0), newer_than=4000.0).result()
    assert here.export(file) == 201
    assert str(store.import_(file)) == "201 replies read: 201 added, 0 stored already"
    assert store.get_many(KEYS) == here.get_many(KEYS)
    store.put(parts(250), reply()).result()
    assert store.import_(file).n_added == 0
    store.export(file)
    assert here.import_(file).n_added == 1
    assert store.get_many(KEYS) == here.get_many(KEYS)
    assert here.stats()["n_replies"] == store.stats()["n_replies"] == 202


def test_the_address_by_variable_serves_evaluations_and_their_history(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("EVALKIT_CACHE", address)
    items, labels = ek.load_example("support")
    first = ek.evaluate(items, "faithfulness", ["fake:strict"], samples=2, labels=labels)
    second = ek.evaluate(items, "faithfulness", ["fake:strict"], samples=2, labels=labels)
    assert first.judgments["source"].eq("live").all()
    assert second.judgments["source"].eq("cache").all()
    assert len(ek.history()) == 1
    assert first.scores.equals(second.scores)
    ReplyStore.open(address).close()


def test_the_commands_work_on_a_server_and_never_show_its_password(
    address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("EVALKIT_CACHE", address.replace("evalkit@", "evalkit:s3cret@"))
    Path("items.jsonl").write_text('{"question": "q", "answer": "a", "reference": "a"}\n')
    words = ["items.jsonl", "--rubric", "correctness", "--judge", "fake"]
    for command in (
        ["evaluate", *words], ["plan", *words], ["cache", "stats"], ["doctor"],
        ["cache", "prune", "--model", "strict", "--apply"], ["cache", "export", "replies.jsonl"],
        ["cache", "import", "replies.jsonl"],
    ):  # fmt: skip
        assert main(command) == 0, command
    said = capsys.readouterr()
    assert "s3cret" not in said.out + said.err
    assert f"{address}: 3 replies" in said.out
    assert "removed 3 replies of 3 keys" in said.err
    assert said.err.count("0 replies read") == 1
    assert main(["cache", "stats", "--cache", "mysql://ann:s3cret@db/x"]) == 2
    said = capsys.readouterr()
    assert "a reply store cannot be on 'mysql'" in said.err
    assert "s3cret" not in said.err


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="no PgBouncer on this machine")
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_that_breaks_claims_is_named(postgres_url: str, mode: str) -> None:
    with pooler(postgres_url, mode) as address:
        store = ServerStore(address, read_only=False)
        try:
            if mode == "session":
                assert store.claims.take(KEYS[:2])
            else:
                with pytest.raises(CacheError, match="a pooler in transaction mode, which breaks the claims"):
                    store.claims.take(KEYS[:2])
        finally:
            store.close()
