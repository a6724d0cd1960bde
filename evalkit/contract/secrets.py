"""Literal keys and passwords: told from other values by their names and places, and never kept."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["is_key", "without_keys"]

_KEYS = ("api_key", "apikey", "key", "token", "secret", "password", "authorization", "bearer")
_KEY_ENDS = ("api_key", "apikey", "hf_token", "access_token", "auth_token", "password", "secret")
_SIGNED_IN = re.compile(r"(?<=://)[^/@\s]+@")
_NOT_KEPT = "[not kept]"


def is_key(name: str) -> bool:
    """Whether what stands under this name looks like a key itself, and not like the variable that holds it.

    Examples
    --------
    >>> is_key("API-Key"), is_key("hf_token"), is_key("api_key_env"), is_key("max_tokens"), is_key("pad_token")
    (True, True, False, False, False)
    """
    plain = name.casefold().replace("-", "_")
    return plain in _KEYS or plain.endswith(_KEY_ENDS)


def without_keys(values: Any) -> Any:
    """JSON values with ``[not kept]`` for literal keys, and addresses without the name and password in them.

    Examples
    --------
    >>> without_keys({"judges": [{"api_key": "sk-1", "base_url": "http://me:pw@host/v1"}], "samples": 3})
    {'judges': [{'api_key': '[not kept]', 'base_url': 'http://host/v1'}], 'samples': 3}
    """
    if isinstance(values, Mapping):
        return {name: _NOT_KEPT if is_key(str(name)) else without_keys(value) for name, value in values.items()}
    if isinstance(values, list):
        return [without_keys(value) for value in values]
    return _SIGNED_IN.sub("", values) if isinstance(values, str) else values
