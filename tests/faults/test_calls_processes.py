"""The engine in real processes and a real kernel: interrupted, killed, ended with calls in flight."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commandline import python, read_until
from servers import JudgeServer, judge_server, wait_for

from evalkit.engine.cache.sqlite_schema import FILE_NAME

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks are those of POSIX")

JUDGE = """
import sys
import evalkit as ek
rubric = ek.Rubric(
    id="numbers", description="Which number?", inputs=["answer"],
    criteria=[{"name": "number", "scale": {0: "a", 1: "b"}}],
)
items = [{"item_id": str(n), "answer": f"ITEM-{n} "} for n in range(200)]
judge = ek.Judge("openai", "m", base_url=sys.argv[1], timeout_s=600)
"""
RUN = (
    JUDGE
    + """
table = ek.judge(items, rubric, judge, samples=1, cache=sys.argv[2], concurrency=8, progress=True)
print(len(table))
"""
)
REPLY = {"content": '{"explanation": "so", "score": 1}'}


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def started(code: str, *arguments: object, cold: bool = False) -> subprocess.Popen[str]:
    """Code in a process: a fork of one that has loaded the libraries, or `cold`."""
    words = [sys.executable, "-c", code, *map(str, arguments)] if cold else python(code, *arguments)
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip


def stored_in(cache: Path) -> tuple[int, str]:
    """Replies in the file, and whether it is sound."""
    with contextlib.closing(sqlite3.connect(cache / FILE_NAME)) as connection:
        n = connection.execute("SELECT count(DISTINCT key) FROM replies").fetchone()[0]
        return int(n), connection.execute("PRAGMA integrity_check").fetchone()[0]


def test_ctrl_c_says_how_to_go_on_and_the_next_run_pays_the_rest(tmp_path: Path) -> None:
    with judge_server(always={"delay": 0.1, **REPLY}) as server:
        child = started(RUN, server.url, tmp_path, cold=True)
        wait_for(server, 24)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=300)
        assert "in flight, so that nothing is paid twice" in err
        assert "KeyboardInterrupt: stopped; all replies received so far are stored in" in err
        assert "you pay only for the rest" in err
        assert stored_in(tmp_path) == (len(server.paid), "ok")
        assert 24 <= len(server.paid) < 200
        server.always = REPLY
        out, err = started(RUN, server.url, tmp_path).communicate(timeout=300)
        assert out.strip() == "200", err
    assert Counter(server.paid) == {f"ITEM-{n}": 1 for n in range(200)}


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_does_not_wait_for_a_silent_server(tmp_path: Path, times: int) -> None:
    """The wait in `judge` is not repeated at the end of the process."""
    with judge_server(always={"hang": 600}) as server:
        child = started(RUN, server.url, tmp_path)
        wait_for(server, 8)
        for _ in range(times):
            child.send_signal(signal.SIGINT)
            time.sleep(0.5)
        _, err = child.communicate(timeout=300)  # the answers would come after ten minutes
    assert "KeyboardInterrupt" in err
    assert "atexit" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_sigterm_and_sighup_wait_for_calls_in_flight_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    going = threading.Event()
    with judge_server(always={"until": going, **REPLY}) as server:
        child = started(RUN, server.url, tmp_path)
        wait_for(server, 8)
        child.send_signal(number)
        err = read_until(child, "in flight, so that nothing is paid twice")  # only then the answers come
        going.set()
        out, rest = child.communicate(timeout=300)
        assert (child.returncode, out) == (128 + number, "")
        assert "stopped; all replies received so far are stored in" in rest
        assert "Traceback" not in err + rest
        assert stored_in(tmp_path) == (8, "ok")
        server.always = REPLY
        out, err = started(RUN, server.url, tmp_path).communicate(timeout=300)
        assert out.strip() == "200", err
    assert Counter(server.paid) == {f"ITEM-{n}": 1 for n in range(200)}


def test_a_second_sigterm_leaves_at_once(tmp_path: Path) -> None:
    with judge_server(always={"hang": 600}) as server:
        child = started(RUN, server.url, tmp_path, cold=True)
        wait_for(server, 8)
        child.send_signal(signal.SIGTERM)
        err = read_until(child, "in flight, so that nothing is paid twice")
        child.send_signal(signal.SIGTERM)
        _, rest = child.communicate(timeout=300)  # the answers would come after ten minutes
    assert child.returncode in (143, -signal.SIGTERM)
    assert "Traceback" not in err + rest


OWN_HANDLER = RUN.replace(
    "table =",
    """
