"""The configuration of a gate and its file: settings, tests, bounds for the suite; unknown keys are errors."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError, ValidationError

from evalkit.core.files import BOM
from evalkit.core.judge_settings import JUDGE_SETTINGS, NOT_SENT
from evalkit.core.strict_json import DuplicateKeyError, without_duplicates
from evalkit.core.validation_errors import explain, problems, unknown_key
from evalkit.errors import ConfigError, RubricError, listed
from evalkit.gate.checks import CHECKS, one_or_more
from evalkit.rubrics.files import read_yaml
from evalkit.rubrics.item_criteria import CriteriaForm

CRITERIA = "criteria"
"""The type of an expectation on the criteria that a trace brings itself."""
Share = Annotated[float, Field(ge=0, le=1)]
MinScore = Annotated[
    Annotated[Share, Tag("<number>")] | Annotated[dict[str, Share], Field(min_length=1), Tag("<criteria>")],
    Discriminator(lambda value: "<criteria>" if isinstance(value, dict) else "<number>"),
]
"""The lowest score that passes, or criterion -> that of this criterion."""
_Points = Annotated[float, Field(le=1, allow_inf_nan=False)]  # a share of the points may be below 0
MinPoints = Annotated[
    Annotated[_Points, Tag("<number>")] | Annotated[dict[str, _Points], Field(min_length=1), Tag("<axes>")],
    Discriminator(lambda value: "<axes>" if isinstance(value, dict) else "<number>"),
]
"""The lowest share of points that passes, or axis (``all``: the whole) -> that of this axis."""


class _Strict(BaseModel):
    """Without unknown keys; a key that is null is an error, unless it is a setting (such as an unset variable)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @field_validator("*", mode="before")
    @classmethod
    def _given(cls, value: Any, info: ValidationInfo) -> Any:
        if value is None and info.field_name not in (*JUDGE_SETTINGS, "rubric_version"):
            raise PydanticCustomError("null", "must not be null: give it a value, or leave the key out")
        return value


def _checked(name: str) -> BeforeValidator:
    """The check of a setting's value by the table that all doors read; ``null`` is not sent, or not set."""
    setting = JUDGE_SETTINGS[name]

    def check(value: Any) -> Any:
        if value is None:
            return NOT_SENT if NOT_SENT in setting.expected else None
        try:
            return setting.check(value, name)
        except ConfigError:
            raise PydanticCustomError("setting", "must be {expected}", {"expected": setting.expected}) from None

    return BeforeValidator(check)


class JudgeFields(_Strict):
    """The fields of the judge, for all tests or for one expectation."""

    judge: str | None = None
    model: str | None = None
    samples: Annotated[Any, _checked("samples")] = None
    temperature: Annotated[Any, _checked("temperature")] = None
    max_tokens: Annotated[Any, _checked("max_tokens")] = None


class Settings(JudgeFields):
    """Defaults for all tests: those of `JUDGE_SETTINGS`, and the version of rubrics."""

    score: Annotated[Any, _checked("score")] = None
    timeout_seconds: Annotated[Any, _checked("timeout_seconds")] = 60.0
    max_seconds: Annotated[Any, _checked("max_seconds")] = None
    repair: Annotated[Any, _checked("repair")] = None
    rubric_version: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None


class _Expectation(JudgeFields):
    type: str
    min_score: MinScore | None = None
    min_points: MinPoints | None = None
    rubric: str | None = None
    criteria: str | dict[str, Any] | None = None
    rubric_version: str | None = None

    @property
    def rubric_id(self) -> str:
        """The rubric that judges."""
        return (self.rubric or "requirement") if self.type == CRITERIA else self.type

    @property
    def with_floors(self) -> tuple[str, ...]:
        """The criteria that `min_score` names; none if it is a number for the whole rubric."""
        return tuple(self.min_score) if isinstance(self.min_score, dict) else ()


if TYPE_CHECKING:
    _WithChecks = _Expectation
