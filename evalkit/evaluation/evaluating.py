"""`evaluate`: judge, vote, aggregate, combine and all figures at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, Unpack

import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import JudgeOptions, Options, as_cache
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec, is_none
from evalkit.engine.judging.worklist import Worklist
from evalkit.evaluation.checked_arguments import labels_of, try_rules
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.evaluation_log import log_evaluation
from evalkit.evaluation.sampling_again import sample_again
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.item_criteria import with_rows
from evalkit.rubrics.profiles import RubricLike
from evalkit.tables.grouping import cluster_names
from evalkit.tables.items import ItemsLike, as_items, with_typed_ids


def evaluate(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    labels: LabelsLike | None = None,
    vote: str | Callable[..., Any] | None = None,
    ties: str | None = None,
    min_self_agreement: float | None = None,
    aggregate: str | Callable[..., Any] | None = None,
    quorum: float | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    on_missing: OnMissing = "raise",
    **options: Unpack[JudgeOptions],
) -> Evaluation:
    """Judge items and compute every figure.

    Parameters
    ----------
    items, rubric, judges, samples, template, criteria_per_call, item_id, inputs, on_missing
        As for `judge`. A `group_id` column makes the groups the unit of intervals.
    labels
        Human labels: the long labels table, or for each criterion the item columns with its labels (see
        `extract_labels`). Labels of other items are left out.
    vote, ties, min_self_agreement, aggregate, quorum
        Rules of `vote` and `aggregate`, also your own functions (defaults: the profile's, else mean, mean, over half).
    **options
        Other options of `judge`: ``offline``, ``refresh``, ``adopt``, ``budget_usd``, ``cache`` …

    Returns
    -------
    Evaluation
        With `.judgments .votes .scores .rubric_scores .summary .disagreement .reliability .alignment
        .cost` and `.wide()`; on rows of `explode_criteria` also `.points`.

    Raises
    ------
    InputError, RubricError, ConfigError, JudgeError, CacheError
        As `judge`; also for rules that are unknown or do not fit these judges and scales, and for labels off the
        scale. All of them come before anything is paid.

    Examples
    --------
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}] * 2
    >>> evaluation = evaluate(items, "correctness", ["fake:strict", "fake:lenient"])
    >>> len(evaluation.judgments), len(evaluation.votes), len(evaluation.scores)
    (12, 4, 2)
    """
    rules: dict[str, Any] = {"vote": vote, "ties": ties, "min_self_agreement": min_self_agreement}
    rules |= {"aggregate": aggregate, "quorum": quorum}
    data: dict[str, Any] = {"inputs": inputs, "on_missing": on_missing, "criteria_per_call": criteria_per_call}
    spec = Spec.of(rubric, judges, samples, template, rules, **data)
    items, id_column = with_rows(with_typed_ids(items, item_id), spec.rubric, spec.inputs, item_id)
    frame = as_items(items, item_id=id_column)
    if item_id is not None:  # for the record
        spec.settings["item_id"], spec.settings.sources["item_id"] = item_id, "argument"
    given = None if labels is None else labels_of(labels, frame, spec.rubric, spec.inputs)
    options["cache"] = as_cache(options.get("cache"))
    if is_none(judges):
        options["offline"] = True
    return evaluate_spec(spec, frame, Options.of("evaluate", options), given).with_ids_of(items, id_column)


def evaluate_spec(
    spec: Spec, items: pd.DataFrame, options: Options, labels: pd.DataFrame | None = None, *, logged: bool = True,
    budget: Budget | None = None,
) -> Evaluation:  # fmt: skip
    """`evaluate` for a resolved spec: items with an `item_id`, labels in the long table."""
    try_rules(spec)
    work = Worklist.of(spec, items)
    evaluation = evaluate_worklist(work, items, options, labels, budget=budget)
    if logged:
        log_evaluation(evaluation, work, options)
    return evaluation


def evaluate_worklist(
    work: Worklist, items: pd.DataFrame, options: Options, labels: pd.DataFrame | None, until: float | None = None,
    budget: Budget | None = None,
) -> Evaluation:  # fmt: skip
    """The evaluation of a work list; with `until` as it was at that Unix time (see `judge_worklist`)."""
    spec, judgments = work.spec, judge_worklist(work, options, until=until, budget=budget)
    if not spec.exact and len(judgments):
        spec = replace(spec, samples=int(judgments["sample"].max()) + 1)  # recorded ones are taken as they are
    clusters, n = cluster_names(items, work.clusters), work.n_unique
    # for later calls, without budgets and callbacks
    later_options = {name: getattr(options, name) for name in ("offline", "recorded", "adopt", "cache", "repair")}
    later = Options(**later_options, progress=False)
    again = partial(sample_again, half_width=0.02, progress=False)
    fields = (items, spec.rubric, spec.rules, judgments, labels, clusters, n, later)
    return Evaluation(*fields, spec, spec.inputs, again)
