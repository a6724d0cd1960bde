"""Items with criteria of their own, on the screen: one row per item, and an open item with its criteria."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from evalkit.core.formatting import figure
from evalkit.errors import counted
from evalkit.evaluation import Evaluation
from evalkit.evaluation.item_scores import criteria_of, got_words, keys_of, number, own_input, points_by_item
from evalkit.notebook.judgments.item_details import item_texts, judged_inputs, row_texts
from evalkit.notebook.judgments.item_table import Row, item_columns
from evalkit.tables.files import records

PAGE = 50
_LONGEST, _LONGEST_REASON = 10_000, 2_000


def item_rows(evaluation: Evaluation, criterion: str) -> list[Row]:
    """One row per item: the judged text, its points; `Row.apart` is what its score lacks."""
    keys, found = keys_of(evaluation.items), points_by_item(evaluation, criterion)
    firsts = replace(evaluation, items=evaluation.items[~keys.duplicated().to_numpy()].reset_index(drop=True))
    own = own_input(evaluation)
    names = [name for name in firsts.input_columns if name != own]
    judged = judged_inputs(evaluation.rubric, criterion, names)
    columns = item_columns(firsts, {"requirement", "points", "axis", "group_id", "of_item", "requires", "parent"})
    rows = []
    for at, (key, texts) in enumerate(zip(keys_of(firsts.items), row_texts(firsts), strict=True)):
        points, texts = found[key], {name: text for name, text in texts.items() if name != own}
        got, share = got_words(points)
        middle = None if points["low"] is None else (points["low"] + points["high"]) / 2
        rows.append(Row(
            item_id=key, text=" — ".join(texts[name] for name in judged if name in texts), texts=texts, people={},
            held=False, jury=None, passed=None, status=points["status"], votes=(), change="", people_passed=None,
            wrong=None, apart=0.0 if middle is None else 1 - middle, points=f"{got}\n{share}",
            item_columns={name: values[at] for name, values in columns.items()},
        ))  # fmt: skip
    return rows


def item_with_criteria(
    evaluation: Evaluation, item: str, criterion: str, axis: int = 0, page: int = 0
) -> dict[str, Any]:
    """One item as the screen shows it: its texts, points, axes, and a page of the criteria of an axis (0: of all)."""
    criteria = criteria_of(evaluation, item, criterion)
    names = list(dict.fromkeys(one["axis"] for one in criteria))
    axes = [("all axes", criteria)]
    if len(names) > 1:
        axes += [(name or "no axis", [one for one in criteria if one["axis"] == name]) for name in names]
    axis = axis if 0 <= axis < len(axes) else 0
    shown = axes[axis][1]
    n_pages = -(-len(shown) // PAGE)
    page = min(max(0, page), n_pages - 1)
    part = shown[page * PAGE : (page + 1) * PAGE]
    columns = {name: column for name, column in evaluation.input_columns.items() if column != "requirement"}
    texts = item_texts(evaluation.items, columns, criteria[0]["row"], evaluation.rubric, criterion)
    sums = [_sums(name, of_axis) for name, of_axis in axes]
    about = {"axes": sums, "axis": axis, "page": page, "n_pages": n_pages, "start": page * PAGE, "n": len(shown)}
    return {
        "item_id": item, "criterion": criterion, **texts, "prompt": "", "judges": [],
        "own": about | {"says": _says(points_by_item(evaluation, criterion)[item], sums, criteria),
                        "judges": list(evaluation.judges), "rows": _rows(evaluation, criterion, part)},
    }  # fmt: skip


def _sums(name: str, criteria: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The points of an axis, in words; `share` is that of the points that are decided, for a bar."""
    possible = sum(max(0.0, one["points"]) for one in criteria)
    decided = [one["earned"] for one in criteria if one["earned"] is not None]
    n_open, got = len(criteria) - len(decided), sum(decided)
    words = f"{number(got)} of {number(possible)} points" + f", {n_open} open" * (n_open > 0)
    share = max(0.0, min(1.0, got / possible)) if possible else 0.0
    return {"name": name, "words": words, "share": share, "n": len(criteria), "lost": possible - got,
            "got": number(got), "possible": number(possible), "n_open": n_open}  # fmt: skip


def _says(points: dict[str, Any], sums: Sequence[dict[str, Any]], criteria: Sequence[dict[str, Any]]) -> list[str]:
    """The sentence in bold, the one after it, and the line below."""
    got, share = got_words(points)
    whole, n_open = sums[0], points["n_open"]
    if not n_open:
        first, then = f"{got} points ({share}).", ""
    else:
        all_criteria = counted(len(criteria), "criterion", "criteria")
        first = f"{whole['got']} of {whole['possible']} points, {n_open} of {all_criteria} open."
        then = f"With {'it' if n_open == 1 else 'them'}, {got.split(' of ')[0]} points ({share})."
    lost = max(sums[1:], key=lambda one: one["lost"], default=None)
    below = [f"Most points are lost on {lost['name']}: {number(lost['lost'])}."] if lost and lost["lost"] > 0 else []
    if any(one["points"] < 0 for one in criteria):
        below.append("Points below zero count against the sum, which is not cut at 0.")
    if not points["possible"]:
        below.append("No points are possible, so the item has no score.")
    return [first, then, " ".join(below)]


def _rows(evaluation: Evaluation, criterion: str, criteria: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    ids = [one["row"] for one in criteria]

    def mine(table: pd.DataFrame) -> pd.DataFrame:
        return table[(table["item_id"].isin(ids) & (table["criterion"] == criterion)).to_numpy()]

    votes: dict[str, list[Any]] = {}
    reasons: dict[str, list[Any]] = {}
    for vote in records(mine(evaluation.votes)[["item_id", "judge", "label", "passed"]]):
        votes.setdefault(vote["item_id"], []).append([vote["judge"], vote["label"], vote["passed"]])
    for sample in records(mine(evaluation.judgments)[["item_id", "judge", "explanation", "error"]]):
        reason = [sample["judge"], _cut(sample["explanation"] or "", _LONGEST_REASON), sample["error"]]
        reasons.setdefault(sample["item_id"], []).append(reason)
    return [
        {"id": one["id"], "text": _cut(one["text"], _LONGEST), "axis": one["axis"] or "",
         "points": number(one["points"], sign=True), "below": one["points"] < 0,
         "needs": f"needs {', '.join(one['needs'])}{', not met' * one['blocked']}" if one["needs"] else "",
         "jury": [None if one["score"] is None else figure(one["score"]).removesuffix(".00"), one["passed"]],
         "counts": number(one["earned"], sign=True),
         "votes": votes.get(one["row"], []), "reasons": reasons.get(one["row"], [])}
        for one in criteria
    ]  # fmt: skip


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({counted(len(text) - most, 'more character')})"
