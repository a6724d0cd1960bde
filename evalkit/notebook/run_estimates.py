"""How many judge calls a run takes at most, and what their replies cost: as far as it can be said before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from evalkit.core.judges import Judge
from evalkit.engine.providers.prices import price_of
from evalkit.errors import counted
from evalkit.notebook.run_form import RunForm
from evalkit.notebook.run_size import criteria_of, items_of, looked_at
from evalkit.rubrics import Profile, load_profile
from evalkit.runs import Run, resolve
from evalkit.runs.contract import TaskBindings
from evalkit.runs.pack_resolution import Resolution, relocate
from evalkit.runs.registry import Pack, PackTask, Registry
from evalkit.runs.run_store import RunStore

__all__ = ["Estimate", "TaskCalls", "check_pack", "estimate"]

_DEFAULT_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class TaskCalls:
    """What one task takes.

    Attributes
    ----------
    task
        Its name.
    n_items, n_criteria, n_judges, samples
        What is multiplied; None where it is not known before.
    note
        Where a number comes from, or why there is none.
    """

    task: str
    n_items: int | None
    n_criteria: int | None
    n_judges: int | None
    samples: int
    note: str = ""

    @property
    def calls(self) -> int | None:
        """Judge calls at most; None where a factor is not known. A task that no judge scores takes none."""
        if self.n_criteria == 0:
            return 0
        if self.n_items is None or self.n_criteria is None or self.n_judges is None:
            return None
        return self.n_items * self.n_criteria * self.n_judges * self.samples

    def __str__(self) -> str:
        if self.calls is None or self.n_criteria == 0:
            return self.note
        factors = (
            (self.n_items, "item", "items"),
            (self.n_judges, "judge", "judges"),
            (self.samples, "sample", "samples"),
            (self.n_criteria, "criterion", "criteria"),
        )
        said = " × ".join(counted(number, one, more) for number, one, more in factors if number is not None)
        return f"{said} = {self.calls}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run takes at most.

    Attributes
    ----------
    tasks
        By task, in the order of the pack.
    usd_replies
        US$ for replies of full length, of the tasks whose calls are known; None where a price is not known.
    prompt_prices
        What a million prompt tokens costs, by judge; None where it is not known.
    """

    tasks: tuple[TaskCalls, ...]
    usd_replies: float | None
    prompt_prices: Mapping[str, float | None]

    @property
    def calls(self) -> int:
        """Calls at most, of the tasks where it is known."""
        return sum(one.calls or 0 for one in self.tasks)

    @property
    def unknown(self) -> tuple[TaskCalls, ...]:
        """The tasks whose calls are not known before."""
        return tuple(one for one in self.tasks if one.calls is None)

    def lines(self) -> list[str]:
        """In words: the number and what it is made of, the money, and what is not known."""
        unknown = self.unknown
        if not unknown and not self.calls:
            return ["no judge is asked"]
        said = [f"{one.task}: {one}" for one in self.tasks if one.calls]
        if self.calls:
            more = ", and those of tasks that are not known" if unknown else ""
            said.insert(0, f"at most {counted(self.calls, 'judge call')}{more}")
            said.append(self._money())
            said.append("replies that are in the cache already cost nothing")
        said += [f"not known before: {one.task} ({one.note})" for one in unknown]
        return said

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _money(self) -> str:
        dear = {name: price for name, price in self.prompt_prices.items() if price}
        nobody = [name for name, price in self.prompt_prices.items() if price is None]
        if self.usd_replies is None:
            return f"US$ not known: there is no price for {', '.join(nobody)}"
        if not self.usd_replies and not dear:
            return "free"
        prompts = ", ".join(f"{name} US$ {price:g}" for name, price in dear.items())
        return f"replies at most US$ {self.usd_replies:.4f}; prompts come on top, by million tokens: {prompts}"


def check_pack(registry: Registry, form: RunForm) -> tuple[Pack, Resolution]:
    """The pack of a run and what its names stand for; raises what `estimate` raises."""
    name, _, version = form.pack.partition("@")
    pack = registry.pack(name, version or None)
    return pack, resolve(registry, pack, form.scoring_mode, form.config)


def estimate(registry: Registry, form: RunForm, *, look: bool = False) -> Estimate:
    """The most judge calls that a run takes: items × criteria × judges × samples of each task.

    Items are counted in earlier runs of the pack, or in the rows of tasks whose data lie in a folder; criteria in the
    receipts of earlier runs, in the profile's rubric, or (with `look`) in the rubrics that a task's metrics are named
    after. Empty answers, and replies that are in the cache, take fewer calls.

    Parameters
    ----------
    registry
        Where packs, plugins and runs are.
    form
        What is to run.
    look
        Import tasks of which something is not known, in a process of its own: that may take half a minute, once.

    Raises
    ------
    ConfigError
        When the run could not start: with all that is wrong.
    RegistryError
        When the registry is away, or there is no such pack.
    """
    pack, resolution = check_pack(registry, form)
    if form.scoring_mode == "deterministic":
        return Estimate(tuple(TaskCalls(task.task, None, 0, 0, 1) for task in pack.tasks), 0.0, {})
    judging = _Judging(registry, form, pack, relocate(registry, resolution.to_dict()), look)
    made = [judging.task(task) for task in pack.tasks]
    return Estimate(tuple(one for one, _ in made), *_money(made))


@dataclass(frozen=True)
class _Judging:
    registry: Registry
    form: RunForm
    pack: Pack
    bindings: TaskBindings
    look: bool

    def task(self, task: PackTask) -> tuple[TaskCalls, Sequence[Judge]]:
        config = self.form.scoring().config
        profile = self._profile(task)
        judges: Sequence[Judge] = config.to_judges() if config is not None else ()
        judges = judges or (profile.judges if profile is not None else ())
        samples = (config.samples if config is not None else None) or (
            profile.samples if profile is not None else _DEFAULT_SAMPLES
        )
        runs = [run for run in self._runs if any(one.task == task.spec for one in run.tasks)]
        seen = looked_at(self.registry, task) if self.look else None
        n_items, of_items = items_of(self.registry, task, runs, seen)
        n_criteria, of_criteria = criteria_of(task, runs, profile, seen)
        limit = self.form.limit
        n_items = limit if limit is not None and (n_items is None or limit < n_items) else n_items
        unknown = [of_items] if n_items is None else []
        unknown += [of_criteria] if n_criteria is None else []
        unknown += [] if judges else ["the task itself names its judges"]
        note = "; ".join(unknown) or "; ".join(filter(None, [of_items, of_criteria]))
        return TaskCalls(task.task, n_items, n_criteria, len(judges) or None, samples, note), judges

    @cached_property
    def _runs(self) -> list[Run]:
        return RunStore(self.registry).runs(self.pack.label, "succeeded")

    def _profile(self, task: PackTask) -> Profile | None:
        name = self.bindings.of_task(task.task).judge_profile or self.form.profile
        return load_profile(name) if name else None


def _money(made: Sequence[tuple[TaskCalls, Sequence[Judge]]]) -> tuple[float | None, dict[str, float | None]]:
    usd: float | None = 0.0
    prompts: dict[str, float | None] = {}
    for task, judges in made:
        for judge in judges if task.calls else ():
            price = price_of(judge)
            prompts[judge.name] = None if price is None else price[0]
            if price is None or judge.max_tokens is None:
                usd = None
            elif usd is not None:
                usd += (task.calls or 0) / len(judges) * judge.max_tokens * price[1] / 1e6
    return usd, prompts
