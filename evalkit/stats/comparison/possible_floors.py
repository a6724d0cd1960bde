"""The noise floors that k samples per item allow, for one judge with a pass rule and no second set of samples.

All shares of changing votes that some distribution of the probability to pass gives with nearly the best likelihood.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import pandas as pd

from evalkit.errors import counted
from evalkit.rubrics.row_scales import measures
from evalkit.stats.comparison.measured_floors import NO_REPEATS, NO_RULE, NOT_MEASURED, Floor
from evalkit.stats.intervals import Interval, cluster_variance, unit_codes
from evalkit.tables.grouping import ClustersLike, Floats, Ints, group

_ALLOWED = 3.84
_TANGENTS = 40
_DEEPEST = 8.0  # no cell that contains items has less than e⁻⁸ of its share


def range_floor(judgments: pd.DataFrame, clusters: ClustersLike | None) -> Floor:
    """The range from the judgments of one judge and criterion; NaN with the reason without a pass rule or repeats.

    Items with an unscored sample raise the upper end by their share.
    """
    cells = group(judgments, ["item_id"])
    if not len(cells):
        return Floor()
    if judgments["order"].notna().any() or not measures(judgments).has_rule.all():
        return Floor(note=NO_RULE)
    scored = judgments["error"].isna().to_numpy()
    passed = scored & judgments["passed"].fillna(value=False).to_numpy(dtype=bool)
    if (k := int(cells.count().max())) < 2:
        return Floor(note=NO_REPEATS)
    complete = cells.count(scored) == k
    if not complete.any():
        return Floor(note="no item with all samples scored: the noise floor is not known")
    x = cells.count(passed)[complete]
    units = unit_codes(judgments["item_id"].iloc[cells.first[complete]], clusters)
    low, high = flip_rate_range(tuple(np.bincount(x, minlength=k + 1).tolist()), design_effect(x, units))
    missing = 1 - float(complete.mean())
    ends = Interval((1 - missing) * low, (1 - missing) * high + missing)
    note = f"{NOT_MEASURED}: {counted(k, 'sample')} put it between {ends.low:.2f} and {ends.high:.2f}"
    note += ", too wide to be useful" if ends.high - ends.low > 0.1 else ""
    return Floor(ends=ends, n_items=len(x), source="range", note=note)


def design_effect(x: Ints, units: Ints) -> float:
    """Items per independent item, over all counts together (Rao and Scott 1981); at least 1."""
    shares = [(x == value).astype(np.float64) for value in np.unique(x)]
    plain = sum(float(share.mean() * (1 - share.mean())) for share in shares) / max(len(x) - 1, 1)
    if plain <= 0:
        return len(x) / len(np.unique(units))
    return max(1.0, sum(cluster_variance(share, units)[0] for share in shares) / plain)


@lru_cache(maxsize=256)
def flip_rate_range(counts: tuple[int, ...], design_effect: float = 1.0) -> tuple[float, float]:
    """The smallest and the largest share of changing votes among distributions with nearly the best likelihood.

    Parameters
    ----------
    counts
        Number of items with 0, 1, … k passed samples.
    design_effect
        Items per independent item.

    Returns
    -------
    tuple
        Extremes of Σ w(p) D(p), D(p) = 2 P(pass) P(fail) of a vote of k samples, over weights w on a grid of p
        with n_eff Σ share_j log q_j(w) at least its maximum − 3.84. A linear program: log is the least of its
        tangents.

    Examples
    --------
    >>> low, high = flip_rate_range((40, 0, 0, 40))
    >>> low < 0.001, high < 0.2
    (True, True)
    """
    from scipy.optimize import linprog

    k = len(counts) - 1
    p = np.sin(np.linspace(0, np.pi / 2, 121)) ** 2
    binomial = np.array([math.comb(k, j) * p**j * (1 - p) ** (k - j) for j in range(k + 1)])
    passing, failing = binomial[k // 2 + 1 :].sum(axis=0), binomial[: (k + 1) // 2].sum(axis=0)
    present = np.flatnonzero(counts)
    share = np.array(counts, dtype=np.float64)[present] / sum(counts)
    n_eff = sum(counts) / design_effect
    lines, bounds = [], []
    for column, (j, of) in enumerate(zip(present, share, strict=True)):
        width = math.sqrt(2 * _ALLOWED / (n_eff * of))
        steps = np.concatenate([np.linspace(-3, 3, _TANGENTS) * width, [-6 * width, 6 * width]])
        touch = np.unique(np.minimum(of * np.exp(np.clip(steps, -_DEEPEST, None)), 1.0))
        pick = np.zeros((len(touch), len(present)))
        pick[:, column] = 1.0
        lines.append(np.hstack([-binomial[j] / touch[:, None], pick]))
        bounds.append(np.log(touch) - 1)
    above, limit = np.vstack(lines), np.concatenate(bounds)
    likelihood = np.concatenate([np.zeros(len(p)), share])
    total = np.concatenate([np.ones(len(p)), np.zeros(len(present))])[None, :]
    allowed = [(0.0, None)] * len(p) + [(None, 0.0)] * len(present)

    def best(goal: Floats, rows: Floats, ends: Floats) -> float:
        solution = linprog(goal, rows, ends, total, [1.0], allowed, method="highs")
        return math.nan if solution.fun is None else float(solution.fun)

    least = best(-likelihood, above, limit) + _ALLOWED / n_eff  # of the negative
    rows, ends = np.vstack([above, -likelihood]), np.append(limit, least + 1e-9)
    change = np.concatenate([2 * passing * failing, np.zeros(len(present))])
    low, high = best(change, rows, ends), -best(-change, rows, ends)
    largest = float(change.max())  # known even if the solver fails
    return (0.0, largest) if math.isnan(low + high) else (max(0.0, low), min(largest, high))
