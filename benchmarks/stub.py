"""The loopback server of the live bars, whose truth and bill are known.

The server and the floors are no part of the project: `EVALKIT_BENCH` names their folder, else
`../shared/bench` beside the project is looked at. Needs node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import evalkit as ek

RUBRIC = ek.Rubric(
    id="stub",
    description="Is the answer correct with respect to the reference?",
    inputs=["question", "answer", "reference"],
    criteria=[{"name": "correct", "scale": {0: "It is not.", 1: "It is."}, "pass_at": 1}],
)


def bench_folder() -> Path | None:
    """The folder of the stub server, or None."""
    given = os.environ.get("EVALKIT_BENCH")
    folder = Path(given) if given else Path(__file__).resolve().parents[1].parent / "shared" / "bench"
    return folder if (folder / "stub_server.js").is_file() and shutil.which("node") else None


def needed_folder() -> Path:
    """As `bench_folder`; ends the script, as skipped, where there is none."""
    folder = bench_folder()
    if folder is None:
        print("skipped: no stub server (set EVALKIT_BENCH to its folder; node is needed)")
        sys.exit(0)
    return folder


def control(base: str, path: str, body: dict[str, object] | None = None) -> dict[str, Any]:
    """One control call of the server."""
    request = urllib.request.Request(base + path, data=None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return dict(json.loads(answer.read() or b"{}"))


@contextmanager
def stub_server(folder: Path, **options: object) -> Iterator[str]:
    """A running server; its address without ``/v1``."""
    given = [f"--{name}={value}" for name, value in options.items()]
    server = subprocess.Popen(
        ["node", str(folder / "stub_server.js"), "--port", "0", *given], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[1].removesuffix("/v1")
    finally:
        server.terminate()
        server.wait()


def rows(folder: Path, n: int) -> list[dict[str, Any]]:
    """Items with their truth."""
    sys.path.insert(0, str(folder))
    import rows as module

    return list(module.rows(n))


class Checks:
    """What was looked at, and whether all of it was as it must be."""

    def __init__(self) -> None:
        self.met = True

    def __call__(self, what: str, seen: object, expected: object) -> None:
        """Print one comparison."""
        good = seen == expected
        self.met &= good
        print(f"  {'met   ' if good else 'BROKEN'} {what}: {seen}" + ("" if good else f" (must be {expected})"))

    def true(self, what: str, good: bool, detail: object = "") -> None:
        """Print one statement."""
        self.met &= good
        print(f"  {'met   ' if good else 'BROKEN'} {what}{f': {detail}' if detail != '' else ''}")
