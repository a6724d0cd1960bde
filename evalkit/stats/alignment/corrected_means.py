"""Corrected means: what people would have scored, from many judged items and a few labelled ones."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, counted, listed
from evalkit.rubrics import LabelsLike
from evalkit.stats.alignment.agreement_measures import Answers
from evalkit.stats.alignment.judge_people_panels import Panel, checked, panels
from evalkit.stats.alignment.label_splits import HELD_OUT, PartOption, count_look, take_part
from evalkit.stats.alignment.label_values import JudgedLike, clusters_for
from evalkit.stats.figures_with_intervals import (
    JUDGE_KEY,
    columns,
    figure_row,
    joined,
    note_few_clusters,
    result_table,
)
from evalkit.stats.intervals import Interval, bounded_interval, cluster_variance, mean_interval
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints

FigureOption = Literal["score", "passed"]

_FEWEST = 30
_NOTHING = 1e-20
_TWO = 2
_COLUMNS = columns(
    JUDGE_KEY,
    "text: figure; number: mean± naive± human± power; text: method; count: n_items n_labelled n_unlabelled "
    "n_unscored n_clusters; text: notes",
)


@dataclass(frozen=True, slots=True)
class Corrected:
    """A corrected mean, its variance and the λ that was used."""

    mean: float
    variance: float
    power: float


def corrected_mean(
    judged: JudgedLike,
    labels: LabelsLike,
    *,
    figure: FigureOption = "score",
    unscored: float | None = None,
    clusters: ClustersLike | None = None,
    part: PartOption | None = None,
    cache: str | Path | None = None,
) -> pd.DataFrame:
    """The mean score that people would give to all items, from a judge and a few labels (PPI++).

    The naive mean of a judge has the judge's bias however many items it scores. Here labels of n items correct the
    judge's scores f of N others: θ = λ f̄_N + mean_n(Y − λf), λ = Cov_n(Y, f) / ((1 + n/N) Var f) cut to [0, 1]; a
    useless judge gets λ = 0, which is the mean of the labels. It holds only if the labelled items were **drawn at
    random** from all, and if nothing was tuned on them.

    Parameters
    ----------
    judged
        An evaluation, which stands for its votes and clusters, or a table:
        Votes (each judge) or scores (the judge is then ``jury``) of all items, by one version of a rubric.
    labels
        A long table (`item_id, criterion, annotator, label`) or, for an evaluation, criterion -> item columns. Y is the
        mean over the annotators of an item.
    figure
        ``score`` (rubric units) or ``passed`` (share of passes: Y is the share of the annotators who pass).
    unscored
        The value of f if the judge has none (and for ``passed`` if its verdict is a tie), on labelled and
        other items alike: one number, by default the mean of f over the scored items.
    clusters
        item_id -> cluster; by default those of the evaluation, else the item.
    part
        For labels of `split_labels`: ``held-out`` (default where some are; the look is counted) or ``dev``. Items with
        labels of the other part are left out: what was tuned on is like no other item.
    cache
        The cache folder, where looks are counted (default: ``EVALKIT_CACHE``, else ``cache/`` of the project).

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`, each figure with its 95 % interval in `_low` and `_high`
        (`intervals.bounded_interval`: Wilson's by the standard error, with t of the labelled clusters − 1). Of
        rates, and of scores on two codes, the variance of `mean` has 1/n_eff² added, since few errors are seen:

        - `mean`: corrected;
        - `naive`: the judge's own mean over its scored items, `human`: the mean of the labels alone;
        - `power`: λ; `method`: ``ppi++``, or ``human`` (the mean of the labels alone) under 30 labelled items, without
          unlabelled ones, or if nothing varies;
        - `n_items` used, `n_labelled` of them (n), `n_unlabelled` (N), `n_unscored`, `n_clusters` of the labelled;
        - `notes`.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on the scale, or a rubric has two versions.
    ConfigError
        For an unknown option.
    CacheError
        When a look at held-out labels cannot be counted.

    References
    ----------
    Angelopoulos, A., Duchi, J., Zrnic, T. (2023), PPI++: efficient prediction-powered inference, arXiv:2311.01453: the
    estimator for means and the plug-in λ of power tuning (Cov with 1/n, Var over all n + N as the authors'
    package has them).

    Examples
    --------
    >>> n = 200
    >>> truth = [item % 3 > 0 for item in range(n)]
    >>> from evalkit import tables
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": [f"i{i}" for i in range(n)],
    ...     "criterion": ["c"] * n, "judge": ["j"] * n, "score": [float(t or i % 2) for i, t in enumerate(truth)],
    ...     "label": [str(int(t or i % 2)) for i, t in enumerate(truth)], "passed": [None] * n,
    ...     "n_samples": [1] * n, "n_scored": [1] * n, "tied": [False] * n,
    ...     "level": ["ordinal"] * n, "scale": ['{"codes":[0,1],"better":"high"}'] * n})
    >>> labels = pd.DataFrame({"item_id": [f"i{i}" for i in range(60)], "criterion": "c", "annotator": "ann",
    ...                        "label": [int(t) for t in truth[:60]]})
    >>> corrected_mean(votes, labels)[["naive", "mean", "human", "method"]].round(2).values.tolist()
    [[0.83, 0.66, 0.67, 'ppi++']]
    """
    check_choice("figure", figure, get_args(FigureOption))
    if unscored is not None and (isinstance(unscored, bool) or not math.isfinite(unscored)):
        raise ConfigError(
            f"corrected_mean got unscored={unscored!r}; give one number in the units of the figure, or None"
        )
    clusters = clusters_for(judged, clusters)
    frame, said = checked(judged, labels)
    _refuse_versions(frame)
    held = "part" in said.columns and bool(said["part"].eq(HELD_OUT).any())
    wanted = HELD_OUT if part is None and held else part
    everyone = said
    said, chosen = take_part(said, wanted)
    rows: list[dict[str, Any]] = []
    for panel in panels(frame, said, clusters=clusters, kinds="passed" if figure == "passed" else "rule"):
        elsewhere = everyone.loc[(everyone["criterion"] == panel.head["criterion"]).to_numpy(), "item_id"]
        apart = panel.items.isin(elsewhere) & ~panel.annotators.labelled
        for judge, (answers, there) in panel.judges.items():
            row = _row(panel, answers, there & ~apart, figure, unscored, chosen)
            rows.append(panel.head | {"judge": judge, "figure": figure} | row)
    made = result_table(rows, _COLUMNS)
    return count_look(made, said, cache) if wanted == HELD_OUT else made


def _refuse_versions(frame: pd.DataFrame) -> None:
    versions = frame[["rubric", "rubric_version"]].astype(str).drop_duplicates()
    several = versions.loc[versions["rubric"].duplicated(keep=False)]
    if len(several):
        raise InputError(
            f"corrected_mean got rubric {several['rubric'].iloc[0]!r} in versions "
            f"{listed(several['rubric_version'])}; pass the scores of one version"
        )


def _row(
    panel: Panel, answers: Answers, there: Flags, figure: str, unscored: float | None, chosen: str | None
) -> dict[str, Any]:
    f, y = (values[there] for values in _values(panel, answers, figure))
    unit = panel.unit[there]
    nominal = panel.scale.level == "nominal"
    bounds = (0.0, 1.0) if figure == "passed" or nominal else (panel.scale.lowest, panel.scale.highest)
    labelled, scored = ~np.isnan(y), ~np.isnan(f)
    row: dict[str, Any] = {"n_items": len(f), "n_labelled": int(labelled.sum()), "n_unlabelled": int((~labelled).sum())}
    row |= {"n_unscored": int((~scored).sum()), "n_clusters": len(np.unique(unit[labelled])), "power": np.nan}
    row |= _ends("naive", f[scored], unit[scored], bounds) | _ends("human", y[labelled], unit[labelled], bounds)
    notes = [chosen] if chosen else []
    why = _why_human(row, figure=figure, rule=panel.scale.has_rule, nominal=nominal)
    if why is None:
        full = np.where(scored, f, f[scored].mean() if unscored is None else unscored)
        two = figure == "passed" or (panel.scale.level != "interval" and len(panel.scale) == _TWO)
        width = bounds[1] - bounds[0] if two else None
        pieces = (y[labelled], full[labelled], full[~labelled], unit[labelled], unit[~labelled])
        found = power_tuned(*pieces, width=width)
        ends = _interval(found, row["n_clusters"], bounds)
        if ends is None:
            why = "nothing varies"
        else:
            row |= figure_row("mean", found.mean, ends)
            row |= {"power": found.power, "method": "ppi++"}
            notes += [f"no interval: {ends.reason}"] if ends.reason else []
            if not found.power:
                notes.append(
                    f"the judge is useless (power 0), so this is the mean of {counted(row['n_labelled'], 'label')}"
                )
    if why is not None:
        row |= {f"mean{end}": row[f"human{end}"] for end in ("", "_low", "_high")}
        row["method"] = "human" if row["n_labelled"] else None
        notes.append(f"human labels alone: {why}" if row["n_labelled"] else why)
    if row["n_labelled"]:
        note_few_clusters(row["n_clusters"], notes, "labelled cluster")
    return row | {"notes": joined(notes)}


def _why_human(row: dict[str, Any], *, figure: str, rule: bool, nominal: bool) -> str | None:
    """Why there is no correction; None if there may be one."""
    if figure == "passed" and not rule:
        return "the criterion has no pass rule"
    if figure == "score" and nominal:
        return "a nominal criterion has no scores; figure='passed' has its pass rate"
    if not row["n_labelled"]:
        return "no labels"
    if row["n_labelled"] < _FEWEST:
        return f"under {_FEWEST} labelled items"
    if not row["n_unlabelled"]:
        return "every item is labelled"
    if row["n_unscored"] == row["n_items"]:
        return "nothing is scored"
    return None


def _values(panel: Panel, answers: Answers, figure: str) -> tuple[Floats, Floats]:
    """The answers of the judge (f) and the means of the people (Y) on every item; NaN if missing."""
    f, annotators = answers.score, panel.annotators
    if figure == "passed":
        f, people = (np.where(kind >= 0, kind.astype(float), np.nan) for kind in (answers.kind, annotators.kind))
        annotators = replace(annotators, score=people)
    return f, annotators.together("mean").score


def _ends(name: str, values: Floats, unit: Ints, bounds: tuple[float, float]) -> dict[str, float]:
    ends = mean_interval(values, unit, bounds=bounds)
    return figure_row(name, float(values.mean()) if len(values) else np.nan, ends)


def power_tuned(
    y: Floats, f: Floats, f_others: Floats, unit: Ints, unit_others: Ints, *, width: float | None = None
) -> Corrected:
    """PPI++ for a mean: y and f of the labelled items, f of the others, and the clusters of both.

    Var = λ² s²_f/N + s²_{Y−λf}/n if every item is its own cluster; else squared sums over clusters, those that
    have items on both sides counted once. A rate on two values that are `width` apart has (width/n_eff)² added, one
    more error than was seen: without it a judge that is right on nearly all of a few labels has an interval that
    covers 70-90 %. n_eff = n / deff of Y − λf; each cluster counts once if nothing varies.

    Examples
    --------
    >>> y, f, others = np.array([0.0, 1, 1, 0]), np.array([0.0, 1, 1, 1]), np.array([1.0, 1, 0, 1])
    >>> power_tuned(y, f, others, np.arange(4), np.arange(4, 8))
    Corrected(mean=0.4999..., variance=0.0696..., power=0.2916...)
    """
    n, others = len(y), len(f_others)
    spread = float(np.var(np.concatenate([f, f_others]), ddof=1))
    shared = float(np.mean((y - y.mean()) * (f - f.mean())))
    power = min(1.0, max(0.0, shared / ((1 + n / others) * spread))) if spread > 1e-12 else 0.0
    rest = y - power * f
    mean = power * float(f_others.mean()) + float(rest.mean())
    first, second = _cluster_sums(rest, unit), _cluster_sums(power * f_others, unit_others)
    variance = float(sum((first.get(name, 0.0) + second.get(name, 0.0)) ** 2 for name in first.keys() | second.keys()))
    if width is not None and variance > _NOTHING:
        variance += (width / _effective(rest, unit)) ** 2
    return Corrected(mean, variance, power)


def _effective(values: Floats, unit: Ints) -> float:
    """The number of items, divided by the design effect (at least 1) of their mean."""
    variance, n_clusters = cluster_variance(values, unit)
    alone = float(values.var()) / (len(values) - 1)
    if alone <= _NOTHING or math.isnan(variance):
        return float(n_clusters)
    return len(values) / max(1.0, variance / alone)


def _cluster_sums(values: Floats, unit: Ints) -> dict[int, float]:
    """Each cluster's part in the error of the mean, scaled so that its squares add up to SE²."""
    names, codes = np.unique(unit, return_inverse=True)
    if len(names) < 2:
        # one cluster cannot show how clusters differ
        return {int(name): math.nan for name in names} if np.ptp(values) > 0 else {}
    sums = np.bincount(codes, weights=values - values.mean()) / len(values) * math.sqrt(len(names) / (len(names) - 1))
    return dict(zip(names.tolist(), sums.tolist(), strict=True))


def _interval(found: Corrected, n_clusters: int, bounds: tuple[float, float]) -> Interval | None:
    """The interval of a corrected mean; None if nothing varies: then that of the labels is used."""
    if n_clusters < 2 or math.isnan(found.variance):
        return Interval.none("fewer than two clusters")
    if found.variance <= _NOTHING:
        return None
    return bounded_interval(found.mean, math.sqrt(found.variance), bounds=bounds, freedom=n_clusters - 1)
