"""Clients of other packages as judges: what evalkit's own transport needs of them, read off without importing them.

Only openai's and anthropic's own classes are read off, and only where all they send can be: with the HTTP client that
the package makes, and a key or a function that returns one. Every other client is called itself.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from evalkit.core.judge_field_checks import host_of, is_server
from evalkit.core.providers import PROVIDERS
from evalkit.errors import ConfigError, listed
from evalkit.errors.secrets import Secret, find_key, watch_key

ELSEWHERE = ("http_client", "client")
"""What `Judge.ask` holds in another process, or in a file, for a client that cannot be replaced by an address: one with
an HTTP client of its own, and one of another package or with another way to sign in."""
CREATE = {"openai": ("chat", "completions", "create"), "anthropic": ("messages", "create")}
"""Provider -> the names that lead to the function that asks."""
ACCOUNTS = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}

_CLASSES = ("OpenAI", "AsyncOpenAI", "AzureOpenAI", "AsyncAzureOpenAI", "Anthropic", "AsyncAnthropic")
_HTTP_CLIENTS = ("SyncHttpxClientWrapper", "AsyncHttpxClientWrapper")
_TRANSPORTS = ("HTTPTransport", "AsyncHTTPTransport")
_OTHER_SIGN_INS = ("workload_identity", "_provider", "credentials", "_middleware")
_HOLD_KEYS = ("_azure_ad_token", "api_key", "auth_token")
_NO_KEYS = ("", "<missing API key>", "workload-identity-auth")
_KEYS = ("authorization", "api-key", "x-api-key")
_OF_PACKAGE = re.compile(r"x-stainless-|(?:accept|content-type|user-agent|anthropic-version)\Z")
_SET_BY_EVALKIT = ("connection", "content-length", "content-type", "accept-encoding", "transfer-encoding")
_LONGEST_S = 600.0


class GivenClient:
    """A client that a judge was made of. Its key stays in it: its judge is pickled without it.

    Attributes
    ----------
    client
        The client.
    provider, base_url
        Those of the judge; no key goes to another address.
    headers
        The headers that it sends, without the key.
    key_header
        The header of its key.
    fetch_key
        A function that returns the key for a call; None if the key stays the same.
    calls
        Whether it is called itself.
    elsewhere
        What stands for it in another process: None (the fields of its judge suffice), or one of `ELSEWHERE`.
    """

    __slots__ = (
        "_held_in", "base_url", "calls", "client", "elsewhere", "fetch_key", "headers", "key_header", "last_key",
        "provider",
    )  # fmt: skip

    def __init__(self, client: Any, provider: str) -> None:
        of_package = client if _class_of(client) else None
        self.client, self.provider, self.calls = client, provider, False
        self.base_url: str | None = None
        self.elsewhere: str | None = None
        token_provider = getattr(of_package, "_azure_ad_token_provider", None)
        self.fetch_key: Callable[[], Any] | None = token_provider or getattr(of_package, "_api_key_provider", None)
        by_token = token_provider or getattr(of_package, "_azure_ad_token", None)
        self.key_header = "api-key" if _is_azure(client) and not by_token else "authorization"
        custom = {name.lower(): value for name, value in getattr(of_package, "_custom_headers", {}).items()}
        self.headers = {} if of_package is None else _headers(client, custom)
        if _is_azure(client):  # there the key comes before a header of its name
            self.headers.pop(self.key_header, None)
        self.last_key = Secret()
        is_omitted = self.key_header in custom and not isinstance(custom[self.key_header], str)
        self._held_in = () if is_omitted else _HOLD_KEYS

    def key(self) -> Secret:
        """The key that it sends, or sent last; false if there is none."""
        keys = (getattr(self.client, name, None) for name in self._held_in if self.fetch_key is None)
        return next((Secret(key) for key in keys if isinstance(key, str) and key not in _NO_KEYS), self.last_key)

    def __repr__(self) -> str:
        return f"<{type(self.client).__name__}>"

    def __deepcopy__(self, _: Any) -> GivenClient:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled; pickle its judge, where the names of variables stand for it")


def fields_of(client: Any, model: str, fields: Mapping[str, Any], api: str | None = None) -> dict[str, Any]:
    """The fields of the judge of a client (see `Judge.client`); `fields` are those that the user sets.

    Raises
    ------
    ConfigError
        For what is no client, a client that states no address, and fields that are read off it.
    """
    provider, package_class = _provider_of(client), _class_of(client)
    if refused := [name for name in ("provider", "ask") if name in fields]:
        raise ConfigError(f"Judge.client takes no {listed(refused)}: it is read off the client; omit it")
    holder = GivenClient(client, provider)
    address = _address(client, model)
    clean = _without_key(address)
    server, own_address = clean if is_server(clean) else None, fields.get("base_url")
    http = getattr(client, "_client", None)
    has_own_http, transport = type(http).__name__ not in _HTTP_CLIENTS, type(getattr(http, "_transport", None))
    signs_in = any(getattr(client, name, None) for name in _OTHER_SIGN_INS)
    signs_in |= has_own_http and (transport.__name__ not in _TRANSPORTS or getattr(http, "auth", None) is not None)
    is_readable = package_class is not None and clean == address and not signs_in
    holder.calls = not (
        is_readable
        and type(client) is package_class
        and not has_own_http
        and not (provider == "anthropic" and "?" in address)
        and not _is_wrapped(client, provider)
    )
    if api is not None and (api != "decisions" or holder.calls or provider != "openai"):
        raise ConfigError(
            f"Judge.client got api={api!r}, which takes 'decisions' for a client of openai with the HTTP client that "
            "its package makes; for another one, write ek.Judge('decisions', MODEL, …)"
        )
    if own_address is not None and not holder.calls:
        raise ConfigError(
            f"base_url is read off the client ({server}); pass a client with another base_url, or write "
            "ek.Judge(…, base_url=…)"
        )
    url = own_address or server
    if url is None and "service" not in fields:
        raise ConfigError(
            f"the {type(client).__name__} passed to Judge.client states no base_url; pass base_url= (the address of "
            "its API), or service= (a name)"
        )
    if own_address is None and (has_own_http or not is_readable):
        holder.elsewhere = ELSEWHERE[0] if is_readable else ELSEWHERE[1]
    host = host_of(url) if url else str(fields["service"])
    of_client = {
        "provider": provider,
        "model": model,
        "service": host_of(server) if server and own_address else "",
        "api_key_env": _key_variable(holder, host),
        "headers_env": _headers_variable(holder, host),
        **({} if package_class is None else _time_limit(client, provider)),
    }
    holder.provider = of_client["provider"] = api or provider
    return {**of_client, **fields, "base_url": url, "ask": holder}


def _class_of(client: object) -> type | None:
    """The class of openai or anthropic that a client is of, or that its class extends; None: of no known one."""
    of_packages = (cls for cls in type(client).__mro__ if cls.__module__.partition(".")[0] in CREATE)
    cls = next(of_packages, object)
    return cls if cls.__name__ in _CLASSES else None


def _is_azure(client: object) -> bool:
    return "Azure" in getattr(_class_of(client), "__name__", "")


def _provider_of(client: Any) -> str:
    if (package_class := _class_of(client)) is not None:
        return package_class.__module__.partition(".")[0]
    is_module = inspect.ismodule(client)  # that of openai has the shape of a client
    for provider, path in CREATE.items():
        if not is_module and callable(attribute_at(client, path)):
            return provider
    kind = "the module" if is_module else "the class"
    got = f"{kind} {client.__name__}" if is_module or isinstance(client, type) else type(client).__name__
    raise ConfigError(
        f"Judge.client takes a client, as OpenAI(…) ({', '.join(_CLASSES)}, or one of their shape: "
        f"chat.completions.create or messages.create), got {got}; for an address, write ek.Judge('openai', MODEL, "
        "base_url=…); for another service, wrap your call with ek.Judge.function"
    )


def attribute_at(value: Any, path: Iterable[str]) -> Any:
    """What these names lead to, one after the other; None if it has no such attribute, or has a property that fails."""
    try:
        for name in path:
            value = getattr(value, name)
    except Exception:  # noqa: BLE001  # a property of any object; it is then no client
        return None
    return value


def _is_wrapped(client: Any, provider: str) -> bool:
    """Whether another package has replaced the function that asks, of this client or of all, as to trace its calls."""
    *path, name = CREATE[provider]
    function = inspect.getattr_static(attribute_at(client, path), name, None)
    # by `type`: a wrapper of wrapt calls itself what it wraps
    return type(function) is not FunctionType or function.__globals__["__name__"].partition(".")[0] != provider


def _address(client: Any, model: str) -> str:
    """Where a client sends, without ``/chat/completions``, as `Judge.base_url`; with its query."""
    base, _, query = str(attribute_at(client, ["base_url"])).partition("?")
    base = base.rstrip("/").removesuffix("/chat/completions")
    if _is_azure(client) and "/deployments" not in urlsplit(base).path:
        base += f"/deployments/{quote(str(model), safe='')}"
    further = attribute_at(client, ["default_query"])
    parts = [query.rstrip("/")]
    if isinstance(further, Mapping) and further:
        parts.append(client.qs.stringify(further) if _class_of(client) else urlencode(further))
    query = "&".join(filter(None, parts))
    return f"{base}?{query}" if query else base


_LIKE_A_KEY = 16  # characters of a value in a query


def _without_key(address: str) -> str:
    """An address without its query and password if one of them holds a key."""
    values = parse_qsl(urlsplit(address).query)
    has_key = find_key(address) or any(len(value) >= _LIKE_A_KEY and name != "api-version" for name, value in values)
    if not has_key and is_server(address):
        return address
    url = urlsplit(address)
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"


def _headers(client: Any, custom: Mapping[str, Any]) -> dict[str, Secret]:
    """The headers of each request that are not those of every client, without the key."""
    every = {name.lower(): Secret.of(value) for name, value in client.default_headers.items()}
    return {
        name: value
        for name, value in every.items()
        if isinstance(value, Secret)
        and name not in _SET_BY_EVALKIT
        and (name in custom or not (_OF_PACKAGE.match(name) or name in _KEYS))
    }


def _time_limit(client: Any, provider: str) -> dict[str, float]:
    """`Judge.timeout_s`, unless the client's limit is the default of its package."""
    if client.timeout is not None and client.timeout == getattr(sys.modules.get(provider), "DEFAULT_TIMEOUT", None):
        return {}
    seconds = getattr(client.timeout, "read", client.timeout)
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
    name = (host == provider.host and provider.key_variable) or _of_host(host, "API_KEY")
    if _is_azure(given.client):
        name = "AZURE_OPENAI_API_KEY" if given.key_header == "api-key" else "AZURE_OPENAI_AD_TOKEN"
    if given.fetch_key is not None:
        return name
    watch_key(key)
    names = sorted(name for name in os.environ if re.fullmatch(r"[A-Z_][A-Z0-9_]*", name))
    holding = [variable for variable in names if Secret(os.environ[variable].strip()) == key]
    if name in holding or not holding:
        return f"{name}_2" if not holding and os.environ.get(name) else name
    return holding[0]


def _headers_variable(given: GivenClient, host: str) -> str | None:
    """The variable that holds the headers where the client is not; None: there are none but those always sent."""
    custom = f"{given.provider.upper()}_CUSTOM_HEADERS"
    lines = (line.partition(":") for line in os.environ.get(custom, "").split("\n"))
    custom_headers = {name.strip().lower(): Secret(value.strip()) for name, _, value in lines}
    accounts = {name: Secret(os.environ.get(variable, "")) for name, variable in ACCOUNTS.items()}
    needed = {name: value for name, value in given.headers.items() if value != accounts.get(name)}
    if all(custom_headers.get(name) == value for name, value in needed.items()):
        return None if not needed or host == PROVIDERS[given.provider].host else custom
    return _of_host(host, "HEADERS")
