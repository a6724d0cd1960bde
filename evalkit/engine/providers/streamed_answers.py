"""An answer in pieces, from a server that streams although it was not asked to: its reply was paid for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from evalkit.core.strict_json import without_duplicates
from evalkit.engine.request import ProviderError

_STARTS = (b"data:", b"event:")
_TEXTS = ("content", "refusal")


def is_stream(content: bytes, headers: Mapping[str, str]) -> bool:
    """Whether a body is a stream of events.

    Examples
    --------
    >>> is_stream(b"data: {}", {}), is_stream(b": wait", {"content-type": "text/event-stream"}), is_stream(b"{}", {})
    (True, True, False)
    """
    return content.lstrip().startswith(_STARTS) or "event-stream" in headers.get("content-type", "").lower()


def completion_of(content: bytes, status: int) -> dict[str, Any]:
    r"""The chat completion that a stream of chunks makes.

    Raises
    ------
    ProviderError
        ``malformed`` for a stream that broke off; ``client_error``, which is not tried again, for one of another form.

    Examples
    --------
    >>> parts = [b'data: {"choices": [{"delta": {"content": "%s"}}]}' % text for text in (b"Hel", b"lo")]
    >>> completion_of(b"\n\n".join([*parts, b"data: [DONE]"]), 200)["choices"]
    [{'message': {'content': 'Hello'}}]
    """
    completion, choices, has_ended = dict[str, Any](), dict[int, dict[str, Any]](), False
    try:
        for line in content.splitlines():
            data = line.removeprefix(b"data:").strip()
            if data in (b"", line.strip()):  # a comment, or the name of an event
                continue
            if has_ended := data == b"[DONE]":
                break
            try:
                chunk = json.loads(data, object_pairs_hook=without_duplicates)
            except (json.JSONDecodeError, UnicodeDecodeError):  # cut
                break
            completion |= {name: value for name, value in chunk.items() if value is not None}
            for piece in chunk.get("choices") or []:
                _add(choices.setdefault(int(piece.get("index") or 0), {}), piece)
        if not (choices or completion.get("error")) or any("message" not in choice for choice in choices.values()):
            raise TypeError
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise ProviderError(
            "client_error",
            "the server streams its answers, in a form that evalkit does not read; switch streaming off at the server",
            status=status,
            maybe_paid=True,
        ) from None
    if choices and (
        completion.get("error") or not (has_ended or all("finish_reason" in choice for choice in choices.values()))
    ):
        raise ProviderError(
            "malformed", "the server streams its answer, which broke off", status=status, maybe_paid=True
        )
    return completion | {"choices": [choices[index] for index in sorted(choices)]}


def _add(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add what a chunk has of a choice; TypeError for what cannot be put together."""
    delta = piece.get("delta") or {}
    if piece.get("message") or piece.get("text") or delta.get("tool_calls") or delta.get("function_call"):
        raise TypeError
    if "delta" in piece:
        message = choice.setdefault("message", {})
        for name in _TEXTS:
            if (text := delta.get(name)) is not None:
                message[name] = message.get(name, "") + text
    if piece.get("finish_reason") is not None:
        choice["finish_reason"] = piece["finish_reason"]
    if piece.get("logprobs"):
        tokens = choice.setdefault("logprobs", {"content": []})["content"]
        tokens += piece["logprobs"].get("content") or []
