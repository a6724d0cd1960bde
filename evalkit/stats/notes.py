"""The notes of a row of figures: facts in functions, one text in a table.

Users get the text; `with_facts` keeps what it is made of, so that no function takes a sentence apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
import pandas as pd

from evalkit.errors import counted
from evalkit.stats.intervals import FEW_CLUSTERS, LARGE_CLUSTER, NOT_PROMISED, effective_clusters
from evalkit.tables import schemas
from evalkit.tables.grouping import Ints, collected_notes

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
