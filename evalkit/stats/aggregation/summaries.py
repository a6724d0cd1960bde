"""`summarize`: one figure over all items, with its interval and its coverage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import MEANS, NO_ENDS
from evalkit.rubrics.scales import Scale
from evalkit.stats.intervals import Interval, effective_clusters, mean_interval, rate_interval, unit_codes
from evalkit.stats.plain_tables import Keys, check_by, check_points, check_rows, names_in, take_rows_by
from evalkit.stats.result_tables import (
    Notes,
    cluster_counts,
    clusters_for,
    note_few_clusters,
    result_table,
    verdict_codes,
    with_id_notes,
)
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Ints, by_id, group, refuse_doubles
from evalkit.tables.items import ItemsLike, as_items

_OPEN = f"{NO_ENDS} (figures on 0-1 need it; the interval of the mean is t's, and with its ends Wilson's)"
_NEED = ["rubric", "rubric_version", "item_id", "score", "score_norm", "passed", "status"]


@with_id_notes
def summarize(
    scores: pd.DataFrame,
    *,
    by: str | Sequence[str] | None = None,
    items: ItemsLike | None = None,
    clusters: ClustersLike | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """One row of figures per criterion (or per rubric), each with its 95 % interval and coverage.

    Parameters
    ----------
    scores
        The table of `aggregate`, of `combine` or of `points`. Or a plain table with `item_id` and
        `score` (or `label`, and `criterion` where there are several); a score that is NA is unscored.
    by
        Further columns to group by, of `scores` or of `items` (``system_id``). With ``judge``, `scores` are votes: a
        row per judge.
    items
        The items; their `group_id`, if there is one, makes the clusters.
    clusters
        item_id -> cluster, instead: items of one conversation, or of equal content. Items without an entry
        are clusters of their own.
    scale
        What a plain table cannot say, as in `vote`. Where the ends are not known, the interval of the mean is t's, and
        figures on 0-1, and `worst` and `best`, are NA.

    Returns
    -------
    DataFrame
        Keyed by `rubric, rubric_version, criterion` (NA for rubric scores) and `by`:

        - `mean` in rubric units, with `low` and `high`; `mean_norm` 0-1, with `norm_low` and `norm_high`:
          Wilson's by cluster errors and t_{G−1}; if all items are equal too, so
          never [1, 1]. Nominal criteria have no mean; the mean of ordinal codes assumes equal steps;
        - `worst` and `best`: `mean_norm` with the unscored items at 0 and at 1: what is unscored is not random;
        - `pass_rate` over the items with a verdict, with `pass_low`, `pass_high` (Wilson's, as of the mean)
          and `n_passed`, `n_verdicts`;
        - `n_items`, `n_scored` (ties included), `n_partial` (status ``partial``), `n_tied` (status ``tied``: a tie
          left no verdict, or no score), `n_mean` (items in the mean: those with a score), `n_clusters` (of scored
          items), `n_clusters_effective` (n²/Σm² for clusters of m items: fewer if some hold most items);
        - `notes`: why an interval is NA, or that one comes from fewer than 10 effective clusters, or mostly
          from one; else NA.

        Of a table of `points`: `mean` with its interval (mean ± t · cluster error; scores have no bound below), then
        the `clipped` mean, whose interval is that of the mean with clipped ends, `below_0` (share of items), `worst`
        and `best` (all open criteria decided against and for the answers), `renormalised` (the mean over scored
        criteria), `n_criteria`, `n_open` and `n_open_negative`; clusters are those of `group_id`.

        Judges are fixed: the intervals are about other items, not other judges.

    Raises
    ------
    InputError
        When columns are missing, an item is in a group twice, or `by` names a column that neither table has.

    Examples
    --------
    >>> scores = schemas.table("scores", {
    ...     "rubric": ["r"] * 4, "rubric_version": ["v1"] * 4, "item_id": list("abcd"), "criterion": ["c"] * 4,
    ...     "score": [0.0, 1.0, 2.0, 2.0], "score_norm": [0.0, 0.5, 1.0, 1.0], "passed": [False, False, True, True],
    ...     "status": ["ok"] * 4, "n_judges": [1] * 4, "n_scored": [1] * 4, "tied": [False] * 4,
    ...     "level": ["ordinal"] * 4, "scale": ['{"codes":[0,1,2],"better":"high","pass_at":2}'] * 4})
    >>> summarize(scores)[["mean", "low", "high", "pass_rate", "n_scored"]].round(3).values.tolist()
    [[1.25, 0.236, 1.908, 0.5, 4.0]]
    """
    by, columns_there = [by] if isinstance(by, str) else [*(() if by is None else by)], names_in(scores)
    check_by("summarize", by, scores)
    if clashes := [name for name in by if name in " ".join(_FIGURES).split()]:
        raise InputError(
            f"by= names the column {clashes[0]!r}, and the result has a column of that name; rename yours, as in "
            f"scores.rename(columns={{{clashes[0]!r}: 'my_{clashes[0]}'}})"
        )
    of_items = None if items is None else as_items(items).set_index("item_id")
    if clusters is None and of_items is not None and "group_id" in of_items:
        clusters = of_items["group_id"]
    if {"possible", "n_open"} <= columns_there:
        return _of_points(scores, by, of_items, clusters)
    name = "scores" if "criterion" in columns_there or not {*_NEED} <= columns_there else "rubric_scores"
    if "judge" in by and "judge" in columns_there:
        name, need = "votes", [*_NEED[:-1], "judge", "tied"]
        frame, user_keys = take_rows_by(scores, name, by, need=need, function="summarize", scale=scale)
        answered = frame[["score", "label"]].notna().any(axis=1) if "label" in frame else frame["score"].notna()
        frame = frame.assign(status=np.where(frame["tied"], "tied", np.where(answered, "ok", "unscored")))
    elif name == "scores":
        frame, user_keys = take_rows_by(scores, name, by, need=_NEED, function="summarize", scale=scale)
    else:
        frame, user_keys = check_rows(scores, name, need=_NEED), Keys()
    frame = _with_columns(frame, by, of_items)
    keys = ["rubric", "rubric_version", *(["criterion"] if name != "rubric_scores" else []), *by]
    refuse_doubles(frame, [*keys, "item_id"], name, may_miss=by)
    groups = group(frame, keys, may_miss=by)
    units = unit_codes(frame["item_id"], clusters_for(frame, clusters))
    figures = [_figures(frame.iloc[rows], units[rows]) for rows in groups.rows()]
    heads = frame.iloc[groups.first]
    columns: dict[str, Any] = {key: heads[key].array for key in keys}
    columns |= {str(name): column for name, column in result_table(figures, *_FIGURES).items()}
    return user_keys.restore(schemas.table("summary", columns))


def _of_points(
    table: pd.DataFrame, by: list[str], items: pd.DataFrame | None, clusters: ClustersLike | None
) -> pd.DataFrame:
    """The mean of `points` per run, axis and `by`."""
    if lost := [name for name in _POINTS if name not in table]:
        raise InputError(f"the table of points has no column {listed(lost)}; pass it as ek.points made it")
    numbers = {name: pd.to_numeric(table[name], errors="coerce") for name in _POINTS[4:8]}
    if wrong := [name for name, column in numbers.items() if (column.isna() & table[name].notna()).any()]:
        raise InputError(f"the table of points has no numbers in {listed(wrong)}; pass it as ek.points made it")
    check_points(table := table.assign(**numbers))
    table = _with_columns(table, by, items)
    parts = [name for name in ("axis",) if name in table and name not in by]
    keys = ["rubric", "rubric_version", "criterion", *parts, *by]
    refuse_doubles(table, [*keys, "item_id"], "points", may_miss=keys)
    groups = group(table, keys, may_miss=keys)
    units = unit_codes(table["item_id"], clusters_for(table, clusters))
    figures = result_table([_point_figures(table.iloc[rows], units[rows]) for rows in groups.rows()], *_OF_POINTS)
    heads = table.iloc[groups.first]
    return pd.DataFrame({key: heads[key].array for key in keys} | {name: figures[name].array for name in figures})


_POINTS = ("rubric", "rubric_version", "criterion", "item_id", "score", "low", "high", "renormalised", "n_criteria",
           "n_open_negative")  # fmt: skip
_OF_POINTS = (
    "number: mean low high clipped clipped_low clipped_high below_0 worst best renormalised",
    "count: n_items n_scored n_criteria n_open n_open_negative n_clusters; number: n_clusters_effective",
    "text: notes",
)


def _point_figures(rows: pd.DataFrame, units: Ints) -> dict[str, Any]:
    score = rows["score"].to_numpy(dtype=np.float64)
    scored = ~np.isnan(score)
    interval = mean_interval(score[scored], units[scored])
    notes: Notes = [f"no interval: {interval.reason}"] if interval.reason else []
    mean = _mean(score)
    clipped = [float(np.clip(end, 0, 1)) for end in (mean, interval.low, interval.high)]
    row: dict[str, Any] = {
        "mean": mean,
        "low": interval.low,
        "high": interval.high,
        **dict(zip(("clipped", "clipped_low", "clipped_high"), clipped, strict=True)),
        "below_0": float((score[scored] < 0).mean()) if scored.any() else np.nan,
        "worst": _mean(rows["low"]),
        "best": _mean(rows["high"]),
        "renormalised": _mean(rows["renormalised"]),
        "n_items": len(rows),
        "n_scored": int(scored.sum()),
        **{name: int(rows[name].sum()) for name in ("n_criteria", "n_open", "n_open_negative")},
        **cluster_counts(units[scored]),
    }
    if interval.reason is None:
        note_few_clusters(units[scored], notes)
    if row["n_open_negative"]:
        open_ = counted(row["n_open_negative"], "open criterion has", "open criteria have")
        notes.append(f"{open_} negative points: to count them as not met, or to leave them out, raises the mean")
    return row | {"notes": notes}


_FIGURES = (
    "number: mean mean_norm low high worst best pass_rate ; count: n_items n_scored n_partial n_tied n_mean",
    "number: norm_low norm_high pass_low pass_high ; count: n_passed n_verdicts n_clusters",
    "number: n_clusters_effective ; text: notes",
)


def _with_columns(frame: pd.DataFrame, by: list[str], items: pd.DataFrame | None) -> pd.DataFrame:
    extra = [column for column in by if column not in frame.columns]
    if lost := [column for column in extra if items is None or column not in items.columns]:
        raise InputError(
            f"by= contains {listed(lost)}, but neither the scores nor the items have a column of that name; pass "
            "items= with that column, or add it to the scores"
        )
    ids = frame["item_id"].astype("str")
    values = {} if items is None else {name: by_id(items[name], ids, "items") for name in extra}
    return frame.assign(**{name: ids.map(column) for name, column in values.items()})


def _figures(rows: pd.DataFrame, units: Ints) -> dict[str, Any]:
    score, norm = (rows[name].to_numpy(dtype=np.float64) for name in ("score", "score_norm"))
    verdict = verdict_codes(rows["passed"])
    passed = verdict[verdict >= 0].astype(np.float64)
    labelled = rows["label"].notna().to_numpy() if "label" in rows else np.zeros(len(rows), dtype=bool)
    level, scale = _scale(rows)
    is_open = scale is not None and scale.is_open and level != "nominal"
    valued, tied = ~np.isnan(score if is_open else norm), (rows["status"] == "tied").to_numpy()
    by_label = level == "nominal" and "label" in rows
    scored = tied | (labelled if by_label else ~np.isnan(score) | valued)
    ends = (0.0, 1.0) if scale is None or level == "nominal" else (scale.lowest, scale.highest)
    plain = mean_interval(score[~np.isnan(score)], units[~np.isnan(score)], bounds=None if is_open else ends)
    unit = Interval.none(NO_ENDS) if is_open else mean_interval(norm[valued], units[valued], bounds=(0.0, 1.0))
    rate, row = rate_interval(passed, units[verdict >= 0]), cluster_counts(units[scored])
    row |= {
        "mean": _mean(score),
        "low": plain.low,
        "high": plain.high,
        "n_items": len(rows),
        "n_mean": valued.sum(),
        "mean_norm": _mean(norm),
        "norm_low": unit.low,
        "norm_high": unit.high,
        "n_scored": scored.sum(),
        "pass_rate": _mean(passed),
        "pass_low": rate.low,
        "pass_high": rate.high,
        "n_passed": int(passed.sum()),
        "n_verdicts": len(passed),
        "n_partial": (rows["status"] == "partial").sum(),
        "n_tied": tied.sum(),
    }
    if not is_open and (valued.any() or not by_label):  # what is not valued at 0, and at 1
        row |= {name: float(np.where(valued, norm, end).mean()) for name, end in (("worst", 0), ("best", 1))}
    notes = _notes(row, plain if is_open else unit, [units[valued], units[verdict >= 0]], by_label=by_label)
    if "reason" in rows and (n_means := int(rows["reason"].eq(MEANS).sum())):
        notes.append(f"no {f'verdict on {n_means} items' if len(passed) else 'pass_rate'}: {MEANS}")
    return row | {"notes": [*notes, _OPEN] if is_open and valued.any() else notes}


def _scale(rows: pd.DataFrame) -> tuple[str | None, Scale | None]:
    if "scale" not in rows or rows["scale"].isna().any():
        return None, None
    level = str(rows["level"].iloc[0])
    return level, Scale.from_json(level, str(rows["scale"].iloc[0]))


def _mean(values: Any) -> float:
    numbers = values[~np.isnan(values)]
    return float(numbers.mean()) if len(numbers) else np.nan


def _notes(row: dict[str, Any], interval: Interval, units: list[Ints], *, by_label: bool) -> Notes:
    """Notes on mean and pass rate: why there is none, and on the clusters of the items that each of them uses."""
    notes, used = Notes(), [clusters for clusters in units if len(clusters)]
    if not row["n_mean"] and (row["n_scored"] or used):  # what is scored has no number
        why = "every scored item is tied" if row["n_tied"] == row["n_scored"] > 0 else "no item has a score"
        notes += [] if by_label else [f"no mean: {why}"]
    elif interval.reason is not None:
        # the pass rate may have an interval (Wilson's), so the note says which figure has none
        return [f"no interval{' of the mean' if row['n_mean'] else ''}: {interval.reason}"]
    if used:
        note_few_clusters(min(used, key=effective_clusters), notes)
    return notes
