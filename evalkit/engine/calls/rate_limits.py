"""Rate limits per service, model and key variable: calls in flight, pauses and pace."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from evalkit.core.settings import Options

_MOST = 4096
_FIRST = 8


@dataclass(slots=True, eq=False)
class RateLimiter:
    """Limits the calls in flight; `lower` and `begin` set a limit, which grows by one per round of answers.

    While the server of a slow start answers fast, the limit grows by one per answer.

    Attributes
    ----------
    in_flight
        Calls sent and not answered.
    epoch
        How often the limit was lowered; failures of calls sent in one epoch lower it only once.
    n_answered
        Calls that were answered.
    most
        The limit; infinite if there is none.
    """

    in_flight: int = 0
    epoch: int = 0
    n_answered: int = 0
    most: float = math.inf
    _waiting: deque[tuple[asyncio.Future[None], int]] = field(default_factory=deque)
    _paused_until: float = 0.0
    _last_start: float = -1e9  # long ago
    _last_tokens: int = 0
    _is_starting: bool = False

    async def enter(self, concurrency: int) -> None:
        """Wait until fewer than `concurrency` calls are in flight; the call then counts as in flight, until `leave`."""
        if self._waiting or self.in_flight + 1 > min(concurrency, self.most):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, concurrency))
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.leave()
                raise
        else:
            self.in_flight += 1

    async def pause(self) -> None:
        """Wait for the end of a pause, as far as it is known now."""
        if (seconds := self._paused_until - time.monotonic()) > 0:
            await asyncio.sleep(seconds)

    async def start(self, options: Options, tokens: int) -> None:
        """Wait for the pace and the end of a pause, for a call that has its place."""
        # the distance to the last start is that of this run: another run may have been slower
        per_request = 0.0 if options.requests_per_minute is None else 60 / options.requests_per_minute
        per_token = 0.0 if options.tokens_per_minute is None else 60 / options.tokens_per_minute
        while True:
            now, last = time.monotonic(), self._last_start
            start = max(now, self._paused_until, last + per_request, last + per_token * self._last_tokens)
            self._last_start, self._last_tokens = start, tokens
            try:
                if start > now:
                    await asyncio.sleep(start - now)
            except asyncio.CancelledError:
                self._last_start -= start - last  # a run that is stopped must not hold up the next one
                raise
            if self._paused_until <= time.monotonic():
                return

    def leave(self) -> None:
        """Count one call less, and start waiting calls."""
        self.in_flight -= 1
        while self._waiting:
            turn, concurrency = self._waiting[0]
            if not turn.done() and self.in_flight + 1 > min(concurrency, self.most):
                return
            self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)

    def begin(self, *, slowly: bool) -> None:
        """Begin with few calls at a server of which nothing is known yet; if not `slowly`, end such a start."""
        if slowly and self.most == math.inf and not self.n_answered:
            self.most, self._is_starting = _FIRST, True
        elif self._is_starting and not slowly:
            self.most, self._is_starting = math.inf, False

    def succeeded(self, *, slowly: bool = False) -> None:
        """A call was answered: raise the limit; an answer that came `slowly` ends a slow start."""
        self.n_answered += 1
        self._is_starting &= not slowly
        self.most += 1 if self._is_starting else 1 / self.most
        if self.most >= _MOST:
            self.most = math.inf

    def lower(self, most: float, epoch: int) -> None:
        """Allow so many calls in flight, or one, unless the limit was lowered since this epoch."""
        if epoch == self.epoch:
            self.epoch += 1
            self.most, self._is_starting = max(1, min(most, self.most)), False

    def refused(self, wait_s: float, epoch: int) -> None:
        """A call of this epoch got HTTP 429: start none for `wait_s` seconds, and halve the limit."""
        self.lower((self.in_flight + 1 if self.most == math.inf else self.most) / 2, epoch)
        self._paused_until = max(self._paused_until, time.monotonic() + wait_s)


rate_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str, str | None], RateLimiter]] = (
    WeakKeyDictionary()
)
"""The limiters of each event loop by service (local ones: address), model and key variable; equal judges share one."""
