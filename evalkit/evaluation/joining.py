"""One row an item, with everything that is known of it: `Evaluation.wide`."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from evalkit.evaluation.evaluations import Evaluation

__all__ = ["explanations", "joined"]

_KEY = ["item_id", "criterion", "judge"]


def joined(evaluation: Evaluation) -> pd.DataFrame:
    """The items with scores, votes, explanations and labels beside them; see `Evaluation.wide`."""
    rubric, ids = evaluation.rubric, evaluation.items["item_id"]
    columns: dict[str, Any] = {}

    def add(name: str, values: pd.Series) -> None:
        taken = {*evaluation.items.columns, *columns}
        places = (name if number == 1 else f"{name}_{number}" for number in count(1))
        columns[next(place for place in places if place not in taken)] = ids.map(values)

    scores = dict(list(evaluation.scores.groupby("criterion", observed=True)))
    votes = dict(list(evaluation.votes.groupby(["criterion", "judge"], observed=True)))
    said = dict(list(explanations(evaluation).groupby(["criterion", "judge"], observed=True)))
    for criterion in rubric.criteria:
        what = "label" if criterion.level == "nominal" else "score"
        mine = scores.get(criterion.name, evaluation.scores[:0]).set_index("item_id")
        add(criterion.name, mine[what])
        add(f"{criterion.name}_passed", mine["passed"])
        add(f"{criterion.name}_status", mine["status"])
        for judge in evaluation.spec.judges:
            name, key = f"{criterion.name}_{judge.name}", (criterion.name, judge.name)
            own = votes.get(key, evaluation.votes[:0]).set_index("item_id")
            add(name, own[what])
            add(f"{name}_label", own["label"])
            add(f"{name}_explanation", _texts(said.get(key)))
        if evaluation.labels is not None:
            labels = evaluation.labels[evaluation.labels["criterion"] == criterion.name]
            for annotator, given in labels.groupby("annotator", observed=True, sort=False):
                add(f"{criterion.name}_{annotator}", given.set_index("item_id")["label"])
    return pd.concat([evaluation.items, pd.DataFrame(columns, index=evaluation.items.index)], axis="columns")


def _texts(rows: pd.DataFrame | None) -> pd.Series:
    return pd.Series(dtype="str") if rows is None else rows.set_index("item_id")["explanation"]


def explanations(evaluation: Evaluation) -> pd.DataFrame:
    """For each vote the explanation of the first sample on its side."""
    judgments = evaluation.judgments
    rows = judgments[judgments["error"].isna() & judgments["explanation"].notna()]
    voted = evaluation.votes[[*_KEY, "passed", "label", "score_norm"]]
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
