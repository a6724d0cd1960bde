"""The settings of each expectation: flag > variable > the test's expectation > settings > profile > default."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.judge_settings import JUDGE_SETTINGS, flag_place, variable_place
from evalkit.core.judges import Judge
from evalkit.core.settings import Options, Place, Settings
from evalkit.engine.judging.specification import (
    DEFAULT_SAMPLES,
    PROFILE,
    SERVER,
    Spec,
    check_provider,
    named_by,
    named_judges,
)
from evalkit.errors import ConfigError, EvalkitError, guess, listed
from evalkit.gate.config import CRITERIA, Expected, GateConfig, JudgeFields, place_of
from evalkit.gate.config import Settings as GateSettings
from evalkit.rubrics import Rubric, load_profile, load_rubric

_SHOWN = (*JUDGE_SETTINGS, "rubric_version")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions(Options):
    """The options of a gate: those of `judge` (`cache`, `refresh`, `budget_usd`, `concurrency` …) and its own.

    `budget_usd`, `max_calls` and `max_seconds` apply to the gate as a whole. `refresh` also ignores the judgments in
    the traces.

    Attributes
    ----------
    judge, model, samples, temperature, max_tokens, score, base_url, api_key_env, timeout_seconds, profile
        The judge, its settings and the number of samples, as the flags of ``evalkit ci`` set them; None: not set. The
        judge ``profile`` is all judges of the profile. The temperature or number of tokens ``none`` is not sent.
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
    temperature: float | str | None = None
    max_tokens: int | str | None = None
    score: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    timeout_seconds: float | None = None
    profile: str | None = None
    no_promoted: bool = False
    strict: bool = False
    redact: bool = False
    drift: bool = False

    def __post_init__(self) -> None:
        Options.__post_init__(self)
        if self.drift and (not isinstance(self.refresh, float) or self.refresh > time.time()):
            raise ConfigError(
                "drift compares replies from before and after a date: pass a date in the past, such as --drift "
                "2026-01-31 (refresh='2026-01-31')"
            )

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


class Resolver:
    """Resolves the expectations of one configuration; rubrics and specs are made once."""

    def __init__(self, config: GateConfig, options: GateOptions, environment: Mapping[str, str] | None = None) -> None:
        self._config, self.options = config, options
        flags = flag_place({name: getattr(options, name) for name in JUDGE_SETTINGS}, options.flag)
        self._places: list[Place] = [flags, variable_place(environment, without=flags[1])]
        first = Settings.of(*self._places)
        check_provider(first.get("judge", "none"), first.source("judge"))
        name = options.profile
        if name is None and config.profile is not None:
            path = config.folder / config.profile
            name = str(path) if path.is_file() else config.profile
        self.profile = None if name is None else load_profile(name)
        self._in_file: Place = self._place("settings", config.settings.model_dump(exclude_unset=True))
        self.of_all = Settings.of(*self._places, self._in_file)
        """The settings of all expectations."""
        self._resolved: dict[Any, Resolved] = {}

    def _place(self, key: str, values: Mapping[str, Any]) -> Place:
        """Values of the file, whose source is the key there."""
        where = f"{self._config.name}: " if self._config.name else ""
        return lambda name: f"{where}{key}.{name}", values

    def of(self, test: str, expected: Expected) -> Resolved:
        """The settings of one expectation.

        Raises
        ------
        ConfigError
            With the configuration and the test.
        """
        own = {name: getattr(expected, name) for name in (*JudgeFields.model_fields, "rubric_version")}
        known = (expected.type, expected.rubric, *own.values())
        if known not in self._resolved:
            in_file = [self._place("expected", own), self._in_file]
            try:
                self._resolved[known] = self._resolve(expected, [*self._places, *in_file])
            except EvalkitError as problem:
                if str(problem).startswith(("flag ", "variable ")):  # the file is not to blame
                    raise
                raise ConfigError(
                    f"{place_of(self._config, test)}, test {test!r}, {expected.type}: {problem}"
                ) from None
        names = self._resolved[known].spec.rubric.names
        if unknown := [name for name in expected.with_floors if name not in names]:
            raise ConfigError(
                f"{place_of(self._config, test)}, test {test!r}, {expected.type}: min_score names the criterion "
                f"{unknown[0]!r}, which the rubric does not have; {guess(unknown[0], names)}allowed: {listed(names)}"
            )
        return self._resolved[known]

    def _resolve(self, expected: Expected, places: list[Place]) -> Resolved:
        default = {"judge": "none", "samples": DEFAULT_SAMPLES, "timeout_seconds": GateSettings().timeout_seconds}
        settings = Settings.of(*places, *named_by(self.profile), ("default", default))
        rubric, version_source = self._rubric(expected.rubric_id, settings)
        if expected.type == CRITERIA and not rubric.has_requirements:
            raise ConfigError(
                f"rubric {rubric.id!r} does not judge whether a requirement is true of the answer; use requirement, or "
                "a rubric of one criterion with this input"
            )
        if self.options.profile is not None and self.profile is not None and self.profile.judges:
            places = places[:1]  # only a flag changes the judges of a profile that a flag names
        named = named_judges(places, self.profile, self.options.flag)
        live = settings["judge"] != "none" and not self.options.offline
        if live and not (named.of_profile and settings["judge"] == PROFILE):
            _refuse_others(settings, named.judges, self.options)
        sources = {name: settings.source(name) for name in _SHOWN if name in settings}
        sources |= {"rubric_version": version_source} | ({} if named.source is None else {"model": named.source})
        judges = named.changed(settings)
        if named.of_profile:
            sources = {name: one for name, one in sources.items() if name not in SERVER or one.startswith("flag ")}
        settings = settings.changed("judges", list(judges) or "fake:strict")
        spec = Spec.resolve(rubric, settings, profile=self.profile)
        return Resolved(spec, bool(judges), live, sources, named.of_profile)

    def _rubric(self, rubric_id: str, settings: Settings) -> tuple[Rubric, str]:
        """The rubric, and where its version came from."""
        version, profile = settings.get("rubric_version"), self.profile
        own_id, _, own_version = str(profile and profile.rubric).partition("@")
        if profile is not None and own_id == rubric_id and version in (None, own_version):
            rubric, source = profile.load(), profile.label
        else:
            rubric = load_rubric(f"{rubric_id}@{version}" if version else rubric_id)
            source = settings.sources.get("rubric_version", "newest")
        if rubric.mode == "pairwise":
            raise ConfigError(f"rubric {rubric.id!r} compares two answers; use a rubric that scores one")
        if rubric.pass_at is None and not any(criterion.scale.has_rule for criterion in rubric.criteria):
            raise ConfigError(f"rubric {rubric.id!r} gives no verdict, because it has no pass rule; set its pass_at")
        return rubric, source


def _refuse_others(settings: Settings, judges: Sequence[Judge], options: GateOptions) -> None:
    """Raise if a judge of another provider than the named one would be called (docs/adr/0011)."""
    text = settings["judge"]
    provider = text.partition(":")[0]
    if not (others := [judge.name for judge in judges if judge.provider != provider]):
        return
    flag = options.flag("judge")
    whom, judge = ("none of them", "fake:strict") if provider == "fake" else ("one judge", f"{provider}:MODEL")
    raise ConfigError(
        f"{settings.source('judge')}: judge {text!r} calls only judges of {provider!r}, but the judges include "
        f"{listed(others)}; to call all judges of the profile, pass {flag} profile; to call {whom}, pass {flag} {judge}"
    )
