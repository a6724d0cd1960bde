"""What a rubric's wording lets one expect: warnings about it, and two versions compared in words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from evalkit.rubrics.criteria import Criterion
from evalkit.rubrics.rubrics import Rubric
from evalkit.rubrics.scales import code_text

__all__ = ["Finding", "diff", "review"]

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend in a rubric: `severity` (``error`` or ``warning``), where, and what."""

    severity: Literal["error", "warning"]
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.message}"


def review(rubric: Rubric) -> list[Finding]:
    """Warnings about a rubric's texts: levels without text, levels that overlap, no pass rule, no weight."""
    found: list[Finding] = []
    if not rubric.description.strip():
        found.append(Finding("warning", rubric.id, "no description: say in a sentence what is judged"))
    if not any(criterion.weight for criterion in rubric.criteria):
        found.append(Finding("warning", rubric.id, "all weights are 0: no rubric score can be combined"))
    for criterion in rubric.criteria:
        found.extend(_review_criterion(rubric, criterion))
    return found


def _review_criterion(rubric: Rubric, criterion: Criterion) -> list[Finding]:
    where = f"{rubric.id}/{criterion.name}"
    found: list[Finding] = []
    bare = [code_text(code) for code, text in criterion.scale.items() if not text.strip()]
    if bare:
        found.append(Finding("warning", where, f"level {', '.join(bare)} has no text: judges will guess what it means"))
    for (code, text), (other, words) in combinations(criterion.scale.items(), 2):
        if _overlap(text, words) >= 0.8:
            found.append(
                Finding(
                    "warning",
                    where,
                    f"levels {code_text(code)} and {code_text(other)} read almost alike: judges cannot tell them apart",
                )
            )
    if not criterion.scale.has_rule and rubric.mode == "pointwise":
        found.append(Finding("warning", where, "no pass rule (pass_at or pass_if): no pass rate and no gate"))
    if criterion.level != "nominal" and len(criterion.scale) > 7:
        found.append(
            Finding("warning", where, f"{len(criterion.scale)} levels: people and judges keep about five apart")
        )
    return found


def _overlap(text: str, other: str) -> float:
    """Share of words that two texts have in common (Jaccard), 0-1."""
    words, others = set(_WORD.findall(text.casefold())), set(_WORD.findall(other.casefold()))
    return len(words & others) / len(words | others) if words and others else 0.0


def diff(old: Rubric, new: Rubric) -> str:
    """What changed from one rubric to another, in words, one change a line; empty if nothing did.

    Examples
    --------
    >>> rubric = Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}}])
    >>> print(diff(rubric, rubric.edit("c", scale={1: "fully"}, pass_at=1)))
    c: level 1 reads 'fully' instead of 'yes'
    c: pass_at is 1 instead of nothing (verdicts change, replies stay valid)
    """
    lines = []
    for key in ("id", "description", "mode", "inputs", "template", "layout", "pass_at"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            lines.append(f"{key} is {_shown(after)} instead of {_shown(before)}")
    before_names, after_names = set(old.names), set(new.names)
    lines.extend(f"criterion {name!r} is gone" for name in old.names if name not in after_names)
    lines.extend(f"criterion {name!r} is new" for name in new.names if name not in before_names)
    for name in new.names:
        if name in before_names:
            lines.extend(f"{name}: {line}" for line in _diff_criterion(old.criterion(name), new.criterion(name)))
    return "\n".join(lines)


def _diff_criterion(old: Criterion, new: Criterion) -> list[str]:
    lines = []
    for key in ("description", "level", "steps"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            lines.append(f"{key} is {_shown(after)} instead of {_shown(before)}")
    before_scale, after_scale = dict(old.scale), dict(new.scale)
    lines.extend(f"level {code_text(code)} is gone" for code in before_scale if code not in after_scale)
    for code, text in after_scale.items():
        if code not in before_scale:
            lines.append(f"level {code_text(code)} is new: {text!r}")
        elif before_scale[code] != text:
            lines.append(f"level {code_text(code)} reads {text!r} instead of {before_scale[code]!r}")
    for key in ("pass_at", "pass_if", "better", "weight", "critical"):
        before, after = getattr(old, key), getattr(new, key)
        if before != after:
            note = "(verdicts change, replies stay valid)"
            lines.append(f"{key} is {_shown(after)} instead of {_shown(before)} {note}")
    return lines


def _shown(value: object) -> str:
    if value is None or value in ("", ()):
        return "nothing"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return repr(value) if isinstance(value, str) else str(value)
