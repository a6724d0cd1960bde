"""Ties as scored answers, from votes to figures: expected values by hand, by scikit-learn, and as published."""

import json

import pandas as pd
import pytest
from judged import BINARY, NAMES, PAIR, PLAIN, TOPIC, judgments

from evalkit import tables
from evalkit.aggregation import aggregate
from evalkit.aggregation.combining import combine
from evalkit.aggregation.summaries import summarize
from evalkit.aggregation.wins import win_rates
from evalkit.errors import ConfigError
from evalkit.rubrics import Rubric
from evalkit.tables.ties import check_counting
from evalkit.voting import vote

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


def test_a_table_saved_without_tied_labels_is_read_and_says_that_it_ties(tmp_path):
    votes = pairs_of({"x": "flip", "y": "A"})
    for name, table in (("votes", votes), ("scores", aggregate(votes))):
        old = table.drop(columns=[column for column in ("tied_labels", "first_rate") if column in table])
        tables.write_frame(old, tmp_path / f"{name}.jsonl")
        assert tables.read_table(tmp_path / f"{name}.jsonl", "votes", "scores")["tied"].tolist() == [True, False]
    row = aggregate(tables.read_table(tmp_path / "votes.jsonl", "votes")).set_index("item_id").loc["x"]
    assert (row["status"], row["n_scored"], pd.isna(row["tied_labels"])) == ("tied", 1, True)


def test_summary_win_rate_and_rubric_score_count_a_tie_as_scored():
    votes = pairs_of({"x": "flip", "y": "A", "z": "!timeout"})
    scores = aggregate(votes)
    row = summarize(scores).iloc[0]
    assert row[["n_items", "n_scored", "n_tied"]].tolist() == [3, 2, 1]
    items = pd.DataFrame({"item_id": list("xyz"), "system_a": "new", "system_b": "old"})
    for judged in (votes, scores):
        wins = win_rates(judged, items).set_index(["system", "opponent"]).loc[("new", "all")]
        assert wins[["wins", "ties", "n_scored", "win_rate"]].tolist() == [1, 1, 2, 0.75]
    rubric = Rubric(
        id="r",
        mode="pairwise",
        inputs=["answer_a", "answer_b"],
        criteria=[{"name": "c", "level": "nominal", "scale": {"A": "", "B": "", "tie": ""}}],
    )
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
    with pytest.raises(ConfigError, match=r"align got ties='low'; allowed are 'na', 'half', 'wrong'$"):
        check_counting("align", "low")
    with pytest.raises(ConfigError, match=r"align got unscored=0; allowed are 'drop', 'wrong'$"):
        check_counting("align", "na", 0)
    with pytest.raises(ConfigError, match=r"f got ties='wrong'; allowed are 'na', 'half': nothing is right$"):
        check_counting("f", "wrong", but=("ties=wrong",), why="nothing is right")
