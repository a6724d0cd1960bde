"""`JudgmentBrowser`: any judgments table on screen, item by item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from evalkit.errors import EvalkitError, InputError, MissingExtraError, advise_extra, listed
from evalkit.evaluation import Cost, show
from evalkit.notebook.figure_tiles import tiles_of
from evalkit.notebook.item_details import detail_of
from evalkit.notebook.item_table import Query, Row, page_of, rows_of
from evalkit.notebook.tuner_payload import rows_payload, unscored_of
from evalkit.rubrics import Scale
from evalkit.stats.aggregation import aggregate, summarize
from evalkit.stats.agreement import disagreement, reliability
from evalkit.stats.alignment import split_labels
from evalkit.stats.voting import vote
from evalkit.tables import as_items, check, empty

__all__ = ["JudgmentBrowser"]


@dataclass(frozen=True, eq=False)
class _Browsed:
    """What an evaluation is for the view, made from a judgments table alone."""

    judgments: pd.DataFrame
    items: pd.DataFrame
    clusters: None = None

    @cached_property
    def votes(self) -> pd.DataFrame:
        return vote(self.judgments)

    @cached_property
    def scores(self) -> pd.DataFrame:
        return aggregate(self.votes)

    @cached_property
    def disagreement(self) -> pd.DataFrame:
        return disagreement(self.votes)

    @cached_property
    def reliability(self) -> pd.DataFrame:
        return reliability(self.judgments)

    @cached_property
    def summary(self) -> pd.DataFrame:
        return summarize(self.scores)

    @cached_property
    def cost(self) -> Cost:
        return Cost.of(self.judgments)

    @cached_property
    def spec(self) -> Any:
        return SimpleNamespace(judges=self.judgments["judge"].unique().tolist())

    @cached_property
    def rubric(self) -> Any:
        once = self.judgments.drop_duplicates("criterion")
        scales = {
            str(name): Scale.from_json(str(level), str(scale))
            for name, level, scale in once[["criterion", "level", "scale"]].itertuples(index=False)
        }
        return SimpleNamespace(
            names=tuple(scales),
            criterion=lambda name: SimpleNamespace(scale=scales[name]),
            input_names=[name for name in self.items.columns if name not in ("item_id", "group_id", "system_id")],
        )


class JudgmentBrowser:
    """Look through judgments: tiles, a table with what needs eyes first, each judge's replies and reasons.

    Parameters
    ----------
    judgments
        A judgments table of one version of a rubric.
    items
        What was judged, to be shown beside it; as `judge` takes them. Without, the ids alone.
    item_id
        The column of the items that holds the ids.
    cache
        The cache folder, where raw replies are fetched; those that are not there are left out.

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
        self, judgments: pd.DataFrame, items: Any = None, *, item_id: str | None = None, cache: str | Path | None = None
    ) -> None:
        try:
            from evalkit.notebook.tuner_widget import View
        except ImportError as problem:
            raise MissingExtraError(
                f"JudgmentBrowser needs ipywidgets and anywidget: {advise_extra('notebook')}; "
                "without it, ek.show(judgments) shows the table"
            ) from problem
        table = check(judgments, "judgments", need=["item_id", "criterion", "judge", "sample"])
        versions = (table["rubric"].astype(str) + "@" + table["rubric_version"].astype(str)).unique()
        if len(versions) != 1:
            raise InputError(f"JudgmentBrowser shows one version of a rubric; the table holds {listed(versions)}")
        ids = pd.DataFrame({"item_id": table["item_id"].drop_duplicates().tolist()})
        shown = ids if items is None else as_items(items, item_id=item_id)
        lacking = set(ids["item_id"]) - set(shown["item_id"])
        if lacking:
            raise InputError(f"the items lack {listed(sorted(lacking))}, which were judged; pass all, or none")
        shown = shown[shown["item_id"].isin(ids["item_id"])].reset_index(drop=True)
        self._browsed: Any = _Browsed(table, shown)
        self._labels = split_labels(empty("labels"))
        self._cache = None if cache is None else Path(cache)
        self._criterion: str = self._browsed.rubric.names[0]
        self._query, self._selected = Query(), ""
        self._rows: dict[str, list[Row]] = {}
        self._view = View()
        self._view.on_msg(self._receive)
        self._show()
        self._view.alert = "\n".join(unscored_of(table))

    @property
    def rows(self) -> list[Row]:
        """One row an item on the criterion that is shown."""
        if self._criterion not in self._rows:
            self._rows[self._criterion] = rows_of(self._browsed, self._labels, self._criterion)
        return self._rows[self._criterion]

    def _show(self) -> None:
        people = ("Agreement with people", "Kappa", "People among themselves", "Changed")
        tiles = tiles_of(self._browsed, self._labels, self._criterion, None)
        self._view.board = {
            "browse": True,
            "criteria": list(self._browsed.rubric.names),
            "criterion": self._criterion,
            "tiles": [tile.to_dict() for tile in tiles if tile.title not in people],
        }
        self._page()

    def _page(self) -> None:
        page = page_of(self.rows, self._query)
        self._view.page = rows_payload(page, len(self._browsed.items)) | {"query": asdict(self._query), "judged": True}

    def _item(self) -> None:
        detail = detail_of(self._browsed, self._selected, self._criterion, self._cache) if self._selected else {}
        self._view.item = detail and detail | {"labels": {}, "held": False, "codes": []}

    def _receive(self, _widget: Any, content: Any, _buffers: Any) -> None:
        actions: dict[str, Callable[[Any], object]] = {
            "criterion": self._choose,
            "query": self._ask,
            "select": self._select,
            "dismiss": lambda _: setattr(self._view, "alert", ""),
        }
        try:
            if isinstance(content, Mapping) and content.get("do") in actions:
                actions[content["do"]](content)
        except (EvalkitError, LookupError, TypeError, ValueError) as problem:
            self._view.alert = f"{type(problem).__name__}: {problem}"

    def _choose(self, said: Mapping[str, Any]) -> None:
        if said["name"] in self._browsed.rubric.names:
            self._criterion, self._query = said["name"], Query()
            self._show()
            self._item()

    def _ask(self, said: Mapping[str, Any]) -> None:
        self._query = Query.of(said["query"])
        self._page()

    def _select(self, said: Mapping[str, Any]) -> None:
        self._selected = str(said["item_id"])
        self._item()

    def __repr__(self) -> str:
        return str(show(self._browsed.scores))

    def _repr_html_(self) -> str:
        return show(self._browsed.scores)._repr_html_()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        made = self._view._repr_mimebundle_(**options)
        data, metadata = made if isinstance(made, tuple) else (made or {}, {})
        return {**data, "text/html": self._repr_html_(), "text/plain": repr(self)}, metadata
