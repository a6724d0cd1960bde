"""Figures between systems, parts of labels, and the count of looks at those held out."""

import hashlib
import json
import math
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from alignment_tables import labels_of, one, votes_of
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import BINARY
from pandas.testing import assert_frame_equal

from evalkit.errors import CacheError, ConfigError, InputError
from evalkit.stats.alignment.judge_alignment import align
from evalkit.stats.alignment.label_splits import held_out_looks, split_labels
from evalkit.tables import schemas

PAIRS = {f"i{n}": f"s{n // 2}" for n in range(6)}


def test_between_systems_by_hand():
    # Judge's means 2, 3, 5 and people's 1, 3, 4: deviations (−4, −1, 5)/3 and (−5, 1, 4)/3, so
    # r = (20 − 1 + 20)/√(42·42) = 39/42. Lin with 1/n: 2·39/27 / (42/27 + 42/27 + (2/3)²) = 78/96. Bias (1 + 0 + 1)/3.
    row = one([1, 3, 2, 4, 5, 5], {"ann": [1, 1, 3, 3, 4, 4]}, level="system", systems=PAIRS)
    assert row["pearson"] == pytest.approx(39 / 42)
    assert row["quadratic_kappa"] == pytest.approx(78 / 96)
    assert (row["spearman"], row["kendall"]) == (1, 1)
    assert row["bias"] == row["mae"] == pytest.approx(2 / 3)
    assert (row["n_systems"], row["n_scored"]) == (3, 6)
    assert math.isnan(row["accuracy"])
    assert "accuracy, kappa and false rates: systems have no verdicts" in row["notes"]
    row = one(
        [1, 3, 2, 4, 5, 5], {"ann": [1, 1, 3, 3, 4, 4]}, level="system", systems=PAIRS, figures=["macro_f1", "bias"]
    )
    assert "macro_f1 and false rates: systems have no verdicts" in row["notes"]


def test_a_mean_takes_only_the_items_that_both_scored():
    # i1 has no label and i3 no score: the means are 1 and 2, 2 and 3, 4 and 5 against the same.
    row = one([1, 5, 2, None, 4, 4], {"ann": [1, None, 2, 1, 4, 4]}, level="system", systems=PAIRS)
    assert row["pearson"] == pytest.approx(1)
    assert row["mae"] == 0


def test_people_among_themselves_are_of_the_same_level():
    # On items the annotators disagree, on the systems' means (2, 3, 4 and 2, 3, 4) they agree.
    people = {"a": [1, 3, 2, 4, 3, 5], "b": [3, 1, 4, 2, 5, 3]}
    between = one([1, 1, 2, 2, 3, 3], people, level="system", systems=PAIRS)
    assert between["spearman_people"] == pytest.approx(1)
    assert between["spearman"] == pytest.approx(1)
    assert one([1, 1, 2, 2, 3, 3], people)["spearman_people"] < 0.5
    # Against the mean of the others the judge stands in each annotator's place.
    assert one([1, 1, 2, 2, 3, 3], people, level="system", systems=PAIRS, reference="mean")["spearman_as_peer"] == 1


