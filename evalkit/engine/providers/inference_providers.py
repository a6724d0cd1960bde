"""Hugging Face's inference providers, by huggingface_hub's async client (1.x speaks httpx, 2.x httpx2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, Request
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.client import ProblemKind, ProviderError
from evalkit.engine.providers.judge_checks import check_extra, check_key, check_params
from evalkit.engine.providers.openai import request_body
from evalkit.engine.providers.openai_replies import problem_of, replies_of, without_prompt
from evalkit.engine.providers.prices import price_of
from evalkit.engine.providers.transport import Answer
from evalkit.errors.secrets import Secret, forget_locals

_ROUTER = "https://router.huggingface.co"
# Parameters that the client has by name; all others travel in `extra_body`
_NAMED = (
    "messages", "model", "temperature", "max_tokens", "n", "response_format", "top_p", "seed", "stop", "logprobs",
    "top_logprobs", "frequency_penalty", "presence_penalty", "logit_bias",
)  # fmt: skip


def check(judge: Judge) -> None:
    """Check library, parameters and token, before anything is sent.

    Raises
    ------
    MissingExtraError
        Without huggingface_hub.
    JudgeError
        When the variable that holds the token is not set.
    """
    check_extra("inference-providers", "huggingface_hub")
    check_params(judge)
    check_key(judge)
    import huggingface_hub  # noqa: F401  # loaded here, in the caller's thread: it takes a second


def connect(judge: Judge) -> InferenceProvidersClient:
    """The client of a judge behind the router, or at the address of an endpoint of one's own."""
    check_extra("inference-providers", "huggingface_hub")
    return InferenceProvidersClient(judge)


class InferenceProvidersClient:
    """Asks through ``AsyncInferenceClient.chat_completion``."""

    supports_n: bool | None = None
    max_concurrency: int | None = None

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Ask for `n` replies in one request; a `ProviderError` says why there are none."""
        body, sent = request_body(request, n, adapt or {})
        started = time.perf_counter()
        try:
            content = await self._send(request, body)
            latency = time.perf_counter() - started
            answer = Answer(200, {}, content, self._origin)
            secret = key_in(self._judge.api_key_env)
            return replies_of(answer, n, price=price_of(request.judge), latency_s=latency, sent=sent, secret=secret)
        except ProviderError as problem:
            problem.detail = without_prompt(problem.detail, request.prompt)
            raise

    @property
    def _origin(self) -> str:
        parts = urlsplit(self._judge.base_url or _ROUTER)
        return f"{parts.scheme}://{parts.netloc}"

    def _token(self) -> Secret:
        name = self._judge.api_key_env
        if name is None:
            return Secret("unset")  # without one, the library would send the token that it finds on this machine
        token = key_in(name)
        if not token:
            raise ProviderError("auth", f"the environment variable {name} is not set")
        return token

    async def _send(self, request: Request, body: Mapping[str, Any]) -> bytes:
        from huggingface_hub import AsyncInferenceClient, InferenceTimeoutError
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.utils import httpx

        judge, token = self._judge, self._token()
        where: dict[str, Any] = {"base_url": judge.base_url} if judge.base_url else {"provider": "auto"}
        try:
            async with asyncio.timeout(judge.timeout_s):
                answer = await _completion(AsyncInferenceClient, judge, token, where, body)
            return orjson.dumps(answer)
        except (TimeoutError, InferenceTimeoutError, httpx.TimeoutException):
            raise ProviderError("timeout", f"no answer within {judge.timeout_s:g} s", maybe_paid=True) from None
        except HfHubHTTPError as error:
            answer_ = error.response
            headers = {name.lower(): value for name, value in answer_.headers.items()}
            found = Answer(answer_.status_code, headers, answer_.content, self._origin, "/v1/chat/completions")
            raise problem_of(found, request, body, token) from None
        except httpx.HTTPError as error:
            paid = not isinstance(error, httpx.ConnectError)
            raise ProviderError("connection", f"{type(error).__name__} at {self._origin}", maybe_paid=paid) from None
        except (KeyError, TypeError, AttributeError, RecursionError, orjson.JSONDecodeError) as error:
            detail = f"the answer is not a chat completion ({type(error).__name__})"
            raise ProviderError("malformed", detail, maybe_paid=True) from None
        except ValueError as error:  # the library refuses the token or the answer
            kind: ProblemKind = (
                "auth" if "api_key" in str(error).lower() or "auto-router" in str(error) else "malformed"
            )
            raise ProviderError(kind, token.hide_in(str(error))[:240], maybe_paid=kind == "malformed") from None


async def _completion(
    client_class: Any, judge: Judge, token: Secret, where: Mapping[str, Any], body: Mapping[str, Any]
) -> Any:
    try:
        async with client_class(**where, api_key=token.reveal(), timeout=judge.timeout_s) as client:
            return await client.chat_completion(**_arguments(judge, body))
    except BaseException as error:
        forget_locals(error)
        raise


def _arguments(judge: Judge, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as arguments; the provider goes to the router with the model's name, which saves a look-up of the hub.

    That look-up would be a blocking request.
    """
    given = dict(body)
    provider = given.pop("hf_provider", None)
    if provider and provider != "auto" and not judge.base_url:
        given["model"] = f"{given['model']}:{provider}"
    arguments = {name: given.pop(name) for name in _NAMED if name in given}
    return arguments | {"extra_body": given} if given else arguments
