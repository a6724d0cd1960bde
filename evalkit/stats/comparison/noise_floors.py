"""How many verdicts sampling alone changes: measured from twice the samples, or the range that k samples allow.

With k samples per item, the share of items whose vote would change with fresh samples cannot be estimated: it depends
on the distribution of the probability to pass over items up to its 2k-th moment, and k samples determine the first k.
So it is measured on items with 2k samples; from k samples there is only a range (`range_floor`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
import pandas as pd

from evalkit.core.lists_of_choices import SKIPPED
from evalkit.errors import ConfigError, counted
from evalkit.rubrics.row_scales import measures
from evalkit.stats.comparison.sides import Decide, JudgmentsLike, Part, Side, by_keys, judgments_of, parts_of, side_of
from evalkit.stats.intervals import Interval, cluster_variance, effective_clusters, mean_interval, unit_codes
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    JURY,
    check_whole_numbers,
    first_that_holds,
    result_table,
    verdict_codes,
    with_id_notes,
)
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints, group
from evalkit.tables.schemas import JUDGMENT_KEY

_COLUMNS = (JUDGE_KEY, "number: rate low high; text: source; count: n_items n_samples; Int64: n_wanted; text: notes")
_Z2 = 3.84


@with_id_notes
def noise_floor(
    judgments: JudgmentsLike,
    *,
    samples: int | None = None,
    half_width: float = 0.03,
    clusters: ClustersLike | None = None,
) -> pd.DataFrame:
    """How many verdicts change when every item is sampled again with the same prompt.

    k samples per item do not show how often a vote of k samples changes; this takes 2k samples. With fewer there is
    only the range that they allow.

    Parameters
    ----------
    judgments
        The table of `judge`, or the result of `evaluate`: then the jury has a row, and judges that run without model
        or service are sampled again (`sample_again`, kept in the cache).
    samples
        k, the samples of a vote; by default all (of an evaluation: its `samples`). ``samples=3`` measures
        the floor of votes of three on a table with six.
    half_width
        The half-width of the interval that `n_wanted` is for.
    clusters
        item_id -> cluster; the item by default (or the evaluation's own).

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge`:

        - `rate` 0-1: mean share of items whose verdict (without pass rule: label) differs between random halves of 2k
          samples, with its 95 % interval `low`, `high`; `source` is ``measured``. If no item has 2k samples, `rate` is
          NA, `low` and `high` are the smallest and the largest share that k samples allow, and `source` is ``range``
          (one judge with a pass rule). Probabilities of one call show no noise: readings of them are not drawn;
        - `n_items` used, `n_samples` (k), `n_wanted`: items to measure for this half-width; `notes`.

    Raises
    ------
    InputError
        When columns are missing or a judgment is in the table twice.
    ConfigError
        When `samples` or `half_width` is out of range.

    Examples
    --------
    >>> from evalkit import tables
    >>> judgments = tables.table("judgments", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": list("aaabbb") * 2, "criterion": ["c"] * 12,
    ...     "judge": ["j"] * 12, "sample": [0, 1, 2] * 2 + [3, 4, 5] * 2, "score": [1.0] * 12, "label": ["1"] * 12,
    ...     "passed": [True] * 12, "level": ["ordinal"] * 12,
    ...     "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 12})
    >>> noise_floor(judgments, samples=3)[["judge", "rate", "source", "n_items"]].values.tolist()
    [['j', 0.0, 'measured', 2]]
    """
    check_half_width(half_width)
    spec = getattr(judgments, "spec", None)
    if samples is None and spec is not None and len({*spec.counts}) == 1:
        samples = spec.counts[0]
    if samples is not None:
        check_whole_numbers("samples", samples)
    repeats = None if isinstance(judgments, pd.DataFrame) else getattr(judgments, "repeats", None)
    rows = []
    for side, part in _parts(judgments):
        k = samples or int(part.judgments["sample"].nunique())
        judges = tuple(sorted(part.judgments["judge"].astype(str).unique()))
        tables = [part.judgments, *([] if repeats is None else [part.mine(repeats)])]
        units = side.clusters if clusters is None else clusters
        first = part.judgments.loc[(part.judgments["sample"] < k).to_numpy()]
        floor = floor_of(part, tables, k, judges, units, rule=part.scale.has_rule, own=first)
        n_wanted = None if math.isnan(floor.spread) else items_for(floor.spread, half_width)
        rows.append(
            {
                **dict(zip(JUDGE_KEY, (part.head[0], part.version, *part.head[1:]), strict=True)),
                "rate": floor.rate,
                "low": floor.ends.low,
                "high": floor.ends.high,
                "source": floor.source,
                "n_items": floor.n_items,
                "n_samples": k,
                "n_wanted": n_wanted,
                "notes": floor.note,
            }
        )
    return result_table(rows, *_COLUMNS)


def check_half_width(half_width: float) -> None:
    """Raise ConfigError unless `half_width` is a share above 0 and under .5."""
    if not 0 < half_width < 0.5:
        raise ConfigError(f"half_width must be a share above 0 and under .5 (0.03 is ±3 points), not {half_width!r}")


def _parts(given: JudgmentsLike) -> list[tuple[Side, Part]]:
    """Every criterion and judge, and the jury of an evaluation of several judges."""
    if isinstance(given, pd.DataFrame):
        frame = judgments_of(given, "the table")
        sides = [side_of(table, "the table") for table in by_keys(frame, ["rubric", "rubric_version"]).values()]
    else:
        sides = [side_of(given, "the evaluation")]
    parts = [(side, part) for side in sides for part in parts_of(side).values()]
    return [(side, part) for side, part in parts if part.head[2] != JURY or side.mode == "jury"]


def floor_of(
    part: Part, tables: Sequence[pd.DataFrame], k: int, judges: tuple[str, ...], clusters: ClustersLike | None, *,
    rule: bool, own: pd.DataFrame | None = None,
) -> Floor:  # fmt: skip
    """Measured on the first of the tables with 2k samples, else the range that the part's `own` samples allow."""
    for table in tables:
        changed = changed_halves(table, k, judges, part.decide, rule=rule)
        if len(changed):
            return measured_floor(changed, clusters)
    if not rule:
        return Floor(note=NO_RULE)
    return Floor() if part.head[2] == JURY else range_floor(part.judgments if own is None else own, clusters)


def items_for(spread: float, half_width: float) -> int:
    """Items for an interval of this half-width; where none changed, as many as Wilson's interval of 0 takes."""
    return max(math.ceil(_Z2 * spread**2 / half_width**2), math.ceil(_Z2 * (1 / (2 * half_width) - 1)))


NO_REPEATS = "one sample each: cannot tell change from noise"
NO_RULE = "no pass rule and no second set of samples: the noise floor is not known"
NOT_MEASURED = "noise floor not measured"
_UNKNOWN = Interval.none(NOT_MEASURED)
NOT_ASKED = ("cache_miss", "in_batch", "budget", "judge_down", "stopped", *SKIPPED)
"""Errors of judgments for which no call was made."""

_ROUNDS, _FEWEST_ROUNDS, _WORK = 20, 4, 1_200
_MOST_PER_CLUSTER = 1.6

_USED = ("score", "score_norm", "label", "passed", "error", "weight", "level", "scale", "score_sd")


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
    judgments: pd.DataFrame, k: int, judges: tuple[str, ...], decide: Decide | None, *, rule: bool
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
        From judgments to votes or scores; without it nothing can be measured.
    rule
        Whether the verdict is `passed`, else the `label` or, without one on an interval scale, the score. Where one
        set has no verdict, nothing differs.
    """
    used = [name for name in (*JUDGMENT_KEY, *_USED) if name in judgments]
    frame = judgments.loc[~judgments["error"].isin(NOT_ASKED).to_numpy(), used]
    frame, number, again = _numbered(frame, k, judges)
    if decide is None or not len(frame):
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


_ALLOWED = 3.84
_TANGENTS = 40
_DEEPEST = 8.0  # no cell that contains items has less than e⁻⁸ of its share


def range_floor(judgments: pd.DataFrame, clusters: ClustersLike | None) -> Floor:
    """The range from the judgments of one judge and criterion; NaN with the reason without a pass rule or repeats.

    Items with an unscored sample raise the upper end by their share.
    """
    cells = group(judgments, ["item_id"])
    scored, k = judgments["error"].isna().to_numpy(), int(cells.count().max(initial=0))
    complete = cells.count(scored) == k
    reasons = {
        NOT_MEASURED: not len(cells),
        NO_RULE: judgments["order"].notna().any() or not measures(judgments).has_rule.all(),
        NO_REPEATS: k < 2,
        "no item with all samples scored: the noise floor is not known": not complete.any(),
    }
    if (why := first_that_holds(reasons)) is not None:
        return Floor(note=why)
    passed = scored & judgments["passed"].fillna(value=False).to_numpy(dtype=bool)
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
