"""Calls of tools against rules: made, in order, with equal arguments, forbidden, how many."""

import gzip
import json

import pytest

from evalkit.errors import ConfigError, InputError
from evalkit.tables import check_calls

A17 = {"name": "refund", "arguments": {"id": "A17"}}


def log(*calls):
    """A log with a message for each call: a name, or name and arguments."""
    named = [call if isinstance(call, tuple) else (call, {}) for call in calls]
    functions = [
        {"name": name, "arguments": args if isinstance(args, str) else json.dumps(args)} for name, args in named
    ]
    return [
        {"role": "assistant", "tool_calls": [{"id": str(number), "type": "function", "function": function}]}
        for number, function in enumerate(functions)
    ] or [{"role": "assistant", "content": "Nothing to do."}]


@pytest.mark.parametrize(
    ("messages", "rules", "problems"),
    [
        (log("find", "refund"), {"made": ["refund", "find"]}, ""),
        (log("find", "refund"), {"made": ["refund", "find"], "in_order": True}, "not made, in this order: 'find'"),
        (log("b", "c"), {"made": ["a", "b", "c"], "in_order": True}, "not made, in this order: 'a'"),
        (log("find", "x", "refund"), {"made": ["find", "refund"], "in_order": True}, ""),
        (log("find"), {"made": ["find", "find"]}, "not made: 'find'"),  # each needs a call of its own
        (log(("refund", {"id": "A17", "eur": 5})), {"made": [A17]}, ""),
        (log(("refund", {"id": "A17", "eur": 5})), {"made": [A17], "exact": True}, "not made: 1"),
        (log(("refund", {"id": "A17"}), ("refund", {"id": "B2"})), {"made": ["refund", A17]}, ""),  # in whatever order
        (log(("refund", {"id": "B2"}), ("refund", {"id": "A17"})), {"made": ["refund", A17]}, ""),
        (log(("pay", {"eur": 5.0})), {"made": [{"name": "pay", "arguments": {"eur": 5}}], "exact": True}, ""),
        (log(("pay", {"ok": True})), {"made": [{"name": "pay", "arguments": {"ok": 1}}]}, "not made: 1"),
        (log(("pay", '{"eur": ')), {"made": ["pay"]}, ""),  # broken arguments are no arguments
        (log(("pay", '{"eur": ')), {"made": [{"name": "pay", "arguments": {}}]}, "not made: 1"),
        (log(("pay", {"eur": 7})), {"made": [lambda name, args: name == "pay" and args["eur"] > 5]}, ""),
        (log("drop"), {"forbidden": ["drop"]}, "made, though forbidden: 'drop'"),
        (log(("refund", {"id": "B2"})), {"forbidden": [A17]}, ""),
        (log("find", "find"), {"most": 1}, "2 calls, at most 1 allowed"),
        (log(), {"made": ["find"], "most": 0}, "not made: 'find'"),
    ],
)
def test_rules(messages, rules, problems):
    row = check_calls([{"messages": messages}], **rules).iloc[0]
    expected = problems.replace("not made: 1", f"not made: {str((rules.get('made') or [''])[0])!r}")
    assert row["problems"].replace('"', "").replace("'", "") == expected.replace('"', "").replace("'", "")
    assert row["passed"] == (not problems)


def test_lists_of_a_column_and_items_without_one():
    items = [{"item_id": "a", "group_id": "g", "messages": log("find"), "made": ["find"]},
             {"item_id": "b", "group_id": "g", "messages": log("find"), "made": None},
             {"item_id": "c", "group_id": "g", "messages": None, "made": []}]  # fmt: skip
    table = check_calls(items, "made")
    assert table["passed"].tolist()[0] is True
    assert table["passed"].isna().tolist() == [False, True, True]
    assert table["group_id"].tolist() == ["g"] * 3


@pytest.mark.parametrize(
    ("rules", "error", "message"),
    [
        ({"made": [{"tool": "find"}]}, ConfigError, "expected a list of calls"),
        ({"made": [{"name": "find", "args": {}}]}, ConfigError, "expected a list of calls"),
        ({"forbidden": "drop"}, ConfigError, "expected a list of calls"),
        ({"most": True}, ConfigError, "most is True"),
        ({"in_order": "false"}, ConfigError, "in_order is 'false'; expected true or false"),
        ({"exact": 1}, ConfigError, "exact is 1; expected true or false"),
        ({"made": "expected"}, InputError, "no column 'expected'"),
    ],
)
def test_other_forms_are_refused(rules, error, message):
    with pytest.raises(error, match=message):
        check_calls([{"messages": log("find")}], **rules)


def test_published_runs(published_data):
    path = published_data / "item_criteria" / "tau_airline.jsonl.gz"
    if not path.exists():
        pytest.skip("the runs of tau-bench are not there")
    with gzip.open(path, "rt") as lines:
        runs = [json.loads(line) for line in lines]
    for run in runs:
        run["made"] = [{"name": action["name"], "arguments": action["kwargs"]} for action in run["expected_actions"]]
    passed = check_calls(runs, "made", exact=True)["passed"].tolist()
    assert sum(one == (run["reward"] == 1) for one, run in zip(passed, runs, strict=True)) == 30


CALL = {"name": "search", "arguments": "{}"}


@pytest.mark.parametrize("where", [
    {"additional_kwargs": {"tool_calls": [{"id": "1", "type": "function", "function": CALL}]}},
    {"function_call": CALL},
    {"raw": {"choices": [{"message": {"function_call": CALL}}]}},
])  # fmt: skip
def test_a_call_outside_of_tool_calls_is_refused_and_neither_made_nor_not_made(where):
    messages = [{"role": "user", "content": "Find it."}, {"role": "assistant", "content": "", **where}]
    for rules in ({"made": ["search"]}, {"forbidden": ["search"]}):
        with pytest.raises(InputError, match=f"a call in '{next(iter(where))}': write it into tool_calls"):
            check_calls([{"messages": messages}], **rules)
    messages[1]["tool_calls"] = [{"id": "1", "type": "function", "function": CALL}]
    assert check_calls([{"messages": messages}], ["search"])["passed"].tolist() == [True]
    messages[1] = {"role": "tool", "content": "", **where}  # a result that repeats its call makes none
    assert check_calls([{"messages": messages}], ["search"])["passed"].tolist() == [False]
