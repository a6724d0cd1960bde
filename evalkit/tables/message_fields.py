"""What the fields of a message hold, by their names, whoever wrote them: words, files, or notes that no judge may see."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")
_FILES = re.compile(
    r"(?:experimental_|input_|inline_|user_|uploaded_|attached_|generated_|output_)?"
    r"(?:(?P<image>image|img|photo|picture|screenshot)|(?P<audio>audio|voice_(?:message|note)|recording)|(?P<video>video)"
    r"|(?P<file>file|attachment|media|document|doc|upload|pdf|blob))s?(?:_(?:url|uri|id|data|base64|b64|ref|file|list))?s?"
    r"|(?P<path>image|audio|video)_paths?"
)
# who answered; what the program noted about it; what people or judges thought of it
_NOTES = re.compile(
    r"models?|model_\w+|(?:base|chat|language|ai|llm|completion|default|generator)_model(?:_\w+)?|llm\w*|engine|endpoint"
    r"|deployment\w*|provider\w*|generator|(?:generated|answered|written)_by|system_fingerprint|service_tier"
    r"|response_metadata|(?:\w+_)?usage(?:_\w+)?|(?:\w+_)?tokens?(?:_count\w*)?|(?:\w+_)?(?:latency|duration|costs?)(?:_\w+)?"
    r"|id|uuid|(?:\w+_)?(?:message|msg|parent|run|trace|span|thread|session|conversation|chat|request|response|turn|step"
    r"|generation|completion|item|observation|user)_(?:uu)?id|children\w*|object|index|done|example|weight|trainable|lc_\w+"
    r"|(?:finish|stop)_reason|stop_sequence|logprobs|cache_control|(?:\w+_)?timestamps?|date|datetime|time"
    r"|(?:create|update|sent|start|end|complete|finish)(?:e?d)?(?:_(?:at|time|date|on))|created|updated"
    r"|(?:\w+_)?(?:feedbacks?|scores?|ratings?|rated|verdicts?|rewards?|grades?|graded|thumbs?|upvote[sd]?|downvote[sd]?"
    r"|votes?|annotators?|assessments?|evaluations?|evals?|judge?ments?|dislike[sd]?|stars|csat|nps|reactions?|emojis"
    r"|correctness)(?:_\w+)?|(?:\w+_)?labels?|(?:is_)?(?:liked|correct|incorrect|accepted|rejected|preferred|chosen"
    r"|approved|helpful|flagged|passed)|rank|preference|review_(?:result|count)|annotation|human_\w+"
)
_ENDINGS = re.compile(
    r"(?P<image>\bimage/|\.(?:png|jpe?g|gif|webp|bmp|tiff?|heic|avif)\b)|(?P<audio>\baudio/|\.(?:mp3|wav|ogg|flac|m4a)\b)"
    r"|(?P<video>\bvideo/|\.(?:mp4|mov|webm|avi)\b)", re.IGNORECASE)  # fmt: skip
_ABOUT = {"metadata", "meta", "extra", "extras", "extra_info", "info", "attributes", "custom", "annotations_by"}
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_WORDS = ("text", "content", "snippet", "page_content", "transcript", "excerpt")
_NO_NEWS: dict[str, Sequence[str]] = {"status": ("success", "completed", "in_progress", "done", "finished")}
_ROLES = {"AIMessageChunk": "ai", **{role: role for role in ("ai", "human", "system", "tool", "user", "assistant")}}
_NO_NEWS["type"] = ("message", "chat", *_ROLES)
_ITEM = re.compile(r"(?:\w+_)?call(?:_output)?|reasoning|mcp_\w+|item_reference|compaction|tool_search_output")
_ASKED_OF_TOOL = ("arguments", "input", "action", "code", "queries", "operation")
_GIVEN_BY_TOOL = ("output", "outputs", "results", "result")


def _plain_name(name: str) -> str:
    return _HUMP.sub("_", name).lower().strip("_")


def fields_beside(message: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message beside its role and content, without notes about it and without empty ones."""
    inner = message.get("additional_kwargs")
    fields = [*(inner.items() if isinstance(inner, Mapping) else ()), *message.items()]
    kept: dict[str, Any] = {}
    for name, given in fields:
        plain = _plain_name(name)
        if name in ("role", "content", "additional_kwargs") or (_NOTES.fullmatch(plain) and not _FILES.fullmatch(plain)):
            continue
        value = fields_beside(given) if plain in _ABOUT and isinstance(given, Mapping) else given
        if value not in _EMPTY and str(value) not in _NO_NEWS.get(name, ()):
            kept[name] = value
    return kept


def kind_of_files(name: str, value: Any) -> str | None:
    """``image``, ``audio``, ``video`` or ``file`` if a field holds such things by its name; None if it holds words."""
    match = _FILES.fullmatch(_plain_name(name))
    if match is None or isinstance(value, bool) or value in _EMPTY:
        return None
    is_document = "doc" in match[0]
    if all(_is_words(one, is_document) for one in (value if isinstance(value, list) else [value])):
        return None
    kind = match["path"] or next(kind for kind, text in match.groupdict().items() if text)
    ending = _ENDINGS.search(str(value)) if kind == "file" else None
    return ending.lastgroup if ending else kind


def _is_words(value: Any, is_document: bool) -> bool:
    if isinstance(value, Mapping):
        return any(isinstance(value.get(name), str) and len(value[name].split()) > 1 for name in _WORDS)
    return is_document and isinstance(value, str) and len(value.split()) > 3


def as_messages(values: Sequence[Any]) -> Sequence[Any]:
    """Messages with a role and a content, of what OpenAI's Responses API, LangChain and UIs keep instead."""
    if not all(isinstance(one, Mapping) and (isinstance(one.get("role"), str) or _stands_for(one)) for one in values):
        return values
    return [one if isinstance(one.get("role"), str) else _as_message(one) for one in values]


def _stands_for(item: Mapping[str, Any]) -> bool:
    kind = item.get("type")
    if not isinstance(kind, str):
        return False
    return ("content" in item or "data" in item or "message" in item) if kind in _ROLES else bool(_ITEM.fullmatch(kind))


def _as_message(item: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = str(item["type"])
    if kind in _ROLES:
        inner = next((item[name] for name in ("data", "message") if isinstance(item.get(name), Mapping)), item)
        return {**inner, "role": inner.get("role", _ROLES[kind])}
    fields = {**item, "id": item.get("call_id", item.get("callId", item.get("id")))}
    result = {"result": fields.pop(name) for name in _GIVEN_BY_TOOL if name in fields}
    if kind.endswith("output"):
        return {"role": "assistant", "content": [{"type": "tool_result", "id": fields["id"], "content": result.get("result")}]}
    if kind.endswith("call"):
        told = next((fields[name] for name in _ASKED_OF_TOOL if name in fields), {})
        call = {"type": "tool_call", "id": fields["id"], "name": item.get("name", kind.removesuffix("_call"))}
        error = {"error": item["error"]} if item.get("error") else {}
        return {"role": "assistant", "content": [call | {"arguments": told} | (result or error and {"result": ""}) | error]}
    return {"role": "assistant", "content": [item]}
