"""What `win_rates` says where a judge's reply in one of the two orders of a pair cannot be read, in simulations.

400 pairs, one sample in each order. The judge prefers the first place by one logit, or always takes it. Replies are
missing at random in one order, or on hard items: seven times as often where the answers are nearly equal as elsewhere.
`win_rate` is over the pairs of which both orders were read, `order_mean` the mean of the rates in the two orders, and
beside them is what comes out if one order is enough for a winner. Shown: bias, share of rounds whose 95 % interval
holds the truth, mean width.

`python benchmarks/one_order.py [ROUNDS]` (default 1,000: a standard error of .7 points of coverage).
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

import evalkit as ek
from evalkit import tables
from evalkit.stats import win_rates
from evalkit.stats.intervals import mean_interval

N, SPREAD, PAIR = 400, 1.5, '{"codes":["A","B","tie"],"better":"high"}'
ALWAYS, EASY, AT_ONCE = 50.0, 0.25, 50
SETTINGS = {  # bias in logits, mean difference, missing in AB and in BA, on hard items?
    "bias 1 logit, 30 % of AB": (1.0, 0.0, 0.3, 0.0, False),
    "always first, 30 % of BA": (ALWAYS, 0.0, 0.0, 0.3, False),
    "10 % of AB, 30 % of BA": (1.0, 0.0, 0.1, 0.3, False),
    "30 % of BA, on hard items": (1.0, 0.0, 0.0, 0.3, True),
    "30 % of AB, on hard items, A better": (1.0, 0.8, 0.3, 0.0, True),
    "nothing missing": (1.0, 0.0, 0.0, 0.0, False),
}


def preferred(draw: np.random.Generator, n: int, bias: float, better: float) -> tuple[np.ndarray, np.ndarray]:
    """The differences between the answers, and whether answer A is preferred in each order."""
    gap = better + SPREAD * draw.normal(size=n)
    odds = np.stack([gap + bias, gap - bias])
    return gap, draw.random((2, n)) < 1 / (1 + np.exp(-odds))


def votes(chosen: np.ndarray, read: np.ndarray) -> pd.DataFrame:
    """The votes of rounds × orders × pairs; each round is a criterion."""
    rounds, _, n = chosen.shape
    known, first = read.transpose(0, 2, 1).ravel(), chosen.transpose(0, 2, 1).ravel()
    score, m = np.where(known, first, np.nan).astype(float), 2 * rounds * n
    text = {"rubric": "r", "rubric_version": "v1", "judge": "j", "level": "nominal", "scale": PAIR}
    judgments = tables.table(
        "judgments",
        {name: pd.Categorical.from_codes(np.zeros(m, int), [value]) for name, value in text.items()}
        | {"criterion": np.repeat(np.arange(rounds), 2 * n).astype(str)}
        | {"item_id": np.tile(np.repeat(np.arange(n), 2), rounds).astype(str)}
        | {"order": pd.Categorical.from_codes(np.tile([0, 1], rounds * n), ["AB", "BA"]), "sample": np.zeros(m, int)}
        | {"label": pd.Categorical.from_codes(np.where(known, 1 - first, -1).astype(int), ["A", "B"])}
        | {"score": score, "score_norm": score}
        | {"error": pd.Categorical.from_codes(np.where(known, -1, 0), ["unreadable"])},
    )
    return ek.vote(judgments)


def main(rounds: int) -> None:
    items = pd.DataFrame({"item_id": [str(at) for at in range(N)], "system_a": "a", "system_b": "b"})
    print(f"{'bias / coverage % / width':40} {'win_rate':>22} {'order_mean':>22} {'one is enough':>22}")
    for name, (bias, better, in_ab, in_ba, hard) in SETTINGS.items():
        truth = float(preferred(np.random.default_rng(0), 2_000_000, bias, better)[1].mean())
        found = list[tuple[tuple[float, float, float], ...]]()
        for start in range(0, rounds, AT_ONCE):
            draw = np.random.default_rng([7, start])
            drawn = [preferred(draw, N, bias, better) for _ in range(min(AT_ONCE, rounds - start))]
            gap, chosen = np.stack([one for one, _ in drawn]), np.stack([two for _, two in drawn])
            easy = np.abs(gap) >= np.median(np.abs(gap), axis=1, keepdims=True)
            risk = np.array([in_ab, in_ba])[:, None] * np.where(hard, np.where(easy, EASY, 2 - EASY), 1.0)[:, None, :]
            read = draw.random(chosen.shape) >= risk
            table = win_rates(votes(chosen, read), items)
            table = table[(table["system"] == "a") & (table["opponent"] == "all")].set_index("criterion")
            for number in range(len(drawn)):
                row, some = table.loc[str(number)], read[number].any(axis=0)
                single = (chosen[number] & read[number]).sum(axis=0)[some] / read[number].sum(axis=0)[some]
                ends = mean_interval(single, np.arange(len(single)), bounds=(0.0, 1.0))
                own = (tuple(row[[key, f"{key}_low", f"{key}_high"]]) for key in ("win_rate", "order_mean"))
                found.append((*own, (single.mean(), ends.low, ends.high)))
        value, low, high = np.array(found, dtype=float).transpose(2, 0, 1)
        held = 100 * ((low <= truth) & (truth <= high)).mean(axis=0)
        shown = zip(value.mean(axis=0) - truth, held, (high - low).mean(axis=0), strict=True)
        print(f"{name:40}" + "".join(f"{one:+9.3f} {two:6.1f} {three:6.3f}" for one, two, three in shown), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
