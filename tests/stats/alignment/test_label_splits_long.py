"""Parts of labels, and the count of looks at those held out."""

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
