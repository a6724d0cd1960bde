"""Fences: an item's texts between delimiters that they cannot close."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson


def fenced(name: str, value: Any) -> str:
    """A value between ``<name-HASH>`` and ``</name-HASH>``; HASH is the start of the text's sha256.

    Candidate text can hold a closing tag only by containing its own hash. Lists are numbered,
    conversations show the role of each message, other structures are shown as JSON.

    Examples
    --------
    >>> print(fenced("answer", "42"))
    <answer-73475cb40a56>
    42
    </answer-73475cb40a56>
    """
    plain = _plain(value)
    mark = hashlib.sha256(plain.encode()).hexdigest()[:12]
    held = plain.casefold()
    while mark in held:
        mark = hashlib.sha256((mark + plain).encode()).hexdigest()[:12]
    return f"<{name}-{mark}>\n{_marked(value, mark)}\n</{name}-{mark}>"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2).decode()


def _marked(value: Any, mark: str) -> str:
    if isinstance(value, str):
        return value
    if value == []:
        return ""
    if isinstance(value, list):
        if all(_is_message(element) for element in value):
            return "\n".join(_message(at, element, mark) for at, element in enumerate(value, 1))
        texts = [element if isinstance(element, str) else _json(element) for element in value]
        if len(texts) == 1:
            return texts[0]
        return "\n".join(f"--- {at} ({mark}) ---\n{text}" for at, text in enumerate(texts, 1))
    return _json(value)


def _is_message(element: Any) -> bool:
    return isinstance(element, Mapping) and isinstance(element.get("role"), str) and "content" in element


def _message(at: int, message: Mapping[str, Any], mark: str) -> str:
    content = message["content"]
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) == len(parts):
            content = "\n".join(texts)
    text = content if isinstance(content, str) else _json(content)
    further = {name: value for name, value in message.items() if name not in ("role", "content")}
    if further:
        text = f"{text}\n{_json(further)}"
    return f"--- {at} {message['role']} ({mark}) ---\n{text}"
