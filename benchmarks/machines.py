"""Four processes as four machines that share a store on PostgreSQL: killed twenty times, and the server twice.

All four judge the same table (own home, own temporary folder; nothing shared but PostgreSQL and the judges' server).
Nothing that was acknowledged is paid again; what was in flight at a kill, or when the server went away, is paid twice
at most. ``python benchmarks/machines.py 400 5`` takes 400 items and 5 kills. Needs PostgreSQL and the stub server (see
`stub.py`).
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from postgres import stoppable_server, tools
from stub import RUBRIC, Checks, control, needed_folder, rows, stub_server

import evalkit as ek
from evalkit.engine import ReplyStore

N_ITEMS, KILLS, RESTARTS, MACHINES, IN_FLIGHT, SAMPLES = 4000, 20, 2, 4, 64, 3
MODELS = ("gpt-4o-mini", "gpt-4o", "judge-c")
PRICE = (0.15, 0.6)  # that of the server


def run_child(base: str, address: str, n_items: int) -> None:
    """Judge everything, at a rate of its own."""
    jury = [ek.Judge("openai", model, base_url=f"{base}/v1", max_tokens=100, price=PRICE) for model in MODELS]
    table = ek.judge(
        rows(needed_folder(), n_items),
        RUBRIC,
        jury,
        samples=SAMPLES,
        item_id="id",
        cache=address,
        progress=False,
        concurrency=IN_FLIGHT,
        requests_per_minute=rate_of(n_items) / MACHINES,
    )
    print("end", int(table["error"].isna().sum()), flush=True)


def rate_of(n_items: int) -> float:
    """Calls per minute to each model: the least time for all of them is 40 seconds."""
    return 1.5 * n_items


def start(number: int, homes: str, base: str, address: str, n_items: int) -> subprocess.Popen[str]:
    """A machine: a process with its own home and temporary folder."""
    home = Path(homes, str(number))
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    own = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "TMPDIR": str(home / "tmp")}
    return subprocess.Popen(
        [sys.executable, __file__, "--child", base, address, str(n_items)],
        stdout=subprocess.PIPE, stderr=(home / "messages").open("a"), text=True, env={**os.environ, **own}, cwd=home,
    )  # fmt: skip


def main() -> int:
    """Kill, stop the server, run to the end, and look at the bill."""
    if tools() is None:
        print("skipped: no PostgreSQL (Debian: apt install postgresql)")
        return 0
    folder, checks = needed_folder(), Checks()
    n_items, kills = (int(text) for text in (sys.argv[1:3] or (N_ITEMS, KILLS)))
    n_calls = n_items * len(MODELS)  # each asks for all samples
    n_replies = n_calls * SAMPLES
    started, doubled_at_most, twice = time.perf_counter(), 0, 0
    with (
        tempfile.TemporaryDirectory() as homes,
        stub_server(folder, latency_ms=50) as base,
        stoppable_server() as server,
    ):
        os.environ.pop("EVALKIT_CACHE", None)
        machines = [start(number, homes, base, server.url, n_items) for number in range(MACHINES)]
        restarts = sorted(random.sample(range(1, kills), RESTARTS))
        for kill in range(kills):
            paid = control(base, "/_stats")["paid"]
            while control(base, "/_stats")["paid"] < min(paid + n_calls // (kills + 4), 0.95 * n_calls):
                time.sleep(0.02)
            if kill in restarts:
                doubled_at_most += control(base, "/_stats")["in_flight"]
                server.stop()
                time.sleep(1.0)
                server.start()
            number = random.randrange(MACHINES)
            doubled_at_most += 2 * IN_FLIGHT * len(MODELS)  # in flight, or on the way to the store
            machines[number].kill()
            machines[number].communicate()
            machines[number] = start(number, homes, base, server.url, n_items)
        said = []
        for number, machine in enumerate(machines):
            text = machine.communicate(timeout=1200)[0]
            while machine.returncode:  # it was started while PostgreSQL was away, and said so
                machine = start(number, homes, base, server.url, n_items)
                text = machine.communicate(timeout=1200)[0]
            said.append(text)
        store = ReplyStore.open(server.url)
        stored, paid = store.stats()["n_replies"], control(base, "/_stats")["paid"]
        store.close()
        twice = paid - n_calls
        last = start(0, homes, base, server.url, n_items).communicate(timeout=600)[0]
        again = control(base, "/_stats")["paid"] - paid
        for number in range(MACHINES):
            text = Path(homes, str(number), "messages").read_text().strip()
            print("\n".join(f"  machine {number}: {line[:160]}" for line in text.splitlines()[-4:]))
    print(f"{MACHINES} machines, {kills} × kill -9, {RESTARTS} restarts of PostgreSQL: {n_replies} replies, "
          f"{time.perf_counter() - started:.0f} s")  # fmt: skip
    checks("scored on each machine", [line.split()[-1] for line in said], [str(n_replies)] * MACHINES)
    checks("replies stored", stored, n_replies)
    checks("paid again by a further run", (again, last.split()[-1]), (0, str(n_replies)))
    checks.true("calls paid twice: at most those in flight when something was killed", twice <= doubled_at_most, twice)
    return int(not checks.met)


if __name__ == "__main__":
    if "--child" in sys.argv:
        run_child(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        sys.exit(0)
    sys.exit(main())
