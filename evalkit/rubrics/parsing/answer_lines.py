"""The forms ``number`` and ``label``: an answer on a line of its own, alone or after a word like ``Rating:``.

`docs/adr/0004-parsing.md` describes which answer wins and when two are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import NamedTuple

from evalkit.rubrics.parsing.mask_quotations import masked
from evalkit.rubrics.parsing.reply_cleanup import EXPLAINS, clean_explanation
from evalkit.rubrics.parsing.values_on_scale import AMBIGUOUS, LONGEST, UNREADABLE, Parsed, Reader, Reading

_BEFORE = (
    "the my our so thus hence therefore final overall total numeric numerical "
    "итоговая итоговый итог общая общий моя мой финальная финальный окончательная окончательный"
)
_WORD = (
    "score rating grade verdict mark judgment judgement decision choice label conclusion "
    "оценка балл баллы вердикт рейтинг вывод выбор метка итог"
)
# words that also name what was judged: they count only where none of the others stands
_ECHO = "result answer результат ответ"
_NOTE = r"(?:[ \t]{0,3}\([^()\n]{0,40}\))?"
_STRONG = (
    rf"(?:(?:{'|'.join(_BEFORE.split())})[ \t]{{1,3}}){{0,3}}"
    rf"(?:{'|'.join(_WORD.split())}|(?P<echo>{'|'.join(_ECHO.split())})){_NOTE}"
)
_BULLET = r"[ \t>#*_`•·–—-]{0,12}(?:\d{1,3}[.)][ \t]{1,4})?[*_`\"'\[(]{0,4}"
_COLON = r"[*_`\"'\])]{0,4}[ \t]{0,4}[:：=][*_`]{0,4}[ \t]{0,4}"
_IS = r"(?:[ \t](?:is|was|would be))?"
_LABELLED = re.compile(
    rf"{_BULLET}(?P<label>[^\W\d_][^\W\d_'’/ -]{{0,30}}(?:[ '’/-][^\W\d_]{{1,20}}){{0,3}}"
    rf"(?:[ \t]\([^()\n]{{0,40}}\))?){_COLON}"
)
_NO_LABEL = re.compile(
    rf"\b(?:{'|'.join(EXPLAINS)}|errors?|mistakes?|issues?|count|number|total|steps?|questions?|correct|expected|reference|answer|result|ответ|результат|"
    r"candidate|claimed|requested|demanded|their|his|its|max|maximum|min|minimum|previous|sentences?|words?|claims?|facts?|examples?|lines?|page|year|user|note)\b",
    re.IGNORECASE,
)
_VERB = r"(?:scor(?:es?|ed|ing)|rat(?:es?|ed|ing)|grad(?:es?|ed|ing))"
_OBJECT = r"(?:(?:it|(?:this|the)(?:\s\w{1,20}){1,2})\s)?(?:(?:as|at|with|only|just|an?)\s){0,3}"
_INLINE = re.compile(
    rf"(?<!\w)(?:{_STRONG}[*_`]{{0,4}}\s{{0,3}}(?:[:：=]|\b(?:is|of|was|—|-)(?=\s))(?:\s(?:an?))?[*_`]{{0,4}}\s{{0,3}}"
    rf"|{_VERB}\s{_OBJECT})(?=\S)",
    re.IGNORECASE,
)
# "… to earn a perfect score of 5" is no verdict
_NOT_GIVEN = re.compile(
    r"(?:perfect|full|higher|highest|better|best|lower|lowest|max|maximum|top|possible|claimed|requested|demanded|not|no|n't)\s\Z",
    re.IGNORECASE,
)
_SHARE = re.compile(r"(?<![\w.,/])\d+(?:[.,]\d+)?\s?(?:/|out of)\s?\d+(?![\w/])")
_AFTER_INLINE = re.compile(
    r"[\s.!*_`)]{0,6}(?:\([^()\n]{0,80}\)|(?:for|in terms of)\s(?:\w{1,20}\s){0,2}\w{1,20})?[\s.!*_`]{0,6}\Z"
)
_INLINE_WINDOW, _EARLIER = 240, 4_000
_MARK = re.compile(r"(?:[-*•>#–—][ \t]+|>|#+)+")
_LIST_ITEM = re.compile(r"[ \t]*\d{1,3}[.)][ \t]+(?=\S)")
_NEXT_ITEM = re.compile(r"\n[ \t]*\d{1,3}[.)][ \t]")
_SAFE_REST, _SHORT_LINE = 12, 80


class _Found(NamedTuple):
    """One answer in a text: its reading, the start of its line and the end of the answer."""

    reading: Reading
    start: int
    end: int

    @property
    def is_short(self) -> bool:
        """True if label and value fit in a short line."""
        return self.end - self.start <= _SHORT_LINE


def read_lines(text: str, reader: Reader, cut: bool, name: str = "") -> Parsed:
    """The answer of a reply in the form ``number`` or ``label``; `cut` if the server cut it off.

    `name` is the criterion's, a word for its score like ``Rating``.
    """
    whole = reader.whole(_unmarked(text, reader)[0])
    if whole is not None:
        return Parsed(None, "", "truncated") if cut else Parsed(whole.code, "", whole.error)
    shown = masked(text, partial(_keeps, reader, name), cut=cut, own=partial(_is_verdict, reader, name))
    first, last = (0, len(shown.partition("\n")[0])), (shown.rfind("\n") + 1, len(shown))
    found = _strong(shown, reader, name, first, last)
    if found is None:
        found = _bare(shown, reader, first, last) or _labelled(shown, reader, first, last) or _inline(shown, reader)
    if found is None:
        return Parsed(None, "", "truncated" if cut else "unreadable")
    if cut and not _complete(shown, found, first):
        return Parsed(None, "", "truncated")
    explanation = clean_explanation(text[: found.start], text[found.end :])
    return Parsed(found.reading.code, explanation, found.reading.error)


def _keeps(reader: Reader, name: str, before: str, content: str) -> bool:
    """Whether a quotation is the value of a line such as ``Rating: "2"``."""
    line = _strong_line(name).match(before + content)
    return line is not None and line.end() >= len(before.rstrip("*_ \t")) and reader.whole(content) is not None


def _is_verdict(reader: Reader, name: str, text: str) -> bool:
    """Whether a text is an answer, or one line such as ``Rating: 2``, and nothing else."""
    if reader.whole(text) is not None:
        return True
    line = _strong_line(name).match(text)
    return line is not None and reader.whole(text[line.end() :]) is not None


def _unmarked(line: str, reader: Reader) -> tuple[str, int]:
    """A line without its bullet, and how much was taken off."""
    mark = _MARK.match(line)
    # on a scale with negative codes "- 1" may be a bullet or a sign: it stays and is read as neither
    if mark is None or (line.lstrip()[:1] in "-–—" and reader.scale.level != "nominal" and reader.scale.lowest < 0):
        return line, 0
    return line[mark.end() :], mark.end()


def _strong(text: str, reader: Reader, name: str, first: tuple[int, int], last: tuple[int, int]) -> _Found | None:
    """A line such as ``Rating: 2``; ambiguous if another verdict says otherwise."""
    lines = list(_strong_lines(text, reader, name))
    # "Answer: 2" beside "Score: n/a" is an echo of what was judged; prose after "Conclusion:" is no verdict
    own = [found for found, echo in lines if not echo and (found.reading.error != "unreadable" or found.is_short)]
    read = [found for found in own or [found for found, _ in lines] if found.reading.error != "unreadable"]
    if not read:
        return None
    rivals: list[Reading | None] = [found.reading for found in read[1:]]
    if read[0].start > first[1]:
        rivals.append(_whole_line(text, reader, first))
    if read[-1].end < last[0]:
        end = _inline(text, reader)
        rivals += _whole_line(text, reader, last), end and end.reading
    if any(read[0].reading.differs(rival) for rival in rivals):
        return read[0]._replace(reading=AMBIGUOUS)
    return read[0]


def _strong_lines(text: str, reader: Reader, name: str) -> Iterator[tuple[_Found, bool]]:
    """Lines such as ``Rating: 2`` with their readings, ``unreadable`` ones too, and whether the word may be an echo."""
    known: dict[str, Reading] = {}
    for line in _strong_line(name).finditer(text):
        value = text[line.end() : line.end() + LONGEST].split("\n", 1)[0]
        if value not in known:
            known[value] = reader.labelled(value) or UNREADABLE
        reading = known[value]
        yield _Found(reading, line.start(), line.end() + min(reading.end or len(value), len(value))), bool(line["echo"])


@lru_cache(maxsize=256)
def _strong_line(name: str) -> re.Pattern[str]:
    """A pattern for the start of a line up to the value, the criterion's own name being a label."""
    words = r"[\s_-]{1,3}".join(re.escape(word) for word in re.split(r"[\s_-]+", name.strip()) if word)
    own = rf"(?:{words})(?:[ \t](?:score|rating|grade|level|оценка|балл))?{_NOTE}|" if words else ""
    of = rf"(?:[ \t](?:for|of|on|in|по|за)[ \t](?:the[ \t])?{words})?" if words else ""
    return re.compile(
        rf"^(?=[^\n]){_BULLET}(?:{own}{_STRONG}{of}){_IS}{_COLON}(?:[ \t]{{0,4}}\r?\n){{0,2}}[ \t]{{0,4}}(?=[^\n])",
        re.IGNORECASE | re.MULTILINE,
    )


