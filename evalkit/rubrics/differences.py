"""The changes from one rubric to another, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalkit.errors import counted
from evalkit.rubrics.scales import code_text

if TYPE_CHECKING:
    from evalkit.rubrics.criteria import Criterion
    from evalkit.rubrics.rubric import Rubric


def differences(old: Rubric, new: Rubric) -> str:
    """The changes from one rubric to another, one per line; empty if there are none (see `Rubric.diff`)."""
    lines = _changed(old, new, ("id", "description", "mode", "inputs", "template", "layout", "pass_at"))
    lines += [f"criterion {name!r} is gone" for name in old.names if name not in new.names]
    lines += [f"criterion {name!r} is new" for name in new.names if name not in old.names]
    for name in new.names:
        if name in old.names:
            lines += [f"{name}: {line}" for line in _of_criterion(old.criterion(name), new.criterion(name))]
    return "\n".join(lines)


def _of_criterion(old: Criterion, new: Criterion) -> list[str]:
    lines = _changed(old, new, ("description", "level", "steps"))
    old_scale, new_scale = dict(old.scale), dict(new.scale)
    lines += [f"level {code_text(code)} is gone" for code in old_scale if code not in new_scale]
    for code, text in new_scale.items():
        if code not in old_scale:
            lines.append(f"level {code_text(code)} is new: {text!r}")
        elif old_scale[code] != text:
            lines.append(f"level {code_text(code)} reads {text!r} instead of {old_scale[code]!r}")
    was, now = ([(one["inputs"], one["label"]) for one in criterion.examples] for criterion in (old, new))
    if was != now:
        n_new, n_gone = sum(one not in was for one in now), sum(one not in now for one in was)
        lines.append(f"{counted(len(now), 'example')} instead of {len(was)}: {n_new} new, {n_gone} gone")
    rules = _changed(old, new, ("pass_at", "pass_if", "better", "weight", "critical"))
    return lines + [f"{line} (verdicts change, replies stay valid)" for line in rules]


def _changed(old: object, new: object, names: tuple[str, ...]) -> list[str]:
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in names}
    return [f"{name} is {_shown(now)} instead of {_shown(was)}" for name, (was, now) in pairs.items() if now != was]


def _shown(value: object) -> str:
    if value is None or value in ("", ()):
        return "nothing"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return repr(value) if isinstance(value, str) else str(value)
