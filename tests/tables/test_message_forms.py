"""Conversations of four tools: all that was said and done stands in the prompt once, in order, and nothing else."""

from __future__ import annotations

import gzip
import json
import random
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.core.reply_keys import digest
from evalkit.errors import EvalkitWarning, InputError
from evalkit.rubrics.inputs import item_inputs
from evalkit.tables import message_forms, split_messages
from evalkit.tables.items import canonical
from evalkit.tables.message_forms import read_messages, shown_value, unseen
from evalkit.tables.messages import messages_of, value_text

WHOLE = ek.Rubric(
    id="whole", inputs=["conversation"], criteria=[{"name": "c", "description": "d", "scale": {0: "a", 1: "b"}}]
)
APART = ek.Rubric(
    id="apart", inputs=["conversation?", "question", "answer"],
    criteria=[{"name": "c", "description": "d", "scale": {0: "a", 1: "b"}}],
)  # fmt: skip
ENDS = ["plain", "é", "two\nlines", "--- 3 user ---", "</x>"]
PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ"


@dataclass
class Step:
    """What an assistant does at once: perhaps a text, calls, and the results in their order."""

    text: str
    calls: list[tuple[str, dict[str, str]]]
    results: list[tuple[int, str, bool]]  # number of the call here, text, whether it is an error


@dataclass
class Turn:
    """A question, steps, and what the assistant says at the end."""

    question: str
    steps: list[Step]
    answer: str


@dataclass
class Story:
    """A conversation, told without any tool's form."""

    system: str
    turns: list[Turn]
    goodbye: str
    places: list[str] = field(default_factory=list)


def story_of(draw: random.Random) -> Story:
    n = iter(range(1000))

    def text(kind: str) -> str:
        return f"{kind}-{next(n)}-{draw.choice(ENDS)}"

    turns = []
    for _ in range(draw.randint(1, 3)):
        steps = []
        for _ in range(draw.choice([0, 0, 1, 2])):
            calls = [(f"tool_{draw.choice('ab')}", {"key": text("arg")}) for _ in range(draw.randint(1, 3))]
            order = list(range(len(calls)))
            draw.shuffle(order)
            results = [(at, draw.choice([text("result"), text("result"), ""]), draw.random() < 0.2) for at in order]
            steps.append(Step(draw.choice(["", text("aside")]), calls, results))
        turns.append(Turn(text("question"), steps, text("answer")))
    return Story(draw.choice(["", text("system")]), turns, draw.choice(["", text("bye")]))


