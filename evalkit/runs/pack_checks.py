"""Looks up what a pack's tasks name; every problem is noted, so that one message can list them all."""

from __future__ import annotations

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

Place = Literal["registry", "plugin", "folders"]
_NAMES_JUDGES = re.compile(r"\b(judges?|judge_model_name|profile)\s*=")


@dataclass(slots=True)
class Search:
    """What was found so far for the tasks of one pack.

    Attributes
    ----------
    registry, scoring
        Where to look, and for what.
    problems
        What is wrong, in words.
    plugins, layouts
        By ``name@version``; no layout where a plugin cannot be used.
    profiles, templates
        Content hashes by ``name@version``, of a plugin's own by ``plugin:name@version``.
    benchmarks
        As of `Registry.benchmarks`.
    is_config_read
        Whether the scoring config is known: else nothing is said of judges that it may name.
    is_looking
        Whether to import plugins, in a process of their own, where a check needs what nobody noted.
    looked
        Plugins that were, by ``name@version``; blank: evalkit's own tasks.
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
    is_looking: bool = False
    looked: set[str] = field(default_factory=set)

    def add(self, task: PackTask, said: object) -> None:
        """Note a problem of a task."""
        self.problems.append(f"task {task.task!r}: {said}")


def bind(search: Search, task: PackTask) -> TaskBinding | None:
    """What a task is bound to; None where nothing is overridden, or its plugin cannot be used (noted)."""
    over = task.overrides
    if not over:
        return None
    plugin, layout = _plugin(search, task)
    if over.judge_plugin_name and layout is None:
        return None  # said already, and nothing else can be looked up without it
    if plugin is not None and layout is not None:
        _check_mode(search, task, plugin)
    given: dict[str, Any] = {
        "plugin": plugin and plugin.name,
        "plugin_version": plugin and plugin.version,
        "plugin_path": layout and str(layout.root),
        "plugin_hash": plugin and plugin.content_hash,
    }
    if search.scoring.mode == "deterministic":
        return TaskBinding(**given)
    profile = _profile(search, task, plugin, layout)
    _check_rubric(search, task, profile, plugin)
    _check_judges(search, task, profile, layout)
    texts = _templates(search, task, profile, plugin, layout)
    return TaskBinding(
        **given,
        judge_profile=over.judge_profile,
        judge_template_id=over.judge_template_id,
        templates=texts,
    )


def _plugin(search: Search, task: PackTask) -> tuple[Plugin | None, PluginLayout | None]:
    name = task.overrides.judge_plugin_name
    if name is None:
        return None, None
    try:
        plugin = search.registry.plugin(name, task.overrides.judge_plugin_version)
    except RegistryError as problem:
        if problem.__cause__ is not None:  # the database itself
            raise
        search.add(task, problem)
        return None, None
    if plugin.label not in search.layouts:
        search.plugins[plugin.label] = plugin
        search.layouts[plugin.label] = None
        try:
            search.layouts[plugin.label] = search.registry.check_plugin(plugin.name, plugin.version)
        except (ConfigError, RegistryError) as problem:
            if problem.__cause__ is not None:
                raise
            search.add(task, problem)
    return plugin, search.layouts[plugin.label]


def _check_mode(search: Search, task: PackTask, plugin: Plugin) -> None:
    modes = _known(search, task, "scoring_modes")
    if modes and search.scoring.mode not in modes:
        search.add(
            task,
            f"plugin {plugin.label} does not serve the mode {search.scoring.mode!r} for it; it serves {listed(modes)}",
        )


def _known(search: Search, task: PackTask, column: str) -> tuple[str, ...]:
    """What the plugin's check, or LightEval's list, noted of a task; empty where nobody looked."""
    table, over = search.benchmarks, task.overrides
    name, version = over.judge_plugin_name, over.judge_plugin_version
    rows = table[(table["name"] == task.task) & (table["plugin"].isna() if name is None else table["plugin"] == name)]
    if version is not None:
        rows = rows[rows["plugin_version"] == version]
    said = rows[column].dropna()
    return tuple(str(said.iloc[-1]).split(", ")) if len(said) else ()


def _owned(plugin: Plugin | None, label: str) -> str:
    """Under which name something is kept: two plugins, and the project, may each have one of that label."""
    return label if plugin is None else f"{plugin.name}:{label}"


def _profile(search: Search, task: PackTask, plugin: Plugin | None, layout: PluginLayout | None) -> Profile | None:
    """The profile that judges a task; None where there is none, or where it cannot be used (said already)."""
    config = search.scoring.config
    name = task.overrides.judge_profile or (config.profile if config is not None else None)
    if name is None:
        return None
    try:
        if layout is not None and name in layout.profiles:
            profile = load_profile(layout.profile(name))
        else:
            profile = load_profile(name)
    except EvalkitError as problem:
        inside = f" (nor has its plugin; there are {listed(layout.profiles)})" if layout is not None else ""
        search.add(task, f"{problem}{inside}")
        return None
    owner = plugin if layout is not None and name in layout.profiles else None
    search.profiles[_owned(owner, f"{profile.profile}@{profile.version}")] = digest(profile.to_dict())
    if profile.rubric is not None:
        try:
            profile.load()
        except RubricError as problem:
            search.add(task, problem)
            return None
    return profile


def _check_rubric(search: Search, task: PackTask, profile: Profile | None, plugin: Plugin | None) -> None:
    """Refuse a profile of another rubric than the task's metrics judge by, as far as that is known."""
    if profile is None or profile.rubric is None:
        return
    if not _known(search, task, "rubrics") and search.is_looking:
        _look(search, plugin)
    wanted, others = profile.load(), [name for name in _known(search, task, "rubrics") if name]
    if any(name != wanted.id for name in others):
        search.add(
            task,
            f"profile {profile.profile!r} is for the rubric {wanted.id}@{wanted.version}, and its metrics judge by "
            f"{listed(others)}; bind a profile of that rubric, or one without a rubric",
        )


