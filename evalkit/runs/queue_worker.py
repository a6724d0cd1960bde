"""`Worker`: takes queued runs from a registry, one after the other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from evalkit.errors import RegistryError
from evalkit.runs.child_process import handled_by
from evalkit.runs.run_owner import Owner
from evalkit.runs.run_record import Run
from evalkit.runs.runner import Runner


class Worker:
    """Carries out queued runs. Any number of workers, on any machines that reach the registry, share one queue.

    No two workers take the same run. If a worker dies, its run is taken over once; if the second worker dies too, the
    run fails. SIGTERM and Ctrl-C end LightEval's processes and queue the run again; paid replies are in the cache.

    Parameters
    ----------
    runner
        Carries out the runs.
    poll_s
        Seconds between two checks of an empty queue.
    on_run
        Called with each run when it is taken, and again when it has ended.
    """

    def __init__(self, runner: Runner, *, poll_s: float = 5.0, on_run: Callable[[Run], None] | None = None) -> None:
        self.runner = runner
        self.poll_s = poll_s
        self._on_run = on_run
        self._stopping = threading.Event()

    def stop(self) -> None:
        """End `work` soon, and queue its run again."""
        self._stopping.set()

    def work(self, *, once: bool = False) -> int:
        """Take runs until stopped; with `once`, until the queue is empty.

        Returns
        -------
        int
            The number of runs that have ended.

        Raises
        ------
        RegistryError
            With `once`, when the registry is unreachable; otherwise it is tried again.
        """
        n_done = 0
        with handled_by(lambda *_: self.stop(), signal.SIGTERM, signal.SIGINT):
            while not self._stopping.is_set():
                try:
                    run = self._take_one()
                except RegistryError:
                    if once:
                        raise
                    run = None
                if run is not None:
                    n_done += run.status != "queued"
                elif once:
                    break
                else:
                    self._stopping.wait(self.poll_s)
        return n_done

    def _take_one(self) -> Run | None:
        self.runner.recover()
        owner = Owner.here()
        run_id = self.runner.store.claim(owner)
        if run_id is None:
            return None
        run = self.runner.carry_out(run_id, owner, on_start=self._on_run, give_back=self._stopping.is_set)
        if self._on_run is not None:
            self._on_run(run)
        return run
