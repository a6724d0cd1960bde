"""Judges that are Python functions (`Judge.function`)."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt, Reply
from evalkit.core.strict_json import plain_number
from evalkit.core.threads import in_daemon_thread
from evalkit.engine.cache.writer import check_fields
from evalkit.engine.providers.openai_replies import without_prompt
from evalkit.engine.providers.prices import cost_of, price_of
from evalkit.engine.request import Client, ProblemKind, ProviderError, Request
from evalkit.errors import InputError
from evalkit.errors.secrets import text_of_error

_BUGS = (TypeError, NameError, AttributeError, ImportError, NotImplementedError)
"""Errors of the function itself, which are not retried."""

_NUMBERS = ("prompt_tokens", "completion_tokens", "cost_usd", "latency_s", "created")
_LONGEST_DETAIL = 240
_DEFAULT_THREADS = 64


def check(judge: Judge) -> None:
    """Check that the function is there; imports its module.

    Raises
    ------
    ConfigError
        If it cannot be imported, or has another version than the judge.
    """
    judge.load_function()


class FunctionClient(Client):
    """Calls the function: an async one on the loop, a sync one in threads, up to the run's concurrency.

    A thread cannot be stopped from outside. A thread that exceeds the judge's `timeout_s` still counts until it ends,
    so that a hanging function does not fill the process with threads. A call waits at most `timeout_s` for a thread,
    and then has `timeout_s` of its own.
    """

    supports_n: bool | None = False

    def stop(self) -> None:
        """A function that was called runs to its end."""

    def __init__(self, judge: Judge, concurrency: int = _DEFAULT_THREADS) -> None:
        self._judge = judge
        self._function: Any = judge.load_function()
        call = getattr(self._function, "__call__", None)  # noqa: B004  # of an instance, it may be async
        self._is_async = inspect.iscoroutinefunction(self._function) or inspect.iscoroutinefunction(call)
        self._threads = asyncio.Semaphore(concurrency)

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """The reply for the request's first sample; a function returns one reply per call."""
        del n, adapt
        started = time.time()
        value = await self._in_time(request.prompt)
        if value is None or isinstance(value, str):
            value = Reply(value)
        if not isinstance(value, Reply):
            hint = ""
            if inspect.iscoroutine(value):
                value.close()
                hint = "; define it with `async def`"
            raise InputError(
                f"the function of judge '{self._judge.name}' must return the text of a reply, a Reply or None, got "
                f"{type(value).__name__}{hint}"
            )
        value, now = replace(value, **{name: plain_number(getattr(value, name)) for name in _NUMBERS}), time.time()
        check_fields(value)
        cost = value.cost_usd
        if cost is None:
            cost = cost_of(price_of(self._judge), value.prompt_tokens, value.completion_tokens)
        latency = now - started if value.latency_s is None else value.latency_s
        return [replace(value, created=value.created or now, latency_s=latency, cost_usd=cost, source="live")]

    async def _in_time(self, prompt: Prompt) -> Any:
        """What the function returns; a `ProviderError` if it raises or takes too long."""
        if not self._is_async:
            await self._wait_for_thread()
        task = asyncio.ensure_future(self._on_loop(prompt) if self._is_async else self._in_thread(prompt))
        try:
            done, _ = await asyncio.wait({task}, timeout=self._judge.timeout_s)
        finally:
            task.cancel()
        if not done:
            raise ProviderError(
                "timeout",
                f"the function of judge '{self._judge.name}' returned nothing in {self._judge.timeout_s:g} s",
                maybe_paid=True,
            )
        if task.cancelled():
            raise ProviderError("connection", "the function cancelled its own call", maybe_paid=True)
        return task.result()

    async def _wait_for_thread(self) -> None:
        try:
            async with asyncio.timeout(self._judge.timeout_s):
                await self._threads.acquire()
        except TimeoutError:
            raise ProviderError(
                "timeout",
                f"the function of judge '{self._judge.name}' was not called: its earlier calls still fill all threads "
                f"after {self._judge.timeout_s:g} s; set a timeout in the function, or raise concurrency",
            ) from None

    async def _on_loop(self, prompt: Prompt) -> Any:
        try:
            return await self._function(prompt)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # SystemExit too: it would end the loop that all judges share
            raise self._problem(error, prompt) from error

    def _in_thread(self, prompt: Prompt) -> asyncio.Future[Any]:
        """Start a thread, which releases its place when it ends."""

        def call() -> Any:
            try:
                return self._function(prompt)
            except BaseException as error:
                raise self._problem(error, prompt) from error

        return in_daemon_thread(call, f"evalkit {self._judge.name}", self._threads.release)

    def _problem(self, error: BaseException, prompt: Prompt) -> ProviderError:
        message = text_of_error(error)
        raised = f"the function raised {type(error).__name__}" + (f": {message}" if message else "")
        detail = without_prompt(raised[:_LONGEST_DETAIL], prompt)
        kind: ProblemKind = "connection"
        if isinstance(error, TimeoutError):
            kind = "timeout"
        elif isinstance(error, _BUGS):
            kind = "client_error"
        return ProviderError(kind, detail, maybe_paid=kind != "client_error")


connect = FunctionClient
