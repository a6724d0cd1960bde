"""What a jury is worth: leave one judge out."""

import math
import re
import warnings
from functools import partial

import alignment_tables
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY, DECIMAL, NAMES, TOPIC, answered, judgments
from llmbar import juries

from evalkit.errors import ConfigError
from evalkit.rubrics import Scale
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.judge_contributions import jury_value
from evalkit.stats.voting import vote
from evalkit.tables import schemas

PLAIN = Scale.of({1: "", 2: "", 3: "", 4: "", 5: ""})


def votes_of(given, scale=BINARY):
    return vote(answered(given, scale))


labels_of = partial(alignment_tables.labels_of, item="i{:03}")


def by_judge(made):
    return made.set_index("judge")


@pytest.mark.parametrize("seed", range(8))
def test_effect_is_the_difference_of_the_figures_shown(seed):
    rng = np.random.default_rng(seed)
    # four samples of a judge may tie, so that a smaller jury has no answer where the whole one has
    cells = {(f"i{item:03}", name): rng.integers(0, 2, 4).tolist() for item in range(30) for name in "abc"}
    people = labels_of({"ann": rng.integers(0, 2, 30).tolist()})
    made = by_judge(jury_value(vote(judgments(cells, BINARY)), people))
    for row in made.loc[["a", "b", "c"]].itertuples():
        differs = abs(made.loc["jury", "value"] - row.without - row.effect) > 1e-9
        told = re.search(r"has no answer on \d+ of \d+ items: .* the jury has ([\d.]+)", str(row.notes))
        jury = float(told[1]) if told else made.loc["jury", "value"]
        assert jury - row.without == pytest.approx(row.effect, abs=0.005)
        assert told or not differs


# -- leave one judge out


def test_by_hand():
    # Truth 1 1 0 0. a: 3 of 4 right, b: all, c: 1 of 4. Jury 1 1 0 1: b and a outvote c but on the last item.
    # Without a: b, c: tie, right, tie, tie → (½ + 1 + ½ + ½)/4 = .625. Without b: right, right... see the code.
    made = by_judge(
        jury_value(
            votes_of({"a": [1, 1, 0, 1], "b": [1, 1, 0, 0], "c": [0, 1, 1, 1]}), labels_of({"ann": [1, 1, 0, 0]})
        )
    )
    assert made.loc["jury", "value"] == 0.75
    assert made["value"].tolist() == [0.75, 0.75, 1.0, 0.25]
    # Without b: tie, right, tie, wrong = 2/4. Without c: right, right, right, tie = 3.5/4.
    assert made["without"].tolist()[1:] == [0.625, 0.5, 0.875]
    assert made["effect"].tolist()[1:] == [0.125, 0.25, -0.125]
    assert made["best"].tolist() == [False, False, True, False]
    assert made["notes"].iloc[0].startswith("best single judge 'b' at 1")
    assert (made["figure"] == "accuracy").all()
    assert (made["n_judges"] == 3).all()


