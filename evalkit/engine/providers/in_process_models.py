"""Models that run in this process: each is loaded once and runs in its own thread; queued prompts form batches.

Where a model runs is set by variables, not parameters, so that reply keys do not depend on the machine:
``EVALKIT_DEVICE`` (``cpu``, ``cuda:1`` …), ``EVALKIT_BATCH_SIZE`` (prompts per batch, default 8; for vLLM 256) and
``EVALKIT_VLLM`` (see `evalkit.engine.providers.vllm`).
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, Request
from evalkit.core.reply_keys import canonical_json
from evalkit.engine.providers.prices import cost_of, price_of, shares
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.errors import ConfigError, listed

_BATCH = 8
_EXIT_WAIT_S = 10.0
_LOOK_S = 0.5
_DEAD_S = 2.0
_CLOSE_WAIT_S = 20.0
# What decides which model is loaded, and where
_LOADING = ("revision", "dtype", "quantization")
_VARIABLES = ("EVALKIT_DEVICE", "EVALKIT_VLLM")


ENDING = threading.Event()
"""Set when the process ends: models stop computing, because a library that is still computing would abort."""

MOST_TOKENS = 4096
"""Longest reply if `max_tokens` is None, since some models never stop."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text for one prompt and sample; token counts exclude padding and other samples."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Model(Protocol):
    """A loaded model; used on its own thread alone."""

    name: str
    """Name of the model, with its revision if it has one."""

    binds_schema: bool
    """Whether its replies are constrained to a JSON schema."""

    seeds_samples: bool
    """Whether each sample of a batch can have its own seed; else a prompt with a seed is a batch of its own."""

    is_down: bool
    """Whether it has failed and must be loaded again."""

    hangs_after_s: float | None
    """So long after the judge's `timeout_s`, a call of `answer` will not return; None: it always does."""

    def answer(self, requests: Sequence[Request], n: int) -> list[list[Written] | ProviderError]:
        """For each request of one judge, `n` replies or a `ProviderError`."""
        ...

    def has_died(self) -> bool:
        """Whether what computes its replies is gone; called from another thread, while `answer` runs."""
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


@dataclass(slots=True)
class _Waiting:
    request: Request
    n: int
    outcome: Future[list[Reply]] = field(default_factory=Future)


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
    _batch_size(_BATCH)


def _batch_size(usual: int) -> int:
    text = os.environ.get("EVALKIT_BATCH_SIZE", "").strip() or str(usual)
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"EVALKIT_BATCH_SIZE must be a whole number of prompts, 1 or more, got {text!r}")
    return int(text)


class LocalClient:
    """Hands requests to the thread of a judge's model."""

    supports_n: bool | None = True

    def __init__(self, judge: Judge, load: Callable[[Judge], Model], *, batch_size: int = _BATCH) -> None:
        self._judge, self._load = judge, load
        self._batch = _batch_size(batch_size)
        # twice: while one batch computes, the next one is waiting
        self.max_concurrency: int | None = 2 * self._batch

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Request `n` replies; `adapt` is ignored, because a model in this process refuses no parameter."""
        del adapt
        return await asyncio.wrap_future(_thread_of(self._judge, self._load).take(request, n, self._batch))


class _HungError(Exception):
    """A model does not answer, and never will."""


class _ComputeThread:
    """A thread on which everything of a model happens; it is left behind if the model hangs."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def start(self, work: Callable[[], Any]) -> Future[Any]:
        """Do this after what was started before."""
        outcome: Future[Any] = Future()
        self._jobs.put((work, outcome))
        return outcome

    def end(self) -> None:
        """End the thread, after what was started."""
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job[1].set_result(job[0]())
            except BaseException as error:  # noqa: BLE001  # of a library; who waits for it gets it
                job[1].set_exception(error)


class _ModelThread:
    """One model with its thread, which loads it at the first request, and watches the thread that computes."""

    def __init__(self, judge: Judge, load: Callable[[Judge], Model]) -> None:
        self._judge, self._load = judge, load
        self._queue: list[_Waiting] = []
        self._changed, self._closed = threading.Condition(), False
        self._batch = _BATCH
        self._thread = threading.Thread(target=self._run, name=f"evalkit {judge.provider}", daemon=True)
        self._thread.start()

    def take(self, request: Request, n: int, batch: int) -> Future[list[Reply]]:
        """Queue a request."""
        waiting = _Waiting(request, n)
        with self._changed:
            self._batch = batch
            if self._closed:
                waiting.outcome.set_exception(
                    ProviderError("server_error", "the model was removed from memory before this call began")
                )
            else:
                self._queue.append(waiting)
                self._changed.notify()
        return waiting.outcome

    def close(self, *, at_exit: bool = False) -> None:
        """Wait for the queued calls, at the end of the process only for the current batch; then free the memory."""
        with self._changed:
            self._closed = True
            dropped = self._next() if at_exit else []
            self._changed.notify()
        _hand_out(dropped, [ProviderError("server_error", "the process ends")] * len(dropped))
        self._thread.join(_EXIT_WAIT_S if at_exit else None)

    def _next(self, most: int | None = None) -> list[_Waiting]:
        """Take the next calls off the queue, all or at most so many; cancelled ones are left out."""
        calls = self._queue[:most]
        del self._queue[:most]
        return [waiting for waiting in calls if waiting.outcome.set_running_or_notify_cancel()]

    def _run(self) -> None:
        model: Model | None = None
        compute = _ComputeThread(self._thread.name)
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closed)
                if not self._queue:
                    break
                batch = self._next(self._batch)
            # every error of a library must reach the call that waits: on this thread it would not be seen
            try:
                model = model or compute.start(lambda: self._load(self._judge)).result()
            except Exception as error:  # noqa: BLE001
                with self._changed:  # calls that waited for this attempt do not wait for another one
                    batch += self._next()
                # not an error of one call: it opens the judge's breaker, so that loading is not tried for each batch
                detail = f"the model {self._judge.model!r} could not be loaded: {_said(error)}"
                _hand_out(batch, [ProviderError("unknown_model", detail)] * len(batch))
                continue
            groups = _same_settings(batch, model)
            try:
                while groups:
                    _hand_out(groups[0], _watched_answers(compute, model, groups[0]))
                    del groups[0]
            except _HungError:
                late = (
                    f"the model had not answered after {groups[0][0].request.judge.timeout_s:g} s; it is loaded again"
                )
                _hand_out(groups[0], [ProviderError("timeout", late)] * len(groups[0]))
                left = [asked for group in groups[1:] for asked in group]
                with self._changed:
                    left += self._next() if self._closed else []
                _hand_out(left, [ProviderError("server_error", "the model hung and is loaded again")] * len(left))
                compute.end()
                _close(_ComputeThread(self._thread.name), model)
                model, compute = None, _ComputeThread(self._thread.name)
                continue
            if model.is_down or model.has_died():
                _close(compute, model)
                model = None
        if model is not None:
            _close(compute, model)
        compute.end()


