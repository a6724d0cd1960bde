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
    plain = notes(ek.align(votes_of(said), labels_of(truth), interval=None))
    assert plain["b"].endswith("above d, on the same items")
    assert "[" not in plain["b"]
    groups = {f"i{i}": i // 20 for i in range(80)}
    inside = notes(ek.align(votes_of(said), labels_of(truth), level="group", clusters=groups, figures=["accuracy"]))
    assert inside["b"].endswith(TEXT)


def test_equal_judges_have_a_lead_of_nothing():
    truth, said = judges()
    same = dict.fromkeys("xyz", said["b"])
    found = notes(ek.align(votes_of(same), labels_of(truth)))
    assert f"best of 3 judges {TEXT}: 0.00 above y, on the same items" in found["x"]


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
