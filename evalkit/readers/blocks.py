"""Blocks of a message (texts, thoughts, calls, results, files) as messages in evalkit's form, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from evalkit.errors import InputError

Message = dict[str, Any]


def of_each(make: Callable[[Any], Message], what: str, field: str) -> Callable[[Any], list[Any]]:
    """A function that makes an item of each record; InputError for one without the list `field`."""

    def read(rows: Any) -> list[Any]:
        if not all(isinstance(row, Mapping) and isinstance(row.get(field), list) for row in rows):
            raise InputError(f"{what} is an object with the list {field}")
        return [make(row) for row in rows]

    return read


def text(value: Any) -> Message:
    """A part that is a text."""
    return {"type": "text", "text": value or ""}


def thought(value: Any) -> Message:
    """A part that is reasoning."""
    return {"type": "reasoning", "text": value or ""}


def image(address: Any) -> Message:
    """A part that is an image at an address, or its ``data:`` URL."""
    return {"type": "image_url", "image_url": {"url": address}}


def call(name: Any, arguments: Any, key: Any = None, error: Any = None) -> Message:
    """A call of a tool."""
    fields: Message = {"id": key, "type": "function", "function": {"name": str(name or ""), "arguments": arguments}}
    return fields | ({"error": str(error)} if error else {})


def result(content: Any, key: Any = None, error: Any = None, name: Any = None) -> Message:
    """The result of a call."""
    fields = {"tool_call_id": key, "error": error, "name": name}
    return {"role": "tool", "content": content} | {field: value for field, value in fields.items() if value}


def messages(role: str, blocks: Iterable[Message]) -> Iterator[Message]:
    """The messages that blocks of one message stand for: what follows a call is a message of its own."""
    parts, calls = list[Message](), list[Message]()
    for block in (*blocks, None):
        is_call = block is not None and "function" in block
        if block is None or block.get("role") == "tool" or (calls and not is_call):
            if parts or calls:
                yield _message(role, parts, calls)
            parts, calls = [], []
        if block is not None:
            if block.get("role") == "tool":
                yield block
            else:
                (calls if is_call else parts).append(block)


def _message(role: str, parts: list[Message], calls: list[Message]) -> Message:
    content: Any = parts
    if all(block["type"] == "text" for block in parts):
        content = "\n".join(block["text"] for block in parts if block["text"] or len(parts) == 1)
    return {"role": role, "content": content} | ({"tool_calls": calls} if calls else {})


def item(messages: Iterable[Message], **columns: Any) -> dict[str, Any]:
    """A trace in evalkit's form: its messages, its task (what the user said first), and further columns."""
    listed = [*messages]
    task = next((message["content"] for message in listed if message["role"] == "user"), None)
    if isinstance(task, list):
        task = "\n".join(block["text"] for block in task if block.get("text")) or None
    values = {name: value for name, value in columns.items() if value not in (None, "", [], {})}
    return {"task": task} | values | {"messages": listed}
