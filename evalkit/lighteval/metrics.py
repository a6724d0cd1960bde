"""`judge_metric` and `jury_metric`: LightEval metrics that are scored by evalkit's judges, engine and cache."""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.requests import SamplingMethod

from evalkit.core.judges import Judge
from evalkit.engine import Options, Spec
from evalkit.errors import ConfigError, EvalkitError, InputError, JudgeError, counted, listed
from evalkit.evaluation import Evaluation, evaluate_spec
from evalkit.evaluation.costs import Cost
from evalkit.lighteval.declared_metrics import Declared
from evalkit.lighteval.evaluation_rows import (
    EMPTY_ANSWER,
    check_rubric,
    corpus_row,
    is_scored,
    sample_rows,
    unjudged_row,
)
from evalkit.lighteval.items import Fields, answer_of, check_fields, items_of
from evalkit.lighteval.metric_settings import Settled, judges_used, place_of, settle, without_place
from evalkit.lighteval.progress import ProgressLog
from evalkit.runs.contract import Scoring, TaskBindings

_log = logging.getLogger("evalkit")


def judge_metric(
    rubric: Any,
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
    name: str | None = None,
    fields: Fields | None = None,
    **options: Any,
) -> SampleLevelMetric:
    """A LightEval metric judged by a rubric, by one judge or the run's jury: ``metrics=[judge_metric("safety")]``.

    Who judges is the run's to say (``EVALUATOR_SCORING_MODE``, ``EVALUATOR_SCORING_CONFIG``); what is given here
    fills in what run, binding and profile leave open.

    Parameters
    ----------
    rubric
        A Rubric, its name (``safety``, ``support@v3``) or path; or a Profile or its path.
    judges, profile, samples, template
        Who, by which rules, how often (default 3) and by which prompt.
    vote, ties, min_self_agreement, aggregate, quorum
        Rules of `evalkit.vote` and `evalkit.aggregate`.
    name
        Name of the metric; by default the rubric's id.
    fields
        Input of the rubric -> key in `doc.specific`, or a function of the document.
    **options
        What else `evalkit.judge` takes: ``budget_usd``, ``concurrency``, ``offline``, ``cache`` …

    Returns
    -------
    SampleLevelMetric
        Per sample `<name>` (0-1; NaN: unscored), `<name>_raw` (rubric units; of rubrics with one criterion, others
        have `<name>_<criterion>`, 0-1), `_passed` (None: open), `_coverage` (share of the judgments that have a
        score), `_agreement` (largest share of one verdict; NaN with one sample), `_explanation`, `_error` (``""``
        when scored), `_judgments` (the judgments table's rows as JSON), and for juries with `report_disagreement`
        `_disagreement`. Corpus: `<name>`, `_stderr`, `_n` (samples behind the mean), `_pass_rate`, `_n_verdicts` (what
        the pass rate is of), `_coverage`, `_n_unscored`, `_n_empty`, and for juries `_alpha`. In deterministic mode
        nothing is judged: `_coverage` is 0 and there is no score.

    Raises
    ------
    ConfigError, RubricError
        For what is unknown or contradictory; what the run gets wrong is said when LightEval takes the task up,
        before a model is loaded.
    """
    rules = {"vote": vote, "ties": ties, "min_self_agreement": min_self_agreement}
    rules |= {"aggregate": aggregate, "quorum": quorum}
    modes = ("deterministic", "judge", "jury")
    return _metric(Declared.of(rubric, judges, profile, samples, template, rules, modes), name, fields, options)


def jury_metric(rubric: Any, **given: Any) -> SampleLevelMetric:
    """A LightEval metric that needs a jury: as `judge_metric`, with the same options, but it refuses judge mode.

    Raises
    ------
    ConfigError, RubricError
        As `judge_metric`.
    """
    metric = judge_metric(rubric, **given)
    score: Any = metric.sample_level_fn
    if len(score.declared.judges) == 1:
        raise ConfigError("a jury takes two judges or more, and judges= names one; use judge_metric for one")
    score.declared = replace(score.declared, modes=("deterministic", "jury"))
    return metric


