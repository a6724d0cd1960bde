"""Profiles: a tuned judge, frozen: rubric, judges, samples and the rules from samples to a score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, ValidatorFunctionWrapHandler, field_validator, model_validator

from evalkit.core.formatting import html_text
from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.own_rules import text_in_file
from evalkit.core.reply_keys import digest
from evalkit.core.settings import MOST_SAMPLES, check_criteria_per_call, check_cut
from evalkit.core.vote_aggregate_rules import AggregateRule, VoteRule, VoteTies
from evalkit.errors import ConfigError, EvalkitError, RubricError, error_at, guess, listed
from evalkit.rubrics.criteria import FileModel
from evalkit.rubrics.files import dump_yaml, read_yaml, rubric_folders
from evalkit.rubrics.rubric import Rubric
from evalkit.rubrics.rubrics_by_name import load_rubric


class Profile(FileModel):
    """A frozen judge, used by `ek.judge(items, profile)`, the gate and LightEval.

    Attributes
    ----------
    profile, version
        Its name and version.
    rubric
        ``id@version``; None: the caller passes one (`with_rubric`).
    rubric_hash
        The rubric's content hash when it was frozen; checked on load.
    judges
        The judges; empty: the caller passes them.
    template
        Overrides the rubric's template.
    samples
        Samples per judge and item, from 1 to 1000.
    criteria_per_call
        How many criteria one reply judges: from 1, or ``all``.
    vote, ties, min_self_agreement
        How samples become a vote; whether ties stay unscored; and the self-agreement (0-1) below which a judge's vote
        is unscored.
    aggregate, quorum
        How votes become a score; more than `quorum` (0-1) of the weight must be scored, and 1 means all of it.
        A function of yours, here or in `vote`, is held as ``module:name@sha256 of its source``.
    pass_prob_at
        The cut on P(pass) from which on a vote passes, as `pass_threshold` finds it for these judges; None: no cut.
    calibration
        What `Calibration.to_dict` gave: date, figure, key and maps. Nothing applies it by itself; it is refused if the
        key is not that of these settings.

    Raises
    ------
    ConfigError
        For unknown keys or values outside what is allowed.
    """

    error_type = ConfigError

    profile: str
    version: str = "1"
    description: str = ""
    rubric: str | None = None
    rubric_hash: str | None = None
    judges: tuple[Judge, ...] = ()
    template: str | None = None
    samples: int = Field(default=3, ge=1, le=MOST_SAMPLES, strict=True)
    criteria_per_call: Annotated[int | Literal["all"], BeforeValidator(check_criteria_per_call)] = 1
    vote: VoteRule = "mean"
    ties: VoteTies = "na"
    min_self_agreement: float | None = Field(default=None, ge=0, le=1, strict=True)
    aggregate: AggregateRule = "mean"
    quorum: float = Field(default=0.5, ge=0, le=1, strict=True)
    pass_prob_at: float | None = None
    calibration: dict[str, Any] | None = None
    _rubric: Rubric | None = PrivateAttr(default=None)
    _folder: Path | None = PrivateAttr(default=None)
    _file: Path | None = PrivateAttr(default=None)

    def __init__(self, **fields: Any) -> None:  # for type checkers: any key, judges by name
        super().__init__(**fields)

    @field_validator("version", mode="before")
    @classmethod
    def _text(cls, version: Any) -> Any:
        return str(version) if isinstance(version, (int, float)) and not isinstance(version, bool) else version

    @field_validator("vote", "aggregate", mode="wrap")
    @classmethod
    def _own_rule(cls, rule: Any, allowed: ValidatorFunctionWrapHandler) -> Any:
        text = text_in_file(rule)
        return allowed(rule) if text is None else text

    @field_validator("pass_prob_at", mode="before")
    @classmethod
    def _cut(cls, value: Any) -> Any:
        check_cut(value)
        return value

    @field_validator("judges", mode="before")
    @classmethod
    def _judges(cls, judges: Any) -> Any:
        if isinstance(judges, (str, Mapping, Judge)):
            judges = [judges]
        try:
            return tuple(Judge.of(judge) for judge in judges)
        except (EvalkitError, TypeError) as problem:
            raise ValueError(str(problem)) from None

    @model_validator(mode="after")
    def _same_settings(self) -> Profile:
        if self.calibration is not None and self.calibration.get("key") != self.settings_key():
            raise ValueError(
                "its calibration was fitted with another rubric, judge, template, number of samples or rule; calibrate "
                "and freeze again, or remove 'calibration'"
            )
        return self

    @property
    def label(self) -> str:
        """``profile name@version``, as the source of a setting."""
        return f"profile {self.profile}@{self.version}"

    def settings_key(self) -> str:
        """A hash of all that a score depends on: rubric, judges, template, samples and rules, but no cut on P(pass)."""
        names = ("profile", "version", "description", "rubric", "calibration", "pass_prob_at")
        return digest({name: value for name, value in self.to_dict().items() if name not in names})[:16]

    def in_file(self, path: Path) -> Profile:
        """The same profile, which names its file in a notebook and looks for its rubric beside it."""
        made = self.model_copy()
        made._file = path.resolve()
        made._folder = made._file.parent
        return made

    def load(self) -> Rubric:
        """The profile's rubric, with its hash checked.

        Raises
        ------
        RubricError
            When the profile has no rubric, or the file differs from the frozen one.
        """
        if self._rubric is not None:
            return self._rubric
        if self.rubric is None:
            raise RubricError(
                f"profile {self.profile!r} has no rubric; add one with profile.with_rubric(…) or --rubric"
            )
        name, _, version = self.rubric.partition("@")
        folders = () if self._folder is None else (self._folder, self._folder.parent)
        beside = [folder / "rubrics" / name / f"{version}.yaml" for folder in folders]
        places: list[str | Path] = [self.rubric.removesuffix("@"), *filter(Path.is_file, beside)]
        problem, other = "", None
        for place in places:
            try:
                rubric = load_rubric(place)
            except RubricError as error:
                if place in beside:
                    raise
                problem = str(error)
                continue
            if self.rubric_hash in (None, "", rubric.content_hash):
                return rubric
            other = other or rubric
        if other is None:
            raise RubricError(
                f"profile {self.profile!r} needs rubric {self.rubric}, which was found neither in the folder "
                f"rubrics/ beside the profile nor elsewhere: {problem}"
            )
        raise RubricError(
            f"rubric {self.rubric} changed since profile {self.profile!r} was frozen (hash now "
            f"{other.content_hash[:8]}, then {str(self.rubric_hash)[:8]}); restore the rubric's file, or freeze again"
        )

    def with_rubric(self, rubric: Rubric | str | Path) -> Profile:
        """The same rules for another rubric."""
        given = rubric if isinstance(rubric, Rubric) else load_rubric(rubric)
        changes = {"rubric": f"{given.id}@{given.version}", "rubric_hash": given.content_hash, "calibration": None}
        made = self.model_copy(update=changes)
        made._rubric, made._file = given, None
        return made

    def with_judges(self, judges: JudgesLike) -> Profile:
        """The same rules with other judges."""
        given = [judges] if isinstance(judges, (str, Mapping, Judge)) else judges
        made = self.model_copy(update={"judges": tuple(Judge.of(judge) for judge in given), "calibration": None})
        made._file = None
        return made

    def __str__(self) -> str:
        return dump_yaml(self.to_dict())

    def _repr_html_(self) -> str:
        return html_text(str(self), f"file: {self._file}" if self._file else "")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Profile) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(str(self))

    def to_dict(self) -> dict[str, Any]:
        """The profile as in its file, defaults left out."""
        values = self._file_values("profile", "version", "samples", "vote", "aggregate", "quorum")
        return values | ({"judges": [judge_dict(judge) for judge in self.judges]} if self.judges else {})


def judge_dict(judge: Judge) -> dict[str, Any]:
    """A judge's fields as in a profile, without defaults; never a key."""
    plain = Judge(judge.provider, judge.model, ask=judge.ask)
    values: dict[str, Any] = {"provider": judge.provider, "model": judge.model, "temperature": judge.temperature}
    values["weight"] = int(judge.weight) if judge.weight.is_integer() else judge.weight
    if judge.import_path:
        values["ask"] = judge.import_path
    for name in Judge.__slots__:
        value = getattr(judge, name)
        # where a server was named, it is written down: the reader's OPENAI_BASE_URL may be another
        served = judge.base_url is not None and name in ("base_url", "service", "api_key_env")
        if name not in values and (served or value != getattr(plain, name)):
            values[name] = (
                list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
            )
    return values


