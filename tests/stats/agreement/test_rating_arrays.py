"""What the figures of agreement take from a table: single rows, ties, expected scores, columns that may be missing."""

import numpy as np
import pytest
from judgment_tables import BINARY, NAMES, TOPIC, judgments

from evalkit.stats.agreement.reliabilities import reliability
from evalkit.stats.voting import vote


def test_a_single_judgment_has_nothing_to_agree_with():
    row = reliability(judgments({("a", "x"): [1]})).iloc[0]
    assert (row["n_items"], row["n_judges"], row["n_pairable"]) == (1, 1, 0)
    assert row["notes"] == "one judge: nothing to compare; spread: one judge; only 1 cluster"


def test_without_pairs_there_are_no_figures_on_labels():
    alone = reliability(judgments({("a", "x"): [1], ("b", "x"): [2]}), full=True).iloc[0]
    assert alone["notes"] == "one judge: nothing to compare; spread: one judge; only 2 clusters"
    assert (alone["vote_metric"], alone["n_complete"], alone["fleiss_kappa"]) == (
        "interval",
        2,
        pytest.approx(np.nan, nan_ok=True),
    )


def test_a_label_without_a_score_counts_as_a_label():
    cells = {("a", "x"): [0], ("a", "y"): [0], ("b", "x"): [2], ("b", "y"): [2], ("c", "x"): [2], ("c", "y"): [0]}
    votes = vote(judgments(cells), method="majority").drop(columns=["score_norm", "passed"])
    votes.loc[0, "score"] = np.nan
    row = reliability(votes).iloc[0]
    assert (row["metric"], row["n_pairable"], row["percent_agreement"]) == ("ordinal", 3, pytest.approx(2 / 3))


def test_a_tied_vote_has_no_label():
    cells = {("a", "x"): [0, 2], ("a", "y"): [2, 2]}
    cells |= {(item, judge): [code, code] for item, code in (("b", 0), ("c", 2)) for judge in "xy"}
    votes = vote(judgments(cells), method="majority")
    row = reliability(votes).iloc[0]
    assert row[["n_tied", "n_samples", "n_pairable"]].tolist() == [1, 2, 2]
    assert row["percent_agreement"] == 1  # items b and c agree
    full = reliability(votes, full=True).iloc[0]
    assert (full["n_complete"], full["fleiss_kappa"], full["gwet_ac2"]) == (2, 1, 1)
    # a vote without a label is no tie unless the table says so
    plain = reliability(votes.drop(columns=["n_samples", "tied", "tied_labels"])).iloc[0]
    assert (plain["n_tied"], plain["n_samples"], plain["n_pairable"]) == (0, 1, 2)


def test_the_spread_of_a_draw_is_the_mean_variance_of_expected_scores():
    # on 0-2, standard deviations .5, 0, 1 and .5: ((1/4)² + 0 + (1/2)² + (1/4)²) / 4
    cells = {("a", "x"): [1], ("a", "y"): [2], ("b", "x"): [0], ("b", "y"): [0]}
    made = judgments(cells).assign(score_sd=[0.5, 0.0, 1.0, 0.5])
    assert reliability(made)["spread_draw"].tolist() == [0.09375]
    named = judgments({cell: ["art"] for cell in cells}, NAMES).assign(score_sd=[0.5, 0.0, 1.0, 0.5])
    assert np.isnan(reliability(named)["spread_draw"]).all()


def test_labels_with_a_pass_rule_spread_as_their_verdicts():
    verdicts = {("a", "x"): [1, 1], ("a", "y"): [0, 1], ("b", "x"): [0, 0], ("b", "y"): [0, 0], ("c", "x"): [1, 0]}
    verdicts |= {("c", "y"): [1, 1]}
    labels = {cell: ["law" if code else "sport" for code in codes] for cell, codes in verdicts.items()}
    names = ["spread_item", "spread_judge", "spread_item_judge", "spread_sample", "phi"]
    named, plain = (reliability(judgments(*of))[names].iloc[0] for of in ((labels, TOPIC), (verdicts, BINARY)))
    assert named.tolist() == pytest.approx(plain.tolist())
    assert named["spread_item"] > 0
