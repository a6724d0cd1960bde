"""Agreement of one judge with one reference: every figure on all items, then without each unit.

Long, but one thing: all figures leave out the same units, by the same sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from evalkit.stats.intervals import (
    FEWEST_OTHERS,
    Interval,
    Transform,
    correlation,
    difference_interval,
    few_others,
    jackknife,
    mean_interval,
    moments,
    ratio,
    sums_without_each,
)
from evalkit.tables.grouping import Flags, Floats, Ints
from evalkit.tables.ties import LEFT_OUT, Counting, unknown_ties


@dataclass(frozen=True, slots=True)
class Figure:
    """What is known of an agreement figure; `_kinds`, `moments` or `_ranked` computes it.

    Attributes
    ----------
    of
        Is it computed from ``kinds`` (verdicts or labels), ``scores``, or the kinds of one class after another?
    transform
        How the jackknife takes it; ``atanh``: it compares with chance or is a correlation.
    shown
        Its title where an evaluation is printed; empty: it is not printed.
    name
        Its name in a plot; empty: that of its column.
    ceiling
        Is it also computed of people among themselves?
    better
        1 if a larger one is better, −1 if a smaller one is, 0 if that depends.
    """

    of: Literal["kinds", "scores", "classes"]
    transform: Transform = "atanh"
    shown: str = ""
    name: str = ""
    ceiling: bool = False
    better: Literal[-1, 0, 1] = 0


FIGURES: Mapping[str, Figure] = {
    "accuracy": Figure("kinds", "logit", "accuracy", ceiling=True, better=1),
    "false_pass_rate": Figure("kinds", "logit", "false pass"),
    "false_fail_rate": Figure("kinds", "logit", "false fail"),
    "kappa": Figure("kinds", shown="kappa", ceiling=True, better=1),
    "quadratic_kappa": Figure("scores", shown="quadratic kappa", ceiling=True, better=1),
    "pearson": Figure("scores", name="Pearson", better=1),
    "spearman": Figure("scores", shown="Spearman", name="Spearman", ceiling=True, better=1),
    "kendall": Figure("scores", name="Kendall", better=1),
    "mae": Figure("scores", "log", better=-1),
    "bias": Figure("scores", "none", "bias"),
}
"""The figures of `align`, in the order of its columns."""

OF_CLASSES = ("balanced_accuracy", "macro_f1")
"""Computed on request, as are ``f1_<label>``."""

OF_SCORES = tuple(name for name, figure in FIGURES.items() if figure.of == "scores")
SHOWN = [name for name, figure in FIGURES.items() if figure.shown]
SHOWN.sort(key=lambda name: (FIGURES[name].of, not FIGURES[name].ceiling))
"""The figures of a printed evaluation: of kinds, then of scores; first those that people among themselves have, too."""


def figure_of(name: str) -> Figure:
    """A figure of `FIGURES`, or one of classes."""
    return FIGURES.get(name) or Figure("classes", "logit", ceiling=True)


OF_GAPS = ("mae", "bias")
"""Means of differences of scores, whose interval ends where the scale does (`gap_interval`)."""

_MOST_CELLS = 4_000_000
_FEW = 50
Weighted = tuple[Floats, Floats]


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of one judge or annotator: one entry per item.

    Attributes
    ----------
    kind
        Code of the verdict (0 fail, 1 pass) or of the label; −1 for none.
    score
        In rubric units; NaN for none.
    tied
        Has the judge no `kind` because of a tie?
    among, sets
        The number of each item's tie in `sets`, which holds the codes that are equal; −1 for none, or not known.
    """

    kind: Ints
    score: Floats
    tied: Flags
    among: Ints | None = None
    sets: tuple[tuple[int, ...], ...] = ()

    def take(self, rows: npt.NDArray[np.int64] | Flags) -> Answers:
        """The answers on some items."""
        among = None if self.among is None else self.among[rows]
        return Answers(self.kind[rows], self.score[rows], self.tied[rows], among, self.sets)

    def where(self, other: Answers) -> Answers:
        """The labels and scores of the items where another has them too."""
        score = np.where(np.isnan(other.score), np.nan, self.score)
        return Answers(np.where(other.kind < 0, -1, self.kind), score, self.tied)


Pair = tuple[Answers, Answers]
"""Who is compared with whom, on the same items."""


def have_answer(references: Iterable[Answers], of: str) -> Flags:
    """The items of which a reference has what figures on ``scores``, or else on kinds, compare."""
    answers = [~np.isnan(people.score) if of == "scores" else people.kind >= 0 for people in references]
    return np.asarray(np.any(answers, axis=0))


