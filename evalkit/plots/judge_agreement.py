"""Plots of agreement: of judges with each other and with people, and beside what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.formatting import Bill, count_of, figure
from evalkit.core.lists_of_choices import SKIPPED
from evalkit.errors import ConfigError, InputError, counted
from evalkit.plots.inputs import LABELLED, RUBRIC_KEY, Judged, labels_of, parts_of, table_of
from evalkit.plots.layout import Axes, Cell, Panel, Picture, check_columns, frame, grid, paint_matrix, short
from evalkit.plots.theme import Palette, Theme
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.scales import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.alignment.label_values import HasJudgments, annotators_of
from evalkit.stats.intervals import cluster_codes, mean_interval
from evalkit.tables.grouping import Floats, clusters_of

_FEW, _MOST_JUDGES, _SHORT_NAME = 0.02, 12, 14


def plot_agreement(votes: Judged, *, theme: Theme = "auto") -> Picture:
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
        One panel per criterion. Off the diagonal: share of equal labels (0-1) and the number of items on which both
        have one; on the diagonal the mean `self_agreement` of the judge's own samples (0-1), where it has several.

    Raises
    ------
    InputError
        When columns are missing.
    MissingExtraError
        Without matplotlib.

    Examples
    --------
    >>> from evalkit import tables
    >>> plot_agreement(tables.empty("votes")).alt
    'Agreement among judges. 0 votes. nothing to show: the table has no rows'
    """
    table = table_of(votes, "votes", [*RUBRIC_KEY, "item_id", "label"])
    names = table["judge"].astype(str).unique()
    columns = 2 if len(names) <= 3 and max(map(len, names), default=0) <= _SHORT_NAME else 1
    parts = table.groupby(RUBRIC_KEY, observed=True, sort=False)
    panels = [_agreement(str(key[2]), rows, columns) for key, rows in parts if rows["judge"].nunique() > 1]
    labelled = int(table["label"].notna().sum())
    subtitle = f"{labelled} of {counted(len(table), 'vote has', 'votes have')} a label" if len(table) else "0 votes"
    nothing = "the table has no rows" if table.empty else "there is only one judge"
    notes = ["share of equal labels among the items that both judges labelled; framed: samples of the same judge"]
    notes += [f"the first {_MOST_JUDGES} judges"] if table["judge"].nunique() > _MOST_JUDGES else []
    return frame("Agreement among judges", subtitle, panels, theme=theme, nothing=nothing, columns=columns, notes=notes)


def _agreement(criterion: str, rows: pd.DataFrame, columns: int) -> Panel:
    judges = [str(name) for name in rows["judge"].unique()][:_MOST_JUDGES]
    labels = {name: rows.loc[(rows["judge"] == name).to_numpy()].set_index("item_id") for name in judges}
    cells: dict[tuple[int, int], Cell] = {}
    for a, b in combinations(range(len(judges)), 2):
        first, second = (labels[judges[at]]["label"].astype(object).dropna() for at in (a, b))
        both = first.index.intersection(second.index)
        share = float((first[both] == second[both]).mean()) if len(both) else np.nan
        cells[b, a] = Cell(f"{figure(share)}\nn {len(both)}", share)
    for at, name in enumerate(judges):
        own = labels[name]["self_agreement"].dropna() if "self_agreement" in rows else pd.Series(dtype=float)
        if len(own):
            cells[at, at] = Cell(f"{own.mean():.2f}\nn {len(own)}", float(own.mean()), framed=True)
    alt = "; ".join(
        f"{judges[r]} with {'itself' if r == c else judges[c]}: {cell.text}".replace("\n", ", ")
        for (r, c), cell in cells.items()
    )

    def paint(axes: Axes, palette: Palette) -> None:
        numbers = [str(number) for number in range(1, len(judges) + 1)]
        names = [f"{short(name, among=judges)}  {number}" for name, number in zip(judges, numbers, strict=True)]
        paint_matrix(axes, palette, cells, names, numbers)

    return Panel(
        f"{short(criterion, 24 if columns == 2 else 44)}: share of equal labels, 0-1",
        paint,
        f"{criterion}: {alt}",
        0.8 + 0.52 * len(judges),
    )


