"""`run_gate`: finds the trace of each test and its judgment, judges what lacks one, and decides."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.formatting import Bill
from evalkit.core.judge_settings import OF_CALLS
from evalkit.core.providers import PROVIDERS
from evalkit.core.reply_keys import digest
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.reply_lookup import nearest
from evalkit.engine.judging.specification import Spec
from evalkit.engine.judging.worklist import Worklist
from evalkit.engine.providers import check_ready
from evalkit.engine.providers.prices import price_of
from evalkit.errors import ConfigError, JudgeError, counted, listed
from evalkit.evaluation.evaluation_log import log_payment
from evalkit.gate.checks import CHECKS
from evalkit.gate.config import CRITERIA, Expected, GateConfig, GateTest, load_gate, place_of
from evalkit.gate.criteria_of_traces import criteria_of, figures_of, judged_on, measure_points
from evalkit.gate.judge_drift import measure_drift
from evalkit.gate.judgment import (
    Judgment,
    difference,
    input_hashes,
    judgments_of,
    readings_of,
    rules_hash,
    verdict_key,
    verdict_parts,
)
from evalkit.gate.precedence import GateOptions, Resolved, Resolver
from evalkit.gate.recorded_judgments import read_recorded
from evalkit.gate.results_and_exit_code import (
    GateResult,
    Measured,
    MetricResult,
    TestResult,
    measure,
    over_repeats,
    worst,
)
from evalkit.gate.suite_bounds import compare_baseline, measure_suite, read_baseline
from evalkit.gate.traces import REDACTED, Trace, read_traces
from evalkit.rubrics.rubric import REQUIREMENT
from evalkit.tables.items import canonical, canonical_text, is_missing

_PLAIN = GateOptions()


@dataclass(slots=True)
class _Task:
    """One trace with one expectation, and its judgment once there is one.

    `criteria` are those with a lowest score of their own, which the judgment must have apart.
    `name` is the key of its judgment in the trace. `rejected` is the reason why the one recorded there does not count,
    `jury` its judges if it has several.
    `resolved` is None for a check. Of a trace's own criteria, each has a task; they share their `origin`.
    """

    resolved: Any
    trace: Trace
    name: str = ""
    origin: str = ""
    criteria: tuple[str, ...] = ()
    rejected: str = ""
    jury: tuple[str, ...] = ()
    judgment: Judgment | None = None
    input_hash: str | None = None


@dataclass(slots=True)
class _Part:
    """One expectation of a test, with its settings, or with the compiled check, and its traces by names.

    `own` has the criteria of each trace, or why they cannot be judged.
    """

    expected: Expected
    resolved: Resolved | None = None
    check: Any = None
    tasks: list[_Task] = field(default_factory=list)
    traces: dict[str, Trace] = field(default_factory=dict)
    own: dict[str, pd.DataFrame | str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: GateConfig, test: GateTest, expected: Expected, resolver: Resolver) -> _Part:
        if expected.type not in CHECKS:
            return cls(expected, resolver.of(test.id, expected))
        try:
            return cls(expected, check=CHECKS[expected.type].compile(expected.of_check, config.folder))
        except ConfigError as problem:
            text = f"the schema cannot be used ({REDACTED})" if resolver.options.redact else str(problem)
            return cls(expected, check=ConfigError(f"{place_of(config, test.id)}: {text}"))

    def take(self, own: Mapping[str, pd.DataFrame | str]) -> None:
        """Make the tasks of its traces: one each, or one for each of their own criteria."""
        rubric = "" if self.resolved is None else self.resolved.spec.rubric.id
        if self.expected.type != CRITERIA:
            criteria = self.expected.with_floors
            self.tasks = [_Task(self.resolved, trace, rubric, criteria=criteria) for trace in self.traces.values()]
            return
        assert self.resolved is not None
        self.own = {origin: judged_on(self.resolved.spec.rubric, own[origin]) for origin in self.traces}
        for origin, rows in self.own.items():
            trace = self.traces[origin]
            for name, text in () if isinstance(rows, str) else zip(rows["item_id"], rows[REQUIREMENT], strict=True):
                alone = replace(trace, inputs={**(trace.inputs or {}), REQUIREMENT: text, "of_item": origin})
                self.tasks.append(_Task(self.resolved, alone, name.replace(origin, rubric, 1), origin))

    def judged(self) -> dict[str, tuple[pd.DataFrame, list[Any]]]:
        """The criteria of each trace with their judgments."""
        return {
            origin: (rows, [task.judgment for task in self.tasks if task.origin == origin])
            for origin, rows in self.own.items() if not isinstance(rows, str)
        }  # fmt: skip

    def _of_criteria(self, figures: Mapping[str, Any], options: GateOptions) -> Iterator[Measured]:
        judged, floors = self.judged(), self.expected.min_points
        for origin, rows in self.own.items():
            values, trace = rows if isinstance(rows, str) else figures[origin], self.traces[origin]
            if isinstance(values, str) or floors is None:
                measured = Measured("error", f"the criteria cannot be judged: {REDACTED if options.redact else values}")
            else:
                measured = measure_points(*judged[origin], values, floors, redact=options.redact)
            hashed = digest([task.input_hash for task in self.tasks if task.origin == origin])
            yield replace(measured, line=trace.line, attempt=trace.attempt, input_hash=hashed)

    def result(self, options: GateOptions, figures: Mapping[str, Any]) -> MetricResult:
        """The status over all repeats; `figures` are those of criteria of traces."""
        measured = [*self._of_criteria(figures, options)] if self.own else []
        for task in () if self.own else self.tasks:
            if task.judgment is None:
                check, trace = CHECKS[self.expected.type], task.trace
                value = trace.answer if check.reads == "response" else trace.item.get(check.reads)
                outcome = check.status_of(self.check, value, redact=options.redact)
            else:
                outcome = measure(task.judgment, self.expected.min_score)
            place = task.trace.line, task.trace.attempt
            measured.append(Measured(*outcome, *place, task.judgment, task.input_hash))
        return over_repeats(self.expected, measured, self.resolved)


def run_gate(
    config: GateConfig | str | Path,
    traces: str | Path | Iterable[Trace],
    options: GateOptions = _PLAIN,
    *,
    environment: Mapping[str, str] | None = None,
) -> GateResult:
    """Judge the traces of all tests and report which pass.

    A judgment comes from the trace if one with the needed rubric version, number of samples and key is recorded
    there, else from the cache, else from a live call if a judge may be called.

    Parameters
    ----------
    config
        A configuration, or the path of one.
    traces
        The path of a trace file, or traces.
    options
        The options of the gate.
    environment
        The variables ``VERDICT_JUDGE…``; by default those of the process.

    Returns
    -------
    GateResult
        Status and reason of each test, metric and suite bound; its `exit_code` is that of ``evalkit ci``.

    Raises
    ------
    ConfigError, InputError, RubricError
        Before anything is paid: for errors in configuration, variables or trace file, or a missing key.
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
    of_calls: dict[str, Any] = {name: resolver.of_all.get(name) for name in OF_CALLS}
    options = replace(options, **of_calls).from_now()
    parts = [[_Part.of(config, test, expected, resolver) for expected in test.expected] for test in config.tests]
    name = str(traces) if isinstance(traces, (str, Path)) else "the list of traces"
    rows = read_traces(traces, redact=options.redact) if isinstance(traces, (str, Path)) else traces
    matches = match(config.tests, rows, name, redact=options.redact)
    every = [(part, match.traces) for group, match in zip(parts, matches, strict=True) for part in group]
    for number, (part, traces_found) in enumerate(every):
        part.traces = {f"{number}.{index}": trace for index, trace in enumerate(traces_found)}
    of_criteria = [part for part, _ in every if part.expected.type == CRITERIA]
    pairs = {key: (trace, part.expected.criteria) for part in of_criteria for key, trace in part.traces.items()}
    own_criteria = criteria_of(pairs)
    for part, _ in every:
        part.take(own_criteria)
    tasks = [task for mine in parts for part in mine for task in part.tasks if task.resolved is not None]
    _use_recorded(tasks, name, options)
    cost = _judge(tasks, options)
    drifts = measure_drift((work for _, work in _works(tasks, tasks)), options) if options.drift else []
    for group in _groups(tasks):
        rubric, items = group[0].resolved.spec.rubric, pd.DataFrame([task.trace.item for task in group])
        for task, hashed in zip(group, input_hashes(rubric, items), strict=True):
            task.input_hash = hashed
    if options.redact:
        for task in tasks:
            if task.judgment is not None:
                task.judgment = task.judgment.redacted(REDACTED)
    results = zip(config.tests, matches, parts, strict=True)
    figures = figures_of({key: pair for part, _ in every for key, pair in part.judged().items()})
    tests = tuple(_test(test.id, found, mine, options, figures) for test, found, mine in results)
    suites = list(measure_suite(config.suite, tests))
    suites += [] if baseline is None else compare_baseline(baseline, tests)
    suites += drifts
    notes = (*_notes_on_checks(config, parts, options), *_notes(tasks, options, resolver.of_all.source("max_seconds")))
    result = GateResult(config.name, tests, tuple(suites), notes, cost, options.strict, _new_judgments(tasks))
    return replace(result, notes=(*notes, *_notes_on_judges(result)))


