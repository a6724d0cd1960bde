"""Confidence intervals over clusters: jackknife, cluster errors of a mean, Wilson; NA with a reason.

The unit is the cluster (`group_id`, else the item), taken with all its criteria, judges and samples. Judges
are fixed: intervals do not cover the choice of judges. All intervals are 95 %. They are in one file so that the
reasons for a missing interval are the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.tables.grouping import ClustersLike, Floats, Ints, clusters_of, used_categories

Transform = Literal["atanh", "logit", "log", "none"]
Bounds = tuple[float, float]

FEW_CLUSTERS = 10
"""With fewer effective clusters, a note says that the interval comes from few clusters."""

LARGE_CLUSTER, NOT_PROMISED = 0.25, 0.4
"""A note names a cluster with the first share of the items; with the second in one, coverage can be under 93 %."""

FEWEST_OTHERS = 3
"""Under this number of clusters with an answer other than the most frequent one, kappas, correlations and alpha have
no interval: in simulations the jackknife then covers 20-85 %, however many items there are."""

TOO_LITTLE = "under 3 answers of a judge or annotator are unlike most"

_TAIL = 0.975
_MOST_CLUSTERS, _RANDOM_GROUPS = 2000, 200
_MOST_UNDEFINED = 0.05
_NO_ERROR, _EQUAL = 1e-10, 1e-12  # rounding alone


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval, or NaN at both ends with the reason.

    Attributes
    ----------
    low, high
        The ends, in the units of the figure.
    reason
        Why there is no interval; None if there is one.

    Examples
    --------
    >>> Interval.none("one cluster")
    Interval(low=nan, high=nan, reason='one cluster')
    """

    low: float
    high: float
    reason: str | None = None

    @classmethod
    def none(cls, reason: str) -> Interval:
        """No interval, and why."""
        return cls(math.nan, math.nan, reason)


def unit_codes(item_ids: Any, clusters: ClustersLike | None) -> Ints:
    """The cluster of each item (`clusters_of`) as numbers."""
    ids = item_ids if isinstance(item_ids, pd.Series) else pd.Series(item_ids, dtype="str")
    return cluster_codes(clusters_of(ids, clusters))


def cluster_codes(names: pd.Series) -> Ints:
    """Clusters as numbers 0 … G−1 in the order of their sorted names, so that the order of rows plays no part."""
    if isinstance(names.dtype, pd.CategoricalDtype):
        names = used_categories(names)
        return cluster_codes(pd.Series(names.cat.categories))[names.cat.codes]
    return pd.factorize(names, sort=True)[0].astype(np.int64)


def jackknife_groups(clusters: Ints) -> tuple[Ints, int]:
    """The units that are left out together: the clusters, or 200 random groups of them if there are over 2,000.

    Returns
    -------
    tuple
        The group of each row and the number of groups. The random groups are the same at every call.
    """
    clusters = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    n_clusters = int(clusters.max(initial=-1)) + 1
    if n_clusters <= _MOST_CLUSTERS:
        return clusters, n_clusters
    return np.random.default_rng(0).permutation(n_clusters)[clusters] % _RANDOM_GROUPS, _RANDOM_GROUPS


def effective_clusters(clusters: Ints) -> float:
    """G_eff = n²/Σm² for clusters of m items: their number if they are equal, fewer if some hold most items.

    Examples
    --------
    >>> effective_clusters(np.array([0, 0, 1, 1])), effective_clusters(np.array([0, 0, 0, 1]))
    (2.0, 1.6)
    """
    sizes = np.unique(clusters, return_counts=True)[1]
    return float(sizes.sum() ** 2 / (sizes**2).sum()) if len(sizes) else 0.0


