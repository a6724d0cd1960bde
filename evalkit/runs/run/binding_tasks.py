"""Resolves a pack: plugin, profile and templates of each task, all problems in one message."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from evalkit.core.lists_of_choices import SCORING_MODES
from evalkit.errors import ConfigError, EvalkitError, RubricError, listed
from evalkit.rubrics import Profile, load_profile
from evalkit.rubrics.prompt_builder import Template, load_template
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.contract.scoring_config import (
    CONFIG_IGNORED,
    Scoring,
    ScoringConfig,
    TaskBinding,
    TaskBindings,
    TemplateText,
)
from evalkit.runs.registry import Pack, PackTask, Plugin, Registry
from evalkit.runs.registry.pack_files import EntryError

Place = Literal["registry", "plugin", "folders"]


@dataclass(slots=True)
class Search:
    """The results so far of checking the tasks of one pack, for a mode and config.

    Plugins and layouts are by ``name@version``; the layout is None if a plugin cannot be used. `profiles` has the
    profile of each task that has one. If the scoring config is invalid (`is_config_read`), judges are not checked.
    """

    registry: Registry
    scoring: Scoring
    problems: list[str] = field(default_factory=list)
    plugins: dict[str, Plugin] = field(default_factory=dict)
    layouts: dict[str, PluginLayout | None] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    is_config_read: bool = True

    @property
    def config(self) -> ScoringConfig:
        """The scoring config; empty if there is none."""
        return self.scoring.config or ScoringConfig()

    def profile_name(self, task: PackTask) -> str | None:
        """The profile that the task, or else the scoring config, names."""
        return task.overrides.judge_profile or self.config.profile

    def add(self, task: PackTask, problem: object) -> None:
        """Add a problem of a task."""
        self.problems.append(f"task {task.task!r}: {problem}")


def bind(search: Search, task: PackTask) -> TaskBinding | None:
    """The binding of a task; None if it needs none, or its plugin cannot be used (which is a problem).

    A task without overrides needs one if the scoring config names a template of the registry for a judge.
    """
    over, is_judged = task.overrides, search.scoring.mode != "deterministic"
    if not over:
        texts = _templates(search, task, None, None) if is_judged else []
        return TaskBinding(templates=texts) if texts else None
    plugin, layout = _plugin(search, task)
    if over.judge_plugin_name and layout is None:
        return None  # already a problem, and nothing else can be checked without it
    given: dict[str, Any] = {
        "copy_of": task.copy_of,
        "plugin": plugin and plugin.name, "plugin_version": plugin and plugin.version,
        "plugin_path": layout and str(layout.root), "plugin_hash": plugin and plugin.content_hash,
    }  # fmt: skip
    if not is_judged:
        return TaskBinding(**given)
    profile = _profile(search, task, layout)
    _check_judges(search, task, profile, layout)
    return TaskBinding(
        **given, judge_profile=over.judge_profile, judge_template_id=over.judge_template_id,
        templates=_templates(search, task, profile, layout),
    )  # fmt: skip


def _plugin(search: Search, task: PackTask) -> tuple[Plugin | None, PluginLayout | None]:
    name = task.overrides.judge_plugin_name
    if name is None:
        return None, None
    try:
        plugin = search.registry.plugin(name, task.overrides.judge_plugin_version)
        if plugin.label not in search.layouts:
            search.plugins[plugin.label] = plugin
            search.layouts[plugin.label] = None
            search.layouts[plugin.label] = search.registry.check_plugin(plugin.name, plugin.version)
    except EntryError as problem:
        search.add(task, problem)
        return None, None
    return plugin, search.layouts[plugin.label]


def _profile(search: Search, task: PackTask, layout: PluginLayout | None) -> Profile | None:
    """The profile that judges a task; None if there is none, or it cannot be used (which is a problem)."""
    if (name := search.profile_name(task)) is None:
        return None
    own = {} if layout is None else layout.profiles
    try:
        profile = load_profile(own.get(name, name))
    except EvalkitError as problem:
        inside = f" (nor in its plugin, which has {listed(own)})" if layout is not None else ""
        search.add(task, f"{problem}{inside}")
        return None
    if profile.rubric is not None:
        try:
            profile.load()
        except RubricError as problem:
            search.add(task, problem)
            return None
    search.profiles[task.task] = profile
    return profile


def _check_judges(search: Search, task: PackTask, profile: Profile | None, layout: PluginLayout | None) -> None:
    if not search.is_config_read or search.config.judges:
        return
    if profile is not None and profile.judges:
        try:
            search.scoring.check_number(len(profile.judges), f"profile {profile.profile!r}")
        except ConfigError as problem:
            search.add(task, problem)
        return
    name = search.profile_name(task)
    is_asked = name or task.overrides.judge_template_id  # otherwise the task may have no judged metric
    if not is_asked or (profile is None and name) or layout is not None:
        return  # the code of a plugin may name them: the process that runs it tells
    search.add(task, f"no judges in mode {search.scoring.mode!r}; set judges in the scoring config or in a profile")


def _templates(
    search: Search, task: PackTask, profile: Profile | None, layout: PluginLayout | None
) -> list[TemplateText]:
    """Check every template of a task's judges; the sources of those that come from the registry."""
    texts: dict[str, TemplateText] = {}
    for name in _template_names(search.config, task, profile):
        try:
            template, place = find_template(search.registry, name, layout)
            if profile is not None and profile.rubric is not None:
                template.check(profile.load().inputs)
        except (ConfigError, RubricError) as problem:
            search.add(task, problem)
            continue
        if place == "registry":
            values = {"name": template.name, "version": template.version, "text": template.source}
            texts[template.label] = TemplateText(**values, hash=template.hash)
    return list(texts.values())


def _template_names(config: ScoringConfig, task: PackTask, profile: Profile | None) -> list[str]:
    """The template ids in use: each judge's own, else the pack's, else the profile's."""
    shared = task.overrides.judge_template_id or (profile.template if profile is not None else None)
    own = [judge.judge_template_id for judge in config.judges if judge.judge_template_id]
    names = own if own and len(own) == len(config.judges) else [*own, shared]
    return list(dict.fromkeys(name for name in names if name))


def find_template(registry: Registry, name: str, layout: PluginLayout | None = None) -> tuple[Template, Place]:
    """A template by id, and the place where it was found; ConfigError with all places if there is none."""
    searched = []
    try:
        found = registry.template(name)
        return Template.of(found.name, found.version, found.prompt_template), "registry"
    except EntryError as problem:
        searched.append(f"registry: {problem}")
    if layout is not None:
        try:
            return Template.of_file(*layout.template(name)), "plugin"
        except ConfigError as problem:
            searched.append(f"plugin: {problem}")
    try:
        return load_template(name), "folders"
    except RubricError as problem:
        searched.append(f"rubrics/templates: {problem}")
    raise ConfigError(f"template {name!r} not found; searched {'; '.join(searched)}")


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
            search.problems.append(
                f"plugin {name!r} is needed in the versions {listed(sorted(several))} (tasks {listed(tasks)}), but a "
                "process can load only one; set the same version everywhere"
            )


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
