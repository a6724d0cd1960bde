"""How often `ek.compare` says that a judge changed: where it did not, and where a share of its verdicts did.

    .venv-test/bin/python benchmarks/drift.py [RUNS [PROCESSES]]

100 control items, three samples then and now. Each item has its own chance to pass, drawn from Beta(.4, .4): most items
are clear, some are not. In "clusters", four items share it. Where the judge changed, the chance of that share of the
items (or clusters) is turned round. It prints a line per setting; the exit code is 1 if more than 6.5 % of the runs
(1,000 of them) are false alarms.

How often the status is `changed`, of 500 runs:

| share of the items that changed | 0 % | 5 % | 10 % | 20 % | 30 % |
| --- | --- | --- | --- | --- | --- |
| single items | 3.8 % | 42 % | 83 % | 99.6 % | 100 % |
| clusters of four that change together | 4.4 % | 42 % | 62 % | 94 % | 98 % |
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
import pandas as pd

import evalkit as ek

N, SAMPLES = 100, 3
RUBRIC = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {0: "no", 1: "yes"}, "pass_at": 1}])


def table() -> pd.DataFrame:
    """Judgments of 100 items, to put simulated verdicts into."""
    items = [{"item_id": f"i{at:03d}", "answer": str(at)} for at in range(N)]
    return ek.judge(items, RUBRIC, "fake:noisy", samples=SAMPLES, progress=False)


def judged(base: pd.DataFrame, chances: np.ndarray, draw: np.random.Generator) -> pd.DataFrame:
    """The judgments with verdicts drawn with these chances."""
    items = base["item_id"].astype(str).str[1:].astype(int).to_numpy()
    code = (draw.random(len(base)) < chances[items]).astype(int)
    label = pd.Categorical(code.astype(str), categories=["0", "1"])
    return base.assign(label=label, score=code.astype(float), score_norm=code.astype(float), passed=code.astype(bool))


def status(run: int, *, base: pd.DataFrame, share: float, size: int) -> str:
    """What `compare` says of one simulated judge."""
    draw = np.random.default_rng([run, size, int(1000 * share)])
    chances = np.repeat(draw.beta(0.4, 0.4, N // size), size)
    turned = np.repeat(draw.random(N // size) < share, size)
    before, after = judged(base, chances, draw), judged(base, np.where(turned, 1 - chances, chances), draw)
    clusters = {f"i{at:03d}": at // size for at in range(N)}
    return str(ek.compare(before, after, clusters=clusters, same_prompts=True).table["status"].iloc[0])


def main() -> int:
    """Run the settings."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    processes = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    base, missed = table(), False
    for size in (1, 4):
        for share in (0.0, 0.05, 0.1, 0.2, 0.3):
            start = time.time()
            with ProcessPoolExecutor(processes) as pool:
                said = list(pool.map(partial(status, base=base, share=share, size=size), range(runs), chunksize=20))
            found = said.count("changed") / runs
            missed |= share == 0 and found > 0.065
            what = "clusters of 4" if size > 1 else "single items"
            print(f"{what}, {share:.0%} turned round: changed in {found:.1%}; {time.time() - start:.0f} s", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
