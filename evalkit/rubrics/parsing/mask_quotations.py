"""The parts of a reply that a judge quotes, in which nothing is a verdict.

`docs/adr/0004-parsing.md` lists the marks that count, and the rule for a mark without its pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.quotation_marks import PARAGRAPH, Keeps, Span, pairs, quoted

FILL = "\ufffc"
"""Replaces each character of a quotation except line breaks: not a letter, digit, space or mark that readers know."""

_LANGUAGES = {"", "json", "jsonc", "json5", "text", "txt", "plaintext", "markdown", "md"}
_WORDS = {"q", "cite", "code", "samp", "kbd", "tt", "pre", "blockquote"}
_MOST_NAMED = 8


def masked(
    text: str, keeps: Keeps | None = None, *, cut: bool = False, own: Callable[[str], bool] | None = None
) -> str:
    """The text, equally long, with `FILL` for every character that is quoted; lines stay lines.

    Parameters
    ----------
    text
        A reply without its thinking.
    keeps
        Decides, from the text before it on its line and its content, whether a short quotation is a judge's own
        answer: ``Rating: "2"`` is not a quotation.
    cut
        The reply was cut off: a quotation that is left open then ends with the text, else with its paragraph.
    own
        Decides whether the text of a code block is a verdict and nothing else. Such a block is the judge's own if it
        opens or ends the reply and the line before it does not introduce another speaker.

    Examples
    --------
    >>> masked('He wrote "Score: 5".').replace(FILL, "·")
    'He wrote ··········.'
    """
    if like.ANY_MARK.search(text) is None:
        return text
    text = _filled(text, _lines(text, cut))
    text = _filled(text, _fenced(text, own))
    return _filled(text, quoted(text, keeps, cut=cut))


def unfenced(text: str) -> str:
    r"""The content of a text that is one code block, or one line in straight quotation marks; other texts unchanged.

    Examples
    --------
    >>> unfenced("```json\n2\n```"), unfenced("see ```2```")
    ('2', 'see ```2```')
    """
    stripped = text.strip()
    marks = like.IN_MARKS.fullmatch(stripped)
    if marks is not None:
        return marks["inner"]
    code = like.CODE.fullmatch(stripped)
    if code is not None and code["marks"] not in code["inner"]:
        return code["inner"]
    if stripped[:3] not in ("```", "~~~"):
        return text
    fences = list(like.FENCE.finditer(stripped))
    if not fences or fences[0].start("marks") or _language(fences[0]) not in _LANGUAGES:
        return text
    if len(fences) == 1:
        return stripped[fences[0].end() :].strip(" \t\r\n`~")
    last = fences[1]
    closed = len(fences) == 2 and last.end() == len(stripped) and not last["info"].strip()
    return stripped[fences[0].end() : last.start()].strip("\r\n") if closed else text


def _language(fence: re.Match[str]) -> str:
    """The first word after the marks, as in ``json title="x"`` or ``{.json}``."""
    return fence["info"].strip("{}. \t").partition(" ")[0].casefold()


def _filled(text: str, spans: list[Span]) -> str:
    """The text with its spans filled; they may overlap."""
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end > at:
            parts += text[at : max(start, at)], like.NO_BREAK.sub(FILL, text[max(start, at) : end])
            at = end
    return "".join(parts) + text[at:]


def _fenced(text: str, own: Callable[[str], bool] | None) -> list[Span]:
    """From the first code block to the last one, without a block that is the judge's own verdict."""
    if "```" not in text and "~~~" not in text:
        return []
    fences = _fences(text)
    if not fences:
        return []
    # an odd number of fences: one is missing, or a block quotes another one; nothing after the last is sure
    is_even = len(fences) % 2 == 0
    start, end = fences[0].start("opened"), fences[-1].end() if is_even else len(text)
    if own is None or not (is_even or len(fences) == 1):
        return [(start, end)]
    pairs = [fences[:2]] if len(fences) <= 2 else [fences[:2], fences[-2:]]
    lines: list[Span] = []
    for pair in pairs:
        if _is_own(text, pair, own) and not _is_quoted(text, start, end, pair[0].start("marks")):
            lines += ((fence.start("opened"), fence.end()) for fence in pair)
            if pair[0] is fences[0]:
                start = fences[2].start("opened") if len(fences) > 2 else end
            else:
                end = max(start, fences[-3].end())
    return [*lines, (start, end)] if start < end else lines


