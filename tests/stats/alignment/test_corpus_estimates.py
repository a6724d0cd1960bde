"""Corpus estimates from few labels, what to label next, and pass thresholds."""

import math

import numpy as np
import pandas as pd
import pytest
from alignment_tables import FIVE, labels_of, votes_of
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, LOW, NAMES, PAIR, TOPIC, judgments
from pandas.testing import assert_frame_equal

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.alignment.corpus_estimates import corpus_estimate, isotonic, weighted_mean
from evalkit.stats.alignment.label_draws import label_weights, next_labels
from evalkit.stats.alignment.label_splits import held_out_looks, split_labels
from evalkit.stats.alignment.pass_thresholds import pass_threshold
from evalkit.stats.intervals import bounded_interval, mean_interval
from evalkit.stats.voting import vote
from evalkit.tables import schemas

PLAIN = Scale.of(dict.fromkeys(range(1, 6), ""))
T59 = 2.0009954  # t with 59 degrees of freedom, two-sided 95 %


def judged_and_labelled(n, n_labelled, seed=0, bias=1):
    draw = np.random.default_rng(seed)
    truth = draw.integers(1, 5, n)
    codes = np.clip(truth + bias * draw.integers(0, 2, n), 1, 5).tolist()
    return codes, {"ann": [*truth[:n_labelled].tolist(), *[None] * (n - n_labelled)]}


def estimated(codes, people, scale=PLAIN, **options):
    made = corpus_estimate(votes_of(codes, scale), labels_of(people), **options)
    assert len(made) == 1
    return made.iloc[0]


def _plainly(y, f, step=2.0):
    """The difference estimator with ĝ = λf: θ, and its variance with one more error, of half the width."""
    n, size = len(y), len(f)
    own = f[:n]
    power = ((y - y.mean()) * (own - own.mean())).sum() / n / f.var()
    power = min(1.0, max(0.0, power))
    rest = y - power * own
    error = power * (f - f.mean()) / size * math.sqrt(size / (size - 1))
    error[:n] += (rest - rest.mean()) / n * math.sqrt(n / (n - 1))
    return power * f.mean() + rest.mean(), (error**2).sum() + (step / n) ** 2


def test_the_estimate_is_the_formula():
    codes, people = judged_and_labelled(200, 60)
    row = estimated(codes, people)
    f, y = np.array(codes, dtype=float), np.array(people["ann"][:60], dtype=float)
    mean, variance = _plainly(y, f)
    assert row["estimate"] == pytest.approx(mean)
    ends = bounded_interval(mean, math.sqrt(variance), bounds=(1, 5), freedom=59)
    assert (row["estimate_low"], row["estimate_high"]) == pytest.approx((ends.low, ends.high), abs=1e-9)
    assert row["estimate_high"] - row["estimate_low"] == pytest.approx(2 * T59 * math.sqrt(variance), rel=0.02)
    assert row["raw"] == pytest.approx(f.mean())
    assert row["human"] == pytest.approx(y.mean())
    human = mean_interval(y, np.arange(60), bounds=(1, 5))
    assert (row["human_low"], row["human_high"]) == pytest.approx((human.low, human.high))
    assert (row["n_items"], row["n_labelled"], row["n_clusters"]) == (200, 60, 60)
    assert row["method"] == "linear"
    assert row["n_effective"] == pytest.approx(60)
    widths = [row[f"{name}_high"] - row[f"{name}_low"] for name in ("human", "estimate")]
    assert widths[1] < widths[0]
    assert row["worth"] == pytest.approx(60 * (widths[0] / widths[1]) ** 2)


