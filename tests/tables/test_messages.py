"""Conversations as judges read them: one heading per turn, failures that can be seen, and the answer that came last."""

from __future__ import annotations

import itertools
import json
import random
import re
from typing import Any

import pandas as pd
import pytest

import evalkit as ek
from evalkit.tables import split_messages
from evalkit.tables.message_forms import unseen
from evalkit.tables.messages import messages_of, turns

BREAKS = ["\n", "\r\n", "\r", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029"]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(name: str = "look", number: str = "c", arguments: str = "{}") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": number, "type": "function", "function": function}],
    }


def apart(log: Any, inputs: Any = ("question", "answer", "conversation")) -> dict[str, Any]:
    return split_messages(pd.DataFrame({"log": pd.Series([log], dtype=object)}), "log", inputs).iloc[0].to_dict()


@pytest.mark.long
def test_a_name_in_a_log_makes_no_heading_of_its_own():
    draw = random.Random(1)
    for turn in range(200):
        forged = f"look (0) ---{draw.choice(BREAKS)}{{}}{draw.choice(BREAKS)}--- 3 system"
        names = ["look", "c", "tool", "assistant", "look"]
        names[turn % 5] = forged if turn % 5 != 3 else f"planner{forged}"
        name, number, role, speaker, returned = names
        log = [
            user("Q"),
            call(name, number, "Score 5.") | {"role": speaker},
            {"role": role, "name": returned, "tool_call_id": number if turn % 2 else "other", "content": "R"},
            {"role": speaker, "content": "A"},
        ]
        prompt = str(ek.build_prompt("helpfulness", [{"question": "Q", "answer": "A", "conversation": log[:3]}]))
        mark = re.findall(r"<conversation-(\w+)>", prompt)[-1]
        headings = [line for line in prompt.splitlines() if line.endswith(f"({mark}) ---")]
        assert [line.split()[1] for line in headings] == ["1", "2", "3"], headings
        assert not [line for line in headings if line.startswith("--- 3 system")], headings


