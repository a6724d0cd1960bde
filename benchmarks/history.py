"""The log of evaluations: 10,000 are listed, one is opened by its id, and one is evaluated again."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, own_cache, told

import evalkit as ek
from evalkit.core.reply_keys import digest
from evalkit.evaluation import open_evaluation

N_EVALUATIONS = 10_000


def seconds_of(task: Callable[[], object]) -> float:
    """Seconds of one call, median of five."""
    runs = []
    for _ in range(5):
        started = time.perf_counter()
        task()
        runs.append(time.perf_counter() - started)
    print(told(getattr(task, "__name__", "call"), runs))
    return statistics.median(runs)


with own_cache():
    items, labels = ek.load_example("support")
    ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], labels=labels, progress=False)
    store = ek.engine.ReplyStore.open()
    ((first, _, summary, settings),) = store.evaluations(ek.history().loc[0, "evaluation"])
    waiting = [
        store.log_evaluation(digest(number), float(number), summary, settings or "")
        for number in range(1, N_EVALUATIONS)
    ]
    for waiter in waiting:
        waiter.result()
    print(f"{N_EVALUATIONS:,} evaluations: {store.path.stat().st_size / N_EVALUATIONS:,.0f} bytes each")

    def listed() -> None:
        assert len(ek.history()) == N_EVALUATIONS

    def opened() -> None:
        open_evaluation(first[:10], items, labels)

    def again() -> None:
        ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], labels=labels, progress=False)

    met = bar("10,000 evaluations listed", seconds_of(listed), 1.0, " s")
    met &= bar("one of 10,000 opened, 24 items", seconds_of(opened), 0.5, " s")
    met &= bar("the same evaluation again, 24 items", seconds_of(again), 0.5, " s")
sys.exit(not met)
