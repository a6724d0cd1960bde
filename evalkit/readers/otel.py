"""GenAI spans of OpenTelemetry, one item per trace: https://opentelemetry.io/docs/specs/semconv/gen-ai/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from evalkit.errors import InputError
from evalkit.readers import blocks
from evalkit.readers.records import TRACES, Reader
from evalkit.readers.spans import History, Span, agents_of, merged, parsed, spans_by_trace, with_messages

_ADVICE = "switch on the capture of messages: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=span_only"
_OF_FILES = {"image": "image", "audio": "audio", "video": "video"}


def _read(rows: Any) -> list[Any]:
    return with_messages([_item(trace, spans) for trace, spans in spans_by_trace(rows).items()], _ADVICE)


def _item(trace: str, spans: list[Span]) -> dict[str, Any]:
    first: dict[str, Any] = {}
    for span in reversed(spans):
        first |= span.attributes
    columns = {"group_id": first.get("gen_ai.conversation.id"), "system_id": first.get("gen_ai.request.model")}
    tools = parsed(first.get("gen_ai.tool.definitions"))
    histories = zip(agents_of(spans), (_history(span.attributes) for span in spans), strict=True)
    return blocks.item(merged(histories), item_id=trace, **columns, tools=tools)


def _history(attributes: Mapping[str, Any]) -> History:
    if rules := parsed(attributes.get("gen_ai.system_instructions")):
        yield from ((message, False) for message in _messages({"role": "system", "parts": rules}))
    for end in ("input", "output"):
        for message in parsed(attributes.get(f"gen_ai.{end}.messages")) or ():
            yield from ((piece, end == "output") for piece in _messages(message))
    if "gen_ai.tool.call.result" in attributes and attributes.get("gen_ai.tool.call.id"):
        content, name = parsed(attributes["gen_ai.tool.call.result"]), attributes.get("gen_ai.tool.name")
        yield blocks.result(content, attributes["gen_ai.tool.call.id"], attributes.get("error.type"), name), False


def _messages(message: Any) -> Iterator[dict[str, Any]]:
    parts = message.get("parts") if isinstance(message, Mapping) else None
    if not isinstance(parts, list) or "role" not in message:
        raise InputError(f"a message of OpenTelemetry has a role and parts, got {message!r:.60}")
    yield from blocks.messages(message["role"], [_block(block) for block in parts])


def _block(block: Any) -> Any:
    make = _BLOCKS.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    return block if make is None else make(block)


def _call(block: Mapping[str, Any]) -> Any:
    return blocks.call(block.get("name"), block.get("arguments", block.get("server_tool_call", {})), block.get("id"))


def _response(block: Mapping[str, Any]) -> Any:
    content = block.get("response", block.get("result", block.get("server_tool_call_response", "")))
    return blocks.result(content, block.get("id"), block.get("error"))


def _file(block: Mapping[str, Any]) -> Any:
    about = {name: value for name, value in block.items() if name not in ("type", "modality")}
    return {"type": _OF_FILES.get(str(block.get("modality")), "input_file"), "file": about}


_BLOCKS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "text": lambda block: blocks.text(block.get("content")),
    "reasoning": lambda block: blocks.thought(block.get("content")),
    "tool_call": _call, "server_tool_call": _call, "tool_call_response": _response,
    "server_tool_call_response": _response, "blob": _file, "uri": _file, "file": _file,
}  # fmt: skip

READER = Reader("otel", TRACES, _read)