def plot_disagreement(judged: Judged, labels: LabelsLike | None = None, *, theme: Theme = "auto") -> Picture:
    """Disagreement against error: is the jury wrong where its judges disagree?

    Parameters
    ----------
    judged
        The table of `vote` (aggregated by mean), or an `Evaluation` (its own scores, labels and groups).
    labels
        Human labels: a long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item
        columns. Of labels of `split_labels`, those of ``dev``.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion; the size of a mark is its number of items: `disagreement` of the judges (0-1)
        against the error of the jury (0-1). The error is the distance of `score_norm` from the mean of the human
        scores; if there are only labels or verdicts, the share of annotators with another one. The title gives
        the mean error of items without and with disagreement, with 95 % intervals.

    Raises
    ------
    InputError
        When columns are missing or there are no labels.
    MissingExtraError
        Without matplotlib.
    """
    if isinstance(judged, pd.DataFrame):
        scores = aggregate(table_of(judged, "votes", LABELLED))
    else:
        scores = table_of(judged, "scores", [*LABELLED, "disagreement"])
    scores = scores.reset_index(drop=True)
    human, chosen = labels_of(judged, labels, scores)
    errors = errors_of(scores, human)
    clusters = getattr(judged, "clusters", None)
    panels: list[Panel] = []
    n_used = 0
    for criterion, _, rows in parts_of(scores):
        spread, error = rows["disagreement"].to_numpy(dtype=np.float64), errors[rows.index]
        if (used := ~np.isnan(spread) & ~np.isnan(error)).any():
            n_used += int(used.sum())
            units = cluster_codes(clusters_of(rows["item_id"], clusters))[used]
            panels.append(_scatter(criterion, spread[used], error[used], units, len(rows)))
    subtitle = f"{n_used} of {counted(len(scores), 'score has', 'scores have')} several judges and a human label"
    nothing = "no item has a human label and scores of two judges" if len(scores) else "the table has no rows"
    head, notes = "Does disagreement predict errors?", list(filter(None, [chosen]))
    return frame(head, subtitle, panels, theme=theme, nothing=nothing, notes=notes)


def errors_of(scores: pd.DataFrame, labels: pd.DataFrame) -> Floats:
    """Distance of each score from the human labels, 0-1, one value per row; NaN without label or score."""
    error = np.full(len(scores), np.nan)
    for criterion, _, rows in parts_of(scores.reset_index(drop=True)):
        human = labels[(labels["criterion"] == criterion).to_numpy() & labels["label"].notna().to_numpy()]
        error[rows.index] = _errors(rows, human)
    return error


def _errors(rows: pd.DataFrame, human: pd.DataFrame) -> Floats:
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    nominal, kinds = scale.level == "nominal", dict[Any, int]({False: 0, True: 1})
    kinds |= {name: number for number, name in enumerate(scale.labels)} if nominal else {}
    items, criterion = pd.Index(rows["item_id"]), str(rows["criterion"].iloc[0])
    people = annotators_of(human, items, scale, kinds, criterion, verdicts=not nominal)
    own = rows["label" if nominal else "passed"].astype(object).map(kinds).fillna(-1).to_numpy(dtype=np.int64)
    labelled = people.kind >= 0
    others = (labelled & (people.kind != own[:, None])).sum(axis=1) / np.maximum(labelled.sum(axis=1), 1)
    share = np.where(labelled.any(axis=1) & (own >= 0), others, np.nan)
    if nominal:
        return share
    mean = (people.together("mean").score - scale.lowest) / (scale.highest - scale.lowest)
    distance = np.abs(rows["score_norm"].to_numpy(dtype=np.float64) - (1 - mean if scale.better == "low" else mean))
    return np.where(np.isnan(mean), share, distance)


