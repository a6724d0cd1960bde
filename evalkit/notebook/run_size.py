"""The factors of a run's judge calls: how many items and criteria a task has, as far as that can be seen before."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from evalkit.errors import ConfigError, RegistryError, RubricError, counted
from evalkit.rubrics import Profile, load_rubric
from evalkit.runs import Run
from evalkit.runs.contract import Receipt
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.registry import PackTask, Registry
from evalkit.runs.registry.plugin_report import PluginTask, inspect_plugin

__all__ = ["criteria_of", "items_of", "looked_at"]


def looked_at(registry: Registry, task: PackTask) -> PluginTask | None:
    """What a task's code says of it, imported in a process of its own; None where nothing can be seen."""
    name = task.overrides.get("judge_plugin_name")
    try:
        if name is None:
            found = _own_tasks()
        else:
            found = _tasks_at(str(registry.check_plugin(name, task.overrides.get("judge_plugin_version")).root))
    except (ConfigError, RegistryError):  # resolving, or the run, says what is wrong
        return None
    return next((one for one in found if one.name == task.task), None)


def items_of(
    registry: Registry, task: PackTask, runs: Sequence[Run], seen: PluginTask | None
) -> tuple[int | None, str]:
    """The number of a task's items, and where it comes from or why there is none.

    Parameters
    ----------
    registry
        Where the list of tasks is.
    task
        Which.
    runs
        Earlier runs of its pack, oldest first.
    seen
        As of `looked_at`.
    """
    before = _items_before(runs, task.spec)
    if before is not None:
        return before, f"{counted(before, 'item')} in an earlier run"
    n_rows = _rows_in(_data(registry, task) if seen is None else _folder(seen.dataset))
    return (
        n_rows,
        "its number of items is seen in its first run" if n_rows is None else f"{counted(n_rows, 'row')} of data",
    )


def _data(registry: Registry, task: PackTask) -> Path | None:
    """The folder of a task's data, as the registry's list has it; of evalkit's own also without that list."""
    name = task.overrides.get("judge_plugin_name")
    table = registry.benchmarks()
    rows = table[(table["name"] == task.task) & (table["plugin"].isna() if name is None else table["plugin"] == name)]
    if len(rows):
        return _folder(str(rows["dataset"].iloc[-1]))
    return None if name is not None else _own_place() / "data" / task.task.partition(":")[0]


def _items_before(runs: Sequence[Run], spec: str) -> int | None:
    """The items of a task, where an earlier run took all that there are."""
    for run in reversed(runs):
        n_samples = next((one.n_samples for one in run.tasks if one.task == spec), None)
        limit = run.options.get("max_samples")
        if n_samples is not None and (limit is None or n_samples < limit):
            return n_samples
    return None


def criteria_of(
    task: PackTask, runs: Sequence[Run], profile: Profile | None, seen: PluginTask | None
) -> tuple[int | None, str]:
    """The number of criteria that judges score in a task, 0 where they score none; and where it comes from."""
    for run in reversed(runs):
        found = [_criteria_of(one) for one in run.receipts_of(task.spec)]
        if found and None not in found:
            return sum(one or 0 for one in found), ""
        if run.scoring_mode != "deterministic" and not found:
            return 0, "no judge scored it in an earlier run"
    if profile is not None and profile.rubric is not None:
        return len(profile.load().names), f"criteria of {profile.rubric}"
    if seen is None:
        return None, "what its judges score is seen in its first run"
    rubrics = [n for name in seen.metrics if (n := _criteria_named(name, seen)) is not None]
    if not rubrics and task.task.partition(":")[0].startswith("pollux"):
        return None, "its criteria differ by item"
    return sum(rubrics), "" if rubrics else f"nothing is judged: its metrics are {', '.join(seen.metrics)}"


def _criteria_of(receipt: Receipt) -> int | None:
    """By arithmetic: answers that were not empty × judges × samples × criteria are the judgments."""
    each = (receipt.n_items - receipt.n_empty) * len(receipt.judges) * (receipt.samples or 0)
    return max(1, round(receipt.n_judgments / each)) if each and receipt.n_judgments else None


def _criteria_named(metric: str, task: PluginTask) -> int | None:
    folder = _folder(task.dataset).parent
    places: list[str | Path] = [metric, *sorted(folder.glob(f"rubrics/{metric}/v*.yaml"))[-1:]]
    for place in places:
        try:
            return len(load_rubric(place).names)
        except RubricError:
            continue
    return None


def _folder(dataset: str) -> Path:
    return Path(dataset.rpartition(" (")[0])


def _rows_in(folder: Path | None) -> int | None:
    """The rows of a data folder with one JSONL file; all of them, whatever a task takes out."""
    files = list(folder.glob("*.jsonl")) if folder is not None and folder.is_absolute() else []
    if len(files) != 1:
        return None
    with files[0].open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def _own_place() -> Path:
    """Where evalkit's own tasks are; not imported, since LightEval takes seconds to load."""
    return Path(__file__).resolve().parents[1] / "lighteval" / "tasks"


def _own_tasks() -> tuple[PluginTask, ...]:
    return _tasks_at(str(_own_place())) if importlib.util.find_spec("lighteval") is not None else ()


def _tasks_at(place: str) -> tuple[PluginTask, ...]:
    file = PluginLayout.at(place).file
    return _tasks_now(place, file.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _tasks_now(place: str, _changed: int) -> tuple[PluginTask, ...]:
    return inspect_plugin(place).tasks
