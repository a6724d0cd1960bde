"""Agreement beyond chance: Krippendorff's alpha, kappas, percent agreement; one cluster is left out at a time.

Each judge is one coder, however many samples it has: s_ij(c) is the share of code c among judge j's scored
samples of item i, and the coincidences are o_cc' = Σ_i Σ_{j≠j'} s_ij(c) s_ij'(c') / (m_i − 1), with m_i judges
(Krippendorff 2019, ch. 12, with shares in the place of single values; at one sample each it is his).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from evalkit.stats.intervals import few_others, ratio, unit_sums, without_each
from evalkit.tables.grouping import Flags, Floats, Ints, occurring, tally

_AT_ONCE = 1_000_000  # entries
Metric = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True, slots=True)
class Cells:
    """Scored answers: one entry per sample.

    Attributes
    ----------
    item, judge
        Numbers from 0, also as smaller integers; a cell is one pair of them.
    answer
        Number of the code, rising with its value.
    value
        The answers' numbers (for the interval metric).
    unit
        The group that each item is left out with, 0 … n_units − 1.
    n_units
        Number of such groups.
    """

    item: Ints
    judge: Ints
    answer: Ints
    value: Floats
    unit: Ints
    n_units: int

    def by_cell(self) -> tuple[Ints, Ints, Ints]:
        """The item of each cell, the cell of each entry, and the number of entries per cell."""
        n_judges = int(self.judge.max(initial=0)) + 1
        codes, cell = occurring(self.item * n_judges + self.judge, len(self.unit) * n_judges)
        return codes // n_judges, cell, np.bincount(cell, minlength=len(codes)).astype(np.int64)

    def summed(self, sums: Callable[[Cells], Floats]) -> Floats:
        """`sums` of the items, which are taken some at a time, because each step takes several arrays of their size."""
        step = max(1, len(self.unit) * _AT_ONCE // max(len(self.item), 1))
        total: Any = 0.0
        for start in range(0, max(len(self.unit), 1), step):
            in_step = (self.item >= start) & (self.item < start + step)
            item, judge, answer = (array[in_step].astype(np.int64) for array in (self.item, self.judge, self.answer))
            unit = self.unit[start : start + step]
            total = total + sums(Cells(item - start, judge, answer, self.value[in_step], unit, self.n_units))
        return np.asarray(total)

    def paired(self) -> Cells:
        """Only the items that two or more judges scored."""
        keep = pairable(self.item, self.judge, len(self.unit))[self.item]
        if keep.all():
            return self
        return Cells(self.item[keep], self.judge[keep], self.answer[keep], self.value[keep], self.unit, self.n_units)


def pairable(item: Ints, judge: Ints, n_items: int) -> Flags:
    """Per item: did two or more judges score it?"""
    lowest, highest = np.full(n_items, np.iinfo(np.int64).max), np.full(n_items, -1)
    np.minimum.at(lowest, item, judge)
    np.maximum.at(highest, item, judge)
    return highest > lowest


def percent_agreement(cells: Cells) -> Floats:
    """The share of pairs that agree, weighted as in alpha's observed disagreement: on all, then without each unit.

    NaN where nothing is pairable.
    """
    rows = without_each(cells.paired().summed(_agreement))
    return ratio(rows[:, 1], rows[:, 0])


def alpha(cells: Cells, metric: Metric) -> Floats:
    """Krippendorff's alpha: on all, then without each unit; NaN where nothing varies or nothing is pairable.

    NaN without any unit where fewer than two judges have answers other than their most frequent one in three units:
    an interval would cover much less than 95 %.
    """
    cells = cells.paired()
    values = {"interval": _interval, "nominal": _nominal, "ordinal": _ordinal}[metric](cells)
    answers, units = np.round(cells.value, 10) if metric == "interval" else cells.answer, cells.unit[cells.item]
    of_judges = [cells.judge == judge for judge in np.unique(cells.judge)]
    if [few_others(answers[rows], units[rows]) for rows in of_judges].count(False) < 2:
        values[1:] = np.nan
    return values


def _shares(cells: Cells) -> tuple[Ints, Ints, Floats]:
    """Entries (cell, answer, share) with the item of each cell."""
    item, cell, size = cells.by_cell()
    counts = tally(cell, cells.answer, len(item))
    return item[counts.group], counts.value, counts.weight / size[counts.group]


def _agreement(cells: Cells) -> Floats:
    """Per unit the sums over items of m_i, and of Σ_c o_cc."""
    n_items = len(cells.unit)
    item, answer, share = _shares(cells)
    judges = np.bincount(item, weights=share, minlength=n_items).astype(np.float64)
    together = tally(item, answer, n_items, share)
    all_pairs = np.bincount(together.group, weights=together.weight**2, minlength=n_items)
    self_pairs = np.bincount(item, weights=share**2, minlength=n_items)
    agreeing = (all_pairs - self_pairs) / np.maximum(judges - 1, 1e-9) * (judges > 1.5)
    return unit_sums(np.stack([judges, agreeing], axis=1), cells.unit, cells.n_units)


def _dense(cells: Cells, width: int) -> npt.NDArray[np.float64]:
    """n_c: total share of each answer, per unit."""
    item, answer, share = _shares(cells)
    index = cells.unit[item] * width + answer
    sums = np.bincount(index, weights=share, minlength=cells.n_units * width).astype(np.float64)
    return sums.reshape(cells.n_units, width)


def _nominal(cells: Cells) -> Floats:
    width = int(cells.answer.max(initial=0)) + 1
    rows = without_each(cells.summed(lambda piece: np.hstack([_agreement(piece), _dense(piece, width)])))
    n, agreed = rows[:, 0], rows[:, 1]
    expected = n**2 - (rows[:, 2:] ** 2).sum(axis=1)
    return 1 - (n - 1) * ratio(n - agreed, expected)


def _interval(cells: Cells) -> Floats:
    middle = cells.value.mean() if len(cells.value) else 0.0
    rows = without_each(cells.summed(lambda piece: _moments(piece, middle)))
    n, squares = rows[:, 0], rows[:, 1]
    expected = n * squares - rows[:, 3] ** 2
    return 1 - (n - 1) * ratio(squares - rows[:, 2], np.where(expected > 1e-9 * n, expected, 0.0))


def _moments(cells: Cells, middle: float) -> Floats:
    """Per unit the sums over items of m_i, the squares, the cross products and the values around the middle."""
    n_items = len(cells.unit)
    item, cell, size = cells.by_cell()
    centered = cells.value - middle
    mean = np.bincount(cell, weights=centered, minlength=len(item)) / size
    square = np.bincount(cell, weights=centered**2, minlength=len(item)) / size

    def total(values: Floats) -> Floats:
        return np.bincount(item, weights=values, minlength=n_items).astype(np.float64)

    judges = total(np.ones(len(item)))
    cross = (total(mean) ** 2 - total(mean**2)) / np.maximum(judges - 1, 1)
    return unit_sums(np.stack([judges, total(square), cross, total(mean)], axis=1), cells.unit, cells.n_units)


def _ordinal(cells: Cells) -> Floats:
    # Krippendorff's ordinal distance is the squared difference of midranks, and those change with each unit.
    width = int(cells.answer.max(initial=0)) + 1
    rows = without_each(cells.summed(lambda piece: np.hstack([_dense(piece, width), _coincidences(piece, width)])))
    counts, pairs = rows[:, :width], rows[:, width:].reshape(-1, width, width)
    n: Floats = counts.sum(axis=1)
    rank = np.cumsum(counts, axis=1) - counts / 2
    rank = rank - (n / 2)[:, None]
    squares = (counts * rank**2).sum(axis=1)
    observed = squares - np.einsum("gc,gcd,gd->g", rank, pairs, rank)
    expected = n * squares  # less the square of their sum, which is 0: midranks are around n / 2
    return 1 - (n - 1) * ratio(observed, np.where(expected > 1e-9 * n, expected, 0.0))


def _coincidences(cells: Cells, width: int) -> npt.NDArray[np.float64]:
    """o_cc' per unit, as rows of width × width."""
    n_items = len(cells.unit)
    item, cell, size = cells.by_cell()
    shares = [np.bincount(cell[cells.answer == code], minlength=len(item)) / size for code in range(width)]
    judges = np.bincount(item, minlength=n_items)
    totals = np.stack([np.bincount(item, weights=column, minlength=n_items) for column in shares], axis=1)
    scale = 1 / np.maximum(judges - 1, 1)
    result = np.zeros((cells.n_units, width, width))
    for first in range(width):
        for second in range(first + 1):
            self_pairs = np.bincount(item, weights=shares[first] * shares[second], minlength=n_items)
            pairs = (totals[:, first] * totals[:, second] - self_pairs) * scale
            sums = np.bincount(cells.unit, weights=pairs, minlength=cells.n_units)
            result[:, first, second] = result[:, second, first] = sums
    return result.reshape(cells.n_units, width * width)


