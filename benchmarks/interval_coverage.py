"""How often 95 % intervals hold the truth, in simulations where it is known: the target is 93 to 97.5 %.

Items have a quality; two judges and a person see it with noise and answer on a scale from 0 to 4, pass at 3.
A judge passes 60, 88 or 95 % of the items (even, skewed, rare fails), which come alone or in clusters of
three that share half of the variance of quality. The second judge is what the first is compared with: *effect*
(verdicts fixed − broken), *difference* of scores and *win rate*. `python benchmarks/interval_coverage.py [ROUNDS]`
(default 1,000: standard error of a cell .7 points; `--quick` 200). For figures from few labels see `few_labels.py`,
for the noise floor `noise.py`. Beside the
coverage stands the share of rounds without an interval (NA with a reason) where it is over 1 %; a cell outside of the
target by more than two standard errors is marked.

Most intervals cover 93 to 97.5 %. The exceptions, of 1,000 rounds:

| interval | condition | coverage |
| --- | --- | --- |
| `quadratic_kappa` (`pearson` is similar) | one level is rare, 30 and 60 items | 85-92 % |
| `quadratic_kappa` | one level is rare, 200 items in clusters | 92 % |
| differences of scores | one level is rare, 30 items | 92 % |
| `kappa` | 95 % pass, 30 items; only one simulation in five has an interval | 89 % |
| `accuracy`, changed verdicts, means, pass rates | 95 % pass, 30 items: wider than needed | 97-99.8 % |
| pass rates and means | one cluster contains half of the items; nothing is promised | 91-99.8 % |
| `corpus_estimate` of passes (`few_labels.py`) | the judge is right on 95 % or more: wider than needed | 98-100 % |

A second table is of few items (5 to 50) and few groups (5 to 12 of four items): differences of scores, the means of
the worst of k runs, pairs whose choice changed against labels, and `alt_test`, whose cell is 100 % less the
share of judges it passes that are worse by exactly epsilon: 95 %. `--few` computes this table alone.

There, where levels are even or skewed, intervals cover 93.3-99.9 % of 1,000 rounds (5 groups, even: 97-99). With rare
fails (300 rounds): 88-94 % for `bias` and 90-92 % for `mean_difference` at 10 to 50 items or 8 groups, 93 % or more
for the others. `alt_test` in 5, 8 and 12 groups, 400 tests of each: 98.5, 96.5, 94.5 % (even), 95.5, 97.5, 96.8 %
(skewed), 92.0, 93.8, 93.5 % (rare fails).
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd

from evalkit.stats import alt_test, at_k
from evalkit.stats.agreement.krippendorff import Cells, alpha
from evalkit.stats.alignment.agreement_measures import FIGURES, Answers, KindOptions, compare_each, gap_interval
from evalkit.stats.intervals import (
    Interval,
    change_interval,
    difference_interval,
    jackknife,
    mean_interval,
    rate_interval,
)

SIZES = (30, 60, 200)
CUTS = {"even": (-1.0, -0.4, 0.1, 0.6), "skewed": (-1.9, -1.4, -1.0, -0.5), "rare fails": (-2.3, -1.9, -1.5, -1.1)}
CLUSTER, SHARED = 3, 0.5
PASS_AT, BIAS = 3, 0.4
LOW, HIGH = 0.93, 0.975
NAMES = ("mean", "pass rate", "accuracy", "kappa", "qwk", "spearman", "mae", "alpha", "effect", "difference")
NAMES = (*NAMES, "win rate")
FIGURES_OF = {name: name for name in ("accuracy", "kappa", "spearman", "mae")} | {"qwk": "quadratic_kappa"}
POPULATION = 600_000
FEW = {"5 items": (5, 1), "10 items": (10, 1), "20 items": (20, 1), "50 items": (50, 1)}
FEW |= {"5 groups": (5, 4), "8 groups": (8, 4), "12 groups": (12, 4)}
FEW_NAMES = ("mae", "bias", "mean_difference", "at_k", "pairs", "alt_test")
RUNS, OF_RUNS = 4, 2
SLOW_ROUNDS = 4  # `at_k` (items alone) and `alt_test` (groups) build tables: of so many rounds they have one


@dataclass(frozen=True)
class Sample:
    """Codes of two judges and a person, and the cluster of each item."""

    judge: np.ndarray
    second: np.ndarray
    person: np.ndarray
    unit: np.ndarray


def drawn(draw: np.random.Generator, n: int, cuts: tuple[float, ...], *, clustered: bool) -> Sample:
    size = CLUSTER if clustered else 1
    unit = np.arange(n) // size
    shared = draw.normal(size=unit.max() + 1)[unit] * math.sqrt(SHARED if clustered else 0.0)
    quality = shared + draw.normal(size=n) * math.sqrt(1 - SHARED if clustered else 1.0)
    seen = [np.searchsorted(cuts, quality + 0.6 * draw.normal(size=n) + bias) for bias in (BIAS, 0.0, 0.0)]
    return Sample(*(codes.astype(np.int64) for codes in seen), unit)


def sides(sample: Sample) -> tuple[Answers, Answers]:
    none = np.zeros(len(sample.unit), dtype=bool)
    first, second = (
        Answers((codes >= PASS_AT).astype(np.int64), codes.astype(float), none)
        for codes in (sample.judge, sample.person)
    )
    return first, second


def cells(sample: Sample, n_units: int) -> Cells:
    n = len(sample.unit)
    answer = np.concatenate([sample.judge, sample.second])
    judge = np.repeat([0, 1], n)
    return Cells(np.tile(np.arange(n), 2), judge, answer, answer.astype(float), sample.unit, n_units)


def truths(cuts: tuple[float, ...], *, clustered: bool) -> dict[str, float]:
    """The figures of the whole population; they do not depend on clusters but for chance."""
    whole = drawn(np.random.default_rng(1), POPULATION, cuts, clustered=clustered)
    judge, person = sides(whole)
    made = compare_each(judge, [person], np.zeros(POPULATION, dtype=np.int64), 0, KindOptions(verdicts=True))
    one = Sample(whole.judge, whole.second, whole.person, np.zeros(POPULATION, dtype=np.int64))
    return {
        "mean": whole.judge.mean(),
        "pass rate": (whole.judge >= PASS_AT).mean(),
        "alpha": alpha(cells(one, 1), "ordinal")[0],
        "effect": ((whole.second >= PASS_AT) * 1.0 - (whole.judge >= PASS_AT)).mean(),
        "difference": (whole.second - whole.judge).mean() / 4,
        "win rate": wins(whole).mean(),
    } | {name: made[figure][0] for name, figure in FIGURES_OF.items()}


def wins(sample: Sample) -> np.ndarray:
    """As if the two judges' scores were those of two answers: which has the higher one."""
    return (np.sign(sample.second - sample.judge) + 1) / 2


