"""What `rank` says where a judge's reply in one of the two orders of a pair cannot be read, in simulations.

400 pairs, one sample in each order. The judge prefers the first place by one logit, or always takes it. Replies are
missing at random in one order, or on hard items: seven times as often where the answers are nearly equal as elsewhere.
In the last two settings replies are missing seven times as often where one answer is better: there nothing is promised.
`win_rate` is over the pairs of which both orders were read, `order_mean` the mean of the rates in the two orders, and
beside them is what comes out if one order is enough for a winner. Shown: bias, share of rounds whose 95 % interval
holds the truth, mean width.

`python benchmarks/one_order.py [ROUNDS]` (default 1,000: a standard error of .7 points of coverage; `--quick` 200). A
coverage of `order_mean` under 93 % by more than two standard errors where it is promised is marked and fails the
benchmark.

Bias, coverage and mean width, of 1,000 rounds with 30 % of the pairs lacking an order:

| what is missing | `win_rate` | `order_mean` | if one order were enough |
| --- | --- | --- | --- |
| 30 % of AB | −.001, 95 %, .09 | −.001, 95 %, .08 | −.05, 30 %, .08 |
| 30 % of BA, and the judge always takes the first answer | 0, 100 %, .12 | 0, 100 %, .10 | +.15, 0 %, .05 |
| 10 % of AB, 30 % of BA | −.001, 95 %, .09 | −.001, 96 %, .09 | +.04, 65 %, .08 |
| 30 % of BA, mostly if the answers are nearly equal | −.001, 95 %, .09 | +.007, 95 %, .09 | +.06, 18 %, .08 |
| 30 % of AB, the same, and A is better on average | +.03, 74 %, .09 | +.007, 99 %, .12 | −.06, 16 %, .08 |
| 30 % of AB, mostly if A is better | −.07, 14 %, .09 | −.03, 96 %, .15 | −.05, 30 %, .08 |
| 30 % of BA, the same, and A is better on average | −.06, 18 %, .09 | −.04, 88 %, .12 | +.04, 51 %, .07 |

Without the allowance for the difference between the orders, the coverage of `order_mean` would be 93 % in the rows on
nearly equal answers, and 50 to 65 % in the last two.
"""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd

import evalkit as ek
from evalkit.stats.intervals import mean_interval
from evalkit.tables import schemas

N, SPREAD, PAIR = 400, 1.5, '{"codes":["A","B","tie"],"better":"high"}'
ALWAYS, EASY, AT_ONCE, LOW = 50.0, 0.25, 50, 0.93
SETTINGS = {  # bias in logits, mean difference, missing in AB and in BA, where mostly
    "bias 1 logit, 30 % of AB": (1.0, 0.0, 0.3, 0.0, ""),
    "always first, 30 % of BA": (ALWAYS, 0.0, 0.0, 0.3, ""),
    "10 % of AB, 30 % of BA": (1.0, 0.0, 0.1, 0.3, ""),
    "30 % of BA, on hard items": (1.0, 0.0, 0.0, 0.3, "hard"),
    "30 % of AB, on hard items, A better": (1.0, 0.8, 0.3, 0.0, "hard"),
    "nothing missing": (1.0, 0.0, 0.0, 0.0, ""),
    "30 % of AB, where A is better": (1.0, 0.0, 0.3, 0.0, "A"),
    "30 % of BA, where A is better, A better": (1.0, 0.8, 0.0, 0.3, "A"),
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
    judgments = schemas.table(
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


def main(rounds: int) -> int:
    items = pd.DataFrame({"item_id": [str(at) for at in range(N)], "system_a": "a", "system_b": "b"})
    missed = list[str]()
    print(f"{'bias / coverage % / width':40} {'win_rate':>22} {'order_mean':>22} {'one is enough':>22}")
    for name, (bias, better, in_ab, in_ba, where) in SETTINGS.items():
        truth = float(preferred(np.random.default_rng(0), 2_000_000, bias, better)[1].mean())
        found = list[tuple[tuple[float, float, float], ...]]()
        for start in range(0, rounds, AT_ONCE):
            draw = np.random.default_rng([7, start])
            drawn = [preferred(draw, N, bias, better) for _ in range(min(AT_ONCE, rounds - start))]
            gap, chosen = np.stack([one for one, _ in drawn]), np.stack([two for _, two in drawn])
            size = gap if where == "A" else -np.abs(gap)
            often = np.where(size >= np.median(size, axis=1, keepdims=True), 2 - EASY, EASY) if where else np.ones(1)
            risk = np.array([in_ab, in_ba])[:, None] * (often[:, None, :] if where else often)
            read = draw.random(chosen.shape) >= risk
            table = ek.rank(votes(chosen, read), items)
            table = table[table["system"] == "a"].set_index("criterion")
            for number in range(len(drawn)):
                row, some = table.loc[str(number)], read[number].any(axis=0)
                single = (chosen[number] & read[number]).sum(axis=0)[some] / read[number].sum(axis=0)[some]
                ends = mean_interval(single, np.arange(len(single)), bounds=(0.0, 1.0))
                own = (tuple(row[[key, f"{key}_low", f"{key}_high"]]) for key in ("win_rate", "order_mean"))
                found.append((*own, (single.mean(), ends.low, ends.high)))
        value, low, high = np.array(found, dtype=float).transpose(2, 0, 1)
        held = 100 * ((low <= truth) & (truth <= high)).mean(axis=0)
        shown = zip(value.mean(axis=0) - truth, held, (high - low).mean(axis=0), strict=True)
        short = where != "A" and bool(held[1] < 100 * (LOW - 2 * math.sqrt(LOW * (1 - LOW) / rounds)))
        missed += [name] * short
        text = "".join(f"{one:+9.3f} {two:6.1f} {three:6.3f}" for one, two, three in shown)
        print(f"{name:40}{text}{' *' * short}", flush=True)
    print(f"order_mean under 93 %: {'; '.join(missed) or 'nowhere'}")
    return int(bool(missed))


if __name__ == "__main__":
    given = [int(option) for option in sys.argv[1:] if option.isdecimal()]
    sys.exit(main(given[0] if given else 200 if "--quick" in sys.argv else 1_000))
