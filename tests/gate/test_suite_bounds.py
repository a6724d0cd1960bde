"""Bounds on a suite and the comparison with a baseline, from results made by hand."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import ConfigError
from evalkit.gate.config import SuiteBound
from evalkit.gate.judge_drift import judge_changed
from evalkit.gate.judgment import Judgment
from evalkit.gate.results_and_exit_code import Measured, MetricResult, TestResult
from evalkit.gate.suite_bounds import _Verdict, compare_baseline, measure_suite, read_baseline


def result_of(name: str, passed: bool | None, score: float | None, content: str | None = None) -> TestResult:
    judgment = Judgment("r", "v1", passed=passed, score=score, samples=(passed,))
    measured = Measured("pass", "", judgment=judgment, input_hash=content)
    return TestResult(name, "pass", "", (MetricResult("r", "pass", "", (measured,)),))


def before(**verdicts: tuple[bool | None, float | None]) -> dict[tuple[str, str], _Verdict]:
    return {
        (name, "r"): _Verdict(passed=passed, score=score, rubric_version="v1")
        for name, (passed, score) in verdicts.items()
    }


def test_a_comparison_counts_what_both_runs_judged() -> None:
    old = before(a=(False, 0.0), b=(True, 1.0), c=(True, 1.0), d=(None, None), e=(True, 1.0))
    now = [result_of("a", True, 1.0), result_of("b", False, 0.5), result_of("c", True, 1.0), result_of("d", True, 1.0)]
    (made,) = compare_baseline(old, [*now, result_of("e", None, None), result_of("f", True, 1.0)])
    # a is fixed, b broke, c is as it was; d and e have no verdict on one side: (1 − .5 + 0) / 3
    assert made.status == "pass"
    assert made.message == (
        "not worse: 3 of 6 tests judged in both runs, 1 now pass, 1 now fail, mean difference 0.17; p 1.000 by "
        "verdicts, 1.000 by scores"
    )
    (nothing,) = compare_baseline({}, now)
    assert (nothing.status, nothing.message.partition(":")[0]) == ("error", "nothing to compare")
    assert "0 of 4 tests judged in both runs" in nothing.message


@pytest.mark.parametrize(
    ("old", "now", "status"),
    [
        ((True, 1.0), (False, 0.0), "fail"),
        ((False, 0.0), (True, 1.0), "pass"),
        ((True, 1.0), (True, 0.9), "fail"),  # by scores alone
        ((True, 1.0), (False, 1.0), "fail"),  # by verdicts alone
        ((True, 1.0), (True, 1.0), "pass"),
    ],
)
def test_only_what_is_worse_fails(old: Any, now: Any, status: str) -> None:
    names = [f"t{at}" for at in range(20)]
    (made,) = compare_baseline(before(**dict.fromkeys(names, old)), [result_of(name, *now) for name in names])
    assert made.status == status


@pytest.mark.parametrize("n_copies", [1, 6, 25])
def test_copies_of_one_test_are_one(n_copies: int) -> None:
    """However often one prompt with one answer is in the suite, it breaks once: mid-p of one change is ½."""
    names = [f"t{at}" for at in range(30)]
    old = {
        (name, "r"): _Verdict(passed=True, score=1.0, input_hash="copy" if at < n_copies else name)
        for at, name in enumerate(names)
    }
    now = [result_of(name, at >= n_copies, float(at >= n_copies)) for at, name in enumerate(names)]
    (made,) = compare_baseline(old, now)
    assert made.status == "pass"
    assert f"{n_copies} now fail" in made.message
    assert made.message.endswith("; p 0.500 by verdicts, 1.000 by scores")


def test_copies_with_one_reply_say_once_that_the_judge_changed() -> None:
    judgment = Judgment("r", "v1", passed=False, score=0.0, samples=(False,) * 3, verdict_key="k")
    metric = MetricResult("r", "pass", "", (Measured("pass", "", judgment=judgment),))
    old = {(f"t{at}", "r"): _Verdict(passed=True, score=1.0, verdict_key="k", samples=[True] * 3) for at in range(5)}
    (made,) = compare_baseline(old, [TestResult(f"t{at}", "pass", "", (metric,)) for at in range(5)])
    # of the 20 ways to deal three passes and three fails to both runs, 2 are as far apart
    assert "1 of 1 test with the same prompt and settings have other samples (p 0.100)" in made.message


@pytest.mark.parametrize("seed", range(40))
def test_a_test_counts_if_both_runs_judged_it_with_the_same_judges(seed: int) -> None:
    """Random runs: tests that only one has, tests without a verdict, other judges (one, or a jury in any order)."""
    draw = random.Random(seed)
    judges = [None, "a:x", ("a:x", "b:y"), ("b:y", "a:x"), "b:y"][: draw.randint(1, 5)]
    n, k = draw.randint(1, 30), [draw.choice([1, 3]) for _ in "bn"]
    share = draw.choice([0.0, 0.2, 0.6])
    old: dict[tuple[str, str], _Verdict] = {}
    now: list[TestResult] = []
    truth = Counter[str]()
    for at in range(n):
        there = [draw.random() >= share for _ in range(2)]
        known = [draw.random() > share / 2 for _ in range(2)]
        by = [draw.choice(judges) for _ in range(2)]
        if there[0]:
            read = list(by[0]) if isinstance(by[0], tuple) else by[0]
            verdict, samples = (True if known[0] else None), [True] * k[0]
            old[f"t{at}", "r"] = _Verdict(passed=verdict, score=None, samples=samples, judge=read)
        if there[1]:
            passed = True if known[1] else None
            judgment = Judgment("r", "v1", passed=passed, samples=(True,) * k[1], judge=by[1])
            metric = MetricResult("r", "pass", "", (Measured("pass", "", judgment=judgment),))
            now.append(TestResult(f"t{at}", "pass", "", (metric,)))
        same = by[0] == by[1] or (isinstance(by[0], tuple) and isinstance(by[1], tuple))
        truth["now"] += there[1]
        truth["both"] += all(there)
        truth["gone"] += there == [True, False]
        truth["compared"] += all(there + known) and same
        truth["other"] += all(there + known) and not same
    if not old and not now:
        return
    (made,) = compare_baseline(old, now)
    said = made.message
    assert f"{truth['compared']} of {truth['now']} test{'s' * (truth['now'] != 1)} judged in both runs" in said
    gone = re.search(r"(\d+) tests? only in the baseline", said)
    assert (int(gone[1]) if gone else 0) == truth["gone"]
    assert sum(map(int, re.findall(r"left out: (\d+) tests? judged by", said))) == truth["other"]
    assert (f"{k[0]} sample{'s' * (k[0] > 1)} in the baseline, {k[1]} now" in said) == bool(
        truth["compared"] and k[0] != k[1]
    )
    enough = "pass" if 2 * truth["compared"] > truth["both"] else "error"
    assert made.status == (enough if now else "warn")


def test_a_judge_that_was_changed_does_not_hide_that_all_answers_broke() -> None:
    names = [f"t{at}" for at in range(30)]
    old = {
        (name, "r"): _Verdict(passed=True, score=1.0, rubric_version="v1", judge="openai:ok", samples=[True] * 3)
        for name in names
    }
    judgment = Judgment("r", "v1", passed=True, score=1.0, samples=(True,), judge="openai:lenient")
    measured = Measured("pass", "", judgment=judgment)
    now = [TestResult(name, "pass", "", (MetricResult("r", "pass", "", (measured,)),)) for name in names]
    (made,) = compare_baseline(old, now)
    assert made.status == "error"
    assert made.message.startswith("nothing to compare: 0 of 30 tests judged in both runs")
    assert "left out: 30 tests judged by openai:ok in the baseline, by openai:lenient now" in made.message


def test_other_samples_under_the_same_key_are_told() -> None:
    def judged(name: str, key: str | None, *samples: bool) -> TestResult:
        judgment = Judgment("r", "v1", passed=True, score=1.0, samples=samples, verdict_key=key)
        return TestResult(
            name, "pass", "", (MetricResult("r", "pass", "", (Measured("pass", "", judgment=judgment),)),)
        )

    old = {
        (name, "r"): _Verdict(passed=True, score=1.0, rubric_version="v1", verdict_key=key, samples=[True, True])
        for name, key in (("a", "k1"), ("b", "k2"), ("c", "k3"), ("d", None))
    }
    same = [judged("a", "k1", True, True), judged("b", "k2", True, True), judged("c", "other", True, False)]
    assert "prompt and settings" not in next(compare_baseline(old, [*same, judged("d", None, True, False)])).message
    other = [judged("a", "k1", True, False), judged("b", "k2", True, True), judged("c", "other", True, False)]
    said = "1 of 2 tests with the same prompt and settings have other samples"
    assert said in next(compare_baseline(old, other)).message


def test_a_baseline_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none.json cannot be read \(no such file or directory\); write one with"):
        read_baseline(tmp_path / "none.json")
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"other.json is not a result file of the gate"):
        read_baseline(tmp_path / "other.json")


def test_what_has_scores_or_verdicts_alone_is_compared() -> None:
    for verdict in ((None, 0.5), (True, None)):
        (made,) = compare_baseline(before(a=verdict), [result_of("a", *verdict)])
        assert (made.status, made.message[:10]) == ("pass", "not worse:")


def test_other_samples_are_weighed_against_chance() -> None:
    def said(old: list[bool | None], now: list[bool | None], n: int = 1) -> str:
        return judge_changed([(old, now)] * n)

    assert said([True, False], [True, False]) == ""
    # of the 20 ways to deal three passes and three fails to both runs, 2 are as far apart
    assert said([True] * 3, [False] * 3).endswith("have other samples (p 0.100)")
    assert said([True] * 3, [False] * 3, 5).endswith("have other samples (p <0.001): the judge itself changed")
    assert said([False, True], [True, False]).endswith("have other samples (p 1.000)")
    assert said([True], [False]).endswith("(one sample each, so the part of chance is unknown)")


def test_what_is_partly_better_passes() -> None:
    names = [f"t{at}" for at in range(20)]
    old = before(**dict.fromkeys(names, (False, 0.2)))
    (made,) = compare_baseline(
        old, [result_of(name, at < 15, 0.5 if at < 15 else 0.2) for at, name in enumerate(names)]
    )
    assert (made.status, made.message.partition(",")[0]) == ("pass", "not worse: 20 of 20 tests judged in both runs")
    assert "15 now pass, 0 now fail" in made.message
    assert made.message.endswith("; p <0.001 by verdicts, <0.001 by scores")


def test_a_bound_needs_twenty_tests_of_different_content() -> None:
    bounds = [SuiteBound(type="r", min_score_lower_bound=0.5), SuiteBound(type="r", min_coverage=1.0)]

    def statuses(tests: list[TestResult]) -> list[str]:
        return [one.status for one in measure_suite(bounds, tests)]

    assert statuses([result_of(f"t{at}", True, 1.0, f"c{at}") for at in range(19)]) == ["error", "error"]
    assert statuses([result_of(f"t{at}", True, 1.0, f"c{at}") for at in range(20)]) == ["pass", "pass"]
    assert statuses([result_of(f"t{at}", True, 1.0, f"c{at % 19}") for at in range(38)]) == ["error", "pass"]
    assert statuses([result_of(f"t{at}", False, 0.0) for at in range(20)]) == ["fail", "pass"]
