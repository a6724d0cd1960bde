"""`pollux_metric`: answers judged by the POLLUX criteria that apply to each, and their scores."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import orjson
import pandas as pd
from lighteval.metrics.utils.metric_utils import SampleLevelMetric

from evalkit.core.lists_of_choices import MISSING_CRITERIA
from evalkit.engine.calls.event_loop import ending_signals
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError, listed
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, TIED, coverage_row, is_tied, mean_row
from evalkit.lighteval.items import items_of
from evalkit.lighteval.metric_settings import Declared, MetricSettings
from evalkit.lighteval.metrics import ProgressLog, RubricScore, batched_metric, judge_rows
from evalkit.lighteval.pollux.criteria import PolluxCriteria, as_gate, criterion_of
from evalkit.rubrics import Criterion, Rubric
from evalkit.rubrics.prompt_builder import PromptBuilder

_log = logging.getLogger("evalkit")
_TOTALS = ("budget_usd", "max_calls")
_AT_ONCE = 8  # criteria under way; the calls among them are limited by the engine, which all share


def pollux_metric(
    criteria: PolluxCriteria | Mapping[str, Criterion] | str | Path,
    *,
    judges: Any = None,
    profile: Any = None,
    samples: int | None = None,
    template: str | None = None,
    vote: str | None = None,
    ties: str | None = None,
    min_self_agreement: float | None = None,
    aggregate: str | None = None,
    quorum: float | None = None,
    missing: Missing = "na",
    name: str = "pollux",
    shown: Sequence[str] | None = None,
    **options: Any,
) -> SampleLevelMetric:
    """A LightEval metric that judges each answer by its own POLLUX criteria.

    ``doc.specific["criteria"]`` lists what applies to an item: ids of `criteria`, or mappings with ``name`` (or
    ``criteria_name``) and ``rubrics`` (score -> description, or lines ``0: …``). Other criteria are skipped and
    counted. The run sets the judges, as for `judge_metric`.

    Parameters
    ----------
    criteria
        A file in the published form, or id -> criterion.
    judges, profile, samples, template, vote, ties, min_self_agreement, aggregate, quorum
        As for `judge_metric`; the template is ``pollux@v1`` if none is named.
    missing
        An answer with an unscored criterion has no score (``na``), or the mean of those scored (``renormalise``, as the
        published code has it).
    name
        Name of the metric.
    shown
        Ids whose means are figures of the task (default: all of `criteria`); the others appear only in the samples.
    **options
        Further options of `evalkit.judge`, except limits on a whole call (``budget_usd``, ``max_calls``).

    Returns
    -------
    SampleLevelMetric
        Per sample `<name>` (0-1; NaN: unscored): the mean of score / maximum of the scale over the criteria that are
        not critical, 0 if a critical one is violated; `_plain`: the mean of `score_norm` over all that apply;
        `_violated` (1 or 0; NaN: no critical one is decided), `_critical` (those violated), `_coverage` (share of the
        judgments with a score), `_n_criteria`, `_n_skipped`, `_n_unscored`, `_error` (``""``, or why there is no
        number; ``tied``: scored all the same), `_explanation`, `_criteria` (JSON, criterion -> figures) and
        `_judgments` (JSON). Corpus: `<name>`, `_stderr`, `_n`, `_coverage` (share of answers that are scored: with a
        number, or without one by ties alone), `_n_unscored`, `_n_empty`, `_n_skipped`, `_critical_rate`,
        `_plain` (`_plain_stderr`, `_plain_n`), `_grand_mean` (over answers × criteria instead of over answers), for
        each criterion shown `<name>_<id>` (mean of `score_norm`), its `_stderr`, `_n` and `_coverage` (share of the
        answers to which it applies), and for juries `_alpha`. In deterministic mode nothing is judged, and `_coverage`
        is 0.

    Raises
    ------
    ConfigError, RubricError
        For unknown or contradictory arguments, or a criterion whose scale has no maximum above 0.

    Notes
    -----
    The aggregation is that of ``src/metrics.py`` of the POLLUX project (github.com/ai-forever/POLLUX): scores are
    divided by the maximum of their scale. Criteria on 0/1 are gates: violating one sets all scores of an answer to 0,
    and gates are left out of the mean. There, any score except 0 violates a gate. Here, the majority of the judgments
    decides, each rounded to its nearest level.
    """
    found = criteria if isinstance(criteria, (PolluxCriteria, Mapping)) else PolluxCriteria.of(criteria)
    given = found.criteria if isinstance(found, PolluxCriteria) else found
    mapping = {key: as_gate(criterion) for key, criterion in given.items()}
    inputs = ("question", "answer", "reference?")
    rubric = Rubric(id="pollux_criteria", inputs=inputs, template="pollux@v1", criteria=tuple(mapping.values()))
    declared = Declared.of(
        rubric, profile, judges=judges, samples=samples, template=template, vote=vote, ties=ties,
        min_self_agreement=min_self_agreement, aggregate=aggregate, quorum=quorum,
    )  # fmt: skip
    named = tuple(mapping if shown is None else shown)
    return batched_metric(PolluxScore(declared, mapping, name, missing, named, options))


class PolluxScore(RubricScore):
    """The sample-level function of `pollux_metric`.

    Attributes
    ----------
    criteria, shown
        Id -> criterion; ids that have figures of their own.
    missing
        As given.
    """

    def __init__(
        self, declared: Declared, criteria: Mapping[str, Criterion], name: str, missing: Missing,
        shown: tuple[str, ...], options: Mapping[str, Any],
    ) -> None:  # fmt: skip
        super().__init__(declared, name, {}, dict(options))
        self.criteria, self.missing, self.shown = criteria, missing, shown
        if totals := [option for option in _TOTALS if option in options]:
            why = "it would apply to each criterion separately; omit it"
            raise ConfigError(f"{listed(totals)} is not supported by a metric of several criteria, because {why}")
        if missing not in MISSING_CRITERIA:
            raise ConfigError(f"unknown missing={missing!r}; allowed: {', '.join(MISSING_CRITERIA)}")
        if taken := [key for key in shown if key in RESERVED]:
            fact = f"a criterion must not have the id {listed(taken)}, because a figure has this name"
            raise ConfigError(f"{fact}; choose another id")
        if unknown := [key for key in shown if key not in criteria]:
            raise ConfigError(f"shown= has unknown criteria: {listed(unknown)}; known: {listed(criteria, most=20)}")

    def __repr__(self) -> str:
        return f"PolluxScore({len(self.criteria)} criteria, name={self.name!r}, missing={self.missing!r})"

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> MetricSettings | None:
        """Raise what prevents judging a task, before anything is loaded or paid; see `RubricScore.check`."""
        for doc in docs:
            self._applying(doc)
        return super().check(task, docs)

    def _figures(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return corpus_of(self.name, rows, self.shown)

    def _judge(
        self, settings: MetricSettings, docs: Sequence[Any], responses: Sequence[Any], filled: Sequence[int]
    ) -> tuple[list[dict[str, Any]], list[pd.DataFrame], int]:
        applying = [self._applying(doc) for doc in docs]
        items = items_of(docs, responses, settings.spec.rubric, {})
        judged, tables = judge_criteria(settings, items, {at: applying[at] for at in filled}, self._options)
        n_known = len(self.criteria.keys() | {key for mine in applying for key in mine})
        rows = []
        for at, mine in enumerate(applying):
            found = judged.get(at, {})
            row = sample_row(self.name, mine, found, self.missing)
            row[f"{self.name}_n_skipped"] = float(n_known - len(mine))
            if settings.report_disagreement:
                row[f"{self.name}_disagreement"] = mean_row("x", [one["x_disagreement"] for one in found.values()])["x"]
            rows.append(row)
        return rows, tables, sum(len(applying[at]) for at in filled)

    def _applying(self, doc: Any) -> dict[str, Criterion]:
        """The criteria of a document by id, or by name if the document defines them, in its order."""
        found: dict[str, Criterion] = {}
        where = f"task {doc.task_name!r}, document {doc.id!r}"
        for given in (doc.specific or {}).get("criteria") or ():
            if isinstance(given, Mapping):
                criterion = criterion_of(given, where)
                found[criterion.name] = criterion
            elif given in self.criteria:
                found[given] = self.criteria[given]
            else:
                raise ConfigError(f"{where}: unknown criterion {given!r}; known: {listed(self.criteria, most=20)}")
        if not found:
            raise ConfigError(f"{where}: the document has no criteria; list them in doc.specific['criteria']")
        return found


def judge_criteria(
    settings: MetricSettings, items: pd.DataFrame, applying: Mapping[int, Mapping[str, Criterion]],
    options: Mapping[str, Any],
) -> tuple[dict[int, dict[str, dict[str, Any]]], list[pd.DataFrame]]:  # fmt: skip
    """Judge each item by its own criteria; groups of one criterion run at the same time.

    Parameters
    ----------
    settings
        The settings of the metric: judges, samples, rules.
    items
        The items, with `item_id`; an item's number is that of its row.
    applying
        Number of the item -> id -> criterion.
    options
        Options of the engine.

    Returns
    -------
    tuple
        Number of the item -> id of the criterion -> its row, as `sample_rows` makes it with the name ``x``; and the
        judgments tables, without those of criteria for which no judge could be called.
    """
    groups: dict[tuple[str, Criterion], list[int]] = {}
    for number, criteria in applying.items():
        for key, criterion in criteria.items():
            groups.setdefault((key, criterion), []).append(number)
    stopping = threading.Event()

    def judge_group(criterion: Criterion, mine: list[int]) -> tuple[list[dict[str, Any]], list[pd.DataFrame]]:
        tell = options.get("on_progress", ProgressLog(criterion.name))
        return judge_rows(
            "x", _spec(settings.spec, criterion), items.iloc[mine],
            {**settings.calling(options), "on_progress": _until(stopping, tell)},
            criterion.name, report_disagreement=settings.report_disagreement,
        )  # fmt: skip

    # Ctrl-C, SIGTERM and SIGHUP, which only the main thread gets, end all groups
    with ending_signals(), ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(groups)))) as pool:
        try:
            judged = list(pool.map(judge_group, [criterion for _, criterion in groups], groups.values()))
        except (KeyboardInterrupt, SystemExit):
            _log.warning("stopped; waiting for the replies of calls in flight, so that they are not paid for again")
            stopping.set()
            raise
    found: dict[int, dict[str, dict[str, Any]]] = {number: {} for number in applying}
    for ((key, _), mine), (rows, _) in zip(groups.items(), judged, strict=True):
        for number, row in zip(mine, rows, strict=True):
            found[number][key] = row
    return found, [table for _, tables in judged for table in tables]


def _until(stopping: threading.Event, tell: Callable[[Any], object]) -> Callable[[Any], object]:
    """For `on_progress`: stops the run of this thread, as Ctrl-C does in the main thread."""
    told = False

    def hear(progress: Any) -> None:
        nonlocal told
        if stopping.is_set() and not told:
            told = True
            raise KeyboardInterrupt
        tell(progress)

    return hear


def _spec(spec: Spec, criterion: Criterion) -> Spec:
    """The same judges and templates for a single criterion."""
    whole = spec.rubric
    rubric = Rubric(id=whole.id, inputs=whole.inputs, template=whole.template, criteria=(criterion,))
    builders = tuple(PromptBuilder(rubric, builder.template) for builder in spec.prompt_builders)
    return replace(spec, rubric=rubric, prompt_builders=builders, criteria_per_call=1)


Missing = Literal["na", "renormalise"]
PolluxPart = dict[str, Any]
"""The result of one criterion for one answer: `score` (rubric units), `share` (score / maximum of the scale; None
for critical criteria and those without a number), `score_norm` (0-1), `passed`, `coverage`, `critical`, `error` (why
there is no number; ``tied``: scored all the same), `explanation`."""


RESERVED = frozenset({
    "stderr", "n", "coverage", "n_unscored", "n_empty", "n_skipped", "critical_rate", "plain", "plain_stderr",
    "plain_n", "grand_mean", "alpha",
})  # fmt: skip
"""Suffixes of a task's figures; no criterion may have one of these as its id."""