def test_the_effect_interval_leaves_clusters_out():
    draw = np.random.default_rng(4)
    truth = draw.integers(0, 2, 40)
    answers = {
        name: np.where(draw.random(40) < share, truth, 1 - truth).tolist()
        for name, share in {"a": 0.9, "b": 0.75, "c": 0.6}.items()
    }
    clusters = {f"i{item:03}": f"g{item // 4}" for item in range(40)}
    votes, labels = votes_of(answers), labels_of({"ann": truth.tolist()})
    row = by_judge(jury_value(votes, labels, clusters=clusters)).loc["a"]
    parts = []
    for out in range(10):
        kept = [item for item in range(40) if item // 4 != out]
        names = {f"i{item:03}" for item in kept}
        some = votes[votes["item_id"].isin(names)].reset_index(drop=True)
        parts.append(by_judge(jury_value(some, labels)).loc["a", "effect"])
    parts = np.array(parts)
    half = 2.262157 * math.sqrt(9 / 10 * ((parts - parts.mean()) ** 2).sum())  # t with nine degrees of freedom
    assert row["effect_low"] == pytest.approx(row["effect"] - half, abs=1e-6)
    assert row["effect_high"] == pytest.approx(row["effect"] + half, abs=1e-6)


CELL = st.one_of(st.none(), st.integers(1, 5))


@settings(max_examples=5)
@given(
    st.lists(st.lists(CELL, min_size=8, max_size=8), min_size=2, max_size=4),
    st.lists(st.lists(CELL, min_size=8, max_size=8), min_size=1, max_size=3),
    st.sampled_from(["quadratic_kappa", "pearson", "mae"]),
    st.sampled_from(["mean", "median"]),
)
def test_every_value_is_that_of_align(rows, people, figure, method):
    answers = {f"j{n}": row for n, row in enumerate(rows)}
    votes, labels = votes_of(answers, PLAIN), labels_of({f"p{n}": row for n, row in enumerate(people)})
    if not len(labels):
        return
    made = by_judge(jury_value(votes, labels, figure=figure, method=method))
    jury = aggregate(votes, method=method)
    # the labelled items that the jury and every judge scored (one that scored nothing is not waited for)
    people_of = set(labels["item_id"])
    known = [set(jury.loc[jury["score"].notna(), "item_id"])]
    known += [set(own.loc[own["score"].notna(), "item_id"]) for _, own in votes.groupby("judge", observed=True)]
    common = set.intersection(*[one & people_of for one in known if one & people_of] or [set()])
    shared = common or people_of
    assert made["same_items"].all() == bool(common)
    alone = align(votes[votes["item_id"].isin(shared)], labels).set_index("judge")
    whole = align(jury[jury["item_id"].isin(shared)], labels)
    expected = [float(whole[figure].iloc[0]), *(float(alone.loc[judge, figure]) for judge in answers)]
    assert made["value"].tolist() == pytest.approx(expected, nan_ok=True, abs=1e-9)
    for judge in answers:
        rest = votes[votes["judge"] != judge].reset_index(drop=True)
        with_it, without = aggregate(votes, method=method), aggregate(rest, method=method)
        both = without["score"].notna() & with_it["score"].notna()
        kept = set(with_it.loc[both, "item_id"]) & shared
        if not kept & set(labels["item_id"]):
            assert math.isnan(made.loc[judge, "effect"])
            continue
        sides = [align(one[one["item_id"].isin(kept)].reset_index(drop=True), labels) for one in (with_it, without)]
        gain = float(sides[0][figure].iloc[0]) - float(sides[1][figure].iloc[0])
        gain = -gain if figure == "mae" else gain
        assert made.loc[judge, "effect"] == pytest.approx(gain, nan_ok=True, abs=1e-9)


def test_weights_references_and_judges_that_weigh_nothing():
    answers = {"a": [1, 5, 3, 2, 4], "b": [2, 4, 3, 1, 5], "c": [5, 1, 1, 5, 1]}
    votes = votes_of(answers, PLAIN)
    labels = labels_of({"p": [1, 5, 3, 1, 4], "q": [2, 5, 2, 2, 5]})
    heavy = by_judge(jury_value(votes, labels, weights={"a": 3}, figure="mae"))
    # Weighted means 1.6+... of a, b, c at 3:1:1; against p: |(3·1+2+5)/5 − 1| = 1 and so on, by numpy.
    scores = np.average(np.array(list(answers.values())), axis=0, weights=[3, 1, 1])
    gaps = [np.abs(scores - row).mean() for row in ([1, 5, 3, 1, 4], [2, 5, 2, 2, 5])]
    assert heavy.loc["jury", "value"] == pytest.approx(np.mean(gaps))
    rest = np.average(np.array([answers["a"], answers["b"]]), axis=0, weights=[3, 1])
    gaps = [np.abs(rest - row).mean() for row in ([1, 5, 3, 1, 4], [2, 5, 2, 2, 5])]
    assert heavy.loc["c", "without"] == pytest.approx(np.mean(gaps))
    assert heavy.loc["c", "effect"] < 0
    without_c = jury_value(votes, labels, weights={"c": 0})
    assert without_c["judge"].tolist() == ["jury", "a", "b"]
    mean = by_judge(jury_value(votes, labels, reference="mean", figure="mae"))
    people = np.mean([[1, 5, 3, 1, 4], [2, 5, 2, 2, 5]], axis=0)
    assert mean.loc["a", "value"] == pytest.approx(np.abs(np.array(answers["a"]) - people).mean())
    with pytest.raises(ConfigError, match="figure='f1'"):
        jury_value(votes, labels, figure="f1")
    with pytest.raises(ConfigError, match="reference='median'"):
        jury_value(votes, labels, reference="median")
    with pytest.raises(ConfigError, match="unknown judges in weights: 'z'"):
        jury_value(votes, labels, weights={"z": 1})


# -- degenerate input


@pytest.mark.parametrize(
    ("answers", "scale", "people"),
    [
        ({"a": [1], "b": [0]}, BINARY, {"p": [1]}),
        ({"a": [1, 0, 1]}, BINARY, {"p": [1, 0, 0]}),
        ({"a": [1, 1, 1], "b": [1, 1, 1]}, BINARY, {"p": [1, 1, 1]}),
        ({"a": [3, 3, 3], "b": [3, 3, 3]}, PLAIN, {"p": [3, 3, 3], "q": [3, 3, 3]}),
        ({"a": [None, None], "b": [None, None]}, BINARY, {"p": [1, 0]}),
        ({"a": ["art", "law"], "b": ["law", "law"]}, NAMES, {"p": ["art", "law"]}),
        ({"a": ["art", "law"], "b": ["law", "law"]}, TOPIC, {"p": ["art", None], "q": [None, "law"]}),
        ({"a": [0.5, 0.2], "b": [0.1, 0.2]}, DECIMAL, {"p": [None, 1]}),
        ({"a": [1, None], "b": [None, 1]}, BINARY, {"p": [1, 1]}),
    ],
)
def test_degenerate_input_gives_na_with_reasons_and_no_warnings(answers, scale, people):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = jury_value(votes_of(answers, scale), labels_of(people))
    assert made["judge"].tolist() == ["jury", *answers]
    for row in made.to_dict("records"):
        for figure in ("value", "effect"):
            if math.isnan(row[figure]) and not (figure == "effect" and row["judge"] == "jury"):
                assert isinstance(row["notes"], str)


def test_empty_shuffled_and_dawid_skene():
    assert len(jury_value(schemas.empty("votes"), schemas.empty("labels"))) == 0
    answers = {"a": [1, 0, 1, 1], "b": [1, 1, 0, 1], "c": [0, 0, 1, 1]}
    votes, labels = votes_of(answers), labels_of({"p": [1, 0, 1, 0]})
    first = jury_value(votes, labels)
    mixed = jury_value(votes.sample(frac=1, random_state=1).reset_index(drop=True), labels)
    assert by_judge(mixed).loc[["jury", "a", "b", "c"], "value"].tolist() == first["value"].tolist()
    three = jury_value(votes, labels, method="dawid_skene")
    assert "no jury is left without it" in three["notes"].iloc[1]
    four = jury_value(votes_of(answers | {"d": [1, 0, 1, 0]}), labels, method="dawid_skene")
    assert four["without"].iloc[1:].notna().all()


def test_recorded_juries(published_data):
    n_juries = 0
    for name, votes, gold, published in juries(published_data):
        labels = pd.DataFrame({"item_id": gold.index, "criterion": "c", "annotator": "gold", "label": gold.to_numpy()})
        made = by_judge(jury_value(votes, labels, method="majority", quorum=0))
        # Items without any vote, and ties, count half in the published figure; here only ties have a row to count.
        silent = int((votes.groupby("item_id")["n_scored"].sum() == 0).sum())
        n, jury = len(gold), aggregate(votes, method="majority", quorum=0)
        whole = align(jury, labels, ties="half").iloc[0]
        assert (whole["accuracy"] * (n - silent) + silent / 2) / n == pytest.approx(
            published["majority_accuracy_tie_half"], abs=1e-6
        )
        # jury_value is on the items that all judges scored: so is align on those
        scored = votes.groupby("item_id")["n_scored"].sum() == votes["judge"].nunique()
        some = labels[labels["item_id"].isin(scored[scored].index)]
        alone = align(votes, some, ties="half").set_index("judge")["accuracy"]
        assert made.loc["jury", "value"] == pytest.approx(align(jury, some, ties="half")["accuracy"].iloc[0])
        assert made["value"].iloc[1:].tolist() == pytest.approx([alone[judge] for judge in made.index[1:]])
        assert made["same_items"].all()
        if name == "Metrics_Reference/GPTInst/AB_only":
            assert made["best"].idxmax() == "GPT-4"
            assert made.loc["GPT-4", "value"] > made.loc["jury", "value"] + 0.2
        n_juries += 1
    assert n_juries == 16
