import gzip
import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from alignment_tables import FIVE, labels_of, one, votes_of
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, NAMES, PLAIN, imported, judgments, published_rows
from pandas.testing import assert_frame_equal

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.alignment.agreement_measures import FIGURES
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.intervals import mean_interval
from evalkit.stats.voting import vote
from evalkit.tables import schemas


def test_verdicts_by_hand():
    # Judge passes i0 i1 i2, people pass i0 i1 i3: two of five differ. Of the two that people fail (i2, i4) one passes,
    # of the three that they pass one fails. Chance: .6·.6 + .4·.4 = .52, kappa (.6 − .52)/.48.
    row = one([1, 1, 1, 0, 0], {"ann": [1, 1, 0, 1, 0]}, BINARY)
    assert row["accuracy"] == pytest.approx(0.6)
    assert row["false_pass_rate"] == pytest.approx(1 / 2)
    assert row["false_fail_rate"] == pytest.approx(1 / 3)
    assert row["kappa"] == pytest.approx(0.08 / 0.48)
    assert (row["n_items"], row["n_scored"], row["n_labelled"], row["coverage"]) == (5, 5, 5, 1)


def test_boolean_labels_are_verdicts():
    row = one([5, 4, 3, 1], {"ann": ["true", "True", "false", "true"]})
    assert row["accuracy"] == pytest.approx(0.75)
    assert math.isnan(row["pearson"])
    why = "no item has a score of both judge and people, and labels that are verdicts have none"
    assert f"quadratic_kappa, pearson, spearman, kendall, mae, bias: {why}" in row["notes"]


def test_scores_use_the_mean_of_samples_and_verdicts_the_vote():
    # Means 4.5 and 1.5 against 5 and 1: MAE .5, bias (−.5 + .5)/2 = 0.
    row = one([[4, 5], [1, 2]], {"ann": [5, 1]})
    assert (row["mae"], row["bias"], row["accuracy"]) == (0.5, 0, 1)
    # Lin with 1/n moments: s_xy = 1.5·2 = 3, s_x² = 2.25, s_y² = 4, equal means: 6/6.25.
    assert row["quadratic_kappa"] == pytest.approx(0.96)


def test_ties_of_the_judge_are_left_out_or_half_right():
    codes, people = [[5, 5], [5, 1], [1, 1], [5, 5]], {"ann": [5, 5, 1, 1]}
    assert one(codes, people)["accuracy"] == pytest.approx(2 / 3)
    assert one(codes, people, ties="half")["accuracy"] == pytest.approx(2.5 / 4)


def test_labels_without_a_pass_rule_compare_labels():
    row = one(["art", "law", "law"], {"ann": ["art", "law", "sport"]}, NAMES)
    assert row["accuracy"] == pytest.approx(2 / 3)
    # Chance 1/3·1/3 + 2/3·1/3 = 1/3: kappa (2/3 − 1/3)/(2/3).
    assert row["kappa"] == pytest.approx(0.5)
    assert math.isnan(row["false_pass_rate"])
    assert math.isnan(row["spearman"])


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 5), st.one_of(st.none(), st.integers(1, 5))), min_size=1, max_size=25))
def test_figures_are_those_of_scipy_and_scikit_learn(rows):
    from scipy.stats import kendalltau, pearsonr, spearmanr
    from sklearn.metrics import cohen_kappa_score

    row = one([code for code, _ in rows], {"ann": [label for _, label in rows]})
    both = np.array([(code, label) for code, label in rows if label is not None], dtype=float).reshape(-1, 2)
    x, y = both.T
    assert row["n_scored"] == len(both)
    if not len(both):
        assert row["notes"] == "no labels"
        return
    assert row["accuracy"] == pytest.approx(((x >= 4) == (y >= 4)).mean())
    same = len(set((x >= 4).tolist()) | set((y >= 4).tolist())) == 1
    if same or len(both) < 2:
        assert math.isnan(row["kappa"])
        why = "fewer than two items" if len(both) < 2 else "judge and people always give one and the same answer"
        assert f"kappa: {why}" in row["notes"]
    else:
        assert row["kappa"] == pytest.approx(cohen_kappa_score(x >= 4, y >= 4), abs=1e-9)
    if len(set(x.tolist()) | set(y.tolist())) > 1 and len(both) > 1:
        expected = cohen_kappa_score(x, y, weights="quadratic", labels=[1, 2, 3, 4, 5])
        assert row["quadratic_kappa"] == pytest.approx(expected, abs=1e-9)
    if len(both) > 2 and len(set(x.tolist())) > 1 and len(set(y.tolist())) > 1:
        assert row["pearson"] == pytest.approx(pearsonr(x, y).statistic, abs=1e-9)
        assert row["spearman"] == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)
        assert row["kendall"] == pytest.approx(kendalltau(x, y).statistic, abs=1e-9)
    else:
        assert row[["pearson", "spearman", "kendall"]].isna().all()


