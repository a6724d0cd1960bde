"""Answers of servers that stream although they were not asked to."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.core.prompts_and_replies import Reply
from evalkit.engine.providers.openai_replies import replies_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError

USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
HEADERS = {"content-type": "text/event-stream"}
texts = st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4)


def event(chunk: Any, end: str = "\n\n") -> str:
    return f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}{end}"


def stream(choices: list[list[str]], draw: Any = None, end: str = "\n\n") -> str:
    """The pieces of all choices, in turn or as `draw` mixes them, then their ends and the usage."""
    head: dict[str, Any] = {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "usage": None}
    left = [[*pieces] for pieces in choices]
    events = [": waiting" + end, "event: start" + end, event(head | {"choices": []}, end)]
    while any(left):
        index = (draw(st.integers(0, 9)) if draw else 0) % len(left)
        index = index if left[index] else next(at for at, pieces in enumerate(left) if pieces)
        delta = {"role": "assistant", "content": left[index].pop(0)}
        events.append(event(head | {"choices": [{"index": index, "delta": delta, "finish_reason": None}]}, end))
    ends = [{"index": index, "delta": {}, "finish_reason": "stop"} for index in range(len(choices))]
    events += [event(head | {"choices": [one]}, end) for one in ends]
    return "".join([*events, event(head | {"choices": [], "usage": USAGE}, end), event("[DONE]", end)])


def read(body: str | bytes, n: int = 1) -> list[Reply]:
    content = body.encode() if isinstance(body, str) else body
    made = replies_of(Answer(200, HEADERS, content, "s"), n, price=(1, 10), latency_s=None, sent=None)
    return [replace(reply, created=0.0) for reply in made]


@given(st.data(), st.lists(texts, min_size=1, max_size=3), st.sampled_from(["\n\n", "\r\n\r\n"]))
def test_a_stream_is_the_reply_that_it_makes(data: st.DataObject, choices: list[list[str]], end: str) -> None:
    plain = {
        "id": "c1", "model": "m-1", "usage": USAGE,
        "choices": [
            {"index": at, "message": {"role": "assistant", "content": "".join(pieces)}, "finish_reason": "stop"}
            for at, pieces in enumerate(choices)
        ],
    }  # fmt: skip
    assert read(stream(choices, data.draw, end), len(choices)) == read(json.dumps(plain), len(choices))


@given(texts, st.integers(0, 10_000))
def test_a_stream_that_is_cut_is_the_whole_reply_or_none(pieces: list[str], at: int) -> None:
    whole = stream([pieces]).encode()
    cut = whole[: at % len(whole)]
    if b'"finish_reason": "stop"}]}' in cut:
        (reply,) = read(cut)
        assert (reply.text, reply.finish_reason) == ("".join(pieces), "stop")
    else:
        with pytest.raises(ProviderError, match=r"streams|is empty") as problem:
            read(cut)
        assert problem.value.maybe_paid


@pytest.mark.parametrize(
    "chunk",
    [
        [], {}, {"choices": {}}, {"choices": ["text"]}, {"choices": [{"delta": {"content": 2}}]},
        {"choices": [{"words": "2"}]}, {"choices": [{"delta": {"content": ["a"]}}]},
        {"choices": [{"delta": "2"}]}, {"choices": [{"text": "2"}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{"}}]}}]},
        {"choices": [{"index": "first", "delta": {"content": "2"}}]}, {"choices": [{"message": {"content": "2"}}]},
        '{"choices": [{"delta": {"content": "0", "content": "2"}}]}',
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "2"}},
    ],
)  # fmt: skip
def test_another_form_is_told_and_not_tried_again(chunk: Any) -> None:
    with pytest.raises(ProviderError, match=r"the server streams its answers, .* switch streaming off") as problem:
        read(event(chunk) + event("[DONE]"))
    assert (problem.value.kind, problem.value.maybe_paid) == ("client_error", True)


def test_an_error_in_a_stream_is_that_error() -> None:
    error = {"error": {"message": "Rate limit reached", "code": 429}}
    with pytest.raises(ProviderError, match="Rate limit reached") as problem:
        read(event(error))
    assert problem.value.kind == "rate_limited"
    with pytest.raises(ProviderError, match="broke off"):
        read(event({"choices": [{"delta": {"content": "2"}}]}) + event(error) + event("[DONE]"))
