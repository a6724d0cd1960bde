"""The rows of the tuner's table: one per item, those that need review first; filters, search, pages.

It is one module since a row, its filters, its order and its page follow from the same figures of an item.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.evaluation import Evaluation
from evalkit.evaluation.items_with_criteria import criteria_of, got_words, items_of_rows, of_criteria
from evalkit.evaluation.suggestions.cases import kinds_of
from evalkit.notebook.judgments.item_details import item_detail, judged_inputs, levels_of, row_texts
from evalkit.notebook.labelling.label_log import labels_on_scale
from evalkit.rubrics.scales import Scale
from evalkit.stats.alignment.label_values import annotators_of, read_label
from evalkit.tables.files import records
from evalkit.tables.messages import value_text

PAGE = 25
_MOST_VALUES, _LONGEST_VALUE, _CUT = 30, 60, 300
_VERDICTS = {True: "pass", False: "fail", None: ""}


@dataclass(frozen=True, slots=True)
class Row:
    """One item on one criterion.

    Attributes
    ----------
    text, texts
        What the rubric judges, cut; and each input that the item has, cut.
    people
        Annotator -> dev label as a level (see `in_one_notation`); empty for held-out items (`held`), whose labels are
        not shown.
    counted
        Of these the labels that figures use; what follows from people's labels is from them.
    jury, passed, status
        The jury's label, verdict and status.
    votes
        (judge, label, verdict) per judge.
    apart, split
        Disagreement, 0-1, and whether two judges' verdicts (without pass rule: labels) differ; or None.
    change
        From the version compared with: ``fixed``, ``broke`` (by the majority of people), ``now passes``, ``now fails``
        (without labels), ``changed`` (without pass rule), ``verdict appeared``, ``verdict lost`` (without pass
        rule ``label …``), or empty.
    people_passed
        The verdict of the majority of people; None without a pass rule or a majority.
    wrong
        Whether the jury is against the majority of people; None if one of them has no verdict.
    conflicts
        Jury (``""``) or judge -> its verdict, if that differs from what its label implies (see `conflicting_verdict`).
    unread
        Whether a reply of a judge has no score.
    item_columns
        Value, as text, of each column of the items (see `_item_columns`).
    item, points
        Of a row that is one criterion of an item: the item, and its points in words.
    """

    item_id: str
    text: str
    people: dict[str, str]
    held: bool
    jury: str | None
    passed: bool | None
    status: str
    votes: tuple[tuple[str, str | None, bool | None], ...]
    apart: float | None
    change: str
    people_passed: bool | None
    wrong: bool | None
    conflicts: dict[str, str] = field(default_factory=dict)
    split: bool | None = None
    unread: bool = False
    item_columns: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    item: str = ""
    points: str = ""
    counted: dict[str, str] = field(default_factory=dict)

    @property
    def moved(self) -> bool:
        """Whether it has a verdict (without a pass rule: a label) in one version alone."""
        return self.change.endswith(("appeared", "lost"))

    @property
    def urgency(self) -> float:
        """How much it needs review: wrong, newly broken, unscored, disagreement."""
        broke = self.change in ("broke", "now fails")
        return 8 * bool(self.wrong) + 4 * broke + 2 * (self.status != "ok") + (self.apart or 0.0)


VERDICT_CHANGED = ("fixed", "broke", "now passes", "now fails", "changed")
"""The values of `Row.change` where both versions have a verdict (or a label), and it is another one."""

FILTERS: dict[str, Callable[[Row], bool]] = {
    "all": lambda row: True,  # noqa: ARG005
    "wrong": lambda row: bool(row.wrong),
    "split": lambda row: bool(row.split),
    "changed": lambda row: bool(row.change) and not row.moved,
    "moved": lambda row: row.moved,
    "broke": lambda row: row.change == "broke",
    "fixed": lambda row: row.change == "fixed",
    "tied": lambda row: row.status == "tied",
    "unscored": lambda row: row.status not in ("ok", "tied"),
    "unread": lambda row: row.unread,
    "unlabelled": lambda row: not row.people and not row.held,
}

SORTS: dict[str, Callable[[Row], Any]] = {
    "review": lambda row: row.urgency,
    "item": lambda row: row.item_id,
    "people": lambda row: sorted(row.people.values()),
    "jury": lambda row: row.jury or "",
    "split": lambda row: -1.0 if row.apart is None else row.apart,
    "change": lambda row: row.change,
    "file": lambda row: 0,  # noqa: ARG005
}


@dataclass(frozen=True, slots=True)
class Query:
    """Which rows to show: filter, cell of the matrix (human, jury, conflicting verdict), search, order, page.

    `column` is a column of the items, to show and to sort by (``sort="column"``), and the value that the rows must have
    (None: any). The screen sends a query as a mapping, its cell and column as lists.
    """

    filter: str = "all"
    cell: tuple[str, str | None, str] | None = None
    column: tuple[str, str | None] | None = None
    search: str = ""
    sort: str = "review"
    down: bool = True
    page: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one page, how many rows all pages have and how many are before these, and how many each filter shows.

    `annotators` are those of all rows. `item_columns` has the sorted values of each item column, over all rows; none
    for a column with many values.
    """

    rows: list[Row]
    n: int
    page: int
    n_pages: int
    start: int = 0
    annotators: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    item_columns: dict[str, list[str]] = field(default_factory=dict)


