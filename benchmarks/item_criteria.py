"""Items with criteria of their own: how long they take, and how often their intervals hold the truth.

    python benchmarks/item_criteria.py time [criteria]
    python benchmarks/item_criteria.py coverage [rounds]
    EVALKIT_DATA=FOLDER python benchmarks/item_criteria.py halo

`time` makes verdicts in the shape of 32 HealthBench runs (200 prompts with 3 to 40 criteria, negative points, axes; by
default 75,306) and times each step from the items to the figures; with 1,000,000 it shows the growth (4 s of computing
and .5 GB, 46 s and 4.7 GB). The exit code is 1 if the 75,306 take over 8 s of computing or 1.5 GB.

`coverage` draws prompts from a population whose figures are known. Printed is the share of rounds whose 95 % interval
holds the true figure: of the mean score (runs repeated 1 to 4 times, unequal numbers of criteria, negative points), of
agreement and kappa (30 tasks with 21 pairs each, as in DevAI; with clusters of tasks and without), of worst and best at
k (76 prompts, 16 runs); and the share in which worst and best hold the mean of complete verdicts, where verdicts are
missing by what they are. 100 rounds by default, seconds; 1,000 take some six minutes. All seeds are fixed. The exit
code is 1 if a share is off by more than 2 points and what the rounds leave open. With 400 rounds it printed:

    mean of 30, 60, 200 prompts                        .938, .945, .955
    the same, with repeats taken for items             .790, .793, .833
    accuracy, kappa of 630 pairs in 30 tasks           .965, .963
    the same, with pairs taken for independent         .860, .850
    worst at 1, 4, 8 of 16 runs (76 prompts)           .955, .950, .940
    best at 4, 8 where most prompts are passed         .925, .870, with a note

The last row is what remains: where nearly all prompts have the same worst or best, the interval is too narrow. `worst`
and `best` of `summarize` held the mean of the complete verdicts in all rounds, where a negative criterion that is met
was lost fifteen times as often as one that is not; the mean of the complete items was .06 too high there, the
renormalised one .09.

`halo` reads the recorded verdicts of DevAI (one requirement per call, 90 items) and prints how alike verdicts on one
item are, the judge's and people's. No replies to several requirements at once are recorded, so a halo is planted: some
verdicts are replaced by the impression of the item, which is true with the share of its requirements that are met. The
recorded judge has a correlation of .22 [.12, .32], people of .23 [.12, .33]. With a planted halo:

    replaced    correlation_change      agreement_change
    none        -.02 [-.05, .02]        -.01 [-.02, .00]
    10 %         .00 [-.04, .04]        -.04 [-.06, -.02]
    20 %         .01 [-.05, .08]        -.06 [-.08, -.03]
    40 %         .13 [.02, .23]         -.13 [-.16, -.10]
"""

from __future__ import annotations

import gzip
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import evalkit as ek
from evalkit.stats import at_k
from evalkit.stats.comparison.halos import halo

POINTS = np.array([5, 8, 7, 6, 9, 10, 4, 3, -8, -7, -6, -9, -5, -10, -4, -3], dtype=float)
HOW_OFTEN = np.array([200, 160, 143, 102, 71, 36, 26, 15, 91, 74, 63, 59, 46, 32, 16, 13], dtype=float)
N_PROMPTS = 200


def sizes_of(rng: np.random.Generator, n: int) -> np.ndarray:
    """Numbers of criteria, 3 to 40, 12 in the mean."""
    return np.asarray(np.clip(np.round(rng.lognormal(np.log(10.5), 0.52, n)), 3, 40), dtype=np.int64)


def drawn_points(rng: np.random.Generator, sizes: np.ndarray) -> np.ndarray:
    """Of each criterion, with at least one positive one per item."""
    points = rng.choice(POINTS, sizes.sum(), p=HOW_OFTEN / HOW_OFTEN.sum())
    starts = np.cumsum(sizes) - sizes
    points[starts] = np.abs(points[starts])
    return points


# ---- time ----


