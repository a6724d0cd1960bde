"""JSON as the standard has it: parsers silently keep one of two equal keys, and accept numbers that JSON lacks."""

from __future__ import annotations

import inspect
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


def plain_json(value: Any, path: str = "") -> Any:
    """A value as JSON has it, numbers of numpy as Python's; TypeError, with what is none and where, if it is none.

    Examples
    --------
    >>> plain_json({"scores": (1, 2.5)})
    {'scores': [1, 2.5]}
    """
    where = f" at {path}" if path else ""
    if value is None or isinstance(value, (str, bool)):
        return value
    # numpy is not imported for a command's --help
    is_flag = type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")
    value = bool(value) if is_flag else plain_number(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"the number {value}{where}")
        return value
    if isinstance(value, (list, tuple)):
        return [plain_json(element, f"{path}[{index}]") for index, element in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"a dict with the key {key!r}{where}")
        return {key: plain_json(member, f"{path}[{key!r}]") for key, member in value.items()}
    hint = "; define the function with async def" if inspect.iscoroutine(value) else ""
    raise TypeError(f"{type(value).__module__}.{type(value).__qualname__}{where}{hint}".removeprefix("builtins."))
