"""`leaderboard`: the runs of a pack, ranked only among runs that are scored in the same way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from evalkit.runs.registry import Registry
from evalkit.runs.run_display import run_reproducible
from evalkit.runs.run_record import Run, RunScore
from evalkit.runs.run_store import RunStore

LEADERBOARD_COLUMNS = (
    "scored_as", "pack", "scoring_mode", "judged_by", "rank", "model", "run", "score", "stderr", "coverage", "n_tasks",
    "tasks", "reproducible", "notes",
)  # fmt: skip


def leaderboard(registry: Registry, pack: str, *, newest: bool = True) -> pd.DataFrame:
    """The runs of a pack that succeeded, best first within each way of scoring.

    Runs have the same `scored_as` only if mode, pack version, judges, rubrics, templates, plugins, rules and number of
    samples are the same (`Run.identity`). Each `scored_as` has its own ranks. To rank systems by pairwise votes, see
    `ek.rank`: runs keep figures per task, and no votes.

    Parameters
    ----------
    registry
        The registry with the runs.
    pack
        ``name`` or ``name@version``.
    newest
        Only the newest run of each model and way of scoring. Models are the same if they have the same name and, if
        the model is a file, the same content.

    Raises
    ------
    RegistryError
        When there is no such pack.

    Returns
    -------
    pandas.DataFrame
        `scored_as` (hash), `pack`, `scoring_mode`, `judged_by`, `rank` (ties share one; NA without a score), `model`,
        `run`, `score` (primary metric over tasks by the pack's rule), `stderr` (of that score, with tasks as
        independent; NA if a task has none), `coverage` (share scored, 0-1, the lowest of the tasks), `n_tasks`,
        `tasks` (task -> figure), `reproducible` (``yes``, ``no``, ``unknown``), `notes`.
    """
    registry.pack(pack)  # an unknown one is an error, not an empty table
    runs = RunStore(registry).runs(pack, "succeeded")
    rows = [_row(run) for run in runs]
    if newest:
        rows = list({(row["scored_as"], *_model(run)): row for run, row in zip(runs, rows, strict=True)}.values())
    table = pd.DataFrame(rows, columns=list(LEADERBOARD_COLUMNS))
    table = table.astype({"score": "float64", "stderr": "float64", "coverage": "float64", "n_tasks": "int64"})
    table["rank"] = table.groupby("scored_as")["score"].rank(method="min", ascending=False).astype("Int64")
    order = ["scoring_mode", "pack", "scored_as", "rank", "model", "run"]
    return table.sort_values(order, na_position="last", ignore_index=True)


def _row(run: Run) -> dict[str, Any]:
    picked = {one.task: _picked(run, one.task) for one in run.tasks}
    missing = [task for task, score in picked.items() if score is None or score.value is None]
    empty = RunScore("", "", None)
    counted = [(task.weight, picked[task.task] or empty) for task in run.tasks if task.weight > 0]
    figures = np.array([(weight, one.value, one.stderr, one.coverage) for weight, one in counted], dtype=np.float64).T
    score, stderr, coverage = _aggregated(run.task_aggregation, figures)
    notes = list(run.notes)
    blind = [task for task, one in picked.items() if one is not None and run.scored_by_unknown(task, one.metric)]
    if blind:
        notes.insert(0, f"scorer not known: {', '.join(blind)}")
    if missing:
        metric = run.primary_metric or "first metric"
        notes.insert(0, f"no score: {', '.join(missing)} has no {metric}")
    if run.task_aggregation == "none":
        notes.insert(0, "the pack does not combine its tasks")
    return {
        # with the pack's version: versions may weight the same tasks differently
        "scored_as": f"{run.identity[:12]}-{run.pack.rpartition('@')[2]}",
        "pack": run.pack,
        "scoring_mode": run.scoring_mode,
        "judged_by": _judged_by(run),
        "rank": None,
        "model": run.model,
        "run": run.id,
        "score": score,
        "stderr": stderr,
        "coverage": coverage,
        "n_tasks": len(run.tasks),
        "tasks": {task: None if one is None else one.value for task, one in picked.items()},
        "reproducible": run_reproducible(run)[0],
        "notes": "; ".join(notes),
    }


def _model(run: Run) -> tuple[str, ...]:
    """Name and content: files of one name may differ."""
    return (run.model, *sorted(run.artifacts.get("model", {}).get("files", {}).values()))


def _picked(run: Run, task: str) -> RunScore | None:
    """A task's figure of the pack's primary metric, or its first figure; for a group of tasks, that of their mean."""
    name, _, shots = task.partition("|")
    of_task = [one for one in run.scores if one.task == task]
    of_task = of_task or [one for one in run.scores if one.task == f"{name}:_average|{shots}"]
    if run.primary_metric is None:
        return next(iter(of_task), None)
    return next((one for one in of_task if one.metric == run.primary_metric), None)


def _aggregated(rule: str, figures: np.ndarray) -> tuple[float, float, float]:
    """Score, standard error and lowest coverage over tasks; NaN if one of the tasks has none.

    The rows of `figures` are the tasks' weights, values, standard errors and coverages.
    """
    weights, values, errors, coverages = figures
    if rule == "min":
        lowest = values.argmin()  # the place of a NaN, if there is one
        return values[lowest], errors[lowest], coverages.min()
    if rule == "none":
        return math.nan, math.nan, coverages.min()
    total = weights.sum()
    return weights @ values / total, float(np.linalg.norm(weights * errors)) / total, coverages.min()


def _judged_by(run: Run) -> str:
    """Names of judges, with a mark for those that scored nothing in any task; and of rubrics."""
    if run.scoring_mode == "deterministic":
        return "unknown" if run.unknown else "-"
    used = [judge for receipt in run.receipts for judge in receipt.judges]
    down = {judge.name for judge in used if judge.is_down} - {judge.name for judge in used if not judge.is_down}
    names = dict.fromkeys(f"{judge.name} (scored nothing)" if judge.name in down else judge.name for judge in used)
    rubrics = dict.fromkeys(f"{one.rubric}@{one.rubric_version}" for one in run.receipts)
    return f"{', '.join(names)} by {', '.join(rubrics)}" if names or rubrics else "unknown"
