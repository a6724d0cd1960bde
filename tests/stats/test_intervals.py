import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_variance import plain_variance

from evalkit.stats.intervals import (
    bounded_interval,
    change_interval,
    cluster_codes,
    difference_interval,
    few_others,
    intraclass_correlation,
    jackknife,
    jackknife_groups,
    mean_interval,
    rate_interval,
    wilson,
)


def test_wilson_is_that_of_statsmodels():
    from statsmodels.stats.proportion import proportion_confint

    for passed, n in ((0, 5), (1, 1), (3, 7), (90, 100), (20, 20)):
        made = wilson(passed / n, n)
        assert (made.low, made.high) == pytest.approx(proportion_confint(passed, n, method="wilson"), abs=1e-12)
    assert wilson(math.nan, 5).reason == "no items"
    assert wilson(0.5, 0).reason == "no items"


def test_singleton_clusters_give_the_ordinary_t_interval():
    from scipy.stats import sem, t

    values = np.array([1.0, 2, 4, 4, 7])
    expected = t.interval(0.95, 4, loc=values.mean(), scale=sem(values))
    made = mean_interval(values, np.arange(5))
    assert (made.low, made.high) == pytest.approx(expected)


@pytest.mark.long
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=4, max_size=40),
    st.sampled_from([(0.0, 4.0), (-1.0, 6.0)]),
)
def test_a_bounded_mean_has_the_wilson_interval_of_statsmodels(rows, bounds):
    # Theirs by n_eff = p(1 − p)/SE² items, with the level at which z is our t.
    from scipy.stats import norm, t
    from statsmodels.stats.proportion import proportion_confint

    values, clusters = (np.array(side, dtype=float) for side in zip(*rows, strict=True))
    low, high = bounds
    n_clusters = len(set(clusters.tolist()))
    made = mean_interval(values, clusters.astype(int), bounds=bounds)
    if n_clusters < 2:
        assert made.reason == "fewer than two clusters"
        return
    assert low <= made.low <= values.mean() <= made.high <= high
    assert made.low < made.high
    place = (values - low) / (high - low)
    p = place.mean()
    if np.ptp(place) == 0:
        n = len(place) ** 2 / sum((clusters == c).sum() ** 2 for c in set(clusters.tolist()))
        expected = proportion_confint(p * n, n, method="wilson")
    else:
        n = p * (1 - p) / plain_variance(place, clusters)
        expected = proportion_confint(p * n, n, alpha=2 * norm.sf(t.ppf(0.975, n_clusters - 1)), method="wilson")
    ends = [(end - low) / (high - low) for end in (made.low, made.high)]
    assert ends == pytest.approx(expected, abs=1e-7)


def test_a_mean_at_the_end_of_its_scale_or_beyond():
    # Outside of the scale (a constant that stands for unscored items) there is no Wilson: cut at the end.
    made = bounded_interval(1.1, 0.1, bounds=(0, 1), freedom=9)
    assert (made.low, made.high) == pytest.approx((1.1 - 2.262157 * 0.1, 1.0), abs=1e-6)


def test_changes_of_paired_verdicts_are_those_of_agresti_and_min():
    # Independent items: N + 2 pairs, half in each cell; their variance [(b + c + 1) − (b − c)²/(n + 2)]/(n + 2)².
    # Ours has n − 1 for n and t for z, 1 or 2 parts in a hundred at n = 100.
    steps = np.repeat([1.0, -1.0, 0.0], [12, 5, 83])
    made = change_interval(steps, np.arange(100))
    variance = (12 + 5 + 1 - (12 - 5) ** 2 / 102) / 102**2
    half = 1.959964 * math.sqrt(variance)
    assert (made.low + made.high) / 2 == pytest.approx(7 / 102)
    assert (made.high - made.low) / 2 == pytest.approx(half, rel=0.025)
    # Two copies of each item in a cluster tell no more than one.
    twice = change_interval(np.repeat(steps, 2), np.repeat(np.arange(100), 2))
    assert twice.high - twice.low == pytest.approx(made.high - made.low, rel=0.05)
    all_same = change_interval(np.zeros(30), np.repeat(np.arange(10), 3))
    assert (all_same.low, all_same.high) == pytest.approx((-2.262157 / 12, 2.262157 / 12), abs=1e-6)
    fixed = change_interval(np.ones(10), np.arange(10))
    assert 0.4 < fixed.low < fixed.high == 1.0
    broke = change_interval(-np.ones(10), np.arange(10))
    assert (broke.low, broke.high) == (-fixed.high, -fixed.low)
    assert change_interval(np.array([]), np.array([], dtype=int)).reason == "nothing has a verdict"
    assert change_interval(np.zeros(3), np.zeros(3, dtype=int)).reason == "fewer than two clusters"


