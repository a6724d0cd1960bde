"""The inputs of an item, as a rubric declares them: in the form that is shown and hashed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol

from evalkit.errors import InputError, RubricError
from evalkit.tables.items import input_text, is_missing
from evalkit.tables.message_files import is_plain_text, is_unseen, media_of_cell
from evalkit.tables.message_forms import shown_value, text_of_content, warn_of
from evalkit.tables.messages import CONVERSATIONS, QUESTION, conversation_value, without_answer

QUESTIONS = ("question", "prompt", "instruction", "query", "conversation")
BEFORE_ANSWER = (*QUESTIONS, "context", "contexts", "source", "document", "documents")
"""Inputs that a judge may see before it has given its own answer."""
IMAGE_INPUT = "image"
"""The input whose cells are images; any other may hold some, too."""
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
    return inputs_by_item(shown_columns(rubric, columns), n_items)


def shown_columns(rubric: Declared, columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """As `item_inputs`, by name: the values of all items, None where one is missing."""
    cells_by_input: dict[str, list[Any]] = {}
    for declared in rubric.inputs:
        name, optional = declared.removesuffix("?"), declared.endswith("?")
        if name in columns:
            first = next((cell for cell in columns[name] if isinstance(cell, str)), "")  # of a column, all are images
            is_text = name not in (*CONVERSATIONS, "context", IMAGE_INPUT) and media_of_cell(first) is None
            unknown, cells = set[str](), list[Any]()
            try:
                for value in columns[name]:
                    is_shown = is_text and type(value) is str and is_plain_text(value)
                    cells.append(value if is_shown else _shown(name, value, unknown))
            except InputError as problem:
                raise InputError(f"row {len(cells)}, input {name!r}: {problem}") from None
            warn_of(unknown, f"input {name!r}")
            cells_by_input[name] = [None if cell in ("", []) else cell for cell in cells] if optional else cells
    if {"answer", "conversation"} <= cells_by_input.keys():
        talks, answers = cells_by_input["conversation"], cells_by_input["answer"]
        rows = zip(talks, cells_by_input.get("question", repeat(None)), answers, strict=False)
        rest = [without_answer(*row) if isinstance(row[0], list) else row[0] for row in rows]
        none = repeat(None) if "conversation?" in rubric.inputs else talks
        cells_by_input["conversation"] = [talk or instead for talk, instead in zip(rest, none, strict=False)]
    return cells_by_input


def inputs_by_item(shown: Mapping[str, list[Any]], n_items: int) -> list[dict[str, Any]]:
    """The inputs of each item, of `shown_columns`."""
    if not shown:
        return [{} for _ in range(n_items)]
    rows = list(map(dict, map(zip, repeat(tuple(shown)), zip(*shown.values(), strict=True))))
    for name in [name for name, cells in shown.items() if None in cells]:
        for row in rows:
            if row[name] is None:
                del row[name]
    return rows


def _shown(name: str, value: Any, unknown: set[str]) -> Any:
    """The value of one input in the form that is shown and hashed; None if it is missing."""
    if not isinstance(value, (str, list)):
        if is_missing(value):
            return None
        value = input_text(value)
    if (media := media_of_cell(value)) is not None:
        return media
    if name == IMAGE_INPUT:
        return [piece for cell in (value if isinstance(value, list) else [value]) for piece in _images(cell)]
    if name in CONVERSATIONS:
        value = conversation_value(value, unknown)
    elif not (isinstance(value, str) and is_plain_text(value)):
        value = shown_value(text_of_content(value))
    if name == "context":
        value = [] if value in ("", [""]) else [value] if isinstance(value, str) else value
    return value


def _images(cell: Any) -> list[Any]:
    """The images of a cell as marks; a text that is none is refused, and an address is never fetched."""
    value = shown_value(cell)
    parts = value if isinstance(value, list) else [value]
    if not all(map(is_unseen, parts)):
        raise InputError(
            f"got {str(cell)!r:.60}; expected an image: a data: URL; from Python also bytes, an image of Pillow or "
            "datasets, a Path, or names of files with ek.load_items(…, images='FOLDER'); evalkit fetches no address"
        )
    return parts


def swapped(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a pairwise prompt with the two answers in the other order."""
    return {_SWAP.get(name, name): value for name, value in inputs.items()}


def check_question(rubric_id: str, names: Sequence[str], template: str) -> None:
    """RubricError if there is no question to answer first among the names of a rubric's inputs."""
    if not {*QUESTIONS} & {*names}:
        raise RubricError(
            f"template {template} first asks the judge for its own answer to a question, so rubric {rubric_id!r} needs "
            f"one of the inputs {', '.join(QUESTIONS)}; it has {', '.join(names)}; use another template"
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
