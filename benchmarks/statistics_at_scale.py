"""100,000 items × 5 judges: vote, aggregate, disagreement, reliability and align beside plain `groupby.apply`.

The plain side computes the same votes, scores, disagreement, alpha (nominal, two codes) and accuracy without any
interval, as one would write it down; its figures must be equal. Memory is what each function takes at its peak, its
result included, beyond what was there when it was called, beside the size of the judgments table; in all of them
together the results of the earlier ones (votes, scores) and what the allocator keeps come on top.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from bars import bar

import evalkit as ek
from evalkit.tables import schemas

N_ITEMS, JUDGES = 100_000, ("a", "b", "c", "d", "e")
SCALE = '{"codes":[0,1],"better":"high","pass_at":1}'


def made(n_items: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Judgments of five judges who are right nine times in ten, 2 % unscored, and one label an item."""
    draw = np.random.default_rng(0)
    truth = draw.random(n_items) < 0.7
    n = n_items * len(JUDGES)
    verdict = np.where(draw.random(n) < 0.9, np.repeat(truth, len(JUDGES)), ~np.repeat(truth, len(JUDGES)))
    unscored = draw.random(n) < 0.02
    score = np.where(unscored, np.nan, verdict.astype(float))
    ids = [f"item-{number}" for number in range(n_items)]
    judgments = schemas.table(
        "judgments",
        {
            "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": np.repeat(ids, len(JUDGES)),
            "criterion": ["c"] * n, "judge": list(JUDGES) * n_items, "sample": np.zeros(n, dtype=np.int64),
            "score": score, "score_norm": score,
            "label": [None if gone else str(int(yes)) for gone, yes in zip(unscored, verdict, strict=True)],
            "passed": pd.array([None if gone else bool(yes) for gone, yes in zip(unscored, verdict, strict=True)]),
            "error": ["unreadable" if gone else None for gone in unscored],
            # as long as those of real replies: the table of `judge` holds them too
            "explanation": [f"Statement {at} is supported by the context; no other is made." for at in range(n)],
            "key": [f"{at:064x}" for at in range(n)],
            "weight": np.ones(n), "level": ["ordinal"] * n, "scale": [SCALE] * n,
        },
    )  # fmt: skip
    labels = pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": "person", "label": np.where(truth, "1", "0")})
    return judgments, labels


