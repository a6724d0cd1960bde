"""`memory`: functions that ask a judge, memoized in the reply store as joblib's users know it."""

from __future__ import annotations

import inspect
import json
import re
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import MethodType
from typing import Any

from joblib.memory import MemorizedFunc

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts, digest
from evalkit.core.strict_json import plain_json
from evalkit.engine.cache.joblib_backend import TEXT_ID, ReplyBackend, shown
from evalkit.engine.cache.joblib_memory import AsyncMemoizedReply, MemoizedReply, ReplyMemory, ReplySlot, Slot, parts_of
from evalkit.engine.judging.function_keys import FunctionKeys
from evalkit.engine.judging.own_reply_keys import own_parts
from evalkit.errors import ConfigError, EvalkitWarning, InputError, listed

_RETURNS = "returns "


class Memory(ReplyMemory):
    """joblib's `Memory` over the reply store, with a decorator for any function that asks a judge; see `memory`."""

    store = ReplyMemory.store
    clear = ReplyMemory.clear

    def cache(
        self,
        func: Callable[..., Any] | None = None,
        ignore: Collection[str] | None = None,
        verbose: int | None = None,
        mmap_mode: object = False,
        cache_validation_callback: Callable[[dict[str, Any]], bool] | None = None,
    ) -> Any:
        """Memoize a function, also a coroutine function; usable as a decorator with or without options.

        Parameters
        ----------
        func
            The function, method, partial or object with ``__call__``.
        ignore
            Names of parameters, globals and variables of closures that are not part of the key.
        verbose
            joblib's: above 0 it prints calls, arguments included.
        mmap_mode
            Not supported: values are JSON.
        cache_validation_callback
            As in joblib: gets ``{"time", "duration", "input_args"}`` of a stored value, and returns whether it still
            counts. Values only: a reply counts by its key.
        """
        if mmap_mode:
            raise ConfigError("memory.cache takes no mmap_mode=, because values are stored as JSON; leave it out")
        if func is None:
            return lambda function: self.cache(function, ignore, verbose, mmap_mode, cache_validation_callback)
        if not callable(func) or isinstance(func, type):
            raise InputError(
                f"memory.cache takes a function, got {type(func).__name__}; decorate a function that asks a judge"
            )
        if isinstance(ignore, str):
            raise InputError(f"ignore= is a list of names, got the text {ignore!r}; pass [{ignore!r}]")
        function = func.func if isinstance(func, MemorizedFunc) else func
        is_async = any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
        kind = AsyncMemoizedCall if is_async else MemoizedCall
        level = self._verbose if verbose is None else verbose
        return kind(function, self.store_backend, level, ignore or (), cache_validation_callback)


def memory(
    cache: Path | str | None = None,
    *,
    read_only: bool = False,
    recorded: bool = False,
    since: float | None = None,
    verbose: int = 0,
) -> Memory:
    """Joblib's `Memory` for functions that ask a judge, over evalkit's cache.

    ``@memory.cache`` memoizes any function, also an async one, in one of two ways:

    - It gets a judge (`Judge` or ``"provider:model"``) and a `Prompt`, or a `Rubric` or `Criterion` with an item, and
      returns the text of a reply or a `Reply`: the reply key is that of `judge`, and the reply is where `judge` and
      other functions look for it. An edit of the function drops nothing. It may also get ``sample``, the number of the
      sample, and a client of the judge's service.
    - Every other function: its module, name and source, joblib's hash of the arguments, and what it reads from
      globals and closures (judges, rubrics, texts, helper functions; a client by its address) are the key. The
      value is stored as JSON, apart from replies.

    Parameters
    ----------
    cache
        The cache folder or address of a server; `default_cache()` if None.
    read_only
        Never write: a miss is then an error before the function is called.
    recorded
        Whether replies recorded by hand count, as in ``judge(recorded="use")``.
    since
        Unix time: what was stored earlier does not count, and is superseded.
    verbose
        joblib's: above 0 it prints calls, arguments included.

    Returns
    -------
    Memory
        With joblib's methods; its `cache` is the decorator.

    Raises
    ------
    CacheError
        If the cache cannot be opened.
    InputError
        If it got the function itself.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = memory(folder)
    ...     @kept.cache
    ...     def ask(question):
    ...         print("asked")
    ...         return {"score": 2}
    ...     first, second = ask("2 + 2?"), ask(question="2 + 2?")
    ...     kept.store.close()
    asked
    >>> first, second
    ({'score': 2}, {'score': 2})
    """
    if callable(cache):
        raise InputError(
            "ek.memory takes a cache folder or the address of a server, got a function; write memory = ek.memory(), "
            "then @memory.cache above the function"
        )
    return Memory(cache, read_only=read_only, recorded=recorded, since=since, verbose=verbose)


