import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, DECIMAL, LOW, NAMES, ORDINAL, PAIR, PLAIN, TOPIC, judgments
from pandas.testing import assert_frame_equal

from evalkit.errors import ConfigError, InputError
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.voting import vote
from evalkit.tables import schemas


def one(samples, scale=ORDINAL, **options):
    votes = vote(judgments({("i", "j"): samples}, scale), **options)
    assert len(votes) == 1
    assert votes.columns.tolist() == schemas.columns_of("votes")
    return votes.iloc[0]


def is_na(value):
    return pd.isna(value)


def test_mean_of_three_samples():
    # 2, 2, 1 on 0-2 passing at 2: mean 5/3, norm 5/6, nearest code 2, two of three pass, pairs that agree 1 of 3.
    row = one([2, 2, 1])
    assert row["score"] == pytest.approx(5 / 3)
    assert row["score_norm"] == pytest.approx(5 / 6)
    assert (row["label"], row["passed"], row["n_samples"], row["n_scored"]) == ("2", True, 3, 3)
    assert row["agreement"] == pytest.approx(2 / 3)
    assert row["self_agreement"] == pytest.approx(1 / 3)
    assert not row["tied"]
    assert is_na(row["reason"])
    assert is_na(row["order_flip"])
    assert (row["method"], is_na(row["options"])) == ("mean", True)


def test_passed_counts_samples_and_never_thresholds_the_mean():
    # Mean 1.2 is far below pass_at 2, and still three of five samples pass.
    row = one([2, 2, 2, 0, 0])
    assert row["passed"]
    assert row["label"] == "1"


def test_the_nearest_code_of_an_exact_half_is_a_tie():
    row = one([1, 2, 1, 2])
    assert row["score"] == 1.5
    assert is_na(row["label"])
    assert row["tied"]
    assert (row["reason"], is_na(row["passed"])) == ("tied", True)
    assert one([1, 2, 1, 2], ties="low")["label"] == "1"
    assert one([1, 2, 1, 2], ties="low")["options"] == "ties=low"


def test_a_tied_label_with_a_decided_verdict_says_why_the_label_is_missing():
    # 0, 1 with pass at 2: both fail (decided), the mean .5 is half-way between 0 and 1.
    row = one([0, 1])
    assert (row["passed"], row["reason"], row["tied"]) == (False, "tied", True)
    assert row["score"] == 0.5


def test_median_of_even_and_odd_counts():
    assert one([0, 0, 2], method="median")["score"] == 0
    even = one([0, 1, 2, 2], method="median")
    assert even["score"] == 1.5
    assert is_na(even["label"])


def test_majority_and_its_three_ways_with_a_tie():
    assert one([0, 2, 2], method="majority")["score"] == 2
    tied = one([0, 0, 2, 2], method="majority")
    assert is_na(tied["score"])
    assert is_na(tied["score_norm"])
    assert is_na(tied["label"])
    assert (tied["tied"], tied["reason"]) == (True, "tied")
    low = one([0, 0, 2, 2, 1], method="majority", ties="low")
    assert (low["score"], low["label"], low["tied"]) == (0, "0", True)
    mean = one([0, 0, 2, 2, 1], method="majority", ties="mean")
    assert (mean["score"], mean["label"]) == (1, "1")
    half = one([1, 2], method="majority", ties="mean")
    assert half["score"] == 1.5
    assert is_na(half["label"])


def test_unscored_samples_count_in_k_and_on_neither_side():
    # k = 3, one passes, two are unreadable: 1 ≤ 3/2, so no majority; agreement 1/3; self_agreement needs two.
    row = one([2, "!unreadable", "!truncated"])
    assert (row["score"], row["label"], row["n_scored"], row["reason"]) == (2, "2", 1, "no_majority")
    assert is_na(row["passed"])
    assert row["agreement"] == pytest.approx(1 / 3)
    assert is_na(row["self_agreement"])
    assert not row["tied"]
    # k = 3, one passes, one fails: a tie, whatever the third would have been.
    tied = one([2, 0, "!unreadable"])
    assert (tied["reason"], tied["tied"]) == ("tied", True)
    assert one([2, 2, "!unreadable"])["passed"]


def test_nothing_scored_gives_the_most_frequent_error():
    row = one(["!truncated", "!unreadable", "!unreadable"])
    assert (row["reason"], row["n_scored"], row["agreement"]) == ("unreadable", 0, 0)
    assert all(is_na(row[name]) for name in ("score", "score_norm", "label", "passed", "self_agreement"))
    assert not row["tied"]
    assert one(["!truncated", "!empty"])["reason"] == "empty"


