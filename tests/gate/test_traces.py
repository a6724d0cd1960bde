"""How deep the JSON of a trace may be nested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import InputError
from evalkit.gate.traces import read_traces


def test_a_trace_may_be_nested_200_levels_deep(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"

    def read(n_lists: int) -> int:
        nested: Any = []
        for _ in range(n_lists - 1):
            nested = [nested]
        line = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "p", "response": "30"}
        path.write_text(json.dumps(line | {"meta": {"nested": nested}}) + "\n")
        return len(list(read_traces(path)))

    # `meta` is one level below the line, and the lists below that
    assert read(199) == 1
    with pytest.raises(InputError, match="line 1: the JSON is nested more than 200 levels deep"):
        read(200)