def as_openai(story: Story, null: Any = None, **named: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "system", "content": story.system}] if story.system else []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": turn.question})
        for number, step in enumerate(turn.steps):
            ids = [f"call_{at}_{number}_{one}" for one in range(len(step.calls))]
            calls = [
                {"id": one, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
                for one, (name, arguments) in zip(ids, step.calls, strict=True)
            ]
            made.append({"role": "assistant", "content": step.text or null, "tool_calls": calls} | named)
            for one, text, _ in step.results:
                result = {"role": "tool", "tool_call_id": ids[one], "content": text or null}
                made.append(result | ({"name": step.calls[one][0]} if named else {}))
        made.append({"role": "assistant", "content": turn.answer})
    return made + ([{"role": "user", "content": story.goodbye}] if story.goodbye else [])


def as_tau(story: Story) -> dict[str, Any]:
    return {"task_id": 1, "traj": as_openai(story, function_call=None), "reward": 0.0}


def as_anthropic(story: Story) -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": [{"type": "text", "text": turn.question}]})
        for number, step in enumerate(turn.steps):
            uses = [
                {"type": "tool_use", "id": f"toolu_{at}_{number}_{one}", "name": name, "input": arguments}
                for one, (name, arguments) in enumerate(step.calls)
            ]
            made.append({"role": "assistant", "content": [*([_text(step.text)] if step.text else []), *uses]})
            results = [
                {"type": "tool_result", "tool_use_id": uses[one]["id"], "content": [_text(text)] if text else None}
                | ({"is_error": True} if is_error else {})
                for one, text, is_error in step.results
            ]
            made.append({"role": "user", "content": results})
        made.append({"role": "assistant", "content": [_text(turn.answer)]})
    if story.goodbye:
        made.append({"role": "user", "content": story.goodbye})
    return {"system": [_text(story.system)], "messages": made} if story.system else {"messages": made}


def as_inspect(story: Story) -> dict[str, Any]:
    made: list[dict[str, Any]] = [{"id": "m", "role": "system", "content": story.system}] if story.system else []
    for at, turn in enumerate(story.turns):
        made.append({"id": f"u{at}", "role": "user", "source": "input", "content": turn.question})
        for number, step in enumerate(turn.steps):
            calls = [
                {"id": f"{at}.{number}.{one}", "function": name, "arguments": arguments, "type": "function"}
                for one, (name, arguments) in enumerate(step.calls)
            ]
            said = {"role": "assistant", "source": "generate", "model": "m", "content": step.text, "tool_calls": calls}
            made.append(said)
            for one, text, is_error in step.results:
                error = {"error": {"type": "unknown", "message": text}} if is_error and text else {}
                result = {"role": "tool", "tool_call_id": calls[one]["id"], "function": calls[one]["function"]}
                made.append(result | {"content": "" if error else text} | error)
        made.append({"id": f"a{at}", "role": "assistant", "source": "generate", "content": turn.answer})
    if story.goodbye:
        made.append({"role": "user", "content": story.goodbye})
    return {"id": "s", "messages": made, "attachments": {}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def as_bedrock(story: Story) -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": [{"text": turn.question}]})
        for number, step in enumerate(turn.steps):
            ids = [f"tooluse_{at}_{number}_{one}" for one in range(len(step.calls))]
            uses = [
                {"toolUse": {"toolUseId": one, "name": name, "input": arguments}}
                for one, (name, arguments) in zip(ids, step.calls, strict=True)
            ]
            made.append({"role": "assistant", "content": [*([{"text": step.text}] if step.text else []), *uses]})
            results = [
                {
                    "toolResult": {
                        "toolUseId": ids[one], "content": [{"text": text}] if text else [],
                        "status": "error" if is_error else "success",
                    }
                }
                for one, text, is_error in step.results
            ]  # fmt: skip
            made.append({"role": "user", "content": results})
        made.append({"role": "assistant", "content": [{"text": turn.answer}]})
    if story.goodbye:
        made.append({"role": "user", "content": [{"text": story.goodbye}]})
    return {"system": [{"text": story.system}], "messages": made} if story.system else {"messages": made}


def as_ai_sdk(story: Story) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = [{"role": "system", "content": story.system}] if story.system else []
    for at, turn in enumerate(story.turns):
        made.append({"role": "user", "content": turn.question})
        for number, step in enumerate(turn.steps):
            calls = [
                {"toolCallId": f"{at}.{number}.{one}", "toolName": name, "input": arguments}
                for one, (name, arguments) in enumerate(step.calls)
            ]
            text = [{"type": "text", "text": step.text}] if step.text else []
            parts = [*text, *({"type": "tool-call"} | call for call in calls)]
            made.append({"role": "assistant", "content": parts})
            results = [calls[one] | {"type": "tool-result", "output": text} for one, text, _ in step.results]
            for result in results:
                del result["input"]
            made.append({"role": "tool", "content": results})
        made.append({"role": "assistant", "content": turn.answer})
    return made + ([{"role": "user", "content": story.goodbye}] if story.goodbye else [])


FORMS = {
    "openai": as_openai, "tau": as_tau, "anthropic": as_anthropic, "inspect": as_inspect, "bedrock": as_bedrock,
    "ai sdk": as_ai_sdk,
}  # fmt: skip


def told(story: Story) -> list[tuple[str, str]]:
    """Who said and did what, in order: written from the story, not from a form."""
    made = [("system", story.system)] if story.system else []
    number = 0
    for turn in story.turns:
        made.append(("user", turn.question))
        for step in turn.steps:
            first = number + 1
            made += [("assistant", step.text)] if step.text else []
            for name, arguments in step.calls:
                number += 1
                made.append((f"assistant: call {number}, {name}", arguments["key"]))
            made += [
                (f"tool: result of call {first + one}, {step.calls[one][0]}", text) for one, text, _ in step.results
            ]
        made.append(("assistant", turn.answer))
    return made + ([("user", story.goodbye)] if story.goodbye else [])


def shown(prompt: Any, name: str = "conversation") -> list[tuple[str, str]]:
    """Headings and texts of an input, as a judge sees them; JSON strings and marks of errors as their texts."""
    text = str(prompt)
    fence = re.search(rf"<{name}-(\w+)>\n(.*)\n</{name}-\1>", text, re.DOTALL)
    if fence is None:
        return []
    parts = re.split(rf"(?:^|\n)--- (\d+) (.*?) \({fence[1]}\) ---\n", fence[2])
    pairs = zip(parts[2::3], parts[3::3], strict=True)
    return [(heading.removesuffix(", error"), _plain(text)) for heading, text in pairs]


def _plain(text: str) -> str:
    if text.startswith('{"key"'):
        return str(json.loads(text)["key"])
    return text.removeprefix("unknown: ")


@pytest.mark.long
def test_all_that_was_said_and_done_stands_in_the_prompt_once_and_in_order():
    draw = random.Random(7)
    for _ in range(150):
        story = story_of(draw)
        expected = told(story)
        last = story.turns[-1]
        for name, form in FORMS.items():
            log = form(story)
            whole = ek.build_prompt(WHOLE, {"conversation": log})
            assert shown(whole) == expected, name
            items = split_messages(pd.DataFrame({"log": pd.Series([log], dtype=object)}), "log")
            assert (items["question"][0], items["answer"][0]) == (last.question, last.answer), name
            # before the question, a mark in its place, and what came between it and the answer
            asked = next(at for at, (_, text) in enumerate(expected) if text == last.question)
            answered = next(at for at, (_, text) in enumerate(expected) if text == last.answer)
            between = expected[asked + 1 : answered]
            found = shown(ek.build_prompt(APART, items))
            assert [one for one in found if one[0] != "question"] == expected[:asked] + between, name
            places = [at for at, (heading, _) in enumerate(found) if heading == "question"]
            assert places == ([asked] if between else []), name
            whole_text = value_text(log, "conversation")
            assert all(text in whole_text for heading, text in expected if "call" not in heading), name


@pytest.mark.long
def test_a_conversation_has_one_key_however_it_came():
    draw = random.Random(11)
    for _ in range(60):
        story = story_of(draw)

        def key(value: Any) -> str:
            return digest(item_inputs(WHOLE, {"conversation": [value]}, 1)[0])

        log = as_openai(story)
        missing = [{name: value for name, value in one.items() if value is not None} for one in log]
        unnamed = json.loads(json.dumps(log).replace('"call_', '"chatcmpl-tool-'))
        for other in (as_openai(story, null=""), missing, unnamed, as_tau(story), json.dumps(as_tau(story))):
            frame = pd.DataFrame({"conversation": pd.Series([other], dtype=object)})
            assert key(canonical(frame["conversation"][0])) == key(canonical(log))
        read = messages_of(log)
        assert read_messages(read) == read, "what was read once is read as it is"
        assert key(read) == key(canonical(log))


IMAGES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "https://shop.example/a.png"}},
    {"type": "image_url", "image_url": PICTURE},
    {"type": "input_image", "image_url": PICTURE, "detail": "auto"},
    {"type": "input_image", "file_id": "file-1"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE[22:]}},
    {"type": "image", "source": {"type": "url", "url": "https://shop.example/a.png"}},
    {"type": "image", "image": "attachment://9c1d", "detail": "auto"},
    {"type": "image", "image": PICTURE},
    {"type": "image", "data": PICTURE[22:], "mimeType": "image/png"},
    {"type": "text", "text": f"see ![it]({PICTURE}) here"},
    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image", "source": {"data": PICTURE[22:]}}]},
    {"type": "tool_result", "tool_use_id": "t", "content": json.dumps({"screenshot": PICTURE})},
    {"type": "image", "source_type": "base64", "mime_type": "image/png", "data": PICTURE[22:]},  # LangChain
    {"type": "image", "source_type": "url", "url": "https://shop.example/a.png"},
    {"type": "image", "url": "https://shop.example/base64,a/" + 40 * "a"},
    {"image": {"format": "png", "source": {"bytes": PICTURE[22:]}}},  # Bedrock
    {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://shop/a.png"}}}},
    {"toolResult": {"toolUseId": "t", "content": [{"image": {"format": "png", "source": {"bytes": PICTURE[22:]}}}]}},
    {"type": "file", "mediaType": "image/png", "url": "https://shop.example/a"},  # AI SDK
    {"type": "image-url", "url": "https://shop.example/a"},
    {"inline_data": {"mime_type": "image/png", "data": PICTURE[22:]}},  # Gemini
    {"fileData": {"mimeType": "image/png", "fileUri": "gs://shop/a"}, "thoughtSignature": "x"},
    {"type": "uri", "modality": "image", "uri": "gs://shop/a"},  # OpenTelemetry
    {"url": "https://shop.example/a", "kind": "image-url"},  # Pydantic AI
    {"image": "https://shop.example/a.png"},  # DashScope
    {"type": "computer_screenshot", "image_url": "https://shop.example/a.png"},
    {"type": "text", "text": "see @@@langfuseMedia:type=image/jpeg|id=7f|source=base64_data_uri@@@ here"},
]  # fmt: skip
FIELDS: list[dict[str, Any]] = [  # beside a text
    {"images": [PICTURE[22:]]}, {"images": ["https://shop.example/a.png"]},
    {"images": [{"type": "image_url", "image_url": {"url": PICTURE}}]},
    {"experimental_attachments": [{"name": "a.png", "contentType": "image/png", "url": "https://shop.example/a"}]},
    {"attachments": [{"mime_type": "image/png", "url": "https://shop.example/a"}]},
    {"screenshot": PICTURE},
]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("part", IMAGES, ids=range(len(IMAGES)))
def test_an_image_is_never_a_text_and_its_item_is_unscored_with_a_reason(part: dict[str, Any]):
    asked: list[str] = []

    @ek.Judge.function(name="eye", version="1")
    def eye(prompt: Any) -> str:
        asked.append(str(prompt))
        return '{"explanation": "x", "score": 1}'

    content = [{"type": "text", "text": "before"}, part, {"type": "text", "text": "after"}]
    talk = [{"role": "user", "content": content}, {"role": "assistant", "content": "A kettle."}]
    items = [{"item_id": "a", "conversation": talk}, {"item_id": "b", "conversation": [talk[1]]}]
    prompt = str(ek.build_prompt(WHOLE, items[0]))
    assert "iVBOR" not in prompt
    assert prompt.index("before") < prompt.index("image, not shown") < prompt.index("after")
    with pytest.warns(EvalkitWarning, match=r"1 of 2 items have an image or a file in an input \(item 'a'\)"):
        table = ek.judge(items, WHOLE, eye, samples=1, progress=False)
    assert table["error"].astype(object).fillna("").tolist() == ["unseen_image", ""]
    assert (len(asked), table["score"].notna().tolist()) == (1, [False, True])
    assert "image" in ek.explain(table)["what_to_do"][0]
    with pytest.warns(EvalkitWarning, match="an image"):
        made = ek.plan(items, WHOLE, eye, samples=1)
    assert str(made).startswith("2 items (1 skipped for an image or a file), 1 judgment: 1 cached")
    # as the question of an item, too
    check_skipped(talk, eye)


