"""The reply texts of the embedded juror: a verdict written in the form that a prompt asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.records import Prompt

__all__ = ["FAULTS", "broken_reply", "write_reply"]

Code = int | float | str

FAULTS = ("unreadable", "truncated", "empty", "refused", "off_scale", "near_json")
"""What the persona `broken` writes instead of a verdict."""

_VERDICT_FIELDS = ("score", "label", "verdict", "result", "answer", "choice")
_REGEX_FORMS = (
    "{text}\nScore: {code}",
    "{text}\nRating: [[{code}]]",
    "{text}\n[[{code}]]",
    "[FEEDBACK] {text} [RESULT] {code} [END]",
    "{text}\nGRADE: {code}",
    "{text}\nVerdict: {code}",
    "{text}\nAnswer: {code}",
    "<feedback>{text}</feedback><score>{code}</score>",
    "{text}\n{code}",
    "{code}",
)


def write_reply(prompt: Prompt, code: Code, text: str) -> str:
    """The verdict `code`, explained by `text`, in the prompt's form."""
    if prompt.form == "json":
        return orjson.dumps(_fields(prompt.schema, code, text)).decode()
    if prompt.form == "tagged":
        return f"[FEEDBACK] {text} [RESULT] {code} [END]"
    if prompt.form.startswith("regex:"):
        return _matching(prompt.form.removeprefix("regex:"), code, text)
    return str(code)


def _fields(schema: Mapping[str, Any] | None, code: Code, text: str) -> dict[str, Any]:
    properties = (schema or {}).get("properties") or {"explanation": {"type": "string"}, "score": {}}
    fields: dict[str, Any] = {}
    for name, rule in properties.items():
        allowed = rule.get("enum")
        if allowed:
            fields[name] = next((value for value in allowed if str(value) == str(code)), allowed[0])
        elif rule.get("type") == "string" and (not isinstance(code, str) or name not in _VERDICT_FIELDS):
            fields[name] = text
        else:
            fields[name] = code
    return fields


def _matching(pattern: str, code: Code, text: str) -> str:
    """A text in which the pattern finds the code: usual forms first, else the pattern's own literals."""
    for form in _regex_forms(pattern):
        reply = form.format(text=text, code=code)
        found = list(re.finditer(pattern, reply))
        if found and str(code) in (found[-1].groupdict().get("score"), *found[-1].groups(), found[-1][0]):
            return reply
    return f"{text}\n{code}"


def _regex_forms(pattern: str) -> tuple[str, ...]:
    literal = re.sub(r"\(\?[a-zA-Z]+\)|\\[bBAZ]|[\^$]", "", pattern)
    literal = re.sub(r"\((?!\?[:=!])[^()]*\)", "\x00", literal, count=1)  # the first group is the code's place
    literal = re.sub(r"\\s[*+?]?|\s+", " ", literal)
    literal = re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*+?()|]", "", literal))
    literal = literal.replace("{", "{{").replace("}", "}}").replace("\x00", "{code}")
    return (*_REGEX_FORMS, "{text}\n" + literal, literal) if "{code}" in literal else _REGEX_FORMS


def broken_reply(prompt: Prompt, code: Code, text: str, fault: str) -> tuple[str | None, str, str | None]:
    """A malformed reply: its text, finish reason and refusal."""
    if fault == "empty":
        return "", "stop", None
    if fault == "refused":
        return None, "stop", "I'm sorry, but I can't help with that."
    if fault == "unreadable":
        return "It depends on how one looks at it; both views have something for them.", "stop", None
    if fault == "off_scale":
        numbers = [value for value in prompt.codes if not isinstance(value, str)]
        return write_reply(prompt, max(numbers) + 97 if numbers else "elsewhere", text), "stop", None
    if fault == "truncated":
        if prompt.form == "json":
            return '{"explanation": "' + text[: max(3, len(text) // 2)], "length", None
        return text[: max(3, len(text) // 2)], "length", None
    if prompt.form == "json":  # near-JSON: single quotes, a trailing comma, a fence
        fields = _fields(prompt.schema, code, text.replace("'", "").replace('"', ""))
        inner = ", ".join(
            f"'{name}': {value if not isinstance(value, str) else repr(value)}" for name, value in fields.items()
        )
        return f"Here is my verdict:\n```json\n{{{inner},}}\n```", "stop", None
    return f"**{write_reply(prompt, code, text)}**", "stop", None
