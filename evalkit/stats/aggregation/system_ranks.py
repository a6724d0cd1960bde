"""Ranks of systems: win rates and strengths from pairwise votes or scores, and what the order of answers changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import PAIR_SCORES, measures
from evalkit.rubrics.scales import Scale
from evalkit.stats.aggregation.bradley_terry import Comparisons, Fit, Ties, fit, has_maximum, win_counts
from evalkit.stats.intervals import Interval, effective_clusters, mean_interval, rate_interval, unit_codes
from evalkit.stats.order_flips import NO_ORDER, OF_ORDERS, ONE_ORDER_EACH, read_once
from evalkit.stats.plain_tables import Keys, key_text, refuse_twice, take_votes
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    Notes,
    clusters_for,
    figure_row,
    note_few_clusters,
    result_table,
    with_id_notes,
)
from evalkit.tables import schemas
from evalkit.tables.grouping import ID_NOTES, ClustersLike, Flags, Floats, Ints, clusters_of, group
from evalkit.tables.items import ItemsLike, as_frame, as_items

_SAME = 1e-6  # figures that differ by less differ by rounding alone
_NO_END = "an order explains every win and tie: no finite strength"


@with_id_notes
def rank(
    judged: pd.DataFrame,
    items: ItemsLike | None = None,
    *,
    system_a: str = "system_a",
    system_b: str = "system_b",
    item_id: str | None = None,
    ties: Ties = "davidson",
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
        With π = exp(strength), ``davidson`` (1970): win : tie : loss = √(π_i/π_j) : ν : √(π_j/π_i); ``half``: a
        tie is half a win of both (Bradley and Terry 1952).

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge, system`, best first; 95 % intervals by clusters in `_low`
        and `_high` (judges are fixed):

        - `rank` from 1; equal strengths share one; `strength`, log scale, mean 0: 1 more wins 73 % of the comparisons
          that are no ties. Sandwich variance · G/(G − 1), t with G_eff − 1 (G_eff = n²/Σm² for clusters of m items).
          Intervals are against the mean of all: two may overlap though their difference is clear;
        - `tie_parameter`: ν; `wins`, `losses`, `ties`; `n_items`, `n_scored` of them;
        - `win_rate` 0-1, a tie being half, over the scored items; it depends on the opponents met; `n_one_order`: read
          in one order alone, which makes no winner; `worst`, `best`: if these were against or for the system;
          `order_mean`: mean of the win rates in the two orders, which uses them too;
        - of the judge: `agreement`, share of its items with the same winner in both orders; `flip_rate`, share of the
          `n_both_orders` items whose winners differ; `first_rate`, share of judgments for the answer shown first (.5:
          no preference). NA where the orders are not known;
        - `notes`: why a strength is NA: a system that won or lost all, groups that never meet, a single item.

    Raises
    ------
    InputError
        When `judged` is not pairwise, columns are missing, an item is unknown, or its systems are missing or equal.
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
    check_choice("ties", ties, get_args(Ties))
    pairs, keys = compared(judged, items, "rank", system_a, system_b, item_id, clusters, scale)
    rows = list[dict[str, Any]]()
    for index in group(pairs, JUDGE_KEY).rows():
        votes = pairs.iloc[index]
        head, orders = {name: votes[name].iloc[0] for name in JUDGE_KEY}, order_figures(votes)
        for row in _ranked(votes, ties):
            of_row = votes.loc[votes[["system", "opponent"]].eq(row["system"]).any(axis=1)]
            notes: Notes = [*row["notes"], *notes_on_orders(votes), *orders["notes"]]
            wins = win_figures(of_row, row["system"], notes)
            rows.append(head | row | wins | orders | {"notes": [*dict.fromkeys(notes)]})
    strengths = "Int64: rank; number: strength± tie_parameter"
    return keys.restore(result_table(rows, [*JUDGE_KEY, "system"], strengths, *OF_WINS, "text: notes"))


def _ranked(part: pd.DataFrame, ties: Ties) -> list[dict[str, Any]]:
    from scipy.sparse.csgraph import shortest_path

    names, sides = np.unique(part[["system", "opponent"]].to_numpy(dtype=str).T, return_inverse=True)
    first, second = sides.reshape(2, -1)
    data = Comparisons(first, second, part["_value"].to_numpy(), part["_unit"].to_numpy())
    used = data.where(~np.isnan(data.value))
    wins, even = win_counts(used, len(names))
    if ties == "half":
        wins, even = wins + even / 2, np.zeros_like(even)
    reach = np.isfinite(shortest_path(wins + even, unweighted=True))  # by wins and ties, also through others
    classes = reach & reach.T
    core = np.flatnonzero(classes[np.lexsort([reach.sum(axis=1), classes.sum(axis=1)])[-1]])
    used = used.where(np.isin(used.first, core) & np.isin(used.second, core))
    why = _reasons(wins, even, core)
    fitted = None if why[core[0]] else fit(used.numbered(), ties)
    strength = np.full(len(names), np.nan)
    strength[core] = fitted.strength if fitted else np.nan
    ranks, rows = _ranks(reach, strength, (wins + wins.T + even).any(axis=1)), []
    for index, name in enumerate(names):
        reason = why[index] or (None if fitted else _NO_END)
        row: dict[str, Any] = {"system": str(name), "rank": ranks[index], "notes": [reason]} | _counts(data, index)
        rows.append(row if fitted is None or reason else row | _strength(fitted, np.searchsorted(core, index), used))
    rows.sort(key=lambda row: (row["rank"] is None, row["rank"] or 0))
    return rows


def _strength(fitted: Fit, column: Any, used: Comparisons) -> dict[str, Any]:
    """A strength with its interval, the tie parameter, and the notes."""
    values, notes, freedom = fitted.clusters[:, column], Notes(), max(1.0, effective_clusters(used.unit) - 1)
    varies = len(values) < 2 or np.ptp(values) > _SAME  # the clusters of two systems may all balance
    ends = mean_interval(values, np.arange(len(values)), freedom=freedom)
    interval = ends if varies else Interval.none("equal in all clusters")
    if len(values) > 1:
        note_few_clusters(used.unit, notes)
    return figure_row("strength", float(values.mean()), interval, notes) | {"notes": notes, "tie_parameter": fitted.tie}


def _counts(data: Comparisons, system: int) -> dict[str, int]:
    """What was won by a system on one side or the other."""
    first, second, value = data.first == system, data.second == system, data.value
    won, lost = first & (value == 1) | second & (value == 0), first & (value == 0) | second & (value == 1)
    met = first | second
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
        tied = "every comparison is a tie" if not wins[inside].any() else _NO_END
        reasons[core] = None if has_maximum(wins[inside], even[inside]) else tied
    reasons[meets.any(axis=1) & (n_groups > 1)] = f"the systems fall into {n_groups} groups that never meet"
    reasons[~meets.any(axis=1)] = "nothing is scored"
    return list(reasons)


_PAIR = Scale.of(dict.fromkeys(["A", "B", "tie"]), level="nominal")
_OF_VOTES = ["order_flip", "first_rate"]
OF_WINS = (
    "number: win_rate± worst best order_mean± agreement± flip_rate± first_rate±",
    "count: wins losses ties n_items n_scored n_one_order n_both_orders",
)
"""The columns of `win_figures`, `order_figures` and the counts of `rank`."""


def compared(
    judged: Any, items: ItemsLike | None, name: str, a: str, b: str, item_id: str | None,
    clusters: ClustersLike | None, scale: ScaleLike | None,
) -> tuple[pd.DataFrame, Keys]:  # fmt: skip
    """One row per vote or score: `JUDGE_KEY`, the `system` of `answer_a`, its `opponent`, `_value` and `_unit`.

    `_value` is 1 where `answer_a` is preferred, 0 where `answer_b` is, .5 for a tie, NaN if unscored; `score_ab` and
    `score_ba` are the same in each order; `_unit` is the number of the cluster; `order_flip`, `first_rate` and
    `n_scored` are those of the vote. Errors are those of `rank`; `name` is the function that they name. With the keys
    as the user has them, for the result.
    """
    if not isinstance(judged, pd.DataFrame):
        schemas.check(judged, "votes")
    refuse_twice(judged, "votes" if "judge" in judged else "scores", a, b)
    single = "system_id" in judged and a not in judged
    if single and (items is None or a not in as_frame(items)):
        return _of_single_answers(judged, items, name, item_id, clusters, scale)
    if items is None:
        if lacking := [column for column in ("item_id", a, b) if column not in judged]:
            raise InputError(
                f"{name} needs the systems: items with the columns {a!r} and {b!r}, or scores with a column "
                f"'system_id' (the table has no column {listed(lacking)})"
            )
        if "label" not in judged:
            raise InputError(
                f"{name} of pairs needs a column 'label' with A (the answer of {a}), B or tie; the table has "
                f"{listed(judged.columns, most=30)}"
            )
        pairs_of_items = judged[["item_id", a, b]].drop_duplicates()
        if pairs_of_items["item_id"].duplicated().any():  # several pairs of systems per item, which is then a cluster
            ids = judged["item_id"].map(key_text)
            names = ids + " (" + judged[a].map(str) + ", " + judged[b].map(str) + ")"
            if clusters is not None or "group_id" not in judged:
                clusters_of_ids = clusters_of(ids.astype("str"), clusters)
                clusters = pd.Series(clusters_of_ids.to_numpy(), names).groupby(level=0).first()
            judged = judged.assign(item_id=names)
        extra = ["group_id"] if "group_id" in judged else []
        items = judged[["item_id", a, b, *extra]].drop_duplicates("item_id")
    frame, keys = _checked(judged, name)
    systems = _systems(frame["item_id"], as_items(items, item_id=item_id), a, b)
    if clusters is None and "group_id" in systems:
        clusters = systems["group_id"]
    pairs = frame[JUDGE_KEY].reset_index(drop=True)
    sides = (systems[column].reindex(frame["item_id"]).to_numpy(dtype=object) for column in (a, b))
    pairs["system"], pairs["opponent"] = sides
    units = unit_codes(frame["item_id"], clusters)
    for name in (*OF_ORDERS, *_OF_VOTES, "n_scored"):
        pairs[name] = frame[name].astype(np.float64).to_numpy() if name in frame else np.nan
    pairs["_told"] = {*OF_ORDERS} <= {*frame.columns}  # votes made by hand do not say what is known of the orders
    return pairs.assign(_value=_values(frame), _unit=units), keys


def _of_single_answers(
    judged: pd.DataFrame, items: ItemsLike | None, name: str, item_id: str | None, clusters: ClustersLike | None,
    scale: ScaleLike | None,
) -> tuple[pd.DataFrame, Keys]:  # fmt: skip
    """As `compared`, of scores of single answers: each two systems on one item, the better score winning."""
    if (missing := judged["system_id"].isna()).any():
        raise InputError(
            f"{name}: column 'system_id' has missing values in {int(missing.sum())} of "
            f"{counted(len(judged), 'row')}; fill them in, or drop these rows"
        )
    need = ["score", "label", "tied", "n_scored", "system_id"]
    frame, keys = take_votes(judged, by=["system_id"], need=need, function=name, scale=scale)
    if measures(frame).nominal.any():
        raise InputError(
            f"{name} of a table with 'system_id' compares scores, and these are labels without an order; pass "
            "scale= with the labels from bad to good, or a table of pairs with the labels A, B or tie"
        )
    is_low = measures(frame).each([row_scale.better == "low" for row_scale in measures(frame).scales])
    goods = frame.assign(_good=frame["score"].to_numpy(dtype=np.float64) * np.where(is_low, -1, 1))
    if clusters is None and items is not None and "group_id" in (of_items := as_items(items, item_id=item_id)):
        clusters = of_items.set_index("item_id")["group_id"]
    if not goods[["item_id", "system_id"]].drop_duplicates()["item_id"].duplicated().any() and "group_id" in goods:
        clusters = clusters_for(goods, clusters)  # each answer has an id of its own: those of a group are compared
        goods = goods.assign(_unit=unit_codes(goods["item_id"], clusters), item_id=goods["group_id"])
        in_group = goods["group_id"].notna().to_numpy()
        if not in_group.all() and (notes := ID_NOTES.get()) is not None:
            notes[f"{int((~in_group).sum())} of {counted(len(goods), 'score')} left out: no group_id"] = None
        goods = goods.loc[in_group]
    else:
        goods = goods.assign(_unit=unit_codes(goods["item_id"], clusters))
    columns = [*JUDGE_KEY, "item_id"]
    short = goods[[*columns, "system_id", "_good", "_unit"]].astype(dict.fromkeys([*columns, "system_id"], object))
    opponents = short.drop(columns="_unit").rename(columns={"system_id": "opponent", "_good": "_other"})
    pairs = short.merge(opponents, on=columns)
    pairs = pairs.rename(columns={"system_id": "system"})
    pairs = pairs.loc[pairs["system"].astype(str) < pairs["opponent"].astype(str)].reset_index(drop=True)
    if pairs.empty and len(frame):
        raise InputError(
            f"{name}: no item has scores of two systems; a column 'item_id' (or 'group_id') says what they answered"
        )
    gap = (pairs["_good"] - pairs["_other"]).round(9)
    value = np.where(gap.isna(), np.nan, (np.sign(gap) + 1) / 2)
    none = dict.fromkeys([*OF_ORDERS, *_OF_VOTES, "n_scored"], np.nan)
    comparisons = pairs[[*JUDGE_KEY, "system", "opponent"]].assign(**none, _told=False, _value=value)
    system = {column: keys.values["system_id"] for column in ("system", "opponent") if "system_id" in keys.values}
    return comparisons.assign(_unit=pairs["_unit"]), replace(keys, values=keys.values | system)


def _read_in_one_order(seen: pd.DataFrame) -> Flags:
    """The rows that have no winner because one of the two orders was not read."""
    return np.asarray(seen["_value"].isna() & read_once(seen))


def notes_on_orders(seen: pd.DataFrame) -> list[str]:
    """That rows of `compared` were left out because one order was not read, or that a judge's orders are not known."""
    n, has_orders = int(_read_in_one_order(seen).sum()), seen[OF_ORDERS].notna().any()
    notes = [f"{counted(n, 'vote')} left out: only one of two orders was read"] if n else []
    if seen["_value"].isna().all() or not seen["_told"].any() or seen[OF_ORDERS].notna().all(axis=1).any():
        return notes
    return [*notes, ONE_ORDER_EACH if has_orders.all() else NO_ORDER]