def test_jackknife_transforms_by_hand():
    # z = atanh(.4, .5, .6) = .423649, .549306, .693147; mean .555367; Σ(z − z̄)² = .0363698;
    # se = √(2/3·.0363698) = .155713; t₂ = 4.302653; half width .669979; atanh(.5) ∓ that, back by tanh.
    made = jackknife(0.5, np.array([0.4, 0.5, 0.6]))
    assert made.low == pytest.approx(math.tanh(0.549306 - 0.669979), abs=1e-5)
    assert made.high == pytest.approx(math.tanh(0.549306 + 0.669979), abs=1e-5)
    shares = jackknife(0.9, np.array([0.85, 0.9, 0.95]), transform="logit")
    assert 0 < shares.low < 0.9 < shares.high < 1


def test_no_interval_has_its_reason():
    some = np.array([0.4, 0.5, 0.6])
    assert jackknife(math.nan, some).reason == "the figure is not defined"
    assert jackknife(1.0, some).reason == "the figure is at the end of its range"
    assert jackknife(0.0, some, transform="logit").reason == "the figure is at the end of its range"
    assert jackknife(0.5, np.array([0.5])).reason == "fewer than two clusters"
    # The same in every resample (here up to rounding): its error is not 0 but unknown.
    same = jackknife(0.3, 0.3 + np.array([0, 5e-17, 0, -5e-17]))
    assert math.isnan(same.low)
    assert same.reason == "leaving out a cluster never changes it"
    assert jackknife(5.0, np.full(4, 5.0), transform="none").reason == "leaving out a cluster never changes it"
    # All that differs is in one of 77 clusters: the others, of unequal sizes, do not show the error of that one.
    only = (75 - 1) / (77 - np.where(np.arange(77) % 2, 1, 2))
    assert jackknife(76 / 77, np.where(np.arange(77), only, 1.0), transform="logit").reason.startswith("without one cl")
    for end in (1 - 2e-16, 1.0, 1 + 2e-16, 2e-16 - 1):  # as sums of floats give it
        made = jackknife(0.87, np.append(end, np.linspace(0.86, 0.88, 19)))
        assert made.reason == "without one cluster it is at the end of its range"
        assert jackknife(end, some).reason == "the figure is at the end of its range"
    assert jackknife(0.2, np.array([1e-17, 0.2, 0.3]), transform="log").reason.startswith("without one cluster")
    # 6 of 100 undefined is over 5 %, 5 of 100 is not.
    many = np.linspace(0.4, 0.6, 100)
    assert jackknife(0.5, np.where(np.arange(100) < 5, np.nan, many)).reason is None
    assert jackknife(0.5, np.where(np.arange(100) < 6, np.nan, many)).reason.startswith("not defined in over 5 %")
    assert mean_interval(np.array([]), np.array([], dtype=int)).reason == "nothing is scored"
    assert mean_interval(np.full(4, 2.0), np.arange(4)).reason == "all values are equal"
    assert rate_interval(np.array([]), np.array([], dtype=int)).reason == "nothing has a verdict"


def test_a_distance_has_an_interval_above_zero():
    made = jackknife(0.2, np.array([0.05, 0.2, 0.4]), transform="log")
    assert 0 < made.low < 0.2 < made.high
    assert jackknife(0.0, np.array([0.1, 0.2]), transform="log").reason == "the figure is at the end of its range"
    assert jackknife(0.2, np.full(5, math.nan)).reason == "under 3 answers of a judge or annotator are unlike most"


