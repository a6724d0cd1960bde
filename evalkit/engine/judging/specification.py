"""The settings of a `judge` call, checked before anything is paid: rubric, judges, samples, templates, rules.

All settings are resolved here. Each entry point (`judge`, `evaluate`, the command line, the gate, LightEval's metrics,
the tuner) passes its sources of settings in order of precedence and gets a `Spec`; `print(spec.settings)` shows each
value with its source.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.core.formatting import span
from evalkit.core.judge_settings import JUDGE_SETTINGS, fields_of
from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.lists_of_choices import ON_MISSING, OnMissing
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import why_alike
from evalkit.core.settings import (
    RULE_NAMES,
    Place,
    Rules,
    Settings,
    check_choice,
    check_criteria_per_call,
    check_samples,
)
from evalkit.engine.request import TOKENS_PER_CRITERION
from evalkit.errors import ConfigError, EvalkitWarning, guess, listed
from evalkit.rubrics import Profile, Rubric
from evalkit.rubrics.criteria import groups_of
from evalkit.rubrics.decision_questions import FORM, MOST_QUESTIONS, check_askable
from evalkit.rubrics.inputs import check_question
from evalkit.rubrics.item_criteria import CriteriaForm
from evalkit.rubrics.profiles import RubricLike, load_rubric_or_profile
from evalkit.rubrics.prompt_builder import PromptBuilder, Template, decision_template
from evalkit.rubrics.rubric import OWN_CRITERIA

DEFAULT_SAMPLES = 3
"""Samples by default; see `default_samples`."""
_DEFAULTS = {"samples": DEFAULT_SAMPLES, "criteria_per_call": 1} | Rules().to_dict()

_NAMES = ("judges", "template", "samples", "criteria_per_call", *RULE_NAMES)


@dataclass(frozen=True)
class Spec:
    """Rubric, judges, samples and rules: all of an evaluation but the items. Can be pickled.

    Attributes
    ----------
    rubric
        What is judged.
    judges
        The judges; their names and identities are unique.
    prompt_builders
        For each judge the rubric with the template it gets.
    samples
        Samples per item, criterion and order, of judges without a number of their own (see `counts`).
    profile
        The profile that was used, if any.
    exact
        Whether the caller or the profile set the number of samples; if not, all recorded replies are used.
    rules
        How samples become votes, and votes scores; `judge` does not look at them.
    settings
        Each setting with the source of its value.
    inputs
        For inputs of the rubric the column of the items that holds them; the others are in columns of their names.
    on_missing
        Whether an item that lacks a required input is an error, or skipped.
    criteria_per_call
        How many criteria one reply judges: a number, or ``all``.
    commits
        Whether a judge answers the question before it sees a candidate, as its template asks.
    """

    rubric: Rubric
    judges: tuple[Judge, ...]
    prompt_builders: tuple[PromptBuilder, ...]
    samples: int
    profile: Profile | None = None
    exact: bool = True
    rules: Rules = field(default_factory=Rules)
    settings: Settings = field(default_factory=Settings, compare=False)
    inputs: Mapping[str, str] = field(default_factory=dict)
    on_missing: OnMissing = "raise"
    criteria_per_call: int | str = 1
    commits: bool = False

    @property
    def counts(self) -> tuple[int, ...]:
        """For each judge its samples per item, criterion and order."""
        return tuple(judge.samples or self.samples for judge in self.judges)

    def with_samples(self, samples: int) -> Spec:
        """The same with so many samples of each judge."""
        judges = tuple(judge.replace(samples=None) for judge in self.judges)
        return replace(self, samples=samples, judges=judges)

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """For each criterion the criteria, as numbers, that one reply judges with it; itself alone if it has examples.

        The rubric's list is divided at fixed places, so a change of one criterion concerns only its own group.
        """
        criteria = self.rubric.criteria
        return groups_of(criteria, self.per_call(len(criteria)))

    def per_call(self, n: int) -> int:
        """How many of `n` criteria one reply judges at most."""
        size = n if isinstance(self.criteria_per_call, str) else self.criteria_per_call
        return min(size, MOST_QUESTIONS) if any(judge.decides for judge in self.judges) else size

    @property
    def per_item(self) -> bool:
        """Whether one reply judges several of an item's own criteria, which the input `REQUIREMENT` holds."""
        is_several = self.criteria_per_call != 1 and self.rubric.has_requirements
        return is_several and all(builder.has_requirements for builder in self.prompt_builders)

    @property
    def is_grouped(self) -> bool:
        """Whether any reply judges several criteria."""
        return self.per_item or any(len(group) > 1 for group in self.groups)

    def templates_of(self, builder: PromptBuilder) -> list[Template]:
        """The templates that make the prompts of one of `prompt_builders`: its own, that for several criteria, both."""
        several = {True, False} if self.per_item else {len(group) > 1 for group in self.groups}
        makers = [*([builder] if False in several else []), *([builder.together] if True in several else [])]
        return list({maker.template.label: maker.template for maker in makers}.values())

    @property
    def orders(self) -> tuple[str | None, ...]:
        """Orders in which the answers are shown: both for pairwise rubrics."""
        return ("AB", "BA") if self.rubric.mode == "pairwise" else (None,)

    @classmethod
    def of(
        cls,
        rubric: RubricLike,
        judges: JudgesLike | None = None,
        samples: int | None = None,
        template: str | None = None,
        rules: Mapping[str, Any] | None = None,
        *,
        source: str | Callable[[str], str] = "argument",
        inputs: Mapping[str, Any] | None = None,
        on_missing: OnMissing = "raise",
        criteria_per_call: int | str | None = None,
    ) -> Spec:
        """Resolve the arguments of a caller: argument > profile > default.

        Parameters
        ----------
        rubric
            A Rubric, the name or path of one, a Profile, or the path of a profile's file.
        judges
            A judge or several, as `Judge.of` takes them; None takes those of the profile, and so does
            ``"none"``, by which callers mean that no judge is to be called.
        samples
            From 1 to 1000; None takes the profile's, else 3, and 1 of decision models.
        template
            A template for all judges that name none of their own.
        rules
            Some of the fields of `Rules`; None, and those left out, take the profile's, else the default.
        source
            What `settings` calls the caller, ``argument``, or a function from a setting to its source.
        inputs, on_missing
            As for `judge`.
        criteria_per_call
            From 1, or ``all``; None takes the profile's, else 1.

        Raises
        ------
        ConfigError, RubricError
            When something is unknown, missing or contradictory.
        """
        loaded = rubric if isinstance(rubric, (Rubric, Profile)) else load_rubric_or_profile(rubric)
        if isinstance(loaded, Rubric):
            chosen, profile, places = loaded, None, list[Place]()
        else:
            chosen, profile, places = loaded.load(), loaded, named_by(loaded)
        if is_none(judges):
            if profile is None or not profile.judges:
                raise ConfigError(
                    "judge 'none' reads the stored replies of the judges of a profile, but no profile with judges was "
                    "passed; pass one, or name a judge and set offline=True (--offline) to read its stored replies"
                )
            judges = None
        if rules:
            Rules.of(rules)  # refuses an unknown name
        check_choice("on_missing", on_missing, ON_MISSING)
        arguments = {"judges": judges, "template": template, "samples": samples}
        arguments |= {"criteria_per_call": criteria_per_call} | dict(rules or {})
        spec = cls.resolve(chosen, Settings.of((source, arguments), *places), profile=profile)
        if inputs:
            check_names(inputs, chosen)
            spec.settings.update(inputs=[f"{name}={column}" for name, column in inputs.items()])
            spec.settings.sources["inputs"] = source if isinstance(source, str) else source("inputs")
        return replace(spec, inputs=dict(inputs or {}), on_missing=on_missing)

    @classmethod
    def resolve(
        cls,
        rubric: Rubric,
        settings: Settings,
        *,
        profile: Profile | None = None,
        templates: Mapping[str, Template] | None = None,
    ) -> Spec:
        """Check the settings of any entry point and fill in the defaults.

        Parameters
        ----------
        rubric
            What is judged.
        settings
            Any of ``judges``, ``template``, ``samples`` and the fields of `Rules`.
        profile
            The profile among the places, if there was one.
        templates
            Templates by the name that settings and judges give them; they come before those of the rubric folders.

        Raises
        ------
        ConfigError, RubricError
            When something is unknown, missing or contradictory.
        """
        settings = Settings.of(("rubric", {"template": rubric.template}), ("default", _DEFAULTS), start=settings)
        of_rubric = settings.source("template") in ("rubric", profile and profile.label)
        judges, prompt_builders = _panel(
            settings.get("judges"), settings["template"], rubric, templates or {}, of_rubric=of_rubric
        )
        if settings.source("samples") == "default":
            n_samples, judges = default_samples(judges, prompt_builders)
            settings = settings.changed("samples", n_samples)
        samples = check_samples(settings["samples"])
        rules = Rules(**{name: settings[name] for name in RULE_NAMES if name in settings})
        settings.update({name: getattr(rules, name) for name in RULE_NAMES if name in settings})
        several = [judge for judge in judges if (judge.samples or samples) > 1]
        reasons = {judge.name: why_alike(judge.provider, judge.temperature, judge.params) for judge in several}
        cold = [name for name, why in reasons.items() if why]
        if cold:
            why = " and ".join(dict.fromkeys(filter(None, reasons.values())))
            counts = span(judge.samples or samples for judge in several if judge.name in cold)
            warnings.warn(
                f"the {counts} samples of {listed(cold)} will be alike and show no spread, because {why}; change "
                "that (the default is temperature 1.0), or use one sample",
                EvalkitWarning,
                stacklevel=5,
            )
        logprob_judges = [judge for judge in judges if judge.score]
        if logprob_judges and rules.min_self_agreement is not None:
            judge = logprob_judges[0]
            raise ConfigError(
                f"min_self_agreement= compares several verdicts of a judge, but judge '{judge.name}' gives one, with "
                f"probabilities (score={judge.score!r}); set only one of the two"
            )
        _check_cut(rules, rubric, zip(judges, prompt_builders, strict=True))
        warm = [judge.name for judge in logprob_judges if judge.temperature not in (None, 1.0)]
        if warm:
            warnings.warn(
                f"{listed(warm)} reads log-probabilities at a temperature other than 1.0. Some services apply the "
                "temperature to them and others do not; use temperature=1.0, where this makes no difference",
                EvalkitWarning,
                stacklevel=5,
            )
        exact = profile is not None or settings.sources["samples"] != "default"
        settings["judges"] = judges
        if profile is not None and profile.calibration is not None:
            settings = settings.changed("calibration", "not applied: scores are raw", profile.label)
        per_call = check_criteria_per_call(settings["criteria_per_call"])
        if per_call == 1:
            del settings["criteria_per_call"]
        commits = [builder.template.label for builder in prompt_builders if builder.template.commits]
        for label in commits:
            check_question(rubric.id, rubric.input_names, label)
        spec = cls(
            rubric, judges, prompt_builders, samples, profile, exact, rules, settings,
            criteria_per_call=per_call, commits=bool(commits),
        )  # fmt: skip
        if per_call != 1 and spec.is_grouped:
            size = per_call if spec.per_item and isinstance(per_call, int) else max(map(len, spec.groups))
            _warn_of_short_replies(judges, size)
            for judge, builder in zip(judges, prompt_builders, strict=True):
                builder.together.template.check(builder.together.shown_inputs)
                if (judge.score and builder.template.form != FORM) or builder.reply_reader is not None:
                    raise ConfigError(
                        f"judge '{judge.name}' has score= or its own function that reads replies, so a reply has one "
                        f"verdict, and criteria_per_call={per_call!r} is not possible; set it to 1"
                    )
        return spec


