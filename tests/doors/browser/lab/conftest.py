"""JupyterLab and one window of Chromium for all tests here; a notebook for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labs import KERNELS, PATIENCE_MS, Lab, Notebook, browser_or_skip, missing, pass_over, running_lab
from warm_process import OF_KERNEL, WarmProcess

SIZE = {"width": 1400, "height": 1000}


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Its kernels are forks of processes that have loaded the libraries, one for each ipykernel."""
    if why := missing():
        pass_over(why)

    def starts(folder: str) -> list[str]:
        return WarmProcess(f"kernels{Path(folder).name}", OF_KERNEL, folder).command("-m", "ipykernel_launcher")

    with running_lab(tmp_path_factory.mktemp("lab"), starts) as made:
        yield made


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """The one of the other folders is closed after each file."""
    with browser_or_skip() as made:
        yield made


@pytest.fixture(scope="package")
def window(browser: Any, lab: Lab) -> Iterator[Any]:  # the lab outlives what is open in it
    """What all notebooks are opened in, one after the other: JupyterLab is loaded once."""
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: page.console_errors.append(str(error)))
    yield page
    context.close()


@pytest.fixture
def kernel() -> str:
    """The ipykernel that is installed."""
    return "python3"


@pytest.fixture(params=["installed", pytest.param("ipykernel6")])
def each_kernel(request: pytest.FixtureRequest) -> str:
    """The ipykernel that is installed, and the last one of version 6."""
    if request.param == "installed":
        return "python3"
    if not (KERNELS / request.param).is_dir():
        pass_over(f"there is no {KERNELS / request.param}; `make test` puts one there")
    return str(request.param)


@pytest.fixture
def notebook(window: Any, lab: Lab, request: pytest.FixtureRequest) -> Iterator[Notebook]:
    kernel = request.getfixturevalue("each_kernel" if "each_kernel" in request.fixturenames else "kernel")
    window.console_errors = []
    window.set_viewport_size(SIZE)
    made = Notebook(window, lab, kernel)
    yield made
    made.close()
    if window.locator(".jp-Dialog").count():
        window.goto("about:blank")  # what a test left open is not in the way of the next one