def part_of(criterion: Criterion, row: Mapping[str, Any]) -> PolluxPart:
    """The result of a criterion, from its row of `judge_criteria`."""
    scored = not math.isnan(row["x"])
    counted = scored and not criterion.critical
    return {
        "score": row["x_raw"] if scored else None,
        "share": row["x_raw"] / max(float(code) for code in criterion.scale.codes) if counted else None,
        "score_norm": row["x"] if scored else None, "passed": row["x_passed"], "coverage": row["x_coverage"],
        "critical": criterion.critical, "error": row["x_error"], "explanation": row["x_explanation"],
    }  # fmt: skip


def is_violated(part: PolluxPart) -> bool | None:
    """Whether a critical criterion is violated, by the majority of the judgments; None: not scored, or undecided."""
    return None if part["error"] or part["passed"] is None else not part["passed"]


def is_unscored(part: PolluxPart) -> bool:
    """Whether a criterion has no outcome: neither a number nor a tie of its judgments."""
    return bool(part["error"]) and not is_tied(part["error"])


def score_answer(parts: Mapping[str, PolluxPart], missing: Missing = "na") -> tuple[float, float, list[str]]:
    """Published score and plain mean of one answer, and the critical criteria that it violates.

    Parameters
    ----------
    parts
        Criterion -> its result, for the criteria that apply.
    missing
        ``na``: an answer with an unscored criterion has no score, unless a violated critical one decides it;
        ``renormalise``: the mean of those that are scored.

    Returns
    -------
    tuple
        The mean over the criteria that are not critical of score / maximum, 0.0 if a critical criterion is violated;
        the mean of `score_norm` over all; ids of the critical criteria violated. NaN if there is none.

    Examples
    --------
    >>> clear = {"share": 0.5, "score_norm": 0.5, "passed": None, "critical": False, "error": ""}
    >>> gate = {"share": None, "score_norm": 1.0, "passed": True, "critical": True, "error": ""}
    >>> score_answer({"clear": clear, "gate": gate})
    (0.5, 0.75, [])
    >>> score_answer({"clear": clear, "gate": gate | {"score_norm": 0.0, "passed": False}})
    (0.0, 0.25, ['gate'])
    """
    critical = {key: is_violated(part) for key, part in parts.items() if part["critical"]}
    violated = [key for key, verdict in critical.items() if verdict]
    published = _mean([part["share"] for part in parts.values() if not part["critical"]], missing)
    if violated or (missing == "na" and None in critical.values()):
        published = 0.0 if violated else math.nan
    return published, _mean([part["score_norm"] for part in parts.values()], missing), violated


