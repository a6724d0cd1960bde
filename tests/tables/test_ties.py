"""Ties as scored answers, from votes to figures: expected values by hand, by scikit-learn, and as published."""

import gzip
import json
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, NAMES, PAIR, PLAIN, TOPIC, judgments, only
from small_rubrics import rubric_of

from evalkit import tables
from evalkit.cli import main
from evalkit.core.lists_of_choices import Ties, Unscored
from evalkit.errors import ConfigError, InputError
from evalkit.notebook.judgments.headline_numbers import confusion_cells
from evalkit.notebook.judgments.item_table import Row
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.combining_criteria import combine
from evalkit.stats.aggregation.summaries import summarize
from evalkit.stats.aggregation.system_ranks import rank
from evalkit.stats.alignment.alternative_annotator import alt_test
from evalkit.stats.alignment.judge_alignment import align, confusion
from evalkit.stats.alignment.judge_contributions import jury_value
from evalkit.stats.alignment.pass_thresholds import pass_threshold
from evalkit.stats.voting import vote
from evalkit.tables import files, schemas
from evalkit.tables.ties import check_counting

FLIP = {"AB": ["A"], "BA": ["B"]}  # whichever answer stands first: mapped back A, then B


def votes_of(samples, scale=PAIR, **options):
    return vote(judgments(samples, scale), **options)


def pairs_of(answers, judge="j"):
    """Votes on pairs from {item: "A", "B", "tie", "flip" or an error}; both orders say the same but for a flip."""
    return votes_of({
        (item, judge): FLIP if said == "flip" else {"AB": [said], "BA": [said]} for item, said in answers.items()
    })  # fmt: skip


# -- votes and scores


@pytest.mark.parametrize(
    ("samples", "scale", "method", "among"),
    [
        (["art", "law"], NAMES, "mean", ["art", "law"]),
        (["sport", "art", "law", "sport", "art"], NAMES, "mean", ["art", "sport"]),
        ([1, 2], PLAIN, "mean", ["1", "2"]),  # the mean is half-way between two codes
        ([1, 3, 1, 3], PLAIN, "majority", ["1", "3"]),
        ([1, 3], PLAIN, "mean", None),  # 2 is the nearest code
        ([1, 1, 2], PLAIN, "mean", None),
        (["!empty", "!empty"], NAMES, "mean", None),
    ],
)
def test_a_vote_holds_which_labels_are_equal(samples, scale, method, among):
    row = votes_of({("i", "j"): samples}, scale, method=method).iloc[0]
    assert row["tied"] == (among is not None)
    assert pd.isna(row["tied_labels"]) if among is None else json.loads(row["tied_labels"]) == among
    score = aggregate(votes_of({("i", "j"): samples}, scale, method=method), method=method).iloc[0]
    assert pd.isna(score["tied_labels"]) if among is None else json.loads(score["tied_labels"]) == among


@pytest.mark.parametrize("method", ["mean", "median", "majority", "min", "max"])
@pytest.mark.parametrize(
    "scale", [PAIR, NAMES, TOPIC, PLAIN, BINARY], ids=["pair", "names", "topic", "plain", "binary"]
)
@pytest.mark.long
def test_the_jury_of_one_judge_ties_where_the_judge_does(scale, method):
    codes = list(scale)[:2]
    samples = {"AB": [codes[0]], "BA": [codes[1]]} if scale is PAIR else codes
    for rule in ("mean", "majority"):
        votes = votes_of({("i", "j"): samples}, scale, method=rule)
        row = aggregate(votes, method=method).iloc[0]
        assert (row["n_scored"], row["status"] == "unscored") == (1, False)
        assert row["tied"]
        if pd.isna(row["score"]):
            assert (row["status"], row["reason"]) == ("tied", "tied")


