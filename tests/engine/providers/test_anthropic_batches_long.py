"""Batches of Anthropic's form, against a server with faults: what they bring, what they cost, what is paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from batch_runs import assert_paid_once, judged, sent, some_items, waits_watched
from batch_server import batch_server
from message_batch_server import INPUT_TOKENS, OUTPUT_TOKENS, MessageBatchServer
from places import SUPPORT

import evalkit as ek
from evalkit.engine import tickets
from evalkit.engine.batches import ticket_in_progress
from evalkit.errors import ConfigError

pytest.importorskip("anthropic", reason="needs the extra anthropic")

PRICE = (INPUT_TOKENS * 3 + OUTPUT_TOKENS * 15) / 1e6


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessageBatchServer]:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-tests-only")
    monkeypatch.setattr(ticket_in_progress, "_FIRST_POLL_S", 0.01)
    monkeypatch.setattr(ticket_in_progress, "_LONGEST_POLL_S", 0.02)
    monkeypatch.setattr("evalkit.engine.providers.waits.FIRST_WAIT_S", 0.01)
    with batch_server(MessageBatchServer()) as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


def judge_at(server: Any, **fields: Any) -> ek.Judge:
    """A judge that costs as at Anthropic's own service, but is asked at the server of the tests."""
    own = {"service": "api.anthropic.com", "api_key_env": "ANTHROPIC_API_KEY"} | fields
    return ek.Judge("anthropic", "claude-sonnet-4-6", base_url=server.url, **own)


def test_a_batch_brings_what_live_calls_would_at_half_the_price(
    server: MessageBatchServer, folder: str, tmp_path: Path
) -> None:
    items, judge = some_items(12), judge_at(server)
    live = judged(items, judge, str(tmp_path / "live"))
    n_live, server.live_calls = server.live_calls, 0
    server.billed.clear()
    ticket = sent(items, judge, folder)
    assert ticket.table[["state", "n_requests", "n_replies"]].values.tolist() == [["running (in_progress)", 36, 36]]
    done = ek.collect(ticket, progress=False)
    table = judged(items, judge, folder, offline=True, on_miss="raise")
    apart = ["source", "cost_usd", "latency_s"]
    pd.testing.assert_frame_equal(table.drop(columns=apart), live.drop(columns=apart))
    assert (n_live, server.live_calls) == (36, 0)
    assert_paid_once(server, 12)
    assert live["cost_usd"].sum() == pytest.approx(36 * PRICE)
    assert table["cost_usd"].sum() == pytest.approx(36 * PRICE / 2)
    assert done.table["cost_usd"].tolist() == pytest.approx([36 * PRICE / 2])
    assert not done.is_open


def test_custom_ids_carry_the_ticket_and_the_version_fits_the_parameters(
    server: MessageBatchServer, folder: str
) -> None:
    ticket = sent(some_items(2), judge_at(server, temperature=None), folder)
    sent(some_items(2), judge_at(server, temperature=0.5), folder)
    (first, second) = server.batches.values()
    assert [one["custom_id"] for one in first["asked"]] == [f"{ticket.id}-0_{number}" for number in range(6)]
    assert [version for _, version in server.versions] == ["2026-10-21", "2023-06-01"]
    assert ["temperature" in one["asked"][0]["params"] for one in (first, second)] == [False, True]


