"""Labels and votes written as lists of codes, and the one row that `align` makes of them."""

from __future__ import annotations

import pandas as pd
from judgment_tables import answered, only

from evalkit.rubrics import Scale
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.voting import vote
from evalkit.tables import schemas

FIVE = Scale.of(dict.fromkeys(range(1, 6), ""), pass_at=4)


def labels_of(columns, criterion="c", item="i{}"):
    """The labels table from {annotator: [label or None]}, items i0, i1, …"""
    rows = [
        (item.format(n), criterion, annotator, str(label))
        for annotator, given in columns.items()
        for n, label in enumerate(given)
        if label is not None
    ]
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


def votes_of(codes, scale=FIVE, judge="j"):
    return vote(answered({judge: codes}, scale, "i{}"))


def votes_table(scores, scale=FIVE, judge="j", *, start=0, item="i{}", name="votes"):
    """The votes of one judge from one score per item; None: it was not asked."""
    there = [(item.format(at), float(score)) for at, score in enumerate(scores, start) if score is not None]
    same = {"rubric": "r", "rubric_version": "v1", "criterion": "c", "judge": judge, "level": scale.level}
    same |= {"n_samples": 1, "n_scored": 1, "tied": False, "scale": scale.to_json()}
    is_coded, at = scale.level == "ordinal", scale.pass_at
    columns = {
        "item_id": [item for item, _ in there],
        "score": [score for _, score in there],
        "label": [f"{score:g}" if is_coded and not score % 1 else None for _, score in there],
        "passed": [None if at is None else score >= at for _, score in there],
    }
    return schemas.table(name, columns | {key: [value] * len(there) for key, value in same.items()})


def one(codes, columns, scale=FIVE, **options):
    return only(align(votes_of(codes, scale), labels_of(columns), **options))
