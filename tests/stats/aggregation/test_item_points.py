"""Points of items from their own criteria, against plain Python; worst and best of k runs against all subsets."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import os
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.stats import at_k, pass_at_k
from evalkit.stats.intervals import mean_interval, wilson
from evalkit.tables import schemas

DATA = os.environ.get("EVALKIT_DATA")


def scores_of(values: dict[str, float | None]) -> pd.DataFrame:
    n, numbers = len(values), [np.nan if value is None else value for value in values.values()]
    return schemas.table("scores", {
        "rubric": ["requirement"] * n, "rubric_version": ["v1"] * n, "item_id": list(values), "criterion": ["met"] * n,
        "score": numbers, "score_norm": numbers, "passed": [None if v is None else v >= 1 for v in values.values()],
        "status": ["unscored" if v is None else "ok" for v in values.values()], "n_judges": [1] * n,
        "n_scored": [int(v is not None) for v in values.values()], "tied": [False] * n, "level": ["interval"] * n,
        "scale": ['{"codes":[0,1],"better":"high","pass_at":1}'] * n,
    })  # fmt: skip


def worth(criteria: list[dict[str, Any]], value: dict[str, float | None], key: str, how: str) -> float | None:
    """A criterion's value after its prerequisites, in plain three-valued logic; None: open."""
    own, (required,) = value[key], [one["requires"] for one in criteria if one["id"] == key]
    names = required if how == "direct" else []
    verdicts = [None if value[name] is None else value[name] >= 1 for name in names]
    if own == 0 or False in verdicts:
        return 0.0
    return None if own is None or None in verdicts else own


def rows_of(items: list[dict[str, Any]], how: str) -> pd.DataFrame:
    return ek.explode_criteria(items).drop(columns=["requires"] if how == "ignore" else [])


def draw_items(seed: int, n: int) -> tuple[list[dict[str, Any]], dict[str, float | None]]:
    draw, items, values = random.Random(seed), [], {}
    for item in range(n):
        size = draw.randint(1, 7)
        criteria = [
            {
                "id": f"c{k}", "text": f"t{k}", "points": draw.choice([1, 2, 5, 0.5, -1, -4]),
                "axis": draw.choice(["x", "y", None]),
                "requires": [f"c{j}" for j in range(k) if draw.random() < 0.3],
            }
            for k in range(size)
        ]  # fmt: skip
        items.append({"item_id": f"i{item}", "group_id": f"g{item % 5}", "criteria": criteria})
        values |= {f"i{item}#{one['id']}": draw.choice([0.0, 1.0, 1.0, 0.5, None]) for one in criteria}
    return items, values


@pytest.mark.parametrize("how", ["ignore", "direct"])
def test_points_are_those_of_plain_python(how: Any) -> None:
    items, values = draw_items(7, 300)
    rows = rows_of(items, how)
    shuffled = rows.sample(frac=1, random_state=1).set_index(pd.Index(range(5, 5 + len(rows))))
    got = ek.points(scores_of(values).sample(frac=1, random_state=2), shuffled).set_index("item_id")
    assert len(got) == len(items)
    for item in items:
        criteria, row = item["criteria"], got.loc[item["item_id"]]
        own = {one["id"]: values[f"{item['item_id']}#{one['id']}"] for one in criteria}
        worths = {one["id"]: worth(criteria, own, one["id"], how) for one in criteria}
        weight = {one["id"]: one["points"] for one in criteria}
        open_ = [key for key, value in worths.items() if value is None]
        earned = sum(weight[key] * value for key, value in worths.items() if value is not None)
        possible = sum(w for w in weight.values() if w > 0)
        scored = sum(w for key, w in weight.items() if w > 0 and key not in open_)
        expected = earned / possible if possible > 0 and not open_ else np.nan
        assert row["score"] == pytest.approx(expected, nan_ok=True)
        assert (row["n_criteria"], row["n_open"]) == (len(criteria), len(open_))
        assert row["n_open_negative"] == sum(weight[key] < 0 for key in open_)
        assert row["renormalised"] == pytest.approx(earned / scored if scored > 0 else np.nan, nan_ok=True)
        total = sum(map(abs, weight.values()))
        assert row["coverage"] == pytest.approx(1 - sum(abs(weight[key]) for key in open_) / total)
        assert row["status"] == ("unscored" if np.isnan(expected) else "ok")
        assert row["group_id"] == item["group_id"]


