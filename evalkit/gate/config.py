"""The configuration of a gate: settings, tests and suite gates, read strictly, faults named by file, line and key."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from evalkit.errors import ConfigError, listed
from evalkit.gate.config_text import line_of, read_source
from evalkit.gate.traces import REDACTED

__all__ = [
    "CHECKS",
    "Expected",
    "Gate",
    "GateConfig",
    "GateTest",
    "Settings",
    "Share",
    "TestInput",
    "load_gate",
    "place_of",
]

CHECKS = ("must_contain", "regex", "json_schema")
"""Metrics that need no judge."""

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
Share = Annotated[float, Field(ge=0, le=1)]
Whole = Annotated[int, Field(ge=1)]


_FORBIDS = re.compile(r"\(\?<?!")
# short ones first: a pattern that is slow on what it does not match sees no long one
_PROBES = ("", "a", "\n", "a b\n\nC1", "<b>{}[]()", "!?.,;:'", "\x00\t", "Ж é 中 😀", "a" * 100_000)


def _phrase(text: str) -> str:
    if not text.strip():
        raise ValueError("a blank text is in nearly every answer; give the text that must be there")
    return text


def _pattern(text: str) -> str:
    r"""A regular expression that some answer does not match: `a*`, `^.*`, `\A` and `(^|x)` match every one."""
    try:
        pattern = re.compile(text)
        always = _FORBIDS.search(text) is None and all(pattern.search(probe) for probe in _PROBES)
    except (re.error, OverflowError, RecursionError) as problem:
        said = str(getattr(problem, "msg", problem)).partition("'")[0].strip()  # quotes nothing
        raise ValueError(f"this is no regular expression ({said})") from None
    if always:
        raise ValueError("this pattern matches every answer; give one that can fail")
    return text


Phrase = Annotated[str, AfterValidator(_phrase)]
Pattern = Annotated[str, AfterValidator(_pattern)]


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) or value is None else [value]


class _Asked(BaseModel):
    """What settings and expectations may both say of the judge."""

    model_config = _STRICT

    judge: str | None = None
    model: str | None = None
    samples: Whole | None = None
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    max_tokens: Whole | None = None


class Settings(_Asked):
    """Defaults of all tests: judge, samples, time-out in seconds, server."""

    timeout_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    rubric_version: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None


class Expected(_Asked):
    """One expectation: a judge metric (`faithfulness`, every rubric id) or a check that needs no judge.

    `value` belongs to must_contain (a text or several), `pattern` to regex, `schema` (or `schema_file`) to json_schema.
    """

    type: str
    min_score: Share | None = None
    rubric_version: str | None = None
    value: Annotated[list[Phrase], BeforeValidator(_one_or_more), Field(min_length=1)] | None = None
    pattern: Pattern | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    schema_file: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Expected:
        needs = {"must_contain": ("value",), "regex": ("pattern",), "json_schema": ("schema", "schema_file")}
        there = {name for name in ("value", "pattern", "schema_file") if getattr(self, name) is not None}
        there |= {"schema"} if self.schema_ is not None else set()
        allowed = needs.get(self.type, ())
        if self.type in CHECKS:
            fields = (*_Asked.model_fields, "min_score", "rubric_version")
            judged = [name for name in fields if getattr(self, name) is not None]
            if judged:
                raise ValueError(f"{self.type} needs no judge, so {listed(judged)} has no meaning here")
            if len(there & set(allowed)) != 1:
                raise ValueError(f"{self.type} needs {' or '.join(allowed)}")
        wrong = sorted(there - set(allowed))
        if wrong:
            raise ValueError(f"{listed(wrong)} does not belong to {self.type!r}")
        return self


class TestInput(BaseModel):
    """What a test's trace must have been asked: left out is not compared."""

    __test__ = False
    model_config = _STRICT

    prompt: str | None = None
    context: Annotated[list[str], BeforeValidator(_one_or_more)] | None = None


