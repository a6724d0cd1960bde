"""Spans of OpenInference (Phoenix and others), one item per trace: https://github.com/Arize-ai/openinference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader
from evalkit.readers.spans import History, agents_of, merged, parsed, spans_by_trace, with_messages

_ADVICE = "its LLM spans need llm.input_messages; switch off OPENINFERENCE_HIDE_INPUTS and …_HIDE_OUTPUTS"


def _read(rows: Any) -> list[Any]:
    items = []
    for trace, spans in spans_by_trace(rows).items():
        nested = [_nested(span.attributes) for span in spans]
        sessions = [of_span["session"]["id"] for of_span in nested if "id" in (of_span.get("session") or {})]
        of_models = [of_span.get("llm") or {} for of_span in nested]
        names = [llm["model_name"] for llm in of_models if "model_name" in llm]
        columns = {"group_id": sessions[0] if sessions else None, "system_id": names[0] if names else None}
        histories = zip(agents_of(spans), map(_history, of_models), strict=True)
        items.append(blocks.item(merged(histories), item_id=trace, **columns))
    return with_messages(items, _ADVICE)


def _nested(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by the parts of their names; numbers in them are places of lists."""
    nested: dict[str, Any] = {}
    for name, value in attributes.items():
        inner, steps = nested, str(name).split(".")
        for step in steps[:-1]:
            inner = inner.setdefault(step, {}) if isinstance(inner.get(step, {}), dict) else {}
        inner[steps[-1]] = value
    return nested


def _listed(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [value[key] for key in sorted(value, key=int)]
    return value or []


def _history(llm: Mapping[str, Any]) -> History:
    for name in ("input_messages", "output_messages"):
        for entry in _listed(llm.get(name)):
            yield from ((piece, name == "output_messages") for piece in _messages(entry))


def _messages(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    message = _nested(entry.get("message", entry))
    parts = [_part(_nested(block.get("message_content", block))) for block in _listed(message.get("contents"))]
    parts = parts or ([blocks.text(message["content"])] if message.get("content") else [])
    if message.get("role") == "tool" or "tool_call_id" in message:
        content = message.get("content", parts)
        yield blocks.result(content, message.get("tool_call_id"), name=message.get("name"))
        return
    yield from blocks.messages(message["role"], [*parts, *map(_call, _listed(message.get("tool_calls")))])


def _call(entry: Mapping[str, Any]) -> dict[str, Any]:
    call = _nested(entry.get("tool_call", entry))
    function = _nested(call.get("function") or {})
    return blocks.call(function.get("name"), function.get("arguments", {}), call.get("id"))


def _part(block: Mapping[str, Any]) -> Any:
    if block.get("type") == "text":
        return blocks.text(block.get("text"))
    if block.get("type") == "image":
        return blocks.image(parsed(block["image"])["image"]["url"])
    return block


READER = Reader("openinference", TRACES, _read)
