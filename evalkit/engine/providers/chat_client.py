"""What all clients of chat completions share: the body of a request, and the way from an answer to replies."""

from __future__ import annotations

import asyncio
import ctypes
import inspect
import os
import re
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from evalkit.core.clients import GivenClient
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Prompt, Reply, without_system
from evalkit.core.reply_keys import params_of_sample
from evalkit.core.threads import in_daemon_thread
from evalkit.engine.providers.api_keys import headers_of, key_in, key_of
from evalkit.engine.providers.error_answers import JSON_OBJECT, SYSTEM_ROLE
from evalkit.engine.providers.openai_replies import problem_of, replies_of, without_prompt
from evalkit.engine.providers.prices import Tokens, cost_of_call
from evalkit.engine.providers.transport import Answer, proxy_of
from evalkit.engine.request import ProblemKind, ProviderError, Request, parameters_of_user
from evalkit.errors import EvalkitError
from evalkit.errors.secrets import Secret, locals_forgotten, text_of_error, watch_key

_OTHER_FILES = 32
_LIMIT = re.compile(r"max_(?:\w+_)?(?:completion|output|new)_tokens")
_Client = TypeVar("_Client", bound="ChatClient")
_Place = tuple[object, ...]
_open: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Place, ChatClient]]
_open = weakref.WeakKeyDictionary()


