"""Figures as text: a value never without its interval, a mean never without its coverage."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

__all__ = ["count_of", "figure", "html_page", "html_table", "text_table"]


def figure(value: Any, low: Any = None, high: Any = None, *, digits: int = 2) -> str:
    """A figure with its 95 % interval.

    Examples
    --------
    >>> figure(0.655, 0.5, 0.8), figure(float("nan")), figure(0.5, None, None)
    ('0.66 [0.50, 0.80]', 'NA', '0.50')
    """
    if _is_na(value):
        return "NA"
    text = f"{float(value):.{digits}f}"
    if _is_na(low) or _is_na(high):
        return text
    return f"{text} [{float(low):.{digits}f}, {float(high):.{digits}f}]"


def count_of(n: Any, whole: Any) -> str:
    """``58 of 60``: the coverage of a figure."""
    return f"{int(n)} of {int(whole)}"


def _is_na(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


def text_table(rows: Iterable[Mapping[str, str]]) -> str:
    """Rows of texts as an aligned table; the first column is set left, the others right."""
    listed = list(rows)
    if not listed:
        return "(no rows)"
    names = list(dict.fromkeys(name for row in listed for name in row))
    cells = [names, *[[str(row.get(name, "")) for name in names] for row in listed]]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]

    def line_of(line: list[str]) -> str:
        first, *others = line
        right = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        return "  ".join([first.ljust(widths[0]), *right]).rstrip()

    return "\n".join(line_of(line) for line in cells)


_STYLE = (
    "<style>.ek{font:13px/1.45 system-ui,sans-serif;color:var(--jp-content-font-color1,inherit);max-width:1100px}"
    ".ek h4{margin:.9em 0 .3em;font-size:14px}.ek .tiles{display:flex;flex-wrap:wrap;gap:8px;margin:.4em 0}"
    ".ek .tile{border:1px solid var(--jp-border-color2,#8888);border-radius:6px;padding:6px 10px;min-width:120px}"
    ".ek .tile b{display:block;font-size:18px;font-variant-numeric:tabular-nums}.ek .tile span{opacity:.8}"
    ".ek table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".ek th,.ek td{padding:3px 10px;text-align:right;border-bottom:1px solid var(--jp-border-color2,#8884);"
    "vertical-align:top;background:transparent}"
    ".ek th:first-child,.ek td:first-child,.ek td.t,.ek th.t{text-align:left}.ek td.t{max-width:46ch}"
    ".ek .note{opacity:.8;margin:.3em 0}</style>"
)


def html_table(rows: Iterable[Mapping[str, str]], *, texts: Iterable[str] = ()) -> str:
    """Rows of texts as an HTML table, every cell escaped; `texts` names the columns set left."""
    listed = list(rows)
    if not listed:
        return "<p class='note'>(no rows)</p>"
    names = list(dict.fromkeys(name for row in listed for name in row))
    left = set(texts)

    def cell(tag: str, name: str, value: str) -> str:
        mark = " class='t'" if name in left else ""
        scope = " scope='col'" if tag == "th" else ""
        return f"<{tag}{mark}{scope}>{html.escape(value)}</{tag}>"

    head = "".join(cell("th", name, name) for name in names)
    body = "".join(
        "<tr>" + "".join(cell("td", name, str(row.get(name, ""))) for name in names) + "</tr>" for row in listed
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_page(parts: Iterable[str]) -> str:
    """Parts with evalkit's style, for a notebook's output: no script, nothing from a network."""
    return f"{_STYLE}<div class='ek'>{''.join(parts)}</div>"
