"""Metrics: pure functions from a judgment, or an answer, to a status and the reason for it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, MissingExtraError, advise_extra, counted
from evalkit.gate.configs import Expected
from evalkit.gate.judgments import Judgment
from evalkit.gate.results import Measured, MetricResult, Status, worst
from evalkit.gate.traces import REDACTED

__all__ = ["check_answer", "compile_check", "measure", "over_repeats"]

_TINY = 1e-9


def measure(judgment: Judgment, min_score: float | None = None) -> tuple[Status, str]:
    """Status of one judgment, and the reason: the table of the gate's contract.

    Examples
    --------
    >>> measure(Judgment("r", "v1", passed=True, score=0.83, samples=(True, True, False), agreement=0.6667), 0.8)
    ('warn', 'score 0.83 ≥ 0.8, 2 of 3 samples passed; the samples differ')
    >>> measure(Judgment("r", "v1", passed=False, score=0.5, samples=(False,)))
    ('fail', 'passed is False, score 0.5, 0 of 1 sample passed')
    """
    if judgment.error is not None:
        return "error", judgment.error
    samples = judgment.samples
    yes, lost = samples.count(True), samples.count(None)
    seen = f"{yes} of {counted(len(samples), 'sample')} passed"
    reasons = ", ".join(f"{name} {count}" for name, count in sorted((judgment.reasons or {}).items()))
    gone = f"{lost} of {counted(len(samples), 'sample')} unscored" + (f" ({reasons})" if reasons else "")
    if judgment.score is None or lost == len(samples):
        return "error", f"could not be judged: {gone}" if lost else "could not be judged: under quorum, or tied"
    score = f"{judgment.score:.4g}"
    if min_score is not None and judgment.score < min_score - _TINY:
        return "fail", f"score {score} < {min_score:.4g}, {seen}" + (f"; {gone}" if lost else "")
    if min_score is None and judgment.passed is not True:
        why = "False" if judgment.passed is False else "open (a tie, or no majority)"
        return "fail", f"passed is {why}, score {score}, {seen}" + (f"; {gone}" if lost else "")
    reached = f"score {score}" + ("" if min_score is None else f" ≥ {min_score:.4g}") + f", {seen}"
    if lost:
        return "warn", f"{reached}; {gone}"
    return ("warn", f"{reached}; the samples differ") if len(set(samples)) > 1 else ("pass", reached)


def over_repeats(expected: Expected, measured: Sequence[Measured], sources: Any = None) -> MetricResult:
    """One expectation over the repeats of a test: ``flaky`` where they reach different verdicts."""
    status = worst([one.status for one in measured])
    first = next(one for one in measured if one.status == status)
    message = first.message
    verdicts = [(one.status == "fail", one.judgment and one.judgment.passed) for one in measured]
    if status != "error" and len(set(verdicts)) > 1:
        failed = sum(one.status == "fail" for one in measured)
        status = "flaky"
        message = f"{len(measured)} repeats reach different verdicts ({failed} fail): {message}"
    return MetricResult(expected.type, status, message, tuple(measured), expected.min_score, sources or {})


def compile_check(expected: Expected, folder: Path) -> Any:
    """What a deterministic check needs, made before anything is run; ConfigError for what is none."""
    if expected.type == "regex":
        try:
            return re.compile(str(expected.pattern))
        except re.error as problem:
            raise ConfigError(f"regex: {expected.pattern!r} is no regular expression ({problem})") from None
    if expected.type != "json_schema":
        return expected.value
    try:
        import jsonschema
    except ImportError:
        raise MissingExtraError(
            f"json_schema needs the package jsonschema: {advise_extra('gate')}, or use regex or must_contain"
        ) from None
    schema: Any = expected.schema_
    try:
        if expected.schema_file is not None:
            schema = json.loads((folder / expected.schema_file).read_text(encoding="utf-8"))
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
    except OSError as problem:
        said = (problem.strerror or str(problem)).lower()
        raise ConfigError(f"json_schema: {expected.schema_file} cannot be read: {said}") from None
    except (ValueError, jsonschema.SchemaError) as problem:
        said = getattr(problem, "message", str(problem))
        raise ConfigError(f"json_schema: this is no JSON Schema ({said})") from None
    return kind(schema)


def check_answer(expected: Expected, made: Any, answer: str, *, redact: bool = False) -> tuple[Status, str]:
    """Status of one deterministic check; with `redact`, the message quotes neither answer nor expectation.

    Examples
    --------
    >>> check_answer(Expected(type="must_contain", value="30 days"), ["30 days"], "for 30 days")
    ('pass', "contains '30 days'")
    """
    if redact:
        status, _ = check_answer(expected, made, answer)
        return status, f"{'holds' if status == 'pass' else 'does not hold'} for {REDACTED}"
    if expected.type == "must_contain":
        lost = [text for text in made if text not in answer]
        return ("fail", f"does not contain {_listed(lost)}") if lost else ("pass", f"contains {_listed(made)}")
    if expected.type == "regex":
        found = made.search(answer) is not None
        return ("pass" if found else "fail"), f"{'matches' if found else 'does not match'} {expected.pattern!r}"
    try:
        problem = next(iter(made.iter_errors(json.loads(answer))), None)
    except ValueError as fault:
        return "fail", f"is no JSON: {fault}"
    if problem is None:
        return "pass", "fits the schema"
    return "fail", f"does not fit the schema at {problem.json_path}: {problem.message[:200]}"


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(repr(text) for text in texts)
