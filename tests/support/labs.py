"""A real JupyterLab on loopback, and notebooks in it, driven in a real Chromium as a person would."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KERNELS = Path(sys.prefix) / "kernels"
"""Other ipykernels, one folder each; `make test` puts them there."""

PATIENCE_MS = 180_000
"""A kernel that starts or a run in a process of its own is in it, on a machine that has other things to do too."""
_START_S = 300
_KERNEL = (sys.executable, "-m", "ipykernel_launcher")


def chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def missing() -> str | None:
    """Why a browser cannot be driven here, or None."""
    if chromium() is None:
        return "no chromium on this machine (Debian: apt install chromium)"
    try:
        import jupyterlab  # noqa: F401
        import playwright  # noqa: F401
    except ImportError as problem:
        return f"{problem.name} is not installed (extras notebook and dev)"
    return None


@dataclass(frozen=True)
class Lab:
    base: str
    token: str
    work: Path
    log: Path

    def call(self, method: str, path: str) -> Any:
        head = {"Authorization": f"token {self.token}"}
        with urllib.request.urlopen(urllib.request.Request(self.base + path, headers=head, method=method)) as answer:
            return json.loads(answer.read() or b"null")


def wait_for_server(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}: {log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)  # until the server is up: there is nothing to wait on but the port
    raise TimeoutError(f"the server did not start in {_START_S} s: {log.read_text()[-2000:]}")


@contextmanager
def running_lab(root: Path, starts: Callable[[str], Sequence[str]] = lambda _: _KERNEL) -> Iterator[Lab]:
    """A JupyterLab whose settings, kernels and state all lie in `root`.

    `starts` is the command that starts the ipykernel of a folder, or the installed one for an empty name.
    """
    work = root / "work"
    work.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(16)
    settings = root / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (settings / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    folders = {name: str(root / name) for name in ("config", "data", "runtime", "ipython", "workspaces")}
    kernels = root / "data" / "kernels"
    _name_kernel(kernels / "python3", starts(""))
    for folder in sorted(KERNELS.glob("*")):
        _name_kernel(kernels / folder.name, starts(str(folder)), str(folder))
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": token,
        "JUPYTER_CONFIG_DIR": folders["config"],
        "JUPYTER_DATA_DIR": folders["data"],
        "JUPYTER_PATH": folders["data"],  # else the kernels of a virtual environment come first
        "JUPYTER_RUNTIME_DIR": folders["runtime"],
        "IPYTHONDIR": folders["ipython"],
        "JUPYTERLAB_SETTINGS_DIR": str(root / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": folders["workspaces"],
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "EVALKIT_CACHE": str(root / "cache"),
    }
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={work}"]
    command += ["--expose-app-in-browser", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly"]
    command += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    log = root / "lab.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
        try:
            base = f"http://127.0.0.1:{port}"
            wait_for_server(f"{base}/api?token={token}", process, log)
            yield Lab(base, token, work, log)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _name_kernel(spec: Path, command: Sequence[str], *folders: str) -> None:
    """A kernel that this command starts, with these folders first on its path."""
    spec.mkdir(parents=True)
    argv = [*command, "-f", "{connection_file}"]
    path = os.pathsep.join(filter(None, [*folders, str(ROOT), os.environ.get("PYTHONPATH")]))
    values = {"argv": argv, "display_name": spec.name, "language": "python", "env": {"PYTHONPATH": path}}
    (spec / "kernel.json").write_text(json.dumps(values))


@contextmanager
def running_browser() -> Iterator[Any]:
    """A Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as started:
        made = started.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=300_000
        )
        yield made
        made.close()


def pass_over(why: str) -> None:
    """Skip the test, with the reason; in CI nothing of this may be missing."""
    import pytest

    if os.environ.get("CI"):
        pytest.fail(f"browser tests are required in CI: {why}")
    pytest.skip(why)


@contextmanager
def browser_or_skip() -> Iterator[Any]:
    """A Chromium for tests.

    While it is open, Playwright's loop counts as running in this thread, and `asyncio.run` fails.
    """
    if why := missing():
        pass_over(why)
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    with running_browser() as made:
        yield made