def test_an_isotonic_guess_never_sees_the_label_of_its_own_item():
    draw = np.random.default_rng(3)
    f, unit = draw.integers(0, 5, 400).astype(float), np.arange(400) // 2
    y = np.where(np.arange(400) < 200, draw.integers(0, 5, 400), np.nan).astype(float)
    weights = np.where(np.isnan(y), 0.0, 1 / 200)
    first = isotonic(f, y, weights, unit)
    for item in (0, 57, 199):
        changed = y.copy()
        changed[item] = 4 - changed[item] if changed[item] != 2 else 50
        again = isotonic(f, changed, weights, unit)
        own = unit == unit[item]
        assert (again[own] == first[own]).all()
        assert not np.array_equal(again, first)
    assert (np.diff([first[(f == code) & np.isnan(y)][0] for code in range(5)]) >= 0).all()


def test_from_a_hundred_labels_the_guess_is_isotonic():
    codes, people = judged_and_labelled(400, 100)
    row = estimated(codes, people)
    assert row["method"] == "isotonic"
    by_name = np.argsort([f"i{n}" for n in range(400)])  # clusters are numbered in the order of their names
    f = np.array(codes, dtype=float)[by_name]
    y = np.array([*people["ann"][:100], *[np.nan] * 300], dtype=float)[by_name]
    weights = np.where(np.isnan(y), 0.0, 0.01)
    guess = isotonic(f, y, weights, np.arange(400))
    assert row["estimate"] == pytest.approx(guess.mean() + np.nanmean(y - guess))
    assert estimated(codes, {"ann": [*people["ann"][:99], *[None] * 301]})["method"] == "linear"


def test_clusters_on_both_sides_are_counted_once():
    # Every item twice, as clusters of two, is the same information: SE² grows by no independent item.
    draw = np.random.default_rng(1)
    y, guess = draw.normal(size=100), draw.normal(size=100)
    weights = np.where(np.arange(100) < 40, 1 / 40, 0.0)
    single = weighted_mean(guess, y, weights, np.arange(100))
    double = weighted_mean(*(np.repeat(side, 2) for side in (guess, y, weights / 2, np.arange(100))))
    assert double.mean == pytest.approx(single.mean)
    assert double.variance == pytest.approx(single.variance)
    assert double.n_effective == pytest.approx(single.n_effective, rel=0.03)
    # By hand: ĝ = 0, 2, 0, 2 and y = 0, 3 of the first two. Y − ĝ = 0, 1, less their mean: ∓1/2, by weight ∓1/4.
    # (ĝ − 1)/4 = ∓1/4. Items alone: √2/4 and √(4/3)/4 are added for items 1 and 2.
    y, guess = np.array([0.0, 3, 9, 9]), np.array([0.0, 2, 0, 2])
    weights = np.array([0.5, 0.5, 0, 0])
    alone = weighted_mean(guess, y, weights, np.arange(4))
    near, far = math.sqrt(2) / 4, math.sqrt(4 / 3) / 4
    assert alone.mean == 1.5
    assert alone.variance == pytest.approx(2 * (near + far) ** 2 + 2 * far**2)
    # Items 1 and 3, and 2 and 4, in one cluster: two clusters, so both factors are √2.
    shared = weighted_mean(guess, y, weights, np.array([0, 1, 0, 1]))
    assert shared.variance == pytest.approx(2 * (math.sqrt(2) / 4 + 2 * math.sqrt(2) / 4) ** 2)
    more = weighted_mean(guess, y, weights, np.arange(4), one_more=1.0)
    assert more.variance == pytest.approx(alone.variance + 1 / 4)


def test_the_raw_mean_of_pairs_stays_between_0_and_1():
    # eleven wins of A and one tie: a plain t interval of the mean, .958, would end at 1.05
    answers = [("A", "A")] * 11 + [("tie", "tie")]
    pairs = {(f"i{n}", "j"): {"AB": [first], "BA": [second]} for n, (first, second) in enumerate(answers)}
    scores = aggregate(vote(judgments(pairs, PAIR), method="majority"))
    row = corpus_estimate(scores, labels_of({"ann": ["A"] * 12})).iloc[0]
    assert row["raw"] == pytest.approx(11.5 / 12)
    assert row[["raw_low", "raw_high"]].tolist() == summarize(scores)[["low", "high"]].iloc[0].tolist()
    assert 0 < row["raw_low"] < row["raw_high"] <= 1


