"""Means and products of two vectors of scores, on all items and without each unit."""

from __future__ import annotations

import numpy as np

from evalkit.stats.jackknife_sums import ratio, sums_without_each
from evalkit.tables.grouping import Floats, Ints


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
