"""`memory`: functions that ask a judge, memoized in the reply store as joblib's users know it."""

from __future__ import annotations

import inspect
import json
import math
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import pandas as pd
from joblib.memory import MemorizedFunc

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import OWN_ANSWER, Prompt, Reply
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import KeyParts, digest
from evalkit.core.strict_json import plain_number
from evalkit.engine.cache.joblib_backend import TEXT_ID, ReplyBackend, shown
from evalkit.engine.cache.joblib_memory import AsyncMemoizedReply, MemoizedReply, ReplyMemory, ReplySlot, Slot, parts_of
from evalkit.engine.judging.function_keys import FunctionKeys, client_address
from evalkit.errors import ConfigError, EvalkitError, EvalkitWarning, InputError, listed
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.rubric import Rubric

_RETURNS = "returns "
_NOT_INPUTS = ("item_id", "group_id", "system_id")


class Memory(ReplyMemory):
    """joblib's `Memory` over the reply store, with a decorator for any function that asks a judge; see `memory`.

    Attributes
    ----------
    store
        The `ReplyStore` underneath.
    """

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
        return self if instance is None else MethodType(self, instance)

    def __getstate__(self) -> dict[str, Any]:
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
            known = self.backend.store.value(memoized._keys.name, _RETURNS + memoized._keys.source_digest)
            memoized._returns = "" if known is None else json.loads(known[0])
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
            shown = {name: repr(argument) for name, argument in self.arguments.items()}
            if not is_valid({"duration": stored_value["seconds"], "time": value[1], "input_args": shown}):
                return None
        return (stored_value["value"],)

    def put(self, value: Any, started: float, *, overwrite: bool) -> tuple[Future[Any], Callable[[Any], Any]]:
        """See `Slot`."""
        if self.parts is not None:
            kind = "reply" if isinstance(value, Reply) else "text" if isinstance(value, str) else "value"
            known = self.returns
            if value is not None and known != kind and not (known and "value" in (known, kind)):
                self._learn(kind)
            if kind != "value" and self.returns != "value":
                slot = ReplySlot.of(self.backend, self.parts)
                future, read = slot.put(value, started, overwrite=overwrite)
                return future, lambda stored: self._shown(read(stored))
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
        return json.dumps({"value": _plain(value, ""), "seconds": seconds}, allow_nan=False)
    except TypeError as problem:
        if inspect.iscoroutine(value):
            value.close()
        raise InputError(
            f"{name} returned {problem}, which is no JSON and was not stored; return a text, number, list or dict "
            "(of a client's answer its text or .model_dump(mode='json')); the error's attribute value has what it "
            "returned"
        ) from None


def _plain(value: Any, path: str) -> Any:
    """A value as JSON has it; TypeError, with what is none and where, if it is no such value."""
    at = f" at {path}" if path else ""
    if value is None or isinstance(value, (str, bool)):
        return value
    value = bool(value) if isinstance(value, np.bool_) else plain_number(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"the number {value}{at}")
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(one, f"{path}[{place}]") for place, one in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a dict with the key {key!r}{at}")
        return {key: _plain(one, f"{path}[{key!r}]") for key, one in value.items()}
    hint = "; define the function with async def" if inspect.iscoroutine(value) else ""
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__}{at}{hint}".removeprefix("builtins."))


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


def own_parts(arguments: Mapping[str, Any]) -> KeyParts | None:
    """The reply key that `judge` has for what a function gets; None if these arguments are not of that kind.

    They are a judge and a `Prompt` as evalkit built it, or a judge, a `Rubric` or `Criterion`, and one item; beside
    these only the number of the ``sample``, the name of a ``criterion``, and clients of the judge's service.
    """
    rest = {name: value for name, value in arguments.items() if not (name in ("*", "**") and not value)}
    judge = _taken(rest, lambda value: isinstance(value, Judge))
    if judge is None:
        judge = _taken(rest, lambda value: isinstance(value, str) and value.partition(":")[0] in PROVIDERS)
    sample = rest.pop("sample", 0)
    if judge is None or type(sample) is not int or sample < 0:
        return None
    try:
        judge = Judge.of(judge)
        parts = _of_prompt(judge, rest) or _of_rubric(judge, rest)
    except EvalkitError:  # judge could not ask this
        return None
    if parts is None or any(client_address(value) is None for value in rest.values()):
        return None
    for name, value in rest.items():
        _check_client(judge, name, value)
    return parts.of_sample(sample)