def check_skipped(talk: Any, judge: Any) -> None:
    split = split_messages(pd.DataFrame({"item_id": ["a"], "log": pd.Series([talk], dtype=object)}), "log")
    with pytest.warns(EvalkitWarning, match="an image"):
        assert ek.judge(split, APART, judge, samples=1, progress=False)["error"].tolist() == ["unseen_image"]


@pytest.mark.parametrize(("cell", "error"), [
    ({"bytes": None, "path": "shop/a.JPG"}, "image"), ({"bytes": None, "path": "a.wav"}, "file"),
    ({"bytes": PICTURE[22:], "path": None}, "file"), ({"path": "a.png"}, "image"),
    ({"array": [0.0, 0.1], "path": "a", "sampling_rate": 16000}, "file"),
    ({"src": "https://shop.example/a", "height": 3, "width": 4}, "image"),
    ("<PIL.PngImagePlugin.PngImageFile image mode=RGB size=10x12 at 0x7F1C3A>", "image"),
    ("[<PIL.Image.Image image mode=I;16 size=10x12 at 0x7f1c3a>]", "image"),
    ("{'bytes': None, 'path': 'a.png'}", "image"),
    ("{'bytes': b'\\x89PNG\\r\\n', 'path': None}", "image"),
    # no cells of such columns
    ({"bytes": 3, "path": "a"}, ""), ({"path": "/home"}, ""), ({"call": {"path": "a.png"}}, ""),
    ({"src": "a", "height": 3}, ""), ({"bytes": 1024}, ""),
    ("It printed <PIL.Image.Image image mode=RGB size=10x12 at 0x7F1C3A>", ""), ("{'bytes': 3, 'path': 'a.png'}", ""),
    ("<PIL.Image.Image image mode=RGB size=10x12 at 0x7F1C3A> is what it printed", ""),
])  # fmt: skip
def test_cells_of_columns_of_images_and_recordings_are_no_texts(cell: Any, error: str):
    item = {"question": "Which one?", "answer": cell}
    rubric = ek.Rubric(id="cells", inputs=["question", "answer"], criteria=[{"name": "c", "scale": {0: "", 1: ""}}])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        table = ek.judge([item], rubric, "fake:strict", samples=1, progress=False)
    assert table["error"].astype(object).fillna("").tolist() == [f"unseen_{error}" if error else ""]


