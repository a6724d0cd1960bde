"""P(pass) against people: values by hand, cuts that are chosen on dev and shown on held-out labels, certainty."""

import math

import numpy as np
import pandas as pd
import pytest
from alignment_tables import labels_of, votes_table
from judgment_tables import BINARY, answered

from evalkit.errors import ConfigError, InputError
from evalkit.plots import plot_calibration
from evalkit.stats import certainty_threshold, pass_probabilities, pass_threshold
from evalkit.stats.alignment.label_splits import held_out_looks, split_labels
from evalkit.stats.voting import vote


def judged(probs, judge="j"):
    """Votes of one judge from P(pass) per item; None: it gave no answer."""
    votes = votes_table([float((prob or 0) > 0.5) for prob in probs], BINARY, judge)
    lost = pd.isna(votes.assign(pass_prob=probs)["pass_prob"]).to_numpy()
    votes = votes.assign(**{name: votes[name].mask(lost) for name in ("score", "score_norm", "label", "passed")})
    return votes.assign(pass_prob=np.array(probs, dtype=float), n_scored=(~lost).astype(int))


def figures(probs, people, **options):
    return pass_probabilities(judged(probs), labels_of({"ann": people}), **options)


def test_gap_brier_and_ece_by_hand():
    # 24 of 40 pass at P = .8: gap .6 − .8; Brier (24 · .2² + 16 · .8²)/40. SE² of the gap is Σu²/(1 − 1/40)/40² =
    # .24/39, t with 39 degrees of freedom 2.0227.
    made = figures([0.8] * 40, [1] * 24 + [0] * 16)
    row = made.table.iloc[0]
    assert (row["gap"], row["brier"], row["ece"]) == pytest.approx((-0.2, 0.28, 0.2))
    half = 2.0227 * math.sqrt(0.24 / 39)
    assert (row["gap_low"], row["gap_high"]) == pytest.approx((-0.2 - half, -0.2 + half), abs=1e-4)
    # of 40 draws with chance .8: √(2/π) · √(.16/40)
    assert row["ece_if_calibrated"] == pytest.approx(math.sqrt(2 / math.pi * 0.16 / 40), abs=1e-6)
    assert row["notes"] == "slope: under 100 labelled items"
    assert math.isnan(row["slope"])
    # wrong in a group as a whole: 20 groups of two alike have twice the variance, so √2 of the ECE
    pairs = {f"i{n}": n // 2 for n in range(40)}
    grouped = figures([0.8] * 40, [1] * 24 + [0] * 16, clusters=pairs).table.iloc[0]
    assert grouped["ece_if_calibrated"] == pytest.approx(math.sqrt(2 / math.pi * 0.16 / 40 * 2), abs=1e-6)


def test_the_slope_is_that_of_people_on_p():
    # people pass 35 % at P = .2 and 65 % at .8
    made = figures([0.2, 0.8] * 100, [*[1, 1] * 35, *[0, 1] * 30, *[0, 0] * 35])
    row = made.table.iloc[0]
    assert row["slope"] == pytest.approx(0.5)
    assert row["slope_low"] < 0.5 < row["slope_high"] < 1
    assert "P is the same everywhere" in figures([0.8] * 100, [1, 0] * 50).table.loc[0, "notes"]


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([10, 3, 4, 0, 5, 0, 9, 9], [10, 12, 18]),  # 3 + 4 + 0 + 5, then 0 + 9 and what follows
        ([10, 15, 0, 0, 0, 0, 0, 5], [10, 20]),  # what is left over joins the last one
        ([30, 0, 0, 0, 0, 0, 0, 0], [30]),
    ],
)
def test_bins_are_merged_to_ten_labels(sizes, merged):
    ends = [
        0.01,
        0.09,
        0.29,
        0.49,
        0.69,
        0.89,
        0.98,
        0.99,
    ]  # the last P of each of the first seven, the first of the last
    probs = np.repeat(ends, sizes).tolist()
    made = figures(probs, [0, 1] * (len(probs) // 2) + [1] * (len(probs) % 2))
    assert made.points["n_labelled"].tolist() == merged
    assert made.points["lowest"].iloc[0] == 0.01
    assert (made.points["people_low"] <= made.points["people"]).all()


def test_few_labels_give_counts_alone():
    made = figures([0.8, 0.99, 0.01, None], [1, 1, 0, 1])
    row = made.table.iloc[0]
    assert (row["n_items"], row["n_scored"], row["n_labelled"]) == (4, 3, 3)
    assert (row["sure_pass"], row["sure_fail"]) == pytest.approx((1 / 3, 1 / 3))
    assert "gap, brier, slope, ece: under 30 labelled items" in row["notes"]
    assert made.points.empty
    assert figures([None] * 3, [1, 0, 1]).table.loc[0, "notes"] == "the judge states no probability of passing"


def test_refusals_are_counts_and_rates_from_five_on():
    def refused(n):
        votes = judged([*[0.8] * 20, *[None] * n])
        votes["reason"] = pd.Categorical([None] * 20 + ["refused"] * n)
        return pass_probabilities(votes, labels_of({"ann": [1] * 15 + [0] * 5 + [0] * n})).table.iloc[0]

    few, more = refused(4), refused(5)
    assert (few["n_refused"], few["n_refused_pass"], few["n_refused_fail"]) == (4, 0, 4)
    assert math.isnan(few["refused_fail"])
    assert (more["refused_pass"], more["refused_fail"]) == (0, 0.5)  # 5 of the 10 that people fail
    assert more["refused_fail_low"] < 0.5 < more["refused_fail_high"]


def test_what_is_decided_and_the_agreement_there():
    # certainty .9, .9, .7, .5, none; people: right, wrong, right, half, -
    made = figures([0.9, 0.1, 0.3, 0.5, None], [1, 1, 0, 1, 1])
    rows = made.certainty.set_index("threshold")
    assert rows.loc[0.5, ["decided", "n_decided", "n_labelled"]].tolist() == [0.8, 4, 4]
    assert rows.loc[0.5, "agreement"] == pytest.approx(2.5 / 4)
    assert rows.loc[0.7, "agreement"] == pytest.approx(2 / 3)
    assert rows.loc[0.9, ["decided", "agreement"]].tolist() == pytest.approx([0.4, 0.5])
    assert rows.loc[0.99, "n_labelled"] == 0
    assert math.isnan(rows.loc[0.99, "agreement"])


def test_the_plot_shows_people_by_p():
    made = figures([0.2, 0.9] * 20, [*[1, 1] * 4, *[0, 1] * 8, *[0, 0] * 8])
    alt = plot_calibration(made).alt
    assert "score 0.2: people 0.20 [" in alt
    assert "score 0.9: people 0.60 [" in alt
    assert "calibrated" not in alt
    with pytest.raises(InputError, match="what calibrate or pass_probabilities returned, not DataFrame"):
        plot_calibration(made.table)


def split(people):
    return split_labels(labels_of({"ann": people}))


def test_a_cut_is_chosen_on_dev_and_confirmed_on_held_out_labels():
    # people pass from .7 on: at .5 the items at .6, a third, are wrong; the cuts .605 to .795 are always right
    probs, people = [0.6, 0.8, 0.3] * 70, [0, 1, 0] * 70
    votes = pd.concat([judged(probs), judged([0.2, 0.8, 0.3] * 70, "right")])
    labels = split(people)
    dev = pass_threshold(votes, labels, of="pass_prob").set_index("judge")
    assert dev.loc["j", ["cut", "cut_lowest", "cut_highest", "out_of_fold"]].tolist() == [0.605, 0.605, 0.605, 1]
    share = dev.loc["j", "changed"]
    assert dev.loc["j", "present"] == pytest.approx(1 - share)
    assert dev.loc["j", "n_needed"] == math.ceil(7.84 / share)  # 7.84 · share changed / gain²
    assert dev["kept"].isna().all()
    assert held_out_looks().empty

    held = pass_threshold(votes, labels, of="pass_prob", part="held-out").set_index("judge")
    n = int((labels["part"] == "held-out").sum())
    n_wrong = sum(prob == 0.6 for prob, part in zip(probs, labels["part"], strict=True) if part == "held-out")
    assert held.loc["j", ["n_held_out", "gain"]].tolist() == pytest.approx([n, n_wrong / n])
    assert held.loc["j", "gain_low"] > 0.15
    assert held.loc["j", ["kept", "n_looks"]].tolist() == [True, 1]
    # the other judge gains nothing, so nobody looks
    assert held.loc["right", "n_looks"] == 0
    assert pd.isna(held.loc["right", "kept"])
    assert "no cut agrees better than .5" in held.loc["right", "notes"]
    assert len(held_out_looks()) == 1


def test_a_cut_that_always_gives_one_verdict_is_not_kept():
    draw = np.random.default_rng(2)
    probs = np.where(draw.random(300) < 0.5, 0.4, 0.6).tolist()
    people = [1] * 300  # all pass, whatever the judge says
    row = pass_threshold(judged(probs), split(people), of="pass_prob", part="held-out").iloc[0]
    assert row["out_of_fold"] == 1 > row["present"]
    assert (pd.isna(row["kept"]), row["n_looks"]) == (True, 0)
    assert "no cut agrees better than .5 and than one verdict for all items" in row["notes"]


@pytest.mark.parametrize("share", [0.65, 0.75, 0.8])
def test_a_judge_that_knows_nothing_gets_no_cut(share):
    kept, draw = 0, np.random.default_rng(5)
    for _ in range(15):
        probs, people = draw.random(250).round(2).tolist(), (draw.random(250) < share).astype(int).tolist()
        row = pass_threshold(judged(probs), split(people), of="pass_prob", part="held-out").iloc[0]
        kept += row["kept"] is np.True_ or row["kept"] is True
    assert kept <= 1  # a cut that passes nearly all agrees far better than .5 each time


def test_a_half_counts_half_at_a_half():
    # 30 at .50 that people pass: half right at .5, right at .495; 30 at .2 that they fail
    row = pass_threshold(judged([0.5, 0.2] * 30), labels_of({"ann": [1, 0] * 30}), of="pass_prob").iloc[0]
    assert (row["present"], row["cut"], row["in_sample"]) == (0.75, 0.495, 1)


def test_cuts_that_cannot_be_found_say_why():
    few = pass_threshold(judged([0.8, 0.2] * 20), labels_of({"ann": [1, 0] * 20}), of="pass_prob").iloc[0]
    assert few["notes"] == "under 50 labelled items"
    assert math.isnan(few["cut"])
    with pytest.raises(ConfigError, match="omit them, or use of='score'"):
        pass_threshold(judged([0.8]), labels_of({"ann": [1]}), of="pass_prob", ties="wrong")
    for share in (0, 1.0):
        with pytest.raises(ConfigError, match="at_least must be above 0 and under 1"):
            certainty_threshold(judged([0.8]), labels_of({"ann": [1]}), at_least=share)
    with pytest.raises(InputError, match="no column 'pass_prob'; pass an evaluation or votes of a decision model"):
        pass_probabilities(judged([0.8]).drop(columns="pass_prob"), labels_of({"ann": [1]}))
    with pytest.raises(InputError, match=r"'pass_prob' of item 'i1' is 1.2; it must be from 0 to 1"):
        pass_probabilities(judged([0.8, 1.2]), labels_of({"ann": [1, 0]}))


def test_agreement_of_at_least_so_much_needs_held_out_labels():
    # from .9 on always right, at .7 wrong in a third
    probs, people = [0.9, 0.7, 0.7, 0.7] * 150, [1, 1, 1, 0] * 150
    votes, labels = judged(probs), split(people)
    dev = certainty_threshold(votes, labels, 0.9).iloc[0]
    assert (dev["threshold"], dev["decided"]) == (0.75, 0.25)
    assert pd.isna(dev["holds"])
    held = certainty_threshold(votes, labels, 0.9, part="held-out").iloc[0]
    assert (held["threshold"], held["agreement"], held["holds"], held["n_looks"]) == (0.75, 1, True, 1)
    # held-out labels that say otherwise
    is_held = labels["part"].eq("held-out")
    other = labels.assign(label=labels["label"].mask(is_held, "0"))
    assert not certainty_threshold(votes, other, 0.9, part="held-out").loc[0, "holds"]
    # under ln .05/ln .9 = 28.4 decided labels nothing is found, though all are right
    few = certainty_threshold(judged([0.9] * 28), labels_of({"ann": [1] * 28})).iloc[0]
    assert math.isnan(few["threshold"])
    assert "no threshold reaches it" in few["notes"]


def test_a_vote_has_the_mean_of_its_samples():
    judgments = answered({"j": [1, 1], "k": [0, 1]}, BINARY, "i{}")
    votes = vote(pd.concat([judgments, judgments.assign(sample=1)]).assign(pass_prob=[0.9, 0.8, 0.4, None] * 2))
    assert votes["pass_prob"].tolist()[:3] == pytest.approx([0.9, 0.8, 0.4])
    assert math.isnan(votes["pass_prob"].iloc[3])
