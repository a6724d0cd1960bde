"""Calls in flight, by key: a second caller with the same key waits for the first one's call."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Generic, Protocol, TypeVar


class _Future(Protocol):
    def done(self) -> bool: ...
    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


F = TypeVar("F", bound=_Future)


class InFlight(Generic[F]):
    """The calls in flight of one event loop, or of all threads: key -> future of the outcome.

    `new_future` makes a future. Threads may join at once: only single operations on a dict are used.
    """

    def __init__(self, new_future: Callable[[], F]) -> None:
        self._new_future = new_future
        self._open: dict[Hashable, F] = {}

    def join(self, key: Hashable) -> tuple[F, bool]:
        """The future of a key, and whether the caller started the call and has to `resolve` it."""
        future = self._open.get(key)
        if future is not None:
            return future, False
        new = self._new_future()
        future = self._open.setdefault(key, new)
        return future, future is new

    def resolve(self, key: Hashable, outcome: object = None, *, error: BaseException | None = None) -> None:
        """End the call of a key: all waiting callers get its outcome, or the error."""
        future = self._open.pop(key, None)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(outcome)
        else:
            future.set_exception(error)

    def clear(self) -> None:
        """Forget all calls: after a fork they belong to the parent."""
        self._open.clear()
