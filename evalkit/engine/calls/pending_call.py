"""A call: samples of one prompt that are to be asked for, and what has become of it so far."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from evalkit.core.records import Draft, Failure, Request

__all__ = ["Call", "ElsewhereError", "GaveUpError", "keys_of"]


class ElsewhereError(Exception):
    """Somebody else is asking for a call's samples just now."""


class GaveUpError(Exception):
    """A call ends without a reply."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


def keys_of(asked: Request | Draft) -> tuple[bytes, ...]:
    """The reply key of each of its samples."""
    if isinstance(asked, Draft):
        return asked.keys
    return tuple(asked.parts_of(sample).key for sample in asked.samples)


@dataclass(slots=True, eq=False)
class Call:
    """Samples of one prompt and their reply keys; counts what went wrong.

    Attributes
    ----------
    failed, limited
        Attempts that failed in transport, and that met a rate limit.
    maybe_paid
        Attempts that may have been billed without an answer.
    adapt
        Which parameters the last attempt sent otherwise.
    epoch
        The lane's epoch when the last attempt was sent.
    claimed
        Keys that this process has claimed for it.
    waits
        How often it found that another process, or another run, is asking for the same.
    waiting_since
        When it found that first, by the loop's clock; None otherwise.
    """

    asked: Request | Draft
    samples: tuple[int, ...]
    keys: tuple[bytes, ...]
    failed: int = 0
    limited: int = 0
    maybe_paid: int = 0
    adapt: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    claimed: tuple[bytes, ...] = ()
    waits: int = 0
    waiting_since: float | None = None
    _request: Request | None = None

    @property
    def request(self) -> Request:
        """What is sent; the prompt is rendered when it is asked for first."""
        if self._request is None:
            asked = self.asked
            prompt = asked.prompt() if isinstance(asked, Draft) else asked.prompt
            self._request = Request(asked.judge, prompt, asked.parts, self.samples)
        return self._request

    def leave_out(self, keys: Container[bytes]) -> None:
        """Ask no more for the samples with these reply keys."""
        left = [(sample, key) for sample, key in zip(self.samples, self.keys, strict=True) if key not in keys]
        self.samples, self.keys = tuple(sample for sample, _ in left), tuple(key for _, key in left)
        self.asked, self._request = self._request or self.asked, None

    def part(self, start: int, stop: int) -> Call:
        """Some of the samples, as a call of its own."""
        return Call(self._request or self.asked, self.samples[start:stop], self.keys[start:stop])

    def singly(self) -> list[Call]:
        """One call per sample; what went wrong so far is the first one's."""
        parts = [self.part(place, place + 1) for place in range(len(self.keys))]
        parts[0].failed, parts[0].limited, parts[0].maybe_paid = self.failed, self.limited, self.maybe_paid
        return parts