def rows_of(
    evaluation: Evaluation,
    labels: pd.DataFrame,
    criterion: str,
    against: Evaluation | None = None,
    counted: pd.DataFrame | None = None,
) -> list[Row]:
    """One row per item, in the order of the items; `counted` are the labels that figures use, if that is not all."""
    scale = evaluation.rubric.criterion(criterion).scale
    ids = pd.Index(evaluation.items["item_id"], dtype=object)
    mine = labels_on_scale(labels, criterion, evaluation.rubric)
    dev, held = mine[mine["part"] == "dev"], set(mine.loc[mine["part"] == "held-out", "item_id"])
    used = dev if counted is None else counted[(counted["part"] == "dev").to_numpy()]
    # labels that no figure uses do not change how the others are written
    level_of = in_one_notation(dev["label"].astype(str), scale) | in_one_notation(used["label"].astype(str), scale)
    all_given, in_figures = (_by_person(table, level_of) for table in (dev, used))
    kinds: dict[str, int] = {}
    truth = annotators_of(used, ids, scale, kinds, criterion).together("majority").kind
    scores = _by_item(evaluation.scores, criterion, ids)
    now = kinds_of(scores, scale, kinds)
    last, truth_of_both = None, truth
    if against is not None and criterion in against.rubric.names:
        other = against.rubric.criterion(criterion).scale
        if other.has_rule == scale.has_rule:
            last = kinds_of(_by_item(against.scores, criterion, ids), scale, kinds)
            shared = labels_on_scale(used, criterion, evaluation.rubric, against.rubric)  # as `change_from`
            truth_of_both = annotators_of(shared, ids, scale, kinds, criterion).together("majority").kind
    votes = _votes(evaluation, criterion)
    apart = list(records(_by_item(evaluation.disagreement, criterion, ids)[["disagreement", "split"]]))
    texts, columns = row_texts(evaluation), _item_columns(evaluation, set(labels["annotator"].astype(str)))
    is_exploded, names = of_criteria(evaluation), list(evaluation.input_columns)
    judged = ["requirement"] if is_exploded else judged_inputs(evaluation.rubric, criterion, names)
    of_items = items_of_rows(evaluation, criterion)
    conflict = functools.cache(functools.partial(conflicting_verdict, scale=scale))  # few labels, many rows
    jury = list(records(scores[["label", "passed", "status"]]))
    judgments = evaluation.judgments
    without_score = judgments["error"].notna() & ~judgments["error"].isin(ENGINE_REASONS)
    silent = {item for shown in (evaluation, against) if shown is not None for item in _no_reply(shown, criterion)}
    unread = set(judgments.loc[(without_score & (judgments["criterion"] == criterion)).to_numpy(), "item_id"])
    return [
        Row(
            item_id=item,
            item=of_items[at][0],
            points=" points, score ".join(got_words(of_items[at][1])) if of_items[at][1] else "",
            text=" — ".join(texts[at][name] for name in judged if name in texts[at]),
            texts=texts[at],
            people=all_given.get(item, {}),
            counted=in_figures.get(item, {}),
            held=item in held,
            jury=jury[at]["label"],
            passed=jury[at]["passed"],
            status=jury[at]["status"] or "unscored",
            votes=votes.get(item, ()),
            apart=apart[at]["disagreement"],
            split=apart[at]["split"],
            change=""
            if last is None or (item in silent and min(last[at], now[at]) < 0)
            else _change(int(last[at]), int(now[at]), int(truth_of_both[at]), scale),
            people_passed=bool(truth[at]) if scale.has_rule and truth[at] >= 0 else None,
            wrong=None if truth[at] < 0 or now[at] < 0 else bool(truth[at] != now[at]),
            conflicts={
                who: verdict
                for who, label, passed in [("", jury[at]["label"], jury[at]["passed"]), *votes.get(item, ())]
                if (verdict := conflict(label, passed))
            },
            unread=item in unread,
            item_columns={name: values[at] for name, values in columns.items()},
        )
        for at, item in enumerate(ids)
    ]


