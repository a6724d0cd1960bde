"""Who carries out a run: this process, so that any other can tell whether it is still there."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

RUN_VARIABLE = "EVALKIT_RUN_ID"
"""Set in the processes of a run, to its id."""
OWNER_VARIABLE = "EVALKIT_RUN_OWNER"
"""Set beside it, to the owner's nonce: what is left of an owner's processes is found by both."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a machine, and one piece of work of it.

    Attributes
    ----------
    host, boot
        The machine, and an id of its last start and of the container ("" where the system gives none).
    pid, started
        The process, and when it was started in the system's own ticks ("" where unknown): ids are used again.
    nonce
        Differs between two runs of one process.

    Examples
    --------
    >>> owner = Owner.here()
    >>> Owner.of(owner.text) == owner, owner.is_gone()
    (True, False)
    """

    host: str
    boot: str
    pid: int
    started: str
    nonce: str

    @classmethod
    def here(cls) -> Owner:
        """The process that asks."""
        return cls(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()), secrets.token_hex(4))

    @classmethod
    def of(cls, text: str) -> Owner:
        """From `text`."""
        host, boot, pid, started, nonce = text.rsplit(" ", 4)
        return cls(host, "" if boot == "-" else boot, int(pid), "" if started == "-" else started, nonce)

    @property
    def text(self) -> str:
        """As it stands in the registry."""
        return f"{self.host} {self.boot or '-'} {self.pid} {self.started or '-'} {self.nonce}"

    def is_near(self) -> bool:
        """Whether its process could be seen from here: names of machines are not unique, nor ids in containers."""
        return self.host == socket.gethostname() and self.boot == _boot()

    def is_gone(self) -> bool:
        """Whether it was on this machine and is there no more; False where that cannot be seen from here."""
        if not self.is_near():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return _started(self.pid) != self.started


def kill_leftovers(run_id: str, nonce: str) -> None:
    """Kill what is left of a run whose owner died with its guard: processes with its id and its owner's nonce.

    Not by the run's id alone: another process may have taken the run over a moment ago, and have its own at work.
    """
    marks = {f"{RUN_VARIABLE}={run_id}".encode(), f"{OWNER_VARIABLE}={nonce}".encode()}
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if marks <= set(place.read_bytes().split(b"\0")):
                os.kill(int(place.parent.name), signal.SIGKILL)


def _boot() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    return ""


def _started(pid: int) -> str:
    """The start of a process in ticks since the boot; "" where the system has no /proc. Zombies are gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "zombie" if fields[0] == "Z" else fields[19]
