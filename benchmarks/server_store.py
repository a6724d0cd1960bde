"""The reply store on PostgreSQL over loopback: 100,000 cached judgments to a table, and live calls that it stores.

Live calls are compared with a bare aiohttp loop on the same judges' server, in turn; medians count. Needs PostgreSQL
and the stub server (see `stub.py`).
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from bars import RUNS, bar, told
from cached_items import items_of, reply
from live import judge_once, run
from postgres import fresh_database, postgres_server, tools
from stub import needed_folder, stub_server

import evalkit as ek

N, JUDGE, N_LIVE = 100_000, "openai:gpt-4o-mini", 500


def read_all(address: str, samples: int) -> list[float]:
    """Seconds of cached calls of `N` judgments, tables included."""
    items = items_of(-(-N // samples))
    ek.record(items, "faithfulness", JUDGE, [[reply(i, k) for k in range(samples)] for i in range(len(items))],
              cache=address)  # fmt: skip
    seconds = []
    for _ in range(RUNS):
        started = time.perf_counter()
        table = ek.judge(items, "faithfulness", JUDGE, samples=samples, offline=True, on_miss="raise", cache=address)
        seconds.append(time.perf_counter() - started)
        assert table["score"].notna().all()
    return seconds


def main() -> int:
    """Both bars."""
    if tools() is None:
        print("skipped: no PostgreSQL")
        return 0
    folder, met = needed_folder(), True
    with postgres_server() as server:
        for samples in (1, 3):
            seconds = read_all(fresh_database(server, f"cached{samples}"), samples)
            middle = statistics.median(seconds)
            print(told(f"{N:,} cached judgments of {samples} samples", seconds), f"= {N / middle:,.0f} a second")
            met &= bar("100,000 cached judgments, call to table", middle, 2.5, " s")
        for latency, concurrency, n in ((100, 64, N_LIVE), (100, 256, 2000)):
            with stub_server(folder, latency_ms=latency) as base:
                floor = [str(folder / "floor_aiohttp.py"), "--base", f"{base}/v1", "--n", str(n)]
                ours, bare = [], []
                for at in range(RUNS):
                    address = fresh_database(server, f"live{concurrency}_{at}")
                    ours.append(run([__file__, "--once", base, str(concurrency), str(n), address], base, n)["wall_s"])
                    bare.append(run([*floor, "--conc", str(concurrency)], base, n)["wall_s"])
            print(told(f"{n} live calls at {latency} ms, {concurrency} in flight, stored on the server", ours))
            print(told("  bare aiohttp", bare))
            ratio = statistics.median(ours) / statistics.median(bare)
            # at 256 in flight, evalkit and the database's server share the cores that a bare loop has to itself
            met &= bar("  wall, as a multiple of the bare loop", ratio, 1.25 if concurrency == 64 else 1.5)
    return int(not met)


if __name__ == "__main__":
    if "--once" in sys.argv:
        judge_once(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), cache=sys.argv[5])
        sys.exit(0)
    sys.exit(main())
