"""Asks a process of `warm_process` for a fork, with these words, variables, folder and streams, and ends as it does.

Started by its path, as ``warm_client.py SOCKET WORD …``, it uses only Python's standard library.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any


def ask(asked: socket.socket, place: str, request: Mapping[str, Any], streams: Sequence[int]) -> str:
    """The exit code of the fork; empty if there is none in the socket's time, or if its process was killed."""
    asked.connect(place)
    socket.send_fds(asked, [b"."], streams)
    asked.sendall(json.dumps(request).encode() + b"\n")
    try:
        return asked.recv(100).decode().strip()
    except TimeoutError:
        return ""


def main(place: str, words: list[str]) -> int:
    """Ask for a fork, pass signals on to it, and return its exit code, negative if a signal ended it."""
    with socket.socket(socket.AF_UNIX) as asked:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda one, _: asked.send(bytes([one])))
        here = {"words": words, "folder": str(Path.cwd()), "environ": dict(os.environ)}
        here["lighteval"] = json.loads(os.environ.get("WARM_LIGHTEVAL", "[]"))
        return int(ask(asked, place, here, (0, 1, 2)) or 70)  # without an answer: no code that evalkit has


if __name__ == "__main__":
    ended = main(sys.argv[1], sys.argv[2:])
    if ended < 0:
        with suppress(OSError):  # SIGKILL has no other
            signal.signal(-ended, signal.SIG_DFL)
        os.kill(os.getpid(), -ended)
    sys.exit(ended)
