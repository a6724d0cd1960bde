"""`Registry`: plugins, judge templates and packs by name and version; nothing in it is overwritten."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from evalkit.core.lists_of_choices import PLUGIN_TYPES
from evalkit.errors import ConfigError, RegistryError, listed
from evalkit.rubrics.prompt_builder import Template
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.registry.database import Database, registry_settings
from evalkit.runs.registry.database_tables import PackRow, PackTaskRow, PluginRow, RunRow, TemplateRow
from evalkit.runs.registry.pack_files import EntryError, JudgeTemplate, Pack, PackFile, Plugin, pack_yaml, read_pack
from evalkit.runs.registry.plugin_sources import content_hash, locate, requirements_of


def add_row(database: Database, row: Any, same: tuple[str, ...] = ()) -> Any:
    """Add a row, or return the existing row with its name and version, content hash and values of the fields `same`.

    Raises
    ------
    ConfigError
        When name and version already exist with other content.
    """
    kind = type(row)
    try:
        with database.session() as session:
            session.add(row)
            session.flush()
            session.refresh(row)
            return row
    except RegistryError as problem:
        if not isinstance(problem.__cause__, IntegrityError):
            raise
    existing = find_row(database, kind, kind.__tablename__, row.name, row.version)
    if differs := [name for name in ("content_hash", *same) if getattr(existing, name) != getattr(row, name)]:
        raise ConfigError(
            f"{row.name}@{row.version} already exists in {kind.__tablename__} with another {', '.join(differs)}; "
            "versions are never overwritten, so use a new version"
        )
    return existing


def pack_row(file: PackFile) -> PackRow:
    """The row of a pack, and those of its tasks."""
    tasks = [
        PackTaskRow(
            position=position, task_spec=entry.task, fewshot=entry.fewshot, weight=entry.weight,
            overrides=entry.overrides.values,
        )
        for position, entry in enumerate(file.tasks)
    ]  # fmt: skip
    return PackRow(**file.model_dump(exclude={"tasks"}), tasks=tasks, content_hash=file.hash)


def find_row(database: Database, kind: Any, what: str, label: str, version: str | None = None) -> Any:
    """The row of ``name@version``, or of name and version; without a version of templates the highest, else the newest.

    Raises
    ------
    EntryError
        When there is none; the message lists the versions or names that there are. `what` is the name of a row in it.
    """
    name, separator, labelled = label.partition("@")
    version = labelled if separator else version
    with database.session() as session:
        rows = {row.version: row for row in session.scalars(select(kind).filter_by(name=name).order_by(kind.id))}
        names = sorted(set(session.scalars(select(kind.name))))
    if not rows:
        raise EntryError(f"{what} {name!r} not found; available: {listed(names)}")
    if version is None and kind is TemplateRow:
        return max(rows.values(), key=lambda row: int(row.version.removeprefix("v")))
    version = next(reversed(rows)) if version is None else version
    if version not in rows:
        raise EntryError(f"{what} {name}@{version} not found; available versions: {', '.join(rows)}")
    return rows[version]


def list_rows(database: Database, kind: Any, columns: tuple[str, ...]) -> pd.DataFrame:
    """All rows of a kind, oldest first."""
    with database.session() as session:
        found = session.scalars(select(kind).order_by(kind.id)).all()
        rows = [{column: getattr(row, column) for column in columns} for row in found]
    return pd.DataFrame(rows, columns=list(columns))


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TEMPLATE = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")  # as `load_template`
_TEMPLATE_VERSION = re.compile(r"v[1-9][0-9]*")


class Registry:
    """Plugins, judge templates and packs in a database; `Registry.open` opens one.

    Attributes
    ----------
    database
        Its database.

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
        """The registry at a PostgreSQL URL or in a SQLite file; its tables are created at first use.

        Parameters
        ----------
        url
            By default `EVALKIT_REGISTRY`, else ``registry.sqlite`` in the cache folder.

        Raises
        ------
        ConfigError
            For a URL of an unsupported database.
        """
        return cls(Database(registry_settings(url)["registry"]))

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
            A dotted package path of what pip or uv installed, or a file or folder.
        plugin_type
            ``task``, ``metric`` or ``bundle``.

        Raises
        ------
        ConfigError
            When there is no plugin at the URI, or name and version already exist with other content.
        """
        for what, text in (("name", name), ("version", version)):
            _check(f"plugin {what}", text, _NAME, "letters, digits, dot, dash and underscore, at most 100")
        if plugin_type not in PLUGIN_TYPES:
            raise ConfigError(f"unknown plugin type {plugin_type!r}; allowed: {', '.join(PLUGIN_TYPES)}")
        place = locate(uri)
        layout = PluginLayout.at(place.path)
        row = PluginRow(
            name=name, version=version, plugin_type=plugin_type, storage_uri=place.uri,
            content_hash=content_hash(place.path), requirements=requirements_of(layout),
        )  # fmt: skip
        return Plugin.model_validate(add_row(self.database, row, same=("storage_uri", "plugin_type")))

    def check_plugin(self, name: str, version: str | None = None) -> PluginLayout:
        """The files of a plugin on this machine, after checking that they are unchanged; none of its code is run.

        Parameters
        ----------
        name, version
            The plugin: name and version, or ``name@version``; without a version the one registered last.

        Raises
        ------
        EntryError
            When there is no such plugin, its code is not there, or its content changed since it was registered.
        """
        plugin = self.plugin(name, version)
        try:
            place = locate(plugin.storage_uri)
            layout, now = PluginLayout.at(place.path), content_hash(place.path)
        except ConfigError as problem:
            raise EntryError(f"plugin {plugin.label} cannot be used here: {problem}") from None
        if now != plugin.content_hash:
            raise EntryError(
                f"plugin {plugin.label} changed since it was registered: {place.path} has the hash {now[:12]}, not "
                f"{plugin.content_hash[:12]}; restore the files, or register it as a new version"
            )
        return layout

    def add_template(
        self, name: str, version: str, prompt_template: str, response_schema: Mapping[str, Any] | None = None
    ) -> JudgeTemplate:
        """Register a judge template; its header and blocks are checked like those in ``rubrics/templates/``.

        Raises
        ------
        RubricError
            When the source is not a template.
        ConfigError
            When name and version already exist with another source.
        """
        _check("template name", name, _TEMPLATE, "lower-case letters, digits, dash and underscore")
        _check("template version", version, _TEMPLATE_VERSION, "v1, v2 and so on")
        template = Template.of(name, version, prompt_template)
        template.parse()
        if response_schema is not None and response_schema.get("type") != "object":
            raise ConfigError(f"response schema of template {template.label}: must be of type object")
        row = TemplateRow(
            name=template.name, version=template.version, prompt_template=template.source,
            response_schema=None if response_schema is None else dict(response_schema), content_hash=template.hash,
        )  # fmt: skip
        return JudgeTemplate.model_validate(add_row(self.database, row, same=("response_schema",)))

    def apply_pack(self, source: str | Path | Mapping[str, Any]) -> Pack:
        """Add a pack from a YAML file or its content; adding the same content again changes nothing.

        Raises
        ------
        ConfigError
            For an invalid file, or a version that already exists with other content.
        """
        return Pack.model_validate(add_row(self.database, pack_row(read_pack(source))))

    def plugin(self, name: str, version: str | None = None) -> Plugin:
        """A plugin by name and version, or ``name@version``; without a version the one registered last."""
        return Plugin.model_validate(find_row(self.database, PluginRow, "plugin", name, version))

    def template(self, name: str, version: str | None = None) -> JudgeTemplate:
        """A judge template by name and version, or ``name@version``; without a version the highest."""
        return JudgeTemplate.model_validate(find_row(self.database, TemplateRow, "judge template", name, version))

    def pack(self, name: str, version: str | None = None) -> Pack:
        """A pack by name and version, or ``name@version``; without a version the one applied last."""
        return Pack.model_validate(find_row(self.database, PackRow, "pack", name, version))

    def pack_yaml(self, name: str, version: str | None = None) -> str:
        """A pack as YAML for `apply_pack`."""
        return pack_yaml(self.pack(name, version))

    def plugins(self) -> pd.DataFrame:
        """All plugins, oldest first: `name`, `version`, `plugin_type`, `storage_uri`, `content_hash`, `created_at`."""
        columns = ("name", "version", "plugin_type", "storage_uri", "content_hash", "created_at")
        return list_rows(self.database, PluginRow, columns)

    def templates(self) -> pd.DataFrame:
        """All judge templates, oldest first: `name`, `version`, `content_hash`, `created_at`."""
        return list_rows(self.database, TemplateRow, ("name", "version", "content_hash", "created_at"))

    def packs(self) -> pd.DataFrame:
        """All packs, oldest first: `name`, `version`, `n_tasks`, `primary_metric`, `task_aggregation`, `created_at`."""
        columns = ("name", "version", "tasks", "primary_metric", "task_aggregation", "created_at", "description")
        table = list_rows(self.database, PackRow, columns)
        table["tasks"] = [len(tasks) for tasks in table["tasks"]]
        return table.rename(columns={"tasks": "n_tasks"})

    def runs(self) -> pd.DataFrame:
        """All runs, oldest first, without their scores.

        Returns
        -------
        pandas.DataFrame
            `id`, `pack` (``name@version``), `model`, `backend`, `scoring_mode`, `status`, `created_at`, `started_at`,
            `finished_at` (UTC), `error`.
        """
        columns = ("id", "pack", "model", "backend", "scoring_mode", "status", "created_at", "started_at")
        table = list_rows(self.database, RunRow, (*columns, "finished_at", "error"))
        table["pack"] = [f"{pack.name}@{pack.version}" for pack in table["pack"]]
        return table.sort_values(["created_at", "id"], ignore_index=True)


def _check(what: str, text: str, pattern: re.Pattern[str], rule: str) -> None:
    if not pattern.fullmatch(text):
        raise ConfigError(f"invalid {what} {text!r}: expected {rule}")
