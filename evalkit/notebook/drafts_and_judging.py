"""Items, a rubric being edited, its jury, and the versions that were run; starting and stopping runs."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from evalkit import tables
from evalkit.core.judges import Judge, JudgeLike
from evalkit.core.settings import JudgeOptions, Options, as_cache, check_choice
from evalkit.core.vote_aggregate_rules import AGGREGATE_RULES
from evalkit.engine import Plan, ReplyStore, Spec, Worklist, plan
from evalkit.errors import ConfigError, EvalkitError, InputError, RubricError, counted, listed
from evalkit.evaluation import Evaluation
from evalkit.evaluation.evaluating import evaluate_worklist
from evalkit.evaluation.evaluation_log import log_evaluation
from evalkit.evaluation.rules_fit_scales import try_rules
from evalkit.notebook.version_history import History, Version, rebase
from evalkit.rubrics import Rubric
from evalkit.rubrics.profiles import judge_dict
from evalkit.tables import ItemsLike, as_items, load_items

SHOWN_VERSIONS = 10
"""How many versions, the newest ones, have a point in the strip; their evaluations stay in memory."""
_MOST_SAMPLES = 25


def plan_line(plan: Plan, budget_usd: float | None) -> str:
    """A plan in one line; it says so if the run would be refused because a spending limit needs a known price."""
    line = str(plan).splitlines()[0]
    if budget_usd is None or not math.isnan(plan.usd):
        return line
    return f"{line}, so the spending limit cannot be kept: pass price= to the judge, or remove the limit"


class Stopped(Exception):
    """Raised inside a run to end it."""


class TuningState:
    """The part of a session that judges: draft, jury, versions, runs."""

    def __init__(
        self,
        items: ItemsLike | str | Path,
        spec: Spec,
        item_id: str | None,
        folder: str | Path | None,
        name: str | None,
        options: JudgeOptions,
    ) -> None:
        Options.of("RubricTuner", options)  # raises for unknown or invalid options
        cache, self.budget_usd = options.pop("cache", None), options.pop("budget_usd", None)
        self.options = options
        self.source = source = Path(items) if isinstance(items, (str, Path)) else None
        self.item_id = item_id
        self.items = as_items(load_items(items) if isinstance(items, (str, Path)) else items, item_id=item_id)
        own_template = spec.settings.source("template") == "rubric"  # then that of each draft
        self.template = None if own_template else spec.settings["template"]
        self.cache = as_cache(cache)
        self.base = self.draft = spec.rubric
        self.problem = ""
        self.pool, self.active = list(spec.judges), {judge.name for judge in spec.judges}
        self.samples, self.aggregate = spec.samples, spec.rules.aggregate
        self.criterion = spec.rubric.names[0]
        self.current = self.against = ""
        self.lock = threading.RLock()
        self._stop, self._n_busy = threading.Event(), 0
        self._evaluations: dict[str, Evaluation] = {}
        self.undone: list[dict[str, Any]] = []
        self.edits: list[dict[str, Any]] = []
        self._step = ""
        self._initial_jury = [[judge_dict(judge) for judge in spec.judges], spec.samples, self.aggregate]
        self.spec = spec
        self.folder = Path(folder) if folder is not None else source.parent if source is not None else Path.cwd()
        self.name = name or (f"{source.stem}-{spec.rubric.id}" if source is not None else spec.rubric.id)
        self.history = History(self.folder / f"{self.name}.tuner.json", spec.judges)

    def restore(self) -> None:
        """Restore what the state file holds: versions, draft, criterion, jury."""
        self.history.load(self.base.id)
        state = self.history.state
        for key in ("current", "against"):
            if state.get(key) in self.history.versions:
                setattr(self, key, state[key])
        if state.get("base") == self.base.content_hash:
            with suppress(RubricError):  # written by another version of evalkit: the rubric of the cell is kept
                self.draft = rebase(self.base, state["draft"])
        if state.get("criterion") in self.draft.names:
            self.criterion = state["criterion"]
        if state.get("initial_jury") == self._initial_jury:  # else the cell names another jury, which is kept
            with suppress(ConfigError):
                self._restore_jury(state["jury"])

    def _restore_jury(self, jury: Mapping[str, Any]) -> None:
        added = [Judge.of(values) for values in jury["added"]]
        Spec.of(self.draft, [*self.pool, *added], self.samples, self.template)
        self.pool += added
        self.set_jury(jury["active"], jury["samples"], jury["aggregate"])
        self.budget_usd = jury["budget_usd"] if self.budget_usd is None else self.budget_usd

    def save_state(self) -> None:
        """Write the state file."""
        self.history.state = self.state()
        self.history.write()

    def state(self) -> dict[str, Any]:
        """What a restart restores, as plain values."""
        return {
            "base": self.base.content_hash,
            "draft": self.draft.to_dict(),
            "current": self.current,
            "against": self.against,
            "criterion": self.criterion,
            "initial_jury": self._initial_jury,
            "jury": {
                "active": {judge.name: judge.weight for judge in self.pool if judge.name in self.active},
                "added": [judge_dict(judge) for judge in self.pool[len(self.spec.judges) :]],
                "samples": self.samples,
                "aggregate": self.aggregate,
                "budget_usd": self.budget_usd,
            },
        }

    # -- what to judge
    def edit_draft(self, make: Callable[[Rubric, Rubric], Rubric], step: str = "") -> None:
        """Make a new draft from base and draft; an error is kept in `problem`, and the last valid draft stays.

        Edits of the same `step`, one after another, are undone together.
        """
        with self.lock:
            try:
                draft = make(self.base, self.draft)
                Spec.of(draft, self.judges, self.samples, self.template)
            except EvalkitError as problem:
                self.problem = str(problem)
                return
            self._set_draft(draft, step)

    def _set_draft(self, draft: Rubric, step: str = "") -> None:
        before = self.draft.to_dict()
        if draft.to_dict() != before:
            if not step or step != self._step:
                self.edits.append(before)
            self._step, self.undone = step, []
        self.draft, self.problem = draft, ""
        self.save_state()

    def undo_edit(self, *, redo: bool = False) -> None:
        """Undo the last edit of the draft, or redo it; of an invalid draft, undo what made it invalid."""
        with self.lock:
            source, target = (self.undone, self.edits) if redo else (self.edits, self.undone)
            if source and (redo or not self.problem):
                target.append(self.draft.to_dict())
                self.draft = rebase(self.base, source.pop())
            self.problem = self._step = ""
            self.save_state()

    @property
    def draft_name(self) -> str:
        """The name of the version that a run would make; empty if the draft or the jury is invalid."""
        with suppress(EvalkitError):
            return self.next_version().name
        return ""

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

    def add_judge(self, judge: JudgeLike) -> Judge:
        """Add a judge to the jury, and return it."""
        added = Judge.of(judge)
        Spec.of(self.draft, [*self.pool, added], self.samples, self.template)
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
        check_choice("aggregate", aggregate, AGGREGATE_RULES)
        most = max(_MOST_SAMPLES, self.spec.samples)
        if not 1 <= samples <= most:
            raise ConfigError(f"samples must be a whole number from 1 to {most}, got {samples!r}")
        with self.lock:
            self.pool, self.active = pool, set(active)
            self.samples, self.aggregate = samples, aggregate

    def plan(self) -> Plan:
        """The calls and cost of a run now (see `plan`)."""
        return plan(
            self.items,
            self.draft,
            self.judges,
            samples=self.samples,
            template=self.template,
            adopt=True,
            cache=self.cache,
            **self.data_options(self.draft),
        )

    def data_options(self, rubric: Rubric) -> dict[str, Any]:
        """How items are read, with the columns of those inputs that a version of the rubric has."""
        inputs = {name: column for name, column in self.spec.inputs.items() if name in rubric.input_names}
        return {"inputs": inputs, "on_missing": self.spec.on_missing}

    def next_version(self) -> Version:
        """The version that a run would make.

        Raises
        ------
        RubricError
            If the draft is invalid.
        """
        if self.problem:
            raise RubricError(f"fix the rubric first: {self.problem}")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        version = Version(self.base, self.draft, tuple(self.judges), self.samples, self.aggregate, now)
        return self.history.named(version)

    @property
    def shows_draft(self) -> bool:
        """Whether a run now would judge the version shown."""
        with suppress(RubricError, ConfigError):
            return self.next_version().key == self.current
        return False

    # -- judging
    def run(
        self,
        on_progress: Callable[[Any], object] | None = None,
        version: Version | None = None,
        defer: Callable[[Callable[[], None]], object] | None = None,
    ) -> str:
        """Judge what the draft (or another version) changed, and show it; returns the text for the status line.

        It blocks until all replies are there: call it from a background thread. `defer` takes the job that logs the
        evaluation (see `history`), to be done when its figures are on screen.

        Raises
        ------
        JudgeError, CacheError, ConfigError, RubricError
            As `judge`; the version on screen stays.
        """
        with self.lock:
            version = version or self.next_version()
        work = self._worklist(version)
        self.begin_run()
        text, started = "", time.time()

        def report(progress: Any) -> None:
            nonlocal text
            text = f"received {counted(progress.done, 'reply', 'replies')}"
            if on_progress is not None:
                on_progress(replace(progress, stopped=progress.stopped or self._stop.is_set()))
            self.check_stop()

        options = self._options(budget_usd=self.budget_usd, on_progress=report)
        try:
            evaluation = self._evaluate(work, options)
        except Stopped:
            evaluation = _mark_stopped(self._evaluate(work, self._offline), started)
            n_missing = evaluation.cost.n_missing
            rest = f"press Run to request the remaining {n_missing:,}" if n_missing else "all replies are here"
            text = f"stopped: {evaluation.cost.n_live:,} replies received; {rest}"
        finally:
            self.end_run()
        with self.lock:
            self._add_version(version, evaluation)
        log = partial(log_evaluation, evaluation, work, options)
        log() if defer is None else defer(log)
        return text

    def begin_run(self) -> None:
        """Announce a run: from here on `stop` ends it."""
        with self.lock:
            if not self._n_busy:
                self._stop.clear()
            self._n_busy += 1

    @property
    def busy(self) -> bool:
        """Whether anything runs that `stop` would end."""
        return self._n_busy > 0

    def end_run(self) -> None:
        """Announce the end of a run; others, on screen or in a cell, continue."""
        with self.lock:
            self._n_busy -= 1

    def stop(self) -> None:
        """End the run, if there is one; replies to calls in flight are kept."""
        if self._n_busy:
            self._stop.set()

    def check_stop(self, _progress: Any = None) -> None:
        """Raise `Stopped` after `stop`."""
        if self._stop.is_set():
            raise Stopped

    def _worklist(self, version: Version) -> Worklist:
        """All that a version judges; raises for rules that do not fit its judges and scales."""
        rules = asdict(self.spec.rules) | {"aggregate": version.aggregate}
        data = self.data_options(version.rubric)
        data["criteria_per_call"] = self.spec.criteria_per_call
        spec = Spec.of(version.rubric, list(version.judges), version.samples, self.template, rules, **data)
        try_rules(spec)
        return Worklist.of(spec, self.items)

    def _options(self, **changed: Any) -> Options:
        options = {**self.options, "cache": self.cache, "adopt": True, "progress": False, **changed}
        return Options.of("RubricTuner", options)

    @property
    def _offline(self) -> Options:
        return self._options(offline=True, refresh=False)

    def _evaluate(self, work: Worklist, options: Options) -> Evaluation:
        evaluation = evaluate_worklist(work, self.items, options, self.labels_for(work.spec.rubric))
        evaluation.scores, evaluation.disagreement  # noqa: B018  # computed here, in the background
        return evaluation

    def labels_for(self, _rubric: Rubric) -> pd.DataFrame | None:
        """The labels that an evaluation of this rubric is logged with."""
        return None

    def _add_version(self, version: Version, evaluation: Evaluation) -> None:
        key = version.key
        if self.current and self.current != key:
            self.against = self.current
        self.history.versions[key] = self.history.named(replace(version, name=""))
        self.current, self._step = key, ""
        self._evaluations[key] = evaluation
        for old in set(self._evaluations) - set(self.shown_versions):
            del self._evaluations[old]
        self.invalidate()
        self.save_state()

    def invalidate(self) -> None:
        """What else changes when the version shown does."""

    @property
    def shown_versions(self) -> list[str]:
        """The keys of the newest versions, of the one shown and of the one compared with; oldest first."""
        keys = list(self.history.versions)
        return [key for key in keys if key in (*keys[-SHOWN_VERSIONS:], self.current, self.against)]

    def load(self, key: str) -> Evaluation:
        """The evaluation of a version, from memory or else from the cache, without any call."""
        if key not in self._evaluations:
            if key not in self.history.versions:
                raise InputError(f"version {key!r} not found; available: {listed(self.history.versions)}")
            self._evaluations[key] = self._evaluate(self._worklist(self.history.versions[key]), self._offline)
        return self._evaluations[key]

    def replay(self, key: str) -> Evaluation:
        """`load`, and drop what was computed for another evaluation of it."""
        if key not in self._evaluations:
            self.load(key)
            with self.lock:
                self.invalidate()
        return self._evaluations[key]

    def set_note(self, key: str, note: str) -> None:
        """Write a note about a version."""
        with self.lock:
            self.history.versions[key] = replace(self.history.versions[key], note=note.strip())
            self.save_state()

    def show_versions(self, current: str, against: str = "") -> None:
        """Show a version, compared with another one (or none)."""
        for key in filter(None, (current, against)):
            self.replay(key)
        with self.lock:
            self.current, self.against = current, against if against != current else ""
            self.invalidate()
            self.save_state()

    def edit_version(self, key: str) -> None:
        """Make the rubric of a version the draft."""
        with self.lock:
            self._set_draft(rebase(self.base, self.history.versions[key].rubric.to_dict()))

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation shown; None before the first run."""
        return self._evaluations.get(self.current)

    @property
    def compared(self) -> Evaluation | None:
        """The evaluation it is compared with, or None."""
        return self._evaluations.get(self.against) if self.against else None


def _mark_stopped(evaluation: Evaluation, started: float) -> Evaluation:
    """The evaluation of a stopped run, from the cache.

    Judgments that were not made have the error ``stopped``. Replies received after its start were paid in it.
    """
    judgments = evaluation.judgments
    keys = {key: bytes.fromhex(key) for key in judgments["key"].dropna().unique()}
    bought = ReplyStore.open(evaluation.options.cache).get_many(keys.values(), since=started, recorded=False)
    live = judgments["key"].isin([key for key, code in keys.items() if code in bought]) & judgments["source"].eq(
        "cache"
    )
    why = judgments["error"].astype(object).replace("cache_miss", "stopped")
    source = judgments["source"].astype(object).mask(live.to_numpy(dtype=bool), "live")
    marked = judgments.assign(error=tables.categorical(why), source=tables.categorical(source))
    return replace(evaluation, judged=marked)