def _use_recorded(tasks: Collection[_Task], name: str, options: GateOptions) -> None:
    """Use the judgments in the traces that are the needed ones."""
    for task in tasks:
        rubric = task.resolved.spec.rubric
        if (raw := (task.trace.recorded or {}).get(task.name)) is None:
            continue
        where = f"{name}, line {task.trace.line}"
        spec = task.resolved.spec
        recorded = read_recorded(raw, where, rubric, spec.rules, name=task.name, redact=options.redact)
        numbers = _numbers_of_samples(task.resolved, recorded)
        task.jury = recorded.judge if isinstance(recorded.judge, tuple) else ()
        if options.refresh not in (False, "unscored"):
            continue
        if recorded.rubric_version != rubric.version:
            task.rejected = f"rubric_version: recorded {recorded.rubric_version}, needed {rubric.version}"
        elif len(recorded.samples) not in numbers:
            task.rejected = f"samples: recorded {len(recorded.samples)}, needed {min(numbers)}"
        elif not recorded.is_final:
            task.rejected = "samples: some were recorded without a reply"
        elif recorded.verdict_key and (missing := _missing_inputs(task, options)):
            task.rejected = missing
        elif lacking := [name for name in task.criteria if name not in recorded.criteria and len(rubric.names) > 1]:
            task.rejected = f"criteria: recorded without {listed(lacking)}, for which min_score has a bound"
        else:
            task.judgment = recorded
    for group in _groups(task for task in tasks if task.judgment is not None and task.judgment.verdict_key):
        _reject_other_keys(_with_siblings(group, tasks), options)
    _repeat_failed_calls([task for task in tasks if task.judgment is not None and task.resolved.has_judge], options)