@dataclass(frozen=True, slots=True)
class Labels:
    """How many judges gave each item each label.

    Attributes
    ----------
    counts
        items × levels of the scale.
    n_judges
        Judges asked: an item is complete with this number of labels.
    unit
        The group that each item is left out with, 0 … n_units − 1.
    n_units
        Number of such groups.
    """

    counts: Floats
    n_judges: int
    unit: Ints
    n_units: int

    @property
    def complete(self) -> Flags:
        """Per item: did every judge give a label?"""
        return np.asarray(self.counts.sum(axis=1) == self.n_judges)

    def left_out(self, values: Floats) -> Floats:
        """Sums over items of `values` (items × …): first over all, then without each unit."""
        return without_each(unit_sums(values, self.unit, self.n_units))


def fleiss_kappa(labels: Labels) -> Floats:
    """Fleiss' kappa on the complete items: on all, then without each unit; NaN where nothing varies.

    P_i = Σ_c n_ic(n_ic − 1) / (J(J − 1)), p_c = share of label c, κ = (P̄ − Σ p_c²) / (1 − Σ p_c²).
    Fleiss (1971), "Measuring nominal scale agreement among many raters", Psychological Bulletin 76.
    """
    counts = labels.counts * labels.complete[:, None]
    pairs = (counts * (counts - 1)).sum(axis=1) / max(labels.n_judges * (labels.n_judges - 1), 1)
    rows = labels.left_out(np.column_stack([labels.complete, pairs, counts]))
    agreed = ratio(rows[:, 1], rows[:, 0])
    shares = ratio(rows[:, 2:], rows[:, :1] * labels.n_judges)
    return _beyond(agreed, (shares**2).sum(axis=1))


