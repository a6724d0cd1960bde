"""Reading one answer off a scale: the short piece of a reply that holds the code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from evalkit.core.lists_of_choices import Reason
from evalkit.rubrics.parsing.quotation_marks import CLOSING, MARKS, OPENING
from evalkit.rubrics.scales import Code, Scale, code_text

LONGEST = 200
"""Characters of the longest piece that can be an answer; longer ones are prose."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The content of one reply.

    Attributes
    ----------
    code
        A code of the scale (interval: a number within it), or None: unscored.
    explanation
        The judge's reasons without the answer; ``""`` if there are none.
    error
        Why there is no code: ``off_scale``, ``ambiguous``, ``unreadable``, ``truncated``, ``refused``
        or ``empty``; None if there is one.
    repaired
        True if the answer came from JSON that had to be repaired.
    """

    code: Code | None
    explanation: str = ""
    error: Reason | None = None
    repaired: bool = False


class Reading(NamedTuple):
    """One answer as read: a code, or the reason why there is none, and its end in its piece."""

    code: Code | None
    error: Reason | None = None
    end: int = 0

    def differs(self, other: Reading | None) -> bool:
        """True if both were read and differ."""
        return other is not None and self[:2] != other[:2]


_OPEN = rf"(?:\$?\\boxed\{{|[\s*_`(\[{{<{OPENING}]){{0,12}}"
_CLOSE = rf"[*_`)\]}}>{CLOSING}]{{0,12}}\$?"
_DIGITS = r"(?:\d+(?:[.,]\d+)?|[.,]\d+)"
_NUMBER = rf"[+\-−]?{_DIGITS}"
_UNIT = r"(?:stars?|points?|pts|★|⭐|балл(?:а|ов|ы)?|зв[её]зд(?:а|ы)?|очк(?:о|а|ов))(?!\w)"
WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")

_ANSWER = re.compile(
    rf"{_OPEN}(?P<number>{_NUMBER}|(?:{'|'.join(WORDS)})\b)(?P<close>{_CLOSE})"
    rf"(?:\s{{0,3}}(?:/|out\s+of\s|of\s|из\s)\s{{0,3}}{_OPEN}(?P<most>{_DIGITS}){_CLOSE})?"
    rf"(?P<unit>\s{{0,3}}-?{_UNIT})?{_CLOSE}",
    re.IGNORECASE,
)
_RIVAL = re.compile(
    rf"\s{{0,3}}(?:[-–—/|,;&+]|(?:or|to|and|или|до|и|либо)\b)\s{{0,3}}{_OPEN}{_NUMBER}(?!\w)", re.IGNORECASE
)
_PAIR = re.compile(
    rf"(?:between|either|from|both|от|между|либо|или)\s{_OPEN}{_NUMBER}{_CLOSE}\s(?:and|or|to|и|или|до|либо)\s",
    re.IGNORECASE,
)
_END = re.compile(r"[\s.!;。]*\Z")
_TAIL = re.compile(
    r"\s{0,3}(?:[.!;:,)](?!\d)|[-–—(\[{<\n]|(?<=\s)(?:because|since|due|as|потому|так как)\b)", re.IGNORECASE
)
_NOT_FINITE = re.compile(r"[+\-−]?(?:nan|inf(?:inity)?|∞)\Z", re.IGNORECASE)
_NAMED = re.compile(rf"([^\d\n()]{{1,60}})\(({_NUMBER})\)[.!]?\Z")
# "Yes, 1": a level's name, or yes or no, and a number
_PROSE = re.compile(rf"([^\d\n()]{{1,60}}?)\s?[,;:–—-]\s?{_OPEN}({_NUMBER}){_CLOSE}[.!]?\Z")
_YES = frozenset(
    ["yes", "no", "yeah", "nope", "true", "false", "correct", "incorrect", "да", "нет", "верно", "неверно"]
)
_MORE_DIGITS = re.compile(r"[\w%]|[.,]\d|[  ']\d")
_NAME_TAIL = re.compile(
    r"[.!;:,)](?=\s|\Z)|\s{0,3}[-–—(\[\n](?=\s|\w)|\s(?:because|since|due|as|потому|так как)\b", re.IGNORECASE
)
_LONGEST_NAME = 60

OFF_SCALE = Reading(None, "off_scale")
AMBIGUOUS = Reading(None, "ambiguous")
UNREADABLE = Reading(None, "unreadable")


def folded(text: str) -> str:
    """Text as labels are compared: compatibility forms, case and runs of white space do not matter."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


_DECORATION = " \t\r\n*_`()[]{}<>.,!:;#$\\" + MARKS


def _names(scale: Scale) -> dict[str, Code]:
    """Descriptions of the levels that belong to one level only."""
    names = [folded(text).strip(_DECORATION) for text in scale.texts]
    return {name: code for name, code in zip(names, scale.codes, strict=False) if name and names.count(name) == 1}


