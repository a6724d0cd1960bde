"""What the tests of the command line share: small files, and real processes."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from places import ROOT
from warm_process import OF_EVALKIT, WarmProcess

ANSWERS = [
    "Goods are taken back for 30 days.",
    "Sixty weeks, and you get a horse.",
    "30 days, said the king of France.",
    "30",
]
ITEMS = [
    {
        "item_id": f"i{at}",
        "question": "How long?",
        "answer": answer,
        "context": ["The shop takes goods back for 30 days."],
    }
    for at, answer in enumerate(ANSWERS)
]
LABELS = [
    {"item_id": f"i{at}", "criterion": "faithfulness", "annotator": who, "label": label}
    for who, given in {"ann1": "2002", "ann2": "2012"}.items()
    for at, label in enumerate(given)
]


def write_lines(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def environment(**changes: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"} | changes


@cache
def _warm() -> WarmProcess:
    return WarmProcess("evalkit", OF_EVALKIT)


def evalkit(
    *arguments: object,
    folder: Path,
    stdin: str | None = None,
    cold: bool = False,
    lighteval: Sequence[str] = (),
    **changes: str,
) -> subprocess.CompletedProcess[str]:
    """`evalkit` as a process of its own: a fork of one that has loaded the libraries, or `cold` as a user starts it.

    Variables that Python or the C library read at their start need a cold one. `lighteval` is the `command` of a warm
    process that a run starts in the place of a cold LightEval.
    """
    words = [str(argument) for argument in arguments]
    if not cold and not any(name.startswith(("PYTHON", "LC_", "LANG", "MALLOC", "COLUMNS")) for name in changes):
        ask = {"stdin": stdin, "timeout_s": 300, "lighteval": lighteval}
        return _warm()(*words, folder=folder, environ=environment(**changes), **ask)
    return subprocess.run(
        [sys.executable, "-m", "evalkit", *words],
        cwd=folder,
        env=environment(**changes),
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def command(*words: str) -> list[str]:
    """Starts `evalkit` with these words, in a fork of a process that has loaded the libraries."""
    return _warm().command(*words)


def python(code: str, *arguments: object) -> list[str]:
    """Starts a process that runs code as `python -c` does, in a fork of one that has loaded the libraries.

    A signal reaches it, SIGKILL too, but not SIGSTOP; it ends by `os._exit` after what `atexit` and its threads do.
    """
    return _warm().command("-c", code, *map(str, arguments))


def read_until(child: subprocess.Popen[str], words: str) -> str:
    """What a process writes to its stderr up to the line that holds these words; one that writes none is killed."""
    assert child.stderr is not None
    text, patience = "", threading.Timer(300, child.kill)
    patience.start()
    try:
        while words not in text:
            line = child.stderr.readline()
            assert line, f"it ended without {words!r}: {text}"
            text += line
    finally:
        patience.cancel()
    return text