@pytest.mark.parametrize("how", ["ignore", "direct"])
def test_the_bounds_hold_every_way_in_which_open_criteria_may_end(how: Any) -> None:
    items, values = draw_items(11, 60)
    rows = rows_of(items, how)
    table = ek.points(scores_of(values), rows).set_index("item_id")
    draw = random.Random(3)
    for _ in range(6):
        ends = {key: draw.choice([0.0, 0.5, 1.0]) if value is None else value for key, value in values.items()}
        score = ek.points(scores_of(ends), rows).set_index("item_id")["score"]
        known = score.notna()
        assert (score[known] >= table["low"][known] - 1e-9).all()
        assert (score[known] <= table["high"][known] + 1e-9).all()


def test_points_by_axis_and_changed_weights_need_no_new_scores() -> None:
    items, values = draw_items(2, 40)
    rows, scores = ek.explode_criteria(items), scores_of(values)
    table = ek.points(scores, rows.drop(columns="requires"), by="axis")
    for _, row in table.iterrows():
        criteria = next(item["criteria"] for item in items if item["item_id"] == row["item_id"])
        axis = None if pd.isna(row["axis"]) else row["axis"]
        chosen = [one for one in criteria if one["axis"] == axis]
        met = [values[f"{row['item_id']}#{one['id']}"] for one in chosen]
        possible = sum(one["points"] for one in chosen if one["points"] > 0)
        if None in met or not possible:
            assert pd.isna(row["score"])
            assert row["reason"] == ("open_criteria" if possible else "no_positive_points")
        else:
            earned = sum(one["points"] * value for one, value in zip(chosen, met, strict=True))
            assert row["score"] == pytest.approx(earned / possible)
    doubled = ek.points(scores, rows.assign(points=rows["points"] * 2))
    assert doubled["score"].tolist() == pytest.approx(ek.points(scores, rows)["score"].tolist(), nan_ok=True)
    pd.testing.assert_frame_equal(ek.points(scores, items), ek.points(scores, rows))


def test_a_tree_weights_its_groups_and_unscored_leaves_travel_up_as_coverage() -> None:
    cell = [
        {"id": "root", "text": "r"}, {"id": "x", "text": "x", "points": 3, "parent": "root"},
        {"id": "g", "text": "g", "parent": "root"}, {"id": "y", "text": "y", "points": 2, "parent": "g"},
        {"id": "z", "text": "z", "parent": "g"}]  # fmt: skip
    rows = ek.explode_criteria([{"item_id": "p", "criteria": cell}])
    whole = ek.points(scores_of({"p#x": 1.0, "p#y": 0.0, "p#z": 1.0}), rows).iloc[0]
    assert whole["score"] == pytest.approx(3 / 4 + 1 / 4 * 1 / 3)
    half = ek.points(scores_of({"p#x": 1.0, "p#y": None, "p#z": 1.0}), rows).iloc[0]
    assert np.isnan(half["score"])
    assert half["coverage"] == pytest.approx(1 - 1 / 6)
    assert (half["low"], half["high"]) == pytest.approx((3 / 4 + 1 / 12, 1.0))
    for level, expected in ((0, {"root": 1.0, "g": 1 / 3}), (-1, {"root": 5 / 6})):  # the nearest group, and the whole
        of_groups = rows.assign(axis=[path[level][0] for path in rows["parent"]])
        nodes = ek.points(scores_of({"p#x": 1.0, "p#y": 0.0, "p#z": 1.0}), of_groups, by="axis").set_index("axis")
        assert nodes["score"].to_dict() == pytest.approx(expected)
    through_csv = rows.assign(**{name: rows[name].astype(str) for name in ("parent", "requires")})
    assert ek.points(scores_of({"p#x": 1.0, "p#y": 0.0, "p#z": 1.0}), through_csv)["score"].iloc[0] == whole["score"]


