"""Order agreement and win rates: figures derived by hand, degenerate tables, published judgments."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import ORDINAL, PAIR, judgments, only, published_rows
from pandas.testing import assert_frame_equal

import evalkit as ek
from evalkit.errors import InputError
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.aggregation.pairwise_wins import win_rates
from evalkit.stats.comparison.position_orders import position_inconsistency
from evalkit.stats.intervals import mean_interval, rate_interval
from evalkit.stats.voting import vote
from evalkit.tables import schemas


def pairs(answers, judge="j"):
    """Judgments from {item: (AB codes, BA codes)}; labels are mapped back already, as in every judgments table."""
    return judgments({(item, judge): {"AB": list(ab), "BA": list(ba)} for item, (ab, ba) in answers.items()}, PAIR)


# -- order agreement


def test_order_agreement_by_hand():
    made = only(
        position_inconsistency(
            pairs(
                {
                    "same": (["A", "A", "B"], ["A", "A", "A"]),  # A and A
                    "flip": (["A", "A", "A"], ["B", "B", "tie"]),  # A and B
                    "ties": (["tie"] * 3, ["tie"] * 3),  # a tie in both orders is the same winner
                    "half": (["!unreadable"] * 3, ["B"] * 3),  # no winner in AB
                    "none": (["!timeout"] * 3, ["!timeout"] * 3),  # unscored twice is no agreement
                }
            )
        )
    )
    assert (made["n_items"], made["n_scored"]) == (5, 3)
    assert made["agreement"] == pytest.approx(2 / 5)
    assert made["inconsistency"] == pytest.approx(3 / 5)
    assert made["flip_rate"] == pytest.approx(1 / 3)
    # shown first is A in AB and B in BA. AB: same 2 of 3, flip 3, ties 3 halves; BA: same 0, flip 2 and half a tie,
    # ties 3 halves, half 3 of 3: 2 + 3 + 1.5 + 0 + 2.5 + 1.5 + 3 = 13.5 of 21 scored judgments
    assert made["n_judgments"] == 21
    assert made["first_rate"] == pytest.approx(13.5 / 21)
    assert made["notes"] == "2 items without a winner in both orders; only 5 clusters"


def test_intervals_are_those_of_rates_by_clusters():
    answers = {str(at): ("A", "A" if at % 3 else "B") for at in range(30)}
    clusters = {str(at): at // 2 for at in range(30)}
    made = only(position_inconsistency(pairs(answers), clusters=clusters))
    agrees = np.array([float(at % 3 != 0) for at in range(30)])
    wanted = rate_interval(agrees, np.arange(30) // 2)
    assert (made["agreement_low"], made["agreement_high"]) == pytest.approx((wanted.low, wanted.high))
    assert made["inconsistency_low"] == pytest.approx(1 - wanted.high)
    assert made["inconsistency_high"] == pytest.approx(1 - wanted.low)
    # shown first per item: AB always (A), BA where the label is B; the item's share, since its orders are a design
    first = np.repeat([1.0 if at % 3 == 0 else 0.5 for at in range(30)], 2)
    wanted = mean_interval(first, np.repeat(np.arange(30) // 2, 2), bounds=(0, 1))
    assert (made["first_rate_low"], made["first_rate_high"]) == pytest.approx((wanted.low, wanted.high))


def test_two_judges_and_shuffled_rows():
    table = pd.concat([pairs({"x": ("A", "A"), "y": ("A", "B")}), pairs({"x": ("B", "A"), "y": ("A", "B")}, "k")])
    made = position_inconsistency(table)
    assert made[["judge", "agreement"]].to_numpy().tolist() == [["j", 0.5], ["k", 0.0]]
    mixed = position_inconsistency(table.sample(frac=1, random_state=3))
    mixed = mixed.sort_values("judge", key=lambda names: names.astype(str), ignore_index=True)
    assert_frame_equal(made, mixed, check_categorical=False)


def test_nothing_scored_and_empty():
    made = only(position_inconsistency(pairs({"x": (["!timeout"], ["!timeout"]), "y": (["!empty"], ["!empty"])})))
    assert math.isnan(made["agreement"])
    assert math.isnan(made["first_rate"])
    assert made["notes"] == "no item has a winner in both orders"
    assert len(position_inconsistency(schemas.empty("judgments"))) == 0
    one = only(position_inconsistency(pairs({"x": ("A", "A")})))
    assert (one["agreement"], one["n_scored"]) == (1.0, 1)
    assert one["agreement_low"] < 0.5, "one item shows little"


def test_pointwise_judgments_are_refused():
    with pytest.raises(InputError, match=r"3 of 3 judgments have no order: .*mode: pairwise"):
        position_inconsistency(judgments({("x", "j"): [0, 1, 2]}, ORDINAL))


@settings(max_examples=20)
@given(st.lists(st.tuples(*[st.sampled_from(["A", "B", "tie", "!empty"])] * 2), min_size=1, max_size=25))
@pytest.mark.long
def test_against_plain_counting(answers):
    made = only(position_inconsistency(pairs({at: ([ab], [ba]) for at, (ab, ba) in enumerate(answers)})))
    both = [(ab, ba) for ab, ba in answers if "!empty" not in (ab, ba)]
    same = sum(ab == ba for ab, ba in both)
    assert made["n_scored"] == len(both)
    if both:
        assert made["agreement"] == pytest.approx(same / len(answers))
        assert made["flip_rate"] == pytest.approx(1 - same / len(both))
        assert made["agreement_low"] <= made["agreement"] <= made["agreement_high"]
    else:
        assert math.isnan(made["agreement"])


# -- win rates

ITEMS = pd.DataFrame(
    {
        "item_id": list("abcdef"),
        "system_a": ["new", "new", "old", "new", "old", "new"],
        "system_b": ["old", "old", "new", "mid", "mid", "mid"],
    }
)


def outcomes(labels, **options):
    """Votes of one judge who says the same in both orders."""
    return vote(pairs({item: ([label], [label]) for item, label in zip("abcdef", labels, strict=False)}), **options)


def test_win_rates_by_hand():
    made = win_rates(outcomes(["A", "B", "B", "tie", "A", "!timeout"]), ITEMS).set_index(["system", "opponent"])
    # new against old: a won, b lost, c won (new is B there): 2 of 3; against mid: d tie, f unscored: .5 of 1
    assert made.loc[("new", "old"), "win_rate"] == pytest.approx(2 / 3)
    assert made.loc[("new", "mid"), "win_rate"] == pytest.approx(0.5)
    assert made.loc[("new", "all"), ["wins", "losses", "ties", "n_items", "n_scored"]].tolist() == [2, 1, 1, 5, 4]
    assert made.loc[("new", "all"), "win_rate"] == pytest.approx(2.5 / 4)
    assert made.loc[("old", "new"), "win_rate"] == pytest.approx(1 / 3)
    assert made.loc[("old", "all"), "win_rate"] == pytest.approx((1 + 1) / 4)
    assert made.loc[("mid", "all"), "win_rate"] == pytest.approx((0.5 + 0) / 2)
    assert set(made["judge"]) == {"j"}
    assert list(made.index[:3]) == [("mid", "all"), ("mid", "new"), ("mid", "old")]


def test_a_judge_of_places_is_a_tie():
    # A in both prompts' first place: mapped back A under AB and B under BA: a tied vote
    votes = vote(pairs({"a": ("A", "B"), "b": ("A", "B")}))
    assert votes["tied"].all()
    made = win_rates(votes, ITEMS).set_index(["system", "opponent"]).loc[("new", "old")]
    assert (made["win_rate"], made["ties"], made["n_scored"]) == (0.5, 2, 2)


def test_intervals_by_group():
    draw = np.random.default_rng(4)
    labels = draw.choice(["A", "B", "tie"], 40)
    items = pd.DataFrame({"item_id": [str(at) for at in range(40)], "system_a": "x", "system_b": "y"})
    items["group_id"] = [f"g{at // 4}" for at in range(40)]
    votes = vote(pairs({str(at): ([label], [label]) for at, label in enumerate(labels)}))
    made = win_rates(votes, items).set_index(["system", "opponent"])
    value = np.array([{"A": 1.0, "B": 0.0, "tie": 0.5}[label] for label in labels])
    wanted = mean_interval(value, np.arange(40) // 4, bounds=(0, 1))
    got = made.loc[("x", "all")]
    assert (got["win_rate_low"], got["win_rate_high"]) == pytest.approx((wanted.low, wanted.high))
    other = made.loc[("y", "x")]
    assert (other["win_rate_low"], other["win_rate_high"]) == pytest.approx((1 - wanted.high, 1 - wanted.low))
    alone = win_rates(votes, items, clusters={}).set_index(["system", "opponent"]).loc[("x", "all")]
    wanted = mean_interval(value, np.arange(40), bounds=(0, 1))
    assert (alone["win_rate_low"], alone["win_rate_high"]) == pytest.approx((wanted.low, wanted.high))


def test_scores_of_a_jury():
    answers = {"a": "AAB", "b": "ABB", "c": "BBB"}  # three judges on each item
    table = pd.concat(
        [pairs({item: ([said[at]], [said[at]]) for item, said in answers.items()}, f"j{at}") for at in range(3)]
    )
    made = win_rates(aggregate(vote(table)), ITEMS).set_index(["system", "opponent"])
    # majority: a → A (new), b → B (old), c → B (new): new wins 2 of 3
    assert made.loc[("new", "old"), "win_rate"] == pytest.approx(2 / 3)
    assert set(made["judge"]) == {"jury"}


def test_all_equal_is_wilson_and_never_certain():
    made = win_rates(outcomes(["A", "A", "B"]), ITEMS).set_index(["system", "opponent"]).loc[("new", "old")]
    assert made["win_rate"] == 1.0
    assert made["win_rate_low"] < 0.6


def test_empty_unscored_one_row_and_shuffled():
    assert len(win_rates(schemas.empty("votes"), ITEMS)) == 0
    lost = win_rates(outcomes(["!timeout", "!timeout"]), ITEMS)
    assert lost["win_rate"].isna().all()
    assert set(lost["notes"]) == {"nothing is scored"}
    one = win_rates(outcomes(["A"]), ITEMS)
    assert set(one["notes"]) == {"fewer than two clusters"}
    votes = outcomes(["A", "B", "tie", "A", "B", "A"])
    assert_frame_equal(win_rates(votes, ITEMS), win_rates(votes.iloc[::-1], ITEMS.iloc[[3, 1, 5, 0, 2, 4]]))
    renamed = ITEMS.rename(columns={"item_id": "uuid", "system_a": "model_1", "system_b": "model_2"})
    own = win_rates(votes, renamed, item_id="uuid", system_a="model_1", system_b="model_2")
    assert_frame_equal(own, win_rates(votes, ITEMS))


def test_what_win_rates_refuse():
    votes = outcomes(["A", "B"])
    with pytest.raises(InputError, match="no column 'system_b' for the systems; they have 'item_id', 'system_a'"):
        win_rates(votes, ITEMS.drop(columns="system_b"))
    with pytest.raises(InputError, match="1 judged item not found among the items: 'b'"):
        win_rates(votes, ITEMS.iloc[:1])
    with pytest.raises(InputError, match=r"2 items with wrong systems: 'a', 'b'"):
        win_rates(votes, ITEMS.assign(system_b="new"))
    with pytest.raises(InputError, match=r"1 item with wrong systems: 'b'"):
        win_rates(votes, ITEMS.assign(system_b=["old", None, "new", "mid", "mid", "mid"]))
    with pytest.raises(InputError, match="a system cannot be called 'all'"):
        win_rates(votes, ITEMS.assign(system_b="all"))
    with pytest.raises(InputError, match="needs pairwise votes with the labels A, B or tie; these have '2'"):
        win_rates(vote(judgments({("a", "j"): [2]}, ORDINAL)), ITEMS)
    with pytest.raises(InputError, match="same key as another row"):
        win_rates(pd.concat([votes, votes]), ITEMS)


# -- published judgments of pairs with an objectively better answer


@pytest.fixture(scope="module")
def llmbar(published_data):
    rows = published_rows(published_data, "llmbar_judgements")
    rows["name"] = rows["subset"] + "/" + rows["judge"] + "/" + rows["prompt_id"]
    reference = json.loads((published_data / "reference.json").read_text(encoding="utf-8"))["llmbar"]
    return rows, published_rows(published_data, "llmbar_items"), reference["per_evaluator"]


LABEL = {"1": "A", "2": "B", None: "unreadable"}


def check_published(table, gold, reference):
    """Order agreement and accuracy of each evaluator; the published accuracy counts unread verdicts as wrong."""
    orders = position_inconsistency(table).set_index("judge")
    right = {}
    for order in ("AB", "BA"):
        aligned = ek.align(vote(table[table["order"] == order]), gold).set_index("judge")
        right[order] = aligned["accuracy"] * aligned["coverage"]
    assert len(orders) == len(reference)
    for name, wanted in reference.items():
        made = orders.loc[name]
        assert made["n_items"] == wanted["n"]
        assert made["agreement"] == pytest.approx(wanted["position_agreement"], abs=1e-6)
        assert made["inconsistency"] == pytest.approx(wanted["position_inconsistency"], abs=1e-6)
        shown_first = made["first_rate"] * made["n_judgments"] / (2 * wanted["n"])
        assert shown_first == pytest.approx(wanted["first_position_rate"], abs=1e-6)
        assert right["AB"][name] == pytest.approx(wanted["acc_AB"], abs=1e-6)
        assert right["BA"][name] == pytest.approx(wanted["acc_BA"], abs=1e-6)
        assert (right["AB"][name] + right["BA"][name]) / 2 == pytest.approx(wanted["acc_avg"], abs=1e-6)


def gold_of(rows):
    return rows.assign(criterion="preference", annotator="gold", label=rows["gold"].astype(str).map(LABEL))[
        ["item_id", "criterion", "annotator", "label"]
    ]


@pytest.mark.long
def test_published_accuracy_and_order_agreement(llmbar):
    rows, items, reference = llmbar
    shown = pd.concat([rows.assign(order=order, said=rows["parsed"].str[order]) for order in ("AB", "BA")])
    table = ek.import_judgments(
        shown, "preference", judge="name", order="order", score="said", codes=LABEL, verdicts="unswapped"
    )
    check_published(table, gold_of(items), reference)
    assert len(reference) == 130


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["Natural/GPT-4/Vanilla_NoRules", "GPTInst/PaLM2/Vanilla_NoRules", "GPTInst/ChatGPT/CoT"]
)
def test_published_replies_recorded_in_both_orders(llmbar, name):
    rows, items, reference = llmbar
    names = {"instruction": "question", "output_1": "answer_a", "output_2": "answer_b"}
    mine = rows.loc[rows["name"] == name, ["item_id", "gold", "parsed"]]
    shown = mine[["item_id"]].merge(items.rename(columns=names)[["item_id", *names.values()]])
    judge = ek.Judge("openai", "recorded", name=name)
    for order, flip in (("AB", {"1": "A", "2": "B"}), ("BA", {"1": "B", "2": "A"})):
        # the authors' reading is mapped back; the reply itself names the place
        said = {row.item_id: flip.get(row.parsed[order], "cannot tell") for row in mine.itertuples()}
        assert ek.record(shown, "preference", judge, said, order=order, template="label@v1") > 0
    table = ek.judge(shown, "preference", judge, template="label@v1", offline=True)
    assert set(table["source"]) == {"recorded"}
    check_published(table, gold_of(mine), {name: reference[name]})


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_pairs_that_are_not_those_of_their_labels_are_refused(seed):
    draw, value = np.random.default_rng(seed), {"A": 1, "B": 0, "tie": 0.5}
    labels = draw.choice(list(value), 12)
    table = pd.DataFrame({"item_id": range(12), "judge": "j", "label": labels, "system_a": "x", "system_b": "y"})
    plain = ek.rank(table)
    right = table.assign(score=pd.Series(labels).map(value))
    assert_frame_equal(ek.rank(right), plain)
    n = int(draw.integers(1, 12))
    wrong = table.assign(
        score=[(float(value[label] < 1) if at < n else value[label]) for at, label in enumerate(labels)]
    )
    for function in (ek.rank, win_rates):
        with pytest.raises(InputError, match=r"has the score [01]\.0 and the label"):
            function(wrong)


def test_a_missing_system_is_named():
    table = pd.DataFrame({"item_id": [1, 1, 1, 2, 2], "system_id": ["x", "y", None, "x", None], "score": range(5)})
    for missing in (table, table.assign(system_id=table["system_id"].astype("category"))):
        with pytest.raises(InputError, match="column 'system_id' has missing values in 2 of 5 rows"):
            ek.rank(missing)


def test_scores_without_a_group_are_counted_in_a_note():
    table = pd.DataFrame({"item_id": range(16), "system_id": list("xy") * 8, "score": [2, 1, 1, 2] * 4})
    table["group_id"] = [None, None, None, *(f"g{at // 2}" for at in range(3, 16))]
    for function in (ek.rank, win_rates):
        with_note = function(table)
        assert with_note["notes"].str.contains("3 of 16 scores left out: no group_id").all()
        alone = function(table.iloc[3:])
        assert_frame_equal(with_note.drop(columns="notes"), alone.drop(columns="notes"))


def test_votes_on_pairs_keep_what_the_items_are_of():
    # `system_id` of pairs, such as the system that is tested, does not make them single answers
    rows = pd.DataFrame({"item_id": list("abcdef"), "judge": "j", "label": list("ABATAB")}).replace("T", "tie")
    items = rows[["item_id"]].assign(system_a=["new", "new", "old"] * 2, system_b=["old", "old", "new"] * 2)
    rubric = ek.Rubric(id="better", mode="pairwise", inputs=["answer_a", "answer_b"], criteria=[
        {"name": "c", "level": "nominal", "scale": {"A": "", "B": "", "tie": ""}}])  # fmt: skip
    made = ek.import_judgments(rows.assign(system_id="new"), rubric, score="label", system="system_id")
    votes = vote(made)
    assert votes["system_id"].tolist() == ["new"] * 6
    for function in (ek.rank, win_rates):
        plain = votes.drop(columns="system_id")
        assert_frame_equal(function(votes, items), function(plain, items))
        assert_frame_equal(function(votes, items.to_dict("records")), function(plain, items))


def test_a_system_called_all_has_no_row_of_its_own():
    table = pd.DataFrame({"item_id": [1, 1, 2, 2], "system_id": ["all", "x"] * 2, "score": [1, 2, 2, 1]})
    with pytest.raises(InputError, match="a system cannot be called 'all'"):
        win_rates(table)
    assert ek.rank(table)["system"].tolist() == ["all", "x"]


SINGLE = {"item_id": [7, 7, 8, 8], "system_id": ["p", "q"] * 2, "judge": "j", "score": [3, 1, 2, 2], "group_id": 1}
OF_PAIRS = {"item_id": [7, 8], "system_a": "p", "system_b": "q", "judge": "j", "label": ["A", "tie"], "group_id": 1}


@pytest.mark.parametrize(
    ("table", "column"), [(table, column) for table in (SINGLE, OF_PAIRS) for column in table], ids=str
)
def test_a_column_that_stands_twice_is_named(table, column):
    frame = pd.DataFrame(table)
    frame = pd.concat([frame, frame[column]], axis=1)
    for function in (ek.rank, win_rates):
        with pytest.raises(InputError, match=f"'{column}'"):
            function(frame)


def test_columns_that_nothing_reads_may_stand_twice():
    frame = pd.DataFrame(SINGLE).assign(team="t")
    assert_frame_equal(win_rates(pd.concat([frame, frame["team"]], axis=1)), win_rates(frame))
    with pytest.raises(InputError, match="column 'team' twice"):
        ek.summarize(pd.concat([frame, frame["team"]], axis=1).drop(columns="judge"), by=["team"])
