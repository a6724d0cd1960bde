"""Twenty times kill -9 at a random moment, then one run to the end: nothing that was acknowledged is paid again.

Needs the stub server (see `stub.py`).
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from stub import RUBRIC, Checks, control, needed_folder, rows, stub_server

import evalkit as ek
from evalkit.engine.cache.sqlite_schema import FILE_NAME

KILLS, N_ITEMS, IN_FLIGHT = 20, 6000, 64


def run_child(base: str, cache: str) -> None:
    """Judge everything; print how many replies are acknowledged, now and then."""
    table = ek.judge(
        rows(needed_folder(), N_ITEMS), RUBRIC, judge_at(base), samples=1, item_id="id", cache=cache, progress=False,
        on_progress=lambda progress: print(progress.done, flush=True),
    )  # fmt: skip
    print("end", int(table["error"].isna().sum()), flush=True)


def judge_at(base: str) -> ek.Judge:
    """The judge on the stub."""
    return ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1")


def n_stored(cache: str) -> tuple[int, str]:
    """Replies in the file, and what SQLite says of it."""
    file = Path(cache, FILE_NAME)
    if not file.exists():
        return 0, "ok"
    with sqlite3.connect(file) as connection:
        counted = connection.execute("SELECT count(DISTINCT key) FROM replies").fetchone()[0]
        return counted, connection.execute("PRAGMA integrity_check").fetchone()[0]


def start(base: str, cache: str) -> subprocess.Popen[str]:
    """A process that judges."""
    return subprocess.Popen([sys.executable, __file__, "--child", base, cache], stdout=subprocess.PIPE, text=True)


def main() -> int:
    """Kill, look, and run to the end."""
    folder, checks = needed_folder(), Checks()
    lost_acknowledged = paid_twice = most_lost = 0
    sound = True
    with tempfile.TemporaryDirectory() as cache, stub_server(folder, latency_ms=100) as base:
        for _ in range(KILLS):
            before, _ = n_stored(cache)
            control(base, "/_reset", {})
            child = start(base, cache)
            while not control(base, "/_stats")["requests"]:
                time.sleep(0.01)
            time.sleep(random.uniform(0.0, 0.6))
            child.kill()
            said, _ = child.communicate()
            acknowledged = max((int(line) for line in said.splitlines() if line.isdigit()), default=0)
            stored, integrity = n_stored(cache)
            paid = control(base, "/_stats")["paid"]
            sound &= integrity == "ok"
            lost_acknowledged += max(0, acknowledged - (stored - before))
            most_lost = max(most_lost, paid - (stored - before))
        control(base, "/_reset", {})
        stored, _ = n_stored(cache)
        said, _ = start(base, cache).communicate(timeout=120)
        paid_twice = control(base, "/_stats")["paid"] - (N_ITEMS - stored)
        final, integrity = n_stored(cache)
    print(f"{KILLS} × kill -9 with {IN_FLIGHT} calls in flight; {stored} of {N_ITEMS} stored before the last run")
    checks("acknowledged replies that were lost", lost_acknowledged, 0)
    checks("stored replies that were paid again", paid_twice, 0)
    # a reply that came and is not on disk yet is lost too; the engine lets no more of them wait than calls in flight
    checks.true(
        "most replies lost in one kill: in flight, or on the way to the disk", most_lost <= 2 * IN_FLIGHT, most_lost
    )
    checks.true("integrity_check", sound and integrity == "ok")
    checks("replies in the end", final, N_ITEMS)
    checks("scored in the end", said.split()[-1], str(N_ITEMS))
    return int(not checks.met)


if __name__ == "__main__":
    if "--child" in sys.argv:
        run_child(sys.argv[2], sys.argv[3])
        sys.exit(0)
    sys.exit(main())
