"""`run_gate`: traces in, statuses out. The runner finds judgments; metrics only read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evalkit.engine import Spec, Worklist
from evalkit.engine.cache import ReplyStore
from evalkit.errors import ConfigError, counted
from evalkit.gate.config import CHECKS, GateConfig, load_gate, place_of
from evalkit.gate.judging import check_callable, input_hashes, judged, keys_of, work_of
from evalkit.gate.judgments import Judgment, difference, read_recorded, unjudged
from evalkit.gate.matching import Match, match
from evalkit.gate.metrics import check_answer, compile_check, measure, over_repeats
from evalkit.gate.precedence import Asked, GateOptions, Resolver
from evalkit.gate.results import GateResult, Measured, MetricResult, TestResult, worst
from evalkit.gate.suites import compare_baseline, measure_suite, read_baseline
from evalkit.gate.traces import REDACTED, Trace, read_traces

__all__ = ["run_gate"]

_NOTHING = "no judgment of {} is recorded in the trace (line {}), and no judge is named, so the cache cannot be read"

_PLAIN = GateOptions()


@dataclass(slots=True)
class _Need:
    """One trace to be judged by one rubric, and what was found so far."""

    asked: Asked
    trace: Trace
    recorded: Judgment | None = None
    unfit: str = ""
    found: Judgment | None = None
    input_hash: str | None = None


def run_gate(
    config: GateConfig | str | Path,
    traces: str | Path | Iterable[Trace],
    options: GateOptions = _PLAIN,
    *,
    environment: Mapping[str, str] | None = None,
) -> GateResult:
    """Judge the traces of all tests and say which pass.

    A judgment comes from the trace where one of that version, number of samples and key is recorded, else from
    the cache, else, where a judge may be asked, live.

    Parameters
    ----------
    config
        A configuration, or the path of one.
    traces
        The path of a trace file, or traces.
    options
        What the flags say.
    environment
        Where ``VERDICT_JUDGE…`` are looked up; the process's own by default.

    Returns
    -------
    GateResult
        Status and reason of each test, metric and suite bound; its `exit_code` is that of ``evalkit ci``.

    Raises
    ------
    ConfigError, InputError, RubricError
        Before anything is paid: a fault in configuration, variables or trace file; no key where one is needed.
    CacheError
        When replies cannot be stored.

    Examples
    --------
    >>> from evalkit.gate import GateConfig, Trace, run_gate
    >>> config = GateConfig(tests=[{"id": "t", "expected": {"type": "must_contain", "value": "30 days"}}])
    >>> result = run_gate(config, [Trace(1, "t", "How long?", None, "30 days")])
    >>> result.tests[0].status, result.exit_code
    ('pass', 0)
    """
    config = config if isinstance(config, GateConfig) else load_gate(config, redact=options.redact)
    baseline = None if config.baseline is None else read_baseline(config.folder / config.baseline)
    resolver = Resolver(config, options, environment)
    asked = [
        [None if expected.type in CHECKS else resolver.of(test.id, expected) for expected in test.expected]
        for test in config.tests
    ]
    made = _checks(config, redact=options.redact)
    name = str(traces) if isinstance(traces, (str, Path)) else "the list of traces"
    given = read_traces(traces, redact=options.redact) if isinstance(traces, (str, Path)) else traces
    matches = match(config.tests, given, name, redact=options.redact)
    needs = _needs(asked, matches)
    _replay(needs, name, options)
    cost, notes = _judge(needs, options)
    for group in _groups(needs.values()):
        for need, hashed in zip(group, input_hashes(group[0].asked, [one.trace for one in group]), strict=True):
            need.input_hash = hashed
    if options.redact:
        _hide_rationales(needs.values())
    tests = tuple(
        _test(config, at, asked[at], matches[at], needs, made, options.redact) for at in range(len(config.tests))
    )
    suites = measure_suite(config.suite, tests)
    suites += [] if baseline is None else compare_baseline(baseline, tests)
    found = _found(needs)
    return GateResult(config.name, tests, tuple(suites), tuple(notes), cost, options.strict, found)


def _checks(config: GateConfig, *, redact: bool) -> dict[tuple[str, int], Any]:
    """(test, expectation) -> what its check needs, or the ConfigError that says why it cannot be used."""
    made: dict[tuple[str, int], Any] = {}
    for test in config.tests:
        for at, expected in enumerate(test.expected):
            if expected.type in CHECKS:
                try:
                    made[test.id, at] = compile_check(expected, config.folder)
                except ConfigError as problem:
                    said = f"the schema cannot be used ({REDACTED})" if redact else str(problem)
                    made[test.id, at] = ConfigError(f"{place_of(config, test.id)}: {said}")
    return made


def _hide_rationales(needs: Iterable[_Need]) -> None:
    for need in needs:
        if need.found is not None and need.found.rationale is not None:
            need.found = replace(need.found, rationale=REDACTED)


def _needs(asked: list[list[Asked | None]], matches: list[Match]) -> dict[tuple[int, int, int], _Need]:
    """(test, expectation, trace) -> what is needed."""
    return {
        (test, at, number): _Need(one, trace)
        for test, (expectations, match_) in enumerate(zip(asked, matches, strict=True))
        for at, one in enumerate(expectations)
        if one is not None
        for number, trace in enumerate(match_.traces)
    }


def _replay(needs: Mapping[Any, _Need], name: str, options: GateOptions) -> None:
    """Take what the traces hold, where it is what is asked for."""
    for need in needs.values():
        rubric = need.asked.rubric
        raw = (need.trace.recorded or {}).get(rubric.id)
        if raw is None:
            continue
        where = f"{name}, line {need.trace.line}"
        found = read_recorded(raw, where, rubric, need.asked.rules, redact=options.redact)
        if options.refresh:
            continue
        if found.rubric_version != rubric.version:
            need.unfit = f"rubric_version: recorded at {found.rubric_version}, asked {rubric.version}"
        elif len(found.samples) != need.asked.n_samples:
            need.unfit = f"samples: recorded {len(found.samples)}, asked {need.asked.n_samples}"
        elif not found.is_final:
            need.unfit = "samples: recorded without a reply"
        else:
            need.recorded = found
    keyed = [need for need in needs.values() if need.recorded is not None and need.recorded.verdict_key]
    for need in keyed:
        if lost := _lacks(need):
            need.unfit, need.recorded = lost, None
    for group in _groups(need for need in keyed if need.recorded is not None):
        _refuse_others(group)
    for need in needs.values():
        need.found = need.recorded


def _refuse_others(group: list[_Need]) -> None:
    """Let go of recorded verdicts with another key; where no judge is named, of those of another input or rubric."""
    asked = group[0].asked
    spec = asked.spec or Spec.of(asked.rubric, "fake:strict", asked.samples)
    held = [() if need.recorded is None else need.recorded.keys or () for need in group]
    keys = keys_of(work_of(spec, [need.trace for need in group]), asked, held)
    for need, (_, key, parts) in zip(group, keys, strict=True):
        had = need.recorded
        assert had is not None
        if asked.spec is None:
            parts = {name: parts[name] for name in ("input_hash", "rubric_hash", "rules_hash")}
            is_same = parts.items() <= (had.parts or {}).items()
        else:
            is_same = had.verdict_key == key
        if not is_same:
            need.unfit, need.recorded = difference(had.parts, parts), None


def _groups(needs: Iterable[_Need]) -> list[list[_Need]]:
    groups: dict[Any, list[_Need]] = {}
    for need in needs:
        groups.setdefault(need.asked.group, []).append(need)
    return list(groups.values())


def _lacks(need: _Need) -> str | None:
    there = need.trace.item
    lost = [name for name in need.asked.rubric.required_inputs if name not in there]
    if not lost:
        return None
    return f"the trace (line {need.trace.line}) has no {', '.join(lost)}, which rubric {need.asked.rubric.id!r} needs"


def _judge(needs: Mapping[Any, _Need], options: GateOptions) -> tuple[float | None, list[str]]:
    """Cache, then live; what it cost, and notes."""
    open_ = [need for need in needs.values() if need.found is None]
    for need in open_:
        if lost := _lacks(need):
            need.found = unjudged(need.asked.rubric, lost)
        elif need.asked.spec is None:
            if need.asked.live:
                raise ConfigError(
                    "a live call is needed and the judge names no model: give --judge-model MODEL, "
                    "or VERDICT_JUDGE_MODEL, or a profile"
                )
            label = f"{need.asked.rubric.id}@{need.asked.rubric.version}"
            error = _with(need, _NOTHING.format(label, need.trace.line))
            need.found = replace(unjudged(need.asked.rubric, error), reasons={"not_recorded": 1})
    if options.refresh and any(not need.asked.live for need in needs.values()):
        raise ConfigError("--judge-refresh asks a judge again, and the judge is 'none'; name one with --judge")
    groups = [
        (group, work_of(_spec(group), [need.trace for need in group]))
        for group in _groups(need for need in open_ if need.found is None)
    ]
    for group, work in groups:
        check_callable(work, group[0].asked, options)
    cost: float | None = 0.0
    for group, work in groups:
        left = None if options.budget_usd is None else max(0.0, options.budget_usd - (cost or 0.0))
        spent = _judge_group(group, work, options, left)
        cost = None if cost is None or spent is None else cost + spent
    return cost, _notes(needs.values(), options)


def _spec(group: list[_Need]) -> Spec:
    spec = group[0].asked.spec
    assert spec is not None, "what has no judge was found wanting before"
    return spec


def _judge_group(group: list[_Need], work: Worklist, options: GateOptions, left: float | None) -> float | None:
    found, paid = judged(work, group[0].asked, options, left)
    for need, judgment in zip(group, found, strict=True):
        error = None if judgment.error is None else _with(need, judgment.error)
        need.found = replace(judgment, error=error)
    return paid


def _with(need: _Need, error: str) -> str:
    return f"{error}; the trace's judgment does not count ({need.unfit})" if need.unfit else error


def _notes(needs: Iterable[_Need], options: GateOptions) -> list[str]:
    judgments = [need.found for need in needs if need.found is not None]
    notes = []
    if any("budget" in (one.reasons or {}) for one in judgments):
        notes.append(
            f"the budget of US$ {options.budget_usd} was reached; what was paid is kept: run it again with more"
        )
    if late := sum((one.reasons or {}).get("timeout", 0) for one in judgments):
        notes.append(
            f"{counted(late, 'sample had', 'samples had')} no reply in time: raise settings.timeout_seconds, or "
            "run it again: only what is missing is asked"
        )
    keys = {bytes.fromhex(key) for one in judgments if one.source == "cache" for key in one.keys}
    promoted = ReplyStore.open(options.cache).counts_for(keys)["promoted"] if keys else 0
    if promoted:
        notes.append(
            f"{counted(promoted, 'reply was', 'replies were')} promoted from another rubric version; "
            "--no-promoted refuses them"
        )
    fakes = {name for one in judgments for name in _judges(one) if name.startswith("fake:")}
    if fakes:
        notes.append(f"{', '.join(sorted(fakes))}: evalkit's embedded stand-in judged, which is not an LLM")
    return notes


def _judges(judgment: Judgment) -> tuple[str, ...]:
    names = judgment.judge
    return () if names is None else (names,) if isinstance(names, str) else names


def _found(needs: Mapping[Any, _Need]) -> dict[int, dict[str, Judgment]]:
    found: dict[int, dict[str, Judgment]] = {}
    for need in needs.values():
        if need.found is not None and need.found.is_final and need.found.source != "trace":
            found.setdefault(need.trace.line, {})[need.asked.rubric.id] = need.found
    return found


def _test(
    config: GateConfig,
    number: int,
    asked: list[Asked | None],
    match_: Match,
    needs: Mapping[Any, _Need],
    made: Mapping[tuple[str, int], Any],
    redact: bool,
) -> TestResult:
    test = config.tests[number]
    if match_.error is not None:
        lost = tuple(MetricResult(one.type, "error", match_.error, (), one.min_score) for one in test.expected)
        return TestResult(test.id, "error", match_.error, lost)
    metrics = []
    for at, (expected, one) in enumerate(zip(test.expected, asked, strict=True)):
        measured = []
        for place, trace in enumerate(match_.traces):
            need = needs.get((number, at, place))
            if need is None:
                status, message = check_answer(expected, made[test.id, at], trace.answer, redact=redact)
            else:
                assert need.found is not None
                status, message = measure(need.found, expected.min_score)
            origin = (None, None) if need is None else (need.found, need.input_hash)
            measured.append(Measured(status, message, trace.line, trace.attempt, *origin))
        metrics.append(over_repeats(expected, measured, None if one is None else one.sources))
    status = worst([metric.status for metric in metrics])
    return TestResult(test.id, status, _said(metrics), tuple(metrics), *_shown(match_, redact=redact))


def _said(metrics: list[MetricResult]) -> str:
    status = worst([metric.status for metric in metrics])
    return "; ".join(f"{metric.type}: {metric.message}" for metric in metrics if metric.status == status)


def _shown(match_: Match, *, redact: bool) -> tuple[str, str]:
    first = match_.traces[0]
    return (REDACTED, REDACTED) if redact else (first.prompt, first.answer)
