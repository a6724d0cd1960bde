"""Where the table of a start card came from, as Python that gives it again."""

from __future__ import annotations

import ast
import linecache
from itertools import islice
from types import FrameType
from typing import Any

_LONGEST_LITERAL = 4000


def table_expression(table: Any, frame: FrameType | None) -> str:
    """The expression that was passed to the call in this frame, a variable that holds the table, or a short literal.

    Empty if none of them can be found: the table came from an expression whose source is unknown, and is too long.
    """
    if frame is None:
        return ""
    text, names = _argument(frame), {**frame.f_globals, **frame.f_locals}
    if text.isidentifier() and names.get(text) is table:
        return text
    if text and not text.isidentifier():
        return text
    variables = [name for name, value in names.items() if value is table and name.isidentifier() and name[0] != "_"]
    if variables:
        return variables[0]
    literal = repr(table) if isinstance(table, (list, tuple)) else ""
    return literal if literal and len(literal) <= _LONGEST_LITERAL and _is_literal(literal) else ""


def _is_literal(text: str) -> bool:
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def _argument(frame: FrameType) -> str:
    """The source of the first argument of the call that this frame is in; empty if it is unknown."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    first, last, start, end = positions
    if None in positions:
        return ""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]  # type: ignore[operator]
    if not lines:
        return ""
    raw = [line.encode() for line in lines]
    raw[-1] = raw[-1][:end]
    raw[0] = raw[0][start:]
    source = b"".join(raw).decode()
    try:
        call = ast.parse(f"({source})", mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(call, ast.Call):
        return ""
    keywords = [keyword.value for keyword in call.keywords if keyword.arg == "table"]
    argument = next(iter([*call.args, *keywords]), None)
    return "" if argument is None or isinstance(argument, ast.Starred) else ast.unparse(argument)
