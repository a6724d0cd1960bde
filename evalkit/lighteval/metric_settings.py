"""The settings of a metric: those that it is created with, and those of one task of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from evalkit.core.judges import Judge
from evalkit.core.own_rules import text_in_file
from evalkit.core.settings import RULE_NAMES, Rules, Settings, check_criteria_per_call, check_samples
from evalkit.engine.judging.specification import Spec, named_by
from evalkit.errors import ConfigError, EvalkitError, RubricError, listed
from evalkit.evaluation.evaluation import try_rules
from evalkit.rubrics import Profile, Rubric, load_profile
from evalkit.rubrics.files import rubric_folders
from evalkit.rubrics.profiles import load_rubric_or_profile
from evalkit.rubrics.prompt_builder import Template, list_templates, load_template
from evalkit.runs.contract.plugin_layout import PluginLayout, newest
from evalkit.runs.contract.scoring_config import Scoring, ScoringConfig, TaskBinding, TaskBindings


@dataclass(frozen=True)
class Declared:
    """The settings that a metric is created with; the run, a binding and their profile override them.

    Attributes
    ----------
    rubric
        The rubric.
    settings
        Those of `judges`, `samples`, `template`, `criteria_per_call` and the rules (`vote` …) that are set.
    profile
        Used for what is not set above.
    modes
        The scoring modes that the metric supports.
    """

    rubric: Rubric
    settings: Mapping[str, Any]
    profile: Profile | None = None
    modes: tuple[str, ...] = ("deterministic", "judge", "jury")

    @classmethod
    def of(cls, rubric: Any, profile: Any, **settings: Any) -> Declared:
        """From the arguments of a metric: names, paths, mappings or the objects themselves; None is not set."""
        own = profile if profile is None or isinstance(profile, Profile) else load_profile(profile)
        found = rubric if isinstance(rubric, (Rubric, Profile)) else load_rubric_or_profile(rubric)
        named = found if isinstance(found, Profile) else None
        chosen = found.load() if isinstance(found, Profile) else found
        if named is not None and own is not None:
            raise ConfigError("you passed a profile as rubric= and another one as profile=; pass only one profile")
        given = {name: value for name, value in settings.items() if value is not None}
        if "judges" in given:
            judges = given["judges"]
            panel = [judges] if isinstance(judges, (str, Mapping, Judge)) else judges
            given["judges"] = tuple(Judge.of(one) for one in panel) or None
        rules = Rules.of({name: value for name, value in given.items() if name in RULE_NAMES})
        given |= {name: getattr(rules, name) for name in RULE_NAMES if name in given}
        try:
            [text_in_file(rules.vote), text_in_file(rules.aggregate)]  # receipts hold them
        except ValueError as problem:
            raise ConfigError(str(problem)) from None
        if "samples" in given:
            check_samples(given["samples"])
        if "criteria_per_call" in given:
            check_criteria_per_call(given["criteria_per_call"])
        return cls(chosen, given, own or named)


@dataclass(frozen=True)
class MetricSettings:
    """Rubric, judges, samples and rules of one metric of a task, and where each value came from."""

    spec: Spec
    origins: Mapping[str, str]
    mode: str
    binding: TaskBinding
    profile: Profile | None = None
    report_disagreement: bool = False
    repair: bool | None = None

    def calling(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Options of the engine, with those that the scoring config sets."""
        return {**options} | ({} if self.repair is None else {"repair": self.repair})


def resolve(
    declared: Declared, task: str | None, scoring: Scoring, bindings: TaskBindings | None = None
) -> MetricSettings:
    """Resolve the settings of a metric.

    Each setting is taken from the first of these that sets it: a judge's own `judge_template_id`, the task's binding,
    the scoring config, the profile of either, the metric, the metric's profile, the rubric. The rule of a bound profile
    comes before the config's `aggregation`, unless that is forced.

    Parameters
    ----------
    declared
        The settings of the metric itself.
    task
        LightEval's name of the task, for its binding; None: not known yet, bindings are left out.
    scoring
        Mode and config of the run.
    bindings
        By default those of the environment.

    Raises
    ------
    ConfigError, RubricError
        When the mode is not supported, no judge is named, a template or profile is unknown, or rubrics contradict.
    """
    bindings = TaskBindings.from_environ() if bindings is None else bindings
    binding = TaskBinding() if task is None else bindings.of_task(task)
    if scoring.mode not in declared.modes:
        modes = ", ".join(declared.modes)
        raise ConfigError(f"the metric does not support the scoring mode {scoring.mode!r}; allowed: {modes}")
    config = scoring.config or ScoringConfig()
    layout = PluginLayout.at(binding.plugin_path) if binding.plugin_path else None
    profile_name = binding.judge_profile or config.profile
    if layout is not None and profile_name and profile_name in layout.profiles:
        profile_name = str(layout.profiles[profile_name])
    profile = load_profile(profile_name) if profile_name else None
    rubric, rubric_source = _rubric(declared.rubric, profile)
    settings = Settings.of(
        ("binding", {"template": binding.judge_template_id}),
        ("config", _of_config(config, profile if binding.judge_profile else None)),
        *named_by(profile, "profile"),
        ("task", declared.settings),
        *named_by(declared.profile, "profile"),
        ("rubric", {"template": rubric.template}),
    )
    judges = list(settings.get("judges") or ())
    _check_judges(judges, settings, scoring, profile if profile is not None and profile.judges else declared.profile)
    names = {judge.template or settings["template"] for judge in judges}
    templates = {name: _template(name, binding, layout) for name in names}
    judges = [judge.replace(template=templates[judge.template].label) if judge.template else judge for judge in judges]
    templates |= {template.label: template for template in list(templates.values())}
    if all(judge.template for judge in judges):
        settings = settings.changed("template", settings["template"], "judge")
    spec = Spec.resolve(rubric, settings.changed("judges", judges), templates=templates)
    for builder in spec.prompt_builders:
        builder.template.check(rubric.inputs)
    asked = ("judges", "samples", "template", *(["criteria_per_call"] if spec.is_grouped else []))
    origins = {name: spec.settings.source(name) for name in (*asked, *RULE_NAMES)}
    origins = {"rubric": rubric_source, "aggregation": origins.pop("aggregate")} | origins
    used = profile or declared.profile
    if used is not None and used.calibration is not None:
        origins["calibration"] = "not applied: scores are raw"
    # in the word of the place that named it
    try_rules(spec, "aggregation" if origins["aggregation"] == "config" else "aggregate")
    report = config.report_disagreement and scoring.mode == "jury"
    return MetricSettings(spec, origins, scoring.mode, binding, used, report, config.repair)


