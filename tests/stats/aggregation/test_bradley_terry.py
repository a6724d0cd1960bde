"""Ranks of systems: published estimates, other implementations, figures by hand, data that determine nothing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judgment_tables import PAIR
from pandas.testing import assert_frame_equal
from scipy.special import stdtrit

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.stats.aggregation.bradley_terry import has_maximum
from evalkit.tables import schemas

LABELS = {1.0: "A", 0.0: "B", 0.5: "tie", None: None}

# Wins of the row over the column, home and away, in the 1987 season of baseball's American League, eastern division:
# Agresti, Categorical Data Analysis (2nd ed. 2002), table 10.10; the estimates are in table 10.11
TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
BASEBALL = [
    [0, 7, 9, 7, 7, 9, 11],
    [6, 0, 7, 5, 11, 9, 9],
    [4, 6, 0, 7, 7, 8, 12],
    [6, 8, 6, 0, 6, 7, 10],
    [6, 2, 6, 7, 0, 7, 12],
    [4, 4, 5, 6, 6, 0, 6],
    [2, 4, 1, 3, 1, 7, 0],
]


def data(rows, judge="j", groups=None):
    """Votes and items from (system a, system b, value) of one judge; value None is unscored."""
    rows = list(rows)
    n = len(rows)
    labels = [LABELS[value] for *_, value in rows]
    votes = schemas.table(
        "votes",
        {
            **{name: [text] * n for name, text in (("rubric", "r"), ("rubric_version", "v1"), ("criterion", "c"))},
            "item_id": [str(at) for at in range(n)],
            "judge": [judge] * n,
            "label": labels,
            "tied": [False] * n,
            "n_samples": [2] * n,
            "n_scored": [2 * (label is not None) for label in labels],
            "level": ["nominal"] * n,
            "scale": [PAIR.to_json()] * n,
        },
    )
    items = pd.DataFrame({"item_id": [str(at) for at in range(n)]})
    items["system_a"], items["system_b"] = ([row[side] for row in rows] for side in (0, 1))
    return votes, items if groups is None else items.assign(group_id=groups)


def counted(counts):
    """Comparisons from {(system a, system b): (wins, ties, losses)}."""
    return [
        (*pair, value) for pair, given in counts.items() for value, n in zip((1.0, 0.5, 0.0), given, strict=True)
        for _ in range(n)
    ]  # fmt: skip


def ranked(rows, groups=None, **options):
    return ek.rank(*data(rows, groups=groups), **options).set_index("system")


def season():
    return [
        (TEAMS[a], TEAMS[b], 1.0) for a, row in enumerate(BASEBALL) for b, n in enumerate(row) for _ in range(n)
    ]  # fmt: skip


SEEN = {
    ("x", "y"): (9, 4, 5),
    ("x", "z"): (11, 3, 4),
    ("y", "z"): (8, 6, 7),
    ("w", "x"): (4, 2, 9),
    ("z", "w"): (7, 5, 6),
}


# -- published estimates and other implementations


def test_the_baseball_season_of_agresti():
    made = ranked(season())
    against = made["strength"] - made.loc["Baltimore", "strength"]
    published = {
        "Milwaukee": 1.58,
        "Detroit": 1.44,
        "Toronto": 1.29,
        "New York": 1.25,
        "Boston": 1.11,
        "Cleveland": 0.68,
    }
    assert against[list(published)].round(2).to_dict() == published
    assert list(made.index) == TEAMS
    assert made["rank"].tolist() == list(range(1, 8))
    assert made["strength"].sum() == pytest.approx(0, abs=1e-9)
    assert set(made["tie_parameter"]) == {0.0}
    # 13 games of each pair; Milwaukee's row and column
    assert made.loc["Milwaukee", ["wins", "losses", "ties", "n_items", "n_scored"]].tolist() == [50, 28, 0, 78, 78]


def test_without_ties_it_is_logistic_regression_with_cluster_errors():
    sm = pytest.importorskip("statsmodels.api")
    rows = season()
    groups = [at % 37 for at in range(len(rows))]
    made = ranked(rows, groups)
    names = sorted(TEAMS)
    draw = np.random.default_rng(0).random(len(rows)) < 0.5  # an outcome that varies: half of the games seen from b
    design = np.array([[(name == a) - (name == b) for name in names] for a, b, _ in rows], dtype=float)
    design[draw] *= -1
    model = sm.GLM((~draw).astype(float), design[:, 1:], family=sm.families.Binomial())
    found = model.fit(tol=1e-12, cov_type="cluster", cov_kwds={"groups": np.array(groups), "use_correction": False})
    centred = np.eye(7)[:, 1:] - 1 / 7
    assert made.loc[names, "strength"].to_numpy() == pytest.approx(centred @ found.params, rel=1e-6)
    error = np.sqrt(np.diag(centred @ found.cov_params() @ centred.T) * 37 / 36)
    half = (made["strength_high"] - made["strength_low"])[names].to_numpy() / 2
    effective = len(rows) ** 2 / (np.bincount(groups) ** 2).sum()  # 273 games in groups of 7 and 8
    assert half == pytest.approx(stdtrit(effective - 1, 0.975) * error, rel=1e-6)
    assert set(made["tie_parameter"]) == {0.0}


def test_davidson_is_a_log_linear_model_of_the_counts():
    # Fienberg and Larntz (1976): Poisson counts with one effect per pair; a tie has half of both strengths, and log ν
    sm = pytest.importorskip("statsmodels.api")
    made = ranked(counted(SEEN))
    design, counts = [], []
    for number, ((a, b), outcomes) in enumerate(SEEN.items()):
        for share, n in zip((1, 0.5, 0), outcomes, strict=True):
            strengths = [share * (name == a) + (1 - share) * (name == b) for name in "xyz"]
            design.append([*strengths, share == 0.5, *(at == number for at in range(len(SEEN)))])
            counts.append(n)
    params = sm.GLM(counts, np.array(design, dtype=float), family=sm.families.Poisson()).fit(tol=1e-12).params
    expected = np.array([*params[:3], 0.0])
    assert made.loc[list("xyzw"), "strength"].to_numpy() == pytest.approx(expected - expected.mean(), rel=1e-6)
    assert made["tie_parameter"].to_numpy() == pytest.approx(math.exp(params[3]), rel=1e-6)


# -- by hand


def test_two_systems_by_hand():
    # Davidson with two systems fits the shares exactly: 6 : 3 : 1. π_x/π_y = 6/1, ν = 3/√(6·1)
    made = ranked(counted({("x", "y"): (6, 3, 1)}))
    assert made.loc["x", "strength"] == pytest.approx(math.log(6) / 2)
    assert made.loc["y", "strength"] == pytest.approx(-math.log(6) / 2)
    assert made["tie_parameter"].to_numpy() == pytest.approx(3 / math.sqrt(6))


def test_a_tie_as_half_a_win():
    # 6 wins, 3 ties and a loss are 7.5 wins of 10: strengths differ by log(7.5/2.5), without a tie parameter
    made = ranked(counted({("x", "y"): (6, 3, 1)}), ties="half")
    assert made.loc["x", "strength"] == pytest.approx(math.log(3) / 2)
    assert made["tie_parameter"].tolist() == [0, 0]
    # two half wins are one win and one loss, for every system; the counts say what was seen
    seen, spelled = {("x", "y"): (5, 2, 2), ("y", "z"): (3, 4, 1), ("z", "x"): (2, 2, 6)}, {}
    for pair, (won, tied, lost) in seen.items():
        spelled[pair] = (won + tied // 2, 0, lost + tied // 2)
    half, plain = ranked(counted(seen), ties="half"), ranked(counted(spelled))
    assert half["strength"].to_dict() == pytest.approx(plain["strength"].to_dict())
    assert half["ties"].to_dict() == {"x": 4, "y": 6, "z": 6}
    # ties alone make all equal; one win beside a tie is an order that still has an end
    assert ranked(counted({("x", "y"): (0, 4, 0)}), ties="half")["strength"].tolist() == [0, 0]
    assert ranked(counted({("x", "y"): (1, 1, 0)}), ties="half").loc["x", "strength"] == pytest.approx(math.log(3) / 2)


def test_different_opponents_are_taken_into_account():
    # m beats only weak ones, n loses only to strong ones: m has the higher win rate, n the higher strength
    seen = {("top", "n"): (6, 0, 4), ("n", "low"): (9, 0, 1), ("m", "low"): (7, 0, 3), ("top", "low"): (9, 0, 1)}
    votes, items = data(counted(seen))
    made = ek.rank(votes, items).set_index("system")
    assert made.loc["m", "win_rate"] > made.loc["n", "win_rate"]
    assert made.loc["n", "rank"] < made.loc["m", "rank"]


def judges(shares):
    """Two systems, judged by several judges on the same items: (wins, ties, losses) of each."""
    votes = [data(counted({("x", "y"): share}), judge)[0] for judge, share in shares.items()]
    return pd.concat(votes, ignore_index=True), data(counted({("x", "y"): next(iter(shares.values()))}))[1]


# -- properties

CELLS = st.tuples(st.integers(1, 9), st.integers(0, 5), st.integers(1, 9))


@settings(max_examples=10, deadline=None)
@given(st.lists(CELLS, min_size=3, max_size=3))
@pytest.mark.long
def test_names_sides_and_copies(cells):
    seen = dict(zip([("x", "y"), ("y", "z"), ("z", "x")], cells, strict=True))
    rows = counted(seen)
    made = ranked(rows)
    swapped = ranked([(b, a, 1 - value) for a, b, value in rows])
    new = {"x": "q", "y": "p", "z": "r"}
    renamed = ranked([(new[a], new[b], value) for a, b, value in rows])
    twice = ranked(rows * 2)
    figures = ["strength", "strength_low", "strength_high", "tie_parameter"]
    for name in "xyz":
        own = made.loc[name, figures].to_numpy(dtype=float)
        assert swapped.loc[name, figures].to_numpy(dtype=float) == pytest.approx(own, abs=1e-6)
        assert renamed.loc[new[name], figures].to_numpy(dtype=float) == pytest.approx(own, abs=1e-6)
        assert twice.loc[name, "strength"] == pytest.approx(own[0], abs=1e-6)
        # twice the clusters: half of the variance, but for G/(G − 1) and t
        n = len(rows)
        error = [(table.loc[name, "strength_high"] - table.loc[name, "strength_low"]) / 2 for table in (made, twice)]
        per = [stdtrit(units - 1, 0.975) * math.sqrt(units / (units - 1)) for units in (n, 2 * n)]
        assert error[1] / per[1] == pytest.approx(error[0] / per[0] / math.sqrt(2), rel=1e-5)
    assert made["strength"].sum() == pytest.approx(0, abs=1e-8)
    expected = made["strength"].round(5).rank(method="min", ascending=False)
    assert made["rank"].tolist() == expected.tolist()


def test_copies_in_a_cluster_are_no_new_information():
    rows = counted(SEEN)
    once, twice = ranked(rows), ranked(rows * 2, groups=[*range(len(rows))] * 2)
    columns = ["strength", "strength_low", "strength_high"]
    assert twice[columns].to_numpy() == pytest.approx(once[columns].to_numpy(), rel=1e-6)


# -- data that determine little


def test_who_always_wins_has_a_rank_and_no_strength():
    seen = {("x", "y"): (6, 2, 4), ("top", "x"): (3, 0, 0), ("top", "y"): (2, 0, 0), ("y", "low"): (4, 0, 0)}
    made = ranked(counted(seen))
    assert made["rank"].to_dict() == {"top": 1, "x": 2, "y": 3, "low": 4}
    assert made["strength"].isna().to_dict() == {"top": True, "x": False, "y": False, "low": True}
    assert made.loc["top", "notes"] == "won every scored comparison: no finite strength; only 5 clusters"
    assert made.loc["low", "notes"] == "lost every scored comparison: no finite strength; only 4 clusters"
    alone = ranked(counted({("x", "y"): (6, 2, 4)}))
    assert made.loc["x", "strength"] == pytest.approx(alone.loc["x", "strength"])
    assert made.loc["x", "strength_low"] == pytest.approx(alone.loc["x", "strength_low"])


def test_a_place_that_is_not_known_is_na():
    # top beats x, and so does other: which of the two is better is not known
    made = ranked(counted({("x", "y"): (3, 0, 4), ("top", "x"): (3, 0, 0), ("other", "x"): (2, 0, 0)}))
    assert made["rank"].isna().to_dict() == {"x": False, "y": False, "top": True, "other": True}
    assert made.loc[["y", "x"], "rank"].tolist() == [3, 4]


def test_groups_that_never_meet():
    made = ranked(counted({("a", "b"): (6, 0, 4), ("c", "d"): (5, 0, 5), ("e", "a"): (0, 0, 0)}))
    assert made["strength"].isna().all()
    assert made["rank"].isna().all()
    assert made["notes"].str.startswith("the systems fall into 2 groups that never meet").all()


def test_ties_and_wins_that_an_order_explains():
    made = ranked(counted({("x", "y"): (3, 5, 0)}))
    assert made["strength"].isna().all()
    assert made["notes"].str.startswith("an order explains every win and tie").all()
    even = ranked(counted({("x", "y"): (0, 5, 0)}))
    assert even["notes"].str.startswith("every comparison is a tie").all()
    assert even["ties"].tolist() == [5, 5]
    # a cycle of three has more wins than ties
    cycle = ranked(counted({("x", "y"): (3, 0, 0), ("y", "z"): (3, 0, 0), ("z", "x"): (0, 4, 0)}))
    assert cycle["strength"].notna().all()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=9, max_size=9))
@pytest.mark.long
def test_a_maximum_exists_unless_a_direction_of_rise_does(codes):
    # a linear program for the same question: d and e > 0 with d_i − d_j ≥ e for wins, |d_i − d_j| ≤ e for ties
    from scipy.optimize import linprog

    grid = np.array(codes).reshape(3, 3)
    np.fill_diagonal(grid, 0)
    wins, even = (grid == 1) * 1.0, ((grid == 2) | (grid.T == 2)) * 1.0
    rows = []
    for i, j in itertools.permutations(range(3), 2):
        line = [(at == j) - (at == i) for at in range(3)]
        rows += [[*line, 1]] * bool(wins[i, j]) + [[*line, -1]] * bool(even[i, j])
    if not even.any():
        return
    found = linprog([0, 0, 0, -1], A_ub=np.array(rows), b_ub=np.zeros(len(rows)), bounds=[(-9, 9)] * 3 + [(0, 1)])
    assert has_maximum(wins, even) == (found.x[3] < 1e-9)


def test_empty_unscored_few_clusters_and_shuffled():
    empty = ek.rank(schemas.empty("votes"), data(counted(SEEN))[1])
    assert len(empty) == 0
    lost = ranked([("x", "y", None)] * 3)
    assert set(lost["notes"]) == {"nothing is scored"}
    assert lost["n_items"].tolist() == [3, 3]
    assert lost["n_scored"].tolist() == [0, 0]
    assert lost["rank"].isna().all()
    rows = counted({("x", "y"): (3, 1, 2)})
    one = ranked(rows, groups=["g"] * 6)
    assert one["strength"].notna().all()
    assert one["strength_low"].isna().all()
    assert set(one["notes"]) == {
        "no interval of strength: fewer than two clusters; no interval of win_rate: fewer than two clusters"
    }
    assert set(ranked(rows)["notes"]) == {"only 6 clusters"}
    votes, items = data([*counted(SEEN), ("x", "y", None)])
    made = ek.rank(votes, items)
    assert_frame_equal(made, ek.rank(votes.iloc[::-1], items.iloc[::-1]), rtol=1e-6)
    assert made.set_index("system").loc["x", ["n_items", "n_scored"]].tolist() == [52, 51]
    own = items.rename(columns={"item_id": "uuid", "system_a": "m1", "system_b": "m2"})
    assert_frame_equal(ek.rank(votes, own, item_id="uuid", system_a="m1", system_b="m2"), made)


def test_scores_of_a_jury():
    votes, items = judges({"j": (6, 0, 4), "k": (6, 0, 4)})
    made = ek.rank(ek.aggregate(votes), items)
    assert set(made["judge"]) == {"jury"}
    assert made["strength"].iloc[0] == pytest.approx(math.log(1.5) / 2)


def test_an_interval_is_never_of_zero_width():
    balanced = counted({("x", "y"): (6, 0, 0), ("y", "x"): (6, 0, 0)})
    even = ranked(balanced, groups=[*range(6), *range(6)])  # each cluster has a win and a loss
    assert even["strength"].to_numpy() == pytest.approx([0, 0], abs=1e-9)
    assert even["strength_low"].isna().all()
    assert even["rank"].tolist() == [1, 1]


def test_wrong_input():
    votes, items = data(counted(SEEN))
    with pytest.raises(ConfigError, match="ties='elo' is unknown; allowed: 'davidson', 'half'"):
        ek.rank(votes, items, ties="elo")
    with pytest.raises(InputError, match="no column 'system_b' for the systems"):
        ek.rank(votes, items.drop(columns="system_b"))
    with pytest.raises(InputError, match="'C' is not on the scale of criterion 'score', which is A, B, tie"):
        ek.rank(pd.DataFrame({"item_id": items["item_id"], "label": "C"}), items)
    with pytest.raises(InputError, match="label is not the code of score"):
        ek.rank(votes.assign(label="C"), items)
