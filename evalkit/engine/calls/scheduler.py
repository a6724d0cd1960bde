"""One run: the samples wanted are queued per judge, asked for by workers, stored, and landed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from evalkit.core.judges import Judge
from evalkit.core.records import Failure, Reply, Request
from evalkit.engine.calls.budget import Budget
from evalkit.engine.calls.in_flight import FlightKey, flights_here, is_owners
from evalkit.engine.calls.outcomes import Outcome, Progress
from evalkit.engine.calls.pending_call import Call
from evalkit.engine.calls.workers import JudgeWorkers
from evalkit.engine.options import Options
from evalkit.engine.providers import check_ready

if TYPE_CHECKING:
    from evalkit.engine.cache.store import ReplyStore

__all__ = ["Run"]

_BOARDED_AT_ONCE = 200


class _Seat(NamedTuple):
    """One sample wanted: its place in the outcomes, the number of its request, the sample, its key."""

    place: int
    number: int
    sample: int
    key: bytes


class Run:
    """The work behind `fetch`; lives on the loop thread, but for `progress`, which any thread may read.

    Attributes
    ----------
    stopped
        Whether nothing more is to be sent.
    notes
        What should be said once at the end.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        store: ReplyStore,
        options: Options,
        *,
        newer_than: float | None = None,
    ) -> None:
        self.requests, self.store, self.options, self.newer_than = requests, store, options, newer_than
        self._place = str(store.path)
        self.stopped = False
        self.notes: list[str] = []
        self.maybe_paid = 0
        self.in_flight = 0
        self.budget = Budget(options)
        # by identity first: to hash a judge for each request takes longer than to look at it
        self._judges: dict[int, Judge] = {id(request.judge): request.judge for request in requests}
        for judge in dict.fromkeys(self._judges.values()):
            check_ready(judge)
            self.budget.check(judge)
        self._total = sum(len(request.samples) for request in requests)
        self._done = 0
        self._failed: Counter[str] = Counter()
        self._cost = 0.0
        self._n_unpriced = 0
        self._mine: dict[FlightKey, int] = {}
        self._all_landed = asyncio.Event()
        self._error: BaseException | None = None
        self._stop = asyncio.Event()
        self._desks: dict[int, JudgeWorkers] = {}

    @property
    def progress(self) -> Progress:
        """The counters at this moment."""
        return Progress(
            done=self._done,
            failed=self._failed.copy(),
            total=self._total,
            in_flight=self.in_flight,
            cost_usd=self._cost,
            n_unpriced=self._n_unpriced,
            maybe_paid=self.maybe_paid,
            stopped=self.stopped,
        )

    def stop(self) -> None:
        """Send nothing more; what is in flight comes to its end."""
        self.stopped = True
        self._stop.set()
        for desk in self._desks.values():
            desk.stop()

    async def main(self) -> list[Outcome]:
        """Ask for everything; see `evalkit.engine.calls.fetch`."""
        if not self._total:
            return []
        self._open_desks()
        outcomes: list[Outcome | None] = [None] * self._total
        seats = self._seats()
        try:
            while True:
                flights = await self._board(seats)
                if self._mine:
                    self._all_landed.clear()
                    await self._all_landed.wait()
                if self._error is not None:
                    raise self._error
                seats = await self._collect(flights, outcomes)
                if not seats:
                    break
        finally:
            for _, key, _ in list(self._mine):
                self.land(key, Outcome(key, failure=Failure("stopped", "the run ended before it was asked")))
        return [outcome for outcome in outcomes if outcome is not None]

    def _open_desks(self) -> None:
        self.store.check_writable()
        desks = {judge: JudgeWorkers(judge, self) for judge in dict.fromkeys(self._judges.values())}
        self._desks = {number: desks[judge] for number, judge in self._judges.items()}

    def _seats(self) -> Iterable[_Seat]:
        place = 0
        for number, request in enumerate(self.requests):
            for sample, key in zip(request.samples, request.keys, strict=True):
                yield _Seat(place, number, sample, key)
                place += 1

    async def _board(self, seats: Iterable[_Seat]) -> list[tuple[_Seat, asyncio.Future[Outcome], bool]]:
        """Join the flights that are there already, and queue calls for the others.

        The first calls leave while the others still board: a million takes seconds.
        """
        flights: list[tuple[_Seat, asyncio.Future[Outcome], bool]] = []
        here, n_joined, mine = flights_here(), 0, self._mine
        for count, (number, group) in enumerate(groupby(seats, key=itemgetter(1)), 1):
            samples, keys = [], []
            for seat in group:
                flight_key = self._place, seat.key, self.newer_than
                flight, started = here.join(flight_key)
                own = started or flight_key in mine
                if own:
                    mine[flight_key] = mine.get(flight_key, 0) + 1
                else:
                    n_joined += 1
                    flight.add_done_callback(self._count_joined)
                if started:
                    samples.append(seat.sample)
                    keys.append(seat.key)
                flights.append((seat, flight, own))
            if keys:
                request = self.requests[number]
                self._desks[id(request.judge)].take(Call(replace(request, samples=tuple(samples), keys=tuple(keys))))
            if not count % _BOARDED_AT_ONCE:
                await asyncio.sleep(0)
        if n_joined:
            self.store.counters.add(joins=n_joined)
        return flights

    async def _collect(
        self, flights: Sequence[tuple[_Seat, asyncio.Future[Outcome], bool]], outcomes: list[Outcome | None]
    ) -> list[_Seat]:
        """Fill in what has landed; returns the seats whose flight another run gave up."""
        again: list[_Seat] = []
        stopping: asyncio.Future[Any] | None = None
        for seat, flight, own in flights:
            if not flight.done():
                stopping = stopping or asyncio.ensure_future(self._stop.wait())
                either: set[asyncio.Future[Any]] = {flight, stopping}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            outcome = flight.result() if flight.done() else None
            if outcome is not None and (own or not is_owners(outcome.failure)):
                outcomes[seat.place] = outcome
            elif self.stopped:
                outcomes[seat.place] = Outcome(seat.key, failure=Failure("stopped"))
                self._failed["stopped"] += 1
            else:
                again.append(seat)
        if stopping is not None:
            stopping.cancel()
        return again

    def _count(self, failure: Failure | None, times: int = 1) -> None:
        if failure is None:
            self._done += times
        else:
            self._failed[failure.reason] += times

    def _count_joined(self, flight: asyncio.Future[Outcome]) -> None:
        failure = flight.result().failure
        if not is_owners(failure):
            self._count(failure)

    def note(self, text: str) -> None:
        """Something to be said once, at the end."""
        if text not in self.notes:
            self.notes.append(text)

    def paid(self, reply: Reply) -> None:
        """Count what a reply cost."""
        if reply.cost_usd is None:
            self._n_unpriced += 1
        else:
            self._cost += reply.cost_usd

    def land(self, key: bytes, outcome: Outcome) -> None:
        """A sample that this run asked for has come to its end."""
        flight_key = self._place, key, self.newer_than
        times = self._mine.pop(flight_key, 0)
        if times:
            self._count(outcome.failure, times)
            if not self._mine:
                self._all_landed.set()
        flights_here().land(flight_key, outcome)

    def fail(self, error: BaseException) -> None:
        """End the run with an error, after what is in flight has settled."""
        if self._error is None:
            self._error = error
        self.stop()
