"""What `Calibration.check` says of fresh items, of the same population and where people became stricter.

A judge of 1-5: scores or passes, with a line under 100 labels and steps from there. The map is fitted on 60, 100 or 300
labels and checked on 60 to 1,000 fresh ones: of the same population, of better systems (the same map), and where people
are lower by .05 or .10 of the width. `python benchmarks/calibration_check.py [ROUNDS]` (default 1,000;
`--quick` 100): per cell, in % of the rounds: *does not hold* although it does (in brackets without the variance of the
map), the same for better systems, *does not hold* at .05 and .10, *holds* although nothing changed; and the mean half
width. More than 6 % of false alarms by more than two standard errors fail the benchmark.

Of 1,000 rounds:

| fitted on, checked on | false alarm | better systems | .05 | .10 | `holds` | ± |
| --- | --- | --- | --- | --- | --- | --- |
| scores: 60, 60 | 4 % (17 %) | 6 % | 25 % | 74 % | 0 % | .07 |
| scores: 60, 300 | 5 % (42 %) | 6 % | 37 % | 91 % | 1 % | .06 |
| scores: 100, 100 | 5 % (17 %) | 5 % | 38 % | 93 % | 0 % | .06 |
| scores: 300, 300 | 4 % (18 %) | 4 % | 85 % | 100 % | 72 % | .03 |
| scores: 300, 1,000 | 4 % (35 %) | 4 % | 95 % | 100 % | 93 % | .03 |
| passes: 60, 60 | 5 % (17 %) | 5 % | 16 % | 37 % | 0 % | .15 |
| passes: 60, 300 | 7 % (43 %) | 6 % | 18 % | 45 % | 0 % | .12 |
| passes: 100, 300 | 4 % (35 %) | 6 % | 19 % | 54 % | 0 % | .09 |
| passes: 300, 300 | 5 % (18 %) | 5 % | 35 % | 85 % | 0 % | .07 |
| passes: 300, 1,000 | 4 % (37 %) | 7 % | 47 % | 96 % | 0 % | .05 |
"""

from __future__ import annotations

import math
import sys
import time

import numpy as np

from evalkit.stats.alignment.calibrations import fitted_map, map_variance, residual_row
from evalkit.stats.intervals import mean_interval

CELLS = ((60, 60), (60, 300), (100, 100), (100, 300), (300, 300), (300, 1000))
HIGHEST, MARGIN = 0.06, 0.05


def drawn(draw: np.random.Generator, n: int, better: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The judge's codes, and people's quality given the codes: only through these do better systems differ."""
    code = np.clip(np.round(3.2 + better + 1.1 * draw.normal(size=n)), 1, 5)
    return code, 1.2 + 0.55 * code + 0.75 * draw.normal(size=n)


def labels(quality: np.ndarray, lower: float, figure: str, draw: np.random.Generator) -> np.ndarray:
    """People's codes; `lower` by a share of the width, or with this share of the passes as fails."""
    code = np.clip(np.round(quality), 1, 5)
    if figure == "passed":
        passed = code >= 4
        return np.where(passed & (draw.random(len(code)) < lower / passed.mean()), 3, code)
    return np.clip(np.round(quality - 4 * lower), 1, 5)


def one_round(draw: np.random.Generator, n_fit: int, n_new: int, figure: str) -> dict[str, float]:
    passed = figure == "passed"
    bounds, width = ((0.0, 1.0), 1.0) if passed else ((1.0, 5.0), 4.0)

    def people(quality: np.ndarray, lower: float) -> np.ndarray:
        code = labels(quality, lower, figure, draw)
        return (code >= 4).astype(float) if passed else code

    codes, quality = drawn(draw, n_fit)
    _, known, errors = fitted_map(codes, people(quality, 0.0), np.full(n_fit, 1 / n_fit), np.arange(n_fit), bounds)
    found: dict[str, float] = {}
    unit, weights = np.arange(n_new), np.full(n_new, 1 / n_new)
    for name, better, lower in (("same", 0.0, 0.0), ("better", 0.8, 0.0), (".05", 0.0, 0.05), (".10", 0.0, 0.1)):
        new, quality = drawn(draw, n_new, better)
        rest = (people(quality, lower) - np.interp(new, *known)) / width
        row = residual_row(rest, weights, unit, map_variance(new, weights, known, errors) / width**2)
        holds = row["residual_low"] >= -MARGIN and row["residual_high"] <= MARGIN
        found[name] = row["p"] <= 0.05 and not holds
        if name == "same":
            plain = mean_interval(rest, unit, bounds=(-1, 1))
            half = (row["residual_high"] - row["residual_low"]) / 2
            found |= {"plain": plain.low > 0 or plain.high < 0, "holds": holds, "half": half}
    return found


def main(rounds: int) -> int:
    started, missed = time.perf_counter(), []
    print(
        f"% of {rounds} rounds: false alarm (without the map's variance); of better systems; found at .05, .10; 'holds'"
    )
    for figure in ("score", "passed"):
        for n_fit, n_new in CELLS:
            draw = np.random.default_rng([n_fit, n_new, len(figure)])
            found = [one_round(draw, n_fit, n_new, figure) for _ in range(rounds)]
            mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
            limit = HIGHEST + 2 * math.sqrt(HIGHEST * (1 - HIGHEST) / rounds)
            wrong = [name for name in ("same", "better") if mean[name] > limit]
            missed += [f"{figure}, {n_fit} and {n_new} labels, {name}" for name in wrong]
            share = {name: f"{100 * value:5.1f}" for name, value in mean.items()}
            shown = f"{share['same']} ({share['plain']}); {share['better']}; {share['.05']}, {share['.10']}; "
            print(f"{figure:7} fit {n_fit:4}, new {n_new:5}: {shown}{share['holds']}; ± {mean['half']:.3f}", flush=True)
    print(f"{time.perf_counter() - started:.0f} s; over 6 % of false alarms: {'; '.join(missed) or 'nowhere'}")
    return int(bool(missed))


if __name__ == "__main__":
    options = sys.argv[1:]
    given = [int(option) for option in options if option.isdecimal()]
    sys.exit(main(given[0] if given else 100 if "--quick" in options else 1000))