def _look(search: Search, plugin: Plugin | None) -> None:
    """Note the tasks of a plugin, or evalkit's own; what cannot be imported is said by the run itself."""
    label = "" if plugin is None else plugin.label
    if label in search.looked:
        return
    search.looked.add(label)
    try:
        if plugin is None:
            search.registry.inspect_own_tasks()
        else:
            search.registry.inspect_plugin(plugin.name, plugin.version)
    except (ConfigError, MissingExtraError, RegistryError):
        return
    search.benchmarks = search.registry.benchmarks()


def _check_judges(search: Search, task: PackTask, profile: Profile | None, layout: PluginLayout | None) -> None:
    config = search.scoring.config
    if not search.is_config_read or (config is not None and config.judges):
        return
    if profile is not None and profile.judges:
        try:
            search.scoring.check_number(len(profile.judges), f"profile {profile.profile!r}")
        except ConfigError as problem:
            search.add(task, problem)
        return
    wanted = task.overrides.judge_profile or (config.profile if config is not None else None)
    is_asked = wanted or task.overrides.judge_template_id  # else its plugin may bring it without a judged metric
    if not is_asked or (profile is None and wanted) or _code_names_judges(layout):
        return
    search.add(
        task,
        f"no judges are named in mode {search.scoring.mode!r}; name them in the scoring config (judges) or in a "
        "profile",
    )


def _code_names_judges(layout: PluginLayout | None) -> bool:
    """Whether a plugin's code hands judges to its metrics: what they are shows when it runs."""
    if layout is None:
        return False
    files = layout.folder.rglob("*.py") if layout.file.name == "__init__.py" else [layout.file]
    return any(_NAMES_JUDGES.search(file.read_text(encoding="utf-8", errors="replace")) for file in files)


def _templates(
    search: Search, task: PackTask, profile: Profile | None, plugin: Plugin | None, layout: PluginLayout | None
) -> list[TemplateText]:
    """Check every template that judges of a task name; the texts of those that only the registry has."""
    texts: dict[str, TemplateText] = {}
    for name in _template_names(search.scoring.config, task, profile):
        try:
            template, place = _template(search.registry, name, layout)
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


def _template_names(config: ScoringConfig | None, task: PackTask, profile: Profile | None) -> list[str]:
    """The ids that are in use: a judge's own, else the pack's, else the profile's."""
    shared = task.overrides.judge_template_id or (profile.template if profile is not None else None)
    judges = config.judges if config is not None else ()
    own = [judge.judge_template_id for judge in judges if judge.judge_template_id]
    names = own if judges and len(own) == len(judges) else [*own, shared]
    return list(dict.fromkeys(name for name in names if name))


def _template(registry: Registry, name: str, layout: PluginLayout | None) -> tuple[Template, Place]:
    """A template by id, and where it was found."""
    searched = []
    try:
        found = registry.template(name)
    except RegistryError as problem:
        if problem.__cause__ is not None:
            raise
        searched.append(f"registry: {problem}")
    else:
        return Template.of(found.name, found.version, found.prompt_template), "registry"
    if layout is not None:
        try:
            label, file = layout.template(name)
        except ConfigError as problem:
            searched.append(f"plugin: {problem}")
        else:
            return Template.of(
                name.partition("@")[0], label.rpartition("@")[2], file.read_text(encoding="utf-8")
            ), "plugin"
    try:
        return load_template(name), "folders"
    except RubricError as problem:
        searched.append(f"rubrics/templates: {problem}")
    raise ConfigError(f"template {name!r} not found; searched {'; '.join(searched)}")


def _check_fields(search: Search, task: PackTask, template: Template) -> None:
    """Refuse a template that shows what the task's items have not, where `plugin check` saw them."""
    fields = _known(search, task, "fields")
    if not fields:
        return
    missing = sorted(template.fields - set(fields))
    if missing:
        raise ConfigError(
            f"template {template.label} shows {listed(missing)}, which its items have not; they have {listed(fields)}"
        )
