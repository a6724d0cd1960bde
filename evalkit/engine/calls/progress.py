"""One line of progress for live calls, and one at their end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evalkit.engine.calls.event_loop import in_notebook
from evalkit.errors import counted


def is_shown(progress: bool | None) -> bool:
    """Whether a run shows its progress: as asked, else on a terminal and in a notebook that somebody watches.

    A cell whose request says that its reader cannot be asked anything (`allow_stdin` in Jupyter's protocol) has no
    reader: nbval, nbconvert, nbclient and papermill run it. What it writes would only be stored, and differ next time.
    """
    if progress is not None:
        return progress
    return sys.stderr.isatty() or (in_notebook() and _is_watched())


def _is_watched() -> bool:
    """Whether the request that this kernel works on allows questions; a message of a widget was sent by a click."""
    get_parent: Any = getattr(sys.modules["IPython"].get_ipython(), "get_parent", dict)
    return bool((get_parent() or {}).get("content", {}).get("allow_stdin", True))


class ProgressBar:
    """A line by tqdm: done, failed, US$, rate, time left."""

    def __init__(
        self, n_rows: int, n_calls: int, where: Path | str, on_progress: Callable[[Any], object] | None
    ) -> None:
        from tqdm.auto import tqdm

        self._n_rows, self._on_progress = n_rows, on_progress
        self._progress: Any = None
        self._started = time.monotonic()
        self._stopping = False
        tqdm.write(f"evalkit: {n_rows - n_calls} of {counted(n_rows, 'judgment')} cached in {where}", sys.stderr)
        self._bar: Any = tqdm(total=n_calls, unit="reply", dynamic_ncols=True, delay=0.3)

    def update(self, progress: Any) -> None:
        """Show the engine's counters and pass them on to `on_progress`."""
        self._progress = progress
        if progress.stopped and progress.in_flight and not self._stopping:
            self._stopping = True
            self._bar.write(
                f"evalkit: stopping; waiting a few seconds for {counted(progress.in_flight, 'call')} in flight, so "
                "that nothing is paid twice (Ctrl-C again leaves at once)",
                sys.stderr,
            )
        postfix: dict[str, object] = {"failed": progress.n_failed, "US$": self._dollars()}
        if progress.maybe_paid:
            postfix["maybe paid"] = progress.maybe_paid
        self._bar.set_postfix(postfix, refresh=False)
        self._bar.update(progress.done + progress.n_failed - self._bar.n)
        if self._on_progress is not None:
            self._on_progress(progress)

    def end(self, n_called: int, unscored: Mapping[str, int]) -> None:
        """Write the last line: numbers called, cached and unscored (by reason, of those called), and the cost."""
        self._bar.close()
        reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(unscored.items(), key=lambda pair: -pair[1]))
        n_unscored = sum(unscored.values())
        bill = list[str]()
        if (progress := self._progress) is not None:
            bill += filter(None, progress.bill.words)
            if progress.maybe_paid:
                bill.append(f"{counted(progress.maybe_paid, 'call')} without an answer that may have been billed")
        parts = [
            f"{n_called - n_unscored} called and scored",
            f"{self._n_rows - n_called} cached",
            f"{n_unscored} unscored ({reasons})" if reasons else "none unscored",
            *bill,
            f"{time.monotonic() - self._started:.1f} s",
        ]
        self._bar.write(f"evalkit: {', '.join(parts)}", sys.stderr)

    def _dollars(self) -> str:
        """The cost so far; a reply of unknown price does not count as free."""
        progress = self._progress
        if progress.n_unpriced and progress.n_unpriced == progress.n_bought:
            return "NA"
        return f"{'>=' if progress.n_unpriced else ''}{progress.cost_usd:.4f}"

    def close(self) -> None:
        """Close the line, no matter how the run ended."""
        self._bar.close()
