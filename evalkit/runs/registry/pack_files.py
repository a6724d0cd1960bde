"""Packs: read strictly from YAML, written so that reading gives the same; the records of the registry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from evalkit.core.reply_keys import digest
from evalkit.core.settings import weight_of
from evalkit.core.validation_errors import validated
from evalkit.errors import ConfigError, RegistryError, RubricError, listed
from evalkit.rubrics.files import dump_yaml, read_yaml


class EntryError(RegistryError):
    """The registry has no such entry, or the code of a plugin is missing or changed; the database itself works."""


class Record(BaseModel):
    """Something with a name and a version, which are unique together: letters, digits, dots, dashes, underscores."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    name: str
    version: str

    @property
    def label(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"


class Plugin(Record):
    """A registered judge plugin.

    Attributes
    ----------
    plugin_type
        ``task``, ``metric`` or ``bundle``.
    storage_uri
        The source of its code: dotted package path, or file or folder.
    content_hash
        sha256 of its files at registration; checked at each run.
    requirements
        What its package requires, as in ``Requires-Dist``.
    created_at
        When it was registered (UTC).
    """

    plugin_type: str
    storage_uri: str
    content_hash: str
    requirements: tuple[str, ...]
    created_at: datetime


class JudgeTemplate(Record):
    """A registered judge template; its label is the ``judge_template_id`` of configs; versions are ``v1``, ``v2`` …

    Attributes
    ----------
    prompt_template
        The Jinja source, as in ``rubrics/templates/``.
    response_schema
        JSON schema of the reply, or None for the schema of the rubric's scale.
    content_hash
        sha256 of the source, as in reply keys.
    created_at
        When it was registered (UTC).
    """

    prompt_template: str
    response_schema: dict[str, Any] | None
    content_hash: str
    created_at: datetime


_TASK = AliasChoices("task", "task_spec")
_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_MOST_BYTES = 100_000  # Linux takes 131,072 in one argument

STARTER_PACK: Mapping[str, Any] = {
    "pack": "starter",
    "version": "1",
    "description": "Two small tasks that come with evalkit, with their data",
    "tasks": [{"task": "grounded_qa", "overrides": {"judge_profile": "strict"}}, {"task": "tool_use"}],
}
"""A first pack, as `Registry.apply_pack` takes it. Judges score only `grounded_qa`, in the modes judge and jury."""


def _version_text(value: Any) -> Any:
    """A whole number as text. Other numbers are errors, because YAML reads 1.10 as 1.1."""
    if isinstance(value, float):
        # pydantic reports only ValueError
        raise ValueError(  # noqa: TRY004
            f'{value} may have been written as {value}0; put the version in quotes, as in "{value}"'
        )
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _not_blank(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise ValueError("expected a name, got a blank text; give a name, or leave the field out")
    return _version_text(value)


def _plain_name(task: Any) -> Any:
    if isinstance(task, str) and ("|" in task or "," in task or task != task.strip()):
        raise ValueError(f"{task!r} is not a task name; set the number of few-shot examples with the key fewshot")
    if isinstance(task, str) and (task.startswith("-") or not task.isprintable()):
        raise ValueError(f"{task!r} is not a task name: it begins with a dash or contains non-printable characters")
    return task


_Name = Annotated[str | None, BeforeValidator(_not_blank)]
_Task = Annotated[str, BeforeValidator(_plain_name)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)


class Overrides(_Strict):
    """A pack's settings for the judges of a task: plugin, profile, template. False if nothing is set."""

    judge_plugin_name: _Name = None
    judge_plugin_version: _Name = None
    judge_profile: _Name = None
    judge_template_id: _Name = None

    @model_validator(mode="after")
    def _check(self) -> Overrides:
        if self.judge_plugin_version is not None and self.judge_plugin_name is None:
            raise ValueError("judge_plugin_version needs judge_plugin_name")
        return self

    def __bool__(self) -> bool:
        return bool(self.values)

    @property
    def values(self) -> dict[str, str]:
        """Name -> value of the settings that are set."""
        return self.model_dump(exclude_none=True)

    def over(self, shared: Overrides) -> Overrides:
        """These overrides, and those of the whole pack that they leave open; null leaves out one of the pack."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        if "judge_plugin_name" in values:  # the pack's version is that of the pack's plugin
            values.setdefault("judge_plugin_version", None)
        return Overrides(**(shared.values | values)) if shared else self


class PackTask(_Strict):
    """One task of a pack.

    Attributes
    ----------
    task
        LightEval's task spec without few-shot count: ``name`` or ``suite:name``. In a pack that lists a task under
        several profiles, the second and later ones are ``name+profile``.
    fewshot
        Examples in the prompt, ≥ 0.
    weight
        Relative weight in the pack's score: 0, or from 1e-9 to 1e9.
    overrides
        `judge_plugin_name`, `judge_plugin_version`, `judge_profile` and `judge_template_id`; None: not set.
    """

    task: _Task = Field(min_length=1, max_length=200, validation_alias=_TASK)  # type: ignore[pydantic-alias]
    fewshot: int = Field(default=0, ge=0, le=1000)
    weight: Annotated[float, BeforeValidator(weight_of)] = 1.0
    overrides: Overrides = Overrides()

    @property
    def copy_of(self) -> str | None:
        """The task of which this is a copy under another profile, by its name ``task+profile``."""
        task, plus, _ = self.task.partition("+")
        return task if plus else None

    @property
    def spec(self) -> str:
        """As LightEval takes it: ``name|0``."""
        return f"{self.task}|{self.fewshot}"


class PackFile(_Strict):
    """A pack as it is written in a file."""

    name: str = Field(pattern=_NAME, alias="pack")
    version: Annotated[str, BeforeValidator(_version_text)] = Field(pattern=_NAME)
    description: str = ""
    primary_metric: str | None = Field(default=None, min_length=1, max_length=200)
    task_aggregation: Literal["mean", "min", "none"] = "mean"
    overrides: Overrides = Field(default=Overrides(), exclude=True)
    tasks: tuple[PackTask, ...]

    @model_validator(mode="after")
    def _complete_tasks(self) -> PackFile:
        """Give each task the pack's overrides, and a task that is listed again under another profile its own name."""
        tasks, names = list[PackTask](), set[str]()
        for entry in self.tasks:
            over = entry.overrides.over(self.overrides)
            name = entry.task
            if name in names and over.judge_profile is not None:
                name += f"+{re.sub(r'[^A-Za-z0-9._-]+', '-', Path(over.judge_profile).stem)}"
            names.add(name)
            tasks.append(entry.model_copy(update={"task": name, "overrides": over}))
        self.__dict__ |= {"tasks": tuple(tasks), "overrides": Overrides()}
        return self

    @model_validator(mode="after")
    def _check_tasks(self) -> PackFile:
        if not (names := [entry.task for entry in self.tasks]):
            raise ValueError("tasks: a pack needs at least one task")
        if len(",".join(entry.spec for entry in self.tasks).encode()) > _MOST_BYTES:
            raise ValueError(f"tasks: the names of {len(names)} tasks do not fit into one command line; split the pack")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"tasks: {listed(twice)} listed more than once; a run has one result per task; to compare judges, give "
                "each another judge_profile in its overrides"
            )
        if not any(entry.weight for entry in self.tasks):
            raise ValueError("tasks: all weights are 0, so there is no score")
        return self

    @property
    def hash(self) -> str:
        """sha256 of the content except the description, which changes no score."""
        return digest(self.model_dump(mode="json", by_alias=True, exclude={"description"}))


class Pack(Record):
    """A registered pack.

    Attributes
    ----------
    primary_metric
        The metric of each task that the leaderboard uses; None for each task's first.
    task_aggregation
        How the tasks' figures are combined: ``mean`` (by weight), ``min`` or ``none``.
    tasks
        In the order of the file.
    content_hash
        sha256 of the file's content without the description.
    created_at
        When it was applied (UTC).
    """

    description: str
    primary_metric: str | None
    task_aggregation: str
    tasks: tuple[PackTask, ...]
    content_hash: str
    created_at: datetime


def read_pack(source: str | Path | Mapping[str, Any]) -> PackFile:
    """A pack from a YAML file or from its content.

    Raises
    ------
    ConfigError
        With the file, the key and the allowed keys.

    Examples
    --------
    >>> read_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]}).tasks[0].weight
    1.0
    """
    where, content = "", source
    if not isinstance(source, Mapping):
        try:
            where, content = f"{source}: ", read_yaml(Path(source))
        except RubricError as problem:
            raise ConfigError(str(problem)) from None
    if not isinstance(content, Mapping):
        raise ConfigError(f"{where}expected a mapping with pack, version and tasks, got a {type(content).__name__}")
    where = f"{where}pack {str(content.get('pack', '?'))[:100]!r}"
    return validated(PackFile, {str(key): value for key, value in content.items()}, where, ConfigError)


def pack_yaml(pack: Pack) -> str:
    """The pack as YAML for `read_pack`, without the keys that have their default values."""
    values = pack.model_dump(exclude={"name", "content_hash", "created_at"})
    file = PackFile.model_validate({"pack": pack.name, **values})
    return dump_yaml(file.model_dump(mode="json", by_alias=True, exclude_defaults=True))
