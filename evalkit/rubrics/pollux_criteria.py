"""Criteria files as POLLUX publishes them: JSON, names and descriptions in Russian and English."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints

from evalkit.core.validation_errors import validated
from evalkit.errors import RubricError, error_at, listed
from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.files import parse_json, read_text
from evalkit.rubrics.scales import number

Language = Literal["ru", "en"]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class _Entry(BaseModel):
    """One criterion as published; `task`, `subtask1`, `subtask2` are null for criteria of every task."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: dict[Language, Text | None]
    desc: dict[Language, Text | None] = {}
    scale: dict[Language, dict[str, Text] | None]
    crit_group: dict[Language, Text | None] = {}
    domain: dict[Language, Text | None] = {}
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
        Scales are interval. One name often belongs to several criteria, each for another kind of task:
        if two loaded criteria share a name, the id is added, ``Креативность [creativity__5]``.
        Criteria of the group Critical are ``critical``; there 0 is the good level (1 says that the answer
        cannot be judged), so they are ``better: low`` and pass at 0. Other scales of two levels pass at
        the higher one, longer ones have no pass rule.

    Raises
    ------
    RubricError
        When the file cannot be read, is not JSON (the message has line and column) or lacks one of `ids`, or an
        entry is invalid: the message names file, entry and key.

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
    if language not in get_args(Language):
        raise RubricError(f"unknown language {language!r}; allowed: {', '.join(get_args(Language))}")
    path = Path(path)
    values = _read(path)
    wanted = list(values) if ids is None else [ids] if isinstance(ids, str) else list(ids)
    if missing := [key for key in wanted if key not in values]:
        raise RubricError(f"{path}: criterion {listed(missing)} not found; available: {listed(values, most=20)}")
    entries = {}
    for key in wanted:
        entries[key] = validated(_Entry, values[key], f"{path}, criterion {key!r}", RubricError)
    uses = Counter(entry.name.get(language) for entry in entries.values())
    return tuple(
        _criterion(f"{path}, criterion {key!r}", entry, language, f" [{key}]" * (uses[entry.name.get(language)] > 1))
        for key, entry in entries.items()
    )


def _read(path: Path) -> dict[str, Any]:
    values = parse_json(read_text(path), path, RubricError)
    if not isinstance(values, dict) or not values:
        raise RubricError(
            f"{path}: expected a JSON object from id to criterion, as in metainfo/criteria.json of the POLLUX project; "
            f"got {'an empty object' if values == {} else type(values).__name__}"
        )
    return values


def _criterion(where: str, entry: _Entry, language: Language, suffix: str) -> Criterion:
    name, levels = entry.name.get(language), entry.scale.get(language)
    if name is None or levels is None:
        raise RubricError(
            f"{where}: {'scale' if name else 'name'} has no text in the language {language!r}; add it, or load the "
            "other language"
        )
    fields: dict[str, Any] = {"description": entry.desc.get(language) or ""}
    groups = [text.casefold() for text in entry.crit_group.values() if text]
    if any(group == "critical" or group.startswith("критич") for group in groups):
        fields |= {"critical": True, "better": "low", "pass_at": min(levels, key=_order, default=None)}
    with error_at(where, RubricError):
        return Criterion.from_pollux(f"{name}{suffix}", levels, **fields)


def _order(code: str) -> float:
    """Codes that are not numbers come first, so that `Criterion` refuses them with its own message."""
    value = number(code)
    return -math.inf if value is None else value