def intervals(draw: np.random.Generator, n: int, cuts: tuple[float, ...], *, clustered: bool) -> dict[str, Interval]:
    sample = drawn(draw, n, cuts, clustered=clustered)
    n_units = int(sample.unit.max()) + 1
    judge, person = sides(sample)
    made = compare_each(judge, [person], sample.unit, n_units, KindOptions(verdicts=True))
    reliable = alpha(cells(sample, n_units), "ordinal")
    scores = sample.judge.astype(float)
    return {
        "mean": mean_interval(scores, sample.unit, bounds=(0, 4)),
        "pass rate": rate_interval((sample.judge >= PASS_AT).astype(float), sample.unit),
        "alpha": jackknife(float(reliable[0]), reliable[1:]),
        "effect": change_interval((sample.second >= PASS_AT) * 1.0 - (sample.judge >= PASS_AT), sample.unit),
        "difference": mean_interval((sample.second - sample.judge) / 4, sample.unit),
        "win rate": mean_interval(wins(sample), sample.unit, bounds=(0, 1)),
    } | {
        name: jackknife(float(made[figure][0]), made[figure][1:], transform=FIGURES[figure].transform)
        for name, figure in FIGURES_OF.items()
    }


@dataclass(frozen=True, slots=True)
class Few:
    """A few items: what two judges and a person say, whether the judges chose the right answer of a pair, and runs."""

    sample: Sample
    steps: np.ndarray
    runs: np.ndarray
    people: np.ndarray
    alike: np.ndarray


