"""The tuner: from the click on Run to updated tiles with everything cached, the first paint, and 2,000 items."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar, own_cache, told

import evalkit as ek

JURY = ["fake:strict", "fake:lenient", "fake:noisy"]
EDITS = ["Supported in the main; minor additions are acceptable.", "Fully supported, exactly and in every claim."]


def items_of(n: int) -> list[dict[str, object]]:
    return [
        {
            "item_id": f"i{i}",
            "question": f"When was station {i} opened?",
            "answer": f"It was opened in {1850 + i % 150}.",
            "context": [f"Station {i} was opened in {1850 + (i * 7) % 150}."],
            "people": i % 3,
        }
        for i in range(n)
    ]


def made(n: int) -> tuple[ek.RubricTuner, float]:
    """A tuner, and the seconds until it could be drawn."""
    started = time.perf_counter()
    tuner = ek.RubricTuner(items_of(n), "faithfulness", JURY, {"faithfulness": "people"}, folder=tempfile.mkdtemp())
    tuner._repr_mimebundle_()
    return tuner, time.perf_counter() - started


def act(tuner: ek.RubricTuner, **said: object) -> float:
    """Seconds until what a person did is on its way to the browser."""
    started = time.perf_counter()
    tuner._screen._receive(None, said, [])
    tuner._screen.worker.wait(60)
    return time.perf_counter() - started


def clicks(tuner: ek.RubricTuner, rounds: int) -> list[float]:
    """Seconds from each click on Run to the new tiles, the plan for the next run included; all cached."""
    for text in EDITS:
        tuner.edit("faithfulness", scale={2: text})
        tuner.run()
    seconds = []
    for at in range(rounds):
        tuner.edit("faithfulness", scale={2: EDITS[at % 2]})
        tuner._screen.worker.wait(60)
        seconds.append(act(tuner, do="run"))
    return seconds


with own_cache():
    tuner, painted = made(200)
    tuner.run()
    shown = clicks(tuner, 8)
    large, _ = made(2_000)
    large.run()
    shown_large = clicks(large, 4)
    paging = [act(large, do="query", query={"page": at, "filter": "split"}) for at in range(10)]
    opening = [act(large, do="select", item_id=f"i{at}") for at in range(10)]

print(told("click to tiles, 200 items, cached", shown))
print(told("click to tiles, 2,000 items, cached", shown_large))
print(told("a page of 2,000 items", paging))
print(told("an item of 2,000", opening))
met = bar("click to tiles, 200 items × 3 judges × 3 samples, cached", statistics.median(shown), 0.5, " s")
met &= bar("first paint after import", painted, 1.0, " s")
met &= bar("a page of 2,000 items", statistics.median(paging), 0.1, " s")
met &= bar("an item of 2,000", statistics.median(opening), 0.2, " s")
sys.exit(not met)
