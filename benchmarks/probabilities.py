"""How often the intervals of `pass_probabilities` contain the truth, and how often a useless cut or claim is kept.

P with two decimals from a logit-normal; people pass with chance P (*calibrated*), or with that of half its logit (*too
sure*). Items come in clusters of 1, 5 or 20, correlated .2 (a Gaussian copula). `gap`, `brier` and `slope` are
compared with those of 400,000 other items, people's rate in a bin with the mean chance of its items. `python
benchmarks/probabilities.py [ROUNDS]` (default 400) prints coverage in %; the exit code is 1 if one of `gap`, `brier`
and bins is under 93, or a claim wrong in over 5, by more than 2.6 standard errors.

A cut and a certainty are chosen on 60 % of the labels; `kept` is % of rounds. A claim ("at least .8 agreement from this
certainty on") is wrong if the agreement there, of 400,000 other items, is lower.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtri

from evalkit.stats.alignment.pass_probabilities import (
    CERTAINTIES,
    Chances,
    _bins,
    _decided,
    _fewest,
    _figures,
    _point,
    _sure_from,
)
from evalkit.stats.alignment.pass_thresholds import _chosen_cut, _shown_cut

SIZES, CLUSTERS = (30, 100, 300, 1_000), (1, 5, 20)
NAMES = ("gap", "brier", "slope")
Drawn = tuple[np.ndarray, np.ndarray]


def chance_of(prob: np.ndarray, power: float) -> np.ndarray:
    """How often people pass items of this P."""
    return np.clip(expit(power * logit(np.clip(prob, 0.001, 0.999))), 0, 1)


def drawn(draw: np.random.Generator, unit: np.ndarray, power: float) -> Drawn:
    """P and people's verdicts."""
    prob = np.round(expit(draw.normal(0.3, 1.5, len(unit))), 2)
    chance = chance_of(prob, power)
    shared = draw.normal(size=int(unit.max()) + 1)[unit]
    noise = math.sqrt(0.2) * shared + math.sqrt(0.8) * draw.normal(size=len(unit))
    return prob, (noise < ndtri(chance)).astype(float)


def chances(pair: Drawn, unit: np.ndarray) -> Chances:
    """One judge, all of whose items are labelled."""
    return Chances({"judge": "j"}, pd.Index(np.arange(len(unit))), unit, *pair, np.zeros(len(unit), dtype=bool))


def truth(power: float) -> dict[str, float]:
    """The figures of a large draw of single items."""
    unit = np.arange(400_000)
    prob, people = drawn(np.random.default_rng(1), unit, power)
    spread = np.cov(prob, people)
    return {"gap": (people - prob).mean(), "brier": ((people - prob) ** 2).mean(), "slope": spread[0, 1] / spread[0, 0]}


def bins_hit(row: Chances, power: float) -> list[bool]:
    """For each bin, whether its interval contains the mean chance of its items."""
    bins, hits = _bins(row), []
    for number in range(int(bins.max()) + 1):
        point, right = _point(row, bins, number), chance_of(row.prob[bins == number], power).mean()
        hits.append(point["people_low"] <= right <= point["people_high"])
    return hits


def claims(power: float, n: int, size: int, rounds: int, at_least: float = 0.8) -> tuple[float, float]:
    """% of rounds in which an agreement of `at_least` is claimed, and in which that is wrong."""
    prob, people = drawn(np.random.default_rng(2), np.arange(400_000), power)
    large = chances((prob, people), np.arange(400_000))
    agreed = {certainty: large.right[large.decided(certainty)].mean() for certainty in CERTAINTIES}
    made, wrong = 0, 0
    for number in range(rounds):
        unit, draw = np.arange(n) // size, np.random.default_rng([n, size, number])
        prob, people = drawn(draw, unit, power)
        is_dev = unit < int(0.6 * (unit.max() + 1))
        dev, held_out = (chances((prob[rows], people[rows]), unit[rows]) for rows in (is_dev, ~is_dev))
        threshold = _sure_from(dev, at_least)
        if math.isnan(threshold):
            continue
        row = _decided(held_out, threshold)
        if row["n_labelled"] >= _fewest(at_least) and row["agreement_low"] >= at_least:
            made += 1
            wrong += agreed[threshold] < at_least
    return 100 * made / rounds, 100 * wrong / rounds


def main(rounds: int) -> int:
    """Run the settings."""
    least = 93 - 260 * math.sqrt(0.93 * 0.07 / rounds)
    missed = False
    for name, power in (("calibrated", 1.0), ("too sure", 0.5)):
        right = truth(power)
        for size in CLUSTERS:
            for n in SIZES:
                unit, draw = np.arange(n) // size, np.random.default_rng([n, size])
                rows = [chances(drawn(draw, unit, power), unit) for _ in range(rounds)]
                made = pd.DataFrame([_figures(row, _bins(row), None) for row in rows])
                shares = {"bins": 100 * np.mean([hit for row in rows for hit in bins_hit(row, power)])}
                shares |= {
                    figure: 100
                    * made[f"{figure}_low"].le(right[figure]).mul(made[f"{figure}_high"].ge(right[figure])).mean()
                    for figure in NAMES
                    if f"{figure}_low" in made
                }
                missed |= any(share < least for figure, share in shares.items() if figure != "slope")
                ece = f"ECE {made['ece'].mean():.3f}, if calibrated {made['ece_if_calibrated'].mean():.3f}"
                text = ", ".join(f"{figure} {share:.0f}" for figure, share in shares.items())
                print(f"{name}, clusters of {size}, {n} labels: {text}; {ece}", flush=True)
    for name, power, shift in (("calibrated", 1.0, 0.0), ("P shifted up by one logit", 1.0, 1.0)):
        for n in (100, 400):
            kept = [_is_kept(np.random.default_rng([n, number]), n, power, shift) for number in range(rounds)]
            print(f"{name}, {n} labels: cut kept in {100 * np.mean(kept):.1f} %", flush=True)
    for name, power in (("calibrated", 1.0), ("too sure", 0.5)):
        for size in CLUSTERS:
            for n in (100, 300, 1_000):
                made, wrong = claims(power, n, size, rounds)
                missed |= wrong > 5 + 260 * math.sqrt(0.05 * 0.95 / rounds)
                print(f"{name}, clusters of {size}, {n} labels: .8 claimed in {made:.1f} %, wrongly in {wrong:.1f} %")
    return int(missed)


def _is_kept(draw: np.random.Generator, n: int, power: float, shift: float) -> bool:
    """Whether a cut that is chosen on 60 % of the labels is kept on the rest."""
    prob, people = drawn(draw, np.arange(n), power)
    prob = np.round(expit(logit(np.clip(prob, 0.01, 0.99)) + shift), 2)
    n_dev = int(0.6 * n)
    sides = [chances((prob[rows], people[rows]), np.arange(n)[rows]) for rows in (slice(n_dev), slice(n_dev, n))]
    row = _chosen_cut(sides[0], 5)
    return "notes" not in row and bool(_shown_cut(sides[1], row["cut"], 1)["kept"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
