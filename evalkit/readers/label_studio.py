"""Labels of Label Studio: its JSON export, tasks with `data` and `annotations` (https://labelstud.io/guide/task_format).

Answers of a model are left out: predictions, and annotations made from them without a person's time (`lead_time`).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import EvalkitWarning, InputError, counted, listed
from evalkit.readers.records import LABELS, Reader

_ANSWERS = {"choices": "choices", "rating": "rating", "number": "number", "pairwise": "selected"}
"""The kind of a question that gives one label -> the field of its value that has it."""
_NAMES_OF_PEOPLE = ("email", "username", "id")
_SIDES = {"left": "A", "right": "B"}


def _is_export(rows: Any) -> bool:
    return bool(rows) and all(
        isinstance(row.get("data"), Mapping) and isinstance(row.get("annotations"), list) for row in rows
    )


def _read(rows: Any) -> list[Any]:
    answers, n_unseen = list[dict[str, Any]](), 0
    for task in rows:
        submitted = [annotation for annotation in task["annotations"] if not _is_skipped(annotation)]
        of_people = [entry for entry in submitted if entry.get("parent_prediction") is None or entry.get("lead_time")]
        n_unseen += len(submitted) - len(of_people)
        if sum(_person(annotation) is None for annotation in of_people) > 1:
            raise InputError(f"task {task.get('id')!r} has several annotations without completed_by; add it")
        for annotation in of_people:
            about = {"id": task.get("id"), "fields": task["data"], "annotator": _person(annotation)}
            about["at"] = annotation.get("updated_at") or annotation.get("created_at")
            answers += [about | answer for answer in _answers(annotation)]
    if n_unseen:
        warnings.warn(
            f"{counted(n_unseen, 'annotation')} made from predictions of a model, which no person looked at, left out",
            EvalkitWarning,
            stacklevel=4,
        )
    return answers


def _is_skipped(annotation: Mapping[str, Any]) -> bool:
    """Whether the person pressed *Skip*: `was_cancelled`, in older exports `skipped`."""
    return bool(annotation.get("was_cancelled") or annotation.get("skipped"))


def _person(annotation: Mapping[str, Any]) -> Any:
    """Who annotated: the person whom `write_label_studio` noted, else an email address, a username or a number."""
    notes = [result.get("meta") or {} for result in annotation["result"]]
    by_name = next((note["annotator"] for note in notes if "annotator" in note), None)
    who = annotation.get("completed_by") if by_name is None else by_name
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