def test_a_tied_judge_is_scored_and_gives_an_equal_part_to_each_label():
    def jury(answers, **options):
        return aggregate(votes_of({("i", name): said for name, said in answers.items()}, NAMES), **options).iloc[0]

    # Two of three judges are equally for art and law, one is for sport: art 1, law 1, sport 1.
    row = jury({"a": ["art", "law"], "b": ["art", "law"], "c": ["sport"]})
    assert (row["status"], json.loads(row["tied_labels"])) == ("tied", ["art", "law", "sport"])
    # art ½ + ½, law ½, sport ½
    assert jury({"a": ["art", "law"], "b": ["art", "sport"]})["label"] == "art"
    # One flips, one decides, of two: both are scored, so there is a quorum.
    row = jury({"a": ["art", "law"], "b": ["law"]})
    assert (row["label"], row["status"], row["n_scored"]) == ("law", "ok", 2)
    # One flips and one fails: one of two is no quorum, and that is not a tie.
    row = jury({"a": ["art", "law"], "b": ["!timeout"]})
    assert (row["status"], row["n_scored"], row["tied"], pd.isna(row["tied_labels"])) == ("unscored", 1, False, True)


def test_dawid_skene_does_not_call_a_tie_unscored():
    said = {(f"i{n}", judge): ["art" if n % 2 else "law"] for n in range(8) for judge in "abc"}
    said |= {("x", judge): ["art", "law"] for judge in "abc"} | {("y", judge): ["!empty"] for judge in "abc"}
    scores = aggregate(votes_of(said, NAMES), method="dawid_skene").set_index("item_id")
    assert scores.loc["x", ["status", "n_scored"]].tolist() == ["tied", 3]
    assert scores.loc["y", ["status", "n_scored"]].tolist() == ["unscored", 0]


def test_a_saved_table_says_that_it_ties_and_one_without_tied_labels_too(tmp_path):
    votes = pairs_of({"x": "flip", "y": "A"})
    for name, table in (("votes", votes), ("scores", aggregate(votes))):
        files.write_frame(table, tmp_path / f"{name}.jsonl")
        assert tables.read_table(tmp_path / f"{name}.jsonl", "votes", "scores")["tied"].tolist() == [True, False]
    plain = tables.read_table(tmp_path / "votes.jsonl", "votes").drop(columns=["tied_labels", "first_rate"])
    row = aggregate(plain).set_index("item_id").loc["x"]
    assert (row["status"], row["n_scored"], pd.isna(row["tied_labels"])) == ("tied", 1, True)


def test_summary_win_rate_and_rubric_score_count_a_tie_as_scored():
    votes = pairs_of({"x": "flip", "y": "A", "z": "!timeout"})
    scores = aggregate(votes)
    row = summarize(scores).iloc[0]
    assert row[["n_items", "n_scored", "n_tied"]].tolist() == [3, 2, 1]
    items = pd.DataFrame({"item_id": list("xyz"), "system_a": "new", "system_b": "old"})
    for judged in (votes, scores):
        wins = rank(judged, items).set_index("system").loc["new"]
        assert wins[["wins", "ties", "n_scored", "win_rate"]].tolist() == [1, 1, 2, 0.75]
    rubric = rubric_of("r", {"A": "", "B": "", "tie": ""}, inputs="answer_a answer_b", level="nominal", mode="pairwise")
    whole = combine(scores.assign(rubric_version=rubric.label), rubric)
    assert whole[["status", "n_scored"]].to_numpy().tolist() == [["tied", 1], ["ok", 1], ["unscored", 0]]


def test_the_vote_says_how_often_it_was_for_the_answer_shown_first():
    votes = votes_of({
        ("x", "j"): {"AB": ["A", "A", "B"], "BA": ["B", "tie", "!empty"]},  # first: 1, 1, 0, 1, ½
        ("y", "j"): {"AB": ["B"], "BA": ["A"]},
        ("z", "j"): {"AB": ["!empty"], "BA": ["!empty"]},
    }).set_index("item_id")["first_rate"]  # fmt: skip
    assert votes["x"] == pytest.approx(3.5 / 5)
    assert votes["y"] == 0
    assert pd.isna(votes["z"])
    assert votes_of({("i", "j"): [1]}, PLAIN)["first_rate"].isna().all()


