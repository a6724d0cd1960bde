"""How far the errors of judges are shared: the effective number of independent judges."""

from __future__ import annotations

import numpy as np

from evalkit.stats.intervals import jackknife_groups
from evalkit.stats.jackknife_sums import unit_sums, without_each
from evalkit.tables.grouping import Floats, Ints


def effective_judges(said: Floats, people: Floats, clusters: Ints) -> tuple[Floats, str | None]:
    """n_eff = [mean_j Var(e_j) − σ²_h/m] / [Var(ē) − σ²_h/m] on the items that all judges scored.

    The errors e_ij = y_ij − h̄_i hold the error of the people's mean h̄, which all judges share: σ²_h/m is taken
    off both sides, with σ²_h the variance within items that two or more people labelled (ddof 1) and 1/m its
    mean over items.

    Parameters
    ----------
    said, people
        Items × judges, and items × annotators, on one scale; NaN for none.
    clusters
        The cluster of each item.

    Returns
    -------
    tuple
        n_eff on all, then without each unit (NaN where a part is ≤ 0); and why it is NA, or what to mind.

    Examples
    --------
    >>> people = np.zeros((4, 1))
    >>> said = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])  # errors that are not correlated
    >>> effective_judges(said, people, np.arange(4))[0].round(3).tolist()
    [2.0, 4.0, 1.333, 1.333, 4.0]
    """
    rows = ~np.isnan(said).any(axis=1) & ~np.isnan(people).all(axis=1)
    unit, n_units = jackknife_groups(clusters[rows])
    nothing = np.full(n_units + 1, np.nan)
    if said.shape[1] < 2:
        return nothing, "one judge"
    if rows.sum() < 3:
        return nothing, "fewer than three items that all judges scored and people labelled"
    said, people = said[rows], people[rows]
    has_label = ~np.isnan(people)
    m = has_label.sum(axis=1)
    middle = np.where(has_label, people, 0.0).sum(axis=1) / m
    errors = said - middle[:, None]
    errors = np.column_stack([errors, errors.mean(axis=1)])
    errors -= errors.mean(axis=0)  # squares around it lose no digits
    squares = np.where(has_label, people - middle[:, None], 0.0)
    within = (squares**2).sum(axis=1) / np.maximum(m - 1, 1)
    columns = np.column_stack([np.ones(len(m)), m > 1, within, 1 / m, errors, errors**2])
    sums = without_each(unit_sums(columns, unit, n_units))
    n, n_several = sums[:, :1], sums[:, 1]
    noise = np.divide(sums[:, 2], n_several, out=np.zeros(len(sums)), where=n_several > 0) * sums[:, 3] / n[:, 0]
    width = errors.shape[1]
    first, second = sums[:, 4 : 4 + width], sums[:, 4 + width :]
    variance = (second - first**2 / n) / np.maximum(n - 1, 1)
    top, bottom = variance[:, :-1].mean(axis=1) - noise, variance[:, -1] - noise
    values: Floats = np.divide(top, bottom, out=nothing, where=(bottom > 1e-12) & (top > 1e-12))
    if np.isnan(values[0]):
        return values, "the errors of the judges are no larger than the differences among people, or cancel out"
    return values, "a lower bound: one annotator per item" if not n_several[0] else None
