import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, DECIMAL, LOW, NAMES, ORDINAL, PAIR, PLAIN, TOPIC, judgments
from pandas.testing import assert_frame_equal

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Rubric
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.combining_criteria import combine
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.voting import vote
from evalkit.tables import schemas


def votes_of(answers, scale=ORDINAL, **options):
    """Votes of one item: {judge: [samples]}."""
    return vote(judgments({("i", judge): codes for judge, codes in answers.items()}, scale), **options)


def one(answers, scale=ORDINAL, **options):
    scores = aggregate(votes_of(answers, scale), **options)
    assert len(scores) == 1
    assert scores.columns.tolist() == schemas.columns_of("scores")
    return scores.iloc[0]


def test_mean_and_weighted_majority():
    # Votes 2, 2, 0: mean 4/3, nearest code 1, two of three pass; |2−0| twice and |2−2| once in norm: (1+1+0)/3.
    row = one({"a": [2], "b": [2], "c": [0]})
    assert row["score"] == pytest.approx(4 / 3)
    assert row["score_norm"] == pytest.approx(2 / 3)
    assert (row["label"], row["passed"], row["status"], row["n_judges"], row["n_scored"]) == ("1", True, "ok", 3, 3)
    assert row["disagreement"] == pytest.approx(2 / 3)
    assert pd.isna(row["reason"])
    # With weights 1, 1, 3 the failing judge has 3 of 5.
    row = one({"a": [2], "b": [2], "c": [0]}, weights={"c": 3})
    assert row["score"] == pytest.approx(4 / 5)
    assert not row["passed"]


def test_equal_weights_on_both_sides_are_a_tie_even_in_floating_point():
    # 0.1 + 0.2 against 0.3 differ by 5.6e-17.
    row = one({"a": [1], "b": [1], "c": [0]}, BINARY, weights={"a": 0.1, "b": 0.2, "c": 0.3})
    assert pd.isna(row["passed"])
    assert (row["status"], row["reason"], row["tied"]) == ("tied", "tied", True)
    assert row["score"] == pytest.approx(0.5)
    assert pd.isna(row["label"])


def test_weight_zero_removes_a_judge():
    row = one({"a": [2], "b": [2], "c": [0]}, weights={"c": 0})
    assert (row["n_judges"], row["score"], row["disagreement"]) == (2, 2, 0)
    with pytest.raises(ConfigError, match="item 'i' has weight 0"):
        one({"a": [2]}, weights={"a": 0})
    with pytest.raises(ConfigError, match="must be 0, or a number from 1e-9 to 1e9"):
        one({"a": [2]}, weights={"a": -1})
    with pytest.raises(ConfigError, match="unknown judges in weights: 'z'; the votes come from 'a'"):
        one({"a": [2]}, weights={"z": 1})
    with pytest.raises(ConfigError, match="weights= is a list; expected a mapping"):
        one({"a": [2]}, weights=[1])


def test_quorum_is_more_than_half_of_the_weight():
    # One of two: exactly half, not more.
    row = one({"a": [2], "b": ["!timeout"]})
    assert (row["status"], row["reason"], row["n_judges"], row["n_scored"]) == ("unscored", "timeout", 2, 1)
    assert all(pd.isna(row[name]) for name in ("score", "score_norm", "label", "passed", "disagreement"))
    row = one({"a": [2], "b": [2], "c": ["!timeout"]})
    assert (row["status"], row["score"], row["passed"]) == ("partial", 2, True)
    assert one({"a": [2], "b": [2], "c": ["!timeout"]}, quorum=1.0)["status"] == "unscored"
    assert one({"a": [2], "b": [2]}, quorum=1.0)["status"] == "ok"
    assert one({"a": [2], "b": ["!timeout"]}, quorum=0.0)["status"] == "partial"
    assert one({"a": [2], "b": ["!timeout"]}, weights={"a": 2})["status"] == "partial"
    with pytest.raises(ConfigError, match="must be a number from 0 to 1"):
        one({"a": [2]}, quorum=2)


