"""Variance components are those of the two-way analysis of variance with samples within (Brennan 2001)."""

import numpy as np
import pytest

from evalkit.stats.agreement.reliabilities import Components, components, dependability


def anova(blocks):
    """Estimates from the mean squares, each summed cell by cell; NaN with fewer than two items."""
    n_items, n_judges, n_samples = blocks.shape
    if n_items < 2:
        return [np.nan] * 4
    grand, of_items, of_judges, cells = blocks.mean(), blocks.mean((1, 2)), blocks.mean((0, 2)), blocks.mean(2)
    item = n_judges * n_samples * sum((one - grand) ** 2 for one in of_items) / (n_items - 1)
    judge = n_items * n_samples * sum((one - grand) ** 2 for one in of_judges) / (n_judges - 1)
    both = n_samples * sum(
        (cells[i, j] - of_items[i] - of_judges[j] + grand) ** 2 for i in range(n_items) for j in range(n_judges)
    ) / ((n_items - 1) * (n_judges - 1))  # fmt: skip
    within = sum(((blocks[i, j] - cells[i, j]) ** 2).sum() for i in range(n_items) for j in range(n_judges))
    sample = within / (n_items * n_judges * (n_samples - 1)) if n_samples > 1 else np.nan
    error = sample if n_samples > 1 else 0.0
    raw = [(item - both) / (n_judges * n_samples), (judge - both) / (n_items * n_samples), (both - error) / n_samples]
    return [*raw, sample]


def test_the_components_are_those_of_the_analysis_of_variance():
    draw, cuts = np.random.default_rng(8), []
    for _ in range(60):
        n_items, n_judges, n_samples = (int(draw.integers(*ends)) for ends in ((2, 8), (2, 4), (1, 4)))
        shape = (n_items, n_judges, n_samples)
        blocks = draw.integers(0, 3, shape) + draw.integers(0, 3, (n_items, 1, 1)) * draw.integers(0, 2) + 7.0
        unit = draw.integers(0, 3, n_items)
        found = components(blocks, unit, 3)
        raw = np.array([anova(blocks), *(anova(blocks[unit != out]) for out in range(3))]).T
        parts = np.where(np.isnan(raw[:3]), np.nan, np.maximum(raw[:3], 0))
        for made, expected in zip((found.item, found.judge, found.both, found.sample), [*parts, raw[3]], strict=True):
            assert made.tolist() == pytest.approx(expected.tolist(), nan_ok=True, abs=1e-9)
        assert found.cut.tolist() == (raw[:3] < -1e-9).any(axis=0).tolist()
        cuts += found.cut.tolist()
    assert 0 < np.mean(cuts) < 1


def test_dependability_of_more_judges_and_samples():
    found = Components(*(np.array([share, 0.0]) for share in (4.0, 2.0, 6.0, 3.0)), np.array([False, False]))
    # 4 / (4 + 2/2 + 6/2 + 3/(2 · 3)) = 4 / 8.5; nothing varies: none
    assert dependability(found, 2, 3).tolist() == pytest.approx([4 / 8.5, np.nan], nan_ok=True)
