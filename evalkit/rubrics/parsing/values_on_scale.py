"""Reading one answer off a scale: the short piece of a reply that holds the code, and what stands beside it."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from evalkit.core.lists_of_choices import Reason
from evalkit.rubrics.parsing import verdict_patterns as like
from evalkit.rubrics.parsing.quotation_marks import MARKS
from evalkit.rubrics.parsing.reply_cleanup import plain
from evalkit.rubrics.parsing.verdict_words import KINDS, TIED, TIES
from evalkit.rubrics.scales import Code, Scale, code_text

LONGEST = 200
"""Characters of the longest piece that can be an answer; longer ones are prose."""


class Parsed(NamedTuple):
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

_LONGEST_NAME, _LONGEST_UNUSUAL, _NEAR, _NEAR_END, _END_OF_TEXT, _FEW_WORDS = 60, 120, 90, 40, 10_000, 7
_TICKS, _CROSSES, _CIRCLES = "✅✔✓👍", "❌✗✘👎🚫", "🟠🟡🟢🟣🟤🔴🔵"
_PICTURES = {*map(chr, range(0x1F300, 0x1FB00)), "\ufe0f"}
# pictures that say nothing: a space stands for each
EMOJI = dict.fromkeys(map(ord, _PICTURES.difference(_TICKS, _CROSSES, _CIRCLES)), " ")
_WIDE = {0xFF01 + at: 0x21 + at for at in range(94)}
_SHOWN = _WIDE | EMOJI | dict.fromkeys(map(ord, _TICKS + _CROSSES), " ")
_BAD_NAME = re.compile(r"no|un|in|ir|fail|false|wrong|bad|poor|reject|не", re.IGNORECASE)


@lru_cache(maxsize=4096)
def folded(text: str) -> str:
    """Text as labels are compared: compatibility forms, case, white space, dashes and underscores do not matter."""
    text = unicodedata.normalize("NFKC", text).casefold().strip()
    return re.sub(r"(?<=\w)[\s_-]+(?=\w)|\s+", " ", text)


_LEAD = re.compile(r"([^\W\d_]+(?: [^\W\d_]+){0,2}):\s")
_DECORATION = " \t\r\n*_`()[]{}<>.,!:;#$\\" + MARKS


def _names(scale: Scale) -> dict[str, Code]:
    """Descriptions of the levels that belong to one level only, and the words before their colons (``Yes: …``)."""
    names = [folded(text).strip(_DECORATION) for text in scale.texts]
    leads = [lead[1] for name in names if (lead := _LEAD.match(name))]
    leads = leads if len({*leads} - {*names}) == len(scale.codes) else []
    pairs = [*zip(leads, scale.codes, strict=False), *zip(names, scale.codes, strict=False)]
    return {name: code for name, code in pairs if name and names.count(name) < 2}


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

    def is_other(self, code: Code | None) -> bool:
        """Whether it is on the scale, and another one than this."""
        return self.code is not None and self.code != code


class Reader:
    """Reads answers off a scale. What a key or label names that is one of the `inputs` is no answer."""

    def __init__(self, scale: Scale, inputs: frozenset[str] = frozenset()) -> None:
        self.scale, self.is_number, self.inputs = scale, scale.level != "nominal", inputs
        self.codes: dict[object, Code] = {code: code for code in scale.codes}
        self.binary = set(scale.codes) == {0, 1}
        plain = [code_text(code) for code in scale.codes]
        if self.is_number:
            self.names = ({"true": 1, "false": 0} if self.binary else {}) | _names(scale)
            names = _alternatives(self.names)
            also = rf"(?P<number>{like.NUMBER}|{like.one_of(like.WORDS)})"
            some = f"{like.DIGITS}|{'|'.join(like.WORDS)}"
        else:
            exact = {folded(text): code for text, code in zip(plain, scale.codes, strict=True)}
            bare = {name.strip(_DECORATION): code for name, code in reversed(exact.items())}  # of equal ones the first
            ties = {code for name, code in exact.items() if {*TIES} & {*name.split()}}
            self.tie = ties.pop() if len(ties) == 1 else None
            tied = {} if self.tie is None or "c" in exact else dict.fromkeys(TIED.split("|"), self.tie)
            self.names = tied | _names(scale) | bare | exact
            self.names.pop("", None)
            names = _alternatives([*self.names, *map(folded, plain)])
            also = rf"(?:the\s)?(?:{KINDS})\s+{like.OPEN}(?P<number>{names})(?!\w|[.,]\d)"
            some = rf"(?:(?:{KINDS})\s+)?(?:{names})"
        shapes = ("{}", "{}.", "**{}**", " {}", "{}\n")[: 5 if self.is_number else 3]
        texts = zip(plain, scale.codes, strict=True)
        self.exact = {shape.format(text): Parsed(code) for text, code in texts for shape in shapes}
        self._level = re.compile(
            rf"{like.OPEN}(?:(?P<name>{names})(?!\w|[.,]\d)|{also})(?P<close>{like.CLOSE})", re.IGNORECASE
        )
        self._mention = re.compile(rf"(?<![\w.,/-])(?:{some})(?!\w)", re.IGNORECASE)
        self._listed = re.compile(
            rf"[,;|.]\s{{1,3}}(?:and\s|but\s|и\s|а\s)?(?={like.OPEN}(?:{some})(?!\w))", re.IGNORECASE
        )

    # -- a level, wherever it stands

    def level(self, piece: str, at: int = 0) -> Level | None:
        """The level at a place of a text; None for a number or word cut in two."""
        found = self._level.match(piece, at)
        if found is None:
            return None
        end = found.end()
        if "<" in piece[at : found.start("close")] and piece[end : end + 1] == ">":
            end += 1
        name = found["name"] or ("" if self.is_number else found["number"])
        if name:
            # the pattern takes "ı" for "i", comparing folded texts does not
            code = self.names.get(folded(name))
            return None if code is None else Level(code, None, end, is_name=True)
        token = found["number"].lower()
        if not found["close"] and like.CUT_IN_TWO.match(piece, end) and not like.UNIT.match(piece, end):
            return None
        value = _value(token)
        if value is None:
            return None
        reading = self._on_scale(value)
        return Level(reading.code, reading.error, end, is_name=False, is_word=token in like.WORDS)

    def _on_scale(self, value: float | None, end: int = 0) -> Reading:
        if value is None:
            return UNREADABLE
        code = self.scale.code(value) if self.scale.level == "interval" else self.codes.get(value)
        return Reading(code, None if code is not None else "off_scale", end)

    def _alone(self, piece: str, at: int) -> Level | None:
        """The level at a place if it stands on its own: no article ``a``, and no word within a sentence."""
        level = self.level(piece, at)
        if level is None or not (level.is_name or level.is_word) or like.SET_OFF.match(piece, level.end):
            return level
        said = piece[at : level.end].strip(_DECORATION)
        if said in ("A", "a") or self.is_number:
            return level if said == "A" and like.BE.match(piece, level.end) else None
        is_sign = len(said) <= 2 or (
            len(str(level.code)) <= 2 and str(level.code).casefold() in said.casefold().split()
        )
        return level if is_sign else None

    def places(self, text: str, start: int, end: int) -> Iterator[int]:
        """Where a level may stand in a part of a text; one that is a number as a word only near its end."""
        for found in (like.BARE_NUMBER if self.is_number else self._mention).finditer(text, start, end):
            before = text[found.start() - 1 : found.start()]
            is_word = before.isalnum() and not "\u3040" <= before <= "\u9fff"  # no space: 应为3
            if not self.is_number or not (is_word or before in ("_", ".", ",", "/", "-")):
                yield found.start()
        if self.is_number:
            yield from (found.start() for found in like.NUMBER_WORD.finditer(text, max(start, end - _NEAR_END), end))

    def _others(self, text: str, code: Code | None, *, corrects: bool = False) -> Iterator[tuple[int, int]]:
        """Where a text names another level, set off from what follows; one that `corrects` may have a unit."""
        set_off = like.OF_CORRECTION if corrects else like.SET_OFF
        for at in self.places(text, 0, len(text)):
            level = self.level(text, at)
            if level is not None and not level.is_word and level.is_other(code) and set_off.match(text, level.end):
                yield at, level.end

    # -- the rule for all forms

    def beside(self, piece: str, level: Level, *, labelled: bool) -> Reading | None:
        """What a level at the start of a piece says, by what stands behind it; None if it is not set off from that.

        Directly behind it: unit, maximum, its own name. Then the end, a full stop and prose, or a colon, comma, dash or
        bracket, after which the next words decide. A bare name (not `labelled`) needs a clause there.
        """
        reading = self._behind(piece, level, labelled=labelled)
        if reading is None or reading.error == "ambiguous":
            return reading
        end, is_bare = reading.end, level.is_name and not labelled
        if like.END.match(piece, end) and not (is_bare and piece[end:].strip()[:1] in (":", ",")):
            return reading
        rival = like.OR.match(piece, end)
        if (rival is not None and self._alone(piece, rival.end())) or like.OPERATOR.match(piece, end):
            return AMBIGUOUS
        # behind 。 stands no space; of names it is not known what follows
        stop = like.STOP.match(piece, end) or (like.WIDE_STOP.match(piece, end) if self.is_number else None)
        if (
            stop is not None
            and piece[:end].strip(_DECORATION) in ("A", "a")
            and stop[0].isspace()
            and "\n" not in stop[0]
        ):
            return None  # "A verdict is impossible."
        if stop is not None:
            if self.scale.level == "interval" and like.SPLIT_NUMBER.match(piece, end):
                return AMBIGUOUS
            return AMBIGUOUS if self._taken_back(piece, stop.end(), level) else reading
        joint = like.JOINT.match(piece, end)
        if like.ATTRIBUTED.match(piece, end):
            return AMBIGUOUS
        if joint is None or like.RUNS_ON.match(piece, end):
            return None
        inner, rest = _joined(piece, joint)
        speaks = self._is_altered(inner, rest, level) or (level.is_name and self._is_denied(inner, level, is_bare))
        return AMBIGUOUS if speaks else reading

    def _behind(self, piece: str, level: Level, *, labelled: bool) -> Reading | None:
        """The reading of a level with its unit, its maximum and its own name, which end where it ends."""
        if (equation := self._equation(piece, level)) is not None:
            return equation
        reading, has_unit = Reading(level.code, level.error, level.end), False
        while not like.END.match(piece, reading.end):
            end = reading.end
            if (most := like.MOST.match(piece, end)) is not None:
                reading, has_unit = self._of(most, reading), True
            elif self.is_number and (unit := like.UNIT.match(piece, end)) is not None:
                reading, has_unit = reading._replace(end=unit.end()), True
            elif not self.is_number and len(str(level.code)) > 3 and (guard := like.GUARDS.match(piece, end)):
                reading = reading._replace(end=guard.end())
            elif labelled and (for_what := like.FOR.match(piece, end)) is not None:
                reading = reading._replace(end=for_what.end())
            elif (wins := like.WINS.match(piece, end)) is not None and bool(wins["fits"]) == self.is_number:
                reading = reading._replace(end=wins.end())
            else:
                joint = like.OWN.match(piece, end)
                at = joint.end() if joint else end
                if (equation := self._equation(piece, self.level(piece, at))) and equation.code == level.code:
                    return equation  # "tie: [[A=B]]"
                other = self._alone(piece, at) if piece[at : at + 1] != "\n" else None
                if other is None:
                    break
                is_same_twice = not (level.is_name or other.is_name) and level.is_word == other.is_word
                if other[:2] != level[:2] or is_same_twice:
                    return AMBIGUOUS._replace(end=other.end) if piece[end:at].strip() else None
                if not like.SET_OFF.match(piece, other.end):
                    break
                reading = reading._replace(end=other.end)
        return None if level.is_word and not has_unit and not like.END.match(piece, reading.end) else reading

    def _of(self, most: re.Match[str], reading: Reading) -> Reading:
        """A reading with a maximum behind it: off the scale if that is not the scale's."""
        highest = _value(most["most"] or most["top"] or most["points"])
        if self.is_number and highest == self.scale.highest:
            return reading._replace(end=most.end())
        return (OFF_SCALE if self.is_number else AMBIGUOUS)._replace(end=most.end())

    def _equation(self, piece: str, level: Level | None) -> Reading | None:
        """``A=B`` is the tie of the scale, ``A>B`` is A; None for what is no equation of two levels."""
        sign = None if level is None or self.is_number else like.SIGN.match(piece, level.end)
        other = None if sign is None else self.level(piece, sign.end())
        if level is None or sign is None or other is None or other.code == level.code:
            return None
        if not like.END.match(piece, other.end):
            return None
        if sign["sign"][0] in "<>":
            return Reading(level.code if sign["sign"][0] == ">" else other.code, None, other.end)
        return Reading(self.tie, None, other.end) if self.tie is not None else AMBIGUOUS._replace(end=other.end)

    def _taken_back(self, piece: str, at: int, level: Level) -> bool:
        """Whether prose behind a verdict holds another labelled verdict, a list of levels or a correction."""
        if level.is_name and not _is_yes(level) and like.SAID_NO.match(piece, at):
            return True
        line = piece[at:].partition("\n")[0]
        is_next_line = piece[at - 1 : at] == "\n"
        other = self.level(line)
        # "Score: 4. Good." tells why, whatever the scale calls good
        if other is not None and other.is_other(level.code) and (is_next_line or other.is_name == level.is_name):
            unit = like.UNIT.match(line, other.end) if self.is_number else None
            if like.END.match(line, unit.end() if unit else other.end):
                return True
        return not is_next_line and (self._is_listed(line, level) or self.is_retracted(line, level.code))

    def is_retracted(self, text: str, code: Code | None) -> bool:
        """Whether a text corrects a verdict: to another level, by another labelled one, or by points that it takes off.

        Of a long text, its ends. A score may be what is left, unless score and points are more than the maximum.
        """
        text = text if len(text) <= 2 * _END_OF_TEXT else f"{text[:_END_OF_TEXT]}\n{text[-_END_OF_TEXT:]}"
        for deduction in like.DEDUCTED.finditer(text):
            amount = next(filter(None, deduction.groups()))
            before = text[max(0, deduction.start() - _NEAR_END) : deduction.start() + 1]
            if not like.NO_DEDUCTION.search(before) and self.is_beyond(
                code, 1.0 if amount.lower() in ("a", "an") else _value(amount)
            ):
                return True
        rivals = self._others(text, code, corrects=True)
        return any(like.RETRACTED.search(text[max(0, start - 70) : start]) for start, _ in rivals)

    def is_rivalled(
        self, pieces: Iterable[str], code: Code | None, *, is_sentence: bool = False, is_echo: bool = False
    ) -> bool:
        """Whether a short line or sentence names another level, set off from what follows; in any language.

        A bullet, a box and a line with a label of its own do not, nor do yes and no. They do beside a weak verdict,
        which a sentence gives or a label that may name an input (`is_echo`), and so do a sentence that ends with
        another number, and a short one that holds another number or, beside such a label, another name.
        """
        is_weak = is_sentence or is_echo
        for piece in pieces:
            is_short = len(piece) <= _NEAR and len(piece.split()) <= _FEW_WORDS
            if not is_weak and (not is_short or like.OF_LIST.match(piece) or like.BOX.match(piece)):
                continue
            levels = {
                start: level for start in self.places(piece, 0, len(piece)) if (level := self.level(piece, start))
            }
            if not (self.is_number or is_echo) and any(level.code == code for level in levels.values()):
                continue  # "A beats B" compares
            for start, level in levels.items():
                is_unlike = level.is_word or level.is_name is self.is_number or (_is_yes(level) and not is_weak)
                is_sum = is_weak and piece[:start].endswith(" to ")  # "it comes to 4"
                is_compared = like.COMPARED.search(piece, max(0, start - 70), start) and not is_sum
                is_head = not piece[:start].strip(_DECORATION) and like.VALUED.match(piece, level.end)
                if is_unlike or is_compared or is_head or like.NEEDS.match(piece, level.end):
                    continue
                is_held = is_weak if self.is_number else is_echo and len(str(level.code)) > 2
                is_last = is_weak and self.is_number and like.END.match(piece, level.end) is not None
                is_named = is_short and (is_held or like.SET_OFF.match(piece, level.end) is not None)
                if level.is_other(code) and (is_named or is_last):
                    return True
        return False

    def is_beyond(self, code: Code | None, amount: float | None) -> bool:
        """Whether so many points more than a code are more than the scale has."""
        return isinstance(code, (int, float)) and bool(amount) and code + (amount or 0) > self.scale.highest

    def is_part(self, level: Code, code: Code) -> bool:
        """Whether what has a code may have another level, too: what is very good is good, and of five levels 4 is 3."""
        if isinstance(level, (int, float)) and isinstance(code, (int, float)) and self.scale.lowest < level < code:
            return True
        inner, outer = (folded(self.scale.get(number) or str(number)) for number in (level, code))
        return re.search(rf"\b{re.escape(inner)}\b", outer) is not None

    def is_contradicted(self, text: str, code: Code | None) -> bool:
        """Whether the text behind a verdict on a nominal scale says that another level wins, or that this one loses."""
        if self.is_number:
            return False
        if like.IS_WORSE.match(text):
            return True
        for at in self.places(text, 0, len(text)):
            level = self.level(text, at)
            if level is not None and level.is_other(code) and like.IS_BETTER.match(text, level.end):
                sentence = re.split(r"\n|[.!?][ \t]", text[max(0, at - _NEAR) : at])[-1]
                if like.CONCEDES.search(sentence) is None:
                    return True
        return False

    def has_other_maximum(self, text: str, start: int, end: int) -> bool:
        """Whether a text states a scale with another maximum, as in ``on a scale of 1 to 10``, for its verdict.

        That is in the verdict's sentence (from `start` to `end`), in one on scores, or on a line of its own.
        """
        if not self.is_number or self.scale.highest >= sys.float_info.max:
            return False
        for stated in like.STATED_MAXIMUM.finditer(text):
            most = 100 if stated["percent"] else _value(next(filter(None, stated.groups())))
            if most == self.scale.highest or (stated["points"] and most == len(self.scale.codes)):
                continue
            at = stated.end() - 1
            before = like.SENTENCE_END.split(text[max(0, stated.start() - _NEAR) : at])[-1]
            behind = like.SENTENCE_END.split(text[at : at + _NEAR])[0]
            first, last, sentence = at - len(before), at + len(behind), before + behind
            is_alone = sentence.strip(_DECORATION) == stated[0].strip(_DECORATION)
            if is_alone or (start <= last and end >= first) or like.ON_SCORES.search(sentence):
                return True
        return False

    def _is_listed(self, line: str, level: Level) -> bool:
        """Whether another level has a value of its own on the line: ``…; 2: facts``."""
        others = (self.level(line, found.end()) for found in self._listed.finditer(line))
        return any(other and other.is_other(level.code) and like.VALUED.match(line, other.end) for other in others)

    def _is_altered(self, inner: str, rest: str, level: Level) -> bool:
        """Whether the words joined to a level begin with what changes it, or name another level."""
        if (like.DENIED if level.is_name and not _is_yes(level) else like.ALTERED).match(inner):
            return True
        but = like.BUT.match(inner)
        other = self.level(inner, but.end()) if but is not None else None
        if other is not None and other.is_other(level.code):
            return True
        if like.OPERATOR.match(rest, len(inner) + 1) or self._is_listed(f", {rest}", level):
            return True
        return self.is_retracted(inner, level.code) or any(
            not (like.COMPARED.search(inner, max(0, start - 70), start) or like.NEEDS.match(inner, end))
            for start, end in self._others(inner[:_NEAR], level.code)
        )

    def _is_denied(self, inner: str, level: Level, is_bare: bool) -> bool:
        """Whether the words joined to a level's name deny it, or are no clause although the name has no label."""
        if _is_yes(level):
            return is_bare and len(inner.split()) < 2
        own = (
            at
            for at in self.places(inner, 0, len(inner))
            if (same := self.level(inner, at)) and same.code == level.code
        )
        if like.IS_NOT.match(inner) or any(like.NEGATION.search(inner, max(0, at - 70), at) for at in own):
            return True
        if {*TIES} & {*folded(str(level.code)).split()} and {*TIES} & {*folded(inner).split()}:
            return False
        least = 4 if re.search("[a-zA-Z]", inner) else 3
        weighs = len(str(level.code)) <= 2 and like.WEIGHED.match(inner) is not None
        return is_bare and (weighs or len(re.findall(r"\w+", inner)) < least)

    # -- pieces of a reply

    def value(self, value: object) -> Reading:
        """The reading of a JSON value."""
        if isinstance(value, str):
            nothing = UNREADABLE if self.is_number or not value.strip() else OFF_SCALE
            return self.read(like.NAMED.sub("", plain(value))) or nothing
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
        raw = piece
        if not piece.isascii():
            piece = piece.translate(_SHOWN)
        level = self.level(piece)
        found = None if level is None else self.beside(piece, level, labelled=labelled)
        if found is None or level is None or not level.is_name or raw is piece:
            return found or self._unusual(piece)
        marks, is_bad = {*raw[: level.end + 4]}, _BAD_NAME.match(str(level.code)) is not None
        return AMBIGUOUS if marks & {*(_TICKS if is_bad else _CROSSES)} else found

    def whole(self, piece: str) -> Reading | None:
        """The reading of a piece that is an answer and nothing else, or None."""
        if len(piece) > LONGEST:
            return None
        found = self.read(piece, labelled=False)
        if found is None or found.error == "ambiguous":
            return found if found is None or "\n" not in piece.strip() else None
        return found if like.END.match(piece.rstrip("*_` \n"), found.end) else None  # **No.**

    def lead(self, piece: str) -> Reading | None:
        """The reading of what a piece begins with, whatever follows it; None for a number cut in two."""
        level = self.level(piece)
        if level is None:
            return None
        rival = like.OR.match(piece, level.end)
        if rival is not None and piece[rival.end() - 1] != "/" and self._alone(piece, rival.end()):
            return AMBIGUOUS
        if piece[level.end : level.end + 1] == "%":
            return None
        reading = Reading(level.code, level.error, level.end)
        most = like.MOST.match(piece, level.end) if self.is_number else None
        return reading if most is None else self._of(most, reading)

    def _unusual(self, piece: str) -> Reading | None:
        """Pieces that do not begin with a level: ``Yes, 1``, ``between 1 and 2``, ``nan``, an unknown label."""
        if not self.is_number:
            name = folded(piece).strip(_DECORATION)
            is_short = name.isalnum() and len(name) <= 3 and name not in self.names
            return OFF_SCALE._replace(end=len(piece)) if is_short else None
        if len(piece) > _LONGEST_UNUSUAL:
            return None
        if like.NOT_FINITE.match(piece):
            return OFF_SCALE._replace(end=len(piece))
        found = like.PREFIXED.match(piece)
        word = folded(found["word"]) if found is not None else ""
        is_name = (
            found is not None
            and found["bracket"]
            and any(name in like.GOODNESS or name in self.names for name in word.split()[-1:])
        )
        if found is not None and (word in like.YES_WORDS or is_name):
            reading = self._on_scale(_value(found["number"]), len(piece))
            end = self.scale.highest if word in like.NO_WORDS else self.scale.lowest
            return AMBIGUOUS if word in like.YES_WORDS and reading.code == end else reading
        return AMBIGUOUS if len(piece) <= 60 and like.RANGE.search(piece) else None


def _is_yes(level: Level) -> bool:
    return folded(str(level.code)) in like.YES_WORDS


def _joined(piece: str, joint: re.Match[str]) -> tuple[str, str]:
    """The words joined to a level: up to the end of its bracket, and to the end of the line."""
    rest = piece[joint.end() :]
    rest = (rest if joint["bracket"] else rest.lstrip()).partition("\n")[0]
    return rest.partition({"(": ")", "[": "]"}.get(joint["bracket"] and joint[0].strip(), "\n"))[0], rest


def _value(token: str) -> float | None:
    if token.lower() in like.WORDS:
        return like.WORDS.index(token.lower())
    # "1,000" may be a thousand or one: neither is read
    if re.fullmatch(r"[+\-−]?[1-9]\d{0,2},\d{3}", token):
        return None
    return float(token.replace(",", ".").replace("−", "-"))
