"""Limits of a run that several processes share, by leases from the store; see `Options.run`."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets
import time
from typing import TYPE_CHECKING

from evalkit.core.judges import Judge
from evalkit.core.settings import Options
from evalkit.engine.cache.budget_and_rate_leases import NOTHING, Amount, BudgetLease, Granted, RateLease
from evalkit.engine.calls.budget import Budget, spent_of
from evalkit.errors import CacheError

if TYPE_CHECKING:
    from evalkit.engine.cache.store import ReplyStore

_RENEW_S = 3.0
_LOOK_AGAIN_S = 0.3
_CALLS_AHEAD = 16
_BLOCK_S = 1.0
_ROUNDING_S = 1e-9
_SLOWER = (60 + _BLOCK_S) / 60


class SharedBudget(Budget):
    """The budget of a run, of which this process leases a part before it sends calls.

    A call is sent only after the lease that covers its upper bound was committed. What calls cost less stays in the
    lease for the next ones; every few seconds what is not reserved is given back. `end` gives back the rest.
    """

    def __init__(self, options: Options, store: ReplyStore) -> None:
        super().__init__(options)
        self._store, self._holder = store, secrets.token_hex(8)
        usd, calls = options.budget_usd, options.max_calls
        self._most = Amount(math.inf if usd is None else usd, math.inf if calls is None else calls)
        self._leased = self._others = NOTHING
        self._wanted_usd, self._wanted_calls = 0.0, 0
        self._is_by_calls = False  # whether that is for the number of calls
        self._turn = asyncio.Lock()
        self._renewing: asyncio.Future[Granted] | None = None
        self._renewals: asyncio.Task[None] | None = None

    @property
    def is_used_up(self) -> bool:
        """See `Budget.is_used_up`."""
        if math.isinf(self._refused):
            return False
        return self._refused == 0.0 or self._others.usd + self.usd >= self._most.usd > 0

    async def reserve(self, usd: float) -> bool:
        """See `Budget.reserve`; it waits for money that other live processes may give back, too."""
        self._wanted_usd += usd
        self._wanted_calls += 1
        try:
            async with self._turn:
                while not self._fits(usd):
                    if usd >= self._refused:
                        return False
                    granted = await self._renew(Amount(usd, 1))
                    if granted.fits:
                        continue
                    if not granted.may_return:
                        no_calls = self._others.calls + self.calls >= self._most.calls
                        self._refused = 0.0 if no_calls else min(self._refused, usd)
                        self._is_by_calls = no_calls or self._others.usd + self.usd + usd <= self._most.usd
                        return False
                    await asyncio.sleep(_LOOK_AGAIN_S * random.uniform(0.5, 1.0))  # noqa: S311  # jitter
                self._reserved_usd += usd
                self._reserved_calls += 1
        finally:
            self._wanted_usd -= usd
            self._wanted_calls -= 1
        if self._renewals is None:
            self._renewals = asyncio.ensure_future(self._keep_renewing())
        return True

    def spent(self) -> str:
        """See `Budget.spent`."""
        run = f"by the processes of run={self._options.run!r}"
        if self._is_by_calls or self._others.calls + self.calls >= self._most.calls:
            return f"max_calls={self._options.max_calls} reached {run}"
        return spent_of(self._others.usd + self.usd, self._options.budget_usd, self._refused, f" {run}")

    async def end(self) -> None:
        """Give back what was not spent; if the store cannot take that, the whole lease counts as spent."""
        if self._renewals is not None:
            self._renewals.cancel()
        if self._renewing is not None or self._renewals is not None:
            with contextlib.suppress(CacheError):
                await self._renew(NOTHING)  # without limits here nothing was leased yet, but it counts for the others
                lease = BudgetLease(str(self._options.run), self._holder, self._reserved, ended=True)
                await asyncio.shield(self._store.lease(lease))

    @property
    def _reserved(self) -> Amount:
        return Amount(self.usd + self._reserved_usd, self.calls + self._reserved_calls)

    def _fits(self, usd: float) -> bool:
        reserved, limit, leased = self._reserved, self._most, self._leased
        return (math.isinf(limit.usd) or reserved.usd + usd <= leased.usd) and (
            math.isinf(limit.calls) or reserved.calls + 1 <= leased.calls
        )

    async def _renew(self, need: Amount) -> Granted:
        """Renew the lease, one renewal at a time: who comes during one gets its answer."""
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.ensure_future(self._exchange(need))
        return await asyncio.shield(self._renewing)  # a caller that is cancelled must not lose the answer

    async def _exchange(self, need: Amount) -> Granted:
        # the renewal gives back what is free, so from now on nothing is
        self._leased = reserved = self._reserved
        ahead = Amount(self._wanted_usd + _CALLS_AHEAD * need.usd, self._wanted_calls + _CALLS_AHEAD * need.calls)
        lease = BudgetLease(
            str(self._options.run), self._holder, reserved, need, ahead, self._most, in_flight=self._reserved_calls > 0
        )
        granted: Granted = await self._store.lease(lease)
        self._leased = Amount(reserved.usd + granted.amount.usd, reserved.calls + granted.amount.calls)
        self._others = granted.others
        return granted

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            with contextlib.suppress(CacheError):  # the next call that needs a lease raises it
                await self._renew(NOTHING)


class SharedPace:
    """The pace of one judge's calls over all processes of a run.

    Calls start at times of their own, one after the other. The store grants a process its next times in blocks of up
    to a second. A call that comes late may use its time for one more second; so that no minute has more starts than
    the limit, the times are that much further apart.
    """

    def __init__(self, store: ReplyStore, run: str, service: str) -> None:
        self._store, self._run, self._service = store, run, service
        self._turn = asyncio.Lock()
        self._next, self._left = 0.0, 0.0  # the next start, by `time.monotonic`, and the seconds from there on
        self._wanted = self._used = 0.0  # seconds that calls wait for, and that were used since `_since`
        self._since = time.monotonic()

    @classmethod
    def of(cls, judge: Judge, store: ReplyStore, options: Options) -> SharedPace | None:
        """The pace of a judge; None if there is no limit."""
        if options.run is None or (options.requests_per_minute is None and options.tokens_per_minute is None):
            return None
        return cls(store, options.run, f"{judge.service} {judge.model} {judge.api_key_env}")

    async def wait(self, seconds: float) -> None:
        """Wait for the start of a call that takes these seconds of the limit."""
        seconds *= _SLOWER
        self._wanted += seconds
        try:
            async with self._turn:
                if seconds > self._left + _ROUNDING_S or time.monotonic() > self._next + _BLOCK_S:
                    await self._take_block(seconds)
                start = self._next
                self._next += seconds
                self._left -= seconds
                self._used += seconds
        finally:
            self._wanted -= seconds
        await asyncio.sleep(max(0.0, start - time.monotonic()))

    async def _take_block(self, least: float) -> None:
        """Take times for the calls that wait, or for as many as started per block lately."""
        now = time.monotonic()
        lately = self._used * _BLOCK_S / max(now - self._since, _BLOCK_S)
        n_calls = int((min(_BLOCK_S, max(self._wanted, lately)) + _ROUNDING_S) / least)
        block = least * max(1, n_calls)
        self._used, self._since = 0.0, now
        wait = await self._store.lease(RateLease(self._run, self._service, block))
        self._next, self._left = time.monotonic() + wait, block
