"""`memory`: functions that ask a judge, memoized under the reply keys of `judge`, as in joblib."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MethodType
from typing import Any

import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import OWN_ANSWER, Prompt, Reply
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import KeyParts, digest
from evalkit.engine.cache.joblib_memory import (
    FUNCTION_ID,
    TEXT_ID,
    AsyncMemoizedReply,
    MemoizedReply,
    ReplyBackend,
    ReplyMemory,
    shown,
)
from evalkit.engine.judging.worklist import parts_of_calls
from evalkit.errors import InputError
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.rubric import Rubric

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


Memory._kinds = MemoizedCall, AsyncMemoizedCall


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


_NOT_INPUTS = ("item_id", "group_id", "system_id")


def own_parts(arguments: Mapping[str, Any]) -> KeyParts | None:
    """The reply key that `judge` has for what a function gets; None if these arguments are not of that kind.

    They are a judge and a `Prompt` as evalkit built it, or a judge, a `Rubric` or `Criterion`, and one item; beside
    these only the number of the ``sample`` and the name of a ``criterion``.

    Raises
    ------
    EvalkitError
        When they are of that kind, but name no judge, template or criterion that there is.
    """
    rest = dict(arguments)
    if not any(isinstance(value, (Prompt, Rubric, Criterion)) for value in rest.values()):
        return None
    judge = _taken(rest, lambda value: isinstance(value, Judge))
    if judge is None:
        judge = _taken(rest, lambda value: isinstance(value, str) and value.partition(":")[0] in PROVIDERS)
    sample = rest.pop("sample", 0)
    if judge is None or type(sample) is not int or sample < 0:
        return None
    judge = Judge.of(judge)
    parts = _of_prompt(judge, rest) or _of_rubric(judge, rest)
    return None if parts is None or rest else parts.of_sample(sample)


def _taken(rest: dict[str, Any], fits: Callable[[Any], bool]) -> Any:
    """The only one of the arguments that fits, taken out of them; None if there is none, or more than one."""
    names = [name for name, value in rest.items() if fits(value)]
    return rest.pop(names[0]) if len(names) == 1 else None


def _of_prompt(judge: Judge, rest: dict[str, Any]) -> KeyParts | None:
    prompt = _taken(rest, lambda value: isinstance(value, Prompt))
    if prompt is None or prompt.origin is None or OWN_ANSWER in prompt.inputs:
        return None
    builder, criteria = prompt.origin
    alone = len(criteria) == 1
    again = (builder.prompt if alone else builder.prompt_together)(criteria[0] if alone else criteria, prompt.inputs)
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


def _parts(judge: Judge, builder: PromptBuilder, criteria: Sequence[Criterion], inputs: Mapping[str, Any]) -> KeyParts:
    order = "AB" if builder.rubric.mode == "pairwise" else None
    return replace(parts_of_calls(judge, builder, criteria), input_hash=digest(dict(inputs)), order=order)
