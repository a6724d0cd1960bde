"""Checks that no answer can fail are refused, and those that an answer can fail are taken."""

from __future__ import annotations

import json
import random
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import ConfigError
from evalkit.gate.checks import CHECKS, unknown_words
from evalkit.gate.config import Expected, load_gate

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
FREE_PATTERNS: list[str] = [
    "(?!.*password)", "(?!x)|", "(?<!zz)", "a*", "", "^", "$", "^.*", ".*$", "(?s).*", "(30 days)?", "x|", r"\A",
    r"\Z", "(?=)", "(^|x)", "(?m)^", "(?m)$", r"(?s)\A.*\Z", "^(.|\n)*$", r"\A[\s\S]*", "(?!foo)(?!bar)|$",
    "(?i)(?!.*secret)", "(?!^.*password)", "(?<!a)|(?<!b)", "(?:(?!x).)*", "[^<]*", "(?!.*(foo|bar))", "(?<![0-9])",
    r"\w*", r"(?!\d)", r"(?!.*\d{3}-\d{2})", "x{0,5}", "(?>a*)", "a*+", "(?:)", "(?P<n>a)?", "(a)?(?(1)|)",
    "(?!a)(?!b)(?!c)", r"\d*\s*$", "(?#c)", "(?x) ", "(?!sorry)|(?=sorry)", "(?s)(?!.*sorry)", r"\s*", "(?<!x)(?<!y)",
    r"[\s\S]*?", "(?:a|b|)*", "(?m)(?!^password)", "^|password", "(?=.*)", "(?!)|", "(?<=)", r"(?!never)\w*",
    r"(?a)\W*", "(?:no)?(?:yes)?", r"(?<!\bnot\b )", "(?!.*<script)", "(?!.{5000,})", "(?!(?:ab ){3000})",
    r"^(?:.|\s)*", "(?-i:)", "()",
]  # fmt: skip
STRICT_PATTERNS: list[str] = [
    "^(?!.*password)", r"(?s)\A(?!.*x)", "^((?!password).)*$", r"^(?!.*\bpassword\b)", r"^(?!.*(\d)\1{2})",
    "^(?!.*[一-鿿])", "^(?!.*(?<!not )recommended)", "^(?!.*(?=.*foo)bar)", "^(?!(?=.*a)(?=.*b).*$)", r"\A(?!\s*\Z)",
    "(?s)^(?!.*END.+)", r"^(?:(?!foo)[\s\S])*$", "^(?!.{1000,})", r"^(?!(?:.*\n){20})", "^(?=.{0,5000}$)",
    r"(?s)\A.{0,100000}\Z", "^[^<>]*$", r"\A[\x00-\x7f]*\Z", "^$", r"\b", r"^(\w+\s?)*$",
    "(?<=a)|(?=b)", "[^a]", "30|sixty", "a+", "^(?!.*(foo|bar))", "(?i)^(?!.*secret)",
    r"^(?!.*\b\d{3}-\d{2}-\d{4}\b)", "(?s)^(?!.*```)", "^(?!I'm sorry)", "^(?!As an AI)(?!I cannot)",
    r"^\W*(\w+\W*){0,50}$", r"(?s)^(?!.*\{\{)", r"^(?!(?:\S+\s+){300})", "(?m)^(?!.*password)", r"\A(?!(?i:sorry))",
    r"^(?!.*[\w.]+@[\w.]+)", r"^(?!\s)", r"(?s)^(?!.*\s\Z)", r"^(?!.*([A-Z])\1)", "^[^A-Z]*$", r"(?s)\A[^\n]*\Z",
    r"\A(?:[^\n]*\n){0,30}[^\n]*\Z", "^(?!.*https?://)", "(?<!not )approved", "^(?!$)", "^(?!.*  )", r"^(?!.*\t)",
    ".", r"\S", "^(?!.*(?:kill|murder|bomb))", r"^(?!.*\bpassword\b.*\b\w{8}\b)", "^(?!.*[<>])", r"\A\s*\{.*\}\s*\Z",
    r"^(?!(.).*\1$)", "^(?=(?:(?!bad).)*$)", r"^(?!.*[\U0001F300-\U0001FAFF])", "^(?:[^e]|e(?!vil))*$",
    r"^(?!.*\d{16})", r"^.{0,280}\Z",
]  # fmt: skip
FREE_SCHEMAS: list[dict[str, Any]] = [
    {"properties": {"a": {}}}, {"properties": {"a": True}}, {"minLength": 0},
    {"type": ["array", "boolean", "integer", "null", "number", "object", "string"]},
    {"type": ["array", "boolean", "null", "number", "object", "string"]}, {"anyOf": [{}, {"type": "string"}]},
    {"not": {"not": {}}}, {"allOf": [{}]}, {"additionalProperties": True}, {"items": {}}, {"required": []},
    {"if": {"type": "object"}, "then": {}}, {"propertyNames": {}}, {"patternProperties": {".*": True}},
    {"minItems": 0}, {"minProperties": 0}, {"pattern": ".*"}, {"pattern": "(?!.*x)"}, {"format": "dait"},
    {"$ref": "#/$defs/a", "$defs": {"a": {}}}, {"title": "x"}, {"requird": ["a"]},
    {"propertys": {"a": {"type": "string"}}}, {"contentEncoding": "base64"}, {"not": False},
    {"anyOf": [{"type": "object"}, {"not": {"type": "object"}}]}, {"dependentRequired": {"a": []}},
    {"dependentSchemas": {"a": {}}}, {"prefixItems": [{}]}, {"uniqueItems": False}, {"oneOf": [True]},
    {"allOf": [{"properties": {"x": {}}}, {"minLength": 0}]}, {"default": 1}, {"examples": [1]},
    {"not": {"allOf": [False]}}, {"items": {"properties": {"a": {"minLength": 0}}}},
    {"properties": {"a": {"items": {"anyOf": [{}, {"type": "null"}]}}}}, {"if": {"const": 3}},
    {"then": {"type": "object"}}, {"else": False}, {"contains": {}, "minContains": 0},
    {"unevaluatedProperties": True}, {"unevaluatedItems": {}}, {"readOnly": True},
    {"anyOf": [{"minimum": 0}, {"not": {"minimum": 0}}]}, {"properties": {"a": {"$ref": "#"}}},
    {"$defs": {"a": {"type": "string"}}}, {"definitions": {"a": {"type": "string"}}, "title": "q"},
    {"Type": "object"}, {"minlength": 3}, {"additional_properties": False}, {"items": {"requierd": ["a"]}},
    {"properties": {"score": {"minimun": 0}}}, {"anyOf": [True, False]}, {"$comment": "x"},
    {"description": "y", "properties": {}}, {"patternProperties": {"^x": {}}}, {"if": False, "then": False},
    {"if": True, "else": False},
    {"properties": {"a": {"type": ["array", "boolean", "integer", "null", "number", "object", "string"]}}},
    {"not": {"type": "string", "minimum": 3, "const": 5}}, {"format": "my-own"},
]  # fmt: skip
STRICT_SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"}, {"required": ["a"]}, {"enum": [1, 2]}, {"const": None}, {"minItems": 1},
    {"contains": {"type": "string"}}, {"minProperties": 1}, {"not": {"required": ["zzz"]}},
    {"not": {"type": "string"}}, {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
    {"not": {"properties": {"a": {"enum": ["x"]}, "b": {"minimum": 5}}, "required": ["a", "b"]}}, {"format": "date"},
    {"format": "email"}, {"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "object"}]},
    {"oneOf": [{"type": "string"}, {"minLength": 2}]}, {"type": "object", "requierd": ["a"]},
    {"type": "array", "items": {"type": "object"}},
    {"not": {"anyOf": [{"required": ["error"]}, {"required": ["errors"]}]}},
    {"not": {"properties": {"x": {"properties": {"y": {"const": 7}}, "required": ["y"]}}, "required": ["x"]}},
    {"minContains": 2, "contains": {"type": "integer"}}, {"type": "null"},
]  # fmt: skip
FREE_WITHOUT_A_TYPE: list[tuple[str, dict[str, Any]]] = [
    ("object", {"properties": {"a": {"type": "string"}}}), ("string", {"minLength": 1}),
    ("string", {"maxLength": 10}), ("string", {"maxLength": 100000}), ("string", {"maxLength": 1000000}),
    ("number", {"minimum": 0}), ("number", {"minimum": -1000000}), ("number", {"maximum": 1000000000000.0}),
    ("number", {"exclusiveMaximum": 1000000000000000.0}), ("number", {"multipleOf": 0.5}),
    ("number", {"multipleOf": 0.001}), ("array", {"maxItems": 1000}), ("array", {"uniqueItems": True}),
    ("object", {"maxProperties": 100}), ("object", {"additionalProperties": False}),
    ("object", {"propertyNames": {"pattern": "^[a-z]+$"}}), ("object", {"propertyNames": {"maxLength": 50}}),
    ("object", {"patternProperties": {"^x-": {"type": "string"}}}),
    ("object", {"patternProperties": {"^S_\\d{3}$": {"type": "number"}}}), ("string", {"not": {"const": "abc"}}),
    ("object", {"properties": {"a": {"properties": {"b": {"properties": {"c": {"type": "integer"}}}}}}}),
    ("array", {"items": {"items": {"items": {"type": "string"}}}}),
    ("array", {"prefixItems": [{}, {}, {"type": "string"}]}),
    ("object", {"if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]}, "then": {"required": ["b"]}}),
    ("object", {"if": {"properties": {"kind": {"const": 1}}, "required": ["kind"]}, "then": {"required": ["n"]}}),
    ("object", {"dependentRequired": {"a": ["b"]}}), ("object", {"dependentSchemas": {"a": {"required": ["b"]}}}),
    ("object", {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"type": "string"}}}}}),
    ("object", {"properties": {"children": {"items": {"$ref": "#"}}, "v": {"type": "integer"}}}),
    ("string", {"pattern": "^(?!.*password)"}), ("string", {"pattern": "^[^@]*$"}),
    ("string", {"pattern": "^(?!.*\\d{3}-\\d{2})"}), ("object", {"allOf": [{"properties": {"x": {"maximum": 3}}}]}),
    ("object", {"properties": {"a": {"enum": ["yes", "no"]}}}),
    ("object", {"properties": {"tags": {"items": {"maxLength": 20}}}}),
    ("object", {"properties": {"password": False}}), ("array", {"items": {"not": {"enum": ["bad", "worse"]}}}),
    ("object", {"additionalProperties": {"type": "number"}}),
    ("object", {"unevaluatedProperties": False, "properties": {"a": {}}}),
    ("array", {"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": False}),
    ("object", {"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}),
    ("array", {"contains": {"const": 3}, "maxContains": 1, "minContains": 0}),
    ("object", {"properties": {"n": {"multipleOf": 5}}}), ("object", {"properties": {"name": {"pattern": "^[A-Z]"}}}),
    ("object", {"properties": {"a": {"contains": {"const": "q"}, "minContains": 0, "maxContains": 0}}}),
]  # fmt: skip
WORDS = {
    "requird": "required",
    "propertys": "properties",
    "minlength": "minLength",
    "additional_properties": "additionalProperties",
    "any_of": "anyOf",
    "Type": "type",
}
ANNOTATIONS = [
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$recursiveRef", "$vocabulary", "$comment",
    "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples", "example", "contentEncoding",
    "contentMediaType", "contentSchema", "minContains", "maxContains", "then", "else", "nullable", "discriminator",
    "name", "xml", "externalDocs", "strict", "order", "enumNames", "meta", "x-typ",
]  # fmt: skip


@cache
def known() -> frozenset[str]:
    import jsonschema  # takes seconds to load

    return frozenset(jsonschema.Draft202012Validator.VALIDATORS)


def notes_on(schema: dict[str, Any]) -> list[str]:
    """What is noted about a schema that is taken."""
    check = CHECKS["json_schema"]
    return check.notes(check.compile({"schema": schema}, Path()), False)


def refusal_of(expected: dict[str, Any]) -> str | None:
    """Why a check is refused; None if it is taken."""
    try:
        CHECKS[expected["type"]].compile(Expected(**expected).of_check, Path())
    except (ConfigError, ValueError) as error:
        return str(error)
    return None


def test_patterns_that_cannot_fail_are_refused_and_no_others() -> None:
    refused = {text: refusal_of({"type": "regex", "pattern": text}) or "" for text in FREE_PATTERNS + STRICT_PATTERNS}
    assert [text for text in FREE_PATTERNS if "matches every text that evalkit tries" not in refused[text]] == []
    assert [text for text in STRICT_PATTERNS if refused[text]] == []
    # the pattern that it advises finds the text on any line
    assert (advised := r"(?s)\A(?!.*text)") in refused["(?!.*password)"]
    answers = {"a": True, "a\ntext": False, "text": False, "a\nb": True}
    assert {answer: bool(re.search(advised, answer)) for answer in answers} == answers


@pytest.mark.long
def test_words_that_a_pattern_forbids() -> None:
    """With ^, a pattern that forbids words can fail; without, it cannot: it is found at the end of the text."""
    free = ["(?!.*(?:{}))", "(?s)(?!.*(?:{}))", "(?i)(?!{})", "(?!.*{})|", "(?:(?!{}).)*"]
    strict = ["^(?!.*(?:{}))", r"(?s)\A(?!.*(?:{}))", "(?i)^(?!{})", "^(?:(?!{}).)*$", "(?:{})"]
    draw = random.Random(35)
    for _ in range(100):
        words = ["".join(draw.choices("abcdeXYZ019-é.+[{(|", k=draw.randint(1, 8))) for _ in range(draw.randint(1, 3))]
        inner = "|".join(map(re.escape, words))
        pattern = draw.choice(free).format(inner)
        assert "matches every text" in (refusal_of({"type": "regex", "pattern": pattern}) or ""), pattern
        pattern = draw.choice(strict).format(inner)
        assert refusal_of({"type": "regex", "pattern": pattern}) is None, pattern


def test_what_a_pattern_forbids_beyond_the_texts_and_its_words_is_not_found() -> None:
    """A stated limit: no text that is tried has an x within quotation marks, or a million characters."""
    for pattern in (r"(?s)^(?!.*(?P<q>['\"])x(?P=q))", r"(?s)\A.{0,1000000}\Z"):
        assert "matches every text" in (refusal_of({"type": "regex", "pattern": pattern}) or "")


def test_a_schema_that_takes_six_kinds_of_values_is_refused_and_no_other() -> None:
    def is_refused(schema: dict[str, Any]) -> bool:
        said = refusal_of({"type": "json_schema", "schema": schema})
        if said is not None:
            assert "accepts null, {}, [], 0, a text and true; use at least {type: object}" in said
        return said is not None

    assert [schema for schema in FREE_SCHEMAS if not is_refused(schema)] == []
    assert [schema for schema in STRICT_SCHEMAS if is_refused(schema)] == []
    assert [schema for _, schema in FREE_WITHOUT_A_TYPE if not is_refused(schema)] == []
    assert [schema for kind, schema in FREE_WITHOUT_A_TYPE if is_refused({"type": kind, **schema})] == []


@pytest.mark.parametrize("word", WORDS)
def test_a_misspelt_word_is_named(word: str) -> None:
    value: Any = {"requird": ["a"], "propertys": {"a": {}}, "minlength": 3}.get(word, False)
    said = refusal_of({"type": "json_schema", "schema": {word: value}})
    assert said is not None
    assert f"'{word}' (did you mean '{WORDS[word]}'?)" in said
    notes = notes_on({"type": "object", word: value})
    assert notes == [f"the JSON schema has words that are ignored: '{word}' (did you mean '{WORDS[word]}'?)"]


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf", "prefixItems"])
def test_words_are_read_in_lists_of_schemas_and_not_in_lists_of_values(word: str) -> None:
    assert unknown_words({word: [{}, {"requird": ["a"]}]}, known()) == ["'requird' (did you mean 'required'?)"]
    assert unknown_words({"enum": [{"requird": 1}], "required": ["requird"], "const": {"requird": 1}}, known()) == []


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"not": {"if": inner}},
        lambda inner: {"if": {"type": "object"}, "then": inner},
        lambda inner: {"properties": {"requird": inner}},
        lambda inner: {"$defs": {"typ": {"items": inner}}},
        lambda inner: {"dependentSchemas": {"itms": inner}, "dependentRequired": {"itms": ["a"]}},
    ],
)
def test_words_are_read_in_schemas_within_schemas_and_names_are_no_words(wrap: Any) -> None:
    assert unknown_words(wrap({"minlenght": 3}), known()) == ["'minlenght' (did you mean 'minLength'?)"]


