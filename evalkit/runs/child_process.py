"""LightEval's process: started in a group of its own behind a guard, ended as a whole, its log followed."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evalkit.errors import ConfigError

__all__ = ["Child", "Tail", "last_words"]

_GUARD = Path(__file__).with_name("process_guard.py")
_END_WAIT_S = 8.0
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(\x07|\x1b\\)|[@-Z\\-_])")
_ENDS = re.compile(r"[\r\n]+")
_NOISE = re.compile(r"[\s│╭╰─╮╯|]+")


class Child:
    """A started command. Whoever made it ends it with `stop`, which also clears up what it left behind.

    Attributes
    ----------
    log
        Where its stdout and stderr go, appended.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        if not hasattr(os, "killpg"):
            raise ConfigError("runs need process groups, which this system has not; use Linux or macOS")
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self._guard = subprocess.Popen(  # noqa: S603  # a list of words, no shell
                [sys.executable, "-I", str(_GUARD), *command],
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                env=dict(environment), start_new_session=True,
            )  # fmt: skip

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it still runs after so many seconds."""
        try:
            return self._guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self) -> None:
        """End all of its processes: asked at first, killed after a few seconds. Harmless when they ended already."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        if self.wait(_END_WAIT_S) is None:
            self._guard.kill()
            self._guard.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._guard.pid, signal.SIGKILL)


class Tail:
    """Follows a log that another process writes: `lines` gives what is new since the last look.

    Attributes
    ----------
    path
        The log; it need not exist yet.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self._at = start
        self._rest = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a look may end within a sign

    def lines(self, *, whole: bool = False) -> Iterator[str]:
        """New lines, of printable signs alone; a last line without an end only with `whole`."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._at)
                new = log.read()
        except FileNotFoundError:
            return
        self._at += len(new)
        *complete, self._rest = _ENDS.split(self._rest + self._decoder.decode(new, final=whole))
        if whole and self._rest:
            complete, self._rest = [*complete, self._rest], ""
        yield from (_printable(line) for line in complete if line.strip())


def last_words(log: Path) -> str:
    """The last line of a log that says something, for the message of a run that failed."""
    said = [line for line in Tail(log, max(0, _size(log) - 20_000)).lines(whole=True) if _NOISE.sub("", line)]
    return _NOISE.sub(" ", said[-1]).strip()[:300] if said else "its log is empty"


def _size(log: Path) -> int:
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in _ESCAPES.sub("", line)).rstrip()
