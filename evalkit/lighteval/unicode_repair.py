"""Texts that can be sent, stored and saved: half a surrogate pair, as some models write it, is no text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def repaired(value: Any) -> Any:
    r"""The same with U+FFFD for each half of a surrogate pair, in texts, lists and mappings; whole pairs are joined.

    Nothing that was paid for may be lost to one such sign: neither the other answers of a task nor LightEval's files
    take it.

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
    """The texts of a LightEval document, and of its few-shot examples, in place."""
    for one in (doc, *(doc.fewshot_samples or ())):
        for name in _OF_DOCUMENT:
            setattr(one, name, repaired(getattr(one, name)))


def repair_response(response: Any) -> None:
    """The texts of a model's response, in place."""
    for name in _OF_RESPONSE:
        setattr(response, name, repaired(getattr(response, name)))


def repaired_sample(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A response as LightEval keeps it between runs: `repaired` but for its tokens, which are many."""
    return {name: repaired(value) if name in _OF_RESPONSE else value for name, value in sample.items()}
