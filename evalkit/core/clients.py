"""Clients of other packages as judges: what evalkit's own transport needs of them, read off without importing them.

Only openai's and anthropic's own classes are read off, and only where all they send can be: with the HTTP client that
the package makes, and a key or a function that returns one. Every other client is called itself.

Over 350 lines, because what is known of the packages' classes and attributes is in this module alone.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, NoReturn
from urllib.parse import quote, urlencode, urlsplit

from evalkit.core.judge_field_checks import host_of, is_server
from evalkit.core.providers import PROVIDERS
from evalkit.errors import ConfigError, listed
from evalkit.errors.secrets import Secret, find_key, watch_key

ELSEWHERE = ("http_client", "client")
"""What `Judge.ask` holds in another process, or in a file, for a client that cannot be replaced by an address: one with
an HTTP client of its own, and one of another package or with another way to sign in."""

_CLASSES = {
    "openai": ("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI"),
    "anthropic": ("Anthropic", "AsyncAnthropic"),
}
_SHAPES = {"openai": ("chat", "completions", "create"), "anthropic": ("messages", "create")}
_HTTP_CLIENTS = ("SyncHttpxClientWrapper", "AsyncHttpxClientWrapper")
_OTHER_SIGN_INS = ("workload_identity", "_provider", "credentials", "_middleware")
_HOLD_KEYS = ("_azure_ad_token", "api_key", "auth_token")
_NO_KEYS = ("<missing API key>", "workload-identity-auth")
_KEYS = ("authorization", "api-key", "x-api-key")
_OF_PACKAGE = re.compile(r"x-stainless-|(?:accept|content-type|user-agent|anthropic-version)\Z")
_SET_BY_EVALKIT = ("connection", "content-length", "content-type", "accept-encoding", "transfer-encoding")
_ACCOUNTS = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
_CUSTOM = {"openai": "OPENAI_CUSTOM_HEADERS", "anthropic": "ANTHROPIC_CUSTOM_HEADERS"}
_LONGEST_S = 600.0
_ALLOWED = "OpenAI, AsyncOpenAI, AzureOpenAI, AsyncAzureOpenAI, Anthropic, AsyncAnthropic, or one of their shape"


class GivenClient:
    """A client that a judge was made of. Its key stays in it: its judge is pickled without it.

    Attributes
    ----------
    client
        The client.
    provider, base_url
        Those of the judge; no key goes to another address.
    create
        The names that lead to the function that asks it.
    headers
        The headers that it sends, without the key.
    key_header
        The header of its key.
    fetch_key
        A function that returns the key for a call; None if the key stays the same.
    calls
        Whether it is called itself.
    is_async
        Whether it is called on the event loop.
    elsewhere
        What stands for it in another process: None (the fields of its judge suffice), or one of `ELSEWHERE`.
    """

    __slots__ = (
        "_held_in", "base_url", "calls", "client", "create", "elsewhere", "fetch_key", "headers", "is_async",
        "key_header", "last_key", "provider",
    )  # fmt: skip

    def __init__(self, client: Any, provider: str) -> None:
        self.client, self.provider, self.create = client, provider, _SHAPES[provider]
        self.base_url: str | None = None
        self.calls, self.elsewhere = False, None if _class_of(client) else ELSEWHERE[1]
        is_azure, of_package = "Azure" in (_class_of(client) or ""), client if _class_of(client) else None
        self.fetch_key: Callable[[], Any] | None = getattr(of_package, "_azure_ad_token_provider", None)
        by_token = self.fetch_key or Secret.of(getattr(of_package, "_azure_ad_token", None))
        self.fetch_key = self.fetch_key or getattr(of_package, "_api_key_provider", None)
        self.key_header = "api-key" if is_azure and not by_token else "authorization"
        custom = _custom(client)
        self.headers, self.is_async = _headers(client, custom), _is_async(client, self.create)
        if is_azure:  # there the key comes before a header of its name
            self.headers.pop(self.key_header, None)
        self.last_key = Secret()
        names = [name for name in _HOLD_KEYS if isinstance(getattr(client, name, None), str)]
        names = [name for name in names if getattr(client, name) not in ("", *_NO_KEYS)]
        omits_key = any(not isinstance(value, str) for name, value in custom.items() if name == self.key_header)
        self._held_in = None if omits_key or not names else names[0]

    def key(self) -> Secret:
        """The key that it sends, or sent last; false if there is none."""
        if self.fetch_key is None and self._held_in is not None:
            key = Secret.of(getattr(self.client, self._held_in))
            return key if isinstance(key, Secret) else Secret()
        return self.last_key

    def __repr__(self) -> str:
        return f"<{type(self.client).__name__}>"

    def __deepcopy__(self, _: Any) -> GivenClient:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled; pickle its judge, where the names of variables stand for it")


def client_address(value: object) -> str | None:
    """The address that a client of openai, of anthropic or of their shape sends to, with its query; None for the rest.

    Without keys and passwords. It imports no package and sends nothing.

    Examples
    --------
    >>> client_address("https://api.openai.com/v1") is None
    True
    """
    if _provider_of(value) is None:
        return None
    address = _without_key(_address(value) or "")
    return address if is_server(address) else None


def fields_of(client: object, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the judge of a client (see `Judge.client`); `fields` are those that the user sets.

    Raises
    ------
    ConfigError
        For what is no client, a client that states no address, and fields that are read off it.
    """
    provider = _provider_of(client)
    if provider is None:
        raise _no_client(client)
    refused = [name for name in ("provider", "ask") if name in fields]
    if refused:
        raise ConfigError(f"Judge.client takes no {listed(refused)}: it is read off the client; omit it")
    holder = GivenClient(client, provider)
    address = _address(client, model)
    clean = "" if address is None else _without_key(address)
    server = clean if is_server(clean) else None
    holder.calls = _must_be_called(client, provider, address)
    own_address = fields.get("base_url")
    if own_address is not None and not holder.calls:
        raise ConfigError(
            f"base_url is read off the client ({client_address(client)}); pass a client with another base_url, or "
            "write ek.Judge(…, base_url=…)"
        )
    if server is None and own_address is None and "service" not in fields:
        who = f"the {type(client).__name__} passed to Judge.client"
        raise ConfigError(f"{who} states no base_url; pass base_url= (the address of its API), or service= (a name)")
    if _class_of(client) and _has_own_http(client):
        holder.elsewhere = ELSEWHERE[0] if _needs_variables_alone(client) else ELSEWHERE[1]
    if own_address is not None:
        holder.elsewhere = None
    elif clean != address or server is None or any(_is_set(client, name) for name in _OTHER_SIGN_INS):
        holder.elsewhere = ELSEWHERE[1]
    url = own_address or server
    host = host_of(url or PROVIDERS[provider].address) if server or own_address else str(fields["service"])
    of_client: dict[str, Any] = {
        "provider": provider,
        "model": model,
        "base_url": url,
        "service": "",
        "api_key_env": _key_variable(holder, host),
        "headers_env": _headers_variable(holder, host),
        **_time_limit(client),
    }
    if server is not None and own_address is not None:
        of_client["service"] = host_of(server)
    if of_client["api_key_env"] is not None and holder.key():
        watch_key(holder.key())
    return {**of_client, **fields, "base_url": url, "ask": holder}


