"""The query of a document stands once before the answer, whatever its conversation holds."""

from __future__ import annotations

from typing import Any

import pytest

import evalkit as ek
from evalkit.errors import RubricError

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
