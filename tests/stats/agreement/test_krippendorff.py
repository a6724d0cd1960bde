import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import (
    BINARY,
    DECIMAL,
    NAMES,
    ORDINAL,
    PLAIN,
    TEXTBOOK,
    TOPIC,
    imported,
    judgments,
    published_rows,
    rated,
)
from pandas.testing import assert_frame_equal

from evalkit.errors import InputError
from evalkit.rubrics import Scale
from evalkit.stats.agreement.disagreements import disagreement
from evalkit.stats.agreement.reliabilities import reliability
from evalkit.stats.voting import vote
from evalkit.tables import schemas

PRINTED = {"nominal": 0.743, "ordinal": 0.815, "interval": 0.849}


def scale_of(level, codes):
    names = {f"c{code}" if level == "nominal" else code: "" for code in codes}
    return Scale.of(names, level=level)


def table_of(ratings, level, codes):
    return rated(ratings, scale_of(level, codes))


# -- disagreement


def test_disagreement_by_hand():
    # Norms 1, 1, .5: |differences| 0, .5, .5; range .5; sd of (1, 1, .5) = .288675; labels 2:1, entropy
    # −(2/3·ln 2/3 + 1/3·ln 1/3)/ln 3 = .636514/1.098612; one of three dissents.
    row = disagreement(vote(judgments({("i", "a"): [2], ("i", "b"): [2], ("i", "c"): [1]}))).iloc[0]
    assert row["disagreement"] == pytest.approx(1 / 3)
    assert row["range"] == 0.5
    assert row["sd"] == pytest.approx(0.288675, abs=1e-6)
    assert row["entropy"] == pytest.approx(0.579380, abs=1e-5)
    assert row["dissent_rate"] == pytest.approx(1 / 3)
    assert (row["n_judges"], row["n_scored"]) == (3, 3)


def test_disagreement_on_a_nominal_scale_is_the_share_of_unequal_pairs():
    # art, art, sport, law: of six pairs one is equal.
    samples = {("i", judge): [code] for judge, code in zip("abcd", ["art", "art", "sport", "law"], strict=True)}
    row = disagreement(vote(judgments(samples, NAMES))).iloc[0]
    assert row["disagreement"] == pytest.approx(5 / 6)
    assert math.isnan(row["range"])
    assert row["dissent_rate"] == 0.5


def test_one_label_disagrees_with_nobody():
    samples = {("i", "a"): ["art"], ("i", "b"): ["law"], ("k", "a"): ["art"]}
    made = disagreement(vote(judgments(samples, NAMES))).set_index("item_id")["disagreement"]
    assert made["i"] == 1
    assert math.isnan(made["k"])


def test_two_judges_fully_apart_and_together():
    table = judgments({("i", "a"): [0], ("i", "b"): [2], ("k", "a"): [1], ("k", "b"): [1]})
    made = disagreement(vote(table)).set_index("item_id")
    assert made.loc["i", ["disagreement", "range", "entropy", "dissent_rate"]].tolist() == [1, 1, 1, 0.5]
    assert made.loc["k", ["disagreement", "range", "entropy", "dissent_rate"]].tolist() == [0, 0, 0, 0]


def test_disagreement_needs_two_judges():
    table = judgments({("i", "a"): [0], ("i", "b"): ["!empty"], ("k", "a"): [1]})
    made = disagreement(vote(table))
    assert made[["disagreement", "range", "sd", "entropy", "dissent_rate"]].isna().all().all()
    assert made[["n_judges", "n_scored"]].values.tolist() == [[2, 1], [1, 1]]
    assert len(disagreement(schemas.empty("votes"))) == 0
    with pytest.raises(InputError, match="no column `score` or `label`"):
        disagreement(vote(table).drop(columns=["score", "label"]))


@pytest.mark.long
@settings(max_examples=15)
@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=8))
def test_disagreement_is_the_mean_over_pairs(values):
    samples = {("i", f"j{n}"): [value] for n, value in enumerate(values)}
    row = disagreement(vote(judgments(samples, DECIMAL))).iloc[0]
    pairs = [abs(a - b) for a, b in itertools.combinations(values, 2)]
    assert row["disagreement"] == pytest.approx(sum(pairs) / len(pairs))
    assert row["sd"] == pytest.approx(np.std(values, ddof=1))


# -- reliability


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_krippendorffs_textbook_example(level):
    table = table_of(TEXTBOOK, level, [1, 2, 3, 4, 5])
    row = reliability(table).iloc[0]
    assert row["alpha_single"] == pytest.approx(PRINTED[level], abs=0.0006)
    assert (row["form"], row["metric"], row["n_pairable"], row["n_items"]) == ("samples", level, 11, 12)
    # At one sample each, votes are the same answers.
    votes = reliability(vote(table, method="majority")).iloc[0]
    assert votes["alpha_vote"] == pytest.approx(row["alpha_single"])
    assert math.isnan(votes["alpha_single"])