def row_detail(row: Row, evaluation: Evaluation, criterion: str, cache: Path | str | None) -> dict[str, Any]:
    """An open row: its `item_detail`, its columns, and of a criterion of an item all `criteria_of` that item."""
    detail = item_detail(evaluation, row.item_id, criterion, cache)
    detail |= {name: getattr(row, name) for name in ("people_passed", "wrong", "change", "points")}
    siblings = criteria_of(evaluation, row.item, criterion) if row.points else None
    return detail | {"columns": row.item_columns, "siblings": siblings}


def _by_person(labels: pd.DataFrame, level_of: dict[str, str]) -> dict[str, dict[str, str]]:
    """Item -> annotator -> label as a level."""
    given: dict[str, dict[str, str]] = {}
    for item, who, label in labels[["item_id", "annotator", "label"]].astype(str).itertuples(index=False):
        given.setdefault(item, {})[who] = level_of[label]
    return given


def conflicting_verdict(label: str | None, passed: bool | None, scale: Scale) -> str:
    """``pass``, ``fail`` or ``no verdict`` if the verdict differs from what the label implies, else empty.

    The verdict is that of most judges (or samples); the label is the level nearest to their mean. If the two differ,
    the verdict counts.

    Examples
    --------
    >>> scale = Scale.of({0: "no", 1: "nearly", 2: "yes"}, pass_at=2)
    >>> conflicting_verdict("1", True, scale), conflicting_verdict("1", False, scale)
    ('pass', '')
    >>> conflicting_verdict("2", None, scale)
    'no verdict'
    """
    if not scale.has_rule:
        return ""
    return "" if implied_verdict(label, scale) == passed else {True: "pass", False: "fail", None: "no verdict"}[passed]


def implied_verdict(label: str | None, scale: Scale) -> bool | None:
    """The verdict of a label's level; None without label, or off the scale."""
    code = None if label is None else scale.code(label)
    return None if code is None else scale.passed(code)


def _by_item(table: pd.DataFrame, criterion: str, ids: pd.Index) -> pd.DataFrame:
    return table[table["criterion"] == criterion].set_index("item_id").reindex(ids)


def _no_reply(evaluation: Evaluation, criterion: str) -> set[str]:
    """The items with judgments without a reply: the run was stopped, or calls failed, which a restart cannot tell."""
    judgments = evaluation.judgments[(evaluation.judgments["criterion"] == criterion).to_numpy()]
    return set(judgments.loc[judgments["error"].isin(ENGINE_REASONS), "item_id"])


def _change(last: int, now: int, truth: int, scale: Scale) -> str:
    """In words; `truth` is people's verdict by the pass rule of the version shown."""
    if last == now:
        return ""
    if scale.has_rule and min(last, now, truth) >= 0:
        return "fixed" if now == truth else "broke"
    if last < 0 or now < 0:
        return f"{'verdict' if scale.has_rule else 'label'} {'lost' if now < 0 else 'appeared'}"
    if not scale.has_rule:
        return "changed"
    return "now passes" if now == 1 else "now fails"


def _votes(evaluation: Evaluation, criterion: str) -> dict[str, tuple[tuple[str, str | None, bool | None], ...]]:
    by_item: dict[str, list[tuple[str, str | None, bool | None]]] = {}
    votes = evaluation.votes[evaluation.votes["criterion"] == criterion]
    for vote in records(votes[["item_id", "judge", "label", "passed"]]):
        by_item.setdefault(vote["item_id"], []).append((vote["judge"], vote["label"], vote["passed"]))
    return {item: tuple(rows) for item, rows in by_item.items()}


def in_one_notation(labels: Iterable[str], scale: Scale) -> dict[str, str]:
    """Each label as the level that it means; a verdict as the only level that has it.

    A verdict that several levels have is ``pass`` or ``fail``. If people gave nothing but such verdicts, all are.

    Examples
    --------
    >>> scale = Scale.of({0: "no", 1: "nearly", 2: "yes"}, pass_at=2)
    >>> in_one_notation(["true", "false", "1.0", "2"], scale)
    {'true': '2', 'false': 'fail', '1.0': '1', '2': '2'}
    >>> in_one_notation(["True", "false"], scale)
    {'True': 'pass', 'false': 'fail'}
    """
    readings = {label: read_label(label, scale) for label in dict.fromkeys(labels)}
    levels = {label: reading.label or "" for label, reading in readings.items() if reading is not None}
    verdicts = {label: readings[label].passed for label, level in levels.items() if not level}  # type: ignore[union-attr]
    level_of: dict[bool | None, list[str]] = {}
    for code in scale.labels:
        level_of.setdefault(implied_verdict(code, scale), []).append(code)
    names = {passed: codes[0] if len(codes) == 1 else verdict for passed, verdict in ((True, "pass"), (False, "fail"))
             for codes in [level_of.get(passed, [])]}  # fmt: skip
    if len(verdicts) == len(readings) and {*names.values()} & {"pass", "fail"}:
        names = {True: "pass", False: "fail"}
    levels |= {label: names[passed] for label, passed in verdicts.items() if passed is not None}
    return {label: levels.get(label) or label for label in readings}


