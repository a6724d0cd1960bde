"""Tables of figures: their columns and types, a figure with its interval, and the notes of a row.

Notes are facts in functions, one text in a table: users get the text; `with_facts` keeps what it is made of, so that no
function takes a sentence apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import pandas as pd

from evalkit.errors import ConfigError, InputError, counted
from evalkit.rubrics.row_scales import counted_labels, measures
from evalkit.stats.intervals import (
    FEW_CLUSTERS,
    LARGE_CLUSTER,
    NOT_PROMISED,
    Interval,
    Transform,
    effective_clusters,
    jackknife,
    unit_codes,
)
from evalkit.tables import schemas
from evalkit.tables.grouping import ClustersLike, Floats, Ints, collected_notes, factorized, group, small

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


def first_that_holds(reasons: Mapping[str, object]) -> str | None:
    """The first reason that holds; None if none does."""
    return next((reason for reason, holds in reasons.items() if holds), None)


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


_P = ParamSpec("_P")
_R = TypeVar("_R")


class Note(NamedTuple):
    """Why a row lacks some figures, or has no interval of them.

    Attributes
    ----------
    reason
        The reason; of a note about the whole row, all that it says.
    figures
        The names of the figures; none: it is about the whole row.
    kind
        What is missing.

    Examples
    --------
    >>> note = Note("fewer than two clusters", ("kappa", "mae"), "interval")
    >>> str(note), note.about({"mae": "error"}), note.about({"bias": "bias"})
    ('no interval of kappa, mae: fewer than two clusters', 'no interval of error: fewer than two clusters', None)
    """

    reason: str
    figures: tuple[str, ...] = ()
    kind: Literal["figure", "interval"] = "figure"

    def __str__(self) -> str:
        names = f"{', '.join(self.figures)}: " if self.figures else ""
        return f"{'no interval of ' * (self.kind == 'interval')}{names}{self.reason}"

    def about(self, titles: Mapping[str, str]) -> str | None:
        """The note as a sentence on the figures that have a title; None if none of its figures has one."""
        figures = tuple(titles[name] for name in self.figures if name in titles)
        return None if self.figures and not figures else str(self._replace(figures=figures))


Notes = list[Note | str]
"""The notes of a row; a text is about the whole row."""

_BETWEEN = "; "
_FACTS = "facts of notes"  # in the `attrs` of a table: text in `notes` -> its notes as tuples, if some are on figures


def note_few_clusters(clusters: Ints, notes: Notes) -> None:
    """Add a note if an interval comes from fewer than ten effective clusters, or mostly from one.

    Examples
    --------
    >>> notes: Notes = []
    >>> note_few_clusters(np.array([0] * 7 + list(range(1, 14))), notes)
    >>> notes
    ['only 6.5 effective clusters: 14 of unequal size', 'one cluster has 35 % of the items']
    """
    sizes = np.unique(clusters, return_counts=True)[1]
    effective = effective_clusters(clusters)
    if len(sizes) < FEW_CLUSTERS:
        notes.append(f"only {counted(len(sizes), 'cluster')}")
    elif effective < FEW_CLUSTERS:
        notes.append(f"only {effective:.1f} effective clusters: {len(sizes)} of unequal size")
    if len(sizes) > 1 and sizes.max() >= max(LARGE_CLUSTER * sizes.sum(), sizes.min() + 1):
        share = sizes.max() / sizes.sum()
        narrow = ": intervals may be too narrow" if share >= NOT_PROMISED else ""
        notes.append(f"one cluster has {100 * share:.0f} % of the items{narrow}")


def with_id_notes(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function whose table (or that of its result) says in `notes` which ids of labels and clusters match no item."""

    def wrapped(*, facts: bool) -> Callable[_P, _R]:
        @wraps(function)
        def noted(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with collected_notes() as id_notes:
                result: Any = function(*args, **kwargs)
            name = "" if isinstance(result, pd.DataFrame) else "summary" if hasattr(result, "summary") else "table"
            table: pd.DataFrame = getattr(result, name) if name else result
            if id_notes and "notes" in table:
                notes = [[*notes_of(row), *id_notes] for _, row in table.iterrows()]
                table = keep_facts(table.assign(notes=schemas.categorical(map(joined, notes))), notes)
                result = replace(result, **{name: table}) if name else table
            if not facts:
                table.attrs.pop(_FACTS, None)
            return cast(_R, result)

        return noted

    plain = wrapped(facts=False)
    _NOTED[plain] = wrapped(facts=True)
    return plain


_NOTED: dict[Any, Any] = {}


def with_facts(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function of `with_id_notes`, from whose table `notes_of` gives the notes as facts."""
    return cast(Callable[_P, _R], _NOTED[function])


def without_facts(table: pd.DataFrame) -> pd.DataFrame:
    """The table as users get it."""
    plain = table.copy(deep=False)
    plain.attrs.pop(_FACTS, None)
    return plain


def joined(notes: Any) -> str | None:
    """A note, or a list of notes and such lists, as one text; None if there are none."""
    return _BETWEEN.join(map(str, _flat(notes))) or None


def notes_of(row: pd.Series) -> list[Note]:
    """The notes of a row of a table; what a table from a file says is about its whole rows.

    Examples
    --------
    >>> notes = ["only 4 clusters", Note("nothing varies", ("kappa",))]
    >>> table = keep_facts(pd.DataFrame({"notes": [joined(notes)]}), [notes])
    >>> notes_of(table.iloc[0])[1]
    Note(reason='nothing varies', figures=('kappa',), kind='figure')
    """
    value = row["notes"]
    text = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value)
    facts = row.attrs.get(_FACTS, {}).get(text)
    return _flat(text) if facts is None else [Note(why, tuple(names), kind) for why, names, kind in facts]


def row_notes(table: pd.DataFrame, *names: str) -> list[tuple[str, str]]:
    """The notes of all rows as sentences, each after the texts of its row in some columns (for `noted`)."""
    return [(", ".join(map(str, row[[*names]])), str(note)) for _, row in table.iterrows() for note in notes_of(row)]


def _flat(notes: Any) -> list[Note]:
    if isinstance(notes, list):
        return [note for entry in notes for note in _flat(entry)]
    if isinstance(notes, Note):
        return [notes]
    return [] if pd.isna(notes) or not notes else [Note(text) for text in str(notes).split(_BETWEEN)]


def keep_facts(table: pd.DataFrame, notes: Iterable[Any]) -> pd.DataFrame:
    """The table, from which `notes_of` gives these notes of its rows back."""
    if rows := [flat for flat in map(_flat, notes) if any(note.figures for note in flat)]:
        table.attrs[_FACTS] = {joined(row): [tuple(note) for note in row] for row in rows}
    return table
