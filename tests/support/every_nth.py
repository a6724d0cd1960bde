"""Large tables of cases in turns: each run of the tests takes a part, a search takes all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

Case = TypeVar("Case")
SEARCH = 1000
"""The examples of the profile `search`, with which every case runs."""


def every_nth(cases: Iterable[Case], n: int, start: int) -> list[Case]:
    """Every `n`-th case from number `start` on, and at least one; all of them with ``--hypothesis-profile=search``.

    Tests that run the same cases on many functions pass the number of the function: functions that share a table or a
    path then take other cases each, and together all of them.
    """
    listed = list(cases)
    if settings().max_examples >= SEARCH:
        return listed
    return listed[start % n :: n] or [listed[start % len(listed)]]
