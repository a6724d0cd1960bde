"""Win rates: which system's answers are preferred, from pairwise votes or scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import PAIR_SCORES, measures
from evalkit.rubrics.scales import Scale
from evalkit.stats.intervals import mean_interval, unit_codes
from evalkit.stats.notes import Notes, note_few_clusters, with_id_notes
from evalkit.stats.order_flips import NO_ORDER, OF_ORDERS, ONE_ORDER_EACH, read_once
from evalkit.stats.plain_tables import Keys, key_text, refuse_twice
from evalkit.stats.result_tables import JUDGE_KEY, figure_row, own_clusters, result_table
from evalkit.stats.touched_tables import check_rows, take_rows, take_votes
from evalkit.tables import schemas
from evalkit.tables.grouping import ID_NOTES, ClustersLike, Flags, Floats, clusters_of, group, refuse_doubles
from evalkit.tables.items import ItemsLike, as_frame, as_items

_SCORES = {label.casefold(): score for label, score in PAIR_SCORES.items()}
_PAIR = Scale.of(dict.fromkeys(["A", "B", "tie"]), level="nominal")
_COLUMNS = (
    JUDGE_KEY,
    "text: system opponent; number: win_rate±; count: wins losses ties n_items n_scored n_one_order",
    "number: worst best order_mean±; text: notes",
)


@with_id_notes
def win_rates(
    judged: pd.DataFrame,
    items: ItemsLike | None = None,
    *,
    system_a: str = "system_a",
    system_b: str = "system_b",
    item_id: str | None = None,
    clusters: ClustersLike | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """How often each system's answer is preferred, against all others and against each.

    `rank` puts systems in one order, also if they met different opponents.

    Parameters
    ----------
    judged
        Pairwise votes (rows for every judge come out) or scores (the judge is then ``jury``). A plain table needs
        `item_id` and `label` (A, B or tie). Or the scores of single answers, a table with `item_id`, `system_id` and
        `score` (and `judge` where there are several): of two systems on one item the one with the better score wins,
        and equal scores are a tie. If no item has two systems, as in a table of `points`, the items of one `group_id`
        are compared, each of a system with each of another.
    items
        The items, with the columns that name the systems; by default those columns of `judged`. For scores of single
        answers it is not needed.
    system_a, system_b
        Columns of `items`: which system gave `answer_a` and which `answer_b`.
    item_id
        Column of `items` with their ids, as for `judge` (default ``item_id``).
    clusters
        item_id -> cluster; by default the items' `group_id` if there is one, else the item.
    scale
        What a table of scores of single answers cannot say, as in `vote`. Where it is not known, higher is better.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion, judge, system, opponent`; opponent ``all`` comes first:

        - `win_rate` 0-1: a win counts 1, a tie .5, a loss 0, over the `n_scored` items; with its 95 % interval by
          clusters in `win_rate_low` and `win_rate_high` (judges are fixed; if every item has the same outcome,
          Wilson's);
        - `wins`, `losses`, `ties`: a tie is the label ``tie``, or a vote that is tied, as when a judge prefers
          whichever answer stands first;
        - `n_items` with this system (of scores of single answers: comparisons), `n_scored` of them; `n_one_order` of
          the others were read in one order alone,
          which makes no winner; `worst` and `best`: `win_rate` if what was not read were against this system or for it;
        - `order_mean` with its interval: the mean of the win rates in the two orders, each over all items read in it.
          It uses the items of `n_one_order` too, and what is missing in one order alone does not bias it. Its variance
          allows for items whose missing order differs from that of the others by as much as the one that was read. NA
          where the judgments do not name both orders;
        - `notes`.

        A rate against ``all`` depends on which opponents a system met and how often: compare systems that met
        the same ones.

    Raises
    ------
    InputError
        When `judged` is not pairwise, columns are missing, an item is unknown, or its systems are missing or equal.

    Examples
    --------
    >>> votes = schemas.table("votes", {
    ...     "rubric": ["r"] * 2, "rubric_version": ["v1"] * 2, "item_id": ["x", "y"], "criterion": ["c"] * 2,
    ...     "judge": ["j"] * 2, "label": ["A", "tie"], "n_samples": [2] * 2, "n_scored": [2] * 2, "tied": [False] * 2,
    ...     "level": ["nominal"] * 2, "scale": ['{"codes":["A","B","tie"],"better":"high"}'] * 2})
    >>> items = pd.DataFrame({"item_id": ["x", "y"], "system_a": "new", "system_b": "old"})
    >>> rates = win_rates(votes, items)
    >>> rates.loc[rates["opponent"] == "all", ["system", "win_rate", "wins", "ties"]].values.tolist()
    [['new', 0.75, 1, 1], ['old', 0.25, 0, 1]]
    """
    pairs, keys = compared(judged, items, "win_rates", system_a, system_b, item_id, clusters, scale)
    if "all" in {*pairs["system"].astype(str), *pairs["opponent"].astype(str)}:
        raise InputError("win_rates: a system cannot be called 'all', the opponent of the rows against all; rename it")
    # each item is seen from both sides
    heads = pd.concat([pairs, pairs.rename(columns={"system": "opponent", "opponent": "system"})], ignore_index=True)
    for name in ("_value", *OF_ORDERS):
        heads[name] = np.concatenate([pairs[name], 1 - pairs[name]])
    rows: list[dict[str, Any]] = []
    for index in group(heads, JUDGE_KEY).rows():
        votes = heads.iloc[index]
        for system, met in sorted(votes.groupby("system"), key=lambda pair: str(pair[0])):
            rows.append(_row(met, system, "all"))
            against = sorted(met.groupby("opponent"), key=lambda pair: str(pair[0]))
            rows.extend(_row(matches, system, str(opponent)) for opponent, matches in against)
    return keys.restore(result_table(rows, *_COLUMNS))


def compared(
    judged: Any, items: ItemsLike | None, name: str, a: str, b: str, item_id: str | None,
    clusters: ClustersLike | None, scale: ScaleLike | None,
) -> tuple[pd.DataFrame, Keys]:  # fmt: skip
    """One row per vote or score: `JUDGE_KEY`, the `system` of `answer_a`, its `opponent`, `_value` and `_unit`.

    `_value` is 1 where `answer_a` is preferred, 0 where `answer_b` is, .5 for a tie, NaN if unscored; `score_ab` and
    `score_ba` are the same in each order; `_unit` is the number of the cluster. Errors are those of `win_rates`; `name`
    is the function that they name. With the keys as the user has them, for the result.
    """
    if not isinstance(judged, pd.DataFrame):
        schemas.check(judged, "votes")
    refuse_twice(judged, "votes" if "judge" in judged else "scores", a, b)
    single = "system_id" in judged and a not in judged
    if single and (items is None or a not in as_frame(items)):
        return _of_single_answers(judged, items, name, item_id, clusters, scale)
    if items is None:
        if lacking := [column for column in ("item_id", a, b) if column not in judged]:
            fact = f"{name} needs the systems: items with the columns {a!r} and {b!r}"
            raise InputError(f"{fact}, or scores with a column 'system_id' (the table has no column {listed(lacking)})")
        if "label" not in judged:
            fact = f"{name} of pairs needs a column 'label' with A (the answer of {a}), B or tie"
            raise InputError(f"{fact}; the table has {listed(judged.columns, most=30)}")
        pairs_of_items = judged[["item_id", a, b]].drop_duplicates()
        if pairs_of_items["item_id"].duplicated().any():  # several pairs of systems per item, which is then a cluster
            ids = judged["item_id"].map(key_text)
            names = ids + " (" + judged[a].map(str) + ", " + judged[b].map(str) + ")"
            if clusters is None and "group_id" not in judged:
                clusters = pd.Series(ids.to_numpy(), names).groupby(level=0).first()
            elif clusters is not None:
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
    for name in OF_ORDERS:
        pairs[name] = frame[name].to_numpy(dtype=np.float64) if name in frame else np.nan
    pairs["_told"] = {*OF_ORDERS} <= {*frame.columns}  # votes made by hand do not say what is known of the orders
    return pairs.assign(_value=_values(frame), _unit=units), keys


def _of_single_answers(
    judged: pd.DataFrame, items: ItemsLike | None, name: str, item_id: str | None, clusters: ClustersLike | None,
    scale: ScaleLike | None,
) -> tuple[pd.DataFrame, Keys]:  # fmt: skip
    """As `compared`, of scores of single answers: each two systems on one item, the better score winning."""
    if (missing := judged["system_id"].isna()).any():
        fact = f"{name}: column 'system_id' has missing values in {int(missing.sum())} of {counted(len(judged), 'row')}"
        raise InputError(f"{fact}; fill them in, or drop these rows")
    need = ["score", "label", "tied", "n_scored", "system_id"]
    frame, keys = take_votes(judged, by=["system_id"], need=need, function=name, scale=scale)
    if measures(frame).nominal.any():
        fact = f"{name} of a table with 'system_id' compares scores, and these are labels without an order"
        advice = "pass scale= with the labels from bad to good"
        raise InputError(f"{fact}; {advice}, or a table of pairs with the labels A, B or tie")
    is_low = measures(frame).each([row_scale.better == "low" for row_scale in measures(frame).scales])
    goods = frame.assign(_good=frame["score"].to_numpy(dtype=np.float64) * np.where(is_low, -1, 1))
    if clusters is None and items is not None and "group_id" in (of_items := as_items(items, item_id=item_id)):
        clusters = of_items.set_index("item_id")["group_id"]
    if not goods[["item_id", "system_id"]].drop_duplicates()["item_id"].duplicated().any() and "group_id" in goods:
        clusters = own_clusters(goods, clusters)  # each answer has an id of its own: those of a group are compared
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
        text = f"{name}: no item has scores of two systems; a column 'item_id' (or 'group_id') says what they answered"
        raise InputError(text)
    gap = (pairs["_good"] - pairs["_other"]).round(9)
    value = np.where(gap.isna(), np.nan, (np.sign(gap) + 1) / 2)
    none = dict.fromkeys(OF_ORDERS, np.nan)
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
    votes = isinstance(judged, pd.DataFrame) and "judge" in judged.columns
    name, key = ("votes", schemas.VOTE_KEY) if votes else ("scores", schemas.SCORE_KEY)
    need = [*key, "label", "tied", "n_scored", "level", "scale"]
    if isinstance(judged, pd.DataFrame) and "label" in judged and "level" not in judged:
        frame, keys = take_rows(judged, name, need=need, function=caller, scale=_PAIR)
    else:
        frame, keys = schemas.check(judged, name, need=need), Keys()
    refuse_doubles(frame, key, name)
    labels = set(frame["label"].dropna().astype(str))
    if labels - {"A", "B", "tie"} or frame["level"].ne("nominal").any():
        wrong = listed(sorted(labels - {"A", "B", "tie"})) if labels - {"A", "B", "tie"} else "a scale with an order"
        raise InputError(f"{caller} needs pairwise {name} with the labels A, B or tie; these have {wrong}")
    frame = check_rows(frame, name, need=key)
    return (frame if votes else frame.assign(judge=pd.Categorical(["jury"] * len(frame)))), keys


def _systems(judged: pd.Series, frame: pd.DataFrame, system_a: str, system_b: str) -> pd.DataFrame:
    if lacking := [name for name in (system_a, system_b) if name not in frame.columns]:
        fact = f"the items have no column {listed(lacking)} for the systems; they have {listed(frame.columns, most=30)}"
        raise InputError(f"{fact}; name the columns with system_a= and system_b=")
    pairs = frame.set_index("item_id")
    if lost := sorted(set(judged) - set(pairs.index)):
        fact = f"{counted(len(lost), 'judged item')} not found among the items: {listed(lost)}"
        raise InputError(f"{fact}; pass all items that were judged, with their ids in item_id")
    pairs = pairs.loc[pairs.index.isin(judged)]
    first, second = pairs[system_a], pairs[system_b]
    wrong = first.isna() | second.isna() | (first.astype(str) == second.astype(str))
    wrong |= first.eq("all") | second.eq("all")
    if wrong.any():
        fact = f"{counted(int(wrong.sum()), 'item')} with wrong systems: {listed(pairs.index[wrong])}"
        advice = "an item needs two different systems, and a system cannot be called 'all'"
        raise InputError(f"{fact}; {advice}; correct or drop these items")
    return pairs.assign(**{name: pairs[name].astype(str) for name in (system_a, system_b)})


def _values(frame: pd.DataFrame) -> Floats:
    """1 where A is preferred, 0 where B is, .5 for a tie; NaN if unscored."""
    value = frame["label"].astype(object).map(PAIR_SCORES).to_numpy(dtype=np.float64)
    tied = np.isnan(value) & frame["tied"].to_numpy(dtype=bool) & (frame["n_scored"] > 0).to_numpy()
    return np.where(tied, 0.5, value)


def _row(part: pd.DataFrame, system: Any, opponent: str) -> dict[str, Any]:
    value, units = part["_value"].to_numpy(), part["_unit"].to_numpy()
    scored = ~np.isnan(value)
    value, units = value[scored], units[scored]
    interval = mean_interval(value, units, bounds=(0.0, 1.0))
    notes: Notes = [interval.reason] if interval.reason is not None else []
    if interval.reason is None:
        note_few_clusters(units, notes)
    notes += notes_on_orders(part)
    row = {key: part[key].iloc[0] for key in JUDGE_KEY} | {"system": str(system), "opponent": opponent}
    row |= figure_row("win_rate", float(value.mean()) if len(value) else np.nan, interval)
    row |= {name: int((value == code).sum()) for name, code in (("wins", 1), ("losses", 0), ("ties", 0.5))}
    row |= {"n_items": len(part), "n_scored": len(value), "n_one_order": int(_read_in_one_order(part).sum())}
    return row | _both_orders(part) | {"notes": notes}


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
