"""More wordings of refusals and of accounts without money, and answers with choices of odd forms."""

# ruff: noqa: E501  # a row per wording

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from evalkit.core.judges import Judge
from evalkit.engine.providers.openai_replies import problem_of, replies_of
from evalkit.engine.providers.prices import Tokens, cost_of_call, price_of, tokens_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError

JUDGE = Judge("openai", "m", base_url="http://127.0.0.1:1/v1", api_key_env="SOME_KEY")
BODY: dict[str, Any] = {
    "messages": [{"role": "system", "content": "You judge."}, {"role": "user", "content": "An answer."}],
    "temperature": 1.0, "max_tokens": 512, "response_format": {"type": "json_schema"}, "n": 9, "logprobs": True,
    "top_logprobs": 20,
}  # fmt: skip


def problem(status: int, body: Any) -> Any:
    return problem_of(Answer(status, {}, orjson.dumps(body), "http://127.0.0.1:1", "/v1/chat/completions"), JUDGE, BODY)


def pydantic(*path: object, msg: str) -> dict[str, Any]:
    return {"detail": [{"loc": ["body", *path], "msg": msg, "type": "literal_error"}]}


REFUSED: list[tuple[int, Any, str, int | str | None]] = [
    (400, {"error": {"message": "best_of must be 1 when using greedy sampling"}}, "n", None),
    (422, pydantic("messages", 0, "role", msg="Input should be 'user' or 'assistant'"), "system_role", None),
    (400, {"error": {"message": "Please use a valid role: user, model."}}, "system_role", None),
    (400, {"error": {"message": "max_tokens is too large: 512. This model supports at most 64 completion tokens"}},
     "max_tokens", 64),
    (400, {"error": {"message": "Llama 3 has no max_tokens but max_completion_tokens"}}, "max_tokens",
     "max_completion_tokens"),
    (422, {"error": "Input validation error: `max_new_tokens` must be <= 256. Given: 512"}, "max_tokens", 256),
    (400, {"error": {"message": "max_tokens 参数不能大于 256"}}, "max_tokens", 256),
    (400, {"error": {"code": "1214", "message": "temperature参数非法。请检查文档。"}}, "temperature", None),
    (400, {"error": {"message": "invalid params, chat content has invalid message role: system (2013)"}}, "system_role", None),
    (400, {"error": {"message": "The specified schema produces a constraint that has too many states for serving."}},
     "response_format", "json_object"),
    (403, {"error": {"message": "You are not allowed to request logprobs from this model"}}, "logprobs", None),
    (400, {"message": "Requested sample logprobs of 20, which is greater than max allowed: 5"}, "top_logprobs", 5),
]  # fmt: skip
REFUSAL = {"type": "refusal", "refusal": "I will not."}
NOT_REFUSED: list[tuple[int, Any, str]] = [
    (422, pydantic("messages", 1, "role", msg="Input should be 'system', 'user' or 'assistant'"), "client_error"),
    (400, {"error": {"message": "max_tokens is too large: 512. This model's maximum context length is 600 tokens"}}, "too_long"),
    (400, {"error": {"message": "max_tokens must be at least 1024"}}, "client_error"),
    (412, {"message": "Account suspended due to unpaid invoices"}, "client_error"),
    (429, {"error": {"message": "Your prepayment credits are depleted.", "status": "RESOURCE_EXHAUSTED"}}, "quota"),
    (429, {"error": {"message": "Account balance is negative", "status": "RESOURCE_EXHAUSTED"}}, "rate_limited"),
    (412, {"message": "This organization has been disabled"}, "auth"),
    (403, {"error": {"message": "You are not allowed to use n or logprobs"}}, "forbidden"),
    (400, {"error": {"message": "Budget has been exceeded! Current cost: 10.2, Max budget: 10.0", "type": "budget_exceeded"}}, "quota"),
    (429, {"error": {"message": "Budget has been exceeded! Current cost: 10.2, Max budget: 10.0"}}, "quota"),
    (400, {"error": {"message": "ExceededBudget: User u has exceeded their budget. Current spend: 5.1; Max Budget: 5.0"}}, "quota"),
    (500, {"type": "error", "error": {"type": "api_error", "message": "insufficient balance (1008)"}}, "quota"),
    (500, {"error": {"message": "internal error"}}, "server_error"),
    (503, {"error": {"message": "try again later", "code": "billing_service_unavailable"}}, "server_error"),
    (529, {"error": {"message": "overloaded: the usage limit of this region is reached, try later"}}, "server_error"),
    (403, {"code": 403, "reason": "NOT_ENOUGH_BALANCE", "message": "not enough balance"}, "quota"),
    (429, {"errors": [{"message": "you have used up your daily free allocation of 10,000 neurons", "code": 4006}]}, "quota"),
    (400, {"error": {"message": "input new_sensitive (1026)", "type": "bad_request_error"}}, "content_filter"),
    (424, {"error": [{"code": 2016, "message": "Prompt blocked due to security configurations"}]}, "content_filter"),
    # in words of their own: shown as they came
    (400, {"error": {"message": "Only one completion choice is allowed"}}, "client_error"),
    (400, {"error": {"message": "role must be one of: user, assistant"}}, "client_error"),
    # by name, but with a status that refuses no parameter
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


def base_resp(code: int, said: str) -> dict[str, Any]:
    return {"id": "x", "choices": None, "model": "m", "base_resp": {"status_code": code, "status_msg": said}}


def test_an_answer_without_choices_that_states_an_error_anywhere_is_that_error() -> None:
    for body, kind in [
        (base_resp(1008, "insufficient balance"), "quota"), (base_resp(1026, "input new_sensitive"), "content_filter"),
        (base_resp(1002, "rate limit"), "rate_limited"), (base_resp(2049, "invalid api key"), "auth"),
        ({"error_code": 18, "error_msg": "Open api qps request limit reached"}, "rate_limited"),
        ({"object": "error", "message": "This model's maximum context length is 2048 tokens."}, "too_long"),
        ({"message": "API rate limit exceeded"}, "rate_limited"),
        # a good answer within other fields, which may have been paid
        ({"code": 200, "msg": "ok", "data": {"choices": [{"message": {"content": "2"}}]}}, "malformed"),
        ({"message": {"role": "assistant", "content": "2"}, "done": True}, "malformed"),
        ({"type": "message", "content": [{"type": "text", "text": "2"}]}, "malformed"),
    ]:  # fmt: skip
        with pytest.raises(ProviderError) as caught:
            replies_of(
                Answer(200, {}, orjson.dumps(body), "", ""),
                1,
                price=None,
                latency_s=None,
                sent=None,
                judge=JUDGE,
                body=BODY,
            )
        assert caught.value.kind == kind, (body, caught.value.detail)
        assert caught.value.maybe_paid == (kind == "malformed")


def test_an_object_that_a_server_took_for_reasoning_is_the_reply() -> None:
    """With a schema and without thinking, the reply is under `reasoning_content`; reasoning in words is none."""
    reply = '{"explanation": "fine", "score": 2}'
    for field in ("reasoning_content", "reasoning"):
        for empty in (None, ""):
            assert texts([{"message": {"content": empty, field: f"\n{reply}"}, "finish_reason": "stop"}]) == [
                f"\n{reply}"
            ]
        assert texts([{"message": {"content": "3", field: reply}}]) == ["3"]
        for words in ("Perhaps 2.", '{"score": 2', ""):
            assert not texts([{"message": {"content": None, field: words}, "finish_reason": "stop"}])[0]
    thought = [{"type": "thought", "text": '{"score": 1}'}, {"type": "text", "text": '{"score": 0}', "thought": True}]
    assert texts([{"message": {"content": [*thought, {"type": "text", "text": reply}]}}]) == [reply]


def test_no_tokens_are_lost_that_a_service_counts_elsewhere() -> None:
    draw = random.Random(1)
    for _ in range(200):
        fresh, cached, written, thought, said = (draw.randint(1, 900) for _ in range(5))
        prompt, completion = fresh + cached + written, said + thought
        apart = {"cache_read_input_tokens": cached, "cache_creation_input_tokens": written}
        is_apart, adds_up = max(cached, written) > fresh, thought > said
        for usage in (
            {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion} | apart,
            {"prompt_tokens": fresh if is_apart else prompt, "completion_tokens": completion} | apart,
            {"prompt_tokens": fresh if cached + written > fresh else prompt, "completion_tokens": completion,
             "total_tokens": prompt + completion} | apart,
            {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + completion} | apart,
            {"prompt_tokens": prompt, "completion_tokens": said if adds_up else completion, "total_tokens": prompt + said,
             "completion_tokens_details": {"reasoning_tokens": thought}} | apart,
            {"prompt_tokens": prompt, "completion_tokens": said if adds_up else completion, "reasoning_tokens": thought}
            | apart,
        ):  # fmt: skip
            assert tokens_of(usage, "flex") == (prompt, completion, cached, written, "flex"), usage


@pytest.mark.parametrize("total", [{}, {"total_tokens": 1040}, {"total_tokens": 1100}, {"total_tokens": None}])
@pytest.mark.parametrize("price", [(1.0, 10.0), (1.0, 10.0, 0.1), None])
def test_tokens_both_read_from_the_cache_and_written_to_it_count_once_and_have_no_price(
    total: dict[str, int | None], price: tuple[float, ...] | None
) -> None:
    """Of 1,000 tokens 700 were read and 900 written, so at least 600 were both."""
    details = {"cached_tokens": 700, "cache_creation_tokens": 900}
    tokens = tokens_of({"prompt_tokens": 1000, "completion_tokens": 40, "prompt_tokens_details": details} | total)
    assert (tokens.prompt, tokens.cached, tokens.written) == (1000, 700, 900)
    assert tokens.completion == (100 if total.get("total_tokens") == 1100 else 40)  # thinking, in the total alone
    assert cost_of_call(Judge("openai", "gpt-4o-mini", price=price), tokens) is None


def test_the_list_has_the_price_of_the_standard_tier_alone() -> None:
    judge = Judge.of("openai:gpt-4o-mini")
    standard = cost_of_call(judge, Tokens(1000, 10))
    assert standard == pytest.approx((1000 * 0.15 + 10 * 0.6) / 1e6)
    for tier in ("default", "", "standard", "auto"):
        assert cost_of_call(judge, Tokens(1000, 10, tier=tier)) == standard
    for tier in ("flex", "priority", "Default", 1):
        assert cost_of_call(judge, Tokens(1000, 10, tier=tier)) is None
    flex = judge.replace(params={"service_tier": "flex"})
    assert price_of(flex) is None
    assert [cost_of_call(flex, Tokens(1000, 10, tier=tier)) for tier in (None, "flex", "default")] == [
        None,
        None,
        standard,
    ]
    own = flex.replace(price=(1, 2))
    assert price_of(own) == (1, 2)
    costs = [cost_of_call(own, Tokens(1000, 10, tier=tier)) for tier in (None, "flex", "default", "priority")]
    assert costs == [1020 / 1e6, 1020 / 1e6, None, None]
    assert price_of(judge.replace(params={"service_tier": "auto"})) == price_of(judge)


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
    assert texts([{"message": {"content": ""}, "finish_reason": "ERROR_TOXIC"}]) == [""]
    with pytest.raises(Exception, match="broke off"):
        texts([{"message": {"content": ""}, "finish_reason": "ERROR"}])


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
    assert texts([{"message": {"content": "4", "tool_calls": [{"function": {"arguments": "{}"}}]}}]) == ["4"]
