"""Messages as tables, other tools and careless hands leave them: empty fields, nulls, other orders, hidden pictures."""

from __future__ import annotations

import json
import random
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import EvalkitWarning, InputError
from evalkit.tables.items import canonical
from evalkit.tables.message_forms import read_messages
from evalkit.tables.messages import messages_of, split, split_messages, turns

WHOLE = ek.Rubric(id="w", inputs=["conversation"], criteria=[{"name": "c", "scale": {0: "a", 1: "b"}}])
PNG = "iVBORw0KGgo" + "Ab0/" * 250


def call(name: str, number: str, **arguments: Any) -> dict[str, Any]:
    return {"id": number, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def said(role: str, content: Any, **further: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **further}


LOG = [
    said("system", "Be brief."),
    said("user", "Where is it?"),
    said("assistant", None, tool_calls=[call("find", "x", id=1), call("find", "y", id=2)]),
    said("tool", "on a truck", tool_call_id="x"),
    said("tool", "", tool_call_id="y"),
    said("assistant", "On a truck."),
]


def test_empty_fields_and_null_messages_change_nothing() -> None:
    expected, rng = messages_of(LOG), random.Random(1)
    fields = ["tool_calls", "tool_call_id", "function_call", "name", "refusal", "audio", "reasoning_content",
              "reasoning", "annotations"]  # fmt: skip
    for _ in range(300):
        log: list[Any] = []
        for message in LOG:
            empty = {name: rng.choice([None, "", [], {}, float("nan")]) for name in fields if rng.random() < 0.4}
            log += [None] * rng.randint(0, 1) + [{**empty, **message}]
        assert messages_of(log) == expected
        assert messages_of(json.dumps(canonical(log))) == expected
        frame = pd.DataFrame({"log": [log, "", None]})
        made = split_messages(frame, "log")
        assert (made["question"][0], made["answer"][0]) == ("Where is it?", "On a truck.")
        assert made["answer"].isna().tolist() == [False, True, True]


def test_a_result_before_its_call_has_the_number_of_the_call() -> None:
    early = [LOG[1], LOG[4], LOG[2], LOG[3], LOG[5]]
    read = messages_of(early)
    assert [heading for _, heading, _ in turns(read)] == [
        "user", "tool: result of call 2, find", "assistant: call 1, find", "assistant: call 2, find",
        "tool: result of call 1, find", "assistant",
    ]  # fmt: skip
    other = json.loads(json.dumps(early).replace('"x"', '"call_9"').replace('"y"', '"call_8"'))
    named = [{**one, "name": "find"} if one["role"] == "tool" else one for one in other]
    assert messages_of(other) == messages_of(named) == read
    assert read_messages(read) == read


def test_roles_may_have_capitals() -> None:
    log = [{**one, "role": str(one["role"]).capitalize()} for one in LOG]
    row = split_messages(pd.DataFrame({"log": [log]}), "log").iloc[0]
    assert (row["question"], row["answer"]) == ("Where is it?", "On a truck.")
    assert [heading for _, heading, _ in turns(row["conversation"])] == [
        "System", "question", "Assistant: call 1, find", "Assistant: call 2, find", "Tool: result of call 1, find",
        "Tool: result of call 2, find",
    ]  # fmt: skip


def test_inputs_may_be_those_of_the_rubric_as_written() -> None:
    frame = pd.DataFrame({"log": [LOG]})
    made = split_messages(frame, "log", ["conversation?", "question", "answer"])
    assert made.equals(split_messages(frame, "log"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (json.dumps({"screenshot": PNG, "ok": True}), "file"),
        (json.dumps({"screenshot": PNG}).replace("/", "\\/"), "file"),
        (f"here: {PNG}", "file"),
        (f"base64,{PNG} done", "file"),
        (f"see data:image/png;base64,{PNG[:40]}", "image"),
        ("say data:audio/wav;base64," + "A" * 200, "audio"),
        ("see data:application/pdf;base64," + "A" * 200, "file"),
    ],
)
def test_pictures_and_recordings_inside_a_text_are_marks(text: str, kind: str) -> None:
    log = [said("user", "Q"), said("tool", text), said("assistant", "A")]
    prompt = str(ek.build_prompt(WHOLE, [{"conversation": log}]))
    assert f"{kind}, not shown" in prompt
    assert "AAAAAAAAAA" not in prompt
    assert PNG[20:60] not in prompt
    with pytest.warns(EvalkitWarning, match="an image or a file"):
        table = ek.judge([{"conversation": log}], WHOLE, "fake:strict", samples=1, progress=False)
    assert set(table["error"]) == {"unseen_image" if kind == "image" else "unseen_file"}


def test_texts_that_only_look_like_pictures_stay() -> None:
    for text in ("ab12" * 250, "ACGT" * 300, "Ab0/ " * 250, PNG[:999], "-_" * 600,  # hex, DNA, words, too short, a line
                 "iVBORw0KGgo is how PNG starts", "R0lGOD " * 30, "https://shop.example/9j/" + "a-b/" * 40,
                 "UklGR", "in CSS: data:font/woff2;base64," + "A" * 200):  # fmt: skip
        log = [said("user", text), said("assistant", "A")]
        assert messages_of(log) == log


def test_json_texts_that_are_read_as_messages_cause_no_warning() -> None:
    table = ek.judge([{"conversation": json.dumps(LOG)}], WHOLE, "fake:strict", samples=1, progress=False)
    assert table["error"].isna().all()


def test_calls_amid_an_answer_stand_in_the_conversation_and_its_words_only_in_the_answer() -> None:
    searched = said("assistant", "I search.", tool_calls=[call("web_search", "s", q="x")])
    result = said("tool", "found", tool_call_id="s")
    messages = messages_of([said("user", "Q"), searched, result, said("assistant", "It is X.")])
    made = split(messages, answer="I search.\nIt is X.")
    assert made["answer"] == "I search.\nIt is X."
    assert [*turns(made["conversation"])][1:] == [
        (2, "assistant: call 1, web_search", '{"q": "x"}'), (3, "tool: result of call 1, web_search", "found"),
    ]  # fmt: skip
    # without an input of its own, the answer stands where it was said
    assert split(messages, ["conversation"], answer="I search.\nIt is X.")["conversation"] == messages
    # other words are another answer
    assert split(messages, ["conversation"], answer="It is Y.")["conversation"] == [
        *messages, said("assistant", "It is Y."),
    ]  # fmt: skip


def test_an_answer_in_the_conversation_of_an_item_is_shown_once():
    earlier = [said("user", "First?"), {"role": "assistant", "content": "One."}]
    asked, answered = said("user", "Then?"), {"role": "assistant", "content": "Two."}
    item = {"question": "Then?", "answer": "Two.", "conversation": [*earlier, asked, answered]}
    prompt = str(ek.build_prompt("helpfulness", [item]))
    assert [prompt.count(one) for one in ("First?", "One.", "Then?", "Two.")] == [1, 1, 1, 1]
    assert str(ek.build_prompt("helpfulness", [item | {"conversation": earlier}])) == prompt
    without = {name: value for name, value in item.items() if name != "conversation"}
    assert str(ek.build_prompt("helpfulness", [item | {"conversation": [asked, answered]}])) == str(
        ek.build_prompt("helpfulness", [without])
    )
    # the same words as an answer to another question stay
    item = {"question": "Again?", "answer": "One.", "conversation": earlier}
    assert str(ek.build_prompt("helpfulness", [item])).count("One.") == 2


def test_what_is_nested_very_deep_is_read_and_lists_are_no_keys():
    deep = json.loads("[" * 390 + "]" * 390)
    talk = [said("user", "Q"), {"role": "tool", "content": {"a": deep}}, {"role": "assistant", "content": "A"}]
    table = ek.judge(
        split_messages(pd.DataFrame({"log": [talk]}), "log"), "helpfulness", "fake:strict", samples=1, progress=False
    )
    assert table["score"].notna().all()
    scores = pd.DataFrame({"item_id": ["a", "b"], "score": [1, 2], "tags": [["x"], ["y"]]})
    with pytest.raises(InputError, match="column 'tags' has a list in a cell; keep one text or number"):
        ek.summarize(scores, by="tags", scale=(0, 2))
    with pytest.raises(InputError, match="column 'item_id' has a list in a cell"):
        ek.summarize(scores.assign(item_id=[["a"], ["b"]]), scale=(0, 2))
