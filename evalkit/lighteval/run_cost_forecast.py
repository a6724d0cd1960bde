"""`plan_run`: the maximum number of judge calls of a run, and the cost of the replies, as far as known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.core.formatting import money
from evalkit.core.judges import Judge
from evalkit.core.settings import Settings
from evalkit.engine.judging.specification import DEFAULT_SAMPLES, default_samples, named_by
from evalkit.engine.providers.prices import price_of
from evalkit.errors import ConfigError, counted
from evalkit.rubrics import Profile, load_profile, load_rubric
from evalkit.runs import Registry, Run
from evalkit.runs.contract.receipts import Receipt
from evalkit.runs.contract.scoring_config import ScoringConfig
from evalkit.runs.registry import PackTask
from evalkit.runs.run.binding_tasks import resolve
from evalkit.runs.run.run_store import RunStore

_ASKED = {"samples": DEFAULT_SAMPLES, "criteria_per_call": 1}
_OWN_DATA = Path(__file__).resolve().parent / "tasks" / "data"
_OWN_RUBRICS = {
    "conversation_helpfulness": "helpfulness", "instruction_following_judged": "instruction_following",
    "safety_guardrail": "safety", "grounded_qa": "faithfulness", "tool_use": None,
}  # fmt: skip
"""evalkit's own tasks -> the rubric that judges score; the tasks are not imported, because LightEval takes seconds."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of one task.

    Attributes
    ----------
    task
        Name of the task.
    n_items, n_criteria
        The numbers that are multiplied by judges and samples; None if unknown.
    judges
        The judges; empty if only the task's own code names them.
    samples
        Samples of judges without a number of their own.
    criteria_per_call
        How many criteria one reply judges, or ``all``.
    note
        Where a number comes from, or why there is none.
    """

    task: str
    n_items: int | None
    n_criteria: int | None
    judges: tuple[Judge, ...]
    samples: int
    note: str = ""
    criteria_per_call: int | str = 1

    @property
    def calls(self) -> int | None:
        """Maximum number of judge calls; None if a factor is unknown, 0 without judged metrics."""
        if self.n_criteria == 0:
            return 0
        if self.n_items is None or self.n_criteria is None or not self.judges:
            return None
        return sum(map(self.calls_of, self.judges))

    def calls_of(self, judge: Judge) -> int:
        """Maximum number of calls of one of its judges; 0 if a factor is unknown."""
        return (self.n_items or 0) * self._n_groups * (judge.samples or self.samples)

    @property
    def _n_groups(self) -> int:
        """Number of replies that judge all criteria of an item once."""
        return 1 if isinstance(self.criteria_per_call, str) else -(-(self.n_criteria or 0) // self.criteria_per_call)

    def __str__(self) -> str:
        if self.calls is None or self.n_criteria == 0:
            return self.note
        criteria = counted(self.n_criteria or 0, "criterion", "criteria")
        if self.criteria_per_call != 1:
            criteria = counted(self._n_groups, "group of criteria", "groups of criteria")
        items, judges = counted(self.n_items or 0, "item"), counted(len(self.judges), "judge")
        counts = [judge.samples or self.samples for judge in self.judges]
        samples = f"{judges} × {counted(counts[0], 'sample')}"
        if len({*counts}) > 1:
            samples = f"{counted(sum(counts), 'sample')} of {judges}"
        return f"{items} × {samples} × {criteria} = {self.calls}"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The maximum number of calls of a run; ``print`` shows it.

    Attributes
    ----------
    tasks
        The plans of the tasks, in the order of the pack.
    notes
        Settings that the run replaces, or that have no effect.
    """

    tasks: tuple[TaskPlan, ...]
    notes: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        """Maximum number of judge calls, over the tasks for which it is known."""
        return sum(one.calls or 0 for one in self.tasks)

    @property
    def unknown(self) -> tuple[TaskPlan, ...]:
        """The tasks whose number of calls is unknown."""
        return tuple(one for one in self.tasks if one.calls is None)

    @property
    def usd_replies(self) -> float | None:
        """US$ for replies of full length, over the tasks whose calls are known; None if a price is unknown."""
        usd = 0.0
        for task in self.tasks:
            for judge in task.judges if task.calls else ():
                price = price_of(judge)
                if price is None or (judge.max_tokens is None and price[1]):
                    return None
                usd += task.calls_of(judge) * (judge.max_tokens or 0) * price[1] / 1e6
        return usd

    def lines(self) -> list[str]:
        """The number of calls and its factors, the cost, and what is unknown."""
        unknown = self.unknown
        if not unknown and not self.calls:
            return ["the run makes no judge calls"]
        lines = [f"{one.task}: {one}" for one in self.tasks if one.calls]
        if self.calls:
            more = ", plus those of the tasks that are not known yet" if unknown else ""
            lines.insert(0, f"at most {counted(self.calls, 'judge call')}{more}")
            lines += [self._cost(), "replies that are already in the cache cost nothing"]
        return lines + [f"not known yet: {one.task} ({one.note})" for one in unknown]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *(f"note: {note}" for note in self.notes)])

    def _cost(self) -> str:
        prices = {judge.name: price_of(judge) for task in self.tasks if task.calls for judge in task.judges}
        usd = self.usd_replies
        if usd is None:
            return f"cost not known: no price for {', '.join(name for name, price in prices.items() if price is None)}"
        prompts = ", ".join(f"{name} US$ {price[0]:g}" for name, price in prices.items() if price and price[0])
        if not usd and not prompts:
            return "free"
        return f"replies at most {money(usd)}; prompts cost extra, per million tokens: {prompts}"


