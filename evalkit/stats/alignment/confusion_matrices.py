"""Confusion: how often each label of the judge meets each label of people."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.errors import InputError
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.agreement_measures import Answers, kinds_table
from evalkit.stats.alignment.label_splits import PartOption
from evalkit.stats.alignment.label_values import JudgedLike, Panel, taken
from evalkit.stats.result_tables import JUDGE_KEY, result_table, with_id_notes
from evalkit.tables.ties import Counting, check_counting

_COLUMNS = (JUDGE_KEY, "text: label_judge label_human; count: n; number: share; text: reason notes")


@with_id_notes
def confusion(
    judged: JudgedLike,
    labels: LabelsLike,
    *,
    ties: Ties = "na",
    unscored: Unscored = "drop",
    part: PartOption | None = None,
) -> pd.DataFrame:
    """How often each label of a judge meets each label of a person.

    Parameters
    ----------
    judged
        An evaluation, which stands for its votes and clusters, or a table:
        Votes (each judge) or scores (the judge is then ``jury``).
    labels
        A long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item columns. Every
        annotator's label counts once. Where people gave nothing but ``true`` and ``false``, verdicts are counted
        instead of labels.
    ties, unscored
        As in `align`: ``half`` counts a tie as 1/t in each of its t cells; left-out labels are in rows of their own,
        whose `share` is NA; ``wrong`` counts them in the shares. The shares of equal labels add up to the accuracy.
    part
        ``dev`` or ``held-out``, for labels of `split_labels`; by default all, or ``dev`` if there are parts.
        A look at held-out labels is counted, as in `align`.

    Returns
    -------
    DataFrame
        Per `rubric, rubric_version, criterion, judge` one row for each pair of `label_judge` and `label_human`, in the
        order of the scale and with pairs that never occur (interval scales: only labels that occur): `n`, the
        number of labels, and `share` 0-1 of those that count. Where the judge has no label, `label_judge` is NA and
        `reason` says ``tied`` or ``unscored``: these rows exist only if they occur. A person's number between the
        codes is no label and is left out. `notes`: which labels were not used.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on the scale, the levels of the scale are not known,
        or no label is of a criterion that was judged.

    Examples
    --------
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 3, "rubric_version": ["v1"] * 3, "item_id": list("abc"), "criterion": ["c"] * 3,
    ...     "judge": ["j"] * 3, "score": [0.0, 1.0, 1.0], "label": ["0", "1", "1"],
    ...     "passed": [None] * 3, "n_samples": [1] * 3, "n_scored": [1] * 3, "tied": [False] * 3,
    ...     "level": ["ordinal"] * 3, "scale": ['{"codes":[0,1],"better":"high"}'] * 3})
    >>> labels = pd.DataFrame({"item_id": list("abc"), "criterion": "c", "annotator": "ann", "label": [0, 1, 0]})
    >>> confusion(votes, labels)[["label_judge", "label_human", "n"]].values.tolist()
    [['0', '0', 1], ['0', '1', 0], ['1', '0', 1], ['1', '1', 1]]
    """
    counting = check_counting("confusion", ties, unscored)
    tables = taken(judged, labels, "confusion").of_part(part)
    rows: list[dict[str, Any]] = []
    for panel in tables.panels("label"):
        if panel.scale.is_open and panel.scale.level != "nominal" and not panel.verdicts:
            raise InputError(
                f"confusion counts levels, and those of criterion {panel.head['criterion']!r} are not known; pass "
                "votes with a scale, as ek.vote(table, scale=[0, 1, 2]) makes them"
            )
        for judge, (answers, was_asked) in panel.judges.items():
            head = panel.head | {"judge": judge, "notes": tables.note}
            rows.extend(head | row for row in _counts(panel, answers, was_asked, counting))
    return tables.finished(result_table(rows, *_COLUMNS, "number: n" if ties == "half" else ""))


def _counts(panel: Panel, answers: Answers, there: Any, counting: Counting) -> list[dict[str, Any]]:
    """The cells of one judge's table; labels that only other panels have are not among them."""
    names, answered = {number: text for text, number in panel.classes().items()}, answers.take(there)
    annotators = panel.annotators.kind[there]
    spread = Counting("half" if counting.ties == "half" else "na")
    grids = [kinds_table(answered, kind, verdicts=panel.verdicts, counting=spread) for kind in annotators.T]
    kinds, truth, weight = (
        np.concatenate([getattr(grid, name) for grid in grids] or [np.zeros(0)]) for name in ("said", "true", "weight")
    )
    cells = {(code, true): float(weight[(kinds == code) & (truth == true)].sum()) for code in names for true in names}
    missing = answered.kind < 0
    lost = {"tied": missing & answered.tied & (counting.ties != "half"), "unscored": missing & ~answered.tied}
    counts = {"tied": counting.ties == "wrong", "unscored": counting.unscored == "wrong"}
    gone = {(why, code): int((annotators[flags] == code).sum()) for why, flags in lost.items() for code in names}
    total = sum(cells.values()) + sum(n for (why, _), n in gone.items() if counts[why])
    rows: list[dict[str, Any]] = [
        {"label_judge": names[code], "label_human": names[true], "n": n, "share": n / total if total else np.nan}
        for (code, true), n in cells.items()
    ]
    return rows + [
        {"label_judge": None, "label_human": names[true], "n": n, "reason": why}
        | {"share": n / total if counts[why] and total else np.nan}
        for (why, true), n in gone.items()
        if n
    ]
