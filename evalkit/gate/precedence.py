"""Which judge, how many samples: flag > variable > the test's expectation > settings > profile > default."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.choices import PROVIDERS
from evalkit.core.judges import Judge, check_samples
from evalkit.core.settings import Place, Settings
from evalkit.core.vote_aggregate_rules import RULE_NAMES, Rules
from evalkit.engine import Options, Spec
from evalkit.engine.specification import DEFAULT_SAMPLES, named_by
from evalkit.errors import ConfigError, EvalkitError, listed
from evalkit.gate.config import Expected, GateConfig
from evalkit.gate.config_files import place_of
from evalkit.rubrics import Profile, Rubric, load_profile, load_rubric

_PROFILE = "profile"  # the judge that stands for all judges of the profile

_NAMES = ("judge", "model", "samples", "temperature", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions(Options):
    """The options of a gate: those of `judge` (`cache`, `refresh`, `budget_usd`, `concurrency` …) and its own.

    `budget_usd` and `max_calls` apply to the gate as a whole. `refresh` also ignores the judgments in the traces.

    Attributes
    ----------
    judge, model, samples, base_url, api_key_env, profile
        The judge, its server and the number of samples, as the flags of ``evalkit ci`` set them; None: not set. The
        judge ``profile`` is all judges of the profile.
    no_promoted
        Reject replies that were promoted from another rubric version.
    strict
        Flaky and warned tests fail too.
    redact
        Replace prompts and answers by ``[REDACTED]`` in every output.
    """

    judge: str | None = None
    model: str | None = None
    samples: int | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    profile: str | None = None
    no_promoted: bool = False
    strict: bool = False
    redact: bool = False


@dataclass(frozen=True)
class Asked:
    """One expectation with everything resolved.

    Attributes
    ----------
    rubric, samples, rules
        By what, how often, and how samples become a verdict.
    spec
        With the judges, or None where no judge is named: then only the trace counts.
    live
        Whether a judge may be asked.
    sources
        Field -> where its value came from.
    """

    rubric: Rubric
    samples: int
    rules: Rules
    spec: Spec | None
    live: bool
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """How many samples a judgment has: k of each judge."""
        return self.samples * (1 if self.spec is None else len(self.spec.judges))

    @property
    def group(self) -> tuple[Any, ...]:
        """What expectations share that are judged in one go."""
        judges = () if self.spec is None else tuple((judge.identity, judge.weight) for judge in self.spec.judges)
        return self.rubric.id, self.rubric.version, self.samples, judges, self.live


def variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """The values of ``VERDICT_JUDGE…``; ConfigError for one that is none.

    Examples
    --------
    >>> variables({"VERDICT_JUDGE_SAMPLES": "5"})
    {'samples': 5}
    """
    found: dict[str, Any] = {}
    for name in _NAMES:
        variable = "VERDICT_JUDGE" if name == "judge" else f"VERDICT_JUDGE_{name.upper()}"
        text = environment.get(variable, "").strip()
        if text:
            found[name] = text if name in ("judge", "model") else _number(variable, name, text)
    return found


def _number(variable: str, name: str, text: str) -> float | int:
    least = 0 if name == "temperature" else 1
    try:
        value = float(text) if name == "temperature" else int(text)
    except ValueError:
        value = math.nan
    if not value >= least or math.isinf(value):
        kind = "number" if name == "temperature" else "whole number"
        raise ConfigError(f"{variable}={text!r} is no {kind} ≥ {least}; correct or unset it")
    return value


class Resolver:
    """Resolves expectations of one configuration; rubrics and specs are made once."""

    def __init__(self, config: GateConfig, options: GateOptions, environment: Mapping[str, str] | None = None) -> None:
        self._config, self._options = config, options
        if options.samples is not None:
            check_samples(options.samples, "--judge-samples")
        self._flags = {name: getattr(options, name) for name in _NAMES[:3] if getattr(options, name) is not None}
        self._variables = variables(os.environ if environment is None else environment)
        for place, values in (("--judge", self._flags), ("VERDICT_JUDGE", self._variables)):
            if "judge" in values:
                _check_provider(values["judge"], place)
        self.profile = self._profile()
        self._made: dict[Any, Asked] = {}

    def _profile(self) -> Profile | None:
        if self._options.profile is not None:
            return load_profile(self._options.profile)
        named = self._config.profile
        if named is None:
            return None
        beside = self._config.folder / named
        return load_profile(beside if beside.is_file() else named)

    def of(self, test: str, expected: Expected) -> Asked:
        """One expectation resolved.

        Raises
        ------
        ConfigError
            Naming configuration and test.
        """
        known = (expected.type, expected.rubric_version, *(getattr(expected, name) for name in _NAMES))
        if known not in self._made:
            try:
                self._made[known] = self._of(expected)
            except EvalkitError as problem:
                raise ConfigError(
                    f"{place_of(self._config, test)}, test {test!r}, {expected.type}: {problem}"
                ) from None
        return self._made[known]

    def _places(self, expected: Expected) -> list[Place]:
        said = ((f"expected of {expected.type}", expected), ("settings", self._config.settings))
        files = [(name, {key: getattr(of, key) for key in _NAMES if getattr(of, key) is not None}) for name, of in said]
        return [("flag", self._flags), ("variable", self._variables), *files]

    def _of(self, expected: Expected) -> Asked:
        places, profile = self._places(expected), self.profile
        settings = Settings.of(*places, *named_by(profile)).filled(("default", {"samples": DEFAULT_SAMPLES}))
        sources = {name: settings.source(name) for name in _NAMES[2:] if name in settings}
        rubric = self._rubric(expected, sources)
        judge, live = self._judge(places, sources)
        changes = {name: settings[name] for name in ("temperature", "max_tokens") if name in settings}
        lacks = sources.get("model") == "missing"  # no fault before a call is needed
        judges: list[Judge] = [judge] if judge is not None else [] if profile is None or lacks else list(profile.judges)
        if live:
            self._refuse_others(places, judges, sources)
        judges = [self._served(one.replace(**changes), own=judge is not None, sources=sources) for one in judges]
        spec = Spec.resolve(rubric, settings.changed("judges", judges), profile=profile) if judges else None
        rules = Rules(**{name: settings[name] for name in RULE_NAMES if name in settings})
        return Asked(rubric, settings["samples"], rules, spec, live, sources)

    def _served(self, judge: Judge, *, own: bool, sources: dict[str, str]) -> Judge:
        settings, options = self._config.settings, self._options
        sources["timeout_seconds"] = "settings" if "timeout_seconds" in settings.model_fields_set else "default"
        changes: dict[str, Any] = {"timeout_s": settings.timeout_seconds}
        for name in ("base_url", "api_key_env"):
            value = getattr(options, name) or (getattr(settings, name) if own else None)
            if value is not None and judge.is_llm:
                sources[name] = "flag" if getattr(options, name) else "settings"
                changes[name] = value
        return judge.replace(**changes)

    def _rubric(self, expected: Expected, sources: dict[str, str]) -> Rubric:
        version = expected.rubric_version or self._config.settings.rubric_version
        sources["rubric_version"] = (
            f"expected of {expected.type}" if expected.rubric_version else "settings" if version else "newest"
        )
        own = None if self.profile is None or self.profile.rubric is None else self.profile.rubric.partition("@")
        if own is not None and self.profile is not None and own[0] == expected.type and version in (None, own[2]):
            sources["rubric_version"] = f"profile {self.profile.profile}"
            rubric = self.profile.load()
        else:
            rubric = load_rubric(f"{expected.type}@{version}" if version else expected.type)
        if rubric.mode == "pairwise":
            raise ConfigError(f"rubric {rubric.id!r} compares two answers; a gate judges one")
        if rubric.pass_at is None and not any(criterion.scale.has_rule for criterion in rubric.criteria):
            raise ConfigError(f"rubric {rubric.id!r} has no pass rule, so there is no verdict; give it pass_at")
        return rubric

    def _judge(self, places: list[Place], sources: dict[str, str]) -> tuple[Judge | None, bool]:
        """The judge that is named, None for the profile's; and whether it may be asked."""
        named = [(rank, place, values["judge"]) for rank, (place, values) in enumerate(places) if "judge" in values]
        live = bool(named) and named[0][2] != "none" and not self._options.offline
        sources["judge"] = named[0][1] if named else "default (none)"
        models = [(rank, place, values["model"]) for rank, (place, values) in enumerate(places) if "model" in values]
        if self._options.profile is not None and self.profile is not None and self.profile.judges:
            # a profile that a flag names comes before variables and files: another flag alone changes its judges
            named, models = ([one for one in given if one[0] == 0] for given in (named, models))
            sources["model"] = f"profile {self.profile.profile}"
        who = next(((rank, text) for rank, _, text in named if text != "none"), None)
        if who is None:
            if not models:
                return None, live
            sources["model"] = models[0][1]
            return Judge("openai", models[0][2]), live
        provider, _, model = who[1].partition(":")
        _check_provider(who[1], "judge")
        if provider == _PROFILE:
            if models and models[0][0] <= who[0]:
                raise ConfigError(
                    f"judge 'profile' asks the profile's judges, and {models[0][1]} names the model "
                    f"{models[0][2]!r}: keep one"
                )
            sources["model"] = f"profile {self._with_judges().profile}"
            return None, live
        mine = [(place, name) for rank, place, name in models if provider != "fake" or rank <= who[0]]
        if model and mine and models[0][0] <= who[0]:
            raise ConfigError(
                f"judge {who[1]!r} names a model, and so does {models[0][1]} ({models[0][2]!r}): keep one"
            )
        if not model and mine:
            sources["model"], model = mine[0]
        own = () if self.profile is None else self.profile.judges
        if not model and self.profile is not None and any(provider in ("fake", one.provider) for one in own):
            sources["model"] = f"profile {self.profile.profile}"
            return None, live
        if not model and provider == "fake":
            model = "strict"
        if not model:
            sources["model"] = "missing"
            return None, live
        return Judge.of(f"{provider}:{model}"), live

    def _with_judges(self) -> Profile:
        if self.profile is None:
            raise ConfigError("judge 'profile' asks a profile's judges, and there is no profile; name one: --profile P")
        if not self.profile.judges:
            raise ConfigError(
                f"judge 'profile' asks a profile's judges, and {self.profile.profile!r} names none; "
                "name one with --judge provider:model"
            )
        return self.profile

    def _refuse_others(self, places: list[Place], judges: list[Judge], sources: Mapping[str, str]) -> None:
        """Whoever names a provider's judges asks no others, whatever else the profile has (docs/adr/0011)."""
        place, said = next((place, values["judge"]) for place, values in places if "judge" in values)
        provider = said.partition(":")[0]
        others = [one.name for one in judges if one.provider != provider]
        if provider == _PROFILE:
            others = [] if sources.get("model", "").startswith("profile ") else others
        if not others:
            return
        shown = {"flag": f"--judge {said}", "variable": f"VERDICT_JUDGE={said}"}.get(place, f"judge: {said} of {place}")
        named = "--judge fake:strict tries without them" if provider == "fake" else f"--judge {provider}:MODEL one"
        raise ConfigError(
            f"{shown} asks no judge but those of '{provider}', and {listed(others)} "
            f"{'is' if len(others) == 1 else 'are'} among those to ask; --judge profile asks all of a profile, {named}"
        )


def _check_provider(text: str, place: str) -> None:
    if text not in ("none", _PROFILE) and text.partition(":")[0] not in PROVIDERS:
        raise ConfigError(
            f"{place}: unknown judge {text!r}; allowed are none, profile, {', '.join(PROVIDERS)}, or provider:model"
        )
