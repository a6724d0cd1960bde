"""Whatever nothing reads is refused with a line that works: fields, lists and numbers drawn at random."""

from __future__ import annotations

import json
import random
import re
import string
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from right_criteria import AXES, STATEMENTS

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.rubrics.item_criteria import FIELDS, CriteriaForm, criteria_in, refuse_numbers_beside

SOME_WORDS = ("weight", "must_not", "негатив", "polarity", "pts", "when", "needs", "below", "группа", "level", "Text",
              "importance", "tags", "expected", "subs", "not met", "why", "source", "kind", "requirement")  # fmt: skip


def word(draw: random.Random) -> str:
    """A name that no form has: of a list of words, or of letters."""
    name = "".join(draw.choices(string.ascii_lowercase + "_", k=draw.randint(1, 12)))
    return draw.choice(SOME_WORDS) if draw.random() < 0.4 else name + "x" * (name in FIELDS)


def value(draw: random.Random, depth: int = 0) -> Any:
    """Something that a field may hold, and that is not empty."""
    leaves = [1, -2, 0, 0.5, True, False, "no", "high", "-3", draw.choice(STATEMENTS)]
    if depth < 2 and draw.random() < 0.3:
        return draw.choice([[value(draw, depth + 1)], {word(draw): value(draw, depth + 1)}])
    return draw.choice(leaves)


def criteria(draw: random.Random) -> list[dict[str, Any]]:
    """Some criteria in the stated form."""
    texts = draw.sample(STATEMENTS, draw.randint(2, 6))
    return [{"text": text, **({"points": draw.choice([1, 3, -2])} if draw.random() < 0.5 else {}),
             **({"axis": draw.choice(AXES)} if draw.random() < 0.3 else {})} for text in texts]  # fmt: skip


def with_field(draw: random.Random) -> tuple[dict[str, Any], str]:
    cell, name = criteria(draw), word(draw)
    draw.choice(cell)[name] = value(draw)
    return {"criteria": cell}, name


def without_text(draw: random.Random) -> tuple[dict[str, Any], str]:
    name = word(draw)
    return {"criteria": [{name: entry["text"]} for entry in criteria(draw)]}, name


def nested(draw: random.Random) -> tuple[dict[str, Any], str]:
    cell, name = criteria(draw), word(draw)
    draw.choice(cell)[name] = draw.choice([criteria(draw), [entry["text"] for entry in criteria(draw)]])
    return {"criteria": cell}, name


def two_lists(draw: random.Random) -> tuple[dict[str, Any], str]:
    first, second = draw.sample(SOME_WORDS, 2)
    return {"criteria": {first: criteria(draw), second: draw.choice([criteria(draw), ["x"], value(draw)])}}, first


def numbers_in_the_cell(draw: random.Random) -> tuple[dict[str, Any], str]:
    cell = criteria(draw)
    name = word(draw)
    return {"criteria": {name: [entry["text"] for entry in cell], "w" + word(draw): [*range(len(cell))]}}, name


def worths_of_texts(draw: random.Random) -> tuple[dict[str, Any], str]:
    texts = [entry["text"] for entry in criteria(draw)]
    return {"criteria": {text: draw.choice([5, -2, True, 0.5]) for text in texts}}, texts[0]


def numbers_in_a_column(draw: random.Random) -> tuple[dict[str, Any], str]:
    cell, name = criteria(draw), f"{word(draw)}_"
    numbers = [draw.choice([1, -2, 0.5, 1e-7, True, "3", "−1", "50%", ".5"]) for _ in cell]
    form = draw.choice([list, tuple, lambda given: {f"k{n}": number for n, number in enumerate(given)}])
    column = form(numbers)
    return {"criteria": cell, name: draw.choice([column, json.dumps(column)])}, name


def numbers_in_a_text(draw: random.Random) -> tuple[dict[str, Any], str]:
    cell, name = criteria(draw), f"{word(draw)}_"
    between = draw.choice([", ", ",", "; ", " ", "|", "\n", " | "])
    return {
        "criteria": cell,
        name: between.join(draw.choice(["1", "-2", "+3", "0.5", "50%", "−1"]) for _ in cell),
    }, name


KINDS: tuple[Callable[[random.Random], tuple[dict[str, Any], str]], ...] = (
    with_field, without_text, nested, two_lists, numbers_in_the_cell, worths_of_texts, numbers_in_a_column,
    numbers_in_a_text,
)  # fmt: skip


