"""A desk: one judge in one run. Its workers take calls off a queue, try again what may pass, and store replies."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from evalkit.calling.budgets import upper_bound
from evalkit.calling.lanes import lane_of
from evalkit.calling.limits import Outcome
from evalkit.errors import CacheError
from evalkit.providers import ProviderError, connect
from evalkit.providers.prices import price_of
from evalkit.records import Failure, Judge, Reason, Reply, Request

if TYPE_CHECKING:
    from evalkit.calling.runs import Run

__all__ = ["Call", "Desk"]

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 30.0
LONGEST_RETRY_AFTER_S = 300.0
FAILURES_TO_CLOSE = 8
_RATE_LIMIT_PATIENCE = 4
_ADAPT = "adapt."

_REASONS: dict[str, Reason] = {"timeout": "timeout", "rate_limited": "rate_limited"}
_TRANSPORT = ("connection", "timeout", "malformed")
_FOR_GOOD = ("auth", "unknown_model")


@dataclass(frozen=True, slots=True)
class Call:
    """Samples of one prompt that are to be asked for, and their reply keys."""

    request: Request
    keys: tuple[bytes, ...]

    def part(self, start: int, stop: int) -> Call:
        """Some of the samples."""
        return Call(replace(self.request, samples=self.request.samples[start:stop]), self.keys[start:stop])

    def singly(self) -> list[Call]:
        """One call per sample."""
        return [self.part(place, place + 1) for place in range(len(self.keys))]


class _GaveUpError(Exception):
    """A call ends without a reply."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class Desk:
    """The calls of one judge in one run."""

    def __init__(self, judge: Judge, run: Run) -> None:
        self.judge, self._run = judge, run
        self._client = connect(judge)
        self._lane = lane_of(judge)
        self._price = price_of(judge)
        facts = run.store.facts(judge.service, judge.model)
        self._adapt = {name.removeprefix(_ADAPT): facts[name] for name in facts if name.startswith(_ADAPT)}
        self._n_works: bool | None = facts.get("n_supported", self._client.supports_n)
        self._queue: deque[Call] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._down: Failure | None = None
        self._failures_in_row = 0
        self._answered = False

    def take(self, call: Call) -> None:
        """Queue a call."""
        self._queue.append(call)

    async def close_of_business(self) -> None:
        """Work until the queue is empty and all workers are done."""
        self._hire()
        while self._workers:
            done, _ = await asyncio.wait(self._workers, return_when=asyncio.FIRST_COMPLETED)
            self._workers -= done
            for worker in done:
                if not worker.cancelled() and (error := worker.exception()) is not None:
                    self._run.fail(error)
            self._hire()

    def _hire(self) -> None:
        # More workers than may be in flight: while some wait for the disk, others keep the line busy
        most = min(len(self._queue), 2 * self._run.limits.concurrency - len(self._workers))
        for _ in range(most):
            self._workers.add(asyncio.ensure_future(self._work()))

    def stop(self) -> None:
        """Land what is queued as stopped, and wake who waits for a turn or between retries."""
        while self._queue:
            self._land(self._queue.popleft(), Failure("stopped"))
        for worker in self._waiting:
            worker.cancel()

    async def _work(self) -> None:
        while self._queue:
            call = self._queue.popleft()
            if len(call.keys) > 1 and not self._may_ask_n:
                self._queue.extendleft(reversed(call.singly()))
                self._hire()
                continue
            try:
                replies = await self._ask(call)
            except _GaveUpError as end:
                self._land(call, end.failure)
            else:
                await self._keep(call, replies)

    @property
    def _may_ask_n(self) -> bool:
        return self._n_works is not False and "n" not in self._adapt

    def _land(self, call: Call, failure: Failure) -> None:
        for place, key in enumerate(call.keys):
            # what one request may have cost is not counted once for each of its samples
            own = failure if place == 0 else replace(failure, maybe_paid=0)
            self._run.land(key, Outcome(key, failure=own))

    async def _keep(self, call: Call, replies: Sequence[Reply]) -> None:
        """Store the replies, then land them; queue the rest if there were fewer than asked for."""
        request, run = call.request, self._run
        n_asked, n_got = len(call.keys), len(replies)
        if n_asked > 1 and self._n_works is not (n_got == n_asked):
            self._n_works = n_got == n_asked
            run.store.learn(self.judge.service, self.judge.model, "n_supported", self._n_works)
        if n_got < n_asked:
            self._queue.extendleft(reversed(call.part(n_got, n_asked).singly()))
            self._hire()
        for reply in replies:
            run.paid(reply)
        try:
            storing = [
                run.store.aput(request.parts_of(sample), reply, newer_than=run.newer_than)
                for sample, reply in zip(request.samples[:n_got], replies, strict=True)
            ]
        except CacheError as error:
            run.fail(error)
            self._land(call.part(0, n_got), Failure("stopped", "the reply could not be stored"))
            return
        stored = await asyncio.gather(*storing, return_exceptions=True)
        for key, value in zip(call.keys[:n_got], stored, strict=True):
            if isinstance(value, BaseException):
                run.fail(value)
                run.land(key, Outcome(key, failure=Failure("stopped", "the reply could not be stored")))
            else:
                run.land(key, Outcome(key, value=value))

    async def _ask(self, call: Call) -> list[Reply]:
        """Ask until there is an answer, or no hope or patience for one."""
        failed = limited = maybe_paid = 0
        retries = self._run.limits.retries
        while True:
            adapt: dict[str, Any] = {}
            try:
                return await self._send(call.request, adapt)
            except ProviderError as problem:
                maybe_paid += problem.maybe_paid
                if problem.kind == "refused_parameter" and self._drop(problem, adapt):
                    continue
                wait = self._judge_problem(problem, failed + limited, maybe_paid)
                if problem.kind == "rate_limited":
                    limited += 1
                else:
                    failed += 1
                if failed > retries or limited > _RATE_LIMIT_PATIENCE * retries:
                    reason = _REASONS.get(problem.kind, "server_error")
                    raise _GaveUpError(Failure(reason, problem.detail, maybe_paid)) from None
            await self._pause(wait)

    async def _send(self, request: Request, adapt: dict[str, Any]) -> list[Reply]:
        """One request, within budget, pace and width; `adapt` is filled with what was known when it was sent.

        Where several replies at once are no longer asked for, it is the first sample alone.
        """
        run, n = self._run, len(request.samples)
        held = upper_bound(request, n, self._price or (0.0, 0.0))
        tokens = request.prompt.n_bytes // 4 + n * (self.judge.max_tokens or 0)
        with self._wakeable():
            if not await run.budget.reserve(held):
                raise _GaveUpError(Failure("budget", run.budget.spent()))
            spent, billed = 0.0, False
            try:
                await self._lane.enter(run.limits, tokens)
            except BaseException:
                run.budget.settle(held, 0.0, billed=False)
                raise
        run.in_flight += 1
        try:
            self._check_open()
            adapt |= self._adapt  # only now: much may have been learnt while this call waited
            replies = await self._client.ask(request, n if self._may_ask_n else 1, adapt=adapt)
            costs = [reply.cost_usd for reply in replies]
            spent, billed = held if None in costs else sum(cost or 0.0 for cost in costs), True
        except ProviderError as problem:
            spent, billed = held, problem.maybe_paid
            run.maybe_paid += problem.maybe_paid
            raise
        finally:
            run.in_flight -= 1
            self._lane.leave()
            run.budget.settle(held, spent, billed=billed)
        self._answered, self._failures_in_row = True, 0
        self._lane.succeeded()
        return replies

    def _check_open(self) -> None:
        if self._run.stopped:
            raise _GaveUpError(Failure("stopped"))
        if self._down is not None:
            raise _GaveUpError(self._down)

    @contextlib.contextmanager
    def _wakeable(self) -> Iterator[None]:
        """Within, nothing is in flight and `stop` may interrupt the wait."""
        self._check_open()
        worker = asyncio.current_task()
        assert worker is not None
        self._waiting.add(worker)
        try:
            yield
        except asyncio.CancelledError:
            if not self._run.stopped:
                raise
            worker.uncancel()
            raise _GaveUpError(Failure("stopped")) from None
        finally:
            self._waiting.discard(worker)

    async def _pause(self, seconds: float) -> None:
        with self._wakeable():
            await asyncio.sleep(seconds)

    def _drop(self, problem: ProviderError, adapt: dict[str, Any]) -> bool:
        """Learn that a parameter is refused; False if it was not even sent."""
        name = str(problem.parameter)
        if name in adapt:
            return False
        if name not in self._adapt:
            other = "max_completion_tokens" if name == "max_tokens" else None
            self._adapt[name] = other
            self._run.store.learn(self.judge.service, self.judge.model, _ADAPT + name, other)
            instead = f"{other} is sent instead" if other else "it is left out"
            self._run.note(
                f"{self.judge.model} at {self.judge.service} refuses {name}, so {instead}, now and from now on "
                f"({problem.detail})"
            )
        return True

    def _judge_problem(self, problem: ProviderError, tried: int, maybe_paid: int) -> float:
        """Seconds until the next attempt; raises where there is no hope for the call or for the judge."""
        if problem.kind in _FOR_GOOD:
            self._down = Failure("judge_down", problem.detail)
        elif problem.kind in _TRANSPORT:
            self._failures_in_row += 1
            if not self._answered and self._failures_in_row >= FAILURES_TO_CLOSE:
                detail = f"{FAILURES_TO_CLOSE} failures in a row before any answer, the last: {problem.detail}"
                self._down = Failure("judge_down", detail)
        if self._down is not None:
            raise _GaveUpError(replace(self._down, maybe_paid=maybe_paid)) from None
        if problem.kind in ("client_error", "refused_parameter"):
            raise _GaveUpError(Failure("server_error", problem.detail, maybe_paid)) from None
        if (problem.retry_after or 0.0) > LONGEST_RETRY_AFTER_S:
            detail = f"{problem.detail} (it asks to wait {problem.retry_after:g} s)"
            raise _GaveUpError(Failure(_REASONS.get(problem.kind, "server_error"), detail, maybe_paid)) from None
        spread = random.uniform(0.5, 1.0)  # noqa: S311  # jitter, no secret
        wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0**tried) * spread
        if problem.kind == "rate_limited":
            # the whole lane waits; each call a little longer, so that they do not all come back at once
            self._lane.refused(wait if problem.retry_after is None else problem.retry_after)
            return (problem.retry_after or 0.0) + (wait if problem.retry_after is None else FIRST_WAIT_S * spread / 4)
        return max(wait, problem.retry_after or 0.0)
