"""The configuration of a gate: settings, tests and suite gates, read strictly, faults named by file, line and key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from evalkit.errors import ConfigError, RubricError, listed
from evalkit.rubrics.files import read_yaml

__all__ = ["CHECKS", "Expected", "Gate", "GateConfig", "GateTest", "Settings", "TestInput", "load_gate", "place_of"]

CHECKS = ("must_contain", "regex", "json_schema")
"""Metrics that need no judge."""

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
Share = Annotated[float, Field(ge=0, le=1, strict=False)]
Whole = Annotated[int, Field(ge=1)]


def _one_or_more(value: Any) -> Any:
    return value if isinstance(value, (list, tuple)) or value is None else [value]


class _Asked(BaseModel):
    """What settings and expectations may both say of the judge."""

    model_config = _STRICT

    judge: str | None = None
    model: str | None = None
    samples: Whole | None = None
    temperature: Annotated[float, Field(ge=0, strict=False)] | None = None
    max_tokens: Whole | None = None


class Settings(_Asked):
    """Defaults of all tests: judge, samples, time-out in seconds, server."""

    timeout_seconds: Annotated[float, Field(gt=0, strict=False)] = 60.0
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
    value: Annotated[list[str], BeforeValidator(_one_or_more), Field(min_length=1)] | None = None
    pattern: str | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")
    schema_file: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> Expected:
        needs = {"must_contain": ("value",), "regex": ("pattern",), "json_schema": ("schema", "schema_file")}
        there = {name for name in ("value", "pattern", "schema_file") if getattr(self, name) is not None}
        there |= {"schema"} if self.schema_ is not None else set()
        allowed = needs.get(self.type, ())
        if self.type in CHECKS:
            judged = [name for name in (*_Asked.model_fields, "min_score", "rubric_version") if getattr(self, name)]
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


class GateConfig(BaseModel):
    """A whole configuration."""

    model_config = _STRICT

    settings: Settings = Settings()
    tests: Annotated[list[GateTest], Field(min_length=1)]
    suite: Annotated[list[Gate], BeforeValidator(_one_or_more)] = []
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


def load_gate(path: str | Path) -> GateConfig:
    """Read a configuration: YAML, or JSON where the name ends in ``.json`` (which is read faster).

    Raises
    ------
    ConfigError
        Naming file, line, key and what is allowed.
    """
    path = Path(path)
    values = _read(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: a configuration is a mapping with tests (and settings, suite, baseline, profile)")
    own = [key for key in ("folder", "name") if key in values]
    if own:
        raise ConfigError(f"{path}, line {_line(path, own)}: unknown key {own[0]!r}; allowed are {_allowed(())}")
    try:
        return GateConfig(**values, folder=path.parent, name=path.name)
    except ValidationError as problem:
        raise ConfigError(_said(path, problem)) from None
    except TypeError:
        raise ConfigError(f"{path}: keys must be text; allowed are {_allowed(())}") from None


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".json":
            return orjson.loads(path.read_bytes())
        return read_yaml(path)
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except orjson.JSONDecodeError as problem:
        raise ConfigError(f"{path}, line {problem.lineno}: this is no valid JSON ({problem.msg})") from None
    except RubricError as problem:
        raise ConfigError(str(problem)) from None


def _said(path: Path, problem: ValidationError) -> str:
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
        text = f"{key}: {text[0].lower()}{text[1:]}, not {first['input']!r}"
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{path}, line {_line(path, where)}: {key if key not in text else 'here'}: {text}{more}"


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
    return f"{config.name}, line {_line(path, ['tests', number, 'expected'])}"


def _line(path: Path, where: Sequence[Any]) -> int:
    """The line of a key, found again in the file; that of what holds it where the key is not there."""
    from ruamel.yaml import YAML

    node: Any = YAML(pure=True).compose(path.read_text(encoding="utf-8"))
    line = 1
    for part in where:
        kind: Literal["map", "list", ""] = ""
        if node is not None and node.id == "mapping":
            kind = "map"
        elif node is not None and node.id == "sequence":
            kind = "list"
        if kind == "map":
            found = next(((key, value) for key, value in node.value if key.value == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif kind == "list" and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