def test_unscored_as_a_number_reproduces_published_policies():
    # 2, 2 and one unreadable on 1-3, counted as 0: mean 4/3, an off-scale 0 is the bad end in score_norm.
    row = one([2, 2, "!unreadable"], PLAIN, unscored=0)
    assert row["score"] == pytest.approx(4 / 3)
    assert row["label"] == "1"
    assert row["n_scored"] == 2
    assert row["options"] == "unscored=0"
    gone = one(["!unreadable", "!unreadable"], PLAIN, unscored=0, method="majority")
    assert (gone["score"], gone["score_norm"], gone["label"], gone["n_scored"]) == (0, 0, "0", 0)
    assert is_na(gone["reason"])
    assert one(["!unreadable", 1, "!unreadable"], BINARY, unscored=0)["passed"] == np.False_
    with pytest.raises(ConfigError, match="nominal"):
        one(["art"], TOPIC, unscored=0)


def test_a_single_sample_has_no_agreement():
    row = one([2])
    assert row["score"] == 2
    assert is_na(row["agreement"])
    assert is_na(row["self_agreement"])


def test_self_agreement_is_fleiss_1971():
    # Fleiss 1971, Table 1: 14 raters, five categories; P_i of its ten subjects as printed there (Σ n² − n)/(n(n − 1)).
    counts = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1]]
    counts += [[7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
    printed = [1.000, 0.253, 0.308, 0.440, 0.330, 0.462, 0.242, 0.176, 0.286, 0.286]
    from evalkit.rubrics import Scale

    scale = Scale.of({f"c{code}": "" for code in range(5)}, level="nominal")
    samples = {
        (item, "j"): [f"c{code}" for code, times in enumerate(row) for _ in range(times)]
        for item, row in enumerate(counts)
    }
    votes = vote(judgments(samples, scale))
    assert votes["self_agreement"].round(3).tolist() == printed


def test_agreement_runs_over_the_verdict_where_there_is_a_rule():
    # 0 and 1 both fail at 2, so these samples agree on the verdict though not on the code.
    assert one([0, 1, 1])["self_agreement"] == 1
    assert one([1, 2, 2], PLAIN)["self_agreement"] == pytest.approx(1 / 3)


def test_nominal_takes_the_majority_alone():
    row = one(["art", "art", "sport"], TOPIC)
    assert (row["label"], row["passed"], row["score_norm"], row["method"]) == ("art", True, 1, "majority")
    assert is_na(row["score"])
    # art, law, sport: no modal label, though two of three pass.
    row = one(["art", "law", "sport"], TOPIC, ties="low")
    assert is_na(row["label"])
    assert (row["passed"], row["reason"]) == (True, "tied")
    assert is_na(one(["law"], NAMES)["score_norm"])


def test_better_low():
    row = one([0, 0, 1], LOW)
    assert row["score"] == pytest.approx(1 / 3)
    assert row["score_norm"] == pytest.approx(5 / 6)
    assert row["passed"]


def test_on_an_interval_scale_the_label_is_the_nearest_listed_code():
    row = one([0.25, 0.5], DECIMAL)
    assert (row["score"], row["label"]) == (0.375, "0")
    assert one([0.25, 0.25, 1], DECIMAL, method="majority")["label"] == "0.25"  # the modal answer itself
    for ties in ("na", "low"):  # the codes are the ends: a half of these is a number as any other
        half = one([0.25, 0.75], DECIMAL, ties=ties)
        assert half["score"] == 0.5
        assert is_na(half["label"])
        assert is_na(half["tied_labels"])
    row = one([0.25, 0.5], DECIMAL)
    assert row["reason"] == "tied"


def test_pairwise_folds_both_orders():
    samples = {
        ("same", "j"): {"AB": ["A", "A", "B"], "BA": ["A", "A", "A"]},
        ("flip", "j"): {"AB": ["A", "A", "A"], "BA": ["B", "B", "A"]},
        ("half", "j"): {"AB": ["A", "A"], "BA": ["B", "B"]},
        ("lost", "j"): {"AB": ["A"], "BA": ["!unreadable"]},
    }
    votes = vote(judgments(samples, PAIR)).set_index("item_id")
    assert votes["n_samples"].tolist() == [6, 6, 4, 2]
    assert votes["label"].tolist()[:2] == ["A", "A"]
    assert votes.loc["same", ["score", "score_norm"]].tolist() == [1, 1]
    assert votes["order_flip"].tolist()[:3] == [False, True, True]
    assert is_na(votes.loc["lost", "order_flip"])
    assert votes.loc["half", "reason"] == "tied"
    assert is_na(votes.loc["half", "score"])
    mean = vote(judgments(samples, PAIR), ties="mean").set_index("item_id")
    assert mean.loc["half", "score"] == 0.5


def test_several_rubrics_versions_and_scales_in_one_table():
    table = pd.concat(
        [
            judgments({("1", "j"): [2, 2, 0]}, ORDINAL),
            judgments({("1", "j"): [0, 0, 0]}, ORDINAL, version="v2"),
            judgments({("1", "j"): ["art"]}, TOPIC, criterion="topic"),
        ]
    )
    votes = vote(table)
    assert votes["rubric_version"].tolist() == ["v1", "v2", "v1"]
    assert votes["label"].tolist() == ["1", "0", "art"]


def test_shuffled_rows_give_the_same_votes_and_the_argument_stays():
    rng = np.random.default_rng(1)
    samples = {
        (f"i{item}", judge): list(rng.choice([0, 1, 2, "!empty", "!refused"], 4).tolist())
        for item in range(30)
        for judge in ("a", "b")
    }
    samples = {key: [int(code) if code.isdigit() else code for code in codes] for key, codes in samples.items()}
    table = judgments(samples)
    before = table.copy(deep=True)
    keys = ["item_id", "judge"]
    for method in ("mean", "median", "majority"):
        plain = vote(table, method=method).sort_values(keys, ignore_index=True)
        mixed = vote(table.sample(frac=1, random_state=3), method=method).sort_values(keys, ignore_index=True)
        assert_frame_equal(plain.astype(object), mixed.astype(object))
    assert_frame_equal(table, before)


def test_rows_come_in_order_of_first_appearance():
    table = judgments({("b", "j"): [1], ("a", "j"): [2]})
    assert vote(table)["item_id"].tolist() == ["b", "a"]


def test_empty_table():
    votes = vote(schemas.empty("judgments"))
    assert votes.columns.tolist() == schemas.columns_of("votes")
    assert len(votes) == 0


def test_a_table_read_back_from_csv_votes_the_same(tmp_path):
    table = judgments({("1", "j"): [2, 2, "!empty"], ("2", "j"): [0, 1, 1]})
    table.to_csv(tmp_path / "t.csv", index=False)
    again = vote(pd.read_csv(tmp_path / "t.csv"))
    assert again["item_id"].dtype == "int64"  # as pandas has read them
    assert_frame_equal(again.astype({"item_id": "str"}).astype(object), vote(table).astype(object))


def test_missing_column_double_rows_and_silent_rows_are_errors():
    table = judgments({("1", "j"): [2, 1]})
    with pytest.raises(InputError, match="no column `item_id` and no `judge`"):
        vote(table.drop(columns=["item_id", "judge"]))
    assert_frame_equal(vote(table.drop(columns="error")), vote(table))
    with pytest.raises(InputError, match="2 of 4 rows of the judgments table have the same key as another row"):
        vote(pd.concat([table, table]))
    with pytest.raises(InputError, match="neither an error nor a score"):
        vote(table.assign(score=[np.nan, 1.0]))
    with pytest.raises(InputError, match="'item_id' has missing values in 1 of 2"):
        vote(table.assign(item_id=[None, "1"]))
    with pytest.raises(InputError, match="scale '\\?' is not a scale"):
        vote(table.assign(scale="?"))
    with pytest.raises(ConfigError, match="allowed: 'mean', 'median', 'majority'"):
        vote(table, method="mode")
    with pytest.raises(ConfigError, match="ties='high'"):
        vote(table, ties="high")
    with pytest.raises(ConfigError, match="unscored='zero'"):
        vote(table, unscored="zero")


@pytest.mark.long
@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, None]), min_size=1, max_size=7))
def test_against_a_plain_reading_of_the_definition(codes):
    row = one([code if code is not None else "!empty" for code in codes])
    scored = [code for code in codes if code is not None]
    passes, k, n = sum(code == 2 for code in scored), len(codes), len(scored)
    fails = n - passes
    expected = True if passes > k / 2 else False if fails > k / 2 else None
    assert (None if is_na(row["passed"]) else row["passed"]) == expected
    if scored:
        assert row["score"] == pytest.approx(sum(scored) / n)
        near = [code for code in (0, 1, 2) if abs(code - sum(scored) / n) <= 0.5 + 1e-9]
        gap = min(abs(code - sum(scored) / n) for code in near)
        nearest = [code for code in near if abs(abs(code - sum(scored) / n) - gap) < 1e-9]
        assert (None if is_na(row["label"]) else row["label"]) == (str(nearest[0]) if len(nearest) == 1 else None)
    if k > 1:
        assert row["agreement"] == pytest.approx(max(passes, fails) / k)
    if n > 1:
        assert row["self_agreement"] == pytest.approx((passes * (passes - 1) + fails * (fails - 1)) / (n * (n - 1)))
    assert is_na(row["reason"]) == (expected is not None and not is_na(row["label"]))


