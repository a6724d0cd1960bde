"""Limits that processes share by naming a run: leases by hand, by chance, and in real processes that are killed."""

from __future__ import annotations

import asyncio
import math
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cache_setup import BOTH, opened, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from postgres import fresh_database, stoppable_server, tools
from servers import JudgeServer, judge_server, wait_for

import evalkit as ek
from evalkit.core.settings import Options
from evalkit.engine.cache import ReplyStore
from evalkit.engine.cache import budget_and_rate_leases as leases_module
from evalkit.engine.cache.budget_and_rate_leases import Amount, BudgetLease, Granted, RateLease
from evalkit.engine.calls import shared_limits
from evalkit.engine.calls.shared_limits import SharedBudget, SharedPace
from evalkit.errors import ConfigError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9")


@pytest.fixture(params=BOTH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ReplyStore]:
    store = opened(request, tmp_path / "cache")
    yield store
    store.close()


def written(store: ReplyStore, lease: BudgetLease | RateLease) -> Any:
    """What the store answers to a lease."""

    async def write() -> Any:
        return await store.lease(lease)

    return asyncio.run(write())


def lease(holder: str, held: tuple[float, int], need: tuple[float, int], most: Amount, **more: Any) -> BudgetLease:
    return BudgetLease("r", holder, Amount(*held), Amount(*need), most=most, **more)


# --- leases of a budget, by hand


def test_two_processes_share_a_budget_and_what_ended_ones_spent_counts(store: ReplyStore) -> None:
    most = Amount(1.0, math.inf)
    first = written(store, lease("a", (0.0, 0), (0.4, 1), most))
    assert first == Granted(Amount(0.4, 0), Amount(0.0, 0), fits=True, may_return=False)
    assert written(store, lease("b", (0.0, 0), (0.5, 1), most)).fits
    third = written(store, lease("c", (0.0, 0), (0.2, 1), most))
    assert not third.fits
    assert third.may_return, "the other two may spend less"
    assert third.others.usd == pytest.approx(0.9)
    written(store, BudgetLease("r", "a", Amount(0.1, 2), ended=True))
    again = written(store, lease("c", (0.0, 0), (0.2, 1), most))
    assert again.fits
    assert again.others.usd == pytest.approx(0.6)
    assert again.others.calls == 2
    assert written(store, BudgetLease("other run", "x", Amount(0.0, 0), Amount(1.0, 1), most=most)).fits


def test_an_end_that_is_written_twice_counts_once(store: ReplyStore) -> None:
    most = Amount(1.0, 10)
    written(store, lease("a", (0.0, 0), (0.4, 1), most))
    for _ in range(2):
        written(store, BudgetLease("r", "a", Amount(0.25, 3), ended=True))
    rows = rows_of(store, "SELECT holder, usd, calls FROM leases")
    assert [(name, usd, calls) for name, usd, calls in rows] == [("", 0.25, 3)]


def test_a_renewal_that_is_written_twice_changes_nothing(store: ReplyStore) -> None:
    renewal = lease("a", (0.25, 2), (0.25, 1), Amount(1.0, 10))
    assert written(store, renewal) == written(store, renewal)
    assert rows_of(store, "SELECT usd, calls FROM leases WHERE holder = 'a'") == [(0.5, 3)]


def test_the_lease_of_a_dead_process_counts_as_spent_and_is_not_waited_for(
    store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "LEASE_S", 0.0)
    most = Amount(1.0, math.inf)
    written(store, lease("dead", (0.0, 0), (0.7, 1), most, in_flight=True))
    answer = written(store, lease("b", (0.0, 0), (0.4, 1), most))
    assert (answer.fits, answer.may_return) == (False, False)
    assert written(store, lease("b", (0.0, 0), (0.3, 1), most)).fits


