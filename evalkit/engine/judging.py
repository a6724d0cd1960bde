"""`judge`: look everything up in the cache, call for what is missing, return the table.

It is longer than most modules: the steps of one call, and the state after each error, are in one place, in order.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import numpy as np
import orjson
import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import SKIPPED, OnMissing
from evalkit.core.prompts_and_replies import Request
from evalkit.core.settings import Options, Refresh
from evalkit.engine.cache import ReplyStore
from evalkit.engine.own_answer_first import first_stage, own_answers, with_columns
from evalkit.engine.replies_to_judgments import Columns
from evalkit.engine.reply_lookup import StoredReplies, nearest, warn_changed_text
from evalkit.engine.specification import Spec, is_none
from evalkit.engine.worklist import Worklist, gc_paused
from evalkit.errors import CacheMiss, EvalkitWarning, JudgeError, counted
from evalkit.rubrics import RubricLike
from evalkit.rubrics.parsing.reply_cleanup import broke_off
from evalkit.tables import ItemsLike

if TYPE_CHECKING:
    from evalkit.engine.calls.budget import Budget

P = ParamSpec("P")
R = TypeVar("R")

_CHUNK = 20_000
_log = logging.getLogger("evalkit")

_ATTEMPTS = 3  # so often is a reply paid that breaks off each time
_DOWN = ("judge_down", "server_error")


def judge(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, str] | None = None,
    on_missing: OnMissing = "raise",
    offline: bool = False,
    on_miss: Literal["row", "raise"] = "row",
    recorded: Literal["miss", "use"] = "miss",
    refresh: Refresh = False,
    adopt: bool = False,
    cache: str | Path | None = None,
    concurrency: int = 64,
    retries: int = 5,
    budget_usd: float | None = None,
    max_calls: int | None = None,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    run: str | None = None,
    progress: bool | None = None,
    replies: bool = False,
    on_progress: Callable[[Any], object] | None = None,
) -> pd.DataFrame:
    """Judge items by a rubric; replies in the cache are not paid again.

    Parameters
    ----------
    items
        A DataFrame, a `datasets.Dataset`, a list of dicts or one dict.
    rubric
        A Rubric or its name, or a Profile (which may name judges and samples too).
    judges
        One judge or several: ``"openai:gpt-4o-mini"``, a Judge, a mapping. ``"none"`` replays the stored replies of
        the profile's judges, offline.
    samples
        Samples per judge and item, from 1 to 1000 (default 3). Offline, the default uses all recorded replies,
        however many each item has.
    template
        The template of judges that have none of their own, instead of the rubric's.
    criteria_per_call
        How many criteria one reply judges: 1 (default), another number, or ``"all"``. Criteria are grouped in the order
        of the rubric; one with examples is asked alone. A reply's tokens and cost are those of each of its judgments,
        which share its `key`.
    item_id
        The column with the ids; by default ``item_id``, else the index.
    inputs
        For inputs of the rubric the column that holds them, if it has another name: ``{"answer": "response"}``. Several
        inputs may be in one column. What is mapped is read from that column alone, even if the items have a column of
        the input's own name. Names do not change the reply key.
    on_missing
        An item without a value for a required input: ``raise`` (default) an error, or ``skip`` the item: no judge is
        asked, and its judgments are rows with ``error = "missing_input"``, which count as unscored. An empty text is
        a value. (An item with an image in an input is always skipped: ``error = "unseen_image"``.)
    offline
        Never open a connection. A missing reply becomes a row with ``error = "cache_miss"`` or, with
        ``on_miss="raise"``, a `CacheMiss` that shows the key field that differs.
    recorded
        ``use``: recorded replies count for a live judge, too; offline they always do.
    refresh
        Which replies to request again: True: all; ``"unscored"``: those without a score; a time stamp (Unix seconds,
        a datetime, or a string such as ``"2026-01-31"``): older ones. The old replies stay in the store.
    adopt
        Also use replies of other versions of the rubric whose criterion is unchanged.
    cache
        The cache folder, or the address of a PostgreSQL database (default: ``EVALKIT_CACHE``, else ``cache/`` of the
        project).
    concurrency, retries
        Maximum calls in flight per service, model and key variable; maximum retries of a failed call.
    budget_usd, max_calls
        Maximum US$ and requests; samples beyond them have ``error = "budget"``.
    requests_per_minute, tokens_per_minute
        Rate limits per service, model and key; a call counts as its prompt's bytes / 4 plus max_tokens tokens.
    run
        A name: these limits hold for all processes that use the same cache and name, together, also for later ones.
    progress
        False: silent. By default shown on a terminal and in notebooks that somebody watches (not in nbval, nbconvert
        and papermill), for live calls only.
    replies
        Add the column `reply` with the raw replies.
    on_progress
        Called with the counters of the run, at most ten times per second.

    Returns
    -------
    pandas.DataFrame
        The judgments table, one row per item, criterion, judge, order and sample, in the order of
        the input: `score` (rubric units), `score_norm` (0-1), `label`, `passed`, `explanation`, `error`
        (why there is no score; NA = scored), `source`, tokens, `cost_usd`, `latency_s`, `key` …

    Raises
    ------
    InputError, RubricError, ConfigError
        Before anything is paid.
    JudgeError
        When no judge could be called at all.
    CacheError
        When replies cannot be stored.

    Examples
    --------
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
    >>> table = judge(items, "correctness", "fake:strict", samples=1)
    >>> table[["item_id", "criterion", "judge", "sample"]].values.tolist()
    [['0', 'correctness', 'fake:strict', 0]]
    """
    spec = Spec.of(
        rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
    )
    options = Options(
        offline or is_none(judges), on_miss, recorded, refresh, adopt, cache,
        concurrency, retries, budget_usd, max_calls, progress, replies,
        requests_per_minute, tokens_per_minute, run, on_progress,
    )  # fmt: skip
    return judge_worklist(Worklist.of(spec, items, item_id), options)


def judge_worklist(
    worklist: Worklist, options: Options, *, until: float | None = None, budget: Budget | None = None
) -> pd.DataFrame:
    """`judge` with resolved arguments, which can be pickled: one unit of work for a cluster.

    `until` repeats a call of that Unix time offline: later replies do not count, nor do recorded ones unless asked.
    `budget` is shared by several calls; None: one of this call alone, if `options` limit it.
    """
    run = _Run.open(worklist, options, until)
    if run.missing and not options.offline:
        from evalkit.engine.calls.budget import Budget
        from evalkit.engine.calls.event_loop import fetch

        if run.worklist.spec.commits and (first := first_stage(run.worklist, run.missing)) is not None:
            budget = budget or Budget.of(options)
            run.take_first(judge_worklist(first, run.first_options(), budget=budget))
        requests = run.requests()
        with run.calling() as on_progress:
            asked = fetch(
                requests, run.store, options, newer_than=run.newer_than, on_progress=on_progress, budget=budget
            )
            run.take(asked)
    return run.table()


def missing_requests(worklist: Worklist, options: Options) -> tuple[list[Request], ReplyStore, float | None, str]:
    """The requests that `judge` would send, the store, from which Unix time on stored replies count, and why none."""
    run = _Run.open(worklist, options)
    commits = run.missing and run.worklist.spec.commits
    if commits and (first := first_stage(run.worklist, run.missing)) is not None:
        requests, *others = missing_requests(first, run.first_options())
        if requests:
            _log.info("these batches ask for the judges' own answers; collect them, then submit again for the scores")
            return requests, *others  # type: ignore[return-value]
        run.take_first(judge_worklist(first, replace(run.first_options(), offline=True, refresh=False)))
    return run.requests() if run.missing else [], run.store, run.newer_than, "" if run.missing else run.why_none()


def _n_broken(generations: Sequence[bytes]) -> int:
    """How many of the newest stored replies of a key broke off, one after the other."""
    n = 0
    for value in reversed(generations):
        if not broke_off(orjson.loads(value).get("finish_reason")):
            break
        n += 1
    return n


def _with_arguments_of(function: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function that takes any arguments the signature of another, for editors, type checkers and `help`."""

    def decorate(wrapped: Callable[..., R]) -> Callable[P, R]:
        wrapped.__signature__ = signature(function)  # type: ignore[attr-defined]
        return wrapped

    return decorate