def jackknife(value: float, leave_out: Floats, *, transform: Transform = "atanh", unit: Ints | None = None) -> Interval:
    """The leave-one-cluster-out interval of a figure.

    z = atanh θ (logit for shares), se² = (G−1)/G · Σ (z₋g − z̄)², z ± t se, back-transformed, with t of G_eff − 1
    degrees of freedom (at least 1).

    Parameters
    ----------
    value
        The figure θ on all clusters.
    leave_out
        θ without each cluster in turn (G values); NaN where it is not defined.
    transform
        ``atanh`` for figures in (−1, 1), ``logit`` for shares in (0, 1), ``log`` for distances above 0, ``none``
        for those without bounds.
    unit
        The cluster of each item, for G_eff (`effective_clusters`); by default it is G.

    Returns
    -------
    Interval
        None with the reason for an undefined θ, one at its bound, fewer than two clusters, a figure that is
        undefined in over 5 % of the G resamples, at its bound in one (all errors are in one cluster), or the same in
        all of them (kappa if one side is constant): there is then no measure of its error. Undefined without any one
        cluster: ``under 3 answers of a judge or annotator are unlike most``.

    Examples
    --------
    >>> jackknife(0.5, np.array([0.45, 0.5, 0.55]), transform="none")
    Interval(low=0.2515..., high=0.748..., reason=None)
    """
    if math.isnan(value):
        return Interval.none("the figure is not defined")
    if len(leave_out) < 2:
        return Interval.none("fewer than two clusters")
    forward, backward = _TRANSFORMS[transform]
    figures = np.append(value, leave_out).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        end_near = np.rint(figures)  # the ends of all ranges are whole numbers
        z = forward(np.where(np.abs(figures - end_near) <= _NO_ERROR, end_near, figures))
    center, z = float(z[0]), z[1:]
    if not math.isfinite(center):
        return Interval.none("the figure is at the end of its range")
    if np.isinf(z).any():  # the other resamples do not show the error of what this cluster alone decides
        return Interval.none("without one cluster it is at the end of its range")
    z = z[np.isfinite(z)]
    if not len(z):
        return Interval.none(TOO_LITTLE)
    if len(z) < (1 - _MOST_UNDEFINED) * len(leave_out) or len(z) < 2:
        return Interval.none("not defined in over 5 % of the resamples")
    n_groups = len(z)
    error = math.sqrt((n_groups - 1) / n_groups * float(np.sum((z - z.mean()) ** 2)))
    if error <= _NO_ERROR * max(1.0, abs(center)):
        return Interval.none("leaving out a cluster never changes it")
    effective = n_groups if unit is None else effective_clusters(unit)
    half = _t(max(1.0, min(n_groups, effective) - 1)) * error
    return Interval(float(backward(center - half)), float(backward(center + half)))


def few_others(answers: npt.NDArray[Any], units: Ints) -> bool:
    """Do under three units have an answer other than the most frequent one? `answers` are codes or numbers.

    Examples
    --------
    >>> few_others(np.array([1, 1, 1, 0, 0]), np.arange(5)), few_others(np.array([1, 1, 1, 0, 0, 2]), np.arange(6))
    (True, False)
    """
    values, codes, counts = np.unique(answers, return_inverse=True, return_counts=True)
    if len(values) < 2:
        return True
    return len(np.unique(units[codes != counts.argmax()])) < FEWEST_OTHERS


def _logit(share: Any) -> Any:
    return np.log(share) - np.log1p(-share)


def _expit(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z > -700 else 0.0


_TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "atanh": (np.arctanh, math.tanh),
    "logit": (_logit, _expit),
    "log": (np.log, math.exp),
    "none": (lambda value: value, lambda value: value),
}


def _t(freedom: float, tail: float = _TAIL) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, tail))


def wilson(rate: float, n: float) -> Interval:
    """Wilson's score interval of a share; `n` may be an effective number of items.

    Never of zero width: a share of 1 seen in 10 items is [0.722, 1].

    Examples
    --------
    >>> wilson(1.0, 10)
    Interval(low=0.722..., high=1.0, reason=None)
    """
    from scipy.special import ndtri

    if math.isnan(rate) or not n > 0:
        return Interval.none("no items")
    z2 = float(ndtri(_TAIL)) ** 2
    middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2) / (1 + z2 / n) * math.sqrt(max(rate * (1 - rate), 0.0) / n + z2 / (4 * n * n))
    low = 0.0 if rate <= 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if rate >= 1 else min(1.0, middle + half))


def cluster_variance(values: Floats, clusters: Ints) -> tuple[float, int]:
    """SE² of a mean over items in clusters, and the number G of clusters.

    The larger of Σ_g u_g²/(1 − h_g)/n² (u_g: sum of s − s̄ in cluster g, h_g: its share of the items) and of
    s² Σ_g m_g(1 + (m_g − 1)ρ)/n², what the common intraclass correlation ρ (from the analysis of variance, cut to
    0-1) implies: if clusters are very unequal, or happen to balance, the first alone is too small.
    """
    codes = np.unique(clusters, return_inverse=True)[1]
    sizes, n = np.bincount(codes), len(values)
    if len(sizes) < 2:
        return math.nan, len(sizes)
    sums, rho = np.bincount(codes, weights=values - values.mean()), intraclass_correlation(values, codes)
    robust = float(np.sum(sums**2 / (1 - sizes / n)))
    common = float(values.var()) * float(np.sum(sizes * (1 + (sizes - 1) * rho)))
    return max(robust, common) / n**2, len(sizes)