def test_words_of_the_standard_and_of_extensions_are_not_misspelt() -> None:
    import jsonschema

    schema = dict.fromkeys(ANNOTATIONS)
    for draft in (jsonschema.Draft202012Validator, jsonschema.Draft7Validator, jsonschema.Draft4Validator):
        assert unknown_words(schema, frozenset(draft.VALIDATORS)) == []


def test_a_schema_without_a_type_gets_one_note() -> None:
    notes = {}
    for schema in ({"required": ["a"]}, {"minLength": 5}, {"type": "object"}, {"enum": [1]},
                   {"anyOf": [{"type": "string"}, {"type": "number"}]},
                   {"$ref": "#/$defs/o", "$defs": {"o": {"type": "object"}}}):  # fmt: skip
        notes[json.dumps(schema)] = len(notes_on(schema))
    assert list(notes.values()) == [1, 1, 0, 0, 0, 0]


def test_a_configuration_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    text = {"e.json": json.dumps({"tests": [{"id": "t", "expected": {"type": "regex", "pattern": "1"}}]}),
            "e.yaml": "tests:\n- id: t\n  expected: {type: regex, pattern: '1'}\n"}  # fmt: skip
    for name, content in text.items():
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + content.encode())
        assert [test.id for test in load_gate(tmp_path / name).tests] == ["t"]
    (tmp_path / "bad.yaml").write_bytes(b"\xef\xbb\xbftests:\n- id: t\n  expected: {type: regex, pattern: 'a*'}\n")
    with pytest.raises(ConfigError, match="line 3"):
        load_gate(tmp_path / "bad.yaml")
