"""Items with criteria in the shapes of public sets: what a first try says, and the line that follows from it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import evalkit as ek
from evalkit.errors import InputError

TIME, BRAND, SHORT = "Names eight minutes", "Recommends a brand", "Is the answer short?"
PLAIN = {"verifier": "model", "function": ""}
UNREAD = r"fields that nothing reads: .*fields=\{'text': 'title'\}.*ignore="


class Shape(NamedTuple):
    """A column of criteria, the error without further arguments, the line that it names, and what is then judged."""

    column: str
    cell: Any
    says: str
    options: dict[str, Any]
    rows: list[list[Any]]  # text, points, axis, requires
    prepared: Callable[[Any], Any] = lambda cell: cell
    beside: Mapping[str, Any] = MappingProxyType({})


def with_axes(cell: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**entry, "axis": axis} for axis, entries in cell.items() for entry in entries]


def with_weight(cell: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The only weight of each criterion that is given, beside its text."""
    weights = [[value for name, value in entry["annotations"].items() if name.endswith("weight") and value]
               for entry in cell]  # fmt: skip
    return [{**entry, "points": weight} for entry, (weight,) in zip(cell, weights, strict=True)]


def with_numbers(cell: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**entry, "criterion_weight": {"Critical": 4, "Minor": 1}[entry["criterion_weight"]]} for entry in cell]


