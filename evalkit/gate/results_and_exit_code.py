"""The result of a gate and its exit code, as frozen dataclasses; every report is written from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from evalkit.gate.judgment import Judgment, judges_of

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
