"""Gates among POLLUX criteria, and criteria that an item brings along as a name and a mapping score -> description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from evalkit.errors import ConfigError, RubricError
from evalkit.rubrics import Criterion

__all__ = ["as_gate", "criterion_of"]

_LEVEL = re.compile(r"^\s*([+-]?\d+(?:[.,]\d+)?)\s*[:.)—–-]\s*(.*)$")


def as_gate(criterion: Criterion) -> Criterion:
    """A critical criterion that fails where a score is nearer to the next level than to the lowest, the good one.

    Whole scores mean what they did; of decimals, as regression judges give them, none but 0 itself would pass.

    Examples
    --------
    >>> as_gate(criterion_of({"name": "Отказ", "rubrics": {0: "нет", 1: "да"}}, "here")).pass_at
    0.5
    """
    lowest, following = sorted(float(code) for code in criterion.scale.codes)[:2]
    if not criterion.critical or criterion.better != "low" or criterion.pass_at != lowest:
        return criterion
    return criterion.edit(pass_at=(lowest + following) / 2)


def criterion_of(given: Mapping[str, Any], where: str) -> Criterion:
    r"""The criterion of ``{name, rubrics}``, with `description` and `critical` if they are there.

    As in the project's own code, a scale of 0 and 1 alone is a gate: critical, and 0 is the good level; ``critical``
    says otherwise.

    Raises
    ------
    ConfigError
        When name or rubrics are missing, or are no scale with a maximum above 0; `where` begins the message.

    Examples
    --------
    >>> gate = criterion_of({"name": "Зацикливание", "rubrics": "0: нет\n1: есть"}, "here")
    >>> gate.critical, gate.pass_at, criterion_of({"name": "Ясность", "rubrics": {"0": "", "2": ""}}, "here").critical
    (True, 0.5, False)
    """
    name = given.get("name") or given.get("criteria_name")
    rubrics = given.get("rubrics")
    if not name or not rubrics:
        raise ConfigError(f"{where}: a criterion needs name and rubrics; it has {', '.join(map(str, given))}")
    levels = _levels(rubrics) if isinstance(rubrics, str) else dict(rubrics)
    codes = sorted(str(code) for code in levels)
    critical = bool(given.get("critical", codes == ["0", "1"]))
    fields: dict[str, Any] = {"description": str(given.get("description") or given.get("criteria_description") or "")}
    if critical:
        fields |= {"critical": True, "better": "low", "pass_at": min((float(code) for code in codes), default=0.0)}
    try:
        criterion = Criterion.from_pollux(str(name), levels, **fields)
    except (RubricError, ValueError) as problem:
        raise ConfigError(f"{where}: {problem}") from None
    if max(float(code) for code in criterion.scale.codes) <= 0:
        raise ConfigError(f"{where}: criterion {name!r} has a scale whose maximum is not above 0, by which to divide")
    return as_gate(criterion)


def _levels(text: str) -> dict[str, str]:
    """Levels from lines ``0: …``; a line without a number continues the one before."""
    levels: dict[str, str] = {}
    last = None
    for line in text.splitlines():
        match = _LEVEL.match(line)
        if match:
            last = match[1].replace(",", ".")
            levels[last] = match[2].strip()
        elif last is not None and line.strip():
            levels[last] += f"\n{line.strip()}"
    return levels
