"""Touched tables: edits in pandas are refused, and no table that evalkit makes is."""

import itertools
import math
import re

import numpy as np
import pandas as pd
import pytest
from every_nth import every_nth
from judgment_tables import BINARY, DECIMAL, LOW, NAMES, ORDINAL, PAIR, PLAIN, TOPIC, judgments
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit.errors import InputError
from evalkit.rubrics import Scale
from evalkit.stats.plain_tables import check_rows
from evalkit.tables import schemas

FIVE = Scale.of({1: "", 2: "", 3: "", 4: "", 5: ""}, pass_if=[3, 4])
SCALES = {
    "binary": BINARY,
    "ordinal": ORDINAL,
    "plain": PLAIN,
    "low": LOW,
    "five": FIVE,
    "decimal": DECIMAL,
    "topic": TOPIC,
    "names": NAMES,
    "pair": PAIR,
}


def drawn(seed, n_items=12, judges="xyz", samples=3, missing=0.2, without=()):
    """Judgments of all scales in one table, some of them unreadable."""
    draw, parts = np.random.default_rng(seed), []
    for name, scale in SCALES.items():
        if name in without:
            continue

        def replies(scale=scale):
            codes = [*scale.codes, 0.37] if scale.level == "interval" else list(scale.codes)
            picked = [codes[int(draw.integers(len(codes)))] for _ in range(samples)]
            return ["!unreadable" if draw.random() < missing else code for code in picked]

        cells = itertools.product(range(n_items), judges)
        asked = {cell: {"AB": replies(), "BA": replies()} if scale is PAIR else replies() for cell in cells}
        parts.append(judgments(asked, scale, criterion=name, weights={"x": 2.0, "y": 0.5}))
    return pd.concat(parts, ignore_index=True)


def rubric_of(name, *, critical=False):
    scale = SCALES[name]
    rule = {"pass_at": scale.pass_at, "pass_if": scale.pass_if and list(scale.pass_if), "better": scale.better}
    one = {"name": name, "level": scale.level, "scale": dict.fromkeys(scale.codes, "x"), "critical": critical} | rule
    mode = {"mode": "pairwise", "inputs": ["answer_a", "answer_b"]} if scale is PAIR else {"inputs": ["answer"]}
    return ek.Rubric(id="r", criteria=[one], **mode)


