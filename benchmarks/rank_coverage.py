"""How often the 95 % intervals of `rank` hold the strengths, in simulations where they are known: 93 to 97.5 %.

Four systems with strengths .9, .3, −.3 and −.9 (or eight, from 1.4 to −1.4), in random pairs with the ties of Davidson
(ν = .8), in clusters whose comparisons are independent, or share how good each system is on them (standard deviation .7
of the log odds; the truth is then the limit of the estimate over clusters). `python benchmarks/rank_coverage.py
[ROUNDS]` (default 500: standard error of a cell about .5 points, as strengths of one round are not independent).
Rounds in which a system wins or loses everything have no strength of it, and are left out; their share is shown if it
is over 1 %.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from evalkit.stats.aggregation.bradley_terry import Comparisons, Fit, fit, has_maximum, win_counts
from evalkit.stats.intervals import mean_interval

STRENGTHS = {"4 systems": np.linspace(0.9, -0.9, 4), "8 systems": np.linspace(1.4, -1.4, 8)}
SIZES = ((8, 8), (15, 4), (30, 4), (60, 1), (60, 4), (200, 1), (200, 4))
NU, SHARED = 0.8, 0.7
LOW, HIGH = 0.93, 0.975


def drawn(draw: np.random.Generator, units: int, size: int, strengths: np.ndarray, shared: float) -> Comparisons:
    """Comparisons of one judge."""
    n, k = units * size, len(strengths)
    unit = np.repeat(np.arange(units), size)
    first = draw.integers(0, k, n)
    second = (first + draw.integers(1, k, n)) % k
    own = strengths + shared * draw.normal(size=(units, k))
    return Comparisons(first, second, voted(draw, own[unit, first] - own[unit, second]), unit)


def voted(draw: np.random.Generator, odds: np.ndarray) -> np.ndarray:
    weight = np.stack([np.exp(odds / 2), np.full(len(odds), NU), np.exp(-odds / 2)])
    place = draw.random(len(odds)) * weight.sum(axis=0)
    return np.select([place < weight[0], place < weight[:2].sum(axis=0)], [1.0, 0.5], 0.0)


def fitted(data: Comparisons, k: int) -> Fit | None:
    wins, even = win_counts(data, k)
    reach = np.linalg.matrix_power((wins + even > 0) + np.eye(k), k) > 0
    return fit(data, "davidson") if reach.all() and has_maximum(wins, even) else None


def share(draw: np.random.Generator, rounds: int, where: tuple[int, int], strengths: np.ndarray, kind: str) -> str:
    shared = SHARED if kind == "shared" else 0.0
    truth = strengths
    if shared:
        many = fit(drawn(np.random.default_rng(0), 100_000, 4, strengths, shared), "davidson")
        truth = many.strength if many else truth
    held, missing = [], 0
    for _ in range(rounds):
        data = drawn(draw, *where, strengths, shared)
        found = fitted(data, len(strengths))
        if found is None:
            missing += 1
            continue
        ends = [mean_interval(column, np.arange(len(column))) for column in found.clusters.T]
        held.append(np.mean([end.low <= value <= end.high for end, value in zip(ends, truth, strict=True)]))
    if len(held) < 0.1 * rounds:
        return f"({100 * missing / rounds:.0f}% NA)"
    mean, error = float(np.mean(held)), 2 * float(np.std(held)) / np.sqrt(len(held))
    met = LOW - error <= mean <= HIGH + error
    return (
        f"{100 * mean:.1f}"
        + "*" * (not met)
        + (f" ({100 * missing / rounds:.0f}% NA)" if missing > rounds / 100 else "")
    )


def main(rounds: int) -> int:
    started, missed = time.process_time(), 0
    print(f"coverage of 95 % intervals in %, {rounds} rounds; * outside of 93-97.5 by over two standard errors")
    print(f"{'clusters × comparisons':36}" + "".join(f"{f'{units} × {size}':>16}" for units, size in SIZES))
    for name, strengths in STRENGTHS.items():
        for kind in ("independent", "shared"):
            draw = np.random.default_rng([len(strengths), len(kind)])
            texts = [share(draw, rounds, where, strengths, kind) for where in SIZES]
            missed += sum("*" in text for text in texts)
            print(f"{f'{name}, {kind}':36}" + "".join(f"{text:>16}" for text in texts), flush=True)
    print(f"{time.process_time() - started:.0f} s of CPU; outside of the target: {missed} cells")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 500))
