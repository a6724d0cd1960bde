"""The file: strangers' and older ones are left untouched, full and read-only places reported."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cache_setup import parts, ran, reply

from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache import sqlite_schema as schema
from evalkit.engine.cache.writer import decoded
from evalkit.errors import CacheError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def filled(folder: Path, n_replies: int = 300) -> Path:
    """A closed store of some size; the path of its file."""
    store = ReplyStore(folder, read_only=False)
    store.put_many([(parts(number), reply("x" * 200)) for number in range(n_replies)])
    store.close()
    return store.path


def contents(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


# --- foreign, truncated, damaged, newer


def foreign_text(path: Path) -> None:
    path.write_bytes(b"these are my notes\n" * 100)


def short_text(path: Path) -> None:
    path.write_bytes(b"my notes")


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE replies (key, value)")
    connection.close()


def nothing(path: Path) -> None:
    path.touch()


def head_only(path: Path) -> None:
    os.truncate(filled(path.parent), 60)


def half(path: Path) -> None:
    os.truncate(filled(path.parent), path.stat().st_size // 2)


def one_byte_less(path: Path) -> None:
    os.truncate(filled(path.parent), path.stat().st_size - 1)


def newer(path: Path) -> None:
    filled(path.parent)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {schema.SCHEMA + 1}")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


def with_trigger(path: Path) -> None:
    filled(path.parent)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TRIGGER gotcha AFTER INSERT ON replies BEGIN DELETE FROM replies; END")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def without_facts(path: Path) -> None:
    filled(path.parent)
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE facts")
    connection.close()


def garbage_after_the_header(path: Path) -> None:
    filled(path.parent)
    whole = path.read_bytes()
    path.write_bytes(whole[:100] + b"\xa5" * (len(whole) - 100))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (foreign_text, "is not a SQLite file: move it away or set EVALKIT_CACHE to another folder; .*left untouched"),
        (short_text, "is not a SQLite file"),
        (foreign_database, r"SQLite file of another program \(application id 0x0\)"),
        (nothing, "is truncated to 0 bytes"),
        (head_only, "is truncated to 60 bytes: restore it"),
        (half, "is truncated to [0-9]+ bytes: restore it"),
        (one_byte_less, "is truncated to [0-9]+ bytes"),
        (newer, r"written by a newer evalkit \(file format 4, this one reads up to 3\): upgrade evalkit"),
        (with_trigger, "holds the trigger 'gotcha', so it was not written by evalkit"),
        (without_facts, "lacks the table 'facts'"),
        (garbage_after_the_header, "is damaged; move it away and import an export"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_no_store_is_left_untouched(folder: Path, make: object, message: str, read_only: bool) -> None:
    folder.mkdir()
    path = folder / "replies.sqlite"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(CacheError, match=message) as caught:
        ReplyStore.open(folder, read_only=read_only)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    # a second try is no different
    with pytest.raises(CacheError, match=message):
        ReplyStore.open(folder, read_only=read_only)
    assert path.read_bytes() == before


def test_nothing_is_written_beside_a_foreign_file(folder: Path) -> None:
    folder.mkdir()
    foreign_database(folder / "replies.sqlite")
    before = contents(folder)
    with pytest.raises(CacheError):
        ReplyStore.open(folder)
    assert contents(folder) == before


def test_a_folder_that_is_a_file(folder: Path) -> None:
    folder.write_text("x")
    with pytest.raises(CacheError, match="is a file; set EVALKIT_CACHE to a folder"):
        ReplyStore.open(folder)


def test_a_log_without_its_file_is_kept(folder: Path) -> None:
    # SQLite would replay a stranger's log into a new file
    folder.mkdir()
    (folder / "replies.sqlite-wal").write_bytes(b"x" * 4096)
    store = ReplyStore.open(folder)
    with pytest.raises(
        CacheError, match=r"replies\.sqlite-wal exists, but the file replies\.sqlite that it belongs to is missing"
    ):
        store.check_writable()
    assert [path.name for path in folder.iterdir()] == ["replies.sqlite-wal"]


def test_a_shorter_file_with_a_log_is_right(folder: Path) -> None:
    """A crash while SQLite moves its log into the file leaves a header that is ahead of the file's size."""
    path = filled(folder)
    pages = struct.unpack(">I", path.read_bytes()[28:32])[0]
    assert path.stat().st_size == pages * 4096
    reader = sqlite3.connect(path)  # keeps the log from being removed
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM replies").fetchone()
    store = ReplyStore(folder, read_only=False)
    store.put_many([(parts(number), reply("y" * 200)) for number in range(300, 600)])
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    os.truncate(copy / "replies.sqlite", 40 * 4096)  # the log does not hold these pages, the check does not know
    schema.check_file(copy / "replies.sqlite")
    os.truncate(copy / "replies.sqlite-wal", 0)
    with pytest.raises(CacheError, match="truncated"):
        schema.check_file(copy / "replies.sqlite")
    reader.close()
    store.close()


# --- older


