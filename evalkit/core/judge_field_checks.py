"""Checks of a judge's fields: numbers, texts, parameters, and the host of an address."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any
from urllib.parse import urlsplit

from evalkit.core.reply_keys import canonical_json
from evalkit.errors import ConfigError

MOST_SAMPLES = 1000
"""Maximum number of samples per item and judge; a larger number is probably a typing error, and would be paid for."""

TEXT_FIELDS = ("name", "service", "template", "base_url", "api_key_env")


def check_samples(samples: Any, name: str = "samples") -> int:
    """The number of samples, checked; `name` is its name in the error message.

    Raises
    ------
    ConfigError
        For anything but a whole number from 1 to `MOST_SAMPLES`.

    Examples
    --------
    >>> check_samples(3)
    3
    >>> check_samples(10**9)
    Traceback (most recent call last):
    evalkit.errors.ConfigError: samples must be a whole number from 1 to 1000, not 1000000000
    """
    number = int(samples) if isinstance(samples, Integral) and not isinstance(samples, bool) else 0
    if not 1 <= number <= MOST_SAMPLES:
        # Python refuses to write a number of thousands of digits
        shown = "a number with more digits" if abs(number) > 10**18 else repr(samples)[:40]
        raise ConfigError(f"{name} must be a whole number from 1 to {MOST_SAMPLES}, not {shown}")
    return number


class Params(dict[str, Any]):
    """Further request parameters: a read-only mapping of JSON values that can be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(canonical_json(self))

    def __eq__(self, other: object) -> bool:
        # as JSON: Python takes 1, 1.0 and True for the same, a reply's key does not
        return isinstance(other, Mapping) and canonical_json(self) == canonical_json(dict(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def _read_only(self, *_: object, **__: object) -> Any:
        raise TypeError("judge params are read-only; make another Judge with replace()")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _read_only

    def __reduce__(self) -> tuple[type[Params], tuple[dict[str, Any]]]:
        return Params, (dict(self),)


def host_of(url: str) -> str:
    """The host of a URL without its port; ``local`` for loopback."""
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "local" if host == "localhost" else host
    address = getattr(address, "ipv4_mapped", None) or address
    return "local" if address.is_loopback or address.is_unspecified else host


def is_server(url: str) -> bool:
    """Whether a URL is that of a web server, without a name or password in it."""
    try:
        parts = urlsplit(url)
        port_fits = parts.port is None or parts.port > 0
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and port_fits and "@" not in parts.netloc


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(TEXT_FIELDS, ("a string", _is_text)),
    "temperature": ("a number ≥ 0 or None", lambda value: value is None or _is_number(value)),
    "max_tokens": ("a whole number ≥ 1 or None", lambda value: value is None or (type(value) is int and value >= 1)),
    "weight": ("a number ≥ 0", _is_number),
    "timeout_s": ("a number of seconds > 0", lambda value: _is_number(value) and value > 0),
    "price": (
        "two numbers (US$ per million prompt and completion tokens) or None",
        lambda value: (
            value is None or (isinstance(value, (tuple, list)) and len(value) == 2 and all(map(_is_number, value)))
        ),
    ),
    "params": ("a mapping", lambda value: isinstance(value, Mapping)),
}
"""Field -> which values are allowed, and whether a value is one of them."""