def _mean(values: Sequence[float | None], missing: Missing) -> float:
    known = [value for value in values if value is not None and not math.isnan(value)]
    return math.nan if missing == "na" and len(known) < len(values) else _plain_mean(known)


def _plain_mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def sample_row(
    name: str, applying: Mapping[str, Criterion], judged: Mapping[str, Mapping[str, Any]], missing: Missing
) -> dict[str, Any]:
    """The row of a sample; if nothing was judged, its answer was empty."""
    parts = {key: part_of(applying[key], row) for key, row in judged.items()}
    published, plain, violated = score_answer(parts, missing)
    decided = [part for part in parts.values() if part["critical"] and is_violated(part) is not None]
    said = [f"{key}: {part['explanation']}" for key, part in parts.items() if part["explanation"]]
    n_scored = sum(not is_unscored(part) for part in parts.values())
    judgments = [one for row in judged.values() for one in orjson.loads(row["x_judgments"])]
    return {
        name: published, f"{name}_plain": plain, f"{name}_violated": float(bool(violated)) if decided else math.nan,
        f"{name}_critical": ", ".join(violated),
        f"{name}_coverage": sum(part["coverage"] for part in parts.values()) / len(applying),
        f"{name}_n_criteria": float(len(applying)), f"{name}_n_unscored": float(len(applying) - n_scored),
        f"{name}_error": "" if not math.isnan(published) else _why(parts), f"{name}_explanation": "\n".join(said),
        f"{name}_criteria": orjson.dumps(parts).decode(), f"{name}_judgments": orjson.dumps(judgments).decode(),
    }  # fmt: skip


