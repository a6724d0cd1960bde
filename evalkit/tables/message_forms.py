"""Messages in the one stated form, that of OpenAI's chat API; as they are hashed and shown.

A message has a `role` and a `content`: a text, or a list of parts (`text`, `refusal`, `image_url`, `input_audio`,
`file`). An assistant's calls are its `tool_calls`; a result has the `tool_call_id` of its call, and any content.
Besides, `name`, `refusal` and `reasoning_content` are shown, `error` of a result, and the fields in `shown`.

What comes back is in the same form, with calls (`id`, `name`, `arguments`) numbered in their order, since ids are drawn
at random, with parts `reasoning`, and with marks in place of images and files. Reading it again changes nothing.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from evalkit.errors import EvalkitWarning, InputError, listed
from evalkit.readers.foreign_forms import looks_like
from evalkit.tables.message_files import cut_files, file_part, is_plain_text, unseen

Message = dict[str, Any]

FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning_content", "shown")
"""The fields of a message that judges are shown, and `error` of a result."""
_SPEAKERS = {"assistant", "ai", "model"}
USERS = {"user", "human", "customer", "client", "prompter"}
_OTHERS = {*USERS, "system", "developer", "tool", "function"}
_RESULT_ROLES = ("tool", "function")
_ACTS = {"content", "tool_calls", "tool_call_id", "refusal", "reasoning_content"}
_TEXTS = {"text", "input_text", "output_text"}
_CALL_FIELDS = {"id", "type", "index", "function", "custom", "name", "arguments", "error"}
_EMPTY: tuple[Any, ...] = (None, "", [], {}, False)
_EXPECTED = "expected a list of messages with role and content"


def shown_value(value: Any, depth: int = 0) -> Any:
    """A canonical value as it is hashed and shown: conversations in one form, and marks in place of images and files.

    A value without any of these is returned as it is; what is nested more than 99 deep becomes a JSON text.
    """
    if depth > 99 and isinstance(value, (list, Mapping)):
        value = json.dumps(value, ensure_ascii=False)  # orjson would refuse it
    if isinstance(value, str):
        return value if is_plain_text(value) else cut_files(value)
    if isinstance(value, list):
        if is_plain(value):
            return value
        if (messages := read_messages(value)) is not None:
            return messages
        shown = [shown_value(element, depth + 1) for element in value]
        return value if all(one is other for one, other in zip(shown, value, strict=True)) else shown
    if isinstance(value, Mapping):
        if (part := file_part(value)) is not None:
            return part
        fields = {name: shown_value(field, depth + 1) for name, field in value.items()}
        return value if all(fields[name] is value[name] for name in fields) else fields
    return value


def text_of_content(value: Any) -> Any:
    r"""The text of a value that is parts of text alone, or a message of a role and a content; else the value.

    Examples
    --------
    >>> text_of_content([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])
    'One.\nTwo.'
    """
    if _is_message(value) and value.keys() == {"role", "content"}:
        value = value["content"]
    is_text = isinstance(value, list) and all(
        isinstance(part, Mapping) and "type" in part and text_of(part) is not None and not _beside_text(part)
        for part in value
    )
    return said(value) if value and is_text else value


def is_plain(values: list[Any]) -> bool:
    """Whether a list holds only texts, or messages of a role and a text: most do, and are not looked at again."""
    texts = (value.get("content") if _is_plain_message(value) else value for value in values)
    return all(type(text) is str and is_plain_text(text) for text in texts)


def _is_plain_message(value: Any) -> bool:
    role = value.get("role") if type(value) is dict and len(value) == 2 else None
    return type(role) is str and role not in _RESULT_ROLES


def read_messages(values: Sequence[Any]) -> list[Message] | None:
    """Messages in the stated form; None if these are none."""
    values = [value for value in values if value is not None]
    # contents that are null are not in the mapping
    are_messages = all(
        _is_message(value) and (value["role"].lower() in _SPEAKERS | _OTHERS or _ACTS & value.keys())
        for value in values
    )
    try:
        return stated_messages(values) if values and are_messages else None
    except InputError:
        return None


def stated_messages(values: Any, unknown: set[str] | None = None) -> list[Message]:
    """Messages in the stated form; the names of their fields that are not shown are added to `unknown`.

    Raises
    ------
    InputError
        For anything else, with the form that it looks like.
    """
    reader = _Reader(set() if unknown is None else unknown)
    try:
        if not isinstance(values, list):
            raise InputError(f"got {_brief(values)}")
        messages = [reader.read(value) for value in values if value is not None]
    except InputError as problem:
        raise InputError(f"{_EXPECTED}, {problem}; {looks_like(values)}") from None
    reader.number_early_results()
    return messages


def warn_of(unknown: Collection[str], where: str) -> None:
    """Warn of the fields of messages that judges are not shown; Python shows equal warnings once."""
    if unknown:
        names = sorted(unknown)
        fact = f"{where}: judges are not shown the fields {listed(names, most=20)} of messages"
        of_messages = [name for name in names if "." not in name]  # the others stand in calls and parts
        advice = "write into the content what judges need"
        if of_messages:
            show = f"to show one, ek.load_items(…, show=[{of_messages[0]!r}])"
            advice = f"{show}; to leave them out without this warning, ignore=[…]"
        warnings.warn(f"{fact}; {advice}", EvalkitWarning, stacklevel=2)


def with_fields(items: pd.DataFrame, show: Collection[str], ignore: Collection[str]) -> pd.DataFrame:
    """The items whose messages have the fields `show` in ``shown``, and those of `ignore` no more.

    Raises
    ------
    InputError
        When no message has one of these fields.
    """
    names, columns = set[str](), dict[str, pd.Series]()
    for column in items.columns:
        cells = items[column].tolist()
        if any(isinstance(cell, list) and cell and all(map(_is_message, cell)) for cell in cells):
            cells = [cell if not isinstance(cell, list) else [_with_fields(one, show, ignore) for one in cell]
                     for cell in cells]  # fmt: skip
            names |= {name for cell in items[column] if isinstance(cell, list) for one in cell for name in one}
            columns[str(column)] = pd.Series(cells, items.index, object)
    if lacking := {*show, *ignore} - names:
        raise InputError(
            f"no message has the field {listed(sorted(lacking))}; they have {listed(sorted(names), most=30)}"
        )
    return items.assign(**columns)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str)


def _with_fields(message: Any, show: Collection[str], ignore: Collection[str]) -> Any:
    if not _is_message(message):
        return message
    shown = {name: message[name] for name in show if name in message}
    rest = {name: value for name, value in message.items() if name not in (*show, *ignore)}
    return rest | ({"shown": _shown_beside(message, "shown").get("shown", {}) | shown} if shown else {})


def is_result(message: Message) -> bool:
    """Whether a message is the result of a call."""
    return _id(message.get("tool_call_id")) is not None or message["role"].lower() in _RESULT_ROLES


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
    kind = part.get("type", "text") if isinstance(part, Mapping) else None
    if not isinstance(kind, str) or kind not in _TEXTS:
        return None
    text = "" if part.keys() == {"type"} else part.get("text")  # of a text that is null only the type is there
    return text if isinstance(text, str) else None


def _filled(fields: Mapping[str, Any]) -> set[str]:
    return {name for name, value in fields.items() if value not in _EMPTY}


def _beside_text(part: Any) -> set[str]:
    """The fields of a part that is shown as its text alone."""
    return _filled(part) - {"type", "text"} if isinstance(part, Mapping) and text_of(part) is not None else set()


def _brief(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:60]}…"


class _Reader:
    """Reads the messages of one conversation, and numbers their calls."""

    def __init__(self, unknown: set[str]) -> None:
        self._unknown = unknown
        self._names: dict[str, str] = {}  # number of a call -> its name
        self._numbers: dict[str, str] = {}  # id -> number of the newest call that has it
        self._open: dict[str, bool] = {}  # number of a call without a result yet -> whether it has an id
        self._early: list[tuple[Message, str]] = []  # results whose call has not been read, with its id

    def read(self, message: Any) -> Message:
        """One message in the form that is hashed."""
        if not _is_message(message):
            raise InputError(f"got {_brief(message)}")
        content, role = message.get("content", ""), message["role"]
        marks = self._marks_beside(message)
        if is_result({"role": role} | message):
            return self._result(message, [*marks, *(content if isinstance(content, list) and content else [content])])
        calls, thought = self._calls(message), message.get("reasoning_content")
        thoughts = [{"type": "reasoning", "text": thought}] if isinstance(thought, str) and thought.strip() else []
        before = [*marks, *thoughts, *([message["refusal"]] if message.get("refusal") else [])]
        parts = content if isinstance(content, list) else [content] if content != "" or not before else []
        is_text = not (before or calls) and isinstance(content, list) and content != []
        is_text = is_text and all(text_of(part) is not None and shown_value(part) is part for part in parts)
        self._note_fields(parts)
        shown_parts = [piece for part in [*before, *parts] for piece in _parts(part)]
        result = {"role": role, "content": content if is_text else _content(shown_parts, beside=bool(calls))}
        return result | ({"tool_calls": calls} if calls else {}) | _shown_beside(message, "name", "shown")

    def _marks_beside(self, message: Mapping[str, Any]) -> list[Any]:
        """Marks of the images and files in fields that are not shown; the names of the others are noted."""
        known = (*FIELDS, "error") if is_result({"role": "", **message}) else FIELDS
        further = {name: value for name, value in message.items() if name not in known and value not in _EMPTY}
        lists = {name: value for name, value in further.items() if isinstance(value, list)}
        contents = [name for name, value in lists.items() if any(isinstance(element, Mapping) for element in value)]
        if contents and not _ACTS & message.keys():
            raise InputError(f"got a message whose content stands in {contents[0]!r}")
        may_call = not (message.get("tool_calls") or is_other(message["role"]) or is_result({"role": "", **message}))
        if may_call and (calls := [name for name, value in further.items() if _holds_call(value)]):
            raise InputError(
                f"got a message with a call in {calls[0]!r}: write it into tool_calls, or leave it out with "
                f"ignore=[{calls[0]!r}]"
            )
        kinds = {name: _kind_in(value) for name, value in further.items()}
        self._unknown.update(name for name, kind in kinds.items() if kind is None)
        return [{"type": kind, "unseen": f"in {name[:40]}"} for name, kind in kinds.items() if kind]

    def _note_fields(self, parts: list[Any]) -> None:
        """Note the fields of parts that are shown as their text alone."""
        self._unknown.update(f"content.{name}" for part in parts for name in _beside_text(part))

    def _calls(self, message: Mapping[str, Any]) -> list[Message]:
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list):
            raise InputError(f"got the tool_calls {_brief(calls)}")
        return [self._call(call) for call in calls]

    def _call(self, call: Any) -> Message:
        kind = call.get("type", "function") if isinstance(call, Mapping) else ""
        inner: Any = call.get(kind, call) if isinstance(kind, str) and kind else None
        is_call = isinstance(inner, Mapping) and isinstance(inner.get("name"), str)
        if not is_call or (not {"arguments", "input"} & inner.keys() and inner.keys() - _CALL_FIELDS):
            raise InputError(f"got the call {_brief(call)}")
        arguments: Any = inner.get("arguments", {"input": inner["input"]} if "input" in inner else {})
        self._unknown.update(
            f"tool_calls.{name}" for name in (_filled(call) | _filled(inner)) - _CALL_FIELDS - {"input"}
        )
        number, key = str(len(self._names) + 1), _id(call.get("id"))
        self._names[number], self._open[number] = _clean(inner["name"]), key is not None
        if key is not None:
            self._numbers[key] = number
        result: Message = {"id": number, "name": self._names[number], "arguments": shown_value(arguments)}
        return result | ({"error": _clean(call["error"])} if isinstance(call.get("error"), str) else {})

    def _result(self, message: Mapping[str, Any], content: list[Any]) -> Message:
        key, name, error = _id(message.get("tool_call_id")), message.get("name"), message.get("error")
        number = None if key is None else self._numbers.get(key, key)
        is_early = key is not None and key not in self._numbers
        if key is None or is_early:  # it answers the first open call of its name
            waiting = [number for number, has_id in self._open.items() if key is None or not has_id]
            match = next((number for number in waiting if self._names[number] == name), None)
            number, is_early = match or number, is_early and match is None
        self._open.pop(str(number), None)
        self._note_fields(content)
        text = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
        fields = {
            "tool_call_id": number,
            "name": _clean(name) if isinstance(name, str) and name != self._names.get(str(number)) else None,
            "error": error and (error is True or _clean(text)),
            "tool_calls": self._calls(message),
        }
        parts = [piece for part in content for piece in _parts(part, is_result=True)]
        role = "tool" if message["role"] == "function" else message["role"]
        result = {"role": role, "content": _content(parts)} | {name: value for name, value in fields.items() if value}
        if is_early:
            self._early.append((result, str(key)))
        result |= _shown_beside(message, "shown")
        return result

    def number_early_results(self) -> None:
        """Give the results that stood before their calls the numbers of these."""
        for result, key in self._early:
            number = self._numbers.get(key, "unknown" if key in self._names else key)
            result["tool_call_id"] = number
            if "name" in result and result["name"] == self._names.get(number):
                del result["name"]


def _holds_call(value: Any) -> bool:
    """Whether a call, which has a name and arguments, stands in a value."""
    if isinstance(value, Mapping):
        return value.keys() >= {"name", "arguments"} or any(map(_holds_call, value.values()))
    return isinstance(value, list) and any(map(_holds_call, value))


def _kind_in(value: Any) -> str | None:
    """What a judge cannot be shown in a field of a message."""
    if isinstance(value, list):
        return next((kind for element in value if (kind := _kind_in(element))), None)
    part = file_part(value, in_message=True) if isinstance(value, Mapping) else None
    return unseen(shown_value(value)) if part is None else str(part["type"])


def _shown_beside(message: Mapping[str, Any], *names: str) -> Message:
    fields = {name: shown_value(message[name]) for name in names if message.get(name) not in _EMPTY}
    if not isinstance(fields.get("shown", {}), Mapping):
        raise InputError(f"got the field shown with {_brief(fields['shown'])}; it is a mapping from names to values")
    return fields


def _id(given: Any) -> str | None:
    """The id of a call."""
    return str(given) if isinstance(given, (str, int)) and given != "" and is_plain_text(str(given)) else None


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


def _parts(part: Any, *, is_result: bool = False) -> list[Any]:
    """A part of a content as texts, reasoning and marks; of a result, any other stays as it is."""
    if part is None:
        return []
    if (text := part if isinstance(part, str) else text_of(part)) is not None:
        shown = shown_value(text)
        return shown if isinstance(shown, list) else [{"type": "text", "text": text}]
    if isinstance(part, Mapping):
        if part.get("type") == "refusal" and isinstance(part.get("refusal"), str):
            return _parts(part["refusal"])
        if part.get("type") == "reasoning" and isinstance(part.get("text", ""), str):
            return [{"type": "reasoning", "text": _clean(part.get("text", ""))}]
        if (mark := file_part(part, in_message=True)) is not None:
            return [mark]
    shown = shown_value(part)
    if is_result:
        return [shown]
    if (kind := unseen(shown)) is None:
        raise InputError(f"got a message with the part {_brief(part)}")
    return [{"type": kind, "unseen": "in a part of another form"}]
