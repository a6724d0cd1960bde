"""Peak memory of a cached re-run of 1,000,000 judgments of 260-character replies (about three minutes)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, fresh, own_cache

FILL = """
import json, sys
sys.path.insert(0, {here!r})
import evalkit as ek
text = "The station was opened in that year, as the reference says; the answer agrees with it in every detail. " * 2
n, step = 1_000_000, 50_000
for start in range(0, n // 5, step // 5):
    rows = range(start, start + step // 5)
    items = [{{"item_id": i, "question": "When?", "answer": f"Station {{i}}"}} for i in rows]
    replies = [
        [json.dumps({{"explanation": f"Station {{i}}: " + text, "score": (i + k) % 3}}) for k in range(5)] for i in rows
    ]
    ek.record(items, "relevancy", "openai:m", replies)
print(json.dumps({{}}))
"""
READ = """
import json, resource, time
import evalkit as ek
items = [{"item_id": i, "question": "When?", "answer": f"Station {i}"} for i in range(200_000)]
started = time.perf_counter()
table = ek.judge(items, "relevancy", "openai:m", samples=5, offline=True, on_miss="raise", replies=REPLIES)
seconds = time.perf_counter() - started
assert len(table) == 1_000_000 and table["score"].notna().all()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"peak_mb": peak, "table_mb": table.memory_usage(deep=True).sum() / 1e6, "s": seconds}))
"""

with own_cache():
    started = time.perf_counter()
    fresh(FILL.format(here=str(Path(__file__).parent)))
    print(f"recorded 1,000,000 replies in {time.perf_counter() - started:.0f} s")
    plain = fresh(READ.replace("REPLIES", "False"))
    whole = fresh(READ.replace("REPLIES", "True"))
print(f"without reply column: peak {plain['peak_mb']:.0f} MB, table {plain['table_mb']:.0f} MB, {plain['s']:.1f} s")
print(f"with reply column:    peak {whole['peak_mb']:.0f} MB, table {whole['table_mb']:.0f} MB, {whole['s']:.1f} s")
met = bar("peak memory, 1M judgments", plain["peak_mb"] / 1024, 1.3, " GB")
sys.exit(not met)
