"""Reply keys: sha256 of canonical JSON over everything that can change a reply.

`docs/adr/0002-reply-keys.md` describes what is in a key and why; `tests/vectors/reply_keys.json` pins it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import orjson

from evalkit.core.providers import PROVIDERS

KEY_SCHEMA = 1
"""Version of the key format. It is part of every key, so that keys of different formats never match."""


def canonical_json(value: Any) -> bytes:
    """JSON as UTF-8 without spaces, keys sorted: equal values give equal bytes on every machine."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def digest(value: Any) -> str:
    """sha256 of the canonical JSON of `value`, as 64 hexadecimal digits."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def recorded_hash(input_hash: str, item_id: str) -> str:
    """The `input_hash` of a recorded reply, which belongs to one item and not to all items of its content.

    Examples
    --------
    >>> recorded_hash("0" * 64, "a") == digest({"input_hash": "0" * 64, "item_id": "a"})
    True
    """
    return hashlib.sha256(orjson.dumps({"input_hash": input_hash, "item_id": item_id})).hexdigest()  # in order


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


@dataclass(frozen=True, slots=True)
class KeyParts:
    """The parts of a reply key.

    Attributes
    ----------
    provider, service, model
        The judge: `service` is the host, without port; ``local`` for loopback.
    rubric, rubric_version
        The rubric; `rubric_hash` covers what reaches the prompt of the one criterion.
    template_hash
        sha256 of the template's source.
    temperature, max_tokens, params
        Request parameters; `params` is every other parameter that can change the reply.
    input_hash
        sha256 of the canonical JSON of the rubric's declared inputs; for a recorded reply see `recorded_hash`.
    order
        ``"AB"`` for pairwise prompts (the swap happens before the key), else None. Recorded replies have ``"BA"`` too.
    sample
        0 … k-1.
    """

    provider: str
    service: str
    model: str
    rubric: str
    rubric_version: str
    rubric_hash: str
    template_hash: str
    temperature: float | None
    max_tokens: int | None
    params: Mapping[str, Any]
    input_hash: str = ""
    order: str | None = None
    sample: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The parts as plain JSON values, including the schema number."""
        parts = dict(zip(self.__slots__, _fields_of(self), strict=True))
        parts["params"] = dict(self.params)
        parts["schema"] = KEY_SCHEMA
        return parts

    @classmethod
    def from_dict(cls, parts: Mapping[str, Any]) -> KeyParts:
        """The inverse of `as_dict`; raises ValueError for another schema number."""
        if parts.get("schema") != KEY_SCHEMA:
            raise ValueError(
                f"the reply key has format {parts.get('schema')!r}, but this evalkit reads only format {KEY_SCHEMA}"
            )
        return cls(**{name: value for name, value in parts.items() if name != "schema"})

    def of_input(self, input_hash: str, order: str | None) -> KeyParts:
        """The parts of one input, in one order; not by `replace`, which takes three times as long."""
        return KeyParts(*_fields_of(self)[:10], input_hash, order, self.sample)  # type: ignore[call-arg]

    def of_sample(self, sample: int) -> KeyParts:
        """The parts of one sample of a request, whose seed may differ (see `params_of_sample`)."""
        params = params_of_sample(self.provider, self.params, sample)
        is_same = params is self.params and sample == self.sample
        return self if is_same else replace(self, params=params, sample=sample)

    @property
    def key(self) -> bytes:
        """sha256 over all parts (32 bytes)."""
        return hashlib.sha256(canonical_json(self.as_dict())).digest()

    @property
    def content_key(self) -> bytes:
        """The key without the rubric's name and version (32 bytes): equal for an unchanged criterion."""
        parts = self.as_dict()
        del parts["rubric"], parts["rubric_version"]
        return hashlib.sha256(canonical_json(parts)).digest()

    def shared_json(self) -> bytes:
        """Canonical JSON of the parts that all inputs and samples of one judge and criterion have in common."""
        return canonical_json(self.as_dict() | {"input_hash": "", "order": None, "sample": 0})


_fields_of: Callable[[KeyParts], tuple[Any, ...]] = attrgetter(*KeyParts.__slots__)
_SEEDS = ("seed", "random_seed", "sampling_seed")
_LEAST = 1e-3
_SEEDED = {name for name, provider in PROVIDERS.items() if provider.seeds}


def params_of_sample(provider: str, params: Mapping[str, Any], sample: int) -> Mapping[str, Any]:
    """The parameters of one sample at a server: with a seed, sample i has seed + i, or all would be the same reply.

    A negative seed means "by chance" and stays as it is. Models in this process derive a seed per sample themselves.

    Examples
    --------
    >>> params_of_sample("openai", {"seed": 7, "top_p": 0.9}, 2)
    {'seed': 9, 'top_p': 0.9}
    """
    if not sample or provider not in _SEEDED:
        return params
    seeds = {name: params[name] + sample for name in _SEEDS if type(params.get(name)) is int and params[name] >= 0}
    return Params({**params, **seeds}) if seeds else params


