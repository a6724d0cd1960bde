"""Scales: the answers that a criterion allows, their meanings, and which of them pass."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import orjson

from evalkit.core.lists_of_choices import BETTER, LEVELS, Better, Level
from evalkit.errors import RubricError, listed
from evalkit.tables.items import canonical_text

Code = int | float | str

_TOLERANCE = 1e-9
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")


def number(value: object) -> int | float | None:
    """A finite number from a number or its text (comma or point), integral ones as int; else None.

    Examples
    --------
    >>> number("2"), number(2.0), number("0,5"), number("two"), number(True)
    (2, 2, 0.5, None, None)
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        if "_" in value:  # Python would read 1_0 as ten
            return None
        value = value.strip().replace(",", ".")
    elif isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    if not math.isfinite(found):
        return None
    if isinstance(value, int):
        return value
    return int(found) if found.is_integer() else found


def has_thousands(text: str) -> bool:
    """Whether the comma of a number may stand before thousands as well as before decimals.

    Examples
    --------
    >>> [has_thousands(text) for text in ("1,000", "-12,345,678.5", "0,500", "1,5", "1.000")]
    [True, True, False, False, False]
    """
    return _THOUSANDS.fullmatch(text.strip()) is not None


def code_text(code: Code) -> str:
    """A code as text, as in `label` columns: ``2`` for 2 and 2.0, ``0.5`` for 0.5."""
    if isinstance(code, str):
        return code
    if isinstance(code, int):  # a reply's number may have more digits than a float
        return str(int(code))
    value = float(code)
    return str(int(value)) if value.is_integer() else repr(value)


