"""A refused parameter is known by its name alone, in whatever words and languages, and never one that the user set."""

from __future__ import annotations

import random
from typing import Any, get_args

import orjson
import pytest

from evalkit.core.judges import Judge
from evalkit.engine.providers.chat_client import request_body
from evalkit.engine.providers.error_answers import DROPPABLE, SYSTEM_ROLE, ErrorText, instead_of, kind_of
from evalkit.engine.providers.known_errors import KNOWN_ERRORS
from evalkit.engine.providers.openai_replies import problem_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProblemKind, ProviderError

JUDGE = Judge("openai", "m", base_url="http://127.0.0.1:1/v1", score="expected")
SENT: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Judge."}, {"role": "user", "content": "An answer."}],
    "temperature": 1.0, "max_tokens": 512, "n": 4, "logprobs": True, "top_logprobs": 20,
    "response_format": {"type": "json_schema", "json_schema": {}},
}  # fmt: skip
# as servers write the name, and what is sent in its place where no number is stated
NAMES: dict[str, tuple[tuple[str, ...], str | None]] = {
    "temperature": (("temperature", "`temperature`", "Temperature", "TEMPERATURE:"), None),
    "max_tokens": (("max_tokens", "'max_tokens'", "maxTokens", "max-tokens", "Max Tokens"), "max_completion_tokens"),
    "n": (("n", "'n'", "`n`", "n=", "N"), None),
    "top_logprobs": (("top_logprobs", "topLogprobs", "top logprobs"), None),
    "logprobs": (("logprobs", '"logprobs"', "Logprobs"), None),
    "response_format": (("response_format", "responseFormat", "json_schema", "JSON schema", "response_format.type"),
                        "json_object"),
    SYSTEM_ROLE: (("role 'system'", "role: system", "the system role", "roles other than user (got system)"), None),
}  # fmt: skip
SENTENCES = (
    "{} geht hier nicht", "je ne connais pas {} !", "{} は使えません", "параметр {} отклонён", "bad thing near {}",
    "we have retired {}", "{}: nope", "[E42-b] {} ???", "vous ne pouvez pas {} ici", "{}不可用",
)  # fmt: skip


def problem(status: int, error: Any, judge: Judge = JUDGE, **sent: Any) -> ProviderError:
    answer = Answer(status, {}, orjson.dumps({"error": error}), "http://127.0.0.1:1", "/v1/chat/completions")
    return problem_of(answer, judge, SENT | sent)


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_enough_in_any_words_and_with_no_other_status(name: str) -> None:
    forms, instead = NAMES[name]
    for form in forms:
        for sentence in SENTENCES:
            error = {"message": sentence.format(form)}
            for status in (400, 422):
                refused = problem(status, error)
                assert (refused.parameter, refused.instead) == (name, instead), error
            for status in (401, 402, 403, 404, 409, 413, 429, 500, 501, 503):
                assert problem(status, error).kind != "refused_parameter", (status, error)


@pytest.mark.parametrize("name", ["response_format", "logprobs", "top_logprobs", "seed"])
def test_what_a_user_set_is_never_left_out(name: str) -> None:
    own = Judge("openai", "m", base_url="http://127.0.0.1:1/v1", params={name: SENT.get(name, 1)})
    for error in ({"message": f"{name} is unknown"}, {"message": "no", "param": name}):
        assert problem(400, error, own, seed=1).kind == "client_error"


