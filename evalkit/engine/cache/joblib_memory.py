"""`ReplyMemory`: `joblib.Memory` whose memoized unit is one raw reply of a judge."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NoReturn

from joblib import Memory
from joblib.memory import AsyncMemorizedFunc, MemorizedFunc

from evalkit.core.folders import default_folder
from evalkit.core.keys import KeyParts
from evalkit.core.records import Reply
from evalkit.engine.cache.joblib_backend import BACKEND, ReplyBackend
from evalkit.engine.cache.maintenance import PruneReport
from evalkit.engine.cache.rows import decoded
from evalkit.errors import ConfigError, InputError

__all__ = ["AsyncMemoizedReply", "MemoizedReply", "ReplyMemory"]

FUNCTION_ID = "evalkit.reply"
"""joblib's name of every memoized function: what was asked is in the key, who asked does not matter."""


class ReplyMemory(Memory):  # type: ignore[misc]
    """Memoize functions that ask a judge; the replies are those of `ReplyStore`, by the same keys.

    The function takes one argument that has `parts`, the `KeyParts` of one sample (a `Request` for
    one sample will do), and gives a `Reply` or its text. Its source, name and place do not matter:
    two functions asked with equal parts share one reply, and no edit of a function drops one.
    A hit is what the store's newest generation holds; a reply counts as given once it is stored.

    Parameters
    ----------
    folder
        The cache folder; `default_folder()` if None.
    read_only
        Never write: a miss is then an error before the function is called.
    recorded
        Whether replies recorded by hand count as hits, as in ``judge(recorded="use")``.
    verbose
        joblib's: above 0 it prints calls, arguments included.

    Examples
    --------
    >>> import tempfile
    >>> from types import SimpleNamespace
    >>> from evalkit.core.keys import KeyParts
    >>> parts = KeyParts("fake", "local", "strict", "support", "v1", "r", "t", 1.0, 512, {}, input_hash="0" * 64)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     memory = ReplyMemory(folder)
    ...     @memory.cache
    ...     def ask(question):
    ...         print("asked")
    ...         return "2"
    ...     first, second = (ask(SimpleNamespace(parts=parts)) for _ in range(2))
    ...     memory.store.close()
    asked
    >>> first == second, first.text
    (True, '2')
    """

    store_backend: ReplyBackend

    def __init__(
        self,
        folder: Path | str | None = None,
        *,
        read_only: bool = False,
        recorded: bool = False,
        verbose: int = 0,
    ) -> None:
        place = (default_folder() if folder is None else Path(folder).expanduser()).resolve()
        options = {"for_replies": True, "read_only": read_only, "recorded": recorded}
        super().__init__(place, backend=BACKEND, verbose=verbose, backend_options=options)

    @property
    def store(self) -> Any:
        """The `ReplyStore` underneath."""
        return self.store_backend.store

    def cache(
        self,
        func: Callable[..., Any] | None = None,
        ignore: object = None,
        verbose: int | None = None,
        mmap_mode: object = False,
        cache_validation_callback: object = None,
    ) -> Any:
        """Memoize a function, also a coroutine function; usable as a decorator with or without options.

        `ignore`, `mmap_mode` and `cache_validation_callback` mean nothing here and must be left out:
        the key says what counts, and `call` asks anew.
        """
        if ignore or mmap_mode or cache_validation_callback:
            raise ConfigError(
                "ReplyMemory.cache takes no ignore, mmap_mode or cache_validation_callback: the reply key decides; "
                "to ask anew use .call(request)"
            )
        if func is None:
            return lambda function: self.cache(function, verbose=verbose)
        function = func.func if isinstance(func, MemorizedFunc) else func
        kind = AsyncMemoizedReply if inspect.iscoroutinefunction(function) else MemoizedReply
        return kind(function, self.store_backend, self._verbose if verbose is None else verbose)

    def clear(self, warn: bool = True, *, confirm: str | None = None) -> PruneReport:
        """Remove every reply of the store, exported before; see `ReplyStore.clear` for `confirm`."""
        del warn
        report: PruneReport = self.store.clear(confirm=confirm)
        return report


