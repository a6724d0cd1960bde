"""Criteria of DR Tulu: a ground truth of https://github.com/rlresearch/dr-tulu, with its lists of criteria.

Those of `rubrics` have weights of their own; those that training adds count 1, and −1 for what an answer should not do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.errors import InputError, listed
from evalkit.readers.records import CRITERIA, Reader, renamed

_NAMES = {"description": "text"}
_WEIGHTED = {**_NAMES, "weight": "points"}
_UNUSED = ("title",)
_POINTS = {"rubrics": None, "positive_rubrics": 1, "negative_rubrics": -1}
_QUERY = ("query", "question")


def _read(cell: Any) -> list[Any]:
    lists = {name: cell[name] for name in cell if name not in _QUERY} if isinstance(cell, Mapping) else {}
    if not lists or not all(name in _POINTS and isinstance(value, list) for name, value in lists.items()):
        names = f" of {listed(cell)}" if isinstance(cell, Mapping) else f", {type(cell).__name__}"
        raise InputError(f"criteria of DR Tulu are a mapping with the lists {listed(_POINTS)}; got one{names}")
    return [_entry(entry, _POINTS[name]) for name, entries in lists.items() for entry in entries]


def _entry(entry: Any, points: int | None) -> Any:
    if points is None:
        return renamed(entry, _WEIGHTED, _UNUSED)
    if not isinstance(entry, Mapping):
        return {"text": entry, "points": points}
    if weighted := sorted(entry.keys() & {"weight", "points"}):
        raise InputError(f"a criterion of a list whose criteria count {points} has {listed(weighted)}; drop it")
    return {**renamed(entry, _NAMES, _UNUSED), "points": points}


READER = Reader("dr_tulu", CRITERIA, _read)
