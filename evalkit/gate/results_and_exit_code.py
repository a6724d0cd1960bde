"""The result of a gate, the status of a judgment and the exit code; every report is written from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from evalkit.errors import counted
from evalkit.gate.config import Expected
from evalkit.gate.judgment import Judgment, Rationale, judges_of
from evalkit.gate.precedence import Resolved

Status = Literal["error", "fail", "flaky", "warn", "pass"]
STATUSES: tuple[Status, ...] = ("error", "fail", "flaky", "warn", "pass")
"""Worst first."""


def worst(statuses: list[Status]) -> Status:
    """The worst of some statuses; ``pass`` if there are none.

    Examples
    --------
    >>> worst(["pass", "warn", "flaky"])
    'flaky'
    """
    return min(statuses, key=STATUSES.index, default="pass")


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric of one trace: status, reason, judgment (None for checks) and the hash of its input.

    Of a trace's own criteria also `points`: ``all`` and each axis -> figures of `evalkit.points`; and `explained`, what
    stands below its message.
    """

    status: Status
    message: str
    line: int = 0
    attempt: int | None = None
    judgment: Judgment | None = None
    input_hash: str | None = None
    points: Mapping[str, Mapping[str, float | int | None]] | None = None
    explained: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One expectation of a test over all its repeats, the source of each setting, and whether a profile judges."""

    type: str
    status: Status
    message: str
    measured: tuple[Measured, ...] = ()
    min_score: float | Mapping[str, float] | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
    of_profile: bool = False


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test: its worst status, and each metric."""

    __test__ = False

    id: str
    status: Status
    message: str
    metrics: tuple[MetricResult, ...] = ()
    prompt: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """One bound on the whole suite, or the comparison with the baseline."""

    name: str
    type: str
    status: Status
    message: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """The result of a gate.

    Attributes
    ----------
    name
        The configuration's file name.
    tests, suites
        Results in the order of the configuration; `suites` includes comparisons with the baseline.
    notes
        Remarks, for example on promoted replies or a budget that was reached.
    cost_usd
        US$ paid by this run; None if a price is unknown.
    strict
        Whether flaky and warned tests fail.
    judgments
        Line number of the trace file -> rubric id -> judgment that the trace did not contain.
    """

    name: str
    tests: tuple[TestResult, ...]
    suites: tuple[SuiteResult, ...] = ()
    notes: tuple[str, ...] = ()
    cost_usd: float | None = 0.0
    strict: bool = False
    judgments: Mapping[int, Mapping[str, Judgment]] = field(default_factory=dict)

    @property
    def counts(self) -> dict[Status, int]:
        """Status -> number of tests."""
        return {status: sum(test.status == status for test in self.tests) for status in STATUSES}

    @property
    def judges(self) -> dict[tuple[str, str], list[str]]:
        """Metric and its judges -> the tests that they judged."""
        judges: dict[tuple[str, str], dict[str, None]] = {}
        for test in self.tests:
            for metric in test.metrics:
                for judgment in (measured.judgment for measured in metric.measured):
                    if judgment is not None and judgment.source is not None:
                        judges.setdefault((metric.type, judges_of(judgment)), {})[test.id] = None
        return {key: list(ids) for key, ids in judges.items()}

    @property
    def reasons(self) -> set[str]:
        """Why samples are unscored, such as ``not_recorded``, ``cache_miss`` or ``budget``."""
        return {reason for one in self._judged for reason in one.reasons or {}}

    @property
    def has_judgments(self) -> bool:
        """Whether there is any judgment, new or recorded, with a score or with replies that have none."""
        return any(one.is_final for one in self._judged)

    @property
    def _judged(self) -> list[Judgment]:
        measured = [one for test in self.tests for metric in test.metrics for one in metric.measured]
        return [one.judgment for one in measured if one.judgment is not None]

    @property
    def exit_code(self) -> int:
        """2 if anything could not be judged, else 1 if anything failed (strict: did not pass), else 0."""
        there = {test.status for test in self.tests} | {suite.status for suite in self.suites}
        if "error" in there:
            return 2
        bad = {"fail", "flaky", "warn"} if self.strict else {"fail"}
        return 1 if there & bad else 0


_TINY = 1e-9


