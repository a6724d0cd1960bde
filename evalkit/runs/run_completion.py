"""Writes the end of a run into the registry, or into its folder while the registry cannot be reached."""

from __future__ import annotations

import json
import time
from pathlib import Path

from sqlalchemy.exc import InterfaceError, InternalError, OperationalError, SQLAlchemyError

from evalkit.core.files import whole
from evalkit.core.printable_text import one_line
from evalkit.errors import EvalkitError, RegistryError
from evalkit.runs.run_database_rows import Ending
from evalkit.runs.run_results import read_findings
from evalkit.runs.run_store import RunStore

OUTCOME = "outcome.json"
"""File in the run's folder with its end, if the registry could not be reached."""

_LONGEST_PAUSE_S = 5.0


def close_run(store: RunStore, folder: Path, run_id: str, ending: Ending, patience_s: float) -> None:
    """Write the ending, with retries while the database is unreachable; then keep it in the run's folder.

    Raises
    ------
    RegistryError
        When the database is unreachable for `patience_s` seconds; the message has the path of the outcome.
    """
    deadline, pause = time.monotonic() + patience_s, 0.1
    while True:
        try:
            store_ending(store, run_id, ending)
        except RegistryError as problem:
            if time.monotonic() + pause < deadline:
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                continue
            place = folder / OUTCOME
            place.parent.mkdir(parents=True, exist_ok=True)
            kept = {"status": ending.status, "error": ending.error, "exit_code": ending.exit_code}
            with whole(place) as out:
                out.write(json.dumps(kept).encode())
            raise RegistryError(
                f"run {run_id} has ended ({ending.status}), but the registry cannot store this: {problem}; the "
                f"outcome is kept in {place}, and the next `evalkit run` command on this machine stores it"
            ) from problem
        return


def store_ending(store: RunStore, run_id: str, ending: Ending) -> bool:
    """Close a run's row; as failed if the database rejects the results.

    Raises
    ------
    RegistryError
        When the database is unreachable or full.
    """
    try:
        return store.close(run_id, ending)
    except RegistryError as problem:
        if not _is_refused(problem):
            raise
        return store.close(run_id, Ending("failed", one_line(f"its results cannot be stored: {problem}")))


def _is_refused(problem: RegistryError) -> bool:
    """Whether a retry cannot help: a name that is too long, characters that the database does not accept."""
    cause, passing = problem.__cause__, (OperationalError, InterfaceError, InternalError)
    return isinstance(cause, (SQLAlchemyError, UnicodeError)) and not isinstance(cause, passing)


def kept_ending(store: RunStore, folder: Path, run_id: str) -> Ending | None:
    """The ending that was kept in the run's folder; None if there is none."""
    try:
        kept = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
        if kept["status"] == "succeeded":
            return read_findings(store.run(run_id))
        return Ending(kept["status"], kept["error"], kept["exit_code"])
    except EvalkitError as problem:
        return Ending("failed", str(problem))
    except (OSError, ValueError, KeyError):  # missing, truncated, or written by another program
        return None
