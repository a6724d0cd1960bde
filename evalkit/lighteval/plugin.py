"""The module for LightEval's ``--custom-tasks``: tasks of evalkit and installed bundles, or of the bound plugins.

``lighteval … --custom-tasks evalkit.lighteval.plugin`` (or the path of this file) loads evalkit's own tasks and those
of every installed package with an entry point in the group ``evalkit.plugins``. If ``EVALKIT_TASK_BINDINGS`` names
plugins, it loads exactly those, by path.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import import_module, metadata
from typing import Any

from evalkit.errors import ConfigError, EvalkitError, listed
from evalkit.runs.contract.plugin_layout import ENTRY_POINTS, PluginLayout
from evalkit.runs.contract.scoring_config import TaskBindings, asked_mode


def gather(bindings: TaskBindings | None = None) -> list[Any]:
    """The tasks (``LightevalTaskConfig``) of the plugins of a run.

    Parameters
    ----------
    bindings
        By default those of the environment.

    Raises
    ------
    ConfigError
        When a plugin cannot be loaded or has no ``TASKS_TABLE``, when two plugins have a task of the same name, or when
        two versions of one plugin are bound.
    """
    given = TaskBindings.from_environ() if bindings is None else bindings
    _refuse_two_versions(given)
    paths = dict.fromkeys(binding.plugin_path for binding in given.root.values() if binding.plugin_path)
    modules: list[tuple[str, Any]] = [(f"plugin {path}", PluginLayout.at(path).load) for path in paths]
    if not modules:
        modules = [("evalkit itself", partial(import_module, "evalkit.lighteval.tasks"))]
        for point in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
            modules.append((f"the installed plugin {point.name!r} ({point.value})", point.load))
    origin: dict[str, str] = {}
    tasks = []
    for where, load in modules:
        for task in _table(where, load, given):
            if task.name in origin:
                raise ConfigError(
                    f"the task {task.name!r} comes from {origin[task.name]} and from {where}; task names must be "
                    "unique: remove one of the plugins, or rename its task"
                )
            origin[task.name] = where
            tasks.append(task)
    return tasks


def _refuse_two_versions(bindings: TaskBindings) -> None:
    paths: dict[str, dict[str, str]] = {}
    for task, binding in bindings.root.items():
        if binding.plugin and binding.plugin_path:
            paths.setdefault(binding.plugin, {})[binding.plugin_path] = f"{task} → {binding.plugin_version}"
    for plugin, found in paths.items():
        if len(found) > 1:
            raise ConfigError(
                f"a run can use only one version of plugin {plugin!r}, but its tasks use {len(found)} "
                f"({'; '.join(found.values())}); choose one version for all of them"
            )


def _table(where: str, load: Any, bindings: TaskBindings) -> list[Any]:
    try:
        module = load()
    except EvalkitError as problem:
        raise type(problem)(f"{where}: {problem}") from None
    except Exception as problem:
        raise ConfigError(f"{where} cannot be loaded: {type(problem).__name__}: {problem}") from problem
    table = getattr(module, "TASKS_TABLE", None)
    if not isinstance(table, (list, tuple)) or not all(hasattr(task, "prompt_function") for task in table):
        there = listed(name for name in vars(module) if not name.startswith("_"))
        raise ConfigError(f"{where} needs a variable TASKS_TABLE, a list of LightevalTaskConfig; it has only {there}")
    _check_modes(where, getattr(module, "EVALKIT_PLUGIN", {}), bindings)
    return list(table)


def _check_modes(where: str, declared: Any, bindings: TaskBindings) -> None:
    """A plugin can limit the scoring modes of its tasks; judged metrics know theirs themselves."""
    limits = declared.get("scoring_modes", {}) if isinstance(declared, Mapping) else {}
    asked = asked_mode() or "deterministic"
    for task, modes in limits.items():
        if task in bindings and asked not in modes:
            raise ConfigError(f"{where} does not support mode {asked!r} for the task {task!r}, only {listed(modes)}")


TASKS_TABLE = gather()
