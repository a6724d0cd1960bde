"""Numbers as text, and rows of texts as text or HTML tables."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pandas as pd

from evalkit.core.printable_text import one_line
from evalkit.errors import counted

MORE_COSTS = (("own_key", "own_source", "own_usd"), ("repair_key", "repair_source", "repair_usd"))
"""Columns of judgments on a judge's own answer, and on the repair of a reply: its reply key, source and cost."""


def figure(value: Any, low: Any = None, high: Any = None, *, digits: int = 2) -> str:
    """A number with its 95 % interval; a small number without an interval is not rounded to 0.

    Examples
    --------
    >>> figure(0.655, 0.5, 0.8), figure(float("nan")), figure(0.5, None, None), figure(0.00012)
    ('0.66 [0.50, 0.80]', 'NA', '0.50', '0.0001')
    """
    if _is_na(value):
        return "NA"
    if _is_na(low) or _is_na(high):
        small = _TINY < abs(float(value)) < 0.5 * 10**-digits
        return f"{float(value):.1g}" if small else _rounded(value, digits)
    return f"{_rounded(value, digits)} [{_rounded(low, digits)}, {_rounded(high, digits)}]"


def p_value(value: float) -> str:
    """A p-value with three decimals, never as 0."""
    return "NA" if math.isnan(value) else "<0.001" if value < 0.001 else f"{value:.3f}"


def _rounded(value: Any, digits: int) -> str:
    text = f"{float(value):.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def money(usd: float | None, unknown: str = "unknown price") -> str:
    """A sum with four decimals, since a reply often costs less than a cent; `unknown` if it is None or NaN.

    Examples
    --------
    >>> money(0.0036), money(12.5), money(None), money(float("nan"), "NA")
    ('US$ 0.0036', 'US$ 12.5000', 'unknown price', 'NA')
    """
    return unknown if _is_na(usd) else f"US$ {usd:.4f}"


def count_of(n: Any, whole: Any) -> str:
    """``58 of 60``: the coverage of a figure."""
    return f"{int(n)} of {int(whole)}"


@dataclass(frozen=True, slots=True)
class Bill:
    """What replies cost. If the price of one reply is unknown, so is the sum.

    Attributes
    ----------
    known_usd
        US$ of the replies whose price is known.
    n_replies, n_unpriced
        Replies, and how many of them are of unknown price.

    Examples
    --------
    >>> str(Bill(0.5, 2, 0)), str(Bill(0.5, 3, 1)), str(Bill(0.0, 3, 1)), str(Bill(0.0, 1, 1))
    ('US$ 0.5000', 'at least US$ 0.5000; 1 reply of unknown price', '1 of 3 replies of unknown price', 'unknown price')
    """

    known_usd: float
    n_replies: int
    n_unpriced: int

    @classmethod
    def of(cls, judgments: pd.DataFrame, source: str | None = None) -> Bill:
        """The bill of a judgments table, or of its replies from one source (``live``, ``cache`` …).

        A reply that several rows share counts once, and so do a judge's own answer and a repair (`own_key`,
        `repair_key`); a missing reply does not count. Without the column `cost_usd` all prices are unknown.
        """
        rows = judgments
        for names in [names for names in MORE_COSTS if names[0] in judgments]:
            more = judgments[list(names)].set_axis(["key", "source", "cost_usd"], axis=1)
            rows = pd.concat(
                [rows[["key", "source", "error", "cost_usd"]], more.dropna(subset="key").assign(error=None)]
            )
        if source is not None:
            rows = rows.loc[rows["source"].astype(object).eq(source).to_numpy()]
        if {"source", "error"} <= set(rows):
            rows = rows.loc[(rows["source"].notna() | rows["error"].isna()).to_numpy()]
        if "key" in rows:
            rows = rows.loc[(rows["key"].isna() | ~rows["key"].duplicated()).to_numpy()]
        if "cost_usd" not in rows:
            return cls(0.0, len(rows), len(rows))
        return cls(float(rows["cost_usd"].sum()), len(rows), int(rows["cost_usd"].isna().sum()))

    @property
    def usd(self) -> float:
        """US$; NaN if a price is unknown."""
        return math.nan if self.n_unpriced else self.known_usd

    def __str__(self) -> str:
        return "; ".join(filter(None, self.words))

    @property
    def words(self) -> tuple[str, str]:
        """The price, and, if it is that of some replies, how many others there are."""
        if not self.n_unpriced:
            return money(self.known_usd), ""
        if self.n_unpriced == self.n_replies:
            return "unknown price", ""
        if self.known_usd:
            unknown = counted(self.n_unpriced, "reply", "replies")
            return f"at least {money(self.known_usd)}", f"{unknown} of unknown price"
        return f"{self.n_unpriced} of {counted(self.n_replies, 'reply', 'replies')} of unknown price", ""


