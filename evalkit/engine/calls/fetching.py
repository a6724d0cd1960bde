"""Ask judges for replies: `fetch` waits, `afetch` awaits, `submit` gives a future."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from evalkit.core.records import Request
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.calls.outcomes import Outcome, Progress
from evalkit.engine.calls.scheduler import Run
from evalkit.engine.calls.signals import ending_signals
from evalkit.engine.options import Options
from evalkit.errors import EvalkitWarning

if TYPE_CHECKING:
    from evalkit.engine.cache.store import ReplyStore

__all__ = ["afetch", "fetch", "submit"]

_TICK_S = 0.1
_GRACE_S = 5.0
_DEFAULTS = Options()
OnProgress = Callable[[Progress], object]

_log = logging.getLogger("evalkit.engine.calls")


def fetch(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options = _DEFAULTS,
    *,
    newer_than: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Outcome]:
    """Ask for all samples of all requests, store the replies, and wait.

    Parameters
    ----------
    requests
        Which samples to ask whom for.
    store
        Where replies go; each is on disk before its outcome exists.
    options
        Concurrency, retries, budget, pace.
    newer_than
        Unix time of a refresh: a stored reply received before it is superseded.
    on_progress
        Called with `Progress` at most ten times a second, and at the end, in the caller's thread.

    Returns
    -------
    list of Outcome
        One per request and sample, in order. What failed has its reason; one bad reply never stops the run.

    Raises
    ------
    JudgeError
        When a judge's key is not set, or the call comes from the loop thread itself.
    ConfigError
        For a provider that is not there, or a budget with a judge of unknown price.
    CacheError
        When replies cannot be stored; calls in flight are waited for before.
    KeyboardInterrupt, SystemExit
        On Ctrl-C, and on SIGTERM or SIGHUP in a script: what was not sent is dropped, what is in flight is waited for
        briefly and stored. A second signal leaves at once.
    """
    with ending_signals():
        return _fetch(requests, store, options, newer_than, on_progress)


def _fetch(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options,
    newer_than: float | None,
    on_progress: OnProgress | None,
) -> list[Outcome]:
    thread = LoopThread.get()
    thread.check_may_wait()
    run = Run(requests, store, options, newer_than=newer_than)
    future = thread.submit(run.main())
    try:
        outcomes = _wait(future, run, on_progress)
    except BaseException as reason:
        if not future.done():
            thread.loop.call_soon_threadsafe(run.stop)
            _leave(thread, future, run, on_progress if isinstance(reason, (KeyboardInterrupt, SystemExit)) else None)
        raise
    _tell(run)
    return outcomes


def _leave(thread: LoopThread, future: Future[list[Outcome]], run: Run, on_progress: OnProgress | None) -> None:
    """Wait a moment for what is in flight, so that it is not paid twice; another signal ends the wait."""
    try:
        if on_progress is not None:
            run.stopped = True  # so that it can be said now: the loop thread may be busy
            on_progress(run.progress)
        with contextlib.suppress(Exception):  # what is raised by the caller is what happened first
            future.result(_GRACE_S)
    finally:
        if not future.done():
            thread.release(future)


def _wait(future: Future[list[Outcome]], run: Run, on_progress: OnProgress | None) -> list[Outcome]:
    while on_progress is not None:
        with contextlib.suppress(TimeoutError):
            future.exception(_TICK_S)
        on_progress(run.progress)
        if future.done():
            break
    return future.result()


def submit(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options = _DEFAULTS,
    *,
    newer_than: float | None = None,
    on_progress: OnProgress | None = None,
) -> Future[list[Outcome]]:
    """As `fetch`, without waiting; `on_progress` is called on the loop thread.

    Cancelling the future drops what was not sent; what is in flight comes to its end and is stored.
    """
    thread = LoopThread.get()
    run = Run(requests, store, options, newer_than=newer_than)

    async def work() -> list[Outcome]:
        if on_progress is None:
            outcomes = await run.main()
        else:
            outcomes = await _reporting(run, on_progress)
        for note in run.notes:  # a warning would be raised or shown in the wrong thread
            _log.warning(note)
        return outcomes

    return thread.submit(work(), on_cancel=run.stop)


async def _reporting(run: Run, on_progress: OnProgress) -> list[Outcome]:
    main = asyncio.ensure_future(run.main())
    try:
        while not main.done():
            await asyncio.wait({main}, timeout=_TICK_S)
            on_progress(run.progress)
    except BaseException:
        run.stop()
        await asyncio.wait({main})
        raise
    return main.result()


async def afetch(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options = _DEFAULTS,
    *,
    newer_than: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Outcome]:
    """As `fetch`, to be awaited in any loop; `on_progress` is called in that loop.

    Cancelled, it drops what was not sent; what is in flight comes to its end and is stored.
    """
    thread = LoopThread.get()
    run = Run(requests, store, options, newer_than=newer_than)
    future = asyncio.wrap_future(thread.submit(run.main(), on_cancel=run.stop))
    try:
        with ending_signals():
            while on_progress is not None and not future.done():
                await asyncio.wait({future}, timeout=_TICK_S)
                on_progress(run.progress)
            outcomes = await future
    except BaseException:
        future.cancel()
        raise
    _tell(run)
    return outcomes


def _tell(run: Run) -> None:
    done = run.progress
    _log.info(
        "%d replies stored, %d failed (%s), US$ %.4f, %d requests maybe paid without an answer",
        done.done,
        done.n_failed,
        ", ".join(f"{reason} {n}" for reason, n in done.failed.items()) or "none",
        done.cost_usd,
        done.maybe_paid,
    )
    for note in run.notes:
        warnings.warn(note, EvalkitWarning, stacklevel=3)
