"""Any provider that LiteLLM speaks to: it sends, evalkit retries, keeps and counts."""

from __future__ import annotations

import asyncio
import math
import os
import time
import warnings
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, Request, token_count
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.client import ProviderError
from evalkit.engine.providers.judge_checks import check_extra, check_params
from evalkit.engine.providers.openai import request_body
from evalkit.engine.providers.openai_replies import problem_of, replies_of, without_prompt
from evalkit.engine.providers.prices import price_of
from evalkit.engine.providers.transport import Answer
from evalkit.errors import ConfigError, JudgeError, listed
from evalkit.errors.secrets import Secret, forget_locals, without_keys

# What LiteLLM reads from a call beside the model's parameters: these are evalkit's to decide
_NOT_PARAMS = ("timeout", "num_retries", "max_retries", "caching", "cache", "fallbacks", "api_base", "base_url",
               "mock_response", "custom_llm_provider", "drop_params")  # fmt: skip


def _library() -> Any:
    """LiteLLM without its fetch of a price list at import, its telemetry and its advertising prints."""
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
        When a variable that holds a key is not set, where LiteLLM can tell which one it is.
    """
    check_extra("litellm", "litellm")
    check_params(judge, _NOT_PARAMS)
    litellm = _library()
    try:
        litellm.get_llm_provider(judge.model, api_base=judge.base_url)
    except litellm.exceptions.BadRequestError:
        raise ConfigError(
            f"litellm does not know whose model {judge.model!r} of judge '{judge.name}' is; put the provider before "
            "it, as in litellm:anthropic/MODEL, or openai/MODEL with base_url"
        ) from None
    named = judge.api_key_env
    if named:
        missing = [] if key_in(named) else [named]
    elif judge.base_url:
        missing = []
    else:
        missing = litellm.validate_environment(judge.model)["missing_keys"]
    if missing:
        raise JudgeError(
            f"judge '{judge.name}' needs a key and {listed(missing)} is not set in the environment; set it"
        )


def connect(judge: Judge) -> LiteLLMClient:
    """The client of a judge that LiteLLM asks."""
    check_extra("litellm", "litellm")
    return LiteLLMClient(judge)


class LiteLLMClient:
    """Asks through ``litellm.acompletion``."""

    supports_n: bool | None = None
    max_concurrency: int | None = None

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Ask for `n` replies in one request; a `ProviderError` says why there are none."""
        litellm, judge = _library(), request.judge
        body, sent = request_body(request, n, adapt or {})
        secret = key_in(judge.api_key_env)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(judge.timeout_s):
                response = await _completion(litellm, judge, secret, body)
        except (TimeoutError, litellm.Timeout):
            raise ProviderError("timeout", f"no answer within {judge.timeout_s:g} s", maybe_paid=True) from None
        except Exception as error:  # noqa: BLE001  # what LiteLLM raises has no common class below this one
            problem = _problem_of(litellm, error, request, body, secret)
            problem.detail = without_prompt(problem.detail, request.prompt)
            raise problem from None
        latency = time.perf_counter() - started
        try:
            answer = Answer(200, {}, orjson.dumps(_plain(response)), "litellm")
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            detail = f"the answer is not a chat completion ({type(error).__name__})"
            raise ProviderError("malformed", detail, maybe_paid=True) from None
        replies = replies_of(answer, n, price=price_of(judge), latency_s=latency, sent=sent, secret=secret)
        return _priced(replies, response, judge)


async def _completion(litellm: Any, judge: Judge, secret: Secret, body: Mapping[str, Any]) -> Any:
    try:
        return await litellm.acompletion(
            **body, **_place(judge, secret), timeout=judge.timeout_s, num_retries=0, max_retries=0,
            caching=False, drop_params=False,
        )  # fmt: skip
    except BaseException as error:
        forget_locals(error)
        raise


def _plain(response: Any) -> dict[str, Any]:
    """The parts of an answer that are read, as JSON values."""
    choices = []
    for choice in response.choices:
        message = choice.message
        refusal = (getattr(message, "provider_specific_fields", None) or {}).get("refusal")
        fields = {"content": message.content, "refusal": refusal}
        choices.append({"finish_reason": choice.finish_reason, "message": fields})
    usage = getattr(response, "usage", None)
    counts = {name: token_count(getattr(usage, name, None)) for name in ("prompt_tokens", "completion_tokens")}
    return {"model": response.model, "choices": choices, "usage": counts}


def _place(judge: Judge, secret: Secret) -> dict[str, str]:
    """Address and key; without a named key none that LiteLLM finds in the environment goes to another host."""
    place = {"api_base": judge.base_url} if judge.base_url else {}
    if judge.api_key_env:
        if not secret:
            raise ProviderError("auth", f"the environment variable {judge.api_key_env} is not set")
        return place | {"api_key": secret.reveal()}
    return place | {"api_key": "unset"} if judge.base_url else place


def _priced(replies: list[Reply], response: Any, judge: Judge) -> list[Reply]:
    """LiteLLM's own cost, split evenly, where evalkit knows none; a 0 of it means that it knows none either."""
    from dataclasses import replace

    cost = getattr(response, "_hidden_params", {}).get("response_cost")
    if not isinstance(cost, (int, float)) or not 0 < cost < math.inf:
        return replies
    if judge.service == "local" or any(reply.cost_usd is not None for reply in replies):
        return replies
    return [replace(reply, cost_usd=float(cost) / len(replies)) for reply in replies]


def _problem_of(
    litellm: Any, error: Exception, request: Request, body: Mapping[str, Any], secret: Secret
) -> ProviderError:
    if isinstance(error, ProviderError):
        return error
    said = str(without_keys(secret.hide_in(str(error))[:4000]))  # its shapes are not looked for in megabytes
    said = " ".join(said.encode("utf-8", "replace").decode().split())
    status = getattr(error, "status_code", None)
    cause = error.__cause__ or error.__context__
    if isinstance(error, litellm.APIConnectionError) or (status == 500 and "Connection error" in said):
        return ProviderError("connection", said[:240], maybe_paid="onnect" not in type(cause).__name__)
    if isinstance(error, (litellm.APIResponseValidationError, ValueError)) and status in (None, 200):
        return ProviderError("malformed", said[:240], maybe_paid=True)
    if not isinstance(status, int):
        return ProviderError("client_error", f"{type(error).__name__}: {said}"[:240])
    if status == 500 and not _was_answered(error):  # LiteLLM's word for an answer that it cannot read
        return ProviderError("malformed", said[:240], status=200, maybe_paid=True)
    headers = getattr(error, "litellm_response_headers", None) or getattr(error, "response", None)
    headers = {name.lower(): value for name, value in dict(getattr(headers, "headers", headers) or {}).items()}
    content = orjson.dumps({"error": {"message": said, "param": getattr(error, "param", None)}})
    problem = problem_of(Answer(status, headers, content, "litellm", "/v1"), request, body, secret)
    if request.judge.base_url is None:
        problem.detail = problem.detail.removesuffix(" (no key was sent: api_key_env names none)")
    return problem


def _was_answered(error: BaseException) -> bool:
    """Whether a library below LiteLLM saw an answer with an error's status: LiteLLM's own responses are made up."""
    link: BaseException | None = error
    while link is not None:
        answer = None if type(link).__module__.startswith("litellm") else getattr(link, "response", None)
        if isinstance(getattr(answer, "status_code", None), int):
            return True
        link = link.__cause__ or link.__context__
    return False