def _check_cut(rules: Rules, rubric: Rubric, panel: Iterable[tuple[Judge, PromptBuilder]]) -> None:
    """Raise where a cut on P(pass) cannot decide the verdicts."""
    if rules.pass_prob_at is None:
        return
    bare = [judge.name for judge, builder in panel if not judge.score and builder.template.form != FORM]
    problems = {
        f"{listed(bare)} states no P(pass); set score='expected' of each judge": bare,
        f"rubric {rubric.id!r} decides by its own pass_at": rubric.pass_at is not None,
        f"no criterion of {rubric.id!r} has a pass rule": not any(rule.scale.has_rule for rule in rubric.criteria),
        f"aggregate={rules.aggregate!r} finds its own verdicts": rules.rule.all_items,
    }
    if why := next((why for why, holds in problems.items() if holds), None):
        raise ConfigError(f"pass_prob_at={rules.pass_prob_at:g} cannot decide the verdicts: {why}; or omit the cut")


def _warn_of_short_replies(judges: Iterable[Judge], n_criteria: int) -> None:
    """Warn of judges whose replies may be cut off before the last criterion."""
    need = n_criteria * TOKENS_PER_CRITERION
    if short := [judge for judge in judges if judge.max_tokens is not None and judge.max_tokens < need]:
        warnings.warn(
            f"replies of {listed([judge.name for judge in short])} are cut off after {short[0].max_tokens} tokens, but "
            f"one reply has up to {n_criteria} criteria, and the last ones would be unscored; set max_tokens={need} "
            "or more",
            EvalkitWarning,
            stacklevel=6,
        )


