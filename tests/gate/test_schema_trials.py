"""The values that a schema is tried on, from its own limits, and the words that it misspells."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from evalkit.gate.schema_trials import accepts_all, unknown_words

KNOWN = frozenset({*jsonschema.Draft202012Validator.VALIDATORS, "$ref"})


def free(schema: dict[str, Any]) -> bool:
    return accepts_all(schema, jsonschema.Draft202012Validator(schema).is_valid)


def test_a_schema_that_refers_to_itself_below_a_condition_can_be_tried() -> None:
    assert free({"properties": {"a": {"if": {"if": {"$ref": "#"}}}}})
    assert not free({"properties": {"a": {"if": {"if": {"$ref": "#"}}}}, "required": ["a"]})
    assert free({"contains": {"$ref": "#"}, "minContains": 0})


@pytest.mark.parametrize(
    "schema",
    [
        {"if": {"required": ["k"]}, "then": {"required": ["b"]}},
        {"if": {"properties": {"k": {"const": 1}}, "required": ["k"]}, "then": {"required": ["b"]}},
        {"dependentSchemas": {"a": {"not": {"required": ["q"]}}}},
    ],
)
def test_what_fails_only_an_object_of_a_certain_form_is_tried_on_one(schema: dict[str, Any]) -> None:
    assert not free(schema)
    assert free(schema | {"then": True, "dependentSchemas": {"a": {}}})


@pytest.mark.parametrize("word", ["properties", "items", "prefixItems"])
def test_what_can_fail_six_schemas_down_is_found(word: str) -> None:
    schema: dict[str, Any] = {"maxLength": 5}
    for _ in range(6):
        schema = {word: {"properties": {"a": schema}, "items": schema, "prefixItems": [{}, schema]}[word]}
    assert not free(schema)


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_words_are_read_in_lists_of_schemas_and_not_in_lists_of_values(word: str) -> None:
    assert unknown_words({word: [{}, {"requird": ["a"]}]}, KNOWN) == ["'requird' (did you mean 'required'?)"]
    assert unknown_words({"enum": [{"requird": 1}], "required": ["requird"], "const": {"requird": 1}}, KNOWN) == []


def test_words_are_read_to_a_depth_of_eighteen_schemas() -> None:
    def nested(depth: int) -> dict[str, Any]:
        return {"requird": ["a"]} if depth == 0 else {"not": nested(depth - 1)}

    assert len(unknown_words(nested(18), KNOWN)) == 1
    assert unknown_words(nested(19), KNOWN) == []
