import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from judgment_tables import BINARY, NAMES, ORDINAL, PAIR, PLAIN, judgments
from pandas.testing import assert_frame_equal
from servers import judge_server

import evalkit as ek
from evalkit.core.settings import Rules
from evalkit.errors import ConfigError, InputError
from evalkit.evaluation import plan_again, sample_again
from evalkit.stats.aggregation.aggregating import aggregate
from evalkit.stats.alignment.label_splits import split_labels
from evalkit.stats.comparison.compare_evaluations import compare
from evalkit.stats.comparison.comparison_table import Comparison, Difference
from evalkit.stats.comparison.noise_floors import Floor, chance_limit, flip_rate_range, noise_floor
from evalkit.stats.intervals import Interval, change_interval
from evalkit.stats.significance import Outcomes, evidence, holm, mcnemar_midp, permuted_samples, sign_flip
from evalkit.stats.voting import vote
from evalkit.tables import schemas


def side(codes, scale=BINARY, judge="j", **fields):
    """Judgments of items i00, i01, … from one code or a list of samples each."""
    samples = {(f"i{n:02}", judge): code if isinstance(code, list) else [code] for n, code in enumerate(codes)}
    return judgments(samples, scale, **fields)


def evaluated(table):
    """What `evaluate` returns, as far as `compare` looks at it."""
    votes = vote(table)
    return SimpleNamespace(judgments=table, votes=votes, scores=aggregate(votes), rules=RULES)


RULES = Rules()


def only(comparison):
    assert len(comparison.table) == 1
    return comparison.table.iloc[0]


# -- tests of a change


def test_mcnemar_midp_is_that_of_statsmodels():
    from scipy.stats import binom
    from statsmodels.stats.contingency_tables import mcnemar

    for fixed, broke in ((0, 3), (2, 9), (5, 5), (12, 4), (0, 0), (40, 71)):
        n, least = fixed + broke, min(fixed, broke)
        exact = mcnemar([[0, fixed], [broke, 0]], exact=True).pvalue if n else 1.0
        # The exact test counts the observed split on both sides, the mid-p half of it on each.
        expected = 1.0 if fixed == broke else exact - binom.pmf(least, n, 0.5)
        steps = np.repeat([1.0, -1.0, 0.0], [fixed, broke, 7])
        assert mcnemar_midp(steps, np.arange(len(steps))) == pytest.approx(expected, abs=1e-9)
        # every item in three copies is as one of each
        three = np.repeat(steps, 3)
        assert mcnemar_midp(three, np.repeat(np.arange(len(steps)), 3)) == pytest.approx(expected, abs=1e-9)


def test_mcnemar_midp_of_clusters_is_that_of_all_signs():
    draw = np.random.default_rng(0)
    for _ in range(100):
        steps, clusters = draw.integers(-1, 2, 25).astype(np.float64), draw.integers(0, 8, 25)
        sums = np.bincount(clusters, weights=steps)
        flipped = np.abs(np.array([signs @ sums for signs in 1 - 2 * np.array(list(np.ndindex(*[2] * len(sums))))]))
        seen = abs(sums.sum())
        expected = 1.0 if seen == 0 else (flipped > seen).mean() + (flipped == seen).mean() / 2
        assert mcnemar_midp(steps, clusters) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("sizes", [np.full(20, 5), np.arange(60) % 9 + 1, np.array([6, *[1] * 24]), np.ones(60, int)])
def test_groups_that_change_together_are_no_more_than_their_number(sizes):
    """Nothing became better or worse: p ≤ .05 in at most 5 % of the rounds, and two standard errors more."""
    draw, units, n_rounds = np.random.default_rng(1), np.repeat(np.arange(len(sizes)), sizes), 400
    found = 0
    for _ in range(n_rounds):
        was, again, changes = (draw.random(len(sizes)) < share for share in (0.5, 0.5, 0.3))
        steps = (changes * (again.astype(np.float64) - was))[units]
        found += mcnemar_midp(steps, units) <= 0.05
    assert found <= n_rounds * 0.05 + 2 * math.sqrt(n_rounds * 0.05 * 0.95)


def test_a_comparison_of_groups_is_seldom_worse_by_chance():
    draw, n_worse = np.random.default_rng(1), 0
    clusters = pd.Series([f"g{at // 5}" for at in range(100)], index=[f"i{at:02}" for at in range(100)])
    for _ in range(40):
        was, again, changes = (np.repeat(draw.random(20) < share, 5) for share in (0.5, 0.5, 0.3))
        made = compare(side(was.astype(int).tolist()), side(np.where(changes, again, was).astype(int).tolist()),
                       clusters=clusters)  # fmt: skip
        n_worse += bool(made.worse)
        row = only(made)
        assert row["mcnemar_p"] == row["mcnemar_p_holm"]
        gained, lost = row["fixed"] // 5, row["broke"] // 5
        assert row["mcnemar_p"] == mcnemar_midp(np.repeat([1.0, -1.0], [gained, lost]), np.arange(gained + lost))
    assert n_worse <= 2


def test_sign_flip_by_hand_and_by_enumeration():
    # Five clusters that all rose by one: only 2 of the 32 sign patterns are as extreme: .0625.
    ones = sign_flip(np.ones(5), np.arange(5))
    assert ones == pytest.approx(2 / 32, abs=0.01)
    # Ten items in two clusters are two signs: 2 of 4 patterns.
    assert sign_flip(np.ones(10), np.repeat([0, 1], 5)) == pytest.approx(0.5, abs=0.02)
    assert sign_flip(np.zeros(5), np.arange(5)) == 1
    # Unequal sums, all 2⁸ patterns counted.
    values = np.array([0.5, 0.5, 0.25, -0.5, 1.0, 0.25, -0.25, 0.0])
    totals = np.array([signs @ values for signs in 1 - 2 * np.array(list(np.ndindex(*[2] * 8)))])
    exact = (np.abs(totals) >= abs(values.sum()) - 1e-9).mean()
    assert sign_flip(values, np.arange(8)) == pytest.approx(exact, abs=0.02)
    assert math.isnan(sign_flip(np.ones(3), np.zeros(3)))
    assert ones == sign_flip(np.ones(5), np.arange(5))


def test_holm_is_that_of_statsmodels():
    from statsmodels.stats.multitest import multipletests

    values = np.array([0.2, 0.001, 0.03, 0.04, 0.9])
    assert holm(values) == pytest.approx(multipletests(values, method="holm")[1])
    assert holm(np.array([])).tolist() == []


