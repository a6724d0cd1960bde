"""The items that a figure counts are those on which judge and people both have what it compares."""

import math

import numpy as np
import pytest
from alignment_tables import labels_of, one, votes_of

from evalkit.stats import jury_value

LABELS = [1, 2, 4, 5, 3.5, 4.5, "true", "false", None]


def verdict(label):
    """By hand: codes from 4 pass, words are verdicts, a mean of people has none."""
    if isinstance(label, str):
        return label == "true"
    return None if label is None or label % 1 else label >= 4


@pytest.mark.parametrize("seed", range(2))
def test_items_without_a_verdict_of_people_are_counted(seed):
    draw, n = np.random.default_rng(seed), 30
    codes = [None if draw.random() < 0.1 else int(draw.integers(1, 6)) for _ in range(n)]
    labels = [LABELS[draw.integers(len(LABELS))] for _ in range(n)]
    labelled = [(code, label) for code, label in zip(codes, labels, strict=True) if label is not None]
    decided = [(code, verdict(label)) for code, label in labelled if verdict(label) is not None]
    right = [(code >= 4) == passed for code, passed in decided if code is not None]
    gaps = [abs(code - label) for code, label in labelled if code is not None and not isinstance(label, str)]
    row = one(codes, {"ann": labels})
    assert (row["n_labelled"], row["n_verdicts"]) == (len(labelled), len(right))
    assert row["n_left_out"] == len(labelled) - len(right)
    assert (row["accuracy"], row["mae"]) == pytest.approx((np.mean(right), np.mean(gaps)))
    n_open = len(labelled) - len(decided)
    assert (
        f"accuracy, kappa: {n_open} of {len(labelled)} labelled items left out: people give no verdict" in row["notes"]
    )
    wrong = one(codes, {"ann": labels}, unscored="wrong")
    assert wrong["n_left_out"] == n_open
    votes, people = votes_of(codes), labels_of({"ann": labels})
    for figure, values in (("accuracy", right), ("mae", gaps)):
        jury = jury_value(votes, people, figure=figure).iloc[0]
        assert (jury["n_items"], jury["n_left_out"]) == (len(values), len(labelled) - len(values))
        assert jury["value"] == pytest.approx(np.mean(values))


def test_a_tied_majority_of_people_is_left_out_too():
    row = one([5, 5, 1], {"a": [5, 5, 1], "b": [5, 1, 2]}, reference="majority")
    assert (row["n_labelled"], row["n_verdicts"], row["n_left_out"], row["n_tied_references"]) == (3, 2, 1, 1)


@pytest.mark.parametrize(
    ("codes", "labels", "why"),
    [
        ([4, 5, 1], ["true", "false", "true"], "no item has a score of both judge and people"),
        ([4, 5, 1], [2, 2, 2], "all scores of people are equal"),
        ([4, 4, 4], [2, 3, 2], "all scores of the judge are equal"),
        ([4, 4, 4], [2, 2, 2], "all scores of the judge and of people are equal"),
        ([4, 5, 1], [2, 3, None], "fewer than three items have both scores"),
    ],
)
def test_the_reason_is_the_one_that_holds(codes, labels, why):
    row = one(codes, {"ann": labels})
    assert math.isnan(row["pearson"])
    assert f"kendall: {why}" in row["notes"] or f"bias: {why}" in row["notes"]
    assert "equal" in why or "equal, or" not in row["notes"]


def test_answers_of_two_kinds_are_not_compared():
    # means of samples have a score and, tied, no verdict; labels are verdicts without a score
    row = one([[5, 1], [4, 3]], {"ann": ["true", "false"]})
    assert (row["n_scored"], row["n_verdicts"], row["n_left_out"]) == (2, 0, 2)
    assert "every labelled item is tied" in row["notes"]
