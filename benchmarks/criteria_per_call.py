"""Several criteria per call: calls, tokens and price of 1, 3 and 7 criteria, apart and together, by the stub's bill.

Each item has an answer of 300 words. A fifth of the calls fail (429, 500, connection reset), and nothing is paid twice.
Then items with 4 to 20 criteria of their own, apart and eight per call, 3 % of the replies unreadable: a first run,
and a second one, which asks alone what replies on several left out. At the prices of gpt-4o-mini:

    criteria per call    calls    tokens in    tokens out    US$      criteria scored    items scored
    1                    2,455    1,705,320    44,190        0.282    97.0 %             69.5 %
    8                      396      362,412    47,141        0.083    98.3 %             96.0 %
    8, run again           435      389,502    47,843        0.087    99.8 %             97.5 %
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from stub import Checks, control, needed_folder, stub_server

import evalkit as ek
from evalkit.core.formatting import Bill

N = 200
CRITERIA = {
    "correct": "Are all statements right?",
    "complete": "Does the answer cover all that was asked?",
    "clear": "Can it be followed at first reading?",
    "concise": "Is there nothing that could be left out?",
    "polite": "Is the tone polite?",
    "grounded": "Does the reference support every statement?",
    "safe": "Is it free of advice that could do harm?",
}
FAULTS = {"p429": 0.08, "p500": 0.08, "preset": 0.04, "retry_after": "0"}


def rubric(n: int) -> ek.Rubric:
    """A rubric with the first `n` criteria."""
    scale = {0: "It is not.", 1: "It is."}
    criteria = [
        {"name": name, "description": text, "scale": scale, "pass_at": 1} for name, text in list(CRITERIA.items())[:n]
    ]
    return ek.Rubric(id="several", inputs=["question", "answer", "reference"], criteria=criteria)


def main() -> int:
    """Print a line per number of criteria and way of asking."""
    check, folder = Checks(), needed_folder()
    words = " ".join(["about ten years ago the bridge was opened to all"] * 30)
    items = [
        {"item_id": str(at), "question": f"QID-{at} When was it opened?", "answer": words, "reference": "In 2016."}
        for at in range(N)
    ]
    print(
        f"{'criteria':>8} {'per call':>8} {'calls':>6} {'tokens in':>10} {'tokens out':>10} {'US$ per 1,000 items':>20}"
    )
    alone: dict[int, float] = {}
    with stub_server(folder, latency_ms=0, **FAULTS) as base:
        judge = ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1", price=(0.15, 0.6), max_tokens=1024)
        for n in (1, 3, 7):
            for per_call in (1, "all") if n > 1 else (1,):
                control(base, "/_reset")
                with tempfile.TemporaryDirectory() as cache:
                    ask = {"samples": 1, "criteria_per_call": per_call, "cache": cache, "progress": False}
                    table = ek.judge(items, rubric(n), judge, retries=20, **ask)  # type: ignore[arg-type]
                    ek.judge(items, rubric(n), judge, **ask)  # type: ignore[arg-type]
                bill, ours = control(base, "/_stats"), Bill.of(table)
                once = table.drop_duplicates("key")
                usd = bill["usd"] / N * 1000
                alone.setdefault(n, usd)
                tokens = bill["prompt_tokens"], bill["completion_tokens"]
                print(
                    f"{n:>8} {per_call:>8} {bill['paid']:>6} {tokens[0]:>10,} {tokens[1]:>10,} {usd:>20.4f}"
                    + (f"   {usd / alone[n]:.0%} of the price apart" if per_call == "all" else "")
                )
                check("all judgments are scored", int(table["score"].notna().sum()), N * n)
                check("replies paid for", bill["paid"], N if per_call == "all" else N * n)
                check("requests paid twice", bill["dup_paid_body"], 0)
                seen = int(once["prompt_tokens"].sum()), int(once["completion_tokens"].sum())
                check("tokens are those of the server's bill", seen, tokens)
                check.true("US$ are those of the server's bill", abs(ours.known_usd - bill["usd"]) < 2e-6, bill["usd"])
        for per_call in (1, 8):
            of_items(base, words, per_call, check)
    return 0 if check.met else 1


def of_items(base: str, words: str, per_call: int, check: Checks) -> None:
    """Print the bill and the coverage of two runs over items with criteria of their own."""
    draw = random.Random(5)
    items = [
        {"item_id": str(at), "question": f"QID-{at} When was it opened?", "answer": words,
         "criteria": [f"States fact number {k} about the bridge of item {at}" for k in range(draw.randint(4, 20))]}
        for at in range(N)
    ]  # fmt: skip
    control(base, "/_reset")
    control(base, "/_config", {"punparse": 0.03})
    judge = ek.Judge("openai", "gpt-4o-mini", base_url=f"{base}/v1", price=(0.15, 0.6), max_tokens=1024)
    with tempfile.TemporaryDirectory() as cache:
        ask = {"samples": 1, "criteria_per_call": per_call, "cache": cache, "progress": False, "retries": 20}
        for run in ("first run", "second run"):
            table = ek.judge(items, "requirement", judge, **ask)  # type: ignore[arg-type]
            bill, scored = control(base, "/_stats"), table["error"].isna()
            points = ek.points(ek.aggregate(ek.vote(table)), items)
            print(
                f"{len(table)} criteria of {N} items, {per_call} per call, {run}: {bill['paid']:,} calls, "
                f"{bill['prompt_tokens']:,} tokens in, {bill['completion_tokens']:,} out, US$ {bill['usd']:.4f}; "
                f"{scored.mean():.1%} of the criteria scored, {points['score'].notna().mean():.1%} of the items"
            )
            check("requests paid twice", bill["dup_paid_body"], 0)
    control(base, "/_config", {"punparse": 0.0})


if __name__ == "__main__":
    sys.exit(main())
