"""What plots draw: tables of votes or scores with human labels, or an evaluation that has them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

import pandas as pd

from evalkit.errors import InputError
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import NO_ENDS, measures
from evalkit.rubrics.scales import Scale, folded
from evalkit.stats.alignment.label_splits import take_part
from evalkit.stats.alignment.label_values import HasJudgments, labels_for, of_items
from evalkit.stats.plain_tables import names_in, take_rows
from evalkit.tables.grouping import group

RUBRIC_KEY = ["rubric", "rubric_version", "criterion"]
LABELLED = [*RUBRIC_KEY, "item_id", "score", "label", "passed", "tied", "level", "scale"]
"""Columns of votes and scores that are compared with human labels."""


Judged = pd.DataFrame | HasJudgments
"""A table, or an evaluation, which has the tables that are drawn."""


def table_of(judged: Judged, name: Literal["votes", "scores"], need: Sequence[str]) -> pd.DataFrame:
    """The table passed, or that of an evaluation, with its types restored; votes are also taken for scores."""
    table = judged if isinstance(judged, pd.DataFrame) else getattr(judged, name, judged)
    by_judge = name == "votes" or "judge" in names_in(table)
    name, columns = ("votes", [*need, "judge"]) if by_judge else ("scores", list(need))
    frame, _ = take_rows(table, name, need=columns, function="the plot")
    if {"level", "scale"} <= {*frame.columns} and measures(frame).without_ends.any():
        raise InputError(f"a plot shows the place of scores on their scale, and {NO_ENDS} to `vote` or `aggregate`")
    return frame


def labels_of(judged: Judged, labels: LabelsLike | None, drawn: pd.DataFrame) -> tuple[pd.DataFrame, str | None]:
    """The labels passed, else those of an evaluation, without missing and held-out ones, and a note on them.

    Their ids are spelled as those of the table that is drawn.
    """
    human, note = take_part(labels_for(judged, labels, list(map(str, drawn["criterion"].unique()))), None)
    human = human[human["label"].notna().to_numpy()]
    return of_items(human, drawn), note


def scale_drawn(rows: pd.DataFrame, human: Iterable[str] = ()) -> Scale:
    """The scale of a criterion's rows; of words without one, the words that occur, also those of people."""
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    words = {folded(text): str(text) for text in [*human, *rows["label"].dropna()]}
    return replace(scale, codes=tuple(sorted(words.values())) or ("no label",)) if scale.is_open else scale


def parts_of(table: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Criterion, judge and rows, one version of one rubric at a time."""
    by_judge = "judge" in table.columns
    groups = group(table, [*RUBRIC_KEY, *(["judge"] if by_judge else [])])
    for number in range(len(groups)):
        rows = table.loc[groups.codes == number]
        yield str(rows["criterion"].iloc[0]), str(rows["judge"].iloc[0]) if by_judge else "jury", rows
