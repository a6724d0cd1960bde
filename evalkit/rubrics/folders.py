"""The folders of rubrics, templates and profiles, their versions, and the folders that ship with evalkit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from evalkit.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parents[1]
RESERVED_NAMES = ("templates", "profiles")
"""Folders among the rubrics that hold something else."""

ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
"""What the id of a rubric or the name of a template looks like."""


def rubric_folders() -> list[Path]:
    """The folders where rubrics, templates and profiles are looked up, in order.

    The folders named by ``EVALKIT_RUBRICS``, ``rubrics/`` beside the nearest ``pyproject.toml`` (in the working folder
    if there is none), and those that ship with evalkit.
    """
    return list(dict.fromkeys(folder.resolve() for folder in (*_own_folders(), shipped_folder("rubrics"))))


def save_folder(folder: str | Path | None = None) -> Path:
    """The folder where rubrics are saved: `folder`, else the default that `Rubric.save` describes."""
    return Path(folder).expanduser() if folder else _own_folders()[0]


def _own_folders() -> list[Path]:
    named = [Path(part).expanduser() for part in os.environ.get("EVALKIT_RUBRICS", "").split(os.pathsep) if part]
    here = Path.cwd()
    projects = (folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file())
    return [*named, next(projects, here) / "rubrics"]


def file_versions(name: str, suffix: str = ".yaml", further: Iterable[Path] = ()) -> dict[int, Path]:
    """Number -> file ``NAME/vNUMBER.yaml`` in all folders, rising.

    If two folders have a version, the first one of `further` and then of `rubric_folders` counts.
    """
    versions: dict[int, Path] = {}
    for folder in reversed([*further, *rubric_folders()]):
        for path in (folder / name).glob(f"v*{suffix}"):
            number = path.stem.removeprefix("v")
            if number.isascii() and number.isdigit() and not number.startswith("0"):
                versions[int(number)] = path
    return dict(sorted(versions.items()))


def rubric_ids() -> list[str]:
    """The ids of all rubrics that can be loaded by name, sorted."""
    names = {path.name for folder in rubric_folders() for path in folder.glob("*")}
    return sorted(name for name in names if name not in RESERVED_NAMES and ID.fullmatch(name) and file_versions(name))


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
