"""The forms ``number`` and ``label``: an answer on a line of its own, alone or after a word like ``Rating:``.

`docs/adr/0004-parsing.md` describes which answer wins and when two are ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.mask_quotations import FILL, masked
from evalkit.rubrics.parsing.reply_cleanup import clean_explanation
from evalkit.rubrics.parsing.values_on_scale import (
    AMBIGUOUS,
    EMOJI,
    LONGEST,
    OFF_SCALE,
    UNREADABLE,
    Parsed,
    Reader,
    Reading,
)
from evalkit.rubrics.scales import Code

_WINDOW, _LEAD, _OPENING, _EARLIER, _LATER = 400, 72, 280, 4_000, 20_000
_SAFE_REST, _SHORT_LINE, _MOST_LINES, _NEAR = 12, 80, 400, 44


class _Found(NamedTuple):
    """One answer in a text: its reading, the start of its line, the end of the answer, the level it begins with.

    `is_echo`: its label may also name what was judged.
    """

    reading: Reading
    start: int
    end: int
    begins: Code | None = None
    is_echo: bool = False

    def beside(self, others: Iterable[Reading | None]) -> _Found:
        """The same; ambiguous if another was read and differs."""
        return self._replace(reading=AMBIGUOUS) if any(map(self.reading.differs, others)) else self


def read_lines(text: str, reader: Reader, cut: bool, name: str = "") -> Parsed:
    """The answer of a reply in the form ``number`` or ``label``; `cut` if the server cut it off.

    `name` is the criterion's, a word for its score like ``Rating``.
    """
    whole = reader.whole(_unmarked(text, reader)[0])
    if whole is not None and whole.error != "ambiguous":
        return Parsed(None, "", "truncated") if cut else Parsed(whole.code, "", whole.error)
    shown = masked(text, partial(_keeps, reader, name), cut=cut, own=partial(_is_verdict, reader, name))
    shown = like.LINE_BREAK.sub(lambda tag: "\n" + " " * (len(tag[0]) - 1), shown)
    shown = shown.translate(EMOJI) if not shown.isascii() else shown
    heads = [head[0] for head in like.HEAD.finditer(shown)]
    if "|" in shown and not any(map(like.OTHERS.search, heads)):
        shown = like.HEAD.sub(lambda head: FILL * len(head[0]), shown)
        shown = like.ROW.sub(lambda row: f"{row['in']} {row[2]}:{row[3]}{'|' if row['more'] else ' '}", shown)
    first, last = (0, len(shown.partition("\n")[0])), (shown.rfind("\n") + 1, len(shown))
    listed = _listed(shown, reader, last[0])
    strong, quoted = _strong(shown, reader, name, first, last, listed)
    inline, behind = _inline(shown, reader, quoted), _behind_element(shown, reader)
    ticked, is_form = _ticked(shown, reader)
    found = strong or (ticked[0] if is_form and len(ticked) == 1 else None)
    found = found or _bare(shown, reader, first, last, listed) or _labelled(shown, reader, last) or inline
    if found is None and behind is not None and behind.start:  # behind reasons in an element
        found = behind
    if found is None:
        return Parsed(None, "", "truncated" if cut else "ambiguous" if listed or quoted else "unreadable")
    if cut and not _complete(shown, found, first):
        return Parsed(None, "", "truncated")
    is_rivalled = _is_rivalled(shown, found, reader, is_sentence=found is inline)
    if inline is not None and found.start <= inline.start < found.end:
        inline = None
    found = found.beside(
        [*quoted, *(box.reading for box in ticked), inline and inline.reading, behind and behind.reading]
    )
    code, after = found.reading.code, shown[found.end : found.end + _EARLIER]
    if code is not None and (
        is_rivalled
        or reader.is_retracted(after, code)
        or reader.is_contradicted(after, code)
        or like.REPORTED_BACK.match(after)
    ):
        found = found._replace(reading=AMBIGUOUS)
    elif code is not None and reader.has_other_maximum(shown, found.start, found.end):
        found = found._replace(reading=OFF_SCALE)
    explanation = clean_explanation(text[: found.start], text[found.end :])
    return Parsed(found.reading.code, explanation, found.reading.error)


def _is_rivalled(text: str, found: _Found, reader: Reader, *, is_sentence: bool) -> bool:
    """Whether a text names another level behind a verdict, or around a number that a sentence may give a part."""
    text = text[: found.end + _LATER]
    if not is_sentence or not reader.is_number:
        return reader.is_rivalled(like.PIECE_ENDS.split(text[found.end :]), found.reading.code, is_echo=found.is_echo)
    before = like.ALSO_WITHOUT_STOP.split(text[max(0, found.start - _EARLIER) : found.start + 1])[:-1]
    after = like.ALSO_WITHOUT_STOP.split(text[found.end - 1 :])[1:]
    return reader.is_rivalled([*before, *after], found.reading.code, is_sentence=True)


def announced(text: str, reader: Reader) -> Iterator[Reading]:
    """The verdicts that a text announces by labels and sentences, quotations masked: rivals of one elsewhere."""
    shown = masked(text, own=partial(_is_verdict, reader, ""))
    yield from (found.reading for found, kind in _strong_lines(shown, reader, "") if kind != "echo" and _is_read(found))
    inline = _inline(shown, reader, [])
    if inline is not None:
        yield inline.reading


def _keeps(reader: Reader, name: str, before: str, content: str) -> bool:
    """Whether a quotation is the value of a line such as ``Rating: "2"``."""
    least = len(before.rstrip("*_ \t"))
    return any(at >= least for _, at in _labels(before + "x", name)) and reader.whole(content) is not None


def _is_verdict(reader: Reader, name: str, text: str) -> bool:
    """Whether a text is an answer, or one line such as ``Rating: 2``, and nothing else."""
    label = next(_labels(text, name), None)
    return reader.whole(text) is not None or (
        label is not None and label[0].start() == 0 and reader.whole(text[label[1] :]) is not None
    )


def _unmarked(line: str, reader: Reader) -> tuple[str, int]:
    """A line without its bullet, and how much was taken off."""
    mark = like.MARK.match(line)
    # on a scale with negative codes "- 1" may be a bullet or a sign: it stays and is read as neither
    if mark is None or (line.lstrip()[:1] in "-–—" and reader.is_number and reader.scale.lowest < 0):
        return line, 0
    return line[mark.end() :], mark.end()


def _listed(text: str, reader: Reader, last: int) -> set[int]:
    """The starts of lines that begin with different levels in one shape: ``A: … ⏎ B: …``; none is a verdict."""
    if not last or (_line_level(text, 0, reader) is None and _line_level(text, last, reader) is None):
        return set()
    shapes: dict[str, list[tuple[int, object]]] = {}
    start = 0
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        found = _line_level(line, 0, reader)
        if found is not None:
            shapes.setdefault(found[0], []).append((start, found[1]))
        start += len(line) + 1
    return {at for lines in shapes.values() if len({code for _, code in lines}) > 1 for at, _ in lines}


def _line_level(text: str, start: int, reader: Reader) -> tuple[str, object] | None:
    """The level that a line begins with, and the sign behind it."""
    piece, _ = _unmarked(text[start : start + LONGEST], reader)
    level = reader.level(piece)
    sign = "" if level is None else piece[level.end :].lstrip(" ")[:1]
    if level is None or level.error is not None or sign not in (*":-–—=(,;|", *("." if level.is_name else "")):
        return None
    return sign, level.code


def _strong(
    text: str, reader: Reader, name: str, first: tuple[int, int], last: tuple[int, int], listed: set[int]
) -> tuple[_Found | None, list[Reading]]:
    """A line such as ``Rating: 2``, ambiguous if another verdict says otherwise; and the labelled ones that it reports.

    ``The answer contains the line Rating: 2`` gives no verdict; beside another one it is a rival.
    """
    lines = list(_strong_lines(text, reader, name))
    quoted = [found.reading for found, kind in lines if kind == "quoted" and _is_read(found)]
    lines = [line for line in lines if line[1] != "quoted"]
    # "Answer: 2" beside "Score: n/a" is an echo of what was judged; prose after "Conclusion:" is no verdict
    own = [found for found, kind in lines if not kind and (_is_read(found) or found.end - found.start <= _SHORT_LINE)]
    labelled = {found.start for found, _ in lines}
    # "Question: … ⏎ Answer: 2" repeats an item
    if lines and not own and like.ASKED.search(text):
        return None, quoted
    if lines and not own and any(_is_read(line) and line.start not in labelled for line in _other_lines(text, reader)):
        return None, quoted
    read = list(filter(_is_read, own or [found for found, _ in lines]))
    if not read:
        return None, quoted
    rivals: list[Reading | None] = [found.reading for found in read[1:]]
    # "Score: 4 | Score: 1": what begins with a level was not read, and may be the verdict
    rivals += (Reading(found.begins) for found in own if not _is_read(found) and found.begins is not None)
    if read[0].start > first[1] and 0 not in listed:
        rivals.append(_whole_line(text, reader, first))
    rivals += _alone(text, reader)
    if read[-1].end < last[0]:
        rivals.append(None if last[0] in listed else _whole_line(text, reader, last))
    return read[0].beside(rivals), quoted


def _is_read(found: _Found) -> bool:
    return found.reading.error != "unreadable"


def _strong_lines(text: str, reader: Reader, name: str) -> Iterator[tuple[_Found, str]]:
    """Labels such as ``Rating: 2`` with their readings, ``unreadable`` ones too.

    Each with what it may be instead of a verdict: an ``echo``, or ``quoted`` within a sentence on what was judged.
    """
    known: dict[str, Reading] = {}
    for label, at in _labels(text, name):
        value = text[at : at + LONGEST].split("\n", 1)[0]
        if value not in known:
            known[value] = reader.read(value) or UNREADABLE
        reading = known[value]
        if reader.is_number and reading.error is None and _other_maximum(label["note"] or "", reader):
            reading = OFF_SCALE._replace(end=reading.end)
        if reading.error == "unreadable" and label["line"] is None and label["after"] is None:
            continue
        start = label.start("label") if label["line"] is None else label.start()
        kind, level = "echo" if label["echo"] else "", reader.level(value)
        word = label["label"].lower()
        is_level = word == "level" and label["line"] is None
        if (reader.is_number and word in like.NAMED_ONLY) or is_level or word.replace(" ", "_") in reader.inputs:
            continue
        is_amid = label["line"] is None and label["after"] is None
        if is_reported(text[max(0, start - _WINDOW) : start], is_amid=is_amid):
            kind = "quoted"
        elif is_amid and _is_named(text, start):
            continue
        end = at + min(reading.end or len(value), len(value))
        yield _Found(reading, start, end, level.code if level else None, kind == "echo"), kind


@lru_cache(maxsize=256)
def is_reported(before: str, *, is_amid: bool = False) -> bool:
    """Whether a sentence reports, up to here, what another speaker wrote: ``The answer contains the line``."""
    said = like.SUBJECT.sub("", before)
    before = said.rstrip("*_`([ \t\r\n")
    sentence = re.split(r"\n|[.!?][ \t]+", before)[-1]
    if like.EXAMPLE.search(before, max(0, len(before) - _SAFE_REST)) or like.THEIR_LINE.match(said.rpartition("\n")[2]):
        return True
    if not sentence or sentence[-1] in ".!?)]":
        return False
    if "\n" in said[len(before) :] and sentence[-1] not in ":：" and not like.OF_LINES.search(sentence):
        return False
    if is_amid and sentence[-1] != FILL and len(sentence.split()) > 2 and not like.MY_WORDS.search(sentence):
        return True  # a sentence that leads up to a label, in any language
    verb = like.QUOTES_NEXT.search(sentence, max(0, len(sentence) - _LEAD))
    subject = sentence[: verb.start()].split()[-2:] if verb else []
    return verb is not None and subject[-1:] not in (["I"], ["we"]) and like.MY_WORDS.search(" ".join(subject)) is None


def _labels(text: str, name: str) -> Iterator[tuple[re.Match[str], int]]:
    """Each label that names a verdict, and where its value begins: at a line's start, or behind other text on it."""
    pattern = _label_before(name)
    for colon in like.LABEL_ENDS.finditer(text):
        near = max(0, colon.start() - _LEAD)
        start = max(text.rfind("\n", near, colon.start()) + 1, near)
        label = pattern.search(text, start, colon.start())
        # "[RESULT] 2 [END]" is another form's
        if label is None or (label["line"] is None and "\n" in colon[0]) or (label["echo"] and colon[0][0] in "]>"):
            continue
        is_set_off = label["line"] is not None or label["after"] is not None
        if is_set_off or (label["label"][0].isupper() and not like.OTHERS.search(text, start, label.start("label"))):
            yield label, colon.end()


