"""The criteria of a POLLUX file, and which of them apply to an item."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError
from evalkit.lighteval.tasks.sources import data_folder
from evalkit.rubrics import Criterion, load_pollux

__all__ = ["CRITERIA_VARIABLE", "PolluxCriteria", "criteria_file", "slug_of"]

CRITERIA_VARIABLE = "EVALKIT_POLLUX_CRITERIA"

_SCOPES = {"task": "task_type", "subtask1": "task_subtype", "subtask2": "task_subsubtype"}
_GENERAL = ("general-purpose", "общее")


def criteria_file(source: str, environ: Mapping[str, str] | None = None) -> Path:
    """The file of criteria: the shipped one, or for rows of the hub the one of ``EVALKIT_POLLUX_CRITERIA``.

    Raises
    ------
    ConfigError
        When rows of the hub are wanted and the variable is not set, or there is no such file.
    """
    if source == "shipped":
        return data_folder("pollux") / "criteria.json"
    given = (os.environ if environ is None else environ).get(CRITERIA_VARIABLE, "").strip()
    if not given:
        raise ConfigError(
            f"POLLUX from the hub needs its criteria: set {CRITERIA_VARIABLE} to the project's metainfo/criteria.json"
        )
    if not Path(given).is_file():
        raise ConfigError(f"{CRITERIA_VARIABLE}: there is no file {given}; give the project's metainfo/criteria.json")
    return Path(given)


def slug_of(name: str) -> str:
    """A name as a part of a task's name.

    Examples
    --------
    >>> slug_of("Code: Analysis"), slug_of("Стайл-трансфер")
    ('code_analysis', 'стайл_трансфер')
    """
    return re.sub(r"\W+", "_", name.casefold()).strip("_")


@dataclass(frozen=True)
class PolluxCriteria:
    """Criteria by their id, with the kinds of task that each is for.

    Attributes
    ----------
    criteria
        Id -> criterion.
    scopes
        Id -> what `task`, `subtask1`, `subtask2` and `domain` of its entry say; what is not said holds for all.
    aliases
        Name in either language -> its English names, from the entries and from a ``tasks.json`` beside the file.
    """

    criteria: Mapping[str, Criterion]
    scopes: Mapping[str, Mapping[str, str]] = field(repr=False)
    aliases: Mapping[str, frozenset[str]] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, path: str | Path) -> PolluxCriteria:
        """The criteria of a file in the published form; see `evalkit.rubrics.load_pollux`.

        Raises
        ------
        RubricError
            When the file cannot be read or is of another form.
        """
        loaded = load_pollux(path)
        entries = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        beside = Path(path).with_name("tasks.json")
        named = [entries, *([json.loads(beside.read_text(encoding="utf-8-sig"))] if beside.is_file() else [])]
        aliases: dict[str, set[str]] = {}
        for russian, english in _pairs(named):
            aliases.setdefault(russian.casefold(), set()).add(english.casefold())
        return cls(
            dict(zip(entries, loaded, strict=True)),
            {key: _scope(entry) for key, entry in entries.items()},
            {name: frozenset(found) for name, found in aliases.items()},
        )

    def applying_to(self, row: Mapping[str, Any]) -> list[str]:
        """Ids of the criteria that apply to a row, by its `task_type`, `task_subtype`, `task_subsubtype`, `domain`.

        A criterion of a certain domain applies to rows that name this domain, or to its own tasks.
        """
        return [key for key, scope in self.scopes.items() if self._applies(scope, row)]

    def _applies(self, scope: Mapping[str, str], row: Mapping[str, Any]) -> bool:
        tasks = [name for name in _SCOPES if name in scope]
        if not all(self.is_same(scope[name], row.get(_SCOPES[name])) for name in tasks):
            return False
        return bool(tasks) or "domain" not in scope or self.is_same(scope["domain"], row.get("domain"))

    def is_same(self, wanted: str, given: Any) -> bool:
        """Whether two names mean the same, in either language."""
        one, other = wanted.casefold(), str(given or "").casefold()
        return one == other or bool({one, *self.aliases.get(one, ())} & {other, *self.aliases.get(other, ())})

    @property
    def general(self) -> list[str]:
        """Ids of the criteria of every task."""
        return [key for key, scope in self.scopes.items() if not scope]

    @property
    def tasks(self) -> list[str]:
        """The kinds of task that criteria are made for, in the order of the file."""
        return list(dict.fromkeys(scope["task"] for scope in self.scopes.values() if "task" in scope))


def _scope(entry: Mapping[str, Any]) -> dict[str, str]:
    scope = {name: str(entry[name]) for name in _SCOPES if entry.get(name)}
    domain = (entry.get("domain") or {}).get("en") or (entry.get("domain") or {}).get("ru")
    return scope if not domain or domain.casefold() in _GENERAL else scope | {"domain": domain}


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    """Russian and English name of everything that has both, at any depth."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in ("name", "domain") and isinstance(one, Mapping) and one.get("ru") and one.get("en"):
                yield str(one["ru"]), str(one["en"])
            elif key not in ("desc", "scale", "complexity"):
                yield from _pairs(one)
    elif isinstance(value, list):
        for one in value:
            yield from _pairs(one)
