"""Lists that were written as text, as pandas does in a CSV file: ``"['a', 'b']"``."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import orjson

_OPENING = re.compile(r"""\[\s*(?:['"\[{(]|[rbuf]['"]|(?:nan|None|True|False|array)\b)|(?:\(|array\(\[)\s*['"{]""")
_BETWEEN = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def list_in(text: str) -> list[Any] | None:
    """The list that a text is, in JSON or as Python prints it; None if it is none, or not clearly.

    Examples
    --------
    >>> list_in('["a", 1]'), list_in("['a', None]"), list_in("['a' 'b']"), list_in("a")
    (['a', 1], ['a', None], None, None)
    """
    text = text.strip()
    if not text.startswith(("[", "(")) or not text.endswith(("]", ")")):
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = _python_list(text)
    return value if isinstance(value, list) else None


def _python_list(text: str) -> list[Any] | None:
    try:
        kinds = [one.type for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in _BETWEEN]
        if any(
            a == b == tokenize.STRING for a, b in pairwise(kinds)
        ):  # of numpy, without commas: Python would join them
            return None
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return None
    return list(value) if isinstance(value, (list, tuple)) else None


def hold_lists(values: Iterable[Any], *, also_json: bool) -> str | None:
    """One of the values if all of them that are not empty are texts of lists; else None.

    With `also_json`, lists in JSON count too.
    """
    shown: str | None = None
    for value in values:
        if value is None or value != value or value == "" or value == []:
            continue
        if not isinstance(value, str) or not (text := value.strip()).endswith(("]", ")")):
            return None
        is_json = text.startswith("[") and _is_json(text)
        if not (is_json and also_json) and (is_json or not _OPENING.match(text)):
            return None
        shown = shown or (None if text == "[]" else text)
    return shown


def _is_json(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), list)
    except orjson.JSONDecodeError:
        return False
