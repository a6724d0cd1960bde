"""The engine against a real server that misbehaves, with a real store."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import threading
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from in_threads import in_threads
from judge_requests import request_of, submit
from servers import JudgeServer, judge_server

from evalkit.core.judges import Judge
from evalkit.core.prompts_and_replies import Reply
from evalkit.core.settings import Options
from evalkit.engine.cache.store import ReplyStore
from evalkit.engine.calls.budget import upper_bound
from evalkit.engine.calls.event_loop import LoopThread, afetch, fetch
from evalkit.engine.calls.pending_call import Outcome, Progress
from evalkit.engine.calls.rate_limits import RateLimiter
from evalkit.engine.providers import waits
from evalkit.errors import CacheError, ConfigError, EvalkitWarning, JudgeError

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waits, "FIRST_WAIT_S", 0.01)


def judge_at(server: JudgeServer, model: str = "m", **fields: Any) -> Judge:
    return Judge("openai", model, base_url=server.url, **{"timeout_s": 5.0, **fields})


def texts(outcomes: list[Outcome]) -> list[str | None]:
    return [None if outcome.value is None else json.loads(outcome.value)["text"] for outcome in outcomes]


def reasons(outcomes: list[Outcome]) -> list[str | None]:
    return [outcome.failure.reason if outcome.failure else None for outcome in outcomes]


def one(outcomes: list[Outcome]) -> Outcome:
    (outcome,) = outcomes
    return outcome


def test_five_hundred_calls_are_all_right_and_stored(server: JudgeServer, store: ReplyStore) -> None:
    judge = judge_at(server)
    requests = [request_of(judge, item) for item in range(500)]
    seen: list[Progress] = []
    outcomes = fetch(requests, store, on_progress=seen.append)
    assert texts(outcomes) == [str(item) for item in range(500)]  # in the order of the requests
    assert Counter(server.paid) == {f"ITEM-{item}": 1 for item in range(500)}
    assert store.get_many([outcome.key for outcome in outcomes]) == {o.key: o.value for o in outcomes}
    assert [o.key for o in outcomes] == [request.parts.key for request in requests]
    assert (seen[-1].done, seen[-1].n_failed, seen[-1].total, seen[-1].in_flight) == (500, 0, 500, 0)
    assert seen[-1].n_unpriced == 500  # a local model's price is unknown, and is not taken for 0


def test_nothing_to_do_is_no_work(store: ReplyStore) -> None:
    assert fetch([], store) == []
    assert fetch([request_of(Judge.of("fake:strict"), 1, ())], store) == []


@pytest.mark.parametrize("concurrency", [1, 7])
def test_no_more_than_so_many_are_in_flight_whatever_the_judges(
    server: JudgeServer, store: ReplyStore, concurrency: int
) -> None:
    server.always = {"delay": 0.02}
    judges = [judge_at(server, f"m{concurrency}", temperature=t) for t in (0.5, 1.0)]
    requests = [request_of(judge, item) for judge in judges for item in range(10)]
    fetch(requests, store, Options(concurrency=concurrency))
    assert server.most_in_flight == concurrency


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "headers": {"Retry-After": "0.05"}},
        {"status": 429},
        {"status": 500},
        {"reset": True},
        {"body": b'{"choices": [{"message": {"cont'},
        {"body": b""},
        {"body": {"error": {"code": 502, "message": "upstream"}}},
        {"body": {"choices": []}},
        {"body": [1, 2]},
        {"body": {"choices": [{"message": None}]}},
    ],
    ids=lambda fault: json.dumps(fault, default=repr)[:40],
)
def test_what_may_pass_is_tried_again(server: JudgeServer, store: ReplyStore, fault: dict[str, Any]) -> None:
    server.script = deque([fault, fault])
    outcome = one(fetch([request_of(judge_at(server), 7)], store))
    assert texts([outcome]) == ["7"]
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("fault", "reason", "maybe_paid"),
    [
        ({"status": 500}, "server_error", 0),
        ({"reset": True}, "server_error", 3),  # 3 attempts were sent and none was answered
        ({"hang": 30}, "timeout", 3),
        ({"body": b"<html>"}, "server_error", 3),
    ],
)
def test_patience_ends_after_the_retries(
    server: JudgeServer, store: ReplyStore, fault: dict[str, Any], reason: str, maybe_paid: int
) -> None:
    server.always = fault
    patience = 0.3 if "hang" in fault else 300
    seen: list[Progress] = []
    outcome = one(
        fetch([request_of(judge_at(server, timeout_s=patience), 7)], store, Options(retries=2), on_progress=seen.append)
    )
    assert outcome.value is None
    assert (outcome.failure.reason, outcome.failure.maybe_paid) == (reason, maybe_paid)
    assert len(server.seen) == 3
    assert seen[-1].maybe_paid == maybe_paid
    assert dict(seen[-1].failed) == {reason: 1}


def test_429_is_waited_out_longer_than_other_failures_but_not_for_ever(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"status": 429, "headers": {"retry-after-ms": "1"}}
    outcome = one(fetch([request_of(judge_at(server), 7)], store, Options(retries=1)))
    assert reasons([outcome]) == ["rate_limited"]
    assert len(server.seen) == 5  # 1 + 4 × retries


def test_retry_after_is_obeyed_by_all_judges_on_the_same_model(server: JudgeServer, store: ReplyStore) -> None:
    server.script = deque([{"status": 429, "headers": {"Retry-After": "0.4"}}])
    judges = [judge_at(server, "paused", temperature=t) for t in (0.5, 1.0)]
    started = time.monotonic()
    outcomes = fetch([request_of(judge, 1) for judge in judges], store, Options(concurrency=1))
    assert reasons(outcomes) == [None, None]
    first, second, third = (seen.at for seen in server.seen)
    assert second - first >= 0.35  # a lower bound: what the server asked for, less the way there and back
    assert third >= second >= started


@pytest.mark.parametrize(
    ("wait", "words"), [("301", "301 s, until 2"), ("90000", "90000 s, until 2"), ("9" * 20, "more than a year)")]
)
def test_a_wait_beyond_reason_is_a_failure_that_says_so(
    server: JudgeServer, store: ReplyStore, wait: str, words: str
) -> None:
    server.always = {"status": 429, "headers": {"Retry-After": wait}}
    outcome = one(fetch([request_of(judge_at(server), 7)], store))
    assert outcome.failure.reason == "rate_limited"
    assert f"(the server asks to wait {words}" in outcome.failure.detail
    assert len(server.seen) == 1


HOURS = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "7h"}


@pytest.mark.parametrize(
    "step",
    [
        {"headers": HOURS},
        {"body": {"error": {"message": "daily", "code": 429, "metadata": {"headers": HOURS}}}},
        {"body": {"error": {"message": "Tokens per day: Limit 100, Used 100. Please try again in 6h59m60s."}}},
    ],
)
def test_a_limit_that_ends_in_hours_stops_the_judge_at_its_first_answer(
    server: JudgeServer, store: ReplyStore, step: dict[str, Any]
) -> None:
    server.always = {"status": 429, **step}
    outcomes = fetch([request_of(judge_at(server), item) for item in range(9)], store, Options(concurrency=1))
    assert reasons(outcomes) == ["rate_limited"] * 9
    assert len(server.seen) == 1
    details = {outcome.failure.detail for outcome in outcomes if outcome.failure}
    assert len(details) == 1
    assert "(the server asks to wait 25200 s, until 2" in details.pop()


@pytest.mark.parametrize(
    "headers",
    [{"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "7h"}, {**HOURS, "retry-after-ms": "5"}],
)
def test_a_reset_in_hours_of_a_limit_with_something_left_is_no_wait(
    server: JudgeServer, store: ReplyStore, headers: dict[str, str]
) -> None:
    server.script = deque([{"status": 429, "headers": headers}])
    outcomes = fetch([request_of(judge_at(server), item) for item in range(2)], store, Options(concurrency=1))
    assert reasons(outcomes) == [None, None]
    assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ({"content": None}, {"text": None, "finish_reason": "stop"}),
        ({"content": "so far", "finish_reason": "length"}, {"text": "so far", "finish_reason": "length"}),
        ({"content": None, "refusal": "I won't."}, {"text": None, "refusal": "I won't."}),
        ({"content": "\ud800 Ж"}, {"text": "? Ж"}),  # a lone surrogate was paid for, and cannot be stored
    ],
)
def test_a_reply_that_reached_us_is_kept_and_never_asked_again(
    server: JudgeServer, store: ReplyStore, step: dict[str, Any], expected: dict[str, Any]
) -> None:
    server.always = step
    outcome = one(fetch([request_of(judge_at(server), 7)], store))
    stored = json.loads(outcome.value)
    assert {name: stored.get(name) for name in expected} == expected
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (401, {"error": {"message": "Incorrect API key provided"}}, "Incorrect API key"),
        (429, {"error": {"message": "no money", "code": "insufficient_quota"}}, "no money"),
    ],
)
def test_a_judge_that_cannot_answer_is_down_and_the_others_go_on(
    server: JudgeServer, store: ReplyStore, status: int, body: Any, words: str
) -> None:
    server.always = {"status": status, "body": body}
    with judge_server() as good:
        bad_judge, good_judge = judge_at(server), judge_at(good, "good")
        requests = [request_of(judge, item) for item in range(20) for judge in (bad_judge, good_judge)]
        outcomes = fetch(requests, store, Options(concurrency=2))
    assert reasons(outcomes[::2]) == ["judge_down"] * 20
    assert texts(outcomes[1::2]) == [str(item) for item in range(20)]
    assert len(server.seen) <= 2  # those that were in flight together
    assert words in outcomes[0].failure.detail


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (403, {"error": {"message": "no"}}, "HTTP 403"),
        (404, {"error": {"message": "no such model", "code": "model_not_found"}}, "'m'"),
        (404, b"<html>nothing here</html>", "base_url"),
    ],
)
def test_three_prompts_that_fail_alike_close_a_judge(
    server: JudgeServer, store: ReplyStore, status: int, body: Any, words: str
) -> None:
    server.always = {"status": status, "body": body}
    outcomes = fetch([request_of(judge_at(server), item) for item in range(20)], store, Options(concurrency=2))
    assert reasons(outcomes) == ["server_error"] * 2 + ["judge_down"] * 18
    assert len(server.seen) <= 4  # three, and the one in flight beside the third
    assert words in outcomes[0].failure.detail


def test_one_answer_keeps_a_judge_open(server: JudgeServer, store: ReplyStore) -> None:
    server.script = deque([{}, *[{"reset": True}] * 12])
    outcomes = fetch(
        [request_of(judge_at(server), item) for item in range(4)], store, Options(concurrency=1, retries=3)
    )
    assert reasons(outcomes).count("judge_down") == 0


def test_nobody_listening_closes_the_judge_and_may_not_have_been_paid(store: ReplyStore) -> None:
    judge = Judge("openai", "m", base_url="http://127.0.0.1:9/v1")
    seen: list[Progress] = []
    outcomes = fetch([request_of(judge, item) for item in range(20)], store, on_progress=seen.append)
    assert reasons(outcomes) == ["judge_down"] * 20
    assert "no connection to http://127.0.0.1:9" in outcomes[0].failure.detail
    assert seen[-1].maybe_paid == 0


# -- several replies in one request


def test_missing_samples_are_one_request_and_its_bill_is_split(server: JudgeServer, store: ReplyStore) -> None:
    judge = judge_at(server, price=(10.0, 100.0))
    seen: list[Progress] = []
    outcomes = fetch([request_of(judge, 7, (1, 2, 4))], store, on_progress=seen.append)
    assert len(server.seen) == 1
    assert server.seen[0].body["n"] == 3
    replies = [json.loads(outcome.value or b"") for outcome in outcomes]
    # the server bills 100 prompt tokens and 10 · 3 + 1 = 31 completion tokens
    assert [reply["prompt_tokens"] for reply in replies] == [34, 33, 33]
    assert [reply["completion_tokens"] for reply in replies] == [11, 10, 10]
    # (100 · 10 + 31 · 100) / 1e6 US$
    assert sum(reply["cost_usd"] for reply in replies) == pytest.approx(0.0041)
    assert seen[-1].cost_usd == pytest.approx(0.0041)
    assert len({outcome.key for outcome in outcomes}) == 3


def test_fewer_choices_than_asked_are_kept_and_the_rest_asked_singly(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"choices": 1}
    judge = judge_at(server, "short")
    outcomes = fetch([request_of(judge, 7, (0, 1, 2))], store)
    assert texts(outcomes) == ["7"] * 3
    assert [seen.body.get("n", 1) for seen in server.seen] == [3, 1, 1]
    assert len(server.paid) == 3
    assert store.facts("local", "short")["n_supported"] is False
    fetch([request_of(judge, 8, (0, 1))], store)  # remembered: not tried again
    assert [seen.body.get("n", 1) for seen in server.seen[3:]] == [1, 1]


def test_more_choices_than_asked_are_no_further_samples(server: JudgeServer, store: ReplyStore) -> None:
    reply = {"message": {"content": "1"}, "finish_reason": "stop"}
    server.always = {"body": {"choices": [reply] * 3, "usage": {"prompt_tokens": 9, "completion_tokens": 6}}}
    outcome = one(fetch([request_of(judge_at(server), 7)], store))
    stored = json.loads(outcome.value or b"")
    assert (stored["prompt_tokens"], stored["completion_tokens"]) == (9, 6)


# -- what a model refuses


@pytest.mark.parametrize(
    ("name", "field", "form"),
    [("temperature", "temperature", "number"), ("max_tokens", "max_tokens", "number"), ("response_format", "", "json")],
)
def test_a_refused_parameter_is_learnt_once_and_costs_no_retry(
    store: ReplyStore, name: str, field: str, form: str
) -> None:
    with judge_server(refuses=(name,)) as server:
        judge = judge_at(server, f"picky-{name}")
        with pytest.warns(EvalkitWarning, match=f"refuses the parameter {name}") as told:
            outcomes = fetch(
                [request_of(judge, item, form=form) for item in range(5)], store, Options(concurrency=1, retries=0)
            )
        assert len(told) == 1
        assert texts(outcomes) == [str(item) for item in range(5)]
        n_seen = 5 + 1 + (name == "response_format")  # one refusal; of a schema, then of any JSON object
        assert len(server.seen) == n_seen
        stored = json.loads(outcomes[0].value or b"")
        expected = {"max_tokens": None, "max_completion_tokens": 512} if name == "max_tokens" else {name: None}
        assert stored["sent"] == expected
        assert outcomes[0].key == request_of(judge, 0).parts.key  # the key holds what was asked for
        again = fetch([request_of(judge, 9, form=form)], store)  # and it is remembered, without a warning
        assert texts(again) == ["9"]
        assert len(server.seen) == n_seen + 1


# -- budget


def test_a_budget_is_never_exceeded_and_the_rest_says_so(server: JudgeServer, store: ReplyStore) -> None:
    judge = judge_at(server, price=(10.0, 100.0), max_tokens=20)
    requests = [request_of(judge, item) for item in range(40)]
    # a reply costs (100 · 10 + 11 · 100) / 1e6 = 0.0021 US$, bounded before by bytes · 10 + 20 · 100
    budget = 10 * 0.0021 + upper_bound(requests[0], 1, (10.0, 100.0))
    outcomes = fetch(requests, store, Options(budget_usd=budget, concurrency=4))
    assert set(reasons(outcomes)) == {None, "budget"}
    assert 10 <= len(server.paid) < 40
    assert len(server.paid) * 0.0021 <= budget
    assert reasons(outcomes).count(None) == len(server.paid)


def test_a_budget_too_small_for_any_call_says_what_one_may_cost(server: JudgeServer, store: ReplyStore) -> None:
    requests = [request_of(judge_at(server, price=(10.0, 100.0)), item) for item in range(5)]
    most = upper_bound(requests[0], 1, (10.0, 100.0))
    outcomes = fetch(requests, store, Options(budget_usd=most / 2))
    assert reasons(outcomes) == ["budget"] * 5
    assert not server.seen
    details = {str(outcome.failure and outcome.failure.detail) for outcome in outcomes}
    assert [detail.endswith(f"; a call may cost US$ {most:.4f}") for detail in details] == [True]


def test_a_call_that_may_have_been_billed_stays_in_the_budget(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"reset": True}
    judge = judge_at(server, price=(10.0, 100.0), max_tokens=20)
    request = request_of(judge, 1)
    budget = 2.5 * upper_bound(request, 1, (10.0, 100.0))
    with pytest.warns(EvalkitWarning, match="failed calls were not sent again: .* of budget_usd=.* spent"):
        outcomes = fetch([request], store, Options(budget_usd=budget))
    assert reasons(outcomes) == ["budget"]
    assert "(an earlier attempt failed: the connection to" in str(outcomes[0].failure)
    assert len(server.seen) == 2


@pytest.mark.filterwarnings("ignore:judge 'openai.*failed calls were not sent again")
def test_no_more_requests_than_allowed_whatever_comes_of_them(server: JudgeServer, store: ReplyStore) -> None:
    troubles: dict[str, dict[str, Any]] = {
        "500": {"status": 500}, "429": {"status": 429}, "502": {"status": 502, "body": b"<html>"},
        "reset": {"reset": True},
        "429 wait": {"status": 429, "headers": {"retry-after": "1"}},
        "html": {"body": b"<html>"}, "hang": {"hang": 600}, "refused": {"status": 400}, "cut": {"raw": b"HTTP/1.1 200"},
    }  # fmt: skip
    item = 0
    for name, trouble in troubles.items():
        for concurrency in (1, 4, 64):
            server.script = deque([trouble] * (2 if "wait" in name else 5))
            server.seen.clear(), server.paid.clear()
            judge = judge_at(server, f"m{item}", timeout_s=1.0 if name == "hang" else 300.0)
            requests = [request_of(judge, item + place) for place in range(12)]
            item += 12
            outcomes = fetch(requests, store, Options(max_calls=8, concurrency=concurrency))
            what = (name, concurrency, reasons(outcomes))
            assert len(server.seen) == 8, what
            assert {"budget"} < set(reasons(outcomes)) | {None} <= {"budget", "server_error", None}, what
            server.script.clear()
            # what was paid is there, and the rest is asked when there are calls for it again
            n_paid = reasons(outcomes).count(None)
            assert n_paid <= len(server.paid), what
            again = fetch(requests, store, Options())
            assert reasons(again) == [None] * 12 or name == "refused", what
            assert len(server.seen) == 8 + 12 - n_paid, what


def test_a_failure_that_a_limit_keeps_from_a_retry_is_named(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"status": 500, "body": {"error": {"message": "out of memory"}}}
    with pytest.warns(
        EvalkitWarning, match=r"not sent again: max_calls=2 reached \(an .* failed: HTTP 500 .*out of mem"
    ):
        outcomes = fetch([request_of(judge_at(server), item) for item in range(4)], store, Options(max_calls=2))
    assert reasons(outcomes) == ["budget"] * 4
    assert ["out of memory" in str(outcome.failure) for outcome in outcomes] == [True, True, False, False]
    assert reasons(fetch([request_of(judge_at(server), 99)], store, Options(max_calls=0))) == ["budget"]


def test_a_request_that_was_not_sent_takes_nothing_of_max_calls(server: JudgeServer, store: ReplyStore) -> None:
    nobody = Judge("openai", "m", base_url="http://127.0.0.1:9/v1", timeout_s=5.0)
    outcomes = fetch([request_of(nobody, 1)], store, Options(max_calls=1, retries=3))
    assert reasons(outcomes) == ["server_error"]


def test_a_budget_needs_a_price_and_a_bound_before_any_call(server: JudgeServer, store: ReplyStore) -> None:
    with pytest.raises(ConfigError, match=r"price of judge 'openai:m' is unknown.*pass price= to the Judge"):
        fetch([request_of(judge_at(server), 1)], store, Options(budget_usd=1.0))
    with pytest.raises(ConfigError, match="max_tokens=None"):
        fetch([request_of(judge_at(server, price=(1.0, 1.0), max_tokens=None), 1)], store, Options(budget_usd=1.0))
    lenient = judge_at(server, price=(1.0, 1.0), params={"max_completion_tokens": "9000"})  # some servers read it
    with pytest.raises(ConfigError, match=r"with budget_usd, max_completion_tokens must be a whole number, got '9000'"):
        fetch([request_of(lenient, 1)], store, Options(budget_usd=1.0))
    assert server.seen == []


# -- single flight, threads, loops


def test_threads_that_want_the_same_pay_once(
    server: JudgeServer, store: ReplyStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Each says what it stored itself, and that the price is not known."""
    caplog.set_level(logging.INFO, "evalkit")
    server.always = {"delay": 0.1}
    judge = judge_at(server)
    requests = [request_of(judge, item, (0, 1)) for item in range(20)]
    results = in_threads(*[lambda: fetch(requests, store)] * 4)
    alike = [[replace(outcome, joined=False) for outcome in result] for result in results]
    assert all(result == alike[0] for result in alike)
    assert sum(not outcome.joined for result in results for outcome in result) == 40
    told = [
        re.match(r"(\d+) replies stored, 0 failed \(none\), (unknown price|US\$ 0.0000),", text)
        for text in caplog.messages
    ]
    stored = {(int(one[1]), one[2]) for one in told if one}
    assert len([one for one in told if one]) == 4
    assert sum(int(one[1]) for one in told if one) == 40
    assert all((n == 0) == (price == "US$ 0.0000") for n, price in stored)
    assert Counter(server.paid) == {f"ITEM-{item}": 1 for item in range(20)}


