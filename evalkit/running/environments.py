"""What a run is carried out in: versions of Python and of every installed package."""

from __future__ import annotations

import platform
import socket
from importlib.metadata import distributions
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
    # `name` and `version` would each read the whole file again
    known = (one.metadata for one in distributions())
    found = {str(one["Name"]).lower(): str(one["Version"]) for one in known if one["Name"]}
    return {
        "evalkit": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "packages": dict(sorted(found.items())),
    }