@pytest.mark.parametrize("read_only", [False, True])
def test_an_older_store_is_left_untouched(folder: Path, read_only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(folder)
    before = path.read_bytes()
    monkeypatch.setattr(schema, "SCHEMA", 4)
    with pytest.raises(CacheError, match=r"written by an older evalkit \(file format 3, now 4\): use that evalkit, or"):
        ReplyStore.open(folder, read_only=read_only)
    assert path.read_bytes() == before


def test_a_store_may_have_two_tables_that_nothing_uses(folder: Path) -> None:
    path = filled(folder)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE leases (run TEXT)")
        connection.execute("CREATE TABLE rates (run TEXT)")
    connection.close()
    store = ReplyStore.open(folder)
    assert len(store.get_many([parts(number).key for number in range(300)])) == 300
    store.close()


# --- read-only


def test_read_only_reads_and_never_writes(folder: Path) -> None:
    path = filled(folder)
    before = path.read_bytes()
    store = ReplyStore.open(folder, read_only=True)
    assert len(store.get_many([parts(number).key for number in range(300)])) == 300
    assert store.stats()["n_replies"] == 300
    attempts = [
        lambda: store.check_writable(),
        lambda: store.put(parts(), reply()),
        lambda: store.put_many([(parts(), reply())]),
        lambda: store.learn("s", "m", "n", 1),
        lambda: store.log_evaluation("a" * 64, 5.0, "{}", "{}"),
        lambda: store.promote("support", "v1", "v2", ["a" * 64]),
        lambda: store.import_(folder / "x.jsonl"),
        lambda: store.prune(model="gpt-4o-mini", apply=True),
        lambda: store.clear(confirm="delete 300 replies"),
    ]
    for attempt in attempts:
        with pytest.raises(
            CacheError, match=r"read-only.*set EVALKIT_CACHE to a folder that can be written, or use only"
        ):
            attempt()
    store.close()
    assert path.read_bytes() == before


def test_read_only_sees_what_another_store_writes(folder: Path) -> None:
    reader = ReplyStore.open(folder, read_only=True)
    assert reader.get_many([parts(1).key]) == {}  # not even a file yet
    writer = ReplyStore.open(folder)
    writer.put(parts(1), reply()).result()
    assert list(reader.get_many([parts(1).key])) == [parts(1).key]
    writer.put(parts(2), reply()).result()
    assert list(reader.get_many([parts(2).key])) == [parts(2).key]


AS_NOBODY = """
import os, sys
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
from evalkit.errors import CacheError
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
store = ReplyStore.open(Path(sys.argv[1]))
print(store.read_only, len(store.get_many([parts(number).key for number in range(300)])))
try:
    store.check_writable()
except CacheError as problem:
    print(problem)
"""


def said_to_nobody(folder: Path) -> str:
    """What a user without rights to write reads of a store."""
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    try:
        return ran(AS_NOBODY, folder)
    finally:
        folder.chmod(0o755)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user can reach, as pytest's own cannot be."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="evalkit-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_a_folder_without_write_permission_replays(open_folder: Path) -> None:
    folder = open_folder / "cache"
    filled(folder)
    before = contents(folder)
    said = said_to_nobody(folder)
    assert said.startswith("True 300\n")
    assert "is read-only, so replies could not be stored; set EVALKIT_CACHE to a folder that can be written" in said
    assert contents(folder) == before


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are POSIX's")
def test_a_killed_writers_log_is_read_without_write_permission(open_folder: Path) -> None:
    folder = open_folder / "cache"
    filled(folder, 100)
    source = open_folder / "source"
    store = ReplyStore(source, read_only=False)
    store.put_many([(parts(number), reply("z" * 200)) for number in range(300)])
    shutil.copytree(source, folder, dirs_exist_ok=True)  # as a kill would leave it: log and all
    store.close()
    assert (folder / "replies.sqlite-wal").stat().st_size > 0
    said = said_to_nobody(folder)
    assert said.startswith("True 300\n")


def test_permission_that_was_put_right_counts_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = {os.W_OK: False}
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: allowed.get(mode, True) and access(path, mode))
    before = ReplyStore.open(folder)
    assert before.read_only
    allowed[os.W_OK] = True
    after = ReplyStore.open(folder)
    assert not after.read_only
    after.put(parts(), reply()).result()
    assert list(before.get_many([parts().key])) == [parts().key]


# --- full disks