def test_a_joiner_is_not_bound_by_another_runs_budget(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"delay": 0.2}
    judge = judge_at(server)
    poor = submit([request_of(judge, item) for item in range(2)], store, Options(max_calls=1, concurrency=1))
    while not server.seen:
        time.sleep(0.005)
    rich = fetch([request_of(judge, item) for item in range(2)], store)
    assert texts(rich) == ["0", "1"]
    assert sorted(map(str, reasons(poor.result(300)))) == ["None", "budget"]
    assert Counter(server.paid) == {"ITEM-0": 1, "ITEM-1": 1}


def test_a_call_from_the_loop_thread_is_an_error_not_a_deadlock(store: ReplyStore) -> None:
    async def nested() -> list[Outcome]:
        return fetch([request_of(Judge.of("fake:strict"), 1)], store)

    with pytest.raises(JudgeError, match=r"own event-loop thread.*ajudge"):
        LoopThread.get().submit(nested()).result(300)


def test_a_failing_callback_ends_the_run_and_is_seen(server: JudgeServer, store: ReplyStore) -> None:
    go = threading.Event()
    server.always = {"delay": 0.05}
    server.faults = lambda _: {"until": go} if len(server.seen) > 10 else None

    def broken(progress: Progress) -> None:
        go.set()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fetch(
            [request_of(judge_at(server), item) for item in range(50)],
            store,
            Options(concurrency=2),
            on_progress=broken,
        )
    assert len(server.seen) < 50


