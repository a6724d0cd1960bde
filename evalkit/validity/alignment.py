"""Align: judges against human labels, with the humans' own agreement as the ceiling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from evalkit import tables
from evalkit.errors import ConfigError, InputError, listed
from evalkit.intervals import (
    FEW_CLUSTERS,
    Interval,
    Transform,
    cluster_codes,
    jackknife,
    jackknife_groups,
    percentiles,
    resamples,
)
from evalkit.rubrics.scales import Scale
from evalkit.tables import LABEL_KEY, SCORE_KEY, VOTE_KEY
from evalkit.tables.grouping import Floats, Ints, clusters_of, group, refuse_doubles
from evalkit.validity.figures import FIGURES, Answers, compare_answers
from evalkit.validity.people import People, kinds_of, people

__all__ = ["align"]

ReferenceOption = Literal["each", "mean", "majority"]
TiesOption = Literal["na", "half"]
LevelOption = Literal["corpus", "group"]
IntervalOption = Literal["jackknife", "bootstrap"]

_CEILINGS = ("accuracy", "kappa", "quadratic_kappa", "spearman")
_SHARES = ("accuracy", "false_pass_rate", "false_fail_rate")
_TRANSFORM: dict[str, Transform] = {
    name: "logit" if name in _SHARES else "none" if name in ("mae", "bias") else "atanh" for name in FIGURES
}
_COUNTS = ["n_items", "n_scored", "n_labelled", "n_annotators", "n_clusters", "n_tied_references"]
_KEYS = ["rubric", "rubric_version", "criterion"]
_FLOATS = ["coverage", *[f"{name}{end}" for name in FIGURES for end in ("", "_low", "_high")]]
_FLOATS += [f"{name}_{kind}" for kind in ("ceiling", "as_peer") for name in _CEILINGS]


def align(
    judged: pd.DataFrame,
    labels: pd.DataFrame,
    *,
    reference: ReferenceOption = "each",
    ties: TiesOption = "na",
    by: str | Mapping[str, Any] | pd.Series | None = None,
    level: LevelOption = "corpus",
    interval: IntervalOption | None = "jackknife",
    clusters: Mapping[str, Any] | pd.Series | None = None,
) -> pd.DataFrame:
    """How well each judge (or the jury) agrees with people, per criterion.

    Parameters
    ----------
    judged
        Votes (one row per judge comes out) or scores (the judge is then ``jury``).
    labels
        Long table: `item_id, criterion, annotator, label`. A label is a code, or ``true``/``false`` where the
        criterion has a pass rule. On ordinal scales a number between the codes is allowed too: the mean
        of several people, a score without verdict.
    reference
        ``each`` (default): the figure against each annotator, averaged over them. ``mean`` or ``majority``: against
        what all annotators say together (verdicts and labels by majority in both; a tie is no reference).
    ties
        ``na`` (default) leaves out the items where the judge's verdict is a tie; ``half`` counts them as half right
        in the accuracy.
    by
        A further grouping: a column of `judged`, or item_id -> group.
    level
        ``corpus`` (default), or ``group``: the unweighted mean of the figures inside each cluster, those where a
        side is constant or n < 3 left out (no Fisher z). `n_groups` and `n_groups_used` are shown beside it.
    interval
        ``jackknife`` (default) over clusters, ``bootstrap`` (2,000 rounds, slow), or None: figures alone, fast.
    clusters
        item_id -> cluster; the item by default.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion` (and `by`) and `judge`, every figure NA where it is
        not defined, with its 95 % interval in `_low` and `_high` (judges and annotators are fixed):

        - verdicts where the criterion has a pass rule, else labels: `accuracy` and `kappa` (Cohen);
          `false_pass_rate` (the judge passes, of what people fail) and `false_fail_rate`;
        - scores, in rubric units: `quadratic_kappa` (Lin's concordance 2s_xy/(s_x² + s_y² + (x̄ − ȳ)²) with
          1/n moments: the quadratic weighted kappa, for means of samples too), `pearson`, `spearman`,
          `kendall` (tau-b), `mae`, `bias` (judge − human);
        - `…_ceiling`: the same figure among people: the mean over pairs of annotators, or, against ``mean`` and
          ``majority``, of each annotator against the others; `…_as_peer` is then the judge on that footing;
        - `n_items` of the judge, `n_labelled` of them, `n_scored` of these, `coverage` = n_scored / n_labelled,
          `n_annotators`, `n_tied_references`, `n_clusters`;
        - `notes`: why something is NA, and what to mind.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on the scale (the message lists what is
        allowed), or no label is of a criterion that was judged.
    ConfigError
        For an unknown option.

    Examples
    --------
    >>> votes = tables.table("votes", {
    ...     "rubric": ["r"] * 4, "rubric_version": ["v1"] * 4, "item_id": list("abcd"), "criterion": ["c"] * 4,
    ...     "judge": ["j"] * 4, "score": [0.0, 1.0, 1.0, 1.0], "label": ["0", "1", "1", "1"],
    ...     "passed": [False, True, True, True], "n_samples": [1] * 4, "n_scored": [1] * 4, "tied": [False] * 4,
    ...     "level": ["ordinal"] * 4, "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * 4})
    >>> labels = pd.DataFrame({"item_id": list("abcd"), "criterion": "c", "annotator": "ann", "label": [0, 1, 1, 0]})
    >>> align(votes, labels)[["judge", "accuracy", "kappa", "false_pass_rate", "n_scored"]].values.tolist()
    [['j', 0.75, 0.5, 0.5, 4]]
    """
    _check_options(reference, ties, level, interval)
    frame, said = _checked(judged, labels)
    frame = _with_by(frame, by)
    keys = [*_KEYS, *([_by_name(by)] if by is not None else [])]
    units = clusters_of(frame["item_id"], clusters)
    if level == "group" and clusters is None:
        raise ConfigError("level='group' needs clusters=: which group each item_id belongs to")
    options = _Options(reference, ties == "half", level, interval)
    groups = group(frame, keys, may_miss=keys[len(_KEYS) :])
    rows: list[dict[str, Any]] = []
    order = np.argsort(groups.codes, kind="stable")
    for at in np.split(order, np.cumsum(groups.count())[:-1]) if len(groups) else []:
        piece = frame.iloc[at]
        head = {key: piece[key].iloc[0] for key in keys}
        of_criterion = said.loc[(said["criterion"] == head["criterion"]).to_numpy()]
        rows.extend(head | row for row in _rows(piece, of_criterion, units.iloc[at], options))
    return _framed(rows, keys)


@dataclass(frozen=True, slots=True)
class _Options:
    reference: str
    half: bool
    level: str
    interval: str | None


def _check_options(reference: str, ties: str, level: str, interval: str | None) -> None:
    if level == "system":
        raise ConfigError("level 'system' is not there yet; allowed are 'corpus', 'group'")
    for name, given, allowed in (
        ("reference", reference, get_args(ReferenceOption)),
        ("ties", ties, get_args(TiesOption)),
        ("level", level, get_args(LevelOption)),
        ("interval", interval, (*get_args(IntervalOption), None)),
    ):
        if given not in allowed:
            raise ConfigError(f"align got {name}={given!r}; allowed are {listed(allowed)}")


def _checked(judged: pd.DataFrame, labels: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    name = "votes" if "judge" in getattr(judged, "columns", ()) else "scores"
    key = VOTE_KEY if name == "votes" else SCORE_KEY
    frame = tables.check(judged, name, need=[*key, "score", "label", "passed", "tied", "level", "scale"])
    refuse_doubles(frame, key, name)
    if name == "scores":
        frame = frame.assign(judge=pd.Categorical(["jury"] * len(frame)))
    said = tables.check(labels, "labels", need=[*LABEL_KEY, "label"])
    said = said.loc[said["label"].notna().to_numpy()]
    refuse_doubles(said, LABEL_KEY, "labels")
    if len(said) and len(frame) and not set(said["criterion"].unique()) & set(frame["criterion"].unique()):
        raise InputError(
            f"the labels are of criterion {listed(said['criterion'].unique())}, judged was "
            f"{listed(frame['criterion'].unique())}; name the labels' criterion as in the rubric"
        )
    return frame, said


def _by_name(by: Any) -> str:
    return by if isinstance(by, str) else "by"


def _with_by(frame: pd.DataFrame, by: Any) -> pd.DataFrame:
    if by is None:
        return frame
    if isinstance(by, str):
        if by not in frame.columns:
            raise InputError(
                f"by names {by!r}, which the table does not have; pass item_id -> group, or add the column"
            )
        return frame
    found = {str(item): name for item, name in by.items()}
    return frame.assign(by=frame["item_id"].astype("str").map(found))


def _rows(piece: pd.DataFrame, said: pd.DataFrame, clusters: pd.Series, options: _Options) -> list[dict[str, Any]]:
    scale = Scale.from_json(str(piece["level"].iloc[0]), str(piece["scale"].iloc[0]))
    items = pd.Index(sorted(piece["item_id"].unique()), dtype=object)
    kinds: dict[str, int] = {}
    crowd = people(said, items, scale, kinds, str(piece["criterion"].iloc[0]))
    names = pd.Series(index=items, dtype=object)
    names.loc[piece["item_id"].to_numpy()] = clusters.to_numpy()
    unit = cluster_codes(names)
    row: dict[str, Any] = {"n_annotators": len(crowd.names)}
    if options.reference != "each":
        row["n_tied_references"] = int(crowd.together("majority").tied.sum())
    row |= _ceiling(crowd, unit, options, verdicts=scale.has_rule)
    judges, judge_names = pd.factorize(piece["judge"].astype("str"))
    rows = []
    for number, judge in enumerate(judge_names):
        own = piece.iloc[np.flatnonzero(judges == number)]
        answers, there = _answers(own, items, scale, kinds)
        rows.append({"judge": str(judge)} | row | _judge_row(answers, there, crowd, unit, options, scale))
    return rows


def _answers(own: pd.DataFrame, items: pd.Index, scale: Scale, kinds: dict[str, int]) -> tuple[Answers, Any]:
    at = items.get_indexer(pd.Index(own["item_id"]))
    kind = np.full(len(items), -1, dtype=np.int64)
    score, tied, there = np.full(len(items), np.nan), np.zeros(len(items), bool), np.zeros(len(items), bool)
    if scale.has_rule:
        passed = own["passed"]
        kind[at] = np.where(passed.isna(), -1, passed.fillna(value=False).to_numpy(dtype=np.int64))
    else:
        kind[at] = kinds_of(own["label"], kinds)
    score[at] = own["score"].to_numpy(dtype=np.float64)
    tied[at] = own["tied"].to_numpy() & (kind[at] < 0)
    there[at] = True
    return Answers(kind, score, tied), there


def _judge_row(
    answers: Answers, there: Any, crowd: People, unit: Ints, options: _Options, scale: Scale
) -> dict[str, Any]:
    labelled = crowd.labelled & there
    scored = labelled & ((answers.kind >= 0) | ~np.isnan(answers.score))
    row: dict[str, Any] = {"n_items": int(there.sum()), "n_labelled": int(labelled.sum())}
    row |= {"n_scored": int(scored.sum()), "n_clusters": len(np.unique(unit[scored]))}
    row["coverage"] = row["n_scored"] / row["n_labelled"] if row["n_labelled"] else np.nan
    notes: list[str] = []
    if not row["n_scored"]:
        notes.append("no item has both a label and a score" if row["n_labelled"] else "no labels")
        return row | {"notes": "; ".join(notes)}
    references = _references(crowd, options)
    found = _figures(answers, references, scored, unit, options, verdicts=scale.has_rule)
    for name in FIGURES:
        values, intervals = found[name]
        row[name] = values
        if intervals is not None:
            row |= {f"{name}_low": intervals.low, f"{name}_high": intervals.high}
    if options.reference != "each" and len(crowd.names) > 1:
        row |= _as_peer(answers, crowd, options, verdicts=scale.has_rule)
    if options.level == "group":
        row |= _group_counts(answers, references, scored, unit, notes)
    notes += _reasons(row, found, scale)
    if options.interval is not None and row["n_clusters"] < FEW_CLUSTERS:
        notes.append(f"only {row['n_clusters']} clusters")
    return row | {"notes": "; ".join(notes) or None}


def _references(crowd: People, options: _Options) -> list[Answers]:
    if options.reference == "each":
        return [crowd.answers(number) for number in range(len(crowd.names))]
    return [crowd.together("mean" if options.reference == "mean" else "majority")]


Found = dict[str, tuple[float, Interval | None]]


def _figures(
    answers: Answers, references: list[Answers], rows: Any, unit: Ints, options: _Options, *, verdicts: bool
) -> Found:
    answers, references = answers.take(rows), [one.take(rows) for one in references]
    codes = np.unique(unit[rows], return_inverse=True)[1].astype(np.int64)
    if options.level == "group":
        return _grouped(answers, references, codes, options, verdicts=verdicts)
    if options.interval != "jackknife":
        plain = _averaged(answers, references, codes, 0, verdicts=verdicts, half=options.half)
        found: Found = {name: (float(values[0]), None) for name, values in plain.items()}
        if options.interval == "bootstrap":
            return _bootstrapped(found, answers, references, codes, options, verdicts=verdicts)
        return found
    left_out, n_units = jackknife_groups(codes)
    made = _averaged(answers, references, left_out, n_units, verdicts=verdicts, half=options.half)
    return {
        name: (float(values[0]), jackknife(float(values[0]), values[1:], transform=_TRANSFORM[name]))
        for name, values in made.items()
    }


def _averaged(
    answers: Answers, references: list[Answers], unit: Ints, n_units: int, *, verdicts: bool, half: bool
) -> dict[str, Floats]:
    """The mean over the references against which a figure is defined."""
    each = [compare_answers(answers, one, unit, n_units, verdicts=verdicts, half=half) for one in references]
    averaged = {}
    for name in FIGURES:
        values = np.stack([found[name] for found in each])
        known = ~np.isnan(values[:, 0])
        averaged[name] = values[known].mean(axis=0) if known.any() else np.full(n_units + 1, np.nan)
    return averaged


def _bootstrapped(
    found: Found, answers: Answers, references: list[Answers], codes: Ints, options: _Options, *, verdicts: bool
) -> Found:
    rounds = []
    for rows in resamples(codes):
        part = [one.take(rows) for one in references]
        made = _averaged(answers.take(rows), part, codes[rows], 0, verdicts=verdicts, half=options.half)
        rounds.append([float(made[name][0]) for name in FIGURES])
    columns = np.array(rounds).T if rounds else np.empty((len(FIGURES), 0))
    return {
        name: (found[name][0], percentiles(column, found[name][0]))
        for name, column in zip(FIGURES, columns, strict=True)
    }


def _each_group(
    answers: Answers, references: list[Answers], codes: Ints, *, verdicts: bool, half: bool
) -> npt.NDArray[np.float64]:
    """Figures inside each group: groups × figures."""
    order = np.argsort(codes, kind="stable")
    pieces = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    nothing = np.zeros(0, dtype=np.int64)
    rows = []
    for piece in pieces:
        part = [one.take(piece) for one in references]
        unit = nothing if not len(piece) else np.zeros(len(piece), dtype=np.int64)
        made = _averaged(answers.take(piece), part, unit, 0, verdicts=verdicts, half=half)
        rows.append([float(made[name][0]) for name in FIGURES])
    return np.array(rows)


def _grouped(answers: Answers, references: list[Answers], codes: Ints, options: _Options, *, verdicts: bool) -> Found:
    inside = _each_group(answers, references, codes, verdicts=verdicts, half=options.half)
    found: Found = {}
    for name, column in zip(FIGURES, inside.T, strict=True):
        used = column[~np.isnan(column)]
        value = float(used.mean()) if len(used) else np.nan
        ends = None
        if options.interval is not None:
            others = (used.sum() - used) / max(len(used) - 1, 1)
            ends = jackknife(value, others, transform=_TRANSFORM[name])
        found[name] = (value, ends)
    return found


def _group_counts(
    answers: Answers, references: list[Answers], scored: Any, unit: Ints, notes: list[str]
) -> dict[str, int]:
    codes = np.unique(unit[scored], return_inverse=True)[1].astype(np.int64)
    inside = _each_group(
        answers.take(scored), [one.take(scored) for one in references], codes, verdicts=False, half=False
    )
    used = int((~np.isnan(inside[:, FIGURES.index("pearson")])).sum())
    if used < 0.8 * len(inside):
        notes.append(f"only {used} of {len(inside)} groups could be used: a side is constant or n < 3 in the others")
    return {"n_groups": len(inside), "n_groups_used": used}


def _ceiling(crowd: People, unit: Ints, options: _Options, *, verdicts: bool) -> dict[str, float]:
    """The people among themselves, without intervals."""
    found: list[dict[str, Floats]] = []
    n_people = len(crowd.names)
    for one in range(n_people):
        if options.reference == "each":
            others = [crowd.answers(other) for other in range(one + 1, n_people)]
        else:
            others = _references(crowd.without(one), options) if n_people > 1 else []
        found += [compare_answers(crowd.answers(one), other, unit, 0, verdicts=verdicts) for other in others]
    return _means(found, "ceiling")


def _as_peer(answers: Answers, crowd: People, options: _Options, *, verdicts: bool) -> dict[str, float]:
    """The judge in the place of each annotator: against the others, on that annotator's items."""
    found = []
    for one in range(len(crowd.names)):
        own = crowd.answers(one)
        shared = (own.kind >= 0) | ~np.isnan(own.score)
        (reference,) = _references(crowd.without(one), options)
        unit = np.zeros(int(shared.sum()), dtype=np.int64)
        found.append(
            compare_answers(answers.take(shared), reference.take(shared), unit, 0, verdicts=verdicts, half=options.half)
        )
    return _means(found, "as_peer")


def _means(found: list[dict[str, Floats]], ending: str) -> dict[str, float]:
    means = {}
    for name in _CEILINGS:
        values = [float(one[name][0]) for one in found if not np.isnan(one[name][0])]
        means[f"{name}_{ending}"] = float(np.mean(values)) if values else np.nan
    return means


def _reasons(row: dict[str, Any], found: Found, scale: Scale) -> list[str]:
    reasons = []
    if np.isnan(row["accuracy"]):
        reasons.append("accuracy, kappa: no item has a verdict (or label) of both")
    elif np.isnan(row["kappa"]):
        reasons.append("kappa: both sides are constant and equal")
    numeric = ("pearson", "spearman", "kendall")
    if scale.level != "nominal" and any(np.isnan(row[name]) for name in numeric):
        missing = [name for name in numeric if np.isnan(row[name])]
        reasons.append(f"{', '.join(missing)}: a side is constant or n < 3")
    lost: dict[str, list[str]] = {}
    for name, (value, ends) in found.items():
        if ends is not None and ends.reason is not None and not np.isnan(value):
            lost.setdefault(ends.reason, []).append(name)
    return reasons + [f"no interval of {', '.join(names)}: {why}" for why, names in lost.items()]


def _framed(rows: list[dict[str, Any]], keys: list[str]) -> pd.DataFrame:
    extra = [name for name in ("n_groups", "n_groups_used") if any(name in row for row in rows)]
    columns = [*keys, "judge", *_COUNTS, *extra, *_FLOATS, "notes"]
    made = pd.DataFrame(rows, columns=columns)
    types: dict[str, Any] = dict.fromkeys([*_COUNTS, *extra], "Int64") | dict.fromkeys(_FLOATS, "float64")
    made = made.astype(types)
    for name in (*_KEYS, "judge", "notes"):
        made[name] = tables.categorical(made[name])
    complete = [name for name in _COUNTS if not made[name].isna().any()]
    return made.astype(dict.fromkeys(complete, "int64"))