def _by_probability(draw, votes, truth, n, strategy, round_=None):
    """Labels drawn by `next_labels`, with its probabilities."""
    drawn = next_labels(votes, n, strategy=strategy, seed=int(draw.integers(1 << 30)), labels=round_)
    return drawn.assign(annotator="ann", label=[truth[item] for item in drawn["item_id"]])


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["random", "balanced"])
def test_estimates_of_weighted_labels_are_unbiased_and_the_plain_mean_is_not(strategy):
    draw = np.random.default_rng(11)
    truth = np.where(draw.random(600) < 0.15, 0, 1)
    codes = np.where(draw.random(600) < 0.85, truth, 1 - truth).tolist()
    votes = votes_of(codes, BINARY)
    by_item = {f"i{n}": int(code) for n, code in enumerate(truth)}
    votes["item_id"] = [f"i{n}" for n in range(600)]
    found, plain, covered = [], [], 0
    for _ in range(20):
        first = _by_probability(draw, votes, by_item, 60, strategy)
        second = _by_probability(draw, votes, by_item, 60, strategy, first)
        assert set(second["round"]) == {2}
        assert not set(first["item_id"]) & set(second["item_id"])
        labels = pd.concat([first, second])
        row = corpus_estimate(votes, labels).iloc[0]
        found.append(row["estimate"])
        plain.append(labels["label"].mean())
        covered += row["estimate_low"] <= truth.mean() <= row["estimate_high"]
    error = np.std(found, ddof=1) / math.sqrt(20)
    assert abs(np.mean(found) - truth.mean()) < 3.5 * error
    assert covered >= 16  # of 20: at .95, fewer come up in 1 of 390 runs; the draws are always the same
    biased = abs(np.mean(plain) - truth.mean()) > 5 * error
    assert biased == (strategy == "balanced")


def test_weights_of_rounds_by_hand():
    # Ten items. Round 0: a, b without probabilities. Round 1, of the eight others: c with .5, d with .25.
    said = pd.DataFrame(
        {"item_id": list("abcd"), "criterion": "c", "label": "1", "probability": [None, None, 0.5, 0.25]}
    ).assign(round=[0, 0, 1, 1])
    weights = label_weights(said, "c", pd.Index(list("abcdefghij")))
    # round 0: .5 each; round 1: .1 each for a and b, .8 in the proportion 2 : 4; both rounds have two labels
    assert weights[:4].tolist() == pytest.approx([0.3, 0.3, 0.8 / 6, 1.6 / 6])
    assert weights[4:].tolist() == [0] * 6
    assert weights.sum() == pytest.approx(1)
    # Of labels that are split, .4 of all are held out: c and d with .4 · .5 and .4 · .25, 1 : 2, for the whole corpus.
    alone, dev = said.iloc[2:], said.iloc[:1].assign(item_id="f")
    split = label_weights(alone, "c", pd.Index(list("cdef")), dev=dev)
    assert split.tolist() == pytest.approx([1 / 3, 2 / 3, 0, 0])
    # a is held out of round 0, f and b are dev: three labelled before, for which a stands; c and d for seven
    both = label_weights(said.iloc[[0, 2, 3]], "c", pd.Index(list("abcdefghij")), dev=pd.concat([dev, said.iloc[1:2]]))
    assert both[[0, 2, 3]].tolist() == pytest.approx([1 / 3 + 0.3 * 2 / 3, 0.7 * 2 / 9, 0.7 * 4 / 9])
    assert both.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": [0.0, 0.5, 0.5]}, "item 'i0', criterion .*: the 'probability' is 0; it must be above 0"),
        ({"probability": [0.5, 1.5, 0.5]}, "item 'i1', .*: the 'probability' is 1.5"),
        (
            {"probability": [0.5, 0.5, None]},
            "item 'i2', .*: the 'probability' is missing, and others of its round have one",
        ),
        ({"probability": [0.5] * 3, "item_id": ["i0", "i1", "i1"], "round": [1, 1, 2]}, "an item is drawn once"),
    ],
)
def test_unknown_probabilities_are_refused(change, message):
    labels = labels_of({"ann": [1, 2, 3]}).assign(**change)
    if "round" in change:
        labels["annotator"] = ["ann", "ann", "bob"]
    with pytest.raises(InputError, match=message):
        corpus_estimate(votes_of([1, 2, 3], PLAIN), labels)


