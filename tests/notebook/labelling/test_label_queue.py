"""The label queue where items are criteria: all of an item on one form, in the order of the label page."""

from __future__ import annotations

import json

import pytest
from own_criteria import items
from small_tuner import do

import evalkit as ek


@pytest.fixture
def tuner(tmp_path):
    rows = ek.explode_criteria(items(4))
    return ek.RubricTuner(rows, "requirement", "fake:strict", folder=tmp_path, cache=tmp_path / "c", annotator="Ana")


def queue_of(tuner):
    return tuner.state["queue"]


def test_a_form_has_all_criteria_of_an_item_in_their_order(tuner, tmp_path):
    do(tuner, do="queue", open=True, source="random", blind=True)
    rows = tuner.session.items
    page = ek.notebook.LabelPage(rows, "requirement", annotator="Ana", labels=tmp_path / "other.labels.jsonl")
    names = list(page._forms.questions)
    for name in names:
        mine = rows[rows["of_item"] == name]
        queue = queue_of(tuner)
        assert (queue["name"], queue["item_id"]) == (name, mine["item_id"].iloc[0])
        assert [[item, text] for item, text, _ in queue["questions"]] == mine[
            ["item_id", "requirement"]
        ].to_numpy().tolist()
        assert "requirement" not in [name for name, _ in queue["inputs"]]
        last = mine["item_id"].iloc[-1]
        do(tuner, do="label_next", item_id=last, criterion="requirement", label="1")  # any of the form
        assert [label for *_, label in queue_of(tuner)["questions"]] == [None] * (len(mine) - 1) + ["1"]
        for item in mine["item_id"].iloc[:-1]:
            assert queue_of(tuner)["item_id"] == item
            do(tuner, do="label_next", item_id=item, criterion="requirement", label="0")
    assert queue_of(tuner)["item_id"] is None
    assert tuner.labels["label"].astype(str).value_counts().to_dict() == {"0": len(rows) - len(names), "1": len(names)}


def test_a_criterion_of_another_item_was_not_on_screen(tuner):
    do(tuner, do="queue", open=True, source="random", blind=True)
    shown = {item for item, *_ in queue_of(tuner)["questions"]}
    other = next(item for item in tuner.session.items["item_id"] if item not in shown)
    do(tuner, do="label_next", item_id=other, criterion="requirement", label="1")
    assert tuner.labels.empty


def test_skip_and_undo_are_of_the_form_and_of_one_label(tuner):
    do(tuner, do="queue", open=True, source="random", blind=True)
    first = queue_of(tuner)
    do(tuner, do="label_next", item_id=first["item_id"], criterion="requirement", label="1")
    do(tuner, do="skip_item", item_id=queue_of(tuner)["item_id"], criterion="requirement")
    assert queue_of(tuner)["name"] != first["name"]
    assert queue_of(tuner)["n_skipped"] == len(first["questions"]) - 1
    do(tuner, do="undo_label")
    assert tuner.labels.empty
    seen = []
    while (queue := queue_of(tuner))["item_id"] is not None:
        seen.append(queue["name"])
        do(tuner, do="label_next", item_id=queue["item_id"], criterion="requirement", label="1")
    assert seen[-len(first["questions"]) :] == [first["name"]] * len(first["questions"])  # at the end
    assert len(seen) == len(tuner.session.items)


def test_a_draw_keeps_the_criteria_of_an_item_together(tuner):
    draws = dict.fromkeys(tuner.session.items["item_id"].iloc[::-2], 0.5)
    tuner.session.labels.log.add_draw("requirement", draws)
    do(tuner, do="queue", open=True, source="disputed", blind=True)
    seen, of_item = [], tuner.session.items.set_index("item_id")["of_item"]
    while (queue := queue_of(tuner))["item_id"] is not None:
        seen.append(queue["item_id"])
        assert {of_item[item] for item, *_ in queue["questions"]} == {queue["name"]}
        do(tuner, do="label_next", item_id=queue["item_id"], criterion="requirement", label="1")
    names = [of_item[item] for item in seen]
    assert sorted(seen) == sorted(draws)
    assert names == sorted(names, key=names.index)
    assert set(tuner.labels["probability"]) == {0.5}


LOG = [
    {"role": "user", "content": "Book a table for two at eight."},
    {"role": "assistant", "content": "I look for a table."},
    {"role": "user", "content": "Well?"},
    {"role": "assistant", "content": "Done, at nine."},
]
TRAJECTORIES = [{"item_id": f"t{at}", "task": "Book a table.", "messages": LOG[: 2 + 2 * (at > 0)]} for at in range(3)]
STEPS = {"t0": ["none", "2"], "t1": ["none", "2", "4"], "t2": ["none", "2", "4"]}


def test_the_levels_of_first_failure_are_the_steps_of_the_item_in_the_tuner(tmp_path):
    tuner = ek.RubricTuner(TRAJECTORIES, "first_failure", "fake:strict", folder=tmp_path, cache=tmp_path / "c")
    for _ in STEPS:
        do(tuner, do="queue", open=True, source="random", blind=True)
        queue = queue_of(tuner)
        assert [code for code, *_ in queue["levels"]] == STEPS[queue["item_id"]]
        do(tuner, do="label_next", item_id=queue["item_id"], criterion="first_failure", label="2")
    assert tuner.labels["label"].tolist() == ["2"] * 3
    tuner.run()
    tuner.edit("first_failure", description="Where did it go wrong?")
    tuner.run()
    assert [change["where"] for change in tuner.state["figures"]["diff"]] == ["first_failure: description"]
    for item in STEPS:
        do(tuner, do="select", item_id=item)
        assert [code for code, *_ in tuner.state["item"]["levels"]] == STEPS[item]
    assert tuner.state["alert"] == ""


def as_text(messages):
    """The messages as a cell of a CSV file, with a call in each of the assistant's."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return json.dumps([{**one, "tool_calls": [call]} if one["role"] == "assistant" else one for one in messages])


@pytest.mark.parametrize("write", [list, as_text])
def test_the_levels_of_first_failure_are_the_steps_of_the_item_on_the_label_page(tmp_path, write):
    log = tmp_path / "x.labels.jsonl"
    trajectories = [{**item, "messages": write(item["messages"])} for item in TRAJECTORIES]
    page = ek.notebook.LabelPage(trajectories, "first_failure", annotator="Ana", labels=log, order="given")
    for item, steps in STEPS.items():
        form = page.state["form"]
        (question,) = form["questions"]
        assert (form["form"], [code for code, *_ in question["levels"]]) == (item, steps)
        page.receive({"do": "save", "form": item, "answers": ["3"]})  # the user's turn is no step
        assert page.state["alert"].startswith("not saved: '3' is no answer")
        page.receive({"do": "save", "form": item, "answers": [steps[-1]]})
        assert page.state["alert"] == ""
    assert page.labels["label"].tolist() == ["2", "4", "4"]
    lead = ek.notebook.LabelPage(trajectories, "first_failure", annotator="Lee", labels=log, view="lead")
    assert "Only Ana has labelled" in lead.state["form"]["sentence"][0]
