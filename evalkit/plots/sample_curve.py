"""Agreement and dependability by number of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import figure
from evalkit.errors import counted
from evalkit.plots.layout import Axes, Key, Panel, Picture, check_columns, frame, gap, grid, judge_and_criterion
from evalkit.plots.theme import Palette, Theme
from evalkit.stats.alignment.agreement_measures import figure_of

_KEYS_OF = ["rubric", "rubric_version", "criterion", "judge", "figure"]
_NEED = [*_KEYS_OF, "k", "value", "low", "high", "sd_subsets", "phi", "extrapolated", "n_items", "n_samples"]
_PHI = Key("dependability Φ", "ink", marker="s", filled=False)
_KEYS = (Key("agreement with people, mean over draws of k samples", "good", marker="o"), _PHI)
_NOTE = "bars: 95 % interval over items; band: ± 1 SD over draws of k samples; dashed: extrapolated beyond the "
_NOTE += "recorded samples"


def plot_k_curve(curve: pd.DataFrame, *, theme: Theme = "auto") -> Picture:
    """Agreement of a judge with people on k samples, and dependability, also beyond the recorded samples.

    Parameters
    ----------
    curve
        The table of `k_curve`.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion, judge and figure: `value` with its 95 % interval and the band of `sd_subsets`,
        and `phi` 0-1, dashed where it is extrapolated.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> import evalkit as ek
    >>> items, labels = ek.load_example("support")
    >>> table = ek.judge(items, "faithfulness", "fake:strict", samples=4, progress=False)
    >>> plot_k_curve(ek.stats.k_curve(table, labels)).alt[:47]
    'Agreement by number of samples. 24 labelled ite'
    """
    check_columns(curve, _NEED, "k_curve")
    panels, gaps, seen = [], [], []
    for (_, _, criterion, judge, what), rows in curve.groupby(_KEYS_OF, observed=True, sort=False, dropna=False):
        name = judge_and_criterion(judge, criterion, curve)
        seen.append((int(rows["n_items"].max()), int(rows["n_samples"].max())))
        if rows["value"].notna().any() or rows["phi"].notna().any():
            panels.append(_panel(name, str(what), rows.sort_values("k")))
        else:
            gaps.append(gap(name, rows, "all figures are NA"))
    items, samples = (" to ".join(map(str, sorted({min(n), max(n)}))) for n in zip(*seen or [(0, 0)], strict=True))
    subtitle = f"{items} labelled items, {samples} recorded samples per item"
    layout: dict[str, Any] = {"columns": 2, "keys": _KEYS, "notes": [_NOTE]}
    return frame("Agreement by number of samples", subtitle, panels, theme=theme, gaps=gaps, **layout)


def _panel(name: str, what: str, rows: pd.DataFrame) -> Panel:
    lines = rows.to_dict("records")
    has_labels = rows["value"].notna().any()
    label = (figure_of(what).name or what.replace("_", " ")) if has_labels else "no labels: Φ alone"
    alt = "; ".join(_said(line, label) for line in lines)

    def paint(axes: Axes, palette: Palette) -> None:
        places = np.arange(len(lines))
        names = ("value", "low", "high", "sd_subsets", "phi")
        value, low, high, sd, phi = (rows[column].to_numpy(dtype=np.float64) for column in names)
        beyond = rows["extrapolated"].to_numpy(dtype=bool)
        axes.fill_between(places, value - sd, value + sd, color=palette.good, alpha=0.22, linewidth=0)
        axes.vlines(places, low, high, color=palette.good, linewidth=1.4)
        axes.plot(places, value, color=palette.good, marker="o", markersize=6, linewidth=1.8)
        style: dict[str, Any] = {"color": palette.ink, "marker": "s", "markerfacecolor": palette.paper, "markersize": 5}
        n = int((~beyond).sum())
        axes.plot(places[:n], phi[:n], linewidth=1.2, **style)
        axes.plot(places[max(n - 1, 0) :], phi[max(n - 1, 0) :], linewidth=1.2, linestyle="--", **style)
        for line in (value, phi):
            for at in np.flatnonzero(~np.isnan(line))[-1:]:
                axes.annotate(f"{line[at]:.2f}", (at, line[at]), (6, -4), textcoords="offset points", fontsize=9.5)
        lowest = np.nanmin([0.0, *low[~np.isnan(low)], *value[~np.isnan(value)]])
        axes.set_ylim(max(-1.02, float(lowest) - 0.02), 1.04)
        axes.set_xlim(-0.35, len(lines) - 0.35)
        axes.set_xticks(places, [f"{line['k']}{'*' if line['extrapolated'] else ''}" for line in lines])
        axes.set_xlabel("samples (* extrapolated)" if beyond.any() else "samples")
        grid(axes, palette, "y")

    return Panel(f"{name}\n{label}", paint, f"{name}: {alt}", 2.7)


def _said(line: dict[Any, Any], label: str) -> str:
    parts = []
    if not np.isnan(line["value"]):
        parts.append(f"{label} {figure(line['value'], line['low'], line['high'])}")
    if not np.isnan(line["phi"]):
        parts.append(f"Φ {figure(line['phi'])}{' (extrapolated)' if line['extrapolated'] else ''}")
    return f"{counted(line['k'], 'sample')}: {', '.join(parts) or 'NA'}"
