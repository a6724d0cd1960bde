"""Readers of labels against a generator that knows what people answered: no label is wrong, and none vanishes."""

from __future__ import annotations

import random
import string
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import evalkit as ek
from evalkit.errors import EvalkitError, EvalkitWarning, InputError

Truth = dict[tuple[str, str, str], str]
LABELS = ("good", "bad", "3", "so-so", "true", "Ja", "0")


def word(draw: random.Random) -> str:
    return "".join(draw.choices(string.ascii_lowercase + "_", k=draw.randint(3, 9))).strip("_") or "w"


def anything(draw: random.Random) -> Any:
    return draw.choice(["x", 1, 0.5, True, ["a", "b"], {"a": 1}, [{"label": "a", "start": 0, "end": 3}], None])


def label_studio(draw: random.Random) -> tuple[list[dict[str, Any]], Truth, set[str]]:
    """Tasks, what people answered, and the questions whose answers are no label."""
    kinds = {word(draw): draw.choice(["choices", "choices", "rating", "number", "pairwise", word(draw), "region"])
             for _ in range(draw.randint(1, 4))}  # fmt: skip
    truth, refused, tasks = Truth(), set[str](), []
    for number in range(draw.randint(1, 4)):
        annotations = []
        for who in draw.sample(("1", "ana@example.org", "7"), draw.randint(1, 3)):
            counts, results = draw.random() < 0.8, []
            for question, kind in kinds.items():
                if draw.random() < 0.3:
                    continue
                label = draw.choice(LABELS)
                value: dict[str, Any] = {"choices": [label]}
                if kind in ("rating", "number"):
                    label = str(draw.randint(0, 5))
                    value = {kind: draw.choice([int(label), float(label)])}
                elif kind == "pairwise":
                    label = draw.choice("AB")
                    value = {"selected": {"A": "left", "B": "right"}[label]}
                elif kind == "region":
                    value[word(draw) + "_"] = anything(draw)
                elif kind != "choices":
                    value = {kind: anything(draw)}
                if kind not in ("choices", "rating", "number", "pairwise"):
                    refused |= {question} if counts else set()
                elif counts:
                    truth[str(number), question, who] = label
                name = "choices" if kind == "region" else kind
                results.append({"from_name": question, "type": name, "value": value, "origin": "manual"})
            by: Any = (
                draw.choice([who, {"id": 3, "email": who}, {"id": 3, "username": who}]) if "@" in who else int(who)
            )
            annotation = {"completed_by": by, "result": results, "lead_time": 2.0, word(draw) + "_": anything(draw)}
            how = (
                {}
                if counts
                else draw.choice(
                    [{"was_cancelled": True}, {"skipped": True}, {"parent_prediction": 4, "lead_time": None}]
                )
            )
            annotations.append(annotation | how)
        tasks.append({"id": number, "data": {"text": word(draw)}, "annotations": annotations,
                      "predictions": [{"result": [{"from_name": q, "type": "choices", "value": {"choices": ["x"]}}
                                                  for q in kinds]}]})  # fmt: skip
    return tasks, truth, refused


def argilla(draw: random.Random) -> tuple[list[dict[str, Any]], Truth, set[str]]:
    """Records with flat responses, what people submitted, and the questions whose answers are no label."""
    questions = [word(draw) for _ in range(draw.randint(1, 3))]
    truth, refused, records = Truth(), set[str](), []
    for number in range(draw.randint(1, 5)):
        record: dict[str, Any] = {"id": f"r{number}", "status": "completed", "_server_id": "s", word(draw) + "_f": "a"}
        for question in questions:
            labels, users, states = list[Any](), list[str](), list[str]()
            for user in draw.sample(("u1", "u2", "u3"), draw.randint(0, 3)):
                label = draw.choice([*LABELS, 4, ["good"], [], [{"label": "x", "rank": 1}]])
                state = draw.choice(["submitted", "submitted", "draft", "discarded"])
                if state == "submitted" and isinstance(label, list):
                    refused.add(question)
                elif state == "submitted":
                    truth[f"r{number}", question, user] = str(label)
                for column, value in ((labels, label), (users, user), (states, state)):
                    column.append(value)
            record |= {f"{question}.responses": labels, f"{question}.responses.users": users,
                       f"{question}.responses.status": states, f"{question}.suggestion": "x"}  # fmt: skip
        records.append(record)
    return records, truth, refused


def check(make: Callable[[random.Random], tuple[list[dict[str, Any]], Truth, set[str]]], draw: random.Random) -> None:
    """All answers are labels as they were given; or an error names a question whose answers are none."""
    source, truth, refused = make(draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalkitWarning)
        if refused:
            with pytest.raises(EvalkitError, match="are no labels") as failure:
                ek.load_labels(source)
            assert any(repr(question) in str(failure.value) for question in refused)
        answered = {question for _, question, _ in truth} - refused
        if not answered:
            return
        table = ek.load_labels(source, criteria={question: question for question in answered})
    rows = table.astype(str).itertuples(index=False)
    assert {(r.item_id, r.criterion, r.annotator): r.label for r in rows} == {
        key: label for key, label in truth.items() if key[1] in answered
    }


@pytest.mark.long
@pytest.mark.parametrize("make", [label_studio, argilla])
def test_labels_of_people_are_read_or_refused_by_name(make: Any) -> None:
    draw = random.Random(make.__name__)
    for _ in range(60):
        check(make, draw)


@pytest.mark.parametrize(
    "other",
    [
        [{"id": "r", "fields": {"t": "x"}, "responses": {"q": [{"value": "kind", "user_id": "u"}]}}],
        [{"id": 1, "data": {"text": "x"}, "annotations": []}],
        [],
    ],
)
def test_another_form_is_not_read_as_argillas(other: Any) -> None:
    with pytest.raises(InputError, match="no records of Argilla"):
        ek.load_labels(other, reader="argilla")


def test_a_table_of_labels_may_have_a_column_kind() -> None:
    row = {"item_id": "1", "criterion": "c", "annotator": "a", "label": "x", "kind": "gold"}
    assert ek.load_labels([row])["label"].tolist() == ["x"]
