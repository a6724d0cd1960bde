"""Tables of figures: their columns and types, and a figure with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics.row_scales import counted_labels, measures
from evalkit.stats.intervals import Interval, Transform, effective_clusters, jackknife, unit_codes
from evalkit.stats.notes import Note, Notes, joined, keep_facts
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Floats, Ints, factorized, group, small

CRITERION_KEY = ["rubric", "rubric_version", "criterion"]
JUDGE_KEY = [*CRITERION_KEY, "judge"]
JURY = "jury"
"""The judge of scores, in tables by judge."""
GAVE_NONE = "own_rule"
"""The reason of what is NA because a function of the user gave NA."""

Declared = Mapping[str, str | None] | Iterable[str] | str
_TYPES = {"text": "category", "count": "int64", "number": "float64"}


def split_rows(frame: pd.DataFrame, keys: list[str], clusters: ClustersLike | None) -> tuple[pd.Series, list[Any]]:
    """The cluster of each row, as numbers in the order of their names, and the places of the rows with equal keys.

    Keys after those of `CRITERION_KEY` may be missing.
    """
    units = pd.Series(small(unit_codes(frame["item_id"], clusters_for(frame, clusters))))
    groups = group(frame, keys, may_miss=keys[len(CRITERION_KEY) :])
    return units, groups.rows() if len(groups) > 1 else [slice(None)] * len(groups)  # one criterion: no copy


def columns(*given: Declared) -> dict[str, str | None]:
    """Columns and their types, in order: lists of text columns, and declarations such as ``"number: a b; text: c"``.

    Types are text, count (never missing), number (NaN if missing) and those of pandas. ``a±`` stands for a figure with
    the ends of its interval. A mapping has the types of pandas (None: as it infers them).

    Examples
    --------
    >>> columns(["judge"], "number: kappa±; bool: best")
    {'judge': 'category', 'kappa': 'float64', 'kappa_low': 'float64', 'kappa_high': 'float64', 'best': 'bool'}
    """
    types: dict[str, str | None] = {}
    for entry in given:
        if isinstance(entry, Mapping):
            types |= entry
            continue
        for declared in entry.split(";") if isinstance(entry, str) else [f"text: {' '.join(entry)}"]:
            kind, _, names = declared.partition(":")
            for name in names.split():
                expanded = interval_columns([name[:-1]]) if name.endswith("±") else [name]
                types |= dict.fromkeys(expanded, _TYPES.get(kind.strip(), kind.strip()))
    return types


def result_table(rows: Sequence[Mapping[str, Any]], *declared: Declared) -> pd.DataFrame:
    """A table with these `columns`; the notes of a row are a text or a list of notes (`notes_of` gives them back).

    Examples
    --------
    >>> row = {"judge": "j", "n_items": 3, "notes": ["one", None, "two"]}
    >>> table = result_table([row], ["judge"], "count: n_items; number: value; text: notes")
    >>> table.dtypes.astype(str).tolist(), table["notes"].tolist()
    (['category', 'int64', 'float64', 'category'], ['one; two'])
    """
    # column by column: `astype` of the whole table takes longer than many figures
    table = {name: _column([row.get(name) for row in rows], kind) for name, kind in columns(*declared).items()}
    return keep_facts(pd.DataFrame(table, copy=False), [row.get("notes") for row in rows])


def _column(values: list[Any], kind: str | None) -> Any:
    if kind == "category":
        return schemas.categorical([joined(value) if isinstance(value, list) else value for value in values])
    if kind == "float64":
        return np.array(values, dtype=np.float64)  # None becomes NaN
    return pd.Series(values, dtype=kind)


def interval_columns(names: Iterable[str]) -> list[str]:
    """Each figure and the ends of its interval.

    Examples
    --------
    >>> interval_columns(["kappa"])
    ['kappa', 'kappa_low', 'kappa_high']
    """
    return [f"{name}{end}" for name in names for end in ("", "_low", "_high")]


def figure_row(name: str, value: float, interval: Interval, notes: Notes | None = None) -> dict[str, float]:
    """A figure and its interval as `interval_columns` names them; why there is none is added to `notes`."""
    if notes is not None and interval.reason is not None:
        notes.append(Note(interval.reason, (name,), "interval"))
    return {name: value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def jackknife_row(
    name: str, values: Floats, transform: Transform, notes: Notes, why: str, unit: Ints | None = None
) -> dict[str, float]:
    """A figure with its jackknife interval; `values` is the figure on all items, then without each unit.

    `unit` is the unit of each item: if they are very unequal, t has fewer degrees of freedom. The reason for a missing
    figure (`why`) or a missing interval is added to `notes`.
    """
    if np.isnan(values[0]):
        notes.append(Note(why, (name,)))
        return {name: np.nan}
    return figure_row(name, float(values[0]), jackknife(values[0], values[1:], transform=transform, unit=unit), notes)


def value_row(
    name: str, values: Floats, transform: Transform, notes: Notes, why: str, unit: Ints | None = None
) -> dict[str, float]:
    """As `jackknife_row`, in the columns `value`, `low` and `high`."""
    row = jackknife_row(name, values, transform, notes, why, unit)
    return {"value": row[name], "low": row.get(f"{name}_low", np.nan), "high": row.get(f"{name}_high", np.nan)}


def cluster_counts(clusters: Ints) -> dict[str, float]:
    """The number of clusters of some items, and to how many equal ones they are equivalent (`effective_clusters`)."""
    return {"n_clusters": len(np.unique(clusters)), "n_clusters_effective": effective_clusters(clusters)}


def clusters_for(table: pd.DataFrame, clusters: ClustersLike | None, evaluation: object = None) -> ClustersLike | None:
    """The clusters passed, else those of the evaluation, else those of the table's own column `group_id`."""
    if clusters is None and not isinstance(evaluation, (pd.DataFrame, pd.Series)):
        clusters = getattr(evaluation, "clusters", None)
    if clusters is not None or not {"item_id", "group_id"} <= {*table.columns}:
        return clusters
    for key in ("item_id", "group_id"):
        factorized(table[key], key)  # an error for cells that are lists
    groups = table[["item_id", "group_id"]].dropna().drop_duplicates()
    if groups["item_id"].duplicated().any():
        item = groups.loc[groups["item_id"].duplicated(), "item_id"].iloc[0]
        raise InputError(f"item {item} has two values in the column 'group_id'; correct it, or pass clusters=")
    return groups.set_index("item_id")["group_id"]