def _scatter(criterion: str, spread: Floats, error: Floats, units: Any, n_items: int) -> Panel:
    places, counts = np.unique(np.round(np.column_stack([spread, error]), 2), axis=0, return_counts=True)
    groups = [("no disagreement", spread <= _FEW), ("some disagreement", spread > _FEW)]
    groups = [(name, chosen) for name, chosen in groups if chosen.any()]
    parts = []
    for name, chosen in groups:
        ends = mean_interval(error[chosen], units[chosen], bounds=(0.0, 1.0))
        parts.append(f"{name}: error {figure(error[chosen].mean(), ends.low, ends.high)} (n {chosen.sum()})")
    coverage = f"{len(spread)} of {counted(n_items, 'item')}"

    def paint(axes: Axes, palette: Palette) -> None:
        sizes = 30 * counts.astype(np.float64)
        axes.scatter(places[:, 0], places[:, 1], s=sizes, color=palette.good, alpha=0.6, linewidths=0)
        axes.scatter(places[:, 0], places[:, 1], s=sizes, facecolors="none", edgecolors=palette.ink, linewidths=0.8)
        for (x, y), n in zip(places, counts, strict=True):
            if n > 2:
                axes.annotate(str(n), (x, y), ha="center", va="center", fontsize=9, color=palette.ink)
        for _, chosen in groups:
            x = (spread[chosen].min(), max(spread[chosen].max(), spread[chosen].min() + 0.06))
            axes.plot(x, [error[chosen].mean()] * 2, color=palette.bad, linewidth=2.5, linestyle=(0, (3, 1)))
        axes.set_xlim(-0.06, max(0.6, float(spread.max()) + 0.08))
        axes.set_ylim(-0.06, max(0.6, float(error.max()) + 0.1))
        axes.set_xlabel("disagreement of the judges, 0-1")
        axes.set_ylabel("error of the jury, 0-1")
        grid(axes, palette)

    return Panel(
        "\n".join([f"{short(criterion, 40)}, {coverage}", *parts]),
        paint,
        f"{criterion}, {coverage}: {'; '.join(parts)}; dashed lines are mean errors, numbers count items",
        3.3,
    )


Measure = Literal["accuracy", "kappa", "quadratic_kappa", "spearman", "pearson"]
_MARKS = "oDs^vP*X"


def plot_cost(
    alignments: Judged | Mapping[str, HasJudgments], *, measure: Measure = "accuracy", theme: Theme = "auto"
) -> Picture:
    """Agreement with people against cost, for judges and juries of one or several evaluations.

    Parameters
    ----------
    alignments
        An `Evaluation` with labels, or a mapping name -> evaluation; or a table of `align` with a column
        `usd_per_1000` (US$ per 1,000 items).
    measure
        Which figure of `align` to show.
    theme
        ``auto`` follows the page, ``light`` and ``dark`` do not.

    Returns
    -------
    matplotlib.figure.Figure
        One panel per criterion: US$ per 1,000 items (what the replies cost when they were bought, all criteria and
        samples together; skipped items do not count) against the figure with its 95 % interval; people among
        themselves as a line. Judges of unknown price are named below.

    Raises
    ------
    InputError
        When there are no labels, or the table lacks columns.
    ConfigError
        For an unknown measure.
    MissingExtraError
        Without matplotlib.
    """
    if measure not in get_args(Measure):
        raise ConfigError(f"unknown measure {measure!r}; allowed: {', '.join(get_args(Measure))}")
    table = _gathered(alignments, measure)
    by_verdict = measure in ("accuracy", "kappa") and "n_verdicts" in table
    table["n_compared"] = table["n_verdicts" if by_verdict else "n_scored"]
    priced, measured = table["usd_per_1000"].notna(), table[measure].notna()
    known = table[priced & measured]
    parts = known.groupby("criterion", observed=True, sort=False)
    panels = [_panel(str(criterion), rows, measure) for criterion, rows in parts]
    missing = {"price unknown": measured & ~priced, f"no {measure.replace('_', ' ')}": ~measured}
    notes = [f"{why}: {', '.join(table.loc[rows, 'name'].unique())}" for why, rows in missing.items() if rows.any()]
    nothing = "; ".join(notes) or "no judge was compared with people"
    compared, labelled = int(known["n_compared"].sum()), int(known["n_labelled"].sum())
    return frame(
        f"Cost and agreement with people ({measure.replace('_', ' ')})",
        f"{compared} of {counted(labelled, 'labelled score')} compared, over {len(known)} judges and criteria",
        panels,
        theme=theme,
        nothing=nothing,
        notes=notes,
    )


def _gathered(evaluations: Judged | Mapping[str, HasJudgments], measure: str) -> pd.DataFrame:
    if isinstance(evaluations, pd.DataFrame):
        need = ["criterion", "judge", "usd_per_1000", measure, "n_scored", "n_labelled"]
        check_columns(evaluations, need, "align with costs")
        return evaluations.assign(name=evaluations["judge"].astype("str"))
    named = evaluations if isinstance(evaluations, Mapping) else {"": evaluations}
    if not named:
        raise InputError(
            "plot_cost got no evaluation; pass one, a mapping from names to evaluations, or a table of ek.align"
        )
    return pd.concat([_of(one, f"{name}: " if name else "") for name, one in named.items()], ignore_index=True)


