"""How often the intervals of `pass_probabilities` contain the truth, and how often a useless cut is kept.

P with two decimals from a logit-normal; people pass with chance P (*calibrated*), or with that of half its logit (*too
sure*). Items come in clusters of 1, 5 or 20, correlated .2 (a Gaussian copula). `gap`, `brier` and `slope` are
compared with those of 400,000 other items. `python benchmarks/probabilities.py [ROUNDS]` (default
400) prints coverage in %; the exit code is 1 if one of `gap` and `brier` is under 93 by more than 2.6 standard errors.
The cut is that of a calibrated judge, chosen on 60 % of the labels; `kept` is % of rounds.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
from scipy.special import expit, logit, ndtri

from evalkit.stats.alignment.pass_probabilities import Chances, _bins, _figures
from evalkit.stats.alignment.pass_thresholds import _chosen_cut, _shown_cut

SIZES, CLUSTERS = (30, 100, 300, 1_000), (1, 5, 20)
NAMES = ("gap", "brier", "slope")
Drawn = tuple[np.ndarray, np.ndarray]


def drawn(draw: np.random.Generator, unit: np.ndarray, power: float) -> Drawn:
    """P and people's verdicts."""
    prob = np.round(expit(draw.normal(0.3, 1.5, len(unit))), 2)
    chance = np.clip(expit(power * logit(np.clip(prob, 0.001, 0.999))), 0, 1)
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
                shares = {
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
