"""Runs as a process of its own, started by `launches`: carries one run out to its end, whatever becomes of the kernel.

It reads what to do as one line of JSON (a registry's password belongs on no command line), says as one line of JSON
which run began, or why none did, and is silent from then on: the run's own log says the rest.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> int:
    """Carry out the run; exit code 0 if it succeeded."""
    wanted = json.loads(sys.stdin.readline())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from evalkit.errors import EvalkitError
    from evalkit.runs import Runner
    from evalkit.runs.registry import Registry

    try:
        runner = Runner(Registry.open(wanted["registry"]), **wanted["runner"])
        run = runner.start(**wanted["order"], on_start=lambda run: _begun(run.id))
    except EvalkitError as problem:
        _say(error=str(problem))
        return 2
    except KeyboardInterrupt:
        return 2
    return 0 if run.status == "succeeded" else 2


def _say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def _begun(run_id: str) -> None:
    _say(run=run_id)
    nobody = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):  # who listens ends with the kernel
        os.dup2(nobody, number)


if __name__ == "__main__":
    if importlib.util.find_spec("evalkit") is None:  # the parent may have found it in its working folder
        sys.path.append(str(Path(__file__).resolve().parents[2]))
    sys.exit(main())
