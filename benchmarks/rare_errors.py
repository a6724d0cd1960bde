"""How often the intervals of `corpus_estimate` hold the corpus's mean where a judge is seldom, but far off.

A corpus of 1,000 items; people's scores have a standard deviation of 22 on a scale of 0-100, or that on 1-5. The judge
is right up to noise, but for rare large errors. 30, 60 and 100 items are labelled, drawn at random.
`python benchmarks/rare_errors.py [ROUNDS]` (default 1,000; `--quick` 200): coverage in % / mean width; in brackets the
same where one more error of one step is allowed for (of 0 on interval scales), and the width of the labels alone.
*Half* allows for errors up to half the scale, as ordinal scales do by default: nothing is promised for larger ones. A
cell under 93 % by more than two standard errors where it is promised is marked and fails the benchmark.

Of 1,000 rounds:

| judge, largest error | 30 labels | 60 labels | 100 labels |
| --- | --- | --- | --- |
| noise of 10; 100 | 100 %, 15.4 (97 %, 7.4) | 100 %, 8.5 (98 %, 5.4) | 99.8 %, 6.0 (99 %, 4.6) |
| noise of 10; 50 | 99 %, 10.1 | 99.6 %, 6.3 | 99 %, 5.0 |
| off by 50 on 3 %; 100 | 100 %, 15.1 (91 %, 6.4) | 99.9 %, 8.3 (97 %, 4.9) | 100 %, 5.6 (98 %, 4.0) |
| off by 100 on 2 %; 100 | 100 %, 16.2 (75 %, 8.3) | 99 %, 9.4 (84 %, 6.5) | 99 %, 6.3 (91 %, 4.9) |
| off by 100 on 5 %; 100 | 99.7 %, 18.4 (85 %, 12.4) | 95 %, 10.9 (92 %, 9.0) | 99 %, 7.2 (97 %, 6.0) |
| off by 100 on 5 %; 50 (not promised) | 92 %, 14.2 | 94 %, 9.6 | 98 %, 6.4 |
| 1-5: off by 2 on 3 %; 2 | 99.7 %, .38 (100 %, .30) | 99.8 %, .24 (99 %, .21) | 99.6 %, .18 (99 %, .17) |
| 1-5: off by 4 on 3 %; 4 | 100 %, .69 (83 %, .44) | 99 %, .41 (88 %, .32) | 98 %, .27 (95 %, .23) |
| 1-5: off by 4 on 3 %; 2 (not promised) | 97 %, .50 | 91 %, .34 | 95 %, .24 |

Labels alone have mean widths of 16, 11 and 8.7. A judge with ordinary noise only pays with an interval that is 2.0, 1.6
and 1.3 times as wide; with `largest_error` of half the width, 1.4, 1.2 and 1.1 times.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np

from evalkit.stats.alignment.corpus_estimates import best_estimate, isotonic, linear, weighted_mean

ITEMS, LABELS, LOW = 1000, (30, 60, 100), 0.93


@dataclass(frozen=True)
class Judge:
    """Noise, and how far and how often it is off, in shares of the width: too low, or both ways."""

    noise: float = 0.0
    off: float = 0.0
    share: float = 0.0
    both: bool = False
    likert: bool = False


JUDGES = {
    "noise sd 10": Judge(0.1),
    "off 50 on 3 %": Judge(off=0.5, share=0.03),
    "off 100 on 2 %": Judge(off=1.0, share=0.02),
    "off 100 on 5 %": Judge(off=1.0, share=0.05),
    "sd 5, off 90 on 3 %": Judge(0.05, 0.9, 0.03),
    "off 50 both ways on 3 %": Judge(off=0.5, share=0.03, both=True),
    "1-5, off 2 on 3 %": Judge(off=0.5, share=0.03, likert=True),
    "1-5, off 4 on 3 %": Judge(off=1.0, share=0.03, likert=True),
}


def corpus(draw: np.random.Generator, judge: Judge) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """The judge's scores, what people say, and the ends of the scale."""
    bounds = (1.0, 5.0) if judge.likert else (0.0, 100.0)
    low, width = bounds[0], bounds[1] - bounds[0]
    people = np.clip(0.68 + 0.24 * draw.normal(size=ITEMS), 0, 1)
    if judge.likert:
        people = np.round(4 * people) / 4
    wrong = draw.random(ITEMS) < judge.share
    sign = np.where(draw.random(ITEMS) < 0.5, 1, -1) if judge.both else np.full(ITEMS, -1)
    far = np.where(sign < 0, np.maximum(people, judge.off), np.minimum(people, 1 - judge.off))
    people = np.where(wrong, far, people)  # items on which the judge can be so far off
    said = people + judge.noise * draw.normal(size=ITEMS) + np.where(wrong, sign * judge.off, 0.0)
    said = np.clip(said, 0, 1)
    return low + width * said, low + width * people, bounds


