"""Counts of what the store did for this process."""

from __future__ import annotations

import threading
from typing import TypedDict


class Counts(TypedDict):
    """Hits, misses, joins and stored replies (numbers), and US$ saved by hits of known cost."""

    hits: int
    misses: int
    joins: int
    stored: int
    saved_usd: float


class Counters:
    """Thread-safe counters of one store in one process.

    The store itself counts `stored` alone. Who looks replies up in order to use them counts `hits`,
    `misses`, `joins` (waited for a call already under way) and `saved_usd`: a look-up for a plan is
    no hit.

    Examples
    --------
    >>> counters = Counters()
    >>> counters.add(hits=3, saved_usd=0.5)
    >>> counters.as_dict()
    {'hits': 3, 'misses': 0, 'joins': 0, 'stored': 0, 'saved_usd': 0.5}
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = Counts(hits=0, misses=0, joins=0, stored=0, saved_usd=0.0)

    def add(
        self, *, hits: int = 0, misses: int = 0, joins: int = 0, stored: int = 0, saved_usd: float | None = 0.0
    ) -> None:
        """Add to the counts; `saved_usd` None (a reply of unknown price) adds nothing."""
        with self._lock:
            counts = self._counts
            counts["hits"] += hits
            counts["misses"] += misses
            counts["joins"] += joins
            counts["stored"] += stored
            counts["saved_usd"] += saved_usd or 0.0

    def as_dict(self) -> Counts:
        """A copy of the counts of one moment."""
        with self._lock:
            return self._counts.copy()
