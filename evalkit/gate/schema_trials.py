"""Values to try a JSON schema on: a schema that all of them fit is a check that cannot fail.

Some are the same for all schemas: a number, a text, a list, an object, null. The others are made of the schema's own
names, values and limits, at the places where it speaks of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from evalkit.gate.computing_time import TooSlowError, can_limit, limited
from evalkit.gate.pattern_trials import own_texts

_PLAIN: tuple[Any, ...] = (0, -1, 1.5, "", "a", [], {}, None, True, False)
_ODD: tuple[Any, ...] = (
    -1e9, 1e9, 1 / 3, "a" * 1000, [None, None], [1, "a", {}], [[]], {"evalkit": None}, {"a": {"a": []}},
)  # fmt: skip
_SECONDS = 0.5
_DEPTH = 6
_MOST, _MOST_VALUES = 20_000, 60
_LONGEST = 2_000_000
_SAME_PLACE = ("not", "if", "then", "else", "additionalProperties", "unevaluatedProperties")
_LISTS = ("allOf", "anyOf", "oneOf")
_NAMED = ("properties", "$defs", "definitions", "dependentSchemas", "patternProperties")
_UNDERSTOOD = frozenset({
    "$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$recursiveRef", "$vocabulary", "$comment",
    "$defs", "definitions", "title", "description", "default", "deprecated", "readOnly", "writeOnly", "examples",
    "example", "format", "contentEncoding", "contentMediaType", "contentSchema", "then", "else", "nullable", "name",
    "discriminator", "xml", "externalDocs", "minContains", "maxContains", "strict", "order", "enumNames", "meta",
})  # fmt: skip
_LEAST_KINDS = 3
_OF_KIND: dict[str, list[Any]] = {
    "string": ["a", ""], "integer": [0], "number": [0.5], "boolean": [True, False], "null": [None], "array": [[]],
    "object": [{}],
}  # fmt: skip
_WRONG: tuple[Any, ...] = (None, 0, "a", [], {})


def accepts_all(schema: Mapping[str, Any], fits: Callable[[Any], bool]) -> bool:
    """Whether all values that are tried fit a schema; False too if that takes too long, or cannot be decided."""

    def accepts() -> bool:
        if not all(fits(value) for value in _PLAIN):
            return False
        # without a limit of time, a schema of a few lines may take hours
        values = chain(_ODD, _Trials(schema).at(schema, lambda value: [value], 0))
        tried = enumerate(values) if can_limit() else ()
        return all(number < _MOST and fits(value) for number, value in tried)

    return _decided(accepts)


def takes_any_kind(schema: Mapping[str, Any], fits: Callable[[Any], bool]) -> bool:
    """Whether a schema without a type lets numbers, texts, lists or objects through, of which it says nothing."""
    kinds: tuple[Any, ...] = (42, "text", [], {})
    return "type" not in schema and _decided(lambda: sum(fits(value) for value in kinds) >= _LEAST_KINDS)


def _decided(question: Callable[[], bool]) -> bool:
    """The answer to a question about a schema; False if that takes too long, or cannot be decided."""
    try:
        with limited(_SECONDS):
            return question()
    except (TooSlowError, RecursionError):
        return False
    except Exception:  # noqa: BLE001  # for a $ref that leads nowhere, the library raises anything
        return False


def unknown_words(schema: Any, known: frozenset[str]) -> list[str]:
    """Words of a schema that no draft knows and that look like a keyword, with that keyword.

    Examples
    --------
    >>> unknown_words({"type": "object", "requird": ["a"]}, frozenset({"type", "required"}))
    ["'requird' (did you mean 'required'?)"]
    """
    found: dict[str, None] = {}
    for part in _subschemas(schema):
        for word in part:
            if word in known or word in _UNDERSTOOD or word.startswith("x-"):
                continue
            near = difflib.get_close_matches(word, known | {"$defs", "$ref"}, 1, 0.75)
            same = next((one for one in known if one.casefold() == word.casefold().replace("_", "")), None)
            if near or same:
                found[f"{word!r} (did you mean {same or near[0]!r}?)"] = None
    return list(found)


def _subschemas(schema: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas within it."""
    if not isinstance(schema, Mapping) or depth > _DEPTH * 3:
        return
    yield schema
    for word, value in schema.items():
        if word in _NAMED and isinstance(value, Mapping):
            inner: list[Any] = list(value.values())
        elif word in (*_LISTS, "prefixItems", "items") and isinstance(value, list):
            inner = value
        elif word in (*_SAME_PLACE, "items", "contains", "propertyNames", "additionalItems", "unevaluatedItems"):
            inner = [value]
        else:
            continue
        for part in inner:
            yield from _subschemas(part, depth + 1)


