"""The check ``criteria``: the points that an answer earns by the criteria of its own trace, and their floors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.gate.judgment import Judgment
from evalkit.gate.results_and_exit_code import Measured, Status, named, worst
from evalkit.gate.traces import REDACTED, Trace
from evalkit.rubrics import Rubric, Scale
from evalkit.rubrics.item_criteria import JUDGED, CriteriaForm, exploded, refuse_numbers_beside, refuse_other_scales
from evalkit.stats.aggregation.item_points import points
from evalkit.tables.items import is_missing

_TINY = 1e-9
_WHOLE = "all"
_SOURCES = ("live", "cache", "trace")
_SHOWN = ("points", "possible", "score", "low", "high", "coverage", "n_criteria", "n_scored")


def criteria_of(traces: Mapping[str, tuple[Trace, Any]]) -> dict[str, pd.DataFrame | str]:
    """For each name the trace's own criteria as `explode_criteria` makes them, or why they cannot be judged.

    Beside each trace is where its criteria are, and their form, as `CriteriaForm.of` takes it.
    """
    advice = "; add them as its field criteria, or under meta.inputs; `criteria: NAME` in the test names another field"
    rows = dict[str, pd.DataFrame | str]()
    for given in {repr(given): given for _, given in traces.values()}.values():
        form = CriteriaForm.of(given)
        alike = {key: trace.item for key, (trace, other) in traces.items() if other == given}
        rows |= dict.fromkeys(alike, f"the trace has no {form.column}{advice}")
        items = [(key, (key, item)) for key, item in alike.items() if not is_missing(item.get(form.column))]
        exploded_rows = _each(items, partial(_exploded, form))
        rows |= exploded_rows | _with_numbers_beside(form, alike, exploded_rows)
    return rows


def judged_on(rubric: Rubric, rows: pd.DataFrame | str) -> pd.DataFrame | str:
    """The rows of a trace, or why this rubric cannot judge them: a criterion has another scale."""
    if not isinstance(rows, str) and "scale" in rows:
        try:
            scales = [criterion.scale for criterion in rubric.criteria]
            refuse_other_scales(zip(_ids(rows), rows["scale"], strict=True), scales)
        except InputError as problem:
            return str(problem)
    return rows


def figures_of(judged: Mapping[str, tuple[pd.DataFrame, Sequence[Judgment]]]) -> dict[str, dict[str, Any] | str]:
    """For each name the figures of `points`, of the whole (``all``) and of each axis, or why there are none.

    A criterion without a judgment, or with at most half of its samples, is open.
    """
    return _each([*judged.items()], _figures)


def _each(entries: Sequence[tuple[str, Any]], function: Callable[[list[Any]], dict[str, Any]]) -> dict[str, Any]:
    """The function's results by name, of all entries at once; if that fails, of each half; of one, the reason."""
    try:
        return function([entry for _, entry in entries]) if entries else {}
    except InputError as problem:
        if half := len(entries) // 2:
            return _each(entries[:half], function) | _each(entries[half:], function)
        return {entries[0][0]: str(problem).rpartition(f"item {entries[0][0]!r}: ")[2]}


def _exploded(form: CriteriaForm, items: list[tuple[str, Any]]) -> dict[str, Any]:
    own = [{"item_id": key, form.column: item[form.column]} for key, item in items]
    groups = exploded(own, form).groupby("of_item", sort=False)
    return {str(item): rows.reset_index(drop=True) for item, rows in groups}


def _with_numbers_beside(
    form: CriteriaForm, items: Mapping[str, Any], rows: Mapping[str, pd.DataFrame | str]
) -> dict[str, str]:
    """Why none of the traces can be judged: all have a number for each criterion in a field that nothing reads."""
    counts = {key: len(criteria) for key, criteria in rows.items() if not isinstance(criteria, str)}
    # a trace's own scale is not that of its criteria
    columns = [form.column, "scale", "context", *JUDGED]
    beside = pd.DataFrame([items[key] for key in counts], dtype=object).drop(columns=columns, errors="ignore")
    try:
        refuse_numbers_beside(beside.items(), [*counts.values()], form)
    except InputError as problem:
        return dict.fromkeys(counts, str(problem))
    return {}


def _figures(judged: list[Any]) -> dict[str, Any]:
    rows = pd.concat([criteria for criteria, _ in judged], ignore_index=True)
    judgments = [judgment for _, of_trace in judged for judgment in of_trace]
    outcomes = [(judgment.score, judgment.passed) if _is_known(judgment) else (None, None) for judgment in judgments]
    scores = pd.DataFrame(outcomes, columns=["score", "passed"], dtype=object).assign(item_id=rows["item_id"])
    scale, figures = Scale.of({0: "", 1: ""}, pass_at=1), dict[str, Any]()
    for by in (None, "axis"):
        for row in points(scores, rows, scale=scale, by=by).to_dict("records"):
            if not pd.isna(axis := row.get("axis", _WHOLE)):
                figures.setdefault(row["item_id"], {}).setdefault(axis, row)
    return figures


def _is_known(judgment: Judgment) -> bool:
    return judgment.error is None and judgment.is_scored


