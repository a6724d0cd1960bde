"""From rubric and item to the prompt, and to the hashes that stand for them in a reply's key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from evalkit.core.prompts_and_replies import Message, Prompt
from evalkit.core.reply_keys import digest
from evalkit.errors import RubricError, listed
from evalkit.rubrics.prompts.delimiters import fenced
from evalkit.rubrics.prompts.templates import Template, load_template
from evalkit.rubrics.scales import code_text
from evalkit.tables import input_text, is_missing

if TYPE_CHECKING:
    from evalkit.rubrics.criteria import Criterion
    from evalkit.rubrics.parsing import Parsed
    from evalkit.rubrics.rubric import Rubric


_ABSENT: Any = object()
_SWAP = {"answer_a": "answer_b", "answer_b": "answer_a"}


@dataclass(frozen=True, slots=True)
class _Step:
    """One level of a scale, as templates see it."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class _CriterionView:
    """All of a criterion that a template sees."""

    name: str
    description: str
    level: str
    steps: tuple[str, ...]
    scale: tuple[_Step, ...]


@dataclass(frozen=True, slots=True)
class _RubricView:
    """All of a rubric that a template sees; `inputs` are those that the item has."""

    description: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class PromptBuilder:
    """A rubric with the template that asks for it: makes prompts, and the hashes of what they hold."""

    rubric: Rubric
    template: Template

    @classmethod
    def of(cls, rubric: Rubric, template: str | Template | None = None) -> PromptBuilder:
        """The rubric with `template`, or with its own.

        Raises
        ------
        RubricError
            When there is no such template, or it asks for a number where the scale has none.
        """
        if not isinstance(template, Template):
            template = load_template(template or rubric.template)
        wordy = [criterion.name for criterion in rubric.criteria if criterion.level == "nominal"]
        if template.form == "number" and wordy:
            raise RubricError(
                f"template {template.label} asks for a number, but criterion {listed(wordy)} of rubric {rubric.id!r} "
                "is nominal: use default, tagged or label"
            )
        return cls(rubric, template)

    @property
    def form(self) -> str:
        """How replies are to look."""
        return self.template.form

    @property
    def reply_reader(self) -> Callable[[Mapping[str, Any], Mapping[str, Any]], Parsed] | None:
        """A function from a stored reply and the item's inputs to its score; None: replies are read by `form`."""
        return None

    @cached_property
    def rubric_hashes(self) -> dict[str, str]:
        """Criterion -> sha256 of what reaches its prompt."""
        return {criterion.name: self.rubric.prompt_hash(criterion) for criterion in self.rubric.criteria}

    @cached_property
    def _label(self) -> str:
        return self.rubric.label

    @cached_property
    def _known(self) -> dict[tuple[Any, ...], tuple[Criterion, dict[str, str]]]:
        """Rendered blocks that show nothing of an item, by criterion (kept: its id stays its own) and inputs."""
        return {}

    def prompt(self, criterion: Criterion, inputs: Mapping[str, Any]) -> Prompt:
        """The prompt for one criterion and one item's inputs."""
        self.template.check(self.rubric.input_names)
        known = self._known.setdefault((id(criterion), *inputs), (criterion, {}))[1]
        blocks = self.template.blocks(self._variables(criterion, inputs), known)
        if "user" in blocks:
            parts = [blocks["user"]]
        else:
            order = ("task", "item") if self.rubric.layout == "rubric_first" else ("item", "task")
            parts = [blocks[name] for name in (*order, "closing") if blocks.get(name)]
        messages = [Message("user", "\n\n".join(parts))]
        if blocks.get("system"):
            messages.insert(0, Message("system", blocks["system"]))
        return Prompt(
            messages=tuple(messages),
            form=self.form,
            schema=reply_schema(criterion) if self.form == "json" else None,
            rubric=self.rubric.id,
            rubric_version=self._label,
            criterion=criterion.name,
            template=self.template.label,
            level=criterion.level,
            codes=criterion.scale.codes,
            inputs=inputs,
            texts=criterion.scale.texts,
        )

    def _variables(self, criterion: Criterion, inputs: Mapping[str, Any]) -> dict[str, Any]:
        names = self.rubric.input_names

        def fence(name: str) -> str:
            if name not in names:
                raise RubricError(f"template {self.template.label} fences {name!r}, which is no input of the rubric")
            return fenced(name, inputs[name]) if name in inputs else ""

        scale = tuple(_Step(code_text(code), text) for code, text in criterion.scale.items())
        return {
            **inputs,
            "rubric": _RubricView(self.rubric.description.strip(), tuple(name for name in names if name in inputs)),
            "criterion": _CriterionView(
                criterion.name, criterion.description.strip(), criterion.level, criterion.steps, scale
            ),
            "fence": fence,
        }


def item_inputs(rubric: Rubric, columns: Mapping[str, Sequence[Any]], n_items: int) -> list[dict[str, Any]]:
    """The declared inputs of each item, in the form that is shown and hashed; missing ones left out.

    A blank optional input counts as missing: a CSV file has no other way to express that.
    """
    shown = {
        declared.removesuffix("?"): _shown(columns[declared.removesuffix("?")], declared)
        for declared in rubric.inputs
        if declared.removesuffix("?") in columns
    }
    if not shown:
        return [{} for _ in range(n_items)]
    rows = zip(*shown.values(), strict=True)
    if any(value is _ABSENT for column in shown.values() for value in column):
        return [{name: value for name, value in zip(shown, row, strict=True) if value is not _ABSENT} for row in rows]
    return [dict(zip(shown, row, strict=True)) for row in rows]


def _shown(column: Sequence[Any], declared: str) -> list[Any]:
    """The values of a declared input as they are shown and hashed; `_ABSENT` where an item has none."""
    optional, name = declared.endswith("?"), declared.removesuffix("?")
    if name != "context" and all(type(value) is str for value in column):
        return [value or _ABSENT for value in column] if optional else list(column)
    made = []
    for value in column:
        if is_missing(value):
            made.append(_ABSENT)
            continue
        shown = value if isinstance(value, str) else input_text(value)
        if name == "context":
            shown = [] if shown in ("", [""]) else [shown] if isinstance(shown, str) else shown
        made.append(_ABSENT if optional and shown in ("", []) else shown)
    return made


def swapped(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a pairwise prompt with the two answers in the other order."""
    return {_SWAP.get(name, name): value for name, value in inputs.items()}


def reply_schema(criterion: Criterion) -> dict[str, Any]:
    """JSON Schema of a reply in the form ``json``: explanation first, then ``score`` (``label`` if nominal)."""
    scale = criterion.scale
    name: str
    answer: dict[str, Any]
    if criterion.level == "nominal":
        name, answer = "label", {"type": "string", "enum": list(scale.codes)}
    elif criterion.level == "interval":
        name, answer = "score", {"type": "number", "minimum": scale.codes[0], "maximum": scale.codes[-1]}
    else:
        whole = all(isinstance(code, int) for code in scale.codes)
        name, answer = "score", {"type": "integer" if whole else "number", "enum": list(scale.codes)}
    return {
        "type": "object",
        "properties": {"explanation": {"type": "string"}, name: answer},
        "required": ["explanation", name],
        "additionalProperties": False,
    }


def input_hash(inputs: Mapping[str, Any]) -> str:
    """sha256 of the canonical JSON of an item's inputs."""
    return digest(dict(inputs))
