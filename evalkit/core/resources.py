"""Where the files that ship with evalkit are: rubrics, labelled examples, texts of probes."""

from __future__ import annotations

from pathlib import Path

from evalkit.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]


def rubrics_folder() -> Path:
    """The folder of the shipped rubrics: ``<id>/<version>.yaml``, templates under ``templates/``.

    In an installed wheel it lies inside the package; in a checkout (an editable install) it is
    ``rubrics/`` beside the package, so that an edit there counts at once.

    Raises
    ------
    ConfigError
        If neither is there: the installation is not whole.

    Examples
    --------
    >>> rubrics_folder().name
    'rubrics'
    """
    return _first_folder(_PACKAGE / "_data" / "rubrics", _PACKAGE.parent / "rubrics")


def examples_folder() -> Path:
    """The folder of the labelled examples that ship with evalkit.

    Raises
    ------
    ConfigError
        If it is not there: the installation is not whole.
    """
    return _first_folder(_PACKAGE / "_data" / "examples")


def probes_folder() -> Path:
    """The folder of the attacks and paddings that probes use.

    Raises
    ------
    ConfigError
        If it is not there: the installation is not whole.
    """
    return _first_folder(_PACKAGE / "_data" / "probes")


def _first_folder(*places: Path) -> Path:
    for place in places:
        if place.is_dir():
            return place
    raise ConfigError(
        f"files that ship with evalkit are missing: no folder {' or '.join(map(str, places))}; install evalkit again"
    )
