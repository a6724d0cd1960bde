"""What a run of calls may do, and what it has done."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from evalkit.core.records import Failure
from evalkit.errors import ConfigError

__all__ = ["Limits", "Outcome", "Progress"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run.

    Attributes
    ----------
    concurrency
        Most calls in flight per service, model and key variable; all judges and runs there share them.
    retries
        How often a call is tried again that failed in transport.
    budget_usd
        Most US$ that may be spent, or None. Each call reserves its upper bound before it is sent.
    max_calls
        Most requests that may be answered or billed, or None.
    requests_per_minute, tokens_per_minute
        Pace per service, model and key variable, or None.

    Raises
    ------
    ConfigError
        For a number out of range.
    """

    concurrency: int = 64
    retries: int = 5
    budget_usd: float | None = None
    max_calls: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("max_calls", 0)):
            value = getattr(self, name)
            if value is None and name == "max_calls":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} {value!r} must be a whole number ≥ {least}")
        for name in ("budget_usd", "requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is None:
                continue
            good = (
                isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
            )
            if not good or (value == 0 and name != "budget_usd"):
                raise ConfigError(f"{name} {value!r} must be a number {'≥' if name == 'budget_usd' else '>'} 0")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one sample: the stored reply as JSON in `value`, or a `failure`."""

    key: bytes
    value: bytes | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Counters of a run at one moment.

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
    failed: Mapping[str, int] = field(default_factory=dict)
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
