"""Messages with a type or a kind instead of a role: of OpenAI's Responses API, LangChain, AutoGen and Pydantic AI."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from evalkit.core.reply_keys import canonical_json

ROLES = ("ai", "human", "system", "tool", "function", "user", "assistant")
_ITEM = re.compile(r"(?:\w+_)?call(?:_output)?|reasoning|mcp_\w+|item_reference|compaction|tool_search_output")
FAILED = ("error", "failed", "incomplete")
"""States of calls and results that failed."""
_INS = ("arguments", "input", "action", "code", "queries", "operation")
_OUTS = ("output", "outputs", "results", "result")
# AutoGen: who speaks is the source, or the role in the context of a model
_OF_SOURCE = re.compile(r"(?:Text|MultiModal|Stop|Handoff|ToolCallSummary)Message|ToolCallRequestEvent|ThoughtEvent")
_RESULTS = ("ToolCallExecutionEvent", "FunctionExecutionResultMessage")
_OF_AUTOGEN = ("type", "source", "models_usage", "tool_calls", "results", "context")
_PARTS = {"text": "text", "thinking": "reasoning", "tool-call": "tool_call", "tool-return": "tool_result"}
_PART_FIELDS = {"tool_name": "name", "tool_call_id": "id", "args": "arguments"}
_IS_OUTPUT = "Final result processed."
"""What Pydantic AI returns to the call that holds an agent's structured answer, whatever the tool is called."""


def as_messages(values: Sequence[Any]) -> Sequence[Any]:
    """Messages with a role; the values as they are if these have none."""
    messages, rules, has_acted = list[Any](), list[Any](), False
    outputs = {str(part.get("tool_call_id", "")) for part in _parts(values) if part.get("content") == _IS_OUTPUT} - {""}
    for item in values:
        kind = item.get("message_type") if isinstance(item, Mapping) else None
        if kind == "observation" and has_acted and item.get("role") == "user":
            item = {**item, "role": "tool"}  # SWE-agent; before its first action, it is the task
        has_acted = has_acted or kind == "action"
        if isinstance(item, Mapping) and "kind" in item and item.get("instructions") not in (None, *rules):
            rules.append(item["instructions"])  # Pydantic AI repeats them in each request
            messages.append({"role": "system", "content": rules[-1]})
        messages += _as_messages(item, outputs)
    return values if None in messages else messages


