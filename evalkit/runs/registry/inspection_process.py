"""A process of its own for code that others wrote, with an end in any case."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

from evalkit.errors import RegistryError
from evalkit.runs.contract import BINDINGS_VARIABLE, CONFIG_VARIABLE, MODE_VARIABLE, RECEIPT_VARIABLE

__all__ = ["ask_child"]

_CHILD = Path(__file__).with_name("plugin_import.py")
_TAIL = 40
"""Lines of what a child printed that are kept for a message."""


def ask_child(what: str, place: str, name: str, timeout_s: float) -> dict[str, Any]:
    """What ``child.py`` wrote of a plugin, or of LightEval (`what` is ``plugin`` or ``lighteval``).

    Raises
    ------
    RegistryError
        When it raised, ended otherwise, or was not done after `timeout_s` seconds; `name` begins the message.
    """
    # a scoring of the caller's own must not make metrics build their judges here
    foreign = {BINDINGS_VARIABLE, CONFIG_VARIABLE, MODE_VARIABLE, RECEIPT_VARIABLE}
    environment = {key: value for key, value in os.environ.items() if key not in foreign}
    if what == "lighteval":
        environment |= {"HF_HUB_OFFLINE": "1"}
    # any other value than True makes litellm fetch a list when it is imported
    environment.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    with tempfile.TemporaryDirectory(prefix="evalkit-plugin-") as scratch:
        out = Path(scratch, "found.json")
        child = subprocess.Popen(  # noqa: S603  # this module's own file; a plugin is code that the user names
            [sys.executable, "-P", str(_CHILD), what, place, str(out)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, cwd=scratch, start_new_session=True,
        )  # fmt: skip
        printed: deque[bytes] = deque(maxlen=_TAIL)
        assert child.stdout is not None
        reader = threading.Thread(target=_keep, args=(child.stdout, printed), daemon=True)
        reader.start()
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RegistryError(
                f"{name} was not imported within {timeout_s:g} s; it hangs, or needs more time"
            ) from None
        finally:
            _end(child)
            reader.join(5)
        if not out.is_file():
            raise RegistryError(f"{name} ended the process that imported it, exit code {code}{_last(printed)}")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    if "error" in found:
        raise RegistryError(f"{name} cannot be imported: {found['error']}")
    return found


def _keep(stream: Any, printed: deque[bytes]) -> None:
    # by pieces of bounded length: a plugin may print without end, and without lines
    with stream:
        for line in iter(partial(stream.readline, 2000), b""):
            printed.append(line)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the child and whatever it started: they are a process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _last(printed: deque[bytes]) -> str:
    lines = [" ".join(line.decode("utf-8", "replace").split()) for line in printed]
    last = next((line for line in reversed(lines) if line), "")
    return f"; it last said: {last[:300]}" if last else ""
