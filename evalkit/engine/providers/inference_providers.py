"""Hugging Face's inference providers, by huggingface_hub's async client (1.x speaks httpx, 2.x httpx2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from evalkit.core.judges import Judge
from evalkit.engine.providers.chat_client import ChatClient
from evalkit.engine.providers.judge_checks import check_key, check_packages, check_params
from evalkit.engine.providers.openai_replies import json_bytes
from evalkit.engine.providers.provider_interface import ProblemKind, ProviderError
from evalkit.engine.providers.transport import Answer, unreached_words
from evalkit.engine.request import Request
from evalkit.errors.secrets import Secret, locals_forgotten

_ROUTER = "https://router.huggingface.co"
# The library rewrites the schema for some servers; all other parameters are sent as they are, in `extra_body`
_NAMED = ("messages", "model", "response_format")


def check(judge: Judge) -> None:
    """Check library, parameters and token, before anything is sent.

    Raises
    ------
    MissingExtraError
        Without huggingface_hub.
    JudgeError
        When the variable that holds the token is not set.
    """
    check_packages("inference-providers")
    check_params(judge)
    check_key(judge)
    import huggingface_hub  # noqa: F401  # loaded here, in the caller's thread: it takes a second


class InferenceProvidersClient(ChatClient):
    """Sends through ``AsyncInferenceClient.chat_completion``."""

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """The answer as huggingface_hub read it."""
        from huggingface_hub import AsyncInferenceClient, InferenceTimeoutError
        from huggingface_hub.errors import HfHubHTTPError
        from huggingface_hub.utils import httpx

        judge = request.judge
        # without a token, the library would send the one that it finds on this machine
        token = self.key() if self._api_key_env else Secret("unset")
        server: dict[str, Any] = {"base_url": judge.base_url} if judge.base_url else {"provider": "auto"}
        url = urlsplit(judge.base_url or _ROUTER)
        origin = f"{url.scheme}://{url.netloc}"
        try:
            with locals_forgotten():
                async with (
                    asyncio.timeout(judge.timeout_s),
                    AsyncInferenceClient(
                        **server,
                        api_key=token.reveal(),
                        timeout=judge.timeout_s,
                        headers={name: value.reveal() for name, value in self.headers().items()},
                    ) as client,
                ):
                    completion = await client.chat_completion(**_arguments(judge, body))
        except (InferenceTimeoutError, httpx.TimeoutException):
            raise TimeoutError from None
        except HfHubHTTPError as error:
            response = error.response
            headers = {name.lower(): value for name, value in response.headers.items()}
            return Answer(response.status_code, headers, response.content, origin, "/v1/chat/completions")
        except httpx.HTTPError as error:
            paid = not isinstance(error, httpx.ConnectError)
            why = unreached_words(error, origin)
            raise ProviderError("connection", f"request to {origin} failed: {why}", maybe_paid=paid) from None
        except ValueError as error:  # the library refuses the token or the answer
            refuses_key = "api_key" in str(error).lower() or "auto-router" in str(error)
            kind: ProblemKind = "auth" if refuses_key else "malformed"
            raise ProviderError(kind, token.hide_in(str(error))[:240], maybe_paid=not refuses_key) from None
        return Answer(200, {}, json_bytes(completion), origin)


connect = InferenceProvidersClient


def _arguments(judge: Judge, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as arguments. The provider is sent with the model's name, which avoids a blocking look-up at the hub."""
    arguments = dict(body)
    provider = arguments.pop("hf_provider", None)
    if provider and provider != "auto" and not judge.base_url:
        arguments["model"] = f"{arguments['model']}:{provider}"
    return {name: arguments.pop(name) for name in _NAMED if name in arguments} | {"extra_body": arguments}