def test_a_failed_juror_stays_in_the_denominator_of_passed():
    # a passes, b fails, c has no reply: 1 to 1 is a tie; with a, b passing of four asked: 2 of 4, no majority.
    assert one({"a": [2], "b": [0], "c": ["!timeout"]})["reason"] == "tied"
    row = one({"a": [2], "b": [2], "c": [2, 0], "d": [2, 0]})
    assert pd.isna(row["passed"])
    assert (row["reason"], row["status"]) == ("no_majority", "partial")


def test_all_unscored():
    row = one({"a": ["!empty"], "b": ["!refused"], "c": ["!refused"]})
    assert (row["status"], row["reason"], row["n_scored"]) == ("unscored", "refused", 0)


def test_one_judge():
    row = one({"a": [2, 2, 1]})
    assert row["score"] == pytest.approx(5 / 3)
    assert pd.isna(row["disagreement"])


def test_median():
    assert one({"a": [0], "b": [2], "c": [2]}, method="median")["score"] == 2
    assert one({"a": [0], "b": [1]}, method="median")["score"] == 0.5
    # Weights 1, 1, 2 on 0, 1, 2: half of 4 is reached exactly between 1 and 2.
    assert one({"a": [0], "b": [1], "c": [2]}, method="median", weights={"c": 2})["score"] == 1.5
    assert one({"a": [0], "b": [1], "c": [2]}, method="median", weights={"c": 3})["score"] == 2


def test_majority_of_labels():
    row = one({"a": [1], "b": [1], "c": [2]}, method="majority")
    assert (row["score"], row["label"], row["passed"], row["method"]) == (1, "1", False, "majority")
    row = one({"a": [1], "b": [2]}, PLAIN, method="majority")
    assert pd.isna(row["score"])
    assert (row["status"], row["reason"], row["tied"]) == ("tied", "tied", True)
    # A judge whose own label is tied between 1 and 2 gives half of its weight to each: 1.5 of 2 for 2.
    row = one({"a": [1, 2], "b": [2]}, PLAIN, method="majority")
    assert (row["status"], row["label"], row["n_scored"]) == ("ok", "2", 2)


def test_min_and_max_mean_least_and_most_good():
    # min: every judge must pass; max: one is enough.
    least, best = (one({"a": [2], "b": [1], "c": [2]}, method=method) for method in ("min", "max"))
    assert (least["score"], least["label"], least["passed"]) == (1, "1", False)
    assert (best["score"], best["label"], best["passed"]) == (2, "2", True)
    # Where low is better the least good is the highest number.
    least = one({"a": [0], "b": [2]}, LOW, method="min")
    assert (least["score"], least["score_norm"], least["passed"]) == (2, 0, False)
    # A judge without a verdict: all cannot be said, one fails decides.
    assert pd.isna(one({"a": [2], "b": [2], "c": ["!empty"]}, method="min")["passed"])
    assert not one({"a": [2], "b": [0], "c": ["!empty"]}, method="min")["passed"]
    assert one({"a": [2], "b": [2], "c": ["!empty"]}, method="max")["passed"]


def test_nominal_takes_the_majority():
    row = one({"a": ["art"], "b": ["art"], "c": ["sport"]}, TOPIC)
    assert (row["label"], row["passed"], row["score_norm"], row["method"]) == ("art", True, 1, "majority")
    assert pd.isna(row["score"])
    assert row["disagreement"] == pytest.approx(2 / 3)
    row = one({"a": ["art"], "b": ["law"]}, NAMES)
    assert (row["status"], row["reason"]) == ("tied", "tied")
    # min with a rule: the verdict of the least good, and its label.
    row = one({"a": ["art"], "b": ["art"], "c": ["sport"]}, TOPIC, method="min")
    assert (row["label"], row["passed"], row["score_norm"], row["method"]) == ("sport", False, 0, "min")
    assert one({"a": ["art"]}, NAMES, method="min")["method"] == "majority"


def test_pairwise_scores():
    scores = aggregate(votes_of({judge: {"AB": ["A"], "BA": ["A"]} for judge in "ab"} | {"c": {"AB": ["B"]}}, PAIR))
    assert scores.loc[0, ["label", "score", "score_norm"]].tolist() == ["A", 1, 1]


def test_interval_scale():
    row = one({"a": [0.25], "b": [0.5]}, DECIMAL)
    assert (row["score"], row["label"]) == (0.375, "0")