def _checked(judged: Any, caller: str) -> tuple[pd.DataFrame, Keys]:
    need = ["label", "tied", "n_scored", "level", "scale"]
    frame, keys = take_votes(judged, need=need, function=caller, scale=None if "level" in judged else _PAIR)
    labels = set(frame["label"].dropna().astype(str))
    if labels - {"A", "B", "tie"} or frame["level"].ne("nominal").any():
        wrong = listed(sorted(labels - {"A", "B", "tie"})) if labels - {"A", "B", "tie"} else "a scale with an order"
        name = "votes" if "judge" in judged else "scores"
        raise InputError(f"{caller} needs pairwise {name} with the labels A, B or tie; these have {wrong}")
    return frame, keys


def _systems(judged: pd.Series, frame: pd.DataFrame, system_a: str, system_b: str) -> pd.DataFrame:
    if lacking := [name for name in (system_a, system_b) if name not in frame.columns]:
        raise InputError(
            f"the items have no column {listed(lacking)} for the systems; they have "
            f"{listed(frame.columns, most=30)}; name the columns with system_a= and system_b="
        )
    pairs = frame.set_index("item_id")
    if lost := sorted(set(judged) - set(pairs.index)):
        raise InputError(
            f"{counted(len(lost), 'judged item')} not found among the items: {listed(lost)}; pass all items that "
            "were judged, with their ids in item_id"
        )
    pairs = pairs.loc[pairs.index.isin(judged)]
    first, second = pairs[system_a], pairs[system_b]
    wrong = first.isna() | second.isna() | (first.astype(str) == second.astype(str))
    if wrong.any():
        raise InputError(
            f"{counted(int(wrong.sum()), 'item')} with wrong systems: {listed(pairs.index[wrong])}; an item needs "
            "two different systems; correct or drop these items"
        )
    return pairs.assign(**{name: pairs[name].astype(str) for name in (system_a, system_b)})


