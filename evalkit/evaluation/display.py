"""`show`: a table or evalkit object in readable form, on a page or a terminal."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from evalkit.core.formatting import WIDTH, count_of, figure, html_page, html_table, noted, text_table, wrapped
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache.maintenance import Stats
from evalkit.errors import InputError
from evalkit.evaluation import overview
from evalkit.evaluation.evaluation import Evaluation
from evalkit.evaluation.evaluation_log import AGREEMENT, SUMMARY
from evalkit.evaluation.items_with_criteria import got_words
from evalkit.rubrics.files import shipped_folder
from evalkit.stats.comparison.comparison_table import Comparison
from evalkit.stats.result_tables import row_notes
from evalkit.tables import load_items, read_table
from evalkit.tables.files import records

_LONG = 160
_BOUNDS = {"mean": ("low", "high"), "mean_norm": ("norm_low", "norm_high"), "pass_rate": ("pass_low", "pass_high")}
_COPIED = ("id", "run", "points", "range", "open")
_OF_HISTORY = ("evaluation", "time", "rubric", "judges", "samples", "criterion", *SUMMARY, *AGREEMENT, "cost_usd")
"""Columns whose texts go into the next command: never cut."""
_KEPT = ("score", "label", "passed", "mean")


class Drawable(Protocol):
    """An object that draws itself in a notebook, as those of evalkit do."""

    def _repr_html_(self) -> str: ...


@dataclass(frozen=True, slots=True)
class View:
    """A text and an HTML page of the same: `print` it, or let a notebook draw it."""

    text: str
    page: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.page


def show(shown: pd.DataFrame | Drawable, *, rows: int = 20, width: int | None = WIDTH) -> View:
    """A table or evalkit object in readable form.

    Figures are shown with their interval and coverage, if the table has them; judge texts are escaped.

    Parameters
    ----------
    shown
        A DataFrame, or an evalkit object that can draw itself.
    rows
        How many rows of a table to show.
    width
        Make the text fit a terminal of this many columns: values that all rows share move to the last line, empty
        columns are left out, long texts are cut. None: as wide as the table is.

    Returns
    -------
    View
        Draws itself in a notebook; ``print`` it elsewhere.

    Raises
    ------
    InputError
        For anything but a table or an evalkit object.

    Examples
    --------
    >>> show(pd.DataFrame({"criterion": ["c"], "mean": [1.5], "low": [1.0], "high": [2.0]}))
    criterion               mean
    c          1.50 [1.00, 2.00]
    """
    if rows < 1 or (width is not None and width < 1):
        raise InputError(f"rows and width of show must be at least 1, got rows={rows!r}, width={width!r}")
    if isinstance(shown, pd.DataFrame):
        shown = _with_index(shown)
        is_history = {"rubric_version", *_OF_HISTORY} <= {*shown.columns}
        table = _short_points(shown) if {"possible", "n_open", "renormalised"} <= {*shown.columns} else shown
        return _table_view(_short_history(shown) if is_history else table, rows, width)
    if isinstance(shown, Evaluation):
        return View(wrapped(overview.text(shown.own, width), width), shown._repr_html_())
    if isinstance(shown, Comparison):
        return View(shown.text(width), shown._repr_html_())
    if hasattr(shown, "_repr_html_") and not isinstance(shown, type):
        return View(wrapped(str(shown), width), shown._repr_html_())
    raise InputError(f"show takes a table or an object of evalkit, not {type(shown).__name__}")


def _with_index(table: pd.DataFrame) -> pd.DataFrame:
    """The table, with its index as columns where that says more than the number of the row."""
    index = table.index
    if any(name is not None for name in index.names):
        return table.reset_index(level=[name for name in index.names if name is not None and name not in table])
    is_plain = index.nlevels > 1 or pd.api.types.is_integer_dtype(index.dtype)
    return table if is_plain or "" in table else table.reset_index(names="")


def _short_history(history: pd.DataFrame) -> pd.DataFrame:
    """What one looks for in the table of `history`; the table itself has more."""
    rubric = history["rubric"] + "@" + history["rubric_version"]
    time = history["time"].dt.strftime("%Y-%m-%d %H:%M")
    short = history.assign(rubric=rubric, time=time)[[*_OF_HISTORY]].dropna(axis=1, how="all")
    return short.rename(columns={"n_verdicts": "verdicts"})


def _short_points(table: pd.DataFrame) -> pd.DataFrame:
    """Points got of possible, the score, the range that open criteria leave, and how many are open."""
    names = ("rubric", "rubric_version", "criterion", "item_id", "axis", "system_id")
    words = [got_words(row) for row in records(table[["points", "possible", "low", "high"]])]
    is_open = [f"{n} of {n_all}" for n, n_all in zip(table["n_open"], table["n_criteria"], strict=True)]
    got, ends = zip(*words, strict=True) if words else ((), ())
    short = table[[name for name in names if name in table]].assign(points=got, score=table["score"], range=ends)
    return short.assign(open=is_open, reason=table["reason"])


def _table_view(table: pd.DataFrame, rows: int, width: int | None) -> View:
    count = f"{len(table)} rows" if len(table) <= rows else f"the first {rows} of {len(table)} rows"
    lines = [count] if len(table) > 1 else []
    if "notes" in table.columns:  # below the table: a column would take the room of the figures
        top = table.head(rows)
        names = [name for name in ("criterion", "judge", "run") if name in table.columns]
        lines += noted(row_notes(top, *names), len(top))
        table = table.drop(columns="notes")
    cells = _cells(table.head(rows))
    below = f"<p class='note'>{'<br>'.join(map(html.escape, lines))}</p>" if lines else ""
    page = html_page([html_table(cells, texts=_left(table)), below])
    if width is None:
        return View("\n".join([text_table(cells, width=None), *lines]), page)
    shared, frame = _folded(table, rows)
    text = text_table(_cells(frame), width=width, left=_left(frame), whole=_COPIED)
    return View("\n".join([text, wrapped(" · ".join(filter(None, [shared, "\n".join(lines)])), width)]).rstrip(), page)


def _folded(frame: pd.DataFrame, rows: int) -> tuple[str, pd.DataFrame]:
    """The values that all rows share, as text; and the first rows without these and without empty columns."""
    shared = []
    if len(frame) and {"rubric", "rubric_version"} <= set(frame.columns):
        named = frame["rubric"].astype(str) + "@" + frame["rubric_version"].astype(str)
        if named.nunique() == 1:
            shared.append(named.iloc[0])
            frame = frame.drop(columns=["rubric", "rubric_version"])
    for name in ("criterion", "judge"):
        if name in frame.columns and len(frame) > 1 and frame[name].astype(object).nunique(dropna=False) == 1:
            shared.append(str(frame[name].iloc[0]))
            frame = frame.drop(columns=name)
    for whole in ("n_samples", "n_judges", "n_labelled", "n_items"):
        if {"n_scored", whole} <= set(frame.columns):
            of = [count_of(n, all_) for n, all_ in zip(frame["n_scored"], frame[whole], strict=True)]
            frame = frame.assign(n_scored=of).rename(columns={"n_scored": "scored"}).drop(columns=whole)
    top = frame.head(rows)
    empty = [name for name in top.columns if len(top) and top[name].isna().all() and f"{name}_low" not in top.columns]
    return " · ".join(shared), top.drop(columns=[name for name in empty if name not in _KEPT])


def _left(frame: pd.DataFrame) -> set[str]:
    """The columns with words, not figures."""
    return {str(name) for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name]) and name != "scored"}


def _cells(frame: pd.DataFrame) -> list[dict[str, str]]:
    """The cells as texts; `x`, `x_low` and `x_high` (or low, high beside mean) become one."""
    bounds = {name: (f"{name}_low", f"{name}_high") for name in frame.columns if f"{name}_low" in frame.columns}
    bounds |= {name: pair for name, pair in _BOUNDS.items() if {name, *pair} <= set(frame.columns)}
    hidden = {column for pair in bounds.values() for column in pair} | {"scale", "level", "key"}
    precise = {
        name
        for name in frame.columns
        if frame[name].dtype.kind == "f" and (frame[name].dropna().astype(float) % 1).any()
    }

    def cell(row: pd.Series, name: Any) -> str:
        if name in bounds:
            return figure(row[name], *map(row.get, bounds[name]))
        return figure(row[name]) if name in precise else _cell(row[name])

    names = [name for name in frame.columns if name in bounds or name not in hidden]
    return [{str(name): cell(row, name) for name in names} for _, row in frame.iterrows()]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return figure(value) if not value.is_integer() else str(int(value))
    if not pd.api.types.is_scalar(value):
        value = str(value)
    if isinstance(value, str):
        return value if len(value) <= _LONG else value[: _LONG - 1] + "…"
    return "" if pd.isna(value) else str(value)


def cache_stats(cache: str | Path | None = None) -> Stats:
    """The contents of the cache, and what this process read from it and saved by it.

    Returns
    -------
    Stats
        Replies by judge and rubric, bytes, US$; hits, misses, joins, stored and US$ saved in this process.
    """
    return ReplyStore.open(cache).stats()


def load_example(task: str | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The labelled example set that ships with evalkit.

    Parameters
    ----------
    task
        ``support`` (faithfulness), ``facts`` (correctness), ``assistant`` (instruction following), or
        None for all.

    Returns
    -------
    items, labels : pandas.DataFrame
        Items, and the labels of two annotators who sometimes disagree.

    Examples
    --------
    >>> items, labels = load_example("support")
    >>> sorted(labels["annotator"].unique())
    ['ann1', 'ann2']
    """
    folder = shipped_folder("examples")
    items, labels = load_items(folder / "items.jsonl"), read_table(folder / "labels.jsonl", "labels")
    if task is not None:
        tasks = list(items["task"].unique())
        if task not in tasks:
            raise InputError(f"example task {task!r} not found; available: {', '.join(tasks)}")
        items = items[items["task"] == task].dropna(axis="columns", how="all").reset_index(drop=True)
        labels = labels[labels["item_id"].isin(items["item_id"])].reset_index(drop=True)
    return items, labels
