"""What a run is carried out in: versions of Python and of every installed package."""

from __future__ import annotations

import platform
import socket
import sys
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from evalkit._version import __version__

__all__ = ["environment_facts"]


def environment_facts() -> dict[str, Any]:
    """Versions as they are recorded on a run: `evalkit`, `python`, `system`, `host` and `packages` (name -> version).

    Examples
    --------
    >>> facts = environment_facts()
    >>> facts["packages"]["pandas"][0].isdigit()
    True
    """
    return {
        "evalkit": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "packages": dict(_packages(tuple(_changed(path) for path in sys.path))),
    }


def _changed(path: str) -> tuple[str, int]:
    """A folder and when something was last put into it: a worker may outlive what is installed."""
    try:
        return path, Path(path).stat().st_mtime_ns
    except OSError:
        return path, 0


@lru_cache(maxsize=1)
def _packages(_: tuple[tuple[str, int], ...]) -> tuple[tuple[str, str], ...]:
    # `name` and `version` of a distribution would each read its whole file again
    known = (one.metadata for one in distributions())
    return tuple(sorted({str(one["Name"]).lower(): str(one["Version"]) for one in known if one["Name"]}.items()))
