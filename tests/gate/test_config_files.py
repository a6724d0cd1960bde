"""The lines of a configuration that messages name."""

from pathlib import Path

import pytest

from evalkit.errors import ConfigError
from evalkit.gate.config import GateConfig
from evalkit.gate.config_files import _line_of, load_gate, place_of

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


def test_errors_quote_values_unless_they_are_redacted(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text("tests:\n  - id: a\n    expected: {type: faithfulness, min_score: secret}\n")
    for options, quoted in (({}, True), ({"redact": True}, False)):
        with pytest.raises(ConfigError, match="line 3") as refused:
            load_gate(path, **options)
        assert ("secret" in str(refused.value)) is quoted
