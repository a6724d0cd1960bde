"""Calls of other people's synchronous code, each in a daemon thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from evalkit.core.threads import daemon_thread


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
