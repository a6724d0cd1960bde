"""Conversations of Anthropic's Messages API: objects with `messages`, and perhaps `system`, `tools` and the reply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader

_SEALED = ("encrypted_content", "cache_control", "signature")
_OF_REPLY = ("role", "content", "system", "messages", "type")


def _read(rows: Any) -> list[Any]:
    return [_item(row) for row in rows]


def _item(row: Any) -> dict[str, Any]:
    if not isinstance(row, Mapping) or not isinstance(row.get("messages"), list):
        raise InputError("a conversation of Anthropic is an object with the list messages")
    listed = [*_messages({"role": "system", "content": row["system"]})] if row.get("system") else []
    for message in [*row["messages"], *([row] if "content" in row else [])]:  # the reply beside what was sent
        listed += _messages(message)
    return blocks.item(listed, **{name: value for name, value in row.items() if name not in _OF_REPLY})


def _messages(message: Any) -> Iterator[dict[str, Any]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(content, (str, list)):
        raise InputError(f"a message of Anthropic has a role and a content, got {message!r:.60}")
    if isinstance(content, str):
        yield {"role": message["role"], "content": content}
    else:
        yield from blocks.messages(message["role"], _joined([piece for block in content for piece in _blocks(block)]))


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


def _blocks(block: Any) -> Iterator[dict[str, Any]]:
    kind = block.get("type", "") if isinstance(block, Mapping) else ""
    if kind == "text":
        yield blocks.text(block["text"]) | {"cited": bool(block.get("citations"))}
    elif kind == "thinking":
        yield blocks.thought(block.get("thinking"))
    elif kind == "redacted_thinking":
        yield blocks.thought("")
    elif kind.endswith("tool_use"):
        yield blocks.call(block.get("name"), block.get("input", {}), block.get("id"))
    elif kind.endswith("tool_result"):
        content = block.get("content", "")
        listed = [_part(inner) for inner in content] if isinstance(content, list) else content
        yield blocks.result(listed, block.get("tool_use_id"), bool(block.get("is_error")))
    else:
        yield _part(block)


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


READER = Reader("anthropic", TRACES, _read)
