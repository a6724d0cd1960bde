"""How many verdicts sampling alone changes, measured from twice the samples.

With k samples per item, the share of items whose vote would change with fresh samples cannot be estimated: it depends
on the distribution of the probability to pass over items up to its 2k-th moment, and k samples determine the first k.
So it is measured on items with 2k samples; from k samples there is only a range (`possible_floors`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import SKIPPED
from evalkit.stats.intervals import Interval, cluster_variance, effective_clusters, mean_interval, unit_codes
from evalkit.stats.result_tables import verdict_codes
from evalkit.tables.grouping import ClustersLike, Flags, Ints, group
from evalkit.tables.schemas import JUDGMENT_KEY

NO_REPEATS = "one sample each: cannot tell change from noise"
NO_RULE = "no pass rule and no second set of samples: the noise floor is not known"
NOT_MEASURED = "noise floor not measured"
_UNKNOWN = Interval.none(NOT_MEASURED)
NOT_ASKED = ("cache_miss", "in_batch", "budget", "judge_down", "stopped", *SKIPPED)
"""Errors of judgments for which no call was made."""

_ROUNDS, _FEWEST_ROUNDS, _WORK = 20, 4, 1_200
_MOST_PER_CLUSTER = 1.6

_USED = ("score", "score_norm", "label", "passed", "error", "weight", "level", "scale", "score_sd")

Decide = Callable[[pd.DataFrame], pd.DataFrame]
"""From judgments of one criterion to the table with the verdict: votes of one judge, or scores of a jury."""


@dataclass(frozen=True, slots=True)
class Floor:
    """The share of items whose verdict fresh samples of the same prompt change.

    Attributes
    ----------
    rate
        0-1; NaN if it was not measured.
    ends
        Its 95 % interval (measured), or the range that the samples allow.
    n_items
        The number of items used.
    spread
        The standard deviation over items, for the number of items to measure.
    source
        ``measured`` or ``range``; None if the floor is not known.
    note
        Why something is NaN, or what to know about the figure.
    """

    rate: float = math.nan
    ends: Interval = _UNKNOWN
    n_items: int = 0
    spread: float = math.nan
    source: str | None = None
    note: str | None = NOT_MEASURED


def chance_limit(n: int, floor: Floor) -> float:
    """The .975 quantile of how many of `n` items change by chance, at the upper end of the floor; NaN if unknown.

    Examples
    --------
    >>> chance_limit(100, Floor(ends=Interval(0.01, 0.05)))
    10.0
    """
    from scipy.special import bdtr

    if math.isnan(floor.ends.high) or n < 1:
        return math.nan
    return float(np.searchsorted(bdtr(np.arange(n), n, floor.ends.high), 0.975))


def changed_halves(
    judgments: pd.DataFrame, k: int, judges: tuple[str, ...], decide: Decide, *, rule: bool
) -> pd.Series:
    """Per item, how often its verdict differs between two sets of k of its samples, over random splits; 0-1.

    Parameters
    ----------
    judgments
        Of one rubric version and criterion.
    k
        Samples per set, for each of `judges`: the samples of all of these are split at once. The samples of other
        judges are the same in both sets.
    judges
        The judges to sample again. Items on which one of them has under 2k samples are left out.
    decide
        From judgments to votes or scores.
    rule
        Whether the verdict is `passed`, else the `label` or, without one on an interval scale, the score. Where one
        set has no verdict, nothing differs.
    """
    used = [name for name in (*JUDGMENT_KEY, *_USED) if name in judgments]
    frame = judgments.loc[~judgments["error"].isin(NOT_ASKED).to_numpy(), used]
    frame, number, again = _numbered(frame, k, judges)
    if not len(frame):
        return pd.Series(dtype=np.float64)
    items, names = pd.factorize(frame["item_id"])
    rounds = _splits(int(number[again].max()) + 1, k, judges, len(names))
    who = pd.Index(judges).get_indexer(pd.Index(frame["judge"].astype(object)))
    rows, sets = [], []
    for split, places in enumerate(rounds):
        position = np.where(again, places[who, number], 0)
        for half in (0, 1):
            chosen = np.flatnonzero(~again | (position // k == half))
            rows.append(chosen)
            sets.append(np.full(len(chosen), 2 * split + half))
    index, of_set = np.concatenate(rows), np.concatenate(sets)
    cell = of_set * len(names) + items[index]
    # a set of samples is an item of its own to the functions that decide
    ids = pd.Index([str(code) for code in range(2 * len(rounds) * len(names))])
    several = frame.iloc[index].assign(item_id=pd.array(ids.to_numpy()[cell], dtype="str"))
    decided = decide(several)
    verdict = np.full(len(ids), -1, dtype=np.int64)
    verdict[ids.get_indexer(pd.Index(decided["item_id"].astype(str)))] = kind_codes(decided, rule=rule)
    first, second = np.moveaxis(verdict.reshape(len(rounds), 2, len(names)), 1, 0)
    differs = (first >= 0) & (second >= 0) & (first != second)
    return pd.Series(differs.mean(axis=0), index=pd.Index(names, dtype=object))


def _numbered(frame: pd.DataFrame, k: int, judges: tuple[str, ...]) -> tuple[pd.DataFrame, Ints, Flags]:
    """The rows of items on which all cells are there, the number of each within its cell, and whether it is redrawn."""
    frame = frame.sort_values(["judge", "item_id", "sample"], kind="stable")
    cells = group(frame, ["item_id", "judge", "order"], may_miss=["order"])
    again = frame["judge"].isin(judges).to_numpy()
    number = frame.groupby(cells.codes).cumcount().to_numpy(dtype=np.int64) if len(frame) else np.zeros(0, np.int64)
    few = (cells.count() < 2 * k) & again[cells.first]
    items = frame["item_id"].iloc[cells.first]
    by_item = group(items.to_frame(), ["item_id"])
    n_cells, n_few = by_item.count(), by_item.count(few)
    good = ((n_few == 0) & (n_cells == n_cells.max(initial=0)))[by_item.codes][cells.codes]
    return frame.loc[good], number[good], again[good]


def _splits(n: int, k: int, judges: tuple[str, ...], n_items: int) -> list[Ints]:
    """Rounds of places, judges × samples: places under k are one set, under 2k the other. Fewer for many items."""
    rounds = min(_ROUNDS, max(_FEWEST_ROUNDS, _WORK // n_items))
    if len(judges) == 1 and n == 2 * k and math.comb(n, k) // 2 <= rounds:
        halves = [(0, *rest) for rest in combinations(range(1, n), k - 1)]
        return [np.argsort([*half, *(set(range(n)) - set(half))])[None, :] for half in halves]
    draw = np.random.default_rng(0)
    return [np.array([draw.permutation(n) for _ in judges]) for _ in range(rounds)]


def kind_codes(table: pd.DataFrame, *, rule: bool) -> Ints:
    """Verdicts as 0 and 1, or labels as numbers; −1 for none. If a side has an interval scale, scores are labels."""
    if rule:
        return verdict_codes(table["passed"])
    label = table["label"].astype(object).map(str.casefold, na_action="ignore")
    is_bare = table["level"].ne("nominal") & table["score"].notna()
    bare = is_bare if table["level"].eq("interval").any() else is_bare & False
    return pd.factorize(label.mask(bare, table["score"].astype(float).round(9)))[0].astype(np.int64)


def measured_floor(changed: pd.Series, clusters: ClustersLike | None) -> Floor:
    """The mean of `changed_halves` with Wilson's interval: n_eff = F(1 − F)/SE² by clusters, and t.

    n_eff is at most 1.6 per effective cluster, that of halves of three samples: where few clusters waver, and those
    little, their small variance does not cover clusters that were not drawn.
    """
    values = changed.to_numpy(dtype=np.float64)
    if not len(values):
        return Floor()
    units, rate = unit_codes(changed.index, clusters), float(values.mean())
    least = rate * (1 - rate) / (_MOST_PER_CLUSTER * effective_clusters(units))
    more = max(0.0, least - cluster_variance(values, units)[0])
    ends = mean_interval(values, units, bounds=(0.0, 1.0), more=more)
    return Floor(rate, ends, len(values), float(values.std()), "measured", ends.reason)
