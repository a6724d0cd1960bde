"""What evalkit needs of a model in this process, and settings that its libraries share."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Message, Request
from evalkit.engine.providers.client import ProviderError

ENDING = threading.Event()
"""Set when the process ends: a model breaks off what it computes, since a library that is still at it aborts."""

MOST_TOKENS = 4096
"""Longest reply of a judge whose `max_tokens` is None: some models come to no end."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote for one prompt and sample; token counts include neither padding nor the other samples."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int


class Model(Protocol):
    """A loaded model; used on its own thread alone."""

    name: str
    """The model as served: its name, and its revision where it has one."""

    binds_schema: bool
    """Whether a JSON schema binds its replies."""

    seeds_samples: bool
    """Whether each sample of a batch has a seed of its own; else a prompt with a seed is computed by itself."""

    is_down: bool
    """Whether it can answer no more: it is then loaded again."""

    def answer(self, requests: Sequence[Request], n: int) -> list[list[Written] | ProviderError]:
        """For each request of one judge `n` replies, or why there are none."""
        ...

    def close(self) -> None:
        """Give the memory back."""
        ...


def stops_of(judge: Judge) -> list[Any]:
    """The texts that end a reply, as the parameter `stop` names them: one or a list; they are no part of it.

    Examples
    --------
    >>> stops_of(Judge("transformers", "m", params={"stop": "[END]"}))
    ['[END]']
    """
    stop = judge.params.get("stop") or []
    return stop if isinstance(stop, list) else [stop]


def seed_of(seed: object, *samples: int) -> int:
    """The seed of some samples, from the parameter `seed`: with one seed for all they would be the same reply.

    Examples
    --------
    >>> seed_of(1, 0) != seed_of(1, 1) != seed_of(2, 1)
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed} {samples}".encode()).digest()[:7])


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The system's text at the head of the first message of the user, for templates that know no such role."""
    first, second, *rest = messages
    return [Message(second.role, f"{first.content}\n\n{second.content}"), *rest]
