"""The one event-loop thread of a process, on which all calls run. See docs/adr/0005-one-loop-thread.md."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

from evalkit.errors import JudgeError

T = TypeVar("T")
_EXIT_WAIT_S = 3.0


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
        self._thread = threading.Thread(target=self.loop.run_forever, name="evalkit-loop", daemon=True)
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
                "judge was called from evalkit's own event-loop thread (from a callback such as on_progress), where it "
                "would wait forever; call it from another thread, or `await ajudge(…)`"
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
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_EXIT_WAIT_S / 4)
        openai = sys.modules.get("evalkit.engine.providers.openai")
        if openai is not None:
            await openai.close_all()


def _drop_in_child() -> None:
    """A forked child has no loop thread: forget the parent's, and never touch its sockets and selector."""
    parents = LoopThread._instance
    LoopThread._lock, LoopThread._instance = threading.Lock(), None
    if parents is not None:
        # were it collected, closing its connections would unregister them from the selector shared with the parent
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(parents))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)
