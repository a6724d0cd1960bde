"""Calls of tools, checked without a judge: which were made, in which order, with which arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalkit.core.reply_keys import canonical_json
from evalkit.errors import ConfigError, InputError, counted, listed
from evalkit.tables.items import ItemsLike, as_items, canonical, is_missing
from evalkit.tables.messages import arguments_of, messages_of

CallLike = str | Mapping[str, Any] | Callable[[str, Any], bool]
"""A call: the name of a tool, ``{"name": …, "arguments": {…}}``, or a function of name and arguments."""
_CALL = '"name", or {"name": "refund", "arguments": {"id": "A17"}}'


@dataclass(frozen=True, slots=True)
class CallRules:
    """What the calls of a log must be; see `check_calls`."""

    made: Sequence[CallLike] = ()
    forbidden: Sequence[CallLike] = ()
    most: int | None = None
    in_order: bool = False
    exact: bool = False

    def __post_init__(self) -> None:
        for name in ("made", "forbidden"):
            calls = getattr(self, name)
            if not isinstance(calls, (list, tuple)) or not all(map(_is_call, calls)):
                raise ConfigError(f"{name} is {str(calls)[:80]!r}; expected a list of calls: {_CALL}")
        for name in ("in_order", "exact"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} is {getattr(self, name)!r:.60}; expected true or false")
        if self.most is not None and (type(self.most) is not int or self.most < 0):
            raise ConfigError(f"most is {self.most!r}; expected a whole number of calls from 0 up")

    def failures(self, messages: Any) -> list[str]:
        """What is wrong with the calls of a log, in words; empty if nothing is."""
        calls = [*_calls(messages)]
        lost = [self.made[number] for number in self._unmatched(calls)]
        wrong = [call for call in self.forbidden if any(self._fits(call, *made) for made in calls)]
        problems = [f"not made{', in this order' * self.in_order}: {_shown(lost)}"] if lost else []
        problems += [f"made, though forbidden: {_shown(wrong)}"] if wrong else []
        if self.most is not None and len(calls) > self.most:
            problems.append(f"{counted(len(calls), 'call')}, at most {self.most} allowed")
        return problems

    def _fits(self, expected: CallLike, name: str, arguments: Any) -> bool:
        if not isinstance(expected, (str, Mapping)):
            return bool(expected(name, arguments))
        fields: Mapping[str, Any] = {"name": expected} if isinstance(expected, str) else expected
        if fields["name"] != name or "arguments" not in fields:
            return bool(fields["name"] == name)
        values = fields["arguments"]
        if not isinstance(arguments, Mapping) or values.keys() - arguments.keys():
            return False
        shared = arguments if self.exact else {field: arguments[field] for field in values}
        return canonical_json(canonical(shared)) == canonical_json(canonical(values))

    def _unmatched(self, calls: list[tuple[str, Any]]) -> list[int]:
        """The numbers of the expected calls without a call of their own, of as many as can have one."""
        if self.in_order:
            lost, start = list[int](), 0
            for number, call in enumerate(self.made):
                found = next((at for at in range(start, len(calls)) if self._fits(call, *calls[at])), None)
                if found is None:
                    lost.append(number)
                else:
                    start = found + 1
            return lost
        if not self.made or not calls:
            return [*range(len(self.made))]
        from scipy.optimize import linear_sum_assignment

        fits = np.array([[self._fits(call, *made) for made in calls] for call in self.made])
        expected, used = linear_sum_assignment(fits, maximize=True)
        return sorted({*range(len(self.made))} - {*expected[fits[expected, used]].tolist()})


def check_calls(
    items: ItemsLike,
    made: str | Sequence[CallLike] = (),
    *,
    forbidden: Sequence[CallLike] = (),
    most: int | None = None,
    in_order: bool = False,
    exact: bool = False,
    messages: str = "messages",
    item_id: str | None = None,
) -> pd.DataFrame:
    """Whether agents made the calls of tools that they should, and none that they must not: without a judge.

    Parameters
    ----------
    items
        Items with a column of messages in the form of OpenAI's chat API.
    made
        The calls that must be made, each by a call of its own: a list for all items, or the column with that of each.
        A call is a tool's name, ``{"name": …, "arguments": {…}}``, or a function from name and arguments to a bool.
    forbidden
        Calls that must not be made.
    most
        The most calls of an item.
    in_order
        Whether the calls of `made` must come in this order; others may come between them.
    exact
        Whether a call may have no arguments besides those expected. Arguments are equal if they are as JSON.
    messages
        The column with the messages.
    item_id
        The column that holds the ids.

    Returns
    -------
    pandas.DataFrame
        One row per item: `item_id`, `passed` (missing where the item has no messages or no list of calls), `n_calls`,
        `problems` (a text, empty if it passed), and `group_id` and `system_id` if the items have them: `pass_at_k`
        takes it.

    Raises
    ------
    ConfigError
        For rules in another form.
    InputError
        For a missing column, and cells that are no messages.

    Examples
    --------
    >>> call = {"id": "1", "type": "function", "function": {"name": "refund", "arguments": '{"id": "A17", "eur": 5}'}}
    >>> items = [{"item_id": "t1", "messages": [{"role": "assistant", "tool_calls": [call]}]}]
    >>> check_calls(items, [{"name": "refund", "arguments": {"id": "A17"}}, "notify"])["problems"].tolist()
    ["not made: 'notify'"]
    """
    frame = as_items(items, item_id=item_id)
    if lacking := {messages, *([made] if isinstance(made, str) else [])} - {*frame}:
        raise InputError(f"the items have no column {listed(lacking)}; they have {listed(frame, most=30)}")
    lists = frame[made].tolist() if isinstance(made, str) else [made] * len(frame)
    rows: list[tuple[Any, int, str]] = []
    for item, cell, calls in zip(frame["item_id"], frame[messages], lists, strict=True):
        try:
            log = messages_of(cell)
            if not log or (isinstance(made, str) and is_missing(calls)):
                rows.append((None, 0, "no messages, or no list of the calls to make"))
                continue
            problems = CallRules(calls, forbidden, most, in_order, exact).failures(log)
        except (ConfigError, InputError) as problem:
            raise type(problem)(f"item {item!r}: {problem}") from None
        rows.append((not problems, len([*_calls(log)]), "; ".join(problems)))
    table = pd.DataFrame(rows, columns=["passed", "n_calls", "problems"]).astype({"passed": "boolean"})
    return pd.concat([frame.filter(["item_id", "group_id", "system_id"]), table], axis=1)


def _is_call(call: Any) -> bool:
    if not isinstance(call, Mapping):
        return callable(call) or (isinstance(call, str) and bool(call))
    is_named = isinstance(call.get("name"), str) and isinstance(call.get("arguments", {}), Mapping)
    return is_named and {*call} <= {"name", "arguments"}


def _calls(messages: Any) -> Iterator[tuple[str, Any]]:
    """Name and arguments of the calls in messages in the one form; arguments that are no JSON stay a text."""
    for message in messages:
        for call in message.get("tool_calls", ()):
            yield call["name"], arguments_of(call)[0]


def _shown(calls: Sequence[CallLike]) -> str:
    return listed([call if isinstance(call, str) else getattr(call, "__name__", str(call)) for call in calls], most=3)
