"""Anthropic's Messages API, called with aiohttp; Anthropic's package is needed for the schemas that the API takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.judge_field_checks import host_of
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import token_count
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.api_keys import key_of
from evalkit.engine.providers.chat_client import client_of_loop
from evalkit.engine.providers.judge_checks import check_key, check_packages, check_params
from evalkit.engine.providers.openai import OpenAIClient, with_version
from evalkit.engine.providers.openai_replies import json_bytes, json_of, problem_of
from evalkit.engine.providers.prices import cost_of, price_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError

_HOST = PROVIDERS["anthropic"].host
PATH = "/messages"
_SET_BY_EVALKIT = ("system", "response_format", "max_completion_tokens")
_MADE_HERE = ("messages", "temperature", "max_tokens", "max_completion_tokens", "response_format", "n")
# The newest version of the API refuses these with every model; the one before it accepts them with some
_SAMPLING = ("temperature", "top_p", "top_k")
_VERSION, _WITH_SAMPLING = "2026-10-21", "2023-06-01"
_DEFAULT_TEMPERATURE = 1.0
_FINISH_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length"}
_USUAL = {"service_tier": ("standard", "batch"), "speed": ("standard",), "inference_geo": ("global", "not_available")}


def check(judge: Judge) -> None:
    """Check library, key and parameters, before anything is sent.

    Raises
    ------
    MissingExtraError
        Without anthropic.
    ConfigError
        Without `max_tokens`, or for a temperature above 1.
    JudgeError
        If the variable that holds the key is not set.
    """
    check_packages("anthropic")
    check_params(judge, _SET_BY_EVALKIT)
    if judge.max_tokens is None:
        raise ConfigError(f"judge '{judge.name}' needs max_tokens: Anthropic's API requires it; pass max_tokens=512")
    if judge.temperature is not None and judge.temperature > 1 and _is_own(judge):
        raise ConfigError(
            f"temperature of judge '{judge.name}' is {judge.temperature:g}; Anthropic takes temperatures from 0 to 1"
        )
    check_key(judge)
    import anthropic  # noqa: F401  # loaded here, in the caller's thread: it takes a second


def connect(judge: Judge) -> AnthropicClient:
    """The client for a judge's server and key variable; one of them per event loop."""
    base_url = judge.base_url or PROVIDERS["anthropic"].address
    return client_of_loop(AnthropicClient, judge, with_version(base_url))


class AnthropicClient(OpenAIClient):
    """One server of the Messages API."""

    def __init__(self, judge: Judge, base_url: str) -> None:
        super().__init__(judge, base_url)
        self.supports_n = False
        self._is_azure = False
        self._headers = {"anthropic-version": _VERSION, **self._headers}

    def price(self, judge: Judge) -> None:
        """None: the answer comes with its cost."""

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """The answer, as a chat completion."""
        judge, native = request.judge, native_body(request, body)
        answer = await self.send(PATH, orjson.dumps(native), timeout_s=judge.timeout_s, headers=version_for(native))
        if 200 <= answer.status < 300:
            return as_completion(answer, judge)
        raise problem_in(answer, judge, body)


def version_for(body: Mapping[str, Any]) -> dict[str, str]:
    """The header that asks for the version of the API that accepts a body; the usual one if none."""
    return {"anthropic-version": _WITH_SAMPLING} if any(name in body for name in _SAMPLING) else {}


