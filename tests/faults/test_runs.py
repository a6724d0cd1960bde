"""What may happen to a run from outside: killed runners, guards and workers, a full disk, a database that goes away."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import stoppable_server, tools

from evalkit.errors import ConfigError, RegistryError

pytest.importorskip("alembic")

from run_setup import (
    WAIT_S,
    begin,
    bound,
    heard,
    make_plugin,
    pack,
    processes_of,
    runner_of,
    wait_for,
    work,
)

from evalkit.runs import Runner, Worker
from evalkit.runs.registry import Registry
from evalkit.runs.run_owner import Owner
from evalkit.runs.run_store import RunStore

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")

_PROCESSES = multiprocessing.get_context("forkserver")
# by names that need no path of pytest's: the server of Python 3.11 has not got it, and leaves out what it cannot import
_PROCESSES.set_forkserver_preload(["evalkit.runs", "evalkit.rubrics", "alembic.command", "sqlalchemy.orm"])


@pytest.fixture
def registry(database_url: str) -> Iterator[Registry]:
    opened = Registry.open(database_url)
    opened.apply_pack(pack())
    yield opened
    opened.close()


@pytest.fixture
def spawn() -> Iterator[Callable[..., Any]]:
    """Starts a process; those that still run at the end of the test are killed by their ids."""
    started: list[Any] = []

    def start(target: Callable[..., None], *args: Any, **options: Any) -> Any:
        process = _PROCESSES.Process(target=target, args=args, kwargs=options)
        process.start()
        started.append(process)
        return process

    yield start
    for process in started:
        if process.is_alive():
            process.kill()
        process.join(WAIT_S)


def first_heard(folder: Path) -> str:
    """The id of the first run that a process told of."""
    return str(wait_for(lambda: heard(folder / "begun"))[0][0])


def test_twenty_runs_killed_at_random_moments(
    database_url: str, registry: Registry, tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    draw, alive = random.Random(20), 0
    for number in range(1, 5):  # five at a time
        models = ["model_name=m,sleep=60,child=1"] * 2 + [f"model_name=m,sleep={draw.choice([0, 0.1, 0.3])}"] * 3
        processes = [spawn(begin, database_url, tmp_path, model) for model in models]
        wait_for(lambda wanted=5 * number: len(heard(tmp_path / "begun")) == wanted)
        for process in draw.sample(processes, len(processes)):
            time.sleep(draw.uniform(0, 0.15))
            process.kill()
        for process in processes:
            process.join(WAIT_S)
            alive += process.exitcode == -signal.SIGKILL
    assert alive >= 8, "the long ones were killed for sure"
    runner = runner_of(registry, tmp_path)
    last = runner.start("support", "model_name=after")
    runs = runner.store.runs()
    assert len(runs) == 21, "no row is lost or doubled"
    assert {run.status for run in runs} <= {"succeeded", "failed"}, "no run is left running"
    assert last.status == "succeeded"
    long = [run for run in runs if "sleep=60" in run.model]
    assert len(long) == 8
    for run in long:
        assert run.error is not None
        assert "ended without closing it" in run.error
    for run in runs:
        assert processes_of(run.id) == [], "LightEval never outlives its runner"
        assert len(run.scores) == (3 if run.status == "succeeded" else 0)


def test_a_killed_guard_and_a_killed_lighteval_end_the_run(registry: Registry, tmp_path: Path) -> None:
    runner = runner_of(registry, tmp_path)

    def kill(which: str) -> Callable[[str], None]:
        def on_line(line: str) -> None:
            if "step 1" in line:
                for pid, words in processes_of(runner.store.run("last").id):
                    if (which in words) and ("process_guard.py" in words) == (which == "process_guard.py"):
                        os.kill(pid, signal.SIGKILL)

        return on_line

    for which in ("process_guard.py", "fake_lighteval.py"):
        run = runner.start("support", "model_name=m,sleep=60,child=new", on_line=kill(which))
        assert run.status == "failed", which
        assert run.error is not None
        assert "LightEval was killed by signal 9" in run.error
        assert processes_of(run.id) == [], "nor does what it started stay, in whatever session"


def test_runner_and_guard_killed_together_leave_nothing_at_the_next_start(
    database_url: str, registry: Registry, tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    process = spawn(begin, database_url, tmp_path, "model_name=m,sleep=60,child=1")
    run_id = first_heard(tmp_path)
    found = wait_for(
        lambda: [one for one in processes_of(run_id) if "time.sleep(600)" in one[1]] and processes_of(run_id)
    )
    both = [process.pid, *(pid for pid, words in found if "process_guard.py" in words)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first, so that neither acts on the end of the other
        for pid in both:
            os.kill(pid, number)
    process.join(WAIT_S)
    assert processes_of(run_id), "nobody is left who could end them"
    assert [run.status for run in runner_of(registry, tmp_path).recover()] == ["failed"]
    wait_for(lambda: not processes_of(run_id))


def test_a_stubborn_lighteval_is_killed(registry: Registry, tmp_path: Path) -> None:
    runner = runner_of(registry, tmp_path)
    run = runner.start(
        "support", "model_name=m,sleep=60,stubborn=1",
        on_line=lambda line: runner.cancel("last") if "step 1" in line and "cancel" not in line else None,
    )  # fmt: skip
    assert run.status == "cancelled"
    assert processes_of(run.id) == []


def test_four_workers_on_one_queue_with_fifty_runs(
    database_url: str, registry: Registry, tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    runner = runner_of(registry, tmp_path)
    queued = [runner.queue("support", f"model_name=m{number}").id for number in range(50)]
    workers = [spawn(work, database_url, tmp_path, once=True) for _ in range(4)]
    for worker in workers:
        worker.join(WAIT_S * 2)
        assert worker.exitcode == 0
    taken = [run_id for run_id, status, *_ in heard(tmp_path / "begun") if status == "running"]
    assert sorted(taken) == sorted(queued), "each was taken once"
    runs = runner.store.runs()
    assert [run.id for run in runs] == queued
    assert {run.status for run in runs} == {"succeeded"}
    assert {len(run.artifacts["attempts"]) for run in runs} == {1}
    assert {len(run.scores) for run in runs} == {3}


def test_the_run_of_a_dead_worker_is_taken_over_once(
    database_url: str, registry: Registry, tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    runner = runner_of(registry, tmp_path)
    run_id = runner.queue("support", "model_name=m,sleep=60,child=1").id
    for number, wanted in enumerate(("queued", "failed"), 1):
        worker = spawn(work, database_url, tmp_path, once=False)
        wait_for(lambda wanted=number: len(heard(tmp_path / "begun")) == wanted)
        worker.kill()
        worker.join(WAIT_S)
        assert [(run.id, run.status) for run in runner.recover()] == [(run_id, wanted)]
        assert runner.recover() == [], "once"
    run = runner.store.run(run_id)
    assert run.error is not None
    assert run.error.endswith("it failed on two workers")
    assert len(run.artifacts["attempts"]) == 2
    assert "failed on two workers" in str(run)
    assert "attempts: " in str(run)


def test_who_comes_late_to_a_dead_workers_run_leaves_its_new_owner_alone(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two saw the death; one took the run over and has LightEval at work by the time the other clears up."""
    runner, here = runner_of(registry, tmp_path), Owner.here()
    run_id = runner.queue("support", "model_name=m").id
    dead = Owner(here.host, here.boot, here.pid, "0", "dead0000")
    assert runner.store.claim(dead) == run_id
    sleepers = []

    def start(nonce: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {"EVALKIT_RUN_ID": run_id, "EVALKIT_RUN_OWNER": nonce}
        sleepers.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=environment))
        return sleepers[-1]

    left, stale = start(dead.nonce), runner.store.stale

    def seen() -> list[tuple[str, Owner]]:
        found = stale()
        assert runner.store.give_up(run_id, dead) == "queued"
        assert runner.store.claim(here) == run_id
        start(here.nonce)
        wait_for(lambda: len(processes_of(run_id)) == 2)
        return found

    monkeypatch.setattr(runner.store, "stale", seen)
    try:
        assert runner.recover() == []
        assert left.wait(WAIT_S) == -signal.SIGKILL
        assert sleepers[1].poll() is None, "that of the new owner goes on"
        assert [pid for pid, _ in processes_of(run_id)] == [sleepers[1].pid]
        assert runner.store.beat(run_id, here) == "going"
    finally:
        for sleeper in sleepers:
            sleeper.kill()
            sleeper.wait()


