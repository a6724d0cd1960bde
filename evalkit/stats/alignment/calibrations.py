"""Calibrations: from a judge's scores to what people would say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from evalkit.core.settings import check_choice
from evalkit.errors import ConfigError, InputError, listed
from evalkit.rubrics.given_scales import same_scale
from evalkit.rubrics.human_labels import LabelsLike
from evalkit.rubrics.row_scales import NO_ENDS
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment import corpus_estimates as estimates
from evalkit.stats.alignment.corpus_estimates import FigureOption, Fit
from evalkit.stats.alignment.label_draws import label_weights
from evalkit.stats.alignment.label_splits import count_look
from evalkit.stats.alignment.label_values import JudgedLike, Panel, Taken, taken
from evalkit.stats.intervals import mean_interval
from evalkit.stats.result_tables import (
    JUDGE_KEY,
    cluster_counts,
    figure_row,
    first_that_holds,
    joined,
    result_table,
    with_id_notes,
)
from evalkit.stats.significance import holm
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Flags, Floats, Ints

ENOUGH_FOR_SETS, ENOUGH_A_SCORE = 100, 10
_MAP_FOLDS, _LEVEL, _NOTHING, _SAME = 25, 0.05, 1e-20, 1e-12
_TABLE = (
    JUDGE_KEY,
    "text: figure method; number: error_raw error residual; count: n_labelled n_clusters",
    "number: n_clusters_effective; text: notes",
)
_POINTS = (JUDGE_KEY, "number: score; count: n_labelled; number: people± calibrated")
_CHECK = (
    JUDGE_KEY,
    "number: residual± margin p p_holm; text: status; count: n_labelled n_clusters; number: n_clusters_effective",
    "text: notes",
)
_METHODS: dict[Fit, str] = {estimates.isotonic_fit: "isotonic", estimates.linear_fit: "linear"}
_Map = tuple[list[float], list[float]]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Maps from a judge's scores to what people would say, fitted on labels.

    A map holds for the items that it was fitted on and for others like them. On other items, of a better
    system say, it can be wrong by as much as the raw scores: use `check`, or `corpus_estimate` with labels there.

    Attributes
    ----------
    table
        One row per `rubric, rubric_version, criterion, judge`: `figure`, `method` (``linear`` or ``isotonic``; NA
        without map); `error_raw` and `error`, the mean squared difference between the labels and the judge's score,
        before and after calibration by ten folds of clusters, divided by the squared width of the scale (the Brier
        score for passes); `residual`, the .9 quantile of the absolute difference after it, in units of the scale
        (NA under 100 labels); `n_labelled`, `n_clusters`, `notes`.
    points
        One row per map and distinct score: `score`, `n_labelled`, the `people`'s mean with its 95 % interval, and what
        the score is mapped to (`calibrated`).
    figure
        ``score`` (rubric units) or ``passed`` (the share of people who pass).
    maps
        (criterion, judge) -> scores in ascending order, and the values at them; straight lines between.
    date
        When it was fitted, as YYYY-MM-DD (UTC).
    key
        A hash of rubric, judges, templates, number of samples and rules; None if they are not known.
    errors
        (criterion, judge) -> the standard error of each value of the map, from which `check` knows how sure it is; of a
        line, one more number: the correlation of the errors at both ends.
    scales
        Criterion -> its scale; the maps hold for no other one.
    """

    table: pd.DataFrame
    points: pd.DataFrame
    figure: FigureOption
    maps: Mapping[tuple[str, str], _Map]
    date: str
    key: str | None = None
    fitted_on: frozenset[tuple[str, str]] = field(default=frozenset(), repr=False)
    errors: Mapping[tuple[str, str], list[float]] = field(default_factory=dict, repr=False)
    scales: Mapping[str, Scale] = field(default_factory=dict, repr=False)

    def apply(self, judged: JudgedLike) -> pd.DataFrame:
        """Votes or scores with a column `calibrated`: points without an interval; NA without map or score.

        Raises
        ------
        InputError
            When the table is of another rubric, version, criterion or scale, or of none of the judges of the
            calibration.
        """
        tables = self._applied(judged)
        return tables.keys.restore(tables.frame)

    def _applied(self, judged: JudgedLike) -> Taken:
        tables = _taken(judged, schemas.empty("labels"))
        frame = tables.frame
        self._check_same(frame)
        score = frame["score"].to_numpy(dtype=np.float64)
        criterion, judge = (frame[name].astype(str).to_numpy() for name in ("criterion", "judge"))
        calibrated = np.full(len(frame), np.nan)
        for (of_criterion, of_judge), (scores, values) in self.maps.items():
            rows = (criterion == of_criterion) & (judge == of_judge) & ~np.isnan(score)
            calibrated[rows] = np.interp(score[rows], scores, values)
        return replace(tables, frame=frame.assign(calibrated=calibrated))

    def sets(self, judged: JudgedLike) -> pd.DataFrame:
        """The codes that people may give to each item: each set contains a label with a probability of .9 or more.

        Cross-conformal: all codes whose distance to the calibrated score is at most `residual`. The probability is that
        over items like those labelled, not that of one item (marginal coverage).

        Returns
        -------
        DataFrame
            One row per `item_id, criterion, judge`: `calibrated`, `codes` (such as ``1, 2``; NA without score) and
            `n_codes`.

        Raises
        ------
        InputError
            For under 100 labels, or as `apply`.

        References
        ----------
        Vovk, V. (2015), Cross-conformal predictors, Annals of Mathematics and Artificial Intelligence 74.
        """
        reach = self.table.set_index(["criterion", "judge"])["residual"].dropna()
        if reach.empty:
            raise InputError(f"sets of codes need {ENOUGH_FOR_SETS} labelled items of a criterion; label more items")
        tables, rows = self._applied(judged), []
        names = ("item_id", "criterion", "judge", "calibrated", "level", "scale")
        for item, criterion, judge, value, level, text in zip(
            *(tables.frame[name].tolist() for name in names), strict=True
        ):
            far = reach.get((criterion, judge), math.nan)
            if math.isnan(far):
                continue
            scale = Scale.from_json(level, text)
            allowed = (0, 1) if self.figure == "passed" else scale.codes
            codes = [code for code in allowed if abs(float(code) - value) <= far + 1e-9]
            cell = ", ".join(map(str, codes)) or None
            head = {"item_id": item, "criterion": criterion, "judge": judge}
            rows.append(head | {"calibrated": value, "codes": cell, "n_codes": len(codes)})
        types = "text: item_id criterion judge; number: calibrated; text: codes; count: n_codes"
        return tables.keys.restore(result_table(rows, types).astype({"item_id": "str"}))

    @with_id_notes
    def check(
        self,
        judged: JudgedLike,
        labels: LabelsLike | None = None,
        *,
        margin: float = 0.05,
        clusters: ClustersLike | None = None,
    ) -> pd.DataFrame:
        """Whether the maps hold on other items, from fresh labels of at least 30 of them.

        Parameters
        ----------
        judged, labels, clusters
            As for `calibrate`; labels of items that the maps were fitted on are left out.
        margin
            The mean difference that is accepted, as a share of the scale's width.

        Returns
        -------
        DataFrame
            One row per map: `residual`, the mean of label − calibrated score as a share of the width, with its 95 %
            interval, which allows for the labels that the map itself was fitted on; `p` of a residual of 0, and
            `p_holm`, adjusted over the maps of this call; `status`: ``holds`` (the interval is within ± margin), ``does
            not hold`` (`p_holm` is at most .05), else ``not known``, and `notes` has the half width; `n_labelled`,
            `n_clusters`, `n_clusters_effective`.

        Raises
        ------
        InputError
            As `apply`, and for labels of other criteria.
        ConfigError
            For a margin that is not between 0 and 1.
        """
        if not 0 < margin < 1:
            raise ConfigError(f"margin must be between 0 and 1, a share of the scale's width, not {margin!r}")
        tables = _taken(judged, labels, clusters)
        self._check_same(tables.frame)
        pairs = tables.people[["item_id", "criterion"]].astype(str).itertuples(index=False, name=None)
        further = tables.people.loc[[pair not in self.fitted_on for pair in pairs]]
        tables, dev = estimates.with_fresh_labels(replace(tables, people=further))
        rows: list[dict[str, Any]] = []
        for panel in tables.panels(self.figure):
            for judge in panel.judges:
                key = str(panel.head["criterion"]), judge
                if key not in self.maps:
                    continue
                f, _, y, weights, unit = _labelled(panel, judge, tables.people, dev, self.figure)
                width = float(np.ptp(panel.bounds(self.figure)))
                rest = (y - np.interp(f, *self.maps[key])) / width
                spread = map_variance(f, weights, self.maps[key], self.errors[key]) / width**2
                row = {"margin": margin, "n_labelled": len(y), "notes": tables.note} | cluster_counts(unit)
                rows.append(panel.head | {"judge": judge} | row | residual_row(rest, weights, unit, spread))
        table = result_table(rows, *_CHECK)
        table["p_holm"] = holm(table["p"].to_numpy())
        status, notes = zip(*map(_status, table.to_dict("records")), strict=True) if rows else ((), ())
        return table.assign(status=schemas.categorical(status), notes=schemas.categorical(notes))

    def _check_same(self, frame: pd.DataFrame) -> None:
        fitted, judged = (set(_versions(table)) for table in (self.table, frame))
        if judged - fitted:
            raise InputError(
                f"the calibration was fitted on rubric {listed(sorted(fitted))}, and this table is of "
                f"{listed(sorted(judged - fitted))}; a calibration holds for one version: calibrate again"
            )
        for name, level, text in frame[["criterion", "level", "scale"]].drop_duplicates().astype(str).to_numpy():
            if name not in self.scales:
                raise InputError(
                    f"the calibration was fitted on criterion {listed(self.scales)}, and this table has {name!r}; "
                    "pass the rows of the others"
                )
            if not same_scale(Scale.from_json(level, text), self.scales[name]):
                raise InputError(
                    f"the calibration was fitted on the scale {self.scales[name].to_json()} of criterion {name!r}, "
                    f"and this table has {text}; calibrate again"
                )
        judges = set(frame["judge"].astype(str))
        if len(frame) and not judges & {judge for _, judge in self.maps}:
            raise InputError(
                f"the calibration has no map for judge {listed(sorted(judges))}; it has maps for "
                f"{listed(sorted({judge for _, judge in self.maps})) or 'none'}"
            )

    def to_dict(self) -> dict[str, Any]:
        """What a profile keeps of it."""
        maps = []
        for row in self.table.to_dict("records"):
            if (key := (row["criterion"], row["judge"])) in self.maps:
                head = {name: str(row[name]) for name in ("criterion", "judge", "method")}
                lists = zip(("scores", "values", "errors"), (*self.maps[key], self.errors[key]), strict=True)
                numbers = {name: [round(number, 6) for number in values] for name, values in lists}
                maps.append({**head, "n_labelled": int(row["n_labelled"]), **numbers})
        return {"date": self.date, "figure": self.figure, "key": self.key, "maps": maps}