def _is_named(text: str, at: int) -> bool:
    """Whether the word before ``score`` makes it another one than the judge's: ``Flesch``, ``injected``."""
    word = like.BEFORE_SCORE.search(text, max(0, at - _NEAR), at)
    is_own = text[at : at + 4].lower().startswith(("my ", "our ", "the "))
    return not is_own and word is not None and like.OF_JUDGE.fullmatch(word[1]) is None


def _other_maximum(note: str, reader: Reader) -> bool:
    """Whether a label's bracket, as in ``Score (0-10)``, names a maximum that the scale does not have."""
    numbers = re.findall(r"\d+(?:[.,]\d+)?", note) or (["100"] if "%" in note else [])
    return bool(numbers) and float(numbers[-1].replace(",", ".")) != reader.scale.highest


@lru_cache(maxsize=256)
def _label_before(name: str) -> re.Pattern[str]:
    """A pattern for a label before a colon, the criterion's own name being one."""
    words = r"[\s_-]{1,3}".join(re.escape(word) for word in re.split(r"[\s_-]+", name.strip()) if word)
    own = rf"(?:{words})(?:[ \t](?:score|rating|grade|level|оценка|балл))?|" if words else ""
    of = r"(?:[ \t](?:given|assigned|awarded))?" + (
        rf"(?:[ \t](?:for|of|on|in|по|за)[ \t](?:the[ \t])?{words})?" if words else ""
    )
    return re.compile(
        rf"(?:(?P<line>^{like.BULLET})"
        r"|(?:(?P<after>(?<=[.!?;,)\]»”\"'*`—–\ufffc|/·•>-])[ \t]{1,3}|(?<=>))|(?<=\w)[ \t])[*_`(\[<]{0,4})"
        rf"(?P<label>(?:{own}{like.STRONG}{of}|level)(?P<note>{like.NOTE}){like.IS})[*_`\"'\])]{{0,4}}[ \t]{{0,4}}\Z",
        re.IGNORECASE | re.MULTILINE,
    )


