"""Chats as lists of messages: read, and split into question and answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson
import pandas as pd

from evalkit.errors import InputError
from evalkit.tables.items import canonical, is_missing

_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}


def split_messages(items: pd.DataFrame, column: str) -> pd.DataFrame:
    """Items with the columns `question`, `answer` and `conversation`, from a column of chats.

    Parameters
    ----------
    items
        The items.
    column
        Its cells are lists of messages (``{"role": "user", "content": …}`` or ``{"from": "human", "value": …}``), or
        such lists as JSON text.

    Returns
    -------
    pandas.DataFrame
        The items with `answer` (the assistant's last message), `question` (the user's last message before it) and
        `conversation` (all messages before the question); None where there is none.

    Raises
    ------
    InputError
        For a missing column, and for a cell that is not a list of messages.

    Examples
    --------
    >>> chat = [{"role": "user", "content": "Is it on?"}, {"role": "assistant", "content": "Yes."}]
    >>> split_messages(pd.DataFrame({"log": [chat]}), "log")[["question", "answer"]].to_dict("list")
    {'question': ['Is it on?'], 'answer': ['Yes.']}
    """
    if column not in items.columns:
        raise InputError(f"the items have no column {column!r} with messages")
    rows = [_split(messages_of(cell)) for cell in items[column].tolist()]
    names = ("question", "answer", "conversation")
    return items.assign(
        **{name: pd.Series([row[at] for row in rows], items.index, object) for at, name in enumerate(names)}
    )


def messages_of(cell: Any) -> list[dict[str, Any]]:
    """The messages of a cell; a missing cell has none.

    Raises
    ------
    InputError
        When the cell is not a list of messages.
    """
    try:
        value = canonical(orjson.loads(cell) if isinstance(cell, str) else cell)
    except orjson.JSONDecodeError:
        value = cell
    value = [_named(one) for one in value] if isinstance(value, list) else [] if value is None else value
    if not isinstance(value, list) or not all(
        isinstance(one, Mapping) and {"role", "content"} <= {*one} for one in value
    ):
        raise InputError(f"expected a list of messages with role and content, got {str(cell)[:60]!r}")
    return value


def holds_chats(cells: Iterable[Any]) -> bool:
    """Whether there are cells, and each of those that are not missing is a list of messages."""
    present = [cell for cell in cells if not is_missing(cell)]
    try:
        return bool(present) and all(messages_of(cell) for cell in present)
    except InputError:
        return False


def _named(message: Any) -> Any:
    """A message in the form ``{"from": "human", "value": …}`` as one with role and content."""
    if not isinstance(message, Mapping) or not {"from", "value"} <= {*message}:
        return message
    return {"role": _ROLES.get(str(message["from"]), message["from"]), "content": message["value"]}


def _split(messages: list[dict[str, Any]]) -> tuple[Any, Any, Any]:
    roles = [message["role"] for message in messages]
    last = max((at for at, role in enumerate(roles) if role == "assistant"), default=None)
    asked = max((at for at, role in enumerate(roles[:last]) if role == "user"), default=None)
    answer = None if last is None else _text(messages[last]["content"])
    if asked is None:
        return None, answer, messages[:last] or None
    return _text(messages[asked]["content"]), answer, messages[:asked] or None


def _text(content: Any) -> Any:
    """A message's content; parts of text as one text."""
    if not isinstance(content, list):
        return content
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
    return "\n".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else content
