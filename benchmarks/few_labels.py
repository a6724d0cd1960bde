"""Figures from few labels: do the intervals of `corpus_estimate` hold the corpus's mean, and how narrow are they?

A corpus of 3,000 items, of which people pass 50 or 90 %; a judge gives each of its three samples rightly with a
probability that differs between items, 80 to 99 % on average. Items come alone or in clusters of three that share half
of the variance of what people say. 30 to 300 labels are drawn at random or by uncertainty (`next_labels`'s Poisson
draw with 1 − self-agreement). `python benchmarks/few_labels.py [ROUNDS]` (default 1,000; `--quick` 150): coverage in %
and median width of the estimate; by how many percent labels alone are wider; the root mean square error; coverage of
the plug-in (the mean of the fitted scores, as if the fit were exact).
A cell under 93 % by more than two standard errors is marked and fails the benchmark.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from evalkit.stats.alignment.corpus_estimates import best_estimate, isotonic_fit, weighted_mean
from evalkit.stats.alignment.label_draws import FLOOR
from evalkit.stats.intervals import mean_interval

ITEMS, CLUSTER, SAMPLES = 3000, 3, 3
RIGHT, PASS, LABELS = (0.8, 0.9, 0.95, 0.99), (0.5, 0.9), (30, 60, 100, 300)
LOW = 0.93


@dataclass(frozen=True)
class Corpus:
    """The judge's scores, what people say, how likely an item is drawn (adds up to 1), and clusters."""

    score: np.ndarray
    said: np.ndarray
    share: np.ndarray
    unit: np.ndarray


def corpus(draw: np.random.Generator, right: float, rate: float, *, clustered: bool, active: bool) -> Corpus:
    unit = np.arange(ITEMS) // (CLUSTER if clustered else 1)
    shared = draw.normal(size=unit.max() + 1)[unit] * math.sqrt(0.5 * clustered)
    quality = shared + draw.normal(size=ITEMS) * math.sqrt(1 - 0.5 * clustered)
    said = (quality > np.quantile(quality, 1 - rate)).astype(float)
    right_each = draw.beta(2 * right, 2 * (1 - right), ITEMS)  # most items are easy, a few are nearly always wrong
    samples = np.where(draw.random((SAMPLES, ITEMS)) < right_each, said, 1 - said)
    score = samples.mean(axis=0)
    size = np.sqrt(np.where((score > 0) & (score < 1), 2 / 3, 0.0) + 1 / (SAMPLES + 1)) if active else np.ones(ITEMS)
    return Corpus(score, said, FLOOR / ITEMS + (1 - FLOOR) * size / size.sum(), unit)


def one_round(draw: np.random.Generator, n: int, *where: float, **how: bool) -> dict[str, float]:
    one = corpus(draw, *where, **how)
    chance = np.minimum(1.0, n * one.share)
    labelled = draw.random(ITEMS) < chance
    weights = np.where(labelled, 1 / chance, 0.0)
    weights /= weights.sum()
    said, truth, bounds = np.where(labelled, one.said, np.nan), one.said.mean(), (0.0, 1.0)
    alone = weighted_mean(np.zeros(ITEMS), said, weights, one.unit)
    if labelled.sum() < 2 or np.ptp(one.said[labelled]) == 0:
        return {"none": 1.0}
    _, mean, ends, _ = best_estimate(one.score, said, weights, one.unit, bounds=bounds, largest_error=1.0)
    human = alone.interval(said, weights, one.unit, bounds)
    fitted = np.interp(one.score, *isotonic_fit(one.score[labelled], one.said[labelled], weights[labelled]))
    plug = mean_interval(fitted, one.unit, bounds=bounds)
    return {
        "none": 0.0,
        "covers": ends.low <= truth <= ends.high,
        "width": ends.high - ends.low,
        "human": human.high - human.low,
        "error": (mean - truth) ** 2,
        "plug": plug.low <= truth <= plug.high,
    }


def main(rounds: int) -> int:
    started, missed = time.perf_counter(), []
    print(f"coverage % (width; labels alone wider by; error; plug-in covers), {rounds} rounds")
    print(f"{'':52}" + "".join(f"{f'{n} labels':>30}" for n in LABELS))
    for right in RIGHT:
        for rate in PASS:
            for clustered in (False, True):
                for active in (False, True):
                    where = f"right {100 * right:g} %, {100 * rate:g} % pass, {'clusters' if clustered else 'items'}, "
                    where += "by uncertainty" if active else "at random"
                    shown = [cell(rounds, n, right, rate, clustered=clustered, active=active) for n in LABELS]
                    missed += [f"{where}, {n} labels" for n, (_, met) in zip(LABELS, shown, strict=True) if not met]
                    print(f"{where:52}" + "".join(f"{text:>30}" for text, _ in shown), flush=True)
    print(f"{time.perf_counter() - started:.0f} s; covers less than the target: {'; '.join(missed) or 'nowhere'}")
    return int(bool(missed))


def cell(rounds: int, n: int, right: float, rate: float, *, clustered: bool, active: bool) -> tuple[str, bool]:
    """What is shown, and whether the target is met within two standard errors."""
    draw = np.random.default_rng([n, int(100 * right), int(100 * rate), clustered, active])
    found = [one_round(draw, n, right, rate, clustered=clustered, active=active) for _ in range(rounds)]
    there = [one for one in found if not one["none"]]
    mean = {name: float(np.mean([one[name] for one in there])) for name in there[0]}
    covers, error = mean["covers"], math.sqrt(mean["error"])
    width, human = (float(np.median([one[name] for one in there])) for name in ("width", "human"))
    met = covers >= LOW - 2 * math.sqrt(LOW * (1 - LOW) / len(there))
    text = f"{100 * covers:.1f}{'' if met else '*'} ({width:.2f}; +{100 * (human / width - 1):.0f}; {error:.3f}; "
    return text + f"{100 * mean['plug']:.0f})", met


if __name__ == "__main__":
    options = sys.argv[1:]
    given = [int(option) for option in options if option.isdecimal()]
    sys.exit(main(given[0] if given else 150 if "--quick" in options else 1000))
