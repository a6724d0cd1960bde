"""All providers that LiteLLM supports. LiteLLM sends; evalkit handles retries, caching and costs."""

from __future__ import annotations

import asyncio
import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import token_count
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.chat_client import ChatClient
from evalkit.engine.providers.judge_checks import check_headers, check_packages, check_params
from evalkit.engine.providers.openai_replies import json_bytes, problem_of
from evalkit.engine.providers.transport import Answer
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, JudgeError, listed
from evalkit.errors.secrets import Secret, locals_forgotten, without_keys

# What LiteLLM reads from a call beside the model's parameters: these are evalkit's to decide
_NOT_PARAMS = ("timeout", "num_retries", "max_retries", "caching", "cache", "fallbacks", "api_base", "base_url",
               "mock_response", "custom_llm_provider", "drop_params")  # fmt: skip


def _library() -> Any:
    """LiteLLM, without downloading a price list at import, without telemetry and without its advertising output."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import litellm

    litellm.telemetry = False
    litellm.suppress_debug_info = True
    # its own logging dumps every reply by a model that pydantic finds not quite right
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    return litellm


def check(judge: Judge) -> None:
    """Check library, parameters and key, before anything is sent.

    Raises
    ------
    MissingExtraError
        Without litellm.
    ConfigError
        For a parameter that evalkit decides, or a model whose provider LiteLLM does not know.
    JudgeError
        If a variable for an API key is not set, and LiteLLM knows which one it is.
    """
    check_packages("litellm")
    check_params(judge, _NOT_PARAMS)
    check_headers(judge)
    litellm = _library()
    try:
        litellm.get_llm_provider(judge.model, api_base=judge.base_url)
    except litellm.exceptions.BadRequestError:
        raise ConfigError(
            f"litellm does not know the provider of the model {judge.model!r} of judge '{judge.name}'; put the "
            "provider before the model, as in litellm:anthropic/MODEL, or for a server of your own pass "
            "litellm:openai/MODEL and base_url"
        ) from None
    variable = judge.api_key_env
    missing = [variable] if variable and not key_in(variable) else []
    if not variable and not judge.base_url:
        missing = litellm.validate_environment(judge.model)["missing_keys"]
    if missing:
        raise JudgeError(
            f"judge '{judge.name}' needs an API key, but {listed(missing)} is not set in the environment",
            judge=judge.name,
            variable=missing[0],
            advice="set it",
        )


class LiteLLMClient(ChatClient):
    """Sends through ``litellm.acompletion``."""

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """The answer as LiteLLM read it, with the cost that it knows."""
        litellm, judge = _library(), request.judge
        server = {"api_base": judge.base_url} if judge.base_url else {}
        secret_headers = self.headers()
        secret = self.key() if judge.api_key_env else Secret("unset" if judge.base_url else "")
        try:
            with locals_forgotten():
                async with asyncio.timeout(judge.timeout_s):
                    response = await litellm.acompletion(
                        **body, **server, api_key=secret.reveal() or None,
                        extra_headers={name: value.reveal() for name, value in secret_headers.items()} or None,
                        timeout=judge.timeout_s, num_retries=0,
                        max_retries=0, caching=False, drop_params=False,
                    )  # fmt: skip
        except (TimeoutError, litellm.Timeout):
            raise TimeoutError from None
        except Exception as error:  # noqa: BLE001  # what LiteLLM raises has no common class below this one
            raise _problem_of(litellm, error, request, body, secret) from None
        cost = getattr(response, "_hidden_params", {}).get("response_cost")
        # a 0 means that LiteLLM knows no price
        has_price = judge.service != "local" and isinstance(cost, (int, float)) and 0 < cost < math.inf
        return Answer(200, {}, json_bytes(_plain(response)), "litellm", cost_usd=cost if has_price else None)


connect = LiteLLMClient


def _plain(response: Any) -> dict[str, Any]:
    """The parts of an answer that are read, as JSON values."""
    choices = []
    for choice in response.choices:
        message = choice.message
        refusal = (getattr(message, "provider_specific_fields", None) or {}).get("refusal")
        calls = [
            {"function": {"arguments": getattr(getattr(call, "function", None), "arguments", None)}}
            for call in getattr(message, "tool_calls", None) or []
        ]
        fields = {"content": message.content, "refusal": refusal, "tool_calls": calls}
        logprobs: Any = getattr(choice, "logprobs", None)
        logprobs = logprobs.model_dump() if hasattr(logprobs, "model_dump") else logprobs
        choices.append({"finish_reason": choice.finish_reason, "message": fields, "logprobs": logprobs})
    usage = getattr(response, "usage", None)
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    counts: dict[str, Any] = {name: token_count(getattr(usage, name, None)) for name in names}
    details = getattr(usage, "prompt_tokens_details", None)
    counts["cached_tokens"] = token_count(getattr(details, "cached_tokens", None))
    fingerprint = getattr(response, "system_fingerprint", None)
    return {
        "id": response.id, "model": response.model, "system_fingerprint": fingerprint, "choices": choices,
        "usage": counts, "service_tier": getattr(response, "service_tier", None),
    }  # fmt: skip


def _problem_of(
    litellm: Any, error: Exception, request: Request, body: Mapping[str, Any], secret: Secret
) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    message = str(without_keys(secret.hide_in(str(error))[:4000]))  # its shapes are not looked for in megabytes
    message = " ".join(message.encode("utf-8", "replace").decode().split())
    status = getattr(error, "status_code", None)
    cause = error.__cause__ or error.__context__
    if isinstance(error, litellm.APIConnectionError) or (status == 500 and "Connection error" in message):
        return ProviderError("connection", message[:240], maybe_paid="onnect" not in type(cause).__name__)
    if isinstance(error, (litellm.APIResponseValidationError, ValueError)) and status in (None, 200):
        return ProviderError("malformed", message[:240], maybe_paid=True)
    if not isinstance(status, int):
        return ProviderError("client_error", f"{type(error).__name__}: {message}"[:240])
    if status == 500 and not _was_answered(error):  # LiteLLM's word for an answer that it cannot read
        return ProviderError("malformed", message[:240], status=200, maybe_paid=True)
    headers = getattr(error, "litellm_response_headers", None) or getattr(error, "response", None)
    headers = {name.lower(): value for name, value in dict(getattr(headers, "headers", headers) or {}).items()}
    content = orjson.dumps({"error": {"message": message, "param": getattr(error, "param", None)}})
    return problem_of(Answer(status, headers, content, "litellm", "/v1"), request.judge, body, secret)


def _was_answered(error: BaseException) -> bool:
    """Whether a library below LiteLLM received an answer with an error status; LiteLLM invents its own responses."""
    link: BaseException | None = error
    while link is not None:
        answer = None if type(link).__module__.startswith("litellm") else getattr(link, "response", None)
        if isinstance(getattr(answer, "status_code", None), int):
            return True
        link = link.__cause__ or link.__context__
    return False