def _is_na(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


WIDTH = 80
"""Columns of a terminal, where nobody says how wide it is."""

_TINY = 1e-9
_LONG = 40
_SHORTEST, _FEW = 12, 6
_FEWEST_TILES, _MOST_TILES = 4, 6


def text_table(
    rows: Iterable[Mapping[str, str]], *, width: int | None = WIDTH, left: Iterable[str] = (), whole: Iterable[str] = ()
) -> str:
    """Rows of texts as an aligned table. The first column and those in `left` are left-aligned, all others right.

    If they are wider than `width`, long texts (not numbers, not columns in `whole`) are cut until the table fits. If it
    still does not fit, a table of few rows is transposed; where that does not fit either, the columns go on below, in a
    further block with the first column. Each cell is one line of printable characters, so that a judge's text cannot
    control the terminal.
    """
    listed = list(rows)
    if not listed:
        return "(no rows)"
    names = list(dict.fromkeys(name for row in listed for name in row))
    cells = [[one_line(str(row.get(name, ""))) for name in names] for row in ({n: n for n in names}, *listed)]
    set_left = {names[0], *left}
    if width is None or _total(_widths(cells)) <= width:
        return _aligned(cells, _widths(cells), set_left)
    texts = set_left - set(whole)
    if _total(_narrowed(_widths(cells), names, width, texts)) > width and len(listed) <= _FEW:
        turned = [list(column) for column in zip(*cells, strict=True)]
        sizes = _widths(turned[1:] or turned)
        room = (width - sizes[0]) // (len(sizes) - 1) - 2
        sizes[0] = max(sizes[0], len(names[0]))
        sizes[1:] = [
            max(size, min(len(name), room) if names[0] in texts else len(name))
            for size, name in zip(sizes[1:], turned[0][1:], strict=True)
        ]
        if _total(sizes) <= width:
            return _aligned(turned, sizes, {names[0]})
    n_keys = next((at for at, name in enumerate(names) if name not in set_left), max(1, len(names) - 1))
    while n_keys > 1 and _total(_narrowed(_widths(cells)[:n_keys], names, width // 2, texts)) > width // 2:
        n_keys -= 1
    start = n_keys
    blocks: list[str] = []
    while start < len(names) or not blocks:
        for end in range(len(names), min(start, len(names) - 1), -1):
            part = [*range(n_keys), *range(start, end)]
            block, own = [[line[at] for at in part] for line in cells], [names[at] for at in part]
            widths = _narrowed(_widths(block), own, width, texts)
            if _total(widths) <= width:
                break
        if (over := _total(widths) - width) > 0:  # the title of this one column is cut
            figures = [0 if own[-1] in texts else len(line[-1]) for line in block[1:]]
            widths[-1] = max(widths[-1] - over, _SHORTEST, *figures)
        blocks.append(_aligned(block, widths, set_left))
        start = end
    return "\n\n".join(blocks)


def wrapped(text: str, width: int | None = WIDTH) -> str:
    """The text with lines of at most `width` characters; tables fit already."""
    if width is None:
        return text
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False) if len(line) > width else line
        for line in text.splitlines()
    )


def span(counts: Iterable[int]) -> str:
    """The lowest and the highest of some counts.

    Examples
    --------
    >>> span([3, 1, 3]), span([3, 3])
    ('1 to 3', '3')
    """
    low, *_, high = sorted([*counts] * 2)
    return str(low) if low == high else f"{low} to {high}"


def noted(notes: Iterable[tuple[str, str]], n_rows: int, between: str = "; ") -> list[str]:
    """Each note once, after the names of its rows; a note about all rows without names."""
    about: dict[str, list[str]] = {}
    for name, note in notes:
        about.setdefault(note, []).append(name)
    return [
        note if len(names) == n_rows else f"{between.join(dict.fromkeys(names))}: {note}"
        for note, names in about.items()
    ]


def _aligned(cells: list[list[str]], widths: list[int], set_left: set[str]) -> str:
    """Lines of cells, the first with the columns' names; one without any letter is left out."""
    columns = list[list[str]]()
    for size, (name, *texts) in zip(widths, zip(*cells, strict=True), strict=True):
        adjust = str.ljust if name in set_left else str.rjust
        cuts = cut_apart((text for text in texts if not columns or " " not in text), size)
        columns.append([adjust(cuts.get(text) or cut(text, size), size) for text in (name, *texts)])
    lines = ["  ".join(line).rstrip() for line in zip(*columns, strict=True)]
    return "\n".join(lines if lines[0] else lines[1:])


def _widths(cells: list[list[str]]) -> list[int]:
    return [max(len(line[at]) for line in cells) for at in range(len(cells[0]))]


def _total(widths: list[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _narrowed(widths: list[int], names: list[str], width: int, texts: set[str]) -> list[int]:
    """The widths, with the widest text columns made narrower, but not below their title or twelve characters."""
    widths = list(widths)
    for _ in range(_total(widths) - width):
        spare = {
            at: size
            for at, (size, name) in enumerate(zip(widths, names, strict=False))
            if name in texts and size > max(len(name), _SHORTEST)
        }
        if not spare:
            break
        widths[max(spare, key=lambda at: spare[at])] -= 1
    return widths


def cut(cell: str, size: int) -> str:
    """The start of a text that is too long, or start and end of a name: names often differ at the end."""
    if len(cell) <= size:
        return cell
    end = 0 if " " in cell else size // 3
    return cell[: size - 1 - end] + "…" + cell[len(cell) - end :]


def cut_apart(names: Iterable[str], size: int) -> dict[str, str]:
    """Name -> as `cut` cuts it; names that would look alike begin where they differ, or else are whole.

    Examples
    --------
    >>> list(cut_apart(["hub:llama-3.1-70b-instruct", "hub:llama-3.1-8b-instruct", "hub:gpt-4o"], 14).values())
    ['…3.1-70b-…ruct', '…3.1-8b-i…ruct', 'hub:gpt-4o']
    """
    cuts = {name: cut(name, size) for name in names}
    groups: dict[str, list[str]] = {}
    for name, text in cuts.items():
        groups.setdefault(text, []).append(name)
    for alike in groups.values():
        pairs = zip(min(alike), max(alike), strict=False)
        n_same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        start = min(n_same - size // 3, max(map(len, alike)) - size + 1)
        if len(alike) > 1 and start > 0:
            tails = cut_apart((name[start:] for name in alike), size - 1)
            cuts |= {name: f"…{tails[name[start:]].removeprefix('…')}" for name in alike}
    return cuts if len({*cuts.values()}) == len(cuts) else {name: name for name in cuts}


STYLE = (
    "<style>.ek{font:13px/1.45 system-ui,sans-serif;color:var(--jp-content-font-color1,inherit);max-width:1100px}"
    ".ek h4{margin:.9em 0 .3em;font-size:14px}.ek .tiles{display:grid;gap:8px;margin:.4em 0;"
    "grid-template-columns:repeat(auto-fill,minmax(max(150px,calc((100% + 8px)/var(--columns,6) - 8px)),1fr))}"
    ".ek .tile{border:1px solid var(--jp-border-color2,#8888);border-radius:6px;padding:6px 10px;min-width:120px}"
    ".ek .tile b{display:block;font-size:18px;font-variant-numeric:tabular-nums}.ek .tile span{opacity:.8}"
    ".ek .wide{overflow-x:auto}.ek table{border-collapse:collapse;font:inherit;font-variant-numeric:tabular-nums}"
    ".ek th,.ek td{padding:3px 10px;text-align:right;border-bottom:1px solid var(--jp-border-color2,#8884);"
    "vertical-align:top;background:transparent}"
    ".ek td{white-space:nowrap}"
    ".ek th:first-child,.ek td:first-child,.ek td.t,.ek th.t,.ek td.l,.ek th.l{text-align:left}"
    ".ek td.l{white-space:normal;min-width:24ch;max-width:46ch;overflow-wrap:anywhere}"
    ".ek caption{text-align:left;padding:3px 0;opacity:.8}.ek p,.ek .note{margin:.3em 0}.ek .note{opacity:.8}</style>"
)


def html_table(rows: Iterable[Mapping[str, str]], *, texts: Iterable[str] = (), caption: str = "") -> str:
    """Rows of texts as an HTML table, every cell escaped; columns in `texts` are left-aligned, long texts wrap."""
    listed = list(rows)
    if not listed:
        return "<p class='note'>(no rows)</p>"
    names = list(dict.fromkeys(name for row in listed for name in row))
    marks = dict.fromkeys(texts, "t")
    marks |= {name: "l" for row in listed for name, value in row.items() if len(str(value)) > _LONG}

    def cell(tag: str, name: str, value: str) -> str:
        mark = f" class='{marks[name]}'" if name in marks else ""
        scope = " scope='col'" if tag == "th" else ""
        return f"<{tag}{mark}{scope}>{html.escape(value)}</{tag}>"

    head = "".join(cell("th", name, name) for name in names)
    body = "".join(
        "<tr>" + "".join(cell("td", name, str(row.get(name, ""))) for name in names) + "</tr>" for row in listed
    )
    over = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<div class='wide'><table>{over}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def html_tiles(tiles: Iterable[tuple[str, str, str]]) -> str:
    """Tiles of (value, title, note), every text escaped, in rows of equal length if the page is wide enough."""
    listed = list(tiles)
    if not listed:
        return ""
    rows = -(-len(listed) // _MOST_TILES)
    columns = max(_FEWEST_TILES, -(-len(listed) // rows))
    cells = "".join(
        f"<div class='tile'><b>{html.escape(value)}</b><span>{html.escape(title)}<br>{html.escape(note)}</span></div>"
        for value, title, note in listed
    )
    return f"<div class='tiles' style='--columns:{columns}'>{cells}</div>"


def html_text(text: str, note: str = "") -> str:
    """A text as preformatted HTML, for a notebook's output, with a note below."""
    return html_page([f"<pre>{html.escape(text)}</pre>", f"<p class='note'>{html.escape(note)}</p>" if note else ""])


def html_page(parts: Iterable[str]) -> str:
    """HTML parts with evalkit's style sheet, for a notebook's output: no scripts, nothing loaded from a network."""
    return f"{STYLE}<div class='ek'>{''.join(parts)}</div>"