def test_empty_missing_double_and_unknown():
    assert aggregate(schemas.empty("votes")).columns.tolist() == schemas.columns_of("scores")
    votes = votes_of({"a": [1], "b": [2]})
    with pytest.raises(InputError, match="has a `scale` of `judge` and no `level`"):
        aggregate(votes.drop(columns="level"))
    with pytest.raises(InputError, match="same key as another row"):
        aggregate(pd.concat([votes, votes]))
    with pytest.raises(ConfigError, match="method='mode'"):
        aggregate(votes, method="mode")


def test_shuffled_rows_give_the_same_scores_and_the_argument_stays():
    rng = np.random.default_rng(2)
    samples = {(f"i{i}", judge): rng.integers(0, 3, 3).tolist() for i in range(40) for judge in "abc"}
    votes = vote(judgments(samples))
    before = votes.copy(deep=True)
    for method in ("mean", "median", "majority", "min", "max"):
        plain = aggregate(votes, method=method).sort_values("item_id", ignore_index=True)
        mixed = aggregate(votes.sample(frac=1, random_state=5), method=method).sort_values("item_id", ignore_index=True)
        assert_frame_equal(plain.astype(object), mixed.astype(object))
    assert_frame_equal(votes, before)


WEIGHTS = st.sampled_from([0.1, 0.2, 0.3, 1.0, 2.0])


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, None]), WEIGHTS), min_size=1, max_size=6))
@pytest.mark.long
def test_against_a_plain_reading_of_the_definition(jury):
    answers = {f"j{n}": [code if code is not None else "!empty"] for n, (code, _) in enumerate(jury)}
    weights = {f"j{n}": weight for n, (_, weight) in enumerate(jury)}
    row = one(answers, weights=weights)
    total = sum(weight for _, weight in jury)
    scored = [(code, weight) for code, weight in jury if code is not None]
    share = sum(weight for _, weight in scored) / total
    if share <= 0.5 + 1e-9:
        assert row["status"] == "unscored"
        assert math.isnan(row["score"])
        return
    assert row["score"] == pytest.approx(sum(c * w for c, w in scored) / sum(w for _, w in scored))
    yes = sum(weight for code, weight in scored if code == 2)
    no = sum(weight for code, weight in scored if code != 2)
    expected = True if yes > total / 2 + 1e-9 else False if no > total / 2 + 1e-9 else None
    assert (None if pd.isna(row["passed"]) else row["passed"]) == expected
    pairs = [abs(a[0] - b[0]) / 2 for i, a in enumerate(scored) for b in scored[:i]]
    if pairs:
        assert row["disagreement"] == pytest.approx(sum(pairs) / len(pairs))


# -- combine


def rubric_of(*criteria, **fields):
    return Rubric(
        id="r", inputs=["answer"], criteria=[{"scale": {0: "", 1: "", 2: ""}} | c for c in criteria], **fields
    )


def scores_of(rubric, answers):
    """Scores of one judge: {item: {criterion: code or "!error"}}."""
    parts = [
        judgments({(item, "j"): [code]}, rubric.criterion(name).scale, criterion=name, version=rubric.label)
        for item, codes in answers.items()
        for name, code in codes.items()
    ]
    return aggregate(vote(pd.concat(parts)))


def combined(rubric, codes, **options):
    made = combine(scores_of(rubric, {"i": codes}), rubric, **options)
    assert made.columns.tolist() == schemas.columns_of("rubric_scores")
    return made.iloc[0]


AB = rubric_of({"name": "a", "pass_at": 1}, {"name": "b", "weight": 3})


def test_combine_is_the_weighted_mean_of_score_norm():
    # a: 2/2 with weight 1, b: 1/2 with weight 3: (1 + 1.5)/4.
    row = combined(AB, {"a": 2, "b": 1})
    assert (row["score_norm"], row["score"], row["passed"], row["status"]) == (0.625, 0.625, True, "ok")
    assert (row["n_criteria"], row["n_scored"]) == (2, 2)
    assert pd.isna(row["reason"])
    assert not combined(AB, {"a": 0, "b": 2})["passed"]


