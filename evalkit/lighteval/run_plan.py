"""`plan_run`: how many judge calls a run takes at most, and what their replies cost, as far as that is known before."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evalkit.core.judges import Judge
from evalkit.engine.providers.prices import price_of
from evalkit.engine.specification import DEFAULT_SAMPLES
from evalkit.errors import ConfigError, RegistryError, RubricError, counted
from evalkit.rubrics import Profile, load_profile, load_rubric
from evalkit.runs import Registry, Resolution, Run, resolve
from evalkit.runs.contract import Receipt
from evalkit.runs.contract.plugin_layout import PluginLayout
from evalkit.runs.pack_resolution import relocate
from evalkit.runs.registry import PackTask
from evalkit.runs.registry.plugin_report import PluginTask, inspect_plugin
from evalkit.runs.run_store import RunStore


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What one task takes.

    Attributes
    ----------
    task
        Its name.
    n_items, n_criteria
        What is multiplied with judges and samples; None where it is not known before.
    judges
        Who judges; empty where only the task's own code names them.
    samples
        Samples per judge.
    note
        Where a number comes from, or why there is none.
    """

    task: str
    n_items: int | None
    n_criteria: int | None
    judges: tuple[Judge, ...]
    samples: int
    note: str = ""

    @property
    def calls(self) -> int | None:
        """Judge calls at most; None where a factor is not known. A task without judged metrics takes none."""
        if self.n_criteria == 0:
            return 0
        if self.n_items is None or self.n_criteria is None or not self.judges:
            return None
        return self.n_items * self.n_criteria * len(self.judges) * self.samples

    def __str__(self) -> str:
        if self.calls is None or self.n_criteria == 0:
            return self.note
        factors = (
            counted(self.n_items or 0, "item"),
            counted(len(self.judges), "judge"),
            counted(self.samples, "sample"),
            counted(self.n_criteria or 0, "criterion", "criteria"),
        )
        return f"{' × '.join(factors)} = {self.calls}"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run takes at most; ``print`` shows it.

    Attributes
    ----------
    tasks
        By task, in the order of the pack.
    """

    tasks: tuple[TaskPlan, ...]

    @property
    def calls(self) -> int:
        """Judge calls at most, over the tasks where they are known."""
        return sum(one.calls or 0 for one in self.tasks)

    @property
    def unknown(self) -> tuple[TaskPlan, ...]:
        """The tasks whose calls are not known before."""
        return tuple(one for one in self.tasks if one.calls is None)

    @property
    def usd_replies(self) -> float | None:
        """US$ for replies of full length, over the tasks whose calls are known; None where a price is not known."""
        usd = 0.0
        for task in self.tasks:
            for judge in task.judges if task.calls else ():
                price = price_of(judge)
                if price is None or judge.max_tokens is None:
                    return None
                usd += (task.calls or 0) / len(task.judges) * judge.max_tokens * price[1] / 1e6
        return usd

    @property
    def prompt_prices(self) -> Mapping[str, float | None]:
        """US$ per million prompt tokens, by judge; None where it is not known."""
        asked = [judge for task in self.tasks if task.calls for judge in task.judges]
        prices = {judge.name: price_of(judge) for judge in asked}
        return {name: None if price is None else price[0] for name, price in prices.items()}

    def lines(self) -> list[str]:
        """The number of calls and its factors, the money, and what is not known."""
        unknown = self.unknown
        if not unknown and not self.calls:
            return ["the run makes no judge calls"]
        lines = [f"{one.task}: {one}" for one in self.tasks if one.calls]
        if self.calls:
            more = ", and those of the tasks that are not known" if unknown else ""
            lines.insert(0, f"at most {counted(self.calls, 'judge call')}{more}")
            lines += [self._money(), "replies that are already in the cache cost nothing"]
        return lines + [f"not known before: {one.task} ({one.note})" for one in unknown]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _money(self) -> str:
        usd, prices = self.usd_replies, self.prompt_prices
        if usd is None:
            unpriced = [name for name, price in prices.items() if price is None]
            return f"US$ not known: there is no price for {', '.join(unpriced)}"
        paid = {name: price for name, price in prices.items() if price}
        if not usd and not paid:
            return "free"
        prompts = ", ".join(f"{name} US$ {price:g}" for name, price in paid.items())
        return f"replies at most US$ {usd:.4f}; prompts cost extra, per million tokens: {prompts}"


def plan_run(
    registry: Registry,
    pack: str,
    *,
    scoring_mode: str = "deterministic",
    scoring_config: Any = None,
    max_samples: int | None = None,
    look: bool = False,
) -> RunPlan:
    """The most judge calls that a run takes: items × criteria × judges × samples of each task. Nothing is started.

    Items are counted in earlier runs of the pack, or in the rows of tasks whose data lie in a folder; criteria in the
    receipts of earlier runs, in the profile's rubric, or (with `look`) in the rubrics that a task's metrics are named
    after. Empty answers, and replies that are in the cache, take fewer calls.

    Parameters
    ----------
    registry
        Where packs, plugins and runs are.
    pack
        ``name`` or ``name@version``.
    scoring_mode, scoring_config, max_samples
        As for `Runner.start`.
    look
        Import tasks of which something is not known, in a process of its own: that may take half a minute, once.

    Raises
    ------
    ConfigError
        When the run could not start: with all that is wrong.
    RegistryError
        When the registry cannot be reached, or has no such pack.
    """
    resolution = resolve(registry, registry.pack(pack), scoring_mode, scoring_config)
    if scoring_mode == "deterministic":
        return RunPlan(tuple(TaskPlan(task.task, None, 0, (), 1) for task in resolution.pack.tasks))
    bindings = relocate(registry, resolution.to_dict())
    runs = RunStore(registry).runs(resolution.pack.label, "succeeded")
    config = resolution.scoring.config
    tasks = []
    for task in resolution.pack.tasks:
        chosen = bindings.of_task(task.task).judge_profile or (config.profile if config is not None else None)
        profile = load_profile(chosen) if chosen else None
        mine = [run for run in runs if any(one.task == task.spec for one in run.tasks)]
        tasks.append(_task_plan(registry, resolution, task, profile, mine, max_samples, look))
    return RunPlan(tuple(tasks))


def _task_plan(
    registry: Registry, resolution: Resolution, task: PackTask, profile: Profile | None, runs: Sequence[Run],
    limit: int | None, look: bool,
) -> TaskPlan:  # fmt: skip
    config = resolution.scoring.config
    judges: Sequence[Judge] = config.to_judges() if config is not None else ()
    judges = judges or (profile.judges if profile is not None else ())
    samples = config.samples if config is not None else None
    samples = samples or (profile.samples if profile is not None else DEFAULT_SAMPLES)
    seen = _imported(registry, task) if look else None
    n_items, of_items = _items(registry, task, runs, seen)
    n_criteria, of_criteria = _criteria(task, runs, profile, seen)
    if limit is not None:
        n_items = limit if n_items is None else min(n_items, limit)
    unknown = [of_items] if n_items is None else []
    unknown += [of_criteria] if n_criteria is None else []
    unknown += [] if judges else ["the task itself names its judges"]
    note = "; ".join(unknown) or "; ".join(filter(None, [of_items, of_criteria]))
    return TaskPlan(task.task, n_items, n_criteria, tuple(judges), samples, note)


def _imported(registry: Registry, task: PackTask) -> PluginTask | None:
    """What a task's code says of it, imported in a process of its own; None where that fails."""
    name = task.overrides.judge_plugin_name
    if name is None and importlib.util.find_spec("lighteval") is None:
        return None
    try:
        place = _own_tasks() if name is None else registry.check_plugin(name, task.overrides.judge_plugin_version).root
        found = _tasks_at(str(place), PluginLayout.at(place).file.stat().st_mtime_ns)
    except (ConfigError, RegistryError):  # resolving, or the run, says what is wrong
        return None
    return next((one for one in found if one.name == task.task), None)