def check_names(inputs: Mapping[str, Any], rubric: Rubric) -> None:
    """ConfigError unless `inputs` maps inputs of the rubric to names of columns, and its criteria to their form."""
    columns = dict(inputs) if isinstance(inputs, Mapping) else {"": inputs}
    if rubric.has_requirements and OWN_CRITERIA in columns:
        CriteriaForm.of(columns.pop(OWN_CRITERIA))
    if not all(isinstance(column, str) for column in columns.values()):
        raise ConfigError(f"inputs={inputs!r}: expected a mapping from input to column, as in {{'answer': 'response'}}")
    if "item_id" in inputs and "item_id" not in rubric.input_names:
        raise ConfigError(
            f"inputs= maps only inputs of the rubric; pass the column of ids as item_id={inputs['item_id']!r}"
        )
    allowed = rubric.mapped_names
    if unknown := [name for name in inputs if name not in allowed]:
        raise ConfigError(
            f"inputs= names {listed(unknown)}, which rubric {rubric.id!r} does not have; "
            f"{guess(unknown[0], allowed)}its inputs: {listed(allowed, most=30)}"
        )


def default_samples(judges: Sequence[Judge], builders: Sequence[PromptBuilder] = ()) -> tuple[int, tuple[Judge, ...]]:
    """The samples of judges without a number of their own, and the judges: decision models draw nothing, so take one.

    Where others take more, it is the judge's own number, which profiles, versions and traces keep. By `builders`, which
    make the prompts of the judges, functions that stand in for decision models are known.
    """
    decides = [builder.template.form == FORM for builder in builders] or [judge.decides for judge in judges]
    if all(decides):
        return 1, tuple(judges)
    pairs = zip(judges, decides, strict=True)
    panel = (judge.replace(samples=1) if is_one and judge.samples is None else judge for judge, is_one in pairs)
    return DEFAULT_SAMPLES, tuple(panel)


