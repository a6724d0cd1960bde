"""What the next run of a session judges: its draft of the rubric, with undo and redo, and its jury.

It is one module since an edit, its undoing, what is stored of it and what it would cost are of the same draft.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit.core.judges import Judge, JudgeLike
from evalkit.core.settings import JudgeOptions, Options, as_cache, check_choice
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.engine import Plan, ReplyStore
from evalkit.engine.judging.planning import plan_worklist
from evalkit.engine.judging.specification import Spec, default_samples
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import ConfigError, EvalkitError, RubricError
from evalkit.evaluation.evaluation import try_rules
from evalkit.notebook.tuner.version_history import History, Version, rebase
from evalkit.rubrics import Rubric
from evalkit.rubrics.item_criteria import with_rows
from evalkit.rubrics.profiles import judge_dict
from evalkit.tables import load_items
from evalkit.tables.items import ItemsLike, as_items

_MOST_SAMPLES = 25
_MOST_EDITS = 30  # that can be undone after a restart


OVER = "over the limit"
"""Stands in the price of what would probably pass the spending limit, and so would end at it."""


def plan_line(plan: Plan, left_usd: float | None) -> str:
    """A plan in one line; it says how to make a price known, that a spending limit needs it, and how to raise one."""
    if not math.isnan(plan.usd):
        over = over_limit(plan.usd, left_usd)
        return f"{plan.head}{over}; raise 'Spend at most' under Jury" if over else plan.head
    no_limit = "" if left_usd is None else ", so the spending limit cannot be kept"
    way_out = "" if left_usd is None else ", or remove the limit"
    return f"{plan.head}{no_limit}: pass price=(input, output) to ek.Judge, US$ per million tokens{way_out}"


def run_price(plan: Plan, left_usd: float | None = None) -> str:
    """What a press of Run asks and costs, in a few words; empty if nothing is asked.

    It is the expected price where it is learnt from earlier replies (see `Plan`), else the most that it can be, or
    `left_usd`, what the spending limit leaves, if that is less.

    Examples
    --------
    >>> import evalkit as ek
    >>> costs = ek.plan([{"question": "2 + 2?", "answer": "4"}], "relevancy", "fake:strict")
    >>> run_price(costs)
    '3 requests, free'
    """
    if not plan.n_to_call:
        return ""
    asked = plan.table[(plan.table["n_to_call"] > 0).to_numpy()]
    is_learnt = bool((asked["n_past"] > 0).all()) or math.isnan(plan.usd_at_most)
    highest = plan.usd_at_most if left_usd is None or plan.usd > left_usd else min(plan.usd_at_most, left_usd)
    value = plan.usd if is_learnt else highest
    limit = ", the limit" * (not is_learnt and value < plan.usd_at_most)
    about = f"{'about' if is_learnt else 'at most'} US$ {value:.2f}{limit}" if value >= 0.005 else "under US$ 0.01"
    usd = "price unknown" if math.isnan(plan.usd) else about if plan.usd_at_most else "free"
    return f"{plan.n_requests:,} request{'s' * (plan.n_requests != 1)}, {usd}{over_limit(plan.usd, left_usd)}"


def over_limit(usd: float, left_usd: float | None) -> str:
    """What the end of a price says if it is more than the spending limit leaves; else empty.

    Examples
    --------
    >>> over_limit(0.97, 0.05), over_limit(0.02, 0.05), over_limit(0.97, None)
    (', over the limit: US$ 0.05 left', '', '')
    """
    digits = 4 if left_usd is not None and f"{usd:.2f}" == f"{left_usd:.2f}" else 2  # else it reads as enough
    return "" if left_usd is None or not usd > left_usd else f", {OVER}: US$ {left_usd:.{digits}f} left"


def prompt_of(spec: Spec, criterion: str) -> list[str]:
    """The hashes of what a prompt asks about a criterion, and about the others that it holds."""
    names, hashes = spec.rubric.names, spec.rubric.prompt_hashes
    return [hashes[names[number]] for number in spec.groups[names.index(criterion)]]


@dataclass(frozen=True, slots=True)
class Setup:
    """What a session was made with; it does not change.

    Attributes
    ----------
    items, item_id, source
        The items, and the column of their ids and the file that they were read from, if there are any.
    named, spec
        The name of the rubric or profile, if one was passed; rubric, judges and rules.
    template
        For all drafts; None: that of each draft.
    cache, options
        The cache folder, and the other options of `judge`.
    """

    items: pd.DataFrame
    item_id: str | None
    source: Path | None
    named: str
    spec: Spec
    template: str | None
    cache: Path | str | None
    options: JudgeOptions

    @classmethod
    def of(
        cls, items: ItemsLike | str | Path, named: object, spec: Spec, item_id: str | None, options: JudgeOptions
    ) -> Setup:
        """Read the items, and check the options; a budget is not among them."""
        Options.of("RubricTuner", options)  # raises for unknown or invalid options
        options, source = options.copy(), Path(items) if isinstance(items, (str, Path)) else None
        cache = as_cache(options.pop("cache", None))
        options.pop("budget_usd", None)
        loaded = load_items(items) if isinstance(items, (str, Path)) else items
        loaded, id_column = with_rows(loaded, spec.rubric, spec.inputs, item_id)
        table = as_items(loaded, item_id=id_column)
        template = None if spec.settings.source("template") == "rubric" else spec.settings["template"]
        name = named if isinstance(named, str) else ""
        return cls(table, item_id, source, name, spec, template, cache, options)

    def place(self, folder: str | Path | None = None, name: str | None = None) -> tuple[Path, str]:
        """Folder and name of the files of a session."""
        source, rubric_id = self.source, self.spec.rubric.id
        folder = Path(folder) if folder is not None else source.parent if source is not None else Path.cwd()
        return folder, name or (f"{source.stem}-{rubric_id}" if source is not None else rubric_id)

    def data_options(self, rubric: Rubric) -> dict[str, Any]:
        """How items are read, with the columns of those inputs that a version of the rubric has."""
        inputs = {name: column for name, column in self.spec.inputs.items() if name in rubric.mapped_names}
        return {"inputs": inputs, "on_missing": self.spec.on_missing}

    def options_with(self, **changed: Any) -> dict[str, Any]:
        """The options of `judge` in the tuner."""
        return {**self.options, "cache": self.cache, "adopt": True, "progress": False, **changed}

    def judging(self, **changed: Any) -> Options:
        """`options_with`, checked."""
        return Options.of("RubricTuner", self.options_with(**changed))

    def left_usd(self, budget_usd: float | None) -> float | None:
        """What a spending limit for the session leaves: this process has paid for replies of the cache before."""
        if budget_usd is None:
            return None
        return max(0.0, budget_usd - float(ReplyStore.open(self.cache).counters.as_dict()["paid_usd"]))

    def asks(self, version: Version, criterion: str) -> tuple[Any, ...] | None:
        """What judges of a version are asked about a criterion, and how often; None without it."""
        if criterion not in version.rubric.names:
            return None
        judges = tuple(judge.identity for judge in version.judges)
        prompt = prompt_of(replace(self.spec, rubric=version.rubric), criterion)
        return (*prompt, version.rubric.template, judges, *version.counts)

    def judges_by(self, version: Version, criterion: str) -> tuple[Any, ...] | None:
        """All that decides the verdicts on a criterion: versions that have the same judge it alike; None without it."""
        rules = [rule.scale.to_json() for rule in version.rubric.criteria if rule.name == criterion]
        weights = tuple(judge.weight for judge in version.judges)
        return (self.asks(version, criterion), *rules, weights, version.aggregate) if rules else None

    def plan(self, version: Version, item_ids: Collection[str] | None = None, **changed: Any) -> Plan:
        """The calls and cost of a run of a version now, on all items or on some; makes no calls."""
        options = self.judging(**changed)
        own: Any = {"takes_recorded": options.recorded == "use", "refresh": options.refresh, "repair": options.repair}
        return plan_worklist(self.worklist(version, item_ids), **own, adopt=True, cache=self.cache)

    def worklist(self, version: Version, item_ids: Collection[str] | None = None, first: str = "") -> Worklist:
        """All that a version judges, or what it judges of some items; raises for rules that do not fit its scales.

        `first` is the item that is asked about before the others.
        """
        rules = self.spec.rules.to_dict() | {"aggregate": version.aggregate}
        data = self.data_options(version.rubric) | {"criteria_per_call": self.spec.criteria_per_call}
        spec = Spec.of(version.rubric, list(version.judges), version.samples, self.template, rules, **data)
        try_rules(spec)
        items = self.items if item_ids is None else self.items[self.items["item_id"].isin(list(item_ids))]
        work = Worklist.of(spec, items, quiet=True)  # the session has warned
        return replace(work, first=frozenset([first]))


class Drafts:
    """The draft of the rubric and the jury that the next run judges with.

    Attributes
    ----------
    base, draft
        The saved version that is edited, and the last valid draft.
    problem
        What is wrong with what was typed since; empty if nothing is.
    edits, undone
        The drafts before, oldest first, and those that were undone.
    typed
        The last message of the screen about the rubric, if it is invalid.
    is_other
        Whether the cell names another rubric than the last session ended with.
    pool, active
        All judges, and the names of those that are selected.
    samples, aggregate, budget_usd
        How often each judge is asked, how votes become scores, and the most that this session may pay.
    """

    def __init__(self, setup: Setup, history: History, budget_usd: float | None) -> None:
        spec = setup.spec
        self._setup, self._history = setup, history
        self.base = self.draft = spec.rubric
        self.problem = self._step = ""
        self.edits: list[dict[str, Any]] = []
        self.undone: list[dict[str, Any]] = []
        self.pool, self.active = list(spec.judges), {judge.name for judge in spec.judges}
        self.samples, self.aggregate, self.budget_usd = spec.samples, spec.rules.aggregate, budget_usd
        self._initial_budget = budget_usd
        self._initial_jury = [[judge_dict(judge) for judge in spec.judges], spec.samples, self.aggregate]
        self.typed: dict[str, Any] = {}
        state, self.is_other = history.state, False
        if "draft" in state:
            try:
                self._restore_rubric(state)
            except (
                RubricError,
                KeyError,
                TypeError,
            ) as problem:  # written by another evalkit: the rubric of the cell is kept
                history.notes.append(f"The last draft cannot be read, so the rubric of the cell is shown: {problem}.")
        if state.get("initial_jury") == self._initial_jury:  # else the cell names another jury, which is kept
            with suppress(ConfigError, KeyError):
                self._restore_jury(state["jury"])
        history.parts.append(self.state)

    def _restore_rubric(self, state: Mapping[str, Any]) -> None:
        """Take up the draft, unless the cell names another rubric: then one step of undo leads back to it."""
        in_cell, last_base = self.base, Rubric(**state["base"])
        is_same_cell = state.get("given") == in_cell.content_hash
        base = last_base if is_same_cell else in_cell
        hashes = {version.rubric.content_hash for version in self._history.versions.values()}
        # the name may stand for a version by now that was saved in this session
        is_same_name = bool(self._setup.named) and self._setup.named == state.get("named")
        is_saved = in_cell.content_hash == last_base.content_hash or (is_same_name and in_cell.content_hash in hashes)
        self.is_other = not (is_same_cell or is_saved)
        draft = rebase(base, state["draft"])
        self.edits, self.undone = ([*state.get(name, ())] for name in ("edits", "undone"))
        if not self.is_other:
            self.base, self.draft, self.typed = base, draft, dict(state.get("typed", {}))
        elif draft.content_hash != in_cell.content_hash:
            self.edits.append(state["draft"])
            self._history.notes.append(
                f"This cell names another rubric than the last session ended with, {in_cell.id}@{in_cell.version}, and "
                "the editor shows it. Undo (↶) brings the last draft back; versions that were run are under Versions."
            )

    def _restore_jury(self, jury: Mapping[str, Any]) -> None:
        added = [Judge.of(values) for values in jury["added"]]
        self._check(self.draft, [*self.pool, *added])
        self.pool += added
        self.set_jury(jury["active"], jury["samples"], jury["aggregate"])
        if self._history.state.get("initial_budget") == self._initial_budget:  # else the cell names another limit
            self.budget_usd = jury["budget_usd"]

    def _check(self, rubric: Rubric, judges: list[Judge]) -> None:
        Spec.of(rubric, judges, self.samples, self._setup.template)

    def state(self) -> dict[str, Any]:
        """What a restart restores, as plain values."""
        active = {judge.name: judge.weight for judge in self.pool if judge.name in self.active}
        added = [judge_dict(judge) for judge in self.pool[len(self._setup.spec.judges) :]]
        jury = {"active": active, "added": added, "samples": self.samples, "aggregate": self.aggregate}
        rubric: dict[str, Any] = {"named": self._setup.named, "given": self._setup.spec.rubric.content_hash}
        rubric |= {"base": self.base.to_dict(), "draft": self.draft.to_dict(), "typed": self.typed}
        rubric |= {"edits": self.edits[-_MOST_EDITS:], "undone": self.undone[-_MOST_EDITS:]}
        initial = {"initial_jury": self._initial_jury, "initial_budget": self._initial_budget}
        return {**rubric, **initial, "jury": {**jury, "budget_usd": self.budget_usd}}

    # -- the rubric
    def edit(
        self, make: Callable[[Rubric, Rubric], Rubric], step: str = "", typed: Mapping[str, Any] | None = None
    ) -> None:
        """Make a new draft from base and draft; an error is kept in `problem`, and the last valid draft stays.

        Edits of the same `step`, one after another, are undone together. `typed`: the message of the screen.
        """
        with self._history.lock:
            try:
                draft = make(self.base, self.draft)
                self._check(draft, self.judges)
            except EvalkitError as problem:
                self.problem, self.typed = str(problem), dict(typed or {})
                self._history.save()
                return
            self._set(draft, step)

    def edit_version(self, version: Version) -> None:
        """Make the rubric of a version the draft."""
        with self._history.lock:
            self._set(rebase(self.base, version.rubric.to_dict()))

    def _set(self, draft: Rubric, step: str = "") -> None:
        before = self.draft.to_dict()
        if draft.to_dict() != before:
            if not step or step != self._step:
                self.edits.append(before)
            self._step, self.undone = step, []
        self.draft, self.problem, self.typed = draft, "", {}
        self._history.save()

    def end_step(self) -> None:
        """Undo the next edit by itself, whatever its step."""
        self._step = ""

    def undo(self, *, redo: bool = False) -> None:
        """Undo the last edit of the draft, or redo it; of an invalid draft, undo what made it invalid."""
        with self._history.lock:
            source, target = (self.undone, self.edits) if redo else (self.edits, self.undone)
            if source and (redo or not self.problem):
                target.append(self.draft.to_dict())
                self.draft = rebase(self.base, source.pop())
            self.problem, self._step, self.typed = "", "", {}
            self._history.save()

    # -- the jury
    @property
    def judges(self) -> list[Judge]:
        """The selected judges.

        Raises
        ------
        ConfigError
            When no judge is selected.
        """
        judges = [judge for judge in self.pool if judge.name in self.active]
        if not judges:
            raise ConfigError("no judge is selected; select one under Jury")
        return judges

    def known(self, judge: JudgeLike) -> JudgeLike:
        """The judge of the pool with this name; if there is none, what was passed."""
        return next((one for one in self.pool if one.name == judge), judge)

    def add_judge(self, judge: JudgeLike) -> Judge:
        """Add a judge to the jury, and return it."""
        _, (*_, added) = default_samples([*self.pool, Judge.of(judge)])
        self._check(self.draft, [*self.pool, added])
        self.pool.append(added)
        self.active.add(added.name)
        return added

    def set_jury(self, active: dict[str, float], samples: int, aggregate: str) -> None:
        """Select judges and set their weights, the number of samples, and how votes become scores.

        Raises
        ------
        ConfigError
            For a number out of range or an unknown rule; then nothing changes.
        """
        pool = [judge.replace(weight=active.get(judge.name, judge.weight)) for judge in self.pool]
        if aggregate != self.aggregate:  # a function of the user stays, and cannot be chosen by its text
            check_choice("aggregate", aggregate, AGGREGATE_RULES)
        most = max(_MOST_SAMPLES, self._setup.spec.samples)
        if not 1 <= samples <= most:
            raise ConfigError(f"samples must be a whole number from 1 to {most}, got {samples!r}")
        with self._history.lock:
            self.pool, self.active = pool, set(active)
            self.samples, self.aggregate = samples, self.aggregate if aggregate == self.aggregate else aggregate

    # -- the next run
    def plan(self) -> Plan:
        """The calls and cost of a run now (see `plan`)."""
        return self._setup.plan(self._version())

    @property
    def left_usd(self) -> float | None:
        """What the spending limit leaves; None without a limit."""
        return self._setup.left_usd(self.budget_usd)

    def next_version(self) -> Version:
        """The version that a run would make.

        Raises
        ------
        RubricError
            If the draft is invalid.
        """
        if self.problem:
            raise RubricError(f"fix the rubric first: {self.problem}")
        return self._history.named(self._version())

    def _version(self) -> Version:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return Version(self.base, self.draft, tuple(self.judges), self.samples, self.aggregate, now)

    @property
    def next_name(self) -> str:
        """The name of the version that a run would make; empty if the draft or the jury is invalid."""
        with suppress(EvalkitError):
            return self.next_version().name
        return ""
