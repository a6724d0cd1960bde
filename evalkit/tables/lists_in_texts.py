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

_OPENING = re.compile(
    r"""\[\s*(?:['"\[{(]|[rbuf]['"]|(?:nan|None|True|False|array)\b)|(?:\(|array\(\[)\s*['"{]|\[(?:[A-Z]|\w+\.)\w+\((?:\w+=|['"])"""
)
_SET = re.compile(r"""\{\s*(['"])(?:\\.|(?!\1).)*\1\s*[,}]|"\[\s*(?:\\["n]|['{])""")
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
        if any(a == b == tokenize.STRING for a, b in pairwise(kinds)):
            return None  # of numpy, without commas: Python would join them
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return None
    return list(value) if isinstance(value, (list, tuple)) else None


def hold_lists(values: Iterable[Any], *, may_be_lists: bool) -> str | None:
    """One of the values if all of them that are not empty are texts of lists; else None.

    With `may_be_lists`, as for passages, one of them is enough, and texts or objects in a JSON list count too.
    """
    shown: str | None = None
    for value in values:
        if value is None or value != value or value == "" or value == []:
            continue
        text = value.strip() if isinstance(value, str) else ""
        if _is_list(text, json_counts=may_be_lists):
            shown = shown or text
        elif not may_be_lists:
            return None
    return shown


def _is_list(text: str, *, json_counts: bool) -> bool:
    if not text.endswith(("]", ")")):  # a set, an array of PostgreSQL, JSON within JSON
        return json_counts and text.endswith(("}", ']"')) and _SET.match(text) is not None
    if text.startswith("["):
        try:
            value = orjson.loads(text)
            return json_counts and bool(value) and all(isinstance(one, (str, dict)) for one in value)
        except orjson.JSONDecodeError:
            pass
    return _OPENING.match(text) is not None