def _no_client(client: object) -> ConfigError:
    if isinstance(client, type) and client.__name__ in (*_CLASSES["openai"], *_CLASSES["anthropic"]):
        return ConfigError(f"Judge.client got the class {client.__name__}; pass a client: {client.__name__}(…)")
    if isinstance(client, str):
        return ConfigError("Judge.client takes a client object; for an address, write ek.Judge(…, base_url=…)")
    kind = f"the module {client.__name__}" if inspect.ismodule(client) else f"{type(client).__name__}"
    return ConfigError(
        f"Judge.client takes a client ({_ALLOWED}: chat.completions.create or messages.create), got {kind}; for "
        "another service, write ek.Judge('openai', MODEL, base_url=…) if it has an OpenAI-compatible address, or wrap "
        "your call with ek.Judge.function"
    )


def _class_of(client: object) -> str | None:
    """The class of openai or anthropic that a client is of, or that its class extends; None: of no known one."""
    for cls in type(client).__mro__:
        package = cls.__module__.partition(".")[0]
        if package in _CLASSES:
            return cls.__name__ if cls.__name__ in _CLASSES[package] else None
    return None


def _provider_of(client: object) -> str | None:
    if isinstance(client, type) or inspect.ismodule(client) or isinstance(client, str):
        return None
    if (name := _class_of(client)) is not None:
        return "anthropic" if name in _CLASSES["anthropic"] else "openai"
    return next((name for name, path in _SHAPES.items() if callable(_at(client, path))), None)


