"""Criteria of items: every form that a cell may have, and what cannot be."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
from linear_growth import grows_linearly

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.rubrics import lint_criteria
from evalkit.rubrics.item_criteria import refuse_lists

TWO = [{"id": "a", "text": "Names a method", "points": 5}, {"id": "b", "text": "Invents a source", "points": -2}]
FORMS = {"mappings": TWO, "array": np.array(TWO, dtype=object), "json": json.dumps(TWO), "python": str(TWO)}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_cell_gives_the_same_rows(form: str) -> None:
    rows = ek.explode_criteria([{"item_id": 7, "answer": "x", "criteria": FORMS[form]}])
    assert rows["requirement"].tolist() == ["Names a method", "Invents a source"]
    assert rows["points"].tolist() == [5, -2]
    assert set(rows["of_item"]) == {7}
    assert set(rows["group_id"]) == {"7"}
    assert rows["answer"].tolist() == ["x", "x"]
    assert rows["item_id"].tolist() == ["7#a", "7#b"]
    assert rows["axis"].tolist() == [None] * 2


def test_texts_and_numbered_lines_have_one_point_each() -> None:
    lines = "1. Names a method\n   in one word\n2) Gives a time\n- Is short"
    for cell in (lines, ["Names a method\n   in one word", "Gives a time", "Is short"]):
        rows = ek.explode_criteria(pd.DataFrame({"item_id": ["q"], "criteria": [cell]}))
        assert rows["requirement"].tolist() == ["Names a method\n   in one word", "Gives a time", "Is short"]
        assert rows["points"].tolist() == [1, 1, 1]
    assert ek.explode_criteria([{"criteria": "Is it short?"}])["requirement"].tolist() == ["Is it short?"]


def test_indented_lines_belong_to_the_criterion_above() -> None:
    for lead in ("", "  ", "\t", "\n  "):
        for sub in ("- ", "1. ", "* "):
            lines = ["1. a", f"   {sub}b", f"    {sub}c", "2. d", f"\t\t{sub}e", " 3. f"]
            cell = "\n" * lead.count("\n") + "\n".join(lead.strip("\n") + line for line in lines)
            texts = ek.explode_criteria([{"item_id": "q", "criteria": cell}])["requirement"]
            assert [text.split()[0] for text in texts] == ["a", "d", "f"], (lead, sub)
            assert [len(text.splitlines()) for text in texts] == [3, 2, 1]


def test_a_mapping_from_id_to_text_and_points_as_people_write_them() -> None:
    rows = ek.explode_criteria([{"item_id": "q", "criteria": {"clear": "Is clear", "kind": "Is kind"}}])
    assert rows["item_id"].tolist() == ["q#clear", "q#kind"]
    assert rows["requirement"].tolist() == ["Is clear", "Is kind"]
    cell = [{"text": "x", "points": "+5"}, {"text": "y", "points": "−3"}, {"text": "z", "points": "-.5"}]
    assert ek.explode_criteria([{"item_id": "q", "criteria": cell}])["points"].tolist() == [5, -3, -0.5]


def test_trees_keep_leaves_with_the_weights_above_them() -> None:
    flat = [
        {"id": "root", "text": "All of it"}, {"id": "x", "text": "X", "points": 3, "axis": "Code", "parent": "root"},
        {"id": "g", "text": "G", "parent": "root"}, {"id": "y", "text": "Y", "points": 2, "parent": "g"},
        {"id": "z", "text": "Z", "parent": "g"},
    ]  # fmt: skip
    one = ek.explode_criteria([{"item_id": "p", "criteria": flat}])
    assert one["parent"].tolist() == [[["root", 1.0]], [["g", 1.0], ["root", 1.0]], [["g", 1.0], ["root", 1.0]]]
    assert one["axis"].tolist() == ["Code", None, None]


def test_a_column_scale_that_is_none_is_an_error_of_input() -> None:
    rows = ek.explode_criteria([{"item_id": "x", "question": "q", "answer": "a", "criteria": ["A"]}])
    with pytest.raises(InputError, match="criterion 'x#1': scale 'celsius' is not a scale"):
        ek.plan(rows.assign(scale="celsius"), "requirement", "fake:strict")


def test_prerequisites_may_be_numbers() -> None:
    cell = [
        {"id": 0, "requires": [], "text": "Loads the data", "axis": "Data"},
        {"id": 1, "requires": [0, 1], "text": "Trains a model", "axis": "Model"},
    ]
    items = [{"item_id": "t", "criteria": cell}]
    rows = ek.explode_criteria(items)
    assert rows["requires"].tolist() == [[], ["0", "1"]]
    assert rows["axis"].tolist() == ["Data", "Model"]
    assert lint_criteria(items)["message"].tolist() == ["requires itself, which changes nothing"]


WRONG = [
    ([], "no criteria"),
    (None, "no criteria"),
    (float("nan"), "no criteria"),
    ("Is short\nIs long", "number it"),
    ("Judge these:\n1. Is short", "one has no number"),
    ('{"id": 1', "look like JSON"),
    ('[{"text": "x", "points": NaN}]', "points nan"),
    ("null", "no criteria"),
    ("NaN", "no criteria"),
    ("None", "no criteria"),
    ("<NA>", "no criteria"),
    ({"c1": '{"text": "x", "points": -5}'}, "or JSON"),
    ("true", "of type bool"),
    ("5", "of type int"),
    ({"text": "x", "points": 3}, "'text' is 'x'"),
    ({"criteria": ["x"], "weights": [2]}, "'criteria' is .*keys: 'criteria', 'weights'"),
    ({"rubrics": {"a": "x"}}, "not from ids to texts"),
    ([{"text": "x", "sub_tasks": [{"text": "y"}]}], "nothing reads: 'sub_tasks'"),
    ([{"text": "x", "children": ["y"]}], "nothing reads: 'children'"),
    ([{"title": "x", "weight": 3}], "'title' \\('x'\\), 'weight' \\('3'\\); .*ignore="),
    ([{"Text": "x"}], "nothing reads: 'Text'"),
    ([{"text": "x", "axis": ["a", "b"]}], "axis .*give a text"),
    ([{"text": "x", "id": {"a": 1}}], "id .*give a text"),
    ({"Names a dose": 5}, "'Names a dose' is '5'"),
    ([{"text": "x", "points": 5, "is_negative": False}], "nothing reads: 'is_negative'"),
    ([3], "of type int"),
    (7, "of type int"),
    ([{"text": " "}], "no text"),
    ([{"id": "a"}], "no text"),
    ([{"text": "x", "points": 0}], "points 0"),
    ([{"text": "x", "points": float("nan")}], "points nan"),
    ([{"text": "x", "points": pd.NA}], "points <NA>"),
    ([{"text": "x"}, {"text": "y", "points": float("inf")}], "points inf"),
    ([{"text": "x", "points": 1e-10}], "below 1e-9"),
    ([{"text": "x", "scale": [1]}], "criterion 1: the scale has only one level"),
    ([{"text": "x", "scale": "so"}], "criterion 1: scale 'so' is not a scale"),
    ([{"text": "x", "points": 1e308}], "1e\\+308"),
    ([{"text": "x", "points": True}], "points True"),
    ([{"text": "x", "points": "many"}], "'many'"),
    ([{"id": 1, "text": "x"}, {"id": "1", "text": "y"}], "two criteria have the id '1'"),
    ([{"text": "x", "requires": ["9"]}], "requires names '9'"),
    ([{"id": "a", "text": "x", "requires": "b"}, {"id": "b", "text": "y", "requires": "a"}], "in a circle"),
    ([{"id": "a", "text": "x", "parent": "a"}], "in a circle"),
    ([{"id": "a", "text": "x"}, {"id": "b", "text": "y", "parent": "a", "points": -1}], "weights"),
    ([{"text": "x", "id": "\ud800"}], "half a surrogate"),
    ({"Names a dose": "5"}, "may be its points"),
    ('{"text": "a", "poi', "look like JSON"),
    (['{"text": "a", "poi'], "or JSON"),
    ('[{"text": "x", "points": 3, "points": -3}]', "duplicate key 'points'"),
    ('{"c1": "x", "c1": "y"}', "duplicate key 'c1'"),
    (['{"text": "x", "points": 3}'], "or JSON"),
    ("1. a 2. b", "within one line"),
    ("1. a 2. b 3. c", "within one line"),
    ("1. a\\n2. b", "within one line"),
    ("- a\\n- b", "within one line"),
    ("Has: 1. a 2. b 3. c", "within one line"),
    ("1. a 2. b\n3. c", "within one line"),
    ("1. a\n2. b 3. c", "within one line"),
    ("• a • b", "within one line"),
    ("Names a dose|Cites|Is kind", "within one line"),
    ("1. a\n## Style\n2. b", "no number and is not indented"),
    ("1. a\n**Style**\n2. b", "no number and is not indented"),
    ("1. a\n2. b\nTotal: 2 points", "no number and is not indented"),
    ("1. a\n2. b\n\nJudge fairly.", "no number and is not indented"),
    (["Is kind", "1. a\n2. b"], "criterion 2 is several in one text"),
    (["- a\n- b"], "several in one text"),
    ("<ol><li>a</li><li>b</li></ol>", "within one line"),
]


@pytest.mark.parametrize(("cell", "words"), WRONG)
def test_what_cannot_be_is_an_error_with_its_item_before_anything_is_asked(cell: object, words: str) -> None:
    items = [{"item_id": "good", "criteria": ["x"]}, {"item_id": "bad", "criteria": cell}]
    with pytest.raises(InputError, match=words) as failure:
        ek.explode_criteria(items)
    assert "'bad'" in str(failure.value)
    assert "'good'" not in str(failure.value)
    found = lint_criteria(items)
    assert found[["severity", "where"]].values.tolist() == [["error", "bad"]]


@pytest.mark.long
def test_a_text_of_a_list_that_was_cut_is_an_error_and_a_criterion_in_brackets_none() -> None:
    cell = [{"text": "Names [x]", "points": 2}, {"text": 'Says "y"', "requires": ["1"]}]
    texts = ["a", "it's [b]", '"c"']
    wholes = [json.dumps(cell), json.dumps(cell, indent=1), repr(cell), json.dumps(texts), repr(texts)]
    for whole in wholes:
        assert len(ek.explode_criteria([{"item_id": 1, "criteria": f"\ufeff{whole}"}])) in (2, 3)
        for end in range(1, len(whole)):
            with pytest.raises(InputError, match="JSON"):
                ek.explode_criteria([{"item_id": 1, "criteria": whole[:end]}])
    for text in ("[Safety] names x", "[1] of the sources is named", '"Hello" is said', "[x]"):
        assert ek.explode_criteria([{"item_id": 1, "criteria": text}])["requirement"].tolist() == [text]
    with pytest.raises(InputError, match="of type str"):
        ek.explode_criteria([{"item_id": 1, "criteria": '"1. a\\n2. b"'}])


def test_ids_that_clash_and_columns_that_are_taken_are_errors() -> None:
    with pytest.raises(InputError, match="same id 'a#1#2'"):
        ek.explode_criteria([
            {"item_id": "a", "criteria": [{"id": "1#2", "text": "x"}]},
            {"item_id": "a#1", "criteria": [{"id": "2", "text": "y"}]},
        ])  # fmt: skip
    with pytest.raises(InputError, match="'points', which are made here"):
        ek.explode_criteria([{"item_id": "a", "points": 3, "criteria": ["x"]}])
    two = [{"item_id": "a", "criteria": "safety", "rubrics": ["x"]}]
    assert ek.explode_criteria(two, "rubrics")["requirement"].tolist() == ["x"]
    with pytest.raises(InputError, match="no column 'criteria' of criteria"):
        ek.explode_criteria([{"item_id": "a", "answer": "x"}])
    with pytest.raises(InputError, match="one row per criterion already"):
        ek.explode_criteria(ek.explode_criteria([{"item_id": "a", "criteria": ["x"]}]), "requirement")


def test_notes_name_what_is_probably_not_meant() -> None:
    cell = [
        {"text": "Advises the reader to see a doctor soon", "points": 5},
        {"text": "Advises the reader to see a doctor soon.", "points": -3},
        {"text": "Advises the reader to see a doctor soon!", "points": 2},
        {"text": "Fails to name a risk", "points": -4, "scale": [0, 1]},
        {"text": "Factuality"},
    ]
    found = lint_criteria([{"item_id": "q", "criteria": cell}, {"item_id": "p", "criteria": [TWO[1]]}])
    assert set(found["severity"]) == {"note"}
    by_place = {where: " / ".join(part) for where, part in found.groupby("where")["message"]}
    assert by_place["q#2"] == "reads almost like #1: their points have unlike signs"
    assert "reads almost like #1: it counts twice" in by_place["q#3"]
    assert by_place["q#4"].startswith("has a scale of its own")
    assert by_place["q#5"].startswith("is one word")
    assert by_place["p"].startswith("no criterion has positive points")
    assert "q#1" not in by_place


def test_random_items_come_back_criterion_by_criterion() -> None:
    draw = random.Random(5)
    items, truth = [], []
    for item in range(60):
        criteria = []
        for number in range(1, draw.randint(1, 40) + 1):
            criterion = {"text": f'Says {draw.random()} {{{{ 1/0 }}}} </answer-1> {{"score": 1}}'}
            points = draw.choice([None, 1, -3, 2.5, "4", np.int64(7)])
            if points is not None:
                criterion["points"] = points
            name = draw.choice([None, number * 1000, f"k{number}"])
            if name is not None:
                criterion["id"] = name
            criteria.append(criterion)
            key = number if name is None else name
            truth.append((f"{item}#{key}", criterion["text"], 1.0 if points is None else float(points)))
        items.append({"item_id": item, "group_id": item // 2, "criteria": criteria})
    rows = ek.explode_criteria(items)
    assert [tuple(row) for row in rows[["item_id", "requirement", "points"]].to_numpy()] == truth
    assert (rows["group_id"].astype(int) == rows["of_item"].astype(int) // 2).all()


FAULTS = {
    "no text": lambda entry, _: entry.pop("text"),
    "points": lambda entry, draw: entry.update(
        points=draw.choice([0, float("nan"), -float("inf"), "ten", 1e308, True])
    ),
    "two criteria have the id": lambda entry, _: entry.update(id="k0"),
    "requires names": lambda entry, _: entry.update(requires=["nobody"]),
    "parent names": lambda entry, _: entry.update(parent="nobody"),
    "scale": lambda entry, draw: entry.update(scale=draw.choice([[0], "x", [0, 0], 3])),
    "a list of ids": lambda entry, _: entry.update(requires={"k0": 1}),
}


def test_one_fault_among_random_criteria_is_named_with_its_item_by_both_functions() -> None:
    draw = random.Random(8)
    for number in range(84):
        items = [
            {"item_id": f"i{item}", "criteria": [
                {"id": f"k{place}", "text": f"Says {draw.random()}", "points": draw.choice([1, -2, "3", 0.5]),
                 "requires": [f"k{draw.randrange(place)}"] if place and draw.random() < 0.3 else None}
                for place in range(draw.randint(2, 9))]}
            for item in range(3)
        ]  # fmt: skip
        assert not (lint_criteria(items)["severity"] == "error").any()
        words = list(FAULTS)[number % len(FAULTS)]
        FAULTS[words](items[1]["criteria"][-1], draw)
        with pytest.raises(InputError, match=rf"^1 item has invalid criteria: item 'i1': .*{words}"):
            ek.explode_criteria(items)
        errors = lint_criteria(items).query("severity == 'error'")
        assert errors["where"].tolist() == ["i1"]
        assert words in errors["message"].iloc[0]


def test_trees_of_more_than_a_hundred_levels_are_errors() -> None:
    def chain(levels: int) -> list[dict[str, object]]:
        return [{"id": n, "text": "x", "parent": n - 1 if n else None} for n in range(levels + 1)]

    assert len(ek.explode_criteria([{"criteria": chain(100)}])["parent"].iloc[0]) == 100
    for cell in (chain(101), chain(5000), '{"a": ' * 100_000):
        with pytest.raises(InputError, match=r"levels|look like JSON"):
            ek.explode_criteria([{"criteria": cell}])
    circle = [{"id": n, "text": "x", "requires": [(n + 1) % 3000]} for n in range(3000)]
    with pytest.raises(InputError) as failure:
        ek.explode_criteria([{"criteria": circle}])
    assert len(str(failure.value)) < 300


def test_the_sign_of_the_points_is_a_column() -> None:
    rows = ek.explode_criteria([{"criteria": [{"text": "Fails to name it", "points": -1}, "x"]}])
    assert rows["sign"].tolist() == ["negative", "positive"]
    assert "wording" not in rows  # words say nothing of a criterion's worth


@pytest.mark.long
def test_ten_thousand_criteria_of_one_item_are_read_and_checked() -> None:
    criteria = [
        {"id": n, "text": f"{'Not ' * (n % 2)}number {n}", "requires": [n - 1] if n else []} for n in range(10_000)
    ]
    items = [{"item_id": "q", "criteria": criteria}]
    assert len(ek.explode_criteria(items)) == 10_000
    assert set(lint_criteria(items)["severity"]) <= {"note"}


MARKED = [
    "[5 points] {}", "[{{}}] {}", "(+3) {}", "(−2) {}", "[-4] {}", "(5 pts) {}", "+3: {}", "-2 : {}", "5 points: {}",
    "[20%] {}", "{} (5 points)", "{} [+3]", "{}: 4 marks", "{} - 2 pts.",
    "**{}** (5 points): so", "- text: {}\n  weight: 2",
    "+5 {}", "5pts {}", "[w=3] {}", "Award 3 points for this: {}", "Deduct up to 2 marks: {}", "{} (weight: 3)",
    "{} (importance: 100/100)", "{} (80/100)", "{} (out of 10)", "{} [Bonus]", "(critical) {}", "Must have: {}",
    "MUST - {}", "Pitfall: {}", "Essential Criteria: {}", "- text: {}\n  points: 3", "<c points='3'>{}</c>", "7", "-5",
]  # fmt: skip


def test_points_written_into_a_text_are_refused_unless_there_are_points() -> None:
    for place, mark in enumerate(MARKED):
        marked = ["Says A", "Says B", "Says C"]
        marked[place % 3] = mark.format(marked[place % 3]).format(25)
        with pytest.raises(InputError, match="may be its points"):
            ek.explode_criteria([{"item_id": 1, "criteria": marked}])
        safe = [{"text": text, "points": 1} for text in marked]
        assert ek.explode_criteria([{"item_id": 1, "criteria": safe}])["requirement"].tolist() == marked


def test_texts_with_numbers_and_brackets_are_no_points() -> None:
    texts = [
        "[1] of the sources is named", "[2] is quoted", "(c) names a dose of 5 mg", "Gives the rate (95%)",
        "States x = -2", "Leads by 5 points", "12% of patients: is named", "3. is a heading", "(2019) is the year",
        "[x] is ticked", "Ends 10:30", "-", "Names the 5-point scale (1-5)", "0.5 mg: is the dose",
        "40 - 50 years are named", "[:" + " " * 40_000 + "x",
        "States that x = (-2).", "Gives y ≤ (+3)", "Lists three key points: 1) dose 2) time",
        "Has the points: 1. a 2. b",
        "-5 °C is named", "Names the bonus (of 2019)", "Gives 120/80 (mmHg)", "Gives the pressure (120/80)",
        "Must name a dose", "Critical thinking is shown", "Is rated (high)", "Uses a <li> tag",
        "Says to take 2. Then rest",
        "Names step 1. Then step 2. So", "Shows that |x| < 1",
        "The range is 40-50 points", "Names a range of 3–5 points", "+44 is the country code", "Says that it is -5",
    ]  # fmt: skip
    assert ek.explode_criteria([{"item_id": 1, "criteria": texts}])["requirement"].tolist() == [*map(str.strip, texts)]


@pytest.mark.long
def test_every_door_makes_rows_of_criteria_and_asks_no_list_as_one_requirement() -> None:
    item = {"item_id": 1, "question": "q", "answer": "a", "criteria": ["Says A", "Says B"]}
    for one in (item, pd.Series(item), pd.DataFrame([item]), [item]):
        with pytest.raises(
            InputError, match=r"got 2; pass ek.build_prompt\('requirement', ek.explode_criteria\(item\)"
        ):
            ek.build_prompt("requirement", one)
    row = ek.build_prompt("requirement", ek.explode_criteria(item).iloc[0])
    alone = ek.build_prompt("requirement", {**item, "criteria": ["Says A"]})
    assert [message.content for message in row.messages] == [message.content for message in alone.messages]
    assert "Says A" in alone.messages[-1].content
    doors = (
        lambda items, **words: ek.build_prompt("requirement", items[0], **words),
        lambda items, **words: ek.plan(items, "requirement", "fake:strict", **words),
        lambda items, **words: ek.judge(items, "requirement", "fake:strict", samples=1, **words),
        lambda items, **words: ek.evaluate(items, "requirement", "fake:strict", samples=1, **words),
    )
    for door in doors:
        for cell in (["Says A"], '["Says A", "Says B"]', "['Says A']", {"a": "Says A"}, np.array(["Says A"]),
                     "1. Says A\n2. Says B", "- Says A\n- Says B", "(1) A (2) B", '{"a": "A", "a": "B"}'):  # fmt: skip
            with pytest.raises(InputError, match=r"inputs=\{'criteria': 'requirement'\} .* ek.explode_criteria"):
                door([{"item_id": 1, "answer": "a", "requirement": cell}])
            with pytest.raises(InputError, match=r"\(--input criteria=rubric\), or call ek.explode_criteria"):
                door([{"item_id": 1, "answer": "a", "rubric": cell}], inputs={"requirement": "rubric"})
        door([{"item_id": 1, "answer": "a", "requirement": "(Says A)"}])
    for door in doors[1:]:
        with pytest.raises(InputError, match=r"for another column of criteria, .* \(--input criteria=rubric\)"):
            door([{"item_id": 1, "answer": "a", "rubric": ["Says A"]}])


def listed_in_texts(draw: random.Random) -> tuple[list[str], list[str]]:
    """The texts of some criteria, and cells that hold them as a list that is clear."""
    texts = [f"Names w{draw.randint(1, 99)}{draw.choice(['', ' 2.5 mg', '; or y', ' (see p1)'])}"
             for _ in range(draw.randint(3, 12))]  # fmt: skip
    mark = draw.choice(["{}.", "{})", "({})"])
    numbered = [f"{mark.format(number)} {text}" for number, text in enumerate(texts, start=1)]
    bullets = [f"{draw.choice('-*•')} {text}" for text in texts]
    return texts, [
        "\n".join(numbered),
        "\n\n".join(numbered),
        "\n".join(bullets),
        json.dumps(texts),
        "\ufeff " + "\n".join(numbered),
    ]


@pytest.mark.long
def test_lists_in_texts_are_read_and_the_same_texts_are_no_requirement() -> None:
    draw = random.Random(45)
    for _ in range(60):
        texts, cells = listed_in_texts(draw)
        for cell in cells:
            rows = ek.explode_criteria([{"item_id": 1, "criteria": cell}])
            assert rows["requirement"].tolist() == texts, cell
            with pytest.raises(InputError, match="but a requirement is one statement"):
                ek.plan([{"answer": "a", "requirement": cell}], "requirement", "fake:strict", samples=1)
        alone = [*texts, "1. " + texts[0], f"Follows the steps:\n1. {texts[0]}\n2. {texts[1]}", "[x] is named", "{a} b"]
        planned = ek.plan([{"answer": "a", "requirement": text} for text in alone], "requirement", "fake:strict")
        assert planned.n_items == len(alone)
    single = [{"item_id": 1, "criteria": "Names a; b; c"}, {"item_id": 2, "criteria": ["Factuality", "Names a; b"]}]
    assert [message.partition(":")[0] for message in lint_criteria(single)["message"]] == [
        "one criterion, with ';' or '|' between parts", "is one word",
    ]  # fmt: skip


@pytest.mark.long
def test_a_column_of_criteria_of_any_name_is_named_by_inputs() -> None:
    items = [{"item_id": at, "question": "q", "answer": f"Says A{at}", "rubric": ["Says A", {"text": "B", "points": 3}]}
             for at in range(3)]  # fmt: skip
    named, plain = {"criteria": "rubric"}, [{**item, "criteria": item.pop("rubric")} for item in map(dict, items)]
    options = {"samples": 1, "progress": False}
    judged = ek.judge(items, "requirement", "fake:strict", inputs=named, **options)
    assert judged["key"].tolist() == ek.judge(plain, "requirement", "fake:strict", **options)["key"].tolist()
    evaluation = ek.evaluate(items, "requirement", "fake:strict", inputs=named, **options)
    expected = ek.evaluate(plain, "requirement", "fake:strict", **options).points
    assert evaluation.points["score"].tolist() == expected["score"].tolist()
    assert ek.Evaluation.of(judged, items, rubric="requirement", inputs=named).points["score"].equals(expected["score"])
    assert ek.plan(items, "requirement", "fake:strict", samples=1, inputs=named).n_to_call == 0
    text = ek.build_prompt("requirement", {**items[0], "rubric": ["Says A"]}, inputs=named).messages[-1].content
    assert "Says A" in text
    for wrong, words in (({"criteria": "rubrik"}, "did you mean 'rubric'"),
                         ({"criteria": "rubric", "requirement": "answer"}, "keep one of them")):  # fmt: skip
        with pytest.raises(InputError, match=words):
            ek.judge(items, "requirement", "fake:strict", inputs=wrong)
    with pytest.raises(ConfigError, match="rubric 'faithfulness' does not have"):
        ek.judge(items, "faithfulness", "fake:strict", inputs=named)


def test_a_text_that_ends_like_points_is_a_criterion_where_its_points_are_given() -> None:
    for text in (
        "The result is (3/10)",
        "Required: the author is named",
        "Bonus: the year",
        "Add 5 points of evidence",
    ):
        for cell in ([text], text, json.dumps([text])):
            with pytest.raises(InputError, match=r"if they are text, give \{'text': .*, 'points': 1\}"):
                ek.explode_criteria([{"item_id": 1, "criteria": cell}])
        rows = ek.explode_criteria([{"item_id": 1, "criteria": ["Is short", {"text": text, "points": 1}]}])
        assert rows[["requirement", "points"]].values.tolist() == [["Is short", 1.0], [text, 1.0]]


def test_a_cell_that_is_made_to_be_read_slowly_is_read_in_linear_time() -> None:
    def check(size: int) -> None:
        text = piece * (size // len(piece))
        for cell in (f"x y{text}z", f"a. {text}z", f"1. {text}z", f"- {text}z"):
            with suppress(InputError):
                rows = ek.explode_criteria([{"item_id": 1, "criteria": cell}])
                assert rows["requirement"].str.len().sum() < 1.5 * size
            with suppress(InputError):
                refuse_lists([cell], "it", "requirement")

    for piece in ("\n", " ", "; ", "1. ", "1) ", "ab ", "a. \n", "1. a\n", "x y|", "- ", "\\n"):
        assert grows_linearly(check, 24_000), piece


LEVELS = {"criteria": "How sound is the plan?", "score1": "Not at all.", "score5": "Fully."}


@pytest.mark.parametrize("how", [{"fields": {"text": "criteria"}}, {"fields": "healthbench"}, {"ignore": ["score1"]}])
def test_what_names_fields_of_a_list_is_refused_beside_a_mapping_of_texts(how):
    with pytest.raises(InputError, match=r"are a mapping \(keys: 'criteria'.* a list of one"):
        ek.explode_criteria([{"criteria": LEVELS}], **how)
    both = [{"criteria": [{"title": "a", "n": 1}]}, {"criteria": {"one": "b"}}]
    rows = ek.explode_criteria(both, fields={"text": "title"}, ignore=["n"])
    assert rows["requirement"].tolist() == ["a", "b"]


def test_points_at_the_end_of_a_text_are_refused():
    with pytest.raises(InputError, match="may be its points"):
        ek.explode_criteria([{"criteria": ["文采+4"]}])


@pytest.mark.parametrize(
    "text",
    ["The film is for ages 18+", "Names C++11", "Uses GPT-4", "Says it is UTC+2", "Computes 2+3", "The code is +44"],
)
def test_numbers_at_the_end_of_a_text_are_text(text):
    assert ek.explode_criteria([{"criteria": [text]}])["requirement"].tolist() == [text]
