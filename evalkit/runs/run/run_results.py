"""Reads LightEval's output: figures with standard error and coverage, receipts, and warnings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalkit.errors import InputError, MissingExtraError, counted, listed
from evalkit.runs.contract.figure_name_rules import DISAGREEMENT, PASS_RATE, count_name, is_count
from evalkit.runs.contract.lighteval_output import LightevalArtifacts
from evalkit.runs.contract.receipts import RECEIPTS_FILE, Receipt, RunFacts, read_facts, read_receipts
from evalkit.runs.contract.scoring_config import task_name
from evalkit.runs.run.run_facts import covers
from evalkit.runs.run.run_record import Run, RunScore, RunTask
from evalkit.runs.run.run_store import Ending

_BESIDE = ("_stderr", "_coverage")


def read_findings(run: Run) -> Ending:
    """The results in a run's output folder, as the ending of a run that succeeded.

    Raises
    ------
    InputError
        When results are missing or truncated, or lack a task of the pack.
    ConfigError
        When the receipts are truncated.
    """
    artifacts = LightevalArtifacts.at(run.output)
    place = run.output / RECEIPTS_FILE
    order = {task_name(task.task): position for position, task in enumerate(run.tasks)}
    receipts = read_receipts(place) if place.is_file() else []
    receipts.sort(key=lambda receipt: order.get(task_name(receipt.task), len(order)))
    facts = read_facts(place)
    if missing := [one.task for one in run.tasks if not _parts(one.task, artifacts.results)]:
        raise InputError(
            f"{artifacts.results_file} has no results for {listed(missing)}; it has results for "
            f"{listed(artifacts.results)}"
        )
    details = {task: _details(artifacts, task) for task in artifacts.results}
    named = [part for one in run.tasks for part in _parts(one.task, artifacts.results)]
    order_of_tasks = dict.fromkeys([*named, *artifacts.results])
    scores = [one for task in order_of_tasks for one in _scores(task, artifacts.results[task], details[task])]
    tasks = []
    for task in run.tasks:
        frames = [frame for part in _parts(task.task, artifacts.results) if (frame := details[part]) is not None]
        state = _receipt_state(run, task, receipts, facts)
        tasks.append(replace(task, receipt_state=state, n_samples=sum(map(len, frames)) if frames else None))
    notes = tuple(_notes(run.scoring_mode, tasks, receipts, details))
    return Ending("succeeded", None, 0, tuple(tasks), tuple(scores), tuple(receipts), notes, facts)


def sample_values(details: pd.DataFrame, metric: str) -> pd.Series:
    """The figures of one metric, one per sample of `LightevalArtifacts.details`; NaN if unscored. A true flag is 1."""
    values = [sample_figures(row).get(metric) for row in details["metric"]]
    known = [value if isinstance(value, (int, float, np.number, np.bool_)) else math.nan for value in values]
    return pd.Series(known, index=details.index, dtype="float64")


def has_samples(details: pd.DataFrame, metric: str) -> bool:
    """Whether any sample has a figure of this name."""
    return any(metric in sample_figures(row) for row in details["metric"])


def applies_to(details: pd.DataFrame, metric: str) -> pd.Series:
    """For each sample whether a figure without a value applies to it: not if a check of evalkit left it open.

    A check leaves open what does not apply; of an empty answer nothing is checked, so it counts as unscored.
    """
    found = []
    for row in details["metric"]:
        group = next((one for one in row.values() if isinstance(one, Mapping) and metric in one), {})
        notes = [note for name, note in group.items() if name.endswith("_note")]
        found.append(not notes or "empty_answer" in notes)
    return pd.Series(found, index=details.index)


def sample_figures(row: Any) -> dict[str, Any]:
    """A sample's figures by name; a metric with several figures has a mapping of them."""
    found: dict[str, Any] = {}
    for name, value in row.items() if isinstance(row, Mapping) else ():
        found |= value if isinstance(value, Mapping) else {name: value}
    return found


def _details(artifacts: LightevalArtifacts, task: str) -> pd.DataFrame | None:
    """The samples; None if LightEval saved none (means of groups), or pyarrow is missing."""
    try:
        return None if artifacts.details_file(task) is None else artifacts.details(task)
    except MissingExtraError:
        return None


def _parts(task: str, results: Mapping[str, Any]) -> list[str]:
    """The results of a pack's task: its own, or those of the tasks in the group of that name, the mean first."""
    if task in results:
        return [task]
    name, _, shots = task.partition("|")
    mean = f"{name}:_average|{shots}"
    parts = [one for one in results if one.startswith(f"{name}:") and one.endswith(f"|{shots}")]
    return sorted(parts, key=lambda one: (one != mean, one))