@with_id_notes
def fit_calibration(
    judged: JudgedLike, labels: LabelsLike | None, *, figure: FigureOption = "score",
    clusters: ClustersLike | None = None, cache: str | Path | None = None,
) -> Calibration:  # fmt: skip
    """The maps of all criteria and judges; see `evalkit.evaluation.calibrate`."""
    check_choice("figure", figure, get_args(FigureOption))
    tables, dev = estimates.with_fresh_labels(_taken(judged, labels, clusters))
    fresh = tables.people
    rows: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    maps: dict[tuple[str, str], _Map] = {}
    errors: dict[tuple[str, str], list[float]] = {}
    used: set[tuple[str, str]] = set()
    scales: dict[str, Scale] = {}
    for panel in tables.panels(figure):
        scales[str(panel.head["criterion"])] = panel.scale
        used |= {(str(item), str(panel.head["criterion"])) for item in panel.items[panel.annotators.labelled]}
        for judge in panel.judges:
            head = panel.head | {"judge": judge}
            row, new_points, fitted = _fitted(panel, judge, fresh, dev, figure)
            row["notes"] = [tables.note, row.get("notes"), _unlike(panel, judge, fresh, dev)]
            rows.append(head | {"figure": figure} | row)
            points += [head | point for point in new_points]
            if fitted is not None:
                key = str(panel.head["criterion"]), judge
                maps[key], errors[key] = fitted
    table = result_table(rows, *_TABLE)
    table = count_look(table, fresh, cache) if "part" in fresh else table
    return Calibration(
        table,
        result_table(points, *_POINTS),
        figure,
        maps,
        date=datetime.now(UTC).date().isoformat(),
        fitted_on=frozenset(used),
        errors=errors,
        scales=scales,
    )


