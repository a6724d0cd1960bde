"""Draws of labels that are spread over clusters, and agreement by columns of the items."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.stats import next_labels
from evalkit.stats.alignment.label_draws import poisson_draw


def test_a_draw_spread_over_clusters_keeps_its_chances_and_their_sums() -> None:
    sizes = {f"i{k}": 1.0 + k % 3 for k in range(30)}
    clusters = {item: k // 7 for k, item in enumerate(sizes)}
    chances = {item: 9 * (0.3 / 30 + 0.7 * size / sum(sizes.values())) for item, size in sizes.items()}
    expected = pd.Series(chances).groupby(clusters).sum()
    drawn: Counter[str] = Counter()
    for number in range(200):
        draw = poisson_draw(sizes, 9, f"draw {number}", clusters)
        assert len(draw) == 9
        drawn.update(list(draw))
        per_cluster = Counter(clusters[item] for item in draw)
        for cluster, total in expected.items():
            assert math.floor(total) <= per_cluster[cluster] <= math.ceil(total)
        assert all(draw[item] == pytest.approx(chances[item]) for item in draw)
    for item, chance in chances.items():  # five standard errors
        assert abs(drawn[item] / 200 - chance) < 5 * math.sqrt(chance * (1 - chance) / 200)


def test_labels_are_drawn_over_the_items_of_exploded_rows() -> None:
    rows = ek.explode_criteria([{"item_id": k, "criteria": [f"t{n}" for n in range(3 + k % 9)]} for k in range(40)])
    votes = pd.DataFrame({"item_id": rows["item_id"], "judge": "j", "score": [True, False] * (len(rows) // 2)})
    of_item = rows.set_index("item_id")["of_item"]
    drawn = next_labels(votes, 20, clusters=of_item)
    assert len(drawn) == 20
    assert drawn["item_id"].map(of_item).nunique() >= 19
    again = next_labels(votes, 20, clusters=of_item, labels=drawn.assign(annotator="a", label="true"))
    assert set(again["round"]) == {2}
    assert not set(again["item_id"]) & set(drawn["item_id"])


def test_agreement_by_a_column_of_the_items_has_their_groups_as_clusters() -> None:
    draw = np.random.default_rng(3)
    points = [[4, *draw.choice([2, -1, -5], 6).tolist()] for _ in range(25)]
    texts = ["Fails to say it", "Says no word", "Says it"]
    rows = ek.explode_criteria([
        {"item_id": k, "group_id": k // 2, "criteria": [
            {"text": texts[n % 3], "points": p, "axis": "ab"[n % 2]} for n, p in enumerate(cell)]}
        for k, cell in enumerate(points)
    ])  # fmt: skip
    met, judged = draw.random((2, len(rows))) < 0.5
    votes = pd.DataFrame({"item_id": rows["item_id"], "judge": "j", "score": judged})
    labels = pd.DataFrame({"item_id": rows["item_id"], "label": met})
    for column in ("sign", "axis"):
        table = ek.align(votes, labels, items=rows, by=column).set_index(column)
        right = pd.Series(met == judged).groupby(rows[column]).mean()
        assert table["accuracy"].to_dict() == pytest.approx(right.to_dict())
        assert set(table["n_clusters"]) == {13}
        clusters = rows.set_index("item_id")["group_id"]
        longhand = ek.align(votes, labels, clusters=clusters, by=rows.set_index("item_id")[column])
        assert table["accuracy_low"].tolist() == longhand["accuracy_low"].tolist()
    with pytest.raises(InputError, match="lists or mappings"):
        ek.align(votes, labels, items=rows, by="requires")
    with pytest.raises(InputError, match="pass the items that have it"):
        ek.align(votes, labels, by="sign")
    with pytest.raises(InputError, match="pass the items that have it"):
        ek.align(votes, labels, items=rows, by="sing")


def test_a_strategy_without_its_columns_is_named() -> None:
    votes = pd.DataFrame({"item_id": range(20), "judge": "j", "score": [0, 1] * 10})
    with pytest.raises(ConfigError, match=r"needs votes of several samples.*no `self_agreement`"):
        next_labels(votes, 5, strategy="uncertainty")


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_may_be_texts_of_numbers(seed: int) -> None:
    given = np.random.default_rng(seed).integers(0, 2, 120)
    scale = '{"codes":[0,1],"better":"high"}'
    votes = pd.DataFrame({"item_id": range(120), "judge": "j", "score": given, "level": "ordinal", "scale": scale})
    drawn = next_labels(votes, 50, strategy="balanced", seed=seed)
    labels = drawn.assign(annotator="a", label=given[drawn["item_id"].astype(int)])
    wanted = ek.corpus_estimate(votes, labels, scale=[0, 1])["human"].item()
    as_texts = labels.assign(probability=labels["probability"].map(str), round=labels["round"].map(str))
    assert ek.corpus_estimate(votes, as_texts, scale=[0, 1])["human"].item() == pytest.approx(wanted)
    percents = labels.assign(probability=labels["probability"].map("{:.0%}".format))
    with pytest.raises(InputError, match=r"the 'probability' is '[0-9]+%'; it must be a number"):
        ek.corpus_estimate(votes, percents, scale=[0, 1])


def test_a_draw_balanced_by_labels_needs_labels() -> None:
    votes = pd.DataFrame({"item_id": list("abcd"), "judge": "j", "label": [0, 0, 0, 1]})  # of a scale that is not known
    with pytest.raises(ConfigError, match="needs items with a label, and there are none"):
        next_labels(votes, 2, strategy="balanced")
