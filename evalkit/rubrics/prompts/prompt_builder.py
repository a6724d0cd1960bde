"""From rubric and item to the prompt, with the item's texts between delimiters, and to the hash of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from evalkit.core.prompts_and_replies import Message, Prompt
from evalkit.errors import RubricError, listed
from evalkit.rubrics.prompts.templates import Template, load_template
from evalkit.tables import input_text, is_missing

if TYPE_CHECKING:
    from evalkit.rubrics.criteria import Criterion
    from evalkit.rubrics.parsing import Parsed
    from evalkit.rubrics.rubric import Rubric


_SWAP = {"answer_a": "answer_b", "answer_b": "answer_a"}


@dataclass(frozen=True, slots=True)
class _LevelView:
    """One level of a scale, as templates see it."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class _CriterionView:
    """The fields of a criterion that a template sees."""

    name: str
    description: str
    level: str
    steps: tuple[str, ...]
    scale: tuple[_LevelView, ...]


@dataclass(frozen=True, slots=True)
class _RubricView:
    """The fields of a rubric that a template sees; `inputs` are those that the item has."""

    description: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class PromptBuilder:
    """A rubric with its template; builds prompts.

    Attributes
    ----------
    rubric, template
        The rubric and the template.
    reply_reader
        A function from a stored reply and the item's inputs to its score; None: replies are read by the form.
    """

    rubric: Rubric
    template: Template
    reply_reader: Callable[[Mapping[str, Any], Mapping[str, Any]], Parsed] | None = None
    # by criterion and names of inputs: what the template sees of the rubric, and blocks without an item
    _prepared: dict[tuple[str, ...], tuple[dict[str, Any], dict[str, str]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @classmethod
    def of(cls, rubric: Rubric, template: str | Template | None = None) -> PromptBuilder:
        """The rubric with `template`, or with its own.

        Raises
        ------
        RubricError
            When the template is not found, or requires a number for a nominal scale.
        """
        if not isinstance(template, Template):
            template = load_template(template or rubric.template)
        wordy = [criterion.name for criterion in rubric.criteria if criterion.level == "nominal"]
        if template.form == "number" and wordy:
            raise RubricError(
                f"template {template.label} asks for a number, but criterion {listed(wordy)} of rubric {rubric.id!r} "
                "is nominal; use one of the templates 'default', 'tagged' and 'label'"
            )
        return cls(rubric, template)

    def prompt(self, criterion: Criterion, inputs: Mapping[str, Any]) -> Prompt:
        """The prompt for one criterion and one item's inputs."""
        prepared = self._prepared.get((criterion.name, *inputs))
        if prepared is None:
            self.template.check(self.rubric.input_names)
            names = tuple(name for name in self.rubric.input_names if name in inputs)
            pairs = zip(criterion.scale.labels, criterion.scale.texts, strict=True)
            views: dict[str, Any] = {
                "rubric": _RubricView(self.rubric.description.strip(), names),
                "criterion": _CriterionView(
                    criterion.name,
                    criterion.description.strip(),
                    criterion.level,
                    criterion.steps,
                    tuple(_LevelView(*pair) for pair in pairs),
                ),
            }
            prepared = self._prepared[criterion.name, *inputs] = views, {}
        views, known = prepared

        def fence(name: str) -> str:
            if name not in self.rubric.input_names:
                raise RubricError(
                    f"template {self.template.label} calls fence({name!r}), but the rubric has no such input"
                )
            return fenced(name, inputs[name]) if name in inputs else ""

        blocks = self.template.blocks({**inputs, **views, "fence": fence}, known)
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
            form=self.template.form,
            schema=reply_schema(criterion) if self.template.form == "json" else None,
            rubric=self.rubric.id,
            rubric_version=self.rubric.label,
            criterion=criterion.name,
            template=self.template.label,
            level=criterion.level,
            codes=criterion.scale.codes,
            inputs=inputs,
            texts=criterion.scale.texts,
        )


def item_inputs(rubric: Rubric, columns: Mapping[str, Sequence[Any]], n_items: int) -> list[dict[str, Any]]:
    """The declared inputs of each item, in the form that is shown and hashed; missing ones left out.

    A blank optional input counts as missing: a CSV file has no other way to express that.
    """
    rows: list[dict[str, Any]] = [{} for _ in range(n_items)]
    for declared in rubric.inputs:
        name, optional = declared.removesuffix("?"), declared.endswith("?")
        for row, value in zip(rows, columns.get(name, ()), strict=False):
            if is_missing(value):
                continue
            shown = value if isinstance(value, str) else input_text(value)
            if name == "context":
                shown = [] if shown in ("", [""]) else [shown] if isinstance(shown, str) else shown
            if not optional or shown not in ("", []):
                row[name] = shown
    return rows


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


def fenced(name: str, value: Any) -> str:
    """A value between ``<name-HASH>`` and ``</name-HASH>``; HASH is the start of the text's sha256.

    Candidate text can hold a closing tag only by containing its own hash. Lists are numbered,
    conversations show the role of each message, other structures are shown as JSON.

    Examples
    --------
    >>> print(fenced("answer", "42"))
    <answer-73475cb40a56>
    42
    </answer-73475cb40a56>
    """
    plain = value if isinstance(value, str) else _json(value)
    mark = hashlib.sha256(plain.encode()).hexdigest()[:12]
    held = plain.casefold()
    while mark in held:
        mark = hashlib.sha256((mark + plain).encode()).hexdigest()[:12]
    return f"<{name}-{mark}>\n{_marked(value, mark)}\n</{name}-{mark}>"


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode()


def _marked(value: Any, mark: str) -> str:
    if isinstance(value, str):
        return value
    if value == []:
        return ""
    if isinstance(value, list):
        if all(_is_message(element) for element in value):
            return "\n".join(_message(at, element, mark) for at, element in enumerate(value, 1))
        texts = [element if isinstance(element, str) else _json(element) for element in value]
        if len(texts) == 1:
            return texts[0]
        return "\n".join(f"--- {at} ({mark}) ---\n{text}" for at, text in enumerate(texts, 1))
    return _json(value)


def _is_message(element: Any) -> bool:
    return isinstance(element, Mapping) and isinstance(element.get("role"), str) and "content" in element


def _message(at: int, message: Mapping[str, Any], mark: str) -> str:
    content = message["content"]
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            content = "\n".join(texts)
    text = content if isinstance(content, str) else _json(content)
    further = {name: value for name, value in message.items() if name not in ("role", "content")}
    if further:
        text = f"{text}\n{_json(further)}"
    return f"--- {at} {message['role']} ({mark}) ---\n{text}"