@pytest.mark.parametrize("fields", FIELDS, ids=range(len(FIELDS)))
def test_an_image_beside_the_text_of_a_question_or_an_answer_is_a_part_of_it(fields: dict[str, Any]):
    asked, answered = {"role": "user", "content": "What is it?"}, {"role": "assistant", "content": "A kettle."}
    for talk in ([asked | fields, answered], [asked, answered | fields], [asked, answered | fields, asked]):
        check_skipped(talk, "fake:strict")
        assert read_messages(messages_of(talk)) == messages_of(talk)
        assert "iVBOR" not in str(ek.build_prompt(WHOLE, {"conversation": talk}))


@pytest.mark.parametrize("part", [
    {"document": {"format": "pdf", "name": "a", "source": {"bytes": "JVBE" * 30}}},
    {"fileData": {"fileUri": "gs://a/b"}},
    {"type": "document_url", "document_url": "https://shop.example/a.pdf"},
    {"type": "container_upload", "file_id": "f"},
    {"type": "blob", "mime_type": "audio/wav", "content": "UklG" * 30},
    {"type": "tool-result", "toolCallId": "t", "output": {"value": [{"mediaType": "audio/wav", "data": "iV"}]}},
    {"type": "resource", "resource": {"uri": "shop://a", "mimeType": "application/pdf", "blob": "iVBO"}},  # MCP
])  # fmt: skip
def test_other_files_in_their_own_forms_are_marked(part: dict[str, Any]):
    talk = [{"role": "user", "content": [{"type": "text", "text": "Read:"}, part]}]
    assert unseen(shown_value(canonical(talk))) in ("file", "audio")


