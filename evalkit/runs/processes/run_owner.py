"""The process that carries out a run: who it is, so that its machine sees whether it exists; its environment."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import socket
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from evalkit._version import __version__

RUN_VARIABLE = "EVALKIT_RUN_ID"
"""Variable in the processes of a run, with the run's id, which identifies leftover processes."""


@dataclass(frozen=True, slots=True)
class Owner:
    """A process on a machine, while it carries out one run.

    `boot` identifies the machine's last start and the container, `started` the start of the process, because process
    ids are reused; each is "" if the system does not tell.

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

    @classmethod
    def here(cls) -> Owner:
        """The current process."""
        return cls(socket.gethostname(), _boot(), os.getpid(), _started(os.getpid()))

    @classmethod
    def of(cls, text: str) -> Owner:
        """The owner with this `text`."""
        host, boot, pid, started, *_ = text.split(" ")
        return cls(host, "" if boot == "-" else boot, int(pid), "" if started == "-" else started)

    @property
    def text(self) -> str:
        """As stored in the registry."""
        return f"{self.host} {self.boot or '-'} {self.pid} {self.started or '-'}"

    def is_gone(self, *, in_file: bool = False) -> bool:
        """Whether it was on this machine and has ended; False if that is not visible from here.

        Host names are not unique, nor are process ids in containers. But a registry in a file belongs to one machine:
        with `in_file`, another start of a machine of this name ended the process.
        """
        if self.host != socket.gethostname():
            return False
        if self.boot != _boot():
            return in_file and self.boot.partition("/")[0] != _boot().partition("/")[0]
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
        "evalkit": __version__, "python": platform.python_version(), "system": platform.platform(),
        "host": socket.gethostname(),
        "packages": dict(sorted((name.lower(), version) for name, version in packages if name)),
    }  # fmt: skip


def kill_leftovers(run_id: str) -> None:
    """Kill what is left of a run on this machine: processes that left its process group, or lost owner and guard."""
    mark = f"{RUN_VARIABLE}={run_id}".encode()
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in place.read_bytes().split(b"\0"):
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
