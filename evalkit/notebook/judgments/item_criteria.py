"""Items with criteria of their own, on the screen: one row per item, and an open item with its criteria."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from evalkit.evaluation import Evaluation
from evalkit.evaluation.items_with_criteria import criteria_of, got_words, items_of_rows
from evalkit.notebook.judgments.item_details import item_texts
from evalkit.notebook.judgments.item_table import Row

PAGE = 50


def rows_of_items(rows: Sequence[Row], evaluation: Evaluation, criterion: str) -> list[Row]:
    """Of rows of criteria, one row per item; `Row.apart` is what its score lacks."""
    firsts, points_of = {row.item: row for row in reversed(rows)}, dict(items_of_rows(evaluation, criterion))
    columns = [name for name in rows[0].item_columns  # columns of the items, not of their criteria
            if len({(row.item, row.item_columns[name]) for row in rows}) == len(firsts)
            and len({row.item_columns[name] for row in rows}) < len(firsts)]  # fmt: skip
    items = []
    for item in dict.fromkeys(row.item for row in rows):
        points, first = points_of[item], firsts[item]
        lacks = 0.0 if points["low"] is None else 1 - (points["low"] + points["high"]) / 2
        values = {name: first.item_columns[name] for name in columns}
        nothing: Any = {"item": "", "jury": None, "passed": None, "votes": (), "split": None, "conflicts": {}}
        of_item: Any = {"item_id": item, "points": "\n".join(got_words(points)), "item_columns": values}
        items.append(replace(first, status=points["status"], apart=lacks, **of_item, **nothing))
    return items


def item_with_criteria(evaluation: Evaluation, item: str, criterion: str, axis: int, page: int) -> dict[str, Any]:
    """One item as the screen shows it: its texts, points, axes, and a page of the criteria of an axis (0: of all)."""
    criteria = criteria_of(evaluation, item, criterion)
    names = [*dict.fromkeys(row["axis"] for row in criteria)]
    axes = [("all axes", criteria), *((name or "no axis", [row for row in criteria if row["axis"] == name])
                                      for name in names if len(names) > 1)]  # fmt: skip
    axis = min(max(0, axis), len(axes) - 1)
    of_axis = axes[axis][1]
    columns = {name: column for name, column in evaluation.input_columns.items() if column != "requirement"}
    texts = item_texts(evaluation.items, columns, criteria[0]["row"], evaluation.rubric, criterion)
    got = got_words(dict(items_of_rows(evaluation, criterion))[item])
    sums, rows = [_sum(name, rows) for name, rows in axes], of_axis[page * PAGE : (page + 1) * PAGE]
    criteria_shown = {"got": got, "axis": axis, "page": page, "axes": sums, "rows": rows, "start": page * PAGE}
    criteria_shown |= {"n_pages": -(-len(of_axis) // PAGE), "judges": list(evaluation.judges)}
    return {"item_id": item, "criterion": criterion, **texts, "prompt": "", "judges": [], "own": criteria_shown}


def _sum(name: str, criteria: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The points of an axis, those that are decided; only they can be lost."""
    earned, worth = [row["earned"] for row in criteria if row["earned"] is not None], [row["worth"] for row in criteria]
    lost = sum(max(0.0, row["worth"]) - row["earned"] for row in criteria if row["earned"] is not None)
    n_open, possible = len(worth) - len(earned), sum(max(0.0, points) for points in worth)
    return {"name": name, "n": len(worth), "n_open": n_open, "got": sum(earned), "possible": possible,
            "lost": lost, "negative": min(worth) < 0}  # fmt: skip
