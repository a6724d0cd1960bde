"""One run of calls: passes samples to the workers of each judge and collects their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Failure
from evalkit.core.settings import Options
from evalkit.engine.cache.in_flight import InFlight
from evalkit.engine.calls.budget import Budget
from evalkit.engine.calls.pending_call import Outcome, PendingCall, Progress
from evalkit.engine.calls.workers import Workers
from evalkit.engine.providers import check_ready
from evalkit.engine.request import Request

if TYPE_CHECKING:
    from evalkit.engine.cache.store import ReplyStore

_REQUESTS_PER_TURN = 200  # at least; as many as a judge takes at a time
_REASONS_OF_A_RUN = ("budget", "stopped", "judge_down")
SampleKey = tuple[str, bytes, float | None]
"""Store, reply key and `newer_than`."""

_in_flight: WeakKeyDictionary[asyncio.AbstractEventLoop, InFlight[asyncio.Future[Outcome]]] = WeakKeyDictionary()
"""The samples in flight on an event loop, over all runs: each is requested once, however many runs wait for it."""


class _Slot(NamedTuple):
    """One sample of the run: its position in the outcomes, number of its request, sample number, reply key."""

    place: int
    number: int
    sample: int
    key: bytes


_Joined = tuple[_Slot, "asyncio.Future[Outcome]", bool]
"""A slot, the future of its outcome, and whether this run sends the call."""


class Scheduler:
    """One run of calls. Use it on the loop thread only; `progress` may be read in any thread.

    Attributes
    ----------
    counts
        The counters of the run, which change.
    stopped
        Whether no new calls are sent.
    notes
        Warnings to be issued once, at the end.
    timed_out
        Whether the run ended after `max_seconds`, without its calls in flight.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        store: ReplyStore,
        options: Options,
        *,
        newer_than: float | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.requests, self.store, self.options, self.newer_than = requests, store, options, newer_than
        self._path = store.place
        self.stopped = self.timed_out = False
        self._deadline = None if options.max_seconds is None else time.monotonic() + options.max_seconds
        self.notes: list[str] = []
        self.budget = budget or Budget.of(options)
        # by identity first: hashing a judge for each request takes longer than looking at it
        self._judges: dict[int, Judge] = {id(request.judge): request.judge for request in requests}
        for judge in dict.fromkeys(self._judges.values()):
            check_ready(judge)
            if self.budget is not None:
                self.budget.check(judge)
        self.counts = Progress(total=sum(len(request.samples) for request in requests))
        self._mine: dict[SampleKey, int] = {}
        self._all_resolved = asyncio.Event()  # or time is up
        self._error: BaseException | None = None
        self._stop = asyncio.Event()
        self._workers: dict[int, Workers] = {}

    @property
    def progress(self) -> Progress:
        """The counters at this moment."""
        return replace(
            self.counts, failed=self.counts.failed.copy(), problems=self.counts.problems.copy(), stopped=self.stopped
        )

    def stop(self) -> None:
        """Send no new calls; calls in flight finish."""
        self.stopped = True
        self._stop.set()
        for workers in self._workers.values():
            workers.stop()

    def fail(self, error: BaseException) -> None:
        """End the run with an error, after the calls in flight have finished."""
        if self._error is None:
            self._error = error
        self.stop()

    def _time_out(self) -> None:
        """End the run now; calls in flight go on, so that replies that may be paid for are stored."""
        self.timed_out = True
        self.stop()
        self._all_resolved.set()

    async def finish(self) -> None:
        """Wait for the calls that a run left in flight after `max_seconds`."""
        while self._mine:
            self._all_resolved.clear()
            await self._all_resolved.wait()

    async def run(self) -> list[Outcome]:
        """Run all calls; see `evalkit.engine.calls.event_loop.fetch`."""
        if not self.counts.total:
            return []
        self.store.check_writable()
        workers = {judge: Workers(judge, self) for judge in dict.fromkeys(self._judges.values())}
        self._workers = {number: workers[judge] for number, judge in self._judges.items()}
        outcomes: list[Outcome | None] = [None] * self.counts.total
        samples = (
            (number, sample, key)
            for number, request in enumerate(self.requests)
            for sample, key in zip(request.samples, request.keys, strict=True)
        )
        slots: Iterable[_Slot] = (_Slot(index, *sample) for index, sample in enumerate(samples))
        timer = None
        if self._deadline is not None:
            timer = asyncio.get_running_loop().call_later(self._deadline - time.monotonic(), self._time_out)
            await asyncio.sleep(0)  # a time that is up already
        try:
            while True:
                joined = await self._schedule(slots)
                if self._mine and not self.timed_out:
                    self._all_resolved.clear()
                    await self._all_resolved.wait()
                if self._error is not None:
                    raise self._error
                slots = await self._collect(joined, outcomes)
                if not slots:
                    break
        finally:
            if timer is not None:
                timer.cancel()
            if not self.timed_out:
                for _, key, _ in list(self._mine):
                    failure = Failure("stopped", "the run ended before the call was sent")
                    self.resolve(key, Outcome(key, failure=failure))
        return [outcome for outcome in outcomes if outcome is not None]

    async def _schedule(self, slots: Iterable[_Slot]) -> list[_Joined]:
        """Join calls that are in flight already, and queue calls for the other samples.

        The first calls are sent while others are being queued, since queueing a million takes seconds.
        """
        joined: list[_Joined] = []
        loop = asyncio.get_running_loop()
        per_turn = max(_REQUESTS_PER_TURN, *(workers.concurrency for workers in self._workers.values()))
        in_flight, n_joined, own_calls = _in_flight.setdefault(loop, InFlight(loop.create_future)), 0, self._mine
        for count, (number, group) in enumerate(groupby(slots, key=itemgetter(1)), 1):
            started_slots = []
            for slot in group:
                call_key = self._path, slot.key, self.newer_than
                future, started = in_flight.join(call_key)
                is_own = started or call_key in own_calls
                if is_own:
                    own_calls[call_key] = own_calls.get(call_key, 0) + 1
                else:
                    n_joined += 1
                    future.add_done_callback(self._count_joined)
                if started:
                    started_slots.append(slot)
                joined.append((slot, future, is_own))
            if started_slots:
                request = self.requests[number]
                # a request of its own: the list that the caller holds must not keep every rendered prompt
                samples, keys = zip(*((slot.sample, slot.key) for slot in started_slots), strict=True)
                call = PendingCall(Request(request.judge, request.source, request.parts, samples, keys, request.read))
                self._workers[id(request.judge)].add([call])
            if not count % per_turn:
                await asyncio.sleep(0)
        if n_joined:
            self.store.counters.add(joins=n_joined)
        return joined

    async def _collect(self, joined: Sequence[_Joined], outcomes: list[Outcome | None]) -> list[_Slot]:
        """Fill in the outcomes; return the slots that another run was requesting and gave up."""
        again: list[_Slot] = []
        stopping: asyncio.Future[Any] | None = None
        for slot, future, is_own in joined:
            if not future.done():
                stopping = stopping or asyncio.ensure_future(self._stop.wait())
                either: set[asyncio.Future[Any]] = {future, stopping}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            outcome = future.result() if future.done() else None
            if outcome is not None and (is_own or not _is_of_its_run(outcome.failure)):
                outcomes[slot.place] = outcome if is_own else replace(outcome, joined=True)
            elif self.stopped:
                outcomes[slot.place] = Outcome(slot.key, failure=Failure("stopped"))
                self.counts.failed["stopped"] += 1
            else:
                again.append(slot)
        if stopping is not None:
            stopping.cancel()
        return again

    def _count_joined(self, future: asyncio.Future[Outcome]) -> None:
        failure = future.result().failure
        if failure is None:
            self.counts.done += 1
        elif not _is_of_its_run(failure):
            self.counts.failed[failure.reason] += 1

    def note(self, text: str) -> None:
        """Add a warning to be issued once, at the end."""
        if text not in self.notes:
            self.notes.append(text)

    def resolve(self, key: bytes, outcome: Outcome) -> None:
        """Publish the outcome of a sample that this run requested."""
        call_key = self._path, key, self.newer_than
        times = self._mine.pop(call_key, 0)
        if outcome.failure is None:
            self.counts.done += times
        elif times:
            self.counts.failed[outcome.failure.reason] += times
        if times and not self._mine:
            self._all_resolved.set()
        _in_flight[asyncio.get_running_loop()].resolve(call_key, outcome)


def _is_of_its_run(failure: Failure | None) -> bool:
    """Whether a failure belongs to the run that made the call, not to the sample: other runs may still request it."""
    return failure is not None and failure.reason in _REASONS_OF_A_RUN