def _by_leaving_out(codes, people, clusters, name):
    """The interval of a figure from `align` itself, on tables without one cluster."""
    votes, labels = votes_of(codes), labels_of(people)
    names = sorted(set(clusters.values()))
    values = []
    for left in names:
        keep = votes["item_id"].map(clusters).astype(object) != left
        values.append(align(votes[keep.to_numpy()], labels).iloc[0][name])
    return np.array(values)


def test_intervals_are_the_leave_one_cluster_out_jackknife_and_those_of_differences_end_with_the_scale():
    draw = np.random.default_rng(11)
    truth = draw.integers(1, 6, 48)
    codes = [[int(np.clip(code + draw.integers(-1, 2), 1, 5)) for _ in range(3)] for code in truth]
    people = {name: np.clip(truth + draw.integers(-1, 2, 48), 1, 5).tolist() for name in ("a", "b")}
    clusters = {f"i{n}": f"g{n // 3:02}" for n in range(48)}
    row = align(votes_of(codes), labels_of(people), clusters=clusters).iloc[0]
    back = {"atanh": (np.arctanh, np.tanh), "logit": (lambda p: np.log(p / (1 - p)), lambda z: 1 / (1 + np.exp(-z)))}
    gaps = np.array([np.mean(of_item) - people[who][n] for who in ("a", "b") for n, of_item in enumerate(codes)])
    units = np.tile(np.arange(48) // 3, 2)
    for name, values, low in (("mae", np.abs(gaps), 0.0), ("bias", gaps, -4.0)):
        ends = mean_interval(values, units, bounds=(low, 4.0))
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx((ends.low, ends.high)), name
    for name in set(FIGURES) - {"mae", "bias"}:
        form = "logit" if name.endswith("rate") or name == "accuracy" else "atanh"
        forward, backward = back[form]
        z = forward(_by_leaving_out(codes, people, clusters, name))
        half = 2.131450 * math.sqrt(15 / 16 * np.sum((z - z.mean()) ** 2))  # t₁₅ at .975
        assert row[f"{name}_low"] == pytest.approx(backward(forward(row[name]) - half), abs=1e-6), name
        assert row[f"{name}_high"] == pytest.approx(backward(forward(row[name]) + half), abs=1e-6), name


def test_differences_that_are_all_equal_have_an_interval_within_the_scale():
    # 12 items, each 3 of 4 steps too high. mae: Wilson's of .75 with 12 items, z² = 3.8415: (.75 + .1601)/1.3201 ± ….
    # bias: .75 · 12/14 = .6429 widths, ∓ t₁₁ · √(1 + .6429²)/14 = 2.2010 · 1.1888/14 = .1869.
    row = align(votes_of([[4]] * 12), labels_of({"ann": [1] * 12})).iloc[0]
    assert (row["mae"], row["mae_low"], row["mae_high"]) == pytest.approx((3, 4 * 0.4677, 4 * 0.9111), abs=1e-3)
    assert (row["bias"], row["bias_low"], row["bias_high"]) == pytest.approx((3, 4 * 0.4560, 4 * 0.8298), abs=1e-3)


def test_without_ends_of_the_scale_differences_have_none_either():
    draw = np.random.default_rng(4)
    scores = draw.normal(5, 3, 12).round(2)
    labels = pd.DataFrame({"item_id": range(12), "label": (scores + draw.normal(0, 2, 12)).round(2)})
    row = align(pd.DataFrame({"item_id": range(12), "score": scores}), labels).iloc[0]
    gaps = scores - labels["label"].to_numpy()
    half = 2.200985 * gaps.std(ddof=1) / math.sqrt(12)  # t₁₁ at .975
    assert (row["bias_low"], row["bias_high"]) == pytest.approx((gaps.mean() - half, gaps.mean() + half), abs=1e-5)
    assert 0 < row["mae_low"] < row["mae"] < row["mae_high"]


def test_many_distinct_values_take_the_other_way_to_the_same_figures(monkeypatch):
    from evalkit.stats.alignment import agreement_measures as figures

    draw = np.random.default_rng(2)
    x = draw.integers(0, 12, 60).astype(float)
    y = np.round(x + draw.integers(-4, 5, 60))
    unit = np.repeat(np.arange(20), 3)
    plain = figures._ranked(x, y, unit, 21)
    monkeypatch.setattr(figures, "_MOST_CELLS", 40)
    small = figures._ranked(x, y, unit, 21)
    for name in plain:
        assert small[name] == pytest.approx(plain[name], abs=1e-12)


def test_over_two_thousand_clusters():
    draw = np.random.default_rng(3)
    truth = draw.integers(1, 6, 2600)
    codes = np.clip(truth + draw.integers(-1, 2, 2600), 1, 5)
    row = one(codes.tolist(), {"a": truth.tolist()})
    for name in ("accuracy", "kappa", "spearman", "kendall"):
        assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
        assert row[f"{name}_high"] - row[f"{name}_low"] < 0.1


def test_each_annotator_and_people_among_themselves():
    codes = [1, 2, 3, 4, 5, 5]
    people = {"a": [1, 2, 3, 4, 5, 4], "b": [2, 2, 4, 4, 4, 5], "c": [None, 1, 3, 5, None, 4]}
    row = one(codes, people)
    single = [one(codes, {name: given}) for name, given in people.items()]
    sizes = [6, 6, 4]  # an annotator counts by the items that are compared
    for name in ("accuracy", "kappa", "quadratic_kappa", "spearman", "mae"):
        assert row[name] == pytest.approx(np.average([each[name] for each in single], weights=sizes))
    pairs = []
    for first, second in itertools.combinations(people, 2):
        # One annotator in the judge's place.
        pairs.append(one([code if code is not None else None for code in people[first]], {"x": people[second]}))
    for name in ("accuracy", "kappa", "quadratic_kappa", "spearman"):
        assert row[f"{name}_people"] == pytest.approx(np.average([each[name] for each in pairs], weights=[6, 4, 4]))
    assert row["n_annotators"] == 3
    assert math.isnan(single[0]["accuracy_people"])


def test_one_item_has_no_kappa_and_does_not_lower_that_of_people():
    # a and b agree on all six; c shares one item with each, and disagrees there: one pair is no kappa, not one of 0.
    # Of the 6 + 1 + 1 pairs of labels six agree.
    row = one([1, 0, 1, 0, 1, 0], {"a": [1, 0, 1, 0, 1, 0], "b": [1, 0, 1, 0, 1, 0], "c": [0] + [None] * 5}, BINARY)
    assert row["kappa_people"] == 1
    assert row["accuracy_people"] == pytest.approx(6 / 8)
    assert row["kappa"] == 1
    alone = one([1], {"c": [0]}, BINARY)
    assert math.isnan(alone["kappa"])
    assert alone["accuracy"] == 0
    assert "kappa: fewer than two items" in alone["notes"]


def test_against_the_mean_each_annotator_meets_the_others_and_so_does_the_judge():
    codes = [1, 2, 3, 4, 5, 5]
    people = {"a": [1, 2, 3, 4, 5, 4], "b": [2, 2, 4, 4, 4, 5], "c": [1, 1, 3, 5, 5, 4]}
    row = one(codes, people, reference="mean")
    means = np.mean(list(people.values()), axis=0)
    assert row["mae"] == pytest.approx(np.abs(np.array(codes) - means).mean())
    own, peer = [], []
    for name in people:
        others = np.mean([people[other] for other in people if other != name], axis=0)
        own.append(np.corrcoef(pd.Series(people[name]).rank(), pd.Series(others).rank())[0, 1])
        peer.append(np.corrcoef(pd.Series(codes).rank(), pd.Series(others).rank())[0, 1])
    assert row["spearman_people"] == pytest.approx(np.mean(own))
    assert row["spearman_as_peer"] == pytest.approx(np.mean(peer))


def test_a_tie_of_two_annotators_is_no_reference_and_counted():
    row = one([1, 1, 0, 0], {"a": [1, 1, 0, 0], "b": [1, 0, 0, 1]}, BINARY, reference="majority")
    assert row["n_tied_references"] == 2
    assert row["accuracy"] == 1
    assert row["mae"] == 0


def test_the_jury_is_one_judge():
    table = judgments({(f"i{n}", j): [code] for n, code in enumerate([1, 2, 4, 5]) for j in "ab"}, FIVE)
    votes = vote(table)
    labels = labels_of({"ann": [1, 2, 4, 4]})
    made = align(aggregate(votes), labels)
    assert made["judge"].tolist() == ["jury"]
    assert made.loc[0, "mae"] == 0.25
    assert align(votes, labels)["judge"].tolist() == ["a", "b"]


def test_coverage_and_reasons():
    row = one([5, None, 1, 4], {"ann": [5, 5, None, 1]})
    assert (row["n_items"], row["n_labelled"], row["n_scored"]) == (4, 3, 2)
    assert row["coverage"] == pytest.approx(2 / 3)
    assert "only 2 clusters" in row["notes"]
    assert one([None, None], {"ann": [5, 5]})["notes"] == "no item has both a label and a score"
    nobody = one([5, 4], {"ann": []})
    assert (nobody["notes"], nobody["n_labelled"], math.isnan(nobody["coverage"])) == ("no labels", 0, True)
    same = one([5] * 12, {"ann": [5] * 12})
    assert same["accuracy"] == 1
    assert "kappa: judge and people always give one and the same answer" in same["notes"]
    assert "no interval of accuracy" in same["notes"]
    assert one([[5, 1], [4, 2]], {"ann": [5, 1]})["notes"].startswith("accuracy, kappa: no item has a verdict")


def test_means_of_people_are_scores_without_a_verdict():
    row = one([2, 4, 5], {"mean": ["2.33", "4.67", "4"]})
    assert row["mae"] == pytest.approx((1 / 3 + 2 / 3 + 1) / 3, abs=0.01)
    assert row["n_labelled"] == 3
    assert row["accuracy"] == 1


def test_unknown_labels_and_options():
    with pytest.raises(InputError, match=r"'good', '9'; allowed: 1, 2, 3, 4, 5, a number between them .*true, false"):
        one([5, 4], {"ann": ["good", 9]})
    with pytest.raises(InputError, match="'true'; allowed: 1, 2, 3, a number"):
        one([1], {"ann": ["true"]}, PLAIN)
    with pytest.raises(InputError, match="labels are for criterion 'other', but criterion 'c' was judged"):
        align(votes_of([5]), labels_of({"ann": [5]}, criterion="other"))
    with pytest.raises(InputError, match="labels table have the same key as another row"):
        align(votes_of([5]), pd.concat([labels_of({"ann": [5]})] * 2))
    unnamed = labels_of({"ann": [5, 4]}).drop(columns="annotator")
    assert align(votes_of([5, 4]), unnamed)["n_annotators"].tolist() == [1]
    with pytest.raises(InputError, match=r"two rows of item .* a column 'annotator' says"):
        align(votes_of([5, 4]), pd.concat([unnamed, unnamed]))
    with pytest.raises(InputError, match="by='system' is not a column"):
        one([5], {"ann": [5]}, by="system")
    for option in ("reference", "ties", "unscored", "figures"):
        with pytest.raises(ConfigError, match=f"{option}='x'"):
            one([5], {"ann": [5]}, **{option: "x"})


def test_empty_tables():
    nothing = align(schemas.empty("votes"), labels_of({"ann": [5]}))
    assert len(nothing) == 0
    assert "spearman_low" in nothing.columns
    assert align(votes_of([5, 4]), schemas.empty("labels")).loc[0, "notes"] == "no labels"


def test_by_groups_and_shuffled_rows():
    draw = np.random.default_rng(6)
    truth = draw.integers(1, 6, 40)
    codes = np.clip(truth + draw.integers(-1, 2, 40), 1, 5).tolist()
    votes, labels = votes_of(codes), labels_of({"a": truth.tolist(), "b": codes[::-1]})
    systems = {f"i{n}": "xy"[n % 2] for n in range(40)}
    made = align(votes, labels, by=systems)
    assert made["by"].tolist() == ["x", "y"]
    half = align(votes.iloc[::2], labels).iloc[0]
    assert made.loc[0, list(FIGURES)].tolist() == half[list(FIGURES)].tolist()
    mixed = align(votes.sample(frac=1, random_state=1), labels.sample(frac=1, random_state=2))
    plain = align(votes, labels)
    assert_frame_equal(mixed, plain, check_exact=False, rtol=1e-12)


def test_same_items_is_of_the_figures_that_are_shown():
    # judge k has no score of the last item: it is an error of its verdicts, and in no figure on scores
    votes = pd.concat([votes_of([1, 0, 1, 1], BINARY, judge="j"), votes_of([1, 0, 1, None], BINARY, judge="k")])
    options = {"ties": "wrong", "unscored": "wrong"}
    people = labels_of({"a": [1, 0, 1, 1]})
    assert not align(votes, people, **options)["same_items"].any()
    found = align(votes, people, figures=["accuracy"], **options)
    assert found["same_items"].all()
    assert found["accuracy"].tolist() == [1, 0.75]


def test_correlations_inside_groups_leave_out_constant_and_small_ones():
    # Group p: perfect; q: reversed; r: the judge is constant; s: two items.
    codes = [1, 2, 3, 1, 2, 3, 4, 4, 4, 1, 2]
    people = {"a": [1, 2, 3, 3, 2, 1, 1, 2, 3, 1, 2]}
    clusters = {f"i{n}": name for n, name in enumerate("pppqqqrrrss")}
    rows = align(votes_of(codes), labels_of(people), by=clusters).set_index("by")
    assert rows["spearman"].dropna().to_dict() == pytest.approx({"p": 1, "q": -1})
    assert "spearman, kendall: all scores of the judge are equal" in rows.loc["r", "notes"]
    assert "spearman, kendall: fewer than three items have both scores" in rows.loc["s", "notes"]


# -- published judgments

THREE = Scale.of({1: "", 2: "", 3: ""})


@pytest.fixture(scope="module")
def topical(published_data):
    with gzip.open(published_data / "topicalchat_ref_parsed.json.gz") as file:
        parsed = json.load(file)
    items = published_rows(published_data, "topicalchat_items")
    reference = json.loads((published_data / "reference.json").read_text())["topicalchat_gpt35"]["values"]
    return parsed, items, reference


def _topical_table(samples, criterion):
    """Judgments from the authors' reading: null is unreadable, and stray numbers are codes."""
    items = pd.DataFrame({"item_id": list(samples), "read": list(samples.values())})
    strays = {code for codes in samples.values() for code in codes if code is not None}
    scale = Scale.of(dict.fromkeys(strays | {1, 2, 3}, ""))
    codes = {None: "unreadable"}
    return imported(items, scale, criterion=criterion, judge="openai:gpt-3.5", score="read", codes=codes)


RULES = {
    "mean": {},
    "median": {"method": "median"},
    "majority_tie_low": {"method": "majority", "ties": "low"},
    "majority_tie_mean": {"method": "majority", "ties": "mean"},
}


CORRELATIONS = ["pearson", "spearman", "kendall"]
SIZES = (1, 3, 5, 10, 20)  # the first samples that a vote is made of


def _check(made, expected, prefix=""):
    row = made.iloc[0]
    for name, theirs in (("pearson", "pearson"), ("spearman", "spearman"), ("kendall", "kendall_b")):
        assert row[name] == pytest.approx(expected[f"{prefix}{theirs}"], abs=1e-6), (prefix, name)


def _prompts():
    names = ["geval", "geval_no_auto_cot", "llm_eval_no_cot", "rate_explain", "rate_explain_auto_cot"]
    names += ["analyze_rate", "analyze_rate_auto_cot"]
    return [f"{criterion}/{name}" for criterion in ("naturalness", "engagingness") for name in names]


@pytest.mark.parametrize("prompt", _prompts())
def test_published_topical_chat_correlations(topical, prompt):
    parsed, items, reference = topical
    criterion, expected = prompt.split("/")[0], reference[prompt]
    table = _topical_table(parsed[prompt], criterion)
    people = [str(means[criterion]) for means in items["human_mean"]]
    labels = pd.DataFrame({"item_id": items["item_id"], "criterion": criterion, "annotator": "mean", "label": people})
    clusters = dict(zip(items["item_id"], items["group_id"], strict=True))
    for policy, option in (("drop_unparsed", "drop"), ("unparsed_as_zero", 0)):
        votes = vote(table, unscored=option)
        corpus = align(votes, labels)
        assert corpus.loc[0, "n_scored"] == expected[policy]["dataset"]["n"]
        _check(corpus, expected[policy]["dataset"])
        groups = align(votes, labels, by=clusters)
        _check(groups[CORRELATIONS].mean().to_frame().T, expected[policy]["group"])
        assert len(groups) == expected[policy]["group"]["groups"]
    # each number of samples is a judge of its own: figures of one do not depend on the others
    firsts = pd.concat([table[table["sample"] < k].assign(judge=f"first {k}") for k in SIZES], ignore_index=True)
    for rule, options in RULES.items():
        rows = align(vote(firsts, **options), labels).set_index("judge")
        for k in SIZES:
            if k == 20 and rule == "mean":
                continue  # the figure above
            cell, made = expected["k_curve"][f"prefix{k}/{rule}"], rows.loc[[f"first {k}"]]
            assert made["n_scored"].item() == cell["n"]
            _check(made, cell, "dataset_")


@pytest.mark.parametrize("criterion", ["coherence", "consistency"])
def test_published_summeval_judges_against_the_mean_of_three_experts(published_data, criterion):
    rows = published_rows(published_data, f"summeval_alttest_{criterion}")
    reference = json.loads((published_data / "reference.json").read_text())["summeval_alttest"]["values"][criterion]
    scale = Scale.of(dict.fromkeys(range(1, 6), ""))
    votes = vote(imported(rows, scale, criterion=criterion, score="samples"))
    once = rows.drop_duplicates("item_id").set_index("item_id")
    said = [(item, criterion, name, str(code)) for item, codes in once["human"].items() for name, code in codes.items()]
    labels = pd.DataFrame(said, columns=["item_id", "criterion", "annotator", "label"])
    corpus = align(votes, labels, reference="mean").set_index("judge")
    groups = align(votes, labels, reference="mean", by=once["group_id"]).groupby("judge")[CORRELATIONS]
    means, used = groups.mean(), groups.count()["pearson"]
    for judge, expected in reference["judges"].items():
        _check(corpus.loc[[judge]], expected["dataset"])
        _check(means.loc[[judge]], expected["group"])
        assert corpus.loc[judge, "mae"] == pytest.approx(expected["mae"], abs=1e-6)
        assert used[judge] == expected["group"]["groups"] - expected["group"]["groups_skipped"]


def test_column_types_do_not_depend_on_the_values():
    votes = votes_of([1, 2, 3, 2])
    people = labels_of({"a": [1, 2, 3, 3], "b": [1, 1, 3, 2]})
    types = [align(votes, people, reference=reference).dtypes for reference in ("each", "mean")]
    shared = list(types[0].index.intersection(types[1].index))
    assert types[0][shared].astype(str).tolist() == types[1][shared].astype(str).tolist()
    with pytest.raises(ConfigError, match=r"two columns of the same name .*by='n_items'"):
        align(votes.assign(n_items="x"), people, by="n_items")


def test_a_table_has_the_types_that_its_schema_names():
    from evalkit.stats.result_tables import columns, result_table

    # names that other tables use for another type
    types = columns("text: best; count: ties; number: n_eff notes; boolean: same_items")
    rows = [{"best": "a", "ties": 1, "n_eff": 1.5, "notes": 0, "same_items": None}, {"best": None, "ties": 0}]
    made = result_table(rows, types)
    assert made.dtypes.astype(str).tolist() == ["category", "int64", "float64", "float64", "boolean"]
    assert result_table([], types).dtypes.astype(str).tolist() == made.dtypes.astype(str).tolist()
    with pytest.raises((TypeError, ValueError)):  # a missing value in a column of counts is a bug
        result_table([{"ties": None}], columns("count: ties"))
