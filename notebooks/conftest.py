"""nbval compares the notebooks of this folder after it replaced what differs from run to run, whoever starts it.

With `NOTEBOOKS_TWICE=1` in the environment it runs each one twice, in two kernels with one cache: with the cache as it
is, and again with a full one, in which nothing is asked. pytest-xdist gives both to one worker. In a checkout, the second
kernel and what it starts are forks of processes that have loaded the libraries (`tests/support/warm_process.py`).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Generator
from functools import cache
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


@cache
def _warm_kernel() -> dict[str, Any]:
    from warm_process import OF_KERNEL, OF_LIGHTEVAL, WarmProcess

    lighteval = WarmProcess("lighteval", OF_LIGHTEVAL).command("lighteval")
    return WarmProcess("kernels", OF_KERNEL).kernel(lighteval)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Start the kernel of a second run warm."""
    with pytest.MonkeyPatch.context() as patch:
        if "::again::" in item.nodeid and importlib.util.find_spec("warm_process"):
            patch.setattr("ipykernel.kernelspec.get_kernel_dict", _warm_kernel)
        yield
