"""Runs as a process of its own between the runner and LightEval, so that LightEval never outlives the runner.

Started by its path with nothing but Python's own library. It holds one end of a pipe: when the other end closes,
because the runner closed it or died in whatever way, it ends its whole process group.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

_GRACE_S = 5.0


def main(command: list[str]) -> int:
    """Start the command, wait for it, and return its exit code (128 + the signal that killed it)."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave_it_to_the_child)  # a handler, which exec forgets: SIG_IGN would be inherited
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  # the runner's own command
    alone = threading.Event()
    threading.Thread(target=_watch, args=(alone,), daemon=True).start()
    code = child.wait()
    if alone.is_set():  # what the command started and left must not stay either
        os.killpg(0, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _leave_it_to_the_child(*_: object) -> None:
    pass


def _watch(alone: threading.Event) -> None:
    while os.read(0, 1):
        pass
    alone.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(_GRACE_S)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
