"""What the registry holds, as plain frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

__all__ = ["JudgeTemplate", "Pack", "PackTask", "Plugin"]


@dataclass(frozen=True, slots=True)
class Plugin:
    """A registered judge plugin.

    Attributes
    ----------
    name, version
        Unique together.
    plugin_type
        ``task``, ``metric`` or ``bundle``.
    storage_uri
        Where its code is: dotted package path, file or folder, or a URL that pip takes (``git+…@commit``).
    content_hash
        sha256 of its files at registration; checked at each run.
    requirements
        What its package says it needs, as in ``Requires-Dist``.
    created_at
        When it was registered (UTC).
    """

    name: str
    version: str
    plugin_type: str
    storage_uri: str
    content_hash: str
    requirements: tuple[str, ...]
    created_at: datetime

    @classmethod
    def of(cls, row: Any) -> Plugin:
        """From its row."""
        return cls(
            row.name, row.version, row.plugin_type, row.storage_uri, row.content_hash, tuple(row.requirements),
            row.created_at,
        )  # fmt: skip

    @property
    def label(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class JudgeTemplate:
    """A registered judge template.

    Attributes
    ----------
    name, version
        Unique together; the version is ``v1``, ``v2`` …
    prompt_template
        The Jinja source, as in ``rubrics/templates/``.
    response_schema
        JSON schema of the reply, or None: that of the rubric's scale.
    content_hash
        sha256 of the source, as in reply keys.
    created_at
        When it was registered (UTC).
    """

    name: str
    version: str
    prompt_template: str
    response_schema: Mapping[str, Any] | None
    content_hash: str
    created_at: datetime

    @classmethod
    def of(cls, row: Any) -> JudgeTemplate:
        """From its row."""
        return cls(row.name, row.version, row.prompt_template, row.response_schema, row.content_hash, row.created_at)

    @property
    def label(self) -> str:
        """``name@version``: the ``judge_template_id`` of scoring configs."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class PackTask:
    """One task of a pack.

    Attributes
    ----------
    task
        LightEval's task spec without few-shot count: ``name`` or ``suite:name``.
    fewshot
        Examples in the prompt, ≥ 0.
    weight
        Relative weight in the pack's score, ≥ 0.
    overrides
        `judge_plugin_name`, `judge_plugin_version`, `judge_profile`, `judge_template_id`, those that are given.
    """

    task: str
    fewshot: int = 0
    weight: float = 1.0
    overrides: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> str:
        """As LightEval takes it: ``name|0``."""
        return f"{self.task}|{self.fewshot}"


@dataclass(frozen=True, slots=True)
class Pack:
    """A registered pack.

    Attributes
    ----------
    name, version
        Unique together.
    description
        For people.
    primary_metric
        The metric that counts for each task; None: each task's first.
    task_aggregation
        How the tasks' figures become one: ``mean`` (by weight), ``min`` or ``none``.
    tasks
        In the order of the file.
    content_hash
        sha256 of all of the above.
    created_at
        When it was applied (UTC).
    """

    name: str
    version: str
    description: str
    primary_metric: str | None
    task_aggregation: str
    tasks: tuple[PackTask, ...]
    content_hash: str
    created_at: datetime

    @classmethod
    def of(cls, row: Any) -> Pack:
        """From its row, and those of its tasks."""
        tasks = tuple(PackTask(task.task_spec, task.fewshot, task.weight, task.overrides) for task in row.tasks)
        return cls(
            row.name, row.version, row.description, row.primary_metric, row.task_aggregation, tasks, row.content_hash,
            row.created_at,
        )  # fmt: skip

    @property
    def label(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"
