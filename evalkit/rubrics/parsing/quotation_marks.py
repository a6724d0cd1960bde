"""Quotation marks within a text, paired: ``"…"``, ``«…»``, ``„…“`` and the like, one inside another.

`docs/adr/0004-parsing.md` lists the marks that count, and the rule for a mark without its pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from evalkit.rubrics.parsing.verdict_words import PAIRS

Span = tuple[int, int]
Keeps = Callable[[str, str], bool]

OPENING, CLOSING = ("".join(dict.fromkeys(marks)) for marks in zip(*PAIRS, strict=True))
MARKS = "".join(dict.fromkeys(OPENING + CLOSING))

_CLOSES = {mark: [pair[0] for pair in PAIRS if pair[1] == mark] for mark in MARKS}
_SELDOM_OPENS = {mark for mark in OPENING if "".join(PAIRS).index(mark) % 2}
_SINGLE = "'‘‚"
# one set of characters first: the search for it is fast
_MARK = re.compile(rf"[\\`{MARKS}](?:(?<=\\).|(?<=`)`*|)", re.DOTALL)
_BRACKETS = "([{*_"
_OPENING, _CLOSING = "([{<:=,;—–-/|*_>", ".,;:!?)]}…"
# marks after which a single straight one may open
_LEADS = set(OPENING) - _SELDOM_OPENS - {"'"}
_LONGEST_CODE, _LONGEST_SINGLE = 20_000, 5_000
_KEY = re.compile(r"[^\W\d_][\w .-]{0,40}\Z")
_KEPT = 80
PARAGRAPH = re.compile(r"\n[ \t\r]*\n")


def quoted(text: str, keeps: Keeps | None, *, cut: bool) -> list[Span]:
    """Quotations between marks, without those that are keys or a judge's own answers."""
    spans: list[Span] = []
    known: dict[tuple[str, str], bool] = {}
    for start, end in _merged(pairs(text, cut=cut)):
        if end - start <= _KEPT:
            content = text[start:end].strip(MARKS + "`")
            if text[start] == '"' and text[end : end + 4].lstrip(" *_")[:1] in (":", "=") and _KEY.match(content):
                continue
            if keeps is not None and content:
                pair = text[max(0, start - _KEPT) : start].rsplit("\n", 1)[-1], content
                if pair not in known:
                    known[pair] = keeps(*pair)
                if known[pair]:
                    continue
        spans.append((start, end))
    return spans


def _merged(spans: list[Span]) -> list[Span]:
    """The outermost spans, in order; those that overlap become one."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def pairs(text: str, *, cut: bool) -> list[Span]:
    """The text between paired marks, inner pairs too; after a mark without its pair, the rest of the paragraph."""
    spans: list[Span] = []
    open_: list[tuple[str, int]] = []
    waits = dict.fromkeys(MARKS, 0)
    skip = 0
    ticks: dict[int, list[int]] | None = None
    for token in _MARK.finditer(text):
        mark, at = token[0], token.start()
        if at < skip or mark[0] == "\\":
            continue  # within code, or escaped
        if mark[0] == "`":
            if ticks is None:
                ticks = _runs(text)
            end = _code_end(ticks, at, len(mark))
            if end is not None:
                spans.append((at, end))
                skip = end
            continue
        _take(text, mark, at, open_, waits, spans)
    end = 0
    for mark, at in open_:
        if mark not in _SINGLE and mark not in _SELDOM_OPENS and at >= end:
            found = None if cut else PARAGRAPH.search(text, at)
            end = found.start() if found else len(text)
            spans.append((at, end))
    return spans


def _runs(text: str) -> dict[int, list[int]]:
    """Where runs of so many backticks begin, the last one first."""
    runs: dict[int, list[int]] = {}
    for run in _MARK.finditer(text):
        if run[0][0] == "`":
            runs.setdefault(len(run[0]), []).append(run.start())
    for starts in runs.values():
        starts.reverse()
    return runs


def _code_end(runs: dict[int, list[int]], at: int, length: int) -> int | None:
    starts = runs[length]
    while starts and starts[-1] <= at:
        starts.pop()
    return starts[-1] + length if starts and starts[-1] - at <= _LONGEST_CODE else None


def _take(
    text: str, mark: str, at: int, open_: list[tuple[str, int]], waits: dict[str, int], spans: list[Span]
) -> None:
    """Process one mark: it closes the last mark that waits for it, opens a quotation, or is not a quotation mark."""
    before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
    if mark in "\"'":
        opens, closes = _direction(before, after, mark)
    else:
        closes = not (mark in "’‘" and after.isalnum())
        opens = mark in OPENING and (
            mark not in _SELDOM_OPENS
            or ((before.isspace() or before in _BRACKETS) and (not after.isspace() or after == "\n"))
        )
    if closes and any(waits[kind] for kind in _CLOSES[mark]):
        while open_:
            waiting, start = open_.pop()
            waits[waiting] -= 1
            if waiting in _CLOSES[mark]:
                if waiting not in _SINGLE or at - start <= _LONGEST_SINGLE:
                    spans.append((start, at + 1))
                return
    if opens:
        waits[mark] += 1
        open_.append((mark, at))


def _direction(before: str, after: str, mark: str) -> tuple[bool, bool]:
    """Whether a straight mark may open and whether it may close, by its neighbours."""
    if mark == "'":
        opens = (before.isspace() or before in _OPENING or before in _LEADS) and (not after.isspace() or after == "\n")
        return opens, (not before.isspace() or before == "\n") and not after.isalnum()
    left, right = before.isspace(), after.isspace()
    if left != right:
        return (left and after not in _CLOSING) or (right and before in ":="), (right and before not in ":=") or (
            left and after in _CLOSING
        )
    if left:
        return True, True
    if before in _OPENING and after not in _CLOSING:
        return True, False
    return False, True
