"""Conversations whose messages have a type or a kind instead of a role, against the same ones in OpenAI's form."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest

from evalkit.errors import InputError
from evalkit.tables.messages import holds_chats, messages_of, split, turns

Log = list[dict[str, Any]]


def conversation(seed: int) -> Log:
    """A conversation in OpenAI's form: each word in it stands there once."""
    rng, words, calls = random.Random(seed), (f"w{n}x" for n in itertools.count()), itertools.count()
    log: Log = [{"role": "system", "content": next(words)}] if rng.random() < 0.5 else []
    for _ in range(rng.randint(1, 3)):
        log.append({"role": "user", "content": next(words)})
        for _ in range(rng.randint(0, 2)):
            made = [
                {"id": f"id{next(calls)}", "name": rng.choice(["find", "look"]), "args": {"q": next(words)}}
                for _ in range(rng.randint(1, 3))
            ]
            thought = {"reasoning_content": next(words)} if rng.random() < 0.5 else {}
            functions = [{"name": one["name"], "arguments": one["args"]} for one in made]
            numbered = zip(made, functions, strict=True)
            written = [{"id": one["id"], "type": "function", "function": function} for one, function in numbered]
            log.append({"role": "assistant", "content": "", **thought, "tool_calls": written})
            results = [{"role": "tool", "tool_call_id": one["id"], "content": next(words)} for one in made]
            results = [{**one, "is_error": True} if rng.random() < 0.3 else one for one in results]
            log += rng.sample(results, len(results))
        log.append({"role": "assistant", "content": next(words)})
    return log


def calls_of(message: dict[str, Any]) -> list[tuple[str, str, Any]]:
    calls = message.get("tool_calls", [])
    return [(one["id"], one["function"]["name"], one["function"]["arguments"]) for one in calls]


def pydantic_ai(log: Log) -> Any:
    names = {number: name for one in log for number, name, _ in calls_of(one)}
    noted = {"timestamp": "2025-01-01T00:00:00Z"}
    items: list[Any] = []
    for one in log:
        if one["role"] == "assistant":
            parts = [
                {"part_kind": "thinking", "content": one[key], "signature": "s"}
                for key in ("reasoning_content",)
                if key in one
            ]
            parts += [{"part_kind": "text", "content": one["content"], "id": None}] if one["content"] else []
            parts += [
                {"part_kind": "tool-call", "tool_name": name, "args": json.dumps(args) if len(name) % 2 else args,
                 "tool_call_id": number} for number, name, args in calls_of(one)
            ]  # fmt: skip
            items.append({"kind": "response", "parts": parts, "model_name": "m", "usage": {"input_tokens": 3}, **noted})
            continue
        number = one.get("tool_call_id")
        kinds = {"system": "system-prompt", "user": "user-prompt", "tool": "tool-return"}
        part = {
            "part_kind": "retry-prompt" if one.get("is_error") else kinds[one["role"]],
            "content": one["content"],
            **noted,
        }
        part |= {"tool_call_id": number, "tool_name": names[number]} if number else {}
        if items and items[-1]["kind"] == "request":
            items[-1]["parts"].append(part)
        else:
            items.append({"kind": "request", "parts": [part], "instructions": None})
    return items


LC = {"system": "System", "user": "Human", "assistant": "AI", "tool": "Tool"}


def langchain(log: Log) -> Any:
    made = []
    for one in log:
        fields = {"content": one["content"], "type": LC[one["role"]].lower(), "response_metadata": {"model_name": "m"}}
        fields |= {"tool_call_id": one["tool_call_id"]} if "tool_call_id" in one else {}
        fields |= {"is_error": True} if "is_error" in one else {}
        calls = [
            {"id": number, "name": name, "args": args, "type": "tool_call"} for number, name, args in calls_of(one)
        ]
        fields |= {"tool_calls": calls} if calls else {}
        fields |= {"additional_kwargs": {key: one[key] for key in ("reasoning_content",) if key in one}}
        names = ["langchain", "schema", "messages", f"{LC[one['role']]}Message"]
        made.append({"lc": 1, "type": "constructor", "id": names, "kwargs": fields})
    return {"messages": made}


