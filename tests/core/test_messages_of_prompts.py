"""A prompt's messages, as clients take them."""

from __future__ import annotations

import copy
import json
import pickle

import orjson
import pytest

import evalkit as ek
from evalkit.core.prompts_and_replies import Message, Prompt


def test_messages_are_dicts_with_attributes() -> None:
    prompt = ek.build_prompt("correctness", {"question": "2 + 2?", "answer": "4", "reference": "4"})
    plain = [{"role": message.role, "content": message.content} for message in prompt.messages]
    assert [message.role for message in prompt.messages] == ["system", "user"]
    assert list(prompt.messages) == plain
    assert all(isinstance(message, dict) and {**message} == message for message in prompt.messages)
    assert json.loads(json.dumps(prompt.messages)) == orjson.loads(orjson.dumps(prompt.messages)) == plain
    for copied in (pickle.loads(pickle.dumps(prompt)), copy.deepcopy(prompt), copy.copy(prompt)):
        assert (copied, copied.messages, hash(copied.messages)) == (prompt, prompt.messages, hash(prompt.messages))
        assert all(type(message) is Message for message in copied.messages)
    message = prompt.messages[0]
    assert type(message.copy()) is dict
    for change in (
        lambda: message.update(role="user"), lambda: message.pop("role"), lambda: message.__setitem__("role", "user"),
        lambda: message.setdefault("name", "x"), lambda: message.clear(),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=r"are read-only; change copies: \[dict\(m\) for m in prompt\.messages\]"):
            change()
    assert (message.role, Prompt.origin) == ("system", None)