def test_judge_that_disagrees_with_itself_gives_no_vote():
    # item a: passes T T F -> one agreeing pair of three: 1/3; item b: T T T -> 1
    table = judgments({("a", "j"): [2, 2, 1], ("b", "j"): [2, 2, 2]})
    votes = vote(table, min_self_agreement=0.5)
    assert votes["reason"].astype(object).tolist()[0] == "low_agreement"
    assert votes["score"].isna().tolist() == [True, False]
    assert votes["passed"].isna().tolist() == [True, False]
    assert votes["options"].astype(str).tolist() == ["min_self_agreement=0.5"] * 2
    assert vote(table, min_self_agreement=1 / 3)["score"].notna().all()
    with pytest.raises(ConfigError, match="min_self_agreement"):
        vote(table, min_self_agreement=2)


@pytest.mark.parametrize(
    ("samples", "scale", "column", "value"),
    [
        ([2, 2, 1], ORDINAL, "score", 99.0),
        ([2, 2, 1], ORDINAL, "score", -1.0),
        ([2, 2, 1], ORDINAL, "score", 1.5),
        ([0.5, 1], DECIMAL, "score", 1.01),
        ([0.5, 1], DECIMAL, "score", -1e6),
        ({"AB": ["A"], "BA": ["B"]}, PAIR, "score", 2.0),
        ({"AB": ["A"], "BA": ["B"]}, PAIR, "label", "C"),
        (["art", "law"], NAMES, "label", "strange"),
        (["art", "law"], TOPIC, "label", "strange"),
    ],
)
def test_a_tampered_score_or_label_off_its_scale_is_refused(samples, scale, column, value):
    frame = judgments({("i", "j"): samples}, scale)
    vote(frame)
    # what stands beside it, label or score and the verdict, is left as it was
    frame[column] = frame[column].astype(object)
    frame.loc[0, column] = value
    frame = schemas.check(frame, "judgments")
    problem = "1 judgment has neither an error nor a score on the scale"
    with pytest.raises(InputError, match=f"{problem}.*; the first: .*{column} '?{value}.*Restore"):
        vote(frame)


