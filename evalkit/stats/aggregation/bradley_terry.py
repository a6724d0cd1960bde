"""Strengths of systems from paired comparisons: maximum likelihood, with ties.

Bradley and Terry (1952), with the ties of Davidson (1970). Whether a finite maximum exists is read from the graph of
wins and ties, as Ford (1957) does without ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evalkit.tables.grouping import Floats, Ints

Ties = Literal["davidson", "half"]

_STEP, _FLAT, _STEEP = 1e-5, 1e-6, 1e10


@dataclass(frozen=True, slots=True)
class Comparisons:
    """One entry per comparison: numbers of systems and clusters; `value` is 1, .5 or 0, NaN if unscored."""

    first: Ints
    second: Ints
    value: Floats
    unit: Ints

    def where(self, flags: Any) -> Comparisons:
        """Those with the flag."""
        return Comparisons(*(getattr(self, name)[flags] for name in self.__slots__))

    def numbered(self) -> Comparisons:
        """With numbers from 0 on, without gaps, in the same order."""
        sides = np.unique([self.first, self.second], return_inverse=True)[1].reshape(2, -1)
        return Comparisons(sides[0], sides[1], self.value, np.unique(self.unit, return_inverse=True)[1])


@dataclass(frozen=True, slots=True)
class Fit:
    """Estimates, and what each cluster contributes to them.

    Attributes
    ----------
    strength
        One per system, with mean 0.
    tie
        ν of Davidson; 0 without ties.
    clusters
        Clusters × strengths. The mean over clusters is the estimate, and the variance of this mean is the
        cluster-robust (sandwich) variance of the estimate, with the factor G/(G − 1).
    """

    strength: Floats
    tie: float
    clusters: Floats


def win_counts(data: Comparisons, n_systems: int) -> tuple[Floats, Floats]:
    """How often the system of the row beat that of the column, and how often they tied (symmetric)."""
    wins, even = np.zeros((2, n_systems, n_systems))
    np.add.at(wins, (data.first, data.second), data.value == 1)
    np.add.at(wins, (data.second, data.first), data.value == 0)
    np.add.at(even, (data.first, data.second), data.value == 0.5)
    return wins, even + even.T


def has_maximum(wins: Floats, even: Floats) -> bool:
    """Is there a finite maximum, for systems that all reach each other by wins and ties?

    Without ties there is (Ford 1957). With ties there is not if strengths d and the width of a tie can grow
    together: d_i ≥ d_j + 1 for each win of i over j, |d_i − d_j| ≤ 1 for each tie. Such d exist unless some cycle has
    more wins than ties.

    Examples
    --------
    >>> one_win, even = np.array([[0, 1], [0, 0]]), np.array([[0, 1], [1, 0]])
    >>> has_maximum(one_win, even), has_maximum(one_win + one_win.T, even)
    (False, True)
    """
    from scipy.sparse.csgraph import NegativeCycleError, bellman_ford

    if not even.any():
        return True
    try:
        bellman_ford(np.where(wins > 0, -1.0, np.where(even > 0, 1.0, 0.0)))
    except NegativeCycleError:
        return True
    return False


def fit(data: Comparisons, ties: Ties) -> Fit | None:
    """Maximum likelihood: the log odds of a win over a loss are strength − strength of the opponent.

    None if the search does not end at a maximum (see `has_maximum`). `data` is `numbered`.
    """
    from scipy.optimize import minimize
    from scipy.sparse import coo_array

    columns = np.column_stack([data.first, data.second, 2 * data.value]).astype(np.int64)
    cells, cell, counts = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    n_systems = int(cells[:, :2].max()) + 1
    has_ties = ties != "half" and bool((cells[:, 2] == 1).any())
    point = np.append(np.zeros(n_systems), 0.0 if has_ties else -np.inf)
    free = np.arange(n_systems + has_ties)

    def mean_loss(values: Floats) -> tuple[float, Floats]:
        # strengths have mean 0 at the minimum: the penalty chooses among equal likelihoods
        point[free] = values
        log, slopes = _slopes(point, cells, ties)
        total = point[:n_systems].sum()
        slope = np.append(np.full(n_systems, total), 0.0) - counts @ slopes / len(cell)
        return float(total**2 / 2 - counts @ log / len(cell)), slope[free]

    def curvature(values: Floats) -> Floats:
        steps = _STEP * np.eye(len(free))
        hessian = np.array([mean_loss(values + step)[1] - mean_loss(values - step)[1] for step in steps]) / (2 * _STEP)
        return np.asarray((hessian + hessian.T) / 2)

    optimum = minimize(mean_loss, point[free], jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-10})
    bend = curvature(optimum.x)
    point[free] = optimum.x
    if np.linalg.norm(optimum.jac) > _FLAT or np.linalg.cond(bend) > _STEEP:
        return None
    sums = coo_array((np.ones(len(cell)), (data.unit, cell))) @ _slopes(point, cells, ties)[1][:, free]
    clusters = np.tile(point, (len(sums), 1))
    clusters[:, free] += len(sums) / len(cell) * sums @ np.linalg.inv(bend)
    return Fit(point[:n_systems], float(np.exp(point[-1])), clusters[:, :n_systems])


def _slopes(point: Floats, cells: Ints, ties: Ties) -> tuple[Floats, Floats]:
    """The log-likelihood of one comparison of each cell, and its derivative in each parameter."""
    first, second, value = cells.T
    strength, width = point[:-1], np.full(len(cells), point[-1])
    sides = np.eye(len(strength))[first] - np.eye(len(strength))[second]
    log, by_odds, by_width = _LIKELIHOODS[ties](sides @ strength, width, value / 2)
    return log, np.column_stack([by_odds[:, None] * sides, by_width])


def _davidson(odds: Floats, width: Floats, value: Floats) -> tuple[Floats, Floats, Floats]:
    """Win : tie : loss = e^(odds/2) : ν : e^(−odds/2), ν = e^width."""
    logs = np.stack([odds / 2, width, -odds / 2])
    total = np.logaddexp.reduce(logs, axis=0)
    win, even, loss = np.exp(logs - total)
    tie = value == 0.5
    return np.where(tie, width, (value - 0.5) * odds) - total, value - 0.5 - (win - loss) / 2, tie - even


def _half(odds: Floats, _: Floats, value: Floats) -> tuple[Floats, Floats, Floats]:
    """P(win) = logistic(odds), without ties in the model: a tie counts as half a win of both."""
    from scipy.special import expit, log_expit

    return value * log_expit(odds) + (1 - value) * log_expit(-odds), value - expit(odds), np.zeros(len(odds))


_LIKELIHOODS = {"davidson": _davidson, "half": _half}