def _whole_line(text: str, reader: Reader, line: tuple[int, int]) -> Reading | None:
    if line[1] - line[0] > LONGEST:
        return None
    piece = _unmarked(text[line[0] : line[1]], reader)[0]
    return reader.whole(piece) if piece.strip() and not like.CATEGORIES.match(piece) else None


def _bare(text: str, reader: Reader, first: tuple[int, int], last: tuple[int, int], listed: set[int]) -> _Found | None:
    """An answer without a word before it, at the head of the reply or alone on its last line."""
    head = None if 0 in listed else _head(text, reader, first)
    is_tail = last[0] and last[0] not in listed and not is_reported(text[max(0, last[0] - _WINDOW) : last[0]])
    tail = _whole_line(text, reader, last) if is_tail else None
    if head is None:
        return _Found(tail, *last).beside(_alone(text, reader)) if tail else None
    is_closed, marked = text[head.end : head.end + 1] in ("", "\n", ":", "."), not tail and like.MARK.match(text)
    return head.beside([tail, *(_alone(text, reader, marked=bool(marked)) if is_closed else ())])


def _alone(text: str, reader: Reader, *, marked: bool = False) -> Iterator[Reading]:
    """The levels that stand alone on lines below the first, each of which may head or end a part of its own.

    Those behind the mark of a bullet or heading count if the verdict is `marked` as well.
    """
    for line in text.split("\n", _MOST_LINES)[1:_MOST_LINES]:
        line = _unmarked(line[: _SHORT_LINE + 1], reader)[0] if marked else line
        level = reader.whole(line) if len(line) <= _SHORT_LINE and reader.level(line) is not None else None
        if level is not None and level.code is not None:
            yield level


