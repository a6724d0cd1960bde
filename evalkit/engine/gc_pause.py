"""Building many small objects without the garbage collector in between."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["quiet_gc"]


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection inside: building a million small objects would trigger it over and over."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