class MemoizedReply(MemorizedFunc):  # type: ignore[misc]
    """A function memoized by reply key; joblib's methods, none of its code checks.

    `f(request)` gives the stored reply or asks; `f.call(request)` asks in any case and appends a
    generation; `f.call_and_shelve(request)` gives a reference; `f.check_call_in_cache(request)` looks.
    Threads that ask for one key at once make one call.
    """

    store_backend: ReplyBackend

    def __init__(self, func: Callable[..., Any], backend: ReplyBackend, verbose: int) -> None:
        super().__init__(func, location=backend, backend=BACKEND, verbose=verbose)
        self.func_id = FUNCTION_ID

    def clear(self, warn: bool = True) -> NoReturn:
        """Refuse: replies belong to keys, not to functions."""
        del warn
        self.store_backend.clear()

    def _get_args_id(self, *args: Any, **kwargs: Any) -> str:
        return _parts_of(args, kwargs).key.hex()

    def _check_previous_func_code(self, stacklevel: int = 2) -> bool:
        del stacklevel
        return True

    def _cached_call(self, args: Any, kwargs: Any, shelving: bool) -> Any:
        # joblib's own would take an error of the store for a miss, and pay again
        call_id = self.func_id, self._get_args_id(*args, **kwargs)
        reply = self._found(call_id)
        while reply is None:
            flight, is_mine = _join(self._flight_of(call_id))
            if is_mine:
                self._fly(flight, call_id, args, kwargs)
            else:
                self.store_backend.store.counters.add(joins=1)
            # None: who made the call was interrupted
            reply = flight.result()
        return self._given(call_id, reply, shelving)

    def _fly(self, flight: Future[Any], call_id: Any, args: Any, kwargs: Any) -> None:
        where = self._flight_of(call_id)
        try:
            # it may have landed between the look-up and the take-off
            reply = self.store_backend.find(call_id) or self._ask(args, kwargs)
        except Exception as problem:  # noqa: BLE001 - all who wait get it, this caller among them
            _land(where, flight, error=problem)
        except BaseException:
            _land(where, flight)
            raise
        else:
            _land(where, flight, reply)

    def _call(self, call_id: Any, args: Any, kwargs: Any, shelving: bool = False) -> Any:
        return self._given(call_id, self._ask(args, kwargs, overwrite=True), shelving)

    def _ask(self, args: Any, kwargs: Any, *, overwrite: bool = False) -> Reply:
        store = self.store_backend.store
        store.check_writable()
        self._before_call(args, kwargs)
        started = time.time()
        reply = _reply_of(self.func(*args, **kwargs), started)
        return decoded(store.put(_parts_of(args, kwargs), reply, overwrite=overwrite).result())

    def _found(self, call_id: Any) -> Reply | None:
        reply = self.store_backend.find(call_id)
        if reply is None:
            self.store_backend.store.counters.add(misses=1)
        else:
            self.store_backend.store.counters.add(hits=1, saved_usd=reply.cost_usd)
        return reply

    def _given(self, call_id: Any, reply: Reply, shelving: bool) -> tuple[Any, dict[str, Any]]:
        return (self._get_memorized_result(call_id) if shelving else reply), {}

    def _flight_of(self, call_id: Any) -> _FlightKey:
        # threads and loops are kept apart: a thread that runs a loop must not block on a call of that loop
        return self.store_backend.location, call_id[1], isinstance(self, AsyncMemorizedFunc)

    def __getstate__(self) -> dict[str, Any]:
        # joblib's would read the function's source, which matters to nobody here
        return {**self.__dict__, "timestamp": None}


