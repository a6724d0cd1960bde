"""`show`: any table or evalkit object, readable on a page and on a terminal."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.caching import ReplyStore
from evalkit.errors import InputError
from evalkit.evaluation.figures import figure, html_page, html_table, text_table
from evalkit.resources import examples_folder
from evalkit.tables import load_items, read_table

__all__ = ["View", "cache_stats", "load_example", "show"]

_TEXTS = ("explanation", "message", "what_to_do", "question", "answer", "notes", "description", "reply", "items")
_LONG = 160


@dataclass(frozen=True, slots=True)
class View:
    """Something to look at: `print` it, or let a notebook draw it."""

    text: str
    page: str

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.page


def show(shown: Any, *, rows: int = 20) -> View:
    """A table or evalkit object in readable form.

    Figures stand with their interval and coverage where the table has them; judge texts are escaped.

    Parameters
    ----------
    shown
        A DataFrame, or anything of evalkit's that draws itself.
    rows
        How many rows of a table to show.

    Returns
    -------
    View
        Draws itself in a notebook; ``print`` it elsewhere.

    Examples
    --------
    >>> show(pd.DataFrame({"criterion": ["c"], "mean": [1.5], "low": [1.0], "high": [2.0]}))
    criterion               mean
    c          1.50 [1.00, 2.00]
    """
    if isinstance(shown, pd.DataFrame):
        cells = _cells(shown.head(rows))
        note = f"{len(shown)} rows" if len(shown) <= rows else f"the first {rows} of {len(shown)} rows"
        note = note if len(shown) > 1 else ""
        page = html_page([html_table(cells, texts=_TEXTS), f"<p class='note'>{html.escape(note)}</p>" if note else ""])
        return View("\n".join(filter(None, [text_table(cells), note])), page)
    if hasattr(shown, "_repr_html_"):
        return View(str(shown), shown._repr_html_())
    raise InputError(f"show takes a table or an object of evalkit, not {type(shown).__name__}")


def _cells(frame: pd.DataFrame) -> list[dict[str, str]]:
    """The cells as texts; `x`, `x_low` and `x_high` (or low, high beside mean) become one."""
    bounds = {name: (f"{name}_low", f"{name}_high") for name in frame.columns if f"{name}_low" in frame.columns}
    if "mean" in frame.columns and "low" in frame.columns:
        bounds["mean"] = "low", "high"
    hidden = {column for pair in bounds.values() for column in pair} | {"scale", "level", "key"}
    rows = []
    for _, row in frame.iterrows():
        cells = {}
        for name in frame.columns:
            if name in bounds:
                low, high = bounds[name]
                cells[str(name)] = figure(row[name], row[low], row[high])
            elif name not in hidden:
                cells[str(name)] = _cell(row[name])
        rows.append(cells)
    return rows


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return figure(value) if not value.is_integer() else str(int(value))
    if isinstance(value, (list, dict)):
        value = str(value)
    if isinstance(value, str):
        return value if len(value) <= _LONG else value[: _LONG - 1] + "…"
    return "" if pd.isna(value) else str(value)


def cache_stats(cache: str | Path | None = None) -> Any:
    """What lies in the cache, and what this process read from it and saved by it.

    Returns
    -------
    Stats
        Replies by judge and rubric, bytes, US$; hits, misses, joins, stored and US$ saved in this process.
    """
    return ReplyStore.open(None if cache is None else Path(cache)).stats()


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
        Items, and the labels of two annotators who disagree now and then.

    Examples
    --------
    >>> items, labels = load_example("support")
    >>> sorted(labels["annotator"].unique())
    ['ann1', 'ann2']
    """
    folder = examples_folder()
    items = load_items(folder / "items.jsonl")
    labels = read_table(folder / "labels.jsonl", "labels")
    if task is not None:
        tasks = list(items["task"].unique())
        if task not in tasks:
            raise InputError(f"there is no example task {task!r}; there are {', '.join(tasks)}")
        items = items[items["task"] == task].dropna(axis="columns", how="all").reset_index(drop=True)
        labels = labels[labels["item_id"].isin(items["item_id"])].reset_index(drop=True)
    return items, labels
