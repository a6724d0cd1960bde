"""Tables of figures: their columns and types, a figure beside its interval, and the notes of a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from evalkit import tables
from evalkit.errors import counted
from evalkit.stats.intervals import FEW_CLUSTERS, Interval


def result_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    *,
    texts: Iterable[str],
    counts: Iterable[str] = (),
    others: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """A table with these columns: categories of text, whole numbers, `others` by their types, all else floats.

    Examples
    --------
    >>> table = result_table([{"judge": "j", "n": 3}], ["judge", "n", "value"], texts=["judge"], counts=["n"])
    >>> [str(dtype) for dtype in table.dtypes]
    ['category', 'int64', 'float64']
    """
    texts = set(texts)
    types = dict.fromkeys([name for name in columns if name not in texts], "float64")
    types |= dict.fromkeys(counts, "int64") | dict(others or {})
    table = pd.DataFrame(rows, columns=list(columns)).astype(types)
    for name in texts.intersection(columns):
        table[name] = tables.categorical(table[name])
    return table


def interval_columns(names: Iterable[str]) -> list[str]:
    """Each figure and the ends of its interval.

    Examples
    --------
    >>> interval_columns(["kappa"])
    ['kappa', 'kappa_low', 'kappa_high']
    """
    return [f"{name}{end}" for name in names for end in ("", "_low", "_high")]


def figure_row(name: str, value: float, interval: Interval, notes: list[str] | None = None) -> dict[str, float]:
    """A figure and its interval as `interval_columns` names them; why there is none is added to `notes`."""
    if notes is not None and interval.reason is not None:
        notes.append(f"no interval of {name}: {interval.reason}")
    return {name: value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def note_few_clusters(n_clusters: int, notes: list[str], noun: str = "cluster") -> None:
    """Add a note where an interval comes from under ten clusters."""
    if n_clusters < FEW_CLUSTERS:
        notes.append(f"only {counted(n_clusters, noun)}")


def joined(notes: Iterable[str | None]) -> str | None:
    """The notes of a row as one text; None where there are none."""
    return "; ".join(note for note in notes if note) or None
