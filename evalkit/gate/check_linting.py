"""Patterns that are found in every text, JSON schemas that every value fits, and misspelt words of schemas."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalkit.gate.time_limit import TooSlowError, can_limit, limited

_TEXTS = (
    "",
    "a",
    '"0"',
    "\n",
    "-1.5, 42 %",
    "AA  bb\t\u4e2d \U0001f600",
    "I'm sorry, I can't help with that.",
    '{"a": [1, null]}',
    "<p class='b'>```{{x}}```</p>\n",
    "anna@example.org https://example.org/?a=1 +1 202 555 0123, 123-45-6789, 1234567890123456",
    "one two three\n" * 40,
    (
        "$5 €9.99 £3 2024-01-31 19:45 1999 2030 [1] **b** !!! error 5 is is \u041f\u0440\u0438\u0432\u0435\u0442 "
        "DE00000000000000000000 sk-AAAAAAAAAAAAAAAAAAAAAAAA"
    ),
    "# b\n\n\n\n- c AAAAAAAAAAAAAAAAAAAAAA aaaaaaaaaaaaaaaaaaaaaaaa 000000000000000000000000",
)
_LONG = "one two three " * 4_000 + "\none two three" * 4_000
_SYNTAX = re.compile(r"\(\?(?:<?[=!]|[:>#]|P?[<=>]?\w*[>)]|[a-zA-Z-]+:)|\\[A-Za-z0-9]|(?<!\\)[\^$.|?*+()\[\]{}]")
_SECONDS = 0.2
_VALUES: tuple[Any, ...] = (None, {}, [], 0, "text", True)
_LEAST_KINDS = 3
_BESIDE_VALIDATORS = frozenset({"$ref", "$defs", "definitions", "then", "else", "minContains", "maxContains"})
_BY_NAME = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentRequired", "dependentSchemas",
})  # fmt: skip


def matches_all(pattern: re.Pattern[str]) -> bool:
    r"""Whether a pattern is found in a dozen fixed texts, in each of its own words, and in these joined.

    False if the short texts take too long. The long text does not count if it takes too long.

    Examples
    --------
    >>> [matches_all(re.compile(text)) for text in (r"a*", r"(?!.*secret)", r"^(?!.*secret)", r"\d")]
    [True, True, False, False]
    """
    words = [re.sub(r"\\(.)", r"\1", word) for word in _SYNTAX.split(pattern.pattern) if word]
    joined = [separator.join([*words, *reversed(words)]) for separator in ("", " ", "\n")]
    try:
        with limited(_SECONDS):
            if not all(pattern.search(text) for text in [*_TEXTS, *words, *joined]):
                return False
    except TooSlowError:
        return False
    if not can_limit():
        return True
    try:
        with limited(_SECONDS):
            return pattern.search(_LONG) is not None
    except TooSlowError:  # an unanchored look-around takes a quadratic time
        return True


def accepts_all(fits: Callable[[Any], bool]) -> bool:
    """Whether null, {}, [], 0, a text and true fit a schema; False too if that cannot be decided."""
    return _n_accepted(fits, _VALUES) == len(_VALUES)


def takes_any_kind(schema: Mapping[str, Any], fits: Callable[[Any], bool]) -> bool:
    """Whether a schema without a type lets numbers, texts, lists or objects through, of which it says nothing."""
    return "type" not in schema and _n_accepted(fits, (42, "text", [], {})) >= _LEAST_KINDS


def _n_accepted(fits: Callable[[Any], bool], values: tuple[Any, ...]) -> int:
    """How many of the values fit; 0 if that takes too long, or cannot be decided."""
    try:
        with limited(_SECONDS):
            return sum(map(fits, values))
    except (TooSlowError, RecursionError):
        return 0
    except Exception:  # noqa: BLE001  # for a $ref that leads nowhere, the library raises anything
        return 0


def unknown_words(schema: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Words of a schema that its draft does not know and that look like a keyword, with that keyword.

    Examples
    --------
    >>> unknown_words({"type": "object", "requird": ["a"]}, frozenset({"type", "required"}))
    ["'requird' (did you mean 'required'?)"]
    """
    known |= _BESIDE_VALIDATORS
    keywords = {keyword.casefold(): keyword for keyword in known}
    found: dict[str, None] = {}
    for word in _words(schema, known):
        if word not in known and not word.startswith("x-"):
            near = difflib.get_close_matches(word.casefold().replace("_", ""), keywords, 1, 0.75)
            found |= {f"{word!r} (did you mean {keywords[keyword]!r}?)": None for keyword in near}
    return list(found)


def _words(schema: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """The words of a schema and of all schemas within it."""
    for word, value in schema.items():
        yield word
        if word not in known or word in ("const", "enum"):
            continue
        parts = value.values() if word in _BY_NAME and isinstance(value, Mapping) else [value]
        for part in value if isinstance(value, list) else parts:
            if isinstance(part, Mapping):
                yield from _words(part, known)
