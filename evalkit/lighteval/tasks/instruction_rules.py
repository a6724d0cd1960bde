"""Instructions that can be checked without a judge: counts, required and forbidden words, form, script."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

from evalkit.errors import InputError, listed

RULE_KEYS = ("rules_kept", "rules_all_kept")

_BULLET = re.compile(r"^\s*[-*•–]\s+\S")
_NUMBERED = re.compile(r"^\s*\d{1,3}[.)]\s+\S")
_FENCE = re.compile(r"^```\w*\s*\n(.*?)\n?```$", re.DOTALL)
_SCRIPTS = {"ru": "CYRILLIC", "en": "LATIN", "el": "GREEK"}
_MOSTLY = 0.8


def words(text: str) -> list[str]:
    """The words of a text: letters and digits, with hyphens and apostrophes inside.

    Examples
    --------
    >>> words("It's a well-known fact — 42.")
    ["It's", 'a', 'well-known', 'fact', '42']
    """
    return re.findall(r"\w+(?:[-'’]\w+)*", text)


def lines(text: str) -> list[str]:
    """The lines that are not blank."""
    return [line for line in text.splitlines() if line.strip()]


def paragraphs(text: str) -> list[str]:
    """The parts between blank lines."""
    return [part for part in re.split(r"\n\s*\n", text.strip()) if part.strip()]


def read_json(text: str) -> Any:
    """The JSON value of a text, in a code fence or bare; ValueError for anything else."""
    fenced = _FENCE.match(text.strip())
    try:
        return json.loads(fenced[1] if fenced else text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def script_share(text: str, language: str) -> float:
    """Share of a text's letters that are in a language's script (``ru``, ``en``, ``el``); NaN without letters.

    Raises
    ------
    InputError
        For any other language.

    Examples
    --------
    >>> script_share("Да, yes", "ru")
    0.4
    """
    if language not in _SCRIPTS:
        raise InputError(f"unknown language {language!r} of a rule; allowed: {listed(_SCRIPTS)}")
    letters = [letter for letter in text if letter.isalpha()]
    mine = sum(unicodedata.name(letter, "").startswith(_SCRIPTS[language]) for letter in letters)
    return mine / len(letters) if letters else math.nan


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def _has(text: str, part: str) -> bool:
    return part.casefold() in text.casefold()


def _holds_json(text: str, keys: Any) -> bool:
    try:
        value = read_json(text)
    except ValueError:
        return False
    return keys is True or (isinstance(value, dict) and sorted(value) == sorted(keys))


RULES: Mapping[str, Callable[[str, Any], bool]] = {
    "words": lambda text, value: len(words(text)) == value,
    "min_words": lambda text, value: len(words(text)) >= value,
    "max_words": lambda text, value: len(words(text)) <= value,
    "max_characters": lambda text, value: len(text.strip()) <= value,
    "lines": lambda text, value: len(lines(text)) == value,
    "paragraphs": lambda text, value: len(paragraphs(text)) == value,
    "bullets": lambda text, value: sum(bool(_BULLET.match(line)) for line in lines(text)) == value,
    "numbered": lambda text, value: sum(bool(_NUMBERED.match(line)) for line in lines(text)) == value,
    "contains": lambda text, value: all(_has(text, part) for part in _texts(value)),
    "lacks": lambda text, value: not any(_has(text, part) for part in _texts(value)),
    "lacks_word": lambda text, value: not {part.casefold() for part in _texts(value)} & set(words(text.casefold())),
    "times": lambda text, value: text.casefold().count(value["text"].casefold()) == value["n"],
    "starts_with": lambda text, value: text.strip().casefold().startswith(value.casefold()),
    "ends_with": lambda text, value: text.strip().casefold().endswith(value.casefold()),
    "json": _holds_json,
    "lowercase": lambda text, value: (text == text.lower()) is value,
    "uppercase": lambda text, value: (text == text.upper()) is value,
    "language": lambda text, value: script_share(text, value) >= _MOSTLY,
    "matches": lambda text, value: re.fullmatch(value, text.strip(), re.DOTALL) is not None,
}
"""Rule -> check of an answer with the rule's value. Required and forbidden texts are compared without case."""


def is_kept(rule: Mapping[str, Any], answer: str, question: str = "") -> bool | None:
    """Whether an answer keeps a rule, ``{"rule": name, "value": …}``; None: it cannot be checked here.

    Raises
    ------
    InputError
        For an unknown rule.

    Examples
    --------
    >>> is_kept({"rule": "max_words", "value": 3}, "One two three.")
    True
    """
    name = str(rule.get("rule"))
    if name == "ifeval":
        return _is_ifeval_kept(rule["id"], rule["value"], answer, question)
    if name not in RULES:
        raise InputError(f"unknown rule {name!r}; allowed: {listed(RULES, most=30)}")
    return bool(RULES[name](answer, rule["value"]))


def check_rules(answer: str, doc: Any) -> tuple[Mapping[str, float], str]:
    """`rules_kept`: share of the document's rules that are kept; `rules_all_kept`: whether all are.

    Rules that cannot be checked here do not count; a document with none that can has no figures.
    """
    rules = json.loads((doc.specific or {}).get("rules") or "[]")
    verdicts = [is_kept(rule, answer, doc.query) for rule in rules]
    known = [verdict for verdict in verdicts if verdict is not None]
    said = [
        f"{'broken' if verdict is False else 'unchecked'}: {_told(rule)}"
        for rule, verdict in zip(rules, verdicts, strict=True)
        if verdict is not True
    ]
    if not known:
        return dict.fromkeys(RULE_KEYS, math.nan), "; ".join(said) or "no_rules"
    return {"rules_kept": sum(known) / len(known), "rules_all_kept": float(all(known))}, "; ".join(said)


def _told(rule: Mapping[str, Any]) -> str:
    name = rule["id"] if rule["rule"] == "ifeval" else rule["rule"]
    return f"{name} {json.dumps(rule['value'], ensure_ascii=False)}"


def _is_ifeval_kept(name: str, value: Mapping[str, Any], answer: str, question: str) -> bool | None:
    """Check by LightEval's IFEval checkers; None if they lack a library or its data (langdetect, nltk)."""
    try:
        from lighteval.tasks.tasks.ifeval.instructions_registry import INSTRUCTION_DICT

        maker: Any = INSTRUCTION_DICT.get(name)
        if maker is None:
            return None
        instruction: Any = maker(name)
        instruction.build_description(**value)
        if "prompt" in (instruction.get_instruction_args() or {}):
            instruction.build_description(prompt=question)
        return bool(instruction.check_following(answer))
    except (ImportError, NameError, LookupError):  # a NameError is what its missing langdetect comes out as
        return None
