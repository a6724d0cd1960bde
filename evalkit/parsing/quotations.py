"""What a judge quotes: the parts of a reply in which nothing is a verdict.

`docs/adr/0004-parsing.md` lists the marks that count, and what happens where one of a pair is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["FILL", "Keeps", "masked", "unfenced"]

FILL = "\ufffc"
"""Stands for each character of a quotation but line breaks: no letter, digit, space or mark that a reader knows."""

Span = tuple[int, int]
Keeps = Callable[[str, str], bool]

_ANY_MARK = re.compile("[\"'«»“”„‟‹›‘‚「」『』《》`~<>]")
_FENCE = re.compile(
    r"^[ \t]{0,12}(?:[-*+•>][ \t]{1,4})?(?P<opened>[\"'“„‟«»‹›‘‚「『(\[]{0,3})(?P<marks>`{3,}|~{3,})"
    r"(?P<info>[ \t]{0,4}[\w.+#-]{0,30}[ \t]*)(?P<closed>[\"'”“»«›’‘」』)\].,]{0,3})\r?$",
    re.MULTILINE,
)
_CODE = re.compile(r"(?P<marks>`{1,3})(?!`)(?:json\b)?+[ \t]*(?P<inner>[^\n].*?)[ \t]*(?P=marks)", re.DOTALL)
_LANGUAGES = {"", "json", "jsonc", "json5", "text", "txt", "plaintext", "markdown", "md"}
_QUOTED_LINE = re.compile(
    r"^[ \t]{0,40}(?:(?:[-*+•]|\d{1,3}[.)])[ \t]{1,4}){0,3}(?:[>＞]|&gt;)[^\n]*", re.MULTILINE | re.IGNORECASE
)
_INDENTED = re.compile(
    r"^(?P<says>[^\n]*)\n(?:[ \t]*\n){1,3}(?P<code>(?:(?: {4}|\t)[^\n]*(?:\n|\Z)(?:[ \t]*\n){0,2})+)", re.MULTILINE
)
_LIST_ITEM = re.compile(r"[ \t]{0,40}(?:[-*+•]|\d{1,3}[.)])[ \t]")
_ELEMENT = re.compile(
    r"<(?P<name>blockquote|quote|q|cite|pre|code|samp|[a-z_]\w{0,60}-[0-9a-f]{6,64})(?:\s[^<>]{0,200})?>.*?(?:</(?P=name)>|\Z)"
    r"|<!--.*?(?:-->|\Z)|(?<!`)``(?!`)[^`]{1,5000}?''(?!')|\[quote(?:=[^\[\]\n]{0,80})?\].*?(?:\[/quote\]|\Z)",
    re.IGNORECASE | re.DOTALL,
)

# who is said to speak in the line before a block
_THEIRS = re.compile(
    r"\b(?:wr(?:ote|ites?|itten)|sa(?:id|ys?|ying)|stat(?:es?|ed)|claim(?:s|ed)?|reads?|contain(?:s|ed)?|end(?:s|ed)|"
    r"quot\w+|outputs?|repl(?:y|ies|ied)|answer(?:s|ed)|respon(?:se|ds?|ded)|return(?:s|ed)|g[ai]ves?|asks?|asked|"
    r"candidate\w*|assistant\w*|student\w*|author\w*|submission|user\w*|пиш\w+|напис\w+|сказ\w+|говор\w+|цит\w+|"
    r"утвержда\w+|кандидат\w*|содерж\w+|прос[ия]\w+|автор\w*|модел\w+)\b",
    re.IGNORECASE,
)
_MINE = re.compile(
    r"\b(?:my|i (?:give|rate|score|grade|judge|conclude|assign|award|decide|choose|say)|"
    r"evaluat\w+|assess\w+|verdict|scor\w+|rat(?:e|ed|ing)|grad(?:e|ed|ing)|judge?ments?|json|conclusion|"
    r"here(?: you are| you go| it is)?(?=\s*[:：])|requested|мо[йяеё]|итог\w*|оценк\w+|оценива\w+|вердикт\w*|"
    r"результат\w*|вывод\w*|запрошенн\w+)\b",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\s{0,4}[-–—^↑(*_]{0,3}\s?(?:(?:this|that|it|these|those|which|so)\s(?:is|was|are|were)\s(?:what|how|the|a|from|quot)"
    r"|(?:это|так|вот что)\s)",
    re.IGNORECASE,
)


def masked(
    text: str, keeps: Keeps | None = None, *, cut: bool = False, own: Callable[[str], bool] | None = None
) -> str:
    """The text, equally long, with `FILL` for every character that is quoted; lines stay lines.

    Parameters
    ----------
    text
        A reply without its thinking.
    keeps
        Tells, from what stands before it on its line and what it holds, whether a short quotation is a judge's own
        answer: ``Rating: "2"`` quotes nobody.
    cut
        The reply was cut off: a quotation that is left open then ends with the text, else with its paragraph.
    own
        Tells whether the text of a code block is a verdict and nothing else. Such a block is the judge's own where it
        opens or ends the reply and the line before it does not say that somebody else speaks.

    Examples
    --------
    >>> masked('He wrote "Score: 5".').replace(FILL, "·")
    'He wrote ··········.'
    """
    has_lines = "\n    " in text or "\n\t" in text or "[quote" in text or "&gt;" in text
    if not has_lines and _ANY_MARK.search(text) is None:
        return text
    for spans in (_lines, lambda shown: _fenced(shown, own), lambda shown: _inline(shown, keeps, cut)):
        text = _filled(text, spans(text))
    return text


def unfenced(text: str) -> str:
    r"""What stands in a text that is one code block from end to end; any other text as it is.

    Examples
    --------
    >>> unfenced("```json\n2\n```"), unfenced("see ```2```")
    ('2', 'see ```2```')
    """
    stripped = text.strip()
    code = _CODE.fullmatch(stripped)
    if code is not None and code["marks"] not in code["inner"]:
        return code["inner"]
    if stripped[:3] not in ("```", "~~~"):
        return text
    fences = list(_FENCE.finditer(stripped))
    if not fences or fences[0].start() or fences[0]["info"].strip().casefold() not in _LANGUAGES:
        return text
    if len(fences) == 1:
        return stripped[fences[0].end() :].strip(" \t\r\n`~")
    last = fences[1]
    closed = len(fences) == 2 and last.end() == len(stripped) and not last["info"].strip()
    return stripped[fences[0].end() : last.start()].strip("\r\n") if closed else text


_NO_BREAK = re.compile(r"[^\n]")


def _filled(text: str, spans: list[Span]) -> str:
    """The text with its spans filled; they may overlap."""
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end > at:
            parts += text[at : max(start, at)], _NO_BREAK.sub(FILL, text[max(start, at) : end])
            at = end
    return "".join(parts) + text[at:]


def _fenced(text: str, own: Callable[[str], bool] | None) -> list[Span]:
    """From the first code block to the last one; a block that holds the judge's own verdict is left out."""
    if "```" not in text and "~~~" not in text:
        return []
    fences = _fences(text)
    if not fences:
        return []
    # an odd number of fences: one is missing, or a block quotes another one; nothing after the last is sure
    is_even = len(fences) % 2 == 0
    start, end = fences[0].start(), fences[-1].end() if is_even else len(text)
    if own is None or not (is_even or len(fences) == 1):
        return [(start, end)]
    pairs = [fences[:2]] if len(fences) <= 2 else [fences[:2], fences[-2:]]
    lines: list[Span] = []
    for pair in pairs:
        if _is_own(text, pair, own) and not _is_quoted(text, start, end, pair[0].start()):
            lines += (fence.span() for fence in pair)
            if pair[0] is fences[0]:
                start = fences[2].start() if len(fences) > 2 else end
            else:
                end = max(start, fences[-3].end())
    return [*lines, (start, end)] if start < end else lines


