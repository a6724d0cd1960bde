"""Traces of other programs: read whole by the reader that the user names, or refused with the line that works."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stories import FORMS, as_openai, story_of, told

import evalkit as ek
from evalkit.errors import ConfigError, EvalkitWarning, InputError
from evalkit.readers import names
from evalkit.tables.messages import messages_of, turns

USER, SAID = {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}


def headings(messages: Any) -> list[tuple[str, str]]:
    """Who did what, without marks of errors, which not all forms have."""
    rows = [(heading.removesuffix(", error"), text) for _, heading, text in turns(messages_of(messages))]
    return [(head, json.loads(text)["key"] if text.startswith('{"key"') else text.removeprefix("unknown: "))
            for head, text in rows]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_is_the_same_whoever_exported_it(form: str, tmp_path: Path) -> None:
    draw = random.Random(7)
    for _ in range(30):
        story = story_of(draw)
        if form in ("otel", "openinference"):  # what the user says after the last answer is in no span
            story.goodbye = ""
        path = tmp_path / "traces.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in FORMS[form](story)), encoding="utf-8")
        items = ek.load_items(path, form=form)
        assert len(items) == 1
        assert headings(items["messages"][0]) == told(story) == headings(as_openai(story))
        assert items["task"][0] == story.turns[0].question


def test_the_readers_of_traces_are_found_by_name_and_other_names_are_refused(tmp_path: Path) -> None:
    assert set(FORMS) == set(names("traces"))
    with pytest.raises(ConfigError, match=r"unknown reader 'otl'; did you mean 'otel'\?"):
        ek.load_items([USER], form="otl")
    with pytest.raises(ConfigError, match="'apex' is no reader of traces"):
        ek.load_items([USER], form="apex")
    for form in FORMS:
        with pytest.raises(InputError, match=f"reading the form '{form}': "):
            ek.load_items([{"id": 1, "text": "no trace"}], form=form)


def test_a_history_that_an_agent_shortened_and_repeated_words_are_kept() -> None:
    def chat(start: int, asked: list[str], answered: str, trace: str = "t") -> dict[str, Any]:
        written = [{"role": "user", "parts": [{"type": "text", "content": text}]} for text in asked]
        reply = [{"role": "assistant", "parts": [{"type": "text", "content": answered}]}]
        attributes = {"gen_ai.input.messages": json.dumps(written), "gen_ai.output.messages": json.dumps(reply)}
        return {"traceId": trace, "startTimeUnixNano": str(start), "attributes": attributes}

    spans = [chat(9, ["yes"], "1"), chat(10, ["yes", "yes"], "2"), chat(11, ["short"], "3"), chat(5, ["o"], "p", "u")]
    items = ek.load_items(spans, form="otel").set_index("item_id")
    assert [message["content"] for message in items["messages"]["t"]] == ["yes", "1", "yes", "2", "short", "3"]
    assert [message["content"] for message in items["messages"]["u"]] == ["o", "p"]
    tool = {"traceId": "t", "startTimeUnixNano": "12", "attributes": {
        "gen_ai.tool.call.id": "c", "gen_ai.tool.name": "look", "gen_ai.tool.call.result": '{"n": 1}'}}  # fmt: skip
    last = ek.load_items([*spans, tool], form="otel")["messages"][0][-1]
    assert last == {"role": "tool", "tool_call_id": "c", "name": "look", "content": {"n": 1}}
    health = {
        "traceId": "x",
        "attributes": [{"key": "http.route", "value": {"stringValue": "/"}}, {"key": "a", "value": {}}],
    }
    with pytest.warns(EvalkitWarning, match="1 trace of 3 left out: no span of theirs has messages"):
        assert set(ek.load_items([*spans, health], form="otel")["item_id"]) == {"t", "u"}
    with pytest.raises(InputError, match="no span has messages; switch on the capture of messages"):
        ek.load_items([health], form="otel")


def test_what_a_reader_does_not_expect_is_an_error_that_names_it() -> None:
    step = {"agent": "x", "steps": [{"source": "user", "message": "hi"}]}
    with pytest.raises(
        InputError, match=r"reading the form 'atif': something is not as it documents it \(AttributeError"
    ):
        ek.load_items([step], form="atif")
    document = {"type": "document", "source": {"type": "text", "data": "The rules."}}
    said = [{"role": "user", "content": [document, {"type": "text", "text": "Which?"}]}]
    assert ek.load_items([{"messages": said}], form="anthropic")["messages"][0][0]["content"] == "The rules.\nWhich?"


def test_fields_beside_a_text_and_in_a_call_are_named() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "refund", "arguments": "{}", "usd": 900}}
    done = [{"type": "text", "text": "done", "amount": 5}]
    chat = [{"role": "user", "content": "Refund?"}, {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": done}]  # fmt: skip
    items = [{"item_id": "a", "conversation": chat}]
    with pytest.warns(EvalkitWarning, match=r"'content.amount', 'tool_calls.usd' of messages; write into the content"):
        ek.judge(items, "conversation_quality", "fake:strict", samples=1)


def test_a_text_among_messages_is_refused() -> None:
    with pytest.raises(InputError, match='expected a list of messages with role and content, got "yo"'):
        ek.judge([{"item_id": "a", "conversation": [{"role": "user", "content": "hi"}, "yo"]}], "conversation_quality",
                 "fake:strict", samples=1)  # fmt: skip


FOREIGN: list[tuple[Any, str]] = [
    ([{"attributes": {"gen_ai.input.messages": "[]"}}], "OpenTelemetry's GenAI spans: use .*form='otel'"),
    ({"attributes": {"llm.input_messages.0.message.role": "user"}}, "OpenInference: use .*form='openinference'"),
    ({"schema_version": "ATIF-v1.7", "steps": []}, "ATIF: use .*form='atif'"),
    ([USER, {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]}], "Anthropic: use .*'anthropic'"),
    ([USER, {"type": "function_call", "name": "f"}], "Responses API: use .*form='openai_responses'"),
    ([{"type": "session_meta", "payload": {"id": "s"}}], "a session of Codex: use"),
    ([USER | {"source": "input"}, {"role": "assistant", "tool_calls": [{"function": "f"}]}], "Inspect: use"),
    ([{"from": "human", "value": "Q"}], "ShareGPT: use"),
    ([{"type": "human", "content": "Q"}], r"LangChain: use .*turn\['type'\]"),
    ([{"role": "user", "parts": [{"functionCall": {"name": "f", "args": {}}}]}],
     r"\(its fields are 'role', 'parts'\): use"),
    ({"tasks": [], "simulations": [{"messages": [SAID | {"raw_data": {"content": [{"type": "thinking"}]}}]}]},
     r"fields are 'tasks', 'simulations'\): use ek.load_items\(\[{'item_id': …, 'task': …, 'messages': \["),
    ({"messages": [USER, SAID], "reward": 0}, r"an object around its messages: use log\['messages'\]"),
    ({"info": {"assessments": ["GOOD"]}, "data": {"spans": [{"attributes": {"mlflow.spanInputs": "{}"}}]}}, "MLflow"),
    ([USER, {"role": "assistant", "content": {"novel": 1}}], "write it in OpenAI's form"),
    ([USER, {"role": "assistant", "tool_calls": "f(1)"}], "write it in OpenAI's form"),
]  # fmt: skip


@pytest.mark.parametrize(("trace", "line"), FOREIGN, ids=range(len(FOREIGN)))
@pytest.mark.parametrize("name", ["conversation", "messages"])
def test_what_is_not_the_stated_form_is_refused_with_the_line_that_works(trace: Any, line: str, name: str) -> None:
    rubric = ek.Rubric(id="r", inputs=[name], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
    for cell in (trace, json.dumps(trace)):
        with pytest.raises(InputError, match=rf"row 1, input '{name}': expected a list of messages .*{line}"):
            ek.judge([{name: [USER]}, {name: cell}], rubric, "fake:strict", samples=1, progress=False)


@pytest.mark.parametrize("made", [lambda inner: {"a": inner}, lambda inner: [inner]], ids=["mappings", "lists"])
@pytest.mark.parametrize("levels", [600, 5000])
def test_what_is_nested_too_deep_is_refused_at_every_door(made: Callable[[Any], Any], levels: int) -> None:
    deep: Any = "x"
    for _ in range(levels):
        deep = made(deep)
    items = [{"item_id": "a", "messages": [USER, SAID | {"more": deep}]}]
    rubric = ek.Rubric(id="r", inputs=["messages"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
    doors: list[Callable[[], Any]] = [
        lambda: ek.load_items(items),
        lambda: ek.judge(items, rubric, "fake:strict", samples=1, progress=False),
        lambda: ek.evaluate(items, rubric, "fake:strict"),
        lambda: ek.tables.explode_steps(items),
        lambda: ek.tables.check_calls(items),
    ]
    for door in doors:
        with pytest.raises(InputError, match="item 'a', column 'messages': it is nested more than 400 levels deep"):
            door()
    with pytest.raises(InputError, match="record 1: it is nested more than 400 levels deep"):
        ek.load_items(items, form="anthropic")


def test_a_deep_text_of_messages_is_not_judged_as_a_text() -> None:
    text = json.dumps([USER, SAID | {"more": 0}]).replace("0", "[" * 600 + "]" * 600)
    rubric = ek.Rubric(id="r", inputs=["messages"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
    with pytest.raises(InputError, match="row 0, input 'messages': it is nested more than 400 levels"):
        ek.judge([{"messages": text}], rubric, "fake:strict", samples=1, progress=False)


def test_fields_that_are_not_shown_are_named_and_shown_or_left_out_as_the_user_says() -> None:
    log = [USER | {"documents": [{"text": "It opens at nine."}], "cost": 1}, SAID | {"raw": {"goal": "SECRET"}}]
    rubric = ek.Rubric(id="r", inputs=["conversation"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
    with pytest.warns(
        ek.errors.EvalkitWarning, match="not shown the fields 'cost', 'documents', 'raw' of messages; to show"
    ):
        prompt = str(ek.build_prompt(rubric, [{"conversation": log}]))
    assert "nine" not in prompt
    assert "SECRET" not in prompt
    items = ek.load_items([{"conversation": log}], show=["documents"], ignore=["cost", "raw"])
    again = ek.load_items(ek.load_items([{"conversation": log}], show=["cost"]), show=["documents"], ignore=["raw"])
    assert [*again["conversation"][0][0]["shown"]] == ["cost", "documents"]
    prompt = str(ek.build_prompt(rubric, items))  # no warning
    assert prompt.count("It opens at nine.") == 1
    assert "SECRET" not in prompt
    split = ek.tables.split_messages(items, "conversation")
    assert split["question"][0] == 'Q\n{\n  "documents": [\n    {\n      "text": "It opens at nine."\n    }\n  ]\n}'
    with pytest.raises(InputError, match="no message has the field 'documnts'; they have 'content', 'cost'"):
        ek.load_items([{"conversation": log}], show=["documnts"])
