"""`Registry`: plugins, judge templates and packs by name and version; nothing in it is overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from evalkit.errors import ConfigError, RegistryError, listed
from evalkit.prompts import Template
from evalkit.registry.databases import Database, default_url
from evalkit.registry.entries import JudgeTemplate, Pack, PackTask, Plugin
from evalkit.registry.packs import hash_of, pack_yaml, read_pack
from evalkit.registry.sources import content_hash, locate, requirements_of
from evalkit.registry.tables import PLUGIN_TYPES, PackRow, PackTaskRow, PluginRow, TemplateRow

__all__ = ["Registry"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Registry:
    """What runs are made of, in a database; `Registry.open` gives one.

    Attributes
    ----------
    database
        Where it is.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     print(pack.label, registry.packs()["n_tasks"].tolist())
    ...     registry.close()
    smoke@1 [1]
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    def open(cls, url: str | Path | None = None) -> Registry:
        """The registry at a PostgreSQL URL or in a SQLite file; its schema is brought up to date at first use.

        Parameters
        ----------
        url
            By default `EVALKIT_REGISTRY`, else ``registry.sqlite`` in the cache folder.

        Raises
        ------
        ConfigError
            For a URL that names no database that can be used.
        """
        return cls(Database(default_url() if url is None else str(url)))

    def __repr__(self) -> str:
        return f"Registry({self.database.shown!r})"

    def close(self) -> None:
        """Close the connections; a later use opens them again."""
        self.database.close()

    def register_plugin(self, name: str, version: str, uri: str, plugin_type: str = "task") -> Plugin:
        """Register a plugin with the hash of its files.

        Parameters
        ----------
        name, version
            Unique together. Registering the same content again changes nothing.
        uri
            A dotted package path, a file or folder, or a URL that pip takes (``git+file:///repo@commit``).
        plugin_type
            ``task``, ``metric`` or ``bundle``.

        Raises
        ------
        ConfigError
            When there is nothing at the URI, or name and version stand for other content already.
        """
        _check_name("plugin", name, version)
        if plugin_type not in PLUGIN_TYPES:
            raise ConfigError(f"plugin type {plugin_type!r} is unknown; allowed are {', '.join(PLUGIN_TYPES)}")
        place = locate(uri, self.folder)
        row = PluginRow(
            name=name,
            version=version,
            plugin_type=plugin_type,
            storage_uri=place.uri,
            content_hash=content_hash(place.path),
            requirements=list(requirements_of(place.path)),
            created_at=datetime.now(UTC),
        )
        return _plugin(self._added(row, same=("storage_uri", "plugin_type")))

    def add_template(
        self, name: str, version: str, prompt_template: str, response_schema: Mapping[str, Any] | None = None
    ) -> JudgeTemplate:
        """Register a judge template; its header and blocks are checked as those of ``rubrics/templates/``.

        Raises
        ------
        RubricError
            When the source is no template.
        ConfigError
            When name and version stand for another text already.
        """
        template = Template.of(name, _template_version(version), prompt_template)
        template.parse()
        if response_schema is not None and response_schema.get("type") != "object":
            raise ConfigError(f"response schema of template {template.label}: it must be of type object")
        row = TemplateRow(
            name=template.name,
            version=template.version,
            prompt_template=template.source,
            response_schema=None if response_schema is None else dict(response_schema),
            content_hash=template.hash,
            created_at=datetime.now(UTC),
        )
        return _template(self._added(row, same=("response_schema",)))

    def apply_pack(self, source: str | Path | Mapping[str, Any]) -> Pack:
        """Take a pack over from a YAML file or its content; the same content again changes nothing.

        Raises
        ------
        ConfigError
            For a file that breaks the rules, or a version that exists with other content.
        """
        file = read_pack(source)
        row = PackRow(
            name=file.pack,
            version=file.version,
            description=file.description,
            primary_metric=file.primary_metric,
            task_aggregation=file.task_aggregation,
            content_hash=hash_of(file),
            created_at=datetime.now(UTC),
            tasks=[
                PackTaskRow(
                    position=position,
                    task_spec=entry.task,
                    fewshot=entry.fewshot,
                    weight=entry.weight,
                    overrides=entry.overrides.model_dump(exclude_none=True),
                )
                for position, entry in enumerate(file.tasks)
            ],
        )
        return _pack(self._added(row))

    def plugin(self, name: str, version: str | None = None) -> Plugin:
        """A plugin by name and version; without a version the one registered last."""
        return _plugin(self._one(PluginRow, "plugin", name, version))

    def template(self, name: str, version: str | None = None) -> JudgeTemplate:
        """A judge template by name and version; without a version the highest."""
        return _template(self._one(TemplateRow, "judge template", name, version))

    def pack(self, name: str, version: str | None = None) -> Pack:
        """A pack by name and version; without a version the one applied last."""
        return _pack(self._one(PackRow, "pack", name, version))

    def pack_yaml(self, name: str, version: str | None = None) -> str:
        """A pack as the text of a YAML file, which `apply_pack` takes."""
        return pack_yaml(self.pack(name, version))

    def plugins(self) -> pd.DataFrame:
        """All plugins, oldest first: `name`, `version`, `plugin_type`, `storage_uri`, `content_hash`, `created_at`."""
        columns = ("name", "version", "plugin_type", "storage_uri", "content_hash", "created_at")
        return self._table(PluginRow, columns)

    def templates(self) -> pd.DataFrame:
        """All judge templates, oldest first: `name`, `version`, `content_hash`, `created_at`."""
        return self._table(TemplateRow, ("name", "version", "content_hash", "created_at"))

    def packs(self) -> pd.DataFrame:
        """All packs, oldest first: `name`, `version`, `n_tasks`, `primary_metric`, `task_aggregation`, `created_at`."""
        table = self._table(
            PackRow, ("name", "version", "tasks", "primary_metric", "task_aggregation", "created_at", "description")
        )
        table["tasks"] = [len(tasks) for tasks in table["tasks"]]
        return table.rename(columns={"tasks": "n_tasks"})

    @property
    def folder(self) -> Path:
        """Where copies of plugins from URLs are kept."""
        from evalkit.caching import default_folder

        return default_folder() / "plugins"

    def _added(self, row: Any, same: tuple[str, ...] = ()) -> Any:
        """The row, added; or the one that is there with the same content, else ConfigError."""
        kind = type(row)
        try:
            with self.database.session() as session:
                session.add(row)
                session.flush()
                session.refresh(row)
                return row
        except RegistryError as problem:
            if not isinstance(problem.__cause__, IntegrityError):
                raise
        there = self._one(kind, kind.__tablename__, row.name, row.version)
        fields = ("content_hash", *same)
        differs = [name for name in fields if getattr(there, name) != getattr(row, name)]
        if differs:
            raise ConfigError(
                f"{row.name}@{row.version} is in {kind.__tablename__} already, with another {', '.join(differs)}: "
                "nothing is overwritten, so give it a new version"
            )
        return there

    def _one(self, kind: Any, what: str, name: str, version: str | None) -> Any:
        with self.database.session() as session:
            found = session.scalars(select(kind).where(kind.name == name).order_by(kind.id)).all()
            if version is None and found:
                return max(found, key=_number) if kind is TemplateRow else found[-1]
            for row in found:
                if row.version == version:
                    return row
            there = [row.version for row in found]
            others = _names(session, kind)
        if there:
            raise RegistryError(f"there is no {what} {name}@{version}; there are the versions {', '.join(there)}")
        raise RegistryError(f"there is no {what} {name!r}; there are {listed(others)}")

    def _table(self, kind: Any, columns: tuple[str, ...]) -> pd.DataFrame:
        with self.database.session() as session:
            rows = [
                {column: getattr(row, column) for column in columns}
                for row in session.scalars(select(kind).order_by(kind.id)).all()
            ]
        return pd.DataFrame(rows, columns=list(columns))


