"""Tests of a change: permuted samples, McNemar's mid-p, sign flips by cluster, Holm; looks at held-out labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from evalkit.errors import InputError
from evalkit.tables.grouping import Floats, Ints

_DRAWS = 10_000
_PERMUTATIONS = 1_999
_MOST_CELLS = 4_000_000
_MOST_SPLITS = 20_000
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How often each outcome of a cell (an item and judge) was sampled on both sides; one entry per cell and outcome.

    Attributes
    ----------
    cell
        The cell of each entry, 0 to n − 1, in rising order.
    a, b
        Its number of samples on side a and on side b.
    """

    cell: Ints
    a: Ints
    b: Ints


def permuted_samples(outcomes: Outcomes) -> float:
    """The p of the samples of two sides being draws of one judge: the outcomes of each cell permuted between the sides.

    T = Σ over cells and outcomes of (share on b − share on a)²; p = (1 + #{T* ≥ T}) / (1 + B), B = 1,999, the same
    draws at every call. Exact for independent samples, whatever the items are. NaN where no cell has two samples on
    one side and one on the other: then every permutation has the same T.

    Examples
    --------
    >>> one_item = Outcomes(np.array([0, 0]), np.array([3, 0]), np.array([0, 3]))  # 000 | 111: 2 of 20 splits
    >>> abs(permuted_samples(one_item) - 0.1) < 0.02
    True
    """
    n_cells = int(outcomes.cell.max(initial=-1)) + 1
    k_a, k_b = (np.bincount(outcomes.cell, side, n_cells).astype(np.int64) for side in (outcomes.a, outcomes.b))
    cell = outcomes.cell
    open_ = (np.minimum(k_a, k_b) > 0) & (k_a + k_b > 2)
    if not open_.any():
        return math.nan
    rows = open_[cell]
    observed = float(np.sum((outcomes.b[rows] / k_b[cell[rows]] - outcomes.a[rows] / k_a[cell[rows]]) ** 2))
    # Cells with the same numbers of equal outcomes have the same distribution of T: they are drawn together.
    counts = outcomes.a + outcomes.b
    order = np.lexsort((-counts, cell))
    column = np.arange(len(cell)) - np.searchsorted(cell[order], cell[order])
    kinds = np.zeros((n_cells, int(column.max()) + 2), dtype=np.int64)
    kinds[cell[order], column] = counts[order]
    kinds[:, -1] = k_b
    kinds, copies = np.unique(kinds[open_], axis=0, return_counts=True)
    draw, total = np.random.default_rng(0), np.zeros(_PERMUTATIONS)
    for kind, n in zip(kinds, copies.tolist(), strict=True):
        total += _draws(draw, kind[:-1][kind[:-1] > 0], int(kind[-1]), n)
    return (1 + int((total >= observed - _TINY).sum())) / (1 + _PERMUTATIONS)


def _draws(draw: np.random.Generator, counts: Ints, k_b: int, n: int) -> Floats:
    """T summed over `n` cells with these outcomes, `k_b` of which fall on side b, in each of the permutations."""
    k_a = int(counts.sum()) - k_b
    if len(counts) == 1 or counts.max() == 1:  # T is the same however they fall
        return np.full(_PERMUTATIONS, n * float(len(counts) > 1) * (1 / k_a + 1 / k_b))
    if np.prod(counts + 1.0) <= _MOST_SPLITS:
        ways = np.stack(np.meshgrid(*map(np.arange, counts + 1), indexing="ij"), axis=-1).reshape(-1, len(counts))
        ways = ways[ways.sum(axis=1) == k_b]
        chance = np.vectorize(math.comb, otypes=[object])(counts, ways).prod(axis=1).astype(np.float64)
        values, where = np.unique(np.round(_distance(ways, counts, k_a, k_b), 12), return_inverse=True)
        share = np.bincount(where, chance)
        return np.asarray(draw.multinomial(n, share / share.sum(), _PERMUTATIONS) @ values, dtype=np.float64)
    total = np.zeros(_PERMUTATIONS)
    for _ in range(n):
        total += _distance(draw.multivariate_hypergeometric(counts, k_b, _PERMUTATIONS), counts, k_a, k_b)
    return total


def _distance(on_b: Ints, counts: Ints, k_a: int, k_b: int) -> Floats:
    return np.asarray((((counts - on_b) / k_a - on_b / k_b) ** 2).sum(axis=1), dtype=np.float64)


