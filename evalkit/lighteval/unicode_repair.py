"""Replaces halves of surrogate pairs, which some models write, so that texts can be sent and stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def repaired(value: Any) -> Any:
    r"""The value with U+FFFD for each half of a surrogate pair, in strings, lists and mappings; whole pairs are joined.

    One such character would lose the other answers of a task, or LightEval's files.

    Examples
    --------
    >>> repaired({"text": ["a \ud83d b"], "n": 1}) == {"text": ["a \ufffd b"], "n": 1}
    True
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value
    if isinstance(value, Mapping):
        return {repaired(name): repaired(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(repaired(inner) for inner in value)
    return value


_OF_DOCUMENT = ("query", "instruction", "choices", "specific")
_OF_RESPONSE = ("input", "text", "text_post_processed", "reasonings")


def repair_document(doc: Any) -> None:
    """Repair the texts of a LightEval document and of its few-shot examples, in place."""
    for one in (doc, *(doc.fewshot_samples or ())):
        for name in _OF_DOCUMENT:
            setattr(one, name, repaired(getattr(one, name)))


def repair_response(response: Any) -> None:
    """Repair the texts of a model's response, in place."""
    for name in _OF_RESPONSE:
        setattr(response, name, repaired(getattr(response, name)))


def repaired_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A response as LightEval stores it, with repaired texts; its many tokens stay as they are."""
    return {name: repaired(value) if name in _OF_RESPONSE else value for name, value in sample.items()}
