"""The process that carries out a run: who it is, so that others can check whether it still exists; its environment."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import signal
import socket
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from evalkit._version import __version__

RUN_VARIABLE = "EVALKIT_RUN_ID"
"""Variable in the processes of a run, with the run's id."""
OWNER_VARIABLE = "EVALKIT_RUN_OWNER"
"""Variable in the same processes, with the owner's nonce; both together identify leftover processes."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a machine, while it carries out one run.

    Attributes
    ----------
    host, boot
        The machine, and an id of its last start and of the container ("" if the system has none).
    pid, started
        The process, and when it was started in the system's own ticks ("" if unknown): process ids are reused.
    nonce
        Distinguishes the runs of one process.

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
        """The current process."""
        return cls(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()), secrets.token_hex(4))

    @classmethod
    def of(cls, text: str) -> Owner:
        """The owner with this `text`."""
        host, boot, pid, started, nonce = text.rsplit(" ", 4)
        return cls(host, "" if boot == "-" else boot, int(pid), "" if started == "-" else started, nonce)

    @property
    def text(self) -> str:
        """As stored in the registry."""
        return f"{self.host} {self.boot or '-'} {self.pid} {self.started or '-'} {self.nonce}"

    def is_near(self) -> bool:
        """Whether its process is visible from here. Host names are not unique, nor are process ids in containers."""
        return self.host == socket.gethostname() and self.boot == _boot()

    def is_gone(self) -> bool:
        """Whether it was on this machine and has ended; False if that is not visible from here."""
        if not self.is_near():
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return _started(self.pid) != self.started


def environment_facts() -> dict[str, Any]:
    """Versions as they are recorded on a run: `evalkit`, `python`, `system`, `host` and `packages` (name -> version).

    Examples
    --------
    >>> facts = environment_facts()
    >>> facts["packages"]["pandas"][0].isdigit()
    True
    """
    # the properties `name` and `version` would each read the whole metadata file again
    packages = ((one["Name"], one["Version"]) for one in (known.metadata for known in distributions()))
    return {
        "evalkit": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "packages": dict(sorted((name.lower(), version) for name, version in packages if name)),
    }


def kill_leftovers(run_id: str, nonce: str) -> None:
    """Kill what is left of a run whose owner died with its guard: processes with its id and its owner's nonce.

    The run's id alone is not enough: another process may have just taken over the run.
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
    """The start of a process in ticks since the boot; "" if the system has no /proc. Zombies count as ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    return "zombie" if fields[0] == "Z" else fields[19]
