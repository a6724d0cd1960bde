"""From 1,000 to 1,000,000 judgments: seconds and peak memory, asked for the first time (at 0 ms) and again.

Each size is a process of its own for each of the two. ``python benchmarks/growth.py 100000`` ends at that size; a
second argument names the file for the plot. The judges' server takes a large part of the time of the first. Needs the
stub server (see `stub.py`).
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar
from stub import RUBRIC, needed_folder, rows, stub_server

import evalkit as ek

SIZES = (1_000, 10_000, 100_000, 1_000_000)
JUDGES, SAMPLES = ("gpt-4o-mini", "gpt-4o"), 5


def judge_once(base: str, cache: str, n: int) -> None:
    """Judge `n` times; prints seconds and peak memory."""
    import evalkit.engine.providers.openai  # noqa: F401  # imports are not measured

    items = rows(needed_folder(), n // len(JUDGES) // SAMPLES)
    jury = [ek.Judge("openai", model, base_url=f"{base}/v1") for model in JUDGES]
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    table = ek.judge(items, RUBRIC, jury, samples=SAMPLES, item_id="id", cache=cache, progress=False, concurrency=256)
    seconds, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    assert len(table) == n
    assert table["score"].notna().all()
    figures = {
        "n": n,
        "seconds": seconds,
        "cpu_s": now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mb": now.ru_maxrss / 1024,
        "start_mb": before.ru_maxrss / 1024,
    }
    print("RESULT " + json.dumps(figures), flush=True)


def figures(base: str, cache: str, n: int) -> dict[str, Any]:
    """The figures of one process."""
    done = subprocess.run(
        [sys.executable, __file__, "--once", base, cache, str(n)], capture_output=True, text=True, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(done.stderr)
    return dict(json.loads(lines[0][7:]))


def draw(path: str, seen: dict[str, list[dict[str, Any]]]) -> None:
    """Seconds and memory of both, on one plot."""
    from matplotlib.figure import Figure

    plot = Figure(figsize=(8, 3.4), layout="constrained")
    for axes, name, title in zip(
        plot.subplots(1, 2), ("seconds", "peak_mb"), ("seconds", "peak memory, MB"), strict=True
    ):
        for label, runs in seen.items():
            axes.plot([one["n"] for one in runs], [one[name] for one in runs], marker="o", label=label)
        axes.set(xscale="log", yscale="log", xlabel="judgments", ylabel=title)
        axes.legend()
    plot.savefig(path, dpi=150)


def main() -> int:
    """All sizes, in turn."""
    folder, most = needed_folder(), int(sys.argv[1]) if sys.argv[1:] else SIZES[-1]
    seen: dict[str, list[dict[str, Any]]] = {"first call": [], "again": []}
    with stub_server(folder, latency_ms=0) as base:
        for n in (size for size in SIZES if size <= most):
            with tempfile.TemporaryDirectory() as cache:
                for name, runs in seen.items():
                    runs.append(one := figures(base, cache, n))
                    print(
                        f"{n:>9,} judgments, {name}: {one['seconds']:.2f} s ({n / one['seconds']:,.0f} a second), CPU "
                        f"{one['cpu_s']:.2f} s, peak {one['peak_mb']:.0f} MB ({one['start_mb']:.0f} before)",
                        flush=True,
                    )
    if sys.argv[2:]:
        draw(sys.argv[2], seen)
    first, again = (runs[-1] for runs in seen.values())
    met = bar("CPU per stored reply", 1000 * first["cpu_s"] / first["n"], 0.5, " ms")
    met &= bar("seconds of 100,000 cached judgments, at this size", 1e5 * again["seconds"] / again["n"], 1.0, " s")
    return int(not met)


if __name__ == "__main__":
    if "--once" in sys.argv:
        judge_once(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        sys.exit(0)
    sys.exit(main())
