"""Cells of criteria in the stated form are accepted, with every part of them."""

from __future__ import annotations

import pytest
from right_criteria import Right, right_criteria

import evalkit as ek


@pytest.mark.parametrize("right", right_criteria())
def test_two_hundred_right_cells_are_read_with_every_part_of_them(right: Right) -> None:
    rows = ek.explode_criteria([{"item_id": "q", "answer": "a", "criteria": right.cell}])
    names = [name.removeprefix("q#") for name in rows["item_id"]]
    columns = (names, rows["requirement"], rows["points"], rows["axis"], rows["requires"])
    assert [*zip(*columns, strict=True)] == right.rows


def test_there_are_two_hundred_of_them() -> None:
    assert len(right_criteria()) == 200
