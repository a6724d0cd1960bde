"""People among themselves and the judge in their place: averaged by what is compared, in the same order as figures."""

import itertools
import math
from functools import partial

import alignment_tables
import numpy as np
import pandas as pd
import pytest

import evalkit as ek
from evalkit.rubrics import Scale

SCALE = Scale.of(dict.fromkeys(range(5), ""), pass_at=3)
FIGURES = ["accuracy", "kappa", "quadratic_kappa", "spearman"]


votes_of = partial(alignment_tables.votes_table, scale=SCALE, item="i{:03}")
labels_of = partial(alignment_tables.labels_of, item="i{:03}")


def figures_on(pairs):
    """The figures on (one, other) codes, in plain Python, and how many there are."""
    n = len(pairs)
    if not n:
        return dict.fromkeys(FIGURES, math.nan), 0
    x, y = (np.array(side, dtype=float) for side in zip(*pairs, strict=True))
    alike = np.mean((x >= 3) == (y >= 3))
    chance = np.mean(x >= 3) * np.mean(y >= 3) + np.mean(x < 3) * np.mean(y < 3)
    bottom = x.var() + y.var() + (x.mean() - y.mean()) ** 2
    both = n > 2 and x.std() > 0 and y.std() > 0
    ranks = [pd.Series(side).rank() for side in (x, y)]
    return {
        "accuracy": alike,
        "kappa": (alike - chance) / (1 - chance) if n > 1 and chance < 1 - 1e-12 else math.nan,
        "quadratic_kappa": 2 * np.mean((x - x.mean()) * (y - y.mean())) / bottom if n > 1 and bottom > 0 else math.nan,
        "spearman": np.corrcoef(*ranks)[0, 1] if both else math.nan,
    }, n


def averaged(found):
    """By numbers of items, of the pairs that have the figure."""
    made = {}
    for name in FIGURES:
        known = [(one[name], n) for one, n in found if not math.isnan(one[name])]
        made[name] = sum(value * n for value, n in known) / sum(n for _, n in known) if known else math.nan
    return made


def of_groups(groups, sides):
    """`sides(items)` gives the pairs of codes; averaged over pairs inside each group, then over groups."""
    inside = [averaged([figures_on(pairs) for pairs in sides(items)]) for items in groups]
    return {
        name: np.mean(known) if (known := [one[name] for one in inside if not math.isnan(one[name])]) else math.nan
        for name in FIGURES
    }


def combined(codes, how):
    """The others of an annotator on one item: the mean score, the majority verdict (None: a tie), the modal code."""
    known = [code for code in codes if code is not None]
    if not known:
        return None, None
    passes = sum(code >= 3 for code in known)
    verdict = None if 2 * passes == len(known) else 2 * passes > len(known)
    if how == "mean":
        return verdict, sum(known) / len(known)
    counts = pd.Series(known).value_counts()
    return verdict, float(counts.index[0]) if (counts == counts.max()).sum() == 1 else None


def test_an_annotator_counts_by_the_items_that_are_compared():
    # a and b label the same 10 items and agree on 9; c labels 90 others alone, and one of theirs, against both. Of the
    # 10 + 10 + 1 comparisons 9 + 9 + 0 agree: .857. By the items labelled (10, 10, 91) it was (9 + 9 + 0)/111 = .162.
    a = [4] * 10 + [None] * 90
    b = [4] * 9 + [0] + [None] * 90
    c = [0] + [None] * 9 + [4] * 90
    row = ek.align(votes_of([4] * 100), labels_of({"a": a, "b": b, "c": c}), reference="majority").iloc[0]
    # item 0: a against b, c (4 and 0: a tie, no reference), b alike, c against 4 and 4; items 1-8 both, item 9 none
    assert row["accuracy_people"] == pytest.approx((8 + 8 + 0) / (9 + 9 + 1))
    # the judge passes everything: as a it meets b's ten without item 0 (8 right of 9), as b a's nine, as c item 0
    assert row["accuracy_as_peer"] == pytest.approx((8 + 9 + 1) / (9 + 9 + 1))


