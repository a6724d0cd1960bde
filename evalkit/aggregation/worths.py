"""What a jury is worth: each judge alone, the jury without it, and how many independent judges it amounts to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.aggregation.families import Kin, kin, models_of
from evalkit.aggregation.independence import effective_judges
from evalkit.aggregation.juries import AggregateMethod, aggregate
from evalkit.errors import ConfigError, EvalkitWarning, counted, listed
from evalkit.intervals import FEW_CLUSTERS, Interval, Transform, jackknife, jackknife_groups
from evalkit.tables.grouping import Flags, Floats, Ints
from evalkit.validity.figures import Answers, compare_answers
from evalkit.validity.panels import KEYS, Panel, checked, panels

__all__ = ["jury_value"]

WorthFigure = Literal["accuracy", "kappa", "quadratic_kappa", "pearson", "spearman", "kendall", "mae"]
WorthReference = Literal["each", "mean", "majority"]
_ON_KINDS = ("accuracy", "kappa")
_FLOATS = ["value", "low", "high", "without", "effect", "effect_low", "effect_high", "n_eff", "n_eff_low", "n_eff_high"]
_COLUMNS = [*KEYS, "judge", "figure", *_FLOATS, "best", "n_judges", "n_items", "notes"]
_NEED = ["rubric", "rubric_version", "item_id", "criterion", "score", "label", "passed", "tied", "level", "scale"]
# Names that no judge has.
_WHOLE, _WITHOUT = "\x00jury", "\x00without "


def jury_value(
    votes: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    figure: WorthFigure | None = None,
    method: AggregateMethod = "mean",
    quorum: float = 0.5,
    weights: Mapping[str, float] | None = None,
    reference: WorthReference = "each",
    items: Any = None,
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
        As in `align`: ``each`` annotator (default, averaged), or their ``mean`` or ``majority``.
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

        - `figure`, `value` (of the jury, or of the judge alone), `low`, `high`: on the items that it scored; a
          tie counts as half right in the accuracy;
        - `without`: the jury without this judge; `effect`: how much better the jury is with it (above 0: it
          helps; for ``mae`` the sign is turned), with its interval, on the items that both juries scored;
        - `best`: is no other judge better alone? Compare its `value` with the jury's. The best of many on few
          labels looks better than it is;
        - `n_eff` (jury): the effective number of judges, n_eff = [mean_j Var(e_j) − σ²_h/m] / [Var(ē) − σ²_h/m],
          with e_ij = `score_norm` − the mean of m people and σ²_h the variance of people within an item; 1 where
          all judges err alike, J where they err independently. On the items that all judges scored; a lower bound
          with one annotator; NA where a part is ≤ 0. Its interval is that of its logarithm;
        - `n_judges`, `n_items` (labelled and scored); `notes`: why something is NA, the best single judge beside
          the jury, judges of one model family, and judges of their own family's answers.

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
    _check_options(figure, reference)
    frame, said = checked(votes, labels)
    whole = aggregate(frame, method=method, quorum=quorum, weights=weights)
    frame = _weighed(frame, weights)
    judges = [str(name) for name in dict.fromkeys(frame["judge"].astype("str"))]
    relatives = kin(models_of(judges, models), frame, items)
    juries = [frame, whole.assign(judge=_WHOLE)]
    for judge in judges:
        rest = frame.loc[(frame["judge"] != judge).to_numpy()]
        if len(rest) and _can(rest, method):
            juries.append(aggregate(rest, method=method, quorum=quorum).assign(judge=_WITHOUT + judge))
    together = pd.concat([_plain(part) for part in juries], ignore_index=True)
    together = tables.check(together, "votes", need=[*_NEED, "judge"])
    rows = []
    for panel in panels(together, said, clusters=clusters):
        rows += _rows(panel, figure, reference, relatives)
    for sentence in relatives.sentences():
        warnings.warn(f"{sentence}: their mistakes do not average out", EvalkitWarning, stacklevel=2)
    return _framed(rows)


def _check_options(figure: str | None, reference: str) -> None:
    if figure is not None and figure not in get_args(WorthFigure):
        raise ConfigError(f"jury_value got figure={figure!r}; allowed are {listed(get_args(WorthFigure))}")
    if reference not in get_args(WorthReference):
        raise ConfigError(f"jury_value got reference={reference!r}; allowed are {listed(get_args(WorthReference))}")


def _weighed(frame: pd.DataFrame, weights: Mapping[str, float] | None) -> pd.DataFrame:
    if weights is not None:
        given = frame["judge"].astype("str").map(dict(weights)).astype("float64")
        own = frame["weight"] if "weight" in frame else pd.Series(1.0, index=frame.index)
        frame = frame.assign(weight=given.where(given.notna(), own))
    return frame.loc[~(frame["weight"] <= 0).to_numpy()] if "weight" in frame else frame


def _can(rest: pd.DataFrame, method: str) -> bool:
    return method != "dawid_skene" or bool(rest.groupby(KEYS, observed=True)["judge"].nunique().min() > 2)


def _plain(part: pd.DataFrame) -> pd.DataFrame:
    made = part[[*_NEED, "judge"]]
    texts = ["rubric", "rubric_version", "criterion", "label", "level", "scale", "judge"]
    return made.assign(**{name: made[name].astype(object) for name in texts})


def _rows(panel: Panel, figure: str | None, reference: str, relatives: Kin) -> list[dict[str, Any]]:
    default = "accuracy" if panel.verdicts or panel.scale.level == "nominal" else "quadratic_kappa"
    name = figure or default
    crowd = panel.crowd
    people = [crowd.answers(at) for at in range(len(crowd.names))]
    if reference != "each":
        people = [crowd.together("mean" if reference == "mean" else "majority")]
    judges = [judge for judge in panel.judges if not judge.startswith("\x00")]
    jury = panel.judges[_WHOLE][0]
    rows = []
    for judge in judges:
        row = {"judge": judge} | _alone(panel.judges[judge][0], people, panel, name)
        row |= _left_out(jury, panel.judges.get(_WITHOUT + judge), people, panel, name, row["notes"])
        if judge in relatives.own:
            row["notes"].append(relatives.own_sentence(judge))
        rows.append(row)
    values = np.array([-row["value"] if name == "mae" else row["value"] for row in rows])
    for row, value in zip(rows, values, strict=True):
        row["best"] = bool(value >= np.nanmax(values) - 1e-9) if not np.isnan(value) else False
    first = {"judge": "jury"} | _alone(jury, people, panel, name)
    first |= _effective(panel, judges, first["notes"])
    best = [f"{row['judge']!r} at {row['value']:.3g}" for row in rows if row["best"]]
    if best:
        first["notes"].insert(0, f"best single judge {' and '.join(best)}")
    first["notes"] += relatives.sentences()
    head = panel.head | {"figure": name, "n_judges": len(judges)}
    return [head | {"best": False} | row | {"notes": "; ".join(row["notes"]) or None} for row in [first, *rows]]


def _known(answers: Answers, name: str) -> Flags:
    known: Flags = (answers.kind >= 0) | answers.tied if name in _ON_KINDS else ~np.isnan(answers.score)
    return known


def _values(
    answers: Answers, people: list[Answers], rows: Flags, panel: Panel, name: str, unit: Ints, n_units: int
) -> Floats:
    """The figure, averaged over the people against whom it is defined: on all, then without each unit."""
    each = []
    for one in people:
        found = compare_answers(answers.take(rows), one.take(rows), unit, n_units, verdicts=panel.verdicts, half=True)[
            name
        ]
        if not np.isnan(found[0]):
            each.append(found)
    averaged: Floats = np.mean(each, axis=0) if each else np.full(n_units + 1, np.nan)
    return averaged


def _units(panel: Panel, rows: Flags) -> tuple[Ints, int]:
    return jackknife_groups(np.unique(panel.unit[rows], return_inverse=True)[1].astype(np.int64))


def _alone(answers: Answers, people: list[Answers], panel: Panel, name: str) -> dict[str, Any]:
    rows = panel.crowd.labelled & _known(answers, name)
    unit, n_units = _units(panel, rows)
    notes: list[str] = []
    made: dict[str, Any] = {"n_items": int(rows.sum()), "notes": notes}
    values = _values(answers, people, rows, panel, name, unit, n_units)
    made["value"] = float(values[0])
    if np.isnan(values[0]):
        notes.append(f"{name}: {'not defined on' if made['n_items'] else 'there are no'} labelled and scored items")
        return made
    transform: Transform = "logit" if name == "accuracy" else "log" if name == "mae" else "atanh"
    made |= _ends("", name, jackknife(float(values[0]), values[1:], transform=transform), notes)
    if n_units < FEW_CLUSTERS:
        notes.append(f"only {counted(n_units, 'cluster')}")
    return made


def _ends(prefix: str, name: str, interval: Interval, notes: list[str]) -> dict[str, float]:
    if interval.reason:
        notes.append(f"no interval of {name}: {interval.reason}")
    return {f"{prefix}low": interval.low, f"{prefix}high": interval.high}


def _left_out(
    jury: Answers,
    without: tuple[Answers, Flags] | None,
    people: list[Answers],
    panel: Panel,
    name: str,
    notes: list[str],
) -> dict[str, float]:
    if without is None:
        notes.append("no jury is left without it")
        return {}
    rows = panel.crowd.labelled & _known(jury, name) & _known(without[0], name)
    unit, n_units = _units(panel, rows)
    whole, rest = (_values(one, people, rows, panel, name, unit, n_units) for one in (jury, without[0]))
    effect = (rest - whole) if name == "mae" else (whole - rest)
    if np.isnan(effect[0]):
        notes.append("effect: not defined on the items that the jury scores with and without it")
        return {"without": float(rest[0])}
    made = {"without": float(rest[0]), "effect": float(effect[0])}
    return made | _ends("effect_", "effect", jackknife(float(effect[0]), effect[1:], transform="none"), notes)


def _effective(panel: Panel, judges: list[str], notes: list[str]) -> dict[str, float]:
    answers = [panel.judges[judge][0] for judge in judges]
    crowd, scale = panel.crowd, panel.scale
    if scale.level != "nominal" and not np.isnan(crowd.score).all():
        width = scale.highest - scale.lowest
        said, people = np.stack([one.score for one in answers], axis=1) / width, crowd.score / width
    elif panel.verdicts:
        said, people = (np.where(kind < 0, np.nan, kind) for kind in (_kinds(answers), crowd.kind))
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


def _framed(rows: list[dict[str, Any]]) -> pd.DataFrame:
    made = pd.DataFrame(rows, columns=_COLUMNS)
    made = made.astype(dict.fromkeys(_FLOATS, "float64") | {"best": "bool", "n_judges": "int64", "n_items": "int64"})
    for name in (*KEYS, "judge", "figure", "notes"):
        made[name] = tables.categorical(made[name])
    return made