@dataclass(frozen=True, slots=True)
class Scale(Mapping[Code, str]):
    """The answers that a criterion allows: a mapping from code to description.

    Attributes
    ----------
    codes
        Numbers in rising order (ordinal, interval) or texts in the order given (nominal). None if the scale is open:
        any number (interval) or any text (nominal) is an answer, and nothing has a place between two ends.
    texts
        The meaning of each code; empty if the scale was read from a table of `judge`.
    level
        ``nominal`` (texts without order), ``ordinal`` (only the listed numbers) or ``interval``
        (any number from the lowest to the highest code).
    better
        ``high`` (default) or ``low``: which end is the good one.
    pass_at
        A score passes at this value or better (``>=``; ``<=`` where low is better).
    pass_if
        The codes that pass; for nominal scales the only kind of pass rule.

    Raises
    ------
    RubricError
        For an empty scale, codes that do not fit the level, or a pass rule off the scale.

    Examples
    --------
    >>> scale = Scale.of({0: "invents", 1: "mostly supported", 2: "supported"}, pass_at=2)
    >>> scale.norm(1), scale.passed(2), scale.code("2"), scale.code(3)
    (0.5, True, 2, None)
    """

    codes: tuple[Code, ...]
    texts: tuple[str, ...] = ()
    level: Level = "ordinal"
    better: Better = "high"
    pass_at: int | float | None = None
    pass_if: tuple[Code, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.codes, tuple):
            raise RubricError(f"Scale takes its codes as a tuple, not {self.codes!r}; use Scale.of(…)")

    @classmethod
    def of(
        cls,
        levels: Mapping[Any, str | None] | Iterable[Any],
        *,
        level: Level | None = None,
        better: Better = "high",
        pass_at: Any = None,
        pass_if: Any = None,
    ) -> Scale:
        """A checked scale from a mapping code -> description; numeric codes may be given as text.

        As in `scale=`, ``(low, high)`` are the ends of an interval scale, and a list has codes, or words from bad to
        good, which a pass rule may name. Without a `level`, all others are ordinal.

        Examples
        --------
        >>> Scale.of((0, 100), pass_at=60).level, Scale.of(["bad", "ok", "good"], pass_at="ok").pass_at
        ('interval', 1)
        """
        for name, value, allowed in (("level", level or "ordinal", LEVELS), ("better", better, BETTER)):
            if value not in allowed:
                raise RubricError(f"invalid {name}: {value!r}; allowed: {', '.join(allowed)}")
        if isinstance(levels, (tuple, list, str)) and levels:
            from evalkit.rubrics.given_scales import scale_of

            base = scale_of(levels, level)
            scale = cls(base.codes, base.texts, base.level, better)
            if level not in (None, base.level):
                scale = cls.of(dict(base), level=level, better=better)
            if pass_at is None and pass_if is None:  # True passes, or False where low is better
                return scale._with_rule(base.pass_at and scale.codes[-1 if better == "high" else 0], base.pass_if)
            several = [pass_if] if isinstance(pass_if, str) else pass_if
            return scale._with_rule(
                scale._code_of_word(pass_at), several and [scale._code_of_word(word) for word in several]
            )
        if not isinstance(levels, Mapping) or not levels:
            is_empty = levels is None or isinstance(levels, (Mapping, list, tuple, str))
            fact = "the scale is empty" if is_empty else f"no scale is made of {type(levels).__name__}"
            raise RubricError(f"{fact}; expected a mapping from code to description, a list, or (low, high)")
        level = level or "ordinal"
        pairs = [
            (_code(code, level), "" if text is None else canonical_text(str(text))) for code, text in levels.items()
        ]
        if level != "nominal":
            pairs.sort(key=lambda pair: cast(float, pair[0]))
        codes = tuple(code for code, _ in pairs)
        folded = [code_text(code).casefold() for code in codes]
        if len(set(folded)) < len(folded):
            raise RubricError(f"duplicate code on the scale: {listed(codes)}")
        if len(codes) < 2:
            raise RubricError(f"the scale has only one level, {codes[0]!r}; add at least one more")
        return cls(codes, tuple(text for _, text in pairs), level, better)._with_rule(pass_at, pass_if)

    def _with_rule(self, pass_at: Any, pass_if: Any) -> Scale:
        if pass_at is not None and pass_if is not None:
            raise RubricError("pass_at and pass_if exclude each other; keep only one of them")
        if pass_at is not None:
            if self.level == "nominal":
                raise RubricError(
                    "pass_at cannot be used with a nominal scale, which has no order; use pass_if with a list of labels"
                )
            at = self.code(pass_at)
            if at is None:
                raise RubricError(f"pass_at {pass_at!r} is not on the scale; allowed: {self._allowed()}")
            pass_at = at
        if pass_if is not None:
            if isinstance(pass_if, str) or not hasattr(pass_if, "__iter__"):
                pass_if = [pass_if]
            found = [self.code(code) for code in pass_if]
            wrong = [given for given, code in zip(pass_if, found, strict=True) if code is None]
            if wrong or not found:
                raise RubricError(
                    f"pass_if {listed(wrong) if wrong else '[]'} is not on the scale; allowed: {self._allowed()}"
                )
            # in the scale's order: a set, or the same codes named otherwise, is the same rule
            order = self.codes.index if self.level == "nominal" else float
            pass_if = tuple(sorted(set(found), key=cast(Any, order)))
        return Scale(self.codes, self.texts, self.level, self.better, pass_at, pass_if)

    def _code_of_word(self, given: Any) -> Any:
        """The code of a description, where it is no code itself."""
        code = self.named(given) if isinstance(given, str) and self.code(given) is None else None
        return given if code is None else code

    def _allowed(self) -> str:
        shown = ", ".join(code_text(code) for code in self.codes)
        return f"any number from {shown}" if self.level == "interval" else shown

    # -- a mapping from code to text
    def __getitem__(self, code: Code) -> str:
        listed_code = self.code(code)
        if listed_code not in self.codes:
            raise KeyError(code)
        return self.texts[self.codes.index(listed_code)] if self.texts else ""

    def __iter__(self) -> Iterator[Code]:
        return iter(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    # -- what a value means on it
    def code(self, value: object) -> Code | None:
        """The code that `value` stands for, or None if it is off the scale.

        Nominal: case and white space do not matter, and ``1`` stands for the code "1", True for "true".
        Ordinal: only the listed codes. Interval: any number from the lowest to the highest code.
        """
        if self.level == "nominal":
            wanted = folded(value)
            if self.is_open:
                return canonical_text(value).strip() or None if isinstance(value, str) else wanted
            return next((code for code in self.codes if str(code).casefold() == wanted), None)
        found = number(value)
        if found is None:
            return None
        if self.level == "interval":
            return found if self.is_open or self.lowest <= found <= self.highest else None
        return found if found in self.codes else None

    def by_value(self, value: object) -> Code | None:
        """As `code`; on nominal scales a number also stands for the only code of its value ("1.0" for "1").

        Examples
        --------
        >>> topics = Scale.of({"1": "art", "2": "law"}, level="nominal")
        >>> topics.code("1.0"), topics.by_value("1.0")
        (None, '1')
        """
        code, found = self.code(value), None if isinstance(value, str) and has_thousands(value) else number(value)
        if code is None and found is not None and self.level == "nominal":
            same = [one for one in self.codes if number(one) == found]
            return same[0] if len(same) == 1 else None
        return code

    def named(self, text: str) -> Code | None:
        """The code whose description is this text (case does not matter); None if none or several have it."""
        wanted = text.strip().casefold()
        found = [code for code, words in self.items() if words and words.casefold() == wanted]
        return found[0] if len(found) == 1 else None

    @property
    def is_open(self) -> bool:
        """True if the codes, or the ends, are not known."""
        return not self.codes

    @property
    def lowest(self) -> float:
        """The lowest numeric code; NaN if the scale is open."""
        return math.nan if self.is_open else float(self.codes[0])

    @property
    def highest(self) -> float:
        """The highest numeric code; NaN if the scale is open."""
        return math.nan if self.is_open else float(self.codes[-1])

    @property
    def width(self) -> float:
        """The greatest difference of two scores; NaN if the scale is open. The scores of nominal scales are 0 to 1."""
        return 1.0 if self.level == "nominal" else self.highest - self.lowest

    @property
    def has_rule(self) -> bool:
        """True if the criterion has a pass rule."""
        return self.pass_at is not None or self.pass_if is not None

    @property
    def labels(self) -> tuple[str, ...]:
        """The codes as texts, as in `label` columns."""
        return tuple(code_text(code) for code in self.codes)

    def score(self, code: Code) -> float:
        """The score in rubric units; NaN on a nominal scale."""
        return math.nan if self.level == "nominal" else float(code)

    def norm(self, code: Code) -> float:
        """The score on 0-1, 1 being good; nominal: 1 or 0 by the pass rule, NaN without one; NaN if the scale is open.

        The mean of ordinal codes assumes that their steps are equal.
        """
        if self.level == "nominal":
            passed = self.passed(code)
            return math.nan if passed is None else float(passed)
        share = (float(code) - self.lowest) / (self.highest - self.lowest)
        return 1.0 - share if self.better == "low" else share

    def passed(self, code: Code) -> bool | None:
        """Whether a code passes; None if the criterion has no pass rule."""
        if self.pass_if is not None:
            return code in self.pass_if
        if self.pass_at is None:
            return None
        gap = float(code) - self.pass_at
        return gap >= -_TOLERANCE if self.better == "high" else gap <= _TOLERANCE

    def nearest(self, score: float) -> tuple[Code | None, bool]:
        """The listed code nearest to a score, and whether two are equally near (then the code is None).

        NaN has no nearest code, and an open scale has none. An interval scale of two codes has no tie: the codes are
        its ends, and a score half-way between them is a number as any other.
        """
        if math.isnan(score) or self.is_open:
            return None, False
        codes = [float(code) for code in self.codes]
        at = bisect_left(codes, score)
        around = codes[max(0, at - 1) : at + 1] or codes[-1:]
        gaps = [abs(code - score) for code in around]
        if len(gaps) == 2 and abs(gaps[0] - gaps[1]) <= _TOLERANCE:
            return None, self.level == "ordinal" or len(codes) > 2
        best = around[gaps.index(min(gaps))]
        return self.codes[codes.index(best)], False

    def around(self, score: float) -> tuple[str, str]:
        """The labels of the codes below and above a score that lies between two codes."""
        at = bisect_left([float(code) for code in self.codes], score)
        return self.labels[at - 1], self.labels[at]

    # -- as one cell of a table
    def to_json(self) -> str:
        """Codes and rules as compact JSON, for the `scale` column; descriptions are left out."""
        rule = {"pass_at": self.pass_at, "pass_if": self.pass_if}
        values = {name: value for name, value in rule.items() if value is not None}
        return orjson.dumps({"codes": self.codes, "better": self.better} | values).decode()

    @staticmethod
    @lru_cache(maxsize=1024)
    def from_json(level: Level, text: str) -> Scale:
        """The scale of a `level` and a `scale` cell (without descriptions, unless it has `texts`)."""
        values = orjson.loads(text)
        pass_if = values.pop("pass_if", None)
        codes, texts = tuple(values.pop("codes")), tuple(values.pop("texts", ()))
        return Scale(codes, texts, level, pass_if=None if pass_if is None else tuple(pass_if), **values)


def folded(value: object) -> str | None:
    """The text by which nominal codes are compared; None for a value that cannot be a code."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        found = number(value)
        return None if found is None else str(found)
    return canonical_text(value).strip().casefold() if isinstance(value, str) else None


def _code(code: object, level: Level) -> Code:
    if isinstance(code, bool) or code is None:
        raise RubricError(f"the scale's code {code!r} is neither a number nor a string; put it in quotes in YAML")
    if level == "nominal":
        text = canonical_text(str(code)).strip()
        if not text or len(text.splitlines()) > 1:
            raise RubricError(f"the scale's code {code!r} is empty or longer than one line")
        return text
    value = number(code)
    if value is None:
        raise RubricError(
            f"the scale's code {code!r} must be a number, because level is {level!r}; use level: nominal for codes "
            "that are strings"
        )
    return value