def test_items_picked_by_hand_do_not_stand_for_others():
    codes, people = judged_and_labelled(200, 60)
    labels = labels_of(people)
    source = ["picked" if n < 10 else "disputed" if n < 20 else "random" for n in range(len(labels))]
    row = corpus_estimate(votes_of(codes, PLAIN), labels.assign(source=source)).iloc[0]
    without = corpus_estimate(votes_of(codes, PLAIN), labels.iloc[20:]).iloc[0]
    assert row["n_labelled"] == 40
    assert row["estimate"] == pytest.approx(without["estimate"])
    assert "20 labels of items that were not drawn at random not used (10 disputed, 10 picked)" in row["notes"]


def test_under_thirty_labels_or_ten_clusters_there_is_no_estimate():
    codes, people = judged_and_labelled(100, 29)
    row = estimated(codes, people)
    assert math.isnan(row["estimate"])
    assert math.isnan(row["worth"])
    assert row["notes"] == "no estimate: under 30 labelled items"
    assert row["human"] == pytest.approx(np.mean(people["ann"][:29]))
    assert row["human_low"] < row["human"] < row["human_high"]
    assert estimated(*judged_and_labelled(100, 30))["method"] == "linear"
    votes, labels = votes_of(*[judged_and_labelled(90, 45)[0]], PLAIN), labels_of(judged_and_labelled(90, 45)[1])
    few = corpus_estimate(votes, labels, clusters={f"i{n}": f"d{n // 5}" for n in range(90)}).iloc[0]
    assert few["notes"] == "no estimate: under 10 labelled clusters"


def test_a_judge_of_no_use_leaves_the_mean_of_the_labels():
    draw = np.random.default_rng(2)
    truth = draw.integers(1, 6, 100)
    row = estimated((6 - truth).tolist(), {"ann": [*truth[:50].tolist(), *[None] * 50]})
    assert row["estimate"] == pytest.approx(row["human"])
    assert "do not predict the labels" in row["notes"]
    assert row["worth"] < 50  # one more error than was seen is added to the variance


def test_unscored_is_one_constant_on_both_sides():
    codes, people = judged_and_labelled(120, 60)
    holes = [None if n % 10 == 0 else code for n, code in enumerate(codes)]
    f = np.array([np.nan if code is None else code for code in holes])
    y = np.array(people["ann"][:60], dtype=float)
    for value, constant in ((None, np.nanmean(f)), (1.0, 1.0)):
        mean, _ = _plainly(y, np.where(np.isnan(f), constant, f))
        row = estimated(holes, people, unscored=value)
        assert row["estimate"] == pytest.approx(mean)
        assert row["n_unscored"] == 12
        assert row["raw"] == pytest.approx(np.nanmean(f))


