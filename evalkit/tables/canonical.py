"""One canonical form for every value of an item, whatever it was read from."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np

from evalkit.errors import InputError
from evalkit.keys import canonical_json

__all__ = ["canonical", "canonical_text", "input_text", "is_missing"]


def canonical_text(text: str) -> str:
    """NFC with LF line ends: the same text for the same characters, however they were typed."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def is_missing(value: object) -> bool:
    """True for None, NaN, NaT and pandas' NA."""
    if value is None:
        return True
    if isinstance(value, float):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def canonical(value: Any) -> Any:
    r"""A value as plain Python: arrays to lists, numpy to Python, integral floats to int, times to ISO text.

    Missing values come out as None; missing fields of mappings are dropped; text is NFC with LF.

    Raises
    ------
    InputError
        For values that are no JSON: bytes, sets, functions, infinities.

    Examples
    --------
    >>> canonical({"n": 3.0, "when": None, "lines": "a\r\nb"})
    {'n': 3, 'lines': 'a\\nb'}
    """
    if isinstance(value, str):
        return canonical_text(str(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.generic):
        return canonical(value.item())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Mapping):
        pairs = ((canonical_text(str(name)), canonical(field)) for name, field in value.items())
        return {name: field for name, field in pairs if field is not None}
    if isinstance(value, (list, tuple)):
        return [canonical(element) for element in value]
    if isinstance(value, np.ndarray):
        return [canonical(element) for element in value.tolist()]
    if is_missing(value):
        return None
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    raise InputError(
        f"a value of type {type(value).__name__} cannot be an item's field; give text, numbers, lists or dicts"
    )


def _float(value: float) -> float | int | None:
    if math.isnan(value):
        return None
    if math.isinf(value):
        raise InputError("an infinite number cannot be an item's field")
    return int(value) if value.is_integer() else value


def input_text(value: Any) -> Any:
    """A canonical value as it is hashed and shown: scalars as text, so that a CSV and a JSON file agree.

    Lists and mappings stay, with their scalars in canonical form.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return canonical_json(value).decode()
    return value
