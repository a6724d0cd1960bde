"""Means corrected by labels, and pass thresholds."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, LOW, NAMES, PAIR, TOPIC, judgments
from pandas.testing import assert_frame_equal
from test_alignment import FIVE, labels_of, votes_of

from evalkit import tables
from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.alignment.corrected_means import corrected_mean, power_tuned
from evalkit.stats.alignment.label_splits import held_out_looks, split_labels
from evalkit.stats.alignment.pass_thresholds import pass_threshold
from evalkit.stats.intervals import bounded_interval, mean_interval
from evalkit.stats.voting import vote

PLAIN = Scale.of(dict.fromkeys(range(1, 6), ""))
T59 = 2.0009954  # t with 59 degrees of freedom, two-sided 95 %


def judged_and_labelled(n, n_labelled, seed=0, bias=1):
    draw = np.random.default_rng(seed)
    truth = draw.integers(1, 5, n)
    codes = np.clip(truth + bias * draw.integers(0, 2, n), 1, 5).tolist()
    return codes, {"ann": [*truth[:n_labelled].tolist(), *[None] * (n - n_labelled)]}


def corrected(codes, people, scale=PLAIN, **options):
    made = corrected_mean(votes_of(codes, scale), labels_of(people), **options)
    assert len(made) == 1
    return made.iloc[0]


def _plainly(y, f, others):
    """PPI++ for a mean as its authors' package computes it: θ, λ, and the variance with n − 1."""
    n, size = len(y), len(others)
    both = np.concatenate([f, others])
    power = ((y - y.mean()) * (f - f.mean())).sum() / n / ((1 + n / size) * both.var(ddof=1))
    power = min(1.0, max(0.0, power))
    variance = power**2 * others.var(ddof=1) / size + (y - power * f).var(ddof=1) / n
    return power * others.mean() + (y - power * f).mean(), power, variance


def test_the_corrected_mean_is_the_formula():
    codes, people = judged_and_labelled(200, 60)
    row = corrected(codes, people)
    f, y = np.array(codes, dtype=float), np.array(people["ann"][:60], dtype=float)
    mean, power, variance = _plainly(y, f[:60], f[60:])
    assert 0 < power < 1
    assert row["mean"] == pytest.approx(mean)
    assert row["power"] == pytest.approx(power)
    ends = bounded_interval(mean, math.sqrt(variance), bounds=(1, 5), freedom=59)
    assert (row["mean_low"], row["mean_high"]) == pytest.approx((ends.low, ends.high), abs=1e-9)
    assert row["mean_high"] - row["mean_low"] == pytest.approx(2 * T59 * math.sqrt(variance), rel=0.02)
    assert row["naive"] == pytest.approx(f.mean())
    assert row["human"] == pytest.approx(y.mean())
    human = mean_interval(y, np.arange(60), bounds=(1, 5))
    assert (row["human_low"], row["human_high"]) == pytest.approx((human.low, human.high))
    assert (row["n_items"], row["n_labelled"], row["n_unlabelled"], row["n_clusters"]) == (200, 60, 140, 60)
    assert row["method"] == "ppi++"
    assert row["mean_high"] - row["mean_low"] < row["human_high"] - row["human_low"]


VALUE = st.integers(0, 4)


@settings(max_examples=60)
@given(st.lists(st.tuples(VALUE, VALUE), min_size=3, max_size=30), st.lists(VALUE, min_size=3, max_size=30))
def test_power_tuning_is_that_of_a_plain_implementation(pairs, others):
    y, f = np.array(pairs, dtype=float).T
    rest = np.array(others, dtype=float)
    found = power_tuned(y, f, rest, np.arange(len(y)), np.arange(len(y), len(y) + len(rest)))
    if np.ptp(np.concatenate([f, rest])) == 0:
        assert found.power == 0
        assert found.mean == pytest.approx(y.mean())
        return
    mean, power, variance = _plainly(y, f, rest)
    assert (found.mean, found.power, found.variance) == pytest.approx((mean, power, variance), abs=1e-12)