def same_rows(counted: Iterable[Flags]) -> bool:
    """Are several judges compared on the same items?"""
    rows = list(counted)
    return all(np.array_equal(flags, rows[0]) for flags in rows)


@dataclass(frozen=True, slots=True)
class KindOptions:
    """How verdicts or labels are compared.

    Attributes
    ----------
    verdicts
        Are the kinds verdicts (0 fail, 1 pass)? Else they are labels, without false passes and fails.
    counting
        How ties of the judge, and items without an answer of the judge, count. All figures on kinds are from one table
        of kinds: ``half`` spreads a tie over its t cells, 1/t each; an error is in a row of its own, which the
        reference never has.
    extra, classes
        The figures of classes to compute too, and the code of each class.
    """

    verdicts: bool
    counting: Counting = LEFT_OUT
    extra: tuple[str, ...] = ()
    classes: Mapping[str, int] = field(default_factory=dict)


def compare_each(
    one: Answers, references: Sequence[Answers], unit: Ints, n_units: int, options: KindOptions
) -> dict[str, Floats]:
    """`compare_pairs` of one with each of several references."""
    return compare_pairs([(one, reference) for reference in references], unit, n_units, options)


def compare_pairs(pairs: Sequence[Pair], unit: Ints, n_units: int, options: KindOptions) -> dict[str, Floats]:
    """All figures of the first of each pair against the second, averaged over the pairs that have them.

    The weight of a pair is the number of items that the figure compares, of error rates that of their denominator.

    `unit` is the unit with which each item is left out; if `n_units` is 0, nothing is left out.

    Returns
    -------
    dict
        Figure -> its value on all, then without each unit; NaN where it is not defined. Kappas and correlations
        are NaN without any unit where on one side under three units hold an answer other than the most frequent
        one, figures of classes if the reference has one in under three: their interval would cover much less
        than 95 %.

    Raises
    ------
    InputError
        For ``half`` if it is not known among which labels a tie is.
    """
    figures = [_compared(answers, reference, unit, n_units, options) for answers, reference in pairs]
    return average(figures, [*FIGURES, *options.extra], n_units)


def figure_interval(
    name: str, values: Floats, pairs: Sequence[Pair], clusters: Ints, width: float, unit: Ints
) -> Interval:
    """The interval of a figure, from `compare_pairs` without each `unit`, or by its differences (`gap_interval`)."""
    value = float(values[0])
    if name in OF_GAPS and not np.isnan([value, width]).any():
        return gap_interval(name, pairs, clusters, width)
    return jackknife(value, values[1:], transform=figure_of(name).transform, unit=unit)


def gap_interval(name: str, pairs: Sequence[Pair], clusters: Ints, width: float) -> Interval:
    """The interval of the mean difference (``bias``), or its size (``mae``), of scores on a scale of this width."""
    gaps = [judge.score - reference.score for judge, reference in pairs]
    rows = [~np.isnan(gap) for gap in gaps]
    units = np.concatenate([clusters[scored] for scored in rows])
    values = np.concatenate([gap[scored] for gap, scored in zip(gaps, rows, strict=True)])
    if name == "bias":
        return difference_interval(values, units, width)
    sizes = np.abs(values)
    return mean_interval(sizes, units, bounds=(0.0, max(width, float(sizes.max()))))


def average(found: Sequence[Mapping[str, Weighted]], names: Sequence[str], n_units: int) -> dict[str, Floats]:
    """Each figure over those that have it on all items, by weight (0 where a unit left out held all of one's items)."""
    averaged = {}
    for name in names:
        weighted = [figures[name] for figures in found if not np.isnan(figures[name][0][0])]
        if len(weighted) < 2:
            averaged[name] = weighted[0][0] if weighted else np.full(n_units + 1, np.nan)
            continue
        parts = [np.where(weight > 1e-9, value * weight, 0.0) for value, weight in weighted]
        averaged[name] = ratio(np.sum(parts, axis=0), np.sum([weight for _, weight in weighted], axis=0))
    return averaged


def _compared(one: Answers, reference: Answers, unit: Ints, n_units: int, options: KindOptions) -> dict[str, Weighted]:
    rows = n_units + 1
    table = kinds_table(one, reference.kind, verdicts=options.verdicts, counting=options.counting)
    figures = _kinds(table, unit[table.item], rows, options)
    scored = ~np.isnan(one.score) & ~np.isnan(reference.score)
    x, y, unit = one.score[scored], reference.score[scored], unit[scored]
    scores = moments(x, y, unit, rows) | _ranked(x, y, unit, rows)
    if n_units and any(few_others(np.round(side, 10), unit) for side in (x, y)):
        for name in OF_SCORES:
            if FIGURES[name].transform == "atanh":
                scores[name][1:] = np.nan
    n = sums_without_each(np.ones(len(x)), unit, rows - 1)
    return figures | {name: (values, n) for name, values in scores.items()}