def _why(parts: Mapping[str, PolluxPart]) -> str:
    """Why an answer has no number: the reasons of its criteria, after ``tied`` if there are only ties."""
    if not parts:
        return EMPTY_ANSWER
    open_ones = [key for key, part in parts.items() if part["critical"] and is_violated(part) is None]
    said = [f"{key}: {part['error']}" for key, part in parts.items() if part["error"]]
    said += [f"{key}: undecided" for key in open_ones if not parts[key]["error"]]
    if said and not any(map(is_unscored, parts.values())):
        return f"{TIED} ({'; '.join(said)})"
    return "; ".join(said) or "only critical criteria apply"


def corpus_of(name: str, rows: Sequence[Mapping[str, Any]], shown: Iterable[str]) -> dict[str, float]:
    """The figures of a task; see `pollux_metric`."""
    parts = [(orjson.loads(row[f"{name}_criteria"]), bool(row[f"{name}_critical"])) for row in rows]
    figures = mean_row(name, [row[name] for row in rows]) | coverage_row(name, rows)
    figures |= {
        f"{name}_n_skipped": float(sum(row[f"{name}_n_skipped"] for row in rows)),
        f"{name}_critical_rate": mean_row("x", [row[f"{name}_violated"] for row in rows])["x"],
    }
    figures |= mean_row(f"{name}_plain", [row[f"{name}_plain"] for row in rows])
    figures[f"{name}_grand_mean"] = _plain_mean([
        0.0 if zeroed else part["share"] for found, zeroed in parts for part in found.values()
        if part["share"] is not None
    ])  # fmt: skip
    for key in shown:
        mine = [found[key] for found, _ in parts if key in found]
        values = [math.nan if part["score_norm"] is None else part["score_norm"] for part in mine]
        n_scored = sum(not is_unscored(part) for part in mine)
        figures |= mean_row(f"{name}_{key}", values)
        figures[f"{name}_{key}_coverage"] = n_scored / len(mine) if mine else math.nan
    return figures


