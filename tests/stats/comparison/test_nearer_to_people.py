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
        for _ in range(6):
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


def test_where_distances_say_nothing_it_is_missing_with_a_reason():
    people = ["art", "law"] * 5
    row = only(ek.compare(judged(people, "nominal", NAMES), judged(["art"] * 10, "nominal", NAMES),
                          labels=labels_of(people)))  # fmt: skip
    assert pd.isna(row["fixed"])
    assert pd.isna(row["broke"])
    assert pd.isna(row["effect"])
    assert "a nominal scale has no distances" in row["notes"]
    row = only(ek.compare(judged([1, 2]), judged([2, 2])))
    assert pd.isna(row["fixed"])
    assert "there are no labels" in row["notes"]
    other = judged([1, 2, 2], scale='{"codes":[1,2,3],"better":"high"}')
    row = only(ek.compare(judged([1, 2, 5]), other, labels=labels_of([1, 2, 3])))
    assert pd.isna(row["fixed"])
    assert "the scales differ" in row["notes"]


def test_a_drift_of_distances_is_no_share_of_agreement():
    then, now = judged([1, 2, 3] * 4), judged([1, 2, 3] * 4)
    row = ek.drift(then.judgments, now.judgments, labels=labels_of([1, 2, 4] * 4)).iloc[0]
    assert pd.isna(row["agreement"])
