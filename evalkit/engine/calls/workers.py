"""The workers of one judge in one run: they take calls off a queue, send them, and store the replies."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from evalkit.core.judge_field_checks import is_private
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import TOO_LONG, Failure, Reply
from evalkit.core.providers import PROVIDERS
from evalkit.core.settings import CONCURRENCY
from evalkit.engine.cache.batch_tickets import IN_BATCH
from evalkit.engine.calls.budget import image_tokens, upper_bound
from evalkit.engine.calls.pending_call import CallFailedError, CannotStartYetError, Outcome, PendingCall
from evalkit.engine.calls.rate_limits import RateLimiter, rate_limiters
from evalkit.engine.calls.retries_and_breaker import EMPTY, IN_FLIGHT, REASONS, Breaker, FirstReplies
from evalkit.engine.providers import connect
from evalkit.engine.providers.error_answers import SYSTEM_ROLE, fact_of, instead_of, learnt
from evalkit.engine.providers.prices import price_of
from evalkit.engine.providers.waits import wait_of, wait_text
from evalkit.engine.request import ProviderError, asks_singly
from evalkit.errors import CacheError
from evalkit.rubrics.parsing.reply_cleanup import is_cut, is_withheld

if TYPE_CHECKING:
    from evalkit.engine.calls.scheduler import Scheduler

_IN_BATCH = "a batch has requested the reply; collect fetches it"
_RATE_LIMIT_PATIENCE = 4
_AS_ASKED = object()
_FIRST_LOOK_S = 0.05
_LONGEST_LOOK_S = 1.0
_BEYOND_TIMEOUT_S = 10.0
_TOKENS_OF_A_CALL = 1000  # about
_STARTS_BEFORE = 100  # calls of other judges and runs of its process may start before the one that holds a claim


class _Wakeable(set["asyncio.Task[Any]"]):
    """The workers that wait in a block of it, which `stop` may interrupt; not a generator, which takes longer."""

    def __init__(self, run: Scheduler, check_open: Callable[[], None]) -> None:
        self._run, self._check_open = run, check_open

    def __enter__(self) -> None:
        self._check_open()
        worker = asyncio.current_task()
        assert worker is not None
        self.add(worker)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        self.discard(worker)
        if kind is asyncio.CancelledError and self._run.stopped:
            worker.uncancel()
            raise CallFailedError(Failure("stopped")) from None


class Workers:
    """The queue of one judge in one run, and the tasks that send its calls."""

    def __init__(self, judge: Judge, run: Scheduler) -> None:
        self.judge, self._run = judge, run
        concurrency = run.options.concurrency or CONCURRENCY
        self._client = connect(judge, concurrency)
        limiters = rate_limiters.setdefault(asyncio.get_running_loop(), {})
        server = judge.base_url or "" if judge.service == "local" else judge.service
        self._limiter = limiters.setdefault((server, judge.model, judge.api_key_env), RateLimiter())
        self._limiter.begin(
            slowly=run.options.concurrency is None and judge.base_url is not None and is_private(judge.base_url)
        )
        facts = run.store.facts(judge.service, judge.model)
        self._adapt = learnt(facts, judge)
        self._taken: set[tuple[str, object]] = set()  # parameters and how they were sent in calls that were answered
        self._refused_by_prompt: set[str] = set()
        # whether one request can return several replies; None: unknown
        self._n_works: bool | None = False
        if not asks_singly(judge) and ("n" not in self._adapt or self._adapt["n"] is not None):
            self._n_works = facts.get("n_supported", self._client.supports_n)
        self.concurrency = self._client.own_concurrency or concurrency
        self._most = min(self.concurrency, self._client.max_concurrency or self.concurrency)
        # so few that a claim is held for about a second before its call starts: others wait for it
        limit = min(run.options.requests_per_minute or math.inf,
                    (run.options.tokens_per_minute or math.inf) / _TOKENS_OF_A_CALL)  # fmt: skip
        self._longest_claim_s = judge.timeout_s + _BEYOND_TIMEOUT_S + _STARTS_BEFORE * 60 / limit
        # without a limit, each call that may be in flight may start
        self._starting: Any = contextlib.nullcontext()
        if limit < math.inf:
            self._starting = asyncio.Semaphore(max(1, int(min(limit / 60, self.concurrency))))
        self._queue: deque[PendingCall] = deque()
        self._repeats: deque[PendingCall] = deque()  # calls that were sent; they go before all others
        self._n_rendered = 0  # so many of the next calls have their prompt
        self._later: dict[PendingCall, asyncio.TimerHandle] = {}
        self._workers: set[asyncio.Task[None]] = set()
        self._wakeable = _Wakeable(run, self._check_open)
        self._n_storing = 0
        self._note_is_given = False
        self._breaker = Breaker()
        self._first = FirstReplies()

    def add(self, calls: Sequence[PendingCall], *, first: bool = False) -> None:
        """Queue calls; with `first`, before the others: their prompts are rendered already."""
        for call in reversed(calls) if first else calls:
            if self._run.stopped or self._breaker.down:
                self._fail(call, self._breaker.down or Failure("stopped"))
                continue
            if call in self._first.sent and (first or self._first.must_be_awaited):
                self._repeats.append(call)
            elif first:
                self._queue.appendleft(call)
                self._n_rendered += 1
            else:
                self._first.sent.pop(call, None)  # the others need not wait for it
                self._queue.append(call)
            if len(self._workers) < self._most:
                self._workers.add(asyncio.ensure_future(self._work()))

    def stop(self) -> None:
        """End the calls that were not sent, and wake the workers that wait."""
        self._fail_waiting(Failure("stopped"))
        for worker in self._wakeable:
            worker.cancel()
        self._client.stop()

    def _fail_waiting(self, failure: Failure) -> None:
        later, self._later = self._later, {}
        for timer in later.values():
            timer.cancel()
        calls = [*later, *self._repeats, *self._queue]
        self._repeats.clear()
        self._queue.clear()
        for call in calls:
            self._fail(call, failure)

    def _fail(self, call: PendingCall, failure: Failure) -> None:
        """End a call without a reply; what its empty completions cost was paid all the same."""
        self._run.counts.n_unpriced += math.isnan(call.spent_usd)
        self._run.counts.cost_usd += 0.0 if math.isnan(call.spent_usd) else call.spent_usd
        call.spent_usd = 0.0
        self._first.sent.pop(call, None)
        self._run.counts.problems[self.judge.name, failure.reason] = failure.detail
        for index, key in enumerate(call.request.keys):
            # what one request may have cost is not counted once for each of its samples
            sample_failure = replace(failure, maybe_paid=call.maybe_paid if index == 0 else 0)
            self._run.resolve(key, Outcome(key, failure=sample_failure))

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        try:
            while self._repeats or self._queue:
                repeated = next(filter(self._first.begin_repeat, self._repeats), None)
                if repeated is not None:
                    call = repeated
                    self._repeats.remove(call)
                elif self._first.must_be_awaited:  # what was sent may decide that the judge is stopped
                    await asyncio.sleep(_FIRST_LOOK_S)
                    continue
                else:
                    call = self._queue.popleft()
                    self._n_rendered = max(0, self._n_rendered - 1)
                    self._render_next()
                if len(call.request.keys) > (n_at_most := self._most_replies(call)):
                    parts = call.split(size=n_at_most)
                    if call in self._first.sent:
                        self._first.sent[parts[0]] = self._first.sent.pop(call)
                    self.add(parts, first=True)
                    continue
                try:
                    await self._process(call)
                # whatever goes wrong, as a template that cannot be rendered, is raised to the run's caller
                except Exception as error:  # noqa: BLE001
                    self._release(call)
                    self._run.fail(error)
                    self._fail(call, Failure("stopped", "the run ended with an error"))
        finally:
            # here and not in a callback: a call that comes before the callback would find no worker
            self._workers.discard(worker)

    def _most_replies(self, call: PendingCall) -> int:
        """How many replies one request of a call may ask for."""
        limit = (self._adapt | call.refused).get("n", sys.maxsize)
        return 1 if self._n_works is False or limit is None else int(limit)

    def _render_next(self) -> None:
        """Render one prompt ahead while calls are in flight, so that the next call can be sent without delay."""
        if self._n_rendered < min(len(self._queue), self._most):
            try:
                self._queue[self._n_rendered].request.prompt  # noqa: B018  # renders
            except Exception as error:  # noqa: BLE001  # as in `_work`; `fail` ends the call
                self._run.fail(error)
            self._n_rendered += 1

    async def _process(self, call: PendingCall) -> None:
        try:
            replies = await self._send(call)
            self._refuse_empty(call, replies)
        except CallFailedError as end:
            self._release(call)
            was_sent = self._first.sent.pop(call, None) is not None
            if end.failure.reason != "budget" or self._take_stored(call):
                self._fail(call, end.failure)
            if was_sent:
                self._weigh(call)
            await asyncio.sleep(0)  # thousands of calls beyond a budget must not hold the loop up
        except CannotStartYetError:
            self._wait_for_others(call)
        except ProviderError as problem:
            self._release(call)
            if self._first.sent.get(call) == IN_FLIGHT:
                del self._first.sent[call]  # an error says nothing of replies: the others need not wait for its retries
            self._retry_or_fail(call, problem)
            self._weigh(call)
        else:
            self._first.sent.pop(call, None)
            storing = self._store(call, replies) if replies else []
            self._weigh(call, replies)
            if storing and self._n_storing > self._most:
                # the disk is slower than the network: paid replies that are not stored yet must not pile up
                await asyncio.wait(storing)

    async def _send(self, call: PendingCall) -> list[Reply]:
        """Send one request, within budget, pace and concurrency; no replies if another process has stored them.

        If the model does not return several replies per request, the request is for the first sample alone.
        """
        run, request = self._run, call.request
        budget, options, reserved, tokens = run.budget, run.options, 0.0, 0
        if budget is not None:
            with self._wakeable:
                if options.budget_usd is not None and not budget.is_used_up:
                    reserved = upper_bound(request, len(request.keys), price_of(self.judge) or (0.0, 0.0))
                if budget.is_used_up or not await budget.reserve(reserved):
                    last = f" (an earlier attempt failed: {call.problem})" if call.problem else ""
                    if last and not self._note_is_given:  # the table only says "budget"
                        self._note_is_given = True
                        run.note(f"judge '{self.judge.name}': failed calls were not sent again: {budget.spent()}{last}")
                    raise CallFailedError(Failure("budget", budget.spent() + last))
        spent, sent = 0.0, False
        try:
            if options.tokens_per_minute is not None:
                tokens = (
                    request.prompt.n_bytes // 4
                    + image_tokens(request)
                    + len(request.keys) * (self.judge.max_tokens or 0)
                )
            with self._wakeable:
                await self._limiter.enter(self.concurrency)
            try:
                # claimed before the pace, so that a call that is stored or held elsewhere takes nothing of the rate
                with self._wakeable:
                    async with self._starting:
                        await self._limiter.pause()
                        if not await self._claim(call):
                            return []
                        await self._limiter.start(options, tokens)
                self._check_open()
                run.counts.in_flight += 1
                self._first.sent.setdefault(call, IN_FLIGHT)
                call.epoch, call.adapt = self._limiter.epoch, self._adapt | call.refused  # much may have been learnt
                call.n_answered, started = self._limiter.n_answered, time.monotonic()
                try:
                    n = 1 if self._n_works is False else len(call.request.keys)
                    replies = await self._client.ask(call.request, n, adapt=call.adapt)
                finally:
                    run.counts.in_flight -= 1
            finally:
                self._limiter.leave()
            costs = [reply.cost_usd for reply in replies]
            spent, sent = reserved if None in costs else sum(cost or 0.0 for cost in costs), True
            if options.budget_usd is not None and spent > reserved:
                run.note(
                    f"judge '{self.judge.name}' billed more for a call than its price and max_tokens allow, so costs "
                    f"may exceed budget_usd={options.budget_usd}; correct the judge's price or max_tokens"
                )
        except ProviderError as problem:
            spent, sent = reserved * problem.maybe_paid, problem.is_sent
            run.counts.maybe_paid += problem.maybe_paid
            raise
        except asyncio.CancelledError:
            spent, sent = reserved, True  # at the end of the process: it was sent, whether it was billed is unknown
            raise
        finally:
            if budget is not None:
                budget.settle(reserved, spent, sent=sent)
        self._breaker.succeeded()
        self._limiter.succeeded(slowly=time.monotonic() - started > self.judge.timeout_s / 2)
        self._learn_refusals(call)
        return replies

    def _weigh(self, call: PendingCall, replies: Sequence[Reply] = ()) -> None:
        """Read the judge's first replies, and stop it if they are of no use."""
        first, request = self._first, call.request
        if request.read is None or first.are_read:
            return
        for key, reply in zip(request.keys, replies, strict=False):
            if reply.text is None and self.judge.provider == "function":
                continue  # None is what a function may say
            first.add(reply, request.read(key, reply), (request.parts.rubric_hash, request.parts.input_hash))
        why = first.why_stop(request.prompt)
        if why is not None and self._breaker.down is None:
            self._breaker.down = Failure("stopped", why)
            self._run.note(f"judge '{self.judge.name}' was {why}")
            self._fail_waiting(self._breaker.down)

    def _refuse_empty(self, call: PendingCall, replies: Sequence[Reply]) -> None:
        """Raise ProviderError if a service generated nothing, unless this was the last attempt: then it is stored."""
        retries = self._run.options.retries if PROVIDERS[self.judge.provider].host != "local" else 0
        if call.failed < retries and replies and all(map(_is_nothing, replies)):
            call.spent_usd += sum(math.nan if reply.cost_usd is None else reply.cost_usd for reply in replies)
            if call.request.read is not None and self._first.sent.get(call) == IN_FLIGHT:
                self._first.sent[call] = EMPTY
            raise ProviderError("server_error", "the completion was empty (0 tokens)", maybe_paid=True)

    def _check_open(self) -> None:
        if self._run.stopped:
            raise CallFailedError(Failure("stopped"))
        if self._breaker.down is not None:
            raise CallFailedError(self._breaker.down)

    async def _claim(self, call: PendingCall) -> bool:
        """Claim a call's samples, so that no other process requests them too; False if no sample is left.

        If another process keeps its claim for longer than an answer and its turn at the rate may take, the call
        is sent anyway. While all first replies are cut, no new call is: those sent may decide that the judge stops.
        """
        if self._first.must_be_awaited and call not in self._first.sent:
            raise CannotStartYetError
        keys, now = call.request.keys, asyncio.get_running_loop().time()
        stored = await self._run.store.claim(keys, since=self._run.newer_than)
        if stored is not None:
            call.claimed = keys
            if not stored:
                return True
            has_samples = self._take_over(call, stored)
            self._release(call, [key for key in keys if key not in call.request.keys])
            return has_samples
        if call.waiting_since is None:
            call.waiting_since = now
        if now - call.waiting_since <= self._longest_claim_s:
            raise CannotStartYetError
        return self._take_stored(call)

    def _release(self, call: PendingCall, keys: Sequence[bytes] | None = None) -> None:
        """Let others request a call's samples: those with these keys, or all."""
        released = call.claimed if keys is None else [key for key in call.claimed if key in keys]
        if released:
            self._run.store.claims.release(released)
            call.claimed = tuple(key for key in call.claimed if key not in released)

    def _take_stored(self, call: PendingCall) -> bool:
        """Take replies that another thread or process has stored since the run began; False if no sample is left."""
        run = self._run
        return self._take_over(call, run.store.stored_or_asked(call.request.keys, since=run.newer_than, recorded=False))

    def _take_over(self, call: PendingCall, stored: dict[bytes, bytes]) -> bool:
        run = self._run
        if not stored:
            return True
        run.store.counters.add(joins=sum(value != IN_BATCH for value in stored.values()))
        call.leave_out(stored)
        for key, value in stored.items():
            in_batch = Failure("in_batch", _IN_BATCH) if value == IN_BATCH else None
            run.resolve(key, Outcome(key, value=None if in_batch else value, failure=in_batch, joined=True))
        return bool(call.request.keys)

    def _wait_for_others(self, call: PendingCall) -> None:
        """Look again later, with increasing waits: the reply will be stored, or its claim released."""
        if self._run.stopped:
            self._fail(call, Failure("stopped"))
            return
        wait = min(_LONGEST_LOOK_S, _FIRST_LOOK_S * 2.0**call.waits) * random.uniform(0.5, 1.0)  # noqa: S311  # jitter
        call.waits += 1
        self._retry_in(wait, call)

    def _store(self, call: PendingCall, replies: Sequence[Reply]) -> list[asyncio.Future[bytes]]:
        """Store the replies (outcomes follow once they are on disk) and queue the samples that are still missing."""
        request, run = call.request, self._run
        storing: list[asyncio.Future[bytes]] = []
        if call.spent_usd and (cost := replies[0].cost_usd) is not None:
            cost_usd = None if math.isnan(call.spent_usd) else cost + call.spent_usd
            replies = [replace(replies[0], cost_usd=cost_usd), *replies[1:]]
            call.spent_usd = 0.0
        for sample, key, reply in zip(request.samples, request.keys, replies, strict=False):
            run.counts.n_bought += 1
            run.counts.n_unpriced += reply.cost_usd is None
            run.counts.cost_usd += reply.cost_usd or 0.0
            storing += self._put(call, sample, key, reply)
        n_asked, n_got = len(request.keys), len(replies)
        if n_got < n_asked:
            self._release(call, request.keys[n_got:])
            rest = call.split(n_got)
            self.add(rest, first=True)
        works = n_got == n_asked or (n_got > 1 and self._n_works is True)  # some may have been lost
        if n_asked > 1 and self._n_works is not works and "n" not in self._adapt:
            self._n_works = works
            run.store.learn(self.judge.service, self.judge.model, "n_supported", self._n_works)
        return storing

    def _store_too_long(self, call: PendingCall, failure: Failure) -> None:
        """End a call whose prompt is too long, and store it: another run would be refused as well."""
        request = call.request
        self._first.sent.pop(call, None)
        self._run.counts.problems[self.judge.name, failure.reason] = failure.detail
        for sample, key in zip(request.samples, request.keys, strict=True):
            self._put(call, sample, key, Reply(None, TOO_LONG, cost_usd=0.0, created=time.time()), failure)

    def _put(
        self, call: PendingCall, sample: int, key: bytes, reply: Reply, failure: Failure | None = None
    ) -> list[asyncio.Future[bytes]]:
        """Begin to store a reply; the outcome is that of the sample, once it is on disk. Nothing if it cannot be."""
        run = self._run
        try:
            stored = run.store.aput(call.request.parts.of_sample(sample), reply, newer_than=run.newer_than)
        except CacheError as error:
            self._not_stored(call, key, error)
            return []
        self._n_storing += 1
        stored.add_done_callback(partial(self._stored, call, key, failure=failure))
        return [stored]

    def _stored(
        self, call: PendingCall, key: bytes, stored: asyncio.Future[bytes], failure: Failure | None = None
    ) -> None:
        self._n_storing -= 1
        if stored.cancelled() or stored.exception() is not None:
            self._not_stored(call, key, None if stored.cancelled() else stored.exception())
        else:
            self._release(call, [key])
            self._run.resolve(key, Outcome(key, None if failure else stored.result(), failure))

    def _not_stored(self, call: PendingCall, key: bytes, error: BaseException | None) -> None:
        self._release(call, [key])
        if error is not None:
            self._run.fail(error)
        self._run.resolve(key, Outcome(key, failure=Failure("stopped", "the reply could not be stored")))

    def _retry_or_fail(self, call: PendingCall, problem: ProviderError) -> None:
        """After a failed attempt: retry now or later, or end the call."""
        call.maybe_paid += problem.maybe_paid
        call.problem = problem.detail
        if problem.kind == "refused_parameter" and self._drop_parameter(problem, call):
            self.add([call], first=True)
            return
        if problem.kind == "rate_limited":
            call.limited += 1
        else:
            call.failed += 1
        if problem.kind == "timeout":
            self._timed_out(call, problem)
        parts = call.request.parts
        if self._breaker.failed(problem, (parts.rubric_hash, parts.input_hash, parts.order)):
            failure = self._breaker.down
            assert failure is not None
            self._fail(call, failure)
            self._fail_waiting(failure)
            return
        wait = wait_of(problem, call.failed + call.limited - 1)
        if problem.kind == "rate_limited" and wait is not None:
            self._limiter.refused(wait.service_s, call.epoch)
        retries = self._run.options.retries
        patient = call.failed <= retries and call.limited <= _RATE_LIMIT_PATIENCE * retries
        if wait is None or not patient:
            detail = problem.detail
            if problem.retry_after and wait is None:
                detail += f" (the server asks to wait {wait_text(problem.retry_after)})"
            failure = Failure(REASONS.get(problem.kind, "server_error"), detail)
            if problem.kind == "too_long" and problem.status is not None:  # without a status, memory may be the reason
                self._store_too_long(call, failure)
            else:
                self._fail(call, failure)
            if self._breaker.gave_up(problem, failure, hopeless=wait is None):
                self._fail_waiting(self._breaker.down or failure)
        elif self._run.stopped:
            self._fail(call, Failure("stopped", problem.detail))
        else:
            used_up = self._run.budget is not None and self._run.budget.is_used_up  # then a wait is for nothing
            # behind the others, which may be answered meanwhile
            self._retry_in(0.0 if used_up else wait.call_s, call, first=problem.kind != "timeout")

    def _timed_out(self, call: PendingCall, problem: ProviderError) -> None:
        """After a time-out: lower the limit if the server answered less than was in flight, to half of what it did."""
        limiter = self._limiter
        n = limiter.n_answered - call.n_answered
        # a place that became free is taken already
        if not n and limiter.in_flight <= (1 if limiter.most == 1 else 0):
            self._breaker.timed_out_alone(problem)
        elif n > limiter.in_flight:
            call.is_hung = True
        elif not call.is_hung:
            limiter.lower(n / 2, call.epoch)

    def _retry_in(self, seconds: float, call: PendingCall, *, first: bool = True) -> None:
        def retry() -> None:
            del self._later[call]
            self.add([call], first=first)

        self._later[call] = asyncio.get_running_loop().call_later(seconds, retry)

    def _drop_parameter(self, problem: ProviderError, call: PendingCall) -> bool:
        """Send this call otherwise than it was refused; False if it was not sent so, or sent otherwise already."""
        name, replacement = str(problem.parameter), problem.instead
        sent = call.adapt.get(name, _AS_ASKED)
        if sent is None or sent == replacement:
            return False
        call.refused[name], call.refusals[name] = replacement, problem.detail
        return True

    def _learn_refusals(self, call: PendingCall) -> None:
        """Send all calls without what a call was refused for, once it is answered without it.

        Only that shows that the error was about the parameter. Where another call was answered with it, the error was
        about the prompt. What is learnt is only ever less: a lower limit, or nothing.
        """
        self._taken.update((name, call.adapt.get(name, _AS_ASKED)) for name in _sent(call))
        for name, replacement in call.refused.items():
            learnt_now = self._adapt.get(name, _AS_ASKED)
            if learnt_now == replacement:
                continue
            is_number = isinstance(learnt_now, int) and isinstance(replacement, int)
            is_less = replacement < learnt_now if is_number else learnt_now is not None
            if is_less and (name, learnt_now) not in self._taken:
                self._learn(name, replacement)
                where = "from now on"
            elif name not in self._refused_by_prompt:
                self._refused_by_prompt.add(name)
                where = "for the prompts that it refuses with it, and only for these"
            else:
                continue
            self._run.note(
                f"{self.judge.model} at {self.judge.service} refuses the parameter {name}; "
                f"{instead_of(name, replacement)} {where} ({call.refusals[name]})"
            )

    def _learn(self, name: str, replacement: str | int | None) -> None:
        self._adapt[name] = replacement
        if name == "n" and replacement is None:
            self._n_works = False
        self._run.store.learn(self.judge.service, self.judge.model, fact_of(name, self.judge), replacement)


def _sent(call: PendingCall) -> set[str]:
    """Those of the parameters that a model may refuse which a call has."""
    judge, prompt = call.request.judge, call.request.prompt
    has = {
        "n": len(call.request.keys) > 1,
        "temperature": judge.temperature is not None,
        "max_tokens": judge.max_tokens is not None,
        "response_format": prompt.schema is not None,
        "logprobs": judge.score is not None,
        "top_logprobs": judge.score is not None,
        SYSTEM_ROLE: len(prompt.messages) > 1,
    }
    return {name for name, is_sent in has.items() if is_sent}


def _is_nothing(reply: Reply) -> bool:
    """Whether a reply is no answer: it ended as a whole one, but the service generated nothing."""
    is_whole = not is_cut(reply.finish_reason) and not is_withheld(reply.finish_reason)
    return is_whole and reply.completion_tokens == 0 and not reply.text and not reply.refusal
