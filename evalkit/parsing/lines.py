"""The forms ``number`` and ``label``: an answer on a line of its own, alone or after a word like ``Rating:``.

`docs/adr/0004-parsing.md` says which answer wins and when two are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from evalkit.parsing.readings import LONGEST, Parsed, Reader, Reading
from evalkit.parsing.replies import EXPLAINS, clean_explanation

__all__ = ["read_lines"]

_BEFORE = (
    "the my our so thus hence therefore final overall total numeric numerical "
    "итоговая итоговый итог общая общий моя мой финальная финальный окончательная окончательный"
)
_WORD = (
    "score rating grade verdict result answer mark judgment judgement decision choice label conclusion "
    "оценка балл баллы вердикт результат ответ рейтинг вывод выбор метка итог"
)
_STRONG = (
    rf"(?:(?:{'|'.join(_BEFORE.split())})[ \t]{{1,3}}){{0,3}}(?:{'|'.join(_WORD.split())})"
    r"(?:[ \t]{0,3}\([^()\n]{0,40}\))?"
)
_BULLET = r"[ \t>#*_`•·–—-]{0,12}(?:\d{1,3}[.)][ \t]{1,4})?[*_`\"'\[(]{0,4}"
_COLON = r"[*_`\"'\])]{0,4}[ \t]{0,4}[:：=][*_`]{0,4}[ \t]{0,4}"
_STRONG_LINE = re.compile(
    rf"^(?=[^\n]){_BULLET}{_STRONG}{_COLON}(?:[ \t]{{0,4}}\r?\n){{0,2}}[ \t]{{0,4}}(?=[^\n]{{1,{LONGEST}}})",
    re.IGNORECASE | re.MULTILINE,
)
_LABELLED = re.compile(
    rf"{_BULLET}(?P<label>[^\W\d_][^\W\d_'’/ -]{{0,30}}(?:[ '’/-][^\W\d_]{{1,20}}){{0,3}}"
    rf"(?:[ \t]\([^()\n]{{0,40}}\))?){_COLON}"
)
_NO_LABEL = re.compile(
    rf"\b(?:{'|'.join(EXPLAINS)}|errors?|mistakes?|issues?|count|number|total|steps?|questions?|correct|expected|reference|"
    r"candidate|max|maximum|min|minimum|previous|sentences?|words?|claims?|facts?|examples?|lines?|page|year|user|note)\b",
    re.IGNORECASE,
)
_VERB = r"(?:scor(?:es?|ed|ing)|rat(?:es?|ed|ing)|grad(?:es?|ed|ing))"
_OBJECT = r"(?:(?:it|(?:this|the)(?:\s\w{1,20}){1,2})\s)?(?:(?:as|at|with|only|just|an?)\s){0,3}"
_INLINE = re.compile(
    rf"(?<![\w\"'“«‘`])(?:{_STRONG}[*_`]{{0,4}}\s{{0,3}}(?:[:：=]|\b(?:is|of|was|—|-)(?=\s))(?:\s(?:an?))?[*_`]{{0,4}}\s{{0,3}}"
    rf"|{_VERB}\s{_OBJECT})(?=\S)",
    re.IGNORECASE,
)
# "… to earn a perfect score of 5" is no verdict
_NOT_GIVEN = re.compile(
    r"(?:perfect|full|higher|highest|better|best|lower|lowest|max|maximum|top|possible|not|no|n't)\s\Z", re.IGNORECASE
)
_SHARE = re.compile(r"(?<![\w.,/])\d+(?:[.,]\d+)?\s?(?:/|out of)\s?\d+(?![\w/])")
_AFTER_INLINE = re.compile(
    r"[\s.!*_`)]{0,6}(?:\([^()\n]{0,80}\)|(?:for|in terms of)\s(?:\w{1,20}\s){0,2}\w{1,20})?[\s.!*_`]{0,6}\Z"
)
_INLINE_WINDOW, _EARLIER = 240, 4_000
_MOST, _HEAD = 200_000, 2_000
_MARK = re.compile(r"(?:[-*•>#–—][ \t]+|>|#+)+")
_LIST_ITEM = re.compile(r"[ \t]*\d{1,3}[.)][ \t]+(?=\S)")
_NEXT_ITEM = re.compile(r"\n[ \t]*\d{1,3}[.)][ \t]")
_SAFE_REST = 12


class _Found(NamedTuple):
    """One answer in a text: what it says, and where its line begins and the answer ends."""

    reading: Reading
    start: int
    end: int


def read_lines(text: str, reader: Reader, cut: bool) -> Parsed:
    """The answer of a reply in the form ``number`` or ``label``; `cut` if the server cut it off."""
    if len(text) > _MOST:
        # joined within a line, so that no line begins where the cut is
        text = f"{text[:_HEAD]} … {text[_HEAD - _MOST :]}"
    whole = reader.whole(_unmarked(text, reader)[0])
    if whole is not None:
        return Parsed(None, "", "truncated") if cut else Parsed(whole.code, "", whole.error)
    first, last = _first_line(text), _last_line(text)
    found = (
        _strong(text, reader, first, last)
        or _bare(text, reader, first, last)
        or _labelled(text, reader, first, last)
        or _inline(text, reader)
    )
    if found is None:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    if cut and not _complete(text, found, first):
        return Parsed(None, "", "truncated")
    explanation = clean_explanation(text[: found.start], text[found.end :])
    return Parsed(found.reading.code, explanation, found.reading.error)


def _first_line(text: str) -> tuple[int, int]:
    end = text.find("\n")
    return 0, len(text) if end < 0 else end


def _last_line(text: str) -> tuple[int, int]:
    return text.rfind("\n") + 1, len(text)


def _unmarked(line: str, reader: Reader) -> tuple[str, int]:
    """A line without its bullet, and how much was taken off."""
    mark = _MARK.match(line)
    # on a scale with negative codes "- 1" may be a bullet or a sign: it stays and is read as neither
    if mark is None or (line.lstrip()[:1] in "-–—" and reader.scale.level != "nominal" and reader.scale.lowest < 0):
        return line, 0
    return line[mark.end() :], mark.end()


def _strong(text: str, reader: Reader, first: tuple[int, int], last: tuple[int, int]) -> _Found | None:
    """The last line such as ``Rating: 2``; ambiguous if one of equal standing says otherwise."""
    found = list(_strong_lines(text, reader))
    if not found:
        return None
    final = found[-1]
    at_end = final.end > last[0]
    rivals: list[Reading | None] = [item.reading for item in found[:-1]] if not at_end else []
    if found[0].start <= first[1]:
        rivals.append(found[0].reading)
    if len(found) > 1 and not text[text.find("\n", found[-2].end) : final.start].strip():
        rivals.append(found[-2].reading)
    if not at_end:
        rivals.append(_whole_line(text, reader, last))
    if final.start > first[1]:
        rivals.append(_whole_line(text, reader, first))
    if any(final.reading.differs(rival) for rival in rivals):
        return final._replace(reading=Reading(None, "ambiguous"))
    return final


def _strong_lines(text: str, reader: Reader) -> Iterator[_Found]:
    known: dict[str, Reading | None] = {}
    for line in _STRONG_LINE.finditer(text):
        value = text[line.end() : line.end() + LONGEST].split("\n", 1)[0]
        if value not in known:
            known[value] = reader.whole(value) or reader.leading(value)
        reading = known[value]
        if reading is not None:
            yield _Found(reading, line.start(), line.end() + min(reading.end or len(value), len(value)))


def _whole_line(text: str, reader: Reader, line: tuple[int, int]) -> Reading | None:
    if line[1] - line[0] > LONGEST:
        return None
    piece = _unmarked(text[line[0] : line[1]], reader)[0]
    return reader.whole(piece) if piece.strip() else None


def _bare(text: str, reader: Reader, first: tuple[int, int], last: tuple[int, int]) -> _Found | None:
    """An answer without a word before it, at the head of the reply or alone on its last line."""
    head = _head(text, reader, first)
    tail = _whole_line(text, reader, last) if last[0] else None
    if head is not None and tail is not None and tail.differs(head.reading):
        return head._replace(reading=Reading(None, "ambiguous"))
    if tail is not None and head is None:
        return _Found(tail, *last)
    return head


def _head(text: str, reader: Reader, first: tuple[int, int]) -> _Found | None:
    line, taken = _unmarked(text[: min(first[1], 2 * LONGEST)], reader)
    item = _LIST_ITEM.match(line)
    if item is not None:
        if _NEXT_ITEM.search(text):
            return None
        rest = reader.whole(line[item.end() :])
        if rest is not None and rest.error is None:
            return _Found(rest, 0, first[1])
        if _LABELLED.match(line):
            return None
    reading = (reader.whole(line) if first[1] <= LONGEST else None) or reader.leading(line)
    return None if reading is None else _Found(reading, 0, min(taken + (reading.end or first[1]), first[1]))


def _labelled(text: str, reader: Reader, first: tuple[int, int], last: tuple[int, int]) -> _Found | None:
    """A first or last line such as ``Engagingness: 2``; ambiguous if the two differ."""
    found = []
    for line in dict.fromkeys((first, last)):
        piece = text[line[0] : min(line[1], line[0] + 2 * LONGEST)]
        label = _LABELLED.match(piece)
        if label is None or _NO_LABEL.search(label["label"]):
            continue
        reading = reader.whole(piece[label.end() :])
        if reading is not None:
            found.append(_Found(reading, *line))
    if not found:
        return None
    if found[-1].reading.differs(found[0].reading):
        return found[-1]._replace(reading=Reading(None, "ambiguous"))
    return found[-1]


def _inline(text: str, reader: Reader) -> _Found | None:
    """``… a score of 2.`` or ``… Final score: 4/5 (good).`` at the very end; ambiguous beside another ``3/5``."""
    start = max(0, len(text) - _INLINE_WINDOW)
    for last in reversed(list(_INLINE.finditer(text, start))):
        value = text[last.end() :]
        reading = reader.whole(value)
        if reading is None:
            reading = reader.lead(value)
            if reading is None or not _AFTER_INLINE.match(value, reading.end):
                continue
        if reader.scale.level != "nominal" and _NOT_GIVEN.search(text, max(0, last.start() - 12), last.start()):
            return None
        shares = (
            reader.whole(share[0]) for share in _SHARE.finditer(text, max(0, last.start() - _EARLIER), last.start())
        )
        if any(share is not None and share.error is None and reading.differs(share) for share in shares):
            reading = Reading(None, "ambiguous")
        return _Found(reading, last.start(), len(text))
    return None


def _complete(text: str, found: _Found, first: tuple[int, int]) -> bool:
    """Whether an answer in a reply that was cut off is the whole answer.

    Only one at the head can be: what stands further down may be quoted, with the real one cut away.
    """
    if found.start > first[1]:
        return False
    rest = text[found.end :]
    on_line = rest.split("\n", 1)[0]
    if _LIST_ITEM.match(text) and on_line.strip():
        return False
    return "\n" in rest or len(on_line) >= _SAFE_REST
