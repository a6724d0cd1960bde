"""The tuner where JupyterLab is not: in marimo, and in Notebook 7."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from labs import PATIENCE_MS, ROOT, Lab, wait_for_server

TUNER = """import tempfile
import evalkit as ek
items, labels = ek.load_example("facts")
tuner = ek.RubricTuner(items, "correctness", ["fake:strict", "fake:lenient"], labels, folder=tempfile.mkdtemp())
"""
APP = f"""import marimo

app = marimo.App()

@app.cell
def _():
    {TUNER.replace(chr(10), chr(10) + "    ")}tuner
    return (tuner,)

@app.cell
def _(tuner):
    import marimo as mo
    wrapped = mo.ui.anywidget(tuner)
    wrapped
    return (wrapped,)

@app.cell
def _(wrapped):
    f"traits: {{len(wrapped.value)}}"
    return
"""


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    made = context.new_page()
    made.set_default_timeout(PATIENCE_MS)
    yield made
    context.close()


@pytest.fixture
def marimo(tmp_path: Path) -> Iterator[str]:
    pytest.importorskip("marimo")
    (tmp_path / "app.py").write_text(APP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "marimo", "--quiet", "run", "app.py", "--headless", "--no-token"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    log = tmp_path / "marimo.log"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "EVALKIT_CACHE": str(tmp_path / "cache")}
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_for_server(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.terminate()
            process.wait(20)


def test_marimo_shows_the_tuner_by_itself_and_as_its_own_element(marimo: str, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(marimo)
    tuners = page.locator(".ekw")
    expect(tuners).to_have_count(2)
    expect(page.get_by_text("traits: ")).to_be_visible()
    tuners.first.get_by_role("button", name="Run").click()
    for shown in (tuners.first, tuners.last):  # both are views of the same tuner
        expect(shown).to_contain_text("Agreement with people")
        expect(shown.locator("tr", has_text="ice-brio")).to_have_count(1)


def test_notebook_7_runs_the_tuner(lab: Lab, page: Any) -> None:
    pytest.importorskip("notebook")
    from playwright.sync_api import TimeoutError as NotYet
    from playwright.sync_api import expect

    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "python3", "language": "python"}}
    text = {"cells": [{**cell, "source": TUNER + "tuner"}], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (lab.work / "seven.ipynb").write_text(json.dumps(text))
    page.goto(f"{lab.base}/notebooks/seven.ipynb?token={lab.token}")
    cell, tuner = page.locator(".jp-Notebook .jp-CodeCell .cm-content"), page.locator(".jp-OutputArea .ekw")
    end = time.monotonic() + PATIENCE_MS / 1000
    while not tuner.count():  # what is run before the kernel listens is lost without a word
        assert time.monotonic() < end, "the tuner never came"
        cell.first.press("Control+Enter")
        with suppress(NotYet):
            tuner.first.wait_for(timeout=5000)
    tuner.get_by_role("button", name="Run").click()
    expect(tuner).to_contain_text("Agreement with people")