@pytest.mark.long
def test_random_tables_are_as_in_plain_python():
    draw = np.random.default_rng(3)
    for number in range(4):
        n, names = int(draw.integers(8, 40)), "abcd"[: draw.integers(2, 5)]
        truth = draw.integers(0, 5, n)

        def answers(share, truth=truth):
            codes = np.clip(truth + draw.integers(-1, 2, len(truth)), 0, 4)
            return [int(code) if draw.random() < share else None for code in codes]

        judge, people = answers(0.9), {name: answers(draw.choice([0.2, 0.6, 1.0])) for name in names}
        items = list(range(n))
        groups = [items[at : at + 7] for at in range(0, n, 7)]
        clusters = {f"i{item:03}": item // 7 for item in items}
        asked = [item for item in items if judge[item] is not None]

        def pairs_each(rows, people=people):
            two = itertools.combinations(people.values(), 2)
            return [[(one[i], other[i]) for i in rows if None not in (one[i], other[i])] for one, other in two]

        # people who only labelled items that the judge was not asked about do not count: tables have the judge's items
        plain = averaged([figures_on(pairs) for pairs in pairs_each(asked)])
        inside = of_groups([[i for i in group if i in asked] for group in groups], pairs_each)
        table, labels = votes_of(judge), labels_of(people)
        for by, expected in ((None, plain), (clusters, inside)):
            rows = ek.align(table, labels, by=by)
            for name in FIGURES:
                made = rows[f"{name}_people"].mean()
                assert made == pytest.approx(expected[name], nan_ok=True, abs=1e-9), (number, by, name)
        for how in ("mean", "majority"):
            found = {"people": [], "as_peer": []}
            for name, own in people.items():
                others = [combined([people[o][i] for o in people if o != name], how) for i in items]
                for kind, side in (("people", own), ("as_peer", judge)):
                    rows = [i for i in asked if own[i] is not None and side[i] is not None]
                    verdicts = [(4 * (side[i] >= 3), 4 * others[i][0]) for i in rows if others[i][0] is not None]
                    scores = [(side[i], others[i][1]) for i in rows if others[i][1] is not None]
                    (of_verdicts, m), (of_scores, k) = figures_on(verdicts), figures_on(scores)
                    found[kind].append(({f: of_verdicts[f] for f in FIGURES[:2]}, m))
                    found[kind].append(({f: of_scores[f] for f in FIGURES[2:]}, k))
            row = ek.align(table, labels, reference=how).iloc[0]
            for kind, parts in found.items():
                parts = [({name: one.get(name, math.nan) for name in FIGURES}, n) for one, n in parts]
                expected = averaged(parts)
                for name in FIGURES:
                    made = row[f"{name}_{kind}"]
                    assert made == pytest.approx(expected[name], nan_ok=True, abs=1e-9), (number, how, kind, name)


def test_inside_groups_people_are_averaged_first():
    # Group g: a and b agree on 1 of 4; group h: a and b on all of 1, a and c on 0 of 4, b and c on 0 of 1.
    a = [4, 4, 4, 4, 4, 4, 4, 4]
    b = [4, 0, 0, 0, 4, None, None, None]
    c = [None] * 4 + [0, 0, 0, 0]
    groups = {f"i{i:03}": "gh"[i // 4] for i in range(8)}
    rows = ek.align(votes_of([4] * 8), labels_of({"a": a, "b": b, "c": c}), figures=["accuracy"], by=groups)
    assert rows["accuracy_people"].tolist() == pytest.approx([1 / 4, 1 / 6])
    # as the judge's own: in g against a 4 of 4 and b 1 of 4; in h against a 4 of 4, b 1 of 1, c 0 of 4
    assert rows["accuracy"].tolist() == pytest.approx([5 / 8, 5 / 9])


def test_a_perfect_judge_is_above_people_among_themselves():
    # All 25 ways in which two people who err on one item in five each can err: together 17 of 25 alike, the judge 20.
    rows = list(itertools.product(range(5), range(5)))
    a, b = ([4 if one else 0 for one in side] for side in zip(*rows, strict=True))
    row = ek.align(votes_of([4] * 25), labels_of({"a": a, "b": b})).iloc[0]
    assert row["accuracy"] == pytest.approx(0.8)
    assert row["accuracy_people"] == pytest.approx(0.68)


def test_a_judge_that_was_not_asked_is_not_wrong_in_an_annotators_place():
    votes = pd.concat([votes_of([4] * 6), votes_of([4] * 3 + [None] * 3, judge="k")])
    people = {name: [4] * 6 for name in "abc"}
    table = ek.align(votes, labels_of(people), reference="majority", unscored="wrong").set_index("judge")
    assert table.loc["k", ["accuracy", "accuracy_as_peer"]].tolist() == [1, 1]
