"""The distribution of scores over their scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.formatting import count_of, figure
from evalkit.plots.inputs import LABELLED, RUBRIC_KEY, Judged, parts_of, scale_drawn, table_of
from evalkit.plots.layout import Axes, Key, Panel, Picture, frame, grid, name_columns, short
from evalkit.plots.theme import Palette, Theme
from evalkit.rubrics.scales import Scale, code_text
from evalkit.stats.aggregation.summaries import summarize
from evalkit.tables.grouping import Flags, Floats, Objects

_MOST_BARS = 12
_NO_RULE = "no pass rule"
_PARTS = (("passed", "good", ""), ("failed", "bad", "////"), ("no verdict", "chance", "---"), (_NO_RULE, "quiet", ""))


def plot_scores(scores: Judged, *, theme: Theme = "auto") -> Picture:
    """The distribution of the scores of each criterion over its scale, with passed, failed and unscored items.

    Parameters
    ----------
    scores
        The table of `aggregate`, or an `Evaluation` (whose groups are then the units of the intervals).
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion: number of items by score in rubric units (nominal: by label), filled where they
        passed, hatched where they failed, dotted without a verdict; the mean with its 95 % interval and
        *n of n scored* above it (an evaluation of expected scores: also the standard deviation of one
        drawn verdict, in rubric units); unscored and tied items have a bar of their own. `.alt` is the same in words.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> from evalkit import tables
    >>> plot_scores(tables.empty("scores")).alt
    'Distribution of scores. 0 of 0 scored. nothing to show: the table has no rows'
    """
    whole = table_of(scores, "scores", [*LABELLED, "status"])
    summary = summarize(whole, clusters=getattr(scores, "clusters", None))
    several = len(whole[["rubric", "rubric_version"]].drop_duplicates()) > 1
    panels: list[Panel] = []
    kinds: set[str] = set()
    for (_, _, rows), (_, figures) in zip(parts_of(whole), summary.iterrows(), strict=True):
        panels.append(_panel(rows, figures, several=several, drawn=_drawn(getattr(scores, "votes", None), rows)))
        kinds |= set(_kinds(rows))
    scored = int(summary["n_scored"].sum())
    keys = [Key(name, part, hatch) for name, part, hatch in _PARTS if name in kinds and kinds - {"", _NO_RULE}]
    name = "item and criterion pairs" if len(panels) > 1 else "items"
    subtitle = f"{count_of(scored, len(whole))} {name} scored" if len(whole) else "0 of 0 scored"
    return frame("Distribution of scores", subtitle, panels, theme=theme, columns=2, keys=keys)


def _drawn(votes: pd.DataFrame | None, rows: pd.DataFrame) -> str:
    """How far one drawn verdict of a judge is from the vote, in rubric units; nothing without distributions."""
    if votes is None or "score_sd" not in votes:
        return ""
    key = rows[RUBRIC_KEY].iloc[0]
    spread = votes.loc[(votes[RUBRIC_KEY].astype(str) == key.astype(str)).all(axis=1), "score_sd"].astype(np.float64)
    return f" (one draw ± {figure(np.sqrt((spread**2).mean()))})" if spread.notna().any() else ""


def _panel(rows: pd.DataFrame, summary: pd.Series, *, several: bool, drawn: str) -> Panel:
    scale = scale_drawn(rows)
    of_rubric = f" ({rows['rubric'].iloc[0]}@{rows['rubric_version'].iloc[0]})" if several else ""
    title = f"{rows['criterion'].iloc[0]}{of_rubric}"
    coverage = f"{count_of(summary['n_scored'], summary['n_items'])} scored"
    mean = figure(summary["mean"], summary["low"], summary["high"])
    headline = coverage if scale.level == "nominal" or mean == "NA" else f"mean {mean}{drawn}, {coverage}"
    places, names, of_bar, width = _bars(rows, scale)
    kinds = _kinds(rows)
    counts = [np.bincount(of_bar[(kinds == name) & (of_bar >= 0)], minlength=len(places)) for name, *_ in _PARTS]
    outside = int((of_bar < 0).sum())
    tied = int((rows["status"].eq("tied").to_numpy() & (of_bar < 0)).sum())
    beside = "tied" if tied == outside else "tied or unscored" if tied else "unscored"
    numbers = ", ".join(f"{name} {n}" for name, n in zip(names, np.sum(counts, axis=0), strict=True) if n)

    def paint(axes: Axes, palette: Palette) -> None:
        base = np.zeros(len(places))
        for (_, part, hatch), count in zip(_PARTS, counts, strict=True):
            style: Any = {"color": getattr(palette, part), "hatch": hatch, "edgecolor": palette.paper}
            filled = count > 0
            axes.bar(places[filled], count[filled], width, bottom=base[filled], linewidth=0.8, **style)
            base = base + count
        if scale.level != "nominal" and not pd.isna(summary["mean"]):
            axes.axvline(float(summary["mean"]), color=palette.ink, linewidth=1.6, linestyle=(0, (4, 2)))
            low, high = float(summary["low"]), float(summary["high"])
            axes.axvspan(low, high, color=palette.ink, alpha=0.12, linewidth=0, zorder=0)
        axes.set_xlim(places[0] - width, places[-1] + width)
        if outside:
            at = float(places[-1] + max(width * 1.6, (places[-1] - places[0]) * 0.12))
            axes.set_xlim(places[0] - width, at + width)
            axes.bar([at], [outside], width, color=palette.paper, hatch="xxx", edgecolor=palette.chance)
            axes.annotate(beside, (at, outside), ha="center", va="bottom", fontsize=9.5)
        _ticks(axes, scale, places, names)
        axes.set_ylabel("items")
        axes.margins(y=0.14)
        axes.locator_params(axis="y", integer=True)
        grid(axes, palette, "y")

    ties = f", tied {tied}" if tied else ""
    alt = f"{title}: {headline}; items by score: {numbers or 'none'}; unscored {outside - tied}{ties}"
    height = 2.6 if scale.level != "nominal" else 3.2  # its labels may be slanted
    return Panel(f"{short(title, 44)}\n{headline}", paint, alt, height)


def _kinds(rows: pd.DataFrame) -> Objects:
    """The name of each row's part; empty if it is unscored or tied."""
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    names = rows["passed"].astype(object).map({True: "passed", False: "failed"})
    names = names.fillna("no verdict" if scale.has_rule else _NO_RULE)
    return np.asarray(names.where(rows["score"].notna() | rows["label"].notna(), "").to_numpy(dtype=object))


