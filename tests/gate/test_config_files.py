"""The lines of a configuration that messages name."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from evalkit.core.judge_settings import JUDGE_SETTINGS
from evalkit.errors import ConfigError
from evalkit.gate.config import (
    Expected,
    GateConfig,
    GateTest,
    Settings,
    SuiteBound,
    TestInput,
    _line_of,
    load_gate,
    place_of,
)

YAML = """\
tests:
  - id: first
    request_id: r1
    expected: {type: regex, pattern: "a"}
  - id: second
    request_id: r2
    expected:
      - {type: regex, pattern: "b"}
"""


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (["tests"], 1),
        (["tests", 1], 5),
        (["tests", 1, "expected"], 7),
        (["tests", 1, "expected", 0], 8),
        # what is missing: the line of its parent, whatever is below it
        (["tests", 1, "id", "request_id"], 5),
        (["tests", 1, "missing", "expected"], 5),
        (["tests", 1, "id", 0], 5),
        (["tests", 2, "id"], 1),
        (["tests", 9, "id"], 1),
        (["missing", "tests"], 1),
    ],
)
def test_the_line_of_a_key(tmp_path: Path, where: list[str | int], line: int) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(YAML)
    assert _line_of(path, where) == line


def test_an_empty_file_has_one_line(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text("")
    assert _line_of(path, ["tests"]) == 1


def test_a_single_value_is_a_list_of_one(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text("tests:\n  id: a\n  expected:\n    regex: x\n")
    assert _line_of(path, ["tests", 0, "expected", "regex"]) == 4


def test_a_test_is_named_by_its_line_or_by_what_is_known(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(YAML)
    config = load_gate(path)
    assert place_of(config, "second") == "eval.yaml, line 7"
    path.unlink()
    assert place_of(config, "second") == "eval.yaml"
    made = GateConfig(tests=[{"id": "a", "request_id": "r", "expected": {"type": "regex", "pattern": "a"}}])
    assert made.settings.timeout_seconds == 60
    assert place_of(made, "a") == "the configuration"


def keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items() if not field.exclude]


def test_a_key_that_is_null_is_an_error_unless_it_is_a_setting(tmp_path: Path) -> None:
    """An unset variable of a template must not drop a bound, a baseline or a profile in silence."""
    path, n = tmp_path / "eval.json", 0
    for model, place in (
        (GateConfig, []), (GateTest, ["tests", 0]), (TestInput, ["tests", 0, "input"]),
        (Expected, ["tests", 0, "expected", 0]), (SuiteBound, ["suite", 0]), (Settings, ["settings"]),
    ):  # fmt: skip
        for key in keys(model):
            values: Any = {"settings": {"samples": 1}, "suite": [{"min_coverage": 0.5}], "tests": [
                {"id": "t", "input": {"prompt": "q"}, "expected": [{"type": "faithfulness", "min_score": 0.5}]}
            ]}  # fmt: skip
            parent = values
            for part in place:
                parent = parent[part]
            parent[key] = None
            path.write_text(json.dumps(values, indent=1))
            n += 1
            if key in (*JUDGE_SETTINGS, "rubric_version"):
                load_gate(path)
                continue
            with pytest.raises(ConfigError, match=rf"line \d+: .*\b{key}: must not be null: give it a value, or leave"):
                load_gate(path)
    assert n > 40
    tests = [{"id": "t", "expected": {"type": "faithfulness"}}]
    assert GateConfig(tests=tests, baseline=None, profile=None).baseline is None, "in Python, None is not given"


def test_errors_quote_values_unless_they_are_redacted(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text("tests:\n  - id: a\n    expected: {type: faithfulness, min_score: secret}\n")
    for options, quoted in (({}, True), ({"redact": True}, False)):
        with pytest.raises(ConfigError, match="line 3") as refused:
            load_gate(path, **options)
        assert ("secret" in str(refused.value)) is quoted


def test_a_misspelt_bound_of_a_suite_names_the_bound_meant(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text("tests:\n  - {id: a, expected: {type: faithfulness}}\nsuite:\n  - min_covrage: 0.9\n")
    with pytest.raises(
        ConfigError, match=r"line 4: unknown key 'suite\[0\]\.min_covrage'; did you mean 'min_coverage'"
    ):
        load_gate(path)
