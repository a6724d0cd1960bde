"""Several processes on one store: together, killed, forked, spawned, ended."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from pathlib import Path

import pytest
from cache_setup import parts, python, ran, reply

from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.writer import decoded

posix = pytest.mark.skipif(sys.platform == "win32", reason="forks and SIGKILL are POSIX's")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return (tmp_path / "cache").resolve()


def assert_whole(folder: Path) -> None:
    connection = sqlite3.connect(folder / "replies.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


WRITER = """
import sys
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
folder, who = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
store = ReplyStore.open(folder)
for number in range(150):
    # the same key for all, then one of its own
    shared = store.put(parts(number), reply(f"by {who}")).result()
    own = store.put(parts(number, sample=1 + who), reply(f"by {who}")).result()
    print(number, shared.hex(), own.hex())
"""


def test_processes_that_write_the_same_and_other_keys_lose_nothing(folder: Path) -> None:
    # there is no file at first: they also race to make it
    writers = [python(WRITER, folder, who) for who in range(3)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    said = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        out, err = writer.communicate(timeout=300)
        assert writer.returncode == 0, err
        said.append([line.split() for line in out.splitlines()])
    store = ReplyStore(folder, read_only=True)
    for number in range(150):
        shared = {lines[number][1] for lines in said}
        assert len(shared) == 1  # all were shown one truth
        stored = store.get_many([parts(number, sample=sample).key for sample in range(4)])
        assert stored[parts(number).key].hex() in shared
        for who in range(3):
            own = stored[parts(number, sample=1 + who).key]
            assert own.hex() == said[who][number][2]
            assert decoded(own).text == f"by {who}"
    assert store.stats()["n_replies"] == 150 * 4
    store.close()
    assert_whole(folder)


VICTIM = """
import sys, threading
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
store = ReplyStore.open(Path(sys.argv[1]))
start = int(sys.argv[2])
def work(first):
    for number in range(first, 10**6, 4):
        store.put(parts(number), reply(f"{number} " + "x" * 300)).result()
        sys.stdout.write(f"{number}\\n")
        sys.stdout.flush()
for first in range(4):
    threading.Thread(target=work, args=(start + first,), daemon=True).start()
threading.Event().wait()
"""


@posix
def test_a_killed_writer_keeps_every_acknowledged_reply(folder: Path) -> None:
    """5 × SIGKILL at random moments; the longer loop is a benchmark."""
    moments = random.Random(7)
    acknowledged: list[int] = []
    for attempt in range(5):
        victim = python(VICTIM, folder, attempt * 100_000)
        assert victim.stdout is not None
        first = victim.stdout.readline()
        time.sleep(moments.uniform(0.0, 0.25))
        victim.send_signal(signal.SIGKILL)
        rest = victim.communicate(timeout=300)[0]
        # a line cut by the kill was not acknowledged
        acknowledged += [int(line) for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
    assert len(acknowledged) > 20
    store = ReplyStore(folder, read_only=False)
    found = store.get_many([parts(number).key for number in acknowledged])
    for number in acknowledged:
        text = decoded(found[parts(number).key]).text
        assert text == f"{number} " + "x" * 300
    # and the store goes on
    store.put(parts(10**7), reply()).result()
    store.close()
    assert_whole(folder)


def test_the_end_of_a_process_writes_and_tidies_up(folder: Path) -> None:
    ran(
        """
import sys
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
store = ReplyStore.open(Path(sys.argv[1]))
for number in range(300):
    store.put(parts(number), reply())  # nobody waits
""",
        folder,
    )
    assert sorted(path.name for path in folder.iterdir()) == [".gitignore", "replies.sqlite"]
    store = ReplyStore(folder, read_only=True)
    assert len(store.get_many([parts(number).key for number in range(300)])) == 300
    store.close()


def child_of(store: ReplyStore, queue: multiprocessing.Queue[object], who: int) -> None:
    before = len(store.get_many([parts(number).key for number in range(10)]))
    values = store.put_many([(parts(100 + who, sample=sample), reply(f"child {who}")) for sample in range(20)])
    queue.put((before, len(values), store.counters.as_dict()["stored"]))
    store.close()


@pytest.mark.parametrize("method", [pytest.param("fork", marks=posix), "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_children_open_the_store_afresh(folder: Path, method: str) -> None:
    context = multiprocessing.get_context(method)
    store = ReplyStore.open(folder)
    store.put_many([(parts(number), reply()) for number in range(10)])  # thread and connections are alive
    queue = context.Queue()
    children = [context.Process(target=child_of, args=(store, queue, who)) for who in range(2)]
    for child in children:
        child.start()
    said = [queue.get(timeout=300) for _ in children]
    for child in children:
        child.join(timeout=300)
        assert child.exitcode == 0
    assert said == [(10, 20, 20)] * 2
    store.put(parts(11), reply()).result()  # the parent goes on
    keys = [parts(100 + who, sample=sample).key for who in range(2) for sample in range(20)]
    assert len(store.get_many(keys)) == 40
    store.close()
    assert_whole(folder)


@posix
def test_forks_amid_reading_and_writing_neither_hang_nor_lose(folder: Path) -> None:
    said = ran(
        """
