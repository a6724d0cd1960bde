"""Plain tables in summarize, align, compare, rank and the like: the truth is computed by plain Python and scipy."""

import math
import random
from collections import Counter
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalkit as ek
from evalkit.errors import EvalkitError, InputError
from evalkit.rubrics import Scale

PASSES = Scale.of({0: "", 1: "", 2: ""}, pass_at=2)
IDS = {
    "numbers": lambda n: list(range(n)),
    "Int64": lambda n: pd.array(range(n), dtype="Int64"),
    "floats": lambda n: [float(i) for i in range(n)],
    "texts": lambda n: [str(i) for i in range(n)],
    "category": lambda n: pd.Categorical([f"i{i}" for i in range(n)], categories=[f"i{i}" for i in range(n + 3)]),
}
VALUES = {
    "numbers": lambda xs: xs,
    "Int64": lambda xs: pd.array([None if math.isnan(x) else int(x) for x in xs], dtype="Int64"),
    "texts": lambda xs: [None if math.isnan(x) else f" {x:g}" for x in xs],
    "Decimal": lambda xs: [None if math.isnan(x) else Decimal(str(x)) for x in xs],
    "objects": lambda xs: pd.Series([pd.NA if math.isnan(x) else x for x in xs], dtype=object),
    "numpy texts": lambda xs: pd.Series([None if math.isnan(x) else np.str_(x) for x in xs], dtype=object),
}


def scores_of(draw, n, missing=0.1):
    return [math.nan if draw.random() < missing else float(draw.randrange(3)) for _ in range(n)]


def nearly(found, wanted):
    return np.allclose(found, wanted, rtol=1e-6, atol=1e-9, equal_nan=True)


@pytest.mark.long  # seconds: ten calls for each type
def test_means_differences_correlations_and_wins_are_those_of_scipy_for_every_type_of_column():
    draw = random.Random(11)
    for round_ in range(6):
        ids, values = [*IDS][round_ % len(IDS)], [*VALUES][round_ % len(VALUES)]
        n = draw.randrange(12, 30)
        first, second, said = (scores_of(draw, n, missing) for missing in (0.1, 0.1, 0))
        names = IDS[ids](n)
        plain = pd.DataFrame({"item_id": names, "score": VALUES[values](first)}).sample(frac=1, random_state=round_)
        later = pd.DataFrame({"item_id": names, "score": VALUES[values](second)})
        labels = pd.DataFrame({"item_id": names, "label": said}).sample(frac=1, random_state=round_ + 1)
        xs = np.array([x for x in first if not math.isnan(x)])
        row = ek.summarize(plain).iloc[0]
        half = stats.sem(xs) * stats.t.ppf(0.975, len(xs) - 1)
        assert nearly([row["mean"], row["low"], row["high"]], [xs.mean(), xs.mean() - half, xs.mean() + half])
        assert (row["n_items"], row["n_scored"]) == (n, len(xs))
        assert row[["mean_norm", "worst", "best", "pass_rate"]].isna().all()
        assert "pass scale=" in row["notes"]
        row = ek.summarize(plain, scale=PASSES).iloc[0]
        lost = n - len(xs)
        ends = [xs.mean() / 2, xs.sum() / 2 / n, (xs.sum() / 2 + lost) / n, (xs == 2).mean()]
        assert nearly(row[["mean_norm", "worst", "best", "pass_rate"]].astype(float), ends)

        both = [(x, y) for x, y in zip(first, said, strict=True) if not math.isnan(x)]
        f, y = map(np.array, zip(*both, strict=True))
        row = ek.align(plain, labels).iloc[0]
        assert row["judge"] == "jury"
        assert nearly([row["mae"], row["bias"]], [np.abs(f - y).mean(), (f - y).mean()])
        assert nearly(row["pearson"], stats.pearsonr(f, y).statistic if np.ptp(f) and np.ptp(y) else np.nan)
        assert pd.isna(row["accuracy"])
        assert "pass scale=" in row["notes"]
        assert ek.align(plain, labels, scale=[0, 1, 2])["accuracy"].iloc[0] == pytest.approx((f == y).mean())
        # every number is a code of (low, high)
        assert ek.align(plain, labels, scale=(0, 2))["accuracy"].iloc[0] == pytest.approx((f == y).mean())
        assert ek.align(plain, labels, scale=PASSES)["accuracy"].iloc[0] == pytest.approx(((f == 2) == (y == 2)).mean())

        gaps = np.array([b - a for a, b in zip(first, second, strict=True) if not math.isnan(a + b)])
        row = ek.compare(plain, later).table.iloc[0]
        assert nearly(row["score_difference"], gaps.mean())
        assert row["n_scored"] == len(gaps)
        assert pd.isna(row["mean_difference"])
        row = ek.compare(plain, later, scale=[0, 1, 2], labels=labels).table.iloc[0]
        assert nearly([row["mean_difference"], row["score_difference"]], [gaps.mean() / 2, gaps.mean()])
        assert row["changed"] == (gaps != 0).sum()
        pairs = [(abs(a - z), abs(b - z)) for a, b, z in zip(first, second, said, strict=True) if not math.isnan(a + b)]
        assert (row["fixed"], row["broke"]) == (sum(a > b for a, b in pairs), sum(a < b for a, b in pairs))

        systems = pd.concat([plain.assign(system_id=7), later.assign(system_id=8)])
        wins = Counter(np.sign(gaps).astype(int))
        by_system = ek.rank(systems).set_index("system")
        assert by_system.index.dtype == "int64"
        assert by_system.loc[8, ["wins", "losses", "ties"]].tolist() == [wins[1], wins[-1], wins[0]]
        assert (
            ek.rank(systems, scale=Scale.of({0: "", 1: "", 2: ""}, better="low")).set_index("system").loc[7, "wins"]
            == wins[1]
        )
        means = ek.summarize(systems, by="system_id").set_index("system_id")["mean"]
        assert nearly(means[[7, 8]], [xs.mean(), np.nanmean(second)])


