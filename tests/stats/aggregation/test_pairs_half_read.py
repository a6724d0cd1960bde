"""Pairs of which one order was not read: no winner comes from it, and what is left out is counted."""

import math

import numpy as np
import pandas as pd
import pytest
from judgment_tables import PAIR, judgments
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.rubrics import Scale

RUBRIC = rubric_of(
    "better", {"A": "A", "B": "B", "tie": "equal"}, inputs="answer_a answer_b", level="nominal", mode="pairwise"
)
UNREAD = "!unreadable"


def asked(answers, judge="j", scale=PAIR):
    """Judgments from {item: (AB, BA)}; labels are mapped back already: always the first place is A in AB, B in BA."""
    cells = {(item, judge): {"AB": list(ab), "BA": list(ba)} for item, (ab, ba) in answers.items()}
    return judgments(cells, scale)


def systems(n):
    return pd.DataFrame({"item_id": [str(at) for at in range(n)], "system_a": "new", "system_b": "old"})


def of_all(table, system="new"):
    return table[table["system"] == system].iloc[0]


def test_a_judge_that_always_takes_the_first_place_wins_nothing():
    # one order unreadable on half of the items
    votes = ek.vote(asked({at: (["A"], ["B"] if at % 2 else [UNREAD]) for at in range(40)}))
    assert votes["reason"].value_counts().to_dict() == {"tied": 20, "one_order": 20}
    assert votes["label"].isna().all()
    row = of_all(ek.rank(votes, systems(40)))
    assert (row["wins"], row["losses"], row["ties"], row["n_scored"], row["n_one_order"]) == (0, 0, 20, 20, 20)
    # 20 ties; the others took A in AB: with A in BA a win, with B a tie
    assert (row["win_rate"], row["worst"], row["best"]) == (0.5, 0.5, (20 * 0.5 + 20) / 40)
    assert row["order_mean"] == 0.5  # (40 of 40 in AB + 0 of 20 in BA) / 2
    assert row["order_mean_low"] < 0.5 < row["order_mean_high"]
    assert "20 votes left out: only one of two orders was read" in row["notes"]
    other = of_all(ek.rank(votes, systems(40)), "old")
    assert (other["order_mean"], other["worst"], other["best"]) == (0.5, 0.25, 0.5)
    ranks = ek.rank(votes, systems(40))
    assert ranks["notes"].str.contains("20 votes left out: only one of two orders was read").all()
    # three replies in AB and one in BA
    votes = ek.vote(asked({at: (["A"] * 3, ["B", UNREAD, UNREAD]) for at in range(40)}))
    assert votes["reason"].tolist() == ["tied"] * 40


def test_the_mean_of_two_orders_allows_for_items_that_differ():
    # AB is read on all items: 1 on the first four, 0 on the last four; BA on the first four: 1, 0, 1, 0
    first = [(["A"], ["A" if at % 2 == 0 else "B"]) for at in range(4)]
    votes = ek.vote(asked(dict(enumerate([*first, *[(["B"], [UNREAD])] * 4]))))
    row = of_all(ek.rank(votes, systems(8)))
    assert (row["order_mean"], row["n_one_order"]) == (0.5, 4)
    # parts of the items: ±.25 of AB, ±.25 · 8/4 of BA: .75, −.25, .75, −.25 and four times −.25
    plain = (2 * 0.75**2 + 6 * 0.25**2) / (1 - 1 / 8) / 8**2
    # on the half that was read in AB alone, AB is lower by 1: were BA too, the mean would be off by 1/2 · 1 / 2
    error = math.sqrt(plain + (0.5 * 1 / 2) ** 2)
    w = (2.364624 * error) ** 2 / 0.25  # t of 7; Wilson's with t²/n_eff
    half = math.sqrt(w * 0.25 + w * w / 4) / (1 + w)
    assert row["order_mean_low"] == pytest.approx(0.5 - half, abs=1e-6)
    assert row["order_mean_high"] == pytest.approx(0.5 + half, abs=1e-6)
    # where both orders were read everywhere nothing is added
    votes = ek.vote(asked(dict(enumerate(first * 2))))
    row = of_all(ek.rank(votes, systems(8)))
    assert row["order_mean"] == row["win_rate"] == 0.75
    assert row["order_mean_high"] == pytest.approx(row["win_rate_high"])


def test_each_order_counts_half_by_hand():
    votes = ek.vote(
        asked(
            {
                "a": (["A", "A", "A"], ["A", "B", UNREAD]),  # A: 1/2 + 1/4
                "b": (["A", "B", "B"], ["A", UNREAD, UNREAD]),  # A: 1/6 + 1/2; of single replies 2 and 2
                "tie": (["A", "A", UNREAD], ["B", UNREAD, UNREAD]),
                "none": ([UNREAD] * 3, ["!timeout"] * 3),
                "one": ([UNREAD] * 3, ["B", "B", "A"]),
                "same": (["B", "B", "A"], ["B", "tie", "tie"]),  # B 3, tie 2, A 1 of 6
            }
        )
    ).set_index("item_id")
    assert votes["label"].astype(object).fillna("").to_dict() == {
        "a": "A",
        "b": "A",
        "tie": "",
        "none": "",
        "one": "",
        "same": "B",
    }
    assert votes["reason"].astype(object).fillna("").tolist() == ["", "", "tied", "timeout", "one_order", ""]
    assert votes["n_scored"].tolist() == [5, 4, 3, 0, 3, 6]
    assert votes["score_ab"].round(3).fillna(-1).tolist() == [1, 0.333, 1, -1, -1, 0.333]
    assert votes["score_ba"].round(3).fillna(-1).tolist() == [0.5, 1, 0, -1, 0.333, 0.333]


