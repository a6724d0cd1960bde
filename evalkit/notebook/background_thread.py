"""The tuner's background thread: no callback waits, and none depends on the thread that it runs in."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Worker"]


class Worker:
    """Does jobs one after the other on a daemon thread that lives while there are any.

    Of waiting jobs of one name only the newest is done: it is about the newest state. Jobs catch what they raise.

    Examples
    --------
    >>> done = []
    >>> worker = Worker()
    >>> worker.do("a", lambda: done.append(1))
    >>> worker.wait(5), done
    (True, [1])
    """

    def __init__(self) -> None:
        self._idle = threading.Condition()
        self._jobs: dict[str, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None

    def do(self, name: str, job: Callable[[], object]) -> None:
        """Do the job soon."""
        with self._idle:
            self._jobs.pop(name, None)  # it goes to the end of the line
            self._jobs[name] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._main, name="evalkit-tuner", daemon=True)
                self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait until nothing is left to do; whether that came in time."""
        with self._idle:
            return self._idle.wait_for(lambda: self._thread is None, timeout_s)

    def _main(self) -> None:
        while True:
            with self._idle:
                if not self._jobs:
                    self._thread = None
                    self._idle.notify_all()
                    return
                name = next(iter(self._jobs))
                job = self._jobs.pop(name)
            job()
