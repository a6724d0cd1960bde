"""A long configuration is read by PyYAML's C parser where that is sure: it must say what ruamel says, or nothing."""

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from evalkit.errors import ConfigError
from evalkit.gate import config_text as sources
from evalkit.gate import load_gate
from evalkit.rubrics.yaml_files import dump_yaml

SLOW = YAML(typ="safe", pure=True)
FORM = """\
tests:
  - id: %s
    input:
      prompt: %s
      context: [%s]
    expected: {type: faithfulness, min_score: %s}
"""
# Where YAML 1.1 and 1.2 part, or a scalar is no plain one.
WORDS = [
    "on", "no", "Yes", "y", "null", "~", "true", "False", "010", "0o17", "0x1F", "1_000", "12:30", "1e3", ".5", "-0.0",
    "+1", ".inf", ".nan", "2024-01-01", "<<", "=", "!x", "!!str 5", "&a b", "*a", "|", ">-", "? a", "a: b", "a:b",
    '"q":r', '"q": r', "'it''s'", '"\\u00e9\\n"', "{a: 1, a: 2}", "{b: [c, d]}", "# c", "a # c", "a#c", "@x", "`x",
    "%x", "- a", "--- a", "x\\y", "é", "\u2028", "\x85", "", " ",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _short_texts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("yaml")
    monkeypatch.setattr(sources, "_LONG", 0)


def _slow(text: str) -> Any:
    try:
        return SLOW.load(text)
    except (YAMLError, ValueError):
        return "a fault"


def same(text: str) -> bool:
    """Whether the C parser was sure; if it was, it says what ruamel says."""
    quick = sources._quickly(text)
    if quick is not None:
        assert repr(quick) == repr(_slow(text)), text
    return quick is not None


@pytest.mark.parametrize("word", WORDS, ids=[f"word{at}" for at in range(len(WORDS))])
def test_doubtful_words_mean_the_same(word: str) -> None:
    for where in range(4):
        given_ = ["a", "b", "c", "0.5"]
        given_[where] = word
        same(FORM % tuple(given_))


def test_the_c_parser_is_sure_of_an_ordinary_file() -> None:
    assert same(FORM % ("on", '"How long? yes & no!"', "30 days, 'it''s'", "0.85"))
    assert same("tests:\n  - id: a\n    input:\n      prompt: |\n        two\n        lines\n    expected: {type: x}\n")


@settings(max_examples=200)
@given(st.lists(st.sampled_from([*WORDS, "\n", "  ", "[", "]", "{", "}", ",", ": ", "- ", '"', "'"]), max_size=12))
def test_any_mixture_means_the_same_or_is_left_to_ruamel(parts: list[str]) -> None:
    same(FORM % ("a", "".join(parts), "c", "1"))
    same("tests:\n  - " + "".join(parts) + "\n")


@settings(max_examples=50)
@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(), st.lists))
def test_what_evalkit_writes_is_read_back(value: Any) -> None:
    text = dump_yaml({"tests": [{"id": "a", "value": value}]})
    same(text)


def _block(n: int) -> str:
    rows = [f"  - id: t{at}\n    expected:\n      type: faithfulness\n      min_score: 0.85\n" for at in range(n)]
    return "tests:\n" + "".join(rows)


def test_with_and_without_pyyaml_a_configuration_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(_block(20).replace("id: t3", "id: on"), encoding="utf-8")
    assert sources._quickly(path.read_text(encoding="utf-8")) is not None
    first = load_gate(path)
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert sources._quickly(path.read_text(encoding="utf-8")) is None
    assert load_gate(path) == first
    assert first.tests[3].id == "on", "YAML 1.2: no boolean"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    expected:\n", "    id: again\n    expected:\n", "line 7: .*'id' stands twice"),
        ("id: t1\n", "id: [t1\n", "line "),
        ("0.85", "1.85", "line 9: tests.1.expected.0.min_score"),
    ],
    ids=["doubled", "syntax", "range"],
)
def test_faults_of_a_long_file_name_their_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "eval.yaml"
    head, tail = _block(1), _block(3).removeprefix("tests:\n")
    rest = tail.replace("t0", "t9")
    path.write_text(head + rest.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=said):
        load_gate(path)


def test_an_empty_file_and_one_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_bytes(b"")
    with pytest.raises(ConfigError, match="a configuration is a mapping with tests"):
        load_gate(path)
    path.write_bytes(b"tests: \xff\xfe")
    with pytest.raises(ConfigError, match=r"eval.yaml is no UTF-8 text"):
        load_gate(path)