def _metric(
    declared: Declared, name: str | None, fields: Fields | None, options: Mapping[str, Any]
) -> SampleLevelMetric:
    if declared.rubric.mode == "pairwise":
        raise ConfigError(
            f"rubric {declared.rubric.id!r} compares two answers, and LightEval scores one model at a time; "
            "use a pointwise rubric"
        )
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ConfigError(f"name={name!r} is not a name for a metric; give a text, or leave it out for the rubric's id")
    check_rubric(declared.rubric)
    wrong = [one for one in fields or {} if one not in declared.rubric.input_names]
    if wrong:
        raise ConfigError(
            f"fields names {listed(wrong)}, which rubric {declared.rubric.id!r} does not take; its inputs are "
            f"{listed(declared.rubric.input_names)}"
        )
    score = RubricScore(declared, name or declared.rubric.id, dict(fields or {}), dict(options))
    return batched_metric(score)


def batched_metric(score: Any) -> SampleLevelMetric:
    """The metric of a computation with a `name` and a `corpus` function that takes all samples of a task at once."""
    return SampleLevelMetric(
        metric_name=score.name,
        higher_is_better=True,
        category=SamplingMethod.GENERATIVE,
        sample_level_fn=score,
        corpus_level_fn=score.corpus,
        batched_compute=True,
    )


