"""The query of a document stands once before the answer, whatever its conversation holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pictures import png, url_of

import evalkit as ek
from evalkit.errors import EvalkitWarning, InputError, RubricError

pytest.importorskip("lighteval")

from lighteval.models.model_output import ModelResponse
from lighteval.tasks.requests import Doc

from evalkit.lighteval import judge_metric
from evalkit.lighteval.items import items_of

SCALE = {0: "a", 1: "b"}
WHOLE = ek.Rubric(id="w", inputs=["conversation"], criteria=[{"name": "c", "scale": SCALE}])


def said(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def conversation(query: str, given: Any) -> list[tuple[str, str]]:
    doc = Doc(task_name="t|0", query=query, choices=[""], gold_index=0, specific={"conversation": given})
    (made,) = items_of([doc], [ModelResponse(text=["A"])], WHOLE, {})["conversation"]
    return [(one["role"], one["content"]) for one in made]


def test_images_of_a_document_are_named_or_refused() -> None:
    rubric = ek.Rubric(id="p", inputs=["image", "answer"], criteria=[{"name": "c", "scale": SCALE}])
    doc = Doc(task_name="t|0", query="Red?", choices=[""], gold_index=0, specific={"shot": url_of(png())})
    answers = [ModelResponse(text=["Yes."])]
    for fields in ({"image": "shot"}, {"image": lambda doc: png()}):
        items = items_of([doc], answers, rubric, fields)
        with pytest.warns(EvalkitWarning, match="no judge is shown images"):
            assert ek.judge(items, rubric, "fake:strict", samples=1, progress=False)["error"].tolist() == [
                "unseen_image"
            ]
    with pytest.raises(InputError, match=r"rubric 'p' needs 'image'; put it into doc.specific"):
        items_of([doc], answers, rubric, {})
    named = items_of([doc], answers, rubric, {"image": lambda doc: "shots/a.png"})
    with pytest.raises(InputError, match=r"got 'shots/a.png'; expected an image"):
        ek.judge(named, rubric, "fake:strict", progress=False)


def test_a_query_is_left_out_only_if_it_is_there() -> None:
    answer, hello = ("assistant", "A"), ("user", "Hello.")
    # the words of an assistant or of a longer conversation are no query
    assert conversation("OK", [said("user", "Hello."), said("assistant", "OK, and now?")]) == [
        hello, ("assistant", "OK, and now?"), ("user", "OK"), answer,
    ]  # fmt: skip
    # another user message than the query
    assert conversation("What is my name?", [said("user", "Hello.")]) == [hello, ("user", "What is my name?"), answer]
    # the query is the last message, or part of it
    assert conversation("Hello.", [said("user", "Hello.")]) == [hello, answer]
    assert conversation("caf\u00e9?\r\n", [said("user", "Cafe\u0301? No: cafe\u0301?")]) == [
        ("user", "Caf\u00e9? No: caf\u00e9?"), answer,
    ]  # fmt: skip
    # the query is the conversation, written out
    turns = [said("user", "Hello."), said("assistant", "Yes?"), said("user", "Why?")]
    assert conversation("User: Hello.\nAssistant: Yes?\nUser: Why?", turns) == [
        *[(one["role"], one["content"]) for one in turns], answer,
    ]  # fmt: skip


def test_a_rubric_that_is_not_shown_what_the_model_wrote_is_refused() -> None:
    blind = ek.Rubric(id="blind", inputs=["question", "context?"], criteria=[{"name": "c", "scale": SCALE}])
    with pytest.raises(RubricError, match=r"'blind' has neither 'answer' nor 'conversation' among its inputs"):
        judge_metric(blind)


ASKED = ek.Rubric(id="q", inputs=["question", "answer"], criteria=[{"name": "c", "scale": SCALE}])


@pytest.mark.parametrize(
    ("instruction", "query", "shown"),
    [
        (None, "What?", "What?"),
        ("", "What?", "What?"),
        (" \n", "What?", "What?"),
        ("Be brief.", "What?", "Be brief.\n\nWhat?"),
        ("Be brief.\n", "What?", "Be brief.\n\nWhat?"),
        ("Be brief.", "Be brief. What?", "Be brief. What?"),  # LightEval shows it once, too
        ("Be brief.", "What? Be brief.", "Be brief.\n\nWhat? Be brief."),
        ("Half \ud83d", "What?", "Half \ufffd\n\nWhat?"),
    ],
)
def test_judges_see_the_instruction_that_the_model_saw(instruction, query, shown) -> None:
    from evalkit.lighteval.pollux.llm_judge_metric import _row

    doc = Doc(task_name="t|0", query=query, instruction=instruction, choices=[""], gold_index=0)
    response = ModelResponse(text=["A"])
    (question,) = items_of([doc], [response], ASKED, {})["question"]
    assert question == shown
    assert _row(doc, response)["question"] == shown
    (alone,) = items_of([doc], [response], ASKED, {"question": lambda one: one.query})["question"]
    assert alone == query


def test_an_instruction_stands_once_in_a_conversation() -> None:
    def seen(instruction: str, query: str, turns: list[dict[str, str]]) -> list[tuple[str, str]]:
        doc = Doc(task_name="t|0", query=query, instruction=instruction, choices=[""], gold_index=0,
                  specific={"conversation": turns})  # fmt: skip
        (made,) = items_of([doc], [ModelResponse(text=["A"])], WHOLE, {})["conversation"]
        return [(one["role"], one["content"]) for one in made]

    answer, turns = ("assistant", "A"), [said("user", "Hello."), said("assistant", "Yes?")]
    shown = [(one["role"], one["content"]) for one in turns]
    assert seen("Be brief.", "Why?", turns) == [*shown, ("user", "Be brief.\n\nWhy?"), answer]
    assert seen("Be brief.", "Hello.", turns[:1]) == [("system", "Be brief."), ("user", "Hello."), answer]
    # the instruction is the conversation, written out
    assert seen("So far:\nUser: Hello.\nAssistant: Yes?", "Why?", turns) == [*shown, ("user", "Why?"), answer]
    assert seen("Be brief.", "Why?", []) == [("user", "Be brief.\n\nWhy?"), answer]


def test_evalkits_own_tasks_show_context_and_conversation_once() -> None:
    from evalkit.lighteval.tasks import make_tasks

    for config in make_tasks():
        for metric in config.metrics:
            compute = metric.sample_level_fn
            if not hasattr(compute, "declared"):
                continue
            row = json.loads(Path(config.hf_repo, "test.jsonl").read_text(encoding="utf-8").splitlines()[0])
            doc = config.prompt_function({**row, "__index": 0}, f"{config.name}|0")
            if doc is not None:
                items = items_of([doc], [ModelResponse(text=["A"])], compute.declared.rubric, compute._fields)
                assert items["question"].tolist() == [doc.query], config.name