def test_an_unscored_sample_may_still_count_as_a_number_off_the_scale():
    assert one([2, "!timeout"], unscored=-7)["score"] == -2.5


@pytest.mark.parametrize(
    ("probs", "cut", "passed", "reason"),
    [
        ([0.66], 0.655, True, None),
        ([0.65], 0.655, False, None),
        ([0.65, 0.66], 0.655, True, None),  # the mean is the cut itself
        ([0.5], 0.5, None, "tied"),
        ([0.4, 0.6], 0.5, None, "tied"),
        ([0.5], 0.495, True, None),
        ([0.6, 0.6, 0.95], 0.655, True, None),  # .717; by their own verdicts two of three fail
        ([0.9, 0.9, None], 0.655, True, None),
        ([0.9, None], 0.655, None, "no_majority"),
    ],
)
def test_a_cut_on_the_mean_probability_decides_the_verdict(probs, cut, passed, reason):
    replies = ["!unreadable" if prob is None else int(prob > 0.5) for prob in probs]
    table = judgments({("a", "j"): replies}, BINARY).assign(pass_prob=np.array(probs, dtype=float), score_sd=0.1)
    row = vote(table, pass_prob_at=cut).iloc[0]
    assert (None if is_na(row["passed"]) else bool(row["passed"])) is passed
    assert (None if is_na(row["reason"]) else row["reason"]) == reason
    assert row["options"] == f"pass_prob_at={cut:g}"


def test_a_cut_is_no_matter_of_the_score():
    # the most probable code is 1, the end of the scale, and P(pass) = .6 fails at the cut: no touched table
    table = judgments({("a", "j"): [1], ("b", "j"): [1]}, BINARY).assign(pass_prob=[0.6, 0.9], score_sd=0.1)
    scores = aggregate(vote(table, pass_prob_at=0.655))
    assert scores["passed"].tolist() == [False, True]
    assert scores["options"].tolist() == ["pass_prob_at=0.655"] * 2
    assert summarize(scores)["pass_rate"].tolist() == [0.5]


@pytest.mark.parametrize("cut", [0, 1, 0.65, 0.6551, -0.005, True, "0.655"])
def test_a_cut_is_a_half_hundredth(cut):
    with pytest.raises(ConfigError, match=r"pass_prob_at must be 0\.5 or a half hundredth"):
        vote(judgments({("a", "j"): [1]}, BINARY), pass_prob_at=cut)


def test_a_cut_needs_probabilities():
    table = judgments({("a", "j"): [1], ("a", "k"): [1]}, BINARY)
    with pytest.raises(InputError, match="judge 'j' has none of item 'a'; vote on the rows of judges with score="):
        vote(table, pass_prob_at=0.655)
    with pytest.raises(InputError, match="judge 'k'"):
        vote(table.assign(pass_prob=[0.9, None]), pass_prob_at=0.655)
    with pytest.raises(ConfigError, match="unscored=0"):
        vote(table, pass_prob_at=0.655, unscored=0)
