"""Criteria of APEX-v1: `Rubric JSON` of https://github.com/Mercor-Intelligence/apex-evals, a mapping of "criterion N".

Its own score is the share of criteria that are met, so each has one point, whatever its `weight` says in words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers.records import CRITERIA, Reader, renamed

_NAMES = {"description": "text", "dependent_criteria": "requires", "criterion_type": "axis"}
_UNUSED = ("weight", "sources", "justification", "human_rating", "reason", "autorating")
_KEY = re.compile(r"criterion (\d+)")


def _read(cell: Any) -> list[Any]:
    if not isinstance(cell, Mapping):
        raise InputError(f"criteria of APEX are a mapping of 'criterion 1', 'criterion 2' …, not {type(cell).__name__}")
    return [*_entries(cell)]


def _entries(cell: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    for key, entry in cell.items():
        match = _KEY.fullmatch(str(key))
        if match is None or not isinstance(entry, Mapping):
            raise InputError(f"criteria of APEX are mappings named 'criterion 1', 'criterion 2' …, got {key!r}")
        if isinstance(kinds := entry.get("criterion_type"), list):
            entry = {**entry, "criterion_type": ", ".join(map(str, kinds))}
        yield {"id": match[1], **renamed(entry, _NAMES, _UNUSED)}


READER = Reader("apex", CRITERIA, _read)
