"""YAML whose aliases stand for very many values, or for themselves, ends with an error; ordinary aliases are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import ConfigError, RubricError
from evalkit.gate.config import load_gate
from evalkit.rubrics.files import parse_yaml

FILE = Path("rubric.yaml")


def bomb(kind: str, levels: int, each: int) -> str:
    """Aliases of aliases: `each` to the power of `levels` values."""
    first = "a0: &a0 {k: v}"
    form = {"merge": "{{<<: [{}]}}", "list": "[{}]", "mapping": "{{x: [{}]}}", "merges": "{{<<: [{}], y: 1}}"}[kind]
    lines = [f"a{at}: &a{at} " + form.format(",".join(f"*a{at - 1}" for _ in range(each))) for at in range(1, levels)]
    return "\n".join([first, *lines])


@pytest.mark.parametrize("kind", ["merge", "merges", "list", "mapping"])
@pytest.mark.parametrize(("levels", "each"), [(13, 6), (40, 2), (8, 30), (600, 2)])
@pytest.mark.long
def test_a_bomb_is_refused(kind: str, levels: int, each: int) -> None:
    with pytest.raises(RubricError, match=r"rubric\.yaml"):
        parse_yaml(FILE, bomb(kind, levels, each))


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a\n  b: &b\n    c: [*a, *b]", "&a [*a, *a]"])
def test_an_alias_of_itself_is_refused(text: str) -> None:
    with pytest.raises(RubricError, match="stands for a value that contains it"):
        parse_yaml(FILE, text)


def test_ordinary_aliases_are_read() -> None:
    text = "base: &base {scale: [0, 1, 2], weight: 1}\n"
    text += "".join(f"c{at}: {{<<: *base, weight: {at}}}\n" for at in range(200))
    found = parse_yaml(FILE, text)
    assert [found[f"c{at}"] for at in (0, 199)] == [
        {"scale": [0, 1, 2], "weight": 0},
        {"scale": [0, 1, 2], "weight": 199},
    ]
    assert parse_yaml(FILE, "text: 'AT&T pays 5 * 3'\nlist: [&x 1, *x]") == {"text": "AT&T pays 5 * 3", "list": [1, 1]}
    assert parse_yaml(FILE, "\ufeffa: 1") == {"a": 1}


def test_a_gate_configuration_is_read_by_the_same_rule(tmp_path: Path) -> None:
    path = tmp_path / "eval.yaml"
    path.write_text(bomb("merge", 13, 6))
    with pytest.raises(ConfigError, match="more than 100,000 values"):
        load_gate(path)
