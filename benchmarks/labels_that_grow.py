"""How often *Keep* stands beside an edit that is no better, if one looks again after each label.

    python benchmarks/labels_that_grow.py [rounds]

Labels grow from 20 to 480, one by one, in items that stand alone or in groups of five that change together. Of edits
that fix as much as they break, printed is the share that is kept at any look: by the 95 % interval alone, and as the
tuner does it, by the interval at the first look and by the evidence at the later ones. The last column is how often the
tuner keeps an edit that is better on 8 of 100 items (on 4, if only 4 change). All seeds are fixed. The exit code is 1
if the tuner keeps more than 5 % of edits that are no better (4 %, and what 2,000 rounds leave open).

Of 400 rounds:

| changed | groups of | false *Keep*: interval alone | false *Keep*: tuner | kept if better on 8 of 100 (or 4) |
| --- | --- | --- | --- | --- |
| 4 % | 1 | .060 | .005 | 1.00 |
| 4 % | 5 | .033 | .000 | .09 |
| 10 % | 1 | .120 | .018 | 1.00 |
| 10 % | 5 | .065 | .010 | .55 |
| 30 % | 1 | .145 | .033 | .77 |
| 30 % | 5 | .142 | .022 | .16 |
"""

from __future__ import annotations

import sys

import numpy as np

from evalkit.stats.intervals import change_interval
from evalkit.stats.significance import evidence

FIRST, LAST, ENOUGH = 20, 480, 20
MANY = 200
TABLE = np.array([[evidence(fixed, broke) for broke in range(MANY)] for fixed in range(MANY)])


def steps_of(rng: np.random.Generator, changed: float, better: float, size: int) -> np.ndarray:
    """1 for an item that an edit fixes, −1 for one that it breaks; all items of a group alike."""
    chances = [(changed - better) / 2, 1 - changed, (changed + better) / 2]
    return np.repeat(rng.choice([-1.0, 0.0, 1.0], size=LAST // size, p=chances), size)


def is_kept(steps: np.ndarray, size: int) -> tuple[bool, bool]:
    """Kept at any look by the interval alone, and by the rule of the tuner."""
    groups = np.arange(LAST) // size
    by_interval = by_rule = False
    for n in range(FIRST, LAST + 1, size):
        if not steps[:n].sum() > 0:
            continue
        is_above = change_interval(steps[:n], groups[:n]).low > 0
        sums = np.add.reduceat(steps[:n], np.arange(0, n, size))
        is_evident = TABLE[int((sums > 0).sum()), int((sums < 0).sum())] >= ENOUGH
        by_interval |= is_above
        by_rule |= is_above and (n == FIRST or is_evident)
    return by_interval, by_rule


def main(rounds: int) -> int:
    highest = 0.0
    print("changed  group  interval  tuner  kept if 8 of 100 better")
    for changed in (0.04, 0.1, 0.3):
        for size in (1, 5):
            rng = np.random.default_rng(int(1000 * changed) + size)
            kept = np.mean([is_kept(steps_of(rng, changed, 0.0, size), size) for _ in range(rounds)], axis=0)
            better = min(0.08, changed)
            power = np.mean([is_kept(steps_of(rng, changed, better, size), size)[1] for _ in range(rounds // 4)])
            highest = max(highest, float(kept[1]))
            print(f"{changed:7} {size:6} {kept[0]:9.3f} {kept[1]:6.3f} {power:8.2f}", flush=True)
    return int(highest > 0.05)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000))