def test_a_part_is_at_most_half_of_what_is_left_for_all_who_are_there(store: ReplyStore) -> None:
    most = Amount(1.0, 100)
    wish = Amount(10.0, 1000)
    assert written(store, lease("a", (0.0, 0), (0.01, 1), most, wish=wish)).amount == (0.5, 50)
    assert written(store, lease("b", (0.0, 0), (0.01, 1), most, wish=wish)).amount == (0.125, 12)  # a quarter of 0.5
    assert written(store, lease("a", (0.1, 10), (0.0, 0), most, wish=Amount(0.0, 0))).amount == (0.0, 0)


@pytest.mark.parametrize("limit", [0, 5])
def test_a_lower_limit_than_what_was_spent_grants_nothing_and_a_higher_one_goes_on(
    store: ReplyStore, limit: int
) -> None:
    written(store, lease("a", (2.0, 20), (0.0, 0), Amount(math.inf, math.inf), in_flight=True))
    assert not written(store, lease("b", (0.0, 0), (0.1, 1), Amount(math.inf, limit))).fits
    assert written(store, lease("b", (0.0, 0), (0.1, 1), Amount(3.0, 21))).fits


# --- leases of a budget, by chance

STEP = st.tuples(st.integers(0, 3), st.sampled_from(["call", "settle", "renew", "die", "end"]), st.integers(0, 100))


class _Table:
    """As much of a database as a lease uses, in memory: quick enough for thousands of leases."""

    clock = "0"

    def __init__(self) -> None:
        import sqlite3

        self.raw = sqlite3.connect(":memory:")
        self.raw.execute("CREATE TABLE leases (run, holder, usd, calls, expires, PRIMARY KEY (run, holder))")

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        return self.raw.execute(sql, parameters)


@settings(max_examples=150)
@given(st.lists(STEP, max_size=60), st.integers(1, 500), st.integers(1, 30))
def test_what_may_have_been_billed_is_never_above_the_budget(
    steps: list[tuple[int, str, int]], budget: int, most_calls: int
) -> None:
    """Four processes call, settle, renew, die and end in any order; a call's cost is at most its upper bound."""
    table, most = _Table(), Amount(budget / 100, most_calls)
    bill, calls, n_holders = 0.0, 0, 4
    # per process: holder, spent US$ and calls, upper bounds in flight, leased US$ and calls
    state: list[dict[str, Any]] = [
        {"holder": str(n), "usd": 0.0, "calls": 0, "flying": [], "leased": Amount(0.0, 0)} for n in range(4)
    ]
    for number, what, size in steps:
        own = state[number]
        held = Amount(own["usd"] + math.fsum(own["flying"]), own["calls"] + len(own["flying"]))
        if what == "call":
            bound = size / 100
            if not (held.usd + bound <= own["leased"].usd and held.calls + 1 <= own["leased"].calls):
                asked = BudgetLease("r", own["holder"], held, Amount(bound, 1), Amount(5 * bound, 5), most)
                granted = asked.write(table)  # type: ignore[arg-type]
                own["leased"] = Amount(held.usd + granted.amount.usd, held.calls + granted.amount.calls)
                if not granted.fits:
                    assert bound > most.usd - granted.others.usd - held.usd or (
                        granted.others.calls + held.calls >= most.calls
                    )
                    continue
            own["flying"].append(bound)
            calls += 1
            bill += bound * random.Random(len(own["flying"]) + size).random()  # the server bills when it comes
        elif what == "settle" and own["flying"]:
            own["usd"] += own["flying"].pop()
            own["calls"] += 1
        elif what == "renew":
            BudgetLease("r", own["holder"], held, most=most).write(table)  # type: ignore[arg-type]
            own["leased"] = held
        elif what in ("die", "end"):
            if what == "end":
                BudgetLease("r", own["holder"], held, ended=True).write(table)  # type: ignore[arg-type]
            n_holders += 1
            state[number] = {
                "holder": str(n_holders), "usd": 0.0, "calls": 0, "flying": [], "leased": Amount(0.0, 0),
            }  # fmt: skip
        used, n = table.execute("SELECT sum(usd), sum(calls) FROM leases").fetchone()
        assert bill <= (used or 0.0) + 1e-9
        assert (used or 0.0) <= most.usd + 1e-9
        assert calls <= (n or 0) <= most.calls