def _taken(judged: JudgedLike, labels: LabelsLike | None, clusters: ClustersLike | None = None) -> Taken:
    """As `taken`; an evaluation stands for its scores, which are what a profile gives."""
    return taken(
        judged, labels, "calibrate", clusters, of="votes" if getattr(judged, "scores", None) is None else "scores"
    )


def _fitted(
    panel: Panel, judge: str, said: pd.DataFrame, dev: pd.DataFrame, figure: str
) -> tuple[dict[str, Any], list[dict[str, Any]], tuple[_Map, list[float]] | None]:
    """The row of the table, the points and the map of one judge, with the map's standard errors."""
    f, raw, y, weights, unit = _labelled(panel, judge, said, dev, figure)
    row: dict[str, Any] = {"n_labelled": len(y)} | cluster_counts(unit)
    if (why := _why_not(panel, y, unit, figure)) is not None:
        return row | {"notes": f"no map: {why}"}, [], None
    bounds = panel.bounds(figure)
    # where low scores pass, it is the share of fails that never falls
    turn = (lambda shares: 1 - shares) if figure == "passed" and _fall(panel.scale) else np.asarray
    fit, (knots, values), errors = fitted_map(f, turn(y), weights, unit, bounds)
    values, guess = turn(values), turn(np.clip(estimates.cross_fitted(fit, f, turn(y), weights, unit), *bounds))
    error, error_raw = (float(weights @ (y - value) ** 2) / np.ptp(bounds) ** 2 for value in (guess, raw))
    residual = _reach(np.abs(y - guess), weights, row["n_clusters"])
    row |= {"method": _METHODS[fit], "error": error, "error_raw": error_raw, "residual": residual}
    points = []
    for score in np.unique(f):
        rows = f == score
        ends = mean_interval(y[rows], unit[rows], bounds=bounds)
        mean = float(np.average(y[rows], weights=weights[rows]))
        point = {"score": score, "n_labelled": int(rows.sum()), "calibrated": float(np.interp(score, knots, values))}
        points.append(point | figure_row("people", mean, ends))
    return row, points, ((knots.tolist(), values.tolist()), errors)


