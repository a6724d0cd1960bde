"""Starts a run in a process that outlives the kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from evalkit.errors import ConfigError, RegistryError
from evalkit.notebook.run_form import RunForm
from evalkit.runs import Runner

__all__ = ["launch"]

_LAUNCHER = Path(__file__).with_name("run_process.py")
_started: list[subprocess.Popen[str]] = []
"""Kept so that those that ended can be waited for: nothing else needs them."""


def launch(runner: Runner, form: RunForm) -> str:
    """Start a run as `Runner.start` would, in a process and session of its own; its id, once its row is written.

    The process goes on when this one ends, and is not reached by the notebook's interrupt.

    Raises
    ------
    ConfigError
        When the run cannot be: with all that is wrong. Nothing was started then.
    RegistryError
        When the process ends without saying anything.
    """
    config = form.config
    order = {
        "pack": form.pack, "model": form.model, "backend": form.backend, "scoring_mode": form.scoring_mode,
        "scoring_config": config, "max_samples": form.limit,
    }  # fmt: skip
    settings = {
        "folder": str(runner.folder.absolute()), "command": list(runner.command), "heartbeat_s": runner.heartbeat_s,
        "patience_s": runner.patience_s, "stale_s": runner.store.stale_s,
    }  # fmt: skip
    _started[:] = [one for one in _started if one.poll() is None]
    process = subprocess.Popen(  # noqa: S603  # a list of words, no shell
        [sys.executable, "-P", str(_LAUNCHER)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    _started.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    wanted = {"registry": runner.registry.database.url, "runner": settings, "order": order}
    with process.stdin as said:
        said.write(json.dumps(wanted) + "\n")
    last = "it said nothing"
    with process.stdout as lines:
        for line in lines:
            if line.startswith(('{"run"', '{"error"')):
                answer = json.loads(line)
                if "error" in answer:
                    raise ConfigError(answer["error"])
                return str(answer["run"])
            last = line.strip() or last
    raise RegistryError(f"the process of the run ended with exit code {process.wait()} before it began: {last}")
