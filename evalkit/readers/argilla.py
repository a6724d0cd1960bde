"""Labels of Argilla 2: `dataset.records.to_list(flatten=True)`, which says what people submitted (https://docs.argilla.io).

Suggestions, drafts and discarded responses are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers.records import LABELS, Reader

_END = ".responses"
_OF_RECORDS = ("id", "status", "_server_id")


def _questions(row: Any) -> list[str]:
    return [name.removesuffix(_END) for name in row if name.endswith(_END)]


def _is_export(rows: Any) -> bool:
    records = [row for row in rows if isinstance(row, Mapping)]
    beside = [(row, f"{question}{_END}") for row in records for question in _questions(row)]
    return bool(beside) and all(
        isinstance(row.get(f"{name}{end}"), list) for row, name in beside for end in ("", ".users", ".status")
    )


def _read(rows: Any) -> list[Any]:
    if not _is_export(rows):
        raise InputError("these are no records of Argilla; export them by `dataset.records.to_list(flatten=True)`")
    return [answer for row in rows for question in _questions(row) for answer in _answers(row, question)]


def _answers(row: Any, question: str) -> list[dict[str, Any]]:
    """What people submitted to a question; a list or a mapping is of a question of several labels, ranks or spans."""
    columns = [row[f"{question}{_END}{end}"] for end in ("", ".users", ".status")]
    if len({*map(len, columns)}) > 1:
        raise InputError(f"record {row.get('id')!r} has not as many responses to {question!r} as users and status")
    fields = {name: value for name, value in row.items() if "." not in name and name not in _OF_RECORDS}
    about = {"id": row.get("id"), "fields": fields, "criterion": question}
    return [
        about | {"annotator": user} | ({"kind": "several values"} if isinstance(label, list) else {"label": label})
        for label, user, status in zip(*columns, strict=True)
        if status == "submitted"
    ]


READER = Reader("argilla", LABELS, _read, _is_export)
