"""Dawid and Skene's model of observers: each judge's error rates and each item's label, estimated together.

Dawid and Skene (1979), "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied
Statistics 28. With T_ic the chance that item i is truly c, n_il(j) = 1 where judge j gave label l:

- error rates π_cl(j) = Σ_i T_ic n_il(j) / Σ_l Σ_i T_ic n_il(j) (their eq. 2.3) and shares p_c = Σ_i T_ic / n (eq. 2.4),
  0.01 being added to every count before dividing, so that nothing is impossible because it was not seen;
- T_ic ∝ p_c Π_j Π_l π_cl(j)^n_il(j) (eq. 2.5).

The start is each item's shares of labels. It is a local maximum of the likelihood that is found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalkit.tables.grouping import Floats, Ints

_SMOOTHING = 0.01
_MOST_ROUNDS, _GAIN = 100, 1e-6


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the EM algorithm came to.

    Attributes
    ----------
    posterior
        items × levels, the chance of each label; rows sum to 1.
    log_likelihood
        Of all labels, at the last round.
    n_rounds
        Rounds taken, at most 100.
    """

    posterior: Floats
    log_likelihood: float
    n_rounds: int


def too_few_items(n_items: int, n_judges: int, n_levels: int) -> bool:
    """Are there too few items for a table of error rates per judge? Then each judge has one rate."""
    return n_items < 10 * n_judges * (n_levels - 1)


def estimate(item: Ints, judge: Ints, label: Ints, n_levels: int, *, one_coin: bool) -> Estimate:
    """Fit the model to one label per judge and item.

    Parameters
    ----------
    item, judge, label
        Numbers from 0, one entry per label; every item and judge has one or more.
    one_coin
        One rate per judge: right with a chance of its own, else any other label alike.

    Examples
    --------
    >>> made = estimate(np.repeat([0, 1, 2], 3), np.tile([0, 1, 2], 3), np.array([0, 0, 0, 1, 1, 1, 1, 1, 0]), 2,
    ...     one_coin=True)
    >>> made.posterior.argmax(axis=1).tolist()
    [0, 1, 1]
    """
    shape = (int(item.max()) + 1, int(judge.max()) + 1, n_levels)
    votes = np.zeros(shape)
    votes[item, judge, label] = 1.0
    flat = votes.reshape(shape[0], -1)
    posterior = votes.sum(axis=1)
    posterior /= posterior.sum(axis=1, keepdims=True)
    last, n_rounds = -np.inf, 0
    for n_rounds in range(1, _MOST_ROUNDS + 1):  # noqa: B007 - it is returned
        share = posterior.sum(axis=0) + _SMOOTHING
        counts = (posterior.T @ flat).reshape(n_levels, shape[1], n_levels)
        smoothed = counts + _SMOOTHING
        rates = _one_rate(counts) if one_coin else smoothed / smoothed.sum(axis=2, keepdims=True)
        logs = np.log(share / share.sum()) + flat @ np.log(rates).reshape(n_levels, -1).T
        top = logs.max(axis=1, keepdims=True)
        weight = np.exp(logs - top)
        total = weight.sum(axis=1, keepdims=True)
        posterior = weight / total
        log_likelihood = float((top + np.log(total)).sum())
        if abs(log_likelihood - last) < _GAIN:
            break
        last = log_likelihood
    return Estimate(posterior, log_likelihood, n_rounds)


def _one_rate(counts: Floats) -> Floats:
    n_levels = counts.shape[0]
    right = np.einsum("cjc->j", counts)
    share = (right + _SMOOTHING) / (counts.sum(axis=(0, 2)) + 2 * _SMOOTHING)
    apart = (1 - share) / (n_levels - 1)
    return np.asarray(np.where(np.eye(n_levels, dtype=bool)[:, None, :], share[:, None], apart[:, None]))
