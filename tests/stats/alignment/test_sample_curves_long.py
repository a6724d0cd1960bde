"""k-curves: against votes on real subsets, exact laws, and published curves."""

import gzip
import itertools
import json
import math
import warnings

import alignment_tables
import numpy as np
import pandas as pd
import pytest
from judgment_tables import BINARY, NAMES, ORDINAL, PAIR, PLAIN, imported, judgments, published_rows
from scipy.stats import spearmanr

from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import Scale
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.sample_curves import k_curve
from evalkit.stats.voting import vote
from evalkit.tables import schemas


def table_of(answers, scale=BINARY, judge="j"):
    return judgments({(f"i{n:03}", judge): codes for n, codes in enumerate(answers)}, scale)


def labels_of(*columns):
    return alignment_tables.labels_of({f"p{at}": column for at, column in enumerate(columns)}, item="i{:03}")


def simulated(n_items, k, seed, scale=PLAIN):
    draw = np.random.default_rng(seed)
    truth = draw.integers(0, 3, n_items)
    lowest = int(scale.lowest)
    said = np.clip(truth[:, None] + draw.integers(-1, 2, (n_items, k)), 0, 2) + lowest
    return [row.tolist() for row in said], (truth + lowest).tolist()


def test_exact_by_hand():
    # Three samples: 110, 111, 001, 000; truth 1 1 0 0. One sample: right with 2/3, 1, 2/3, 1: 10/12. Two of three
    # of 110: both pass with 1/3, else a tie; so right 1/3 + 1 + 1/3 + 1 of as many verdicts: 1. Three: all right.
    said = [[1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0]]
    made = k_curve(table_of(said), labels_of([1, 1, 0, 0])).set_index("k")
    assert made["exact"].tolist()[:3] == pytest.approx([10 / 12, 1, 1])
    assert made["prefix"].tolist()[:3] == [1, 1, 1]
    wrong = k_curve(table_of(said), labels_of([1, 1, 0, 0]), figures=["false_pass_rate", "false_fail_rate"], ks=[1])
    assert wrong["exact"].tolist() == pytest.approx([1 / 6, 1 / 6])
    # σ²_e: variances 1/3, 0, 1/3, 0, so 1/6; σ²_i = variance of the means − σ²_e/3; Φ(k) = σ²_i/(σ²_i + σ²_e/k).
    item = np.var([2 / 3, 1, 1 / 3, 0], ddof=1) - 1 / 18
    assert made["phi"].tolist() == pytest.approx([item / (item + 1 / 6 / k) for k in (1, 2, 3, 6)])
    assert made["extrapolated"].tolist() == [False, False, False, True]
    assert "extrapolated: phi alone" in made.loc[6, "notes"]


def test_draws_estimate_the_exact_law():
    said, truth = simulated(40, 5, 3, Scale.of({0: "", 1: "", 2: ""}, pass_at=1))
    made = k_curve(table_of(said, ORDINAL), labels_of(truth), ks=[1, 3], figures=["accuracy", "false_pass_rate"])
    for row in made.to_dict("records"):
        # Mean of 200 independent draws (odd k, nothing unscored: no ties): four of its standard errors.
        spread = row["sd_subsets"] if row["k"] == 1 else 0.06
        assert abs(row["value"] - row["exact"]) < 4 * spread / math.sqrt(200)


def test_the_mean_over_draws_is_the_mean_over_all_subsets():
    # Two items fixed at extremes, one with 3 different samples, so all subsets can be listed: 2 of 3 per item.
    said = [[1, 1, 2], [2, 3, 3], [1, 2, 3], [3, 3, 3]]
    people = [1, 3, 2, 3]
    every = [
        [np.mean(pair) for pair in chosen]
        for chosen in itertools.product(*(list(itertools.combinations(row, 2)) for row in said))
    ]
    gaps = np.array([np.abs(np.subtract(row, people)).mean() for row in every])
    made = k_curve(table_of(said, PLAIN), labels_of(people), figures=["mae"], ks=[2], draws=2000).iloc[0]
    assert abs(made["value"] - gaps.mean()) < 4 * gaps.std() / math.sqrt(2000)
    assert made["n_draws"] == 2000


