"""`pollux_metric`: answers judged by the POLLUX criteria that apply to each, by the run's judge or jury."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
from lighteval.metrics.utils.metric_utils import SampleLevelMetric

from evalkit.core.lists_of_choices import MISSING_CRITERIA
from evalkit.engine.calls.event_loop import ending_signals
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError, listed
from evalkit.evaluation.lighteval_rows import mean_row
from evalkit.lighteval.items import items_of
from evalkit.lighteval.metric_settings import Declared, MetricSettings
from evalkit.lighteval.metrics import ProgressLog, RubricScore, batched_metric, judge_rows
from evalkit.lighteval.pollux.criteria import PolluxCriteria, as_gate, criterion_of
from evalkit.lighteval.pollux.scores import RESERVED, Missing, corpus_of, sample_row
from evalkit.rubrics import Criterion, Rubric
from evalkit.rubrics.prompt_builder import PromptBuilder
from evalkit.runs.contract.scoring_config import Scoring

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
            raise ConfigError(
                f"{listed(totals)} is not supported by a metric of several criteria, because it would apply to each "
                "criterion separately; omit it"
            )
        if missing not in MISSING_CRITERIA:
            raise ConfigError(f"unknown missing={missing!r}; allowed: {', '.join(MISSING_CRITERIA)}")
        if taken := [key for key in shown if key in RESERVED]:
            raise ConfigError(
                f"a criterion must not have the id {listed(taken)}, because a figure has this name; choose another id"
            )
        if unknown := [key for key in shown if key not in criteria]:
            raise ConfigError(f"shown= has unknown criteria: {listed(unknown)}; known: {listed(criteria, most=20)}")

    def __repr__(self) -> str:
        return f"PolluxScore({len(self.criteria)} criteria, name={self.name!r}, missing={self.missing!r})"

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> MetricSettings | None:
        """Raise what prevents judging a task, before anything is loaded or paid; see `RubricScore.check`."""
        for doc in docs:
            self._applying(doc)
        return super().check(task, docs)

    def _resolved(self, task: str | None, scoring: Scoring) -> MetricSettings:
        settings = super()._resolved(task, scoring)
        if deciders := [judge.name for judge in settings.spec.judges if judge.decides]:
            raise ConfigError(f"{listed(deciders)}: POLLUX asks for a text, and decision models write none")
        return settings

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
