"""Stores at the end of a process, where they are closed, and at a fork, after which the child opens them again."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import weakref
from typing import Protocol

__all__ = ["at_work", "look_after", "opening"]

_FORK_WAIT_S = 5.0


class _Store(Protocol):
    def abandon_after_fork(self) -> list[sqlite3.Connection]: ...
    def close(self) -> None: ...


class _Gate:
    """Held around every use of SQLite, by any number of threads; a fork waits for them and lets no other in.

    A fork copies SQLite's mutexes as they are: one that another thread has locked at that moment stays
    locked in the child permanently (seen within seconds under load).
    """

    def __init__(self) -> None:
        self.start_afresh()

    def start_afresh(self) -> None:
        self._changed = threading.Condition()
        self._inside: dict[int, int] = {}  # how often, by thread
        self._forking = False

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._changed:
            # who is inside already must not wait for a fork that waits for them
            while self._forking and me not in self._inside:
                self._changed.wait()
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._changed:
            depth = self._inside.pop(me, 0) - 1
            if depth > 0:
                self._inside[me] = depth
            elif self._forking:
                self._changed.notify_all()

    def hold(self) -> None:
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: not self._forking)
            self._forking = True
            # with a limit: an export may take minutes, and the child may never ask for a reply
            self._changed.wait_for(lambda: not self._inside.keys() - {me}, timeout=_FORK_WAIT_S)

    def release(self) -> None:
        with self._changed:
            self._forking = False
            self._changed.notify_all()


_gate = _Gate()
_stores: weakref.WeakSet[_Store] = weakref.WeakSet()
_opening = threading.RLock()


def at_work() -> _Gate:
    """``with at_work():`` belongs around every use of SQLite."""
    return _gate


def look_after(store: _Store) -> None:
    """Close the store when the process ends, and reset it in a forked child."""
    _stores.add(store)


def opening() -> threading.RLock:
    """The lock under which stores are opened."""
    return _opening


@atexit.register
def _close_all() -> None:
    for store in list(_stores):
        store.close()


def _start_afresh_in_child() -> None:
    global _opening
    _opening = threading.RLock()
    _gate.start_afresh()
    inherited = [connection for store in list(_stores) for connection in store.abandon_after_fork()]
    if not inherited:
        return
    import ctypes

    for connection in inherited:
        # SQLite forbids to use or close a connection across a fork: one reference too many keeps it open
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.hold, after_in_parent=_gate.release, after_in_child=_start_afresh_in_child)
