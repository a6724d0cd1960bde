"""Figures from few labels on recorded data: three sets with all items labelled, of which 5 % of the labels are used.

Summaries of 16 systems (SummEval, Fabbri et al. 2021: coherence and consistency) and restaurant reviews (CEBaB stars),
labelled by people and scored by six judges (Calderon et al. 2025). `python few_labels_recorded.py [ROUNDS]` (default
200): each round draws 5 % of the items at random and uses their labels; all labels are the truth. For one judge and
the jury of all: root mean square error of the raw mean, of `corpus_estimate` and of the labels alone; coverage of
their intervals; Spearman's rank correlation of the systems' means with people's, raw and calibrated; and the mean
absolute error of one system's mean, with a map fitted on the other systems. Skipped without the data.

Of 200 rounds; *worth* is the median, with `largest_error` of half the scale:

| set, judge | labels | raw: error, holds | estimate: error, holds | labels alone: error, holds | worth (labels) |
| --- | --- | --- | --- | --- | --- |
| coherence, gpt-4o-mini | 80 of 1,600 | .251, 0 % | .094, 98 % | .110, 98 % | 95 |
| coherence, jury of six | 80 | .214, 0 % | .086, 98 % | .110, 98 % | 105 |
| consistency, gpt-4o-mini | 80 | .534, 0 % | .089, 94 % | .104, 95 % | 104 |
| consistency, jury of six | 80 | .437, 0 % | .082, 96 % | .104, 95 % | 125 |
| stars, gpt-4o-mini | 36 of 711 | .099, 0 % | .091, 98 % | .210, 94 % | 111 |
| stars, jury of six | 36 | .141, 0 % | .083, 98 % | .210, 94 % | 123 |

| set, judge | rank correlation, raw and calibrated | error, raw | error, calibrated on the other 15 systems |
| --- | --- | --- | --- |
| coherence, gpt-4o-mini | .76, .76 | .33 | .36 |
| coherence, jury of six | .77, .77 | .32 | .30 |
| consistency, gpt-4o-mini | .85, .83 | .52 | .25 |
| consistency, jury of six | .82, .82 | .43 | .18 |
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from recorded import data_folder, rows

import evalkit as ek

SHARE, JUDGE = 0.05, "gpt-4o-mini"
SETS = ("summeval_alttest_coherence", "summeval_alttest_consistency", "alttest_cebab_stars")


def loaded(folder: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Items (with cluster and system), votes of the judges, and the long labels table."""
    found, scores, items, labels = rows(folder, name), [], {}, []
    for row in found:
        item = row["item_id"]
        new = item not in items
        items[item] = {"item_id": item, "group": row.get("group_id", item), "system": row.get("system_id", "one")}
        judges = row.get("judges") or {row["judge"]: row["samples"][0]}
        scores += [{"item_id": item, "judge": f"openai:{who}", "score": code} for who, code in judges.items()]
        labels += [(item, "c", who, str(code)) for who, code in row["human"].items() if new and code is not None]
    one = ek.Criterion(name="c", level="ordinal", scale=dict.fromkeys(range(1, 6), ""))
    rubric = ek.Rubric(id=name.replace("_", "-"), inputs=["answer"], criteria=[one])
    table = pd.DataFrame(scores)
    table["score"] = pd.to_numeric(table["score"], errors="coerce")
    judgments = ek.import_judgments(table.dropna(), rubric, item="item_id", judge="judge", score="score")
    long = pd.DataFrame(labels, columns=["item_id", "criterion", "annotator", "label"])
    return pd.DataFrame(items.values()), ek.vote(judgments), long


def one_draw(
    draw: np.random.Generator, items: pd.DataFrame, judged: pd.DataFrame, labels: pd.DataFrame
) -> dict[str, float]:
    """The figures of one draw of labels, for one judge or the jury."""
    truth = labels.assign(label=labels["label"].astype(float)).groupby("item_id")["label"].mean()
    chosen = set(draw.permutation(items["item_id"])[: round(SHARE * len(items))])
    few = labels[labels["item_id"].isin(chosen)]
    clusters = items.set_index("item_id")["group"]
    row = ek.corpus_estimate(judged, few, clusters=clusters).iloc[0]
    goal = truth.reindex(items["item_id"]).mean()
    made = {name: row[name] - goal for name in ("raw", "estimate", "human")}
    made |= {
        f"{name} covers": row[f"{name}_low"] <= goal <= row[f"{name}_high"] for name in ("raw", "estimate", "human")
    }
    made["worth"] = row["worth"]
    systems = items.set_index("item_id")["system"]
    if systems.nunique() < 3:
        return made
    away = draw.choice(systems.unique())
    elsewhere = few[few["item_id"].map(systems).ne(away)]
    for name, used in (("all", few), ("others", elsewhere)):
        applied = ek.calibrate(judged, used, clusters=clusters).apply(judged)
        by_system = applied.groupby(applied["item_id"].map(systems))[["score", "calibrated"]].mean()
        people = truth.groupby(systems).mean()
        if name == "all":
            ranks = by_system.corrwith(people, method="spearman")
            made |= {"ranks raw": ranks["score"], "ranks calibrated": ranks["calibrated"]}
        else:
            gap = (by_system.loc[away] - people[away]).abs()
            made |= {"away raw": gap["score"], "away calibrated": gap["calibrated"]}
    return made


def main(rounds: int) -> int:
    folder = data_folder()
    if folder is None:
        print("skipped: no recorded data (EVALKIT_DATA)")
        return 0
    started, missed = time.perf_counter(), []
    for name in SETS:
        items, votes, labels = loaded(folder, name)
        for who, judged in ((JUDGE, votes[votes["judge"] == f"openai:{JUDGE}"]), ("jury of six", ek.aggregate(votes))):
            if judged.empty:
                raise SystemExit(f"{name}: judges are {votes['judge'].unique().tolist()}")
            draw = np.random.default_rng(7)
            found = pd.DataFrame([one_draw(draw, items, judged, labels) for _ in range(rounds)]).astype(float)
            print(f"{name}, {who}: {round(SHARE * len(items))} of {len(items)} items labelled")
            for figure in ("raw", "estimate", "human"):
                error, covers = float((found[figure] ** 2).mean() ** 0.5), 100 * found[f"{figure} covers"].mean()
                print(f"  {figure:10} error {error:.3f}, its interval holds the truth in {covers:.0f} %")
            print(f"  the labels are worth {found['worth'].median():.0f} with the judge")
            if "ranks raw" in found:
                names = ["ranks raw", "ranks calibrated", "away raw", "away calibrated"]
                raw, mapped, away, away_mapped = found[names].mean()
                print(f"  rank correlation of systems: raw {raw:.3f}, calibrated {mapped:.3f}")
                print(f"  a system that the map was not fitted on: raw {away:.3f} off, calibrated {away_mapped:.3f}")
            if found["estimate covers"].mean() < 0.93 - 2 * (0.93 * 0.07 / rounds) ** 0.5:
                missed.append(f"{name}, {who}")
    print(f"{time.perf_counter() - started:.0f} s; covers less than 93 %: {'; '.join(missed) or 'nowhere'}")
    return int(bool(missed))


if __name__ == "__main__":
    given = [int(option) for option in sys.argv[1:] if option.isdecimal()]
    sys.exit(main(given[0] if given else 40 if "--quick" in sys.argv else 200))
