"""Batches: seconds and peak memory of `submit` and `collect` for 100,000 requests of one reply each.

The server of the tests answers, in a process of its own. ``python benchmarks/batches.py 10000`` takes fewer.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from bars import bar
from batch_server import batch_server

import evalkit as ek

N = 100_000


def serve() -> None:
    """The server, until its input is closed."""
    with batch_server() as server:
        print(server.url, flush=True)
        sys.stdin.read()


def measured(action: str, cache: str, url: str, n: int) -> tuple[float, int]:
    """Seconds and peak memory (MB) of a process that submits, collects or judges."""
    command = [sys.executable, __file__, action, cache, url, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, megabytes = done.stdout.split()
    return float(seconds), int(megabytes)


def act(action: str, cache: str, url: str, n: int) -> None:
    """Submit, collect or judge; prints seconds and peak memory."""
    judge = ek.Judge("openai", "gpt-4o-mini", base_url=url, price=(0.15, 0.6))
    items = [{"item_id": str(at), "question": f"What is {at}?", "answer": f"number {at}"} for at in range(n)]
    start = time.perf_counter()
    if action == "submit":
        ticket = ek.submit(items, "relevancy", judge, samples=1, cache=cache)
        assert ticket.table["n_requests"].sum() == n
    elif action == "collect":
        (ticket,) = ek.engine.tickets(cache)
        assert ek.collect(ticket, progress=False).table["n_stored"].sum() == n
    else:
        table = ek.judge(items, "relevancy", judge, samples=1, cache=cache, offline=True, on_miss="raise")
        assert table["score"].notna().all()
    seconds = time.perf_counter() - start
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def main(n: int) -> int:
    """Measure and print."""
    ok = True
    os.environ["OPENAI_API_KEY"] = "sk-of-the-benchmark"
    with (
        tempfile.TemporaryDirectory() as cache,
        subprocess.Popen(
            [sys.executable, __file__, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server,
    ):
        assert server.stdout is not None
        assert server.stdin is not None
        url = server.stdout.readline().strip()
        for action in ("submit", "collect", "judge"):
            seconds, megabytes = measured(action, cache, url, n)
            print(f"{n:,} requests, {action}: {seconds:.1f} s ({n / seconds:,.0f} a second), peak {megabytes} MB")
            if n == N:
                ok &= bar(f"{action}, seconds", seconds, 120, "s")
                ok &= bar(f"{action}, peak memory", megabytes, 1000, "MB")
        server.stdin.close()
    return int(not ok)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif len(sys.argv) > 2:
        act(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else N))
