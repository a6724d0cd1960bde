"""Texts as claims: sentences reduced to stems, with numbers, dates, names and negations kept apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from evalkit.engine.providers.fake.lexicon import (
    DEMANDING,
    EN_ENDINGS,
    FORGIVING,
    MONTHS,
    NEGATIONS,
    NUMBER_WORDS,
    OPPOSITES,
    RU_ENDINGS,
    STOP,
    UNITS,
)

__all__ = ["Claim", "claims", "demand", "tokens"]

_SENTENCE = re.compile(
    r"(?<=[.!?…])[»\"')\]]*\s+|\n+|[;:]\s|\s[—–-]\s|,?\s(?:and|but|while|whereas|although)\s"
    r"|,\s(?:а|но|и|хотя|among|including|with|others?)\s"
)
_MULTIPLES = {"100": 100, "1000": 1000, "1000000": 1_000_000}
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*|[^\W\d_]+(?:['’-][^\W\d_]+)*")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """A word (case-folded) without its commonest English or Russian ending, at most 7 letters.

    Examples
    --------
    >>> stem("opening") == stem("opened") == stem("opens")
    True
    >>> stem("станция") == stem("станцию")
    True
    """
    word = word.replace("ё", "е").replace("’", "'").removesuffix("'s")
    endings = RU_ENDINGS if "а" <= word[0] <= "я" else EN_ENDINGS
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    if len(word) > 3 and word[-1] in "eyi":
        word = word[:-1]
    return word[:7]


def _number(token: str) -> str:
    if _THOUSANDS.fullmatch(token):
        token = token.replace(",", "")
    token = token.replace(",", ".")
    if token.count(".") == 1 and ":" not in token:
        token = token.rstrip("0").rstrip(".")
    return token.lstrip("0") or "0"


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence or clause.

    Attributes
    ----------
    text
        As written.
    stems
        Its content words, and its facts among them.
    facts
        Numbers, dates and names that have to match: stem -> as written. Those that start with a digit or
        ``month`` are figures.
    negated
        Whether it denies something. Two negations are one: Russian doubles them.
    sides
        Words of opposite meaning that it holds: pair -> side.
    """

    text: str
    stems: frozenset[str]
    facts: dict[str, str]
    negated: bool
    sides: dict[int, int]


def tokens(text: str) -> list[str]:
    """The words and numbers of a text, as written."""
    return _TOKEN.findall(text)


@lru_cache(maxsize=1_000)
def demand(text: str) -> int:
    """Demanding words less forgiving ones in the text of a level.

    Examples
    --------
    >>> demand("Every claim is supported"), demand("Mostly supported, minor gaps"), demand("Supported")
    (1, -2, 0)
    """
    words = {word.casefold() for word in tokens(text)}
    return len(words & DEMANDING) - len(words & FORGIVING)


@lru_cache(maxsize=20_000)
def claims(text: str) -> tuple[Claim, ...]:
    """The clauses of a text that hold at least one word."""
    text = _ISO_DATE.sub(lambda date: f"{date[1]} month{int(date[2])} {int(date[3])}", text)
    return tuple(claim for part in _SENTENCE.split(text) if part and (claim := _claim(part.strip())) is not None)


def _claim(text: str) -> Claim | None:
    stems: set[str] = set()
    facts: dict[str, str] = {}
    sides: dict[int, set[int]] = {}
    negated = False
    found = re.findall(r"month\d+|" + _TOKEN.pattern, text)
    figure = ""
    for place, token in enumerate(found):
        folded = token.casefold()
        if folded in NEGATIONS or folded.endswith(("n't", "n’t")):
            negated = True
            continue
        fact = _fact(token, folded, place)
        if fact is None and folded in STOP:
            continue
        if fact in _MULTIPLES and figure.isdigit():  # "forty thousand", "40 тыс." are one number
            stems.discard(figure)
            facts.pop(figure, None)
            fact = str(int(figure) * _MULTIPLES[fact])
        figure = fact if fact is not None and fact[0].isdigit() else ""
        root = fact or stem(folded)
        stems.add(root)
        if fact is not None:
            facts[fact] = token
        if (side := OPPOSITES.get(root) or OPPOSITES.get(folded)) is not None:
            sides.setdefault(side[0], set()).add(side[1])
    plain = {pair: both.pop() for pair, both in sides.items() if len(both) == 1}
    return Claim(text, frozenset(stems), facts, negated, plain) if stems else None


def _fact(token: str, folded: str, place: int) -> str | None:
    if token[0].isdigit():
        return _number(token)
    if folded.startswith("month") and folded[5:].isdigit():
        return f"month {folded[5:]}"
    known = NUMBER_WORDS.get(folded) or MONTHS.get(folded)
    if known is not None:
        return known
    acronym = len(token) > 1 and token.isupper()
    if folded in UNITS or acronym or (place > 0 and token[0].isupper() and folded not in STOP):
        return stem(folded)
    return None
