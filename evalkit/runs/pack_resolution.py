"""What a run of a pack will use, resolved and checked before it starts; `binding_tasks` looks up what a task needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evalkit.core.lists_of_choices import SCORING_MODES
from evalkit.core.reply_keys import digest
from evalkit.errors import ConfigError, EvalkitError, listed
from evalkit.rubrics import load_profile
from evalkit.rubrics.prompts import load_template
from evalkit.runs.binding_tasks import Search, bind
from evalkit.runs.contract import Scoring, ScoringConfig, TaskBinding, TaskBindings
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.contract.scoring_config import CONFIG_IGNORED
from evalkit.runs.registry import Pack, Registry
from evalkit.runs.registry.benchmarks import unknown_tasks
from evalkit.runs.registry.pack_files import Overrides
from evalkit.runs.registry.records import EntryError


@dataclass(frozen=True, slots=True)
class Resolution:
    """A pack, resolved and checked.

    Attributes
    ----------
    pack
        The pack.
    scoring
        Mode and config.
    bindings
        The bindings of tasks, which a run passes on in ``EVALKIT_TASK_BINDINGS``.
    hashes
        Content hashes: of the pack, and of `plugins`, `profiles` and `templates` by name (a plugin's own are prefixed
        with its name).
    warnings
        Problems that do not stop a run: keys that are not set here, settings without effect.
    """

    pack: Pack
    scoring: Scoring
    bindings: TaskBindings
    hashes: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As stored with the run."""
        bindings = {task: self.bindings.root[task].to_dict() for task in self.bindings}
        return {**self.hashes, "bindings": bindings}


def resolve(
    registry: Registry, pack: Pack, mode: str = "deterministic", config: Any = None, *, import_tasks: bool = False
) -> Resolution:
    """Look up the plugins, profiles and templates of a pack, and check that they fit together.

    The template of a judge is the first of: its `judge_template_id`, the pack's override, the profile's, the
    rubric's. An id is looked up in the registry, in the plugin, then in ``rubrics/templates/``; without a version it
    is the newest. In deterministic mode, judges, profiles and templates are neither needed nor checked.

    Parameters
    ----------
    registry
        The registry with plugins and templates.
    pack
        The pack to run.
    mode, config
        Scoring mode; scoring config as a mapping, JSON string or file.
    import_tasks
        Whether plugins whose tasks the registry does not know are imported, each in a separate process.

    Raises
    ------
    ConfigError
        One message with every problem, numbered: plugins that are missing or changed, profiles and templates that
        are not found, unsupported modes, missing judges, unknown tasks.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     registry = Registry.open(f"{folder}/registry.sqlite")
    ...     pack = registry.apply_pack({"pack": "smoke", "version": 1, "tasks": [{"task": "tool_use"}]})
    ...     print(len(resolve(registry, pack).bindings))
    ...     registry.close()
    0
    """
    first: list[str] = []
    try:
        scoring = Scoring.of(mode, config)
    except ConfigError as problem:
        first, scoring = [str(problem)], Scoring(mode if mode in SCORING_MODES else "deterministic")
    search = Search(
        registry,
        scoring,
        first,
        benchmarks=registry.benchmarks(),
        is_config_read=not first,
        is_importing=import_tasks,
    )
    bindings = {task.task: found for task in pack.tasks if (found := bind(search, task)) is not None}
    _check_versions(search, bindings)
    _check_names(search, pack)
    if search.problems:
        raise ConfigError(_said(pack, search.problems))
    ignored = [CONFIG_IGNORED] if config is not None and scoring.mode == "deterministic" else []
    hashes = {
        "pack": pack.content_hash,
        "plugins": {one.label: {"uri": one.storage_uri, "hash": one.content_hash} for one in search.plugins.values()},
        "profiles": search.profiles,
        "templates": search.templates,
    }
    return Resolution(
        pack, scoring, TaskBindings.of(bindings), hashes, (*ignored, *scoring.warnings, *_keys_not_set(search.config))
    )


