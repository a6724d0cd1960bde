"""The reply around the answer: thinking that is no part of it, refusals, explanations."""

from __future__ import annotations

import re

__all__ = ["clean_explanation", "cut_thinking", "is_refusal"]

_TAG = re.compile(
    r"<(?P<close>/?)(?:think|thinking|thought|reasoning)(?:\s[^<>]{0,80})?>|\[(?P<close2>/?)THINK\]", re.IGNORECASE
)


def cut_thinking(text: str) -> tuple[str, bool]:
    """The text without its thinking, and whether a thinking block was left open.

    From an opening tag to the next closing one is thinking; so is all before a closing tag without an
    opening one (some servers strip it), and all after an opening tag that is never closed.

    Examples
    --------
    >>> cut_thinking("<think>1? no, 2</think>2"), cut_thinking("no, 2</think>2"), cut_thinking("<think>1?")
    (('2', False), ('2', False), ('', True))
    """
    if "<" not in text and "[" not in text:
        return text, False
    kept: list[str] = []
    start, inside = 0, False
    for tag in _TAG.finditer(text):
        if tag["close"] or tag["close2"]:
            if not inside:
                kept.clear()
            start, inside = tag.end(), False
        elif not inside:
            kept.append(text[start : tag.start()])
            inside = True
    if inside:
        return "", True
    if not start:
        return text, False
    kept.append(text[start:])
    return "".join(kept), False


_REFUSAL = re.compile(
    r"\W{0,3}(?:(?:i['’]?m|i am)\s+(?:very\s+|so\s+|really\s+)?(?:sorry|unable|not\s+able)"
    r"|sorry\b|i\s+apologi[sz]e|unfortunately,?\s+i\s+(?:can|am|must|will)"
    r"|i\s+(?:cannot|can['’]?t|can\s+not|won['’]?t|will\s+not|must\s+decline|do\s+not\s+feel)"
    r"|as\s+an\s+ai\b|извините|простите|приношу\s+извинения|к\s+сожалению,?\s+я"
    r"|я\s+(?:не\s+могу|не\s+в\s+состоянии|вынужден|отказываюсь))",
    re.IGNORECASE,
)
_SHORT = 600


def is_refusal(text: str) -> bool:
    """True for a short text that declines to answer (ask only where no answer was found).

    Examples
    --------
    >>> is_refusal("I'm sorry, I can't help with that."), is_refusal("The answer is good.")
    (True, False)
    """
    return len(text) <= _SHORT and _REFUSAL.match(text) is not None


EXPLAINS = (
    "explanation",
    "reason",
    "reasons",
    "rationale",
    "rational",
    "feedback",
    "reasoning",
    "analysis",
    "justification",
    "comment",
    "comments",
    "thoughts",
    "thought",
    "explain",
    "critique",
    "обоснование",
    "объяснение",
    "пояснение",
    "комментарий",
    "анализ",
)
"""Names under which judges give their reasons, in JSON and before a colon."""

_NAME = re.compile(rf"[\s*_#>`\-]{{0,12}}(?:{'|'.join(EXPLAINS)})[*_`]{{0,4}}\s{{0,3}}[:：][*_`]{{0,4}}", re.IGNORECASE)
_LEFT = " \t\r\n.,;:!)*_`-–—"


def clean_explanation(before: str, after: str = "") -> str:
    """What stands around an answer as an explanation, without ``Rationale:`` and the like."""
    parts = []
    for part in (before.strip(), after.lstrip(_LEFT).rstrip()):
        name = _NAME.match(part)
        part = part[name.end() :].strip() if name else part
        if part:
            parts.append(part)
    return "\n".join(parts)
