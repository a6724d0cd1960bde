"""The threads that evalkit starts, and other people's synchronous code called in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any


def daemon_thread(target: Callable[..., object], name: str, *args: object) -> threading.Thread:
    """A thread that does not keep the process from ending; not started yet.

    ipykernel 6.29 to 6.31 keeps which thread started which, by numbers that the system gives again. When such numbers
    form a circle, whatever a thread prints hangs for ever (ipykernel's issue 1269). A thread counts as started by the
    main thread here, which closes no circle.
    """
    thread = threading.Thread(target=target, name=name, args=args, daemon=True)
    if hasattr(thread, "_ipykernel_parent_thread_ident"):
        thread._ipykernel_parent_thread_ident = threading.main_thread().ident
    return thread


def in_daemon_thread(
    call: Callable[[], Any], name: str, on_end: Callable[[], object] = lambda: None
) -> asyncio.Future[Any]:
    """Start a call in a thread; the future holds what it returns or raises.

    `on_end` is called on the loop when it has ended. A daemon: a call that hangs must not keep the process from ending.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()

    def finish(value: Any, problem: BaseException | None) -> None:
        on_end()
        if outcome.done():
            return
        if problem is None:
            outcome.set_result(value)
        else:
            outcome.set_exception(problem)

    def work() -> None:
        value, problem = None, None
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001  # whatever it is, the call that waits must get it
            problem = error
        with contextlib.suppress(RuntimeError):  # the process ends, and its loop is closed
            loop.call_soon_threadsafe(finish, value, problem)

    daemon_thread(work, name).start()
    return outcome
