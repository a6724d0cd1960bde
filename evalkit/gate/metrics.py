"""Metrics: pure functions from a judgment, or an answer, to a status and its reason."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalkit.core.strict_json import read_json
from evalkit.errors import ConfigError, MissingExtraError, advise_extra, counted
from evalkit.gate.computing_time import TooSlowError, limited
from evalkit.gate.config import Expected
from evalkit.gate.judgment import Judgment
from evalkit.gate.results_and_exit_code import Measured, MetricResult, Status, worst
from evalkit.gate.schema_trials import accepts_all, takes_any_kind, unknown_words
from evalkit.gate.traces import REDACTED
from evalkit.tables.items import canonical_text

_TINY = 1e-9
_SECONDS = 5.0  # of computing, for one check of one answer


def measure(judgment: Judgment, min_score: float | None = None) -> tuple[Status, str]:
    """Status of one judgment, and the reason (the table in docs/gate.md).

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
    n_passed, n_unscored = samples.count(True), samples.count(None)
    passed = f"{n_passed} of {counted(len(samples), 'sample')} passed"
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


def over_repeats(expected: Expected, measured: Sequence[Measured], sources: Any = None) -> MetricResult:
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
    return MetricResult(expected.type, status, message, tuple(measured), expected.min_score, sources or {})


def compile_check(expected: Expected, folder: Path) -> Any:
    """The compiled pattern, schema or strings of a check without a judge.

    Raises
    ------
    ConfigError
        For an invalid schema. `check_answer` takes the error instead of a compiled check, so that only the tests
        with that schema are errors.
    MissingExtraError
        If the package jsonschema is missing.
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
            schema = read_json((folder / expected.schema_file).read_text(encoding="utf-8-sig"))
        schema = read_json(json.dumps(schema))  # YAML allows more than JSON: NaN, dates, keys that are not text
        if not isinstance(schema, dict):
            raise TypeError(f"expected a mapping, got a {type(schema).__name__}")
        plain = None if "$schema" in schema else jsonschema.Draft202012Validator
        kind = jsonschema.validators.validator_for(schema, default=plain)
        if kind is None:
            raise ValueError(f"unknown $schema {schema['$schema']!r}; name a draft of JSON Schema, or omit it")
        kind.check_schema(schema)
        # with this registry a $ref is not fetched from the network
        made = kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
        if accepts_all(schema, made.is_valid):
            words = unknown_words(schema, keywords_of(kind))
            unknown = f"; it does not know {', '.join(words)}" if words else ""
            raise ValueError(f"this JSON schema accepts every answer; use at least {{type: object}}{unknown}")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ConfigError(f"{expected.schema_file} cannot be read: {reason}") from None
    except (ValueError, TypeError, jsonschema.SchemaError, RecursionError) as problem:
        raise ConfigError(f"invalid JSON Schema: {getattr(problem, 'message', str(problem))}") from None
    return made


def keywords_of(validator: Any) -> frozenset[str]:
    """The keywords of the draft that a compiled schema, or its class, follows."""
    return frozenset({*validator.VALIDATORS, "$ref"})


def notes_on(compiled: Any, *, redact: bool = False) -> list[str]:
    """What a compiled check lets through that its author may not expect; with `redact`, its words are not quoted."""
    if not hasattr(compiled, "iter_errors"):
        return []
    words = unknown_words(compiled.schema, keywords_of(compiled))
    shown = REDACTED if redact else ", ".join(words)
    notes = [f"the JSON schema has words that are ignored: {shown}"] if words else []
    if takes_any_kind(compiled.schema, compiled.is_valid):
        notes.append("the JSON schema has no type, so an answer of any other kind fits, such as 42; add type: object")
    return notes


def check_answer(expected: Expected, compiled: Any, answer: str, *, redact: bool = False) -> tuple[Status, str]:
    """Status of one deterministic check; with `redact`, the message quotes neither answer nor expectation.

    A check that cannot be decided (an unresolved ``$ref``, an answer nested too deeply, a pattern that takes too long)
    is an ``error``. No file and no URL is read.

    Examples
    --------
    >>> check_answer(Expected(type="must_contain", value="30 days"), ["30 days"], "for 30 days")
    ('pass', "contains '30 days'")
    """
    if isinstance(compiled, ConfigError):
        return "error", str(compiled)
    if redact:
        status, _ = check_answer(expected, compiled, answer)
        words = {"pass": "the check passes", "fail": "the check fails"}
        return status, f"{words.get(status, 'the check cannot be decided')} for {REDACTED}"
    if expected.type == "must_contain":
        missing = [text for text in compiled if text not in answer]
        texts = ", ".join(map(repr, missing or compiled))
        return ("fail", f"does not contain {texts}") if missing else ("pass", f"contains {texts}")
    try:
        with limited(_SECONDS):
            if expected.type == "regex":
                found = compiled.search(answer) is not None
                return ("pass" if found else "fail"), f"{'matches' if found else 'does not match'} {expected.pattern!r}"
            return _check_schema(compiled, answer)
    except TooSlowError:
        return "error", f"the check was stopped after {_SECONDS:g} s of computing; simplify the pattern or schema"


def _check_schema(validator: Any, answer: str) -> tuple[Status, str]:
    try:
        value = read_json(answer)
    except RecursionError:
        return "error", "the answer is nested too deeply to be read"
    except ValueError as problem:
        return "fail", f"invalid JSON: {problem}"
    try:
        error = next(iter(validator.iter_errors(value)), None)
        place = "" if error is None else f"{error.json_path}: {error.message[:200]}"
    except RecursionError:
        return "error", "the schema refers to itself endlessly, or the answer is nested too deeply"
    except Exception as problem:  # noqa: BLE001  # for an unresolved $ref the library raises anything
        return "error", f"the schema cannot be used ({str(problem).partition(chr(10))[0][:200]})"
    return ("pass", "fits the schema") if error is None else ("fail", f"does not fit the schema at {place}")
