"""Looks up the plugin, profile and templates of each task of a pack, and collects all problems for one message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from evalkit.errors import ConfigError, EvalkitError, RubricError, listed
from evalkit.rubrics import Profile, load_profile
from evalkit.rubrics.prompt_builder import Template, load_template
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.contract.scoring_config import Scoring, ScoringConfig
from evalkit.runs.contract.task_bindings import TaskBinding, TemplateText
from evalkit.runs.registry import PackTask, Plugin, Registry
from evalkit.runs.registry.records import EntryError

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
