"""The progress of judging, in the log of a run."""

from __future__ import annotations

import logging
import time
from typing import Any

_log = logging.getLogger(__name__)
_EVERY_S = 5.0


class ProgressLog:
    """Writes the progress of judging into the log, at most every few seconds and at its end; for `on_progress`."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last = time.monotonic()

    def __call__(self, progress: Any) -> None:
        """Log the engine's counters."""
        now = time.monotonic()
        done = progress.done + progress.n_failed
        if now - self._last >= _EVERY_S or done == progress.total:
            self._last = now
            failed = f", {progress.n_failed} of them without a reply" if progress.n_failed else ""
            _log.info("%s: %d of %d calls judged%s", self._what, done, progress.total, failed)
