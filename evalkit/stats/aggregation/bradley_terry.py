"""Strengths of systems from paired comparisons: maximum likelihood, with ties and the discrimination of judges.

Bradley and Terry (1952), with the ties of Davidson (1970) or of Rao and Kupper (1967). Whether a finite maximum exists
is read from the graph of wins and ties, as Ford (1957) does without ties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from evalkit.tables.grouping import Floats, Ints

Ties = Literal["davidson", "rao_kupper", "half"]

_FAR = 10.0  # log odds of a probability under 5e-5: the likelihood still rises where the search stopped
_STEP, _FLAT, _STEEP = 1e-5, 1e-6, 1e10


@dataclass(frozen=True, slots=True)
class Comparisons:
    """One entry per comparison: numbers of systems, judges and clusters; `value` is 1, .5 or 0, NaN if unscored."""

    first: Ints
    second: Ints
    judge: Ints
    value: Floats
    unit: Ints

    def where(self, flags: Any) -> Comparisons:
        """Those with the flag."""
        return Comparisons(*(getattr(self, name)[flags] for name in self.__slots__))

    def numbered(self) -> Comparisons:
        """With numbers from 0 on, without gaps, in the same order."""
        sides = np.unique([self.first, self.second], return_inverse=True)[1].reshape(2, -1)
        judge, unit = (np.unique(column, return_inverse=True)[1] for column in (self.judge, self.unit))
        return Comparisons(sides[0], sides[1], judge, self.value, unit)


@dataclass(frozen=True, slots=True)
class Fit:
    """Estimates, and what each cluster contributes to them.

    Attributes
    ----------
    strength
        One per system, with mean 0.
    tie
        One per judge: ν of Davidson (0 without ties), θ of Rao and Kupper (1 without ties).
    clusters
        Clusters × (strengths, then discriminations). The mean over clusters is the estimate, and the variance of this
        mean is the cluster-robust (sandwich) variance of the estimate, with the factor G/(G − 1).
    """

    strength: Floats
    tie: Floats
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


def fit(data: Comparisons, ties: Ties, *, discrimination: bool = False) -> Fit | None:
    """Maximum likelihood: the log odds of a win over a loss are γ_judge · (strength − strength of the opponent).

    γ is 1 for all judges unless `discrimination`. Each judge has its own tie parameter. None if the likelihood of a
    model with γ has no finite maximum; without γ, see `has_maximum`. `data` is `numbered`.
    """
    from scipy.optimize import minimize
    from scipy.sparse import coo_array

    columns = np.column_stack([data.first, data.second, data.judge, 2 * data.value]).astype(np.int64)
    cells, cell, counts = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    n_systems, n_judges = int(cells[:, :2].max()) + 1, int(cells[:, 2].max()) + 1
    tied = np.isin(np.arange(n_judges), cells[cells[:, 3] == 1, 2]) & (ties != "half")
    point = np.concatenate([np.zeros(n_systems), np.ones(n_judges), np.where(tied, 0.0, -np.inf)])
    free = np.flatnonzero([*[True] * n_systems, *[discrimination] * n_judges, *tied])
    if discrimination:
        plain = fit(data, ties)
        point[:n_systems] = plain.strength if plain else 0.0

    def mean_loss(values: Floats) -> tuple[float, Floats]:
        # strengths have mean 0 and γ mean 1 at the minimum: the penalties choose among equal likelihoods
        point[free] = values
        log, slopes = _slopes(point, cells, ties, n_systems)
        total, excess = point[:n_systems].sum(), point[n_systems : n_systems + n_judges].sum() - n_judges
        pull = np.repeat([total, excess, 0.0], [n_systems, n_judges, n_judges])
        slope = pull - counts @ slopes / len(cell)
        return float((total**2 + excess**2) / 2 - counts @ log / len(cell)), slope[free]

    def curvature(values: Floats) -> Floats:
        steps = _STEP * np.eye(len(free))
        hessian = np.array([mean_loss(values + step)[1] - mean_loss(values - step)[1] for step in steps]) / (2 * _STEP)
        return np.asarray((hessian + hessian.T) / 2)

    optimum = minimize(mean_loss, point[free], jac=True, hess=curvature, method="trust-exact", options={"gtol": 1e-10})
    bend = curvature(optimum.x)
    point[free] = optimum.x
    strength, gamma, width = np.split(point, [n_systems, n_systems + n_judges])
    odds = gamma[cells[:, 2]] * (strength[cells[:, 0]] - strength[cells[:, 1]])
    far = discrimination and np.abs([*odds, *width[tied]]).max() > _FAR
    if far or np.linalg.norm(optimum.jac) > _FLAT or np.linalg.cond(bend) > _STEEP:
        return None
    sums = coo_array((np.ones(len(cell)), (data.unit, cell))) @ _slopes(point, cells, ties, n_systems)[1][:, free]
    clusters = np.tile(point, (len(sums), 1))
    clusters[:, free] += len(sums) / len(cell) * sums @ np.linalg.inv(bend)
    tie = np.exp(np.exp(width)) if ties == "rao_kupper" else np.exp(width)
    return Fit(strength, tie, clusters[:, : n_systems + n_judges])


def _slopes(at: Floats, cells: Ints, ties: Ties, n_systems: int) -> tuple[Floats, Floats]:
    """The log-likelihood of one comparison of each cell, and its derivative in each parameter."""
    first, second, judge, value = cells.T
    n_judges = (len(at) - n_systems) // 2
    strength, gamma, width = np.split(at, [n_systems, n_systems + n_judges])
    sides, judges = np.eye(n_systems)[first] - np.eye(n_systems)[second], np.eye(n_judges)[judge]
    apart = sides @ strength
    log, by_odds, by_width = _LIKELIHOODS[ties](gamma[judge] * apart, width[judge], value / 2)
    by_odds, by_width = by_odds[:, None], by_width[:, None]
    return log, np.hstack([by_odds * gamma[judge, None] * sides, by_odds * apart[:, None] * judges, by_width * judges])


def _davidson(odds: Floats, width: Floats, value: Floats) -> tuple[Floats, Floats, Floats]:
    """Win : tie : loss = e^(odds/2) : ν : e^(−odds/2), ν = e^width."""
    logs = np.stack([odds / 2, width, -odds / 2])
    total = np.logaddexp.reduce(logs, axis=0)
    win, even, loss = np.exp(logs - total)
    tie = value == 0.5
    return np.where(tie, width, (value - 0.5) * odds) - total, value - 0.5 - (win - loss) / 2, tie - even


def _rao_kupper(odds: Floats, width: Floats, value: Floats) -> tuple[Floats, Floats, Floats]:
    """P(win) = logistic(odds − δ), P(loss) = logistic(−odds − δ), δ = log θ = e^width.

    P(tie) = (θ² − 1) P(win) P(loss): a tie counts as a win of both.
    """
    from scipy.special import expit, log_expit

    tie, delta = value == 0.5, np.exp(width)
    wide = np.where(tie, delta, 1.0)
    won, lost = (value > 0) * 1.0, (value < 1) * 1.0
    log = won * log_expit(odds - delta) + lost * log_expit(-odds - delta) + tie * np.log(np.expm1(2 * wide))
    up, down = won * expit(delta - odds), lost * expit(delta + odds)
    return log, up - down, delta * (tie * -2 / np.expm1(-2 * wide) - up - down)


def _half(odds: Floats, _: Floats, value: Floats) -> tuple[Floats, Floats, Floats]:
    """P(win) = logistic(odds), without ties in the model: a tie counts as half a win of both."""
    from scipy.special import expit, log_expit

    return value * log_expit(odds) + (1 - value) * log_expit(-odds), value - expit(odds), np.zeros(len(odds))


_LIKELIHOODS = {"davidson": _davidson, "rao_kupper": _rao_kupper, "half": _half}
