"""`fetch` and `afetch`, which get replies from judges, on the one event-loop thread of the process.

See docs/adr/0005-one-loop-thread.md.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import gc
import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from evalkit.core.settings import Options
from evalkit.core.threads import daemon_thread
from evalkit.engine.calls.budget import Budget
from evalkit.engine.calls.pending_call import Outcome, Progress
from evalkit.engine.calls.scheduler import Scheduler
from evalkit.engine.request import Request
from evalkit.errors import EvalkitWarning, JudgeError

if TYPE_CHECKING:
    from evalkit.engine.cache.store import ReplyStore

T = TypeVar("T")
OnProgress = Callable[[Progress], object]

_EXIT_WAIT_S = 3.0
_TICK_S = 0.1
_GRACE_S = 5.0
_DEFAULTS = Options()
_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_n_runs = 0
_EASED = 50_000, 2, 2
_eased_from: tuple[int, int, int] | None = None
_log = logging.getLogger("evalkit.engine.calls")


def fetch(
    requests: Sequence[Request],
    store: ReplyStore,
    options: Options = _DEFAULTS,
    *,
    newer_than: float | None = None,
    on_progress: OnProgress | None = None,
    budget: Budget | None = None,
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
    budget
        The budget that several calls share; None: one of this call alone, if `options` limit it.

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
        scheduler = Scheduler(requests, store, options, newer_than=newer_than, budget=budget)
        future = thread.submit(scheduler.run())
        try:
            while True:
                with contextlib.suppress(TimeoutError):  # an endless wait could not be interrupted on Windows
                    future.exception(_TICK_S)
                is_done = future.done()  # before the report: one that the end overtakes is not the last one
                if on_progress is not None:
                    on_progress(scheduler.progress)
                if is_done:
                    break
            outcomes = future.result()
            if scheduler.timed_out:
                thread.submit(scheduler.finish())  # for which the end of the process waits a little
        except BaseException as reason:
            if not future.done():
                thread.loop.call_soon_threadsafe(scheduler.stop)
                if isinstance(reason, (KeyboardInterrupt, SystemExit)):
                    _leave(thread, future, scheduler, _GRACE_S, on_progress)
                else:
                    _leave(thread, future, scheduler, max(request.judge.timeout_s for request in requests))
            raise
        _report(scheduler)
        return outcomes


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop thread and wait for it; an interruption here cancels it."""
    future = LoopThread.get(to_wait=True).submit(work)
    try:
        while not future.done():
            with contextlib.suppress(TimeoutError):
                future.exception(_TICK_S)
    except BaseException:
        future.cancel()
        raise
    return future.result()


def _leave(
    thread: LoopThread,
    future: Future[list[Outcome]],
    scheduler: Scheduler,
    patience_s: float,
    on_progress: OnProgress | None = None,
) -> None:
    """Wait for the calls in flight, so that they are not paid twice; a signal ends the wait."""
    try:
        if on_progress is not None:
            scheduler.stopped = True  # so that it can be shown now: the loop thread may be busy
            on_progress(scheduler.progress)
        with contextlib.suppress(Exception):  # the caller raises the error that came first
            future.result(patience_s)
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
    budget: Budget | None = None,
) -> list[Outcome]:
    """As `fetch`, to be awaited in any loop; `on_progress` is called in that loop.

    If it is cancelled, no new calls are sent; calls in flight finish in the background and are stored.
    """
    scheduler = Scheduler(requests, store, options, newer_than=newer_than, budget=budget)
    running = LoopThread.get().submit(scheduler.run(), on_cancel=scheduler.stop)
    future = asyncio.wrap_future(running)
    try:
        with ending_signals():
            while on_progress is not None and not future.done():
                await asyncio.wait({future}, timeout=_TICK_S)
                on_progress(scheduler.progress)
            outcomes = await future
            if scheduler.timed_out:
                LoopThread.get().submit(scheduler.finish())
    except BaseException:
        running.cancel()  # at once: this loop may be ending, and would pass it on only when it runs again
        raise
    _report(scheduler)
    return outcomes


