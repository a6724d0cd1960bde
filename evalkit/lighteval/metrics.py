"""`judge_metric`, `jury_metric`: LightEval metrics scored by evalkit's judges, of rubrics or of items' own criteria."""

from __future__ import annotations

import copy
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import orjson
import pandas as pd
from lighteval.metrics.metrics_sample import SampleLevelComputation
from lighteval.metrics.utils.metric_utils import SampleLevelMetric
from lighteval.tasks.requests import SamplingMethod

from evalkit._version import __version__
from evalkit.core.judges import Judge
from evalkit.core.settings import Options
from evalkit.engine.judging.specification import Spec
from evalkit.errors import ConfigError, InputError, JudgeError, error_at, listed
from evalkit.evaluation import lighteval_rows
from evalkit.evaluation.cost import Cost
from evalkit.evaluation.evaluating import evaluate_spec
from evalkit.evaluation.lighteval_rows import EMPTY_ANSWER, coverage_row, mean_row
from evalkit.lighteval.items import Fields, answers_of, check_fields, fields_text, items_of
from evalkit.lighteval.metric_settings import Declared, MetricSettings, naming, resolve
from evalkit.rubrics import Scale
from evalkit.rubrics.item_criteria import (
    CriteriaForm,
    criteria_in,
    exploded,
    refuse_numbers_beside,
    refuse_other_scales,
)
from evalkit.rubrics.rubric import OWN_CRITERIA, REQUIREMENT
from evalkit.runs.contract.receipts import JudgeUsed, Progress, Receipt, note_progress, write_receipt
from evalkit.runs.contract.scoring_config import CONFIG_VARIABLE, MODE_VARIABLE, Scoring, TaskBindings, asked_mode
from evalkit.stats.aggregation.item_points import points

_OF_JUDGE = ("name", "provider", "service", "model", "weight", "temperature", "max_tokens", "base_url", "score",
             "samples")  # fmt: skip