@pytest.mark.parametrize(
    ("person", "clusters", "expected"),
    [
        ([0, 0, 0] + [1] * 27, None, None),
        ([0, 0] + [1] * 28, None, "under 3 answers of a judge or annotator are unlike most"),
        # three rare answers, but two of them in one cluster
        ([0, 0, 0] + [1] * 27, [0, 0, *range(1, 29)], "under 3 answers of a judge or annotator are unlike most"),
        ([0, 0, 0, 0] + [1] * 26, [0, 0, *range(1, 29)], None),
    ],
)
def test_kappas_and_correlations_need_three_clusters_that_differ(person, clusters, expected):
    from evalkit.stats.alignment.agreement_measures import Answers, KindOptions, compare_each

    judge = np.array([0, 1, 0, 0] + [1] * 25 + [0])
    unit = np.arange(30) if clusters is None else np.array(clusters)
    none = np.zeros(30, dtype=bool)
    one, other = (Answers(codes, codes.astype(float), none) for codes in (judge, np.array(person)))
    made = compare_each(one, [other], unit, int(unit.max()) + 1, KindOptions(verdicts=True))
    for name in ("kappa", "quadratic_kappa", "pearson", "spearman", "kendall"):
        assert np.isfinite(made[name][0])
        assert jackknife(float(made[name][0]), made[name][1:]).reason == expected
    assert jackknife(float(made["accuracy"][0]), made["accuracy"][1:], transform="logit").reason is None


def test_rate_interval_uses_the_variance_between_clusters():
    # 20 clusters of five items that always agree, half of them pass: each cluster is one item.
    flags = np.repeat(np.arange(20) % 2, 5).astype(float)
    made = rate_interval(flags, np.repeat(np.arange(20), 5))
    # Σ_g (5·(±.5))² = 20·6.25 = 125; 125/(1 − 1/20)/10⁴ = .0131579, over .25·100·(1 + 4)/10⁴ = .0125; t₁₉ = 2.093024.
    # Wilson: w = t²·.0131579/.25 = .2305658; half = √(.25 w + w²/4)/(1 + w) = .216429.
    assert (made.low, made.high) == pytest.approx((0.5 - 0.216429, 0.5 + 0.216429), abs=1e-6)
    # Clusters that balance out (each half and half) do not make more items of them: w = t₄²/100, t₄ = 2.776445.
    balanced, w = rate_interval(flags, np.tile(np.arange(5), 20)), 2.776445**2 / 100
    half = math.sqrt(0.25 * w + w * w / 4) / (1 + w)
    assert (balanced.low, balanced.high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)
    assert rate_interval(np.ones(10), np.repeat([0, 1], 5)) == wilson(1.0, 2)


def test_over_two_thousand_clusters_are_left_out_in_two_hundred_groups():
    few, n_few = jackknife_groups(np.arange(2000))
    assert n_few == 2000
    assert few.tolist() == list(range(2000))
    codes, n_groups = jackknife_groups(np.arange(2001).repeat(2))
    assert n_groups == 200
    assert set(np.bincount(codes).tolist()) == {20, 22}
    assert (codes[::2] == codes[1::2]).all()
    assert (codes == jackknife_groups(np.arange(2001).repeat(2))[0]).all()
    assert jackknife_groups(np.array([], dtype=np.int64))[1] == 0


def test_cluster_codes_do_not_depend_on_the_order_of_rows():
    names = pd.Series(["b", "a", "c", "a"])
    assert cluster_codes(names).tolist() == [1, 0, 2, 0]
    assert cluster_codes(names[::-1]).tolist() == [0, 2, 0, 1]


def test_the_jackknife_covers_a_correlation():
    # 300 samples of 60 pairs with ρ = .6: 95 % intervals; a binomial of 300 at .95 is over .91 in 999 of 1,000.
    draw, hits = np.random.default_rng(4), 0
    for _ in range(300):
        x = draw.normal(size=60)
        y = 0.6 * x + 0.8 * draw.normal(size=60)
        sums = [x.sum(), y.sum(), (x * x).sum(), (y * y).sum(), (x * y).sum()]
        parts = [x, y, x * x, y * y, x * y]

        def pearson(n, sx, sy, sxx, syy, sxy):
            return (sxy - sx * sy / n) / np.sqrt((sxx - sx * sx / n) * (syy - sy * sy / n))

        leave_out = pearson(59, *[total - part for total, part in zip(sums, parts, strict=True)])
        made = jackknife(float(pearson(60, *sums)), leave_out)
        hits += made.low <= 0.6 <= made.high
    assert hits / 300 > 0.91