def _at(value: Any, path: Iterable[str]) -> Any:
    try:
        for name in path:
            value = getattr(value, name)
    except Exception:  # noqa: BLE001  # a property of any object; it is then no client
        return None
    return value


def _is_async(client: Any, path: tuple[str, ...]) -> bool:
    if (name := _class_of(client)) is not None:
        return name.startswith("Async")
    function = inspect.unwrap(_at(client, path))
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _is_set(client: Any, name: str) -> bool:
    """Whether an attribute of a client of a known class holds something."""
    return bool(_class_of(client)) and bool(getattr(client, name, None))


def _has_own_http(client: Any) -> bool:
    http = type(getattr(client, "_client", None))
    return http.__name__ not in _HTTP_CLIENTS or http.__module__.partition(".")[0] not in _CLASSES


def _needs_variables_alone(client: Any) -> bool:
    """Whether proxy and certificates may be all that an HTTP client adds: its transport is the usual one, unsigned."""
    http = getattr(client, "_client", None)
    transport = type(getattr(http, "_transport", None)).__name__
    return transport in ("HTTPTransport", "AsyncHTTPTransport") and getattr(http, "auth", None) is None


def _must_be_called(client: Any, provider: str, address: str | None) -> bool:
    """Whether evalkit's transport cannot send what a client sends."""
    package = type(client).__module__.partition(".")[0]
    is_plain = type(client).__name__ == _class_of(client) and package == provider
    return (
        not is_plain
        or _has_own_http(client)
        or any(_is_set(client, name) for name in _OTHER_SIGN_INS)
        or address is None
        or find_key(address) is not None
        or (provider == "anthropic" and "?" in address)
        or _is_wrapped(client, provider)
    )


def _is_wrapped(client: Any, package: str) -> bool:
    """Whether another package has replaced the function that asks, of this client or of all, as to trace its calls."""
    path = _SHAPES[package][:-1]
    resource: Any = client
    for name in path:
        resource = getattr(resource, "__dict__", {}).get(name)  # not made yet: nobody has replaced it
        if resource is None:
            break
    if resource is not None and "create" in vars(resource):
        return True
    module = sys.modules.get(f"{package}.resources.{'.'.join(path)}.{path[-1]}")
    name = path[-1].capitalize()
    classes = [getattr(module, cls_name, None) for cls_name in (name, f"Async{name}")]
    functions = [vars(cls).get("create") for cls in classes if cls is not None]
    return any(
        not isinstance(function, FunctionType) or function.__globals__["__name__"].partition(".")[0] != package
        for function in functions
    )


def _address(client: Any, model: str = "") -> str | None:
    """Where a client sends, without ``/chat/completions``, as `Judge.base_url`; with its query."""
    try:
        base, _, query = str(client.base_url).partition("?")
    except Exception:  # noqa: BLE001  # a property of any object
        return None
    base = base.rstrip("/").removesuffix("/chat/completions")
    if model and "Azure" in (_class_of(client) or "") and "/deployments" not in urlsplit(base).path:
        base += f"/deployments/{quote(model, safe='')}"
    further = getattr(client, "default_query", None)
    parts = [query.rstrip("/")]
    if isinstance(further, Mapping) and further:
        parts.append(client.qs.stringify(further) if _class_of(client) else urlencode(further))
    query = "&".join(filter(None, parts))
    return f"{base}?{query}" if query else base


