"""A batch's state in other letters, counts as texts, and results as one JSON list."""

from __future__ import annotations

import io
import json

from evalkit.engine.providers.batch_http import lines_of
from evalkit.engine.providers.openai_batches import _batch


def test_a_state_in_capital_letters_is_the_same_state() -> None:
    for word in ("COMPLETED", " Completed", "Failed", "EXPIRED", "Cancelled", "canceled"):
        batch = _batch({"id": "b", "status": word})
        assert (batch.state, batch.word) == ("ended", word.strip().lower()), word
    for word in ("IN_PROGRESS", "validating", None, "", 7):
        assert _batch({"id": "b", "status": word}).state == "running", word


def test_counts_as_texts() -> None:
    for count, expected in (("8", 8), (8, 8), ("-8", 0), ("9" * 50, 0), ("x", 0), (None, 0)):
        batch = _batch({"id": "b", "status": "completed", "request_counts": {"completed": count, "failed": count}})
        assert (batch.n_done, batch.n_failed) == (expected, expected)


def test_results_as_one_list_are_its_lines() -> None:
    lines = [{"custom_id": str(at), "response": {}} for at in range(5)]
    as_list = json.dumps(lines).encode()
    assert list(lines_of(io.BytesIO(as_list))) == lines
    assert list(lines_of(io.BytesIO(b"\n".join(json.dumps(line).encode() for line in lines)))) == lines
