"""Models that compute in this process: loaded once, asked by one thread, all who wait in one batch.

Options of where a model runs are variables, not parameters, since replies are to be found again elsewhere:
``EVALKIT_DEVICE`` (``cpu``, ``cuda:1`` …) and ``EVALKIT_BATCH_SIZE`` (prompts per batch, default 8).
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalkit.errors import ConfigError, MissingExtraError, listed
from evalkit.keys import canonical_json
from evalkit.providers import ProviderError
from evalkit.providers.prices import cost_of, price_of
from evalkit.records import Judge, Reply, Request

__all__ = ["LocalClient", "Model", "Written", "check_extra", "check_local", "release_models"]

_BATCH = 8


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote for one prompt and sample; token counts include neither padding nor the other samples."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Model(Protocol):
    """A loaded model; used on its own thread alone."""

    name: str
    """The model as served: its name, and its revision where it has one."""

    def answer(self, requests: Sequence[Request], n: int) -> list[list[Written] | ProviderError]:
        """For each request of one judge `n` replies, or why there are none."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


@dataclass(slots=True)
class _Asked:
    request: Request
    n: int
    outcome: Future[list[Reply]] = field(default_factory=Future)


def check_extra(extra: str, *modules: str) -> None:
    """Raise MissingExtraError when a module that an extra brings is not installed; imports nothing."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(
                f"judges of the provider '{extra}' need {module}: install evalkit with the extra {extra} "
                f"(pip install 'evalkit[{extra}]')"
            )


def check_local(judge: Judge, allowed: Sequence[str]) -> None:
    """Check that a judge asks of a model in this process only what it can do.

    Raises
    ------
    ConfigError
        For a base_url, a parameter that is not in `allowed`, or a batch size that is no number.
    """
    if judge.base_url:
        raise ConfigError(
            f"judge '{judge.name}' computes in this process and has no base_url; for a server use the provider 'openai'"
        )
    unknown = [name for name in judge.params if name not in allowed]
    if unknown:
        raise ConfigError(
            f"params of judge '{judge.name}' hold {listed(unknown)}; '{judge.provider}' takes {', '.join(allowed)}"
        )
    _batch_size()


def _batch_size() -> int:
    text = os.environ.get("EVALKIT_BATCH_SIZE", "").strip() or str(_BATCH)
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"EVALKIT_BATCH_SIZE is {text!r}; it must be a whole number of prompts, 1 or more")
    return int(text)


class LocalClient:
    """Hands requests to the thread of a judge's model."""

    supports_n: bool | None = True

    def __init__(self, judge: Judge, load: Any, *, batch_size: int | None = None) -> None:
        self._judge, self._load = judge, load
        self._batch = batch_size or _batch_size()
        # twice: while one batch computes, the next one is waiting
        self.max_concurrency: int | None = 2 * self._batch

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Ask for `n` replies; `adapt` is of no use here, a model in this process refuses no parameter."""
        del adapt
        return await asyncio.wrap_future(_bench_of(self._judge, self._load).take(request, n, self._batch))


class _Bench:
    """One model with its thread, which loads it at the first request."""

    def __init__(self, judge: Judge, load: Any) -> None:
        self._judge, self._load = judge, load
        self._waiting: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._batch = _BATCH
        self._lock, self._closed = threading.Lock(), False
        self._thread = threading.Thread(target=self._run, name=f"evalkit {judge.provider}", daemon=True)
        self._thread.start()

    def take(self, request: Request, n: int, batch: int) -> Future[list[Reply]]:
        """Queue a request."""
        asked = _Asked(request, n)
        with self._lock:
            self._batch = batch
            if self._closed:
                asked.outcome.set_exception(ProviderError("server_error", "the model was released meanwhile"))
            else:
                self._waiting.put(asked)
        return asked.outcome

    def close(self) -> None:
        """Answer what is queued, then give the model's memory back; waits for it."""
        with self._lock:
            self._closed = True
            self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        model: Model | None = None
        ended = False
        while not ended:
            batch, ended = self._next()
            for group in _alike(batch):
                try:
                    model = model or self._load(self._judge)
                    answers = _answers(model, group)
                # whatever a library raises must reach who waits: on this thread nobody would see it
                except Exception as error:  # noqa: BLE001
                    answers = [_problem(error)] * len(group)
                for asked, answer in zip(group, answers, strict=True):
                    if isinstance(answer, BaseException):
                        asked.outcome.set_exception(answer)
                    else:
                        asked.outcome.set_result(answer)
        if model is not None:
            model.close()

    def _next(self) -> tuple[list[_Asked], bool]:
        """Who waits now, at most a batch, without those who no longer do; and whether this was the end."""
        batch: list[_Asked] = []
        asked = self._waiting.get()
        while asked is not None:
            if asked.outcome.set_running_or_notify_cancel():
                batch.append(asked)
            if len(batch) >= self._batch:
                return batch, False
            try:
                asked = self._waiting.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True