def _item_columns(evaluation: Evaluation, annotators: set[str]) -> dict[str, list[str]]:
    """The values, as text and cut, of the columns of the items that differ between rows; of inputs, if they are few.

    Columns with an annotator's labels are left out: they would show held-out labels, and a label before its item.
    """
    items, inputs, columns = evaluation.items, {*evaluation.input_columns.values()}, dict[str, list[str]]()
    for name in items.columns.difference(["item_id", *annotators], sort=False):
        firsts = {value_text(value)[:_CUT] for value in items[name].head(2 * _MOST_VALUES)}
        if name in inputs and not _are_few(firsts, len(items)):
            continue  # nor are those of all rows
        texts = [value_text(value)[:_CUT] for value in items[name]]
        if len(set(texts)) > 1 and (name not in inputs or _are_few(set(texts), len(items))):
            columns[str(name)] = texts
    return columns


def _are_few(values: set[str], n_rows: int) -> bool:
    """Whether rows can be filtered by each of these values: short texts or numbers that repeat."""
    return len(values) <= min(_MOST_VALUES, n_rows // 2) and max(map(len, values), default=0) <= _LONGEST_VALUE


def page_texts(evaluation: Evaluation, criterion: str) -> dict[str, Any]:
    """What the table can show of each item, and how it writes labels."""
    names, scale = list(evaluation.input_columns), evaluation.rubric.criterion(criterion).scale
    judged = judged_inputs(evaluation.rubric, criterion, names)
    requirement = "requirement" if of_criteria(evaluation) and "requirement" in names else ""
    texts = {"inputs": names, "judged_inputs": judged, "own": requirement}
    return texts | {"codes": list(scale.labels), "levels": levels_of(scale)}


def page_of(rows: list[Row], query: Query, size: int = PAGE) -> Page:
    """The page that a query asks for; beyond the last page, the last one."""
    column, value = query.column or ("", None)
    in_column = [row for row in rows if value is None or row.item_columns.get(column) == value]
    levels = {row.jury for row in rows}  # a verdict in a cell is no level: then people gave verdicts
    matching = [row for row in in_column if _in_cell(row, query.cell, levels) and _matches(row, query.search)]
    counts = {name: sum(map(keeps, matching)) for name, keeps in FILTERS.items()}
    order = SORTS | {"column": lambda row: _by_number(row.item_columns.get(column, ""))}
    kept = sorted(filter(FILTERS[query.filter], matching), key=order[query.sort], reverse=query.down)
    places = {row.item: number for number, row in reversed([*enumerate(kept)])}
    kept.sort(key=lambda row: places[row.item])  # the criteria of an item stay together
    n_pages = max(1, -(-len(kept) // size))
    page = min(max(0, query.page), n_pages - 1)
    names = rows[0].item_columns if rows else ()
    values = {name: {row.item_columns[name] for row in rows} for name in names}
    choices = {name: sorted(of, key=_by_number) if _are_few(of, len(rows)) else [] for name, of in values.items()}
    start, annotators = page * size, sorted({who for row in rows for who in row.people})
    return Page(kept[start : start + size], len(kept), page, n_pages, start, annotators, counts, choices)


def _by_number(text: str) -> tuple[bool, float, str]:
    """Sorts numbers by value, before other texts."""
    try:
        return False, float(text), text
    except ValueError:
        return True, 0.0, text


def _in_cell(row: Row, cell: tuple[str, str | None, str] | None, levels: set[str | None]) -> bool:
    if cell is None:
        return True
    human, jury, verdict = cell
    if human not in row.counted.values():
        return False
    if jury in _VERDICTS.values() and jury not in levels:
        return _VERDICTS[row.passed] == jury
    return row.jury == jury and row.conflicts.get("", "") == verdict


def _matches(row: Row, search: str) -> bool:
    text = search.strip().casefold()
    return not text or text in " ".join([row.item_id, *row.texts.values(), *row.item_columns.values()]).casefold()