def _values(frame: pd.DataFrame) -> Floats:
    """1 where A is preferred, 0 where B is, .5 for a tie; NaN if unscored."""
    value = frame["label"].astype(object).map(PAIR_SCORES).to_numpy(dtype=np.float64)
    tied = np.isnan(value) & frame["tied"].to_numpy(dtype=bool) & (frame["n_scored"] > 0).to_numpy()
    return np.where(tied, 0.5, value)


def win_figures(part: pd.DataFrame, system: str, notes: Notes) -> dict[str, Any]:
    """The win rate of a system in its rows of `compared`, its bounds, and its mean over the two orders."""
    row: dict[str, Any] = {"n_one_order": int(_read_in_one_order(part).sum())}
    swapped = part["system"].to_numpy() != system
    oriented = part.assign(**{key: np.where(swapped, 1 - part[key], part[key]) for key in ("_value", *OF_ORDERS)})
    value, units = oriented["_value"].to_numpy(), oriented["_unit"].to_numpy()
    scored = ~np.isnan(value)
    if scored.any():
        interval = mean_interval(value[scored], units[scored], bounds=(0.0, 1.0))
        row |= figure_row("win_rate", float(value[scored].mean()), interval, notes)
        if interval.reason is None:
            note_few_clusters(units[scored], notes)
    return row | _both_orders(oriented)


