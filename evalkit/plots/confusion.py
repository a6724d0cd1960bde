"""What people said against what judges said."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit import tables
from evalkit.core.formatting import count_of
from evalkit.errors import InputError, counted
from evalkit.plots.layout import Key, Panel, frame, short
from evalkit.plots.theme import Palette, Theme
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.human_labels import reading
from evalkit.tables.grouping import group

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evalkit.plots.figure import Picture

__all__ = ["labels_of", "parts_of", "plot_confusion", "table_of"]

Counts = npt.NDArray[np.int64]

JURY = "jury"
_MOST_CODES = 9
_NONE = ("tied", "unscored")
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "score", "label", "passed", "tied", "level", "scale"]
_KEYS = (
    Key("judge and person agree", "good"),
    Key("they differ", "bad", "////"),
    Key(" or ".join(_NONE), "chance", "xxx"),
)
_NOTE = "each label of each annotator counts once; shares are of the row: of what people said so"


def plot_confusion(judged: Any, labels: pd.DataFrame | None = None, *, theme: Theme = "auto") -> Picture:
    """Confusion tables: what people said (rows) against what the judge said (columns), with counts and shares.

    Parameters
    ----------
    judged
        Votes (a panel per judge and criterion), scores (the jury's), or an `Evaluation` (its scores, and its labels).
    labels
        Human labels (long table: `item_id, criterion, annotator, label`).
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        Codes of the scale where people gave codes; verdicts where they gave verdicts, or where the scale has
        too many codes. Every label counts once; a label on whose item the judge tied, or which it did not score,
        stands in the column *tied* or *unscored*. Agreement is framed; colour only repeats what the figures say.

    Raises
    ------
    InputError
        When columns are missing, or there are no labels at all.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> plot_confusion(tables.empty("votes"), tables.empty("labels")).alt
    'Judges against people. 0 labels. nothing to show: the table has no rows'
    """
    frame_, said = table_of(judged, "scores"), labels_of(judged, labels)
    panels: list[Panel] = []
    gaps: list[str] = []
    total = together = 0
    for criterion, judge, rows in parts_of(frame_):
        made = _matrix(rows, said[(said["criterion"] == criterion).to_numpy()])
        name = f"{short(judge)} · {short(criterion)}"
        if isinstance(made, str):
            gaps.append(f"{name}: {made}")
            continue
        names, counts = made
        total, together = total + int(counts.sum()), together + int(counts[:, :-1].sum())
        panels.append(_panel(name, names, counts))
    nothing = "; ".join(gaps) or "the table has no rows"
    subtitle = f"{together} of {counted(total, 'label')} compared with a scored answer" if total else "0 labels"
    keys = _KEYS if total > together else _KEYS[:2]
    notes = [_NOTE, *(f"left out: {gap}" for gap in gaps)] if panels else []
    return frame(
        "Judges against people",
        subtitle,
        panels,
        theme=theme,
        nothing=nothing,
        columns=2,
        keys=keys,
        notes=notes,
    )


def table_of(judged: Any, of_evaluation: str) -> pd.DataFrame:
    """Votes or scores, given or of an evaluation, with their types restored."""
    given = judged if isinstance(judged, pd.DataFrame) else getattr(judged, of_evaluation, judged)
    name = "votes" if "judge" in getattr(given, "columns", ()) else "scores"
    return tables.check(given, name, need=[*_NEED, *(["judge"] if name == "votes" else [])])


def labels_of(judged: Any, labels: Any) -> pd.DataFrame:
    """The labels given, else those of an evaluation; without missing ones."""
    given = labels if labels is not None else getattr(judged, "labels", None)
    if given is None:
        raise InputError("there are no human labels: pass labels=, a table with item_id, criterion, annotator, label")
    said = tables.check(given, "labels", need=["item_id", "criterion", "annotator", "label"])
    return said[said["label"].notna().to_numpy()]


def parts_of(frame_: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Criterion, judge and rows, one version of one rubric at a time."""
    by_judge = "judge" in frame_.columns
    keys = ["rubric", "rubric_version", "criterion", *(["judge"] if by_judge else [])]
    groups = group(frame_, keys)
    for number in range(len(groups)):
        rows = frame_.loc[groups.codes == number]
        yield str(rows["criterion"].iloc[0]), str(rows["judge"].iloc[0]) if by_judge else JURY, rows


def _matrix(rows: pd.DataFrame, said: pd.DataFrame) -> tuple[list[str], Counts] | str:
    """Names of the classes and counts (people × judge, tied and unscored last), or why there are none."""
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    said = said[said["item_id"].isin(rows["item_id"]).to_numpy()]
    if said.empty:
        return "no label is of these items"
    read = {text: reading(str(text), scale) for text in said["label"].unique()}
    off = [text for text, one in read.items() if one is None]
    if off:
        raise InputError(f"labels of criterion {rows['criterion'].iloc[0]!r} are not on its scale: {', '.join(off)}")
    coded = scale.level != "interval" and len(scale) <= _MOST_CODES
    coded = coded and all(one is not None and one.label is not None for one in read.values())
    if not coded and not scale.has_rule:
        return "its answers are no classes (an interval scale, means or many codes) and it has no pass rule"
    names = list(scale.labels) if coded else ["pass", "fail"]
    at = {name: number for number, name in enumerate(names)}
    verdict: dict[bool | None, int] = {True: 0, False: 1}
    kinds = {
        text: (at[str(one.label)] if coded else verdict.get(one.passed, -1))
        for text, one in read.items()
        if one is not None
    }
    given = rows["label"].astype(object).map(at) if coded else rows["passed"].astype(object).map(verdict)
    none = np.where(rows["tied"].to_numpy(dtype=bool), len(names), len(names) + 1)
    codes = np.where(given.isna(), none, given.fillna(-1).to_numpy(dtype=np.int64))
    answer = dict(zip(rows["item_id"], codes, strict=True))
    counts = np.zeros((len(names), len(names) + len(_NONE)), dtype=np.int64)
    for item, text in zip(said["item_id"], said["label"], strict=True):
        if kinds[text] >= 0:
            counts[kinds[text], answer[item]] += 1
    return (names, counts) if counts.sum() else "no label is a verdict"


def _panel(name: str, names: list[str], counts: Counts) -> Panel:
    n_compared = int(counts[:, : len(names)].sum())
    agree = int(np.trace(counts))
    beside = counts[:, len(names) :].sum(axis=0)
    shown = [*range(len(names)), *(len(names) + at for at in np.flatnonzero(beside))]
    columns, counts = [[*names, *_NONE][at] for at in shown], counts[:, shown]
    said = f"{count_of(agree, n_compared)} agree" + "".join(
        f", {n} {name}" for name, n in zip(_NONE, beside, strict=True) if n
    )
    cells = "; ".join(
        f"people {row}, judge {column}: {counts[r, c]}"
        for r, row in enumerate(names)
        for c, column in enumerate(columns)
        if counts[r, c]
    )

    def paint(axes: Axes, palette: Palette) -> None:
        whole = np.maximum(counts.sum(axis=1), 1)
        for r in range(len(names)):
            for c in range(len(columns)):
                _cell(axes, palette, r, c, int(counts[r, c]), counts[r, c] / whole[r], unscored=c >= len(names))
        axes.set_xlim(-0.5, len(columns) - 0.5)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xticks(range(len(columns)), [short(column, 12) for column in columns])
        axes.set_yticks(range(len(names)), [short(row, 12) for row in names])
        axes.set_xlabel("the judge says")
        axes.set_ylabel("people say")
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{name}\n{said}", fontweight="normal")

    return Panel("", paint, f"{name}: {said}; {cells}", 1.3 + 0.5 * len(names))


def _cell(axes: Axes, palette: Palette, row: int, column: int, n: int, share: float, *, unscored: bool) -> None:
    from matplotlib.patches import Rectangle

    same = row == column
    colour = palette.chance if unscored else palette.good if same else palette.bad
    axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, color=colour, alpha=0.06 + 0.4 * share, lw=0))
    edge, width = (palette.ink, 1.8) if same else (palette.line, 0.8)
    axes.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, edgecolor=edge, linewidth=width))
    if n and not same:
        hatch = "xxx" if unscored else "////"
        corner = [(column + 0.47, row - 0.47), (column + 0.27, row - 0.47), (column + 0.47, row - 0.07)]
        axes.fill(*zip(*corner, strict=True), facecolor="none", hatch=hatch, edgecolor=colour, linewidth=0)
    text = f"{n}\n{share:.0%}" if n else "0"
    axes.text(column, row, text, ha="center", va="center", color=palette.ink if n else palette.quiet)
