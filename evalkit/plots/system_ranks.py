"""Strengths of systems, and the discrimination of judges."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.plots.layout import Axes, Panel, Picture, check_columns, frame, gap, mark_interval, rows_panel, short
from evalkit.plots.theme import Palette, Theme

_NEED = ["rubric", "rubric_version", "criterion", "judge", "system", "rank", "strength", "strength_low", "n_scored"]
_NOTE = "filled: the interval excludes 0, the mean of the systems (for discrimination: 1, the mean of the judges)"
_MOST = 30


def plot_rank(ranks: pd.DataFrame, *, theme: Theme = "auto") -> Picture:
    """Systems by rank, with their strengths; and the discrimination of judges, if the table has it.

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
    parts = ranks.assign(_of=ranks["judge"].astype(str).where(ranks["system"].notna(), "judges"))
    for (_, _, criterion, judge), rows in parts.groupby([*_NEED[:3], "_of"], observed=True, sort=False):
        name = "strength" if rows["system"].notna().all() else "discrimination"
        title = f"{short(str(criterion), 30)} · {short(str(judge), 30, judges)}: {name}"
        if rows[name].notna().any():
            panels.append(_panel(title, rows.head(_MOST), name))
            longest = max(longest, len(rows))
        else:
            gaps.append(gap(title, rows, "NA"))
    scored, n_items = (int(ranks.loc[ranks["system"].notna(), column].sum()) // 2 for column in ("n_scored", "n_items"))
    subtitle = f"{count_of(scored, n_items)} comparisons scored"
    notes = [_NOTE, *([f"the first {_MOST} of {longest} systems"] if longest > _MOST else [])]
    return frame("Ranks of systems", subtitle, panels, theme=theme, gaps=gaps, notes=notes)


def _panel(title: str, rows: pd.DataFrame, name: str) -> Panel:
    lines, middle = rows.to_dict("records"), float(name == "discrimination")
    values = rows[[name, f"{name}_low", f"{name}_high"]].to_numpy(dtype=np.float64)
    whom = rows["judge" if middle else "system"]
    ranks = ["" if middle else f"{figure(line['rank'], digits=0)}. " for line in lines]
    coverage = [count_of(line["n_scored"], line["n_items"]) for line in lines]
    names = [f"{r}{short(who, 28 - len(r), whom)}\n{of}" for r, who, of in zip(ranks, whom, coverage, strict=True)]
    missing, figures = np.isnan(values[:, 0]), [figure(*line) for line in values]
    texts = [f"{text}, {note}" if text == "NA" else text for text, note in zip(figures, rows["notes"], strict=True)]

    def paint(axes: Axes, palette: Palette) -> None:
        axes.axvline(middle, color=palette.ink, linewidth=1)
        for at, (value, low, high) in enumerate(values):
            face = palette.good if low > middle or high < middle else palette.paper
            mark_interval(axes, at, (value, low, high), palette.good, "D", face)
            if missing[at]:
                axes.text(0.01, at, short(texts[at], 60), va="center", transform=axes.get_yaxis_transform())
        axes.set_xlabel(f"{name}, with 95 % interval")

    return rows_panel(title, paint, names, texts)