def fitted_map(
    f: Floats, y: Floats, weights: Floats, unit: Ints, bounds: tuple[float, float]
) -> tuple[Fit, tuple[Floats, Floats], list[float]]:
    """The kind of fit, the map from scores to labels, and its standard errors (see `Calibration`)."""
    counts = np.unique(f, return_counts=True)[1]
    steps = len(y) >= estimates.ENOUGH_FOR_ISOTONIC or counts.min() >= ENOUGH_A_SCORE
    fit: Fit = estimates.isotonic_fit if steps else estimates.linear_fit
    scores, values = fit(f, y, weights)
    if steps:
        return fit, (scores, values), _step_errors(f, y, weights, unit, scores, values)
    crossings = [np.interp(bound, values, scores) for bound in bounds if values[0] < bound < values[1]]
    knots = np.unique([*scores, *crossings])
    line = np.interp(knots, scores, values)
    inside = (line >= bounds[0] - _SAME) & (line <= bounds[1] + _SAME)  # beyond, the map is flat
    return fit, (knots, np.clip(line, *bounds)), _line_errors(f, y, weights, unit, knots, inside)


def _step_errors(f: Floats, y: Floats, weights: Floats, unit: Ints, scores: Floats, values: Floats) -> list[float]:
    """The standard error of the mean label of each block of equal values, at each score."""
    blocks, errors = _blocks(values), []
    of_item = blocks[np.searchsorted(scores, f)]
    for block in range(blocks.max() + 1):
        rows = of_item == block
        shares = weights[rows] / weights[rows].sum()
        estimate = estimates.weighted_mean(np.zeros(rows.sum()), y[rows], shares, unit[rows])
        errors += [math.sqrt(estimate.variance)] * int((blocks == block).sum())
    return errors