@_with_arguments_of(judge)
async def ajudge(*args: Any, **options: Any) -> pd.DataFrame:
    """`judge` for callers with a running event loop: ``await ek.ajudge(…)``; same arguments, same table."""
    named = signature(judge).bind(*args, **options).arguments
    items, rubric, judges = named.pop("items"), named.pop("rubric"), named.pop("judges", None)
    item_id = named.pop("item_id", None)
    asked = {
        name: named.pop(name)
        for name in ("samples", "template", "inputs", "on_missing", "criteria_per_call")
        if name in named
    }
    spec = Spec.of(rubric, judges, **asked)
    chosen = Options(**(named | {"offline": True} if is_none(judges) else named))
    return await _ajudged(Worklist.of(spec, items, item_id), chosen)


async def _ajudged(worklist: Worklist, options: Options, budget: Budget | None = None) -> pd.DataFrame:
    run = _Run.open(worklist, options)
    if run.missing and not options.offline:
        from evalkit.engine.calls.budget import Budget
        from evalkit.engine.calls.event_loop import afetch

        if run.worklist.spec.commits and (first := first_stage(run.worklist, run.missing)) is not None:
            budget = budget or Budget.of(options)
            run.take_first(await _ajudged(first, run.first_options(), budget))
        requests = run.requests()
        with run.calling() as on_progress:
            asked = await afetch(
                requests, run.store, options, newer_than=run.newer_than, on_progress=on_progress, budget=budget
            )
            run.take(asked)
    return run.table()