def test_permuted_samples_by_hand():
    def p(*cells):
        rows = [(at, a, b) for at, cell in enumerate(cells) for a, b in cell]
        return permuted_samples(Outcomes(*(np.array(column) for column in zip(*rows, strict=True))))

    # 1,999 draws leave a standard error of .008 at most: 5 of them
    near = pytest.approx
    # each cell is a list of (times on a, times on b), one pair per outcome. 000 | 111: 2 of the 20 splits.
    assert p([(3, 0), (0, 3)]) == near(2 / 20, abs=0.04)
    # 00 | 11 on two items: T is at its largest in 2 of 6 splits of each, so in 4 of 36 of both
    assert p([(2, 0), (0, 2)], [(2, 0), (0, 2)]) == near(4 / 36, abs=0.04)
    # 0 | 011: T = (2/3)² + (2/3)² if a has the one 0 of ... a has a 0 in 2 of 4 splits, a 1 in 2: all alike
    assert p([(1, 1), (0, 2)]) == 1
    # three outcomes, 0 0 | 1 2: the pairs {00}, {12} give T = 1 + 1/4 + 1/4, all other 4 splits of 6 less
    assert p([(2, 0), (0, 1), (0, 1)]) == near(2 / 6, abs=0.05)
    # an item that never varies adds nothing; without any other, nothing is ever more extreme
    assert p([(3, 3)], [(3, 0), (0, 3)]) == near(2 / 20, abs=0.04)
    assert p([(3, 3)]) == 1
    # one sample each: exchanging them changes nothing
    assert math.isnan(p([(1, 0), (0, 1)]))
    assert math.isnan(p([(3, 0)]))
    # 20 samples on each side, 12 and 8 of two outcomes against 8 and 12
    from scipy.stats import hypergeom

    y = np.arange(21)
    exact = hypergeom.pmf(y, 40, 20, 20)[np.abs(y - 10) >= 2].sum()
    assert p([(12, 8), (8, 12)]) == near(exact, abs=0.05)
    several = [(1, 0)] * 8 + [(0, 1)] * 8 + [(2, 2)]  # 2¹⁶ · 5 allocations: drawn instead
    assert 0 < p(several) <= 1


# -- the noise floor


def votes_of_three(p):
    """D(p) = 2 P(pass) P(fail) of a vote of three samples that pass with probability p."""
    passing = 3 * p**2 - 2 * p**3
    return 2 * passing * (1 - passing)


def uniform(draw, n, k, p=0.0744):
    """Samples of a judge that errs on every item alike; .0744 is where D(p) = .0309."""
    right = np.arange(n)[:, None] % 2
    return np.where(draw.random((n, k)) < p, 1 - right, right).tolist()


def test_uniform_noise_is_not_called_thirteen_changes():
    """The judge of whom a Beta distribution expected 13 changes among 149 verdicts, where 4 to 5 happened."""
    draw = np.random.default_rng(1)
    floor = side(uniform(draw, 149, 6))
    changed = []
    for _ in range(10):
        row = only(compare(side(uniform(draw, 149, 3)), side(uniform(draw, 149, 3)), floor=floor))
        assert row["floor_source"] == "measured"
        assert row["floor_low"] < votes_of_three(0.0744) < row["floor_high"]
        assert row["changed"] <= row["chance_up_to"]
        changed.append(row["changed"])
    assert np.mean(changed) == pytest.approx(149 * votes_of_three(0.0744), abs=3.5)
    assert row["floor"] * 149 < 9


@pytest.mark.parametrize("n_read", [0, 1, 5, 20])
def test_chance_changes_no_more_verdicts_than_there_are(n_read):
    """Of 30 items, both sides have a verdict on `n_read`; on the others, too few samples could be read."""
    draw = np.random.default_rng(n_read)
    floor, *sides = (uniform(draw, 30, k) for k in (6, 3, 3))
    for samples in sides:
        samples[n_read:] = [[one[0], "!empty", "!empty"] for one in samples[n_read:]]
    row = only(compare(*map(side, sides), floor=side(floor)))
    assert (row["n_asked_again"], row["n_verdicts"]) == (30, n_read)
    if not n_read:
        assert math.isnan(row["chance_up_to"])
    else:
        ends = Interval(row["floor_low"], row["floor_high"])
        assert row["chance_up_to"] == chance_limit(n_read, Floor(ends=ends)) <= n_read


def test_three_samples_allow_a_wide_range():
    # With endless items the shares of 0, 1, 2, 3 passes of half p = .0744 and half 1 − p allow .031 to .139.
    p, n = 0.0744, 10**7
    share = [math.comb(3, j) * (p**j * (1 - p) ** (3 - j) + (1 - p) ** j * p ** (3 - j)) / 2 for j in range(4)]
    low, high = flip_rate_range(tuple(int(n * one) for one in share))
    assert (low, high) == pytest.approx((0.031, 0.139), abs=0.002)
    # a sure judge with the same share of passes, and one whose items all are coins
    assert flip_rate_range((n, 0, 0, n)) == pytest.approx((0, 0), abs=1e-4)
    assert flip_rate_range((n, 3 * n, 3 * n, n)) == pytest.approx((0.5, 0.5), abs=1e-3)
    # of 149 items the range is nearly useless, and its words say so
    made = compare(*(side(uniform(np.random.default_rng(seed), 149, 3)) for seed in (1, 2)))
    row = only(made)
    assert row["floor_source"] == "range"
    assert row["floor_low"] < votes_of_three(p) < row["floor_high"]
    assert row["floor_high"] - row["floor_low"] > 0.1
    assert math.isnan(row["floor"])
    assert row["chance_up_to"] == chance_limit(149, Floor(ends=Interval(row["floor_low"], row["floor_high"])))
    assert f"up to {row['chance_up_to']:.0f} (not measured)" in str(made)
    assert row["notes"].startswith("noise floor not measured: 3 samples put it between 0.0")
    assert "too wide to be useful" in row["notes"]
    # fewer independent items allow more
    few = flip_rate_range((40, 8, 8, 44), 5.0)
    many = flip_rate_range((40, 8, 8, 44), 1.0)
    assert few[0] <= many[0] <= many[1] <= few[1]


def test_unscored_items_raise_the_upper_end():
    sure = [[1, 1, 1], [0, 0, 0]] * 50
    whole = noise_floor(side(sure)).iloc[0]
    lost = noise_floor(side([*sure, *[[1, 1, "!empty"]] * 25])).iloc[0]
    # a fifth of the items may change or not: nothing is known of them
    assert lost["high"] == pytest.approx(0.8 * whole["high"] + 0.2)
    assert lost["low"] == pytest.approx(0.8 * whole["low"], abs=1e-9)