CELL = st.one_of(st.none(), st.integers(1, 4))


@settings(max_examples=20)
@given(st.lists(st.lists(CELL, min_size=6, max_size=6), min_size=2, max_size=4), st.sampled_from(sorted(PRINTED)))
@pytest.mark.long
def test_alpha_is_that_of_the_krippendorff_package(ratings, level):
    import krippendorff

    row = reliability(table_of(ratings, level, [1, 2, 3, 4])).iloc[0]
    data = np.array([[np.nan if code is None else code for code in judge] for judge in ratings])
    paired = data[:, (~np.isnan(data)).sum(axis=0) > 1]
    there = paired[~np.isnan(paired)]
    if len(set(there.tolist())) < 2:
        assert math.isnan(row["alpha_single"])
        assert "nothing varies" in row["notes"] or "no item was scored by two judges" in row["notes"]
        return
    expected = krippendorff.alpha(reliability_data=data, level_of_measurement=level)
    assert row["alpha_single"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.long
@settings(max_examples=15)
@given(
    st.lists(st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=4, max_size=4), min_size=2, max_size=3),
    st.sampled_from(sorted(PRINTED)),
)
def test_alpha_of_shares_is_the_definition(ratings, level):
    """The definition of STATISTICS, written out with loops."""
    row = reliability(table_of(ratings, level, [1, 2, 3, 4])).iloc[0]
    coincidence = np.zeros((4, 4))
    for item in range(4):
        shares = []
        for judge in ratings:
            scored = [code for code in judge[item] if code is not None]
            if scored:
                shares.append(np.bincount([code - 1 for code in scored], minlength=4) / len(scored))
        if len(shares) > 1:
            for one, other in itertools.permutations(shares, 2):
                coincidence += np.outer(one, other) / (len(shares) - 1)
    counts, n = coincidence.sum(axis=1), coincidence.sum()
    distance = np.zeros((4, 4))
    for a, b in itertools.combinations(range(4), 2):
        between = {"nominal": 1, "interval": b - a, "ordinal": counts[a : b + 1].sum() - (counts[a] + counts[b]) / 2}
        distance[a, b] = distance[b, a] = between[level] ** 2
    expected = (np.outer(counts, counts) * distance).sum()
    if expected <= 1e-9:
        assert math.isnan(row["alpha_single"])
    else:
        assert row["alpha_single"] == pytest.approx(1 - (n - 1) * (coincidence * distance).sum() / expected, abs=1e-9)


@pytest.mark.long
def test_percent_agreement_is_fleiss_p_bar_on_complete_items():
    from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

    draw = np.random.default_rng(3)
    ratings = draw.integers(1, 4, (4, 20))
    table = table_of(ratings.tolist(), "nominal", [1, 2, 3])
    row = reliability(table).iloc[0]
    counts, _ = aggregate_raters(ratings.T)
    p_bar = ((counts**2).sum(axis=1) - 4) / 12
    assert row["percent_agreement"] == pytest.approx(p_bar.mean())
    # Alpha is Fleiss' kappa with a correction for small samples: 1 − (1 − κ)(n − 1)/n, n = 80 values.
    assert row["alpha_single"] == pytest.approx(1 - (1 - fleiss_kappa(counts)) * 79 / 80)


@pytest.mark.long
def test_the_interval_is_the_leave_one_item_out_jackknife():
    draw = np.random.default_rng(5)
    truth = draw.integers(1, 5, 25)
    ratings = [np.clip(truth + draw.integers(-1, 2, 25), 1, 5).tolist() for _ in range(3)]
    for level in PRINTED:
        table = table_of(ratings, level, [1, 2, 3, 4, 5])
        row = reliability(table).iloc[0]
        z = [
            np.arctanh(reliability(table[table["item_id"] != item]).iloc[0]["alpha_single"])
            for item in table["item_id"].unique()
        ]
        half = 2.063899 * math.sqrt(24 / 25 * np.sum((z - np.mean(z)) ** 2))  # t₂₄ at .975
        center = math.atanh(row["alpha_single"])
        assert row["alpha_single_low"] == pytest.approx(math.tanh(center - half), abs=1e-6)
        assert row["alpha_single_high"] == pytest.approx(math.tanh(center + half), abs=1e-6)


