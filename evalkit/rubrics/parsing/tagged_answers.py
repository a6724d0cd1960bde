"""The forms ``tagged`` and ``regex:PATTERN``: an answer between marks."""

from __future__ import annotations

import re
import sys
from functools import partial

from evalkit.core.lists_of_choices import Reason
from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.answer_lines import announced, is_reported
from evalkit.rubrics.parsing.mask_quotations import FILL, masked
from evalkit.rubrics.parsing.reply_cleanup import clean_explanation
from evalkit.rubrics.parsing.values_on_scale import AMBIGUOUS, LONGEST, UNREADABLE, Parsed, Reader, Reading
from evalkit.rubrics.scales import Code

_PIECE = 400


def read_tagged(text: str, reader: Reader, cut: bool) -> Parsed:
    """The answer of a reply in the form ``[FEEDBACK] … [RESULT] 2 [END]``; all ``[RESULT]`` must agree."""
    shown = masked(
        text,
        partial(_keeps, reader),
        cut=cut,
        own=lambda block: len(like.RESULT.findall(block)) == 1 and block.lstrip()[:1] == "[",
    )
    results = list(like.RESULT.finditer(shown))
    if not results:
        whole = None if cut else reader.whole(text)
        return Parsed(whole.code, "", whole.error) if whole else Parsed(None, "", "truncated" if cut else "unreadable")
    last = results[-1]
    feedback = _feedback(text, last.start())
    mark = like.NEXT_TAG.search(shown, last.end(), last.end() + _PIECE)
    if cut and (mark is None or shown[mark.end() :].strip()):
        return Parsed(None, feedback, "truncated")
    known: dict[str, Reading | None] = {}
    for result in results:
        piece = shown[result.end() : result.end() + _PIECE]
        if piece not in known:
            mark = like.NEXT_TAG.search(piece)
            known[piece] = _result(piece[: mark.start()] if mark else piece, reader, closed=mark is not None)
    reading = known[shown[last.end() : last.end() + _PIECE]]
    befores = (shown[max(0, result.start() - _PIECE) : result.start()] for result in results)
    if reading is None or all(map(is_reported, befores)):
        return Parsed(None, feedback, "unreadable")
    begun = (reader.level(piece) for piece, other in known.items() if other is None)
    after = like.NEXT_TAG.sub("", shown[last.end() + reading.end :], count=1)
    if (
        any(reading.differs(other) for other in (*known.values(), *announced(after, reader)))
        or any(level and level.is_other(reading.code) for level in begun)
        or reader.is_retracted(after, reading.code)
    ):
        reading = AMBIGUOUS
    return Parsed(reading.code, feedback, reading.error)


def _keeps(reader: Reader, before: str, content: str) -> bool:
    """Whether a quotation is the value of ``[RESULT] "2" [END]``."""
    results = list(like.RESULT.finditer(before))
    return bool(results) and not before[results[-1].end() :].strip(" \t*_") and reader.whole(content) is not None


def _result(piece: str, reader: Reader, *, closed: bool) -> Reading | None:
    piece = like.NAMED.sub("", piece)
    if closed:
        return reader.read(piece)
    return reader.whole(piece) or reader.whole(piece.strip().split("\n", 1)[0])


def _feedback(text: str, end: int) -> str:
    start = like.FEEDBACK.search(text, 0, end)
    return clean_explanation(text[start.end() if start else 0 : end])


def read_pattern(text: str, pattern: re.Pattern[str], reader: Reader, cut: bool) -> Parsed:
    """The answer in the matches of a pattern outside of quotations; all matches must agree."""
    group: str | int = "score" if "score" in pattern.groupindex else 1
    shown, matches = _matches(text, pattern, group, cut)
    if not matches:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    last = matches[-1]
    explanation = _explained(text, last)
    # an answer that touches the cut may lack its last digit; one before it may be a quoted one
    if cut and (text[last.end() :].strip() or last.end(group) == len(text)):
        return Parsed(None, explanation, "truncated")
    known: dict[str, Reading] = {}
    readings = [_whole_token(shown, match, group, reader, known) for match in matches]
    reading = readings[-1]
    if any(reading.differs(other) for other in readings):
        reading = AMBIGUOUS
    return Parsed(reading.code, explanation, reading.error)


