"""Trajectories in ATIF, which agents' harnesses write or convert to: https://harborframework.com/docs/trajectory-format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader

_ROLES = {"agent": "assistant", "user": "user", "system": "system"}


def _item(row: Any) -> dict[str, Any]:
    agent = row.get("agent") or {}
    columns = {"item_id": row.get("trajectory_id") or row.get("session_id"), "system_id": agent.get("name")}
    listed = [message for step in row["steps"] for message in _messages(step)]
    return blocks.item(listed, **columns, tools=agent.get("tool_definitions"))


def _messages(step: Any) -> Iterator[dict[str, Any]]:
    source = step.get("source") if isinstance(step, Mapping) else None
    if source not in _ROLES:
        raise InputError(f"a step of ATIF has a source of {', '.join(_ROLES)}, got {source!r}")
    thought = step.get("reasoning_content")
    content = _content(step.get("message"))
    parts = content if isinstance(content, list) else [blocks.text(content)] if content else []
    calls = [
        blocks.call(call.get("function_name"), call.get("arguments", {}), call.get("tool_call_id"))
        for call in step.get("tool_calls") or ()
    ]
    yield from blocks.messages(_ROLES[source], [*([blocks.thought(thought)] if thought else []), *parts, *calls])
    for entry in (step.get("observation") or {}).get("results", ()):
        yield blocks.result(_content(entry.get("content")), entry.get("source_call_id"))


def _content(content: Any) -> Any:
    """A text, or parts, whose images have a path."""
    if not isinstance(content, list):
        return content or ""
    return [blocks.image(block["source"]["path"]) if block.get("type") == "image" else block for block in content]


READER = Reader("atif", TRACES, blocks.of_each(_item, "a trajectory of ATIF", "steps"))
