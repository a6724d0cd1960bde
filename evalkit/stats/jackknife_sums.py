"""Sums on all items, then without each unit: what every jackknife in these rooms is computed from."""

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
