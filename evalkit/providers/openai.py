"""Any OpenAI-compatible server, through the openai client's raw `post`."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
import weakref
from collections.abc import Mapping
from typing import Any

import httpx2
import openai

from evalkit.errors import ConfigError
from evalkit.keys import canonical_json
from evalkit.providers import ProviderError
from evalkit.providers.answers import problem_of, replies_of
from evalkit.providers.prices import price_of
from evalkit.providers.transport import AiohttpTransport
from evalkit.records import Judge, Reply, Request, host_of

__all__ = ["OpenAIClient", "check_params", "close_all", "connect_openai", "request_body"]

OWN_HOST = "api.openai.com"
_OWN_URL = f"https://{OWN_HOST}/v1"
_NOT_PARAMS = ("messages", "model", "n", "stream")

_open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str | None], OpenAIClient]]
_open = weakref.WeakKeyDictionary()


def check_params(judge: Judge) -> None:
    """Raise ConfigError when `judge.params` names something that evalkit itself decides."""
    taken = [name for name in _NOT_PARAMS if name in judge.params]
    if taken:
        raise ConfigError(
            f"params of judge '{judge.name}' must not hold {', '.join(taken)}: evalkit sets them; "
            "for more replies use samples=…"
        )


def connect_openai(judge: Judge) -> OpenAIClient:
    """The client for a judge's server and key variable; one of them per event loop."""
    check_params(judge)
    clients = _open.setdefault(asyncio.get_running_loop(), {})
    place = judge.base_url or _OWN_URL, judge.api_key_env
    if place not in clients:
        clients[place] = OpenAIClient(*place)
    return clients[place]


def _drop_in_child() -> None:
    """A forked child keeps the parent's connections for good, unused.

    Were they collected, even at the child's end, aiohttp would take them out of the selector that both processes
    share, and the parent would wait for ever.
    """
    global _open
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_open))
    _open = weakref.WeakKeyDictionary()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_in_child)


async def close_all() -> None:
    """Close the connections of the running loop's clients."""
    for client in _open.pop(asyncio.get_running_loop(), {}).values():
        await client.aclose()


class OpenAIClient:
    """One server with one key variable.

    The key is read from the environment at each call and kept nowhere. Without a variable no
    ``Authorization`` header is sent at all.
    """

    max_concurrency: int | None = None

    def __init__(self, base_url: str, api_key_env: str | None) -> None:
        own = host_of(base_url) == OWN_HOST
        self.supports_n: bool | None = True if own else None
        self._api_key_env = api_key_env
        # The package would read OPENAI_API_KEY by itself: whatever is given here is replaced in every request
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key="unset",
            max_retries=0,
            http_client=httpx2.AsyncClient(
                transport=AiohttpTransport(), headers={"accept-encoding": "gzip, deflate"}, follow_redirects=False
            ),
        )
        self._headers: dict[str, str | openai.Omit] = {}
        if not own:
            # What the environment says of OpenAI's accounts is not for other hosts
            self._client.organization = self._client.project = None
            self._headers = {name: openai.Omit() for name in _environment_headers()}

    def __repr__(self) -> str:
        return f"OpenAIClient({str(self._client.base_url)!r})"

    def _authorization(self) -> str | openai.Omit:
        if self._api_key_env is None:
            return openai.Omit()
        key = os.environ.get(self._api_key_env, "").strip()
        if not key:
            raise ProviderError("auth", f"the environment variable {self._api_key_env} is not set")
        if not key.isascii() or not key.isprintable():
            raise ProviderError("auth", f"{self._api_key_env} holds characters that no key has")
        return f"Bearer {key}"

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Ask for `n` replies in one request; a `ProviderError` says why there are none."""
        judge = request.judge
        body, sent = request_body(request, n, adapt or {})
        authorization = self._authorization()
        started = time.perf_counter()
        try:
            answer = await self._client.post(
                "/chat/completions",
                cast_to=httpx2.Response,
                content=canonical_json(body),
                options={
                    "headers": {**self._headers, "Authorization": authorization},
                    "timeout": judge.timeout_s,
                },
            )
        except openai.APIError as error:
            raise problem_of(error, request, body, self._secret()) from None
        latency = time.perf_counter() - started
        return replies_of(answer, n, price=price_of(judge), latency_s=latency, sent=sent, secret=self._secret())

    def _secret(self) -> str:
        return os.environ.get(self._api_key_env or "", "").strip()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()


def _environment_headers() -> list[str]:
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    return [line.partition(":")[0].strip() for line in lines if ":" in line]


def request_body(request: Request, n: int, adapt: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The JSON body, and what of it is otherwise than asked for."""
    judge, prompt = request.judge, request.prompt
    asked: dict[str, Any] = {}
    if judge.temperature is not None:
        asked["temperature"] = judge.temperature
    if judge.max_tokens is not None:
        asked["max_tokens"] = judge.max_tokens
    if prompt.form == "json" and prompt.schema is not None:
        schema = {"name": "judgment", "schema": dict(prompt.schema), "strict": True}
        asked["response_format"] = {"type": "json_schema", "json_schema": schema}
    asked |= judge.params
    sent: dict[str, Any] = {}
    for name, other in adapt.items():
        if name in asked:
            value = asked.pop(name)
            sent[name] = None
            if other:
                asked[other] = sent[other] = value
    messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
    body = {"model": judge.model, "messages": messages, **asked}
    if n > 1:
        body["n"] = n
    return body, sent or None
