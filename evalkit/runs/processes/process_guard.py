"""A process between evalkit and a command, so that the command never outlives the process that started it.

It is started by its path, as ``process_guard.py SECONDS COMMAND …``, and uses only Python's standard library. Its
stdin is a pipe from the parent. When the parent closes the pipe or dies, the guard ends its whole process group: with
SIGTERM, and after SECONDS with SIGKILL.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time

_EVERY_S = 1.0


def main(grace_s: float, command: list[str]) -> int:
    """Start the command, wait for it, and return its exit code (128 + the signal that killed it)."""
    parent = os.getppid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # left to the child, which resets a handler, and would inherit SIG_IGN
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603  # evalkit's own command
    alone = threading.Event()
    threading.Thread(target=_watch, args=(parent, grace_s, alone), daemon=True).start()
    code = child.wait()
    if alone.is_set():  # also end what the command started and left behind
        os.killpg(0, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _watch(parent: int, grace_s: float, alone: threading.Event) -> None:
    # the parent's id is checked too: a process that it forked may keep the other end of the pipe open
    while os.getppid() == parent and not (select.select([0], [], [], _EVERY_S)[0] and not os.read(0, 1)):
        pass
    alone.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(grace_s)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
