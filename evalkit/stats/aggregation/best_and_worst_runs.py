"""Worst and best of k runs: what k tries at one prompt give at least, and at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.errors import InputError, counted, listed
from evalkit.rubrics.row_scales import measures
from evalkit.rubrics.scales import Scale
from evalkit.stats.intervals import Bounds, mean_interval
from evalkit.stats.result_tables import Notes, check_whole_numbers, figure_row, result_table
from evalkit.tables import schemas
from evalkit.tables.grouping import Floats, group

_VERDICTS = Scale.of([0, 1])
_SKEWED, _TINY = 0.25, 1e-12  # above this share of √n, simulated intervals of a mean hold it in 45 to 93 %


def at_k(
    scores: pd.DataFrame, k: int | Sequence[int], *, of: str = "group_id", by: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """Worst and best of k runs: what k tries at one prompt give at least, and at most.

    Parameters
    ----------
    scores
        One row per run of a prompt, with `score` (from `points`, `combine` or your own) and the column `of`.
    k
        How many runs, or several such numbers.
    of
        The column that says which rows are runs of one prompt.
    by
        Further columns to group by (``system_id``).

    Returns
    -------
    DataFrame
        One row per `by` and k: `worst` and `best`, the mean over prompts of the lowest (highest) score among k runs
        (turned round if low is better on all their scales), averaged over all C(n, k) choices of k of the
        prompt's n runs (unbiased), each prompt with equal weight; their 95 % intervals by prompt: where all rows have
        one scale with known ends Wilson's, with (1/2T)² of its width² added to SE² of the T prompts (simulated coverage
        95-99.9 %), else mean ± t · standard error (93-96 %, less where most prompts are at one end: `notes` says so);
        `n_prompts` that count, `n_short` (fewer than k scored runs: left out), `n_runs`.

    Raises
    ------
    InputError
        When a column is missing.
    ConfigError
        When k is not a whole number ≥ 1.

    Examples
    --------
    >>> runs = pd.DataFrame({"group_id": list("aaabbb"), "score": [0, 1, 1, 1, 1, 1]})
    >>> at_k(runs, [1, 2])[["k", "worst", "best"]].round(3).values.tolist()
    [[1.0, 0.833, 0.833], [2.0, 0.667, 1.0]]
    """
    return _by_size(scores, k, of, by, "at_k", "score")


def pass_at_k(
    scores: pd.DataFrame, k: int | Sequence[int], *, of: str = "group_id", by: str | Sequence[str] | None = None
) -> pd.DataFrame:
    """pass^k and pass@k: the chance that k tries at one task all pass, and that at least one does.

    Parameters
    ----------
    scores
        One row per run of a task, with `passed` (true, false, or missing where it is not known) and the column `of`.
    k, of, by
        As for `at_k`.

    Returns
    -------
    DataFrame
        One row per `by` and k: ``pass^k`` and ``pass@k``, the means over tasks of C(c, k)/C(n, k) and
        1 − C(n − c, k)/C(n, k) of n runs of which c passed (unbiased; Yao et al. 2024, Chen et al. 2021), with their
        95 % intervals by task, Wilson's with (1/2T)² added to SE² of the T tasks: with under ten tasks they are .4 to
        .7 wide; `n_prompts` (tasks that count), `n_short`, `n_runs`, `notes` as from `at_k`.

    Raises
    ------
    InputError
        When a column is missing.
    ConfigError
        When k is not a whole number ≥ 1.

    Examples
    --------
    >>> runs = pd.DataFrame({"group_id": list("aaabbb"), "passed": [False, True, True, True, True, True]})
    >>> pass_at_k(runs, [1, 2])[["k", "pass^k", "pass@k"]].round(3).values.tolist()
    [[1.0, 0.833, 0.833], [2.0, 0.667, 1.0]]
    """
    table = _by_size(scores, k, of, by, "pass_at_k", "passed")
    names = {"worst": "pass^k", "best": "pass@k"}
    return table.rename(columns={old + end: new + end for old, new in names.items() for end in ("", "_low", "_high")})


def _by_size(
    scores: pd.DataFrame,
    k: int | Sequence[int],
    of: str,
    by: str | Sequence[str] | None,
    name: str,
    value: Literal["score", "passed"],
) -> pd.DataFrame:
    """The table of `at_k`, of scores or of verdicts."""
    if not isinstance(scores, pd.DataFrame):
        raise InputError(
            f"{name} takes a table of runs, got {schemas.kind_of(scores)}; pass evaluation.scores with {of!r}, as "
            f"by .merge(evaluation.items[['item_id', {of!r}]])"
        )
    check_whole_numbers("k", k)
    sizes = [k] if isinstance(k, (int, np.integer)) else list(k)
    by = [by] if isinstance(by, str) else list(by or [])
    if lost := [column for column in (of, value, *by) if column not in scores.columns]:
        raise InputError(f"{name} needs the columns {listed(lost)}; the table has {listed(scores.columns, most=30)}")
    frame = scores.reset_index(drop=True)
    if value == "passed":
        frame = frame.assign(passed=frame["passed"].astype("boolean").astype("Float64"))
    if of != "item_id" and "item_id" in frame and frame.duplicated(["item_id", *by]).any():
        raise InputError(
            f"{name} takes one row per run, and the table has an item_id twice: name in by= what differs (axis, "
            "judge, rubric_version), or pass of='item_id' if runs of one prompt share their item_id"
        )
    figures, heads = [], []
    parts = group(frame, by) if by else None
    for rows in parts.rows() if parts is not None else [np.arange(len(frame))]:
        runs_of_part = frame.iloc[rows]
        prompts = group(runs_of_part, [of])
        score = runs_of_part[value].to_numpy(dtype=np.float64, na_value=np.nan)
        runs = [np.sort(score[places][~np.isnan(score[places])]) for places in prompts.rows()]
        scales = _scales(runs_of_part) if value == "score" else (_VERDICTS,)
        is_low_better = len(scales) > 0 and all(scale.better == "low" for scale in scales)
        bounds = _bounds(scales, score)
        for size in sizes:
            lowest = np.array([_expected_lowest(run, size) for run in runs if len(run) >= size])
            highest = np.array([-_expected_lowest(-run[::-1], size) for run in runs if len(run) >= size])
            worst, best = (highest, lowest) if is_low_better else (lowest, highest)
            row = _extreme_figures(worst, best, len(runs), bounds)
            figures.append(row | {"k": size, "n_runs": int(sum(map(len, runs)))})
            heads.append([runs_of_part[column].iloc[0] for column in by])
    by_size = result_table(figures, "int64: k; number: worst± best±; count: n_prompts n_short n_runs; text: notes")
    return pd.concat([pd.DataFrame(heads, columns=by), by_size], axis=1) if by else by_size


def _scales(scores: pd.DataFrame) -> Sequence[Scale]:
    try:
        return measures(scores).scales if {"level", "scale"} <= {*scores} else ()
    except InputError:  # columns of one's own
        return ()


def _bounds(scales: Sequence[Scale], score: Floats) -> Bounds | None:
    """The ends of the one scale; None if they are not known, or a score is beyond them, as one that was filled in."""
    ends = {(scale.lowest, scale.highest) for scale in scales if scale.level != "nominal" and not scale.is_open}
    if len(ends) != 1:
        return None
    low, high = ends.pop()
    return None if ((score < low) | (score > high)).any() else (low, high)


def _skewness(values: Floats) -> float:
    return float(((values - values.mean()) ** 3).mean() / max(values.std(), _TINY) ** 3)


def _expected_lowest(run: Floats, size: int) -> float:
    """The mean of the lowest of `size` over all choices of so many entries of a sorted run."""
    n = len(run)
    chances = [math.comb(n - rank - 1, size - 1) / math.comb(n, size) for rank in range(n - size + 1)]
    return float(np.dot(run[: n - size + 1], chances))


def _extreme_figures(worst: Floats, best: Floats, n_prompts: int, bounds: Bounds | None) -> dict[str, Any]:
    row: dict[str, Any] = {"n_prompts": len(worst), "n_short": n_prompts - len(worst)}
    notes: Notes = []
    for name, values in (("worst", worst), ("best", best)):
        seen_once_more = 0.0 if bounds is None else ((bounds[1] - bounds[0]) / (2 * max(1, len(values)))) ** 2
        interval = mean_interval(values, np.arange(len(values)), bounds=bounds, more=seen_once_more)
        row |= figure_row(name, float(values.mean()) if len(values) else np.nan, interval, notes)
        if interval.reason is None and bounds is None and abs(_skewness(values)) > _SKEWED * math.sqrt(len(values)):
            notes.append(f"the figures of prompts are skewed, so the interval of {name} holds the truth in under 95 %")
    if row["n_short"]:
        notes.append(f"{counted(row['n_short'], 'prompt has', 'prompts have')} fewer runs and no figure")
    return row | {"notes": notes}
