"""Comparisons with labels of criteria without a pass rule: who came nearer to people's scores."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.stats.intervals import change_interval
from evalkit.stats.significance import mcnemar_midp
from evalkit.tables import schemas

FIVE, SHARE = '{"codes":[1,2,3,4,5],"better":"high"}', '{"codes":[0,1],"better":"low"}'
NAMES = '{"codes":["art","law"],"better":"high"}'


def judged(scores, level="ordinal", scale=FIVE):
    rows = [(f"i{i:03}", score) for i, score in enumerate(scores) if score is not None]
    n, nominal = len(rows), level == "nominal"
    numbers = [None if nominal else float(score) for _, score in rows]
    ends = json.loads(scale)
    worst, best = ends["codes"][:: -1 if ends["better"] == "low" else 1][:: len(ends["codes"]) - 1]
    judgments = schemas.table("judgments", {
        "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": [item for item, _ in rows],
        "criterion": ["c"] * n, "judge": ["j"] * n, "sample": [0] * n, "score": numbers,
        "score_norm": [None if nominal else (value - worst) / (best - worst) for value in numbers],
        "label": [None if level == "interval" else f"{score}" for _, score in rows],
        "level": [level] * n, "scale": [scale] * n, "key": [f"{item} {score}" for item, score in rows],
    })  # fmt: skip
    return SimpleNamespace(judgments=judgments)


def labels_of(values, annotator="ann"):
    rows = [(f"i{i:03}", "c", annotator, str(value)) for i, value in enumerate(values) if value is not None]
    return pd.DataFrame(rows, columns=["item_id", "criterion", "annotator", "label"])


def only(comparison):
    assert len(comparison.table) == 1
    return comparison.table.iloc[0]


def test_a_fall_of_accuracy_is_seen():
    # All ten right, then five of them one step off: accuracy 1.0 and .5, and fixed 0, broke 0 until now.
    people = [1, 2, 3, 4, 5] * 2
    after = [*people[:5], 2, 3, 4, 5, 4]
    comparison = ek.compare(judged(people), judged(after), labels=labels_of(people))
    row = only(comparison)
    assert (row["against"], row["fixed"], row["broke"]) == ("distances", 0, 5)
    assert row["effect"] == -0.5
    assert row["mcnemar_p"] == pytest.approx(1 / 2**5)  # mid-p of 0 of 5: 2/32 − 1/32
    assert row["mean_difference"] == pytest.approx((4 - 1) / 4 / 10)
    assert comparison.worse == ["c"]
    assert "broke" in str(comparison)


def test_nearer_farther_and_equally_far():
    # people 3: 5 → 4 nearer, 4 → 2 equally far, 3 → 1 farther, 1 → 1 the same; None on one side counts in neither
    before, after = [5, 4, 3, 1, None, 3], [4, 2, 1, 1, 3, 3]
    row = only(ek.compare(judged(before), judged(after), labels=labels_of([3, 3, 3, 3, 3, None])))
    assert (row["fixed"], row["broke"], row["effect"]) == (1, 1, 0)
    assert "1 item without a score on one side, a label or an untied one: neither" in row["notes"]
    ends = change_interval(np.array([1.0, 0, -1, 0]), np.arange(4))
    assert (row["effect_low"], row["effect_high"]) == pytest.approx((ends.low, ends.high))
    # two people who say 2 and 4 are tied; a third one settles it
    two = pd.concat([labels_of([2] * 6), labels_of([4] * 6, "bob")])
    assert pd.isna(only(ek.compare(judged(before), judged(after), labels=two))["fixed"])
    three = pd.concat([two, labels_of([4] * 6, "eva")])
    row = only(ek.compare(judged(before), judged(after), labels=three))
    assert (row["fixed"], row["broke"]) == (1, 2)  # to 4: 1 → 0 nearer; 0 → 2, 1 → 3 farther; 3 → 3; 1 → 1


@pytest.mark.long
def test_random_scores_are_as_counted_in_plain_python():
    draw = np.random.default_rng(4)
    for level, scale in (("ordinal", FIVE), ("interval", SHARE)):
        for _ in range(3):
            n = int(draw.integers(5, 40))
            sides = [
                [
                    None if draw.random() < 0.1 else int(value) if level == "ordinal" else float(value) / 5
                    for value in draw.integers(1, 6, n)
                ]
                for _ in range(3)
            ]
            before, after, people = sides
            row = only(ek.compare(judged(before, level, scale), judged(after, level, scale), labels=labels_of(people)))
            known = [three for three in zip(before, after, people, strict=True) if None not in three]
            fixed = sum(abs(b - p) < abs(a - p) - 1e-9 for a, b, p in known)
            broke = sum(abs(b - p) > abs(a - p) + 1e-9 for a, b, p in known)
            assert (row["fixed"], row["broke"]) == (fixed, broke)
            assert row["effect"] == pytest.approx((fixed - broke) / len(known))
            assert row["mcnemar_p"] == mcnemar_midp(np.repeat([1.0, -1.0], [fixed, broke]), np.arange(fixed + broke))


def test_labels_of_nominal_criteria_become_right_and_wrong():
    # before all are "art"; after, the last seven are "law". People: art, law, art, law, … on 12, and no label on two.
    people = ["art", "law"] * 6
    before, after = judged(["art"] * 14, "nominal", NAMES), judged(["art"] * 5 + ["law"] * 9, "nominal", NAMES)
    compared = ek.compare(before, after, labels=labels_of(people))
    row = only(compared)
    # of items 5 to 11 those with odd numbers become right (5, 7, 9, 11), the others wrong (6, 8, 10)
    assert (row["against"], row["fixed"], row["broke"], row["n_paired"]) == ("labels", 4, 3, 12)
    ends = change_interval(np.array([0.0] * 5 + [1, -1, 1, -1, 1, -1, 1]), np.arange(12))
    assert row[["effect", "effect_low", "effect_high"]].tolist() == pytest.approx([1 / 12, ends.low, ends.high])
    assert row["mcnemar_p"] == mcnemar_midp(np.repeat([1.0, -1.0], [4, 3]), np.arange(7))
    assert "c" in compared.decisions
    other = judged(["art"] * 12, "nominal", NAMES.replace("law", "lore"))
    row = only(ek.compare(before, other, labels=labels_of(["art"] * 12)))
    assert pd.isna(row["fixed"])
    assert "the scales differ" in row["notes"]


def of_pairs(winners):
    """A judge's winners of pairs in both orders, which may differ; None: one order was not read."""
    orders = {"differ": ("A", "B"), None: ("A", None)}
    rows = [(f"p{n:02}", order, label) for n, winner in enumerate(winners)
            for order, label in zip(("AB", "BA"), orders.get(winner, (winner,) * 2), strict=True)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["item_id", "order", "label"]).assign(judge="j", sample=0)
    codes = {"A": "A", "B": "B", "tie": "tie", None: "unreadable"}
    return ek.import_judgments(table, "preference", score="label", verdicts="unswapped", codes=codes)


