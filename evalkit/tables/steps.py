"""Trajectories of agents, as one row per step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from evalkit.errors import ConfigError, InputError, error_at, listed
from evalkit.tables.items import ItemsLike, as_frame, as_items
from evalkit.tables.message_forms import Message, is_other, is_result, stated_messages, warn_of
from evalkit.tables.messages import ANSWER, QUESTION, list_of

NO_STEP = "none"
"""The label of a trajectory without a failed step."""
_MOST = 2_000_000  # messages of all histories together: some gigabytes


def explode_steps(
    items: ItemsLike, messages: str = "messages", *, history: int | None = None, item_id: str | None = None
) -> pd.DataFrame:
    """Trajectories as one row per step, with what happened before it.

    A step is a message in which an agent speaks or calls tools: one of the assistant, or of anybody with a name. What a
    system, a user without a name or a tool says is none. A rubric with the inputs ``task``, ``messages`` and ``step``
    judges the rows; so does one that reads an answer, with ``inputs={"answer": "step", "conversation": "messages"}``.

    Parameters
    ----------
    items
        Items with a column of messages in the form of OpenAI's chat API.
    messages
        The name of the column.
    history
        The most messages before a step; by default all.
    item_id
        The column that holds the ids.

    Returns
    -------
    pandas.DataFrame
        In the order of items and steps: `item_id` (``item#number``, with the number of the message from 1, as prompts
        show it), `of_item`, `group_id` (the item's own, else the item: intervals are then by trajectory), `messages`
        (those before the step), `step` (a list of this one message), and all other columns of the items.

    Raises
    ------
    ConfigError
        For a `history` that is no whole number from 0 up.
    InputError
        For a missing column, cells that are no messages, items without a step, and histories that hold more than two
        million messages together.

    Examples
    --------
    >>> chat = [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}]
    >>> explode_steps([{"item_id": "t1", "messages": chat}])[["item_id", "of_item", "step"]].values.tolist()
    [['t1#2', 't1', [{'role': 'assistant', 'content': 'Yes.'}]]]
    """
    if history is not None and (type(history) is not int or history < 0):
        raise ConfigError(f"history is {history!r:.60}; expected a whole number of messages from 0 up, or None for all")
    frame = as_items(items, item_id=item_id)
    if messages not in frame:
        raise InputError(f"the items have no column {messages!r} with messages; they have {listed(frame, most=30)}")
    if {"step", "of_item"} & {*frame}:
        raise InputError("the items have a column 'step' or 'of_item', which explode_steps makes; rename it")
    unknown, rows, n_messages = set[str](), list[dict[str, Any]](), 0
    for number, (item, cell) in enumerate(zip(frame["item_id"], frame[messages], strict=True)):
        with error_at(f"item {item!r}", InputError):
            log = list_of(cell)
            log = [message for message in log if message is not None] if isinstance(log, list) else log
            numbers = step_numbers(stated_messages(log, unknown))
        if not numbers:
            raise InputError(f"item {item!r} has no step: no message in {messages!r} is an assistant's or has a name")
        for step in numbers:
            end = step - 1
            first = 0 if history is None else max(0, end - history)
            n_messages += end - first
            rows.append({"row": number, "id": f"{item}#{step}", "messages": log[first:end], "step": [log[end]]})
        if n_messages > _MOST:
            raise InputError(
                f"the histories of the steps up to item {item!r} hold {n_messages:,} messages; pass history=50, or "
                "judge with the rubric 'first_failure', a call per trajectory"
            )
    warn_of(unknown, f"column {messages!r}")
    steps = pd.DataFrame(rows, columns=["row", "id", "messages", "step"])
    beside = frame.drop(columns=["item_id", "group_id", messages], errors="ignore")
    repeated = beside.iloc[steps["row"]].reset_index(drop=True)
    source, name = as_frame(items), item_id or "item_id"
    own_ids = source[name].reset_index(drop=True) if name in source else frame["item_id"]
    groups = frame["group_id"].where(frame["group_id"].notna(), frame["item_id"]) if "group_id" in frame else own_ids
    columns = {
        "item_id": steps["id"].astype("str"),
        "of_item": own_ids.iloc[steps["row"]].reset_index(drop=True),
        "group_id": groups.iloc[steps["row"]].reset_index(drop=True),
        messages: steps["messages"],
        "step": steps["step"],
    }
    return pd.concat([pd.DataFrame(columns), repeated], axis=1)


def step_numbers(messages: Any) -> Sequence[int]:
    """The numbers, from 1, of the messages in the one form in which an agent acts; none if these are no messages."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return []
    return [number for number, message in enumerate(messages, 1) if _is_step(message)]


def refuse_other_step(item: str, label: str, numbers: Sequence[int]) -> None:
    """InputError unless a label is one of an item's steps, or none."""
    steps = [str(number) for number in numbers]
    if label not in (*steps, NO_STEP):
        raise InputError(
            f"item {item!r}: the label {label!r} is none of its steps; allowed: {listed(steps, most=8)} (numbers of "
            f"messages, from 1) and {NO_STEP!r}"
        )


def _is_step(message: Message) -> bool:
    is_of_agent = "name" in message or not is_other(message["role"])
    return is_of_agent and not is_result(message) and message not in (QUESTION, ANSWER)
