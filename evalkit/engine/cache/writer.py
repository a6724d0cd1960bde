"""The one writer thread of a store: the rows that many callers submit are committed together, durably."""

from __future__ import annotations

import contextlib
import json
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from evalkit.core.prompts_and_replies import Reply, token_count
from evalkit.core.reply_keys import KeyMaker, KeyParts, canonical_json
from evalkit.core.threads import daemon_thread
from evalkit.engine.cache.database_protocol import (
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
    REPLIES,
    ConflictError,
    Connection,
    Database,
    LostConnectionError,
)
from evalkit.engine.cache.lookups import Counters, call_id, is_as_new
from evalkit.errors import CacheError, InputError

if TYPE_CHECKING:
    import asyncio

_ROWS_PER_COMMIT = 1000

_NEWEST = (
    "SELECT key, generation, created, source, promoted_from IS NOT NULL, value "
    "FROM replies WHERE key IN ({}) ORDER BY key, generation"
)
_LEARN = (
    "INSERT INTO facts (service, model, name, value, learned_at) VALUES (?, ?, ?, ?, ?) "
    "ON CONFLICT (service, model, name) DO UPDATE SET value = excluded.value, learned_at = excluded.learned_at"
)
_LOG = "INSERT INTO evaluations (evaluation, created, summary, settings) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_SHA256 = re.compile("[0-9a-f]{64}")
_TEXT, _COUNT, _AMOUNT = "a string", "a whole number from 0 to 2147483647", "a finite number ≥ 0"
_EXPECTED = {
    **dict.fromkeys(("text", "finish_reason", "refusal", "model", "id", "fingerprint"), _TEXT),
    **dict.fromkeys(("prompt_tokens", "completion_tokens"), _COUNT),
    **dict.fromkeys(("cost_usd", "latency_s", "created"), _AMOUNT),
}
_FITS: dict[str, Callable[[Any], bool]] = {
    _TEXT: lambda value: isinstance(value, str),
    _COUNT: lambda value: token_count(value) is not None,
    _AMOUNT: lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf,
}


class Row(NamedTuple):
    """One reply as it goes into the table (a plain tuple: hundreds of thousands pass through SQLite)."""

    key: bytes
    call: str
    input_hash: bytes
    order: str | None
    sample: int
    content_key: bytes
    created: float
    source: str
    cost_usd: float | None
    promoted_from: bytes | None
    value: bytes


def check_fields(reply: Reply) -> None:
    """Raise InputError for a field of a reply that has a value which could not be read again."""
    for name, expected in _EXPECTED.items():
        value = getattr(reply, name)
        if value is not None and not _FITS[expected](value):
            raise InputError(
                f"{name} of a reply of {reply.model or 'a judge'} is {type(value).__name__} {str(value)[:40]!r}; "
                f"expected {expected} or None; nothing was stored"
            )


def row_of(parts: KeyParts, reply: Reply, promoted_from: bytes | None = None) -> Row:
    """The row of one reply.

    A reply without a time of receipt gets the present one: a row that looks older than everything
    could never end a refresh.

    Raises
    ------
    InputError
        If `parts.input_hash` is not a sha256, or a field of the reply has a value that could not be read again.
    CacheError
        If the reply contains something that is not a JSON value.
    """
    digest, order, sample, values = parts.input_hash, parts.order, parts.sample, reply.as_dict()
    if not _SHA256.fullmatch(digest):
        raise InputError(f"input_hash {digest!r} of a reply is not a sha256; expected 64 lower-case hexadecimal digits")
    check_fields(reply)
    created = values["created"] = reply.created or time.time()
    call = parts.shared_json()
    key_of, content_key_of = key_makers(call)
    (key,), (content_key,) = key_of(digest, order, (sample,)), content_key_of(digest, order, (sample,))
    return Row(
        key, call.decode(), bytes.fromhex(digest), order, sample, content_key, created, reply.source,
        reply.cost_usd, promoted_from, encoded(values),
    )  # fmt: skip


_COST, _SOURCE, _PROMOTED = map(REPLIES.index, ("cost_usd", "source", "promoted_from"))