class GateTest(BaseModel):
    """One test: its id, how its trace is found, and what is expected of the answer."""

    model_config = _STRICT

    id: Annotated[str, Field(min_length=1)]
    request_id: str | None = None
    input: TestInput = TestInput()
    expected: Annotated[list[Expected], BeforeValidator(_one_or_more), Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> GateTest:
        judged = [expected.type for expected in self.expected if expected.type not in CHECKS]
        if len(set(judged)) < len(judged):
            raise ValueError("a metric is expected twice; give each metric once")
        return self


class Gate(BaseModel):
    """Bounds for the whole suite; intervals decide, from 20 tests on. Without `type`: for each metric."""

    model_config = _STRICT

    type: str | None = None
    min_score_lower_bound: Share | None = None
    min_pass_rate: Share | None = None
    min_agreement: Share | None = None
    min_coverage: Share | None = None

    @model_validator(mode="after")
    def _bounds(self) -> Gate:
        bounds = [name for name in type(self).model_fields if name != "type"]
        if all(getattr(self, name) is None for name in bounds):
            raise ValueError(f"a suite bound is one of {', '.join(bounds)}; give one")
        return self


class GateConfig(BaseModel):
    """A whole configuration."""

    model_config = _STRICT

    settings: Settings = Settings()
    tests: Annotated[list[GateTest], Field(min_length=1)]
    suite: Annotated[list[Gate], BeforeValidator(_one_or_more), Field(min_length=1)] = []
    baseline: str | None = None
    profile: str | None = None
    folder: Path = Field(default=Path(), exclude=True)
    name: str = Field(default="", exclude=True)

    @model_validator(mode="after")
    def _distinct(self) -> GateConfig:
        seen: set[str] = set()
        for test in self.tests:
            if test.id in seen:
                raise ValueError(f"two tests have the id {test.id!r}; ids are unique")
            seen.add(test.id)
        return self

    @model_validator(mode="after")
    def _judged(self) -> GateConfig:
        judged = {expected.type for test in self.tests for expected in test.expected} - set(CHECKS)
        if (self.suite or self.baseline is not None) and not judged:
            raise ValueError("suite and baseline are about judge metrics, and no test expects one; leave them out")
        for gate in self.suite:
            if gate.type is not None and gate.type not in judged:
                raise ValueError(f"suite: no test expects {gate.type!r}; expected are {', '.join(sorted(judged))}")
        return self


def load_gate(path: str | Path, *, redact: bool = False) -> GateConfig:
    """Read a configuration: YAML, or JSON where the name ends in ``.json``.

    Parameters
    ----------
    path
        The file.
    redact
        Quote no value of it in errors.

    Raises
    ------
    ConfigError
        Naming file, line, key and what is allowed.
    """
    path = Path(path)
    values = read_source(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration is a mapping with tests (and settings, suite, baseline, profile)")
    own = [key for key in ("folder", "name") if key in values]
    if own:
        raise ConfigError(f"{path}, line {line_of(path, own)}: unknown key {own[0]!r}; allowed are {_allowed(())}")
    try:
        return GateConfig(**values, folder=path.parent, name=path.name)
    except ValidationError as problem:
        raise ConfigError(_said(path, problem, redact=redact)) from None
    except TypeError:
        raise ConfigError(f"{path}: keys must be text; allowed are {_allowed(())}") from None


def _said(path: Path, problem: ValidationError, *, redact: bool) -> str:
    faults = problem.errors()
    first = faults[0]
    where = list(first["loc"])
    key = ".".join(str(part) for part in where) or "tests"
    text = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        text = f"unknown key {where[-1]!r}; allowed are {_allowed(where[:-1])}"
    elif first["type"] == "missing":
        text = f"{where[-1]!r} is missing"
    elif first["type"] != "value_error":
        text = f"{key}: {text[0].lower()}{text[1:]}, not {REDACTED if redact else repr(first['input'])}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    said = text if key in text else f"{key}: {text}"
    return f"{path}, line {line_of(path, where)}: {said}{more}"


def _allowed(where: Sequence[Any]) -> str:
    names: dict[str, type[BaseModel]] = {
        "settings": Settings,
        "tests": GateTest,
        "suite": Gate,
        "expected": Expected,
        "input": TestInput,
    }
    last = next((str(part) for part in reversed(where) if isinstance(part, str)), "")
    model = names.get(last, GateConfig)
    fields = [field.alias or name for name, field in model.model_fields.items()]
    return ", ".join(name for name in fields if name not in ("folder", "name"))


def place_of(config: GateConfig, test: str) -> str:
    """File and line of a test; the name alone where the configuration was made in Python."""
    path = config.folder / config.name
    if not config.name or not path.is_file():
        return config.name or "the configuration"
    number = next(at for at, one in enumerate(config.tests) if one.id == test)
    return f"{config.name}, line {line_of(path, ['tests', number, 'expected'])}"
