"""One line of progress for live calls."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["Bar"]

_EVERY_S = 0.1


class Bar:
    """A line by tqdm: done, unscored, US$, rate, time left; silent unless somebody can see it."""

    def __init__(self, n_rows: int, n_calls: int, folder: Path, wanted: bool | None) -> None:
        self._n_rows, self._n_calls, self._folder = n_rows, n_calls, folder
        self._shown = _seen() if wanted is None else wanted
        self._bar: Any = None
        self._last = 0.0

    def __enter__(self) -> Bar:
        if self._shown:
            from tqdm.auto import tqdm

            cached = self._n_rows - self._n_calls
            tqdm.write(f"evalkit: {cached} of {self._n_rows} judgments cached in {self._folder}", file=sys.stderr)
            self._bar = tqdm(total=self._n_calls, unit="reply", dynamic_ncols=True, delay=0.3)
        return self

    def update(self, progress: Any) -> None:
        """Show the engine's counters, at most ten times a second."""
        if self._bar is None:
            return
        now = time.monotonic()
        if now - self._last < _EVERY_S and progress.done + progress.n_failed < self._n_calls:
            return
        self._last = now
        self._bar.n = progress.done + progress.n_failed
        said = {"unscored": progress.n_failed, "US$": f"{progress.cost_usd:.4f}"}
        if progress.maybe_paid:
            said["maybe paid"] = progress.maybe_paid
        self._bar.set_postfix(said, refresh=False)
        self._bar.refresh()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()


def _seen() -> bool:
    """True on a terminal and in a notebook cell."""
    if sys.stderr.isatty():
        return True
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")
