"""What a jury is worth: each judge alone, the jury without it, and how many independent judges it amounts to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.core.choices import REFERENCES, Reference, Ties, Unscored
from evalkit.core.vote_aggregate_rules import AggregateRule, check_choice
from evalkit.errors import ConfigError, EvalkitWarning
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.independent_judges import effective_judges
from evalkit.stats.aggregation.model_families import JuryFamilies, jury_families, models_of
from evalkit.stats.alignment.agreement_measures import Answers, KindOptions, compare_each, counted_rows
from evalkit.stats.alignment.rater_panels import Panel, checked, panels
from evalkit.stats.figure_tables import (
    CRITERION_KEY,
    JUDGE_KEY,
    interval_columns,
    joined,
    note_few_clusters,
    result_table,
)
from evalkit.stats.intervals import Interval, Transform, jackknife, jackknife_groups
from evalkit.tables import ItemsLike
from evalkit.tables.grouping import Flags, Floats, Ints
from evalkit.tables.ties import Counting, check_counting

WorthFigure = Literal["accuracy", "kappa", "quadratic_kappa", "pearson", "spearman", "kendall", "mae"]
_ON_KINDS = ("accuracy", "kappa")
_COLUMNS = [*JUDGE_KEY, "figure", "value", "low", "high", "without", *interval_columns(["effect", "n_eff"]), "best"]
_COLUMNS += ["n_judges", "n_items"]
_COLUMNS += ["n_left_out", "same_items", "ties", "unscored", "notes"]
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "score", "label", "passed", "tied", "level", "scale"]
_MAY = ["reason", "tied_labels"]
# Names that no judge has.
_WHOLE, _WITHOUT = "\x00jury", "\x00without "


def jury_value(
    votes: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    figure: WorthFigure | None = None,
    method: AggregateRule = "mean",
    quorum: float = 0.5,
    weights: Mapping[str, float] | None = None,
    reference: Reference = "each",
    ties: Ties = "half",
    unscored: Unscored = "drop",
    items: ItemsLike | None = None,
    models: Mapping[str, str] | pd.DataFrame | None = None,
    clusters: Mapping[str, Any] | pd.Series | None = None,
) -> pd.DataFrame:
    """What each judge adds to the jury, against people: a jury is not better by itself.

    Parameters
    ----------
    votes
        The table of `vote`.
    labels
        Long table: `item_id, criterion, annotator, label`.
    figure
        Which figure of `align`; by default ``accuracy`` where there are verdicts or nominal labels, else
        ``quadratic_kappa``.
    method, quorum, weights
        As in `aggregate`; weights count in the jury without a judge as well.
    reference
        As in `align`: ``each`` annotator (default, averaged by numbers of items), or their ``mean`` or ``majority``.
    ties, unscored
        As in `align`, for figures on verdicts and labels; a tie is half right by default. Figures on scores leave out
        what has no score.
    items
        Items with `system_id`, the model that wrote the answer, to find judges of their own answers.
    models
        Judge -> model, or the judgments (column `model`); by default what the judge's name says.
    clusters
        item_id -> cluster, for the intervals; the item by default.

    Returns
    -------
    DataFrame
        Per `rubric, rubric_version, criterion` one row ``jury``, then one per `judge`:

        - `figure`, `value` (of the jury, or of the judge alone), `low`, `high`: on the labelled items that count for
          the jury and all judges, so that all rows are of the same items (`same_items`). Where there are none, because
          judges were asked about different items, each row is of its own items and `same_items` is False. A judge
          that scored nothing is not waited for;
        - `without`: the jury without this judge; `effect`: how much better the jury is with it (above 0: it
          helps; for ``mae`` the sign is turned), with its interval, on those of these items that both juries scored;
        - `best`: is no other judge better alone? Compare its `value` with the jury's. The best of many on few
          labels looks better than it is;
        - `n_eff` (jury): the effective number of judges, n_eff = [mean_j Var(e_j) − σ²_h/m] / [Var(ē) − σ²_h/m],
          with e_ij = `score_norm` − the mean of m people and σ²_h the variance of people within an item; 1 where
          all judges err alike, J where they err independently. On the items that all judges scored; a lower bound
          with one annotator; NA where a part is ≤ 0. Its interval is that of its logarithm;
        - `n_judges`, `n_items` compared, `n_left_out` of the labelled ones, `same_items`, `ties`, `unscored` as chosen;
        - `notes`: why something is NA, the best single judge beside the jury, judges of one model family, and judges
          of their own family's answers.

        Intervals are 95 % jackknives over clusters; judges and annotators are fixed.

    Raises
    ------
    InputError
        When columns are missing, a row is double, or a label is not on the scale.
    ConfigError
        For an unknown option.

    Warns
    -----
    EvalkitWarning
        When judges share a model family, or judge answers of their own.

    Examples
    --------
    >>> said = {"a": "1101", "b": "1100", "c": "0111"}
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 12, "rubric_version": ["v1"] * 12, "item_id": list("wxyz") * 3, "criterion": ["c"] * 12,
    ...     "judge": [judge for judge in said for _ in range(4)], "score": [float(c) for s in said.values() for c in s],
    ...     "label": [c for s in said.values() for c in s], "passed": [c == "1" for s in said.values() for c in s],
    ...     "n_samples": [1] * 12, "n_scored": [1] * 12, "tied": [False] * 12,
    ...     "level": ["ordinal"] * 12, "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 12})
    >>> labels = pd.DataFrame({"item_id": list("wxyz"), "criterion": "c", "annotator": "ann", "label": [1, 1, 0, 0]})
    >>> jury_value(votes, labels)[["judge", "value", "without", "effect", "best"]].values.tolist()
    [['jury', 0.75, nan, nan, False], ['a', 0.75, 0.625, 0.125, False], ['b', 1.0, 0.5, 0.25, True],
     ['c', 0.25, 0.875, -0.125, False]]
    """
    if figure is not None:
        check_choice("figure", figure, get_args(WorthFigure))
    check_choice("reference", reference, REFERENCES)
    counting = check_counting("jury_value", ties, unscored)
    if figure is not None and figure not in _ON_KINDS and (ties, unscored) != ("half", "drop"):
        raise ConfigError(f"jury_value got ties={ties!r}, unscored={unscored!r}: figure {figure!r} is of scores alone")
    frame, said = checked(votes, labels)
    whole = aggregate(frame, method=method, quorum=quorum, weights=weights)
    frame = _weighed(frame, weights)
    judges = [str(name) for name in dict.fromkeys(frame["judge"].astype("str"))]
    families = jury_families(models_of(judges, models), frame, items)
    juries = [frame, whole.assign(judge=_WHOLE)]
    for judge in judges:
        rest = frame.loc[(frame["judge"] != judge).to_numpy()]
        if len(rest) and _can(rest, method):
            juries.append(aggregate(rest, method=method, quorum=quorum).assign(judge=_WITHOUT + judge))
    together = pd.concat([_plain(part) for part in juries], ignore_index=True)
    together = tables.check(together, "votes", need=[*_NEED, "judge"])
    rows = []
    for panel in panels(together, said, clusters=clusters):
        rows += _rows(panel, figure, reference, families, counting)
    for sentence in families.sentences():
        warnings.warn(f"{sentence}: their mistakes do not average out", EvalkitWarning, stacklevel=2)
    return result_table(rows, _COLUMNS)


def _weighed(frame: pd.DataFrame, weights: Mapping[str, float] | None) -> pd.DataFrame:
    if weights is not None:
        given = frame["judge"].astype("str").map(dict(weights)).astype("float64")
        own = frame["weight"] if "weight" in frame else pd.Series(1.0, index=frame.index)
        frame = frame.assign(weight=given.where(given.notna(), own))
    return frame.loc[~(frame["weight"] <= 0).to_numpy()] if "weight" in frame else frame


def _can(rest: pd.DataFrame, method: str) -> bool:
    return method != "dawid_skene" or bool(rest.groupby(CRITERION_KEY, observed=True)["judge"].nunique().min() > 2)


def _plain(part: pd.DataFrame) -> pd.DataFrame:
    made = part[[*_NEED, "judge", *(name for name in _MAY if name in part)]]
    texts = ["rubric", "rubric_version", "criterion", "label", "level", "scale", "judge", *_MAY]
    return made.assign(**{name: made[name].astype(object) for name in texts if name in made})


def _rows(
    panel: Panel, figure: str | None, reference: str, families: JuryFamilies, counting: Counting
) -> list[dict[str, Any]]:
    default = "accuracy" if panel.verdicts or panel.scale.level == "nominal" else "quadratic_kappa"
    name = figure or default
    annotators = panel.annotators
    people = [annotators.answers(at) for at in range(len(annotators.names))]
    if reference != "each":
        people = [annotators.together("mean" if reference == "mean" else "majority")]
    judges = [judge for judge in panel.judges if not judge.startswith("\x00")]
    jury = panel.judges[_WHOLE][0]
    known = {one: _known(panel, one, name, counting) for one in (_WHOLE, *judges)}
    common = np.logical_and.reduce([there for there in known.values() if there.any()] or [annotators.labelled])
    same = bool(common.any())
    over = _Over(people, panel, name, counting)
    rows = []
    for judge in judges:
        own = known[judge] & common if same else known[judge]
        row = {"judge": judge} | _alone(panel.judges[judge][0], own, over)
        both = known[_WHOLE] & (common if same else annotators.labelled)
        row |= _left_out(jury, _WITHOUT + judge, both, over, row["notes"])
        if judge in families.own:
            row["notes"].append(families.own_sentence(judge))
        rows.append(row)
    values = np.array([-row["value"] if name == "mae" else row["value"] for row in rows])
    for row, value in zip(rows, values, strict=True):
        row["best"] = bool(value >= np.nanmax(values) - 1e-9) if not np.isnan(value) else False
    first = {"judge": "jury"} | _alone(jury, known[_WHOLE] & common if same else known[_WHOLE], over)
    first |= _effective(panel, judges, first["notes"])
    best = [f"{row['judge']!r} at {row['value']:.3g}" for row in rows if row["best"]]
    if best:
        first["notes"].insert(0, f"best single judge {' and '.join(best)}")
    first["notes"] += families.sentences()
    head = panel.head | {"figure": name, "n_judges": len(judges), "same_items": same, "ties": counting.ties}
    head |= {"unscored": counting.unscored}
    return [head | {"best": False} | row | {"notes": joined(row["notes"])} for row in [first, *rows]]


@dataclass(frozen=True, slots=True)
class _Over:
    """What a figure is taken over: the people, the panel, the figure's name and how ties count."""

    people: list[Answers]
    panel: Panel
    name: str
    counting: Counting


