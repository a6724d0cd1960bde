"""Options of `judge` that do not change a reply: cache, network, limits, budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypedDict

from evalkit.core.allowed_choices import ON_MISS, RECORDED, OnMiss, Recorded
from evalkit.errors import ConfigError, listed

Refresh = bool | float | datetime | date | str

_LIMITS = {
    "concurrency": ("a whole number", "≥", 1),
    "retries": ("a whole number", "≥", 0),
    "max_calls": ("a whole number", "≥", 0),
    "budget_usd": ("a number", "≥", 0),
    "requests_per_minute": ("a number", ">", 0),
    "tokens_per_minute": ("a number", ">", 0),
}


class JudgeOptions(TypedDict, total=False):
    """Options of `judge` that other functions take as ``**options``, so that editors can list and check them."""

    offline: bool
    on_miss: OnMiss
    recorded: Recorded
    refresh: Refresh
    adopt: bool
    cache: str | Path | None
    concurrency: int
    retries: int
    budget_usd: float | None
    max_calls: int | None
    progress: bool | None
    replies: bool
    requests_per_minute: float | None
    tokens_per_minute: float | None
    on_progress: Callable[[Any], object] | None


@dataclass(frozen=True, slots=True)
class Options:
    """Where `judge` looks up replies, and the limits of its calls. Can be pickled, except for `on_progress`.

    Attributes
    ----------
    offline, on_miss, recorded, refresh, adopt, progress, replies
        As in `judge`; `refresh` is a bool, ``"unscored"`` or Unix seconds.
    cache
        The cache folder; None: the default one.
    concurrency
        Maximum calls in flight per service, model and key variable, shared by all judges and runs.
    retries
        How often a failed call is sent again.
    budget_usd
        Maximum cost in US$, or None. Each call reserves its upper bound before it is sent.
    max_calls
        Maximum number of requests that are answered or may be billed, or None.
    requests_per_minute, tokens_per_minute
        Rate limits per service, model and key variable, or None.
    on_progress
        Called with the engine's `Progress` at most ten times per second, in the caller's thread. An exception that it
        raises stops the run; calls in flight are awaited and stored.

    Raises
    ------
    ConfigError
        For a value that is unknown, out of range or contradictory.
    """

    offline: bool = False
    on_miss: OnMiss = "row"
    recorded: Recorded = "miss"
    refresh: Refresh = False
    adopt: bool = False
    cache: str | Path | None = None
    concurrency: int = 64
    retries: int = 5
    budget_usd: float | None = None
    max_calls: int | None = None
    progress: bool | None = None
    replies: bool = False
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    on_progress: Callable[[Any], object] | None = None

    @classmethod
    def of(cls, function: str, options: Mapping[str, Any]) -> Options:
        """Options that a function takes as ``**options``; TypeError for others."""
        unknown = [name for name in options if name not in Options.__slots__]
        if unknown:
            raise TypeError(f"{function}() got unexpected {listed(unknown)}; allowed: {', '.join(Options.__slots__)}")
        return cls(**options)

    def __post_init__(self) -> None:
        for name, allowed in (("on_miss", ON_MISS), ("recorded", RECORDED)):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"unknown {name}={getattr(self, name)!r}; allowed: {', '.join(allowed)}")
        for name, (kind, sign, limit) in _LIMITS.items():
            value = getattr(self, name)
            if value is None and name not in ("concurrency", "retries"):
                continue
            is_number = isinstance(value, int if kind == "a whole number" else (int, float)) and math.isfinite(value)
            fits = is_number and not isinstance(value, bool) and (value >= limit if sign == "≥" else value > limit)
            if not fits:
                raise ConfigError(f"{name} must be {kind} {sign} {limit}, not {value!r}")
        if not isinstance(self.refresh, bool) and self.refresh != "unscored":
            object.__setattr__(self, "refresh", _unix_time(self.refresh))
        if self.offline and self.refresh:
            raise ConfigError(
                "refresh (call the judges again) and offline (make no calls) contradict each other; pass only one "
                "of them"
            )


def _unix_time(stamp: Any) -> float:
    """Unix seconds of a time stamp: a number, a datetime or date, an ISO string."""
    try:
        if isinstance(stamp, str):
            stamp = datetime.fromisoformat(stamp)
        if isinstance(stamp, date) and not isinstance(stamp, datetime):
            stamp = datetime(stamp.year, stamp.month, stamp.day)  # noqa: DTZ001  # a day begins by the local clock
        seconds = stamp.timestamp() if isinstance(stamp, datetime) else float(stamp)
        if not math.isfinite(seconds):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"unknown refresh={stamp!r}; allowed: False, True, 'unscored' or a time stamp: "
            "Unix seconds, a datetime, or a string such as 2026-01-31 or 2026-01-31T12:30"
        ) from None
    return seconds