def test_documents_of_texts_are_read():
    part = {"document": {"format": "txt", "name": "plan", "source": {"text": "Walk."}}}
    (message,) = messages_of([{"role": "user", "content": [part, {"text": "Read."}]}])
    assert message["content"] == "plan\nWalk.\nRead."


def test_calls_of_the_ai_sdk_4_are_read():
    invoked = [
        {"state": "result", "toolCallId": "c", "toolName": "order", "args": {"id": 7}, "result": "on truck 3"},
        {"state": "call", "toolCallId": "d", "toolName": "close", "args": {}},
    ]
    talk = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "On truck 3.", "toolInvocations": invoked},
    ]  # fmt: skip
    items = split_messages(pd.DataFrame({"log": pd.Series([talk], dtype=object)}), "log")
    assert (items["question"][0], items["answer"][0]) == ("Where?", "On truck 3.")
    assert [one for one in shown(ek.build_prompt(APART, items)) if one[0] != "question"] == [
        ("assistant: call 1, order", '{"id":7}'), ("tool: result of call 1, order", "on truck 3"),
        ("assistant: call 2, close", "{}"),
    ]  # fmt: skip


def test_the_answer_beside_the_messages_of_an_object_is_the_last_message():
    asked, answered = {"role": "user", "content": "Where?"}, {"role": "assistant", "content": "On truck 3."}
    for beside in (
        {"choices": [{"index": 0, "message": answered}]}, {"response": {"choices": [{"message": answered}]}},
        {"choices": [{"text": "On truck 3."}]}, {"output": answered}, {"completion": "On truck 3."},
        {"response": {"content": "On truck 3."}},
    ):  # fmt: skip
        log = {"messages": [asked], **beside}
        assert messages_of(log) == [asked, answered], beside
        assert shown(ek.build_prompt(WHOLE, {"conversation": log})) == [
            ("user", "Where?"),
            ("assistant", "On truck 3."),
        ]
    assert messages_of({"messages": [asked, answered], "output": {"completion": "other"}}) == [asked, answered]
    several = {"messages": [asked], "choices": [{"message": answered}, {"message": asked}]}
    with pytest.raises(InputError, match=r"expected a list of messages .* rewrite it in OpenAI's form"):
        messages_of(several)
    assert "On truck 3." in str(ek.build_prompt(WHOLE, {"conversation": several}))


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "UklG" * 30, "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + "JVBE" * 30}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE" * 30}},
        {"type": "video", "video": "https://shop.example/a.mp4", "format": "mp4"},
    ],
)
def test_recordings_and_files_are_marked_too(part: dict[str, Any]):
    talk = [{"role": "user", "content": [{"type": "text", "text": "Hear:"}, part]}]
    prompt = str(ek.build_prompt(WHOLE, {"conversation": talk}))
    assert "not shown" in prompt
    assert "JVBE" not in prompt
    assert "UklG" not in prompt
    with pytest.warns(EvalkitWarning, match="an image or a file"):
        table = ek.judge([{"conversation": talk}], WHOLE, "fake:strict", samples=1, progress=False)
    assert table["error"].tolist() == ["unseen_file"]


def test_what_looks_like_an_image_and_is_none_is_judged():
    texts = [
        "write data:image/png;base64,… into the page",
        "base64, they say",
        "/9j/ is how it starts",
        "iVBORw0KGgo is a PNG",
    ]
    for text in texts:
        assert shown_value(text) is text
    lists: list[Any] = [
        [{"type": "document", "text": "the text", "source": "a.txt"}],
        [{"type": "file", "path": "src/a.py"}, {"type": "file", "name": "b.py", "content": "x = 1"}],
        [{"role": "editor", "name": "Ann"}, {"role": "author", "name": "Ben"}],
        ["one", "two"],
        [{"id": 1, "unseen": "text"}],
        {"content_type": "article", "data": "How long?"},
        {"contentType": "Q&A", "data": "QUJD" * 20},
        {"mime_type": "application/sql", "data": "SELECT 1"},
        {"media_type": "n/a", "blob": "a leaf"},
        {"content_type": "image/png", "data": "What is shown?"},
        {"mime_type": "application/octet-stream", "bytes": 512},
        {"answer": "yes", "metadata": {"content_type": "article", "data": "x"}},
        {"kind": "document", "content_type": "article", "data": "How long?"},
        {"media_type": "print", "data": {"pages": 3}},
        {"media_type": "application/vnd.form", "data": {"answer": "yes"}},
    ]
    for value in lists:
        assert shown_value(value) is value or shown_value(value) == value
        assert unseen(shown_value(value)) is None


