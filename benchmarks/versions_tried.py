"""How often *keep* stands beside a version that is no better, where many versions are tried on the same labels.

    python benchmarks/versions_tried.py [rounds]

Versions of a judge that are all equally good, each wrong on other items with noise that they share, are compared on the
same labels: each with the one before it, each with the first one, each with the best so far, and the best of all with
the worst. Printed is the share of rounds in which at least one comparison says *keep*, for the widened interval (α =
.05 over all pairs, Bonferroni), for α = .05 over one comparison fewer than there are versions, and for the plain 95 %
interval. The last columns are the power: how often a version that is better on 8 of 100 items is kept, and how often
the advised number of labels decides. Last, by how much the best of them looks better than it is on 200 labels: .035
with 20 versions, .054 if they share no errors. With 2,000 rounds it takes some two minutes; all seeds are fixed. The
exit code is 1 if the widened interval keeps a version in more than 6 % of rounds (5 %, and what 2,000 rounds leave
open).

The share of rounds with a *keep*, of 2,000 rounds with 200 labels:

| versions | compared with | all pairs | m = V − 1 | not widened |
| --- | --- | --- | --- | --- |
| 2 | the one before | .025 | .025 | .025 |
| 2 | the best with the worst | .046 | .046 | .046 |
| 5 | the one before | .010 | .024 | .098 |
| 5 | the best with the worst | .029 | .073 | .271 |
| 10 | the one before | .004 | .019 | .202 |
| 10 | the best with the worst | .025 | .126 | .574 |
| 20 | the one before | .001 | .015 | .365 |
| 20 | the best with the worst | .012 | .149 | .889 |
"""

from __future__ import annotations

import sys

import numpy as np

from evalkit.stats.comparison.comparison_table import Difference, alpha_for
from evalkit.stats.intervals import change_interval


def difference(before: np.ndarray, after: np.ndarray) -> Difference:
    steps = after.astype(float) - before.astype(float)
    ends = change_interval(steps, np.arange(len(steps)))
    return Difference(float(steps.mean()), ends.low, ends.high, len(steps), len(steps))


def right(rng: np.random.Generator, n_items: int, n_versions: int, accuracy: float, shared: float) -> np.ndarray:
    """Versions × items: whether the verdict is right. A share of the items is equally right under all versions."""
    common = rng.random(n_items) < accuracy
    own = rng.random((n_versions, n_items)) < accuracy
    return np.where(rng.random(n_items) < shared, common, own)


def pairs_of(hits: np.ndarray) -> dict[str, list[tuple[int, int]]]:
    """Way of comparing -> pairs (earlier, later)."""
    means, n = hits.mean(axis=1), len(hits)
    so_far = [(int(means[:at].argmax()), at) for at in range(1, n)]
    worst_best = [(int(means.argmin()), int(means.argmax()))]
    before = {"the one before": [(at - 1, at) for at in range(1, n)], "the first": [(0, at) for at in range(1, n)]}
    return before | {"the best so far": so_far, "best with worst": worst_best}


def main(rounds: int) -> int:
    highest = 0.0
    print("versions  items  compared with      all pairs   V − 1     plain")
    for n_versions in (2, 3, 5, 10, 20):
        for n_items in (60, 200):
            rng, kept = np.random.default_rng(n_versions * 1000 + n_items), dict[tuple[str, str], int]()
            alphas = {"pairs": alpha_for(n_versions), "V - 1": 0.05 / (n_versions - 1), "plain": 0.05}
            for _ in range(rounds):
                hits = right(rng, n_items, n_versions, accuracy=rng.uniform(0.6, 0.9), shared=rng.uniform(0.3, 0.8))
                for way, pairs in pairs_of(hits).items():
                    compared = [difference(hits[a], hits[b]) for a, b in pairs]
                    for name, alpha in alphas.items():
                        kept[way, name] = kept.get((way, name), 0) + any(one.at(alpha).low > 0 for one in compared)
            for way in dict.fromkeys(way for way, _ in kept):
                shares = "".join(f"{kept[way, name] / rounds:10.4f}" for name in alphas)
                highest = max(highest, kept[way, "pairs"] / rounds)
                print(f"{n_versions:8} {n_items:6}  {way:17}{shares}", flush=True)
    power(rounds)
    luck(rounds)
    return int(highest > 0.06)


def power(rounds: int) -> None:
    """With the advised number of labels, if the difference stays as it is."""
    print("\nversions  first labels  kept at once  median of the advised labels  kept with these labels")
    for n_versions in (2, 5, 10):
        rng, alpha = np.random.default_rng(n_versions), alpha_for(n_versions)
        at_once, later, advised = 0, [], []
        for _ in range(rounds):
            steps = rng.choice([-1.0, 0.0, 1.0], size=100, p=[0.06, 0.8, 0.14])
            ends = change_interval(steps, np.arange(100))
            at_once += Difference(float(steps.mean()), ends.low, ends.high, 100, 100).at(alpha).low > 0
            # the formula itself: the difference and its spread as they truly are
            truth = Difference(0.08, *_ends(0.08, 0.2, 100), 100, 100)
            n = int(np.ceil(truth.at(alpha).n_needed(alpha)))
            more = rng.choice([-1.0, 0.0, 1.0], size=n, p=[0.06, 0.8, 0.14])
            ends = change_interval(more, np.arange(n))
            later.append(Difference(float(more.mean()), ends.low, ends.high, n, n).at(alpha).low > 0)
            advised.append(n)
        print(f"{n_versions:8} {100:13} {at_once / rounds:13.2f} {np.median(advised):29.0f} {np.mean(later):23.2f}")


def luck(rounds: int) -> None:
    """By how much the best version's share of right verdicts exceeds that of all versions, on 200 labels."""
    print("\nversions  shared noise  no shared noise")
    for n_versions in (2, 5, 10, 20):
        rng, lucky = np.random.default_rng(n_versions), dict[bool, float]()
        for is_shared in (True, False):
            gains = []
            for _ in range(rounds):
                accuracy, shared = rng.uniform(0.6, 0.9), rng.uniform(0.3, 0.8) if is_shared else 0.0
                gains.append(right(rng, 200, n_versions, accuracy, shared).mean(axis=1).max() - accuracy)
            lucky[is_shared] = float(np.mean(gains))
        print(f"{n_versions:8} {lucky[True]:13.3f} {lucky[False]:16.3f}")


def _ends(d: float, changed: float, n: int) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, 0.975)) * np.sqrt((changed - d**2) / n)
    return d - half, d + half


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000))
