"""The store of a newer evalkit, whose schema number stands in SQLite's log alone: refused, and not a byte changed."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cache_setup import parts

from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.sqlite_schema import FILE_NAME, SCHEMA, log_of
from evalkit.errors import CacheError

# Another process, of another evalkit: it raises the number and stays, or is killed with its log as it is
_NEWER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute(f"PRAGMA user_version = {sys.argv[2]}")
print("raised", flush=True)
sys.stdin.read()
"""


@contextmanager
def newer_process(path: Path, alive: bool = True) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, "-c", _NEWER, str(path), str(SCHEMA + 1)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "raised\n"
        if not alive:
            child.kill()
            child.wait()
        yield child
    finally:
        child.kill()
        child.communicate()


def bytes_of(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), log_of(path).read_bytes()


@pytest.fixture
def store(tmp_path):
    store = ReplyStore.open(tmp_path)
    store.put(parts(0), Reply("1")).result()
    yield store
    store.close()


@pytest.mark.parametrize("alive", [True, False], ids=["the other process lives", "it was killed"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_that_is_opened_later_is_refused_untouched(store, tmp_path, alive, read_only):
    store.close()
    path = tmp_path / FILE_NAME
    with newer_process(path, alive):
        before = bytes_of(path)
        assert before[0][60:64] == SCHEMA.to_bytes(4, "big")  # the header alone says nothing
        fresh = ReplyStore(tmp_path, read_only=read_only)
        with pytest.raises(CacheError, match=f"newer evalkit .file format {SCHEMA + 1}, this one reads up to {SCHEMA}"):
            fresh.get_many([parts(0).key])
        if not read_only:
            with pytest.raises(CacheError, match="newer evalkit"):
                fresh.check_writable()
            with pytest.raises(CacheError, match="newer evalkit"):
                fresh.put(parts(1), Reply("2")).result()
        fresh.close()
        assert bytes_of(path) == before


@pytest.mark.parametrize("alive", [True, False], ids=["the other process lives", "it was killed"])
def test_a_store_that_is_open_already_is_left_alone_from_then_on(store, tmp_path, alive):
    path = tmp_path / FILE_NAME
    with newer_process(path, alive):
        before = bytes_of(path)
        with pytest.raises(CacheError, match="newer evalkit"):
            store.put(parts(1), Reply("2")).result()
        with pytest.raises(CacheError, match="newer evalkit"):
            store.get_many([parts(0).key])
        with pytest.raises(CacheError, match="newer evalkit"):
            store.check_writable()
        with pytest.raises(CacheError, match="newer evalkit"):
            store.prune(rubric="support", apply=True)
        store.close()
        assert bytes_of(path) == before
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA + 1,)
        assert connection.execute("SELECT count(*) FROM replies").fetchone() == (1,)