def _fences(text: str) -> list[re.Match[str]]:
    """The lines that open and close code blocks; within one, only those with its marks count."""
    fences: list[re.Match[str]] = []
    for fence in _FENCE.finditer(text):
        last = fences[-1] if len(fences) % 2 else None
        if last is not None and not fence["marks"].startswith(last["marks"]):
            continue
        if fence["opened" if last is not None else "closed"]:
            continue
        fences.append(fence)
    return fences


def _is_quoted(text: str, start: int, end: int, at: int) -> bool:
    """Whether a block stands between quotation marks, what the blocks hold aside."""
    rest = _filled(text, [(start, end)])
    return any(opened < at < closed for opened, closed in _pairs(rest, cut=False))


def _is_own(text: str, fences: list[re.Match[str]], own: Callable[[str], bool]) -> bool:
    """Whether the block between two fences, or after the only one, is a verdict that the judge gives itself."""
    inner = text[fences[0].end() : fences[1].start() if len(fences) > 1 else None].strip(" \t\r\n`~")
    if (
        fences[0]["opened"]
        or fences[-1]["closed"]
        or fences[0]["info"].strip().casefold() not in _LANGUAGES
        or not own(inner)
    ):
        return False
    before = text[: fences[0].start()].strip()
    after = text[fences[1].end() :].strip() if len(fences) > 1 else ""
    if not before:
        return _POINTS_BACK.match(after) is None
    says = before.rsplit("\n", 1)[-1][-300:]
    if _THEIRS.search(says) or _QUOTED_LINE.match(says):
        return False
    return not (after or says.endswith((":", "："))) or _MINE.search(says) is not None