def _known(panel: Panel, judge: str, name: str, counting: Counting) -> Flags:
    """The labelled items of a judge that count in the figure."""
    answers, there = panel.judges[judge]
    counted = counted_rows(answers, counting) if name in _ON_KINDS else ~np.isnan(answers.score)
    return panel.annotators.labelled & there & counted


def _values(answers: Answers, rows: Flags, over: _Over, unit: Ints, n_units: int) -> Floats:
    """The figure against the people: on all, then without each unit."""
    people = [one.take(rows) for one in over.people]
    options = KindOptions(over.panel.verdicts, over.counting)
    return compare_each(answers.take(rows), people, unit, n_units, options)[over.name]


def _units(panel: Panel, rows: Flags) -> tuple[Ints, int]:
    return jackknife_groups(np.unique(panel.unit[rows], return_inverse=True)[1].astype(np.int64))


def _alone(answers: Answers, rows: Flags, over: _Over) -> dict[str, Any]:
    unit, n_units = _units(over.panel, rows)
    notes: list[str] = []
    made: dict[str, Any] = {"n_items": int(rows.sum()), "notes": notes}
    made["n_left_out"] = int(over.panel.annotators.labelled.sum()) - made["n_items"]
    values, name = _values(answers, rows, over, unit, n_units), over.name
    made["value"] = float(values[0])
    if np.isnan(values[0]):
        notes.append(f"{name}: {'not defined on' if made['n_items'] else 'there are no'} labelled and scored items")
        return made
    transform: Transform = "logit" if name == "accuracy" else "log" if name == "mae" else "atanh"
    made |= _ends("", name, jackknife(float(values[0]), values[1:], transform=transform), notes)
    note_few_clusters(n_units, notes)
    return made