def is_none(judges: Any) -> bool:
    """Whether ``none`` was named: no judge, so no live call."""
    return isinstance(judges, (str, list, tuple)) and judges in ("none", ["none"], ("none",))


def check_provider(text: str, place: str) -> None:
    """ConfigError unless a judge's name begins with a provider, or is ``none`` or ``profile``; `place` named it."""
    if text not in ("none", "profile") and text.partition(":")[0] not in PROVIDERS:
        raise ConfigError(
            f"{place}: unknown judge {text!r}; {guess(text.partition(':')[0], PROVIDERS)}allowed: none, profile, "
            f"{', '.join(PROVIDERS)}, or provider:model"
        )


def with_changes(judge: Judge, changes: Mapping[str, Any]) -> Judge:
    """A judge with some of its fields changed; only an LLM has a server and a key."""
    fields = {name: value for name, value in changes.items() if judge.is_llm or name not in ("base_url", "api_key_env")}
    return judge.replace(**fields) if fields else judge


def named_by(profile: Profile | None, source: str | None = None) -> list[Place]:
    """A profile as a place of settings: what its file names."""
    if profile is None:
        return []
    fields = {name: getattr(profile, name) for name in _NAMES if name in profile.model_fields_set}
    return [(source or profile.label, fields | {"judges": fields.get("judges") or None})]