class Laps:
    """Seconds, and the peak of memory beyond what was there, of one step after another."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.extra_mb: dict[str, float] = {}
        self._begin()

    def _begin(self) -> None:
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak so far is not that of the next step
        self._before, self._started = resident_mb()[0], time.perf_counter()

    def __call__(self, name: str) -> None:
        self.seconds[name] = time.perf_counter() - self._started
        self.extra_mb[name] = resident_mb()[1] - self._before
        self._begin()


def ours(judgments: pd.DataFrame, labels: pd.DataFrame) -> tuple[Laps, dict[str, float]]:
    """Figures of evalkit, every interval included."""
    lap = Laps()
    votes = ek.vote(judgments)
    lap("vote")
    scores = ek.aggregate(votes)
    lap("aggregate")
    apart = ek.disagreement(votes)
    lap("disagreement")
    reliable = ek.reliability(judgments)
    lap("reliability")
    aligned = ek.align(votes, labels)
    lap("align")
    return lap, {
        "mean score": float(scores["score"].mean()),
        "disagreement": float(apart["disagreement"].mean()),
        "alpha": float(reliable["alpha_single"].iloc[0]),
        "accuracy": float(aligned.set_index("judge").loc["a", "accuracy"]),
    }


def plain(judgments: pd.DataFrame, labels: pd.DataFrame) -> tuple[Laps, dict[str, float]]:
    """The same figures by `groupby.apply`, without intervals."""
    lap = Laps()
    keys = ["item_id", "judge"]
    votes = judgments.groupby(keys, observed=True, sort=False)["score"].apply(lambda own: own.mean()).reset_index()
    lap("vote")
    by_item = votes.groupby("item_id", sort=False)["score"]
    scores = by_item.apply(lambda own: own.mean() if own.notna().sum() > len(own) / 2 else np.nan)
    lap("aggregate")

    def gap(own: pd.Series) -> float:
        given = own.dropna().to_numpy()
        return float(np.mean([abs(x - y) for x, y in combinations(given, 2)])) if len(given) > 1 else np.nan

    apart = by_item.apply(gap)
    lap("disagreement")
    counts = by_item.apply(lambda own: pd.Series({"no": (own == 0).sum(), "yes": (own == 1).sum()})).unstack()
    counts = counts[counts.sum(axis=1) >= 2]
    of_item, of_code = counts.sum(axis=1), counts.sum()
    total = of_code.sum()
    observed = 1 - ((counts * (counts - 1)).sum(axis=1) / (of_item - 1)).sum() / total
    expected = 1 - (of_code * (of_code - 1)).sum() / (total * (total - 1))
    lap("reliability")
    said = labels.set_index("item_id")["label"].astype(float)
    own = votes[votes["judge"] == "a"].dropna()
    right = (
        votes.dropna()
        .groupby("judge", observed=True)
        .apply(lambda group: (group["score"].to_numpy() == said.loc[group["item_id"]].to_numpy()).mean())
    )
    lap("align")
    assert len(own)
    return lap, {
        "mean score": float(scores.mean()),
        "disagreement": float(apart.mean()),
        "alpha": float(1 - observed / expected),
        "accuracy": float(right["a"]),
    }


def resident_mb() -> tuple[float, float]:
    """Memory now and at its peak."""
    status = Path("/proc/self/status").read_text()
    return tuple(int(status.split(name)[1].split()[0]) / 1024 for name in ("VmRSS:", "VmHWM:"))  # type: ignore[return-value]


def main() -> int:
    """Both sides in processes of their own; the figures must be equal."""
    if len(sys.argv) > 1:
        judgments, labels = made(N_ITEMS)
        size = judgments.memory_usage(deep=True).sum() / 2**20
        ek.align(ek.vote(judgments.head(50)), labels.head(10))  # imports are not measured
        laps, figures = {"ours": ours, "plain": plain}[sys.argv[1]](judgments, labels)
        said = {"s": laps.seconds, "figures": figures, "table_mb": size, "extra_mb": laps.extra_mb}
        print(json.dumps(said))
        return 0
    found = {}
    for side in ("ours", "plain"):
        # glibc would keep freed arrays, and the next step's peak would not be seen
        env = os.environ | {"MALLOC_MMAP_THRESHOLD_": "262144"}
        done = subprocess.run([sys.executable, __file__, side], capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found[side] = json.loads(done.stdout.splitlines()[-1])
    mine, theirs = found["ours"], found["plain"]
    print(f"{N_ITEMS:,} items × {len(JUDGES)} judges; table {mine['table_mb']:.0f} MB")
    for name, seconds in mine["s"].items():
        extra, plainly = mine["extra_mb"][name], theirs["extra_mb"][name]
        print(
            f"  {name:13} evalkit {seconds:6.2f} s {extra:4.0f} MB, plain {theirs['s'][name]:7.2f} s {plainly:4.0f} MB"
        )
    met = True
    for name, figure in mine["figures"].items():
        same = abs(figure - theirs["figures"][name]) < 1e-9
        print(f"{'met   ' if same else 'MISSED'} {name}: evalkit {figure:.9f}, plain {theirs['figures'][name]:.9f}")
        met &= same
    met &= bar("all five with intervals", sum(mine["s"].values()), 10, " s")
    most = max(mine["extra_mb"].values()) / mine["table_mb"]
    met &= bar("most that one function takes beyond the table, as a multiple of it", most, 1.0)
    print(f"plain: {sum(theirs['s'].values()):.1f} s without intervals")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
