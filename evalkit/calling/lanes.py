"""Lanes: how many calls may be in flight at one service, model and key variable, and when the next may start."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

from evalkit.calling.limits import Limits
from evalkit.records import Judge

__all__ = ["Lane", "lane_of"]

_LEAST = 1

_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str, str | None], Lane]] = WeakKeyDictionary()


def lane_of(judge: Judge) -> Lane:
    """The running loop's lane of a judge; judges with the same service, model and key variable share it."""
    lanes = _lanes.setdefault(asyncio.get_running_loop(), {})
    place = judge.service, judge.model, judge.api_key_env
    if place not in lanes:
        lanes[place] = Lane()
    return lanes[place]


class Lane:
    """Counts calls in flight. Its width halves when the server says 429, and grows back by one per round of successes.

    Attributes
    ----------
    in_flight
        Calls sent and not answered.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self._width: float | None = None
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._open_at = 0.0
        self._next_request = 0.0
        self._next_tokens = 0.0

    def _has_room(self, limit: int) -> bool:
        width = limit if self._width is None else min(limit, int(self._width))
        return self.in_flight < max(_LEAST, width)

    async def enter(self, limits: Limits, tokens: int) -> None:
        """Wait for room, then for the pace and for the end of a pause; count the call as in flight."""
        limit = limits.concurrency
        if self._waiting or not self._has_room(limit):
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((place, limit))
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self.leave()
                raise
        else:
            self.in_flight += 1
        try:
            await self._pace(limits, tokens)
        except asyncio.CancelledError:
            self.leave()
            raise

    def leave(self) -> None:
        """One call less; the next ones waiting get in."""
        self.in_flight -= 1
        while self._waiting and (self._waiting[0][0].done() or self._has_room(self._waiting[0][1])):
            place, _ = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

    async def _pace(self, limits: Limits, tokens: int) -> None:
        clock = asyncio.get_running_loop().time
        start = now = clock()
        if limits.requests_per_minute is not None:
            start = max(start, self._next_request)
            self._next_request = start + 60 / limits.requests_per_minute
        if limits.tokens_per_minute is not None:
            start = max(start, self._next_tokens)
            self._next_tokens = start + 60 * tokens / limits.tokens_per_minute
        if start > now:
            await asyncio.sleep(start - now)
        while (rest := self._open_at - clock()) > 0:  # noqa: ASYNC110  # a pause may grow while it lasts
            await asyncio.sleep(rest)

    def succeeded(self) -> None:
        """A call was answered: the width may grow."""
        if self._width is not None:
            self._width += 1 / self._width
            if self._width >= 4096:
                self._width = None

    def refused(self, wait_s: float) -> None:
        """The server said 429: no call starts for so many seconds, and then half as many at a time."""
        now = asyncio.get_running_loop().time()
        if now >= self._open_at:  # calls that were in flight together are refused together, and halve it once
            self._width = max(_LEAST, (self.in_flight if self._width is None else self._width) / 2)
        self._open_at = max(self._open_at, now + wait_s)
