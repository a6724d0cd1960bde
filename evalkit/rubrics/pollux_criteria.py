"""Criteria files as POLLUX publishes them: JSON, names and descriptions in Russian and English."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from evalkit.core.validation_errors import explain
from evalkit.errors import RubricError, listed
from evalkit.rubrics.criteria import Criterion

Language = Literal["ru", "en"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

_CRITICAL = "critical"
_STRICT = ConfigDict(extra="forbid", frozen=True)


class _Texts(BaseModel):
    model_config = _STRICT

    ru: Text | None = None
    en: Text | None = None


class _Scales(BaseModel):
    model_config = _STRICT

    ru: dict[str, Text] | None = None
    en: dict[str, Text] | None = None


class _Entry(BaseModel):
    """One criterion as published; `task`, `subtask1`, `subtask2` are null for criteria of every task."""

    model_config = _STRICT

    name: _Texts
    desc: _Texts = Field(default_factory=_Texts)
    scale: _Scales
    crit_group: _Texts = Field(default_factory=_Texts)
    domain: _Texts = Field(default_factory=_Texts)
    task: str | None = None
    subtask1: str | None = None
    subtask2: str | None = None


def load_pollux(
    path: str | Path, *, language: Language = "ru", ids: Iterable[str] | None = None
) -> tuple[Criterion, ...]:
    """The criteria of a POLLUX file (``metainfo/criteria.json`` of that project).

    The file is a JSON object: id -> ``name``, ``desc``, ``scale`` (each a mapping with the keys ``ru`` and
    ``en``; a scale maps ``"0"``, ``"1"``, ``"2"`` to texts), ``crit_group``, ``domain``, ``task``,
    ``subtask1``, ``subtask2``.

    Parameters
    ----------
    path
        The file, UTF-8.
    language
        ``ru`` (default) or ``en``: which names, descriptions and levels to take.
    ids
        Only these criteria, in this order; by default all, in the order of the file.

    Returns
    -------
    tuple of Criterion
        Scales are interval. One name often stands for several criteria, each for another kind of task:
        where two of those loaded share a name, the id is added, ``Креативность [creativity__5]``.
        Criteria of the group Critical are ``critical``; there 0 is the good level (1 says that the answer
        cannot be judged), so they are ``better: low`` and pass at 0. Other scales of two levels pass at
        the higher one, longer ones have no pass rule.

    Raises
    ------
    RubricError
        When the file cannot be read, is no JSON (line and column are named), lacks one of `ids`, or an
        entry is not of this form: the message names file, entry and key.

    Examples
    --------
    >>> import json, tempfile
    >>> entry = {"name": {"ru": "Краткость"}, "scale": {"ru": {"0": "есть лишнее", "1": "лишнего нет"}}}
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
    ...     _ = file.write(json.dumps({"brevity": entry}))
    ...     file.flush()
    ...     load_pollux(file.name)[0].pass_at
    1
    """
    if language not in ("ru", "en"):
        raise RubricError(f"load_pollux has no language {language!r}; allowed are ru, en")
    path = Path(path)
    values = _read(path)
    wanted = list(values) if ids is None else [ids] if isinstance(ids, str) else list(ids)
    if missing := [key for key in wanted if key not in values]:
        raise RubricError(f"{path} has no criterion {listed(missing)}; it has {listed(values, most=20)}")
    entries = {key: _entry(path, key, values[key]) for key in wanted}
    names = {key: _text(path, key, "name", entry.name, language) for key, entry in entries.items()}
    uses = Counter(names.values())
    return tuple(
        _criterion(path, key, f"{name} [{key}]" if uses[name] > 1 else name, entries[key], language)
        for key, name in names.items()
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise RubricError(f"{path} cannot be read: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise RubricError(f"{path} is not UTF-8 text (byte {problem.start}); save it as UTF-8") from None

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        doubled = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if doubled:
            raise RubricError(f"{path}: the key {listed(doubled)} stands twice in one object; keep one of them")
        return dict(pairs)

    try:
        values = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as problem:
        raise RubricError(
            f"{path}, line {problem.lineno}, column {problem.colno}: this is no valid JSON ({problem.msg.lower()})"
        ) from None
    if not isinstance(values, dict) or not values:
        kind = "an empty object" if values == {} else type(values).__name__
        raise RubricError(
            f"{path}: a POLLUX criteria file is a JSON object from id to criterion, not {kind}; "
            "it is metainfo/criteria.json of the POLLUX project"
        )
    return values


def _entry(path: Path, key: str, value: Any) -> _Entry:
    try:
        return _Entry.model_validate(value)
    except ValidationError as error:
        raise RubricError(f"{path}, criterion {key!r}: {explain(error, _Entry)}") from None


def _text(path: Path, key: str, field: str, texts: _Texts, language: Language) -> str:
    text: str | None = getattr(texts, language)
    if text is None:
        raise RubricError(
            f"{path}, criterion {key!r}: {field} has no text in the language {language!r}; "
            "add it, or load the other language"
        )
    return text


def _criterion(path: Path, key: str, name: str, entry: _Entry, language: Language) -> Criterion:
    levels: dict[str, str] | None = getattr(entry.scale, language)
    if levels is None:
        raise RubricError(
            f"{path}, criterion {key!r}: scale has no levels in the language {language!r}; "
            "add them, or load the other language"
        )
    fields: dict[str, Any] = {"description": getattr(entry.desc, language) or ""}
    if _is_critical(entry.crit_group):
        fields |= {"critical": True, "better": "low", "pass_at": min(levels, key=_order, default=None)}
    try:
        return Criterion.from_pollux(name, levels, **fields)
    except RubricError as problem:
        raise RubricError(f"{path}, criterion {key!r}: {problem}") from None


def _is_critical(group: _Texts) -> bool:
    return (group.en or "").casefold() == _CRITICAL or (group.ru or "").casefold().startswith("критич")


def _order(code: str) -> float:
    """Codes that are no numbers come first, so that Criterion refuses them with its own words."""
    try:
        return float(code)
    except ValueError:
        return float("-inf")
