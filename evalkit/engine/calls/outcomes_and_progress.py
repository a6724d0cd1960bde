"""The results of a run of calls: an outcome per sample, and counters of the run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from evalkit.core.formatting import Bill
from evalkit.core.prompts_and_replies import Failure


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