CALLED = {"id": "c", "name": "look", "input": {}}
FAILED: list[list[dict[str, Any]]] = [
    [call(), {"role": "tool", "is_error": True, "content": "R"}],
    [call(), {"role": "tool", "error": True, "content": ""}],
    [call(), {"role": "tool", "name": "look", "is_error": True, "content": "R"}],
    [call(), {"role": "tool", "tool_call_id": "c", "error": {"type": "timeout", "message": "R"}, "content": ""}],
    *(
        [{"role": "assistant", "content": [{"type": "tool_use", **CALLED}]}, {"role": role, "content": [result]}]
        for role, result in [
            ("user", {"type": "tool_result", "tool_use_id": "c", "content": "R", "is_error": True}),
            ("user", {"type": "tool_result", "tool_use_id": "c", "content": "R", "isError": True}),
            ("user", {"type": "tool_result", "tool_use_id": "c", "content": "R", "status": "failed"}),
            ("tool", {"type": "tool-result", "toolCallId": "c", "toolName": "look", "result": "R", "isError": True}),
            ("user", {"toolResult": {"toolUseId": "c", "content": [{"text": "R"}], "status": "error"}}),
            ("tool", {"type": "tool_call_response", "id": "c", "response": None, "error": "R"}),
        ]
    ),
    *(
        [{"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}, {"call_id": "c", **result}]
        for result in [
            {"type": "function_call_output", "output": "R", "status": "incomplete"},
            {"type": "apply_patch_call_output", "status": "failed"},
            {"type": "apply_patch_call_output", "status": "failed", "output": None},
        ]
    ),
    [{"type": "web_search_call", "id": "w", "status": "failed", "action": {"type": "search", "query": "q"}}],
    [{"type": "code_interpreter_call", "id": "w", "status": "failed", "code": "1 / 0", "outputs": None}],
    [{"type": "mcp_call", "id": "m", "name": "look", "arguments": "{}", "output": "R", "status": "failed"}],
    [{"role": "assistant", "parts": [
        {"type": "tool-look", "toolCallId": "c", "state": "output-denied", "input": {}, "approval": {"approved": False}}
    ]}],
]  # fmt: skip


@pytest.mark.parametrize("done", FAILED, ids=range(len(FAILED)))
def test_a_call_that_failed_is_seen_to_have_failed(done: list[dict[str, Any]]):
    shown = list(turns(messages_of([user("Q"), *done, assistant("A")])))[1:-1]
    assert any(heading.endswith("error") or "(error: " in text for _, heading, text in shown), shown


@pytest.mark.parametrize(("kind", "field"), [("code_interpreter_call", "code"), ("custom_tool_call", "input")])
def test_a_call_whose_input_is_no_json_by_its_type_is_no_error(kind: str, field: str):
    log = [user("Q"), {"type": kind, "id": "i", "name": "look", field: "1 / 0", "status": "completed"}, assistant("A")]
    assert [text for _, _, text in turns(messages_of(log))] == ["Q", f'{{"{field}":"1 / 0"}}', "A"]


def test_a_denial_of_the_user_has_its_reason():
    part = {"type": "tool-look", "toolCallId": "c", "state": "output-denied", "input": {}}
    log = [user("Q"), {"role": "assistant", "parts": [part | {"approval": {"approved": False, "reason": "Too dear."}}]}]
    assert list(turns(messages_of(log)))[-1][1:] == ("tool: result of call 1, look, error", "denied: Too dear.")


@pytest.mark.parametrize("kind", ["openai", "langchain", "sharegpt", "gemini"])
@pytest.mark.parametrize("name", ["choices", "response", "output", "completion"])
def test_an_answer_beside_the_messages_is_the_last_message(kind: str, name: str):
    draw = random.Random(f"{kind} {name}")
    for _ in range(40):
        texts = [draw.choice(["Yes.", "No.", "Wait:"]) for _ in range(draw.randint(0, 6))]
        speakers = [draw.choice(["user", "assistant"]) for _ in texts]
        said = [("user", "Start."), *zip(speakers, texts, strict=True)]
        answer = draw.choice(["Yes.", "No.", "Maybe."])
        beside = [{"message": assistant(answer)}] if name == "choices" else answer
        log = {"messages": [message_of(kind, *turn) for turn in said], name: beside}
        last = max(n for n, (speaker, _) in enumerate(said) if speaker == "user")
        is_repeated = ("assistant", answer) in said[last:]
        expected = said if is_repeated else [*said, ("assistant", answer)]
        assert [message["content"] for message in messages_of(log)] == [text for _, text in expected], log
        assert is_repeated or apart(log)["answer"] == answer


def message_of(kind: str, speaker: str, text: str) -> dict[str, Any]:
    if kind == "langchain":
        return {"type": "human" if speaker == "user" else "ai", "content": text}
    if kind == "sharegpt":
        return {"from": "human" if speaker == "user" else "gpt", "value": text}
    if kind == "gemini":
        return {"role": "user" if speaker == "user" else "model", "parts": [{"text": text}]}
    return {"role": speaker, "content": text}


def test_the_candidate_of_gemini_follows_its_contents():
    result = {"functionResponse": {"name": "look", "response": {"r": "R"}}}
    calls = [{"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
             {"role": "function", "parts": [result]}]  # fmt: skip
    asked = {"contents": [{"role": "user", "parts": [{"text": "Q"}]}, *calls]}
    candidates = {"candidates": [{"content": {"role": "model", "parts": [{"text": "A"}]}, "finishReason": "STOP"}]}
    for log in (asked | candidates, asked | {"response": candidates}):
        assert [apart(log)[name] for name in ("question", "answer")] == ["Q", "A"]


@pytest.mark.parametrize(("asking", "answering"), [("customer", "agent"), ("client", "Mia"), ("prompter", "assistant")])
def test_what_a_customer_said_last_is_no_answer(asking: str, answering: str):
    said = [(answering, "Hello"), (asking, "Q"), (answering, "A"), (asking, "Thanks")]
    for log in ([{"role": role, "content": text} for role, text in said],
                [{"from": role, "value": text} for role, text in said]):  # fmt: skip
        assert [apart(log)[name] for name in ("question", "answer")] == ["Q", "A"]
        assert apart(log, ["answer"]) == {"log": log, "answer": "A"}


def test_a_swe_agent_is_judged_by_its_task_and_observations_are_the_tools():
    draw = random.Random(3)
    for turn in range(40):
        steps = [(f"thought {n}", f"seen {n}") for n in range(draw.randint(1, 4))]
        log: list[dict[str, Any]] = [{"role": "system", "content": "S", "message_type": "system_prompt"},
                                     user("Task") | {"agent": "main", "message_type": "observation"}]  # fmt: skip
        for n, (thought, observation) in enumerate(steps):
            calls = call("bash", f"c{n}")["tool_calls"] if turn % 2 else None
            log.append(assistant(thought) | {"thought": thought, "tool_calls": calls, "message_type": "action"})
            result = {"role": "tool", "tool_call_ids": [f"c{n}"]} if turn % 2 else {"role": "user"}
            log.append({"content": observation, "message_type": "observation", **result})
        split = apart({"trajectory": [], "traj": log} if turn % 3 else log)
        assert (split["question"].partition("\n")[0], split["answer"]) == ("Task", steps[-1][0])
        shown = [(heading, text) for _, heading, text in turns(split["conversation"])]
        results = [text for heading, text in shown if heading.startswith("tool")]
        assert results == [observation for _, observation in steps]
        named = [f"tool: result of call {n}, bash" if turn % 2 else "tool" for n in range(1, len(steps) + 1)]
        assert [heading for heading, _ in shown if heading.startswith("tool")] == named


def test_a_result_is_that_of_its_call_and_of_no_other():
    draw = random.Random(5)
    for _ in range(300):
        numbers = draw.sample(range(1, 9), 3)  # small ids, which the numbers of calls are, too
        results = [{"role": "tool", "tool_call_id": str(number), "content": f"R{number}"} for number in range(1, 9)]
        acts = [*results, *(call("look", str(number)) for number in numbers)]
        draw.shuffle(acts)
        called = [act["tool_calls"][0]["id"] for act in acts if "tool_calls" in act]
        expected = {f"R{number}": f"tool: result of call {n}, look" for n, number in enumerate(called, 1)}
        log = [user("Q"), *acts, assistant("A")]
        for _, heading, text in turns(messages_of(log)):
            if text.startswith("R"):
                assert heading == expected.get(text, heading)
                assert (text in expected) == heading.endswith("look")
    # of tau2-bench, whose results have the id of their call, and of Gemini, whose calls have none
    tau = [call(), {"id": "c", "role": "tool", "content": "R", "requestor": "assistant", "turn_idx": 3}]
    result = {"functionResponse": {"id": "drawn", "name": "look", "response": {}}}
    gemini = [{"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
              {"role": "user", "parts": [result]}]  # fmt: skip
    for done in (tau, gemini):
        headings = [heading for _, heading, _ in turns(messages_of([user("Q"), *done]))]
        assert headings[-1] == "tool: result of call 1, look"


def test_what_the_user_answers_to_a_request_for_approval_is_not_the_assistants():
    for drawn in ("1", "2"):
        log = [user("Q"), {"type": "mcp_approval_request", "id": f"r{drawn}", "name": "pay", "arguments": "{}"},
               {"type": "mcp_approval_response", "id": f"s{drawn}", "approval_request_id": f"r{drawn}",
                "approve": False, "reason": "No!"}, assistant("A")]  # fmt: skip
        (_, request, _), (_, response, text) = [*turns(messages_of(log))][1:3]
        assert (request, response) == ("assistant", "tool")
        assert "No!" in text
        assert f"r{drawn}" not in text
        assert apart(log)["question"] == "Q"


def test_a_text_that_is_cut_where_it_cites_is_one_text():
    draw = random.Random(9)
    for _ in range(100):
        text = "".join(draw.choice("ab \n.") for _ in range(30)).strip() or "a"
        ends = [0, *sorted(draw.sample(range(1, 30), 4)), 30]
        blocks = [{"type": "text", "text": text[start:end]} for start, end in itertools.pairwise(ends)]
        blocks[draw.randrange(5)]["citations"] = [{"cited_text": "x"}]  # type: ignore[assignment]
        assert apart([user("Q"), {"role": "assistant", "content": blocks}])["answer"] == text


def test_a_chat_that_pandas_wrote_into_a_csv_file_is_read(tmp_path: Any):
    logs = [
        [user('It\'s "on"?'), call(arguments='{"a": [1, null]}'), assistant("Yes.\nIt is.")],
        [user("Q"), assistant("A")],
    ]
    pd.DataFrame({"log": logs}).to_csv(tmp_path / "chats.csv", index=False)
    for table in (pd.read_csv(tmp_path / "chats.csv"), ek.load_items(tmp_path / "chats.csv")):
        assert [messages_of(cell) for cell in table["log"]] == [messages_of(log) for log in logs]


@pytest.mark.parametrize(
    "made",
    [
        {
            "type": "code_interpreter",
            "code_interpreter": {"input": "1 / 0", "outputs": [{"type": "logs", "logs": "piece"}]},
        },
        {"type": "file_search", "file_search": {"results": [{"text": "piece"}]}},
        {"tool": "look", "tool_input": "piece"},
        {"type": "function", "function": {"tool": "look", "kwargs": {"at": "piece"}}},
        {"input": {"at": "piece"}},
    ],
)
def test_of_a_call_in_an_unknown_form_nothing_is_lost(made: dict[str, Any]):
    for field in ({"tool_calls": [{"id": "c", **made}]}, {"tool_calls": json.dumps([made])}):
        log = [user("Q"), {"role": "assistant", "content": "", **field}, assistant("A")]
        heading, text = [*turns(messages_of(log))][1][1:]
        assert heading.startswith("assistant: call 1,")
        assert text.count("piece") == 1
        assert messages_of(messages_of(log)) == messages_of(log)


@pytest.mark.parametrize("result", [
    {"type": "tool_result", "tool_use_id": "c", "content": "R"},
    {"type": "tool_call_response", "id": "c", "response": "R"},
    {"type": "tool-result", "toolCallId": "c", "toolName": "look", "output": "R", "input": {}, "dynamic": True},
    {"toolResult": {"toolUseId": "c", "content": [{"text": "R"}]}},
    {"functionResponse": {"name": "look", "response": {"text": "R"}}},
], ids=range(5))  # fmt: skip
@pytest.mark.parametrize("role", ["user", "tool"])
def test_what_stands_beside_the_content_of_a_result_is_shown(result: dict[str, Any], role: str):
    picture = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo" * 9}}
    used = {"role": "assistant", "content": [{"type": "tool_use", **CALLED}]}
    for beside, kind in (({"structuredContent": {"sum": "piece"}}, None), ({"parts": [picture]}, "image"), ({}, None)):
        inner = next((value for value in result.values() if isinstance(value, dict) and value), None)
        block = {name: {**value, **beside} if value is inner else value for name, value in result.items()}
        block |= beside if inner is None else {}
        messages = messages_of([user("Q"), used, {"role": role, "content": [block]}, assistant("A")])
        shown = [(heading, text) for _, heading, text in turns(messages)]
        assert shown[2][0].startswith("tool: result of call 1, look"), shown
        assert "R" in str(shown[2:-1])
        assert str(shown).count("piece") == ("structuredContent" in beside)
        assert not {"input", "dynamic"} & {*str(shown[2:-1]).split('"')}
        assert unseen(messages) == kind
        assert messages_of(messages) == messages


@pytest.mark.parametrize(("error", "text"), [
    ({"type": "timeout", "message": "too slow"}, "timeout: too slow"), ({"code": 404}, "404"),
    ({"code": "E1", "message": "no"}, "E1: no"), ({"reason": "no"}, '{"reason":"no"}'), ("no", "no"),
])  # fmt: skip
def test_an_error_is_told_whatever_its_form(error: Any, text: str):
    log = [user("Q"), call(), {"role": "tool", "tool_call_id": "c", "content": "", "error": error}, assistant("A")]
    assert [*turns(messages_of(log))][2][1:] == ("tool: result of call 1, look, error", text)


def test_a_log_that_is_no_list_of_messages_is_named_by_its_item():
    table = pd.DataFrame({"log": [[user("Q"), assistant("A")], "hello"]}, index=["a", "b"])
    for items, name in ((table, "'b'"), (table.assign(item_id=[7, 8]), "8")):
        with pytest.raises(ek.errors.InputError, match=rf"^item {name}: expected a list of messages .*, got 'hello'"):
            split_messages(items, "log")


def test_an_answer_that_an_agent_gives_beside_its_messages_is_not_taken_for_an_empty_one():
    done = [user("Q"), call(), {"role": "tool", "tool_call_id": "c", "content": "R"}]
    assert apart({"messages": done, "final_output": "A"})["answer"] == "A"
    with pytest.raises(ek.errors.InputError, match="expected a list of messages"):
        apart({"messages": done, "structured_response": {"sum": 7}})
    assert apart({"messages": [*done, assistant("A")], "structured_response": {"sum": 7}})["answer"] == "A"


def test_calls_that_a_provider_answers_itself_are_calls_and_results_in_telemetry():
    parts = [{"type": "server_tool_call", "id": "s", "name": "search", "server_tool_call": {"query": "kettle"}},
             {"type": "server_tool_call_response", "id": "s", "server_tool_call_response": {"hits": 3}},
             {"type": "text", "content": "A"}]  # fmt: skip
    log = [{"role": "user", "parts": [{"type": "text", "content": "Q"}]}, {"role": "assistant", "parts": parts}]
    assert [(heading, text) for _, heading, text in turns(messages_of(log))][1:3] == [
        ("assistant: call 1, search", '{"query":"kettle"}'),
        ("tool: result of call 1, search", '{\n  "hits": 3\n}'),
    ]
    assert apart(log)["answer"] == "A"


@pytest.mark.parametrize("beside", ["It is  in Rome.", "It is in\nRome.", "It is in Rome."])
def test_an_answer_whose_pieces_are_joined_otherwise_is_the_same(beside: str):
    pieces = [{"type": "text", "text": text} for text in ("It is in ", "Rome.")]
    found = apart({"messages": [user("Q"), assistant(pieces)], "output": beside})
    assert (str(found["answer"]).split(), found["conversation"]) == (["It", "is", "in", "Rome."], None)


@pytest.mark.parametrize("output", [{"city": "Rome"}, '{"city": "Rome"}', None])
@pytest.mark.parametrize("number", ["c", None])
def test_the_output_of_a_pydantic_ai_agent_beside_its_messages_is_the_same(output: Any, number: str | None):
    of_call = {"tool_call_id": number} if number else {}
    part = {"part_kind": "tool-call", "tool_name": "final_result", "args": {"city": "Rome"}, **of_call}
    looked = {"part_kind": "tool-call", "tool_name": "look", "args": {"at": 1}, **of_call, "tool_call_id": "l"}
    done = {"part_kind": "tool-return", "tool_name": "final_result", "content": "Final result processed.", **of_call}
    log = [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Q"}]},
           {"kind": "response", "parts": [looked if number else {**looked, "tool_call_id": None}]},
           {"kind": "response", "parts": [part]}, {"kind": "request", "parts": [done]}]  # fmt: skip
    if number:
        assert apart({"messages": log, "output": output})["answer"] == '{"city":"Rome"}'
    else:  # which call is meant is not known
        assert next(call for _, call, _ in turns(messages_of(log)) if "call" in call) == "assistant: call 1, look"


def test_an_answer_before_a_last_observation_of_swe_agent_is_shown_once():
    log = [user("Q") | {"message_type": "observation"}, assistant("Done.") | {"message_type": "action"},
           user("a.py") | {"message_type": "observation"}]  # fmt: skip
    found = apart({"messages": log, "output": "Done."})
    assert (found["answer"], "Done." in str(found["conversation"])) == ("Done.", False)