def autogen(log: Log) -> Any:
    names = {number: name for one in log for number, name, _ in calls_of(one)}
    made: list[Any] = []
    for one in log:
        calls = [{"id": number, "name": name, "arguments": json.dumps(args)} for number, name, args in calls_of(one)]
        if one["role"] == "tool":
            result = {"content": one["content"], "call_id": one["tool_call_id"], "name": names[one["tool_call_id"]]}
            result["is_error"] = one.get("is_error", False)
            if made[-1]["type"] != "FunctionExecutionResultMessage":
                made.append({"type": "FunctionExecutionResultMessage", "content": []})
            made[-1]["content"].append(result)
        elif one["role"] == "assistant":
            thought = one.get("reasoning_content")
            made.append(
                {
                    "type": "AssistantMessage",
                    "content": calls or one["content"],
                    "thought": thought,
                    "source": "assistant",
                }
            )
        else:
            made.append(
                {"type": f"{one['role'].capitalize()}Message", "content": one["content"], "source": one["role"]}
            )
    return made


def shown(log: Any) -> list[tuple[str, str]]:
    roles = {"human": "user", "ai": "assistant"}
    told = [(heading.partition(":"), text) for _, heading, text in turns(messages_of(log))]
    return [(roles.get(role, role) + sign + what, text.replace(" ", "")) for (role, sign, what), text in told]


@pytest.mark.parametrize("write", [pydantic_ai, langchain, autogen])
def test_a_conversation_is_the_same_whoever_wrote_it(write: Any) -> None:
    for seed in range(150):
        log = conversation(seed)
        written = write(log)
        assert shown(written) == shown(log), seed
        assert shown(json.dumps(written)) == shown(log)
        assert split(messages_of(written))["answer"] == log[-1]["content"]
        assert holds_chats([written])


def test_the_speakers_of_a_team_of_agents_stay_apart() -> None:
    def said(kind: str, source: str, content: Any) -> dict[str, Any]:
        return {"type": kind, "source": source, "content": content, "models_usage": None, "metadata": {}, "id": "x"}

    call = {"id": "c", "name": "find", "arguments": '{"q": 1}'}
    team = [
        said("TextMessage", "user", "Where is it?"),
        said("ThoughtEvent", "planner", "Ask the finder."),
        said("TextMessage", "planner", "Finder, look."),
        said("ToolCallRequestEvent", "finder", [call]),
        said(
            "ToolCallExecutionEvent", "finder", [{"content": "here", "name": "find", "call_id": "c", "is_error": False}]
        ),
        said("ToolCallSummaryMessage", "finder", "here") | {"tool_calls": [call], "results": []},
        said("StopMessage", "planner", "It is here."),
    ]
    headings = [
        "user",
        "planner: reasoning",
        "planner",
        "finder: call 1, find",
        "tool: result of call 1, find",
        "finder",
    ]
    assert [heading for heading, _ in shown({"messages": team, "stop_reason": "done"})] == [*headings, "planner"]
    assert split(messages_of(team))["question"] == "Where is it?"


def test_instructions_that_each_request_repeats_are_shown_once() -> None:
    def request(text: str, rules: str) -> dict[str, Any]:
        return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": text}], "instructions": rules}

    reply = {"kind": "response", "parts": [{"part_kind": "text", "content": "Yes."}]}
    log = [request("a", "Be brief."), reply, request("b", "Be brief."), reply, request("c", "Be kind."), reply]
    assert [text for heading, text in shown(log) if heading == "system"] == ["Bebrief.", "Bekind."]