def native_body(request: Request, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a chat completion, as the Messages API takes it.

    The temperature 1.0 is not sent to Anthropic's own service, whose default it is: most models accept no other.
    """
    from anthropic import transform_schema

    judge, messages = request.judge, body["messages"]
    native: dict[str, Any] = {name: value for name, value in body.items() if name not in _MADE_HERE}
    native["max_tokens"] = judge.max_tokens
    native["messages"] = [_native_message(message) for message in messages if message["role"] != "system"]
    system = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    if system:
        native["system"] = system
    if "temperature" in body and not (body["temperature"] == _DEFAULT_TEMPERATURE and _is_own(judge)):
        native["temperature"] = body["temperature"]
    if body.get("response_format", {}).get("type") == "json_schema":
        schema = transform_schema(dict(body["response_format"]["json_schema"]["schema"]))
        output_format = {"format": {"type": "json_schema", "schema": schema}}
        native["output_config"] = output_format | dict(native.get("output_config") or {})
    return native


def _native_message(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message with its images as Anthropic takes them: it knows no detail, and items that name one are refused."""
    content = message["content"]
    return message if isinstance(content, str) else {**message, "content": list(map(_native_part, content))}


def _native_part(part: Mapping[str, Any]) -> Mapping[str, Any]:
    if part["type"] != "image_url":
        return part
    media, _, data = part["image_url"]["url"].removeprefix("data:").partition(";base64,")
    return {"type": "image", "source": {"type": "base64", "media_type": media, "data": data}}


def as_completion(answer: Answer, judge: Judge, share: float = 1.0) -> Answer:
    """A message as a chat completion, with its cost at this share of the price; what is no message stays as it is."""
    parsed = json_of(answer.content)
    blocks = parsed.get("content") if isinstance(parsed, dict) else None
    if not isinstance(parsed, dict) or not isinstance(blocks, list):
        return answer
    parts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    texts = [text for text in parts if isinstance(text, str)]
    reason, details = parsed.get("stop_reason"), parsed.get("stop_details")
    used = [block.get("input") for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]
    message = {
        "content": "".join(texts) if texts else None,
        "tool_calls": [{"function": {"arguments": arguments}} for arguments in used],
        "refusal": details.get("explanation") if reason == "refusal" and isinstance(details, dict) else None,
    }
    usage = parsed.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    plain, cached = token_count(usage.get("input_tokens")), _cached(usage)
    prompt = None if plain is None or cached is None else token_count(plain + cached)
    written = token_count(usage.get("output_tokens"))
    reason = _FINISH_REASONS.get(reason, reason) if isinstance(reason, str) else None
    completion = {
        "id": parsed.get("id"),
        "model": parsed.get("model"),
        "choices": [{"finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": written},
    }
    cost = None if prompt is None or written is None else _cost(judge, parsed, usage, cached, prompt, written)
    cost = None if cost is None else cost * share
    return answer._replace(content=json_bytes(completion), cost_usd=cost)


def _cached(usage: Mapping[str, Any]) -> int | None:
    """Tokens of the prompt that were read from the cache or written to it; None if that cannot be read."""
    counts = [usage.get(name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens")]
    tokens = [token_count(count) for count in counts]
    return None if None in tokens else sum(count for count in tokens if count is not None)


def _cost(
    judge: Judge, found: Mapping[str, Any], usage: Mapping[str, Any], cached: int | None, prompt: int, written: int
) -> float | None:
    """US$ by the judge's own price, else by that of genai-prices; None if it is not known for all that was billed."""
    if judge.price is not None:
        is_usual = usage.get("service_tier") in (None, "", *_USUAL["service_tier"])
        return cost_of(price_of(judge), prompt, written) if is_usual and not cached else None
    if judge.service != _HOST:
        return None
    unusual = any(usage.get(name) not in (None, "", *values) for name, values in _USUAL.items())
    tools = usage.get("server_tool_use")
    if unusual or (any(tools.values()) if isinstance(tools, dict) else tools):
        return None
    import genai_prices

    try:
        return float(genai_prices.extract_usage(found, provider_id="anthropic").calc_price().total_price)
    except (LookupError, ValueError, TypeError):
        return None


def problem_in(answer: Answer, judge: Judge, body: Mapping[str, Any]) -> ProviderError:
    """The `ProviderError` for an answer with an error status."""
    # without its value, since there is no form between a schema and none
    sent = {name: body[name] for name in ("messages", "temperature") if name in body}
    sent |= {name: None for name in ("response_format",) if name in body}
    return problem_of(answer, judge, sent, key_of(judge))


def _is_own(judge: Judge) -> bool:
    return not judge.base_url or host_of(judge.base_url) == _HOST