def test_combine_of_one_criterion_keeps_its_units():
    row = combined(rubric_of({"name": "a", "pass_at": 1}), {"a": 1})
    assert (row["score"], row["score_norm"]) == (1, 0.5)


def test_combine_with_an_unscored_criterion():
    row = combined(AB, {"a": 2, "b": "!truncated"})
    assert (row["status"], row["reason"], row["n_scored"], row["passed"]) == ("unscored", "truncated", 1, True)
    assert math.isnan(row["score_norm"])
    row = combined(AB, {"a": 2, "b": "!truncated"}, missing="renormalise")
    assert (row["score_norm"], row["status"]) == (1, "partial")
    assert combined(AB, {"a": 2})["reason"] == "not_judged"
    # Weight 0: reported, never averaged.
    free = rubric_of({"name": "a"}, {"name": "b", "weight": 0})
    row = combined(free, {"a": 2, "b": "!truncated"})
    assert (row["score_norm"], row["status"], row["n_criteria"]) == (1, "ok", 1)
    assert pd.isna(row["passed"])


def test_a_failed_critical_criterion_makes_the_score_zero():
    rubric = rubric_of({"name": "safe", "pass_at": 2, "critical": True}, {"name": "b", "pass_at": 1})
    row = combined(rubric, {"safe": 1, "b": 2})
    assert (row["score_norm"], row["passed"], row["status"]) == (0, False, "ok")
    # It decides even where the other criterion is unscored; unscored itself it leaves the score open.
    row = combined(rubric, {"safe": 0, "b": "!empty"})
    assert (row["score_norm"], row["passed"]) == (0, False)
    row = combined(rubric, {"safe": "!empty", "b": 2})
    assert (row["status"], row["reason"]) == ("unscored", "empty")
    assert math.isnan(row["score_norm"])
    # One criterion where low is good: the bad end of its own units is the highest code.
    toxic = rubric_of({"name": "toxic", "better": "low", "pass_at": 0, "critical": True})
    assert combined(toxic, {"toxic": 1})[["score", "score_norm"]].tolist() == [2, 0]


def test_the_rubrics_own_pass_at():
    rubric = rubric_of({"name": "a", "pass_at": 2}, {"name": "b"}, pass_at=0.5)
    assert combined(rubric, {"a": 0, "b": 2})["passed"]
    assert not combined(rubric, {"a": 0, "b": 1})["passed"]


def test_nominal_criteria_count_only_with_a_rule():
    topic = {"name": "t", "level": "nominal", "scale": {"art": "", "law": ""}}
    row = combined(rubric_of({"name": "a"}, topic), {"a": 1, "t": "art"})
    assert (row["score_norm"], row["n_criteria"], row["status"]) == (0.5, 1, "ok")
    row = combined(rubric_of({"name": "a"}, topic | {"pass_if": ["art"]}), {"a": 1, "t": "art"})
    assert (row["score_norm"], row["passed"], row["n_criteria"]) == (0.75, True, 2)


def test_combine_refuses_scores_of_another_version():
    scores = scores_of(AB, {"i": {"a": 2, "b": 1}})
    edited = AB.edit("a", scale={1: "changed"})
    with pytest.raises(InputError, match=r"made with rubric 'r@v1', but the rubric passed is 'r@v1\+"):
        combine(scores, edited)
    with pytest.raises(InputError, match="'r@v1' has no criteria 'b'"):
        combine(scores, rubric_of({"name": "a", "pass_at": 1}))
    with pytest.raises(ConfigError, match="missing='zero'"):
        combine(scores, AB, missing="zero")
    assert combine(schemas.empty("scores"), AB).columns.tolist() == schemas.columns_of("rubric_scores")
    assert_frame_equal(combine(scores.drop(columns="score_norm"), AB), combine(scores, AB))
    with pytest.raises(InputError, match="no column `score` or `label`"):
        combine(scores.drop(columns=["score", "label"]), AB)


def test_a_tied_criterion_leaves_the_verdict_open():
    scores = aggregate(vote(judgments({("i", "j"): [1, 0]}, AB.criterion("a").scale, criterion="a")))
    row = combine(scores, rubric_of({"name": "a", "pass_at": 1})).iloc[0]
    assert (row["score"], row["status"], row["reason"]) == (0.5, "tied", "tied")
    assert pd.isna(row["passed"])


