"""Packs as YAML: read strictly, written so that reading gives the same pack."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from evalkit.core.reply_keys import digest
from evalkit.core.validation_errors import explain
from evalkit.errors import ConfigError, RubricError, listed
from evalkit.rubrics.yaml_files import dump_yaml, read_yaml
from evalkit.runs.registry.records import Pack, PackTask

__all__ = ["PackFile", "content_of", "pack_yaml", "read_pack"]

_STRICT = ConfigDict(extra="forbid", frozen=True)
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_MOST_BYTES = 100_000  # Linux takes 131,072 in one argument


def _version_text(value: Any) -> Any:
    """A whole number as text; of others YAML does not tell which digits were written."""
    if isinstance(value, float):
        # pydantic takes ValueError alone for a finding
        raise ValueError(  # noqa: TRY004
            f'{value} may have been written as {value}0; put the version in quotes, as in "{value}"'
        )
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class Overrides(BaseModel):
    """What a pack says of a task's judge: a plugin, one of its profiles, a template."""

    model_config = _STRICT

    judge_plugin_name: str | None = None
    judge_plugin_version: str | None = None
    judge_profile: str | None = None
    judge_template_id: str | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return _version_text(value)

    @field_validator("*")
    @classmethod
    def _not_blank(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("a blank text names nothing; leave the key out")
        return value

    @model_validator(mode="after")
    def _check(self) -> Overrides:
        if self.judge_plugin_version is not None and self.judge_plugin_name is None:
            raise ValueError("judge_plugin_version needs judge_plugin_name")
        return self


class TaskEntry(BaseModel):
    """One task of a pack's file."""

    model_config = _STRICT

    task: str = Field(min_length=1, max_length=200)
    fewshot: int = Field(default=0, ge=0, le=1000)
    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    overrides: Overrides = Overrides()

    @model_validator(mode="before")
    @classmethod
    def _spec(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or "task_spec" not in values:
            return values
        if "task" in values:
            raise ValueError("task and task_spec mean the same; give one of them")
        return {"task": values["task_spec"]} | {name: one for name, one in values.items() if name != "task_spec"}

    @field_validator("task")
    @classmethod
    def _plain(cls, task: str) -> str:
        if "|" in task or "," in task or task != task.strip():
            raise ValueError(f"{task!r} is not a task name; few-shot examples have a key of their own, fewshot")
        if task.startswith("-") or not task.isprintable():
            raise ValueError(f"{task!r} is not a task name: it begins with a dash or contains unprintable characters")
        return task


class PackFile(BaseModel):
    """A pack as it stands in a file; see docs for an example.

    Raises
    ------
    ConfigError
        For unknown keys or values outside what is allowed.
    """

    model_config = _STRICT

    pack: str = Field(pattern=_NAME)
    version: str = Field(pattern=_NAME)
    description: str = ""
    primary_metric: str | None = Field(default=None, min_length=1, max_length=200)
    task_aggregation: Literal["mean", "min", "none"] = "mean"
    tasks: tuple[TaskEntry, ...]

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise ConfigError(f"pack {str(fields.get('pack', '?'))[:100]!r}: {explain(error, type(self))}") from None

    @field_validator("version", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return _version_text(value)

    @model_validator(mode="after")
    def _check_tasks(self) -> PackFile:
        names = [entry.task for entry in self.tasks]
        if not names:
            raise ValueError("tasks: a pack has at least one")
        if len(",".join(f"{entry.task}|{entry.fewshot}" for entry in self.tasks).encode()) > _MOST_BYTES:
            raise ValueError(f"tasks: the names of {len(names)} are too long for one command line; make several packs")
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"tasks: {listed(twice)} named more than once; a run has one result for each task")
        if not any(entry.weight for entry in self.tasks):
            raise ValueError("tasks: all weights are 0, so that no score is left")
        return self


def read_pack(source: str | Path | Mapping[str, Any]) -> PackFile:
    """A pack from a YAML file or from its content.

    Raises
    ------
    ConfigError
        Naming file, key and what is allowed.

    Examples
    --------
    >>> read_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]}).tasks[0].weight
    1.0
    """
    if isinstance(source, Mapping):
        return PackFile(**source)
    try:
        content = read_yaml(Path(source))
    except RubricError as problem:
        raise ConfigError(str(problem)) from None
    if not isinstance(content, Mapping):
        raise ConfigError(f"{source}: a pack is a mapping with pack, version and tasks, not {type(content).__name__}")
    try:
        return PackFile(**{str(key): value for key, value in content.items()})
    except ConfigError as problem:
        raise ConfigError(f"{source}: {problem}") from None


def content_of(file: PackFile) -> dict[str, Any]:
    """All that makes a pack what it is, defaults written out."""
    return file.model_dump(mode="json", exclude_none=False)


def hash_of(file: PackFile) -> str:
    """sha256 of the pack's content but its description, which changes no score."""
    return digest({name: value for name, value in content_of(file).items() if name != "description"})


def pack_yaml(pack: Pack) -> str:
    """The pack as a file that `read_pack` takes; keys at their defaults left out."""
    values: dict[str, Any] = {"pack": pack.name, "version": pack.version}
    if pack.description:
        values["description"] = pack.description
    if pack.primary_metric is not None:
        values["primary_metric"] = pack.primary_metric
    values["task_aggregation"] = pack.task_aggregation
    values["tasks"] = [_entry(task) for task in pack.tasks]
    return dump_yaml(values)


def _entry(task: PackTask) -> dict[str, Any]:
    values: dict[str, Any] = {"task": task.task}
    if task.fewshot:
        values["fewshot"] = task.fewshot
    if task.weight != 1.0:
        values["weight"] = task.weight
    if task.overrides:
        values["overrides"] = dict(task.overrides)
    return values
