"""Align: judges against human labels, with the humans' own agreement as the ceiling.

Long, but one thing: every figure of a row is of the same items and clusters, which are chosen here once.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from evalkit import tables
from evalkit.errors import ConfigError, EvalkitWarning, InputError, listed
from evalkit.intervals import FEW_CLUSTERS
from evalkit.rubrics.scales import Scale
from evalkit.tables.grouping import Ints
from evalkit.validity.figures import FIGURES, Answers
from evalkit.validity.levels import Found, Level, figures, figures_once, inside_groups, system_names
from evalkit.validity.panels import KEYS, Panel, checked, panels
from evalkit.validity.parts import HELD_OUT, PartOption, count_look, take_part
from evalkit.validity.people import People

__all__ = ["align"]

ReferenceOption = Literal["each", "mean", "majority"]
TiesOption = Literal["na", "half"]
LevelOption = Literal["corpus", "group", "system"]
IntervalOption = Literal["jackknife", "bootstrap"]

_CEILINGS = ("accuracy", "kappa", "quadratic_kappa", "spearman")
_COUNTS = ["n_items", "n_scored", "n_verdicts", "n_labelled", "n_annotators", "n_clusters", "n_tied_references"]
_OF_LEVELS = ("n_groups", "n_groups_used", "n_systems")
_ENOUGH_GROUPS = 0.8
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
    systems: Mapping[str, Any] | pd.Series | pd.DataFrame | str | None = None,
    part: PartOption | None = None,
    folder: str | Path | None = None,
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
        ``corpus`` (default); ``group``: the unweighted mean of the figures inside each cluster, those where a
        side is constant or n < 3 left out (no Fisher z), with `n_groups` and `n_groups_used`, and a warning
        where under 80 % are used; ``system``: the figures of the systems' mean scores, on the items that
        judge and annotator both scored, with `n_systems`. Ceilings are of the same level.
    interval
        ``jackknife`` (default) over clusters, ``bootstrap`` (2,000 rounds, slow; corpus level), or None: figures
        alone, fast. Between systems too it is the clusters that are left out: it says nothing of other systems.
    clusters
        item_id -> cluster; the item by default. `Evaluation` takes its items' groups and equal contents:
        `clusters=evaluation.clusters` gives the intervals that it shows.
    systems
        For ``system``: the items (`item_id`, `system_id`), item_id -> system, or a column of `judged`.
    part
        ``dev`` or ``held-out``, for labels of `split_labels`. A look at held-out labels is counted (see
        `held_out_looks`), with `n_looks` and `n_versions` in the table. None: all labels, or those of ``dev``
        where labels carry parts.
    folder
        Where looks are counted; by default the folder of the reply store.

    Returns
    -------
    DataFrame
        One row per `rubric, rubric_version, criterion` (and `by`) and `judge`, every figure NA where it is
        not defined, with its 95 % interval in `_low` and `_high` (judges and annotators are fixed):

        - verdicts where the criterion has a pass rule, else labels: `accuracy` and `kappa` (Cohen);
          `false_pass_rate` (the judge passes, of what people fail) and `false_fail_rate`;
        - scores, in rubric units: `quadratic_kappa` (Lin's concordance 2s_xy/(s_x² + s_y² + (x̄ − ȳ)²) with
          1/n moments: the quadratic weighted kappa, for means of samples too), `pearson`, `spearman`,
          `kendall` (tau-b), `mae`, `bias` (judge − human). Where one level is rare the intervals of the first two
          are too narrow: simulated, those of `quadratic_kappa` covered 88-91 % at 30 and 60 items;
        - `…_ceiling`: the same figure among people: the mean over pairs of annotators, or, against ``mean`` and
          ``majority``, of each annotator against the others; `…_as_peer` is then the judge on that footing. Neither has
          an interval: on few items a ceiling is as unsure as the judge's figure;
        - `n_items` of the judge, `n_labelled` of them, `n_scored` of these, `coverage` = n_scored / n_labelled,
          `n_verdicts` of them with a verdict (without pass rule: a label; a tie is none),
          `n_annotators`, `n_tied_references`, `n_clusters`;
        - `notes`: why something is NA, and what to mind.

    Raises
    ------
    InputError
        When columns are missing, a row is double, a label is not on the scale (the message lists what is
        allowed), or no label is of a criterion that was judged.
    ConfigError
        For an unknown option, or a level without its `clusters` or `systems`.
    CacheError
        When a look at held-out labels cannot be counted.

    References
    ----------
    Cohen, J. (1960), A coefficient of agreement for nominal scales, eq. (1). Lin, L. (1989), A concordance
    correlation coefficient to evaluate reproducibility. Kendall, M. (1945), tau-b.

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
    _check_level(level, interval, clusters, systems)
    frame, said = checked(judged, labels)
    said, chosen = take_part(said, part)
    frame = _with_by(frame, by)
    keys = [*KEYS, *([_by_name(by)] if by is not None else [])]
    systems_of = system_names(frame, systems) if systems is not None else None
    options = _Options(reference, ties == "half", level, interval)
    rows: list[dict[str, Any]] = []
    for panel in panels(frame, said, keys=keys, clusters=clusters):
        rows.extend(panel.head | row for row in _rows(panel, options, systems_of, chosen))
    if rows and len(said) and not any(row["n_labelled"] for row in rows):
        raise InputError(
            f"no label belongs to one of these items: label ids such as {str(said['item_id'].iloc[0])!r}, "
            f"item ids such as {str(frame['item_id'].iloc[0])!r}; name the id column when reading either"
        )
    made = _framed(rows, keys)
    if part == HELD_OUT:
        made = count_look(made, said, folder)
    _warn_of_lost_groups(made)
    return made


@dataclass(frozen=True, slots=True)
class _Options:
    reference: str
    half: bool
    level: str
    interval: str | None


def _check_options(reference: str, ties: str, level: str, interval: str | None) -> None:
    for name, given, allowed in (
        ("reference", reference, get_args(ReferenceOption)),
        ("ties", ties, get_args(TiesOption)),
        ("level", level, get_args(LevelOption)),
        ("interval", interval, (*get_args(IntervalOption), None)),
    ):
        if given not in allowed:
            raise ConfigError(f"align got {name}={given!r}; allowed are {listed(allowed)}")


def _check_level(level: str, interval: str | None, clusters: Any, systems: Any) -> None:
    if level == "group" and clusters is None:
        raise ConfigError("level='group' needs clusters=: which group each item_id belongs to")
    if level == "system" and systems is None:
        raise ConfigError("level='system' needs systems=: items with a system_id, or item_id -> system")
    if level != "corpus" and interval == "bootstrap":
        raise ConfigError(f"interval='bootstrap' is for level='corpus'; level={level!r} has 'jackknife' or None")


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


def _rows(
    panel: Panel, options: _Options, systems_of: Mapping[str, str] | None, chosen: str | None
) -> list[dict[str, Any]]:
    crowd = panel.crowd
    system = np.zeros(0, dtype=np.int64)
    if systems_of is not None:
        system = pd.factorize(pd.Series(panel.items).map(systems_of), sort=True)[0].astype(np.int64)
    level = Level(options.level, panel.unit, system, panel.verdicts)
    row: dict[str, Any] = {"n_annotators": len(crowd.names)}
    if options.reference != "each":
        row["n_tied_references"] = int(crowd.together("majority").tied.sum())
    row |= _ceiling(crowd, level, options)
    return [
        panel.head | {"judge": judge} | row | _judge_row(answers, there, panel, level, options, chosen)
        for judge, (answers, there) in panel.judges.items()
    ]


def _judge_row(
    answers: Answers, there: Any, panel: Panel, level: Level, options: _Options, chosen: str | None
) -> dict[str, Any]:
    crowd = panel.crowd
    labelled = crowd.labelled & there
    scored = labelled & ((answers.kind >= 0) | ~np.isnan(answers.score))
    row: dict[str, Any] = {"n_items": int(there.sum()), "n_labelled": int(labelled.sum())}
    row |= {"n_scored": int(scored.sum()), "n_clusters": len(np.unique(panel.unit[scored]))}
    row["n_verdicts"] = int((labelled & (answers.kind >= 0)).sum())
    row["coverage"] = row["n_scored"] / row["n_labelled"] if row["n_labelled"] else np.nan
    notes = [chosen] if chosen else []
    if not row["n_scored"]:
        notes.append("no item has both a label and a score" if row["n_labelled"] else "no labels")
        return row | {"notes": "; ".join(notes)}
    references = [one.take(scored) for one in _references(crowd, options)]
    at_level = replace(level.take(scored), half=options.half)
    found = figures(answers.take(scored), references, at_level, options.interval)
    for name, (value, ends) in found.items():
        row[name] = value
        if ends is not None:
            row |= {f"{name}_low": ends.low, f"{name}_high": ends.high}
    if options.reference != "each" and len(crowd.names) > 1:
        row |= _as_peer(answers, crowd, level, options)
    if options.level == "group":
        row |= _group_counts(answers.take(scored), references, at_level, notes)
    elif options.level == "system":
        row |= _system_counts(level.system[scored], notes)
    pairs = max(int(((one.kind >= 0) & (answers.kind[scored] >= 0)).sum()) for one in references)
    notes += _reasons(row, found, panel.scale, options, pairs)
    if options.interval is not None and row["n_clusters"] < FEW_CLUSTERS:
        notes.append(f"only {row['n_clusters']} clusters")
    return row | {"notes": "; ".join(notes) or None}


def _references(crowd: People, options: _Options) -> list[Answers]:
    if options.reference == "each":
        return [crowd.answers(number) for number in range(len(crowd.names))]
    return [crowd.together("mean" if options.reference == "mean" else "majority")]


def _group_counts(answers: Answers, references: list[Answers], level: Level, notes: list[str]) -> dict[str, int]:
    inside = inside_groups(answers, references, level)
    used = int((~np.isnan(inside[:, FIGURES.index("pearson")])).sum())
    if used < _ENOUGH_GROUPS * len(inside):
        notes.append(f"only {used} of {len(inside)} groups could be used: a side is constant or n < 3 in the others")
    return {"n_groups": len(inside), "n_groups_used": used}


def _system_counts(system: Ints, notes: list[str]) -> dict[str, int]:
    if (system < 0).any():
        notes.append(f"{int((system < 0).sum())} items have no system")
    return {"n_systems": len(np.unique(system[system >= 0]))}


def _warn_of_lost_groups(made: pd.DataFrame) -> None:
    if "n_groups" not in made:
        return
    few = made.loc[(made["n_groups_used"] < _ENOUGH_GROUPS * made["n_groups"]).fillna(value=False).to_numpy(bool)]
    if len(few):
        worst = few.iloc[int((few["n_groups_used"] / few["n_groups"]).to_numpy(dtype=float).argmin())]
        warnings.warn(
            f"correlations inside groups leave out over 20 % of the groups in {len(few)} of {len(made)} rows "
            f"(judge {str(worst['judge'])!r}: {worst['n_groups_used']} of {worst['n_groups']} used), where a side is "
            "constant or n < 3; they speak of the other groups alone",
            EvalkitWarning,
            stacklevel=3,
        )


def _ceiling(crowd: People, level: Level, options: _Options) -> dict[str, float]:
    """The people among themselves at the same level, without intervals."""
    found: list[dict[str, float]] = []
    n_people = len(crowd.names)
    for one in range(n_people):
        own = crowd.answers(one)
        if options.reference == "each":
            others = [crowd.answers(other) for other in range(one + 1, n_people)]
        else:
            others = _references(crowd.without(one), options) if n_people > 1 else []
        found += [_shared(own, other, level) for other in others]
    return _means(found, "ceiling")


def _as_peer(answers: Answers, crowd: People, level: Level, options: _Options) -> dict[str, float]:
    """The judge in the place of each annotator: against the others, on that annotator's items."""
    found = []
    for one in range(len(crowd.names)):
        own = crowd.answers(one)
        said = (own.kind >= 0) | ~np.isnan(own.score)
        (reference,) = _references(crowd.without(one), options)
        at_level = replace(level.take(said), half=options.half)
        found.append(figures_once(answers.take(said), reference.take(said), at_level))
    return _means(found, "as_peer")