# --- times of calls


def test_times_follow_each_other_and_those_of_a_dead_process_pass(store: ReplyStore) -> None:
    first = written(store, RateLease("r", "s", 30.0))
    second = written(store, RateLease("r", "s", 1.0))
    assert first == pytest.approx(0.0, abs=5.0)
    assert second == pytest.approx(30.0, abs=5.0)
    assert written(store, RateLease("other run", "s", 1.0)) < 5.0
    assert written(store, RateLease("r", "other service", 1.0)) < 5.0
    written(store, RateLease("short", "s", 0.01))
    time.sleep(0.05)
    assert written(store, RateLease("short", "s", 1.0)) <= 0.0


def test_three_paces_together_keep_the_limit_and_take_times_in_bulk(store: ReplyStore) -> None:
    n_leases, lease_of = 0, store.lease

    def counted(lease: Any) -> Any:
        nonlocal n_leases
        n_leases += 1
        return lease_of(lease)

    store.lease = counted  # type: ignore[method-assign]
    starts: list[float] = []

    async def call(pace: SharedPace) -> None:
        await pace.wait(60 / 3000)
        starts.append(time.monotonic())

    async def run() -> None:
        paces = [SharedPace(store, "r", "s") for _ in range(3)]
        await asyncio.gather(*(call(pace) for pace in paces for _ in range(50)))

    asyncio.run(run())
    # 150 starts at 50 per second; a start may be a second late, so the last 100 of them are at least a second apart
    assert len(starts) == 150
    assert max(starts) - min(starts) >= 149 / 50 - 1.0
    assert n_leases <= 9, "at most 1 second each: 49 of them"


# --- the budget of one process


def shared(store: ReplyStore, **options: Any) -> SharedBudget:
    return SharedBudget(Options(run="r", **options), store)


def test_a_thousand_calls_take_a_few_leases(store: ReplyStore) -> None:
    async def run() -> int:
        budget, n = shared(store, budget_usd=100.0), 0
        lease_of = store.lease

        def counted(lease: Any) -> Any:
            nonlocal n
            n += 1
            return lease_of(lease)

        store.lease = counted  # type: ignore[method-assign]
        for _ in range(1000):
            assert await budget.reserve(0.05)
            budget.settle(0.05, 0.002, sent=True)
        await budget.end()
        return n

    n_leases = asyncio.run(run())
    assert n_leases <= 60
    ((holder, usd, calls),) = rows_of(store, "SELECT holder, usd, calls FROM leases")
    assert (holder, calls) == ("", 1000)
    assert usd == pytest.approx(2.0)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=12),
    st.integers(1, 40),
    st.integers(1, 4),
    st.integers(0, 5),
)
def test_a_process_alone_spends_until_a_call_does_not_fit(
    calls: list[tuple[int, int]], limit: int, n_workers: int, lease_turns: int
) -> None:
    table, budget, queue, costs = _Table(), None, list(calls), []

    async def turns(number: int) -> None:
        for _ in range(number):
            await asyncio.sleep(0)

    class Store:
        async def lease(self, lease: BudgetLease) -> Granted:
            answer = lease.write(table)  # type: ignore[arg-type]
            await turns(lease_turns)  # calls in flight settle meanwhile
            return answer

    async def work() -> None:
        while queue:
            cost, call_turns = queue.pop()
            if await budget.reserve(4.0):
                await turns(call_turns)
                budget.settle(4.0, cost, sent=True)
                costs.append(cost)

    async def spend() -> None:
        nonlocal budget
        budget = SharedBudget(Options(run="r", budget_usd=float(limit)), Store())  # type: ignore[arg-type]
        await asyncio.gather(*[work() for _ in range(n_workers)])
        await budget.end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_limits, "_LOOK_AGAIN_S", 0.0)
        asyncio.run(spend())
    assert sum(costs) <= limit
    assert len(costs) == len(calls) or sum(costs) + 4 > limit