def _fences(text: str) -> list[re.Match[str]]:
    """The lines that open and close code blocks: an opening one may have text before it, a closing one has none."""
    fences: list[re.Match[str]] = []
    for fence in like.FENCE.finditer(text):
        last = fences[-1] if len(fences) % 2 else None
        if last is not None and not fence["marks"].startswith(last["marks"]):
            continue
        info = fence["info"].strip()
        if fence["opened"] if last is not None else fence["closed"] and not info:
            continue
        if (last is not None or " " in info) and like.QUOTE_BULLET.fullmatch(fence["before"]) is None:
            continue
        fences.append(fence)
    return fences


def _is_quoted(text: str, start: int, end: int, at: int) -> bool:
    """Whether a block is within quotation marks, the content of blocks left out."""
    rest = _filled(text, [(start, end)])
    return any(opened < at < closed for opened, closed in pairs(rest, cut=False))


def _is_own(text: str, fences: list[re.Match[str]], own: Callable[[str], bool]) -> bool:
    """Whether the block between two fences, or after the only one, is a verdict that the judge gives itself."""
    inner = text[fences[0].end() : fences[1].start() if len(fences) > 1 else None].strip(" \t\r\n`~")
    if fences[0]["opened"] or fences[-1]["closed"] or _language(fences[0]) not in _LANGUAGES or not own(inner):
        return False
    before = text[: fences[0].start(0 if like.QUOTE_BULLET.fullmatch(fences[0]["before"]) else "marks")].strip()
    after = text[fences[1].end() :].strip() if len(fences) > 1 else ""
    if like.REPORTED_BACK.match(after) or (not before and like.POINTS_BACK.match(after)):
        return False
    if not before:
        return True
    says = re.split(r"\n|[.!?][ \t]+", before)[-1][-300:]
    is_quoted, says = like.QUOTED_LINE.match(says), like.ABOUT_THEM.sub("my", says)
    if is_quoted or like.THEIR_WORDS.search(says):
        return False
    return not (after or says.endswith((":", "："))) or like.MY_WORDS.search(says) is not None


def _lines(text: str, cut: bool) -> list[Span]:
    """Quoted lines, indented code after a colon, and elements that quote."""
    spans: list[Span] = []
    if ">" in text or "＞" in text or "&gt;" in text:
        spans += (line.span() for line in like.QUOTED_LINE.finditer(text))
    if like.HAS_ELEMENT.search(text):
        spans += _elements(text, cut)
    if ":\n" in text or "]\n" in text:
        spans += (block.span() for block in like.KEYED.finditer(text))
    if "\n    " in text or "\n\t" in text:
        for block in like.INDENTED.finditer(text):
            says = block["says"][-300:]
            if like.LIST_MARK.match(block["says"]) is None and (
                like.THEIR_WORDS.search(says) or not like.MY_WORDS.search(says)
            ):
                spans.append(block.span("code"))
    return spans


def _elements(text: str, cut: bool) -> Iterator[Span]:
    """Elements that quote; a ``<code>`` that is named within a sentence and never closed ends with its paragraph."""
    at = named = 0
    while (element := like.ELEMENT.search(text, at)) is not None:
        start, at = element.span()
        is_open = at == len(text) and (element["name"] or element["board"] or "").casefold() in _WORDS
        is_open = is_open and element[0][-1] not in ">]"
        if is_open and not cut and named < _MOST_NAMED and text[text.rfind("\n", 0, start) + 1 : start].strip():
            named += 1
            paragraph = PARAGRAPH.search(text, start)
            at = paragraph.start() if paragraph else at
        yield start, at
