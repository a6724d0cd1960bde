"""A run does not outlive the notebook or script that waits for it, however that ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import MutableMapping
from contextlib import suppress

__all__ = ["PARENT_VARIABLE", "watch_parent"]

PARENT_VARIABLE = "EVALKIT_PARENT"
_EVERY_S = 0.5
_GRACE_S = 20.0


def watch_parent(environ: MutableMapping[str, str]) -> None:
    """End this process, as Ctrl-C does, once the one that ``EVALKIT_PARENT`` names is gone.

    A kernel that is restarted is killed: it cannot stop what it has started, which would go on to pay for judgments
    that nobody waits for.
    """
    named = environ.pop(PARENT_VARIABLE, "")
    # os.getppid() is of use on POSIX alone, and where nothing stands between the two processes
    if os.name == "posix" and named == str(os.getppid()):
        threading.Thread(target=_wait_for_end, args=(int(named),), name="evalkit-parent", daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY_S)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(_GRACE_S)
    with suppress(ProcessLookupError):
        # all of the run, if it is a group of its own; never others' processes
        (os.killpg if os.getpgrp() == os.getpid() else os.kill)(os.getpid(), signal.SIGKILL)
