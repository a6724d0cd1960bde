"""Batches against a server with files, batches and faults: what they bring, what they cost, what is asked twice."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import random
import shlex
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from batch_runs import (
    MODELS,
    SAMPLES,
    answers_to,
    assert_paid_once,
    judged,
    jury,
    sent,
    some_items,
    waits_watched,
    written,
)  # fmt: skip
from batch_server import COMPLETION_TOKENS, PROMPT_TOKENS, BatchServer, batch_server
from in_threads import in_threads
from postgres import fresh_database

import evalkit as ek
from evalkit.engine import ReplyStore, tickets
from evalkit.engine.batches import ticket_in_progress
from evalkit.engine.batches.ticket import shower
from evalkit.engine.judging import submit_and_collect
from evalkit.engine.providers import batch_http
from evalkit.engine.providers.openai_batches import answer_of
from evalkit.engine.request import ProviderError
from evalkit.errors import ConfigError, InputError, JudgeError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setattr(ticket_in_progress, "_LONGEST_POLL_S", 0.02)
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.01)
    with batch_server() as running:
        yield running


@pytest.fixture(params=["sqlite", "postgresql"])
def cache(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "cache")
    return fresh_database(request.getfixturevalue("postgres_url"), tmp_path.name)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


# --- what comes back


def test_a_batch_brings_what_live_calls_would(server: BatchServer, cache: str, tmp_path: Path) -> None:
    items, judges = some_items(20, text="WITHOUT A VERDICT at times"), jury(server)
    items.loc[3:, "answer"] = [f"number {at}" for at in range(3, 20)]
    live = judged(items, judges, str(tmp_path / "live"))
    n_live, server.live_calls = server.live_calls, 0
    server.billed.clear()
    ticket = sent(items, judges, cache)
    assert ticket.is_open
    assert ticket.table["state"].tolist() == ["running (validating)"] * 2
    done = ek.collect(ticket, progress=False)
    assert not done.is_open
    table = judged(items, judges, cache, offline=True, on_miss="raise")
    apart = ["source", "cost_usd", "latency_s"]
    pd.testing.assert_frame_equal(table.drop(columns=apart), live.drop(columns=apart))
    assert (n_live, server.live_calls) == (20 * 2, 0)
    assert_paid_once(server, 20 * 2)
    assert table["error"].value_counts().to_dict() == {"unreadable": 3 * 2 * SAMPLES}
    price = (PROMPT_TOKENS * 0.15 + SAMPLES * COMPLETION_TOKENS * 0.6) / 1e6
    assert live["cost_usd"].sum() == pytest.approx(20 * 2 * price)
    assert table["cost_usd"].sum() == pytest.approx(20 * 2 * price / 2)
    assert done.table["cost_usd"].sum() == pytest.approx(20 * 2 * price / 2)
    assert done.table["n_stored"].tolist() == [60, 60]


def test_a_batch_brings_log_probabilities(
    server: BatchServer, cache: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, half = server.answer, -0.6931

    def with_logprobs(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, completion = answer(body)
        assert (body["logprobs"], body["top_logprobs"]) == (True, 20)
        for choice in completion["choices"]:
            choice["message"]["content"] = '{"explanation": "", "score": 1}'
            tops = [{"token": "1", "logprob": half}, {"token": "2", "logprob": half}]
            texts = [('{"explanation": "", "score": ', []), ("1", tops), ("}", [])]
            content = [{"token": text, "logprob": half if top else 0.0, "top_logprobs": top} for text, top in texts]
            choice["logprobs"] = {"content": content}
        return status, completion

    monkeypatch.setattr(server, "answer", with_logprobs)
    items, judges = some_items(3), jury(server, "gpt-4o-mini", score="expected")
    live = judged(items, judges, str(tmp_path / "live"))
    ek.collect(sent(items, judges, cache), progress=False)
    table = judged(items, judges, cache, offline=True, on_miss="raise")
    assert table["score"].tolist() == pytest.approx([1.5] * 3 * SAMPLES, abs=1e-3)
    apart = ["source", "cost_usd", "latency_s"]
    pd.testing.assert_frame_equal(table.drop(columns=apart), live.drop(columns=apart))


def test_a_batch_of_a_model_that_refuses_log_probabilities_tells_what_to_change(
    server: BatchServer, folder: str
) -> None:
    server.refuses_parameter = "logprobs"
    done = ek.collect(sent(some_items(3), jury(server, "gpt-4o-mini", score="mode"), folder), progress=False)
    assert "omit score=" in str(done)


def test_another_process_collects_with_the_beginning_of_the_id(server: BatchServer, folder: str) -> None:
    items, judges = some_items(4), jury(server)
    ticket = sent(items, judges, folder)
    done = ek.collect(ticket.id[:8], cache=folder, progress=False)
    assert done.id == ticket.id
    assert [one.id for one in tickets(folder)] == [ticket.id]
    assert tickets(folder, only_open=True) == []
    assert judged(items, judges, folder, offline=True)["error"].isna().all()


def test_collect_does_not_wait_unless_it_is_to(server: BatchServer, folder: str) -> None:
    server.takes_s = 3600
    ticket = sent(some_items(4), jury(server), folder)
    once = ek.collect(ticket, wait=False)
    assert once.is_open
    assert once.table["state"].tolist() == ["running (in_progress)"] * 2
    server.offset_s = 3601
    assert not ek.collect(ticket, wait=False).is_open


def test_nothing_is_sent_that_is_in_the_cache(server: BatchServer, folder: str) -> None:
    items, judges = some_items(6), jury(server, "gpt-4o")
    judged(items.head(2), judges, folder)
    ticket = sent(items, judges, folder)
    assert ticket.table["n_requests"].tolist() == [4]
    ek.collect(ticket, progress=False)
    assert_paid_once(server, 6)
    empty = sent(items, judges, folder)
    assert (empty.id, len(empty.table), empty.is_open) == ("", 0, False)
    assert "nothing to send" in str(empty)
    assert ek.collect(empty) is empty


def test_items_of_equal_content_are_sent_once(server: BatchServer, folder: str) -> None:
    items = pd.concat([some_items(3), some_items(3).assign(item_id=["a", "b", "c"])], ignore_index=True)
    ticket = sent(items, jury(server, "gpt-4o"), folder)
    assert ticket.table["n_requests"].tolist() == [3]
    ek.collect(ticket, progress=False)
    assert judged(items, jury(server, "gpt-4o"), folder, offline=True)["score"].notna().all()


def test_a_service_that_returns_one_reply_per_request_gets_one_line_per_sample(
    server: BatchServer, folder: str
) -> None:
    judges = jury(server, "gpt-4o", service="elsewhere")
    ticket = sent(some_items(5), judges, folder)
    assert ticket.table[["n_requests", "n_replies"]].values.tolist() == [[15, 15]]
    ek.collect(ticket, progress=False)
    assert_paid_once(server, 5)
    assert judged(some_items(5), judges, folder, offline=True)["cost_usd"].sum() == pytest.approx(
        15 * (PROMPT_TOKENS * 0.15 + COMPLETION_TOKENS * 0.6) / 1e6
    ), "elsewhere no discount is known"


def test_pairs_and_several_criteria(server: BatchServer, folder: str) -> None:
    rubric = ek.load_rubric("preference")
    items = pd.DataFrame(
        [{"item_id": str(at), "question": "?", "answer_a": f"x{at}", "answer_b": f"y{at}"} for at in range(4)]
    )
    judge = jury(server, "gpt-4o")
    ek.collect(ek.submit(items, rubric, judge, samples=2, cache=folder), progress=False)
    table = ek.judge(items, rubric, judge, samples=2, cache=folder, offline=True, on_miss="raise")
    assert len(table) == len(items) * len(rubric.criteria) * 2 * 2
    assert server.live_calls == 0


def test_a_ticket_is_cut_at_the_limits(server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.engine.providers.openai_batches import Service

    monkeypatch.setattr(Service, "max_requests", 7)
    ticket = sent(some_items(20), jury(server), folder)
    assert ticket.table["n_requests"].tolist() == [7, 7, 6] * 2
    ek.collect(ticket, progress=False)
    assert_paid_once(server, 40)
    monkeypatch.setattr(Service, "max_requests", 1000)
    monkeypatch.setattr(Service, "max_bytes", 20_000)
    ticket = sent(some_items(20, 100), jury(server, "gpt-4o"), folder)
    sizes = [len(content) for purpose, name, content in server.files.values() if ticket.id in name]
    assert len(sizes) > 1
    assert max(sizes) <= 20_000


def stored_as(folder: str, old: str, new: str) -> None:
    """Replace a text in the tickets of a store."""
    store = ReplyStore.open(folder)
    with store.database.writer() as connection, store.database.transaction(connection):
        connection.execute("UPDATE tickets SET details = replace(details, ?, ?)", [old, new])


def test_custom_ids_carry_the_ticket_and_fit_everywhere(server: BatchServer, folder: str) -> None:
    ticket = sent(some_items(3), jury(server), folder)
    ids = [json.loads(line)["custom_id"] for *_, content in server.files.values() for line in content.splitlines()]
    assert len(set(ids)) == 6
    assert all(one.startswith(f"{ticket.id}-") and len(one) <= 64 for one in ids)
    assert {one["metadata"]["evalkit_ticket"] for one in server.batches.values()} == {
        f"evalkit-{ticket.id}-0", f"evalkit-{ticket.id}-1",
    }  # fmt: skip


# --- nothing is asked twice


def test_an_open_ticket_keeps_its_replies(server: BatchServer, cache: str, caplog: pytest.LogCaptureFixture) -> None:
    items, judges = some_items(5), jury(server)
    ticket = sent(items, judges, cache)
    assert sent(items, judges, cache).id == ""
    with caplog.at_level(logging.WARNING, "evalkit"):
        table = judged(items, judges, cache)
    assert set(table["error"]) == {"in_batch"}
    assert ticket.id in caplog.text
    assert judged(items, judges, cache, offline=True)["error"].eq("in_batch").all()
    plan = ek.plan(items, "correctness", judges, samples=SAMPLES, cache=cache)
    assert plan.table[["n_in_batch", "n_to_call"]].values.tolist() == [[15, 0]] * 2
    more = judged(some_items(7), judges, cache)
    assert more["error"].isna().sum() == 2 * 2 * SAMPLES, "the others are asked live"
    ek.collect(ticket, progress=False)
    assert judged(some_items(7), judges, cache)["error"].isna().all()
    assert_paid_once(server, 14)


def test_a_live_call_that_began_before_the_ticket_is_not_sent_again(server: BatchServer, cache: str) -> None:
    items, judges, tables = some_items(8), jury(server, "gpt-4o"), []
    server.hold = True
    thread = threading.Thread(target=lambda: tables.append(judged(items, judges, cache, concurrency=4)))
    thread.start()
    while server.live_calls < 4:
        assert thread.is_alive()
        time.sleep(0.01)
    ticket = sent(items, judges, cache)
    server.hold = False
    thread.join()
    assert ticket.table["n_requests"].sum() == 4, "the other four were in flight"
    assert tables[0]["error"].value_counts().to_dict() == {"in_batch": 4 * SAMPLES}
    ek.collect(ticket, progress=False)
    assert judged(items, judges, cache)["error"].isna().all()
    assert_paid_once(server, 8)


def test_two_processes_submit_the_same_at_once(server: BatchServer, cache: str) -> None:
    items, judges = some_items(30), jury(server)
    made = in_threads(*[lambda: sent(items, judges, cache)] * 4)
    assert sum(ticket.table["n_requests"].sum() for ticket in made) == 60
    for ticket in made:
        ek.collect(ticket, progress=False)
    assert_paid_once(server, 60)
    assert judged(items, judges, cache, offline=True)["error"].isna().all()


def test_two_collect_the_same_ticket_at_once(server: BatchServer, cache: str) -> None:
    ticket = sent(some_items(40), jury(server), cache)
    done = in_threads(*[lambda: ek.collect(ticket.id, cache=cache)] * 4)
    assert [one.is_open for one in done] == [False] * 4
    assert [one.table["n_stored"].tolist() for one in done] == [[120, 120]] * 4
    assert_paid_once(server, 80)


# --- faults


FAULTS = {
    "shuffle": {"shuffle": 2},
    "duplicate lines": {"duplicate_lines": 2},
    "cut line": {"cut_line": 1},
    "empty id of the error file": {"empty_file_id": 2},
    "the output comes later": {"output_comes_later": 2},
    "upload without an answer": {"drop_upload": 1},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_that_need_no_second_batch(server: BatchServer, folder: str, fault: str) -> None:
    server.faults.update(FAULTS[fault])
    items, judges = some_items(21), jury(server)
    done = ek.collect(sent(items, judges, folder), progress=False)
    assert done.table["n_stored"].tolist() == [63, 63]
    assert not server.faults.total(), "it happened"
    assert judged(items, judges, folder, offline=True)["error"].isna().all()
    assert_paid_once(server, 42)
    assert not server.never_used()


@pytest.mark.parametrize(
    ("fault", "n_unanswered", "problem"),
    [
        ("error_file", 3 * SAMPLES, "server_error"),
        ("expire_half", 11 * SAMPLES, ""),
        ("fail_created", 21 * SAMPLES, "internal: it failed right after it was created"),
    ],
)
def test_what_a_batch_leaves_open_is_sent_again(
    server: BatchServer, folder: str, fault: str, n_unanswered: int, problem: str
) -> None:
    server.faults[fault] = 1
    items, judges = some_items(21), jury(server, "gpt-4o")
    done = ek.collect(sent(items, judges, folder), progress=False)
    assert done.table["n_unanswered"].tolist() == [n_unanswered]
    assert problem in done.table["problem"].iloc[0]
    rest = sent(items, judges, folder)
    assert rest.table["n_replies"].tolist() == [n_unanswered]
    ek.collect(rest, progress=False)
    assert judged(items, judges, folder, offline=True)["error"].isna().all()
    assert_paid_once(server, 21)


def test_what_a_batch_leaves_open_can_be_asked_live(server: BatchServer, folder: str) -> None:
    server.faults["expire_half"] = 1
    items, judges = some_items(20), jury(server, "gpt-4o")
    ek.collect(sent(items, judges, folder), progress=False)
    table = judged(items, judges, folder)
    assert table["error"].isna().all()
    assert table["source"].value_counts().to_dict() == {"cache": 30, "live": 30}
    assert_paid_once(server, 20)


@pytest.mark.parametrize("wait", [True, False])
def test_an_error_of_one_batch_keeps_no_other_from_the_cache(server: BatchServer, folder: str, wait: bool) -> None:
    ticket = sent(some_items(5), jury(server), folder)
    del server.batches[min(server.batches)]
    with pytest.raises(JudgeError, match="404"):
        ek.collect(ticket, wait=wait, progress=False)
    (ticket,) = tickets(folder)
    assert (ticket.is_open, ticket.table["n_stored"].tolist()) == (True, [0, 15])


def test_a_key_that_is_not_set_keeps_no_other_batch_from_the_cache(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANOTHER_KEY", "sk-of-the-tests-only")
    judges = [*jury(server, "gpt-4o", api_key_env="ANOTHER_KEY"), *jury(server, "gpt-4o-mini")]
    ticket = sent(some_items(5), judges, folder)
    monkeypatch.delenv("ANOTHER_KEY")
    with pytest.raises(JudgeError, match="ANOTHER_KEY is not set"):
        ek.collect(ticket, progress=False)
    assert tickets(folder)[0].table["n_stored"].tolist() == [0, 15]


def test_a_model_that_is_refused_does_not_stop_the_others(server: BatchServer, folder: str) -> None:
    server.refused = {"gpt-4o"}
    items, judges = some_items(5), jury(server)
    done = ek.collect(sent(items, judges, folder), progress=False)
    assert done.table["n_stored"].tolist() == [15, 0]
    assert "model_not_found: there are no batches of this model" in done.table["problem"].iloc[1]
    table = judged(items, judges, folder, offline=True)
    assert table.groupby("judge", observed=True)["error"].count().tolist() in ([0, 15], [15, 0])


def test_a_batch_whose_creation_was_not_answered_is_found(server: BatchServer, cache: str) -> None:
    server.faults["drop_create"] = 1
    items, judges = some_items(5), jury(server, "gpt-4o")
    ticket = sent(items, judges, cache)
    assert ticket.table["state"].tolist() == ["sending"]
    assert sent(items, judges, cache).id == ""
    assert ek.collect(ticket, progress=False).table["n_stored"].tolist() == [15]
    assert len(server.batches) == 1
    assert_paid_once(server, 5)


@pytest.mark.parametrize("drops", [0, 1])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_ticket_is_collected_while_its_batch_is_created(
    server: BatchServer, cache: str, monkeypatch: pytest.MonkeyPatch, when: str, drops: int
) -> None:
    """The sender waits before or after its request; another thread gives the batch up, or finds it in the list."""
    ask, sender_waits, go_on = ticket_in_progress.OpenTicket._ask, threading.Event(), threading.Event()
    items, judges, made = some_items(5), jury(server, "gpt-4o"), []
    server.takes_s, server.faults["drop_create"] = 3600, drops

    def wait() -> None:
        sender_waits.set()
        assert go_on.wait(30)

    def slow(self: Any, at: int, action: str, *args: Any, **options: Any) -> Any:
        is_slow = action == "create" and threading.current_thread() is thread
        try:
            if is_slow and when == "before":
                wait()
            return ask(self, at, action, *args, **options)
        finally:
            if is_slow and when == "after":
                wait()

    def send() -> None:
        try:
            made.append(sent(items, judges, cache))
        except JudgeError as error:
            made.append(error)

    thread = threading.Thread(target=send)
    with monkeypatch.context() as patch:
        patch.setattr(ticket_in_progress.OpenTicket, "_ask", slow)
        thread.start()
        assert sender_waits.wait(30)
        if when == "before":
            patch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
        (ticket,) = tickets(cache)
        found = ek.collect(ticket, wait=False)
        go_on.set()
        thread.join()
    server.offset_s = 3601
    if when == "after":
        assert made[0].table["batch"].tolist() == list(server.batches)
        assert ek.collect(ticket, progress=False).table["n_stored"].tolist() == [15]
        assert_paid_once(server, 5)
        return
    assert found.table["state"].tolist() == ["unsent"]
    assert not server.batches, "its file was removed"


def test_a_file_is_removed_though_the_process_that_gave_its_batch_up_is_killed(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.statuses["/v1/batches"] = [500]
    ticket = sent(some_items(5), jury(server, "gpt-4o"), folder)
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ticket_in_progress.OpenTicket, "_remove", killed)
        with pytest.raises(KeyboardInterrupt):
            ek.collect(ticket, wait=False)
    assert len(server.never_used()) == 1
    shown = ek.collect(ticket, wait=False)
    assert shown.table["state"].tolist() == ["unsent"]
    assert "HTTP 500" in shown.table["problem"].iloc[0]
    assert server.never_used() == []


def test_a_batch_is_found_by_its_file_where_the_list_has_no_metadata(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.faults["drop_create"], server.hides_metadata = 1, True
    ticket = sent(some_items(5), jury(server, "gpt-4o"), folder)
    assert ticket.table["state"].tolist() == ["sending"]
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    assert ek.collect(ticket, progress=False).table["n_stored"].tolist() == [15]
    assert len(server.batches) == 1
    assert_paid_once(server, 5)


def test_a_batch_is_not_given_up_before_it_must_be_in_the_list(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.faults["drop_create"], server.listed_after_s = 1, 1e9
    ticket = sent(some_items(5), jury(server, "gpt-4o"), folder)
    assert ek.collect(ticket, wait=False).table["state"].tolist() == ["sending"]
    server.listed_after_s = 0
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    assert ek.collect(ticket, progress=False).table["n_stored"].tolist() == [15], "the list decides, not the time"


def test_a_batch_that_was_never_created_is_free_again(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.statuses["/v1/batches"] = [500]
    items, judges = some_items(5), jury(server, "gpt-4o")
    ticket = sent(items, judges, folder)
    assert ticket.table["state"].tolist() == ["sending"]
    assert ek.collect(ticket, wait=False).is_open
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    given_up = ek.collect(ticket, progress=False)
    assert given_up.table["state"].tolist() == ["unsent"]
    assert "HTTP 500" in given_up.table["problem"].iloc[0]
    assert server.never_used() == [], "its file was removed"
    ek.collect(sent(items, judges, folder), progress=False)
    assert_paid_once(server, 5)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches/", "/v1/files/file-out"])
def test_what_may_be_repeated_is_repeated(server: BatchServer, folder: str, path: str, status: int) -> None:
    server.statuses[path] = [status, status]
    items, judges = some_items(5), jury(server, "gpt-4o")
    done = ek.collect(sent(items, judges, folder), progress=False)
    assert done.table["n_stored"].tolist() == [15]
    assert server.statuses[path] == []
    assert_paid_once(server, 5)


def test_a_request_to_create_is_repeated_only_if_it_was_refused(server: BatchServer, folder: str) -> None:
    server.statuses["/v1/batches"] = [429]
    assert sent(some_items(2), jury(server, "gpt-4o"), folder).table["state"].tolist() == ["running (validating)"]
    server.statuses["/v1/batches"] = [500]
    n = sum(path == "/v1/batches" for _, path in server.seen)
    assert sent(some_items(2, 10), jury(server, "gpt-4o"), folder).table["state"].tolist() == ["sending"]
    assert sum(path == "/v1/batches" for _, path in server.seen) == n + 1


def test_a_request_with_all_its_attempts_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt takes 200 s, and the server then asks for a wait of 100 s: the next one is 300 s later."""
    now, timeouts = [5000.0], list[float]()

    class Busy:
        async def send(self, *_: Any, timeout_s: float, **__: Any) -> Any:
            timeouts.append(timeout_s)
            now[0] += min(200, timeout_s)
            raise ProviderError("server_error", "not now", status=503, retry_after=100.0)

    async def wait(seconds: float) -> None:
        now[0] += seconds

    def attempts(until: float, **options: Any) -> list[float]:
        now[0] = 5000.0
        timeouts.clear()
        requests = batch_http.BatchRequests(ek.Judge("openai", "m"), Busy(), until)
        with pytest.raises(ProviderError, match="no time was left" if until <= 5000 else "not now") as problem:
            asyncio.run(requests.ask("/files", b"", **options))
        assert not problem.value.maybe_paid
        return [*timeouts]

    monkeypatch.setattr(batch_http, "time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(batch_http, "asyncio", SimpleNamespace(sleep=wait))
    whole = batch_http.FILE_TIMEOUT_S
    assert whole == 900 < ticket_in_progress.CERTAIN_S - 250
    assert attempts(1e12, timeout_s=whole) == [900, 600, 300]
    assert attempts(5000 + 650, timeout_s=whole) == [650, 350, 50]
    assert attempts(5000 + 650, timeout_s=400.0) == [400, 350, 50]
    assert attempts(5000.0) == attempts(4000.0) == []


def test_batches_that_are_still_to_be_sent_are_not_given_up_during_a_long_upload(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.faults["busy_upload"] = 5
    with waits_watched(monkeypatch, folder) as waits:
        ticket = sent(some_items(5), jury(server), folder)
    assert waits == pytest.approx([280] * 3 + [280], abs=1), "of the first upload, and of the second one"
    assert ticket.table["state"].tolist() == ["unsent", "running (validating)"]
    assert "too busy" in ticket.table["problem"].iloc[0]
    server.offset_s = sum(waits)
    ek.collect(ticket, progress=False)
    ek.collect(sent(some_items(5), jury(server), folder), progress=False)
    assert_paid_once(server, 10)


def test_the_time_to_send_counts_from_what_the_ticket_says(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stood still for 15 minutes after it had stored that it sends."""
    with monkeypatch.context() as patch:
        patch.setattr(batch_http, "time", SimpleNamespace(time=lambda: time.time() + 900))
        with pytest.raises(JudgeError, match="no batch could be sent: no time was left to send the request to /files"):
            sent(some_items(5), jury(server, "gpt-4o"), folder)
    assert ("POST", "/v1/files") not in server.seen
    ek.collect(sent(some_items(5), jury(server, "gpt-4o"), folder), progress=False)
    assert_paid_once(server, 5)


def test_complete_without_a_file_is_waited_for_and_then_ends(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.faults["no_output"] = 1
    ticket = sent(some_items(5), jury(server, "gpt-4o"), folder)
    assert ek.collect(ticket, wait=False).is_open
    monkeypatch.setattr(ticket_in_progress, "_WITHOUT_FILES_S", 0.0)
    done = ek.collect(ticket, progress=False)
    assert done.table[["n_stored", "n_unanswered"]].values.tolist() == [[0, 15]]
    assert "completed without replies" in done.table["problem"].iloc[0]


def test_requests_that_are_refused_have_a_reason(server: BatchServer, folder: str) -> None:
    items = pd.concat([some_items(2), some_items(3, 2, text="REFUSE THIS")], ignore_index=True)
    done = ek.collect(sent(items, jury(server, "gpt-4o"), folder), progress=False)
    assert done.table["n_unanswered"].tolist() == [9]
    assert "9 refused" in done.table["problem"].iloc[0]
    assert "against the rules" in done.table["problem"].iloc[0]
    assert "REFUSE" not in str(done), "no prompt is in a message"
    live = judged(items, jury(server, "gpt-4o"), folder)
    assert live["error"].value_counts().to_dict() == {"refused": 9}


def test_prompts_that_are_too_long_are_not_sent_again(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, n_refused = BatchServer.answer, [0]

    def refusing(server: BatchServer, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if "REAM" not in body["messages"][-1]["content"]:
            return answer(server, body)
        n_refused[0] += 1
        return 400, {"error": {"message": "it is long", "code": "context_length_exceeded"}}

    monkeypatch.setattr(BatchServer, "answer", refusing)
    items = pd.concat([some_items(2), some_items(3, 2, text="REAM")], ignore_index=True)
    done = ek.collect(sent(items, jury(server, "gpt-4o"), folder), progress=False)
    assert done.table[["n_stored", "n_unanswered"]].values.tolist() == [[6, 9]]
    assert "9 too_long" in done.table["problem"].iloc[0]
    assert not len(sent(items, jury(server, "gpt-4o"), folder).table)
    live = judged(items, jury(server, "gpt-4o"), folder)
    assert live["error"].value_counts().to_dict() == {"too_long": 9}
    assert n_refused == [3]  # a request for the three samples of each


def test_a_prompt_that_an_error_repeats_for_each_sample_is_not_stored(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: BatchServer, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        prompt = body["messages"][-1]["content"]
        return 400, {"error": {"message": prompt[prompt.index("PRIVATE") :][:60]}}

    monkeypatch.setattr(BatchServer, "answer", answer)
    ticket = sent(some_items(1, text="PRIVATE"), jury(server, "gpt-4o", service="elsewhere"), folder)
    done = ek.collect(ticket, progress=False)
    assert done.table[["n_requests", "problem"]].values.tolist() == [[3, "3 server_error"]]


def test_a_refused_parameter_is_left_out_the_next_time(server: BatchServer, folder: str) -> None:
    server.refuses_parameter = "max_tokens"
    items, judges = some_items(4), jury(server, "gpt-4o")
    done = ek.collect(sent(items, judges, folder), progress=False)
    assert done.table["n_stored"].tolist() == [0]
    done = ek.collect(sent(items, judges, folder), progress=False)
    assert done.table["n_stored"].tolist() == [12]
    key = bytes.fromhex(judged(items.head(1), judges, folder, offline=True)["key"].iloc[0])
    assert json.loads(ReplyStore.open(folder).get_many([key])[key])["sent"] == {
        "max_tokens": None,
        "max_completion_tokens": 512,
    }
    assert_paid_once(server, 4)


def test_a_refused_schema_is_a_json_object_the_next_time_and_then_nothing(server: BatchServer, folder: str) -> None:
    server.refuses_parameter = "response_format"
    items, judges = some_items(2), jury(server, "gpt-4o")
    stored = [ek.collect(sent(items, judges, folder), progress=False).table["n_stored"].tolist() for _ in range(3)]
    assert stored == [[0], [0], [6]]
    assert ReplyStore.open(folder).facts(judges[0].service, "gpt-4o")["adapt.response_format"] is None
    server.refuses_parameter = ""
    other = jury(server, "gpt-4o-mini")
    ReplyStore.open(folder).learn(other[0].service, "gpt-4o-mini", "adapt.response_format", "json_object")
    ek.collect(sent(items, other, folder), progress=False)
    key = bytes.fromhex(judged(items.head(1), other, folder, offline=True)["key"].iloc[0])
    stored_reply = json.loads(ReplyStore.open(folder).get_many([key])[key])
    assert stored_reply["sent"] == {"response_format": {"type": "json_object"}}


def test_a_batch_knows_what_its_judge_sent(server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lower limit than the judge's own is learnt, and nothing from the refusal of what the user set."""
    fine = server.answer

    def answer(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if body["max_tokens"] > 2048:
            return 400, {"error": {"message": "max_tokens: 3000 is above 2048, the most of this model"}}
        if body.get("response_format") == {"type": "text"}:
            return 400, {"error": {"message": "response_format: text is not known"}}
        return fine(body)

    monkeypatch.setattr(server, "answer", answer)
    items, judges = some_items(2), [jury(server, "gpt-4o")[0].replace(max_tokens=3000)]
    stored = [ek.collect(sent(items, judges, folder), progress=False).table["n_stored"].tolist() for _ in range(2)]
    assert stored == [[0], [6]]
    facts = ReplyStore.open(folder).facts(judges[0].service, "gpt-4o")
    assert facts["adapt.max_tokens"] == 2048
    others = [judges[0].replace(params={"response_format": {"type": "text"}})]
    done = ek.collect(sent(items, others, folder), progress=False)
    assert done.table["n_stored"].tolist() == [0]
    assert "response_format: text is not known" in done.table["problem"].iloc[0]
    assert ReplyStore.open(folder).facts(judges[0].service, "gpt-4o") == facts


# --- cancelled, budget


@pytest.mark.parametrize("later", [0, 1])
def test_a_cancelled_batch_keeps_what_was_answered(server: BatchServer, folder: str, later: int) -> None:
    server.takes_s, server.faults["output_comes_later"] = 3600, later
    items, judges = some_items(20), jury(server, "gpt-4o")
    ticket = sent(items, judges, folder)
    done = ek.collect(ticket, cancel=True, progress=False)
    assert (done.is_open, done.table["n_stored"].tolist()) == (False, [30])
    assert judged(items, judges, folder)["error"].isna().all()
    assert_paid_once(server, 20)


def test_a_budget_holds_for_batches(server: BatchServer, folder: str) -> None:
    items, judges = some_items(20), jury(server, "gpt-4o")
    plan = ek.plan(items, "correctness", judges, samples=SAMPLES, cache=folder)
    assert plan.usd_in_batches == pytest.approx(plan.usd / 2)
    whole = sent(items, judges, str(Path(folder, "other"))).table["usd_at_most"].sum()
    ticket = sent(items, judges, folder, budget_usd=whole / 2)
    n_sent = int(ticket.table["n_requests"].sum())
    assert 0 < n_sent <= 10
    assert ticket.n_left_out == (20 - n_sent) * SAMPLES
    assert ticket.table["usd_at_most"].sum() <= whole / 2
    assert "not sent, to stay within budget_usd" in str(ticket)
    table = judged(items, judges, folder, offline=True)
    assert table["error"].value_counts().to_dict() == {
        "in_batch": n_sent * SAMPLES, "cache_miss": (20 - n_sent) * SAMPLES,
    }  # fmt: skip
    with pytest.raises(ConfigError, match="the price of judge"):
        sent(items, jury(server, "x", price=None, service="elsewhere"), folder, budget_usd=1)


def without_choices(server: BatchServer, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """Every third answer is billed, and has no choices."""
    status, answer = ANSWER(server, body)
    return status, answer | ({"choices": []} if len(server.billed) % 3 == 0 else {})


ANSWER = BatchServer.answer
HALF_PRICES = 0.15 / 2, 0.6 / 2  # US$ per million tokens, in a batch
COST_OF_ONE = (PROMPT_TOKENS * HALF_PRICES[0] + SAMPLES * COMPLETION_TOKENS * HALF_PRICES[1]) / 1e6


def test_replies_that_cannot_be_read_leave_the_others_and_their_price(
    server: BatchServer, cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchServer, "answer", without_choices)
    ticket = sent(some_items(9), jury(server, "gpt-4o"), cache)
    done = ek.collect(ticket, progress=False)
    assert done.table[["n_stored", "n_unanswered"]].values.tolist() == [[6 * SAMPLES, 3 * SAMPLES]]
    assert done.table["cost_usd"].item() == pytest.approx(6 * COST_OF_ONE), "the price of what is stored"


def test_a_batch_that_is_gone_can_be_given_up(server: BatchServer, folder: str) -> None:
    judges = jury(server)
    ticket = sent(some_items(5), judges, folder)
    del server.batches[min(server.batches)]
    done = ek.collect(ticket, cancel=True, progress=False)
    assert (done.is_open, done.table["n_stored"].tolist()) == (False, [0, 15])
    assert done.table["cost_usd"].tolist() == [0.0, pytest.approx(5 * COST_OF_ONE)]


def test_answers_that_were_cut_off_can_be_given_up(server: BatchServer, folder: str) -> None:
    server.faults["cut_line"] = 3
    ticket = sent(some_items(10), jury(server, "gpt-4o"), folder)
    done = ek.collect(ticket, cancel=True, progress=False)
    n_read = done.table["n_stored"].item() // SAMPLES
    assert (0 < n_read < 10, done.is_open) == (True, False)
    assert done.table["cost_usd"].item() == pytest.approx(n_read * COST_OF_ONE)


def test_requests_that_expired_are_not_billed(server: BatchServer, folder: str) -> None:
    server.faults["expire_half"] = 1
    ticket = sent(some_items(10), jury(server, "gpt-4o"), folder)
    done = ek.collect(ticket, progress=False)
    assert done.table["problem"].item() == "expired before all requests were processed"
    assert done.table["cost_usd"].item() == pytest.approx(5 * COST_OF_ONE)


# --- files


def test_requests_in_a_file(server: BatchServer, folder: str, tmp_path: Path) -> None:
    items, judges = some_items(4), [ek.Judge("openai", model, base_url=server.url) for model in MODELS]
    ticket = sent(items, judges, folder, to=tmp_path / "out" / "requests.jsonl")
    paths = [tmp_path / "out" / f"requests-{number}.jsonl" for number in (0, 1)]
    assert ticket.table["batch"].tolist() == [str(path) for path in paths]
    assert ticket.table["state"].tolist() == ["file", "file"]
    assert not server.seen
    assert ek.collect(ticket, progress=False).is_open, "it does not wait for files"
    for number, path in enumerate(paths):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert {line["body"]["model"] for line in lines} == {MODELS[number]}
        # one request of the second file has no answer
        answers = written(tmp_path / f"answers-{number}.jsonl", answers_to(path, server)[number:])
        with answers.open("a") as out:
            out.write('{"custom_id": "of another ticket", "response": null}\n\nno JSON\n')
    with pytest.raises(InputError, match=r"no whole line of .* answers an open request of ticket"):
        ek.collect(ticket, results=paths[0])
    done = ek.collect(ticket, results=tmp_path / "answers-0.jsonl")
    assert done.table["state"].tolist() == ["ended", "file"]
    done = ek.collect(ticket, results=[tmp_path / "answers-0.jsonl", tmp_path / "answers-1.jsonl"])
    assert done.is_open
    assert "1 of 12 requests without an answer (2 lines cut or unreadable); import the rest" in str(done)
    assert judged(items, judges, folder)["error"].value_counts().to_dict() == {"in_batch": 1}
    done = ek.collect(ticket, cancel=True, progress=False)
    assert not done.is_open
    assert done.table["n_stored"].tolist() == [12, 11]
    with pytest.raises(InputError, match="has ended, and takes no more answers"):
        ek.collect(ticket, results=tmp_path / "answers-1.jsonl")
    table = judged(items, judges, folder, offline=True)
    assert table["error"].value_counts().to_dict() == {"cache_miss": 1}


@pytest.mark.parametrize("rest", ["whole", "only what lacks"])
def test_answers_that_are_still_being_copied_are_imported_later(
    server: BatchServer, folder: str, tmp_path: Path, rest: str
) -> None:
    """Cut anywhere: what is there is stored, the others stay with the ticket, and none is bought again."""
    items, judge, draw = some_items(3), jury(server, "gpt-4o"), random.Random(0)
    for at in range(8):
        folder, requests, answers = (str(tmp_path / f"{at}{name}") for name in ("cache", "asks.jsonl", "answers.jsonl"))
        ticket = sent(items, judge, folder, to=requests)
        texts = [json.dumps(one).encode() for one in answers_to(requests, server)]
        whole = b"".join(text + b"\n" for text in texts)
        # also behind a brace within a line, which looks like its end
        ends = [place + 1 for place in range(len(whole) - 1) if whole[place : place + 1] == b"}"]
        cut = draw.choice(ends) if at % 2 else draw.randrange(1, len(whole) - 2)
        Path(answers).write_bytes(whole[:cut])
        n_there = sum(text in texts for text in whole[:cut].split(b"\n"))
        if not n_there:
            with pytest.raises(InputError, match="no whole line"):
                ek.collect(ticket, results=answers)
        else:
            now = ek.collect(ticket, results=answers)
            assert now.is_open == (n_there < len(texts)), (cut, n_there)
        done = ek.collect(ticket) if n_there == len(texts) else None
        if done is None:
            Path(answers).write_bytes(whole if rest == "whole" else whole[whole.rfind(b"\n", 0, cut) + 1 :])
            done = ek.collect(ticket, results=answers)
        assert not done.is_open
        assert done.table["problem"].tolist() == [""]
        assert done.table[["n_stored", "n_unanswered"]].values.tolist() == [[len(items) * 3, 0]]
        table = judged(items, judge, folder, offline=True)
        assert table["error"].isna().all()
        assert done.table["cost_usd"].sum() == pytest.approx(table["cost_usd"].sum())


@pytest.mark.parametrize("provider", ["vllm", "litellm", "inference-providers"])
def test_a_file_can_be_for_any_provider_of_chat_models(folder: str, tmp_path: Path, provider: str) -> None:
    judge = ek.Judge(provider, "org/model")
    ticket = sent(some_items(2), judge, folder, to=tmp_path / "requests.jsonl")
    lines = answers_to(tmp_path / "requests.jsonl", BatchServer())
    del lines[0]["response"]["body"]["id"]
    answers = written(tmp_path / "answers.jsonl", [line | {"response": lines[0]["response"]} for line in lines])
    assert not ek.collect(ticket.id, results=answers, cache=folder).is_open
    assert judged(some_items(2), judge, folder, offline=True)["score"].notna().all()


def test_the_answers_of_a_server_that_the_cache_names_can_be_imported(
    server: BatchServer, folder: str, tmp_path: Path
) -> None:
    """Nothing is sent, so no key can go elsewhere."""
    judge = ek.Judge("openai", "m", base_url="http://judges.example.org/v1", api_key_env="OPENAI_API_KEY")
    ticket = sent(some_items(2), judge, folder, to=tmp_path / "requests.jsonl")
    answers = written(tmp_path / "answers.jsonl", answers_to(tmp_path / "requests.jsonl", server))
    assert not ek.collect(ticket.id, results=answers, cache=folder).is_open
    assert judged(some_items(2), judge, folder, offline=True)["score"].notna().all()


def test_requests_that_cannot_be_written_are_free(server: BatchServer, folder: str, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        sent(some_items(2), jury(server, "gpt-4o"), folder, to=tmp_path)
    assert tickets(folder, only_open=True) == []
    assert judged(some_items(2), jury(server, "gpt-4o"), folder)["error"].isna().all()


def test_a_file_that_is_not_answered_is_cancelled(server: BatchServer, folder: str, tmp_path: Path) -> None:
    ticket = sent(some_items(2), jury(server, "gpt-4o"), folder, to=tmp_path / "requests.jsonl")
    assert not ek.collect(ticket, cancel=True, progress=False).is_open
    assert judged(some_items(2), jury(server, "gpt-4o"), folder)["error"].isna().all()


@pytest.mark.parametrize(
    ("line", "kind", "detail"),
    [
        # as vllm run-batch writes them (vLLM 0.33, entrypoints/launchers/run_batch.py)
        ({"response": {"status_code": 400, "request_id": "vllm-batch-1", "body": None},
          "error": {"error": {"message": "this model's maximum context length is 10", "type": "BadRequestError",
                              "param": None, "code": 400}}}, "too_long", "maximum context length is 10"),
        ({"response": {"status_code": 400, "request_id": "vllm-batch-1"}, "error": "no such endpoint"},
         "client_error", "no such endpoint"),
        # as OpenAI writes them
        ({"response": None, "error": {"code": "server_error", "message": "x"}}, "server_error", "(server_error)"),
        ({"response": {"status_code": 429, "body": {"error": {"message": "slow down"}}}, "error": None},
         "rate_limited", "slow down"),
        ({"response": {"status_code": 200, "body": {"choices": []}}, "error": None}, "malformed", "choices are empty"),
        ({}, "server_error", "no reason given"),
    ],
)  # fmt: skip
def test_lines_without_a_reply(line: dict[str, Any], kind: str, detail: str) -> None:
    answer = answer_of(line, ek.Judge("openai", "m"))
    assert answer.kind == kind
    assert detail in answer.detail


@pytest.mark.parametrize("code", ["batch_expired", "batch_cancelled"])
def test_a_request_that_was_not_processed_has_no_error(code: str) -> None:
    assert answer_of({"response": None, "error": {"code": code, "message": "x"}}, ek.Judge("openai", "m")) is None


# --- messages


def test_messages(server: BatchServer, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = some_items(2)
    with pytest.raises(ConfigError, match="sends no batches to the provider 'fake', only to "):
        sent(items, "fake:strict", folder)
    ticket = sent(items, jury(server, "gpt-4o"), folder)
    with pytest.raises(InputError, match=f"{ticket.id!r} not found in .*other.*no open tickets.*cache that submit"):
        ek.collect(ticket.id, cache=tmp_path / "other")
    for unknown in ("ffffffffffffffffffffffff", "", "x'; DROP TABLE tickets"):
        with pytest.raises(InputError, match=r"ticket .* not found in"):
            ek.collect(unknown, cache=folder)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(JudgeError, match="OPENAI_API_KEY is not set"):
        ek.collect(ticket)
    with pytest.raises(JudgeError, match="OPENAI_API_KEY is not set"):
        sent(some_items(2, 10), jury(server, "gpt-4o"), folder)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
    server.batches.clear()
    with pytest.raises(JudgeError, match=r"/batches/batch_\d+ not found \(HTTP 404\)"):
        ek.collect(ticket)
    assert not ek.collect(ticket, cancel=True).is_open, "one that is gone can be given up"
    nowhere = ek.Judge("openai", "m", base_url=server.url.replace("/v1", "/v2"))
    with pytest.raises(JudgeError, match=r"no batch could be sent: .*HTTP 404 for /files: the server has no batches"):
        sent(items, nowhere, folder)
    assert judged(items, jury(server, "gpt-4o"), folder)["error"].isna().all(), "its replies are free"
    assert "sk-of-the-tests-only" not in str(ticket)


def test_an_interrupted_collect_loses_nothing(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.takes_s = 3600
    ticket = sent(some_items(3), jury(server, "gpt-4o"), folder)
    count = itertools.count()

    def interrupt(_: float) -> None:
        if next(count) == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        ticking = SimpleNamespace(monotonic=time.monotonic, sleep=interrupt, time=time.time)
        patch.setattr(ticket_in_progress, "time", ticking)
        with pytest.raises(KeyboardInterrupt, match=f"nothing is lost. To continue, call collect\\('{ticket.id}'\\)"):
            ek.collect(ticket, progress=False)
    server.offset_s = 3601
    assert ek.collect(ticket, progress=False).table["n_stored"].tolist() == [9]


def test_a_ticket_shows_itself(server: BatchServer, folder: str) -> None:
    ticket = sent(some_items(3), jury(server, "gpt-4o"), folder)
    assert str(ticket).startswith(f"ticket {ticket.id}: 0 of 9 replies stored (US$ 0.0000, expected ")
    page = ticket._repr_html_()
    assert "<table" in page
    assert ticket.id in page


def test_a_ticket_is_shown_again_only_if_more_than_its_age_changed(
    server: BatchServer, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.takes_s = 3600
    ticket = sent(some_items(3), jury(server, "gpt-4o"), folder)
    show = shower(True)
    for age in (0, 120, 7200):
        show(replace(ticket, created=time.time() - age))
    assert capsys.readouterr().err.count(f"ticket {ticket.id}") == 1
    show(ek.collect(ticket, wait=False))
    assert capsys.readouterr().err.count("running (in_progress)") == 1
    server.offset_s = 3601
    show(done := ek.collect(ticket, wait=False))
    show(done)
    assert capsys.readouterr().err.count("9 of 9 replies stored") == 1


def nothing(n: int, n_cached: int, n_held: int, n_skipped: int) -> str:
    judgments = "1 judgment" if n == 1 else f"{n} judgments"
    return (
        f"nothing to send: of {judgments}, {n_cached} in the cache, {n_held} in open tickets (`evalkit batch list`), "
        f"{n_skipped} of items that lack an input"
    )


def test_an_empty_ticket_says_why(server: BatchServer, folder: str) -> None:
    judges = jury(server, "gpt-4o")
    judged(some_items(1), judges, folder)
    assert str(sent(some_items(0), judges, folder)) == nothing(0, 0, 0, 0)
    assert str(sent(some_items(1), judges, folder)) == nothing(3, 3, 0, 0)
    ticket = sent(some_items(2), judges, folder)
    assert str(sent(some_items(1, 1), judges, folder)) == nothing(3, 0, 3, 0)
    items = pd.concat([some_items(2), some_items(1, 9).assign(answer=None)], ignore_index=True)
    mixed = sent(items, judges, folder, on_missing="skip")
    assert str(mixed) == nothing(9, 3, 3, 3)
    assert (mixed.why_none, ticket.why_none) == (str(mixed).removeprefix("nothing to send: "), "")
    one = ek.submit(items.tail(1), "correctness", judges, samples=1, cache=folder, on_missing="skip")
    assert str(one) == nothing(1, 0, 0, 1)


def test_an_empty_ticket_says_that_others_were_faster(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, judges = some_items(2), jury(server, "gpt-4o")
    find = submit_and_collect.missing_requests

    def slow(*args: Any) -> Any:
        missing = find(*args)
        monkeypatch.undo()
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests-only")
        judged(items, judges, folder)
        return missing

    monkeypatch.setattr(submit_and_collect, "missing_requests", slow)
    assert "nothing to send: meanwhile, other processes sent, requested" in str(sent(items, judges, folder))
    assert server.batches == {}


def test_results_that_stay_cut_end_the_wait_with_an_error(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_in_progress, "_CUT_TRIES", 3)
    items, judges = some_items(20), jury(server)
    ticket = sent(items, judges, folder)
    server.faults["cut_line"] = 1_000_000
    file = r"in the file file-out\d+ of batch batch_\d+, lines are missing"
    ours = rf"ticket {ticket.id}: {file}.*are stored. Collect the ticket again"
    with pytest.raises(JudgeError, match=ours):
        ek.collect(ticket, progress=False)
    assert server.faults["cut_line"] == 1_000_000 - 2 * 3 * 3, "two files, three tries, each reads a file three times"
    assert tickets(folder)[0].is_open
    n_scored = judged(items, judges, folder)["error"].isna().sum()
    assert 0 < n_scored < 120, "what could be read is kept, and the rest is not asked for again"
    server.faults.clear()
    assert not ek.collect(ticket, progress=False).is_open
    assert judged(items, judges, folder)["error"].isna().all()
    assert_paid_once(server, 40)


def test_a_download_that_always_breaks_off_ends_the_wait_with_an_error(server: BatchServer, folder: str) -> None:
    ticket = sent(some_items(20), jury(server, "gpt-4o"), folder)
    server.faults["broken_content"] = 1_000_000
    for options in ({}, {"cancel": True}):
        with pytest.raises(JudgeError, match=f"ticket {ticket.id}: the connection to .* broke off"):
            ek.collect(ticket, progress=False, **options)
    assert tickets(folder)[0].is_open, "the file is there, so it is not given up"
    server.faults.clear()
    assert ek.collect(ticket, progress=False).table["n_stored"].tolist() == [60]
    assert_paid_once(server, 20)


def test_lines_that_stay_cut_are_asked_for_until_the_ticket_is_cancelled(server: BatchServer, folder: str) -> None:
    server.faults["cut_line"] = 6
    ticket = sent(some_items(20), jury(server, "gpt-4o"), folder)
    with pytest.raises(JudgeError, match="lines are missing or cut"):
        ek.collect(ticket, wait=False)
    assert 0 < judged(some_items(20), jury(server, "gpt-4o"), folder, offline=True)["error"].isna().sum() < 60
    given_up = ek.collect(ticket, cancel=True, progress=False)
    assert given_up.table["n_unanswered"].item() >= 30
    assert "lines are missing" in given_up.table["problem"].item()


@pytest.mark.parametrize(
    "url", ["http://judges.example.org/v1", "http://api.openai.com/v1", "https://api.openai.com:1/v1"]
)
def test_no_key_goes_to_a_server_that_only_the_cache_names(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    ticket = sent(some_items(2), jury(server, "gpt-4o"), folder)
    stored_as(folder, server.url, url)
    n_seen = len(server.seen)
    for action in ({}, {"cancel": True}):
        with pytest.raises(ConfigError, match=f"would send the key in OPENAI_API_KEY to {url}.*pass base_url="):
            ek.collect(ticket.id, cache=folder, **action)
    assert len(server.seen) == n_seen
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    with pytest.raises(ConfigError, match="would send the key"):
        ek.collect(ticket.id, cache=folder)
    monkeypatch.setattr(batch_http, "_RETRIES", 0)
    with pytest.raises(JudgeError, match=f"no connection to {url.removesuffix('/v1')}"):
        ek.collect(ticket.id, cache=folder, base_url=url, wait=False)


def test_the_environment_of_another_day_does_not_change_the_server(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticket = sent(some_items(2), jury(server, "gpt-4o"), folder)
    stored_as(folder, f'"{server.url}"', "null")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setattr(batch_http, "_RETRIES", 0)
    with pytest.raises(JudgeError, match=r"no connection to https://api\.openai\.com"):
        ek.collect(ticket.id, cache=folder, wait=False)


def test_a_ticket_whose_process_ended_while_it_was_written_ends(
    server: BatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    items, judges = some_items(3), jury(server, "gpt-4o")
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.engine.judging.submit_and_collect._write", lambda *_, **__: os._exit(9))
        pid = os.fork()
        if not pid:
            sent(items, judges, folder)
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    (ticket,) = tickets(folder)
    assert ek.collect(ticket, wait=False).is_open
    assert sent(items, judges, folder).id == ""
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    assert not ek.collect(ticket, progress=False).is_open
    ek.collect(sent(items, judges, folder), progress=False)
    assert_paid_once(server, 3)


@pytest.mark.parametrize("judge", ["fake:strict", "none"])
def test_judges_that_no_batch_can_ask(folder: str, tmp_path: Path, judge: str) -> None:
    profile = tmp_path / "p.yaml"
    profile.write_text("profile: p\nrubric: correctness\njudges:\n- {provider: openai, model: gpt-4o}\n")
    with pytest.raises(ConfigError, match=r"makes no calls|reads no request file"):
        ek.submit(some_items(1), ek.load_profile(profile), judge, cache=folder, to=tmp_path / "x.jsonl")


def test_an_error_of_one_ticket_keeps_no_other_from_the_cache(
    server: BatchServer, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from evalkit.cli.main_command import main

    sent(some_items(2), jury(server, "gpt-4o"), folder)
    server.batches.clear()
    second = sent(some_items(2), jury(server, "gpt-4o-mini"), folder)
    assert main(["batch", "collect", "--no-wait", "--cache", folder]) not in (0, None)
    said = capsys.readouterr()
    assert "HTTP 404" in said.err
    assert second.id in said.out
    assert [one.is_open for one in tickets(folder)] == [True, False]


# --- the page


def test_the_commands_of_the_page(
    server: BatchServer,
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each block of docs/batches.md in its order; a program like ``vllm run-batch`` is played by the server."""
    from page_blocks import blocks_of
    from places import ROOT

    from evalkit.cli.main_command import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVALKIT_CACHE", folder)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    items, _ = ek.load_example("support")
    items.to_json("items.jsonl", orient="records", lines=True)
    names: dict[str, Any] = {"items": items.head(5)}
    commands = []
    for block in blocks_of((ROOT / "docs" / "batches.md").read_text(encoding="utf-8")):
        if block.words[:1] == ("python",):
            exec(block.body, names)
        for line in block.body.splitlines() if block.words == ("console",) else ():
            words = shlex.split(line.removeprefix("$ "))
            commands.append(words[:3])
            if words[0] == "vllm":
                given, answers = Path(words[words.index("-i") + 1]), Path(words[words.index("-o") + 1])
                written(answers, answers_to(given, server))
                continue
            if "3f2a9c" in words:
                if "cancel" in words:
                    server.takes_s = 3600
                    ek.submit(items, "faithfulness", jury(server, "another"), cache=folder)
                (ticket,) = tickets(folder, only_open=True)
                words[words.index("3f2a9c")] = ticket.id[:6]
            assert main(words[1:]) == 0, line
    assert len(commands) >= 8
    assert names["table"]["error"].isna().all()
    assert tickets(folder, only_open=True) == []
    assert len(pd.read_json("judgments.jsonl", lines=True)) == len(items) * SAMPLES
    assert "error" not in capsys.readouterr().err