def _close(compute: _ComputeThread, model: Model) -> None:
    """Close a model, and do not wait for long."""
    wait([compute.start(model.close)], timeout=_CLOSE_WAIT_S)


def _watched_answers(
    compute: _ComputeThread, model: Model, group: Sequence[_Waiting]
) -> list[list[Reply] | ProviderError]:
    """The answers to calls with the same settings; `_HungError` if there will be none."""
    outcome = compute.start(lambda: _answers(model, group))
    beyond, died = model.hangs_after_s, None
    until = None if beyond is None else time.monotonic() + group[0].request.judge.timeout_s + beyond
    while not wait([outcome], timeout=_LOOK_S).done:
        now = time.monotonic()
        died = (died or now) if model.has_died() else None
        if (until is not None and now > until) or (died is not None and now > died + _DEAD_S):
            raise _HungError
    try:
        answers: list[list[Reply] | ProviderError] = outcome.result()
    except ProviderError as problem:
        return [problem] * len(group)
    except Exception as error:  # noqa: BLE001
        return [ProviderError("client_error", f"the model failed with {_said(error)}")] * len(group)
    return answers


def _hand_out(group: Sequence[_Waiting], answers: Sequence[list[Reply] | ProviderError]) -> None:
    for asked, answer in zip(group, answers, strict=True):
        if isinstance(answer, BaseException):
            asked.outcome.set_exception(answer)
        else:
            asked.outcome.set_result(answer)


def _same_settings(batch: Sequence[_Waiting], model: Model) -> list[list[_Waiting]]:
    """The calls with the same settings, together; one with a seed may have to be alone."""
    groups: dict[object, list[_Waiting]] = {}
    for place, asked in enumerate(batch):
        judge = asked.request.judge
        alone = place if "seed" in judge.params and not model.seeds_samples else None
        settings = canonical_json(dict(judge.params))
        key = judge.temperature, judge.max_tokens, judge.timeout_s, settings, asked.n, alone
        groups.setdefault(key, []).append(asked)
    return list(groups.values())


def _answers(model: Model, group: Sequence[_Waiting]) -> list[list[Reply] | ProviderError]:
    started = time.perf_counter()
    written = model.answer([asked.request for asked in group], group[0].n)
    latency = time.perf_counter() - started
    return [
        answer if isinstance(answer, ProviderError) else _replies(asked.request, answer, model, latency)
        for asked, answer in zip(group, written, strict=True)
    ]


def _replies(request: Request, written: Sequence[Written], model: Model, latency: float) -> list[Reply]:
    price, prompt = price_of(request.judge), request.prompt
    # where no schema binds a reply, what was asked for and not done is on record
    unbound = prompt.form == "json" and prompt.schema is not None and not model.binds_schema
    # the prompt is read once for all samples: its tokens are shared out
    asked = shares(written[0].prompt_tokens, len(written))
    return [
        Reply(
            text=one.text,
            finish_reason=one.finish_reason,
            model=model.name,
            prompt_tokens=read,
            completion_tokens=one.completion_tokens,
            cost_usd=cost_of(price, read, one.completion_tokens),
            latency_s=latency,
            created=time.time(),
            sent={"response_format": None} if unbound else None,
        )
        for one, read in zip(written, asked, strict=True)
    ]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


_Place = tuple[str, ...]
_threads: dict[_Place, _ModelThread] = {}
_lock = threading.Lock()


def _thread_of(judge: Judge, load: Callable[[Judge], Model]) -> _ModelThread:
    loading = canonical_json({name: judge.params.get(name) for name in _LOADING}).decode()
    place = judge.provider, judge.model, loading, *(os.environ.get(name, "") for name in _VARIABLES)
    with _lock:
        if place not in _threads:
            _threads[place] = _ModelThread(judge, load)
        return _threads[place]


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