@dataclass(slots=True)
class _Run:
    """One call of `judge` between its steps.

    Attributes
    ----------
    since
        Stored replies received before this Unix time count as missing.
    until
        Stored replies received after this Unix time do not count.
    newer_than
        Stored replies received before this Unix time may be superseded by new ones.
    missing, keys
        Rows without a reply, and their reply keys.
    unscored_before
        Rows that are requested again because their stored reply has no score.
    kept
        Which rows the table shows; None: all.
    """

    worklist: Worklist
    options: Options
    store: ReplyStore
    columns: Columns
    since: float | None
    newer_than: float | None
    until: float | None = None
    missing: list[int] = field(default_factory=list)
    keys: dict[int, bytes] = field(default_factory=dict)
    unscored_before: set[int] = field(default_factory=set)
    kept: np.ndarray[Any, Any] | None = None
    answered: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, worklist: Worklist, options: Options, until: float | None = None) -> _Run:
        """Look up a work list in the cache; offline, rows without a reply fail."""
        store, refresh, now = ReplyStore.open(options.cache), options.refresh, time.time()
        since = now if refresh is True else refresh if isinstance(refresh, float) else None
        newer_than = now if refresh == "unscored" else since
        run = cls(worklist, options, store, Columns(worklist, replies=options.replies), since, newer_than, until)
        stored = run._look_up()
        if options.offline and not worklist.spec.exact and run.columns.recorded.any():
            samples = max(worklist.spec.samples, stored.recorded_samples())
            run = replace(run, worklist=worklist.with_samples(samples), missing=[], keys={})
            run.columns = Columns(run.worklist, replies=options.replies)
            run._look_up()
            run._keep_recorded(worklist.spec.samples)
        n_hits = run.worklist.n_rows - len(run.missing)
        if worklist.skipped:
            run._skip()
        if run.missing and run._leave_to_batches():  # with refresh, what was collected is as new as live replies
            return cls.open(worklist, options if since is None else replace(options, refresh=since), until)
        store.counters.add(hits=n_hits, misses=len(run.missing), saved_usd=run.columns.known_usd)
        if options.offline and run.missing:
            run._miss_offline()
        return run

    def _look_up(self) -> StoredReplies:
        """Read the replies that are in the cache, and collect the missing rows."""
        recorded = self.options.recorded == "use" or (self.options.offline and self.until is None)
        stored = StoredReplies(self.worklist, self.store, recorded, self.since, self.until)
        for first, keys, values in stored.chunks():
            hits = [(first + at, *hit) for at, hit in enumerate(values) if hit is not None]
            if hits:
                with gc_paused():
                    self.columns.read(*zip(*hits, strict=True), source=None)
            if len(hits) < len(keys):
                places = [at for at, hit in enumerate(values) if hit is None]
                self.missing += [first + at for at in places]
                self.keys |= {first + at: keys[at] for at in places}
        if self.options.refresh == "unscored":
            self._ask_again({row for row in range(self.worklist.n_rows) if self.columns.error(row) is not None})
        elif self.missing and self.options.adopt:
            self._adopt(stored)
        if not self.options.offline and (again := self._broke_off()):
            self._ask_again(again)
            self.newer_than = time.time()
        return stored

    def _broke_off(self) -> set[int]:
        """The rows whose reply broke off and may be whole if asked again: not if it broke off each of three times."""
        rows = self.columns.broke_off
        if not rows:
            return rows
        keys = {row: key for row, key in enumerate(self.worklist.keys()) if row in rows}
        stored = self.store.generations(set(keys.values()))
        hopeless = {row for row, key in keys.items() if _n_broken(stored.get(key, ())) >= _ATTEMPTS}
        if hopeless:
            _log.warning(
                "%s broke off each of %d times and is not requested again; refresh='unscored' does",
                counted(len(hopeless), "reply", "replies"), _ATTEMPTS,
            )  # fmt: skip
        return rows - hopeless

    def _skip(self) -> None:
        """Give the rows of items that no judge is asked about the reason."""
        asked = self.worklist.without_skipped(self.keys)
        skipped = [row for row in self.missing if row not in asked]
        reasons = [self.worklist.skipped[self.worklist.place(row)[0]] for row in skipped]
        self.columns.fail(skipped, None, reasons)
        self.missing = [row for row in self.missing if row in asked]

    def _leave_to_batches(self) -> bool:
        """Leave out the rows that open batches ask for; True if overdue ones were collected: look up again."""
        asked = self.store.in_batches(set(self.keys.values()))
        if not asked or self.options.on_miss == "raise":
            return False
        if not self.options.offline:
            from evalkit.engine.overdue_tickets import take_overdue

            servers = [judge.base_url for judge in self.worklist.spec.judges]
            if take_overdue(self.store, set(asked.values()), servers) and self.store.in_batches(asked) != asked:
                return True
        left = {row: self.keys[row] for row in self.missing if self.keys[row] in asked}
        rows = [row for row in left if row not in self.unscored_before]
        self.columns.fail(rows, [left[row] for row in rows], ["in_batch"] * len(rows))
        self.missing = [row for row in self.missing if row not in left]
        for ticket, n in Counter(asked.values()).most_common():
            _log.warning("%s still in ticket %s; collect it, then judge again", counted(n, "reply", "replies"), ticket)
        return False

    def why_none(self) -> str:
        """Why no reply is missing, in words."""
        n, n_skipped = self.worklist.n_rows, sum(self.columns.error(row) in SKIPPED for row in self.keys)
        held = " or hold an image" if self.worklist.n_unseen else ""
        return (
            f"of {counted(n, 'judgment')}, {n - len(self.keys)} in the cache, {len(self.keys) - n_skipped} in open "
            f"tickets (`evalkit batch list`), {n_skipped} of items that lack an input{held}"
        )

    def _ask_again(self, unscored: set[int]) -> None:
        """Count these rows, whose stored reply has no score, as missing, too."""
        missing = set(self.missing)
        self.unscored_before |= unscored - missing
        if self.worklist.spec.is_grouped:  # a new reply is one for all criteria of its call
            keys = list(self.worklist.keys())
            again = {keys[row] for row in self.unscored_before}
            self.unscored_before |= {row for row, key in enumerate(keys) if key in again and row not in missing}
        for row, key in enumerate(self.worklist.keys()):
            if row in self.unscored_before:
                self.keys[row] = key
        self.missing = sorted(missing | self.unscored_before)

    def _adopt(self, stored: StoredReplies) -> None:
        """Look the missing rows up by content: replies of another rubric version with the same prompt."""
        adopted = stored.of_rows(self.missing, content=True)
        keys, values = [key for key, _ in adopted.values()], [value for _, value in adopted.values()]
        self.columns.read(list(adopted), keys, values, source=None)
        for row in adopted:
            del self.keys[row]
        self.missing = [row for row in self.missing if row in self.keys]

    def _cells(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """By item, criterion, judge, order and sample: whether there is a reply, and whether it was recorded."""
        found = np.ones(self.worklist.n_rows, dtype=bool)
        found[self.missing] = False
        return found.reshape(self.worklist.shape), self.columns.recorded.reshape(self.worklist.shape)

    def _keep_recorded(self, samples: int) -> None:
        """For judges with recorded replies show the samples that are stored, or one row with `cache_miss`.

        For pairs that is one row for each order in which the judge has replies to another item.
        """
        found, recorded = self._cells()
        asked = np.asarray(found.any(axis=(0, -1)))
        asked[..., 0] |= ~asked.any(axis=-1)
        kept = found.copy()
        kept[..., 0] |= asked & ~found.any(axis=-1)
        default = np.arange(found.shape[-1]) < samples
        by_judge = np.asarray(recorded.any(axis=(0, 1, 3, 4)))[:, np.newaxis, np.newaxis]
        self.kept = np.where(by_judge, kept, default).reshape(-1)
        self.missing = [row for row in self.missing if self.kept[row]]

    def _miss_offline(self) -> None:
        """Give the missing rows the error `cache_miss`, or raise."""
        if self.options.on_miss == "raise":
            row = self.missing[0]
            item = self.worklist.items["item_id"].iloc[self.worklist.place(row)[0]]
            near = nearest(self.worklist, self.store, row) or {}
            differences = [f"{name}: {cached!r} cached, {asked!r} needed" for name, (cached, asked) in near.items()]
            difference = "; ".join(differences) or (
                "nothing is stored for this input, and nothing recorded for this item id"
            )
            raise CacheMiss(
                f"{len(self.missing)} of {counted(self.worklist.n_rows, 'judgment is', 'judgments are')} not in the "
                f"cache at {self.store.where} (first: item {item!r}; {difference}); run without offline to call the "
                "judges"
            )
        if not self.store.database.n_bytes():
            _log.warning("the cache %s does not exist: check cache= (--cache) or EVALKIT_CACHE", self.store.place)
        if self.kept is None and self.columns.recorded.any():
            has_reply, recorded = self._cells()
            n_missing = int((~has_reply & recorded.any(axis=(-1, -2), keepdims=True)).sum())
            if n_missing:
                warnings.warn(
                    f"{n_missing} of {counted(self.worklist.n_rows, 'reply', 'replies')} are missing (cache_miss), "
                    f"because fewer than {counted(self.worklist.spec.samples, 'sample')} were recorded; omit "
                    "samples= to use all recorded samples",
                    EvalkitWarning,
                    stacklevel=5,
                )
        self.columns.fail(self.missing, [self.keys[row] for row in self.missing], ["cache_miss"] * len(self.missing))

    def first_options(self) -> Options:
        """The options of the judges' own answers, which come before the judgments."""
        refresh = False if self.options.refresh == "unscored" else self.options.refresh
        return replace(self.options, on_miss="row", recorded="miss", refresh=refresh, adopt=False, replies=False,
                       progress=False, on_progress=None)  # fmt: skip

    def take_first(self, answers: pd.DataFrame) -> None:
        """Take the judges' own answers; rows without one are not asked, for the same reason."""
        self.worklist = replace(self.worklist, own=own_answers(self.worklist, answers))
        self.answered |= set(answers.loc[answers["source"].eq("live").fillna(value=False), "key"])
        places = {row: self.worklist.place(row) for row in self.missing}
        commits = [builder.template.commits for builder in self.worklist.spec.prompt_builders]
        lost = {
            row: reason
            for row, (item, _, judge, _, _) in places.items()
            if commits[judge] and (reason := self.worklist.own_answer(item, judge)[1]) is not None
        }
        rows = [row for row in lost if row not in self.unscored_before]
        self.columns.fail(rows, [self.keys[row] for row in rows], [lost[row] for row in rows])
        self.missing = [row for row in self.missing if row not in lost]

    def table(self) -> pd.DataFrame:
        """The judgments, with the own answers of judges that gave one."""
        table = self.columns.table(self.kept)
        if not self.worklist.spec.commits or (first := first_stage(self.worklist)) is None:
            return table
        stored = replace(self.first_options(), offline=True, refresh=False)
        return with_columns(table, self.worklist, judge_worklist(first, stored, until=self.until), self.answered)

    def requests(self) -> list[Request]:
        """The requests to send. The first prompt of each judge is rendered here: an invalid template costs nothing."""
        warn_changed_text(self.worklist.spec, self.store)
        requests = self.worklist.requests(self.missing)
        for request in {id(request.judge): request for request in reversed(requests)}.values():
            request.prompt  # noqa: B018  # the others are rendered while calls are in flight
        return requests

    @contextmanager
    def calling(self) -> Iterator[Callable[[Any], object] | None]:
        """Show progress while calls are made; if the run is stopped, report where the replies are and what to do."""
        from evalkit.engine.progress import ProgressBar, is_shown

        bar = None
        if is_shown(self.options.progress):
            bar = ProgressBar(self.worklist.n_rows, len(self.missing), self.store.where, self.options.on_progress)
        try:
            yield self.options.on_progress if bar is None else bar.update
            if bar is not None:
                bar.end(Counter(error for row in self.missing if (error := self.columns.error(row)) is not None))
        except KeyboardInterrupt:
            # the last line that a terminal or a notebook shows of it, and the only one on the command line
            raise KeyboardInterrupt(self._stopped()) from None
        except BaseException as error:
            import asyncio

            if isinstance(error, (SystemExit, asyncio.CancelledError)):  # SIGTERM or SIGHUP, whose exit code is no text
                _log.warning(self._stopped())
            raise
        finally:
            if bar is not None:
                bar.close()

    def take(self, outcomes: Sequence[Any]) -> None:
        """Read the results of the calls; items of equal content share a reply.

        A reply that another run or process paid for comes from the cache.
        """
        by_key = {outcome.key: outcome for outcome in outcomes}
        places: dict[str | None, list[int]] = {"live": [], None: []}
        failures = {}
        for row in self.missing:
            outcome = by_key[self.keys[row]]
            if outcome.failure is None:
                places[None if outcome.joined else "live"].append(row)
            else:
                failures[row] = outcome.failure
        with gc_paused():
            for source, answered in places.items():
                for at in range(0, len(answered), _CHUNK):
                    rows = answered[at : at + _CHUNK]
                    keys = [self.keys[row] for row in rows]
                    self.columns.read(rows, keys, [by_key[key].value for key in keys], source=source)
        if failures:
            self._fail(failures)

    def _fail(self, failures: dict[int, Any]) -> None:
        """Mark and report the rows without a reply; a row that was requested again keeps its stored reply."""
        rows = [row for row in failures if row not in self.unscored_before]
        self.columns.fail(rows, [self.keys[row] for row in rows], [failures[row].reason for row in rows])
        names = {row: self.worklist.spec.judges[self.worklist.place(row)[2]].name for row in failures}
        details = Counter((names[row], failure.detail) for row, failure in failures.items())
        if len(failures) == self.worklist.n_asked and all(failure.reason in _DOWN for failure in failures.values()):
            reasons = "; ".join(f"{name}: {detail}" for name, detail in details)
            raise JudgeError(f"nothing was scored, because no judge could be called. {reasons}")
        for (name, detail), count in details.most_common(5):
            _log.warning("%s: %s without a reply: %s", name, counted(count, "judgment"), detail)

    def _stopped(self) -> str:
        again = "run it again: you pay only for the rest"
        if self.since is not None:
            again = f"run it again with refresh={self.since!r}: you pay only for the rest"
        return f"stopped; all replies received so far are stored in {self.store.where}; {again}"
