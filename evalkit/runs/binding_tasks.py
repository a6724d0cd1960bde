"""Looks up the plugin, profile and templates of each task of a pack, and collects all problems for one message."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field
from typing import Any, Literal

import pandas as pd

from evalkit.core.reply_keys import digest
from evalkit.errors import ConfigError, EvalkitError, MissingExtraError, RegistryError, RubricError, listed
from evalkit.rubrics import Profile, load_profile
from evalkit.rubrics.prompts import Template, load_template
from evalkit.runs.contract import Scoring, ScoringConfig, TaskBinding, TemplateText
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.registry import PackTask, Plugin, Registry
from evalkit.runs.registry.records import EntryError

Place = Literal["registry", "plugin", "folders"]
_NAMES_JUDGES = re.compile(r"\b(judges?|judge_model_name|profile)\s*=")


@dataclass(slots=True)
class Search:
    """The results so far of checking the tasks of one pack.

    Attributes
    ----------
    registry, scoring
        The registry, and the mode and config to check for.
    problems
        The problems, as messages.
    plugins, layouts
        By ``name@version``; the layout is None if a plugin cannot be used.
    profiles, templates
        Content hashes by ``name@version``; those of a plugin by ``plugin:name@version``.
    benchmarks
        The table of `Registry.benchmarks`.
    is_config_read
        False if the scoring config is invalid; judges are then not checked.
    is_importing
        Whether a plugin whose tasks the registry does not know is imported, in a separate process.
    """

    registry: Registry
    scoring: Scoring
    problems: list[str] = field(default_factory=list)
    plugins: dict[str, Plugin] = field(default_factory=dict)
    layouts: dict[str, PluginLayout | None] = field(default_factory=dict)
    profiles: dict[str, str] = field(default_factory=dict)
    templates: dict[str, str] = field(default_factory=dict)
    benchmarks: pd.DataFrame = field(default_factory=pd.DataFrame)
    is_config_read: bool = True
    is_importing: bool = False

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
        texts = _templates(search, task, None, None, None) if is_judged else []
        return TaskBinding(templates=texts) if texts else None
    plugin, layout = _plugin(search, task)
    if over.judge_plugin_name and layout is None:
        return None  # already a problem, and nothing else can be checked without it
    if plugin is not None:
        _check_mode(search, task, plugin)
    given: dict[str, Any] = {
        "plugin": plugin and plugin.name,
        "plugin_version": plugin and plugin.version,
        "plugin_path": layout and str(layout.root),
        "plugin_hash": plugin and plugin.content_hash,
    }
    if not is_judged:
        return TaskBinding(**given)
    profile = _profile(search, task, plugin, layout)
    _check_rubric(search, task, profile, plugin)
    _check_judges(search, task, profile, layout)
    return TaskBinding(
        **given,
        judge_profile=over.judge_profile,
        judge_template_id=over.judge_template_id,
        templates=_templates(search, task, profile, plugin, layout),
    )


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


def _check_mode(search: Search, task: PackTask, plugin: Plugin) -> None:
    _import_tasks(search, task, plugin)
    modes = _known(search, task, "scoring_modes")
    if modes and search.scoring.mode not in modes:
        search.add(
            task,
            f"plugin {plugin.label} does not support mode {search.scoring.mode!r} for this task, only {listed(modes)}",
        )


def _import_tasks(search: Search, task: PackTask, plugin: Plugin | None) -> None:
    """Record the tasks of a plugin, or evalkit's own, if this one is not known; the run reports a failing import."""
    label = "" if plugin is None else plugin.label
    if not search.is_importing or label in search.registry.imported or _known(search, task, "rubrics"):
        return
    search.registry.imported.add(label)
    with contextlib.suppress(ConfigError, MissingExtraError, RegistryError):
        if plugin is None:
            search.registry.inspect_own_tasks()
        else:
            search.registry.inspect_plugin(label)
        search.benchmarks = search.registry.benchmarks()


