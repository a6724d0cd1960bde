"""Bounds on a whole suite, tested by intervals, and the comparison with a baseline."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict

from evalkit.core.formatting import figure, p_value
from evalkit.errors import ConfigError, counted
from evalkit.gate.config import CRITERIA, SuiteBound
from evalkit.gate.judge_drift import judge_changed
from evalkit.gate.judgment import Judgment, judges_of
from evalkit.gate.results_and_exit_code import Status, SuiteResult, TestResult
from evalkit.stats.intervals import mean_interval, rate_interval
from evalkit.stats.significance import holm, mcnemar_midp, sign_flip
from evalkit.tables.grouping import Floats

FEWEST = 20
"""The fewest tests for a suite bound: with fewer, an interval is too wide to be useful."""
_LEVEL = 0.05
_FIELDS = {"min_score_lower_bound": "score", "min_pass_rate": "passed", "min_agreement": "agreement"}
_FIELDS["min_coverage"] = "is_scored"


def measure_suite(gates: Sequence[SuiteBound], tests: Sequence[TestResult]) -> Iterator[SuiteResult]:
    """Compare each bound with the lower end of the 95 % interval over tests (coverage: with the share itself).

    Tests of equal content count as one. With fewer than 20 tests, or fewer than 20 different ones with a value, the
    status is ``error``.
    """
    for gate in gates:
        bounds = gate.model_dump(exclude={"type"}, exclude_none=True)
        for type_ in _judged_types(tests) if gate.type is None else [gate.type]:
            judgments = list(_judgments(tests, type_))
            for name, bound in bounds.items():
                yield SuiteResult(name, type_, *_bound(name, bound, judgments, has_ends=type_ != CRITERIA))


def _judged_types(tests: Sequence[TestResult]) -> list[str]:
    metrics = [metric for test in tests for metric in test.metrics]
    judged = [one.type for one in metrics if any(measured.judgment is not None for measured in one.measured)]
    return list(dict.fromkeys(judged))


def _judgments(tests: Sequence[TestResult], type_: str) -> Iterator[tuple[str, Judgment]]:
    """The cluster and the first judgment of each test."""
    metrics = [(test, metric) for test in tests for metric in test.metrics if metric.type == type_]
    for test, metric in metrics:
        one = next((one for one in metric.measured if one.judgment is not None), None)
        if one is None or one.judgment is None:
            yield test.id, Judgment(type_, "", error=metric.message)
        else:
            yield one.input_hash or test.id, one.judgment


def _bound(name: str, bound: float, judgments: list[tuple[str, Judgment]], *, has_ends: bool) -> tuple[Status, str]:
    n, too_few = len(judgments), f"a suite bound needs at least {FEWEST}: add tests, or use min_score per test"
    if n < FEWEST:
        return "error", f"{counted(n, 'test')}; {too_few}"
    scored = [(unit, one) for unit, one in judgments if one.is_scored or name == "min_coverage"]
    known = [(unit, float(value)) for unit, one in scored if (value := getattr(one, _FIELDS[name])) is not None]
    if not known:
        return "error", f"none of {n} tests has a value (agreement needs two samples or more)"
    numbers = np.array([value for _, value in known])
    _, units = np.unique([unit for unit, _ in known], return_inverse=True)
    mean = float(numbers.mean())
    if name == "min_coverage":
        reached, shown = mean >= bound - 1e-9, figure(mean)
    elif (n_units := int(units.max()) + 1) < FEWEST:
        return "error", f"{n_units} of {counted(n, 'test')} differ in content and have a value; {too_few}"
    else:
        is_rate, ends_of_scale = name == "min_pass_rate", (0.0, 1.0) if has_ends else None
        ends = rate_interval(numbers, units) if is_rate else mean_interval(numbers, units, bounds=ends_of_scale)
        if ends.reason is not None:
            return "error", f"no interval of {name.removeprefix('min_')}: {ends.reason}"
        reached, shown = ends.low >= bound - 1e-9, figure(mean, ends.low, ends.high)
    word = "reaches" if reached else "is under"
    what = "the share" if name == "min_coverage" else "the lower end"
    return ("pass" if reached else "fail"), f"{shown} over {len(known)} of {n} tests; {what} {word} {bound:.4g}"


def read_baseline(path: Path) -> dict[tuple[str, str], _Verdict]:
    """A result file of an earlier run: (test id, metric) -> score, verdict, rubric version and judges.

    Raises
    ------
    ConfigError
        If it is not a result file.
    """
    try:
        result = orjson.loads(path.read_bytes())
        if (result["schema_version"], result["type"]) != (1, "verdict.result"):
            raise ValueError
        metrics = [(str(test["id"]), metric) for test in result["tests"] for metric in test["metrics"]]
        judged = [(test, metric["type"], metric["judgments"][0]) for test, metric in metrics if metric["judgments"]]
        verdicts = {(test, type_): _Verdict.model_validate(judgment) for test, type_, judgment in judged}
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ConfigError(f"baseline {path} cannot be read ({reason}); write one with evalkit ci --json") from None
    except (KeyError, TypeError, ValueError):
        raise ConfigError(
            f"baseline {path} is not a result file of the gate; write one with evalkit ci --json"
        ) from None
    if len(verdicts) < len(judged):
        raise ConfigError(
            f"baseline {path} has two results for one metric of a test; write it again with evalkit ci --json"
        )
    return verdicts


class _Verdict(BaseModel):
    """The part of a judgment in a result file that is compared."""

    model_config = ConfigDict(strict=True)

    passed: bool | None
    score: float | None
    rubric_version: str | None = None
    input_hash: str | None = None
    verdict_key: str | None = None
    samples: list[bool | None] = []
    judge: str | list[str] | None = None


def compare_baseline(before: Mapping[tuple[str, str], _Verdict], tests: Sequence[TestResult]) -> Iterator[SuiteResult]:
    """Whether a metric is significantly worse (Holm-adjusted p ≤ .05), tested as `compare` does without labels.

    Tests of equal content in the baseline are one cluster. A test counts if both runs judged it, with the same judges;
    it is an error if that is half of the tests in both runs or fewer. A metric of the baseline alone is a warning.
    """
    types = list(dict.fromkeys([*_judged_types(tests), *(type_ for _, type_ in before)]))
    figures = [_change(before, tests, type_) for type_ in types]
    verdicts = holm(np.array([one[0] for one in figures], dtype=np.float64))
    falls = holm(np.array([one[1] for one in figures], dtype=np.float64))
    for type_, (_, _, effect, gap, is_enough, text), p_verdict, p_fall in zip(
        types, figures, verdicts, falls, strict=True
    ):
        worse = (effect < 0 and p_verdict <= _LEVEL) or (gap < 0 and p_fall <= _LEVEL)
        p = f"p {p_value(p_verdict)} by verdicts, {p_value(p_fall)} by scores"
        status: Status = "error" if not is_enough else "fail" if worse else "pass"
        outcome = "significantly worse" if worse else "not worse"
        if status == "error":
            outcome = "nothing to compare" if math.isnan(effect) and math.isnan(gap) else "too little to compare"
        if not any(metric.type == type_ for test in tests for metric in test.metrics):
            status, outcome = "warn", "only in the baseline"
        yield SuiteResult("baseline", type_, status, f"{outcome}: {text}; {p}")


def _change(
    before: Mapping[tuple[str, str], _Verdict], tests: Sequence[TestResult], type_: str
) -> tuple[float, float, float, float, bool, str]:
    """The p-values of verdicts and scores, the change of pass rate and mean score, if that is enough, all in words."""
    ids = [test.id for test in tests for metric in test.metrics if metric.type == type_]
    in_both = [
        (old.input_hash or name, old, now)
        for name, (_, now) in zip(ids, _judgments(tests, type_), strict=True)
        if (old := before.get((name, type_))) is not None
    ]
    judged = [pair for pair in in_both if all((side.passed, side.score) != (None, None) for side in pair[1:])]
    changes_of_judge = Counter((judges_of(old), judges_of(now)) for _, old, now in judged)
    pairs = [pair for pair in judged if judges_of(pair[1]) == judges_of(pair[2])]
    verdicts = [(unit, old.passed, now.passed) for unit, old, now in pairs]
    scored = [(unit, old.score, now.score) for unit, old, now in pairs]
    steps, step_units = _changes(verdicts)
    gaps, gap_units = _changes(scored)
    fixed, broke = int((steps > 0).sum()), int((steps < 0).sum())
    effect, gap = (float(changes.mean()) if len(changes) else math.nan for changes in (steps, gaps))
    versions = {(old.rubric_version, now.rubric_version) for _, old, now in pairs if now.rubric_version}
    others = ", ".join(
        f"{type_}@{old} in the baseline, @{now} now" for old, now in sorted(versions, key=str) if old != now
    )
    same = {  # copies that share their replies are one
        (old.verdict_key, *old.samples, *now.samples): (old.samples, list(now.samples))
        for _, old, now in pairs
        if old.verdict_key is not None and old.verdict_key == now.verdict_key
    }
    judge = judge_changed(same.values())
    k = {(len(old.samples), len(now.samples)) for _, old, now in pairs if old.samples and type_ != CRITERIA}
    remarks = [f"{counted(a, 'sample')} in the baseline, {b} now" for a, b in sorted(k) if a != b]
    remarks += [
        f"left out: {counted(n, 'test')} judged by {a} in the baseline, by {b} now"
        for (a, b), n in changes_of_judge.items() if a != b
    ]  # fmt: skip
    n_gone = len({name for name, metric in before if metric == type_} - {*ids})
    remarks += [f"{counted(n_gone, 'test')} only in the baseline"] if n_gone else []
    text = (
        f"{len(pairs)} of {counted(len(ids), 'test')} judged in both runs, {fixed} now pass, {broke} now fail, "
        f"mean difference {figure(gap)}" + (f", {others}" if others else "")
    )
    text = "; ".join([text, *remarks, *([judge] if judge else [])])
    p_verdict = mcnemar_midp(steps, step_units) if len(steps) else math.nan
    p_fall = sign_flip(gaps, gap_units) if len(gaps) else math.nan
    return p_verdict, p_fall, effect, gap, 2 * len(pairs) > len(in_both), text


def _changes(pairs: Iterable[tuple[str, float | None, float | None]]) -> tuple[Floats, list[str]]:
    """The differences where both runs have a value, and their clusters."""
    changes = [(b - a, unit) for unit, a, b in pairs if a is not None and b is not None]
    return np.array([change for change, _ in changes], dtype=np.float64), [unit for _, unit in changes]
