"""`Worker`: takes queued runs from a registry, one after the other."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evalkit.errors import RegistryError
from evalkit.runs.run_owner import Owner
from evalkit.runs.run_record import Run
from evalkit.runs.runner import Runner


class Worker:
    """Carries out queued runs. Any number of workers, on any machines that reach the registry, share one queue.

    No two take the same run. A run whose worker died is taken over once; a second death closes it as failed. SIGTERM
    and Ctrl-C end LightEval's processes and queue the run again: what it had paid judges for is in their caches.

    Parameters
    ----------
    runner
        Carries out.
    poll_s
        Seconds between two looks at an empty queue.
    on_run
        Called with each run when it was taken, and again when it is over.
    """

    def __init__(self, runner: Runner, *, poll_s: float = 5.0, on_run: Callable[[Run], None] | None = None) -> None:
        self.runner = runner
        self.poll_s = poll_s
        self._on_run = on_run
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Let `work` end: soon, and with its run queued again."""
        self._stopping.set()

    def work(self, *, once: bool = False) -> int:
        """Take runs until stopped; with `once`, until the queue is empty.

        Returns
        -------
        int
            How many were carried out to their end.

        Raises
        ------
        RegistryError
            With `once`, when the registry is away; else it is tried again.
        """
        n_done = 0
        with self._signals():
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

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT stop politely; they belong to the main thread alone."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: Any) -> None:
            self._stopping.set()

        before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
