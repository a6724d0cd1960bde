"""How `judge` goes about it: what may be asked, from where and for how much."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from evalkit.core.choices import ON_MISS, RECORDED, OnMiss, Recorded
from evalkit.errors import ConfigError

__all__ = ["Options", "Refresh"]

Refresh = bool | float | datetime | date | str


@dataclass(frozen=True, slots=True)
class Options:
    """How `judge` goes about it: cache, network and budget. Can be pickled, but for `on_progress`.

    `on_progress` is called with the engine's `Progress` at most ten times a second, in the caller's thread; an
    exception that it raises stops the run, what is in flight is waited for and stored.
    """

    offline: bool = False
    on_miss: OnMiss = "row"
    recorded: Recorded = "miss"
    refresh: Refresh = False
    adopt: bool = False
    cache: Path | None = None
    concurrency: int = 64
    retries: int = 5
    budget_usd: float | None = None
    max_calls: int | None = None
    progress: bool | None = None
    replies: bool = False
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    on_progress: Callable[[Any], object] | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("on_miss", ON_MISS), ("recorded", RECORDED)):
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name}={getattr(self, name)!r} is unknown; allowed are {', '.join(allowed)}")
        if not isinstance(self.refresh, bool) and self.refresh != "unscored":
            object.__setattr__(self, "refresh", _moment(self.refresh))
        if self.offline and self.refresh:
            raise ConfigError("refresh asks the judges again, offline forbids it: choose one")
        for name, least in (("concurrency", 1), ("retries", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} must be a whole number ≥ {least}, not {value!r}")

    @property
    def takes_recorded(self) -> bool:
        """Whether recorded replies count as found."""
        return self.offline or self.recorded == "use"


def _moment(given: Any) -> float:
    """The Unix time of a time stamp: a number, a datetime or date, an ISO text."""
    try:
        if isinstance(given, str):
            given = datetime.fromisoformat(given)
        if isinstance(given, date) and not isinstance(given, datetime):
            given = datetime(given.year, given.month, given.day)  # noqa: DTZ001  # a day begins by the clock on the wall
        moment = given.timestamp() if isinstance(given, datetime) else float(given)
        if not math.isfinite(moment):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(
            f"refresh={given!r} is unknown; allowed are False, True, 'unscored' or a time stamp: "
            "Unix seconds, a datetime, or a text such as 2026-01-31 or 2026-01-31T12:30"
        ) from None
    return moment