def _ends(prefix: str, name: str, interval: Interval, notes: list[str]) -> dict[str, float]:
    if interval.reason:
        notes.append(f"no interval of {name}: {interval.reason}")
    return {f"{prefix}low": interval.low, f"{prefix}high": interval.high}


def _left_out(jury: Answers, without: str, rows: Flags, over: _Over, notes: list[str]) -> dict[str, float]:
    panel, name = over.panel, over.name
    if without not in panel.judges:
        notes.append("no jury is left without it")
        return {}
    rows = rows & _known(panel, without, name, over.counting)
    unit, n_units = _units(panel, rows)
    whole, rest = (_values(one, rows, over, unit, n_units) for one in (jury, panel.judges[without][0]))
    effect = (rest - whole) if name == "mae" else (whole - rest)
    if np.isnan(effect[0]):
        notes.append("effect: not defined on the items that the jury scores with and without it")
        return {"without": float(rest[0])}
    made = {"without": float(rest[0]), "effect": float(effect[0])}
    return made | _ends("effect_", "effect", jackknife(float(effect[0]), effect[1:], transform="none"), notes)


def _effective(panel: Panel, judges: list[str], notes: list[str]) -> dict[str, float]:
    answers = [panel.judges[judge][0] for judge in judges]
    annotators, scale = panel.annotators, panel.scale
    if scale.level != "nominal" and not np.isnan(annotators.score).all():
        width = scale.highest - scale.lowest
        said, people = np.stack([one.score for one in answers], axis=1) / width, annotators.score / width
    elif panel.verdicts:
        said, people = (np.where(kind < 0, np.nan, kind) for kind in (_kinds(answers), annotators.kind))
    else:
        notes.append("n_eff: labels without order and pass rule have no errors to measure")
        return {}
    values, why = effective_judges(said, people, panel.unit)
    if np.isnan(values[0]):
        notes.append(f"n_eff: {why}")
        return {}
    if why:
        notes.append(f"n_eff: {why}")
    with np.errstate(invalid="ignore", divide="ignore"):
        interval = jackknife(float(np.log(values[0])), np.log(values[1:]), transform="none")
    made = _ends("n_eff_", "n_eff", interval, notes)
    return {"n_eff": float(values[0])} | {name: float(np.exp(end)) for name, end in made.items()}


def _kinds(answers: list[Answers]) -> Ints:
    return np.stack([one.kind for one in answers], axis=1)
