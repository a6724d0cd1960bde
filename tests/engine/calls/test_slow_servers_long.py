"""Servers that need long for a reply, or never answer: how many calls are in flight, what is lost, what is paid.

A part of `benchmarks/random_servers.py`: real calls over HTTP, on a loop whose minutes pass in milliseconds.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks"))

from aiohttp import web
from random_servers import Server, fast_time, is_billed, judged

from evalkit.engine.calls.event_loop import LoopThread
from evalkit.engine.calls.rate_limits import RateLimiter, rate_limiters


class Watched(Server):
    """It knows how many requests were open at most, when the n-th came, and answers the first `answers` alone."""

    answers = math.inf
    open_now = most = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.open_now += 1
        self.most = max(self.most, self.open_now)
        self.hung = float(self.seen["requests"] >= self.answers)
        try:
            return await super().answer(request)
        finally:
            self.open_now -= 1


@pytest.fixture(scope="module")
def thread() -> Iterator[LoopThread]:
    with fast_time() as thread:
        yield thread


def server(slots: int, seconds: float, n_items: int, seed: int, **fields: Any) -> Watched:
    made = Watched(seed, slots, seconds, **{"spread": 0.05, "computes_on": False, "hosted": False, **fields})
    made.n_items = n_items
    return made


def limiter_of(thread: LoopThread, seed: int) -> RateLimiter:
    return next(limiter for key, limiter in rate_limiters[thread.loop].items() if key[1] == f"server-{seed}")


@pytest.mark.parametrize("computes_on", [False, True], ids=["drops", "works on"])
@pytest.mark.parametrize(
    ("slots", "n_items", "hosted", "most_per_item"),
    [(1, 150, False, 1.4), (4, 60, False, 1.8), (1, 150, True, 2.6)],
    ids=["one slot", "four slots", "one slot, hosted"],
)
def test_a_slow_server_loses_nothing_by_default(
    thread: LoopThread, slots: int, n_items: int, hosted: bool, most_per_item: float, computes_on: bool
) -> None:
    """Five seconds a reply, a minute of patience: twelve replies per slot before the first call times out."""
    seed = 1000 + n_items + 10 * hosted + computes_on
    figures = judged(server(slots, 5.0, n_items, seed, hosted=hosted, computes_on=computes_on), thread)
    assert (figures["scored"], figures["lost"]) == (n_items, 0)
    assert figures["per_item"] <= most_per_item
    assert is_billed(figures)


def test_a_private_address_starts_with_eight_and_one_more_per_answer(thread: LoopThread) -> None:
    """A slow start needs no time-out: half of the time limit per answer ends it."""
    slow = server(1, 40.0, 8, 2000)
    judged(slow, thread)
    assert slow.most == 8
    fast = server(64, 1.0, 150, 2001)
    judged(fast, thread)
    assert fast.most > 32


@pytest.mark.parametrize("concurrency", [1, 20, 64])
def test_a_given_concurrency_is_used_as_given(thread: LoopThread, concurrency: int) -> None:
    made = server(100, 1.0, 100, 2100 + concurrency)
    judged(made, thread, concurrency=concurrency)
    assert made.most == concurrency


def test_a_given_concurrency_ends_the_slow_start_of_an_earlier_run(thread: LoopThread) -> None:
    made = server(100, 1.0, 3, 2200)
    judged(made, thread)
    made.n_items, made.most = 90, 0
    judged(made, thread, concurrency=50, samples=2)
    assert made.most == 50


@pytest.mark.parametrize("share", [0.01, 0.1])
def test_calls_that_hang_do_not_lower_the_limit_of_a_fast_server(thread: LoopThread, share: float) -> None:
    seed = 2300 + round(100 * share)
    made = server(1000, 0.1, 400, seed)
    made.answers, hung = math.inf, share

    async def answer(request: web.Request) -> web.StreamResponse:
        made.hung = hung
        return await Server.answer(made, request)

    made.answer = answer  # type: ignore[method-assign]
    figures = judged(made, thread, concurrency=64)
    assert figures["lost"] == 0
    assert limiter_of(thread, seed).most == math.inf


def test_a_server_that_died_is_given_up(thread: LoopThread) -> None:
    """After twelve time-outs of single calls no more are sent: a hundred calls, six attempts each, would take hours."""
    made = server(8, 2.0, 200, 2400)
    made.answers = 100
    figures = judged(made, thread)
    assert (figures["scored"], figures["lost"]) == (100, 100)
    assert figures["per_item"] < 1.5


def test_prompts_that_are_never_answered_cost_no_other_item(thread: LoopThread) -> None:
    class Deaf(Watched):
        async def answer(self, request: web.Request) -> web.StreamResponse:
            text = (await request.json())["messages"][-1]["content"]
            self.answers = 0 if any(f"question {n}\n" in text for n in range(0, 60, 10)) else math.inf
            return await super().answer(request)

    figures = judged(Deaf(2500, 8, 2.0, 0.05, False, False, n_items=60), thread)
    assert (figures["scored"], figures["lost"]) == (54, 6)


@pytest.mark.parametrize("seed", [2, 9, 16])
def test_random_servers(thread: LoopThread, seed: int) -> None:
    figures = judged(Server.of(seed), thread)
    assert figures["lost"] == 0
    assert is_billed(figures)
    assert figures["per_item"] < (2.6 if figures["hosted"] else 1.8) / (1 - figures["limited"])
