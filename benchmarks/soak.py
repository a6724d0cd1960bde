"""Four processes on one cache, killed at random, for some minutes: nothing lost, nothing corrupt, memory flat.

``python benchmarks/soak.py MINUTES`` (default 10). Needs the stub server (see `stub.py`).
"""

from __future__ import annotations

import hashlib
import json
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

N_PROCESSES, N_ITEMS, N_A_ROUND = 4, 4000, 150
FAULTS = {"p429": 0.01, "p500": 0.01, "preset": 0.01, "retry_after": "0.1"}


def work(base: str, cache: str, ledger: str) -> None:
    """Judge random items for ever; write down what was returned: key and text."""
    items, judge = rows(needed_folder(), N_ITEMS), ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1")
    with Path(ledger).open("a", encoding="utf-8") as file:
        while True:
            chosen = random.sample(items, N_A_ROUND)
            refresh = random.random() < 0.1
            table = ek.judge(
                chosen, RUBRIC, judge, samples=1, item_id="id", cache=cache, progress=False, replies=True,
                refresh=refresh,
            )  # fmt: skip
            for key, text, error in zip(table["key"], table["reply"], table["error"], strict=True):
                if not isinstance(error, str):
                    file.write(json.dumps([key, text]) + "\n")
            file.flush()
            print("round", flush=True)


def resident_mb(pid: int) -> float:
    """Memory of a process's own in MB: pages of the cache's file that it looks at are not."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) / 1024


def main() -> int:
    """Start, kill, restart, look."""
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    folder, checks = needed_folder(), Checks()
    with tempfile.TemporaryDirectory() as scratch, stub_server(folder, latency_ms=20, **FAULTS) as base:
        cache, n_kills = str(Path(scratch, "cache")), 0

        def start(number: int) -> subprocess.Popen[bytes]:
            command = [sys.executable, __file__, "--child", base, cache, str(Path(scratch, f"{number}.jsonl"))]
            return subprocess.Popen(command, stdout=subprocess.DEVNULL)

        # the first is never killed: its memory is looked at
        children = [start(number) for number in range(N_PROCESSES)]
        memory: list[float] = []
        died = 0
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            time.sleep(random.uniform(0.5, 2.5))
            memory.append(resident_mb(children[0].pid))
            died += sum(child.poll() is not None for child in children)
            victim = random.randrange(1, N_PROCESSES)
            children[victim].kill()
            children[victim].wait()
            n_kills += 1
            children[victim] = start(victim)
        for child in children:
            child.kill()
            child.wait()
        _look(checks, scratch, cache)
        bill = control(base, "/_stats")
    print(f"{minutes:g} minutes, {N_PROCESSES} processes, {n_kills} kills, {bill['paid']} replies billed")
    checks("processes that ended by themselves", died, 0)
    early, late = memory[len(memory) // 4], max(memory[3 * len(memory) // 4 :])
    checks.true(
        "memory at the end against that after a quarter", late < 1.15 * early + 10, f"{early:.0f} → {late:.0f} MB"
    )
    return int(not checks.met)


def _look(checks: Checks, scratch: str, cache: str) -> None:
    """Everything that was ever returned is there, as it was returned; the file is sound."""
    store = ek.engine.ReplyStore.open(cache)
    with sqlite3.connect(store.path) as connection:
        checks("integrity_check", connection.execute("PRAGMA integrity_check").fetchone()[0], "ok")
        kept = {
            (key.hex(), _digest(json.loads(value).get("text")))
            for key, value in connection.execute("SELECT key, value FROM replies")
        }
    lost = n_seen = 0
    for ledger in Path(scratch).glob("*.jsonl"):
        for line in ledger.read_text(encoding="utf-8").splitlines():
            if line.endswith("]"):  # a killed process may leave half a line
                key, text = json.loads(line)
                n_seen += 1
                lost += (key, _digest(text)) not in kept
    checks.true("judgments returned", n_seen > 0, n_seen)
    checks("of these lost or changed", lost, 0)
    store.close()


def _digest(text: str | None) -> str:
    return hashlib.sha256((text or "").encode()).hexdigest()


if __name__ == "__main__":
    if "--child" in sys.argv:
        work(*sys.argv[2:5])
    sys.exit(main())