@pytest.mark.parametrize("method", ["mean", "median"])
@pytest.mark.parametrize("scale", [PLAIN, ORDINAL])
def test_prefix_and_whole_are_votes_and_align(method, scale):
    said, truth = simulated(25, 6, 7, scale)
    said[3][1] = said[4][0] = said[4][5] = "!empty"
    table, labels = table_of(said, scale), labels_of(truth, [*truth[:10], *([None] * 15)])
    names = ["accuracy", "kappa", "spearman", "pearson", "mae", "quadratic_kappa"]
    made = k_curve(table, labels, method=method, figures=names, ks=[1, 2, 4, 6], draws=4)
    for k, part in made.groupby("k"):
        few = table[table["sample"] < k].reset_index(drop=True)
        found = align(vote(few, method=method), labels).iloc[0]
        assert part["prefix"].tolist() == pytest.approx([found[name] for name in names], abs=1e-9)
    whole = made[made["k"] == 6]
    assert whole["value"].tolist() == pytest.approx(whole["prefix"].tolist())
    # At k = K the band is the jackknife of the figure itself.
    assert whole["low"].tolist() == pytest.approx([found[f"{name}_low"] for name in names], abs=1e-6, nan_ok=True)
    assert whole["sd_subsets"].isna().all()
    assert made.loc[made["k"] == 4, "sd_subsets"].isna().all()
    assert made.loc[made["k"] == 2, "sd_subsets"].notna().all()


def test_a_label_that_only_samples_have_is_a_wrong_answer_and_no_missing_one():
    # Three samples of the first item: right with 2/3. No vote and no person says sport.
    table = table_of([["sport", "art", "art"], ["law", "law", "law"]], NAMES)
    made = k_curve(table, labels_of(["art", "law"]), ks=[1, 3], draws=2000).set_index("k")
    assert made["prefix"].tolist() == [0.5, 1]
    assert made["value"].tolist() == pytest.approx([5 / 6, 1], abs=0.03)


def test_nominal_labels_take_the_majority():
    said = [["art", "art", "law"], ["law", "law", "law"], ["sport", "art", "sport"]]
    table, labels = table_of(said, NAMES), labels_of(["art", "law", "art"])
    made = k_curve(table, labels, ks=[1, 2, 3])
    for k, row in made.set_index("k").iterrows():
        few = table[table["sample"] < k].reset_index(drop=True)
        assert row["prefix"] == pytest.approx(align(vote(few), labels)["accuracy"].iloc[0])
    assert made["figure"].tolist() == ["accuracy"] * 3
    assert made["phi"].isna().all()


def test_items_with_fewer_samples_are_left_out():
    said = [[1, 2, 3], [2, 2], [3], [1, 1, 2]]
    made = k_curve(table_of(said, PLAIN), labels_of([1, 2, 3, 1]), figures=["mae"], ks=[1, 2, 3]).set_index("k")
    assert made["n_items"].tolist() == [4, 3, 2]
    assert made.loc[3, "value"] == pytest.approx((1 + 1 / 3) / 2)


def test_several_judges_shuffled_rows_and_seed():
    first, truth = simulated(12, 4, 1)
    second, _ = simulated(12, 4, 2)
    both = pd.concat([table_of(first, PLAIN, "a"), table_of(second, PLAIN, "b")], ignore_index=True)
    made = k_curve(both, labels_of(truth), draws=5)
    assert made["judge"].tolist() == ["a"] * 5 + ["b"] * 5
    mixed = k_curve(both.sample(frac=1, random_state=3).reset_index(drop=True), labels_of(truth), draws=5)
    mixed = mixed.astype({"judge": object}).sort_values(["judge", "k"], ignore_index=True)
    for name in ("value", "prefix", "low", "phi", "sd_subsets"):
        assert mixed[name].tolist() == pytest.approx(made[name].tolist(), nan_ok=True)