def _head(text: str, reader: Reader, first: tuple[int, int]) -> _Found | None:
    line, taken = _unmarked(text[: min(first[1], 2 * LONGEST)], reader)
    item = like.LIST_ITEM.match(line)
    if item is not None:
        if like.NEXT_ITEM.search(text):
            return None
        rest = reader.whole(line[item.end() :])
        if rest is not None and rest.error is None:
            return _Found(rest, 0, first[1])
        if like.LABELLED.match(line):
            return None
    reading = reader.read(text[taken : taken + LONGEST], labelled=False)
    return None if reading is None else _Found(reading, 0, min(taken + (reading.end or first[1]), first[1]))


def _other_lines(text: str, reader: Reader) -> Iterator[_Found]:
    """Lines such as ``Engagingness: 2`` with a level, whose label is no verdict word."""
    start = 0
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        label = like.LABELLED.match(line[: 2 * LONGEST])
        reading = reader.whole(line[label.end() :]) if label else None
        if label is not None and reading is not None and not like.EXPLAINED.search(label["label"]):
            yield _Found(reading, start, start + len(line))
        start += len(line) + 1


def _labelled(text: str, reader: Reader, last: tuple[int, int]) -> _Found | None:
    """A last or first line such as ``Engagingness: 2``, a quality, if no other line of this kind says otherwise."""
    found = list(filter(_is_read, _other_lines(text, reader)))
    is_heading = len(found) == 1 and found[0].start == 0
    if not found or (found[-1].start != last[0] and not is_heading):
        return None
    if like.QUALITY.match(text, found[-1].start) is None:
        return None
    return found[-1].beside(line.reading for line in found)


