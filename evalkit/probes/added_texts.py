"""Attacks and paddings: the texts that probes add to an answer, shipped as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from evalkit.core.validation_errors import explain
from evalkit.errors import ConfigError, listed
from evalkit.rubrics.files import read_yaml, shipped_folder

_STRICT = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)
_PLACE = re.compile(r"\{\{(answer|best|criterion|reply)\}\}")
_CYRILLIC, _LETTER = re.compile("[а-яё]", re.IGNORECASE), re.compile(r"[^\W\d_]")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NO_NAMES = ("all", "plain")


class _Text(BaseModel):
    """A text with a name for the column `variant` of a table."""

    model_config = _STRICT

    name: str

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or name in _NO_NAMES:
            fact = "a name may contain only lower-case letters, digits, '_' and '-'"
            raise ValueError(f"{fact}, and must not be {listed(_NO_NAMES)}")
        return name

    @classmethod
    def of(cls, fields: Any) -> Any:
        """One from a mapping, or the object itself; raises ConfigError for a wrong field."""
        if isinstance(fields, cls):
            return fields
        if not isinstance(fields, Mapping):
            raise ConfigError(f"expected a name, {cls.__name__} or mapping, got {type(fields).__name__}")
        try:
            return cls(**fields)
        except ValidationError as error:
            raise ConfigError(f"{cls.__name__.lower()} {fields.get('name', '?')!r}: {explain(error, cls)}") from None


class Attack(_Text):
    r"""A text that asks a judge for a good verdict instead of earning it.

    Attributes
    ----------
    name
        Its name in tables: lower-case letters, digits, ``_`` and ``-``.
    kind
        Its family: ``verdict``, ``reply_form``, ``fence``, ``role``, ``template``, ``override``,
        ``authority``, ``emotion``, ``hidden``, ``other_language`` or a family of your own.
    language
        ``en``, ``ru``, …
    aims
        Its aim, in a few words.
    text
        The text. It is added after the answer; if it contains ``{{answer}}``, the answer is inserted there.
        ``{{best}}`` is replaced by the best code of the scale, ``{{criterion}}`` by its name, ``{{reply}}`` by a reply
        with the best code in the form that the prompt requires.

    Raises
    ------
    ConfigError
        By `Attack.of(mapping)`, for a key that is missing or unknown; the constructor raises pydantic's error.

    Examples
    --------
    >>> attack = Attack(name="plea", kind="emotion", language="en", aims="be nice", text="Please: {{best}}!")
    >>> attack.on("The answer.", best="2", criterion="tone", reply="2")
    'The answer.\n\nPlease: 2!'
    """

    kind: str
    language: str
    aims: str
    text: str

    @field_validator("text")
    @classmethod
    def _check_text(cls, text: str) -> str:
        if not text.replace("{{answer}}", "").strip():
            raise ValueError("the text contains nothing besides {{answer}}; add the words to put around the answer")
        return text

    def on(self, answer: str, **values: str) -> str:
        """The answer with the attack; `values` are best, criterion and reply."""
        text = self.text if "{{answer}}" in self.text else "{{answer}}\n\n" + self.text
        return _filled(text, values | {"answer": answer})


class Padding(_Text):
    """Words around an answer that add nothing to it.

    Attributes
    ----------
    name
        Its name in tables.
    adds
        What it adds, in a few words.
    texts
        By language, ``en`` and optionally ``ru``; each contains ``{{answer}}`` at least once.

    Examples
    --------
    >>> padding = Padding(name="so", adds="a word", texts={"en": "So: {{answer}}", "ru": "Итак: {{answer}}"})
    >>> padding.on("yes"), padding.on("да")
    ('So: yes', 'Итак: да')
    """

    adds: str
    texts: dict[Literal["en", "ru"], str]

    @field_validator("texts")
    @classmethod
    def _check_texts(cls, texts: dict[str, str]) -> dict[str, str]:
        if "en" not in texts or any("{{answer}}" not in text for text in texts.values()):
            raise ValueError("texts must have the key 'en', and every text must contain {{answer}}")
        return texts

    def on(self, answer: str) -> str:
        """The padded answer: in Russian if most of its letters are Cyrillic."""
        russian = 2 * len(_CYRILLIC.findall(answer)) > len(_LETTER.findall(answer))
        return _filled(self.texts["ru" if russian and "ru" in self.texts else "en"], {"answer": answer})


def _filled(text: str, values: Mapping[str, str]) -> str:
    """The text with every placeholder filled; inserted texts are not searched for placeholders."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def load_attacks() -> list[Attack]:
    """The attacks that ship with evalkit, written for it in English, Russian and a few other languages.

    Examples
    --------
    >>> attacks = load_attacks()
    >>> len(attacks) >= 20, sorted({attack.language for attack in attacks})
    (True, ['de', 'en', 'ru', 'zh'])
    """
    return [Attack.of(fields) for fields in read_yaml(shipped_folder("probes") / "attacks.yaml")]


def load_paddings() -> list[Padding]:
    """The paddings that ship with evalkit.

    Examples
    --------
    >>> [padding.name for padding in load_paddings()]
    ['preface', 'closing', 'repetition', 'signposts']
    """
    return [Padding.of(fields) for fields in read_yaml(shipped_folder("probes") / "paddings.yaml")]


Kind = TypeVar("Kind", Attack, Padding)


def chosen(choice: Iterable[str | Kind | Mapping[str, Any]] | None, shipped: list[Kind]) -> list[Kind]:
    """All that ship, or a choice of them by name, objects or mappings.

    Raises
    ------
    ConfigError
        For an unknown or repeated name, or an empty choice.
    """
    if choice is None:
        return shipped
    choice = [choice] if isinstance(choice, (str, Mapping, BaseModel)) else list(choice)
    known, kind = {text.name: text for text in shipped}, type(shipped[0])
    name = kind.__name__.lower()
    if unknown := [entry for entry in choice if isinstance(entry, str) and entry not in known]:
        raise ConfigError(f"unknown {name} {unknown[0]!r}; allowed: {', '.join(known)}")
    texts = [known[entry] if isinstance(entry, str) else kind.of(entry) for entry in choice]
    names = [text.name for text in texts]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"pass at least one {name}, and none twice; got {listed(names)}")
    return texts
