"""Strengths of systems."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.plots.layout import Axes, Panel, Picture, check_columns, frame, gap, mark_interval, rows_panel, short
from evalkit.plots.theme import Palette, Theme

_NEED = ["rubric", "rubric_version", "criterion", "judge", "system", "rank", "strength", "strength_low", "n_scored"]
_NOTE = "filled: the interval excludes 0, the mean of the systems"
_MOST = 30


def plot_rank(ranks: pd.DataFrame, *, theme: Theme = "auto") -> Picture:
    """Systems by rank, with their strengths.

    Parameters
    ----------
    ranks
        The table of `rank`.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion and judge: rank, coverage and strength (log scale, mean 0) of each system, with its 95 %
        interval; NA with its reason. Up to 30 rows.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.
    """
    check_columns(ranks, _NEED, "rank")
    panels, gaps, longest = [], [], 0
    judges = ranks["judge"].unique()
    for (_, _, criterion, judge), rows in ranks.groupby(_NEED[:4], observed=True, sort=False):
        title = f"{short(str(criterion), 30)} · {short(str(judge), 30, judges)}: strength"
        if rows["strength"].notna().any():
            panels.append(_panel(title, rows.head(_MOST)))
            longest = max(longest, len(rows))
        else:
            gaps.append(gap(title, rows, "NA"))
    subtitle = f"{count_of(int(ranks['n_scored'].sum()) // 2, int(ranks['n_items'].sum()) // 2)} comparisons scored"
    notes = [_NOTE, *([f"the first {_MOST} of {longest} systems"] if longest > _MOST else [])]
    return frame("Ranks of systems", subtitle, panels, theme=theme, gaps=gaps, notes=notes)


def _panel(title: str, rows: pd.DataFrame) -> Panel:
    lines = rows.to_dict("records")
    values = rows[["strength", "strength_low", "strength_high"]].to_numpy(dtype=np.float64)
    ranks = [f"{figure(line['rank'], digits=0)}. " for line in lines]
    coverage = [count_of(line["n_scored"], line["n_items"]) for line in lines]
    systems = zip(ranks, rows["system"], coverage, strict=True)
    names = [f"{rank}{short(system, 28 - len(rank), rows['system'])}\n{of}" for rank, system, of in systems]
    missing, figures = np.isnan(values[:, 0]), [figure(*line) for line in values]
    texts = [f"{text}, {note}" if text == "NA" else text for text, note in zip(figures, rows["notes"], strict=True)]

    def paint(axes: Axes, palette: Palette) -> None:
        axes.axvline(0, color=palette.ink, linewidth=1)
        for at, (value, low, high) in enumerate(values):
            face = palette.good if low > 0 or high < 0 else palette.paper
            mark_interval(axes, at, (value, low, high), palette.good, "D", face)
            if missing[at]:
                axes.text(0.01, at, short(texts[at], 60), va="center", transform=axes.get_yaxis_transform())
        axes.set_xlabel("strength, with 95 % interval")

    return rows_panel(title, paint, names, texts)