@lru_cache(maxsize=1024)
def key_makers(call: bytes) -> tuple[KeyMaker, KeyMaker]:
    """The makers of keys and of content keys under the shared parts `call` (as of `KeyParts.shared_json`)."""
    parts = orjson.loads(call)
    return KeyMaker(parts), KeyMaker(parts, content=True)


def encoded(values: Mapping[str, Any]) -> bytes:
    """The fields of a reply as canonical JSON: what is stored, and what export writes."""
    try:
        try:
            text = canonical_json(values)
        except TypeError:
            # servers send half of a surrogate pair, which is not valid text, and the reply was paid for
            utf8 = json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
            text = canonical_json(orjson.loads(utf8))
    except (TypeError, ValueError) as problem:
        raise CacheError(
            f"a reply of {values.get('model') or 'a judge'} contains something that is not a JSON value: {problem}"
        ) from problem
    # orjson's output keeps the buffer that it was written to, 4 kB and more, for as long as it lives
    return memoryview(text).tobytes()


def decoded(value: bytes) -> Reply:
    """The inverse of `encoded`."""
    return Reply.from_dict(orjson.loads(value))


@dataclass(slots=True)
class Job:
    """Rows, a fact or an evaluation to write, and the future of its caller.

    `waiter` gets the stored values in the order of `rows`, or with `single` the only one of them. A fact was learnt
    about a service and model: both, its name, its value as JSON, and the Unix time. An evaluation has the arguments of
    `ReplyStore.log_evaluation`.
    """

    waiter: Future[Any] | asyncio.Future[Any]
    rows: Sequence[Row] = ()
    fact: tuple[str, str, str, str, float] | None = None
    evaluation: tuple[str, float, str, str] | None = None
    overwrite: bool = False
    newer_than: float | None = None
    single: bool = False

    def supersedes(self, row: Row, stored: _Stored) -> bool:
        """Whether a row of the job becomes the next generation; else the stored reply of its key stays.

        It does if it is to overwrite; if the stored one is older than `newer_than`; and if it was paid for and the
        stored one was only recorded or promoted: what was just paid for under the very key is not thrown away for
        those.
        """
        if self.overwrite:
            return row.value != stored.value
        if self.newer_than is not None and not is_as_new(stored.created, self.newer_than):
            return True
        is_own = row.source != "recorded" and row.promoted_from is None
        return is_own and (stored.source == "recorded" or bool(stored.promoted))


class _Stored(NamedTuple):
    generation: int
    created: float
    source: str
    promoted: int
    value: bytes


