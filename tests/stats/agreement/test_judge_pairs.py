"""Judges by twos: counts, and figures with and without each cluster, against plain sums."""

import math

import numpy as np
import pytest
from judgment_tables import judgments
from scipy.stats import t as student

from evalkit.rubrics import Scale
from evalkit.stats.agreement.judge_pairs import judge_agreement

FOUR = Scale.of({1: "", 2: "", 3: "", 4: ""})


def cohen(one, other):
    agreed = np.mean([a == b for a, b in zip(one, other, strict=True)])
    chance = sum(one.count(code) * other.count(code) for code in {*one}) / len(one) ** 2
    return (agreed - chance) / (1 - chance)


def quadratic(one, other):
    one, other = np.array(one, dtype=float), np.array(other, dtype=float)
    together = ((one - one.mean()) * (other - other.mean())).mean()
    return 2 * together / (one.var() + other.var() + (one.mean() - other.mean()) ** 2)


def test_kappas_and_their_intervals_over_clusters():
    draw = np.random.default_rng(2)
    first = draw.integers(1, 5, 36).tolist()
    second = [int(code) if draw.random() < 0.6 else int(draw.integers(1, 5)) for code in first]
    cells = {
        (f"i{at:02}", judge): [code] for judge, side in (("x", first), ("y", second)) for at, code in enumerate(side)
    }
    made = judge_agreement(judgments(cells, FOUR), clusters={f"i{at:02}": f"g{at % 12}" for at in range(36)}).iloc[0]
    for name, figure in (("cohen_kappa", cohen), ("quadratic_kappa", quadratic)):
        left = [
            math.atanh(figure(*([code for at, code in enumerate(side) if at % 12 != out] for side in (first, second))))
            for out in range(12)
        ]
        error = math.sqrt(11 / 12 * sum((one - np.mean(left)) ** 2 for one in left))
        center, half = math.atanh(figure(first, second)), student.ppf(0.975, 11) * error
        assert made[name] == pytest.approx(math.tanh(center))
        assert made[f"{name}_low"] == pytest.approx(math.tanh(center - half))
        assert made[f"{name}_high"] == pytest.approx(math.tanh(center + half))


def test_what_is_counted_of_two_judges():
    # a: both · b: only x asked · c: y unreadable · d: x tied (its mean 1.5 has a score and no label) · e: neither
    cells = {("a", "x"): [1], ("a", "y"): [1], ("b", "x"): [2], ("c", "x"): [2], ("c", "y"): ["!empty"]}
    cells |= {("d", "x"): [1, 2], ("d", "y"): [2], ("e", "z"): [3]}
    made = judge_agreement(judgments(cells, FOUR)).set_index(["judge_a", "judge_b"])
    row = made.loc[("x", "y")]
    # two items have scores of both, of four that either was asked about; of three asked of both, two have no two labels
    assert (row["n"], row["coverage"], row["n_tied"], row["n_left_out"]) == (2, 0.5, 1, 2)
    assert row["percent_agreement"] == 1
    other = made.loc[("x", "z")]
    assert (other["n"], other["coverage"], other["notes"]) == (0, 0, "no item was scored by both")
    assert not made["same_items"].any()
    wrong = judge_agreement(judgments(cells, FOUR), unscored="wrong", ties="wrong").set_index(["judge_a", "judge_b"])
    assert wrong.loc[("x", "y"), ["n_left_out", "percent_agreement"]].tolist() == [0, pytest.approx(1 / 3)]


def test_why_there_is_no_kappa():
    def notes(*codes):
        table = judgments({(f"i{at}", judge): [code] for at, code in enumerate(codes) for judge in "xy"}, FOUR)
        return judge_agreement(table)["notes"].iloc[0]

    same = "both judges always give one and the same answer"
    assert f"cohen_kappa: {same}; quadratic_kappa: fewer than two items" in notes(1)
    assert f"cohen_kappa: {same}; quadratic_kappa: {same}" in notes(1, 1)
