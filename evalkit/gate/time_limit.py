"""A limit of computing time for what a configuration lets evalkit compute: patterns and schemas."""

from __future__ import annotations

import gc
import signal
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_S = 0.1  # where Python ignores an error, as in `__del__`, the next one ends the computing


class TooSlowError(BaseException):
    """Raised by a timer; a BaseException, so that no `except Exception` catches it."""


def can_limit() -> bool:
    """Whether `limited` has a limit here: not on Windows, and not outside the main thread."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooSlowError` after so many seconds of computing, where that is possible."""
    if not can_limit():
        yield
        return

    def stop(_: int, frame: FrameType | None) -> None:
        # Python ignores what is raised in the callback of a weak reference
        is_ignored = frame is not None and frame.f_code.co_filename == weakref.__file__
        if is_ignored:
            return
        if frame is None or all(frame.f_code is not getattr(hook, "__code__", None) for hook in gc.callbacks):
            raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_S)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL if before is None else before)