def made_items(n_verdicts: int) -> pd.DataFrame:
    """Runs of 200 prompts with criteria of about 270 characters; the last prompts lack criteria if the number ends."""
    rng, words = np.random.default_rng(0), [f"word{number}" for number in range(4000)]
    n_runs = max(1, round(n_verdicts / 2353))
    sizes = sizes_of(rng, N_PROMPTS)
    while sizes.sum() != n_verdicts // n_runs:  # to the number that is asked for
        place = rng.integers(N_PROMPTS)
        sizes[place] = np.clip(sizes[place] + np.sign(n_verdicts // n_runs - sizes.sum()), 3, 40)
    points = drawn_points(rng, sizes)
    texts = [" ".join(rng.choice(words, 36)) for _ in points]
    axes = rng.choice(["accuracy", "completeness", "context", "communication"], len(points))
    criteria = [
        dict(zip(("text", "points", "axis"), one, strict=True)) for one in zip(texts, points, axes, strict=True)
    ]
    ends = np.cumsum(sizes)
    extra = n_verdicts - int(sizes.sum()) * n_runs  # one more criterion in some items of the first run
    rows = []
    for run in range(n_runs):
        for prompt, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            more = [{"text": "One more", "points": 1.0, "axis": "context"}] * (run == 0 and prompt < extra)
            cell = [*criteria[end - size : end], *more]
            head = {"item_id": f"run{run}/{prompt}", "group_id": str(prompt), "system_id": f"run{run}"}
            rows.append(head | {"question": "why so? " * 100, "answer": "it is so. " * 155, "criteria": cell})
    return pd.DataFrame(rows)


def timed(n_verdicts: int) -> int:
    items = made_items(n_verdicts)
    last, spent = (time.perf_counter(), time.process_time()), np.zeros(2)

    def lap(step: str) -> None:
        nonlocal last, spent
        now, peak = (time.perf_counter(), time.process_time()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took = np.subtract(now, last)
        print(f"{step:24}{took[0]:8.2f} s   computing {took[1]:6.2f} s   peak {peak / 2**20:5.2f} GB", flush=True)
        last, spent = now, spent + took

    rows = ek.explode_criteria(items)
    lap("explode_criteria")
    rng = np.random.default_rng(1)
    recorded = pd.DataFrame({"item_id": rows["item_id"], "judge": "recorded", "met": rng.random(len(rows)) < 0.4})
    recorded["explanation"] = "The answer says it. " * 15
    last = (time.perf_counter(), time.process_time())
    judgments = ek.import_judgments(
        recorded, "requirement", score="met", explanation="explanation", codes={True: 1, False: 0}
    )
    lap("import_judgments")
    votes = ek.vote(judgments)
    lap("vote")
    scores = ek.aggregate(votes)
    lap("aggregate")
    table = ek.points(scores, rows)
    lap("points")
    ek.summarize(table, by="system_id")
    lap("summarize")
    whole, computing = spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    runs = f"{len(rows):,} verdicts, {table['system_id'].nunique()} runs"
    print(f"{runs}: {whole:.2f} s, computing {computing:.2f} s, peak {peak:.2f} GB")
    ek.summarize(ek.points(scores, rows, by="axis"), by="system_id")
    lap("(by axis)")
    ek.rubrics.lint_criteria(items)
    lap("(lint_criteria)")
    return int(n_verdicts <= 75_306 and (computing > 8 or peak > 1.5))


# ---- coverage ----


def population(rng: np.random.Generator, prompts: int, *, repeats: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows of criteria of `prompts` prompts, and whether each is met. Prompts and runs differ in how hard they are."""
    sizes, n_runs = sizes_of(rng, prompts), rng.integers(1, 5, prompts) if repeats else np.ones(prompts, dtype=int)
    points = np.split(drawn_points(rng, sizes), np.cumsum(sizes)[:-1])
    hard, criteria = rng.normal(0, 0.9, prompts), [rng.normal(0, 1.2, size) for size in sizes]
    prompt = np.repeat(np.arange(prompts), n_runs)
    item_sizes = sizes[prompt]
    weight = np.concatenate([points[number] for number in prompt])
    level = np.repeat(hard[prompt] + rng.normal(0, 0.4, len(prompt)), item_sizes)
    level = level + np.concatenate([criteria[number] for number in prompt]) + np.where(weight > 0, -0.6, 0.2)
    met = rng.random(len(weight)) < 1 / (1 + np.exp(-level))
    item = np.repeat(np.arange(len(prompt)), item_sizes)
    rows = pd.DataFrame({"of_item": item, "group_id": prompt[item], "points": weight})
    return rows, met


def true_mean() -> float:
    rows, met = population(np.random.default_rng(99), 400_000, repeats=False)
    earned = np.bincount(rows["of_item"], weights=rows["points"] * met)
    return float((earned / np.bincount(rows["of_item"], weights=rows["points"].clip(lower=0))).mean())


def in_rounds(rounds: int, seed: int, prompts: int, *, repeats: bool) -> tuple[pd.DataFrame, np.ndarray]:
    """As many populations in one table, `system_id` being the round."""
    rng = np.random.default_rng(seed)
    drawn = [population(rng, prompts, repeats=repeats) for _ in range(rounds)]
    rows = pd.concat([rows.assign(system_id=f"round {number}") for number, (rows, _) in enumerate(drawn)])
    for name in ("of_item", "group_id"):
        rows[name] = rows["system_id"] + " " + rows[name].astype(str)
    rows["item_id"] = rows["of_item"] + "#" + rows.groupby("of_item", sort=False).cumcount().astype(str)
    return rows.reset_index(drop=True), np.concatenate([met for _, met in drawn])


def of_means(rounds: int) -> dict[str, float]:
    truth, shares = true_mean(), dict[str, float]()
    print(f"true mean score {truth:.4f}")
    for prompts in (30, 60, 200):
        pieces = [means_of(prompts, min(25, rounds - start), prompts * 1000 + start) for start in range(0, rounds, 25)]
        figures, alone, gaps = (pd.concat(tables, ignore_index=True) for tables in zip(*pieces, strict=True))
        shares[f"mean, {prompts} prompts with repeats"] = held(figures, "low", "high", truth)
        shares[f"  (clipped mean, {prompts})"] = held(figures, "clipped_low", "clipped_high", max(0.0, truth))
        shares[f"  (mean, {prompts}, repeats taken for items)"] = held(alone, "low", "high", truth)
        ends = pd.DataFrame({"worst": gaps["worst"] - 1e-9, "best": gaps["best"] + 1e-9})
        shares[f"complete mean in [worst, best], {prompts}"] = held(ends, "worst", "best", figures["mean"].to_numpy())
        bias = [float((gaps[name] - figures["mean"]).mean()) for name in ("mean", "renormalised")]
        print(f"{prompts} prompts: bias of the mean of complete items {bias[0]:+.3f}, renormalised {bias[1]:+.3f}")
    return shares


def means_of(prompts: int, rounds: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Figures by round: of complete verdicts, with repeats taken for items, and with verdicts missing."""
    rows, met = in_rounds(rounds, seed, prompts, repeats=True)
    table = ek.points(pd.DataFrame({"item_id": rows["item_id"], "score": met}), rows)
    # missing by what they are: a met negative criterion often, an unmet one seldom, in a long item twice as often
    long = (rows.groupby("of_item")["points"].transform("size") > 15).to_numpy()
    chance = np.where((rows["points"] < 0) & met, 0.3, np.where(met, 0.06, 0.02)) * (1 + long)
    verdicts = pd.Series(met, dtype="boolean").mask(np.random.default_rng(seed).random(len(rows)) < chance)
    gaps = ek.points(pd.DataFrame({"item_id": rows["item_id"], "score": verdicts}), rows)
    figures, alone, of_gaps = (
        ek.summarize(points, by="system_id") for points in (table, table.drop(columns="group_id"), gaps)
    )
    return figures, alone, of_gaps


def held(table: pd.DataFrame, low: str, high: str, truth: float | np.ndarray) -> float:
    return float(((table[low] <= truth) & (truth <= table[high])).mean())


def of_agreement(rounds: int) -> dict[str, float]:
    """30 tasks of 21 pairs: tasks differ in how often requirements are met and in how often the judge is wrong."""

    def pairs(rng: np.random.Generator, tasks: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        task = np.repeat(np.arange(tasks), 21)
        met = rng.random(len(task)) < rng.beta(2, 3, tasks)[task]
        wrong = rng.random(len(task)) < rng.beta(1.2, 12, tasks)[task]
        return task, met, met ^ wrong

    _, met, judged = pairs(np.random.default_rng(98), 100_000)
    by_chance = met.mean() * judged.mean() + (1 - met.mean()) * (1 - judged.mean())
    truth = {"accuracy": (met == judged).mean()}
    truth["kappa"] = (truth["accuracy"] - by_chance) / (1 - by_chance)
    rng, tables, shares = np.random.default_rng(5), dict[str, list[pd.DataFrame]](), dict[str, float]()
    for _ in range(rounds):
        task, met, judged = pairs(rng, 30)
        ids = np.arange(len(task)).astype(str)
        votes = pd.DataFrame({"item_id": ids, "judge": "j", "score": judged})
        labels = pd.DataFrame({"item_id": ids, "label": met})
        for name, clusters in (("", pd.Series(task, ids)), ("  (taken for independent) ", None)):
            tables.setdefault(name, []).append(ek.align(votes, labels, clusters=clusters, figures=[*truth]))
    for name, of_rounds in tables.items():
        table = pd.concat(of_rounds)
        for figure, value in truth.items():
            shares[f"{name}{figure}, 630 pairs of 30 tasks"] = held(table, f"{figure}_low", f"{figure}_high", value)
    return shares


def of_worst(rounds: int) -> dict[str, float]:
    rng, prompts, runs = np.random.default_rng(6), 76, 16
    chance = rng.beta(1.5, 1.0, (rounds, prompts, 1))
    passed = rng.random((rounds, prompts, runs)) < chance
    places = np.indices(passed.shape).reshape(3, -1)
    frame = pd.DataFrame({"round": places[0], "group_id": places[1], "score": passed.reshape(-1).astype(float)})
    many, shares = np.random.default_rng(97).beta(1.5, 1.0, 1_000_000), {}
    for _, of_k in at_k(frame, [1, 4, 8], by="round").groupby("k"):
        k = int(of_k["k"].iloc[0])
        for name, truth in (("worst", float((many**k).mean())), ("best", float(1 - ((1 - many) ** k).mean()))):
            noted = of_k["notes"].str.contains(f"the interval of {name}", regex=False).fillna(value=False).mean()
            title = (
                f"{name} at {k}" if noted < 0.5 else f"  ({name} at {k}; {noted:.0%} with the note that it is skewed)"
            )
            shares[title] = held(of_k, f"{name}_low", f"{name}_high", truth)
    return shares


def coverage(rounds: int) -> int:
    wrong = 0
    for simulated in (of_agreement, of_worst, of_means):
        for name, share in simulated(rounds).items():
            allowed = 0.02 + 3 * np.sqrt(0.95 * 0.05 / rounds)  # three standard errors
            bad = share < 1 if "complete" in name else abs(share - 0.95) > allowed and "(" not in name
            wrong += int(bad)
            print(f"{name:58}{share:8.4f}{'   OFF' if bad else ''}", flush=True)
    return int(wrong > 0)


# ---- halo ----


def planted(seed: int) -> int:
    folder = Path(os.environ["EVALKIT_DATA"]) / "item_criteria"

    def read(name: str) -> pd.DataFrame:
        with gzip.open(folder / f"devai_{name}.jsonl.gz", "rt") as lines:
            return pd.read_json(lines, lines=True, dtype={"criterion": str})

    rows = ek.explode_criteria(read("items"))
    recorded, people = (
        frame.assign(item_id=frame["item_id"] + "#" + frame["criterion"]).drop(columns="criterion")
        for frame in (read("judgments"), read("labels"))
    )
    labels = people.rename(columns={"met": "label"})
    met = recorded["met"].to_numpy()
    of_item = recorded["item_id"].map(rows.set_index("item_id")["of_item"])
    share = pd.Series(met.astype(float)).groupby(of_item.to_numpy()).transform("mean").to_numpy()
    rng, columns = np.random.default_rng(seed), ["correlation_together", "correlation_change", "agreement_change"]
    codes = {True: 1, False: 0}
    single = ek.import_judgments(recorded, "requirement", score="met", codes=codes)
    for strength in (0.0, 0.1, 0.2, 0.4):
        impression = rng.random(len(of_item.unique()))[pd.factorize(of_item)[0]] < share
        verdicts = np.where(rng.random(len(met)) < strength, impression, met)
        verdicts ^= rng.random(len(met)) < 0.02  # what asking again changes
        together = ek.import_judgments(recorded.assign(met=verdicts), "requirement", score="met", codes=codes)
        table = halo(single, together.assign(key=of_item.to_numpy()), labels, items=rows)
        if not strength:
            print(ek.show(table[figures_of(["correlation_single", "correlation_labels"])]))
        print(f"planted: {strength:.0%} of the verdicts\n{ek.show(table[figures_of(columns)])}")
    return 0


def figures_of(names: list[str]) -> list[str]:
    return [f"{name}{end}" for name in names for end in ("", "_low", "_high")]


if __name__ == "__main__":
    what, *numbers = sys.argv[1:] or ["coverage"]
    number = int(numbers[0]) if numbers else {"time": 75_306, "coverage": 100, "halo": 1}[what]
    sys.exit({"time": timed, "coverage": coverage, "halo": planted}[what](number))
