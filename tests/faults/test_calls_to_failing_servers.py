"""The whole way from `judge` to the table against a server that fails; rate limits, breaker, joins, logs, messages."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import re
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from judge_requests import request_of, submit
from servers import JudgeServer, judge_server
from small_rubrics import rubric_of

import evalkit as ek
from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Prompt
from evalkit.core.settings import CONCURRENCY, Options
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.calls.budget import upper_bound
from evalkit.engine.calls.event_loop import afetch, fetch
from evalkit.engine.calls.rate_limits import RateLimiter
from evalkit.engine.providers import waits
from evalkit.engine.request import Request
from evalkit.errors import ConfigError, JudgeError, RubricError

KEY = "sk-secret-0123456789"
SECRET_TEXT = "the candidate wrote of a very private matter indeed"
RUBRIC = rubric_of("numbers", {0: "nought", 1: "one", 2: "two"}, "number", pass_at=2, description="Which number is it?")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "FIRST_WAIT_S", 0.005)


def judge_at(server: JudgeServer, model: str = "m", **fields: Any) -> Judge:
    return Judge("openai", model, base_url=server.url, **{"timeout_s": 5.0, **fields})


def reasons(outcomes: Any) -> list[str | None]:
    return [outcome.failure.reason if outcome.failure else None for outcome in outcomes]


def items_of(n: int) -> list[dict[str, str]]:
    return [{"item_id": str(item), "answer": f"ITEM-{item} {SECRET_TEXT}"} for item in range(n)]


def verdict(body: dict[str, Any]) -> dict[str, Any]:
    """The right reply to an item: item % 3, as JSON."""
    text = body["messages"][-1]["content"]
    item = int(text.split("ITEM-")[1].split()[0])
    return {"content": json.dumps({"explanation": "counted", "score": item % 3})}


# -- everything at once


def test_no_verdict_is_wrong_and_no_answer_is_asked_twice_under_faults(tmp_path: Path) -> None:
    dice = random.Random(7)
    cut = Counter[str]()

    def faults(body: dict[str, Any]) -> dict[str, Any]:
        found = dice.choices(["", "429", "500", "reset", "cut", "html"], [80, 5, 5, 4, 3, 3])[0]
        if found == "429":
            return {"status": 429, "headers": {"Retry-After": "0.01"}}
        if found == "500":
            return {"status": 500}
        if found == "reset":
            return {"reset": True}
        if found:
            cut[found] += 1
            return {"body": b'{"choices": [{"message"' if found == "cut" else b"<html>"}
        return verdict(body)

    with judge_server(faults=faults) as server:
        judges = [judge_at(server, model) for model in ("a", "b", "c")]
        table = ek.judge(items_of(40), RUBRIC, judges, samples=3, cache=tmp_path, progress=False)
        assert len(table) == 40 * 3 * 3
        scored = table[table["error"].isna()]
        assert (scored["score"] == scored["item_id"].astype(int) % 3).all()
        assert set(table["error"].dropna()) <= {"server_error", "rate_limited"}
        # the server counts in `paid` what it answered well; each was kept, so none was asked for twice
        assert Counter(server.paid) == Counter(f"ITEM-{item}" for item in scored["item_id"][scored["sample"] == 0])
        n_before = len(server.seen)
        again = ek.judge(items_of(40), RUBRIC, judges, samples=3, cache=tmp_path, progress=False)
        assert len(server.seen) == n_before or len(scored) < len(table)
        assert again["score"].tolist()[: len(table)] == pytest.approx(table["score"].tolist(), nan_ok=True)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ({"content": "no idea at all"}, "unreadable"),
        ({"content": None}, "empty"),
        ({"content": '{"explanation": "so f', "finish_reason": "length"}, "truncated"),
        ({"content": None, "refusal": "I cannot judge this."}, "refused"),
        ({"content": '{"explanation": "x", "score": 9}'}, "off_scale"),
    ],
)
def test_a_bad_reply_is_kept_with_its_reason(
    server: JudgeServer, tmp_path: Path, step: dict[str, Any], reason: str
) -> None:
    server.always = step
    for _ in range(2):
        table = ek.judge(items_of(3), RUBRIC, judge_at(server), samples=1, cache=tmp_path, progress=False)
        assert table["error"].tolist() == [reason] * 3
    assert len(server.seen) == 3  # paid for once


def test_one_dead_judge_of_three_costs_its_own_rows_alone(tmp_path: Path) -> None:
    with judge_server(faults=verdict) as server:
        dead = Judge("openai", "dead", base_url="http://127.0.0.1:9/v1")
        judges = [judge_at(server, "a"), dead, judge_at(server, "b")]
        table = ek.judge(items_of(20), RUBRIC, judges, samples=2, cache=tmp_path, progress=False)
    down = table["judge"] == "openai:dead"
    assert set(table.loc[down, "error"]) == {"judge_down"}
    assert table.loc[~down, "error"].isna().all()
    assert len(table) == 120


def test_all_judges_dead_is_an_error_that_names_each(tmp_path: Path) -> None:
    judges = [Judge("openai", model, base_url="http://127.0.0.1:9/v1") for model in ("a", "b")]
    with pytest.raises(JudgeError, match=r"nothing was scored.*openai:a: .*openai:b: .*no connection"):
        ek.judge(items_of(12), RUBRIC, judges, samples=1, cache=tmp_path, progress=False)


# -- the breaker


def test_a_server_that_only_fails_is_given_up_after_eight_calls(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"status": 503}
    requests = [request_of(judge_at(server), item) for item in range(100)]
    outcomes = fetch(requests, store, Options(concurrency=1, retries=1))
    assert Counter(reasons(outcomes)) == {"server_error": 8, "judge_down": 92}
    assert 16 <= len(server.seen) < 60  # eight calls twice each, and those that went while they waited
    assert "8 calls failed on every attempt" in str(outcomes[-1].failure)


def test_a_server_that_is_still_loading_is_waited_for(server: JudgeServer, store: ReplyStore) -> None:
    server.script.extend([{"status": 503}] * 20)
    outcomes = fetch([request_of(judge_at(server), item) for item in range(20)], store, Options(concurrency=20))
    assert reasons(outcomes) == [None] * 20


def test_a_limit_for_the_day_ends_the_run_for_that_judge(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"status": 429, "headers": {"Retry-After": "86400"}}
    outcomes = fetch([request_of(judge_at(server), item) for item in range(50)], store, Options(concurrency=2))
    assert reasons(outcomes) == ["rate_limited"] * 50
    assert len(server.seen) <= 2  # those that were in flight together


# -- rate limits


def test_calls_refused_together_halve_the_width_once_and_successes_win_it_back() -> None:
    async def work() -> list[int]:
        limiter, most = RateLimiter(), []
        for _ in range(8):
            await limiter.enter(CONCURRENCY)
        epoch = limiter.epoch
        for _ in range(8):
            limiter.leave()
            limiter.refused(0.0, epoch)  # "Retry-After: 0" does not make eight halvings of it
        most.append(int(limiter.most))
        for _ in range(4 + 5):  # one more after each round: 4 successes at width 4, 5 at width 5
            limiter.succeeded()
        most.append(int(limiter.most))
        limiter.refused(0.0, limiter.epoch)
        most.append(int(limiter.most))
        return most

    # 8 in flight / 2 = 4; 4 + 4/4 = 5 after the first round, just under 6 after the second (the share shrinks as it
    # grows); half of that is just under 3
    assert asyncio.run(work()) == [4, 5, 2]


def test_a_narrow_limit_still_lets_one_through() -> None:
    async def work() -> int:
        limiter = RateLimiter()
        for _ in range(10):
            limiter.refused(0.0, limiter.epoch)
        await limiter.enter(CONCURRENCY)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(limiter.enter(CONCURRENCY), 0.05)
        return int(limiter.most)

    assert asyncio.run(work()) == 1


def test_tokens_keep_the_pace(server: JudgeServer, store: ReplyStore) -> None:
    judge = judge_at(server, "tokens", max_tokens=95)
    request = request_of(judge, 1)
    assert request.prompt.n_bytes // 4 + 95 == 100  # "ITEM-1 " and 16 for the message: 23 bytes, 5 tokens
    started = time.monotonic()
    fetch([request_of(judge, item) for item in range(5)], store, Options(tokens_per_minute=120_000))
    assert time.monotonic() - started >= 4 * 60 * 100 / 120_000  # a lower bound: four gaps of 50 ms


def test_a_run_that_is_stopped_gives_its_turns_back(server: JudgeServer, store: ReplyStore) -> None:
    slow = Options(requests_per_minute=1)  # one now, the next in a minute
    judge = judge_at(server, "turns")
    leaving = submit([request_of(judge, item) for item in range(30)], store, slow)
    while not server.seen:
        time.sleep(0.005)
    leaving.cancel()
    outcome = submit([request_of(judge, 100)], store, Options(requests_per_minute=100_000)).result(300)
    assert reasons(outcome) == [None]
    assert len(server.seen) == 2


def test_judge_takes_a_pace(server: JudgeServer, tmp_path: Path) -> None:
    server.faults = verdict
    started = time.monotonic()
    ek.judge(items_of(4), RUBRIC, judge_at(server, "p"), samples=1, cache=tmp_path, requests_per_minute=1200)
    assert time.monotonic() - started >= 3 * 60 / 1200  # a lower bound
    with pytest.raises(ConfigError, match="tokens_per_minute"):
        ek.judge(items_of(5), RUBRIC, judge_at(server, "p"), samples=1, cache=tmp_path, tokens_per_minute=0)


# -- budget


def test_the_upper_bound_knows_what_params_add() -> None:
    plain = Judge("openai", "m", base_url="http://127.0.0.1:9/v1", max_tokens=100)
    bound = upper_bound(request_of(plain, 1), 1, (0.0, 1.0))
    assert bound == pytest.approx(100 / 1e6)
    # best_of=3 writes three replies for each of two; {"best_of":3} are 13 bytes more
    three = request_of(plain.replace(params={"best_of": 3}), 1)
    assert upper_bound(three, 2, (0.0, 1.0)) == pytest.approx(2 * 3 * 100 / 1e6)
    more = upper_bound(three, 1, (1.0, 0.0)) - upper_bound(request_of(plain, 1), 1, (1.0, 0.0))
    assert more == pytest.approx(13 / 1e6)
    longer = request_of(plain.replace(params={"max_completion_tokens": 5000}), 1)
    assert upper_bound(longer, 1, (0.0, 1.0)) == pytest.approx(5000 / 1e6)


# -- prompts that are rendered on the way


def late_request(judge: Judge, item: int, rendered: list[int]) -> Request:
    request = request_of(judge, item)

    def prompt() -> Prompt:
        rendered.append(item)
        return request.prompt

    return Request(judge, prompt, request.parts, request.samples, request.keys)


def test_the_first_call_leaves_before_the_last_prompt_is_rendered(server: JudgeServer, store: ReplyStore) -> None:
    rendered: list[int] = []
    seen_then: list[int] = []
    server.faults = lambda body: seen_then.append(len(rendered))  # type: ignore[func-returns-value]
    fetch([late_request(judge_at(server), item, rendered) for item in range(300)], store, Options(concurrency=4))
    assert sorted(rendered) == list(range(300))  # each once
    assert seen_then[0] < 100


def test_a_template_that_breaks_half_way_ends_the_run_and_keeps_what_came(
    server: JudgeServer, store: ReplyStore
) -> None:
    judge, rendered = judge_at(server), list[int]()
    requests = [late_request(judge, item, rendered) for item in range(50)]

    def broken() -> Prompt:
        raise RubricError("template t@v1: 'x' is undefined")

    requests[30] = Request(judge, broken, requests[30].parts, requests[30].samples, requests[30].keys)
    with pytest.raises(RubricError, match="'x' is undefined"):
        fetch(requests, store, Options(concurrency=2))
    stored = store.get_many([key for request in requests for key in request.keys])
    assert len(stored) == len(server.paid) < 50


# -- single flight


def test_joins_are_counted(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"delay": 0.3}
    requests = [request_of(judge_at(server), item) for item in range(5)]
    first = submit(requests, store)
    while len(server.seen) < 5:
        time.sleep(0.005)
    assert reasons(fetch(requests, store)) == [None] * 5
    assert reasons(first.result(300)) == [None] * 5
    assert store.counters.as_dict()["joins"] == 5
    assert len(server.seen) == 5


def test_a_reply_is_live_in_the_table_of_the_run_that_pays_for_it(server: JudgeServer, tmp_path: Path) -> None:
    server.always = {"delay": 0.2}
    with ThreadPoolExecutor(3) as threads:
        runs = [
            threads.submit(ek.judge, items_of(6), RUBRIC, judge_at(server), samples=1, cache=tmp_path, progress=False)
            for _ in range(3)
        ]
        tables = pd.concat([run.result() for run in runs])
    assert len(server.paid) == 6
    assert (tables["source"].astype(str) == "live").sum() == 6
    assert set(tables["source"].astype(str)) <= {"live", "cache"}


def test_a_call_is_dropped_when_its_last_waiter_left_and_not_before(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"delay": 0.2}
    requests = [request_of(judge_at(server), item) for item in range(4)]
    runs = [submit(requests, store, Options(concurrency=1)) for _ in range(3)]
    while not server.seen:
        time.sleep(0.005)
    runs[0].cancel()
    runs[1].cancel()
    assert reasons(runs[2].result(300)) == [None] * 4  # somebody still waits
    assert len(server.seen) == 4
    more = [request_of(judge_at(server), item) for item in range(10, 20)]
    runs = [submit(more, store, Options(concurrency=1)) for _ in range(2)]
    while len(server.seen) < 5:
        time.sleep(0.005)
    for run in runs:
        run.cancel()
    time.sleep(0.6)  # three more would have been sent by now
    assert len(server.seen) == 5  # nobody waits any more: only the one that was sent


def test_progress_of_an_awaited_run_comes_in_the_thread_that_awaits(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"delay": 0.15}
    threads: set[int] = set()
    work = afetch(
        [request_of(judge_at(server), 1)], store, on_progress=lambda progress: threads.add(threading.get_ident())
    )
    assert reasons(asyncio.run(work)) == [None]
    assert threads == {threading.get_ident()}


# -- what is said


def test_neither_prompts_nor_keys_reach_the_log(
    server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)

    def echo(body: dict[str, Any]) -> dict[str, Any]:
        text = body["messages"][-1]["content"]
        message = f"cannot take {text} with the key {KEY}"
        return {"status": 400, "body": {"error": {"message": message}}} if "ITEM-1 " in text else verdict(body)

    server.faults = echo
    with caplog.at_level(logging.DEBUG):
        table = ek.judge(
            items_of(4), RUBRIC, judge_at(server, api_key_env="MY_KEY"), samples=1, cache=tmp_path, progress=False
        )
    assert table["error"].tolist().count("server_error") == 1
    assert server.seen[0].headers["Authorization"] == f"Bearer {KEY}"
    told = [record.getMessage() for record in caplog.records if record.name.startswith("evalkit")]
    assert any("1 judgment without a reply" in message for message in told)  # there was something to say
    assert all(SECRET_TEXT[:24] not in message and KEY not in message for message in told)


def test_the_last_line_says_what_a_run_came_to(
    server: JudgeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def some(body: dict[str, Any]) -> dict[str, Any]:
        return {"content": "?"} if "ITEM-2 " in body["messages"][-1]["content"] else verdict(body)

    server.faults = some
    judge = judge_at(server, price=(10.0, 100.0))
    ek.judge(items_of(2), RUBRIC, judge, samples=1, cache=tmp_path, progress=False)
    assert capsys.readouterr().err == ""
    ek.judge(items_of(5), RUBRIC, judge, samples=1, cache=tmp_path, progress=True)
    # three replies at (100 · 10 + 11 · 100) / 1e6 US$
    said = capsys.readouterr().err
    assert "2 called and scored, 2 cached, 1 unscored (unreadable 1), US$ 0.0063, " in said


@pytest.mark.parametrize("retries", [0, 1])
def test_an_error_that_ended_a_call_and_then_the_run_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    monkeypatch.setattr(waits, "FIRST_WAIT_S", 0.01)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    judge = Judge("openai", "m", base_url="http://judges.example.org/v1")
    with pytest.raises(JudgeError) as told:
        ek.judge(items_of(40), RUBRIC, judge, samples=1, retries=retries, cache=tmp_path)
    assert str(told.value).count("no connection to") == 1
    assert "8 failures in a row" in str(told.value)


def test_what_another_run_asked_for_counts_as_cached(
    server: JudgeServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.faults = lambda body: verdict(body) | {"delay": 0.2}
    judge, ready = judge_at(server), threading.Barrier(2)

    def ask(items: list[dict[str, str]]) -> int:
        ready.wait(300)
        table = ek.judge(items, RUBRIC, judge, samples=1, cache=tmp_path, progress=True)
        return int(table["source"].eq("live").sum())

    with ThreadPoolExecutor(2) as pool:
        n_live = list(pool.map(ask, [items_of(6), items_of(6)]))
    said = re.findall(r"(\d+) called and scored, (\d+) cached, none unscored, (\S+ \S+),", capsys.readouterr().err)
    assert sum(n_live) == len(server.paid) == 6
    assert sorted(said) == sorted((str(n), str(6 - n), "unknown price" if n else "US$ 0.0000") for n in n_live)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"status": 401, "body": {"error": {"message": f"bad {KEY}"}}}, r"HTTP 401 .*the key was the value of MY_KEY"),
        (
            {"status": 404, "body": {"error": {"message": "no such model"}}},
            r"HTTP 404 .*asked for the model 'm' at the path /v1/chat/completions\)",
        ),
        ({"body": b"<html>hello</html>"}, r"answers in HTML, not JSON: is base_url right"),
        ({"hang": 30}, r"no answer from http://127.0.0.1:\d+ in 0.2 s"),
    ],
    ids=["wrong key", "unknown model", "HTML", "silence"],
)
def test_what_is_wrong_is_said_in_one_message(
    server: JudgeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: dict[str, Any], words: str
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server.always = step
    judge = judge_at(server, api_key_env="MY_KEY", timeout_s=0.2 if "hang" in step else 300)
    with pytest.raises(JudgeError, match=words) as told:
        ek.judge(items_of(10), RUBRIC, judge, samples=1, cache=tmp_path, progress=False)
    assert KEY not in str(told.value)


def test_what_fails_after_a_reply_came_ends_the_run_and_the_reply_is_kept(
    server: JudgeServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no room to learn")

    monkeypatch.setattr(store, "learn", broken)
    requests = [request_of(judge_at(server), item, (0, 1)) for item in range(3)]
    with pytest.raises(RuntimeError, match="no room to learn"):
        submit(requests, store).result(300)
    deadline = time.monotonic() + 300
    while len(store.get_many(paid := [request.parts.key for request in requests[:1]])) < 1:
        assert time.monotonic() < deadline, f"the paid reply {paid} was lost"
        time.sleep(0.02)
    assert store.counters.as_dict()
