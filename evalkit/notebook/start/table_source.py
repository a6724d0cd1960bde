"""Where the table of a start card came from, as Python that gives it again."""

from __future__ import annotations

import ast
import linecache
from itertools import islice
from types import FrameType
from typing import Any


def table_expression(table: Any, frame: FrameType | None) -> str:
    """The expression that was passed to the call in this frame, or a variable that holds the table.

    Empty if none of them can be found: the table came from an expression whose source is unknown.
    """
    if frame is None:
        return ""
    text, names = _argument(frame), {**frame.f_globals, **frame.f_locals}
    if text and (not text.isidentifier() or names.get(text) is table):
        return text
    return next(
        (name for name, value in names.items() if value is table and name.isidentifier() and name[0] != "_"), ""
    )


def _argument(frame: FrameType) -> str:
    """The source of the first argument of the call that this frame is in; empty if it is unknown."""
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    first, last, start, end = positions
    if None in positions:
        return ""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]  # type: ignore[operator]
    raw = [line.encode() for line in lines] or [b""]
    raw[-1] = raw[-1][:end]
    raw[0] = raw[0][start:]
    try:
        call = ast.parse(f"({b''.join(raw).decode()})", mode="eval").body
    except SyntaxError:
        return ""
    if not isinstance(call, ast.Call):
        return ""
    keywords = [keyword.value for keyword in call.keywords if keyword.arg == "table"]
    argument = next(iter([*call.args, *keywords]), None)
    return "" if argument is None or isinstance(argument, ast.Starred) else ast.unparse(argument)
