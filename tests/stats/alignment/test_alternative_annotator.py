"""The alternative annotator test and the confusion table."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from alignment_tables import labels_of, votes_of
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, DECIMAL, NAMES, imported, published_rows
from pandas.testing import assert_frame_equal
from scipy.stats import wilcoxon

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.alignment import alternative_annotator
from evalkit.stats.alignment.alternative_annotator import alt_test
from evalkit.stats.alignment.judge_alignment import confusion
from evalkit.stats.alignment.label_splits import split_labels
from evalkit.stats.voting import vote
from evalkit.tables import schemas

PLAIN = Scale.of(dict.fromkeys(range(1, 6), ""))


def run(codes, columns, scale=PLAIN, epsilon=0.2, **options):
    return alt_test(votes_of(codes, scale), labels_of(columns), epsilon, **options)


@pytest.mark.parametrize(("name", "epsilon"), [("wax", 0.1), ("mtbench", 0.2), ("cebab_stars", 0.1)])
@pytest.mark.long
def test_published_alternative_annotator_tests(published_data, name, epsilon):
    rows = published_rows(published_data, f"alttest_{name}").to_dict("records")
    expected = json.loads((published_data / "reference.json").read_text())["alt_test"]["values"][name]
    stars = name == "cebab_stars"
    answers = [(row["item_id"], judge, str(code)) for row in rows for judge, code in row["judges"].items()]
    people = [(row["item_id"], "c", annotator, str(code)) for row in rows for annotator, code in row["human"].items()]
    codes = dict.fromkeys([row[-1] for row in [*answers, *people]], "")
    scale = PLAIN if stars else Scale.of(codes, level="nominal")
    labels = pd.DataFrame(people, columns=["item_id", "criterion", "annotator", "label"])
    long = pd.DataFrame(answers, columns=["item_id", "judge", "code"])
    made = alt_test(vote(imported(long, scale, score="code")), labels, epsilon)
    assert set(made.summary["scoring"]) == {"rmse" if stars else "accuracy"}
    summary = made.summary.set_index("judge")
    assert set(summary.index) == set(expected)
    for judge, cell in expected.items():
        assert summary.loc[judge, "winning_rate"] == pytest.approx(cell["winning_rate"], abs=1e-6)
        assert summary.loc[judge, "advantage_probability"] == pytest.approx(cell["advantage_prob"], abs=1e-6)
        own = made.annotators.loc[made.annotators["judge"] == judge]
        assert sorted(own["p"]) == pytest.approx(sorted(cell["p_values"]), abs=1e-6)
        assert set(own["test"]) == {"t"}


def _plainly(judge, people, epsilon, numeric):
    """The test as the paper writes it, item by item: annotator -> (W^f, W^h of each item)."""
    found = {}
    for name, own in people.items():
        rows = []
        for at, label in enumerate(own):
            others = [codes[at] for other, codes in people.items() if other != name and codes[at] is not None]
            if label is None or judge[at] is None or not others:
                continue
            if numeric:
                close = [
                    -math.sqrt(sum((x - other) ** 2 for other in others) / len(others)) for x in (judge[at], label)
                ]
            else:
                close = [sum(x == other for other in others) / len(others) for x in (judge[at], label)]
            rows.append((close[0] >= close[1] - 1e-12, close[1] >= close[0] - 1e-12))
        found[name] = np.array(rows, dtype=int).reshape(-1, 2)
    return found


CODES = st.one_of(st.none(), st.integers(1, 4))


@settings(max_examples=20)
@given(
    st.lists(st.tuples(CODES, CODES, CODES, CODES), min_size=1, max_size=45),
    st.sampled_from([0.1, 0.15, 0.2]),
    st.sampled_from(["accuracy", "rmse"]),
)
@pytest.mark.long
def test_every_figure_is_that_of_a_plain_implementation(rows, epsilon, scoring):
    from scipy.stats import ttest_1samp, wilcoxon
    from statsmodels.stats.multitest import multipletests

    judge, *people = zip(*rows, strict=True)
    people = {name: list(codes) for name, codes in zip("abc", people, strict=True) if any(code for code in codes)}
    made = run(list(judge), people, epsilon=epsilon, scoring=scoring)
    expected = _plainly(judge, people, epsilon, scoring == "rmse")
    if not people:
        assert len(made.annotators) == 0
        assert "no test: no labels" in made.summary.loc[0, "notes"]
        return
    shown = made.annotators.set_index("annotator")
    ps = {}
    for name, indicators in expected.items():
        assert shown.loc[name, "n_items"] == len(indicators)
        if len(indicators) < 2:
            assert math.isnan(shown.loc[name, "p"])
            continue
        gaps = indicators[:, 1] - indicators[:, 0]
        assert shown.loc[name, "judge_rate"] == pytest.approx(indicators[:, 0].mean())
        if len(set(gaps)) == 1:
            ps[name] = float(gaps[0] >= epsilon)
        elif len(gaps) < 30:
            ps[name] = wilcoxon(gaps - epsilon, alternative="less").pvalue
        else:
            ps[name] = ttest_1samp(gaps, epsilon, alternative="less").pvalue
        assert shown.loc[name, "p"] == pytest.approx(ps[name], abs=1e-12)
    if not ps:
        assert pd.isna(made.summary.loc[0, "passes"])
        return
    wins, adjusted, *_ = multipletests(list(ps.values()), alpha=0.05, method="fdr_by")
    assert shown.loc[list(ps), "p_adjusted"].tolist() == pytest.approx(adjusted.tolist())
    assert shown.loc[list(ps), "wins"].tolist() == wins.tolist()
    assert made.summary.loc[0, "winning_rate"] == pytest.approx(wins.mean())
    rates = [expected[name][:, 0].mean() for name in ps]
    assert made.summary.loc[0, "advantage_probability"] == pytest.approx(np.mean(rates))


def test_by_hand_with_a_tie_that_counts_for_both():
    # Against a, b's label 3 is 1 away on i0 (a says 2): the judge's 1 is as near, so both win. On i1 the judge is off.
    made = run([1, 5], {"a": [2, 2], "b": [3, 2]}).annotators.set_index("annotator")
    assert (made.loc["b", "judge_rate"], made.loc["b", "annotator_rate"]) == (0.5, 1)
    # Against b (3, 2): a is 1 off then 0, the judge 2 off then 3: it never wins, the difference is 1 everywhere.
    assert (made.loc["a", "judge_rate"], made.loc["a", "difference"], made.loc["a", "p"]) == (0, 1, 1)
    assert made.loc["a", "test"] == "sign"
    assert "so its sign decides" in made.loc["a", "notes"]


def test_no_variance_is_decided_by_its_side_of_epsilon():
    same = run([1, 2] * 20, {"a": [1, 2] * 20, "b": [1, 2] * 20, "c": [1, 2] * 20})
    assert same.summary.loc[0, "winning_rate"] == 1
    assert same.annotators["p"].tolist() == [0, 0, 0]
    assert same.annotators["notes"].str.contains("so its sign decides").all()
    assert "3 annotators decided by the sign of the difference" in same.summary.loc[0, "notes"]
    # A difference of 0 is not below an epsilon of 0.
    assert run([1, 2] * 20, {"a": [1, 2] * 20, "b": [1, 2] * 20}, epsilon=0).summary.loc[0, "winning_rate"] == 0


def test_labels_count_and_not_mean_votes():
    # The mean of 1, 1, 2 is 1.33, its label 1; a mean of 1.5 is a tie, which has no label and is left out.
    made = run([[1, 1, 2], [2, 1], [2, 2]], {"a": [1, 1, 2], "b": [1, 1, 2]})
    assert made.annotators["n_items"].tolist() == [2, 2]
    assert made.annotators["judge_rate"].tolist() == [1, 1]
    assert made.summary.loc[0, ["n_items", "n_tied", "n_unscored", "n_left_out"]].tolist() == [2, 1, 0, 1]


def test_two_annotators_are_computed_and_marked():
    draw = np.random.default_rng(0)
    codes = draw.integers(1, 6, 60).tolist()
    made = run(codes, {"a": codes, "b": draw.integers(1, 6, 60).tolist()})
    assert made.summary.loc[0, "n_tested"] == 2
    assert "only 2 annotators, so the test is less reliable" in made.summary.loc[0, "notes"]


def test_people_who_cannot_be_compared():
    one = run([1, 2, 3], {"a": [1, 2, 3]}).summary.iloc[0]
    assert one["notes"] == "no test: one annotator"
    assert pd.isna(one["passes"])
    assert math.isnan(one["winning_rate"])
    apart = run([1, 2, 3, 4], {"a": [1, 2, None, None], "b": [None, None, 3, 4]})
    assert apart.summary.loc[0, "notes"] == "no test: annotators who share no item"
    assert apart.annotators["n_items"].tolist() == [0, 0]
    assert "under two items" in apart.annotators.loc[0, "notes"]


def plainly(scores, columns, scoring=None, **more):
    """The notes of the test of a plain table; `columns` are the labels of a, b, c, …"""
    table = pd.DataFrame({"item_id": range(len(scores)), "judge": "j", "score": scores} | more)
    rows = [(at, name, label) for name, said in columns.items() for at, label in enumerate(said) if label is not None]
    labels = pd.DataFrame(rows, columns=["item_id", "annotator", "label"])
    return alt_test(table, labels, epsilon=0.1, scoring=scoring).summary.loc[0, "notes"]


def test_a_table_of_unknown_levels_has_no_confusion():
    table = pd.DataFrame({"item_id": range(4), "judge": "j", "score": [0, 1, 1, 0]})
    labels = table.rename(columns={"score": "label"})[["item_id", "label"]]
    with pytest.raises(
        InputError, match=r"counts levels, and those of criterion 'score' are not known; pass votes with"
    ):
        confusion(table, labels)
    counts = confusion(vote(table, scale=[0, 1, 2]), labels)
    assert counts.loc[counts["n"] > 0, ["label_judge", "label_human", "n"]].values.tolist() == [
        ["0", "0", 2],
        ["1", "1", 2],
    ]
    words = table.assign(score=["yes", "no", "no", "yes"])
    assert confusion(words, labels.assign(label=words["score"]))["n"].sum() == 4  # words need no scale


def test_the_reason_of_no_test_is_the_true_one():
    codes = [0, 1, 1, 0, 1, 0]
    both = {"a": codes, "b": codes[::-1]}
    unknown = "no test: accuracy compares levels, and those of the scale are not known"
    assert unknown in plainly(codes, both, "accuracy")
    assert "no test" not in plainly(codes, both)  # by distance there is nothing missing
    assert "no test" not in plainly(codes, both, "accuracy", scale="0, 1")
    assert (
        plainly([None] * 6, both, "rmse") == "no test: the judge has no score on an item that two annotators labelled"
    )
    lost = plainly(
        [0, 1, 1, None, None, None], {"a": [None] * 3 + codes[:3], "b": [None] * 3 + codes[3:]}, scale="0, 1"
    )
    assert lost == "no test: the judge has no score on an item that two annotators labelled"
    between = plainly(codes, {"a": [0.5] * 6, "b": [0.25] * 6}, "accuracy", scale="0, 1")
    assert between == "no test: no label is a level of the scale"
    once = plainly(codes, {"a": codes, "b": [0] + [None] * 5}, scale="0, 1")
    assert once == "no test: annotators who share under two items with the judge and others"
    # j judged the three items that both labelled, k the other three
    table = pd.DataFrame({"item_id": range(6), "judge": list("jjjkkk"), "score": codes, "scale": "0, 1"})
    labels = [(at, name, codes[at]) for at in range(6) for name in ("ab" if at < 3 else "a")]
    labels = pd.DataFrame(labels, columns=["item_id", "annotator", "label"])
    notes = alt_test(table, labels, epsilon=0.1).summary.set_index("judge")["notes"]
    assert notes["k"] == "no test: the judge was not asked about an item that two annotators labelled"
    assert "no test" not in notes["j"]


def test_groups_are_the_units_of_the_test():
    # 12 items, three of each group g0-g3; two annotators, a is right everywhere but in g3; the judge is b there.
    # Against a: the judge is closer to b in g3 (gap −1 on 3 items), as close elsewhere (0): mean −.25, s² = .1875,
    # u_g = .75, .75, .75, −2.25: Σu²/(1 − 1/4)/144 = 6.75/.75/144 = .0625; all within a group are alike, so ρ = 1 and
    # s²·Σ 3·3/144 = .1875·36/144 = .046875 is less. t = (−.25 − .1)/.25 = −1.4 with 3 degrees of freedom: p = .1280.
    items, truth = [f"i{n}" for n in range(12)], [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1]
    other = [label if n < 9 else 1 - label for n, label in enumerate(truth)]
    table = pd.DataFrame({"item_id": items, "judge": "j", "score": other, "scale": "0, 1"})
    labels = pd.DataFrame({"item_id": items * 2, "annotator": ["a"] * 12 + ["b"] * 12, "label": truth + other})
    grouped = table.assign(group_id=[f"g{n // 3}" for n in range(12)])
    for judged, more in ((grouped, {}), (table, {"clusters": {item: f"g{n // 3}" for n, item in enumerate(items)}})):
        row = alt_test(judged, labels, 0.1, **more).annotators.set_index("annotator").loc["a"]
        assert (row["test"], row["difference"]) == ("cluster t", -0.25)
        assert row["p"] == pytest.approx(0.1280, abs=1e-4)
        assert row["notes"] == "only 12 items; only 4 clusters"
    single = alt_test(grouped, labels, 0.1, clusters={}).annotators
    pd.testing.assert_frame_equal(single, alt_test(table, labels, 0.1).annotators)
    assert single["test"].iloc[0] == "wilcoxon"
    one = alt_test(grouped.assign(group_id="all"), labels, 0.1)
    assert one.summary.loc[0, "notes"] == "no test: all items are of one cluster"
    assert one.annotators["notes"].tolist() == ["not tested: all items are of one cluster"] * 2


def test_verdicts_nominal_labels_and_the_jury():
    verdicts = run([1, 0, 1], {"a": ["true", "false", "true"], "b": ["true", "false", "false"]}, BINARY)
    assert verdicts.summary.loc[0, "scoring"] == "accuracy"
    names = run(["art", "law"], {"a": ["art", "law"], "b": ["art", "art"]}, NAMES)
    assert names.summary.loc[0, "scoring"] == "accuracy"
    decimal = run([0.5, 0.9], {"a": [0.5, 0.8], "b": [0.4, 0.8]}, DECIMAL)
    assert decimal.summary.loc[0, "scoring"] == "rmse"
    # b's .4 against a's .5: the judge (.5) is nearer on i0; on i1 it is off by .1, b by 0.
    assert decimal.annotators["judge_rate"].tolist() == [0.5, 0.5]
    scores = aggregate(votes_of([1, 2, 3], PLAIN))
    jury = alt_test(scores, labels_of({"a": [1, 2, 3], "b": [1, 2, 2]}), 0.2)
    assert jury.summary["judge"].tolist() == ["jury"]


def test_shown_as_a_table_and_shuffled_rows():
    draw = np.random.default_rng(4)
    votes, labels = (
        votes_of(draw.integers(1, 6, 40).tolist(), PLAIN),
        labels_of({name: draw.integers(1, 6, 40).tolist() for name in "abc"}),
    )
    made = alt_test(votes, labels, 0.15)
    again = alt_test(votes.sample(frac=1, random_state=1), labels.sample(frac=1, random_state=2), 0.15)
    assert_frame_equal(made.summary, again.summary)
    assert_frame_equal(made.annotators, again.annotators)
    assert "winning rate" in str(made)
    assert "40 of 40" in str(made)
    assert "<td>0.15</td>" in made._repr_html_()


def test_options_of_the_test():
    with pytest.raises(ConfigError, match="epsilon of alt_test"):
        alt_test(votes_of([1]), labels_of({"a": [1]}))
    for wrong in (-0.1, 1, "0.2", None, True, math.nan):
        with pytest.raises(
            ConfigError, match=r"epsilon of alt_test must be from 0 to below 1, got .* 0\.2 against experts"
        ):
            run([1], {"a": [1]}, epsilon=wrong)
    with pytest.raises(ConfigError, match="scoring='f1' is unknown; allowed: 'accuracy', 'rmse'"):
        run([1], {"a": [1]}, scoring="f1")
    with pytest.raises(ConfigError, match="scoring='rmse' needs numeric scores, which criterion 'c' does not have"):
        run(["art"], {"a": ["art"]}, NAMES, scoring="rmse")
    with pytest.raises(InputError, match="not on its scale"):
        run([1], {"a": [9]})


def test_held_out_labels_are_counted():
    labels = split_labels(labels_of({name: [1, 2] * 40 for name in "abc"}))
    votes = votes_of([1, 2] * 40, PLAIN)
    dev, held = (alt_test(votes, labels, 0.2, part=part).summary.iloc[0] for part in (None, "held-out"))
    assert dev["n_items"] + held["n_items"] == 80
    assert "tuned on these labels" in dev["notes"]
    assert (held["n_looks"], held["n_versions"]) == (1, 1)


# -- confusion


def test_confusion_says_which_labels_it_does_not_count():
    labels = labels_of({"a": [1, 2, 2]}).assign(source=["random", "changed", "random"])
    made = confusion(votes_of([1, 2, 2], BIN3), labels)
    assert made["n"].sum() == 2
    note = "1 label of items that were not drawn at random not used (1 changed)"
    assert made["notes"].astype(str).unique().tolist() == [note]


def test_confusion_by_hand():
    # Two annotators, three items: six labels. Item 2 has a tie of the judge, which is left out: shares are of four.
    made = confusion(votes_of([1, 2, [1, 2]], BIN3), labels_of({"a": [1, 1, 2], "b": [1, 2, 2]}))
    cells = {(str(row.label_judge), str(row.label_human)): (row.n, row.share) for row in made.itertuples()}
    assert cells[("1", "1")] == (2, pytest.approx(2 / 4))
    assert cells[("2", "1")] == (1, pytest.approx(1 / 4))
    assert cells[("2", "2")] == (1, pytest.approx(1 / 4))
    assert cells[("1", "3")] == (0, 0)
    assert cells[("nan", "2")] == (2, pytest.approx(math.nan, nan_ok=True))
    assert made["reason"].dropna().tolist() == ["tied"]
    assert len(cells) == 9 + 1
    assert made["n"].sum() == 6


BIN3 = Scale.of({1: "a", 2: "b", 3: "c"})


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(1, 5), st.one_of(st.none(), st.integers(1, 5))), min_size=1, max_size=30))
@pytest.mark.long
def test_confusion_is_that_of_scikit_learn(rows):
    from sklearn.metrics import confusion_matrix

    made = confusion(votes_of([code for code, _ in rows]), labels_of({"ann": [label for _, label in rows]}))
    both = np.array([(code, label) for code, label in rows if label is not None]).reshape(-1, 2)
    table = made.pivot_table(index="label_judge", columns="label_human", values="n", observed=False, sort=False)
    expected = np.zeros((5, 5)) if not len(both) else confusion_matrix(both[:, 0], both[:, 1], labels=range(1, 6))
    assert table.index.tolist() == table.columns.tolist() == list("12345")
    assert (table.to_numpy() == expected).all()
    assert made["share"].isna().all() if not len(both) else made["share"].sum() == pytest.approx(1)


def test_confusion_of_verdicts_intervals_and_nothing():
    verdicts = confusion(votes_of([5, 4, 1]), labels_of({"ann": ["true", "false", "false"]}))
    assert verdicts[["label_judge", "label_human", "n"]].values.tolist() == [
        ["false", "false", 1],
        ["false", "true", 0],
        ["true", "false", 1],
        ["true", "true", 1],
    ]
    decimal = confusion(votes_of([0, 1], DECIMAL), labels_of({"ann": [1, 0.25]}))
    assert decimal.loc[decimal["n"] > 0, ["label_judge", "label_human"]].values.tolist() == [["0", "1"], ["1", "0.25"]]
    # A number between the codes is no label; nor is a criterion without labels an error.
    assert confusion(votes_of([1, 2]), labels_of({"ann": [1.5, 2]}))["n"].sum() == 1
    assert len(confusion(schemas.empty("votes"), labels_of({"ann": [1]}))) == 0
    assert confusion(votes_of([None, None]), labels_of({"ann": [1, 2]}))["label_judge"].isna().sum() == 2
    assert_frame_equal(
        confusion(votes_of([5, 4, 1]).iloc[::-1], labels_of({"ann": [1, 2, 3]}).iloc[[1, 2, 0]]),
        confusion(votes_of([5, 4, 1]), labels_of({"ann": [1, 2, 3]})),
    )


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_p_of_few_items_is_that_of_scipy(seed: int) -> None:
    draw = np.random.default_rng(seed)
    for n in range(2, 9):
        for epsilon in (0.0, 0.1, 0.2, 1.0):
            outcome = draw.integers(0, 3, n)
            gaps = (outcome != 1).astype(int) - (outcome != 0).astype(int)
            if np.ptp(gaps):
                row = alternative_annotator._against(outcome != 0, outcome != 1, np.arange(n), epsilon)
                expected = wilcoxon(gaps - epsilon, alternative="less").pvalue
                assert row["p"] == pytest.approx(expected, abs=1e-12), (gaps, epsilon)
