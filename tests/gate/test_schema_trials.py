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


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_words_are_read_in_lists_of_schemas_and_not_in_lists_of_values(word: str) -> None:
    assert unknown_words({word: [{}, {"requird": ["a"]}]}, KNOWN) == ["'requird' (did you mean 'required'?)"]
    assert unknown_words({"enum": [{"requird": 1}], "required": ["requird"], "const": {"requird": 1}}, KNOWN) == []