def _bars(rows: pd.DataFrame, scale: Scale) -> tuple[Floats, list[str], Any, float]:
    """Positions and names of the bars, the bar of each row (−1: unscored or tied), and their width."""
    if scale.level == "nominal":
        names = list(scale.labels)
        at = {name: number for number, name in enumerate(names)}
        of_bar = rows["label"].astype(object).map(at).fillna(-1).to_numpy(dtype=np.int64)
        return np.arange(len(names), dtype=np.float64), names, of_bar, 0.7
    score = rows["score"].to_numpy(dtype=np.float64)
    there: Flags = ~np.isnan(score)
    codes = np.array([scale.score(code) for code in scale.codes], dtype=np.float64)
    exact = np.isclose(score[there][:, None], codes[None, :]).any(axis=1).all()
    if scale.level == "ordinal" and exact and len(codes) <= _MOST_BARS:
        places = np.sort(codes)
        width = 0.7 * float(np.diff(places).min()) if len(places) > 1 else 0.7
    else:
        gaps = len(codes) - 1
        fine = (k * gaps for k in (4, 2, 1) if k * gaps <= _MOST_BARS)
        steps = next(fine, 10) if scale.level == "ordinal" else 10
        places = np.linspace(scale.lowest, scale.highest, steps + 1)
        width = 0.85 * float(places[1] - places[0])
    of_bar = np.full(len(score), -1, dtype=np.int64)
    of_bar[there] = np.abs(score[there][:, None] - places[None, :]).argmin(axis=1)
    return places, [f"{place:g}" for place in places], of_bar, width


def _ticks(axes: Axes, scale: Scale, places: Floats, names: list[str]) -> None:
    if scale.level == "nominal":
        name_columns(axes, places, [short(name, 18) for name in names])
        axes.set_xlabel("label")
        return
    codes = [float(scale.score(code)) for code in scale.codes]
    if scale.level == "ordinal" and len(codes) <= _MOST_BARS:
        axes.set_xticks(codes, [code_text(code) for code in scale.codes])
    better = "low" if scale.better == "low" else "high"
    axes.set_xlabel(f"score, {code_text(scale.codes[0])} to {code_text(scale.codes[-1])} ({better} is better)")
