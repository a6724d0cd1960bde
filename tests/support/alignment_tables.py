"""Labels and votes written as lists of codes, and the one row that `align` makes of them."""

from __future__ import annotations

import pandas as pd
from judgment_tables import judgments

from evalkit.rubrics import Scale
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.voting import vote

FIVE = Scale.of(dict.fromkeys(range(1, 6), ""), pass_at=4)


def labels_of(columns, criterion="c"):
    """The labels table from {annotator: [label or None]}, items i0, i1, …"""
    rows = [
        (f"i{n}", criterion, annotator, str(label))
        for annotator, given in columns.items()
        for n, label in enumerate(given)
        if label is not None
    ]
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


def votes_of(codes, scale=FIVE, judge="j"):
    return vote(
        judgments(
            {
                (f"i{n}", judge): (code if isinstance(code, list) else ["!empty" if code is None else code])
                for n, code in enumerate(codes)
            },
            scale,
        )
    )


def one(codes, columns, scale=FIVE, **options):
    made = align(votes_of(codes, scale), labels_of(columns), **options)
    assert len(made) == 1
    return made.iloc[0]