def read(item: dict[str, Any]) -> None:
    """What `explode_criteria` does with an item, without tables."""
    counts = [len(criteria_in(item["criteria"]))]
    beside = [(name, [cell]) for name, cell in item.items() if name != "criteria"]
    refuse_numbers_beside(beside, counts, CriteriaForm())


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_part_of_an_item_is_dropped_in_silence(kind: Callable[[random.Random], tuple[dict[str, Any], str]]) -> None:
    draw = random.Random(kind.__name__)
    for _ in range(1_500):
        item, name = kind(draw)
        with pytest.raises(InputError) as failure:
            read(item)
        assert repr(name) in str(failure.value)
        assert re.search(r"fields=|ignore=", str(failure.value))


@pytest.mark.long
def test_ignore_and_fields_read_what_was_refused() -> None:
    draw = random.Random(9)
    for _ in range(500):
        item, name = with_field(draw)
        plain = [{field: entry[field] for field in entry if field != name} for entry in item["criteria"]]
        assert criteria_in(item["criteria"], CriteriaForm(ignore=[name])) == criteria_in(plain)
        item, name = without_text(draw)
        plain = [{"text": entry[name]} for entry in item["criteria"]]
        assert criteria_in(item["criteria"], CriteriaForm(fields={"text": name})) == criteria_in(plain)
        item, name = numbers_in_a_column(draw)
        assert len(ek.explode_criteria([item], ignore=[name])) == len(item["criteria"])


