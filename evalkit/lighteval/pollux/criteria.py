"""The criteria of a POLLUX file, the selection of those that apply to an item, and criteria that an item defines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, error_at, listed
from evalkit.rubrics import Criterion, load_pollux

_SCOPES = {"task": "task_type", "subtask1": "task_subtype", "subtask2": "task_subsubtype"}
_LEVEL = re.compile(r"^\s*([+-]?\d+(?:[.,]\d+)?)\s*[:.)—–-]\s*(.*)$")
_GENERAL = ("general-purpose", "общее")


def slug_of(name: str) -> str:
    """A name in the form that task names have.

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
        Id -> `task`, `subtask1`, `subtask2` and `domain` of its entry; a missing one means all.
    aliases
        Name in either language -> its English names, from the entries and from a ``tasks.json`` next to the file.
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
            When the file cannot be read or has another form.
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

        A criterion with a domain applies to rows of this domain, or to its own tasks.
        """
        return [key for key, scope in self.scopes.items() if self._applies(scope, row)]

    def _applies(self, scope: Mapping[str, str], row: Mapping[str, Any]) -> bool:
        tasks = [name for name in _SCOPES if name in scope]
        if not all(self.is_same(scope[name], row.get(_SCOPES[name])) for name in tasks):
            return False
        return bool(tasks) or "domain" not in scope or self.is_same(scope["domain"], row.get("domain"))

    def is_same(self, wanted: str, given: Any) -> bool:
        """Whether two names, each in either language, have the same meaning."""
        one, other = wanted.casefold(), str(given or "").casefold()
        return one == other or bool({one, *self.aliases.get(one, ())} & {other, *self.aliases.get(other, ())})

    @property
    def general(self) -> list[str]:
        """Ids of the criteria that apply to every task."""
        return [key for key, scope in self.scopes.items() if not scope]

    @property
    def tasks(self) -> list[str]:
        """The types of task that have criteria, in the order of the file."""
        return list(dict.fromkeys(scope["task"] for scope in self.scopes.values() if "task" in scope))


def _scope(entry: Mapping[str, Any]) -> dict[str, str]:
    scope = {name: str(entry[name]) for name in _SCOPES if entry.get(name)}
    domain = (entry.get("domain") or {}).get("en") or (entry.get("domain") or {}).get("ru")
    return scope if not domain or domain.casefold() in _GENERAL else scope | {"domain": domain}


def _pairs(value: Any) -> Iterator[tuple[str, str]]:
    """All pairs of a Russian and an English name, at any depth."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in ("name", "domain") and isinstance(one, Mapping) and one.get("ru") and one.get("en"):
                yield str(one["ru"]), str(one["en"])
            elif key not in ("desc", "scale", "complexity"):
                yield from _pairs(one)
    elif isinstance(value, list):
        for one in value:
            yield from _pairs(one)


def as_gate(criterion: Criterion) -> Criterion:
    """A critical criterion that fails if a score is nearer to the second level than to the lowest, the good one.

    Whole scores keep their meaning. Without this, no decimal score of a regression judge except 0 would pass.

    Raises
    ------
    ConfigError
        When the maximum of the scale is not a number above 0.

    Examples
    --------
    >>> as_gate(criterion_of({"name": "Отказ", "rubrics": {0: "нет", 1: "да"}}, "here")).pass_at
    0.5
    """
    if not any(not isinstance(code, str) and code > 0 for code in criterion.scale.codes):
        raise ConfigError(
            f"criterion {criterion.name!r} cannot be scored as in POLLUX, which divides a score by the maximum of the "
            f"scale; the maximum must be above 0, but the scale is {listed(criterion.scale.codes)}"
        )
    lowest, following = sorted(float(code) for code in criterion.scale.codes)[:2]
    if not criterion.critical or criterion.better != "low" or criterion.pass_at != lowest:
        return criterion
    return criterion.edit(pass_at=(lowest + following) / 2)


def criterion_of(given: Mapping[str, Any], where: str) -> Criterion:
    r"""The criterion of ``{name, rubrics}``, with `description` and `critical` if they are there.

    As in the project's own code, a scale of only 0 and 1 is a gate: critical, with 0 as the good level, unless
    ``critical`` is set.

    Raises
    ------
    ConfigError
        When name or rubrics are missing, or the maximum of the scale is not above 0; `where` begins the message.

    Examples
    --------
    >>> gate = criterion_of({"name": "Зацикливание", "rubrics": "0: нет\n1: есть"}, "here")
    >>> gate.critical, gate.pass_at, criterion_of({"name": "Ясность", "rubrics": {"0": "", "2": ""}}, "here").critical
    (True, 0.5, False)
    """
    name = given.get("name") or given.get("criteria_name")
    rubrics = given.get("rubrics")
    if not name or not rubrics:
        raise ConfigError(f"{where}: a criterion needs the keys 'name' and 'rubrics', got {', '.join(map(str, given))}")
    levels = _levels(rubrics) if isinstance(rubrics, str) else dict(rubrics)
    codes = sorted(str(code) for code in levels)
    critical = bool(given.get("critical", codes == ["0", "1"]))
    fields: dict[str, Any] = {"description": str(given.get("description") or given.get("criteria_description") or "")}
    if critical:
        fields |= {"critical": True, "better": "low", "pass_at": min((float(code) for code in codes), default=0.0)}
    with error_at(where, ConfigError, ValueError):
        return as_gate(Criterion.from_pollux(str(name), levels, **fields))


def _levels(text: str) -> dict[str, str]:
    """Levels from lines ``0: …``; a line without a number continues the one before."""
    levels: dict[str, str] = {}
    last = None
    for line in text.splitlines():
        if match := _LEVEL.match(line):
            last = match[1].replace(",", ".")
            levels[last] = match[2].strip()
        elif last is not None and line.strip():
            levels[last] += f"\n{line.strip()}"
    return levels
