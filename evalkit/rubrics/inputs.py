"""The inputs of an item, as a rubric declares them: in the form that is shown and hashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from evalkit.errors import RubricError
from evalkit.tables.items import input_text, is_missing
from evalkit.tables.message_forms import is_plain_text, shown_value
from evalkit.tables.messages import QUESTION, conversation_value

_QUESTIONS = ("question", "prompt", "instruction", "query", "conversation")
BEFORE_ANSWER = (*_QUESTIONS, "context", "contexts", "source", "document", "documents")
"""Inputs that a judge may see before it has given its own answer."""
_SWAP = {"answer_a": "answer_b", "answer_b": "answer_a"}


class Declared(Protocol):
    """What declares inputs: a `Rubric`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the items; a name that ends in ``?`` is optional."""


def item_inputs(rubric: Declared, columns: Mapping[str, Sequence[Any]], n_items: int) -> list[dict[str, Any]]:
    """The declared inputs of each item, in the form that is shown and hashed; missing ones left out.

    A blank optional input counts as missing.
    """
    rows: list[dict[str, Any]] = [{} for _ in range(n_items)]
    for declared in rubric.inputs:
        name, optional = declared.removesuffix("?"), declared.endswith("?")
        for row, value in zip(rows, columns.get(name, ()), strict=False):
            if isinstance(value, str):
                shown: Any = value
            elif is_missing(value):
                continue
            else:
                shown = input_text(value)
            if name == "conversation":
                shown = conversation_value(shown)
            elif not (isinstance(shown, str) and is_plain_text(shown)):
                shown = shown_value(shown)
            if name == "context":
                shown = [] if shown in ("", [""]) else [shown] if isinstance(shown, str) else shown
            if not optional or shown not in ("", []):
                row[name] = shown
    return rows


def swapped(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a pairwise prompt with the two answers in the other order."""
    return {_SWAP.get(name, name): value for name, value in inputs.items()}


def check_question(rubric_id: str, names: Sequence[str], template: str) -> None:
    """RubricError if there is no question to answer first among the names of a rubric's inputs."""
    if not {*_QUESTIONS} & {*names}:
        raise RubricError(
            f"template {template} first asks the judge for its own answer to a question, so rubric {rubric_id!r} needs "
            f"one of the inputs {', '.join(_QUESTIONS)}; it has {', '.join(names)}; use another template"
        )


def question_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs that a judge sees before it answers."""
    shown = {name: value for name, value in inputs.items() if name in BEFORE_ANSWER}
    talk = shown.get("conversation")
    if isinstance(talk, list) and QUESTION in talk:  # what follows it is part of the answer
        shown["conversation"] = talk[: talk.index(QUESTION)]
        if not shown["conversation"]:
            del shown["conversation"]
    return shown
