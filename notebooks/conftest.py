"""nbval compares the notebooks of this folder after it replaced what differs from run to run, whoever starts it.

With `NOTEBOOKS_TWICE=1` in the environment it runs each one twice, in two kernels with one cache: with the cache as it
is, and again with a full one, in which nothing is asked. pytest-xdist gives both to one worker.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Pass sanitize.cfg to nbval, if it runs and got no other file."""
    if getattr(config.option, "nbval_sanitize_with", "") is None:
        config.option.nbval_sanitize_with = str(Path(__file__).with_name("sanitize.cfg"))


@pytest.hookimpl(trylast=True)  # after nbval's own
def pytest_collect_file(file_path: Path, parent: Any) -> Any:
    """The notebook once more, if it is to run twice."""
    if file_path.suffix != ".ipynb" or not getattr(parent.config.option, "nbval", False) or not os.environ.get("NOTEBOOKS_TWICE"):
        return None
    from nbval.plugin import IPyNbFile

    name = file_path.relative_to(parent.config.rootpath).as_posix()
    again = IPyNbFile.from_parent(parent, path=file_path, nodeid=f"{name}::again")
    again.name = f"{file_path.name} again"
    return again
