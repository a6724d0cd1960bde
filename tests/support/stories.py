"""Conversations told without any tool's form, and written in those of several tools."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

ENDS = ["plain", "é", "two\nlines", "--- 3 user ---", "</x>"]


@dataclass
class Step:
    """What an assistant does at once: perhaps a text, calls, and the results in their order."""

    text: str
    calls: list[tuple[str, dict[str, str]]]
    results: list[tuple[int, str, bool]]  # number of the call here, text, whether it is an error


@dataclass
class Turn:
    """A question, steps, and what the assistant says at the end."""

    question: str
    steps: list[Step]
    answer: str


@dataclass
class Story:
    """A conversation, told without any tool's form."""

    system: str
    turns: list[Turn]
    goodbye: str
    places: list[str] = field(default_factory=list)


def story_of(draw: random.Random) -> Story:
    n = iter(range(1000))

    def text(kind: str) -> str:
        return f"{kind}-{next(n)}-{draw.choice(ENDS)}"

    turns = []
    for _ in range(draw.randint(1, 3)):
        steps = []
        for _ in range(draw.choice([0, 0, 1, 2])):
            calls = [(f"tool_{draw.choice('ab')}", {"key": text("arg")}) for _ in range(draw.randint(1, 3))]
            order = list(range(len(calls)))
            draw.shuffle(order)
            results = [(at, draw.choice([text("result"), text("result"), ""]), draw.random() < 0.2) for at in order]
            steps.append(Step(draw.choice(["", text("aside")]), calls, results))
        turns.append(Turn(text("question"), steps, text("answer")))
    return Story(draw.choice(["", text("system")]), turns, draw.choice(["", text("bye")]))


def as_openai(story: Story, null: Any = None, **named: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "system", "content": story.system}] if story.system else []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": turn.question})
        for number, step in enumerate(turn.steps):
            ids = [f"call_{at}_{number}_{one}" for one in range(len(step.calls))]
            calls = [
                {"id": one, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for one, (name, arguments) in zip(ids, step.calls, strict=True)
            ]
            made.append({"role": "assistant", "content": step.text or null, "tool_calls": calls} | named)
            for one, text, _ in step.results:
                result = {"role": "tool", "tool_call_id": ids[one], "content": text or null}
                made.append(result | ({"name": step.calls[one][0]} if named else {}))
        made.append({"role": "assistant", "content": turn.answer})
    return made + ([{"role": "user", "content": story.goodbye}] if story.goodbye else [])


def told(story: Story) -> list[tuple[str, str]]:
    """Who said and did what, in order: written from the story, not from a form."""
    made = [("system", story.system)] if story.system else []
    number = 0
    for turn in story.turns:
        made.append(("user", turn.question))
        for step in turn.steps:
            first = number + 1
            made += [("assistant", step.text)] if step.text else []
            for name, arguments in step.calls:
                number += 1
                made.append((f"assistant: call {number}, {name}", arguments["key"]))
            made += [
                (f"tool: result of call {first + one}, {step.calls[one][0]}", text) for one, text, _ in step.results
            ]
        made.append(("assistant", turn.answer))
    return made + ([("user", story.goodbye)] if story.goodbye else [])


def _results(step: Step, ids: list[str]) -> list[tuple[str, str, str, bool]]:
    """Id and name of the call, text, and whether it is an error."""
    return [(ids[at], step.calls[at][0], text, is_error) for at, text, is_error in step.results]


def _steps(turn: Turn, at: int) -> list[tuple[Step, list[str]]]:
    return [(step, [f"c{at}_{n}_{one}" for one in range(len(step.calls))]) for n, step in enumerate(turn.steps)]


def as_anthropic(story: Story) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": [{"type": "text", "text": turn.question}]})
        for step, ids in _steps(turn, at):
            uses = [{"type": "tool_use", "id": key, "name": name, "input": arguments}
                    for key, (name, arguments) in zip(ids, step.calls, strict=True)]  # fmt: skip
            text = [{"type": "text", "text": step.text, "cache_control": {"type": "ephemeral"}}] if step.text else []
            made.append({"role": "assistant", "content": [*text, *uses]})
            made.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": key, "content": [{"type": "text", "text": text}] if text else None,  # noqa: E501
                 "is_error": is_error} for key, _, text, is_error in _results(step, ids)
            ]})  # fmt: skip
        made.append({"role": "assistant", "content": [{"type": "text", "text": turn.answer}]})
    made += [{"role": "user", "content": story.goodbye}] if story.goodbye else []
    return [{"system": [{"type": "text", "text": story.system}] if story.system else None, "messages": made}]