def test_plain_tables_of_scores_and_ids_of_any_type() -> None:
    items = pd.DataFrame({"item_id": [7, 8], "criteria": [["a", {"text": "b", "points": -1}], ["c"]]})
    rows = ek.explode_criteria(items)
    met = pd.DataFrame({"item_id": rows["item_id"], "score": [True, True, False]})
    table = ek.points(met, rows)
    assert table[["item_id", "score"]].values.tolist() == [[7, 0.0], [8, 0.0]]
    assert items.merge(table, on="item_id")["n_criteria"].tolist() == [2, 1]
    numbers = met.assign(score=[1.0, 0.5, np.nan])
    with pytest.raises(InputError, match="pass scale="):
        ek.points(numbers, rows)
    assert ek.points(numbers, rows, scale=(0, 1))["score"].tolist() == pytest.approx([0.5, np.nan], nan_ok=True)


def test_scores_that_do_not_belong_to_the_items_are_errors() -> None:
    rows = ek.explode_criteria([{"item_id": "a", "criteria": ["x", {"id": "y", "text": "y", "requires": ["1"]}]}])
    with pytest.raises(InputError, match="'b#1'"):
        ek.points(scores_of({"a#1": 1.0, "b#1": 1.0}), rows)
    twice = pd.concat([scores_of({"a#1": 1.0})] * 2)
    with pytest.raises(InputError, match="same key"):
        ek.points(twice, rows)
    with pytest.raises(InputError, match="'a#1', which is not in the rows"):
        ek.points(scores_of({"a#y": 1.0}), rows.iloc[1:])
    for wrong in (0.0, np.nan, 1e308, "x"):
        with pytest.raises(InputError, match="points that are 0, no number"):
            ek.points(scores_of({"a#1": 1.0}), rows.astype({"points": object}).assign(points=[wrong, 1.0]))
    other = scores_of({"a#1": 1.0, "a#y": 1.0}).assign(rubric_version="v2")
    both = ek.points(pd.concat([scores_of({"a#1": 1.0, "a#y": 0.0}), other]), rows)
    assert both[["rubric_version", "score"]].values.tolist() == [["v1", 0.5], ["v2", 1.0]]


def test_the_summary_shows_mean_clipped_mean_and_ends() -> None:
    items, values = draw_items(4, 80)
    items = [item for item in items if any(one["points"] > 0 for one in item["criteria"])]
    rows = ek.explode_criteria(items)
    chosen = {key: value for key, value in values.items() if key in set(rows["item_id"])}
    table = ek.points(scores_of(chosen), rows)
    row = ek.summarize(table).iloc[0]
    score = table["score"].dropna()
    assert row["mean"] == pytest.approx(score.mean())
    assert row["below_0"] == pytest.approx((score < 0).mean())
    assert (row["worst"], row["best"]) == pytest.approx((table["low"].mean(), table["high"].mean()))
    assert (row["n_items"], row["n_scored"], row["n_clusters"]) == (len(items), len(score), 5)
    assert row["renormalised"] == pytest.approx(table["renormalised"].mean())
    assert (row["clipped_low"], row["clipped_high"]) == pytest.approx((max(0, row["low"]), min(1, row["high"])))
    assert "negative points" in row["notes"]
    by_axis = ek.summarize(ek.points(scores_of(chosen), rows, by="axis"))
    assert set(by_axis["axis"].dropna()) == {"x", "y"}