def test_clusters_are_left_out_together():
    table = table_of([[1, 2, 3, 1, 2, 3] * 2, [1, 2, 3, 1, 3, 2] * 2], "ordinal", [1, 2, 3])
    clusters = {f"u{item:02}": item % 6 for item in range(12)}
    wide, plain = reliability(table, clusters=clusters).iloc[0], reliability(table).iloc[0]
    assert wide["n_clusters"] == 6
    assert wide["alpha_single_low"] < plain["alpha_single_low"]
    assert "only 6 clusters" in wide["notes"]


def test_mean_votes_take_the_interval_metric():
    import krippendorff

    samples = {(f"i{i}", j): codes for i in range(4) for j, codes in {"a": [1, 2, i % 3], "b": [i % 2, 2, 1]}.items()}
    votes = vote(judgments(samples, ORDINAL))
    row = reliability(votes).iloc[0]
    wide = votes.pivot_table(index="judge", columns="item_id", values="score", observed=True)
    assert row["metric"] == "interval"
    assert row["n_samples"] == 3
    assert row["alpha_vote"] == pytest.approx(krippendorff.alpha(wide.to_numpy(), level_of_measurement="interval"))


def test_spread_against_the_anova_of_statsmodels():
    import statsmodels.formula.api as smf
    from statsmodels.stats.anova import anova_lm

    draw = np.random.default_rng(8)
    effect = draw.normal(size=12)[:, None, None] + draw.normal(size=3)[None, :, None] * 0.5
    values = np.clip(0.5 + 0.12 * (effect + draw.normal(size=(12, 3, 4))), 0, 1).round(6)
    samples = {(f"i{i:02}", f"j{j}"): values[i, j].tolist() for i in range(12) for j in range(3)}
    table = judgments(samples, DECIMAL)
    made = anova_lm(smf.ols("score_norm ~ C(item_id) * C(judge)", table.astype({"item_id": object})).fit())
    item, judge, both, rest = made["mean_sq"].tolist()
    row = reliability(table).iloc[0]
    # Expected mean squares of the two-way random model, J = 3, k = 4, 12 items.
    expected = [(item - both) / 12, (judge - both) / 48, max(0, (both - rest) / 4), rest]
    found = row[["spread_item", "spread_judge", "spread_item_judge", "spread_sample"]].tolist()
    assert found == pytest.approx(expected, abs=1e-9)
    noise = expected[1] / 3 + expected[2] / 3 + expected[3] / 12
    assert row["phi"] == pytest.approx(expected[0] / (expected[0] + noise))
    assert row["n_blocks"] == 12
    # One cell incomplete: eleven blocks.
    assert reliability(table.iloc[1:]).iloc[0]["n_blocks"] == 11
    # Leaving an item out is what the interval is made of.
    assert row["phi_low"] < row["phi"] < row["phi_high"]


def test_reasons_for_what_cannot_be_said():
    one = reliability(judgments({("i", "a"): [1, 2], ("k", "a"): [2, 2]})).iloc[0]
    assert math.isnan(one["alpha_single"])
    # two samples of one judge say how much they vary, but two items not how precisely
    assert one["phi"] == 0
    why = "no interval of phi: the figure is at the end of its range"
    assert one["notes"] == f"one judge: nothing to compare; {why}; only 2 clusters"
    same = reliability(judgments({(i, j): [1] for i in "pqr" for j in "ab"})).iloc[0]
    assert math.isnan(same["alpha_single"])
    assert same["percent_agreement"] == 1
    assert "alpha_single: nothing varies" in same["notes"]
    assert "no interval of percent_agreement: the figure is at the end of its range" in same["notes"]
    two = judgments({(i, j): [1, 2] for i in "pqr" for j in "ab"})
    assert (
        "alpha_vote: not computed from judgments: pass full=True, or their votes" in reliability(two)["notes"].iloc[0]
    )
    assert "alpha_vote: not computed" not in reliability(two, full=True)["notes"].iloc[0]
    assert "alpha_single: votes do not hold the samples: pass judgments" in reliability(vote(two))["notes"].iloc[0]
    none = reliability(judgments({(i, j): ["!empty"] for i in "pqr" for j in "ab"})).iloc[0]
    assert none["notes"].startswith("no item was scored by two judges")
    assert none["n_pairable"] == 0
    named = reliability(judgments({("i", "a"): ["art"], ("i", "b"): ["law"]}, NAMES)).iloc[0]
    assert "spread: nothing has a score on 0-1" in named["notes"]