def test_a_form_that_cannot_be_is_refused_with_the_line_that_works() -> None:
    for given, text in (
        ({"fields": {"txt": "a"}}, "fields= names 'txt'; did you mean 'text'"),
        ({"fields": {"text": "a", "points": "a"}}, "expected texts, each once"),
        ({"fields": {"text": ["a"]}}, "expected texts"), ({"fields": 3}, "expected texts"),
        ({"fields": ["a"]}, "expected texts"), ({"ignore": "a"}, "expected texts"), ({"ignore": [3]}, "expected texts"),
        ({"column": 3}, "expected texts"), ({"colum": "a"}, "did you mean 'column'"), (3, "expected texts"),
        ({"fields": "helthbench"}, "unknown reader 'helthbench'; did you mean 'healthbench'"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=text):
            CriteriaForm.of(given)
        with pytest.raises(ConfigError, match=text):
            ek.plan([{"answer": "a"}], "requirement", "fake:strict", inputs={"criteria": given})


def test_numbers_beside_the_criteria_are_seen_in_all_items_or_none() -> None:
    items = [{"item_id": n, "criteria": ["Says A", "Says B", "Says C"][:n], "w": [1] * n} for n in (1, 2, 3)]
    with pytest.raises(InputError, match=r"the column 'w' holds a number for each criterion.*ignore=\['w'\]"):
        ek.explode_criteria(items)
    with pytest.raises(InputError, match="the column 'w' holds a number for each criterion"):
        ek.explode_criteria(items[:1])
    embeddings = [{**item, "w": [0.5] * 4} for item in items]
    assert len(ek.explode_criteria(embeddings)) == 6
    for other in (
        [0.5],
        ["a passage"],
        [{"rank": 1}],
        "some words, some more",
        "2026-01-02",
        "3-4",
        4,
        "7",
        {"lang": "en"},
    ):
        one_each = [{**item, "w": other * 4 if isinstance(other, list) else other} for item in items]
        assert len(ek.explode_criteria(one_each)) == 6
    for passage in ("a passage", {"role": "user", "content": "hi"}, {"rank": 1}, ["a", 2], None, [1, 2]):
        beside = [{**item, "w": [passage] * len(item["criteria"])} for item in items]
        assert len(ek.explode_criteria(beside)) == 6, "no numbers, so none of the criteria's business"
    gaps = [{**item, "w": [None, "5, 1", "4, 2, -1"][n]} for n, item in enumerate(items)]
    for empty in (None, "", [], "5", 5):
        gaps[0]["w"] = empty  # or one number for one criterion
        with pytest.raises(InputError, match="the column 'w' holds a number for each criterion"):
            ek.explode_criteria(gaps)
    assert len(ek.explode_criteria([{**item, "w": "5"} for item in items[:1]])) == 1  # a number, and one criterion


@pytest.mark.parametrize("said", ["1, 2", "3 4", "[1, 2]", "x=3 y=4"])
def test_an_answer_of_numbers_says_nothing_of_criteria(said: str) -> None:
    item = {"item_id": 1, "question": "5, 6", "answer": said, "criteria": ["Counts", "Is short"]}
    assert ek.explode_criteria([item])["points"].tolist() == [1.0, 1.0]
    assert len(ek.judge([item], "requirement", "fake:strict", samples=1, progress=False)) == 2
    asked = ek.judge(
        [{**item, "prompt": "7 8"}],
        "requirement",
        "fake:strict",
        samples=1,
        progress=False,
        inputs={"question": "prompt"},
    )
    assert len(asked) == 2
    rewards = ek.engine.reward("requirement", "fake:strict", samples=1)
    assert len(rewards(["5, 6"] * 2, [said, said], criteria=[item["criteria"]] * 2)) == 2


@pytest.mark.parametrize("weights", [[[5, -2]], ([5, -2],), np.array([[5, -2]])])
def test_a_reward_looks_for_numbers_at_the_first_step_with_criteria(weights: Any) -> None:
    rewards = ek.engine.reward("requirement", "fake:strict", samples=1, unscored="none")
    rewards(["p"], ["a b"], criteria=[[]], weights=weights)
    with pytest.raises(InputError, match="the column 'weights' holds a number for each criterion"):
        rewards(["p"], ["a b"], criteria=[["Names a time", "Invents a source"]], weights=weights)


def test_what_fields_reads_cannot_be_ignored() -> None:
    with pytest.raises(ConfigError, match="fields= reads 'weight', which ignore= leaves out"):
        CriteriaForm(fields={"text": "title", "points": "weight"}, ignore=["weight"])


def test_texts_in_a_list_of_dr_tulu_have_its_sign() -> None:
    item = {"item_id": 1, "criteria": {"negative_rubrics": ["Invents a source"], "positive_rubrics": ["Cites"]}}
    rows = ek.explode_criteria([item], fields="dr_tulu")
    assert dict(zip(rows["requirement"], rows["points"], strict=True)) == {"Invents a source": -1.0, "Cites": 1.0}


ANCHORED = {"name": "Order", "criteria_description": "Is it in order?", "1-2": "No order", "9-10": "In order"}
AXIS = {"axis": "Formality", "low": "slang", "high": "formal words"}


@pytest.mark.parametrize(
    ("entry", "options", "lost"),
    [
        (ANCHORED, {}, "'name', 'criteria_description', '1-2', '9-10'"),
        (ANCHORED, {"fields": {"text": "criteria_description", "axis": "name"}}, "'1-2', '9-10'"),
        (AXIS, {}, "'low', 'high'"), (AXIS, {"fields": {"text": "high"}}, "'low'"),
    ],
)  # fmt: skip
def test_advice_to_ignore_texts_names_what_no_judge_would_read(entry: Any, options: Any, lost: str) -> None:
    with pytest.raises(InputError, match=f"no judge reads {re.escape(lost)}: .* write them into the text"):
        ek.explode_criteria([{"item_id": 1, "answer": "a", "criteria": [entry]}], **options)


def test_levels_in_words_that_no_judge_would_read_are_refused() -> None:
    def judged(scale: Any, text: str = "Is formal") -> int:
        five = ek.load_rubric("requirement").edit("requirement", scale=[1, 2, 3], pass_at=3)
        items = [{"item_id": 1, "answer": "a", "criteria": [{"text": text, "scale": scale}]}]
        return len(ek.judge(items, five, "fake:strict", samples=1, progress=False))

    with pytest.raises(InputError, match=r"in words that the rubric does not have.* 'scale': \[1, 2, 3\]"):
        judged({1: "slang", 2: "mixed", 3: "formal"})
    assert judged([1, 2, 3], "Is formal (1: slang, 2: mixed, 3: formal)") == 1


@pytest.mark.parametrize("name", ["punctuation:no_comma", "no_comma", "length_constraints:number_words", "x_1"])
def test_ids_are_no_statements(name: str) -> None:
    with pytest.raises(InputError, match=r"criterion 2 is an id, not a statement .* in \[STATEMENTS\[name\] for"):
        ek.explode_criteria([{"item_id": 1, "answer": "a", "criteria": ["Is short", name]}])


@pytest.mark.parametrize("text", ["Concise", "well-written", "12:30", "a/b", "時間:正確"])
def test_a_word_may_be_a_statement(text: str) -> None:
    assert ek.explode_criteria([{"item_id": 1, "answer": "a", "criteria": [text]}])["requirement"].tolist() == [text]
