"""Tests on held-out labels: signs flipped exactly, levels that add up to .05, and evidence that is a fair bet."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.errors import InputError
from evalkit.stats import alpha_of, evidence, flip_p


@given(st.lists(st.integers(-4, 4), max_size=10))
def test_sign_flips_are_exact(steps: list[int]) -> None:
    flips = [
        sum(s * abs(x) for s, x in zip(signs, steps, strict=True)) for signs in product((1, -1), repeat=len(steps))
    ]
    expected = sum(total >= sum(steps) for total in flips) / len(flips)
    assert flip_p(np.array(steps, dtype=np.int64)) == pytest.approx(expected, abs=1e-12)


def test_steps_of_one_are_the_sign_test() -> None:
    steps = [1] * 11 + [-1] * 2 + [0] * 30
    assert flip_p(steps) == pytest.approx(sum(math.comb(13, k) for k in (11, 12, 13)) / 2**13)
    assert flip_p([]) == 1.0


def test_the_levels_of_all_looks_are_five_percent() -> None:
    assert sum(alpha_of(look) for look in range(1, 20_000)) == pytest.approx(0.05, abs=1e-5)
    assert alpha_of(1) == 0.025


@given(st.integers(0, 60), st.integers(0, 60))
def test_evidence_is_a_fair_bet(fixed: int, broke: int) -> None:
    # where a change helps as often as not, the mean of the next two values is the value now
    after = evidence(fixed + 1, broke) + evidence(fixed, broke + 1)
    assert after / 2 == pytest.approx(evidence(fixed, broke), rel=1e-9)


def test_evidence_by_hand() -> None:
    # ∫ 2 · (2θ)² dθ over (½, 1) = 8/3 · (1 − 1/8)
    assert evidence(2, 0) == pytest.approx(8 / 3 * 7 / 8)


def test_what_is_no_look_no_count_and_no_step_is_refused() -> None:
    with pytest.raises(InputError, match="look=0 is no look"):
        alpha_of(0)
    with pytest.raises(InputError, match="pass numbers from 0"):
        evidence(3, -1)
    for steps in ([0.5, 1], [math.nan], [math.inf]):
        with pytest.raises(InputError, match="whole numbers"):
            flip_p(steps)
