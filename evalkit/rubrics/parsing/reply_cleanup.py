"""The reply around the answer: thinking, refusals, explanations."""

from __future__ import annotations

import re
from typing import NamedTuple

from evalkit.rubrics.parsing import verdict_words as word_lists
from evalkit.rubrics.parsing.mask_quotations import masked

_OPENS, _CLOSES = ("|".join(marks) for marks in zip(*word_lists.THINKING, strict=True))
_TAG = re.compile(rf"(?P<open>{_OPENS})|(?P<close>{_CLOSES})", re.IGNORECASE)
_NOT_CUT = frozenset(("", *word_lists.ENDED, *word_lists.WITHHELD))
_IN_TAGS = ("<", "[", "◁", "analysis", "assistantfinal", "done thinking", "my thought process", "Thinking...")
_LEFT_OVER, _INVISIBLE, _CONTROLS = map(re.compile, (word_lists.LEFT_OVER, word_lists.INVISIBLE, word_lists.CONTROLS))
_SPACES = dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x3000), " ")
_MOST_BLOCKS = 16


class Thinking(NamedTuple):
    """A reply taken apart.

    Attributes
    ----------
    body
        The text without its thinking.
    before
        Texts before closing tags without an opening one: thinking, unless they contain a verdict.
    inside
        Texts of later blocks, whose tags a judge may have quoted.
    is_open
        A block was opened and never closed; the body is the text before it.
    """

    body: str
    before: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    is_open: bool = False


def take_apart(text: str, *, cut: bool = False) -> Thinking:
    """A reply without its thinking; tags do not count within a quotation, nor after one that a cut left open.

    Thinking is the text from an opening tag, at the start of the reply or of a line, to the next closing tag; also all
    text before a closing tag without an opening one (some servers strip it), and after an opening tag never closed.

    Examples
    --------
    >>> take_apart("<think>1? no, 2</think>2")
    Thinking(body='2', before=(), inside=(), is_open=False)
    >>> take_apart("no, 2</think>2").before
    ('no, 2',)
    """
    if not any(mark in text for mark in _IN_TAGS) or _TAG.search(text) is None:
        return Thinking(text)
    rest = text.lstrip()
    tag = _TAG.match(rest)
    if tag is not None and not _closes(tag):
        closing = _closing_tag(rest, tag.end())
        if closing is None:  # "Here is my thought process:" may begin any judge's explanation
            return Thinking("", is_open=True) if cut or tag[0][-1:] != ":" else Thinking(text)
        rest = rest[closing.end() :]
    kept: list[str] = []
    before: dict[str, None] = {}
    inside: dict[str, None] = {}
    start, opened = 0, -1
    for tag in _TAG.finditer(masked(rest, cut=cut)):
        if _closes(tag):
            if opened < 0:
                before["".join([*kept, rest[start : tag.start()]])] = None
                kept.clear()
            elif kept:
                inside[rest[opened : tag.start()]] = None
            start, opened = tag.end(), -1
        elif opened < 0 and _starts_line(rest, start, tag.start()):
            if rest[start : tag.start()].strip():
                kept.append(rest[start : tag.start()])
            opened = tag.end()
    if opened < 0:
        kept.append(rest[start:])
    if len(before) + len(inside) > _MOST_BLOCKS:
        return Thinking("", is_open=True)
    return Thinking("".join(kept), tuple(before), tuple(inside), opened >= 0)


def _starts_line(text: str, start: int, at: int) -> bool:
    """Whether there is only white space before a place on its line, or since `start`."""
    near = text[max(start, at - 80) : at]
    return not near.rsplit("\n", 1)[-1].strip() and ("\n" in near or at - 80 <= start)


def _closes(tag: re.Match[str]) -> bool:
    return tag["close"] is not None


def _closing_tag(text: str, start: int) -> re.Match[str] | None:
    """The first closing tag outside of quotations; if all are quoted, the first one."""
    if not any(_closes(tag) for tag in _TAG.finditer(text, start)):
        return None
    for source in (" " * start + masked(text[start:]), text):
        for tag in _TAG.finditer(source, start):
            if _closes(tag):
                return tag
    return None


def cut_thinking(text: str) -> tuple[str, bool]:
    """The text without its thinking, and whether a thinking block was left open.

    Examples
    --------
    >>> cut_thinking("<think>1? no, 2</think>2"), cut_thinking("no, 2</think>2"), cut_thinking("<think>1?")
    (('2', False), ('2', False), ('', True))
    """
    apart = take_apart(text)
    return apart.body, apart.is_open


def plain(text: str, *, marked: bool = False) -> str:
    """A reply with plain spaces, without invisible characters and, unless `marked`, a server's marks around it."""
    text = _CONTROLS.sub("", text.replace("\r\n", "\n"))
    if not text.isascii():
        text = _INVISIBLE.sub("", text).translate(_SPACES)
    return _LEFT_OVER.sub("", text) if not marked and ("<" in text or "[" in text) else text


def is_withheld(finish_reason: str | None) -> bool:
    """Whether the server or the model refused."""
    return _reason(finish_reason) in word_lists.WITHHELD


def is_cut(finish_reason: str | None) -> bool:
    """Whether the end of a reply is missing: a limit cut it off, or it broke off.

    Examples
    --------
    >>> is_cut("max-tokens"), is_cut("network_error"), is_cut("END_TURN"), is_cut(None)
    (True, True, False, False)
    """
    return _reason(finish_reason) not in _NOT_CUT


def broke_off(finish_reason: str | None) -> bool:
    """Whether a reply broke off for a reason that another attempt may not have: no limit cut it."""
    return is_cut(finish_reason) and _reason(finish_reason) not in word_lists.CUT


def _reason(finish_reason: str | None) -> str:
    # as in "content_filter: RECITATION"
    return (finish_reason or "").partition(":")[0].strip().casefold().replace("-", "_").replace(" ", "_")


_REFUSAL = re.compile(word_lists.REFUSES, re.IGNORECASE)
_SHORT = 600


def is_refusal(text: str) -> bool:
    """True for a short text that declines to answer (check only replies without an answer).

    Examples
    --------
    >>> is_refusal("I'm sorry, I can't help with that."), is_refusal("The answer is good.")
    (True, False)
    """
    return len(text) <= _SHORT and _REFUSAL.match(text) is not None


_NAME = re.compile(
    rf"[\s*_#>`\-]{{0,12}}(?:{'|'.join(word_lists.EXPLAINS)})[*_`]{{0,4}}\s{{0,3}}[:：][*_`]{{0,4}}", re.IGNORECASE
)
_LEFT = " \t\r\n.,;:!)*_`-–—"


def clean_explanation(before: str, after: str = "") -> str:
    """The text around an answer as an explanation, without ``Rationale:`` and the like."""
    parts = []
    for part in (before.strip(), after.lstrip(_LEFT).rstrip()):
        name = _NAME.match(part)
        part = part[name.end() :].strip() if name else part
        if part:
            parts.append(part)
    return "\n".join(parts)
