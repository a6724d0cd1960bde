"""`judge`: look everything up in the cache, call for what is missing, return the table.

Long, but one thing: the way of one call, and what each of its faults leaves behind, is read from top to bottom.
"""

from __future__ import annotations

import asyncio
import logging
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from evalkit.core.records import Request
from evalkit.engine.cache import ReplyStore
from evalkit.engine.columns import Columns
from evalkit.engine.options import Options, Refresh
from evalkit.engine.progress import ProgressBar
from evalkit.engine.reply_lookup import Stored, nearest, warn_changed_text
from evalkit.engine.specification import Spec, is_none
from evalkit.engine.worklist import Worklist, gc_paused
from evalkit.errors import CacheMiss, EvalkitWarning, JudgeError, counted, listed

__all__ = ["ajudge", "judge", "judge_chunk", "judge_worklist"]

_CHUNK = 20_000
_log = logging.getLogger("evalkit")

_DOWN = ("judge_down", "server_error")


@dataclass(slots=True)
class _Run:
    """One call of `judge` between its steps: rows found, rows missing."""

    work: Worklist
    options: Options
    store: ReplyStore
    columns: Columns
    started: float
    missing: list[int] = field(default_factory=list)
    keys: dict[int, bytes] = field(default_factory=dict)
    had: set[int] = field(default_factory=set)
    details: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: np.ndarray[Any, Any] | None = None

    @classmethod
    def open(cls, work: Worklist, options: Options) -> _Run:
        """The work with what the cache has of it."""
        store = ReplyStore.open(options.cache)
        run = cls(work, options, store, Columns(work, replies=options.replies), time.time())
        run._look_up()
        if options.offline and not work.spec.exact and run.columns.recorded.any():
            samples = max(work.spec.samples, run._stored.recorded_samples())
            run = replace(run, work=work.with_samples(samples), missing=[], keys={})
            run.columns = Columns(run.work, replies=options.replies)
            run._look_up()
            run._keep_recorded(work.spec.samples)
        n_missing = len(run.missing)
        run.store.counters.add(hits=run.work.n_rows - n_missing, misses=n_missing, saved_usd=run.columns.cost_usd)
        return run

    @property
    def _stored(self) -> Stored:
        return Stored(self.work, self.store, self.options.takes_recorded, self.since)

    @property
    def since(self) -> float | None:
        """Older replies than this count as missing."""
        refresh = self.options.refresh
        if refresh is True:
            return self.started
        return refresh if isinstance(refresh, float) else None

    def _look_up(self) -> None:
        """Read what the cache has; note what is missing."""
        stored = self._stored
        for first, keys, values in stored.chunks():
            hits = [(first + at, *hit) for at, hit in enumerate(values) if hit is not None]
            if hits:
                with gc_paused():
                    self.columns.read(*zip(*hits, strict=True), source=None)
            if len(hits) < len(keys):
                lost = [at for at, hit in enumerate(values) if hit is None]
                self.missing += [first + at for at in lost]
                self.keys |= {first + at: keys[at] for at in lost}
        if self.options.refresh == "unscored":
            self._unscored_again()
        elif self.missing and self.options.adopt:
            self._adopt(stored)

    def _unscored_again(self) -> None:
        had = set(self.missing)
        again = [row for row in range(self.work.n_rows) if row not in had and self.columns.error(row) is not None]
        wanted = set(again)
        for row, key in enumerate(self.work.keys()):
            if row in wanted:
                self.keys[row] = key
        self.missing = sorted(had | wanted)
        self.had = wanted

    def _adopt(self, stored: Stored) -> None:
        """Look the missing rows up by content: replies of another rubric version with the same prompt."""
        origin = stored.of_content(self.missing)
        self.columns.read(
            list(origin), [key for key, _ in origin.values()], [value for _, value in origin.values()], source=None
        )
        for row in origin:
            del self.keys[row]
        self.missing = [row for row in self.missing if row in self.keys]

    def _cells(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """By item, criterion, judge and reply of it: whether one was found, and whether it was recorded."""
        shape = (*self.work.shape[:3], -1)
        found = np.ones(self.work.n_rows, dtype=bool)
        found[self.missing] = False
        return found.reshape(shape), self.columns.recorded.reshape(shape)

    def _keep_recorded(self, samples: int) -> None:
        """Of judges with recorded replies take the samples that are stored, or one row that says `cache_miss`.

        Of pairs that is one row per order, where the judge has replies in that order for another item.
        """
        found, recorded = (cells.reshape(self.work.shape) for cells in self._cells())
        asked = np.asarray(found.any(axis=(0, -1)))
        asked[..., 0] |= ~asked.any(axis=-1)
        kept = found.copy()
        kept[..., 0] |= asked & ~found.any(axis=-1)
        default = np.arange(found.shape[-1]) < samples
        by_judge = np.asarray(recorded.any(axis=(0, 1, 3, 4)))[:, np.newaxis, np.newaxis]
        self.kept = np.where(by_judge, kept, default).reshape(-1)
        self.missing = [row for row in self.missing if self.kept[row]]

    def miss_offline(self) -> None:
        """Mark what is missing as such, or raise."""
        if self.missing and self.options.on_miss == "raise":
            raise CacheMiss(self._miss_message())
        if self.missing and self.kept is None and self.columns.recorded.any():
            self._tell_fewer()
        self.columns.fail(self.missing, [self.keys[row] for row in self.missing], ["cache_miss"] * len(self.missing))

    def _tell_fewer(self) -> None:
        found, recorded = self._cells()
        lacking = (~found & recorded.any(axis=-1, keepdims=True)).sum(axis=(0, 1, 3))
        names = [judge.name for judge, n in zip(self.work.spec.judges, lacking, strict=True) if n]
        if names:
            n, whole = int(lacking.sum()), counted(self.work.n_rows, "reply", "replies")
            warnings.warn(
                f"{counted(self.work.spec.samples, 'sample')} asked for, but fewer recorded: {n} of {whole} are "
                f"missing (judge {listed(names)}), error 'cache_miss'; without samples= what was recorded is taken",
                EvalkitWarning,
                stacklevel=5,
            )

    def _miss_message(self) -> str:
        row = self.missing[0]
        item = self.work.items["item_id"].iloc[self.work.place(row)[0]]
        near = nearest(self.work, self.store, row)
        differs = (
            "nothing is stored for this input, and nothing recorded for this item id"
            if not near
            else "; ".join(f"{name}: cached at {had!r}, asked {asked!r}" for name, (had, asked) in near.items())
        )
        return (
            f"{len(self.missing)} of {counted(self.work.n_rows, 'judgment is', 'judgments are')} not in the cache "
            f"at {self.store.folder} (first: item {item!r}; {differs}); run without offline=True to ask the judges"
        )

    def requests(self) -> list[Request]:
        """What to call for; what can be checked is, before anything is paid."""
        from evalkit.engine.providers import check_ready

        requests = self.work.requests(self.missing)
        first = {id(request.judge): request for request in reversed(requests)}
        for request in first.values():
            check_ready(request.judge)
            request.prompt  # noqa: B018  # the others are rendered while the first are under way: a broken template shows here
        self.store.check_writable()
        return requests

    @property
    def newer_than(self) -> float | None:
        """Rows older than this may be superseded by what is fetched now."""
        return self.started if self.options.refresh == "unscored" else self.since

    def take(self, outcomes: Sequence[Any]) -> None:
        """Read what the calls brought; items of equal content share it."""
        by_key = {outcome.key: outcome for outcome in outcomes}
        got = [row for row in self.missing if by_key[self.keys[row]].failure is None]
        with gc_paused():
            for at in range(0, len(got), _CHUNK):
                rows = got[at : at + _CHUNK]
                keys = [self.keys[row] for row in rows]
                self.columns.read(rows, keys, [by_key[key].value for key in keys], source="live")
        failed = [row for row in self.missing if by_key[self.keys[row]].failure is not None]
        failures = [by_key[self.keys[row]].failure for row in failed]
        told = [(row, failure.reason) for row, failure in zip(failed, failures, strict=True) if row not in self.had]
        self.columns.fail([row for row, _ in told], [self.keys[row] for row, _ in told], [why for _, why in told])
        for row, failure in zip(failed, failures, strict=True):
            self.details[self.work.spec.judges[self.work.place(row)[2]].name, failure.detail] += 1
        self._say_failures(failures, len(failed))

    def _say_failures(self, failures: Sequence[Any], n_failed: int) -> None:
        if n_failed == self.work.n_rows and all(failure.reason in _DOWN for failure in failures):
            said = "; ".join(f"{name}: {detail}" for name, detail in dict.fromkeys(self.details))
            raise JudgeError(f"no judge could be asked and nothing was scored. {said}")
        for (name, detail), count in self.details.most_common(5):
            _log.warning("%s: %d judgments without a reply: %s", name, count, detail)

    def unscored(self) -> Counter[str]:
        """Reason -> how many of the rows that were asked for have no score."""
        return Counter(reason for row in self.missing if (reason := self.columns.error(row)) is not None)

    def table(self) -> pd.DataFrame:
        table = self.columns.table()
        return table if self.kept is None else table.loc[self.kept].reset_index(drop=True)

    def stopped(self) -> str:
        """What to say when a person stops the run."""
        again = "run the same call again: only the rest is paid"
        if self.newer_than is not None and self.options.refresh != "unscored":
            again = f"run it again with refresh={self.newer_than!r}: only the rest is paid"
        return f"stopped; every reply that came is stored in {self.store.folder}; {again}"


def judge(
    items: Any,
    rubric: Any,
    judges: Any = None,
    *,
    samples: int | None = None,
    template: str | None = None,
    item_id: str | None = None,
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
    progress: bool | None = None,
    replies: bool = False,
) -> pd.DataFrame:
    """Judge items by a rubric; what is in the cache is not paid again.

    Parameters
    ----------
    items
        A DataFrame, a `datasets.Dataset`, a list of dicts or one dict.
    rubric
        A Rubric or its name, or a Profile (which may name judges and samples too).
    judges
        One judge or several: ``"openai:gpt-4o-mini"``, a Judge, a mapping. ``"none"`` replays offline what
        the judges of the profile have said.
    samples
        Samples per judge and item, from 1 to 1000 (default 3; 5 where it is critical). Offline the default takes
        recorded replies as they are, however many each item has.
    template
        Another template than the rubric's, for judges that name none.
    item_id
        The column that holds the ids; by default ``item_id``, else the index.
    offline
        Never open a connection; what is missing becomes a row with ``error = "cache_miss"``, or, with
        ``on_miss="raise"``, a `CacheMiss` that names the key field that differs.
    recorded
        ``use`` lets recorded replies answer for a live judge; offline they always do.
    refresh
        True asks everything again, ``"unscored"`` what had no score, a time stamp what is older than it (Unix
        seconds, a datetime, or a text such as ``"2026-01-31"``).
        The old replies stay in the store.
    adopt
        Also take replies of other versions of the rubric whose criterion is unchanged.
    cache
        The cache folder (default: ``EVALKIT_CACHE``, else ``cache/`` of the project).
    concurrency, retries
        Calls in flight per service, model and key variable; further tries of a failed call.
    budget_usd, max_calls
        Never spend or call more than this; what is left out has ``error = "budget"``.
    requests_per_minute, tokens_per_minute
        Pace per service, model and key; a call counts as its prompt's bytes / 4 and max_tokens.
    progress
        False: silent. By default shown on a terminal and in notebooks, for live calls only.
    replies
        Add the column `reply` with the raw texts.

    Returns
    -------
    pandas.DataFrame
        The judgments table, one row an item, criterion, judge, order and sample, in the order of the
        input: `score` (rubric units), `score_norm` (0-1), `label`, `passed`, `explanation`, `error`
        (why there is no score; NA = scored), `source`, tokens, `cost_usd`, `latency_s`, `key` …

    Raises
    ------
    InputError, RubricError, ConfigError
        Before anything is paid.
    JudgeError
        When no judge could be asked at all.
    CacheError
        When replies cannot be stored.

    Examples
    --------
    >>> items = [{"question": "2 + 2?", "answer": "4", "reference": "4"}]
    >>> table = judge(items, "correctness", "fake:strict", samples=1)
    >>> table[["item_id", "criterion", "judge", "sample"]].values.tolist()
    [['0', 'correctness', 'fake:strict', 0]]
    """
    spec = Spec.of(rubric, judges, samples, template)
    options = Options(
        offline or is_none(judges), on_miss, recorded, refresh, adopt, None if cache is None else Path(cache),
        concurrency, retries, budget_usd, max_calls, progress, replies,
        requests_per_minute, tokens_per_minute,
    )  # fmt: skip
    return judge_chunk(spec, items, options, item_id=item_id)


def judge_chunk(
    spec: Spec,
    items: Any,
    options: Options = Options(),  # noqa: B008  # frozen
    *,
    item_id: str | None = None,
) -> pd.DataFrame:
    """The unit of work behind `judge`: arguments can be pickled, so that a cluster can take it."""
    return judge_worklist(Worklist.of(spec, items, item_id), options)


def judge_worklist(work: Worklist, options: Options) -> pd.DataFrame:
    """`judge` for work that was laid out already."""
    run = _Run.open(work, options)
    if not run.missing or options.offline:
        run.miss_offline()
        return run.table()
    from evalkit.engine.calls import fetch

    warn_changed_text(work.spec, run.store)
    requests = run.requests()
    try:
        with ProgressBar(run.work.n_rows, len(run.missing), run.store.folder, options.progress) as bar:
            tell = _telling(bar, options)
            outcomes = fetch(requests, run.store, options, newer_than=run.newer_than, on_progress=tell)
            run.take(outcomes)
            bar.end(run.unscored())
    except KeyboardInterrupt:
        # the last line that a terminal or a notebook shows of it, and the only one on the command line
        raise KeyboardInterrupt(run.stopped()) from None
    except SystemExit:  # SIGTERM or SIGHUP, whose exit code is no text
        _log.warning(run.stopped())
        raise
    return run.table()


async def ajudge(items: Any, rubric: Any, judges: Any = None, **options: Any) -> pd.DataFrame:
    """`judge` for those who have a running loop: ``await ek.ajudge(…)``; same arguments, same table."""
    names = ("samples", "template", "item_id")
    spec = Spec.of(rubric, judges, options.pop("samples", None), options.pop("template", None))
    item_id = options.pop("item_id", None)
    unknown = [name for name in options if name not in Options.__slots__]
    if unknown:
        raise TypeError(
            f"ajudge() got unexpected {', '.join(unknown)}; allowed are {', '.join((*names, *Options.__slots__))}"
        )
    if options.get("cache") is not None:
        options["cache"] = Path(options["cache"])
    chosen = Options(**(options | {"offline": True} if is_none(judges) else options))
    run = _Run.open(Worklist.of(spec, items, item_id), chosen)
    if not run.missing or chosen.offline:
        run.miss_offline()
        return run.table()
    from evalkit.engine.calls import afetch

    warn_changed_text(spec, run.store)
    requests = run.requests()
    with ProgressBar(run.work.n_rows, len(run.missing), run.store.folder, chosen.progress) as bar:
        try:
            tell = _telling(bar, chosen)
            outcomes = await afetch(requests, run.store, chosen, newer_than=run.newer_than, on_progress=tell)
        except asyncio.CancelledError:
            _log.warning(run.stopped())
            raise
        run.take(outcomes)
        bar.end(run.unscored())
    return run.table()


def _telling(bar: ProgressBar, options: Options) -> Callable[[Any], object]:
    told = options.on_progress
    if told is None:
        return bar.update

    def tell(progress: Any) -> None:
        bar.update(progress)
        told(progress)

    return tell
