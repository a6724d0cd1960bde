"""What is stored of one reply: its row, made of key parts and the reply as JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from evalkit.core.prompts_and_replies import Reply, token_count
from evalkit.core.reply_keys import KEY_SCHEMA, KeyParts, canonical_json, sample_keys
from evalkit.errors import CacheError, InputError

__all__ = ["Row", "decoded", "encoded", "key_function", "row_of", "shared_json"]

_FIELDS = KeyParts.__slots__
_values = attrgetter(*_FIELDS)

KeyFunction = Callable[[str, str | None, int], bytes]
"""(input hash, order, sample) -> key."""


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
        If `parts.input_hash` is not a sha256, or a field of the reply holds what it cannot.
    CacheError
        If the reply holds something that is not a JSON value.
    """
    input_hash = _sha256(parts.input_hash)
    _check(reply)
    if not reply.created:
        reply = replace(reply, created=time.time())
    call, key, content_key = _shared(shared_json(parts))
    asked = parts.input_hash, parts.order, parts.sample
    return Row(
        key(*asked),
        call,
        input_hash,
        parts.order,
        parts.sample,
        content_key(*asked),
        reply.created,
        reply.source,
        reply.cost_usd,
        promoted_from,
        encoded(reply),
    )


_TEXTS = attrgetter("text", "finish_reason", "refusal", "model")
_TOKENS = attrgetter("prompt_tokens", "completion_tokens")
_AMOUNTS = attrgetter("cost_usd", "latency_s", "created")


def _check(reply: Reply) -> None:
    """Refuse what would be stored and could not be read again."""
    wrong: Any = [value for value in _TEXTS(reply) if value is not None and not isinstance(value, str)]
    allowed = "text, finish_reason, refusal and model are texts or None"
    if not wrong:
        wrong = [value for value in _TOKENS(reply) if value is not None and token_count(value) is None]
        allowed = "prompt_tokens and completion_tokens are whole numbers from 0 to 2147483647, or None"
    if not wrong:
        wrong = [value for value in _AMOUNTS(reply) if value is not None and not _is_amount(value)]
        allowed = "cost_usd, latency_s and created are finite numbers, 0 or more, or None"
    if wrong:
        shown = f"{type(wrong[0]).__name__} {str(wrong[0])[:40]!r}"
        raise InputError(f"a reply of {reply.model or 'a judge'} holds {shown}: {allowed}; nothing was stored")


def _is_amount(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf


def _sha256(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 32 or text != raw.hex():
        raise InputError(f"input_hash {text!r} of a reply is not a sha256; expected 64 lower-case hexadecimal digits")
    return raw


def shared_json(parts: KeyParts) -> bytes:
    """Canonical JSON of ``parts.shared().as_dict()``, without the copies that `asdict` makes."""
    values: dict[str, Any] = dict(zip(_FIELDS, _values(parts), strict=True))
    values.update(params=dict(parts.params), input_hash="", order=None, sample=0, schema=KEY_SCHEMA)
    return canonical_json(values)


def key_function(call: bytes) -> KeyFunction:
    """The keys under the shared parts `call` (JSON as of `shared_json`)."""
    return _shared(call)[1]


@lru_cache(maxsize=1024)
def _shared(call: bytes) -> tuple[str, KeyFunction, KeyFunction]:
    """The shared parts as text, once for all rows, and the functions that make keys and content keys of them."""
    parts = KeyParts.from_dict(orjson.loads(call))
    return call.decode(), _function_of(parts, content=False), _function_of(parts, content=True)


def _function_of(parts: KeyParts, *, content: bool) -> KeyFunction:
    maker = sample_keys(parts, content=content)

    def key(input_hash: str, order: str | None, sample: int) -> bytes:
        (only,) = maker(input_hash, order, range(sample, sample + 1))
        return only

    def key_by_parts(input_hash: str, order: str | None, sample: int) -> bytes:
        asked = parts.of(input_hash, order, sample)
        return asked.content_key if content else asked.key

    try:
        key("", None, 0)
    except ValueError:
        # params of an imported file may hold the very marks that the fast maker splits at
        return key_by_parts
    return key


def encoded(reply: Reply) -> bytes:
    """The reply as canonical JSON: what is stored, and what export writes."""
    values = reply.as_dict()
    try:
        return _compact(canonical_json(values))
    except TypeError:
        pass
    try:
        # half of a surrogate pair is no text, yet servers send it, and the reply was paid for
        return _compact(canonical_json(_without_surrogates(values)))
    except TypeError as problem:
        raise CacheError(
            f"a reply of {reply.model or 'a judge'} holds what is not a JSON value: {problem}"
        ) from problem


def _compact(text: bytes) -> bytes:
    # what orjson gives keeps the buffer it was written to, 4 kB and more, for as long as it lives
    return memoryview(text).tobytes()


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(inner) for inner in value]
    return value


def decoded(value: bytes) -> Reply:
    """The inverse of `encoded`."""
    return Reply.from_dict(orjson.loads(value))