def _parts(values: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of messages of Pydantic AI."""
    items = (item for item in values if isinstance(item, Mapping) and "kind" in item)
    return (part for item in items for part in item.get("parts") or () if isinstance(part, Mapping))


def _as_messages(item: Any, outputs: Collection[str]) -> Iterator[Any]:
    if not isinstance(item, Mapping) or "role" in item:
        yield item if isinstance(item, Mapping) else None
    elif item.get("kind") in ("request", "response") and isinstance(item.get("parts"), list):
        yield from _of_parts(item, outputs)
    else:
        yield _as_message(item)


def _as_message(item: Mapping[str, Any]) -> Mapping[str, Any] | None:
    kind, names = str(item.get("type")), item.get("id")
    if kind == "constructor" and isinstance(names, list) and isinstance(item.get("kwargs"), Mapping):  # LangChain
        kind, item = str(names[-1]), item["kwargs"]
    if _OF_SOURCE.fullmatch(kind) or (kind in _RESULTS and "content" in item):
        return _of_source(kind, item)
    kind = re.sub(r"Message(?:Chunk)?\Z", "", kind).lower()
    if kind in ROLES or (kind == "chat" and "role" in item):
        inner = next((item[name] for name in ("data", "message") if isinstance(item.get(name), Mapping)), item)
        noted = {"type": item.get("type"), "source": kind}
        rest = {name: value for name, value in inner.items() if name not in noted or noted[name] != value}
        return {"role": kind, **_with_calls(rest)} if "content" in inner else None
    return _of_item(kind, item) if _ITEM.fullmatch(kind) else None


def _of_source(kind: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of AutoGen, whose source is its speaker."""
    content = item.get("content")
    role = "tool" if kind in _RESULTS else str(item.get("source") or "assistant")
    if kind in _RESULTS and isinstance(content, list):
        content = [{**result, "type": "tool_result"} if isinstance(result, Mapping) else result for result in content]
    elif kind == "ThoughtEvent":
        content = [{"type": "reasoning", "text": content}]
    rest = {name: value for name, value in item.items() if name not in _OF_AUTOGEN}
    return _with_calls({**rest, "role": role, "content": content})


def _with_calls(message: dict[str, Any]) -> dict[str, Any]:
    """A message of AutoGen whose content is a list of calls, and its thought, in the fields of their own."""
    content = message.get("content")
    thought = {"reasoning": message.pop("thought")} if isinstance(message.get("thought"), str) else {}
    is_calls = isinstance(content, list) and all(
        isinstance(call, Mapping) and {"name", "arguments"} <= call.keys() and "type" not in call for call in content
    )
    return {**message, **thought, **({"content": "", "tool_calls": content} if is_calls and content else {})}


def _of_parts(item: Mapping[str, Any], outputs: Collection[str]) -> Iterator[Any]:
    """The messages of a request or a response of Pydantic AI; a call among `outputs` is what the agent answers."""
    blocks: list[dict[str, Any]] = []
    for fields in item["parts"]:
        kind = str(fields.get("part_kind")) if isinstance(fields, Mapping) else ""
        block_type = _PARTS.get(kind.removeprefix("builtin-"))
        if kind == "system-prompt":
            yield {"role": "system", "content": fields.get("content")}
        elif block_type and str(fields.get("tool_call_id")) in outputs:
            if item["kind"] == "response":
                output = fields.get("args")
                text = output if isinstance(output, str) else canonical_json(output).decode()
                blocks.append({"type": "text", "text": text})
        elif kind == "user-prompt" or (kind == "retry-prompt" and not fields.get("tool_name")):
            yield {"role": "user", "content": fields.get("content")}
        elif kind in ("tool-return", "retry-prompt"):
            result = {name: fields[name] for name in ("content", "tool_call_id", "tool_name") if name in fields}
            yield {"role": "tool", **result, **({"is_error": True} if kind == "retry-prompt" else {})}
        elif block_type and item["kind"] == "response":
            block = {name: fields[key] for key, name in _PART_FIELDS.items() if key in fields}
            text = "text" if kind in ("text", "thinking") else "content"
            blocks.append({"type": block_type, text: fields.get("content"), **block})
        else:
            yield None
    if blocks:
        yield {"role": "assistant", "content": blocks}


def _of_item(kind: str, item: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message of an item of OpenAI's Responses API."""
    block = {"id": item.get("call_id", item.get("callId", item.get("id")))}
    results = [item[name] for name in _OUTS if name in item] + ([""] if item.get("error") else [])
    error = item.get("error") or (item["status"] if item.get("status") in FAILED else None)
    if kind.endswith("output"):
        block |= {"type": "tool_result", "content": results[0] if results else "", "error": error}
    elif kind.endswith("call"):
        field = next((name for name in _INS if name in item), "")
        is_text = field != "arguments" and isinstance(item.get(field), str)  # code, or the input of a custom tool
        asked_for = {field: item[field]} if is_text else item.get(field, {})
        block |= {"type": "tool_call", "name": item.get("name", kind.removesuffix("_call")), "arguments": asked_for}
        block |= {"error": error, **({"result": results[0]} if results else {})}
    if len(block) == 1:  # approvals are the user's, and no question
        unknown = {name: value for name, value in item.items() if name not in ("id", "approval_request_id")}
        return {"role": "tool" if kind == "mcp_approval_response" else "assistant", "content": [unknown]}
    names = ("type", "id", "call_id", "callId", "name", "error", "status", *_INS, *_OUTS)
    return {"role": "assistant", "content": [block], **{name: item[name] for name in item if name not in names}}
