"""The exception tree: what an error knows besides its message."""

from __future__ import annotations

import copy
import pickle

import pytest

from evalkit.core.judges import Judge
from evalkit.engine.providers import check_ready
from evalkit.errors import JudgeError, counted

_FIELDS = ("judge", "reason", "variable", "advice", "fact")


@pytest.mark.parametrize("name", ["gpt", "a; b", "named budget; set it"])
def test_a_judge_error_knows_its_facts_and_keeps_them_in_pickles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    with pytest.raises(JudgeError) as raised:
        check_ready(Judge("openai", "m", name=name, base_url="http://127.0.0.1:9/v1", api_key_env="NOT_SET"))
    problem = raised.value
    assert (problem.judge, problem.variable, problem.reason) == (name, "NOT_SET", None)
    assert problem.fact == f"judge '{name}' needs an API key, but the environment variable NOT_SET is not set"
    assert str(problem) == (
        f"{problem.fact}; set it, name another variable as api_key_env of the judge, or work without a key (judge "
        "'fake:strict', or offline)"
    )
    for twin in (pickle.loads(pickle.dumps(problem)), copy.copy(problem)):
        assert str(twin) == str(problem)
        assert [getattr(twin, field) for field in _FIELDS] == [getattr(problem, field) for field in _FIELDS]


def test_a_judge_error_without_facts_is_its_message() -> None:
    problem = pickle.loads(pickle.dumps(JudgeError("no judge; at all")))
    assert (str(problem), problem.fact, problem.advice, problem.judge) == (
        "no judge; at all",
        "no judge; at all",
        "",
        None,
    )


def test_keys_are_removed_from_every_field(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwx0123456789"
    problem = JudgeError(f"refused {key}", advice=f"send another than {key}")
    assert key not in str(problem) + problem.fact + problem.advice
    assert problem.advice


def test_a_noun_has_its_number() -> None:
    assert [counted(n, "item") for n in (0, 1, 2)] == ["0 items", "1 item", "2 items"]
