"""One run: the samples wanted are queued per judge, asked for by workers, stored, and landed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalkit.calling.budgets import Budget
from evalkit.calling.desks import Call, Desk
from evalkit.calling.flights import FlightKey, flights_here, is_owners
from evalkit.calling.limits import Limits, Outcome, Progress
from evalkit.providers import check_ready
from evalkit.records import Failure, Judge, Reply, Request

if TYPE_CHECKING:
    from evalkit.caching.store import ReplyStore

__all__ = ["Run"]


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
        self, requests: Sequence[Request], store: ReplyStore, limits: Limits, *, newer_than: float | None = None
    ) -> None:
        self.requests, self.store, self.limits, self.newer_than = requests, store, limits, newer_than
        self._place = str(store.path)
        self.stopped = False
        self.notes: list[str] = []
        self.maybe_paid = 0
        self.in_flight = 0
        self._judges = list(dict.fromkeys(request.judge for request in requests))
        self.budget = Budget(limits)
        for judge in self._judges:
            check_ready(judge)
            self.budget.check(judge)
        self._total = sum(len(request.samples) for request in requests)
        self._done = 0
        self._failed: Counter[str] = Counter()
        self._cost = 0.0
        self._n_unpriced = 0
        self._mine: set[FlightKey] = set()
        self._error: BaseException | None = None
        self._stop: asyncio.Event | None = None
        self._desks: list[Desk] = []

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
        )

    def stop(self) -> None:
        """Send nothing more; what is in flight comes to its end."""
        self.stopped = True
        if self._stop is not None:
            self._stop.set()
        for desk in self._desks:
            desk.stop()

    async def main(self) -> list[Outcome]:
        """Ask for everything; see `evalkit.calling.fetch`."""
        if not self._total:
            return []
        self._stop = asyncio.Event()
        if self.stopped:
            self._stop.set()
        desks = self._open_desks()
        outcomes: list[Outcome | None] = [None] * self._total
        wanted = [(request, sample) for request in self.requests for sample in request.samples]
        places = list(range(self._total))
        try:
            while places:
                flights = self._board(desks, wanted, places)
                await asyncio.gather(*(desk.close_of_business() for desk in desks.values()))
                if self._error is not None:
                    raise self._error
                places = await self._collect(flights, places, outcomes, wanted)
        finally:
            for _, key, _ in list(self._mine):
                self.land(key, Outcome(key, failure=Failure("stopped", "the run ended before it was asked")))
        return [outcome for outcome in outcomes if outcome is not None]

    def _open_desks(self) -> dict[Judge, Desk]:
        self.store.check_writable()
        desks = {judge: Desk(judge, self) for judge in self._judges}
        self._desks = list(desks.values())
        return desks

    def _board(
        self, desks: dict[Judge, Desk], wanted: Sequence[tuple[Request, int]], places: Sequence[int]
    ) -> list[tuple[asyncio.Future[Outcome], bool]]:
        """Join the flights that are there already, and queue calls for the others."""
        flights, here = [], flights_here()
        queued: dict[int, tuple[Request, list[int], list[bytes]]] = {}
        for place in places:
            request, sample = wanted[place]
            key = request.parts_of(sample).key
            flight_key = self._flight_key(key)
            flight, started = here.join(flight_key)
            if started:
                self._mine.add(flight_key)
                _, samples, keys = queued.setdefault(id(request), (request, [], []))
                samples.append(sample)
                keys.append(key)
            own = flight_key in self._mine
            flight.add_done_callback(self._count if own else self._count_joined)
            flights.append((flight, own))
        for request, samples, keys in queued.values():
            desks[request.judge].take(Call(replace(request, samples=tuple(samples)), tuple(keys)))
        return flights

    def _flight_key(self, key: bytes) -> FlightKey:
        return self._place, key, self.newer_than

    async def _collect(
        self,
        flights: Sequence[tuple[asyncio.Future[Outcome], bool]],
        places: Sequence[int],
        outcomes: list[Outcome | None],
        wanted: Sequence[tuple[Request, int]],
    ) -> list[int]:
        """Fill in what has landed; returns the places whose flight another run gave up."""
        again: list[int] = []
        assert self._stop is not None
        stopping: asyncio.Future[Any] = asyncio.ensure_future(self._stop.wait())
        for place, (flight, own) in zip(places, flights, strict=True):
            if not flight.done():
                either: set[asyncio.Future[Any]] = {flight, stopping}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            outcome = flight.result() if flight.done() else None
            if outcome is not None and (own or not is_owners(outcome.failure)):
                outcomes[place] = outcome
            elif self.stopped:
                request, sample = wanted[place]
                outcomes[place] = Outcome(request.parts_of(sample).key, failure=Failure("stopped"))
                self._failed["stopped"] += 1
            else:
                again.append(place)
        stopping.cancel()
        return again

    def _count(self, flight: asyncio.Future[Outcome]) -> None:
        failure = flight.result().failure
        if failure is None:
            self._done += 1
        else:
            self._failed[failure.reason] += 1

    def _count_joined(self, flight: asyncio.Future[Outcome]) -> None:
        if not is_owners(flight.result().failure):
            self._count(flight)

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
        self._mine.discard(self._flight_key(key))
        flights_here().land(self._flight_key(key), outcome)

    def fail(self, error: BaseException) -> None:
        """End the run with an error, after what is in flight has settled."""
        if self._error is None:
            self._error = error
        self.stop()
