"""The environment of a run: versions of Python and of every installed package."""

from __future__ import annotations

import platform
import socket
from importlib.metadata import distributions
from typing import Any

from evalkit._version import __version__


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
