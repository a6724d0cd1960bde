"""What the bars share: medians of interleaved runs in fresh processes, and how a bar is judged."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

RUNS = 5


def fresh(code: str, *, env: dict[str, str] | None = None) -> dict[str, float]:
    """Run code in a process of its own; its last line of output is JSON with the figures."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **(env or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def interleaved(tasks: dict[str, Callable[[], float]], runs: int = RUNS) -> dict[str, list[float]]:
    """Each task `runs` times, in turn, so that a busy moment meets all of them."""
    seen: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(runs):
        for name, task in tasks.items():
            seen[name].append(task())
    return seen


def told(name: str, values: Sequence[float], unit: str = "s") -> str:
    """Median and range of some runs."""
    middle = statistics.median(values)
    return f"{name}: median {middle:.3f} {unit} ({min(values):.3f} to {max(values):.3f}, {len(values)} runs)"


def bar(name: str, value: float, limit: float, unit: str = "") -> bool:
    """Print whether a value keeps under its limit; True if it does."""
    met = value <= limit
    print(f"{'met   ' if met else 'MISSED'} {name}: {value:.3f}{unit} (at most {limit:g}{unit})")
    return met


def own_cache() -> tempfile.TemporaryDirectory[str]:
    """A cache folder for one bar; `EVALKIT_CACHE` points to it."""
    folder = tempfile.TemporaryDirectory()
    os.environ["EVALKIT_CACHE"] = folder.name
    return folder
