"""More wordings of refusals and of accounts without money, and answers with choices of odd forms."""

# ruff: noqa: E501  # a row per wording

from __future__ import annotations

from typing import Any

import orjson
import pytest

from evalkit.core.judges import Judge
from evalkit.engine.providers.openai_replies import problem_of, replies_of
from evalkit.engine.providers.transport import Answer

JUDGE = Judge("openai", "m", base_url="http://127.0.0.1:1/v1", api_key_env="SOME_KEY")
BODY: dict[str, Any] = {
    "messages": [{"role": "system", "content": "You judge."}, {"role": "user", "content": "An answer."}],
    "temperature": 1.0, "max_tokens": 512, "response_format": {"type": "json_schema"}, "n": 9,
}  # fmt: skip


def problem(status: int, body: Any) -> Any:
    return problem_of(Answer(status, {}, orjson.dumps(body), "http://127.0.0.1:1", "/v1/chat/completions"), JUDGE, BODY)


def pydantic(*path: object, msg: str) -> dict[str, Any]:
    return {"detail": [{"loc": ["body", *path], "msg": msg, "type": "literal_error"}]}


REFUSED: list[tuple[int, Any, str, int | str | None]] = [
    (400, {"error": {"message": "Only one completion choice is allowed"}}, "n", None),
    (422, {"detail": "more than one response per request is not possible"}, "n", None),
    (400, {"message": "Parallel samples cannot be requested"}, "n", None),
    (500, {"error": {"message": "This server does not handle n > 1"}}, "n", None),
    (400, {"error": {"message": "best_of must be 1 when using greedy sampling"}}, "n", None),
    (422, pydantic("messages", 0, "role", msg="Input should be 'user' or 'assistant'"), "system_role", None),
    (400, {"error": {"message": "role must be one of: user, assistant"}}, "system_role", None),
    (400, {"error": {"message": "Please use a valid role: roles allowed: user, model"}}, "system_role", None),
    (400, {"error": {"message": "max_tokens is too large: 512. This model supports at most 64 completion tokens"}},
     "max_tokens", 64),
    (422, pydantic("max_tokens", msg="Input should be less than or equal to 256"), "max_tokens", 256),
]  # fmt: skip
REFUSAL = {"type": "refusal", "refusal": "I will not."}
NOT_REFUSED: list[tuple[int, Any, str]] = [
    (422, pydantic("messages", 1, "role", msg="Input should be 'system', 'user' or 'assistant'"), "client_error"),
    (422, pydantic("messages", 1, "role", msg="Input should be 'user', 'assistant' or 'system'"), "client_error"),
    (400, {"error": {"message": "max_tokens is too large: 512. This model's maximum context length is 600 tokens"}}, "too_long"),
    (400, {"error": {"message": "max_tokens must be at least 1024"}}, "client_error"),
    (412, {"message": "Account suspended due to unpaid invoices"}, "quota"),
    (429, {"error": {"message": "Your prepayment credits are depleted.", "status": "RESOURCE_EXHAUSTED"}}, "quota"),
    (429, {"error": {"message": "Account balance is negative", "status": "RESOURCE_EXHAUSTED"}}, "quota"),
    (403, {"message": "There is an outstanding invoice on this account"}, "quota"),
    (429, {"error": {"message": "Quota exceeded: limit 15 per minute", "status": "RESOURCE_EXHAUSTED"}}, "rate_limited"),
    (429, {"error": {"message": "Credits exhausted for this window. Please try again in 5 s"}}, "rate_limited"),
    (412, {"message": "This organization has been disabled"}, "auth"),
]  # fmt: skip


def test_a_page_in_html_says_what_its_status_means() -> None:
    page = Answer(413, {}, b"<html><h1>413 Request Entity Too Large</h1></html>", "http://127.0.0.1:1", "/v1/x")
    assert "larger than this server" in problem_of(page, JUDGE, BODY).detail
    assert "a proxy asks for a name" in problem_of(page._replace(status=407), JUDGE, BODY).detail
    assert "is base_url right" in problem_of(page._replace(status=502), JUDGE, BODY).detail


def test_further_wordings() -> None:
    found = [(problem(status, body).parameter, problem(status, body).instead) for status, body, *_ in REFUSED]
    assert found == [tuple(expected) for _, _, *expected in REFUSED]
    kinds = [problem(status, body).kind for status, body, _ in NOT_REFUSED]
    assert kinds == [kind for *_, kind in NOT_REFUSED]


def texts(choices: list[Any], n: int = 3) -> list[str | None]:
    content = orjson.dumps({"choices": choices, "usage": {"prompt_tokens": 9, "completion_tokens": 6}})
    answer = Answer(200, {}, content, "http://127.0.0.1:1", "/v1/chat/completions")
    return [reply.text for reply in replies_of(answer, n, price=None, latency_s=None, sent=None)]


def test_a_choice_of_another_form_costs_itself_alone() -> None:
    good = {"message": {"content": "2"}, "finish_reason": "stop"}
    for odd in (None, "text", 7, []):
        assert texts([good, odd, good]) == ["2", "2"]
        assert texts([odd, good, good]) == ["2", "2"]
    assert texts([{"text": "3", "finish_reason": "stop"}, good]) == ["3", "2"]
    (refused,) = replies_of(
        Answer(200, {}, orjson.dumps({"choices": [{"message": {"content": [REFUSAL]}}]}), "", ""), 1,
        price=None, latency_s=None, sent=None,
    )  # fmt: skip
    assert (refused.text or "", refused.refusal) == ("", "I will not.")
    with pytest.raises(Exception, match="no choices"):
        texts([None, 7])


@pytest.mark.parametrize("text", [None, "", "I will grade it now."])
@pytest.mark.parametrize("key", ["tool_calls", "function_call"])
@pytest.mark.parametrize("arguments", ['{"score": 1}', {"score": 1}])
def test_what_a_tool_was_called_with_is_kept_beside_a_text(text, key, arguments):
    call = {"name": "grade", "arguments": arguments}
    message = {"content": text, key: [{"type": "function", "function": call}] if key == "tool_calls" else call}
    (kept,) = texts([{"message": message, "finish_reason": "tool_calls"}])
    before, _, after = kept.rpartition("\n")
    assert (before, orjson.loads(after)) == (text or "", {"score": 1})
    said = {"content": kept, "tool_calls": [{"function": {"arguments": after}}]}
    assert texts([{"message": said}]) == [kept]  # once