import os, sys, threading, warnings
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
warnings.simplefilter("ignore")
store = ReplyStore.open(Path(sys.argv[1]))
store.put_many([(parts(number), reply("x" * 300)) for number in range(2000)])
keys = [parts(number).key for number in range(2000)]
going = True
def read():
    while going:
        assert len(store.get_many(keys)) == 2000
def write():
    number = 10_000
    while going:
        store.put(parts(number), reply()).result()
        number += 1
threads = [threading.Thread(target=work) for work in (read, read, write)]
for thread in threads:
    thread.start()
pids = []
for child in range(12):
    pid = os.fork()
    if pid == 0:
        store.put(parts(100_000 + child), reply()).result()
        assert len(store.get_many(keys)) == 2000
        sys.exit(0)  # with all that Python does at its end
    pids.append(pid)
exits = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
going = False
for thread in threads:
    thread.join()
print(exits, len(store.get_many([parts(100_000 + child).key for child in range(12)])))
""",
        folder,
    )
    assert said.strip().endswith(f"{[0] * 12} 12")
    assert_whole(folder)


@posix
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_inside_a_read_does_not_wait_for_itself(folder: Path) -> None:
    store = ReplyStore.open(folder)
    store.put(parts(), reply()).result()
    started = threading.Event()
    with store.database.reading():
        pid = os.fork()
        if pid == 0:
            os._exit(0 if store.get_many([parts().key]) else 1)
        started.set()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert started.is_set()
    assert len(store.get_many([parts().key])) == 1
    store.close()


NEXT = """
import sys
from pathlib import Path
from cache_setup import parts, reply
from evalkit.engine.cache import ReplyStore
store, number = ReplyStore.open(Path(sys.argv[1])), int(sys.argv[2])
print(len(store.get_many([parts(earlier).key for earlier in range(number)])))
store.put(parts(number), reply()).result()
"""
"""A process that prints how many replies it sees, and stores the next one."""


@pytest.mark.parametrize(
    ("first", "second"),
    [("store", "reader"), ("reader", "connection"), ("connection", "reader"), ("connection", "reopened")],
)
def test_what_else_a_process_opens_takes_no_locks_from_its_store(folder: Path, first: str, second: str) -> None:
    ran(NEXT, folder, 0)
    store = ReplyStore(folder, read_only=False)
    opened: list[ReplyStore | sqlite3.Connection] = []
    for what in (first, second):
        if what == "connection":  # as in a notebook, to look at the file
            opened.append(sqlite3.connect(folder / "replies.sqlite"))
            assert opened[-1].execute("SELECT count(*) FROM replies").fetchone() == (1,)
        elif what == "reader":
            opened.append(ReplyStore(folder, read_only=True))
        else:
            store.close()
        assert len((opened[-1] if what == "reader" else store).get_many([parts(0).key])) == 1  # type: ignore[union-attr]
    for number in (1, 3):
        assert ran(NEXT, folder, number) == f"{number}\n"
        store.put(parts(number + 1), reply()).result()
    for connection in (*opened, store):
        connection.close()
    assert ran(NEXT, folder, 5) == "5\n"
    assert_whole(folder)


@posix
def test_a_child_that_outlives_its_parent_holds_locks_of_its_own(folder: Path) -> None:
    output = ran(
        f"""
import os, sys, time
from pathlib import Path
from cache_setup import parts, ran, reply
from evalkit.engine.cache import ReplyStore
store = ReplyStore.open(Path(sys.argv[1]))
store.put(parts(0), reply()).result()
readable, writable = os.pipe()
if os.fork():
    os.close(writable)
    os.read(readable, 1)  # the child uses the store
    sys.exit()
store.put(parts(1), reply()).result()
parent = os.getppid()
os.write(writable, b"x")
while os.getppid() == parent:
    time.sleep(0.01)
for number in (2, 4):
    print(ran({NEXT!r}, sys.argv[1], number), end="")
    store.put(parts(number + 1), reply()).result()
print(ran({NEXT!r}, sys.argv[1], 6), end="", flush=True)
""",
        folder,
    )
    assert output.split() == ["2", "4", "6"]
    assert_whole(folder)