class ChatClient:
    """Sends chat completions with the key of one environment variable, or of one client; `answer` says how.

    The key is looked up at each call and not kept here.
    """

    supports_n: bool | None = None
    own_concurrency: int | None = None

    def __init__(self, judge: Judge) -> None:
        self._judge, self._api_key_env, self._given = judge, judge.api_key_env, judge.given

    def stop(self) -> None:
        """A call that was sent is under way."""

    @property
    def max_concurrency(self) -> int | None:
        """So many connections as files may be opened yet, less some for the rest of the process; None: no limit."""
        try:
            import resource

            limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            free = limit - len(os.listdir("/dev/fd"))  # noqa: PTH208  # its entries are files that are open now
        except (ImportError, OSError):
            return None
        return None if limit == resource.RLIM_INFINITY else max(1, free - _OTHER_FILES)

    async def answer(self, request: Request, body: Mapping[str, Any]) -> Answer:
        """Send a body; what the server answered, of whatever status."""
        raise NotImplementedError

    async def ask(self, request: Request, n: int, *, adapt: Mapping[str, Any] | None = None) -> list[Reply]:
        """Request `n` replies at once; a `ProviderError` says why there are none."""
        body, sent = self.body(request, n, adapt or {})
        started = time.perf_counter()
        try:
            answer = await self.answer(request, body)
            latency = time.perf_counter() - started
            if not 200 <= answer.status < 300:
                raise self.problem(answer, request, body)
            replies = self.replies(answer, request, n, latency_s=latency, sent=sent, body=body)
            counts = [reply.prompt_tokens for reply in replies]
            total = None if None in counts else sum(count or 0 for count in counts)
            if total and request.prompt.is_cut_at(total):
                replies = [replace(reply, prompt_cut=True) for reply in replies]
            return replies
        except TimeoutError:
            raise ProviderError("timeout", f"no answer within {request.judge.timeout_s:g} s", maybe_paid=True) from None
        except ProviderError as problem:
            problem.detail = without_prompt(problem.detail, request.prompt)  # servers like to repeat it
            raise
        except EvalkitError:
            raise
        except Exception as error:  # an answer that cannot be read, in whatever way, costs this call alone
            raise ProviderError(
                "malformed", f"the answer could not be read ({type(error).__name__})", maybe_paid=True
            ) from error

    def body(self, request: Request, n: int, adapt: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """What to send, and what of it is otherwise than asked for."""
        return request_body(request, n, adapt)

    def problem(self, answer: Answer, request: Request, body: Mapping[str, Any]) -> ProviderError:
        """The error of an answer with an error status."""
        return problem_of(answer, request.judge, body, key_of(request.judge))

    def replies(
        self, answer: Answer, request: Request, n: int, *, latency_s: float, sent: Any, body: Mapping[str, Any]
    ) -> list[Reply]:
        """The replies in a good answer."""
        judge = request.judge
        return replies_of(
            answer, n, price=self.price(judge), latency_s=latency_s, sent=sent, secret=key_of(judge), judge=judge,
            body=body,
        )  # fmt: skip

    def price(self, judge: Judge) -> Callable[[Tokens], float | None] | None:
        """The cost of a call's tokens; None where the answer comes with its cost."""
        return partial(cost_of_call, judge)

    def headers(self) -> dict[str, Secret]:
        """The headers of the client, or in the judge's variable; a `ProviderError` if it is not set."""
        headers = headers_of(self._judge)
        if self._judge.headers_env and not headers:
            raise ProviderError("auth", f"the environment variable {self._judge.headers_env} contains no headers")
        return headers

    async def aclose(self) -> None:
        """Close the connections."""

    async def sent_key(self) -> Secret | None:
        """The key for one call; None if none is sent. A client's function that returns keys is asked each time."""
        if self._given is not None:
            if self._given.fetch_key is not None:
                await fetch_key(self._given)
            if key := self._given.key():
                return self._sendable(key, f"the key of the client {self._given!r}")
        return self.key() if self._api_key_env else None

    def key(self) -> Secret:
        """The key; a `ProviderError` if there is none, or none that a header can hold."""
        key = key_in(self._api_key_env)
        if not key:
            raise ProviderError("auth", f"the environment variable {self._api_key_env} is not set")
        return self._sendable(key, f"the environment variable {self._api_key_env}")

    @staticmethod
    def _sendable(key: Secret, whose: str) -> Secret:
        if not key.is_sendable:
            raise ProviderError("auth", f"{whose} contains characters other than printable ASCII")
        return key


def client_of_loop(make: Callable[[Judge, str], _Client], judge: Judge, url: str) -> _Client:
    """The client for a judge's server and key variable; one of them per event loop.

    Proxy and certificates are those that the environment names now.
    """
    clients, look = _open.setdefault(asyncio.get_running_loop(), {}), os.environ.get
    of_judge = judge.api_key_env, judge.headers_env, judge.given
    key = make, url, *of_judge, proxy_of(url), look("SSL_CERT_FILE"), look("SSL_CERT_DIR")
    if key not in clients:
        clients[key] = make(judge, url)
    return clients[key]  # type: ignore[return-value]


async def fetch_key(given: GivenClient) -> None:
    """Ask a client's function for the key of the next call; a `ProviderError` if it returns none.

    A synchronous one runs in a thread: it may sign in over the network.
    """
    fetch: Any = given.fetch_key
    who = f"the function that returns the key of the client {given!r}"
    try:
        with locals_forgotten():
            value = fetch() if inspect.iscoroutinefunction(fetch) else await in_daemon_thread(fetch, "evalkit key")
            key = Secret.of(await value if inspect.isawaitable(value) else value)
            del value
    except Exception as error:  # noqa: BLE001  # of any function
        kind: ProblemKind = "auth" if isinstance(error, (TypeError, NameError)) else "connection"
        raise ProviderError(kind, f"{who} raised {type(error).__name__}: {text_of_error(error)}") from None
    if not isinstance(key, Secret) or not key or not key.is_sendable:
        value_text = "a text that no header can hold" if isinstance(key, Secret) else type(key).__name__
        raise ProviderError("auth", f"{who} returned {value_text}, not a key")
    if key != given.last_key:
        watch_key(key, instead_of=given.last_key)
    given.last_key = key


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


def sent_images(prompt: Prompt) -> list[tuple[str, dict[str, str]]]:
    """The images of a prompt, each with its number as a text; a `ProviderError` if one is gone."""
    try:
        return [(f"image {number}:", image.sent) for number, image in enumerate(prompt.images, 1)]
    except OSError as problem:
        raise ProviderError("client_error", f"an image cannot be sent: {problem}") from None


def _attach_images(chat: list[dict[str, Any]], prompt: Prompt) -> None:
    """Put the images of a prompt below the text of the first message of the user."""
    first = next(message for message in chat if message["role"] == "user")
    first["content"] = [{"type": "text", "text": first["content"]}]
    for label, image in sent_images(prompt):
        first["content"] += [{"type": "text", "text": label}, {"type": "image_url", "image_url": image}]


def request_body(request: Request, n: int, adapt: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The JSON body, and what of it is otherwise than asked for; `adapt` as for `Client.ask`."""
    judge, prompt = request.judge, request.prompt
    messages = prompt.messages
    settings: dict[str, Any] = {"temperature": judge.temperature, "max_tokens": judge.max_tokens}
    fields = {name: value for name, value in settings.items() if value is not None}
    if prompt.form == "json" and prompt.schema is not None:
        schema = {"name": "judgment", "schema": dict(prompt.schema), "strict": True}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    fields |= params_of_sample(judge.provider, judge.params, request.samples[0])
    sent, user_set = dict[str, Any](), parameters_of_user(judge)
    for name, replacement in adapt.items():
        if name == SYSTEM_ROLE and messages[0].role == "system":
            sent[name] = None
            messages = tuple(without_system(messages)) if len(messages) > 1 else (Message("user", messages[0].content),)
        elif name in fields and name != "n" and name not in user_set:
            value = fields.pop(name)
            sent[name] = None
            if replacement == JSON_OBJECT:
                fields[name] = sent[name] = {"type": JSON_OBJECT}
            elif isinstance(replacement, str):
                if not any(map(_LIMIT.fullmatch, judge.params)):  # the user's own limit stays
                    fields[replacement] = sent[replacement] = value
            elif replacement is not None:  # the highest number that the model takes
                fields[name] = sent[name] = min(replacement, value) if isinstance(value, int) else replacement
            elif name == "logprobs" and fields.pop("top_logprobs", None) is not None:  # it may not be without the other
                sent["top_logprobs"] = None
    chat: list[dict[str, Any]] = [{"role": message["role"], "content": message["content"]} for message in messages]
    if prompt.images:
        _attach_images(chat, prompt)
    body = {"model": judge.model, "messages": chat, **fields}
    if n > 1:
        body["n"] = n
    return body, sent or None
