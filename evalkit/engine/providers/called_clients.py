"""Clients that are called themselves (see `evalkit.core.clients`): evalkit handles retries, caching and costs.

A synchronous client is called in threads, an asynchronous one on the loop of evalkit alone: a pool of connections
belongs to the loop that it was used in first.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from evalkit.core.clients import ELSEWHERE, GivenClient
from evalkit.core.judges import Judge
from evalkit.core.providers import PROVIDERS
from evalkit.engine.providers.chat_client import ChatClient, client_of_loop
from evalkit.engine.providers.judge_checks import check_params
from evalkit.engine.providers.openai_replies import json_bytes
from evalkit.engine.providers.provider_interface import ProblemKind, ProviderError
from evalkit.engine.providers.threads import in_daemon_thread
from evalkit.engine.providers.transport import Answer, proxy_of
from evalkit.engine.request import Request
from evalkit.errors import ConfigError, JudgeError
from evalkit.errors.secrets import locals_forgotten, without_keys

_BUGS = (TypeError, NameError, AttributeError, ImportError, NotImplementedError)
_NOT_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")
_OTHER_LOOP = ("event loop is closed", "different loop", "different event loop", "handler is closed")
_READ, _LONGEST_DETAIL = 4000, 240


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
    url = judge.base_url or PROVIDERS[judge.provider].address
    proxy = f"{urlsplit(url).scheme.upper()}_PROXY"
    if judge.ask == ELSEWHERE[0]:
        certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR"] if url.startswith("https:") else []
        if proxy_of(url) or any(map(os.environ.get, certificates)):
            return
        variables = " or ".join([proxy, *certificates[:1]])
        raise JudgeError(
            f"judge '{judge.name}' was made of a client with an HTTP client of its own (proxy, certificates), which is "
            f"not in this process, and its place is not taken here by {variables}",
            judge=judge.name,
            variable=proxy,
            advice=f"set {variables}, or make the judge here with ek.Judge.client; if {url} can be reached without, "
            "remove ask=",
        )
    raise JudgeError(
        f"judge '{judge.name}' was made of a client which is not in this process and which no address stands for",
        judge=judge.name,
        advice="make the judge here with ek.Judge.client; if the service has an OpenAI-compatible address, pass it to "
        "ek.Judge.client as base_url=, with the variable of its key as api_key_env=",
    )


def _without_retries(given: GivenClient, judge: str) -> Any:
    """A client that does not repeat failed calls: the client itself, or a copy that does what it does."""
    resource = given.client
    for name in given.create[:-1]:
        resource = getattr(resource, "__dict__", {}).get(name)
    retries = getattr(given.client, "max_retries", 0)
    if not isinstance(retries, int) or not retries:
        return given.client
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
        holder: GivenClient = judge.given
        self.supports_n = False if holder.provider == "anthropic" else None
        self._origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" if "//" in url else url
        self._is_async, self._is_native = holder.is_async, holder.provider == "anthropic"
        client = _without_retries(holder, judge.name)
        for name in holder.create:
            client = getattr(client, name)
        self._create: Any = client
        try:
            self._names = set(inspect.signature(client).parameters)
        except (TypeError, ValueError):
            self._names = set()

    def __repr__(self) -> str:
        return f"CalledClient({self._origin!r})"

    def price(self, judge: Judge) -> Any:
        """The cost of a call's tokens; None where the answer comes with its cost."""
        return None if self._is_native else super().price(judge)

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """The answer as the client read it; of an error, as it came."""
        judge = request.judge
        if self._is_native:
            from evalkit.engine.providers.anthropic import as_completion, native_body, problem_in, version_for

            native = native_body(request, body)
            answer = await self._called(judge, native, version_for(native))
            if 200 <= answer.status < 300:
                return as_completion(answer, judge)
            raise problem_in(answer, judge, body)
        return await self._called(judge, body)

    async def _called(self, judge: Judge, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Answer:
        arguments = self._arguments(judge, body)
        if headers and "extra_headers" in self._names:
            arguments["extra_headers"] = headers
        try:
            with locals_forgotten():
                async with asyncio.timeout(judge.timeout_s):
                    if self._is_async:
                        completion = self._create(**arguments)
                    else:
                        completion = await in_daemon_thread(lambda: self._create(**arguments), f"evalkit {judge.name}")
                    if inspect.isawaitable(completion):
                        completion = await completion
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  # SystemExit too: it would end the loop that all judges share
            status, response = _status_of(error), getattr(error, "response", None)
            if status is None:
                raise self._problem(error, judge) from None
            given_headers = dict(getattr(response, "headers", None) or {})
            lower = {str(name).lower(): str(value) for name, value in given_headers.items()}
            return Answer(status, lower, self._hidden(_content_of(error)), self._origin, "/v1")
        return Answer(200, {}, self._hidden(_bytes_of(completion)), self._origin, "/v1")

    def _arguments(self, judge: Judge, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body as arguments: what the function does not name goes into `extra_body`, if it has one."""
        further = {} if "extra_body" not in self._names else {n: v for n, v in body.items() if n not in self._names}
        arguments = {name: value for name, value in body.items() if name not in further}
        if further:
            arguments["extra_body"] = further
        if "timeout" in self._names:
            arguments["timeout"] = judge.timeout_s
        return arguments

    def _hidden(self, content: bytes) -> bytes:
        """An answer without the headers of the client, which some servers echo."""
        for value in self.headers().values():
            content = value.hide_in_bytes(content) if value.is_long else content
        return content

    def _problem(self, error: BaseException, judge: Judge) -> ProviderError:
        links = [*_chain(error)]
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
        fact = f"the client {judge.given!r} raised {names[0]}"
        if isinstance(error, TimeoutError) or any("Timeout" in name for name in names):
            is_sent = not any(name in ("ConnectTimeout", "PoolTimeout") for name in names)
            return ProviderError("timeout", f"no answer from {self._origin} in time ({fact})", maybe_paid=is_sent)
        text = " ".join(str(without_keys(str(error)[:_READ])).split())[:_LONGEST_DETAIL]
        cause = f" ({', '.join(names[1:])})" if names[1:] else ""
        kind: ProblemKind = "client_error" if isinstance(error, _BUGS) else "connection"
        is_sent = kind == "connection" and not any(name in _NOT_SENT for name in names)
        return ProviderError(kind, f"{fact}{cause}: {text}", maybe_paid=is_sent)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes."""
    done: set[int] = set()
    while error is not None and id(error) not in done:
        done.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _status_of(error: BaseException) -> int | None:
    """The HTTP status of an error of a client; None if no answer came, or one that cannot be read."""
    response = getattr(error, "response", None)
    for status in (getattr(error, "status_code", None), getattr(response, "status_code", None)):
        if isinstance(status, int) and not 200 <= status < 300:
            return status
    return None


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
        if callable(dump := getattr(completion, "to_dict", None)):
            return json_bytes(dump())
        return json_bytes(completion)
    except (TypeError, ValueError) as error:
        raise ProviderError(
            "malformed", f"the client returned {type(completion).__name__}, not a chat completion", maybe_paid=True
        ) from error