def _report(scheduler: Scheduler) -> None:
    progress = scheduler.counts
    _log.log(
        logging.WARNING if progress.maybe_paid else logging.INFO,
        "%d replies stored, %d failed (%s), %s, %d requests without an answer that may have been billed",
        progress.n_bought,
        progress.failed.total(),
        ", ".join(f"{reason} {n}" for reason, n in progress.failed.items()) or "none",
        progress.bill,
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


class LoopThread:
    """A daemon thread with an event loop, for the life of the process; `LoopThread.get` returns it.

    `submit` may be called from any thread and any other loop. A forked child starts a thread of its own.

    Examples
    --------
    >>> async def work():
    ...     return 42
    >>> LoopThread.get().submit(work()).result()
    42
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _instance: ClassVar[LoopThread | None] = None

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._tasks: dict[Future[Any], asyncio.Task[Any]] = {}
        self._thread = daemon_thread(self.loop.run_forever, "evalkit-loop")
        self._thread.start()

    @classmethod
    def get(cls, *, to_wait: bool = False) -> LoopThread:
        """The process's loop thread, started on first use.

        With `to_wait`, JudgeError if called on that thread, which would wait for itself.
        """
        with cls._lock:
            if cls._instance is None or not cls._instance._thread.is_alive():
                cls._instance = cls()
                # Registered late, so that it runs before the store closes itself
                atexit.register(cls._instance.close)
            thread = cls._instance
        if to_wait and threading.current_thread() is thread._thread:
            raise JudgeError(
                "judge was called on evalkit's own event-loop thread (for example in on_progress), where it would "
                "wait forever; call it from another thread, or use `await ajudge(…)`"
            )
        return thread

    def submit(self, work: Coroutine[Any, Any, T], *, on_cancel: Callable[[], object] | None = None) -> Future[T]:
        """Start a coroutine on the loop thread; the future holds its result.

        Cancelling the future calls `on_cancel` on the loop thread, which may end the coroutine in its own way. Without
        `on_cancel`, it cancels the coroutine.
        """
        outcome: Future[T] = Future()

        async def run() -> None:
            task = asyncio.current_task()
            assert task is not None

            def stop(future: Future[T]) -> None:
                if future.cancelled():
                    self.loop.call_soon_threadsafe(on_cancel or task.cancel)

            self._tasks[outcome] = task
            _ease_collector(self._tasks)
            outcome.add_done_callback(stop)
            try:
                result = await work
            except asyncio.CancelledError:
                outcome.cancel()
                raise
            except BaseException as error:  # noqa: BLE001  # its caller gets it
                if outcome.set_running_or_notify_cancel():
                    outcome.set_exception(error)
            else:
                if outcome.set_running_or_notify_cancel():
                    outcome.set_result(result)
            finally:
                self._tasks.pop(outcome, None)
                _ease_collector(self._tasks)

        asyncio.run_coroutine_threadsafe(run(), self.loop)
        return outcome

    def release(self, outcome: Future[Any]) -> None:
        """Do not wait for this coroutine at the end of the process: the caller has waited already."""
        self.loop.call_soon_threadsafe(self._tasks.pop, outcome, None)

    def close(self) -> None:
        """At the end of the process: wait briefly for running coroutines, close all connections, stop the loop."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return
        ending = asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        # Ctrl-C here: without this, Python would print a traceback "ignored in atexit callback"
        with contextlib.suppress(TimeoutError, KeyboardInterrupt, SystemExit):
            ending.result(2 * _EXIT_WAIT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(1)
        with LoopThread._lock:
            if LoopThread._instance is self:
                LoopThread._instance = None

    async def _end(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=_EXIT_WAIT_S)
        unfinished = asyncio.all_tasks() - {asyncio.current_task()}
        for task in unfinished:
            task.cancel()
        if unfinished:
            await asyncio.wait(unfinished, timeout=_EXIT_WAIT_S / 4)
        clients = sys.modules.get("evalkit.engine.providers.chat_client")
        if clients is not None:
            await clients.close_all()


def _ease_collector(running: Collection[object]) -> None:
    """While something is running, look for garbage in cycles after 50,000 new objects instead of 700.

    The hundred objects of a call live until its reply is stored: to look through them, and all others of the process,
    again and again took a quarter of evalkit's time. Older objects follow after two rounds instead of ten, so that the
    user's own garbage does not wait for long. What the user has set is kept.
    """
    global _eased_from
    if running and _eased_from is None and 0 < (usual := gc.get_threshold())[0] < _EASED[0]:
        _eased_from = usual
        gc.set_threshold(*_EASED)
    elif not running and _eased_from is not None:
        usual, _eased_from = _eased_from, None
        if gc.get_threshold()[0] == _EASED[0]:  # the last number is always 0 in Python 3.14
            gc.set_threshold(*usual)


def _drop_in_child() -> None:
    """A forked child has no loop thread: forget the parent's, and never touch its sockets and selector."""
    parents = LoopThread._instance
    LoopThread._lock, LoopThread._instance = threading.Lock(), None
    _ease_collector(())
    if parents is not None:
        # were it collected, closing its connections would unregister them from the selector shared with the parent
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(parents))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
