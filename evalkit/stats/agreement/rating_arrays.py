"""Judgments or votes of one criterion as arrays: what alpha, kappas and variance components are computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.vote_aggregate_rules import AVERAGES
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import Measures, answer_norms, measures, norms
from evalkit.rubrics.scales import Scale, number
from evalkit.stats.agreement.krippendorff import Cells, Metric
from evalkit.stats.intervals import cluster_codes, jackknife_groups
from evalkit.stats.plain_tables import Keys, own_rows
from evalkit.stats.result_tables import CRITERION_KEY, split_rows, with_numbers_as_labels
from evalkit.stats.touched_tables import take_rows
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints, refuse_doubles, small
from evalkit.tables.schemas import JUDGMENT_KEY, VOTE_KEY
from evalkit.tables.ties import labels_among, unknown_ties

_OF_SAMPLES = [*VOTE_KEY, "score", "label", "error", "level", "scale"]
_NEED = [*_OF_SAMPLES, "order", "sample"]
_UNUSED = ("explanation", "reply", "key", "model", "source", "latency_s", "cost_usd")


def checked(judged: Any, form: str, scale: ScaleLike | None = None) -> tuple[pd.DataFrame, Keys]:
    """Judgments (form ``samples``) or votes, without judges of weight 0 and what takes most room; their keys."""
    if isinstance(judged, pd.DataFrame):
        judged = judged[[name for name in judged if name not in _UNUSED]]
    if form == "samples":
        frame, keys = take_rows(judged, "judgments", need=_NEED, function="reliability", scale=scale)
        refuse_doubles(frame, JUDGMENT_KEY, "judgments", may_miss=["order"])
    else:
        need = [*VOTE_KEY, "score", "label", "level", "scale"]
        frame, keys = take_rows(judged, "votes", need=need, function="reliability", scale=scale)
        refuse_doubles(frame, VOTE_KEY, "votes")
    return (frame.loc[~(frame["weight"] <= 0).to_numpy()] if "weight" in frame else frame), keys


@dataclass(frozen=True, slots=True)
class Answered:
    """The answers of all judges on one criterion.

    Attributes
    ----------
    head
        `rubric`, `rubric_version`, `criterion`.
    rows
        The rows of the table.
    form, metric
        ``samples`` or ``votes``, and the metric that alpha takes.
    scale
        What the criterion is measured on.
    cells
        The scored answers to items that two or more judges scored.
    items, judges, scored
        One entry per row, scored or not.
    n_judges
        Judges of the criterion.
    labels
        The answers that have a label.
    clusters
        The cluster of each item.
    n_samples
        The most rows of one judge on one item.
    k
        Samples behind a vote; 0 where the rows are the samples.
    """

    head: dict[str, Any]
    rows: pd.DataFrame
    form: str
    metric: Metric
    scale: Scale
    cells: Cells
    items: Ints
    judges: Ints
    scored: Flags
    n_judges: int
    labels: Cells
    clusters: Ints
    n_samples: int
    k: int

    @property
    def n_items(self) -> int:
        """Items sent to any judge."""
        return int(self.items.max()) + 1

    @property
    def norm(self) -> Floats:
        """`score_norm` of each row."""
        label, score = self.rows["label"], self.rows["score"].to_numpy(dtype=np.float64)
        if self.scale.level != "nominal":  # each score once: there may be millions
            index, values = pd.factorize(score)
            return np.append(norms(values, Measures(np.zeros(len(values), np.int64), (self.scale,))), np.nan)[index]
        texts = np.array([*label.cat.categories, None], dtype=object)[label.cat.codes.to_numpy()]
        return answer_norms(score, texts, measures(self.rows))

    @property
    def drawn(self) -> float:
        """Mean variance of one drawn verdict around its expected score, 0-1; NaN without distributions."""
        if "score_sd" not in self.rows or self.scale.level == "nominal":
            return float("nan")
        spread = self.rows["score_sd"].astype(np.float64)[self.scored] / (self.scale.highest - self.scale.lowest)
        return float((spread**2).mean())

    @property
    def tied(self) -> Flags:
        """Per row: has a vote no label because of a tie?"""
        if self.form == "samples" or "tied" not in self.rows:
            return np.zeros(len(self.rows), dtype=bool)
        return self.rows["tied"].to_numpy(dtype=bool) & self.rows["label"].isna().to_numpy()

    def blocks(self) -> tuple[npt.NDArray[np.float64], Ints]:
        """`score_norm` of the complete items (items × judges × samples), and which items those are."""
        norm = self.norm
        has_norm = self.scored & ~np.isnan(norm)
        cell = _cells(self.items, self.judges, self.n_judges)
        counts = np.bincount(cell[has_norm], minlength=self.n_items * self.n_judges).reshape(self.n_items, -1)
        full = (counts == self.n_samples).all(axis=1)
        del counts
        rows = has_norm & full[self.items]
        cell, norm = cell[rows], norm[rows]
        blocks = norm[np.argsort(cell, kind="stable")].reshape(-1, self.n_judges, self.n_samples)
        return blocks, np.flatnonzero(full).astype(np.int64)


def answered(
    frame: pd.DataFrame, form: str, clusters: ClustersLike | None, *, half: bool = False
) -> Iterator[Answered]:
    """Each rubric, version and criterion of a checked table, in order of first appearance.

    With `half`, a tied vote is in `cells` and `labels` once for each of its labels, as equal shares.

    Raises
    ------
    InputError
        For `half` if it is not known among which labels a tie is.
    """
    units, pieces = split_rows(frame, CRITERION_KEY, clusters)
    for index in pieces:
        rows, names = frame.iloc[index], units.iloc[index]
        rows = with_numbers_as_labels(rows) if form == "votes" else rows
        data = _answered(rows, names, form)
        if half:
            rows, places = _spread(rows)
            wide = _answered(rows, names.iloc[places], form)
            data = replace(data, cells=wide.cells, labels=wide.labels)
        yield data


def _spread(rows: pd.DataFrame) -> tuple[pd.DataFrame, Ints]:
    """The votes with a row for each label of a tie, and where each row came from."""
    label = rows["label"].astype(object).where(rows["label"].notna(), None)
    tied = rows["tied"].to_numpy(dtype=bool) & label.isna().to_numpy() if "tied" in rows else np.zeros(len(rows), bool)
    cells = rows["tied_labels"].astype(object) if "tied_labels" in rows else pd.Series(None, rows.index, dtype=object)
    names = [labels_among(cell) if tie else (text,) for text, cell, tie in zip(label, cells, tied, strict=True)]
    if tied.any() and not all(names):
        raise unknown_ties(sum(not labels for labels in names))
    places = np.repeat(np.arange(len(rows)), [len(labels) for labels in names])
    return rows.iloc[places].assign(label=schemas.categorical([name for labels in names for name in labels])), places


def _answered(rows: pd.DataFrame, clusters: pd.Series, form: str) -> Answered:
    scale = Scale.from_json(str(rows["level"].iloc[0]), str(rows["scale"].iloc[0]))
    score = rows["score"].to_numpy(dtype=np.float64)
    label = rows["label"].cat.codes.to_numpy().astype(np.int64)
    # expected scores lie between codes: their distances count, and their labels are the most probable codes
    expected = "score_sd" in rows and rows["score_sd"].notna().any()
    has_method = form == "votes" and "method" in rows
    averaged = has_method and (rows["method"].isin(AVERAGES).to_numpy() | own_rows(rows, "votes")).all()
    if form == "votes" and scale.level != "nominal" and ("method" not in rows or rows["method"].isna().all()):
        averaged = np.bool_((np.isfinite(score) & (label < 0)).any() or scale.level == "interval")  # of a plain table
    by_score = (expected or averaged) and scale.level != "nominal"
    metric: Metric = "interval" if by_score else scale.level
    value = score
    if form == "votes" and not by_score and scale.level != "nominal":
        value = np.array([*map(number, rows["label"].cat.categories), None], dtype=np.float64)[label]
    scored = label >= 0 if scale.level == "nominal" else np.isfinite(value)
    if form == "samples":
        scored = scored & rows["error"].isna().to_numpy()
    items = small(cluster_codes(rows["item_id"]))
    judges, n_judges = small(cluster_codes(rows["judge"])), rows["judge"].nunique()
    of_item = np.zeros(int(items.max()) + 1, dtype=np.int64)
    of_item[items] = cluster_codes(clusters)
    unit, n_units = jackknife_groups(of_item)
    answer = small(label[scored] if scale.level == "nominal" else _ranks(value[scored]))
    # only the interval metric needs numbers
    value = value[scored] if metric == "interval" else np.broadcast_to(0.0, len(answer))
    labels = cells = Cells(items[scored], judges[scored], answer, value, unit, n_units).paired()
    if form == "votes" or expected:
        labelled, kinds = (label >= 0) & (scored | (form == "votes")), _places(rows["label"], scale)
        labels = Cells(items[labelled], judges[labelled], kinds[labelled], np.zeros(int(labelled.sum())), unit, n_units)
    n_rows = int(np.bincount(_cells(items, judges, n_judges)).max())
    k = int(rows["n_samples"].max()) if form == "votes" and "n_samples" in rows else 0
    head = {key: rows[key].iloc[0] for key in CRITERION_KEY}
    return Answered(head, rows, form, metric, scale, cells, items, judges, scored, n_judges, labels, of_item, n_rows, k)


def _cells(items: Ints, judges: Ints, n_judges: int) -> Ints:
    """A number of each pair of item and judge."""
    cells = items.astype(np.int64)
    cells *= n_judges
    cells += judges
    return cells


def _ranks(value: Floats) -> Ints:
    return pd.factorize(np.round(value, 12), sort=True)[0].astype(np.int64)


def _places(labels: pd.Series, scale: Scale) -> Ints:
    """The place of each label on the scale (interval scales: among the labels that occur); −1 for none."""
    names = labels.cat.categories if scale.level == "interval" or scale.is_open else pd.Index(scale.labels)
    return names.get_indexer(pd.Index(labels.astype(object))).astype(np.int64)
