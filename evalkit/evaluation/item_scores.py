"""Scores of items in an evaluation whose rows are these items' own criteria (see `explode_criteria`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import count_of, figure, noted
from evalkit.errors import InputError, counted
from evalkit.stats.aggregation.item_points import points
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.plain_tables import key_text
from evalkit.tables.files import records
from evalkit.tables.lists_in_texts import list_in

if TYPE_CHECKING:
    from evalkit.evaluation.evaluation import Evaluation

CRITERIA_MET = "share of criteria met"
"""What the figures of the rows are; a criterion with negative points is met, too."""

_MOST_AXES = 20


def has_own_criteria(items: pd.DataFrame) -> bool:
    """Whether the rows are criteria of items."""
    return {"of_item", "requirement", "points"} <= {*items.columns}


def own_input(evaluation: Evaluation) -> str:
    """The input of the rubric that holds the criterion of a row; empty if rows are no criteria, or it has none."""
    names = [name for name, column in evaluation.input_columns.items() if column == "requirement"]
    return names[0] if names and has_own_criteria(evaluation.items) else ""


def scores_of_items(evaluation: Evaluation) -> tuple[pd.DataFrame | None, str]:
    """`Evaluation.item_points`; None if there are none, with the reason if these are rows of criteria."""
    try:
        return evaluation.item_points, ""
    except InputError as problem:
        return None, f"no item scores: {problem}"


def item_score_tiles(evaluation: Evaluation) -> Iterator[tuple[str, str, str, str]]:
    """Criterion of the rubric, figure, title and note of the mean item score."""
    table, _ = scores_of_items(evaluation)
    for row in [] if table is None else records(summarize(table)):
        open_ = f"{row['n_open']} of {counted(row['n_criteria'], 'criterion', 'criteria')} open"
        ends = f": {figure(row['worst'])} to {figure(row['best'])} with them" * (row["n_open"] > 0)
        clipped = figure(row["clipped"], row["clipped_low"], row["clipped_high"])
        lack = [note for note in (row["notes"] or "").split("; ") if note.startswith("no interval")]
        note = "; ".join([f"{count_of(row['n_scored'], row['n_items'])} items scored", open_ + ends, *lack])
        note += f"; mean clipped at 0 and 1: {clipped}"
        yield str(row["criterion"]), figure(row["mean"], row["low"], row["high"]), "item score", note


def item_score_rows(evaluation: Evaluation) -> tuple[list[dict[str, str]], list[str]]:
    """The mean of the items' scores, then that of each axis; and notes."""
    table, problem = scores_of_items(evaluation)
    if table is None:
        return [], [problem]
    axes = points(evaluation.scores, evaluation.items, by="axis") if "axis" in evaluation.items else table[:0]
    parts = summarize(axes).sort_values("n_criteria", ascending=False, kind="stable") if len(axes) else axes
    if len(parts) < 2:
        parts = parts[:0]
    rows, notes, several = [], [], table["criterion"].nunique() > 1
    summary = [*records(summarize(table)), *records(parts.head(_MOST_AXES))]
    for row in summary:
        name = "no axis" if "axis" in row and row["axis"] is None else row.get("axis", "all criteria")
        name = f"{row['criterion']}: {name}" if several else str(name)
        below = "NA" if row["below_0"] is None else count_of(round(row["below_0"] * row["n_scored"]), row["n_scored"])
        rows.append({"item scores": name, "mean": figure(row["mean"], row["low"], row["high"]),
                     "clipped at 0 and 1": figure(row["clipped"], row["clipped_low"], row["clipped_high"]),
                     "if open were bad / good": f"{figure(row['worst'])} / {figure(row['best'])}", "below 0": below,
                     "items scored": count_of(row["n_scored"], row["n_items"]),
                     "criteria open": count_of(row["n_open"], row["n_criteria"])})  # fmt: skip
        mine = (
            axes[axes["axis"].isna() if row["axis"] is None else axes["axis"] == row["axis"]]
            if "axis" in row
            else table
        )
        if n_bare := int((mine["reason"] == "no_positive_points").sum()):
            notes.append((name, f"{counted(n_bare, 'item')} without positive points, so without score"))
        notes += [(name, note) for note in [row["notes"]] if note]
    said = ["score of an item: points got / possible points, not clipped; 95 % intervals over groups of items"]
    if summary[0]["n_open"]:
        share = f"; of the scored criteria alone, the mean is {figure(summary[0]['renormalised'])}"
        said.append(f"an item with an open criterion (no verdict) has no score{share}")
    if (hidden := len(parts) - _MOST_AXES) > 0:
        said.append(f"{hidden} more axes with fewer criteria: ek.summarize(ek.points(…, by='axis'))")
    return rows, [*said, *noted(notes, len(rows), ", ")]


def keys_of(items: pd.DataFrame) -> pd.Series:
    """Of rows of criteria, the item of each as text."""
    return items["of_item"].map(key_text).astype("str")


def points_by_item(evaluation: Evaluation, criterion: str) -> dict[str, dict[str, Any]]:
    """Item, as text -> its row of `points`; empty without item scores."""
    table, _ = scores_of_items(evaluation)
    mine = [] if table is None else records(table[(table["criterion"] == criterion).to_numpy()])
    return {key_text(row["item_id"]): row for row in mine}


def criteria_of(evaluation: Evaluation, item: str, criterion: str) -> list[dict[str, Any]]:
    """The criteria of one item as plain values, in their order.

    Returns
    -------
    list of dict
        ``row`` (the `item_id` of the row), ``id``, ``text``, ``axis`` and ``needs`` (ids); ``points`` (in a tree, its
        share of the item), ``earned`` (None: open); the jury's ``score`` and ``passed``; ``blocked``: whether a
        prerequisite that is not met took its points.
    """
    rows = evaluation.items[(keys_of(evaluation.items) == item).to_numpy()]
    of_rubric = evaluation.scores[(evaluation.scores["criterion"] == criterion).to_numpy()]
    scores = of_rubric[of_rubric["item_id"].isin(rows["item_id"])]
    # as if each criterion were an axis of its own
    each = points(scores, rows.assign(axis=rows["item_id"]), by="axis").set_index("axis").loc[rows["item_id"]]
    verdicts = records(scores.set_index("item_id").reindex(rows["item_id"])[["score", "score_norm", "passed"]])
    criteria = []
    for row, worth, verdict in zip(records(rows), records(each[["points", "possible"]]), verdicts, strict=True):
        required = row.get("requires")
        needs = list_in(required) if isinstance(required, str) else required
        earned, got = worth["points"], verdict.pop("score_norm")
        criteria.append({
            "row": row["item_id"], "id": row["item_id"].removeprefix(f"{item}#"), "text": str(row["requirement"]),
            "axis": row.get("axis"), "needs": [key_text(name) for name in needs if needs is not None] if needs else [],
            "points": float(worth["possible"] or row["points"]), "earned": earned,
            "blocked": bool(needs and got and earned == 0), **verdict,
        })  # fmt: skip
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


def number(value: Any, *, sign: bool = False) -> str:
    """Points as they are shown, with a minus that can be read; `sign`: also with a plus.

    Examples
    --------
    >>> number(2.0), number(-0.5), number(0.00412), number(1234567.0), number(5, sign=True), number(0, sign=True)
    ('2', '−0.5', '0.0041', '1234567', '+5', '0')
    """
    if value is None or np.isnan(value):
        return "open"
    text = f"{value:.2g}" if abs(value) < 0.1 else f"{round(float(value), 2):.12g}"
    return f"{'+' * (sign and value > 0)}{text}".replace("-", "−")
