"""Criterion: one question with its scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator, model_validator

from evalkit.core.lists_of_choices import Better, Level
from evalkit.core.settings import weight_of
from evalkit.core.validation_errors import explain, unknown_key
from evalkit.errors import EvalkitError, RubricError, listed
from evalkit.rubrics.scales import Scale, number
from evalkit.tables.items import canonical
from evalkit.tables.message_files import unseen
from evalkit.tables.message_forms import shown_value
from evalkit.tables.steps import NO_STEP, step_numbers

TOOL_RESULT = "tool_result"
"""The limit of a rubric on the characters of a text in a tool's result."""
OF_STEPS = Scale((), level="nominal", pass_if=(NO_STEP,))
"""The scale of a criterion with `steps_of`, where the items are not known: any step, or none."""

_OF_STEPS: dict[str, Any] = {
    "level": "nominal", "better": "high", "pass_at": None, "pass_if": (NO_STEP,),
    "scale": OF_STEPS,
}  # fmt: skip


class FileModel(BaseModel):
    """An object as in a file: unknown keys are errors, and each error names the object by its first key."""

    # Models are built when first used: building them takes a fifth of the time of `import evalkit; evalkit.judge`
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True)
    error_type: ClassVar[type[EvalkitError]] = RubricError

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            name = fields.get(next(iter(type(self).model_fields)), "?")
            raise self.error_type(f"{type(self).__name__.lower()} {name!r}: {explain(error, type(self))}") from None

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; one with changed fields is checked like a new object."""
        if not update:
            return super().model_copy(deep=deep)
        copy = type(self)(**({name: getattr(self, name) for name in self.model_fields_set} | dict(update)))
        copy.__pydantic_private__ = dict(self.__pydantic_private__ or {})
        return copy

    def _file_values(self, *always: str) -> dict[str, Any]:
        """The fields for a file, in order: those of `always`, and others that are not the default."""
        values = {
            name: getattr(self, name)
            for name, field in type(self).model_fields.items()
            if name in always or getattr(self, name) != field.default
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


class Criterion(FileModel):
    """One question for the judges, with its scale.

    Attributes
    ----------
    name
        The criterion's name in tables; one line, in any alphabet.
    description
        The question in full; part of the prompt.
    level, scale, pass_at, pass_if, better
        See `Scale`: ``scale`` is a mapping from code to description.
    steps
        Evaluation steps for templates that show them (G-Eval).
    weight
        Relative weight in `combine`: 0, or from 1e-9 to 1e9.
    critical
        A failed critical criterion makes the rubric score 0.
    examples
        Items that people have judged, shown in the prompt: each a mapping with `inputs` (name -> text) and `label`, a
        code of the scale, and perhaps `item_id`. See `Rubric.with_examples`.
    steps_of
        In place of a scale: an input with messages. The levels are the numbers of the item's own steps in it (see
        `explode_steps`), and ``none``, which passes.

    Raises
    ------
    RubricError
        When something is missing, unknown or contradictory.

    Examples
    --------
    >>> Criterion(name="clarity", scale={0: "unclear", 1: "clear"}, pass_at=1).scale.codes
    (0, 1)
    """

    name: str
    description: str = ""
    level: Level = "ordinal"
    scale: Scale
    pass_at: int | float | None = None
    pass_if: tuple[int | float | str, ...] | None = None
    better: Better = "high"
    steps: tuple[str, ...] = ()
    weight: Annotated[float, BeforeValidator(weight_of)] = 1.0
    critical: bool = False
    examples: tuple[dict[str, Any], ...] = ()
    steps_of: str | None = None

    def __init__(self, **fields: Any) -> None:  # for type checkers: any key, `scale` as a mapping
        super().__init__(**fields)

    @model_validator(mode="before")
    @classmethod
    def _make_scale(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and fields.get("steps_of") is not None:
            return _with_open_scale(fields)
        if not isinstance(fields, Mapping) or "scale" not in fields:
            return fields
        fields = dict(fields)
        if unknown := [str(name) for name in fields if name not in cls.model_fields]:
            # before the scale: a misspelt `level` or `pass_at` would be told as a fault of the codes
            raise ValueError("; ".join(unknown_key(name, cls.model_fields) for name in unknown))
        names = ("level", "better", "pass_at", "pass_if")
        settings = {name: fields[name] for name in names if name in fields}
        if isinstance(scale := fields["scale"], Scale):
            lacking = names if settings.keys().isdisjoint(names[2:]) else names[:2]
            settings = {name: getattr(scale, name) for name in lacking} | settings
        scale = Scale.of(scale, **settings)
        scale = replace(scale, texts=tuple(scale.values()))  # of a range, empty ones
        return fields | {"scale": scale} | {name: getattr(scale, name) for name in names}

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        name = name.strip()
        if len(name.splitlines()) != 1 or len(name) > 200:
            raise ValueError("a criterion's name must be one line of 1 to 200 characters")
        return name

    @field_validator("examples")
    @classmethod
    def _check_examples(cls, examples: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        for example in examples:
            wrong = not {"inputs", "label"} <= set(example) <= {"item_id", "inputs", "label"}
            if wrong or not isinstance(example["inputs"], Mapping):
                raise ValueError(
                    "an example needs a mapping 'inputs' and a 'label', and may have an 'item_id'; got "
                    f"{listed(example)}"
                )
            if kind := unseen([shown_value(canonical(value)) for value in example["inputs"].values()]):
                raise ValueError(
                    f"an example holds a file ({kind}), and judges are shown the texts of examples alone; choose "
                    "examples without files, or describe the files in words"
                )
        return examples

    @model_validator(mode="after")
    def _check_whole(self) -> Criterion:
        if self.critical and not self.scale.has_rule:
            raise ValueError(
                f"criterion {self.name!r} is critical and therefore needs a pass rule (pass_at or pass_if)"
            )
        for example in self.examples:
            if self.scale.code(example["label"]) is None:
                raise ValueError(
                    f"criterion {self.name!r}: the label {example['label']!r} of an example is not on the scale; "
                    f"allowed: {', '.join(self.scale.labels)}"
                )
        return self

    def to_dict(self) -> dict[str, Any]:
        """The criterion as in a rubric file, defaults left out."""
        values = self._file_values("name", "level") | {"scale": dict(self.scale)}
        if self.steps_of:
            del values["scale"]
        return values

    def of_item(self, inputs: Mapping[str, Any]) -> Criterion:
        """The criterion with the steps of these inputs as its levels; itself, if its levels are not an item's own."""
        if self.steps_of is None:
            return self
        numbers = step_numbers(inputs.get(self.steps_of))
        scale = replace(self.scale, codes=(NO_STEP, *map(str, numbers)), texts=("no step", *[""] * len(numbers)))
        return BaseModel.model_copy(self, update={"scale": scale})

    def edit(self, **changes: Any) -> Criterion:
        """A changed copy; `scale` may contain only levels that change. A new code adds a level, None removes one."""
        values = self.to_dict()
        if isinstance(changes.get("scale"), Mapping):
            values["scale"] = _merged(self.scale, changes.pop("scale"))
        elif "scale" in changes and self.level == "ordinal":
            del values["level"]  # "0-10" is an interval
        if changes.get("pass_at") is not None:
            values.pop("pass_if", None)
        if changes.get("pass_if") is not None:
            values.pop("pass_at", None)
        return Criterion(**(values | changes))

    @classmethod
    def from_pollux(cls, name: str, rubrics: Mapping[Any, str], **fields: Any) -> Criterion:
        """A POLLUX criterion: a name and a mapping score -> description (keys int or text).

        The scale counts as interval (a decimal is a score), its range is checked. A scale of two
        levels passes at the higher one.

        Examples
        --------
        >>> Criterion.from_pollux("Отсутствие ошибок", {"0": "есть", "1": "нет"}).level
        'interval'
        """
        fields.setdefault("level", "interval")
        if len(rubrics) == 2 and "pass_at" not in fields and "pass_if" not in fields:
            codes = [code for code in map(number, rubrics) if code is not None]
            fields["pass_at"] = max(codes, default=None)
        return cls(name=name, scale=dict(rubrics), **fields)


def _with_open_scale(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a criterion whose levels are an item's own."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    if wrong := [name for name, value in _OF_STEPS.items() if name in values and values[name] != value]:
        raise ValueError(f"with steps_of the levels are the steps of each item; remove {listed(wrong)}")
    return {**fields, **_OF_STEPS}


def groups_of(criteria: Sequence[Criterion], size: int) -> tuple[tuple[int, ...], ...]:
    """For each criterion the numbers of those that share its replies, up to `size`; one with examples is alone."""
    groups = []
    for index, criterion in enumerate(criteria):
        first = index // size * size
        group = range(first, min(first + size, len(criteria)))
        alone = bool(criterion.examples)
        groups.append((index,) if alone else tuple(number for number in group if not criteria[number].examples))
    return tuple(groups)


def _merged(scale: Scale, changes: Mapping[Any, str | None]) -> dict[Any, str]:
    merged: dict[Any, str | None] = dict(scale)
    for given, text in changes.items():
        code = scale.code(given)
        merged[code if code in scale.codes else given] = text
    return {code: text for code, text in merged.items() if text is not None}
