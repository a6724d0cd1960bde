"""SIGTERM and SIGHUP, which end a script at once by default: calls in flight are waited for, as after Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from evalkit.core.formatting import in_notebook

__all__ = ["ending_signals"]

_n_runs = 0


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise SystemExit with the exit code of a process that they end (143, 129).

    In the main thread alone, never in a notebook's kernel, and never in place of a handler that somebody installed, nor
    where a signal is ignored, as under nohup. Afterwards Python's default is back.
    """
    global _n_runs
    if threading.current_thread() is not threading.main_thread() or in_notebook():
        yield
        return
    _n_runs += 1  # several runs may be awaited in one loop: the last one of them gives the default back
    for number in _numbers():
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        yield
    finally:
        _n_runs -= 1
        for number in _numbers():
            if not _n_runs and signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _numbers() -> list[signal.Signals]:
    names = ("SIGTERM", "SIGHUP")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)
