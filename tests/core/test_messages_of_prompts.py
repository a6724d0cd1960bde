"""A prompt's messages, as clients take them and as earlier evalkits pickled them."""

from __future__ import annotations

import base64
import copy
import json
import pickle

import orjson
import pytest

import evalkit as ek
from evalkit.core.prompts_and_replies import Message, Prompt

BY_AN_EARLIER_EVALKIT = {
    2: (
        "fC6J>c42I5X>=}QZ*pZWaB^>LaCCEDVQyq!a%FIAX=QT?O=WX)VP|CuaR4cSaRFU%0w`Dp0001Ud2@7SZE*uw2><{9N_Avs"
        "WguyEE^!29VrT#<fpG<0aRw+@1ONa4b#rBMaR*oi0000oAS)m;KXC|UVuo=EE&"
    ),
    5: (
        "fCZIl000000001tAZ2!8Y-?$BE@N+UWiD`XZ*6dNb6;U@WM6V+aBOL1bCiq+O=WX)VP|EOlawielwFi4j0SUgb97~Gl#B^V"
        "b!2B{AZc_ilx1RQ0x5x%U6d${1a)&|a+Hh)G9W7;GC!1MVuqA1"
    ),
}
"""A tuple of two messages, pickled when `Message` was a frozen dataclass with slots; by protocol."""


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


@pytest.mark.parametrize("protocol", BY_AN_EARLIER_EVALKIT)
def test_messages_that_an_earlier_evalkit_pickled_open(protocol: int) -> None:
    messages = pickle.loads(base64.b85decode(BY_AN_EARLIER_EVALKIT[protocol]))
    assert messages == (Message("system", "Judge it."), Message("user", "2 + 2?"))
    assert [(message.role, message["content"]) for message in messages] == [("system", "Judge it."), ("user", "2 + 2?")]
