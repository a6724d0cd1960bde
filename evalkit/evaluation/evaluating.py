"""`evaluate`: from items to all figures, in one call; `history` and `open_evaluation` for past ones."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack

import orjson
import pandas as pd

from evalkit.core.judges import Judge, JudgesLike
from evalkit.core.lists_of_choices import OnMissing
from evalkit.core.settings import JudgeOptions, Options, Settings, as_cache
from evalkit.engine.cache import ReplyStore
from evalkit.engine.calls.budget import Budget
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.specification import Spec, check_names, is_none
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import CacheMiss, EvalkitWarning, InputError, counted, listed
from evalkit.evaluation.evaluation import Evaluation, labels_of, try_rules
from evalkit.evaluation.evaluation_log import items_hash, log_evaluation, replies_hash
from evalkit.evaluation.sampling_again import sample_again
from evalkit.rubrics import Rubric
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.item_criteria import with_rows
from evalkit.rubrics.profiles import RubricLike
from evalkit.rubrics.prompt_builder import Template
from evalkit.stats.result_tables import columns, result_table
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
    pass_prob_at: float | None = None,
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
    vote, ties, min_self_agreement, aggregate, quorum, pass_prob_at
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
    rules |= {"aggregate": aggregate, "quorum": quorum, "pass_prob_at": pass_prob_at}
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


_SHORT = 10
_LEAST = 1e-9  # US$: sums of floats differ in the last digits
_COLUMNS = columns(
    "str: evaluation; number: time; str: rubric rubric_version criterion judges; Int64: samples",
    "str: template rules items; number: mean low high pass_rate pass_low pass_high; Int64: n_verdicts n_scored n_items",
    "number: disagreement accuracy± kappa±; Int64: n_compared; number: paid_usd cost_usd",
)


def history(cache: str | Path | None = None) -> pd.DataFrame:
    """The evaluations that `evaluate` wrote into the log of a cache, newest first.

    Each evaluation is listed once, with the time when it was first made: if it is repeated with the same settings,
    items, replies and labels, nothing is added. Other jobs that paid for replies have rows with their name instead of
    an id: *measure chance* (`sample_again`), *suggest edits*, *evalkit ci*, *pytest*. The last rows have
    neither: they hold what the other replies in the cache cost, by rubric and version. These were bought by `judge`, or
    by a job that was stopped. So the sum of `paid_usd` is what all replies in the cache cost.

    Parameters
    ----------
    cache
        The cache folder (default: as for `judge`).

    Returns
    -------
    DataFrame
        One row per evaluation and criterion: `evaluation` (a short id, or the name of a job), `time` (UTC); `rubric`,
        `rubric_version`, `criterion`, `judges`, `samples`, `template`, `rules`; `items` (equal for the
        same items); `mean` (rubric units) with `low` and `high`, `pass_rate` with `pass_low` and `pass_high` over
        `n_verdicts` items, `n_scored` of `n_items`,
        `disagreement` (mean over the items); `accuracy` and `kappa` of the jury against the labels, with their
        intervals, on `n_compared` items. Of items with criteria of their own, `mean` is that of `points` (NA where
        there are none) over `n_scored` of `n_items` items, and all else is about criteria. `paid_usd` (paid in that
        call for replies to the criterion; a reply to several criteria counts for the first) and `cost_usd` (what its
        replies cost when they were bought). What is unknown is NA.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from evalkit import evaluate
    >>> folder = mkdtemp()
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
    >>> evaluation = evaluate(items, "correctness", "fake:strict", cache=folder)
    >>> history(folder)[["rubric", "criterion", "judges", "n_scored", "n_items"]].values.tolist()
    [['correctness', 'correctness', 'fake:strict', 1, 1]]
    """
    store, rows = ReplyStore.open(cache), list[dict[str, Any]]()
    logged = Counter[tuple[str, str]]()
    for evaluation, created, summary, _ in store.evaluations():
        shared = orjson.loads(summary)
        job = shared.pop("what", None)
        # a job pays for its one row; of an evaluation, what each criterion cost is unknown where a log has only the sum
        unknown = {} if job else dict.fromkeys(("paid_usd", "cost_usd"))
        head = {"evaluation": job or evaluation[:_SHORT], "time": created} | shared | unknown
        criteria_rows = [head | figures for figures in shared["criteria"]]
        logged[shared["rubric"], shared["rubric_version"].partition("+")[0]] += sum(
            row["paid_usd"] or 0 for row in criteria_rows
        )
        rows += criteria_rows
    table = result_table([*rows, *_not_logged(store, logged)], _COLUMNS)
    return table.assign(time=pd.to_datetime(table["time"], unit="s", utc=True))


def _not_logged(store: ReplyStore, logged: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    """What replies cost that no evaluation in the log bought, by rubric and version."""
    bills = store.bills()
    open_usd = {about: bill.usd - logged[about] for about, bill in bills.items()}
    # of an evaluation whose judges answered first themselves, a part is stored under the template's name
    spare = sum(-usd for usd in open_usd.values() if usd < 0)
    rows = []
    for about, usd in open_usd.items():
        left_usd = max(0.0, usd - spare)
        spare = max(0.0, spare - max(0.0, usd))
        if left_usd > _LEAST:
            bill = bills[about]
            head = {"time": bill.last, "rubric": about[0], "rubric_version": about[1]}
            rows.append(head | {"judges": ", ".join(sorted(bill.judges)), "paid_usd": left_usd, "cost_usd": left_usd})
    return rows


def open_evaluation(
    evaluation: str,
    items: ItemsLike,
    labels: LabelsLike | None = None,
    *,
    item_id: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    cache: str | Path | None = None,
) -> Evaluation:
    """A past evaluation, computed again from the stored replies; makes no calls.

    Replies that came after the evaluation do not count, so that the replies before a refresh can still be compared
    with those after it.

    Parameters
    ----------
    evaluation
        Its id in `history`, or the start of it.
    items
        The items that were judged: the log has their hash, not their texts. Their order does not matter.
    labels
        Human labels, as for `evaluate`: the log has none.
    item_id
        The column with the ids; by default ``item_id``, else the index.
    inputs
        The columns of these items, if they have other names than when they were judged (see `judge`).
    cache
        The cache folder (default: as for `judge`).

    Returns
    -------
    Evaluation
        As `evaluate` returns it: for `JudgmentBrowser`, `compare`, `report`, `freeze` …

    Raises
    ------
    InputError
        When no evaluation, or more than one, has this id, or the items are not those that were judged.
    CacheMiss
        When replies of the evaluation are no longer in the cache.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from evalkit import evaluate
    >>> folder = mkdtemp()
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
    >>> made = evaluate(items, "correctness", "fake:strict", cache=folder)
    >>> again = open_evaluation(history(folder).loc[0, "evaluation"], items, cache=folder)
    >>> again.scores.equals(made.scores)
    True
    """
    store = ReplyStore.open(cache)
    start = str(evaluation)
    found = _evaluations(store, start) if re.fullmatch("[0-9a-f]{1,64}", start) else []
    if len(found) != 1:
        known = [name[:_SHORT] for name, *_ in found or _evaluations(store)]
        several = f"several evaluations have an id that begins with {start!r}"
        problem = several if found else f"evaluation {start!r} not found"
        raise InputError(f"{problem} in {store.where}; available: {listed(known, most=5)}")
    name, created, summary, text = found[0]
    logged = orjson.loads(text or "{}")
    spec = _spec(logged)
    if inputs is not None:
        check_names(inputs, spec.rubric)
        spec = replace(spec, inputs=dict(inputs))
    items, item_id = with_rows(with_typed_ids(items, item_id), spec.rubric, spec.inputs, item_id)
    frame = as_items(items, item_id=item_id)
    work = Worklist.of(spec, frame)
    asked_options = {name: logged[name] for name in ("offline", "recorded", "adopt")}
    asked_options["repair"] = logged.get("repair", True)
    asked = Options(**asked_options, cache=cache, progress=False)
    given = None if labels is None else labels_of(labels, frame, spec.rubric, spec.inputs)
    replay = replace(asked, offline=True, recorded="use" if asked.offline else asked.recorded)
    opened = replace(evaluate_worklist(work, frame, replay, given, created), options=asked)
    _check(opened, name[:_SHORT], logged, same_items=items_hash(work)[:_SHORT] == orjson.loads(summary)["items"])
    return opened.with_ids_of(items, item_id)


def _evaluations(store: ReplyStore, start: str = "") -> list[tuple[str, float, str, str | None]]:
    """Those of the log, without what other jobs paid (see `log_payment`)."""
    return [logged for logged in store.evaluations(start) if "what" not in orjson.loads(logged[2])]


def _spec(logged: dict[str, Any]) -> Spec:
    """The settings of an evaluation in the log."""
    rubric = Rubric(**logged["rubric"])
    if logged["rubric_version"] != rubric.version:  # an edit of another text, so that its label shows an edit again
        before = Rubric(**(logged["rubric"] | {"description": f"{rubric.description} before"}))
        rubric = before.edit(description=rubric.description)
    samples = logged["samples"] if logged["exact"] or not logged["offline"] else None
    named = {"judges": [*map(Judge.of, logged["judges"])], "template": logged["template"], "samples": samples}
    named |= logged["rules"] | {"criteria_per_call": logged.get("criteria_per_call")}
    templates = {label: Template.of(*label.split("@"), source) for label, source in logged["templates"].items()}
    spec = Spec.resolve(rubric, Settings.of(("log", named)), templates=templates)
    return replace(spec, inputs=logged["inputs"], on_missing=logged["on_missing"])


def _check(opened: Evaluation, name: str, logged: dict[str, Any], *, same_items: bool) -> None:
    """Raise, or warn, if the replies are not those of the evaluation in the log."""
    judgments, folder = opened.judgments, ReplyStore.open(opened.options.cache).where
    lost = judgments[judgments["source"].isna().to_numpy()]
    ids = lost["item_id"].astype(str).unique().tolist()
    if not same_items:
        stored = f"; nothing is stored for {listed(ids, most=5)}" if ids else ""
        raise InputError(
            f"these {counted(len(opened.items), 'item')} are not those of evaluation {name}{stored}; pass the items "
            "that were judged, with the same texts"
        )
    if len(lost) > logged["n_missing"]:
        raise CacheMiss(
            f"{len(lost) - logged['n_missing']} of {counted(len(judgments), 'reply', 'replies')} of evaluation {name} "
            f"are no longer in the cache at {folder} (items {listed(ids, most=5)}); if they were pruned, import the "
            "file that prune exported"
        )
    if replies_hash(judgments) != logged["replies"]:
        warnings.warn(
            f"evaluation {name} has other scores now than at the time when it was made: replies were imported or "
            "pruned since then, or this version of evalkit reads them differently",
            EvalkitWarning,
            stacklevel=3,
        )
