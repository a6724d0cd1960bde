"""Lanes: how many calls may be in flight at one service, model and key variable, and when the next may start."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

from evalkit.core.judges import Judge
from evalkit.engine.options import Options

__all__ = ["RateLimiter", "rate_limiter_of"]

_LEAST = 1

_lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str, str | None], RateLimiter]] = (
    WeakKeyDictionary()
)


def rate_limiter_of(judge: Judge) -> RateLimiter:
    """The running loop's lane of a judge; judges with the same service, model and key variable share it."""
    lanes = _lanes.setdefault(asyncio.get_running_loop(), {})
    place = judge.service, judge.model, judge.api_key_env
    if place not in lanes:
        lanes[place] = RateLimiter()
    return lanes[place]


class RateLimiter:
    """Counts calls in flight. Its width halves when the server says 429, and grows back by one per round of successes.

    Attributes
    ----------
    in_flight
        Calls sent and not answered.
    epoch
        How often the width was halved: calls that were sent in one epoch and are refused halve it once.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.epoch = 0
        self._width: float | None = None
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._clock = asyncio.get_running_loop().time
        self._open_at = 0.0
        self._last = -1e9  # long ago
        self._last_tokens = 0

    @property
    def width(self) -> int | None:
        """How many calls the server seems to bear at a time; None while it never complained."""
        return None if self._width is None else max(_LEAST, int(self._width))

    def _has_room(self, limit: int) -> bool:
        width = self.width
        return self.in_flight < (limit if width is None else min(limit, width))

    def enter_now(self, options: Options) -> bool:
        """Count a call as in flight if nothing is to be waited for; whether that was so."""
        if self._waiting or not self._has_room(options.concurrency) or self._open_at > self._clock():
            return False
        if options.requests_per_minute is not None or options.tokens_per_minute is not None:
            return False
        self.in_flight += 1
        return True

    async def enter(self, options: Options, tokens: int) -> None:
        """Wait for room, then for the end of a pause and for the pace; count the call as in flight."""
        limit = options.concurrency
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
            await self._pace(options, tokens)
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

    async def _pace(self, options: Options, tokens: int) -> None:
        """Sleep until this call's turn; a pause that begins meanwhile puts the turn off, not only the start."""
        while True:
            now = self._clock()
            start = max(now, self._open_at)
            # how long after the last turn is this run's own affair: another one may have been slower
            per_request = 0.0 if options.requests_per_minute is None else 60 / options.requests_per_minute
            per_token = 0.0 if options.tokens_per_minute is None else 60 / options.tokens_per_minute
            last, last_tokens = self._last, self._last_tokens
            start = max(start, last + per_request, last + per_token * last_tokens)
            self._last, self._last_tokens = start, tokens
            try:
                if start > now:
                    await asyncio.sleep(start - now)
            except asyncio.CancelledError:
                # the turn is free again: a run that is stopped must not hold up the next one
                self._last -= start - last
                raise
            if self._open_at <= self._clock():
                return

    def succeeded(self) -> None:
        """A call was answered: the width may grow."""
        if self._width is not None:
            self._width += 1 / self._width
            if self._width >= 4096:
                self._width = None

    def refused(self, wait_s: float, epoch: int) -> None:
        """The server said 429 to a call of this epoch: none starts for so many seconds, then half as many at a time."""
        if epoch == self.epoch:
            self.epoch += 1
            self._width = max(_LEAST, (self.in_flight + 1 if self._width is None else self._width) / 2)
        self._open_at = max(self._open_at, self._clock() + wait_s)