def intraclass_correlation(values: Floats, codes: Ints) -> float:
    """The correlation of two values of one cluster, from the analysis of variance, cut to 0-1; two clusters or more.

    Examples
    --------
    >>> intraclass_correlation(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    1.0
    """
    sizes, n = np.bincount(codes), len(values)
    sums, spread = np.bincount(codes, weights=values - values.mean()), float(values.var()) * n
    between = float(np.sum(sums**2 / sizes))
    within = max(0.0, spread - between) / max(1, n - len(sizes))
    usual = (n - float(np.sum(sizes**2)) / n) / (len(sizes) - 1)
    shared = max(0.0, between / (len(sizes) - 1) - within) / usual
    return shared / (shared + within) if shared > 0 else 0.0


def mean_interval(
    values: Floats, clusters: Ints, *, bounds: Bounds | None = None, freedom: float | None = None, more: float = 0.0
) -> Interval:
    """The interval of a mean, with cluster errors (`cluster_variance`) and t_{G−1}.

    Parameters
    ----------
    values
        One finite value per item.
    clusters
        The cluster of each value.
    bounds
        The ends of the scale. The interval is then Wilson's with the effective number of items (see
        `bounded_interval`) and never leaves them; if all values are equal it is that of the mean's
        place between them and the number of effective clusters, never [1, 1].
    freedom
        Degrees of freedom of t, instead of G − 1.
    more
        Added to the variance of the mean, if not all values are equal.

    Examples
    --------
    >>> mean_interval(np.array([0.0, 1.0, 1.0, 0.0]), np.arange(4))
    Interval(low=-0.418..., high=1.418..., reason=None)
    """
    if not len(values):
        return Interval.none("nothing is scored")
    variance, n_clusters = cluster_variance(values, clusters)
    if n_clusters < 2:
        return Interval.none("fewer than two clusters")
    mean, freedom = float(values.mean()), n_clusters - 1 if freedom is None else freedom
    if np.ptp(values) <= _EQUAL:
        if bounds is None:
            return Interval.none("all values are equal")
        low, high = bounds
        share = wilson(min(1.0, max(0.0, (mean - low) / (high - low))), effective_clusters(clusters))
        return Interval(low + (high - low) * share.low, low + (high - low) * share.high)
    error = math.sqrt(variance + more)
    if bounds is None:
        return Interval(mean - _t(freedom) * error, mean + _t(freedom) * error)
    return bounded_interval(mean, error, bounds=bounds, freedom=freedom)


def bounded_interval(mean: float, error: float, *, bounds: tuple[float, float], freedom: float) -> Interval:
    """Wilson's interval of a mean on a bounded scale, from its standard error > 0 and t.

    All m with |mean − m| ≤ t · error · √(m(1 − m) / (mean(1 − mean))) on 0-1: Wilson's (1927) with n_eff =
    mean(1 − mean) / error² items (as Korn and Graubard 1998 count those of a survey) and t in the place of z. Near
    an end of the scale it reaches further inwards, where mean ∓ t · error is too short: few low scores were
    seen, and the error that they should have shown was not.

    Parameters
    ----------
    mean, error
        In the units of the scale.
    bounds
        The ends of the scale. A mean at or beyond one has an interval that is cut there.
    freedom
        Degrees of freedom of t.

    Examples
    --------
    >>> bounded_interval(1.9, 0.1, bounds=(0, 2), freedom=29)
    Interval(low=1.491..., high=1.983..., reason=None)
    """
    low, high = bounds
    t, width = _t(freedom), high - low
    share = (mean - low) / width
    spread = share * (1 - share)
    if spread <= 0:
        return Interval(max(low, mean - t * error), min(high, mean + t * error))
    w = (t * error / width) ** 2 / spread  # t² / n_eff
    middle = (share + w / 2) / (1 + w)
    half = math.sqrt(w * spread + w * w / 4) / (1 + w)
    return Interval(low + width * max(0.0, middle - half), low + width * min(1.0, middle + half))


def change_interval(steps: Floats, clusters: Ints, tail: float = _TAIL) -> Interval:
    """The interval of a mean of steps from −1 to 1: (fixed − broke)/n of paired verdicts; `tail`: quantile of its end.

    Agresti and Min (2005), for matched proportions: half an item more in each of the four cells of the paired
    table, so n + 2 items and a change seen once more; with cluster errors and t_{G−1}. Where no item changes, or
    all change alike, each effective cluster counts once.

    Examples
    --------
    >>> change_interval(np.zeros(98), np.arange(98))
    Interval(low=-0.0198..., high=0.0198..., reason=None)
    """
    if not len(steps):
        return Interval.none("nothing has a verdict")
    variance, n_clusters = cluster_variance(steps, clusters)
    if n_clusters < 2:
        return Interval.none("fewer than two clusters")
    n = float(len(steps) if np.ptp(steps) > 0 else effective_clusters(clusters))
    middle = float(steps.mean()) * n / (n + 2)
    half = _t(n_clusters - 1, tail) * math.sqrt(variance * (n / (n + 2)) ** 2 + (1 + middle**2) / (n + 2) ** 2)
    return Interval(max(-1.0, middle - half), min(1.0, middle + half))


