"""The rows of the tuner's table: what is known of each item, what needs eyes first, filters and pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from evalkit.evaluation import Evaluation
from evalkit.evaluation.suggestions.cases import kinds_of
from evalkit.notebook.label_log import fitting
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.human_labels import people

__all__ = ["FILTERS", "PAGE", "SORTS", "Page", "Query", "Row", "page_of", "rows_of", "verdict_beside"]

PAGE = 25


@dataclass(frozen=True, slots=True)
class Row:
    """One item on one criterion.

    Attributes
    ----------
    people
        Annotator -> label, of the dev labels; empty for held-out items (`held`), whose labels are not shown.
    jury, passed, status
        The jury's label, verdict and status.
    votes
        (judge, label, verdict) of each judge.
    split
        Disagreement, 0-1, or NaN.
    change
        Against the version compared with: ``fixed``, ``broke`` (by the majority of people), ``now passes``, ``now
        fails`` (without labels), ``changed`` (without pass rule), or empty.
    people_passed
        The verdict of the majority of people; None without a pass rule, or where there is none.
    wrong
        The jury is not where the majority of people is; None where that cannot be said.
    beside
        jury (``""``) or judge -> its verdict, of those whose label says another (see `verdict_beside`).
    """

    item_id: str
    text: str
    people: dict[str, str]
    held: bool
    jury: str | None
    passed: bool | None
    status: str
    votes: tuple[tuple[str, str | None, bool | None], ...]
    split: float
    change: str
    people_passed: bool | None
    wrong: bool | None
    beside: dict[str, str] = field(default_factory=dict)

    @property
    def urgency(self) -> float:
        """How much it needs eyes: wrong, newly broken, unscored, split."""
        split = 0.0 if np.isnan(self.split) else self.split
        broke = self.change in ("broke", "now fails")
        return 8 * bool(self.wrong) + 4 * broke + 2 * (self.status != "ok") + split


FILTERS: dict[str, tuple[str, Callable[[Row], bool]]] = {
    "all": ("All", lambda row: True),  # noqa: ARG005
    "wrong": ("Jury ≠ people", lambda row: bool(row.wrong)),
    "split": ("Judges split", lambda row: row.split > 0),
    "changed": ("Changed", lambda row: bool(row.change)),
    "broke": ("Broke", lambda row: row.change == "broke"),
    "fixed": ("Fixed", lambda row: row.change == "fixed"),
    "unscored": ("Not fully scored", lambda row: row.status != "ok"),
    "unlabelled": ("No label", lambda row: not row.people and not row.held),
}

SORTS: dict[str, Callable[[Row], Any]] = {
    "eyes": lambda row: row.urgency,
    "item": lambda row: row.item_id,
    "people": lambda row: sorted(row.people.values()),
    "jury": lambda row: row.jury or "",
    "split": lambda row: -1.0 if np.isnan(row.split) else row.split,
    "change": lambda row: row.change,
}


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows to show: filter, cell of the matrix (human, jury, verdict beside), search, order, page (0-based)."""

    filter: str = "all"
    cell: tuple[str, str | None, str] | None = None
    search: str = ""
    sort: str = "eyes"
    down: bool = True
    page: int = 0

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Query:
        """The query that the view sends."""
        cell = given.get("cell")
        return cls(
            filter=str(given.get("filter", "all")),
            cell=None if not cell else (str(cell[0]), None if cell[1] is None else str(cell[1]), "".join(cell[2:])),
            search=str(given.get("search", "")),
            sort=str(given.get("sort", "eyes")),
            down=bool(given.get("down", True)),
            page=int(given.get("page", 0)),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, how many there are on all, and how many each filter would show."""

    rows: list[Row]
    n: int
    page: int
    n_pages: int
    counts: dict[str, int] = field(default_factory=dict)


def rows_of(
    evaluation: Evaluation, labels: pd.DataFrame, criterion: str, against: Evaluation | None = None
) -> list[Row]:
    """One row an item, in the order of the items."""
    scale = evaluation.rubric.criterion(criterion).scale
    ids = pd.Index(evaluation.items["item_id"], dtype=object)
    mine = fitting(labels[(labels["criterion"] == criterion).to_numpy()], scale)
    dev, held = mine[mine["part"] == "dev"], set(mine.loc[mine["part"] == "held-out", "item_id"])
    said: dict[str, dict[str, str]] = {}
    for item, who, label in dev[["item_id", "annotator", "label"]].astype(str).itertuples(index=False):
        said.setdefault(item, {})[who] = label
    kinds: dict[str, int] = {}
    truth = people(dev, ids, scale, kinds, criterion).together("majority").kind if len(dev) else np.full(len(ids), -1)
    scores = _by_item(evaluation.scores, criterion, ids)
    now = kinds_of(scores, scale, kinds)
    last = None
    if against is not None and criterion in against.rubric.names:
        other = against.rubric.criterion(criterion).scale
        if other.has_rule == scale.has_rule:
            last = kinds_of(_by_item(against.scores, criterion, ids), scale, kinds)
    votes = _votes(evaluation, criterion)
    apart = _by_item(evaluation.disagreement, criterion, ids)["disagreement"].to_numpy(dtype=float, na_value=np.nan)
    texts = _texts(evaluation)
    jury, status = scores["label"].astype(object).tolist(), scores["status"].astype(object).tolist()
    passed = scores["passed"].astype(object).tolist()
    return [
        Row(
            item_id=item,
            text=texts[at],
            people=said.get(item, {}),
            held=item in held,
            jury=None if pd.isna(jury[at]) else str(jury[at]),
            passed=None if pd.isna(passed[at]) else bool(passed[at]),
            status="unscored" if pd.isna(status[at]) else str(status[at]),
            votes=votes.get(item, ()),
            split=float(apart[at]),
            change="" if last is None else _change(int(last[at]), int(now[at]), int(truth[at]), scale),
            people_passed=bool(truth[at]) if scale.has_rule and truth[at] >= 0 else None,
            wrong=None if truth[at] < 0 or now[at] < 0 else bool(truth[at] != now[at]),
            beside=_beside([("", jury[at], passed[at]), *votes.get(item, ())], scale),
        )
        for at, item in enumerate(ids)
    ]


def verdict_beside(label: Any, passed: Any, scale: Scale) -> str:
    """``pass``, ``fail`` or ``no verdict`` where a verdict is not what the label says by itself, else empty.

    A verdict is what most judges (or samples) say; the label is the level nearest to their mean. The two may differ,
    and the verdict is what counts.

    Examples
    --------
    >>> scale = Scale.of({0: "no", 1: "nearly", 2: "yes"}, pass_at=2)
    >>> verdict_beside("1", True, scale), verdict_beside("1", False, scale), verdict_beside("2", None, scale)
    ('pass', '', 'no verdict')
    """
    if not scale.has_rule:
        return ""
    code = None if label is None or pd.isna(label) else scale.code(label)
    said = None if code is None else scale.passed(code)
    given = None if passed is None or pd.isna(passed) else bool(passed)
    return "" if said == given else {True: "pass", False: "fail", None: "no verdict"}[given]


def _beside(answers: list[tuple[str, Any, Any]], scale: Scale) -> dict[str, str]:
    found = {who: verdict_beside(label, passed, scale) for who, label, passed in answers}
    return {who: verdict for who, verdict in found.items() if verdict}


def _by_item(table: pd.DataFrame, criterion: str, ids: pd.Index) -> pd.DataFrame:
    return table[table["criterion"] == criterion].set_index("item_id").reindex(ids)


def _change(last: int, now: int, truth: int, scale: Scale) -> str:
    if last < 0 or now < 0 or last == now:
        return ""
    if not scale.has_rule:
        return "changed"
    if truth >= 0:
        return "fixed" if now == truth else "broke"
    return "now passes" if now == 1 else "now fails"


def _votes(evaluation: Evaluation, criterion: str) -> dict[str, tuple[tuple[str, str | None, bool | None], ...]]:
    found: dict[str, list[tuple[str, str | None, bool | None]]] = {}
    votes = evaluation.votes[evaluation.votes["criterion"] == criterion]
    columns = [votes[name].astype(object).tolist() for name in ("item_id", "judge", "label", "passed")]
    for item, judge, label, passed in zip(*columns, strict=True):
        vote = (str(judge), None if pd.isna(label) else str(label), None if pd.isna(passed) else bool(passed))
        found.setdefault(str(item), []).append(vote)
    return {item: tuple(rows) for item, rows in found.items()}


def _texts(evaluation: Evaluation) -> list[str]:
    """What a row shows of its item: the rubric's inputs, the question first."""
    items = evaluation.items
    names = [name for name in evaluation.rubric.input_names if name in items.columns]
    names.sort(key=lambda name: name not in ("question", "prompt"))
    if not names:
        return [""] * len(items)
    columns = [items[name].tolist() for name in names[:2]]
    return [" — ".join(_short(value) for value in values if _short(value)) for values in zip(*columns, strict=True)]


def _short(value: Any) -> str:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    text = value if isinstance(value, str) else str(value)
    return " ".join(text[:300].split())


def page_of(rows: list[Row], query: Query, size: int = PAGE) -> Page:
    """The page of a query; a page beyond the last is the last."""
    matching = [row for row in rows if _in_cell(row, query.cell) and _found(row, query.search)]
    counts = {name: sum(map(keeps, matching)) for name, (_, keeps) in FILTERS.items()}
    _, keeps = FILTERS.get(query.filter, FILTERS["all"])
    kept = [row for row in matching if keeps(row)]
    kept.sort(key=SORTS.get(query.sort, SORTS["eyes"]), reverse=query.down)
    n_pages = max(1, -(-len(kept) // size))
    page = min(max(0, query.page), n_pages - 1)
    return Page(kept[page * size : (page + 1) * size], len(kept), page, n_pages, counts)


def _in_cell(row: Row, cell: tuple[str, str | None, str] | None) -> bool:
    if cell is None:
        return True
    human, jury, verdict = cell
    if human not in row.people.values():
        return False
    if row.jury != jury and jury in ("true", "false"):  # people gave verdicts, which are counted as such
        return {True: "true", False: "false"}.get(row.passed) == jury  # type: ignore[arg-type]
    return row.jury == jury and row.beside.get("", "") == verdict


def _found(row: Row, search: str) -> bool:
    wanted = search.strip().casefold()
    return not wanted or wanted in f"{row.item_id} {row.text}".casefold()
