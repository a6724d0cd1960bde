"""Conversations of OpenAI's Responses API and Agents SDK: objects with `input` and `output`, or their items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader

_FAILED = ("error", "failed", "incomplete")
_INS = ("arguments", "input", "action", "code", "queries", "operation")
_OUTS = ("output", "outputs", "results", "result")
_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def _read(rows: Any) -> list[Any]:
    if rows and all(isinstance(row, Mapping) and ("type" in row or "role" in row) for row in rows):
        rows = [{"input": rows}]  # the items of one conversation
    return [_item(row) for row in rows]


def _item(row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not {"input", "output"} & row.keys():
        raise InputError("a conversation of the Responses API is an object with input and output, or a list of items")
    inputs, outputs = row.get("input") or [], row.get("output") or []
    entries = [{"role": "user", "content": inputs}] if isinstance(inputs, str) else [*inputs]
    rules = [{"role": "system", "content": row["instructions"]}] if row.get("instructions") else []
    entries += [{"role": "assistant", "content": outputs}] if isinstance(outputs, str) else outputs
    listed = [message for entry in (*rules, *entries) for message in _messages(entry)]
    rest = {name: value for name, value in row.items() if name not in ("input", "output", "instructions")}
    return blocks.item(listed, **rest)


def _messages(entry: Any) -> Iterator[dict[str, Any]]:
    if not isinstance(entry, Mapping):
        raise InputError(f"an item of the Responses API is an object, got {entry!r:.60}")
    kind = entry.get("type", "message")
    if kind == "message" and "role" in entry:
        content = entry.get("content")
        parts = content if isinstance(content, list) else [blocks.text(content)]
        yield from blocks.messages(entry["role"], [_part(block) for block in parts])
    elif kind == "reasoning":
        pieces = [*(entry.get("summary") or []), *(entry.get("content") or [])]
        yield from blocks.messages("assistant", [blocks.thought("\n".join(piece.get("text", "") for piece in pieces))])
    elif kind.endswith(("call", "call_output", "_request", "_response", "_list_tools")):
        yield from blocks.messages("assistant", _acts(kind, entry))
    else:
        raise InputError(f"unknown type {kind!r} of an item of the Responses API")


def _part(block: Any) -> Any:
    return blocks.text(block.get("text")) if isinstance(block, Mapping) and block.get("type") in _TEXTS else block


def _acts(kind: str, entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A call, with its result where the service ran it; or a result."""
    key = entry.get("call_id", entry.get("approval_request_id", entry.get("id")))
    error = entry.get("error") or entry.get("status") in _FAILED
    outs = [entry[name] for name in _OUTS if entry.get(name) is not None]
    if kind == "mcp_approval_response":
        outs = [{name: entry[name] for name in ("approve", "reason") if name in entry}]
    if kind.endswith("call"):
        field = next((name for name in _INS if name in entry), "")
        is_text = field != "arguments" and isinstance(entry.get(field), str)  # code, or the input of a custom tool
        arguments = {field: entry[field]} if is_text else entry.get(field, {})
        yield blocks.call(
            entry.get("name", kind.removesuffix("_call")),
            arguments,
            key,
            None if outs or not error else entry.get("error", entry.get("status")),
        )
    elif kind.endswith(("_request", "_list_tools")):
        yield blocks.call(kind, entry.get("arguments", {}) if "name" not in entry else {entry["name"]: entry.get(
            "arguments")}, key)  # fmt: skip
    if outs or kind.endswith(("output", "_response")):
        content = outs[0] if outs else ""
        inner = [_part(block) for block in content] if isinstance(content, list) else content
        yield blocks.result(inner, key, error)


READER = Reader("openai_responses", TRACES, _read)