def test_verdicts_count_orders_alike():
    scale = Scale.of({"A": "", "B": "", "tie": ""}, level="nominal", pass_if=["A"])
    table = asked({"x": (["A", "A", "A"], ["B"]), "y": (["A", "A"], ["A", "B"]), "z": (["A"], [UNREAD])}, scale=scale)
    table.loc[table["order"].notna(), "score_norm"] = table["score"]
    votes = ek.vote(table).set_index("item_id")
    # x: 1/2 and 1/2; y: 1/2 + 1/4 of all samples
    assert votes["passed"].astype(object).where(votes["passed"].notna(), None).tolist() == [None, True, None]
    assert votes["reason"].astype(object).fillna("").tolist() == ["tied", "", "one_order"]


def test_what_was_dropped_or_not_asked_is_not_read_either():
    table = asked({at: (["A"], ["A"] if at < 3 else [UNREAD]) for at in range(6)})
    for part in (
        table[table["error"].isna()],
        table.assign(error=table["error"].cat.rename_categories({"unreadable": "not_asked"})),
    ):
        votes = ek.vote(part)
        assert votes["label"].astype(object).fillna("").tolist() == ["A"] * 3 + [""] * 3
        assert votes["reason"].astype(object).fillna("").tolist() == [""] * 3 + ["one_order"] * 3
    # another judge was asked in one order by design: it has no part in this
    one = judgments({(at, "single"): {"AB": ["A"]} for at in range(6)}, PAIR)
    both = ek.vote(pd.concat([table, one]))
    assert both[both["judge"] == "single"]["label"].tolist() == ["A"] * 6
    assert both["reason"].eq("one_order").sum() == 3


def test_a_table_of_one_order_is_scored_with_a_note():
    note = "the two orders of the answers are not both known, so a preference for a place cannot be seen"
    rows = pd.DataFrame({"item_id": [str(at) for at in range(12)], "mark": ["A", "B", "tie"] * 4})
    made = ek.import_judgments(rows, RUBRIC, judge="openai:x", score="mark")
    assert made["order"].isna().all()
    by_design = ek.import_judgments(rows.assign(order="AB"), RUBRIC, judge="openai:x", score="mark")
    for table in (made, by_design):
        votes = ek.vote(table)
        assert votes["score"].tolist() == [1, 0, 0.5] * 4
        assert votes["first_rate"].isna().all()
        row = of_all(ek.rank(votes, systems(12)))
        assert (row["wins"], row["losses"], row["ties"], row["n_one_order"]) == (4, 4, 4, 0)
        assert math.isnan(row["order_mean"])
        assert note in row["notes"]
        assert ek.rank(votes, systems(12))["notes"].str.contains(note).all()
        assert ek.reliability(table)["n_items"].tolist() == [12]
        assert ek.compare(table, table).table["changed"].tolist() == [0]
        whole = ek.rank(ek.aggregate(votes), systems(12))
        assert of_all(whole)["win_rate"] == 0.5
        assert row[["agreement", "flip_rate", "first_rate", "n_both_orders"]].fillna(-1).tolist() == [-1, -1, -1, 0]


def test_pairs_that_are_each_shown_in_one_order_are_scored_with_a_note():
    # the order drawn by chance for each item, of three samples in it some unreadable
    draw = np.random.default_rng(1)
    rows = pd.DataFrame({"item_id": np.repeat([str(at) for at in range(60)], 3), "mark": draw.choice(list("ABB"), 180)})
    rows["order"] = np.repeat(draw.choice(["AB", "BA"], 60), 3)
    rows.loc[draw.random(180) < 0.2, "mark"] = "?"
    options = {"judge": "openai:x", "score": "mark", "codes": {"?": "unreadable"}}
    made = ek.import_judgments(rows, RUBRIC, order="order", verdicts="unswapped", **options)
    votes, plain = ek.vote(made), ek.vote(ek.import_judgments(rows.drop(columns="order"), RUBRIC, **options))
    for name in ("score", "label", "reason", "n_scored"):
        assert votes[name].astype(object).fillna("").tolist() == plain[name].astype(object).fillna("").tolist()
    row, ranks = of_all(ek.rank(votes, systems(60))), ek.rank(votes, systems(60))
    assert row["win_rate"] == of_all(ek.rank(plain, systems(60)))["win_rate"]
    assert row["n_one_order"] == 0
    assert "each pair was shown in one order" in row["notes"]
    assert ranks["notes"].str.contains("each pair was shown in one order").all()
    first = made["label"].eq(made["order"].astype(str).str[0])[made["error"].isna()]
    assert row["first_rate"] == pytest.approx(first.mean())
    # one item in both orders: the judge was asked in both, and what was read in one makes no winner
    more = ek.import_judgments(rows.head(3).assign(order=["AB", "BA", "BA"]), RUBRIC, order="order", **options,
                               verdicts="unswapped")  # fmt: skip
    other = ek.vote(pd.concat([more, made[made["item_id"] != "0"]]))
    assert other["label"].iloc[1:].isna().all()


