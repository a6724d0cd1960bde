"""The check ``criteria``: the points that an answer earns by the criteria of its own trace, and their floors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.gate.judgment import Judgment
from evalkit.gate.results_and_exit_code import Measured, Status, worst
from evalkit.gate.traces import REDACTED, Trace
from evalkit.rubrics import Scale
from evalkit.rubrics.item_criteria import COLUMNS, explode_criteria
from evalkit.stats.aggregation.item_points import points
from evalkit.tables.items import is_missing

_TINY = 1e-9
_WHOLE = "all"
_SHOWN = ("points", "possible", "score", "low", "high", "coverage", "n_criteria", "n_scored")


def criteria_of(traces: Mapping[str, Trace]) -> dict[str, pd.DataFrame | str]:
    """For each name the trace's own criteria as `explode_criteria` makes them, or why they cannot be judged."""
    cells = {key: _cell(trace.item) for key, trace in traces.items()}
    items = [{"item_id": key, "criteria": cell} for key, cell in cells.items() if cell is not None]
    found = dict.fromkeys(cells, "the trace has no criteria; add them as its field criteria, or under meta.inputs")
    return {**found, **_each(items, lambda some: _by_item(explode_criteria(some)), "item_id")}


def figures_of(judged: Mapping[str, tuple[pd.DataFrame, Sequence[Judgment]]]) -> dict[str, dict[str, Any] | str]:
    """For each name the figures of `points`, of the whole (``all``) and of each axis, or why there are none.

    A criterion without a judgment, or with at most half of its samples, is open.
    """
    pairs = [{"key": key, "rows": rows, "judgments": judgments} for key, (rows, judgments) in judged.items()]
    return _each(pairs, _figures, "key")


def _each(entries: list[dict[str, Any]], function: Callable[[Any], dict[str, Any]], key: str) -> dict[str, Any]:
    """The function's results by key, of all entries at once; if that fails, of each, or the reason."""
    try:
        return function(entries) if entries else {}
    except InputError as problem:
        if len(entries) == 1:
            return {entries[0][key]: str(problem).rpartition(f"item {entries[0][key]!r}: ")[2]}
        return {name: one for entry in entries for name, one in _each([entry], function, key).items()}


def _cell(item: Mapping[str, Any]) -> Any:
    return next((item[name] for name in COLUMNS if not is_missing(item.get(name))), None)


def _by_item(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(item): mine.reset_index(drop=True) for item, mine in rows.groupby("of_item", sort=False)}