def test_worst_and_best_of_k_are_the_mean_over_all_subsets() -> None:
    draw = random.Random(9)
    runs = {f"p{prompt}": [round(draw.gauss(0.4, 1), 2) for _ in range(draw.randint(2, 6))] for prompt in range(12)}
    frame = pd.DataFrame([{"group_id": key, "score": value} for key, values in runs.items() for value in values])
    table = at_k(frame.sample(frac=1, random_state=0), [1, 2, 3, 6]).set_index("k")
    for k in (1, 2, 3, 6):
        long_enough = [values for values in runs.values() if len(values) >= k]
        for name, pick in (("worst", min), ("best", max)):
            truth = [mean(pick(chosen) for chosen in itertools.combinations(values, k)) for values in long_enough]
            assert table.loc[k, name] == pytest.approx(mean(truth))
        assert table.loc[k, "n_short"] == len(runs) - len(long_enough)
    low = frame.assign(item_id=frame.index.astype(str), judge="j")
    scores = ek.aggregate(low, scale=ek.Scale.of((-9, 9), better="low"))
    turned = at_k(scores, [1, 2, 3, 6]).set_index("k")
    assert turned[["best", "worst"]].to_numpy() == pytest.approx(table[["worst", "best"]].to_numpy())
    # columns of one's own, and scales of both directions, turn nothing round
    high = ek.aggregate(low, scale=ek.Scale.of((-9, 9)))["scale"].astype(str)
    other = scores.assign(scale=[text if at % 2 else scores["scale"].iloc[0] for at, text in enumerate(high)])
    for kept in (frame.assign(level="easy", scale="small"), frame.assign(level=None, scale=None), other):
        same = at_k(kept, [1, 2, 3, 6])[["worst", "best"]].to_numpy()
        assert same == pytest.approx(table[["worst", "best"]].to_numpy())
    rare = pd.DataFrame({"group_id": np.repeat(np.arange(60), 4), "score": [*[1.0, 1.0, 0.0, 1.0] * 2, *[0.0] * 232]})
    of_rare = at_k(rare, [1, 2])
    assert of_rare["notes"].str.count("are skewed").tolist() == [2, 2]
    assert table.loc[[1, 2], "notes"].isna().all()
    short = at_k(pd.DataFrame({"group_id": ["a"], "score": [1.0]}), 2).iloc[0]
    assert np.isnan(short["worst"])
    assert short["n_short"] == 1


def test_worst_and_best_on_a_known_scale_stay_within_it() -> None:
    # six prompts of two runs, 0-10; the lower of each: 10, 10, 10, 4, 10, 10
    runs = pd.DataFrame({"item_id": range(12), "group_id": np.repeat(range(6), 2), "judge": "j", "score": 10.0})
    runs.loc[7, "score"] = 4
    lowest, more = np.array([10.0, 10, 10, 4, 10, 10]), (10 / 12) ** 2  # half a prompt more than was seen
    row = at_k(ek.aggregate(runs, scale=(0, 10)), 2).iloc[0]
    ends = mean_interval(lowest, np.arange(6), bounds=(0, 10), more=more)
    assert (row["worst"], row["worst_low"], row["worst_high"]) == pytest.approx((9, ends.low, ends.high))
    same = wilson(1.0, 6)
    assert (row["best"], row["best_low"], row["best_high"]) == pytest.approx((10, 10 * same.low, 10))
    assert pd.isna(row["notes"])
    unbounded = at_k(runs, 2).iloc[0]  # a plain table says no ends
    assert unbounded["worst_high"] > 10
    beyond = ek.aggregate(runs, scale=(0, 10)).assign(score=[*[10.0] * 7, -1.0, *[10.0] * 4])  # -1 was filled in
    assert at_k(beyond, 2).iloc[0]["worst_high"] > 10


def test_a_prerequisite_in_part_without_a_verdict_leaves_open_what_requires_it() -> None:
    cell = [{"id": "a", "text": "A", "points": 2}, {"id": "b", "text": "B", "points": -2, "requires": ["a"]},
            {"id": "c", "text": "C", "points": 3}]  # fmt: skip
    rows = ek.explode_criteria([{"item_id": "q", "answer": "x", "criteria": cell}])
    plain = pd.DataFrame({"item_id": rows["item_id"], "score": [2 / 3, 1.0, 1 / 3]})
    most, least = (2 * 2 / 3 + 1) / 5, (2 * 2 / 3 - 2 + 1) / 5
    table = ek.points(plain, rows, scale=(0, 1))
    assert table[["low", "high"]].values.tolist() == [pytest.approx([least, most])]
    assert table[["status", "n_open"]].values.tolist() == [["unscored", 1]]
    for passed, score in (([True, True, False], least), ([False, True, False], most)):
        decided = ek.points(plain.assign(passed=passed), rows, scale=ek.Scale.of({0: "", 1: ""}, pass_at=1))
        assert decided["score"].tolist() == pytest.approx([score])


