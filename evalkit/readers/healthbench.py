"""Criteria of HealthBench: `rubrics` of https://github.com/openai/simple-evals (healthbench_eval.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalkit.errors import InputError, listed
from evalkit.readers.records import CRITERIA, Reader, renamed

_NAMES = {"criterion": "text"}
_AXIS = "axis:"  # the other tags, of level and cluster, say where a criterion comes from


def _read(cell: Any) -> Any:
    return [_entry(renamed(entry, _NAMES)) for entry in cell] if isinstance(cell, list) else cell


def _entry(entry: Any) -> Any:
    tags = entry.get("tags") if isinstance(entry, Mapping) else None
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        return entry
    axes = {tag.removeprefix(_AXIS).strip() for tag in tags if tag.startswith(_AXIS)}
    if len(axes) > 1 or (axes and "axis" in entry):
        raise InputError(f"a criterion has several axes in its tags ({listed(sorted(axes))}); keep one")
    rest = {name: value for name, value in entry.items() if name != "tags"}
    return {**rest, "axis": axes.pop()} if axes else rest


READER = Reader("healthbench", CRITERIA, _read)