def plan_run(
    registry: Registry,
    pack: str,
    *,
    scoring_mode: str = "deterministic",
    scoring_config: Any = None,
    max_samples: int | None = None,
) -> RunPlan:
    """The maximum number of judge calls of a run: items × criteria × judges × samples per task. Nothing is started.

    The number of items comes from earlier runs of the pack, or from the rows of evalkit's own tasks; `max_samples` is a
    limit where it is unknown. The number of criteria comes from the receipts of earlier runs, from the profile's
    rubric, or from the rubric of evalkit's own tasks. Empty answers and cached replies take fewer calls.

    Parameters
    ----------
    registry
        The registry with packs, plugins and runs.
    pack
        ``name`` or ``name@version``.
    scoring_mode, scoring_config, max_samples
        As for `Runner.start`.

    Raises
    ------
    ConfigError
        When the run could not start; the message contains all problems.
    RegistryError
        When the registry cannot be reached, or the pack is not found.
    """
    resolution = resolve(registry, registry.pack(pack), scoring_mode, scoring_config)
    if scoring_mode == "deterministic":
        none = tuple(TaskPlan(task.task, None, 0, (), 1) for task in resolution.pack.tasks)
        return RunPlan(none, resolution.warnings)
    runs = RunStore(registry).runs(resolution.pack.label, "succeeded")
    config = resolution.scoring.config or ScoringConfig()
    shared = load_profile(config.profile) if config.profile else None
    tasks = []
    for task in resolution.pack.tasks:
        profile = resolution.profiles.get(task.task) or shared
        settings = Settings.of(
            ("config", {"judges": config.to_judges() or None} | {name: getattr(config, name) for name in _ASKED}),
            *named_by(profile),
            ("default", {"judges": ()} | _ASKED),
        )
        samples, judges = settings["samples"], tuple(settings["judges"])
        if settings.source("samples") == "default":
            samples, judges = default_samples(judges)
        n_items, items_note = _n_items(task, runs)
        n_criteria, criteria_note = _n_criteria(task, runs, profile)
        if max_samples is not None:
            n_items = max_samples if n_items is None else min(n_items, max_samples)
        unknown = [items_note] if n_items is None else []
        unknown += [criteria_note] if n_criteria is None else []
        unknown += [] if settings["judges"] else ["no judge is named; it needs judges of its own"]
        if not settings["judges"] and _is_own(task) and _OWN_RUBRICS.get(task.copy_of or task.task):
            raise ConfigError(
                f"task {task.task!r}: no judge is named; list judges in the scoring config, or name a profile that has "
                "them"
            )
        note = "; ".join(unknown or filter(None, [items_note, criteria_note]))
        per_call = settings["criteria_per_call"]
        tasks.append(TaskPlan(task.task, n_items, n_criteria, judges, samples, note, per_call))
    return RunPlan(tuple(tasks), resolution.warnings)


def _n_items(task: PackTask, runs: Sequence[Run]) -> tuple[int | None, str]:
    """The number of a task's items, and where it comes from or why it is unknown."""
    for run in reversed(runs):
        n_samples = next((one.n_samples for one in run.tasks if one.task == task.spec), None)
        limit = run.options.get("max_samples")
        if n_samples is not None and (limit is None or n_samples < limit):  # it took all that there are
            return n_samples, f"{counted(n_samples, 'item')} in an earlier run"
    file = _OWN_DATA / (task.copy_of or task.task) / "test.jsonl"
    if not _is_own(task) or not file.is_file():
        return None, "its first run will show its number of items"
    n_rows = sum(bool(line.strip()) for line in file.read_bytes().splitlines())
    return n_rows, f"{counted(n_rows, 'row')} of data"


def _is_own(task: PackTask) -> bool:
    """Whether it is a task of evalkit with the data that ship with it."""
    return task.overrides.judge_plugin_name is None and os.environ.get("EVALKIT_TASK_DATA") in (None, "", "shipped")


def _n_criteria(task: PackTask, runs: Sequence[Run], profile: Profile | None) -> tuple[int | None, str]:
    """The number of criteria that judges score in a task, 0 if they score none; and where it comes from."""
    for run in reversed([run for run in runs if any(one.task == task.spec for one in run.tasks)]):
        counts = [_criteria_of(one) for one in run.receipts_of(task.spec)]
        if counts and None not in counts:
            return sum(one or 0 for one in counts), ""
        if run.scoring_mode != "deterministic" and not counts:
            return 0, "no judge scored it in an earlier run"
    if profile is not None and profile.rubric is not None:
        return len(profile.load().names), f"criteria of {profile.rubric}"
    name = task.copy_of or task.task
    if not _is_own(task) or name not in _OWN_RUBRICS:
        return None, "its first run will show what its judges score"
    rubric = _OWN_RUBRICS[name]
    return (0, "no judge scores it") if rubric is None else (len(load_rubric(rubric).names), f"criteria of {rubric}")


def _criteria_of(receipt: Receipt) -> int | None:
    """The number of judgments divided by answers that were not empty, and the samples of all judges."""
    n_samples = sum(judge.samples or receipt.samples or 0 for judge in receipt.judges)
    each = (receipt.n_items - receipt.n_empty) * n_samples
    return max(1, round(receipt.n_judgments / each)) if each and receipt.n_judgments else None
