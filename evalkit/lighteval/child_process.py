"""A LightEval run as a process of its own: followed, logged, and ended with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from evalkit.errors import LightevalError

__all__ = ["run_child"]

_TOLD = ("evalkit: ", "--- ", "judged")
_GRACE_S = 20.0


def run_child(command: Sequence[str], changes: Mapping[str, str | None], log: Path, *, progress: bool) -> None:
    """Run a command to its end; its environment is this one with `changes` (None: taken out).

    Raises
    ------
    LightevalError
        When it fails: with its last words.
    """
    environ = {name: value for name, value in os.environ.items() if name not in changes}
    environ |= {name: value for name, value in changes.items() if value is not None} | {"PYTHONUNBUFFERED": "1"}
    with log.open("w", encoding="utf-8") as kept, subprocess.Popen(  # noqa: S603  # our own interpreter, a list
        command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        encoding="utf-8", errors="replace", start_new_session=True,
    ) as child:  # fmt: skip
        try:
            last = _followed(child, kept, progress)
        except BaseException:
            _stop(child)
            raise
    if child.returncode:
        raise LightevalError(
            f"the LightEval run failed (exit code {child.returncode}): {last}; all it said is in {log}"
        )


def _followed(child: subprocess.Popen[str], log: Any, progress: bool) -> str:
    """Write what the child says into the log, show its stages, and return what tells best why it ended."""
    said = error = ""
    for line in _lines(child):
        log.write(line)
        log.flush()
        text = line.strip()
        if text:
            said = text
        if text.startswith("evalkit: error:"):
            error = text.removeprefix("evalkit: error:").strip()
        elif error and line.startswith("  ") and text:
            error += f"\n{line.rstrip()}"
        if progress and any(mark in text for mark in _TOLD):
            sys.stderr.write(f"{text}\n")
    child.wait()
    return error or said or "it said nothing"


def _lines(child: subprocess.Popen[str]) -> Iterator[str]:
    assert child.stdout is not None
    yield from child.stdout


def _stop(child: subprocess.Popen[str]) -> None:
    """End the child and all that it started: first as Ctrl-C does, so that it keeps what was paid for."""
    try:
        _signal(child, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_GRACE_S)
    finally:  # a second Ctrl-C waits for nothing, and what the child has left behind ends too
        _signal(child, signal.SIGKILL)
        child.wait()


def _signal(child: subprocess.Popen[str], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