@pytest.mark.parametrize("seed", range(20))
def test_what_a_pydantic_ai_agent_hands_over_by_an_output_tool_is_its_answer(seed: int) -> None:
    rng = random.Random(seed)
    log = conversation(seed)
    output, name = json.dumps({"city": "Oslo", "sure": True}), rng.choice(["final_result", "final_result_City", "done"])
    said = [{"part_kind": "text", "content": "I look it up."}] * rng.randint(0, 1)
    call = {"part_kind": "tool-call", "tool_name": name, "args": rng.choice([output, json.loads(output)])}
    parts = [*said, call | {"tool_call_id": "out"}]
    refused = {"part_kind": "retry-prompt", "tool_name": name, "tool_call_id": "bad", "content": "city: missing"}
    taken = {"part_kind": "tool-return", "tool_name": name, "tool_call_id": "out", "content": "Final result processed."}
    first = [{"kind": "response", "parts": [call | {"tool_call_id": "bad", "args": "{}"}]},
             {"kind": "request", "parts": [refused]}] * rng.randint(0, 1)  # fmt: skip
    ends = [{"kind": "response", "parts": parts}, {"kind": "request", "parts": [taken]}]
    told = shown([*pydantic_ai(log), *first, *ends])
    plain = shown(
        [*pydantic_ai(log), *first, {"kind": "response", "parts": [*said, {"part_kind": "text", "content": output}]}]
    )
    assert [text.replace(" ", "") for _, text in told] == [text.replace(" ", "") for _, text in plain]
    assert told[-1][1].endswith(output.replace(" ", ""))
    assert not [text for _, text in told if "processed" in text]
    item = split([{"role": "user", "content": "Where?"}, *messages_of([*first, *ends])])
    assert item["answer"].replace(" ", "").endswith(output.replace(" ", ""))


UNKNOWN: list[Any] = [
    [{"kind": "response", "parts": [{"part_kind": "hologram", "content": "x"}]}],
    [{"kind": "request", "parts": ["x"]}],
    [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "Document"], "kwargs": {"content": "x"}}],
    [{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "RemoveMessage"], "kwargs": {"content": ""}}],
    [{"type": "NovelMessage", "source": "user", "content": "x"}],
    [{"role": "user", "content": "x"}, {"kind": "memo", "parts": []}],
]


@pytest.mark.parametrize("log", UNKNOWN)
def test_what_is_not_known_is_refused_with_advice(log: Any) -> None:
    with pytest.raises(InputError, match="rewrite it in OpenAI's form"):
        messages_of(log)
    assert not holds_chats([log])


def test_parts_of_gemini_haystack_llamaindex_and_cohere_are_calls_results_and_thoughts() -> None:
    arguments, words = {"q": "w1"}, ["reasoning", "call 1, find", "result of call 1, find"]
    calls: list[Log] = [
        [{"role": "model", "parts": [{"text": "w0", "thought": True},
                                     {"function_call": {"name": "find", "args": arguments}}]},
         {"role": "user", "parts": [{"function_response": {"name": "find", "response": {"result": "w2"}}}]}],
        [{"role": "assistant", "content": [{"reasoning": {"reasoning_text": "w0", "extra": {}}},
                                           {"tool_call": {"tool_name": "find", "arguments": arguments, "id": "c"}}]},
         {"role": "tool", "content": [{"tool_call_result": {"result": "w2", "error": False,
                                                            "origin": {"tool_name": "find", "id": "c"}}}]}],
        [{"role": "assistant", "blocks": [{"block_type": "thinking", "content": "w0"},
                                          {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "find",
                                           "tool_kwargs": arguments}]},
         {"role": "tool", "additional_kwargs": {"tool_call_id": "c"},
          "blocks": [{"block_type": "text", "text": "w2"}]}],
        [{"role": "assistant", "content": "", "thinking": "w0",
          "tool_calls": [{"id": "c", "function": {"name": "find", "arguments": arguments}}]},
         {"role": "tool", "tool_call_id": "c", "content": [{"type": "document", "document": {"data": '{"x": "w2"}'}}]}],
    ]  # fmt: skip
    for log in calls:
        told = shown([{"role": "user", "content": "Go."}, *log])
        assert [heading.partition(": ")[2] for heading, _ in told[1:]] == words, told
        assert [text.count(f"w{n}") for n, (_, text) in enumerate(told[1:])] == [1, 1, 1]