def test_y_is_the_mean_over_annotators_and_passes_are_shares():
    codes, people = judged_and_labelled(100, 40)
    second = [None if label is None else min(label + 1, 5) for label in people["ann"]]
    row = estimated(codes, people | {"bob": second}, FIVE)
    y = np.array([(a + b) / 2 for a, b in zip(people["ann"][:40], second[:40], strict=True)])
    assert row["human"] == pytest.approx(y.mean())
    passes = estimated(codes, people | {"bob": second}, FIVE, figure="passed")
    share = np.mean([((a >= 4) + (b >= 4)) / 2 for a, b in zip(people["ann"][:40], second[:40], strict=True)])
    assert passes["human"] == pytest.approx(share)
    assert passes["raw"] == pytest.approx(np.mean(np.array(codes) >= 4))
    assert passes["figure"] == "passed"
    assert 0 <= passes["estimate_low"] <= passes["estimate"] <= passes["estimate_high"] <= 1
    booleans = {"ann": [None if label is None else str(label >= 4) for label in people["ann"]]}
    assert estimated(codes, booleans, FIVE, figure="passed")["method"] == "linear"


@pytest.mark.long
def test_what_cannot_be_estimated_says_why():
    codes, people = judged_and_labelled(40, 40)
    everything = estimated(codes, people)
    assert everything["estimate"] == pytest.approx(np.mean(people["ann"]))
    nobody = corpus_estimate(votes_of(codes, PLAIN), labels_of({"ann": [None] * 40})).iloc[0]
    assert nobody["notes"] == "no estimate: no labels"
    assert math.isnan(nobody["human"])
    assert pd.isna(nobody["method"])
    silent = estimated([None] * 80, {"ann": [1, 2] * 20 + [None] * 40})
    assert "nothing is scored" in silent["notes"]
    assert silent["human"] == pytest.approx(1.5)
    assert "no pass rule" in estimated(codes, people, figure="passed")["notes"]
    assert "nominal" in estimated(["art", "law"] * 30, {"ann": ["art"] * 40}, NAMES)["notes"]
    topics = estimated(["art", "law", "sport"] * 30, {"ann": ["art", "sport"] * 20}, TOPIC, figure="passed")
    assert (topics["method"], topics["human"]) == ("linear", 0.5)
    same = estimated([3, 4] * 40, {"ann": [3] * 40})
    assert same["human"] == pytest.approx(3)
    assert same["human_low"] < 3 < same["human_high"]
    assert same["notes"] == "no estimate: all labels are equal"
    assert len(corpus_estimate(schemas.empty("votes"), labels_of({"ann": [1]}))) == 0


def test_versions_and_options_of_an_estimate():
    votes = votes_of([1, 2, 3], PLAIN)
    both = pd.concat([votes, votes.assign(rubric_version="v2")], ignore_index=True)
    with pytest.raises(InputError, match="rubric 'r' in versions 'v1', 'v2'"):
        corpus_estimate(both, labels_of({"ann": [1, 2, 3]}))
    with pytest.raises(ConfigError, match=r"figure='pass_rate' is unknown; .*allowed: 'score', 'passed'"):
        estimated([1], {"ann": [1]}, figure="pass_rate")
    for wrong in (math.nan, True):
        with pytest.raises(ConfigError, match="pass the number that an unscored item counts as"):
            estimated([1], {"ann": [1]}, unscored=wrong)


def test_the_jury_and_shuffled_rows():
    codes, people = judged_and_labelled(90, 45)
    votes, labels = votes_of(codes, PLAIN), labels_of(people)
    clusters = {f"i{n}": f"d{n // 3}" for n in range(90)}
    made = corpus_estimate(votes, labels, clusters=clusters)
    again = corpus_estimate(votes.sample(frac=1, random_state=3), labels.iloc[::-1], clusters=clusters)
    assert_frame_equal(made, again)
    assert made.loc[0, "n_clusters"] == 15
    jury = corpus_estimate(aggregate(votes), labels, clusters=clusters)
    assert jury.loc[0, "judge"] == "jury"
    assert jury.loc[0, "estimate"] == made.loc[0, "estimate"]


