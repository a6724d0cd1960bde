"""The bench: items, a rubric being edited, its jury, the versions that were run; what runs and stops."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit import tables
from evalkit.core.judges import Judge
from evalkit.core.rules import AGGREGATE_RULES, Rules, check_choice
from evalkit.engine import Options, Plan, Spec, plan
from evalkit.errors import ConfigError, EvalkitError, InputError, RubricError, counted, listed
from evalkit.evaluation import Evaluation, evaluate
from evalkit.notebook.version_history import History, Version, rebased
from evalkit.rubrics import Rubric
from evalkit.rubrics.profiles import judge_dict
from evalkit.tables import as_items, load_items

__all__ = ["Bench", "Stopped"]

_REMEMBERED = 8
_MOST_SAMPLES = 25


class Stopped(Exception):
    """Raised into a run to end it."""


class Bench:
    """The judging half of a session: draft, jury, versions, runs; parameters and errors are those of `Session`."""

    def __init__(
        self,
        items: Any,
        rubric: Any,
        judges: Any = None,
        *,
        samples: int | None = None,
        template: str | None = None,
        item_id: str | None = None,
        aggregate: str = "mean",
        folder: str | Path | None = None,
        name: str | None = None,
        cache: str | Path | None = None,
        budget_usd: float | None = None,
        **options: Any,
    ) -> None:
        Options(**options)  # what is wrong shows now
        self.options = options
        spec = Spec.of(rubric, judges, samples, template)
        Rules.of(None, {"aggregate": aggregate})
        self.source = source = Path(items) if isinstance(items, (str, Path)) else None
        self.item_id = item_id
        self.items = as_items(load_items(source) if source is not None else items, item_id=item_id)
        self.template, self.cache = template, None if cache is None else Path(cache)
        self.base = self.draft = spec.rubric
        self.problem = ""
        self.pool, self.active = list(spec.judges), {judge.name for judge in spec.judges}
        self.samples, self.aggregate, self.budget_usd = spec.samples, aggregate, budget_usd
        self.criterion = spec.rubric.names[0]
        self.current = self.against = ""
        self.lock = threading.RLock()
        self._stop, self._n_busy = threading.Event(), 0
        self._evaluations: dict[str, Evaluation] = {}
        self._revision = 0
        self._given = [[judge_dict(judge) for judge in spec.judges], spec.samples, aggregate]
        self.spec = spec
        self.place = Path(folder) if folder is not None else source.parent if source is not None else Path.cwd()
        self.stem = name or (f"{source.stem}-{spec.rubric.id}" if source is not None else spec.rubric.id)
        self.history = History(self.place / f"{self.stem}.tuner.json", spec.judges)

    def restore(self) -> None:
        """Go on where the file of the history says that the work stood."""
        self.history.load(self.base.id)
        place = self.history.place
        for key in ("current", "against"):
            if place.get(key) in self.history.versions:
                setattr(self, key, place[key])
        if place.get("base") == self.base.content_hash:
            with suppress(RubricError):  # the draft of another evalkit: the given rubric it is
                self.draft = rebased(self.base, place["draft"])
        if place.get("criterion") in self.draft.names:
            self.criterion = place["criterion"]
        if place.get("given") == self._given:  # else the cell names another jury: that one it is
            with suppress(ConfigError):
                self._restore_jury(place["jury"])

    def _restore_jury(self, jury: Mapping[str, Any]) -> None:
        added = [Judge.of(values) for values in jury["added"]]
        Spec.of(self.draft, [*self.pool, *added], self.samples, self.template)
        self.pool += added
        self.set_jury(jury["active"], jury["samples"], jury["aggregate"])
        self.budget_usd = jury["budget_usd"] if self.budget_usd is None else self.budget_usd

    def keep(self) -> None:
        """Write down where the work stands."""
        self.history.place = self.standing()
        self.history.keep()

    def standing(self) -> dict[str, Any]:
        """Where the work stands, as plain values."""
        n_given = len(self.spec.judges)
        return {
            "base": self.base.content_hash,
            "draft": self.draft.to_dict(),
            "current": self.current,
            "against": self.against,
            "criterion": self.criterion,
            "given": self._given,
            "jury": {
                "active": {judge.name: judge.weight for judge in self.pool if judge.name in self.active},
                "added": [judge_dict(judge) for judge in self.pool[n_given:]],
                "samples": self.samples,
                "aggregate": self.aggregate,
                "budget_usd": self.budget_usd,
            },
        }

    # -- what to judge
    def propose(self, make: Callable[[Rubric, Rubric], Rubric]) -> None:
        """Make a draft from base and draft; a fault is kept in `problem`, and the last good draft stays."""
        with self.lock:
            try:
                made = make(self.base, self.draft)
                Spec.of(made, self.judges, self.samples, self.template)
            except EvalkitError as problem:
                self.problem = str(problem)
                return
            self.draft, self.problem = made, ""  # what is looked at stays: it is of the version that is shown
            self.keep()

    @property
    def judges(self) -> list[Judge]:
        """The judges that are switched on.

        Raises
        ------
        ConfigError
            When none is.
        """
        found = [judge for judge in self.pool if judge.name in self.active]
        if not found:
            raise ConfigError("no judge is switched on; choose one under jury")
        return found

    def add_judge(self, judge: Any) -> None:
        """Take another judge into the jury."""
        made = Judge.of(judge)
        Spec.of(self.draft, [*self.pool, made], self.samples, self.template)
        self.pool.append(made)
        self.active.add(made.name)

    def set_jury(self, active: dict[str, float], samples: int, aggregate: str) -> None:
        """Which judges are on and with which weight, how many samples, and how votes become scores.

        Raises
        ------
        ConfigError
            For a number out of range or an unknown rule; nothing is changed then.
        """
        pool = [judge.replace(weight=active.get(judge.name, judge.weight)) for judge in self.pool]
        check_choice("aggregate", aggregate, AGGREGATE_RULES)
        most = max(_MOST_SAMPLES, self.spec.samples)
        if not 1 <= samples <= most:
            raise ConfigError(f"samples must be a whole number from 1 to {most}, not {samples!r}")
        with self.lock:
            self.pool, self.active = pool, set(active)
            self.samples, self.aggregate = samples, aggregate

    def plan(self) -> Plan:
        """What a run would take now."""
        return plan(
            self.items,
            self.draft,
            self.judges,
            samples=self.samples,
            template=self.template,
            adopt=True,
            cache=self.cache,
        )

    def proposal(self) -> Version:
        """The version that a run would make.

        Raises
        ------
        RubricError
            When the draft has a fault.
        """
        if self.problem:
            raise RubricError(f"mend the rubric first: {self.problem}")
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = Version(self.base, self.draft, tuple(self.judges), self.samples, self.aggregate, now)
        return self.history.versions.get(made.key, made)

    # -- judging
    def run(self, on_progress: Callable[[Any], object] | None = None, version: Version | None = None) -> str:
        """Judge what the draft (or another version) changed, and show it; returns what to say at the end.

        For a thread of its own.

        Raises
        ------
        JudgeError, CacheError, ConfigError, RubricError
            As `judge`; what was on screen stays.
        """
        with self.lock:
            version = version or self.proposal()
        self.begin()
        last: list[Any] = []

        def told(progress: Any) -> None:
            last[:] = [progress]
            if on_progress is not None:
                on_progress(progress)
            self.heed_stop()

        try:
            evaluation = self._evaluate(version, budget_usd=self.budget_usd, on_progress=told)
            said = "" if not last else f"asked {counted(last[0].done, 'reply', 'replies')}"
        except Stopped:
            evaluation = _marked(self._evaluate(version, offline=True))
            said = f"stopped: {_missing(evaluation)}; run again and only the rest is paid"
        finally:
            self.end()
        with self.lock:
            self._take(version, evaluation)
        return said

    def begin(self) -> None:
        """A run is about to start: from here on `stop` is about that one."""
        with self.lock:
            if not self._n_busy:
                self._stop.clear()
            self._n_busy += 1

    @property
    def busy(self) -> bool:
        """Whether something runs that `stop` would end."""
        return self._n_busy > 0

    def end(self) -> None:
        """What was begun is over; what else was begun, on screen or in a cell, goes on."""
        with self.lock:
            self._n_busy -= 1

    def stop(self) -> None:
        """End the run, if there is one; what is in flight is waited for a moment and kept."""
        if self._n_busy:
            self._stop.set()

    def heed_stop(self, _progress: Any = None) -> None:
        """Raise `Stopped` into what is under way, if it is to end."""
        if self._stop.is_set():
            raise Stopped

    def _evaluate(self, version: Version, **options: Any) -> Evaluation:
        made = evaluate(
            self.items, version.rubric, list(version.judges), samples=version.samples, aggregate=version.aggregate,
            template=self.template, cache=self.cache, adopt=True, progress=False, **self.options, **options,
        )  # fmt: skip
        made.scores, made.disagreement  # noqa: B018  # worked out here, in the background
        return made

    def _take(self, version: Version, evaluation: Evaluation) -> None:
        key = version.key
        if self.current and self.current != key:
            self.against = self.current
        self.history.versions[key] = version
        self.current = key
        self._evaluations[key] = evaluation
        for old in [name for name in self._evaluations if name not in (self.current, self.against)][:-_REMEMBERED]:
            del self._evaluations[old]
        self.changed()
        self.keep()

    def changed(self) -> None:
        """What is shown is another: what was worked out for it is out of date."""
        self._revision += 1

    def replay(self, key: str) -> Evaluation:
        """The evaluation of a version that was run, from the cache alone."""
        if key not in self._evaluations:
            if key not in self.history.versions:
                raise InputError(f"there is no version {key!r}; there are {listed(self.history.versions)}")
            evaluation = self._evaluate(self.history.versions[key], offline=True)
            with self.lock:
                self._evaluations[key] = evaluation
                self.changed()
        return self._evaluations[key]

    def choose(self, current: str, against: str = "") -> None:
        """Show a version, compared with another one (or none)."""
        for key in filter(None, (current, against)):
            self.replay(key)
        with self.lock:
            self.current, self.against = current, against if against != current else ""
            self.changed()
            self.keep()

    def take_up(self, key: str) -> None:
        """Make the rubric of a version the draft, to go on from there."""
        with self.lock:
            version = self.history.versions[key]
            self.draft, self.problem = rebased(self.base, version.rubric.to_dict()), ""
            self.keep()

    @property
    def evaluation(self) -> Evaluation | None:
        """What is shown; None before the first run."""
        return self._evaluations.get(self.current)

    @property
    def other(self) -> Evaluation | None:
        """What it is compared with, or None."""
        return self._evaluations.get(self.against) if self.against else None


def _marked(evaluation: Evaluation) -> Evaluation:
    """The evaluation of a stopped run: what was not asked says so."""
    judgments = evaluation.judgments
    why = judgments["error"].astype(object).replace("cache_miss", "stopped")
    return replace(evaluation, judgments=judgments.assign(error=tables.categorical(why)))


def _missing(evaluation: Evaluation) -> str:
    n = int((evaluation.judgments["error"].astype(object) == "stopped").sum())
    return f"{n} of {counted(len(evaluation.judgments), 'judgment was', 'judgments were')} not asked"
