"""What a run of calls has brought: an outcome per sample, counters of the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from evalkit.core.prompts_and_replies import Failure


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one sample: the stored reply as JSON in `value`, or a `failure`."""

    key: bytes
    value: bytes | None = None
    failure: Failure | None = None


@dataclass(slots=True)
class Progress:
    """Counters of a run.

    Attributes
    ----------
    done
        Samples whose reply is stored.
    failed
        Samples without a reply: reason -> number.
    total
        All samples.
    in_flight
        Requests that were sent and not answered yet.
    cost_usd
        US$ of this run's replies whose price is known.
    n_unpriced
        Replies whose price is unknown.
    maybe_paid
        Requests without an answer that may have been billed all the same.
    stopped
        Whether nothing more is sent, and what is in flight is waited for.
    """

    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    total: int = 0
    in_flight: int = 0
    cost_usd: float = 0.0
    n_unpriced: int = 0
    maybe_paid: int = 0
    stopped: bool = False

    @property
    def n_failed(self) -> int:
        """Samples without a reply."""
        return sum(self.failed.values())
