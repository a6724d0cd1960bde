"""Judgments or votes of one criterion as arrays: what alpha, kappas and variance components are computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit import tables
from evalkit.agreement.alphas import Cells, Metric
from evalkit.intervals import cluster_codes, jackknife_groups
from evalkit.rubrics.measures import Measures, label_norms, measures, nearest_labels, norms
from evalkit.rubrics.scales import Scale
from evalkit.tables import JUDGMENT_KEY, VOTE_KEY
from evalkit.tables.grouping import Flags, Floats, Ints, clusters_of, group, refuse_doubles, tally

_UNUSED = ("explanation", "reply", "key", "model", "source", "latency_s", "cost_usd")

__all__ = ["CRITERION_KEY", "Answered", "Voted", "answered", "checked", "voted"]

CRITERION_KEY = ["rubric", "rubric_version", "criterion"]


def checked(judged: pd.DataFrame, form: str) -> pd.DataFrame:
    """A table of judgments (form ``samples``) or votes, without judges of weight 0 and what takes most room."""
    if isinstance(judged, pd.DataFrame):
        judged = judged[[name for name in judged if name not in _UNUSED]]
    if form == "samples":
        frame = tables.check(judged, "judgments", need=[*JUDGMENT_KEY, "score", "label", "error", "level", "scale"])
        refuse_doubles(frame, JUDGMENT_KEY, "judgments", may_miss=["order"])
    else:
        frame = tables.check(judged, "votes", need=[*VOTE_KEY, "score", "label", "level", "scale"])
        refuse_doubles(frame, VOTE_KEY, "votes")
    return frame.loc[~(frame["weight"] <= 0).to_numpy()] if "weight" in frame else frame


@dataclass(frozen=True, slots=True)
class Answered:
    """One criterion's answers.

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
        The scored answers.
    items, judges, scored, norm
        One entry per row, scored or not.
    names
        The judges.
    labels
        The answers that have a label.
    n_clusters
        Number of clusters.
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
    norm: Floats
    names: tuple[str, ...]
    labels: Cells
    n_clusters: int
    k: int

    @property
    def n_items(self) -> int:
        """Items that any judge was asked about."""
        return int(self.items.max()) + 1

    @property
    def n_judges(self) -> int:
        """Judges that were asked."""
        return len(self.names)

    @property
    def n_samples(self) -> int:
        """The most rows of one judge on one item."""
        return int(np.bincount(self.items * self.n_judges + self.judges).max())

    def blocks(self) -> tuple[npt.NDArray[np.float64], Ints]:
        """`score_norm` of the complete items (items × judges × samples), and which items those are."""
        there = self.scored & ~np.isnan(self.norm)
        cell = self.items * self.n_judges + self.judges
        counts = np.bincount(cell[there], minlength=self.n_items * self.n_judges).reshape(self.n_items, -1)
        full = (counts == self.n_samples).all(axis=1)
        rows = there & full[self.items]
        order = np.argsort(cell[rows], kind="stable")
        blocks = self.norm[rows][order].reshape(-1, self.n_judges, self.n_samples)
        return blocks, np.flatnonzero(full).astype(np.int64)


def answered(frame: pd.DataFrame, form: str, clusters: Mapping[str, Any] | pd.Series | None) -> Iterator[Answered]:
    """Each rubric, version and criterion of a checked table, in order of first appearance."""
    groups = group(frame, CRITERION_KEY)
    units = clusters_of(frame["item_id"], clusters)
    order = np.argsort(groups.codes, kind="stable")
    for at in np.split(order, np.cumsum(groups.count())[:-1]) if len(groups) else []:
        yield _answered(frame.iloc[at], units.iloc[at], form)


def _answered(rows: pd.DataFrame, clusters: pd.Series, form: str) -> Answered:
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
    judges, names = pd.factorize(rows["judge"].astype("str"), sort=True)
    judges = judges.astype(np.int64)
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
    head = {key: rows[key].iloc[0] for key in CRITERION_KEY}
    norm = _norm(rows, score)
    people = tuple(str(name) for name in names)
    return Answered(
        head, rows, form, metric, scale, cells, items, judges, scored, norm, people, labels, int(codes.max()) + 1, k
    )


def _by_score(rules: pd.Series) -> bool:
    return bool(rules.astype("str").str.startswith(("mean", "median")).all())


def _numbers(labels: pd.Series, codes: Ints, scale: Scale) -> Floats:
    if scale.level == "nominal":
        return np.full(len(codes), np.nan)
    values = np.array([*(float(text) for text in labels.cat.categories), np.nan])
    return values[codes]


def _ranks(value: Floats, scored: Flags) -> Ints:
    ranks = np.zeros(len(value), dtype=np.int64)
    ranks[scored] = np.unique(np.round(value[scored], 12), return_inverse=True)[1]
    return ranks


def _norm(rows: pd.DataFrame, score: Floats) -> Floats:
    measured = measures(rows)
    texts = np.array([*rows["label"].cat.categories, None], dtype=object)[rows["label"].cat.codes.to_numpy()]
    norm = np.where(measured.nominal, label_norms(texts, measured), norms(score, measured))
    return np.where(measured.nominal & ~np.isnan(score), score, norm)


@dataclass(frozen=True, slots=True)
class Voted:
    """One vote per judge and item: items × judges.

    Attributes
    ----------
    score
        In rubric units; NaN for none, and on nominal scales.
    label
        Place of the label among the scale's codes (interval: among the values seen); −1 for none or a tie.
    """

    score: npt.NDArray[np.float64]
    label: npt.NDArray[np.int64]


def voted(data: Answered) -> Voted:
    """The votes as they are; samples by their mean and the code nearest to it, nominal ones by their majority."""
    shape = (data.n_items, data.n_judges)
    cell = data.items * data.n_judges + data.judges
    score, label = np.full(shape[0] * shape[1], np.nan), np.full(shape[0] * shape[1], -1, dtype=np.int64)
    if data.form == "votes":
        score[cell] = data.rows["score"].to_numpy(dtype=np.float64)
        label[cell] = _places(data.rows["label"], data.scale)
    elif data.scale.level == "nominal":
        seen = _places(data.rows["label"], data.scale)
        rows = data.scored & (seen >= 0)
        counts = tally(cell[rows], seen[rows], len(label))
        top = counts.modal()
        single = np.bincount(counts.group[top], minlength=len(label)) == 1
        kept = top & single[counts.group]
        label[counts.group[kept]] = counts.value[kept]
    else:
        n = np.bincount(cell[data.scored], minlength=len(score))
        total = np.bincount(cell[data.scored], weights=data.cells.value, minlength=len(score))
        score[n > 0] = total[n > 0] / n[n > 0]
        texts, _ = nearest_labels(score, Measures(np.zeros(len(score), dtype=np.int64), (data.scale,)))
        label = _places(pd.Series(tables.categorical(texts)), data.scale)
    if data.scale.level == "nominal":
        score[:] = np.nan
    return Voted(score.reshape(shape), label.reshape(shape))


def _places(labels: pd.Series, scale: Scale) -> Ints:
    names = list(labels.cat.categories)
    if scale.level == "interval":
        places = list(range(len(names)))
    else:
        order = {name: place for place, name in enumerate(scale.labels)}
        places = [order.get(str(name), -1) for name in names]
    return np.array([*places, -1], dtype=np.int64)[labels.cat.codes.to_numpy()]