def test_two_clusters_by_hand():
    # two resamples .05 from their mean: error √(1/2 · 2 · .05²) = .05; t with one degree of freedom, never fewer
    t1 = 12.7062047
    for unit in (None, np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1])):  # as many as 2, and as 16 / 10, equal ones
        made = jackknife(0.5, np.array([0.45, 0.55]), transform="none", unit=unit)
        assert (made.low, made.high) == pytest.approx((0.5 - 0.05 * t1, 0.5 + 0.05 * t1), abs=1e-6)
    # sums of deviations −1 and 1, each cluster half of the values: variance (1 + 1) / (1 − 1/2) / 4² = .5²
    made = mean_interval(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]))
    assert (made.low, made.high) == pytest.approx((0.5 - 0.5 * t1, 0.5 + 0.5 * t1), abs=1e-6)
    # between (3² + 3²) / 2 = 9, within 11 − 9 = 2 on 4 − 2; ((9 − 1) / 2) / (4 + 1)
    assert intraclass_correlation(np.array([3.0, 5.0, 1.0, 1.0]), np.array([0, 0, 1, 1])) == pytest.approx(0.8)


def test_equal_values_have_wilsons_interval_on_their_scale():
    # 3 is the middle of 1-5: z / (2 √(3 + z²)) on either side of 1/2
    half = 4 * 1.959964 / (2 * math.sqrt(3 + 1.959964**2))
    made = mean_interval(np.full(3, 3.0), np.arange(3), bounds=(1.0, 5.0))
    assert (made.low, made.high) == pytest.approx((3 - half, 3 + half), abs=1e-6)


def test_few_and_large_clusters_are_noted():
    from evalkit.stats.result_tables import note_few_clusters

    def notes(*sizes):
        said = []
        note_few_clusters(np.repeat(np.arange(len(sizes)), sizes), said)
        return said

    assert notes(*[2] * 10) == []
    assert notes(*[2] * 9) == ["only 9 clusters"]
    few = "only {} effective clusters: {} of unequal size".format
    # 100² / (25² + 75), 100² / (40² + 60)
    assert notes(25, *[1] * 75) == ["one cluster has 25 % of the items"]
    assert notes(39, *[1] * 61)[1:] == ["one cluster has 39 % of the items"]
    assert notes(40, *[1] * 60) == [few(6.0, 61), "one cluster has 40 % of the items: intervals may be too narrow"]


def test_constant_answers_have_no_others():
    assert few_others(np.array([1, 1, 1, 1]), np.arange(4))
    assert not few_others(np.array([1, 1, 1, 1, 0, 0, 0]), np.arange(7))


def test_an_interval_of_differences_ends_where_they_do():
    gaps = np.array([-4.0] * 7 + [0.0, 0.0, 4.0])
    ends = difference_interval(gaps, np.arange(10), 4.0)
    assert ends == mean_interval(gaps, np.arange(10), bounds=(-4.0, 4.0))
    assert -4 <= ends.low < gaps.mean() < ends.high <= 4
    turned = difference_interval(-gaps, np.arange(10), 4.0)
    assert (turned.low, turned.high) == pytest.approx((-ends.high, -ends.low))
    equal = difference_interval(np.full(10, 2.0), np.arange(10), 4.0)
    of_change = change_interval(np.full(10, 0.5), np.arange(10))
    assert (equal.low, equal.high) == (4 * of_change.low, 4 * of_change.high)
    assert difference_interval(np.array([6.0, 6.0, -6.0]), np.arange(3), 4.0).high <= 6  # beyond: 0 filled in on 1-5
    assert difference_interval(np.zeros(0), np.zeros(0, dtype=int), 4.0).reason == "nothing is scored"
    assert difference_interval(gaps, np.zeros(10, dtype=int), 4.0).reason == "fewer than two clusters"
    assert difference_interval(gaps, np.arange(10), math.nan) == mean_interval(gaps, np.arange(10))


def test_an_interval_has_the_units_of_its_scale():
    unit = bounded_interval(0.9, 0.05, bounds=(0, 1), freedom=20)
    made = bounded_interval(1 + 4 * 0.9, 4 * 0.05, bounds=(1, 5), freedom=20)
    assert (made.low, made.high) == pytest.approx((1 + 4 * unit.low, 1 + 4 * unit.high))