def one_round(draw: np.random.Generator, judge: Judge, n: int, share: float) -> dict[str, float]:
    score, people, bounds = corpus(draw, judge)
    width, unit = bounds[1] - bounds[0], np.arange(ITEMS)
    chosen = draw.permutation(ITEMS)[:n]
    weights = np.zeros(ITEMS)
    weights[chosen] = 1 / n
    said, truth = np.where(weights > 0, people, np.nan), people.mean()
    _, _, ends, _ = best_estimate(score, said, weights, unit, bounds=bounds, largest_error=share * width)
    guess = (linear if n < 100 else isotonic)(score, said, weights, unit)
    step = weighted_mean(guess, said, weights, unit, one_more=float(judge.likert))
    alone = weighted_mean(np.zeros(ITEMS), said, weights, unit)
    plain, alone = (figure.interval(said, weights, unit, bounds) for figure in (step, alone))
    return {
        "covers": ends.low <= truth <= ends.high,
        "width": ends.high - ends.low,
        "plain": plain.low <= truth <= plain.high,
        "plain_width": plain.high - plain.low,
        "alone": alone.high - alone.low,
    }


def cell(rounds: int, judge: Judge, n: int, share: float, *, promised: bool) -> tuple[str, bool]:
    """What is shown, and whether the promise is kept within two standard errors."""
    draw = np.random.default_rng([n, int(1000 * judge.noise), int(1000 * judge.off), int(1000 * judge.share)])
    found = [one_round(draw, judge, n, share) for _ in range(rounds)]
    mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
    met = not promised or mean["covers"] >= LOW - 2 * math.sqrt(LOW * (1 - LOW) / rounds)
    text = f"{100 * mean['covers']:.1f}{'' if met else '*'}/{mean['width']:.3g} "
    return text + f"({100 * mean['plain']:.0f}/{mean['plain_width']:.3g}; {mean['alone']:.3g})", met


def main(rounds: int) -> int:
    started, missed = time.perf_counter(), []
    print(f"coverage % / width (one step more: coverage/width; labels alone: width), {rounds} rounds")
    for allowed, share in (("whole scale", 1.0), ("half", 0.5)):
        print(f"\nerrors up to: {allowed:22}" + "".join(f"{f'{n} labels':>32}" for n in LABELS))
        for name, judge in JUDGES.items():
            promised = judge.off <= share
            cells = [cell(rounds, judge, n, share, promised=promised) for n in LABELS]
            missed += [f"{name}, {allowed}, {n} labels" for n, (_, met) in zip(LABELS, cells, strict=True) if not met]
            head = name + ("" if promised else " (not promised)")
            print(f"{head:36}" + "".join(f"{text:>32}" for text, _ in cells), flush=True)
    print(f"{time.perf_counter() - started:.0f} s; under 93 %: {'; '.join(missed) or 'nowhere'}")
    return int(bool(missed))


if __name__ == "__main__":
    options = sys.argv[1:]
    given = [int(option) for option in options if option.isdecimal()]
    sys.exit(main(given[0] if given else 200 if "--quick" in options else 1000))
