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
    return type(value)(repaired(inner) for inner in value) if isinstance(value, (list, tuple)) else value


_TEXTS = ("query", "instruction", "choices", "specific", "input", "text", "text_post_processed", "reasonings")


def repair(*parts: Any) -> None:
    """Repair the texts of LightEval's documents and responses, in place; a response's many tokens stay as they are."""
    for part in parts:
        for name in _TEXTS:
            if hasattr(part, name):
                setattr(part, name, repaired(getattr(part, name)))