def _of(evaluation: HasJudgments, prefix: str) -> pd.DataFrame:
    if (alignment := getattr(evaluation, "alignment", None)) is None:
        raise InputError("plot_cost needs labels in each evaluation; pass labels= to evaluate")
    table, n_unique = evaluation.judgments, getattr(evaluation, "n_unique", 0)
    called = table.loc[~table["error"].astype(object).isin(SKIPPED).to_numpy()]
    keys = called.groupby("item_id", observed=True)["key"].min()  # equal for equal contents
    n_items = max(keys.nunique(), n_unique - (table["item_id"].nunique() - len(keys)), 1)
    usd = {str(judge): Bill.of(rows).usd / n_items for judge, rows in called.groupby("judge", observed=True)}
    usd["jury"] = sum(usd.values()) if usd else np.nan
    judges = alignment["judge"].astype("str")
    costs = judges.map(usd).astype("float64") * 1000
    labelled = (alignment["n_labelled"] > 0).to_numpy()
    result: pd.DataFrame = alignment.assign(name=prefix + judges, usd_per_1000=costs)[labelled]
    return result


def _panel(criterion: str, rows: pd.DataFrame, measure: str) -> Panel:
    lines = rows.to_dict("records")
    people = rows.get(f"{measure}_people", pd.Series(dtype=float)).dropna()
    alt = "; ".join(
        f"{line['name']}: US$ {line['usd_per_1000']:.3g} per 1,000 items, "
        f"{figure(line[measure], *_ends(line, measure))} ({count_of(line['n_compared'], line['n_labelled'])})"
        for line in lines
    )

    def paint(axes: Axes, palette: Palette) -> None:
        costs = rows["usd_per_1000"].to_numpy(dtype=np.float64)
        spread = float(np.ptp(costs)) or float(np.abs(costs).max()) or 1.0
        places = _apart(costs, 0.018 * spread)
        for at, (line, x) in enumerate(zip(lines, places, strict=True)):
            colour = palette.bad if str(line["judge"]) == "jury" else palette.good
            name = f"{short(str(line['name']), 24, rows['name'])} ({count_of(line['n_compared'], line['n_labelled'])})"
            axes.plot([x, x], _ends(line, measure), color=colour, linewidth=2)
            mark = _MARKS[at % len(_MARKS)]
            face = palette.paper if at // len(_MARKS) % 2 else colour  # a second round of marks is hollow
            style: Any = {"marker": mark, "markerfacecolor": face, "markersize": 8, "linestyle": "none"}
            text = f" {name}" if name.startswith("_") else name  # matplotlib leaves names with _ out of legends
            axes.plot([x], [line[measure]], color=colour, label=text, **style)
        if len(people):
            style = {"color": palette.ink, "linewidth": 1.2, "linestyle": (0, (5, 3))}
            axes.axhline(float(people.iloc[0]), label="people among themselves", **style)
        axes.set_ylim(-0.03 if measure == "accuracy" else -0.23, 1.05)
        axes.set_xlim(min(0.0, places.min()) - 0.08 * spread, places.max() + 0.1 * spread)
        if not costs.any():
            axes.set_xticks([0])
        axes.set_xlabel("US$ per 1,000 items")
        axes.set_ylabel(f"{measure.replace('_', ' ')}, {'0-1' if measure == 'accuracy' else 'at most 1'}")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        grid(axes, palette)

    return Panel(
        f"{short(criterion, 40)}, with 95 % intervals", paint, f"{criterion}: {alt}", max(3.0, 1.0 + 0.24 * len(lines))
    )


def _apart(costs: Floats, step: float) -> Floats:
    """The places of the marks; marks of equal cost are a little apart, so that all intervals are visible."""
    places = costs.copy()
    for cost in np.unique(np.round(costs / step)):
        same = np.flatnonzero(np.round(costs / step) == cost)
        places[same] += step * (np.arange(len(same)) - (len(same) - 1) / 2)
    return places


def _ends(line: Mapping[Any, Any], measure: str) -> list[float]:
    return [line.get(f"{measure}_{end}", np.nan) for end in ("low", "high")]