def test_edited_prerequisites_and_parents_are_read_or_refused() -> None:
    rows = ek.explode_criteria([{"item_id": "q", "answer": "x", "criteria": {"a": "A", "b": "B"}}])
    met = pd.DataFrame({"item_id": rows["item_id"], "score": [False, True]})
    for cell in ("a", ["a"], '["a"]', "['a']", np.array(["a"])):
        assert ek.points(met, rows.assign(requires=pd.Series([None, cell])))["score"].tolist() == [0.0], cell
    for cell in ("zz", "a,b", "[a]", 5, ["zz"]):
        with pytest.raises(InputError, match="which is not in the rows"):
            ek.points(met, rows.assign(requires=pd.Series([None, cell], dtype=object)))
    for cell in ("zz", "g", 5, ["g"], [["g"]], [["g", "much"]]):
        with pytest.raises(InputError, match=r"is no list of \[id, weight\]"):
            ek.points(met, rows.assign(parent=pd.Series([None, cell], dtype=object)))
    for cell in (None, float("nan"), "", [], "[]", np.array([])):
        table = ek.points(met, rows.assign(requires=pd.Series([cell] * 2), parent=pd.Series([cell] * 2)))
        assert table["score"].tolist() == [0.5], cell


def test_texts_for_scores_and_tables_without_columns_are_errors() -> None:
    rows = ek.explode_criteria([{"item_id": "q", "answer": "x", "criteria": ["a", "b"]}])
    for text in ("yes", "1"):
        with pytest.raises(InputError, match=f"2 scores are texts \\('{text}'\\)"):
            ek.points(pd.DataFrame({"item_id": rows["item_id"], "label": text}), rows)
    table = ek.points(pd.DataFrame({"item_id": rows["item_id"], "score": [True, False]}), rows)
    for name in ("low", "score"):
        with pytest.raises(InputError, match=f"no column '{name}'"):
            ek.summarize(table.drop(columns=name))
    for name in ("score", "low", "high", "renormalised"):
        assert ek.summarize(table.astype({name: object})).equals(ek.summarize(table))
        with pytest.raises(InputError, match=f"has no numbers in '{name}'"):
            ek.summarize(table.assign(**{name: "x"}))


def test_a_criterion_is_scored_on_its_own_scale_or_refused() -> None:
    cell = [{"text": "A", "points": 4, "scale": [0, 0.5, 1]}, {"text": "B", "points": 4}, {"text": "C", "points": -2}]
    rows = ek.explode_criteria([{"item_id": "q", "answer": "x", "criteria": cell}])
    halves = ek.load_rubric("requirement").edit("requirement", scale={0: "no", 0.5: "in part", 1: "yes"})
    given = pd.DataFrame({"item_id": rows["item_id"], "judge": "j", "mark": [0.5, 1, 0.5]})
    scores = ek.aggregate(ek.vote(ek.import_judgments(given, halves, score="mark")))
    through_csv = rows.assign(scale=rows["scale"].map(str, na_action="ignore"))
    for table in (rows, through_csv):
        assert ek.points(scores, table)["score"].tolist() == [(2 + 4 - 1) / 8]
    binary = scores_of({"q#1": 1.0, "q#2": 1.0, "q#3": 0.0})
    with pytest.raises(InputError, match=r"'q#1' has the scale \[0, 0.5, 1\], but the rubric judges on \[0, 1\]"):
        ek.points(pd.DataFrame({"item_id": rows["item_id"], "score": [True, False, True]}), rows)
    # rows of two scales, judged apart: their places on the scale are one table
    both = pd.concat([scores.iloc[:1], binary.iloc[1:]])[["item_id", "score_norm"]]
    both = both.rename(columns={"score_norm": "score"})
    assert ek.points(both, rows, scale=(0, 1))["score"].tolist() == [(2 + 4) / 8]
    wide = rows.assign(scale=[[0, 1, 2, 3, 4], None, None])
    with pytest.raises(InputError, match="judges on"):
        ek.points(scores, wide)
    assert ek.points(scores.iloc[1:], wide)["n_open"].tolist() == [1]  # what was not judged is open, on any scale


def read(name: str) -> pd.DataFrame:
    with gzip.open(Path(str(DATA)) / "item_criteria" / f"{name}.jsonl.gz", "rt") as lines:
        return pd.DataFrame([json.loads(line) for line in lines])


