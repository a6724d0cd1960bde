"""`JudgmentBrowser`: look through any judgments table, item by item."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.settings import as_cache
from evalkit.errors import InputError, listed
from evalkit.evaluation import Evaluation, show
from evalkit.evaluation.evaluation import rubric_of_table
from evalkit.evaluation.items_with_criteria import criteria_of, got_words, items_of_rows, scores_of_items
from evalkit.notebook.judgments.headline_numbers import jury_tiles
from evalkit.notebook.judgments.item_details import item_detail, item_texts
from evalkit.notebook.judgments.item_table import FILTERS, Query, Row, page_of, page_texts, rows_of
from evalkit.notebook.judgments.run_notices import alert_lines, notices
from evalkit.notebook.widget_base import NotebookWidget, new_widget
from evalkit.rubrics.item_criteria import with_rows
from evalkit.stats.alignment.label_splits import split_labels
from evalkit.tables.items import ItemsLike, as_items
from evalkit.tables.schemas import check, empty

_FILTERS = ("split", "tied", "unscored")
"""Filters that need neither labels nor a second version."""


class JudgmentBrowser(NotebookWidget):
    """Look through judgments: tiles, a table with the items that need review first, each judge's replies.

    Filters that have no items are not shown.

    Parameters
    ----------
    judgments
        A judgments table of one version of a rubric, or an `Evaluation`, which has items and cache as well.
    items
        The judged items, as `judge` takes them; without them only ids are shown.
    item_id
        The column of the items with their ids.
    inputs
        For inputs of the rubric the column of the items that holds them, as for `judge`.
    cache
        The cache folder that holds the raw replies; missing ones are left out.

    Attributes
    ----------
    rows
        One row per item, for the criterion shown; where rows of the items are their criteria, one per such item.

    Raises
    ------
    MissingExtraError
        Without ipywidgets and anywidget: they are in the extra ``notebook``.
    InputError
        For a table without rows, of several versions, or without the columns of judgments.

    Examples
    --------
    >>> from evalkit import judge
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
    >>> JudgmentBrowser(judge(items, "correctness", "fake:strict"), items).rows[0].item_id
    '0'
    """

    def __init__(
        self,
        judgments: pd.DataFrame | Evaluation,
        items: ItemsLike | None = None,
        *,
        item_id: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        cache: str | Path | None = None,
    ) -> None:
        super().__init__(new_widget("TunerWidget", "JudgmentBrowser", "ek.show(judgments) shows the table"))
        evaluation = judgments.own if isinstance(judgments, Evaluation) else None
        if evaluation is not None:
            judgments, items, item_id = evaluation.judgments, evaluation.items, None
            cache = evaluation.options.cache if cache is None else cache
        table = check(judgments, "judgments", need=["item_id", "criterion", "judge", "sample"])
        versions = (table["rubric"].astype(str) + "@" + table["rubric_version"].astype(str)).unique()
        if len(versions) != 1:
            raise InputError(
                f"JudgmentBrowser shows one version of one rubric, got {listed(versions)}; pass the rows of one version"
            )
        ids = pd.DataFrame({"item_id": table["item_id"].drop_duplicates().tolist()})
        browsed_items = ids if items is None else as_items(items, item_id=item_id)
        if items is not None:  # they may bring the criteria that were judged
            browsed_items = as_items(with_rows(browsed_items, rubric_of_table(table, browsed_items), inputs)[0])
        missing = set(ids["item_id"]) - set(browsed_items["item_id"])
        if missing:
            raise InputError(
                f"{listed(sorted(missing))} were judged, but are not among the items; pass all of these, or omit items="
            )
        browsed_items = browsed_items[browsed_items["item_id"].isin(ids["item_id"])].reset_index(drop=True)
        self._browsed = evaluation or Evaluation.of(table, browsed_items, inputs=inputs)
        self._labels = split_labels(empty("labels"))
        self._cache = as_cache(cache)
        self._criterion: str = self._browsed.rubric.names[0]
        self._query, self._selected = Query(), ""
        self._points, problem = scores_of_items(self._browsed)
        self._draw()
        self._jobs.alert("\n".join([problem] * bool(problem) + alert_lines(table)))

    def _draw(self) -> None:
        self.rows = rows_of(self._browsed, self._labels, self._criterion)
        if self._points is not None:
            self.rows = rows_of_items(self.rows, self._browsed, self._criterion)
        names, tiles = self._browsed.rubric.names, map(asdict, jury_tiles(self._browsed, self._criterion))
        figures = {"criteria": list(names), "criterion": self._criterion, "tiles": list(tiles)}
        self.widget.figures = {"browse": True, **figures}
        self.widget.notices = notices(self._browsed, self._criterion)
        self._draw_page()

    def _draw_page(self) -> None:
        page = asdict(page_of(self.rows, self._query)) | {"query": asdict(self._query), "judged": True}
        filters = ["all", *(name for name in _FILTERS if any(map(FILTERS[name], self.rows)))]
        page |= {"n_items": len(self.rows), "filters": filters, "of_items": self._points is not None}
        page |= page_texts(self._browsed, self._criterion)
        if self._points is not None:  # the criteria are in the open item
            page |= {"inputs": [name for name in page["inputs"] if name != page["own"]], "own": ""}
        self.widget.page = page

    def _draw_item(self, axis: int = 0, page: int = 0) -> None:
        detail: dict[str, Any] = {}
        if self._selected and self._points is not None:
            detail = item_with_criteria(self._browsed, self._selected, self._criterion, axis, page)
        elif self._selected:
            detail = item_detail(self._browsed, self._selected, self._criterion, self._cache)
        self.widget.item = detail and detail | {"labels": {}, "held": False, "codes": [], "keys": []}

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        actions = super()._actions()
        actions |= {"criterion": self._choose_criterion, "query": self._set_query, "select": self._select}
        actions["criteria"] = lambda message: self._draw_item(int(message["axis"]), int(message["page"]))
        return actions

    def _choose_criterion(self, message: Mapping[str, Any]) -> None:
        if message["name"] in self._browsed.rubric.names:
            self._criterion, self._query = message["name"], Query()
            self._draw()
            self._draw_item()

    def _set_query(self, message: Mapping[str, Any]) -> None:
        self._query = Query(**message["query"])
        self._draw_page()

    def _select(self, message: Mapping[str, Any]) -> None:
        self._selected = str(message["item_id"])
        self._draw_item()

    def __repr__(self) -> str:
        return str(show(self._browsed.scores if self._points is None else self._points))

    def _repr_html_(self) -> str:
        return show(self._browsed.scores if self._points is None else self._points)._repr_html_()


PAGE = 50


def rows_of_items(rows: Sequence[Row], evaluation: Evaluation, criterion: str) -> list[Row]:
    """Of rows of criteria, one row per item; `Row.apart` is what its score lacks."""
    firsts, points_of = {row.item: row for row in reversed(rows)}, dict(items_of_rows(evaluation, criterion))
    columns = [name for name in rows[0].item_columns  # columns of the items, not of their criteria
            if len({(row.item, row.item_columns[name]) for row in rows}) == len(firsts)
            and len({row.item_columns[name] for row in rows}) < len(firsts)]  # fmt: skip
    items = []
    for item in dict.fromkeys(row.item for row in rows):
        points, first = points_of[item], firsts[item]
        lacks = 0.0 if points["low"] is None else 1 - (points["low"] + points["high"]) / 2
        values = {name: first.item_columns[name] for name in columns}
        nothing: Any = {"item": "", "jury": None, "passed": None, "votes": (), "split": None, "conflicts": {}}
        of_item: Any = {"item_id": item, "points": "\n".join(got_words(points)), "item_columns": values}
        items.append(replace(first, status=points["status"], apart=lacks, **of_item, **nothing))
    return items


def item_with_criteria(evaluation: Evaluation, item: str, criterion: str, axis: int, page: int) -> dict[str, Any]:
    """One item as the screen shows it: its texts, points, axes, and a page of the criteria of an axis (0: of all)."""
    criteria = criteria_of(evaluation, item, criterion)
    names = [*dict.fromkeys(row["axis"] for row in criteria)]
    axes = [("all axes", criteria), *((name or "no axis", [row for row in criteria if row["axis"] == name])
                                      for name in names if len(names) > 1)]  # fmt: skip
    axis = min(max(0, axis), len(axes) - 1)
    of_axis = axes[axis][1]
    columns = {name: column for name, column in evaluation.input_columns.items() if column != "requirement"}
    texts = item_texts(evaluation.items, columns, criteria[0]["row"], evaluation.rubric, criterion)
    got = got_words(dict(items_of_rows(evaluation, criterion))[item])
    sums, rows = [_sum(name, rows) for name, rows in axes], of_axis[page * PAGE : (page + 1) * PAGE]
    criteria_shown = {"got": got, "axis": axis, "page": page, "axes": sums, "rows": rows, "start": page * PAGE}
    criteria_shown |= {"n_pages": -(-len(of_axis) // PAGE), "judges": list(evaluation.judges)}
    return {"item_id": item, "criterion": criterion, **texts, "prompt": "", "judges": [], "own": criteria_shown}


def _sum(name: str, criteria: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The points of an axis, those that are decided; only they can be lost."""
    earned, worth = [row["earned"] for row in criteria if row["earned"] is not None], [row["worth"] for row in criteria]
    lost = sum(max(0.0, row["worth"]) - row["earned"] for row in criteria if row["earned"] is not None)
    n_open, possible = len(worth) - len(earned), sum(max(0.0, points) for points in worth)
    return {"name": name, "n": len(worth), "n_open": n_open, "got": sum(earned), "possible": possible,
            "lost": lost, "negative": min(worth) < 0}  # fmt: skip