def _whole_line(text: str, reader: Reader, line: tuple[int, int]) -> Reading | None:
    if line[1] - line[0] > LONGEST:
        return None
    piece = _unmarked(text[line[0] : line[1]], reader)[0]
    return reader.whole(piece) if piece.strip() else None


def _bare(text: str, reader: Reader, first: tuple[int, int], last: tuple[int, int]) -> _Found | None:
    """An answer without a word before it, at the head of the reply or alone on its last line."""
    head = _head(text, reader, first)
    tail = _whole_line(text, reader, last) if last[0] else None
    if head is None:
        return tail and _Found(tail, *last)
    return head._replace(reading=AMBIGUOUS) if tail is not None and tail.differs(head.reading) else head


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
        return found[-1]._replace(reading=AMBIGUOUS)
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
            reading = AMBIGUOUS
        return _Found(reading, last.start(), len(text))
    return None


def _complete(text: str, found: _Found, first: tuple[int, int]) -> bool:
    """Whether an answer in a reply that was cut off is the whole answer.

    Only an answer at the beginning can be: a later one may be quoted, with the real one cut off.
    """
    if found.start > first[1]:
        return False
    rest = text[found.end :]
    on_line = rest.split("\n", 1)[0]
    if _LIST_ITEM.match(text) and on_line.strip():
        return False
    return "\n" in rest or len(on_line) >= _SAFE_REST
