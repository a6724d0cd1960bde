"""What people say for each score of a judge, or for its P(pass), and the calibrated score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure
from evalkit.errors import InputError, counted
from evalkit.plots.layout import Axes, Key, Panel, Picture, frame, grid, judge_and_criterion
from evalkit.plots.theme import Palette, Theme
from evalkit.stats.alignment.calibrations import Calibration
from evalkit.stats.alignment.pass_probabilities import PassProbabilities
from evalkit.stats.result_tables import JUDGE_KEY

_CALIBRATED = Key("calibrated score", "ink", marker="s", filled=False)
_KEYS = (Key("people's mean at this score", "good", marker="o"), _CALIBRATED)
_NOTE = "bars: 95 % interval over items; numbers: labelled items"


def plot_calibration(calibration: Calibration | PassProbabilities, *, theme: Theme = "auto") -> Picture:
    """People's mean for each distinct score of a judge, with the calibrated score; or their pass rate by P(pass).

    Parameters
    ----------
    calibration
        What `calibrate` or `pass_probabilities` returned.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion and judge: the mean of the labels at each score with its 95 % interval, the number of
        labelled items, and the map.

    Raises
    ------
    InputError
        For anything else.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> import evalkit as ek
    >>> items, labels = ek.load_example("support")
    >>> evaluation = ek.evaluate(items, "faithfulness", "fake:strict")
    >>> plot_calibration(ek.calibrate(evaluation, labels)).alt[:42]
    'People and calibrated scores by raw score.'
    """
    if not hasattr(calibration, "points"):
        raise InputError(
            f"plot_calibration takes what calibrate or pass_probabilities returned, not {type(calibration).__name__}"
        )
    is_map = isinstance(calibration, Calibration)
    what = calibration.figure if isinstance(calibration, Calibration) else "pass_prob"
    table, points = calibration.table, calibration.points
    panels = []
    for (_, _, criterion, judge), rows in points.groupby(JUDGE_KEY, observed=True, sort=False):
        name = judge_and_criterion(judge, criterion, points)
        panels.append(_panel(name, rows.sort_values("score"), what))
    without = table[table["method" if is_map else "gap"].isna()]
    gaps = [f"{row['judge']} · {row['criterion']}: {row['notes']}" for row in without.to_dict("records")]
    n_labelled = int(table["n_labelled"].max()) if len(table) else 0
    fitted = f", fitted on {calibration.date}" if isinstance(calibration, Calibration) else ""
    subtitle = f"up to {counted(n_labelled, 'labelled item')}{fitted}"
    notes = [_NOTE if what == "passed" else f"{_NOTE}; dashed: people and judge agree"]
    title = "People and calibrated scores by raw score" if is_map else "Share of people who pass, by P(pass)"
    keys = _KEYS if is_map else _KEYS[:1]
    return frame(title, subtitle, panels, theme=theme, gaps=gaps, columns=2, keys=keys, notes=notes)


def _calibrated(line: dict[Any, Any]) -> str:
    """The calibrated score of a point in words; empty where there is no map."""
    return f"calibrated {line['calibrated']:.2f}, " if "calibrated" in line else ""


def _panel(name: str, rows: pd.DataFrame, what: str) -> Panel:
    lines = rows.to_dict("records")
    alt = "; ".join(
        f"score {line['score']:g}: people {figure(line['people'], line['people_low'], line['people_high'])}, "
        f"{_calibrated(line)}{counted(line['n_labelled'], 'label')}"
        for line in lines
    )

    def paint(axes: Axes, palette: Palette) -> None:
        names = ("score", "people", "people_low", "people_high")
        score, people, low, high = (rows[column].to_numpy(dtype=np.float64) for column in names)
        if what != "passed":
            ends = [score.min(), score.max()]
            axes.plot(ends, ends, color=palette.ink, alpha=0.4, linewidth=1, linestyle="--")
        axes.vlines(score, low, high, color=palette.good, linewidth=1.4)
        axes.plot(score, people, color=palette.good, marker="o", markersize=6, linestyle="none")
        style: dict[str, Any] = {"color": palette.ink, "marker": "s", "markerfacecolor": palette.paper, "markersize": 4}
        if "calibrated" in rows:
            axes.plot(score, rows["calibrated"].to_numpy(dtype=np.float64), linewidth=1.2, **style)
        for line in lines:
            point, text = (line["score"], line["people"]), str(line["n_labelled"])
            axes.annotate(text, point, (7, 4), textcoords="offset points", fontsize=9)
        axes.margins(x=0.12, y=0.08)
        axes.set_xlabel("the judge's P(pass)" if what == "pass_prob" else "the judge's score")
        axes.set_ylabel("people's score" if what == "score" else "share of people who pass")
        grid(axes, palette)

    return Panel(name, paint, f"{name}: {alt}", 2.9)
