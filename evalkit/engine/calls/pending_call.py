"""A call that is not finished: its request, its failed attempts, its outcome and the progress of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from evalkit.core.formatting import Bill
from evalkit.core.prompts_and_replies import Failure
from evalkit.engine.request import Request


class CannotStartYetError(Exception):
    """Another run or process is requesting the same samples, or the judge's first replies are being waited for."""


@dataclass(eq=False)
class CallFailedError(Exception):
    """A call ends without a reply."""

    failure: Failure


@dataclass(slots=True, eq=False)
class PendingCall:
    """A request and its failed attempts.

    Attributes
    ----------
    failed, limited
        Attempts that failed in transport, and attempts that were refused by a rate limit.
    maybe_paid
        Attempts that may have been billed without an answer.
    spent_usd
        US$ of attempts that came back empty; the reply that follows costs this as well.
    problem
        Why the last attempt failed, in words; blank before it.
    adapt
        Parameters that the last attempt renamed or left out.
    refused, refusals
        Parameters that an error refused for this call: what it sends instead, and what the error said.
    epoch, n_answered
        The rate limiter's epoch, and how many calls it had seen answered, when the last attempt was sent.
    is_hung
        It timed out while the server answered as many calls as were in flight: its load is not the reason.
    claimed
        Keys that this process has claimed for it.
    waits
        How often another process or run was found to be requesting the same samples.
    waiting_since
        When that was first found, by the loop's clock; else None.
    """

    request: Request
    failed: int = 0
    limited: int = 0
    maybe_paid: int = 0
    spent_usd: float = 0.0
    problem: str = ""
    adapt: Mapping[str, Any] = field(default_factory=dict)
    refused: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)
    epoch: int = 0
    n_answered: int = 0
    is_hung: bool = False
    claimed: tuple[bytes, ...] = ()
    waits: int = 0
    waiting_since: float | None = None

    def leave_out(self, keys: Container[bytes]) -> None:
        """Remove the samples with these reply keys."""
        self.request = self._with(index for index, key in enumerate(self.request.keys) if key not in keys)

    def split(self, start: int = 0, size: int = 1) -> list[PendingCall]:
        """Calls for `size` samples each, from the `start`-th on; the first call keeps the counts of failed attempts."""
        n = len(self.request.keys)
        places = [range(offset, min(offset + size, n)) for offset in range(start, n, size)]
        parts = [
            PendingCall(self._with(of_part), refused=self.refused.copy(), refusals=self.refusals.copy())
            for of_part in places
        ]
        if not start:
            parts[0].failed, parts[0].limited, parts[0].maybe_paid = self.failed, self.limited, self.maybe_paid
            parts[0].spent_usd = self.spent_usd
        return parts

    def _with(self, places: Iterable[int]) -> Request:
        """The request for some of its samples."""
        request, places = self.request, list(places)
        samples = tuple(request.samples[index] for index in places)
        return replace(request, samples=samples, keys=tuple(request.keys[index] for index in places))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one sample: the stored reply as JSON in `value`, or a `failure`.

    `joined`: another run or process sent the call, and pays for it.
    """

    key: bytes
    value: bytes | None = None
    failure: Failure | None = None
    joined: bool = field(default=False, compare=False)


@dataclass(slots=True)
class Progress:
    """Counters of a run.

    Attributes
    ----------
    done
        Samples whose reply is stored.
    failed
        Samples without a reply: reason -> number.
    problems
        For each judge and reason what the server said last.
    total
        All samples.
    in_flight
        Requests that were sent and not answered yet.
    cost_usd
        US$ of this run's replies whose price is known.
    n_bought, n_unpriced
        Replies that this run, and no other, asked for; of these, those whose price is unknown.
    maybe_paid
        Requests without an answer that may have been billed.
    stopped
        Whether the run sends no new calls and waits for those in flight.
    """

    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)
    total: int = 0
    in_flight: int = 0
    cost_usd: float = 0.0
    n_bought: int = 0
    n_unpriced: int = 0
    maybe_paid: int = 0
    stopped: bool = False

    @property
    def n_failed(self) -> int:
        """Samples without a reply."""
        return sum(self.failed.values())

    @property
    def bill(self) -> Bill:
        """What the replies that this run asked for cost."""
        return Bill(self.cost_usd, self.n_bought, self.n_unpriced)

    def after(self, earlier: Progress) -> Progress:
        """The counters of a run that goes on after an earlier one, as those of one run."""
        totals = {name: getattr(earlier, name) + getattr(self, name) for name in _COUNTED}
        return replace(self, **totals, problems=earlier.problems | self.problems)


_COUNTED = ("done", "failed", "total", "cost_usd", "n_bought", "n_unpriced", "maybe_paid")