def measure_points(
    rows: pd.DataFrame, judgments: Sequence[Judgment], figures: Mapping[str, Any],
    min_points: float | Mapping[str, float], *, redact: bool,
) -> Measured:  # fmt: skip
    """The status of an answer from one judgment per criterion: the worst of its floors.

    What open criteria cannot change is decided: below the floor even if all of them were for the answer, or above it
    if none were.
    """
    floors = min_points if isinstance(min_points, Mapping) else {_WHOLE: min_points}
    if isinstance(min_points, Mapping) and _WHOLE in floors and (rows["axis"] == _WHOLE).any():
        return Measured("error", "the trace has an axis named 'all', which in min_points means the whole; rename it")
    if unknown := [name for name in floors if name not in figures]:
        axes = REDACTED if redact else listed(list(figures)[1:]) if len(figures) > 1 else "no axis"
        return Measured("error", f"min_points names the axis {unknown[0]!r}; the criteria of the trace have {axes}")
    outcomes = []
    for name, floor in floors.items():
        row, lead = figures[name], "" if name == _WHOLE and len(floors) == 1 else f"{name}: "
        status, text = _outcome(row, floor)
        of_floor = [entry for entry, axis in zip(judgments, rows["axis"], strict=True) if name in (_WHOLE, axis)]
        n_split = sum(len({*judgment.samples}) > 1 for judgment in of_floor)
        reasons = _reasons([entry for entry in of_floor if not _is_known(entry)])
        why = f" (samples: {', '.join(f'{reason} {n}' for reason, n in sorted(reasons.items()))})" if reasons else ""
        if row["n_open"]:
            text += f"; {row['n_open']} unscored{why}"
        elif status == "pass" and n_split:
            status, text = "warn", f"{text}; the samples of {counted(n_split, 'criterion', 'criteria')} differ"
        outcomes.append((status, lead + text))
    status = worst([reached for reached, _ in outcomes])
    message = "; ".join(text for reached, text in outcomes if reached == status)
    error = next((judgment.error for judgment in judgments if judgment.error), None)
    message += f": {error}" if status == "error" and error else ""
    by_axis = {name: row for name, row in figures.items() if not redact or name in (_WHOLE, *floors)}
    values = {name: {key: None if pd.isna(row[key]) else row[key] for key in _SHOWN} for name, row in by_axis.items()}
    of_answer = _together(rows, judgments, figures[_WHOLE], status, _reasons(judgments) or None)
    explained = tuple(_explained(rows, judgments, by_axis, redact=redact))
    return Measured(status, message, judgment=of_answer, points=values, explained=explained)


def _reasons(judgments: Sequence[Judgment]) -> dict[str, int]:
    return dict(sum((Counter(judgment.reasons or {}) for judgment in judgments), Counter[str]()))


def _outcome(row: Any, floor: float) -> tuple[Status, str]:
    """The status of one floor; `row` is that of `points`."""
    low, high, possible = row["low"], row["high"], f"{row['possible']:.4g} points"
    coverage = f"{row['n_scored']} of {row['n_criteria']} criteria scored"
    if pd.isna(low):
        return "error", f"no share of points: no criterion has positive points ({coverage})"
    earned = f"{low * row['possible']:.4g} to {high * row['possible']:.4g} of {possible} ({low:.4g} to {high:.4g})"
    if not row["n_open"]:
        earned = f"{row['points']:.4g} of {possible} ({low:.4g})"
    if low >= floor - _TINY:
        return "warn" if row["n_open"] else "pass", f"{earned} ≥ {floor:.4g}, {coverage}"
    if high < floor - _TINY:
        return "fail", f"{earned} < {floor:.4g}, {coverage}"
    return "error", f"could not be judged: {earned}, so {floor:.4g} is not decided; {coverage}"


def _together(
    rows: pd.DataFrame, judgments: Sequence[Judgment], row: Any, status: Status, reasons: dict[str, int] | None
) -> Judgment:
    """One judgment of the whole answer; its samples are the criteria: as the points want it, against them, or None."""
    first, sources = judgments[0], {judgment.source for judgment in judgments} - {None}
    costs = [judgment.cost_usd for judgment in judgments if judgment.cost_usd is not None]
    return Judgment(
        first.rubric, first.rubric_version, None if status == "error" else status != "fail",
        None if pd.isna(row["score"]) else row["score"], next((name for name in _SOURCES if name in sources), None),
        samples=tuple(_is_wanted(*pair) for pair in zip(rows["points"], judgments, strict=True)), judge=first.judge,
        cost_usd=sum(costs) if costs else None, reasons=reasons, error=None if sources else first.error,
        criteria={name: criterion for name, judgment in zip(_ids(rows), judgments, strict=True)
                  for criterion in judgment.criteria.values()},
    )  # fmt: skip


def _ids(rows: pd.DataFrame) -> list[str]:
    return [name.partition("#")[2] for name in rows["item_id"]]


def _is_wanted(weight: float, judgment: Judgment) -> bool | None:
    """None if nobody said: the criterion is open, or its judges tie."""
    return None if judgment.passed is None or not _is_known(judgment) else judgment.passed is (weight > 0)


def _explained(
    rows: pd.DataFrame, judgments: Sequence[Judgment], named_axes: Collection[str], *, redact: bool
) -> Iterator[str]:
    """The criteria that cost points or are open, each with what the judges wrote on that side, of a tie on both.

    `named_axes` are those that may be shown.
    """
    texts, weights, axes = rows["requirement"], rows["points"], rows["axis"]
    for name, text, weight, axis, judgment in zip(_ids(rows), texts, weights, axes, judgments, strict=True):
        if is_wanted := _is_wanted(weight, judgment):
            continue
        state = "met" if weight < 0 else "not met"
        if is_wanted is None:
            state = f"undecided (score {judgment.score:.4g})" if _is_known(judgment) else "unscored"
        of_axis = f"{axis if axis in named_axes else REDACTED}, " if axis else ""
        yield f"{name} ({of_axis}{weight:g} points), {state}: {REDACTED if redact else text}"
        for written in (text for criterion in judgment.criteria.values() for text in criterion.rationales):
            if is_wanted is None or written.passed is (weight < 0):
                yield f"{name}, {named(written)}: {written.text}"