def measure(judgment: Judgment, min_score: float | Mapping[str, float] | None = None) -> tuple[Status, str]:
    """Status of one judgment, and the reason (the table in docs/gate.md).

    With a mapping from criterion to the lowest score of this criterion, only these criteria count: the status is the
    worst of theirs.

    Examples
    --------
    >>> measure(Judgment("r", "v1", passed=True, score=0.83, samples=(True, True, False), agreement=0.6667), 0.8)
    ('warn', 'score 0.83 ≥ 0.8, 2 of 3 samples passed; the samples differ')
    >>> measure(Judgment("r", "v1", passed=False, score=0.5, samples=(False,)))
    ('fail', 'passed is False, score 0.5, 0 of 1 sample passed')
    """
    if judgment.error is not None:
        return "error", judgment.error
    if isinstance(min_score, Mapping):
        outcomes = [(name, *measure(judgment.of(name), lowest)) for name, lowest in min_score.items()]
        status = worst([outcome[1] for outcome in outcomes])
        return status, "; ".join(f"{name}: {message}" for name, reached, message in outcomes if reached == status)
    samples = judgment.samples
    n_passed, n_unscored = samples.count(True), samples.count(None)
    passed = f"{n_passed} of {counted(len(samples), 'sample')} passed"
    if min_score is not None and judgment.passed is None and not n_passed:  # without a pass rule
        passed = f"{len(samples) - n_unscored} of {counted(len(samples), 'sample')} scored"
    reasons = ", ".join(f"{name} {count}" for name, count in sorted((judgment.reasons or {}).items()))
    unscored = f"{n_unscored} of {counted(len(samples), 'sample')} unscored" + (f" ({reasons})" if reasons else "")
    if judgment.score is None or n_unscored == len(samples):
        why = unscored if n_unscored else "the judges tie, or too few have a score"
        return "error", f"could not be judged: {why}"
    if not judgment.is_scored:
        return "error", f"could not be judged: {unscored}; more than half must be scored"
    score = f"{judgment.score:.4g}"
    if min_score is not None and judgment.score < min_score - _TINY:
        return "fail", f"score {score} < {min_score:.4g}, {passed}" + (f"; {unscored}" if n_unscored else "")
    if min_score is None and judgment.passed is not True:
        verdict = "False" if judgment.passed is False else "open (a tie, or no majority)"
        return "fail", f"passed is {verdict}, score {score}, {passed}" + (f"; {unscored}" if n_unscored else "")
    reached = f"score {score}" + ("" if min_score is None else f" ≥ {min_score:.4g}") + f", {passed}"
    if n_unscored:
        return "warn", f"{reached}; {unscored}"
    return ("warn", f"{reached}; the samples differ") if len(set(samples)) > 1 else ("pass", reached)


def explanations(measured: Measured, min_score: float | Mapping[str, float] | None = None) -> Iterator[str]:
    """What the judges wrote, each with criterion, judge and score: of the criteria that led to the status.

    Beside ``fail`` stand only explanations of scores that fail, beside ``pass``, ``warn`` and ``flaky`` only those of
    scores that pass; beside ``error``, which is no verdict, the lowest and the highest.
    """
    judgment = measured.judgment
    if judgment is None or measured.explained is not None:
        yield from measured.explained or ()
        return
    side = None if measured.status == "error" else measured.status != "fail"
    if not judgment.criteria:  # recorded by another tool
        if judgment.rationale and judgment.passed is side:
            names = [judgment.judge] if isinstance(judgment.judge, str) else judgment.judge or ["the judge"]
            yield f"{' and '.join(names)}: {judgment.rationale}"
        return
    for name, criterion in judgment.criteria.items():
        lowest = min_score.get(name) if isinstance(min_score, Mapping) else min_score
        if isinstance(min_score, Mapping) and lowest is None:
            continue
        if side is not None and _reaches(criterion.score, criterion.passed, lowest) is (not side):
            continue
        for rationale in criterion.rationales:
            if side is None or _reaches(rationale.score, rationale.passed, lowest) is side:
                yield f"{name}, {named(rationale)}: {rationale.text}"


def _reaches(score: float | None, passed: bool | None, lowest: float | None) -> bool | None:
    """Whether a score reaches the lowest that passes; without such a number, the verdict."""
    return passed if lowest is None else None if score is None else score >= lowest - _TINY


def named(rationale: Rationale) -> str:
    """Who wrote an explanation, and the score that it explains."""
    score = "" if rationale.score is None else f" ({rationale.score:.4g})"
    return f"{rationale.judge or 'the judge'}{score}"


def over_repeats(expected: Expected, measured: Sequence[Measured], resolved: Resolved | None = None) -> MetricResult:
    """The result of one expectation over the repeats of a test.

    If they reach different verdicts, it is ``flaky``, or ``fail`` if more than half of them fail.
    """
    status = worst([one.status for one in measured])
    message = next(one.message for one in measured if one.status == status)
    verdicts = [(one.status == "fail", one.judgment and one.judgment.passed) for one in measured]
    if status != "error" and len(set(verdicts)) > 1:
        failed = sum(one.status == "fail" for one in measured)
        status = "fail" if 2 * failed > len(measured) else "flaky"
        message = f"{len(measured)} repeats reach different verdicts ({failed} fail): {message}"
    settings = (resolved.sources, resolved.of_profile) if resolved is not None else ({}, False)
    return MetricResult(expected.type, status, message, tuple(measured), expected.min_score, *settings)