def test_clusters_on_both_sides_are_counted_once():
    # Every item twice, as clusters of two, is the same information: SE² grows by no independent item.
    draw = np.random.default_rng(1)
    y, f, others = draw.normal(size=40), draw.normal(size=40), draw.normal(size=60)
    f = y + f
    single = power_tuned(y, f, others, np.arange(40), np.arange(40, 100))
    double = power_tuned(*(np.repeat(side, 2) for side in (y, f, others, np.arange(40), np.arange(40, 100))))
    assert double.mean == pytest.approx(single.mean, rel=0.01)
    assert double.variance == pytest.approx(single.variance, rel=0.01)
    # A cluster with items on both sides: its two parts are added before they are squared. y = 0, 2; f = others = 0, 2:
    # Cov 1 (1/n), Var of 0, 2, 0, 2 is 4/3, λ = 1/(2·4/3) = 3/8; rest = 0, 5/4; sums ∓.625/2·√2 and ∓.375/2·√2.
    y, f = np.array([0.0, 2.0]), np.array([0.0, 2.0])
    shared = power_tuned(y, f, f, np.arange(2), np.arange(2))
    assert shared.power == pytest.approx(3 / 8)
    assert shared.variance == pytest.approx(2 * ((0.625 + 0.375) / 2 * math.sqrt(2)) ** 2)
    apart = power_tuned(y, f, f, np.arange(2), np.arange(2, 4))
    assert apart.variance == pytest.approx(2 * ((0.625 / 2) ** 2 + (0.375 / 2) ** 2) * 2)


def _judged(draw, n, n_labelled):
    """A judge that passes too much: true rate .3, false passes .3, false fails .05."""
    truth = (draw.random(n) < 0.3).astype(float)
    f = np.where(truth > 0, draw.random(n) > 0.05, draw.random(n) < 0.3).astype(float)
    labelled = np.zeros(n, dtype=bool)
    labelled[draw.permutation(n)[:n_labelled]] = True
    return truth, f, labelled


def test_the_naive_mean_of_pairs_stays_between_0_and_1():
    # eleven wins of A and one tie: a plain t interval of the mean, .958, would end at 1.05
    answers = [("A", "A")] * 11 + [("tie", "tie")]
    pairs = {(f"i{n}", "j"): {"AB": [first], "BA": [second]} for n, (first, second) in enumerate(answers)}
    scores = aggregate(vote(judgments(pairs, PAIR), method="majority"))
    row = corrected_mean(scores, labels_of({"ann": ["A"] * 12})).iloc[0]
    assert row["naive"] == pytest.approx(11.5 / 12)
    assert row[["naive_low", "naive_high"]].tolist() == summarize(scores)[["low", "high"]].iloc[0].tolist()
    assert 0 < row["naive_low"] < row["naive_high"] <= 1


def test_the_naive_mean_misses_where_the_corrected_one_covers():
    from scipy.special import stdtrit

    draw = np.random.default_rng(7)
    covered = {"corrected": 0, "naive": 0}
    widths = []
    rounds, n, n_labelled = 600, 500, 100
    for _ in range(rounds):
        truth, f, labelled = _judged(draw, n, n_labelled)
        ids = np.arange(n)
        found = power_tuned(truth[labelled], f[labelled], f[~labelled], ids[labelled], ids[~labelled])
        half = stdtrit(n_labelled - 1, 0.975) * math.sqrt(found.variance)
        covered["corrected"] += abs(found.mean - 0.3) <= half
        naive = mean_interval(f, ids)
        covered["naive"] += naive.low <= 0.3 <= naive.high
        human = mean_interval(truth[labelled], ids[labelled])
        widths.append(2 * half / (human.high - human.low))
    # 600 rounds at 95 %: SE .9 %, so .922 is over three SE below.
    assert covered["corrected"] / rounds > 0.922
    assert covered["naive"] == 0
    assert np.mean(widths) < 0.9


def test_under_thirty_labels_the_mean_is_that_of_the_labels():
    codes, people = judged_and_labelled(100, 29)
    row = corrected(codes, people)
    assert row["method"] == "human"
    assert (row["mean"], row["mean_low"], row["mean_high"]) == (row["human"], row["human_low"], row["human_high"])
    assert math.isnan(row["power"])
    assert "under 30 labelled items" in row["notes"]
    assert corrected(*judged_and_labelled(100, 30))["method"] == "ppi++"


def test_a_judge_of_no_use_gets_no_power():
    draw = np.random.default_rng(2)
    truth = draw.integers(1, 6, 100)
    row = corrected((6 - truth).tolist(), {"ann": [*truth[:50].tolist(), *[None] * 50]})
    assert row["power"] == 0
    assert row["mean"] == pytest.approx(row["human"])
    assert (row["mean_low"], row["mean_high"]) == pytest.approx((row["human_low"], row["human_high"]))
    assert "the judge is useless" in row["notes"]


