"""Tests of a change on held-out labels: each look costs a part of α, over all sessions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evalkit.errors import InputError
from evalkit.stats.significance import sums_of_flipped

ALPHA = 0.05


def alpha_of(look: int) -> float:
    """The one-sided α of a look at held-out labels.

    Over all looks these add up to .05: if no change helps, one is kept with a probability of at most .05, however
    often one looks.

    Parameters
    ----------
    look
        The number ℓ of the look at these labels, from 1, as in the column `n_looks` of `measure_edit`.

    Returns
    -------
    float
        .05/(ℓ(ℓ+1)).

    Raises
    ------
    InputError
        For a number below 1.

    Examples
    --------
    >>> alpha_of(1), round(alpha_of(2), 4)
    (0.025, 0.0083)
    """
    if look < 1:
        raise InputError(f"look={look} is no look at held-out labels; pass its number, from 1")
    return ALPHA / (look * (look + 1))


def flip_p(steps: ArrayLike) -> float:
    """The one-sided p-value of Σ steps, where each step could as well have the other sign.

    Exact: the distribution of the sum over all signs. With steps of ±1 it is the sign test.

    Parameters
    ----------
    steps
        Whole numbers: 1 for each item that a change fixed and −1 for each that it broke; if items come in groups,
        fixed − broke of each group. Steps of 0 change nothing.

    Returns
    -------
    float
        The share of all signs with a sum at least as large, 0-1; 1 without steps.

    Raises
    ------
    InputError
        For steps that are not whole numbers.

    Examples
    --------
    >>> flip_p([1, 1, 1, 1, 0, -1]), flip_p([3, -1])
    (0.1875, 0.5)
    """
    values = np.asarray(steps, dtype=np.float64)
    if not all(step.is_integer() for step in values.tolist()):
        raise InputError("steps must be whole numbers: fixed − broke of each item or group")
    numbers = values.astype(np.int64)
    return round(float(sums_of_flipped(numbers)[int(numbers[numbers > 0].sum()) :].sum()), 12)


def evidence(fixed: int, broke: int) -> float:
    """How much more likely these counts are if a change helps than if it does not; an e-value at any time.

    The mean of (2θ)^fixed · (2(1 − θ))^broke over θ uniform on (½, 1), θ being the share of fixed among fixed and
    broke. If the change does not help, it ever reaches 20 with a chance of at most 1/20 (Ville's inequality), however
    often one looks while labels are added.

    Parameters
    ----------
    fixed, broke
        How many items (or groups, by the sign of fixed − broke) a change made right and wrong. Only items count that
        had no label when the change was chosen.

    Returns
    -------
    float
        Above 0; 1 without counts.

    Raises
    ------
    InputError
        For a count below 0.

    Examples
    --------
    >>> evidence(0, 0), round(evidence(1, 0), 6), round(evidence(0, 1), 6), evidence(10, 1) > 20
    (1.0, 1.5, 0.5, True)
    """
    from scipy.special import betainc, betaln

    if min(fixed, broke) < 0:
        raise InputError(f"fixed={fixed} and broke={broke} are counts: pass numbers from 0")
    ends = fixed + 1, broke + 1
    return float(np.exp((sum(ends) - 1) * np.log(2) + betaln(*ends)) * betainc(*ends[::-1], 0.5))