def order_figures(part: pd.DataFrame) -> dict[str, Any]:
    """What the order of the answers changes, in rows of `compared` of one judge; NA without votes in both orders."""
    flips, units, has_flip = (
        part["order_flip"].to_numpy(),
        part["_unit"].to_numpy(),
        part["order_flip"].notna().to_numpy(),
    )
    row: dict[str, Any] = {"n_both_orders": int(has_flip.sum()), "notes": []}
    if has_flip.any():
        agrees = (flips == 0).astype(np.float64)  # an item without a winner in some order does not agree
        row |= figure_row("agreement", float(agrees.mean()), rate_interval(agrees, units)) | figure_row(
            "flip_rate", float(flips[has_flip].mean()), rate_interval(flips[has_flip], units[has_flip])
        )
        lost = int((~has_flip).sum())
        row["notes"] = [f"{counted(lost, 'item')} without a winner in both orders"] if lost else []
    # each of an item's judgments counts with their mean: its two orders pull in opposite directions by design
    times = np.where(part["first_rate"].isna(), 0, part["n_scored"].fillna(0)).astype(np.int64)
    shares, units = (np.repeat(column, times) for column in (part["first_rate"].to_numpy(), units))
    mean = float(shares.mean()) if len(shares) else np.nan
    return row | figure_row("first_rate", mean, mean_interval(shares, units, bounds=(0.0, 1.0)))