def test_unscored_is_one_constant_on_both_sides():
    codes, people = judged_and_labelled(120, 60)
    holes = [None if n % 10 == 0 else code for n, code in enumerate(codes)]
    f = np.array([np.nan if code is None else code for code in holes])
    y = np.array(people["ann"][:60], dtype=float)
    for value, constant in ((None, np.nanmean(f)), (1.0, 1.0)):
        filled = np.where(np.isnan(f), constant, f)
        mean, power, _ = _plainly(y, filled[:60], filled[60:])
        row = corrected(holes, people, unscored=value)
        assert (row["mean"], row["power"]) == pytest.approx((mean, power))
        assert row["n_unscored"] == 12
        assert row["naive"] == pytest.approx(np.nanmean(f))


def test_y_is_the_mean_over_annotators_and_passes_are_shares():
    codes, people = judged_and_labelled(100, 40)
    second = [None if label is None else min(label + 1, 5) for label in people["ann"]]
    row = corrected(codes, people | {"bob": second}, FIVE)
    y = np.array([(a + b) / 2 for a, b in zip(people["ann"][:40], second[:40], strict=True)])
    assert row["human"] == pytest.approx(y.mean())
    passes = corrected(codes, people | {"bob": second}, FIVE, figure="passed")
    share = np.mean([((a >= 4) + (b >= 4)) / 2 for a, b in zip(people["ann"][:40], second[:40], strict=True)])
    assert passes["human"] == pytest.approx(share)
    assert passes["naive"] == pytest.approx(np.mean(np.array(codes) >= 4))
    assert passes["figure"] == "passed"
    assert 0 <= passes["mean_low"] <= passes["mean"] <= passes["mean_high"] <= 1
    booleans = {"ann": [None if label is None else str(label >= 4) for label in people["ann"]]}
    assert corrected(codes, booleans, FIVE, figure="passed")["method"] == "ppi++"


def test_what_cannot_be_corrected_says_why():
    codes, people = judged_and_labelled(40, 40)
    assert "every item is labelled" in corrected(codes, people)["notes"]
    nobody = corrected_mean(votes_of(codes, PLAIN), labels_of({"ann": [None] * 50 + [1]})).iloc[0]
    assert nobody["notes"] == "no labels"
    assert math.isnan(nobody["mean"])
    assert pd.isna(nobody["method"])
    silent = corrected([None] * 80, {"ann": [1, 2] * 20 + [None] * 40})
    assert "nothing is scored" in silent["notes"]
    assert silent["mean"] == pytest.approx(1.5)
    assert "no pass rule" in corrected(codes, people, figure="passed")["notes"]
    assert "nominal" in corrected(["art", "law"] * 30, {"ann": ["art"] * 40}, NAMES)["notes"]
    topics = corrected(["art", "law", "sport"] * 30, {"ann": ["art", "sport"] * 20}, TOPIC, figure="passed")
    assert (topics["method"], topics["human"]) == ("ppi++", 0.5)
    same = corrected([3] * 80, {"ann": [3] * 40})
    assert same["mean"] == 3
    assert same["mean_low"] < 3 < same["mean_high"]
    assert "nothing varies" in same["notes"]
    assert len(corrected_mean(tables.empty("votes"), labels_of({"ann": [1]}))) == 0


def test_versions_and_options_of_a_correction():
    votes = votes_of([1, 2, 3], PLAIN)
    both = pd.concat([votes, votes.assign(rubric_version="v2")], ignore_index=True)
    with pytest.raises(InputError, match="rubric 'r' in versions 'v1', 'v2'"):
        corrected_mean(both, labels_of({"ann": [1, 2, 3]}))
    with pytest.raises(ConfigError, match=r"figure='pass_rate' is unknown; .*allowed: 'score', 'passed'"):
        corrected([1], {"ann": [1]}, figure="pass_rate")
    for wrong in (math.nan, True):
        with pytest.raises(ConfigError, match="give one number"):
            corrected([1], {"ann": [1]}, unscored=wrong)


