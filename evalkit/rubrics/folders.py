"""The folders that hold rubrics, templates and profiles, and the versions of a rubric in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from evalkit.core.resources import rubrics_folder

RESERVED_NAMES = ("templates", "profiles")
"""Folders among the rubrics that hold something else."""

_FILE = re.compile(r"v([1-9][0-9]*)\.yaml")
_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")


def rubric_folders() -> list[Path]:
    """The folders where rubrics, templates and profiles are looked up, in order.

    The folders named by ``EVALKIT_RUBRICS``, ``rubrics/`` beside the nearest ``pyproject.toml`` (in the working folder
    where there is none), and those that ship with evalkit.
    """
    project = _project_folder()
    folders = [*_named_folders(), *([project] if project.is_dir() else []), rubrics_folder()]
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def save_folder(folder: str | Path | None = None) -> Path:
    """The folder where rubrics are saved: `folder`, else the default that `Rubric.save` describes."""
    return Path(folder).expanduser() if folder else next(iter(_named_folders()), _project_folder())


def _named_folders() -> list[Path]:
    return [Path(part).expanduser() for part in os.environ.get("EVALKIT_RUBRICS", "").split(os.pathsep) if part]


def _project_folder() -> Path:
    here = Path.cwd()
    projects = (folder for folder in (here, *here.parents) if (folder / "pyproject.toml").is_file())
    return next(projects, here) / "rubrics"


def rubric_versions(name: str, further: Iterable[Path] = ()) -> dict[int, Path]:
    """Number -> file of one rubric in all folders, rising.

    Where two folders have a version, the first one of `further` and then of `rubric_folders` counts.
    """
    found: dict[int, Path] = {}
    for folder in reversed([*further, *rubric_folders()]):
        for path in (folder / name).glob("v*.yaml"):
            if match := _FILE.fullmatch(path.name):
                found[int(match[1])] = path
    return dict(sorted(found.items()))


def rubric_ids() -> list[str]:
    """The ids of all rubrics that can be loaded by name, sorted."""
    names = {path.name for folder in rubric_folders() if folder.is_dir() for path in folder.iterdir() if path.is_dir()}
    return sorted(
        name for name in names if name not in RESERVED_NAMES and _ID.fullmatch(name) and rubric_versions(name)
    )