def _alternatives(names: Iterable[str]) -> str:
    """A pattern for one of these texts, the longest first; it matches nothing if there are none."""
    known = sorted(set(names), key=len, reverse=True)
    return "|".join(r"\s+".join(re.escape(word) for word in name.split()) for name in known) or r"(?!)"


class NumberReader:
    """Reads answers of ordinal and interval scales."""

    def __init__(self, scale: Scale) -> None:
        self.scale, self.names = scale, _names(scale)
        names = _alternatives(name for name in self.names if len(name) <= _LONGEST_NAME)
        self._name = re.compile(rf"{_OPEN}({names}){_CLOSE}(?!\w)", re.IGNORECASE)
        self.interval = scale.level == "interval"
        self.codes: dict[object, Code] = {code: code for code in scale.codes}
        self.binary = set(scale.codes) == {0, 1}
        self.exact = {
            text: Parsed(code)
            for code in scale.codes
            for plain in (code_text(code),)
            for text in (plain, f"{plain}.", f" {plain}", f"{plain}\n", f"**{plain}**")
        }

    def value(self, value: object) -> Reading:
        """The reading of a JSON value."""
        if isinstance(value, bool):
            return Reading(int(value)) if self.binary else UNREADABLE
        if isinstance(value, (int, float)):
            return self._on_scale(value)
        if isinstance(value, str):
            return self.labelled(value) or UNREADABLE
        return UNREADABLE

    def labelled(self, piece: str) -> Reading | None:
        """The reading of the text after a label or under a key: an answer, or one that begins the piece."""
        return self.whole(piece) or self.leading(piece) or self._named(piece)

    def _named(self, piece: str) -> Reading | None:
        """A level's description with an explanation after it: ``Fully supported: all facts hold``."""
        found = self._name.match(piece[:LONGEST])
        if found is None or not _NAME_TAIL.match(piece, found.end()):
            return None
        code = self.names.get(folded(found[1]))
        return None if code is None else Reading(code, None, found.end())

    def whole(self, piece: str) -> Reading | None:
        """The reading of a piece that is an answer and nothing else, or None."""
        if len(piece) > LONGEST:
            return None
        found = _ANSWER.match(piece)
        if found and _END.match(piece, found.end()):
            return self._read(found)
        if found and _RIVAL.match(piece, found.end("close")) and not found["most"]:
            return AMBIGUOUS
        plain = piece.strip(_DECORATION)
        if _NOT_FINITE.match(plain):
            return OFF_SCALE
        name = folded(plain)
        if name in self.names:
            return Reading(self.names[name], None, len(piece))
        named = _NAMED.match(piece.strip())
        if named and (folded(named[1]) in self.names or len(named[1].split()) <= 3):
            return self._agreed(named, len(piece))
        prose = _PROSE.match(plain)
        if prose and (folded(prose[1]).strip(_DECORATION) in self.names or folded(prose[1]) in _YES):
            return self._agreed(prose, len(piece))
        return AMBIGUOUS if _PAIR.search(piece) and len(plain) <= 60 else None

    def _agreed(self, found: re.Match[str], end: int) -> Reading:
        """A name and a number beside it; ambiguous if the name belongs to another level."""
        reading = self._on_scale(_value(found[2]), end)
        name = self.names.get(folded(found[1]).strip(_DECORATION))
        return reading if name is None or name == reading.code else AMBIGUOUS

    def leading(self, piece: str) -> Reading | None:
        """The reading of a piece that begins with an answer, set off from what follows, or None."""
        piece = piece[:LONGEST]
        found = _ANSWER.match(piece)
        if not found:
            return None
        if _RIVAL.match(piece, found.end("close")) and not found["most"]:
            return AMBIGUOUS
        if not found["unit"] and found["number"].lower() in WORDS:
            return None
        if _TAIL.match(piece, found.end()) or _END.match(piece, found.end()):
            reading = self._read(found)
            name = self.names.get(folded(piece[found.end() :]).strip(_DECORATION + "-–—"))
            return AMBIGUOUS if name is not None and reading is not None and name != reading.code else reading
        return None

    def lead(self, piece: str) -> Reading | None:
        """The reading of what a piece begins with, whatever follows it; None for a number cut in two."""
        found = _ANSWER.match(piece)
        if not found or _MORE_DIGITS.match(piece, found.end()):
            return None
        return AMBIGUOUS if _RIVAL.match(piece, found.end("close")) and not found["most"] else self._read(found)

    def _read(self, found: re.Match[str]) -> Reading | None:
        token = found["number"].lower()
        value = WORDS.index(token) if token in WORDS else _value(token)
        if value is None:
            return None
        if found["most"] is not None and _value(found["most"]) != self.scale.highest:
            return Reading(None, "off_scale", found.end())
        return self._on_scale(value, found.end())

    def _on_scale(self, value: float | None, end: int = 0) -> Reading:
        if value is None:
            return UNREADABLE
        code = self.scale.code(value) if self.interval else self.codes.get(value)
        return Reading(code, None if code is not None else "off_scale", end)