class RubricScore(SampleLevelComputation):
    """What `judge_metric` puts into a metric: judges all samples of a task at once.

    Attributes
    ----------
    declared
        What the metric says of itself.
    name
        Name of the metric.
    is_judged
        True: a judge scores it.
    """

    is_judged = True

    def __init__(self, declared: Declared, name: str, fields: Fields, options: Mapping[str, Any]) -> None:
        self.declared, self.name = declared, name
        self._fields, self._options, self._checked = fields, options, False
        unknown = [option for option in options if option not in Options.__slots__]
        if unknown:
            raise ConfigError(
                f"unknown option {', '.join(unknown)}; evalkit.judge takes {', '.join(Options.__slots__)}"
            )
        Options(**options)

    def __repr__(self) -> str:
        rubric = self.declared.rubric
        return f"RubricScore({rubric.id}@{rubric.version}, name={self.name!r})"

    __str__ = __repr__  # LightEval's own lists every attribute, and is part of the key of the model's answers

    def __deepcopy__(self, memo: dict[int, Any]) -> RubricScore:
        # LightEval copies the tasks that a run asks for, and those alone, before it loads data or a model: the
        # earliest moment at which this metric is known to be wanted.
        made = RubricScore(self.declared, self.name, copy.copy(self._fields), copy.copy(self._options))
        memo[id(self)] = made
        if not self._checked and not TaskBindings.from_environ():
            made.check()
        made._checked = True
        return made

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> Settled | None:
        """Raise what prevents judging a task, before anything is loaded or paid; None in deterministic mode.

        Raises
        ------
        ConfigError, RubricError, JudgeError, InputError, MissingExtraError
            What is unknown, missing or contradictory; a key that is not set; documents that lack an input.
        """
        scoring = Scoring.from_environ()
        if scoring.mode == "deterministic":
            return None
        settled = settle(self.declared, task, scoring, metric=self.name)
        try:
            if settled.spec.rubric is not self.declared.rubric:
                check_rubric(settled.spec.rubric)
            if not self._options.get("offline"):
                for judge in settled.spec.judges:
                    _check_ready(judge)
            check_fields(docs, settled.spec.rubric, self._fields)
        except EvalkitError as problem:
            said = without_place(str(problem), task, self.name)
            raise type(problem)(f"{place_of(task, self.name)}: {said}") from None
        return settled

    def compute(  # type: ignore[override]  # batched: LightEval hands all samples of a task over
        self, responses: Sequence[Any], docs: Sequence[Any], **_: Any
    ) -> list[dict[str, Any]]:
        """One row per sample; see `judge_metric`."""
        scoring = Scoring.from_environ()
        filled = filled_answers(self.name, scoring.mode, responses, docs)
        if not docs:
            return []
        task = docs[0].task_name
        if scoring.mode == "deterministic":
            return [{f"{self.name}_coverage": 0.0, f"{self.name}_error": "deterministic"} for _ in docs]
        settled = settle(self.declared, task, scoring, metric=self.name)
        evaluation, problem = self._evaluation(settled, [docs[n] for n in filled], [responses[n] for n in filled])
        rows = self._rows(settled, evaluation, problem, filled, len(docs))
        n_scored = sum(is_scored(self.name, row) for row in rows)
        n_wanted = len(filled) * settled.spec.samples * len(settled.spec.rubric.criteria) * len(settled.spec.judges)
        tables = [] if evaluation is None else [evaluation.judgments]
        counts = {"n_items": len(rows), "n_scored": n_scored, "n_empty": len(rows) - len(filled)}
        settled.leave_receipt(task, self.name, **counts, **receipt_counts(settled.spec, tables, n_wanted))
        return rows

    def corpus(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The figures of a task as floats; see `judge_metric`."""
        scoring = Scoring.from_environ()
        if scoring.mode == "deterministic":
            return {f"{self.name}_coverage": 0.0}
        return corpus_row(self.name, rows, jury=scoring.mode == "jury")

    def _evaluation(
        self, settled: Settled, docs: Sequence[Any], responses: Sequence[Any]
    ) -> tuple[Evaluation | None, str]:
        """The evaluation of the answers that are not empty; where no judge could be asked at all, the reason."""
        if not docs:
            return None, EMPTY_ANSWER
        items = items_of(docs, responses, settled.spec.rubric, self._fields)
        try:
            told: dict[str, Any] = {"progress": False, "on_progress": ProgressLog(self.name)}
            return evaluate_spec(settled.spec, items, Options(**{**told, **self._options})), ""
        except JudgeError as problem:
            # the model's answers were paid for as well: the run goes on, with a coverage of 0
            _log.error("%s: %s", self.name, problem)
            return None, "judge_down"

    def _rows(
        self, settled: Settled, evaluation: Evaluation | None, problem: str, filled: Sequence[int], n_docs: int
    ) -> list[dict[str, Any]]:
        report = settled.report_disagreement and settled.mode == "jury"
        rubric = settled.spec.rubric
        rows = [unjudged_row(self.name, rubric, EMPTY_ANSWER, report_disagreement=report) for _ in range(n_docs)]
        found = {} if evaluation is None else sample_rows(self.name, evaluation, report_disagreement=report)
        for place, number in enumerate(filled):
            rows[number] = found.get(str(place)) or unjudged_row(self.name, rubric, problem, report_disagreement=report)
        return rows


def filled_answers(name: str, mode: str, responses: Sequence[Any], docs: Sequence[Any]) -> list[int]:
    """The numbers of the answers that are not empty; those that will not be judged for that are counted in the log.

    Raises
    ------
    InputError
        When there are not as many responses as documents.
    """
    if len(responses) != len(docs):
        raise InputError(f"{counted(len(responses), 'response')} for {counted(len(docs), 'document')}; give one each")
    filled = [number for number, response in enumerate(responses) if answer_of(response).strip()]
    if len(filled) < len(docs) and mode != "deterministic":
        n_empty = len(docs) - len(filled)
        _log.warning("%s: %d of %d answers are empty and were not judged", name, n_empty, len(docs))
    return filled


def receipt_counts(spec: Spec, tables: Sequence[pd.DataFrame], n_wanted: int) -> dict[str, Any]:
    """What a receipt says of judges, judgments and costs, from judgments tables.

    Of the `n_wanted` judgments, those in no table were lost because no judge could be called.
    """
    judges = judges_used(spec, tables, (n_wanted - sum(map(len, tables))) // len(spec.judges))
    costs = [Cost.of(table) for table in tables]
    paid = [cost.paid_usd for cost in costs]
    return {
        "judges": judges,
        "n_judgments": n_wanted,
        "n_unscored": n_wanted - sum(judge.n_scored or 0 for judge in judges),
        "n_live": sum(cost.n_live for cost in costs),
        "n_cached": sum(cost.n_cached + cost.n_recorded for cost in costs),
        "cost_usd": None if None in paid else float(sum(usd for usd in paid if usd is not None)),
    }


def _check_ready(judge: Judge) -> None:
    """As the engine checks it; what is advised is what a run can do, which has no options for judges."""
    from evalkit.engine.providers import check_ready

    try:
        check_ready(judge)
    except JudgeError as problem:
        raise JudgeError(
            f"{str(problem).partition('; ')[0]}; set it, or name another variable as api_key_env of this judge "
            "in the scoring config (or in the profile or task that names it)"
        ) from None
