"""One row an item, with everything that is known of it: `Evaluation.wide`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from evalkit.evaluation.evaluation import Evaluation

_KEY = ["item_id", "criterion", "judge"]


def joined(evaluation: Evaluation) -> pd.DataFrame:
    """The items with scores, votes, explanations and labels beside them; see `Evaluation.wide`."""
    return joined_tables(
        evaluation.items,
        [(criterion.name, criterion.level) for criterion in evaluation.rubric.criteria],
        evaluation.judges,
        evaluation.judgments,
        evaluation.votes,
        evaluation.scores,
        evaluation.labels,
    )


def joined_tables(
    items: pd.DataFrame,
    criteria: Sequence[tuple[str, str]],
    judges: Sequence[str],
    judgments: pd.DataFrame,
    votes: pd.DataFrame,
    scores: pd.DataFrame,
    labels: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """`joined` from the tables alone; `criteria` are names with their levels, in order."""
    ids = items["item_id"]
    columns: dict[str, Any] = {}

    def add(name: str, values: pd.Series) -> None:
        taken = {*items.columns, *columns}
        places = (name if number == 1 else f"{name}_{number}" for number in count(1))
        columns[next(place for place in places if place not in taken)] = ids.map(values)

    by_criterion = dict(list(scores.groupby("criterion", observed=True)))
    by_judge = dict(list(votes.groupby(["criterion", "judge"], observed=True)))
    said = dict(list(explanations(judgments, votes).groupby(["criterion", "judge"], observed=True)))
    for criterion, level in criteria:
        what = "label" if level == "nominal" else "score"
        mine = by_criterion.get(criterion, scores[:0]).set_index("item_id")
        add(criterion, mine[what])
        add(f"{criterion}_passed", mine["passed"])
        add(f"{criterion}_status", mine["status"])
        for judge in judges:
            name, key = f"{criterion}_{judge}", (criterion, judge)
            own = by_judge.get(key, votes[:0]).set_index("item_id")
            add(name, own[what])
            add(f"{name}_label", own["label"])
            add(f"{name}_explanation", _texts(said.get(key)))
        if labels is not None:
            given = labels[labels["criterion"] == criterion]
            for annotator, own in given.groupby("annotator", observed=True, sort=False):
                add(f"{criterion}_{annotator}", own.set_index("item_id")["label"])
    return pd.concat([items, pd.DataFrame(columns, index=items.index)], axis="columns")


def _texts(rows: pd.DataFrame | None) -> pd.Series:
    return pd.Series(dtype="str") if rows is None else rows.set_index("item_id")["explanation"]


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
    # the judge saw A and B the other way round: what it calls A is B here
    turned = (first["order"] == "BA").to_numpy()
    return first[_KEY].assign(explanation=first["explanation"].mask(turned, "(A is B here) " + first["explanation"]))