@pytest.mark.skipif(DATA is None, reason="no recorded data: set EVALKIT_DATA to its folder")
def test_agreement_of_a_recorded_judge_with_people_has_clusters_of_tasks() -> None:
    reference = json.loads((Path(str(DATA)) / "item_criteria" / "reference.json").read_text())["devai"]
    rows = ek.explode_criteria(read("devai_items"))
    recorded, people = (
        table.assign(item_id=table["item_id"] + "#" + table["criterion"]).drop(columns="criterion")
        for table in (read("devai_judgments"), read("devai_labels"))
    )
    judgments = ek.import_judgments(recorded, "requirement", score="met", codes={True: 1, False: 0})
    labels, names = people.rename(columns={"met": "label"}), {"f1_true": "f1_met", "f1_false": "f1_not_met"}
    figures = ["accuracy", "kappa", "f1_true", "f1_false", "macro_f1"]
    parts = {"all": reference["all"]}
    parts |= reference["by_axis"] | {key: reference[key] for key in ("GPT-Pilot", "MetaGPT", "OpenHands")}
    tables = [ek.align(ek.vote(judgments), labels, items=rows, figures=figures, by=by) for by in ("system_id", "axis")]
    tables.append(ek.align(ek.vote(judgments), labels, items=rows, figures=figures).assign(part="all"))
    columns = pd.concat([tables[0]["system_id"], tables[1]["axis"].fillna("None"), tables[2]["part"]])
    for part, (_, row) in zip(columns, pd.concat(tables).iterrows(), strict=True):
        assert row["n_verdicts"] == parts[part]["n"]
        assert row["n_clusters"] <= 30
        for name in figures:
            if part == "None" and name != "accuracy":  # three pairs, none of them met
                continue
            assert row[name] == pytest.approx(parts[part][names.get(name, name)], abs=1e-12), (part, name)
    assert tables[2]["n_clusters"].tolist() == [30]
    assert set(columns) == set(parts)


@pytest.mark.skipif(DATA is None, reason="no recorded data: set EVALKIT_DATA to its folder")
def test_published_figures_come_out_to_their_digits() -> None:
    folder = Path(str(DATA)) / "item_criteria"
    reference = json.loads((folder / "reference.json").read_text())

    def met(table: pd.DataFrame) -> pd.DataFrame:
        return scores_of({f"{row.item_id}#{row.criterion}": float(row.met) for row in table.itertuples()})

    rows = ek.explode_criteria(read("devai_items"))
    for who, name in (("agent", "devai_judgments"), ("human", "devai_labels")):
        for how, key in (("ignore", "independent"), ("direct", "with_requires")):
            table = ek.points(met(read(name)), rows if how == "direct" else rows.drop(columns="requires"))
            sums = table.groupby("system_id")[["points", "possible"]].sum()
            for system, share in (sums["points"] / sums["possible"]).items():
                assert share == pytest.approx(reference["devai"][system][f"{who}_met_{key}"], abs=1e-12)
    (run,) = reference["healthbench"].values()
    row = ek.summarize(ek.points(met(read("healthbench_judgments")), ek.explode_criteria(read("healthbench_items"))))
    assert row["mean"].iloc[0] == pytest.approx(run["mean_part"], abs=1e-12)
    nodes = read("paperbench_nodes").rename(columns={"node": "id", "weight": "points", "label": "met"})
    nodes = nodes.sort_values("order", kind="stable")
    names = ["id", "text", "points", "axis", "parent"]
    trees = [{"item_id": key, "criteria": part[names].to_dict("records")} for key, part in nodes.groupby("item_id")]
    leaves = nodes[nodes["met"].notna()].rename(columns={"id": "criterion"})
    for _, tree in ek.points(met(leaves), ek.explode_criteria(trees)).iterrows():
        assert tree["score"] == pytest.approx(reference["paperbench"][tree["item_id"]]["score"], abs=1e-12)
    counts = read("worst_at_k_counts")
    runs = pd.DataFrame([
        {"group_id": row.item_id, "system_id": row.system_id, "score": float(run < row.n_met)}
        for row in counts.itertuples() for run in range(row.n_samples)
    ])  # fmt: skip
    for _, row in at_k(runs, [1, 2, 4, 8, 16], by="system_id").iterrows():
        expected = reference["worst_at_k"][row["system_id"]][f"worst_at_{row['k']}"]
        assert row["worst"] == pytest.approx(expected, abs=1e-12)
    tries = read("tau_airline")
    for _, row in pass_at_k(tries.assign(passed=tries["reward"] == 1), [1, 2, 3, 4]).iterrows():
        assert row["pass^k"] == pytest.approx(reference["tau"]["part"][f"pass^{row['k']}"], abs=1e-12)


