"""Judges among themselves, and whether their disagreement warns of errors."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.core.formatting import figure
from evalkit.errors import counted
from evalkit.plots.confusion import labels_of, parts_of, table_of
from evalkit.plots.layout import Panel, frame, grid, short
from evalkit.plots.theme import Palette, Theme
from evalkit.rubrics.scales import Scale
from evalkit.stats.aggregation import aggregate
from evalkit.stats.agreement import disagreement
from evalkit.stats.alignment.human_labels import Reading, reading
from evalkit.stats.intervals import cluster_codes, mean_interval
from evalkit.tables.grouping import Floats, clusters_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evalkit.plots.figure import Picture

__all__ = ["errors_of", "plot_agreement", "plot_disagreement"]

_MOST_JUDGES = 12
_FEW = 0.02


def plot_agreement(votes: Any, *, theme: Theme = "auto") -> Picture:
    """Judge by judge: the share of items on which two judges give the same label.

    Parameters
    ----------
    votes
        The table of `vote`, or an `Evaluation`.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel a criterion. Off the diagonal: share of equal labels (0-1) and the number of items on which both
        have one; on the diagonal the mean `self_agreement` of the judge's own samples (0-1), where it has several.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> plot_agreement(tables.empty("votes")).alt
    'Judges among themselves. 0 votes. nothing to show: the table has no rows'
    """
    given = votes if isinstance(votes, pd.DataFrame) else getattr(votes, "votes", votes)
    need = ["rubric", "rubric_version", "item_id", "criterion", "judge", "label"]
    frame_ = tables.check(given, "votes", need=need)
    keys = ["rubric", "rubric_version", "criterion"]
    panels = []
    for (_, _, criterion), rows in frame_.groupby(keys, observed=True, sort=False):
        if rows["judge"].nunique() > 1:
            panels.append(_agreement(str(criterion), rows))
    labelled = int(frame_["label"].notna().sum())
    subtitle = f"{labelled} of {counted(len(frame_), 'vote has', 'votes have')} a label" if len(frame_) else "0 votes"
    nothing = "the table has no rows" if frame_.empty else "one judge has nobody to agree with"
    notes = ["equal labels, as a share of the items that both judges labelled; framed: a judge with itself"]
    notes += [f"the first {_MOST_JUDGES} judges"] if frame_["judge"].nunique() > _MOST_JUDGES else []
    columns = 2 if frame_["judge"].nunique() <= 3 else 1
    notes = notes if panels else []
    return frame(
        "Judges among themselves", subtitle, panels, theme=theme, nothing=nothing, columns=columns, notes=notes
    )


def _agreement(criterion: str, rows: pd.DataFrame) -> Panel:
    judges = [str(name) for name in rows["judge"].unique()][:_MOST_JUDGES]
    labels = {name: rows.loc[(rows["judge"] == name).to_numpy()].set_index("item_id") for name in judges}
    cells: dict[tuple[int, int], tuple[float, str]] = {}
    for a, b in combinations(range(len(judges)), 2):
        one, other = (labels[judges[at]]["label"].astype(object).dropna() for at in (a, b))
        both = one.index.intersection(other.index)
        share = float((one[both] == other[both]).mean()) if len(both) else np.nan
        cells[b, a] = share, f"{figure(share)}\nn {len(both)}"
    for at, name in enumerate(judges):
        own = labels[name]["self_agreement"].dropna() if "self_agreement" in rows else pd.Series(dtype=float)
        if len(own):
            cells[at, at] = float(own.mean()), f"self {own.mean():.2f}\nn {len(own)}"
    said = "; ".join(
        f"{judges[r]} with {'itself' if r == c else judges[c]}: {text.removeprefix('self ')}".replace("\n", ", ")
        for (r, c), (_, text) in cells.items()
    )

    def paint(axes: Axes, palette: Palette) -> None:
        from matplotlib.patches import Rectangle

        for (r, c), (share, text) in cells.items():
            alpha = 0.0 if np.isnan(share) else 0.05 + 0.4 * max(0.0, share)
            place = ((c - 0.47, r - 0.47), 0.94, 0.94)
            axes.add_patch(Rectangle(*place, color=palette.good, alpha=alpha, linewidth=0))
            edge = palette.ink if r == c else palette.line
            axes.add_patch(Rectangle(*place, fill=False, edgecolor=edge, linewidth=1.6 if r == c else 0.8))
            axes.text(c, r, text, ha="center", va="center")
        axes.set_xlim(-0.5, len(judges) - 0.5)
        axes.set_ylim(len(judges) - 0.5, -0.5)
        axes.set_xticks(range(len(judges)), [short(name, 18) for name in judges], rotation=0 if len(judges) < 5 else 30)
        axes.set_yticks(range(len(judges)), [short(name) for name in judges])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_title(f"{short(criterion, 44)}: share of equal labels, 0-1", fontweight="normal")

    return Panel("", paint, f"{criterion}: {said}", 0.8 + 0.52 * len(judges))


def plot_disagreement(judged: Any, labels: pd.DataFrame | None = None, *, theme: Theme = "auto") -> Picture:
    """Disagreement against error: are the items on which judges are apart those on which the jury is wrong?

    Parameters
    ----------
    judged
        The table of `vote` (aggregated by mean), or an `Evaluation` (its own scores, labels and groups).
    labels
        Human labels (long table: `item_id, criterion, annotator, label`).
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel a criterion, one mark per place with its size by number of items: `disagreement` of the judges
        (0-1) against the error of the jury (0-1): |score_norm − mean of the people's|; where there are only
        labels or verdicts, the share of annotators who say something else. The title gives the mean error where
        judges agree and where they are apart, with 95 % intervals.

    Raises
    ------
    InputError
        When columns are missing or there are no labels.
    MissingExtraError
        Without matplotlib.
    """
    votes = table_of(judged, "votes")
    said = labels_of(judged, labels)
    scores = aggregate(votes) if isinstance(judged, pd.DataFrame) else table_of(judged, "scores")
    apart = disagreement(votes)
    clusters = getattr(judged, "clusters", None)
    panels: list[Panel] = []
    n_used = 0
    for criterion, _, rows in parts_of(scores):
        mine = apart[
            (apart["criterion"] == criterion).to_numpy()
            & (apart["rubric"] == rows["rubric"].iloc[0]).to_numpy()
            & (apart["rubric_version"] == rows["rubric_version"].iloc[0]).to_numpy()
        ]
        split = mine.set_index("item_id")["disagreement"].reindex(rows["item_id"]).to_numpy(dtype=np.float64)
        error = errors_of(rows, said)
        used = ~np.isnan(split) & ~np.isnan(error)
        if used.any():
            n_used += int(used.sum())
            units = cluster_codes(clusters_of(rows["item_id"], clusters))[used]
            panels.append(_scatter(criterion, split[used], error[used], units, len(rows)))
    subtitle = f"{n_used} of {counted(len(scores), 'score has', 'scores have')} several judges and a label"
    nothing = "no item has both a label and two judges that scored it" if len(scores) else "the table has no rows"
    title = "Does disagreement warn of errors?"
    return frame(title, subtitle, panels, theme=theme, nothing=nothing, columns=1 if len(panels) == 1 else 2)


def errors_of(scores: pd.DataFrame, labels: pd.DataFrame) -> Floats:
    """How far each score is from people, 0-1, one value a row; NaN without label or score."""
    error = np.full(len(scores), np.nan)
    frame_ = scores.reset_index(drop=True)
    for criterion, _, rows in parts_of(frame_):
        said = labels[(labels["criterion"] == criterion).to_numpy() & labels["label"].notna().to_numpy()]
        error[rows.index] = _errors(rows, said)
    return error


def _errors(rows: pd.DataFrame, said: pd.DataFrame) -> Floats:
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    read = {text: reading(str(text), scale) for text in said["label"].unique()}
    by_item: dict[str, list[Reading]] = {}
    for item, text in zip(said["item_id"], said["label"], strict=True):
        if (one := read[text]) is not None:
            by_item.setdefault(str(item), []).append(one)
    columns = (rows[name].astype(object) for name in ("item_id", "score_norm", "label", "passed"))
    found = [
        _error(scale, by_item.get(str(item), []), norm, label, passed)
        for item, norm, label, passed in zip(*columns, strict=True)
    ]
    return np.array(found, dtype=np.float64)


def _error(scale: Scale, said: list[Reading], norm: Any, label: Any, passed: Any) -> float:
    scores = [one.score for one in said if not np.isnan(one.score)]
    if scale.level != "nominal" and scores:
        width = scale.highest - scale.lowest
        mean = float(np.mean([(score - scale.lowest) / width for score in scores]))
        return np.nan if pd.isna(norm) else abs(float(norm) - (1 - mean if scale.better == "low" else mean))
    labels = [one.label for one in said if one.label is not None]
    if labels and scale.level == "nominal":
        return np.nan if pd.isna(label) else float(np.mean([one != label for one in labels]))
    verdicts = [one.passed for one in said if one.passed is not None]
    return np.nan if pd.isna(passed) or not verdicts else float(np.mean([one != passed for one in verdicts]))


def _scatter(criterion: str, split: Floats, error: Floats, units: Any, n_items: int) -> Panel:
    places, counts = np.unique(np.round(np.column_stack([split, error]), 2), axis=0, return_counts=True)
    parts = []
    for name, chosen in (("judges agree", split <= _FEW), ("judges apart", split > _FEW)):
        if chosen.any():
            ends = mean_interval(error[chosen], units[chosen], bounds=(0.0, 1.0))
            parts.append(f"{name}: error {figure(error[chosen].mean(), ends.low, ends.high)} (n {chosen.sum()})")
    coverage = f"{len(split)} of {counted(n_items, 'item')}"

    def paint(axes: Axes, palette: Palette) -> None:
        sizes = 30 * counts.astype(np.float64)
        axes.scatter(places[:, 0], places[:, 1], s=sizes, color=palette.good, alpha=0.6, linewidths=0)
        axes.scatter(places[:, 0], places[:, 1], s=sizes, facecolors="none", edgecolors=palette.ink, linewidths=0.8)
        for (x, y), n in zip(places, counts, strict=True):
            if n > 2:
                axes.annotate(str(n), (x, y), ha="center", va="center", fontsize=9, color=palette.ink)
        for low, high in ((-1.0, _FEW), (_FEW, 2.0)):
            chosen = (split > low) & (split <= high)
            if chosen.any():
                x = (split[chosen].min(), max(split[chosen].max(), split[chosen].min() + 0.06))
                axes.plot(x, [error[chosen].mean()] * 2, color=palette.bad, linewidth=2.5, linestyle=(0, (3, 1)))
        axes.set_xlim(-0.06, max(0.6, float(split.max()) + 0.08))
        axes.set_ylim(-0.06, max(0.6, float(error.max()) + 0.1))
        axes.set_xlabel("disagreement of the judges, 0-1")
        axes.set_ylabel("error of the jury, 0-1")
        axes.set_title("\n".join([f"{short(criterion, 40)}, {coverage}", *parts]), fontweight="normal")
        grid(axes, palette)

    alt = f"{criterion}, {coverage}: {'; '.join(parts)}; dashed lines are mean errors, numbers count items"
    return Panel("", paint, alt, 3.3)
