"""No process of a run outlives who waits for it: Ctrl-C, a second one, a killed kernel."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from places import ROOT
from servers import judge_server
from warm_process import WarmProcess

pytest.importorskip("lighteval")

from evalkit.engine.cache.sqlite_schema import FILE_NAME
from evalkit.lighteval.lighteval_main import launch

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups of POSIX")

CHILD = """
import signal, subprocess, sys, time

def stop(*_):
    raise KeyboardInterrupt

signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in sys.argv else stop)
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
inner = subprocess.Popen([sys.executable, "-c", deaf])
print("pids", __import__("os").getpid(), inner.pid, flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    print("kept what was paid for", flush=True)
"""
PARENT = """
import os, signal, sys
from pathlib import Path
from evalkit.runs.processes.child_process import Child

signal.signal(signal.SIGINT, signal.default_int_handler)
with Child([sys.executable, *sys.argv[2:]], os.environ, Path(sys.argv[1]), grace_s=100) as child:
    for _ in child.follow():
        pass
"""


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waits to be taken note of."""
    try:
        state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
    except subprocess.CalledProcessError:
        return False
    return not state.strip().startswith("Z")


def wait_for(what: object, seconds: float = 300.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():  # type: ignore[operator]
            return True
        time.sleep(0.1)
    return False


@contextmanager
def started(folder: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int], Path]]:
    """A parent that waits for a run, with the pids of the run and of what that has started."""
    (folder / "child.py").write_text(CHILD)
    (folder / "parent.py").write_text(PARENT)
    log = folder / "run.log"
    parent = subprocess.Popen(
        [sys.executable, str(folder / "parent.py"), str(log), str(folder / "child.py"), *words],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pids: list[int] = []
    try:
        assert wait_for(lambda: log.is_file() and "pids" in log.read_text())
        pids = [int(word) for word in log.read_text().split("pids")[1].split()[:2]]
        yield parent, pids, log
    finally:
        for pid in (parent.pid, *pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        parent.wait()


def test_ctrl_c_ends_the_run_and_what_it_started(tmp_path):
    with started(tmp_path) as (parent, pids, log):
        parent.send_signal(signal.SIGINT)
        parent.wait(300)
        assert not any(map(is_running, pids))
        assert parent.returncode != 0
        assert "kept what was paid for" in log.read_text()


def test_a_second_ctrl_c_waits_for_nothing(tmp_path):
    with started(tmp_path, "deaf") as (parent, pids, _):
        parent.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert is_running(pids[0]), "it is deaf to the first"
        parent.send_signal(signal.SIGINT)
        parent.wait(80)  # less than the grace that the first has
        assert not any(map(is_running, pids))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_a_run_ends_with_the_kernel_that_was_killed(number, tmp_path):
    with started(tmp_path) as (parent, pids, _):
        parent.send_signal(number)
        parent.wait(300)
        assert wait_for(lambda: not is_running(pids[0]))


POLLUX = """
import os, sys
os.environ |= {"EVALUATOR_SCORING_MODE": "judge", "EVALKIT_CACHE": sys.argv[2]}
import evalkit as ek
from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc
from evalkit.lighteval import pollux_metric
criteria = {name: ek.Criterion.from_pollux(name, {0: "no", 1: "fair", 2: "yes"}) for name in ("clear", "short")}
judge = ek.Judge("openai", "m", base_url=sys.argv[1], timeout_s=600)
metric = pollux_metric(criteria, judges=judge, samples=1, concurrency=4)
docs = [Doc(query="?", choices=[""], gold_index=0, specific={"criteria": list(criteria)}) for _ in range(30)]
for doc in docs:
    doc.task_name = "t"
metric.sample_level_fn.compute([ModelResponse(text=[f"ITEM-{n} "]) for n in range(30)], docs)
"""


@pytest.mark.parametrize(
    ("number", "codes"), [(signal.SIGTERM, (143,)), pytest.param(signal.SIGINT, (1, 130, -signal.SIGINT))]
)
def test_a_signal_stops_all_criteria_and_keeps_what_is_in_flight(
    tmp_path: Path, warm_lighteval: WarmProcess, number: signal.Signals, codes: tuple[int, ...]
) -> None:
    """Criteria are judged in threads, which no signal reaches."""
    going = threading.Event()

    def held(_: object) -> dict[str, object]:
        return {"hang": 600} if going.is_set() else {"until": going, "content": "1"}

    with judge_server(faults=held) as server:
        child = subprocess.Popen(
            warm_lighteval.command("-c", POLLUX, server.url, str(tmp_path / "cache")),
            stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            assert wait_for(lambda: len(server.seen) >= 4 or child.poll() is not None)
            child.send_signal(number)
            assert child.stderr is not None
            said = ""
            while "stopped; waiting for the replies of calls in flight" not in said and (
                line := child.stderr.readline()
            ):
                said += line
            going.set()
            rest = child.communicate(timeout=300)[1]  # what is sent from now on would come after ten minutes
        finally:
            child.kill()
            child.wait()
        assert child.returncode in codes, said + rest
        assert len(server.paid) >= 4
        with closing(sqlite3.connect(tmp_path / "cache" / FILE_NAME)) as store:
            assert store.execute("SELECT count(DISTINCT key) FROM replies").fetchone()[0] == len(server.paid)


@pytest.mark.parametrize(("code", "given"), [(143, 143), (129, 129), (1, 2), (None, 0), ("a text", 2)])
def test_a_run_that_a_signal_ends_has_its_exit_code(monkeypatch: pytest.MonkeyPatch, code: object, given: int) -> None:
    def app(*_: object, **__: object) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("evalkit.lighteval.patches.prepare", lambda *, reuse_answers: None)
    monkeypatch.setattr("lighteval.__main__.app", app)
    assert launch(["tasks", "list"]) == given