# -- summarize


def scored(codes, scale=ORDINAL):
    samples = {(f"i{n}", "j"): [code] for n, code in enumerate(codes)}
    return aggregate(vote(judgments(samples, scale)))


def test_mean_and_interval_by_hand():
    from scipy.stats import norm
    from statsmodels.stats.proportion import proportion_confint

    # 0, 1, 2, 2: mean 1.25, on 0-1 .625; s² = (1.5625 + .0625 + 2·.5625)/3 = .91667, SE² = s²/4/4 = .0572917 on 0-1,
    # n_eff = .625·.375/.0572917 = 4.090909; Wilson's with t₃ = 3.182446 for z.
    row = summarize(scored([0, 1, 2, 2])).iloc[0]
    low, high = proportion_confint(0.625 * 4.0909091, 4.0909091, alpha=2 * norm.sf(3.182446), method="wilson")
    assert row[["mean", "mean_norm", "pass_rate"]].tolist() == [1.25, 0.625, 0.5]
    assert row[["low", "high"]].tolist() == pytest.approx([2 * low, 2 * high], abs=1e-5)
    # The same ten times over, as independent items: s² = 4·10·.6875/39 = .705128, SE² = s²/40/4 = .00440705 on 0-1,
    # n_eff = 53.18182, t₃₉ = 2.022691.
    row = summarize(scored([0, 1, 2, 2] * 10)).iloc[0]
    low, high = proportion_confint(0.625 * 53.181818, 53.181818, alpha=2 * norm.sf(2.022691), method="wilson")
    assert row[["low", "high"]].tolist() == pytest.approx([2 * low, 2 * high], abs=1e-5)
    assert row["norm_low"] == pytest.approx(row["low"] / 2)
    assert pd.isna(row["notes"])


def test_clusters_are_those_of_the_items_that_a_figure_uses():
    judged = judgments({(f"i{n}", "j"): [code] for n, code in enumerate([0, 1, 2, 2] + ["!unreadable"] * 10)}, ORDINAL)
    row = summarize(aggregate(vote(judged))).iloc[0]
    assert (row["n_scored"], row["n_items"], row["n_clusters"], row["notes"]) == (4, 14, 4, "only 4 clusters")
    assert row[["low", "high"]].tolist() == summarize(scored([0, 1, 2, 2])).iloc[0][["low", "high"]].tolist()


