"""A run in a process of its own, which continues when the starting process (such as a notebook's kernel) ends.

That process is ``python -m evalkit.runs.run.detached_run``. It reads one line of JSON with the settings of the run from
stdin, because a registry's password must not be on a command line. It prints one line of JSON: the id of the run, or
the error. All other output is in the run's log.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

from evalkit.errors import ConfigError, EvalkitError, RegistryError
from evalkit.runs.registry import Registry
from evalkit.runs.run.runner import Runner

_started: list[subprocess.Popen[str]] = []
"""The started processes; they are kept so that ended ones can be waited for."""


def start_detached(runner: Runner, pack: str, model: str, **options: Any) -> str:
    """Start a run as `Runner.start` does, in a process and session of its own; its id, once its row is written.

    The process continues when this one ends, and the notebook's interrupt does not reach it.

    Raises
    ------
    ConfigError
        When the run cannot start, with all problems.
    RegistryError
        When the process ends before the run began.
    """
    settings = {
        "folder": str(runner.folder.absolute()), "command": list(runner.command), "poll_s": runner.poll_s,
        "patience_s": runner.patience_s,
    }  # fmt: skip
    order = {"pack": pack, "model": model, **options}
    _started[:] = [one for one in _started if one.poll() is None]
    process = subprocess.Popen(  # noqa: S603  # a list of words, no shell
        [sys.executable, "-P", "-m", __name__],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    _started.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin as orders:
        orders.write(json.dumps({"registry": runner.registry.database.url, "runner": settings, "order": order}) + "\n")
    last = "it printed nothing"
    with process.stdout as lines:
        for line in lines:
            if line.startswith(('{"run"', '{"error"')):
                answer = json.loads(line)
                if "error" in answer:
                    raise ConfigError(answer["error"])
                return str(answer["run"])
            last = line.strip() or last
    raise RegistryError(f"the process of the run ended with exit code {process.wait()} before the run began: {last}")


def _main() -> int:
    """Carry out the run that stdin describes; exit code 0 if it succeeded."""
    settings = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        runner = Runner(Registry.open(settings["registry"]), **settings["runner"])
        run = runner.start(**settings["order"], on_start=lambda run: _begun(run.id))
    except EvalkitError as problem:
        _answer(error=str(problem))
        return 2
    except KeyboardInterrupt:
        return 2
    return 0 if run.status == "succeeded" else 2


def _answer(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def _begun(run_id: str) -> None:
    _answer(run=run_id)
    devnull = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # the reader of stdout and stderr ends with the kernel
        os.dup2(devnull, number)


if __name__ == "__main__":
    sys.exit(_main())
