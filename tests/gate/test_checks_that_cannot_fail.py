"""Checks that no answer can fail are refused, and those that an answer can fail are taken."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import ConfigError
from evalkit.gate.checks import CHECKS
from evalkit.gate.config import Expected
from evalkit.gate.config_files import load_gate
from evalkit.gate.pattern_trials import _LONG, _own, _short_texts, own_texts

FREE_PATTERNS: list[str] = [
    "(?!.*password)",
    "(?!x)|",
    "(?<!zz)",
    "a*",
    "",
    "^",
    "$",
    "^.*",
    ".*$",
    "(?s).*",
    "(30 days)?",
    "x|",
    "\\A",
    "\\Z",
    "(?=)",
    "(^|x)",
    "(?m)^",
    "(?m)$",
    "(?s)\\A.*\\Z",
    "^(.|\n)*$",
    "\\A[\\s\\S]*",
    "(?!foo)(?!bar)|$",
    "(?i)(?!.*secret)",
    "(?!^.*password)",
    "(?<!a)|(?<!b)",
    "(?:(?!x).)*",
    "[^<]*",
    "(?!.*(foo|bar))",
    "(?<![0-9])",
    "\\w*",
    "(?!\\d)",
    "(?!.*\\d{3}-\\d{2})",
    "x{0,5}",
    "(?>a*)",
    "a*+",
    "(?:)",
    "(?P<n>a)?",
    "(a)?(?(1)|)",
    "(?!a)(?!b)(?!c)",
    "\\d*\\s*$",
    "(?#c)",
    "(?x) ",
    "(?!sorry)|(?=sorry)",
    "(?s)(?!.*sorry)",
    "\\s*",
    "(?<!x)(?<!y)",
    "[\\s\\S]*?",
    "(?:a|b|)*",
    "(?m)(?!^password)",
    "^|password",
    "(?=.*)",
    "(?!)|",
    "(?<=)",
    "(?!never)\\w*",
    "(?a)\\W*",
    "(?:no)?(?:yes)?",
    "(?<!\\bnot\\b )",
    "(?!.*<script)",
    "(?!.{5000,})",
    "(?!(?:ab ){3000})",
    "^(?:.|\\s)*",
    "(?-i:)",
    "()",
]
STRICT_PATTERNS: list[str] = [
    "^(?!.*password)",
    "(?s)\\A(?!.*x)",
    "^((?!password).)*$",
    "^(?!.*\\bpassword\\b)",
    "^(?!.*(\\d)\\1{2})",
    "^(?!.*[一-鿿])",
    "^(?!.*(?<!not )recommended)",
    "^(?!.*(?=.*foo)bar)",
    "^(?!(?=.*a)(?=.*b).*$)",
    "\\A(?!\\s*\\Z)",
    "(?s)^(?!.*END.+)",
    "^(?:(?!foo)[\\s\\S])*$",
    "^(?!.{1000,})",
    "^(?!(?:.*\\n){20})",
    "^(?=.{0,5000}$)",
    "(?s)^.{0,150000}$",
    "(?s)\\A.{0,1000000}\\Z",
    "^[^<>]*$",
    "\\A[\\x00-\\x7f]*\\Z",
    "^$",
    "\\b",
    "^(\\w+\\s?)*$",
    "(?<=a)|(?=b)",
    "[^a]",
    "30|sixty",
    "a+",
    "^(?!.*(foo|bar))",
    "(?i)^(?!.*secret)",
    "^(?!.*\\b\\d{3}-\\d{2}-\\d{4}\\b)",
    "(?s)^(?!.*```)",
    "^(?!I'm sorry)",
    "^(?!As an AI)(?!I cannot)",
    "^\\W*(\\w+\\W*){0,50}$",
    "(?s)^(?!.*\\{\\{)",
    "^(?!(?:\\S+\\s+){300})",
    "(?m)^(?!.*password)",
    "\\A(?!(?i:sorry))",
    "^(?!.*[\\w.]+@[\\w.]+)",
    "^(?!\\s)",
    "(?s)^(?!.*\\s\\Z)",
    "^(?!.*([A-Z])\\1)",
    "^[^A-Z]*$",
    "(?s)\\A[^\\n]*\\Z",
    "\\A(?:[^\\n]*\\n){0,30}[^\\n]*\\Z",
    "^(?!.*https?://)",
    "(?<!not )approved",
    "^(?!$)",
    "^(?!.*  )",
    "^(?!.*\\t)",
    ".",
    "\\S",
    "^(?!.*(?:kill|murder|bomb))",
    "^(?!.*\\bpassword\\b.*\\b\\w{8}\\b)",
    "^(?!.*[<>])",
    "\\A\\s*\\{.*\\}\\s*\\Z",
    "^(?!(.).*\\1$)",
    "^(?=(?:(?!bad).)*$)",
    "(?s)^(?!.*(?P<q>['\\\"])x(?P=q))",
    "^(?!.*[\\U0001F300-\\U0001FAFF])",
    "^(?:[^e]|e(?!vil))*$",
    "^(?!.*\\d{16})",
    "^.{0,280}\\Z",
]
FREE_SCHEMAS: list[dict[str, Any]] = [
    {"properties": {"a": {}}},
    {"properties": {"a": True}},
    {"minLength": 0},
    {"type": ["array", "boolean", "integer", "null", "number", "object", "string"]},
    {"type": ["array", "boolean", "null", "number", "object", "string"]},
    {"anyOf": [{}, {"type": "string"}]},
    {"not": {"not": {}}},
    {"allOf": [{}]},
    {"additionalProperties": True},
    {"items": {}},
    {"required": []},
    {"if": {"type": "object"}, "then": {}},
    {"propertyNames": {}},
    {"patternProperties": {".*": True}},
    {"minItems": 0},
    {"minProperties": 0},
    {"pattern": ".*"},
    {"pattern": "(?!.*x)"},
    {"format": "dait"},
    {"$ref": "#/$defs/a", "$defs": {"a": {}}},
    {"title": "x"},
    {"requird": ["a"]},
    {"propertys": {"a": {"type": "string"}}},
    {"contentEncoding": "base64"},
    {"not": False},
    {"anyOf": [{"type": "object"}, {"not": {"type": "object"}}]},
    {"dependentRequired": {"a": []}},
    {"dependentSchemas": {"a": {}}},
    {"prefixItems": [{}]},
    {"uniqueItems": False},
    {"oneOf": [True]},
    {"allOf": [{"properties": {"x": {}}}, {"minLength": 0}]},
    {"default": 1},
    {"examples": [1]},
    {"not": {"allOf": [False]}},
    {"items": {"properties": {"a": {"minLength": 0}}}},
    {"properties": {"a": {"items": {"anyOf": [{}, {"type": "null"}]}}}},
    {"if": {"const": 3}},
    {"then": {"type": "object"}},
    {"else": False},
    {"contains": {}, "minContains": 0},
    {"unevaluatedProperties": True},
    {"unevaluatedItems": {}},
    {"readOnly": True},
    {"anyOf": [{"minimum": 0}, {"not": {"minimum": 0}}]},
    {"properties": {"a": {"$ref": "#"}}},
    {"$defs": {"a": {"type": "string"}}},
    {"definitions": {"a": {"type": "string"}}, "title": "q"},
    {"Type": "object"},
    {"minlength": 3},
    {"additional_properties": False},
    {"items": {"requierd": ["a"]}},
    {"properties": {"score": {"minimun": 0}}},
    {"anyOf": [True, False]},
    {"$comment": "x"},
    {"description": "y", "properties": {}},
    {"patternProperties": {"^x": {}}},
    {"if": False, "then": False},
    {"if": True, "else": False},
    {"properties": {"a": {"type": ["array", "boolean", "integer", "null", "number", "object", "string"]}}},
    {"not": {"type": "string", "minimum": 3, "const": 5}},
    {"format": "my-own"},
]
STRICT_SCHEMAS: list[dict[str, Any]] = [
    {"type": "object"},
    {"properties": {"a": {"type": "string"}}},
    {"required": ["a"]},
    {"enum": [1, 2]},
    {"const": None},
    {"minLength": 1},
    {"maxLength": 10},
    {"maxLength": 100000},
    {"maxLength": 1000000},
    {"minimum": 0},
    {"minimum": -1000000},
    {"maximum": 1000000000000.0},
    {"exclusiveMaximum": 1000000000000000.0},
    {"multipleOf": 0.5},
    {"multipleOf": 0.001},
    {"maxItems": 1000},
    {"minItems": 1},
    {"uniqueItems": True},
    {"contains": {"type": "string"}},
    {"minProperties": 1},
    {"maxProperties": 100},
    {"additionalProperties": False},
    {"propertyNames": {"pattern": "^[a-z]+$"}},
    {"propertyNames": {"maxLength": 50}},
    {"patternProperties": {"^x-": {"type": "string"}}},
    {"patternProperties": {"^S_\\d{3}$": {"type": "number"}}},
    {"not": {"required": ["zzz"]}},
    {"not": {"type": "string"}},
    {"not": {"const": "abc"}},
    {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
    {"not": {"properties": {"a": {"enum": ["x"]}, "b": {"minimum": 5}}, "required": ["a", "b"]}},
    {"properties": {"a": {"properties": {"b": {"properties": {"c": {"type": "integer"}}}}}}},
    {"items": {"items": {"items": {"type": "string"}}}},
    {"prefixItems": [{}, {}, {"type": "string"}]},
    {"if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]}, "then": {"required": ["b"]}},
    {
        "if": {"properties": {"kind": {"const": "x"}, "n": {"minimum": 5}}, "required": ["kind", "n"]},
        "then": {"required": ["b"]},
    },
    {"dependentRequired": {"a": ["b"]}},
    {"dependentSchemas": {"a": {"required": ["b"]}}},
    {"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"x": {"type": "string"}}}}},
    {"properties": {"children": {"items": {"$ref": "#"}}, "v": {"type": "integer"}}},
    {"pattern": "^(?!.*password)"},
    {"pattern": "^[^@]*$"},
    {"pattern": "^(?!.*\\d{3}-\\d{2})"},
    {"format": "date"},
    {"format": "email"},
    {"type": ["string", "null"]},
    {"anyOf": [{"type": "string"}, {"type": "object"}]},
    {"oneOf": [{"type": "string"}, {"minLength": 2}]},
    {"allOf": [{"properties": {"x": {"maximum": 3}}}]},
    {"type": "object", "requierd": ["a"]},
    {"type": "array", "items": {"type": "object"}},
    {"properties": {"a": {"enum": ["yes", "no"]}}},
    {"properties": {"tags": {"items": {"maxLength": 20}}}},
    {"not": {"anyOf": [{"required": ["error"]}, {"required": ["errors"]}]}},
    {"properties": {"password": False}},
    {"not": {"properties": {"x": {"properties": {"y": {"const": 7}}, "required": ["y"]}}, "required": ["x"]}},
    {"items": {"not": {"enum": ["bad", "worse"]}}},
    {"additionalProperties": {"type": "number"}},
    {"unevaluatedProperties": False, "properties": {"a": {}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": False},
    {"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"a": ["b"]}},
    {"minContains": 2, "contains": {"type": "integer"}},
    {"contains": {"const": 3}, "maxContains": 1, "minContains": 0},
    {"properties": {"n": {"multipleOf": 5}}},
    {"properties": {"name": {"pattern": "^[A-Z]"}}},
    {"properties": {"a": {"contains": {"const": "q"}, "minContains": 0, "maxContains": 0}}},
    {"type": "null"},
]
WORDS = {
    "requird": "required",
    "propertys": "properties",
    "minlength": "minLength",
    "additional_properties": "additionalProperties",
}


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


def test_there_are_sixty_of_each() -> None:
    assert min(len(set(FREE_PATTERNS)), len(set(STRICT_PATTERNS)), len(FREE_SCHEMAS), len(STRICT_SCHEMAS)) >= 60


@pytest.mark.long
def test_patterns_that_cannot_fail_are_refused_and_no_others() -> None:
    refused = {text: refusal_of({"type": "regex", "pattern": text}) or "" for text in FREE_PATTERNS + STRICT_PATTERNS}
    assert [text for text in FREE_PATTERNS if "matches every answer" not in refused[text]] == []
    assert [text for text in STRICT_PATTERNS if refused[text]] == []
    # the pattern that it advises finds the text on any line
    assert (advised := r"(?s)\A(?!.*text)") in refused["(?!.*password)"]
    assert [bool(re.search(advised, answer)) for answer in ("a", "a\ntext", "text", "a\nb")] == [
        True,
        False,
        False,
        True,
    ]


def test_each_strict_pattern_fails_a_text_that_is_tried() -> None:
    """The trial is no opinion: there is a text that the pattern does not match."""
    for text in STRICT_PATTERNS:
        pattern = re.compile(text)
        own = _own(pattern)
        tried = [*_short_texts(own), *own.too_long, *_LONG]
        assert not all(pattern.search(trial) for trial in tried), text


def test_the_words_of_a_pattern_are_tried_within_other_text() -> None:
    tried = set(own_texts(re.compile("b")))
    assert {"b", "B", "bb", "BB", "aba", " b ", "\nb\n"} <= tried


@pytest.mark.long
def test_words_that_a_pattern_forbids() -> None:
    """With ^, a pattern that forbids words can fail; without, it cannot: it is found at the end of the text."""
    draw = random.Random(35)
    for _ in range(300):
        words = [
            "".join(draw.choices("abcdeXYZ019-é ", k=draw.randint(1, 8))).strip() or "x"
            for _ in range(draw.randint(1, 3))
        ]
        inner = "|".join(map(re.escape, words))
        free = draw.choice(["(?!.*(?:{}))", "(?s)(?!.*(?:{}))", "(?i)(?!{})", "(?!.*{})|", "(?:(?!{}).)*"]).format(
            inner
        )
        strict = draw.choice(
            ["^(?!.*(?:{}))", r"(?s)\A(?!.*(?:{}))", "(?i)^(?!{})", "^(?:(?!{}).)*$", "(?:{})"]
        ).format(inner)
        assert "matches every answer" in (refusal_of({"type": "regex", "pattern": free}) or ""), free
        assert refusal_of({"type": "regex", "pattern": strict}) is None, strict


@pytest.mark.long
def test_schemas_that_cannot_fail_are_refused_and_no_others() -> None:
    free = {json.dumps(one): refusal_of({"type": "json_schema", "schema": one}) or "" for one in FREE_SCHEMAS}
    assert [text for text, said in free.items() if "accepts every answer" not in said] == []
    strict = {json.dumps(one): refusal_of({"type": "json_schema", "schema": one}) for one in STRICT_SCHEMAS}
    assert {text: said for text, said in strict.items() if said} == {}


def test_schemas_within_schemas_that_cannot_fail() -> None:
    """What cannot fail, put anywhere into a schema, cannot fail there; and one that can, can, deep inside."""
    draw = random.Random(7)
    wraps: list[Any] = [
        lambda inner: {"properties": {"part": inner}}, lambda inner: {"items": inner},
        lambda inner: {"allOf": [inner, {}]},
        lambda inner: {"additionalProperties": inner}, lambda inner: {"$ref": "#/$defs/one", "$defs": {"one": inner}},
        lambda inner: {"patternProperties": {"^a": inner}}, lambda inner: {"prefixItems": [{}, inner]},
    ]  # fmt: skip
    plain = [one for one in FREE_SCHEMAS if "$ref" not in json.dumps(one)]
    leaves: list[dict[str, Any]] = [
        {"type": "string"},
        {"minimum": 3},
        {"enum": ["x"]},
        {"required": ["q"]},
        {"maxLength": 5},
    ]
    for _ in range(60):
        free, strict = draw.choice(plain), draw.choice(leaves)
        for wrap in draw.choices([*wraps[:4], *wraps[5:]], k=draw.randint(0, 2)) + draw.choices(wraps, k=1):
            free, strict = wrap(free), wrap(strict)
        assert "accepts every answer" in (refusal_of({"type": "json_schema", "schema": free}) or ""), free
        assert refusal_of({"type": "json_schema", "schema": strict}) is None, strict


@pytest.mark.parametrize("word", WORDS)
def test_a_misspelt_word_is_named(word: str) -> None:
    value: Any = {"requird": ["a"], "propertys": {"a": {}}, "minlength": 3}.get(word, False)
    said = refusal_of({"type": "json_schema", "schema": {word: value}})
    assert said is not None
    assert f"'{word}' (did you mean '{WORDS[word]}'?)" in said
    notes = notes_on({"type": "object", word: value})
    assert notes == [f"the JSON schema has words that are ignored: '{word}' (did you mean '{WORDS[word]}'?)"]


def test_a_schema_without_a_type_gets_one_note() -> None:
    notes = {}
    for schema in ({"properties": {"a": {"type": "string"}}}, {"minLength": 1}, {"type": "object"}, {"enum": [1]},
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
