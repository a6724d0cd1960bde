"""Messages as OpenAI, Anthropic, Bedrock, the AI SDK, tau-bench and Inspect write them, in one form: that is hashed.

A message has a `role` and a `content`: a text, or a list of parts (`text`, `reasoning`, `image` …). An assistant's
calls are its `tool_calls` (`id`, `name`, `arguments`); a result has the `tool_call_id` of its call. Calls are numbered
in their order, since ids are drawn at random. Other fields stay as they came.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import orjson

from evalkit.errors import InputError
from evalkit.tables.items import canonical
from evalkit.tables.message_fields import fields_beside, kind_at, kind_of_files
from evalkit.tables.typed_messages import FAILED, as_messages

Message = dict[str, Any]

_SPEAKERS = {"assistant", "ai", "model"}
USERS = {"user", "human", "customer", "client", "prompter"}
_OTHERS = {*USERS, "system", "developer", "tool", "function"}
_RESULT_ROLES = ("tool", "function")
_ONLY_TEXTS = {str}
_ACTS = {"tool_calls", "function_call", "tool_call_id", "refusal", "audio", "reasoning_content", "parts", "blocks"}
_BARE = {"role", "name", "id", "model", "source"}
_TEXTS = {"text", "input_text", "output_text", "summary_text", "reasoning_text"}
_CALLS = {"tool_use", "server_tool_use", "mcp_tool_use", "tool_call", "server_tool_call", "function_call"}
_CALLED = {*_CALLS, "function", "custom", ""}
_RESULTS = {"tool_call_response", "server_tool_call_response", "function_call_output"}
_NAMED = {"id", "name", "tool_use_id", "call_id"}
_CONTENTS = ("content", "output", "response", "result", "server_tool_call_response")
# of result blocks: what is read of them, what repeats the call, and what a program noted
_RESULT_FIELDS = {
    "type", "tool_use_id", "call_id", "name", "status", "error", "is_error", "origin", "arguments", "args", "input",
    "caller", "dynamic", "preliminary", "providerExecuted", "providerMetadata", "providerOptions", "cache_control",
}  # fmt: skip
_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image", "image_data", "image_file", "image_embeds"), "image"),
    **dict.fromkeys(("audio", "input_audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "input_video", "video_url"), "video"),
    **dict.fromkeys(("document", "file", "input_file", "document_url", "file_url", "file_data", "file_id"), "file"),
    **dict.fromkeys(("container_upload", "uri", "blob"), "file"),
    "computer_screenshot": "image",
}
_SOURCES = ("source", "data", "url", "image_url", "file_id", "file_data", "file_url", "image", "file")
_DATA_FIELDS = ("data", "bytes", "blob", "base64", "base64_image")
_ADDRESSES = ("uri", "url", "fileUri", "file_uri", "file_id")
_MEDIA_TYPES = ("media_type", "mime_type", "mimeType", "mediaType", "contentType", "content_type", "image_mimetype")
_MEDIA_TYPE = re.compile(
    r"(?:application|audio|chemical|font|haptics|image|message|model|multipart|text|video|x-\w+)/[\w.+-]+\s*(?:;|$)"
    r"|(?:image|audio|video|png|jpe?g|gif|webp|pdf|wav|mp[34])$", re.IGNORECASE)  # fmt: skip
_TEXT_TYPE = re.compile(r"text/|application/(?:[\w.+-]*(?:json|xml|yaml|javascript)|x-www-form)")
_BLOCKS = ("parts", "content_blocks", "blocks")
_REPEATS = ("thought", "action", "text", "message", "response", "output", "raw")
_MEDIA_BLOCKS = ("image", "audio", "video", "document")
# parts without a type, by the name of their one field: Bedrock, Gemini, Haystack
_WRAPPED = {
    "toolUse": "tool_use", "toolResult": "tool_result", "tool_call": "tool_call", "tool_call_result": "tool_result",
    "toolInvocation": "tool_call", **dict.fromkeys(("functionCall", "function_call"), "function_call"),
    **dict.fromkeys(("functionResponse", "function_response"), "tool_result"),
    **dict.fromkeys(("reasoningContent", "reasoningText", "reasoning"), "reasoning"),
    **dict.fromkeys(("inlineData", "inline_data", "fileData", "file_data"), "file"),
    **{name: name for name in _MEDIA_BLOCKS},
}  # fmt: skip
_BESIDE = {"thought", "thoughtSignature", "thought_signature", "videoMetadata", "video_metadata"}
_RENAMED = {
    **dict.fromkeys(("toolUseId", "toolCallId", "tool_call_id"), "id"),
    **dict.fromkeys(("toolName", "tool_name"), "name"),
    "tool_kwargs": "arguments",
    "isError": "is_error",
}
_CALL_FIELDS = ("tool_calls", "invalid_tool_calls", "function_call")
_THINKING = ("thinking", "reasoning", "redacted_thinking")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
_SEALED = {"signature", "encrypted_content", "encrypted_stdout", "internal", "cache_control"}
_DATA = re.compile(r"data:([\w.+-]+\\?/[\w.+-]+)(?:;[\w.=+-]+)*;base64,((?:[\w+/=%-]|\\/){32,})", re.ASCII)
# how base64 of files starts, which may stand in the JSON text of a tool's result, perhaps with its escapes
_MAGIC = {
    "image": r"iVBORw0KGgo|@9j@|R0lGOD|SUkqA|TU0AK|Qk[\w+/]{6}AAAA|AAAA..Z0eXB(?:hdmlm|oZWlj|taWYx)|UklG[\w+/]{7}XRUJQ",
    "audio": r"SUQz|(?<!:)@@(?:uQ|uS|sQ|tQ|NE|OE|Pk|Ms)|T2dnUw|ZkxhQ|UklG[\w+/]{7}XQVZF|AAAA[\w+/]{2}Z0eXBNNE",
    "video": r"AAAA[\w+/]{2}Z0eXB|GkXfo|UklG[\w+/]{7}BVkkg",
    "file": r"JVBERi0|UEsDB|UEsFB|0M8R4KGx|H4sIA|N3q8ry|UmFyIR|e1xydG|U1FMaXRl|UEFSMR",
}
_LANGFUSE = re.compile(r"@@@langfuseMedia:type=([^|@]*)\|([^@]*)@@@")
_ESCAPED = r"(?:\\/|\\u00(?:2[bBfF]|3[dD])|%2[bBfF])"
_RUN, _END = rf"[\w+/-]*(?:{_ESCAPED}[\w+/-]*)*", r"(?:\s|\\[rn])"
_LONG = rf"(?=(?:[\w+/-]|{_ESCAPED}){{45}})"
_FILE = re.compile(
    r"(?:(?<![\w+/-])|(?<=\\[nrt]))(?:"
    + "|".join(f"(?P<{kind}>{starts})" for kind, starts in _MAGIC.items()).replace("@", r"(?:\\?/|\\u002[fF])")
    + rf"){_LONG}{_RUN}(?:{_END}{{1,4}}{_LONG}{_RUN})*(?:{_END}{{0,4}}[\w+/-]*={{1,2}})?", re.ASCII)  # fmt: skip
_STARTS = (
    "base64,", "@@@langfuseMedia:", "iVBORw0KGgo", "/9j", "R0lGOD", "UklG", "SUkqA", "TU0AK", "AAAA", "SUQz", "/uQ",
    "/uS", "/sQ", "/tQ", "/NE", "/OE", "/Pk", "/Ms", "T2dnUw", "ZkxhQ", "GkXfo", "JVBERi0", "UEsDB", "UEsFB",
    "0M8R4KGx", "H4sIA", "N3q8ry", "UmFyIR", "e1xydG", "U1FMaXRl", "UEFSMR", "u002")  # fmt: skip
_NO_ADDRESS = ("type", "detail", "source_type", "modality", "kind", "block_type")
_SHORTEST, _SHORTEST_WORD = 48, 40  # characters of the shortest text that may hold one, and of its longest word
_MAYBE_LONG = re.compile(rf" [^ ]{{{_SHORTEST_WORD}}}")  # finds any such word, five times as fast as a split
_MEDIA = {"image": "image", "audio": "audio", "video": "video", "application/pdf": "file"}
_BASE64 = re.compile(r"[\w+/-]{64,}={0,2}", re.ASCII)
# cells of a column of images or recordings: of `datasets`, of its viewer, and what stands for them in a CSV file
_CELLS = ({"bytes", "path"}, {"path"}, {"bytes"}, {"array", "path", "sampling_rate"}, {"src", "height", "width"})
_WRITTEN = re.compile(
    r"\[?<PIL\.[\w.]+ image mode=[\w;]+ size=\d+x\d+ at 0x[0-9A-Fa-f]+>\]?"
    r"|\{'bytes': (?:None|b['\"].*), 'path': .*\}", re.DOTALL)  # fmt: skip


def shown_value(value: Any, depth: int = 0) -> Any:
    """A canonical value as it is hashed and shown: conversations in one form, and marks in place of images and files.

    A value without any of these is returned as it is; what is nested more than 99 deep becomes a JSON text.
    """
    if depth > 99 and isinstance(value, (list, Mapping)):
        value = json.dumps(value, ensure_ascii=False)  # orjson would refuse it
    if isinstance(value, str):
        return value if is_plain_text(value) else _cut_data(value)
    if isinstance(value, list):
        if is_plain(value):
            return value
        if (messages := read_messages(value)) is not None:
            return messages
        shown = [shown_value(element, depth + 1) for element in value]
        return value if all(one is other for one, other in zip(shown, value, strict=True)) else shown
    if isinstance(value, Mapping):
        if (part := _unseen_part(value)) is not None:
            return part
        fields = {name: shown_value(field, depth + 1) for name, field in value.items()}
        return value if all(fields[name] is value[name] for name in fields) else fields
    return value


def media_of_cell(value: Any) -> dict[str, str] | None:
    """The mark of a cell that is an image or a recording and no text, as `datasets` or pandas write it; else None."""
    if isinstance(value, str):
        is_written = value.startswith(("<PIL.", "[<PIL.", "{'bytes': ")) and _WRITTEN.fullmatch(value)
        return {"type": kind_at(value) or "image", "unseen": value[:60]} if is_written else None
    if not isinstance(value, Mapping) or value.keys() not in _CELLS:
        return None
    kind = "audio" if "array" in value else "image" if "src" in value else kind_at(str(value.get("path")))
    about = str(value.get("path") or value.get("src") or "its bytes")
    return {"type": kind or "file", "unseen": about[:300]} if kind or isinstance(value.get("bytes"), str) else None


def is_plain_text(text: str) -> bool:
    """Whether a text holds no image or file."""
    if len(text) < _SHORTEST or _MAYBE_LONG.search(" " + text) is None:
        return True
    return max(map(len, text.split()), default=0) < _SHORTEST_WORD or not any(start in text for start in _STARTS)


def is_plain(values: list[Any]) -> bool:
    """Whether a list holds only texts, or messages of a role and a text: most do, and are not looked at again."""
    for one in values:
        text: Any = one
        if type(one) is dict:
            role, text = one.get("role"), one.get("content")
            if len(one) != 2 or type(role) is not str or role in _RESULT_ROLES:
                return False
        if type(text) is not str or (len(text) >= _SHORTEST and not is_plain_text(text)):
            return False
    return True


def unseen(value: Any) -> str | None:
    """What a judge cannot be shown in a value of `shown_value`: ``image``, ``audio``, ``video``, ``file``, or None."""
    if isinstance(value, dict):
        if is_unseen(value):
            return str(value["type"])
        value = value.values()
    elif not isinstance(value, list) or {*map(type, value)} == _ONLY_TEXTS:
        return None
    for element in value:
        if isinstance(element, (dict, list)) and (found := unseen(element)) is not None:
            return found
    return None


def is_unseen(part: Any) -> bool:
    """Whether a part is the mark of an image or a file."""
    if not isinstance(part, dict) or len(part) != 2 or "unseen" not in part:
        return False
    return isinstance(part["unseen"], str) and isinstance(part.get("type"), str) and is_plain_text(part["unseen"])


def read_messages(values: Sequence[Any]) -> list[Message] | None:
    """Messages in the one form; None if these are no messages."""
    values = as_messages([one for one in values if one is not None])
    if not _are_messages(values):
        return None
    reader = _Reader()
    messages = [message for one in values for message in reader.read(one)]
    reader.number_early_results()
    return messages


def is_result(message: Message) -> bool:
    """Whether a message is the result of a call."""
    return "tool_call_id" in message or message["role"].lower() in _RESULT_ROLES


def is_other(role: str) -> bool:
    """Whether a role is one of a user, a system or a tool."""
    return role.lower() in _OTHERS


def speakers(messages: Sequence[Message]) -> set[str]:
    """The roles that answer: the assistant, or else whoever is no user, system or tool, as agents with a name."""
    roles = {message["role"] for message in messages}
    answering = {role for role in roles if role.lower() in _SPEAKERS}
    return answering or {role for role in roles if not is_other(role)}


def said(content: Any) -> Any:
    """A content without its reasoning: a text, or a list if more than texts stands in it."""
    if not isinstance(content, list):
        return content
    parts = [part for part in content if not (isinstance(part, Mapping) and part.get("type") == "reasoning")]
    texts = [text_of(part) for part in parts]
    return "\n".join(map(str, texts)) if None not in texts else parts


def text_of(part: Any) -> str | None:
    """The text of a part; None if it is no text."""
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping) or ("type" in part and _kind(part) not in _TEXTS):
        return None
    if "type" in part and len(part) == 1:  # its text is null
        return ""
    return part["text"] if isinstance(part.get("text"), str) else None


def _are_messages(values: Sequence[Any]) -> bool:
    if not values or not all(isinstance(one, Mapping) and isinstance(one.get("role"), str) for one in values):
        return False
    said_or_done = [bool("content" in one or _ACTS & one.keys()) for one in values]
    bare = [one.keys() <= _BARE for one in values]
    known = [one["role"].lower() in _SPEAKERS | _OTHERS for one in values]
    # contents that are null are not in the mapping
    return all(map(max, said_or_done, bare, known)) if any(said_or_done) else all(map(min, bare, known))


class _Reader:
    """Reads the messages of one conversation, and numbers their calls."""

    def __init__(self) -> None:
        self._numbers: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._open: dict[str, str] = {}  # call without a result yet -> its name
        self._without_id: dict[str, str] = {}  # call without an id -> its name
        self._early: list[tuple[Message, list[str]]] = []  # results whose call has not been read, with its id

    def read(self, message: Mapping[str, Any]) -> Iterator[Message]:
        """The messages that one message stands for: text, calls and results are one each, in their order."""
        content, role, further = message.get("content", ""), message["role"], fields_beside(message)
        if not further and isinstance(content, str) and is_plain_text(content) and role.lower() not in _RESULT_ROLES:
            yield {"role": role, "content": content}  # most messages are
            return
        if role.lower() in _RESULT_ROLES and "tool_call_id" not in further:  # SWE-agent; tau2-bench
            ids = further.pop("tool_call_ids", [one for one in _ids(message.get("id")) if one in self._numbers])
            further |= {"tool_call_id": ids} if ids else {}
        if not _ids(further.get("tool_call_id")) and "tool_call_id" in further:
            further["call"] = further.pop("tool_call_id")
        blocks = [one for name in _BLOCKS for one in _listed(further.pop(name, []))]
        blocks += [_typed({"toolResult": one}) for one in _listed(further.pop("tool_responses", []))]
        content = _once(_uncut(content), blocks)
        typed = [*map(_typed, _listed(content))]
        are_results = typed and all(_is_result_block(_kind(one)) and _NAMED & one.keys() for one in typed)
        if (role.lower() in _RESULT_ROLES and not are_results) or "tool_call_id" in further:
            beside = {name: value for name, value in further.items() if name not in _CALL_FIELDS}
            marks = [mark for mark in _marks_in(beside) if mark not in _listed(content)]
            yield self._result(role, further, [*marks, *(_listed(content) or [content])])
            return
        role = "tool" if role == "function" else role
        before, after = self._taken(further, content)
        marks = [mark for mark in _marks_in(further) if mark not in _listed(content)]
        parts = content if isinstance(content, list) else [content] if content != "" or not before else []
        parts = [*marks, *before, *parts, *after]
        is_text = parts == (content or 0) and all(text_of(one) is not None and shown_value(one) is one for one in parts)
        made = ([_Part(role, whole=content)] if is_text else list(self._split(role, parts))) or [_Part(role)]
        first = next((one for one in made if one.result is None), made[0])
        first.further = {name: shown_value(value) for name, value in further.items()}
        first.result = first.result and {**first.further, **first.result}
        for one in made:
            yield one.result if one.result is not None else one.message

    def _taken(self, further: dict[str, Any], content: Any) -> tuple[list[Any], list[Any]]:
        """What stands in fields beside the content and not in it, too: parts before it and calls after it."""
        thought = [further.pop(key) for key in _THOUGHTS if isinstance(further.get(key), str)]
        # the same thoughts once more, with signatures
        noted = [further.pop(name) for name in ("reasoning_details", "thinking_blocks") if name in further]
        for blocks in noted if not thought else ():
            thought += [_reasoning(one) for one in (blocks if isinstance(blocks, list) else [blocks]) if one]
        before: list[Any] = [{"type": "reasoning", "text": text} for text in dict.fromkeys(thought) if text.strip()]
        if isinstance(further.get("refusal"), str):
            before.append({"type": "text", "text": further.pop("refusal")})
        if isinstance(audio := further.get("audio"), Mapping) and isinstance(audio.get("transcript"), str):
            before.append(further.pop("audio")["transcript"])
        # calls of the AI SDK 4, with their results
        before += [{"toolInvocation": call} for call in _listed(further.pop("toolInvocations", None))]
        calls = _calls_in(further)
        typed = [block for block in map(_typed, _listed(content)) if _kind(block)]
        acts = [block for block in (*typed, *calls) if isinstance(block, Mapping) and _kind(block) in _CALLED]
        words = _squashed(content) + "".join(str(list(map(_name_and_arguments, acts))).split())
        for name in [key for key in _REPEATS if isinstance(further.get(key), str) and _squashed(further[key]) in words]:
            del further[name]
        if "parsed" in further and isinstance(content, str) and further["parsed"] == _parsed(content):
            del further["parsed"]
        return _new(before, typed), [{**call, "type": "tool_call"} for call in _new(calls, typed)]

    def _split(self, role: str, parts: Sequence[Any]) -> Iterator[_Part]:
        now = _Part(role)
        for block in map(_typed, parts):
            is_call = _kind(block) in _CALLS
            has_result = _is_result_block(_kind(block)) or (is_call and "result" in block)
            if now.calls and not is_call and not has_result:
                yield now
                now = _Part(role)
            if is_call:
                now.calls.append(self._call({**block, "error": None} if has_result else block))
            if has_result:  # also in a call, where Inspect has the result of a server's tool
                if now:
                    yield now
                yield _Part(role, result=self._result("tool", *_result_block(block)))
                now = _Part(role)
            elif not is_call:
                now.parts += _parts(block, told=True)
        if now:
            yield now

    def _call(self, call: Mapping[str, Any]) -> Message:
        name, arguments = _name_and_arguments(call)
        number = str(len(self._names) + 1)
        ids = _ids(call.get("call_id", call.get("id")))
        self._numbers |= dict.fromkeys(ids, number)
        self._names[number] = self._open[number] = name
        if not ids:
            self._without_id[number] = name
        made: Message = {"id": number, "name": name, "arguments": shown_value(arguments)}
        error = call.get("parse_error", call.get("error"))
        return made | {"error": _clean(error)} if error and isinstance(error, str) else made

    def _result(self, role: str, further: Mapping[str, Any], content: Any) -> Message:
        ids = _ids(further.get("tool_call_id"))
        name = next((further[key] for key in ("function", "name", "tool_name") if key in further), None)
        numbers = [self._numbers.get(one, one) for one in ids]
        is_early = any(one not in self._numbers for one in ids)
        if not any(one in self._numbers for one in ids):  # it answers the first open call of its name
            waiting = self._without_id if ids else self._open
            matches = [number for number, called in waiting.items() if called == name][:1]
            numbers, is_early = matches or numbers, is_early and not matches
        parts = [part for one in (content if isinstance(content, list) else [content]) for part in _parts(one)]
        made: Message = {"role": "tool" if role == "function" else role, "content": _content(parts)}
        if numbers:
            made["tool_call_id"] = ", ".join(numbers)
        for number in numbers:
            self._open.pop(number, None)
            self._without_id.pop(number, None)
        if name and isinstance(name, str) and name not in [self._names.get(number) for number in numbers]:
            made["name"] = _clean(name)
        if error := further.get("error") or further.get("is_error"):
            made["error"] = _error(error)
        known = {"tool_call_id", "function", "name", "tool_name", "error", "is_error"}
        rest = {key: value for key, value in further.items() if key not in known}
        calls = [self._call(call) for call in _calls_in(rest)]
        made |= ({"tool_calls": calls} if calls else {}) | {key: shown_value(one) for key, one in rest.items()}
        if is_early:
            self._early.append((made, ids))
        return made

    def number_early_results(self) -> None:
        """Give the results that stood before their calls the numbers of these."""
        for result, ids in self._early:
            numbers = [self._numbers.get(one, "unknown" if one in self._names else one) for one in ids]
            result["tool_call_id"] = ", ".join(numbers)
            if "name" in result and result["name"] in [self._names.get(number) for number in numbers]:
                del result["name"]


class _Part:
    """A message that is being read: its parts and calls, or a result."""

    def __init__(self, role: str, parts: list[Any] | None = None, *, whole: Any = None, result: Message | None = None):
        self.role, self.parts, self.whole, self.result = role, parts or [], whole, result
        self.calls: list[Message] = []
        self.further: Mapping[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.parts or self.calls)

    @property
    def message(self) -> Message:
        """The message in the one form."""
        content = _content(self.parts, beside=bool(self.calls)) if self.whole is None else self.whole
        made = {"role": self.role, "content": content}
        return made | ({"tool_calls": self.calls} if self.calls else {}) | dict(self.further)


def _calls_in(further: dict[str, Any]) -> list[Any]:
    """The calls in the fields of a message, which they are taken out of."""
    calls: list[Any] = []
    for name in [name for name in _CALL_FIELDS if name in further]:
        value = further.pop(name)
        value = _parsed(value) if isinstance(value, str) and name == "tool_calls" else value
        calls_here = [call if isinstance(call, Mapping) else {"name" if isinstance(call, str) else "arguments": call}
                 for call in (value if isinstance(value, list) else [value])]  # fmt: skip
        calls += _new(calls_here, calls)
    return calls


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _squashed(parts: Any) -> str:
    """The texts of a content without their spaces."""
    texts = [_reasoning(block) or text_of(block) or "" for block in (parts if isinstance(parts, list) else [parts])]
    return "".join("".join(texts).split())


def _uncut(content: Any) -> Any:
    """A content whose texts Anthropic cut where something is cited, with these in one piece."""
    if not any(isinstance(block, Mapping) and block.get("citations") for block in _listed(content)):
        return content
    whole: list[Any] = []
    for are_texts, blocks in groupby(content, key=lambda block: text_of(block) is not None):
        run = list(blocks)
        whole += [{"type": "text", "text": "".join(map(str, map(text_of, run)))}] if are_texts else run
    return whole


def _once(content: Any, blocks: list[Any]) -> Any:
    """A content and the blocks that hold it once more, perhaps with calls."""
    blocks = [_typed(block) for block in blocks if _kind(block) != "step_start"]
    results = [block.get("content") for block in blocks if isinstance(block, Mapping)]
    if isinstance(content, list) and blocks:
        blocks = [*content, *_new(blocks, content)]
    elif not blocks or _squashed(content) not in _squashed([*blocks, *results]):
        return [content, *_new(blocks, [content])] if blocks else content
    texts = [text_of(block) for block in blocks]
    return blocks if None in texts else "\n".join(map(str, texts))


def _new(parts: list[Any], known: list[Any]) -> list[Any]:
    """The parts that are not known yet: calls and results by their ids, the rest by what they hold."""
    return [block for block in parts if not any(_is_same(_typed(block), _typed(earlier)) for earlier in known)]


def _is_same(one: Any, other: Any) -> bool:
    if text_of(one) is not None or _kind(one) in _THINKING:
        return _kind(one) == _kind(other) and "" != _squashed(one) == _squashed(other)
    is_result = _is_result_block(_kind(one))
    if not all(isinstance(call, Mapping) and (is_result or _kind(call) in _CALLED) for call in (one, other)):
        return bool(one == other)
    ids = [next(iter(_ids(call.get("call_id", call.get("tool_use_id", call.get("id"))))), "") for call in (one, other)]
    if is_result or all(ids):
        return is_result == _is_result_block(_kind(other)) and ids[0] == ids[1]
    return _name_and_arguments(one) == _name_and_arguments(other)


def _name_and_arguments(call: Mapping[str, Any]) -> tuple[str, Any]:
    inner = next((call[key] for key in ("function", "custom") if isinstance(call.get(key), Mapping)), call)
    name = call["function"] if isinstance(call.get("function"), str) else inner.get("name", "")
    if not name and not {"arguments", "args"} & inner.keys():  # of a form that is not known: nothing of it is lost
        known = ("id", "call_id", "type", "index", "result", "error", "parse_error")
        return "", {field: inner[field] for field in inner if field not in known}
    keys = ("arguments", "args", "input", "parameters", "server_tool_call")
    arguments: Any = next((inner[key] for key in keys if key in inner), {})
    arguments = {"input": arguments} if inner is not call and inner is call.get("custom") else arguments
    return _clean(name) if isinstance(name, str) else "", {} if arguments is None else arguments


def _parsed(text: str) -> Any:
    """The calls in a JSON text; the text itself if it holds none."""
    try:
        found = canonical(orjson.loads(text))
    except (orjson.JSONDecodeError, InputError):
        return text
    return found if isinstance(found, (list, dict)) else text


def _kind(part: Any) -> str:
    """The type of a part; empty if it has none."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    return kind.replace("-", "_") if isinstance(kind, str) else ""


