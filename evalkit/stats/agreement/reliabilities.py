"""Reliability: how far the judges agree over the whole corpus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit.core.vote_aggregate_rules import AVERAGES
from evalkit.errors import InputError
from evalkit.rubrics.given_scales import ScaleLike
from evalkit.rubrics.row_scales import NO_ENDS, Measures, answer_norms, measures, norms
from evalkit.rubrics.scales import Scale, number
from evalkit.stats.agreement.krippendorff import (
    Cells,
    Labels,
    Metric,
    alpha,
    fleiss_kappa,
    gwet_ac,
    pairable,
    percent_agreement,
    quadratic_weights,
)
from evalkit.stats.intervals import cluster_codes, jackknife_groups, unit_sums, without_each
from evalkit.stats.plain_tables import Keys, names_in, own_rows, take_rows
from evalkit.stats.result_tables import (
    CRITERION_KEY,
    Note,
    Notes,
    check_whole_numbers,
    cluster_counts,
    interval_columns,
    jackknife_row,
    note_few_clusters,
    result_table,
    split_rows,
    with_id_notes,
    with_numbers_as_labels,
)
from evalkit.stats.voting import vote
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints, small
from evalkit.tables.schemas import VOTE_KEY

_SPREAD = ["spread_item", "spread_judge", "spread_item_judge", "spread_sample"]
_COLUMNS = (
    CRITERION_KEY,
    "text: form metric; count: n_items n_pairable n_judges n_samples n_blocks n_clusters",
    "number: n_clusters_effective alpha_single± alpha_vote± percent_agreement± phi± spread_item",
    "number: spread_judge spread_item_judge spread_sample spread_draw; count: n_tied",
)
_OTHER_ALPHA = {
    "samples": Note("not computed from judgments: pass full=True, or their votes", ("alpha_vote",)),
    "votes": Note("votes do not hold the samples: pass judgments", ("alpha_single",)),
}
_FULL = "text: vote_metric; count: n_complete; number: fleiss_kappa± gwet_ac1± gwet_ac2±"


@with_id_notes
def reliability(
    judged: pd.DataFrame,
    *,
    full: bool = False,
    ks: Sequence[int] | None = None,
    clusters: ClustersLike | None = None,
    scale: ScaleLike | None = None,
) -> pd.DataFrame:
    """How far the judges agree over the corpus, per criterion: alpha, percent agreement, and where the spread is.

    Parameters
    ----------
    judged
        Judgments (the samples count: `alpha_single`) or votes (each is one answer: `alpha_vote`, which rises with the
        number of samples k). Judges of weight 0 are left out. A plain table needs `item_id`, `judge`, and `score` or
        `label`; with a column `sample` it counts as judgments.
    full
        Also `alpha_vote` from judgments, and the figures on labels: Fleiss' kappa and Gwet's AC1 and AC2.
    ks
        Numbers of samples, for judgments: a row for each, in which `phi` is that of `k` samples of every judge. Above
        `n_samples` it is extrapolated. For Φ of one judge alone, pass its judgments.
    clusters, scale
        item_id -> cluster, for the intervals (the item by default); what a plain table cannot say, as in `vote`.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion` (and `k`, with `ks`):

        - `form`: ``samples`` or ``votes``; `metric`: ``nominal``, ``ordinal`` or ``interval``. Expected scores and
          votes by mean or median take the interval metric on scores, others that of the scale on labels;
        - `alpha_single` or `alpha_vote` (the other is NA): Krippendorff's alpha, 1 perfect, 0 chance. A judge is
          one coder, its samples are shares: o_cc' = Σ_i Σ_{j≠j'} s_ij(c) s_ij'(c') / (m_i − 1);
        - `percent_agreement` 0-1: share of pairs of judges with equal labels, of votes or of samples;
        - `spread_item`, `spread_judge`, `spread_item_judge`, `spread_sample`: variance components of `score_norm` on
          complete blocks (every judge with all its samples), negative ones set to 0; with one sample each the last is
          part of the third. `phi` 0-1: Φ(J, k) of the jury (Brennan 2001; of one judge the Spearman-Brown formula);
        - `spread_draw`: of expected scores, the mean variance of one drawn verdict around them;
        - `_low`, `_high`: 95 % jackknife over clusters; judges are fixed;
        - `n_items`, `n_pairable` (two or more judges scored), `n_judges`, `n_samples` (k), `n_blocks`,
          `n_clusters`, `n_clusters_effective`; `n_tied` votes without a label; `notes`. As alpha is defined, what is
          tied or unscored is left out.

        With `full`, of one vote per judge, `vote_metric` being its metric: `alpha_vote`; `fleiss_kappa` on the
        `n_complete` items that all judges gave a label (Fleiss 1971); `gwet_ac1` (Gwet 2008), `gwet_ac2` with quadratic
        weights between ordinal codes (Gwet 2014, ch. 5): less moved by a rare level, 1 where nothing varies, where
        kappa and alpha are NA. All three are NA on interval scales.

    Raises
    ------
    InputError
        When columns are missing, a row is in the table twice, or `ks` is given for votes.
    ConfigError
        For a number of samples under 1.

    Examples
    --------
    >>> votes = pd.DataFrame({"item_id": list("aabbcc"), "judge": ["x", "y"] * 3, "label": list("ppqqpq")})
    >>> reliability(votes, scale=["p", "q"])[["metric", "alpha_vote", "percent_agreement"]].round(3).values.tolist()
    [['ordinal', 0.444, 0.667]]
    """
    form = "samples" if "sample" in names_in(judged) else "votes"
    ks = None if ks is None else [*ks] if isinstance(ks, Iterable) else [ks]
    check_whole_numbers("ks", [1] if ks is None else ks)
    frame, keys = checked(judged, form, scale=scale)
    if ks is not None and form == "votes":
        raise InputError("reliability: ks= needs judgments with a column `sample`, and these are votes; pass judgments")
    by_vote = {}
    if full:
        votes = checked(vote(frame), "votes")[0] if form == "samples" else frame
        by_vote = {tuple(data.head.values()): data for data in answered(votes, "votes", clusters)}
    rows = [
        data.head | row | {"n_tied": int(data.tied.sum())}
        for data in answered(frame, form, clusters)
        for row in _by_k(data, _row(data, by_vote.get(tuple(data.head.values()))), ks)
    ]
    added = [_FULL] * full + ["count: k"] * (ks is not None)
    return keys.restore(result_table(rows, *_COLUMNS, *added, "text: notes"))


def _by_k(data: Answered, row: dict[str, Any], ks: Sequence[int] | None) -> Iterator[dict[str, Any]]:
    """The row of the recorded samples, or one for each number of samples."""
    if ks is None:
        yield row
    for k in ks or ():
        notes: Notes = []
        spread = dict.fromkeys(interval_columns(["phi"]), np.nan) | _spread(data, notes, k)
        yield row | spread | {"k": k, "notes": [*dict.fromkeys([*row["notes"], *notes])]}


def _row(data: Answered, votes: Answered | None) -> dict[str, Any]:
    notes: Notes = []
    row: dict[str, Any] = cluster_counts(data.clusters) | {
        "form": data.form,
        "metric": data.metric,
        "n_items": data.n_items,
        "n_judges": data.n_judges,
        "n_samples": data.k or data.n_samples,
        "n_pairable": int(pairable(data.cells.item, data.cells.judge, data.n_items).sum()),
        "spread_draw": data.drawn,
        "notes": notes,
    }
    name = "alpha_single" if data.form == "samples" else "alpha_vote"
    if row["n_pairable"] == 0:
        notes.append("no item was scored by two judges" if data.n_judges > 1 else "one judge: nothing to compare")
    else:
        row |= jackknife_row(name, alpha(data.cells, data.metric), "atanh", notes, "nothing varies", data.clusters)
        shares = percent_agreement(data.labels)
        row |= jackknife_row("percent_agreement", shares, "logit", notes, "no item has two labels", data.clusters)
        if data.form == "votes" or votes is None:
            # answers of people have no samples
            notes += [_OTHER_ALPHA[data.form]] if data.form == "samples" or data.k > 0 else []
    row |= _spread(data, notes, data.n_samples)
    if votes is not None:
        row |= _full(data, votes, notes, pairs=row["n_pairable"] > 0)
    note_few_clusters(data.clusters, notes)
    return row


def _spread(data: Answered, notes: Notes, k: int) -> dict[str, Any]:
    """Variance components of the complete blocks, and Φ of k samples."""
    blocks, items = data.blocks()
    row: dict[str, Any] = {"n_blocks": len(blocks)}
    lone = data.n_judges < 2 and data.n_samples < 2
    if lone or len(blocks) < 2:
        nothing = bool(np.isnan(data.norm).all())
        open_ends = data.scale.is_open and data.scale.level != "nominal"
        no_norm = NO_ENDS if open_ends else "nothing has a score on 0-1"
        why = "one judge" if lone else no_norm if nothing else "no complete blocks"
        notes.append(Note(why, ("spread",)))
        return row
    variances = components(blocks, data.cells.unit[items], data.cells.n_units)
    if variances.cut[0]:
        notes.append(Note("a negative variance component was set to 0", ("spread",)))
    parts = [variances.item, variances.judge, variances.both, variances.sample]
    row |= {name: float(variance[0]) for name, variance in zip(_SPREAD, parts, strict=True)}
    if k != data.n_samples and data.n_samples < 2:
        notes.append(Note("of another number of samples: needs judgments of two or more", ("phi",)))
        return row
    values = dependability(variances, data.n_judges, k)
    return row | jackknife_row("phi", values, "logit", notes, "nothing varies", data.clusters)


def _full(data: Answered, votes: Answered, notes: Notes, *, pairs: bool) -> dict[str, Any]:
    """Figures on one vote per judge; alpha on votes only if `data` are samples."""
    cells, scale = votes.labels, data.scale
    counts = np.zeros((votes.n_items, int(cells.answer.max(initial=-1)) + 1 if scale.is_open else len(scale)))
    if scale.level != "interval":
        np.add.at(counts, (cells.item, cells.answer), 1.0)
    labels = Labels(counts, votes.n_judges, cells.unit, cells.n_units)
    n_labels = np.bincount(cells.item, minlength=votes.n_items)
    row: dict[str, Any] = {"vote_metric": votes.metric, "n_complete": int((n_labels == votes.n_judges).sum())}
    if not pairs:
        return row
    if data.form == "samples":
        values = alpha(votes.cells, votes.metric)
        why = "nothing varies, or no item has two votes"
        row |= jackknife_row("alpha_vote", values, "atanh", notes, why, data.clusters)
    if scale.level == "interval":
        notes.append(Note("an interval scale has no levels to count", ("fleiss_kappa", "gwet_ac1", "gwet_ac2")))
        return row
    why = "nothing varies" if row["n_complete"] else "no item has a label of every judge"
    row |= jackknife_row("fleiss_kappa", fleiss_kappa(labels), "atanh", notes, why, data.clusters)
    if scale.is_open:
        notes.append(Note("the levels of the scale are not known: pass scale=", ("gwet_ac1",)))
        return row
    weights = {"gwet_ac1": np.eye(len(scale))}
    if scale.level == "ordinal":
        weights["gwet_ac2"] = quadratic_weights(np.array([float(code) for code in scale.codes]))
    for name, near in weights.items():
        row |= jackknife_row(name, gwet_ac(labels, near), "atanh", notes, "no item has two labels", data.clusters)
    return row


_NEED = [*VOTE_KEY, "score", "label", "level", "scale"]
_UNUSED = ("explanation", "reply", "key", "model", "source", "latency_s", "cost_usd")


def checked(judged: Any, form: str, scale: ScaleLike | None = None) -> tuple[pd.DataFrame, Keys]:
    """Judgments (form ``samples``) or votes, without judges of weight 0 and what takes most room; their keys."""
    if isinstance(judged, pd.DataFrame):
        judged = judged[[name for name in judged if name not in _UNUSED]]
    name, further = ("judgments", ["error", "order", "sample"]) if form == "samples" else ("votes", [])
    frame, keys = take_rows(judged, name, need=[*_NEED, *further], function="reliability", scale=scale)
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


def answered(frame: pd.DataFrame, form: str, clusters: ClustersLike | None) -> Iterator[Answered]:
    """Each rubric, version and criterion of a checked table, in order of first appearance."""
    units, pieces = split_rows(frame, CRITERION_KEY, clusters)
    for index in pieces:
        rows, names = frame.iloc[index], units.iloc[index]
        yield _answered(with_numbers_as_labels(rows) if form == "votes" else rows, names, form)


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
    answer = small(
        label[scored]
        if scale.level == "nominal"
        else pd.factorize(np.round(value[scored], 12), sort=True)[0].astype(np.int64)
    )
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


def _places(labels: pd.Series, scale: Scale) -> Ints:
    """The place of each label on the scale (interval scales: among the labels that occur); −1 for none."""
    names = labels.cat.categories if scale.level == "interval" or scale.is_open else pd.Index(scale.labels)
    return names.get_indexer(pd.Index(labels.astype(object))).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of item × judge × (sample within), one entry per resample.

    Attributes
    ----------
    item, judge, both, sample
        Estimates from the expected mean squares, negative ones set to 0. `sample` is NaN at one sample
        each: then it is part of `both`. `judge` and `both` are NaN of one judge: then they are part of `item`.
    cut
        Was a negative estimate set to 0?
    """

    item: Floats
    judge: Floats
    both: Floats
    sample: Floats
    cut: npt.NDArray[np.bool_]


def components(blocks: npt.NDArray[np.float64], unit: Ints, n_units: int) -> Components:
    """Components on all complete blocks, then without each unit.

    Parameters
    ----------
    blocks
        items × judges × samples, nothing missing; two judges or more, or one with two samples or more.
    unit
        The group that each item is left out with.
    """
    _, n_judges, n_samples = blocks.shape
    blocks = blocks - blocks.mean() if len(blocks) else blocks
    cell = blocks.mean(axis=2)
    item = cell.mean(axis=1)
    inside = ((blocks - cell[:, :, None]) ** 2).sum(axis=(1, 2))
    values = np.column_stack([np.ones(len(item)), item**2, (cell**2).sum(axis=1), inside, cell])
    n, items, cells, within, *_ = (rows := without_each(unit_sums(values, unit, n_units))).T
    judge_means = rows[:, 4:] / np.maximum(n, 1)[:, None]
    grand = judge_means.mean(axis=1)
    has_two = n > 1.5
    free = np.where(has_two, n - 1, np.nan)
    square_item = n_judges * n_samples * (items - n * grand**2) / free
    free_judges = n_judges - 1 if n_judges > 1 else np.nan
    square_judge = n_samples * n * ((judge_means - grand[:, None]) ** 2).sum(axis=1) / free_judges
    residual = cells - n_judges * items - n * (judge_means**2).sum(axis=1) + n_judges * n * grand**2
    square_both = n_samples * residual / (free * free_judges)
    repeated = n_samples > 1
    square_sample = within / (np.where(has_two, n, np.nan) * n_judges * max(n_samples - 1, 1))
    error = square_sample if repeated else np.zeros(len(n))
    raw = [
        (square_item - (square_both if n_judges > 1 else error)) / (n_judges * n_samples),
        (square_judge - square_both) / (n_samples * np.where(has_two, n, np.nan)),
        (square_both - error) / n_samples,
    ]
    cut = np.any([variance < -1e-12 for variance in raw], axis=0)
    item_, judge_, both_ = (np.where(np.isnan(variance), np.nan, np.maximum(variance, 0.0)) for variance in raw)
    return Components(item_, judge_, both_, square_sample if repeated else np.full(len(n), np.nan), cut)


def dependability(found: Components, n_judges: int, n_samples: int) -> Floats:
    """Φ(J, k) = σ²_i / (σ²_i + σ²_j/J + σ²_ij/J + σ²_e/(Jk)); NaN where nothing varies.

    How far the mean of J judges with k samples each depends on the item alone; for a number of samples other
    than that observed it needs repeated samples.
    """
    error = np.nan_to_num(found.sample) / (n_judges * n_samples)
    noise = np.nan_to_num(found.judge) / n_judges + np.nan_to_num(found.both) / n_judges + error
    total = found.item + noise
    return np.asarray(np.divide(found.item, total, out=np.full(len(total), np.nan), where=total > 1e-15))
