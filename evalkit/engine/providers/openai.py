"""Any OpenAI-compatible server, called with aiohttp.

The openai client is not used: it takes half a second to import, and more CPU per call than everything else together.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Mapping
from types import MappingProxyType
from typing import Any, BinaryIO
from urllib.parse import urlsplit

import orjson
from aiohttp import FormData

from evalkit._version import __version__
from evalkit.core.clients import ACCOUNTS
from evalkit.core.judge_field_checks import host_of
from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.chat_client import ChatClient, client_of_loop
from evalkit.engine.providers.judge_checks import check_key, check_params
from evalkit.engine.providers.transport import Answer, Transport
from evalkit.engine.request import Request
from evalkit.errors.secrets import Secret

OWN_HOST = PROVIDERS["openai"].host
_AZURE_HOST = re.compile(r"\.azure\.(?:com|us|cn)$")
_CUSTOM_HEADERS = {OWN_HOST: "OPENAI_CUSTOM_HEADERS", PROVIDERS["anthropic"].host: "ANTHROPIC_CUSTOM_HEADERS"}
_SET_ELSEWHERE = ("host", "connection", "content-length", "content-type", "authorization", "accept-encoding")


def check(judge: Judge) -> None:
    """Check key and parameters."""
    check_key(judge)
    check_params(judge)


def connect(judge: Judge) -> OpenAIClient:
    """The client for a judge's server and key variable; one of them per event loop.

    Proxy and certificates are those that the environment names now.
    """
    check_params(judge)
    url = judge.base_url or PROVIDERS["openai"].address
    return client_of_loop(OpenAIClient, judge, url)


class OpenAIClient(ChatClient):
    """One server with one key variable.

    Without a variable no ``Authorization`` header is sent at all.
    """

    def __init__(self, judge: Judge, base_url: str) -> None:
        super().__init__(judge)
        self.supports_n = True if host_of(base_url) == OWN_HOST else None
        self._base_url = base_url
        self._transport = Transport(base_url)
        self._headers = _headers_for(base_url)
        self._is_azure = is_azure(base_url)

    def __repr__(self) -> str:
        return f"OpenAIClient({self._base_url!r})"

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """Send a chat completion."""
        return await self.send("/chat/completions", orjson.dumps(body), timeout_s=request.judge.timeout_s)

    async def send(
        self,
        path: str,
        body: bytes | FormData | AsyncIterator[bytes] | None,
        *,
        timeout_s: float,
        method: str = "POST",
        to: BinaryIO | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Answer:
        """Send one request with this client's headers and key; a `ProviderError` says why there is no answer."""
        key, headers = await self.sent_key(), {**self._headers, **headers}
        if isinstance(body, FormData):  # it has a content type of its own
            headers = {name: value for name, value in headers.items() if name != "content-type"}
        if to is not None:
            headers = headers | {"accept-encoding": "identity"}
        names = ("authorization",) if key is None or not self._is_azure else _key_headers(key, self._base_url)
        if self._given is not None and self._given.key():
            names = (self._given.key_header,)
        return await self._transport.send(
            path,
            headers,
            body,
            key=key,
            key_headers=names,
            own=self.headers(),
            timeout_s=timeout_s,
            method=method,
            to=to,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def with_version(base_url: str) -> str:
    """An address with ``/v1`` at its end, which it may have already, also before the path of chat completions."""
    path, mark, query = base_url.partition("?")
    return f"{path.rstrip('/').removesuffix('/chat/completions').removesuffix('/v1')}/v1{mark}{query}"


def is_azure(base_url: str) -> bool:
    """Whether an address is one of Azure, or of a gateway that speaks as Azure does."""
    return bool(_AZURE_HOST.search(host_of(base_url))) or "api-version=" in urlsplit(base_url).query


def _key_headers(key: Secret, base_url: str) -> tuple[str, ...]:
    """The headers that hold a key at Azure: ``api-key``, but a token of Entra goes where all others go.

    A host that is not Azure's own gets both.
    """
    if key.is_web_token:
        return ("authorization",)
    return ("api-key",) if _AZURE_HOST.search(host_of(base_url)) else ("api-key", "authorization")


def _headers_for(base_url: str) -> dict[str, str]:
    """The headers of each request, without the key; accounts and custom headers are for the providers' own hosts."""
    headers = {
        "accept": "application/json",
        "accept-encoding": "gzip, deflate",
        "content-type": "application/json",
        "user-agent": f"evalkit/{__version__}",
    }
    if (host := host_of(base_url)) in _CUSTOM_HEADERS:
        variables = ACCOUNTS if host == OWN_HOST else {}
        accounts = {name: os.environ.get(variable, "") for name, variable in variables.items()}
        lines = os.environ.get(_CUSTOM_HEADERS[host], "").split("\n")
        custom = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        headers |= {
            name: value for name, value in (accounts | custom).items() if name and value and name not in _SET_ELSEWHERE
        }
    return headers
