"""What the loop thread does to the process while something runs on it."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from evalkit.engine.calls.event_loop import LoopThread


@pytest.fixture(autouse=True)
def _usual_thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def settled() -> tuple[int, int, int]:
    """The thresholds of the collector once the loop thread has done what it was doing."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), LoopThread.get().loop).result(10)
    return gc.get_threshold()


@pytest.mark.parametrize(
    ("usual", "during"),
    [
        ((700, 10, 10), (50_000, 2, 2)),
        ((2000, 20, 1), (50_000, 2, 2)),
        ((0, 10, 10), (0, 10, 10)),  # switched off by the user
        ((200_000, 30, 100), (200_000, 30, 100)),  # eased by the user
    ],
)
def test_garbage_is_looked_for_more_rarely_while_something_runs_and_as_before_after_it(
    usual: tuple[int, int, int], during: tuple[int, int, int]
) -> None:
    seen: list[tuple[int, int, int]] = []
    gates = [asyncio.Event(), asyncio.Event()]

    async def work(gate: asyncio.Event) -> None:
        seen.append(gc.get_threshold())
        await gate.wait()
        seen.append(gc.get_threshold())
        if gate is gates[1]:
            raise ValueError("the last one fails")

    gc.set_threshold(*usual)
    thread = LoopThread.get()
    runs = [thread.submit(work(gate)) for gate in gates]
    assert settled() == during
    thread.loop.call_soon_threadsafe(gates[0].set)
    runs[0].result(10)
    assert settled() == during  # the other one still runs
    thread.loop.call_soon_threadsafe(gates[1].set)
    with pytest.raises(ValueError, match="the last one fails"):
        runs[1].result(10)
    assert settled() == usual
    assert seen == [during] * 4


def test_what_the_user_sets_while_something_runs_stays() -> None:
    async def work() -> None:
        gc.set_threshold(1234, 5, 6)

    gc.set_threshold(700, 10, 10)
    LoopThread.get().submit(work()).result(10)
    assert settled() == (1234, 5, 6)
    LoopThread.get().submit(asyncio.sleep(0)).result(10)
    assert settled() == (1234, 5, 6)
