"""The samples in flight on one event loop, over all runs: each is asked for once, whoever wants it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakKeyDictionary

from evalkit.core.prompts_and_replies import Failure
from evalkit.engine.cache.in_flight import InFlight

SampleKey = tuple[str, bytes, float | None]
"""Store, reply key and `newer_than`."""

if TYPE_CHECKING:
    from evalkit.engine.calls.outcomes import Outcome

    Samples: TypeAlias = InFlight[asyncio.Future[Outcome]]

_REASONS_OF_A_RUN = ("budget", "stopped", "judge_down")

_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Samples] = WeakKeyDictionary()


def samples_in_flight() -> Samples:
    """Those of the running loop; their futures give an `Outcome`."""
    loop = asyncio.get_running_loop()
    if loop not in _by_loop:
        _by_loop[loop] = InFlight(loop.create_future)
    return _by_loop[loop]


def is_of_its_run(failure: Failure | None) -> bool:
    """Whether a failure is that of the run that made the call, not of the sample: other runs may still ask."""
    return failure is not None and failure.reason in _REASONS_OF_A_RUN
