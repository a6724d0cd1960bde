"""The rubric as a form and as YAML text, and back, with checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evalkit.errors import RubricError
from evalkit.notebook.tuner.version_history import rebase
from evalkit.rubrics import Rubric
from evalkit.rubrics.files import parse_yaml
from evalkit.rubrics.scales import code_text, number

_FIELDS = ("name", "description", "level", "scale", "pass_at", "pass_if")


def form_of(rubric: Rubric) -> dict[str, Any]:
    """The parts of a rubric that have fields on screen; all values are strings."""
    return {
        "description": rubric.description,
        "template": rubric.template,
        "criteria": [
            {
                "name": criterion.name,
                "description": criterion.description,
                "level": criterion.level,
                "scale": [[code_text(code), text] for code, text in criterion.scale.items()],
                "rule": "pass_if" if criterion.level == "nominal" or criterion.pass_if is not None else "pass_at",
                "passes": _passes(criterion.pass_at, criterion.pass_if),
                # returned unchanged by the screen, so that the form alone holds the whole criterion
                "rest": {key: value for key, value in criterion.to_dict().items() if key not in _FIELDS},
            }
            for criterion in rubric.criteria
        ],
    }


def _passes(at: Any, codes: Any) -> str:
    return "" if at is None and codes is None else code_text(at) if at is not None else ", ".join(map(code_text, codes))


def from_form(base: Rubric, draft: Rubric, form: Mapping[str, Any]) -> Rubric:
    """The draft with the values of the fields; criteria may be new, removed or renamed.

    Raises
    ------
    RubricError
        For a duplicate or empty code, a criterion without a name, and everything that `Rubric` rejects.
    """
    values = draft.to_dict() | {"description": form["description"], "template": form["template"].strip()}
    values["criteria"] = [_criterion(given) for given in form["criteria"]]
    return rebase(base, values)


def _criterion(form: Mapping[str, Any]) -> dict[str, Any]:
    name, level = form["name"].strip(), form["level"]
    if not name:
        raise RubricError("a criterion has no name; give it one, or remove it")
    scale: dict[Any, str] = {}
    for given, text in form["scale"]:
        code = given.strip()
        if not code:
            raise RubricError(f"criterion {name!r}: a level has no code; give it one, or remove the level")
        if code in scale:
            raise RubricError(f"criterion {name!r}: duplicate code {code!r}; each level needs its own")
        scale[code] = text
    values = dict(form["rest"]) | {"name": name, "description": form["description"], "level": level, "scale": scale}
    if "steps_of" in values and not scale:  # levels that are typed in are refused with the rubric
        del values["scale"]
    passes = form["passes"].strip()
    if passes and (level == "nominal" or form["rule"] == "pass_if"):
        values["pass_if"] = [part.strip() for part in passes.split(",") if part.strip()]
        if level != "nominal":
            values["pass_if"] = [found if (found := number(part)) is not None else part for part in values["pass_if"]]
    elif passes:
        at = number(passes)
        if at is None:
            raise RubricError(
                f"criterion {name!r}: the field 'passes at' must be a number, got {passes!r}; use a code of the scale"
            )
        values["pass_at"] = at
    return values


def from_yaml(base: Rubric, text: str) -> Rubric:
    """The rubric that a YAML text contains.

    Raises
    ------
    RubricError
        For invalid YAML (with the line), and everything that `Rubric` rejects.
    """
    values = parse_yaml(Path("the rubric"), text)
    if not isinstance(values, Mapping):
        raise RubricError("expected a mapping with inputs and criteria")
    return rebase(base, values)