def _value(token: str) -> float | None:
    # "1,000" may be a thousand or one: neither is read
    if re.fullmatch(r"[+\-−]?[1-9]\d{0,2},\d{3}", token):
        return None
    return float(token.replace(",", ".").replace("−", "-"))


class LabelReader:
    """Reads answers of nominal scales."""

    def __init__(self, scale: Scale) -> None:
        self.scale = scale
        exact = {folded(str(code)): code for code in scale.codes}
        bare = {name.strip(_DECORATION): code for name, code in reversed(exact.items())}  # of equal ones the first
        self.map: dict[str, Code] = _names(scale) | bare | exact
        self.map.pop("", None)
        self.codes: dict[object, Code] = {code: code for code in scale.codes}
        self.exact = {text: Parsed(code) for code in scale.codes for text in (str(code), f"{code}.", f"**{code}**")}
        names = (name for name in _names(scale) if len(name) <= _LONGEST_NAME)
        labels = _alternatives([*map(str, scale.codes), *names])
        self._label = re.compile(rf"{_OPEN}({labels}){_CLOSE}(?!\w)", re.IGNORECASE)
        self._rival = re.compile(
            rf"\s{{0,3}}(?:[-–—/|,;&+]|(?:or|and|или|и|либо)\b)\s{{0,3}}{_OPEN}({labels})(?!\w)", re.IGNORECASE
        )

    def value(self, value: object) -> Reading:
        """The reading of a JSON value."""
        if isinstance(value, (int, float)):
            if isinstance(value, int) and abs(value) > 2**63:  # more than a float can hold
                return OFF_SCALE
            text = str(value).casefold() if isinstance(value, bool) else code_text(value)
            code = self.map.get(text)
            return Reading(code) if code is not None else UNREADABLE if isinstance(value, bool) else OFF_SCALE
        if not isinstance(value, str) or not value.strip():
            return UNREADABLE
        return self.labelled(value) or OFF_SCALE

    def labelled(self, piece: str) -> Reading | None:
        """The reading of the text after a label or under a key: an answer, or one that begins the piece."""
        return self.whole(piece) or self.leading(piece)

    def whole(self, piece: str) -> Reading | None:
        """The reading of a piece that is an answer and nothing else, or None."""
        if len(piece) > LONGEST:
            return None
        name = folded(piece)
        code = self.map.get(name)
        if code is None:
            name = name.strip(_DECORATION)
            code = self.map.get(name) or self.map.get(_KIND.sub("", name).strip(_DECORATION))
        if code is not None:
            return Reading(code, None, len(piece))
        found = self._label.match(piece)
        if found and self._has_rival(found, piece):
            return AMBIGUOUS
        return OFF_SCALE if name.isalnum() and len(name) <= 3 else None

    def leading(self, piece: str) -> Reading | None:
        """The reading of a piece that begins with a label, set off from what follows, or None."""
        piece = piece[:LONGEST]
        found = self._label.match(piece)
        if not found:
            return None
        if self._has_rival(found, piece):
            return AMBIGUOUS
        if _END.match(piece, found.end()) or _LABEL_TAIL.match(piece, found.end()):
            return self._read(found)
        return None

    def lead(self, piece: str) -> Reading | None:
        """The reading of the start of a piece, whatever follows it."""
        found = self._label.match(piece)
        if not found or (found[1][-1].isdigit() and _MORE_DIGITS.match(piece, found.end())):
            return None
        return AMBIGUOUS if self._has_rival(found, piece) else self._read(found)

    def _has_rival(self, found: re.Match[str], piece: str) -> bool:
        """Whether another level follows: ``A or B``, ``A: Answer B is better``; not ``tie - both are equal``."""
        rival = self._rival.match(piece, found.end())
        name = folded(rival[1] if rival else piece[found.end() :].strip(_DECORATION))
        return name in self.map and self.map[name] != self.map.get(folded(found[1]))

    def _read(self, found: re.Match[str]) -> Reading | None:
        # the pattern takes "ı" for "i", comparing folded texts does not
        code = self.map.get(folded(found[1]))
        return None if code is None else Reading(code, None, found.end())


_KIND = re.compile(r"^(?:the )?(?:option|answer|response|output|assistant|label|choice|вариант|ответ)\s")
# no bracket and no dash without spaces: "A (short) answer is …" and "A-level …" are no labels
_LABEL_TAIL = re.compile(r"[.!;:,)](?=\s)|\s[-–—](?=\s)|\s{0,3}\n|\s(?:because|since|потому|так как)\b", re.IGNORECASE)

Reader = NumberReader | LabelReader
