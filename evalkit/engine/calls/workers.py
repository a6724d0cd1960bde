"""A desk: one judge in one run. Its workers take calls off a queue, ask, store replies, or put calls back.

Long, but one thing: where a call is, and that it ends once only, can be seen here alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evalkit.core.judges import Judge
from evalkit.core.records import Failure, Reply, Request
from evalkit.engine.calls.budget import upper_bound
from evalkit.engine.calls.circuit_breaker import Breaker, reason_of, wait_of
from evalkit.engine.calls.outcomes import Outcome
from evalkit.engine.calls.pending_call import Call, ElsewhereError, GaveUpError
from evalkit.engine.calls.rate_limits import rate_limiter_of
from evalkit.engine.providers import connect
from evalkit.engine.providers.client import ProviderError
from evalkit.engine.providers.prices import price_of
from evalkit.errors import CacheError, EvalkitError

if TYPE_CHECKING:
    from evalkit.engine.calls.scheduler import Run

__all__ = ["JudgeWorkers"]

_RATE_LIMIT_PATIENCE = 4
_ADAPT = "adapt."
_FIRST_LOOK_S = 0.05
_LONGEST_LOOK_S = 1.0
_BEYOND_TIMEOUT_S = 10.0
_log = logging.getLogger("evalkit.engine.calls")


class JudgeWorkers:
    """The calls of one judge in one run."""

    def __init__(self, judge: Judge, run: Run) -> None:
        self.judge, self._run = judge, run
        self._client = connect(judge)
        self._lane = rate_limiter_of(judge)
        self._price = price_of(judge) or (0.0, 0.0)
        facts = run.store.facts(judge.service, judge.model)
        self._adapt = {name.removeprefix(_ADAPT): facts[name] for name in facts if name.startswith(_ADAPT)}
        self._n_works: bool | None = facts.get("n_supported", self._client.supports_n)
        self._most = min(run.options.concurrency, self._client.max_concurrency or run.options.concurrency)
        self._queue: deque[Call] = deque()
        self._ready: deque[Call] = deque()
        self._rendering = False
        self._later: dict[Call, asyncio.TimerHandle] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[Any]] = set()
        self._n_storing = 0
        self._breaker = Breaker()

    def take(self, call: Call) -> None:
        """Queue a call."""
        if self._run.stopped or self._breaker.down:
            self._land(call, self._breaker.down or Failure("stopped"))
            return
        self._queue.append(call)
        self._hire()

    def _hire(self) -> None:
        if (self._ready or self._queue) and len(self._workers) < self._most:
            self._workers.add(asyncio.ensure_future(self._work()))

    def stop(self) -> None:
        """Land what was not sent as stopped, and wake who waits for a turn."""
        self._drop_waiting(Failure("stopped"))
        for worker in self._waiting:
            worker.cancel()

    def _drop_waiting(self, failure: Failure) -> None:
        later, self._later = self._later, {}
        for timer in later.values():
            timer.cancel()
        dropped = [*later, *self._ready, *self._queue]
        self._ready.clear()
        self._queue.clear()
        for call in dropped:
            self._land(call, failure)

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        try:
            while self._ready or self._queue:
                call = (self._ready or self._queue).popleft()
                if self._queue and not self._rendering and len(self._ready) <= self._most // 2:
                    self._rendering = True
                    self._tasks.add(task := asyncio.ensure_future(self._render_ahead()))
                    task.add_done_callback(self._tasks.discard)
                if len(call.keys) > 1 and not self._may_ask_n:
                    self._put_back(call.singly())
                    continue
                try:
                    await self._attend(call)
                # whatever goes wrong, as a template that cannot be rendered, is raised to who waits for the run
                except Exception as error:  # noqa: BLE001
                    self._release(call)
                    self._run.fail(error)
                    self._land(call, Failure("stopped", "the run ended with an error"))
        finally:
            # here and not in a callback: a call that comes before the callback would find no worker
            self._workers.discard(worker)

    def _put_back(self, calls: Sequence[Call]) -> None:
        self._ready.extendleft(reversed(calls))
        for _ in calls:
            self._hire()

    async def _render_ahead(self) -> None:
        """Render the next prompts while the line is busy: the time between two rounds of replies is free."""
        try:
            while self._queue and len(self._ready) < self._most:
                call = self._queue.popleft()
                self._ready.append(call)
                call.request.prompt  # noqa: B018  # renders
                await asyncio.sleep(0)
        except Exception as error:  # noqa: BLE001  # as in `_work`; the call is landed by `fail`
            self._run.fail(error)
        finally:
            self._rendering = False

    async def _attend(self, call: Call) -> None:
        try:
            replies = await self._send(call)
        except GaveUpError as end:
            self._release(call)
            if end.failure.reason != "budget" or self._look_again(call):
                self._land(call, end.failure)
            await asyncio.sleep(0)  # thousands of calls beyond a budget must not hold the loop up
        except ElsewhereError:
            self._wait_for_others(call)
        except ProviderError as problem:
            self._release(call)
            self._consider(call, problem)
        else:
            storing = self._keep(call, replies) if replies else []
            if storing and self._n_storing > self._most:
                # the disk is slower than the network: what is paid and not yet stored must not pile up
                await asyncio.wait(storing)

    def _look_again(self, call: Call) -> bool:
        """Take what another thread or process has stored since the run began; False if nothing is left to ask for."""
        run = self._run
        found = run.store.get_many(call.keys, since=run.newer_than, recorded=False)
        if not found:
            return True
        run.store.counters.add(joins=len(found))
        call.leave_out(found)
        for key, value in found.items():
            run.land(key, Outcome(key, value=value))
        return bool(call.keys)

    def _claim(self, call: Call) -> bool:
        """Claim a call's samples, so that no other process asks for them too; False if nothing is left to ask for.

        Who holds a claim for longer than an answer may take hangs: then the call is sent all the same.
        """
        claims, now = self._run.store.claims, asyncio.get_running_loop().time()
        if claims.take(call.keys):
            call.claimed = call.keys
            left = self._look_again(call)
            self._release(call, but=call.keys)
            return left
        if call.waiting_since is None:
            call.waiting_since = now
        if now - call.waiting_since <= self.judge.timeout_s + _BEYOND_TIMEOUT_S:
            raise ElsewhereError
        return self._look_again(call)

    def _release(self, call: Call, but: Sequence[bytes] = ()) -> None:
        """Let others ask for a call's samples, but for some."""
        self._run.store.claims.release(key for key in call.claimed if key not in but)
        call.claimed = tuple(key for key in call.claimed if key in but)

    def _wait_for_others(self, call: Call) -> None:
        """Look again in a moment, less and less often: the reply will be there, or its claim is gone."""
        if self._run.stopped:
            self._land(call, Failure("stopped"))
            return
        wait = min(_LONGEST_LOOK_S, _FIRST_LOOK_S * 2.0**call.waits) * random.uniform(0.5, 1.0)  # noqa: S311  # jitter
        call.waits += 1
        self._later[call] = asyncio.get_running_loop().call_later(wait, self._again, call)

    @property
    def _may_ask_n(self) -> bool:
        return self._n_works is not False and "n" not in self._adapt

    def _land(self, call: Call, failure: Failure) -> None:
        for place, key in enumerate(call.keys):
            # what one request may have cost is not counted once for each of its samples
            own = replace(failure, maybe_paid=call.maybe_paid if place == 0 else 0)
            self._run.land(key, Outcome(key, failure=own))

    def _keep(self, call: Call, replies: Sequence[Reply]) -> list[asyncio.Future[bytes]]:
        """Store the replies, to be landed once they are on disk; queue the rest if there were fewer than asked for."""
        request, run = call.request, self._run
        storing = []
        for sample, key, reply in zip(request.samples, request.keys, replies, strict=False):
            run.paid(reply)
            try:
                stored = run.store.aput(request.parts_of(sample), reply, newer_than=run.newer_than)
            except CacheError as error:
                self._release(call, but=[other for other in call.claimed if other != key])
                run.fail(error)
                run.land(key, Outcome(key, failure=Failure("stopped", "the reply could not be stored")))
                continue
            self._n_storing += 1
            stored.add_done_callback(partial(self._kept, call, key))
            storing.append(stored)
        self._ask_the_rest(call, len(replies))
        return storing

    def _ask_the_rest(self, call: Call, n_got: int) -> None:
        """Queue what a request brought fewer replies of than asked for; learn whether the server gives several."""
        run, n_asked = self._run, len(call.keys)
        if n_got < n_asked:
            self._release(call, but=call.keys[:n_got])
            rest = call.part(n_got, n_asked).singly()
            if run.stopped:
                for part in rest:
                    self._land(part, Failure("stopped"))
            else:
                self._put_back(rest)
        if n_asked > 1 and self._n_works is not (n_got == n_asked):
            self._n_works = n_got == n_asked
            run.store.learn(self.judge.service, self.judge.model, "n_supported", self._n_works)

    def _kept(self, call: Call, key: bytes, stored: asyncio.Future[bytes]) -> None:
        self._n_storing -= 1
        self._release(call, but=[other for other in call.claimed if other != key])
        error = None if stored.cancelled() else stored.exception()
        if stored.cancelled() or error is not None:
            if error is not None:
                self._run.fail(error)
            self._run.land(key, Outcome(key, failure=Failure("stopped", "the reply could not be stored")))
        else:
            self._run.land(key, Outcome(key, value=stored.result()))

    async def _send(self, call: Call) -> list[Reply]:
        """One request, within budget, pace and width; no replies if others have brought them meanwhile.

        Where several replies at once are no longer asked for, it is the first sample alone.
        """
        self._check_open()
        run = self._run
        if run.budget.is_used_up:
            raise GaveUpError(Failure("budget", run.budget.spent()))
        held = upper_bound(call.request, len(call.keys), self._price) if run.options.budget_usd is not None else 0.0
        await self._reserve(held)
        spent, billed = 0.0, False
        try:
            await self._enter(call, len(call.keys))
            try:
                self._check_open()
                if not self._claim(call):
                    return []
                run.in_flight += 1
                call.epoch, call.adapt = self._lane.epoch, self._adapt.copy()  # only now: much may have been learnt
                try:
                    replies = await self._ask(call.request, len(call.keys) if self._may_ask_n else 1, call.adapt)
                finally:
                    run.in_flight -= 1
            finally:
                self._lane.leave()
            costs = [reply.cost_usd for reply in replies]
            spent, billed = held if None in costs else sum(cost or 0.0 for cost in costs), True
        except ProviderError as problem:
            spent, billed = held, problem.maybe_paid
            run.maybe_paid += problem.maybe_paid
            raise
        except asyncio.CancelledError:
            spent, billed = held, True  # at the end of the process: it was sent, nobody knows
            raise
        finally:
            run.budget.settle(held, spent, billed=billed)
        self._breaker.answered()
        self._lane.succeeded()
        return replies

    async def _ask(self, request: Request, n: int, adapt: Mapping[str, Any]) -> list[Reply]:
        """Ask the client; an answer that it cannot read, in whatever way, costs this call and not the run."""
        try:
            return await self._client.ask(request, n, adapt=adapt)
        except (ProviderError, EvalkitError):
            raise
        except Exception as error:
            _log.exception("%s: an answer could not be read", self.judge.name)
            detail = f"the answer could not be read ({type(error).__name__})"
            raise ProviderError("malformed", detail, maybe_paid=True) from error

    async def _reserve(self, held: float) -> None:
        budget = self._run.budget
        if budget.hold(held):
            return
        with self._wakeable():
            if not await budget.reserve(held):
                raise GaveUpError(Failure("budget", budget.spent()))

    async def _enter(self, call: Call, n: int) -> None:
        options = self._run.options
        tokens = 0
        if options.tokens_per_minute is not None:
            tokens = call.request.prompt.n_bytes // 4 + n * (self.judge.max_tokens or 0)
        if not self._lane.enter_now(options):
            with self._wakeable():
                await self._lane.enter(options, tokens)

    def _check_open(self) -> None:
        if self._run.stopped:
            raise GaveUpError(Failure("stopped"))
        if self._breaker.down is not None:
            raise GaveUpError(self._breaker.down)

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
            raise GaveUpError(Failure("stopped")) from None
        finally:
            self._waiting.discard(worker)

    def _consider(self, call: Call, problem: ProviderError) -> None:
        """What to do after an attempt that brought no reply: ask again now, later, or not at all."""
        call.maybe_paid += problem.maybe_paid
        if problem.kind == "refused_parameter" and self._drop_parameter(problem, call):
            self._put_back([call])
            return
        if problem.kind == "rate_limited":
            call.limited += 1
        else:
            call.failed += 1
        if self._breaker.failed(problem):
            failure = self._breaker.down
            assert failure is not None
            self._land(call, failure)
            self._drop_waiting(failure)
            return
        wait = wait_of(problem, call.failed + call.limited - 1)
        if problem.kind == "rate_limited" and wait is not None:
            self._lane.refused(wait.lane_s, call.epoch)
        retries = self._run.options.retries
        patient = call.failed <= retries and call.limited <= _RATE_LIMIT_PATIENCE * retries
        if wait is None or not patient:
            detail = problem.detail
            if problem.retry_after and wait is None:
                detail += f" (it asks to wait {problem.retry_after:g} s)"
            failure = Failure(reason_of(problem), detail)
            self._land(call, failure)
            if self._breaker.gave_up(problem, failure, hopeless=wait is None):
                self._drop_waiting(self._breaker.down or failure)
        elif self._run.stopped:
            self._land(call, Failure("stopped", problem.detail))
        else:
            self._later[call] = asyncio.get_running_loop().call_later(wait.call_s, self._again, call)

    def _again(self, call: Call) -> None:
        del self._later[call]
        self._put_back([call])

    def _drop_parameter(self, problem: ProviderError, call: Call) -> bool:
        """Learn that a parameter is refused; False if it was not even sent."""
        name = str(problem.parameter)
        if name in call.adapt:
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