def _without_key(address: str) -> str:
    """An address without its query and password if one of them holds a key."""
    if not find_key(address) and is_server(address):
        return address
    url = urlsplit(address)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


def _custom(client: Any) -> dict[str, Any]:
    """The headers that were set by hand, by lower-case name."""
    headers = getattr(client, "_custom_headers", None)
    return {str(name).lower(): value for name, value in headers.items()} if isinstance(headers, Mapping) else {}


def _headers(client: Any, custom: Mapping[str, Any]) -> dict[str, Secret]:
    """The headers of each request that are not those of every client, without the key."""
    if _class_of(client) is None:
        return {}
    every = {name.lower(): Secret.of(value) for name, value in client.default_headers.items()}
    return {
        name: value
        for name, value in every.items()
        if isinstance(value, Secret)
        and name not in _SET_BY_EVALKIT
        and (name in custom or not (_OF_PACKAGE.match(name) or name in _KEYS))
    }


def _time_limit(client: Any) -> dict[str, float]:
    """`Judge.timeout_s`, unless the client's limit is the default of its package."""
    limit = getattr(client, "timeout", None)
    if (name := _class_of(client)) is None:
        return {}
    package = "anthropic" if name in _CLASSES["anthropic"] else "openai"
    if limit is not None and limit == getattr(sys.modules.get(f"{package}._constants"), "DEFAULT_TIMEOUT", None):
        return {}
    seconds = getattr(limit, "read", limit)
    return {"timeout_s": float(seconds) if isinstance(seconds, (int, float)) and seconds > 0 else _LONGEST_S}


def _of_host(host: str, ending: str) -> str:
    """The name of a variable for a host, as ``LLM_EXAMPLE_ORG_API_KEY``."""
    name = re.sub(r"[^A-Z0-9]+", "_", host.upper()).strip("_")
    return f"{'HOST_' if name[:1].isdigit() else ''}{name}_{ending}"


def _key_variable(given: GivenClient, host: str) -> str | None:
    """The variable that holds the key where the client is not: the one that holds it here, else one named by the host.

    None: no key is needed.
    """
    key, provider = given.key(), PROVIDERS[given.provider]
    if given.fetch_key is None and (not key or key.is_placeholder):
        return None
    name = provider.key_variable if host == provider.host else _of_host(host, "API_KEY")
    if "Azure" in (_class_of(given.client) or ""):
        name = "AZURE_OPENAI_API_KEY" if given.key_header == "api-key" else "AZURE_OPENAI_AD_TOKEN"
    assert name is not None
    if given.fetch_key is not None:
        return name
    holding = {variable for variable, value in os.environ.items() if Secret(value.strip()) == key}
    variables = sorted(variable for variable in holding if re.fullmatch(r"[A-Z_][A-Z0-9_]*", variable))
    if name in variables or not variables:
        return f"{name}_2" if name not in variables and os.environ.get(name) else name
    return variables[0]


def _headers_variable(given: GivenClient, host: str) -> str | None:
    """The variable that holds the headers where the client is not; None: there are none but those always sent."""
    custom = _CUSTOM[given.provider]
    lines = [line.partition(":") for line in os.environ.get(custom, "").split("\n")]
    custom_headers = {name.strip().lower(): Secret(value.strip()) for name, _, value in lines}
    accounts = {name: Secret(os.environ.get(variable, "")) for name, variable in _ACCOUNTS.items()}
    needed = {name: value for name, value in given.headers.items() if value != accounts.get(name)}
    if all(custom_headers.get(name) == value for name, value in needed.items()):
        return None if not needed or host == PROVIDERS[given.provider].host else custom
    return _of_host(host, "HEADERS")