def _names(session: Session, kind: Any) -> list[str]:
    return sorted({str(name) for name in session.scalars(select(kind.name)).all()})


def _number(row: Any) -> int:
    return int(row.version.removeprefix("v"))


def _template_version(version: str) -> str:
    if not re.fullmatch(r"v[1-9][0-9]*", version):
        raise ConfigError(f"a template's version is v1, v2 and so on, not {version!r}")
    return version


def _check_name(what: str, name: str, version: str) -> None:
    for kind, text in (("name", name), ("version", version)):
        if not _NAME.fullmatch(text):
            raise ConfigError(
                f"{text!r} is no {kind} for a {what}: letters, digits, dot, dash and underscore, at most 100"
            )


def _plugin(row: PluginRow) -> Plugin:
    return Plugin(
        row.name, row.version, row.plugin_type, row.storage_uri, row.content_hash, tuple(row.requirements),
        row.created_at,
    )  # fmt: skip


def _template(row: TemplateRow) -> JudgeTemplate:
    return JudgeTemplate(
        row.name, row.version, row.prompt_template, row.response_schema, row.content_hash, row.created_at
    )


def _pack(row: PackRow) -> Pack:
    tasks = tuple(PackTask(task.task_spec, task.fewshot, task.weight, task.overrides) for task in row.tasks)
    return Pack(
        row.name, row.version, row.description, row.primary_metric, row.task_aggregation, tasks, row.content_hash,
        row.created_at,
    )  # fmt: skip
