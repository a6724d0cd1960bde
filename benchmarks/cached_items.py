"""Items and replies of the bars on cached judgments."""

from __future__ import annotations

import json

TEXT = "The station was opened in that year, as the reference says; the answer agrees with it in every detail. "


def items_of(n: int) -> list[dict[str, object]]:
    """Items with some 200 characters of answer and of context each."""
    return [
        {
            "question": f"When was station {i} opened?",
            "answer": f"In {1850 + i % 150}. " + TEXT * 2,
            "context": [TEXT * 2],
        }
        for i in range(n)
    ]


def reply(i: int, sample: int) -> str:
    """A reply of some 260 characters."""
    return json.dumps({"explanation": f"Station {i}: " + TEXT * 2, "score": (i + sample) % 3})