class AsyncMemoizedReply(MemoizedReply, AsyncMemorizedFunc):  # type: ignore[misc]
    """As `MemoizedReply` for a coroutine function; one call for all tasks and loops that await one key.

    A hit is read in the running loop (some tens of microseconds); storing does not block it. A caller
    that is cancelled does not cancel the call, which others may await and which is paid for already.
    """

    def _cached_call(self, args: Any, kwargs: Any, shelving: bool) -> Awaitable[Any]:
        return self._acached_call(args, kwargs, shelving)

    async def _acached_call(self, args: Any, kwargs: Any, shelving: bool) -> Any:
        call_id = self.func_id, self._get_args_id(*args, **kwargs)
        reply = self._found(call_id)
        while reply is None:
            flight, is_mine = _join(self._flight_of(call_id))
            if is_mine:
                task = asyncio.ensure_future(self._afly(flight, call_id, args, kwargs))
                _tasks.add(task)
                task.add_done_callback(_tasks.discard)
            else:
                self.store_backend.store.counters.add(joins=1)
            # None: the loop that made the call ended before the call did
            reply = await asyncio.wrap_future(flight)
        return self._given(call_id, reply, shelving)

    async def _afly(self, flight: Future[Any], call_id: Any, args: Any, kwargs: Any) -> None:
        where = self._flight_of(call_id)
        try:
            reply = self.store_backend.find(call_id) or await self._aask(args, kwargs)
        except Exception as problem:  # noqa: BLE001 - all who wait get it
            _land(where, flight, error=problem)
        except BaseException:
            _land(where, flight)
            raise
        else:
            _land(where, flight, reply)

    async def _call(self, call_id: Any, args: Any, kwargs: Any, shelving: bool = False) -> Any:
        return self._given(call_id, await self._aask(args, kwargs, overwrite=True), shelving)

    async def _aask(self, args: Any, kwargs: Any, *, overwrite: bool = False) -> Reply:
        store = self.store_backend.store
        store.check_writable()
        self._before_call(args, kwargs)
        started = time.time()
        reply = _reply_of(await self.func(*args, **kwargs), started)
        return decoded(await store.aput(_parts_of(args, kwargs), reply, overwrite=overwrite))


def _parts_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyParts:
    if len(args) + len(kwargs) != 1:
        raise InputError(f"a memoized judge call takes one argument, not {len(args) + len(kwargs)}")
    (asked,) = args or kwargs.values()
    parts = getattr(asked, "parts", None)
    if not isinstance(parts, KeyParts):
        raise InputError(
            f"a memoized judge call takes an argument with KeyParts in .parts, not a {type(asked).__name__}"
        )
    samples = getattr(asked, "samples", None)
    if samples is None:
        return parts
    if len(samples) != 1:
        raise InputError(
            f"a memoized judge call asks for one sample, this request for {len(samples)}: make one request per sample"
        )
    return asked.parts_of(samples[0])  # type: ignore[no-any-return]


def _reply_of(given: object, started: float) -> Reply:
    if isinstance(given, Reply):
        return given
    if isinstance(given, str):
        now = time.time()
        return Reply(given, created=now, latency_s=now - started)
    raise InputError(
        f"a memoized judge call gives a Reply or its text, not a {type(given).__name__}; nothing was stored"
    )


_FlightKey = tuple[str, str, bool]
_flights: dict[_FlightKey, Future[Any]] = {}
_flying = threading.Lock()
_tasks: set[asyncio.Future[None]] = set()  # a loop keeps only weak references to its tasks


def _join(where: _FlightKey) -> tuple[Future[Any], bool]:
    """The call under way, or a new one that is the caller's to make."""
    with _flying:
        flight = _flights.get(where)
        if flight is not None:
            return flight, False
        flight = _flights[where] = Future()
        # as running, it cannot be cancelled by one of those who wait
        flight.set_running_or_notify_cancel()
        return flight, True


def _land(
    where: _FlightKey, flight: Future[Any], reply: Reply | None = None, error: BaseException | None = None
) -> None:
    with _flying:
        _flights.pop(where, None)
    if error is None:
        flight.set_result(reply)
    else:
        flight.set_exception(error)


def _ground_after_fork() -> None:
    global _flying
    _flying = threading.Lock()
    _flights.clear()
    _tasks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ground_after_fork)