SHAPES = {
    # titles, descriptions and weights; the texts again in a list of their own, and their number
    "RaR": Shape(
        "rubric", [{"title": "Time", "description": f"Essential: {TIME}", "weight": 5},
                   {"title": "Brand", "description": f"Pitfall: {BRAND}", "weight": -1}],
        UNREAD, {"fields": {"text": "description", "points": "weight", "axis": "title"}},
        [[f"Essential: {TIME}", 5, "Time", []], [f"Pitfall: {BRAND}", -1, "Brand", []]],
        beside={"rubric_list": [TIME, BRAND], "rubric_count": 2}),
    # as HealthBench, but tags are a mapping
    "RubricHub": Shape(
        "Rubrics", [{"criterion": TIME, "points": 7, "tags": PLAIN}, {"criterion": SHORT, "points": 2, "tags": PLAIN}],
        UNREAD, {"fields": {"text": "criterion"}, "ignore": ["tags"]},
        [[TIME, 7, None, []], [SHORT, 2, None, []]]),
    # the same within a JSON text for a trainer
    "RubricHub for training": Shape(
        "reward_model", json.dumps({"ground_truth": "", "rubrics": [{"criterion": TIME, "points": 7, "tags": PLAIN}]}),
        r"'rubrics' is .* \[json.loads\(cell\)\['rubrics'\] for cell in column\]",
        {"fields": {"text": "criterion"}, "ignore": ["tags"]}, [[TIME, 7, None, []]],
        prepared=lambda cell: json.loads(cell)["rubrics"]),
    # a weight in one of several nested fields
    "PRBench": Shape(
        "rubric", [{"id": "c1", "title": TIME, "annotations": {"important_weight": 9, "detrimental_weight": None}},
                   {"id": "c2", "title": BRAND, "annotations": {"important_weight": None, "detrimental_weight": -4}}],
        "'annotations' has fields of its own: put what counts of them beside the text",
        {"fields": {"text": "title"}, "ignore": ["annotations"]}, [[TIME, 9, None, []], [BRAND, -4, None, []]],
        prepared=with_weight),
    "ResearchRubrics": Shape(
        "rubrics", [{"criterion": TIME, "axis": "Explicit", "weight": 4.0},
                    {"criterion": BRAND, "axis": "Style", "weight": -2.0}],
        UNREAD, {"fields": {"text": "criterion", "points": "weight"}},
        [[TIME, 4, "Explicit", []], [BRAND, -2, "Style", []]]),
    "ResearcherBench": Shape(
        "rubric", [{"point": TIME, "weight": 3}], UNREAD, {"fields": {"text": "point", "points": "weight"}},
        [[TIME, 3, None, []]]),
    # lists of questions; beside them lists of words for each
    "WildBench": Shape("checklist", [SHORT, TIME], "", {}, [[SHORT, 1, None, []], [TIME, 1, None, []]]),
    "InFoBench": Shape(
        "decomposed_questions", [SHORT, "Is it true?"], "", {}, [[SHORT, 1, None, []], ["Is it true?", 1, None, []]],
        beside={"question_label": [["Style"], ["Content", "Number"]]}),
    "MultiChallenge": Shape("TARGET_QUESTION", SHORT, "", {}, [[SHORT, 1, None, []]], beside={"PASS_CRITERIA": "YES"}),
    # questions in two languages that depend on one another
    "ComplexBench": Shape(
        "scoring_questions",
        [{"point_id": 0, "question": "时间?", "question_en": TIME, "rule": None, "kinds": "Content", "dep": []},
         {"point_id": 1, "question": "短?", "question_en": SHORT, "rule": None, "kinds": "Length", "dep": [0]}],
        UNREAD, {"fields": {"text": "question_en", "id": "point_id", "requires": "dep", "axis": "kinds"},
                 "ignore": ["question"]},
        [[TIME, 1, "Content", []], [SHORT, 1, "Length", ["0"]]]),
    # a description of each band of marks
    "WritingBench": Shape(
        "checklist", [{"name": "Tone", "criteria_description": "The tone is warm", "1-2": "Cold.", "9-10": "Warm."}],
        UNREAD, {"fields": {"text": "criteria_description", "axis": "name"}, "ignore": ["1-2", "9-10"]},
        [["The tone is warm", 1, "Tone", []]]),
    # a list for each dimension
    "DeepResearch Bench": Shape(
        "criterions", {"insight": [{"criterion": TIME, "explanation": "so", "weight": 0.6}],
                       "form": [{"criterion": SHORT, "explanation": "so", "weight": 0.4}]},
        "of several lists one with all entries, each with its points and axis",
        {"fields": {"text": "criterion", "points": "weight"}, "ignore": ["explanation"]},
        [[TIME, 0.6, "insight", []], [SHORT, 0.4, "form", []]], prepared=with_axes),
    # weights in words
    "ProfBench": Shape(
        "Rubrics", [{"criterion_description": TIME, "criterion_weight": "Critical", "criterion_type": "Reasoning"},
                    {"criterion_description": SHORT, "criterion_weight": "Minor", "criterion_type": "Style"}],
        UNREAD, {"fields": {"text": "criterion_description", "points": "criterion_weight", "axis": "criterion_type"}},
        [[TIME, 4, "Reasoning", []], [SHORT, 1, "Style", []]], prepared=with_numbers),
    # JSON in a cell of a CSV file
    "TutorBench": Shape(
        "RUBRICS", json.dumps([{"criteria": TIME, "attributes": {"severity": "critical"}}]),
        "'attributes' has fields of its own", {"fields": {"text": "criteria"}, "ignore": ["attributes"]},
        [[TIME, 1, None, []]]),
    "GDPval": Shape(
        "rubric_json", json.dumps([{"rubric_item_id": "u1", "criterion": TIME, "score": 2, "tags": ["true"]}]),
        UNREAD, {"fields": {"text": "criterion", "id": "rubric_item_id", "points": "score"}, "ignore": ["tags"]},
        [[TIME, 2, None, []]]),
    "HealthBench, consensus": Shape(
        "rubrics", [{"criterion": TIME, "points": 5, "tags": ["level:cluster", "axis:accuracy"]}],
        UNREAD, {"fields": "healthbench"}, [[TIME, 5, "accuracy", []]]),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_said_leads_to_criteria_that_are_judged(name: str) -> None:
    shape = SHAPES[name]
    item = {"item_id": "egg", "question": "How long?", "answer": "Eight minutes.", **shape.beside}
    if shape.says:
        with pytest.raises(InputError) as refused:
            ek.explode_criteria([{**item, shape.column: shape.cell}], shape.column)
        assert re.search(shape.says, str(refused.value))
    rows = ek.explode_criteria([{**item, shape.column: shape.prepared(shape.cell)}], shape.column, **shape.options)
    assert rows[["requirement", "points", "axis", "requires"]].values.tolist() == shape.rows
    judgments = ek.judge(rows, "requirement", "fake:strict", samples=1, progress=False)
    assert judgments["score"].notna().tolist() == [True] * len(shape.rows)


def test_each_unread_field_is_shown_with_its_value_and_words_are_no_points() -> None:
    for name, words in (
        ("ResearchRubrics", r"'criterion' \('Names eight minutes'\), 'weight' \('4.0'\)"),
        ("TutorBench", r"ignore=\[…\]"),  # of all fields, the text would be left out
    ):
        with pytest.raises(InputError, match=words):
            ek.explode_criteria([{"rubric": SHAPES[name].cell}], "rubric")
    with pytest.raises(InputError, match=r"points 'Critical'; .* numbers in place of words, or .* ignore=\[…\]"):
        ek.explode_criteria([{"rubric": SHAPES["ProfBench"].cell}], "rubric", **SHAPES["ProfBench"].options)
    with pytest.raises(InputError, match="if all items have the same criteria, write a rubric"):
        ek.explode_criteria([{"prompt": "How long?", "answer": "Eight.", "cluster": "eggs"}])  # as Arena-Hard
