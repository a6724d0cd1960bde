"""The row that is stored for one reply, made of its key parts and the reply as JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from evalkit.core.prompts_and_replies import Reply, token_count
from evalkit.core.reply_keys import KeyMaker, KeyParts, canonical_json, sample_keys
from evalkit.errors import CacheError, InputError


class Row(NamedTuple):
    """One reply as it goes into the table (a plain tuple: hundreds of thousands pass through SQLite)."""

    key: bytes
    call: str
    input_hash: bytes
    order: str | None
    sample: int
    content_key: bytes
    created: float
    source: str
    cost_usd: float | None
    promoted_from: bytes | None
    value: bytes


def row_of(parts: KeyParts, reply: Reply, *, promoted_from: bytes | None = None) -> Row:
    """The row of one reply.

    A reply without a time of receipt gets the present one: a row that looks older than everything
    could never end a refresh.

    Raises
    ------
    InputError
        If `parts.input_hash` is not a sha256, or a field of the reply has a value that could not be read again.
    CacheError
        If the reply contains something that is not a JSON value.
    """
    shown, order, sample = parts.input_hash, parts.order, parts.sample
    if len(shown) != 64 or not set(shown) <= _HEX_DIGITS:
        raise InputError(f"input_hash {shown!r} of a reply is not a sha256; expected 64 lower-case hexadecimal digits")
    for names, fits, expected in _FIELDS:
        for name in names:
            value = getattr(reply, name)
            if value is not None and not fits(value):
                raise InputError(
                    f"{name} of a reply of {reply.model or 'a judge'} is {type(value).__name__} {str(value)[:40]!r}; "
                    f"expected {expected} or None; nothing was stored"
                )
    if not reply.created:
        reply = replace(reply, created=time.time())
    call = shared_json(parts)
    key_of, content_key_of = key_makers(call)
    (key,), (content_key,) = key_of(shown, order, (sample,)), content_key_of(shown, order, (sample,))
    return Row(
        key,
        call.decode(),
        bytes.fromhex(shown),
        order,
        sample,
        content_key,
        reply.created,
        reply.source,
        reply.cost_usd,
        promoted_from,
        encoded(reply),
    )


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


_HEX_DIGITS = frozenset("0123456789abcdef")
_FIELDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (("text", "finish_reason", "refusal", "model"), lambda value: isinstance(value, str), "a string"),
    (
        ("prompt_tokens", "completion_tokens"),
        lambda value: token_count(value) is not None,
        "a whole number from 0 to 2147483647",
    ),
    (("cost_usd", "latency_s", "created"), _is_amount, "a finite number ≥ 0"),
)


def shared_json(parts: KeyParts) -> bytes:
    """Canonical JSON of ``parts.shared().as_dict()``: the parts without input, order and sample."""
    return canonical_json(parts.as_dict() | {"input_hash": "", "order": None, "sample": 0})


@lru_cache(maxsize=1024)
def key_makers(call: bytes) -> tuple[KeyMaker, KeyMaker]:
    """The makers of keys and of content keys under the shared parts `call` (as of `shared_json`)."""
    parts = KeyParts.from_dict(orjson.loads(call))
    return sample_keys(parts), sample_keys(parts, content=True)


def encoded(reply: Reply) -> bytes:
    """The reply as canonical JSON: what is stored, and what export writes."""
    values = reply.as_dict()
    try:
        try:
            text = canonical_json(values)
        except TypeError:
            # servers send half of a surrogate pair, which is not valid text, and the reply was paid for
            whole = json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace")
            text = canonical_json(orjson.loads(whole))
    except (TypeError, ValueError) as problem:
        raise CacheError(
            f"a reply of {reply.model or 'a judge'} contains something that is not a JSON value: {problem}"
        ) from problem
    # orjson's output keeps the buffer that it was written to, 4 kB and more, for as long as it lives
    return memoryview(text).tobytes()


def decoded(value: bytes) -> Reply:
    """The inverse of `encoded`."""
    return Reply.from_dict(orjson.loads(value))