def _line_errors(f: Floats, y: Floats, weights: Floats, unit: Ints, knots: Floats, inside: Flags) -> list[float]:
    """The standard error at each knot that is inside, 0 at others, and their correlation: a jackknife of 25 groups."""
    codes = np.unique(unit, return_inverse=True)[1]
    fold = (np.random.default_rng(0).permutation(codes.max() + 1) % _MAP_FOLDS)[codes]
    folds = [fold != number for number in np.unique(fold)]
    rows = np.array([_line_at(knots[inside], *estimates.linear_fit(f[rows], y[rows], weights[rows])) for rows in folds])
    gaps = rows - rows.mean(axis=0)
    spread = (len(rows) - 1) / len(rows) * gaps.T @ gaps
    errors = np.zeros(len(knots))
    errors[inside] = np.sqrt(np.diag(spread))
    return [*errors.tolist(), float(spread[0, -1] / max(math.sqrt(spread[0, 0] * spread[-1, -1]), _NOTHING))]


def _line_at(scores: Floats, ends: Floats, values: Floats) -> Floats:
    """A line, also beyond the scores that it was fitted on."""
    return np.asarray(values[0] + np.ptp(values) / (np.ptp(ends) or 1.0) * (scores - ends[0]))


def _blocks(values: Floats) -> Ints:
    """A number for each run of equal values."""
    return np.cumsum(np.abs(np.diff(values, prepend=values[0])) > _SAME).astype(np.int64)


def map_variance(f: Floats, weights: Floats, known: tuple[Any, Any], errors: list[float]) -> float:
    """The variance of the mean calibrated score of some items, which the map's own labels leave."""
    (scores, values), at_knots = map(np.array, known), np.array(errors)
    if len(errors) > len(scores):  # a line: the map is sure where it is flat
        inside = np.flatnonzero(at_knots[:-1])
        ends = [np.interp(f, scores[inside], basis, left=0, right=0) for basis in np.eye(len(inside))]
        parts = np.array([float(weights @ end) for end in ends]) * at_knots[inside]
        return float(parts @ parts + 2 * at_knots[-1] * parts[:1].sum() * parts[1:].sum())
    shares = np.array([float(weights @ np.interp(f, scores, basis)) for basis in np.eye(len(scores))])
    blocks = _blocks(values)
    parts = np.bincount(blocks, weights=shares * at_knots)  # the error is the same in a block
    return float(parts @ parts)


def _passes(scale: Scale) -> list[bool]:
    return [bool(scale.passed(code)) for code in scale.codes]


def _fall(scale: Scale) -> bool:
    """Do passes fall with the score? If all codes pass, `better` says it."""
    first, *_, last = _passes(scale)
    return first > last or (first == last and scale.better == "low")


def _why_not(panel: Panel, y: Floats, unit: Ints, figure: str) -> str | None:
    scale, is_known = panel.scale, not panel.scale.is_open
    by_rule = figure == "passed" and is_known
    split = "the codes that pass are not one end of the scale, so passes neither rise nor fall with the score"
    reasons = {
        "a nominal criterion has no scores": scale.level == "nominal",
        NO_ENDS: not is_known,
        "the criterion has no pass rule": by_rule and not scale.has_rule,
        split: by_rule and scale.has_rule and np.count_nonzero(np.diff(_passes(scale))) > 1,
    }
    of_scale = first_that_holds(reasons)
    few = of_scale or estimates.too_few(unit, "labelled items with a score")
    return few or ("all labels are equal" if np.ptp(y) == 0 else None)