def as_inspect(story: Story) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"id": "m", "role": "system", "content": story.system}] if story.system else []
    for at, turn in enumerate(story.turns):
        made.append({"id": f"u{at}", "role": "user", "source": "input", "content": turn.question})
        for step, ids in _steps(turn, at):
            calls = [{"id": key, "function": name, "arguments": arguments, "type": "function"}
                     for key, (name, arguments) in zip(ids, step.calls, strict=True)]  # fmt: skip
            made.append({"role": "assistant", "source": "generate", "content": step.text, "tool_calls": calls})
            for key, name, text, is_error in _results(step, ids):
                error = {"error": {"type": "unknown", "message": text}} if is_error and text else {}
                made.append(
                    {"role": "tool", "tool_call_id": key, "function": name, "content": "" if error else text, **error}
                )
        made.append({"id": f"a{at}", "role": "assistant", "source": "generate", "content": turn.answer})
    made += [{"role": "user", "content": story.goodbye}] if story.goodbye else []
    return [{"id": "s", "messages": made, "attachments": {}}]


def as_responses(story: Story) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": [{"type": "input_text", "text": turn.question}]})
        for step, ids in _steps(turn, at):
            made += [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": step.text}]}
                     ] if step.text else []  # fmt: skip
            made += [{"type": "function_call", "call_id": key, "name": name, "arguments": json.dumps(arguments)}
                     for key, (name, arguments) in zip(ids, step.calls, strict=True)]  # fmt: skip
            made += [{"type": "function_call_output", "call_id": key, "output": text,
                      "status": "incomplete" if is_error else "completed"}
                     for key, _, text, is_error in _results(step, ids)]  # fmt: skip
        made.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": turn.answer}]})
    made += [{"role": "user", "content": story.goodbye}] if story.goodbye else []
    return [{"instructions": story.system or None, "input": made, "output": []}]


def as_atif(story: Story) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"source": "system", "message": story.system}] if story.system else []
    for at, turn in enumerate(story.turns):
        made.append({"source": "user", "message": turn.question})
        for step, ids in _steps(turn, at):
            calls = [{"tool_call_id": key, "function_name": name, "arguments": arguments}
                     for key, (name, arguments) in zip(ids, step.calls, strict=True)]  # fmt: skip
            results = [{"source_call_id": key, "content": text} for key, _, text, _ in _results(step, ids)]
            made.append(
                {"source": "agent", "message": step.text, "tool_calls": calls, "observation": {"results": results}}
            )
        made.append({"source": "agent", "message": turn.answer})
    made += [{"source": "user", "message": story.goodbye}] if story.goodbye else []
    return [{"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "shop"}, "steps": made}]


def _histories(story: Story) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """What each request of a model held, and what it answered; messages in OpenAI's form."""
    log = as_openai(story)
    return [(log[:at], [message]) for at, message in enumerate(log) if message["role"] == "assistant"]


def as_otel(story: Story) -> list[dict[str, Any]]:
    def written(message: dict[str, Any]) -> dict[str, Any]:
        content = message["content"] or ""
        parts = [{"type": "text", "content": content}] if content or message["role"] == "user" else []
        if message["role"] == "tool":
            parts = [{"type": "tool_call_response", "id": message["tool_call_id"], "response": content}]
        parts += [{"type": "tool_call", "id": call["id"], "name": call["function"]["name"],
                   "arguments": json.loads(call["function"]["arguments"])}
                  for call in message.get("tool_calls", [])]  # fmt: skip
        return {"role": message["role"], "parts": parts}

    spans = []
    for at, (asked, answered) in enumerate(_histories(story)):
        attributes: dict[str, Any] = {"gen_ai.operation.name": "chat"}
        for name, messages in (("input", asked), ("output", answered)):
            attributes[f"gen_ai.{name}.messages"] = json.dumps([written(message) for message in messages])
        spans.append({"traceId": "t", "spanId": str(at), "startTimeUnixNano": str(98 + at), "attributes": attributes})
    return spans[::-1]


def as_openinference(story: Story) -> list[dict[str, Any]]:
    spans = []
    for at, history in enumerate(_histories(story)):
        attributes: dict[str, Any] = {"openinference.span.kind": "LLM"}
        for name, messages in zip(("input", "output"), history, strict=True):
            for n, message in enumerate(messages):
                start = f"llm.{name}_messages.{n}.message."
                attributes[f"{start}role"] = message["role"]
                attributes[f"{start}content"] = message["content"] or ""
                if "tool_call_id" in message:
                    attributes[f"{start}tool_call_id"] = message["tool_call_id"]
                for one, call in enumerate(message.get("tool_calls", [])):
                    place = f"{start}tool_calls.{one}.tool_call."
                    attributes[f"{place}id"] = call["id"]
                    attributes[f"{place}function.name"] = call["function"]["name"]
                    attributes[f"{place}function.arguments"] = call["function"]["arguments"]
        otlp = [{"key": name, "value": {"stringValue": value}} for name, value in attributes.items()]
        start_time = f"2026-11-20T10:00:{at:02}Z"
        spans.append(
            {"context": {"trace_id": "t"}, "start_time": start_time, "attributes": otlp if at % 2 else attributes}
        )
    return spans[::-1]


FORMS = {
    "anthropic": as_anthropic, "inspect": as_inspect, "openai_responses": as_responses, "atif": as_atif,
    "otel": as_otel, "openinference": as_openinference,
}  # fmt: skip
