"""Reply keys: committed vectors, the fast maker against the definition, and that every part counts."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import TESTS

from evalkit.core.reply_keys import KEY_SCHEMA, KeyMaker, KeyParts, canonical_json, digest

VECTORS = json.loads((TESTS / "vectors" / "reply_keys.json").read_text(encoding="utf-8"))


def sha256_of(values: dict[str, Any]) -> str:
    """The key as ADR 2 defines it, by the standard library alone."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # the definition writes numbers from 1e-5 on without an exponent, Python from 1e-4 on
    return hashlib.sha256(text.replace("1e-05", "0.00001").encode()).hexdigest()


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_committed_vectors(vector: dict[str, Any]) -> None:
    # a change here makes every stored reply unreachable: it needs another KEY_SCHEMA and an ADR
    values = vector["parts"]
    parts = KeyParts.from_dict(values)
    assert parts.key.hex() == vector["key"] == sha256_of(values)
    content = {name: value for name, value in values.items() if name not in ("rubric", "rubric_version")}
    assert parts.content_key.hex() == vector["content_key"] == sha256_of(content)
    assert parts.as_dict() == values


def test_vectors_differ_where_they_should() -> None:
    assert len(VECTORS) >= 8
    assert len({vector["key"] for vector in VECTORS}) == len(VECTORS)
    by_name = {vector["name"]: vector for vector in VECTORS}
    plain, version = by_name["plain"], by_name["another version of an unchanged criterion"]
    assert plain["key"] != version["key"]
    assert plain["content_key"] == version["content_key"]


def test_canonical_json_is_sorted_dense_utf8() -> None:
    assert canonical_json({"б": 1, "a": [True, None, 1.0], "A": "ё"}) == '{"A":"ё","a":[true,null,1.0],"б":1}'.encode()
    assert digest({}) == hashlib.sha256(b"{}").hexdigest()


def test_another_schema_number_is_refused() -> None:
    with pytest.raises(ValueError, match="has format 2, but this evalkit reads only format 1"):
        KeyParts.from_dict({**VECTORS[0]["parts"], "schema": KEY_SCHEMA + 1})


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
# floats of a size that JSON writers agree on; `sha256_of` is Python's
numbers = st.floats(min_value=1e-3, max_value=1e6) | st.just(0.0)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
hashes = st.integers(0, 2**256 - 1).map(lambda number: f"{number:064x}")
some_parts = st.builds(
    KeyParts,
    provider=texts,
    service=texts,
    model=texts,
    rubric=texts,
    rubric_version=texts,
    rubric_hash=hashes,
    template_hash=hashes,
    temperature=st.none() | numbers,
    max_tokens=st.none() | st.integers(1, 10**6),
    params=st.dictionaries(texts, json_values, max_size=3),
    input_hash=hashes,
    order=st.sampled_from([None, "AB", "BA"]),
    sample=st.integers(0, 10**4),
)


@given(some_parts)
def test_key_is_the_definition(parts: KeyParts) -> None:
    values = {name: getattr(parts, name) for name in KeyParts.__slots__} | {"schema": KEY_SCHEMA}
    assert parts.key.hex() == sha256_of(values)


@pytest.mark.long
@given(some_parts, st.lists(st.tuples(hashes, st.sampled_from([None, "AB", "BA"])), max_size=3), st.booleans())
def test_fast_maker_equals_the_definition(parts: KeyParts, inputs: list[tuple[str, str | None]], content: bool) -> None:
    maker = KeyMaker(json.loads(parts.shared_json()), content=content)
    for input_hash, order in inputs:
        samples = range(parts.sample, parts.sample + 3)
        wanted = [replace(parts, input_hash=input_hash, order=order, sample=sample) for sample in samples]
        expected = [asked.content_key if content else asked.key for asked in wanted]
        assert list(maker(input_hash, order, samples)) == expected


@pytest.mark.long
@given(some_parts, some_parts, st.sampled_from(KeyParts.__slots__))
def test_every_part_changes_the_key(parts: KeyParts, other: KeyParts, name: str) -> None:
    changed = replace(parts, **{name: getattr(other, name)})
    same = canonical_json(getattr(changed, name)) == canonical_json(getattr(parts, name))
    assert (changed.key == parts.key) == same
    if name in ("rubric", "rubric_version"):
        assert changed.content_key == parts.content_key
    else:
        assert (changed.content_key == parts.content_key) == same


@pytest.mark.long
@given(some_parts)
def test_parts_survive_json(parts: KeyParts) -> None:
    back = KeyParts.from_dict(json.loads(canonical_json(parts.as_dict())))
    assert back.key == parts.key
    shared = KeyParts.from_dict(json.loads(back.shared_json()))
    own = replace(shared, input_hash=parts.input_hash, order=parts.order, sample=parts.sample)
    assert own.key == parts.key


def test_samples_of_three_are_the_first_of_five() -> None:
    parts = KeyParts.from_dict(VECTORS[0]["parts"])
    maker = KeyMaker(json.loads(parts.shared_json()))
    three, five = (list(maker(parts.input_hash, None, range(k))) for k in (3, 5))
    assert five[:3] == three
    assert len(set(five)) == 5
