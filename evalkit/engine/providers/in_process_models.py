"""Models that run in this process: each is loaded once and computes in its own thread.

A model takes calls whenever it has room, computes a turn (a step of an engine, or one batch), and hands out what has
ended: no call waits for another one's last token. A second thread watches models that can hang.

Where a model runs is set by variables, not parameters, so that reply keys do not depend on the machine:
``EVALKIT_DEVICE`` (``cpu``, ``cuda:1`` …), ``EVALKIT_BATCH_SIZE`` (at most so many replies per batch of transformers;
default 8) and ``EVALKIT_VLLM`` (see `evalkit.engine.providers.vllm`).
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import canonical_json
from evalkit.core.threads import daemon_thread
from evalkit.engine.providers.openai_replies import logprobs_of
from evalkit.engine.providers.prices import cost_of, price_of, shares
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, listed

_ALL = sys.maxsize
_ENOUGH = 1000
_EXIT_WAIT_S = 10.0
_LOOK_S = 0.5
_DEAD_S = 2.0
_CLOSE_WAIT_S = 20.0
# What decides which model is loaded, and where
_LOADING = ("revision", "dtype", "quantization")
_VARIABLES = ("EVALKIT_DEVICE", "EVALKIT_VLLM")

BATCH_SIZE = "EVALKIT_BATCH_SIZE"
"""The variable that says how many replies a batch has at most."""

ENDING = threading.Event()
"""Set when the process ends: models stop computing, because a library that is still computing would abort."""

MOST_TOKENS = 4096
"""Longest reply if `max_tokens` is None, since some models never stop."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text for one prompt and sample; token counts exclude padding and other samples.

    `logprobs` has a row for each token, in the form of OpenAI's answers; None if the judge asks for none.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    logprobs: Sequence[Mapping[str, Any]] | None = None


@dataclass(slots=True, eq=False)
class Call:
    """A request for `n` replies, when a model took it, and whether its run was stopped: then it need not begin."""

    request: Request
    n: int
    taken_at: float = 0.0
    is_stopped: bool = False
    outcome: Future[list[Reply]] = field(default_factory=Future)


Ended = tuple[Call, "list[Written] | ProviderError"]


class Model(Protocol):
    """A loaded model; used on its own thread alone, but for `has_died`."""

    name: str
    """Name of the model, with its revision if it has one."""

    binds_schema: bool
    """Whether its replies are constrained to a JSON schema."""

    is_down: bool
    """Whether it has failed and must be loaded again."""

    gathers_s: float
    """So long a call waits for others if none is computed: what computes batches would start with a batch of one."""

    hangs_after_s: float | None
    """So long after the judge's `timeout_s`, a call of `turn` will not return; None: it always does."""

    @property
    def room(self) -> int:
        """For how many further replies it takes calls now."""
        ...

    def turn(self, new: Sequence[Call]) -> list[Ended]:
        """Take new calls, compute for a while, and return the calls that have ended, each with its replies or why not.

        An exception ends all the calls that it has taken.
        """
        ...

    def has_died(self) -> bool:
        """Whether what computes its replies is gone; called from another thread, while `turn` runs."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


def stops_of(judge: Judge) -> list[Any]:
    """The strings of the parameter `stop`, which end a reply and are not part of it.

    Examples
    --------
    >>> stops_of(Judge("transformers", "m", params={"stop": "[END]"}))
    ['[END]']
    """
    stop = judge.params.get("stop") or []
    return stop if isinstance(stop, list) else [stop]


def seed_of(seed: object, *samples: int) -> int:
    """The seed of some samples, derived from the parameter `seed`; with equal seeds, samples would be equal.

    Examples
    --------
    >>> seed_of(1, 0) != seed_of(1, 1) != seed_of(2, 1)
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {samples}".encode()).digest()[:7])


def check_local(judge: Judge, allowed: Sequence[str]) -> None:
    """Check the settings of a judge whose model runs in this process.

    Raises
    ------
    ConfigError
        For a base_url, a parameter that is not in `allowed`, or an invalid `stop` or batch size.
    """
    if judge.base_url:
        raise ConfigError(
            f"judge '{judge.name}' loads its model itself and takes no base_url; a server needs the provider 'openai'"
        )
    unknown = [name for name in judge.params if name not in allowed]
    if unknown:
        raise ConfigError(
            f"params of judge '{judge.name}' contain {listed(unknown)}; "
            f"allowed for '{judge.provider}': {', '.join(allowed)}"
        )
    if not all(isinstance(stop, str) and stop for stop in stops_of(judge)):
        raise ConfigError(
            f"params of judge '{judge.name}': stop must be a string or a list of strings, none of them empty"
        )
    batch_size()