def test_ids_are_compared_by_value_and_keys_keep_their_types():
    plain = pd.DataFrame({"item_id": range(40), "judge": 3, "score": [0, 1, 2, 1] * 10})
    texts = pd.DataFrame(
        {"item_id": [*(str(i) for i in range(30)), *(f"0{i}" for i in range(30, 36)), "36 "], "label": 1}
    )
    row = ek.align(plain, texts).iloc[0]
    assert (row["n_labelled"], row["judge"]) == (30, 3)
    assert "7 of 37 labels are of no item" in row["notes"]
    drawn = ek.next_labels(plain, 5, labels=texts)
    assert drawn["item_id"].dtype == "int64"
    assert drawn["item_id"].min() >= 30
    assert not ek.align(plain, texts.set_index("item_id")["label"]).empty
    split = ek.split_labels(plain.rename(columns={"score": "label"})[["item_id", "label"]])
    assert split.dtypes[["item_id"]].tolist() == ["int64"]
    assert "criterion" not in split
    assert ek.align(plain, split)["n_labelled"].tolist() == [40]
    # a criterion that only one of the two tables names is the same one
    assert ek.align(plain, texts.assign(criterion="tone"))["n_labelled"].tolist() == [30]
    assert ek.align(plain.assign(criterion="tone"), texts)[["criterion", "n_labelled"]].values.tolist() == [
        ["tone", 30]
    ]


def test_words_are_labels_or_a_scale_from_bad_to_good():
    words = ["bad", "ok", "good"] * 10
    plain = pd.DataFrame({"item_id": range(30), "judge": "j", "label": words})
    people = plain.assign(label=[word.upper() for word in words[:29]] + ["bad"]).drop(columns="judge")
    row = ek.align(plain, people).iloc[0]
    assert row["accuracy"] == pytest.approx(29 / 30)
    assert pd.isna(row["pearson"])
    for scale in (["bad", "ok", "good"], "bad, ok, good"):
        row = ek.align(plain, people, scale=scale).iloc[0]
        assert nearly([row["accuracy"], row["mae"]], [29 / 30, 2 / 30])
    ordered = plain.assign(label=pd.Categorical(words, ["bad", "ok", "good"], ordered=True))
    assert ek.align(ordered, people)["mae"].iloc[0] == pytest.approx(2 / 30)
    pairs = pd.DataFrame(
        {"item_id": range(8), "judge": "j", "label": list("AAbAtAAB"), "system_a": "new", "system_b": "old"}
    )
    ranked = ek.rank(pairs.replace({"label": {"t": "tie"}}))
    assert ranked[["system", "wins", "losses", "ties"]].values.tolist() == [["new", 5, 2, 1], ["old", 2, 5, 1]]


