"""Two versions side by side: mean scores, changed verdicts, differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.errors import InputError, counted
from evalkit.plots.inputs import Judged
from evalkit.plots.layout import Axes, Key, Panel, Picture, frame, mark_interval, rows_panel, short
from evalkit.plots.theme import Palette, Theme
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.stats.alignment.label_values import HasJudgments
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.comparison.comparison_table import Comparison, chance_words
from evalkit.stats.intervals import cluster_codes, mean_interval
from evalkit.tables.grouping import clusters_of

_MOST_ROWS = 16
_BAND = "band: verdicts that may change when the same prompt is sampled again (95 %); line: measured mean"
_SIDES = (Key("before", "chance", marker="o", filled=False), Key("after", "good", marker="D"))
_CHANGES = (Key("changed", "bad", "////"), Key("by chance", "ink", marker="|"))


def plot_versions(
    before: Judged | Comparison,
    after: Judged | None = None,
    *,
    labels: LabelsLike | None = None,
    theme: Theme = "auto",
    **options: Any,
) -> Picture:
    """Two versions side by side: mean scores, changed verdicts beside those by chance, and the difference.

    Parameters
    ----------
    before, after
        Two evaluations of the same items (anything that `compare` takes); or a `Comparison` alone, without mean
        scores.
    labels
        Human labels, for the words *fixed* and *broke* (see `compare`).
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.
    **options
        What else `compare` takes.

    Returns
    -------
    matplotlib.figure.Figure
        A row per criterion and judge. Left: mean `score_norm` (0-1) of both with 95 % cluster intervals, on the items
        that both have. Middle: changed verdicts, with a band: how many chance may change. Right:
        mean difference (after − before) of `score_norm` with its 95 % interval (not corrected for several rows).

    Raises
    ------
    InputError
        When `after` is missing and `before` is not a comparison; and as `compare`.
    MissingExtraError
        Without matplotlib.
    """
    if isinstance(before, Comparison):
        comparison = before
    elif after is None:
        raise InputError("plot_versions takes two evaluations, or one result of compare")
    else:
        comparison = compare(before, after, labels=labels, **options)
    rows = comparison.table.head(_MOST_ROWS)
    judges, criteria = (comparison.table[name].unique() for name in ("judge", "criterion"))
    names = [short(str(judge), 24, judges) for judge in rows["judge"]]
    if len(criteria) > 1:
        heads = (short(str(criterion), 24, criteria) for criterion in rows["criterion"])
        names = [f"{head}\n{judge}" for head, judge in zip(heads, names, strict=True)]
    given = [side for side in (before, after) if side is not None and not isinstance(side, pd.DataFrame | Comparison)]
    shared = set.intersection(*(set(side.judgments["item_id"]) for side in given)) if given else set()
    sides = [_means(side, rows, shared) for side in given] if len(given) == 2 else []
    panels = [] if rows.empty else [_changed(rows, names), _difference(rows, names)]
    if sides and panels:
        panels.insert(0, _both(names, sides))
    n = int(rows["n_common"].max()) if len(rows) else 0
    subtitle = f"before: {comparison.before}. after: {comparison.after}. {counted(n, 'item')} in both versions"
    notes = [_BAND] if panels and rows["chance_up_to"].notna().any() else []
    if len(comparison.table) > len(rows):
        notes.append(f"the first {len(rows)} of {len(comparison.table)} criteria and judges")
    notes += list(dict.fromkeys(rows.loc[rows["floor"].isna(), "notes"].dropna().astype(str))) if panels else []
    keys = (*_SIDES, *_CHANGES) if sides else _CHANGES
    nothing = "the two versions have no criterion and judge in common"
    return frame("Two versions", subtitle, panels, theme=theme, nothing=nothing, keys=keys, notes=notes)


def _means(side: HasJudgments, rows: pd.DataFrame, shared: set[str]) -> list[tuple[float, float, float]]:
    """Mean and interval of `score_norm` of each row's criterion and judge, on the items of both sides."""
    clusters = getattr(side, "clusters", None)  # the command line passes saved tables, which have none
    means = []
    for criterion, judge in zip(rows["criterion"], rows["judge"], strict=True):
        table = getattr(side, "scores" if judge == "jury" else "votes")
        own = table[(table["criterion"] == criterion).to_numpy() & table["item_id"].isin(shared).to_numpy()]
        own = own if judge == "jury" else own[(own["judge"] == judge).to_numpy()]
        own = own[own["score_norm"].notna().to_numpy()]
        values = own["score_norm"].to_numpy(dtype=np.float64)
        ends = mean_interval(values, cluster_codes(clusters_of(own["item_id"], clusters)), bounds=(0.0, 1.0))
        means.append((float(values.mean()) if len(values) else np.nan, ends.low, ends.high))
    return means


