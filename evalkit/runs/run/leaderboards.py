"""`leaderboard`: the runs of a pack, ranked only among runs that are scored alike; what differs is marked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from evalkit.runs.registry import Registry
from evalkit.runs.run.run_facts import About, differences, grouped, is_lower_better
from evalkit.runs.run.run_record import Run, RunScore
from evalkit.runs.run.run_store import RunStore

LEADERBOARD_COLUMNS = (
    "group", "pack", "scoring_mode", "judged_by", "rank", "model", "run", "score", "stderr", "coverage", "better",
    "n_tasks", "tasks", "differs", "not_known", "notes",
)  # fmt: skip


def leaderboard(registry: Registry, pack: str, *, newest: bool = True) -> pd.DataFrame:
    """The runs of a pack that succeeded, best first within each group of runs that are scored alike.

    Within a `group`, pack version, mode, documents, judges (as their servers name them), rubrics, templates, rules,
    plugins' content, metrics, options and LightEval's version are equal. Each group has its own ranks, and `differs`
    marks what distinguishes a run from those of the first group, the largest. To rank systems by pairwise votes, see
    `ek.rank`: runs keep figures per task, and no votes.

    Parameters
    ----------
    registry
        The registry with the runs.
    pack
        ``name`` or ``name@version``.
    newest
        Only the newest run of each model and group. Models are the same if they have the same name and, as far as that
        is known, the same content.

    Raises
    ------
    RegistryError
        When there is no such pack.

    Returns
    -------
    pandas.DataFrame
        `group`, `pack`, `scoring_mode`, `judged_by`, `rank` (ties share one; NA without a score), `model`, `run`,
        `score` (primary metric over tasks by the pack's rule), `stderr` (of that score, with tasks as independent; NA
        if a task has none), `coverage` (share scored, 0-1, the lowest of the tasks; NA if not known), `better`
        (``high`` or ``low`` is good; ``mixed`` over the tasks, and then there is no score; NA if not known, and then
        high is taken as good), `n_tasks`, `tasks` (task -> figure), `differs`, `not_known`, `notes`.
    """
    registry.pack(pack)  # an unknown one is an error, not an empty table
    runs = RunStore(registry).runs(pack, "succeeded")
    groups = grouped(runs)
    # the newest run of the first group
    reference = next((run for run, group in reversed([*zip(runs, groups, strict=True)]) if group == 1), None)
    rows = [_row(run, group, reference or run) for run, group in zip(runs, groups, strict=True)]
    if newest:
        rows = list({(row["group"], *_model(run)): row for run, row in zip(runs, rows, strict=True)}.values())
    types = dict.fromkeys(("score", "stderr", "coverage"), "float64") | {"n_tasks": "int64", "group": "int64"}
    table = pd.DataFrame(rows, columns=list(LEADERBOARD_COLUMNS)).astype(types)
    good = table["score"].where(table["better"] != "low", -table["score"])
    table["rank"] = good.groupby(table["group"]).rank(method="min", ascending=False).astype("Int64")
    return table.sort_values(["group", "rank", "model", "run"], na_position="last", ignore_index=True)


def _row(run: Run, group: int, reference: Run) -> dict[str, Any]:
    picked = {one.task: _picked(run, one.task) for one in run.tasks}
    missing = [task for task, score in picked.items() if score is None or score.value is None]
    counted = [(task.weight, picked[task.task] or RunScore("", "", None)) for task in run.tasks if task.weight > 0]
    figures = np.array([(weight, one.value, one.stderr, one.coverage) for weight, one in counted], dtype=np.float64).T
    low = {is_lower_better(run, task, one.metric) for task, one in picked.items() if one is not None}
    better = "mixed" if {True, False} <= low else "low" if True in low else "high" if False in low else None
    score, stderr, coverage = _aggregated(run.task_aggregation, figures, low=better == "low")
    differs = [str(one) for one in differences(reference, run) if one.what != "model"]
    if run.pack != reference.pack:
        differs.insert(0, f"pack: {reference.pack} -> {run.pack}")
    notes = []
    if run.task_aggregation == "none":
        notes.append("the pack does not combine its tasks")
    elif better == "mixed":
        score = stderr = math.nan
        notes.append("no score: high is good in some of its tasks, and low in others")
    if missing:
        notes.append(f"no score: {', '.join(missing)} has no {run.primary_metric or 'first metric'}")
    figures_of_tasks = {task: None if one is None else one.value for task, one in picked.items()}
    cells = (
        group, run.pack, run.scoring_mode, _judged_by(run), None, run.model, run.id, score, stderr, coverage, better,
        len(run.tasks), figures_of_tasks, *map("; ".join, (differs, run.not_known, [*notes, *run.notes])),
    )  # fmt: skip
    return dict(zip(LEADERBOARD_COLUMNS, cells, strict=True))


def _model(run: Run) -> tuple[str, ...]:
    """Name and content: files of one name may differ."""
    return tuple(f"{name}={value}" for name, value in run.facts[About("model")].items())


def _picked(run: Run, task: str) -> RunScore | None:
    """A task's figure of the pack's primary metric, or its first figure; for a group of tasks, that of their mean."""
    name, _, shots = task.partition("|")
    of_task = [one for one in run.scores if one.task == task]
    of_task = of_task or [one for one in run.scores if one.task == f"{name}:_average|{shots}"]
    return next((one for one in of_task if run.primary_metric in (None, one.metric)), None)


def _aggregated(rule: str, figures: np.ndarray, *, low: bool) -> tuple[float, float, float]:
    """Score, standard error and lowest coverage over tasks; NaN if one of the tasks has none.

    The rule ``min`` takes the worst task, which has the highest figure if `low` is good. The rows of `figures` are the
    tasks' weights, values, standard errors and coverages.
    """
    weights, values, errors, coverages = figures
    if rule == "min":
        worst = values.argmax() if low else values.argmin()  # the place of a NaN, if there is one
        return values[worst], errors[worst], coverages.min()
    if rule == "none":
        return math.nan, math.nan, coverages.min()
    total = weights.sum()
    return weights @ values / total, float(np.linalg.norm(weights * errors)) / total, coverages.min()


def _judged_by(run: Run) -> str:
    """Names of judges, with a mark for those that scored nothing in any task; and of rubrics."""
    if run.scoring_mode == "deterministic":
        scorers = [values["scorer"] for about, values in run.facts.items() if about.what == "metric"]
        return "unknown" if None in scorers else "-"
    used = [judge for receipt in run.receipts for judge in receipt.judges]
    up = {judge.name for judge in used if not judge.is_down}
    names = dict.fromkeys(judge.name if judge.name in up else f"{judge.name} (scored nothing)" for judge in used)
    rubrics = dict.fromkeys(f"{one.rubric}@{one.rubric_version}" for one in run.receipts)
    return f"{', '.join(names)} by {', '.join(rubrics)}" if names or rubrics else "unknown"
