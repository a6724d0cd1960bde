"""Agreement of one judge with one reference: every figure on all items, then without each unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.intervals import few_others
from evalkit.tables.grouping import Flags, Floats, Ints, tally

__all__ = ["FIGURES", "Answers", "compare_answers"]

FIGURES = (
    "accuracy",
    "false_pass_rate",
    "false_fail_rate",
    "kappa",
    "quadratic_kappa",
    "pearson",
    "spearman",
    "kendall",
    "mae",
    "bias",
)
_MOST_CELLS = 4_000_000
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answers:
    """What one judge, or person, said: one entry per item.

    Attributes
    ----------
    kind
        Code of the verdict (0 fail, 1 pass) or of the label; −1 for none.
    score
        In rubric units; NaN for none.
    tied
        Has the judge no `kind` because of a tie?
    """

    kind: Ints
    score: Floats
    tied: Flags

    def take(self, rows: npt.NDArray[np.int64] | Flags) -> Answers:
        """The answers on some items."""
        return Answers(self.kind[rows], self.score[rows], self.tied[rows])


def compare_answers(
    one: Answers, reference: Answers, unit: Ints, n_units: int, *, verdicts: bool, half: bool = False
) -> dict[str, Floats]:
    """All figures of `one` against `reference`, on the items that both answered.

    Parameters
    ----------
    unit, n_units
        Which of the units each item is left out with; `n_units` 0 leaves nothing out.
    verdicts
        Are the kinds verdicts (0 fail, 1 pass)? Else they are labels, without false passes and fails.
    half
        Does a tie of `one` count as half right in `accuracy`?

    Returns
    -------
    dict
        Figure -> its value on all, then without each unit; NaN where it is not defined. Kappas and correlations
        are NaN without any unit where on one side under three units hold an answer other than the most frequent
        one: their interval would cover much less than it says.
    """
    rows = n_units + 1
    found = _kinds(one, reference, unit, rows, verdicts=verdicts, half=half)
    both = ~np.isnan(one.score) & ~np.isnan(reference.score)
    x, y, unit = one.score[both], reference.score[both], unit[both]
    found |= _moments(x, y, unit, rows) | _ranked(x, y, unit, rows)
    if n_units and any(few_others(np.round(side, 10), unit) for side in (x, y)):
        for name in ("quadratic_kappa", "pearson", "spearman", "kendall"):
            found[name][1:] = np.nan
    return found


def _sums(values: Floats, unit: Ints, rows: int) -> Floats:
    """Σ on all in row 0, then without each unit."""
    left = np.zeros(rows)
    if rows > 1:
        left[1:] = np.bincount(unit, weights=values, minlength=rows - 1)
    kept: Floats = values.sum() - left
    return kept


def _ratio(top: Floats, bottom: Floats) -> Floats:
    # What is left after taking a unit away carries rounding errors: 1e-9 is nothing.
    ratio: Floats = np.divide(top, bottom, out=np.full(len(top), np.nan), where=bottom > 1e-9)
    return ratio


def _kinds(one: Answers, reference: Answers, unit: Ints, rows: int, *, verdicts: bool, half: bool) -> dict[str, Floats]:
    known = reference.kind >= 0
    both = known & (one.kind >= 0)
    counted = both | (known & one.tied) if half else both
    right = np.where(one.kind == reference.kind, 1.0, np.where(both, 0.0, 0.5))[counted]
    n = _sums(np.ones(int(counted.sum())), unit[counted], rows)
    found = {"accuracy": _ratio(_sums(right, unit[counted], rows), n)}
    said, true, where = one.kind[both], reference.kind[both], unit[both]
    for name, wrong, given in (("false_pass_rate", 1, 0), ("false_fail_rate", 0, 1)):
        if verdicts:
            hits = ((said == wrong) & (true == given)).astype(float)
            found[name] = _ratio(_sums(hits, where, rows), _sums((true == given).astype(float), where, rows))
        else:
            found[name] = np.full(rows, np.nan)
    found["kappa"] = _kappa(said, true, where, rows)
    if rows > 1 and any(few_others(side, where) for side in (said, true)):
        found["kappa"][1:] = np.nan
    return found


def _kappa(said: Ints, true: Ints, unit: Ints, rows: int) -> Floats:
    n = _sums(np.ones(len(said)), unit, rows)
    agreed = _sums((said == true).astype(float), unit, rows)
    chance = np.zeros(rows)
    for kind in np.intersect1d(said, true):
        chance += _sums((said == kind).astype(float), unit, rows) * _sums((true == kind).astype(float), unit, rows)
    # (p_o − p_e)/(1 − p_e), both sides times n²; of one pair it would be 0 or nothing.
    return _ratio(n * agreed - chance, np.where(n > 1.5, n**2 - chance, 0.0))


def _moments(x: Floats, y: Floats, unit: Ints, rows: int) -> dict[str, Floats]:
    # Differences, and values around one middle, so that squares lose no digits.
    gap = x - y
    middle = float(y.mean()) if len(y) else 0.0
    n = _sums(np.ones(len(x)), unit, rows)
    mx, my = (_ratio(_sums(side - middle, unit, rows), n) for side in (x, y))
    sxx, syy, sxy = (
        _ratio(_sums((one - middle) * (other - middle), unit, rows), n) - m1 * m2
        for one, other, m1, m2 in ((x, x, mx, mx), (y, y, my, my), (x, y, mx, my))
    )
    pearson = _correlation(sxy, sxx, syy, n)
    concordance = _ratio(2 * sxy, np.where(n > 1.5, sxx + syy + (mx - my) ** 2, 0.0))
    mae, bias = _ratio(_sums(np.abs(gap), unit, rows), n), _ratio(_sums(gap, unit, rows), n)
    return {"quadratic_kappa": concordance, "pearson": pearson, "mae": mae, "bias": bias}


def _correlation(sxy: Floats, sxx: Floats, syy: Floats, n: Floats) -> Floats:
    good = (n > 2.5) & (sxx > 1e-12) & (syy > 1e-12)
    result = np.full(len(n), np.nan)
    result[good] = np.clip(sxy[good] / np.sqrt(sxx[good] * syy[good]), -1.0, 1.0)
    return result


def _ranked(x: Floats, y: Floats, unit: Ints, rows: int) -> dict[str, Floats]:
    """Spearman and Kendall's tau-b, ranked afresh without each unit."""
    if len(x) < 3:
        return {"spearman": np.full(rows, np.nan), "kendall": np.full(rows, np.nan)}
    # Means of samples that are equal on paper may differ in the sixteenth digit.
    xs, xc = np.unique(np.round(x, 10), return_inverse=True)
    ys, yc = np.unique(np.round(y, 10), return_inverse=True)
    step = max(1, _MOST_CELLS // (len(xs) + len(ys) + 1))
    pieces = [_rank_sums(xc, yc, unit, range(at, min(at + step, rows))) for at in range(0, rows, step)]
    n, sxx, syy, sxy, x_ties, y_ties = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    net = _net_concordance(xc, yc, unit, rows)
    pairs = n * (n - 1) / 2
    spearman = _correlation(sxy / n**2, sxx / n**2, syy / n**2, n)
    kendall = _correlation(net, pairs - x_ties, pairs - y_ties, n)
    return {"spearman": spearman, "kendall": kendall}


def _rank_sums(xc: Ints, yc: Ints, unit: Ints, span: range) -> tuple[Floats, ...]:
    """n, centered rank moments and tied pairs without each unit of `span` (row 0 leaves nothing out)."""
    sides = []
    inside = (unit + 1 >= span.start) & (unit + 1 < span.stop)
    row = unit[inside] + 1 - span.start
    for codes in (xc, yc):
        width = int(codes.max()) + 1
        left = np.bincount(row * width + codes[inside], minlength=len(span) * width).reshape(len(span), width)
        counts = np.bincount(codes, minlength=width) - left
        rank = np.cumsum(counts, axis=1) - counts / 2
        n = counts.sum(axis=1).astype(np.float64)
        rank = rank - (n / 2)[:, None]
        sides.append((counts, rank))
    (x_counts, x_rank), (y_counts, y_rank) = sides
    whole = _products(xc, yc, x_rank, y_rank)
    own = np.bincount(row, weights=x_rank[row, xc[inside]] * y_rank[row, yc[inside]], minlength=len(span))
    ties = [(counts * (counts - 1) / 2).sum(axis=1) for counts in (x_counts, y_counts)]
    squares = [(counts * rank**2).sum(axis=1) for counts, rank in sides]
    return n, squares[0], squares[1], whole - own, ties[0], ties[1]


def _products(xc: Ints, yc: Ints, x_rank: Matrix, y_rank: Matrix) -> Floats:
    """Σ over all items of the product of both ranks, for each row of ranks."""
    wide, high = x_rank.shape[1], y_rank.shape[1]
    if wide * high <= _MOST_CELLS:
        table = np.bincount(xc * high + yc, minlength=wide * high).reshape(wide, high)
        products: Floats = ((x_rank @ table) * y_rank).sum(axis=1)
        return products
    return np.array([float(one[xc] @ other[yc]) for one, other in zip(x_rank, y_rank, strict=True)])


def _net_concordance(xc: Ints, yc: Ints, unit: Ints, rows: int) -> Floats:
    """Concordant minus discordant pairs, on all and without each unit."""
    wide, high = int(xc.max()) + 1, int(yc.max()) + 1
    each = _by_table(xc, yc, wide, high) if wide * high <= _MOST_CELLS else _by_pairs(xc, yc)
    net = np.full(rows, each.sum() / 2)
    if rows > 1:
        net[1:] -= np.bincount(unit, weights=each, minlength=rows - 1)
        net[1:] += _within(xc, yc, unit, rows - 1)
    return net


def _by_table(xc: Ints, yc: Ints, wide: int, high: int) -> Floats:
    """For each item, concordant minus discordant items: cumulative sums of the table of counts."""
    table = np.bincount(xc * high + yc, minlength=wide * high).reshape(wide, high).astype(np.float64)
    padded = np.zeros((wide + 1, high + 1))
    padded[1:, 1:] = table.cumsum(axis=0).cumsum(axis=1)
    below, row, column = padded[:-1, :-1], padded[1:, -1:], padded[-1:, 1:]
    at_most_x, at_most_y, total = padded[:-1, -1:], padded[-1:, :-1], padded[-1, -1]
    both_above = total - row - column + padded[1:, 1:]
    x_less_y_more = at_most_x - padded[:-1, 1:]
    x_more_y_less = at_most_y - padded[1:, :-1]
    each: Floats = (below + both_above - x_less_y_more - x_more_y_less)[xc, yc]
    return each


def _by_pairs(xc: Ints, yc: Ints) -> Floats:
    step = max(1, _MOST_CELLS // len(xc))
    each = np.zeros(len(xc))
    for at in range(0, len(xc), step):
        part = slice(at, at + step)
        signs = np.sign(xc[part, None] - xc[None, :]) * np.sign(yc[part, None] - yc[None, :])
        each[part] = signs.sum(axis=1)
    return each


def _within(xc: Ints, yc: Ints, unit: Ints, n_units: int) -> Floats:
    """Concordant minus discordant pairs inside each unit."""
    net = np.zeros(n_units)
    size = np.bincount(unit, minlength=n_units)
    if size.max(initial=0) < 2:
        return net
    order = np.argsort(unit, kind="stable")
    ends = np.cumsum(size)
    for number in np.flatnonzero(size > 1):
        rows = order[ends[number] - size[number] : ends[number]]
        net[number] = _by_pairs(xc[rows], yc[rows]).sum() / 2
    return net


def modal(values: Ints, groups: Ints, n_groups: int) -> tuple[Ints, Flags]:
    """The most frequent value of each group, −1 for none or a tie; and whether it was a tie."""
    counts = tally(groups, values, n_groups)
    top = counts.modal()
    n_top = np.bincount(counts.group[top], minlength=n_groups)
    found = np.full(n_groups, -1, dtype=np.int64)
    found[counts.group[top]] = counts.value[top]
    found[n_top > 1] = -1
    return found, n_top > 1