# -- the choices


def test_choices_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"align got ties='low'; allowed: 'na', 'half', 'wrong'$"):
        check_counting("align", "low")
    with pytest.raises(ConfigError, match=r"align got unscored=0; allowed: 'drop', 'wrong'$"):
        check_counting("align", "na", 0)
    with pytest.raises(ConfigError, match=r"f got ties='wrong'; allowed: 'na', 'half', because nothing is right$"):
        check_counting("f", "wrong", but=("ties=wrong",), why="nothing is right")


def test_the_command_line_offers_the_same_choices(capsys):
    assert main(["align", "--help"]) == 0
    shown = capsys.readouterr().out
    for choices in (Ties, Unscored):
        assert f"{{{','.join(get_args(choices))}}}" in shown


# -- judges against people

SAID = ["A", "B", "A", "flip", "flip", "B", "!timeout", "tie"]
GOLD = ["A", "B", "B", "A", "tie", "B", "A", "tie"]


def labels_of(codes, annotator="ann"):
    ids = [f"i{at:02}" for at in range(len(codes))]
    return pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": annotator, "label": codes}).dropna()


def judged(said, judge="j"):
    return pairs_of({f"i{at:02}": answer for at, answer in enumerate(said)}, judge)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "accuracy", "n_left_out"),
    [
        # A, B, B and tie are right, one A is wrong; two flips, of which one holds the right label; one unscored.
        ({}, 4 / 5, 3),
        ({"ties": "half"}, 4.5 / 7, 1),  # ½ for the flip where A is right, 0 where the tie is
        ({"ties": "wrong"}, 4 / 7, 1),
        ({"unscored": "wrong"}, 4 / 6, 2),
        ({"ties": "half", "unscored": "wrong"}, 4.5 / 8, 0),
        ({"ties": "wrong", "unscored": "wrong"}, 4 / 8, 0),
    ],
)
def test_a_flipped_pair_counts_as_asked_for(options, accuracy, n_left_out):
    row = only(align(judged(SAID), labels_of(GOLD), **options))
    assert row["accuracy"] == pytest.approx(accuracy)
    assert row[["n_labelled", "n_scored", "n_tied", "n_verdicts", "n_left_out"]].tolist() == [8, 7, 2, 5, n_left_out]
    assert (row["ties"], row["unscored"]) == (options.get("ties", "na"), options.get("unscored", "drop"))
    cells = confusion(judged(SAID), labels_of(GOLD), **options)
    same = cells["label_judge"].astype(object) == cells["label_human"].astype(object)
    assert cells.loc[same, "share"].sum() == pytest.approx(accuracy)
    assert cells["share"].sum() == pytest.approx(1)
    assert cells["n"].sum() == 8
    # The jury of this one judge is compared on the same items, and has the same figure.
    jury = only(align(aggregate(judged(SAID)), labels_of(GOLD), **options))
    assert jury[["accuracy", "kappa", "n_left_out"]].tolist() == pytest.approx(
        row[["accuracy", "kappa", "n_left_out"]].tolist()
    )
    value = jury_value(judged(SAID), labels_of(GOLD), **{"ties": "na"} | options)
    assert value["value"].tolist() == pytest.approx([accuracy] * 2)
    assert value["n_items"].tolist() == [8 - n_left_out] * 2
    assert value["same_items"].all()


ANSWER = st.sampled_from(["A", "B", "tie", "flip", "!empty"])