def _unlike(panel: Panel, judge: str, said: pd.DataFrame, dev: pd.DataFrame) -> str | None:
    answers, was_asked = panel.judges[judge]
    weights = label_weights(said, str(panel.head["criterion"]), panel.items[was_asked], dev=dev)
    return estimates.unlike_all(answers.score[was_asked], weights, panel.unit[was_asked])


def _labelled(
    panel: Panel, judge: str, said: pd.DataFrame, dev: pd.DataFrame, figure: str
) -> tuple[Floats, Floats, Floats, Floats, Ints]:
    """Score, raw figure, label, weight and cluster of each item with a score and a label; weights add up to 1."""
    answers, was_asked = panel.judges[judge]
    raw, y = estimates.judge_and_people(panel, answers, figure)
    weights = label_weights(said, str(panel.head["criterion"]), panel.items, dev=dev)
    used = was_asked & ~np.isnan(answers.score) & ~np.isnan(y) & (weights > 0)
    total = weights[used].sum()
    raw = np.where(np.isnan(raw), 0.5, raw)  # no verdict: between pass and fail
    return answers.score[used], raw[used], y[used], weights[used] / (total or 1.0), panel.unit[used]


def _reach(distance: Floats, weights: Floats, n_clusters: int) -> float:
    """The conformal .9 quantile: an item to come counts as one more cluster, with the largest distance of all."""
    if len(distance) < ENOUGH_FOR_SETS:
        return math.nan
    order = np.argsort(distance)
    share = np.cumsum(weights[order]) / (1 + 1 / n_clusters)
    index = int(np.searchsorted(share, 0.9 - 1e-12))
    return float(distance[order][min(index, len(order) - 1)])


def residual_row(rest: Floats, weights: Floats, unit: Ints, map_variance: float) -> dict[str, Any]:
    """The mean residual of fresh labels, with its interval and its p, or why there is none."""
    from scipy.special import stdtr

    if few := estimates.too_few(unit, "fresh labels"):
        return {"notes": few}
    estimate = estimates.weighted_mean(np.zeros(len(rest)), rest, weights, unit)
    variance, freedom = estimate.variance + map_variance, estimates.freedom_of(weights, unit)
    if variance > _NOTHING:  # Welch and Satterthwaite, the map as of 25 groups
        freedom = variance**2 / (estimate.variance**2 / freedom + map_variance**2 / (_MAP_FOLDS - 1))
    estimate = replace(estimate, variance=variance)
    row = figure_row("residual", estimate.mean, estimate.interval(rest, weights, unit, (-1.0, 1.0), freedom))
    # of a mean of 0 on −1 to 1: .05 where 0 is an end of `bounded_interval`
    error = math.sqrt(max(variance, _NOTHING) / max(1 - estimate.mean**2, _NOTHING))
    return row | {"p": 2 * float(stdtr(freedom, -abs(estimate.mean) / error))}


def _status(row: dict[Any, Any]) -> tuple[str, str | None]:
    """Does a map hold, by its row; and the notes."""
    notes = None if pd.isna(row["notes"]) else str(row["notes"])
    low, high = row["residual_low"], row["residual_high"]
    if -row["margin"] <= low and high <= row["margin"]:
        return "holds", notes
    if row["p_holm"] <= _LEVEL:
        return "does not hold", notes
    half = None if math.isnan(low) else f"not known: the interval is ± {(high - low) / 2:.2f}".replace("0.", ".")
    return "not known", joined([notes, half])


def _versions(frame: pd.DataFrame) -> list[str]:
    rows = frame[["rubric", "rubric_version"]].astype(str).drop_duplicates()
    return [f"{rubric}@{version}" for rubric, version in rows.itertuples(index=False)]