def _shared(one: Answers, other: Answers, level: Level) -> dict[str, float]:
    """The figures on what both answered (groups that they do not share are none)."""
    both = ((one.kind >= 0) & (other.kind >= 0)) | (~np.isnan(one.score) & ~np.isnan(other.score))
    return figures_once(one.take(both), other.take(both), level.take(both))


def _means(found: list[dict[str, float]], ending: str) -> dict[str, float]:
    means = {}
    for name in _CEILINGS:
        values = [one[name] for one in found if not np.isnan(one[name])]
        means[f"{name}_{ending}"] = float(np.mean(values)) if values else np.nan
    return means


def _reasons(row: dict[str, Any], found: Found, scale: Scale, options: _Options, pairs: int) -> list[str]:
    reasons = []
    between = options.level == "system"
    if between:
        reasons.append("accuracy, kappa and false rates: systems have no verdicts")
    elif np.isnan(row["accuracy"]):
        reasons.append("accuracy, kappa: no item has a verdict (or label) of both")
    elif np.isnan(row["kappa"]):
        reasons.append(f"kappa: {'both sides are constant and equal' if pairs > 1 else 'fewer than two items'}")
    numeric = ("pearson", "spearman", "kendall")
    if scale.level == "nominal":
        reasons.append("correlations, mae, bias: a nominal criterion has no scores")
    elif any(np.isnan(row[name]) for name in numeric):
        missing = [name for name in numeric if np.isnan(row[name])]
        few = "there are under three systems" if between else "n < 3"
        reasons.append(f"{', '.join(missing)}: a side is constant or {few}")
    lost: dict[str, list[str]] = {}
    for name, (value, ends) in found.items():
        if ends is not None and ends.reason is not None and not np.isnan(value):
            lost.setdefault(ends.reason, []).append(name)
    return reasons + [f"no interval of {', '.join(names)}: {why}" for why, names in lost.items()]


def _framed(rows: list[dict[str, Any]], keys: list[str]) -> pd.DataFrame:
    extra = [name for name in _OF_LEVELS if any(name in row for row in rows)]
    columns = [*keys, "judge", *_COUNTS, *extra, *_FLOATS, "notes"]
    return pd.DataFrame({name: _column(name, [row.get(name) for row in rows]) for name in columns}, copy=False)


def _column(name: str, values: list[Any]) -> Any:
    """Column by column: `astype` of the whole table takes longer than all its figures."""
    if name in _FLOATS:
        return np.array(values, dtype=np.float64)  # None becomes NaN
    if name in (*KEYS, "judge", "notes"):
        return tables.categorical(values)
    if name not in (*_COUNTS, *_OF_LEVELS):
        return values
    counts = pd.array([None if pd.isna(value) else value for value in values], dtype="Int64")
    return counts.to_numpy(dtype=np.int64) if name in _COUNTS and not counts.isna().any() else counts