def test_only_held_out_labels_are_used_and_stand_for_the_corpus(tmp_path):
    codes, people = judged_and_labelled(300, 120)
    labels = split_labels(labels_of(people))
    held = labels.loc[labels["part"] == "held-out"]
    row = corpus_estimate(votes_of(codes, PLAIN), labels, cache=tmp_path).iloc[0]
    assert row["n_labelled"] == len(held)
    assert row["n_items"] == 300
    assert "held-out labels" in row["notes"]
    assert row["n_looks"] == 1
    assert held_out_looks(tmp_path)["n_looks"].tolist() == [1]
    with pytest.raises(InputError, match="no labels are held out"):
        corpus_estimate(votes_of(codes, PLAIN), split_labels(labels_of({"ann": [1, 2] * 20})))


# -- what to label next


def test_draws_are_repeatable_and_leave_out_what_is_labelled():
    votes = votes_of([1, 2, 3, 4, 5] * 40, PLAIN)
    first = next_labels(votes, 20)
    assert_frame_equal(first, next_labels(votes.sample(frac=1, random_state=1), 20))
    assert first["probability"].unique() == pytest.approx([0.1])
    assert set(first["item_id"]) != set(next_labels(votes, 20, seed=1)["item_id"])
    labels = first.assign(annotator="ann", label="1")
    second = next_labels(votes, 20, labels=labels)
    assert not set(first["item_id"]) & set(second["item_id"])
    assert second["probability"].unique() == pytest.approx([20 / (200 - len(first))])
    everything = labels_of({"ann": [1] * 200})
    with pytest.raises(InputError, match="every item of criterion 'c' is labelled"):
        next_labels(votes, 20, labels=everything)
    assert len(next_labels(votes, 1000)) == 200


@pytest.mark.parametrize("strategy", ["uncertainty", "disagreement"])
def test_sizes_of_items_by_hand(strategy):
    pairs = {}
    for n in range(20):
        odd = n < 2
        first, second = ([0, 2, 2], [0, 2, 2]) if strategy == "uncertainty" else ([2] * 3, [0] * 3)
        pairs[f"i{n}", "a"] = first if odd else [2] * 3
        pairs[f"i{n}", "b"] = second if odd else [2] * 3
    votes = vote(judgments(pairs))
    drawn = next_labels(votes, 10, strategy=strategy, seed=3).set_index("item_id")["probability"]
    # samples 0, 2, 2: 2 of 3 pairs differ, k = 3; judges 2 and 0: both differ, J = 2
    odd, even = (2 / 3 + 1 / 4, 1 / 4) if strategy == "uncertainty" else (1 + 1 / 3, 1 / 3)
    total = 2 * math.sqrt(odd) + 18 * math.sqrt(even)
    shares = [0.3 / 20 + 0.7 * math.sqrt(size) / total for size in (odd, even)]
    assert set(drawn.index) >= {"i0", "i1"}
    assert drawn["i0"] == drawn["i1"] == pytest.approx(10 * shares[0])
    assert drawn.drop(["i0", "i1"]).unique() == pytest.approx([10 * shares[1]])
    same = vote(judgments({(f"i{n}", name): [2] * 3 for n in range(5) for name in "ab"}))
    with pytest.raises(ConfigError, match=f"strategy='{strategy}' needs items on which two .* differ"):
        next_labels(same, 3, strategy=strategy)


def test_options_of_a_draw():
    votes = votes_of([1, 2, 3], PLAIN)
    with pytest.raises(ConfigError, match="strategy='hard' is unknown"):
        next_labels(votes, 1, strategy="hard")
    for wrong in (0, 2.5, True):
        with pytest.raises(ConfigError, match="n must be a whole number ≥ 1"):
            next_labels(votes, wrong)


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


def _best_plainly(score, said):
    """Every cut tried: the best figure against each annotator, averaged by their numbers of labels."""
    values = sorted(set(score))
    found = []
    for cut in [*values, math.inf]:
        figures, sizes = [], []
        for column in said.T:
            known = column >= 0
            if known.any():
                figures.append(((score >= cut) == (column == 1))[known].mean())
                sizes.append(known.sum())
        found.append(np.average(figures, weights=sizes))
    return max(found)


