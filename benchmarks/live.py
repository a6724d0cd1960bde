"""500 live calls against a loopback server whose truth is known, stored, beside the floors on the same server.

The server and the floors are no part of the project: `EVALKIT_BENCH` names their folder, else
`../shared/bench` beside the project is looked at. Needs node.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, own_cache, told

import evalkit as ek

N, RUNS = 500, 5


def bench_folder() -> Path | None:
    """The folder of the stub server, or None."""
    given = os.environ.get("EVALKIT_BENCH")
    folder = Path(given) if given else Path(__file__).resolve().parents[1].parent / "shared" / "bench"
    return folder if (folder / "stub_server.js").is_file() and shutil.which("node") else None


def control(base: str, path: str, body: dict[str, object] | None = None) -> dict[str, object]:
    """One control call of the server."""
    request = urllib.request.Request(base + path, data=None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        return dict(json.loads(answer.read() or b"{}"))


RUBRIC = ek.Rubric(
    id="stub",
    description="Is the answer correct with respect to the reference?",
    inputs=["question", "answer", "reference"],
    criteria=[{"name": "correct", "scale": {0: "It is not.", 1: "It is."}, "pass_at": 1}],
)


def rows(folder: Path) -> list[dict[str, object]]:
    """The rows of the floors, with their truth."""
    sys.path.insert(0, str(folder))
    import rows as module

    return list(module.rows(N))


def ours(items: list[dict[str, object]], base: str) -> tuple[float, float]:
    """Wall and CPU seconds of one run into an empty cache; every verdict must be the row's truth."""
    judge = ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1", temperature=0.0)
    with own_cache() as folder:
        used, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        table = ek.judge(items, RUBRIC, judge, samples=1, item_id="id", cache=folder, progress=False)
        wall, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
        right = int((table["passed"] == [row["truth"] for row in items]).sum())
        assert right == N, f"{right} of {N} right"
        assert set(table["source"]) == {"live"}
    return wall, now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime


def floor(folder: Path, name: str, base: str) -> tuple[float, float]:
    """Wall and CPU seconds of a floor."""
    command = [sys.executable, str(folder / f"floor_{name}.py"), "--base", f"{base}/v1", "--n", str(N)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    figures = json.loads(next(line for line in out.splitlines() if line.startswith("RESULT"))[7:])
    assert figures["right"] == N
    return figures["wall_s"], figures["cpu_s"]


def main() -> int:
    """Run everything in turn and print medians and ratios."""
    folder = bench_folder()
    if folder is None:
        print("skipped: no stub server (set EVALKIT_BENCH to its folder; node is needed)")
        return 0
    server = subprocess.Popen(
        ["node", str(folder / "stub_server.js"), "--port", "0", "--latency_ms", "100"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    base = server.stdout.readline().split()[1].removesuffix("/v1")
    try:
        items = rows(folder)
        seen: dict[str, list[tuple[float, float]]] = {"evalkit, stored": [], "bare aiohttp": [], "AsyncOpenAI": []}
        ours(items[:N], base)
        for _ in range(RUNS):
            control(base, "/_reset", {})
            seen["evalkit, stored"].append(ours(items, base))
            stats = control(base, "/_stats")
            seen["bare aiohttp"].append(floor(folder, "aiohttp", base))
            seen["AsyncOpenAI"].append(floor(folder, "openai", base))
    finally:
        server.terminate()
        server.wait()
    for name, runs in seen.items():
        print(told(f"{name}, wall", [wall for wall, _ in runs]))
        print(told(f"{name}, CPU a call", [cpu / N * 1000 for _, cpu in runs], "ms"))
    print(
        f"500 of 500 right in each run; the last: {stats['paid']} paid, "
        f"{stats['max_in_flight']} in flight at most, {stats['connections']} connections"
    )
    wall = {name: statistics.median(wall for wall, _ in runs) for name, runs in seen.items()}
    cpu = {name: statistics.median(cpu for _, cpu in runs) for name, runs in seen.items()}
    met = bar("wall, as a multiple of the bare loop", wall["evalkit, stored"] / wall["bare aiohttp"], 1.2)
    met &= bar("CPU, as a multiple of AsyncOpenAI", cpu["evalkit, stored"] / cpu["AsyncOpenAI"], 0.5)
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
