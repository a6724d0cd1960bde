"""`memory`: functions that ask a judge, memoized in the reply store as joblib's users know it."""

from __future__ import annotations

import contextlib
import inspect
import json
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

from joblib.memory import MemorizedFunc

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.core.strict_json import plain_json
from evalkit.engine.cache.joblib_backend import TEXT_ID, ReplyBackend, shown
from evalkit.engine.cache.joblib_memory import AsyncMemoizedReply, MemoizedReply, ReplyMemory, ReplySlot, Slot, parts_of
from evalkit.engine.judging.function_keys import FunctionKeys
from evalkit.engine.judging.own_reply_keys import own_parts
from evalkit.errors import ConfigError, EvalkitWarning, InputError, listed

_RETURNS = "returns "


class Memory(ReplyMemory):
    """joblib's `Memory` over the reply store, with a decorator for any function that asks a judge; see `memory`.

    Attributes
    ----------
    store
        The `ReplyStore` underneath.
    """

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
        self._keys = FunctionKeys(func, self.ignore)
        self._returns = _annotated(func)

    def __get__(self, instance: object, owner: object = None) -> Any:
        # joblib's own loses self; here it is an argument like others
        return self if instance is None or isinstance(self.func, staticmethod) else MethodType(self, instance)

    def __getstate__(self) -> dict[str, Any]:
        with contextlib.suppress(InputError):  # so that the sources of what it reads travel too
            self._keys.reads()
        state = {**super().__getstate__(), "_sources": self._keys.sources}
        del state["_keys"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        sources = state.pop("_sources")
        self.__dict__.update(state)
        self._keys = FunctionKeys(self.func, self.ignore, sources)

    def clear(self, warn: bool = True, *, confirm: str | None = None) -> int:  # noqa: ARG002  # joblib's
        """Remove the values of all versions of this function, if `confirm` states their number; replies stay.

        Raises
        ------
        CacheError
            If `confirm` is not ``"delete N values"`` with the present number.
        """
        self._returns = _annotated(self.func)
        return int(self.store_backend.store.clear_values(self._keys.name, confirm=confirm))

    def _slot(self, args: Any, kwargs: Any) -> Slot:
        arguments = self._keys.arguments(args, kwargs)
        if any(isinstance(getattr(value, "parts", None), KeyParts) for value in arguments.values()):
            return _CallSlot(self, arguments, parts_of(args, kwargs))
        return _CallSlot(self, arguments, None if self._returns == "value" else own_parts(arguments))


class AsyncMemoizedCall(MemoizedCall, AsyncMemoizedReply):
    """As `MemoizedCall` for a coroutine function; one call for all tasks and loops that await one key."""


@dataclass(slots=True)
class _CallSlot:
    """The place of one call: of a reply, if the call has a reply key and returns one, else of a value."""

    memoized: MemoizedCall
    arguments: Mapping[str, Any]
    parts: KeyParts | None
    _key: str = ""
    _reads: Mapping[str, str] | None = None

    @property
    def backend(self) -> ReplyBackend:
        return self.memoized.store_backend

    @property
    def key(self) -> str:
        """The key of a value."""
        if not self._key:
            keys = self.memoized._keys
            self._reads = keys.reads()
            self._key = keys.key(self.arguments, self._reads)
        return self._key

    @property
    def returns(self) -> str:
        """``text``, ``reply`` or ``value``, as annotated or as it was when the function was last called; else empty."""
        memoized = self.memoized
        if not memoized._returns and self.parts is not None:
            stored = self.backend.store.value(memoized._keys.name, _RETURNS + memoized._keys.source_digest)
            memoized._returns = "" if stored is None else json.loads(stored[0])
        return memoized._returns

    @property
    def call_id(self) -> tuple[str, str]:
        """See `Slot`."""
        if self.parts is not None and self.returns != "value":
            function, key = ReplySlot.of(self.backend, self.parts).call_id
            return function if self.returns == "reply" else TEXT_ID, key
        return self.memoized._keys.name, self.key

    def find(self) -> tuple[Any] | None:
        """See `Slot`."""
        if self.parts is not None and self.returns != "value":
            stored = ReplySlot.of(self.backend, self.parts).find()
            if stored is not None:
                return (self._shown(stored[0]),)
            try:
                key = self.key
            except InputError:  # of a function that returns replies, only these need a key
                return None
        else:
            key = self.key
        value = self.backend.store.value(self.memoized._keys.name, key)
        if value is None or (self.backend.since is not None and value[1] < self.backend.since):
            return None
        stored_value = json.loads(value[0])
        is_valid = self.memoized.cache_validation_callback
        if is_valid is not None:
            arguments = {name: repr(argument) for name, argument in self.arguments.items()}
            if not is_valid({"duration": stored_value["seconds"], "time": value[1], "input_args": arguments}):
                return None
        return (stored_value["value"],)

    def put(self, value: Any, started: float, *, overwrite: bool) -> tuple[Future[Any], Callable[[Any], Any]]:
        """See `Slot`."""
        if self.parts is not None:
            kind = "reply" if isinstance(value, Reply) else "text" if isinstance(value, str) else "value"
            before = self.returns
            if value is not None and before != kind and not (before and "value" in (before, kind)):
                self._learn(kind)
            if kind != "value" and self.returns != "value":
                slot = ReplySlot.of(self.backend, self.parts)
                future, decode = slot.put(value, started, overwrite=overwrite)
                return future, lambda stored: self._shown(decode(stored))
        name, since = self.memoized._keys.name, self.backend.since
        try:
            key, text = self.key, as_json(value, time.time() - started, name)
        except InputError as error:
            error.value = value  # type: ignore[attr-defined]  # it was paid for
            raise
        self._warn_of_changes()
        overwrite = overwrite or self.memoized.cache_validation_callback is not None
        stored_text = self.backend.store.put_value(name, key, text, overwrite=overwrite, newer_than=since)
        return stored_text, lambda stored: json.loads(stored)["value"]

    def _learn(self, kind: str) -> None:
        """Keep what the function returns: without a call, a reply of `judge` would not tell."""
        memoized = self.memoized
        memoized._returns = kind
        key = _RETURNS + memoized._keys.source_digest
        self.backend.store.put_value(memoized._keys.name, key, json.dumps(kind), overwrite=True)

    def _shown(self, reply: Reply) -> Any:
        return reply if self.returns == "reply" else shown(reply)

    def _warn_of_changes(self) -> None:
        keys = self.memoized._keys
        before, after = self._reads or {}, keys.reads()
        changed = sorted({name.partition(" ")[2] for name, value in after.items() if before.get(name, value) != value})
        if changed:
            warnings.warn(
                f"{keys.name} changed {listed(changed)}, which it reads, so the same call will be asked again; pass it "
                "as an argument, or name it in @memory.cache(ignore=[…]) if it cannot change the answer",
                EvalkitWarning,
                stacklevel=2,
            )


def as_json(value: Any, seconds: float, name: str) -> str:
    """What a function returned, as JSON from which the same value is read again; numbers of numpy as Python's.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        return json.dumps({"value": plain_json(value), "seconds": seconds}, allow_nan=False)
    except TypeError as problem:
        if inspect.iscoroutine(value):
            value.close()
        raise InputError(
            f"{name} returned {problem}, which is no JSON and was not stored; return a text, number, list or dict "
            "(of a client's answer its text or .model_dump(mode='json')); the error's attribute value has what it "
            "returned"
        ) from None


def _annotated(func: Any) -> str:
    """What a function returns by its annotation: ``text``, ``reply``, ``value``, or empty if it does not say."""
    try:
        annotation = inspect.signature(func).return_annotation
    except (TypeError, ValueError):
        return ""
    if annotation is inspect.Signature.empty or annotation is Any:
        return ""
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    name = name.replace(" ", "").removesuffix("|None").rpartition(".")[2].strip("'\"")
    return {"str": "text", "Reply": "reply", "Any": "", "object": ""}.get(name, "value")