def has_seed(provider: str, params: Mapping[str, Any]) -> bool:
    """Whether each sample has a seed of its own, so that it needs a request of its own."""
    return params_of_sample(provider, params, 1) is not params


def why_alike(provider: str, temperature: float | None, params: Mapping[str, Any]) -> str | None:
    """What leaves nothing to chance between the samples of one judge, in words; None if nothing does.

    Examples
    --------
    >>> why_alike("openai", 0.0, {}), why_alike("openai", 1.0, {"top_k": 1}), why_alike("openai", 1.0, {"seed": "7"})
    ('the temperature is 0', 'top_k is 1', "seed is '7', not a whole number")
    >>> why_alike("openai", 1.0, {"seed": 7, "top_p": 0.9}) is None
    True
    """
    get = params.get
    if temperature is not None and temperature < _LEAST:
        return f"the temperature is {temperature:g}"
    share = get("top_p")
    is_nothing_drawn = {
        "top_k": type(get("top_k")) is int and get("top_k") == 1, "do_sample": get("do_sample") is False,
        "top_p": isinstance(share, (int, float)) and share < _LEAST,
    }  # fmt: skip
    for name in filter(is_nothing_drawn.get, is_nothing_drawn):
        return f"{name} is {get(name)}"
    for name in _SEEDS if provider in _SEEDED else ():
        if get(name) is not None and type(get(name)) is not int:
            return f"{name} is {get(name)!r}, not a whole number"
    return None


Around = tuple[Any, bytes]
"""The hash object of what stands before an input hash in the text of which a key is the hash, and what stands after."""


def key_of(input_hash: bytes, head: Any, tail: bytes) -> bytes:
    """The key (32 bytes) of an input hash, as 64 hexadecimal digits, between these."""
    whole = head.copy()
    whole.update(input_hash + tail)
    return bytes(whole.digest())


class SampleKeys:
    """Computes the keys that a judge's samples are requested under: those of `KeyParts.of_sample`.

    `parts` are those of ``KeyParts.as_dict`` that a judge and criterion share, as requested for sample 0.
    """

    __slots__ = ("_content", "_makers", "_parts", "_seeded")

    def __init__(self, parts: Mapping[str, Any], *, content: bool = False) -> None:
        self._parts, self._content = parts, content
        self._seeded = has_seed(parts["provider"], parts["params"])
        self._makers = {0: KeyMaker(parts, content=content)}

    def __call__(self, input_hash: str, order: str | None, samples: Iterable[int]) -> list[bytes]:
        """The keys (32 bytes each) of these samples of one input."""
        return [key_of(input_hash.encode(), *around) for around in self.around(order, samples)]

    def around(self, order: str | None, samples: Iterable[int]) -> list[Around]:
        """See `KeyMaker.around`."""
        if not self._seeded:
            return self._makers[0].around(order, samples)
        return [around for sample in samples for around in self._maker(sample).around(order, [sample])]

    def _maker(self, sample: int) -> KeyMaker:
        if sample not in self._makers:
            params = params_of_sample(self._parts["provider"], self._parts["params"], sample)
            self._makers[sample] = KeyMaker({**self._parts, "params": dict(params)}, content=self._content)
        return self._makers[sample]


class KeyMaker:
    """Computes the same keys as `KeyParts.key` for many inputs, about ten times faster: constant JSON is made once.

    `parts` are those of ``KeyParts.as_dict`` that a judge and criterion share; with `content` it makes content keys.
    """

    __slots__ = ("_after", "_by_order", "_parts")

    def __init__(self, parts: Mapping[str, Any], *, content: bool = False) -> None:
        self._parts = dict(parts)
        if content:
            del self._parts["rubric"], self._parts["rubric_version"]
        self._by_order: dict[str | None, tuple[Any, bytes]] = {}
        self._after = b""

    def __call__(self, input_hash: str, order: str | None, samples: Iterable[int]) -> list[bytes]:
        """The keys (32 bytes each) of these samples of one input."""
        return [key_of(input_hash.encode(), *around) for around in self.around(order, samples)]

    def around(self, order: str | None, samples: Iterable[int]) -> list[Around]:
        """For each of these samples what stands around the input hash in the hashed text: see `key_of`."""
        if order not in self._by_order:
            values, mark, number = self._parts | {"order": order}, "input hash", 987654321987654321
            text = canonical_json(values).decode()
            while mark in text or str(number) in text:  # as in odd parameters of an imported file
                mark, number = f"{mark}*", number + 1
            head, rest = canonical_json(values | {"input_hash": mark, "sample": number}).split(mark.encode())
            middle, self._after = rest.split(str(number).encode())
            self._by_order[order] = hashlib.sha256(head), middle
        head, middle = self._by_order[order]
        return [(head, b"%s%d%s" % (middle, sample, self._after)) for sample in samples]