@pytest.mark.parametrize(
    "cell",
    [
        {"mime_type": "application/octet-stream", "data": "QUJD" * 20},
        {"mime_type": "application/zip", "data": "\n".join(["QUJD" * 19] * 3)},
        {"content_type": "image/png; charset=binary", "data": "iVBORw0KGgo="},
        {"media_type": "png", "data": PICTURE[22:]},
        {"mimeType": "audio/wav", "blob": [82, 73, 70, 70]},
        {"mimeType": "application/zip", "data": {"type": "Buffer", "data": [80, 75, 3, 4]}},
        {"mime_type": "application/pdf", "data": "data:application/pdf;base64," + "JVBE" * 30},
        {"inlineData": {"mimeType": "application/pdf", "data": "JVBE"}},
    ],
)
def test_data_of_a_media_type_is_a_file_without_a_type_too(cell: dict[str, Any]):
    assert unseen(shown_value(cell)) is not None
    assert unseen(shown_value([{"note": cell}])) is not None


def messages(*pairs: Any) -> list[dict[str, Any]]:
    return [{"role": role} | (one if isinstance(one, dict) else {"content": one}) for role, one in pairs]


CALL = {"content": None, "tool_calls": [{"id": "x", "function": {"name": "cancel", "arguments": "{}"}}]}
ASKED, CALLED, DONE = ("user", "Cancel."), ("assistant", CALL), ("tool", {"content": "done", "tool_call_id": "x"})
SPOKE = ("assistant", CALL | {"content": "I do."})
FIRST = [("user", "1"), ("assistant", "one"), ("user", "2")]
THOUGHT = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Done."}]
NO = "I will not."


@pytest.mark.parametrize(
    ("log", "question", "answer", "conversation"),
    [
        # the assistant acted last and said nothing: an empty answer, after all that it did
        ([ASKED, CALLED, DONE], "Cancel.", "", ["question", "assistant", "tool"]),
        ([ASKED, CALLED, DONE, ("user", "###STOP###")], "Cancel.", "", ["question", "assistant", "tool"]),
        # it spoke, then acted: what it did after its words stands after their place
        ([ASKED, SPOKE, DONE], "Cancel.", "I do.", ["question", "answer", "assistant", "tool"]),
        (
            [ASKED, ("assistant", "I do."), CALLED, DONE],
            "Cancel.",
            "I do.",
            ["question", "answer", "assistant", "tool"],
        ),
        # a failed call leaves an empty answer; the answer to the question before is none
        ([*FIRST, ("assistant", "")], "2", "", ["user", "assistant"]),
        ([*FIRST, ("assistant", None)], "2", "", ["user", "assistant"]),
        # two texts of one turn
        ([("user", "1"), ("assistant", "Wait."), ("assistant", "one")], "1", "one", ["question", "assistant"]),
        # agents with names
        ([("human", "Go."), ("Planner", "Coder!"), ("Coder", "x = 1")], "Go.", "x = 1", ["question", "Planner"]),
        # a refusal is an answer
        ([("user", "Do."), ("assistant", {"content": None, "refusal": NO})], "Do.", NO, None),
        ([("user", "Do."), ("assistant", [{"type": "refusal", "refusal": NO}])], "Do.", NO, None),
        # reasoning is no part of an answer
        ([("user", "Do."), ("assistant", THOUGHT)], "Do.", "Done.", None),
    ],
)
def test_where_a_conversation_is_split(log: Any, question: str, answer: str, conversation: list[str] | None):
    row = split_messages(pd.DataFrame({"log": pd.Series([messages(*log)], dtype=object)}), "log").iloc[0]
    assert (row["question"], row["answer"]) == (question, answer)
    assert row["conversation"] == conversation or [one["role"] for one in row["conversation"]] == conversation


