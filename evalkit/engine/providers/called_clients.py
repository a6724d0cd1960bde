"""Clients that are called themselves (see `evalkit.core.clients`): evalkit handles retries, caching and costs.

A synchronous client is called in threads, an asynchronous one on the loop of evalkit alone: a pool of connections
belongs to the loop that it was used in first.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from evalkit.core.clients import CREATE, ELSEWHERE, GivenClient, attribute_at
from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.core.threads import in_daemon_thread
from evalkit.engine.providers.chat_client import ChatClient, client_of_loop
from evalkit.engine.providers.judge_checks import check_params
from evalkit.engine.providers.openai_replies import json_bytes
from evalkit.engine.providers.transport import Answer, proxy_of
from evalkit.engine.request import ProviderError, Request
from evalkit.errors import ConfigError, JudgeError
from evalkit.errors.secrets import locals_forgotten, text_of_error

_BUGS = (TypeError, NameError, AttributeError, ImportError, NotImplementedError)
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")
_OTHER_LOOP = ("event loop is closed", "different loop", "different event loop", "handler is closed")
_MOST_LINKS, _READ = 9, 4000


def check(judge: Judge) -> None:
    """Check that a judge of a client can be asked here.

    Raises
    ------
    ConfigError
        For a closed client, or one that retries by itself and cannot be told not to.
    JudgeError
        If the client stayed in another process, and an address and variables do not stand for it.
    """
    if judge.ask in ELSEWHERE:
        _check_elsewhere(judge)
    if judge.given is None or not judge.given.calls:
        return
    check_params(judge)
    is_closed = getattr(judge.given.client, "is_closed", None)
    if callable(is_closed) and is_closed() is True:
        raise ConfigError(f"the client {judge.given!r} of judge '{judge.name}' is closed; pass an open one")
    _without_retries(judge.given, judge.name)


def _check_elsewhere(judge: Judge) -> None:
    url, fact = judge.base_url or PROVIDERS[judge.provider].address, "and no address stands for it"
    remake, variable = "make the judge here with ek.Judge.client", None
    advice = f"{remake}; if the service has an OpenAI-compatible address, pass it there as base_url="
    if judge.ask == ELSEWHERE[0]:
        names = ["HTTPS_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"] if url.startswith("https:") else ["HTTP_PROXY"]
        if proxy_of(url) or any(map(os.environ.get, names[1:])):
            return
        variable = names[0]
        fact = "has an HTTP client of its own (proxy, certificates), and nothing here takes its place"
        advice = f"set {' or '.join(names)}, or {remake}; if {url} can be reached without, remove ask="
    raise JudgeError(
        f"judge '{judge.name}' was made of a client which is not in this process, {fact}",
        judge=judge.name,
        variable=variable,
        advice=advice,
    )


def _without_retries(given: GivenClient, judge: str) -> Any:
    """A client that does not repeat failed calls: the client itself, or a copy that does what it does."""
    retries = getattr(given.client, "max_retries", 0)
    if not isinstance(retries, int) or not retries:
        return given.client
    resource = attribute_at(given.client, CREATE[given.provider][:-1])
    if "create" not in getattr(resource, "__dict__", {}):  # a copy would lose what was put there
        with contextlib.suppress(Exception):  # as for a class whose own `__init__` takes other arguments
            return given.client.with_options(max_retries=0)
    raise ConfigError(
        f"the client {given!r} of judge '{judge}' repeats failed calls itself (max_retries={retries}), which would be "
        "paid beside evalkit's retries; make it with max_retries=0"
    )


def connect(judge: Judge) -> CalledClient:
    """The caller of a judge's client; one of them per event loop."""
    return client_of_loop(CalledClient, judge, judge.base_url or judge.service)


