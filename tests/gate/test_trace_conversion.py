"""`to_traces` and `from_traces`: what goes out comes back, and the gate replays it without asking anybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.gate import GateConfig, GateOptions, run_gate

ITEMS = [
    {"item_id": "a", "question": "How long?", "answer": "30 days.", "context": ["Returns within 30 days."], "n": 1},
    {"item_id": "b", "question": "Сколько?", "answer": "Never.\n«x»", "context": ["Returns within 30 days."], "n": 2},
]


def gate(path: Path, rubric: str, samples: int = 3, **expected: Any) -> Any:
    tests = [{"id": name, "expected": {"type": rubric, "samples": samples, **expected}} for name in ("a", "b")]
    return run_gate(GateConfig(tests=tests), path, GateOptions())


@pytest.mark.parametrize("rubric", ["faithfulness", "relevancy"])
def test_what_a_notebook_judged_is_what_the_gate_reads(rubric: str, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    table = ek.judge(ITEMS, rubric, "fake:strict", samples=3, progress=False)
    assert ek.gate.to_traces(ITEMS, table, path) == 2
    offline = tmp_path / "empty"
    tests = [{"id": name, "expected": {"type": rubric, "samples": 3, "min_score": 0.0}} for name in ("a", "b")]
    result = run_gate(GateConfig(tests=tests), path, GateOptions(cache=offline))
    found = {test.id: test.metrics[0].measured[0].judgment for test in result.tests}
    assert {judgment.source for judgment in found.values() if judgment} == {"trace"}
    scores = ek.aggregate(ek.vote(table)).set_index("item_id")["score_norm"]
    for name, judgment in found.items():
        assert judgment is not None
        assert judgment.score == pytest.approx(scores[name], abs=1e-6)


def test_the_verdict_key_is_that_of_the_gate_and_another_temperature_is_told(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    table = ek.judge(ITEMS, "faithfulness", "fake:strict", samples=3, progress=False)
    ek.gate.to_traces(ITEMS, table, path)
    tests = [{"id": "a", "expected": {"type": "faithfulness", "samples": 3}}]
    same = run_gate(GateConfig(tests=tests), path, GateOptions(judge="fake:strict"))
    judgment = same.tests[0].metrics[0].measured[0].judgment
    assert judgment is not None
    assert judgment.source == "trace", "the key that was written is the one that the gate asks for"
    more = [{"id": "a", "expected": {"type": "faithfulness", "samples": 5}}]
    other = run_gate(GateConfig(tests=more), path, GateOptions(judge="fake:strict"))
    assert other.tests[0].metrics[0].measured[0].judgment.source == "live"  # type: ignore[union-attr]


def test_items_come_back_with_their_columns(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    table = ek.judge(ITEMS, "faithfulness", ["fake:strict", "fake:lenient"], samples=2, progress=False)
    ek.gate.to_traces(ITEMS, table, path)
    items, recorded = ek.gate.from_traces(path)
    assert items.to_dict("records") == ITEMS
    assert recorded["n_samples"].tolist() == [4, 4]
    assert recorded["judge"].tolist() == [["fake:strict", "fake:lenient"]] * 2
    again = ek.judge(items, "faithfulness", ["fake:strict", "fake:lenient"], samples=2, offline=True)
    assert again["key"].tolist() == table["key"].tolist(), "what came back has the same keys: it is paid once"
    before = path.read_bytes()
    ek.gate.to_traces(items, again, path)
    after = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line, old in zip(after, before.splitlines(), strict=True):
        was = json.loads(old)
        for one in (line, was):
            one["meta"]["verdict"]["judge"]["faithfulness"].pop("source")
        assert line == was


def test_what_is_not_evalkits_survives_the_way_there_and_back(tmp_path: Path) -> None:
    first = {"schema_version": 1, "type": "verdict.trace", "request_id": "a", "prompt": "q", "response": "x"}
    rows = [
        first | {"attempt": 1, "model": "m", "provider": "p", "meta": {"own": {"deep": [1, 2.5, None]}, "tag": "é"}},
        first | {"attempt": 2, "meta": {"verdict": {"mine": 1}, "item": {"reference": "r"}}},
        first | {"request_id": "b", "context": ["c"]},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    items, recorded = ek.gate.from_traces(path)
    assert items["item_id"].tolist() == ["a #1", "a #2", "b"]
    assert recorded.empty
    ek.gate.to_traces(items, None, path)
    assert [json.loads(line) for line in path.read_bytes().splitlines()] == rows
    judged = [row | {"question": row["question"]} for row in items.to_dict("records")]
    table = ek.judge(judged, "relevancy", "fake:strict", samples=1, progress=False)
    ek.gate.to_traces(items, table, path)
    second = json.loads(path.read_bytes().splitlines()[1])
    assert set(second["meta"]["verdict"]) == {"mine", "judge"}
    tests = [{"id": "a", "expected": {"type": "relevancy", "samples": 1, "min_score": 0.0}}]
    result = run_gate(GateConfig(tests=tests), path, GateOptions())
    assert [one.attempt for one in result.tests[0].metrics[0].measured] == [1, 2]
    assert result.exit_code == 0


def test_columns_of_such_names_that_hold_something_else_are_columns(tmp_path: Path) -> None:
    item = {"item_id": "a", "question": "q", "answer": "x", "model": 4, "meta": "m", "attempt": "first"}
    ek.gate.to_traces([item], None, tmp_path / "t.jsonl")
    line = json.loads((tmp_path / "t.jsonl").read_bytes())
    assert line["meta"] == {"item": {"model": 4, "meta": "m", "attempt": "first"}}
    items, _ = ek.gate.from_traces(tmp_path / "t.jsonl")
    assert items.to_dict("records") == [item]


def test_what_was_never_answered_is_not_recorded(tmp_path: Path) -> None:
    table = ek.judge(ITEMS, "faithfulness", "openai:nobody", samples=3, offline=True)
    assert set(table["error"]) == {"cache_miss"}
    assert ek.gate.to_traces(ITEMS, table, tmp_path / "t.jsonl") == 2
    _, recorded = ek.gate.from_traces(tmp_path / "t.jsonl")
    assert recorded.empty
    with pytest.raises(InputError, match="1 judged item not found among the items"):
        ek.gate.to_traces(
            ITEMS[:1], ek.judge(ITEMS, "faithfulness", "fake", samples=1, progress=False), tmp_path / "t.jsonl"
        )


def test_unscored_samples_and_several_criteria(tmp_path: Path) -> None:
    rubric = ek.Rubric(
        id="two",
        description="x",
        inputs=["answer"],
        criteria=[
            {"name": "one", "scale": {0: "a", 1: "b"}, "pass_at": 1},
            {"name": "other", "scale": {0: "a", 1: "b"}, "pass_at": 1},
        ],
    )
    rubric.save(tmp_path / "rubrics")
    items = [{"item_id": "a", "question": "q", "answer": "x"}]
    for name, replies in (("one", ["1", "1", "what?"]), ("other", ["1", "0", "1"])):
        ek.record(items, rubric, "fake:strict", [replies], criterion=name, template="number@v1")
    table = ek.judge(items, rubric, "fake:strict", samples=3, template="number@v1", offline=True)
    evaluation = ek.evaluate(items, rubric, "fake:strict", samples=3, template="number@v1", offline=True)
    ek.gate.to_traces(items, evaluation, tmp_path / "t.jsonl")
    _, recorded = ek.gate.from_traces(tmp_path / "t.jsonl")
    # sample 0 passes both, sample 1 fails the second, sample 2 is unread in the first
    assert recorded.loc[0, "samples"] == [True, False, None]
    assert recorded.loc[0, "n_scored"] == 2
    assert table["error"].notna().sum() == 1


def test_traces_without_judgments_and_wrong_input(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    assert ek.gate.to_traces(ITEMS, None, path) == 2
    items, recorded = ek.gate.from_traces(path)
    assert len(items) == 2
    assert recorded.empty
    assert gate(path, "faithfulness").exit_code == 2
    with pytest.raises(InputError, match="item 'a' has no inputs; give it those of the rubric"):
        ek.gate.to_traces([{"item_id": "a", "group_id": "g", "question": None}], None, path)
    with pytest.raises(InputError, match=r"item 'a': meta\.attempt is not read; pass it in the column attempt"):
        ek.gate.to_traces([ITEMS[0] | {"item_id": "a", "meta": {"attempt": 2}}], None, path)
    table = ek.judge(ITEMS, "faithfulness", "fake:strict", samples=1, progress=False)
    with pytest.raises(InputError, match=r"1 judged item not found among the items \(the first: 'b'\); pass all items"):
        ek.gate.to_traces(ITEMS[:1], table, path)
    renamed = [{"id" if name == "item_id" else name: value for name, value in item.items()} for item in ITEMS]
    with pytest.raises(InputError, match="and item_id= if their ids are in another column"):
        ek.gate.to_traces(renamed, table, path)
    assert ek.gate.to_traces(renamed, table, path, item_id="id") == 2
    assert ek.gate.from_traces(path)[0]["item_id"].tolist() == [item["item_id"] for item in ITEMS]
    with pytest.raises(InputError, match="has duplicate rows"):
        ek.gate.to_traces(ITEMS, pd.concat([table, table]), path)
    pairs = [{"item_id": "a", "question": "q", "answer_a": "x", "answer_b": "y", "answer": "z"}]
    with pytest.raises(InputError, match="compares two answers"):
        ek.gate.to_traces(pairs, ek.judge(pairs, "preference", "fake:strict", samples=1, progress=False), path)
    with pytest.raises(InputError, match="cannot be written"):
        ek.gate.to_traces(ITEMS, None, tmp_path / "none" / "t.jsonl")
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(InputError, match="several lines have request_id 'a'"):
        ek.gate.from_traces(path)


def test_order_of_the_judgments_plays_no_part(tmp_path: Path) -> None:
    table = ek.judge(ITEMS, "faithfulness", "fake:strict", samples=3, progress=False)
    ek.gate.to_traces(ITEMS, table, tmp_path / "one.jsonl")
    shuffled = table.sample(frac=1, random_state=2).sort_values(["judge", "sample"], kind="stable")
    ek.gate.to_traces(ITEMS, shuffled, tmp_path / "two.jsonl")
    one, two = (ek.gate.from_traces(tmp_path / name)[1] for name in ("one.jsonl", "two.jsonl"))
    assert one[["item_id", "passed", "score", "agreement"]].equals(two[["item_id", "passed", "score", "agreement"]])


def _edited(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("asked", [GateOptions(), GateOptions(judge="none", model="any")], ids=["nobody", "a-judge"])
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"response":"30 days."', '"response":"90 days."', "input_hash: differs from the needed one"),
        ('"prompt":"How long?"', '"prompt":"How far?"', "input_hash: differs from the needed one"),
        (
            '"context":["Returns within 30 days."]',
            '"context":["No returns."]',
            "input_hash: differs from the needed one",
        ),
        ('"context":["Returns within 30 days."],', "", "has no context, which rubric 'faithfulness' needs"),
        ('"input_hash":', '"x":', "verdict"),
        ('"rubric_hash":', '"x":', "verdict"),
        ('"rules_hash":', '"x":', "verdict"),
        ('"parts":', '"x":', "verdict_key: differs from the needed one"),
    ],
)
@pytest.mark.long
def test_a_trace_that_was_changed_after_to_traces_has_no_verdict(
    tmp_path: Path, asked: GateOptions, old: str, new: str, said: str
) -> None:
    """The verdict of a notebook is of one answer; for another the gate ends with 2, not with the old verdict's 0."""
    path = tmp_path / "traces.jsonl"
    evaluation = ek.evaluate(ITEMS, "faithfulness", "fake:lenient", samples=3, progress=False)
    ek.gate.to_traces(ITEMS, evaluation, path)
    tests = [{"id": "a", "expected": {"type": "faithfulness", "samples": 3, "min_score": 0.0}}]
    assert run_gate(GateConfig(tests=tests), path, GateOptions(), environment={}).exit_code == 0
    _edited(path, old, new)
    result = run_gate(GateConfig(tests=tests), path, asked, environment={})
    assert result.exit_code == 2
    if asked.model is None:
        assert said in result.tests[0].message or "is not used" in result.tests[0].message


def test_the_verdict_is_that_of_the_items_that_an_evaluation_judged(tmp_path: Path) -> None:
    """Answers that were changed between judging and writing: their traces carry no verdict that counts."""
    evaluation = ek.evaluate(ITEMS, "faithfulness", "fake:lenient", samples=3, progress=False)
    ek.gate.to_traces([item | {"answer": "Ninety years."} for item in ITEMS], evaluation, tmp_path / "t.jsonl")
    assert gate(tmp_path / "t.jsonl", "faithfulness", min_score=0.0).exit_code == 2


@pytest.mark.parametrize("record", [[], "x", 3, {"score": 1.0}, {"samples": "TTT"}, {"samples": None}], ids=str)
def test_a_malformed_record_is_named_by_its_line(tmp_path: Path, record: Any) -> None:
    line = {"schema_version": 1, "type": "verdict.trace", "request_id": "a", "prompt": "q", "response": "x"}
    line["meta"] = {"verdict": {"judge": {"faithfulness": record}}}
    (tmp_path / "t.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"t\.jsonl, line 1: meta\.verdict\.judge\.faithfulness"):
        ek.gate.from_traces(tmp_path / "t.jsonl")
