"""Judge metrics: pure functions from a judgment to a status and its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evalkit.errors import counted
from evalkit.gate.config import Expected
from evalkit.gate.judgment import Judgment, Rationale
from evalkit.gate.precedence import Resolved
from evalkit.gate.results_and_exit_code import Measured, MetricResult, Status, worst

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