def pollux_corpus(samples: Sequence[Mapping[str, Any]], *, name: str = "pollux") -> dict[str, float]:
    """The figures of a task: LightEval's corpus-level function for `PolluxLLMJudgeMetric`.

    Parameters
    ----------
    samples
        The rows of `compute`, one per document.
    name
        Prefix of the figures' names. Two POLLUX metrics in one task need two prefixes, else the second overwrites the
        first: ``functools.partial(pollux_corpus, name="clarity")``.

    Returns
    -------
    dict
        ``pollux_score`` (mean over the scored, in units of the scale; NaN without any), ``pollux_score_stderr`` (its
        standard error, sd / √n; NaN below two), ``pollux_coverage`` (share scored, 0-1; NaN without samples) and
        ``pollux_n_unscored``, all floats. A 0.0 by ``on_unparsed="zero"`` counts in the mean, and as unscored.

    Examples
    --------
    >>> rows = [{"pollux_score": 2.0, "pollux_error": ""}, {"pollux_score": 1.0, "pollux_error": ""},
    ...         {"pollux_score": float("nan"), "pollux_error": "timeout"}]
    >>> pollux_corpus(rows)["pollux_score"], round(pollux_corpus(rows)["pollux_coverage"], 3)
    (1.5, 0.667)
    """
    n_unscored = sum(bool(sample["pollux_error"]) for sample in samples)
    means = mean_row(f"{name}_score", [float(sample["pollux_score"]) for sample in samples])
    means.pop(f"{name}_score_n")
    coverage = (len(samples) - n_unscored) / len(samples) if samples else math.nan
    return means | {f"{name}_coverage": coverage, f"{name}_n_unscored": float(n_unscored)}
