"""The two orders in which the answers of a pair are shown: what differs between them, and what the first place wins."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.stats.result_tables import JUDGE_KEY
from evalkit.tables.grouping import Flags, Floats, Groups, Ints, group, tally

ORDERS = ("AB", "BA")
ONE_ORDER = "one_order"
"""The reason of a vote that has no score because one of two orders was asked and not read."""
NO_ORDER = "the two orders of the answers are not both known, so a preference for a place cannot be seen"
ONE_ORDER_EACH = "each pair was shown in one order, so a preference for a place is part of the votes (see first_rate)"
OF_ORDERS = ["score_ab", "score_ba"]
"""Columns of votes and scores on pairs: the mean score in each order."""


def know_both_orders(judgments: pd.DataFrame) -> Flags:
    """Per judgment, whether its judge has judgments of the criterion in both orders, scored or not."""
    return _in_both(judgments, JUDGE_KEY)


def show_items_twice(judgments: pd.DataFrame) -> Flags:
    """Per judgment, whether its judge has judgments of some item in both orders, scored or not."""
    is_twice = _in_both(judgments, [*JUDGE_KEY, "item_id"])
    judges = group(judgments, JUDGE_KEY) if is_twice.any() else None
    return is_twice if judges is None else np.asarray((judges.count(is_twice) > 0)[judges.codes])


def _in_both(judgments: pd.DataFrame, key: list[str]) -> Flags:
    """Per judgment, whether there are judgments with its key in both orders, scored or not."""
    if judgments["order"].isna().all():
        return np.zeros(len(judgments), dtype=bool)
    groups = group(judgments, key)
    has_order = [groups.count(judgments["order"].eq(name).to_numpy()) > 0 for name in ORDERS]
    return np.asarray((has_order[0] & has_order[1])[groups.codes])


def half_each(frame: pd.DataFrame, groups: Groups, counted: Flags) -> Floats:
    """The weight of each judgment if each order counts half and all weights of a vote add up to its judgments.

    1 where a vote has judgments `counted` in one order, or none.
    """
    if frame["order"].isna().all():
        return np.broadcast_to(np.float64(1), len(frame))
    weights = np.ones(len(frame))
    rows = [counted & frame["order"].eq(name).to_numpy() for name in ORDERS]
    counts = [groups.count(flags) for flags in rows]
    has_both = (counts[0] > 0) & (counts[1] > 0)
    for flags, n in zip(rows, counts, strict=True):
        half = np.where(has_both, (counts[0] + counts[1]) / (2 * np.maximum(n, 1)), 1.0)
        weights[flags] = half[groups.codes[flags]]
    return weights


def read_once(frame: pd.DataFrame) -> Flags:
    """The votes or scores for which one of the two orders was read (`OF_ORDERS`)."""
    return frame[OF_ORDERS].notna().sum(axis=1).eq(1).to_numpy()


def order_scores(frame: pd.DataFrame, groups: Groups, value: Floats) -> dict[str, Floats]:
    """`OF_ORDERS` of each vote: the means of `value` over the judgments of each order that are not NaN."""
    rows = {column: frame["order"].eq(name).to_numpy() for column, name in zip(OF_ORDERS, ORDERS, strict=True)}
    return {column: groups.mean(value, in_order & ~np.isnan(value)) for column, in_order in rows.items()}


def order_flips(frame: pd.DataFrame, groups: Groups, scored: Flags, answer: Ints) -> BooleanArray:
    """Per vote, whether the majority labels of the two orders differ; NA if one has none."""
    winners = np.full((len(groups), 2), -1, dtype=np.int64)
    for column, name in enumerate(ORDERS):
        rows = scored & frame["order"].eq(name).to_numpy()
        winners[:, column] = tally(groups.codes[rows], answer[rows], len(groups)).single()[0]
    return BooleanArray(np.asarray(winners[:, 0] != winners[:, 1]), np.asarray((winners < 0).any(axis=1)))


def shown_first(judgments: pd.DataFrame) -> Floats:
    """Per pairwise judgment 1 for the answer shown first, .5 for a tie, 0 for the other; NaN if unscored or no pair.

    Labels are mapped back already: A is `answer_a`, which the order ``BA`` shows second.
    """
    first = judgments["order"].astype(object).map({"AB": "A", "BA": "B"})
    label = judgments["label"].astype(object)
    value = np.where(label.eq("tie"), 0.5, label.eq(first).astype(np.float64))
    return np.where(judgments["error"].isna() & label.notna() & first.notna(), value, np.nan)


def first_rates(frame: pd.DataFrame, groups: Groups) -> Floats:
    """Per vote, the share of its scored samples for the answer shown first; NaN without pairs."""
    if frame["order"].isna().all():
        return np.full(len(groups), np.nan)
    first = shown_first(frame)
    return groups.mean(first, ~np.isnan(first))