def test_a_refusal_that_was_learnt_leaves_the_users_own_parameters_alone() -> None:
    from evalkit.core.prompts_and_replies import Message, Prompt
    from evalkit.core.reply_keys import KeyParts
    from evalkit.engine.request import Request

    def body(judge: Judge, adapt: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        prompt = Prompt(
            (Message("user", "?"),), "json", {"type": "object"}, "t", "v1", "r", "r@v1", "ordinal", (0, 1), {}
        )
        parts = KeyParts("openai", "local", "m", "t", "v1", "", "", judge.temperature, None, {})
        return request_body(Request(judge, prompt, parts, (0,), (parts.key,)), 1, adapt)

    own = Judge("openai", "m", base_url="http://127.0.0.1:1/v1", params={"response_format": {"type": "text"}})
    for learnt in ("json_object", None):
        assert body(own, {"response_format": learnt}) == (body(own, {})[0], None)
    plain = own.replace(params={})
    sent, otherwise = body(plain, {"response_format": "json_object"})
    assert sent["response_format"] == {"type": "json_object"}
    assert otherwise == {"response_format": {"type": "json_object"}}
    sent, otherwise = body(plain, {"response_format": None})
    assert "response_format" not in sent
    assert otherwise == {"response_format": None}


@pytest.mark.parametrize(
    ("error", "sent", "parameter", "instead"),
    [
        # a field decides before the text
        ({"message": "temperature and n are odd", "param": "n"}, {}, "n", None),
        ({"message": "temperature is odd", "param": "top_k"}, {"top_k": 3}, None, None),
        ({"message": "temperature is odd", "param": "prompt"}, {}, "temperature", None),
        ({"message": "odd", "param": "messages[0].role"}, {}, SYSTEM_ROLE, None),
        ({"message": "odd", "param": "messages.0.SystemMessage.role"}, {}, SYSTEM_ROLE, None),
        ({"message": "role must not be system", "param": "messages[1].role"}, {}, None, None),
        ({"message": "odd: role, system", "param": "messages[1].content"}, {}, None, None),
        # a number below the one that was sent
        ({"message": "n: 1 to 3"}, {}, "n", 3),
        ({"message": "n > 3 is more than the 2 of this plan"}, {"n": 3}, "n", 2),
        ({"message": "n > 1 with 4 asked for"}, {}, "n", None),
        ({"message": "top_logprobs: 0 to 11"}, {}, "top_logprobs", 11),
        ({"message": "logprobs up to 5"}, {}, "top_logprobs", 5),
        ({"message": "max_tokens: 40,000 > 8,192"}, {"max_tokens": 40_000}, "max_tokens", 8192),
        ({"message": "max_tokens [1,2048]"}, {"max_tokens": 40_000}, "max_tokens", 2048),
        # about its value, which the user must correct: without it, nothing would bind the cost of a reply
        ({"message": "max_tokens: 512 is under 1024"}, {}, None, None),
        ({"message": "max_tokens of gpt-5 is another"}, {}, "max_tokens", "max_completion_tokens"),
        ({"message": "Llama 3 does not know max_tokens"}, {}, None, None),
        # a schema, then any JSON object, then nothing
        ({"message": "json_schema"}, {"response_format": {"type": "json_object"}}, "response_format", None),
        ({"message": "json_object"}, {"response_format": {"type": "json_object"}}, "response_format", None),
        # evalkit's temperatures are from 0 to 1
        ({"message": "temperature 1.2?"}, {"temperature": 1.2}, None, None),
        ({"message": "temperature 0?"}, {"temperature": 0.0}, "temperature", None),
        # within other words
        ({"message": "temperatures, my_temperature, n-gram, /n, isn't, max_tokens_2, logprobsx"}, {}, None, None),
        ({"message": "the file system has no room, and you play no role's part"}, {}, SYSTEM_ROLE, None),
        ({"message": "the file system has no room"}, {}, None, None),
    ],
)  # fmt: skip
def test_fields_numbers_and_steps(
    error: dict[str, Any], sent: dict[str, Any], parameter: str | None, instead: int | str | None
) -> None:
    refused = problem(400, error, **sent)
    assert (refused.parameter, refused.instead) == (parameter, instead)


def test_each_known_error_has_a_sign_a_source_and_its_meaning() -> None:
    for row in KNOWN_ERRORS:
        assert row.kind in get_args(ProblemKind), row
        assert row.source, row
        assert row.provider, row
        assert row.code or len(row.text) >= 12, row
        assert (row.code, row.text) == (row.code.casefold(), row.text.casefold()), row
        assert bool(row.parameter) == (row.kind == "refused_parameter"), row
        assert row.parameter in ("", SYSTEM_ROLE, *DROPPABLE), row
        said = ErrorText(f"Oh: {row.text.upper()}.", (row.code.upper(), "other"))
        if row.parameter:
            error = {"message": said.text, "code": row.code}
            assert [problem(status, error).parameter for status in (400, 403, 500)] == [row.parameter] * 3, row
        else:
            assert kind_of(400, said) == row.kind, row
    assert len({(row.code, row.text) for row in KNOWN_ERRORS}) == len(KNOWN_ERRORS)


def test_what_no_row_knows_counts_by_its_status() -> None:
    draw = random.Random(7)
    words = ["credit", "balance", "quota", "filter", "policy", "sensitive", "key", "invalid", "billing", "blocked"]
    kinds = {
        400: "client_error", 401: "auth", 402: "quota", 403: "forbidden", 404: "unknown_model", 422: "client_error",
        429: "rate_limited", 500: "server_error",
    }  # fmt: skip
    for _ in range(500):
        text = " ".join(draw.choices(words, k=6))
        for status, kind in kinds.items():
            assert kind_of(status, ErrorText(text)) == kind, text


def test_what_is_done_instead_is_said_in_words() -> None:
    assert instead_of("response_format", "json_object") == "evalkit asks for a JSON object without a schema"
    assert instead_of("n", 2) == "evalkit requests at most 2 replies at a time"
    assert instead_of("temperature", None) == "evalkit leaves it out"
    assert "before the user's" in instead_of(SYSTEM_ROLE, None)
