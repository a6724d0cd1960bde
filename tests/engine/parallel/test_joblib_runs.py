"""Parts under joblib: a dead worker ends the run, and a module that workers lack is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from pickle import PicklingError

import joblib
import pandas as pd
import pytest
from dask_workers import dask_workers
from joblib.externals.loky import get_reusable_executor

import evalkit as ek
from evalkit.engine.parallel.judging_files import run_parts
from evalkit.errors import MissingExtraError

NOTE = "evalkit: finished parts are kept; make the same call again to judge the others"


class Deaths:
    """Work on numbers that dies at one of them."""

    def __init__(self, at: int | None, error: Exception | None = None) -> None:
        self.at, self.error = at, error or RuntimeError("a worker died")
        self.visits = 0

    def __call__(self, number: int) -> int:
        self.visits += 1
        if number == self.at:
            raise self.error
        return number * number

    def run(self) -> list[int]:
        return run_parts(self, range(8), None)


def test_without_deaths_each_part_is_done_once() -> None:
    work = Deaths(None)
    assert work.run() == [0, 1, 4, 9, 16, 25, 36, 49]
    assert work.visits == 8


@pytest.mark.parametrize(
    ("error", "notes"),
    [
        (RuntimeError("a worker died"), [NOTE]),
        (PicklingError("cannot pickle a lock"), []),
    ],
)  # fmt: skip
def test_the_backends_own_error_says_that_the_same_call_goes_on(error: Exception, notes: list[str]) -> None:
    work = Deaths(2, error)
    with pytest.raises(type(error), match=str(error)) as failure:
        work.run()
    assert getattr(failure.value, "__notes__", []) == notes
    assert work.visits == 3


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
    work = Deaths(1, error)
    with pytest.raises(MissingExtraError, match=message):
        work.run()


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
    with dask_workers(tmp_path), pytest.raises(MissingExtraError, match="evalkit is not installed on the workers"):
        judged(tmp_path / "out")


def test_a_backend_that_is_not_registered_is_named_at_the_users_line() -> None:
    with pytest.raises(ValueError, match="Invalid backend: ray"), joblib.parallel_config("ray", n_jobs=-1):
        pass