def _panel(
    judges: Any, template: str, rubric: Rubric, templates: Mapping[str, Template], *, of_rubric: bool
) -> tuple[tuple[Judge, ...], tuple[PromptBuilder, ...]]:
    """The judges, each with the builder of its prompts; their names and identities are unique.

    A decision model that names no template gets evalkit's own for it, if `template` is the rubric's or the profile's.
    """
    if isinstance(judges, (str, Judge, Mapping)) or not isinstance(judges, Iterable):
        judges = [] if judges is None else [judges]
    panel = tuple(judge if isinstance(judge, Judge) else Judge.of(judge) for judge in judges)
    if not panel:
        raise ConfigError(
            "no judge is named; pass one such as 'openai:gpt-4o-mini', or 'fake:strict' to try evalkit without a model"
        )
    builders: dict[str, PromptBuilder] = {}
    identities: dict[Any, str] = {}
    names = [
        judge.template or (decision_template(rubric) if judge.decides and of_rubric else template) for judge in panel
    ]
    for judge, name in zip(panel, names, strict=True):
        if name not in builders:
            builders[name] = PromptBuilder.of(rubric, templates.get(name, name))
        _check_form(judge, builders[name], rubric)
        identity = (judge.provider, judge.service, judge.model, judge.temperature, judge.max_tokens, judge.params,
                    builders[name].template.hash)  # fmt: skip
        if identity in identities:
            raise ConfigError(
                f"judges {identities[identity]!r} and {judge.name!r} are the same (model, service, template and "
                "parameters), so they would always agree; to call one judge several times, set samples="
            )
        if judge.name in identities.values():
            raise ConfigError(f"two judges are called {judge.name!r}; give one of them another name=")
        identities[identity] = judge.name
    return panel, tuple(builders[name] for name in names)


def _check_form(judge: Judge, builder: PromptBuilder, rubric: Rubric) -> None:
    """Raise unless a judge answers in the form of its template, and a decision model can be asked the rubric."""
    is_decision = builder.template.form == FORM
    if is_decision != judge.decides and judge.provider != "function":
        fact = f"template {builder.template.label} has the form {builder.template.form!r}"
        advice = (
            f"omit template=, or set template={decision_template(rubric)!r} of this judge" if judge.decides else
            "which only decision models answer in; choose another template"
        )  # fmt: skip
        raise ConfigError(f"judge '{judge.name}': {fact}; {advice}")
    if is_decision:
        check_askable(rubric.criteria, judge.name)


PROFILE = "profile"
"""As the name of a judge: all judges of the profile."""
SERVER = ("base_url", "api_key_env")


