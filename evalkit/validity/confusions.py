"""Confusion: which labels of the judge stand against which labels of people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.validity.figures import Answers
from evalkit.validity.panels import KEYS, Panel, checked, panels
from evalkit.validity.parts import PartOption, take_part

__all__ = ["confusion"]

_COLUMNS = [*KEYS, "judge", "label_judge", "label_human", "n", "share"]


def confusion(judged: pd.DataFrame, labels: pd.DataFrame, *, part: PartOption | None = None) -> pd.DataFrame:
    """How often each label of a judge stands against each label of a person.

    Parameters
    ----------
    judged
        Votes (each judge) or scores (the judge is then ``jury``).
    labels
        Long table: `item_id, criterion, annotator, label`. Every annotator's label counts once. Where people gave
        nothing but ``true`` and ``false``, verdicts are counted instead of labels.
    part
        ``dev`` or ``held-out``, for labels of `split_labels`; by default all, or ``dev`` where there are parts.

    Returns
    -------
    DataFrame
        Per `rubric, rubric_version, criterion, judge` one row for each pair of `label_judge` and `label_human`, in the
        order of the scale and with pairs that never occur (interval scales: only labels that occur): `n`, the
        number of labels, and `share` 0-1 of all labels of items that the judge was asked about. Where the judge
        has no label (a tie, unscored), `label_judge` is NA: those rows are there only if they occur. A person's
        number between the codes is no label and is left out.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on the scale, or no label is of a criterion that was
        judged.

    Examples
    --------
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 3, "rubric_version": ["v1"] * 3, "item_id": list("abc"), "criterion": ["c"] * 3,
    ...     "judge": ["j"] * 3, "score": [0.0, 1.0, 1.0], "label": ["0", "1", "1"],
    ...     "passed": [None] * 3, "n_samples": [1] * 3, "n_scored": [1] * 3, "tied": [False] * 3,
    ...     "level": ["ordinal"] * 3, "scale": ['{"codes":[0,1],"better":"high"}'] * 3})
    >>> labels = pd.DataFrame({"item_id": list("abc"), "criterion": "c", "annotator": "ann", "label": [0, 1, 0]})
    >>> confusion(votes, labels)[["label_judge", "label_human", "n"]].values.tolist()
    [['0', '0', 1], ['0', '1', 0], ['1', '0', 1], ['1', '1', 1]]
    """
    frame, said = checked(judged, labels)
    said, _ = take_part(said, part)
    rows: list[dict[str, Any]] = []
    for panel in panels(frame, said, kinds="label"):
        for judge, (answers, there) in panel.judges.items():
            rows.extend(panel.head | {"judge": judge} | row for row in _counts(panel, answers, there))
    made = pd.DataFrame(rows, columns=_COLUMNS).astype({"n": "int64", "share": "float64"})
    for name in _COLUMNS[:-2]:
        made[name] = tables.categorical(made[name])
    return made


def _counts(panel: Panel, answers: Answers, there: Any) -> list[dict[str, Any]]:
    """The cells of one judge's table; labels that only other panels have are not among them."""
    names = _names(panel)
    human = panel.crowd.kind[there]
    item, _ = np.nonzero(human >= 0)
    own, true = answers.kind[there][item], human[human >= 0]
    total = len(true)
    rows = []
    for said in [*names, -1]:
        for meant in names:
            n = int(((own == said) & (true == meant)).sum())
            if n or said >= 0:
                row = {"label_judge": names.get(said), "label_human": names[meant], "n": n}
                rows.append(row | {"share": n / total if total else np.nan})
    return rows


def _names(panel: Panel) -> dict[int, str]:
    """Number of a label -> its text, in the order of the scale."""
    if panel.verdicts:
        return {0: "false", 1: "true"}
    scale = panel.scale
    if scale.level == "interval":
        return {number: text for text, number in sorted(panel.kinds.items(), key=lambda kind: float(kind[0]))}
    return {panel.kinds.setdefault(text, len(panel.kinds)): text for text in scale.labels}