class CalledClient(ChatClient):
    """Calls ``chat.completions.create`` or ``messages.create`` of a client, without its retries."""

    def __init__(self, judge: Judge, url: str) -> None:
        super().__init__(judge)
        assert judge.given is not None
        self._is_native = judge.provider == "anthropic"
        self.supports_n = False if self._is_native else None
        self._origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" if "//" in url else url
        client = _without_retries(judge.given, judge.name)
        self._create: Any = attribute_at(client, CREATE[judge.provider])
        function = inspect.unwrap(self._create)
        self._is_async = any(cls.__name__.startswith("Async") for cls in type(client).__mro__) or any(
            map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None)))  # noqa: B004
        )
        self._names: set[str] = set()
        with contextlib.suppress(TypeError, ValueError):
            self._names = set(inspect.signature(self._create).parameters)

    def price(self, judge: Judge) -> Any:
        """The cost of a call's tokens; None where the answer comes with its cost."""
        return None if self._is_native else super().price(judge)

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """The answer as the client read it; of an error, as it came."""
        judge = request.judge
        if not self._is_native:
            return await self._called(judge, body)
        from evalkit.engine.providers.anthropic import as_completion, native_body, problem_in, version_for

        native = native_body(request, body)
        headers = version_for(native) if "extra_headers" in self._names else {}
        answer = await self._called(judge, native, {"extra_headers": headers} if headers else {})
        if 200 <= answer.status < 300:
            return as_completion(answer, judge)
        raise problem_in(answer, judge, body)

    async def _called(self, judge: Judge, body: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> Answer:
        arguments = {n: v for n, v in body.items() if n in self._names or "extra_body" not in self._names}
        if further := {name: value for name, value in body.items() if name not in arguments}:
            arguments["extra_body"] = further
        if "timeout" in self._names:
            arguments["timeout"] = judge.timeout_s
        arguments |= options or {}
        try:
            with locals_forgotten():
                async with asyncio.timeout(judge.timeout_s):
                    if self._is_async:
                        completion = self._create(**arguments)
                    else:
                        completion = await in_daemon_thread(lambda: self._create(**arguments), f"evalkit {judge.name}")
                    if inspect.isawaitable(completion):
                        completion = await completion
        except Exception as error:  # noqa: BLE001  # of any package
            response = getattr(error, "response", None)
            places = getattr(error, "status_code", None), getattr(response, "status_code", None)
            status = next((code for code in places if isinstance(code, int) and not 200 <= code < 300), None)
            if status is None:
                raise self._problem(error, judge) from None
            headers: Mapping[Any, Any] = getattr(response, "headers", None) or {}
            headers = {str(name).lower(): str(value) for name, value in headers.items()}
            return Answer(status, headers, self._hidden(_content_of(error)), self._origin, "/v1")
        return Answer(200, {}, self._hidden(_bytes_of(completion)), self._origin, "/v1")

    def _hidden(self, content: bytes) -> bytes:
        """An answer without the headers of the client, which some servers echo."""
        for value in self.headers().values():
            content = value.hide_in_bytes(content) if value.is_long else content
        return content

    def _problem(self, error: BaseException, judge: Judge) -> ProviderError:
        links = [error]
        while (cause := links[-1].__cause__ or links[-1].__context__) is not None and len(links) < _MOST_LINKS:
            links.append(cause)
        texts = " ".join(str(link) for link in links if isinstance(link, (RuntimeError, OSError))).lower()
        if self._is_async and any(words in texts for words in _OTHER_LOOP):
            return ProviderError(
                "auth",
                f"the asynchronous client {judge.given!r} of judge '{judge.name}' was used in another event loop, as "
                "by asyncio.run or in a notebook's cell, and its connections belong to that one: give Judge.client a "
                "client that nothing else uses, or a synchronous one",
                maybe_paid=True,
            )
        names = [type(link).__name__ for link in links]
        fact = f"the client {judge.given!r} raised {' from '.join(names)}"
        is_sent = not any(name in _NOT_SENT for name in names)
        if isinstance(error, TimeoutError) or any("Timeout" in name for name in names):
            return ProviderError("timeout", f"no answer from {self._origin} in time ({fact})", maybe_paid=is_sent)
        if isinstance(error, _BUGS):
            return ProviderError("client_error", f"{fact}: {text_of_error(error)}")
        return ProviderError("connection", f"{fact}: {text_of_error(error)}", maybe_paid=is_sent)


def _content_of(error: Any) -> bytes:
    content = getattr(getattr(error, "response", None), "content", None)
    if isinstance(content, bytes):
        return content
    body = getattr(error, "body", None)
    return json_bytes({"error": body if isinstance(body, Mapping) else {"message": str(error)[:_READ]}})


def _bytes_of(completion: Any) -> bytes:
    """What a client returned, as JSON."""
    if isinstance(completion, (str, bytes)):  # what was no JSON
        return completion.encode("utf-8", "replace") if isinstance(completion, str) else completion
    try:
        if callable(dump := getattr(completion, "model_dump", None)):
            return json_bytes(dump(warnings=False))
        dump = getattr(completion, "to_dict", None)
        return json_bytes(dump() if callable(dump) else completion)
    except (TypeError, ValueError) as error:
        raise ProviderError(
            "malformed", f"the client returned {type(completion).__name__}, not a chat completion", maybe_paid=True
        ) from error
