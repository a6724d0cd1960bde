"""How a run is scored: mode, config with judges and rules, and what its tasks are bound to."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, RootModel, model_validator

from evalkit.core.judge_field_checks import without_nulls
from evalkit.core.judges import Judge
from evalkit.core.lists_of_choices import SCORING_MODES, ScoreReading
from evalkit.core.providers import Backend
from evalkit.core.settings import MOST_SAMPLES, weight_of
from evalkit.core.validation_errors import validated
from evalkit.core.vote_aggregate_rules import AggregateRule
from evalkit.errors import ConfigError, EvalkitError, RubricError, listed
from evalkit.errors.secrets import is_key, without_keys
from evalkit.rubrics import Profile, load_profile
from evalkit.rubrics.files import parse_json, read_text, read_yaml

MODE_VARIABLE = "EVALUATOR_SCORING_MODE"
CONFIG_VARIABLE = "EVALUATOR_SCORING_CONFIG"

CONFIG_IGNORED = (
    "the scoring config has no effect and nothing will be judged, because the scoring mode is 'deterministic', the "
    f"default; set the mode (--scoring-mode, scoring_mode=, {MODE_VARIABLE}) to judge (one judge) or jury"
)
_OTHER_NAMES = {"provider": "judge_backend", "model": "judge_model_name"}
"""The names of profiles and of `Judge`."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class JudgeConfig(_Part):
    """One judge of a scoring config.

    Attributes
    ----------
    judge_model_name
        The model as the service knows it; a persona for ``fake``. The key ``model``, as in profiles, is the same.
    judge_backend
        One of `BACKENDS`: ``tgi`` needs `base_url`; ``vllm`` runs in this process unless `base_url` names a server. The
        key ``provider``, as in profiles, is the same.
    max_tokens
        Longest reply in tokens, ≥ 1 (default 512); None: not sent.
    weight
        Relative weight in a jury (default 1); 0 leaves the judge out of scores.
    judge_template_id
        Prompt template of this judge: ``name@version``, or ``name`` for the newest when the run starts.
    base_url
        Root of an OpenAI-compatible server.
    api_key_env
        Name of the environment variable that holds the key; never the key.
    temperature
        Sampling temperature, ≥ 0 (default 1.0); None: not sent. Every other key with the value None is not set.
    score
        How a score is read: ``expected`` or ``mode``, from log-probabilities (default: from the text).
    name
        The judge's name in tables (default ``provider:model``).
    """

    judge_model_name: str = Field(min_length=1)
    judge_backend: Backend
    max_tokens: int | None = Field(default=None, ge=1)
    weight: Annotated[float, BeforeValidator(weight_of)] = 1.0
    judge_template_id: str | None = Field(default=None, min_length=1)
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    score: ScoreReading | None = None
    name: str | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _has_our_names_and_no_key(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            if keys := [name for name in values if is_key(str(name))]:
                raise ValueError(
                    f"{listed(keys)}: a literal key is not allowed in a scoring config; put the key into an "
                    "environment variable and set api_key_env to the variable's name"
                )
            for other, name in _OTHER_NAMES.items():
                if other in values and name in values:
                    raise ValueError(f"{other} and {name} mean the same; keep one of them")
            return {_OTHER_NAMES.get(name, name): value for name, value in without_nulls(values).items()}
        return values

    @model_validator(mode="after")
    def _is_a_judge(self) -> Self:
        if self.judge_backend == "tgi" and not self.base_url:
            raise ValueError("judge_backend 'tgi' needs base_url, the root of its OpenAI-compatible server")
        self.to_judge()
        return self

    @property
    def provider(self) -> str:
        """The provider of evalkit that serves the back end."""
        is_server = self.judge_backend == "tgi" or (self.judge_backend == "vllm" and self.base_url)
        return "openai" if is_server else self.judge_backend

    def to_judge(self) -> Judge:
        """The judge without its template, which is looked up when the task is known."""
        others = self.model_dump(exclude={"judge_model_name", "judge_backend", "judge_template_id"}, exclude_unset=True)
        return Judge(self.provider, self.judge_model_name, **others)


class ScoringConfig(_Part):
    """The content of ``EVALUATOR_SCORING_CONFIG``; unknown keys are errors.

    Attributes
    ----------
    judges
        The judges: one in judge mode, two or more in jury mode; empty: those of the profile or task.
    aggregation
        Rule from votes to a score, one of `AGGREGATE_RULES` (default: the profile's, else ``mean``). It replaces that
        of the config's own profile, but not that of a profile which a pack binds to a task.
    force_aggregation
        Replace the rule of a bound profile, too.
    report_disagreement
        Whether juries report the disagreement of their judges per sample.
    samples
        Samples per judge and answer, ≥ 1 (default: the profile's, else 3).
    criteria_per_call
        How many criteria one reply judges: from 1, or ``all`` (default: the profile's, else 1).
    repair
        Whether a judge is asked once what a reply means that could not be read (default true).
    profile
        Name or path of a profile: judges, template, samples and rules that the config does not set.

    Raises
    ------
    ConfigError
        By `of`, with the problem and the allowed values.
    """

    judges: tuple[JudgeConfig, ...] = Field(default=(), strict=False)
    aggregation: AggregateRule = "mean"
    force_aggregation: bool = False
    report_disagreement: bool = False
    samples: int | None = Field(default=None, ge=1, le=MOST_SAMPLES)
    criteria_per_call: PositiveInt | Literal["all"] | None = None
    repair: bool | None = None
    profile: str | None = Field(default=None, min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _null_is_not_set(cls, values: Any) -> Any:
        return without_nulls(values) if isinstance(values, Mapping) else values

    def replaced(self, profile: Profile, *, is_bound: bool) -> Iterator[str]:
        """In words, which values of a profile the config replaces, or does not; `is_bound`: by a pack, to a task."""
        whose = f"{profile.label}{', which the pack binds' if is_bound else ''}"
        names = {"aggregation": "aggregate", "samples": "samples", "criteria_per_call": "criteria_per_call"}
        for name, field in names.items():
            ours, theirs = getattr(self, name), getattr(profile, field)
            is_set = name in self.model_fields_set and field in profile.model_fields_set
            if not is_set or ours == theirs:
                continue
            if name == "aggregation" and is_bound and not self.force_aggregation:
                way = "to use it, set force_aggregation: true there"
                yield f"aggregation {ours!r} of the scoring config is not used, because {whose}, sets {theirs!r}; {way}"
            else:
                yield f"{name} {ours!r} of the scoring config replaces {theirs!r} of {whose}"
        if self.judges and profile.judges and (new := self.to_judges()) != profile.judges:
            lists = (", ".join(judge.name for judge in judges) for judges in (new, profile.judges))
            yield "judges {} of the scoring config replace {} of {}".format(*lists, whose)

    @model_validator(mode="after")
    def _can_score(self) -> Self:
        if self.judges and not any(judge.weight is None or judge.weight > 0 for judge in self.judges):
            raise ValueError("judges: all weights are 0, so no judge is left; give at least one a weight above 0")
        names = [judge.name for judge in self.to_judges()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(
                f"judges: two have the name {listed(twice)}; rename one, or use samples to call one judge more than "
                "once"
            )
        return self

    @classmethod
    def of(cls, given: ScoringConfig | Mapping[str, Any] | str | Path, where: str = "scoring config") -> ScoringConfig:
        """A config from a mapping, a JSON string, or a JSON or YAML file.

        Raises
        ------
        ConfigError
            When it cannot be read or is invalid; the message starts with `where` or the file.
        """
        if isinstance(given, cls):
            return given
        where, values = read_config(given, where)
        if not isinstance(values, Mapping):
            keys = ", ".join(cls.model_fields)
            raise ConfigError(f"{where}: expected a mapping with {keys}, got a {type(values).__name__}")
        return validated(cls, dict(values), where, ConfigError)

    def to_judges(self) -> tuple[Judge, ...]:
        """The judges; if two have the same model, their names contain their templates."""
        made = [judge.to_judge() for judge in self.judges]
        plain = [judge.name for judge in made]
        return tuple(
            judge.replace(name=f"{judge.name} ({given.judge_template_id})")
            if given.name is None and given.judge_template_id and plain.count(judge.name) > 1
            else judge
            for judge, given in zip(made, self.judges, strict=True)
        )

    def to_dict(self) -> dict[str, Any]:
        """The values that were set, as plain data; reading them gives the same config."""
        return self.model_dump(mode="json", exclude_unset=True)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Mode and config of a run, checked together.

    Attributes
    ----------
    mode
        One of `SCORING_MODES`.
    config
        None if there is none; always None in deterministic mode, in which it is neither read nor passed on.
    """

    mode: str = "deterministic"
    config: ScoringConfig | None = None

    @classmethod
    def of(cls, mode: str | None, config: ScoringConfig | Mapping[str, Any] | str | Path | None = None) -> Scoring:
        """Check a mode and its config.

        Raises
        ------
        ConfigError
            For an unknown mode, an invalid config, or a number of judges that the mode does not allow.
        """
        mode = mode or "deterministic"
        if mode not in SCORING_MODES:
            raise ConfigError(f"unknown scoring mode {mode!r}; allowed: {', '.join(SCORING_MODES)}")
        if mode == "deterministic":
            return cls()
        made = cls(mode, None if config is None else ScoringConfig.of(config))
        if made.config is not None and made.config.judges:
            made.check_number(len(made.config.judges), "the scoring config")
        return made

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Scoring:
        """Mode and config of the environment variables; deterministic if they are not set."""
        environ = os.environ if environ is None else environ
        mode = asked_mode(environ) or "deterministic"
        text = environ.get(CONFIG_VARIABLE, "").strip()
        if mode == "deterministic" or not text:
            return cls.of(mode)
        return cls.of(mode, config_in(text))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages about settings of the config that have no effect in this mode, or replace those of its profile."""
        texts, config = list[str](), self.config
        if config is not None and self.mode == "judge" and config.report_disagreement:
            texts.append("report_disagreement has no effect in scoring mode 'judge', because there is only one judge")
        if config is not None and config.profile is not None:
            with suppress(EvalkitError):  # raised where the profile is needed, or it is one of a plugin
                texts += config.replaced(load_profile(config.profile), is_bound=False)
        return tuple(texts)

    def check_number(self, n_judges: int, where: str) -> None:
        """ConfigError if the mode does not allow this number of judges; `where` is the place that lists them."""
        if self.mode == "judge" and n_judges > 1:
            raise ConfigError(
                f"scoring mode 'judge' takes one judge, and {where} has {n_judges}; keep one, or use the mode 'jury'"
            )
        if self.mode == "jury" and n_judges == 1:
            raise ConfigError(
                f"scoring mode 'jury' takes two judges or more, and {where} has one; add another, or use the mode "
                "'judge'"
            )


def config_in(text: str) -> ScoringConfig:
    """The config in the text of the environment variable; ConfigError if it is invalid."""
    if not text.lstrip().startswith(("{", "[")):
        raise ConfigError(
            f"{CONFIG_VARIABLE} must be JSON that begins with {{; of a file, pass the content, not the path"
        )
    return ScoringConfig.of(parse_json(text, CONFIG_VARIABLE, ConfigError), CONFIG_VARIABLE)


def asked_mode(environ: Mapping[str, str] | None = None) -> str | None:
    """The scoring mode of the environment variable; None if it is not set or blank.

    Raises
    ------
    ConfigError
        For an unknown mode.
    """
    mode = (os.environ if environ is None else environ).get(MODE_VARIABLE, "").strip()
    if mode and mode not in SCORING_MODES:
        raise ConfigError(f"unknown scoring mode {MODE_VARIABLE}={mode!r}; allowed: {', '.join(SCORING_MODES)}")
    return mode or None


def read_config(given: Any, where: str) -> tuple[str, Any]:
    """The source of a config and its values: of a JSON string, of a JSON or YAML file, or `given` itself.

    Raises
    ------
    ConfigError
        When the string or file cannot be read.
    """
    if not isinstance(given, (str, Path)):
        return where, given
    if str(given).lstrip().startswith(("{", "[")):
        return where, parse_json(str(given), where, ConfigError)
    path = Path(given)
    try:
        values = read_yaml(path) if path.suffix in (".yaml", ".yml") else parse_json(read_text(path), path, ConfigError)
    except RubricError as problem:
        raise ConfigError(
            f"{where}: {str(problem)[:300]}; expected a mapping, a JSON string, or a JSON or YAML file"
        ) from None
    return str(path), values


def as_given(config: Any) -> Mapping[str, Any] | None:
    """A scoring config as it was given, with nothing filled in and no keys; in deterministic mode it is not checked."""
    if isinstance(config, ScoringConfig):
        return config.to_dict()
    try:
        _, values = read_config(config, "scoring config")
    except ConfigError:  # in the other modes it was read before
        return None
    if not isinstance(values, Mapping):
        return None
    plain: Mapping[str, Any] = without_keys(json.loads(json.dumps(values, default=str)))
    return plain


BINDINGS_VARIABLE = "EVALKIT_TASK_BINDINGS"
_MOST_BYTES = 100_000  # Linux takes 131,072 in one variable, its name included


class _BindingPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TemplateText(_BindingPart):
    """A judge template with its source and its sha256 (checked), so that the scoring process needs no registry."""

    name: str = Field(min_length=1)
    version: str = Field(min_length=1)
    text: str
    hash: str

    @model_validator(mode="after")
    def _unchanged(self) -> Self:
        if hashlib.sha256(self.text.encode()).hexdigest() != self.hash:
            raise ValueError(f"the text of template {self.name}@{self.version} does not match its hash")
        return self


class TaskBinding(_BindingPart):
    """The binding of one task; every field is optional.

    Attributes
    ----------
    plugin, plugin_version
        Name and version in the registry.
    plugin_path
        The folder or file of the plugin that defines the task.
    plugin_hash
        Content hash at resolution.
    judge_profile
        Name or path of the profile that judges the task.
    judge_template_id
        Template of all judges that have no template of their own.
    templates
        The templates that come from a registry.
    copy_of
        The task of which this is a copy, with the same documents and answers, under another profile.
    """

    plugin: str | None = None
    plugin_version: str | None = None
    plugin_path: str | None = None
    plugin_hash: str | None = None
    judge_profile: str | None = None
    judge_template_id: str | None = None
    templates: list[TemplateText] = []
    copy_of: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As in the variable, without the fields that are not set."""
        return self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


class TaskBindings(RootModel[dict[str, TaskBinding]]):
    """Bindings by the name of a task (``helpfulness``, without ``|0``) or of a group (``pollux``)."""

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self.root)

    def __len__(self) -> int:
        return len(self.root)

    def of_task(self, task: str) -> TaskBinding:
        """The binding of a task, as LightEval calls it (``helpfulness|0``), or of its group; empty if there is none.

        Examples
        --------
        >>> bindings = TaskBindings.of({"pollux": {"judge_profile": "strict"}, "pollux:easy": {"plugin": "p"}})
        >>> [bindings.of_task(task).judge_profile for task in ("pollux:hard|0", "pollux:easy|0", "pollux_type:x|0")]
        ['strict', None, None]
        """
        name = task_name(task)
        return self.root.get(name) or self.root.get(name.partition(":")[0], _NONE)

    @classmethod
    def of(cls, values: Any, where: str = BINDINGS_VARIABLE) -> TaskBindings:
        """Bindings from a mapping task → binding.

        Raises
        ------
        ConfigError
            With the task, the key and the allowed values.
        """
        if not isinstance(values, Mapping):
            raise ConfigError(f"{where}: expected an object (task → binding), got a {type(values).__name__}")
        found: dict[str, TaskBinding] = {}
        for task, given in values.items():
            binding = validated(TaskBinding, given, f"{where}: task {task!r}", ConfigError)
            if task_name(task) in found:
                raise ConfigError(f"{where}: task {task_name(task)!r} has two bindings; keep one")
            found[task_name(task)] = binding
        return cls(found)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> TaskBindings:
        """The bindings of ``EVALKIT_TASK_BINDINGS``, which holds JSON or the path of a file; empty if it is not set."""
        text = (os.environ if environ is None else environ).get(BINDINGS_VARIABLE, "").strip()
        if not text:
            return cls({})
        if text.startswith("/"):
            try:
                text = Path(text).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as problem:
                raise ConfigError(f"{BINDINGS_VARIABLE}: the file {text} cannot be read: {problem}") from None
        return cls.of(parse_json(text, BINDINGS_VARIABLE, ConfigError))

    def to_json(self) -> str:
        """The bindings as JSON."""
        return json.dumps({task: binding.to_dict() for task, binding in self.root.items()}, ensure_ascii=False)

    def to_environ(self, file: Path) -> str:
        """The value of the variable: JSON, or if that is too long, the path of `file`, which is then written."""
        text = self.to_json()
        if len(text.encode()) <= _MOST_BYTES:
            return text
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return str(file.absolute())


_NONE = TaskBinding()


def task_name(task: str) -> str:
    """A task's name without the number of few-shot examples.

    Examples
    --------
    >>> task_name("helpfulness|0"), task_name("pollux:easy")
    ('helpfulness', 'pollux:easy')
    """
    return task.split("|", 1)[0]
