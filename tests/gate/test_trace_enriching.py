"""Judgments written into a trace file: in any spelling of its JSON, redacted, and not after it was changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import InputError
from evalkit.gate import enrich
from evalkit.gate.trace_enriching import stamp_of

RECORD = {"rubric_version": "v1", "passed": True, "score": 1.0, "samples": [True], "rationale": "secret"}
LINE: dict[str, Any] = {
    "schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "secret", "context": ["secret"],
    "response": "secret", "tools": [], "user": {"name": "secret"}, "model": "m", "attempt": 2,
    "meta": {"mine": "secret", "verdict": {"note": "secret", "judge": {"q": RECORD}}},
}  # fmt: skip


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": "), (" ,  ", " :\t")])
def test_each_member_is_kept_or_hidden(tmp_path: Path, separators: tuple[str, str]) -> None:
    source, target = tmp_path / "t.jsonl", tmp_path / "new.jsonl"
    source.write_text(json.dumps(LINE, separators=separators) + "\n")
    new = {"score": 0.5, "rationale": "secret"}
    enrich(source, target, {1: {"r": new}})
    judges = {"judge": {"q": RECORD, "r": new}}
    assert json.loads(target.read_text()) == LINE | {"meta": LINE["meta"] | {"verdict": {"note": "secret"} | judges}}
    enrich(source, target, {1: {"r": new}}, redact=True)
    hidden = "[REDACTED]"
    judges = {"judge": {"q": RECORD | {"rationale": hidden}, "r": {"score": 0.5, "rationale": hidden}}}
    assert json.loads(target.read_text()) == LINE | {
        "prompt": hidden, "context": [hidden], "response": hidden, "user": hidden,
        "meta": {"mine": hidden, "verdict": {"note": hidden} | judges},
    }  # fmt: skip


def test_lines_without_a_judgment_are_copied(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    compact = json.dumps(LINE, separators=(",", ":"))
    path.write_text(f"{compact}\n \n{compact}\n")
    enrich(path, path, {3: {"r": {"score": 0.5}}})
    first, blank, last = path.read_text().splitlines()
    assert (first, blank) == (compact, " ")
    assert json.loads(last)["meta"]["verdict"]["judge"]["r"] == {"score": 0.5}
    enrich(path, path, {}, redact=True)
    assert path.read_text().splitlines()[1] == " "
    assert "secret" not in path.read_text()


def test_a_file_that_was_changed_since_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(LINE) + "\n")
    before = stamp_of(path)
    enrich(path, tmp_path / "new.jsonl", {}, since=before)
    path.write_text(json.dumps(LINE) + "\n\n")
    with pytest.raises(InputError, match="changed after evalkit read it"):
        enrich(path, path, {1: {"r": {"score": 0.5}}}, since=before)
    assert path.read_text() == json.dumps(LINE) + "\n\n"


def test_a_rubric_without_a_judgment_is_redacted_too(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(LINE | {"meta": {"verdict": {"judge": {"q": None}}}}) + "\n")
    enrich(path, path, {1: {"r": {"score": 0.5}}}, redact=True)
    assert json.loads(path.read_text())["meta"] == {"verdict": {"judge": {"q": {}, "r": {"score": 0.5}}}}


NO_OBJECTS: list[Any] = [
    [LINE], "secret", LINE | {"meta": ["secret"]}, LINE | {"meta": {"inputs": ["secret"]}},
    LINE | {"meta": {"verdict": [1]}}, LINE | {"meta": {"verdict": {"judge": "secret"}}},
    LINE | {"meta": {"verdict": {"judge": {"q": ["secret"]}}}},
]  # fmt: skip


@pytest.mark.parametrize("line", NO_OBJECTS, ids=range(len(NO_OBJECTS)))
def test_what_is_no_object_is_refused_with_its_line(tmp_path: Path, line: Any) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{json.dumps(LINE)}\n{json.dumps(line)}\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match="line 2: a trace, its meta and its verdict must be JSON objects"):
        enrich(path, path, {}, redact=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("depth", [300, 100_000])
def test_a_judged_line_that_is_nested_too_deeply_is_refused(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "t.jsonl"
    nested = json.dumps(LINE | {"meta": {"nested": 0}}).replace('"nested": 0', f'"nested": {depth * "["}{depth * "]"}')
    path.write_text(f"{json.dumps(LINE)}\n{nested}\n")
    before = path.read_bytes()
    with pytest.raises(InputError, match="line 2: the JSON is nested too deeply to write a judgment into it"):
        enrich(path, path, {2: {"r": {"score": 0.5}}})
    assert path.read_bytes() == before
    enrich(path, path, {1: {"q": RECORD}})  # the other line is copied
    assert path.read_text().splitlines()[1] == nested
