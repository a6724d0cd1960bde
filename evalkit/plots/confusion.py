"""Human labels against the labels of judges."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.formatting import count_of
from evalkit.errors import counted
from evalkit.plots.inputs import LABELLED, Judged, labels_of, parts_of, scale_drawn, table_of
from evalkit.plots.layout import Axes, Cell, Key, Panel, Picture, frame, judge_and_criterion, paint_matrix, short
from evalkit.plots.theme import Palette, Theme
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.label_values import annotators_of, read_label

Counts = npt.NDArray[np.int64]

_MOST_CODES, _MOST_IN_HALF = 9, 6
_NONE = ("tied", "unscored")
_KEYS = (Key("same label", "good"), Key("different label", "bad", "////"), Key(" or ".join(_NONE), "chance", "xxx"))
_NOTE = "every label of every annotator counts once; percentages are shares of the row"


def plot_confusion(judged: Judged, labels: LabelsLike | None = None, *, theme: Theme = "auto") -> Picture:
    """Confusion tables: human labels (rows) against the judge's labels (columns), with counts and shares.

    Parameters
    ----------
    judged
        Votes (one panel per judge and criterion), scores (of the jury), or an `Evaluation` (its scores and labels).
    labels
        Human labels: a long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item
        columns. Of labels of `split_labels`, those of ``dev``.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        Codes of the scale if the labels are codes; verdicts if the labels are verdicts, or if the scale has too
        many codes. Every label counts once; labels of items that the judge tied on or did not score are in
        the columns *tied* and *unscored*. Agreement is framed; colour only repeats the figures.

    Raises
    ------
    InputError
        When columns are missing, or there are no labels at all.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> from evalkit import tables
    >>> plot_confusion(tables.empty("votes"), tables.empty("labels")).alt
    'Judges against people. 0 labels. nothing to show: the table has no rows'
    """
    table = table_of(judged, "scores", LABELLED)
    human, chosen = labels_of(judged, labels, table)
    panels: list[Panel] = []
    gaps: list[str] = []
    total = together = n_classes = 0
    for criterion, judge, rows in parts_of(table):
        matrix = _matrix(rows, human[(human["criterion"] == criterion).to_numpy()])
        name = judge_and_criterion(judge, criterion, table)
        if isinstance(matrix, str):
            gaps.append(f"{name}: {matrix}")
            continue
        names, counts = matrix
        n_classes = max(n_classes, len(names))
        total, together = total + int(counts.sum()), together + int(counts[:, :-1].sum())
        panels.append(_panel(name, names, counts))
    subtitle = f"{together} of {counted(total, 'label')} compared" if total else "0 labels"
    keys = _KEYS if total > together else _KEYS[:2]
    title = "Judges against people"
    layout: dict[str, Any] = {"columns": 2 if n_classes <= _MOST_IN_HALF else 1, "keys": keys}
    return frame(title, subtitle, panels, theme=theme, gaps=gaps, notes=[_NOTE, *filter(None, [chosen])], **layout)


def _matrix(rows: pd.DataFrame, human: pd.DataFrame) -> tuple[list[str], Counts] | str:
    """Names of the classes and counts (human × judge, tied and unscored last), or why there are none."""
    human = human[human["item_id"].isin(rows["item_id"]).to_numpy()]
    scale = scale_drawn(rows, human["label"])
    if human.empty:
        return "these items have no labels"
    readings = [read_label(str(text), scale) for text in human["label"].unique()]
    coded = scale.level != "interval" and len(scale) <= _MOST_CODES
    coded = coded and not any(reading is not None and reading.label is None for reading in readings)
    if not coded and not scale.has_rule:
        return "its labels are not classes (an interval scale, means or many codes) and there is no pass rule"
    names = list(scale.labels) if coded else ["fail", "pass"]
    at: dict[Any, int] = {name: number for number, name in enumerate(names if coded else (False, True))}
    ids, criterion = pd.Index(rows["item_id"]), str(rows["criterion"].iloc[0])
    people = annotators_of(human, ids, scale, at if coded else {}, criterion, verdicts=not coded)
    answers = rows["label" if coded else "passed"].astype(object).map(at)
    none = np.where(rows["tied"].to_numpy(dtype=bool), len(names), len(names) + 1)
    answer = np.where(answers.isna(), none, answers.fillna(-1).to_numpy(dtype=np.int64))
    counts = np.zeros((len(names), len(names) + len(_NONE)), dtype=np.int64)
    items, _ = np.nonzero(people.kind >= 0)
    np.add.at(counts, (people.kind[people.kind >= 0], answer[items]), 1)
    return (names, counts) if counts.sum() else "none of the labels is a verdict"


def _panel(name: str, names: list[str], counts: Counts) -> Panel:
    beside = counts[:, len(names) :].sum(axis=0)
    left_out = "".join(f", {n} {name}" for name, n in zip(_NONE, beside, strict=True) if n)
    summary = f"{count_of(np.trace(counts), counts[:, : len(names)].sum())} agree{left_out}"
    shown = [*range(len(names)), *(len(names) + at for at in np.flatnonzero(beside))]
    columns, counts = [[*names, *_NONE][at] for at in shown], counts[:, shown]
    places = [(r, c) for r in range(len(names)) for c in range(len(columns))]
    cells = "; ".join(f"human {names[r]}, judge {columns[c]}: {counts[r, c]}" for r, c in places if counts[r, c])
    shares = counts / np.maximum(counts.sum(axis=1), 1)[:, None]
    matrix = {
        (r, c): Cell(
            f"{counts[r, c]}\n{shares[r, c]:.0%}" if counts[r, c] else "0",
            float(shares[r, c]),
            framed=r == c,
            part="chance" if c >= len(names) else "good" if r == c else "bad",
            ink="ink" if counts[r, c] else "quiet",
        )
        for r, c in places
    }

    def paint(axes: Axes, palette: Palette) -> None:
        paint_matrix(axes, palette, matrix, *([short(text, 12, texts) for text in texts] for texts in (names, columns)))
        for (r, c), cell in matrix.items():
            if counts[r, c] and r != c:
                corner = [(c + 0.47, r - 0.47), (c + 0.27, r - 0.47), (c + 0.47, r - 0.07)]
                style: Any = {"hatch": "xxx" if c >= len(names) else "////", "edgecolor": getattr(palette, cell.part)}
                axes.fill(*zip(*corner, strict=True), facecolor="none", linewidth=0, **style)
        axes.set_xlabel("label of the judge")
        axes.set_ylabel("human label")

    return Panel(f"{name}\n{summary}", paint, f"{name}: {summary}; {cells}", 1.3 + 0.5 * len(names))