def _scores(task: str, figures: Mapping[str, float], details: pd.DataFrame | None) -> Iterator[RunScore]:
    for metric, value in figures.items():
        if metric.endswith(_BESIDE) and any(metric.removesuffix(end) in figures for end in _BESIDE):
            continue  # shown next to its figure
        covered = _known(_coverage(metric, figures, details))
        scored = None if covered == 0 else _known(value)
        yield RunScore(task, metric, scored, _known(figures.get(f"{metric}_stderr")), covered)


def _coverage(metric: str, figures: Mapping[str, float], details: pd.DataFrame | None) -> float | None:
    """The coverage that is reported for the metric or the rubric in its name; else the one of the samples."""
    if is_count(metric, figures):
        return None
    if metric.endswith(PASS_RATE) and (name := metric.removesuffix(PASS_RATE)) in figures:
        return _verdicts(name, figures, details)
    if metric.endswith(DISAGREEMENT) and details is not None and has_samples(details, metric):
        return float(sample_values(details, metric).notna().mean())  # it needs the scores of two judges
    rubrics = [name.removesuffix("_coverage") for name in figures if name.endswith("_coverage")]
    if whose := [name for name in rubrics if metric == name or metric.startswith(f"{name}_")]:
        return figures[f"{max(whose, key=len)}_coverage"]
    if details is None or not has_samples(details, metric):
        return None
    values = sample_values(details, metric)[lambda values: values.notna() | applies_to(details, metric)]
    return float(values.notna().mean()) if len(values) else None


def _verdicts(name: str, figures: Mapping[str, float], details: pd.DataFrame | None) -> float | None:
    """Share of the samples with a verdict (a tie is scored, but has none); NaN if unknown."""
    if details is not None and has_samples(details, f"{name}_passed"):
        return float(sample_values(details, f"{name}_passed").notna().mean())
    counts = [figures.get(count_name(one), math.nan) for one in (f"{name}{PASS_RATE}", name)]
    n_verdicts, n_scored, covered = *counts, figures.get(f"{name}_coverage", math.nan)
    return n_verdicts * covered / n_scored if n_scored else covered  # n_scored / coverage samples in all


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _receipt_state(run: Run, task: RunTask, receipts: Sequence[Receipt], facts: RunFacts) -> str:
    """The state of a task; ``deterministic`` only if known. In deterministic mode evalkit's judges make no calls."""
    is_asked = run.scoring_mode != "deterministic"
    known = {"own"} if is_asked else {"own", "judge"}
    recorded = [of_task for other, of_task in facts.tasks.items() if covers(task.task, other)]
    scorers = {metric.scorer for of_task in recorded for metric in of_task.metrics.values()}
    if any(covers(task.task, one.task) for one in receipts):
        return "consumed"
    if scorers and scorers <= known and (task.binding or not is_asked):
        return "deterministic"
    return "not_consumed" if task.binding else "own_config"


def _unused_profiles(mode: str, task: RunTask, receipts: Sequence[Receipt]) -> Iterator[str]:
    """Warnings about a bound profile that a metric did not use, because its own arguments set the judge."""
    name = task.binding.get("judge_profile")
    mine = [one for one in receipts if covers(task.task, one.task)]
    unused = dict.fromkeys(one.metric for one in mine if one.profile is None)
    if name and unused and mode != "deterministic":
        yield f"{task.task}: {', '.join(unused)} did not use the bound judge_profile {Path(name).stem!r}"


def _notes(
    mode: str, tasks: Sequence[RunTask], receipts: Sequence[Receipt], details: Mapping[str, pd.DataFrame | None]
) -> Iterator[str]:
    """Warnings to read before the figures; first the ones about metrics without any score."""
    for receipt in sorted(receipts, key=lambda one: not one.scored_nothing):
        yield from receipt.warnings
    for one in tasks:
        if one.receipt_state == "not_consumed":
            is_quiet = mode == "deterministic"
            why = "it is bound, and its metrics may call a judge" if is_quiet else "its judge plugin left no receipt"
            yield f"{one.task}: {why}"
        yield from _unused_profiles(mode, one, receipts)
    for task, frame in details.items():
        n_empty = 0 if frame is None else sum(_is_empty(answer) for answer in frame["model_response"])
        if n_empty:
            whole = counted(len(frame), "answer is", "answers are")  # type: ignore[arg-type]
            yield f"{task}: {n_empty} of {whole} empty; did the model's calls fail?"


def _is_empty(response: Any) -> bool:
    """Whether the model generated no text; a request for likelihoods has no text and does not count."""
    texts = response.get("text") if isinstance(response, Mapping) else None
    return texts is not None and len(texts) > 0 and not any(str(text or "").strip() for text in texts)
