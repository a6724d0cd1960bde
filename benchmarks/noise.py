"""Test, noise floor and range of `compare`, in simulations where the truth is known.

A judge passes each item with a probability of its own: *uniform* (it errs on every item alike), *Beta* (a Beta
distribution with the same mean floor at three samples), *few* (one item in sixteen is a coin, all others are sure),
*none* (it never wavers). Items come alone or in clusters of five that share this probability. The edit turns 3 % of the
items (or clusters) around. Per kind, k samples and n items:

- *size*, *power*: how often `change_p` ≤ .05 without and with the edit; *count*: how often the changed verdicts exceed
  `chance_up_to`, without and with the edit;
- *floor*: how often the measured interval holds the true share, its mean width, and the items that it took (±3
  points, at most all); *range*: how often the range of k samples contains it, and its mean width.

``python benchmarks/noise.py [--rounds 100] [--ranges 25] [--k 3 5 9] [--items 100 1000] [--kinds …]``;
``--sizes 1000`` for the size of the test alone.

Of 100 rounds (of 1,000 with 100 items); three values in a cell are for 3, 5 and 9 samples; *range width* is of 25
rounds, and the range always held the true share (uniform: .031, .007, .0004; Beta: .028, .022, .017; few: .031; none:
0):

| noise | items | size | power | floor covers | width | items asked | range width |
| --- | --- | --- | --- | --- | --- | --- | --- |
| uniform | 100 | .02, .03, .06 | .66, .98, 1 | .98, .99, .99 | .06, .05, .05 | 89, 63, 61 | .20, .08, .04 |
| uniform | 100 in 20 | .03, .04, .05 | .94, 1, 1 | 1 | .17, .13, .14 | 100 | .29, .15, .06 |
| uniform | 1000 | .07, .05, .04 | 1 | 1, .98, .98 | .06, .05, .05 | 104, 63, 61 | .14, .02, .01 |
| uniform | 1000 in 200 | .03, .03, .08 | 1 | .98, 1, .95 | .06, .05, .05 | 126, 69, 68 | .16, .04, .01 |
| Beta | 100 | .02, .04, .05 | .89, .99, 1 | .96, .97, .98 | .06 | 85, 82, 75 | .09, .07, .08 |
| Beta | 100 in 20 | .02, .03, .04 | .94, .96, .96 | .97, .98, .97 | .16, .16, .15 | 100 | .19, .16, .14 |
| Beta | 1000 | .03, .03, .07 | 1 | .98, .96, .99 | .06, .05, .05 | 112, 91, 82 | .06, .04, .03 |
| Beta | 1000 in 200 | .05, .05, .04 | 1 | .99, 1, .98 | .06, .06, .05 | 123, 110, 91 | .08, .06, .05 |
| few | 100 | .03, .03, .04 | .89, 1, 1 | .98, .96, .96 | .07, .06, .06 | 89, 90, 88 | .08, .07, .07 |
| few | 100 in 20 | .01, .04, .04 | .93, .95, .95 | .97, .98, .98 | .18, .18, .17 | 100 | .18, .14, .14 |
| few | 1000 | .06, .02, .02 | 1 | .96, .98, .96 | .05 | 130, 111, 124 | .04, .03, .03 |
| few | 1000 in 200 | .04, .06, .03 | 1 | .98, .99, .97 | .06 | 149, 149, 157 | .06, .06, .07 |
| none | 100 | .00 | 1 | 1 | .06 | 61 | .03, .02, .02 |
| none | 100 in 20 | .00 | 1 | 1 | .16 | 100 | .12, .10, .09 |
| none | 1000 | .00 | 1 | 1 | .06 | 61 | .00 |
| none | 1000 in 200 | .00 | 1 | 1 | .06 | 74, 75, 75 | .01 |

The changed verdicts exceeded `chance_up_to` in at most 3 % of the rounds with the edit, and never without. With
``--sizes 1000`` and 100 items, the size is .02 to .045, and 0 without noise.
"""

from __future__ import annotations

import argparse
import math
import sys
import time

import numpy as np
import pandas as pd

from evalkit.stats.comparison.measured_floors import Floor, chance_limit, design_effect, flip_rate_range, measured_floor
from evalkit.stats.significance import Outcomes, permuted_samples

KINDS = ("uniform", "Beta", "few", "none")
ERROR, COINS, ALPHA, BETA = 0.0744, 1 / 16, 0.35, 0.35 / 11
CLUSTER, EDITED, HALF_WIDTH, START = 5, 0.03, 0.03, 61


def probabilities(draw: np.random.Generator, kind: str, n: int) -> np.ndarray:
    """The probability to pass of n items or clusters; half of them are good answers."""
    good = draw.random(n) < 0.5
    error = {
        "uniform": np.full(n, ERROR),
        "Beta": draw.beta(BETA, ALPHA, n),
        "few": np.where(draw.random(n) < COINS, 0.5, 0.0),
        "none": np.zeros(n),
    }[kind]
    return np.where(good, 1 - error, error)


