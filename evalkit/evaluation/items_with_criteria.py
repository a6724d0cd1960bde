"""Scores of items in an evaluation whose rows are these items' own criteria (see `explode_criteria`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.errors import InputError
from evalkit.stats.aggregation.item_points import lists_in_cells, points
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.plain_tables import key_text
from evalkit.tables.files import records

if TYPE_CHECKING:
    from evalkit.evaluation.evaluation import Evaluation

# what the figures of the rows are; a criterion with negative points is met, too
CRITERIA_MET = "share of criteria met"


def of_criteria(evaluation: Evaluation) -> bool:
    """Whether the rows are criteria of items."""
    return evaluation.rubric.has_requirements and {"of_item", "requirement", "points"} <= {*evaluation.items.columns}


def points_in_groups(evaluation: Evaluation, **options: Any) -> pd.DataFrame:
    """`points` of the items; items of equal content without a group of their own are the group of the first of them."""
    items, units = evaluation.items, pd.Series(evaluation.clusters).to_numpy()
    if "group_id" in items:
        first = items["of_item"].groupby(units).transform("first")
        items = items.assign(
            group_id=items["group_id"].where(items["group_id"].astype(str) != items["of_item"].astype(str), first)
        )
    return points(evaluation.scores, items, **options)


def scores_of_items(evaluation: Evaluation) -> tuple[pd.DataFrame | None, str]:
    """`Evaluation.points`; None if there are none, with the reason if these are rows of criteria."""
    try:
        return evaluation.points, ""
    except InputError as problem:  # of rows that were filtered or edited
        return None, f"no points: {problem}"


def score_tiles(evaluation: Evaluation) -> list[tuple[str, str, str]]:
    """Criterion of the rubric, figure and note of the mean item score."""
    table, _ = scores_of_items(evaluation)
    tiles = []
    for row in [] if table is None else records(summarize(table)):
        clipped = figure(row["clipped"], row["clipped_low"], row["clipped_high"])
        note = f"{count_of(row['n_scored'], row['n_items'])} items scored; {row['n_open']} of {row['n_criteria']} "
        note += f"criteria open: {figure(row['worst'])} / {figure(row['best'])} if bad / good; clipped: {clipped}"
        tiles.append((row["criterion"], figure(row["mean"], row["low"], row["high"]), note))
    return tiles


def items_of_rows(evaluation: Evaluation, criterion: str) -> list[tuple[str, dict[str, Any]]]:
    """The item of each row of criteria, as text, and its row of `points`; of other rows nothing."""
    if not of_criteria(evaluation):
        return [("", {})] * len(evaluation.items)
    table, _ = scores_of_items(evaluation)
    of_rubric = [] if table is None else records(table[(table["criterion"] == criterion).to_numpy()])
    row_of = {key_text(row["item_id"]): row for row in of_rubric}
    return [(item, row_of.get(item, {})) for item in map(key_text, evaluation.items["of_item"])]


def criteria_of(evaluation: Evaluation, item: str, criterion: str) -> list[dict[str, Any]]:
    """The criteria of one item as plain values, in their order.

    Returns
    -------
    list of dict
        ``row`` (the `item_id` of the row), ``id``, ``text``, ``axis``; ``needs`` (ids, and whether a prerequisite that
        is not met took its points); ``worth`` (in a tree, its share of the item) and ``earned`` (None: open); the
        verdict of the jury, ``met`` (in words) and ``passed``; ``votes`` and ``reasons`` of the judges.
    """
    rows = evaluation.items[(evaluation.items["of_item"].map(key_text) == item).to_numpy()]
    tables = [table[(table["item_id"].isin(rows["item_id"]) & (table["criterion"] == criterion)).to_numpy()]
            for table in (evaluation.scores, evaluation.votes, evaluation.judgments)]  # fmt: skip
    # as if each criterion were an axis of its own
    worths = points(tables[0], rows.assign(axis=rows["item_id"]), by="axis").set_index("axis")
    worths = worths.loc[rows["item_id"], ["points", "possible"]]
    rows = rows.reindex(columns=["item_id", "requirement", "points", "axis", "requires"])
    verdicts = tables[0].set_index("item_id").reindex(rows["item_id"])[["score", "score_norm", "passed"]]
    votes, reasons = defaultdict[str, list[Any]](list), defaultdict[str, list[Any]](list)
    for vote in records(tables[1][["item_id", "judge", "label", "passed"]]):
        votes[vote.pop("item_id")].append([*vote.values()])
    for sample in records(tables[2][["item_id", "judge", "explanation", "error"]]):
        reasons[sample.pop("item_id")].append([sample["judge"], sample["explanation"] or "", sample["error"]])
    criteria = []
    required = lists_in_cells(rows["requires"])
    for row, needs, worth, got in zip(records(rows), required, records(worths), records(verdicts), strict=True):
        name, passed = row["item_id"], got["passed"]
        lost = ", not met" * bool(got["score_norm"] and worth["points"] == 0)
        criteria.append({
            "row": name, "id": name.removeprefix(f"{item}#"), "text": str(row["requirement"]), "axis": row.get("axis"),
            "needs": f"needs {names}{lost}" if (names := ", ".join(map(key_text, needs))) else "", "passed": passed,
            "worth": float(worth["possible"] or row["points"]), "earned": worth["points"],
            "met": None if got["score"] is None else figure(got["score"]) if passed is None else str(passed).lower(),
            "votes": votes[name], "reasons": reasons[name]})  # fmt: skip
    return criteria


def got_words(row: Mapping[str, Any]) -> tuple[str, str]:
    """The points of an item and its score, of a row of `points`; where criteria are open, the range that they leave.

    Examples
    --------
    >>> got_words({"points": float("nan"), "possible": 8.0, "low": -0.25, "high": 0.5})
    ('−2 to 4 of 8', '−0.25 to 0.50')
    >>> got_words({"points": 4.0, "possible": 8.0, "low": 0.5, "high": 0.5})
    ('4 of 8', '0.50')
    """
    if not row["possible"] > 0:
        return f"{number(row['points'])} of 0", "NA"
    shares = sorted({float(row["low"]), float(row["high"])})
    got = " to ".join(number(share * row["possible"]) for share in shares)
    return f"{got} of {number(row['possible'])}", " to ".join(map(figure, shares)).replace("-", "−")


def number(value: float | None, sign: str = "") -> str:
    """Points as they are shown, with a minus that can be read, and `sign` before what is above 0.

    Examples
    --------
    >>> number(2.0), number(-0.5), number(0.00412), number(1234567.0), number(5, "+"), number(0, "+")
    ('2', '−0.5', '0.0041', '1234567', '+5', '0')
    """
    if value is None or value != value:  # NaN
        return "open"
    text = f"{value:.2g}" if abs(value) < 0.1 else f"{round(float(value), 2):.12g}"
    return f"{sign * (value > 0)}{text}".replace("-", "−")
