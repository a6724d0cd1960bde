"""Errors as services send them: which parameter they refuse, and which other kind of error they are.

Each row of the refusals names where the wording was reported, or what it follows if it was not found in a public report.
The other errors follow public reports and documentation as far as they are known, and are written here.
"""

# ruff: noqa: E501  # a row per service

from __future__ import annotations

import email.utils
import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import orjson
import pytest

from evalkit.core.judges import Judge
from evalkit.engine.providers.error_answers import ErrorText, wait_in
from evalkit.engine.providers.openai_replies import problem_of, replies_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError

JUDGE = Judge("openai", "m", base_url="http://127.0.0.1:1/v1", api_key_env="SOME_KEY")
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "You judge answers by a rubric."},
        {"role": "user", "content": "Is the temperature in the answer right? n = 3"},
    ],
    "temperature": 1.0,
    "max_tokens": 512,
    "response_format": {"type": "json_schema"},
    "logprobs": True,
    "top_logprobs": 20,
    "n": 3,
}


def said(message: object, **fields: object) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None} | fields}


def routed(raw: object, provider: str, code: int = 400) -> dict[str, Any]:
    metadata = {"raw": raw if isinstance(raw, str) else json.dumps(raw), "provider_name": provider}
    return {"error": {"message": "Provider returned error", "code": code, "metadata": metadata}, "user_id": "u"}


def forbidden(*path: str) -> list[dict[str, Any]]:
    """As pydantic says it, with an echo of what was sent."""
    return [{"type": "extra_forbidden", "loc": ["body", *path], "msg": "Extra inputs are not permitted", "input": BODY}]


DEVELOPER = "Developer instruction is not enabled for models/gemma-3-27b-it"
MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
ONLY_ONE = (
    "Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported."
)
GOOGLE = "INVALID_ARGUMENT"

