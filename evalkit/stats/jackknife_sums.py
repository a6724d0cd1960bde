"""Sums on all items, then without each unit, and moments from them: what every jackknife here is computed from."""

from __future__ import annotations

import numpy as np

from evalkit.tables.grouping import Floats, Ints


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
