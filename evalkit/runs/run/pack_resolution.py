"""What a run of a pack will use, resolved and checked before it starts; `binding_tasks` looks up what a task needs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.lists_of_choices import SCORING_MODES
from evalkit.errors import ConfigError, listed
from evalkit.rubrics import Profile
from evalkit.runs.contract.scoring_config import CONFIG_IGNORED, Scoring, ScoringConfig
from evalkit.runs.contract.task_bindings import TaskBinding, TaskBindings
from evalkit.runs.registry import Pack, Registry
from evalkit.runs.run.binding_tasks import Search, bind


@dataclass(frozen=True, slots=True)
class Resolution:
    """A pack, resolved and checked.

    `bindings` are passed on in ``EVALKIT_TASK_BINDINGS``; `hashes` are the content hashes of the pack and of `plugins`;
    `warnings` are problems that do not stop a run: keys that are not set here, settings without effect; `profiles` are
    those that judge tasks, by task.
    """

    pack: Pack
    scoring: Scoring
    bindings: TaskBindings
    hashes: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    profiles: Mapping[str, Profile] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As stored with the run."""
        return {**self.hashes, "bindings": {task: one.to_dict() for task, one in self.bindings.root.items()}}


def resolve(registry: Registry, pack: Pack, mode: str = "deterministic", config: Any = None) -> Resolution:
    """Look up the plugins, profiles and templates of a pack, and check that they fit together.

    The template of a judge is the first of: its `judge_template_id`, the pack's override, the profile's, the
    rubric's. An id is looked up in the registry, in the plugin, then in ``rubrics/templates/``; without a version it
    is the newest. In deterministic mode, judges, profiles and templates are neither needed nor checked.

    Nothing of a plugin is imported: unknown tasks, modes and inputs are checked by the process that runs LightEval,
    before it loads the model.

    Parameters
    ----------
    registry
        The registry with plugins and templates.
    pack
        The pack to run.
    mode, config
        Scoring mode; scoring config as a mapping, JSON string or file.

    Raises
    ------
    ConfigError
        One message with every problem, numbered: plugins that are missing or changed, profiles and templates that
        are not found, missing judges.

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
    search = Search(registry, scoring, first, is_config_read=not first)
    bindings = {task.task: found for task in pack.tasks if (found := bind(search, task)) is not None}
    _check_versions(search, bindings)
    _check_names(search, pack)
    if search.problems:
        raise ConfigError(_said(pack, search.problems))
    hashes = {
        "pack": pack.content_hash,
        "plugins": {one.label: {"uri": one.storage_uri, "hash": one.content_hash} for one in search.plugins.values()},
    }
    ignored = [CONFIG_IGNORED] if config is not None and scoring.mode == "deterministic" else []
    warnings = (*ignored, *scoring.warnings, *_replaced(search, pack), *_keys_not_set(search.config))
    return Resolution(pack, scoring, TaskBindings(bindings), hashes, warnings, search.profiles)


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
            fact = f"plugin {name!r} is needed in the versions {listed(sorted(several))} (tasks {listed(tasks)})"
            search.problems.append(f"{fact}, but a process can load only one; set the same version everywhere")


def _check_names(search: Search, pack: Pack) -> None:
    names = [task.task for task in pack.tasks]
    for task in pack.tasks:
        if parts := [name for name in names if name.startswith(f"{task.task}:")]:
            search.add(task, f"it contains {listed(parts)}, which the pack lists too; a run has one result per task")


def _replaced(search: Search, pack: Pack) -> Iterator[str]:
    """Which settings of profiles that the pack binds the scoring config replaces, with the tasks."""
    tasks: dict[str, list[str]] = {}
    for task in pack.tasks:
        profile = search.profiles.get(task.task) if task.overrides.judge_profile else None
        for text in () if profile is None else search.config.replaced(profile, is_bound=True):
            tasks.setdefault(text, []).append(task.task)
    yield from (f"{', '.join(names)}: {text}" for text, names in tasks.items())


def _keys_not_set(config: ScoringConfig) -> Iterator[str]:
    """Only a warning: cached replies need no key."""
    for judge in config.judges:
        if judge.api_key_env and not os.environ.get(judge.api_key_env):
            fact = f"judge {judge.judge_model_name!r}: the variable {judge.api_key_env} is not set here"
            yield f"{fact}; only cached replies can be used"