def test_what_is_no_input_of_its_own_stays_in_the_conversation():
    log = messages(("system", "S"), ("user", "Q"), CALLED, DONE, ("assistant", "A"), ("user", "Bye"))
    table = pd.DataFrame({"log": pd.Series([log], dtype=object)})

    def roles(*inputs: str) -> list[str]:
        made = split_messages(table, "log", inputs)
        assert set(made.columns) == {"log", *inputs}
        return [one["role"] for one in made["conversation"][0]]

    assert roles("conversation", "question", "answer") == ["system", "question", "assistant", "tool"]
    assert roles("conversation", "answer") == ["system", "user", "assistant", "tool"]
    assert roles("conversation", "question") == ["system", "question", "assistant", "tool", "assistant", "user"]
    assert roles("conversation") == ["system", "user", "assistant", "tool", "assistant", "user"]


def test_parts_in_one_message_keep_their_order_and_unknown_ones_are_shown():
    log = [
        {"role": "user", "content": "Go"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "first", "signature": "SEALED"},
                {"type": "text", "text": "searching"},
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "kettle"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
                    {"type": "web_search_result", "title": "Kettles", "url": "https://shop.example",
                     "encrypted_content": "SEALED"}]},
                {"type": "text", "text": "found it"},
                {"type": "tool_use", "id": "t1", "name": "order", "input": {"n": 1}},
                {"type": "redacted_thinking", "data": "SEALED"},
                {"type": "novel", "of": "tomorrow"},
            ],
        },
    ]  # fmt: skip
    prompt = ek.build_prompt(WHOLE, {"conversation": log})
    assert "SEALED" not in str(prompt)
    found = shown(prompt)
    assert [heading for heading, _ in found] == [
        "user", "assistant: reasoning", "assistant", "assistant: call 1, web_search",
        "tool: result of call 1, web_search", "assistant", "assistant: call 2, order", "assistant: reasoning",
        "assistant",
    ]  # fmt: skip
    texts = [text for _, text in found]
    assert (texts[1:4], texts[5:8]) == (
        ["first", "searching", '{"query":"kettle"}'],
        ["found it", '{"n":1}', "(not shown)"],
    )
    assert "Kettles" in texts[4]
    assert "tomorrow" in texts[8]


def test_arguments_that_are_broken_and_errors_are_said():
    calls = [{"id": "c", "function": {"name": "order", "arguments": '{"id": 7'}}]
    log = messages(("user", "Q"), ("assistant", {"content": None, "tool_calls": calls}))
    assert shown(ek.build_prompt(WHOLE, {"conversation": log}))[1][1] == '{"id": 7\n(error: invalid JSON)'
    parsed = [{"id": "c", "function": "order", "arguments": {}, "parse_error": "Error parsing {id"}]
    log = messages(("user", "Q"), ("assistant", {"content": "", "tool_calls": parsed}))
    assert shown(ek.build_prompt(WHOLE, {"conversation": log}))[1][1] == "{}\n(error: Error parsing {id)"
    old = messages(("user", "Q"), ("assistant", {"function_call": {"name": "order", "arguments": "{}"}}),
                   ("function", {"name": "order", "content": "sent"}))  # fmt: skip
    assert [one[0] for one in shown(ek.build_prompt(WHOLE, {"conversation": old}))] == [
        "user", "assistant: call 1, order", "tool: result of call 1, order",
    ]  # fmt: skip


@pytest.mark.parametrize("cell", ["hello", 3, [1], [{"role": 1, "content": "x"}], [{"a": "b"}], {"messages": "x"}])
def test_what_is_no_conversation_is_refused(cell: Any):
    with pytest.raises(InputError, match="expected a list of messages with role and content"):
        split_messages(pd.DataFrame({"log": pd.Series([cell], dtype=object)}), "log")


FIELDS = [
    "content", "type", "text", "tool_calls", "function", "name", "arguments", "id", "tool_call_id", "error",
    "image_url", "source", "data", "input", "result", "refusal", "audio", "reasoning", "function_call", "unseen",
    "custom", "model",
]  # fmt: skip
KINDS = [
    "text", "image", "image_url", "tool_use", "tool_result", "thinking", "refusal", "document", "input_audio", "file",
    "search_result", "server_tool_use", "odd",
]  # fmt: skip


def odd_value(draw: random.Random, depth: int = 0) -> Any:
    if depth > 3 or draw.random() < 0.4:
        return draw.choice([None, "", PICTURE, PICTURE[22:], "x", True, 3, [], {}, '{"a":1}', "image", "tool_use"])
    if draw.random() < 0.5:
        return [odd_value(draw, depth + 1) for _ in range(draw.randint(0, 3))]
    return {draw.choice(FIELDS): odd_value(draw, depth + 1) for _ in range(draw.randint(0, 4))}


def odd_message(draw: random.Random) -> dict[str, Any]:
    parts = [
        {draw.choice(FIELDS): odd_value(draw, 2) for _ in range(3)} | {"type": draw.choice(KINDS)}
        for _ in range(draw.randint(0, 3))
    ]
    made = {draw.choice(FIELDS): odd_value(draw, 2) for _ in range(draw.randint(0, 3))}
    content = draw.choice([None, "", "hi", PICTURE, parts, parts, odd_value(draw, 2)])
    return made | {"role": draw.choice(["user", "assistant", "system", "tool", "function", "Ann"]), "content": content}