FULL = """
import resource, sys
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
from evalkit.errors import CacheError
folder = Path(sys.argv[1])
limit = int(sys.argv[2])
store = ReplyStore.open(folder)
store.check_writable()
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
acknowledged = 0
try:
    for number in range(100_000):
        store.put(parts(number), reply("x" * 2000)).result()
        acknowledged += 1
except CacheError as problem:
    print(acknowledged)
    print(problem)
found = store.get_many([parts(number).key for number in range(acknowledged + 1)])
print(len(found))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def shown_after_a_full_disk(folder: Path, said: str) -> None:
    acknowledged, message, still_there = said.strip().splitlines()
    assert int(acknowledged) > 10
    assert "these replies were not stored" in message
    assert str(folder / "replies.sqlite") in message
    assert int(still_there) == int(acknowledged)
    # from outside, afterwards
    store = ReplyStore(folder, read_only=True)
    found = store.get_many([parts(number).key for number in range(int(acknowledged))])
    assert len(found) == int(acknowledged)
    assert {decoded(value).text for value in found.values()} == {"x" * 2000}
    store.close()
    connection = sqlite3.connect(folder / "replies.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="limits are POSIX's")
def test_a_file_that_may_not_grow_loses_nothing(folder: Path) -> None:
    shown_after_a_full_disk(folder.resolve(), ran(FULL, folder, 300_000))


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="mounting a small disk needs root on Linux")
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"mount is not permitted: {mounted.stderr.decode().strip()}")
    try:
        folder = disk / "cache"
        said = ran(FULL, folder, 0)
        shown_after_a_full_disk(folder, said)
        # the next run hears of it before it pays
        (disk / "ballast").write_bytes(b"")
        with pytest.raises(CacheError, match=r"disk of reply store .* is full \([0-9]+ bytes left\)"):
            ReplyStore(folder, read_only=False).check_writable()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CacheError, match=r"Not a directory.*set EVALKIT_CACHE to another folder"):
        ReplyStore.open(tmp_path / "file" / "cache")


# --- made, removed, replaced


def test_a_made_folder_is_not_committed_by_accident_but_a_given_one_is_left_alone(tmp_path: Path) -> None:
    filled(tmp_path / "made")
    assert (tmp_path / "made" / ".gitignore").read_text().endswith("*\n")
    (tmp_path / "given").mkdir()
    filled(tmp_path / "given")
    assert [path.name for path in (tmp_path / "given").iterdir()] == ["replies.sqlite"]


def test_a_removed_folder_is_a_new_store(folder: Path) -> None:
    store = ReplyStore.open(folder)
    store.put(parts(1), reply("before")).result()
    assert len(store.get_many([parts(1).key])) == 1
    shutil.rmtree(folder)
    assert store.get_many([parts(1).key]) == {}
    store.put(parts(2), reply("after")).result()
    store.close()
    assert list(ReplyStore(folder, read_only=True).get_many([parts(1).key, parts(2).key])) == [parts(2).key]


def test_a_replaced_file_is_read_afresh(folder: Path, tmp_path: Path) -> None:
    other = filled(tmp_path / "other", 5)
    store = ReplyStore.open(folder)
    store.put(parts(100), reply()).result()
    store.close()
    other.replace(folder / "replies.sqlite")
    assert len(store.get_many([parts(number).key for number in range(101)])) == 5
    foreign_text(folder / "new")
    (folder / "new").replace(folder / "replies.sqlite")
    with pytest.raises(CacheError, match="not a SQLite file"):
        store.get_many([parts(1).key])
    with pytest.raises(CacheError, match="not a SQLite file"):
        store.put(parts(1), reply()).result()


def test_a_file_damaged_in_use_is_an_error_not_a_miss(folder: Path) -> None:
    path = filled(folder)
    store = ReplyStore.open(folder)
    keys = [parts(number).key for number in range(300)]
    assert len(store.get_many(keys)) == 300
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))  # the same file, from its second page on
    with pytest.raises(CacheError, match="is damaged"):
        store.get_many(keys)


def test_two_stores_made_at_once_are_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process is faster between looking and linking: its file stays."""
    place = schema.place

    def slow_place(fresh: Path, path: Path) -> None:
        monkeypatch.setattr(schema, "place", place)
        filled(folder, 3)
        place(fresh, path)

    monkeypatch.setattr(schema, "place", slow_place)
    store = ReplyStore(folder, read_only=False)
    store.put(parts(10), reply()).result()
    assert len(store.get_many([parts(number).key for number in range(11)])) == 4
    store.close()
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "replies.sqlite"]


def test_a_disk_without_hard_links(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert len(ReplyStore(folder, read_only=False).put_many([(parts(), reply())])) == 1
    assert sorted(path.name for path in folder.iterdir() if "-" not in path.name) == [".gitignore", "replies.sqlite"]


def test_two_stores_made_at_once_on_a_disk_without_hard_links_are_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look whether the name is free and the renaming, nobody else may make the file."""
    rename = Path.rename

    def write() -> None:
        other = ReplyStore(folder, read_only=False)
        other.put(parts(2), reply()).result()
        other.close()  # nothing of it is in a log any more

    second = threading.Thread(target=write)

    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no links here")

    def slow_rename(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        second.start()
        second.join(1.0)  # it cannot end before this one has: it waits, or is faster and loses what it wrote
        return rename(self, target)

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    monkeypatch.setattr(Path, "rename", slow_rename)
    store = ReplyStore(folder, read_only=False)
    store.put(parts(1), reply()).result()
    second.join(300)
    assert len(store.get_many([parts(1).key, parts(2).key])) == 2
    store.close()
