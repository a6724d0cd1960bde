"""Ranks of systems: strengths from pairwise votes or scores, and the order where a strength is not finite."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pandas as pd

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.stats.aggregation.bradley_terry import Comparisons, Fit, Ties, fit, has_maximum, win_counts
from evalkit.stats.aggregation.pairwise_wins import OF_WINS, compared, notes_on_orders, order_figures, win_figures
from evalkit.stats.intervals import Interval, effective_clusters, mean_interval
from evalkit.stats.notes import Notes, note_few_clusters, with_id_notes
from evalkit.stats.result_tables import JUDGE_KEY, figure_row, result_table
from evalkit.tables.grouping import ClustersLike, Floats, Ints, group
from evalkit.tables.items import ItemsLike

_SAME = 1e-6  # figures that differ by less differ by rounding alone
_ALL_TIES = "every comparison is a tie"
_NO_END = "an order explains every win and tie, or every vote of a judge: no finite strength"
_NO_VOTES = "no vote with a winner"


@with_id_notes
def rank(
    judged: pd.DataFrame,
    items: ItemsLike | None = None,
    *,
    system_a: str = "system_a",
    system_b: str = "system_b",
    item_id: str | None = None,
    ties: Ties = "davidson",
    discrimination: bool = False,
    clusters: ClustersLike | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """Systems in one order, by their Bradley-Terry strengths: also if they met different opponents.

    Parameters
    ----------
    judged
        Pairwise votes (rows for every judge come out) or scores (the judge is then ``jury``). A plain table needs
        `item_id` and `label` (A, B or tie). Or scores of single answers, with `item_id`, `system_id` and `score`: the
        better score wins; if no item has two systems, the items of one `group_id` are compared.
    items, system_a, system_b, item_id
        The items and their columns that name the systems of `answer_a` and `answer_b`; by default those of `judged`.
    clusters, scale
        item_id -> cluster (default: `group_id` of the items, else the item); what scores of single answers cannot say,
        as in `vote`. Where the scale is not known, higher is better.
    ties
        With π = exp(strength), ``davidson`` (1970): win : tie : loss = √(π_i/π_j) : ν : √(π_j/π_i); ``rao_kupper``
        (1967): P(win) = π_i / (π_i + θ π_j); ``half``: a tie is half a win of both (Bradley and Terry 1952).
    discrimination
        All judges together: the log odds of a win over a loss are γ_judge · (strength_i − strength_j), with a tie
        parameter of each judge and mean 1 of γ. This is the idea of BT-sigma (Qian et al. 2026, arXiv 2602.16610): γ is
        1/σ but for the scale. If most judges share an error, γ does not show it.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge, system`, best first; 95 % intervals by clusters in `_low`
        and `_high` (judges are fixed):

        - `rank` from 1; equal strengths share one; `strength`, log scale, mean 0: 1 more wins 73 % of the comparisons
          that are no ties. Sandwich variance · G/(G − 1), t with G_eff − 1 (G_eff = n²/Σm² for clusters of m items).
          Intervals are against the mean of all: two may overlap though their difference is clear;
        - `tie_parameter`: ν or θ; `wins`, `losses`, `ties`; `n_items`, `n_scored` of them;
        - `win_rate` 0-1, a tie being half, over the scored items; it depends on the opponents met; `n_one_order`: read
          in one order alone, which makes no winner; `worst`, `best`: if these were against or for the system;
          `order_mean`: mean of the win rates in the two orders, which uses them too;
        - of the judge: `agreement`, share of its items with the same winner in both orders; `flip_rate`, share of the
          `n_both_orders` items whose winners differ; `first_rate`, share of judgments for the answer shown first (.5:
          no preference). NA where the orders are not known;
        - `notes`: why a strength is NA: a system that won or lost all, groups that never meet, a single item.

        With `discrimination`, the judge is ``all``, and one more row per judge has its `discrimination` (γ) and
        `tie_parameter`.

    Raises
    ------
    InputError
        When `judged` is not pairwise, columns are missing, an item is unknown, its systems are missing or equal, or
        for `discrimination` of scores, which do not have judges.
    ConfigError
        For an unknown model of ties.

    Examples
    --------
    >>> import evalkit as ek
    >>> votes = pd.DataFrame({"item_id": range(12), "label": ["A", "A", "B"] * 4, "system_a": "x", "system_b": "y"})
    >>> table = ek.rank(votes)  # x wins 8 of 12: the difference of strengths is log 2
    >>> table[["system", "rank", "wins"]].values.tolist(), round(float(table["strength"].iloc[0]), 4)
    ([['x', 1, 8], ['y', 2, 4]], 0.3466)
    """
    if ties not in get_args(Ties):
        raise ConfigError(f"unknown model of ties {ties!r}; allowed: {', '.join(get_args(Ties))}")
    pairs, keys = compared(judged, items, "rank", system_a, system_b, item_id, clusters, scale)
    if discrimination and "judge" not in judged.columns:
        raise InputError("rank(discrimination=True) compares judges, and scores have none; pass the votes")
    key, rows = JUDGE_KEY[:-1] if discrimination else JUDGE_KEY, list[dict[str, Any]]()
    for index in group(pairs, key).rows():
        votes = pairs.iloc[index]
        head, of_orders = {name: votes[name].iloc[0] for name in key}, order_figures(votes)
        for row in _ranked(votes, ties, discrimination=discrimination):
            if "system" in row:
                of_row, orders = votes.loc[votes[["system", "opponent"]].eq(row["system"]).any(axis=1)], of_orders
            else:
                of_row = votes.loc[votes["judge"].eq(row["judge"])]
                orders = order_figures(of_row)
            notes: Notes = [*row["notes"], *notes_on_orders(votes if "system" in row else of_row), *orders["notes"]]
            wins = win_figures(of_row, row.get("system"), notes)
            rows.append(head | row | wins | orders | {"notes": [*dict.fromkeys(notes)]})
    strengths = f"Int64: rank; number: strength± {'discrimination± ' * discrimination}tie_parameter"
    return keys.restore(result_table(rows, [*JUDGE_KEY, "system"], strengths, *OF_WINS, "text: notes"))


def _ranked(part: pd.DataFrame, ties: Ties, *, discrimination: bool) -> list[dict[str, Any]]:
    from scipy.sparse.csgraph import shortest_path

    names, sides = np.unique(part[["system", "opponent"]].to_numpy(dtype=str).T, return_inverse=True)
    judges, judge = np.unique(part["judge"].to_numpy(dtype=str), return_inverse=True)
    first, second = sides.reshape(2, -1)
    data = Comparisons(first, second, judge, part["_value"].to_numpy(), part["_unit"].to_numpy())
    scored = data.where(~np.isnan(data.value))
    # a judge of ties alone has no discrimination
    used = scored.where(np.isin(scored.judge, scored.judge[scored.value != 0.5])) if discrimination else scored
    wins, even = win_counts(used, len(names))
    if ties == "half":
        wins, even = wins + even / 2, np.zeros_like(even)
    reach = np.isfinite(shortest_path(wins + even, unweighted=True))  # by wins and ties, also through others
    classes = reach & reach.T
    core = np.flatnonzero(classes[np.lexsort([reach.sum(axis=1), classes.sum(axis=1)])[-1]])
    used = used.where(np.isin(used.first, core) & np.isin(used.second, core))
    why = _reasons(wins, even, core)
    fitted = None if why[core[0]] else fit(used.numbered(), ties, discrimination=discrimination)
    strength = np.full(len(names), np.nan)
    strength[core] = fitted.strength if fitted else np.nan
    ranks, rows = _ranks(reach, strength, (wins + wins.T + even).any(axis=1)), []
    for index, name in enumerate(names):
        reason = why[index] or (None if fitted else _NO_END)
        row = _row("strength", fitted, int(np.searchsorted(core, index)), reason, used.unit)
        row |= {"judge": "all" if discrimination else str(judges[0]), "system": str(name), "rank": ranks[index]}
        row["tie_parameter"] = fitted.tie[0] if fitted and not discrimination and not why[index] else np.nan
        rows.append(row | _counts(data, data.first == index, data.second == index))
    rows.sort(key=lambda row: (row["rank"] is None, row["rank"] or 0))
    places = {number: code for code, number in enumerate(np.unique(used.judge))} if fitted else {}
    for index, name in enumerate(judges[: len(judges) * discrimination]):
        code, of_judge = places.get(index), data.judge == index
        reason = None if code is not None else _NO_VOTES
        row = _row("discrimination", fitted, len(core) + (code or 0), reason, used.unit)
        row |= {"judge": str(name), "tie_parameter": fitted.tie[code] if fitted and code is not None else np.nan}
        rows.append(row | _counts(data, of_judge, of_judge))
    return rows


def _row(name: str, found: Fit | None, column: int, why: str | None, units: Ints) -> dict[str, Any]:
    """The figure with its interval, or why there is none."""
    if why is not None or found is None:
        return {"notes": [why]}
    values, notes, freedom = found.clusters[:, column], Notes(), max(1.0, effective_clusters(units) - 1)
    varies = len(values) < 2 or np.ptp(values) > _SAME  # a single γ is 1, and judges may have the same votes
    ends = mean_interval(values, np.arange(len(values)), freedom=freedom)
    interval = ends if varies else Interval.none("equal in all clusters")
    if len(values) > 1:
        note_few_clusters(units, notes)
    return figure_row(name, float(values.mean()), interval, notes) | {"notes": notes}


def _counts(data: Comparisons, first: Any, second: Any) -> dict[str, int]:
    """What was won by a system on one side or the other; of a judge: how many of its votes have a winner."""
    met, value = first | second, data.value
    won, lost = first & (value == 1) | second & (value == 0), first & (value == 0) | second & (value == 1)
    flags = {"wins": won, "losses": lost, "ties": met & (value == 0.5), "n_items": met, "n_scored": met & (value >= 0)}
    return {name: int(flag.sum()) for name, flag in flags.items()}


def _ranks(reach: Any, strength: Floats, met: Any) -> list[int | None]:
    """1 + the number of systems above; None if the place among some other system is not known."""
    above, has_strength = reach.T & ~reach, ~np.isnan(strength)
    settled = above | above.T | (has_strength & has_strength[:, None]) | np.eye(len(met), dtype=bool)
    higher = above | (strength > strength[:, None] + _SAME)
    return [int(1 + higher[row].sum()) if met[row] and settled[row, met].all() else None for row in range(len(met))]


def _reasons(wins: Floats, even: Floats, core: Ints) -> list[str | None]:
    """Why a system has no strength; None for those of the core, the largest set where each reaches each."""
    from scipy.sparse.csgraph import connected_components

    meets = wins + wins.T + even
    n_groups = len(np.unique(connected_components(meets, directed=False)[1][meets.any(axis=1)]))
    inside = np.ix_(core, core)
    reasons = np.full(len(wins), "its comparisons put it only above or only below others: no finite strength", object)
    reasons[~(wins.T + even).any(axis=1)] = "won every scored comparison: no finite strength"
    reasons[~(wins + even).any(axis=1)] = "lost every scored comparison: no finite strength"
    if len(core) > 1:
        tied = _ALL_TIES if not wins[inside].any() else _NO_END
        reasons[core] = None if has_maximum(wins[inside], even[inside]) else tied
    reasons[meets.any(axis=1) & (n_groups > 1)] = f"the systems fall into {n_groups} groups that never meet"
    reasons[~meets.any(axis=1)] = "nothing is scored"
    return list(reasons)