def _both_orders(part: pd.DataFrame) -> dict[str, float]:
    """The mean of the win rates in the two orders; and the bounds of `win_rate`, whatever was not read."""
    value, first, second = (part[name].to_numpy(dtype=np.float64) for name in ("_value", *OF_ORDERS))
    rate = np.where(_read_in_one_order(part), np.fmax(first, second), np.nan)  # of the order that was read
    # with all samples of that order on one side, the other order can at most make a tie of it
    worst = np.where(np.isnan(value), np.where(rate == 1, 0.5, 0.0), value)
    best = np.where(np.isnan(value), np.where(rate == 0, 0.5, 1.0), value)
    row = {"worst": float(worst.mean()), "best": float(best.mean())}
    if np.isnan(first).all() or np.isnan(second).all():
        return row
    mean, parts, more = 0.0, np.zeros(len(part)), 0.0
    for side, opposite in ((first, second), (second, first)):
        scored, paired = ~np.isnan(side), ~np.isnan(side + opposite)
        mean += float(side[scored].mean()) / 2
        # each item's part in the mean of both, by which clusters vary
        parts += np.where(scored, side - side[scored].mean(), 0.0) / scored.mean() / 2
        # the other order may differ there by as much as this one does
        if (alone := scored & ~paired).any() and paired.any():
            more += (alone.mean() * (side[alone].mean() - side[paired].mean()) / 2) ** 2
    ends = mean_interval(mean + parts, part["_unit"].to_numpy(), bounds=(0.0, 1.0), more=more)
    return row | figure_row("order_mean", mean, ends)
