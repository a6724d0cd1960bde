"""`judge`: look everything up in the cache, call for what is missing, return the table.

It is longer than most modules: the steps of one call, and the state after each error, are in one place, in order.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import pandas as pd

from evalkit.core.judges import JudgesLike
from evalkit.core.lists_of_choices import SKIPPED, OnMissing
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.settings import Options, Refresh
from evalkit.engine.cache import ReplyStore
from evalkit.engine.judging.further_requests import Repairs, first_stage, own_answers, with_columns
from evalkit.engine.judging.reply_lookup import Lookup, StoredReplies, look_up, miss_offline, warn_changed_text
from evalkit.engine.judging.specification import Spec, is_none
from evalkit.engine.judging.worklist import Worklist, gc_paused
from evalkit.engine.request import Request
from evalkit.errors import JudgeError, counted
from evalkit.rubrics.profiles import RubricLike
from evalkit.stats.plain_tables import Keys
from evalkit.tables.items import ItemsLike, with_typed_ids

if TYPE_CHECKING:
    from evalkit.engine.calls.budget import Budget
    from evalkit.engine.calls.pending_call import Outcome

P = ParamSpec("P")
R = TypeVar("R")

_CHUNK = 20_000
_log = logging.getLogger("evalkit")

_DOWN = ("judge_down", "server_error")
_UNASKED = ("stopped", "judge_down", "rate_limited")  # a judge that ended so is not asked for repairs


def judge(
    items: ItemsLike,
    rubric: RubricLike,
    judges: JudgesLike | None = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    criteria_per_call: int | Literal["all"] | None = None,
    item_id: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    on_missing: OnMissing = "raise",
    offline: bool = False,
    on_miss: Literal["row", "raise"] = "row",
    recorded: Literal["miss", "use"] = "miss",
    refresh: Refresh = False,
    adopt: bool = False,
    cache: str | Path | None = None,
    concurrency: int | None = None,
    retries: int = 5,
    budget_usd: float | None = None,
    max_calls: int | None = None,
    requests_per_minute: float | None = None,
    tokens_per_minute: float | None = None,
    progress: bool | None = None,
    replies: bool = False,
    on_progress: Callable[[Any], object] | None = None,
    max_seconds: float | None = None,
    repair: bool | None = True,
) -> pd.DataFrame:
    """Judge items by a rubric; replies in the cache are not paid again.

    Parameters
    ----------
    items, item_id
        A DataFrame, a `datasets.Dataset`, a list of dicts or one dict, and the column with the ids (default
        ``item_id``, else the index).
    rubric, judges
        A Rubric, its name, or a Profile (which may name judges and samples too). One judge or several:
        ``"openai:gpt-4o-mini"``, a Judge, a mapping; ``"none"`` replays the stored replies of the profile's judges.
    samples
        Samples per judge and item, 1-1000 (default 3, of decision models 1). Offline, by default all recorded replies.
    template, criteria_per_call
        The template of judges that have none of their own. How many criteria one reply judges, in the order of the
        rubric: 1 (default), another number, or ``"all"``.
    inputs
        For inputs of the rubric the column that holds them, if it has another name: ``{"answer": "response"}``. Names
        are not in the reply key. With the rubric ``requirement``, ``criteria`` names the column of the items' own
        criteria, or is a mapping of `column`, `fields` and `ignore` (see `explode_criteria`).
    on_missing
        An item without a required input: ``raise`` (default) or ``skip`` it, with the error ``missing_input``.
    offline, on_miss
        Never open a connection. A missing reply has the error ``cache_miss``; ``on_miss="raise"`` raises `CacheMiss`.
    recorded, adopt
        ``use``: recorded replies count for a live judge, too (offline always). Also use replies of other versions of
        the rubric whose criterion is unchanged.
    refresh
        Which replies to request again: True: all; ``"unscored"``; a time stamp: older ones. The old ones stay stored.
    cache
        The cache folder, or the address of a PostgreSQL database (default: ``EVALKIT_CACHE``, else ``cache/``).
    concurrency, retries, requests_per_minute, tokens_per_minute
        Limits per service, model and key: calls in flight (by default 64; at a local or private address 8 at first, one
        more per answer), retries of a failed call, calls and tokens (a prompt's bytes / 4 plus max_tokens).
    budget_usd, max_calls, max_seconds
        Most US$, requests (retries included) and seconds; samples beyond have the error ``budget`` or ``stopped``.
    progress, on_progress, replies
        Whether progress is shown (by default on a terminal and in notebooks that somebody watches); a function of the
        run's counters, called at most ten times per second; whether to add the column `reply` with the raw replies.
    repair
        Ask a judge once what an `unreadable` or `ambiguous` reply means, without the item; `repaired`, `repair_key`,
        `repair_source` and `repair_usd` show it. Earlier replies only with ``refresh="unscored"``. False: no.

    Returns
    -------
    pandas.DataFrame
        The judgments table, one row per item, criterion, judge, order and sample, in the order of the input: `score`
        (rubric units), `score_norm` (0-1), `label`, `passed`, `explanation`, `error` (why there is no score), `source`,
        tokens, `cost_usd`, `latency_s`, `key` … Rows with one `key` share one reply and its cost.

    Raises
    ------
    InputError, RubricError, ConfigError, JudgeError, CacheError
        Before anything is paid; JudgeError when no judge could be called, CacheError when replies cannot be stored.

    Examples
    --------
    >>> table = judge([{"question": "2 + 2?", "answer": "4", "reference": "4"}], "correctness", "fake:strict")
    >>> table[["item_id", "judge", "sample"]].values.tolist()
    [['0', 'fake:strict', 0], ['0', 'fake:strict', 1], ['0', 'fake:strict', 2]]
    """
    spec = Spec.of(
        rubric, judges, samples, template, inputs=inputs, on_missing=on_missing, criteria_per_call=criteria_per_call
    )
    options = Options(
        offline or is_none(judges), on_miss, recorded, refresh, adopt, cache,
        concurrency, retries, budget_usd, max_calls, progress, replies,
        requests_per_minute, tokens_per_minute, on_progress, max_seconds, repair,
    )  # fmt: skip
    items = with_typed_ids(items, item_id)
    table = judge_worklist(Worklist.of(spec, items, item_id), options)
    return Keys.of_items(items, item_id).restore(table)


def judge_worklist(
    worklist: Worklist, options: Options, *, until: float | None = None, budget: Budget | None = None
) -> pd.DataFrame:
    """`judge` with resolved arguments, which can be pickled: one unit of work for a cluster.

    `until` repeats a call of that Unix time offline: later replies do not count, nor do recorded ones unless asked.
    `budget` is shared by several calls; None: one of this call alone, if `options` limit it.
    """
    judged = _judged(worklist, options, _fetched, until=until, budget=budget)
    try:
        judged.send(None)
    except StopIteration as end:
        table: pd.DataFrame = end.value
        return table
    raise AssertionError  # `_fetched` waits for no event


def missing_requests(worklist: Worklist, options: Options) -> tuple[list[Request], ReplyStore, float | None, str]:
    """The requests that `judge` would send, the store, from which Unix time on stored replies count, and why none."""
    lookup = _opened(worklist, options, repairs=False)
    if (first := _own_answers_needed(lookup)) is not None:
        requests, *details = missing_requests(first, _options_of_answers(lookup))
        if requests:
            _log.info("these batches ask for the judges' own answers; collect them, then submit again for the scores")
            return requests, *details  # type: ignore[return-value]
        lookup = _with_answers(lookup, judge_worklist(first, _options_of_answers(lookup, stored=True)))
    requests, reason = (_requests(lookup), "") if lookup.missing else ([], _why_none(lookup))
    return requests, lookup.stored.store, lookup.newer_than, reason


def _why_none(lookup: Lookup) -> str:
    """Why no reply is missing, in words."""
    worklist, n = lookup.stored.worklist, lookup.stored.worklist.n_rows
    n_skipped = sum(lookup.columns.error(row) in SKIPPED for row in range(n))
    image_text = " or hold an image" if worklist.n_unseen else ""
    return (
        f"of {counted(n, 'judgment')}, {lookup.n_stored} in the cache, {n - lookup.n_stored - n_skipped} in open "
        f"tickets (`evalkit batch list`), {n_skipped} of items that lack an input{image_text}"
    )


def _with_arguments_of(function: Callable[P, Any]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function that takes any arguments the signature of another, for editors, type checkers and `help`."""

    def decorate(wrapped: Callable[..., R]) -> Callable[P, R]:
        wrapped.__signature__ = signature(function)  # type: ignore[attr-defined]
        return wrapped

    return decorate


@_with_arguments_of(judge)
async def ajudge(*args: Any, **options: Any) -> pd.DataFrame:
    """`judge` for callers with a running event loop: ``await ek.ajudge(…)``; same arguments, same table.

    Examples
    --------
    >>> import asyncio
    >>> items = [{"question": "When?", "answer": "In May.", "context": "It opens in May."}]
    >>> len(asyncio.run(ajudge(items, "faithfulness", "fake:strict", samples=2)))
    2
    """
    arguments = signature(judge).bind(*args, **options).arguments
    items, rubric, judges = arguments.pop("items"), arguments.pop("rubric"), arguments.pop("judges", None)
    item_id = arguments.pop("item_id", None)
    items = with_typed_ids(items, item_id)
    spec_arguments = {
        name: arguments.pop(name)
        for name in ("samples", "template", "inputs", "on_missing", "criteria_per_call")
        if name in arguments
    }
    spec = Spec.of(rubric, judges, **spec_arguments)
    chosen = Options(**(arguments | {"offline": True} if is_none(judges) else arguments))
    return Keys.of_items(items, item_id).restore(await _judged(Worklist.of(spec, items, item_id), chosen, _awaited))


async def _fetched(*args: Any, **options: Any) -> list[Outcome]:
    """The outcomes of requests, for callers without an event loop: it returns when all have ended."""
    from evalkit.engine.calls.event_loop import fetch

    return fetch(*args, **options)


async def _awaited(*args: Any, **options: Any) -> list[Outcome]:
    """The outcomes of requests, for callers with an event loop."""
    from evalkit.engine.calls.event_loop import afetch

    return await afetch(*args, **options)


async def _judged(
    worklist: Worklist, options: Options, fetch: Callable[..., Awaitable[list[Outcome]]], *,
    until: float | None = None, budget: Budget | None = None,
) -> pd.DataFrame:  # fmt: skip
    """All of a call, with `fetch` for what is to be asked."""
    lookup, began = _opened(worklist, options, until), time.time()
    if (lookup.missing or lookup.to_repair) and not options.offline:
        from evalkit.engine.calls.budget import Budget

        budget = budget or Budget.of(options)  # which own answers and repairs share
        if (first := _own_answers_needed(lookup)) is not None:
            lookup = _with_answers(lookup, await _judged(first, _options_of_answers(lookup), fetch, budget=budget))
        store, options = lookup.stored.store, options.since(began)
        requests, newer_than = _requests(lookup), lookup.newer_than
        down: Collection[int] = ()
        with _calling(lookup) as progress:
            if requests:
                fetching = fetch(
                    requests, store, options, newer_than=newer_than, on_progress=progress.show, budget=budget
                )
                down = _take(lookup, await fetching)
            if repairs := _repairs(lookup, down):
                requests, newer_than, show = repairs.requests, lookup.stored.since, progress.of_repairs()
                options = lookup.options.since(began)  # with the time that is left
                fetching = fetch(requests, store, options, newer_than=newer_than, on_progress=show, budget=budget)
                _take_repairs(lookup, await fetching)
    return _table(lookup)


# -- the steps of a call, in order


def _opened(worklist: Worklist, options: Options, until: float | None = None, *, repairs: bool = True) -> Lookup:
    """What is stored; the rows in batches and, offline, all others that are missing fail."""
    store = ReplyStore.open(options.cache)
    lookup = look_up(worklist, options, store, until, repairs=repairs)
    if lookup.missing and options.on_miss == "row" and (tickets := store.in_batches({*lookup.missing.values()})):
        for ticket, n in Counter(tickets.values()).most_common():
            replies = counted(n, "reply", "replies")
            _log.warning("%s still in ticket %s; collect it, then judge again", replies, ticket)
        lookup = lookup.without({row: "in_batch" for row, key in lookup.missing.items() if key in tickets})
    store.counters.add(hits=lookup.n_stored, misses=len(lookup.missing), saved_usd=lookup.columns.known_usd)
    if options.offline and lookup.missing:
        miss_offline(lookup)
    return lookup


def _own_answers_needed(lookup: Lookup) -> Worklist | None:
    """The judges' own answers that must be there before the missing rows are judged; None if there are none."""
    worklist = lookup.stored.worklist
    return first_stage(worklist, list(lookup.missing)) if lookup.missing and worklist.spec.commits else None


def _options_of_answers(lookup: Lookup, *, stored: bool = False) -> Options:
    """The options of the judges' own answers; with `stored`, nothing is asked."""
    options = lookup.options
    refresh = False if stored or options.refresh == "unscored" else options.refresh
    return replace(options, offline=stored or options.offline, on_miss="row", recorded="miss", refresh=refresh,
                   adopt=False, replies=False, progress=False, on_progress=None)  # fmt: skip


def _with_answers(lookup: Lookup, answers: pd.DataFrame) -> Lookup:
    """The same with the judges' own answers; rows without one are not asked, for the same reason."""
    before = lookup.stored.worklist
    worklist = replace(before, own=own_answers(before, answers))
    commits = [builder.template.commits for builder in worklist.spec.prompt_builders]
    places = {row: worklist.place(row) for row in lookup.missing}
    lost = {
        row: reason
        for row, (item, _, judge, _, _) in places.items()
        if commits[judge] and (reason := worklist.own_answer(item, judge)[1]) is not None
    }
    live = frozenset(answers.loc[answers["source"].eq("live").fillna(value=False), "key"])
    return replace(lookup.without(lost), stored=replace(lookup.stored, worklist=worklist), live_answers=live)


def _requests(lookup: Lookup) -> list[Request]:
    """The requests to send; the first replies to them are read. The first prompt of each judge is rendered here: an
    invalid template costs nothing.
    """
    if not lookup.missing:
        return []
    warn_changed_text(lookup.stored.worklist.spec, lookup.stored.store)

    def read(key: bytes, reply: Reply) -> str | None:
        row = next(row for row, missing in lookup.missing.items() if missing == key)
        return lookup.columns.parsed(row, reply.as_dict())[1].error

    worklist = lookup.stored.worklist
    with gc_paused():
        rows = sorted(lookup.missing, key=lambda row: worklist.ids[worklist.place(row)[0]] not in worklist.first)
        requests = worklist.requests(rows, read)
    for request in {id(request.judge): request for request in reversed(requests)}.values():
        request.prompt  # noqa: B018  # the others are rendered while calls are in flight
    return requests


class _Shown:
    """Passes on the counters of replies, and after them those of replies and repairs together."""

    def __init__(self, show: Callable[[Any], object] | None) -> None:
        self._to, self._last = show, None
        self.show = None if show is None else self._note

    def _note(self, progress: Any) -> None:
        assert self._to is not None
        self._last = progress
        self._to(progress)

    def of_repairs(self) -> Callable[[Any], object] | None:
        """What shows the counters of repairs, added to those of the replies."""
        to, earlier = self._to, self._last
        return to if to is None or earlier is None else lambda progress: to(progress.after(earlier))


@contextmanager
def _calling(lookup: Lookup) -> Iterator[_Shown]:
    """Show progress while calls are made; if the run is stopped, report where the replies are and what to do."""
    from evalkit.engine.calls.progress import ProgressBar, is_shown

    stored, bar, on_progress = lookup.stored, None, lookup.options.on_progress
    if is_shown(lookup.options.progress):
        bar = ProgressBar(stored.worklist.n_rows, len(lookup.missing), stored.store.where, on_progress)
    try:
        yield _Shown(on_progress if bar is None else bar.update)
        if bar is not None:
            called = [row for row in lookup.missing if not lookup.columns.is_cached(row)]
            bar.end(len(called), Counter(error for row in called if (error := lookup.columns.error(row)) is not None))
    except KeyboardInterrupt:
        # the last line that a terminal or a notebook shows of it, and the only one on the command line
        raise KeyboardInterrupt(_stopped(stored)) from None
    except BaseException as error:
        import asyncio

        if isinstance(error, (SystemExit, asyncio.CancelledError)):  # SIGTERM or SIGHUP, whose exit code is no text
            _log.warning(_stopped(stored))
        raise
    finally:
        if bar is not None:
            bar.close()


def _take(lookup: Lookup, outcomes: Sequence[Any]) -> set[int]:
    """Read the results of the calls; items of equal content share a reply. Returns the judges that are down.

    A reply that another run or process paid for comes from the cache.
    """
    by_key = {outcome.key: outcome for outcome in outcomes}
    places: dict[str | None, list[int]] = {"live": [], None: []}
    failures = {}
    for row, key in lookup.missing.items():
        outcome = by_key[key]
        if outcome.failure is None:
            places[None if outcome.joined else "live"].append(row)
        else:
            failures[row] = outcome.failure
    with gc_paused():
        for source, answered in places.items():
            for start in range(0, len(answered), _CHUNK):
                rows = answered[start : start + _CHUNK]
                keys = [lookup.missing[row] for row in rows]
                lookup.columns.read(rows, keys, [by_key[key].value for key in keys], source=source)
    if failures:
        _fail(lookup, failures)
    judge_of = {row: lookup.stored.worklist.place(row)[2] for row in lookup.missing}
    answering = {judge_of[row] for row in lookup.missing if row not in failures}
    ended = {judge_of[row] for row, failure in failures.items() if failure.reason in _UNASKED}
    return ended | {judge_of[row] for row in failures} - answering


def _repairs(lookup: Lookup, down: Collection[int]) -> Repairs | None:
    """What to ask judges about replies of this call, or of earlier ones that are to be repaired; None if nothing.

    A judge that was stopped, is `down` or refused a call for its limits is not asked.
    """
    options, columns, worklist = lookup.options, lookup.columns, lookup.stored.worklist
    if options.offline or options.repair is False or not columns.unread:
        return None
    rows = [row for row in (*lookup.missing, *lookup.to_repair) if worklist.place(row)[2] not in down]
    return Repairs.of(worklist, columns, rows) or None


def _take_repairs(lookup: Lookup, outcomes: Sequence[Any]) -> None:
    """Read the repairs, for all replies of the same text, and report those that did not come."""
    columns = lookup.columns
    Repairs.of(lookup.stored.worklist, columns, columns.unread).take_outcomes(columns, outcomes)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    for detail, count in Counter(failure.detail or failure.reason for failure in failures).most_common(5):
        _log.warning(
            "%s without a repair: %s; refresh='unscored' (--refresh unscored) asks for it again",
            counted(count, "reply", "replies"),
            detail,
        )


def _fail(lookup: Lookup, failures: dict[int, Any]) -> None:
    """Mark and report the rows without a reply."""
    from evalkit.engine.calls.retries_and_breaker import LAST_ERROR

    lookup.fail({row: failure.reason for row, failure in failures.items()})
    worklist = lookup.stored.worklist
    names = {row: worklist.spec.judges[worklist.place(row)[2]].name for row in failures}
    texts = [(names[row], failure.detail or failure.reason) for row, failure in failures.items()]
    # the same error may have ended a call, and then the run
    errors = [(name, text.rpartition(LAST_ERROR)[2]) for name, text in texts]
    longest = dict(sorted(zip(errors, texts, strict=True), key=lambda pair: len(pair[1][1])))
    details = Counter(longest[error] for error in errors)
    if len(failures) == worklist.n_asked and all(failure.reason in _DOWN for failure in failures.values()):
        reasons = "; ".join(f"{name}: {detail}" for name, detail in details)
        raise JudgeError(f"nothing was scored, because no judge could be called. {reasons}")
    for (name, detail), count in details.most_common(5):
        _log.warning("%s: %s without a reply: %s", name, counted(count, "judgment"), detail)


def _stopped(stored: StoredReplies) -> str:
    since = stored.since
    refresh = "" if since is None else f" with refresh={since!r} (--refresh {since!r}; in a test of drift, --drift)"
    return (
        f"stopped; all replies received so far are stored in {stored.store.where}; run it again{refresh}: you pay only "
        "for the rest"
    )


def _table(lookup: Lookup) -> pd.DataFrame:
    """The judgments, with the own answers of judges that gave one."""
    table, stored = lookup.columns.table(lookup.kept), lookup.stored
    if not stored.worklist.spec.commits or (first := first_stage(stored.worklist)) is None:
        return table
    answers = judge_worklist(first, _options_of_answers(lookup, stored=True), until=stored.until)
    return with_columns(table, stored.worklist, answers, lookup.live_answers)
