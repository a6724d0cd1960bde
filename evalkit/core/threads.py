"""The threads that evalkit starts."""

from __future__ import annotations

import threading
from collections.abc import Callable


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
