"""The best of several judges: by how much it is above the next, on the same items."""

import math

import numpy as np
import pandas as pd
import pytest
from alignment_tables import votes_table
from judgment_tables import BINARY
from scipy.stats import t as student

import evalkit as ek

TEXT = "on these labels, so that its accuracy looks better than it is"


def votes_of(said):
    return pd.concat([votes_table(codes, BINARY, judge) for judge, codes in said.items()])


def labels_of(codes):
    return pd.DataFrame({"item_id": [f"i{i}" for i in range(len(codes))], "criterion": "c", "annotator": "ann",
                         "label": [int(code) for code in codes]})  # fmt: skip


def judges(n=80, seed=1):
    draw = np.random.default_rng(seed)
    truth = draw.random(n) < 0.5
    rights = {"a": 0.7, "b": 0.9, "d": 0.8}
    return truth, {name: np.where(draw.random(n) < right, truth, ~truth).tolist() for name, right in rights.items()}


def notes(table):
    return {row["judge"]: "" if pd.isna(row["notes"]) else row["notes"] for row in table.to_dict("records")}


def test_the_lead_is_paired_and_has_an_interval():
    truth, said = judges()
    said["d"][:5] = [None] * 5  # the next one has no votes there: compared on the other 75
    found = notes(ek.align(votes_of(said), labels_of(truth)))
    assert [name for name, note in found.items() if TEXT in note] == ["b"]
    gap = [(b == y) * 1.0 - (d == y) for b, d, y in zip(said["b"], said["d"], truth, strict=True) if d is not None]
    mean, half = np.mean(gap), student.ppf(0.975, 74) * np.std(gap, ddof=1) / math.sqrt(75)
    assert f"best of 3 judges {TEXT}: {mean:.2f} [{mean - half:.2f}, {mean + half:.2f}] above d" in found["b"]


def test_two_judges_or_figures_without_accuracy():
    truth, said = judges()
    assert not any(
        TEXT in note for note in notes(ek.align(votes_of({k: said[k] for k in "ab"}), labels_of(truth))).values()
    )
    other = notes(ek.align(votes_of(said), labels_of(truth), figures=["quadratic_kappa"]))
    assert "so that its quadratic_kappa looks better than it is" in other["b"]


def test_a_judge_that_is_best_on_fewer_items_can_be_below_the_next_on_these():
    # Of items 0-9 judge p is right on 9 and q on all 10; of 10-29, which p was not given, q is right on 14. So p has .9
    # and q 24/30 = .8, but on the ten items of both p is .1 below q; r is right on 15 of 30.
    truth = [True, False] * 15
    wrong = {"p": {4}, "q": set(range(10, 16)), "r": set(range(15))}
    said = {name: [code != (i in wrong[name]) for i, code in enumerate(truth)] for name in "pqr"}
    table = ek.align(votes_of(said | {"p": said["p"][:10]}), labels_of(truth))
    assert table.set_index("judge")["accuracy"].round(9).to_dict() == {"p": 0.9, "q": 0.8, "r": 0.5}
    half = student.ppf(0.975, 9) * 0.1  # one difference of 1 among ten: its mean has the standard error .1
    text = f"best of 3 judges {TEXT}: 0.10 [{0.1 - half:.2f}, {0.1 + half:.2f}] below q, on the same items"
    assert text in notes(table)["p"]


def test_judges_of_no_common_item_have_no_lead():
    said = {"p": [True] * 8 + [None] * 24, "q": [None] * 8 + [True] * 8 + [None] * 16, "r": [None] * 16 + [True] * 16}
    truth = [True] * 8 + [True] * 6 + [False] * 2 + [True] * 10 + [False] * 6
    assert f"{TEXT}: NA against q, on the same items" in notes(ek.align(votes_of(said), labels_of(truth)))["p"]


def test_equal_judges_have_a_lead_of_nothing():
    truth, said = judges()
    same = dict.fromkeys("xyz", said["b"])
    found = notes(ek.align(votes_of(same), labels_of(truth)))
    assert f"best of 3 judges {TEXT}: 0.00 above y, on the same items" in found["x"]


@pytest.mark.long
@pytest.mark.parametrize("m", [3, 8])
def test_the_lead_of_the_best_of_equally_good_judges_holds_nothing(m):
    # Equally good judges: the best looks better than it is by more than a standard error, and the note says so.
    draw, above = np.random.default_rng(m), []
    for _ in range(10):
        truth = draw.random(60) < 0.5
        said = {f"j{k}": np.where(draw.random(60) < 0.8, truth, ~truth).tolist() for k in range(m)}
        table = ek.align(votes_of(said), labels_of(truth), figures=["accuracy"])
        assert sum(TEXT in note for note in notes(table).values()) == 1
        above.append(table["accuracy"].max() - 0.8)
    assert np.mean(above) > 0.02


def test_the_jury_of_an_evaluation_is_not_one_of_several():
    items, labels = ek.load_example("support")
    two = ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient"], labels=labels).alignment
    assert not any("looks better than it is" in note for note in notes(two).values())
    three = ek.evaluate(items, "faithfulness", ["fake:strict", "fake:lenient", "fake:verbose"], labels=labels).alignment
    assert [name for name, note in notes(three).items() if f"best of 3 judges {TEXT}" in note] == ["fake:lenient"]
    assert "\x00" not in "".join(notes(three).values())
