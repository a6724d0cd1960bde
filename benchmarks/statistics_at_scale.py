"""100,000 items × 5 judges: vote, aggregate, disagreement, reliability and align beside plain `groupby.apply`.

The plain side computes the same votes, scores, disagreement, alpha (nominal, two codes) and accuracy without any
interval, as one would write it down; its figures must be equal. Memory is the peak above what was there before,
beside the size of the table.
"""

from __future__ import annotations

import gc
import json
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
from evalkit import tables

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
    judgments = tables.table(
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


def ours(judgments: pd.DataFrame, labels: pd.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds and figures of evalkit, every interval included."""
    seconds, started = {}, time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[name], started = now - started, now

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
    return seconds, {
        "mean score": float(scores["score"].mean()),
        "disagreement": float(apart["disagreement"].mean()),
        "alpha": float(reliable["alpha_single"].iloc[0]),
        "accuracy": float(aligned.set_index("judge").loc["a", "accuracy"]),
    }


def plain(judgments: pd.DataFrame, labels: pd.DataFrame) -> tuple[dict[str, float], dict[str, float]]:
    """The same figures by `groupby.apply`, without intervals."""
    seconds, started = {}, time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[name], started = now - started, now

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
    return seconds, {
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
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak of making the table is not that of the figures
        before = resident_mb()[0]
        seconds, figures = {"ours": ours, "plain": plain}[sys.argv[1]](judgments, labels)
        said = {"s": seconds, "figures": figures, "table_mb": size, "extra_mb": resident_mb()[1] - before}
        print(json.dumps(said))
        return 0
    found = {}
    for side in ("ours", "plain"):
        done = subprocess.run([sys.executable, __file__, side], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)
        found[side] = json.loads(done.stdout.splitlines()[-1])
    mine, theirs = found["ours"], found["plain"]
    print(f"{N_ITEMS:,} items × {len(JUDGES)} judges; table {mine['table_mb']:.0f} MB")
    for name, seconds in mine["s"].items():
        print(f"  {name:13} evalkit {seconds:6.2f} s, plain {theirs['s'][name]:7.2f} s")
    met = True
    for name, figure in mine["figures"].items():
        same = abs(figure - theirs["figures"][name]) < 1e-9
        print(f"{'met   ' if same else 'MISSED'} {name}: evalkit {figure:.9f}, plain {theirs['figures'][name]:.9f}")
        met &= same
    met &= bar("all five with intervals", sum(mine["s"].values()), 10, " s")
    met &= bar("peak memory beyond the table, as a multiple of it", mine["extra_mb"] / mine["table_mb"], 1.0)
    print(f"plain: {sum(theirs['s'].values()):.1f} s without intervals, {theirs['extra_mb']:.0f} MB beyond the table")
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
