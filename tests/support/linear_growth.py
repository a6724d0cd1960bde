"""Whether a work grows with the size of its input or with the square of it."""

from __future__ import annotations

import time
from collections.abc import Callable

_TIMES, _REPEATS = 8, 3
_NOISE_S = 0.05


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether `work(size)` takes at most 16 times the processor time of `work(size / 8)`.

    Linear work takes 8 times as much, quadratic work 64 times. Both are measured here and now, so that the
    speed of the machine and other processes do not count. What looks quadratic is measured again, since the collector
    may have run, and with a longer input, since the answer to the last one may have been kept.
    """
    return any(
        _seconds(work, size + more) <= 2 * _TIMES * _seconds(work, size // _TIMES + more) + _NOISE_S
        for more in range(_REPEATS)
    )


def _seconds(work: Callable[[int], object], size: int) -> float:
    start = time.process_time()
    work(size)
    return time.process_time() - start