def test_all_votes_tied_leaves_no_labels_and_says_so():
    votes = vote(judgments({(i, j): [1, 2] for i in "pq" for j in "ab"}, PLAIN), method="majority")
    row = reliability(votes).iloc[0]
    assert math.isnan(row["alpha_vote"])
    assert row["notes"].startswith("no item was scored by two judges")
    mean = reliability(vote(judgments({(i, j): [1, 2] for i in "pq" for j in "ab"}, PLAIN))).iloc[0]
    assert "percent_agreement: no item has two labels" in mean["notes"]


@pytest.mark.long
def test_published_alphas_of_summeval_experts(published_data):
    rows = published_rows(published_data, "summeval_items")
    reference = json.loads((published_data / "reference.json").read_text())["summeval_alttest"]["values"]
    for criterion in ("coherence", "consistency"):
        experts = rows["experts"].str[criterion]
        long = pd.concat([rows.assign(who=name, code=experts.str[name]) for name in ("e0", "e1", "e2")])
        for level in ("nominal", "ordinal", "interval"):
            codes = {code: f"c{code}" for code in range(1, 6)} if level == "nominal" else None
            table = imported(long, scale_of(level, [1, 2, 3, 4, 5]), judge="who", score="code", codes=codes)
            made = reliability(table).iloc[0]
            assert made["alpha_single"] == pytest.approx(
                reference[criterion]["experts"]["krippendorff"][level], abs=1e-6
            )


def test_judges_of_weight_zero_are_left_out():
    table = judgments({(i, j): [1] for i in "pqr" for j in "abc"}, BINARY, weights={"c": 0})
    assert reliability(table).iloc[0]["n_judges"] == 2
    assert disagreement(vote(table))["n_judges"].tolist() == [2, 2, 2]


def test_empty_shuffled_several_criteria_and_missing_columns():
    assert len(reliability(schemas.empty("judgments"))) == 0
    assert len(reliability(schemas.empty("votes"))) == 0
    table = pd.concat(
        [
            table_of(TEXTBOOK, "ordinal", [1, 2, 3, 4, 5]),
            judgments({(i, j): ["art"] for i in "pq" for j in "ab"}, TOPIC, criterion="t"),
        ]
    )
    made = reliability(table)
    assert made["criterion"].tolist() == ["c", "t"]
    mixed = reliability(table.sample(frac=1, random_state=2)).set_index("criterion").loc[["c", "t"]].reset_index()
    assert_frame_equal(made.astype(object), mixed[made.columns].astype(object))
    with pytest.raises(InputError, match="no column `score` or `label`"):
        reliability(table.drop(columns=["score", "label"]))
    with pytest.raises(InputError, match="have the same key as another row"):
        reliability(pd.concat([table, table]))


def test_alpha_has_an_interval_where_two_judges_vary_in_three_clusters():
    from evalkit.stats.agreement.krippendorff import Cells, alpha

    def ends(*judges):
        n = len(judges[0])
        answer = np.array(judges).ravel()
        numbers = np.tile(np.arange(n), len(judges)), np.repeat(np.arange(len(judges)), n)
        return alpha(Cells(*numbers, answer, answer.astype(float), np.arange(n), n), "ordinal")

    rare, rarer, mixed = [0, 0, 1, 0] + [1] * 20, [0, 0] + [1] * 22, [0, 1] * 12
    assert np.isfinite(ends(rare, mixed)).all()
    found = ends(rarer, mixed)
    assert np.isfinite(found[0])
    assert np.isnan(found[1:]).all()
    assert np.isfinite(ends(rarer, mixed, rare)).all()


def test_items_taken_some_at_a_time_have_the_same_alpha(monkeypatch):
    from evalkit.stats.agreement import krippendorff

    draw = np.random.default_rng(6)
    ratings = [[None if draw.random() < 0.1 else int(code) for code in draw.integers(1, 4, 30)] for _ in range(3)]
    for level in PRINTED:
        table = table_of(ratings, level, [1, 2, 3])
        whole = reliability(table)
        for entries in (1, 7, 40):
            monkeypatch.setattr(krippendorff, "_AT_ONCE", entries)
            assert_frame_equal(reliability(table), whole)
            monkeypatch.undo()


@pytest.mark.parametrize("level", PRINTED)
def test_alpha_has_an_interval_if_two_judges_vary(level):
    varies, same = [1, 2, 1, 2, 2, 1, 3, 1, 1, 2], [1] * 10
    reason = "no interval of alpha_single: under 3 answers of a judge or annotator are unlike most"
    for ratings, is_missing in (([varies, same, same], True), ([varies, same, varies[::-1]], False)):
        row = reliability(table_of(ratings, level, [1, 2, 3])).iloc[0]
        assert np.isfinite(row["alpha_single"])
        assert (reason in (row["notes"] or "")) == np.isnan(row["alpha_single_low"]) == is_missing