@dataclass(slots=True, eq=False)
class Writer:
    """Takes jobs from any thread or event loop and commits them in groups from its own thread."""

    _database: Database
    _counters: Counters
    _keep: Callable[[Sequence[Job]], None] | None = None  # elsewhere, what a lost server cannot take now
    _forget: Callable[[Sequence[Job]], None] | None = None  # what it has taken since
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _jobs: queue.SimpleQueue[Job | None] = field(default_factory=queue.SimpleQueue)
    _thread: threading.Thread | None = None
    _calls: dict[str, int] = field(default_factory=dict)  # ids of shared parts that `_known_by` knows
    _known_by: Connection | None = None

    def submit(self, job: Job) -> None:
        """Queue a job; its waiter resolves once it is durable. CacheError at once if the store is read-only."""
        if self._database.read_only:
            self._database.make()
        with self._guard:
            if self._thread is None:
                self._thread = started_thread(self._run, "evalkit-cache-writer")
            self._jobs.put(job)

    def get_ready(self) -> None:
        """Start the thread and open its connection, which later may find no thread or file handle left; wait for it."""
        last: Future[Any] = Future()
        self.submit(Job(last))
        last.result()

    def flush(self) -> None:
        """Wait until everything submitted so far is written, or failed."""
        with self._guard:
            if self._thread is None:
                return
            last = Job(Future())
            self._jobs.put(last)
        wait([last.waiter])  # type: ignore[list-item]

    def close(self) -> None:
        """Write what was submitted, move the log into the file, end the thread. A later job starts it again."""
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._jobs.put(None)
                thread.join()

    def _run(self) -> None:
        going, waiting, wait = True, list[Job](), FIRST_WAIT_S
        while going or waiting:
            new, n_rows = list[Job | None](), 0
            with contextlib.suppress(queue.Empty):
                new.append(self._jobs.get(timeout=wait if waiting else None))
                while new[-1] is not None and n_rows < _ROWS_PER_COMMIT:
                    n_rows += len(new[-1].rows)
                    new.append(self._jobs.get_nowait())
            going = going and None not in new
            jobs = [*waiting, *(job for job in new if job is not None)]
            try:
                values = self._commit(jobs)
            except ConflictError:
                waiting = jobs
                continue
            # every error goes to the waiters: nothing else reports it, and they would wait forever
            except Exception as problem:  # noqa: BLE001
                if self._keep is not None:
                    self._keep(jobs[len(waiting) :])
                    if going and isinstance(problem, LostConnectionError) and problem.was_reached:
                        waiting, wait = jobs, min(2 * wait, LONGEST_WAIT_S)
                        continue
                    problem = CacheError(
                        f"{problem}; the replies are kept on this machine, and the next process that "
                        "opens the store writes them"
                    )
                _deliver(jobs, [None] * len(jobs), problem)
            else:
                if waiting and self._forget is not None:
                    self._forget(jobs)
                _deliver(jobs, values, None)
            waiting, wait = [], FIRST_WAIT_S
        self._known_by = None
        self._database.end_writing()

    def _commit(self, jobs: Sequence[Job]) -> list[list[Any]]:
        """Write the jobs in one transaction; the value that is stored now, per job and row."""
        keys = sorted({row.key for job in jobs for row in job.rows})
        appended: list[tuple[Any, ...]] = []
        values: list[list[Any]] = [[] for _ in jobs]
        try:
            with self._database.transaction() as connection:
                if connection is not self._known_by:
                    self._calls.clear()
                    self._known_by = connection
                newest = {key: _Stored(*stored) for key, *stored in connection.rows_in(_NEWEST, keys)}
                for index, job in enumerate(jobs):
                    for row in job.rows:
                        stored = newest.get(row.key)
                        if stored is None or job.supersedes(row, stored):
                            generation = 0 if stored is None else stored.generation + 1
                            promoted = row.promoted_from is not None
                            stored = _Stored(generation, row.created, row.source, promoted, row.value)
                            newest[row.key] = stored
                            if row.call not in self._calls:
                                self._calls[row.call] = call_id(connection, row.call)
                            appended.append((row.key, generation, self._calls[row.call], *row[2:]))
                        values[index].append(stored.value)
                if appended:
                    connection.insert("replies", REPLIES, appended)
                for job in jobs:
                    if job.evaluation:
                        connection.execute(_LOG, job.evaluation)
                    if job.fact:
                        connection.execute(_LEARN, job.fact)
        except Exception:
            self._known_by = None  # ids that were given in this transaction are gone with it
            raise
        paid = (row[_COST] for row in appended if row[_SOURCE] != "recorded" and row[_PROMOTED] is None)
        self._counters.add(stored=len(appended), paid_usd=sum(usd or 0.0 for usd in paid))
        return values


def started_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """A running thread of a store; CacheError if the system allows no more."""
    thread = daemon_thread(run, name)
    try:
        thread.start()
    except RuntimeError as problem:
        raise CacheError(
            f"the thread that stores replies cannot be started ({problem}); raise the limit of processes and threads "
            "(ulimit -u, or that of the container)"
        ) from None
    return thread


def _deliver(jobs: Sequence[Job], values: Sequence[Any], error: Exception | None) -> None:
    """Resolve all waiters; those of one event loop together, since each call into a loop costs a system call."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Any, Any]]] = {}
    for job, rows in zip(jobs, values, strict=True):
        value = rows[0] if job.single and rows else rows
        if not isinstance(job.waiter, Future):
            by_loop.setdefault(job.waiter.get_loop(), []).append((job.waiter, value))
        elif job.waiter.set_running_or_notify_cancel():
            _resolve([(job.waiter, value)], error)
    for loop, waiters in by_loop.items():
        with contextlib.suppress(RuntimeError):  # that loop is closed: nothing waits any more
            loop.call_soon_threadsafe(_resolve, waiters, error)


def _resolve(waiters: Sequence[tuple[Any, Any]], error: Exception | None) -> None:
    for waiter, value in waiters:
        if waiter.done():
            continue
        if error is None:
            waiter.set_result(value)
        else:
            waiter.set_exception(error)
