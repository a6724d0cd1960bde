"""What a judge reads of messages with all the fields that tools keep: each piece once and in order, and no notes."""

from __future__ import annotations

import base64
import copy
import json
import random
import re
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError
from evalkit.tables import split_messages
from evalkit.tables.message_fields import fields_beside, kind_of_files
from evalkit.tables.message_forms import shown_value, unseen
from evalkit.tables.messages import messages_of

NOTES: list[dict[str, Any]] = [
    {"model": "SECRET"}, {"model_name": "SECRET"}, {"modelId": "SECRET"}, {"llm_model_name": "SECRET"},
    {"response_metadata": {"model_name": "SECRET", "finish_reason": "stop"}}, {"usage_metadata": {"SECRET": 1}},
    {"metadata": {"model": "SECRET", "userRating": "SECRET"}}, {"feedback": "SECRET"}, {"score": "SECRET"},
    {"annotator_verdict": "SECRET"}, {"rating": {"by": "SECRET"}}, {"human_rating": "SECRET"}, {"thumbs_up": "SECRET"},
    {"created_at": "SECRET"}, {"timestamp": "SECRET"}, {"message_id": "SECRET"}, {"uuid": "SECRET"},
    {"reward": "SECRET"},
    {"total_tokens": "SECRET"}, {"usage": {"cost": "SECRET"}}, {"modelName": "SECRET"}, {"quality_score": "SECRET"},
    {"extra": {"response": {"choices": [{"message": {"role": "assistant", "content": "SECRET"}}], "model": "SECRET"}}},
    {"metadata": {"runs": [{"model": "SECRET"}, {"cost": "SECRET"}]}}, {"toxic": "SECRET"}, {"moderation": "SECRET"},
    {"extra_info": {"upvotes": "SECRET", "engine": "SECRET"}}, {"provider": "SECRET"}, {"system_fingerprint": "SECRET"},
]  # fmt: skip
FILES: list[dict[str, Any]] = [
    {"files": ["https://shop.example/a.png"]}, {"files": [{"name": "r.pdf", "url": "https://shop.example/r"}]},
    {"files": [{"path": "/a"}]}, {"attachments": ["https://shop.example/a"]}, {"attachments": [{"name": "x.docx"}]},
    {"image": "https://shop.example/a"}, {"image_url": {"url": "https://shop.example/a"}}, {"imageUrls": ["a.png"]},
    {"media": [{"mime_type": "video/mp4", "uri": "gs://a"}]}, {"file_ids": ["file-1"]}, {"audio": "a.wav"},
    {"documents": [{"id": "d", "url": "https://shop.example/d.pdf"}]}, {"user_files": ["notes.xlsx"]},
    {"experimental_attachments": [{"name": "a", "url": "blob:a"}]}, {"video_url": "https://shop.example/v"},
    {"metadata": {"attachments": [{"name": "a.pdf"}]}}, {"additional_kwargs": {"images": ["a"]}}, {"photos": ["a.jpg"]},
]  # fmt: skip
Steps = list[tuple[str, str]]