def mcnemar_midp(steps: Floats, clusters: Any) -> float:
    """Two-sided mid-p of McNemar's test (Fagerland, Lydersen and Laake 2013), by clusters, exact.

    2·P(X ≤ x) − P(X = x), x the smaller of what the clusters gained and lost (their sums of steps −1, 0 and 1), X its
    distribution if each cluster could as well have gone the other way. Without clusters x = min(fixed, broke) and
    X ~ Bin(n, ½).

    Examples
    --------
    >>> steps = np.array([1.0, -1, -1, -1, -1])
    >>> mcnemar_midp(steps, np.arange(5)), mcnemar_midp(steps, np.array([0, 1, 1, 1, 1]))
    (0.21875, 0.75)
    """
    from scipy.special import bdtr

    sums = np.bincount(np.unique(clusters, return_inverse=True)[1], weights=steps).astype(np.int64)
    sizes, n = np.unique(np.abs(sums[sums != 0])), int(np.count_nonzero(sums))
    if len(sizes) > 1:
        least = min(int(sums[sums > 0].sum()), -int(sums[sums < 0].sum()))
        chances = sums_of_flipped(sums)
        return round(min(1.0, 2 * float(chances[: least + 1].sum()) - float(chances[least])), 12)
    least = min(int((sums > 0).sum()), int((sums < 0).sum()))
    exactly = math.exp(math.lgamma(n + 1) - math.lgamma(least + 1) - math.lgamma(n - least + 1) - n * math.log(2))
    return round(min(1.0, 2 * float(bdtr(least, n, 0.5)) - exactly), 12)


def sums_of_flipped(sums: Ints) -> Floats:
    """The chance of each sum 0 … Σ|sums| of the positive ones, if each could as well have the other sign.

    Examples
    --------
    >>> sums_of_flipped(np.array([1, -2])).round(12).tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    sizes, copies = np.unique(np.abs(sums), return_counts=True)
    n = int(sizes @ copies) + 1
    wave = np.ones(n // 2 + 1, dtype=np.complex128)
    for size, m in zip(sizes.tolist(), copies.tolist(), strict=True):
        wave *= ((1 + np.exp(-2j * np.pi * size / n * np.arange(n // 2 + 1))) / 2) ** m
    return np.asarray(np.fft.irfft(wave, n).clip(0), dtype=np.float64)


def sign_flip(differences: Floats, clusters: Any) -> float:
    """The p of a mean difference, the signs of whole clusters flipped in 10,000 draws: p = (1 + #)/(1 + B).

    The draws are the same at every call. NaN for fewer than two clusters.
    """
    _, codes = np.unique(clusters, return_inverse=True)
    sums = np.bincount(codes, weights=differences)
    if len(sums) < 2:
        return math.nan
    # Clusters with equal sums are drawn together: m signs of one size are 2·Bin(m, ½) − m of it.
    sizes, copies = np.unique(np.round(np.abs(sums[sums != 0]), 12), return_counts=True)
    draw, observed = np.random.default_rng(0), abs(float(sums.sum())) - 1e-9
    extreme, n_left = 0, _DRAWS
    while n_left:
        step = min(n_left, max(1, _MOST_CELLS // max(len(sizes), 1)))
        balance = 2 * draw.binomial(copies, 0.5, (step, len(sizes))) - copies
        extreme += int((np.abs(balance @ sizes) >= observed).sum())
        n_left -= step
    return (1 + extreme) / (1 + _DRAWS)


def holm(values: Floats) -> Floats:
    """Holm's step-down adjustment; NaN is no test and stays.

    Examples
    --------
    >>> holm(np.array([0.01, 0.04, float("nan"), 0.03])).round(6).tolist()
    [0.03, 0.06, nan, 0.06]
    """
    ascending = pd.Series(values).sort_values(kind="stable")  # NaN last
    factors = ascending.count() - np.arange(len(ascending))
    return np.asarray((ascending * factors).cummax().clip(upper=1.0).sort_index(), dtype=np.float64)


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

    Exact, from all ways to give the steps a sign. With steps of ±1 it is the sign test.

    Parameters
    ----------
    steps
        Whole numbers: 1 for each item that a change fixed and −1 for each that it broke; if items come in groups,
        fixed − broke of each group. Steps of 0 change nothing.

    Returns
    -------
    float
        The share of these ways whose sum is at least as large, 0-1; 1 without steps.

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
