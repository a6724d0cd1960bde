"""Tests of a change: McNemar's mid-p, sign flips by cluster, Holm."""

from __future__ import annotations

import math

import numpy as np

from evalkit.tables.grouping import Floats, Ints

__all__ = ["holm", "mcnemar_midp", "sign_flip"]

_DRAWS = 10_000
_MOST_CELLS = 4_000_000


def mcnemar_midp(fixed: int, broke: int) -> float:
    """Two-sided mid-p of McNemar's test (Fagerland, Lydersen and Laake 2013): 2·P(X ≤ min) − P(X = min), X ~ Bin(n, ½).

    Examples
    --------
    >>> mcnemar_midp(1, 4), mcnemar_midp(0, 0)
    (0.21875, 1.0)
    """
    from scipy.special import bdtr

    n, least = fixed + broke, min(fixed, broke)
    exactly = math.exp(math.lgamma(n + 1) - math.lgamma(least + 1) - math.lgamma(n - least + 1) - n * math.log(2))
    return round(min(1.0, 2 * float(bdtr(least, n, 0.5)) - exactly), 12)


def sign_flip(differences: Floats, clusters: Ints) -> float:
    """The p of a mean difference, the signs of whole clusters flipped in 10,000 draws: p = (1 + #)/(1 + B).

    The draws are the same at every call. NaN for fewer than two clusters.
    """
    _, codes = np.unique(clusters, return_inverse=True)
    sums = np.bincount(codes, weights=differences)
    if len(sums) < 2:
        return math.nan
    # Clusters with equal sums are drawn together: m signs of one size are 2·Bin(m, ½) − m of it.
    sizes, copies = np.unique(np.round(np.abs(sums[sums != 0]), 12), return_counts=True)
    draw, seen = np.random.default_rng(0), abs(float(sums.sum())) - 1e-9
    extreme, left = 0, _DRAWS
    while left:
        step = min(left, max(1, _MOST_CELLS // max(len(sizes), 1)))
        balance = 2 * draw.binomial(copies, 0.5, (step, len(sizes))) - copies
        extreme += int((np.abs(balance @ sizes) >= seen).sum())
        left -= step
    return (1 + extreme) / (1 + _DRAWS)


def holm(values: Floats) -> Floats:
    """Holm's step-down adjustment; NaN is no test and stays.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, float("nan"), 0.03])).round(6).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    adjusted = np.full(len(values), np.nan)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(values[order] * factors))
    return adjusted
