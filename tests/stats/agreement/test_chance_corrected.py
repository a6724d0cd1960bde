"""Fleiss' kappa, AC1 and AC2 are their definitions, pair by pair of labels, on all items and without each unit."""

import math
from itertools import permutations

import numpy as np
import pytest

from evalkit.stats.agreement.krippendorff import Labels, fleiss_kappa, gwet_ac, quadratic_weights


def fleiss(labels, n_judges):
    """Fleiss (1971) on lists of the labels of each item."""
    whole = [given for given in labels if len(given) == n_judges]
    if not whole or len({label for given in whole for label in given}) < 2:
        return math.nan
    agreed = np.mean([np.mean([a == b for a, b in permutations(given, 2)]) for given in whole])
    said = [label for given in whole for label in given]
    chance = sum((said.count(label) / len(said)) ** 2 for label in set(said))
    return (agreed - chance) / (1 - chance)


def gwet(labels, levels, weight):
    """Gwet (2014, ch. 5), with all levels of the scale."""
    paired = [given for given in labels if len(given) > 1]
    if not paired:
        return math.nan
    agreed = np.mean([np.mean([weight(a, b) for a, b in permutations(given, 2)]) for given in paired])
    shares = [np.mean([given.count(level) / len(given) for given in labels if given]) for level in levels]
    total = sum(weight(a, b) for a in levels for b in levels)
    chance = total / (len(levels) * (len(levels) - 1)) * sum(share * (1 - share) for share in shares)
    return (agreed - chance) / (1 - chance)


def test_the_figures_are_their_definitions_with_and_without_each_unit():
    draw, codes = np.random.default_rng(5), (1.0, 2.0, 5.0)
    seen = []
    for _ in range(60):
        n_items, n_judges = int(draw.integers(1, 7)), int(draw.integers(2, 5))
        labels = [[int(code) for code in draw.integers(0, 3, draw.integers(0, n_judges + 1))] for _ in range(n_items)]
        unit = draw.integers(0, 3, n_items)
        counts = np.array([[given.count(level) for level in range(3)] for given in labels], dtype=float)
        made = Labels(counts, n_judges, unit, 3)
        parts = [labels, *([given for given, at in zip(labels, unit, strict=True) if at != out] for out in range(3))]
        near = quadratic_weights(np.array(codes))
        for values, expected in (
            (fleiss_kappa(made), [fleiss(part, n_judges) for part in parts]),
            (gwet_ac(made, np.eye(3)), [gwet(part, range(3), lambda a, b: float(a == b)) for part in parts]),
            (gwet_ac(made, near), [gwet(part, range(3), lambda a, b: 1 - (codes[a] - codes[b]) ** 2 / 16)
                                   for part in parts]),
        ):  # fmt: skip
            assert values.tolist() == pytest.approx(expected, nan_ok=True, abs=1e-9)
            seen += expected
    assert 0 < np.isnan(seen).mean() < 0.9


def test_a_single_judge_agrees_with_nobody():
    alone = Labels(np.array([[1.0, 0.0], [0.0, 1.0]]), 1, np.array([0, 1]), 2)
    assert np.isnan(gwet_ac(alone, np.eye(2))).all()