def test_sigterm_queues_the_run_again_and_another_worker_ends_it(
    database_url: str, registry: Registry, tmp_path: Path, spawn: Callable[..., Any]
) -> None:
    runner = runner_of(registry, tmp_path)
    mark = tmp_path / "fast"
    run_id = runner.queue("support", f"model_name=m,slow_unless={mark}").id
    worker = spawn(work, database_url, tmp_path, once=False)
    assert first_heard(tmp_path) == run_id
    wait_for(lambda: processes_of(run_id))
    worker.terminate()
    worker.join(WAIT_S)
    assert worker.exitcode == 0
    run = runner.store.run(run_id)
    assert (run.status, run.started_at, processes_of(run_id)) == ("queued", None, [])
    mark.touch()
    assert Worker(runner).work(once=True) == 1
    done = runner.store.run(run_id)
    assert (done.status, len(done.artifacts["attempts"])) == ("succeeded", 2)
    assert done.output.name == "attempt-2", "what the first attempt left is not read"


def test_an_owner_elsewhere_is_gone_when_its_heartbeat_is_old(registry: Registry, tmp_path: Path) -> None:
    runner = runner_of(registry, tmp_path, stale_s=30)
    run_id = runner.queue("support", "model_name=m").id
    elsewhere = Owner("another-host", "boot", 1, "2", "nonce")
    assert runner.store.claim(elsewhere) == run_id
    assert runner.recover() == [], "its heartbeat is young"
    assert RunStore(registry, stale_s=-1).stale() == [(run_id, elsewhere)]
    here = Owner.here()
    assert RunStore(registry, stale_s=30).beat(run_id, here) == "lost", "it is not this process's run"
    from evalkit.runs.run_database_rows import Ending

    assert not runner.store.close(run_id, here, Ending("succeeded"))
    assert runner.store.run(run_id).status == "running"
    rebooted = Owner(here.host, "another boot", here.pid, here.started, "n")
    recycled = Owner(here.host, here.boot, here.pid, "0", "n")
    assert (here.is_gone(), rebooted.is_gone(), recycled.is_gone(), elsewhere.is_gone()) == (False, False, True, False)
    # a machine of that name, started at another time or seen from another container: its heartbeat tells
    assert (here.is_near(), rebooted.is_near(), recycled.is_near()) == (True, False, True)