def test_clusters_widen_the_interval():
    scores = scored([0, 1, 2, 2] * 10)
    # Ten clusters, each of one value repeated: the clusters' sums are what varies.
    clusters = {f"i{n}": n % 4 + 4 * (n // 20) for n in range(40)}
    wide, plain = summarize(scores, clusters=clusters).iloc[0], summarize(scores).iloc[0]
    assert wide["high"] - wide["low"] > 1.5 * (plain["high"] - plain["low"])
    assert wide["pass_high"] - wide["pass_low"] > 1.5 * (plain["pass_high"] - plain["pass_low"])
    assert (wide["n_clusters"], wide["notes"]) == (8, "only 8 clusters")
    items = pd.DataFrame({"item_id": list(clusters), "group_id": list(clusters.values())})
    assert summarize(scores, items=items).iloc[0]["low"] == wide["low"]


def test_all_equal_is_never_an_interval_without_width():
    row = summarize(scored([2] * 10)).iloc[0]
    # Wilson for 10 of 10: lower end 1/(1 + z²/10) = .72247, in rubric units twice that.
    assert row["norm_low"] == pytest.approx(0.72247, abs=1e-5)
    assert row["low"] == pytest.approx(2 * 0.72247, abs=1e-5)
    assert (row["high"], row["pass_rate"], row["pass_high"]) == (2, 1, 1)
    assert row["pass_low"] == pytest.approx(0.72247, abs=1e-5)


def test_worst_best_and_coverage():
    # Norms 1, .5 and two unscored of four: 1.5/4 and 3.5/4.
    row = summarize(scored([2, 1, "!empty", "!empty"])).iloc[0]
    assert (row["worst"], row["best"], row["n_items"], row["n_scored"]) == (0.375, 0.875, 4, 2)
    row = summarize(scored(["!empty", "!empty"])).iloc[0]
    assert (row["worst"], row["best"], row["n_scored"]) == (0, 1, 0)
    assert math.isnan(row["mean"])
    assert row["notes"] == "no interval: nothing is scored"


def test_nominal_has_a_pass_rate_and_no_mean():
    row = summarize(scored(["art", "law", "sport", "art"], TOPIC)).iloc[0]
    assert math.isnan(row["mean"])
    assert (row["mean_norm"], row["pass_rate"], row["n_scored"]) == (0.75, 0.75, 4)
    row = summarize(scored(["art", "law"], NAMES)).iloc[0]
    assert row["n_scored"] == 2
    assert math.isnan(row["worst"])


@pytest.mark.long
def test_no_note_calls_scored_items_unscored():
    """Every mix of clear, tied and unreadable items, on scales with and without numbers and pass rules."""
    for scale, clear, other in ((NAMES, "art", "law"), (TOPIC, "art", "law"), (ORDINAL, 2, 0), (BINARY, 1, 0)):
        mixes = {"-".join(map(str, mix)): mix for mix in itertools.product((0, 1, 12), repeat=3) if any(mix)}
        tables = []
        for name, (n_clear, n_tied, n_silent) in mixes.items():
            kinds = [(clear, clear)] * n_clear + [(clear, other)] * n_tied + [("!empty", "!empty")] * n_silent
            answers = {(f"i{n}", judge): [pair[at]] for n, pair in enumerate(kinds) for at, judge in enumerate("ab")}
            tables.append(judgments(answers, scale, criterion=name))
        made = summarize(aggregate(vote(pd.concat(tables)), method="majority"))
        assert sorted(made["criterion"]) == sorted(mixes)
        for _, row in made.iterrows():
            n_clear, n_tied, _ = mixes[row["criterion"]]
            notes = "" if pd.isna(row["notes"]) else row["notes"]
            case = (scale, row["criterion"], notes)
            assert row["n_scored"] == n_clear + n_tied, case
            assert ("nothing is scored" in notes) == (n_clear + n_tied == 0), case
            only_ties = n_tied > 0 and row["n_mean"] == 0 and scale not in (NAMES, TOPIC)
            assert ("no mean: every scored item is tied" in notes) == only_ties, case
            assert ("no interval" in notes) == (row["n_mean"] == 1 or n_clear + n_tied == 0), case
            fewest = min(filter(None, (row["n_mean"], row["n_verdicts"])), default=99)
            assert ("only" in notes) == (fewest < 10 and "no interval" not in notes), case


def test_by_a_column_of_the_items():
    items = pd.DataFrame({"item_id": ["i0", "i1", "i2", "i3"], "system_id": ["x", "y", "x", "y"]})
    made = summarize(scored([2, 0, 2, 1]), by="system_id", items=items)
    assert made[["system_id", "mean", "n_items"]].values.tolist() == [["x", 2, 2], ["y", 0.5, 2]]
    with pytest.raises(InputError, match="by= contains 'system'"):
        summarize(scored([2, 0]), by="system", items=items)


def test_summary_of_rubric_scores_and_of_nothing():
    rubric_scores = combine(scores_of(AB, {"i": {"a": 2, "b": 1}, "k": {"a": 0, "b": 0}}), AB)
    row = summarize(rubric_scores).iloc[0]
    assert (row["mean"], row["pass_rate"], row["n_items"]) == (0.3125, 0.5, 2)
    assert pd.isna(row["criterion"])
    made = summarize(schemas.empty("scores"))
    assert made.columns.tolist()[: len(schemas.columns_of("summary"))] == schemas.columns_of("summary")
    assert len(made) == 0
    with pytest.raises(InputError, match="no column `item_id`"):
        summarize(scored([1]).drop(columns="item_id"))


def test_summary_of_shuffled_rows():
    scores = scored([0, 1, 2, 2, "!empty", 1, 0])
    assert_frame_equal(summarize(scores), summarize(scores.sample(frac=1, random_state=1)))