class _Trials:
    """Values for a schema and for the schemas within it, each in its place."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._done: set[tuple[int, int]] = set()

    def at(self, schema: Any, wrap: Callable[[Any], list[Any]], depth: int) -> Iterator[Any]:
        """Values for a schema, put in their place by `wrap`."""
        if not isinstance(schema, Mapping) or depth > _DEPTH or (id(schema), depth) in self._done:
            return
        self._done.add((id(schema), depth))
        for value in [*self._fitting(schema, depth), *_edges(schema), *_PLAIN, *_ODD]:
            yield from wrap(value)
        for part, inner in self._parts(schema, wrap, depth):
            yield from self.at(part, inner, depth + 1)

    def _parts(
        self, schema: Mapping[str, Any], wrap: Callable[[Any], list[Any]], depth: int
    ) -> Iterator[tuple[Any, Callable[[Any], list[Any]]]]:
        """The schemas within a schema, and where their values are."""
        whole = next((value for value in self._fitting(schema, depth) if isinstance(value, dict)), {})

        def named(name: str) -> Callable[[Any], list[Any]]:
            return lambda value: [one for made in ({name: value}, whole | {name: value}) for one in wrap(made)]

        for word, value in schema.items():
            if word in ("properties", "patternProperties", "dependentSchemas") and isinstance(value, Mapping):
                for text, part in value.items():
                    names = _texts_of(text)[:3] if word == "patternProperties" else [text]
                    for name in names:
                        yield part, _with_name(wrap, name) if word == "dependentSchemas" else named(name)
            elif word in ("additionalProperties", "unevaluatedProperties"):
                yield value, named("evalkit")
            elif word == "propertyNames":
                yield value, lambda made: wrap({made: None}) if isinstance(made, str) else []
            elif word in ("$ref", "not", "if", "then", "else"):
                yield self._target(value) if word == "$ref" else value, wrap
            elif word in (*_LISTS, "items", "prefixItems") and isinstance(value, list):
                yield from ((part, wrap if word in _LISTS else _at(wrap, at)) for at, part in enumerate(value))
            elif word in ("items", "contains", "additionalItems", "unevaluatedItems"):
                yield value, lambda made: [*wrap([made]), *wrap([made, made])]

    def _target(self, ref: Any) -> Any:
        """What a local ``$ref`` names."""
        if not isinstance(ref, str) or not ref.startswith("#"):
            return None
        found: Any = self._root
        for part in ref.removeprefix("#").split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _fitting(self, schema: Any, depth: int) -> list[Any]:
        """Values that may fit a schema."""
        if not isinstance(schema, Mapping) or depth > _DEPTH:
            return [0] if schema is not False else []
        if "const" in schema:
            return [schema["const"]]
        if isinstance(schema.get("enum"), list):
            return list(schema["enum"][:_MOST_VALUES])
        if "$ref" in schema:
            return self._fitting(self._target(schema["$ref"]), depth + 1)
        made = _scalars(schema) + self._containers(schema, depth)
        for word in _LISTS:
            parts = [self._fitting(part, depth + 1) for part in schema.get(word) or ()]
            made += [value for values in parts for value in values[:4]]
            objects = [value for values in parts for value in values if isinstance(value, dict)]
            made += [{name: value for one in objects for name, value in one.items()}] if objects else []
        if "if" in schema:
            made += self._fitting(schema["if"], depth + 1)
        return made[:_MOST_VALUES]

    def _containers(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        properties, required = schema.get("properties"), schema.get("required")
        properties = properties if isinstance(properties, Mapping) else {}
        names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        made: list[Any] = []
        if properties or names:
            values = {
                name: (self._fitting(properties.get(name, {}), depth + 1) or [None])[0]
                for name in dict.fromkeys([*properties, *names])
            }
            made += [values, {name: values[name] for name in names}]
        items, least = schema.get("items"), schema.get("minItems")
        if isinstance(items, Mapping) or isinstance(least, int):
            n = min(least, _MOST) if isinstance(least, int) else 1
            made += [[value] * max(1, n) for value in (self._fitting(items, depth + 1) or [None])[:3]]
        if "contains" in schema:
            made += [[value] for value in self._fitting(schema["contains"], depth + 1)[:3]]
        return made


def _with_name(wrap: Callable[[Any], list[Any]], name: str) -> Callable[[Any], list[Any]]:
    return lambda made: wrap({name: None} | (made if isinstance(made, dict) else {}))


def _at(wrap: Callable[[Any], list[Any]], at: int) -> Callable[[Any], list[Any]]:
    return lambda made: wrap([*[None] * at, made])


def _scalars(schema: Mapping[str, Any]) -> list[Any]:
    """Texts and numbers that may fit."""
    made: list[Any] = []
    if isinstance(schema.get("pattern"), str):
        made += _texts_of(schema["pattern"])[:8]
    if isinstance(least := schema.get("minLength"), int):
        made.append("a" * min(least, _LONGEST))
    for word, limit in _numbers(schema, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        made += [limit, limit + (1 if "inimum" in word else -1)]
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        made += _OF_KIND.get(str(kind), [])
    return made


def _edges(schema: Mapping[str, Any]) -> list[Any]:
    """Values beyond each limit of a schema, and the texts that its patterns are tried on."""
    made: list[Any] = []
    for _, limit in _numbers(schema, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
        made += [limit, limit - 1, limit + 1, 2 * limit - 1, 2 * limit + 1]
    for _, step in _numbers(schema, "multipleOf"):
        made += [step * 1.5, step / 3]
    sizes = {word: schema[word] for word in schema if word.startswith(("min", "max")) and isinstance(schema[word], int)}
    for word, size in sizes.items():
        n = min(size + 1 if word.startswith("max") else max(0, size - 1), _LONGEST if "Length" in word else _MOST)
        if "Length" in word:
            made.append("a" * n)
        elif "Items" in word or "Contains" in word:
            made += [[None] * n, list(range(n)), [1] * n]
        elif "Properties" in word:
            made.append({str(at): None for at in range(n)})
    if isinstance(schema.get("pattern"), str):
        made += _texts_of(schema["pattern"])
    for word in ("properties", "dependentRequired", "dependentSchemas", "dependencies"):
        if isinstance(schema.get(word), Mapping):
            made += [{name: value} for name in schema[word] for value in _WRONG]
    if isinstance(schema.get("patternProperties"), Mapping):
        made += [{name: None} for text in schema["patternProperties"] for name in _texts_of(text)[:8]]
    return made


def _texts_of(pattern: str) -> list[str]:
    try:
        return [text for _, text in zip(range(_MOST_VALUES), own_texts(re.compile(pattern)), strict=False)]
    except (re.error, OverflowError, RecursionError):
        return []


def _numbers(schema: Mapping[str, Any], *words: str) -> list[tuple[str, float]]:
    found = ((word, schema.get(word)) for word in words)
    return [(word, value) for word, value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
