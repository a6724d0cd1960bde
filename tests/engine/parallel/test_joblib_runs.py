"""Parts under joblib: started again while that helps, and workers that lack a module named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from pickle import PicklingError

import joblib
import pandas as pd
import pytest
from joblib.externals.loky import get_reusable_executor

import evalkit as ek
from evalkit.engine.parallel.judging_files import run_parts
from evalkit.errors import EvalkitWarning, MissingExtraError


class Deaths:
    """Work on numbers that dies at the first visit of each number in `at`; with `always`, at every visit."""

    def __init__(self, *at: int, always: bool = False, error: Exception | None = None) -> None:
        self.at, self.always, self.error = list(at), always, error or RuntimeError("a worker died")
        self.done: set[int] = set()
        self.visits = 0

    def __call__(self, number: int) -> int:
        self.visits += 1
        if number in self.at:
            if not self.always:
                self.at.remove(number)
            raise self.error
        self.done.add(number)
        return number * number

    def run(self, n: int = 8, *, repeat: bool = True) -> list[int]:
        return run_parts(self, lambda: range(n), None, lambda: len(self.done), repeat=repeat)


def test_without_deaths_each_part_is_done_once() -> None:
    work = Deaths()
    assert work.run() == [0, 1, 4, 9, 16, 25, 36, 49]
    assert work.visits == 8


@pytest.mark.filterwarnings("ignore:joblib ended the run")
def test_a_run_that_makes_progress_is_started_again_as_often_as_workers_die() -> None:
    # each of the numbers 1 to 7 ends one attempt, after the one before it was finished
    assert Deaths(1, 2, 3, 4, 5, 6, 7).run() == [0, 1, 4, 9, 16, 25, 36, 49]


def test_one_attempt_that_finishes_nothing_is_repeated_and_said() -> None:
    work = Deaths(0)
    with pytest.warns(EvalkitWarning, match=r"RuntimeError: a worker died.; evalkit starts the unfinished parts again"):
        assert work.run(2) == [0, 1]


@pytest.mark.parametrize(
    ("work", "repeat", "n_visits"),
    [
        (Deaths(0, always=True), True, 2),  # two attempts that finish nothing
        (Deaths(2, always=True), True, 9),  # 0, 1, 2: progress; twice more: none
        (Deaths(1), False, 2),  # an iterator cannot be read again
        (Deaths(1, error=PicklingError("cannot pickle a lock")), True, 2),
    ],
)
@pytest.mark.filterwarnings("ignore:joblib ended the run")
def test_what_another_attempt_does_not_help_is_raised(work: Deaths, repeat: bool, n_visits: int) -> None:
    with pytest.raises(type(work.error), match=str(work.error)):
        work.run(repeat=repeat)
    assert work.visits == n_visits


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("evalkit.engine", f"evalkit is not installed on the workers; install evalkit-jury {ek.__version__} on each"),
        ("my_judges", "the workers cannot import 'my_judges'; install it on each of them or, if it is your own file"),
    ],
)
def test_a_module_that_workers_lack_is_named(module: str, message: str) -> None:
    error = RuntimeError("A task has failed to un-serialize")
    error.__cause__ = ValueError(f"Traceback …\nModuleNotFoundError: No module named '{module}'")
    work = Deaths(1, error=error)
    with pytest.raises(MissingExtraError, match=message):
        work.run()
    assert work.visits == 2, "no second attempt"


BLOCKED = """
import importlib.abc, sys
class Gone(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "evalkit":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
"""


@pytest.fixture
def workers_without_evalkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Python processes that start now cannot import evalkit."""
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked" / "sitecustomize.py").write_text(BLOCKED)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "blocked"), *filter(None, sys.path)]))
    get_reusable_executor().shutdown(wait=True)
    yield
    get_reusable_executor().shutdown(wait=True)


def judged(out: Path) -> None:
    items = pd.DataFrame([{"question": f"{i} + 1?", "answer": "1", "reference": "1"} for i in range(8)])
    ek.judge_files(items, "correctness", "fake:strict", out=out, rows=2)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # a worker that cannot read its task ends with others' resources open
def test_processes_without_evalkit_are_told_from_dead_ones(workers_without_evalkit: None, tmp_path: Path) -> None:
    with (
        joblib.parallel_config("loky", n_jobs=2),
        pytest.raises(MissingExtraError, match="evalkit is not installed on the workers"),
    ):
        judged(tmp_path / "out")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_without_evalkit_is_named(workers_without_evalkit: None, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**local, local_directory=tmp_path / "dask") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
        pytest.raises(MissingExtraError, match="evalkit is not installed on the workers"),
    ):
        judged(tmp_path / "out")


def test_a_backend_that_is_not_registered_is_named_at_the_users_line() -> None:
    with pytest.raises(ValueError, match="Invalid backend: ray"), joblib.parallel_config("ray", n_jobs=-1):
        pass
