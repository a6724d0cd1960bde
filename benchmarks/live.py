"""Live calls, stored, beside a bare aiohttp loop and AsyncOpenAI on the same loopback server.

The judge is named by its address, made of a client that is read off, and made of one that is called itself. The least
is a bare loop that sends evalkit's prompts, has each reply on disk before it counts, and makes a table. 100 ms and
0 ms of latency, 64 and 256 in flight; each run is a process of its own with an empty cache, all take turns, medians
count. ``python benchmarks/live.py 100 64`` measures one setting. Needs the stub server (see
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


def judge_of(base: str, kind: str) -> ek.Judge:
    """The judge, by its ``address``, of a client that is ``read`` off, or of one that is ``called`` (in threads)."""
    fields = {"temperature": 0.0}
    if kind == "address":
        return ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1", **fields)
    import openai

    http = openai.DefaultHttpxClient() if kind == "called" else None
    client = openai.OpenAI(api_key="EMPTY", base_url=f"{base}/v1", http_client=http)
    client.chat.completions.create  # noqa: B018  # loads the module
    return ek.Judge.client(client, "gpt-4o-mini", **fields)


def judge_once(base: str, concurrency: int, n: int, kind: str = "address", cache: str | None = None) -> None:
    """One run into an empty cache (a new folder by default); all verdicts must be true. Prints its figures."""
    import evalkit.engine.providers.openai  # noqa: F401  # imports are not measured: the floors have theirs before the clock

    items = rows(needed_folder(), n)
    with tempfile.TemporaryDirectory() as folder:
        ek.judge(items[:1], RUBRIC, "fake:strict", samples=1, item_id="id", cache=Path(folder, "warm"))
        judge = judge_of(base, kind)
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


def floor_once(base: str, concurrency: int, n: int) -> None:
    """The least that such a run needs here: nothing is checked, retried, limited or reported. Prints its figures.

    Its prompts are ready, no key is hidden, no other process kept from the same call, a reply has one index of its
    own instead of two, and a score is not checked. It looks for no garbage in cycles.
    """
    import asyncio
    import gc
    import hashlib
    import sqlite3
    import threading
    from queue import SimpleQueue

    import aiohttp
    import orjson
    import pandas as pd

    items = rows(needed_folder(), n)
    prompts = [ek.build_prompt(RUBRIC, item).messages for item in items]
    waiting: SimpleQueue[tuple[bytes, bytes, asyncio.Future[None]] | None] = SimpleQueue()

    def write(path: Path, loop: asyncio.AbstractEventLoop) -> None:
        store = sqlite3.connect(path, isolation_level=None)
        for text in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
            "CREATE TABLE r (key BLOB PRIMARY KEY, value)",
        ):
            store.execute(text)
        while first := waiting.get():
            replies = [first]
            while not waiting.empty() and (more := waiting.get()):
                replies.append(more)
            store.execute("BEGIN")
            store.executemany("INSERT INTO r VALUES (?, ?)", [(key, value) for key, value, _ in replies])
            store.execute("COMMIT")
            loop.call_soon_threadsafe(lambda done=replies: [future.set_result(None) for _, _, future in done])

    async def everything(path: Path) -> pd.DataFrame:
        loop, room = asyncio.get_running_loop(), asyncio.Semaphore(concurrency)
        threading.Thread(target=write, args=(path, loop), daemon=True).start()
        headers = {"content-type": "application/json", "authorization": "Bearer EMPTY"}
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=concurrency), headers=headers) as session:

            async def one(messages: Any) -> float:
                body = orjson.dumps(
                    {"model": "gpt-4o-mini", "temperature": 0.0, "messages": [dict(m) for m in messages]}
                )
                async with room:
                    async with session.post(f"{base}/v1/chat/completions", data=body) as response:
                        reply = orjson.loads(await response.read())
                    text, stored = reply["choices"][0]["message"]["content"], loop.create_future()
                    waiting.put(
                        (hashlib.sha256(body).digest(), orjson.dumps({"text": text, "usage": reply["usage"]}), stored)
                    )
                    await stored
                return float(orjson.loads(text)["score"])

            scores = await asyncio.gather(*map(one, prompts))
        waiting.put(None)
        return pd.DataFrame({"item_id": [item["id"] for item in items], "score": scores})

    with tempfile.TemporaryDirectory() as folder:
        gc.disable()
        used, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        table = asyncio.run(everything(Path(folder, "least.sqlite")))
        wall, now = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    right = int(((table["score"] == 1) == [row["truth"] for row in items]).sum())
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
    """The runs of all, in turn."""
    with stub_server(folder, latency_ms=latency) as base:
        floor = ["--base", f"{base}/v1", "--n", str(n), "--conc", str(concurrency)]
        commands = {
            "evalkit, stored": [__file__, "--once", base, str(concurrency), str(n)],
            "bare aiohttp": [str(folder / "floor_aiohttp.py"), *floor],
            "AsyncOpenAI": [str(folder / "floor_openai.py"), *floor],
            "evalkit, client read off": [__file__, "--once", base, str(concurrency), str(n), "read"],
            "evalkit, client called": [__file__, "--once", base, str(concurrency), str(n), "called"],
            "the least": [__file__, "--floor", base, str(concurrency), str(n)],
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
        ours, bare, openai, read, called, least = (
            {key: statistics.median(one[key] for one in runs) for key in ("wall_s", "cpu_s")} for runs in seen.values()
        )
        wall, cpu = ours["wall_s"] / bare["wall_s"], ours["cpu_s"] / openai["cpu_s"]
        by_client = [each["cpu_s"] / openai["cpu_s"] for each in (read, called)]
        print("  CPU beside AsyncOpenAI: client read off {:.2f} ×, called itself {:.2f} ×".format(*by_client))
        if (latency, concurrency) == (100, 64):
            met &= bar("wall, as a multiple of the bare loop", wall, 1.2)
            met &= bar("CPU, as a multiple of AsyncOpenAI", cpu, 0.5)
            met &= bar("CPU of a client read off, as a multiple of AsyncOpenAI", by_client[0], 0.5)
        else:
            print(f"  wall {wall:.2f} × the bare loop, CPU {cpu:.2f} × AsyncOpenAI")
        by_least = [ours[key] / least[key] for key in ("wall_s", "cpu_s")]
        print("  beside the least: wall {:.2f} ×, CPU {:.2f} ×".format(*by_least))
    return int(not met)


if __name__ == "__main__":
    if "--once" in sys.argv:
        judge_once(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
        sys.exit(0)
    if "--floor" in sys.argv:
        floor_once(sys.argv[2], *map(int, sys.argv[3:5]))
        sys.exit(0)
    sys.exit(main())
