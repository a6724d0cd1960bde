"""Agreement of every two judges: percent agreement, Cohen's kappa and the quadratic kappa."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.stats.agreement.rating_arrays import Answered, answered, checked
from evalkit.stats.jackknife_sums import ratio, sums_without_each
from evalkit.stats.moments import moments
from evalkit.stats.notes import Notes, note_few_clusters, with_id_notes
from evalkit.stats.plain_tables import names_in
from evalkit.stats.result_tables import CRITERION_KEY, jackknife_row, result_table
from evalkit.stats.voting import vote
from evalkit.tables.grouping import ClustersLike, Flags, Floats
from evalkit.tables.ties import Counting, check_counting

Sums = Callable[[Floats], Floats]
_COLUMNS = (
    CRITERION_KEY,
    "text: judge_a judge_b; number: percent_agreement± cohen_kappa± quadratic_kappa±; count: n",
    "number: coverage; count: n_tied n_left_out; bool: same_items; text: ties unscored notes",
)


@with_id_notes
def judge_agreement(
    judged: pd.DataFrame, *, ties: Ties = "na", unscored: Unscored = "drop", clusters: ClustersLike | None = None
) -> pd.DataFrame:
    """How far every two judges agree, per criterion.

    Parameters
    ----------
    judged
        Votes, or judgments: then one vote per judge is taken, the mean of its samples and the code nearest to
        it (nominal: the majority). Judges of weight 0 are left out.
    ties
        How a tied vote counts in the figures on labels: ``na`` (default) leaves the item out; ``half`` spreads it
        equally over its t labels, so that it agrees with one of them by 1/t; ``wrong`` agrees with nothing.
    unscored
        ``drop`` (default) leaves out items to which one of both gave no label for another reason; ``wrong``: no
        agreement.
    clusters
        item_id -> cluster, for the intervals; the item by default.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion` and pair `judge_a`, `judge_b` (each pair once, names in
        alphabetic order):

        - `percent_agreement` 0-1: share of the items with equal labels;
        - `cohen_kappa`: (p_o − p_e) / (1 − p_e) on labels, p_e from each judge's own shares (Cohen 1960, "A
          coefficient of agreement for nominal scales", eq. 1);
        - `quadratic_kappa`: on scores, 2s_ab / (s_a² + s_b² + (ā − b̄)²) with 1/n moments: the quadratic weighted
          kappa, for means of samples too (Lin 1989; Fleiss and Cohen 1973). NA on nominal scales;
        - `_low`, `_high`: 95 % jackknife over clusters; the judges are fixed;
        - `n`: items that both gave a label or a score; `coverage` 0-1: n of the items that either was asked
          about; `n_tied` of the items asked of both with a tie of either, `n_left_out` of them that the figures on
          labels leave out by `ties` and `unscored` as chosen; `same_items`: are all pairs compared on the same items?
          `notes`: why something is NA.

        A tied vote has no label, but may have a score. No rows for one judge.

    Raises
    ------
    InputError
        When columns are missing or a row is in the table twice.

    Examples
    --------
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 8, "rubric_version": ["v1"] * 8, "item_id": list("aabbccdd"), "criterion": ["c"] * 8,
    ...     "judge": ["x", "y"] * 4, "score": [0.0, 0, 1, 1, 0, 1, 1, 1], "label": list("00110111"),
    ...     "n_samples": [1] * 8, "n_scored": [1] * 8, "tied": [False] * 8,
    ...     "level": ["ordinal"] * 8, "scale": ['{"codes":[0,1],"better":"high"}'] * 8})
    >>> judge_agreement(votes)[["judge_a", "judge_b", "percent_agreement", "cohen_kappa", "n"]].values.tolist()
    [['x', 'y', 0.75, 0.5, 4]]
    """
    counting = check_counting("judge_agreement", ties, unscored)
    if "sample" in names_in(judged):
        judged = vote(checked(judged, "samples", "judge_agreement")[0])
    by_criterion = answered(checked(judged, "votes", "judge_agreement")[0], "votes", clusters, half=ties == "half")
    return result_table([row for data in by_criterion for row in _rows(data, counting)], *_COLUMNS)


def _rows(data: Answered, counting: Counting) -> Iterator[dict[str, Any]]:
    has_vote = data.grid(values=True, fill=False)
    has_label, tied = data.grid(data.rows["label"].notna(), fill=False), data.grid(data.tied, fill=False)
    counted = has_vote & counting.counted(has_label, tied)
    shares, pairs = _shares(data), list(combinations(range(data.n_judges), 2))
    masks = [counted[:, first] & counted[:, second] for first, second in pairs]
    choices: dict[str, Any] = {"ties": counting.ties, "unscored": counting.unscored}
    choices["same_items"] = all(np.array_equal(rows, masks[0]) for rows in masks)
    for pair, rows in zip(pairs, masks, strict=True):
        row: dict[str, Any] = {"judge_a": data.names[pair[0]], "judge_b": data.names[pair[1]]}
        of_both = has_vote[:, pair].all(axis=1)
        row |= {"n_tied": int((of_both & tied[:, pair].any(axis=1)).sum()), "n_left_out": int((of_both & ~rows).sum())}
        either = int(has_vote[:, pair].any(axis=1).sum())
        yield data.head | row | choices | _pair(data, pair, rows, shares, either)


def _shares(data: Answered) -> Floats:
    """Labels as items × judges × kinds; a tie that is spread over t labels is 1/t of each."""
    cells = data.labels
    shares = np.zeros((data.n_items, data.n_judges, int(cells.answer.max(initial=-1)) + 1))
    np.add.at(shares, (cells.item, cells.judge, cells.answer), 1.0)
    return np.asarray(shares / np.maximum(shares.sum(axis=2, keepdims=True), 1), dtype=np.float64)


def _pair(data: Answered, pair: tuple[int, int], named: Flags, shares: Floats, either: int) -> dict[str, Any]:
    scores = data.grid(data.rows["score"], np.nan)[:, pair]
    scored = ~np.isnan(scores).any(axis=1) & (data.scale.level != "nominal")
    has_answer = named | scored
    n = int(has_answer.sum())
    notes: Notes = []
    row: dict[str, Any] = {"n": n, "coverage": n / either}
    if not n:
        return row | {"notes": "no item was scored by both"}
    unit = np.zeros(data.n_items, dtype=np.int64)
    units, unit[has_answer] = np.unique(data.cells.unit[has_answer], return_inverse=True)
    sums = partial(sums_without_each, unit=unit[named], n_units=len(units))
    agreed, kappa = _on_labels(shares[named, pair[0]], shares[named, pair[1]], sums)
    row |= jackknife_row("percent_agreement", agreed, "logit", notes, "no item has a label of both judges", unit[named])
    why = "both judges always give one and the same answer" if named.any() else "no item has a label of both judges"
    row |= jackknife_row("cohen_kappa", kappa, "atanh", notes, why, unit[named])
    if data.scale.level != "nominal":
        first, second = scores[scored].T
        quadratic = moments(first, second, unit[scored], len(units) + 1)["quadratic_kappa"]
        why = "both judges always give one and the same answer" if scored.sum() > 1 else "fewer than two items"
        row |= jackknife_row("quadratic_kappa", quadratic, "atanh", notes, why, unit[scored])
    note_few_clusters(data.clusters[has_answer], notes)
    return row | {"notes": notes}


def _on_labels(one: Floats, other: Floats, sums: Sums) -> tuple[Floats, Floats]:
    n, agreed = sums(np.ones(len(one))), sums((one * other).sum(axis=1))
    chance = np.zeros(len(n))
    for first, second in zip(one.T, other.T, strict=True):
        chance += sums(first) * sums(second)
    # (p_o − p_e)/(1 − p_e), both sides times n².
    return ratio(agreed, n), ratio(n * agreed - chance, n**2 - chance)
