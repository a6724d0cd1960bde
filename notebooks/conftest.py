"""nbval compares the notebooks of this folder after it replaced what differs from run to run, whoever starts it."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Pass sanitize.cfg to nbval, if it runs and got no other file."""
    if getattr(config.option, "nbval_sanitize_with", "") is None:
        config.option.nbval_sanitize_with = str(Path(__file__).with_name("sanitize.cfg"))