@dataclass(frozen=True, slots=True)
class Table:
    """The table of kinds, one entry per item and cell: the kinds of `one` and of the reference, and the weight."""

    said: Ints  # −1: no kind, which is wrong
    true: Ints
    weight: Floats
    item: Ints


def kinds_table(one: Answers, kind: Ints, *, verdicts: bool, counting: Counting) -> Table:
    """The table of one's kinds and those of a reference; `item` is the place of each entry's item."""
    has_kind = kind >= 0
    sure = np.flatnonzero(has_kind & (one.kind >= 0))
    items, kinds, weights = [sure], [one.kind[sure]], [np.ones(len(sure))]
    tied = np.flatnonzero(has_kind & (one.kind < 0) & one.tied) if counting.ties != "na" else sure[:0]
    wrong = np.flatnonzero(has_kind & (one.kind < 0) & ~one.tied) if counting.unscored == "wrong" else sure[:0]
    if counting.ties == "half" and len(tied):
        sets = tie_sets(one, tied, verdicts=verdicts)
        sizes = np.array([len(codes) for codes in sets])
        items.append(np.repeat(tied, sizes))
        kinds.append(np.concatenate(sets))
        weights.append(np.repeat(1 / sizes, sizes))
    elif len(tied):
        wrong = np.concatenate([wrong, tied])
    if len(wrong):
        items.append(wrong)
        kinds.append(np.full(len(wrong), -1, dtype=np.int64))
        weights.append(np.ones(len(wrong)))
    if len(items) == 1:
        return Table(kinds[0], kind[sure], weights[0], sure)
    places = np.concatenate(items)
    return Table(np.concatenate(kinds), kind[places], np.concatenate(weights), places)


def tie_sets(one: Answers, tied: Ints, *, verdicts: bool) -> list[Ints]:
    """The codes among which each of these items is tied: a tied verdict is between fail and pass."""
    if verdicts:
        return [np.array([0, 1])] * len(tied)
    among = np.full(len(tied), -1) if one.among is None else one.among[tied]
    if (among < 0).any():
        raise unknown_ties(int((among < 0).sum()))
    return [np.array(one.sets[number], dtype=np.int64) for number in among]


def _kinds(table: Table, unit: Ints, rows: int, options: KindOptions) -> dict[str, Weighted]:
    kinds, true, weight = table.said, table.true, table.weight

    def total(flags: Flags) -> Floats:
        return sums_without_each(weight * flags, unit, rows - 1)

    right, n = kinds == true, total(np.ones(len(kinds), dtype=bool))
    figures = {"accuracy": (ratio(total(right), n), n)}
    for name, code in (("false_pass_rate", 0), ("false_fail_rate", 1)):
        of = true == code
        figures[name] = (ratio(total(of & ~right), total(of)), total(of)) if options.verdicts else (n * np.nan, n)
    figures["kappa"] = (_kappa(total, kinds, true, n), n)
    if rows > 1 and any(few_others(side, unit) for side in (kinds, true)):
        figures["kappa"][0][1:] = np.nan
    for name in options.extra:
        figures[name] = (_of_classes(name, total, table, unit, options.classes), n)
    return figures


def _kappa(total: Callable[[Flags], Floats], said: Ints, true: Ints, n: Floats) -> Floats:
    chance = np.zeros(len(n))
    for kind in np.intersect1d(said, true):
        chance += total(said == kind) * total(true == kind)
    # (p_o − p_e)/(1 − p_e), both sides times n²; of one pair it would be 0 or nothing.
    return ratio(n * total(said == true) - chance, np.where(n > 1.5, n**2 - chance, 0.0))


def _of_classes(
    name: str, total: Callable[[Flags], Floats], table: Table, unit: Ints, classes: Mapping[str, int]
) -> Floats:
    """Balanced accuracy, macro F1, or F1 of one class; NaN where the reference never has a class."""
    codes = list(classes.values()) if name in OF_CLASSES else [classes[name.removeprefix("f1_")]]
    figures = []
    for code in codes:
        is_code = table.true == code
        hits, n_true = total(is_code & (table.said == code)), total(is_code)
        bottom = n_true if name == "balanced_accuracy" else (n_true + total(table.said == code)) / 2
        figures.append(ratio(hits, np.where(n_true > 1e-9, bottom, 0.0)))
    values: Floats = np.mean(figures, axis=0) if figures else total(table.true < -1) * np.nan
    if len(values) > 1 and any(len(np.unique(unit[table.true == code])) < FEWEST_OTHERS for code in codes):
        values[1:] = np.nan
    return values