def _check_client(judge: Judge, name: str, client: Any) -> None:
    """InputError if a client asks another service than the one that the key of the reply names."""
    address = client_address(client) or ""
    service = Judge("openai", "m", base_url=address).service if "://" in address else judge.service
    if service != judge.service:
        raise InputError(
            f"the argument {name!r} is a client of {service}, but the judge {judge.name!r} is at {judge.service}, and "
            f"its replies are stored under that name; pass Judge(…, base_url={address!r}), or name {name!r} in "
            "@memory.cache(ignore=[…]); nothing was asked"
        )


def _taken(rest: dict[str, Any], fits: Callable[[Any], bool]) -> Any:
    """The only one of the arguments that fits, taken out of them; None if there is none, or more than one."""
    names = [name for name, value in rest.items() if fits(value)]
    return rest.pop(names[0]) if len(names) == 1 else None


def _of_prompt(judge: Judge, rest: dict[str, Any]) -> KeyParts | None:
    prompt = _taken(rest, lambda value: isinstance(value, Prompt))
    if prompt is None or prompt.origin is None or OWN_ANSWER in prompt.inputs:
        return None
    builder, criteria = prompt.origin
    if len(criteria) == 1:
        again = builder.prompt(criteria[0], prompt.inputs)
    else:
        again = builder.prompt_together(criteria, prompt.inputs)
    # a prompt that was changed is another one
    return _parts(judge, builder, criteria, prompt.inputs) if again.messages == prompt.messages else None


def _of_rubric(judge: Judge, rest: dict[str, Any]) -> KeyParts | None:
    criterion = _taken(rest, lambda value: isinstance(value, Criterion))
    rubric = _taken(rest, lambda value: isinstance(value, Rubric))
    item = _taken(rest, lambda value: isinstance(value, (Mapping, pd.Series)))
    if item is None and rubric is not None and len(rubric.input_names) == 1:
        item = _taken(rest, lambda value: isinstance(value, str) and value is not rest.get("criterion"))
        item = None if item is None else {rubric.input_names[0]: item}
    if item is None or (rubric is None and criterion is None):
        return None
    if rubric is None:
        names = [str(name) for name in [*item] if name not in _NOT_INPUTS]
        rubric = Rubric(id=criterion.name, version="v1", inputs=names, criteria=[criterion])
    chosen = rubric.criterion(rest.pop("criterion", None) if criterion is None else criterion.name)
    if criterion is not None and chosen != criterion:
        return None
    inputs = item_inputs(rubric, {name: [item[name]] for name in rubric.input_names if name in item}, 1)[0]
    if any(name not in inputs for name in rubric.required_inputs):
        return None
    builder = PromptBuilder.of(rubric, judge.template)
    return None if builder.template.commits else _parts(judge, builder, (chosen,), inputs)


def _parts(
    judge: Judge, builder: PromptBuilder, criteria: Collection[Criterion], inputs: Mapping[str, Any]
) -> KeyParts:
    rubric = builder.rubric
    return KeyParts(
        provider=judge.provider,
        service=judge.service,
        model=judge.model,
        rubric=rubric.id,
        rubric_version=rubric.version,
        **builder.key_hashes(list(criteria)),
        temperature=judge.temperature,
        max_tokens=judge.max_tokens,
        params=judge.params,
        input_hash=digest(dict(inputs)),
        order="AB" if rubric.mode == "pairwise" else None,
    )
