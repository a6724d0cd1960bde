"""Task bindings: the plugin, profile and judge templates of each task of a run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

from evalkit.core.validation_errors import validated
from evalkit.errors import ConfigError
from evalkit.rubrics.files import parse_json

BINDINGS_VARIABLE = "EVALKIT_TASK_BINDINGS"
_MOST_BYTES = 100_000  # Linux takes 131,072 in one variable, its name included


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TemplateText(_Part):
    """A judge template with its source and its sha256 (checked), so that the scoring process needs no registry."""

    name: str = Field(min_length=1)
    version: str = Field(min_length=1)
    text: str
    hash: str

    @model_validator(mode="after")
    def _unchanged(self) -> Self:
        if hashlib.sha256(self.text.encode()).hexdigest() != self.hash:
            raise ValueError(f"the text of template {self.name}@{self.version} does not match its hash")
        return self


class TaskBinding(_Part):
    """The binding of one task; every field is optional.

    Attributes
    ----------
    plugin, plugin_version
        Name and version in the registry.
    plugin_path
        The folder or file of the plugin that defines the task.
    plugin_hash
        Content hash at resolution.
    judge_profile
        Name or path of the profile that judges the task.
    judge_template_id
        Template of all judges that have no template of their own.
    templates
        The templates that come from a registry.
    copy_of
        The task of which this is a copy, with the same documents and answers, under another profile.
    """

    plugin: str | None = None
    plugin_version: str | None = None
    plugin_path: str | None = None
    plugin_hash: str | None = None
    judge_profile: str | None = None
    judge_template_id: str | None = None
    templates: list[TemplateText] = []
    copy_of: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in the variable, without the fields that are not set."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


class TaskBindings(RootModel[dict[str, TaskBinding]]):
    """Bindings by the name of a task (``helpfulness``, without ``|0``) or of a group (``pollux``)."""

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.root)

    def __len__(self) -> int:
        return len(self.root)

    def of_task(self, task: str) -> TaskBinding:
        """The binding of a task, as LightEval calls it (``helpfulness|0``), or of its group; empty if there is none.

        Examples
        --------
        >>> bindings = TaskBindings.of({"pollux": {"judge_profile": "strict"}, "pollux:easy": {"plugin": "p"}})
        >>> [bindings.of_task(task).judge_profile for task in ("pollux:hard|0", "pollux:easy|0", "pollux_type:x|0")]
        ['strict', None, None]
        """
        name = task_name(task)
        return self.root.get(name) or self.root.get(name.partition(":")[0], _NONE)

    @classmethod
    def of(cls, values: Any, where: str = BINDINGS_VARIABLE) -> TaskBindings:
        """Bindings from a mapping task → binding.

        Raises
        ------
        ConfigError
            With the task, the key and the allowed values.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: expected an object (task → binding), got a {type(values).__name__}")
        found: dict[str, TaskBinding] = {}
        for task, given in values.items():
            binding = validated(TaskBinding, given, f"{where}: task {task!r}", ConfigError)
            if task_name(task) in found:
                raise ConfigError(f"{where}: task {task_name(task)!r} has two bindings; keep one")
            found[task_name(task)] = binding
        return cls(found)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> TaskBindings:
        """The bindings of ``EVALKIT_TASK_BINDINGS``, which holds JSON or the path of a file; empty if it is not set."""
        text = (os.environ if environ is None else environ).get(BINDINGS_VARIABLE, "").strip()
        if not text:
            return cls({})
        if text.startswith("/"):
            try:
                text = Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as problem:
                raise ConfigError(f"{BINDINGS_VARIABLE}: the file {text} cannot be read: {problem}") from None
        return cls.of(parse_json(text, BINDINGS_VARIABLE, ConfigError))

    def to_json(self) -> str:
        """The bindings as JSON."""
        return json.dumps({task: binding.to_dict() for task, binding in self.root.items()}, ensure_ascii=False)

    def to_environ(self, file: Path) -> str:
        """The value of the variable: JSON, or if that is too long, the path of `file`, which is then written."""
        text = self.to_json()
        if len(text.encode()) <= _MOST_BYTES:
            return text
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return str(file.absolute())


_NONE = TaskBinding()


def task_name(task: str) -> str:
    """A task's name without the number of few-shot examples.

    Examples
    --------
    >>> task_name("helpfulness|0"), task_name("pollux:easy")
    ('helpfulness', 'pollux:easy')
    """
    return task.split("|", 1)[0]
