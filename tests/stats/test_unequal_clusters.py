"""Clusters of very different sizes: variance, degrees of freedom, and what the tables say of them."""

import math

import numpy as np
import pandas as pd
import pytest
from plain_variance import plain_variance
from scipy.stats import t as student

import evalkit as ek
from evalkit.stats.intervals import (
    change_interval,
    cluster_variance,
    effective_clusters,
    jackknife,
    mean_interval,
    rate_interval,
    wilson,
)
from evalkit.tables import schemas

SCALE = '{"codes":[0,1],"better":"high","pass_at":1}'


def plain_wilson(rate, n, z):
    middle, half = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


def table_of(verdicts, name="scores", **more):
    n = len(verdicts)
    numbers = [float(v) for v in verdicts]
    return schemas.table(name, {
        "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": [f"i{i}" for i in range(n)],
        "criterion": ["c"] * n, "score": numbers, "score_norm": numbers, "label": [str(int(v)) for v in verdicts],
        "passed": [bool(v) for v in verdicts], "status": ["ok"] * n, "n_judges": [1] * n, "n_samples": [1] * n,
        "n_scored": [1] * n, "tied": [False] * n, "level": ["ordinal"] * n, "scale": [SCALE] * n,
    } | more)  # fmt: skip


def test_the_variance_by_hand():
    # s̄ = .6; u = 1.2, −.6, −.6; h = .6, .2, .2: 1.44/.4 + 2·.36/.8 = 4.5, over 25. Common: ρ = 1, .24·(9 + 1 + 1)/25.
    assert cluster_variance(np.array([1.0, 1, 1, 0, 0]), np.array([0, 0, 0, 1, 2])) == (pytest.approx(0.18), 3)
    # Clusters that balance: the first sum is 0, ρ = 0, and .25·4/16 is left.
    assert cluster_variance(np.array([1.0, 0, 1, 0]), np.array([0, 0, 1, 1]))[0] == pytest.approx(0.0625)
    assert mean_interval(np.array([1.0, 0, 1, 0]), np.array([0, 0, 1, 1])).reason is None


def test_rates_and_means_are_those_of_plain_python():
    draw = np.random.default_rng(37)
    for number in range(600):
        sizes = np.maximum(1, (draw.pareto(1.2, draw.integers(2, 14)) * 2).astype(int))
        clusters = draw.permutation(np.repeat(np.arange(len(sizes)), np.minimum(sizes, 40)))
        n, n_clusters = len(clusters), len(sizes)
        flags = (draw.random(n) < draw.choice([0.5, 0.9])).astype(float)
        effective = n * n / sum(min(int(m), 40) ** 2 for m in sizes)
        assert effective_clusters(clusters) == pytest.approx(effective)
        rate, made = flags.mean(), rate_interval(flags, clusters)
        if rate in (0, 1):
            assert made == wilson(rate, effective)
            assert mean_interval(flags, clusters, bounds=(0, 1)).low == pytest.approx(made.low)
            continue
        variance, t = plain_variance(flags, clusters), student.ppf(0.975, n_clusters - 1)
        expected = plain_wilson(rate, rate * (1 - rate) / variance, t)
        assert (made.low, made.high) == pytest.approx(expected, abs=1e-9), number
        plain = mean_interval(flags, clusters)
        assert (plain.low, plain.high) == pytest.approx((rate - t * variance**0.5, rate + t * variance**0.5))
        order = draw.permutation(n)  # neither the order of rows nor the names of clusters matter
        shuffled = rate_interval(flags[order], (100 - clusters)[order])
        assert (shuffled.low, shuffled.high) == pytest.approx((made.low, made.high))


def test_where_all_items_agree_effective_clusters_count():
    clusters = np.repeat([0, 1, 2], [6, 1, 1])  # 64/38
    assert rate_interval(np.ones(8), clusters) == wilson(1.0, 64 / 38)
    # Agresti and Min with no change on n = 17²/(36 + 11) items: t₁₁ · √1/(n + 2).
    changed = change_interval(np.zeros(17), np.repeat(np.arange(12), [6, *[1] * 11]))
    assert changed.high == pytest.approx(2.200985 / (289 / 47 + 2), abs=1e-6)


def test_a_jackknife_takes_the_effective_number():
    values = np.array([0.4, 0.5, 0.55, 0.45, 0.5])
    error = math.sqrt(4 / 5 * ((values - values.mean()) ** 2).sum())
    # n²/Σm²: 5 of 5; 10²/(6² + 4) of 5; 102²/(98² + 4) of 5; 9 clusters of which 4 have no value
    sizes = ([2] * 5, [6, 1, 1, 1, 1], [98, 1, 1, 1, 1], [1] * 9)
    for unit, freedom in ((None, 4), *zip(sizes, (4, 1.5, 1, 4), strict=True)):
        unit = unit and np.repeat(np.arange(len(unit)), unit)
        made = jackknife(0.48, values, transform="none", unit=unit)
        assert made.high - 0.48 == pytest.approx(student.ppf(0.975, freedom) * error)