else:  # BaseModel has an attribute "schema", so that field gets another name
    _WithChecks = create_model(
        "_WithChecks",
        __base__=_Expectation,
        **{
            f"{key}_" if hasattr(BaseModel, key) else key: (kind | None, Field(default=None, alias=key))
            for check in CHECKS.values()
            for key, kind in check.fields.items()
        },
    )


class Expected(_WithChecks):
    """One expectation: a judge metric (the id of any rubric) or a check that needs no judge.

    A check of `CHECKS` has exactly one of its own keys, such as ``pattern`` of ``regex``.
    """

    @property
    def of_check(self) -> dict[str, Any]:
        """The keys of checks that are set, with their values."""
        fields = type(self).model_fields.items()
        keys = {name: field.alias for name, field in fields if name not in _Expectation.model_fields}
        return {str(key): value for name, key in keys.items() if (value := getattr(self, name)) is not None}

    @model_validator(mode="after")
    def _fits(self) -> Expected:
        given, allowed = self.of_check, CHECKS[self.type].fields if self.type in CHECKS else {}
        if self.type in CHECKS:
            fields = (*JudgeFields.model_fields, "min_score", "min_points", "rubric", "criteria", "rubric_version")
            if judged := [name for name in fields if getattr(self, name) is not None]:
                raise ValueError(
                    f"{self.type} is a check without a judge; omit {listed(judged)}, which only a judge metric can have"
                )
            if len(given.keys() & allowed.keys()) != 1:
                raise ValueError(f"{self.type} needs exactly one of {', '.join(allowed)}")
        if self.type == CRITERIA and (self.min_points is None or self.min_score is not None):
            raise ValueError("criteria needs min_points (a share of the points), and has no min_score")
        CriteriaForm.of(self.criteria)
        of_criteria = [] if self.type in (CRITERIA, *CHECKS) else ["min_points", "rubric", "criteria"]
        misplaced = {name for name in of_criteria if getattr(self, name) is not None}
        if wrong := sorted(given.keys() - allowed.keys() | misplaced):
            raise ValueError(f"unknown key for {self.type!r}: {listed(wrong)}")
        return self


class TestInput(_Strict):
    """The input that a test's trace must have; fields left out are not compared."""

    __test__ = False
    prompt: str | None = None
    context: Annotated[list[str], BeforeValidator(one_or_more)] | None = None
    inputs: dict[str, Any] | None = None