def profile_files() -> dict[str, Path]:
    """Name -> file of each profile in the rubric folders, by name; the first folder that has a name wins."""
    files = [file for folder in reversed(rubric_folders()) for file in (folder / "profiles").glob("*.yaml")]
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


def load_profile(name: str | Path) -> Profile:
    """A profile by name (``conservative``) or from a file.

    Raises
    ------
    ConfigError
        When it is not found, or the file is invalid: the message names the file, the key and what is allowed.

    Examples
    --------
    >>> load_profile("conservative").samples
    5
    """
    path = Path(name)
    if isinstance(name, str) and path.suffix not in (".yaml", ".yml"):
        there = profile_files()
        if name not in there:
            raise ConfigError(
                f"profile {name!r} not found; {guess(name, there)}available: {listed(there)} and paths of .yaml files"
            )
        path = there[name]
    try:
        values = read_yaml(path)
    except RubricError as problem:  # it names the file
        raise ConfigError(str(problem)) from None
    if not isinstance(values, Mapping):
        raise ConfigError(f"{path}: expected a mapping with profile, rubric, judges, samples, vote and aggregate")
    with error_at(str(path), ConfigError, EvalkitError):
        return Profile(**{str(key): value for key, value in values.items()}).in_file(path)


RubricLike = Rubric | Profile | str | Path
"""A rubric: a `Rubric`, a `Profile`, or the name or file of one."""


def load_rubric_or_profile(given: str | Path) -> Rubric | Profile:
    """A rubric or profile by name, or from a file."""
    if not isinstance(given, (str, Path)):
        raise ConfigError(f"expected a Rubric, a Profile, or the name or path of one, got {type(given).__name__}")
    if Path(given).suffix in (".yaml", ".yml") and Path(given).is_file():
        values = read_yaml(Path(given))
        if isinstance(values, Mapping) and "profile" in values:
            return load_profile(given)
    return load_rubric(given)


def rubric_of(given: RubricLike) -> Rubric:
    """A rubric from an object, a name or a file; for a profile its rubric."""
    found = given if isinstance(given, (Rubric, Profile)) else load_rubric_or_profile(given)
    return found.load() if isinstance(found, Profile) else found