def _ticked(text: str, reader: Reader) -> tuple[list[_Found], bool]:
    """The levels with a ticked box, and whether others have an empty one: ``[x] yes [ ] no``."""
    boxes = [(box, reader.whole(box["what"])) for box in islice(like.BOX.finditer(text), _MOST_LINES)]
    boxes = [(box, reading) for box, reading in boxes if reading is not None]
    ticked = [_Found(level, *box.span()) for box, level in boxes if level and box["box"].strip("[( )]☐⬜○◯")]
    return ticked, len(boxes) > len(ticked)


def _behind_element(text: str, reader: Reader) -> _Found | None:
    """A verdict alone at the end, behind an element or in brackets: ``<critique> … </critique> 4``, ``… [[A]]``."""
    rest = like.LAST_ELEMENT.search(text, max(0, len(text) - LONGEST))
    reading = reader.whole(rest["rest"] or rest["marked"]) if rest else None
    if rest is None or reading is None:
        return None
    is_own = like.EXPLAINED.search(rest["name"]) if rest["name"] else not is_reported(text[-_WINDOW : rest.start()])
    return _Found(reading, rest.start(rest.lastgroup or 0) if is_own else 0, len(text))


def _inline(text: str, reader: Reader, quoted: list[Reading]) -> _Found | None:
    """``I give it a score of 2.`` in the first or the last line; ambiguous beside another one or another ``3/5``.

    One that the sentence reports of another speaker is added to `quoted`.
    """
    zones = [(0, min(len(text.partition("\n")[0]), _WINDOW)), (max(0, len(text) - _WINDOW), len(text))]
    if zones[0][1] >= zones[1][0]:
        zones = [(0, len(text))]
    found = {(said.start, said.end): said for start, end in zones for said in _said(text, start, end, reader)}
    for span, said in list(found.items()):
        is_amid = text[said.start].isupper() and ":" in text[said.start : said.end]
        if is_reported(text[max(0, said.start - _WINDOW) : said.start], is_amid=is_amid):
            del found[span]
            quoted += [said.reading] if said.reading.code is not None else []
    if not found:
        return None
    last = found[max(found)]
    shares = (reader.whole(share[0]) for share in like.SHARE.finditer(text, max(0, last.start - _EARLIER), last.start))
    others = [share for share in shares if share is not None and share.error is None]
    return last.beside([*others, *(said.reading for said in found.values())])


