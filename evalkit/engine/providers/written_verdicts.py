"""Write a verdict in the form that a prompt requires: JSON, tags, one number or label, or a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from evalkit.core.prompts_and_replies import Prompt

Code = int | float | str

_TAGGED = "[FEEDBACK] {text} [RESULT] {code} [END]"
_USUAL_FORMS = ("{text}\nScore: {code}", "{text}\n[[{code}]]", _TAGGED, "{text}\nRating: [[{code}]]", "{text}\n{code}")
_VERDICT_FIELDS = ("score", "label", "verdict", "result", "answer", "choice")


def write_reply(prompt: Prompt, code: Code, text: str) -> str:
    """A reply with the verdict `code` and the explanation `text`."""
    if prompt.form == "json":
        return orjson.dumps(verdict_fields(prompt.schema, code, text)).decode()
    if prompt.form == "tagged":
        return _TAGGED.format(text=text, code=code)
    if prompt.form.startswith("regex:"):
        return _matching_reply(prompt.form.removeprefix("regex:"), code, text)
    return str(code)


def verdict_fields(schema: Mapping[str, Any] | None, code: Code, text: str) -> dict[str, Any]:
    """The fields of a JSON reply: the code where the schema wants a verdict, `text` in its other texts."""
    properties = (schema or {}).get("properties") or {"explanation": {"type": "string"}, "score": {}}
    fields: dict[str, Any] = {}
    for name, rule in properties.items():
        if allowed := rule.get("enum"):
            fields[name] = next((value for value in allowed if str(value) == str(code)), allowed[0])
        elif rule.get("type") == "string" and (not isinstance(code, str) or name not in _VERDICT_FIELDS):
            fields[name] = text
        else:
            fields[name] = code
    return fields


def _matching_reply(pattern: str, code: Code, text: str) -> str:
    """The first of the usual forms in which the pattern finds the code, else one made of the pattern's own words."""
    for form in (*_USUAL_FORMS, "{text}\n" + _form_of(pattern), _form_of(pattern)):
        reply = form.format(text=text, code=code)
        matches = list(re.finditer(pattern, reply))
        if matches and str(code) in (matches[-1].groupdict().get("score"), *matches[-1].groups(), matches[-1][0]):
            return reply
    return f"{text}\n{code}"


def _form_of(pattern: str) -> str:
    """The pattern as a form: its literal text, with the code in the place of its first group."""
    text = re.sub(r"\(\?[a-zA-Z]+\)|\\[bBAZ]|[\^$]", "", pattern)
    text = re.sub(r"\((?!\?[:=!])[^()]*\)", "\x00", text, count=1)
    text = re.sub(r"\\s[*+?]?|\s+", " ", text)
    text = re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*+?()|]", "", text))
    return text.replace("{", "{{").replace("}", "}}").replace("\x00", "{code}")
