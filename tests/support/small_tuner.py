"""A rubric of one criterion for the tests of the tuner, and what a message from its screen does."""

from __future__ import annotations

import evalkit as ek

RUBRIC = ek.Rubric(
    id="r",
    description="Is it so?",
    inputs=["answer"],
    template="number@v1",
    criteria=[{"name": "c", "scale": {0: "no", 1: "nearly", 2: "yes"}, "pass_at": 2}],
)


def do(tuner, **message):
    """Send a message, and wait until what it starts has ended."""
    tuner.receive(message)
    assert tuner.wait_idle(300)
