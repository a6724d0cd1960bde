"""JSON as the standard has it: parsers silently keep one of two equal keys, and accept numbers that JSON lacks."""

from __future__ import annotations

import json
import math
import numbers
from decimal import Decimal
from typing import Any


class DuplicateKeyError(ValueError):
    """An object contains a key twice."""

    def __init__(self, key: str) -> None:
        super().__init__(f"duplicate key {key!r}")
        self.key = key


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object, as ``object_pairs_hook`` of `json.loads`; DuplicateKeyError for a duplicate key."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        raise DuplicateKeyError(next(name for at, name in enumerate(names) if name in names[:at]))
    return members


def read_json(text: str) -> Any:
    """The value of a JSON text; ValueError for duplicate keys, NaN, Infinity, and numbers that overflow to it.

    Examples
    --------
    >>> read_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """

    def to_number(text: str) -> float:
        if not math.isfinite(value := float(text)):
            raise ValueError(f"{text[:20]} is not a number that JSON allows")
        return value

    return json.loads(text, object_pairs_hook=without_duplicates, parse_float=to_number, parse_constant=to_number)


def plain_number(value: Any) -> Any:
    """A number of numpy or `decimal` as Python's own, so that it can be stored; other values unchanged."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    return float(value) if isinstance(value, (numbers.Real, Decimal)) and not isinstance(value, bool) else value
