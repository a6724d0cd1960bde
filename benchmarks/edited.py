"""One criterion edited, 200 items × 3 judges × 3 samples, all cached: from the edit to every figure."""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, own_cache, told

import evalkit as ek

JURY = ["fake:strict", "fake:lenient", "fake:noisy"]
ITEMS = [
    {
        "question": f"When was station {i} opened?",
        "answer": f"It was opened in {1850 + i % 150}.",
        "context": [f"Station {i} was opened in {1850 + (i * 7) % 150}."],
    }
    for i in range(200)
]

with own_cache():
    rubric = ek.load_rubric("faithfulness")
    labels = ek.extract_labels([row | {"people": i % 3} for i, row in enumerate(ITEMS)], {"faithfulness": "people"})
    before = ek.evaluate(ITEMS, rubric, JURY, labels=labels, progress=False)
    edited = rubric.edit("faithfulness", scale={1: "One side remark is unsupported."})
    ek.judge(ITEMS, edited, JURY, progress=False)

    def table() -> float:
        """Seconds to the judgments."""
        started = time.perf_counter()
        ek.judge(ITEMS, edited, JURY, progress=False)
        return time.perf_counter() - started

    def figures() -> float:
        """Seconds to every figure with its interval, and the comparison."""
        started = time.perf_counter()
        after = ek.evaluate(ITEMS, edited, JURY, labels=labels, progress=False)
        str(after)
        str(ek.compare(before, after, labels=labels))
        return time.perf_counter() - started

    figures()
    judged, shown = [table() for _ in range(7)], [figures() for _ in range(7)]
print(told("edit to judgments", judged))
print(told("edit to every figure and the comparison", shown))
met = bar("edit to judgments, cached", statistics.median(judged), 0.5, " s")
met &= bar("edit to every figure and the comparison, cached", statistics.median(shown), 0.5, " s")
sys.exit(not met)
