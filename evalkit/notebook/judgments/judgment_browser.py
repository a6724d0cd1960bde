"""`JudgmentBrowser`: look through any judgments table, item by item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.settings import as_cache
from evalkit.errors import InputError, listed
from evalkit.evaluation import Evaluation, show
from evalkit.evaluation.evaluation import rubric_of_table
from evalkit.evaluation.items_with_criteria import scores_of_items
from evalkit.notebook.judgments.headline_numbers import jury_tiles
from evalkit.notebook.judgments.item_table import FILTERS, Query, page_of, page_texts, row_detail, rows_of
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
        One row per item, for the criterion shown; where rows of the items are their criteria, one per criterion.

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
        names, tiles = self._browsed.rubric.names, map(asdict, jury_tiles(self._browsed, self._criterion))
        figures = {"criteria": list(names), "criterion": self._criterion, "tiles": list(tiles)}
        self.widget.figures = {"browse": True, **figures}
        self.widget.notices = notices(self._browsed, self._criterion)
        self._draw_page()

    def _draw_page(self) -> None:
        page = asdict(page_of(self.rows, self._query)) | {"query": asdict(self._query), "judged": True}
        filters = ["all", *(name for name in _FILTERS if any(map(FILTERS[name], self.rows)))]
        page |= {"n_items": len(self.rows), "filters": filters}
        self.widget.page = page | page_texts(self._browsed, self._criterion)

    def _draw_item(self) -> None:
        detail: dict[str, Any] = {}
        for row in self.rows:
            if row.item_id == self._selected:
                detail = row_detail(row, self._browsed, self._criterion, self._cache)
                detail |= {"labels": {}, "held": False}
        self.widget.item = detail

    def _actions(self) -> dict[str, Callable[[Any], object]]:
        actions = super()._actions()
        actions |= {"criterion": self._choose_criterion, "query": self._set_query, "select": self._select}
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
