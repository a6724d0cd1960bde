"""A run in a process that outlives the one that starts it, as a notebook's kernel.

As ``python -m evalkit.runs.detached_run`` it is that process: it reads what to do as one line of JSON (a registry's
password belongs on no command line), writes as one line of JSON which run began, or why none did, and nothing more:
everything else is in the run's own log.
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
from evalkit.runs.runner import Runner

_started: list[subprocess.Popen[str]] = []
"""Kept so that those that ended can be waited for: nothing else needs them."""


def start_detached(runner: Runner, pack: str, model: str, **options: Any) -> str:
    """Start a run as `Runner.start` would, in a process and session of its own; its id, once its row is written.

    The process goes on when this one ends, and is not reached by the notebook's interrupt.

    Raises
    ------
    ConfigError
        When the run cannot be: with all that is wrong. Nothing was started then.
    RegistryError
        When the process ends without an answer.
    """
    settings = {
        "folder": str(runner.folder.absolute()), "command": list(runner.command), "heartbeat_s": runner.heartbeat_s,
        "patience_s": runner.patience_s, "stale_s": runner.store.stale_s,
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
    raise RegistryError(f"the process of the run ended with exit code {process.wait()} before it began: {last}")


def _main() -> int:
    """Carry out the run that stdin describes; exit code 0 if it succeeded."""
    wanted = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        runner = Runner(Registry.open(wanted["registry"]), **wanted["runner"])
        run = runner.start(**wanted["order"], on_start=lambda run: _begun(run.id))
    except EvalkitError as problem:
        _answer(error=str(problem))
        return 2
    except KeyboardInterrupt:
        return 2
    return 0 if run.status == "succeeded" else 2


def _answer(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _begun(run_id: str) -> None:
    _answer(run=run_id)
    nobody = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # who listens ends with the kernel
        os.dup2(nobody, number)


if __name__ == "__main__":
    sys.exit(_main())
