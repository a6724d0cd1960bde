"""Labels beyond chance, and where the spread comes from: against hand derivations and other libraries."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, DECIMAL, NAMES, TEXTBOOK, judgments, rated
from pandas.testing import assert_frame_equal

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.agreement.reliabilities import reliability
from evalkit.stats.voting import vote
from evalkit.tables import schemas

FOUR = Scale.of({1: "", 2: "", 3: "", 4: ""})
FIVE_NAMES = Scale.of({f"c{code}": "" for code in range(1, 6)}, level="nominal")
CELL = st.one_of(st.none(), st.integers(1, 4))
RATINGS = st.lists(st.lists(CELL, min_size=7, max_size=7), min_size=2, max_size=4)


def full(table):
    return reliability(table, full=True).iloc[0]


# -- Fleiss and Gwet


def test_gwets_printed_coefficient():
    # Gwet (2014) prints AC1 .775 for these ratings; by hand: the 11 units with two ratings or more have
    # agreeing shares 1 (u1: three 1s), 1/2 (2,2,3,2: 6 of 12), 1, 1, 1, 0 (1,2,3,4), 1, 1/2 (1,1,2,1), 1, 1, 1:
    # p_a = 9/11. Shares of the categories are summed over all 12 units below; p_e = Σ π(1 − π) / 4.
    row = full(rated(TEXTBOOK, FIVE_NAMES))
    shares = np.array([1 + 1 / 4 + 3 / 4 + 1, 3 / 4 + 1 + 1 / 4 + 1 / 4 + 1, 1 / 4 + 1 + 1 + 1 / 4 + 1, 1 / 4 + 1, 1])
    assert shares.sum() == 12
    prevalence = shares / 12
    chance = (prevalence * (1 - prevalence)).sum() / 4
    assert row["gwet_ac1"] == pytest.approx((9 / 11 - chance) / (1 - chance))
    assert row["gwet_ac1"] == pytest.approx(0.775, abs=0.001)
    assert math.isnan(row["gwet_ac2"])
    assert row["gwet_ac1_low"] < row["gwet_ac1"] < row["gwet_ac1_high"]


@settings(max_examples=60)
@given(RATINGS)
def test_fleiss_is_that_of_statsmodels_on_complete_items(ratings):
    from statsmodels.stats.inter_rater import fleiss_kappa

    row = full(rated(ratings, FOUR))
    whole = [codes for codes in zip(*ratings, strict=True) if None not in codes]
    assert row["n_complete"] == len(whole)
    seen = {code for codes in whole for code in codes}
    if len(seen) < 2:
        assert math.isnan(row["fleiss_kappa"])
        if row["n_pairable"]:
            assert ("nothing varies" if whole else "no item has a label of every judge") in row["notes"]
        return
    counts = np.array([[codes.count(code) for code in range(1, 5)] for codes in whole])
    assert row["fleiss_kappa"] == pytest.approx(fleiss_kappa(counts), abs=1e-9)


def test_levels_that_nobody_used_count_for_gwet():
    # p_a and π are the same on two and on four levels, p_e is not.
    ratings = [[1, 1, 2, 2], [1, 2, 2, 2]]
    two, four = (full(rated(ratings, scale)) for scale in (Scale.of({1: "", 2: ""}), FOUR))
    # π = (3/8, 5/8): Σπ(1−π) = 30/64; p_a = 3/4. q = 2: p_e = 30/64; q = 4: 10/64.
    assert two["gwet_ac1"] == two["gwet_ac2"] == pytest.approx((3 / 4 - 30 / 64) / (34 / 64))
    assert four["gwet_ac1"] == pytest.approx((3 / 4 - 10 / 64) / (54 / 64))
    # AC2: 1 and 2 agree by 1 − 1/9, so p_a = (3 + 8/9)/4; all weights add to 16 − 40/9, over q(q − 1) = 12.
    chance = (16 - 40 / 9) / 12 * 30 / 64
    assert four["gwet_ac2"] == pytest.approx((35 / 36 - chance) / (1 - chance))


def test_intervals_leave_one_cluster_out():
    rng = np.random.default_rng(3)
    ratings = [[int(code) for code in rng.integers(1, 5, 12)] for _ in range(3)]
    clusters = {f"u{item:02}": f"g{item // 2}" for item in range(12)}
    row = reliability(rated(ratings, FOUR), full=True, clusters=clusters).iloc[0]
    for name in ("fleiss_kappa", "gwet_ac1", "gwet_ac2", "alpha_vote"):
        parts = []
        for out in range(6):
            kept = [[code for at, code in enumerate(codes) if at // 2 != out] for codes in ratings]
            parts.append(np.arctanh(full(rated(kept, FOUR))[name]))
        parts = np.array(parts)
        error = math.sqrt(5 / 6 * ((parts - parts.mean()) ** 2).sum())
        # t with five degrees of freedom at .975: 2.570582 (any table).
        assert row[f"{name}_high"] == pytest.approx(math.tanh(math.atanh(row[name]) + 2.570582 * error), abs=1e-6)


# -- votes of samples


def test_alpha_vote_beside_alpha_single():
    import krippendorff

    table = judgments(
        {
            ("a", "x"): [2, 2, 1],
            ("a", "y"): [2, 1, 1],
            ("b", "x"): [0, 0, 0],
            ("b", "y"): [0, "!empty", 1],
            ("c", "x"): [1, 2, 1],
            ("c", "y"): [1, 0, 1],
        }
    )
    row = full(table)
    means = [[5 / 3, 0, 4 / 3], [4 / 3, 1 / 2, 2 / 3]]
    assert row["alpha_vote"] == pytest.approx(krippendorff.alpha(means, level_of_measurement="interval"))
    assert (row["vote_metric"], row["metric"], row["n_samples"]) == ("interval", "ordinal", 3)
    votes = full(vote(table))
    assert votes["alpha_vote"] == pytest.approx(row["alpha_vote"])
    assert votes["fleiss_kappa"] == pytest.approx(row["fleiss_kappa"])
    assert votes["gwet_ac2"] == pytest.approx(row["gwet_ac2"])
    # Nearest codes 2 1 (b, y is a half: no label), 0 -, 1 1: two complete items.
    assert row["n_complete"] == 2


@settings(max_examples=30)
@given(
    st.lists(
        st.lists(st.lists(st.sampled_from(["art", "law", "sport", "!empty"]), min_size=3, max_size=3), max_size=5),
        min_size=2,
        max_size=3,
    )
)
def test_judgments_and_their_votes_say_the_same_of_labels(answers):
    samples = {(f"i{n}", f"j{j}"): codes for j, row in enumerate(answers) for n, codes in enumerate(row)}
    table = judgments(samples, NAMES)
    first, second = reliability(table, full=True), reliability(vote(table), full=True)
    names = ["alpha_vote", "fleiss_kappa", "gwet_ac1", "gwet_ac1_low", "n_complete"]
    assert len(first) == len(second)
    if len(first) and first["n_pairable"].iloc[0] and second["n_pairable"].iloc[0]:
        assert first[names].iloc[0].tolist() == pytest.approx(second[names].iloc[0].tolist(), nan_ok=True)


def test_the_short_table_is_the_head_of_the_full_one():
    table = rated(TEXTBOOK, FOUR.of(dict.fromkeys(range(1, 6), "")))
    short, whole = reliability(table), reliability(table, full=True)
    kept = [name for name in short.columns if name not in ("alpha_vote", "alpha_vote_low", "alpha_vote_high", "notes")]
    assert_frame_equal(short[kept], whole[kept])
    assert math.isnan(short["alpha_vote"].iloc[0])
    assert not math.isnan(whole["alpha_vote"].iloc[0])


# -- pairs


def test_the_interval_of_the_percent_agreement_by_hand():
    # Agreement 1, 1, 1, 0 on four items: p = 3/4; without one item 2/3 three times and 1 once, which has no
    # logit: its error is not known. With eight items of two 0s: without one, 5/7 (six times) or 6/7 (twice).
    four = reliability(rated([[1, 1, 1, 1], [1, 1, 1, 2]], FOUR)).iloc[0]
    assert math.isnan(four["percent_agreement_low"])
    assert "no interval of percent_agreement: without one cluster it is at the end of its range" in four["notes"]
    eight = reliability(rated([[1] * 4 + [2] * 4, [1, 1, 1, 2, 2, 2, 2, 1]], FOUR)).iloc[0]
    z = np.log([2.5] * 6 + [6] * 2)
    error = math.sqrt(7 / 8 * ((z - z.mean()) ** 2).sum())
    low = math.log(3) - 2.364624 * error  # t with seven degrees of freedom
    assert eight["percent_agreement_low"] == pytest.approx(1 / (1 + math.exp(-low)), abs=1e-6)
    assert "only 8 clusters" in eight["notes"]


# -- judges by samples


def test_components_and_phi_by_hand():
    # Scores on 0-2, so norms are halves. Items a, b, c; cell means x: 0, 1, ½ and y: ¼, ¾, ¾ (of norms).
    # Within cells: only y varies, three times (0, ½)/(½, 1): Σ = 3·⅛; MS_e = .375/6 = .0625.
    # Item means ⅛, ⅞, ⅝ (grand 13/24), judge means ½, 7/12.
    scores = {("a", "x"): [0, 0], ("a", "y"): [0, 1], ("b", "x"): [2, 2], ("b", "y"): [1, 2], ("c", "x"): [1, 1]}
    table = judgments(scores | {("c", "y"): [1, 2]}, Scale.of({0: "", 1: "", 2: ""}))
    cells = np.array([[0, 1 / 4], [1, 3 / 4], [1 / 2, 3 / 4]])
    item, judge, grand = cells.mean(axis=1), cells.mean(axis=0), cells.mean()
    ms_item = 2 * 2 * ((item - grand) ** 2).sum() / 2
    ms_judge = 2 * 3 * ((judge - grand) ** 2).sum() / 1
    ms_both = 2 * ((cells - item[:, None] - judge[None] + grand) ** 2).sum() / 2
    part_e, part_ij = 0.0625, max((ms_both - 0.0625) / 2, 0)
    part_j, part_i = max((ms_judge - ms_both) / 6, 0), (ms_item - ms_both) / 4
    row = reliability(table).iloc[0]
    spread = ["spread_item", "spread_judge", "spread_item_judge", "spread_sample"]
    assert row[spread].tolist() == pytest.approx([part_i, part_j, part_ij, part_e])
    assert row["phi"] == pytest.approx(part_i / (part_i + part_j / 2 + part_ij / 2 + part_e / 4))
    # with five samples each only the last part changes
    assert reliability(table, ks=[5, 2])["phi"].tolist() == pytest.approx(
        [part_i / (part_i + part_j / 2 + part_ij / 2 + part_e / (2 * k)) for k in (5, 2)]
    )


def test_a_negative_component_is_set_to_0_with_a_note():
    # the judges contradict each other on both items: the items' means are equal, although the votes vary
    apart = judgments({("i", "a"): [0], ("i", "b"): [2], ("k", "a"): [2], ("k", "b"): [0]})
    assert "a negative variance component was set to 0" in reliability(apart)["notes"].iloc[0]
    # a and b agree on items that differ
    together = judgments({("i", "a"): [0], ("i", "b"): [0], ("k", "a"): [2], ("k", "b"): [2]})
    assert "negative" not in reliability(together)["notes"].iloc[0]


def test_phi_of_one_judge_by_hand():
    # Three samples: 110, 111, 001, 000. σ²_e: variances 1/3, 0, 1/3, 0, so 1/6; σ²_i = variance of the means − σ²_e/3;
    # Φ(k) = σ²_i/(σ²_i + σ²_e/k), the Spearman-Brown formula.
    replies = {"a": [1, 1, 0], "b": [1, 1, 1], "c": [0, 0, 1], "d": [0, 0, 0]}
    table = judgments({(item, "x"): codes for item, codes in replies.items()}, BINARY)
    item = np.var([2 / 3, 1, 1 / 3, 0], ddof=1) - 1 / 18
    made = reliability(table, ks=[1, 2, 3, 6])
    assert made["phi"].tolist() == pytest.approx([item / (item + 1 / 6 / k) for k in (1, 2, 3, 6)])
    assert made["k"].tolist() == [1, 2, 3, 6]
    assert made["n_samples"].tolist() == [3] * 4
    assert made["spread_item"].tolist() == pytest.approx([item] * 4)
    assert made[["spread_judge", "spread_item_judge", "alpha_single"]].isna().all(axis=None)
    assert (made["phi_low"] < made["phi"]).all()
    alone = reliability(table).iloc[0]
    assert alone["phi"] == pytest.approx(item / (item + 1 / 18))
    assert "k" not in alone
    # an item without all three samples is left out; k alone changes Φ, so jackknife ends are the formula's of each k
    more = reliability(pd.concat([table, judgments({("e", "x"): [1, 0, "!empty"]}, BINARY)]), ks=[2])
    assert more["phi"].tolist() == pytest.approx(made["phi"].tolist()[1:2])
    assert (more["n_items"] - more["n_blocks"]).tolist() == [1]


def test_a_single_sample_shows_no_spread_of_samples():
    one = judgments({(item, judge): [code] for judge in "xy" for item, code in zip("abcd", [0, 1, 2, 2], strict=True)})
    made = reliability(one, ks=[1, 3]).set_index("k")
    assert made.loc[1, "phi"] == pytest.approx(1.0)
    assert math.isnan(made.loc[3, "phi"])
    assert "phi: of another number of samples: needs judgments of two or more" in made.loc[3, "notes"]
    assert "spread: one judge" in reliability(one[one["judge"] == "x"], ks=[3])["notes"].iloc[0]


def test_numbers_of_samples_are_checked():
    table = judgments({("a", "x"): [0, 1], ("b", "x"): [2, 2]})
    for wrong in ([], [0], [1.5], "3"):
        with pytest.raises(ConfigError, match="ks must be"):
            reliability(table, ks=wrong)
    with pytest.raises(InputError, match=r"ks= needs judgments with a column `sample`, and these are votes"):
        reliability(vote(table), ks=[1])
    assert len(reliability(schemas.empty("judgments"), ks=[1, 2])) == 0


# -- degenerate input


DEGENERATE = {
    "one item": judgments({("a", "x"): [0], ("a", "y"): [1]}),
    "one judge": judgments({("a", "x"): [0, 2], ("b", "x"): [1, 1]}),
    "all equal": judgments({(item, judge): [2, 2] for item in "abc" for judge in "xy"}),
    "all unscored": judgments({(item, judge): ["!empty"] for item in "ab" for judge in "xy"}),
    "all unscored, nominal": judgments({(item, judge): ["!empty"] for item in "ab" for judge in "xy"}, NAMES),
    "nothing shared": judgments({("a", "x"): [1], ("b", "y"): [1]}, BINARY),
    "decimal": judgments({("a", "x"): [0.2], ("a", "y"): [0.4], ("b", "x"): [1], ("b", "y"): [0]}, DECIMAL),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_input_gives_na_with_reasons_and_no_warnings(name):
    table = DEGENERATE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for judged in (table, vote(table)):
            row = full(judged)
            assert row["notes"]
            for figure in ("fleiss_kappa", "gwet_ac1"):
                if not math.isnan(row[figure]):
                    assert -1 <= row[figure] <= 1
    if name == "all equal":
        assert math.isnan(row["fleiss_kappa"])
        assert "fleiss_kappa: nothing varies" in row["notes"]
        assert row["gwet_ac1"] == row["gwet_ac2"] == 1
    if name == "decimal":
        assert "fleiss_kappa, gwet_ac1, gwet_ac2: an interval scale has no levels to count" in row["notes"]


def test_empty_tables_and_missing_columns():
    for name in ("judgments", "votes"):
        empty = schemas.empty(name)
        assert len(reliability(empty, full=True)) == 0
        assert (
            reliability(empty, full=True).columns.tolist()
            == reliability(rated(TEXTBOOK, FIVE_NAMES), full=True).columns.tolist()
        )
        assert len(reliability(empty.drop(columns="level"))) == 0
        with pytest.raises(InputError, match="no column `score` or `label`"):
            reliability(empty.drop(columns=["score", "label"]))


# -- published figures


def test_published_fleiss_kappas_of_six_judges(published_data):
    from llmbar import juries

    n_figures = 0
    for _, votes, _, published in juries(published_data):
        row = full(votes)
        assert row["n_complete"] == published["complete_items"]
        assert row["fleiss_kappa"] == pytest.approx(published["fleiss_kappa_complete_items"], abs=1e-6)
        assert row["alpha_vote"] == pytest.approx(published["krippendorff_nominal"], abs=1e-6)
        n_figures += 3
    assert n_figures == 3 * 16