def _lines(text: str) -> list[Span]:
    """Quoted lines, indented code after a colon, and elements that quote."""
    spans: list[Span] = []
    if ">" in text or "＞" in text or "&gt;" in text:
        spans += (line.span() for line in _QUOTED_LINE.finditer(text))
    if "<" in text or "[" in text or "``" in text:
        spans += (element.span() for element in _ELEMENT.finditer(text))
    if "\n    " in text or "\n\t" in text:
        for block in _INDENTED.finditer(text):
            says = block["says"][-300:]
            if _LIST_ITEM.match(block["says"]) is None and (_THEIRS.search(says) or not _MINE.search(says)):
                spans.append(block.span("code"))
    return spans


# -- quotation marks within the text

# one set of characters first: the search for it is fast
_MARK = re.compile(r"[\\`\"'«»“”„‟‹›‘’‚「」『』《》](?:(?<=\\).|(?<=`)`*|)", re.DOTALL)
# what a mark closes: «a», »a«, “a”, „a“, „a”, ”a”, ‘a’, ‚a‘ …
_CLOSES = dict.fromkeys("‹„‟‚「『《", "") | {'"': '"', "'": "'", "»": "«", "«": "»", "”": "“„‟”", "“": "„"}
_CLOSES |= {"›": "‹", "’": "‘‚", "‘": "‚", "」": "「", "』": "『", "》": "《"}
_BRACKETS = "([{"
_OPENING, _CLOSING = "([{<:=,;—–-/|*_>", ".,;:!?)]}…"
_LONGEST_CODE, _LONGEST_SINGLE = 20_000, 5_000
_KEY = re.compile(r"[^\W\d_][\w .-]{0,40}\Z")
_KEPT = 80
_PARAGRAPH = re.compile(r"\n[ \t\r]*\n")


def _inline(text: str, keeps: Keeps | None, cut: bool) -> list[Span]:
    """Quotations between marks, without those that are keys or a judge's own answers."""
    spans: list[Span] = []
    known: dict[tuple[str, str], bool] = {}
    for start, end in _merged(_pairs(text, cut)):
        if end - start <= _KEPT:
            content = text[start:end].strip("\"'«»“”„‟‹›‘’‚「」『』`")
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


def _pairs(text: str, cut: bool) -> list[Span]:
    """Marks paired, inner pairs too; of a mark without its pair, the rest of its paragraph."""
    spans: list[Span] = []
    open_: list[tuple[str, int]] = []
    waits = dict.fromkeys(_CLOSES, 0)
    skip = 0
    ticks: dict[int, list[int]] | None = None
    for token in _MARK.finditer(text):
        mark, at = token[0], token.start()
        if (
            at < skip
            or mark[0] == "\\"
            or (mark in "'’" and text[at - 1 : at].isalnum() and text[at + 1 : at + 2].isalnum())
        ):
            continue  # escaped, within code, or an apostrophe
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
        if mark not in "'‘‚”»" and at >= end:
            found = None if cut else _PARAGRAPH.search(text, at)
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
    """One mark: it closes the last one that waits for it, opens a quotation, or is none."""
    before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
    if mark in "\"'":
        opens, closes = _direction(before, after, mark)
    else:
        closes = not (mark in "’‘" and after.isalnum())
        opens = mark != "’" and (
            mark not in "»”" or ((before.isspace() or before in _BRACKETS) and not after.isspace())
        )
    if closes and any(waits[kind] for kind in _CLOSES[mark]):
        while open_:
            waiting, start = open_.pop()
            waits[waiting] -= 1
            if waiting in _CLOSES[mark]:
                if waiting not in "'‘‚" or at - start <= _LONGEST_SINGLE:
                    spans.append((start, at + 1))
                return
    if opens:
        waits[mark] += 1
        open_.append((mark, at))


def _direction(before: str, after: str, mark: str) -> tuple[bool, bool]:
    """Whether a straight mark may open and whether it may close, by its neighbours."""
    if mark == "'":
        return (before.isspace() or before in _OPENING + '"“„«') and not after.isspace(), (
            (not before.isspace() or before == "\n") and not after.isalnum()
        )
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
