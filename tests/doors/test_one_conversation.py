"""Prompt, judge, gate, start card, tuner and report show one conversation: the one that took place."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.gate import GateConfig, GateOptions, run_gate
from evalkit.notebook.judgments.item_details import item_detail
from evalkit.tables.messages import turns

ORDER = {"name": "get_order", "arguments": '{"id": "A17"}'}


def log(number: int, null: Any = None) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": "Look orders up."},
        {"role": "user", "content": f"Hello, I am customer {number}."},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": f"Where is order A{number}?"},
        {
            "role": "assistant",
            "content": null,
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": ORDER}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"on truck {number}"},
        {"role": "assistant", "content": f"Order A{number} is on the truck."},
        {"role": "user", "content": "###STOP###"},
    ]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TABLE = pd.DataFrame(
    {"item_id": [f"i{at}" for at in range(6)], "log": pd.Series([log(at) for at in range(6)], dtype=object)}
)


def test_all_doors_show_what_the_judge_was_shown(tmp_path: Path) -> None:
    items = ek.tables.split_messages(TABLE, "log").drop(columns="log")
    prompts: dict[str, str] = {}

    @ek.Judge.function(name="spy", version="1")
    def spy(prompt: Any) -> str:
        prompts[prompt.inputs["question"]] = str(prompt)
        return '{"explanation": "x", "score": 4}'

    evaluation = ek.evaluate(items, "helpfulness", spy, samples=1, progress=False)
    for row in items.to_dict("records"):
        assert str(ek.build_prompt("helpfulness", row)) == prompts[row["question"]]
    told = [(heading, text) for _, heading, text in turns(items["conversation"][3])]
    assert told == [
        ("system", "Look orders up."), ("user", "Hello, I am customer 3."), ("assistant", "Hello."),
        ("question", "(The question, which is shown apart, stood here.)"),
        ("assistant: call 1, get_order", '{"id": "A17"}'), ("tool: result of call 1, get_order", "on truck 3"),
    ]  # fmt: skip
    prompt = prompts["Where is order A3?"]
    assert all(f" {heading} (" in prompt and prompt.count(text) == 1 for heading, text in told)
    # the tuner's item, and the report
    detail = item_detail(evaluation, "i3", "helpfulness")
    shown = "\n\n".join(f"{heading}: {text}" for heading, text in told)
    assert (detail["prompt"], dict(detail["inputs"])["conversation"]) == (prompt, shown)
    page = Path(ek.report(evaluation, tmp_path / "report.html")).read_text(encoding="utf-8")
    text = " ".join(html.unescape(re.sub("<[^>]*>", " ", page)).split())
    assert any(
        " ".join(f"{heading}: {text}" for heading, text in told).replace("3", str(at)) in text for at in range(6)
    )
    # the start card
    card = ek.start(TABLE)
    assert card.roles.roles["log"] == "messages"
    card.receive({"do": "rubric", "name": "helpfulness"})
    assert (card.problems, card.items["conversation"].tolist()) == ([], items["conversation"].tolist())


def test_the_gate_finds_the_replies_of_the_notebook(tmp_path: Path) -> None:
    items = ek.tables.split_messages(TABLE, "log").drop(columns="log")
    ask = {"judges": "fake:strict", "samples": 3}
    table = ek.judge(items, "helpfulness", **ask, progress=False)
    ek.gate.to_traces(items, table, tmp_path / "traces.jsonl")
    back, recorded = ek.gate.from_traces(tmp_path / "traces.jsonl")
    assert back["conversation"].tolist() == items["conversation"].tolist()
    assert len(recorded) == 6
    config = GateConfig(tests=[{"id": "i3", "expected": {"type": "helpfulness"}}])
    found = run_gate(config, tmp_path / "traces.jsonl", GateOptions(judge="fake", model="strict")).judgments
    assert found == {}, "the verdict in the trace counts, so there is no new one"
    # a trace that has the log as its tool wrote it has the same input
    raw = log(3)
    talk = [*raw[:3], {"role": "question", "content": told_question()}, *raw[4:6]]
    line = {"schema_version": 1, "type": "verdict.trace", "request_id": "i3", "prompt": "Where is order A3?",
            "response": "Order A3 is on the truck.", "meta": {"item": {"conversation": talk}}}  # fmt: skip
    (tmp_path / "raw.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    own, _ = ek.gate.from_traces(tmp_path / "raw.jsonl")
    keys = ek.judge(own, "helpfulness", **ask, progress=False)["key"].tolist()
    assert keys == table.loc[table["item_id"] == "i3", "key"].tolist()


def told_question() -> str:
    return "(The question, which is shown apart, stood here.)"


def test_an_image_in_a_trace_is_an_error_with_its_reason_and_no_call(tmp_path: Path) -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://shop.example/a.png"}}
    line = {"schema_version": 1, "type": "verdict.trace", "request_id": "t", "prompt": "What?", "response": "A hat.",
            "meta": {"item": {"conversation": [{"role": "user", "content": [picture]}]}}}  # fmt: skip
    (tmp_path / "t.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    config = GateConfig(tests=[{"id": "t", "expected": {"type": "helpfulness"}}])
    with pytest.warns(ek.errors.EvalkitWarning, match="an image"):
        result = run_gate(config, tmp_path / "t.jsonl", GateOptions(judge="fake", model="strict"))
    assert (result.tests[0].status, result.exit_code) == ("error", 2)
    assert "unseen_image" in str(result.tests[0])


def test_the_card_keeps_the_question_for_a_rubric_without_one() -> None:
    rubric = rubric_of("steps", {0: "a", 1: "b"}, inputs="conversation answer", meaning="d")
    card = ek.start(TABLE, rubric, roles={"log": "messages"})
    assert [one["role"] for one in card.items["conversation"][0]] == [
        "system", "user", "assistant", "user", "assistant", "tool",
    ]  # fmt: skip
    assert "split_messages(items, 'log', ['conversation', 'answer'])" in card.code


def test_null_and_empty_contents_have_one_key() -> None:
    def keys(null: Any) -> list[str]:
        table = pd.DataFrame({"conversation": pd.Series([log(1, null)], dtype=object)})
        return ek.judge(table, "conversation_quality", "fake:strict", samples=1, progress=False)["key"].tolist()

    assert keys(None) == keys("") == keys([])
