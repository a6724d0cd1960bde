"""The versions of a session that were run: judging one, stopping, which two are shown, and what chance changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, chain
from typing import Any

import pandas as pd

from evalkit.core.formatting import MORE_COSTS
from evalkit.core.lists_of_choices import ENGINE_REASONS
from evalkit.core.settings import Options
from evalkit.engine import Plan, ReplyStore
from evalkit.engine.judging.judge import judge_worklist
from evalkit.engine.judging.worklist import Worklist
from evalkit.errors import CacheError, ConfigError, EvalkitError, InputError, RubricError, counted, listed
from evalkit.evaluation import Evaluation
from evalkit.evaluation.evaluating import evaluate_worklist
from evalkit.evaluation.evaluation_log import log_evaluation
from evalkit.notebook.tuner.drafts import Drafts, Setup, run_price
from evalkit.notebook.tuner.session_labels import Labels
from evalkit.notebook.tuner.version_history import History, Version
from evalkit.tables import schemas

SHOWN_VERSIONS = 10
"""How many versions, the newest ones, have a figure under Versions; their evaluations stay in memory."""

_LEFT_TO_RUN = {"cache_miss", "stopped", "budget", "in_batch"}
_KILLED = (
    "The kernel ended during a run (or it goes on in another notebook): replies that were on their way are not stored, "
    "so the next run asks for them again; the server may have charged for them."
)


class Stopped(Exception):
    """Raised inside a run to end it."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run, in words, and whether it was stopped before all replies were there."""

    text: str
    stopped: bool = False


