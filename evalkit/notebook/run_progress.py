"""How far a run is, read from its row, its log and its receipts: whoever started it, and wherever the kernel went."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from evalkit.errors import ConfigError, RegistryError
from evalkit.runs import Run, Runner
from evalkit.runs.child_process import Tail
from evalkit.runs.contract import read_receipts
from evalkit.runs.contract.task_bindings import task_name
from evalkit.runs.run_results import RECEIPTS

__all__ = ["Follower"]

_EVERY_S = 0.5
_KEPT = 400
_SHOWN = 14
_JUDGED = re.compile(r"(\d+) of (\d+) calls judged")
_OVER = ("succeeded", "failed", "cancelled")


class Follower:
    """Looks after one run on a thread of its own until it is over, and tells what is new.

    Parameters
    ----------
    runner
        Where the run is.
    run_id
        Which.
    on_look
        Called with what `look` gives, whenever that changed.
    on_end
        Called once with the run that is over.
    on_fault
        Called with what went wrong when nothing could be read; it is tried again.
    """

    def __init__(
        self,
        runner: Runner,
        run_id: str,
        *,
        on_look: Callable[[dict[str, Any]], object],
        on_end: Callable[[Run], object],
        on_fault: Callable[[str], object],
    ) -> None:
        self.run_id = run_id
        self._runner, self._on_look, self._on_end, self._on_fault = runner, on_look, on_end, on_fault
        self._stopping = threading.Event()
        self._tail: Tail | None = None
        self._log: deque[str] = deque(maxlen=_KEPT)
        self._thread = threading.Thread(target=self._main, name="evalkit-run", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look no more; the run goes on."""
        self._stopping.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is over; whether that came in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _main(self) -> None:
        before: dict[str, Any] = {}
        while not self._stopping.is_set():
            try:
                run = self._runner.run(self.run_id)
            except RegistryError as problem:
                self._on_fault(str(problem))
                self._stopping.wait(4 * _EVERY_S)
                continue
            now = self._look(run)
            if now != before:
                self._on_look(now)
                before = now
            if run.status in _OVER:
                self._on_end(run)
                return
            self._stopping.wait(_EVERY_S)

    def _look(self, run: Run) -> dict[str, Any]:
        if self._tail is None or self._tail.path != run.log:  # a run that waits has no folder yet
            self._tail = Tail(run.log)
        self._log.extend(self._tail.lines(whole=run.status in _OVER))
        judged = next((found for line in reversed(self._log) if (found := _JUDGED.search(line))), None)
        return {
            "id": run.id,
            "pack": run.pack,
            "model": run.model,
            "status": run.status,
            "error": run.error or "",
            "judged": [int(judged[1]), int(judged[2])] if judged else [],
            "tasks": _tasks(run),
            "log": list(self._log)[-_SHOWN:],
            "here": run.status == "queued" or run.log.exists(),
        }


def _tasks(run: Run) -> list[list[str]]:
    """Task and what its judges said so far, from the receipts that they leave as they end."""
    place = run.output / RECEIPTS
    try:
        receipts = read_receipts(place) if place.is_file() else []
    except ConfigError:  # the end of the run tells it
        receipts = []
    found = []
    for one in run.tasks:
        mine = [receipt for receipt in receipts if task_name(receipt.task).partition(":")[0] == task_name(one.task)]
        said = ", ".join(f"{receipt.metric} {receipt.n_scored} of {receipt.n_items} scored" for receipt in mine)
        found.append([one.task, said])
    return found
