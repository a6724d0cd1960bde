"""`ReplyMemory`: `joblib.Memory` over the reply store, by a back end of its own.

``tests/engine/cache/test_joblib_memory.py`` checks the private parts of joblib that are used here.
"""

# ruff: noqa: ARG002  # the signatures are joblib's

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from joblib import Memory
from joblib._store_backends import StoreBackendBase, StoreBackendMixin
from joblib.memory import AsyncMemorizedFunc, MemorizedFunc

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache.in_flight import InFlight
from evalkit.engine.cache.maintenance import PruneReport
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.cache.writer import decoded
from evalkit.errors import CacheError, ConfigError, InputError

FUNCTION_ID = "evalkit.reply"
"""joblib's name of every function whose replies have a key of their own: a reply is not identified by the function."""

TEXT_ID = "evalkit.text"
"""The same for functions that return only the text."""

CallId = Sequence[str]
"""joblib's name of a call: (function id, argument hash); here the second is the reply key in hex."""


class ReplyText(str):  # noqa: SLOT000  # it has the reply
    """The text of a reply, which has the fields of the reply as attributes (`cost_usd`, `model` …) and as `reply`."""

    reply: Reply

    def __new__(cls, reply: Reply) -> ReplyText:
        """The text of a reply that has one."""
        text = super().__new__(cls, reply.text or "")
        text.reply = reply
        return text

    def __getattr__(self, name: str) -> Any:
        if name in Reply.__slots__:
            return getattr(self.reply, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[type[ReplyText], tuple[Reply]]:
        return ReplyText, (self.reply,)


def shown(reply: Reply) -> ReplyText | None:
    """What a function that returns a text has for a reply; None if it has no text."""
    return None if reply.text is None else ReplyText(reply)


class ReplyBackend(StoreBackendBase, StoreBackendMixin):  # type: ignore[misc]
    """joblib's view of one `ReplyStore`: looks replies up by key, and removes nothing.

    It does not write through joblib's `dump_item`, which gets no key parts and reports no failure: it would
    only warn that a paid reply was not stored.

    Parameters
    ----------
    store
        The reply store.
    recorded
        Whether replies recorded by hand count.
    since
        Unix time: older replies do not count.
    """

    def __init__(self, store: ReplyStore, *, recorded: bool, since: float | None) -> None:
        self.store, self.recorded, self.since = store, recorded, since
        self.location = str(store.cache)

    def find(self, call_id: CallId) -> Reply | None:
        """The stored reply of a call; None if there is none."""
        key = bytes.fromhex(call_id[1])
        value = self.store.get_many([key], since=self.since, recorded=self.recorded).get(key)
        return None if value is None else decoded(value)

    def load_item(
        self, call_id: CallId, verbose: int = 1, timestamp: float | None = None, metadata: object = None
    ) -> Any:
        """The stored reply or its text; KeyError if there is none, as joblib expects."""
        reply = self.find(call_id)
        if reply is None:
            raise KeyError(f"no reply with the key {call_id[1]} in {self.store.place}")
        return shown(reply) if call_id[0] == TEXT_ID else reply

    def get_metadata(self, call_id: CallId) -> dict[str, Any]:
        """An empty dict: all metadata is in the reply."""
        return {}

    def store_cached_func_code(self, call_id: CallId, func_code: str | None = None) -> None:
        """Store no source: an edit of the function must not invalidate a reply."""

    def store_metadata(self, call_id: CallId, metadata: Mapping[str, Any]) -> None:
        """Store nothing: joblib's metadata contains the arguments in plain text."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise CacheError(
            f"joblib must not remove replies from {self.store.place}, because they were paid for; use "
            "evalkit.memory().clear(confirm=…) or ReplyStore.prune()"
        )

    clear = clear_item = clear_path = clear_location = enforce_store_limits = get_items = _refuse
    # joblib's file primitives: the methods above replace all that would call them
    create_location = _open_item = _item_exists = _move_item = contains_path = _refuse
    configure = contains_item = dump_item = get_cached_func_code = get_cached_func_info = _refuse


class ReplyMemory(Memory):  # type: ignore[misc]
    """Memoize functions that call a judge; the replies are those of `ReplyStore`, by the same keys.

    What the key of a call is made of, say the `_kinds`. The function's source, name and place do not matter: two
    functions called with equal parts share one reply, and no edit of a function drops one.
    A hit returns the newest generation in the store; a new reply is returned once it is stored.

    Parameters
    ----------
    cache
        The cache folder or address of a server; `default_cache()` if None.
    read_only
        Never write: a miss is then an error before the function is called.
    recorded
        Whether replies recorded by hand count as hits, as in ``judge(recorded="use")``.
    since
        Unix time: an older reply is not a hit, and is superseded by the next one.
    verbose
        joblib's: above 0 it prints calls, arguments included.
    """

    store_backend: ReplyBackend
    _kinds: ClassVar[tuple[type[MemoizedReply], type[MemoizedReply]]]
    """What a function is made, and what a coroutine function is made."""

    def __init__(
        self,
        cache: Path | str | None = None,
        *,
        read_only: bool = False,
        recorded: bool = False,
        since: float | None = None,
        verbose: int = 0,
    ) -> None:
        backend = ReplyBackend(ReplyStore.open(cache, read_only=read_only), recorded=recorded, since=since)
        super().__init__(backend, verbose=verbose)
        self.location = backend.location

    @property
    def store(self) -> Any:
        """The `ReplyStore` underneath."""
        return self.store_backend.store

    def cache(
        self,
        func: Callable[..., Any] | None = None,
        ignore: Any = None,
        verbose: int | None = None,
        mmap_mode: object = False,
        cache_validation_callback: Any = None,
    ) -> Any:
        """Memoize a function, also a coroutine function; usable as a decorator with or without options.

        joblib's `ignore`, `mmap_mode` and `cache_validation_callback` must be left out: only the key
        decides. To call the function in any case, use `call`.
        """
        if ignore or mmap_mode or cache_validation_callback:
            raise ConfigError(
                "memory.cache takes no ignore=, mmap_mode= or cache_validation_callback=, because the reply "
                "key alone decides which reply is reused; to call the function again, use .call(request)"
            )
        if func is None:
            return lambda function: self.cache(function, verbose=verbose)
        function = func.func if isinstance(func, MemorizedFunc) else func
        is_async = any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
        return self._kinds[is_async](function, self.store_backend, self._verbose if verbose is None else verbose)

    def clear(self, warn: bool = True, *, confirm: str | None = None) -> PruneReport:
        """Remove every reply of the store, exported before; see `ReplyStore.clear` for `confirm`."""
        report: PruneReport = self.store.clear(confirm=confirm)
        return report


class MemoizedReply(MemorizedFunc):  # type: ignore[misc]
    """A function memoized by reply key, with joblib's methods and without its checks of the source.

    `f(request)` returns the stored reply or calls the function; `f.call(request)` calls it in any case and
    appends a generation; `f.call_and_shelve(request)` returns a reference; `f.check_call_in_cache(request)`
    returns whether a reply is stored. Threads that need one key at the same time make one call.
    """

    store_backend: ReplyBackend

    def __init__(self, func: Callable[..., Any], backend: ReplyBackend, verbose: int) -> None:
        super().__init__(func, backend, verbose=verbose)
        self.func_id = FUNCTION_ID

    def clear(self, warn: bool = True) -> Any:
        """Refuse: replies belong to keys, not to functions."""
        self.store_backend.clear()

    def check_call_in_cache(self, *args: Any, **kwargs: Any) -> bool:
        """Whether the call would be answered from the store."""
        return self._find(self._parts(args, kwargs)) is not None

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyParts:
        """What the reply key of a call is made of."""
        raise NotImplementedError

    def _shown(self, reply: Reply) -> Any:
        """What a caller gets for a reply."""
        return reply

    def _find(self, parts: KeyParts) -> Reply | None:
        return self.store_backend.find((self.func_id, parts.key.hex()))

    def _put(self, parts: KeyParts, value: Any, started: float, *, overwrite: bool) -> Future[bytes]:
        reply, backend = reply_of(value, started), self.store_backend
        stored: Future[bytes] = backend.store.put(parts, reply, overwrite=overwrite, newer_than=backend.since)
        return stored

    def _cached_call(self, args: Any, kwargs: Any, shelving: bool) -> Any:
        # joblib's own would take an error of the store for a miss, and pay again
        parts = self._parts(args, kwargs)
        stored = self._find(parts)
        while stored is None:
            key = self._key_in_flight(parts)
            future, started = _in_flight.join(key)
            if started:
                with _resolving(key) as resolve:
                    # looked up again: the reply may have come between the look-up and the start of this call
                    resolve(self._find(parts) or self._ask(parts, args, kwargs))
            stored = future.result()  # None: the thread that made the call was interrupted
        return self._result_and_metadata(parts, stored, shelving)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function in any case, and store what it returns: that, and joblib's metadata."""
        parts = self._parts(args, kwargs)
        return self._result_and_metadata(parts, self._ask(parts, args, kwargs, overwrite=True), False)

    def _ask(self, parts: KeyParts, args: Any, kwargs: Any, *, overwrite: bool = False) -> Reply:
        self._before_ask(args, kwargs)
        started = time.time()
        return decoded(self._put(parts, self.func(*args, **kwargs), started, overwrite=overwrite).result())

    def _before_ask(self, args: Any, kwargs: Any) -> None:
        self.store_backend.store.check_writable()
        self._before_call(args, kwargs)

    def _result_and_metadata(self, parts: KeyParts, reply: Reply, shelving: bool) -> tuple[Any, dict[str, Any]]:
        call_id = self.func_id, parts.key.hex()
        return (self._get_memorized_result(call_id) if shelving else self._shown(reply)), {}

    def _key_in_flight(self, parts: KeyParts) -> tuple[object, ...]:
        # threads and loops are kept apart: a thread that runs a loop must not block on a call of that loop
        backend = self.store_backend
        return backend.location, parts.key, backend.since, isinstance(self, AsyncMemorizedFunc)

    def __getstate__(self) -> dict[str, Any]:
        # joblib's would read the function's source, which is not used here
        return {**self.__dict__, "timestamp": None}


class AsyncMemoizedReply(MemoizedReply, AsyncMemorizedFunc):  # type: ignore[misc]
    """As `MemoizedReply` for a coroutine function; one call for all tasks and loops that await one key.

    A hit is read in the running loop (some tens of microseconds); storing does not block it. Cancelling
    a caller does not cancel the call: others may await it, and it is already paid for.
    """

    def _cached_call(self, args: Any, kwargs: Any, shelving: bool) -> Awaitable[Any]:
        return self._awaited_call(args, kwargs, shelving)

    async def _awaited_call(self, args: Any, kwargs: Any, shelving: bool) -> Any:
        parts = self._parts(args, kwargs)
        stored = self._find(parts)
        while stored is None:
            key = self._key_in_flight(parts)
            future, started = _in_flight.join(key)
            if started:
                task = asyncio.ensure_future(self._start(key, parts, args, kwargs))
                _tasks.add(task)
                task.add_done_callback(_tasks.discard)
            stored = await asyncio.wrap_future(future)  # None: the loop that made the call ended before the call did
        return self._result_and_metadata(parts, stored, shelving)

    async def _start(self, key: object, parts: KeyParts, args: Any, kwargs: Any) -> None:
        with _resolving(key) as resolve:
            resolve(self._find(parts) or await self._ask_awaited(parts, args, kwargs))

    async def call(self, *args: Any, **kwargs: Any) -> Any:
        """Await the function in any case, and store what it returns: that, and joblib's metadata."""
        parts = self._parts(args, kwargs)
        return self._result_and_metadata(parts, await self._ask_awaited(parts, args, kwargs, overwrite=True), False)

    async def _ask_awaited(self, parts: KeyParts, args: Any, kwargs: Any, *, overwrite: bool = False) -> Reply:
        self._before_ask(args, kwargs)
        started = time.time()
        future = self._put(parts, await self.func(*args, **kwargs), started, overwrite=overwrite)
        return decoded(await asyncio.wrap_future(future))


@contextmanager
def _resolving(key: object) -> Iterator[Callable[[Reply], None]]:
    """Pass a result (by the yielded function) or the error of the block to all callers that wait for the key."""
    results: list[Reply] = []
    try:
        yield results.append
    except Exception as error:  # noqa: BLE001  # the caller waits for the future, too
        _in_flight.resolve(key, error=error)
    except BaseException:
        _in_flight.resolve(key)
        raise
    else:
        _in_flight.resolve(key, results[0])


def reply_of(value: object, started: float) -> Reply:
    """A reply from what a function returned."""
    if isinstance(value, Reply):
        return value
    if isinstance(value, str):
        now = time.time()
        return Reply(value, created=now, latency_s=now - started)
    error = InputError(
        f"a function decorated with memory.cache must return a Reply or its text, got {type(value).__name__}; "
        "nothing was stored, and the error's attribute value has what it returned"
    )
    error.value = value  # type: ignore[attr-defined]  # it was paid for
    raise error


def _new_future() -> Future[Any]:
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()  # running, so that none of those who wait can cancel it
    return future


_in_flight = InFlight(_new_future)
_tasks: set[asyncio.Future[None]] = set()  # a loop keeps only weak references to its tasks


def _forget_after_fork() -> None:
    _in_flight.clear()
    _tasks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
