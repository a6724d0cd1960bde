"""Conversations of Anthropic's Messages API: objects with `messages`, and perhaps `system`, `tools` and the reply."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader

_SEALED = ("encrypted_content", "cache_control", "signature")
_OF_REPLY = ("role", "content", "system", "messages", "type")


def _item(row: Any) -> dict[str, Any]:
    listed = [*_messages({"role": "system", "content": row["system"]})] if row.get("system") else []
    for message in [*row["messages"], *([row] if "content" in row else [])]:  # the reply beside what was sent
        listed += _messages(message)
    return blocks.item(listed, **{name: value for name, value in row.items() if name not in _OF_REPLY})


def _messages(message: Any) -> Iterator[dict[str, Any]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, (str, list)):
        raise InputError(f"a message of Anthropic has a role and a content, got {message!r:.60}")
    parts = [blocks.text(content)] if isinstance(content, str) else _joined([*map(_block, content)])
    yield from blocks.messages(message["role"], parts)


def _joined(parts: list[Any]) -> list[Any]:
    """Texts that were cut where something is cited, in one piece."""
    joined: list[Any] = []
    for block in parts:
        last = joined[-1] if joined else {}
        if block.get("type") == last.get("type") == "text" and (block.get("cited") or last.get("cited")):
            joined[-1] = {"type": "text", "text": last["text"] + block["text"], "cited": True}
        else:
            joined.append(block)
    return [{name: value for name, value in block.items() if name != "cited"} for block in joined]


def _block(block: Any) -> Any:
    kind = block.get("type", "") if isinstance(block, Mapping) else ""
    return next((make for end, make in _BLOCKS.items() if kind.endswith(end)), _part)(block)


def _result(block: Mapping[str, Any]) -> Any:
    content = block.get("content", "")
    parts = [_part(inner) for inner in content] if isinstance(content, list) else content
    return blocks.result(parts, block.get("tool_use_id"), bool(block.get("is_error")))


def _part(block: Any) -> Any:
    """A part as it stays: a text, an image by its data or address, a document of texts, or what evalkit checks."""
    source = block.get("source") if isinstance(block, Mapping) else None
    if not isinstance(source, Mapping):
        return (
            {key: value for key, value in block.items() if key not in _SEALED} if isinstance(block, Mapping) else block
        )
    if block.get("type") == "document" and source.get("type") == "text":
        return blocks.text("\n".join(filter(None, (block.get("title"), block.get("context"), source.get("data")))))
    if block.get("type") == "image":
        data = f"data:{source.get('media_type', 'image/png')};base64,{source.get('data')}"
        return blocks.image(data if source.get("data") else source.get("url") or source.get("file_id"))
    return {"type": "input_file", **source}


_BLOCKS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "text": lambda block: blocks.text(block["text"]) | {"cited": bool(block.get("citations"))},
    "thinking": lambda block: blocks.thought(block.get("thinking")),  # that of redacted_thinking is not there
    "tool_use": lambda block: blocks.call(block.get("name"), block.get("input", {}), block.get("id")),
    "tool_result": _result,
}
"""How the type of a block ends, as in ``server_tool_use``, and what it becomes."""

READER = Reader("anthropic", TRACES, blocks.of_each(_item, "a conversation of Anthropic", "messages"))