def _both(names: list[str], sides: list[list[tuple[float, float, float]]]) -> Panel:
    texts = [f"before {figure(*before)}, after {figure(*after)}" for before, after in zip(*sides, strict=True)]

    def paint(axes: Axes, palette: Palette) -> None:
        for at, figures in enumerate(sides[0]):
            mark_interval(axes, at - 0.14, figures, palette.chance, "o", palette.paper)
        for at, figures in enumerate(sides[1]):
            mark_interval(axes, at + 0.14, figures, palette.good, "D", palette.good)
        axes.set_xlim(-0.02, 1.02)
        axes.set_xlabel("mean score, 0-1, with 95 % interval")

    return rows_panel("Mean scores", paint, names, texts)


def _changed(rows: pd.DataFrame, names: list[str]) -> Panel:
    changed = rows["changed"].to_numpy(dtype=np.float64, na_value=np.nan)
    coverage = [count_of(n, whole) if whole else "NA" for n, whole in zip(changed, rows["n_verdicts"], strict=True)]
    limit = rows["chance_up_to"].to_numpy(dtype=np.float64)
    mean = (rows["floor"] * rows[["n_asked_again", "n_verdicts"]].min(axis=1)).to_numpy(dtype=np.float64)
    texts = [f"{n} changed, {chance_words(row)}" for n, row in zip(coverage, rows.to_dict("records"), strict=True)]

    def paint(axes: Axes, palette: Palette) -> None:
        most = float(np.nanmax([*changed, *limit, 1.0]))
        places = np.arange(len(names))
        axes.barh(places, np.nan_to_num(changed), 0.5, color=palette.bad, hatch="////", edgecolor=palette.paper)
        axes.barh(places, np.nan_to_num(limit), 0.72, color=palette.chance, alpha=0.35, linewidth=0, zorder=0.5)
        axes.vlines(mean, places - 0.36, places + 0.36, color=palette.ink, linewidth=2)
        for at, text in enumerate(coverage):
            end = float(np.nanmax([changed[at], limit[at], 0.0]))
            axes.annotate(text, (end, at), (6, 0), textcoords="offset points", va="center", fontsize=9.5)
        axes.set_xlim(0, most * 1.18)
        axes.locator_params(axis="x", integer=True)
        axes.set_xlabel("items whose verdict (or label) changed, of items with one in both versions")

    return rows_panel("Changed verdicts, and how many chance may change", paint, names, texts)


def _difference(rows: pd.DataFrame, names: list[str]) -> Panel:
    columns = ["mean_difference", "difference_low", "difference_high"]
    values = [tuple(float(value) for value in line) for line in rows[columns].to_numpy(dtype=np.float64)]

    def paint(axes: Axes, palette: Palette) -> None:
        axes.axvline(0, color=palette.ink, linewidth=1)
        for at, (middle, low, high) in enumerate(values):
            if np.isnan(middle):
                axes.text(0, at, " NA", va="center", fontsize=9.5)
                continue
            clear = low > 0 or high < 0
            mark_interval(axes, at, (middle, low, high), palette.ink, "D", palette.ink if clear else palette.paper)
        widest = np.nanmax(np.abs(np.array([*values, (0.05, 0.05, 0.05)])))
        axes.set_xlim(-1.15 * widest, 1.15 * widest)
        axes.set_xlabel(
            "difference of mean scores, after − before, on 0-1, with 95 % interval\n(filled: it excludes 0)"
        )

    return rows_panel("Difference of means", paint, names, [figure(*line, digits=3) for line in values])
