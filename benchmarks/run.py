"""All bars, one after another: `make bench` (or `python benchmarks/run.py NAME …` for some).

Each bar is a script of its own that prints its figures and exits with 1 when a bar is missed, 0 else;
bars that need something that is not there say so and count as skipped.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
BARS = (
    "imports", "path_length", "cached", "history", "edited", "memory", "statistics_at_scale", "topical_chat",
    "reference", "interval_coverage", "unequal_clusters", "rank_coverage", "few_labels", "rare_errors",
    "calibration_check", "one_order", "few_labels_recorded", "live", "server_store", "batches",
    "criteria_per_call", "judgelm", "hostile_replies", "repair_question", "gate", "faults", "kills", "budget",
    "messages", "tuner", "local_models",
)  # fmt: skip
BY_NAME_ONLY = (
    "alt_test_few_items",
    "decision_judges",
    "groups_that_change",
    "growth",
    "machines",
    "noise",
    "probabilities",
    "random_servers",
    "soak",
    "stated_forms",
)


def main(names: list[str]) -> int:
    """Run the bars and say which were missed."""
    unknown = [name for name in names if name not in (*BARS, *BY_NAME_ONLY)]
    if unknown:
        print(f"unknown bar {', '.join(unknown)}; there are {', '.join((*BARS, *BY_NAME_ONLY))}")
        return 2
    missed = []
    for name in names or BARS:
        print(f"\n=== {name}", flush=True)
        started = time.perf_counter()
        if subprocess.run([sys.executable, HERE / f"{name}.py"], check=False).returncode:
            missed.append(name)
        print(f"({time.perf_counter() - started:.0f} s)", flush=True)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nall bars met or skipped")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