def test_people_are_compared_inside_groups():
    # Inside both groups the annotators rank alike, over all items they do not (b's groups are far apart).
    people = {"a": [1, 2, 3, 1, 2, 3], "b": [3, 4, 5, 1, 2, 3]}
    clusters = {f"i{n}": "gh"[n // 3] for n in range(6)}
    assert one([1, 2, 3, 1, 2, 3], people, level="group", clusters=clusters)["spearman_people"] == pytest.approx(1)


def test_systems_come_from_items_a_series_a_mapping_or_a_column():
    votes, labels = votes_of([1, 3, 2, 4, 5, 5]), labels_of({"ann": [1, 1, 3, 3, 4, 4]})
    expected = align(votes, labels, level="system", systems=PAIRS)
    items = pd.DataFrame({"item_id": list(PAIRS), "system_id": list(PAIRS.values())})
    column = votes.assign(model=votes["item_id"].map(PAIRS))
    for judged, systems in ((votes, items), (votes, pd.Series(PAIRS)), (column, "model")):
        assert_frame_equal(align(judged, labels, level="system", systems=systems), expected)
    with pytest.raises(ConfigError, match="level='system' needs systems=, either items"):
        align(votes, labels, level="system")
    with pytest.raises(InputError, match="systems= has no column 'system_id'"):
        align(votes, labels, level="system", systems=items.drop(columns="system_id"))
    with pytest.raises(InputError, match="systems='model' is not a column"):
        align(votes, labels, level="system", systems="model")
    with pytest.raises(InputError, match="'i0' belongs to two systems"):
        align(votes, labels, level="system", systems=pd.concat([items, items.assign(system_id="x")]))


def test_the_bootstrap_is_for_the_corpus():
    votes, labels = votes_of([1, 2, 3]), labels_of({"ann": [1, 2, 3]})
    with pytest.raises(ConfigError, match="level='system' takes 'jackknife' or None"):
        align(votes, labels, level="system", systems=PAIRS, interval="bootstrap")


def test_few_systems_and_items_without_one():
    row = one([1, 3, 2, 4], {"ann": [1, 1, 3, 3]}, level="system", systems={"i0": "x", "i1": "x", "i2": "y"})
    assert row["n_systems"] == 2
    assert row[["pearson", "spearman", "kendall"]].isna().all()
    assert "1 items have no system" in row["notes"]
    assert "pearson, spearman, kendall: there are under three systems" in row["notes"]
    assert len(align(schemas.empty("votes"), labels_of({"a": [1]}), level="system", systems=PAIRS)) == 0
    nobody = one([1, 2], {"ann": [1, 2]}, level="system", systems={})
    assert nobody["n_systems"] == 0
    assert math.isnan(nobody["mae"])


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.one_of(st.none(), st.integers(1, 5)), st.integers(0, 4)),
        min_size=1,
        max_size=30,
    )
)
def test_between_systems_figures_are_those_of_scipy_on_groupby_means(rows):
    from scipy.stats import kendalltau, pearsonr, spearmanr

    systems = {f"i{n}": f"s{system}" for n, (_, _, system) in enumerate(rows)}
    people = {"ann": [label for _, label, _ in rows]}
    row = one([code for code, _, _ in rows], people, level="system", systems=systems, interval=None)
    frame = pd.DataFrame(rows, columns=["x", "y", "system"]).dropna().astype(float)
    means = frame.groupby("system").mean().round(10)
    if not len(means):
        assert math.isnan(row["mae"])
        return
    assert row["mae"] == pytest.approx((means["x"] - means["y"]).abs().mean())
    if len(means) > 2 and means["x"].nunique() > 1 and means["y"].nunique() > 1:
        assert row["pearson"] == pytest.approx(pearsonr(means["x"], means["y"]).statistic, abs=1e-9)
        assert row["spearman"] == pytest.approx(spearmanr(means["x"], means["y"]).statistic, abs=1e-9)
        assert row["kendall"] == pytest.approx(kendalltau(means["x"], means["y"]).statistic, abs=1e-9)
    else:
        assert math.isnan(row["pearson"])


def test_the_interval_between_systems_leaves_out_clusters():
    draw = np.random.default_rng(3)
    codes, people = draw.integers(1, 6, 40).tolist(), {"ann": draw.integers(1, 6, 40).tolist()}
    systems = {f"i{n}": f"s{n % 5}" for n in range(40)}
    documents = {f"i{n}": f"d{n // 5}" for n in range(40)}
    votes, labels = votes_of(codes), labels_of(people)
    whole = align(votes, labels, level="system", systems=systems, clusters=documents).iloc[0]
    values = []
    for left in sorted(set(documents.values())):
        part = votes[(votes["item_id"].map(documents).astype(str) != left).to_numpy()]
        values.append(align(part, labels, level="system", systems=systems, interval=None).iloc[0]["pearson"])
    z = np.arctanh(values)
    half = 2.364624 * math.sqrt(7 / 8 * ((z - z.mean()) ** 2).sum())  # t with 7 degrees of freedom
    assert whole["pearson_low"] == pytest.approx(math.tanh(math.atanh(whole["pearson"]) - half), abs=1e-6)
    assert whole["pearson_high"] == pytest.approx(math.tanh(math.atanh(whole["pearson"]) + half), abs=1e-6)


