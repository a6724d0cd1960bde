"""Strict reading of a judge's reply as edits; each one that does not apply is refused, with the reason."""

from __future__ import annotations

import reprlib
from typing import Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.validation_errors import explain
from evalkit.errors import RubricError
from evalkit.evaluation.suggestions.edits import Edit, Part, Refusal, text_of
from evalkit.rubrics import Rubric
from evalkit.rubrics.parsing.mask_quotations import unfenced
from evalkit.rubrics.parsing.reply_cleanup import cut_thinking, is_cut, is_refusal

_MOST, _SHOWN = 50, ("part", "code", "text")


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2_000)]


class _Given(BaseModel):
    """One edit as a judge wrote it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    criterion: str
    part: Part
    code: str | int | float | None = None
    text: _Text
    reason: _Text


def read_edits(
    reply: Reply, rubric: Rubric, criterion: str, max_edits: int
) -> tuple[tuple[Edit, ...], tuple[Refusal, ...], str]:
    """The edits of a reply, the refused ones, and why there are none at all (else an empty string).

    Nothing is guessed: a reply that is not a JSON object of the requested form is unreadable, and an edit is taken
    unchanged or not at all.
    """
    given, problem = _listed(reply)
    edits: list[Edit] = []
    refused: list[Refusal] = []
    for one in given[:_MOST]:
        try:
            edits.append(_edit(one, rubric, criterion, edits, max_edits))
        except (ValidationError, RubricError) as error:
            why = explain(error, _Given) if isinstance(error, ValidationError) else str(error)
            refused.append(Refusal(_named(one), why))
    if not problem and not edits:
        problem = "none of the edits can be used" if refused else "the judge suggests no edit"
    return tuple(edits), tuple(refused), problem


def _listed(reply: Reply) -> tuple[list[Any], str]:
    if reply.refusal is not None:
        return [], "the judge refused to suggest edits"
    text, is_open = reply.text or "", False
    if (value := _loaded(text)) is None:  # JSON from end to end is never cut: a quoted </think> ends no thinking
        text, is_open = cut_thinking(text)
        value = _loaded(text)
    if is_cut(reply.finish_reason) or is_open:
        return [], "the reply was cut short; give the judge more max_tokens"
    if isinstance(value, dict) and set(value) == {"edits"} and isinstance(value["edits"], list):
        return value["edits"], ""
    if value is None and is_refusal(text):
        return [], "the judge refused to suggest edits"
    return [], f"the reply is not a JSON object with the list 'edits': {_start(text)}"


def _loaded(text: str) -> Any:
    try:
        return orjson.loads(unfenced(text))
    except orjson.JSONDecodeError:
        return None


def _edit(given: Any, rubric: Rubric, criterion: str, taken: list[Edit], max_edits: int) -> Edit:
    one = _Given.model_validate(given)
    if one.criterion != criterion:
        raise RubricError(f"the edit must be for criterion {criterion!r}, but is for {one.criterion!r}")
    part, code = one.part, None if one.code is None else str(one.code)
    if part != "level" and code is not None:
        raise RubricError(f"the edit of {part!r} names the level {one.code!r}, but only an edit of a level names one")
    was = text_of(rubric, criterion, part, code)
    made = Edit(criterion, part, None if code is None else code.strip(), one.text, one.reason, was)
    made.apply(rubric)  # what cannot be applied is refused now
    if any((edit.part, edit.code, edit.text) == (made.part, made.code, made.text) for edit in taken):
        raise RubricError("duplicate")
    if len(taken) >= max_edits:
        raise RubricError(f"the reply has more than the {max_edits} edits requested")
    return made


def _named(given: Any) -> str:
    """The edit as a judge gave it, however deep and long it is, in short."""
    if not isinstance(given, dict):
        return _start(reprlib.repr(given).replace("'", '"'))
    return _start(", ".join(f"{name} {reprlib.repr(given[name])}" for name in _SHOWN if given.get(name) is not None))


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:80] + "…"
