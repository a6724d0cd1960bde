"""Benchmarks: the tasks that packs may use, by the plugin or package that defines them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pandas as pd
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from evalkit._version import __version__
from evalkit.errors import ConfigError, RegistryError, guess, listed
from evalkit.runs.contract.plugin_layout import ENTRY_POINTS
from evalkit.runs.registry.database import Database
from evalkit.runs.registry.database_tables import BenchmarkRow, PluginRow
from evalkit.runs.registry.pack_files import Pack, PackTask
from evalkit.runs.registry.plugin_report import dataset_of, inspect_plugin, lighteval_tasks
from evalkit.runs.registry.plugin_sources import locate

COLUMNS = ("name", "source", "plugin", "plugin_version", "scoring_modes", "fields", "rubrics", "dataset", "created_at")
_LISTS = ("scoring_modes", "fields", "rubrics")
LIGHTEVAL = "lighteval"
"""Start of the source of LightEval's own tasks."""
OWN_SOURCE, OWN_TASKS = f"evalkit {__version__}", "evalkit.lighteval.tasks"
"""Source and package of evalkit's own tasks, which is imported like any bundle, in a separate process."""


def add_tasks(
    database: Database, entries: Iterable[Mapping[str, Any]], source: str, plugin_id: int | None = None
) -> None:
    """Add the tasks that the registry does not have yet."""
    rows = [
        {
            "name": entry["name"],
            "plugin_id": plugin_id,
            "source": source,
            "details": {key: value for key, value in entry.items() if key != "name"},
        }
        for entry in entries
    ]
    insert = sqlite.insert if database.is_sqlite else postgresql.insert
    if rows:  # in one statement: another process may add the same tasks at the same time
        with database.session() as session:
            session.execute(insert(BenchmarkRow).on_conflict_do_nothing(), rows)


def benchmark_table(database: Database) -> pd.DataFrame:
    """All benchmarks, by name, with the columns `COLUMNS`."""
    query = select(BenchmarkRow, PluginRow).outerjoin(PluginRow, BenchmarkRow.plugin_id == PluginRow.id)
    with database.session() as session:
        found = session.execute(query.order_by(BenchmarkRow.name, BenchmarkRow.id)).all()
    rows = [
        {
            "name": row.name,
            "source": row.source,
            "plugin": None if plugin is None else plugin.name,
            "plugin_version": None if plugin is None else plugin.version,
            "dataset": row.details.get("dataset"),
            "created_at": row.created_at,
            **{name: ", ".join(row.details[name]) for name in _LISTS if row.details.get(name) is not None},
        }
        for row, plugin in found
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def own_tasks(folder: Path) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Source -> tasks of LightEval, evalkit and installed bundles, as for `add_tasks`; and failed imports.

    Raises
    ------
    MissingExtraError
        When LightEval is not installed.
    RegistryError
        When LightEval's tasks cannot be listed.
    """
    release, tasks, failed = lighteval_tasks()
    messages = [f"{module}: {problem}" for module, problem in failed.items()]
    found = {f"{LIGHTEVAL} {release}": [{"name": one["name"], "dataset": dataset_of(one)} for one in tasks]}
    bundles = {f"bundle {point.name} ({point.module})": point.module for point in entry_points(group=ENTRY_POINTS)}
    for source, module in {OWN_SOURCE: OWN_TASKS, **dict(sorted(bundles.items()))}.items():
        try:
            found[source] = imported_tasks(module, folder)
        except (ConfigError, RegistryError) as problem:
            messages.append(f"{source}: {problem}")
    return found, messages


def imported_tasks(module: str, folder: Path) -> list[dict[str, Any]]:
    """The tasks of a package, imported in a separate process."""
    return [asdict(task) for task in inspect_plugin(locate(module, folder).path).tasks]


def unknown_tasks(pack: Pack, known: pd.DataFrame, plugins: pd.DataFrame) -> list[str]:
    """A message for each unknown task, each task that a run would not see, and each plugin that is not registered.

    There is no message for LightEval's tasks until they are listed, nor for tasks of a plugin that was not checked.
    """
    bound = {name for task in pack.tasks if (name := task.overrides.judge_plugin_name) is not None}
    return [said for task in pack.tasks if (said := _unknown(task, known, plugins, bound)) is not None]


def _unknown(task: PackTask, known: pd.DataFrame, plugins: pd.DataFrame, bound: set[str]) -> str | None:
    name = task.overrides.judge_plugin_name
    if name is None:
        return _unbound(task.task, known, bound)
    versions = plugins.loc[plugins["name"] == name, "version"].tolist()
    version = task.overrides.judge_plugin_version or next(reversed(versions), None)
    if version not in versions:
        label = name if task.overrides.judge_plugin_version is None else f"{name}@{version}"
        available = listed(versions or plugins["name"])
        return f"task {task.task!r}: the plugin {label} is not registered; available: {available}"
    own = known.loc[(known["plugin"] == name) & (known["plugin_version"] == version), "name"].tolist()
    if not own or _is_among(task.task, own):
        return None
    return f"plugin {name}@{version} has no task {task.task!r}; it has {listed(own)}"


def _unbound(task: str, known: pd.DataFrame, bound: set[str]) -> str | None:
    """The message for a task without a plugin, in a pack that binds other tasks to plugins."""
    names = known["name"].tolist()
    found = known[[_is_among(task, [name]) for name in names]]
    if found.empty:
        is_listed = known["source"].str.startswith(LIGHTEVAL).any()
        return f"unknown task {task!r}; {guess(task, names)}evalkit pack tasks lists all" if is_listed else None
    if not bound or found["source"].str.startswith(LIGHTEVAL).any() or found["plugin"].isin(bound).any():
        return None
    return (
        f"task {task!r} comes from {found['source'].iloc[0]}, which a run of this pack does not load: it loads only "
        "the plugins that the pack binds, and LightEval's own tasks. Register the source of the task as a plugin, "
        "and bind the task to it"
    )


def _is_among(task: str, names: Sequence[str]) -> bool:
    """Whether a task is known; LightEval reads ``mmlu`` as all of ``mmlu:…``."""
    return task in names or any(name.startswith(f"{task}:") for name in names)