# service, status, body, what is sent otherwise than in BODY, refused parameter, what is sent in its place, source
WORDINGS: list[tuple[str, int, Any, dict[str, Any], str, int | str | None, str]] = [
    ("OpenAI", 400, said(ONLY_ONE, param="temperature", code="unsupported_value"), {"temperature": 0.2}, "temperature",
     None, "BeehiveInnovations/pal-mcp-server#78"),
    ("OpenAI", 400, said(MAX_TOKENS, param="max_tokens", code="unsupported_parameter"), {}, "max_tokens",
     "max_completion_tokens", "actions/ai-inference#116"),
    ("OpenAI", 400, said("Unrecognized request argument supplied: logprobs"), {}, "logprobs", None,
     "openai/openai-python#433"),
    ("OpenAI", 400, said("Invalid 'n': integer above maximum value. Expected a value <= 128, but got 200 instead.",
     param="n", code="integer_above_max_value"), {"n": 200}, "n", 128, "OpenAI's reference: n is at most 128"),
    ("OpenAI", 400, said("Unsupported value: 'messages[0].role' does not support 'system' with this model.",
     param="messages[0].role", code="unsupported_value"), {}, "system_role", None, "OpenAI's o1-mini"),
    ("GigaChat", 422, {"status": 422, "message": "Invalid params: temperature must be in range (0, +inf)"},
     {"temperature": 0.0}, "temperature", None, "ai-forever/gigachain#237"),
    ("DeepSeek", 422, said("Failed to deserialize the JSON body into the target type: response_format: "
     "response_format.type `json_schema` is unavailable now at line 1 column 1193"), {}, "response_format", "json_object",
     "BerriAI/litellm#7580"),
    ("DeepSeek", 400, {"detail": "Invalid top_logprobs and logprobs value"}, {}, "top_logprobs", None,
     "deepseek-ai/DeepSeek-V2#9"),
    ("Groq", 400, said("'n' : number must be at most 1"), {}, "n", None, "langchain-ai/langchain#40590"),
    ("Groq", 400, said("'response_format' : one of the following must be satisfied[('response_format.type' : value is not "
     "one of the allowed values ['text'])]"), {}, "response_format", "json_object", "vercel/ai#7808"),
    ("Google", 400, [said("Multiple candidates is not enabled for this model", code=400, status=GOOGLE)], {}, "n", None,
     "googleapis/js-genai#1609"),
    ("Google", 400, [said("Only one candidate can be specified", code=400, status=GOOGLE)], {}, "n", None,
     "googleapis/python-aiplatform#3743"),
    ("Google", 400, [said(DEVELOPER, code=400, status=GOOGLE)], {}, "system_role", None, "0xPlaygrounds/rig#788"),
    ("Vertex", 400, said("Unable to submit request because candidateCount must be 1 but the entered value was 3. Update the "
     "candidateCount value and try again.", code=400, status=GOOGLE), {}, "n", None, "genkit-ai/genkit#546"),
    ("Vertex", 400, said("Unable to submit request because it has a candidateCount value of 12 but the supported range is "
     "from 1 (inclusive) to 9 (exclusive). Update the value and try again.", code=400, status=GOOGLE), {"n": 12}, "n", 9,
     "googleapis/python-aiplatform#3603"),
    ("Together", 400, said("5 is greater than the maximum of 1 - 'logprobs'", param="logprobs"), {}, "top_logprobs", 5,
     "stanford-crfm/helm#2325"),
    ("Mistral", 422, {"object": "error", "message": json.dumps({"detail": forbidden("logprobs")}), "type":
     "internal_error_proxy", "param": None, "code": "1000"}, {}, "logprobs", None, "mistralai/platform-docs-public#7"),
    ("Mistral", 422, {"object": "Error", "detail": forbidden("n"), "message": forbidden("n"), "type":
     "invalid_request_error", "code": 3001}, {}, "n", None, "partITech/php-mistral#76, with another parameter"),
    ("vLLM", 400, {"object": "error", "message": "System role not supported", "type": "BadRequestError", "code": 400}, {},
     "system_role", None, "a chat template of Gemma"),
    ("Dynamo", 400, {"message": "When n > 1, temperature must be greater than 0 to ensure diverse outputs. Got n=2, "
     "temperature=0", "type": "Bad Request", "code": 400}, {"temperature": 0.0}, "n", 2, "ai-dynamo/dynamo#3914"),
    ("LM Studio", 400, {"error": "Only user and assistant roles are supported!"}, {}, "system_role", None,
     "a chat template of Mistral"),
    ("llama.cpp", 500, {"error": {"code": 500, "message": "Conversation roles must alternate user/assistant/user/assistant",
     "type": "server_error"}}, {}, "system_role", None, "a chat template of Mistral"),
    ("LLM Gateway", 400, said("Model m with provider p does not support the n parameter for multiple choices. Send n "
     "separate requests instead."), {}, "n", None, "theopenco/llmgateway#2433"),
    ("Claude Code Router", 400, said(f"Error from provider: {json.dumps(said(MAX_TOKENS, param='max_tokens'))}"), {},
     "max_tokens", "max_completion_tokens", "musistudio/claude-code-router#173"),
    ("Cloudflare", 400, {"success": False, "errors": [{"code": 5025, "message": "This model doesn't support JSON Schema."}],
     "messages": [], "result": None}, {}, "response_format", "json_object", "Cloudflare's table of errors"),
    ("NVIDIA NIM", 422, {"title": "Unprocessable Entity", "status": 422, "detail": "body -> logprobs\n  Extra inputs are not "
     "permitted (type=extra_forbidden)"}, {}, "logprobs", None, "BerriAI/litellm#4558, with another parameter"),
    ("Cerebras", 400, {"message": "type: Input should be 'text'", "type": "invalid_request_error", "param":
     "validation_error", "code": "wrong_api_format"}, {}, "response_format", "json_object",
     "Cerebras/cerebras-cloud-sdk-python#4"),
    ("Fireworks", 400, {"error": {"type": "invalid_request_error", "message": "JSON Schema not supported: could not "
     "understand the instance `{'required': ['criteria']}`."}}, {}, "response_format", "json_object", "earendil-works/pi#5352"),
    ("Bedrock's gateway", 400, {"detail": "An error occurred (ValidationException): The maximum tokens you requested exceeds the "
     "model limit of 2048. Try again with a maximum tokens value that is lower than 2048."}, {"max_tokens": 4096}, "max_tokens",
     2048, "aws-samples/bedrock-access-gateway#41"),
    ("llama.cpp", 500, said("Only user, assistant and tool roles are supported, got system", code=500), {}, "system_role",
     None, "anomalyco/opencode#5034"),
]  # fmt: skip