def test_juries_and_labels_without_a_rule_have_no_range():
    jury = evaluated(jury_of([[1, 1, 0], [0, 0, 0]] * 6, [[1, 1, 1], [0, 1, 0]] * 6))
    after = evaluated(jury_of([[1, 0, 0], [0, 0, 0]] * 6, [[1, 1, 1], [0, 0, 0]] * 6, "x", "y"))
    made = compare(jury, after).table.set_index("judge")
    assert made["floor_source"].astype(object).where(made["floor_source"].notna(), None).to_dict() == {
        "x": "range",
        "y": "range",
        "jury": None,
    }
    assert made.loc["jury", "notes"].startswith("noise floor not measured")
    row = only(compare(side([[1, 2, 2], [3, 3, 3]], PLAIN), side([[1, 2, 1], [3, 3, 3]], PLAIN)))
    assert row["notes"].startswith("no pass rule and no second set of samples")
    assert math.isnan(row["floor_high"])


def test_halves_by_hand():
    # x passes of six: the halves differ in all splits at x = 3, in 2·C(4, 1)/C(6, 3) = .4 at 2 and 4, else never
    made = noise_floor(side([[1] * x + [0] * (6 - x) for x in range(7)]), samples=3).iloc[0]
    assert (made["rate"], made["source"], made["n_items"]) == (pytest.approx(1.8 / 7), "measured", 7)
    spread = np.std([0, 0, 0.4, 1, 0.4, 0, 0])
    assert made["n_wanted"] == math.ceil(3.84 * spread**2 / 0.03**2)
    # two of four samples: the splits 1 1 | 0 0 differ (1 of 3), 1 0 | 1 0 have no verdict
    assert noise_floor(side([[1, 1, 0, 0]] * 3), samples=2).iloc[0]["rate"] == pytest.approx(1 / 3)
    # one of two samples without a verdict: nothing to differ from
    assert noise_floor(side([[1, "!empty"]] * 3), samples=1).iloc[0]["rate"] == 0
    # labels, where there is no pass rule: 1 and 2, always apart
    assert noise_floor(side([[1, 2], [3, 3]], PLAIN), samples=1).iloc[0]["rate"] == 0.5


def test_the_floor_covers_the_true_share():
    """Interval and number of items at a floor of D(.0744) = .0309 (uniform noise)."""
    covered, wanted = 0, []
    for seed in range(40):
        made = noise_floor(side(uniform(np.random.default_rng(seed), 120, 6)), samples=3).iloc[0]
        covered += made["low"] <= votes_of_three(0.0744) <= made["high"]
        wanted.append(made["n_wanted"])
    assert covered >= 34, "40 intervals of 95 % cover 38; fewer than 34 come once in a hundred runs"
    # ±3 points at a floor of .03 take 65 (uniform noise) to 80 items; never fewer than an interval of 0 of n takes: 61
    assert 60 < np.mean(wanted) < 85


def test_a_prediction_range():
    from scipy.stats import binom

    for n, high in ((149, 0.06), (20, 0.5), (1000, 0.001), (3, 1.0)):
        assert chance_limit(n, Floor(ends=Interval(0, high))) == binom.ppf(0.975, n, high)
    assert math.isnan(chance_limit(10, Floor()))


def test_one_sample_or_no_rule_cannot_tell_change_from_noise():
    one = noise_floor(side([1, 0, 1])).iloc[0]
    assert math.isnan(one["rate"])
    assert math.isnan(one["high"])
    assert one["notes"] == "one sample each: cannot tell change from noise"
    assert noise_floor(side([[1, 2], [3, 3]], PLAIN)).iloc[0]["notes"].startswith("no pass rule and no second set")
    row = only(compare(side([1, 0]), side([0, 0])))
    assert math.isnan(row["change_p"])
    assert "cannot tell change from noise" in str(compare(side([1, 0]), side([0, 0])))
    assert len(noise_floor(schemas.empty("judgments"))) == 0
    all_lost = noise_floor(side([["!empty", "!empty"]] * 3)).iloc[0]
    assert math.isnan(all_lost["low"])
    with pytest.raises(InputError, match="no column `judge`"):
        noise_floor(side([1]).drop(columns=["judge", "passed"]))
    with pytest.raises(ConfigError, match="samples must be a whole number"):
        noise_floor(side([1]), samples=0)
    with pytest.raises(ConfigError, match="half_width must be a share"):
        noise_floor(side([1]), half_width=3)


# -- what was asked again


def keyed(table, text="k"):
    """With a key per item, judge, order and sample, as `judge` gives it; `text` is what the prompt adds to it."""
    parts = table[["item_id", "judge", "order", "sample"]].astype(object).fillna("")
    return table.assign(key=[f"{text} {' '.join(map(str, row))}" for row in parts.itertuples(index=False)])


def test_same_replies_changed_nothing():
    a = keyed(side([[1, 1, 0], [0, 1, 0]] * 5))
    made = compare(a, a)
    row = only(made)
    assert (row["n_asked_again"], row["floor_source"], row["chance_up_to"]) == (0, "same replies", 0)
    assert math.isnan(row["change_p"])
    assert "same replies" in str(made)
    # the same prompts asked again with refresh: other outcomes under the same keys
    b = keyed(side([[1, 1, 1], [0, 1, 0]] * 5))
    row = only(compare(a, b))
    assert (row["n_asked_again"], row["floor_source"]) == (10, "range")
    assert 0 < row["change_p"] <= 1


def jury_of(a, b, ka="k", kb="k"):
    both = [keyed(side(a, judge="x"), ka).assign(weight=3.0), keyed(side(b, judge="y"), kb)]
    return pd.concat(both, ignore_index=True)


