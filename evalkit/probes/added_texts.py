"""The texts that probes put around an answer: attacks and paddings, as data that ships with evalkit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from evalkit.core.resources import probes_folder
from evalkit.errors import ConfigError, listed
from evalkit.rubrics.yaml_files import read_yaml

__all__ = ["Attack", "Padding", "chosen", "load_attacks", "load_paddings"]

_STRICT = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)
_PLACE = re.compile(r"\{\{(answer|best|criterion|reply)\}\}")
_CYRILLIC, _LETTER = re.compile("[а-яё]", re.IGNORECASE), re.compile(r"[^\W\d_]")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_NO_NAMES = ("all", "plain")


class _Text(BaseModel):
    """What has a name that can stand in a table's column `variant`."""

    model_config = _STRICT

    name: str

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name) or name in _NO_NAMES:
            raise ValueError(f"a name has lower-case letters, digits, '_' and '-', and is not {listed(_NO_NAMES)}")
        return name

    @classmethod
    def of(cls, fields: Any) -> Any:
        """One from a mapping (or itself); ConfigError says what is wrong with it."""
        if isinstance(fields, cls):
            return fields
        if not isinstance(fields, Mapping):
            raise ConfigError(f"give a name, {cls.__name__} or a mapping, not {type(fields).__name__}")
        try:
            return cls(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "it"
            raise ConfigError(
                f"{cls.__name__.lower()} {fields.get('name', '?')!r}: {where}: {first['msg']}; "
                f"allowed keys are {', '.join(cls.model_fields)}"
            ) from None


class Attack(_Text):
    r"""A text that asks a judge for a good verdict instead of earning it.

    Attributes
    ----------
    name
        How tables call it: lower-case letters, digits, ``_`` and ``-``.
    kind
        What family it is of: ``verdict``, ``reply_form``, ``fence``, ``role``, ``template``, ``override``,
        ``authority``, ``emotion``, ``hidden``, ``other_language`` or one of your own.
    language
        ``en``, ``ru``, …
    aims
        What it tries, in a few words.
    text
        The text. It is added behind the answer, or put around it where it holds ``{{answer}}``. ``{{best}}`` stands
        for the best code of the scale, ``{{criterion}}`` for its name, ``{{reply}}`` for a reply with the best
        code in the form that the judge is asked for.

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
            raise ValueError("the text says nothing of its own")
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
        How tables call it.
    adds
        What it adds, in a few words.
    texts
        By language, ``en`` and if wanted ``ru``; each holds ``{{answer}}`` once or more.

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
            raise ValueError("texts needs 'en', and each text the place of the answer: {{answer}}")
        return texts

    def on(self, answer: str) -> str:
        """The padded answer: in Russian if most of its letters are Cyrillic."""
        letters = len(_LETTER.findall(answer))
        russian = 2 * len(_CYRILLIC.findall(answer)) > letters
        return _filled(self.texts["ru" if russian and "ru" in self.texts else "en"], {"answer": answer})


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Each place filled once: what is put in is not read again."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def load_attacks() -> list[Attack]:
    """The attacks that ship with evalkit, written for it in English, Russian and a few other languages.

    Examples
    --------
    >>> attacks = load_attacks()
    >>> len(attacks) >= 20, sorted({attack.language for attack in attacks})
    (True, ['de', 'en', 'ru', 'zh'])
    """
    return [Attack.of(fields) for fields in read_yaml(probes_folder() / "attacks.yaml")]


def load_paddings() -> list[Padding]:
    """The paddings that ship with evalkit.

    Examples
    --------
    >>> [padding.name for padding in load_paddings()]
    ['preface', 'closing', 'repetition', 'signposts']
    """
    return [Padding.of(fields) for fields in read_yaml(probes_folder() / "paddings.yaml")]


Kind = TypeVar("Kind", Attack, Padding)


def chosen(given: Iterable[str | Kind | Mapping[str, Any]] | None, shipped: list[Kind]) -> list[Kind]:
    """All that ship, or those given by name, by themselves or as mappings.

    Raises
    ------
    ConfigError
        For an unknown or doubled name, or none at all.
    """
    if given is None:
        return shipped
    if isinstance(given, (str, Mapping, BaseModel)):
        given = [given]
    known, kind = {one.name: one for one in shipped}, type(shipped[0])
    found: list[Kind] = []
    for one in given:
        if isinstance(one, str) and one not in known:
            raise ConfigError(f"there is no {kind.__name__.lower()} {one!r}; there are {', '.join(known)}")
        found.append(known[one] if isinstance(one, str) else kind.of(one))
    names = [one.name for one in found]
    if not names or len(set(names)) < len(names):
        what = f"{kind.__name__.lower()}s"
        raise ConfigError(f"give one or more {what}, each once; got {listed(names)}")
    return found