def receipt_of(
    settings: MetricSettings, task: str, metric: str, tables: Sequence[pd.DataFrame], n_wanted: int, **counts: Any
) -> Receipt:
    """The receipt of a task.

    Parameters
    ----------
    settings
        The settings of the metric.
    task, metric
        Their names.
    tables
        The judgments tables.
    n_wanted
        The number of judgments that were needed; those in no table were lost because no judge could be called.
    **counts
        `n_items`, `n_scored`, `n_empty`; and the metric's `arguments`.
    """
    spec, profile = settings.spec, settings.profile
    judges = list(_judges_used(spec, tables, (n_wanted - sum(map(len, tables))) // sum(spec.counts)))
    costs = [Cost.of(table) for table in tables]
    rules = spec.rules.to_dict()
    return Receipt(
        task=task, metric=metric, scoring_mode=settings.mode,  # type: ignore[arg-type]  # pydantic checks it
        **settings.binding.model_dump(include={"plugin", "plugin_version", "plugin_hash"}),
        rubric=spec.rubric.id, rubric_version=spec.rubric.version, rubric_hash=spec.rubric.content_hash,
        profile=None if profile is None else profile.profile,
        profile_version=None if profile is None else profile.version,
        samples=spec.samples, criteria_per_call=spec.criteria_per_call if spec.is_grouped else None,
        aggregation=rules.pop("aggregate"), **rules, report_disagreement=settings.report_disagreement,
        origins=dict(settings.origins), evalkit_version=__version__, judges=judges, n_judgments=n_wanted,
        n_unscored=n_wanted - sum(judge.n_scored or 0 for judge in judges),
        n_live=sum(cost.n_live for cost in costs),
        n_cached=sum(cost.n_cached + cost.n_recorded for cost in costs), cost_usd=_paid(costs), **counts,
    )  # fmt: skip


def leave_receipt(receipt: Receipt) -> None:
    """Write a receipt if the run wants receipts, and log how much each judge left unscored.

    Scores are kept even if the receipt cannot be written.
    """
    for warning in receipt.warnings:
        _log.warning("%s", warning)
    try:
        write_receipt(receipt)
    except ConfigError as problem:
        _log.error("%s, %s: no receipt was written: %s", receipt.task, receipt.metric, problem)


def _paid(costs: Sequence[Cost]) -> float | None:
    """US$ for the live replies; None if the price of a reply is unknown, or there is none to know a price of."""
    parts = [None if cost.reused_usd is None else cost.paid_usd for cost in costs]
    return None if None in parts or not parts else float(sum(usd for usd in parts if usd is not None))


def _judges_used(spec: Spec, tables: Sequence[pd.DataFrame], n_lost: int) -> Iterator[JudgeUsed]:
    """Each judge with its counts; `n_lost` items and criteria are in no table."""
    names = ["judge", "error", "model", "fingerprint"]
    parts = [table.reindex(columns=names).astype(object) for table in tables if len(table)]
    rows = pd.concat(parts) if parts else pd.DataFrame(columns=names)
    for judge, builder, count in zip(spec.judges, spec.prompt_builders, spec.counts, strict=True):
        n_down = n_lost * count
        mine = rows[rows["judge"] == judge.name]
        templates = spec.templates_of(builder)
        reasons = {str(name): int(n) for name, n in mine["error"].value_counts().items()}
        if n_down:
            reasons["judge_down"] = reasons.get("judge_down", 0) + n_down
        own: dict[str, Any] = {name: getattr(judge, name) for name in _OF_JUDGE}
        yield JudgeUsed(
            **own, params=dict(judge.params), template=", ".join(template.label for template in templates),
            template_hash=", ".join(template.hash for template in templates), n_judgments=len(mine) + n_down,
            n_scored=int(mine["error"].isna().sum()), reasons=reasons,
            served={str(name): int(n) for name, n in mine["model"].value_counts().items()},
            fingerprints={str(name): int(n) for name, n in mine["fingerprint"].value_counts().items()},
        )  # fmt: skip


_log = logging.getLogger("evalkit")
_progress_log = logging.getLogger("evalkit.lighteval.progress")
_PROGRESS_EVERY_S = 5.0
_NOT_JUDGED = (
    "%s: judges are named, but none will be called, because the scoring mode is not set; set %s to judge or jury"
)


def judge_metric(
    rubric: Any,
    *,
    judges: Any = None,
    profile: Any = None,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | str | None = None,
    vote: str | Callable[..., Any] | None = None,
    ties: str | None = None,
    min_self_agreement: float | None = None,
    aggregate: str | Callable[..., Any] | None = None,
    quorum: float | None = None,
    name: str | None = None,
    fields: Fields | None = None,
    **options: Any,
) -> SampleLevelMetric:
    """A LightEval metric judged by a rubric, by one judge or the run's jury: ``metrics=[judge_metric("safety")]``.

    The run sets the judges (``EVALUATOR_SCORING_MODE``, ``EVALUATOR_SCORING_CONFIG``). The arguments here apply to
    whatever run, binding and profile leave open.

    Parameters
    ----------
    rubric
        A Rubric, its name (``safety``, ``support@v3``) or path; or a Profile or its path.
    judges, profile, samples, template, criteria_per_call
        Judges, profile, samples per judge (default 3), prompt template, and the number of criteria that one reply
        judges (default 1; or ``"all"``).
    vote, ties, min_self_agreement, aggregate, quorum
        Rules of `evalkit.vote` and `evalkit.aggregate`, also your own functions.
    name
        Name of the metric; by default the rubric's id.
    fields
        Input of the rubric -> key in `doc.specific`, or a function of the document. Of the rubric ``requirement`` also
        ``criteria``: documents bring their own there (by default in ``criteria`` or ``rubrics``).
    **options
        Further options of `evalkit.judge`: ``budget_usd``, ``concurrency``, ``offline``, ``cache`` …

    Returns
    -------
    SampleLevelMetric
        Per sample `<name>` (0-1; NaN: unscored), `<name>_raw` (rubric units; of rubrics with one criterion, others
        have `<name>_<criterion>`, 0-1), `_passed` (None: open), `_coverage` (share of the judgments that have a
        score), `_agreement` (largest share of one verdict; NaN with one sample), `_explanation`, `_error` (``""``
        when scored), `_judgments` (the judgments table's rows as JSON), and for juries with `report_disagreement`
        `_disagreement`. Corpus: `<name>`, `_stderr`, `_n` (samples behind the mean), `_pass_rate`, `_n_verdicts` (the
        samples behind the pass rate), `_coverage`, `_n_unscored`, `_n_empty`, and for juries `_alpha` and, with
        `report_disagreement`, the mean `_disagreement` with its `_stderr` and `_n`. In deterministic mode nothing is
        judged: `_coverage` is 0 and there is no score.

    Raises
    ------
    ConfigError, RubricError
        For unknown or contradictory arguments. Errors in the settings of the run are raised when LightEval prepares the
        task, before a model is loaded.
    """
    declared = Declared.of(
        rubric, profile, judges=judges, samples=samples, template=template, criteria_per_call=criteria_per_call,
        vote=vote, ties=ties, min_self_agreement=min_self_agreement, aggregate=aggregate, quorum=quorum,
    )  # fmt: skip
    if declared.rubric.mode == "pairwise":
        raise ConfigError(
            f"rubric {declared.rubric.id!r} compares two answers, but LightEval scores one model at a time; use a "
            "pointwise rubric"
        )
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise ConfigError(
            f"name={name!r} is not a valid name for a metric; pass a string, or omit it to use the rubric's id"
        )
    lighteval_rows.check_rubric(declared.rubric)
    inputs = declared.rubric.mapped_names
    if wrong := [one for one in fields or {} if one not in inputs]:
        raise ConfigError(
            f"fields= has {listed(wrong)}, but rubric {declared.rubric.id!r} has no such input; its inputs are "
            f"{listed(inputs)}"
        )
    has_points = declared.rubric.has_requirements and "requirement" not in (fields or {})
    kind = PointsScore if has_points else RubricScore
    return batched_metric(kind(declared, name or declared.rubric.id, dict(fields or {}), dict(options)))


def jury_metric(rubric: Any, **given: Any) -> SampleLevelMetric:
    """A LightEval metric that needs a jury: as `judge_metric`, with the same options, but without judge mode.

    Raises
    ------
    ConfigError, RubricError
        As `judge_metric`.
    """
    metric = judge_metric(rubric, **given)
    score: Any = metric.sample_level_fn
    if len(score.declared.settings.get("judges") or ()) == 1:
        raise ConfigError(
            "a jury needs two or more judges, but judges= names only one; use judge_metric for a single judge"
        )
    score.declared = replace(score.declared, modes=("deterministic", "jury"))
    return metric


def batched_metric(score: Any) -> SampleLevelMetric:
    """The metric of a computation with `name` and `corpus`, called once with all samples of a task."""
    return SampleLevelMetric(
        metric_name=score.name, higher_is_better=True, category=SamplingMethod.GENERATIVE, sample_level_fn=score,
        corpus_level_fn=score.corpus, batched_compute=True,
    )  # fmt: skip


class RubricScore(SampleLevelComputation):
    """The sample-level function of `judge_metric`: judges all samples of a task at once.

    Attributes
    ----------
    declared
        The settings of the metric itself.
    name
        Name of the metric.
    is_judged
        True: a judge scores it.
    """

    is_judged = True

    def __init__(self, declared: Declared, name: str, fields: Fields, options: Mapping[str, Any]) -> None:
        self.declared, self.name = declared, name
        self._fields, self._options, self._checked = fields, options, False
        self._arguments = fields_text(fields)
        if unknown := [option for option in options if option not in Options.__slots__]:
            raise ConfigError(f"unknown option {', '.join(unknown)}; allowed: {', '.join(Options.__slots__)}")
        Options(**options)

    def __repr__(self) -> str:
        rubric = self.declared.rubric
        return f"RubricScore({rubric.id}@{rubric.version}, name={self.name!r})"

    def __str__(self) -> str:  # LightEval's own lists every attribute, and is part of the key of the model's answers
        return repr(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> RubricScore:
        # LightEval copies the tasks of a run, and only those, before it loads data or a model: the earliest moment at
        # which this metric is known to be used.
        made = memo[id(self)] = copy.copy(self)
        if not self._checked and not TaskBindings.from_environ():
            made.check()
        made._checked = True
        return made

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> MetricSettings | None:
        """Raise what prevents judging a task, before anything is loaded or paid; None in deterministic mode.

        Raises
        ------
        ConfigError, RubricError, JudgeError, InputError, MissingExtraError
            For what is unknown, missing or contradictory; a key that is not set; documents that lack an input.
        """
        scoring = Scoring.from_environ()
        if scoring.mode == "deterministic":
            # plain `lighteval`: evalkit's own command removes a config without effect, and says so
            if asked_mode() is None and (os.environ.get(CONFIG_VARIABLE) or self.declared.settings.get("judges")):
                _log.warning(_NOT_JUDGED, self.name, MODE_VARIABLE)
            return None
        settings = self._resolved(task, scoring)
        with naming(task, self.name):
            if settings.spec.rubric is not self.declared.rubric:
                lighteval_rows.check_rubric(settings.spec.rubric)
            if not self._options.get("offline"):
                for judge in settings.spec.judges:
                    _check_ready(judge)
            check_fields(docs, settings.spec.rubric, self._fields)
        return settings

    def compute(  # type: ignore[override]  # batched: LightEval hands all samples of a task over
        self, responses: Sequence[Any], docs: Sequence[Any], **_: Any
    ) -> list[dict[str, Any]]:
        """One row per sample; see `judge_metric`."""
        scoring = Scoring.from_environ()
        filled = filled_answers(self.name, scoring.mode, responses, docs)
        if not docs or scoring.mode == "deterministic":
            return [{f"{self.name}_coverage": 0.0, f"{self.name}_error": "deterministic"} for _ in docs]
        task = docs[0].task_name
        settings = self._resolved(task, scoring)
        rows, tables, n_pairs = self._judge(settings, docs, responses, filled)
        n_scored = sum(lighteval_rows.is_scored(self.name, row) for row in rows)
        counts = {"n_items": len(rows), "n_scored": n_scored, "n_empty": sum(map(self._is_empty, rows))}
        n_wanted = n_pairs * sum(settings.spec.counts)
        leave_receipt(receipt_of(settings, task, self.name, tables, n_wanted, arguments=self._arguments, **counts))
        return rows

    def _resolved(self, task: str | None, scoring: Scoring) -> MetricSettings:
        with naming(task, self.name):
            return resolve(self.declared, task, scoring)

    def _is_empty(self, row: Mapping[str, Any]) -> bool:
        return bool(row[f"{self.name}_error"] == lighteval_rows.EMPTY_ANSWER)

    def corpus(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The figures of a task as floats; see `judge_metric`."""
        mode = Scoring.from_environ().mode
        if mode == "deterministic":
            return {f"{self.name}_coverage": 0.0}
        among = {f"{self.name}_alpha": lighteval_rows.alpha_of(self.name, rows)} if mode == "jury" else {}
        return self._figures(rows) | among | lighteval_rows.disagreement_row(self.name, rows)

    def _figures(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        return lighteval_rows.corpus_row(self.name, rows)

    def _judge(
        self, settings: MetricSettings, docs: Sequence[Any], responses: Sequence[Any], filled: Sequence[int]
    ) -> tuple[list[dict[str, Any]], list[pd.DataFrame], int]:
        """The rows, the judgments tables, and how many (answer, criterion) pairs were to be judged."""
        rubric, report = settings.spec.rubric, settings.report_disagreement
        rows = [
            lighteval_rows.unjudged_row(self.name, rubric, lighteval_rows.EMPTY_ANSWER, report_disagreement=report)
            for _ in docs
        ]
        tables: list[pd.DataFrame] = []
        if filled:
            items = items_of([docs[at] for at in filled], [responses[at] for at in filled], rubric, self._fields)
            options = {"on_progress": ProgressLog(self.name), **settings.calling(self._options)}
            judged, tables = judge_rows(self.name, settings.spec, items, options, self.name, report_disagreement=report)
            for at, row in zip(filled, judged, strict=True):
                rows[at] = row
        return rows, tables, len(filled) * len(rubric.criteria)


def judge_rows(
    name: str, spec: Spec, items: pd.DataFrame, options: Mapping[str, Any], shown: str, *, report_disagreement: bool
) -> tuple[list[dict[str, Any]], list[pd.DataFrame]]:
    """Judge items: a row for each, with the judgments table if a judge could be called.

    If none could, the rows have the error ``judge_down``: the run continues, because the model's answers were paid for
    as well. `shown` is the name in the log.
    """
    try:
        evaluation = evaluate_spec(spec, items, Options(**{"progress": False, **options}))
    except JudgeError as problem:
        _log.error("%s: %s", shown, problem)
        lost = lighteval_rows.unjudged_row(name, spec.rubric, "judge_down", report_disagreement=report_disagreement)
        return [dict(lost) for _ in range(len(items))], []
    judged = lighteval_rows.sample_rows(name, evaluation, report_disagreement=report_disagreement)
    return [judged[item] for item in items["item_id"]], [evaluation.judgments]


class ProgressLog:
    """Writes the progress of judging into the log and next to the receipts, at most every few seconds and at its end;
    for `on_progress`.
    """

    def __init__(self, what: str) -> None:
        self._what, self._last = what, time.monotonic()

    def __call__(self, progress: Any) -> None:
        """Log the engine's counters."""
        now = time.monotonic()
        done = progress.done + progress.n_failed
        if now - self._last >= _PROGRESS_EVERY_S or done == progress.total:
            self._last = now
            note_progress(Progress(done=done, total=progress.total))
            failed = f", {progress.n_failed} of them without a reply" if progress.n_failed else ""
            _progress_log.info("%s: %d of %d calls judged%s", self._what, done, progress.total, failed)


def filled_answers(name: str, mode: str, responses: Sequence[Any], docs: Sequence[Any]) -> list[int]:
    """The positions of the answers that are not empty; the log reports how many are.

    Raises
    ------
    InputError
        When there are not as many responses as documents.
    """
    filled = [number for number, answer in enumerate(answers_of(responses, docs)) if answer.strip()]
    if len(filled) < len(docs) and mode != "deterministic":
        _log.warning("%s: %d of %d answers are empty and were not judged", name, len(docs) - len(filled), len(docs))
    return filled


def _check_ready(judge: Judge) -> None:
    """Check that a judge can be called; the advice fits a LightEval run, which has no options for judges."""
    from evalkit.engine.providers import check_ready

    try:
        check_ready(judge)
    except JudgeError as problem:
        where = "where this judge is defined (scoring config, profile or task)"
        advice = f"set this variable, or name another one as api_key_env {where}"
        raise JudgeError(problem.fact, judge=judge.name, variable=problem.variable, advice=advice) from None


_FIGURES, _COUNTS = ("points", "possible", "low", "high", "renormalised"), ("n_criteria", "n_open")


class PointsScore(RubricScore):
    """The sample-level function of `judge_metric` for a rubric that asks for a requirement."""

    def __init__(self, declared: Declared, name: str, fields: Fields, options: Mapping[str, Any]) -> None:
        place = fields.get(OWN_CRITERIA)
        self._form = CriteriaForm.of(None if callable(place) else place)
        places = {**fields, REQUIREMENT: place if callable(place) else partial(_cell_of, self._form.column)}
        places.pop(OWN_CRITERIA, None)
        super().__init__(declared, name, places, options)
        self._arguments = fields_text(fields)

    def __repr__(self) -> str:
        return f"PointsScore({self.declared.rubric.id}@{self.declared.rubric.version}, name={self.name!r})"

    def check(self, task: str | None = None, docs: Sequence[Any] = ()) -> MetricSettings | None:
        """Raise what prevents judging a task; also for documents whose criteria cannot be judged."""
        settings = super().check(task, docs)
        scales = [] if settings is None else [criterion.scale for criterion in settings.spec.rubric.criteria]
        counts = list[int]()
        for doc in docs if settings is not None else ():
            with error_at(f"task {doc.task_name!r}, document {doc.id!r}", InputError):
                criteria = criteria_in(self._fields[REQUIREMENT](doc), self._form)
                refuse_other_scales([(criterion.id, criterion.scale) for criterion in criteria], scales)
            counts.append(len(criteria))
        beside = pd.DataFrame([doc.specific or {} for doc in docs[: len(counts)]], dtype=object)
        refuse_numbers_beside(beside.items(), counts, self._form)
        return settings

    def _figures(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        name, ends = self.name, ["", *(f"_{figure}" for figure in (*_FIGURES, *_COUNTS))]
        columns = pd.DataFrame(list(rows), columns=[f"{name}{end}" for end in ends], dtype=float)
        scores = columns[name].dropna()
        figures = mean_row(name, columns[name].tolist()) | coverage_row(name, rows)
        figures[f"{name}_clipped"] = float(np.clip(figures[name], 0, 1))
        figures[f"{name}_below_0"] = float((scores < 0).mean()) if len(scores) else math.nan
        for stem, figure in {"worst": "low", "best": "high", "renormalised": "renormalised"}.items():
            figures[f"{name}_{stem}"] = float(columns[f"{name}_{figure}"].mean())
        return figures | {f"{name}_{count}": float(columns[f"{name}_{count}"].sum()) for count in _COUNTS}

    def _judge(
        self, settings: MetricSettings, docs: Sequence[Any], responses: Sequence[Any], filled: Sequence[int]
    ) -> tuple[list[dict[str, Any]], list[pd.DataFrame], int]:
        items = items_of(docs, responses, settings.spec.rubric, self._fields).rename(
            columns={REQUIREMENT: self._form.column}
        )
        every, report = exploded(items, self._form, read=items.columns), settings.report_disagreement
        criteria = every[every["of_item"].isin([str(number) for number in filled])].reset_index(drop=True)
        judged, tables = list[dict[str, Any]](), list[pd.DataFrame]()
        if filled:
            options = {"on_progress": ProgressLog(self.name), **settings.calling(self._options)}
            judged, tables = judge_rows("x", settings.spec, criteria, options, self.name, report_disagreement=report)
        scores = pd.DataFrame({"item_id": criteria["item_id"], "score": [row["x"] for row in judged]})
        scores["passed"] = pd.array([row["x_passed"] for row in judged], dtype="boolean")
        by_item: dict[str, list[tuple[Any, Any]]] = {}
        for criterion, row in zip(criteria.to_dict("records"), judged, strict=True):
            by_item.setdefault(criterion["of_item"], []).append((criterion, row))
        of_items = points(scores, every, scale=Scale.of({0: "", 1: ""}, pass_at=1)).to_dict("records")
        rows = [self._row(score, by_item.get(score["item_id"], []), report=report) for score in of_items]
        return rows, tables, len(criteria)

    def _row(self, score: Mapping[Any, Any], judged: Sequence[tuple[Any, Any]], *, report: bool) -> dict[str, Any]:
        """The row of an answer: its points, its criteria, and all of their judgments."""
        name, parts, judgments, lines = self.name, {}, [], []
        for criterion, row in judged:
            key, weight, text = criterion["item_id"].partition("#")[2], criterion["points"], row["x_explanation"]
            parts[key] = {"axis": criterion["axis"] or "", "points": weight, "score_norm": row["x"],
                          "error": row["x_error"], "explanation": text}  # fmt: skip
            judgments += [judgment | {"criterion_id": key} for judgment in orjson.loads(row["x_judgments"])]
            if text and row["x_passed"] is not (weight > 0):
                lines.append(f"{key} ({weight:g} points): {text}")
        error = ""
        if pd.isna(score["score"]):
            reasons = Counter(row["x_error"] for _, row in judged if row["x_error"])
            of_criteria = "; ".join(f"{why} × {n}" if n > 1 else why for why, n in reasons.items())
            error = f"{score['reason']} ({of_criteria})" if of_criteria else str(score["reason"])
        values = {"": score["score"], **{f"_{figure}": score[figure] for figure in (*_FIGURES, *_COUNTS)}}
        values["_coverage"] = sum(row["x_coverage"] for _, row in judged) / score["n_criteria"]
        for figure in ("agreement", *(["disagreement"] if report else [])):
            values[f"_{figure}"] = mean_row("x", [row[f"x_{figure}"] for _, row in judged])["x"]
        return {
            **{f"{name}{end}": float(value) for end, value in values.items()},
            f"{name}_error": error if judged else EMPTY_ANSWER, f"{name}_explanation": "\n".join(lines),
            f"{name}_criteria": orjson.dumps(parts).decode(), f"{name}_judgments": orjson.dumps(judgments).decode(),
        }  # fmt: skip


def _cell_of(key: str, doc: Any) -> Any:
    return (doc.specific or {}).get(key)
