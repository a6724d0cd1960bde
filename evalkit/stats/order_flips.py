"""The two orders in which the answers of a pair are shown: what differs between them, and what the first place wins."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pandas.arrays import BooleanArray

from evalkit.tables.grouping import Flags, Floats, Groups, Ints, tally


def order_flips(frame: pd.DataFrame, groups: Groups, scored: Flags, answer: Ints) -> BooleanArray:
    """Per vote, whether the majority labels of the two orders differ; NA if one has none."""
    winners = np.full((len(groups), 2), -1, dtype=np.int64)
    for place, name in enumerate(("AB", "BA")):
        rows = scored & frame["order"].eq(name).to_numpy()
        winners[:, place] = tally(groups.codes[rows], answer[rows], len(groups)).single()[0]
    return BooleanArray(np.asarray(winners[:, 0] != winners[:, 1]), np.asarray((winners < 0).any(axis=1)))


def shown_first(judgments: pd.DataFrame) -> Floats:
    """Per pairwise judgment 1 for the answer shown first, .5 for a tie, 0 for the other; NaN if unscored or no pair.

    Labels are mapped back already: A is `answer_a`, which the order ``BA`` shows second.
    """
    place = judgments["order"].astype(object).map({"AB": "A", "BA": "B"})
    label = judgments["label"].astype(object)
    value = np.where(label.eq("tie"), 0.5, label.eq(place).astype(np.float64))
    return np.where(judgments["error"].isna() & label.notna() & place.notna(), value, np.nan)


def first_rates(frame: pd.DataFrame, groups: Groups) -> Floats:
    """Per vote, the share of its scored samples for the answer shown first; NaN without pairs."""
    if frame["order"].isna().all():
        return np.full(len(groups), np.nan)
    first = shown_first(frame)
    known = ~np.isnan(first)
    n = groups.count(known)
    return np.where(n > 0, groups.total(first, known) / np.maximum(n, 1), np.nan)