DEGENERATE = {
    "one item": (table_of([[1, 0, 1]]), labels_of([1])),
    "one sample": (table_of([[1], [0], [1]]), labels_of([1, 0, 0])),
    "all equal": (table_of([[1, 1]] * 4), labels_of([1] * 4)),
    "all equal scores": (table_of([[2, 2]] * 4, PLAIN), labels_of([2] * 4)),
    "all unscored": (table_of([["!empty", "!empty"]] * 3), labels_of([1, 0, 1])),
    "unlabelled": (table_of([[1, 0]] * 3), labels_of([None, 1, None])),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_input_gives_na_with_reasons_and_no_warnings(name):
    table, labels = DEGENERATE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = k_curve(table, labels, figures=["accuracy", "spearman", "mae"], draws=3)
    assert len(made)
    assert (made["value"].notna() | made["notes"].notna()).all()
    assert (made["phi"].notna() | made["notes"].notna()).all()
    spearman = made.loc[(made["figure"] == "spearman").to_numpy(), "value"]
    # One sample each of three items, 1 0 1 against 1 0 0: ranks that correlate at .5.
    assert spearman.dropna().round(9).tolist() == ([0.5] if name == "one sample" else [])


def test_without_labels_there_is_phi_alone():
    said, truth = simulated(20, 4, 6)
    table = table_of(said, PLAIN)
    alone, whole = k_curve(table), k_curve(table, labels_of(truth), draws=2)
    assert alone["phi"].tolist() == pytest.approx(whole["phi"].tolist())
    assert alone[["value", "low", "prefix", "exact"]].isna().all(axis=None)
    assert alone["notes"].tolist() == ["no labels: phi alone"] * 4 + ["extrapolated: phi alone"]
    assert alone["n_items"].eq(0).all()


def test_what_is_refused_and_empty():
    table, labels = table_of([[1, 0], [0, 0]]), labels_of([1, 0])
    for options in ({"figures": ["f1"]}, {"figures": "mae"}, {"method": "mode"}, {"ks": [0]}, {"ks": []}, {"draws": 0}):
        with pytest.raises(ConfigError, match=f"^(k_curve got )?{next(iter(options))}(=| must be)"):
            k_curve(table, labels, **options)
    with pytest.raises(InputError, match="judgments of pairs"):
        k_curve(judgments({("i", "j"): {"AB": ["A"]}}, PAIR), labels)
    with pytest.raises(InputError, match="k_curve: this is a table of votes"):
        k_curve(vote(table), labels)
    assert len(k_curve(schemas.empty("judgments"), labels)) == 0


@pytest.mark.parametrize("prompt", ["naturalness/geval", "engagingness/geval"])
def test_published_curves(published_data, prompt):
    reference = json.loads((published_data / "reference.json").read_text())["topicalchat_gpt35"]["values"][prompt]
    with gzip.open(published_data / "topicalchat_ref_parsed.json.gz", "rt") as file:
        parsed = json.load(file)[prompt]
    rows = published_rows(published_data, f"topicalchat_gpt35_{prompt.split('/')[0]}")
    rows = rows[rows["prompt_id"] == prompt]
    people = dict(zip(rows["item_id"], rows["human_mean"], strict=True))
    # The authors read some replies as numbers off the scale: an interval scale from 0 takes what they took.
    values = [score for scores in parsed.values() for score in scores if score is not None]
    scale = Scale.of({min(0, int(min(values))): "", max(10, math.ceil(max(values))): ""}, level="interval")
    read = {item: parsed[item] for item in rows["item_id"]}
    table = imported(rows.drop(columns="criterion"), scale, judge="openai:gpt", score=read, codes={None: "unreadable"})
    labels = pd.DataFrame({"item_id": list(people), "criterion": "c", "annotator": "mean", "label": people.values()})
    made = k_curve(table, labels, figures=["pearson", "spearman"], ks=[1, 3, 5, 10, 20])
    cells = made.set_index(["figure", "k"])
    for k in (1, 3, 5, 10, 20):
        published = reference["k_curve"][f"prefix{k}/mean"]
        for name in ("pearson", "spearman"):
            assert cells.loc[(name, k), "prefix"] == pytest.approx(published[f"dataset_{name}"], abs=1e-6)
        if k < 20:
            drawn = reference["k_curve"][f"random{k}/mean"]
            # Both are means of independent draws: five standard errors of their difference, at 20 draws there.
            slack = 5 * drawn["sd_spearman"] * math.sqrt(1 / 200 + 1 / 20)
            assert abs(cells.loc[("spearman", k), "value"] - drawn["dataset_spearman"]) < slack
            assert abs(cells.loc[("pearson", k), "value"] - drawn["dataset_pearson"]) < slack
            if k <= 10:
                assert cells.loc[("spearman", k), "sd_subsets"] == pytest.approx(drawn["sd_spearman"], rel=0.5)
    means = table.groupby("item_id")["score"].mean()
    found = spearmanr(means, pd.Series(people).reindex(means.index), nan_policy="omit").statistic
    assert cells.loc[("spearman", 20), "value"] == pytest.approx(found)
