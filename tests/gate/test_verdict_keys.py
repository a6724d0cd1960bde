"""In what a recorded verdict differs from the one needed, in words."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.gate.judgment import difference

X, Y = {"provider": "fake", "model": "x", "temperature": 0.0}, {"provider": "fake", "model": "y", "temperature": 0.0}


@pytest.mark.parametrize(
    ("recorded", "needed", "said"),
    [
        (None, {"samples": 3}, "verdict_key: differs from the needed one"),
        ({"samples": 5}, {"samples": 3}, "samples: recorded 5, needed 3"),
        ({"input_hash": "a"}, {"input_hash": "b", "samples": 3}, "input_hash: differs from the needed one"),
        ({"judges": [X]}, {"judges": [X, Y]}, "judges: recorded fake:x, needed fake:x + fake:y"),
        ({"judges": "x"}, {"judges": [X]}, "judges: recorded x, needed fake:x"),
        ({"judges": [X, Y]}, {"judges": [X, Y | {"temperature": 1.0}]}, "temperature: recorded 0.0, needed 1.0"),
        ({"judges": ["x"]}, {"judges": [X]}, "provider: recorded 'x', needed fake"),
        # a part that was not recorded does not differ
        ({"judges": [X]}, {"judges": [X], "samples": 3}, "keys: the recorded judgment uses other replies"),
    ],
)
def test_the_first_part_that_differs(recorded: dict[str, Any] | None, needed: dict[str, Any], said: str) -> None:
    assert difference(recorded, needed) == said
