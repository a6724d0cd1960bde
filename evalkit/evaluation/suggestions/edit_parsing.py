"""A judge's reply read as edits: strictly, each that does not apply refused with the reason."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from evalkit.core.prompts_and_replies import Reply
from evalkit.core.validation_errors import explain
from evalkit.errors import RubricError
from evalkit.evaluation.suggestions.edits import Edit, Part, Refusal, text_of
from evalkit.rubrics import Rubric
from evalkit.rubrics.parsing.quoted_text import unfenced
from evalkit.rubrics.parsing.reply_cleanup import CUT, cut_thinking, ended, is_refusal

__all__ = ["read_edits"]

_LONGEST = 2_000
_MOST = 50


class _Given(BaseModel):
    """One edit as a judge wrote it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    criterion: str
    part: Part
    code: str | int | float | None = None
    text: str
    reason: str

    @field_validator("text", "reason")
    @classmethod
    def _check_text(cls, text: str) -> str:
        text = text.strip()
        if not text or len(text) > _LONGEST:
            raise ValueError(
                f"is {'empty' if not text else f'{len(text)} characters long'}; allowed are 1 to {_LONGEST}"
            )
        return text


def read_edits(
    reply: Reply, rubric: Rubric, criterion: str, max_edits: int
) -> tuple[tuple[Edit, ...], tuple[Refusal, ...], str]:
    """The edits of a reply, those that are refused, and why there are none at all (or an empty text).

    Nothing is guessed: what is no JSON object of the form asked for is unreadable, and an edit is taken as it stands or
    not at all.
    """
    given, problem = _listed(reply)
    edits: list[Edit] = []
    refused: list[Refusal] = []
    for one in given[:_MOST]:
        try:
            edit = _edit(one, rubric, criterion, edits, max_edits)
        except ValidationError as error:
            refused.append(Refusal(_named(one), explain(error, _Given)))
        except RubricError as error:
            refused.append(Refusal(_named(one), str(error)))
        else:
            edits.append(edit)
    if not problem and not edits:
        problem = "none of the edits can be taken" if refused else "the judge suggests no edit"
    return tuple(edits), tuple(refused), problem


def _listed(reply: Reply) -> tuple[list[Any], str]:
    if reply.refusal is not None:
        return [], "the judge refused to suggest edits"
    # what is JSON from end to end is never cut: a quoted </think> ends no thinking
    text, is_open = (reply.text or "", False) if _is_json(reply.text or "") else cut_thinking(reply.text or "")
    if ended(reply.finish_reason, CUT) or is_open:
        return [], "the reply was cut short; give the judge more max_tokens"
    try:
        found = orjson.loads(unfenced(text))
    except orjson.JSONDecodeError:
        refused = is_refusal(text)
        return [], "the judge refused to suggest edits" if refused else f"the reply is no JSON: {_start(text)}"
    if not isinstance(found, dict) or set(found) != {"edits"} or not isinstance(found["edits"], list):
        return [], f"the reply is no object with the list 'edits': {_start(text)}"
    return found["edits"], ""


def _is_json(text: str) -> bool:
    try:
        orjson.loads(unfenced(text))
    except orjson.JSONDecodeError:
        return False
    return True


def _edit(given: Any, rubric: Rubric, criterion: str, taken: list[Edit], max_edits: int) -> Edit:
    one = _Given.model_validate(given)
    if one.criterion not in rubric.names:
        raise RubricError(f"the rubric has no criterion {one.criterion!r}; asked was about {criterion!r}")
    if one.criterion != criterion:
        raise RubricError(f"it is about criterion {one.criterion!r}; asked was about {criterion!r}")
    if one.part != "level" and one.code is not None:
        raise RubricError(f"part {one.part!r} has no levels, but the code {one.code!r} was given")
    code = None if one.code is None else str(one.code)
    was = text_of(rubric, criterion, one.part, code)
    made = Edit(criterion, one.part, None if code is None else code.strip(), one.text, one.reason, was)
    made.apply(rubric)  # what cannot be applied is refused now
    if any((edit.part, edit.code, edit.text) == (made.part, made.code, made.text) for edit in taken):
        raise RubricError("it stands there twice")
    if len(taken) >= max_edits:
        raise RubricError(f"more than the {max_edits} that were asked for")
    return made


def _named(given: Any) -> str:
    if not isinstance(given, dict):
        return _start(_written(given))
    told = [str(given[name]) for name in ("part", "code") if isinstance(given.get(name), (str, int, float))]
    return _start(" ".join([*told, _written(given.get("text", ""))]))


def _written(value: Any) -> str:
    try:
        return repr(value)
    except RecursionError:
        return "nested too deeply"


def _start(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else line[:80] + "…"