def test_the_jury_and_shuffled_rows():
    codes, people = judged_and_labelled(90, 45)
    votes, labels = votes_of(codes, PLAIN), labels_of(people)
    clusters = {f"i{n}": f"d{n // 3}" for n in range(90)}
    made = corrected_mean(votes, labels, clusters=clusters)
    again = corrected_mean(votes.sample(frac=1, random_state=3), labels.iloc[::-1], clusters=clusters)
    assert_frame_equal(made, again)
    assert made.loc[0, "n_clusters"] == 15
    jury = corrected_mean(aggregate(votes), labels, clusters=clusters)
    assert jury.loc[0, "judge"] == "jury"
    assert jury.loc[0, "mean"] == made.loc[0, "mean"]


def test_held_out_labels_are_the_default_and_dev_items_are_left_out(tmp_path):
    codes, people = judged_and_labelled(300, 120)
    labels = split_labels(labels_of(people))
    held = labels.loc[labels["part"] == "held-out"]
    row = corrected_mean(votes_of(codes, PLAIN), labels, cache=tmp_path).iloc[0]
    assert row["n_labelled"] == len(held)
    assert row["n_unlabelled"] == 180
    assert "held-out labels" in row["notes"]
    assert row["n_looks"] == 1
    assert held_out_looks(tmp_path)["n_looks"].tolist() == [1]
    dev = corrected_mean(votes_of(codes, PLAIN), labels, part="dev", cache=tmp_path).iloc[0]
    assert dev["n_labelled"] == 120 - len(held)
    assert "tuned on these labels" in dev["notes"]
    few = corrected_mean(votes_of(codes, PLAIN), split_labels(labels_of({"ann": [1, 2] * 20}))).iloc[0]
    assert "tuned on these labels" in few["notes"]


# -- pass thresholds


def threshold(codes, people, scale=FIVE, **options):
    made = pass_threshold(votes_of(codes, scale), labels_of(people), **options)
    assert len(made) == 1
    return made.iloc[0]


def test_the_best_threshold_by_hand():
    # People pass from 3 on: half-way between 2 and 3 everything agrees. The rubric passes from 4, so the three 3 of 15
    # are wrong as they are.
    codes = [1, 2, 3, 4, 5] * 3
    row = threshold(codes, {"ann": [str(code >= 3) for code in codes]}, folds=3)
    assert (row["cut"], row["pass_at"]) == (2.5, 3)
    assert (row["in_sample"], row["out_of_fold"], row["optimism"]) == pytest.approx((1, 1, 0))
    assert row["present"] == pytest.approx(12 / 15)
    assert (row["cut_lowest"], row["cut_highest"], row["n_folds"], row["n_labelled"]) == (2.5, 2.5, 3, 15)


def test_low_is_better_turns_round():
    codes = [0, 1, 2] * 6
    row = threshold(codes, {"ann": [str(code <= 1) for code in codes]}, LOW)
    assert (row["cut"], row["pass_at"]) == (1.5, 1)
    assert row["present"] == pytest.approx(2 / 3)


def _best_plainly(score, said, balanced):
    """Every cut tried: the best figure against each annotator, averaged by their numbers of labels."""
    values = sorted(set(score))
    found = []
    for cut in [*values, math.inf]:
        figures, sizes = [], []
        for column in said.T:
            known = column >= 0
            if not known.any() or (balanced and len(set(column[known])) < 2):
                continue
            right = (score >= cut) == (column == 1)
            groups = [known & (column == 0), known & (column == 1)] if balanced else [known]
            figures.append(np.mean([right[group].mean() for group in groups]))
            sizes.append(known.sum())
        found.append(np.average(figures, weights=sizes))
    return max(found)


LABEL = st.one_of(st.none(), st.integers(1, 5))


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 5), LABEL, LABEL), min_size=4, max_size=30),
    st.sampled_from(["accuracy", "balanced_accuracy"]),
)
@pytest.mark.long
def test_the_in_sample_figure_is_the_best_of_all_cuts(rows, objective):
    codes, *people = (list(side) for side in zip(*rows, strict=True))
    row = threshold(codes, dict(zip("ab", people, strict=True)), objective=objective)
    said = np.array([[-1 if label is None else int(label >= 4) for label in side] for side in people]).T
    known = (said >= 0).any(axis=1)
    score, said = np.array(codes)[known], said[known]
    if math.isnan(row["in_sample"]):
        if known.sum() < 2:
            return
        both = [column for column in said.T if len(set(column[column >= 0])) == 2]
        assert not both if objective == "balanced_accuracy" else len(set(said[said >= 0].tolist())) < 2
        assert isinstance(row["notes"], str)
        return
    best = _best_plainly(score, said, objective == "balanced_accuracy")
    assert row["in_sample"] == pytest.approx(best)
    # Each fold has a cut of its own, so on a handful of items it may even be over the best single cut.
    assert 0 <= row["out_of_fold"] <= 1
    assert row["present"] <= best + 1e-9


