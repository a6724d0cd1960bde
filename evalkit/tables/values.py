"""The canonical form of an item's values, whatever they were read from."""

from __future__ import annotations

import datetime as dt
import math
import unicodedata
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.reply_keys import canonical_json
from evalkit.errors import InputError


def canonical_text(text: str) -> str:
    """NFC with LF line ends, so that equal characters give equal texts."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii() or unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", text)


def is_missing(value: object) -> bool:
    """True for None, NaN, NaT and pandas' NA."""
    if value is None:
        return True
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def canonical(value: Any) -> Any:
    r"""A value as plain Python: arrays to lists, numpy to Python, integral floats to int, times to ISO text.

    Missing values become None; missing fields of mappings are dropped; text is NFC with LF.

    Raises
    ------
    InputError
        For values that are not JSON: bytes, sets, functions, infinities, integers beyond 64 bits, and
        invalid text.

    Examples
    --------
    >>> canonical({"n": 3.0, "when": None, "lines": "a\r\nb"})
    {'n': 3, 'lines': 'a\nb'}
    """
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        return _number(value)
    if isinstance(value, Mapping):
        return _mapping(value)
    if isinstance(value, (list, tuple)):
        return [canonical(element) for element in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return canonical(_unboxed(value))
    if is_missing(value):
        return None
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    raise InputError(
        f"a field of an item cannot have the type {type(value).__name__}; use strings, numbers, lists or dicts"
    )


def _unboxed(value: Any) -> Any:
    """A numpy value as a Python value; times stay exact (`item` and `tolist` turn nanoseconds into plain numbers)."""
    if value.dtype.kind != "M":
        return value.tolist()
    return pd.Timestamp(value[()]) if value.ndim == 0 else list(value)


def _text(value: str) -> str:
    text = canonical_text(str(value))
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError("invalid text (half a surrogate pair): it cannot be sent or stored") from None
    return text


def _number(value: float) -> float | int | None:
    if isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise InputError("an integer in an item must fit in 64 bits; pass a larger one as a string")
        return int(value)
    if math.isnan(value):
        return None
    if math.isinf(value):
        raise InputError("a number in an item must not be infinite")
    return int(value) if value.is_integer() and abs(value) < 2**63 else float(value)


def _mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for given, field in value.items():
        name = _text(str(given))
        if name in fields:
            raise InputError(f"two field names of one mapping are both {name!r} as text (as 1 and '1' are); rename one")
        fields[name] = canonical(field)
    return {name: field for name, field in fields.items() if field is not None}


def input_text(value: Any) -> Any:
    """A canonical value as it is hashed and shown: scalars as text, so that a CSV and a JSON file agree.

    Lists and mappings stay, with their scalars in canonical form.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return canonical_json(value).decode()
    return value
