"""Votes: the samples of one judge on one item and criterion become one verdict.

Long, but one thing: all methods fill the same columns by the same rules for what is missing, tied or unscored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.core.own_rules import OwnRule
from evalkit.core.settings import check_choice, check_cut, check_share, checked_rule
from evalkit.core.vote_aggregate_rules import AVERAGES, VOTE_RULES, VOTE_TIES, VoteRule, VoteTies
from evalkit.errors import ConfigError, InputError
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import (
    NO_ENDS,
    PAIR_SCORES,
    Measures,
    answer_norms,
    halfway_labels,
    measures,
    nearest_labels,
)
from evalkit.rubrics.scales import code_text
from evalkit.stats import order_flips as flips
from evalkit.stats.own_answers import own_answers
from evalkit.stats.plain_tables import take_rows
from evalkit.stats.result_tables import verdict_codes
from evalkit.tables import schemas
from evalkit.tables.grouping import Flags, Floats, Groups, Ints, Objects, group, most_frequent, tally
from evalkit.tables.schemas import JUDGMENT_KEY, VOTE_KEY
from evalkit.tables.ties import tied_cells

_NEED = [*JUDGMENT_KEY, "score", "label", "passed", "error", "level", "scale"]
_ROUNDED = 9  # means of P differ in the last digit


def vote(
    judgments: pd.DataFrame,
    *,
    method: VoteRule | Callable[..., Any] = "mean",
    ties: VoteTies = "na",
    unscored: Literal["drop"] | float = "drop",
    min_self_agreement: float | None = None,
    pass_prob_at: float | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """One vote per judge, item and criterion, from all of the judge's samples.

    Parameters
    ----------
    judgments
        The table of `judge`, rows in any order. Rows with error ``not_asked`` are no sample. A plain table needs
        `item_id`, `judge`, and `score` or `label` (and `sample`, `criterion` if there are several).
    method
        What `score` is: ``mean`` (default) or ``median`` of the scored samples, or ``majority``: the modal code (always
        of nominal criteria). Or your own function (``max``): called with the scores of a vote (a Series; labels on
        nominal scales), and `weights=` if it has this parameter; it returns a number on the scale, a label, NA, or
        ``(score, passed)``.
    ties
        ``na`` (default): a tie has no label (and, under ``majority``, no score). ``low``: the lowest of the tied codes,
        ``mean``: `score` is their mean; nominal ties stay NA (pairwise scores can take ``mean``).
    unscored
        ``drop`` (default) leaves unscored samples out of `score` and `label`; a number counts each as that code.
    min_self_agreement
        A judge that agrees less than this with itself (0-1) gives no vote: `reason` is ``low_agreement``.
    pass_prob_at
        A cut, as `pass_threshold` finds it: `passed` is whether the mean `pass_prob` reaches it (a tie at .5).
    scale
        What a plain table cannot say: a Scale, a Criterion or a Rubric with its pass rule, ``(low, high)``, a list of
        codes or of words from bad to good, or a mapping from criterion to one of these. By default the rows' own.

    Returns
    -------
    DataFrame
        The votes table, keyed by `rubric, rubric_version, item_id, criterion, judge` in order of first appearance:

        - `score` in rubric units, `score_norm` 0-1 (1 is good); `label`: the modal code (``majority``), else the one
          nearest to `score`, NA if two are equal, which `tied_labels` lists (JSON); `tied` (label or verdict);
        - `passed`: True if more than half of all k samples passed, False if more than half failed, else NA;
        - `reason` why something is NA: ``tied``, ``no_majority``, ``one_order``, ``low_agreement``, ``own_rule``, that
          the scale is not known, or the samples' most frequent error;
        - `agreement` 0-1: the largest group of samples that agree, as a share of k; `self_agreement` 0-1: the share of
          pairs of scored samples that agree (Fleiss 1971, P_i). Of `passed` if there is a pass rule, else of the code;
        - `n_samples` (k), `n_scored`, `weight`, `level`, `scale`; `method` that was used, and its `options`;
        - if the judgments have it: `score_sd`, of one draw of the judge's score, in rubric units; `pass_prob`, its mean
          over the scored samples; `repaired`, whether a sample was scored by a repair (see `judge`);
        - pairwise, labels are mapped back to the items (score 1 for A, 0 for B, .5 for a tie), and each order counts
          half; an order that was not read leaves the vote unscored. `order_flip`: do the orders' labels differ?
          `score_ab`, `score_ba`: their means; `first_rate` 0-1: share for the answer shown first, a tie being half.

    Raises
    ------
    InputError
        When columns are missing, a judgment is in the table twice, one is neither scored nor in error, or a score or
        label is not on its scale.
    ConfigError
        For an unknown option, or a function of your own that raises, or gives what is no answer on the scale.

    Examples
    --------
    >>> judgments = pd.DataFrame({"item_id": "i", "judge": "j", "sample": [0, 1, 2], "score": [2, 2, 1]})
    >>> vote(judgments, scale=[0, 1, 2])[["score", "label", "self_agreement"]].round(3).values.tolist()
    [[1.667, '2', 0.333]]
    """
    rule = checked_rule("method", method, VOTE_RULES)
    _check_options(ties, unscored, min_self_agreement, pass_prob_at)
    frame, keys = take_rows(judgments, "judgments", need=_NEED, function="vote", scale=scale)
    was_asked = frame["error"].ne("not_asked").fillna(value=True).to_numpy(dtype=bool)
    orders, twice = (flags(frame)[was_asked] for flags in (flips.know_both_orders, flips.show_items_twice))
    frame = frame if was_asked.all() else frame.loc[was_asked]
    samples = _samples(frame)
    if pass_prob_at is not None:
        samples = _passing_at(samples, frame, pass_prob_at)
    counted = samples if unscored == "drop" else _impute(samples, float(unscored))
    measured = samples.measured.take(samples.groups.first)
    prob = _chance(samples, frame["pass_prob"].to_numpy(dtype=np.float64)) if "pass_prob" in frame else None
    if prob is None or pass_prob_at is None:
        passed, verdict = _verdict(counted, measured)
    else:
        passed, verdict = _verdict_at(samples, measured, passes_at(prob, pass_prob_at))
    nominal = measured.nominal
    if isinstance(rule, OwnRule):
        of_pairs = counted.groups.count(counted.measured.nominal & ~np.isnan(counted.score)) > 0
        values = counted.score, counted.names[counted.answer]
        imputed = None if unscored == "drop" else float(unscored)
        answers = own_answers(
            rule, counted.groups, counted.scored, values, counted.weight, measured, of_pairs,
            frame.iloc[counted.groups.first], imputed=imputed, low=ties == "low",
        )  # fmt: skip
        score, label, tied, among = answers.score, answers.label, answers.tied, answers.among
        passed, verdict = answers.verdict(passed, verdict)
        methods = np.full(len(nominal), rule.name, dtype=object)
    else:
        majority = _majority(counted, measured, ties)
        middle = majority
        if rule != "majority":
            rows = counted.scored & ~counted.measured.nominal
            weights = np.ones(len(rows))
            middle = averaged(rule, counted.groups, rows, counted.score, weights, measured, low=ties == "low")
        score, label, tied, among = (np.where(nominal, *pair) for pair in zip(majority, middle, strict=True))
        methods = np.where(nominal, "majority", rule).astype(object)
    names = [name for name in (*VOTE_KEY, "level", "scale", "weight") if name in frame]
    pieces = frame[names].iloc[samples.groups.first]  # not the explanations: with one sample that is the whole table
    reason = _reason(frame, samples, counted, verdict, tied & pd.isna(label))
    bare = measured.without_ends & ~np.isnan(score) & pd.isna(verdict)
    weight = pieces["weight"].to_numpy() if "weight" in frame else np.ones(len(pieces))
    columns: dict[str, Any] = {key: pieces[key].array for key in [*VOTE_KEY, "level", "scale"]}
    columns |= _agreements(samples) | {
        "score": score,
        "score_norm": answer_norms(score, label, measured),
        "label": schemas.categorical(label),
        "passed": passed,
        "tied": tied | (verdict == "tied"),
        "reason": schemas.categorical(np.where(bare, NO_ENDS, reason)),
        "weight": np.where(np.isnan(weight), 1.0, weight),
        "order_flip": flips.order_flips(frame, samples.groups, samples.scored, samples.answer),
        "method": schemas.categorical(methods),
        "options": _options(len(nominal), rule, ties, unscored, min_self_agreement, pass_prob_at),
        "tied_labels": schemas.categorical(among),
        "first_rate": np.where(orders[samples.groups.first], flips.first_rates(frame, samples.groups), np.nan),
    }
    if "score_sd" in frame:
        columns["score_sd"] = _spread(samples)
    if prob is not None:
        columns["pass_prob"] = prob
    if "repaired" in frame:
        columns["repaired"] = samples.groups.count(schemas.repaired_rows(frame)) > 0
    if frame["order"].notna().any() or (samples.measured.nominal & ~np.isnan(samples.score)).any():  # of pairs
        of_labels = frame["label"].astype(object).map(PAIR_SCORES).to_numpy(dtype=np.float64)  # of tables of one's own
        scores = np.where(np.isnan(samples.score), of_labels, samples.score)
        columns |= flips.order_scores(frame, samples.groups, np.where(samples.scored, scores, np.nan))
    votes = schemas.table("votes", columns)
    if twice.any():
        votes = _without(votes, twice[samples.groups.first] & flips.read_once(votes), flips.ONE_ORDER)
    if min_self_agreement is not None:
        unsure = (votes["n_samples"] > 1) & ~(votes["self_agreement"] >= min_self_agreement - 1e-9)
        votes = _without(votes, unsure.to_numpy(), "low_agreement")
    return keys.restore(votes)


def _without(votes: pd.DataFrame, lost: Flags, why: str) -> pd.DataFrame:
    """The votes, these left unscored; those that were scored or tied have the reason."""
    voted = votes[["score", "label", "passed"]].notna().any(axis=1) | (votes["tied"] & (why == flips.ONE_ORDER))
    answers = ["score", "score_norm", "label", "passed", "tied_labels"]
    reason = schemas.categorical(np.where(lost & voted.to_numpy(), why, votes["reason"].astype(object)))
    masked = {name: votes[name].mask(lost) for name in answers}
    return votes.assign(**masked, tied=votes["tied"] & ~lost, reason=reason)


def _check_options(ties: str, unscored: object, least: float | None, cut: float | None) -> None:
    check_choice("ties", ties, VOTE_TIES)
    check_cut(cut)
    if cut is not None and unscored != "drop":
        raise ConfigError(f"unscored={unscored!r} states no P(pass), which pass_prob_at= needs; use unscored='drop'")
    if least is not None:
        check_share("min_self_agreement", least)
    if unscored != "drop" and (isinstance(unscored, bool) or not isinstance(unscored, (int, float))):
        raise ConfigError(f"vote got unscored={unscored!r}; allowed: 'drop' or a number")


@dataclass(frozen=True, slots=True)
class _Samples:
    """One entry per judgment: which vote it belongs to, and its answer as a number for counting."""

    groups: Groups
    measured: Measures
    scored: Flags
    score: Floats
    answer: Ints  # nominal: the label's code; else the rank of the score among all scores
    names: Objects  # text of each answer
    passes: Flags
    fails: Flags
    weight: Floats  # among the scored samples: the two orders of a pair count half each
    weight_of_all: Floats  # the same among all samples
    spread: Floats  # of the distribution that an expected score is the mean of; NaN for other scores


def _samples(frame: pd.DataFrame) -> _Samples:
    measured = measures(frame)
    scored = frame["error"].isna().to_numpy()
    score = frame["score"].to_numpy(dtype=np.float64)
    labels = frame["label"].cat.codes.to_numpy().astype(np.int64)
    spread = frame["score_sd"].to_numpy(dtype=np.float64) if "score_sd" in frame else np.full(len(frame), np.nan)
    expected = scored & ~np.isnan(spread)
    verdicts = verdict_codes(frame["passed"])
    # an expected score lies between codes: what it shares with another sample is the most probable code
    by_label = measured.nominal | (expected & (labels >= 0))
    answer, names = _answers(frame["label"].cat.categories, labels, np.where(by_label, np.nan, score))
    yes, no = scored & (verdicts == 1), scored & (verdicts == 0)
    groups = group(frame, VOTE_KEY)
    weight, of_all = (flips.half_each(frame, groups, rows) for rows in (scored, np.ones_like(scored)))
    return _Samples(groups, measured, scored, score, answer, names, yes, no, weight, of_all, spread)


def _answers(texts: pd.Index, labels: Ints, score: Floats) -> tuple[Ints, Objects]:
    # Equal numbers are one answer however a file spelled them ("2", "2.0"), in rising order.
    values, ranks = np.unique(np.round(score, 12), return_inverse=True)
    names = [*texts, *(code_text(float(value)) for value in values)]
    return np.where(np.isnan(score), labels, ranks + len(texts)).astype(np.int64), np.array(names, dtype=object)


def _impute(samples: _Samples, value: float) -> _Samples:
    if samples.measured.nominal.any():
        raise ConfigError(
            "unscored=<number> stands for a score, but nominal criteria have labels instead of scores; use "
            "unscored='drop'"
        )
    missing = ~samples.scored
    score = np.where(missing, value, samples.score)
    answer, names = _answers(pd.Index([]), np.zeros(len(score), dtype=np.int64), score)
    yes, no = samples.passes.copy(), samples.fails.copy()
    for scale, rows in samples.measured.parts():
        verdict = scale.passed(value)
        yes[rows & missing] = verdict is True
        no[rows & missing] = verdict is False
    scored = np.ones_like(missing)
    return replace(samples, scored=scored, score=score, answer=answer, names=names, passes=yes, fails=no)


def _majority(samples: _Samples, measured: Measures, ties: str) -> tuple[Floats, Objects, Flags, Objects]:
    rows = samples.scored
    counts = tally(samples.groups.codes[rows], samples.answer[rows], len(samples.groups), samples.weight[rows])
    modal = counts.modal()
    groups = counts.group[modal]
    n_modal = np.bincount(groups, minlength=counts.n_groups)
    tied = n_modal > 1
    # Entries are sorted by answer, so the last one written is the lowest.
    lowest = np.full(counts.n_groups, -1)
    lowest[groups[::-1]] = np.flatnonzero(modal)[::-1]
    sums = np.bincount(counts.entry, weights=samples.score[rows] * samples.weight[rows], minlength=len(counts.group))
    value = sums / counts.weight
    several = modal & tied[counts.group]
    among = tied_cells(counts.group[several], samples.names[counts.value[several]], counts.n_groups)
    has_modal = lowest >= 0
    score = np.full(counts.n_groups, np.nan)
    score[has_modal] = value[lowest[has_modal]]
    label = np.full(counts.n_groups, None, dtype=object)
    label[has_modal] = samples.names[counts.value[lowest[has_modal]]]
    if ties == "mean":
        mean = np.bincount(groups, weights=value[modal], minlength=counts.n_groups) / np.maximum(n_modal, 1)
        score[tied] = mean[tied]
        middle, _ = nearest_labels(score, measured)
        label[tied] = middle[tied]
        return score, label, tied, among
    lost = tied & (measured.nominal | (ties == "na"))
    score[lost], label[lost] = np.nan, None
    return score, label, tied, among


def averaged(
    method: str, groups: Groups, rows: Flags, score: Floats, weight: Floats, measured: Measures, *, low: bool = False
) -> tuple[Floats, Objects, Flags, Objects]:
    """The average of some rows of each group, the label nearest to it, where two are, and those."""
    mean = AVERAGES[method](groups.codes[rows], score[rows], weight[rows], len(groups))
    label, tied = nearest_labels(mean, measured, low=low)
    return mean, label, tied, halfway_labels(mean, measured, tied)


def _verdict(samples: _Samples, measured: Measures) -> tuple[BooleanArray, Objects]:
    k = samples.groups.count()
    yes, no = (samples.groups.total(samples.weight_of_all, rows) for rows in (samples.passes, samples.fails))
    limit = k * (1 + 1e-9)
    open_ = measured.has_rule & (2 * yes <= limit) & (2 * no <= limit)
    verdict = np.full(len(k), None, dtype=object)
    verdict[open_] = "no_majority"
    verdict[open_ & (np.abs(yes - no) <= 1e-9 * k) & (yes > 0)] = "tied"
    return BooleanArray(2 * yes > limit, open_ | ~measured.has_rule), verdict


def passes_at(prob: Floats, cut: float) -> Floats:
    """1 where P is at least the cut, else 0; at a cut of .5, a P of .5 is half; NaN without P."""
    near = np.round(prob, _ROUNDED)
    passed = np.where(np.isnan(prob), np.nan, (near >= cut).astype(np.float64))
    return np.where((near == cut) & (cut == 0.5), 0.5, passed)


def _passing_at(samples: _Samples, frame: pd.DataFrame, cut: float) -> _Samples:
    """The samples with the verdicts that their own P(pass) has at the cut."""
    prob = frame["pass_prob"].to_numpy(dtype=np.float64) if "pass_prob" in frame else np.full(len(frame), np.nan)
    if (without := samples.scored & samples.measured.has_rule & np.isnan(prob)).any():
        judge, item = frame.iloc[int(without.argmax())][["judge", "item_id"]]
        raise InputError(
            f"pass_prob_at={cut:g} needs `pass_prob` of each judgment, but judge {judge!r} has none of item "
            f"{item!r}; vote on the rows of judges with score='expected', or omit pass_prob_at="
        )
    passed = passes_at(prob, cut)
    return replace(samples, passes=samples.scored & (passed == 1), fails=samples.scored & (passed == 0))


def _verdict_at(samples: _Samples, measured: Measures, share: Floats) -> tuple[BooleanArray, Objects]:
    """The verdicts of mean P(pass), 1, 0 or tied at .5, where more than half of the samples are scored."""
    lost = 2 * samples.groups.count(samples.scored) <= samples.groups.count()
    verdict = np.full(len(share), None, dtype=object)
    verdict[share == 0.5] = "tied"
    verdict[measured.has_rule & (lost | np.isnan(share))] = "no_majority"
    return BooleanArray(share == 1, lost | ~np.isin(share, (0, 1)) | ~measured.has_rule), verdict


def _agreements(samples: _Samples) -> dict[str, Any]:
    answer = np.where(samples.measured.has_rule, samples.passes.astype(np.int64), samples.answer)
    rows = samples.scored
    counts = tally(samples.groups.codes[rows], answer[rows], len(samples.groups))
    k, n = samples.groups.count(), samples.groups.count(rows)
    pairs = np.maximum(n * (n - 1), 1)
    drawn_less = samples.groups.count(rows & ~np.isnan(samples.spread)) > 0
    return {
        "agreement": np.where(k > 1, counts.top() / np.maximum(k, 1), np.nan),
        # readings of distributions are no draws: that they agree does not show how much the judge wavers
        "self_agreement": np.where((n > 1) & ~drawn_less, counts.pairs() / pairs, np.nan),
        "n_samples": k,
        "n_scored": n,
    }


def _spread(samples: _Samples) -> Floats:
    """The standard deviation of one draw, within and between the samples' distributions; NaN if a sample has none."""
    groups, rows = samples.groups, samples.scored
    n = np.maximum(groups.count(rows), 1)
    complete = (groups.count(rows) > 0) & (groups.count(rows & np.isnan(samples.spread)) == 0)
    mean = groups.total(np.where(rows, samples.score, 0.0), rows) / n
    within = np.where(rows, np.nan_to_num(samples.spread) ** 2, 0.0)
    between = np.where(rows, (samples.score - mean[groups.codes]) ** 2, 0.0)
    return np.where(complete, np.sqrt(groups.total(within + between, rows) / n), np.nan)


