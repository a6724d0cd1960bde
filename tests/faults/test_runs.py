"""What may happen to a run from outside: killed runners and guards, a full disk, a database that goes away."""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres import stoppable_server, tools

from evalkit.errors import RegistryError

pytest.importorskip("sqlalchemy")

from run_setup import WAIT_S, begin, heard, left_running, pack, processes_of, runner_of, wait_for

from evalkit.runs.processes.run_owner import Owner
from evalkit.runs.registry import Registry
from evalkit.runs.run.run_store import Ending

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")

_PROCESSES = multiprocessing.get_context("forkserver")
# by names that need no path of pytest's: the server of Python 3.11 has not got it, and leaves out what it cannot import
_PROCESSES.set_forkserver_preload(["evalkit.runs", "evalkit.rubrics", "sqlalchemy.orm"])


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


def test_only_a_process_that_is_known_to_have_ended_is_dead(registry: Registry, tmp_path: Path) -> None:
    runner, here = runner_of(registry, tmp_path), Owner.here()
    rebooted = dataclasses.replace(here, boot="another-boot/pid:[1]")
    unknown = [Owner("another-host", here.boot, here.pid, "0"),
               dataclasses.replace(here, boot=f"{here.boot.partition('/')[0]}/pid:[1]")]  # fmt: skip
    alive = [here, *unknown, *([] if registry.database.is_sqlite else [rebooted])]
    for owner in alive:
        left_running(runner, owner=owner)
    assert runner.recover() == [], "alive, of another machine or container, or of a database that machines share"
    dead = [dataclasses.replace(here, started="0"), *([rebooted] if registry.database.is_sqlite else [])]
    ids = {left_running(runner, owner=owner).id for owner in dead}
    found = runner.recover()
    assert {run.id for run in found} == ids
    assert all(run.status == "failed" and "ended without closing it" in str(run.error) for run in found)
    assert runner.recover() == []


def test_a_run_that_another_process_closed_stops(registry: Registry, tmp_path: Path) -> None:
    runner = runner_of(registry, tmp_path)

    def close(line: str) -> None:
        if "step 1" in line:
            assert runner.store.close(runner.run("last").id, Ending("failed", "somebody closed it"))

    run = runner.start("support", "model_name=m,sleep=60", on_line=close)
    assert (run.status, run.error) == ("failed", "somebody closed it"), "the first ending stands"
    assert processes_of(run.id) == []


def test_a_stubborn_lighteval_is_killed(registry: Registry, tmp_path: Path) -> None:
    runner = runner_of(registry, tmp_path)
    run = runner.start(
        "support", "model_name=m,sleep=60,stubborn=1",
        on_line=lambda line: runner.cancel("last") if "step 1" in line and "cancel" not in line else None,
    )  # fmt: skip
    assert run.status == "cancelled"
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
        RegistryError, match=r"has ended \(succeeded\), but the registry cannot store this: .*; start the run again"
    ):
        runner.start("support", "model_name=m,sleep=1", on_line=stop)
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1"):
        runner.start("support", "model_name=m")
    stoppable.start()
    run = runner.store.run("last")
    assert run.status == "running", "the row could not be written, and its process, this one, is alive"
    assert runner.cancel(run.id).status == "cancelled"
    assert len(runner.store.runs()) == 1

    def restart(line: str) -> None:
        if "step 1" in line:
            stoppable.stop()
            stoppable.start()

    patient = runner_of(registry, tmp_path, patience_s=20.0)
    assert patient.start("support", "model_name=m,sleep=1", on_line=restart).status == "succeeded"
    registry.close()