def test_a_refused_parameter_is_recognised_by_its_name() -> None:
    assert len({service for service, *_ in WORDINGS}) >= 16
    wrong = []
    for service, status, body, sent, name, instead, source in WORDINGS:
        answer = Answer(status, {}, orjson.dumps(body), "https://judge.invalid", "/v1/chat/completions")
        found = problem_of(answer, JUDGE, BODY | sent)
        if (found.kind, found.parameter, found.instead) != ("refused_parameter", name, instead):
            wrong.append(f"{service} ({source}): {found.kind}, {found.parameter}, {found.instead}: {found.detail}")
    assert not wrong, "\n".join(wrong)


def test_what_was_not_sent_cannot_be_refused() -> None:
    for service, status, body, _, _, _, source in WORDINGS:
        answer = Answer(status, {}, orjson.dumps(body), "https://judge.invalid", "/v1/chat/completions")
        bare = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        assert problem_of(answer, JUDGE, bare).kind != "refused_parameter", (service, source)


LIMIT = (
    "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s."
)
LARGE = "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 342389."
GEMINI = "You exceeded your current quota, please check your plan and billing details. Please retry in 18.07s."
LONG = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8488 in the messages, 512 in "
AZURE_FILTER = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
FILTERED = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"jailbreak": {"filtered": True}}}

