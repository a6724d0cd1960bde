"""Runs the JSON cases under ``test_cases/``: a metric class, its parameters, what goes in, what is to come out."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evalkit.lighteval.pollux.prompts_and_replies import make_pollux_feedback_parser, make_pollux_score_parser
from evalkit.lighteval.pollux.scores import pollux_corpus

FOLDER = Path(__file__).parent / "test_cases"

SKIPPED = {
    "pollux_llm_judge_custom": "its score is what a judge replies; test_pollux_judge.py gives it one, on loopback"
}


def _plain(value: Any) -> Any:
    """A value as JSON has it: None for NaN."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def _corpus(case: Mapping[str, Any]) -> Any:
    missing = {"pollux_score": math.nan}
    samples = [sample | (missing if sample["pollux_score"] is None else {}) for sample in case["samples"]]
    return pollux_corpus(samples, **case["metric_params"])


KNOWN: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "pollux_corpus": _corpus,
    "pollux_feedback_parser": lambda case: make_pollux_feedback_parser(**case["metric_params"])(case["reply"]),
    "pollux_score_parser": lambda case: make_pollux_score_parser(**case["metric_params"])(case["reply"]),
}


def cases_in(folder: Path) -> list[Any]:
    """All cases of a folder's files, as pytest parameters."""
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}
    return [
        pytest.param(case, id=f"{stem}-{number}")
        for stem, suite in files.items()
        for number, case in enumerate(suite["test_cases"])
    ]


def check(case: Mapping[str, Any]) -> None:
    """Run one case; a class that nobody knows is an error."""
    name = case["metric_class"]
    if name in SKIPPED:
        pytest.skip(f"{name}: {SKIPPED[name]}")
    if name not in KNOWN:
        raise LookupError(f"case {case['name']!r}: unknown metric_class {name!r}; known are {', '.join(KNOWN)}")
    found, expected = _plain(KNOWN[name](case)), case["expected_output"]
    if isinstance(expected, dict):
        assert found == pytest.approx(expected, abs=case.get("tolerance", 0.0), rel=0)
    else:
        assert found == expected


@pytest.mark.parametrize("case", cases_in(FOLDER))
def test_case(case: Mapping[str, Any]) -> None:
    check(case)


def test_most_cases_run_and_the_placeholder_is_the_one_that_does_not() -> None:
    classes = [parameter.values[0]["metric_class"] for parameter in cases_in(FOLDER)]
    assert [name for name in classes if name in SKIPPED] == ["pollux_llm_judge_custom"]
    assert set(KNOWN) <= set(classes)


def test_a_wrong_expectation_fails_and_an_unknown_class_is_an_error(tmp_path: Path) -> None:
    case = {"name": "x", "metric_class": "pollux_score_parser", "metric_params": {}, "reply": "1"}
    (tmp_path / "x.json").write_text(json.dumps({"test_cases": [{**case, "expected_output": 2.0}]}), encoding="utf-8")
    [parameter] = cases_in(tmp_path)
    with pytest.raises(AssertionError):
        check(parameter.values[0])
    with pytest.raises(LookupError, match="known are pollux_corpus"):
        check({**case, "metric_class": "bleu"})
    with pytest.raises(pytest.skip.Exception, match="on loopback"):
        check({**case, "metric_class": "pollux_llm_judge_custom"})