class CheckedItem(BaseModel):
    """An item of the pytest plugin: inputs of the rubric, of which these have a type of their own."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    question: str | None = None
    answer: str | None = None
    context: Annotated[list[str], BeforeValidator(one_or_more)] | None = None


class GateTest(_Strict):
    """One test: its id, how to find its trace, and what is expected of the answer."""

    id: Annotated[str, Field(min_length=1)]
    request_id: str | None = None
    input: TestInput = TestInput()
    expected: Annotated[list[Expected], BeforeValidator(one_or_more), Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> GateTest:
        judged = [expected.type for expected in self.expected if expected.type not in CHECKS]
        if len(set(judged)) < len(judged):
            beside = "; min_points takes the whole as 'all' beside axes" if judged.count(CRITERIA) > 1 else ""
            raise ValueError(f"a test expects the same metric twice; keep one{beside}")
        return self


class SuiteBound(_Strict):
    """Bounds for the whole suite, tested by intervals over 20 tests or more; without `type`, for every metric."""

    type: str | None = None
    min_score_lower_bound: Share | None = None
    min_pass_rate: Share | None = None
    min_agreement: Share | None = None
    min_coverage: Share | None = None

    @model_validator(mode="after")
    def _bounds(self) -> SuiteBound:
        bounds = [name for name in type(self).model_fields if name != "type"]
        if all(getattr(self, name) is None for name in bounds):
            raise ValueError(f"a suite entry without a bound has no effect; set at least one of {', '.join(bounds)}")
        return self


class GateConfig(_Strict):
    """A gate configuration."""

    settings: Settings = Settings()
    tests: Annotated[list[GateTest], Field(min_length=1)]
    suite: Annotated[list[SuiteBound], BeforeValidator(one_or_more), Field(min_length=1)] = []
    baseline: str | None = None
    profile: str | None = None
    folder: Path = Field(default=Path(), exclude=True)
    name: str = Field(default="", exclude=True)

    def __init__(self, **values: Any) -> None:
        if "folder" not in values:  # no file: in Python, an argument that is None is not given
            values = {name: value for name, value in values.items() if value is not None}
        try:
            super().__init__(**values)
        except ValidationError as problem:
            raise ConfigError(f"the configuration: {explain(problem, GateConfig)}") from problem

    @model_validator(mode="after")
    def _distinct(self) -> GateConfig:
        seen: set[str] = set()
        for test in self.tests:
            if test.id in seen:
                raise ValueError(f"duplicate test id {test.id!r}; ids must be unique")
            seen.add(test.id)
        return self

    @model_validator(mode="after")
    def _judged(self) -> GateConfig:
        judged = {expected.type for test in self.tests for expected in test.expected} - set(CHECKS)
        if (self.suite or self.baseline is not None) and not judged:
            raise ValueError(
                "suite and baseline need a test with a judge metric, but no test has one; omit them or add such a test"
            )
        for gate in self.suite:
            if gate.type is not None and gate.type not in judged:
                raise ValueError(
                    f"suite sets a bound for {gate.type!r}, but no test expects this metric; the tests expect "
                    f"{', '.join(sorted(judged))}"
                )
        return self


_DUPLICATE = re.compile(r'\(found duplicate key "(.*?)".*\)', re.DOTALL)
_KEYS = [name for name, field in GateConfig.model_fields.items() if not field.exclude]


def load_gate(path: str | Path, *, redact: bool = False) -> GateConfig:
    """Read a configuration: JSON if the name ends in ``.json``, else YAML.

    Parameters
    ----------
    path
        The file.
    redact
        Quote no value of the file in errors.

    Raises
    ------
    ConfigError
        With file, line, key and what is allowed.
    """
    path = Path(path)
    values = _read(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a mapping with tests (optional: settings, suite, baseline, profile)")
    if reserved := [key for key in ("folder", "name") if key in values]:
        line = _line_of(path, reserved)
        raise ConfigError(f"{path}, line {line}: {unknown_key(reserved[0], _KEYS)}")
    try:
        return GateConfig(**values, folder=path.parent, name=path.name)
    except ConfigError as wrong:
        problem: Any = wrong.__cause__
        line = _line_of(path, problems(problem, GateConfig)[0].place)
        raise ConfigError(f"{path}, line {line}: {explain(problem, GateConfig, redact=redact)}") from None
    except TypeError:
        raise ConfigError(f"{path}: keys must be strings (allowed: {', '.join(_KEYS)})") from None


def place_of(config: GateConfig, test: str) -> str:
    """File and line of a test; only a name if the configuration was made in Python."""
    path = config.folder / config.name
    if not config.name or not path.is_file():
        return config.name or "the configuration"
    number = next(at for at, one in enumerate(config.tests) if one.id == test)
    return f"{config.name}, line {_line_of(path, ['tests', number, 'expected'])}"


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            text = path.read_bytes().removeprefix(BOM)
            values = orjson.loads(text)
            with suppress(DuplicateKeyError):  # JSON is YAML, and that error names the line
                json.loads(text, object_pairs_hook=without_duplicates)
                return values
        return read_yaml(path)
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except orjson.JSONDecodeError as problem:
        raise ConfigError(
            f"{path}: invalid JSON at line {problem.lineno}, column {problem.colno}: {problem.msg}"
        ) from None
    except RubricError as problem:
        raise ConfigError(_DUPLICATE.sub(r"(duplicate key '\1'; keep one)", str(problem))) from None


def _line_of(path: Path, where: Sequence[Any]) -> int:
    """The line of a key in the file; if the key is missing, the line of its parent."""
    from ruamel.yaml import YAML

    node: Any = YAML(pure=True).compose(path.read_text(encoding="utf-8"))
    line = 1
    for part in where:
        if node is None or node.id not in ("mapping", "sequence"):
            break
        if node.id == "mapping":
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None and isinstance(part, int):
                continue  # a single value instead of a list of one
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
