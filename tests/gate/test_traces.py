"""How deep the JSON of a trace may be nested, and where its attempt stands."""

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


@pytest.mark.parametrize("given", [{}, {"attempt": 1}])
@pytest.mark.parametrize("attempt", [2, "x", [1]])
def test_an_attempt_under_meta_is_refused(tmp_path: Path, given: dict[str, Any], attempt: Any) -> None:
    path = tmp_path / "traces.jsonl"
    line = {"schema_version": 1, "type": "verdict.trace", "prompt": "p", "response": "30", "meta": {"attempt": attempt}}
    path.write_text(json.dumps(line | given) + "\n")
    with pytest.raises(InputError, match=r"line 1: meta\.attempt is not read; write it as attempt"):
        list(read_traces(path))
    path.write_text(json.dumps(line | {"attempt": 2, "meta": {}}) + "\n")
    assert [trace.attempt for trace in read_traces(path)] == [2]