import signal
signal.signal(signal.SIGTERM, lambda *_: print("own handler", flush=True))
signal.signal(signal.SIGHUP, signal.SIG_IGN)
table =""",
)


def test_a_handler_of_ones_own_and_an_ignored_signal_stay(tmp_path: Path) -> None:
    going = threading.Event()
    with judge_server(always={"until": going, **REPLY}) as server:
        child = started(OWN_HANDLER, server.url, tmp_path)
        wait_for(server, 8)
        for number in (signal.SIGHUP, signal.SIGTERM):
            child.send_signal(number)
        assert child.stdout is not None
        assert child.stdout.readline() == "own handler\n"
        going.set()
        out, err = child.communicate(timeout=300)
    assert (child.returncode, out.strip()) == (0, "200"), err


AWAITED = RUN.replace("table = ek.judge(", "import asyncio\ntable = asyncio.run(ek.ajudge(").replace(
    "progress=True)", "progress=True))"
)


def test_sigterm_stores_what_is_in_flight_of_an_awaited_call(tmp_path: Path) -> None:
    going = threading.Event()
    with judge_server(always={"until": going, **REPLY}) as server:
        child = started(AWAITED, server.url, tmp_path)
        wait_for(server, 8)
        child.send_signal(signal.SIGTERM)
        err = read_until(child, "stopped; all replies received so far are stored in")
        going.set()
        out, rest = child.communicate(timeout=300)
        assert (child.returncode, out) == (143, ""), err + rest
        assert stored_in(tmp_path) == (8, "ok")


def settle(server: JudgeServer) -> None:
    """Wait until the server has answered what a killed process left in flight."""
    n_seen = -1
    while n_seen != len(server.paid):
        n_seen = len(server.paid)
        time.sleep(0.5)


def test_a_killed_process_loses_what_was_in_flight_and_pays_nothing_twice(tmp_path: Path) -> None:
    with judge_server(always={"delay": 0.02, **REPLY}) as server:
        for round_ in range(2):
            child = started(RUN, server.url, tmp_path)
            wait_for(server, len(server.seen) + 20)
            child.kill()
            child.communicate(timeout=300)
            settle(server)
            stored, sound = stored_in(tmp_path)
            assert sound == "ok"
            # of the 8 in flight and at most as many on their way to the disk, in each round
            assert len(server.paid) - stored <= 16 * (round_ + 1)
        while server.in_flight:  # what the killed process had sent is answered, and billed, all the same
            time.sleep(0.01)
        paid, (stored, _) = len(server.paid), stored_in(tmp_path)
        assert stored > 0
        out, err = started(RUN, server.url, tmp_path).communicate(timeout=300)
        assert out.strip() == "200", err
        assert len(server.paid) - paid == 200 - stored
    assert stored_in(tmp_path) == (200, "ok")


LEAVES = (
    JUDGE
    + """
