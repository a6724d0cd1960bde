"""Tables of points side by side: compared by item, ranked by prompt; halo among the criteria of an item."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import evalkit as ek
from evalkit.errors import InputError
from evalkit.stats import at_k
from evalkit.stats.comparison.halos import halo


def made_rows(seed: int, prompts: int = 14, systems: tuple[str, ...] = ("x", "y", "z")) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    items = []
    for prompt in range(prompts):
        points = [5, *draw.choice([3, 1, -4, -8], draw.integers(2, 9)).tolist()]
        criteria = [{"text": f"t{k}", "points": p, "axis": "ab"[k % 2]} for k, p in enumerate(points)]
        items += [
            {"item_id": f"{prompt}{name}", "group_id": prompt, "system_id": name, "answer": "x", "criteria": criteria}
            for name in systems
        ]
    return ek.explode_criteria(items)


def met(rows: pd.DataFrame, seed: int, missing: float = 0.0) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    verdicts = pd.Series(draw.random(len(rows)) < 0.5, dtype="boolean").mask(draw.random(len(rows)) < missing)
    return pd.DataFrame({"item_id": rows["item_id"], "score": verdicts})


def test_points_of_two_judges_are_compared_by_item_with_clusters_of_prompts() -> None:
    rows = made_rows(1)
    sides = [ek.points(met(rows, seed, missing=0.02), rows) for seed in (1, 2)]
    row = ek.compare(*sides).table.iloc[0]
    both = sides[0].merge(sides[1], on="item_id")
    gap = (both["score_y"] - both["score_x"]).dropna()
    assert (both["score_x"].min(), both["score_x"].isna().any()) < (0, True)  # scores below 0, and open ones
    assert row["score_difference"] == pytest.approx(gap.mean())
    by_cluster = (gap - gap.mean()).groupby(both["group_id_x"]).sum()
    n = len(by_cluster)
    error = np.sqrt((by_cluster**2).sum() * n / (n - 1)) / len(gap)
    assert row["score_difference_high"] - row["score_difference"] < 2 * error * student.ppf(0.975, n - 1)
    assert row["score_difference_high"] - row["score_difference"] > 0.8 * error * student.ppf(0.975, n - 1)
    assert (row["n_scored"], row["n_clusters"], row["n_common"]) == (len(gap), 14, len(both))
    assert np.isnan(row["mean_difference"])
    assert "scores of points have no lower end" in row["notes"]
    other_prompt = sides[1].assign(rubric="strict", criterion="true")
    renamed = ek.compare(sides[0], other_prompt).table.iloc[0]
    assert renamed[["rubric", "criterion"]].tolist() == ["points", "points"]
    assert renamed["score_difference"] == row["score_difference"]
    by_axis = ek.compare(*(ek.points(met(rows, seed), rows, by="axis") for seed in (1, 2))).table.set_index("criterion")
    for axis in "ab":
        tables = [ek.points(met(rows, seed), rows, by="axis") for seed in (1, 2)]
        parts = [table[table["axis"] == axis] for table in tables]
        means = parts[0][["item_id", "score"]].merge(parts[1][["item_id", "score"]], on="item_id")
        assert by_axis.loc[axis, "score_difference"] == pytest.approx((means["score_y"] - means["score_x"]).mean())


@pytest.mark.long
def test_systems_are_ranked_by_the_points_of_their_answers_to_one_prompt() -> None:
    rows = made_rows(3)
    table = ek.points(met(rows, 5), rows)
    score = table.pivot_table(index="group_id", columns="system_id", values="score")
    for one, other in itertools.permutations("xyz", 2):
        row = ek.rank(table[table["system_id"].isin([one, other])]).set_index("system").loc[one]
        gap = np.sign((score[one] - score[other]).round(9))
        assert row["win_rate"] == pytest.approx(((gap + 1) / 2).mean())
        assert row["n_scored"] == 14
    assert set(ek.rank(table)["system"]) == set("xyz")
    assert set(ek.rank(ek.points(met(rows, 5), rows, by="axis"))["criterion"]) == {"a", "b"}
    again = pd.concat(
        [table, table.assign(item_id=table["item_id"] + " again", score=0.0, points=0.0)]
    )  # two runs each
    doubled = ek.rank(again[again["system_id"].isin(["x", "y"])])
    assert doubled["n_scored"].tolist() == [14 * 4] * 2
    alone = table.assign(group_id=table["item_id"])
    with pytest.raises(InputError, match="no item has scores of two systems"):
        ek.rank(alone)


def test_rows_that_are_no_runs_are_refused() -> None:
    rows = made_rows(4)
    table, by_axis = ek.points(met(rows, 1), rows), ek.points(met(rows, 1), rows, by="axis")
    with pytest.raises(InputError, match="item_id twice"):
        at_k(by_axis, 2)
    of_axis = at_k(by_axis, 2, by="axis")
    assert (of_axis["n_prompts"] + of_axis["n_short"]).tolist() == [
        14,
        by_axis.query("axis == 'b'")["group_id"].nunique(),
    ]
    two = pd.concat([table, ek.points(met(rows, 2), rows)])
    with pytest.raises(InputError, match="item_id twice"):
        at_k(two, 2)
    with pytest.raises(InputError, match="points table have the same key"):
        ek.summarize(two)
    assert len(ek.summarize(by_axis)) == 2


def intraclass(values: pd.Series, of_item: pd.Series) -> float:
    pairs = [
        pair
        for _, part in values.groupby(of_item.to_numpy())
        for pair in itertools.permutations(part.dropna().tolist(), 2)
    ]
    return float(np.corrcoef(np.array(pairs).T)[0, 1])


def test_halo_among_criteria_of_an_item_is_the_correlation_of_all_their_pairs() -> None:
    rows = made_rows(6, prompts=20)
    draw = np.random.default_rng(0)
    impression = draw.random(rows["of_item"].nunique())[pd.factorize(rows["of_item"])[0]] < 0.5
    alone = draw.random(len(rows)) < 0.5
    good = np.where(draw.random(len(rows)) < 0.6, impression, alone)
    merits = {"single": alone, "together": good, "people": alone ^ (draw.random(len(rows)) < 0.1)}
    verdicts = {name: np.where(rows["points"] > 0, merit, ~merit) for name, merit in merits.items()}

    def judged(name: str) -> pd.DataFrame:
        given = pd.DataFrame({"item_id": rows["item_id"], "judge": "j", "met": verdicts[name].astype(int)})
        return ek.import_judgments(given, "requirement", score="met", codes={0: 0, 1: 1})

    labels = pd.DataFrame({"item_id": rows["item_id"], "annotator": "p", "label": verdicts["people"]})
    together = judged("together").assign(key=rows["of_item"].to_numpy())
    row = halo(judged("single"), together, labels, items=rows).iloc[0]
    for name, merit in merits.items():
        column = "correlation_labels" if name == "people" else f"correlation_{name}"
        assert row[column] == pytest.approx(intraclass(pd.Series(merit.astype(float)), rows["of_item"]))
    assert row["correlation_change"] == pytest.approx(row["correlation_together"] - row["correlation_single"])
    assert row["correlation_change_low"] > 0.1
    assert (row["criterion"], row["n_clusters"], row["calls_per_item_together"]) == ("all criteria", 20, 1)
    agreement = (verdicts["together"] == verdicts["people"]).mean()
    assert row["agreement_together"] == pytest.approx(agreement)
    for wrong, words in (((together, together), "single= has replies"), ((judged("single"),) * 2, "no replies on sev")):
        with pytest.raises(InputError, match=words):
            halo(*wrong, labels, items=rows)
    positive = rows[rows["points"] > 0]
    of_positive = halo(judged("single"), together, labels, items=positive).iloc[0]
    kept = pd.Series(merits["together"].astype(float))[positive.index]
    assert of_positive["correlation_together"] == pytest.approx(intraclass(kept, positive["of_item"]))
    with pytest.raises(InputError, match="none of the judged rows"):
        halo(judged("single"), together, items=rows.assign(item_id=rows["item_id"] + "x"))
    with pytest.raises(InputError, match="has no column 'of_item'"):
        halo(judged("single"), together, items=rows.drop(columns="of_item"))


@pytest.mark.parametrize("place", ["column", "index"])
def test_groups_of_either_side_make_the_clusters(place) -> None:
    # all ten items of a group change alike: differences 0, 0, 1, 1 of four clusters, not of 40 items
    items = pd.DataFrame({"item_id": range(40), "group_id": [f"g{at // 10}" for at in range(40)]})
    before, after = items.assign(score=0), items.assign(score=[int(at >= 20) for at in range(40)])
    if place == "index":
        before, after = (table.set_index(["group_id", "item_id"]) for table in (before, after))

    def bare(table: pd.DataFrame) -> pd.DataFrame:
        return table.drop(columns="group_id") if place == "column" else table.droplevel("group_id")

    ends = ["n_clusters", "difference_low", "difference_high"]
    expected = ek.compare(before, after, scale=[0, 1]).table[ends]
    assert expected["n_clusters"].tolist() == [4]
    for sides in ((before, bare(after)), (bare(before), after)):
        assert ek.compare(*sides, scale=[0, 1]).table[ends].values.tolist() == expected.values.tolist()
    assert ek.compare(bare(before), bare(after), scale=[0, 1]).table["n_clusters"].tolist() == [40]
