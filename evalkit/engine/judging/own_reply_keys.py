"""The reply keys of functions that ask what `judge` would ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import OWN_ANSWER, Prompt
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import KeyParts, digest
from evalkit.engine.judging.worklist import parts_of_calls
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.inputs import item_inputs
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.rubrics.rubric import Rubric

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