def _own_tasks() -> Path:
    """Where evalkit's own tasks are; not imported, since LightEval takes seconds to load."""
    return Path(__file__).resolve().parent / "tasks"


@lru_cache(maxsize=32)
def _tasks_at(place: str, _changed: int) -> tuple[PluginTask, ...]:
    return inspect_plugin(place).tasks


def _items(registry: Registry, task: PackTask, runs: Sequence[Run], seen: PluginTask | None) -> tuple[int | None, str]:
    """The number of a task's items, and where it comes from or why there is none."""
    for run in reversed(runs):
        n_samples = next((one.n_samples for one in run.tasks if one.task == task.spec), None)
        limit = run.options.get("max_samples")
        if n_samples is not None and (limit is None or n_samples < limit):  # it took all that there are
            return n_samples, f"{counted(n_samples, 'item')} in an earlier run"
    folder = _data(registry, task) if seen is None else _folder(seen.dataset)
    files = list(folder.glob("*.jsonl")) if folder is not None and folder.is_absolute() else []
    if len(files) != 1:
        return None, "its first run will show its number of items"
    with files[0].open("rb") as lines:
        n_rows = sum(1 for line in lines if line.strip())
    return n_rows, f"{counted(n_rows, 'row')} of data"


def _data(registry: Registry, task: PackTask) -> Path | None:
    """The folder of a task's data, as the registry's list has it; of evalkit's own also without that list."""
    name = task.overrides.judge_plugin_name
    table = registry.benchmarks()
    rows = table[(table["name"] == task.task) & (table["plugin"].isna() if name is None else table["plugin"] == name)]
    if len(rows):
        return _folder(str(rows["dataset"].iloc[-1]))
    return None if name is not None else _own_tasks() / "data" / task.task.partition(":")[0]


def _folder(dataset: str) -> Path:
    return Path(dataset.rpartition(" (")[0])


def _criteria(
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
        return None, "its first run will show what its judges score"
    counts = [n for name in seen.metrics if (n := _criteria_named(name, seen)) is not None]
    if not counts and task.task.startswith("pollux"):
        return None, "its criteria differ by item"
    return sum(counts), "" if counts else f"nothing is judged: its metrics are {', '.join(seen.metrics)}"


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
