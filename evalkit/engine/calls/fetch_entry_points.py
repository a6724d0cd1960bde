"""Get replies from judges: `fetch` waits for them, `afetch` awaits them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING

from evalkit.core.prompts_and_replies import Request
from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.calls.outcomes import Outcome, Progress
from evalkit.engine.calls.scheduler import Scheduler
from evalkit.engine.options import Options
from evalkit.errors import EvalkitWarning

if TYPE_CHECKING:
    from evalkit.engine.cache.store import ReplyStore

_TICK_S = 0.1
_GRACE_S = 5.0
_DEFAULTS = Options()
OnProgress = Callable[[Progress], object]

_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_n_runs = 0
_log = logging.getLogger("evalkit.engine.calls")


def fetch(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options = _DEFAULTS,
    *,
    newer_than: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Outcome]:
    """Request all samples, store the replies, and wait for them.

    Parameters
    ----------
    requests
        The samples to request, per judge and prompt.
    store
        The reply store; each reply is on disk before its outcome exists.
    options
        Concurrency, retries, budget, pace.
    newer_than
        Unix time of a refresh: stored replies received before it are replaced.
    on_progress
        Called with `Progress` at most ten times per second, and at the end, in the caller's thread.

    Returns
    -------
    list of Outcome
        One per request and sample, in order. A failed sample has a reason; one failure does not stop the run.

    Raises
    ------
    JudgeError
        If a judge's key is not set, or the call comes from the loop thread itself.
    ConfigError
        For a provider that is not installed, or a budget with a judge of unknown price.
    CacheError
        If replies cannot be stored; calls in flight are awaited first.
    KeyboardInterrupt, SystemExit
        On Ctrl-C, and on SIGTERM or SIGHUP in a script: no new calls are sent; calls in flight are awaited briefly
        and stored. A second signal stops at once.
    """
    thread = LoopThread.get(to_wait=True)
    with ending_signals():
        scheduler = Scheduler(requests, store, options, newer_than=newer_than)
        future = thread.submit(scheduler.run())
        try:
            while on_progress is not None:
                with contextlib.suppress(TimeoutError):
                    future.exception(_TICK_S)
                on_progress(scheduler.progress)
                if future.done():
                    break
            outcomes = future.result()
        except BaseException as reason:
            if not future.done():
                thread.loop.call_soon_threadsafe(scheduler.stop)
                interrupted = isinstance(reason, (KeyboardInterrupt, SystemExit))
                _leave(thread, future, scheduler, on_progress if interrupted else None)
            raise
        _report(scheduler)
        return outcomes


def _leave(
    thread: LoopThread, future: Future[list[Outcome]], scheduler: Scheduler, on_progress: OnProgress | None
) -> None:
    """Wait a moment for the calls in flight, so that they are not paid twice; another signal ends the wait."""
    try:
        if on_progress is not None:
            scheduler.stopped = True  # so that it can be shown now: the loop thread may be busy
            on_progress(scheduler.progress)
        with contextlib.suppress(Exception):  # the caller raises the error that came first
            future.result(_GRACE_S)
    finally:
        if not future.done():
            thread.release(future)


async def afetch(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options = _DEFAULTS,
    *,
    newer_than: float | None = None,
    on_progress: OnProgress | None = None,
) -> list[Outcome]:
    """As `fetch`, to be awaited in any loop; `on_progress` is called in that loop.

    If it is cancelled, no new calls are sent; calls in flight finish in the background and are stored.
    """
    scheduler = Scheduler(requests, store, options, newer_than=newer_than)
    future = asyncio.wrap_future(LoopThread.get().submit(scheduler.run(), on_cancel=scheduler.stop))
    try:
        with ending_signals():
            while on_progress is not None and not future.done():
                await asyncio.wait({future}, timeout=_TICK_S)
                on_progress(scheduler.progress)
            outcomes = await future
    except BaseException:
        future.cancel()
        raise
    _report(scheduler)
    return outcomes


def _report(scheduler: Scheduler) -> None:
    progress = scheduler.counts
    _log.log(
        logging.WARNING if progress.maybe_paid else logging.INFO,
        "%d replies stored, %d failed (%s), US$ %.4f, %d requests maybe paid without an answer",
        progress.done,
        progress.failed.total(),
        ", ".join(f"{reason} {n}" for reason, n in progress.failed.items()) or "none",
        progress.cost_usd,
        progress.maybe_paid,
    )
    for note in scheduler.notes:
        warnings.warn(note, EvalkitWarning, stacklevel=3)


@contextlib.contextmanager
def ending_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise SystemExit, with the exit codes 143 and 129.

    By default they end a script at once; with SystemExit, calls in flight are awaited, as after Ctrl-C. Only done in
    the main thread, not in a notebook's kernel, not if the program installed a handler, and not if the signal is
    ignored, as under nohup. Afterwards Python's default is restored.
    """
    global _n_runs
    if threading.current_thread() is not threading.main_thread() or in_notebook():
        yield
        return
    _n_runs += 1  # several runs may be awaited in one loop: the last one of them restores the default
    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    try:
        yield
    finally:
        _n_runs -= 1
        for number in _SIGNALS:
            if not _n_runs and signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook.

    Examples
    --------
    >>> in_notebook()
    False
    """
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")