def test_the_last_report_has_all_replies_also_if_the_run_ends_while_somebody_reads_the_one_before(
    server: JudgeServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.always = {"delay": 0.5}
    runs: list[Any] = []
    submit = LoopThread.submit

    def watched(*args: Any, **named: Any) -> Any:
        runs.append(submit(*args, **named))
        return runs[-1]

    monkeypatch.setattr(LoopThread, "submit", watched)
    seen: list[Progress] = []

    def slow(progress: Progress) -> None:
        seen.append(progress)
        runs[0].result(60)

    fetch([request_of(judge_at(server), item) for item in range(3)], store, on_progress=slow)
    assert (seen[-1].done, seen[-1].in_flight) == (3, 0)


# -- stopping


def test_a_cancelled_run_drops_what_was_not_sent_and_keeps_what_was(server: JudgeServer, store: ReplyStore) -> None:
    go = threading.Event()
    server.always = {"until": go}
    requests = [request_of(judge_at(server), item) for item in range(30)]

    async def main() -> None:
        task = asyncio.create_task(afetch(requests, store, Options(concurrency=3)))
        while len(server.seen) < 3:  # noqa: ASYNC110  # the server has another loop
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    go.set()
    deadline = time.monotonic() + 300
    keys = [request.parts.key for request in requests]
    while len(store.get_many(keys)) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(store.get_many(keys)) == 3
    assert len(server.seen) == 3


def test_a_stopped_run_does_not_take_a_shared_call_from_others(server: JudgeServer, store: ReplyStore) -> None:
    server.always = {"delay": 0.2}
    requests = [request_of(judge_at(server), item) for item in range(6)]
    leaving = submit(requests, store, Options(concurrency=1))
    staying = submit(requests, store, Options(concurrency=2))
    while not server.seen:
        time.sleep(0.005)
    leaving.cancel()
    assert texts(staying.result(300)) == [str(item) for item in range(6)]
    assert Counter(server.paid) == {f"ITEM-{item}": 1 for item in range(6)}


# -- the store


def test_a_store_that_cannot_be_written_stops_before_anything_is_paid(server: JudgeServer, tmp_path: Path) -> None:
    with pytest.raises(CacheError, match="read-only"):
        fetch([request_of(judge_at(server), 1)], ReplyStore.open(tmp_path, read_only=True))
    assert server.seen == []


def test_a_store_that_fails_half_way_stops_the_run(
    server: JudgeServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No real disk can be filled here, so the store's own method fails from the sixth reply on."""
    put, calls = ReplyStore.aput, iter(range(1000))

    def failing(self: ReplyStore, *args: Any, **kwargs: Any) -> Any:
        if next(calls) >= 5:
            future = asyncio.get_running_loop().create_future()
            future.set_exception(CacheError("the disk is full"))
            return future
        return put(self, *args, **kwargs)

    monkeypatch.setattr(ReplyStore, "aput", failing)
    requests = [request_of(judge_at(server), item) for item in range(200)]
    with pytest.raises(CacheError, match="the disk is full"):
        fetch(requests, store, Options(concurrency=2))
    assert len(server.seen) < 50
    assert len(store.get_many([request.parts.key for request in requests])) == 5


def test_a_refresh_supersedes_what_is_older(server: JudgeServer, store: ReplyStore) -> None:
    request = request_of(judge_at(server), 7)
    fetch([request], store)
    server.always = {"content": "new"}
    assert texts(fetch([request], store)) == ["7"]  # the stored reply is the truth
    assert texts(fetch([request], store, newer_than=time.time())) == ["new"]


# -- keys


def test_the_key_goes_where_it_is_named_for_and_nowhere_else(
    server: JudgeServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Custom: {KEY}\nAuthorization: Bearer {KEY}")
    fetch([request_of(judge_at(server), 1)], store)
    fetch([request_of(judge_at(server, service="api.openai.com"), 1)], store)  # the name alone brings no key
    assert all(KEY not in json.dumps(seen.headers) for seen in server.seen)
    assert all("Authorization" not in seen.headers for seen in server.seen)
    monkeypatch.setenv("MY_KEY", "sk-mine")
    fetch([request_of(judge_at(server, "mine", api_key_env="MY_KEY"), 1)], store)
    assert server.seen[-1].headers["Authorization"] == "Bearer sk-mine"
    monkeypatch.setenv("MY_KEY", "sk-next")  # read at each call
    fetch([request_of(judge_at(server, "mine", api_key_env="MY_KEY"), 2)], store)
    assert server.seen[-1].headers["Authorization"] == "Bearer sk-next"


@pytest.mark.parametrize("step", [{"status": 401}, {"status": 500}, {"reset": True}, {"body": KEY.encode()}])
def test_the_key_is_in_no_message_log_or_row(
    server: JudgeServer,
    store: ReplyStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    step: dict[str, Any],
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    if "status" in step:  # a server that echoes the key
        step = step | {"body": {"error": {"message": f"bad key {KEY}, Bearer {KEY}"}}}
    server.always = step
    judge = judge_at(server, api_key_env="MY_KEY", timeout_s=300)
    with caplog.at_level(logging.DEBUG):
        outcome = one(fetch([request_of(judge, 7)], store, Options(retries=1)))
    assert server.seen[0].headers["Authorization"] == f"Bearer {KEY}"  # it was really sent
    assert outcome.failure.detail
    assert KEY not in repr(outcome)
    assert KEY not in caplog.text
    assert KEY not in repr(judge)


def test_a_missing_key_is_said_before_anything_is_sent(server: JudgeServer, store: ReplyStore) -> None:
    judges = [judge_at(server), judge_at(server, "other", api_key_env="NO_SUCH_KEY")]
    with pytest.raises(
        JudgeError, match=r"NO_SUCH_KEY is not set; set it, name another variable as api_key_env of the judge.*fake"
    ):
        fetch([request_of(judge, 1) for judge in judges], store)
    assert server.seen == []


def test_what_another_has_stored_since_the_look_up_is_not_asked_for(server: JudgeServer, store: ReplyStore) -> None:
    judge = judge_at(server)
    wanted = request_of(judge, 1, (0, 1, 2))
    store.put_many([(replace(wanted.parts, sample=1), Reply("2", created=time.time()))])
    outcomes = fetch([wanted, request_of(judge, 2)], store)
    assert [outcome.failure for outcome in outcomes] == [None] * 4
    assert texts(outcomes)[1] == "2"
    assert store.counters.as_dict()["joins"] == 1
    assert store.stats()["n_replies"] == 4  # the one that was there, and three that were asked for
    store.put_many([(replace(wanted.parts, sample=3), Reply("1", source="recorded", created=time.time()))])
    n_seen = len(server.seen)
    fetch([request_of(judge, 1, (3,))], store)
    assert len(server.seen) == n_seen + 1  # a recorded reply is somebody else's: the judge is asked


def test_what_another_has_stored_takes_nothing_of_the_rate(
    server: JudgeServer, store: ReplyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = RateLimiter.start, list[int]()

    async def counted(limiter: RateLimiter, options: Options, tokens: int) -> None:
        started.append(tokens)
        await start(limiter, options, tokens)

    monkeypatch.setattr(RateLimiter, "start", counted)
    requests = [request_of(judge_at(server, "rare"), item) for item in range(20)]
    store.put_many([(request.parts, Reply("2", created=time.time())) for request in requests[:-1]])
    outcomes = fetch(requests, store, Options(requests_per_minute=1))
    assert reasons(outcomes) == [None] * 20
    assert texts(outcomes)[:-1] == ["2"] * 19
    assert (len(started), len(server.seen)) == (1, 1)
