import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from judged import BINARY, NAMES, ORDINAL, PLAIN, judgments
from pandas.testing import assert_frame_equal

from evalkit import tables
from evalkit.aggregation import aggregate
from evalkit.changes import Comparison, compare, noise_floor
from evalkit.changes.floors import fit
from evalkit.changes.trials import holm, mcnemar_midp, sign_flip
from evalkit.errors import ConfigError, InputError
from evalkit.voting import vote


def side(codes, scale=BINARY, judge="j", **fields):
    """Judgments of items i00, i01, … from one code or a list of samples each."""
    samples = {(f"i{n:02}", judge): code if isinstance(code, list) else [code] for n, code in enumerate(codes)}
    return judgments(samples, scale, **fields)


def evaluated(table):
    """What `evaluate` returns, as far as `compare` looks at it."""
    votes = vote(table)
    return SimpleNamespace(judgments=table, votes=votes, scores=aggregate(votes))


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
        assert mcnemar_midp(fixed, broke) == pytest.approx(expected, abs=1e-9)


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


# -- the noise floor


@pytest.mark.parametrize(
    ("alpha", "beta", "k", "seed"), [(0.15, 0.1, 3, 1), (0.5, 0.4, 3, 2), (3, 2.5, 3, 3), (1, 1, 5, 4)]
)
def test_the_floor_is_the_true_flip_rate(alpha, beta, k, seed):
    """Two independent k-votes of one prompt: the share that differs is what the fit on them expects."""
    draw = np.random.default_rng(seed)
    chance = draw.beta(alpha, beta, 1500)
    x = draw.binomial(k, chance[:, None], (1500, 2))
    true = 2 * np.mean(
        [
            p * (1 - p)
            for p in sum(math.comb(k, j) * chance**j * (1 - chance) ** (k - j) for j in range(k // 2 + 1, k + 1))
        ]
    )
    observed = ((2 * x > k)[:, 0] != (2 * x > k)[:, 1]).mean()
    tables_ = [
        judgments({(f"i{n}", "j"): [1] * hits + [0] * (k - hits) for n, hits in enumerate(column)}, BINARY)
        for column in x.T[:, :400].tolist()
    ]
    expected = only(compare(*tables_))["expected_by_chance"] / 400
    # 400 items twice leave a standard error of .006 (few flips) to .016 (many) on the expected share.
    assert expected == pytest.approx(true, abs=0.03)
    assert observed == pytest.approx(true, abs=0.04)


def test_the_fit_finds_the_beta_binomial():
    from scipy.optimize import minimize
    from scipy.stats import betabinom

    draw = np.random.default_rng(0)
    x = draw.binomial(5, draw.beta(2, 3, 4000))
    alpha, beta = fit(x, np.full(4000, 5))
    # Five trials each leave a standard error of some 8 % on both; their ratio is known far better.
    assert alpha == pytest.approx(2, rel=0.3)
    assert alpha / (alpha + beta) == pytest.approx(0.4, abs=0.01)
    other = minimize(lambda v: -betabinom.logpmf(x, 5, *np.exp(v)).sum(), [0, 0], method="Nelder-Mead")
    assert -betabinom.logpmf(x, 5, alpha, beta).sum() == pytest.approx(other.fun, abs=0.01)


def test_a_judge_that_never_wavers_has_no_noise():
    made = noise_floor(side([[1, 1, 1], [0, 0, 0]] * 10)).iloc[0]
    assert made["expected"] == pytest.approx(0, abs=0.05)
    assert (made["n_items"], made["n_samples"]) == (20, 3)
    # A coin: two independent 3-votes differ half of the time.
    coin = side([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 1, 1]] * 5)
    assert noise_floor(coin).iloc[0]["rate"] == pytest.approx(0.5, abs=0.1)


def test_one_sample_or_no_rule_cannot_tell_change_from_noise():
    one = noise_floor(side([1, 0, 1])).iloc[0]
    assert math.isnan(one["expected"])
    assert one["notes"] == "no repeated samples: cannot tell change from noise"
    plain = noise_floor(side([[1, 2], [3, 3]], PLAIN)).iloc[0]
    assert plain["notes"] == "no pass rule: cannot tell change from noise"
    assert "cannot tell change from noise" in str(compare(side([1, 0]), side([0, 0])))
    assert len(noise_floor(tables.empty("judgments"))) == 0
    all_lost = noise_floor(side([["!empty", "!empty"]] * 3)).iloc[0]
    assert math.isnan(all_lost["expected"])
    with pytest.raises(InputError, match="'passed' missing"):
        noise_floor(side([1]).drop(columns="passed"))


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
    assert (row["against"], row["version_a"], row["version_b"]) == ("verdicts", "v1", "v2")
    # Differences 1, 1, −1 and seven 0: s²/n = (.9²·2 + 1.1² + 7·.1²)/9/10 = .0322222. Half an item more in each of four
    # cells: 1/12 is the middle, SE² = .0322222·(10/12)² + (1 + (1/12)²)/12² = .0293692; t₉ = 2.262157.
    assert row["effect_low"] == pytest.approx(1 / 12 - 2.262157 * 0.0293692**0.5, abs=1e-5)
    assert row["effect_high"] == pytest.approx(1 / 12 + 2.262157 * 0.0293692**0.5, abs=1e-5)
    assert made.a == "r@v1, judge j"
    assert made.b == "r@v2, judge j"
    lines = str(made).splitlines()
    assert lines[3].startswith("judge  changed  by chance  now pass  now fail")
    assert lines[4].split()[:7] == ["j", "3", "of", "10", "unknown", "2", "1"]
    assert "no repeated samples: cannot tell change from noise" in lines


def test_against_labels_fixed_means_became_right():
    # People: fail, fail, pass: going to pass is right for none of the first two, so they broke.
    labels = pd.DataFrame(
        {"item_id": ["i00", "i01", "i02", "i03"], "criterion": "c", "annotator": "p", "label": ["0", "0", "1", "1"]}
    )
    row = only(compare(side([0, 0, 1, 0, 0]), side([1, 1, 0, 1, 1]), labels=labels))
    assert (row["changed"], row["fixed"], row["broke"], row["against"]) == (5, 1, 3, "labels")
    assert row["effect"] == pytest.approx(-2 / 4)


def test_nothing_changed():
    codes = [[1, 1, 0], [0, 0, 0]] * 6
    row = only(compare(side(codes), side(codes)))
    assert (row["changed"], row["mcnemar_p"], row["sign_flip_p"], row["mean_difference"]) == (0, 1, 1, 0)
    assert row["expected_by_chance"] > 0
    # None of 12 changed: not certain, 0 ∓ t₁₁/14.
    assert [row["effect_low"], row["effect_high"]] == pytest.approx([-2.200985 / 14, 2.200985 / 14], abs=1e-6)


def test_only_items_of_both_sides_count():
    made = compare(side([1, 0, 1]), side([1, 1]))
    assert (only(made)["n_common"], made.n_only_a, made.n_only_b) == (2, 1, 0)
    assert "left out: 1 item only in a, 0 only in b" in str(made)
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
    # Coins all over: every verdict is a coin, that of the jury too.
    assert made.table["expected_by_chance"].tolist() == pytest.approx([15] * 4, abs=3.5)
    assert (made.table["mcnemar_p_holm"] >= made.table["mcnemar_p"]).all()
    with pytest.raises(ConfigError, match="a was scored by a jury, b by a judge; pass across_modes=True"):
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
    assert made.b == "r@v1, judge y"


def test_labels_change_where_there_is_no_verdict():
    row = only(compare(side(["art", "law"], NAMES), side(["art", "sport"], NAMES)))
    assert (row["changed"], row["n_verdicts"]) == (1, 2)
    assert pd.isna(row["against"])
    assert math.isnan(row["mean_difference"])


def test_objects_with_tables_and_costs():
    made = compare(*(evaluated(side(codes).assign(cost_usd=0.25)) for codes in ([1, 0, 1], [1, 1, 1])))
    assert (made.cost_a, made.cost_b) == (0.75, 0.75)
    assert only(made)["changed"] == 1
    assert math.isnan(compare(side([1]), side([1])).cost_a)
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
    assert math.isnan(made.cost_a)
    assert "US$" not in str(made).splitlines()[0]
    assert "(3 of 6 replies of unknown price)" in str(made).splitlines()[0]
    paid = pd.concat([free.assign(cost_usd=0.25), mine], ignore_index=True).assign(source="live", key=[*"abcdef"])
    assert "(at least US$ 0.7500; 3 replies of unknown price)" in compare(paid, both)._repr_html_()
    # a reply that never came has no price; one that two rows share is paid once: .25 + .25
    lost = free.assign(
        cost_usd=[0.25, 0.25, np.nan], source=["live", "cache", None], key=[*"abc"], error=[None, None, "timeout"]
    )
    assert compare(lost, lost).cost_a == 0.5
    shared = free.assign(cost_usd=0.25, source="live", key=["a", "a", "b"])
    assert compare(shared, shared).cost_a == 0.5


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
    assert "2 items without a label or with tied labels: neither fixed nor broken" in str(made)
    # all labelled: nothing to say; none labelled: no counts, and why
    whole = said.assign(item_id=["i00", "i01", "i02"], annotator="p")
    assert "without a label" not in str(compare(a, b, labels=whole))
    none = compare(a, b, labels=said.assign(criterion="other"))
    shown = str(none).splitlines()
    assert shown[3].split()[:3] == ["judge", "changed", "by"]
    assert shown[4].split().count("–") == 3, shown[4]
    assert "effect: no item has a verdict on both sides and a label" in str(none)


def test_html_is_escaped():
    made = compare(side([1, 0], judge="<b>j</b>"), side([1, 1], judge="<b>j</b>"))
    assert "<b>j</b>" not in made._repr_html_()
    assert "&lt;b&gt;j" in made._repr_html_()


def test_what_cannot_be_compared():
    with pytest.raises(InputError, match="side b is no judgments table"):
        compare(side([1]), 3)
    with pytest.raises(InputError, match="share no rubric, criterion and judge"):
        compare(side([1]), side([1], criterion="other"))
    both = pd.concat([side([1]), side([1], version="v2")])
    with pytest.raises(InputError, match="side a holds the versions 'v1', 'v2'"):
        compare(both, side([1]))
    assert len(compare(tables.empty("judgments"), tables.empty("judgments")).table) == 0


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
    with pytest.raises(ConfigError, match="allowed are all, jury"):
        compare(*sides, rows="judges")