def through(rows: pd.DataFrame, *, quoted: bool) -> pd.DataFrame:
    written = rows.map(str) if quoted else rows  # as a spreadsheet has lists: texts
    return pd.read_csv(io.StringIO(written.to_csv(index=False)))


def as_arrow(rows: pd.DataFrame) -> pd.DataFrame:
    texts = {name: rows[name].astype("string[pyarrow]") for name in ("item_id", "of_item", "requirement", "group_id")}
    return rows.assign(**texts, points=rows["points"].astype("float64[pyarrow]"))


def links(rows: pd.DataFrame, write: Callable[[list[str]], Any]) -> pd.DataFrame:
    return rows.assign(requires=pd.Series(list(map(write, rows["requires"])), index=rows.index, dtype=object))


EDITS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "ints": lambda rows: rows.assign(points=[int(2 * one) for one in rows["points"]]),
    "texts": lambda rows: rows.assign(points=rows["points"].astype(str)),
    "decimals": lambda rows: rows.assign(points=[Decimal(str(one)) for one in rows["points"]]),
    "half floats": lambda rows: rows.assign(points=rows["points"].astype("float32")),
    "nullable": lambda rows: rows.assign(points=rows["points"].astype("Float64")),
    "categories": lambda rows: rows.astype(dict.fromkeys(["item_id", "of_item", "requirement", "points"], "category")),
    "arrow": as_arrow,
    "index": lambda rows: rows.set_index("item_id", drop=False),
    "in the index": lambda rows: rows.set_index("of_item"),
    "ids in the index": lambda rows: rows.set_index("item_id"),
    "both in the index": lambda rows: rows.set_index(["of_item", "item_id"]),
    "two indexes": lambda rows: rows.set_index(["of_item", "item_id"], drop=False),
    "equal index": lambda rows: rows.set_axis([0] * len(rows)),
    "csv": lambda rows: through(rows, quoted=False),
    "spreadsheet": lambda rows: through(rows.drop(columns=["axis"]), quoted=True),
    "json lines": lambda rows: pd.read_json(io.StringIO(rows.to_json(orient="records", lines=True)), lines=True),
    "merged": lambda rows: rows.drop(columns="requires").merge(
        rows.loc[rows["requires"].map(len) > 0, ["item_id", "requires"]], how="left"),
    "grouped": lambda rows: rows.groupby("of_item", group_keys=True)[list(rows.columns)].apply(lambda group: group),
    "parts": lambda rows: pd.concat([rows.iloc[7:], rows.iloc[:7]]),
    "records": lambda rows: rows.to_dict("records"),
    "no tree": lambda rows: rows.drop(columns=["parent"]),
    "blank trees": lambda rows: rows.assign(parent=" "),
    "NA": lambda rows: links(rows, lambda ids: ids or pd.NA),
    "blank": lambda rows: links(rows, lambda ids: ids or " "),
    "null in a list": lambda rows: links(rows, lambda ids: ids or [None]),
    "text in a list": lambda rows: links(rows, lambda ids: [f" {one} " for one in ids] or [""]),
    "arrays": lambda rows: links(rows, np.array),
    "tuples": lambda rows: links(rows, tuple),
    "json": lambda rows: links(rows, json.dumps),
}  # fmt: skip
NOT_POINTS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "shares": lambda rows: rows.assign(points=[f"{one}%" for one in rows["points"]]),
    "commas": lambda rows: rows.assign(points="2,5"),
    "true": lambda rows: rows.assign(points=True),
    "times": lambda rows: rows.assign(points=pd.to_timedelta(rows["points"])),
    "dates": lambda rows: rows.assign(points=pd.to_datetime(rows["points"])),
    "one missing": lambda rows: rows.assign(points=rows["points"].where(rows.index > 0)),
}