def with_numbers_as_labels(frame: pd.DataFrame, *, ends: bool = False) -> pd.DataFrame:
    """The votes or scores, their labels as they are counted (`counted_labels`)."""
    if "score" not in frame or not frame["level"].eq("interval").any():
        return frame
    label, score = frame["label"].astype(object), frame["score"].to_numpy(dtype=np.float64)
    texts = label.where(label.notna(), None).to_numpy(dtype=object)
    return frame.assign(label=schemas.categorical(counted_labels(score, texts, measures(frame), ends=ends)))


def verdict_codes(passed: pd.Series) -> Ints:
    """Verdicts as 0 (fail) and 1 (pass); −1 for none."""
    return np.where(passed.isna(), -1, passed.fillna(value=False).to_numpy(dtype=np.int64)).astype(np.int64)


def check_whole_numbers(name: str, value: object, least: int = 1) -> None:
    """Raise ConfigError unless the value is a whole number from `least` upwards, or a list of such numbers."""
    several = isinstance(value, Iterable) and not isinstance(value, str)
    numbers = list(value) if several else [value]  # type: ignore[call-overload]
    if not numbers or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < least for n in numbers):
        expected = "a list of whole numbers" if several else "a whole number"
        raise ConfigError(f"{name} must be {expected} ≥ {least}, not {value!r}")
