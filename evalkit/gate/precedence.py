"""The settings of each expectation: flag > variable > the test's expectation > settings > profile > default."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from evalkit.core.judges import Judge
from evalkit.core.settings import Options, Place, Settings, check_samples
from evalkit.core.validation_errors import explain
from evalkit.engine.judging.specification import DEFAULT_SAMPLES, Spec, check_provider, named_by, with_changes
from evalkit.errors import ConfigError, EvalkitError, guess, listed
from evalkit.gate.config import Expected, GateConfig, JudgeFields
from evalkit.gate.config import Settings as GateSettings
from evalkit.gate.config_files import place_of
from evalkit.rubrics import Rubric, load_profile, load_rubric

_PROFILE = "profile"  # as the name of a judge: all judges of the profile
_VARIABLES = {name: f"VERDICT_JUDGE_{name.upper()}" for name in JudgeFields.model_fields} | {"judge": "VERDICT_JUDGE"}
_SHOWN = (*JudgeFields.model_fields, "rubric_version", "timeout_seconds", "base_url", "api_key_env")


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
    drift
        Also test whether the judge itself changed: replies from before `refresh`, a date, against those since.
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
    drift: bool = False

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if self.drift and (not isinstance(self.refresh, float) or self.refresh > time.time()):
            fact = "drift compares replies from before and after a date"
            raise ConfigError(f"{fact}: pass a date in the past, such as --drift 2026-01-31 (refresh='2026-01-31')")

    def flag(self, name: str) -> str:
        """A flag of ``evalkit ci``, as messages show it."""
        return f"--{name}"

    def place(self, line: int) -> str:
        """What was judged, as messages name it."""
        return f"the trace (line {line})"


class PytestOptions(GateOptions):
    """The options of a gate, set by the options of pytest."""

    __slots__ = ()

    def flag(self, name: str) -> str:
        """The option of pytest that sets what this flag of ``evalkit ci`` sets."""
        return f"--verdict-{name.removeprefix('judge-')}"

    def place(self, line: int) -> str:  # noqa: ARG002  # an item of a test is in no file
        """What was judged, as messages name it."""
        return "the item"


@dataclass(frozen=True)
class Resolved:
    """The settings of one expectation.

    Attributes
    ----------
    spec
        Rubric, judges, samples and rules.
    has_judge
        Whether a judge is named. If not, only the judgments in the traces count, and the spec has a stand-in.
    live
        Whether a judge may be called.
    sources
        Setting -> where its value came from.
    of_profile
        Whether the judges are those of a profile.
    """

    spec: Spec
    has_judge: bool
    live: bool
    sources: Mapping[str, str] = field(default_factory=dict)
    of_profile: bool = False

    @property
    def group(self) -> tuple[Any, ...]:
        """Expectations with equal groups are judged in one run."""
        judges = tuple((judge.identity, judge.weight) for judge in self.spec.judges)
        rubric, asked = self.spec.rubric, (self.spec.samples, self.spec.criteria_per_call)
        return rubric.id, rubric.version, asked, judges, self.has_judge, self.live


def variables(environment: Mapping[str, str]) -> dict[str, Any]:
    """The values of ``VERDICT_JUDGE…``; ConfigError for an invalid one.

    Examples
    --------
    >>> variables({"VERDICT_JUDGE_SAMPLES": "5"})
    {'samples': 5}
    """
    texts = {name: environment.get(variable, "").strip() for name, variable in _VARIABLES.items()}
    try:
        fields = JudgeFields.model_validate({name: text for name, text in texts.items() if text}, strict=False)
    except ValidationError as problem:
        name = str(problem.errors()[0]["loc"][0])
        text = f"{_VARIABLES[name]}={texts[name]!r} is invalid ({explain(problem, JudgeFields)})"
        raise ConfigError(f"{text}; correct or unset it") from None
    return fields.model_dump(exclude_none=True)


class Resolver:
    """Resolves the expectations of one configuration; rubrics and specs are made once."""

    def __init__(self, config: GateConfig, options: GateOptions, environment: Mapping[str, str] | None = None) -> None:
        self._config, self.options = config, options
        if options.samples is not None:
            check_samples(options.samples, options.flag("judge-samples"))
        flags = {name: getattr(options, name) for name in ("judge", "model", "samples", "base_url", "api_key_env")}
        by_variables = variables(os.environ if environment is None else environment)
        self._places: list[Place] = [("flag", flags), ("variable", by_variables)]
        check_provider(options.judge or "none", options.flag("judge"))
        check_provider(by_variables.get("judge", "none"), "VERDICT_JUDGE")
        name = options.profile
        if name is None and config.profile is not None:
            path = config.folder / config.profile
            name = str(path) if path.is_file() else config.profile
        self.profile = None if name is None else load_profile(name)
        self._resolved: dict[Any, Resolved] = {}

    def of(self, test: str, expected: Expected) -> Resolved:
        """The settings of one expectation.

        Raises
        ------
        ConfigError
            With the configuration and the test.
        """
        own = {name: getattr(expected, name) for name in (*JudgeFields.model_fields, "rubric_version")}
        known = (expected.type, *own.values())
        if known not in self._resolved:
            in_file: list[Place] = [(f"expected of {expected.type}", own)]
            in_file.append(("settings", self._config.settings.model_dump(exclude_unset=True)))
            try:
                self._resolved[known] = self._resolve(expected.type, [*self._places, *in_file])
            except EvalkitError as problem:
                text = f"{place_of(self._config, test)}, test {test!r}, {expected.type}: {problem}"
                raise ConfigError(text) from None
        names = self._resolved[known].spec.rubric.names
        if unknown := [name for name in expected.criteria if name not in names]:
            where = f"{place_of(self._config, test)}, test {test!r}, {expected.type}"
            fact = f"min_score names the criterion {unknown[0]!r}, which the rubric does not have"
            raise ConfigError(f"{where}: {fact}; {guess(unknown[0], names)}allowed: {listed(names)}")
        return self._resolved[known]

    def _resolve(self, rubric_id: str, places: list[Place]) -> Resolved:
        default = {"judge": "none", "samples": DEFAULT_SAMPLES, "timeout_seconds": GateSettings().timeout_seconds}
        settings = Settings.of(*places, *named_by(self.profile), ("default", default))
        rubric, version_source = self._rubric(rubric_id, settings)
        judges, model_source, is_of_profile = self._judges(places)
        live = settings["judge"] != "none" and not self.options.offline
        if live and not (is_of_profile and settings["judge"] == _PROFILE):
            _refuse_others(settings, judges, self.options)
        sources = {name: settings.source(name) for name in _SHOWN if name in settings}
        sources |= {"rubric_version": version_source} | ({} if model_source is None else {"model": model_source})
        changes = {name: settings[name] for name in ("temperature", "max_tokens") if name in settings}
        changes["timeout_s"] = settings["timeout_seconds"]
        for name in ("base_url", "api_key_env"):
            if is_of_profile and sources.get(name) == "settings":  # meant for the judges that the file names
                del sources[name]
            elif name in settings:
                changes[name] = settings[name]
        settings = settings.changed("judges", [with_changes(judge, changes) for judge in judges] or "fake:strict")
        spec = Spec.resolve(rubric, settings, profile=self.profile)
        return Resolved(spec, bool(judges), live, sources, is_of_profile)

    def _rubric(self, rubric_id: str, settings: Settings) -> tuple[Rubric, str]:
        """The rubric, and where its version came from."""
        version, profile = settings.get("rubric_version"), self.profile
        own_id, _, own_version = str(profile and profile.rubric).partition("@")
        if profile is not None and own_id == rubric_id and version in (None, own_version):
            rubric, source = profile.load(), f"profile {profile.profile}"
        else:
            rubric = load_rubric(f"{rubric_id}@{version}" if version else rubric_id)
            source = settings.sources.get("rubric_version", "newest")
        if rubric.mode == "pairwise":
            raise ConfigError(f"rubric {rubric.id!r} compares two answers; use a rubric that scores one")
        if rubric.pass_at is None and not any(criterion.scale.has_rule for criterion in rubric.criteria):
            raise ConfigError(f"rubric {rubric.id!r} gives no verdict, because it has no pass rule; set its pass_at")
        return rubric, source

    def _judges(self, places: list[Place]) -> tuple[list[Judge], str | None, bool]:
        """The judges, where their model came from (``missing``: it is not named), and whether a profile names them."""
        profile = self.profile
        own = [] if profile is None else list(profile.judges)
        of_profile = own, None if profile is None or not own else f"profile {profile.profile}", bool(own)
        if own and self.options.profile is not None:
            places = places[:1]  # only a flag changes the judges of a profile that a flag names
        entries = [
            (place, {**values, "judge": None} if values.get("judge") == "none" else values) for place, values in places
        ]
        named = Settings.of(*entries)
        text, model = named.get("judge"), named.get("model")
        if text is None:
            return of_profile if model is None else ([Judge("openai", model)], named.source("model"), False)
        check_provider(text, "judge")
        provider, _, own_model = text.partition(":")
        order = [place for place, _ in places]
        is_changed = model is not None and order.index(named.source("model")) <= order.index(named.source("judge"))
        if is_changed and (own_model or provider == _PROFILE):
            fact = f"judge {text!r} cannot be combined with model {model!r} (from {named.source('model')})"
            raise ConfigError(f"{fact}; keep one of them")
        if own_model:
            return [Judge.of(text)], named.source("judge"), False
        if model is not None and provider != _PROFILE and (is_changed or provider != "fake"):
            return [Judge.of(f"{provider}:{model}")], named.source("model"), False
        if provider == _PROFILE and not own:
            lack = f"no profile is named; add {self.options.flag('profile')} P"
            if profile is not None:
                judge = self.options.flag("judge")
                lack = f"{profile.profile!r} names no judge; name one with {judge} provider:model"
            raise ConfigError(f"judge 'profile' stands for the judges of a profile, but {lack}")
        if any(provider in (_PROFILE, "fake", judge.provider) for judge in own):
            return of_profile
        return ([Judge.of("fake:strict")], "default", False) if provider == "fake" else ([], "missing", False)


def _refuse_others(settings: Settings, judges: list[Judge], options: GateOptions) -> None:
    """Raise if a judge of another provider than the named one would be called (docs/adr/0011)."""
    text, place = settings["judge"], settings.source("judge")
    provider = text.partition(":")[0]
    others = [judge.name for judge in judges if judge.provider != provider]
    if not others:
        return
    flag = options.flag("judge")
    shown = {"flag": f"{flag} {text}", "variable": f"VERDICT_JUDGE={text}"}.get(place, f"judge: {text} of {place}")
    whom, judge = ("none of them", "fake:strict") if provider == "fake" else ("one judge", f"{provider}:MODEL")
    fact = f"{shown} calls only judges of {provider!r}, but the judges include {listed(others)}"
    ways = f"to call all judges of the profile, pass {flag} profile; to call {whom}, pass {flag} {judge}"
    raise ConfigError(f"{fact}; {ways}")
