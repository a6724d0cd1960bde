"""How often `ek.compare` finds a change where there is none, if the items of a group change together.

Two runs of items in groups; each group passes with a chance of one half before. "together": 30 % of the groups are
drawn again after, each as a whole, and the others stay. "apart": each item is drawn twice from the chance of its group,
which is beta-distributed (intraclass correlation .36). It prints the share of the rounds with `mcnemar_p` ≤ .05, in
brackets as if items were independent, with `sign_flip_p` ≤ .05, and in which `worse` names the criterion.
`python benchmarks/groups_that_change.py [ROUNDS]` (default 1,000, `worse` in a fifth of them); the exit code is 1 if a
share is over .05 by more than 2.6 standard errors.

Of 1,000 rounds (standard error .007; `worse`: 200 rounds, .015); *of items*: as if items were independent:

| groups | together: `mcnemar_p` | of items | `sign_flip_p` | `worse` | apart: | of items | `sign_flip_p` | `worse` |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 20 of five | .006 | .479 | .003 | .000 | .047 | .048 | .032 | .025 |
| 6 copies of one item, 24 items | .014 | .085 | .003 | .010 | .043 | .042 | .018 | .015 |
| 60 single items | .037 | .037 | .021 | .010 | .047 | .047 | .029 | .025 |
| 20 of three | .011 | .270 | .004 | .005 | .045 | .041 | .024 | .020 |
| 60 of 1 to 9 | .050 | .454 | .040 | .035 | .044 | .038 | .040 | .025 |
| 60 Pareto | .049 | .453 | .029 | .020 | .058 | .052 | .044 | .020 |
| 200 Zipf | .047 | .723 | .042 | .015 | .051 | .047 | .046 | .015 |
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import pandas as pd
from unequal_clusters import KINDS

import evalkit as ek
from evalkit.stats.significance import mcnemar_midp, sign_flip

NAMES = ("60 of 1", "20 of 3", "60 of 1-9", "60 Pareto", "200 Zipf", "one has 1/4")
SIZES = {"20 of 5": np.full(20, 5), "6 copies, 24": np.array([6, *[1] * 24])} | {name: KINDS[name] for name in NAMES}
SCALE = ek.Scale.of([0, 1], pass_at=1)
LEVEL = 0.05
Sides = tuple[np.ndarray, np.ndarray]


def together(draw: np.random.Generator, units: np.ndarray) -> Sides:
    n = int(units.max()) + 1
    was, again, changes = (draw.random(n) < share for share in (0.5, 0.5, 0.3))
    return was[units].astype(float), np.where(changes, again, was)[units].astype(float)


def apart(draw: np.random.Generator, units: np.ndarray) -> Sides:
    chance = draw.beta(0.89, 0.89, int(units.max()) + 1)[units]  # 1 / (1 + 2 · .89) = .36
    return (draw.random(len(units)) < chance).astype(float), (draw.random(len(units)) < chance).astype(float)


def is_worse(sides: Sides, units: np.ndarray) -> bool:
    ids = [f"i{at}" for at in range(len(units))]
    tables = [pd.DataFrame({"item_id": ids, "judge": "j", "score": side}) for side in sides]
    return bool(ek.compare(*tables, scale=SCALE, clusters=dict(zip(ids, units.tolist(), strict=True))).worse)


def shares(draw: np.random.Generator, units: np.ndarray, make: Callable[..., Sides], rounds: int) -> list[float]:
    found, worse = [], []
    for number in range(rounds):
        before, after = make(draw, units)
        steps = after - before
        ps = mcnemar_midp(steps, units), mcnemar_midp(steps, np.arange(len(units))), sign_flip(steps, units)
        found.append([p <= LEVEL for p in ps])
        if number % 5 == 0:
            worse.append(is_worse((before, after), units))
    return [*np.mean(found, axis=0).tolist(), float(np.mean(worse))]


def main(rounds: int) -> int:
    """Run the settings."""
    missed = False
    for number, (kind, sizes) in enumerate(SIZES.items()):
        units, texts = np.repeat(np.arange(len(sizes)), sizes), []
        for make in (together, apart):
            mcnemar, of_items, flips, worse = shares(np.random.default_rng([number]), units, make, rounds)
            limits = [LEVEL + 2.6 * math.sqrt(LEVEL * (1 - LEVEL) / n) for n in (rounds, rounds, rounds // 5)]
            missed |= any(share > limit for share, limit in zip((mcnemar, flips, worse), limits, strict=True))
            texts.append(f"{make.__name__}: {mcnemar:.3f} ({of_items:.3f}), flips {flips:.3f}, worse {worse:.3f}")
        print(f"{kind:14}" + "; ".join(texts), flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
