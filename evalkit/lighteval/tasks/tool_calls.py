"""Tool calls in an answer, and their comparison with the expected ones."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from evalkit.errors import InputError

CALL_KEYS = ("tool_use", "tool_exact", "tool_names", "tool_readable")

_TAG = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL | re.IGNORECASE)
_OPENING = re.compile(r"[\[{]")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Call:
    """One call of a tool by name."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any) -> Call | None:
        """A call, from any of the forms that models write; None for anything else.

        Examples
        --------
        >>> Call.of({"function": {"name": "add", "arguments": '{"a": 1}'}})
        Call(name='add', arguments={'a': 1})
        """
        if isinstance(value, Mapping) and isinstance(value.get("function"), Mapping):
            value = value["function"]
        if not isinstance(value, Mapping) or not isinstance(value.get("name"), str) or "description" in value:
            return None  # what has a description is a tool, quoted
        arguments = value.get("arguments", value.get("parameters", {}))
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments or "{}")
            except ValueError:
                return None
        if arguments is not None and not isinstance(arguments, Mapping):
            return None
        return cls(value["name"].strip(), dict(arguments or {}))


def read_calls(answer: str) -> tuple[Call, ...] | None:
    """The calls in an answer: a JSON array or object, bare, in a code fence, in prose, or in ``<tool_call>`` tags.

    Returns
    -------
    tuple of Call or None
        Empty for an array without calls; None if no call can be parsed.

    Examples
    --------
    >>> read_calls('I will look. [{"name": "weather", "arguments": {"city": "Oslo"}}]')
    (Call(name='weather', arguments={'city': 'Oslo'}),)
    >>> read_calls("[]"), read_calls("None of the tools fits.")
    ((), None)
    """
    tagged = _TAG.findall(answer)
    found: list[Call] | None = None
    for value in _values("\n".join(tagged) if tagged else answer):
        if isinstance(value, Mapping) and isinstance(value.get("tool_calls"), list):
            value = value["tool_calls"]
        calls = [Call.of(one) for one in (value if isinstance(value, list) else [value])]
        if None not in calls:
            found = [*(found or []), *filter(None, calls)]
    return None if found is None else tuple(found)


def _values(text: str) -> Iterator[Any]:
    """The JSON arrays and objects in a text, in order, without those inside another one."""
    at = 0
    while (match := _OPENING.search(text, at)) is not None:
        try:
            value, at = _DECODER.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            at = match.end()
        else:
            yield value


def score_calls(expected: Sequence[Call], given: Sequence[Call] | None) -> dict[str, float]:
    """Compare calls with the expected ones; each figure is 0-1.

    `tool_use`: calls are paired for the largest sum, a pair of one name counts ½ + ½ · (arguments with equal values /
    arguments in either), other pairs 0; the sum is divided by the larger number of calls.
    `tool_exact`: `tool_use` is 1. `tool_names`: F1 of the names. `tool_readable`: whether calls could be parsed (None:
    no, and all figures are 0). Order does not count; no call is right if none is expected.

    Examples
    --------
    >>> score_calls([Call("add", {"a": 1, "b": 2})], [Call("add", {"a": 1, "b": 3})])  # ½ + ½ · 1/2
    {'tool_use': 0.75, 'tool_exact': 0.0, 'tool_names': 1.0, 'tool_readable': 1.0}
    """
    if given is None:
        return dict.fromkeys(CALL_KEYS, 0.0)
    larger = max(len(expected), len(given))
    if not larger:
        return dict.fromkeys(CALL_KEYS, 1.0)
    whole = _best_sum(expected, given) / larger
    shared = sum((Counter(call.name for call in expected) & Counter(call.name for call in given)).values())
    return {
        "tool_use": whole, "tool_exact": float(whole == 1.0), "tool_names": 2 * shared / (len(expected) + len(given)),
        "tool_readable": 1.0,
    }  # fmt: skip


def _best_sum(expected: Sequence[Call], given: Sequence[Call]) -> float:
    from scipy.optimize import linear_sum_assignment

    table = np.array([[_credit(one, other) for other in given] for one in expected])
    table = table.reshape(len(expected), len(given))  # one of the two may be empty
    return float(table[linear_sum_assignment(table, maximize=True)].sum())


def _credit(expected: Call, given: Call) -> float:
    if expected.name != given.name:
        return 0.0
    names = {*expected.arguments, *given.arguments}
    shared = [name for name in expected.arguments if name in given.arguments]
    equal = sum(_is_equal(expected.arguments[name], given.arguments[name]) for name in shared)
    return 0.5 + 0.5 * (equal / len(names) if names else 1.0)


def _is_equal(one: Any, other: Any) -> bool:
    """Whether values are equal: strings without case and outer blanks, numbers by value; a boolean is not a number."""
    if isinstance(one, str) and isinstance(other, str):
        return one.strip().casefold() == other.strip().casefold()
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def check_calls(answer: str, doc: Any) -> tuple[Mapping[str, float], str]:
    """Figures of `score_calls` for the document's expected calls (``specific["expected"]``, JSON)."""
    if (expected := read_calls(doc.specific["expected"])) is None:
        text = f"task {doc.task_name!r}, document {doc.id!r}: specific['expected'] is not a JSON array of calls"
        raise InputError(text)
    given = read_calls(answer)
    figures = score_calls(expected, given)
    if given is None:
        return figures, "unreadable"
    return figures, "" if figures["tool_exact"] else f"{len(expected)} expected, {len(given)} given"
