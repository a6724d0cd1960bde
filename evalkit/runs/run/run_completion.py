"""Writes the end of a run into the registry, with retries while the registry cannot be reached."""

from __future__ import annotations

import time

from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, SQLAlchemyError

from evalkit.core.printable_text import one_line
from evalkit.errors import RegistryError
from evalkit.runs.run.run_database_rows import Ending
from evalkit.runs.run.run_store import RunStore

_LONGEST_PAUSE_S = 5.0


def close_run(store: RunStore, run_id: str, ending: Ending, patience_s: float) -> None:
    """Close a run's row; as failed if the database rejects the results.

    Raises
    ------
    RegistryError
        When the database is unreachable or full for `patience_s` seconds.
    """
    deadline, pause = time.monotonic() + patience_s, 0.1
    while True:
        try:
            store.close(run_id, ending)
        except RegistryError as problem:
            if _is_refused(problem):
                ending = Ending("failed", one_line(f"its results cannot be stored: {problem}"))
            elif time.monotonic() + pause >= deadline:
                raise RegistryError(
                    f"run {run_id} has ended ({ending.status}), but the registry cannot store this: {problem}; start "
                    "the run again, which calls neither model nor judges for answers and replies that are stored"
                ) from problem
            else:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            continue
        return


def _is_refused(problem: RegistryError) -> bool:
    """Whether a retry cannot help: a name that is too long, characters that the database does not accept."""
    cause, passing = problem.__cause__, (OperationalError, InterfaceError, InternalError)
    return isinstance(cause, (SQLAlchemyError, UnicodeError)) and not isinstance(cause, passing)