def test_a_ticket_is_cut_at_the_limits(
    server: MessageBatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalkit.engine.providers.anthropic_batches.Service.max_requests", 7)
    monkeypatch.setattr("evalkit.engine.providers.anthropic_batches._PIECE", 100)
    ticket = sent(some_items(5), judge_at(server), folder)
    assert ticket.table["n_requests"].tolist() == [7, 7, 1]
    ek.collect(ticket, progress=False)
    assert_paid_once(server, 5)


FAULTS = {
    "shuffle": {"shuffle": 1},
    "cut within a line": {"cut_results": 1},
    "cut between two lines": {"cut_results": 2},
    "drop": {"drop_create": 1},
    "500 after creation": {"stuck_create": 1},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_that_need_no_second_batch(server: MessageBatchServer, folder: str, fault: str) -> None:
    server.faults.update(FAULTS[fault])
    server.statuses.update({"/v1/messages/batches/": [529, 429]})
    items, judge = some_items(9), judge_at(server)
    done = ek.collect(sent(items, judge, folder), progress=False)
    assert done.table["n_stored"].tolist() == [27]
    assert not server.faults.total(), "it happened"
    assert len(server.batches) == 1
    assert judged(items, judge, folder, offline=True)["error"].isna().all()
    assert_paid_once(server, 9)


@pytest.mark.parametrize(
    ("fault", "n_unanswered", "reason"),
    [("error_lines", 4, "server_error"), ("expire_half", 13, "before all requests were processed")],
)
def test_what_a_batch_leaves_open_is_sent_again(
    server: MessageBatchServer, folder: str, fault: str, n_unanswered: int, reason: str
) -> None:
    server.faults[fault] = 1
    items, judge = some_items(9), judge_at(server)
    done = ek.collect(sent(items, judge, folder), progress=False)
    assert done.table["n_unanswered"].tolist() == [n_unanswered]
    assert reason in done.table["problem"].iloc[0]
    rest = sent(items, judge, folder)
    assert rest.table["n_replies"].tolist() == [n_unanswered]
    ek.collect(rest, progress=False)
    assert judged(items, judge, folder, offline=True)["error"].isna().all()
    assert_paid_once(server, 9)


@pytest.mark.parametrize("name", ["temperature", "output_config"])
def test_a_parameter_that_the_model_refuses_is_left_out_the_next_time(
    server: MessageBatchServer, folder: str, name: str
) -> None:
    server.refuses_parameter = name
    items, judge = some_items(2), judge_at(server, temperature=0.5)
    done = ek.collect(sent(items, judge, folder), progress=False)
    assert done.table["n_stored"].tolist() == [0]
    assert not server.billed
    ek.collect(sent(items, judge, folder), progress=False)
    assert judged(items, judge, folder, offline=True)["error"].isna().all()
    assert_paid_once(server, 2)


def test_a_cancelled_batch_keeps_what_was_answered(server: MessageBatchServer, folder: str) -> None:
    server.takes_s = 3600
    ticket = sent(some_items(4), judge_at(server), folder)
    done = ek.collect(ticket, cancel=True, progress=False)
    assert done.table[["n_stored", "n_unanswered"]].values.tolist() == [[6, 6]]
    assert "before all requests were processed" in done.table["problem"].item()
    assert not done.is_open


def test_what_is_refused_as_a_whole_is_unsent_and_free(server: MessageBatchServer, folder: str) -> None:
    server.statuses["/v1/messages/batches"] = [413]
    with pytest.raises(ek.errors.JudgeError, match="413"):
        sent(some_items(2), judge_at(server), folder)
    ek.collect(sent(some_items(2), judge_at(server), folder), progress=False)
    assert_paid_once(server, 2)
    with pytest.raises(ConfigError, match="max_tokens"):
        sent(some_items(3), judge_at(server, max_tokens=None), folder)


# --- whose a batch is


def test_a_batch_that_was_created_after_it_was_given_up_is_cancelled(
    server: MessageBatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests are on their way for so long that another process takes the sender for dead."""
    ask, server.takes_s = ticket_in_progress.OpenTicket._ask, 3600

    def slow(self: Any, at: int, action: str, *args: Any, **options: Any) -> Any:
        if action == "create":
            monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
            assert ek.collect(self.stored.ticket, cache=folder, wait=False).table["state"].tolist() == ["unsent"]
        return ask(self, at, action, *args, **options)

    monkeypatch.setattr(ticket_in_progress.OpenTicket, "_ask", slow)
    with pytest.raises(ek.errors.JudgeError, match="no batch could be sent"):
        sent(some_items(3), judge_at(server), folder)
    assert [one["state"] for one in server.batches.values()] == ["canceling"]
    assert not server.billed


def test_a_sender_gives_up_before_others_take_it_for_dead(
    server: MessageBatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service asks five times for a wait of 280 s, and another process looks at the ticket after each of them."""
    server.faults["busy_create"], server.takes_s = 5, 3600
    with waits_watched(monkeypatch, folder) as waits, pytest.raises(ek.errors.JudgeError, match="too busy"):
        sent(some_items(3), judge_at(server), folder)
    assert waits == pytest.approx([280] * 3, abs=1), "a fourth wait would end after 900 s"
    assert not server.batches, "before, another process had freed the replies when this one created the batch"
    server.faults.clear()
    server.takes_s = 0
    ek.collect(sent(some_items(3), judge_at(server), folder), progress=False)
    assert_paid_once(server, 3)


def test_a_batch_that_runs_and_may_be_the_one_is_waited_for(
    server: MessageBatchServer, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    server.takes_s, server.faults["drop_create"] = 3600, 1
    ticket = sent(some_items(3), judge_at(server), folder)
    assert ticket.table["state"].tolist() == ["sending"]
    for _ in range(2):
        shown = ek.collect(ticket, wait=False)
        assert shown.table["state"].tolist() == ["sending"]
        assert "batch msgbatch_000001 may belong to this ticket" in shown.table["problem"].iloc[0]
    assert judged(some_items(3), judge_at(server), folder)["error"].eq("in_batch").all()
    server.offset_s = 3601
    assert ek.collect(ticket, wait=False).table["n_stored"].tolist() == [9]
    assert len(server.batches) == 1
    assert_paid_once(server, 3)


def test_batches_of_others_are_not_taken_for_ones_own(
    server: MessageBatchServer, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = judge_at(server)
    for number in range(3):  # of the same size, and they have ended
        ek.collect(sent(some_items(3, 10 * number + 10), judge, str(tmp_path / "other")), progress=False)
    server.takes_s = 3600
    sent(some_items(4, 90), judge, str(tmp_path / "other"))  # of another size, and it runs
    server.takes_s, server.statuses["/v1/messages/batches"] = 0, [500]  # nothing was created
    ticket = sent(some_items(3), judge, folder)
    assert ek.collect(ticket, wait=False).table["state"].tolist() == ["sending"]
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    assert ek.collect(ticket, wait=False).table["state"].tolist() == ["unsent"]
    assert len(server.batches) == 4
    ek.collect(sent(some_items(3), judge, folder), progress=False)
    assert_paid_once(server, 3 * 3 + 3)


def test_a_batch_that_turns_out_to_be_anothers_frees_the_replies(
    server: MessageBatchServer, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.takes_s = 3600
    sent(some_items(3, 50), judge_at(server), str(tmp_path / "other"))
    server.statuses["/v1/messages/batches"] = [500]
    ticket = sent(some_items(3), judge_at(server), folder)
    monkeypatch.setattr(ticket_in_progress, "CERTAIN_S", 0.0)
    assert "may belong to this ticket" in ek.collect(ticket, wait=False).table["problem"].iloc[0]
    server.offset_s = 3601
    row = ek.collect(ticket, wait=False).table.iloc[0]
    assert (row["state"], "HTTP 500" in row["problem"], "may be" in row["problem"]) == ("unsent", True, False)


def test_an_old_batch_ends_the_search(server: MessageBatchServer, folder: str) -> None:
    judge = judge_at(server)
    sent(some_items(3, 50), judge, folder)
    for one in server.batches.values():
        one["created"] -= 2 * 3600
        one["due"] = 1e12
    server.statuses["/v1/messages/batches"] = [500]
    ticket = sent(some_items(3), judge, folder)
    seen = len(server.seen)
    assert ek.collect(ticket, wait=False).table["state"].tolist() == ["sending"]
    assert server.seen[seen:] == [("GET", "/v1/messages/batches")]


CHILD = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from test_anthropic_batches_long import judge_at, sent, some_items

class Server:
    url = sys.argv[3]

print("ready", flush=True)
sent(some_items(5), judge_at(Server), sys.argv[4])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_process_killed_after_creation_loses_nothing(server: MessageBatchServer, folder: str) -> None:
    server.create_goes_on.clear()
    arguments = [str(SUPPORT), str(Path(__file__).parent), server.url, folder]
    with subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE) as child:
        deadline = time.monotonic() + 120
        while not server.batches and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(child.pid, signal.SIGKILL)
    server.create_goes_on.set()
    (ticket,) = tickets(folder, only_open=True)
    assert ticket.table["state"].tolist() == ["sending"]
    done = ek.collect(ticket, progress=False)
    assert done.table["n_stored"].tolist() == [15]
    assert_paid_once(server, 5)
    assert sent(some_items(5), judge_at(server), folder).id == ""