class Notebook:
    """One notebook in JupyterLab, in a folder of its own: the same path would take up the kernel of another test."""

    IDLE = """() => { const w = window.jupyterapp?.shell?.currentWidget;
        return w?.context?.sessionContext?.session?.kernel?.status === 'idle'; }"""

    STATE = """() => { const w = window.jupyterapp?.shell?.currentWidget;
        const kernel = w?.context?.sessionContext?.session?.kernel;
        const dialogs = [...document.querySelectorAll('.jp-Dialog')].map((one) => one.innerText);
        return JSON.stringify([w?.id, kernel?.id, kernel?.status, kernel?.connectionStatus, dialogs]); }"""

    # opened before what was there goes: an empty main area gets a launcher, which takes the focus when it comes
    INSTEAD = """async (path) => { const { shell, commands } = window.jupyterapp;
        await commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
        while (document.body.dataset.jpThemeLight !== 'true') await new Promise(requestAnimationFrame);
        const opened = await commands.execute('docmanager:open', { path, factory: 'Notebook' });
        [...shell.widgets('main')].filter((one) => one !== opened).forEach((one) => one.dispose());
        shell.activateById(opened.id); }"""

    def __init__(self, page: Any, lab: Lab, kernel: str = "python3") -> None:
        self.page, self.lab, self.kernel = page, lab, kernel
        self.folder = lab.work / secrets.token_hex(4)
        self.folder.mkdir()

    def open(self, *cells: str, run: bool = True) -> Notebook:
        """Write a notebook of these cells, open it and, unless told otherwise, run it all."""
        made = [
            {
                "cell_type": "code",
                "id": f"cell-{at}",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": text,
            }
            for at, text in enumerate(cells)
        ]
        kernel = {"kernelspec": {"name": self.kernel, "display_name": self.kernel, "language": "python"}}
        text = json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
        # a name of its own each time: a path that was open before may take up what is left of the notebook there
        name = f"test{len(list(self.folder.glob('*.ipynb')))}.ipynb"
        (self.folder / name).write_text(text)
        path = f"{self.folder.name}/{name}"
        if self.page.evaluate("() => !!window.jupyterapp"):  # to load JupyterLab takes longer than most tests
            self._bounded(f"({self.INSTEAD})({json.dumps(path)})")
        else:
            self.page.goto(f"{self.lab.base}/doc/tree/{path}?reset&token={self.lab.token}")
            self.page.wait_for_function("() => !!window.jupyterapp", polling=100)
            self._bounded("window.jupyterapp.restored")
        self.page.locator(".jp-NotebookPanel").wait_for()
        self.idle()
        return self.run_all() if run else self

    def idle(self) -> None:
        """Until the kernel is there and does nothing; where it never is, what is known of it is told."""
        try:
            self.page.wait_for_function(self.IDLE, polling=100)  # not with each frame that is drawn
        except Exception as late:
            late.add_note(f"{self.page.evaluate(self.STATE)}; {self.lab.log.read_text()[-2000:]}")
            raise

    def run_all(self) -> Notebook:
        self._bounded("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        self.idle()
        return self

    def run_code(self, text: str) -> Notebook:
        """Run code in the kernel, in no cell."""
        kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        self._bounded(f"{kernel}.requestExecute({json.dumps({'code': text})}).done")
        return self

    def value(self, expression: str) -> str:
        """What an expression is in the kernel, as `repr` writes it."""
        kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        asked = json.dumps({"code": "", "user_expressions": {"value": expression}})
        found = self.page.evaluate(
            f"async () => (await {kernel}.requestExecute({asked}).done).content.user_expressions"
        )
        return str(found["value"]["data"]["text/plain"])

    def wait_for(self, expression: str) -> None:
        """Until an expression is true in the kernel, which may hear what is pressed on another thread than cells."""
        end = time.monotonic() + _START_S
        while self.value(expression) != "True":
            assert time.monotonic() < end, f"it never came: {expression}"

    def restart(self) -> Notebook:
        """Restart the kernel, clear what it showed, and run all cells again."""
        self._bounded("window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        return self.after_restart()

    def after_restart(self) -> Notebook:
        """Once another kernel is there, run all cells again."""
        self._bounded("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
        self.idle()
        return self.run_all()

    def _bounded(self, promise: str) -> None:
        """Wait for a promise of the page, two minutes at most: Playwright itself would wait for ever."""
        late = "new Promise((_, fail) => setTimeout(() => fail(new Error('not within 120 s')), 120000))"
        self.page.evaluate(f"async () => {{ await Promise.race([{promise}, {late}]); }}")

    @property
    def tuner(self) -> Any:
        return self.page.locator(".jp-OutputArea .ekw")

    def errors(self) -> list[str]:
        found = "[data-mime-type='application/vnd.jupyter.error'], .jp-OutputArea-output[data-mime-type*=stderr]"
        return self.page.locator(found).all_inner_texts()

    def close(self) -> None:
        for one in self.lab.call("GET", "/api/sessions"):
            self.lab.call("DELETE", f"/api/sessions/{one['id']}")
