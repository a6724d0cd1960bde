"""Corpus estimates: the mean that people would give to a whole corpus, from many judged items and a few labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import NO_ENDS
from evalkit.stats.alignment.agreement_measures import Answers
from evalkit.stats.alignment.label_draws import label_weights
from evalkit.stats.alignment.label_splits import DEV, HELD_OUT, drop_chosen
from evalkit.stats.alignment.label_values import JudgedLike, Panel, Taken, taken
from evalkit.stats.intervals import FEW_CLUSTERS, Interval, bounded_interval, intraclass_correlation, mean_interval
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    cluster_counts,
    figure_row,
    first_that_holds,
    result_table,
    with_id_notes,
)
from evalkit.tables.grouping import ClustersLike, Floats, Ints

FigureOption = Literal["score", "passed"]

FEWEST, ENOUGH_FOR_LABELS, ENOUGH_FOR_ISOTONIC = 30, 60, 100
Fit = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]
"""From scores, labels and weights: scores, in ascending order, and what is predicted at them."""

_NOTHING = 1e-20
_FOLDS = 10
_UNLIKE = 3.3
_COLUMNS = (
    JUDGE_KEY,
    "text: figure; number: estimate± raw± human± n_effective worth; text: method; count: n_items n_labelled",
    "count: n_unscored n_clusters; number: n_clusters_effective; text: notes",
)


@dataclass(frozen=True, slots=True)
class Estimated:
    """An estimated mean, its variance, and the number of labels to which the weighted labels are equivalent."""

    mean: float
    variance: float
    n_effective: float

    def interval(
        self, y: Floats, weights: Floats, unit: Ints, bounds: tuple[float, float], freedom: float | None = None
    ) -> Interval:
        """The 95 % interval, with t of `freedom_of` or as given; where nothing varies, that of equal labels."""
        labelled = weights > 0
        if len(np.unique(unit[labelled])) < 2:
            return Interval.none("fewer than two clusters")
        if self.variance <= _NOTHING:
            return mean_interval(y[labelled], unit[labelled], bounds=bounds)
        freedom = freedom_of(weights, unit) if freedom is None else freedom
        return bounded_interval(self.mean, math.sqrt(self.variance), bounds=bounds, freedom=freedom)


def freedom_of(weights: Floats, unit: Ints) -> float:
    """Degrees of freedom of t: the effective number of labelled clusters − 1, at least 1."""
    parts = np.bincount(unit, weights=weights)
    return max(1.0, float(parts.sum() ** 2 / (parts @ parts)) - 1)


@with_id_notes
def corpus_estimate(
    judged: JudgedLike,
    labels: LabelsLike | None = None,
    *,
    figure: FigureOption = "score",
    unscored: float | None = None,
    largest_error: float | None = None,
    clusters: ClustersLike | None = None,
    cache: str | Path | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """The mean score (or pass rate) that people would give to all items, from a judge and a few labels.

    θ = mean_N(ĝ) + Σ w (Y − ĝ): ĝ is what the judge's score f predicts of the labels Y; the weights w, inverse to the
    probabilities with which items were drawn, add up to 1. ĝ = λf as in PPI++ under 100 labels, λ = Cov(Y, f)/Var f in
    [0, 1]; from 100 an isotonic regression in ten folds of clusters. It holds only if the labelled items were **drawn
    at random** or with known probabilities (`next_labels`), and if nothing was tuned on them.

    Parameters
    ----------
    judged
        An evaluation, or votes (each judge) or scores (``jury``) of all items, by one version of a rubric.
    labels
        As in `align`; Y is the mean over the annotators. Weighted by `probability` and `round` of `next_labels`, if
        they are there; labels whose `source` says that their items were not drawn at random are left out. Of labels
        with a `part` only held-out ones are used, and the look is counted.
    figure
        ``score`` (rubric units) or ``passed`` (share of passes).
    unscored
        f where the judge has none (``passed``: or a tie); by default the mean of f over the scored items.
    largest_error
        How far the judge may be off without an error of that size among the labels: by default the width of an interval
        scale, half the width (at least one step) of an ordinal one, 1 for ``passed``.
    clusters, cache, scale
        As in `align`. Without the ends of the scale there is no estimate.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`; 95 % intervals in `_low` and `_high` (Wilson's by the
        standard error, with t of the effective labelled clusters − 1):

        - `estimate`: θ. Its variance is that of ĝ over the items and of the weighted Y − ĝ, added within clusters, and
          (`largest_error` / n_eff)²: one more error than was seen. From 60 labels, where their own interval is
          narrower, they are the estimate. NA under 30 labelled items or 10 clusters, or if all labels are equal;
        - `raw`: the judge's own mean over its scored items; `human`: the weighted mean of the labels alone;
        - `n_effective`: of labels (Kish); `worth`: how many labels alone would give as narrow an interval;
        - `method`: ``linear``, ``isotonic`` or ``labels`` (alone); `n_items`, `n_labelled`, `n_unscored`, `n_clusters`,
          `n_clusters_effective` of the labelled; `notes`: also where these hardly stand for the others (z over ±3.3).

    Raises
    ------
    InputError, ConfigError, CacheError
        For missing columns, a double row, a label off the scale, two versions, a probability that is unknown, 0 or
        above 1, or labels all used for tuning; for an unknown option; when a look cannot be counted.

    References
    ----------
    Angelopoulos, Duchi, Zrnic (2023), PPI++, arXiv:2311.01453. Särndal, Swensson, Wretman (1992), Model assisted survey
    sampling. Zrnic, Candès (2024), Cross-prediction-powered inference, arXiv:2309.16598.

    Examples
    --------
    >>> truth = [float(item % 3 > 0) for item in range(200)]
    >>> votes = pd.DataFrame({"item_id": range(200), "score": [max(t, i % 2) for i, t in enumerate(truth)]})
    >>> labels = pd.DataFrame({"item_id": range(60), "label": truth[:60]})
    >>> corpus_estimate(votes, labels, scale=[0, 1])[["raw", "estimate", "human", "method"]].round(2).values.tolist()
    [[0.83, 0.66, 0.67, 'linear']]
    """
    check_choice("figure", figure, get_args(FigureOption))
    if unscored is not None and (isinstance(unscored, bool) or not math.isfinite(unscored)):
        raise ConfigError(
            f"corpus_estimate got unscored={unscored!r}; pass the number that an unscored item counts as, in the "
            "units of the estimate, or None"
        )
    if largest_error is not None and (isinstance(largest_error, bool) or not 0 < largest_error < math.inf):
        raise ConfigError(
            f"corpus_estimate got largest_error={largest_error!r}; pass a number above 0, in the units of the "
            "estimate, or None for the default of the scale"
        )
    tables = taken(judged, labels, "corpus_estimate", clusters, scale=scale)
    _refuse_versions(tables.frame)
    tables, dev = with_fresh_labels(tables)
    rows: list[dict[str, Any]] = []
    for panel in tables.panels(figure):
        for judge, (_, was_asked) in panel.judges.items():
            weights = label_weights(tables.people, panel.head["criterion"], panel.items[was_asked], dev=dev)
            row = _row(panel, judge, weights, figure, unscored, largest_error)
            rows.append(panel.head | row | {"judge": judge, "figure": figure, "notes": [tables.note, row["notes"]]})
    return tables.finished(result_table(rows, *_COLUMNS), cache)


def with_fresh_labels(tables: Taken) -> tuple[Taken, pd.DataFrame]:
    """With the labels that were not used for tuning and may stand for other items; and such labels that were used."""
    everyone, split = tables.people, "part" in tables.people
    dev = everyone.loc[everyone["part"].eq(DEV).to_numpy()] if split else everyone.iloc[:0]
    return tables.of_part(HELD_OUT if split else None, weighted=True), drop_chosen(dev, weighted=True)[0]


def _refuse_versions(frame: pd.DataFrame) -> None:
    versions = frame[["rubric", "rubric_version"]].astype(str).drop_duplicates()
    several = versions.loc[versions["rubric"].duplicated(keep=False)]
    if len(several):
        raise InputError(
            f"corpus_estimate got rubric {several['rubric'].iloc[0]!r} in versions "
            f"{listed(several['rubric_version'])}; pass the scores of one version"
        )


def _row(
    panel: Panel, judge: str, weights: Floats, figure: str, unscored: float | None, largest_error: float | None
) -> dict[str, Any]:
    answers, was_asked = panel.judges[judge]
    f, y = (values[was_asked] for values in judge_and_people(panel, answers, figure))
    unit, bounds = panel.unit[was_asked], panel.bounds(figure)
    scored = ~np.isnan(f)
    weights = np.where(np.isnan(y), 0.0, weights)
    weights /= max(weights.sum(), _NOTHING)
    labelled = weights > 0
    row: dict[str, Any] = {
        "n_items": len(f),
        "n_labelled": int(labelled.sum()),
        "n_unscored": int((~scored).sum()),
    } | cluster_counts(unit[labelled])
    is_open = math.isnan(bounds[0])
    interval = mean_interval(f[scored], unit[scored], bounds=None if is_open else bounds)
    row |= figure_row("raw", float(f[scored].mean()) if scored.any() else math.nan, interval)
    if labelled.any():
        alone = weighted_mean(np.zeros(len(f)), y, weights, unit)
        ends = Interval.none(NO_ENDS) if is_open else alone.interval(y, weights, unit, bounds)
        row |= figure_row("human", alone.mean, ends)
        row["n_effective"] = 1 / float(weights @ weights)
    unlike = unlike_all(f, weights, unit)
    if (why := _why_not(panel, figure, f, y[labelled], unit[labelled])) is not None:
        return row | {"notes": [f"no estimate: {why}", unlike]}
    f = np.where(scored, f, f[scored].mean() if unscored is None else unscored)
    largest = _largest_error(panel, figure, largest_error)
    method, mean, ends, note = best_estimate(f, y, weights, unit, bounds=bounds, largest_error=largest)
    worth = row["n_effective"] * ((row["human_high"] - row["human_low"]) / (ends.high - ends.low)) ** 2
    figures = figure_row("estimate", min(bounds[1], max(bounds[0], mean)), ends)
    return row | figures | {"method": method, "worth": worth, "notes": [note, unlike]}


def best_estimate(
    f: Floats, y: Floats, weights: Floats, unit: Ints, *, bounds: tuple[float, float], largest_error: float
) -> tuple[str, float, Interval, str]:
    """The method, the estimate, its interval and a note: with the judge's scores or, where narrower, labels alone.

    Under 60 labels the labels alone are never chosen: where rare labels are extreme, their interval is too narrow.
    """
    n_labelled = int((weights > 0).sum())
    method = "linear" if n_labelled < ENOUGH_FOR_ISOTONIC else "isotonic"
    guess = _GUESSES[method](f, y, weights, unit)
    estimate = weighted_mean(guess, y, weights, unit, one_more=largest_error)
    alone = weighted_mean(np.zeros(len(f)), y, weights, unit)
    ends, human = (mean.interval(y, weights, unit, bounds) for mean in (estimate, alone))
    if n_labelled >= ENOUGH_FOR_LABELS and human.high - human.low < ends.high - ends.low:
        return "labels", alone.mean, human, "the labels alone give a narrower interval: the judge is not used"
    useless = "the judge's scores do not predict the labels: only the labels count; " * bool(np.ptp(guess) <= _NOTHING)
    return method, estimate.mean, ends, f"{useless}holds for errors of the judge up to {largest_error:g}"


def _largest_error(panel: Panel, figure: str, largest: float | None) -> float:
    """The size of an error that the labels may not show; never above the width of the scale."""
    scale, (low, high) = panel.scale, panel.bounds(figure)
    ordinal = figure != "passed" and scale.level == "ordinal"
    return min(high - low, largest or (high - low) / (min(2, len(scale) - 1) if ordinal else 1))


def unlike_all(f: Floats, weights: Floats, unit: Ints) -> str | None:
    """A note if the judge scores the labelled items otherwise than all, so that they were hardly drawn at random.

    z is the difference of the means by its standard error if the items were drawn at random: by the variance and the
    intraclass correlation of all scores, or by the variance of the labelled ones if that is larger.
    """
    scored = ~np.isnan(f)
    f, weights, unit = f[scored], np.where(weights > 0, weights, 0.0)[scored], unit[scored]
    n_labelled = int((weights > 0).sum())
    if n_labelled in (0, len(f)) or np.ptp(f) <= _NOTHING:
        return None
    weights = weights / weights.sum()
    codes = np.unique(unit, return_inverse=True)[1]
    rho = intraclass_correlation(f, codes) if codes.max() > 0 else 0.0
    together = np.bincount(codes, weights=weights)
    usual = float(f.var()) * (rho * float(together @ together) + (1 - rho) * float(weights @ weights))
    estimate = weighted_mean(np.zeros(len(f)), f, weights, codes)
    error = math.sqrt(max(usual, estimate.variance) * (1 - n_labelled / len(f)))
    z = (estimate.mean - float(f.mean())) / error
    if abs(z) <= _UNLIKE:
        return None
    means = f"mean {estimate.mean:.3g}, of all {f.mean():.3g}, z {z:.1f}"
    return f"the judge scores the labelled items otherwise than all ({means}): they may not represent the others"


def _why_not(panel: Panel, figure: str, f: Floats, y: Floats, unit: Ints) -> str | None:
    """Why there is no estimate; None if there may be one."""
    few = too_few(unit, "labelled items") if len(y) else "no labels"
    reasons = {
        "a nominal criterion has no scores; figure='passed' has its pass rate": (
            figure == "score" and panel.scale.level == "nominal"
        ),
        NO_ENDS: panel.scale.is_open,
        "the criterion has no pass rule": figure == "passed" and not panel.scale.has_rule,
        few or "": few is not None,
        "nothing is scored": np.isnan(f).all(),
        "all labels are equal": len(y) > 0 and np.ptp(y) == 0,
    }
    return first_that_holds(reasons)


def too_few(unit: Ints, what: str) -> str | None:
    """Why the labels of items in these clusters do not suffice."""
    if len(unit) < FEWEST:
        return f"under {FEWEST} {what}"
    return f"under {FEW_CLUSTERS} labelled clusters" if len(np.unique(unit)) < FEW_CLUSTERS else None


def judge_and_people(panel: Panel, answers: Answers, figure: str) -> tuple[Floats, Floats]:
    """The answers of the judge (f) and the means of the people (Y) on every item; NaN if missing."""
    f, annotators = answers.score, panel.annotators
    if figure == "passed":
        f, people = (np.where(kind >= 0, kind.astype(float), np.nan) for kind in (answers.kind, annotators.kind))
        annotators = replace(annotators, score=people)
    return f, annotators.together("mean").score


def linear(f: Floats, y: Floats, weights: Floats, unit: Ints) -> Floats:  # noqa: ARG001 (as isotonic)
    """λf of every item: λ = Cov(Y, f) of the labelled items / Var f of all, cut to [0, 1].

    One coefficient is fitted on all labels: fitted without the item's own cluster, its intervals held the truth in
    91-94 % of simulations with 30 labels, against 97-99 % (a judge and people who pass 95 % of the items).
    """
    labelled, spread = weights > 0, float(f.var())
    w, scores, labels = weights[labelled], f[labelled], y[labelled]
    shared = float(w @ ((scores - w @ scores) * (labels - w @ labels)))
    return f * (min(1.0, max(0.0, shared / spread)) if spread > _NOTHING else 0.0)


def isotonic(f: Floats, y: Floats, weights: Floats, unit: Ints) -> Floats:
    """The isotonic regression of Y on f for every item, without the labels of its fold."""
    return cross_fitted(isotonic_fit, f, y, weights, unit)


def cross_fitted(fit: Fit, f: Floats, y: Floats, weights: Floats, unit: Ints) -> Floats:
    """What a fit predicts for every item, without the labels of its fold (ten folds of clusters)."""
    labelled = weights > 0
    names = np.unique(unit[labelled])
    fold_of = np.full(unit.max() + 1, -1)
    fold_of[names] = np.random.default_rng(0).permutation(len(names)) % _FOLDS
    fold, guess = fold_of[unit], np.empty(len(f))
    for number in range(-1, _FOLDS):  # −1: clusters without labels
        in_fold, used = fold == number, labelled & (fold != number)
        if in_fold.any():
            guess[in_fold] = np.interp(f[in_fold], *fit(f[used], y[used], weights[used]))
    return guess


def isotonic_fit(f: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The distinct scores, and the isotonic regression of y on them."""
    from scipy.optimize import isotonic_regression

    scores, codes = np.unique(f, return_inverse=True)
    total = np.bincount(codes, weights=weights)
    return scores, np.asarray(isotonic_regression(np.bincount(codes, weights=weights * y) / total, weights=total).x)


def linear_fit(f: Floats, y: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """The lowest and the highest score, and the line of weighted least squares at them; it never falls."""
    total = weights.sum()
    center, mean = float(weights @ f) / total, float(weights @ y) / total
    spread = float(weights @ (f - center) ** 2)
    slope = max(0.0, float(weights @ ((f - center) * (y - mean))) / spread) if spread > 0 else 0.0
    ends = np.array([f.min(), f.max()])
    return ends, mean + slope * (ends - center)


_GUESSES: dict[str, Callable[[Floats, Floats, Floats, Ints], Floats]] = {"linear": linear, "isotonic": isotonic}


def weighted_mean(guess: Floats, y: Floats, weights: Floats, unit: Ints, *, one_more: float = 0.0) -> Estimated:
    """mean(ĝ) + Σ w (Y − ĝ), with its variance.

    Parameters
    ----------
    guess, y
        ĝ of every item, and Y, which only matters where the weight is above 0.
    weights
        Of each item; they add up to 1.
    unit
        The cluster of each item, as numbers; errors are added within clusters before they are squared.
    one_more
        The size of an error that was not seen: (one_more / n_eff)² is added, n_eff = 1/Σw² divided by the design
        effect (at least 1) of Y − ĝ. Without it, a judge that is right on nearly all of a few labels has an
        interval that covers 70-90 %.

    Examples
    --------
    >>> weighted_mean(np.array([0.0, 1, 1, 1]), np.array([0.0, 1, 0, 9]), np.array([1, 1, 1, 0]) / 3, np.arange(4))
    Estimated(mean=0.4166..., variance=0.0950..., n_effective=3.0...)
    """
    rest = np.where(weights > 0, y - guess, 0.0)
    correction = float(weights @ rest)
    error = weights * (rest - correction)
    codes = np.unique(unit, return_inverse=True)[1]
    n_all, n_labelled = len(np.unique(codes)), len(np.unique(codes[weights > 0]))
    parts = np.bincount(codes, weights=(guess - guess.mean()) / len(guess)) * _grow(n_all)
    labelled = np.bincount(codes, weights=error) * _grow(n_labelled)
    variance, alone, together = (float(column @ column) for column in (parts + labelled, error, labelled))
    alone *= _grow(int((weights > 0).sum())) ** 2
    n_labels = 1 / float(weights @ weights)
    n_effective = n_labels / max(1.0, together / alone) if alone > _NOTHING else min(n_labels, float(n_labelled))
    return Estimated(float(guess.mean()) + correction, variance + (one_more / n_effective) ** 2, n_effective)


def _grow(n_clusters: int) -> float:
    return math.sqrt(n_clusters / max(1, n_clusters - 1))