PLAIN = pd.DataFrame({"item_id": range(20), "judge": "a", "score": [0, 1] * 10})
LABELS = pd.DataFrame({"item_id": range(20), "label": 1})
BAD = {
    "two labels of one item": (lambda: ek.align(PLAIN, pd.concat([LABELS, LABELS])), "'annotator'"),
    "no label": (lambda: ek.align(PLAIN, LABELS.rename(columns={"label": "human"})), "rename your columns"),
    "words for numbers": (lambda: ek.align(PLAIN, LABELS.assign(label="good")), "scale="),
    "which criterion": (lambda: ek.align(PLAIN.assign(criterion=["x", "y"] * 10), LABELS), "'criterion'"),
    "judges in summarize": (lambda: ek.summarize(PLAIN), "aggregate"),
    "doubled scores": (lambda: ek.summarize(pd.concat([PLAIN, PLAIN]).drop(columns="judge")), "`sample`"),
    "doubled votes": (lambda: ek.align(pd.concat([PLAIN, PLAIN]), LABELS), "`vote`"),
    "no score": (lambda: ek.compare(PLAIN.rename(columns={"score": "mark"}), PLAIN), "`score`"),
    "no system": (lambda: ek.rank(PLAIN), "'system_id'"),
    "no two systems": (lambda: ek.rank(PLAIN.assign(system_id="x")), "two systems"),
    "labels in rank": (lambda: ek.rank(PLAIN.assign(system_id="x", score="good")), "without an order"),
    "no pair": (
        lambda: ek.rank(PLAIN.assign(label="C", system_a="x", system_b="y").drop(columns="score")),
        "A, B, tie",
    ),
    "no ends in a plot": (lambda: ek.plots.plot_scores(ek.aggregate(PLAIN)), "pass scale="),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_missing_is_an_error_that_says_what_to_do(what):
    run, text = BAD[what]
    with pytest.raises(EvalkitError) as caught:
        run()
    assert text in str(caught.value)
    assert "not a votes table" not in str(caught.value)


def test_votes_are_summarized_by_judge_and_compared():
    both = pd.DataFrame({"item_id": [*range(10)] * 2, "judge": [1] * 10 + [2] * 10, "score": [0, 1] * 5 + [2, 1] * 5})
    by_judge = ek.summarize(both, by="judge")
    assert by_judge[["judge", "mean", "n_items"]].values.tolist() == [[1, 0.5, 10], [2, 1.5, 10]]
    by_both = ek.summarize(both.set_index(["item_id", "judge"])["score"], by="judge")
    assert by_both["mean"].tolist() == [0.5, 1.5]
    later = ek.vote(both.assign(score=both["score"] / 2 + 1), scale=(0, 2))  # votes may lie between codes
    table = ek.compare(ek.vote(both, scale=(0, 2)), later).table
    assert table[["judge", "score_difference"]].values.tolist() == [[1, 0.75], [2, 0.25]]
    assert table["changed"].tolist() == [10, 5]
    assert "cannot tell change from noise" in table["notes"].iloc[0]


@pytest.mark.parametrize("scale", [None, (0, 3)])
def test_changed_counts_numbers_by_value(scale):
    draw = np.random.default_rng(3)
    before = pd.DataFrame({"item_id": range(50), "score": draw.choice([0, 0.5, 1.5, 3, np.nan], 50)})
    after = before.assign(score=draw.choice([0, 0.5, 1.5, 3, np.nan], 50))
    both = before["score"].notna() & after["score"].notna()
    n_changed = int((both & (before["score"] != after["score"])).sum())
    row = ek.compare(before, after, scale=scale).table.iloc[0]
    assert row[["n_verdicts", "changed"]].tolist() == [both.sum(), n_changed]
    assert f"{50 - both.sum()} of 50 items without a " in row["notes"]
    same = ek.compare(before, before.assign(score=before["score"] * (1 - 1e-12)), scale=scale).table.iloc[0]
    assert same["changed"] == 0


def test_without_ends_the_floor_counts_numbers_too():
    draw = np.random.default_rng(4)
    cells = [(item, "j", sample) for item in range(30) for sample in range(4)]
    before = pd.DataFrame(cells, columns=["item_id", "judge", "sample"]).assign(score=draw.integers(0, 9, 120))
    after = before[before["sample"] < 2].assign(score=draw.integers(0, 9, 60))
    row = ek.compare(before, after).table.iloc[0]
    assert row["floor_source"] == "measured"
    assert row["changed"] > 15
    assert row["floor"] > 0.5


def test_the_column_group_id_makes_clusters_as_that_of_items():
    draw = random.Random(12)
    for _ in range(2):
        groups = [draw.randrange(6) for _ in range(24)]
        plain = pd.DataFrame({"item_id": range(24), "score": [draw.randrange(2) for _ in range(24)]})
        own, items = plain.assign(group_id=groups), pd.DataFrame({"item_id": range(24), "group_id": groups})
        pd.testing.assert_frame_equal(ek.summarize(own, scale=[0, 1]), ek.summarize(plain, items=items, scale=[0, 1]))
        clusters, labels = dict(enumerate(groups)), plain.rename(columns={"score": "label"})[::-1]
        pd.testing.assert_frame_equal(ek.align(own, labels), ek.align(plain, labels, clusters=clusters))
        later = plain.assign(score=1)
        pd.testing.assert_frame_equal(ek.compare(own, later).table, ek.compare(plain, later, clusters=clusters).table)
    two = pd.DataFrame({"item_id": [1, 1], "system_id": ["x", "y"], "group_id": [1, 2], "score": [0, 1]})
    with pytest.raises(InputError, match="item 1 has two values in the column 'group_id'"):
        ek.summarize(two, by="system_id")


def test_an_item_may_have_several_pairs_of_systems():
    draw = random.Random(13)
    games = [(q, a, b, draw.choice(["A", "B", "tie"])) for q in range(30) for a, b in ("xy", "xz", "yz")]
    pairs = pd.DataFrame(games, columns=["item_id", "system_a", "system_b", "label"])
    for judged in (pairs, pairs.assign(judge="j"), pairs.sample(frac=1, random_state=1)):
        ranked = ek.rank(judged).set_index("system")
        for system in "xyz":
            results = [
                "t" if label == "tie" else "w" if (label == "A") == (a == system) else "l"
                for _, a, b, label in games
                if system in (a, b)
            ]
            wanted = [results.count(kind) for kind in "wlt"]
            assert ranked.loc[system, ["wins", "losses", "ties"]].tolist() == wanted
    by_id = ek.rank(
        pairs.assign(item_id=[f"{q}{a}{b}" for q, a, b, _ in games]), clusters={f"{q}{a}{b}": q for q, a, b, _ in games}
    )
    assert nearly(ek.rank(pairs)["strength_low"], by_id["strength_low"])  # the pairs of an item are a cluster
    with pytest.raises(InputError, match="needs a column 'label'"):
        ek.rank(pairs.rename(columns={"label": "score"}))


def test_few_or_no_rows_and_tables_of_groupby():
    scores = PLAIN.groupby("item_id").agg(score=("score", "mean"))
    assert ek.summarize(scores)["mean"].tolist() == [0.5]
    assert ek.summarize(scores["score"])["mean"].tolist() == [0.5]
    assert ek.summarize(scores.iloc[:1])["notes"].str.contains("fewer than two clusters").all()
    assert ek.summarize(scores * np.nan)[["n_items", "n_scored"]].values.tolist() == [[20, 0]]
    for made in (
        ek.summarize(scores.iloc[:0]),
        ek.align(PLAIN.iloc[:0], LABELS),
        ek.rank(PLAIN.assign(system_id=1)[:0]),
    ):
        assert len(made) == 0
    with pytest.raises(InputError, match="2 levels"):
        ek.summarize(PLAIN.groupby("item_id").agg({"score": ["mean"]}))
    estimate = ek.corpus_estimate(PLAIN, LABELS).iloc[0]
    assert (estimate["raw"], estimate["human"]) == (0.5, 1.0)
    assert "pass scale=" in estimate["notes"]


@pytest.mark.long
@pytest.mark.parametrize("scale", [None, (0, 3), Scale((0, 1, 3), level="interval")])
def test_numbers_are_counted_and_never_the_ends_of_their_scale(scale):
    draw = random.Random(8)
    for _ in range(4):
        scores = [[draw.choice([0.2, 0.4, 1.5, 2.0, 2.9, 3]) for _ in range(3)] for _ in range(12)]
        cells = [
            (item, judge, score) for item, row in enumerate(scores) for judge, score in zip("abc", row, strict=True)
        ]
        table = pd.DataFrame(cells, columns=["item_id", "judge", "score"])
        modes = [[value for value, n in Counter(row).items() if n == max(Counter(row).values())] for row in scores]
        wanted = [mode[0] if len(mode) == 1 else math.nan for mode in modes]
        by_majority = ek.aggregate(table, method="majority", scale=scale)
        assert nearly(by_majority["score"].to_numpy(float), wanted)
        assert by_majority["tied"].tolist() == [len(mode) > 1 for mode in modes]
        voted = ek.aggregate(ek.vote(table, scale=scale), method="majority")
        assert nearly(voted["score"].to_numpy(float), wanted)
        equal = [row[i] == row[j] for row in scores for i, j in ((0, 1), (0, 2), (1, 2))]
        assert nearly(ek.reliability(table, scale=scale)["percent_agreement"], np.mean(equal))
        votes = ek.vote(table, scale=scale)
        by_pair = [ek.reliability(votes[votes["judge"] != judge])["percent_agreement"].iloc[0] for judge in "abc"]
        assert nearly(np.mean(by_pair), np.mean(equal))
        apart = ek.disagreement(table, scale=scale)
        if scale is not None:
            assert apart["split"].tolist() == [len({*row}) > 1 for row in scores]
            assert nearly(apart["dissent_rate"], [1 - max(Counter(row).values()) / 3 for row in scores])
            entropy = [stats.entropy([*Counter(row).values()]) / math.log(3) for row in scores]
            assert nearly(apart["entropy"], entropy)
        people = pd.DataFrame({"item_id": range(12), "label": [row[0] for row in scores]})
        if scale is not None:
            judge = ek.align(table, people, scale=scale).set_index("judge")
            assert judge.loc["a", "accuracy"] == 1
            assert nearly(judge.loc["b", "accuracy"], np.mean([row[0] == row[1] for row in scores]))


def test_means_that_equal_a_code_have_no_verdict_either():
    draw = random.Random(5)
    for _ in range(2):
        cells = [(item, judge, draw.randrange(3)) for item in range(30) for judge in "abc"]
        answers = pd.DataFrame(cells, columns=["item_id", "judge", "score"])
        means = answers.groupby("item_id").agg(score=("score", "mean"))
        row = ek.summarize(means, scale=PASSES).iloc[0]
        assert (row["n_verdicts"], row["n_scored"]) == (0, 30)
        assert pd.isna(row["pass_rate"])
        assert "means of several answers" in row["notes"]
        votes = answers.assign(judge="j").groupby(["item_id", "judge"]).agg(score=("score", "mean"))
        scores = ek.aggregate(votes, scale=PASSES)
        assert scores["passed"].isna().all()
        assert (scores["status"] == "ok").all()
        assert scores["reason"].str.contains("means of several").all()
        labels = pd.DataFrame({"item_id": range(30), "label": 2})
        row = ek.align(means, labels, scale=PASSES).iloc[0]
        assert pd.isna(row["accuracy"])
        assert row["n_verdicts"] == 0
        assert "means of several answers" in row["notes"]
        row = ek.compare(means, means[::-1].assign(score=means["score"].to_numpy()), scale=PASSES).table.iloc[0]
        assert pd.isna(row["changed"])
        assert row["n_verdicts"] == 0
        # single answers have theirs, and so has another criterion of the same table
        both = pd.concat([means.reset_index().assign(criterion="x"), answers[::3].assign(criterion="y")])
        of_both = ek.summarize(both.drop(columns="judge"), scale=PASSES).set_index("criterion")
        assert of_both["n_verdicts"].tolist() == [0, 30]


def test_a_comparison_of_plain_samples_needs_no_weights():
    first = pd.DataFrame([(i, "g", k, (i + k) % 3) for i in range(8) for k in (0, 1)])
    first.columns = ["item_id", "judge", "sample", "score"]
    for scale in (None, [0, 1, 2], (0, 2)):
        row = ek.compare(first, first.assign(score=(first["score"] + 1) % 3), scale=scale).table.iloc[0]
        assert row["n_common"] == 8
        assert row["n_asked_again"] == 8


def test_booleans_have_the_figures_of_0_and_1():
    draw = random.Random(6)
    answers = [(draw.random() < 0.5, draw.random() < 0.6) for _ in range(40)]
    judged = pd.DataFrame({"item_id": range(40), "score": [judge for judge, _ in answers]})
    people = pd.DataFrame({"item_id": range(40), "label": [person for _, person in answers]})
    rows = [
        ek.align(
            judged.astype({"score": one}), people.astype({"label": other}), scale=Scale.of({0: "", 1: ""}, pass_at=1)
        ).iloc[0]
        for one in (int, bool)
        for other in (int, bool)
    ]
    rows += [
        ek.align(judged, people).iloc[0],
        ek.align(judged, people.assign(label=people["label"].astype(str))).iloc[0],
    ]
    for row in rows:
        gaps = [int(judge) - int(person) for judge, person in answers]
        wanted = [np.mean(np.equal(gaps, 0)), np.mean(np.abs(gaps)), np.mean(gaps)]
        assert nearly(row[["accuracy", "mae", "bias"]].astype(float), wanted)
        assert nearly(row["pearson"], stats.pearsonr(*zip(*answers, strict=True)).statistic)


def test_without_ends_people_have_no_accuracy_either():
    said = [(item, who, (item + shift) % 3) for item in range(20) for shift, who in enumerate(("ann", "bob"))]
    row = ek.align(PLAIN, pd.DataFrame(said, columns=["item_id", "annotator", "label"])).iloc[0]
    assert row[["accuracy", "accuracy_people", "kappa_people"]].isna().all()
    assert not pd.isna(row["spearman_people"])