def flips(p: np.ndarray, k: int) -> np.ndarray:
    """D(p) = 2 P(pass) P(fail) of a vote of k samples, k odd."""
    passing = sum(math.comb(k, j) * p**j * (1 - p) ** (k - j) for j in range(k // 2 + 1, k + 1))
    return 2 * passing * (1 - passing)


def halves(k: int) -> np.ndarray:
    """For x passes of 2k, the share of splits into halves whose votes differ."""
    found = np.zeros(2 * k + 1)
    for x in range(2 * k + 1):
        for first in range(max(0, x - k), min(x, k) + 1):
            ways = math.comb(x, first) * math.comb(2 * k - x, k - first) / math.comb(2 * k, k)
            found[x] += ways * ((2 * first > k) != (2 * (x - first) > k))
    return found


def tested(a: np.ndarray, b: np.ndarray, k: int) -> float:
    cell = np.repeat(np.arange(len(a)), 2)
    return permuted_samples(Outcomes(cell, np.stack([a, k - a], 1).reshape(-1), np.stack([b, k - b], 1).reshape(-1)))


def floor_of(draw: np.random.Generator, changed: np.ndarray, unit: np.ndarray) -> Floor:
    """As `sample_again` draws items until the interval is narrow enough."""
    order, n = draw.permutation(len(changed)), min(len(changed), START)
    while True:
        names = [str(at) for at in order[:n]]
        clusters = dict(zip(names, unit[order[:n]].tolist(), strict=True))
        found = measured_floor(pd.Series(changed[order[:n]], index=names), clusters)
        if n == len(changed) or found.ends.high - found.ends.low <= 2 * HALF_WIDTH:
            return found
        wanted = math.ceil(1.1 * 3.84 * found.spread**2 / HALF_WIDTH**2)
        n = min(len(changed), max(n + 10, wanted))


def sizes(rounds: int, ks: list[int], kinds: list[str]) -> None:
    """The size of the test alone, at 100 items, in many rounds."""
    for kind in kinds:
        for k in ks:
            draw = np.random.default_rng([9, KINDS.index(kind), k])
            chances = [probabilities(draw, kind, 100) for _ in range(rounds)]
            found = [tested(draw.binomial(k, p), draw.binomial(k, p), k) <= 0.05 for p in chances]
            print(f"{kind}, k = {k}: size {np.mean(found):.4f} in {rounds} rounds", flush=True)


def cell(kind: str, k: int, n: int, size: int, rounds: int, ranges: int) -> dict[str, float]:
    draw = np.random.default_rng([KINDS.index(kind), k, n, size])
    true = float(flips(probabilities(np.random.default_rng(0), kind, 1_000_000), k).mean())
    unit, share = np.arange(n) // size, halves(k)
    rows = []
    for at in range(rounds):
        p = probabilities(draw, kind, n // size)
        edited = np.where(draw.permutation(n // size) < round(EDITED * n / size), 1 - p, p)[unit]
        p = p[unit]
        a, same, turned = (draw.binomial(k, chance) for chance in (p, p, edited))
        floor = floor_of(draw, share[draw.binomial(2 * k, p)], unit)
        limit = chance_limit(n, floor)
        counts = [((2 * a > k) != (2 * b > k)).sum() for b in (same, turned)]
        row = {"size": tested(a, same, k) <= 0.05, "power": tested(a, turned, k) <= 0.05}
        row |= {"count": counts[0] > limit, "count, edit": counts[1] > limit}
        row |= {
            "floor": floor.ends.low <= true <= floor.ends.high,
            "width": floor.ends.high - floor.ends.low,
            "items": floor.n_items,
        }
        if at < ranges:
            low, high = flip_rate_range(tuple(np.bincount(a, minlength=k + 1).tolist()), design_effect(a, unit))
            row |= {"range": low - 1e-4 <= true <= high + 1e-4, "range width": high - low}
        rows.append(row)
    return {"true": true} | pd.DataFrame(rows).astype(float).mean().to_dict()


def main(arguments: argparse.Namespace) -> int:
    if arguments.sizes:
        sizes(arguments.sizes, arguments.k, arguments.kinds)
        return 0
    started, missed = time.perf_counter(), []
    names = ["true", "size", "power", "count", "count, edit", "floor", "width", "items", "range", "range width"]
    print("| noise | k | items | " + " | ".join(names) + " |")
    print("| --- " * (3 + len(names)) + "|")
    for kind in arguments.kinds:
        for k in arguments.k:
            for n in arguments.items:
                for size in (1, CLUSTER):
                    found = cell(kind, k, n, size, arguments.rounds, arguments.ranges)
                    where = f"{n}" + (f" in {n // size} clusters" if size > 1 else "")
                    values = [f"{found[name]:.0f}" if name == "items" else f"{found[name]:.3f}" for name in names]
                    print(f"| {kind} | {k} | {where} | " + " | ".join(values) + " |", flush=True)
                    error = 2.6 * math.sqrt(0.05 * 0.95 / arguments.rounds)
                    if found["size"] > 0.05 + error or found["floor"] < 0.95 - error:
                        missed.append(f"{kind}, k = {k}, {where}")
                    if found["range"] < 0.95 - 2.6 * math.sqrt(0.05 * 0.95 / arguments.ranges):
                        missed.append(f"range: {kind}, k = {k}, {where}")
    print(f"{time.perf_counter() - started:.0f} s; MISSED: {'; '.join(missed) or 'none'}")
    return int(bool(missed))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="rounds per line (default 100)")
    parser.add_argument("--ranges", type=int, default=25, help="rounds of these with a range (default 25)")
    parser.add_argument("--k", type=int, nargs="+", default=[3, 5, 9], help="samples per item, odd (default 3 5 9)")
    parser.add_argument("--items", type=int, nargs="+", default=[100, 1000], help="multiples of 5 (default 100 1000)")
    parser.add_argument("--sizes", type=int, default=0, help="only the size of the test, in so many rounds")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    sys.exit(main(parser.parse_args()))
