"""A run as plain JSON values for the screen, every figure with its coverage and spread."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any

from evalkit.core.formatting import count_of, figure
from evalkit.errors import counted
from evalkit.runs import Run, RunScore
from evalkit.runs.run_display import run_facts, run_reproducible, run_tables, run_title, scored_of

__all__ = ["run_payload", "runs_payload"]

_PARTS = {
    "pass_rate": "pass rate", "n_verdicts": "verdicts", "alpha": "alpha", "n": "n", "n_unscored": "unscored",
    "n_empty": "empty",
}  # fmt: skip
"""Metrics shown in the row of the metric whose name they start with: suffix -> title."""
_PROBLEM_COUNTS = ("_n_unscored", "_n_empty")
"""Not shown where they are 0."""
_SHOWN_RUNS = 10


def run_payload(run: Run) -> dict[str, Any]:
    """A run as it is shown: title, tiles, scores, receipts, judges, facts."""
    tables = dict(run_tables(run))
    return {
        "id": run.id,
        "title": run_title(run),
        "status": run.status,
        "error": run.error or "",
        "notes": list(run.notes),
        "tiles": list(_tiles(run)),
        "scores": list(_scores(run)),
        "tables": [
            {"title": title, "columns": list(dict.fromkeys(name for row in rows for name in row)), "rows": rows}
            for title, rows in tables.items()
            if title != "scores"
        ],
        "facts": [[name, value] for name, value in run_facts(run)],
    }


def _tiles(run: Run) -> Iterator[dict[str, str]]:
    took = ""
    if run.started_at is not None and run.finished_at is not None:
        took = f"in {(run.finished_at - run.started_at).total_seconds():.0f} s"
    nothing = f"nothing was scored in {', '.join(run.scored_nothing)}" if run.scored_nothing else ""
    yield _tile("Status", run.status, ", ".join(filter(None, [nothing, took])))
    yield _tile("Scoring mode", run.scoring_mode, f"{counted(len(run.tasks), 'task')}, {run.backend}")
    if run.receipts:
        scored, items = sum(one.n_scored for one in run.receipts), sum(one.n_items for one in run.receipts)
        n_empty = sum(one.n_empty for one in run.receipts)
        yield _tile("Answers scored", count_of(scored, items), f"{n_empty} empty" if n_empty else "by judges")
        costs = [one.cost_usd for one in run.receipts]
        n_live, n_cached = sum(one.n_live for one in run.receipts), sum(one.n_cached for one in run.receipts)
        paid = "US$ unknown" if None in costs else f"US$ {sum(one or 0 for one in costs):.4f}"
        yield _tile("Paid for judges", paid, f"{n_live} live replies, {n_cached} from the cache")
    said, why = run_reproducible(run)
    yield _tile("Reproducible", said, why or "inputs, versions and judges are recorded")
    if run.status == "succeeded":
        yield _tile("Comparable", run.identity[:12], "with runs of the same identity")


def _tile(title: str, value: str, note: str) -> dict[str, str]:
    return {"title": title, "value": value, "note": note}


def _scores(run: Run) -> Iterator[dict[str, Any]]:
    """One row per metric; its pass rate, alpha and counts are in the same row."""
    counts = {one.task: one.n_samples for one in run.tasks}
    known = {(one.task, one.metric): one for one in run.scores}
    for one in run.scores:
        if _is_part(one, known) or (one.metric.endswith(_PROBLEM_COUNTS) and one.value == 0):
            continue
        n_samples = counts.get(one.task)
        also = {
            title: _verdicts(run, found) if part == "pass_rate" else _short(part, found)
            for part, title in _PARTS.items()
            if (found := known.get((one.task, f"{one.metric}_{part}"))) is not None
            and part != "n_verdicts"  # shown with the pass rate
            and not (part.startswith("n") and found.value in (0, n_samples))  # no news
        }
        yield {
            "task": one.task,
            "metric": one.metric,
            "primary": one.metric == run.primary_metric,
            "value": figure(one.value, digits=3),
            "spread": "spread unknown" if one.stderr is None else f"± {figure(one.stderr, digits=3)}",
            "scored": _scored(one, n_samples),
            "also": ", ".join(f"{title} {value}" for title, value in also.items()),
        }


def _is_part(score: RunScore, known: Container[tuple[str, str]]) -> bool:
    return any(
        (score.task, score.metric.removesuffix(f"_{part}")) in known
        for part in _PARTS
        if score.metric.endswith(f"_{part}")
    )


def _verdicts(run: Run, score: RunScore) -> str:
    """A pass rate and the share of items that have a verdict: where judges tie there is a score but no verdict."""
    n, whole = scored_of(run, score)
    base = f"{count_of(n, whole)} have a verdict" if whole else "of an unknown number of verdicts"
    return f"{figure(score.value)} ({base})"


def _short(part: str, score: RunScore) -> str:
    count = part.startswith("n") and score.value is not None
    return f"{score.value:.0f}" if count else figure(score.value)


def _scored(score: RunScore, n_samples: int | None) -> str:
    if score.coverage is None:
        return "coverage unknown"
    if n_samples:
        return count_of(round(score.coverage * n_samples), n_samples)
    return f"{score.coverage:.0%}"


def runs_payload(table: Any) -> list[dict[str, str]]:
    """The newest runs of a registry, newest first."""
    names = ("id", "status", "pack", "scoring_mode", "model")
    newest = table.tail(_SHOWN_RUNS).iloc[::-1]
    return [{name: str(row[name]) for name in names} for row in newest.to_dict("records")]