def relocate(registry: Registry, kept: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> TaskBindings:
    """The bindings of a run with the paths of its plugins on this machine, after checking their hashes again.

    Parameters
    ----------
    registry, kept
        The registry with the plugins, and the resolution that is stored with the run.
    config
        The run's scoring config, which may also set a profile; None in deterministic mode.

    Raises
    ------
    ConfigError
        One message with every plugin, profile or template that is missing or changed since the run was created.
    """
    layouts: dict[str, PluginLayout] = {}
    problems = []
    for label in kept.get("plugins", {}):
        try:
            layouts[label] = registry.check_plugin(label)
        except EntryError as problem:
            problems.append(str(problem))
    placed: dict[str, TaskBinding] = {}
    outside: list[str] = []
    bindings = TaskBindings.of(kept.get("bindings", {}))
    for task, binding in bindings.root.items():
        layout = layouts.get(f"{binding.plugin}@{binding.plugin_version}")
        name = binding.judge_profile or (config or {}).get("profile")
        own = {} if layout is None else layout.profiles  # pinned by the plugin's hash
        if name is not None and name not in own:
            outside.append(name)
        changes = {} if layout is None else {"plugin_path": str(layout.root)}
        if binding.judge_profile is not None and binding.judge_profile in own:
            changes["judge_profile"] = str(own[binding.judge_profile])
        placed[task] = binding.model_copy(update=changes)
    profiles = kept.get("profiles", {})
    problems += _changed("profile", dict.fromkeys(outside), lambda name: _is_same_profile(name, profiles))
    inside = {f"{one.name}@{one.version}" for binding in bindings.root.values() for one in binding.templates}
    templates = kept.get("templates", {})
    shared = [label for label in templates if ":" not in label and label not in inside]
    problems += _changed("template", shared, lambda label: load_template(label).hash == templates[label])
    if problems:
        raise ConfigError("; ".join(problems))
    return TaskBindings(placed)


def _changed(kind: str, names: Iterable[str], is_same: Callable[[str], bool]) -> Iterator[str]:
    """Problems with profiles or templates in the project's ``rubrics/``."""
    for name in names:
        try:
            if not is_same(name):
                yield f"{kind} {name!r} changed since the run was created; start a new run"
        except EvalkitError as problem:
            yield str(problem)


def _is_same_profile(name: str, hashes: Mapping[str, str]) -> bool:
    profile = load_profile(name)
    return hashes.get(f"{profile.profile}@{profile.version}") == digest(profile.to_dict())


def _said(pack: Pack, problems: list[str]) -> str:
    if len(problems) == 1:
        return f"pack {pack.label} cannot run: {problems[0]}"
    lines = "; ".join(f"({number}) {said}" for number, said in enumerate(problems, 1))
    return f"pack {pack.label} cannot run, {len(problems)} problems: {lines}"


def _check_versions(search: Search, bindings: Mapping[str, TaskBinding]) -> None:
    versions: dict[str, set[str]] = {}
    for one in search.plugins.values():
        versions.setdefault(one.name, set()).add(one.version)
    for name, several in sorted(versions.items()):
        if len(several) > 1:
            tasks = [task for task, one in bindings.items() if one.plugin == name]
            search.problems.append(
                f"plugin {name!r} is needed in the versions {listed(sorted(several))} (tasks {listed(tasks)}), but a "
                "process can load only one; set the same version everywhere"
            )


def _check_names(search: Search, pack: Pack) -> None:
    """Find unknown tasks, and names that two plugins or a group of tasks share."""
    found = tuple(
        task for task in pack.tasks if not task.overrides.judge_plugin_name or _is_usable(search, task.overrides)
    )
    search.problems += unknown_tasks(
        pack.model_copy(update={"tasks": found}), search.benchmarks, search.registry.plugins()
    )
    names = [task.task for task in pack.tasks]
    for task in pack.tasks:
        parts = [name for name in names if name.startswith(f"{task.task}:")]
        if parts:
            search.add(task, f"it contains {listed(parts)}, which the pack lists too; a run has one result per task")
        brought = search.benchmarks[search.benchmarks["name"] == task.task].dropna(subset=["plugin"])
        labels = set(brought["plugin"] + "@" + brought["plugin_version"])
        claims = sorted(labels & search.plugins.keys())
        if len(claims) > 1:
            search.add(task, f"the plugins {listed(claims)} each define a task of this name; a run loads only one")


def _is_usable(search: Search, overrides: Overrides) -> bool:
    name, version = overrides.judge_plugin_name, overrides.judge_plugin_version
    return any(one.name == name and version in (None, one.version) for one in search.plugins.values())


def _keys_not_set(config: ScoringConfig) -> Iterator[str]:
    """Only a warning: cached replies need no key, and a worker on another machine may have it."""
    for judge in config.judges:
        if judge.api_key_env and not os.environ.get(judge.api_key_env):
            yield (
                f"judge {judge.judge_model_name!r}: the variable {judge.api_key_env} is not set here; only "
                "cached replies can be used"
            )
