"""Labels of Label Studio: its JSON export, tasks with `data` and `annotations` (https://labelstud.io/guide/task_format).

Answers of a model are left out: predictions, and annotations made from them without a person's time (`lead_time`).
So are annotations that were skipped, or that the last of their `reviews` did not accept.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.readers.records import LABELS, Reader

_ANSWERS = {"choices": "choices", "rating": "rating", "number": "number", "pairwise": "selected"}
"""The kind of a question that gives one label -> the field of its value that has it."""
_NAMES_OF_PEOPLE = ("email", "username", "id")
_SKIPPED = "that were skipped"
_SIDES = {"left": "A", "right": "B"}


def _is_export(rows: Any) -> bool:
    return bool(rows) and all(
        isinstance(row.get("data"), Mapping) and isinstance(row.get("annotations"), list) for row in rows
    )


def _read(rows: Any) -> list[Any]:
    answers, reasons = list[dict[str, Any]](), Counter[str]()
    for task in rows:
        of_people = list[Mapping[str, Any]]()
        for annotation in task["annotations"]:
            reason = _why_none(annotation)
            reasons[reason] += 1
            of_people += [annotation] * (not reason)
        if sum(_person(annotation) is None for annotation in of_people) > 1:
            raise InputError(f"task {task.get('id')!r} has several annotations without completed_by; add it")
        for annotation in of_people:
            about = {"id": task.get("id"), "fields": task["data"], "annotator": _person(annotation)}
            about["at"] = annotation.get("updated_at") or annotation.get("created_at")
            answers += [about | answer for answer in _answers(annotation)]
    for reason in sorted({*reasons} - {"", _SKIPPED}):
        warnings.warn(f"{counted(reasons[reason], 'annotation')} {reason}, left out", EvalkitWarning, stacklevel=4)
    return answers


def _why_none(annotation: Mapping[str, Any]) -> str:
    """Why an annotation is no label of a person; empty if it is one. *Skip* is `was_cancelled`, formerly `skipped`."""
    reviews = sorted(annotation.get("reviews") or (), key=lambda review: str(review.get("created_at") or ""))
    reasons: dict[str, object] = {
        _SKIPPED: annotation.get("was_cancelled") or annotation.get("skipped"),
        "made from predictions of a model, which no person looked at":
            annotation.get("parent_prediction") is not None and not annotation.get("lead_time"),
        "whose last review is a rejection": reviews and reviews[-1].get("accepted") is False,
    }  # fmt: skip
    return next((reason for reason, holds in reasons.items() if holds), "")


def _person(annotation: Mapping[str, Any]) -> Any:
    """Who annotated: an email address, a username or a number."""
    who = annotation.get("completed_by")
    return next((who[name] for name in _NAMES_OF_PEOPLE if who.get(name)), None) if isinstance(who, Mapping) else who


def _answers(annotation: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What an annotation answers to each question: one label, several, or of which kind they are."""
    results = [result for result in annotation["result"] if "from_name" in result]  # a relation has none
    for question in dict.fromkeys(result["from_name"] for result in results):
        of_question = [result for result in results if result["from_name"] == question]
        kind, labels = of_question[0]["type"], list[Any]()
        field = _ANSWERS.get(kind)
        for value in [result["value"] for result in of_question if field is not None]:
            if more := {*value} - {field}:  # a choice for a region, not for the item
                kind, field = f"{kind} with {listed(sorted(more))}", None
                break
            content = value[field] if isinstance(value[field], list) else [value[field]]
            labels += [_SIDES[side] for side in content] if field == "selected" else content
        yield {"criterion": question, **({"label": labels} if field is not None else {"kind": kind})}


READER = Reader("label_studio", LABELS, _read, _is_export)
