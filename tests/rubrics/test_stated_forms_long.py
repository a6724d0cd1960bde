"""A part of `benchmarks/stated_forms.py`: criteria, labels and columns are read as they were meant, or refused."""

from __future__ import annotations

import random
import sys
import warnings
from collections import Counter

import pytest
from places import ROOT

from evalkit.errors import EvalkitWarning

sys.path.insert(0, str(ROOT / "benchmarks"))

import stated_forms


@pytest.mark.parametrize("edge", [stated_forms.criteria, stated_forms.labels, stated_forms.columns])
def test_nothing_is_read_otherwise_or_dropped(edge) -> None:
    draw, seen = random.Random(7), Counter[str]()
    for _ in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EvalkitWarning)
            seen[edge(draw)] += 1
    assert {*seen} <= {"read", "refused", "asked"}, seen
    assert min(seen.values()) > 5
