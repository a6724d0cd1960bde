"""The progress of a run, read from its row, log, progress and receipts; any process may have started it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from evalkit.core.threads import daemon_thread
from evalkit.errors import ConfigError, RegistryError
from evalkit.runs import Run, Runner
from evalkit.runs.contract.receipts import RECEIPTS_FILE, read_progress, read_receipts
from evalkit.runs.contract.scoring_config import task_name
from evalkit.runs.processes.child_process import Tail

_EVERY_S = 0.5
_KEPT_LINES, _SHOWN_LINES = 400, 14


class Follower:
    """Follows one run on a thread of its own until it is over, and reports changes.

    Parameters
    ----------
    runner
        The runner whose registry holds the run.
    run_id
        The run.
    on_change
        Called with the progress whenever it has changed.
    on_end
        Called once with the run when it is over.
    on_error
        Called with the message when the registry cannot be read; reading is tried again.
    """

    def __init__(
        self,
        runner: Runner,
        run_id: str,
        *,
        on_change: Callable[[dict[str, Any]], object],
        on_end: Callable[[Run], object],
        on_error: Callable[[str], object],
    ) -> None:
        self.run_id = run_id
        self._runner, self._on_change, self._on_end, self._on_error = runner, on_change, on_end, on_error
        self._stopping = threading.Event()
        self._tail: Tail | None = None
        self._log: deque[str] = deque(maxlen=_KEPT_LINES)
        self._thread = daemon_thread(self._main, "evalkit-run")
        self._thread.start()

    def stop(self) -> None:
        """Stop following; the run continues."""
        self._stopping.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the run is over; False when the time was too short."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _main(self) -> None:
        last: dict[str, Any] = {}
        while not self._stopping.is_set():
            try:
                run = self._runner.run(self.run_id)
            except RegistryError as problem:
                self._on_error(str(problem))
                self._stopping.wait(4 * _EVERY_S)
                continue
            progress = self._progress(run)
            if progress != last:
                self._on_change(progress)
                last = progress
            if run.status != "running":
                self._on_end(run)
                return
            self._stopping.wait(_EVERY_S)

    def _progress(self, run: Run) -> dict[str, Any]:
        if self._tail is None:
            self._tail = Tail(run.log)
        self._log.extend(self._tail.lines(whole=run.status != "running"))
        judged = read_progress(run.output / RECEIPTS_FILE)
        head = {"id": run.id, "pack": run.pack, "model": run.model, "status": run.status, "error": run.error or ""}
        done = {"judged": [judged.done, judged.total] if judged else [], "tasks": _tasks(run)}
        return {**head, **done, "log": list(self._log)[-_SHOWN_LINES:], "here": run.log.exists()}


def _tasks(run: Run) -> list[list[str]]:
    """Each task and how much of it is scored, from the receipts written so far."""
    path = run.output / RECEIPTS_FILE
    try:
        receipts = read_receipts(path) if path.is_file() else []
    except ConfigError:  # reported at the end of the run
        receipts = []
    tasks = []
    for one in run.tasks:
        mine = [receipt for receipt in receipts if task_name(receipt.task).partition(":")[0] == task_name(one.task)]
        scored = ", ".join(f"{receipt.metric} {receipt.n_scored} of {receipt.n_items} scored" for receipt in mine)
        tasks.append([one.task, scored])
    return tasks