@pytest.mark.long  # seconds: ten thousand rows by every rule
def test_no_table_that_evalkit_makes_is_refused():
    # every function below checks the table that it gets
    n_rows, nominal = 0, ("topic", "names", "pair")
    for seed, (rule, ties, unscored) in enumerate(
        itertools.product(("mean", "median", "majority"), ("na", "low", "mean"), ("drop", 0, 7))
    ):
        table = drawn(seed, n_items=6, missing=(0.1, 0.5)[seed % 2], without=() if unscored == "drop" else nominal)
        votes = ek.vote(table, method=rule, ties=ties, unscored=unscored, min_self_agreement=(None, 0.6)[seed // 2 % 2])
        ek.disagreement(votes)
        ways = zip(("mean", "median", "majority", "min", "max"), (0, 0.5, 1.0, 0.5, 0), strict=True)
        for way, quorum in every_nth(ways, 3, seed):
            scores = ek.aggregate(votes, method=way, quorum=quorum)
            ek.summarize(scores)
            for name in ("ordinal", "five", "low") if way == "mean" else ():
                mine = scores[scores["criterion"] == name].assign(rubric_version=rubric_of(name).label)
                ek.summarize(ek.combine(mine, rubric_of(name)))
            n_rows += len(scores)
        coded = votes[votes["criterion"] != "decimal"]
        ek.summarize(ek.aggregate(coded, method="dawid_skene"))
        n_rows += len(table) + len(votes) + len(coded) // 3
    assert n_rows > 10_000


def test_a_critical_failure_and_several_criteria_are_not_refused():
    both = pd.concat([judgments({("i", "j"): [0], ("k", "j"): [2]}, ORDINAL, criterion=name) for name in "ab"])
    rubric = ek.Rubric(
        id="r", inputs=["answer"], pass_at=0.5,
        criteria=[{"name": one, "scale": {0: "", 1: "", 2: ""}, "pass_at": 2, "critical": one == "a"} for one in "ab"]
    )  # fmt: skip
    scores = ek.aggregate(ek.vote(both.assign(rubric_version=rubric.label)))
    assert ek.summarize(ek.combine(scores, rubric))["mean"].tolist() == [0.5]
    # the mean of one criterion from 1 to 5 has an interval on that scale, not on 0-1
    five = judgments({(str(at), "j"): [1 + at % 5] for at in range(20)}, FIVE, criterion="five")
    five = five.assign(rubric_version=rubric_of("five").label)
    row = ek.summarize(ek.combine(ek.aggregate(ek.vote(five)), rubric_of("five"))).iloc[0]
    assert row["mean"] == 3
    assert row["low"] < 3 < row["high"] <= 5


JUDGED = {
    ("a", "x"): [2, 2],
    ("a", "y"): [2, 1],
    ("b", "x"): [0, 0],
    ("b", "y"): [0, "!unreadable"],
    ("c", "x"): [1, 0],
}
JUDGED |= {("d", "x"): [0, 0], ("d", "y"): [0, 0]}


def rows(table, **values):
    """The table with the first row changed."""
    table = table.astype(dict.fromkeys(values, object))
    for name, value in values.items():
        table.loc[table.index[0], name] = value
    return table


def of_judgments(edit):
    return lambda table: ek.vote(edit(table))


def of_votes(*functions):
    return lambda edit: [lambda table, run=run: run(edit(ek.vote(table))) for run in functions]


def of_scores(edit):
    return lambda table: ek.summarize(edit(ek.aggregate(ek.vote(table))))


ERROR = lambda table: table["error"].notna()  # noqa: E731 -- read by the edits below
EDITS = {
    # judgments
    "score = 0": of_judgments(lambda t: t.assign(score=0.0)),
    "score * 10": of_judgments(lambda t: t.assign(score=t["score"] * 10)),
    "one score": of_judgments(lambda t: rows(t, score=1.0)),
    "one score off the scale": of_judgments(lambda t: rows(t, score=9.0)),
    "score filled": of_judgments(lambda t: t.assign(score=t["score"].fillna(0))),
    "error on a row": of_judgments(lambda t: rows(t, error="abstained")),
    "error removed": of_judgments(lambda t: t.assign(error=None)),
    "one passed": of_judgments(lambda t: rows(t, passed=False)),
    "all passed": of_judgments(lambda t: t.assign(passed=True)),
    "one passed removed": of_judgments(lambda t: rows(t, passed=None)),
    "one label": of_judgments(lambda t: rows(t, label="0")),
    "labels in words": of_judgments(lambda t: t.assign(label="good")),
    "one norm": of_judgments(lambda t: rows(t, score_norm=0.25)),
    "norm turned": of_judgments(lambda t: t.assign(score_norm=1 - t["score_norm"])),
    "another scale": of_judgments(lambda t: t.assign(scale=PLAIN.to_json())),
    "a second scale": of_judgments(lambda t: rows(t, scale=Scale.of({0: "", 1: "", 2: ""}).to_json())),
    "error with a score added": of_judgments(lambda t: t.assign(score=t["score"].where(~ERROR(t), 2.0))),
    # votes
    **{
        f"votes: {name} in {run.__name__}": lambda table, edit=edit, run=run: run(edit(ek.vote(table)))
        for name, edit in {
            "score * 10": lambda t: t.assign(score=t["score"] * 10),
            "score = 0": lambda t: t.assign(score=0.0),
            "one score": lambda t: rows(t, score=0.0),
            "score removed": lambda t: rows(t, score=math.nan),
            "norm": lambda t: t.assign(score_norm=0.5),
            "label": lambda t: rows(t, label="0"),
            "label off the scale": lambda t: rows(t, label="7"),
            "passed at the end": lambda t: rows(t, passed=False),
            "n_scored = 0": lambda t: t.assign(n_scored=0),
            "the pass rule": lambda t: t.assign(scale=Scale.of({0: "", 1: "", 2: ""}).to_json()),
        }.items()
        for run in (ek.aggregate, ek.disagreement)
        if (name, run) != ("the pass rule", ek.disagreement)
    },
    # scores
    "scores: 99": of_scores(lambda t: t.assign(score=99.0)),
    "scores: one score": of_scores(lambda t: rows(t, score=0.5)),
    "scores: norm": of_scores(lambda t: rows(t, score_norm=0.1)),
    "scores: passed at the end": of_scores(lambda t: t.assign(passed=~t["passed"])),
    "scores: filled": of_scores(lambda t: t.assign(score=t["score"].fillna(0.0), n_scored=0)),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_refused_with_rows_and_what_to_do(name):
    table = judgments(JUDGED)
    with pytest.raises(InputError, match=r"(Restore|rubric_version)"):
        EDITS[name](table)


def test_the_error_names_rows_and_their_number():
    table = judgments({(str(at), "j"): [2] for at in range(9)})
    table.loc[table.index[3:], "score"] = 0.0
    words = r"6 rows of 9 of the judgments table .*label is not the code of score.*rows 3, 4, 5, 6, 7 and 1 more"
    with pytest.raises(InputError, match=words + r".*first: item_id '3', .*score '0.0'.*`score` is right"):
        ek.vote(table)


def test_harmless_edits_stay_possible():
    table = judgments(JUDGED)
    expected = ek.vote(table)
    for same in (
        table.sample(frac=1, random_state=0),
        table.drop(columns=["score_norm", "explanation", "key"]),
        table.assign(score=table["score"].astype("Int64"), note="mine"),
        table.assign(label=None),  # of a scale with scores, the score decides
    ):
        made = ek.vote(same).sort_values(["item_id", "judge"]).reset_index(drop=True)
        assert_frame_equal(made, expected, check_categorical=False)
    # a verdict of one's own on a vote between the ends of the scale; weights; a criterion's new name
    votes = expected.assign(passed=expected["passed"].where(expected["score"] != 1.5, True), weight=3.0, criterion="d")
    assert ek.aggregate(votes)["passed"].tolist()[0] is True


def advised(table, function):
    """What the refusal of a table says to drop, and from which rows."""
    with pytest.raises(InputError) as caught:
        function(table)
    advice = re.search(
        r"is right, drop what follows from it, which is then computed again: (.*?\]\))", str(caught.value)
    )
    assert advice is not None, caught.value
    return eval(advice[1], {"table": table})  # the line of the message works as it stands


def test_what_follows_from_a_corrected_score_is_computed_by_hand():
    table = judgments({("a", "x"): [2], ("b", "x"): [0], ("c", "x"): ["!unreadable"], ("d", "x"): [1], ("e", "x"): [2]})
    table.loc[0, "score"] = 1.0
    made = ek.vote(advised(table, ek.vote))
    assert made["score"].fillna(-1).tolist() == [1, 0, -1, 1, 2]
    assert made["score_norm"].fillna(-1).tolist() == [0.5, 0, -1, 0.5, 1]
    assert made["label"].astype(object).fillna("").tolist() == ["1", "0", "", "1", "2"]
    assert made["passed"].astype(object).fillna("").tolist() == [False, False, "", False, True]
    assert made["reason"].astype(object).fillna("").tolist() == ["", "", "unreadable", "", ""]


def test_the_verdict_of_a_vote_does_not_follow_from_its_score():
    """Without it, rows that were not edited would lose their verdicts, so the message only says to restore the edit."""
    votes = ek.vote(judgments({(item, "x"): [2] for item in "abc"}))
    scores = ek.aggregate(votes)
    for table, function in ((votes, ek.aggregate), (scores, ek.summarize)):
        with pytest.raises(InputError, match=r"Restore what was changed(; .*)?$") as caught:
            function(table.assign(score=[0.5, 1.7, 2.0]))
        assert "drop what follows" not in str(caught.value)


def test_an_answer_beside_an_error_is_cleared_by_the_user():
    table = judgments({("a", "x"): [2], ("b", "x"): ["!unreadable"]})
    table.loc[1, "score"] = 1.0
    with pytest.raises(InputError, match="clear the one that is wrong"):
        ek.vote(table)
    table = advised(table, ek.vote)
    with pytest.raises(InputError, match=r"row 1 \(item b\) has both an answer and the error 'unreadable'"):
        ek.vote(table)
    assert ek.vote(table.assign(error=None))["label"].tolist() == ["2", "1"]
    assert ek.vote(table.assign(score=[2, None]))["n_scored"].tolist() == [1, 0]


def test_where_labels_are_the_answers_they_are_never_dropped():
    mixed = pd.concat(
        [judgments(JUDGED), judgments({("a", "x"): ["art"]}, TOPIC, criterion="topic")], ignore_index=True
    )
    mixed.loc[0, "score"] = 0.0
    right = advised(mixed, ek.vote)
    assert set(right["criterion"]) == {"c"}
    assert ek.vote(right)["n_scored"].sum() == len(right) - 1
    # of pairs, the score follows from the label, and a tie is not lost
    answers = {("a", "x"): ("A", "A"), ("b", "x"): ("B", "B"), ("c", "x"): ("A", "B")}
    votes = ek.vote(judgments({key: {"AB": [ab], "BA": [ba]} for key, (ab, ba) in answers.items()}, PAIR))
    touched = votes.assign(score=[0.0, 0.0, 0.5])
    right = ek.aggregate(advised(touched, ek.aggregate))
    assert right["label"].astype(object).fillna("").tolist() == ["A", "B", ""]
    assert right["tied"].tolist() == [False, False, True]


@pytest.mark.parametrize("name", ["one score", "all passed", "norm turned", "one label"])
def test_the_line_of_a_refusal_works(name):
    table = judgments(JUDGED)
    edited = {
        "one score": rows(table, score=1.0),
        "all passed": table.assign(passed=table["passed"].mask(table["error"].isna(), True)),
        "norm turned": table.assign(score_norm=1 - table["score_norm"]),
        "one label": rows(table, label="0"),
    }[name]
    right = advised(edited, ek.vote)
    expected = ek.vote(
        rows(table, score=1.0, label="1", passed=False, score_norm=0.5) if name == "one score" else table
    )
    figures = ["score", "score_norm", "label", "passed", "n_scored"]
    assert_frame_equal(ek.vote(right)[figures], expected[figures], check_categorical=False)


def test_codes_are_compared_by_value():
    table = judgments({(str(at), "j"): [code] for at, code in enumerate([1, 2, 3, 3, 1, 2] * 2)}, PLAIN)
    people = pd.DataFrame({"item_id": table["item_id"], "criterion": "c", "annotator": "p", "label": table["label"]})
    plain = ek.vote(table)
    for spelled in ("{}.0", " {}", "{}.00"):
        other = plain.assign(label=[spelled.format(label) for label in plain["label"]])
        assert ek.align(other, people)["accuracy"].tolist() == [1.0]
        words = people.assign(label=[spelled.format(label) for label in people["label"]])
        assert ek.align(plain, words)["accuracy"].tolist() == [1.0]
        judged = table.assign(label=[spelled.format(label) for label in table["label"]])
        assert ek.compare(table, judged).table["changed"].tolist() == [0]
    # nominal: only if no code is called so
    one = Scale.of({"1": "art", "2": "law"}, level="nominal")
    named = Scale.of({"1": "art", "1.0": "law"}, level="nominal")
    votes = ek.vote(judgments({("a", "j"): ["1"], ("b", "j"): ["2"]}, one))
    assert check_rows(votes.assign(label=["1.0", "2.0"]), "votes")["label"].tolist() == ["1", "2"]
    votes = ek.vote(judgments({("a", "j"): ["1"], ("b", "j"): ["1.0"]}, named))
    assert check_rows(votes, "votes")["label"].tolist() == ["1", "1.0"]
    people = pd.DataFrame({"item_id": ["a", "b"], "criterion": "c", "annotator": "p", "label": ["1.0", "2.0"]})
    assert ek.align(ek.vote(judgments({("a", "j"): ["1"], ("b", "j"): ["2"]}, one)), people)["accuracy"].tolist() == [1]


def test_imputed_scores_are_carried_on():
    table = judgments(
        {("a", "x"): [1, "!no"], ("a", "y"): ["!no", "!no"], ("b", "x"): [3, 3], ("b", "y"): [2, 3]}, PLAIN
    )
    votes = ek.vote(table, unscored=0)
    assert votes["score"].tolist() == [0.5, 0, 3, 2.5]  # 0 for each unread sample, below the scale from 1 to 3
    scores = ek.aggregate(votes)
    assert scores["options"].tolist() == ["unscored=0"] * 2
    assert scores["score_norm"].tolist() == [0, (2.75 - 1) / 2]
    majority = ek.aggregate(ek.vote(table, method="majority"))
    assert majority["options"].tolist() == ["votes=majority"] * 2
    with pytest.raises(InputError, match="score_norm does not follow"):
        ek.summarize(scores.assign(score=scores["score"] - 1))
    rubric = ek.Rubric(id="r", inputs=["answer"], criteria=[{"name": "c", "scale": {1: "a", 2: "b", 3: "c"}}])
    whole = ek.combine(scores.assign(rubric_version=rubric.label), rubric)
    assert whole["options"].tolist() == ["unscored=0"] * 2
    assert ek.summarize(whole)["mean"].tolist() == [pytest.approx((0.25 + 2.75) / 2)]
    with pytest.raises(InputError, match="score_norm does not follow"):
        ek.summarize(whole.assign(score=99.0))
    with pytest.raises(InputError, match="column 'level', 'scale', 'options' missing"):
        schemas.check(whole.drop(columns=["level", "scale", "options"]), "rubric_scores")


def test_two_scales_of_one_criterion_are_refused_in_any_order():
    one, two = judgments({("a", "j"): [1]}, ORDINAL), judgments({("b", "j"): [1]}, BINARY)
    for pair in ([one, two], [two, one]):
        with pytest.raises(InputError, match=r"two scales for r, v1, c: .* and .*rubric_version"):
            ek.vote(pd.concat(pair))
    spaced = two.assign(scale=two["scale"].astype(str).str.replace(",", ", "), item_id="c")  # the same scale
    assert len(ek.vote(pd.concat([two, spaced]))) == 2


def test_a_csv_file_with_empty_texts_is_the_table_that_was_saved(tmp_path):
    table = drawn(3, n_items=4, without=("pair",))
    table.to_csv(tmp_path / "j.csv", index=False)
    read = pd.read_csv(tmp_path / "j.csv", keep_default_na=False, dtype=str)
    assert_frame_equal(ek.vote(read), ek.vote(table), check_categorical=False)
    beside = table.assign(error=table["error"].astype(object).fillna("nothing"))
    with pytest.raises(InputError, match=r"an error stands beside an answer.*clear the one that is wrong"):
        ek.vote(beside)