@settings(max_examples=20)
@given(
    st.lists(st.tuples(ANSWER, st.sampled_from(["A", "B", "tie"])), min_size=2, max_size=25),
    st.sampled_from(get_args(Ties)),
    st.sampled_from(get_args(Unscored)),
)
@pytest.mark.long
def test_figures_with_ties_are_those_of_scikit_learn_with_weights(rows, ties, unscored):
    from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score

    said, gold = zip(*rows, strict=True)
    classes = ["A", "B", "tie"]
    entries = []  # judge, person, weight: a class of its own for what is wrong
    for one, true in rows:
        if one in classes:
            entries.append((one, true, 1.0))
        elif one == "flip" and ties == "half":
            entries += [("A", true, 0.5), ("B", true, 0.5)]
        elif (one == "flip" and ties == "wrong") or (one == "!empty" and unscored == "wrong"):
            entries.append(("none", true, 1.0))
    names = ["accuracy", "kappa", "macro_f1", "balanced_accuracy", "f1_A"]
    row = only(align(judged(said), labels_of(gold), figures=names, ties=ties, unscored=unscored))
    if not entries:
        assert row[names].isna().all()
        return
    own, true, weight = (list(side) for side in zip(*entries, strict=True))
    assert row["accuracy"] == pytest.approx(accuracy_score(true, own, sample_weight=weight))
    if not np.isnan(row["kappa"]):
        assert row["kappa"] == pytest.approx(cohen_kappa_score(true, own, sample_weight=weight))
    each = f1_score(true, own, labels=classes, average=None, sample_weight=weight, zero_division=0)
    recall = [
        sum(w for o, t, w in entries if o == t == name) / max(sum(w for _, t, w in entries if t == name), 1e-9)
        for name in classes
    ]
    used = set(true)
    assert np.isnan(row["f1_A"]) if "A" not in used else row["f1_A"] == pytest.approx(each[0])
    if len(used) == 3:
        assert row["macro_f1"] == pytest.approx(np.mean(each))
        assert row["balanced_accuracy"] == pytest.approx(np.mean(recall))
    else:
        assert row[["macro_f1", "balanced_accuracy"]].isna().all()
        assert "people never use a class that the figure needs" in row["notes"]


def test_verdicts_that_tie_are_half_in_every_figure():
    # Truth 1 1 0 0 0. Passes, tie, tie, fails, fails: 1 + ½ right passes of two, 2 + ½ right fails of three.
    votes = votes_of({(f"i{n:02}", "j"): codes for n, codes in enumerate([[1], [0, 1], [0, 1], [0], [0]])}, BINARY)
    row = only(align(votes, labels_of([1, 1, 0, 0, 0]), ties="half", figures=["accuracy", "kappa", "f1_true", *RATES]))
    assert row["accuracy"] == pytest.approx(4 / 5)
    assert row["false_fail_rate"] == pytest.approx(0.5 / 2)
    assert row["false_pass_rate"] == pytest.approx(0.5 / 3)
    # The judge passes 2 and fails 3, as people do: chance is .4·.4 + .6·.6 = .52.
    assert row["kappa"] == pytest.approx((0.8 - 0.52) / 0.48)
    assert row["f1_true"] == pytest.approx(2 * 1.5 / (2 + 2))
    wrong = only(align(votes, labels_of([1, 1, 0, 0, 0]), ties="wrong"))
    # An abstention is no pass, and it is no right answer to a fail: both rates count it.
    assert wrong[["accuracy", *RATES]].tolist() == pytest.approx([3 / 5, 1 / 3, 1 / 2])


RATES = ["false_pass_rate", "false_fail_rate"]