def test_summaries_name_the_effective_number_and_a_large_cluster():
    verdicts = ([True] * 3 + [False]) * 10
    groups = {f"i{i}": 0 if i < 20 else i for i in range(40)}  # one of 20, twenty of 1: 1600/420
    row = ek.summarize(table_of(verdicts), clusters=groups).iloc[0]
    assert (row["n_clusters"], row["n_clusters_effective"]) == (21, pytest.approx(1600 / 420))
    note = "only 3.8 effective clusters: 21 of unequal size; one cluster has 50 % of the items: "
    assert row["notes"] == note + "intervals may be too narrow"
    units = np.array([groups[f"i{i}"] for i in range(40)])
    t, variance = student.ppf(0.975, 20), plain_variance(np.array(verdicts, dtype=float), units)
    expected = plain_wilson(0.75, 0.75 * 0.25 / variance, t)
    assert (row["pass_low"], row["pass_high"]) == pytest.approx(expected)
    assert (row["norm_low"], row["norm_high"]) == pytest.approx(expected)
    quiet = ek.summarize(table_of(verdicts), clusters={f"i{i}": i // 2 for i in range(40)}).iloc[0]
    assert (quiet["n_clusters"], quiet["n_clusters_effective"]) == (20, 20)
    assert pd.isna(quiet["notes"])
    few = ek.summarize(table_of(verdicts), clusters={f"i{i}": i // 10 for i in range(40)}).iloc[0]
    assert few["notes"] == "only 4 clusters"  # equal ones: no cluster stands out


def test_align_and_reliability_have_t_of_the_effective_number():
    draw = np.random.default_rng(4)
    truth = draw.random(120) < 0.6
    said = [np.where(draw.random(120) < 0.85, truth, ~truth) for _ in range(2)]
    clusters = np.repeat(np.arange(31), [30, *[3] * 30])
    mapping = {f"i{i}": int(c) for i, c in enumerate(clusters)}
    votes = pd.concat([table_of(s, "votes", judge=[j] * 120) for s, j in zip(said, "ab", strict=True)])
    labels = pd.DataFrame({"item_id": list(mapping), "criterion": "c", "annotator": "x", "label": truth.astype(int)})
    effective = 120**2 / (30**2 + 30 * 9)

    def expected(figure):
        value = figure(np.ones(120, dtype=bool))
        z = np.array([math.log(v / (1 - v)) for v in (figure(clusters != c) for c in range(31))])
        half = student.ppf(0.975, effective - 1) * math.sqrt(30 / 31 * ((z - z.mean()) ** 2).sum())
        center = math.log(value / (1 - value))
        return tuple(1 / (1 + math.exp(-(center + side * half))) for side in (-1, 1))

    row = ek.align(votes, labels, clusters=mapping).iloc[0]
    assert row["n_clusters_effective"] == pytest.approx(effective)
    assert row["notes"] == "one cluster has 25 % of the items"
    right = said[0] == truth
    ends = expected(lambda rows: right[rows].mean())
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx(ends)
    row = ek.reliability(votes, clusters=mapping).iloc[0]
    assert row["n_clusters_effective"] == pytest.approx(effective)
    same = said[0] == said[1]
    ends = expected(lambda rows: same[rows].mean())
    assert (row["percent_agreement_low"], row["percent_agreement_high"]) == pytest.approx(ends)


def test_rank_has_t_of_the_effective_number():
    draw = np.random.default_rng(9)
    n = 90
    clusters = np.repeat(np.arange(31), [30, *[2] * 30])
    frame = pd.DataFrame({"item_id": [f"i{i}" for i in range(n)], "system_a": "new", "system_b": "old"})
    labels = np.where(draw.random(n) < 0.6, "A", "B")
    votes = schemas.table("votes", {
        "rubric": ["r"] * n, "rubric_version": ["v1"] * n, "item_id": frame["item_id"], "criterion": ["c"] * n,
        "judge": ["j"] * n, "label": labels, "n_samples": [2] * n, "n_scored": [2] * n, "tied": [False] * n,
        "level": ["nominal"] * n, "scale": ['{"codes":["A","B","tie"],"better":"high"}'] * n,
    })  # fmt: skip
    mapping = dict(zip(frame["item_id"], clusters, strict=True))
    row = ek.rank(votes, frame, clusters=mapping).set_index("system").loc["new"]
    # Two systems: difference log(p/(1 − p)), each half of it; its derivative per item (x − p)/(p(1 − p)).
    wins = (labels == "A").astype(float)
    p = wins.mean()
    influence = np.bincount(clusters, weights=wins - p) / (p * (1 - p)) / n / 2
    error = math.sqrt(31 / 30 * (influence**2).sum())
    half = student.ppf(0.975, n * n / (30**2 + 30 * 4) - 1) * error
    assert (row["strength_low"], row["strength_high"]) == pytest.approx(
        (math.log(p / (1 - p)) / 2 - half, math.log(p / (1 - p)) / 2 + half), rel=1e-3
    )
    assert row["notes"] == "only 7.9 effective clusters: 31 of unequal size; one cluster has 33 % of the items"
