"""`verdict.check` without a session of pytest: what it returns, and how it fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evalkit.gate import Trace
from evalkit.gate.pytest_plugin import _TALLY, Verdict

RECORDED = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True, True]}
COUNTS = ("checks", "judgments", "live", "cost_usd", "n_unpriced")


def trace(**more: Any) -> Trace:
    return Trace(1, "t", "q", ("c",), "a", None, {"faithfulness": RECORDED | more})


def test_a_check_returns_its_judgment_or_fails_without_a_traceback() -> None:
    config = SimpleNamespace(getoption=lambda _: None, stash={_TALLY: dict.fromkeys(COUNTS, 0)})
    verdict = Verdict(config, "t")  # type: ignore[arg-type]
    asked = {"rubric_version": "v1", "samples": 2}
    assert verdict.check(trace(), "faithfulness", min_score=0.9, **asked).score == 1.0
    for given, bound, said in (
        (trace(score=0.5), 0.9, "fail: faithfulness: score 0.5 < 0.9"),
        ({"question": "q", "answer": "a", "context": "c"}, None, "error: faithfulness: no judgment by faithfulness@v1"),
        ({"question": "q"}, None, "error: faithfulness: the item has no answer, context, which"),
    ):
        with pytest.raises(pytest.fail.Exception) as failed:
            verdict.check(given, "faithfulness", min_score=bound, **asked)
        assert str(failed.value).startswith(said)
        assert failed.value.pytrace is False
    assert config.stash[_TALLY] == dict(zip(COUNTS, (4, 2, 0, 0.0, 0), strict=True))


@pytest.mark.parametrize(("paid", "left"), [(0.0, 0.5), (0.375, 0.125), (0.75, 0.0)])
def test_the_budget_is_of_all_checks_together(paid: float, left: float) -> None:
    given = {"--verdict-budget-usd": 0.5, "--verdict-strict": True}
    config = SimpleNamespace(getoption=given.get, stash={_TALLY: {"cost_usd": paid}})
    options = Verdict(config, "t")._options()  # type: ignore[arg-type]
    assert (options.budget_usd, options.strict, options.judge) == (left, True, None)
