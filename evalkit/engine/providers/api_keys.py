"""API keys by name: keys in environment variables, and keys passed as arguments, which stay in this process."""

from __future__ import annotations

import os
import threading
from secrets import token_hex

from evalkit.core.judges import Judge
from evalkit.errors import ConfigError
from evalkit.errors.secrets import Secret, watch_key

_PREFIX = "EVALKIT_GIVEN_KEY_"
NO_KEY = "EVALKIT_NO_KEY_GIVEN"
"""Stands for a key that was not given: never looked up in the environment."""
_NEVER = ("host", "connection", "content-length", "content-type", "accept-encoding", "transfer-encoding")

_lock = threading.Lock()
_names: dict[Secret, str] = {}
_keys: dict[str, Secret] = {}


def hold_key(key: str | Secret) -> str:
    """A name for a key passed as an argument, to be used as `Judge.api_key_env`.

    The key stays in the memory of this process. The name does not reveal it. One key has one name, so that judges with
    the same key share its rate limits.

    Raises
    ------
    ConfigError
        When the key is blank, or holds characters that no key may have; the message never shows it.

    Examples
    --------
    >>> name = hold_key("sk-of-this-example")
    >>> key_in(name), "example" in name, hold_key("sk-of-this-example") == name
    (<hidden>, False, True)
    """
    key = Secret.of(key)  # under its own name: a traceback shows variables
    key = Secret(key.reveal().strip()) if isinstance(key, Secret) else key
    if not isinstance(key, Secret) or not key:
        raise ConfigError("the API key must be a string that is not blank; if the server needs no key, omit it")
    if not key.is_sendable:
        raise ConfigError(
            "the API key (not shown) contains characters other than printable ASCII; pass it as the service shows it"
        )
    watch_key(key)
    with _lock:
        # by chance, so that no other process has a key of that name: what names it may be sent there
        name = _names.setdefault(key, f"{_PREFIX}{token_hex(8).upper()}")
        _keys[name] = key
    return name


def key_in(name: str | None) -> Secret:
    """The key that a name stands for: one held by `hold_key`, else that of the environment variable; false if none."""
    if not name or name == NO_KEY:
        return Secret()
    if name.startswith(_PREFIX):
        return _keys.get(name, Secret())
    return Secret(os.environ.get(name, "").strip())


def headers_in(name: str | None) -> dict[str, Secret]:
    r"""The headers in an environment variable, one ``Name: value`` per line; without those that evalkit sets itself.

    Examples
    --------
    >>> os.environ["GATEWAY_HEADERS"] = "X-Team: judges\nHost: other"
    >>> headers_in("GATEWAY_HEADERS"), headers_in(None)
    ({'x-team': <hidden>}, {})
    """
    if not name:
        return {}
    pairs = (line.partition(":") for line in os.environ.get(name, "").split("\n"))
    return {
        label.strip().lower(): Secret(value.strip())
        for label, _, value in pairs
        if label.strip() and value.strip() and label.strip().lower() not in _NEVER
    }


def key_of(judge: Judge) -> Secret:
    """The key of a judge: that of its client, else that in its variable; false if none."""
    return (judge.given.key() if judge.given else Secret()) or key_in(judge.api_key_env)


def headers_of(judge: Judge) -> dict[str, Secret]:
    """The further headers of a judge's requests: those of its client, else those in its variable."""
    return (judge.given.headers if judge.given else {}) or headers_in(judge.headers_env)


def key_source(name: str) -> str:
    """Which key a message is about, in words: ``that in NAME``, or ``the API key passed as an argument``."""
    return "the API key passed as an argument" if name.startswith(_PREFIX) else f"the value of {name}"