def difference_interval(gaps: Floats, clusters: Ints, width: float) -> Interval:
    """The interval of a mean difference of two scores that lie on one scale: Wilson's on −width to width.

    Where all differences are equal it is that of a change (`change_interval`); for a width of NaN, mean ∓ t · SE.

    Examples
    --------
    >>> difference_interval(np.array([-4.0] * 9 + [0.0, 0.0, 4.0]), np.arange(12), 4.0)
    Interval(low=-3.616..., high=-0.460..., reason=None)
    """
    if math.isnan(width) or not len(gaps):
        return mean_interval(gaps, clusters)
    width = max(width, float(np.abs(gaps).max()))  # unscored samples may count as a number off the scale
    if np.ptp(gaps) > _EQUAL:
        return mean_interval(gaps, clusters, bounds=(-width, width))
    ends = change_interval(gaps / width, clusters)
    return Interval(width * ends.low, width * ends.high, ends.reason)


def rate_interval(flags: Floats, clusters: Ints) -> Interval:
    """The interval of a share of items: Wilson's with n_eff = s̄(1 − s̄)/SE² (`cluster_variance`) and t_{G−1}.

    Where all items agree, their variance cannot be seen, and each effective cluster counts once.

    Parameters
    ----------
    flags
        1 or 0 per item.
    clusters
        The cluster of each item.

    Examples
    --------
    >>> rate_interval(np.array([1.0, 1.0, 1.0, 0.0]), np.arange(4))
    Interval(low=0.130..., high=0.983..., reason=None)
    """
    if not len(flags):
        return Interval.none("nothing has a verdict")
    ends = mean_interval(flags, clusters, bounds=(0.0, 1.0))
    return ends if ends.reason is None else wilson(float(flags.mean()), 1)  # of one cluster


def sums_without_each(values: Floats, unit: Ints, n_units: int) -> Floats:
    """The sum of `values` on all items, then without each unit.

    Examples
    --------
    >>> sums_without_each(np.array([1.0, 2.0, 4.0]), np.array([0, 0, 1]), 2).tolist()
    [7.0, 4.0, 3.0]
    """
    left_out = np.zeros(n_units + 1)
    if n_units:
        left_out[1:] = np.bincount(unit, weights=values, minlength=n_units)
    return np.asarray(values.sum() - left_out)


def unit_sums(values: Floats, unit: Ints, n_units: int) -> Floats:
    """The sums of each column of `values` (items × columns) in each unit."""
    sums = np.zeros((n_units, values.shape[1]))
    np.add.at(sums, unit, values)
    return sums


def without_each(sums: Floats) -> Floats:
    """From the sums of each unit: those of all units in row 0, then those without each unit."""
    total = sums.sum(axis=0)
    return np.vstack([total, total - sums])


def ratio(top: Floats, bottom: Floats) -> Floats:
    """`top / bottom`, NaN where `bottom` is 0; taking a unit away leaves rounding errors, so up to 1e-9 counts as 0."""
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 1e-9))


def moments(x: Floats, y: Floats, unit: Ints, rows: int) -> dict[str, Floats]:
    """Quadratic kappa (Lin's concordance), Pearson's r, mean absolute difference and bias of two score vectors."""
    # Differences, and values around one middle, so that squares lose no digits.
    gap, middle = x - y, float(y.mean()) if len(y) else 0.0
    x, y = x - middle, y - middle
    n = sums_without_each(np.ones(len(x)), unit, rows - 1)

    def mean(values: Floats) -> Floats:
        return ratio(sums_without_each(values, unit, rows - 1), n)

    mx, my = mean(x), mean(y)
    sxx, syy, sxy = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
    pearson = correlation(sxy, sxx, syy, n)
    concordance = ratio(2 * sxy, np.where(n > 1.5, sxx + syy + (mx - my) ** 2, 0.0))
    return {"quadratic_kappa": concordance, "pearson": pearson, "mae": mean(np.abs(gap)), "bias": mean(gap)}


def correlation(sxy: Floats, sxx: Floats, syy: Floats, n: Floats) -> Floats:
    """Pearson's r of n values from their moments; NaN under three, or where a side does not vary."""
    good = (n > 2.5) & (sxx > 1e-12) & (syy > 1e-12)
    result = np.full(len(n), np.nan)
    result[good] = np.clip(sxy[good] / np.sqrt(sxx[good] * syy[good]), -1.0, 1.0)
    return result
