"""Trajectories as one row per step: which messages are steps, their history, and the trajectory as cluster."""

import pandas as pd
import pytest
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.errors import ConfigError, InputError
from evalkit.tables import explode_steps

CALL = {"id": "c1", "type": "function", "function": {"name": "order", "arguments": "{}"}}
LOG = [
    {"role": "system", "content": "Help."},
    {"role": "user", "content": "Where is it?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "on truck 3"},
    {"role": "user", "name": "terminal", "content": "exit 0"},
    {"role": "Planner", "content": "Done."},
]


def test_a_step_is_an_agents_message_and_comes_with_all_before_it():
    rows = explode_steps([{"item_id": "t1", "task": "find", "messages": LOG, "answer": "Done."}])
    assert rows["item_id"].tolist() == ["t1#3", "t1#5", "t1#6"]
    assert [len(before) for before in rows["messages"]] == [2, 4, 5]
    assert [step[0]["role"] for step in rows["step"]] == ["assistant", "user", "Planner"]
    assert set(rows["task"]) == {"find"}
    assert set(rows["answer"]) == {"Done."}
    assert set(rows["group_id"]) == {"t1"}


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1, 2], [1, 1, 1, 2, 2, 2]),  # ids keep their type
        (["a", "b"], ["a", "a", "a", "b", "b", "b"]),
    ],
)
def test_the_trajectory_is_the_cluster_unless_there_is_a_group(column, expected):
    items = pd.DataFrame({"item_id": column, "messages": [LOG, LOG]})
    assert explode_steps(items)["group_id"].tolist() == expected
    grouped = explode_steps(items.assign(group_id=["task", None]))
    assert grouped["group_id"].tolist() == ["task"] * 3 + [expected[-1] if column == ["a", "b"] else "2"] * 3


def test_intervals_of_judged_steps_count_trajectories():
    items = [
        {"item_id": f"t{number}", "messages": [{"role": "user", "content": str(number)}, *LOG[2:]]}
        for number in range(4)
    ]
    rubric = rubric_of("step", {0: "no", 1: "yes"}, "right", inputs="messages step", pass_at=1)
    evaluation = ek.evaluate(explode_steps(items), rubric, "fake:strict")
    assert evaluation.summary["n_items"].tolist() == [12]
    assert evaluation.summary["n_clusters"].tolist() == [4]


def test_history_can_be_limited():
    rows = explode_steps([{"item_id": "t1", "messages": LOG}], history=1)
    assert [[message["role"] for message in before] for before in rows["messages"]] == [["user"], ["tool"], ["user"]]


@pytest.mark.parametrize("history", ["2", 1.5, -1, True])
def test_a_history_that_is_no_number_of_messages_is_refused(history):
    with pytest.raises(ConfigError, match=r"history is .*; expected a whole number of messages from 0 up"):
        explode_steps([{"item_id": "t1", "messages": LOG}], history=history)


def test_ten_thousand_steps_are_refused_unless_their_history_is_limited():
    log = [{"role": "assistant", "content": f"step {number}"} for number in range(10_000)]
    with pytest.raises(InputError, match=r"hold 49,995,000 messages; pass history=50"):
        explode_steps([{"item_id": "t1", "messages": log}])
    assert len(explode_steps([{"item_id": "t1", "messages": log}], history=50)) == 10_000


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"log": LOG}, "no column 'messages'"),
        ({"messages": LOG, "step": "x"}, "'step' or 'of_item'"),
        ({"messages": LOG[:2]}, "item '0' has no step"),
        ({"messages": None}, "item '0' has no step"),
        ({"messages": {"traj": LOG}}, r"use log\['traj'\]"),
        ({"messages": [{"from": "human", "value": "Hi"}]}, "ShareGPT"),
    ],
)
def test_what_is_no_trajectory_is_refused(item, message):
    with pytest.raises(InputError, match=message):
        explode_steps([item])


def test_an_empty_table_has_no_rows():
    assert explode_steps(pd.DataFrame({"item_id": [], "messages": []})).empty
