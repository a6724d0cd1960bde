"""Whether a work grows with the size of its input or with the square of it."""

from __future__ import annotations

import time
from collections.abc import Callable

_TIMES, _REPEATS = 4, 3
_NOISE_S = 0.05


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether `work(size)` takes less than eight times the processor time of `work(size / 4)`.

    Linear work takes four times as much, quadratic work sixteen times. Both are measured here and now, so that the
    speed of the machine and other processes do not count; what looks quadratic is measured again, since the collector
    may have run.
    """
    return any(_seconds(work, size) <= 2 * _TIMES * _seconds(work, size // _TIMES) + _NOISE_S for _ in range(_REPEATS))


def _seconds(work: Callable[[int], object], size: int) -> float:
    start = time.process_time()
    work(size)
    return time.process_time() - start