def batch_size() -> int:
    """The variable EVALKIT_BATCH_SIZE; 8 if it is not set."""
    text = os.environ.get(BATCH_SIZE, "").strip() or "8"
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"{BATCH_SIZE} must be a whole number of prompts, 1 or more, got {text!r}")
    return int(text)


class LocalClient:
    """Hands requests to the thread of a judge's model."""

    supports_n: bool | None = True

    def __init__(self, judge: Judge, load: Callable[[Judge], Model], *, at_once: int) -> None:
        self._judge, self._load = judge, load
        # no calls over a network: a run's `concurrency` says nothing of them
        self.own_concurrency: int | None = at_once
        self.max_concurrency: int | None = at_once
        self._calls = set[Call]()

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Request `n` replies; `adapt` is ignored, because a model in this process refuses no parameter."""
        del adapt
        call, task = Call(request, n), asyncio.current_task()
        self._calls.add(call)
        try:
            return await asyncio.wrap_future(_thread_of(self._judge, self._load).take(call))
        except asyncio.CancelledError:
            if not call.is_stopped or (task is not None and task.cancelling()):
                raise
            raise not_begun() from None
        finally:
            self._calls.discard(call)

    def stop(self) -> None:
        """End the calls that the model has not begun."""
        for call in self._calls:
            call.is_stopped = True
            call.outcome.cancel()


def not_begun() -> ProviderError:
    """Why a call ends that had not begun when its run was stopped; the run calls it stopped."""
    return ProviderError("server_error", "the run was stopped before the model began this call")


class _ModelThread:
    """One model: the thread that loads it at the first call and computes, and one that watches it if it can hang."""

    def __init__(self, judge: Judge, load: Callable[[Judge], Model]) -> None:
        self._judge, self._load = judge, load
        self._queue: deque[Call] = deque()
        self._changed, self._closed, self._over = threading.Condition(), False, threading.Event()
        self._held: dict[Call, None] = {}
        self._model: Model | None = None
        self._turn_began: float | None = None
        self._thread = self._new_thread()
        self._thread.start()

    def take(self, call: Call) -> Future[list[Reply]]:
        """Queue a call."""
        with self._changed:
            if self._closed:
                call.outcome.set_exception(
                    ProviderError("server_error", "the model was removed from memory before this call began")
                )
            else:
                self._queue.append(call)
                self._changed.notify()
        return call.outcome

    def close(self, *, at_exit: bool = False) -> None:
        """Wait for the queued calls, at the end of the process only for the current turn; then free the memory."""
        with self._changed:
            self._closed = True
            dropped = self._next(_ALL) if at_exit else []
            self._changed.notify()
        self._fail(dropped, ProviderError("server_error", "the process ends"))
        self._over.wait(_EXIT_WAIT_S if at_exit else None)

    def _new_thread(self) -> threading.Thread:
        return daemon_thread(self._compute, f"evalkit {self._judge.provider}")

    def _next(self, room: int) -> list[Call]:
        """Take calls off the queue, with together `room` replies or a few more; cancelled ones are left out."""
        calls: list[Call] = []
        while self._queue and room > 0:
            call = self._queue.popleft()
            if call.outcome.set_running_or_notify_cancel():
                calls.append(call)
                room -= call.n
        return calls

    def _fail(self, calls: Sequence[Call], problem: ProviderError) -> None:
        for call in calls:
            self._held.pop(call, None)
            call.outcome.set_exception(problem)

    def _compute(self) -> None:
        """The thread that computes: turn after turn, until it is closed and nothing is left, or it is replaced."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed or self._held)
                if not self._queue and not self._held:
                    break
            model = self._model = self._model or self._loaded()
            if model is None:
                continue
            with self._changed:
                if not self._held and model.gathers_s:
                    self._changed.wait_for(lambda: self._closed or len(self._queue) > _ENOUGH, model.gathers_s)
                new = self._next(model.room)
                self._held |= dict.fromkeys(new)
                self._turn_began = time.monotonic()
            for call in new:
                call.taken_at = time.perf_counter()
            try:
                ended = model.turn(new)
            except Exception as error:  # noqa: BLE001
                failed = failed_with(error)
                ended = [(call, error if isinstance(error, ProviderError) else failed) for call in self._held]
            with self._changed:
                if self._thread is not threading.current_thread():
                    return  # it hung, and its calls have failed
                self._turn_began = None
            for call, answer in ended:
                if call in self._held:
                    del self._held[call]
                    _hand_out(call, answer, model)
            if model.is_down or model.has_died():
                self._fail([*self._held], ProviderError("server_error", "the model has ended and is loaded again"))
                self._model = None
                _closing(model).join(_CLOSE_WAIT_S)
        model, self._model = self._model, None
        if model is not None:
            _closing(model).join(_CLOSE_WAIT_S)
        self._over.set()

    def _loaded(self) -> Model | None:
        """The model; if it cannot be loaded, the calls that wait fail: every error of a library must reach them."""
        try:
            model = self._load(self._judge)
        except Exception as error:  # noqa: BLE001
            # not an error of one call: it opens the judge's breaker, so that loading is not tried for each call
            detail = f"the model {self._judge.model!r} could not be loaded: {_message(error)}"
            with self._changed:  # calls that waited for this attempt do not wait for another one
                waiting = self._next(_ALL)
            self._fail(waiting, ProviderError("unknown_model", detail))
            return None
        if model.hangs_after_s is not None:
            daemon_thread(self._watch, f"{self._thread.name} watch", model).start()
        return model

    def _watch(self, model: Model) -> None:
        """The thread that watches a model: if a turn will not return, its calls fail and another thread takes over."""
        died: float | None = None
        while not self._over.wait(_LOOK_S):
            now, died = time.monotonic(), (died or time.monotonic()) if model.has_died() else None
            with self._changed:
                began, calls = self._turn_began, [*self._held]
                longest = max((call.request.judge.timeout_s for call in calls), default=0.0)
                is_late = began is not None and now > began + longest + (model.hangs_after_s or 0.0)
                if self._model is not None and self._model is not model:
                    return
                if began is None or not (is_late or (died is not None and now > died + _DEAD_S)):
                    continue
                self._thread, self._model, self._turn_began = self._new_thread(), None, None
                rest = self._next(_ALL) if self._closed else []
            closing = _closing(model)
            self._fail(
                calls, ProviderError("timeout", f"the model had not answered after {longest:g} s; it is loaded again")
            )
            self._fail(rest, ProviderError("server_error", "the model hung and is loaded again"))
            closing.join(_CLOSE_WAIT_S)  # two of them may not fit into memory
            self._thread.start()
            return


