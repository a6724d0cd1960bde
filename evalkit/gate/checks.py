"""The checks that need no judge, one record for each (`CHECKS`), and what a pattern or a schema lets through."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from evalkit.core.strict_json import read_json
from evalkit.errors import ConfigError, InputError, MissingExtraError, advise_extra
from evalkit.gate.time_limit import TooSlowError, can_limit, limited
from evalkit.gate.traces import REDACTED
from evalkit.tables.calls import CallRules
from evalkit.tables.items import canonical_text
from evalkit.tables.messages import messages_of

if TYPE_CHECKING:
    from evalkit.gate.results_and_exit_code import Status


_TEXTS = (
    "",
    "a",
    '"0"',
    "\n",
    "-1.5, 42 %",
    "AA  bb\t\u4e2d \U0001f600",
    "I'm sorry, I can't help with that.",
    '{"a": [1, null]}',
    "<p class='b'>```{{x}}```</p>\n",
    "anna@example.org https://example.org/?a=1 +1 202 555 0123, 123-45-6789, 1234567890123456",
    "one two three\n" * 40,
    (
        "$5 €9.99 £3 2024-01-31 19:45 1999 2030 [1] **b** !!! error 5 is is \u041f\u0440\u0438\u0432\u0435\u0442 "
        "DE00000000000000000000 sk-AAAAAAAAAAAAAAAAAAAAAAAA"
    ),
    "# b\n\n\n\n- c AAAAAAAAAAAAAAAAAAAAAA aaaaaaaaaaaaaaaaaaaaaaaa 000000000000000000000000",
)
_LONG = "one two three " * 4_000 + "\none two three" * 4_000
_SYNTAX = re.compile(r"\(\?(?:<?[=!]|[:>#]|P?[<=>]?\w*[>)]|[a-zA-Z-]+:)|\\[A-Za-z0-9]|(?<!\\)[\^$.|?*+()\[\]{}]")
_LINT_SECONDS = 0.2
_VALUES: tuple[Any, ...] = (None, {}, [], 0, "text", True)
_LEAST_KINDS = 3
_BESIDE_VALIDATORS = frozenset({"$ref", "$defs", "definitions", "then", "else", "minContains", "maxContains"})
_BY_NAME = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependencies", "dependentRequired", "dependentSchemas",
})  # fmt: skip


def matches_all(pattern: re.Pattern[str]) -> bool:
    r"""Whether a pattern is found in a dozen fixed texts, in each of its own words, and in these joined.

    False if the short texts take too long. The long text does not count if it takes too long.

    Examples
    --------
    >>> [matches_all(re.compile(text)) for text in (r"a*", r"(?!.*secret)", r"^(?!.*secret)", r"\d")]
    [True, True, False, False]
    """
    words = [re.sub(r"\\(.)", r"\1", word) for word in _SYNTAX.split(pattern.pattern) if word]
    joined = [separator.join([*words, *reversed(words)]) for separator in ("", " ", "\n")]
    try:
        with limited(_LINT_SECONDS):
            if not all(pattern.search(text) for text in [*_TEXTS, *words, *joined]):
                return False
    except TooSlowError:
        return False
    if not can_limit():
        return True
    try:
        with limited(_LINT_SECONDS):
            return pattern.search(_LONG) is not None
    except TooSlowError:  # an unanchored look-around takes a quadratic time
        return True


def accepts_all(fits: Callable[[Any], bool]) -> bool:
    """Whether null, {}, [], 0, a text and true fit a schema; False too if that cannot be decided."""
    return _n_accepted(fits, _VALUES) == len(_VALUES)


def takes_any_kind(schema: Mapping[str, Any], fits: Callable[[Any], bool]) -> bool:
    """Whether a schema without a type lets numbers, texts, lists or objects through, of which it says nothing."""
    return "type" not in schema and _n_accepted(fits, (42, "text", [], {})) >= _LEAST_KINDS


def _n_accepted(fits: Callable[[Any], bool], values: tuple[Any, ...]) -> int:
    """How many of the values fit; 0 if that takes too long, or cannot be decided."""
    try:
        with limited(_LINT_SECONDS):
            return sum(map(fits, values))
    except (TooSlowError, RecursionError):
        return 0
    except Exception:  # noqa: BLE001  # for a $ref that leads nowhere, the library raises anything
        return 0


def unknown_words(schema: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    """Words of a schema that its draft does not know and that look like a keyword, with that keyword.

    Examples
    --------
    >>> unknown_words({"type": "object", "requird": ["a"]}, frozenset({"type", "required"}))
    ["'requird' (did you mean 'required'?)"]
    """
    known |= _BESIDE_VALIDATORS
    keywords = {keyword.casefold(): keyword for keyword in known}
    found: dict[str, None] = {}
    for word in _words(schema, known):
        if word not in known and not word.startswith("x-"):
            near = difflib.get_close_matches(word.casefold().replace("_", ""), keywords, 1, 0.75)
            found |= {f"{word!r} (did you mean {keywords[keyword]!r}?)": None for keyword in near}
    return list(found)


def _words(schema: Mapping[str, Any], known: frozenset[str]) -> Iterator[str]:
    """The words of a schema and of all schemas within it."""
    for word, value in schema.items():
        yield word
        if word not in known or word in ("const", "enum"):
            continue
        parts = value.values() if word in _BY_NAME and isinstance(value, Mapping) else [value]
        for part in value if isinstance(value, list) else parts:
            if isinstance(part, Mapping):
                yield from _words(part, known)


_SECONDS = 5.0  # of computing, for one check of one answer
_REDACTED_WORDS = {"pass": "the check passes", "fail": "the check fails"}


@dataclass(frozen=True, slots=True)
class Check:
    """A kind of check that needs no judge.

    Attributes
    ----------
    fields
        Key of an expectation -> its type; the expectation has exactly one of these keys.
    compile
        From the value of that key, by its name, and the folder of the configuration: what `check` and `notes` take.
        ConfigError if it cannot be used.
    check
        From what was compiled and an answer: the status and its reason. It reads no file and no URL.
    reads
        What it checks: the answer, or another field of the trace as an item.
    notes
        What the check lets through that its author may not expect; if the flag is set, words are not quoted.
    """

    fields: Mapping[str, Any]
    compile: Callable[[Mapping[str, Any], Path], Any]
    check: Callable[[Any, Any], tuple[Status, str]]
    reads: str = "response"
    notes: Callable[[Any, bool], list[str]] = lambda *_: []

    def status_of(self, compiled: Any, answer: Any, *, redact: bool = False) -> tuple[Status, str]:
        """Status of one answer; with `redact`, the message quotes neither answer nor expectation.

        A check that cannot be decided (an unresolved ``$ref``, an answer nested too deeply, a pattern that takes too
        long) is an ``error``, and so is the ConfigError of `compile`, if it is passed in place of what it returns.

        Examples
        --------
        >>> CHECKS["must_contain"].status_of(["30 days"], "for 30 days")
        ('pass', "contains '30 days'")
        """
        if isinstance(compiled, ConfigError):
            return "error", str(compiled)
        if answer is None:
            return "error", f"the trace has no {self.reads} to check; add it, or omit the check"
        try:
            with limited(_SECONDS):
                status, message = self.check(compiled, answer)
        except TooSlowError:
            text = f"the check was stopped after {_SECONDS:g} s of computing; simplify the pattern or schema"
            status, message = "error", text
        if redact:
            message = f"{_REDACTED_WORDS.get(status, 'the check cannot be decided')} for {REDACTED}"
        return status, message


def one_or_more(value: Any) -> Any:
    """A single value as a list of one."""
    return value if isinstance(value, (list, tuple)) or value is None else [value]


def _phrase(text: str) -> str:
    if not text.strip():
        raise ValueError("a blank text is in nearly every answer; give the text that the answer must contain")
    return text


def _texts(given: Mapping[str, Any], _: Path) -> list[str]:
    return [canonical_text(text) for text in given["value"]]


def _contains(texts: list[str], answer: str) -> tuple[Status, str]:
    missing = [text for text in texts if text not in answer]
    shown = ", ".join(map(repr, missing or texts))
    return ("fail", f"does not contain {shown}") if missing else ("pass", f"contains {shown}")


def _pattern(text: str) -> str:
    r"""A regular expression that does not match every text, as `a*`, `^.*`, `\A`, `(^|x)` and `(?!.*x)` do."""
    try:
        always = matches_all(re.compile(text))
    except (re.error, OverflowError, RecursionError) as problem:
        reason = str(getattr(problem, "msg", problem)).partition("'")[0].strip()  # quotes nothing of the pattern
        raise ValueError(f"invalid regular expression ({reason})") from None
    if always:
        advice = (
            "; to forbid a text, begin with \\A, as in (?s)\\A(?!.*text)" if "(?!" in text or "(?<!" in text else ""
        )
        raise ValueError(
            "this pattern matches every text that evalkit tries, its own words too; give a pattern that some answers "
            f"do not match{advice}"
        )
    return text


def _matches(pattern: re.Pattern[str], answer: str) -> tuple[Status, str]:
    if pattern.search(answer) is None:
        return "fail", f"does not match {pattern.pattern!r}"
    return "pass", f"matches {pattern.pattern!r}"


def _schema(given: Mapping[str, Any], folder: Path) -> Any:
    """The compiled schema; MissingExtraError if the package jsonschema is missing."""
    try:
        import jsonschema
        from referencing import Registry
    except ImportError:
        raise MissingExtraError(
            f"json_schema needs the package jsonschema: {advise_extra('gate')}, or use regex or must_contain"
        ) from None
    schema, file = given.get("schema"), given.get("schema_file")
    try:
        if file is not None:
            schema = read_json((folder / file).read_text(encoding="utf-8-sig"))
        schema = read_json(json.dumps(schema))  # YAML allows more than JSON: NaN, dates, keys that are not text
        if not isinstance(schema, dict):
            raise TypeError(f"expected a mapping, got a {type(schema).__name__}")
        plain = None if "$schema" in schema else jsonschema.Draft202012Validator
        if (kind := jsonschema.validators.validator_for(schema, default=plain)) is None:
            raise ValueError(f"unknown $schema {schema['$schema']!r}; name a draft of JSON Schema, or omit it")
        kind.check_schema(schema)
        # with this registry a $ref is not fetched from the network
        compiled = kind(schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)
        if accepts_all(compiled.is_valid):
            words = _unknown_words(compiled)
            unknown = f"; it does not know {words}" if words else ""
            raise ValueError(
                f"this JSON schema accepts null, {{}}, [], 0, a text and true; use at least {{type: object}}{unknown}"
            )
    except OSError as problem:
        raise ConfigError(f"{file} cannot be read: {(problem.strerror or str(problem)).lower()}") from None
    except (ValueError, TypeError, jsonschema.SchemaError, RecursionError) as problem:
        raise ConfigError(f"invalid JSON Schema: {getattr(problem, 'message', str(problem))}") from None
    return compiled


def _unknown_words(validator: Any) -> str:
    """The words of a compiled schema that its draft does not know."""
    return ", ".join(unknown_words(validator.schema, frozenset(validator.VALIDATORS)))


def _fits(validator: Any, answer: str) -> tuple[Status, str]:
    try:
        value = read_json(answer)
    except RecursionError:
        return "error", "the answer is nested too deeply to be read"
    except ValueError as problem:
        return "fail", f"invalid JSON: {problem}"
    try:
        error = next(iter(validator.iter_errors(value)), None)
        place = "" if error is None else f"{error.json_path}: {error.message[:200]}"
    except RecursionError:
        return "error", "the schema refers to itself endlessly, or the answer is nested too deeply"
    except Exception as problem:  # noqa: BLE001  # for an unresolved $ref the library raises anything
        return "error", f"the schema cannot be used ({str(problem).partition(chr(10))[0][:200]})"
    return ("pass", "fits the schema") if error is None else ("fail", f"does not fit the schema at {place}")


def _notes_on_schema(validator: Any, redact: bool) -> list[str]:
    words = _unknown_words(validator)
    notes = [f"the JSON schema has words that are ignored: {REDACTED if redact else words}"] if words else []
    if takes_any_kind(validator.schema, validator.is_valid):
        notes.append("the JSON schema has no type, so an answer of any other kind fits, such as 42; add type: object")
    return notes


def _call_rules(given: Mapping[str, Any]) -> CallRules:
    """The rules of a mapping, which some log must break."""
    try:
        rules = CallRules(**given)
    except (ConfigError, TypeError) as problem:
        raise ValueError(f"{problem}; allowed: {', '.join(CallRules.__slots__)}") from None
    if not (rules.made or rules.forbidden or rules.most is not None):
        raise ValueError("these rules allow any calls; set made, forbidden or most")
    return rules


def _obeys(rules: CallRules, messages: Any) -> tuple[Status, str]:
    try:
        log = messages_of(messages)
        problems = rules.failures(log)
    except InputError as problem:
        return "error", str(problem)
    if not log:
        return "error", "the trace has no messages to check; add them, or omit the check"
    return ("fail", "; ".join(problems)) if problems else ("pass", "the calls are as expected")


_Phrases = Annotated[
    list[Annotated[str, AfterValidator(_phrase)]], BeforeValidator(one_or_more), Field(min_length=1)
]  # fmt: skip
CHECKS = {
    "must_contain": Check({"value": _Phrases}, _texts, _contains),
    "regex": Check(
        {"pattern": Annotated[str, AfterValidator(_pattern)]}, lambda given, _: re.compile(given["pattern"]), _matches
    ),
    "json_schema": Check({"schema": dict[str, Any], "schema_file": str}, _schema, _fits, notes=_notes_on_schema),
    "calls": Check(
        {"calls": Annotated[dict[str, Any], AfterValidator(_call_rules)]},
        lambda given, _: given["calls"],
        _obeys,
        "messages",
    ),
}
"""Type of an expectation -> the check without a judge."""
