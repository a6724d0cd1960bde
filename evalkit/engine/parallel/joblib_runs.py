"""Parts of work under joblib, here or on a cluster; started again when a dead worker ends all of them."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from evalkit._version import __version__
from evalkit.errors import EvalkitError, EvalkitWarning, MissingExtraError

P = TypeVar("P")
R = TypeVar("R")

_STALLED = 2  # a worker may die before any part is finished, but not each time
_MISSING = re.compile(r"No module named '(\w+)")


def run_parts(
    work: Callable[[P], R], parts: Callable[[], Iterable[P]], n_jobs: int | None, n_finished: Callable[[], int], *,
    repeat: bool,
) -> list[R]:  # fmt: skip
    """The results of all parts, under the backend that joblib's configuration names.

    joblib's own processes and Ray end the whole run when a worker dies. Then all parts are started again (`work`
    recognizes finished ones) as long as `n_finished` grows, unless `repeat` is False.

    Raises
    ------
    MissingExtraError
        If the workers lack a module.
    Exception
        The backend's own error, if two attempts in a row finished no part.
    """
    from joblib import Parallel, delayed

    pickled, before, stalled = _pickled(work), 0, 0
    while True:
        try:
            with Parallel(n_jobs=n_jobs) as parallel:
                if pickled:  # what a worker cannot load is an error here; as a task, Dask would send it for ever
                    parallel([delayed(pickle.loads)(pickled)])
                return list(parallel(delayed(work)(part) for part in parts()))
        except (EvalkitError, pickle.PicklingError):
            raise
        # a backend's own error: its worker died, and there is no common type for that
        except Exception as problem:
            if module := _missing_module(problem):
                raise MissingExtraError(_advice(module)) from problem
            finished = n_finished()
            stalled, before = 0 if finished > before else stalled + 1, finished
            if stalled == _STALLED or not repeat:
                raise
            text = next(iter(str(problem).splitlines()), "")
            fact = f"joblib ended the run ({type(problem).__name__}: {text})"
            warnings.warn(f"{fact}; evalkit starts the unfinished parts again", EvalkitWarning, stacklevel=3)


def _pickled(work: object) -> bytes | None:
    """The work as backends send it to workers; None if that fails, which threads and this process do not mind."""
    from joblib.externals.loky.backend.reduction import dumps

    try:
        return bytes(dumps(work))
    except Exception:  # noqa: BLE001 - whatever a judge's function holds raises its own error
        return None


def _missing_module(problem: BaseException | None) -> str | None:
    """The module that a worker could not import; backends pass that error on as text or as a cause."""
    problems: list[Any] = []
    while problem is not None and problem not in problems:
        if match := _MISSING.search(str(problem)):
            return match[1]
        problems.append(problem)
        problem = problem.__cause__ or problem.__context__
    return None


def _advice(module: str) -> str:
    if module == "evalkit":
        return f"evalkit is not installed on the workers; install evalkit-jury {__version__} on each of them"
    fact = f"the workers cannot import {module!r}"
    return f"{fact}; install it on each of them or, if it is your own file, add its folder to their PYTHONPATH"