def test_out_of_fold_is_honest_where_there_is_nothing_to_learn():
    # Verdicts by coin: the best of many cuts looks better than half, what to expect is not.
    draw = np.random.default_rng(5)
    rows = []
    for _ in range(20):
        scores = [[int(code) for code in draw.integers(1, 6, 5)] for _ in range(40)]
        rows.append(threshold(scores, {"ann": [str(flag) for flag in draw.random(40) < 0.5]}))
    assert np.mean([row["in_sample"] for row in rows]) > 0.58
    assert np.mean([row["out_of_fold"] for row in rows]) < 0.54
    assert np.mean([row["optimism"] for row in rows]) > 0.06


def test_balanced_accuracy_finds_the_rare_passes():
    # 2 of 20 pass. All fail is right in 90 %; balanced, a cut at 4 that catches both and three others wins.
    codes = [5, 5, 4, 4, 4] + [1] * 15
    people = {"ann": ["true", "true"] + ["false"] * 18}
    assert threshold(codes, people)["cut"] == 4.5
    codes = [4] * 5 + [1] * 15
    assert threshold(codes, people)["cut"] == math.inf
    assert math.isnan(threshold(codes, people)["pass_at"])
    assert threshold(codes, people)["in_sample"] == pytest.approx(0.9)
    assert "passes all items or none" in threshold(codes, people)["notes"]
    rare = threshold(codes, people, objective="balanced_accuracy")
    assert (rare["cut"], rare["pass_at"]) == (2.5, 3)
    assert rare["in_sample"] == pytest.approx((1 + 15 / 18) / 2)


def test_clusters_are_in_one_fold_and_rows_in_any_order():
    codes = np.random.default_rng(6).integers(1, 6, 60).tolist()
    people = {"ann": [str(code >= 3) for code in codes]}
    clusters = {f"i{n}": f"d{n % 3}" for n in range(60)}
    votes, labels = votes_of(codes), labels_of(people)
    made = pass_threshold(votes, labels, clusters=clusters)
    assert made.loc[0, "n_folds"] == 3
    again = pass_threshold(votes.sample(frac=1, random_state=0), labels.iloc[::-1], clusters=clusters)
    assert_frame_equal(made, again)
    one = pass_threshold(votes, labels, clusters=dict.fromkeys(clusters, "d"))
    assert one.loc[0, "notes"] == "fewer than two clusters"


def test_thresholds_that_cannot_be_found_say_why():
    assert "no pass rule" in threshold([1, 2, 3], {"ann": [1, 2, 3]}, PLAIN)["notes"]
    assert "nominal" in threshold(["art", "law"], {"ann": ["art", "law"]}, TOPIC)["notes"]
    assert "only one of the two verdicts" in threshold([1, 5, 4], {"ann": [5, 5, 5]})["notes"]
    assert "no item has both" in threshold([None, None], {"ann": [5, 1]})["notes"]
    apart = threshold([1, 5, 2, 4], {"a": [5, 5, None, None], "b": [None, None, 1, 1]}, objective="balanced_accuracy")
    assert "only one of the two verdicts" in apart["notes"]
    assert len(pass_threshold(tables.empty("votes"), labels_of({"ann": [1]}))) == 0
    for wrong in (1, 2.5, True):
        with pytest.raises(ConfigError, match=r"folds must be a whole number ≥ 2"):
            threshold([1], {"ann": [1]}, BINARY, folds=wrong)
    with pytest.raises(ConfigError, match="allowed: 'accuracy', 'balanced_accuracy'"):
        threshold([1], {"ann": [1]}, BINARY, objective="f1")


def test_a_threshold_is_tuned_on_dev():
    codes = np.random.default_rng(8).integers(1, 6, 80).tolist()
    labels = split_labels(labels_of({"ann": [str(code >= 3) for code in codes]}))
    row = pass_threshold(votes_of(codes), labels).iloc[0]
    assert row["n_labelled"] == (labels["part"] == "dev").sum()
    assert "tuned on these labels" in row["notes"]
