"""Reliability: how far the judges agree over the whole corpus."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit import tables
from evalkit.agreement.alphas import Cells, Metric, alpha, pairable, percent_agreement
from evalkit.agreement.components import components, dependability
from evalkit.intervals import FEW_CLUSTERS, Transform, cluster_codes, jackknife, jackknife_groups
from evalkit.rubrics.measures import label_norms, measures, norms
from evalkit.rubrics.scales import Scale
from evalkit.tables import JUDGMENT_KEY, VOTE_KEY
from evalkit.tables.grouping import Floats, Ints, clusters_of, group, refuse_doubles

__all__ = ["reliability"]

_KEYS = ["rubric", "rubric_version", "criterion"]
_COUNTS = ["n_items", "n_pairable", "n_judges", "n_samples", "n_blocks", "n_clusters"]
_FIGURES = ["alpha_single", "alpha_vote", "percent_agreement", "phi"]
_SPREAD = ["spread_item", "spread_judge", "spread_item_judge", "spread_sample"]
_COLUMNS = [
    *_KEYS,
    "form",
    "metric",
    *_COUNTS,
    *[f"{name}{end}" for name in _FIGURES for end in ("", "_low", "_high")],
    *_SPREAD,
    "notes",
]


def reliability(judged: pd.DataFrame, *, clusters: Mapping[str, Any] | pd.Series | None = None) -> pd.DataFrame:
    """How far the judges agree over the corpus, per criterion: alpha, percent agreement, and where the spread is.

    Parameters
    ----------
    judged
        Judgments (the samples count: `alpha_single`, comparable over numbers of samples) or votes (each vote
        is one answer: `alpha_vote`, which rises with the number of samples k). Judges of weight 0 are left out.
    clusters
        item_id -> cluster, for the intervals; the item by default.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion`:

        - `form`: ``samples`` or ``votes``; `metric`: ``nominal``, ``ordinal`` or ``interval``. Votes by mean
          or median take the interval metric on scores, majority votes that of the scale on labels;
        - `alpha_single` or `alpha_vote` (the other is NA): Krippendorff's alpha, 1 perfect, 0 chance. A judge is
          one coder, its samples are shares: o_cc' = Σ_i Σ_{j≠j'} s_ij(c) s_ij'(c') / (m_i − 1);
        - `percent_agreement` 0-1: share of pairs with equal labels;
        - `spread_item`, `spread_judge`, `spread_item_judge`, `spread_sample`: variance components of
          `score_norm` on complete blocks (every judge with all its samples), negative ones set to 0; with one
          sample each the last is part of the third. `phi` 0-1: Φ(J, k) of the jury as it is (Brennan 2001);
        - `_low`, `_high`: 95 % jackknife over clusters; judges are fixed;
        - `n_items`, `n_pairable` (two or more judges scored), `n_judges`, `n_samples` (k), `n_blocks`,
          `n_clusters`; `notes`: why something is NA, and what to mind.

    Raises
    ------
    InputError
        When columns are missing or a row is in the table twice.

    Examples
    --------
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 6, "rubric_version": ["v1"] * 6, "item_id": list("aabbcc"), "criterion": ["c"] * 6,
    ...     "judge": ["x", "y"] * 3, "label": ["p", "p", "q", "q", "p", "q"], "n_samples": [1] * 6,
    ...     "n_scored": [1] * 6, "tied": [False] * 6, "rule": ["majority"] * 6, "level": ["nominal"] * 6,
    ...     "scale": ['{"codes":["p","q"],"better":"high"}'] * 6})
    >>> reliability(votes)[["metric", "alpha_vote", "percent_agreement"]].round(3).values.tolist()
    [['nominal', 0.444, 0.667]]
    """
    form = "samples" if "sample" in getattr(judged, "columns", ()) else "votes"
    frame = _checked(judged, form)
    groups = group(frame, _KEYS)
    units = clusters_of(frame["item_id"], clusters)
    order = np.argsort(groups.codes, kind="stable")
    pieces = np.split(order, np.cumsum(groups.count())[:-1]) if len(groups) else []
    rows = [_row(_data(frame.iloc[at], units.iloc[at], form)) for at in pieces]
    heads = frame.iloc[groups.first]
    columns: dict[str, Any] = {key: heads[key].array for key in _KEYS}
    made = pd.DataFrame(rows, columns=_COLUMNS[len(_KEYS) :])
    for name in ("form", "metric", "notes"):
        columns[name] = tables.categorical(made[name])
    columns |= {name: made[name].astype("int64").array for name in _COUNTS}
    columns |= {name: made[name].astype("float64").array for name in made.columns if name not in columns}
    return pd.DataFrame(columns)[_COLUMNS]


def _checked(judged: pd.DataFrame, form: str) -> pd.DataFrame:
    if form == "samples":
        frame = tables.check(judged, "judgments", need=[*JUDGMENT_KEY, "score", "label", "error", "level", "scale"])
        refuse_doubles(frame, JUDGMENT_KEY, "judgments", may_miss=["order"])
    else:
        frame = tables.check(judged, "votes", need=[*VOTE_KEY, "score", "label", "level", "scale"])
        refuse_doubles(frame, VOTE_KEY, "votes")
    return frame.loc[~(frame["weight"] <= 0).to_numpy()] if "weight" in frame else frame


@dataclass(frozen=True, slots=True)
class _Data:
    """One criterion's answers."""

    form: str
    metric: Metric
    cells: Cells
    judges: Ints  # of all rows, scored or not
    items: Ints
    scored: npt.NDArray[np.bool_]
    norm: Floats
    labels: Cells
    n_clusters: int
    k: int  # samples behind a vote; 0 where the rows are the samples


def _data(rows: pd.DataFrame, clusters: pd.Series, form: str) -> _Data:
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    score = rows["score"].to_numpy(dtype=np.float64)
    label = rows["label"].cat.codes.to_numpy().astype(np.int64)
    by_score = form == "votes" and "rule" in rows and _by_score(rows["rule"]) and scale.level != "nominal"
    metric: Metric = "interval" if by_score else scale.level
    value = score if form == "samples" or by_score else _numbers(rows["label"], label, scale)
    scored = label >= 0 if scale.level == "nominal" else np.isfinite(value)
    if form == "samples":
        scored = scored & rows["error"].isna().to_numpy()
    items = pd.factorize(rows["item_id"], sort=True)[0].astype(np.int64)
    judges = pd.factorize(rows["judge"].astype("str"), sort=True)[0].astype(np.int64)
    codes = cluster_codes(clusters)
    grouped, n_units = jackknife_groups(codes)
    unit = np.zeros(int(items.max()) + 1, dtype=np.int64)
    unit[items] = grouped
    answer = label if scale.level == "nominal" else _ranks(value, scored)
    cells = Cells(items[scored], judges[scored], answer[scored], np.nan_to_num(value[scored]), unit, n_units)
    named = scored if form == "samples" else label >= 0
    kinds = answer if form == "samples" else label
    labels = Cells(items[named], judges[named], kinds[named], np.zeros(int(named.sum())), unit, n_units)
    k = int(rows["n_samples"].max()) if form == "votes" and "n_samples" in rows else 0
    return _Data(form, metric, cells, judges, items, scored, _norm(rows, score), labels, int(codes.max()) + 1, k)


def _by_score(rules: pd.Series) -> bool:
    return bool(rules.astype("str").str.startswith(("mean", "median")).all())


def _numbers(labels: pd.Series, codes: Ints, scale: Scale) -> Floats:
    if scale.level == "nominal":
        return np.full(len(codes), np.nan)
    values = np.array([*(float(text) for text in labels.cat.categories), np.nan])
    return values[codes]


def _ranks(value: Floats, scored: npt.NDArray[np.bool_]) -> Ints:
    ranks = np.zeros(len(value), dtype=np.int64)
    ranks[scored] = np.unique(np.round(value[scored], 12), return_inverse=True)[1]
    return ranks


def _norm(rows: pd.DataFrame, score: Floats) -> Floats:
    measured = measures(rows)
    texts = np.array([*rows["label"].cat.categories, None], dtype=object)[rows["label"].cat.codes.to_numpy()]
    norm = np.where(measured.nominal, label_norms(texts, measured), norms(score, measured))
    return np.where(measured.nominal & ~np.isnan(score), score, norm)


def _row(data: _Data) -> dict[str, Any]:
    n_items, n_judges = int(data.items.max()) + 1, int(data.judges.max()) + 1
    notes: list[str] = []
    row: dict[str, Any] = dict.fromkeys([name for name in _COLUMNS if name not in _KEYS], np.nan)
    row |= {"form": data.form, "metric": data.metric, "n_items": n_items, "n_judges": n_judges}
    row |= {"n_samples": int(np.bincount(data.items * n_judges + data.judges).max()), "n_clusters": data.n_clusters}
    row["n_pairable"] = int(pairable(data.cells.item, data.cells.judge, n_items).sum())
    name = "alpha_single" if data.form == "samples" else "alpha_vote"
    if row["n_pairable"] == 0:
        notes.append("no item was scored by two judges" if n_judges > 1 else "one judge: nothing to compare")
    else:
        row |= _figure(name, alpha(data.cells, data.metric), "atanh", notes, "nothing varies")
        row |= _figure("percent_agreement", percent_agreement(data.labels), "logit", notes, "no item has two labels")
    row |= _spread(data, n_items, n_judges, row["n_samples"], notes)
    row["n_samples"] = data.k or row["n_samples"]
    if data.n_clusters < FEW_CLUSTERS:
        notes.append(f"only {data.n_clusters} clusters")
    row["notes"] = "; ".join(notes) or None
    return row


def _figure(name: str, values: Floats, transform: Transform, notes: list[str], why: str) -> dict[str, float]:
    """A figure with its interval; `values` is the figure on all items, then without each unit."""
    if np.isnan(values[0]):
        notes.append(f"{name}: {why}")
        return {name: np.nan}
    interval = jackknife(float(values[0]), values[1:], transform=transform)
    if interval.reason:
        notes.append(f"no interval of {name}: {interval.reason}")
    return {name: float(values[0]), f"{name}_low": interval.low, f"{name}_high": interval.high}


def _spread(data: _Data, n_items: int, n_judges: int, k: int, notes: list[str]) -> dict[str, Any]:
    there = data.scored & ~np.isnan(data.norm)
    cell = data.items * n_judges + data.judges
    full = (np.bincount(cell[there], minlength=n_items * n_judges) == k).reshape(n_items, n_judges).all(axis=1)
    n_blocks = int(full.sum())
    if n_judges < 2 or n_blocks < 2:
        why = "one judge" if n_judges < 2 else "nothing on 0-1" if np.isnan(data.norm).all() else "no complete blocks"
        notes.append(f"spread: {why}")
        return {"n_blocks": n_blocks}
    rows = there & full[data.items]
    order = np.argsort(cell[rows], kind="stable")
    blocks = data.norm[rows][order].reshape(n_blocks, n_judges, k)
    found = components(blocks, data.cells.unit[np.flatnonzero(full)], data.cells.n_units)
    if found.cut[0]:
        notes.append("spread: a negative component was set to 0")
    parts = [found.item, found.judge, found.both, found.sample]
    row: dict[str, Any] = {name: float(part[0]) for name, part in zip(_SPREAD, parts, strict=True)}
    phi = _figure("phi", dependability(found, n_judges, k), "logit", notes, "nothing varies")
    return row | phi | {"n_blocks": n_blocks}