def test_notes_on_a_judge_are_of_its_own_votes():
    draw = np.random.default_rng(2)
    answers = {at: ([draw.choice(list("AAB"))], [draw.choice(list("ABB"))]) for at in range(60)}
    half = {at: (ab, ba if at % 4 else [UNREAD]) for at, (ab, ba) in answers.items()}
    votes = ek.vote(pd.concat([asked(answers, "whole"), asked(half, "half")]))
    ranks = ek.rank(votes, systems(60)).set_index("judge")["notes"].astype(object).fillna("")
    has_note = ranks.str.contains("15 votes left out: only one of two orders was read")
    assert has_note.groupby(level=0).all().to_dict() == {"half": True, "whole": False}


def test_juries_carry_the_orders_on():
    first = {at: (["A"], ["B"] if at % 2 else [UNREAD]) for at in range(8)}
    fair = {at: (["A"], ["A"]) for at in range(8)}
    scores = ek.aggregate(ek.vote(pd.concat([asked(first, "first"), asked(fair, "fair"), asked(fair, "too")])))
    assert scores["label"].tolist() == ["A"] * 8
    assert scores["score_ab"].tolist() == [1.0] * 8
    assert scores["score_ba"].round(3).tolist() == [1.0, 0.667] * 4  # of the judges that were read in BA
    alone = ek.aggregate(ek.vote(asked(first)))
    assert alone["reason"].tolist() == ["one_order", "tied"] * 4
    assert of_all(ek.rank(alone, systems(8)))["n_one_order"] == 4


def test_accuracy_and_the_overview_say_what_was_left_out():
    table = asked({at: (["A"], ["A"] if at < 15 else [UNREAD]) for at in range(20)})
    people = pd.DataFrame({"item_id": [str(at) for at in range(20)], "criterion": "c", "annotator": "p", "label": "A"})
    row = ek.align(ek.vote(table), people).iloc[0]
    assert (row["accuracy"], row["n_scored"], row["n_left_out"]) == (1.0, 15, 5)
    assert "5 items left out: only one of two orders was read" in row["notes"]
    items = pd.DataFrame({"item_id": [str(at) for at in range(20)], "answer_a": "x", "answer_b": "y"})
    items["answer_a"] += items["item_id"]
    shown = str(ek.Evaluation.of(table, items, people))
    assert "one_order 5" in shown
    assert "5 items left out: only one of two orders was read" in " ".join(shown.split())


def test_order_mean_against_plain_python():
    draw = np.random.default_rng(3)
    answers = {
        at: tuple([UNREAD if draw.random() < 0.3 else str(draw.choice(["A", "B", "tie"]))] for _ in range(2))
        for at in range(60)
    }
    value = {"A": 1.0, "B": 0.0, "tie": 0.5}
    clusters = {str(at): at // 3 for at in range(60)}
    row = of_all(ek.rank(ek.vote(asked(answers)), systems(60), clusters=clusters))
    read = [{at: value[one[order][0]] for at, one in answers.items() if one[order][0] in value} for order in (0, 1)]
    means = [sum(of.values()) / len(of) for of in read]
    assert row["order_mean"] == pytest.approx(sum(means) / 2)
    # the variance of the mean of two ratios, by clusters: each cluster's part in it
    parts = [0.0] * 20
    for of, mean in zip(read, means, strict=True):
        for at, one in of.items():
            parts[at // 3] += (one - mean) / len(of) / 2
    error = math.sqrt(20 / 19 * sum(part**2 for part in parts))
    assert row["order_mean_high"] - row["order_mean_low"] == pytest.approx(2 * 2.093 * error, rel=0.1)


def test_a_table_of_labels_alone_has_the_same_votes():
    draw = np.random.default_rng(7)
    answers = {
        at: tuple([UNREAD if draw.random() < 0.3 else str(draw.choice(["A", "B", "tie"]))] for _ in range(2))
        for at in range(60)
    }
    table = asked(answers)
    own = table[["item_id", "criterion", "judge", "sample", "order", "label"]]
    known = ["label", "tied", "reason", "score_ab", "score_ba"]
    bare, whole = (ek.vote(one)[known].astype(object).fillna("") for one in (own, table))
    assert bare[known[:2] + known[3:]].equals(whole[known[:2] + known[3:]])
    assert (bare["reason"] == "one_order").equals(whole["reason"] == "one_order")
    rates = [ek.rank(ek.vote(one), systems(60)) for one in (own, table)]
    assert rates[0][["win_rate", "order_mean", "notes"]].equals(rates[1][["win_rate", "order_mean", "notes"]])
