"""Where the files that ship with evalkit are: rubrics, labelled examples, texts of probes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from evalkit.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(name: Literal["rubrics", "examples", "probes"]) -> Path:
    """A folder of files that ship with evalkit.

    ``rubrics`` holds ``<id>/<version>.yaml``, and templates under ``templates/``; ``examples`` the labelled examples;
    ``probes`` the attacks and paddings. In an installed wheel all are inside the package. In a checkout (an editable
    install) the rubrics are beside the package, so that an edit there counts at once.

    Raises
    ------
    ConfigError
        If the folder is missing: the installation is incomplete.

    Examples
    --------
    >>> shipped_folder("rubrics").name
    'rubrics'
    """
    places = _PACKAGE / "_data" / name, _PACKAGE.parent / name
    for place in places:
        if place.is_dir():
            return place
    raise ConfigError(
        f"files that ship with evalkit are missing: no folder {' or '.join(map(str, places))}; install evalkit again"
    )
