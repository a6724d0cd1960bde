"""Single flight: a sample that is being asked for is asked for once, whoever wants it."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from evalkit.core.records import Failure
from evalkit.engine.calls.outcomes import Outcome

__all__ = ["FlightKey", "Flights", "flights_here"]

FlightKey = tuple[str, bytes, float | None]
"""Store, reply key and `newer_than`."""

_OWNERS_REASONS = ("budget", "stopped", "judge_down")

_all: WeakKeyDictionary[asyncio.AbstractEventLoop, Flights] = WeakKeyDictionary()


def flights_here() -> Flights:
    """The running loop's flights."""
    return _all.setdefault(asyncio.get_running_loop(), Flights())


class Flights:
    """Samples under way: key -> future of their outcome."""

    def __init__(self) -> None:
        self._open: dict[FlightKey, asyncio.Future[Outcome]] = {}

    def join(self, key: FlightKey) -> tuple[asyncio.Future[Outcome], bool]:
        """The flight of a key, and whether the caller started it and has to land it."""
        flight = self._open.get(key)
        if flight is not None:
            return flight, False
        flight = self._open[key] = asyncio.get_running_loop().create_future()
        return flight, True

    def land(self, key: FlightKey, outcome: Outcome) -> None:
        """Tell all that wait for a key."""
        flight = self._open.pop(key, None)
        if flight is not None and not flight.done():
            flight.set_result(outcome)


def is_owners(failure: Failure | None) -> bool:
    """Whether a failure is that of the run that started the flight, not of the sample: others may still ask."""
    return failure is not None and failure.reason in _OWNERS_REASONS
