"""The judges of a jury become one score per item and criterion.

Long, but one thing: all methods fill the same columns by the same rules for what is missing, tied or unscored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.core.own_rules import OwnRule, aggregate_rule
from evalkit.core.settings import LEAST_WEIGHT, MOST_WEIGHT, WEIGHT, check_share, checked_rule, is_weight
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES, AVERAGES, AggregateRule
from evalkit.errors import ConfigError, InputError, listed
from evalkit.rubrics import row_scales
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import Measures
from evalkit.stats.aggregation.dawid_skene import posteriors
from evalkit.stats.agreement.disagreements import item_disagreement
from evalkit.stats.order_flips import OF_ORDERS
from evalkit.stats.own_answers import own_answers
from evalkit.stats.plain_tables import key_text, take_rows, votes_options
from evalkit.stats.result_tables import GAVE_NONE, verdict_codes, with_numbers_as_labels
from evalkit.stats.voting import averaged
from evalkit.tables import schemas
from evalkit.tables.grouping import Flags, Floats, Groups, Ints, Objects, group, most_frequent, tally
from evalkit.tables.schemas import SCORE_KEY, VOTE_KEY
from evalkit.tables.ties import labels_among, tied_cells

_NEED = [*VOTE_KEY, "score", "label", "passed", "level", "scale"]
_TINY = 1e-9


def aggregate(
    votes: pd.DataFrame,
    *,
    method: AggregateRule | Callable[..., Any] = "mean",
    quorum: float = 0.5,
    weights: Mapping[Any, float] | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """One score per item and criterion, from the votes of all judges.

    Parameters
    ----------
    votes
        The table of `vote`, rows in any order. A plain table needs `item_id`, `judge`, and `score` or `label`.
    method
        - ``mean`` (default) or ``median`` of the votes' scores, weighted;
        - ``majority``: the label with the largest weight; a tied vote gives each of its labels an equal part;
        - ``min``: the least good vote (on a scale where low is better the highest number), ``max`` the best;
        - ``dawid_skene``: labels and every judge's error rates together (Dawid and Skene 1979, eq. 2.3-2.5; 0.01 added
          to every count, at most 100 rounds or until the log-likelihood gains under 1e-6), for 3 judges or more and
          scales of 2-5 codes. `score` is the posterior mean, `label` its mode. With fewer than 10·J·(q − 1) items each
          judge has one error rate (``one_coin``). Unscored where fewer than three judges gave a label. Look at
          `jury_value` first: if judges share their mistakes, it trusts the majority's;
        - your own function, as in `vote`, of the scores of the scored votes.

        Nominal criteria take the majority for mean and median, and for min and max without a pass rule.
    quorum
        More than this share of the total weight must be scored (a tie is), else the item stays unscored; 1.0: all.
    weights
        Judge -> relative weight, 0 (removes it) or from 1e-9 to 1e9, instead of the votes' own.
    scale
        What a plain table cannot say, as in `vote`. By default the rows' own.

    Returns
    -------
    DataFrame
        The scores table, keyed by `rubric, rubric_version, item_id, criterion` in order of first appearance:

        - `score` in rubric units, `score_norm` 0-1, `label` the nearest code (NA for an exact half) or the majority's;
        - `passed` by weighted majority of the judges' verdicts, of all judges asked, equal weights being a tie (NA);
          for ``min`` all must pass, for ``max`` one; never from thresholding `score`;
        - `reason` why something is NA: ``tied``, ``no_majority``, ``own_rule`` (your function gave NA), the votes' most
          frequent reason when under quorum, or that the scale is not known;
        - `status`: ``unscored`` (under quorum, or your function gave NA), ``tied`` (no verdict, or no score, because
          of a tie), ``partial`` (a judge is missing, no majority, or a verdict beside your function's NA) or ``ok``;
        - `n_judges`, those that failed included, `n_scored` (ties included), `tied`, `tied_labels` (JSON),
          `disagreement` (see `disagreement`), `score_ab` and `score_ba` of pairs: means in the two orders;
        - `method` that was used and its `options`; `level`, `scale`; `repaired`, if the votes have it.

    Raises
    ------
    InputError
        When columns are missing or a vote is in the table twice.
    ConfigError
        For an unknown option, a weight < 0, an unknown judge, an item all of whose judges weigh 0, ``dawid_skene`` with
        too few judges or too many levels, or a function of your own that raises or gives no answer on the scale.

    Examples
    --------
    >>> votes = pd.DataFrame({"item_id": "i", "judge": ["a", "b", "c"], "score": [2, 2, 1]})
    >>> aggregate(votes, scale=[0, 1, 2])[["score", "label", "disagreement", "status"]].round(3).values.tolist()
    [[1.667, '2', 0.333, 'ok']]
    """
    rule = checked_rule("method", method, AGGREGATE_RULES)
    check_share("quorum", quorum)
    frame, keys = take_rows(votes, "votes", need=_NEED, function="aggregate", scale=scale)
    if aggregate_rule(rule).by_label:
        frame = with_numbers_as_labels(frame)
    groups = group(frame, SCORE_KEY)
    jury = _jury(frame, groups, vote_weights(frame, weights), rule)
    measured = row_scales.measures(frame).take(groups.first)
    pieces = frame.iloc[groups.first]
    total, scored = jury.total_weight, jury.groups.total(jury.weight, jury.scored)
    under = scored < total * (1 - _TINY) if quorum == 1.0 else scored <= quorum * total + _TINY * total
    # Judges who all are tied: a tie, unless their tied labels decide, and for Dawid-Skene no estimate
    silent = (jury.groups.count(jury.answered) == 0) & (jury.groups.count(jury.scored) > 0)
    if isinstance(rule, OwnRule):
        values, rows = (jury.score, jury.names[jury.label]), jury.answered & ~under[jury.groups.codes]
        heads = pieces[SCORE_KEY]
        answers = own_answers(rule, jury.groups, rows, values, jury.weight, measured, jury.of_pairs, heads)
        score, label, tied, among = answers.score, answers.label, answers.tied, answers.among
        passed, verdict = answers.verdict(*_verdict(jury, measured, rule))
        methods, options = np.full(len(groups), rule.name, dtype=object), np.full(len(groups), f"own={rule.where}")
    elif aggregate_rule(rule).all_items:
        votes_cast = {"item": jury.groups.codes, "judge": jury.judge, "label": jury.names[jury.label]}
        fitted = posteriors(cast(AggregateRule, rule), pieces, pd.DataFrame(votes_cast | {"score": jury.score}))
        score, label, tied, among = fitted.score, fitted.label, fitted.tied, fitted.among
        passed, verdict = fitted.verdict()
        under |= fitted.unknown & ~silent
        methods, options = np.full(len(groups), rule, dtype=object), np.where(fitted.one_coin, "one_coin", "")
    else:
        score, label, tied, among = _middle(jury, measured, rule)
        passed, verdict = _verdict(jury, measured, rule)
        methods, options = _methods(rule, measured), np.full(len(groups), "")
    tied = tied | (silent & pd.isna(label))
    lost = under | ((verdict == GAVE_NONE) & np.isnan(score) & pd.isna(label) & passed.isna())
    score[under], label[under], among[under] = np.nan, None, None
    passed[under] = pd.NA
    columns: dict[str, Any] = {key: pieces[key].array for key in [*SCORE_KEY, "level", "scale"]}
    columns |= {
        "score": score,
        "score_norm": row_scales.answer_norms(score, label, measured),
        "label": schemas.categorical(label),
        "passed": passed,
        "n_judges": jury.groups.count(),
        "n_scored": jury.groups.count(jury.scored),
        "tied": ~under & (tied | (verdict == "tied")),
        "disagreement": item_disagreement(jury.groups, jury.measured, jury.norm, jury.label, jury.answered),
        "method": schemas.categorical(methods),
        "options": _with_options_of_votes(options, frame, groups),
        "tied_labels": schemas.categorical(among),
    } | _status(jury, under, lost, tied, verdict, score, label, measured.without_ends)
    if "repaired" in frame:
        columns["repaired"] = jury.groups.count(schemas.repaired_rows(frame)[jury.rows]) > 0
    return keys.restore(schemas.table("scores", columns | _of_orders(frame, jury)))


def _of_orders(frame: pd.DataFrame, jury: _Jury) -> dict[str, Floats]:
    """The weighted means of the judges' scores in each order of a pair, where the votes have them."""
    names = OF_ORDERS if {*OF_ORDERS} <= {*frame.columns} else ()
    values = {name: frame[name].to_numpy(dtype=np.float64)[jury.rows] for name in names}
    return {name: jury.groups.mean(value, ~np.isnan(value), jury.weight) for name, value in values.items()}


def _with_options_of_votes(own: Any, frame: pd.DataFrame, whole: Groups) -> pd.Categorical:
    """The options of each score, with what of the votes' own rules bears on it."""
    options = np.asarray(own, dtype=object)
    for text, rows in votes_options(frame).items():
        options = np.where(whole.count(rows) > 0, options + " " + text, options)
    return schemas.categorical(np.array([cell.strip() or None for cell in options], dtype=object))


def vote_weights(frame: pd.DataFrame, weights: Mapping[Any, float] | None) -> Floats:
    """The weight of each vote: from `weights`, else its own, else 1."""
    column = frame["weight"].to_numpy(dtype=np.float64) if "weight" in frame else np.ones(len(frame))
    weight = np.where(np.isnan(column), 1.0, column)
    if np.isnan(column).any() and not np.isnan(column).all():
        row = frame.iloc[int(np.isnan(column).argmax())]
        raise InputError(
            f"column 'weight' is missing in {int(np.isnan(column).sum())} of {len(frame)} votes (the first: item "
            f"{row['item_id']}, judge {row['judge']}); 0 removes a vote, 1 is the usual weight"
        )
    if weights is not None:
        if not isinstance(weights, (Mapping, pd.Series)):
            raise ConfigError(f"weights= is a {type(weights).__name__}; expected a mapping, as in {{'judge': 2}}")
        judges, weights = frame["judge"].cat.categories, {key_text(name): weight for name, weight in weights.items()}
        unknown = [name for name in weights if name not in judges]
        if unknown and len(frame):
            raise ConfigError(f"unknown judges in weights: {listed(unknown)}; the votes come from {listed(judges)}")
        if wrong := {name: value for name, value in weights.items() if not is_weight(value)}:
            raise ConfigError(f"weights {wrong} are invalid: a judge's weight must be {WEIGHT}")
        by_judge = frame["judge"].astype("str").map(weights).to_numpy(dtype=np.float64)
        weight = np.where(np.isnan(by_judge), weight, by_judge)
    if not ((weight == 0) | ((weight >= LEAST_WEIGHT) & (weight <= MOST_WEIGHT))).all():
        raise ConfigError(f"a judge's weight must be {WEIGHT} (0 removes the judge)")
    return weight


def no_weight(item: str) -> ConfigError:
    """The error for an item whose judges are all left out."""
    return ConfigError(f"every judge of item {item!r} has weight 0; give one of them a weight > 0")


@dataclass(frozen=True, slots=True)
class _Jury:
    """One entry per vote that has weight, grouped by item and criterion; `of_pairs` has one per group."""

    rows: Flags  # which of the votes these are
    groups: Groups
    measured: Measures
    judge: Ints
    weight: Floats
    score: Floats
    norm: Floats
    label: Ints  # code of the label among `names`, −1 for none
    names: Objects  # its last entry is None, so that −1 finds it
    among: Objects  # cells of `tied_labels`; None if a vote has a label, or in old tables
    answered: Flags  # has a label or score to give
    scored: Flags  # answered, or tied
    passes: Flags
    fails: Flags
    reason: pd.Series
    of_pairs: Flags  # is the criterion that of a pairwise rubric?

    @property
    def total_weight(self) -> Floats:
        return self.groups.total(self.weight)


def _jury(frame: pd.DataFrame, whole: Groups, weight: Floats, method: str) -> _Jury:
    has_weight = weight > 0
    groups = Groups(whole.codes[has_weight], whole.first)
    idle = groups.count() == 0
    if idle.any():
        item = frame["item_id"].iloc[int(whole.first[idle][0])]
        raise no_weight(str(item))
    rows = frame if has_weight.all() else frame.loc[has_weight]
    measured = row_scales.measures(rows)
    score = rows["score"].to_numpy(dtype=np.float64)
    label = rows["label"].cat.codes.to_numpy().astype(np.int64)
    texts = list(rows["label"].cat.categories)
    answered = np.where(measured.nominal | aggregate_rule(method).by_label, label >= 0, np.isfinite(score))
    tied = rows["tied"].to_numpy(dtype=bool) & (label < 0) if "tied" in rows else np.zeros(len(rows), dtype=bool)
    among = np.full(len(rows), None, dtype=object)
    if "tied_labels" in rows:
        among[tied] = rows["tied_labels"].astype(object).to_numpy()[tied]
    texts += sorted({name for cell in pd.unique(among) for name in labels_among(cell)} - set(texts))
    names = np.array([*texts, None], dtype=object)
    verdicts = verdict_codes(rows["passed"])
    shown_first = rows["first_rate"].notna().to_numpy() if "first_rate" in rows else np.zeros(len(rows), dtype=bool)
    weight = weight[has_weight]
    # by criterion: all judges of an item may be tied, and a tied vote has no score
    criterion = group(frame.iloc[whole.first], ["rubric", "criterion"]).codes
    return _Jury(
        rows=has_weight, groups=groups, measured=measured, judge=rows["judge"].cat.codes.to_numpy().astype(np.int64),
        weight=weight, score=score, norm=row_scales.answer_norms(score, names[label], measured), label=label,
        names=names, among=among, answered=answered, scored=answered | tied, passes=verdicts == 1, fails=verdicts == 0,
        reason=rows["reason"] if "reason" in rows else pd.Series(None, rows.index, dtype="category"),
        of_pairs=np.isin(criterion, criterion[groups.count(measured.nominal & (np.isfinite(score) | shown_first)) > 0]),
    )  # fmt: skip


def _middle(jury: _Jury, measured: Measures, method: str) -> tuple[Floats, Objects, Flags, Objects]:
    majority = _majority(jury, measured)
    if method == "majority":
        return majority
    nominal = measured.nominal
    if method in ("min", "max"):
        # Where nothing orders nominal labels, all votes are extreme: the majority.
        nominal = nominal & (_methods(method, measured) == "majority")
        scores = _extremes(jury, measured, method)
    else:
        rows = jury.answered & ~jury.measured.nominal
        scores = averaged(method, jury.groups, rows, jury.score, jury.weight, measured)
    score, label, tied, among = (np.where(nominal, modal, mean) for modal, mean in zip(majority, scores, strict=True))
    return score, label, tied, among


def _extreme(jury: _Jury, method: str) -> Flags:
    """The votes that are least good (min) or best (max); all with an answer if nothing orders them."""
    better = np.where(jury.measured.each([scale.better == "low" for scale in jury.measured.scales]), -1.0, 1.0)
    value = np.where(jury.measured.without_ends, better * jury.score, jury.norm)
    ordered = jury.answered & ~np.isnan(value)
    worst = np.full(len(jury.groups), np.inf if method == "min" else -np.inf)
    pick = np.minimum if method == "min" else np.maximum
    pick.at(worst, jury.groups.codes[ordered], value[ordered])
    extreme = ordered & (np.abs(value - worst[jury.groups.codes]) <= _TINY)
    return np.where(np.isfinite(worst)[jury.groups.codes], extreme, jury.answered)


def _extremes(jury: _Jury, measured: Measures, method: str) -> tuple[Floats, Objects, Flags, Objects]:
    rows = _extreme(jury, method)
    has_label = rows & (jury.label >= 0)
    label, tied, among = _modal(jury, jury.groups.codes[has_label], jury.label[has_label], jury.weight[has_label])
    # The extreme votes have one score; their labels differ at most where one of them was tied.
    score = np.full(len(jury.groups), np.nan)
    score[jury.groups.codes[rows]] = jury.score[rows]
    nearest, half = row_scales.nearest_labels(score, measured)
    nominal = measured.nominal
    among = np.where(nominal, among, row_scales.halfway_labels(score, measured, half))
    return score, np.where(nominal, label, nearest), np.where(nominal, tied, half), among


def _majority(jury: _Jury, measured: Measures) -> tuple[Floats, Objects, Flags, Objects]:
    rows = jury.answered & (jury.label >= 0)
    codes, labels, weights = [jury.groups.codes[rows]], [jury.label[rows]], [jury.weight[rows]]
    split = np.flatnonzero(~pd.isna(jury.among) & jury.scored)
    if len(split):
        code_of = {name: code for code, name in enumerate(jury.names[:-1])}
        among = [labels_among(cell) for cell in jury.among[split]]
        sizes = np.array([len(names) for names in among])
        codes.append(np.repeat(jury.groups.codes[split], sizes))
        labels.append(np.array([code_of[name] for names in among for name in names], dtype=np.int64))
        weights.append(np.repeat(jury.weight[split] / np.maximum(sizes, 1), sizes))
    label, tied, cells = _modal(jury, np.concatenate(codes), np.concatenate(labels), np.concatenate(weights))
    return _code_scores(jury, label, measured), label, tied, cells


def _modal(jury: _Jury, codes: Ints, labels: Ints, weights: Floats) -> tuple[Objects, Flags, Objects]:
    """The label with the most weight, where two are equal, and those as cells of `tied_labels`."""
    n_groups = len(jury.groups)
    counts = tally(codes, labels + 1, n_groups, weights)
    modal = counts.modal()
    groups, names = counts.group[modal], jury.names[counts.value[modal] - 1]
    tied = np.bincount(groups, minlength=n_groups) > 1
    label = np.full(n_groups, None, dtype=object)
    label[groups] = names
    label[tied] = None
    return label, tied, tied_cells(groups[tied[groups]], names[tied[groups]], n_groups)


def _code_scores(jury: _Jury, label: Objects, measured: Measures) -> Floats:
    """The scores of labels: numbers, and those of pairs."""
    score = np.full(len(label), np.nan)
    has_label = ~pd.isna(label)
    numeric = has_label & ~measured.nominal
    score[numeric] = [float(text) for text in label[numeric]]
    rows = has_label & measured.nominal & jury.of_pairs
    score[rows] = [row_scales.PAIR_SCORES.get(text, np.nan) for text in label[rows]]
    return score


def _verdict(jury: _Jury, measured: Measures, method: str) -> tuple[BooleanArray, Objects]:
    total = jury.total_weight
    yes, no = jury.groups.total(jury.weight, jury.passes), jury.groups.total(jury.weight, jury.fails)
    slack = _TINY * total
    if method == "min":
        passed, failed = yes >= total - slack, no > slack
    elif method == "max":
        passed, failed = yes > slack, no >= total - slack
    else:
        passed, failed = 2 * yes > total + slack, 2 * no > total + slack
    has_rule = measured.has_rule | (jury.groups.count(jury.passes | jury.fails) > 0)  # of votes by an own rule
    undecided = has_rule & ~passed & ~failed
    verdict = np.full(len(total), None, dtype=object)
    verdict[undecided] = "no_majority"
    if method not in ("min", "max"):
        verdict[undecided & (np.abs(yes - no) <= slack) & (yes > slack)] = "tied"
    # No judge decided: then it is their own ties that left it open.
    silent = undecided & (yes <= slack) & (no <= slack)
    reason = most_frequent(jury.groups, jury.reason)
    for why in ("tied", row_scales.MEANS):
        verdict[silent & (reason == why)] = why
    return BooleanArray(passed, undecided | ~has_rule), verdict


def _status(
    jury: _Jury, under: Flags, unscored: Flags, tied: Flags, verdict: Objects, score: Floats, label: Objects,
    without_ends: Flags,
) -> dict[str, pd.Categorical]:  # fmt: skip
    missing = jury.groups.count(~jury.scored) > 0
    lost = tied & np.isnan(score) & pd.isna(label)
    status = np.full(len(under), "ok", dtype=object)
    status[missing | (verdict == "no_majority") | (verdict == GAVE_NONE)] = "partial"
    status[lost | (verdict == "tied")] = "tied"
    status[unscored] = "unscored"
    reason = np.where(pd.isna(verdict) & tied, "tied", verdict)
    reason[without_ends & ~np.isnan(score) & pd.isna(verdict)] = row_scales.NO_ENDS
    if under.any():
        of_unscored = jury.reason.where(~jury.scored)
        reason[under] = most_frequent(jury.groups, of_unscored)[under]
    return {"reason": schemas.categorical(reason), "status": schemas.categorical(status)}


def _methods(method: str, measured: Measures) -> Objects:
    orderless = [scale.level == "nominal" and (method in AVERAGES or not scale.has_rule) for scale in measured.scales]
    return np.where(measured.each(orderless), "majority", method).astype(object)