@pytest.mark.long
def test_published_pairwise_judges(published_data):
    """LLMBar (Zeng et al. 2023): half credit is the mean of both orders, and a wrong tie is "both orders correct"."""
    published = json.loads((published_data / "reference.json").read_text())["llmbar"]["per_evaluator"]
    with gzip.open(published_data / "llmbar_judgements.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    gold_of, n_judges = {1: "A", 2: "B"}, 0
    for name, figures in published.items():
        subset, judge, prompt = name.split("/")
        if figures["null_verdicts"] or prompt != "Vanilla":
            continue
        own = [row for row in rows if (row["subset"], row["judge"], row["prompt_id"]) == (subset, judge, prompt)]
        answers = {
            (row["item_id"], "j"): {order: [gold_of[int(row["parsed"][order])]] for order in ("AB", "BA")}
            for row in own
        }
        votes = votes_of(answers)
        labels = pd.DataFrame(
            [(row["item_id"], "c", "gold", gold_of[row["gold"]]) for row in own],
            columns=["item_id", "criterion", "annotator", "label"],
        )
        for table in (votes, aggregate(votes)):
            by = {ties: only(align(table, labels, ties=ties)) for ties in get_args(Ties)}
            assert by["half"]["accuracy"] == pytest.approx(figures["acc_avg"])
            assert by["wrong"]["accuracy"] == pytest.approx(figures["both_correct"])
            decided = by["na"]["n_verdicts"] / by["na"]["n_labelled"]
            assert by["na"]["accuracy"] == pytest.approx(figures["both_correct"] / decided)
            assert by["half"]["n_left_out"] == 0
            assert decided == pytest.approx(figures["position_agreement"])
        n_judges += 1
    assert n_judges == 9


@pytest.mark.long
def test_judges_compared_on_other_items_say_so():
    votes = pd.concat([judged(["A", "flip", "B", "A"]), judged(["A", "A", "B", "B"], "k")], ignore_index=True)
    labels = labels_of(["A", "A", "B", "B"])
    made = align(votes, labels).set_index("judge")
    assert made["accuracy"].tolist() == pytest.approx([2 / 3, 1])
    assert (made["n_left_out"].tolist(), made["same_items"].tolist()) == ([1, 0], [False, False])
    assert align(votes, labels, ties="half")["same_items"].all()
    # j ties on the second item, the jury on the last (A against B): two are left for all of them
    value = jury_value(votes, labels, ties="na").set_index("judge")
    assert value.loc["k", ["value", "n_items", "n_left_out"]].tolist() == [1, 2, 2]
    apart = pd.concat([judged(["A", "B"]), judged([*["!empty"] * 2, "A", "B"], "k")], ignore_index=True)
    value = jury_value(apart, labels, quorum=0)
    assert not value["same_items"].any()
    assert value["n_items"].tolist() == [4, 2, 2]


def test_a_table_that_does_not_say_what_ties_is_refused_for_half_alone():
    old, labels = judged(SAID).drop(columns="tied_labels"), labels_of(GOLD)
    assert only(align(old, labels))["accuracy"] == pytest.approx(4 / 5)
    assert only(align(old, labels, ties="wrong"))["accuracy"] == pytest.approx(4 / 7)
    with pytest.raises(
        InputError,
        match=r"ties='half' needs to know .*2 tied answers have no value .* table again with vote or aggregate",
    ):
        align(old, labels, ties="half")
    verdicts = votes_of({("i00", "j"): [0, 1], ("i01", "j"): [1]}, BINARY).drop(columns="tied_labels")
    assert only(align(verdicts, labels_of([1, 1]), ties="half"))["accuracy"] == pytest.approx(0.75)


def test_options_that_cannot_be_applied_are_refused():
    votes, labels = judged(SAID), labels_of(GOLD)
    with pytest.raises(ConfigError, match=r"figure 'mae' uses scores, to which ties="):
        jury_value(votes, labels, figure="mae", ties="wrong")
    with pytest.raises(
        ConfigError, match=r"pass_threshold got ties='na'; .*because all its figures must be of the same items"
    ):
        pass_threshold(votes, labels, ties="na")
    plain = votes_of({("i00", "j"): [1, 2]}, PLAIN)
    two = pd.concat([labels_of([1]), labels_of([2], "bob")])
    with pytest.raises(ConfigError, match=r"ties='half' with scoring='rmse'"):
        alt_test(plain, two, 0.2, ties="half")


@pytest.mark.long
def test_the_alternative_annotator_test_counts_ties_as_asked_for():
    # Both annotators say the same everywhere. The judge is right twice, tied between the right and another label twice.
    votes = votes_of(
        {
            (f"i{n:02}", "j"): said
            for n, said in enumerate([["art"], ["law"], ["art", "law"], ["art", "sport"], ["!empty"]])
        },
        NAMES,
    )
    people = ["art", "law", "art", "art", "law"]
    labels = pd.concat([labels_of(people), labels_of(people, "bob")])

    def tested(**options):
        return only(alt_test(votes, labels, 0.2, **options).summary)

    columns = ["advantage_probability", "n_items", "n_tied", "n_unscored", "n_left_out"]
    assert tested()[columns].tolist() == [1, 2, 2, 1, 3]
    # A tie is ½ close where the annotator is at 1: lost, as is what is wrong.
    assert tested(ties="half")[columns].tolist() == [0.5, 4, 2, 1, 1]
    assert tested(ties="wrong", unscored="wrong")[columns].tolist() == [pytest.approx(2 / 5), 5, 2, 1, 0]
    # Where people differ, ½ of one of two other labels is as close as an annotator gets: S is ½·½ = ¼ for the judge.
    split = pd.concat(
        [labels_of([None, None, "art"]), labels_of([None, None, "law"], "bob"), labels_of([None, None, "sport"], "cid")]
    )
    each = alt_test(votes, split, 0.2, ties="half").annotators.set_index("annotator")
    assert each["n_items"].tolist() == [1, 1, 1]


def test_a_threshold_may_count_ties_and_unscored_items():
    # Verdicts as they are: right, wrong, tied; one item has no score, whatever the threshold.
    votes = votes_of({(f"i{n:02}", "j"): said for n, said in enumerate([[1], [1], [0, 1], [0], ["!empty"]])}, BINARY)
    labels = labels_of([1, 0, 1, 0, 1])
    row = only(pass_threshold(votes, labels, folds=2))
    assert row["present"] == pytest.approx(2.5 / 4)
    assert row[["n_labelled", "n_left_out", "n_tied"]].tolist() == [4, 1, 1]
    assert only(pass_threshold(votes, labels, folds=2, ties="wrong"))["present"] == pytest.approx(2 / 4)
    row = only(pass_threshold(votes, labels, folds=2, unscored="wrong"))
    assert (row["present"], row["n_left_out"]) == (pytest.approx(2.5 / 5), 0)
    assert row["in_sample"] == pytest.approx(3 / 5)  # a cut between 0 and ½ is right on all but one of the four scores


# -- figures on request


def test_figures_of_a_class_have_intervals_only_where_it_is_seen():
    draw = np.random.default_rng(8)
    gold = draw.choice(["A", "B"], 60).tolist()
    said = [one if draw.random() < 0.8 else "AB"[one == "A"] for one in gold]
    names = ["f1_A", "f1_B", "f1_tie", "macro_f1", "balanced_accuracy"]
    row = only(align(judged(said), labels_of(gold), figures=names))
    assert row["f1_A_low"] < row["f1_A"] < row["f1_A_high"]
    assert row[["f1_tie", "macro_f1", "balanced_accuracy"]].isna().all()
    rare = [*gold[:58], "tie", "tie"]
    row = only(align(judged([*said[:58], "tie", "A"]), labels_of(rare), figures=names))
    assert row["f1_tie"] == pytest.approx(2 * 1 / (1 + 2))
    assert row[["f1_tie_low", "macro_f1_low", "balanced_accuracy_low"]].isna().all()
    assert (
        "no interval of f1_tie, macro_f1, balanced_accuracy: under 3 answers of a judge or annotator are unlike most"
        in row["notes"]
    )
    with pytest.raises(ConfigError, match=r"criterion 'c' does not have: 'f1_C'; its classes: 'A', 'B', 'tie'"):
        align(judged(said), labels_of(gold), figures=["f1_C"])
    with pytest.raises(ConfigError, match=r"figures='accuracy'; it takes a list"):
        align(judged(said), labels_of(gold), figures="accuracy")


def test_an_annotator_of_three_labels_does_not_count_like_one_of_forty():
    # The judge is right on all 40 labels of ann, and wrong on all three of bob: 40 of 43, not (1 + 0)/2.
    votes = votes_of({(f"i{n:02}", "j"): [n % 2] for n in range(40)}, BINARY)
    labels = pd.concat([labels_of([n % 2 for n in range(40)]), labels_of([1, 0, 1], "bob")])
    row = only(align(votes, labels))
    assert row["accuracy"] == pytest.approx(40 / 43)
    assert row["accuracy_people"] == 0
    # of what people fail: 20 of ann, all failed; 1 of bob, passed
    assert row["false_pass_rate"] == pytest.approx(1 / 21)
    assert only(pass_threshold(votes, labels))["present"] == pytest.approx(40 / 43)
    assert jury_value(votes, labels)["value"].tolist() == pytest.approx([40 / 43] * 2)
    assert "annotators are weighted by their number of labels: 3 to 40" in row["notes"]
    assert "annotators count" not in str(only(align(votes, labels[labels["annotator"] == "ann"]))["notes"])


def test_the_tuners_matrix_counts_tied_and_unscored_items_in_one_cell():
    # the page shows one cell per pair of labels: with two for "no label" the second would be lost
    rows = [
        Row(item, "", {"x": "art"}, False, jury, None, status, (), None, "", None, None, counted={"x": "art"})
        for item, jury, status in (("a", "art", "ok"), ("b", None, "tied"), ("d", None, "unscored"), ("e", "law", "ok"))
    ]
    cells = confusion_cells(rows, NAMES)
    pairs = [(cell.human, cell.jury) for cell in cells]
    assert len(set(pairs)) == len(pairs)
    assert {pair: cell.n for pair, cell in zip(pairs, cells, strict=True) if cell.n} == {
        ("art", "art"): 1,
        ("art", "law"): 1,
        ("art", None): 2,
    }


@pytest.mark.parametrize("rest", [{}, {"y": "A"}, {"y": "tie"}])
def test_tied_judges_whose_labels_decide_give_a_winner_with_its_score(rest):
    # a: A in one order, a tie in the other; b: the answer shown first. A has ½ + ½, the tie ½, B ½.
    said = {("x", "a"): {"AB": ["A"], "BA": ["tie"]}, ("x", "b"): FLIP}
    said |= {(item, judge): {"AB": [label], "BA": [label]} for item, label in rest.items() for judge in "ab"}
    row = aggregate(votes_of(said)).set_index("item_id").loc["x"]
    assert (row["label"], row["score"], row["score_norm"]) == ("A", 1.0, 1.0)
    assert (row["tied"], row["status"], row["n_scored"], pd.isna(row["reason"])) == (False, "ok", 2, True)


def test_labels_of_a_choice_are_no_winners_of_pairs_even_on_the_same_scale():
    # two rubrics on one scale in one table: pairs, and questions that are answered with A or B
    pairs = pairs_of({"x": "A"}).astype({"rubric": "str"})
    choices = pairs.assign(rubric="choice", score=np.nan, score_norm=np.nan, order_flip=pd.NA, first_rate=np.nan)
    scores = aggregate(schemas.table("votes", dict(pd.concat([pairs, choices], ignore_index=True).items()))).set_index(
        "rubric"
    )
    assert scores["label"].tolist() == ["A", "A"]
    assert scores.loc["choice", ["score", "score_norm"]].isna().all()
    assert scores["score"].notna().sum() == 1
