"""A rubric in one line: criteria that share a scale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import evalkit as ek


def rubric_of(
    name: str,
    scale: Mapping[Any, str],
    *criteria: str,
    inputs: str = "answer",
    pass_at: float | None = None,
    level: str | None = None,
    meaning: str | None = None,
    **fields: Any,
) -> ek.Rubric:
    """The rubric of this name with these criteria (one, `c`), each with this scale, pass rule and description."""
    given = {"scale": scale, "pass_at": pass_at, "level": level, "description": meaning}
    rows = [
        {"name": one} | {key: value for key, value in given.items() if value is not None} for one in criteria or "c"
    ]
    return ek.Rubric(id=name, inputs=inputs.split(), criteria=rows, **fields)