def _known(search: Search, task: PackTask, column: str) -> tuple[str, ...]:
    """What the registry's list of benchmarks has about a task; empty if nothing."""
    table, over = search.benchmarks, task.overrides
    name, version = over.judge_plugin_name, over.judge_plugin_version
    rows = table[(table["name"] == task.task) & (table["plugin"].isna() if name is None else table["plugin"] == name)]
    if version is not None:
        rows = rows[rows["plugin_version"] == version]
    values = rows[column].dropna()
    return tuple(str(values.iloc[-1]).split(", ")) if len(values) else ()


def _owned(plugin: Plugin | None, label: str) -> str:
    """The key of a profile or template: two plugins and the project may each have one with this label."""
    return label if plugin is None else f"{plugin.name}:{label}"


def _profile(search: Search, task: PackTask, plugin: Plugin | None, layout: PluginLayout | None) -> Profile | None:
    """The profile that judges a task; None if there is none, or it cannot be used (which is a problem)."""
    name = search.profile_name(task)
    if name is None:
        return None
    own = {} if layout is None else layout.profiles
    try:
        profile = load_profile(own.get(name, name))
    except EvalkitError as problem:
        inside = f" (nor in its plugin, which has {listed(own)})" if layout is not None else ""
        search.add(task, f"{problem}{inside}")
        return None
    label = _owned(plugin if name in own else None, f"{profile.profile}@{profile.version}")
    search.profiles[label] = digest(profile.to_dict())
    if profile.rubric is not None:
        try:
            profile.load()
        except RubricError as problem:
            search.add(task, problem)
            return None
    return profile


def _check_rubric(search: Search, task: PackTask, profile: Profile | None, plugin: Plugin | None) -> None:
    """A profile must be for the rubric of the task's metrics, if the registry knows it."""
    if profile is None or profile.rubric is None:
        return
    _import_tasks(search, task, plugin)
    rubric, others = profile.load(), [name for name in _known(search, task, "rubrics") if name]
    if any(name != rubric.id for name in others):
        search.add(
            task,
            f"profile {profile.profile!r} is for the rubric {rubric.id}@{rubric.version}, but the task's metrics use "
            f"{listed(others)}; bind a profile for that rubric, or one without a rubric",
        )


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
    if not is_asked or (profile is None and name) or _code_names_judges(layout):
        return
    search.add(task, f"no judges in mode {search.scoring.mode!r}; set judges in the scoring config or in a profile")


def _code_names_judges(layout: PluginLayout | None) -> bool:
    """Whether a plugin's code seems to set the judges of its metrics; only running it can tell."""
    if layout is None:
        return False
    files = layout.folder.rglob("*.py") if layout.file.name == "__init__.py" else [layout.file]
    return any(_NAMES_JUDGES.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)


def _templates(
    search: Search, task: PackTask, profile: Profile | None, plugin: Plugin | None, layout: PluginLayout | None
) -> list[TemplateText]:
    """Check every template of a task's judges; the sources of those that come from the registry."""
    texts: dict[str, TemplateText] = {}
    for name in _template_names(search.config, task, profile):
        try:
            template, place = find_template(search.registry, name, layout)
            if profile is not None and profile.rubric is not None:
                template.check(profile.load().inputs)
            _check_fields(search, task, template)
        except (ConfigError, RubricError) as problem:
            search.add(task, problem)
            continue
        search.templates[_owned(plugin if place == "plugin" else None, template.label)] = template.hash
        if place == "registry":
            texts[template.label] = TemplateText(
                name=template.name, version=template.version, text=template.source, hash=template.hash
            )
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


def _check_fields(search: Search, task: PackTask, template: Template) -> None:
    """A template must show only fields of the task's items, if `plugin check` recorded them."""
    fields = _known(search, task, "fields")
    if not fields:
        return
    missing = sorted(template.fields - set(fields))
    if missing:
        raise ConfigError(f"template {template.label} uses {listed(missing)}, but the items have only {listed(fields)}")