def _matches(text: str, pattern: re.Pattern[str], group: str | int, cut: bool) -> tuple[str, list[re.Match[str]]]:
    """The matches whose answer is not quoted, and the text in which they were found."""
    shown = masked(text, _is_value, cut=cut, own=lambda block: pattern.fullmatch(block) is not None)
    matches = [match for match in pattern.finditer(shown) if match[group] and match[group].lstrip(" *_")[:1] != FILL]
    if matches or shown == text or not like.QUOTES.intersection(pattern.pattern):
        return shown, matches
    # the pattern names quotation marks: what it opens itself is no quotation
    found = [match for match in pattern.finditer(text) if match[group]]
    return text, [match for match in found if FILL not in shown[max(0, match.start() - 1) : match.start() + 1][:1]]


def _is_value(before: str, _: str) -> bool:
    """Whether a short quotation is the value of a JSON key."""
    return like.AFTER_KEY.search(before) is not None


def _whole_token(
    text: str, match: re.Match[str], group: str | int, reader: Reader, known: dict[str, Reading]
) -> Reading:
    """The reading of a group with the rest of the number or word that the pattern may have cut in two."""
    start, end = match.span(group)
    if text[start].isdigit() or text[start] in ".,":
        left = like.LEFT_OF_NUMBER.search(text, max(0, start - 60), start)
        start = left.start() if left else start
    if start == match.start() and start and text[start].isalnum() and text[start - 1].isalnum():
        return UNREADABLE
    if reader.is_number and reader.scale.highest >= sys.float_info.max and match.end() > end:
        return _token(text[start:end], end - start, reader)  # any number will do: the pattern says what may follow it
    line = text.find("\n", end)
    piece = text[start : min(line if line >= 0 else len(text), end + LONGEST)]
    key = f"{end - start} {piece}"
    if key not in known:
        known[key] = _token(piece, end - start, reader)
    return known[key]


def _token(piece: str, length: int, reader: Reader) -> Reading:
    """The reading of the first `length` characters of a piece, whole with what follows them."""
    value = reader.value(piece[:length])
    if value.code is None:
        return value
    lead = reader.lead(piece)
    if lead is not None and (lead.error == "ambiguous" or lead.end >= value.end):
        return lead
    is_number = reader.is_number and any(character.isdigit() for character in piece[:length])
    after = piece[length : length + 1]
    is_cut = after.isalnum() and piece[length - 1].isalnum()
    return UNREADABLE if is_number or is_cut or after == "_" else value


def _explained(text: str, match: re.Match[str]) -> str:
    for name in ("explanation", "feedback"):
        if name in match.re.groupindex:
            start, end = match.span(name)
            return text[start:end].strip() if start >= 0 else ""
    return clean_explanation(text[: match.start()]) or clean_explanation("", text[match.end() :])


Named = tuple[tuple[re.Pattern[str], Code | None, Reason | None], ...]
"""Patterns, each with the code or the reason that it stands for."""


def read_named(text: str, patterns: Named, cut: bool) -> Parsed:
    """The code or reason of the patterns that match outside of quotations; different ones are ambiguous.

    A match never starts or ends inside a number. A pattern that contains quotation marks is searched in quotations too.
    """
    shown = masked(text, cut=cut, own=lambda block: any(pattern.fullmatch(block) for pattern, _, _ in patterns))
    found: dict[tuple[Code | None, Reason | None], re.Match[str]] = {}
    for pattern, code, reason in patterns:
        for match in pattern.finditer(text if like.QUOTES.intersection(pattern.pattern) else shown):
            if match[0].strip(FILL) == match[0] != "" and not _in_number(text, match):
                found[code, reason] = match
    if not found:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    last = max(found.values(), key=re.Match[str].end)
    explanation = _explained(text, last)
    if cut and last.end() == len(text):
        return Parsed(None, explanation, "truncated")
    if len(found) > 1:
        return Parsed(None, explanation, "ambiguous")
    ((code, reason),) = found
    return Parsed(code, explanation, reason)


def _in_number(text: str, match: re.Match[str]) -> bool:
    start, end = match.span()
    before = text[start].isdigit() and like.DIGIT_BEFORE.search(text, max(0, start - 2), start)
    return bool(before or (text[end - 1].isdigit() and like.DIGIT_AFTER.match(text, end)))