def _ranked(x: Floats, y: Floats, unit: Ints, rows: int) -> dict[str, Floats]:
    """Spearman and Kendall's tau-b, ranked again without each unit."""
    if len(x) < 3:
        return {"spearman": np.full(rows, np.nan), "kendall": np.full(rows, np.nan)}
    # Means of samples that are equal on paper may differ in the sixteenth digit.
    xc, yc = (np.unique(np.round(side, 10), return_inverse=True)[1] for side in (x, y))
    width = int(yc.max()) + 1
    cells, counts = np.unique(xc * width + yc, return_counts=True)
    joint = (cells // width, cells % width, counts)
    step = max(1, _MOST_CELLS // (2 * max(len(cells), width, int(xc.max()) + 1)))
    pieces = [_rank_sums(xc, yc, joint, unit, range(start, min(start + step, rows))) for start in range(0, rows, step)]
    n, sxx, syy, sxy, x_ties, y_ties = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    net = _net_concordance(xc, yc, unit, rows)
    pairs = n * (n - 1) / 2
    square = np.maximum(n, 1) ** 2  # n is 0 without the only unit
    spearman = correlation(sxy / square, sxx / square, syy / square, n)
    kendall = correlation(net, pairs - x_ties, pairs - y_ties, n)
    return {"spearman": spearman, "kendall": kendall}


def _rank_sums(xc: Ints, yc: Ints, both: tuple[Ints, Ints, Ints], unit: Ints, span: range) -> tuple[Floats, ...]:
    """n, centered rank moments and tied pairs without each unit of `span` (row 0 leaves nothing out).

    `both` are the values of x and y that occur together, and how often.
    """
    sides = []
    inside = (unit + 1 >= span.start) & (unit + 1 < span.stop)
    row = unit[inside] + 1 - span.start
    for codes in (xc, yc):
        width = int(codes.max()) + 1
        dropped = np.bincount(row * width + codes[inside], minlength=len(span) * width).reshape(len(span), width)
        counts = np.bincount(codes, minlength=width) - dropped
        rank = np.cumsum(counts, axis=1) - counts / 2
        n = counts.sum(axis=1).astype(np.float64)
        rank = rank - (n / 2)[:, None]
        sides.append((counts, rank))
    (x_counts, x_rank), (y_counts, y_rank) = sides
    total = (x_rank[:, both[0]] * y_rank[:, both[1]]) @ both[2]
    of_unit = np.bincount(row, weights=x_rank[row, xc[inside]] * y_rank[row, yc[inside]], minlength=len(span))
    ties = [(counts * (counts - 1) / 2).sum(axis=1) for counts in (x_counts, y_counts)]
    squares = [(counts * rank**2).sum(axis=1) for counts, rank in sides]
    return n, squares[0], squares[1], total - of_unit, ties[0], ties[1]


def _net_concordance(xc: Ints, yc: Ints, unit: Ints, rows: int) -> Floats:
    """Concordant minus discordant pairs, on all and without each unit."""
    by_item = _concordance(xc, yc)
    net = np.full(rows, by_item.sum() / 2)
    if rows > 1:
        net[1:] -= np.bincount(unit, weights=by_item, minlength=rows - 1)
        size = np.bincount(unit, minlength=rows - 1)
        members = np.split(np.argsort(unit, kind="stable"), np.cumsum(size)[:-1])
        for number in np.flatnonzero(size > 1):  # pairs inside a unit were taken away twice
            x, y = xc[members[number]], yc[members[number]]
            if size[number] > _FEW:  # so many pairs that they are counted by their values
                x, y = (np.unique(side, return_inverse=True)[1] for side in (x, y))
                net[1 + number] += _concordance(x, y).sum() / 2
                continue
            signs = np.sign(np.subtract.outer(x, x)) * np.sign(np.subtract.outer(y, y))
            net[1 + number] += signs.sum() / 2
    return net


def _concordance(xc: Ints, yc: Ints) -> Floats:
    """For each item, concordant minus discordant items: one pass over the values of x, with counts of y."""
    width = int(yc.max()) + 1
    above, below, by_item = np.bincount(yc, minlength=width), np.zeros(width, dtype=np.int64), np.zeros(len(xc))
    order = np.argsort(xc, kind="stable")
    for piece in np.split(order, np.flatnonzero(np.diff(xc[order])) + 1):
        counts = np.bincount(yc[piece], minlength=width)
        above = above - counts
        sums = np.cumsum(below - above)
        net = 2 * sums - (below - above) - sums[-1]  # below y less above y
        by_item[piece] = net[yc[piece]]
        below = below + counts
    return by_item