LABEL = st.one_of(st.none(), st.integers(1, 5))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 5), LABEL, LABEL), min_size=4, max_size=30))
@pytest.mark.long
def test_the_in_sample_figure_is_the_best_of_all_cuts(rows):
    codes, *people = (list(side) for side in zip(*rows, strict=True))
    row = threshold(codes, dict(zip("ab", people, strict=True)))
    said = np.array([[-1 if label is None else int(label >= 4) for label in side] for side in people]).T
    known = (said >= 0).any(axis=1)
    score, said = np.array(codes)[known], said[known]
    if math.isnan(row["in_sample"]):
        if known.sum() < 2:
            return
        assert len(set(said[said >= 0].tolist())) < 2
        assert isinstance(row["notes"], str)
        return
    best = _best_plainly(score, said)
    assert row["in_sample"] == pytest.approx(best)
    # Each fold has a cut of its own, so on a handful of items it may even be over the best single cut.
    assert 0 <= row["out_of_fold"] <= 1
    assert row["present"] <= best + 1e-9


@pytest.mark.long
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


def test_where_few_pass_the_best_cut_may_pass_nothing():
    # 2 of 20 pass. All fail is right in 90 %.
    codes = [5, 5, 4, 4, 4] + [1] * 15
    people = {"ann": ["true", "true"] + ["false"] * 18}
    assert threshold(codes, people)["cut"] == 4.5
    codes = [4] * 5 + [1] * 15
    assert threshold(codes, people)["cut"] == math.inf
    assert math.isnan(threshold(codes, people)["pass_at"])
    assert threshold(codes, people)["in_sample"] == pytest.approx(0.9)
    assert "passes all items or none" in threshold(codes, people)["notes"]


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


def test_verdicts_that_are_missing_altogether_have_no_figure():
    # Means between the codes are no verdicts: of all items, `present` is not known; of two in four, the two are wrong.
    votes = votes_of([2, 4] * 8).assign(n_samples=3, passed=pd.NA)
    people = labels_of({"ann": ["false", "true"] * 8})
    row = pass_threshold(votes, people).iloc[0]
    assert (row["in_sample"], row["cut"]) == (1, 3)
    assert math.isnan(row["present"])
    some = votes.assign(passed=pd.array([False, True, pd.NA, pd.NA] * 4, dtype="boolean"))
    assert pass_threshold(some, people).loc[0, "present"] == pytest.approx(0.5)


@pytest.mark.long
def test_thresholds_that_cannot_be_found_say_why():
    assert "no pass rule" in threshold([1, 2, 3], {"ann": [1, 2, 3]}, PLAIN)["notes"]
    assert "nominal" in threshold(["art", "law"], {"ann": ["art", "law"]}, TOPIC)["notes"]
    assert "only one of the two verdicts" in threshold([1, 5, 4], {"ann": [5, 5, 5]})["notes"]
    assert "no item has both" in threshold([None, None], {"ann": [5, 1]})["notes"]
    assert len(pass_threshold(schemas.empty("votes"), labels_of({"ann": [1]}))) == 0
    for wrong in (1, 2.5, True):
        with pytest.raises(ConfigError, match=r"folds must be a whole number ≥ 2"):
            threshold([1], {"ann": [1]}, BINARY, folds=wrong)


def test_a_threshold_is_tuned_on_dev():
    codes = np.random.default_rng(8).integers(1, 6, 80).tolist()
    labels = split_labels(labels_of({"ann": [str(code >= 3) for code in codes]}))
    row = pass_threshold(votes_of(codes), labels).iloc[0]
    assert row["n_labelled"] == (labels["part"] == "dev").sum()
    assert "tuned on these labels" in row["notes"]