def test_a_constant_side_has_kappa_zero_without_an_interval():
    row = one([1] * 12, {"ann": [1, 0] * 6}, BINARY)
    assert row["kappa"] == 0
    assert math.isnan(row["kappa_low"])
    assert "kappa, quadratic_kappa: under 3 answers of a judge or annotator are unlike most" in row["notes"]


# -- parts of labels


def many(n, annotators=("ann",), criterion="c"):
    draw = np.random.default_rng(n)
    return labels_of({name: draw.integers(1, 6, n).tolist() for name in annotators}, criterion)


def test_the_part_follows_from_the_sha256_of_the_item():
    made = split_labels(many(300, ("a", "b")))
    for item, part in zip(made["item_id"], made["part"], strict=True):
        share = int(hashlib.sha256(item.encode()).hexdigest()[:16], 16) / 16**16
        assert part == ("dev" if share < 0.6 else "held-out")
    assert 0.3 < (made["part"] == "held-out").mean() < 0.5


@settings(max_examples=20)
@given(st.permutations(range(60)))
def test_shuffled_labels_fall_into_the_same_parts(order):
    labels = many(60)
    made = split_labels(labels)
    shuffled = split_labels(labels.iloc[order])
    assert shuffled.sort_index()["part"].tolist() == made["part"].tolist()


def test_clusters_stay_together_and_are_what_is_hashed():
    clusters = {f"i{n}": f"doc{n // 6}" for n in range(120)}
    made = split_labels(many(120), clusters)
    by_document = made.groupby(made["item_id"].map(clusters).astype(str))["part"].nunique()
    assert (by_document == 1).all()
    assert made["part"].nunique() == 2
    for item, part in zip(made["item_id"], made["part"], strict=True):
        share = int(hashlib.sha256(clusters[item].encode()).hexdigest()[:16], 16) / 16**16
        assert part == ("dev" if share < 0.6 else "held-out")


def test_under_fifty_labelled_items_nothing_is_held_out():
    assert set(split_labels(many(49, ("a", "b")))["part"]) == {"dev"}
    assert set(split_labels(many(50))["part"]) == {"dev", "held-out"}
    # Each criterion by itself; and a missing label is none.
    both = split_labels(pd.concat([many(80), many(20, criterion="d")], ignore_index=True))
    assert set(both.loc[both["criterion"] == "c", "part"]) == {"dev", "held-out"}
    assert set(both.loc[both["criterion"] == "d", "part"]) == {"dev"}
    holes = many(60)
    holes.loc[:10, "label"] = None
    assert set(split_labels(holes)["part"]) == {"dev"}
    empty = split_labels(schemas.empty("labels"))
    assert (len(empty), "part" in empty) == (0, True)


def test_align_takes_the_dev_part_unless_told_otherwise(tmp_path):
    labels = split_labels(many(80))
    votes = votes_of([1, 5] * 40)
    n_dev = int((labels["part"] == "dev").sum())
    plain = align(votes, labels).iloc[0]
    assert plain["n_labelled"] == n_dev
    assert "tuned on these labels" in plain["notes"]
    assert "n_looks" not in plain
    assert len(held_out_looks(tmp_path)) == 0
    held = align(votes, labels, part="held-out", cache=tmp_path).iloc[0]
    assert held["n_labelled"] == 80 - n_dev
    assert "held-out labels" in held["notes"]
    assert (held["n_looks"], held["n_versions"]) == (1, 1)
    assert_frame_equal(align(votes, labels, part="dev"), align(votes, labels))