def test_a_tie_is_an_answer_and_an_order_that_was_not_read_is_none():
    truth = ["A", "B", "tie"] * 8
    labels = pd.DataFrame({"item_id": [f"p{n:02}" for n in range(24)], "criterion": "preference", "label": truth})
    # before it is right on A alone; after on all but 4, 6, 20, 22, 23. 0 and 3 lack an order. The orders of 4, 5, 6
    # differ, which is a tie: wrong where people say B or A, right where they say tie
    after = [None, *truth[1:3], None, "differ", "differ", "differ", *truth[7:20], "B", "A", "A", "A"]
    compared = ek.compare(of_pairs(["A"] * 24), of_pairs(after), labels=labels)
    row = compared.table.iloc[0]
    # fixed: 1, 2, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19; broke: 6; 20, 22, 23 wrong on both sides; 21 right on both
    assert (row["against"], row["fixed"], row["broke"], row["n_paired"]) == ("labels", 12, 1, 22)
    assert row["effect"] == pytest.approx(11 / 22)
    assert compared.decisions["preference"]
    split = pd.concat([labels.assign(annotator="a"), labels.assign(annotator="b", label=["B", *truth[1:]])])
    assert ek.compare(of_pairs(["A"] * 24), of_pairs(["A"] * 24), labels=split).table.loc[0, "n_paired"] == 23


def test_where_nearly_all_people_give_one_answer_nothing_is_kept():
    truth = ["A"] * 28 + ["B"] * 2
    labels = pd.DataFrame({"item_id": [f"p{n:02}" for n in range(30)], "criterion": "preference", "label": truth})
    compared = ek.compare(of_pairs(["B"] * 30), of_pairs(["A"] * 30), labels=labels)
    assert compared.table.loc[0, ["fixed", "broke", "n_rarer"]].tolist() == [28, 2, 0]
    assert not compared.decisions["preference"].startswith("Keep")


def test_where_distances_say_nothing_it_is_missing_with_a_reason():
    row = only(ek.compare(judged(["art"] * 10, "nominal", NAMES), judged(["law"] * 10, "nominal", NAMES)))
    assert pd.isna(row["fixed"])
    row = only(ek.compare(judged([1, 2]), judged([2, 2])))
    assert pd.isna(row["fixed"])
    assert "there are no labels" in row["notes"]
    other = judged([1, 2, 2], scale='{"codes":[1,2,3],"better":"high"}')
    row = only(ek.compare(judged([1, 2, 5]), other, labels=labels_of([1, 2, 3])))
    assert pd.isna(row["fixed"])
    assert "the scales differ" in row["notes"]


def test_distances_of_one_judge_then_and_now_are_no_share_of_agreement():
    then, now = judged([1, 2, 3] * 4), judged([1, 2, 3] * 4)
    row = only(ek.compare(then.judgments, now.judgments, labels=labels_of([1, 2, 4] * 4), same_prompts=True))
    assert row["against"] == "distances"