# service, status, body, kind
OTHERS: list[tuple[str, int, Any, str]] = [
    # money
    ("OpenAI", 429, said("You exceeded your current quota, please check your plan and billing details.",
     type="insufficient_quota", code="insufficient_quota"), "quota"),
    ("OpenAI", 429, said("Billing hard limit has been reached", code="billing_hard_limit_reached"), "quota"),
    ("OpenAI", 429, said("Your account is not active, please check your billing details.", code="billing_not_active"),
     "quota"),
    ("Anthropic", 400, {"type": "error", "error": {"type": "invalid_request_error", "message":
     "Your credit balance is too low to access the Anthropic API."}}, "quota"),
    ("Anthropic", 400, {"type": "error", "error": {"type": "invalid_request_error", "message":
     "You have reached your specified API usage limits. You will regain access on 2026-12-01."}}, "quota"),
    ("Anthropic", 402, {"type": "error", "error": {"type": "billing_error", "message": "pay"}}, "quota"),
    ("OpenRouter", 402, said("This request requires more credits, or fewer max_tokens.", code=402), "quota"),
    ("OpenRouter", 403, said("Key limit exceeded (monthly limit).", code=403), "quota"),
    ("xAI", 429, {"code": "Some resource has been exhausted", "error":
     "Your team has either used all available credits or reached its monthly spending limit."}, "quota"),
    ("xAI", 403, {"code": "The caller does not have permission", "error":
     "Your newly created team doesn't have any credits yet."}, "quota"),
    ("Moonshot", 429, said("Your account is suspended, please check your plan.", type="exceeded_current_quota_error"),
     "quota"),
    ("Alibaba", 400, said("Access denied, please make sure your account is in good standing.", code="Arrearage"), "quota"),
    ("MiniMax", 429, said("insufficient balance (1008)", type="insufficient_balance_error"), "quota"),
    ("Zhipu", 429, {"error": {"code": "1113", "message": "余额不足或无可用资源包,请充值。"}}, "quota"),
    ("Fireworks", 412, said("Account a is suspended, possibly due to reaching the monthly spending limit or failure to pay "
     "past invoices.", code="PRECONDITION_FAILED", type="error"), "quota"),
    ("LiteLLM's proxy", 429, {"detail": "Max budget limit reached."}, "quota"),
    ("One API", 403, said("用户额度不足", type="one_api_error", code="insufficient_user_quota"), "quota"),
    # a rate is not money
    ("OpenAI", 429, said(LIMIT, type="tokens", code="rate_limit_exceeded"), "rate_limited"),
    ("Google", 429, [said(GEMINI, code=429, status="RESOURCE_EXHAUSTED")], "rate_limited"),
    ("OpenRouter", 429, said("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests "
     "per day", code=429), "rate_limited"),
    # waiting cannot help
    ("OpenAI", 429, said(LARGE, type="tokens", code="rate_limit_exceeded"), "client_error"),
    ("Groq", 413, said("Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7046, please reduce "
     "your message size and try again.", code="rate_limit_exceeded"), "client_error"),
    # a key
    ("OpenAI", 401, said("Incorrect API key provided: sk-no."), "auth"),
    ("Google", 400, [said("API key not valid. Please pass a valid API key.", code=400, status=GOOGLE,
     details=[{"reason": "API_KEY_INVALID"}])], "auth"),
    ("Google", 400, [said("API key expired. Please renew the API key.", code=400, status=GOOGLE)], "auth"),
    # one prompt
    ("Azure", 400, said(AZURE_FILTER, param="prompt", code="content_filter", status=400, innererror=FILTERED),
     "content_filter"),
    ("LiteLLM proxy", 400, {"error": {"message": f"ContentPolicyViolationError: AzureException - {AZURE_FILTER}",
     "code": "400"}}, "content_filter"),
    ("OpenAI", 400, said("Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
     code="invalid_prompt"), "content_filter"),
    ("OpenRouter", 403, {"error": {"message": "m requires moderation on OpenAI. Your input was flagged for \"violence\".",
     "code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "temperature"}}}, "content_filter"),
    ("DeepSeek", 400, said("Content Exists Risk"), "content_filter"),
    ("Alibaba", 400, said("Input data may contain inappropriate content.", code="data_inspection_failed"),
     "content_filter"),
    ("Zhipu", 400, {"error": {"code": "1301", "message": "系统检测到输入或生成内容可能包含不安全或敏感内容"}}, "content_filter"),
    ("Cloudflare's firewall", 403, b"<html>Sorry, you have been blocked</html>", "forbidden"),
    ("OpenRouter", 404, said("No endpoints found matching your data policy.", code=404), "unknown_model"),
    # retried
    ("Groq", 400, said("Failed to generate JSON. Please adjust your prompt. See 'failed_generation' for more details.",
     code="json_validate_failed", failed_generation="{"), "server_error"),
    ("Cloudflare", 400, {"errors": [{"code": 5024, "message": "JSON Mode couldn't be met"}]}, "server_error"),
    # the user's to correct
    ("OpenAI", 400, said(f"{LONG}the completion (max_tokens)).", param="messages", code="context_length_exceeded"),
     "too_long"),
    ("llama.cpp", 500, said("the request exceeds the available context size. try increasing the context size"), "too_long"),
    ("OpenAI", 400, said("Could not finish the message because max_tokens or model output limit was reached."),
     "client_error"),
    ("FastAPI", 422, {"detail": [{"type": "missing", "loc": ["body", "prompt"], "msg": "Field required", "input": BODY}]},
     "client_error"),
    ("a server that echoes the prompt", 400, said("cannot read: Is the temperature in the answer right? n = 3"),
     "client_error"),
]  # fmt: skip


# TGI, Google, Anthropic, Mistral, Groq, Cohere, Bedrock, Alibaba, SGLang, vLLM, LM Studio, llama.cpp …
TOO_LONG = [
    "`inputs` must have less than 4096 tokens. Given: 5000",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000 `inputs` tokens",
    "The input token count (1234567) exceeds the maximum number of tokens allowed (1048576).",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease input length or `max_tokens`",
    "Please reduce the length of the messages or completion.",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "Input is too long for requested model.",
    "Range of input length should be [1, 30720]",
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "Trying to keep the first 5000 tokens when context the overflows. The model is loaded with context length of 4096",
    "Input tokens exceed the configured limit of 272000 tokens.",
    "Your input exceeds the context window of this model.",
    "You passed 202753 input tokens and requested 0 output tokens. However, the model's context length is only 202752 tokens",
    "number of input tokens (204703) has exceeded max_prompt_tokens (202752) limit.",
]
NOT_TOO_LONG = [
    "max_tokens is too large: 512000. This model supports at most 16384 completion tokens.",
    "Could not finish the message because max_tokens or model output limit was reached.",
    "The maximum number of images per prompt is 1",
    "tools: list is too long",
    "inputs must be a list of strings",
    "temperature exceeds the maximum of 1",
]


def test_a_prompt_that_is_too_long_is_known_by_its_words() -> None:
    answers = {
        text: Answer(400, {}, orjson.dumps(said(text)), "https://judge.invalid", "/v1/x")
        for text in (*TOO_LONG, *NOT_TOO_LONG)
    }
    found = {text: problem_of(answer, JUDGE, BODY).kind for text, answer in answers.items()}
    assert [text for text in TOO_LONG if found[text] != "too_long"] == []
    assert [text for text in NOT_TOO_LONG if found[text] == "too_long"] == []


def test_other_errors_are_told_apart() -> None:
    wrong = []
    for service, status, body, kind in OTHERS:
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        found = problem_of(Answer(status, {}, content, "https://judge.invalid", "/v1/x"), JUDGE, BODY | {"seed": 1})
        if found.kind != kind:
            wrong.append(f"{service}: {found.kind} {found.parameter}, not {kind}: {found.detail}")
        assert len(found.detail) < 520
        assert ("credit or quota of this account" in found.detail) == (kind == "quota"), found.detail
    assert not wrong, "\n".join(wrong)


def test_an_error_that_comes_with_status_200_is_one_of_these() -> None:
    """Its code may be that of HTTP; without one it may refuse a parameter."""
    for body, kind in [
        (said("Insufficient credits", code=402), "quota"),
        (said("slow down", code=429), "rate_limited"),
        (said("slow down", code="429"), "rate_limited"),
        (said("no key", code=401), "auth"),
        (said("Internal error", code=502), "server_error"),
        ({"error": {"message": "odd"}}, "server_error"),
        # codes that are words: those of OpenAI, Anthropic, Google, Azure
        (said("no", code="insufficient_quota"), "quota"),
        (said("You exceeded your current quota"), "client_error"),  # in words alone: by its type
        (said("no", code="invalid_api_key", type="invalid_request_error"), "auth"),
        (said("no", type="authentication_error"), "auth"),
        (said("no", status="UNAUTHENTICATED"), "auth"),
        (said("no", type="permission_error"), "forbidden"),
        (said("no", code="content_filter"), "content_filter"),
        (said("The prompt was flagged as sensitive"), "client_error"),
        (said("no", code="rate_limit_exceeded"), "rate_limited"),
        (said("no", status="RESOURCE_EXHAUSTED"), "rate_limited"),
        (said("no", type="overloaded_error"), "server_error"),
        (said("no", code="model_not_found"), "unknown_model"),
        (said("prompt is too long: 9 tokens"), "too_long"),
        (said("no", type="invalid_request_error"), "client_error"),
        (said("no", code="server_error"), "server_error"),
        (said("Failed to generate JSON", code="json_validate_failed"), "server_error"),
        ({"error": "Input validation error: `temperature` must be strictly positive"}, "refused_parameter"),
        ({"success": False, "errors": [{"code": 7000, "message": "No route for that URI"}], "result": None},
         "server_error"),
    ]:  # fmt: skip
        answer = Answer(200, {}, orjson.dumps(body), "https://judge.invalid", "/v1/x")
        sent = BODY | {"temperature": 0.0}
        with pytest.raises(ProviderError) as caught:
            replies_of(answer, 1, price=None, latency_s=None, sent=None, judge=JUDGE, body=sent)
        assert caught.value.kind == kind, (body, caught.value.detail)


def test_the_reason_behind_a_router_is_shown() -> None:
    inner = said("Country, region, or territory not supported", code="unsupported_country_region_territory")
    text = ErrorText.of(routed(inner, "OpenAI", 403)).text
    assert text == "Provider returned error: OpenAI: Country, region, or territory not supported"
    cloudflare = {"errors": [{"message": "AiError: No such model @cf/x or task", "code": 5007}], "success": False}
    assert ErrorText.of(cloudflare).text == "AiError: No such model @cf/x or task"
    # nothing of the request that is echoed, and each text once
    assert ErrorText.of({"detail": forbidden("n"), "message": forbidden("n")}).text == (
        "n: Extra inputs are not permitted"
    )


def none_left(limit: str, reset: str) -> dict[str, str]:
    """The headers of a limit of which nothing remains."""
    return {f"x-ratelimit-remaining-{limit}": "0", f"x-ratelimit-reset-{limit}": reset}


def test_the_longest_sensible_wait_counts() -> None:
    for headers, text, seconds in [
        ({"retry-after-ms": "0", "retry-after": "1"}, "", 1.0),
        ({"retry-after-ms": "2500", "retry-after": "2"}, "", 2.5),
        ({"retry-after-ms": "900", "retry-after": "900"}, "", 0.9),  # a server that mistakes one unit for the other
        ({"retry-after": "7200"}, "", 7200.0),
        ({"retry-after": "0"}, "", 0.0),
        ({"retry-after": "-3"}, "", None),
        ({"retry-after": "0"}, "Please try again in 6.5s.", 6.5),
        ({"retry-after": "2s"}, "", 2.0),
        ({"retry-after": "1m30.5s"}, "", 90.5),
        ({"retry-after": "0.503"}, "", 0.503),
        ({"retry-after": "28, 2"}, "", 28.0),  # a proxy added its own
        ({"retry-after": " 1h2m "}, "", 3720.0),
        ({"retry-after-ms": "250ms"}, "", 0.25),
        ({"x-ms-retry-after-ms": "1500"}, "", 1.5),
        *(({"retry-after": odd}, "", None) for odd in ("soon", "2 x", "nan", "inf", "-1s", "", "PT5S", "Wed, 99 Foo")),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "", 0.0),
        ({"retry-after": "1999-10-21"}, "", 0.0),
        ({**none_left("requests", "20s"), **none_left("tokens", "1m0.5s")}, "", 60.5),
        ({"x-ratelimit-reset-tokens": "6ms", "x-ratelimit-remaining-tokens": "0"}, "", 0.006),
        ({"x-ratelimit-reset-tokens": "6s", "x-ratelimit-remaining-tokens": "1200"}, "", None),
        ({"x-ratelimit-reset-tokens": "0", "x-ratelimit-remaining-tokens": "-1"}, "", None),
        (none_left("requests", "23h59m"), "", 86_340.0),  # of a day: hopeless
        ({**none_left("requests", "20s"), **none_left("tokens", "23h59m")}, "", 86_340.0),  # both must be free
        ({**none_left("requests", "20s"), "x-ratelimit-reset-tokens": "23h59m"}, "", 20.0),
        ({"x-ratelimit-reset": "200"}, "", None),  # healthy servers send it alone
        ({"x-ratelimit-reset-tokens": "9h"}, "", None),
        (none_left("requests", "20s") | {"retry-after": "3"}, "", 3.0),
        (none_left("requests", "23h59m") | {"retry-after": "3"}, "", 3.0),  # part of a limit may be free before
        (none_left("requests", "20s"), "Please try again in 2s.", 2.0),
        (none_left("requests", "9h"), "Please try again in 2s.", 2.0),
        ({"retry-after": "0"} | none_left("requests", "9h"), "", 32_400.0),
        ({"ratelimitbysize-reset": "44", "ratelimitbysize-remaining": "0"}, "", 44.0),
        ({}, "Please try again in 20ms.", 0.02),
        # 9 h 2 min 3.5 s, a day and 4 h, an hour and a half
        ({}, "Limit 1000, Used 1000. Please try again in 9h2m3.5s. Need more?", 32_523.5),
        ({}, "Your limit resets in 1 day and 4 hours", 100_800.0),
        ({}, "Retry after 1 hour, 30 minutes.", 5400.0),
        ({}, "please wait 2 minutes before", 120.0),
        ({"retry-after": "7"}, "Retry after 7 hours", 7.0),
        *(({}, odd, None) for odd in ("try again in 2 months", "retry in 5 meters", "wait for 3", "resets in May")),
        ({"retry-after": "2 Days"}, "", 172_800.0),
        ({}, "Please retry in 18.07s.", 18.07),
        ({}, "Limit 30000, Used 29000", None),
    ]:
        assert wait_in(headers, text) == pytest.approx(seconds), (headers, text)
    assert wait_in(none_left("tokens", "20s"), resets=False) is None
    for remaining, seconds in [(" 0 ", 1.0), ("0/60", 1.0), ("0.0", 1.0), ("0, 0;w=60", 1.0), ("00", 1.0),
                               *((odd, None) for odd in ("59/60", "59.0", "59, 59;w=60", "0.5", "60", "10;w=1", "-1"))]:  # fmt: skip
        headers = {"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": remaining}
        assert wait_in(headers) == seconds, remaining
    later = datetime.now(UTC) + timedelta(seconds=50)
    moments = [later.isoformat(), later.strftime("%Y-%m-%dT%H:%M:%SZ"), email.utils.format_datetime(later)]
    moments += [f"{later.timestamp():.0f}", f"{later.timestamp() * 1000:.0f}"]
    for moment in moments:
        for name in ("retry-after", "anthropic-ratelimit-requests-reset", "x-ratelimit-reset"):
            nothing_left = dict.fromkeys(["anthropic-ratelimit-requests-remaining", "x-ratelimit-remaining"], "0")
            assert wait_in(nothing_left | {name: moment}) == pytest.approx(50, abs=15), (name, moment)
        passed_on = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": moment}
        router = {"message": "limited", "code": 429, "metadata": {"headers": passed_on}}
        assert ErrorText.of({"error": router}).reset == pytest.approx(50, abs=15)
        limited = Answer(429, {}, orjson.dumps({"error": router}), "http://127.0.0.1:1", "/v1")
        assert problem_of(limited, JUDGE, BODY).retry_after == pytest.approx(50, abs=15)
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]
    assert wait_in({}, ErrorText.of([said("quota", details=details)]).text) == 34.0
    details[0]["retryDelay"] = "5h0m12s"
    assert wait_in({}, ErrorText.of([said("quota", details=details)]).text) == 18_012.0


NO_CREDIT = [
    {"message": "no", "code": "insufficient_quota"}, {"message": "no", "type": "exceeded_current_quota_error"},
    {"message": "Your credit balance is too low to access the API"}, {"message": "insufficient balance (1008)"},
]  # fmt: skip
RESETS = [
    none_left("tokens", "20s"), none_left("requests", "20"),
    {"ratelimitbysize-reset": "20", "ratelimitbysize-remaining": "0"},
]  # fmt: skip


def test_the_reset_of_a_limit_makes_no_lack_of_credit_a_matter_of_waiting() -> None:
    for error in (*NO_CREDIT, {"message": "Rate limit reached"}, {"message": "Insufficient funds"}):
        for headers in (*RESETS, {}):
            for passed_on in (*RESETS, {}):
                body = {"error": error | {"metadata": {"headers": passed_on}}}
                answer = Answer(429, headers, orjson.dumps(body), "http://127.0.0.1:1", "/v1/x")
                problem = problem_of(answer, JUDGE, BODY)
                wait = 20.0 if headers or passed_on else None
                expected = ("quota", None) if error in NO_CREDIT else ("rate_limited", wait)
                assert (problem.kind, problem.retry_after) == expected, (error, headers, passed_on)


def test_an_answer_that_is_made_to_be_read_slowly_is_read_in_linear_time() -> None:
    for digits in ("1" * 200_000, "1." * 100_000, "0" * 200_000, "1 " * 100_000, "1m" * 100_000 + "!"):
        value = f"{digits} x"
        limits = {f"X-RateLimit-Reset-{at}": value for at in range(50_000)}
        assert ErrorText.of({"error": {"message": "x", "metadata": {"headers": limits}}}) == ErrorText("x")
        assert wait_in({"retry-after": value, "x-ratelimit-reset": value}) is None
    names, number = ("message", "msg", "detail", "error", "errors", "description", "fault", "title"), count()

    def tree(depth: int) -> Any:
        return {name: tree(depth - 1) for name in names} if depth else f"text {next(number):09}"

    assert len(ErrorText.of(tree(5)).text) < 2000