def test_edited_rows_give_the_figures_of_plain_python_or_an_error() -> None:
    items, values = draw_items(13, 12)
    rows = ek.explode_criteria(items)
    met = {key: value == 1 for key, value in values.items()}
    table = pd.DataFrame({"item_id": list(met), "score": list(met.values())})
    plain = {}
    for item in items:
        value = {one["id"]: float(met[f"{item['item_id']}#{one['id']}"]) for one in item["criteria"]}
        possible = sum(max(one["points"], 0) for one in item["criteria"])
        earned = sum(one["points"] * worth(item["criteria"], value, one["id"], "direct") for one in item["criteria"])
        plain[item["item_id"]] = earned / possible if possible else math.nan
    for name, edit in EDITS.items():
        got = ek.points(table, edit(rows)).set_index("item_id")["score"]
        assert {**got} == pytest.approx(plain, nan_ok=True), name
    for edit in NOT_POINTS.values():
        with pytest.raises(InputError, match="points that are 0, no number"):
            ek.points(table, edit(rows))


def test_points_that_were_edited_are_refused() -> None:
    items = [{"item_id": f"q{at}", "answer": "x", "criteria": [{"text": "a", "points": 5}, {"text": "b", "points": 3},
              {"text": "c", "points": -2}]} for at in range(6)]  # fmt: skip
    rows = ek.explode_criteria(items)
    draw = np.random.default_rng(0)
    met = pd.Series(draw.random(len(rows)) < 0.5, dtype="boolean").mask(draw.random(len(rows)) < 0.2)
    table = pd.DataFrame({"item_id": rows["item_id"], "score": met})
    made = ek.points(table, rows)
    ek.summarize(made)
    ek.compare(made, made.assign(score=made["score"].clip(lower=0)))
    for wrong in (9.0, made["score"] + 0.1, made["score"].where(made.index != made["score"].first_valid_index(), 0.77)):
        for function in (ek.summarize, lambda edited, made=made: ek.compare(made, edited)):
            with pytest.raises(InputError, match="score is not points / possible"):
                function(made.assign(score=wrong))


def test_pass_k_is_the_share_of_choices_of_k_runs_that_all_or_any_pass() -> None:
    # of 4 runs 2, 4 and 0 pass: C(2, 2)/C(4, 2) = 1/6, 1, 0; any of two: 1 - C(2, 2)/C(4, 2) = 5/6, 1, 0
    runs = pd.DataFrame(
        {"group_id": list("aaaabbbbcccc"), "passed": [True] * 2 + [False] * 2 + [True] * 4 + [False] * 4}
    )
    row = pass_at_k(runs.sample(frac=1, random_state=0), 2).iloc[0]
    assert (row["pass^k"], row["pass@k"]) == pytest.approx(((1 / 6 + 1) / 3, (5 / 6 + 1) / 3))
    assert 0 <= row["pass^k_low"] < row["pass^k"] < row["pass^k_high"] <= 1
    # all alike: Wilson's interval of 3 tasks, of which none passes: z²/(n + z²) = 3.8415/6.8415
    none = pass_at_k(runs.assign(passed=False), 2).iloc[0]
    assert (none["pass^k"], none["pass^k_low"], none["pass^k_high"]) == pytest.approx((0, 0, 0.5615), abs=1e-4)
    unknown = runs.assign(passed=runs["passed"].astype("boolean").mask(runs["group_id"] == "a"))
    short = pass_at_k(unknown, 2).iloc[0]
    assert (short["pass^k"], short["n_prompts"], short["n_short"]) == pytest.approx((0.5, 2, 1))
    with pytest.raises(InputError, match="pass_at_k needs the columns 'passed'"):
        pass_at_k(runs.drop(columns="passed"), 2)


def test_a_table_with_a_row_per_criterion_is_told_which_columns_it_needs():
    scores = pd.DataFrame({"item_id": ["c1", "c2"], "score": [1.0, 0.0]})
    with pytest.raises(InputError, match=r"no column 'of_item', 'points'.* a row per criterion needs `of_item`"):
        ek.points(scores, pd.DataFrame({"item_id": ["c1", "c2"], "task": ["t", "t"]}))
