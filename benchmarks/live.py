"""Live calls, stored, beside a bare aiohttp loop and AsyncOpenAI on the same loopback server.

100 ms and 0 ms of latency, 64 and 256 in flight; each run is a process of its own with an empty cache, the three
take turns, medians count. ``python benchmarks/live.py 100 64`` measures one setting. Needs the stub server (see
`stub.py`).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, told
from stub import RUBRIC, control, needed_folder, rows, stub_server

import evalkit as ek

RUNS = 5
SETTINGS = ((100, 64, 500), (0, 64, 500), (100, 256, 2000), (0, 256, 2000))
"""Latency in ms, calls in flight, calls."""


def judge_once(base: str, concurrency: int, n: int, cache: str | None = None) -> None:
    """One run into an empty cache (a new folder by default); all verdicts must be true. Prints its figures."""
    import evalkit.engine.providers.openai  # noqa: F401  # imports are not measured: the floors have theirs before the clock

    items = rows(needed_folder(), n)
    with tempfile.TemporaryDirectory() as folder:
        ek.judge(items[:1], RUBRIC, "fake:strict", samples=1, item_id="id", cache=Path(folder, "warm"))
        judge = ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1", temperature=0.0)
        used, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        table = ek.judge(
            items,
            RUBRIC,
            judge,
            samples=1,
            item_id="id",
            cache=cache or folder,
            progress=False,
            concurrency=concurrency,
        )
        wall, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        right = int((table["passed"] == [row["truth"] for row in items]).sum())
        assert set(table["source"]) == {"live"}
    cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    print("RESULT " + json.dumps({"wall_s": wall, "cpu_s": cpu, "right": right}), flush=True)


def run(command: list[str], base: str, n: int) -> dict[str, Any]:
    """Figures of one process, and what the server saw of it."""
    control(base, "/_reset", {})
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(done.stderr)
    figures = json.loads(lines[0][7:])
    assert figures["right"] == n, f"{figures['right']} of {n} right: {command}"
    return figures | control(base, "/_stats")


def compared(folder: Path, latency: int, concurrency: int, n: int) -> dict[str, list[dict[str, Any]]]:
    """The runs of all three, in turn."""
    with stub_server(folder, latency_ms=latency) as base:
        floor = ["--base", f"{base}/v1", "--n", str(n), "--conc", str(concurrency)]
        commands = {
            "evalkit, stored": [__file__, "--once", base, str(concurrency), str(n)],
            "bare aiohttp": [str(folder / "floor_aiohttp.py"), *floor],
            "AsyncOpenAI": [str(folder / "floor_openai.py"), *floor],
        }
        seen: dict[str, list[dict[str, Any]]] = {name: [] for name in commands}
        for _ in range(RUNS):
            for name, command in commands.items():
                seen[name].append(run(command, base, n))
    return seen


def main() -> int:
    """Run everything in turn and print medians and ratios."""
    folder = needed_folder()
    met = True
    wanted = tuple(int(text) for text in sys.argv[1:3])
    for latency, concurrency, n in SETTINGS:
        if wanted and wanted != (latency, concurrency):
            continue
        load = os.getloadavg()[0]
        seen = compared(folder, latency, concurrency, n)
        print(f"\n{n} calls at {latency} ms, {concurrency} in flight (load before: {load:.1f})")
        for name, runs in seen.items():
            print(told(f"  {name}, wall", [one["wall_s"] for one in runs]))
            print(told(f"  {name}, CPU a call", [one["cpu_s"] / n * 1000 for one in runs], "ms"))
        last = seen["evalkit, stored"][-1]
        print(
            f"  evalkit: {last['paid']} paid, {last['max_in_flight']} in flight at most, "
            f"{last['connections']} connections"
        )
        ours, bare, openai = (
            {key: statistics.median(one[key] for one in runs) for key in ("wall_s", "cpu_s")} for runs in seen.values()
        )
        wall, cpu = ours["wall_s"] / bare["wall_s"], ours["cpu_s"] / openai["cpu_s"]
        if (latency, concurrency) == (100, 64):
            met &= bar("wall, as a multiple of the bare loop", wall, 1.2)
            met &= bar("CPU, as a multiple of AsyncOpenAI", cpu, 0.5)
        else:
            print(f"  wall {wall:.2f} × the bare loop, CPU {cpu:.2f} × AsyncOpenAI")
    return int(not met)


if __name__ == "__main__":
    if "--once" in sys.argv:
        judge_once(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        sys.exit(0)
    sys.exit(main())
