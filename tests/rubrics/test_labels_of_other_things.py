"""Labels of two answers under one id, of other rubrics and items, and answers of a kind that is no label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.errors import InputError

TONE, K = {"tone": "tone"}, {"item_id": "k"}


def task(number: int, data: dict[str, Any], who: int = 1, **results: Any) -> dict[str, Any]:
    kinds = [{"from_name": name, "type": kind, "value": value} for name, (kind, value) in results.items()]
    return {"id": number, "data": data, "annotations": [{"completed_by": who, "result": kinds}]}


def tone(label: str) -> tuple[str, dict[str, Any]]:
    return "choices", {"choices": [label]}


def flat(label: str, who: str, **fields: str) -> dict[str, Any]:
    return fields | {"tone.responses": [label], "tone.responses.users": [who], "tone.responses.status": ["submitted"]}


TWO_ANSWERS = {
    "of one person": [task(1, K | {"text": "a"}, tone=tone("x")), task(2, K | {"text": "b"}, tone=tone("y"))],
    "of two people": [task(1, K | {"text": "a"}, 1, tone=tone("x")), task(2, K | {"text": "b"}, 2, tone=tone("x"))],
    "of two projects": [task(1, K, tone=tone("x")), task(1, K | {"more": 1}, tone=tone("x"))],
    "flat records": [flat("x", "u", item_id="k", text="a"), flat("x", "v", item_id="k", text="b")],
}  # fmt: skip
ONE_ANSWER = {
    "imported twice": [task(1, K | {"text": "a"}, 1, tone=tone("x")), task(2, {"text": "a"} | K, 2, tone=tone("y"))],
    "flat records of one answer": [flat("x", "u", item_id="k", text="a"), flat("y", "v", item_id="k", text="a")],
    "ids of the tool": [task(1, {"text": "a"}, tone=tone("x")), task(2, {"text": "b"}, tone=tone("y"))],
}  # fmt: skip


@pytest.mark.parametrize("export", TWO_ANSWERS)
def test_two_answers_under_one_id_are_refused(export: str, tmp_path: Path) -> None:
    path = tmp_path / "export.json"
    path.write_text(json.dumps(TWO_ANSWERS[export]), encoding="utf-8")
    with pytest.raises(
        InputError, match=r"export.json: several tasks or records .* one id: 'k'; .* item_id='answer_id'"
    ):
        ek.load_labels(path, criteria=TONE)


@pytest.mark.parametrize("export", ONE_ANSWER)
def test_one_answer_that_is_shown_again_has_all_its_labels(export: str) -> None:
    assert sorted(ek.load_labels(ONE_ANSWER[export], criteria=TONE)["label"]) == ["x", "y"]


def test_a_field_with_an_id_of_each_answer_tells_them_apart() -> None:
    tasks = [task(n, {"item_id": "k", "answer": f"k{n}"}, tone=tone("x")) for n in range(2)]
    assert ek.load_labels(tasks, item_id="answer")["item_id"].tolist() == ["k0", "k1"]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("taxonomy", {"taxonomy": [["harm", "insult"]]}),
        ("ranker", {"ranker": {"best": ["1"]}}),
        ("hypertextlabels", {"start": "/p", "hypertextlabels": ["claim"]}),
        ("rectanglelabels", {"x": 1, "y": 2}),
        ("datetime", {"datetime": "2026-03-01"}),
        ("textarea", {"text": ["so"]}),
    ],
)
def test_a_question_of_a_kind_that_is_no_label_is_named(kind: str, value: Any) -> None:
    tasks = [task(1, {"text": "a"}, tone=tone("x"), tree=(kind, value))]
    with pytest.raises(
        InputError, match=rf"item '1', 'tree' by '1': answers of kind {kind} are no labels; .* criteria="
    ):
        ek.load_labels(tasks)
    assert len(ek.load_labels(tasks, criteria=TONE)) == 1  # the questions are named
    with pytest.raises(InputError, match=r"has labels for 'tree', and none for 'tone'"):
        ek.load_labels([task(1, {"text": "a"}, tree=(kind, value))], criteria=TONE)
    with pytest.raises(InputError, match=f"answers of kind {kind}"):
        ek.load_labels(tasks, criteria={"tree": "tree"})


def test_a_relation_is_no_question() -> None:
    tasks = [task(1, {"text": "a"}, tone=tone("x"))]
    tasks[0]["annotations"][0]["result"].append({"type": "relation", "from_id": "a", "to_id": "b"})
    assert len(ek.load_labels(tasks)) == 1


IDS = list("abcdef")


def votes(rubric: str, criterion: str = "q", ids: list[str] = IDS) -> pd.DataFrame:
    score = [place % 2 for place in range(len(ids))]
    return pd.DataFrame({"item_id": ids, "rubric": rubric, "criterion": criterion, "judge": "j", "score": score})


def labels(rubric: Any, criterion: str = "q", ids: list[str] = IDS) -> pd.DataFrame:
    table = votes(rubric, criterion, ids).rename(columns={"score": "label"}).drop(columns="judge")
    return table.assign(annotator="ana")


@pytest.mark.parametrize(
    ("judged", "people"),
    [
        (votes("r"), labels("other")),
        (pd.concat([votes("r"), votes("s")]), labels("r")),
        (votes("r").drop(columns="rubric"), pd.concat([labels("r"), labels("other")])),
    ],
    ids=["another", "two judged", "two for votes of no rubric"],
)
def test_labels_of_another_rubric_are_refused(judged: pd.DataFrame, people: pd.DataFrame) -> None:
    for function in (ek.align, ek.stats.confusion):
        with pytest.raises(
            InputError, match=r"the column 'rubric' of the labels says .* was judged .*; pass the rows of one"
        ):
            function(judged, people, scale=[0, 1]) if function is ek.align else function(judged, people)


@pytest.mark.parametrize(
    "people",
    [labels("r"), labels(None), pd.concat([labels("r"), labels("other", "z")]), labels("r").drop(columns="rubric")],
)
def test_labels_of_the_rubric_that_was_judged_count(people: pd.DataFrame) -> None:
    for judged in (votes("r"), votes("r").drop(columns="rubric")):
        assert ek.align(judged, people, scale=[0, 1])["accuracy"].tolist() == [1.0]


def test_labels_of_several_rubrics_count_each_for_its_criterion() -> None:
    judged = pd.concat([votes("r", "q"), votes("s", "z")])
    people = pd.concat([labels("r@v1", "q"), labels("s", "z")])
    assert ek.align(judged, people, scale=[0, 1])["accuracy"].tolist() == [1.0, 1.0]


def test_an_evaluation_refuses_labels_of_another_rubric_too() -> None:
    items = pd.DataFrame({"item_id": IDS, "question": "q", "answer": IDS})
    people = labels("safety", "helpfulness").assign(label=1)
    options = {"samples": 1, "progress": False}
    with pytest.raises(InputError, match="says 'safety' for the criterion 'helpfulness', which was judged by 'help"):
        ek.evaluate(items, "helpfulness", "fake:strict", labels=people, **options)
    evaluation = ek.evaluate(items, "helpfulness", "fake:strict", labels=people.assign(rubric="helpfulness"), **options)
    assert len(evaluation.labels) == len(IDS)


def test_labels_of_items_that_were_judged_on_other_criteria_are_noted() -> None:
    judged = pd.concat([votes("r", "p", IDS[:2]), votes("r", "q", IDS)])
    people = pd.concat([labels("r", "p"), labels("r", "q")])
    notes = ek.align(judged, people, scale=[0, 1])["notes"]
    assert notes.str.contains("4 of 6 labels of 'p' left out: their items were judged on other criteria only").all()
    assert not notes.str.contains("of 'q'").any()
    matched = pd.concat([labels("r", "p", IDS[:2]), labels("r", "q")])
    assert "left out" not in str(ek.align(judged, matched, scale=[0, 1])["notes"].tolist())
