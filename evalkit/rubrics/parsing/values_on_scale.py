"""Reading one answer off a scale: the short piece of a reply that holds the code, and what stands beside it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from evalkit.core.lists_of_choices import Reason
from evalkit.rubrics.parsing.quotation_marks import CLOSING, MARKS, OPENING
from evalkit.rubrics.parsing.verdict_words import (
    ALTERS, BECAUSE, COMPARES, DENIES, KINDS, NOT_A_VERDICT, RETRACTS, TIES, UNITS, VERDICT_WORDS, WEIGHS, YES_NO,
)  # fmt: skip
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


OFF_SCALE = Reading(None, "off_scale")
AMBIGUOUS = Reading(None, "ambiguous")
UNREADABLE = Reading(None, "unreadable")

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def one_of(words: Iterable[str]) -> str:
    """A pattern for one of these words or patterns, whole."""
    return rf"(?:{'|'.join(words)})\b"


# "<" only around the answer: "<3" is a bound
_OPEN = rf"(?:\$?\\(?:boxed|text|mathbf|textbf)\{{|<(?=[^<>\s]{{1,60}}>)|[\s*_`(\[{{{OPENING}]){{0,12}}"
_CLOSE = rf"[*_`)\]}}{CLOSING}]{{0,12}}\$?"
_DIGITS = r"(?:\d+(?:[.,]\d+)?|[.,]\d+)"
_NUMBER = rf"[+\-−]?{_DIGITS}"
_CUT_IN_TWO = re.compile(r"\w|[.,:]\d|[  ']\d")
_UNIT = re.compile(rf"\s{{0,3}}-?{UNITS}{_CLOSE}", re.IGNORECASE)
# "4/5", "4 (out of 5)", "4 (strong match)/5", "4 on a scale of 1 to 5", "4 (1-5)"
_MOST = re.compile(
    rf"(?:\s{{0,3}}\((?P<gloss>[^()\n]{{1,60}})\))?(?P<open>\s{{0,3}}[(\[])?\s{{0,3}}"
    rf"(?:(?:/|out\s+of\s|of\s|из\s|max(?:imum)?\.?(?:\sof)?\s|on\s(?:a|the)\sscale\s(?:of|to)\s)\s{{0,3}}{_OPEN}(?P<most>{_DIGITS})"
    rf"|(?:(?:on\s)?(?:a\s|the\s)?scale\s(?:of\s|from\s)|(?:по\s)?шкале\s(?:от\s)?|on\s(?:a|the)\s|(?(open)|(?!)))"
    rf"{_DIGITS}\s?(?:-|–|—|to|до)\s?(?P<top>{_DIGITS})(?:\sscale)?|on\s(?:a|the)\s(?P<points>{_DIGITS})-point\sscale)"
    rf"(?!\w|[.,]\d|\s?[-–]\s?\d){_CLOSE}",
    re.IGNORECASE,
)
_FOR = re.compile(
    r"\s(?:from\s(?:me|us)|overall|in total|(?:for|in terms of|on|за|по)\s(?:\w{1,20}\s){0,2}\w{1,20})"
    r"(?=[.;:!]|,(?!\s\d)|\s(?:because|since|as)\b|\s[-–—(]|\s?\n|\s{0,3}\Z)",
    re.IGNORECASE,
)
_END = re.compile(r"[\s.!;:,。…]*\Z")
_OWN = re.compile(r"[^\S\n]{0,3}(?:[-–—:=,;]{1,2}\s{0,3}|[(\[]\s{0,2})?")
_SET_OFF = re.compile(r"\s{0,3}(?:[.,;:!?)\]|…/<*]|\Z|\n|[-–—](?=\s)|\b(?:because|since|потому|so)\b)")
_OR = re.compile(
    r"[^\S\n]{0,3}(?:[-–—/|,;&+]|(?:or|to|and|vs\.?|versus|или|до|и|либо)\b)\s{0,3}(?:an?\s)?", re.IGNORECASE
)
_SIGN = re.compile(r"\s{0,3}(?P<sign>=+|≈|≡|>+|<+)\s{0,3}")
_OPERATOR = re.compile(
    r"\s{0,3}(?:[%‰+×÷=≤≥≈≡~^±√→⇒>]|-{1,2}>|<(?![/|!a-z])|[*x]\s?\d|[-−]\s?\d|(?:plus|minus|times|less|percent|per\scent|процент\w*|минус|плюс)\b)",
    re.IGNORECASE,
)
_STOP = re.compile(rf"[.!。…](?!\d)(?!\w)|\s{{0,3}}\n|\s{{0,3}}<(?=[/|!a-z])|,?\s{{1,2}}{BECAUSE}", re.IGNORECASE)
_JOINT = re.compile(
    r"\s{0,3}[:,;](?!\d)|\s{1,3}[-–—]{1,2}(?=\s|\w)|[-–—]{1,2}(?=\s)|[–—](?=\w)|\s{0,3}(?P<bracket>[(\[])"
)
_RUNS_ON = re.compile(r"\s{0,3}[(\[][^()\[\]\n]{0,80}[)\]]\s(?!(?:because|since|as|so|but|and|for|due)\b)[a-zа-яё]")
_YES = rf"{one_of(YES_NO.split())}(?=\W*\Z|\s{{0,2}}[.,;:!)\]…]|\s[-–—]\s)"
_QUANTITY = rf"[+\-−<>=≈~]{{0,2}}\s?{_DIGITS}"
_MARKS = rf"[\s*_`(\[{OPENING}]{{0,6}}"
_ALTERED = re.compile(
    rf"{_MARKS}(?:{_QUANTITY}|{_YES}|{one_of(ALTERS)}|(?:{one_of(WORDS)}|{one_of(DENIES)})\W*\Z)", re.IGNORECASE
)
_DENIED = re.compile(rf"{_MARKS}(?:{_QUANTITY}|{_YES}|{one_of(ALTERS)}|{one_of(DENIES)})", re.IGNORECASE)
_WEIGHED = re.compile(
    rf"{_MARKS}(?:(?:it|this|that|he|she|which|the\s\w{{1,20}}|он|она|оно|это)\s)?(?:(?:is|was|seems|looks|has)\s)?"
    rf"(?:(?:much|far|clearly|slightly|rather|a bit|so|very|гораздо|намного)\s)?(?:the\s)?{one_of(WEIGHS)}(?!,?\s(?:than|чем))|.{{0,40}}\b(?:worse|weaker|хуже|слабее),?\s(?:than|чем)",
    re.IGNORECASE,
)
_BUT = re.compile(rf"{_MARKS}(?:but|though|although|yet|and|но|а|хотя)\s(?:an?\s(?=\d))?", re.IGNORECASE)
_IS_NOT = re.compile(r"\W{0,4}(?:\w{1,20}\s){0,3}(?:is|does|was|did|do|are)(?:\snot|n['’]t)\W*\Z", re.IGNORECASE)
_SAID_NO = re.compile(rf"[.…]{{0,3}}{_MARKS}(?:{_YES}|(?:not|never|hardly|не)\b(?:\s\w{{1,20}})?\W*\Z)", re.IGNORECASE)
_LABEL = rf"(?:{'|'.join(VERDICT_WORDS)})[*_`\"]{{0,4}}(?:\s{{0,3}}[:：=]|\s(?:is|now|to))"
_RETRACTED = re.compile(
    rf"(?:(?:\A|[.!?;,:(\n—–-])\W{{0,4}}(?:or\s)?{one_of(RETRACTS)}(?:[^.!?\n]{{0,50}}|\W{{0,4}})|(?<!\w){_LABEL}[ \t*_`]{{0,4}}(?:an?\s)?)\Z",
    re.IGNORECASE,
)
_COMPARED = re.compile(rf"(?<!\w){one_of(COMPARES)}\s(?:\w{{1,20}}\s){{0,4}}\Z", re.IGNORECASE)
_WOULD = re.compile(r"\W{0,3}(?:would|needs?|requires?|demands?|means|calls|потребовал\w*|нуж\w+)\b", re.IGNORECASE)
NO_LABEL = re.compile(rf"(?<!\w){one_of(NOT_A_VERDICT)}", re.IGNORECASE)
_RANGE = re.compile(
    rf"(?:between|either|from|both|от|между|либо|или)\s{_OPEN}{_NUMBER}{_CLOSE}\s(?:and|or|to|и|или|до|либо)\s",
    re.IGNORECASE,
)
_NOT_FINITE = re.compile(rf"{_OPEN}[+\-−]?(?:nan|inf(?:inity)?|∞){_CLOSE}[\s.!]*\Z", re.IGNORECASE)
# "Yes, 1" and "Rather good (4)": yes or no, or a few words, and a number
_PREFIXED = re.compile(
    rf"{_OPEN}(?P<word>[^\d\n()]{{1,60}}?){_CLOSE}\s?(?:[,;:–—-]\s?|(?P<bracket>\(\s?)){_OPEN}(?P<number>{_NUMBER}){_CLOSE}[\s.!]*\Z"
)
_YES_WORDS = frozenset(YES_NO.split())
_LONGEST_NAME, _NEAR = 60, 90
_WIDE = {0xFF01 + at: 0x21 + at for at in range(94)}


def folded(text: str) -> str:
    """Text as labels are compared: compatibility forms, case, white space, dashes and underscores do not matter."""
    text = unicodedata.normalize("NFKC", text).casefold().strip()
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)|\s+", " ", text)


_DECORATION = " \t\r\n*_`()[]{}<>.,!:;#$\\" + MARKS


def _names(scale: Scale) -> dict[str, Code]:
    """Descriptions of the levels that belong to one level only."""
    names = [folded(text).strip(_DECORATION) for text in scale.texts]
    return {name: code for name, code in zip(names, scale.codes, strict=False) if name and names.count(name) == 1}


def _alternatives(names: Iterable[str]) -> str:
    """A pattern for one of these texts, the longest first; it matches nothing if there are none."""
    known = sorted({name for name in names if len(name) <= _LONGEST_NAME}, key=len, reverse=True)
    return "|".join(r"[\s_-]+".join(map(re.escape, name.split())) for name in known) or r"(?!)"


class Level(NamedTuple):
    """A level at some place of a text: its code, or why it is none, its end, and how it is written."""

    code: Code | None
    error: Reason | None
    end: int
    is_name: bool
    is_word: bool = False


class Reader:
    """Reads answers off a scale."""

    def __init__(self, scale: Scale) -> None:
        self.scale, self.is_number = scale, scale.level != "nominal"
        self.codes: dict[object, Code] = {code: code for code in scale.codes}
        self.names = _names(scale)
        self.binary = set(scale.codes) == {0, 1}
        plain = [code_text(code) for code in scale.codes]
        if self.is_number:
            forms = [(text, f"{text}.", f" {text}", f"{text}\n", f"**{text}**") for text in plain]
            if self.binary:
                self.names = {"true": 1, "false": 0} | self.names
            kind = rf"(?P<number>{_NUMBER}|{one_of(WORDS)})"
        else:
            forms = [(text, f"{text}.", f"**{text}**") for text in plain]
            exact = {folded(text): code for text, code in zip(plain, scale.codes, strict=True)}
            bare = {name.strip(_DECORATION): code for name, code in reversed(exact.items())}  # of equal ones the first
            self.names |= bare | exact
            self.names.pop("", None)
            kind = rf"(?:the\s)?(?:{'|'.join(KINDS.split())})\s+{_OPEN}(?P<called>{{names}})(?!\w|[.,]\d)"
        names = _alternatives([*self.names, *(folded(text) for text in plain if not self.is_number)])
        self.exact = {text: Parsed(code) for code, texts in zip(scale.codes, forms, strict=True) for text in texts}
        self._level = re.compile(
            rf"{_OPEN}(?:(?P<name>{names})(?!\w|[.,]\d)|{kind.replace('{names}', names)})(?P<close>{_CLOSE})",
            re.IGNORECASE,
        )
        some = (
            rf"{_DIGITS}|{'|'.join(WORDS)}" if self.is_number else rf"(?:(?:{'|'.join(KINDS.split())})\s+)?(?:{names})"
        )
        self._mention = re.compile(rf"(?<![\w.,/-])(?:{some})(?!\w)", re.IGNORECASE)
        self._listed = re.compile(rf"[,;|.]\s{{1,3}}(?:and\s|but\s|и\s|а\s)?(?={_OPEN}(?:{some})(?!\w))", re.IGNORECASE)

    # -- a level, wherever it stands

    def level(self, piece: str, at: int = 0) -> Level | None:
        """The level at a place of a text; None for a number or word cut in two."""
        found = self._level.match(piece, at)
        if found is None:
            return None
        end = found.end()
        if "<" in piece[at : found.start("close")] and piece[end : end + 1] == ">":
            end += 1
        name = found["name"] or (None if self.is_number else found["called"])
        if name is not None:
            # the pattern takes "ı" for "i", comparing folded texts does not
            code = self.names.get(folded(name))
            return None if code is None else Level(code, None, end, True)
        token = found["number"].lower()
        if not found["close"] and not _UNIT.match(piece, end) and _CUT_IN_TWO.match(piece, end):
            return None
        value = WORDS.index(token) if token in WORDS else _value(token)
        if value is None:
            return None
        reading = self._on_scale(value)
        return Level(reading.code, reading.error, end, False, token in WORDS)

    def _is_own(self, most: re.Match[str]) -> bool:
        """Whether a maximum is the scale's."""
        return self.is_number and _value(most["most"] or most["top"] or most["points"]) == self.scale.highest

    def _on_scale(self, value: float | None, end: int = 0) -> Reading:
        if value is None:
            return UNREADABLE
        code = self.scale.code(value) if self.scale.level == "interval" else self.codes.get(value)
        return Reading(code, None if code is not None else "off_scale", end)

    def _other(self, piece: str, at: int) -> Level | None:
        """A level that stands on its own at a place: no article ``a``, and no word within a sentence."""
        level = self.level(piece, at)
        if level is None or (
            level.is_name and not self._is_sign(piece, at, level) and not _SET_OFF.match(piece, level.end)
        ):
            return None
        return level

    def _is_sign(self, piece: str, at: int, level: Level) -> bool:
        """Whether a name is a sign such as ``B``, or ``answer B``, rather than a word."""
        said = piece[at : level.end].strip(_DECORATION)
        if said.casefold() == "a" or self.is_number:
            return _SET_OFF.match(piece, level.end) is not None or (
                said == "A" and re.match(r"\s(?:is|was|has|wins)\b", piece[level.end :]) is not None
            )
        return len(said) <= 2 or (len(str(level.code)) <= 2 and str(level.code).casefold() in said.casefold().split())

    def places(self, text: str, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Where a level may stand in a text."""
        return (found.start() for found in self._mention.finditer(text, start, len(text) if end is None else end))

    def others(self, text: str, code: Code | None) -> Iterator[tuple[int, int]]:
        """Where a text names another level on its own."""
        for at in self.places(text):
            level = self.level(text, at)
            if (
                level is not None
                and not level.is_word
                and level.code not in (None, code)
                and _SET_OFF.match(text, level.end)
            ):
                yield at, level.end

    def mentions(self, text: str, code: Code | None) -> bool:
        """Whether a text names another level, and not to compare with it: ``better than a 3``."""
        return any(
            not (_COMPARED.search(text, max(0, start - 70), start) or _WOULD.match(text, end))
            for start, end in self.others(text, code)
        )

    # -- the rule for all forms

    def beside(self, piece: str, level: Level, *, labelled: bool) -> Reading | None:
        """What a level at the start of a piece says, by what stands behind it; None if it is not set off from that.

        Directly behind it: unit, maximum, its own name. Then the end, a full stop and prose, or a colon, comma, dash or
        bracket, after which the next words decide. A bare name (not `labelled`) needs a clause there.
        """
        end, code = level.end, level.code
        if not self.is_number and (equation := self._equation(piece, level)) is not None:
            return equation
        has_unit = False
        while True:
            if (most := _MOST.match(piece, end)) is not None:
                has_unit, end = True, most.end()
                if not self._is_own(most):
                    is_set_off = _SET_OFF.match(piece, end) or _STOP.match(piece, end) or _UNIT.match(piece, end)
                    return (OFF_SCALE if self.is_number else AMBIGUOUS)._replace(end=end) if is_set_off else None
            elif self.is_number and not has_unit and (unit := _UNIT.match(piece, end)) is not None:
                has_unit, end = True, unit.end()
            elif labelled and (for_what := _FOR.match(piece, end)) is not None:
                end = for_what.end()
            else:
                joint = _OWN.match(piece, end)
                other = (
                    self._other(piece, joint.end()) if joint and piece[joint.end() : joint.end() + 1] != "\n" else None
                )
                if joint is None or other is None or other.is_word or level.is_word:
                    break
                is_joined = bool(joint[0].strip())
                if other.code != code or other.error != level.error or (not level.is_name and not other.is_name):
                    return AMBIGUOUS._replace(end=other.end) if is_joined else None
                if not _SET_OFF.match(piece, other.end):
                    break
                end = other.end
        if level.is_word and not has_unit and not _END.match(piece, end):
            return None
        reading = Reading(code, level.error, end)
        bare_name = level.is_name and not labelled
        if _END.match(piece, end) and not (bare_name and piece[end:].strip()[:1] in (":", ",")):
            return reading
        rival = _OR.match(piece, end)
        other = None if rival is None else self._other(piece, rival.end())
        if other is not None and (not other.is_word or _SET_OFF.match(piece, other.end)):
            return AMBIGUOUS
        if _OPERATOR.match(piece, end):
            return AMBIGUOUS
        stop = _STOP.match(piece, end)
        if stop is not None:
            return AMBIGUOUS if self._taken_back(piece, stop.end(), level) else reading
        joint = _JOINT.match(piece, end)
        if joint is None or _RUNS_ON.match(piece, end):
            return None
        return AMBIGUOUS if self._speaks_against(piece, joint, level, bare_name) else reading

    def _taken_back(self, piece: str, at: int, level: Level) -> bool:
        """Whether prose behind a verdict holds another labelled verdict, a list of levels or a correction."""
        line = piece[at:].lstrip("\n").partition("\n")[0] if "\n" not in piece[at - 1 : at] else ""
        if level.is_name and folded(str(level.code)) not in _YES_WORDS and _SAID_NO.match(piece, at):
            return True
        return bool(line) and (self._is_listed(line, level) or self.is_retracted(line, level.code))

    def is_retracted(self, text: str, code: Code | None) -> bool:
        """Whether a text corrects a verdict: to another level, or by another labelled one."""
        return any(_RETRACTED.search(text[max(0, start - 70) : start]) for start, _ in self.others(text, code))

    def _is_listed(self, line: str, level: Level) -> bool:
        """Whether another level has a value of its own on the line: ``…; 2: facts``."""
        for found in self._listed.finditer(line):
            other = self.level(line, found.end())
            if (
                other is not None
                and other.code not in (None, level.code)
                and re.match(r"\s{0,3}[:=(]|\s[-–—]\s", line[other.end :])
            ):
                return True
        return False

    def _speaks_against(self, piece: str, joint: re.Match[str], level: Level, bare_name: bool) -> bool:
        """Whether the words joined to a level by a colon, comma, dash or bracket change, deny or weigh it."""
        rest = piece[joint.end() :]
        rest = (rest.lstrip() if not joint["bracket"] else rest).partition("\n")[0]
        inner, _, behind = (
            rest.partition(")" if joint[0].strip() == "(" else "]") if joint["bracket"] else (rest, "", "")
        )
        is_yes = folded(str(level.code)) in _YES_WORDS
        if (_DENIED if level.is_name and not is_yes else _ALTERED).match(inner) or _OPERATOR.match(behind):
            return True
        but = _BUT.match(inner)
        other = self.level(inner, but.end()) if but is not None else None
        if other is not None and other.code not in (None, level.code):
            return True
        if (
            self._is_listed(f", {rest}", level)
            or self.is_retracted(inner, level.code)
            or self.mentions(inner[:_NEAR], level.code)
        ):
            return True
        if not level.is_name:
            return False
        if not is_yes and (_IS_NOT.match(inner) or self.is_denied(inner, level)):
            return True
        if TIES.intersection(folded(str(level.code)).split()) and TIES.intersection(folded(inner).split()):
            return False
        least = 2 if is_yes else 4 if re.search("[a-z]", inner, re.IGNORECASE) else 3
        return bare_name and (
            len(re.findall(r"\w+", inner)) < least
            or (not is_yes and len(str(level.code)) <= 2 and _WEIGHED.match(inner) is not None)
        )

    def is_denied(self, text: str, level: Level) -> bool:
        """Whether a text says no to the level itself: ``it is not harmful``."""
        names = "|".join(re.escape(str(name)) for name, code in self.names.items() if code == level.code)
        return (
            re.search(
                rf"\b(?:not|never|hardly|isn['’]?t|не)\s(?:\w{{1,20}}\s){{0,3}}(?:{names})(?!\w)", text, re.IGNORECASE
            )
            is not None
        )

    def _equation(self, piece: str, level: Level) -> Reading | None:
        """``A=B`` is the tie of the scale, ``A>B`` is A; None for what is no equation of two levels."""
        sign = _SIGN.match(piece, level.end)
        other = None if sign is None else self.level(piece, sign.end())
        if sign is None or other is None or other.code == level.code or not _END.match(piece, other.end):
            return None
        if sign["sign"][0] in "<>":
            return Reading(level.code if sign["sign"][0] == ">" else other.code, None, other.end)
        ties = {code for name, code in self.names.items() if TIES & {*name.split()}}
        return Reading(ties.pop(), None, other.end) if len(ties) == 1 else AMBIGUOUS._replace(end=other.end)

    # -- pieces of a reply

    def value(self, value: object) -> Reading:
        """The reading of a JSON value."""
        if isinstance(value, str):
            nothing = UNREADABLE if self.is_number or not value.strip() else OFF_SCALE
            return self.read(value) or nothing
        if self.is_number:
            if isinstance(value, bool):
                return Reading(int(value)) if self.binary else UNREADABLE
            return self._on_scale(value) if isinstance(value, (int, float)) else UNREADABLE
        if not isinstance(value, (int, float)):
            return UNREADABLE
        if isinstance(value, int) and abs(value) > 2**63:  # more than a float can hold
            return OFF_SCALE
        code = self.names.get(str(value).casefold() if isinstance(value, bool) else code_text(value))
        return Reading(code) if code is not None else UNREADABLE if isinstance(value, bool) else OFF_SCALE

    def read(self, piece: str, *, labelled: bool = True) -> Reading | None:
        """The reading of a piece that begins with an answer, such as the text after a label or under a key."""
        piece = piece[:LONGEST]
        if not piece.isascii():
            piece = piece.translate(_WIDE)
        level = self.level(piece)
        found = None if level is None else self.beside(piece, level, labelled=labelled)
        return found or self._unusual(piece)

    def whole(self, piece: str) -> Reading | None:
        """The reading of a piece that is an answer and nothing else, or None."""
        if len(piece) > LONGEST:
            return None
        found = self.read(piece, labelled=False)
        if found is None or found.error == "ambiguous":
            return found if found is None or "\n" not in piece.strip() else None
        return found if _END.match(piece, found.end) else None

    def lead(self, piece: str) -> Reading | None:
        """The reading of what a piece begins with, whatever follows it; None for a number cut in two."""
        level = self.level(piece)
        if level is None:
            return None
        rival = _OR.match(piece, level.end)
        if rival is not None and piece[rival.end() - 1] != "/" and self._other(piece, rival.end()):
            return AMBIGUOUS
        most = _MOST.match(piece, level.end) if self.is_number else None
        if most is not None and not self._is_own(most):
            return OFF_SCALE._replace(end=most.end())
        return (
            None
            if piece[level.end : level.end + 1] == "%"
            else Reading(level.code, level.error, most.end() if most else level.end)
        )

    def _unusual(self, piece: str) -> Reading | None:
        """Pieces that do not begin with a level: ``Yes, 1``, ``between 1 and 2``, ``nan``, an unknown label."""
        if not self.is_number:
            name = folded(piece).strip(_DECORATION)
            return (
                OFF_SCALE._replace(end=len(piece))
                if name.isalnum() and len(name) <= 3 and name not in self.names
                else None
            )
        if _NOT_FINITE.match(piece):
            return OFF_SCALE._replace(end=len(piece))
        found = _PREFIXED.match(piece)
        if found is not None and not NO_LABEL.search(found["word"]):
            word = folded(found["word"])
            if word in _YES_WORDS or (found["bracket"] and len(word.split()) <= 3):
                return self._on_scale(_value(found["number"]), len(piece))
        return AMBIGUOUS if len(piece) <= 60 and _RANGE.search(piece) else None


def _value(token: str) -> float | None:
    # "1,000" may be a thousand or one: neither is read
    if re.fullmatch(r"[+\-−]?[1-9]\d{0,2},\d{3}", token):
        return None
    return float(token.replace(",", ".").replace("−", "-"))
