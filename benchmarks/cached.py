"""Cached re-runs: from the call to the table, for 500, 5,000 and 100,000 judgments.

Compared for 100,000 with the same work done by hand, and with joblib's own file store, call by call (some three
minutes).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, interleaved, own_cache, told
from cached_floor import floor
from cached_items import TEXT, items_of, reply

import evalkit as ek

JUDGE = "openai:gpt-4o-mini"


def replayed(items: list[dict[str, object]], samples: int) -> float:
    """Seconds of one cached call, table included."""
    started = time.perf_counter()
    table = ek.judge(items, "faithfulness", JUDGE, samples=samples, offline=True, on_miss="raise")
    seconds = time.perf_counter() - started
    assert len(table) == len(items) * samples
    assert table["score"].notna().all()
    return seconds


def asked(prompt: str, model: str, sample: int) -> dict[str, object]:
    """What a memoized function would keep: a reply as a dict."""
    return {"text": reply(len(prompt), sample), "model": model}


def file_store(n: int) -> float:
    """Seconds that joblib's default store takes for n cached calls and their table, prompts ready."""
    import joblib
    import pandas as pd

    prompts = [f"When was station {i} opened? " + TEXT * 20 for i in range(n)]
    with tempfile.TemporaryDirectory() as folder:
        ask = joblib.Memory(folder, verbose=0).cache(asked)
        for prompt in prompts:
            ask(prompt, "gpt-4o-mini", 0)
        started = time.perf_counter()
        rows = [json.loads(str(ask(prompt, "gpt-4o-mini", 0)["text"])) for prompt in prompts]
        table = pd.DataFrame(rows)
        seconds = time.perf_counter() - started
    assert len(table) == n
    return seconds


met = True
with own_cache():
    for n_items, samples, limit in ((167, 3, 0.05), (1667, 3, 0.3), (33_334, 3, 2.0)):
        items = items_of(n_items)
        ek.record(items, "faithfulness", JUDGE, [[reply(i, k) for k in range(samples)] for i in range(n_items)])
        replayed(items[:1], samples)  # first touch
        seconds = [replayed(items, samples) for _ in range(5)]
        n = n_items * samples
        print(told(f"{n:,} cached judgments", seconds), f"= {n / statistics.median(seconds):,.0f} a second")
        met &= bar(f"{n:,} cached judgments, call to table", statistics.median(seconds), limit, " s")
with own_cache() as folder:  # a store of its own, which the floor reads whole
    items = items_of(100_000)
    ek.record(items, "faithfulness", JUDGE, [[reply(i, 0)] for i in range(100_000)])
    seen = interleaved({"evalkit": lambda: replayed(items, 1), "by hand": lambda: floor(items, folder)})
    seconds = seen["evalkit"]
    print(told("100,000 items × 1 sample", seconds), f"= {100_000 / statistics.median(seconds):,.0f} a second")
    print(told("  the same replies by hand, nothing checked", seen["by hand"]))
    met &= bar("100,000 items × 1 sample, call to table", statistics.median(seconds), 1.3, " s")
    theirs, ours = file_store(100_000), statistics.median(seconds)
    print(f"joblib's file store, 100,000 cached calls and a table: {theirs:.1f} s; evalkit: {ours:.2f} s")
    # joblib opens files for each call: 430 µs where the first bar (1/30) was set, 90 to 100 µs on ext4 with a fast disk
    met &= bar("evalkit's share of the time of joblib's file store", ours / theirs, 1 / 5)
sys.exit(not met)