def _closing(model: Model) -> threading.Thread:
    """The thread that closes a model; it is not waited for long."""
    thread = daemon_thread(model.close, f"evalkit closes {model.name}")
    thread.start()
    return thread


def _hand_out(call: Call, answer: list[Written] | ProviderError, model: Model) -> None:
    try:
        if isinstance(answer, ProviderError):
            raise answer
        call.outcome.set_result(_replies(call, answer, model))
    except Exception as error:  # noqa: BLE001  # who waits must hear of every error
        call.outcome.set_exception(error)


def _replies(call: Call, written: Sequence[Written], model: Model) -> list[Reply]:
    request, latency = call.request, time.perf_counter() - call.taken_at
    price, prompt = price_of(request.judge), request.prompt
    # where no schema binds a reply, what was asked for and not done is on record
    unbound = prompt.form == "json" and prompt.schema is not None and not model.binds_schema
    # the prompt is read once for all samples: its tokens are shared out
    prompt_tokens = shares(written[0].prompt_tokens, len(written))
    return [
        Reply(
            text=output.text,
            finish_reason=output.finish_reason,
            model=model.name,
            prompt_tokens=n_prompt,
            completion_tokens=output.completion_tokens,
            cost_usd=cost_of(price, n_prompt, output.completion_tokens),
            latency_s=latency,
            created=time.time(),
            sent={"response_format": None} if unbound else None,
            logprobs=None if output.logprobs is None else logprobs_of({"content": output.logprobs}),
        )
        for output, n_prompt in zip(written, prompt_tokens, strict=True)
    ]


def failed_with(error: Exception) -> ProviderError:
    """The problem of calls whose computation raised an error of a library."""
    return ProviderError("client_error", f"the model failed with {_message(error)}")


def _message(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


_Place = tuple[str, ...]
_threads: dict[_Place, _ModelThread] = {}
_lock = threading.Lock()


def _thread_of(judge: Judge, load: Callable[[Judge], Model]) -> _ModelThread:
    loading = canonical_json({name: judge.params.get(name) for name in _LOADING}).decode()
    key = judge.provider, judge.model, loading, *(os.environ.get(name, "") for name in _VARIABLES)
    with _lock:
        if key not in _threads:
            _threads[key] = _ModelThread(judge, load)
        return _threads[key]


def release_models() -> int:
    """Free the memory of all models in this process (`transformers`, `vllm`); the next call loads them again.

    Waits for the queue: earlier calls are answered first.

    Returns
    -------
    int
        How many models there were; 0 if none was loaded.

    Examples
    --------
    >>> import evalkit as ek
    >>> ek.engine.release_models()
    0
    """
    with _lock:
        threads = list(_threads.values())
        _threads.clear()
    for thread in threads:
        thread.close()
    return len(threads)


def _end() -> None:
    ENDING.set()
    for thread in list(_threads.values()):
        thread.close(at_exit=True)


atexit.register(_end)


def _drop_in_child() -> None:
    """A forked child has no threads: it loads its models again."""
    global _threads, _lock
    _threads, _lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