def test_a_process_waits_for_what_another_gives_back_and_gives_up_when_nobody_can(store: ReplyStore) -> None:
    async def run() -> None:
        first, second = shared(store, budget_usd=1.0), shared(store, budget_usd=1.0)
        assert await first.reserve(0.8)
        waiting = asyncio.ensure_future(second.reserve(0.5))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        first.settle(0.8, 0.1, sent=True)
        await first.end()
        assert await asyncio.wait_for(waiting, 60)
        second.settle(0.5, 0.5, sent=True)
        assert not await second.reserve(0.5)
        assert "US$ 0.6000 of budget_usd=1.0 spent by the processes of run='r'" in second.spent()
        await second.end()
        third = shared(store, budget_usd=2.0)  # a higher figure goes on
        assert await third.reserve(0.5)
        third.settle(0.5, 0.5, sent=True)
        await third.end()

    asyncio.run(run())
    ((_, usd, calls),) = rows_of(store, "SELECT holder, usd, calls FROM leases")
    assert (usd, calls) == (pytest.approx(1.1), 3)


def test_a_caller_that_is_cancelled_loses_no_money(store: ReplyStore) -> None:
    async def run() -> None:
        budget = shared(store, max_calls=4)
        waiting = [asyncio.ensure_future(budget.reserve(0.0)) for _ in range(3)]
        await asyncio.sleep(0)
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert [await budget.reserve(0.0) for _ in range(4)] == [True] * 4
        for _ in range(4):
            budget.settle(0.0, 0.0, sent=True)
        assert not await budget.reserve(0.0)
        assert budget.is_used_up
        await budget.end()

    asyncio.run(run())


@pytest.mark.parametrize("run", ["", "  ", 3])
def test_a_run_needs_a_name(run: Any) -> None:
    with pytest.raises(ConfigError, match="run= must be a name"):
        Options(run=run)


# --- real processes

CHILD = """
import sys
import evalkit as ek
rubric = ek.Rubric(
    id="numbers", description="Which number?", inputs=["answer"],
    criteria=[{"name": "number", "scale": {0: "a", 1: "b"}}],
)
url, cache, first, n, options = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), eval(sys.argv[5])
items = [{"item_id": str(n), "answer": f"ITEM-{n} "} for n in range(first, first + n)]
judge = ek.Judge("openai", "m", base_url=url, timeout_s=60, max_tokens=64, price=(1000.0, 1000.0))
table = ek.judge(items, rubric, judge, samples=1, cache=cache, concurrency=8, progress=False, run="october", **options)
print(table["error"].isna().sum(), table["error"].eq("budget").sum())
"""
EACH = 0.111  # US$ of a reply: 100 tokens of the prompt and 11 of the reply
REPLY = {"content": '{"explanation": "so", "score": 1}'}


@pytest.fixture(params=BOTH)
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "cache")
    return fresh_database(request.getfixturevalue("postgres_url"), tmp_path.name)


def started(server: JudgeServer, cache: str, first: int, n: int, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, server.url, cache, str(first), str(n), repr(options)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )  # fmt: skip