def _alike(batch: Sequence[_Asked]) -> list[list[_Asked]]:
    """Those who ask for the same settings, together; a seed counts for one prompt only."""
    groups: dict[object, list[_Asked]] = {}
    for place, asked in enumerate(batch):
        judge = asked.request.judge
        alone = place if "seed" in judge.params else None
        settings = canonical_json(dict(judge.params))
        key = judge.temperature, judge.max_tokens, judge.timeout_s, settings, asked.n, alone
        groups.setdefault(key, []).append(asked)
    return list(groups.values())


def _answers(model: Model, group: Sequence[_Asked]) -> list[list[Reply] | ProviderError]:
    started = time.perf_counter()
    written = model.answer([asked.request for asked in group], group[0].n)
    latency = time.perf_counter() - started
    return [
        answer if isinstance(answer, ProviderError) else _replies(asked.request, answer, model.name, latency)
        for asked, answer in zip(group, written, strict=True)
    ]


def _replies(request: Request, written: Sequence[Written], model: str, latency: float) -> list[Reply]:
    price = price_of(request.judge)
    # no schema binds a reply here: what was asked for and not done is on record
    sent = {"response_format": None} if request.prompt.form == "json" and request.prompt.schema is not None else None
    return [
        Reply(
            text=one.text,
            finish_reason=one.finish_reason,
            model=model,
            prompt_tokens=one.prompt_tokens if place == 0 else 0,  # read once for all samples
            completion_tokens=one.completion_tokens,
            cost_usd=cost_of(price, one.prompt_tokens if place == 0 else 0, one.completion_tokens),
            latency_s=latency,
            created=time.time(),
            sent=sent,
        )
        for place, one in enumerate(written)
    ]


def _problem(error: Exception) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    said = " ".join(str(error).split())[:240]
    return ProviderError("client_error", f"the model failed with {type(error).__name__}: {said}")


_Place = tuple[str, str, str, str]
_benches: dict[_Place, _Bench] = {}
_lock = threading.Lock()


def _bench_of(judge: Judge, load: Any) -> _Bench:
    loading = {name: judge.params.get(name) for name in ("revision", "dtype")}
    place = judge.provider, judge.model, canonical_json(loading).decode(), os.environ.get("EVALKIT_DEVICE", "")
    with _lock:
        if place not in _benches:
            _benches[place] = _Bench(judge, load)
        return _benches[place]


def release_models() -> int:
    """Give back the memory of all models in this process, after what is queued; the next call loads them again.

    Returns
    -------
    int
        How many models there were.

    Examples
    --------
    >>> release_models()
    0
    """
    with _lock:
        benches = list(_benches.values())
        _benches.clear()
    for bench in benches:
        bench.close()
    return len(benches)


def _drop_in_child() -> None:
    """A forked child has no threads: it loads its models anew."""
    global _benches, _lock
    _benches, _lock = {}, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
