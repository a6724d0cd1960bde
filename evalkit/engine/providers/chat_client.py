"""What all clients of chat completions share: the body of a request, and the way from an answer to replies."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply, Request
from evalkit.engine.providers.api_keys import key_in
from evalkit.engine.providers.openai_replies import problem_of, replies_of, without_prompt
from evalkit.engine.providers.prices import price_of
from evalkit.engine.providers.provider_interface import ProviderError
from evalkit.engine.providers.transport import Answer, proxy_of
from evalkit.errors import EvalkitError
from evalkit.errors.secrets import Secret

_OTHER_FILES = 32
_Client = TypeVar("_Client", bound="ChatClient")
_Place = tuple[object, ...]
_open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Place, ChatClient]]
_open = weakref.WeakKeyDictionary()


class ChatClient:
    """Sends chat completions with the key of one environment variable; `answer` says how.

    The key is looked up at each call and not kept here.
    """

    supports_n: bool | None = None

    def __init__(self, judge: Judge) -> None:
        self._api_key_env = judge.api_key_env

    @property
    def max_concurrency(self) -> int | None:
        """So many connections as files may be opened yet, less some for the rest of the process; None: no limit."""
        try:
            import resource

            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            free = most - len(os.listdir("/dev/fd"))  # noqa: PTH208  # its entries are files that are open now
        except (ImportError, OSError):
            return None
        return None if most == resource.RLIM_INFINITY else max(1, free - _OTHER_FILES)

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """Send a body; what the server answered, of whatever status."""
        raise NotImplementedError

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Request `n` replies at once; a `ProviderError` says why there are none."""
        body, sent = request_body(request, n, adapt or {})
        started = time.perf_counter()
        try:
            answer = await self.answer(request, body)
            latency = time.perf_counter() - started
            if not 200 <= answer.status < 300:
                raise problem_of(answer, request.judge, body, key_in(self._api_key_env))
            price, secret = self.price(request.judge), key_in(self._api_key_env)
            return replies_of(answer, n, price=price, latency_s=latency, sent=sent, secret=secret)
        except TimeoutError:
            raise ProviderError("timeout", f"no answer within {request.judge.timeout_s:g} s", maybe_paid=True) from None
        except ProviderError as problem:
            problem.detail = without_prompt(problem.detail, request.prompt)  # servers like to repeat it
            raise
        except EvalkitError:
            raise
        except Exception as error:  # an answer that cannot be read, in whatever way, costs this call alone
            detail = f"the answer could not be read ({type(error).__name__})"
            raise ProviderError("malformed", detail, maybe_paid=True) from error

    def price(self, judge: Judge) -> tuple[float, float] | None:
        """Prices as `price_of`; None where the answer comes with its cost."""
        return price_of(judge)

    async def aclose(self) -> None:
        """Close the connections."""

    def key(self) -> Secret:
        """The key; a `ProviderError` if there is none, or none that a header can hold."""
        key = key_in(self._api_key_env)
        if not key:
            raise ProviderError("auth", f"the environment variable {self._api_key_env} is not set")
        if not key.is_sendable:
            raise ProviderError(
                "auth", f"the environment variable {self._api_key_env} contains characters other than printable ASCII"
            )
        return key


def client_of_loop(make: Callable[[Judge, str], _Client], judge: Judge, url: str) -> _Client:
    """The client for a judge's server and key variable; one of them per event loop.

    Proxy and certificates are those that the environment names now.
    """
    clients, look = _open.setdefault(asyncio.get_running_loop(), {}), os.environ.get
    place = make, url, judge.api_key_env, proxy_of(url), look("SSL_CERT_FILE"), look("SSL_CERT_DIR")
    if place not in clients:
        clients[place] = make(judge, url)
    return clients[place]  # type: ignore[return-value]


def _drop_in_child() -> None:
    """A forked child keeps the parent's connections permanently, unused.

    If they were garbage-collected, even at the child's end, they would be removed from the selector that both
    processes share, and the parent would wait forever.
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


def request_body(request: Request, n: int, adapt: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The JSON body, and what of it is otherwise than asked for."""
    judge, prompt = request.judge, request.prompt
    settings: dict[str, Any] = {"temperature": judge.temperature, "max_tokens": judge.max_tokens}
    asked = {name: value for name, value in settings.items() if value is not None}
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