def _numbers_of_samples(resolved: Resolved, recorded: Judgment) -> set[int]:
    """How many samples a judgment may have; if neither judge nor number is named, also one of each decision model."""
    judges = _recorded_judges(recorded)
    is_open = not resolved.has_judge and resolved.sources.get("samples") == "default"
    return {sum(resolved.spec.counts)} | ({len(judges)} if is_open and _decide(judges) else set())


def _decide(judges: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all recorded judges are decision models."""
    providers = [PROVIDERS.get(str(judge.get("provider"))) for judge in judges]
    return bool(providers) and all(provider is not None and provider.decides for provider in providers)


def _recorded_judges(judgment: Judgment) -> list[dict[str, Any]]:
    """The judges in the parts of a recorded verdict's key; none if they cannot be read."""
    judges: Any = (judgment.parts or {}).get("judges")
    are_judges = isinstance(judges, list) and all(isinstance(judge, dict) for judge in judges)
    return judges if are_judges else []


def _repeat_failed_calls(tasks: Collection[_Task], options: GateOptions) -> None:
    """Put aside recorded judgments that lack replies, if the cache has the others: they would be bought again."""
    unfinished = [(task, judgment) for task in tasks if (judgment := task.judgment) is not None and judgment.verdict_key
                  and (judgment.n_failed or (options.refresh and None in judgment.samples))]  # fmt: skip
    for task, judgment in unfinished:
        keys = [bytes.fromhex(key) for key in judgment.keys]
        n_missing = sum(map(keys.count, {*keys} - ReplyStore.open(options.cache).get_many({*keys}).keys()))
        if n_missing <= (judgment.n_failed if task.resolved.live else 0):
            task.rejected, task.judgment = "samples: some were recorded without a reply", None


def _reject_other_keys(group: list[_Task], options: GateOptions) -> None:
    """Reject recorded verdicts with another key; if no judge is named, those of another input or rubric."""
    resolved = group[0].resolved
    recorded_keys = [task.judgment.keys if task.judgment is not None else () for task in group]
    work = work_of(resolved.spec, [task.trace for task in group])
    keys = keys_of(work, recorded_keys, repair=options.repair is not False)
    for task, (key, parts) in zip(group, keys, strict=True):
        judgment = task.judgment
        if judgment is None or not judgment.verdict_key:
            continue
        if not resolved.has_judge:
            judges, spec = _recorded_judges(judgment), resolved.spec
            weights = [judge.weight for judge in spec.judges] * (len(judges) if _decide(judges) else 1)
            hash_of_rules = rules_hash(spec.rubric, spec.rules, weights, readings_of(judges))
            parts = {name: parts[name] for name in ("input_hash", "rubric_hash")} | {"rules_hash": hash_of_rules}
            is_same = parts.items() <= (judgment.parts or {}).items()
        else:
            is_same = judgment.verdict_key == key
        if not is_same:
            task.rejected, task.judgment = difference(judgment.parts, parts), None


def _with_siblings(group: list[_Task], tasks: Iterable[_Task]) -> list[_Task]:
    """The tasks, with all criteria of their traces if one reply judges several: its key is that of all of them."""
    origins = {task.origin for task in group} - {""}
    if not group[0].resolved.spec.per_item or not origins:
        return group
    needed, key = group[0].resolved.spec.rubric.required_inputs, group[0].resolved.group
    siblings = [task for task in tasks if task.origin in origins and task.resolved.group == key]
    siblings = [task for task in siblings if not any(is_missing(task.trace.item.get(name)) for name in needed)]
    return [task for task in group if not task.origin] + siblings


def _groups(tasks: Iterable[_Task]) -> list[list[_Task]]:
    groups: dict[Any, list[_Task]] = {}
    for task in tasks:
        groups.setdefault(task.resolved.group, []).append(task)
    return list(groups.values())


def _missing_inputs(task: _Task, options: GateOptions) -> str | None:
    rubric = task.resolved.spec.rubric
    if not (missing := [name for name in rubric.required_inputs if is_missing(task.trace.item.get(name))]):
        return None
    fact = f"{options.place(task.trace.line)} has no {', '.join(missing)}, which rubric {rubric.id!r} needs"
    by_name = [name for name in missing if name not in ("question", "answer", "context")]
    is_in_file = by_name and options.place(0) != "the item"
    return f"{fact}; add {'it' if len(by_name) == 1 else 'them'} under meta.inputs" if is_in_file else fact


def _judge(tasks: Collection[_Task], options: GateOptions) -> float | None:
    """Get the missing judgments from the cache or by live calls; the US$ paid, None if a price is unknown."""
    unjudged = [task for task in tasks if task.judgment is None]
    for task in unjudged:
        rubric = task.resolved.spec.rubric
        if missing := _missing_inputs(task, options):
            task.judgment = Judgment(rubric.id, rubric.version, error=missing)
        elif not task.resolved.has_judge:
            if task.resolved.live:
                named = f"the judge ({task.resolved.sources['judge']})"
                fact = f"{named} has no model, so it cannot be called; pass {options.flag('judge-model')} MODEL"
                raise ConfigError(f"{fact}, set VERDICT_JUDGE_MODEL, or use a profile")
            fact = f"no judgment by {rubric.id}@{rubric.version} is recorded in {options.place(task.trace.line)}"
            advice = f"no judge is named, so the cache cannot be searched: name one with {options.flag('judge')}"
            error = _with_rejected(task, f"{fact}, and {advice}")
            task.judgment = Judgment(rubric.id, rubric.version, error=error, reasons={"not_recorded": 1})
    if options.refresh and any(not task.resolved.live for task in tasks):
        flag, judge = options.flag("drift" if options.drift else "judge-refresh"), options.flag("judge")
        raise ConfigError(f"{flag} needs a judge to call, but the judge is 'none'; name one with {judge}")
    groups = _works((task for task in unjudged if task.judgment is None), tasks)
    for group, work in groups:
        check_callable(work, group[0].resolved, options)
    cost: float | None = 0.0
    budget, began = Budget.of(options), time.time()
    for group, work in groups:
        judgments, paid = judged(work, group[0].resolved, options.since(began), budget)
        for task, judgment in zip(group, judgments, strict=True):
            if task.judgment is not None:  # recorded, beside criteria that were not
                continue
            task.judgment = judgment
            if judgment.error is not None:
                task.judgment = replace(judgment, error=_with_rejected(task, judgment.error))
        job = "evalkit ci" if options.flag("judge") == "--judge" else "pytest"
        log_payment(job, options, work.spec, work.spec.rubric.names, paid or 0.0)
        cost = None if cost is None or paid is None else cost + paid
    return cost


def _works(tasks: Iterable[_Task], among: Collection[_Task] = ()) -> list[tuple[list[_Task], Worklist]]:
    """The groups that a judge is named for, with their siblings among others, each with its worklist."""
    named = [_with_siblings(group, among) for group in _groups(tasks) if group[0].resolved.has_judge]
    return [(group, work_of(group[0].resolved.spec, [task.trace for task in group])) for group in named]


def _with_rejected(task: _Task, error: str) -> str:
    return f"{error}; the judgment in the trace is not used ({task.rejected})" if task.rejected else error


def _notes_on_checks(config: GateConfig, parts: Sequence[Sequence[_Part]], options: GateOptions) -> Iterator[str]:
    """What checks let through that their author may not expect, with the tests that have them."""
    tests: dict[str, list[str]] = {}
    for test, mine in zip(config.tests, parts, strict=True):
        for part in mine:
            if part.resolved is None and not isinstance(part.check, ConfigError):
                for note in CHECKS[part.expected.type].notes(part.check, options.redact):
                    tests.setdefault(note, []).append(test.id)
    for note, names in tests.items():
        yield f"{'test' if len(names) == 1 else 'tests'} {listed(list(dict.fromkeys(names)), most=5)}: {note}"


def _notes(tasks: Collection[_Task], options: GateOptions, time_limit: str) -> list[str]:
    judgments = [task.judgment for task in tasks if task.judgment is not None]
    reasons = sum((Counter(judgment.reasons) for judgment in judgments), Counter[str]())
    lost = {reason: reasons[reason] for reason in ("judge_down", "rate_limited", "server_error") if reasons[reason]}
    counts = ", ".join(f"{reason} {count}" for reason, count in lost.items())
    n_promoted = len(promoted_keys((judgment for judgment in judgments if judgment.source == "cache"), options))
    unused = (task.jury for task in tasks if task.rejected and task.jury and not task.resolved.of_profile)
    places = dict.fromkeys(task.resolved.spec.settings.source("calibration") for task in tasks)
    judges = {name for judgment in judgments
              for name in ((judgment.judge,) if isinstance(judgment.judge, str) else judgment.judge or ())}  # fmt: skip
    fakes = sorted(name for name in judges if name.startswith("fake:"))
    limit = f"{options.max_calls} calls" if options.budget_usd is None else f"US$ {options.budget_usd}"
    notes: dict[str, object] = {
        f"the budget of {limit} was reached; paid replies are stored; run again with a larger budget":
            reasons["budget"],
        f"judging reached max_seconds={options.max_seconds or 0:g} ({time_limit}): "
        f"{counted(reasons['stopped'], 'sample')} had no reply by then; paid replies are stored; run again to request "
        "only the missing ones": reasons["stopped"],
        f"{counted(reasons['timeout'], 'sample')} had no reply in time: raise settings.timeout_seconds, or run again "
        "to request only the missing replies": reasons["timeout"],
        f"{counted(sum(lost.values()), 'sample')} had no reply ({counts}): run again with the judge, and the same "
        "cache, to request only the missing replies": lost,
        f"{counted(n_promoted, 'reply was', 'replies were')} promoted from another rubric version; --no-promoted "
        "rejects them": n_promoted,
        **{f"judgments of the jury {' + '.join(jury)} are recorded, but this run does not name these judges: to use "
           f"them, pass the profile that they were recorded with ({options.flag('profile')})": True for jury in unused},
        **{f"{place} has a calibration, which is not applied: all scores are raw": True
           for place in places if place != "default"},
        f"{', '.join(fakes)}: evalkit's built-in test judge, which is not an LLM": fakes,
    }  # fmt: skip
    return [note for note, holds in notes.items() if holds]


def _notes_on_judges(result: GateResult) -> Iterator[str]:
    """Metrics that not all tests have from the same judges."""
    by_type: dict[str, list[str]] = {}
    for (type_, judges), ids in result.judges.items():
        by_type.setdefault(type_, []).append(f"{judges} ({counted(len(ids), 'test')}: {listed(ids, most=5)})")
    for type_, texts in by_type.items():
        if len(texts) > 1:
            yield f"{type_}: not all tests were judged by the same judges: {'; '.join(texts)}"


def _new_judgments(tasks: Iterable[_Task]) -> dict[int, dict[str, Judgment]]:
    """Line -> rubric id -> judgment, of those that the trace file does not contain."""
    by_line: dict[int, dict[str, Judgment]] = {}
    for task in tasks:
        if task.judgment is not None and task.judgment.is_final and task.judgment.source != "trace":
            by_line.setdefault(task.trace.line, {})[task.name] = task.judgment
    return by_line


def _test(
    name: str, found: Match, parts: Sequence[_Part], options: GateOptions, figures: Mapping[str, Any]
) -> TestResult:
    if found.error is not None:
        expected = [part.expected for part in parts]
        errors = tuple(MetricResult(item.type, "error", found.error, (), item.min_score) for item in expected)
        return TestResult(name, "error", found.error, errors)
    metrics = [part.result(options, figures) for part in parts]
    status = worst([metric.status for metric in metrics])
    message = "; ".join(f"{metric.type}: {metric.message}" for metric in metrics if metric.status == status)
    first = found.traces[0]
    texts = [REDACTED if text is not None and options.redact else text for text in (first.prompt, first.answer)]
    return TestResult(name, status, message, tuple(metrics), *texts)


@dataclass(frozen=True, slots=True)
class Match:
    """The traces of a test (several are repeats), or why there are none."""

    traces: tuple[Trace, ...] = ()
    error: str | None = None


def match(
    tests: Sequence[GateTest], traces: Iterable[Trace], name: str = "the trace file", *, redact: bool = False
) -> list[Match]:
    """The traces of each test, in the order of the file.

    With `redact`, errors quote neither prompt nor context.

    Examples
    --------
    >>> test = GateTest(id="t", expected={"type": "must_contain", "value": "30"})
    >>> match([test], [Trace(1, "t", "How long?", None, "30 days")])[0].traces[0].answer
    '30 days'
    """
    ids = {test.request_id or test.id for test in tests}
    prompts = {canonical_text(test.input.prompt) for test in tests if test.input.prompt is not None}
    by_id: dict[str, list[Trace]] = {}
    by_prompt: dict[str, list[Trace]] = {}
    for trace in traces:
        if trace.request_id in ids:
            by_id.setdefault(str(trace.request_id), []).append(trace)
        if trace.prompt in prompts:
            by_prompt.setdefault(trace.prompt, []).append(trace)
    return [_match(test, by_id, by_prompt, name, redact=redact) for test in tests]


def _match(
    test: GateTest, by_id: dict[str, list[Trace]], by_prompt: dict[str, list[Trace]], name: str, *, redact: bool
) -> Match:
    prompt = None if test.input.prompt is None else canonical_text(test.input.prompt)
    mine = by_id.get(test.request_id or test.id, [])
    if not mine and test.request_id is None and prompt is not None:
        mine = by_prompt.get(prompt, [])
    if not mine:
        other = "" if test.request_id or prompt is None else ", and no trace with its prompt"
        fact = f"{name} has no trace with request_id {test.request_id or test.id!r}{other}"
        return Match(error=f"{fact}; add the trace, or set request_id in the test")
    attempts = [trace.attempt for trace in mine]
    if len(mine) > 1 and (None in attempts or len(set(attempts)) < len(attempts)):
        pair = next(
            (one, other)
            for at, other in enumerate(mine)
            for one in mine[:at]
            if None in (one.attempt, other.attempt) or one.attempt == other.attempt
        )
        fact = f"{name} has two traces for test {test.id!r}, lines {pair[0].line} and {pair[1].line}"
        return Match(error=f"{fact}; give repeats different 'attempt' numbers, and other traces different request_ids")
    for trace in mine:
        if error := _differs(test, trace, prompt, name, redact=redact):
            return Match(error=error)
    return Match(tuple(mine))


def _differs(test: GateTest, trace: Trace, prompt: str | None, name: str, *, redact: bool) -> str | None:
    context = None if test.input.context is None else tuple(canonical_text(text) for text in test.input.context)
    pairs = [("prompt", prompt, trace.prompt), ("context", context, trace.context)]
    inputs = (test.input.inputs or {}).items()
    pairs += [(name, canonical(value), canonical(trace.item.get(name))) for name, value in inputs]
    for name_of_input, expected, actual in pairs:
        if expected is not None and expected != actual:
            shown = (REDACTED, REDACTED) if redact else (_start(expected), _start(actual))
            fact = f"test {test.id!r} and its trace ({name}, line {trace.line}) differ in {name_of_input}"
            return f"{fact}: test {shown[0]}, trace {shown[1]}; record the trace again or correct the test"
    return None


def _start(value: object) -> str:
    text = repr(list(value)) if isinstance(value, tuple) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


_MOST_NEAREST = 20


def work_of(spec: Spec, traces: Sequence[Trace]) -> Worklist:
    """The worklist for these traces: the same inputs as for `judge`, so the same keys."""
    dropped = {"scale"}.difference(spec.rubric.input_names)  # a trace's own, and not that of its criteria
    cells = [{name: cell for name, cell in trace.item.items() if name not in dropped} for trace in traces]
    items = [{**item, "item_id": str(at)} for at, item in enumerate(cells)]
    return Worklist.of(spec, items, ids=[trace.name for trace in traces])


def keys_of(
    work: Worklist, held: Sequence[Collection[str]], *, repair: bool = True
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each trace the verdict key, and its parts.

    A recorded reply has a key of its own, which replaces the shared one if it is among the reply keys `held`. What is
    held besides are the keys of repairs, which depend on the text of the replies; without `repair`, they do not count.
    """
    ways = [work.keys(), work.keys(recorded=True)]
    if work.spec.per_item:  # a criterion that a reply on several left out was asked alone
        ways.append(replace(work, spec=replace(work.spec, criteria_per_call=1)).keys())
    rows = zip(*(map(bytes.hex, keys) for keys in ways), strict=True)
    size = work.n_rows // max(1, len(work.inputs))
    for hashes, mine in zip(work.hashes, held, strict=True):
        ways_of_rows = list(islice(rows, size))
        own = [next((key for key in choices if key in mine), shared) for shared, *choices in ways_of_rows]
        own += sorted({*mine}.difference(*ways_of_rows)) if repair else []
        parts = verdict_parts(work.spec, hashes[0])
        counts = work.spec.counts
        yield verdict_key(own, sum(counts) // len(counts), parts["rules_hash"]), parts


def check_callable(work: Worklist, resolved: Resolved, options: GateOptions) -> None:
    """Check that each judge whose replies are not all cached can be called; makes no calls.

    Raises
    ------
    ConfigError
        When a judge has no key, or a budget is given and its price is unknown.
    """
    if not resolved.live:
        return
    keys = list(work.keys())
    there = {} if options.refresh else ReplyStore.open(options.cache).get_many(set(keys), recorded=False)
    for at in sorted({work.place(row)[2] for row, key in enumerate(keys) if key not in there}):
        judge = work.spec.judges[at]
        try:
            check_ready(judge)
        except JudgeError as problem:
            raise ConfigError(
                f"{problem.fact}; set it, name another variable with {options.flag('judge-api-key-env')}, or use "
                f"recorded and cached judgments with {options.flag('judge')} none"
            ) from None
        if options.budget_usd is not None and price_of(judge) is None:
            raise ConfigError(
                f"the price of judge '{judge.name}' is unknown, so {options.flag('budget-usd')} cannot be enforced; "
                "give it in a profile (price: [US$ per million prompt tokens, per million completion tokens]) or omit "
                "the budget"
            )


def judged(
    work: Worklist, resolved: Resolved, options: GateOptions, budget: Budget | None
) -> tuple[list[Judgment], float | None]:
    """One judgment per trace (`error`: there is none), and the US$ paid now (None: unknown).

    Call `check_callable` first: it reports configuration errors before anything is paid.
    """
    rubric = work.spec.rubric
    try:
        chosen = replace(options, drift=False)  # which options of judge's own answers cannot have
        chosen = chosen if resolved.live else replace(chosen, offline=True, refresh=False)
        table = judge_worklist(work, chosen, budget=budget)
    except JudgeError as problem:
        text = f"no judge answered and nothing was scored ({REDACTED})" if options.redact else str(problem)
        return [Judgment(rubric.id, rubric.version, error=f"could not be judged: {text}")] * len(work.inputs), 0.0
    parts = {str(at): verdict_parts(work.spec, hashes[0]) for at, hashes in enumerate(work.hashes)}
    judgments = list(judgments_of(table, rubric, work.spec.rules, parts).values())
    judgments = _with_misses(work, judgments, options, table["error"].tolist())
    if options.no_promoted:
        judgments = _refuse_promoted(judgments, options)
    paid = Bill.of(table, "live")
    return judgments, None if paid.n_unpriced else paid.known_usd


def _with_misses(work: Worklist, judgments: list[Judgment], options: GateOptions, errors: list[Any]) -> list[Judgment]:
    """The judgments; if samples are not cached and no judge may be called, an error describes the nearest entry."""
    store, n_looked_up, checked = ReplyStore.open(options.cache), 0, list[Judgment]()
    size = work.n_rows // max(1, len(work.inputs))
    for at, judgment in enumerate(judgments):
        if not (n_misses := (judgment.reasons or {}).get("cache_miss", 0)):
            checked.append(judgment)
            continue
        n_looked_up += 1
        row = next(row for row in range(at * size, (at + 1) * size) if errors[row] == "cache_miss")
        near = nearest(work, store, row) if n_looked_up <= _MOST_NEAREST else None
        differs = "; ".join(f"{name}: {old} cached, {new} needed" for name, (old, new) in (near or {}).items())
        rubric, judges = work.spec.rubric, " and ".join(judge.name for judge in work.spec.judges)
        fact = f"cache miss: {n_misses} of {counted(size, 'sample')} of {rubric.id}@{rubric.version} by {judges}"
        why = differs or "nothing is cached for this input"
        checked.append(replace(judgment, error=f"{fact} are not cached ({why})"))
    return checked


def promoted_keys(judgments: Iterable[Judgment], options: GateOptions) -> set[str]:
    """The reply keys of these judgments whose replies were promoted from another rubric version."""
    store = ReplyStore.open(options.cache)
    keys = {bytes.fromhex(key) for judgment in judgments for key in judgment.keys}
    return {key.hex() for key in store.get_many(keys).keys() - store.get_many(keys, promoted=False).keys()}


def _refuse_promoted(judgments: list[Judgment], options: GateOptions) -> list[Judgment]:
    refused, checked = promoted_keys(judgments, options), list[Judgment]()
    for judgment in judgments:
        count = sum(key in refused for key in judgment.keys)
        fact = f"the judgment uses {counted(count, 'promoted reply', 'promoted replies')}, which --no-promoted rejects"
        checked.append(replace(judgment, error=f"{fact}; judge again with --judge-refresh") if count else judgment)
    return checked