def test_replies_that_stayed_are_fixed():
    """x weighs more, wavers, and has the same replies; y was asked again and never wavers: no jury verdict changes."""
    x = [[1, 0, 1], [0, 0, 1]] * 20
    y = [[1, 1, 1], [0, 0, 0]] * 20
    a, b = evaluated(jury_of(x, y)), evaluated(jury_of(x, y, kb="edited"))
    floor = pd.concat(
        [side([[1, 0, 1, 0, 1, 0]] * 40, judge="x").assign(weight=3.0), side([[v[0]] * 6 for v in y], judge="y")]
    )
    table = compare(a, b, floor=floor).table.set_index("judge")
    assert table.loc["x", "floor_source"] == "same replies"
    assert table.loc[["y", "jury"], "floor_source"].tolist() == ["measured"] * 2
    assert table.loc[["y", "jury"], "floor"].tolist() == [0, 0]
    assert table.loc["jury", "change_p"] == 1
    # asked again, x moves the jury as well
    both = compare(a, evaluated(jury_of(x, y, "new", "new")), floor=floor).table.set_index("judge")
    assert both.loc["jury", "floor"] == both.loc["x", "floor"] == 1  # three of six pass: halves always differ


def test_items_that_share_their_replies_count_once():
    a, b = keyed(side([[1, 1, 1]] * 8)), keyed(side([[0, 0, 0]] * 8), "edited")
    alone = only(compare(a, b))["change_p"]
    assert alone == 1 / 2000  # 8 items: 2 of 20⁸
    twins = [
        table.assign(key=table["sample"].map(lambda at, name=name: f"{name} {at}"))
        for name, table in (("a", a), ("b", b))
    ]
    assert only(compare(*twins))["change_p"] == pytest.approx(0.1, abs=0.04)  # one item: 2 of 20


def test_samples_of_pairs_stay_in_their_order():
    """AB always says A and BA always B, on both sides: the place decides, the edit nothing."""
    answers = {(f"i{n}", "j"): {"AB": ["A"] * 3, "BA": ["B"] * 3} for n in range(10)}
    a, b = (judgments(answers, PAIR, version=version) for version in ("v1", "v2"))
    assert only(compare(a, b))["change_p"] == 1
    turned = {key: {"AB": ["B"] * 3, "BA": ["A"] * 3} for key in answers}
    assert only(compare(a, judgments(turned, PAIR, version="v2")))["change_p"] == 1 / 2000


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("q", [2, 3])
def test_the_test_keeps_its_size_and_sees_an_edit(k, q):
    draw = np.random.default_rng(10 * k + q)
    cell = np.repeat(np.arange(40), q)

    def p(chance_a, chance_b):
        a, b = (np.concatenate([draw.multinomial(k, one) for one in side]) for side in (chance_a, chance_b))
        return permuted_samples(Outcomes(cell, a, b))

    chances = [draw.dirichlet([0.5] * q, 40) for _ in range(200)]
    null = np.array([p(chance, chance) for chance in chances])
    assert (null <= 0.05).sum() <= 20  # of 200 at 5 %: more than 20 come once in five hundred runs
    assert null.mean() == pytest.approx(0.5, abs=0.1)
    # half of the items turned around
    seen = [p(chance, np.vstack([chance[:20, ::-1], chance[20:]])) for chance in chances[:20]]
    assert np.mean(np.array(seen) <= 0.05) > 0.6


# -- sampling again


# -- sampling again


def test_judges_without_a_model_are_sampled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    items, _ = ek.load_example("support")
    jury = ["fake:noisy", "fake:strict"]
    first = ek.evaluate(items, "faithfulness", jury)
    edited = first.rubric.edit("faithfulness", scale={1: "exactly one claim lacks support"})
    made = ek.compare(first, ek.evaluate(items, edited, jury)).table.set_index("judge")
    assert (made["floor_source"] == "measured").all()
    assert made.loc["fake:noisy", "floor"] > 0
    assert made["n_asked_again"].eq(24).all()
    n_replies = ek.evaluation.cache_stats()["n_replies"]
    assert n_replies == 24 * 2 * 3 * 2 + 24 * 2 * 3  # twice on both sides' three samples, and three more of the first
    again = ek.evaluate(items, "faithfulness", jury, offline=True)
    ek.compare(again, ek.evaluate(items, edited, jury, offline=True))
    assert ek.evaluation.cache_stats()["n_replies"] == n_replies, "paid once per version"
    table = noise_floor(first).set_index("judge")
    assert table["source"].tolist() == ["measured"] * 3
    assert table["n_items"].tolist() == [24] * 3


