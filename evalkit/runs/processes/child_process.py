"""Child processes: each in its own process group behind a guard, with its output followed, and ended as a whole."""

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

_GUARD = Path(__file__).with_name("process_guard.py")
_STEP_S = 0.1
_END_WAIT_S = 3.0
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(\x07|\x1b\\)|[@-Z\\-_])")
_ENDS = re.compile(r"[\r\n]+")
_NOISE = re.compile(r"[\s│╭╰─╮╯|]+")
_ERROR = "evalkit: error: "


class Child(contextlib.AbstractContextManager["Child"]):
    """A running command. Leaving its ``with`` block ends it and every process that it started.

    Its output is appended to `log`; `grace_s` are the seconds between SIGTERM and SIGKILL. `code` is its exit code (128
    + the signal that killed it), None while it runs.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path, *, grace_s: float = 5.0) -> None:
        if not hasattr(os, "killpg"):
            raise ConfigError("this system has no process groups, which runs need; use Linux or macOS")
        self.code: int | None = None
        self.log, self._grace_s = log, grace_s
        self._start = log.stat().st_size if log.exists() else 0
        self._last, self._error = "", ""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self._guard = subprocess.Popen(  # noqa: S603  # a list of words, no shell
                [sys.executable, "-I", str(_GUARD), str(grace_s), *command],
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=dict(environ),
                start_new_session=True,
            )  # fmt: skip

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait(self, seconds: float) -> int | None:
        """The exit code, or None if it still runs after that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.code = self._guard.wait(seconds)
        return self.code

    def follow(self) -> Iterator[list[str]]:
        """New lines of its log, several times per second, until it has ended and `code` is set."""
        tail = Tail(self.log, self._start)
        while self.code is None:
            code = self.wait(_STEP_S)
            lines = list(tail.lines(whole=code is not None))
            for line in lines:
                self._note(line)
            yield lines

    def _note(self, line: str) -> None:
        """Keep the best explanation of its end: evalkit's own error with the lines below it, else the last line."""
        if line.startswith(_ERROR):
            self._error = line.removeprefix(_ERROR)
        elif self._error and line.startswith("  "):
            self._error += f"\n{line}"
        elif text := _NOISE.sub(" ", line).strip():
            self._last = text[:300]

    @property
    def failure(self) -> str:
        """How it ended, its last line, and the path of its log."""
        code = self.code or 0
        killed_by = -code if code < 0 else code - 128 if 128 < code < 160 else 0  # below 0 the guard itself was killed
        how = f"was killed by signal {killed_by}" if killed_by else f"ended with exit code {code}"
        return f"{how}: {self._error or self._last or 'its log is empty'} (full log: {self.log})"

    def stop(self) -> None:
        """End all of its processes, with SIGTERM and then SIGKILL. Does nothing if they have ended."""
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):
            self._guard.stdin.close()
        try:
            self.wait(self._grace_s + _END_WAIT_S)
        finally:  # also after a second Ctrl-C
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()


class Tail:
    """Follows a log that another process writes; `lines` returns what is new since the last call.

    Attributes
    ----------
    path
        The log; it need not exist yet.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path, self._at, self._rest = path, start, ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # the new part may end inside a character

    def lines(self, *, whole: bool = False) -> Iterator[str]:
        """New lines, reduced to printable characters; an unfinished last line only with `whole`."""
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
        for line in filter(str.strip, complete):
            text = _ESCAPES.sub("", line)
            yield "".join(character if character.isprintable() else " " for character in text).rstrip()