def _is_result_block(kind: str) -> bool:
    return kind in _RESULTS or kind.endswith("tool_result")


def _typed(part: Any) -> Any:
    """A part as one of a known type: wrapped in a field with the name of its type, or one of a UI's messages."""
    if not isinstance(part, Mapping):
        return part
    if "block_type" in part and "type" not in part:  # LlamaIndex
        part = {"type": part["block_type"], **{name: part[name] for name in part if name != "block_type"}}
    kind, text = _kind(part), part.get("text", part.get("content"))
    text = text.get("value") if isinstance(text, Mapping) else text  # as OpenAI's threads; OpenTelemetry has a content
    if isinstance(text, str) and (kind in (*_TEXTS, "reasoning") or part.get("thought") is True):  # of Gemini
        return part if kind and part.get("text") == text else {"type": kind or "reasoning", "text": text}
    if kind == "tool_invocation" and isinstance(part.get("toolInvocation"), Mapping):
        return _typed({"toolInvocation": part["toolInvocation"]})
    if kind == "dynamic_tool" or (kind.startswith("tool_") and {"toolCallId", "state"} <= part.keys()):  # AI SDK 5
        is_denied, why = part.get("state") == "output-denied", part.get("approval")
        reason = why.get("reason") if isinstance(why, Mapping) else None
        error = ": ".join(["denied", *filter(None, [reason])]) if is_denied else part.get("errorText")
        ended = {"result": part.get("output", ""), "error": error}
        call = {"type": "tool_call", "id": part.get("toolCallId"), "name": part.get("toolName", part["type"][5:])}
        call["arguments"] = part.get("input", part.get("rawInput", {}))
        return call | (ended if error or "output" in part else {})
    name = "" if "type" in part else next((field for field in _WRAPPED if isinstance(part.get(field), Mapping)), "")
    is_block = name and (name not in _MEDIA_BLOCKS or {"format", "source"} <= part[name].keys())
    is_wrapped = is_block and part.keys() <= {name, *_BESIDE}
    origin = part[name].get("origin") if is_wrapped else None  # Haystack
    typed = (
        {**(origin if isinstance(origin, Mapping) else {}), **_typed(part[name]), "type": _WRAPPED[name]}
        if is_wrapped
        else part
    )
    if _kind(typed) not in _CALLS and not _is_result_block(_kind(typed)):
        return typed
    fields = {_RENAMED.get(field, field): value for field, value in typed.items()}
    return fields | ({"is_error": True} if fields.get("status") in FAILED else {})