class Runs:
    """Runs versions, keeps their evaluations in memory, and knows which of them are shown.

    Attributes
    ----------
    current, against
        The keys of the version shown and of the one that it is compared with, or empty.
    problems
        What the servers said in the last run of each version, by judge and reason.
    again
        What asking again for the replies that cannot be read costs, in words.
    """

    def __init__(self, setup: Setup, history: History, drafts: Drafts, labels: Labels) -> None:
        self._setup, self._history, self._drafts, self._labels = setup, history, drafts, labels
        keys = (history.state.get(name) for name in ("current", "against"))
        self.current, self.against = (key if key in history.versions else "" for key in keys)
        with suppress(ConfigError):  # no judge is selected
            if drafts.is_other and (key := drafts.next_version().key) in history.versions:
                self.current, self.against = key, ""  # that of the editor
        self._stop, self._n_busy, self._is_asking = threading.Event(), 0, False
        if history.state.get("is_asking"):
            history.notes.append(_KILLED)
        self._evaluations: dict[str, Evaluation] = {}
        self.problems: dict[str, dict[tuple[str, str], str]] = {}
        self.again = ""
        self._again: Plan | None = None
        self._again_of: Evaluation | None = None
        history.parts.append(lambda: {"current": self.current, "against": self.against, "is_asking": self._is_asking})

    # -- running
    def run(
        self,
        on_progress: Callable[[Any], object] | None = None,
        version: Version | None = None,
        defer: Callable[[Callable[[], None]], object] | None = None,
        item_ids: Collection[str] | None = None,
        *,
        first: str = "",
        **changed: Any,
    ) -> RunEnd:
        """Judge what the draft (or another version) changed, on all items or on some, and show it.

        It blocks until all replies are there: call it from a background thread. `defer` takes the job that logs the
        evaluation (see `history`), to be done when its figures are on screen. `first` is the item that is asked about
        before the others. `changed`: options of this run alone.

        Raises
        ------
        JudgeError, CacheError, ConfigError, RubricError
            As `judge`; the version on screen stays.
        """
        with self._history.lock:
            version = version or self._drafts.next_version()
            self._history.notes.clear()
        left_usd = self._drafts.left_usd
        self.problems.pop(version.key, None)
        work, end, started, part = self._setup.worklist(version, first=first), RunEnd(""), time.time(), None

        def report(progress: Any) -> None:
            nonlocal end
            if not self._is_asking:
                self._is_asking = True
                with self._history.lock:
                    self._history.save()
            self.problems[version.key] = dict(progress.problems)
            judges = listed({judge for judge, _ in progress.problems})
            failed = f"; {counted(progress.n_failed, 'call')} failed ({judges})" if progress.n_failed else ""
            end = RunEnd(f"received {counted(progress.done, 'reply', 'replies')}{failed}")
            if on_progress is not None:
                on_progress(replace(progress, stopped=progress.stopped or self._stop.is_set()))
            self.check_stop()

        options = self._setup.judging(budget_usd=left_usd, on_progress=report, **changed)
        with self.running():
            try:
                if item_ids is not None:
                    part = judge_worklist(self._setup.worklist(version, item_ids), options)
                    raise Stopped  # before the other items
                evaluation = self._evaluate(work, options)
            except Stopped:
                evaluation = _mark_stopped(self._evaluate(work), started, part)
                head = f"stopped: {evaluation.cost.n_live:,} replies received" if part is None else end.text
                rest = f"{n:,} still to ask for" if (n := evaluation.cost.n_missing) else "all replies are here"
                end = RunEnd(f"{head}; {rest}", stopped=True)
            finally:
                self._is_asking = False
                with self._history.lock, suppress(CacheError):  # a run that was paid for is shown first
                    self._history.save()
        with suppress(EvalkitError):  # right after a restart, it is not in memory
            self.load(self.current)
        with self._history.lock:
            self._add(version, evaluation)
        log = partial(log_evaluation, evaluation, work, options)
        log() if defer is None else defer(log)
        return end

    def begin_run(self) -> None:
        """Announce a run: from here on `stop` ends it."""
        with self._history.lock:
            if not self._n_busy:
                self._stop.clear()
            self._n_busy += 1

    def end_run(self) -> None:
        """Announce the end of a run; others, on screen or in a cell, continue."""
        with self._history.lock:
            self._n_busy -= 1

    @contextmanager
    def running(self) -> Iterator[None]:
        """A run that `stop` ends."""
        self.begin_run()
        try:
            yield
        finally:
            self.end_run()

    @property
    def busy(self) -> bool:
        """Whether anything runs that `stop` would end."""
        return self._n_busy > 0

    def stop(self) -> None:
        """End the run, if there is one; replies to calls in flight are kept."""
        if self._n_busy:
            self._stop.set()

    def check_stop(self, _progress: Any = None) -> None:
        """Raise `Stopped` after `stop`."""
        if self._stop.is_set():
            raise Stopped

    def _evaluate(self, work: Worklist, options: Options | None = None) -> Evaluation:
        """The evaluation of a work list; without options, from the cache and without any call."""
        run_options = options or self._setup.judging(offline=True, refresh=False)
        evaluation = evaluate_worklist(work, self._setup.items, run_options, self._labels.for_rubric(work.spec.rubric))
        if options is None:  # what is asked later, for example to measure chance, is asked as in a run
            asks = replace(evaluation.options, offline=bool(self._setup.options.get("offline")))
            evaluation = replace(evaluation, options=asks)
        evaluation.scores, evaluation.disagreement  # noqa: B018  # computed here, in the background
        return evaluation

    def _add(self, version: Version, evaluation: Evaluation) -> None:
        key = version.key
        if self.current and self.current != key:
            self.against = self.current
        self._history.versions[key] = self._history.named(replace(version, name=""))
        self.current = key
        self._drafts.end_step()
        self._evaluations[key] = evaluation
        for old in set(self._evaluations) - set(self.shown_versions):
            del self._evaluations[old]
        self._labels.log.add_scales(version.rubric)
        self._history.save()

    # -- what is shown
    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation shown; None before the first run."""
        return self._evaluations.get(self.current)

    def loaded(self) -> Evaluation:
        """The evaluation shown.

        Raises
        ------
        InputError
            Before the first run.
        """
        if (evaluation := self.evaluation) is None:
            raise InputError("nothing is judged yet; run first")
        return evaluation

    @property
    def compared(self) -> Evaluation | None:
        """The evaluation it is compared with, or None."""
        return self._evaluations.get(self.against) if self.against else None

    def fitting(self) -> tuple[list[str], str]:
        """The items that a run of the draft can judge within the spending limit, labelled ones first, and its price.

        An item's own criteria stay together, as in a prompt of the whole run. No items and no price if none fit, or if
        nothing would be asked about them; makes no calls.
        """
        left_usd, version, items = self._drafts.left_usd, self._drafts.next_version(), self._setup.items
        one_prompt = items["of_item" if self._setup.spec.per_item and "of_item" in items else "item_id"].astype(str)
        rows_of = items["item_id"].groupby(one_prompt.to_numpy(), sort=False).agg(list)
        groups = sorted(rows_of, key={*self._labels.log.counted["item_id"]}.isdisjoint)

        ids, ends = [*chain.from_iterable(groups)], [0, *accumulate(map(len, groups))]
        high_usd = self._setup.plan(version, ids).usd
        low, low_usd, high, price, n_tries = 0, 0.0, len(groups), "", 0
        while left_usd is not None and high - low > 1 and high_usd > left_usd:
            # prices are nearly even: each plan of thousands of items takes seconds
            share = (left_usd - low_usd) / (high_usd - low_usd) if n_tries < 3 or n_tries % 2 else 0.5
            middle, n_tries = min(max(low + int((high - low) * share), low + 1), high - 1), n_tries + 1
            plan = self._setup.plan(version, ids[: ends[middle]])
            if plan.usd > left_usd:
                high, high_usd = middle, plan.usd
            else:
                low, low_usd, price = middle, plan.usd, run_price(plan, left_usd)
        return (ids[: ends[low]], price) if price else ([], "")

    @property
    def shown_versions(self) -> list[str]:
        """The keys of the newest versions, of the one shown and of the one compared with; oldest first."""
        keys = list(self._history.versions)
        return [key for key in keys if key in (*keys[-SHOWN_VERSIONS:], self.current, self.against)]

    @property
    def shows_draft(self) -> bool:
        """Whether a run now would judge the version shown."""
        with suppress(RubricError, ConfigError):
            return self._drafts.next_version().key == self.current
        return False

    def known(self, key: str) -> Evaluation | None:
        """The evaluation of a version, if it is in memory."""
        return self._evaluations.get(key)

    def plan_again(self) -> None:
        """Plan what asking again for the replies without a score costs, of the version shown; makes no calls."""
        evaluation = self.evaluation
        if self._again_of is not evaluation:
            self._again_of, self._again = evaluation, None
            errors: set[Any] = set() if evaluation is None else {*evaluation.judgments["error"].dropna().unique()}
            is_unread = bool(errors - {*ENGINE_REASONS}) and not errors & _LEFT_TO_RUN
            if is_unread and not self._setup.options.get("offline"):
                self._again = self._setup.plan(self._history.versions[self.current], refresh="unscored")
        self.again = "" if self._again is None else run_price(self._again, self._drafts.left_usd)

    def load(self, key: str) -> Evaluation:
        """The evaluation of a version, from memory or else from the cache, without any call."""
        if key not in self._evaluations:
            if key not in (versions := self._history.versions):
                raise InputError(f"version {key!r} not found; available: {listed(versions)}")
            self._labels.log.add_scales(versions[key].rubric)
            self._evaluations[key] = self.stored(versions[key])
        return self._evaluations[key]

    def stored(self, version: Version) -> Evaluation:
        """The evaluation of what is in the cache for a version, without any call."""
        return self._evaluate(self._setup.worklist(version))

    def reload(self, key: str) -> None:
        """`load` a version whose name has changed, if it is in memory; calls that failed stay failed, not unasked."""
        if (last := self._evaluations.pop(key, None)) is None:
            return
        judgments, was = self.load(key).judgments, last.judgments
        fields = [name for name in schemas.JUDGMENT_KEY if name != "rubric_version"]
        if judgments[fields].astype(str).equals(was[fields].astype(str)):
            why = judgments["error"].astype(object)
            why = why.mask((why == "cache_miss").to_numpy(dtype=bool), was["error"].astype(object))
            marked = judgments.assign(error=schemas.categorical(why))
            self._evaluations[key] = replace(self._evaluations[key], judged=marked)

    def show(self, current: str, against: str = "") -> None:
        """Show a version, compared with another one (or none)."""
        for key in filter(None, (current, against)):
            self.load(key)
        with self._history.lock:
            self.current, self.against = current, against if against != current else ""
            self._history.save()


def _mark_stopped(evaluation: Evaluation, started: float, part: pd.DataFrame | None = None) -> Evaluation:
    """The evaluation of a stopped run, from the cache.

    Judgments that were not made have the error ``stopped``, or that of the run of a part. Replies received after its
    start were paid in it.
    """
    judgments, store = evaluation.judgments, ReplyStore.open(evaluation.options.cache)
    sources = dict[str, Any]()
    for key_name, source_name, _ in [of for of in (("key", "source", "cost_usd"), *MORE_COSTS) if of[0] in judgments]:
        keys = {key: bytes.fromhex(key) for key in judgments[key_name].dropna().unique()}
        bought = store.get_many(keys.values(), since=started, recorded=False)
        paid_for = [key for key, code in keys.items() if code in bought]
        live = judgments[key_name].isin(paid_for) & judgments[source_name].eq("cache")
        source = judgments[source_name].astype(object).mask(live.to_numpy(dtype=bool), "live")
        sources[source_name] = schemas.categorical(source)
    errors = {} if part is None else dict(zip(part["key"], part["error"].astype(object).fillna("stopped"), strict=True))
    lost = [errors.get(key, "stopped") for key in judgments["key"]]
    why = judgments["error"].astype(object).mask(judgments["error"].eq("cache_miss"), pd.Series(lost, judgments.index))
    marked = judgments.assign(error=schemas.categorical(why), **sources)
    return replace(evaluation, judged=marked)
