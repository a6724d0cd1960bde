"""Criteria of an item's own become one score per item: points, prerequisites, trees."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.item_criteria import OWN_FORM, explode_criteria, refuse_other_scales
from evalkit.rubrics.scales import Scale
from evalkit.stats.plain_tables import key_text, take_rows
from evalkit.stats.result_tables import verdict_codes
from evalkit.tables import schemas
from evalkit.tables.grouping import Floats, Ints, group, refuse_doubles
from evalkit.tables.items import ItemsLike, as_frame, is_missing
from evalkit.tables.lists_in_texts import list_in

_RUN = ["rubric", "rubric_version", "criterion"]
_TINY = 1e-9
_EXPLODED = ["item_id", "of_item", "points"]


def points(
    scores: pd.DataFrame, items: ItemsLike, *, by: Literal["axis"] | None = None, scale: ScaleLike | None = None
) -> pd.DataFrame:
    """One score per item from its own criteria: points earned, divided by the sum of its positive points.

    Parameters
    ----------
    scores
        The table of `aggregate` on the rows of `explode_criteria`. Or a plain table with `item_id` and `score`.
    items
        These rows, or the items with their criteria. Points, axes and prerequisites are read here, so they can be
        changed without asking a judge again.
    by
        ``axis``: one row per item and axis. The groups of a tree are axes, too:
        ``rows.assign(axis=rows["parent"].map(lambda path: path[0][0]))`` names the nearest group above each criterion.
    scale
        Of a plain table whose scores are not true or false, as in `aggregate`. With it, a criterion's own scale is
        not looked at.

    Returns
    -------
    DataFrame
        Keyed by `rubric, rubric_version, criterion, item_id` (the item's own id) and `by`, with `group_id` and
        `system_id` of the items:

        - `points` earned, `possible` (sum of positive points), `score` = points / possible, **not clipped**: it may be
          negative. An item with an unscored criterion has no score. In a tree, points are shares: each weight divided
          by the sum of its siblings', down the path;
        - `low`, `high`: whatever the open criteria are, the score is between them (with each criterion decided
          against and for the answer);
        - `renormalised`: the score over the scored criteria. It is lenient: an unscored *negative* criterion costs
          nothing (on real data, with a tenth of the criteria unread, means are .034 too high);
        - `n_criteria`, `n_scored`, `n_open`, `n_open_negative`, `coverage` (share of the absolute points that are
          scored, 0-1);
        - `status`: ``ok`` or ``unscored``; `reason`: ``open_criteria`` or ``no_positive_points``.

        A criterion is worth its `score_norm` times its points, if those that it requires are met (to count each on its
        own, pass ``rows.drop(columns="requires")``). One whose prerequisite is not met is decided, even if it is
        unscored itself. A prerequisite that is met in part and has no verdict (a tie, or a plain table without
        `passed`) leaves open what requires it.

    Raises
    ------
    InputError
        For scores of criteria that the items do not have, a criterion that is scored twice in one run or on another
        scale than its own, prerequisites that the item does not have, and whatever is wrong with points.

    Examples
    --------
    >>> rows = explode_criteria([{"item_id": "q1", "answer": "Boil it.", "criteria": [
    ...     {"text": "Names a method", "points": 5}, {"text": "Gives a time", "points": 3},
    ...     {"text": "Invents a source", "points": -2}]}])
    >>> met = pd.DataFrame({"item_id": rows["item_id"], "score": [True, False, True]})
    >>> points(met, rows)[["item_id", "points", "possible", "score"]].values.tolist()
    [['q1', 3.0, 8.0, 0.375]]
    """
    if by is not None:
        check_choice("by", by, ("axis",))
    rows = _exploded(items)
    need = [*_RUN, "item_id", "score", "score_norm", "passed", "level", "scale"]
    frame, _ = take_rows(scores, "scores", need=need, function="points", scale=scale)
    if (frame["score"].notna() & frame["score_norm"].isna()).any():
        raise InputError("points: the scale of the scores is not known, so how far a criterion is met is not known; "
                         "pass scale=(0, 1), or the scale that they are on")  # fmt: skip
    if "label" in frame and len(texts := frame.loc[frame["score"].isna() & frame["label"].notna(), "label"]):
        raise InputError(
            f"points: {counted(len(texts), 'score is a text', 'scores are texts')} "
            f"({listed(texts.unique(), most=3)}); pass numbers, or true and false"
        )
    if (strange := ~frame["item_id"].isin(rows["item_id"]).to_numpy()).any():
        fact = f"{counted(int(strange.sum()), 'score is', 'scores are')} of criteria that the items do not have"
        advice = "pass the rows of explode_criteria that were judged, or the scores of these items alone"
        advice += " (ids in a column of another name: ek.explode_criteria(items, item_id=...))"
        raise InputError(f"{fact}: {listed(frame.loc[strange, 'item_id'].unique(), most=5)}; {advice}")
    arrows = _arrows(rows) if "requires" in rows else np.zeros((0, 2), dtype=np.int64)
    units, members = _units(rows, by)
    pieces = []
    for places in group(frame, _RUN).rows() if len(frame) else [np.zeros(0, dtype=np.int64)]:
        run = frame.iloc[places]
        if scale is None and "scale" in rows and len(run) and run["scale"].notna().all():
            judged = rows.loc[rows["item_id"].isin(run["item_id"]), ["item_id", "scale"]]
            judged_on = [Scale.from_json(str(run["level"].iloc[0]), str(run["scale"].iloc[0]))]
            refuse_other_scales(judged.itertuples(index=False), judged_on, judged=True)
        value, met = _values(run, rows)
        low, high, value = _with_required(value, met, arrows)
        heads = {key: run[key].iloc[0] if len(run) else None for key in _RUN}
        pieces.append(_scored(rows, units, members, (low, high, value), heads))
    return pd.concat(pieces, ignore_index=True) if len(pieces) > 1 else pieces[0]


def _exploded(items: ItemsLike) -> pd.DataFrame:
    frame = as_frame(items)
    if in_index := sorted({"of_item", "item_id"} & {*frame.index.names} - {*frame.columns}):
        frame = frame.reset_index(in_index)
    if "of_item" not in frame.columns and OWN_FORM.column in frame.columns:
        frame = explode_criteria(items)
    if lost := [name for name in _EXPLODED if name not in frame.columns]:
        raise InputError(
            f"the rows of criteria have no column {listed(lost)}; explode_criteria makes them of items with a list of "
            "criteria; a table with a row per criterion needs `of_item`, the item's id, and `points`"
        )
    # texts, lists and points as they came: `as_items` would read a million of them for nothing
    rows = frame[[*dict.fromkeys(frame.columns)]].reset_index(drop=True)
    rows["item_id"] = rows["item_id"].astype("str")
    rows["item"] = rows["of_item"].map(key_text, na_action="ignore").astype("str")
    refuse_doubles(rows, ["item_id"], "criteria")
    weights = pd.to_numeric(rows["points"], errors="coerce").to_numpy(dtype=np.float64, copy=True)
    weights[[isinstance(value, (bool, np.bool_, pd.Timestamp, pd.Timedelta)) for value in rows["points"]]] = np.nan
    if (wrong := ~((np.abs(weights) >= 1e-9) & (np.abs(weights) <= 1e9))).any():
        first = rows.iloc[int(wrong.argmax())]
        many = counted(int(wrong.sum()), "criterion has", "criteria have")
        raise InputError(
            f"{many} points that are 0, no number or beyond 1e9; the first: {first['item_id']!r} has {first['points']}"
        )
    return rows.assign(points=weights)


def lists_in_cells(column: pd.Series) -> list[list[Any]]:
    """Cells that hold lists, also after a CSV file; another text or number is the only one of its list."""
    lists: list[list[Any]] = []
    for cell in column.tolist():
        value = list_in(cell) if isinstance(cell, str) else cell
        if value is None or is_missing(value) or isinstance(value, (int, float, str)):
            value = [cell]
        lists.append([entry for entry in value if not is_missing(entry) and str(entry).strip()])
    return lists


def _arrows(rows: pd.DataFrame) -> Ints:
    """Each row with one that it requires."""
    sources: list[int] = []
    targets: list[str] = []
    for row, (of_item, names) in enumerate(zip(rows["item"], lists_in_cells(rows["requires"]), strict=True)):
        sources += [row] * len(names)
        targets += [f"{of_item}#{schemas.id_text(name).strip()}" for name in names]
    target_rows = pd.Index(rows["item_id"]).get_indexer(pd.Index(targets, dtype="str"))
    if (target_rows < 0).any():
        row = int((target_rows < 0).argmax())
        raise InputError(
            f"criterion {rows['item_id'].iloc[sources[row]]!r} requires {targets[row]!r}, which is not in the rows; "
            "keep it, or pass rows.drop(columns='requires')"
        )
    return np.column_stack([np.array(sources, dtype=np.int64), target_rows.astype(np.int64)])


def _shares(rows: pd.DataFrame) -> Floats:
    """The share of each row in its item's tree: the product of weight / siblings' weights on its path; NaN without."""
    share = np.full(len(rows), np.nan)
    paths = lists_in_cells(rows["parent"]) if "parent" in rows else [[]] * len(rows)
    of_items, weights = rows["item"].tolist(), rows["points"].tolist()
    trees = {item for item, path in zip(of_items, paths, strict=True) if path}
    chains: dict[int, list[tuple[str | None, str, float]]] = {}  # of each: what is above it, its name, its weight
    weight_of: dict[tuple[str, str | None, str], float] = {}
    for row, (item, path) in enumerate(zip(of_items, paths, strict=True)):
        if item not in trees:
            continue
        try:
            nodes = [(f"leaf {row}", weights[row]), *((str(name), float(weight)) for name, weight in path)]
        except (TypeError, ValueError):
            raise InputError(f"item {item!r}: parent {path!r} is no list of [id, weight]") from None
        above = [*(name for name, _ in nodes[1:]), None]
        chains[row] = [(group_above, *node) for group_above, node in zip(above, nodes, strict=True)]
        for group_above, name, weight in chains[row]:
            if weight_of.setdefault((item, group_above, name), weight) != weight or weight <= 0:
                raise InputError(f"item {item!r}: group {name!r} has two weights, or one that is not positive")
    sums: dict[tuple[str, str | None], float] = {}
    for (item, group_above, _), weight in weight_of.items():
        sums[item, group_above] = sums.get((item, group_above), 0.0) + weight
    for row, chain in chains.items():
        share[row] = np.prod([weight / sums[of_items[row], group_above] for group_above, _, weight in chain])
    return share


def _units(rows: pd.DataFrame, by: str | None) -> tuple[pd.DataFrame, tuple[Ints, Floats]]:
    """The rows of the result, and for each criterion its unit, and its weight there."""
    share, keys = _shares(rows), rows[["item"]]
    if by == "axis":
        if "axis" not in rows:
            raise InputError("by='axis' needs the column axis, which explode_criteria makes")
        keys = keys.assign(axis=rows["axis"].astype(object).where(rows["axis"].notna(), None))
    groups = group(keys, [*keys.columns], may_miss=["axis"])
    heads = keys.iloc[groups.first].reset_index(drop=True).assign(row=groups.first)
    return heads, (groups.codes, np.where(np.isnan(share), rows["points"].to_numpy(dtype=np.float64), share))


def _values(run: pd.DataFrame, rows: pd.DataFrame) -> tuple[Floats, Floats]:
    """How far each criterion is met (0-1, NaN: open), and whether it counts as met for those that require it."""
    positions = pd.Index(rows["item_id"]).get_indexer(pd.Index(run["item_id"].astype("str")))
    value, met = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
    norm, verdict = run["score_norm"].to_numpy(dtype=np.float64), verdict_codes(run["passed"]).astype(np.float64)
    value[positions] = norm
    ends = np.where(np.abs(norm - 0.5) > 0.5 - _TINY, norm.round(), np.nan)  # in part: met or not, nobody said
    met[positions] = np.where(verdict >= 0, verdict, ends)
    return value, met


def _with_required(value: Floats, met: Floats, arrows: Ints) -> tuple[Floats, Floats, Floats]:
    """The least and the greatest value of each criterion, and the value itself, NaN while it is open."""
    source, target = arrows.T
    floor, ceiling = np.ones(len(value)), np.ones(len(value))
    np.minimum.at(floor, source, np.nan_to_num(met, nan=0.0)[target])
    np.minimum.at(ceiling, source, np.nan_to_num(met, nan=1.0)[target])
    low, high = np.nan_to_num(value, nan=0.0) * floor, np.nan_to_num(value, nan=1.0) * ceiling
    return low, high, np.where(low == high, low, np.nan)


def _scored(
    rows: pd.DataFrame, units: pd.DataFrame, members: tuple[Ints, Floats],
    values: tuple[Floats, Floats, Floats], heads: dict[str, Any],
) -> pd.DataFrame:  # fmt: skip
    unit, weight = members
    low, high, value = values

    def total(numbers: Any) -> Floats:
        return np.bincount(unit, weights=numbers, minlength=len(units)).astype(np.float64)

    open_, positive = np.isnan(value), np.maximum(weight, 0.0)
    decided = np.where(open_, 0.0, weight * np.nan_to_num(value))
    possible, possible_scored, earned = total(positive), total(np.where(open_, 0.0, positive)), total(decided)
    ends = np.sort([weight * low, weight * high], axis=0)
    n_open = total(open_).astype(np.int64)

    def share(numbers: Floats, of: Floats) -> Floats:
        shares: Floats = np.divide(numbers, of, out=np.full(len(units), np.nan), where=of > 0)
        return shares

    score = np.where(n_open > 0, np.nan, share(earned, possible))
    lost = np.isnan(score)
    status = np.where(lost, "unscored", "ok")
    reason = np.full(len(units), None, dtype=object)
    reason[lost] = np.where(possible[lost] <= 0, "no_positive_points", "open_criteria")
    first = rows.iloc[units["row"].to_numpy()]
    columns: dict[str, Any] = (
        {key: pd.Categorical([value] * len(units)) for key, value in heads.items()}
        | {"item_id": first["of_item"].array}
        | {key: units[key].array for key in ("axis",) if key in units}
        | {name: first[name].array for name in ("group_id", "system_id") if name in rows}
        | {
            "points": np.where(n_open > 0, np.nan, earned),
            "possible": possible,
            "score": score,
            "low": share(total(ends[0]), possible),
            "high": share(total(ends[1]), possible),
            "renormalised": share(earned, possible_scored),
            "n_criteria": np.bincount(unit, minlength=len(units)),
            "n_scored": np.bincount(unit, minlength=len(units)) - n_open,
            "n_open": n_open,
            "n_open_negative": total(open_ & (weight < 0)).astype(np.int64),
            "coverage": share(total(np.where(open_, 0.0, np.abs(weight))), total(np.abs(weight))),
            "status": schemas.categorical(status.astype(object)),
            "reason": schemas.categorical(reason),
        }
    )
    return pd.DataFrame(columns)