class MemoizedCall(MemoizedReply):
    """A memoized function, with joblib's methods.

    `f(…)` returns what is stored, or calls the function; `f.call(…)` calls it in any case and stores what it returns;
    `f.check_call_in_cache(…)` says whether something is stored; `f.clear(confirm=…)` removes its values.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        backend: ReplyBackend,
        verbose: int,
        ignore: Collection[str],
        is_valid: Callable[[dict[str, Any]], bool] | None,
    ) -> None:
        super().__init__(func, backend, verbose)
        self.ignore, self.cache_validation_callback = list(ignore), is_valid
        self.keys, self._returns = FunctionKeys(func, self.ignore), _annotated(func)

    def __get__(self, instance: object, owner: object = None) -> Any:
        # joblib's own loses self; here it is an argument like others
        return self if instance is None or isinstance(self.func, staticmethod) else MethodType(self, instance)

    def clear(self, warn: bool = True, *, confirm: str | None = None) -> int:  # noqa: ARG002  # joblib's
        """Remove the values of all versions of this function, if `confirm` states their number; replies stay.

        Raises
        ------
        CacheError
            If `confirm` is not ``"delete N values"`` with the present number.
        """
        self._returns = _annotated(self.func)
        return int(self.store_backend.store.clear_values(self.keys.name, confirm=confirm))

    @property
    def returns(self) -> str:
        """``text``, ``reply`` or ``value``, as annotated or as it was when it was last called; empty: not known."""
        if not self._returns:
            stored = self.store_backend.store.value(self.keys.name, _RETURNS + self.keys.version())
            self._returns = "" if stored is None else json.loads(stored[0])
        return self._returns

    def learn(self, kind: str) -> None:
        """Keep what it returns, if it is not known: without a call, a reply of `judge` would not tell."""
        if not self.returns:
            self._returns, key = kind, _RETURNS + self.keys.version()
            self.store_backend.store.put_value(self.keys.name, key, json.dumps(kind), overwrite=True)

    def _slot(self, args: Any, kwargs: Any) -> Slot:
        arguments = self.keys.arguments(args, kwargs)
        is_request = any(isinstance(getattr(value, "parts", None), KeyParts) for value in arguments.values())
        parts = parts_of(args, kwargs) if is_request else own_parts(arguments)
        reply = None if parts is None or self.returns == "value" else ReplySlot(self.store_backend, parts)
        return _CallSlot(self, arguments, reply)


class AsyncMemoizedCall(MemoizedCall, AsyncMemoizedReply):
    """As `MemoizedCall` for a coroutine function; one call for all tasks and loops that await one key."""


@dataclass(slots=True)
class _CallSlot:
    """The place of one call: that of a reply, if the call has a reply key and returns one, else of a value."""

    memoized: MemoizedCall
    arguments: Mapping[str, Any]
    reply: ReplySlot | None
    _parts: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of a value."""
        if not self._parts:
            self._parts = self.memoized.keys.parts(self.arguments)
        return digest(self._parts)

    @property
    def call_id(self) -> tuple[str, str]:
        """See `Slot`."""
        if self.reply is None:
            return self.memoized.keys.name, self.key
        function, key = self.reply.call_id
        return function if self.memoized.returns == "reply" else TEXT_ID, key

    def find(self) -> tuple[Any] | None:
        """See `Slot`."""
        memoized = self.memoized
        if self.reply is not None:
            stored = self.reply.find()
            if stored is not None:
                return (self._shown(stored[0]),)
        try:
            value = memoized.store_backend.store.value(memoized.keys.name, self.key)
        except InputError:
            if self.reply is None:
                raise
            return None  # of a function that returns replies, only these need a key
        since, is_valid = memoized.store_backend.since, memoized.cache_validation_callback
        if value is None or (since is not None and value[1] < since):
            return None
        stored_value = json.loads(value[0])
        if is_valid is not None:
            arguments = {name: repr(argument) for name, argument in self.arguments.items()}
            if not is_valid({"duration": stored_value["seconds"], "time": value[1], "input_args": arguments}):
                return None
        return (stored_value["value"],)

    def put(self, value: Any, started: float, *, overwrite: bool) -> tuple[Future[Any], Callable[[Any], Any]]:
        """See `Slot`."""
        memoized, keys = self.memoized, self.memoized.keys
        if self.reply is not None and isinstance(value, (str, Reply)):
            memoized.learn("reply" if isinstance(value, Reply) else "text")
            future, decode = self.reply.put(value, started, overwrite=overwrite)
            return future, lambda stored: self._shown(decode(stored))
        if self.reply is not None and value is not None:
            memoized.learn("value")
            self.reply = None
        try:
            key, seconds = self.key, time.time() - started
            text = json.dumps({"value": plain_json(value), "seconds": seconds}, allow_nan=False)
        except (InputError, TypeError) as problem:
            error = problem if isinstance(problem, InputError) else _no_json(keys.name, problem)
            error.value = value  # type: ignore[attr-defined]  # it was paid for
            raise error from None
        self._warn_of_changes()
        store, since = memoized.store_backend.store, memoized.store_backend.since
        overwrite = overwrite or memoized.cache_validation_callback is not None
        written = store.put_value(keys.name, key, text, overwrite=overwrite, newer_than=since)
        return written, lambda stored: json.loads(stored)["value"]

    def _shown(self, reply: Reply) -> Any:
        return reply if self.memoized.returns == "reply" else shown(reply)

    def _warn_of_changes(self) -> None:
        keys = self.memoized.keys
        before, after = (
            parts["reads"] | {"0 self": parts["arguments"].get("self")}
            for parts in (self._parts, keys.parts(self.arguments))
        )
        changed = sorted({name.partition(" ")[2] for name, value in after.items() if before.get(name, value) != value})
        if changed:
            warnings.warn(
                f"{keys.name} changed {listed(changed)}, which it reads, so the same call will be asked again; pass it "
                "as an argument, or name it in @memory.cache(ignore=[…]) if it cannot change the answer",
                EvalkitWarning,
                stacklevel=2,
            )


def _no_json(function: str, problem: TypeError) -> InputError:
    return InputError(
        f"{function} returned {problem}, which is no JSON and was not stored; return a text, number, list or dict (of "
        "a client's answer its text or .model_dump(mode='json')); the error's attribute value has what it returned"
    )


def _annotated(func: Any) -> str:
    """What a function returns by its annotation: ``text``, ``reply``, ``value``, or empty if it does not say."""
    annotation = inspect.formatannotation(inspect.signature(func).return_annotation)
    name = re.sub(r"['\" ]|\|None['\"]?$", "", annotation.replace(" ", "")).rpartition(".")[2]
    return {"str": "text", "Reply": "reply", "_empty": "", "Any": "", "object": ""}.get(name, "value")