@pytest.mark.long
def test_nothing_malformed_breaks_a_prompt_and_no_picture_is_in_it():
    draw = random.Random(3)
    for _ in range(1500):
        raw = canonical([odd_message(draw) for _ in range(draw.randint(1, 4))])
        shown_once = shown_value(raw)
        assert shown_value(shown_once) == shown_once
        inputs = item_inputs(WHOLE, {"conversation": [raw]}, 1)[0]
        texts = [
            str(ek.build_prompt(WHOLE, {"conversation": raw})),
            value_text(raw, "conversation"),
            json.dumps(inputs),
        ]
        assert not [text for text in texts if PICTURE[22:40] in text]
        found = read_messages(raw)
        for wanted in (
            ()
            if found is None
            else (["question", "answer", "conversation"], ["conversation"], ["conversation", "answer"])
        ):
            split_messages(pd.DataFrame({"log": pd.Series([found], dtype=object)}), "log", wanted)


@pytest.mark.long
def test_a_very_long_conversation_is_warned_of():
    talk = messages(("user", "x" * 600_000), ("assistant", {"content": "y" * 600_000}))
    with pytest.warns(EvalkitWarning, match="more than a million characters in 'conversation'"):
        ek.judge([{"conversation": talk}], WHOLE, "fake:strict", samples=1, progress=False)
    with pytest.warns(EvalkitWarning, match="more than a million characters in 'conversation'"):  # an optional one, too
        ek.judge([{"conversation": talk, "question": "q", "answer": "a"}], APART, "fake", samples=1, progress=False)


def test_the_judges_own_answer_comes_before_what_the_candidate_did():
    from evalkit.rubrics.inputs import question_of

    log = messages(("system", "S"), ("user", "Q"), CALLED, DONE, ("assistant", "A"))
    items = split_messages(pd.DataFrame({"log": pd.Series([log], dtype=object)}), "log")
    inputs = item_inputs(APART, {name: items[name].tolist() for name in ("conversation", "question", "answer")}, 1)[0]
    assert question_of(inputs) == {"question": "Q", "conversation": [{"role": "system", "content": "S"}]}


@pytest.mark.long
def test_tau_bench_logs_load_and_stand_in_the_prompt_once(published_data: Path):
    path = published_data / "item_criteria" / "tau_airline.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"no {path.name} among the published data")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        items = pd.DataFrame([json.loads(line) for line in file])
    split = split_messages(items, "messages")
    assert (len(items), split["answer"].notna().sum(), split["question"].notna().sum()) == (36, 36, 36)
    n_messages, n_calls, n_results = 0, 0, 0
    for log, (_, row) in zip(items["messages"], split.iterrows(), strict=True):
        found = shown(ek.build_prompt(WHOLE, {"conversation": log}))
        expected = []
        calls = 0
        for message in log:
            if message["content"] and message["role"] != "tool":
                expected.append((message["role"], message["content"]))
            for call in message.get("tool_calls") or []:
                calls += 1
                expected.append((f"assistant: call {calls}, {call['function']['name']}", call["function"]["arguments"]))
            if message["role"] == "tool":
                expected.append((f"tool: result of call {calls}, {message['name']}", message["content"] or ""))
        assert found == expected
        n_messages += len(log)
        n_calls += calls
        n_results += sum(message["role"] == "tool" for message in log)
        # split, all up to the answer stands in the prompt once
        parts = [text for heading, text in shown(ek.build_prompt(APART, row)) if heading not in ("question", "answer")]
        rest = [text for heading, text in expected if not (heading == "user" and text == log[-1]["content"])]
        assert sorted([*parts, row["question"], row["answer"]]) == sorted(rest + ([""] if row["answer"] == "" else []))
    assert (n_messages, n_calls, n_results) == (1084, 227, 227)


def test_a_text_may_hold_a_file_only_where_a_long_word_and_a_start_of_one_are() -> None:
    draw, answers = random.Random(5), list[bool]()
    for _ in range(20_000):
        pieces = [" ", "\n", "\u2003", "a" * draw.randrange(45), "b" * 9, "é" * 39, "x" * 40, *message_forms._STARTS]
        text = "".join(draw.choices(pieces, k=draw.randrange(14)))
        words_are_short = len(text) < 48 or all(len(word) < 40 for word in text.split())
        answers.append(words_are_short or not any(start in text for start in message_forms._STARTS))
        assert message_forms.is_plain_text(text) == answers[-1], text
    assert 4_000 < sum(answers) < 16_000
