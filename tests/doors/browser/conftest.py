"""Chromium for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from labs import browser_or_skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with browser_or_skip() as made:
        yield made