def few_drawn(draw: np.random.Generator, n: int, size: int, cuts: tuple[float, ...]) -> Few:
    """Groups of `size` items share half of the variance of all that is seen."""
    unit = np.arange(n * size) // size

    def shared() -> np.ndarray:
        own = draw.normal(size=len(unit))
        return own if size == 1 else draw.normal(size=n)[unit] * math.sqrt(SHARED) + own * math.sqrt(1 - SHARED)

    quality, ease = shared(), shared()
    seen = [np.searchsorted(cuts, quality + 0.6 * shared() + bias) for bias in (BIAS, 0.0, 0.0)]
    right = [ease + 0.8 * draw.normal(size=len(unit)) > least for least in (-0.3, -0.8)]
    runs = draw.random((len(unit), RUNS)) < 1 / (1 + np.exp(-1 - 2 * quality))[:, None]
    people = np.searchsorted(cuts, quality + 0.6 * draw.normal(size=(3, len(unit))))
    alike = np.searchsorted(cuts, quality + 1.2 * shared())
    return Few(
        Sample(*(codes.astype(np.int64) for codes in seen), unit), right[1] * 1.0 - right[0], runs, people, alike
    )


def few_truths(size: int, cuts: tuple[float, ...]) -> dict[str, float]:
    whole = few_drawn(np.random.default_rng(2), POPULATION // 4 // size, size, cuts)
    gap, passes = whole.sample.judge - whole.sample.person, whole.runs.sum(axis=1)
    lowest = passes * (passes - 1) / (RUNS * (RUNS - 1))  # both of two runs pass
    return {
        "mae": float(np.abs(gap).mean()),
        "bias": float(gap.mean()),
        "mean_difference": float((whole.sample.second - whole.sample.judge).mean() / 4),
        "at_k": float(lowest.mean()),
        "pairs": float(whole.steps.mean()),
        "alt_test": advantage(whole),
    }


def advantage(few: Few) -> float:
    """How much more often the first annotator is nearer to the two others than the judge is: W^h − W^f."""
    distances = [np.sqrt(((few.people[1:] - codes) ** 2).mean(axis=0)) for codes in (few.alike, few.people[0])]
    return float(np.mean(np.sign(distances[0] - distances[1])))


def few_intervals(few: Few) -> dict[str, Interval]:
    sample = few.sample
    judge, person = sides(sample)
    return {
        "mae": gap_interval("mae", [(judge, person)], sample.unit, 4.0),
        "bias": gap_interval("bias", [(judge, person)], sample.unit, 4.0),
        "mean_difference": difference_interval((sample.second - sample.judge) / 4, sample.unit, 1.0),
        "pairs": change_interval(few.steps, sample.unit),
    }


def of_runs(few: Few) -> Interval:
    ids = np.repeat(np.arange(len(few.runs)), RUNS)
    scales = pd.DataFrame({"level": ["ordinal"], "scale": ['{"codes":[0,1],"better":"high"}']}).iloc[[0] * len(ids)]
    row = at_k(scales.assign(prompt=ids, score=few.runs.ravel() * 1.0), OF_RUNS, of="prompt").iloc[0]
    return Interval(row["worst_low"], row["worst_high"], None if row["worst_low"] == row["worst_low"] else "none")


def passed_at_the_limit(few: Few, epsilon: float) -> Interval:
    """Holds epsilon if the test does not reject it for the first annotator."""
    ids = [str(item) for item in range(len(few.alike))]
    frame = pd.DataFrame({"item_id": ids, "group_id": few.sample.unit, "judge": "a", "score": few.alike})
    labels = [frame[["item_id"]].assign(annotator=f"p{number}", label=codes) for number, codes in enumerate(few.people)]
    tests = alt_test(frame, pd.concat(labels), epsilon, scoring="rmse").annotators
    p = tests.loc[tests["annotator"] == "p0", "p"].iloc[0]
    return Interval(0.0 if p > 1 - 0.95 else math.inf, math.inf, None if p == p else "not tested")


def few_table(rounds: int) -> list[str]:
    """Prints the second table; what misses the target."""
    missed = []
    print(f"{'':28}" + "".join(f"{name:>16}" for name in FEW_NAMES))
    for labels, cuts in CUTS.items():
        truths_of = {size: few_truths(size, cuts) for size in (1, 4)}
        for where, (n, size) in FEW.items():
            draw, truth = np.random.default_rng([n, size, len(labels)]), truths_of[size]
            found: dict[str, list[Interval]] = {name: [] for name in FEW_NAMES}
            for number in range(rounds):
                few = few_drawn(draw, n, size, cuts)
                made = few_intervals(few)
                if number % SLOW_ROUNDS == 0:
                    slow = {"at_k": of_runs(few)} if size == 1 else {}
                    made |= slow or {"alt_test": passed_at_the_limit(few, truth["alt_test"])}
                for name, ends in made.items():
                    found[name].append(ends)
            shown = {name: cell(found[name], truth[name]) if found[name] else ("", True) for name in FEW_NAMES}
            missed += [f"{name} ({labels}, {where})" for name in FEW_NAMES if not shown[name][1]]
            print(f"{labels + ', ' + where:28}" + "".join(f"{shown[name][0]:>16}" for name in FEW_NAMES), flush=True)
    return missed


def cell(found: list[Interval], truth: float) -> tuple[str, bool]:
    """What is shown, and whether the target is met within two standard errors."""
    there = [one for one in found if one.reason is None]
    if len(there) < 0.1 * len(found):
        return f"({100 * (1 - len(there) / len(found)):.0f}% NA)", True
    share = sum(one.low <= truth <= one.high for one in there) / len(there)
    error = 2 * math.sqrt(max(share * (1 - share), 0.01) / len(there))
    met = LOW - error <= share <= HIGH + error
    missing = 1 - len(there) / len(found)
    text = f"{100 * share:.1f}" + ("" if met else "*") + (f" ({100 * missing:.0f}% NA)" if missing > 0.01 else "")
    return text, met


def main(rounds: int, *, few: bool) -> int:
    started = time.perf_counter()
    print(f"coverage of 95 % intervals in %, {rounds} rounds; * outside of 93-97.5 by over two standard errors")
    missed = ([] if few else whole_table(rounds)) + few_table(rounds)
    print(f"{time.perf_counter() - started:.0f} s; outside of the target: {'; '.join(missed) or 'none'}")
    return int(bool(missed))


def whole_table(rounds: int) -> list[str]:
    """Prints the first table; what misses the target."""
    missed = []
    print(f"{'':28}" + "".join(f"{name:>16}" for name in NAMES))
    for labels, cuts in CUTS.items():
        for clustered in (False, True):
            truth = truths(cuts, clustered=clustered)
            for n in SIZES:
                draw = np.random.default_rng([n, clustered, len(labels)])
                found = [intervals(draw, n, cuts, clustered=clustered) for _ in range(rounds)]
                shown = {name: cell([one[name] for one in found], truth[name]) for name in NAMES}
                where = f"{labels}, {'clusters' if clustered else 'items'}, n = {n}"
                missed += [f"{name} ({where})" for name in NAMES if not shown[name][1]]
                print(f"{where:28}" + "".join(f"{shown[name][0]:>16}" for name in NAMES), flush=True)
    return missed


if __name__ == "__main__":
    options = sys.argv[1:]
    given = [int(option) for option in options if option.isdecimal()]
    rounds = given[0] if given else 200 if "--quick" in options else 1000
    sys.exit(main(rounds, few="--few" in options))
