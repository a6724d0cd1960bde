"""The interface of a model in this process, and settings that both libraries share."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Request
from evalkit.engine.providers.provider_interface import ProviderError

ENDING = threading.Event()
"""Set when the process ends: models stop computing, because a library that is still computing would abort."""

MOST_TOKENS = 4096
"""Longest reply if `max_tokens` is None, since some models never stop."""


@dataclass(frozen=True, slots=True)
class Written:
    """The text for one prompt and sample; token counts exclude padding and other samples."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Model(Protocol):
    """A loaded model; used on its own thread alone."""

    name: str
    """Name of the model, with its revision if it has one."""

    binds_schema: bool
    """Whether its replies are constrained to a JSON schema."""

    seeds_samples: bool
    """Whether each sample of a batch can have its own seed; else a prompt with a seed is a batch of its own."""

    is_down: bool
    """Whether it has failed and must be loaded again."""

    def answer(self, requests: Sequence[Request], n: int) -> list[list[Written] | ProviderError]:
        """For each request of one judge, `n` replies or a `ProviderError`."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


def stops_of(judge: Judge) -> list[Any]:
    """The strings of the parameter `stop`, which end a reply and are not part of it.

    Examples
    --------
    >>> stops_of(Judge("transformers", "m", params={"stop": "[END]"}))
    ['[END]']
    """
    stop = judge.params.get("stop") or []
    return stop if isinstance(stop, list) else [stop]


def seed_of(seed: object, *samples: int) -> int:
    """The seed of some samples, derived from the parameter `seed`; with equal seeds, samples would be equal.

    Examples
    --------
    >>> seed_of(1, 0) != seed_of(1, 1) != seed_of(2, 1)
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {samples}".encode()).digest()[:7])


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages with the system text put before the user's text, for templates without a system role."""
    first, second, *rest = messages
    return [Message(second.role, f"{first.content}\n\n{second.content}"), *rest]
