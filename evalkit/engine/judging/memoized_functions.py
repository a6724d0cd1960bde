"""`memory`: functions that ask a judge, memoized in the reply store as joblib's users know it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MethodType
from typing import Any

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.reply_keys import KeyParts
from evalkit.engine.cache.joblib_backend import FUNCTION_ID, TEXT_ID, ReplyBackend, shown
from evalkit.engine.cache.joblib_memory import AsyncMemoizedReply, MemoizedReply, ReplyMemory
from evalkit.engine.judging.own_reply_keys import own_parts
from evalkit.errors import InputError

_RETURNS = ("str", "Optional[str]", "ReplyText", "Reply", "_empty", "Any", "object")
_OTHERS = (
    "for any other function use joblib.Memory, whose rules differ: an edit of the function empties its cache, and the "
    "globals that it reads do not count"
)


class Memory(ReplyMemory):
    """joblib's `Memory` over the reply store, with a decorator for functions that ask a judge; see `memory`."""

    store = ReplyMemory.store
    cache = ReplyMemory.cache
    clear = ReplyMemory.clear

    @property
    def _kinds(self) -> tuple[type[MemoizedReply], type[MemoizedReply]]:
        """See `ReplyMemory._kinds`."""
        return MemoizedCall, AsyncMemoizedCall


def memory(
    cache: Path | str | None = None,
    *,
    read_only: bool = False,
    recorded: bool = False,
    since: float | None = None,
    verbose: int = 0,
) -> Memory:
    """Joblib's `Memory` for functions that ask a judge, over evalkit's cache.

    ``@memory.cache`` memoizes a function, also an async one, that gets a judge (`Judge` or ``"provider:model"``) and a
    `Prompt`, or a judge, a `Rubric` or `Criterion` and an item, and returns the text of a reply or a `Reply`. The reply
    key is that of `judge`, so that `judge` and the function find each other's replies, and an edit of the function
    drops nothing. The function may also get ``sample``, the number of the sample, and ``criterion``, the name of one of
    the rubric's. A call with anything else is an error before the function is called: for other functions, use
    ``joblib.Memory``.

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
    >>> from evalkit.rubrics.preview import build_prompt
    >>> prompt = build_prompt("correctness", {"question": "2 + 2?", "answer": "4", "reference": "4"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     kept = memory(folder)
    ...     @kept.cache
    ...     def ask(judge, prompt):
    ...         print("asked")
    ...         return '{"explanation": "as in the reference", "score": 2}'
    ...     first, second = ask("fake:strict", prompt), ask("fake:strict", prompt)
    ...     kept.store.close()
    asked
    >>> first == second
    True
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
    `f.check_call_in_cache(…)` says whether something is stored. A function with ``-> Reply`` gives replies, every other
    one texts, which have the fields of the reply.
    """

    def __init__(self, func: Callable[..., Any], backend: ReplyBackend, verbose: int) -> None:
        if not callable(func) or isinstance(func, type):
            raise InputError(
                f"memory.cache takes a function, got {type(func).__name__}; decorate a function that asks a judge"
            )
        returned = _annotated(func)
        if returned not in _RETURNS:
            raise InputError(
                f"memory.cache takes a function that returns the text of a judge's reply or an ek.core.Reply, got one "
                f"that returns {returned}; {_OTHERS}"
            )
        super().__init__(func, backend, verbose)
        self.func_id = FUNCTION_ID if returned == "Reply" else TEXT_ID

    def __get__(self, instance: object, owner: object = None) -> Any:
        # joblib's own loses self; here it is an argument like others
        return self if instance is None or isinstance(self.func, staticmethod) else MethodType(self, instance)

    def _parts(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KeyParts:
        arguments = _by_name(self.func, args, kwargs)
        parts = own_parts(arguments)
        if parts is None:
            kinds = ", ".join(f"{name}: {type(value).__name__}" for name, value in arguments.items())
            raise InputError(
                "memory.cache takes calls with a judge and a prompt as ek.build_prompt made it, or with a judge, a "
                f"rubric or criterion and an item (beside these sample= and criterion=), got ({kinds}); nothing was "
                f"asked; {_OTHERS}"
            )
        return parts

    def _shown(self, reply: Reply) -> Any:
        return reply if self.func_id == FUNCTION_ID else shown(reply)


class AsyncMemoizedCall(MemoizedCall, AsyncMemoizedReply):
    """As `MemoizedCall` for a coroutine function; one call for all tasks and loops that await one key."""


def _by_name(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by name, with defaults; `*0` and so on have no name."""
    signature = inspect.signature(func)
    bound, values = signature.bind(*args, **kwargs), dict[str, Any]()
    bound.apply_defaults()
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values |= {f"*{number}": argument for number, argument in enumerate(value)}
        else:
            values |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return values


def _annotated(func: Callable[..., Any]) -> str:
    """The name of what a function returns by its annotation, without its module; ``_empty`` if it does not say."""
    annotation = inspect.formatannotation(inspect.signature(func).return_annotation)
    name = annotation.strip("'\"").replace(" ", "").removesuffix("|None")
    return re.sub(r"^[\w.]+\.(?=Optional\[)", "", name) if "[" in name else name.rpartition(".")[2]
