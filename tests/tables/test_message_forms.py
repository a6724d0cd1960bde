"""Conversations of four tools: all that was said and done stands in the prompt once, in order, and nothing else."""

from __future__ import annotations

import gzip
import json
import random
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_rubrics import rubric_of
from stories import as_openai, story_of, told

import evalkit as ek
from evalkit.core.reply_keys import digest
from evalkit.errors import EvalkitWarning, InputError
from evalkit.rubrics.inputs import item_inputs
from evalkit.tables import split_messages
from evalkit.tables.items import canonical
from evalkit.tables.message_forms import read_messages, shown_value, unseen
from evalkit.tables.messages import messages_of, value_text

WHOLE = rubric_of("whole", {0: "a", 1: "b"}, inputs="conversation", meaning="d")
APART = rubric_of("apart", {0: "a", 1: "b"}, inputs="conversation? question answer", meaning="d")
PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ"


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
        log = as_openai(story)
        assert shown(ek.build_prompt(WHOLE, {"conversation": log})) == expected
        items = split_messages(pd.DataFrame({"log": pd.Series([log], dtype=object)}), "log")
        assert (items["question"][0], items["answer"][0]) == (last.question, last.answer)
        # before the question, a mark in its place, and what came between it and the answer
        asked = next(at for at, (_, text) in enumerate(expected) if text == last.question)
        answered = next(at for at, (_, text) in enumerate(expected) if text == last.answer)
        between = expected[asked + 1 : answered]
        found = shown(ek.build_prompt(APART, items))
        assert [one for one in found if one[0] != "question"] == expected[:asked] + between
        places = [at for at, (heading, _) in enumerate(found) if heading == "question"]
        assert places == ([asked] if between else [])
        whole_text = value_text(log, "conversation")
        assert all(text in whole_text for heading, text in expected if "call" not in heading)


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
        for other in (as_openai(story, null=""), missing, unnamed):
            frame = pd.DataFrame({"conversation": pd.Series([other], dtype=object)})
            assert key(canonical(frame["conversation"][0])) == key(canonical(log))
        read = messages_of(log)
        assert read_messages(read) == read, "what was read once is read as it is"
        assert key(read) == key(canonical(log))


IMAGES: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}},
    {"type": "image_url", "image_url": {"url": "https://shop.example/a.png"}},
    {"type": "input_image", "file_id": "file-1"},
    {"type": "text", "text": f"see ![it]({PICTURE}) here"},
    {"type": "text", "text": "see @@@langfuseMedia:type=image/jpeg|id=7f|source=base64_data_uri@@@ here"},
    # parts that are not known, and hold a file
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE[22:]}},
    {"inline_data": {"mime_type": "image/png", "data": PICTURE[22:]}},
    {"type": "novel", "mediaType": "image/png", "at": "https://shop.example/a"},
]
FIELDS: list[dict[str, Any]] = [  # beside a text
    {"images": [{"type": "image_url", "image_url": {"url": PICTURE}}]}, {"screenshot": PICTURE},
    {"attachments": [{"name": "a.png", "contentType": "image/png", "url": "https://shop.example/a"}]},
    {"raw": {"reply": {"choices": [{"content": [{"image_url": PICTURE}]}]}}},
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


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_audio", "input_audio": {"data": "UklG" * 30, "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64," + "JVBE" * 30}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE" * 30}},
        {"of": {"mimeType": "application/zip", "data": {"type": "Buffer", "data": [80, 75]}}},
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


def messages(*pairs: Any) -> list[dict[str, Any]]:
    return [{"role": role} | (one if isinstance(one, dict) else {"content": one}) for role, one in pairs]


CALL = {"content": None, "tool_calls": [{"id": "x", "function": {"name": "cancel", "arguments": "{}"}}]}
ASKED, CALLED, DONE = ("user", "Cancel."), ("assistant", CALL), ("tool", {"content": "done", "tool_call_id": "x"})
SPOKE = ("assistant", CALL | {"content": "I do."})
FIRST = [("user", "1"), ("assistant", "one"), ("user", "2")]
THOUGHT = [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Done."}]
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


def test_arguments_that_are_broken_and_errors_are_said():
    calls = [{"id": "c", "function": {"name": "order", "arguments": '{"id": 7'}}]
    log = messages(("user", "Q"), ("assistant", {"content": None, "tool_calls": calls}))
    assert shown(ek.build_prompt(WHOLE, {"conversation": log}))[1][1] == '{"id": 7\n(error: invalid JSON)'
    parsed = [{"id": "c", "name": "order", "arguments": {}, "error": "Error parsing {id"}]
    log = messages(("user", "Q"), ("assistant", {"content": "", "tool_calls": parsed}))
    assert shown(ek.build_prompt(WHOLE, {"conversation": log}))[1][1] == "{}\n(error: Error parsing {id)"


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
        return draw.choice([None, "", PICTURE, "x", True, 3, [], {}, '{"a":1}', "image", "tool_use"])
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
@pytest.mark.filterwarnings("ignore:.*are not shown the fields")
def test_nothing_malformed_breaks_a_prompt_and_no_picture_is_in_it():
    draw, n_read = random.Random(3), 0
    for _ in range(1500):
        raw = canonical([odd_message(draw) for _ in range(draw.randint(1, 4))])
        shown_once = shown_value(raw)
        assert shown_value(shown_once) == shown_once
        try:
            inputs = item_inputs(WHOLE, {"conversation": [raw]}, 1)[0]
        except InputError:
            continue
        n_read += 1
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
    assert 300 < n_read < 1300


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
