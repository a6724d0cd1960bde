"""A part of `benchmarks/plain_replies.py`: no made reply is read otherwise than its truth, and clear ones are read."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

import plain_replies


@pytest.mark.long
def test_no_made_reply_is_read_otherwise_than_its_truth_and_clear_ones_are_read() -> None:
    n, read = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for made in plain_replies.cases(12_000, seed=3):
        code = plain_replies.code_of(made)
        assert code is None or code in made.right, made
        if made.is_clear:
            n[made.layout, made.place] += 1
            read[made.layout, made.place] += code is not None
    assert len(n) == len(plain_replies.LAYOUTS) * len(plain_replies.PLACES)
    # a sentence is no verdict beside a short one with another number, as "It cites 2 sources."
    assert [cell for cell in n if read[cell] < (0.95 if cell[0] == "sentence" else 0.97) * n[cell]] == []