def _ids(given: Any) -> list[str]:
    """The ids of calls that a field names."""
    ids = [str(one) for one in (given if isinstance(given, list) else [given]) if isinstance(one, (str, int))]
    return [one for one in ids if one and is_plain_text(one)]


def _clean(text: str) -> str:
    """A text that can hold no parts, with its images cut out."""
    shown = shown_value(text)
    return text if shown is text else "".join(text_of(part) or f"({part['unseen']})" for part in shown)


def _content(parts: list[Any], *, beside: bool = False) -> Any:
    """A text if all parts are texts, else the parts; empty texts beside something else are left out."""
    texts = [text_of(part) for part in parts]
    if None not in texts:
        return "\n".join(text for text in texts if text or not beside)  # type: ignore[misc]  # none is None
    return [part for part, text in zip(parts, texts, strict=True) if text != ""]


def _parts(part: Any, *, told: bool = False) -> list[Any]:
    """A part of a content as texts, reasoning and marks; an unknown one stays as it is.

    With `told`, it stands in a message: there, the address of an image or a file is one that the model was shown.
    """
    if isinstance(part, str):
        found = shown_value(part)
        return found if isinstance(found, list) else [{"type": "text", "text": part}]
    if not isinstance(part, Mapping):
        return [] if part is None else [shown_value(part)]
    typed = _typed(part)
    text, kind = text_of(typed), _kind(typed)
    if text is not None:
        return _parts(text)
    if kind == "refusal":
        return _parts(typed.get("refusal"))
    if kind in _THINKING:
        return [{"type": "reasoning", "text": _reasoning(typed)}]
    if kind in ("document", "search_result") and (inner := _texts_of_document(typed)):
        return inner
    if (mark := _unseen_part(typed, anyway=told or kind in _KINDS)) is not None:
        return [mark]
    return [shown_value({name: value for name, value in typed.items() if name not in _SEALED})]