def _figures(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    rows = pd.concat([entry["rows"] for entry in entries], ignore_index=True)
    outcomes = [(one.score, one.passed) if _is_known(one) else (None, None)
                for entry in entries for one in entry["judgments"]]  # fmt: skip
    scores = pd.DataFrame(outcomes, columns=["score", "passed"], dtype=object).assign(item_id=rows["item_id"])
    scale = Scale.of({0: "", 1: ""}, pass_at=1)
    whole, by_axis = (points(scores, rows, scale=scale, by=by).to_dict("records") for by in (None, "axis"))
    figures: dict[str, Any] = {row["item_id"]: {_WHOLE: row} for row in whole}
    for row in by_axis:
        if not pd.isna(row["axis"]):
            figures[row["item_id"]][str(row["axis"])] = row
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
    scored = [_is_known(one) for one in judgments]
    floors = min_points if isinstance(min_points, Mapping) else {_WHOLE: min_points}
    if unknown := [name for name in floors if name not in figures]:
        axes = REDACTED if redact else listed(list(figures)[1:]) if len(figures) > 1 else "no axis"
        return Measured("error", f"min_points names the axis {unknown[0]!r}; the criteria of the trace have {axes}")
    reasons = sum((Counter(one.reasons or {}) for one in judgments), Counter[str]())
    errors = [one.error for one, is_known in zip(judgments, scored, strict=True) if one.error and not is_known]
    differ = sum(len({*one.samples}) > 1 for one in judgments)
    outcomes = []
    for name, floor in floors.items():
        row, lead = figures[name], "" if name == _WHOLE and len(floors) == 1 else f"{name}: "
        status, text = _outcome(row, floor)
        if row["n_open"]:
            why = f" ({', '.join(f'{reason} {n}' for reason, n in sorted(reasons.items()))})" if reasons else ""
            text += f"; {row['n_open']} unscored{why}"
        elif status == "pass" and differ:
            status, text = "warn", f"{text}; the samples of {counted(differ, 'criterion', 'criteria')} differ"
        outcomes.append((status, lead + text))
    status = worst([outcome[0] for outcome in outcomes])
    message = "; ".join(text for reached, text in outcomes if reached == status)
    if status == "error" and errors:
        message += f": {errors[0]}"
    shown = {name: {key: _plain(row[key]) for key in _SHOWN} for name, row in figures.items()}
    return Measured(
        status, message, judgment=_together(rows, judgments, scored, figures[_WHOLE], status, reasons),
        points=shown, explained=tuple(_explained(rows, judgments, scored, redact=redact)),
    )  # fmt: skip


def _outcome(row: Any, floor: float) -> tuple[Status, str]:
    """The status of one floor; `row` is that of `points`."""
    low, high, coverage = row["low"], row["high"], f"{row['n_scored']} of {row['n_criteria']} criteria scored"
    if pd.isna(low):
        return "error", f"no share of points: no criterion has positive points ({coverage})"
    if not row["n_open"]:
        reached = row["score"] >= floor - _TINY
        sign = "≥" if reached else "<"
        earned = f"{row['points']:.4g} of {row['possible']:.4g} points ({row['score']:.4g})"
        return "pass" if reached else "fail", f"{earned} {sign} {floor:.4g}, {coverage}"
    ends = (low * row["possible"], high * row["possible"])
    earned = f"{ends[0]:.4g} to {ends[1]:.4g} of {row['possible']:.4g} points ({low:.4g} to {high:.4g})"
    if low >= floor - _TINY:
        return "warn", f"{earned} ≥ {floor:.4g}, {coverage}"
    if high < floor - _TINY:
        return "fail", f"{earned} < {floor:.4g}, {coverage}"
    return "error", f"could not be judged: {earned}, so {floor:.4g} is not decided; {coverage}"


def _together(
    rows: pd.DataFrame, judgments: Sequence[Judgment], scored: Sequence[bool], row: Any, status: Status,
    reasons: Mapping[str, int],
) -> Judgment:  # fmt: skip
    """One judgment of the whole answer; its samples are the criteria: as the points want it, against them, or open."""
    known = zip(rows["points"], judgments, scored, strict=True)
    sources = [source for source in ("live", "cache", "trace") if any(one.source == source for one in judgments)]
    costs = [one.cost_usd for one in judgments if one.cost_usd is not None]
    return replace(
        judgments[0], passed=None if status == "error" else status != "fail", source=next(iter(sources), None),
        score=None if row["n_open"] or pd.isna(row["score"]) else float(row["score"]),
        samples=tuple(_is_wanted(weight, one) if is_known else None for weight, one, is_known in known),
        agreement=None, rationale=None, keys=(), verdict_key=None, parts=None, prompt_tokens=None,
        completion_tokens=None, cost_usd=sum(costs) if costs else None, reasons=dict(reasons) or None,
        error=None if sources else judgments[0].error,
        criteria={
            name: replace(one.criteria.get(one.rubric) or next(iter(one.criteria.values())))
            for name, one in zip(_ids(rows), judgments, strict=True) if one.criteria
        },
    )  # fmt: skip


def _ids(rows: pd.DataFrame) -> list[str]:
    return [name.partition("#")[2] for name in rows["item_id"]]


def _is_wanted(weight: float, judgment: Judgment) -> bool:
    return judgment.passed is (weight > 0)


def _explained(
    rows: pd.DataFrame, judgments: Sequence[Judgment], scored: Sequence[bool], *, redact: bool
) -> Iterator[str]:
    """The criteria that cost points or are open, each with what the judges wrote on that side."""
    for name, (_, row), one, is_known in zip(_ids(rows), rows.iterrows(), judgments, scored, strict=True):
        if is_known and _is_wanted(row["points"], one):
            continue
        axis = "" if row["axis"] is None else f"{row['axis']}, "
        text = REDACTED if redact else row["requirement"]
        state = "unscored" if not is_known else "met" if row["points"] < 0 else "not met"
        yield f"{name} ({axis}{row['points']:g} points), {state}: {text}"
        for criterion in one.criteria.values():
            for written in criterion.rationales:
                if not is_known or written.passed is (row["points"] < 0):
                    score = "" if written.score is None else f" ({written.score:.4g})"
                    yield f"{name}, {written.judge or 'the judge'}{score}: {written.text}"


def _plain(value: Any) -> float | int | None:
    return None if pd.isna(value) else int(value) if isinstance(value, int) else float(value)