def test_a_runner_that_lost_its_run_stops(registry: Registry, tmp_path: Path) -> None:
    runner = runner_of(registry, tmp_path)

    def steal(line: str) -> None:
        if "step 1" in line:
            run_id, owner = RunStore(registry, stale_s=-1).stale()[0]
            assert runner.store.give_up(run_id, owner) == "failed"
            assert runner.store.give_up(run_id, owner) is None

    run = runner.start("support", "model_name=m,sleep=60", on_line=steal)
    assert run.status == "failed"
    assert run.error is not None
    assert "ended without closing it" in run.error, "the first ending stands"
    assert processes_of(run.id) == []


def test_a_full_disk(registry: Registry, database_url: str, tmp_path: Path, spawn: Callable[..., Any]) -> None:
    # no file of the runner or of LightEval may grow beyond this any more
    process = spawn(begin, database_url, tmp_path, "model_name=m,sleep=0.2", file_size=10)
    run_id = first_heard(tmp_path)
    process.join(WAIT_S)
    found = runner_of(registry, tmp_path).start("support", "model_name=after")
    assert found.status == "succeeded"
    run = runner_of(registry, tmp_path).store.run(run_id)
    assert run.status == "failed"
    assert run.error


def test_a_folder_that_cannot_be_made_closes_the_run(registry: Registry, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in the way")
    run = runner_of(registry, tmp_path).start("support", "model_name=m")
    assert run.status == "failed"
    assert run.error is not None
    assert "Not a directory" in run.error or "File exists" in run.error


def test_a_plugin_that_changed_while_its_run_waited(registry: Registry, tmp_path: Path) -> None:
    package = make_plugin(tmp_path)
    registry.register_plugin("tone", "1", str(package))
    registry.apply_pack(pack(bound("tone"), name="bound"))
    runner = runner_of(registry, tmp_path)
    run_id = runner.queue("bound", "model_name=m").id
    (package / "__init__.py").write_text("TASKS_TABLE = [5]\n")
    assert Worker(runner).work(once=True) == 1
    run = runner.store.run(run_id)
    assert run.status == "failed"
    assert run.error is not None
    assert "plugin tone@1 changed since it was registered" in run.error
    assert not run.log.exists(), "nothing was started"
    with pytest.raises(ConfigError, match="changed since it was registered"):
        runner.start("bound", "model_name=m")


REFUSED = ["x" * 300, "aNULb"]


@pytest.mark.parametrize("metric", REFUSED, ids=["too long", "nul"])
def test_figures_that_the_database_refuses_fail_the_run_and_block_nobody(
    registry: Registry, tmp_path: Path, metric: str
) -> None:
    runner = runner_of(registry, tmp_path)
    run = runner.start("support", f"model_name=m,metric={metric}")
    if registry.database.is_sqlite:
        assert run.status == "succeeded", "SQLite takes any text"
        return
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.startswith("its results cannot be stored: registry postgresql")
    assert run.error.isprintable()
    assert run.scores == ()
    # the same, where it is a later command that takes the outcome in
    other = runner.queue("support", f"model_name=m,metric={metric}")
    gone = Owner.here()
    gone = Owner(gone.host, gone.boot, gone.pid, "0", gone.nonce)
    assert runner.store.claim(gone) == other.id
    assert runner.store.note(other.id, gone, folder=str(runner.folder / other.id))
    (runner.folder / other.id).mkdir()
    (runner.folder / run.id / "attempt-1").rename(runner.folder / other.id / "attempt-1")
    (runner.folder / other.id / "outcome.json").write_text('{"status": "succeeded", "error": null, "exit_code": 0}')
    assert [(one.id, one.status) for one in runner.recover()] == [(other.id, "failed")]
    assert "its results cannot be stored" in str(runner.run(other.id).error)
    assert runner.start("support", "model_name=after").status == "succeeded"


@pytest.fixture
def stoppable() -> Iterator[Any]:
    if tools() is None:
        pytest.skip("no PostgreSQL on this machine (Debian: apt install postgresql)")
    pytest.importorskip("psycopg")
    with stoppable_server() as server:
        yield server


def test_a_database_that_goes_away_in_the_middle(stoppable: Any, tmp_path: Path) -> None:
    registry = Registry.open(stoppable.url)
    registry.apply_pack(pack())
    runner = runner_of(registry, tmp_path, patience_s=1.0)

    def stop(line: str) -> None:
        if "step 1" in line:
            stoppable.stop()

    with pytest.raises(
        RegistryError,
        match=r"has ended \(succeeded\), but the registry cannot store this: .* the outcome is kept in .*outcome",
    ):
        runner.start("support", "model_name=m,sleep=1", on_line=stop)
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1"):
        runner.start("support", "model_name=m")
    stoppable.start()
    run = runner.store.run("last")
    assert run.status == "running", "the row could not be written"
    kept = json.loads((run.folder / "outcome.json").read_text())
    assert kept["status"] == "succeeded"
    # its process is this one, which is alive and holds nothing any more: as if it had ended
    late = Runner(registry, folder=tmp_path / "runs", stale_s=-1)
    assert [(one.id, one.status, len(one.scores)) for one in late.recover()] == [(run.id, "succeeded", 3)]
    assert not (run.folder / "outcome.json").exists()
    assert len(runner.store.runs()) == 1

    def restart(line: str) -> None:
        if "step 1" in line:
            stoppable.stop()
            stoppable.start()

    patient = runner_of(registry, tmp_path, patience_s=20.0)
    assert patient.start("support", "model_name=m,sleep=1", on_line=restart).status == "succeeded"
    registry.close()