def _chance(samples: _Samples, prob: Floats) -> Floats:
    """The mean P(pass) of the scored samples; NaN if one of them has none."""
    groups, n = samples.groups, samples.groups.count(samples.scored)
    complete = (n > 0) & (groups.count(samples.scored & np.isnan(prob)) == 0)
    return np.where(complete, groups.total(np.nan_to_num(prob), samples.scored) / np.maximum(n, 1), np.nan)


def _reason(frame: pd.DataFrame, samples: _Samples, counted: _Samples, verdict: Objects, tied: Flags) -> Objects:
    silent = counted.groups.count(counted.scored) == 0
    reason = np.where(pd.isna(verdict) & tied, "tied", verdict)
    reason[silent] = most_frequent(samples.groups, frame["error"])[silent]
    return reason


def _options(
    n_votes: int, method: str, ties: str, unscored: object, least: float | None, cut: float | None
) -> pd.Categorical[str]:
    options = [f"own={method.where}"] if isinstance(method, OwnRule) else []
    options += [] if ties == "na" else [f"ties={ties}"]
    if unscored != "drop":
        options.append(f"unscored={code_text(float(unscored))}")  # type: ignore[arg-type]
    if least is not None:
        options.append(f"min_self_agreement={least:g}")
    options += [] if cut is None else [f"pass_prob_at={cut:g}"]
    # one category: a text for each of a million votes would take more room than all figures together
    return pd.Categorical.from_codes(np.full(n_votes, 0 if options else -1, np.int8), pd.Index([" ".join(options)]))