def _reasoning(part: Any) -> str:
    if not isinstance(part, Mapping):
        return _clean(part) if isinstance(part, str) else ""
    for name in ("text", "thinking", "reasoning", "reasoning_text", "summary", "content"):
        value = part.get(name)
        if isinstance(value, list):
            value = "\n".join(filter(None, map(text_of, value)))
        if isinstance(value, str) and value and not (name == "reasoning" and part.get("redacted")):
            return _clean(value)
    return ""


def _texts_of_document(part: Mapping[str, Any]) -> list[Any]:
    """The texts of a document that consists of text, after its title."""
    source = part.get("source")
    inner = part.get("document")
    content = part.get("content", inner.get("data") if isinstance(inner, Mapping) else None)  # Cohere
    if _is_base64(content):
        return []
    if isinstance(source, Mapping) and source.get("type", "text") in ("text", "content"):
        content = source.get("data", source.get("content", source.get("text")))
    if content is None:
        return []
    head = [part[name] for name in ("title", "context", "name") if isinstance(part.get(name), str)]
    head += [source] if isinstance(source, str) else []
    return [one for each in (*head, *(content if isinstance(content, list) else [content])) for one in _parts(each)]


def _result_block(part: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Fields and content of a result that stands among the parts of a message."""
    known = next((part[name] for name in ("tool_use_id", "call_id", "id") if _ids(part.get(name))), None)
    content = next((part[name] for name in _CONTENTS if name in part), "")
    fields = fields_beside(part) if _is_result_block(_kind(part)) else {}
    further = {name: value for name, value in fields.items() if name not in _RESULT_FIELDS and value != content}
    blocks = [block for name in _BLOCKS for block in _listed(further.pop(name, []))]
    beside = [*_marks_in(further), *blocks]
    content = [*(_listed(content) or [content]), *beside] if beside else content
    return further | {"tool_call_id": known} | _chosen(part, "is_error", "name", "error"), content


def _chosen(part: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: part[name] for name in names if part.get(name)}


def _error(error: Any) -> Any:
    """The text of an error, or True."""
    if not isinstance(error, Mapping):
        return _clean(error) if isinstance(error, str) else True
    texts = [str(error[name]) for name in ("type", "code", "message") if isinstance(error.get(name), (str, int))]
    return _clean(": ".join(filter(None, texts)) or orjson.dumps(error).decode()) if error else True


def _unseen_part(part: Mapping[str, Any], *, anyway: bool = False) -> Mapping[str, Any] | None:
    """The mark of a part that holds an image or a file, or with `anyway` its address; None if it does not."""
    if is_unseen(part):
        return part
    inner = _typed(part)
    media = next((name for field in _MEDIA_TYPES if _MEDIA_TYPE.match(name := str(inner.get(field)))), "")
    names = [inner.get("modality"), _kind(inner), *map(inner.get, ("block_type", "kind"))]
    names += part if anyway and len(part) == 1 else []  # DashScope's {"image": address}
    kind = next((_KINDS[name] for word in names if (name := str(word).replace("-", "_")) in _KINDS), None)
    if kind is None and (not media or _TEXT_TYPE.match(media)):
        return None
    # outside of messages, a list of files with their names holds no file
    held = [inner[name] for name in (_kind(inner), *_SOURCES, *_DATA_FIELDS) if inner.get(name)]
    has_text = "text" in inner or ("content" in inner and not _is_base64(inner["content"]))
    is_typed = kind is not None or inner is not part
    has_data = any(inner.get(name) and (is_typed or _is_data(inner[name], media)) for name in _DATA_FIELDS)
    has_data = has_data or _is_base64(inner.get("content"))
    is_at = has_data or (any(map(inner.get, _ADDRESSES)) and (kind is not None or anyway))
    is_known = media or inner is not part or "modality" in inner
    is_kind = kind is not None and (anyway or (not has_text and any(
        kind == "image" or isinstance(one, Mapping) or not is_plain_text(str(one)) for one in held
    )))  # fmt: skip
    if not (is_kind or (has_data and media) or (is_at and is_known and not has_text)):
        return None
    about, kind = _about(inner, inner), _MEDIA.get(media.partition("/")[0], kind or "file")
    return {"type": kind, "unseen": about if is_plain_text(about) else _size("", about)}


def _marks_in(further: Mapping[str, Any]) -> list[Any]:
    """Marks of the fields of a message that hold images or files, as its attachments: they are part of what is said."""
    inner = [it for value in further.values() if isinstance(value, Mapping) for it in value.items() if _listed(it[1])]
    kinds = {name: kind_of_files(name, value) for name, value in inner if not unseen(shown_value(value))}
    kinds |= {name: unseen(shown_value(value)) or kind_of_files(name, value) for name, value in further.items()}
    return [{"type": kind, "unseen": f"in {name[:40]}"} for name, kind in kinds.items() if kind]


def _about(value: Any, part: Mapping[str, Any], name: str = "") -> str:
    """What is known of an image or a file: its address, or type, size and hash."""
    if isinstance(value, Mapping):
        inner = value if value.keys() & {*_MEDIA_TYPES, "format"} else part
        found = [_about(one, inner, key) for key, one in value.items() if key not in (*_NO_ADDRESS, *_SEALED)]
        return ", ".join(text for text in dict.fromkeys(found) if text)
    if not isinstance(value, str) or name in (*_MEDIA_TYPES, "format"):
        return ""
    if (match := _DATA.match(value)) is not None:
        return _size(match[1], match[2])
    if _is_base64(value) or (name in _DATA_FIELDS and "://" not in value):
        media = next((part[one] for one in (*_MEDIA_TYPES, "format") if one in part), "")
        return _size(str(media), value)
    return value if len(value) <= 300 else f"{value[:300]}…"


def _is_base64(value: Any) -> bool:
    return isinstance(value, str) and _BASE64.fullmatch(value[:1000].rstrip("=") + "=") is not None


def _is_data(value: Any, media: str) -> bool:
    """Whether the value of a field holds data: a text is none, unless it is base64, or has no space and is of media."""
    if not isinstance(value, str):  # numbers of bytes; Node.js wraps them
        numbers = value.get("data") if isinstance(value, Mapping) else value
        return isinstance(numbers, list) and {*map(type, numbers)} == {int}
    is_of_media = bool({media, media.partition("/")[0]} & _MEDIA.keys()) and len(value.split()) == 1
    return is_of_media or not is_plain_text(value) or _is_base64("".join(value[:1000].splitlines()))


def _size(media: str, data: str) -> str:
    n_bytes = len(data.rstrip("=")) * 3 // 4
    return f"{media + ', ' if media else ''}{n_bytes:,} bytes, sha256 {hashlib.sha256(data.encode()).hexdigest()[:12]}"


def _cut_data(text: str) -> Any:
    """A text with images and recordings in it as parts, these as marks; the text if it holds none."""
    parts: list[Any] = []
    end = 0
    matches = (*_DATA.finditer(text), *_FILE.finditer(text), *_LANGFUSE.finditer(text))
    for match in sorted(matches, key=re.Match.start):
        media, data = (str(match.lastgroup), match[0].rstrip()) if match.re is _FILE else match.groups()
        main = media.partition("/")[0].strip("\\")
        kind = media if match.re is _FILE else _MEDIA.get(media, _MEDIA.get(main, None if main == "font" else "file"))
        if kind is None or match.start() < end:
            continue
        if match.start() > end:
            parts.append({"type": "text", "text": text[end : match.start()]})
        about = data.partition("|")[0] if match.re is _LANGFUSE else _size(media if "/" in media else "", data)
        parts.append({"type": kind, "unseen": about})
        end = match.end()
    if not parts:
        return text
    return parts + ([{"type": "text", "text": text[end:]}] if text[end:] else [])