@dataclass(frozen=True, slots=True)
class NamedJudges:
    """The judges; the source of their model (``missing``: a judge is named without one); whether a profile's."""

    judges: tuple[Judge, ...] = ()
    source: str | None = None
    of_profile: bool = False

    def changed(self, settings: Settings) -> tuple[Judge, ...]:
        """The judges with the fields that settings change, except by default.

        Only a flag gives the judges of a profile another server or key.
        """
        changes = {
            name: value
            for name, value in settings.items()
            if name in JUDGE_SETTINGS and settings.source(name) != "default"
            if not (self.of_profile and name in SERVER and not settings.source(name).startswith("flag "))
        }
        try:
            return tuple(with_changes(judge, fields_of(changes)) for judge in self.judges)
        except ConfigError as problem:
            name = next((name for name in changes if f"{JUDGE_SETTINGS[name].field} of " in str(problem)), None)
            raise ConfigError(f"{settings.source(name)}: {problem}" if name else str(problem)) from None


def named_judges(
    places: Sequence[Place], profile: Profile | None = None, flag: Callable[[str], str] = "--{}".format
) -> NamedJudges:
    """The judges of the first place that names any, each with the model of the first place that names one.

    A judge is ``provider:model``, a provider alone, ``profile`` (all of the profile's), or a list of the former. A
    model of an earlier place replaces that of a judge; of a later one, it completes a provider alone. ``none`` leaves
    the judges to later places. A model alone is one of ``openai``. `flag` writes a flag as messages show it.

    Raises
    ------
    ConfigError
        For an unknown provider, or what contradicts itself; the message begins with the source.
    """
    of_file = () if profile is None else profile.judges
    of_profile = NamedJudges(of_file, profile.label if profile is not None and of_file else None, bool(of_file))
    entries = [
        (source, {**values, "judge": None} if values.get("judge") in ("none", ["none"]) else values)
        for source, values in places
    ]
    first = Settings.of(*entries)
    model = first.get("model")
    if "judge" not in first:
        return of_profile if model is None else NamedJudges((Judge("openai", model),), first.source("model"))
    ranked = Settings.of(*((str(rank), values) for rank, (_, values) in enumerate(entries)))
    ranks = {name: int(ranked.sources.get(name, len(entries))) for name in ("judge", "model")}
    source, written = first.source("judge"), first["judge"]
    written = [written] if isinstance(written, str) else written
    texts = [text.strip().removesuffix(":") for text in written]
    has_models = all(":" in text or text in (PROFILE, "fake") for text in texts)
    if model is not None and (
        (ranks["model"] == ranks["judge"] and has_models and texts != ["fake"])
        or (ranks["model"] < ranks["judge"] and texts == [PROFILE])
    ):
        raise ConfigError(
            f"{source}: judge {texts[0]!r} cannot be combined with model {model!r} of {first.source('model')}; keep "
            "one of them"
        )
    judges, sources = list[Judge](), dict[str, None]()
    for text in texts:
        check_provider(text, source)
        provider, _, own_model = text.partition(":")
        if text == PROFILE:
            if len(texts) > 1:
                raise ConfigError(f"{source}: the judge 'profile' is all judges of the profile; name no other judge")
            if not of_file:
                lack = f"no profile is named; add {flag('profile')} P"
                if profile is not None:
                    lack = f"{profile.profile!r} names no judge; name one with {flag('judge')} provider:model"
                raise ConfigError(f"{source}: the judge 'profile' is all judges of a profile, but {lack}")
            return of_profile
        completes = provider != "fake" or ranks["model"] == ranks["judge"]
        is_first = model is not None and (ranks["model"] < ranks["judge"] or (not own_model and completes))
        if not is_first and not own_model:
            if len(texts) == 1 and any(provider in ("fake", judge.provider) for judge in of_file):
                return of_profile
            if provider != "fake":
                return NamedJudges(source="missing")
        judges.append(Judge.of(f"{provider}:{model if is_first else own_model or 'strict'}"))
        sources[first.source("model") if is_first else source if own_model else "default"] = None
    return NamedJudges(tuple(judges), ", ".join(sources))
