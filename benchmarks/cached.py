"""Cached re-runs: from the call to the table, for 500, 5,000 and 100,000 judgments.

Compared for 100,000 with joblib's own file store, call by call (measured on 2,000 entries and scaled:
its cost is per entry).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, own_cache, told

import evalkit as ek

JUDGE = "openai:gpt-4o-mini"
TEXT = "The station was opened in that year, as the reference says; the answer agrees with it in every detail. "


def items_of(n: int) -> list[dict[str, object]]:
    """Items with some 200 characters of answer and of context each."""
    return [
        {
            "question": f"When was station {i} opened?",
            "answer": f"In {1850 + i % 150}. " + TEXT * 2,
            "context": [TEXT * 2],
        }
        for i in range(n)
    ]


def reply(i: int, sample: int) -> str:
    """A reply of some 260 characters."""
    return json.dumps({"explanation": f"Station {i}: " + TEXT * 2, "score": (i + sample) % 3})


def replayed(items: list[dict[str, object]], samples: int) -> float:
    """Seconds of one cached call, table included."""
    started = time.perf_counter()
    table = ek.judge(items, "faithfulness", JUDGE, samples=samples, offline=True, on_miss="raise")
    seconds = time.perf_counter() - started
    assert len(table) == len(items) * samples
    assert table["score"].notna().all()
    return seconds


def file_store(n: int) -> float:
    """Seconds of a hit in joblib's default store."""
    import joblib

    with tempfile.TemporaryDirectory() as folder:
        memory = joblib.Memory(folder, verbose=0)
        ask = memory.cache(lambda_free)
        for i in range(n):
            ask(i, TEXT)
        started = time.perf_counter()
        for i in range(n):
            ask(i, TEXT)
        return (time.perf_counter() - started) / n


def lambda_free(i: int, text: str) -> dict[str, object]:
    """What joblib's store keeps in the comparison: a reply as a dict."""
    return {"text": reply(i, len(text)), "model": "m"}


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
    each = file_store(2000)
    ours = statistics.median(seconds) / n
    print(f"joblib's file store: {each * 1e6:.0f} µs a hit; evalkit: {ours * 1e6:.1f} µs a judgment, table included")
    met &= bar("evalkit's share of joblib's file store", ours / each, 1 / 30)
    items = items_of(100_000)
    ek.record(items, "faithfulness", JUDGE, [[reply(i, 0)] for i in range(100_000)])
    seconds = [replayed(items, 1) for _ in range(5)]
    print(told("100,000 items × 1 sample", seconds), f"= {100_000 / statistics.median(seconds):,.0f} a second")
    met &= bar("100,000 items × 1 sample, call to table", statistics.median(seconds), 2.0, " s")
sys.exit(not met)
