"""A call: samples of one prompt that are to be asked for, and what has become of it so far."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.core.records import Failure, Request

__all__ = ["Call", "ElsewhereError", "GaveUpError"]


class ElsewhereError(Exception):
    """Somebody else is asking for a call's samples just now."""


class GaveUpError(Exception):
    """A call ends without a reply."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


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

    request: Request
    failed: int = 0
    limited: int = 0
    maybe_paid: int = 0
    adapt: Mapping[str, Any] = field(default_factory=dict)
    epoch: int = 0
    claimed: tuple[bytes, ...] = ()
    waits: int = 0
    waiting_since: float | None = None

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The reply keys of its samples."""
        return self.request.keys

    def leave_out(self, keys: Container[bytes]) -> None:
        """Ask no more for the samples with these reply keys."""
        left = [place for place, key in enumerate(self.keys) if key not in keys]
        self.request = self._only(left)

    def part(self, start: int, stop: int) -> Call:
        """Some of the samples, as a call of its own."""
        return Call(self._only(range(start, stop)))

    def _only(self, places: Sequence[int]) -> Request:
        request = self.request
        samples = tuple(request.samples[place] for place in places)
        return replace(request, samples=samples, keys=tuple(request.keys[place] for place in places))

    def singly(self) -> list[Call]:
        """One call per sample; what went wrong so far is the first one's."""
        parts = [self.part(place, place + 1) for place in range(len(self.keys))]
        parts[0].failed, parts[0].limited, parts[0].maybe_paid = self.failed, self.limited, self.maybe_paid
        return parts