def _said(text: str, start: int, end: int, reader: Reader) -> Iterator[_Found]:
    """What sentences give, without those that ask for a level, deny it, or set a condition."""
    for at in reader.places(text, start, end):
        value = text[at : at + LONGEST]
        level = reader.level(value)
        wins = level and like.WINS.match(value, level.end)
        if level is None or (wins is None and like.GOES_ON.match(value, level.end)):
            continue
        is_money = text[at - 1 : at] == "$" and "$" not in value[: level.end + 1]
        if is_money or like.BOUND.search(text, max(0, at - _NEAR), at) or like.ATTRIBUTED.match(value, level.end):
            continue
        own = reader.beside(value, level, labelled=True)
        reading = own or reader.lead(value)
        if reading is None:
            continue
        is_last = like.AFTER_INLINE.match(value, reading.end) is not None
        near = text[max(0, at - _WINDOW) : at].lower()
        says = like.SAYS.search(near, max(0, len(near) - _LEAD))
        noun = (says and says["noun"]) or ""
        if (reader.is_number and noun in like.NAMED_ONLY) or noun.removeprefix("the ") in reader.inputs:
            continue
        if says is None or not ((is_last or own) and _is_given(near, says, is_last=is_last)):
            says = like.OPENS.search(near, max(0, len(near) - _OPENING)) if own else None
            if says is None or like.IF.search(near, 0, says.start()) or _is_hedged(says["since"], reader):
                continue
            if not (wins or _is_only(text, at, says, reader)):
                continue
        # without the end of the sentence before it
        yield _Found(reading, at - len(says[0].lstrip(".!?, \t\r\n")), min(at + reading.end, len(text)))


def _is_hedged(since: str | None, reader: Reader) -> bool:
    """Whether the words between ``Therefore,`` and a level name a level too, concede, or are another speaker's."""
    words = since or ""
    has_level = any(reader.level(words, start) for start in reader.places(words, 0, len(words)))
    return has_level or like.CONCEDES.search(words) is not None or like.UNGIVEN.search(words) is not None


def _is_only(text: str, at: int, says: re.Match[str], reader: Reader) -> bool:
    """Whether ``It is harmful`` is the whole text or its end, and names the only level in it."""
    level = None if reader.is_number or says["is"] is None else reader.level(text, at)
    return (
        level is not None
        and len(str(level.code)) > 3
        and (like.END.match(text, level.end) is not None or at == len(says[0]))
        and sum(1 for _ in reader.places(text, 0, len(text))) == 1
    )


def _is_given(near: str, says: re.Match[str], *, is_last: bool) -> bool:
    """Whether a sentence up to its level gives this level; what names the judged answer only does at the very end."""
    before = near[: says.start()]
    words = like.LAST_WORDS.search(before, max(0, len(before) - _NEAR))
    if says["what"] and like.NOT_JUDGED.search(says["what"]):
        return False
    not_own = like.OTHERS if says["noun"] else like.NOT_JUDGED
    if (words is not None and not_own.search(before, words.start())) or (
        says["noun"] and _is_named(near, says.start())
    ):
        return False
    if like.RATES_IT.match(says[0]) and not like.BY_ME.search(before):
        return False
    if says["echo"] and (like.SOMEONE.search(before) or not is_last or says[0].rstrip()[-1] in ":：="):
        return False
    cuts = [cut.start() for cut in like.CLAUSE.finditer(near) if cut.start() <= says.start()]
    clause = near[cuts[-1] :] if cuts else near
    return not (
        like.UNGIVEN.search(clause)
        or like.FULL.search(before)
        or like.IF.search(before)
        or (like.WOULD.search(clause) and not like.WHO.search(clause))
    )


def _complete(text: str, found: _Found, first: tuple[int, int]) -> bool:
    """Whether an answer in a reply that was cut off is the whole answer.

    Only an answer at the beginning can be: a later one may be quoted, with the real one cut off.
    """
    if found.start > first[1]:
        return False
    rest = text[found.end :]
    on_line = rest.split("\n", 1)[0]
    if like.LIST_ITEM.match(text) and on_line.strip():
        return False
    return "\n" in rest or len(on_line) >= _SAFE_REST