class Pieces:
    """Texts that can be told apart, in the order in which they were said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def new(self) -> str:
        self.said.append(f"piece{len(self.said)}.")
        return self.said[-1]


def call(step: tuple[str, str], at: int, **named: Any) -> dict[str, Any]:
    return {"id": f"c{at}", "type": "function", "function": {"name": "look", "arguments": json.dumps({"at": step[0]})}}


def user(text: str, **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **fields}


def as_openai(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for at, step in enumerate(steps) for one in (
        {"role": "assistant", "content": None, "tool_calls": [call(step, at)]},
        {"role": "tool", "tool_call_id": f"c{at}", "content": step[1]},
    )]  # fmt: skip
    return [user(question), *done, {"role": "assistant", "content": answer, "refusal": None}]


def as_langchain(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for at, step in enumerate(steps) for one in (
        {"type": "ai", "content": [{"type": "tool_use", "id": f"c{at}", "name": "look", "input": {"at": step[0]}}],
         "tool_calls": [{"name": "look", "args": {"at": step[0]}, "id": f"c{at}", "type": "tool_call"}],
         "additional_kwargs": {"tool_calls": [call(step, at)]}, "example": False},
        {"type": "tool", "content": step[1], "tool_call_id": f"c{at}", "status": "success"},
    )]  # fmt: skip
    blocks = {"content_blocks": [{"type": "text", "text": answer}]}
    return [{"type": "human", "content": question}, *done, {"type": "ai", "content": answer, **blocks}]


def as_ai_sdk_4(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    invoked = [
        {"state": "result", "toolCallId": f"c{at}", "toolName": "look", "args": {"at": step[0]}, "result": step[1]}
        for at, step in enumerate(steps)
    ]
    parts = [{"type": "tool-invocation", "toolInvocation": one} for one in invoked]
    mine = {"id": "m", "role": "assistant", "content": answer, "toolInvocations": invoked}
    return [user(question, parts=[{"type": "text", "text": question}]),
            mine | {"parts": [{"type": "step-start"}, *parts, {"type": "text", "text": answer}]}]  # fmt: skip


def as_ai_sdk_5(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    parts = [
        {"type": "tool-look", "toolCallId": f"c{at}", "state": "output-available", "input": {"at": step[0]}}
        | ({"output": step[1]} if at % 2 else {"state": "output-error", "errorText": step[1]})
        for at, step in enumerate(steps)
    ]
    told = [{"type": "step-start"}, *parts, {"type": "text", "text": answer, "state": "done"}]
    return [{"id": "u", "role": "user", "parts": [{"type": "text", "text": question}]},
            {"id": "m", "role": "assistant", "parts": told}]  # fmt: skip


def as_responses(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for at, step in enumerate(steps) for one in (
        {"type": "function_call", "id": f"fc{at}", "call_id": f"c{at}", "name": "look", "status": "completed",
         "arguments": json.dumps({"at": step[0]})},
        {"type": "function_call_output", "call_id": f"c{at}", "output": step[1]},
    )]  # fmt: skip
    content = [{"type": "output_text", "text": answer, "annotations": []}]
    return [user(question), *done, {"type": "message", "id": "m", "role": "assistant", "content": content}]


def as_gemini(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for step in steps for one in (
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {"at": step[0]}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"r": step[1]}}}]},
    )]  # fmt: skip
    return [{"role": "user", "parts": [{"text": question}]}, *done, {"role": "model", "parts": [{"text": answer}]}]


def as_telemetry(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for at, step in enumerate(steps) for one in (
        {"role": "assistant",
         "parts": [{"type": "tool_call", "id": f"c{at}", "name": "look", "arguments": {"at": step[0]}}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"c{at}", "response": step[1]}]},
    )]  # fmt: skip
    return [{"role": "user", "parts": [{"type": "text", "content": question}]}, *done,
            {"role": "assistant", "parts": [{"type": "text", "content": answer}], "finish_reason": "stop"}]  # fmt: skip


def as_autogen(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for at, step in enumerate(steps) for one in (
        {"role": "assistant", "content": "", "tool_calls": [call(step, at)]},
        {"role": "tool", "content": step[1],
         "tool_responses": [{"tool_call_id": f"c{at}", "role": "tool", "content": step[1]}]},
    )]  # fmt: skip
    return [user(question), *done, {"role": "assistant", "content": answer}]


def as_swe_agent(question: str, steps: Steps, answer: str) -> list[dict[str, Any]]:
    done = [one for step in steps for one in (
        {"role": "assistant", "content": f"Do:\n```\n{step[0]}\n```", "thought": "Do:", "action": f"{step[0]}\n"},
        {"role": "tool", "content": step[1]},
    )]  # fmt: skip
    return [user(question), *done, {"role": "assistant", "content": answer, "thought": answer, "action": ""}]


FORMS = (as_openai, as_langchain, as_ai_sdk_4, as_ai_sdk_5, as_responses, as_gemini, as_telemetry, as_autogen,
         as_swe_agent)  # fmt: skip


def log_of(draw: random.Random, form: Any, pieces: Pieces) -> Any:
    """A conversation of two turns, with notes and unknown fields, perhaps its answer once more, and an empty end."""
    rules = pieces.new()
    turns = [
        (pieces.new(), [(pieces.new(), pieces.new()) for _ in range(draw.randint(0, 2))], pieces.new())
        for _ in range(2)
    ]
    messages = [one for turn in turns for one in form(*turn)]
    for one in messages:
        one |= draw.choice(NOTES) if draw.random() < 0.7 and "role" in one else {}
    ending = draw.choice([{}, {"choices": [{"message": {"role": "assistant", "content": turns[1][2]}}]},
                          {"output": turns[1][2]}, {"response": {"content": turns[1][2]}}])  # fmt: skip
    if not ending and form in (as_openai, as_autogen):
        messages += draw.choice([[], [{"role": "assistant", "content": empty} for empty in ([], None, "")]])
    name = draw.choice(["instructions", "system", "system_prompt", "systemPrompt"])
    return {name: rules, "messages": messages, "model": "SECRET", **ending}


def apart(log: Any) -> pd.DataFrame:
    return split_messages(pd.DataFrame({"item_id": ["a"], "log": pd.Series([log], dtype=object)}), "log")


@pytest.mark.long
def test_each_piece_is_shown_once_and_in_order_and_no_note_at_all():
    draw = random.Random(11)
    for turn in range(450):
        pieces, form = Pieces(), FORMS[turn % len(FORMS)]
        items = apart(log_of(draw, form, pieces))
        prompt = str(ek.build_prompt("helpfulness", items))
        assert "SECRET" not in prompt, (form.__name__, prompt)
        *before, answer = pieces.said
        question = items["question"][0]
        assert items["answer"][0] == answer, form.__name__
        found = re.findall(r"piece\d+\.", prompt)
        assert sorted(found) == sorted(pieces.said), (form.__name__, prompt)
        assert [one for one in found if one not in (question, answer)] == [one for one in before if one != question]
        # an unknown field of any message is read as well; a field that holds a file leaves the item unscored
        log = copy.deepcopy(items["log"][0])
        full = [at for at, one in enumerate(log["messages"]) if one.keys() - {"role", "content"} or one["content"]]
        place = draw.choice(full)
        log["messages"][place] |= {"mood": "weary", "quoted": {"text": "wise"}}
        known = messages_of(log)
        assert str(ek.build_prompt("helpfulness", apart(log))).count("weary") == 1, (form.__name__, log)
        assert messages_of(known) == known
        log["messages"][place] |= draw.choice(FILES)
        assert unseen(shown_value(messages_of(log))), (form.__name__, log["messages"][place])


@pytest.mark.parametrize("fields", FILES, ids=range(len(FILES)))
def test_files_beside_a_question_an_answer_and_a_result_are_never_judged(fields: dict[str, Any]):
    done = {"role": "assistant", "content": "", "tool_calls": [call(("x", ""), 0)]}
    result = {"role": "tool", "tool_call_id": "c0", "content": "r"}
    for talk in ([user("Q", **fields), {"role": "assistant", "content": "A"}],
                 [user("Q"), {"role": "assistant", "content": "A", **fields}],
                 [user("Q"), done, result | fields, {"role": "assistant", "content": "A"}],
                 {"messages": [user("Q"), {"role": "assistant", "content": "A"}], "files": ["a.pdf"]}):  # fmt: skip
        with pytest.warns(ek.errors.EvalkitWarning, match="an image or a file"):
            table = ek.judge(apart(talk), "helpfulness", "fake:strict", samples=1, progress=False)
        assert table["error"].astype(str).str.startswith("unseen_").all()


def test_words_in_fields_that_may_hold_files_are_read():
    for name, value in (("documents", ["It opens at nine o'clock."]), ("documents", [{"text": "It opens at nine."}]),
                        ("attachments", [{"name": "a.txt", "content": "It opens at nine."}]), ("image", False),
                        ("profile", "a.png"), ("media", [])):  # fmt: skip
        assert kind_of_files(name, value) is None, (name, value)


def head(kind: str, data: bytes) -> tuple[str, str]:
    return kind, base64.b64encode(data + random.Random(1).randbytes(500)).decode()


STARTS = [
    head("image", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), head("image", b"\xff\xd8\xff\xe0\0\x10JFIF"),
    head("image", b"GIF89a"),
    head("image", b"RIFF\x24\1\0\0WEBP"), head("image", b"BM\xf4\1\0\0\0\0\0\0\x36\0\0\0"), head("image", b"II*\0"),
    head("image", b"MM\0*\0\0"), head("image", b"\0\0\0\x18ftypheic"), head("audio", b"RIFF\x24\1\0\0WAVEfmt "),
    head("audio", b"ID3\4\0"), head("audio", b"\xff\xfb\x90\x44"), head("audio", b"OggS\0\2"),
    head("audio", b"fLaC\0\0"),
    head("video", b"\0\0\0\x20ftypisom"), head("file", b"%PDF-1.7\n"), head("file", b"PK\3\4\x14\0"),
    head("file", bytes.fromhex("d0cf11e0a1b11ae1")), head("file", b"\x1f\x8b\x08\0"),
    head("file", b"SQLite format 3\0"),
]  # fmt: skip


def test_files_are_known_by_how_their_content_starts_whatever_wraps_them():
    for kind, data in STARTS:
        wrapped = "\n".join(data[at : at + 76] for at in range(0, len(data), 76))
        for text in (json.dumps({"file": data}), json.dumps({"file": data}).replace("/", "\\/"), f"see {data}", wrapped,
                     json.dumps({"file": data}).replace("/", "\\u002f").replace("+", "\\u002b"),
                     json.dumps({"out": f"it is:\n{wrapped}"}), json.dumps(json.dumps({"file": data})),
                     f"data:application/octet-stream;base64,{data}"):  # fmt: skip
            marked = shown_value(text)
            assert unseen(marked) == ("file" if text.startswith("data:") else kind), text[:80]
            assert data[200:230] not in json.dumps(marked), (kind, text[:80])


def test_an_answer_in_the_conversation_of_an_item_is_shown_once():
    earlier = [user("First?"), {"role": "assistant", "content": "One."}]
    asked, answered = user("Then?"), {"role": "assistant", "content": "Two."}
    item = {"question": "Then?", "answer": "Two.", "conversation": [*earlier, asked, answered]}
    prompt = str(ek.build_prompt("helpfulness", [item]))
    assert [prompt.count(one) for one in ("First?", "One.", "Then?", "Two.")] == [1, 1, 1, 1]
    assert str(ek.build_prompt("helpfulness", [item | {"conversation": earlier}])) == prompt
    without = {name: value for name, value in item.items() if name != "conversation"}
    assert str(ek.build_prompt("helpfulness", [item | {"conversation": [asked, answered]}])) == str(
        ek.build_prompt("helpfulness", [without])
    )
    log = [{"from": "human", "value": "Q", "mood": "weary"}, {"from": "gpt", "value": "A", "score": 3}]
    assert apart(log)[["question", "answer"]].to_numpy().tolist() == [['Q\n{\n  "mood": "weary"\n}', "A"]]
    # the same words as an answer to another question stay
    item = {"question": "Again?", "answer": "One.", "conversation": earlier}
    assert str(ek.build_prompt("helpfulness", [item])).count("One.") == 2


def test_what_is_nested_very_deep_is_read_and_lists_are_no_keys():
    deep = json.loads("[" * 400 + "]" * 400)
    talk = [user("Q"), {"role": "tool", "content": {"a": deep}}, {"role": "assistant", "content": "A"}]
    table = ek.judge(apart(talk), "helpfulness", "fake:strict", samples=1, progress=False)
    assert table["score"].notna().all()
    scores = pd.DataFrame({"item_id": ["a", "b"], "score": [1, 2], "tags": [["x"], ["y"]]})
    with pytest.raises(InputError, match="column 'tags' has a list in a cell; keep one text or number"):
        ek.summarize(scores, by="tags", scale=(0, 2))
    with pytest.raises(InputError, match="column 'item_id' has a list in a cell"):
        ek.summarize(scores.assign(item_id=[["a"], ["b"]]), scale=(0, 2))


def test_names_that_are_texts_are_read_in_linear_time_and_are_neither_notes_nor_files():
    for piece in ("score_", "latency_", "model_", "image_", "a_", "A", "- ", "call_"):
        for name in (piece * 30_000 + "!", piece * 30_000, f"model_{piece * 30_000}"):
            assert fields_beside({"role": "user", "content": "x", name: "y"}) == {name: "y"}
            assert kind_of_files(name, ["y"]) is None
