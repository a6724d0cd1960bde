"""A call that is not finished: what it asks for and what has happened to it so far."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.core.prompts_and_replies import Failure, Request


class ClaimedElsewhereError(Exception):
    """Another run or process is asking for a call's samples just now."""


@dataclass(eq=False)
class CallFailedError(Exception):
    """A call ends without a reply."""

    failure: Failure


@dataclass(slots=True, eq=False)
class PendingCall:
    """A request, and what went wrong with it so far.

    Attributes
    ----------
    failed, limited
        Attempts that failed in transport, and that met a rate limit.
    maybe_paid
        Attempts that may have been billed without an answer.
    adapt
        Which parameters the last attempt sent otherwise.
    epoch
        The rate limiter's epoch when the last attempt was sent.
    claimed
        Keys that this process has claimed for it.
    waits
        How often it found that another process, or another run, is asking for the same.
    waiting_since
        When it first found that, by the loop's clock; None otherwise.
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

    def leave_out(self, keys: Container[bytes]) -> None:
        """Ask no more for the samples with these reply keys."""
        self.request = self._with(place for place, key in enumerate(self.request.keys) if key not in keys)

    def singly(self, start: int = 0) -> list[PendingCall]:
        """One call per sample from the `start`-th on; if that is the first, it keeps what went wrong so far."""
        parts = [PendingCall(self._with([place])) for place in range(start, len(self.request.keys))]
        if not start:
            parts[0].failed, parts[0].limited, parts[0].maybe_paid = self.failed, self.limited, self.maybe_paid
        return parts

    def _with(self, places: Iterable[int]) -> Request:
        """The request for some of its samples."""
        request, places = self.request, list(places)
        samples = tuple(request.samples[place] for place in places)
        return replace(request, samples=samples, keys=tuple(request.keys[place] for place in places))