from pathlib import Path
from judge_requests import submit
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
work = Worklist.of(Spec.of(rubric, judge, 1), items[:6])
store = ek.engine.ReplyStore.open(Path(sys.argv[2]))
submit(work.requests(list(range(6))), store)
sys.stdin.readline()
"""
)


def test_the_end_of_the_process_waits_for_what_is_in_flight_and_leaves_no_log(tmp_path: Path) -> None:
    with judge_server(always={"delay": 0.6, **REPLY}) as server:
        child = subprocess.Popen(
            [sys.executable, "-c", LEAVES, server.url, str(tmp_path)],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        wait_for(server, 6)
        _, err = child.communicate("\n", timeout=300)
    assert child.returncode == 0, err
    assert stored_in(tmp_path) == (6, "ok")
    assert not (tmp_path / f"{FILE_NAME}-wal").exists()  # the checkpoint at exit moved it into the file
    assert "never retrieved" not in err
    assert "destroyed" not in err


# -- a kernel


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A running ipykernel of its own and a client of it."""
    pytest.importorskip("ipykernel", reason="the notebook extra is not installed")
    manager = pytest.importorskip("jupyter_client.manager", reason="the notebook extra is not installed")
    for name in ("JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    running, client = manager.start_new_kernel(kernel_name="python3", env=environment())
    yield running, client
    client.stop_channels()
    running.shutdown_kernel(now=True)


def cell_ended(client: Any, sent: str) -> dict[str, Any]:
    """The reply to a cell."""
    while True:
        reply = client.get_shell_msg(timeout=300)
        if reply["parent_header"].get("msg_id") == sent:
            content: dict[str, Any] = reply["content"]
            return content


@pytest.mark.parametrize("call", ["ek.judge", "await ek.ajudge"])
def test_an_interrupted_kernel_stops_judging_and_goes_on(kernel: Any, tmp_path: Path, call: str) -> None:
    running, client = kernel
    with judge_server(always={"delay": 0.2, **REPLY}) as server:
        setup = JUDGE.replace("sys.argv[1]", repr(server.url))
        assert cell_ended(client, client.execute(setup))["status"] == "ok"
        work = f"table = {call}(items, rubric, judge, samples=1, cache={str(tmp_path / 'c')!r}, concurrency=8)"
        sent = client.execute(work)
        wait_for(server, 16)
        running.interrupt_kernel()
        ended = cell_ended(client, sent)
        assert ended["status"] == "error"
        assert ended["ename"] in ("KeyboardInterrupt", "CancelledError")
        while server.in_flight:  # what was in flight lands meanwhile
            time.sleep(0.01)
        n_seen = len(server.seen)
        assert n_seen < 200
        time.sleep(0.6)
        assert len(server.seen) == n_seen  # nothing is sent after the cell has ended
        server.always = REPLY
        again = client.execute(f"{work}\nassert len(table) == 200 and table['error'].isna().all()")
        assert cell_ended(client, again)["status"] == "ok"  # the kernel lives, and so does the loop thread
    assert Counter(server.paid) == {f"ITEM-{n}": 1 for n in range(200)}


def test_a_kernel_keeps_its_own_way_of_ending(kernel: Any) -> None:
    _, client = kernel
    cell = """
import signal
from evalkit.engine.calls.event_loop import ending_signals
signal.signal(signal.SIGTERM, signal.SIG_DFL)
with ending_signals():
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    assert cell_ended(client, client.execute(cell))["status"] == "ok"


FORKS = (
    JUDGE
    + """
import os
from pathlib import Path
from judge_requests import submit
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
work = Worklist.of(Spec.of(rubric, judge, 1), items[:40])
store = ek.engine.ReplyStore.open(Path(sys.argv[2]))
from evalkit.core.settings import Options
running = submit(work.requests(list(range(40))), store, Options(concurrency=4))
while not running.done():
    child = os.fork()
    if child == 0:
        table = ek.judge(items[100:103], rubric, judge, samples=1, cache=sys.argv[2], progress=False)
        sys.exit(int(table["error"].notna().sum()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(sum(outcome.failure is None for outcome in running.result()))
"""
)


def test_a_fork_in_the_middle_of_a_run_harms_neither_side(tmp_path: Path) -> None:
    with judge_server(always={"delay": 0.05, **REPLY}) as server:
        out, err = started(FORKS, server.url, tmp_path).communicate(timeout=300)
    assert out.split()[-1:] == ["40"], err
    assert Counter(server.paid) == {f"ITEM-{n}": 1 for n in (*range(40), 100, 101, 102)}


THREADS = (
    JUDGE
    + """
import asyncio, threading
tables = []
def in_thread(start):
    tables.append(ek.judge(items[start:start + 30], rubric, judge, samples=1, cache=sys.argv[2], progress=False))
async def in_loop(start):
    tables.append(await ek.ajudge(items[start:start + 30], rubric, judge, samples=1, cache=sys.argv[2], progress=False))
workers = [threading.Thread(target=in_thread, args=(start,)) for start in (0, 10, 20)]
workers += [threading.Thread(target=lambda start=start: asyncio.run(in_loop(start))) for start in (0, 20, 40)]
for worker in workers: worker.start()
for worker in workers: worker.join(300)
print(len(tables), sum(int(table["error"].isna().sum()) for table in tables))
"""
)


def test_threads_and_loops_share_calls_and_all_get_their_tables(tmp_path: Path) -> None:
    with judge_server(always={"delay": 0.1, **REPLY}) as server:
        out, err = started(THREADS, server.url, tmp_path).communicate(timeout=300)
    assert out.split() == ["6", "180"], err
    assert Counter(server.paid) == {f"ITEM-{n}": 1 for n in range(70)}


BESIDE = (
    JUDGE
    + """
judge = judge.replace(timeout_s=float(sys.argv[4]))
some = items[:int(sys.argv[3])]
table = ek.judge(some, rubric, judge, samples=3, cache=sys.argv[2], concurrency=8, progress=False)
n_live = int((table["source"] == "live").sum())
print(int(table["error"].isna().sum()), set(table["source"]) - {"live", "cache"}, n_live, flush=True)
"""
)


def n_asked(server: JudgeServer) -> Counter[str]:
    """How many samples of each item the server was asked for."""
    asked: Counter[str] = Counter()
    for seen in server.seen:
        text = seen.body["messages"][-1]["content"]
        asked[text[text.index("ITEM-") :].split()[0]] += seen.body.get("n", 1)
    return asked


def test_processes_in_step_on_the_same_items_share_the_work_and_pay_once(tmp_path: Path) -> None:
    with judge_server(always={"delay": 0.05, **REPLY}) as server:
        children = [started(BESIDE, server.url, tmp_path, 100, 60) for _ in range(3)]
        ends = [child.communicate(timeout=300) for child in children]
        assert [out.split()[:2] for out, _ in ends] == [["300", "set()"]] * 3, ends
        assert sum(int(out.split()[2]) for out, _ in ends) == 300  # live for the one that paid
        asked = n_asked(server)
    assert len(asked) == 100
    assert set(asked.values()) == {3}


def test_what_a_killed_process_was_asking_for_is_asked_by_another_at_once(tmp_path: Path) -> None:
    with judge_server(always={"delay": 600, **REPLY}) as server:
        first = started(BESIDE, server.url, tmp_path, 4, 600)
        wait_for(server, 4)
        second = started(BESIDE, server.url, tmp_path, 4, 600)
        time.sleep(2.5)  # it has come to the claims by then, and waits
        n_before = len(server.seen)
        server.always = {"delay": 0.01, **REPLY}
        first.kill()
        first.communicate()
        out, err = second.communicate(timeout=300)
        assert n_before == 4, "the second process asked too, although the first was at it"
        assert out.strip() == "12 set() 12", err


def test_a_process_that_hangs_is_not_waited_for_longer_than_an_answer_may_take(tmp_path: Path) -> None:
    with judge_server(always={"delay": 600, **REPLY}) as server:
        first = started(BESIDE, server.url, tmp_path, 2, 600, cold=True)
        try:
            wait_for(server, 2)
            first.send_signal(signal.SIGSTOP)
            server.always = {"delay": 0.01, **REPLY}
            second = started(BESIDE, server.url, tmp_path, 2, 0.5)
            out, err = second.communicate(timeout=300)
            assert out.strip() == "6 set() 6", err
        finally:
            first.kill()
            first.communicate()
