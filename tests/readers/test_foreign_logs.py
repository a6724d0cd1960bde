"""Logs of other programs: refused with a line, and that line, followed to the letter, shows all of them."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pandas as pd
import pytest
from foreign_logs import LOGS, Log, agentbench
from stories import Story, as_openai, story_of, told

import evalkit as ek
from evalkit.errors import InputError
from evalkit.tables.messages import messages_of, turns

RUBRIC = ek.Rubric(id="r", inputs=["messages"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])


def story_for(log: Log, draw: random.Random) -> Story:
    """A conversation that this program can write."""
    story = story_of(draw)
    story.system = story.system if log.has_system else ""
    story.goodbye = story.goodbye if log.has_goodbye else ""
    for turn in story.turns if log.one_call else ():
        for step in turn.steps:
            step.text, step.calls, step.results = step.text or "So.", step.calls[:1], [(0, step.results[0][1], False)]
    return story


def line_for(value: Any) -> tuple[str, str]:
    """What the refusal of a log says that it looks like, and the line that it names."""
    with pytest.raises(InputError) as caught:
        ek.judge([{"messages": value}], RUBRIC, "fake:strict", samples=1, progress=False)
    match = re.search(r"this looks like ([^:]+): use (.*)$", str(caught.value), re.DOTALL)
    assert match is not None, str(caught.value)
    return match[1], match[2]


def followed(line: str, log: Any) -> Any:
    """The messages that the line makes, as Python reads it."""
    code = re.sub(", (log being the root run|if its framework wrote lists of messages)$", "", line)
    made = eval(code, {"ek": ek, "json": json, "log": log})
    return made["messages"][0] if isinstance(made, pd.DataFrame) else made


def headings(messages: Any) -> list[tuple[str, str]]:
    """Who did what, without marks of errors, which not all programs keep."""
    rows = [(heading.removesuffix(", error"), text) for _, heading, text in turns(messages_of(messages))]
    return [(heading, json.loads(text)["key"] if text.startswith('{"key"') else text) for heading, text in rows]


@pytest.mark.parametrize("name", LOGS)
def test_the_line_of_a_refusal_shows_every_call_result_and_character(name: str) -> None:
    log, draw = LOGS[name], random.Random(11)
    for _ in range(25):
        story = story_for(log, draw)
        written = json.loads(json.dumps(log.write(story)))
        if log.form:
            messages = ek.load_items(written, form=log.form)["messages"][0]
        else:
            looks_like, line = line_for(written)
            assert looks_like == log.looks_like
            messages = followed(line, written)
        assert headings(messages) == told(story) == headings(as_openai(story))


@pytest.mark.parametrize("name", ["mlflow", "langsmith", "swe_agent", "crewai"])
def test_what_people_and_tools_noted_beside_the_messages_is_not_among_them(name: str) -> None:
    written = LOGS[name].write(story_for(LOGS[name], random.Random(3)))
    messages = followed(line_for(written)[1], written)
    shown = json.dumps(list(turns(messages_of(messages))))
    for noted in ("assessments", "feedback", "exit_status", "token_usage", "execution_time"):
        assert noted not in shown


def test_a_history_of_texts_alone_keeps_its_agent() -> None:
    story = Story("", story_of(random.Random(5)).turns[:1], "")
    story.turns[0].steps = []
    written = agentbench(story)
    looks_like, line = line_for(written)
    assert looks_like == "AgentBench"
    assert [text for _, text in headings(followed(line, written))] == [story.turns[0].question, story.turns[0].answer]


def test_events_of_openhands_become_calls_and_results() -> None:
    events = [
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "Rules.", "tools": []}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Fix it."}, "message": "Fix it."},
        {"id": 2, "source": "environment", "observation": "agent_state_changed", "content": "", "extras": {}},
        {"id": 3, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "Look."}},
        {"id": 4, "source": "agent", "observation": "run", "content": "a.py", "cause": 3, "extras": {"exit_code": 0}},
        {"id": 5, "source": "agent", "action": "message", "args": {"content": "Done."}},
    ]
    looks_like, line = line_for(events)
    assert looks_like == "events of OpenHands"
    assert headings(followed(line, events)) == [
        ("system", "Rules."), ("user", "Fix it."), ("assistant", "Look."),
        ("assistant: call 1, run", '{"command":"ls","thought":"Look."}'), ("tool: result of call 1, run", "a.py"),
        ("assistant", "Done."),
    ]  # fmt: skip


def test_a_web_export_of_claude_code_is_read_by_the_line_for_its_sessions() -> None:
    story = story_for(LOGS["claude_code"], random.Random(7))
    written = {"loglines": LOGS["claude_code"].write(story)}
    assert headings(followed(line_for(written)[1], written)) == told(story)


def test_spans_with_rules_alone_are_no_trace() -> None:
    span = {"traceId": "1", "attributes": {"gen_ai.system_instructions": '[{"type": "text", "content": "Be kind."}]'}}
    with pytest.raises(InputError, match="no span has messages; switch on the capture of messages"):
        ek.load_items([span], form="otel")


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ([{"type": "user", "uuid": "1", "sessionId": "s", "message": {}}], "a session of Claude Code: use ek.load"),
        ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], "{'task': '…', 'messages': log}"),
        ([{"role": "user", "text": "Hi"}], "as in inputs={'task': 'your_column'}"),
    ],
)  # fmt: skip
def test_rows_of_a_log_that_are_taken_for_items_are_told_by_their_form(rows: list[dict[str, Any]], line: str) -> None:
    with pytest.raises(InputError, match=re.escape(line)):
        ek.judge(ek.load_items(rows), "task_completion", "fake:strict", progress=False)
