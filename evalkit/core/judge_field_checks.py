"""Checks of a judge's fields: numbers, texts, parameters, and the host of an address."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from evalkit.core.lists_of_choices import SCORE_READINGS
from evalkit.core.providers import PROVIDERS
from evalkit.core.settings import MOST_SAMPLES, WEIGHT, is_number, is_weight
from evalkit.errors import ConfigError

TEXT_FIELDS = ("name", "service", "template", "base_url", "api_key_env", "headers_env")

_PRIVATE = (".localhost", ".local", ".internal", ".home.arpa")
"""Ends of host names that standards reserve for one machine or network (RFC 6761, 6762, 8375; ICANN)."""

LOGPROBS = {"logprobs": True, "top_logprobs": 20}
"""The parameters that ask for log-probabilities, where `Judge.score` needs them."""


def host_of(url: str) -> str:
    """The host of a URL without its port; ``local`` for loopback."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "local" if host == "localhost" else host
    address = getattr(address, "ipv4_mapped", None) or address
    return "local" if address.is_loopback or address.is_unspecified else host


def is_private(url: str) -> bool:
    """Whether a URL leads to this machine or a private network: by its number, or a name that no public host has.

    Examples
    --------
    >>> [is_private(f"http://{host}:8000/v1") for host in ("localhost", "10.0.0.7", "[fd00::1]", "ollama", "gpu.local")]
    [True, True, True, True, True]
    >>> is_private("https://api.openai.com/v1"), is_private("http://8.8.8.8/v1")
    (False, False)
    """
    host = host_of(url)
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE)


def base_url_of(provider: str, base_url: str | None) -> str | None:
    """The base URL, else that in the provider's environment variable; None: the provider's own server.

    Blanks and line ends around it, as in a file of settings, are taken off.
    """
    variable = PROVIDERS[provider].url_variable if provider in PROVIDERS else None
    address = base_url or (os.environ.get(variable) if variable else None) or None
    return address.strip() or None if isinstance(address, str) else address


def is_server(url: str) -> bool:
    """Whether a URL is that of a web server, without a name or password in it."""
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and port_fits and "@" not in parts.netloc and url.isprintable() and " " not in url


NOT_SENT_IF_NULL = ("temperature", "max_tokens")
"""The fields whose ``null`` is a value: the request then has no such parameter."""


def without_nulls(fields: Mapping[Any, Any]) -> dict[Any, Any]:
    """The fields of a judge in a file without those that are ``null`` and so not set (all but `NOT_SENT_IF_NULL`)."""
    return {name: value for name, value in fields.items() if value is not None or name in NOT_SENT_IF_NULL}


def _is_number(value: Any) -> bool:
    return is_number(value) and value >= 0


def _is_price(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and len(value) in (2, 3) and all(map(_is_number, value))


_PRICE = "two numbers (US$ per million prompt and completion tokens), or three (also cached prompt tokens), or None"
FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(TEXT_FIELDS, ("a string", lambda value: value is None or isinstance(value, str))),
    "temperature": ("a number ≥ 0 or None", lambda value: value is None or _is_number(value)),
    "max_tokens": (
        "a whole number ≥ 1 or None",
        lambda value: value is None or (isinstance(value, int) and value >= 1 and is_number(value)),
    ),
    "weight": (WEIGHT, is_weight),
    "timeout_s": ("a number of seconds > 0", lambda value: _is_number(value) and value > 0),
    "price": (_PRICE, lambda value: value is None or _is_price(value)),
    "score": ("'expected', 'mode' or None", lambda value: value is None or value in SCORE_READINGS),
    "samples": (
        f"a whole number from 1 to {MOST_SAMPLES} or None",
        lambda value: value is None or (type(value) is int and 1 <= value <= MOST_SAMPLES),
    ),
    "images": ("True, False or None", lambda value: value is None or isinstance(value, bool)),
    "params": ("a mapping", lambda value: isinstance(value, Mapping)),
}
"""Field -> which values are allowed, and whether a value is one of them."""


def with_logprobs(params: Mapping[str, Any], provider: str, score: str | None, who: str) -> Mapping[str, Any]:
    """The parameters of a judge, with those that ask for log-probabilities if `score` needs these.

    Raises
    ------
    ConfigError
        If the provider gives none, or the parameters say otherwise.
    """
    if score is None or PROVIDERS[provider].decides:
        return params
    if not PROVIDERS[provider].logprobs:
        raise ConfigError(
            f"{who} gives no log-probabilities, so score={score!r} cannot be read; omit score= and set samples=, or "
            "serve an open model (as by `vllm serve`) and use the provider 'openai'"
        )
    if params.get("logprobs", True) is not True:
        raise ConfigError(f"{who}: score={score!r} sets logprobs itself; remove logprobs from params=")
    return LOGPROBS | dict(params)