def test_looks_are_counted_with_the_version(tmp_path):
    labels = split_labels(many(80))
    votes = votes_of([1, 5] * 40)
    again = votes.assign(rubric_version=pd.Categorical(["v2"] * len(votes)))
    align(votes, labels, part="held-out", cache=tmp_path)
    align(votes, labels.sample(frac=1, random_state=0), part="held-out", cache=tmp_path)
    third = align(again, labels, part="held-out", cache=tmp_path).iloc[0]
    assert (third["n_looks"], third["n_versions"]) == (2, 2)  # the same figures again are one look
    looks = held_out_looks(tmp_path)
    assert looks[["rubric", "rubric_version", "criterion", "n_looks"]].values.tolist() == [
        ["r", "v1", "c", 2],
        ["r", "v2", "c", 1],
    ]
    # Other labels are another set, and both are kept; looks at some of these items count.
    other = align(votes, split_labels(many(60)), part="held-out", cache=tmp_path).iloc[0]
    assert (other["n_looks"], len(held_out_looks(tmp_path))) == (3, 3)


def test_the_count_is_beside_the_reply_store_by_default(monkeypatch, tmp_path):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path / "store"))
    align(votes_of([1, 5] * 40), split_labels(many(80)), part="held-out")
    _, line = (tmp_path / "store" / "held-out-looks.jsonl").read_text().split()  # the items, then the look
    assert json.loads(line)["rubric_version"] == "v1"


def test_a_line_cut_short_loses_nothing_else(tmp_path):
    labels, votes = split_labels(many(80)), votes_of([1, 5] * 40)
    align(votes, labels, part="held-out", cache=tmp_path)
    path = tmp_path / "held-out-looks.jsonl"
    path.write_bytes(path.read_bytes() + b'{"rubric":"r","rubric_ver')
    assert align(votes, labels, part="held-out", cache=tmp_path).iloc[0]["n_looks"] == 1
    path.write_bytes(path.read_bytes() + b'7\n"text"\n{"rubric": 3}\n\xff\n')
    assert align(votes, labels, part="held-out", cache=tmp_path).iloc[0]["n_looks"] == 1
    assert held_out_looks(tmp_path)["n_looks"].tolist() == [3]


def test_processes_at_once_lose_no_look(tmp_path):
    code = (
        "import sys, pandas as pd\nfrom evalkit.stats.alignment.label_splits import count_look\n"
        "made = pd.DataFrame({'rubric': ['r'], 'rubric_version': [sys.argv[2]], 'criterion': ['c']})\n"
        "said = pd.DataFrame({'item_id': ['i'], 'criterion': ['c']})\n"
        "for _ in range(20): count_look(made, said, sys.argv[1])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), f"v{n}"]) for n in range(3)]
    assert [process.wait(timeout=300) for process in running] == [0, 0, 0]
    assert sorted(held_out_looks(tmp_path)["n_looks"]) == [20, 20, 20]


def test_a_look_that_cannot_be_counted_is_not_shown(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match="held-out labels are not shown: evalkit counts how often they are viewed"):
        align(votes_of([1, 5] * 40), split_labels(many(80)), part="held-out", cache=tmp_path / "file" / "x")


def test_parts_that_are_not_there():
    votes, labels = votes_of([1, 5] * 40), many(80)
    with pytest.raises(ConfigError, match="part='test' is unknown; allowed: 'dev', 'held-out'"):
        align(votes, labels, part="test")
    with pytest.raises(InputError, match="split_labels"):
        align(votes, labels, part="held-out")
    with pytest.raises(InputError, match="a criterion needs 50 labelled items to be split"):
        align(votes, split_labels(many(20)), part="held-out")
    with pytest.raises(InputError, match="contains 'test'"):
        align(votes, labels.assign(part="test"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "tuned on these labels" in align(votes, split_labels(many(20))).iloc[0]["notes"]
