"""Texts to try a regular expression on: a pattern that matches all of them is a check that cannot fail.

Some are the same for all patterns; the others are made of the pattern's own literals and classes. For ``(?!.*secret)``,
that is also the text ``secret``: a pattern that matches even what it seems to forbid forbids nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from evalkit.gate.computing_time import TooSlowError, can_limit, limited

# short ones first: a pattern that does not match them is not tried on the long ones
_PLAIN = ("", "a", "\n", "0", "-1", "a b\n\nC1", "<b>{}[]()", "!?.,;:'", "\x00\t", "Ж é 中 😀")
_LONG = ("a " * 20_000, "a\n" * 20_000, "a" * 100_000)
_SECONDS = 1.0
_MOST_TEXTS, _MOST_MEMBERS = 24, 12
_LONGEST = 5_000_000
_SHORT, _QUICK = 200, 1000
_CATEGORIES = {
    codes.CATEGORY_DIGIT: "0", codes.CATEGORY_NOT_DIGIT: "a", codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a", codes.CATEGORY_WORD: "a", codes.CATEGORY_NOT_WORD: "-",
}  # fmt: skip
_CHARACTERS = "a0 -Z\n_.😀"


def always_matches(pattern: re.Pattern[str]) -> bool:
    r"""Whether a pattern is found in every text that is tried; False too if that takes too long.

    Examples
    --------
    >>> [always_matches(re.compile(text)) for text in (r"a*", r"(?!.*secret)", r"^(?!.*secret)", r"\d")]
    [True, True, False, False]
    """
    own = _own(pattern)
    texts = list(_short_texts(own))
    try:
        with limited(_SECONDS):
            if not all(pattern.search(text) for text in texts if len(text) <= _QUICK):
                return False
    except TooSlowError:
        return False
    if not can_limit():
        return True
    try:  # an unanchored look-around takes a quadratic time: then the others decide
        with limited(_SECONDS):
            longer = [text for text in texts if len(text) > _QUICK]
            return all(pattern.search(text) for text in [*longer, *own.too_long, *_LONG])
    except TooSlowError:
        return True


def _short_texts(own: _Own) -> Iterator[str]:
    yield from _PLAIN
    yield from (text for text in own.shaped() if can_limit() or len(text) <= _SHORT)


def own_texts(pattern: re.Pattern[str]) -> Iterator[str]:
    """The texts that are made of a pattern's own parts."""
    return _own(pattern).shaped()


def _own(pattern: re.Pattern[str]) -> _Own:
    return _Own(parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))


class _Own:
    """Texts made of a pattern's own parts.

    Attributes
    ----------
    texts
        What it and each of its parts within look-arounds match, as far as that can be told from the form.
    members
        The characters that it names.
    too_long
        One more repetition than it allows.
    """

    def __init__(self, tree: Any) -> None:
        self.texts: list[str] = []
        self.members: list[str] = []
        self.too_long: list[str] = []
        self._groups: dict[int, list[str]] = {}
        self._note(self._sequence(tree))

    def shaped(self) -> Iterator[str]:
        """The texts and members: as they are, joined, and within other text."""
        made = list(dict.fromkeys([*self.texts, *self.members]))
        joined = [mark.join(order) for mark in ("", " ", "\n") for order in (made, made[::-1])]
        yield from (seen := dict.fromkeys([*made, *joined]))
        for text in [*made, *joined]:
            for variant in (text, text.upper(), text.lower()) if len(text) < _SHORT else (text,):
                for shaped in (variant, variant * 2, f"a{variant}a", f" {variant} ", f"\n{variant}\n"):
                    if shaped not in seen:
                        seen[shaped] = None
                        yield shaped

    def _note(self, texts: Iterable[str]) -> None:
        self.texts += [text for text in texts if text not in self.texts]

    def _sequence(self, tree: Any) -> list[str]:
        parts = [self._one(operator, argument) for operator, argument in tree]
        n = min(_MOST_TEXTS, max((len(part) for part in parts), default=1))
        columns = [list(islice(cycle(part), n)) for part in parts]
        return list(dict.fromkeys("".join(row)[:_LONGEST] for row in zip(*columns, strict=True))) or [""]

    def _one(self, operator: Any, argument: Any) -> list[str]:
        if operator in (codes.LITERAL, codes.NOT_LITERAL):
            self._name(chr(argument))
            if operator is codes.LITERAL:
                return [chr(argument)]
            return [next(one for one in _CHARACTERS if one != chr(argument))]
        if operator is codes.IN:
            return self._members(argument)
        if operator in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            return self._repeated(*argument)
        if operator in (codes.ASSERT, codes.ASSERT_NOT):
            self._note(self._sequence(argument[1]))
        if operator is codes.ANY:
            return ["x", " "]
        return self._groups.get(argument, [""]) if operator is codes.GROUPREF else self._of_parts(operator, argument)

    def _of_parts(self, operator: Any, argument: Any) -> list[str]:
        if operator is codes.BRANCH:
            found = [self._sequence(branch) for branch in argument[1]]
            self._note(text for texts in found for text in texts)
            return [text for row in zip(*(islice(cycle(texts), 2) for texts in found), strict=True) for text in row]
        if operator is codes.SUBPATTERN:
            texts = self._sequence(argument[-1])
            if argument[0] is not None:
                self._groups[argument[0]] = texts
            return texts
        if operator is codes.ATOMIC_GROUP:
            return self._sequence(argument)
        if operator is codes.GROUPREF_EXISTS:
            return [text for part in argument[1:] if part is not None for text in self._sequence(part)]
        return [""]  # a place, such as the start

    def _repeated(self, least: int, most: Any, tree: Any) -> list[str]:
        texts = self._sequence(tree)
        top = sys.maxsize if most is codes.MAXREPEAT else most
        counts = [n for n in dict.fromkeys((max(least, 1), least, least + 1)) if n <= top]
        repeated = [text * n for n in counts for text in texts[:4] if len(text) * n <= _LONGEST]
        if most is not codes.MAXREPEAT:
            self.too_long += [text * (most + 1) for text in texts[:4] if len(text) * (most + 1) <= _LONGEST]
        return repeated or [""]

    def _members(self, parts: Any) -> list[str]:
        named: list[str] = []
        for operator, argument in parts:
            if operator is codes.LITERAL:
                named.append(chr(argument))
            elif operator is codes.RANGE:
                named += [chr(argument[0]), chr(argument[1])]
            elif operator is codes.CATEGORY:
                named.append(_CATEGORIES.get(argument, "a"))
        for one in named[:_MOST_MEMBERS]:
            self._name(one)
        if parts and parts[0][0] is codes.NEGATE:
            return [one for one in _CHARACTERS if one not in named][:2] or ["x"]
        return named[:_MOST_MEMBERS]

    def _name(self, character: str) -> None:
        if character not in self.members:
            self.members.append(character)
