"""Order: does a judge of pairs name the same winner when the answers change places?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import InputError, counted
from evalkit.stats.intervals import Interval, mean_interval, rate_interval, unit_codes
from evalkit.stats.notes import Notes, note_few_clusters, with_id_notes
from evalkit.stats.order_flips import NO_ORDER, know_both_orders, shown_first
from evalkit.stats.result_tables import JUDGE_KEY, figure_row, result_table
from evalkit.stats.touched_tables import take_rows
from evalkit.stats.voting import vote
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Floats, group

_COLUMNS = (
    JUDGE_KEY,
    "number: agreement± inconsistency± flip_rate± first_rate±; count: n_items n_scored n_judgments; text: notes",
)


@with_id_notes
def position_inconsistency(judgments: pd.DataFrame, *, clusters: ClustersLike | None = None) -> pd.DataFrame:
    """How often each judge names the same winner in both orders, and how much it likes the first place.

    Parameters
    ----------
    judgments
        The table of `judge` for a pairwise rubric.
    clusters
        item_id -> cluster; the item by default.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`. The winner of an order is its samples' only most
        frequent label (``tie`` is one of them). Shares 0-1 with their 95 % intervals in `_low` and `_high` (judges
        are fixed):

        - `agreement`: the same winner in both orders, as a share of all items; an item without a winner in one
          order, or in both, does not agree. `inconsistency` is 1 minus it;
        - `flip_rate`: different winners, as a share of the `n_scored` items with a winner in both orders;
        - `first_rate`: judgments for the answer that was shown first, as a share of the `n_judgments` scored (a tie
          is half of one): .5 is no preference for a place;
        - `n_items`, `n_scored`, `n_judgments`; `notes`: why something is NA.

    Raises
    ------
    InputError
        When columns are missing, a judgment is in the table twice, or there are no orders: the rubric is
        not pairwise.

    Examples
    --------
    >>> judgments = schemas.table("judgments", {
    ...     "rubric": ["r"] * 4, "rubric_version": ["v1"] * 4, "item_id": list("xxyy"), "criterion": ["c"] * 4,
    ...     "judge": ["j"] * 4, "order": ["AB", "BA"] * 2, "sample": [0] * 4, "score": [1.0, 1.0, 1.0, 0.0],
    ...     "label": list("AAAB"), "level": ["nominal"] * 4, "scale": ['{"codes":["A","B"],"better":"high"}'] * 4})
    >>> position_inconsistency(judgments)[["agreement", "flip_rate", "first_rate"]].values.tolist()
    [[0.5, 0.5, 0.75]]
    """
    need = [*schemas.JUDGMENT_KEY, "label", "error"]
    frame, keys = take_rows(judgments, "judgments", need=need, function="position_inconsistency")
    refuse_pointwise(frame)
    votes = vote(frame)
    units, placed = (unit_codes(table["item_id"], clusters) for table in (votes, frame))
    has_both = know_both_orders(frame)
    first = np.where(has_both, shown_first(frame), np.nan)
    groups, samples = group(votes, JUDGE_KEY), group(frame, JUDGE_KEY)
    flipped = votes["order_flip"]
    has_winner = flipped.notna().to_numpy()
    flips = flipped.fillna(value=False).to_numpy(dtype=np.float64)
    rows = []
    for number, index in enumerate(groups.first):
        of_judge = groups.codes == number
        sampled = (samples.codes == number) & ~np.isnan(first)
        row = {key: votes[key].iloc[index] for key in JUDGE_KEY}
        row |= _row(flips[of_judge], has_winner[of_judge], units[of_judge])
        # an item as a whole varies: its two orders pull in opposite directions by design
        shares = pd.Series(first[sampled]).groupby(frame["item_id"].to_numpy()[sampled]).transform("mean").to_numpy()
        row |= _rate("first_rate", shares, mean_interval(shares, placed[sampled], bounds=(0.0, 1.0)))
        notes = [row["notes"], None if has_both[samples.codes == number].all() else NO_ORDER]
        rows.append(row | {"n_judgments": int(sampled.sum()), "notes": notes})
    return keys.restore(result_table(rows, *_COLUMNS))


def refuse_pointwise(judgments: pd.DataFrame) -> None:
    """Raise InputError unless every judgment has an order."""
    if missing := int(judgments["order"].isna().sum()):
        raise InputError(
            f"{missing} of {counted(len(judgments), 'judgment has', 'judgments have')} no order: pass judgments of a "
            "rubric with mode: pairwise and, to import_judgments, the column of their orders (AB or BA) as order="
        )


def _row(flips: Floats, known: Any, units: Any) -> dict[str, Any]:
    n_scored = int(known.sum())
    row: dict[str, Any] = {"n_items": len(flips), "n_scored": n_scored}
    if not n_scored:
        return row | {"notes": "no item has a winner in both orders"}
    agrees = (known & (flips == 0)).astype(np.float64)
    interval = rate_interval(agrees, units)
    row |= _rate("agreement", agrees, interval)
    row |= _rate("inconsistency", 1 - agrees, Interval(1 - interval.high, 1 - interval.low))
    row |= _rate("flip_rate", flips[known], rate_interval(flips[known], units[known]))
    lost = len(flips) - n_scored
    notes: Notes = [f"{counted(lost, 'item')} without a winner in both orders"] if lost else []
    note_few_clusters(units, notes)
    return row | {"notes": notes}


def _rate(name: str, values: Floats, interval: Interval) -> dict[str, Any]:
    return figure_row(name, float(values.mean()) if len(values) else np.nan, interval)
