"""Where the spread of scores comes from: items, judges, their interplay, and sampling (Brennan 2001)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from evalkit.stats.jackknife_sums import unit_sums, without_each
from evalkit.tables.grouping import Floats, Ints


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of item × judge × (sample within), one entry per resample.

    Attributes
    ----------
    item, judge, both, sample
        Estimates from the expected mean squares, negative ones set to 0. `sample` is NaN at one sample
        each: then it is part of `both`. `judge` and `both` are NaN of one judge: then they are part of `item`.
    cut
        Was a negative estimate set to 0?
    """

    item: Floats
    judge: Floats
    both: Floats
    sample: Floats
    cut: npt.NDArray[np.bool_]


def components(blocks: npt.NDArray[np.float64], unit: Ints, n_units: int) -> Components:
    """Components on all complete blocks, then without each unit.

    Parameters
    ----------
    blocks
        items × judges × samples, nothing missing; two judges or more, or one with two samples or more.
    unit
        The group that each item is left out with.
    """
    _, n_judges, n_samples = blocks.shape
    blocks = blocks - blocks.mean() if len(blocks) else blocks
    cell = blocks.mean(axis=2)
    item = cell.mean(axis=1)
    inside = ((blocks - cell[:, :, None]) ** 2).sum(axis=(1, 2))
    values = np.column_stack([np.ones(len(item)), item**2, (cell**2).sum(axis=1), inside, cell])
    n, items, cells, within, *_ = (rows := without_each(unit_sums(values, unit, n_units))).T
    judge_means = rows[:, 4:] / np.maximum(n, 1)[:, None]
    grand = judge_means.mean(axis=1)
    has_two = n > 1.5
    free = np.where(has_two, n - 1, np.nan)
    square_item = n_judges * n_samples * (items - n * grand**2) / free
    free_judges = n_judges - 1 if n_judges > 1 else np.nan
    square_judge = n_samples * n * ((judge_means - grand[:, None]) ** 2).sum(axis=1) / free_judges
    residual = cells - n_judges * items - n * (judge_means**2).sum(axis=1) + n_judges * n * grand**2
    square_both = n_samples * residual / (free * free_judges)
    repeated = n_samples > 1
    square_sample = within / (np.where(has_two, n, np.nan) * n_judges * max(n_samples - 1, 1))
    error = square_sample if repeated else np.zeros(len(n))
    raw = [
        (square_item - (square_both if n_judges > 1 else error)) / (n_judges * n_samples),
        (square_judge - square_both) / (n_samples * np.where(has_two, n, np.nan)),
        (square_both - error) / n_samples,
    ]
    cut = np.any([variance < -1e-12 for variance in raw], axis=0)
    item_, judge_, both_ = (np.where(np.isnan(variance), np.nan, np.maximum(variance, 0.0)) for variance in raw)
    return Components(item_, judge_, both_, square_sample if repeated else np.full(len(n), np.nan), cut)


def dependability(found: Components, n_judges: int, n_samples: int) -> Floats:
    """Φ(J, k) = σ²_i / (σ²_i + σ²_j/J + σ²_ij/J + σ²_e/(Jk)); NaN where nothing varies.

    How far the mean of J judges with k samples each depends on the item alone; for a number of samples other
    than that observed it needs repeated samples.
    """
    error = np.nan_to_num(found.sample) / (n_judges * n_samples)
    noise = np.nan_to_num(found.judge) / n_judges + np.nan_to_num(found.both) / n_judges + error
    total = found.item + noise
    return np.asarray(np.divide(found.item, total, out=np.full(len(total), np.nan), where=total > 1e-15))
