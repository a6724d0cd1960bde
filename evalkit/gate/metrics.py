"""Metrics: pure functions from a judgment, or an answer, to a status and the reason for it."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evalkit.errors import ConfigError, MissingExtraError, advise_extra, counted
from evalkit.gate.config import Expected
from evalkit.gate.judgments import Judgment
from evalkit.gate.results import Measured, MetricResult, Status, worst
from evalkit.gate.traces import REDACTED, read_json
from evalkit.tables.values import canonical_text

__all__ = ["check_answer", "compile_check", "measure", "over_repeats"]

_TINY = 1e-9
_SECONDS = 5.0  # of computing, for one check of one answer


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
    if not judgment.is_scored:
        return "error", f"could not be judged: {gone}; more than half must be scored"
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
    """One expectation over the repeats of a test: ``flaky`` where they reach different verdicts and few fail.

    Where more than half of them fail, the test has failed.
    """
    status = worst([one.status for one in measured])
    first = next(one for one in measured if one.status == status)
    message = first.message
    verdicts = [(one.status == "fail", one.judgment and one.judgment.passed) for one in measured]
    if status != "error" and len(set(verdicts)) > 1:
        failed = sum(one.status == "fail" for one in measured)
        status = "fail" if 2 * failed > len(measured) else "flaky"
        message = f"{len(measured)} repeats reach different verdicts ({failed} fail): {message}"
    return MetricResult(expected.type, status, message, tuple(measured), expected.min_score, sources or {})


def compile_check(expected: Expected, folder: Path) -> Any:
    """What a deterministic check needs, made before anything is run.

    Raises
    ------
    ConfigError
        For a schema that cannot be used. `check_answer` takes it in the place of what is made: then only the tests with
        that schema are errors.
    MissingExtraError
        Without the package jsonschema.
    """
    if expected.type == "regex":
        return re.compile(str(expected.pattern))
    if expected.type != "json_schema":
        return [canonical_text(text) for text in expected.value or ()]
    try:
        import jsonschema
        from referencing import Registry
    except ImportError:
        raise MissingExtraError(
            f"json_schema needs the package jsonschema: {advise_extra('gate')}, or use regex or must_contain"
        ) from None
    schema: Any = expected.schema_
    try:
        if expected.schema_file is not None:
            schema = read_json((folder / expected.schema_file).read_text(encoding="utf-8"))
        schema = read_json(json.dumps(schema))  # YAML has more than JSON: NaN, dates, keys that are no texts
        if not isinstance(schema, dict):
            raise TypeError(f"expected a mapping, got {type(schema).__name__}")
        plain = None if "$schema" in schema else jsonschema.Draft202012Validator
        kind = jsonschema.validators.validator_for(schema, default=plain)
        if kind is None:
            raise ValueError(f"unknown $schema {schema['$schema']!r}; name a draft, or leave it out")
        kind.check_schema(schema)
        idle = set() if {"then", "else"} & set(schema) else {"if"}
        checks = (name for name, value in schema.items() if value is not True and value not in ({}, []))
        if not any(name in kind.VALIDATORS and name not in idle for name in checks):
            raise ValueError("it demands nothing; say at least {type: object}")
    except OSError as problem:
        said = (problem.strerror or str(problem)).lower()
        raise ConfigError(f"{expected.schema_file} cannot be read: {said}") from None
    except (ValueError, TypeError, jsonschema.SchemaError, RecursionError) as problem:
        said = getattr(problem, "message", str(problem))
        raise ConfigError(f"this is no JSON Schema that can be used ({said})") from None
    # a registry of its own: jsonschema's default one fetches what a $ref names
    return kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)


def check_answer(expected: Expected, made: Any, answer: str, *, redact: bool = False) -> tuple[Status, str]:
    """Status of one deterministic check; with `redact`, the message quotes neither answer nor expectation.

    What cannot be decided (a ``$ref`` to nowhere, an answer nested too deeply, a pattern that takes for ever) is
    ``error``. Nothing is fetched.

    Examples
    --------
    >>> check_answer(Expected(type="must_contain", value="30 days"), ["30 days"], "for 30 days")
    ('pass', "contains '30 days'")
    """
    if isinstance(made, ConfigError):
        return "error", str(made)
    if redact:
        status, _ = check_answer(expected, made, answer)
        words = {"pass": "holds", "fail": "does not hold"}
        return status, f"{words.get(status, 'cannot be decided')} for {REDACTED}"
    if expected.type == "must_contain":
        lost = [text for text in made if text not in answer]
        return ("fail", f"does not contain {_listed(lost)}") if lost else ("pass", f"contains {_listed(made)}")
    try:
        with _limited(_SECONDS):
            if expected.type == "regex":
                found = made.search(answer) is not None
                return ("pass" if found else "fail"), f"{'matches' if found else 'does not match'} {expected.pattern!r}"
            return _check_schema(made, answer)
    except _TooSlowError:
        return "error", f"stopped after {_SECONDS:g} s of computing; simplify what is expected"


def _check_schema(validator: Any, answer: str) -> tuple[Status, str]:
    try:
        value = read_json(answer)
    except RecursionError:
        return "error", "the answer is nested too deeply to be read"
    except ValueError as fault:
        return "fail", f"is no JSON: {fault}"
    try:
        problem = next(iter(validator.iter_errors(value)), None)
        said = "" if problem is None else f"{problem.json_path}: {problem.message[:200]}"
    except RecursionError:
        return "error", "the schema refers to itself without end, or the answer is nested too deeply"
    except Exception as fault:  # noqa: BLE001  # a $ref to nowhere or to no schema: the library raises what it likes
        return "error", f"the schema cannot be used ({str(fault).partition(chr(10))[0][:200]})"
    return ("pass", "fits the schema") if problem is None else ("fail", f"does not fit the schema at {said}")


class _TooSlowError(BaseException):
    """Raised by a timer; no `except Exception` on the way stops it."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `_TooSlowError` after so many seconds of computing; no limit off the main thread and on Windows."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL if before is None else before)


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(repr(text) for text in texts)