def gwet_ac(labels: Labels, weights: Floats) -> Floats:
    """Gwet's AC1 (`weights` the identity) or AC2: on all, then without each unit; NaN where nothing is pairable.

    p_a is the mean over items with two labels or more of Σ_k r_ik(r*_ik − 1) / (r_i(r_i − 1)), with
    r*_ik = Σ_l w_kl r_il; π_k the mean over items with any label of r_ik / r_i;
    p_e = T_w / (q(q − 1)) · Σ π_k(1 − π_k), T_w the sum of all weights, q the levels of the scale, used or not.
    Gwet (2008), "Computing inter-rater reliability and its variance in the presence of high agreement", British
    Journal of Mathematical and Statistical Psychology 61; weighted: Gwet (2014), Handbook of Inter-Rater
    Reliability, 4th ed., ch. 5.
    """
    n_levels = labels.counts.shape[1]
    judged = labels.counts.sum(axis=1)
    paired = judged > 1.5
    near = labels.counts @ weights.T
    agreeing = (labels.counts * (near - 1)).sum(axis=1) / np.maximum(judged * (judged - 1), 1) * paired
    shares = labels.counts / np.maximum(judged, 1)[:, None]
    rows = labels.left_out(np.column_stack([paired, agreeing, judged > 0, shares]))
    agreed = ratio(rows[:, 1], rows[:, 0])
    prevalence = ratio(rows[:, 3:], rows[:, 2:3])
    chance = weights.sum() / (n_levels * (n_levels - 1)) * (prevalence * (1 - prevalence)).sum(axis=1)
    return _beyond(agreed, chance)


def quadratic_weights(codes: Floats) -> Floats:
    """w_kl = 1 − (x_k − x_l)² / (x_max − x_min)² between the codes of a scale."""
    gaps = np.subtract.outer(codes, codes)
    return np.asarray(1 - gaps**2 / np.ptp(codes) ** 2)


def _beyond(agreed: Floats, chance: Floats) -> Floats:
    return ratio(agreed - chance, np.nan_to_num(1 - chance))