def ended(process: subprocess.Popen[str]) -> tuple[int, int]:
    """How many items of a process have a score, and how many were beyond the budget."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0, err
    n_scored, n_beyond = (int(word) for word in out.split())
    return n_scored, n_beyond


def test_four_processes_spend_one_budget_by_the_servers_own_count(cache: str) -> None:
    with judge_server(always={"delay": 0.05, **REPLY}) as server:
        processes = [started(server, cache, 100 * n, 100, budget_usd=20.0) for n in range(4)]
        outcomes = [ended(process) for process in processes]
        bill = len(server.paid) * EACH
    assert bill <= 20.0
    longest = max(len(str(seen.body)) for seen in server.seen)  # each byte may be a token, at US$ 0.001
    assert bill > 20.0 - longest / 1000 - 0.064, "less than the upper bound of one call is left"
    assert sum(scored for scored, _ in outcomes) == len(server.paid)
    assert all(scored + beyond == 100 for scored, beyond in outcomes)


def test_four_processes_make_one_number_of_calls(cache: str) -> None:
    with judge_server(always={"delay": 0.02, **REPLY}) as server:
        server.script.extend([{"status": 500}] * 20)  # sent again, within the limit
        processes = [started(server, cache, 100 * n, 100, max_calls=150) for n in range(4)]
        outcomes = [ended(process) for process in processes]
        assert len(server.seen) == 150
        assert sum(scored for scored, _ in outcomes) == 130
        assert ended(started(server, cache, 400, 100, max_calls=160))[0] == 10  # what was spent still counts


def test_a_killed_process_costs_what_it_held_and_the_others_spend_the_rest(cache: str) -> None:
    with judge_server(always={"delay": 0.05, **REPLY}) as server:
        processes = [started(server, cache, 300 * n, 300, max_calls=400) for n in range(4)]
        wait_for(server, 100)
        processes[0].kill()
        processes[0].communicate()
        outcomes = [ended(process) for process in processes[1:]]
        n_calls = len(server.seen)
    assert n_calls <= 400
    # 8 calls in flight, and 16 and 8 more that it may have leased for those who wait
    assert n_calls >= 400 - 32
    assert all(scored + beyond == 300 for scored, beyond in outcomes)


def test_four_processes_keep_one_rate_and_that_of_a_killed_one_comes_back(cache: str) -> None:
    with judge_server(always=REPLY) as server:
        processes = [started(server, cache, 50 * n, 50, requests_per_minute=1500) for n in range(4)]
        wait_for(server, 40)
        processes[0].kill()
        processes[0].communicate()
        assert [ended(process)[0] for process in processes[1:]] == [50] * 3
        times = sorted(seen.at for seen in server.seen)
    # at 25 per second, of which each may be late by a second
    for n in (30, 60, 100, len(times)):
        spans = [times[at + n - 1] - times[at] for at in range(len(times) - n + 1)]
        assert min(spans) >= (n - 1) / 25 - 1.5


@pytest.mark.skipif(tools() is None, reason="no PostgreSQL on this machine")
def test_a_store_that_goes_away_in_the_middle_is_waited_for_and_the_limit_holds() -> None:
    pytest.importorskip("psycopg")
    with stoppable_server() as postgres, judge_server(always={"delay": 0.05, **REPLY}) as server:
        processes = [started(server, postgres.url, 100 * n, 100, max_calls=200) for n in range(2)]
        wait_for(server, 60)
        postgres.stop()
        time.sleep(2)
        postgres.start()
        outcomes = [ended(process) for process in processes]
        assert len(server.seen) <= 200
        assert sum(scored for scored, _ in outcomes) == len(server.paid) >= 200 - 16
        assert all(scored + beyond == 100 for scored, beyond in outcomes)


# --- judge_files


def test_processes_of_judge_files_share_its_limits(tmp_path: Path) -> None:
    rubric = ek.Rubric(
        id="numbers", description="Which number?", inputs=["answer"],
        criteria=[{"name": "number", "scale": {0: "a", 1: "b"}}],
    )  # fmt: skip
    items = [{"item_id": str(n), "answer": f"ITEM-{n} "} for n in range(60)]
    with judge_server(always={"delay": 0.02, **REPLY}) as server:
        judge = ek.Judge("openai", "m", base_url=server.url, max_tokens=64, price=(1000.0, 1000.0))
        settings = {"out": tmp_path / "out", "rows": 10, "samples": 1, "cache": tmp_path / "cache", "progress": False}
        done = ek.judge_files(items, rubric, judge, n_jobs=3, max_calls=25, **settings)
        assert len(server.seen) == 25
        assert done.parts["n_live"].sum() == 25
        assert done.parts["n_unscored"].sum() == 35
        again = ek.judge_files(items, rubric, judge, n_jobs=2, budget_usd=1000.0, **settings)
        assert again.parts["n_unscored"].sum() == 0
        assert len(server.seen) == 60
