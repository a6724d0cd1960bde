"""One row per item, with everything about it: `Evaluation.wide`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import pandas as pd

_KEY = ["item_id", "criterion", "judge"]


def wide_table(
    items: pd.DataFrame,
    criteria: Sequence[tuple[str, str]],
    judges: Sequence[str],
    judgments: pd.DataFrame,
    votes: pd.DataFrame,
    scores: pd.DataFrame,
    labels: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The items with scores, votes, reasons and labels (see `Evaluation.wide`); `criteria` are names and levels."""
    ids = items["item_id"]
    columns: dict[str, Any] = {}

    def add(name: str, values: pd.Series) -> None:
        taken = {*items.columns, *columns}
        places = (name if number == 1 else f"{name}_{number}" for number in count(1))
        columns[next(place for place in places if place not in taken)] = ids.map(values)

    reasons = explanations(judgments, votes)
    for criterion, level in criteria:
        value = "label" if level == "nominal" else "score"
        own = _of(scores, criterion)
        add(criterion, own[value])
        add(f"{criterion}_passed", own["passed"])
        add(f"{criterion}_status", own["status"])
        for judge in judges:
            name, vote = f"{criterion}_{judge}", _of(votes, criterion, judge)
            add(name, vote[value])
            add(f"{name}_label", vote["label"])
            add(f"{name}_explanation", _of(reasons, criterion, judge)["explanation"])
        if labels is not None:
            people = labels[labels["criterion"] == criterion].groupby("annotator", observed=True, sort=False)
            for annotator, rows in people:
                add(f"{criterion}_{annotator}", rows.set_index("item_id")["label"])
    return pd.concat([items, pd.DataFrame(columns, index=items.index)], axis="columns")


def _of(table: pd.DataFrame, criterion: str, judge: str | None = None) -> pd.DataFrame:
    rows = table["criterion"] == criterion
    return table[rows if judge is None else rows & (table["judge"] == judge)].set_index("item_id")


def explanations(judgments: pd.DataFrame, votes: pd.DataFrame) -> pd.DataFrame:
    """For each vote the explanation of the first sample on its side."""
    rows = judgments[judgments["error"].isna() & judgments["explanation"].notna()]
    voted = votes[[*_KEY, "passed", "label", "score_norm"]]
    rows = rows.merge(voted, on=_KEY, how="left", suffixes=("", "_voted"))
    order = pd.DataFrame(
        {
            "verdict": rows["passed"].ne(rows["passed_voted"]).fillna(value=False).astype(bool),
            "label": rows["label"].astype(object).ne(rows["label_voted"].astype(object)),
            "distance": (rows["score_norm"] - rows["score_norm_voted"]).abs().fillna(0.0).round(9),
        }
    ).sort_values(["verdict", "label", "distance"], kind="stable")
    first = rows.loc[order.index].drop_duplicates(_KEY)
    # the judge saw A and B in the other order: its A is B here
    turned = (first["order"] == "BA").to_numpy()
    return first[_KEY].assign(explanation=first["explanation"].mask(turned, "(A is B here) " + first["explanation"]))
