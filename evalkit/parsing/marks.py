"""The forms ``tagged`` and ``regex:PATTERN``: an answer between marks."""

from __future__ import annotations

import re

from evalkit.parsing.readings import Parsed, Reader, Reading
from evalkit.parsing.replies import clean_explanation

__all__ = ["read_pattern", "read_tagged"]

_RESULT = re.compile(r"\[\s{0,3}(?:RESULT|РЕЗУЛЬТАТ)\s{0,3}\]\s{0,3}:?", re.IGNORECASE)
_NEXT = re.compile(r"\[\s{0,3}/?\s{0,3}(?:END|RESULT|FEEDBACK|РЕЗУЛЬТАТ|КОНЕЦ)\s{0,3}\]", re.IGNORECASE)
_FEEDBACK = re.compile(r"\[\s{0,3}FEEDBACK\s{0,3}\]\s{0,3}:?", re.IGNORECASE)
_NAMED = re.compile(
    r"\s{0,3}[*_`]{0,4}(?:final\s)?(?:score|rating|grade|verdict|оценка|балл)[*_`]{0,4}\s?[:=]", re.IGNORECASE
)
_PIECE = 400


def read_tagged(text: str, reader: Reader, cut: bool) -> Parsed:
    """The answer of a reply in the form ``[FEEDBACK] … [RESULT] 2 [END]``; the last ``[RESULT]`` counts."""
    before: re.Match[str] | None = None
    last: re.Match[str] | None = None
    for match in _RESULT.finditer(text):
        before, last = last, match
    if last is None:
        whole = None if cut else reader.whole(text)
        return Parsed(whole.code, "", whole.error) if whole else Parsed(None, "", "truncated" if cut else "unreadable")
    piece = text[last.end() : last.end() + _PIECE]
    mark = _NEXT.search(piece)
    if cut and (mark is None or text[last.end() + mark.end() :].strip()):
        return Parsed(None, _feedback(text, last.start()), "truncated")
    reading = _result(piece[: mark.start()] if mark else piece, reader, closed=mark is not None)
    if before is not None and reading is not None and last.start() - before.end() <= _PIECE:
        between = _NEXT.sub("", text[before.end() : last.start()])
        earlier = reader.whole(between) if between.strip() else None
        if reading.differs(earlier):
            reading = Reading(None, "ambiguous")
    code, error = reading[:2] if reading else (None, "unreadable")
    return Parsed(code, _feedback(text, last.start()), error)


def _result(piece: str, reader: Reader, *, closed: bool) -> Reading | None:
    name = _NAMED.match(piece)
    piece = piece[name.end() :] if name else piece
    if closed:
        return reader.whole(piece) or reader.leading(piece)
    return reader.whole(piece) or reader.whole(piece.strip().split("\n", 1)[0])


def _feedback(text: str, end: int) -> str:
    start = _FEEDBACK.search(text, 0, end)
    return clean_explanation(text[start.end() if start else 0 : end])


_WINDOW = 100_000


def read_pattern(text: str, pattern: re.Pattern[str], reader: Reader, cut: bool) -> Parsed:
    """The answer that the last match of a pattern holds, in the last 100,000 characters."""
    text = text[-_WINDOW:]
    group: str | int = "score" if "score" in pattern.groupindex else 1
    before: re.Match[str] | None = None
    last: re.Match[str] | None = None
    for match in pattern.finditer(text):
        if match[group] is not None:
            before, last = last, match
    if last is None:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    explanation = _explained(text, last)
    # an answer that touches the cut may lack its last digit; one before it may be a quoted one
    if cut and (text[last.end() :].strip() or last.end(group) == len(text)):
        return Parsed(None, explanation, "truncated")
    reading = reader.value(last[group])
    if (
        before is not None
        and not text[before.end() : last.start()].strip()
        and reading.differs(reader.value(before[group]))
    ):
        return Parsed(None, explanation, "ambiguous")
    return Parsed(reading.code, explanation, reading.error)


def _explained(text: str, match: re.Match[str]) -> str:
    for name in ("explanation", "feedback"):
        if name in match.re.groupindex:
            return (match[name] or "").strip()
    return clean_explanation(text[: match.start()]) or clean_explanation("", text[match.end() :])