@contextmanager
def naming(task: str | None, metric: str) -> Iterator[None]:
    """Put task and metric at the beginning of the message of an error, once."""
    try:
        yield
    except EvalkitError as problem:
        raise type(problem)(f"{place_of(task, metric)}: {without_place(str(problem), task, metric)}") from None


def place_of(task: str | None, metric: str | None) -> str:
    """The beginning of messages: the task and the metric, if they are known.

    Examples
    --------
    >>> place_of("qa|0", "tone"), place_of(None, "tone")
    ("task 'qa|0', metric 'tone'", "metric 'tone'")
    """
    return ", ".join(f"{kind} {name!r}" for kind, name in (("task", task), ("metric", metric)) if name)


def without_place(message: str, task: str | None, metric: str | None) -> str:
    """A message without the place (see `place_of`) that it begins with."""
    for place in (place_of(task, metric), place_of(task, None), place_of(None, metric)):
        if place and message.startswith(place):
            return message.removeprefix(place).lstrip(",: ")
    return message


def _of_config(config: ScoringConfig, bound: Profile | None) -> dict[str, Any]:
    """The settings that the scoring config names; of a profile that is bound, the rule stays."""
    judges = [
        judge.replace(template=own.judge_template_id) if own.judge_template_id else judge
        for judge, own in zip(config.to_judges(), config.judges, strict=True)
    ]
    is_kept = bound is not None and "aggregate" in bound.model_fields_set and not config.force_aggregation
    aggregate = config.aggregation if "aggregation" in config.model_fields_set and not is_kept else None
    asked = {"samples": config.samples, "criteria_per_call": config.criteria_per_call}
    return {"judges": judges or None, "aggregate": aggregate} | asked


def _rubric(own: Rubric, profile: Profile | None) -> tuple[Rubric, str]:
    """The rubric, and where it came from."""
    if profile is None or profile.rubric is None:
        return own, "task"
    named = profile.load()
    if named.id != own.id:
        raise ConfigError(
            f"profile {profile.profile!r} is for rubric {named.id}@{named.version}, but the metric uses rubric "
            f"{own.id}@{own.version}; choose a profile for the metric's rubric, or one without a rubric"
        )
    return named, "profile"


def _check_judges(judges: list[Judge], settings: Settings, scoring: Scoring, profile: Profile | None) -> None:
    if not judges:
        raise ConfigError(
            "no judge is named; name one in EVALUATOR_SCORING_CONFIG (judges), in a profile, or in the metric (judges=)"
        )
    place = {"config": "the scoring config", "task": "the task"}.get(settings.source("judges"))
    scoring.check_number(len(judges), place or f"profile {profile and profile.profile!r}")
    if not any(judge.weight > 0 for judge in judges):
        raise ConfigError(
            "no answer would have a score, because all judges have weight 0; give a judge a weight above 0"
        )


def _template(name: str, binding: TaskBinding, layout: PluginLayout | None) -> Template:
    """A template by ``name@version`` or ``name``: from the binding, the plugin, the rubric folders."""
    bound = {f"{one.name}@{one.version}": one for one in binding.templates}
    if label := newest(name, bound):
        return Template.of(bound[label].name, bound[label].version, bound[label].text)
    own = {} if layout is None else layout.templates
    if label := newest(name, own):
        return Template.of_file(label, own[label])
    try:
        return load_template(name)
    except RubricError:
        places: dict[str, Iterable[str]] = {"the task's bindings": bound}
        if layout is not None:
            places[f"the plugin {layout.root}"] = own
        places[", ".join(str(folder / "templates") for folder in rubric_folders())] = list_templates()
        searched = "; ".join(f"{place} ({listed(names, most=20)})" for place, names in places.items())
        raise RubricError(f"judge template {name!r} not found in {searched}") from None
