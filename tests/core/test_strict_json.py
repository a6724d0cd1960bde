"""JSON as the standard has it: no duplicate keys, no numbers that JSON lacks."""

from __future__ import annotations

import json

import pytest

from evalkit.core.strict_json import DuplicateKeyError, read_json, without_duplicates


@pytest.mark.parametrize(
    ("text", "key"),
    [('{"a": 1, "a": 1}', "a"), ('{"x": [{"b": 1, "c": 2, "c": 3}]}', "c"), ('{"a": {"b": 1}, "b": 2, "b": 3}', "b")],
)
def test_a_duplicate_key_is_named_at_any_depth(text: str, key: str) -> None:
    with pytest.raises(DuplicateKeyError, match=f"duplicate key '{key}'") as caught:
        json.loads(text, object_pairs_hook=without_duplicates)
    assert caught.value.key == key
    with pytest.raises(ValueError, match="duplicate key"):
        read_json(text)


def test_the_same_key_in_two_objects_is_no_duplicate() -> None:
    assert read_json('{"a": {"b": 1}, "b": {"b": [{"a": 2}, {"a": 3}]}}') == {
        "a": {"b": 1},
        "b": {"b": [{"a": 2}, {"a": 3}]},
    }


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "-1e999"])
def test_numbers_that_json_lacks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number that JSON allows"):
        read_json(text)