def test_what_was_not_asked_is_no_second_sample(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    items = ek.load_example("support")[0].head(12)
    ek.evaluate(items, "faithfulness", "fake:noisy")
    offline = ek.evaluate(items, "faithfulness", "fake:noisy", offline=True)
    edited = ek.evaluate(items, offline.rubric.edit("faithfulness", scale={1: "one claim"}), "fake:noisy")
    row = ek.compare(offline, edited, rows="jury").table.iloc[0]
    assert row["floor_source"] == "range"
    assert ek.evaluation.cache_stats()["n_replies"] == 72, "an offline evaluation asks for nothing"


def test_a_price_before_sampling_again(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    judge = ek.Judge("openai", "recorded", name="j", price=(1.0, 2.0))
    items = pd.DataFrame(
        {"item_id": [f"i{n}" for n in range(400)], "question": "q", "answer": [f"text {n}" for n in range(400)]}
    )
    ek.record(
        items,
        "relevancy",
        judge,
        [["2", "0", "2"] if n % 9 == 0 else ["2"] * 3 for n in range(400)],
        template="number@v1",
    )
    evaluation = ek.evaluate(items, "relevancy", judge, offline=True, template="number@v1")
    assert evaluation.repeats is None, "a judge that costs is never asked unasked"
    price = plan_again(evaluation, n_items=77)
    assert price.n_items == 77
    assert int(price.table["n_judgments"].sum()) == 77 * 6
    assert price.usd > 0
    assert 61 <= plan_again(evaluation).n_items <= 400
    assert plan_again(evaluation, half_width=0.005).n_items == 400
    asked = sample_again(evaluation, n_items=20)  # offline, like the evaluation
    assert asked["item_id"].nunique() == 20
    assert sorted(asked["sample"].unique()) == [0, 1, 2], "offline there is no more than was recorded"
    with_it = ek.compare(evaluation, evaluation, floor=asked).table.iloc[0]
    assert with_it["floor_source"] == "same replies"
    with pytest.raises(ConfigError, match="n_items must be"):
        sample_again(evaluation, n_items=0)
    with pytest.raises(TypeError, match="unexpected arguments: 'sampels'"):
        sample_again(evaluation, sampels=3)


def test_sampling_again_keeps_to_its_budget_over_all_rounds(tmp_path, monkeypatch):
    """Verdicts waver on every second item, so 61 items are too few and a second round follows. A call costs US$ 0.1."""
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    turns = itertools.count()
    items = pd.DataFrame({"question": "q", "answer": [f"text {n}" for n in range(150)]})
    with judge_server(faults=lambda _body: {"content": "02"[next(turns) % 2]}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url, price=(1_000.0, 0.0), max_tokens=1)
        evaluation = ek.evaluate(items, "relevancy", judge, samples=1, template="number@v1", progress=False)
        n = len(server.seen)
        sample_again(evaluation, budget_usd=8.0, progress=False)
    assert 61 <= len(server.seen) - n <= 80


def test_items_in_groups_are_drawn_until_the_groups_are_enough(tmp_path, monkeypatch):
    """Of 400 items in 40 groups, 61 items of 40 groups give a wider interval than 61 items of their own."""
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    texts = [{"question": "q", "answer": f"text {n}"} for n in range(400)]
    asked = {}
    for name, items in {
        "alone": texts,
        "grouped": [one | {"group_id": at // 10} for at, one in enumerate(texts)],
    }.items():
        evaluation = ek.evaluate(items, "relevancy", "fake:strict", samples=1)
        asked[name] = plan_again(evaluation).n_items, sample_again(evaluation)["item_id"].nunique()
    assert asked["alone"][1] == 61  # none changes: as many as Wilson's interval of 0 takes
    assert asked["grouped"][0] == asked["grouped"][1] == 400  # 40 groups are too few for ± 3 points
    assert asked["alone"][0] < 400


def test_criteria_that_were_not_edited_and_replies_of_another_version_are_not_asked_again(tmp_path, monkeypatch):
    monkeypatch.setenv("EVALKIT_CACHE", str(tmp_path))
    scale = {0: "no", 1: "nearly", 2: "yes"}
    criteria = [{"name": name, "scale": scale, "pass_at": 2} for name in ("one", "two")]
    rubric = ek.Rubric(id="r", inputs=["answer"], template="number@v1", criteria=criteria)
    items = [{"answer": f"ITEM-2 no. {n}"} for n in range(10)]
    with judge_server() as server:
        judge = ek.Judge("openai", "m", base_url=server.url, price=(1.0, 1.0), max_tokens=9)
        before = ek.evaluate(items, rubric, judge, samples=2, progress=False)
        saved = ek.Rubric(**rubric.to_dict() | {"version": "v2"})
        after = ek.evaluate(items, saved, judge, samples=2, adopt=True, progress=False)
        edited = ek.evaluate(items, rubric.edit("two", scale={1: "half"}), judge, samples=2, progress=False)
        n_seen = len(server.seen)
        assert (n_seen, plan_again(after).n_to_call) == (30, 40)  # adopted replies count
        assert plan_again(before, criteria=["two"]).n_to_call == 20
        again = sample_again(before, criteria=["two"], progress=False)
        assert (len(server.seen) - n_seen, set(again["criterion"])) == (10, {"two"})
        assert (again["rubric_version"] == "v1").all()
        row = ek.compare(before, edited, floor=again).table.set_index("criterion")["floor_source"]
        assert row.to_dict() == {"one": "same replies", "two": "measured"}
        with pytest.raises(ek.errors.RubricError, match="no criterion 'three'"):
            sample_again(before, criteria=["three"])


@pytest.mark.parametrize("again", [sample_again, plan_again])
def test_only_an_evaluation_is_sampled_again(again):
    with pytest.raises(InputError, match=r"expected the result of evaluate, got DataFrame; for a table of judgments"):
        again(side([[1, 1, 0]] * 9))


def test_a_floor_of_other_prompts_is_refused():
    a, b = side([[1, 1, 0]] * 9), side([[1, 0, 0]] * 9, version="v2")
    with pytest.raises(InputError, match="have no rubric version, criterion and judge in common"):
        compare(a, b, floor=side([[1] * 6] * 9, version="v3"))
    with pytest.raises(InputError, match=r"floor is not a judgments table .*got float"):
        compare(a, b, floor=0.03)
    # too few samples measure nothing: the range of what `before` has
    assert only(compare(a, b, floor=a))["floor_source"] == "range"


# -- compare


def test_changes_by_hand():
    # i00 and i01 fail → pass, i02 pass → fail, seven stay: effect (2 − 1)/10; mid-p of (2, 1) is
    # 2·P(X ≤ 1) − P(X = 1) for Bin(3, ½) = 2·4/8 − 3/8.
    a, b = side([0, 0, 1] + [1] * 7), side([1, 1, 0] + [1] * 7, version="v2")
    made = compare(a, b)
    row = only(made)
    assert (row["n_common"], row["n_verdicts"], row["changed"], row["fixed"], row["broke"]) == (10, 10, 3, 2, 1)
    assert row["effect"] == pytest.approx(0.1)
    assert row["mcnemar_p"] == pytest.approx(0.625)
    assert row["mean_difference"] == pytest.approx(0.1)
    assert (row["against"], row["version_before"], row["version_after"]) == ("verdicts", "v1", "v2")
    # Differences 1, 1, −1 and seven 0: s²/n = (.9²·2 + 1.1² + 7·.1²)/9/10 = .0322222. Half an item more in each of four
    # cells: 1/12 is the middle, SE² = .0322222·(10/12)² + (1 + (1/12)²)/12² = .0293692; t₉ = 2.262157.
    assert row["effect_low"] == pytest.approx(1 / 12 - 2.262157 * 0.0293692**0.5, abs=1e-5)
    assert row["effect_high"] == pytest.approx(1 / 12 + 2.262157 * 0.0293692**0.5, abs=1e-5)
    assert made.before == "r@v1, judge j"
    assert made.after == "r@v2, judge j"
    lines = made.text(200).splitlines()
    assert lines[3].split()[:7] == ["judge", "changed", "by", "chance", "p", "by", "chance"]
    assert lines[4].split()[:8] == ["j", "3", "of", "10", "unknown", "NA", "2", "1"]
    assert "one sample each: cannot tell change from noise" in lines


def test_against_labels_fixed_means_became_right():
    # People: fail, fail, pass: going to pass is right for none of the first two, so they broke.
    labels = pd.DataFrame(
        {"item_id": ["i00", "i01", "i02", "i03"], "criterion": "c", "annotator": "p", "label": ["0", "0", "1", "1"]}
    )
    row = only(compare(side([0, 0, 1, 0, 0]), side([1, 1, 0, 1, 1]), labels=labels))
    assert (row["changed"], row["fixed"], row["broke"], row["against"]) == (5, 1, 3, "labels")
    assert row["effect"] == pytest.approx(-2 / 4)


def test_labels_of_changed_items_with_one_verdict_are_no_sign_of_one_verdict_for_all():
    ids, before = [f"i{n:02}" for n in range(100)], np.arange(100) % 2
    after = np.where(np.arange(100) < 20, 1, before)
    labels = pd.DataFrame(
        {"item_id": ids[:20:2], "criterion": "c", "annotator": "p", "label": "1", "source": "changed"}
    )
    made = compare(side(before), side(after, version="v2"), labels=labels)
    row = only(made)
    # `after` fails 40 of 100
    assert (row["against"], row["n_rarer"], row["fixed"], row["broke"]) == ("changed", 40, 10, 0)
    assert "one verdict" not in str(made)
    known = labels.assign(item_id=ids[21:40:2], source="random")
    made = compare(side(before), side(after, version="v2"), labels=pd.concat([labels, known]))
    assert only(made)["n_rarer"] == 0
    assert "another verdict on 0 items only" in str(made)


@pytest.mark.parametrize("seed", range(6))
def test_labels_of_items_that_changed_tell_the_difference_over_all_items(seed):
    """Against plain Python: what did not change is neither, held-out items are left out, and what is open may be both.

    Every second table is split; of the others all items are used, and the labels carry no part.
    """
    draw = np.random.default_rng(seed)
    ids, groups = [f"i{n:02}" for n in range(100)], pd.Series({f"i{n:02}": n // 2 for n in range(100)})
    before, after, people = draw.integers(0, 2, (3, 100))
    after = np.where(draw.random(100) < 0.7, before, after)
    labels = pd.DataFrame({"item_id": ids, "criterion": "c", "annotator": "p", "label": people.astype(str)})
    labels = split_labels(labels, groups).assign(source="random").astype({"part": str})
    is_dev = np.ones(100, dtype=bool) if seed % 2 else (labels["part"] == "dev").to_numpy()
    labels = labels.drop(columns="part") if seed % 2 else labels
    is_changed, at_random = (before != after) & is_dev, draw.random(100) < 0.2
    asked = np.flatnonzero(is_changed & ~at_random)
    labels["source"] = labels["source"].where(~is_changed | at_random, "changed")
    args = side(before), side(after, version="v2")
    plain = only(compare(*args, labels=labels[at_random], clusters=groups))
    assert plain["n_unlabelled"] == len(asked) > 3
    assert np.isnan(plain["effect_least"])
    for n_open in (len(asked), 3, 0):  # labelled one after another
        has_label = at_random | np.isin(np.arange(100), asked[n_open:])
        picked = labels[is_changed].assign(source="picked", annotator="q", label="0")  # in no figure
        row = only(compare(*args, labels=pd.concat([labels[has_label], picked]), clusters=groups))
        assert row["n_unlabelled"] == n_open
        steps = [int(b == y) - int(a == y) for a, b, y in zip(before, after, people, strict=True)]
        used = [(step, unit) for step, unit, use in zip(steps, groups, is_dev, strict=True) if use]
        units = np.array([unit for _, unit in used])
        if n_open == 0:
            ends = change_interval(np.array([float(step) for step, _ in used]), units)
            assert (row["against"], row["n_paired"]) == ("changed", len(used))
            assert (row["fixed"], row["broke"]) == tuple(sum(step == one for step, _ in used) for one in (1, -1))
            assert row[["effect_low", "effect_high"]].tolist() == pytest.approx([ends.low, ends.high])
            assert len(compare(*args, labels=labels[has_label], clusters=groups).decisions) == 1
            continue
        for name in ("effect", "fixed", "broke", "n_paired", "against"):  # of the labels drawn at random alone
            assert str(row[name]) == str(plain[name])
        if n_open == len(asked):
            assert np.isnan(row["effect_least"]), "nothing was asked for yet"
            continue
        for name, if_open in (("effect_least", -1.0), ("effect_most", 1.0)):
            of_end = [float(step) if has_label[n] or not is_changed[n] else if_open for n, step in enumerate(steps)]
            of_end = np.array(of_end)[is_dev]
            ends = change_interval(of_end, units)
            assert row[name] == pytest.approx(of_end.mean())
            assert row[[f"{name}_low", f"{name}_high"]].tolist() == pytest.approx([ends.low, ends.high])
            if if_open < 0:
                sums = pd.Series(of_end).groupby(units).sum()
                assert row["evidence_least"] == pytest.approx(evidence(int((sums > 0).sum()), int((sums < 0).sum())))


def test_nothing_changed():
    codes = [[1, 1, 0], [0, 0, 0]] * 6
    row = only(compare(side(codes), side(codes)))
    assert (row["changed"], row["mcnemar_p"], row["sign_flip_p"], row["mean_difference"]) == (0, 1, 1, 0)
    assert row["chance_up_to"] > 0
    # None of 12 changed: not certain, 0 ∓ t₁₁/14.
    assert [row["effect_low"], row["effect_high"]] == pytest.approx([-2.200985 / 14, 2.200985 / 14], abs=1e-6)


def test_items_without_a_verdict_are_said_beside_the_count():
    # i1 is tied on a: 2 of 3 items have a verdict on both sides, one of these changed
    made = compare(side([[1, 1], [1, 0], [0, 0]]), side([[1, 1], [1, 1], [1, 1]]))
    row = only(made)
    assert (row["changed"], row["n_verdicts"], row["n_common"]) == (1, 2, 3)
    assert "1 of 3 items without a verdict on one side or both: left out of changed" in str(made)


def test_only_items_of_both_sides_count():
    made = compare(side([1, 0, 1]), side([1, 1]))
    assert (only(made)["n_common"], made.n_only_before, made.n_only_after) == (2, 1, 0)
    assert "left out: 1 item only before, 0 only after" in str(made)
    unscored = only(compare(side([1, "!empty", 0]), side([1, 1, 1])))
    assert (unscored["n_verdicts"], unscored["changed"]) == (2, 1)


def test_judges_and_jury():
    def jury(version, answers):
        return judgments(
            {(f"i{n}", j): codes for n, row in enumerate(answers) for j, codes in zip("abc", row, strict=True)},
            BINARY,
            version=version,
        )

    draw = np.random.default_rng(1)
    first, second = (draw.integers(0, 2, (30, 3, 3)).tolist() for _ in range(2))
    made = compare(evaluated(jury("v1", first)), evaluated(jury("v2", second)))
    assert made.table["judge"].tolist() == ["a", "b", "c", "jury"]
    # Coins all over: every verdict is a coin, that of the jury too: half of them change.
    twice = jury("v1", draw.integers(0, 2, (60, 3, 6)).tolist())
    measured = compare(evaluated(jury("v1", first)), evaluated(jury("v2", second)), floor=twice).table
    assert measured["floor"].tolist() == pytest.approx([0.5] * 4, abs=0.12)
    assert (measured["changed"] <= measured["chance_up_to"]).all()
    assert (made.table["mcnemar_p_holm"] >= made.table["mcnemar_p"]).all()
    with pytest.raises(ConfigError, match=r"before was scored by a jury, after by a judge: .* pass across_modes=True"):
        compare(jury("v1", first), side([1, 0]))
    single = jury("v1", first)
    plain = compare(single, jury("v2", second))
    assert plain.table["judge"].tolist() == ["a", "b", "c"]
    alone = single[(single["judge"] == "a").to_numpy()]
    across = compare(evaluated(single), evaluated(alone), across_modes=True)
    assert across.table["judge"].tolist() == ["a", "jury"]


def test_another_judge_on_each_side_compares_the_scores():
    with pytest.raises(InputError, match="to compare different judges, pass evaluations"):
        compare(side([1, 0], judge="x"), side([1, 1], judge="y"))
    made = compare(evaluated(side([1, 0], judge="x")), evaluated(side([1, 1], judge="y")))
    assert only(made)["judge"] == "jury"
    assert made.after == "r@v1, judge y"


def test_labels_change_where_there_is_no_verdict():
    row = only(compare(side(["art", "law"], NAMES), side(["art", "sport"], NAMES)))
    assert (row["changed"], row["n_verdicts"]) == (1, 2)
    assert pd.isna(row["against"])
    assert math.isnan(row["mean_difference"])


def test_objects_with_tables_and_costs():
    made = compare(*(evaluated(side(codes).assign(cost_usd=0.25)) for codes in ([1, 0, 1], [1, 1, 1])))
    assert (made.bill_before.usd, made.bill_after.usd) == (0.75, 0.75)
    assert only(made)["changed"] == 1
    assert math.isnan(compare(side([1]), side([1])).bill_before.usd)
    assert isinstance(made, Comparison)
    assert "US$ 0.7500" in str(made)


def test_a_price_that_is_unknown_makes_the_sum_unknown():
    # two judges: one is free, the other's price is unknown; three replies of each
    free, mine = (
        side([1, 0, 1], judge="free").assign(cost_usd=0.0),
        side([1, 1, 1], judge="mine").assign(cost_usd=np.nan),
    )
    both = pd.concat([free, mine], ignore_index=True).assign(source="live", key=[*"abcdef"])
    made = compare(both, both)
    assert math.isnan(made.bill_before.usd)
    assert "US$" not in str(made).splitlines()[0]
    assert "(3 of 6 replies of unknown price)" in str(made).splitlines()[0]
    paid = pd.concat([free.assign(cost_usd=0.25), mine], ignore_index=True).assign(source="live", key=[*"abcdef"])
    assert "(at least US$ 0.7500; 3 replies of unknown price)" in compare(paid, both)._repr_html_()
    # a reply that never came has no price; one that two rows share is paid once: .25 + .25
    lost = free.assign(
        cost_usd=[0.25, 0.25, np.nan], source=["live", "cache", None], key=[*"abc"], error=[None, None, "timeout"]
    )
    lost.loc[lost["error"].notna(), ["score", "score_norm", "label", "passed"]] = None
    assert compare(lost, lost).bill_before.usd == 0.5
    shared = free.assign(cost_usd=0.25, source="live", key=["a", "a", "b"])
    assert compare(shared, shared).bill_before.usd == 0.5


def test_without_labels_nothing_is_fixed_and_ties_are_said():
    """i00 has no label and i01 a tied one; i01 alone changed."""
    a, b = side([1, 0, 1], criterion="x"), side([1, 1, 1], criterion="x")
    said = pd.DataFrame(
        [["i01", "x", "p", "1"], ["i01", "x", "q", "0"], ["i02", "x", "p", "1"]],
        columns=["item_id", "criterion", "annotator", "label"],
    )
    made = compare(a, b, labels=said)
    row = only(made)
    assert (row["changed"], row["fixed"], row["broke"]) == (1, 0, 0)
    assert "2 items without a label or with tied labels: neither fixed nor broken" in made.text(200)
    # all labelled: nothing to say; none labelled: no counts, and why
    whole = said.assign(item_id=["i00", "i01", "i02"], annotator="p")
    assert "without a label" not in compare(a, b, labels=whole).text(200)
    with pytest.raises(InputError, match="the labels are for criterion 'other', but criterion 'x' was judged"):
        compare(a, b, labels=said.assign(criterion="other"))
    none = compare(a, b, labels=said.assign(label=None))
    shown = none.text(200).splitlines()
    assert shown[3].split()[:3] == ["judge", "changed", "by"]
    assert shown[4].split().count("–") == 3, shown[4]
    assert "effect: no item has a verdict on both sides and a label" in none.text(200)


def test_the_mean_difference_shows_its_items():
    # one of three items is unscored before: two have a score on both sides, and a verdict
    made = compare(side([1, 0, "!unreadable"]), side([1, 1, 1]))
    assert only(made)[["n_common", "n_scored", "n_verdicts"]].tolist() == [3, 2, 2]
    # the judges tie on the first item before (1 and 0): it has a score, but no verdict
    jury = [evaluated(pd.concat([side(codes), side([0, 0], judge="k")])) for codes in ([1, 0], [0, 0])]
    row = compare(*jury).table.set_index("judge").loc["jury"]
    assert row[["n_scored", "n_verdicts"]].tolist() == [2, 1]
    assert ", 2 items" in compare(*jury).text(200)


def test_html_is_escaped():
    made = compare(side([1, 0], judge="<b>j</b>"), side([1, 1], judge="<b>j</b>"))
    assert "<b>j</b>" not in made._repr_html_()
    assert "&lt;b&gt;j" in made._repr_html_()


def test_what_cannot_be_compared():
    with pytest.raises(InputError, match="after is not a judgments table"):
        compare(side([1]), 3)
    with pytest.raises(InputError, match="no combination of rubric, criterion and judge in common"):
        compare(side([1]), side([1], criterion="other"))
    elsewhere = side([1, 0]).replace({"item_id": {"i00": "x", "i01": "y"}})
    with pytest.raises(InputError, match="no item in common; before has 'i00', 'i01', after has 'x', 'y'"):
        compare(side([1, 0]), elsewhere)
    both = pd.concat([side([1]), side([1], version="v2")])
    with pytest.raises(InputError, match="before mixes the versions 'v1', 'v2'"):
        compare(both, side([1]))
    assert len(compare(schemas.empty("judgments"), schemas.empty("judgments")).table) == 0


def test_scales_that_differ_are_said():
    row = only(compare(side([0, 2], ORDINAL), side([0, 1], BINARY)))
    assert "the scales or pass rules differ" in row["notes"]


def test_shuffled_rows():
    draw = np.random.default_rng(9)
    a, b = (side(draw.integers(0, 2, (25, 3)).tolist()) for _ in range(2))
    plain = compare(a, b).table
    mixed = compare(a.sample(frac=1, random_state=1), b.sample(frac=1, random_state=2)).table
    assert_frame_equal(plain, mixed, check_exact=False, rtol=1e-6)


def test_the_row_of_the_jury_alone_is_that_of_the_whole_table():
    rng = np.random.default_rng(3)
    sides = []
    for _ in range(2):
        samples = {(f"i{n:02}", judge): list(rng.integers(0, 2, 3)) for n in range(20) for judge in "xyz"}
        sides.append(evaluated(judgments(samples, BINARY)))
    whole, jury = compare(*sides).table, compare(*sides, rows="jury").table
    assert whole["judge"].tolist() == ["x", "y", "z", "jury"]
    assert jury["judge"].tolist() == ["jury"]
    unadjusted = [name for name in whole.columns if not name.endswith("_holm") and name != "judge"]
    assert_frame_equal(
        jury[unadjusted].reset_index(drop=True),
        whole.loc[whole["judge"] == "jury", unadjusted].reset_index(drop=True),
        check_categorical=False,
    )
    assert jury["mcnemar_p_holm"].tolist() == jury["mcnemar_p"].tolist()  # one test alone is not adjusted
    # one judge on both sides has no jury: its row stays
    assert compare(side([0, 1]), side([1, 1]), rows="jury").table["judge"].tolist() == ["j"]
    with pytest.raises(ConfigError, match="allowed: 'all', 'jury'"):
        compare(*sides, rows="judges")


@pytest.mark.parametrize("reason", ["stopped", "budget", "timeout", "server_error", "cache_miss", "missing_input"])
def test_samples_without_a_reply_are_no_change(reason: str) -> None:
    """A run that was stopped: what was not asked says nothing about the edit; the rest is the same."""
    rows = [[1, 1, 0], [0, 0, 0], [1, 1, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]] * 8
    before = side(rows)
    after = side(rows[:24] + [[f"!{reason}"] * 3] * 12 + [[row[0], f"!{reason}", f"!{reason}"] for row in rows[36:]])
    found = only(compare(before, after))
    assert found["change_p"] > 0.5
    assert found["changed"] == 0
    unreadable = only(compare(before, side(rows[:24] + [["!unreadable"] * 3] * 24)))
    assert unreadable["change_p"] < 0.01, "a reply that cannot be read is an outcome"


def test_what_no_judge_was_asked_twice_is_decided_by_the_interval_however_many_samples_there_are():
    """Other judges, a judge more, more samples: asking again measures nothing there, so nothing waits for it."""
    draw, kinds = np.random.default_rng(46), set()
    for number in range(60):
        n, k = 60, int(draw.integers(1, 4))
        truth = draw.integers(0, 2, n)
        people = pd.DataFrame({"item_id": [f"i{at:02}" for at in range(n)], "criterion": "c", "annotator": "ann"})

        def says(judge, share, samples, n=n, truth=truth):
            codes = {(f"i{at:02}", judge): [int(truth[at] ^ (draw.random() < share)) for _ in range(samples)]
                     for at in range(n)}  # fmt: skip
            return keyed(judgments(codes, BINARY), judge)

        x, better = says("x", 0.35, k), says("y", draw.choice([0.05, 0.35]), k)
        more = keyed(pd.concat([x, says("x", 0.1, k).assign(sample=lambda table, k=k: table["sample"] + k)]), "x")
        change = ("judge", "one more", "samples", "words")[number % 4]
        after = {"judge": better, "one more": pd.concat([x, better]), "samples": more}.get(
            change, keyed(says("x", 0.05, k), "in other words")
        )
        options = {"labels": people.assign(label=truth.astype(str)), "across_modes": True, "rows": "jury"}
        row, text = (found := compare(evaluated(x), evaluated(after), **options)).table.iloc[0], found.decisions["c"]
        is_better, is_worse = row["effect_low"] > 0, row["effect_high"] < 0
        assert (row["floor_source"] == "not asked twice") == (change != "words")
        assert ("with one sample per judge" in text.lower()) <= (k == 1 and change == "words")
        if change != "words":
            verdict = "Keep 'after'." if is_better else "Do not keep 'after'." if is_worse else ""
            assert text.startswith(verdict or ("Cannot tell", "No difference")), (change, text)
            assert ("the interval alone allows for chance" in text) == is_better
            kinds.add((change, verdict))
    assert {(change, "Keep 'after'.") for change in ("judge", "samples")} < kinds
    assert len(kinds) > 4


@pytest.mark.parametrize("n_groups", [4, 12, 60])
def test_the_interval_of_several_versions_is_widened_by_the_groups_of_the_labelled_items(n_groups):
    """Few groups have labels, many have none: t is that of the labelled ones, as in the interval of two versions."""
    from scipy.stats import t

    draw = np.random.default_rng(n_groups)
    codes = [draw.integers(0, 2, 240).tolist() for _ in range(2)]
    groups = {f"i{at:02}": f"g{at % n_groups if at < 60 else at}" for at in range(240)}
    people = pd.DataFrame({"item_id": [*groups][:60], "criterion": "c", "annotator": "ann", "label": codes[1][:60]})
    row = only(compare(side(codes[0]), side(codes[1]), labels=people.astype(str), clusters=groups))
    assert (row["n_paired"], row["n_paired_clusters"], row["n_clusters"]) == (60, n_groups, n_groups + 180)
    plain = Difference.of(row)
    for n_versions in (2, 3, 8):
        pairs = n_versions * (n_versions - 1) // 2
        ratio = t.isf(0.025 / pairs, n_groups - 1) / t.isf(0.025, n_groups - 1)
        wide = plain.at(0.05 / pairs)
        assert (wide.high - wide.low) / (plain.high - plain.low) == pytest.approx(ratio)
